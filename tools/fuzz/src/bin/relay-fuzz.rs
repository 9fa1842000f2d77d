//! `relay-fuzz list`, `relay-fuzz dictionary TARGET` and `relay-fuzz run TARGET FILE...`.

use std::io::{self, Write};
use std::process::ExitCode;

use fuzz::{TARGETS, Target, dictionary, target};

const USAGE: &str = "relay-fuzz list
       prints the targets
relay-fuzz dictionary TARGET
       prints words for libFuzzer's `-dict`
relay-fuzz run TARGET FILE...
       tries the inputs; an input that shows a fault ends the program with a panic
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["list"] => list(),
        ["dictionary", name] => named(name, |target| words(&target)),
        ["run", name, ref files @ ..] => named(name, |target| run(&target, files)),
        _ => Err(io::Error::other(format!("usage:\n{USAGE}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody can be told where standard error is gone.
            let _ = writeln!(io::stderr(), "relay-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn named(name: &str, act: impl FnOnce(Target) -> io::Result<()>) -> io::Result<()> {
    let unknown = || io::Error::other(format!("no target `{name}`: see `relay-fuzz list`"));
    act(target(name).ok_or_else(unknown)?)
}

fn list() -> io::Result<()> {
    for target in TARGETS {
        writeln!(io::stdout(), "{:<12} {}", target.name, target.doc)?;
    }
    Ok(())
}

/// The words, in the form of libFuzzer.
fn words(target: &Target) -> io::Result<()> {
    for word in dictionary(target) {
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(io::stdout(), "\"{escaped}\"")?;
    }
    Ok(())
}

fn run(target: &Target, files: &[&str]) -> io::Result<()> {
    for file in files {
        writeln!(io::stderr(), "{file}")?;
        (target.run)(&std::fs::read(file)?);
    }
    Ok(())
}
