//! Errors and notes in the shape of LLVM's: `file:line:column: error: message`,
//! the source line, and a caret.

use std::fmt;

use super::source::Source;

/// How serious a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The reason of a failure.
    Error,
    /// A remark that explains the error before it.
    Note,
}

/// A place in a source, with the line to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the source.
    pub source: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// The text of that line.
    pub excerpt: String,
    /// Characters that the marker covers, at least 1.
    pub width: usize,
}

impl Location {
    /// The place of `offset`, marked over `length` bytes but not past the line.
    pub(super) fn new(source: &Source, offset: usize, length: usize) -> Self {
        let (line, column) = source.position(offset);
        let excerpt = source.line_at(offset).to_owned();
        let marked = &source.text()[offset..offset + length];
        let width = marked.split('\n').next().unwrap_or("").chars().count();
        Self { source: source.name().to_owned(), line, column, excerpt, width: width.max(1) }
    }
}

/// One message, with a place where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or note.
    pub severity: Severity,
    /// The message, in LLVM's words; those of LLVM that have no place say
    /// themselves that they are errors, or do not.
    pub message: String,
    /// Where it points.
    pub location: Option<Location>,
}

impl Diagnostic {
    pub(super) fn error(message: impl Into<String>, location: Option<Location>) -> Self {
        Self { severity: Severity::Error, message: message.into(), location }
    }

    pub(super) fn note(message: impl Into<String>, location: Location) -> Self {
        Self { severity: Severity::Note, message: message.into(), location: Some(location) }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        let Some(at) = &self.location else {
            return writeln!(f, "{}", self.message);
        };
        writeln!(f, "{}:{}:{}: {severity}: {}", at.source, at.line, at.column, self.message)?;
        let (excerpt, indent) = expand_tabs(&at.excerpt, at.column - 1);
        writeln!(f, "{excerpt}")?;
        let tail = "~".repeat(at.width - 1);
        writeln!(f, "{:indent$}^{tail}", "")
    }
}

/// The line with tab stops every 8 columns, and where its character `column`
/// (0-based) then stands.
fn expand_tabs(line: &str, column: usize) -> (String, usize) {
    let mut expanded = String::new();
    let mut width = 0;
    let mut indent = None;
    for (index, c) in line.chars().enumerate() {
        if index == column {
            indent = Some(width);
        }
        if c == '\t' {
            let spaces = 8 - width % 8;
            expanded.extend(std::iter::repeat_n(' ', spaces));
            width += spaces;
        } else {
            expanded.push(c);
            width += 1;
        }
    }
    (expanded, indent.unwrap_or(width))
}

/// What kind of failure ended the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The input does not satisfy the checks.
    Mismatch,
    /// The options or the check file are wrong; the input was not judged.
    Usage,
}

/// One failure: an error and the notes that explain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Mismatch or misuse.
    pub kind: FailureKind,
    /// The error first, then its notes.
    pub diagnostics: Vec<Diagnostic>,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::at(FailureKind::Usage, message, None)
    }

    pub(super) fn usage_at(message: impl Into<String>, source: &Source, offset: usize) -> Self {
        let location = Location::new(source, offset, 0);
        Self::at(FailureKind::Usage, message, Some(location))
    }

    pub(super) fn mismatch(message: impl Into<String>, location: Option<Location>) -> Self {
        Self::at(FailureKind::Mismatch, message, location)
    }

    fn at(kind: FailureKind, message: impl Into<String>, location: Option<Location>) -> Self {
        Self { kind, diagnostics: vec![Diagnostic::error(message, location)] }
    }

    pub(super) fn with_note(mut self, message: impl Into<String>, location: Location) -> Self {
        self.diagnostics.push(Diagnostic::note(message, location));
        self
    }

    /// The exit status that FileCheck gives this failure: 1 or 2.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.kind {
            FailureKind::Mismatch => 1,
            FailureKind::Usage => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostics.iter().try_for_each(|d| d.fmt(f))
    }
}

impl std::error::Error for Failure {}
