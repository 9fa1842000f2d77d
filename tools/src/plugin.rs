//! Commands with plugins, which are shared libraries.
//!
//! A plugin is linked with relay-opt as a shared library (the crate `relay-opt-shared`), so that
//! there is one copy of everything that they have in common: interned types, hooks found by their
//! Rust type, the allocator, panics. relay-opt itself is linked statically and has another copy.
//! **So a command with plugins runs in the shared library**: the program checks the plugins, loads
//! them and hands its arguments and streams over to the library that came with them.
//!
//! This is the one place where memory safety rests on what other files hold:
//! - A file is loaded only if its [`DESCRIPTION`] is that of this build: same version, same
//!   sources, same compiler. It is read from the file, so that no code of another build runs.
//! - Between a plugin and the library, types are Rust's: the linker joins them by symbols that hold
//!   a hash of the crate, its compiler and its settings.
//! - Between the program and the library, which may have been compiled with other settings, types
//!   are C's (`Call`).
//! - Libraries are never unloaded: what they registered lives as long as the process.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::c_void;
use std::fs;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use ir_core::pipeline::catch_panic;
use ir_core::{Diagnostic, Diagnostics, Registry};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::driver::plugin::{REBUILD, check, failed};
use crate::driver::report::refuse;
use crate::process::exit::{INTERNAL, USAGE};
use crate::process::io::{Io, plain};
use crate::relay_opt::main_loaded;

pub use crate::driver::plugin::DESCRIPTION;

/// The name under which a plugin is found.
const SYMBOL: &str = "RELAY_OPT_PLUGIN";

/// What relay-opt finds in a plugin; [`plugin!`](crate::plugin!) makes it.
#[repr(C)]
pub struct Plugin {
    /// [`DESCRIPTION`], from the plugin's own file.
    description: &'static str,
    /// Runs a command in the library that the plugin is linked with.
    enter: unsafe extern "C" fn(*const Call) -> i32,
    /// Adds what the plugin has.
    register: fn(&mut Registry),
}

impl Plugin {
    /// A plugin that `register` adds. `description` is a parameter so that its text lies in the
    /// plugin's file.
    pub const fn new(description: &'static str, register: fn(&mut Registry)) -> Plugin {
        Plugin { description, enter, register }
    }
}

/// Makes a shared library a plugin: `plugin!(register)`, where `register` is a function
/// `fn(&mut Registry)` that adds passes, operations, rules and targets.
#[macro_export]
macro_rules! plugin {
    ($register:path) => {
        /// What relay-opt looks for in a plugin.
        #[unsafe(no_mangle)]
        pub static RELAY_OPT_PLUGIN: $crate::plugin::Plugin =
            $crate::plugin::Plugin::new($crate::plugin::DESCRIPTION, $register);
    };
}

/// A plugin that was loaded, and its path.
#[repr(C)]
struct Loaded {
    plugin: *const Plugin,
    path: Bytes,
}

/// Text or bytes that live as long as a call.
#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    start: *const u8,
    length: usize,
}

impl Bytes {
    fn new(text: &str) -> Bytes {
        Bytes { start: text.as_ptr(), length: text.len() }
    }

    /// # Safety
    /// These are the bytes of a text that lives as long as `'a`.
    unsafe fn text<'a>(self) -> &'a str {
        // SAFETY: `new` takes both from a `&str`.
        unsafe { str::from_utf8_unchecked(slice::from_raw_parts(self.start, self.length)) }
    }
}

/// A command with its streams, as it goes from the program to the library.
#[repr(C)]
struct Call {
    arguments: *const Bytes,
    argument_count: usize,
    plugins: *const Loaded,
    plugin_count: usize,
    directory: Bytes,
    styled: bool,
    signals: bool,
    /// The `Io` of the program.
    io: *mut c_void,
    /// Reads into a buffer; the bytes read, or a negative [`code`].
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> isize,
    /// Writes to standard output, or to standard error where the second argument says so; 0 or a
    /// negative [`code`].
    write: unsafe extern "C" fn(*mut c_void, bool, *const u8, usize) -> isize,
    /// Flushes likewise.
    flush: unsafe extern "C" fn(*mut c_void, bool) -> isize,
}

