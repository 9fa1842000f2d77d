//! Compiled code on disk, by content.
//!
//! An entry is a file `KEY/HASH.so`: the key is that of the sources, the flags, the compiler and
//! the machine, the hash that of the file itself. So a file that was cut off or changed is seen as
//! such, and made again; and since files get their name last, by renaming, nobody sees half of one.
//!
//! What is loaded from here runs as the user. **Nobody else may write to the folder**, and the
//! hashes are keyed by a secret in it (`secret.rs`), so that a file from elsewhere is no entry.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use indexmap::IndexSet;
use ir_core::diagnostics::{Diagnostic, Diagnostics};
use ir_core::files;

use super::compiler::Compiler;
use super::secret::{Secret, secret_of};

/// A folder of compiled code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    folder: PathBuf,
    secret: Secret,
}

/// What code for this very machine depends on, so that machines can share a cache.
static MACHINE: LazyLock<String> = LazyLock::new(|| {
    const KEYS: [&str; 6] =
        ["model name", "flags", "Features", "CPU implementer", "CPU variant", "CPU part"];
    let of_processor = |line: &&str| KEYS.iter().any(|key| line.starts_with(key));
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines: IndexSet<&str> = text.lines().filter(of_processor).collect();
    format!("{} {}", std::env::consts::ARCH, Vec::from_iter(lines).join("\n"))
});

impl Cache {
    /// The cache in `folder`, which is made where it does not exist.
    ///
    /// # Errors
    /// `E0905` where it cannot be made, and where other users may write to it.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Cache, Diagnostics> {
        let folder = folder.into();
        files::own_folder(&folder).map_err(|error| unusable(&folder, &error))?;
        let secret = secret_of(&folder).map_err(|error| unwritable(&folder, &error))?;
        Ok(Cache { folder, secret })
    }

    /// The cache that `RELAY_CACHE_DIR` names, else one in the user's cache folder, else one of the
    /// user among the temporary files.
    ///
    /// # Errors
    /// `E0905` where there is none to use.
    pub fn find() -> Result<Cache, Diagnostics> {
        if let Some(folder) = variable("RELAY_CACHE_DIR") {
            return Cache::at(folder);
        }
        let users = variable("XDG_CACHE_HOME")
            .or_else(|| variable("LOCALAPPDATA"))
            .or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let usual = users.map(|folder| Cache::at(folder.join("relay")));
        match usual {
            Some(Ok(cache)) => Ok(cache),
            _ => Cache::at(std::env::temp_dir().join(format!("relay-cache-{}", user()))),
        }
    }

    /// Which machine it is, as far as compiled code and measurements depend on it.
    pub fn machine() -> &'static str {
        &MACHINE
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The shared object of `sources`, from the cache or from `compiler`, which runs on several of
    /// them at a time.
    pub fn shared_object(
        &self,
        compiler: &Compiler,
        flags: &[String],
        sources: &[&str],
    ) -> Result<PathBuf, Diagnostics> {
        let parts = flags.iter().map(String::as_str).chain([compiler.identity(), &*MACHINE]);
        let parts = parts.chain(sources.iter().copied()).map(str::as_bytes);
        let key = format!("{:032x}", self.secret.hash(parts));
        if let Some(entry) = self.intact_entry(&key) {
            return Ok(entry);
        }
        self.build(compiler, flags, sources, &key)
    }

    fn build(
        &self,
        compiler: &Compiler,
        flags: &[String],
        sources: &[&str],
        key: &str,
    ) -> Result<PathBuf, Diagnostics> {
        let scratch = tempfile::Builder::new().prefix("making-").tempdir_in(&self.folder);
        let scratch = scratch.map_err(|error| unwritable(&self.folder, &error))?;
        let scratch = scratch.path();
        for (index, source) in sources.iter().enumerate() {
            let file = scratch.join(format!("kernels{index}.c"));
            fs::write(&file, source).map_err(|error| unwritable(&file, &error))?;
        }
        let compile = |index: usize| -> Result<(), Diagnostics> {
            let mut arguments = flags.to_vec();
            let (object, source) = (format!("kernels{index}.o"), format!("kernels{index}.c"));
            arguments.extend(["-fPIC", "-c", "-o", &object, &source].map(String::from));
            let ran = compiler.run(&arguments, scratch);
            ran.map_err(|messages| self.refused(sources[index], key, &messages))
                .map_err(Diagnostics::from)
        };
        in_threads(sources.len(), &compile)?;
        let mut arguments: Vec<String> = ["-shared", "-o", "kernels.so"].map(String::from).into();
        arguments.extend((0..sources.len()).map(|index| format!("kernels{index}.o")));
        arguments.push("-lm".to_string());
        if let Err(messages) = compiler.run(&arguments, scratch) {
            return Err(self.refused(&sources.concat(), key, &messages).into());
        }
        let made = scratch.join("kernels.so");
        let bytes = match fs::read(&made) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self
                    .refused(&sources.concat(), key, "it ended well, and wrote no file")
                    .into());
            }
            Err(error) => return Err(unwritable(&made, &error).into()),
        };
        let folder = self.folder.join(key);
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        let entry = folder.join(self.name_of(key, &bytes));
        fs::rename(&made, &entry).map_err(|error| unwritable(&entry, &error))?;
        Ok(entry)
    }

    /// The name of the entry of `key` that holds `bytes`.
    fn name_of(&self, key: &str, bytes: &[u8]) -> String {
        format!("{:032x}.so", self.secret.hash([key.as_bytes(), bytes]))
    }

    /// The file of `key` whose contents are what its name says; others are removed.
    fn intact_entry(&self, key: &str) -> Option<PathBuf> {
        for file in fs::read_dir(self.folder.join(key)).ok()?.flatten() {
            let path = file.path();
            // Neither a pipe nor a link is an entry.
            let is_file = file.file_type().is_ok_and(|kind| kind.is_file());
            let bytes = if is_file { fs::read(&path).ok() } else { None };
            if bytes.is_some_and(|bytes| *file.file_name() == *self.name_of(key, &bytes)) {
                return Some(path);
            }
            // What cannot be removed is no entry the next time either.
            let _ = fs::remove_file(&path);
        }
        None
    }

    /// The compiler's messages, with the source kept for who looks into them.
    fn refused(&self, source: &str, key: &str, messages: &str) -> Diagnostic {
        if messages.contains("No space left on device") {
            return unwritable(&self.folder, &io::Error::other("no space left on device"));
        }
        let kept = self.folder.join(format!("refused-{key}.c"));
        let diagnostic = Diagnostic::error("E0904", "the C compiler refused generated code");
        let diagnostic = match files::write(&kept, source) {
            Ok(()) => diagnostic.note(format!("the source is kept in `{}`", kept.display())),
            Err(error) => diagnostic.note(format!("the source could not be kept: {error}")),
        };
        messages.lines().fold(diagnostic, Diagnostic::note)
    }
}

