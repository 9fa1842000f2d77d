//! The lit runner with the standard commands.

use std::process::ExitCode;

use lit_tests::lit::{Commands, lit_main};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let status = lit_main(Commands::standard(), &arguments);
    ExitCode::from(u8::try_from(status).unwrap_or(2))
}