/// Runs relay-opt with plugins. `registry` is that of the program.
///
/// # Errors
/// When a plugin cannot be loaded. Errors of the plugins' registration are written by the library.
pub(crate) fn run(
    paths: &[PathBuf],
    args: &[String],
    registry: &Registry,
    io: &mut Io<'_>,
) -> Result<i32, Diagnostics> {
    if let Some(name) = own(registry) {
        let message = format!("this program cannot load plugins, since it has `{name}` of its own");
        let help = "make that a plugin as well, and load both into `relay-opt`";
        return Err(Diagnostic::error("E0740", message).help(help).into());
    }
    let mut plugins: Vec<(&'static Plugin, String)> = Vec::new();
    for path in paths {
        plugins.push((load(path)?, path.display().to_string()));
    }
    let Some((first, first_path)) = plugins.first() else { return Ok(USAGE) };
    if let Some((_, path)) =
        plugins.iter().find(|(plugin, _)| plugin.enter as usize != first.enter as usize)
    {
        let message = format!("`{path}` and `{first_path}` are linked with different libraries");
        return Err(Diagnostic::error("E0741", message).help(REBUILD).into());
    }
    let arguments: Vec<Bytes> = args.iter().map(|arg| Bytes::new(arg)).collect();
    let loaded: Vec<Loaded> = plugins
        .iter()
        .map(|(plugin, path)| Loaded { plugin: &raw const **plugin, path: Bytes::new(path) })
        .collect();
    let directory = io.directory.to_string_lossy().into_owned();
    let call = Call {
        arguments: arguments.as_ptr(),
        argument_count: arguments.len(),
        plugins: loaded.as_ptr(),
        plugin_count: loaded.len(),
        directory: Bytes::new(&directory),
        styled: io.styled,
        signals: io.signals,
        io: (&raw mut *io).cast(),
        read,
        write,
        flush,
    };
    // SAFETY: `call` and what it points to live until `enter` returns, which keeps none of it, and
    // nothing else uses `io` meanwhile. `enter` is a function of this signature, as the equal
    // description says.
    Ok(unsafe { (first.enter)(&raw const call) })
}

/// A command of a plugin without optimizations that takes longer is told of them.
const PATIENCE: Duration = Duration::from_secs(5);

const SLOW: &str = "this plugin, and relay-opt with it, was built without all optimizations; \
                    `relay-opt plugin build --release` makes it faster";

/// Something in `registry` that relay-opt does not have.
fn own(registry: &Registry) -> Option<&'static str> {
    let base = runtime::registry();
    let mut passes = registry.passes().map(|pass| pass.name);
    let mut ops = registry.ops().map(|info| info.def.name);
    let mut targets = target_core::targets(registry).all().iter().map(|target| target.name);
    passes
        .find(|name| base.find_pass(name).is_none())
        .or_else(|| ops.find(|name| base.info(*name).is_none()))
        .or_else(|| {
            let known = target_core::targets(&base).all();
            targets.find(|name| known.iter().all(|target| target.name != *name))
        })
}

/// Loads a plugin for the rest of the process.
fn load(path: &Path) -> Result<&'static Plugin, Diagnostics> {
    check(path)?;
    let failed = |what: String| failed(path, what);
    let path = fs::canonicalize(path).map_err(|error| failed(plain(&error)))?;
    // SAFETY: its description says that the file was made by `plugin!` of these sources with this
    // compiler. Its initializers are those of the Rust standard library, and what its author wrote.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| failed(reason(&error)).help(REBUILD))?;
    // Never unloaded.
    let library = ManuallyDrop::new(library);
    // SAFETY: `plugin!` gives the symbol this type, of which `description` and `enter` have the
    // same layout in every compilation; `register` is used in the library only.
    let plugin = unsafe { library.get::<*const Plugin>(SYMBOL.as_bytes()) };
    let plugin = plugin.map_err(|error| failed(reason(&error)))?;
    // SAFETY: the symbol is a static, which is never written to.
    Ok(unsafe { &**plugin })
}

