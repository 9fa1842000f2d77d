//! `relay-opt` with the extensions of this crate.

fn main() -> std::process::ExitCode {
    tools::run_process(&examples::registry())
}
