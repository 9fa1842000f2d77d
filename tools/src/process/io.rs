//! The streams of a tool, so that it runs in process as well as in a shell.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ir_core::Interrupt;

/// Where a tool reads and writes.
pub struct Io<'a> {
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output; a server writes it from another thread.
    pub stdout: &'a mut (dyn Write + Send),
    /// Standard error.
    pub stderr: &'a mut dyn Write,
    /// What relative paths are relative to; empty for the directory of the process.
    pub directory: PathBuf,
    /// Whether standard error is a terminal: shows colours and progress.
    pub styled: bool,
    /// Whether Ctrl-C may ask for an early end rather than end the process: in one of its own.
    pub signals: bool,
}

impl<'a> Io<'a> {
    /// Streams that are no terminal, relative to `directory`.
    pub fn new(
        stdin: &'a mut dyn Read,
        stdout: &'a mut (dyn Write + Send),
        stderr: &'a mut dyn Write,
        directory: &Path,
    ) -> Io<'a> {
        let directory = directory.to_path_buf();
        Io { stdin, stdout, stderr, directory, styled: false, signals: false }
    }

    /// What Ctrl-C raises from now on; nothing raises it where that ends the process.
    pub fn interrupt(&self) -> Interrupt {
        if self.signals { crate::process::interrupt::listen() } else { Interrupt::default() }
    }

    /// Columns for what goes to standard error: those that the environment says by `COLUMNS`, else
    /// those of the terminal, else 159.
    pub fn columns(&self) -> usize {
        let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let terminal = || match self.styled {
            true => console::Term::stderr().size_checked().map(|(_, columns)| columns.into()),
            false => None,
        };
        said.filter(|columns| *columns > 0).or_else(terminal).unwrap_or(159)
    }

    /// Whether what goes to standard error has colours: on a terminal, unless the environment sets
    /// `NO_COLOR`.
    pub fn coloured(&self) -> bool {
        self.styled && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }
}

/// The message of a system error without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