/// What the system's loader says.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Runs a command in the library that the plugins are linked with, which this is.
unsafe extern "C" fn enter(call: *const Call) -> i32 {
    // SAFETY: `run` gives an initialized call with arrays of these lengths, which live until this
    // returns.
    let (call, arguments, plugins) = unsafe {
        let call = &*call;
        let arguments = slice::from_raw_parts(call.arguments, call.argument_count);
        (call, arguments, slice::from_raw_parts(call.plugins, call.plugin_count))
    };
    // SAFETY: `run` makes them of texts.
    let text = |bytes: &Bytes| unsafe { bytes.text() };
    let arguments: Vec<String> = arguments.iter().map(|bytes| text(bytes).to_string()).collect();
    let mut stdin = Stream { call, to_stderr: false };
    let mut stdout = Stream { call, to_stderr: false };
    let mut stderr = Stream { call, to_stderr: true };
    let mut io = Io {
        stdin: &mut stdin,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: text(&call.directory).into(),
        styled: call.styled,
        signals: call.signals,
    };
    let run = || {
        let mut registry = runtime::registry();
        for loaded in plugins {
            // SAFETY: `load` found it in a library that is never unloaded and is linked with this
            // one, as `run` checked, so that the types are the same.
            let plugin = unsafe { &*loaded.plugin };
            let registered = catch_panic(|| (plugin.register)(&mut registry));
            if let Err(message) = registered {
                let path = text(&loaded.path);
                let message = format!("the plugin `{path}` does not register: {message}");
                let error = Diagnostic::error("E0742", message)
                    .help("names of passes, operations, rules and targets must be new");
                return refuse(error, &mut io);
            }
        }
        let start = Instant::now();
        let status = main_loaded(&registry, &arguments, &mut io);
        // Servers and `--watch` wait for people.
        let waits = arguments.iter().any(|argument| argument == "lsp" || argument == "--watch");
        if cfg!(debug_assertions) && !waits && start.elapsed() >= PATIENCE {
            // Where nobody can be told, nothing is lost.
            let _ = writeln!(io.stderr, "note: {SLOW}");
        }
        status
    };
    // A panic must not leave a function of C.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(INTERNAL)
}

/// A stream of the program, in the library.
struct Stream<'a> {
    call: &'a Call,
    to_stderr: bool,
}

// SAFETY: the functions of the call reach one stream of the program each, and that of standard
// output may be used from any thread, as its type says. A stream has one user at a time.
unsafe impl Send for Stream<'_> {}

impl Stream<'_> {
    fn result(&self, code: isize) -> io::Result<usize> {
        usize::try_from(code).map_err(|_| match code {
            BROKEN_PIPE => io::ErrorKind::BrokenPipe.into(),
            code => io::Error::from_raw_os_error(i32::try_from(-code).unwrap_or(0)),
        })
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `io` is the program's, and `buffer` has room for that many bytes.
        let code = unsafe { (self.call.read)(self.call.io, buffer.as_mut_ptr(), buffer.len()) };
        self.result(code)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: `io` is the program's, and `bytes` has that many bytes.
        let code =
            unsafe { (self.call.write)(self.call.io, self.to_stderr, bytes.as_ptr(), bytes.len()) };
        self.result(code).map(|_| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // SAFETY: `io` is the program's.
        let code = unsafe { (self.call.flush)(self.call.io, self.to_stderr) };
        self.result(code).map(|_| ())
    }
}

/// A broken pipe, whatever number the system gives it.
const BROKEN_PIPE: isize = isize::MIN;

/// A result as a number: what is not negative, or an error.
fn code(result: io::Result<usize>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => BROKEN_PIPE,
        // 5 is an error of input and output on every system.
        Err(error) => -(error.raw_os_error().unwrap_or(5) as isize).abs(),
    }
}

// One thread may read while another one writes: each of these borrows one stream, never the `Io`.

unsafe extern "C" fn read(io: *mut c_void, start: *mut u8, length: usize) -> isize {
    // SAFETY: `io` comes from `run`, which lends it for the call; a reader fills initialized bytes.
    let (stdin, buffer) =
        unsafe { (&mut *(*io.cast::<Io<'_>>()).stdin, slice::from_raw_parts_mut(start, length)) };
    code(stdin.read(buffer))
}

unsafe extern "C" fn write(io: *mut c_void, err: bool, start: *const u8, length: usize) -> isize {
    // SAFETY: as in `read`.
    let bytes = unsafe { slice::from_raw_parts(start, length) };
    // SAFETY: as in `read`.
    code(unsafe { stream(io, err) }.write_all(bytes).map(|()| 0))
}

unsafe extern "C" fn flush(io: *mut c_void, err: bool) -> isize {
    // SAFETY: as in `read`.
    code(unsafe { stream(io, err) }.flush().map(|()| 0))
}

/// # Safety
/// `io` is that of a call of [`run`] that has not returned, and the stream has no other user.
unsafe fn stream<'a>(io: *mut c_void, err: bool) -> &'a mut dyn Write {
    let io = io.cast::<Io<'a>>();
    // SAFETY: as its callers promise.
    match err {
        true => unsafe { &mut *(*io).stderr },
        false => unsafe { &mut *(*io).stdout },
    }
}
