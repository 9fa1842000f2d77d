//! `--watch` and `--cache` of relay-opt, in process.

use std::fs;
use std::path::{Path, PathBuf};

use tools::io::Io;
use tools::relay_opt::{main_watching, main_with};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("relay-watch-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, text: &str) {
        fs::write(self.0.join("model.relay"), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a watch prints, on both streams, where each of `edits` happens before one look at the
/// file.
fn watched(folder: &Folder, args: &[&str], edits: &[&dyn Fn()]) -> (i32, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut edits = edits.iter();
    let mut wait = |_: &Path| edits.next().map(|edit| edit()).is_some();
    let args: Vec<String> =
        ["model.relay", "--watch"].iter().chain(args).map(|arg| arg.to_string()).collect();
    let mut io = Io {
        stdin: &mut std::io::empty(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder.0.clone(),
        styled: false,
        signals: false,
    };
    let status = main_watching(&tools::registry(), &args, &mut wait, &mut io);
    let stderr = String::from_utf8(stderr).unwrap();
    // How long it took is another time each time.
    let lines = stderr.lines().map(|line| line.split("; checked in").next().unwrap_or(line));
    (status, String::from_utf8(stdout).unwrap(), lines.collect::<Vec<_>>().join("\n"))
}

const BEFORE: &str = "\
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  exp(%x)
}
def @g(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %y = add(2f, 3f);
  multiply(%x, %y)
}
";

#[test]
fn only_what_changed_prints() {
    let folder = Folder::new("changed");
    let (status, stdout, stderr) = watched(
        &folder,
        &["--pass", "fold-constant"],
        &[
            &|| folder.write(BEFORE),
            &|| folder.write(&BEFORE.replace("3f", "4f")),
            &|| folder.write(&BEFORE.replace("3f", "4f").replace("exp", "// why\n  exp")),
            &|| folder.write(&BEFORE.replace("3f", "4f").replace("@f", "@h")),
        ],
    );
    assert_eq!(status, 0, "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(
        lines,
        ["2 items", "1 of 2 items changed", "0 of 2 items changed", "1 of 2 items changed, 1 gone"]
    );
    assert!(stdout.contains("6f") && !stdout.contains("5f"), "{stdout}");
    assert!(stdout.contains("// f is gone") && stdout.contains("def @h"), "{stdout}");
    assert!(!stdout.contains("def @f"), "{stdout}");
}

#[test]
fn changes_print_as_a_difference() {
    let folder = Folder::new("diff");
    let (_, stdout, _) = watched(
        &folder,
        &["--print-ir-diff"],
        &[&|| folder.write(BEFORE), &|| folder.write(&BEFORE.replace("exp", "tanh"))],
    );
    assert!(stdout.contains("--- f before\n+++ f now"), "{stdout}");
    assert!(stdout.contains("-  exp(%x)") && stdout.contains("+  tanh(%x)"), "{stdout}");
}

#[test]
fn a_file_may_vanish_and_be_half_written() {
    let folder = Folder::new("half");
    let path = folder.0.join("model.relay");
    let (status, _, stderr) = watched(
        &folder,
        &[],
        &[
            &|| folder.write(BEFORE),
            &|| fs::remove_file(&path).unwrap(),
            &|| {},
            &|| folder.write(&BEFORE[..100]),
            &|| fs::write(&path, [0xff, 0xfe]).unwrap(),
            &|| folder.write(BEFORE),
        ],
    );
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(stderr.matches("error[E0720]").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("error[E0721]").count(), 1, "{stderr}");
    assert!(stderr.contains("\nerrors\n"), "{stderr}");
    assert!(stderr.ends_with("0 of 2 items changed"), "{stderr}");
}

#[test]
fn errors_of_passes_and_types_are_reported() {
    let folder = Folder::new("errors");
    let (status, stdout, stderr) = watched(
        &folder,
        &["--pass", "cse,fuse,lambda-lift"],
        &[&|| folder.write(BEFORE), &|| folder.write(&BEFORE.replace("exp(%x)", "exp(1, 2)"))],
    );
    assert_eq!((status, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("error["), "{stderr}");
}

fn cached(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let args: Vec<String> =
        ["model.relay", "--cache", "cache"].iter().chain(args).map(|arg| arg.to_string()).collect();
    let mut io = Io {
        stdin: &mut std::io::empty(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder.0.clone(),
        styled: false,
        signals: false,
    };
    let status = main_with(&tools::registry(), &args, &mut io);
    (status, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn entries(folder: &Folder) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder.0.join("cache")) else { return vec![] };
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn results_are_kept_by_everything_they_depend_on() {
    let folder = Folder::new("cache");
    folder.write(BEFORE);
    let first = cached(&folder, &["--pass", "fold-constant"]);
    assert_eq!((first.0, first.2.as_str()), (0, ""));
    let kept = entries(&folder);
    assert_eq!(kept.len(), 1);
    assert_eq!(cached(&folder, &["--pass", "fold-constant"]), first);
    assert_eq!(entries(&folder), kept);
    // Another pipeline, form, or input is another result.
    assert_ne!(cached(&folder, &[]).1, first.1);
    assert_ne!(cached(&folder, &["--pass", "fold-constant", "--emit", "generic"]).1, first.1);
    folder.write(&BEFORE.replace("3f", "4f"));
    assert_ne!(cached(&folder, &["--pass", "fold-constant"]).1, first.1);
    assert_eq!(entries(&folder).len(), 4);
    // Runs with messages are not kept.
    folder.write(&BEFORE.replace("exp(%x)", "exp(1, 2)"));
    assert_eq!(cached(&folder, &[]).0, 1);
    assert_eq!(cached(&folder, &[]).0, 1);
    assert_eq!(entries(&folder).len(), 4);
}

#[test]
fn broken_entries_are_reported_and_made_again() {
    let folder = Folder::new("broken");
    folder.write(BEFORE);
    let first = cached(&folder, &["--pass", "cse"]);
    let entry = entries(&folder).remove(0);
    let whole = fs::read(&entry).unwrap();
    fs::write(&entry, &whole[..whole.len() - 1]).unwrap();
    let again = cached(&folder, &["--pass", "cse"]);
    assert_eq!((again.0, &again.1), (0, &first.1));
    assert!(again.2.contains("warning[E0728]"), "{}", again.2);
    assert_eq!(fs::read(&entry).unwrap(), whole);
    assert_eq!(cached(&folder, &["--pass", "cse"]), first);
}
