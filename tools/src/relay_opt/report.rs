//! Diagnostics on their way to the user.

use std::io;

use ir_core::diagnostics::render;
use ir_core::{Diagnostic, SourceMap};

use super::args::DiagnosticForm;
use crate::io::Io;

/// Collects diagnostics and writes them in the form that was asked for.
pub(super) struct Reporter {
    form: DiagnosticForm,
    sources: SourceMap,
    pending: Vec<Diagnostic>,
}

impl Reporter {
    pub(super) fn new(form: DiagnosticForm) -> Reporter {
        Reporter { form, sources: SourceMap::default(), pending: vec![] }
    }

    /// Adds a text that diagnostics point into.
    pub(super) fn source(&mut self, file: &str, text: &str) {
        self.sources.add(file, text);
    }

    /// Adds the texts of `others` that are not known yet.
    pub(super) fn sources(&mut self, others: &SourceMap) {
        for (file, text) in others.files() {
            if self.sources.text(file).is_none() {
                self.sources.add(file.as_str(), text.clone());
            }
        }
    }

    /// The texts that diagnostics point into.
    pub(super) fn source_map(&self) -> &SourceMap {
        &self.sources
    }

    /// Reports `diagnostics`, in place order where they come together.
    ///
    /// # Errors
    /// Those of writing to standard error.
    pub(super) fn report(
        &mut self,
        diagnostics: Vec<Diagnostic>,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        match self.form {
            DiagnosticForm::Human => {
                render::human(&diagnostics, &self.sources, io.styled, io.stderr)
            }
            DiagnosticForm::Json => render::json(&diagnostics, &self.sources, io.stderr),
            // A SARIF log is one document for the whole run.
            DiagnosticForm::Sarif => {
                self.pending.extend(diagnostics);
                Ok(())
            }
        }
    }

    /// Writes what waits for the end of the run.
    ///
    /// # Errors
    /// Those of writing to standard error.
    pub(super) fn finish(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        if self.form != DiagnosticForm::Sarif {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        render::sarif(&pending, &self.sources, "relay-opt", &[&crate::codes::ALL], io.stderr)
    }
}
