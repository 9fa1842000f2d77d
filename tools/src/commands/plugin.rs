//! The subcommand `plugin`: making and building plugins.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use ir_core::files::{self, OutputFile};
use ir_core::{Diagnostic, Diagnostics};

use crate::driver::plugin::check;
use crate::driver::report::refuse;
use crate::process::exit::OK;
use crate::process::io::{Io, plain};

/// Makes and builds plugins.
#[derive(Args, Debug)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

/// What there is to do with plugins.
#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// Makes a folder with a plugin: a pass, its test, and what builds them
    New {
        /// Name of the plugin: small letters, digits and `-`
        name: String,
        /// The folder to make; the default is the name
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
        /// The sources of this program; the default is where it was built
        #[arg(long, value_name = "DIR")]
        source: Option<String>,
    },
    /// Builds a plugin, and says how to load it
    Build {
        /// The folder of the plugin
        #[arg(default_value = ".")]
        folder: String,
        /// Compiles the plugin, and relay-opt with it, with all optimizations
        #[arg(long)]
        release: bool,
        /// Copies the plugin and the libraries that it needs to this folder
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
    },
}

/// The files of a new plugin, by their path in its folder. `{name}` stands for its name, `{crate}`
/// for what Rust calls it, and `{source}` for the sources of this program.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("plugin/Cargo.toml.template")),
    ("build.rs", include_str!("plugin/build.rs.template")),
    ("src/lib.rs", include_str!("plugin/lib.rs.template")),
    ("tests/lit.rs", include_str!("plugin/lit.rs.template")),
    ("tests/{name}.relay", include_str!("plugin/test.relay.template")),
    (".gitignore", "/target\n"),
];

/// The compiler of this program, and so of its plugins.
const COMPILER: &str = env!("RELAY_OPT_COMPILER");

/// Runs a command about plugins.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn plugin(args: &Plugin, io: &mut Io<'_>) -> io::Result<i32> {
    let done = match &args.command {
        PluginCommand::New { name, output, source } => {
            let folder = output.clone().unwrap_or_else(|| name.clone());
            new(name, &folder, source.as_deref(), io)
        }
        PluginCommand::Build { folder, release, output } => {
            build(folder, *release, output.as_deref(), io)
        }
    };
    match done {
        Ok(lines) => {
            writeln!(io.stdout, "{lines}")?;
            Ok(OK)
        }
        Err(error) => Ok(refuse(error, io)),
    }
}

fn failed(what: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E0743", what)
}

/// Writes the files of a new plugin; what to do next.
fn new(
    name: &str,
    folder: &str,
    source: Option<&str>,
    io: &mut Io<'_>,
) -> Result<String, Diagnostics> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !(name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(known)) {
        let message = format!("`{name}` is no name for a plugin");
        return Err(failed(message)
            .help("expected small letters, digits and `-`, starting with a letter")
            .into());
    }
    let source = match source {
        Some(path) => io.directory.join(path),
        None => own_source(),
    };
    let source = fs::canonicalize(&source)
        .ok()
        .filter(|source| source.join("tools/shared/Cargo.toml").is_file())
        .ok_or_else(|| {
            failed(format!("the sources of relay-opt are not in `{}`", source.display()))
                .help("a plugin is compiled with them: say where they are with `--source DIR`")
        })?;
    let target = io.directory.join(folder);
    let unwritable = |path: &Path, error: &io::Error| {
        Diagnostic::error("E0724", format!("cannot write `{}`: {}", path.display(), plain(error)))
    };
    if fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(failed(format!("`{folder}` holds files already"))
            .help("choose another folder with `--output DIR`")
            .into());
    }
    let crate_name = name.replace('-', "_");
    let source = source.display().to_string();
    let fill = |text: &str| {
        let text = text.replace("{name}", name).replace("{crate}", &crate_name);
        text.replace("{source}", &source)
    };
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (path, text) in FILES {
        files.push((target.join(fill(path)), fill(text).into_bytes()));
    }
    for (path, bytes) in files {
        let parent = path.parent().unwrap_or(&target);
        fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        files::write(&path, bytes).map_err(|error| unwritable(&path, &error))?;
    }
    for name in ["Cargo.lock", "rust-toolchain.toml"] {
        inherit(Path::new(&source), &target, name);
    }
    Ok(format!(
        "made the plugin `{name}` in `{folder}`; the pass is in `{folder}/src/lib.rs`\n\
         build it:  relay-opt plugin build {folder}\n\
         test it:   cd {folder} && cargo test"
    ))
}

/// Gives a plugin the file `name` of the sources where it has none: the versions of its dependencies
/// or of the compiler that relay-opt is built with, so that they are here already and known to work.
/// Without it, the newest are taken.
fn inherit(source: &Path, folder: &Path, name: &str) {
    let file = folder.join(name);
    if !file.exists() {
        let _ = fs::read(source.join(name)).and_then(|text| files::write(&file, text));
    }
}

