//! The forms of programs: how they read, check and print.

use std::io;

use ir_core::{Diagnostic, Module, Registry};

use super::input;

/// A text form of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Relay text.
    Relay,
    /// The generic form of the IR, which every operation has.
    Generic,
}

/// What of a program is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Style {
    /// Constants of more bytes are left out.
    pub(super) elide: Option<usize>,
    /// Whether Relay text has the types that follow from the others.
    pub(super) types: bool,
}

impl From<Option<usize>> for Style {
    fn from(elide: Option<usize>) -> Style {
        Style { elide, types: true }
    }
}

impl Form {
    /// The form of `text`: generic where the first token is a string, else Relay.
    pub(super) fn of(text: &str) -> Form {
        let mut rest = text.trim_start_matches('\u{feff}').trim_start();
        loop {
            if let Some(comment) = rest.strip_prefix("//") {
                rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = skip_block_comment(comment).trim_start();
            } else if rest.starts_with('"') {
                return Form::Generic;
            } else {
                return Form::Relay;
            }
        }
    }

    /// The module that `text` describes and what is wrong with it. Types are inferred where the
    /// form leaves them out.
    pub(super) fn parse(
        self,
        file: &str,
        text: &str,
        registry: &Registry,
    ) -> (Module, Vec<Diagnostic>) {
        let (module, mut found) = match self {
            Form::Relay => relay::text::parse(file, text, registry),
            Form::Generic => ir_core::text::parse(file, text, registry),
        };
        let error = found.iter_mut().find(|found| found.is_error());
        if let (Some(error), Some(purpose)) = (error, input::purpose(file)) {
            error.help = Some(purpose.to_string());
        }
        (module, found)
    }

    /// Prints `module` in this form.
    ///
    /// # Errors
    /// Those of writing to `out`.
    pub(super) fn print(
        self,
        module: &Module,
        registry: &Registry,
        style: impl Into<Style>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let Style { elide, types } = style.into();
        match self {
            Form::Relay => {
                let options = relay::text::PrintOptions {
                    types,
                    elide_constants_over: elide,
                    ..relay::text::PrintOptions::default()
                };
                relay::text::print(module, registry, &options, out)
            }
            // Whoever reads the output, a pipe or a reproducer, must get the constants back.
            Form::Generic => {
                let options = match elide {
                    None => ir_core::text::PrintOptions::complete(),
                    Some(_) => ir_core::text::PrintOptions::default(),
                };
                ir_core::text::print_with(module, registry, &options, out)
            }
        }
    }
}

/// What comes after a block comment whose `/*` is taken; comments nest.
fn skip_block_comment(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (1, 0);
    while depth > 0 {
        match (bytes.get(at), bytes.get(at + 1)) {
            (None, _) => return "",
            (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            _ => at += 1,
        }
    }
    &text[at..]
}

/// Infers the types of `module` and returns what is wrong with them.
pub(super) fn infer(module: &mut Module, registry: &Registry) -> Vec<Diagnostic> {
    relay::inference::infer_module(module, registry)
}

/// What is wrong with `module`.
pub(super) fn verify(module: &Module, registry: &Registry) -> Vec<Diagnostic> {
    ir_core::verify::verify(module, registry).err().unwrap_or_default()
}
