//! The text forms of programs, and which one a text is in.

use std::io;

use ir_core::{Diagnostic, Item, Module, Registry, Symbol};

use super::{PrintOptions, VERSION};

/// A text form of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Relay text.
    Relay,
    /// The generic form of the IR, which every operation has.
    Generic,
}

/// What of a program is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Constants of more bytes are left out.
    pub elide: Option<usize>,
    /// Whether Relay text has the types that follow from the others.
    pub types: bool,
}

impl From<Option<usize>> for Style {
    fn from(elide: Option<usize>) -> Style {
        Style { elide, types: true }
    }
}

impl Form {
    /// The form of `text`: generic where the first token is a string, else Relay.
    pub fn of(text: &str) -> Form {
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

    /// The module that `text` describes and what is wrong with it. Types that Relay text leaves out
    /// stay unknown until they are inferred.
    pub fn parse(self, file: &str, text: &str, registry: &Registry) -> (Module, Vec<Diagnostic>) {
        match self {
            Form::Relay => super::parse(file, text, registry),
            Form::Generic => ir_core::text::parse(file, text, registry),
        }
    }

    /// Prints `module` in this form.
    ///
    /// # Errors
    /// Those of writing to `out`.
    pub fn print(
        self,
        module: &Module,
        registry: &Registry,
        style: impl Into<Style>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let Style { elide, types } = style.into();
        match self {
            Form::Relay => {
                let options =
                    PrintOptions { types, elide_constants_over: elide, ..PrintOptions::default() };
                super::print(module, registry, &options, out)
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

/// Item `name` as Relay text, without the version, which stands before a module only.
pub fn item_text(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    style: impl Into<Style>,
) -> String {
    let mut module = Module::new();
    module.items.insert(name, item.clone());
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = Form::Relay.print(&module, registry, style, &mut text);
    let text = String::from_utf8_lossy(&text);
    let version = format!("#[version = \"{VERSION}\"]\n");
    text.strip_prefix(version.as_str()).unwrap_or(&text).to_string()
}
