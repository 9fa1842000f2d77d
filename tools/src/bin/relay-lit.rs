//! The lit runner with the commands of the project, relay-opt among them.

use std::io;
use std::process::ExitCode;

use lit_runner::lit::lit_main;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let status = lit_main(tools::lit::commands(), &arguments, &mut io::stdout(), &mut io::stderr());
    ExitCode::from(u8::try_from(status).unwrap_or(2))
}
