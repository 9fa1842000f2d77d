//! Folders of this user.

use std::fs;
use std::io;
use std::path::Path;

/// Makes sure that `folder`, which is made where it does not exist, is written by this user alone:
/// it belongs to them or to the system, and others may write neither to it nor to what it lies in.
/// Of folders that anybody may write, those do where files are their owners' only, such as `/tmp`.
///
/// # Errors
/// It cannot be made, or is for others to write, with the reason.
#[cfg(unix)]
pub fn own_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    const SYSTEM: u32 = 0;
    const STICKY: u32 = 0o1000;
    let refused = |what: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    let user = nix::unistd::geteuid().as_raw();
    let is_ours = |facts: &fs::Metadata| facts.uid() == user || facts.uid() == SYSTEM;
    // A group with the number of the user has no other members, by convention.
    let is_open = |facts: &fs::Metadata| {
        let of_group = facts.mode() & 0o020 != 0 && facts.gid() != facts.uid();
        of_group || facts.mode() & 0o002 != 0
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A link in a folder for everybody may be anybody's.
    if !is_ours(&fs::symlink_metadata(folder)?) {
        return refused("it belongs to another user");
    }
    let folder = fs::canonicalize(folder)?;
    let facts = fs::metadata(&folder)?;
    if !is_ours(&facts) {
        return refused("it belongs to another user");
    }
    if is_open(&facts) {
        return refused("other users may write to it");
    }
    for parent in folder.ancestors().skip(1) {
        let facts = fs::metadata(parent)?;
        if is_open(&facts) && facts.mode() & STICKY == 0 {
            return refused(&format!("other users may write to `{}`", parent.display()));
        }
    }
    Ok(())
}

/// Makes sure that `folder` is there. Who may write it is for the system to say.
///
/// # Errors
/// It cannot be made.
#[cfg(not(unix))]
pub fn own_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_that_others_write_are_refused() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a/b");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        own_folder(&folder).unwrap();
        let made = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(made & 0o777, 0o700);
        own_folder(&folder).unwrap();
        mode(&folder, 0o777);
        let why = own_folder(&folder).unwrap_err().to_string();
        assert_eq!(why, "other users may write to it");
        mode(&folder, 0o755);
        own_folder(&folder).unwrap();
        let parent = folder.parent().unwrap();
        mode(parent, 0o777);
        assert!(own_folder(&folder).unwrap_err().to_string().contains("may write to `"));
        mode(parent, 0o1777);
        own_folder(&folder).unwrap();
        fs::write(outer.path().join("file"), "").unwrap();
        assert!(own_folder(&outer.path().join("file")).is_err());
    }
}
