//! FileCheck: checks a text against the directives in another text.
//!
//! The semantics are those that LLVM documents; `docs/lit.md` lists the
//! differences. [`check`] is a pure function over texts; [`FileCheck`] is the
//! command that lit tests and the tool `relay-filecheck` run.

mod command;
mod diagnostics;
mod directives;
mod ere;
mod matcher;
mod numeric;
mod options;
mod pattern;
mod source;

pub use command::FileCheck;
pub use diagnostics::{Diagnostic, Failure, FailureKind, Location, Severity};
pub use options::{CommandLine, Options, Request, USAGE, parse as parse_arguments};
pub use source::Source;

use matcher::Matcher;
use pattern::{Declarations, Variables};

/// What a successful check did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Matches of positive directives; each repeat of a `COUNT` is one.
    pub matches: usize,
}

/// Checks the text `input` against the directives in the text `check`.
///
/// Both texts come as `(name, text)`; the names appear in messages.
///
/// # Errors
/// One failure of kind [`FailureKind::Usage`] if the options or the directives
/// are wrong; otherwise every mismatch that was found. After a mismatch, the
/// search goes on with the next `CHECK-LABEL` region.
pub fn check(
    check: (&str, &str),
    input: (&str, &str),
    options: &Options,
) -> Result<Report, Vec<Failure>> {
    let mut declarations = Declarations::default();
    let mut variables = Variables::default();
    for (index, definition) in options.definitions.iter().enumerate() {
        variables
            .define(&mut declarations, definition, index + 1)
            .map_err(|failure| vec![failure])?;
    }
    let check = Source::new(check.0, check.1, options.strict_whitespace);
    let implicit: Vec<(Source, usize)> = options
        .implicit_check_not
        .iter()
        .map(|pattern| {
            let lead = "-implicit-check-not='";
            let text = format!("{lead}{pattern}'");
            (Source::new("command line", &text, true), lead.len())
        })
        .collect();
    let directives = directives::read(&check, &implicit, options, &mut declarations)
        .map_err(|failure| vec![failure])?;
    if input.1.is_empty() && !options.allow_empty {
        let message = format!("FileCheck error: '{}' is empty.", input.0);
        return Err(vec![Failure::usage(message)]);
    }
    let input = Source::new(input.0, input.1, options.strict_whitespace);
    let matches = Matcher::new(&input, options, variables).run(&directives)?;
    Ok(Report { matches })
}
