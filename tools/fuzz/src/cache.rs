//! The folder of `--cache`.

use std::fs;
use std::path::{Path, PathBuf};

use tools::relay_opt::OK;

use crate::scratch::{relay_opt, with_files};

const PROGRAM: &str =
    "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { add(%x, add(1f, 2f)) }
def @main(%x: Tensor[(2), float32]) { @f(@f(%x)) }
";

/// The files in `folder` and below it, by path.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort();
    found
}

/// A file in the folder is damaged: its first byte says which and how much of it is kept, the rest
/// takes the place of what is not. The result is as without a cache.
pub(crate) fn damaged(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    with_files(&[("program.relay", PROGRAM.as_bytes())], |folder| {
        let plain = ["program.relay", "--pass", "fold-constant,cse"];
        let args = [&plain[..], &["--cache", "kept"]].concat();
        let expected = relay_opt(folder, &plain, b"").out;
        relay_opt(folder, &args, b"");
        let kept = files(&folder.join("kept"));
        let Some(file) = kept.get(usize::from(choice) % kept.len().max(1)) else { return };
        let before = fs::read(file).expect("a file that was just written");
        let keep = before.len() * usize::from(choice >> 4) / 16;
        let after = [&before[..keep], data].concat();
        fs::write(file, after).expect("a file that was just read");
        let ran = relay_opt(folder, &args, b"");
        assert_eq!((ran.status, ran.out), (OK, expected), "{}", ran.err);
        // The next input begins with a folder of its own.
        fs::remove_dir_all(folder.join("kept")).expect("a folder that was just written");
    });
}
