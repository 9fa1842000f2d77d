//! Compiled code on disk, by content.
//!
//! An entry is a file `KEY/HASH.so`: the key is that of the sources, the flags, the compiler and
//! the machine, the
//! hash that of the file itself. So a file that was cut off or changed is seen as such, and made
//! again; and since files get their name last, by renaming, nobody sees half of one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use ir_core::diagnostics::Diagnostic;

use super::compiler::Compiler;

/// A folder of compiled code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// The names of files while they are made are unique by process and by this.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// What code for this very machine depends on, so that machines can share a cache.
static MACHINE: LazyLock<String> = LazyLock::new(|| {
    let of_processor =
        |line: &&str| ["model name", "flags", "Features"].iter().any(|key| line.starts_with(key));
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().filter(of_processor).collect();
    lines.dedup();
    lines.truncate(2);
    format!("{} {}", std::env::consts::ARCH, lines.join("\n"))
});

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Cache {
    /// The cache in `folder`, which is made where it does not exist.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Cache, Diagnostic> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        Ok(Cache { folder })
    }

    /// The cache that `RELAY_CACHE_DIR` names, else one in the user's cache folder, else one among
    /// the temporary files.
    pub fn find() -> Result<Cache, Diagnostic> {
        if let Some(folder) = variable("RELAY_CACHE_DIR") {
            return Cache::at(folder);
        }
        let users = variable("XDG_CACHE_HOME")
            .or_else(|| variable("LOCALAPPDATA"))
            .or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let usual = users.map(|folder| Cache::at(folder.join("relay")));
        match usual {
            Some(Ok(cache)) => Ok(cache),
            _ => Cache::at(std::env::temp_dir().join("relay-cache")),
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
    ) -> Result<PathBuf, Diagnostic> {
        let mut hash = Hash::default();
        let parts = flags.iter().map(String::as_str).chain([compiler.version(), &*MACHINE]);
        for part in parts.chain(sources.iter().copied()) {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let key = format!("{:032x}", hash.0);
        let folder = self.folder.join(&key);
        if let Some(entry) = intact_entry(&folder) {
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
    ) -> Result<PathBuf, Diagnostic> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let scratch = self.folder.join(format!("making-{}-{number}", std::process::id()));
        fs::create_dir_all(&scratch).map_err(|error| unwritable(&scratch, &error))?;
        let scratch = Scratch(scratch);
        for (index, source) in sources.iter().enumerate() {
            let file = scratch.0.join(format!("kernels{index}.c"));
            fs::write(&file, source).map_err(|error| unwritable(&file, &error))?;
        }
        let compile = |index: usize| -> Result<(), Diagnostic> {
            let mut arguments = flags.to_vec();
            let (object, source) = (format!("kernels{index}.o"), format!("kernels{index}.c"));
            arguments.extend(["-fPIC", "-c", "-o", &object, &source].map(String::from));
            let ran = compiler.run(&arguments, &scratch.0);
            ran.map_err(|messages| self.refused(sources[index], key, &messages))
        };
        in_threads(sources.len(), &compile)?;
        let mut arguments: Vec<String> = ["-shared", "-o", "kernels.so"].map(String::from).into();
        arguments.extend((0..sources.len()).map(|index| format!("kernels{index}.o")));
        arguments.push("-lm".to_string());
        if let Err(messages) = compiler.run(&arguments, &scratch.0) {
            return Err(self.refused(&sources.concat(), key, &messages));
        }
        let made = scratch.0.join("kernels.so");
        let bytes = match fs::read(&made) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.refused(
                    &sources.concat(),
                    key,
                    "it ended well, and wrote no file",
                ));
            }
            Err(error) => return Err(unwritable(&made, &error)),
        };
        let folder = self.folder.join(key);
        fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        let entry = folder.join(format!("{:032x}.so", Hash::of(&bytes)));
        fs::rename(&made, &entry).map_err(|error| unwritable(&entry, &error))?;
        Ok(entry)
    }

    /// The compiler's messages, with the source kept for who looks into them.
    fn refused(&self, source: &str, key: &str, messages: &str) -> Diagnostic {
        if messages.contains("No space left on device") {
            return unwritable(&self.folder, &io::Error::other("no space left on device"));
        }
        let kept = self.folder.join(format!("refused-{key}.c"));
        let diagnostic = Diagnostic::error("E0904", "the C compiler refused generated code");
        let diagnostic = match fs::write(&kept, source) {
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
    work: &(dyn Fn(usize) -> Result<(), Diagnostic> + Sync),
) -> Result<(), Diagnostic> {
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

/// The file in `folder` whose contents are what its name says; others are removed.
fn intact_entry(folder: &Path) -> Option<PathBuf> {
    for file in fs::read_dir(folder).ok()?.flatten() {
        let path = file.path();
        let named = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_string);
        let Ok(bytes) = fs::read(&path) else { continue };
        if named == Some(format!("{:032x}", Hash::of(&bytes))) {
            return Some(path);
        }
        let _ = fs::remove_file(&path);
    }
    None
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("E0905", format!("`{}` cannot be written: {error}", path.display()))
        .help("make room, or name another folder in `RELAY_CACHE_DIR`")
}

/// FNV-1a, 128 bits: the same everywhere and for ever.
struct Hash(u128);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Hash {
    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    fn of(bytes: &[u8]) -> u128 {
        let mut hash = Hash::default();
        hash.update(bytes);
        hash.0
    }
}
