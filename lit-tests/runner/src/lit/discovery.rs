//! Finds test files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A test file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// Path relative to where the search began, with `/` between components.
    pub name: String,
    /// Absolute path.
    pub path: PathBuf,
}

/// The extensions of test files.
pub const EXTENSIONS: [&str; 4] = ["relay", "te", "test", "check"];

/// The test files under `root`, sorted by name; `root` itself if it is a file.
///
/// Directories called `Inputs` or `target`, or whose name starts with a dot,
/// hold no tests.
///
/// # Errors
/// `root` or a directory under it cannot be read.
pub fn discover(root: &Path) -> io::Result<Vec<Test>> {
    let root = root.canonicalize()?;
    if root.is_file() {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(vec![Test { name, path: root }]);
    }
    let mut tests = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if name != "Inputs" && name != "target" && !name.starts_with('.') {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|e| EXTENSIONS.iter().any(|&known| e == known)) {
                let relative = path.strip_prefix(&root).unwrap_or(&path);
                let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
                tests.push(Test { name: parts.join("/"), path: path.clone() });
            }
        }
    }
    tests.sort();
    Ok(tests)
}
