//! Commands that run inside the process, and the streams they work on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A command that lit tests may run without starting a process.
///
/// A panic ends the command as a crash, which only `not --crash` expects.
pub trait Command: Send + Sync {
    /// Runs with the arguments after the command's name; returns the exit status.
    ///
    /// Relative paths are meant relative to [`Io::directory`], not to the
    /// process's current directory, which all tests share.
    fn run(&self, arguments: &[String], io: &mut Io) -> i32;
}

impl<F: Fn(&[String], &mut Io) -> i32 + Send + Sync> Command for F {
    fn run(&self, arguments: &[String], io: &mut Io) -> i32 {
        self(arguments, io)
    }
}

/// The streams, directory and environment of one command.
#[derive(Debug, Default)]
pub struct Io {
    pub(super) stdin: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
    /// Both streams go to `output`, in the order of writing.
    pub(super) merged: bool,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
}

impl Io {
    /// Streams with the given standard input, for a command to run in `directory`.
    #[must_use]
    pub fn new(stdin: Vec<u8>, directory: PathBuf, environment: BTreeMap<String, String>) -> Self {
        Self { stdin, directory, environment, ..Self::default() }
    }

    /// Takes all of standard input.
    pub fn take_stdin(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.stdin)
    }

    /// Standard input, what is left of it.
    pub fn stdin(&mut self) -> &mut Vec<u8> {
        &mut self.stdin
    }

    /// Standard output.
    pub fn stdout(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Standard error.
    pub fn stderr(&mut self) -> &mut Vec<u8> {
        if self.merged { &mut self.output } else { &mut self.errors }
    }

    /// Writes text to standard output.
    pub fn print(&mut self, text: &str) {
        self.stdout().extend_from_slice(text.as_bytes());
    }

    /// Writes text to standard error.
    pub fn print_error(&mut self, text: &str) {
        self.stderr().extend_from_slice(text.as_bytes());
    }

    /// The directory that relative paths are relative to.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The value of an environment variable that the test or the runner set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }
}

/// The commands that tests may use, by name.
#[derive(Clone, Default)]
pub struct Commands {
    table: BTreeMap<String, Arc<dyn Command>>,
}

impl Commands {
    /// The shell's own commands, and FileCheck under its two names.
    #[must_use]
    pub fn standard() -> Self {
        let mut commands = Self::default();
        super::builtins::register(&mut commands);
        commands.register("FileCheck", crate::filecheck::FileCheck);
        commands.register("relay-filecheck", crate::filecheck::FileCheck);
        commands
    }

    /// Adds a command, or replaces the one of that name.
    pub fn register(&mut self, name: &str, command: impl Command + 'static) {
        self.table.insert(name.to_owned(), Arc::new(command));
    }

    /// The command of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Command>> {
        self.table.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(String::as_str)
    }
}
