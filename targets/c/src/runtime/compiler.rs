//! The C compiler of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use ir_core::diagnostics::{Diagnostic, Diagnostics};
use ir_core::fingerprint::of_bytes;

use super::command::run;

/// How long a compiler may take to say what it is.
const LIMIT_OF_VERSION: Duration = Duration::from_secs(10);

/// How long a compiler may take for a file.
const LIMIT: Duration = Duration::from_secs(600);

/// How many lines of its messages are shown.
const MOST_LINES: usize = 100;

/// A C compiler that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Compiler {
    /// The command and its first arguments.
    command: Vec<String>,
    /// What it says of itself, which tells one compiler from another.
    version: String,
    /// What its output depends on besides sources and flags.
    identity: String,
}

/// Commands that are tried, where `CC` names none.
const USUAL: [&str; 3] = ["cc", "gcc", "clang"];

impl Compiler {
    /// The compiler that `CC` names, else the first of `cc`, `gcc` and `clang` that runs. Without
    /// one the error is `E0903`, which callers may answer with the interpreter.
    pub fn find() -> Result<Compiler, Diagnostics> {
        if let Some(command) = std::env::var("CC").ok().filter(|text| !text.trim().is_empty()) {
            return Compiler::named(&command);
        }
        let found = USUAL.iter().find_map(|command| Compiler::named(command).ok());
        found
            .ok_or_else(|| {
                Diagnostic::error("E0903", "no C compiler: none of `cc`, `gcc` and `clang` runs")
                    .help("install one, or name it in `CC`; the interpreter needs none")
            })
            .map_err(Diagnostics::from)
    }

    /// The compiler that `command` runs; words after the first are arguments.
    pub fn named(command: &str) -> Result<Compiler, Diagnostics> {
        let words: Vec<String> = command.split_whitespace().map(str::to_string).collect();
        let missing = |why: String| {
            Diagnostic::error("E0903", format!("no C compiler: `{command}` does not run: {why}"))
                .help("install it, or name another in `CC`; the interpreter needs none")
        };
        let Some((program, arguments)) = words.split_first() else {
            return Err(missing("the name is empty".to_string()).into());
        };
        let mut command = Command::new(program);
        let ran = run(command.args(arguments).arg("--version"), LIMIT_OF_VERSION);
        let ran = ran.map_err(missing)?;
        if !ran.status.success() {
            return Err(missing(ran.status.to_string()).into());
        }
        let identity = identity(&words, &ran.out);
        Ok(Compiler { command: words, version: ran.out, identity })
    }

    /// What code depends on besides sources and flags: the command, the program files that it
    /// names, what these say of themselves, and the environment that compilers look at.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// What it says of itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The command and its first arguments.
    pub fn command(&self) -> String {
        self.command.join(" ")
    }

    /// Runs it, for ten minutes at most. The error holds the first of its messages, or says why it
    /// does not run or was ended.
    pub fn run(&self, arguments: &[String], folder: &Path) -> Result<(), String> {
        let (program, first) = match self.command.split_first() {
            Some((program, first)) => (program.as_str(), first),
            None => ("cc", &[][..]),
        };
        let mut command = Command::new(program);
        match run(command.args(first).args(arguments).current_dir(folder), LIMIT) {
            Ok(ran) if ran.status.success() => Ok(()),
            Ok(ran) if ran.err.is_empty() => Err(ran.status.to_string()),
            Ok(ran) => Err(first_lines(&ran.err)),
            Err(why) => Err(format!("`{program}` does not run: {why}")),
        }
    }
}

/// Variables that compilers, or scripts in their place, look at.
const ENVIRONMENT: [&str; 14] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "GCC_SPECS",
    "LD_RUN_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
    "CFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
];

/// What tells the compiler of a command from others, which may have had the same name.
fn identity(words: &[String], version: &str) -> String {
    let mut identity = format!("{words:?}\n{version}\n");
    for file in words.iter().filter_map(|word| program_file(word)) {
        identity += &format!("{} {}\n", file.display(), contents(&file).unwrap_or_default());
    }
    for name in ENVIRONMENT {
        if let Some(value) = std::env::var_os(name) {
            identity += &format!("{name}={value:?}\n");
        }
    }
    identity
}

/// The file of a program, which a word with a separator names, and others name in one of the
/// folders of `PATH`.
fn program_file(word: &str) -> Option<PathBuf> {
    let named = Path::new(word);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = match named.components().count() {
        1 => std::env::split_paths(&folders).map(|folder| folder.join(named)).collect(),
        _ => vec![named.to_path_buf()],
    };
    places.retain(|place| place.is_file());
    fs::canonicalize(places.first()?).ok()
}

/// What a program file holds: its time and length, and a hash where it is no longer than drivers of
/// compilers are.
fn contents(file: &Path) -> Option<String> {
    const HASHED: u64 = 4 << 20;
    let facts = fs::metadata(file).ok()?;
    let time = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let bytes = if facts.len() <= HASHED { fs::read(file).ok() } else { None };
    let hash = bytes.map(|bytes| of_bytes([&*bytes]));
    Some(format!("{time:?} {} {hash:?}", facts.len()))
}

fn first_lines(text: &str) -> String {
    let (first, more) = (text.lines().take(MOST_LINES), text.lines().count());
    let mut lines: Vec<&str> = first.collect();
    if more > MOST_LINES {
        lines.push("and more");
    }
    lines.join("\n")
}

/// The flags that make fast code for `isa`, or for this machine. Measured on GCC 12 and Clang 19:
///
/// - `-mtune=generic`, because GCC 12 takes some machines for others, and spills vectors then;
/// - `-ffp-contract=fast`, because `-std=c11` turns multiply-adds off in GCC;
/// - `-fno-math-errno` and `-fno-trapping-math`, without which `sqrtf` and `floorf` are calls.
pub(crate) fn flags(isa: Option<&str>) -> Vec<String> {
    let mut flags = vec!["-std=gnu11", "-O3"];
    flags.extend(match isa {
        None => &["-march=native", "-mtune=generic"][..],
        Some("avx512") => &[
            "-mavx512f",
            "-mavx512vl",
            "-mavx512bw",
            "-mavx512dq",
            "-mfma",
            "-mf16c",
            "-mtune=generic",
        ],
        Some("avx2") => &["-mavx2", "-mfma", "-mf16c", "-mtune=generic"],
        Some(_) => &[],
    });
    flags.extend(["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]);
    flags.into_iter().map(str::to_string).collect()
}
