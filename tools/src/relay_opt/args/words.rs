//! Words of the command line that are looked at before or after clap does.

use clap::CommandFactory;
use clap::error::ErrorKind;
use ir_core::diagnostics::did_you_mean;

use super::Cli;
use crate::driver::input::SEE_COMMANDS;

/// The arguments, where options `--load-plugin` that stand before the name of a command stand behind
/// it: what else stands there is for optimizing.
pub(super) fn plugins_behind(args: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut count = 0;
    while let Some(word) = words.get(count) {
        count += match *word {
            "--load-plugin" => 2,
            word if word.starts_with("--load-plugin=") => 1,
            _ => break,
        };
    }
    if words.get(count).is_some_and(|word| Cli::command().find_subcommand(word).is_some()) {
        words[..=count].rotate_right(1);
    }
    words
}

/// The arguments, where `help COMMAND` asks for what `COMMAND --help` prints.
///
/// # Errors
/// Where there is no such command.
pub(super) fn asked_help(mut words: Vec<&str>) -> Result<Vec<&str>, clap::Error> {
    if words.first() != Some(&"help") {
        return Ok(words);
    }
    let program = Cli::command();
    let mut command = &program;
    for word in &words[1..] {
        command = match command.find_subcommand(word) {
            Some(inner) => inner,
            None => return Err(no_command(word)),
        };
    }
    words.rotate_left(1);
    words.pop();
    words.push("--help");
    Ok(words)
}

fn no_command(word: &str) -> clap::Error {
    let help = command_help(word).unwrap_or_else(|| SEE_COMMANDS.to_string());
    let message = format!("there is no command `{word}`; {help}\n");
    Cli::command().error(ErrorKind::InvalidSubcommand, message)
}

/// The error for a first word that is nearly the name of a command.
pub(super) fn misspelt(args: &[&str]) -> Option<clap::Error> {
    let word = args.first().filter(|word| !word.contains(['/', '.', '-']))?;
    if Cli::command().find_subcommand(word).is_some() {
        return None;
    }
    command_help(word).map(|_| no_command(word))
}

/// Which command `word` may be meant to be.
pub(super) fn command_help(word: &str) -> Option<String> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    did_you_mean(word, shown.map(|command| command.get_name()))
}
