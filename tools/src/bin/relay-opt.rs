//! relay-opt as a process.

fn main() -> std::process::ExitCode {
    tools::run_process(&tools::registry())
}
