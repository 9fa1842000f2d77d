//! The small shell that runs `RUN:` lines.
//!
//! A pipeline runs one command after the other, each with the whole output of
//! the one before; its status is that of the last command that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::command::{Commands, Io};
use super::lexer::{Redirect, Token, tokens};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// With an exit status.
    Exited(i32),
    /// By a panic, a signal, or because it could not start; with the reason.
    Crashed(String),
}

impl Status {
    pub(super) fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }
}

/// The state that one test's lines share.
pub(super) struct Shell<'a> {
    pub(super) commands: &'a Commands,
    /// Programs that may be started as processes.
    pub(super) programs: &'a BTreeSet<String>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    /// When external programs are killed.
    pub(super) deadline: Instant,
    /// What was run and what it printed, for the report of a failure.
    pub(super) log: String,
}

/// Where a stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Output,
    Errors,
    File { path: PathBuf, append: bool },
}

#[derive(Debug, Default)]
struct SimpleCommand {
    words: Vec<String>,
    redirects: Vec<(Redirect, String)>,
}

#[derive(Debug, Default)]
struct Pipeline {
    negated: bool,
    commands: Vec<SimpleCommand>,
}

/// Parses a line to pipelines, each with the connector before it.
fn parse(line: &str) -> Result<Vec<(&'static str, Pipeline)>, String> {
    let mut pipelines = Vec::new();
    let mut connector = ";";
    let mut pipeline = Pipeline::default();
    let mut command = SimpleCommand::default();
    let mut tokens = tokens(line)?.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            Token::Word(word) => command.words.push(word),
            Token::Redirect(redirect @ (Redirect::ErrorsToOutput | Redirect::OutputToErrors)) => {
                command.redirects.push((redirect, String::new()));
            }
            Token::Redirect(redirect) => match tokens.next() {
                Some(Token::Word(file)) => command.redirects.push((redirect, file)),
                _ => return Err("expected a file name after a redirection".to_owned()),
            },
            Token::Operator("!") if command.words.is_empty() && pipeline.commands.is_empty() => {
                pipeline.negated = !pipeline.negated;
            }
            Token::Operator("!") => command.words.push("!".to_owned()),
            Token::Operator(operator) => {
                if command.words.is_empty() {
                    return Err(format!("expected a command before '{operator}'"));
                }
                pipeline.commands.push(std::mem::take(&mut command));
                if operator != "|" {
                    pipelines.push((connector, std::mem::take(&mut pipeline)));
                    connector = operator;
                }
            }
        }
    }
    let is_open = !pipeline.commands.is_empty() || pipeline.negated || connector != ";";
    if !command.words.is_empty() {
        pipeline.commands.push(command);
        pipelines.push((connector, pipeline));
    } else if is_open || !command.redirects.is_empty() || pipelines.is_empty() {
        return Err("expected a command at the end of the line".to_owned());
    }
    Ok(pipelines)
}

/// What stands before the words of a command proper.
struct Invocation<'w> {
    /// For each `not`, innermost last, whether it is `not --crash`.
    negations: Vec<bool>,
    assignments: Vec<(&'w str, Option<&'w str>)>,
    words: &'w [String],
}

impl<'w> Invocation<'w> {
    fn new(mut words: &'w [String]) -> Self {
        let mut negations = Vec::new();
        let mut assignments = Vec::new();
        while let Some(first) = words.first() {
            if first == "not" {
                words = &words[1..];
                let crash = words.first().is_some_and(|word| word == "--crash");
                words = &words[usize::from(crash)..];
                negations.push(crash);
            } else if first == "env" {
                words = &words[1..];
                while let [unset, name, ..] = words
                    && unset == "-u"
                {
                    assignments.push((name.as_str(), None));
                    words = &words[2..];
                }
            } else if let Some((name, value)) = first.split_once('=')
                && !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            {
                assignments.push((name, Some(value)));
                words = &words[1..];
            } else {
                break;
            }
        }
        Self { negations, assignments, words }
    }
}

