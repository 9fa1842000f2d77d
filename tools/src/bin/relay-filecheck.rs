//! FileCheck as a tool of its own.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use lit_runner::filecheck::FileCheck;
use lit_runner::lit::{Command, Io};

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // Nothing can be reported where standard error itself is gone.
            let _ = writeln!(io::stderr(), "relay-filecheck: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> io::Result<u8> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let reads_stdin = !arguments.iter().any(|a| {
        let option = a.trim_start_matches('-');
        a.starts_with('-')
            && (option.starts_with("input-file") || option == "help" || option == "version")
    });
    let mut input = Vec::new();
    if reads_stdin {
        io::stdin().read_to_end(&mut input)?;
    }
    let mut io = Io::new(input, std::env::current_dir()?, std::env::vars().collect());
    let status = FileCheck.run(&arguments, &mut io);
    io::stdout().write_all(io.stdout())?;
    io::stderr().write_all(io.stderr())?;
    Ok(u8::try_from(status).unwrap_or(2))
}
