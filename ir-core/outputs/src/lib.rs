//! Outputs that are whole or not there.
//!
//! A file is written under another name beside its place, and takes it by renaming when all of it
//! is on the disk. So a full disk costs nothing that was there, and nobody sees half a file.
//!
//! ```
//! let folder = tempfile::tempdir().expect("a folder");
//! let path = folder.path().join("model.c");
//! outputs::write(&path, "int main(void) { return 0; }").expect("a file");
//! assert!(path.is_file());
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file that is being written. It is there, under its name, once [`finish`](OutputFile::finish)
/// succeeds; one that is dropped leaves what was there.
///
/// Permissions of a file that was there are kept, and its owner where that is allowed. A symbolic
/// link stays, and what it leads to is replaced. What is no regular file, such as a pipe, a
/// terminal or `/dev/null`, is written as it goes; so is a file whose folder takes no other.
pub struct OutputFile(Place);

enum Place {
    /// Replaces the file at a path.
    Beside(BufWriter<NamedTempFile>, PathBuf),
    /// Cannot be replaced.
    Through(BufWriter<File>),
}

/// Writes `bytes` to the file at `path`, which is whole or as it was.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

/// As [`write()`], where a symbolic link at `path` is itself replaced: for names that others can
/// guess.
///
/// # Errors
/// It cannot be written.
pub fn write_here(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let file = BufWriter::new(beside(path, None)?);
    let mut file = OutputFile(Place::Beside(file, path.to_path_buf()));
    file.write_all(bytes.as_ref())?;
    file.finish()
}

impl OutputFile {
    /// Begins to write the file at `path`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        let through = |path: &Path| {
            let file = File::create(path)?;
            Ok(OutputFile(Place::Through(BufWriter::new(file))))
        };
        let Some(target) = followed(path)? else { return through(path) };
        let before = match fs::metadata(&target) {
            Ok(facts) if !facts.is_file() => return through(&target),
            Ok(facts) => {
                // Who may not write a file may not replace it either.
                OpenOptions::new().write(true).open(&target)?;
                Some(facts)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match beside(&target, before.as_ref()) {
            Ok(file) => Ok(OutputFile(Place::Beside(BufWriter::new(file), target))),
            Err(error) if before.is_some() && takes_no_other(&error) => through(&target),
            Err(error) => Err(error),
        }
    }

    /// Puts the file in its place, with all of it on the disk.
    ///
    /// # Errors
    /// It cannot be written; then what was there still is.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Place::Through(mut file) => file.flush(),
            Place::Beside(file, target) => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.as_file().sync_all()?;
                file.persist(target).map(drop).map_err(|error| plain(error.error))
            }
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Place::Beside(file, _) => file.write(bytes).map_err(plain),
            Place::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Place::Beside(file, _) => file.flush().map_err(plain),
            Place::Through(file) => file.flush(),
        }
    }
}

/// A file beside `target` that is to take its place, with the permissions of `before`.
fn beside(target: &Path, before: Option<&fs::Metadata>) -> io::Result<NamedTempFile> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = Builder::new();
    builder.prefix(".").suffix(".partial");
    // As for any new file, the system takes off what the user's mask says.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder).map_err(plain)?;
    if let Some(before) = before {
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            // Others' files can be given back by few; then the file belongs to who wrote it.
            let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
        }
        file.as_file().set_permissions(before.permissions())?;
    }
    Ok(file)
}

/// Whether `error` of making a file says that its folder takes none from us.
fn takes_no_other(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The file that `path` leads to by symbolic links; `None` where that is for the system alone to
/// know, as with `/dev/stdout`.
fn followed(path: &Path) -> io::Result<Option<PathBuf>> {
    /// As many as the system follows.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(link) = fs::read_link(&path) else { return Ok(Some(path)) };
        let folder = path.parent().unwrap_or(Path::new(""));
        if fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with("/proc")) {
            return Ok(None);
        }
        if is_of_another(&path)? {
            let why = "a symbolic link of another user stands there";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        path = folder.join(link);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Whether the link at `path` was made by somebody else, in a folder where anybody may make one.
/// The system does not follow such links either, where it opens files for us.
#[cfg(unix)]
fn is_of_another(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    const FOR_EVERYBODY: u32 = 0o1002;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new(".")))?;
    let link = fs::symlink_metadata(path)?;
    let user = nix::unistd::geteuid().as_raw();
    Ok(folder.mode() & FOR_EVERYBODY == FOR_EVERYBODY
        && link.uid() != user
        && link.uid() != folder.uid())
}

#[cfg(not(unix))]
fn is_of_another(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// What the system said, without the name of a file that nobody asked for.
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((text, _)) => io::Error::new(error.kind(), text),
        None => error,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_when_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let mut dropped = OutputFile::create(&path).unwrap();
        dropped.write_all(b"two").unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(folder.path()), ["out"]);
        assert!(write(&folder.path().join("none/out"), "").is_err());
        assert!(write(folder.path(), "").is_err());
    }

    #[test]
    fn links_and_permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        write(&place("file"), "one").unwrap();
        fs::set_permissions(place("file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", place("link")).unwrap();
        symlink("link", place("chain")).unwrap();
        symlink("new", place("dangling")).unwrap();
        symlink("loop", place("loop")).unwrap();
        write(&place("chain"), "two").unwrap();
        write(&place("dangling"), "three").unwrap();
        assert_eq!(fs::read(place("file")).unwrap(), b"two");
        assert_eq!(fs::read(place("new")).unwrap(), b"three");
        assert!(place("chain").is_symlink() && place("dangling").is_symlink());
        let mode = |name| fs::metadata(place(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("file"), 0o640);
        // As another program would make it.
        fs::write(place("usual"), "").unwrap();
        assert_eq!(mode("new"), mode("usual"));
        assert!(write(&place("loop"), "").is_err());
        write_here(&place("link"), "four").unwrap();
        assert!(!place("link").is_symlink());
        assert_eq!(fs::read(place("file")).unwrap(), b"two");
    }

    #[test]
    fn links_of_others_in_shared_folders_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        fs::write(&file, "ours").unwrap();
        symlink("file", &link).unwrap();
        // Only who may give files away can try.
        if std::os::unix::fs::lchown(&link, Some(12345), None).is_err() {
            return;
        }
        write(&link, "one").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(write(&link, "two").is_err());
        assert_eq!(fs::read(&file).unwrap(), b"one");
    }

    #[test]
    fn what_is_no_file_is_written_as_it_goes() {
        write(Path::new("/dev/null"), "text").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        if Path::new("/dev/full").exists() {
            assert!(write(Path::new("/dev/full"), "text").is_err());
        }
    }
}