/// Runs `work` on 0 to `count`, on as many threads as there are processors. The error is the first
/// by number.
fn in_threads(
    count: usize,
    work: &(dyn Fn(usize) -> Result<(), Diagnostics> + Sync),
) -> Result<(), Diagnostics> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let errors = Mutex::new(BTreeMap::new());
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            if let Err(error) = work(index) {
                errors.lock().unwrap_or_else(PoisonError::into_inner).insert(index, error);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    errors.into_values().next().map_or(Ok(()), Err)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// What tells this user from others.
fn user() -> String {
    #[cfg(unix)]
    let user = nix::unistd::geteuid().to_string();
    #[cfg(not(unix))]
    let user = std::env::var("USERNAME").unwrap_or_default();
    user
}

fn unusable(folder: &Path, error: &io::Error) -> Diagnostic {
    // What the system says has a number.
    if error.raw_os_error().is_some() || error.kind() != io::ErrorKind::PermissionDenied {
        return unwritable(folder, error);
    }
    let message = format!("`{}` is no folder for compiled code: {error}", folder.display());
    Diagnostic::error("E0905", message)
        .help("name a folder that only you may write in `RELAY_CACHE_DIR`")
}

fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("E0905", format!("`{}` cannot be written: {error}", path.display()))
        .help("make room, or name another folder in `RELAY_CACHE_DIR`")
}
