//! The subcommand `completions`: scripts that make shells complete words.

use std::io;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use ir_core::Registry;

use crate::driver::codes;
use crate::process::exit::OK;
use crate::process::io::Io;

/// Prints what makes a shell complete the words of this program.
///
/// In bash, zsh and fish, the words are those that there are when they are asked for: passes and their
/// options within a pipeline, operations, targets, codes, files. What plugins have is among them where
/// `--load-plugin` stands before `completions`. For bash:
/// `relay-opt completions bash > ~/.local/share/bash-completion/completions/relay-opt`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

/// The scripts of shells that ask this program; `{{ask}}` stands for the command that does.
const BASH: &str = include_str!("completions/complete.bash");
const ZSH: &str = include_str!("completions/complete.zsh");
const FISH: &str = include_str!("completions/complete.fish");

/// Prints the script that makes a shell complete the words of `program`, those of `plugins` among
/// them.
///
/// # Errors
/// Those of writing.
pub(crate) fn completions(
    args: &Completions,
    program: Command,
    plugins: &[String],
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let script = match args.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        shell => return fixed(shell, program, registry, io),
    };
    let plugin = |path: &String| {
        // The script runs in any folder.
        let path = io.directory.join(path);
        let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
        format!(" --load-plugin '{}'", path.replace('\'', r"'\''"))
    };
    let plugins: String = plugins.iter().map(plugin).collect();
    let script = script.replace("{{ask}}", &format!("relay-opt{plugins} complete"));
    io.stdout.write_all(script.as_bytes())?;
    Ok(OK)
}

/// Prints a script with the words that there are now.
fn fixed(shell: Shell, program: Command, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let passes: Vec<&'static str> = registry
        .passes()
        .map(|pass| pass.name)
        .chain(registry.pipelines().map(|pipeline| pipeline.name))
        .collect();
    let ops: Vec<&'static str> = registry.ops().map(|info| info.def.name).collect();
    let codes: Vec<&'static str> = codes::ALL.iter().map(|entry| entry.code).collect();
    let targets = target_core::targets(registry).all().iter().map(|target| target.name);
    let targets: Vec<&'static str> = targets.collect();
    let mut command = program;
    for (argument, values) in [
        ("pass", &passes),
        ("help_pass", &passes),
        ("print_ir_before", &passes),
        ("print_ir_after", &passes),
        ("help_op", &ops),
        ("explain", &codes),
        ("target", &targets),
    ] {
        let parser = PossibleValuesParser::new(values);
        command = command.mut_arg(argument, |argument| argument.value_parser(parser));
    }
    // The generator takes a stream that cannot fail.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "relay-opt", &mut script);
    io.stdout.write_all(&script)?;
    Ok(OK)
}
