//! Arguments of the commands about rules.

use clap::{ArgAction, Args, Subcommand};

/// Lists and checks rewrite rules.
#[derive(Args, Debug)]
pub(crate) struct Rules {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

/// What to do with rules.
#[derive(Subcommand, Debug)]
pub(crate) enum RulesCommand {
    /// Tries rules on random, small and adversarial operands, and prints a table. Fails where the
    /// sides of a rule differ, or where no operands fit it
    Check {
        /// Files of rules. The default is the built-in ones
        files: Vec<String>,
        /// Checks the gradients of all operators instead: those that have a rule and those that are derived of
        /// definitions against each other and against differences of values
        #[arg(long, conflicts_with = "files")]
        gradients: bool,
        /// Operands that each rule is tried on, in each direction, by default 100; with `--gradients`, uses of each
        /// operator, by default 4
        #[arg(long, value_name = "N")]
        trials: Option<u32>,
    },
    /// Prints what each rule did for a model, as a table: matches, applications, nodes that were new,
    /// classes united, nodes looked at, and nodes that the result has
    Count {
        /// A program or a model
        model: String,
        /// A strategy, by name or as a file ending in `.strategy`
        #[arg(long, value_name = "NAME", default_value = "egraph")]
        strategy: String,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Runs a strategy without each of the rules that did something, and prints what the result then
    /// costs
    Ablate {
        /// A program or a model
        model: String,
        /// A strategy, by name or as a file ending in `.strategy`
        #[arg(long, value_name = "NAME", default_value = "egraph")]
        strategy: String,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Runs strategies on models, and prints costs, work and CPU time
    Compare {
        /// Programs or models
        #[arg(required = true)]
        models: Vec<String>,
        /// Strategies, by name or as files ending in `.strategy`. The default is all built-in ones
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        strategies: Vec<String>,
        /// Also writes the table as comma-separated values
        #[arg(long, value_name = "FILE")]
        csv: Option<String>,
    },
    /// Prints a rule, what its promise means, and operands that it was tried on
    Explain {
        /// The rule's name
        name: String,
        /// Files of rules, besides the built-in ones
        files: Vec<String>,
    },
    /// Checks a certificate that `--explain-rewrites=FILE` wrote: makes each of its steps again, from
    /// the program and the rules alone
    Replay {
        /// The certificate
        certificate: String,
        /// The program as it was before the pass
        program: String,
        /// The program after the pass, to check that it is what the certificate is about
        #[arg(long, value_name = "FILE")]
        result: Option<String>,
        /// Files of rules, besides the built-in ones
        #[arg(long, value_name = "FILE", action = ArgAction::Append)]
        rules: Vec<String>,
    },
    /// Prints rules
    List {
        /// Files of rules. The default is the built-in ones
        files: Vec<String>,
    },
}
