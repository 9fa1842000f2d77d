//! What shells complete, by the scripts of `relay-opt completions`. A shell that is not there is
//! named, and its test does nothing; where `REQUIRE_TOOLS` is set, it fails.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RELAY_OPT: &str = env!("CARGO_BIN_EXE_relay-opt");

/// Whether there is a `shell`.
fn is_there(shell: &str) -> bool {
    let there = Command::new(shell).args(["-c", "true"]).status().is_ok_and(|ran| ran.success());
    if !there {
        assert!(std::env::var_os("REQUIRE_TOOLS").is_none(), "{shell} is missing");
        eprintln!("skipped: {shell} is missing");
    }
    there
}

/// A folder with a program, in whose `bin` is relay-opt, and the script for `shell`, as `name`.
fn folder(shell: &str, name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shells").join(shell);
    // What an earlier run left behind; there may be nothing.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("bin")).unwrap();
    symlink(RELAY_OPT, folder.join("bin/relay-opt")).unwrap();
    fs::write(folder.join("model.relay"), "").unwrap();
    let script = Command::new(RELAY_OPT).args(["completions", shell]).output().unwrap();
    fs::write(folder.join(name), script.stdout).unwrap();
    folder
}

/// Runs `command` in `folder` with relay-opt in its path and `input` as its standard input.
fn run(command: &mut Command, folder: &Path, input: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", folder.join("bin").display());
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let command = command.current_dir(folder).env("PATH", path).env("HOME", folder);
    let mut child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Lines, and what fish offers for their last words.
const LINES: &[(&str, &str)] = &[
    ("relay-opt --pass fold-sc", "fold-scale-axis"),
    ("relay-opt --pass cse,fold-sc", "cse,fold-scale-axis"),
    ("relay-opt --pass 'cse,fold-sc", "cse,fold-scale-axis"),
    ("relay-opt --pass=cse,fold-sc", "--pass=cse,fold-scale-axis"),
    ("relay-opt --pass 'cse,fuse{stra", "cse,fuse{strategy"),
    ("relay-opt --help-op nn.conv3d_t", "nn.conv3d_transpose"),
    ("relay-opt --target c", "c"),
    ("relay-opt run --exec", "--executor"),
    ("relay-opt run --executor in", "interp"),
    ("relay-opt mod", "model.relay"),
    ("relay-opt run mod", "model.relay"),
];

#[test]
fn fish_completes() {
    if !is_there("fish") {
        return;
    }
    let folder = folder("fish", "relay-opt.fish");
    let mut fish = Command::new("fish");
    let each = "source relay-opt.fish; for line in $argv; complete -C \"$line\" | string join ' '; end; true";
    fish.args(["--no-config", "-c", each]).args(LINES.iter().map(|(line, _)| line));
    let offered = run(&mut fish, &folder, "");
    let wanted: Vec<&str> = LINES.iter().map(|(_, wanted)| *wanted).collect();
    assert_eq!(offered.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn zsh_completes() {
    if !is_there("zsh") {
        return;
    }
    let folder = folder("zsh", "_relay-opt");
    // In zsh, a brace opens alternatives, of which each is a word of its own.
    let braces = [
        ("relay-opt --pass fuse{stra", "fuse{strategy"),
        ("relay-opt --pass cse,fuse{stra", "cse\\,fuse{strategy"),
        ("relay-opt --pass=fuse{stra", "--pass=fuse{strategy"),
        ("relay-opt --target c{is", "c{isa"),
    ];
    let lines: Vec<(&str, &str)> = LINES.iter().copied().chain(braces).collect();
    let typed: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shells/drive.zsh");
    let mut zsh = Command::new("zsh");
    zsh.arg("-f").arg(driver).arg(&folder);
    let became = run(&mut zsh, &folder, &typed);
    let became: Vec<&str> =
        became.lines().filter(|line| line.starts_with("relay-opt")).map(str::trim_end).collect();
    let whole = |(line, wanted): &(&str, &str)| {
        let (before, last) = line.rsplit_once(' ').unwrap();
        // A quotation goes on.
        let quote = if last.starts_with('\'') { "'" } else { "" };
        format!("{before} {quote}{wanted}")
    };
    assert_eq!(became, lines.iter().map(whole).collect::<Vec<_>>());
}

/// What bash offers after `words`.
fn bash(folder: &Path, words: &[&str]) -> String {
    let (last, before) = words.split_last().unwrap();
    let program = r#"source ./relay-opt.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _relay_opt; echo "${COMPREPLY[*]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", program, "bash"]).args(before).arg(last);
    run(&mut bash, folder, "").trim().to_string()
}

#[test]
fn bash_completes() {
    if !is_there("bash") {
        return;
    }
    let folder = folder("bash", "relay-opt.bash");
    for (words, wanted) in [
        (&["relay-opt", "--pass", "fold-sc"][..], "fold-scale-axis"),
        (&["relay-opt", "run", "--exec"], "--executor"),
        (&["relay-opt", "plugin", "build", "--rel"], "--release"),
        (&["relay-opt", "--explain", "E074"], "E0740 E0741 E0742 E0743 E0744"),
        (&["relay-opt", "--pass", "cse,fold-sc"], "cse,fold-scale-axis"),
        (&["relay-opt", "--pass", "cse,fuse{stra"], "cse,fuse{strategy"),
        (&["relay-opt", "--pass", "cse,fuse{strategy=d"], "cse,fuse{strategy=dominator"),
        (&["relay-opt", "--pass", "fuse{reassociate=t"], "fuse{reassociate=true"),
        (&["relay-opt", "--pass", "eqsat{cost=fl"], "eqsat{cost=flops"),
        (&["relay-opt", "--help-op", "nn.conv3d_t"], "nn.conv3d_transpose"),
        (&["relay-opt", "--help-op", "relay.nn.conv3d_t"], "relay.nn.conv3d_transpose"),
        (&["relay-opt", "bench", "m.relay", "--tar"], "--target"),
        (&["relay-opt", "bench", "m.relay", "--target", "c{isa=avx"], "c{isa=avx2 c{isa=avx512"),
        (&["relay-opt", "--target", "c{is"], "c{isa"),
        (&["relay-opt", "--emit", "gen"], "generic"),
        (&["relay-opt", "comp"], "compile completions"),
        (&["relay-opt", "run", "--executor", "in"], "interp"),
    ] {
        assert_eq!(bash(&folder, words), wanted, "{words:?}");
    }
}
