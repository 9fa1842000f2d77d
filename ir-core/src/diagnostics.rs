//! Diagnostics: what is wrong, where, what was expected, and what to do next.

pub mod codes;
mod list;
pub mod render;

pub use list::Diagnostics;

use crate::location::Span;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Additional information on its own.
    Note,
    /// Legal but suspicious.
    Warning,
    /// The input is wrong, or the request cannot be met.
    Error,
}

/// A message about a place of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What to say there; may be empty at the primary place.
    pub message: String,
}

/// One finding. Messages start in lower case, name the operation, and say what was expected and
/// what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A stable code such as `E0101`.
    pub code: &'static str,
    /// One line.
    pub message: String,
    /// Where; `None` for what has no place in a source.
    pub primary: Option<Label>,
    /// Related places.
    pub secondary: Vec<Label>,
    /// Further facts, each a line.
    pub notes: Vec<String>,
    /// What to do next.
    pub help: Option<String>,
}

impl Diagnostic {
    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        let (primary, help) = (None, None);
        Diagnostic { severity, code, message, primary, secondary: vec![], notes: vec![], help }
    }

    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, message)
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, message)
    }

    /// A note on its own.
    pub fn remark(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Note, code, message)
    }

    /// The same at `span`.
    pub fn at(mut self, span: impl Into<Option<Span>>) -> Diagnostic {
        self.primary = span.into().map(|span| Label { span, message: String::new() });
        self
    }

    /// The same with `message` at the primary place, where there is one.
    pub fn labelled(mut self, message: impl Into<String>) -> Diagnostic {
        if let Some(primary) = &mut self.primary {
            primary.message = message.into();
        }
        self
    }

    /// The same with a related place; nothing is added where there is no span.
    pub fn related(
        mut self,
        span: impl Into<Option<Span>>,
        message: impl Into<String>,
    ) -> Diagnostic {
        if let Some(span) = span.into() {
            self.secondary.push(Label { span, message: message.into() });
        }
        self
    }

    /// The same with a further fact.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Longer names, in characters, are not compared: nobody types them.
const LONGEST_NAME: usize = 200;

/// The candidates nearest to a misspelt `name`, best first, at most three. Ties keep the order of
/// `candidates`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let length = name.chars().count();
    let mut scored: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.chars().count();
            let limit = length.max(other).div_ceil(3);
            // The distance is at least the difference of the lengths, and costs their product.
            if length.abs_diff(other) > limit || length > LONGEST_NAME || other > LONGEST_NAME {
                return None;
            }
            let distance = strsim::damerau_levenshtein(name, candidate);
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    scored.sort_by_key(|(distance, _)| *distance);
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// `did you mean `a`, `b` or `c`?`, or `None` where nothing is near.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    did_you_mean_with("", name, candidates)
}

/// The misspelt name in a message, and the names that [`did_you_mean`] in it suggests, with their
/// sigils.
pub fn suggestions(message: &str) -> Option<(&str, Vec<&str>)> {
    let (before, after) = message.split_once("did you mean `")?;
    let name = before.rsplit('`').nth(1)?;
    let near: Vec<&str> = after.split('?').next()?.split('`').step_by(2).collect();
    // Behind the last name stands nothing.
    Some((name, near.into_iter().filter(|near| !near.is_empty()).collect()))
}

/// [`did_you_mean`] for names that are written after a sigil, such as `@main` and `%x`. Neither
/// `name` nor the candidates contain it.
pub fn did_you_mean_with<'a>(
    sigil: &str,
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let near = nearest(name, candidates);
    let near: Vec<String> = near.iter().map(|name| format!("`{sigil}{name}`")).collect();
    let (last, rest) = near.split_last()?;
    Some(match rest {
        [] => format!("did you mean {last}?"),
        rest => format!("did you mean {} or {last}?", rest.join(", ")),
    })
}
