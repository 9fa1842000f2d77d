//! Arguments of the commands for shells, editors, manuals and plugins.

use clap::{Args, Subcommand};

/// Prints what makes a shell complete the words of this program.
///
/// In bash, zsh and fish, the words are those that there are when they are asked for: passes and their
/// options within a pipeline, operations, targets, codes, files. What plugins have is among them where
/// `--load-plugin` stands before `completions`. For bash:
/// `relay-opt completions bash > ~/.local/share/bash-completion/completions/relay-opt`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Prints what may stand at the end of a command line: `files`, and `word WORD` for each word.
///
/// The scripts that `completions` prints ask this.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct Complete {
    /// The command line up to the cursor
    #[arg(allow_hyphen_values = true)]
    pub(crate) line: String,
}

/// Serves editors: a language server on standard input and output.
///
/// It speaks version 3.17 of the Language Server Protocol. `tools/editors/` has an extension for
/// VS Code, which starts it.
#[derive(Args, Debug)]
pub(crate) struct Lsp {
    /// Uses standard input and output, as it always does; some editors pass this
    #[arg(long)]
    pub(crate) stdio: bool,
}

/// Writes the manual pages of this program and of its commands.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder for the pages, such as `~/.local/share/man/man1`; it is made where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: String,
}

/// Makes and builds plugins.
#[derive(Args, Debug)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

/// What there is to do with plugins.
#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// Makes a folder with a plugin: a pass, its test, and what builds them
    New {
        /// Name of the plugin: small letters, digits and `-`
        name: String,
        /// The folder to make; the default is the name
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
        /// The sources of this program; the default is where it was built
        #[arg(long, value_name = "DIR")]
        source: Option<String>,
    },
    /// Builds a plugin, and says how to load it
    Build {
        /// The folder of the plugin
        #[arg(default_value = ".")]
        folder: String,
        /// Compiles the plugin, and relay-opt with it, with all optimizations
        #[arg(long)]
        release: bool,
        /// Copies the plugin and the libraries that it needs to this folder
        #[arg(short, long, value_name = "DIR")]
        output: Option<String>,
    },
}
