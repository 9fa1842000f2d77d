//! FileCheck as a command.

use super::{CommandLine, Failure, Request, USAGE, check, parse_arguments};
use crate::lit::{Command, Io};

/// The command `FileCheck`, also called `relay-filecheck`.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileCheck;

impl Command for FileCheck {
    fn run(&self, arguments: &[String], io: &mut Io) -> i32 {
        let variable = io.variable("FILECHECK_OPTS").unwrap_or_default();
        let from_environment = variable.split_whitespace().map(str::to_owned);
        let arguments: Vec<String> = from_environment.chain(arguments.iter().cloned()).collect();
        match parse_arguments(&arguments) {
            Ok(Request::Check(line)) => run(&line, io),
            Ok(Request::Help) => {
                io.print(USAGE);
                0
            }
            Ok(Request::Version) => {
                io.print(concat!("relay-filecheck ", env!("CARGO_PKG_VERSION"), "\n"));
                0
            }
            Err(message) => {
                io.print_error(&format!(
                    "relay-filecheck: {message}. Try: relay-filecheck --help\n"
                ));
                2
            }
        }
    }
}

fn run(line: &CommandLine, io: &mut Io) -> i32 {
    let check_text = match std::fs::read(io.directory().join(&line.check_file)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            io.print_error(&format!("Could not open check file '{}': {error}\n", line.check_file));
            return 2;
        }
    };
    let (input_name, input) = match &line.input_file {
        None => ("<stdin>", io.take_stdin()),
        Some(file) => match std::fs::read(io.directory().join(file)) {
            Ok(bytes) => (file.as_str(), bytes),
            Err(error) => {
                io.print_error(&format!("Could not open input file '{file}': {error}\n"));
                return 2;
            }
        },
    };
    let input = String::from_utf8_lossy(&input);
    match check((&line.check_file, &check_text), (input_name, &input), &line.options) {
        Ok(_) => 0,
        Err(failures) => {
            for failure in &failures {
                io.print_error(&failure.to_string());
            }
            failures.iter().map(Failure::exit_code).max().unwrap_or(1)
        }
    }
}