impl Shell<'_> {
    /// Runs one line.
    ///
    /// # Errors
    /// The line is not in the syntax of this shell.
    pub(super) fn run(&mut self, line: &str) -> Result<Status, String> {
        let mut status = Status::Exited(0);
        for (connector, pipeline) in parse(line)? {
            let runs = match connector {
                "&&" => status.is_success(),
                "||" => !status.is_success(),
                _ => true,
            };
            if runs {
                status = self.run_pipeline(&pipeline)?;
            }
        }
        Ok(status)
    }

    fn run_pipeline(&mut self, pipeline: &Pipeline) -> Result<Status, String> {
        let mut stdin = Vec::new();
        let mut status = Status::Exited(0);
        for (index, command) in pipeline.commands.iter().enumerate() {
            let _ = writeln!(self.log, "$ {}", shown(&command.words));
            let (ended, output, errors) = self.run_command(command, stdin)?;
            let is_last = index + 1 == pipeline.commands.len();
            self.log_stream("stderr", &errors);
            if is_last {
                self.log_stream("stdout", &output);
            }
            match &ended {
                Status::Exited(0) => {}
                Status::Exited(code) => {
                    let _ = writeln!(self.log, "# exit status {code}");
                }
                Status::Crashed(reason) => {
                    let _ = writeln!(self.log, "# crash: {reason}");
                }
            }
            if !ended.is_success() || status.is_success() {
                status = ended;
            }
            stdin = output;
        }
        if pipeline.negated {
            status = Status::Exited(i32::from(status.is_success()));
        }
        Ok(status)
    }

    fn log_stream(&mut self, name: &str, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let _ = writeln!(self.log, "# {name}:");
        for line in String::from_utf8_lossy(bytes).lines() {
            let _ = writeln!(self.log, "# | {line}");
        }
    }

    /// Runs one command; its status, and what is left for the pipe and the log.
    fn run_command(
        &mut self,
        command: &SimpleCommand,
        stdin: Vec<u8>,
    ) -> Result<(Status, Vec<u8>, Vec<u8>), String> {
        let mut stdin = stdin;
        let mut output = Target::Output;
        let mut errors = Target::Errors;
        for (redirect, file) in &command.redirects {
            let path = self.directory.join(file);
            match *redirect {
                Redirect::Input => match read_file(&path) {
                    Ok(bytes) => stdin = bytes,
                    Err(error) => return Ok(failure(&format!("{}: {error}", path.display()))),
                },
                Redirect::Output { errors: false, append } => {
                    output = Target::File { path, append }
                }
                Redirect::Output { errors: true, append } => errors = Target::File { path, append },
                Redirect::Both => {
                    output = Target::File { path, append: false };
                    errors = output.clone();
                }
                Redirect::ErrorsToOutput => errors = output.clone(),
                Redirect::OutputToErrors => output = errors.clone(),
            }
        }
        let invocation = Invocation::new(&command.words);
        let mut environment = self.environment.clone();
        for (name, value) in &invocation.assignments {
            match value {
                Some(value) => environment.insert((*name).to_owned(), (*value).to_owned()),
                None => environment.remove(*name),
            };
        }
        let mut io = Io {
            stdin,
            merged: output == errors,
            directory: self.directory.clone(),
            environment,
            ..Io::default()
        };
        let mut status = self.invoke(invocation.words, &mut io);
        for crash in invocation.negations.iter().rev() {
            let expected = match status {
                Status::Crashed(_) => *crash,
                Status::Exited(code) => !crash && code != 0,
            };
            if let (Status::Crashed(reason), false) = (&status, expected) {
                io.print_error(&format!("not: the command crashed: {reason}\n"));
            }
            status = Status::Exited(i32::from(!expected));
        }
        let mut piped = Vec::new();
        let mut reported = Vec::new();
        for (bytes, target) in [(io.output, output), (io.errors, errors)] {
            match target {
                Target::Output => piped.extend(bytes),
                Target::Errors => reported.extend(bytes),
                Target::File { path, append } => {
                    if let Err(error) = write_file(&path, append, &bytes) {
                        return Ok(failure(&format!("{}: {error}", path.display())));
                    }
                    // The other stream goes to the same file only when merged,
                    // and then it is empty here.
                    if io.merged {
                        break;
                    }
                }
            }
        }
        Ok((status, piped, reported))
    }

    fn invoke(&mut self, words: &[String], io: &mut Io) -> Status {
        let Some((name, arguments)) = words.split_first() else {
            let listing: String =
                io.environment.iter().map(|(k, v)| format!("{k}={v}\n")).collect();
            io.print(&listing);
            return Status::Exited(0);
        };
        match (name.as_str(), arguments) {
            ("cd", [directory]) => {
                self.directory = self.directory.join(directory);
                return Status::Exited(i32::from(!self.directory.is_dir()));
            }
            ("export", [assignment]) => {
                let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
                self.environment.insert(name.to_owned(), value.to_owned());
                return Status::Exited(0);
            }
            _ => {}
        }
        if let Some(command) = self.commands.get(name) {
            return match catch_unwind(AssertUnwindSafe(|| command.run(arguments, io))) {
                Ok(status) => Status::Exited(status),
                Err(payload) => Status::Crashed(panic_message(payload.as_ref())),
            };
        }
        let program = Path::new(name).file_stem().and_then(|stem| stem.to_str());
        if program.is_some_and(|program| self.programs.contains(program)) {
            return run_program(name, arguments, io, self.deadline)
                .unwrap_or_else(|error| Status::Crashed(format!("'{name}': {error}")));
        }
        let known: Vec<&str> = self.commands.names().collect();
        Status::Crashed(format!(
            "expected a command, found '{name}'; the commands are {}, cd, env, export and not",
            known.join(", ")
        ))
    }
}

