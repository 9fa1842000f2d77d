//! Words of the command line that are looked at before or after clap does.

use clap::CommandFactory;
use clap::error::ErrorKind;
use ir_core::diagnostics::did_you_mean;

use super::Cli;

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

/// The error for a first word that is nearly the name of a command.
pub(super) fn misspelt(args: &[&str]) -> Option<clap::Error> {
    let mut command = Cli::command();
    let word = args.first().filter(|word| !word.contains(['/', '.', '-']))?;
    if command.find_subcommand(word).is_some() {
        return None;
    }
    let help = command_help(word)?;
    let message = format!("there is no command `{word}`; {help}\n");
    Some(command.error(ErrorKind::InvalidSubcommand, message))
}

/// Which command `word` may be meant to be.
pub(super) fn command_help(word: &str) -> Option<String> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    did_you_mean(word, shown.map(|command| command.get_name()))
}
