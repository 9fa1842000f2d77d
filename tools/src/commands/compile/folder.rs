//! Folders of generated files.
//!
//! New files are complete on the disk before any of them takes the place of an old one, so that a
//! full disk costs nothing that was there.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path};

use ir_core::{Diagnostic, Diagnostics};
use serde_json::Value;
use target_core::package::File;

use crate::process::io::plain;

/// The file that says what others there are.
const MANIFEST: &str = "manifest.json";

/// Who wrote a folder that may be written again, by its manifest.
const GENERATOR: &str = "relay-opt compile";

/// Whether `folder` may be written: it is new, or empty, or was written by this program, or `force`
/// holds.
///
/// # Errors
/// A diagnostic that says why not.
pub(crate) fn check(folder: &Path, force: bool) -> Result<(), Diagnostics> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unwritable(folder, &error).into()),
    };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let other = names.find(|name| !name.to_string_lossy().starts_with(PARTIAL));
    match other {
        Some(name) if !force && earlier_files(folder).is_none() => {
            let (folder, name) = (folder.display(), name.to_string_lossy().into_owned());
            let message = format!("`{folder}` holds other files, such as `{name}`");
            let help = "name a new folder, or replace files in this one with --force";
            Err(Diagnostic::error("E0736", message).help(help).into())
        }
        _ => Ok(()),
    }
}

/// Writes `files` into `folder`, which is made where it does not exist. Of files that were there,
/// those of the same names are replaced; those of an earlier manifest that are no more are removed.
///
/// # Errors
/// A diagnostic; what was there before is unchanged then, unless renaming failed.
pub(crate) fn write(folder: &Path, files: &[File], force: bool) -> Result<(), Diagnostics> {
    check(folder, force)?;
    let stale = earlier_files(folder).unwrap_or_default();
    let is_new = !folder.exists();
    let written = replace(folder, files);
    if let Err(error) = written {
        if is_new {
            // Holds nothing of worth, and is left where it holds something.
            let _ = fs::remove_dir(folder);
        }
        return Err(unwritable(folder, &error).into());
    }
    for name in stale.iter().filter(|name| files.iter().all(|file| file.name != **name)) {
        // What cannot be removed does no harm.
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(())
}

/// What the name of a folder of unfinished files starts with.
const PARTIAL: &str = ".relay-opt-";

fn replace(folder: &Path, files: &[File]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let scratch = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(folder)?;
    let place = |index: usize| scratch.path().join(index.to_string());
    for (index, file) in files.iter().enumerate() {
        let mut out = BufWriter::new(fs::File::create(place(index))?);
        file.contents.write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
    }
    for (index, file) in files.iter().enumerate() {
        let path = folder.join(&file.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if let Ok(before) = fs::metadata(&path) {
            fs::set_permissions(place(index), before.permissions())?;
        }
        fs::rename(place(index), path)?;
    }
    Ok(())
}

/// The files that the manifest in `folder` names; `None` where it holds none of ours. Names that
/// lead elsewhere are left out.
fn earlier_files(folder: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(folder.join(MANIFEST)).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    if manifest["generator"] != GENERATOR {
        return None;
    }
    let names = manifest["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_inside = |name: &&str| {
        let mut parts = Path::new(name).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    Some(names.filter(is_inside).map(str::to_string).collect())
}

fn unwritable(folder: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("cannot write `{}`: {}", folder.display(), plain(error));
    Diagnostic::error("E0724", message)
}