/// Where the sources of this program were when it was built.
fn own_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the plugin in `folder`; how to load it.
fn build(
    folder: &str,
    release: bool,
    output: Option<&str>,
    io: &mut Io<'_>,
) -> Result<String, Diagnostics> {
    let path = io.directory.join(folder);
    if !path.join("Cargo.toml").is_file() {
        return Err(failed(format!("there is no plugin in `{folder}`: it has no Cargo.toml"))
            .help("`relay-opt plugin new NAME` makes one")
            .into());
    }
    let found = rustc(&["--version"], &path)?;
    if found != COMPILER {
        return Err(failed("a plugin needs the compiler that built relay-opt")
            .note(format!("relay-opt was built by {COMPILER}"))
            .note(format!("here is {found}"))
            .help("install that compiler, or build relay-opt with this one")
            .into());
    }
    inherit(&own_source(), &path, "Cargo.lock");
    let mut command = Command::new("cargo");
    command.args(["build", "--lib", "--message-format=json-render-diagnostics"]);
    command.args(release.then_some("--release"));
    command.current_dir(&path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let unrunnable = |error: io::Error| failed(format!("cannot run cargo: {}", plain(&error)));
    let mut child = command.spawn().map_err(unrunnable)?;
    let messages = child
        .stdout
        .take()
        .map(|stdout| std::thread::spawn(move || io::read_to_string(stdout).unwrap_or_default()));
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // Whoever does not read this gets the result all the same.
            let _ = writeln!(io.stderr, "{line}");
        }
    }
    let messages = messages.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let status = child.wait().map_err(unrunnable)?;
    if !status.success() {
        return Err(failed("the plugin does not compile").into());
    }
    let library = library(&messages, &path).ok_or_else(|| {
        failed(format!("`{folder}` makes no shared library"))
            .help("expected `crate-type = [\"cdylib\", \"lib\"]` under `[lib]` in Cargo.toml")
    })?;
    check(&library)?;
    let library = match output {
        None => library,
        Some(output) => copy(&library, &io.directory.join(output), &path)?,
    };
    let current = std::env::current_dir().map(|current| current.join(&io.directory));
    let shown = match current.as_ref().map(|current| library.strip_prefix(current)) {
        Ok(Ok(relative)) => relative.display(),
        _ => library.display(),
    };
    Ok(format!("built `{shown}`\nuse it:  relay-opt --load-plugin {shown} --list-passes"))
}

/// What `rustc` in `folder` answers.
fn rustc(args: &[&str], folder: &Path) -> Result<String, Diagnostics> {
    let output = Command::new("rustc").args(args).current_dir(folder).output();
    let output = output.map_err(|error| {
        failed(format!("cannot run rustc: {}", plain(&error)))
            .help("a plugin is compiled: install the Rust toolchain, `https://rustup.rs`")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The shared library that cargo says it made of the package in `folder`.
fn library(messages: &str, folder: &Path) -> Option<PathBuf> {
    let manifest = fs::canonicalize(folder).ok()?.join("Cargo.toml");
    messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let kinds = message["target"]["crate_types"].as_array()?;
        let made = message["manifest_path"].as_str() == manifest.to_str()
            && kinds.iter().any(|kind| kind == "cdylib");
        let files = message["filenames"].as_array().filter(|_| made)?;
        let mut files = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from);
        files.find(|file| file.extension().is_some_and(|end| end == "so" || end == "dylib"))
    })
}

/// Copies a plugin and what it is linked with to `folder`; where the plugin is then.
fn copy(library: &Path, folder: &Path, sources: &Path) -> Result<PathBuf, Diagnostics> {
    let unwritable = |error: io::Error| {
        let message = format!("cannot write `{}`: {}", folder.display(), plain(&error));
        Diagnostic::error("E0724", message)
    };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let parent = library.parent().unwrap_or(Path::new("."));
    let standard = PathBuf::from(rustc(&["--print", "target-libdir"], sources)?);
    let mut copied = None;
    for (from, start) in [
        (library.to_path_buf(), ""),
        (parent.join("deps"), "librelay_opt_shared."),
        (standard, "libstd-"),
    ] {
        let files = match start {
            "" => vec![from],
            start => {
                let entries = fs::read_dir(&from).map_err(unwritable)?;
                let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
                let named = |path: &PathBuf| {
                    let name = path.file_name().map(|name| name.to_string_lossy());
                    name.is_some_and(|name| {
                        name.starts_with(start)
                            && (name.ends_with(".so") || name.ends_with(".dylib"))
                    })
                };
                paths.filter(named).collect()
            }
        };
        for file in files {
            let Some(name) = file.file_name() else { continue };
            let to = folder.join(name);
            // A library in use must not change in place.
            let copy = || {
                let mut out = OutputFile::create(&to)?;
                io::copy(&mut fs::File::open(&file)?, &mut out)?;
                out.finish()
            };
            copy().map_err(unwritable)?;
            copied.get_or_insert(to);
        }
    }
    copied.ok_or_else(|| failed("nothing was built")).map_err(Diagnostics::from)
}
