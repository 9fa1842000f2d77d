//! A secret of a folder, and hashes that only who knows it can make.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::Path;

use siphasher::sip128::{Hasher128, SipHasher24};

/// A key of hashes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret([u8; LENGTH]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

const LENGTH: usize = 16;
/// The file of a folder's secret.
const FILE: &str = "secret";

impl Secret {
    /// The hash of byte strings, where each begins and ends included.
    pub(super) fn hash<'b>(&self, parts: impl IntoIterator<Item = &'b [u8]>) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().into()
    }
}

/// The secret of `folder`, which only this user writes. It is made where there is none, and made
/// anew where others may have seen it.
pub(super) fn secret_of(folder: &Path) -> io::Result<Secret> {
    let path = folder.join(FILE);
    loop {
        match open(&path) {
            Ok(mut file) => {
                let mut secret = [0; LENGTH];
                if is_kept(&file)? && file.read_exact(&mut secret).is_ok() {
                    return Ok(Secret(secret));
                }
                fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut secret = [0; LENGTH];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        // The system makes such files for this user alone.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&secret)?;
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(Secret(secret)),
            // Another process was faster.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
}

/// Opens the file at `path`, which is no link.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK,
    );
    options.read(true).open(path)
}

/// Whether nobody else can read `file`.
fn is_kept(file: &File) -> io::Result<bool> {
    let facts = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let is_ours = facts.uid() == nix::unistd::geteuid().as_raw();
        Ok(facts.is_file() && is_ours && facts.mode() & 0o077 == 0)
    }
    #[cfg(not(unix))]
    Ok(facts.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let secret = secret_of(folder.path()).unwrap();
        assert!(secret_of(folder.path()).unwrap() == secret);
        // What is no secret is made anew.
        fs::write(&path, "short").unwrap();
        let other = secret_of(folder.path()).unwrap();
        assert!(other != secret && secret_of(folder.path()).unwrap() == other);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            assert!(secret_of(folder.path()).unwrap() != other);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            assert!(secret_of(folder.path()).is_err());
        }
        assert_ne!(secret.hash([&b"a"[..]]), other.hash([&b"a"[..]]));
        assert_ne!(secret.hash([&b"ab"[..], b""]), secret.hash([&b"a"[..], b"b"]));
    }
}
