//! Diagnostics on their way to the user.

use std::io;

use ir_core::diagnostics::render::{self, Omitted};
use ir_core::{Diagnostic, Diagnostics, SourceMap};

use crate::driver::options::DiagnosticForm;
use crate::process::exit::{DIAGNOSTICS, OK, USAGE, finish};
use crate::process::io::Io;

/// Collects diagnostics and writes them in the form that was asked for, up to a limit.
#[derive(Clone)]
pub(crate) struct Reporter {
    form: DiagnosticForm,
    /// How many errors are written, and how many warnings and notes; 0 is all.
    limit: usize,
    sources: SourceMap,
    pending: Diagnostics,
    /// Errors, and warnings and notes, that were written.
    written: [usize; 2],
    omitted: Omitted,
}

impl Reporter {
    pub(crate) fn new(form: DiagnosticForm, limit: usize) -> Reporter {
        Reporter {
            form,
            limit,
            sources: SourceMap::default(),
            pending: Diagnostics::new(),
            written: [0; 2],
            omitted: Omitted::default(),
        }
    }

    /// Adds a text that diagnostics point into.
    pub(crate) fn source(&mut self, file: &str, text: &str) {
        self.sources.add(file, text);
    }

    /// Adds the texts of `others` that are not known yet.
    pub(crate) fn sources(&mut self, others: &SourceMap) {
        for (file, text) in others.files() {
            if self.sources.text(file).is_none() {
                self.sources.add(file.as_str(), text.clone());
            }
        }
    }

    /// The texts that diagnostics point into.
    pub(crate) fn source_map(&self) -> &SourceMap {
        &self.sources
    }

    /// Reports `diagnostics`, in place order where they come together. Past the limit they are
    /// counted only.
    ///
    /// # Errors
    /// Those of writing to standard error.
    pub(crate) fn report(
        &mut self,
        mut diagnostics: Diagnostics,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        if self.limit > 0 {
            render::sort(&mut diagnostics, &self.sources);
            diagnostics.retain(|diagnostic| self.admit(diagnostic));
        }
        match self.form {
            DiagnosticForm::Human => {
                render::human(&diagnostics, &self.sources, io.coloured(), io.stderr)
            }
            DiagnosticForm::Json => render::json(&diagnostics, &self.sources, io.stderr),
            // A SARIF log is one document for the whole run.
            DiagnosticForm::Sarif => {
                self.pending.extend(diagnostics);
                Ok(())
            }
        }
    }

    /// Whether `diagnostic` is within the limit; counts it.
    fn admit(&mut self, diagnostic: &Diagnostic) -> bool {
        let error = diagnostic.is_error();
        let written = &mut self.written[usize::from(!error)];
        if *written < self.limit {
            *written += 1;
            return true;
        }
        match error {
            true => self.omitted.errors += 1,
            false => self.omitted.others += 1,
        }
        false
    }

    /// Writes what waits for the end of the run: how many diagnostics were left out, and a SARIF
    /// log.
    ///
    /// # Errors
    /// Those of writing to standard error.
    pub(crate) fn finish(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        let omitted = std::mem::take(&mut self.omitted);
        match self.form {
            DiagnosticForm::Human if !omitted.is_empty() => {
                writeln!(io.stderr, "{omitted}; `--max-errors 0` prints all")
            }
            DiagnosticForm::Json if !omitted.is_empty() => {
                writeln!(io.stderr, "{}", omitted.json())
            }
            DiagnosticForm::Human | DiagnosticForm::Json => Ok(()),
            DiagnosticForm::Sarif => {
                let (pending, codes) =
                    (std::mem::take(&mut self.pending), &[&crate::driver::codes::ALL[..]]);
                render::sarif(&pending, omitted, &self.sources, "relay-opt", codes, io.stderr)
            }
        }
    }
}

/// Why a command ends before its work.
pub(crate) enum Ended {
    /// What was asked for, which needs none.
    Answered(String),
    /// What is wrong with the command line.
    Misused(String),
    /// What is wrong, and the exit status.
    Found(Diagnostics, i32),
}

impl From<String> for Ended {
    fn from(message: String) -> Ended {
        Ended::Misused(message)
    }
}

impl Ended {
    /// An error of the input.
    pub(crate) fn input(found: impl Into<Diagnostics>) -> Ended {
        Ended::Found(found.into(), DIAGNOSTICS)
    }

    /// An error of the command line that has a place in a text of it.
    pub(crate) fn usage(found: impl Into<Diagnostics>) -> Ended {
        Ended::Found(found.into(), USAGE)
    }

    /// Says why; the exit status.
    ///
    /// # Errors
    /// Those of writing to the streams.
    pub(crate) fn tell(self, mut reporter: Reporter, io: &mut Io<'_>) -> io::Result<i32> {
        match self {
            Ended::Answered(answer) => writeln!(io.stdout, "{answer}").map(|()| OK),
            Ended::Misused(message) => writeln!(io.stderr, "error: {message}").map(|()| USAGE),
            Ended::Found(diagnostics, status) => {
                reporter.report(diagnostics, io)?;
                reporter.finish(io)?;
                Ok(status)
            }
        }
    }
}

/// Reports an error that ends the program.
pub(crate) fn refuse(found: impl Into<Diagnostics>, io: &mut Io<'_>) -> i32 {
    let reported = render::human(&found.into(), &SourceMap::default(), io.styled, io.stderr);
    finish(reported.map(|()| DIAGNOSTICS), io)
}
