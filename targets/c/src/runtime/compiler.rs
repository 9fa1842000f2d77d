//! The C compiler of the system.

use std::path::Path;
use std::process::Command;

use ir_core::diagnostics::Diagnostic;

/// A C compiler that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiler {
    /// The command and its first arguments.
    command: Vec<String>,
    /// What it says of itself, which tells one compiler from another.
    version: String,
}

/// Commands that are tried, where `CC` names none.
const USUAL: [&str; 3] = ["cc", "gcc", "clang"];

impl Compiler {
    /// The compiler that `CC` names, else the first of `cc`, `gcc` and `clang` that runs. Without
    /// one the error is `E0903`, which callers may answer with the interpreter.
    pub fn find() -> Result<Compiler, Diagnostic> {
        if let Some(command) = std::env::var("CC").ok().filter(|text| !text.trim().is_empty()) {
            return Compiler::named(&command);
        }
        let found = USUAL.iter().find_map(|command| Compiler::named(command).ok());
        found.ok_or_else(|| {
            Diagnostic::error("E0903", "no C compiler: none of `cc`, `gcc` and `clang` runs")
                .help("install one, or name it in `CC`; the interpreter needs none")
        })
    }

    /// The compiler that `command` runs; words after the first are arguments.
    pub fn named(command: &str) -> Result<Compiler, Diagnostic> {
        let words: Vec<String> = command.split_whitespace().map(str::to_string).collect();
        let missing = |why: String| {
            Diagnostic::error("E0903", format!("no C compiler: `{command}` does not run: {why}"))
                .help("install it, or name another in `CC`; the interpreter needs none")
        };
        let Some((program, arguments)) = words.split_first() else {
            return Err(missing("the name is empty".to_string()));
        };
        let output = Command::new(program).args(arguments).arg("--version").output();
        let output = output.map_err(|error| missing(error.to_string()))?;
        if !output.status.success() {
            return Err(missing(output.status.to_string()));
        }
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Compiler { command: words, version })
    }

    /// What it says of itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs it. The error holds its messages, or says why it does not run.
    pub fn run(&self, arguments: &[String], folder: &Path) -> Result<(), String> {
        let (program, first) = match self.command.split_first() {
            Some((program, first)) => (program.as_str(), first),
            None => ("cc", &[][..]),
        };
        let mut command = Command::new(program);
        command.args(first).args(arguments).current_dir(folder);
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(if text.is_empty() { output.status.to_string() } else { text })
            }
            Err(error) => Err(format!("`{program}` does not run: {error}")),
        }
    }
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
