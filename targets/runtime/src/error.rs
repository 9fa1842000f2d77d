//! What went wrong, ready to be shown.

use std::fmt;

use ir_core::diagnostics::render::human;
use ir_core::tensor::TensorSizeError;
use ir_core::{Diagnostic, Diagnostics, SourceMap};

/// Why a program is not compiled, or does not run: prints as for people, with the places that it is
/// about where the sources are known.
#[derive(Clone)]
pub struct Error {
    /// What was found.
    pub diagnostics: Diagnostics,
    /// The texts that it is about.
    pub sources: SourceMap,
}

impl Error {
    /// `diagnostics` about `sources`.
    pub fn new(diagnostics: Diagnostics, sources: &SourceMap) -> Error {
        Error { diagnostics, sources: sources.clone() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        human(&self.diagnostics, &self.sources, false, &mut text).map_err(|_| fmt::Error)?;
        f.write_str(String::from_utf8_lossy(&text).trim_end())
    }
}

/// The same, since it is what a `main` that fails shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Error {
        Error { diagnostics, sources: SourceMap::default() }
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Error {
        Diagnostics::from(diagnostic).into()
    }
}

/// A tensor for a program that cannot be.
impl From<TensorSizeError> for Error {
    fn from(error: TensorSizeError) -> Error {
        Diagnostic::error("E0732", error.to_string()).into()
    }
}
