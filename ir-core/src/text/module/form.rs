//! The text forms of programs, and which one a text is in.

use std::io;

use crate::diagnostics::Diagnostics;
use crate::module::Module;
use crate::registry::Registry;
use crate::text;

/// A text form of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The text for people, in which every dialect writes its items as it likes.
    Readable,
    /// The generic form of the IR, which every operation has.
    Generic,
}

/// What of a program is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Whether readable text has the types that follow from the others, in comments,
    /// `/* ty=float32 */`, and at `let` bindings.
    pub types: bool,
    /// Whether readable text has the places of the source, in comments, `/* span=file:3:9 */`.
    pub spans: bool,
    /// Constants of more bytes than this are mentioned, but left out; such a text cannot be read
    /// back.
    pub elide: Option<usize>,
}

impl Default for Style {
    fn default() -> Style {
        Style { types: true, spans: false, elide: None }
    }
}

impl From<Option<usize>> for Style {
    fn from(elide: Option<usize>) -> Style {
        Style { elide, ..Style::default() }
    }
}

impl Form {
    /// The form of `text`: generic where the first token is a string, else readable.
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
                return Form::Readable;
            }
        }
    }

    /// The module that `text` describes and what is wrong with it. Types that readable text leaves
    /// out stay unknown until they are inferred.
    pub fn parse(self, file: &str, text: &str, registry: &Registry) -> (Module, Diagnostics) {
        match self {
            Form::Readable => super::parse(file, text, registry),
            Form::Generic => text::parse(file, text, registry),
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
        let style = style.into();
        match self {
            Form::Readable => super::print(module, registry, &style, out),
            // Whoever reads the output, a pipe or a reproducer, must get the constants back.
            Form::Generic => {
                let options = match style.elide {
                    None => text::PrintOptions::complete(),
                    Some(_) => text::PrintOptions::default(),
                };
                text::print_with(module, registry, &options, out)
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
