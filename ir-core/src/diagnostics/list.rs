//! Several findings: the error of whatever reads, checks or makes something.

use std::fmt;
use std::ops::{Deref, DerefMut};

use thin_vec::ThinVec;

use super::Diagnostic;
use crate::location::Span;

/// What was found, in order. A value that comes with findings comes as `(T, Diagnostics)`; where there
/// is none because of them, as `Result<T, Diagnostics>`, which `?` makes of a single [`Diagnostic`] too.
///
/// It is one word wide, also in a result, and takes no memory while it is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(ThinVec<Diagnostic>);

impl Diagnostics {
    /// Nothing found.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// All findings.
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.0
    }

    /// Adds a finding.
    pub fn push(&mut self, found: Diagnostic) {
        self.0.push(found);
    }

    /// Takes the last finding.
    pub fn pop(&mut self) -> Option<Diagnostic> {
        self.0.pop()
    }

    /// Takes finding `index`.
    pub fn remove(&mut self, index: usize) -> Diagnostic {
        self.0.remove(index)
    }

    /// Keeps the first `count` findings.
    pub fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    /// Keeps the findings that `keep` accepts.
    pub fn retain(&mut self, keep: impl FnMut(&Diagnostic) -> bool) {
        self.0.retain(keep);
    }

    /// The findings as `change` makes them, such as with a note.
    pub fn map(self, change: impl FnMut(Diagnostic) -> Diagnostic) -> Diagnostics {
        self.into_iter().map(change).collect()
    }

    /// The findings at `span`.
    pub fn at(self, span: impl Into<Option<Span>>) -> Diagnostics {
        let span = span.into();
        self.map(|found| found.at(span))
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.iter().filter(|found| found.is_error())
    }

    /// What is no error.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.iter().filter(|found| !found.is_error())
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// `value`, unless something was found.
    ///
    /// # Errors
    /// All that was found.
    pub fn or<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl Deref for Diagnostics {
    type Target = [Diagnostic];

    fn deref(&self) -> &[Diagnostic] {
        &self.0
    }
}

impl DerefMut for Diagnostics {
    fn deref_mut(&mut self) -> &mut [Diagnostic] {
        &mut self.0
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(found: Diagnostic) -> Diagnostics {
        Diagnostics(ThinVec::from([found]))
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, found: I) {
        self.0.extend(found);
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(found: I) -> Diagnostics {
        Diagnostics(found.into_iter().collect())
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = thin_vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'d> IntoIterator for &'d Diagnostics {
    type Item = &'d Diagnostic;
    type IntoIter = std::slice::Iter<'d, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The messages alone, for where a place and help find no room.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, found) in self.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { "; " } else { "" }, found.message)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_word_wide() {
        assert_eq!(size_of::<Result<(), Diagnostics>>(), size_of::<usize>());
    }

    #[test]
    fn a_single_finding_is_a_list() {
        fn fails() -> Result<(), Diagnostics> {
            Err(Diagnostic::error("E0000", "no"))?
        }
        let mut found = fails().unwrap_err();
        found.push(Diagnostic::warning("E0001", "perhaps"));
        assert!(found.has_errors());
        assert_eq!((found.errors().count(), found.warnings().count()), (1, 1));
        assert!(Diagnostics::new().or(1) == Ok(1));
    }
}