/// The result of a command whose redirections fail.
fn failure(message: &str) -> (Status, Vec<u8>, Vec<u8>) {
    (Status::Exited(1), Vec::new(), format!("{message}\n").into_bytes())
}

/// The message of a panic.
pub(super) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "no message".to_owned()))
}

const NULL_DEVICE: &str = "/dev/null";

/// Reads a file; the null device is empty on every system.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new(NULL_DEVICE) {
        return Ok(Vec::new());
    }
    fs::read(path)
}

fn write_file(path: &Path, append: bool, bytes: &[u8]) -> io::Result<()> {
    if path == Path::new(NULL_DEVICE) {
        return Ok(());
    }
    if append {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
        return file.write_all(bytes);
    }
    fs::write(path, bytes)
}

/// Words as one would type them.
fn shown(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_plain = |c: char| c.is_alphanumeric() || "-_=./,:+@%#".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Runs a program as a process; kills it at the deadline.
fn run_program(
    name: &str,
    arguments: &[String],
    io: &mut Io,
    deadline: Instant,
) -> io::Result<Status> {
    let (mut output, output_writer) = io::pipe()?;
    let (mut errors, errors_writer) = io::pipe()?;
    let error_stream = if io.merged { output_writer.try_clone()? } else { errors_writer };
    let mut child = process::Command::new(name)
        .args(arguments)
        .current_dir(&io.directory)
        .envs(&io.environment)
        .stdin(process::Stdio::piped())
        .stdout(output_writer)
        .stderr(error_stream)
        .spawn()?;
    let stdin = io.take_stdin();
    let pipe = child.stdin.take();
    let waited = thread::scope(|scope| {
        scope.spawn(move || {
            // A program need not read its input.
            let _ = pipe.map(|mut pipe| pipe.write_all(&stdin));
        });
        let read_output = scope.spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).map(|_| bytes)
        });
        let read_errors = scope.spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).map(|_| bytes)
        });
        let status = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() >= deadline => {
                    let killed = child.kill().and_then(|()| child.wait());
                    break killed.map(|_| Status::Crashed("killed at the time limit".to_owned()));
                }
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Ok(Some(status)) => {
                    break Ok(match status.code() {
                        Some(code) => Status::Exited(code),
                        None => Status::Crashed(status.to_string()),
                    });
                }
                Err(error) => break Err(error),
            }
        };
        (status, read_output.join(), read_errors.join())
    });
    let (status, output, errors) = waited;
    if let Ok(bytes) = output {
        io.stdout().extend(bytes?);
    }
    if let Ok(bytes) = errors {
        io.stderr().extend(bytes?);
    }
    status
}
