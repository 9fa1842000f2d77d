//! Comparing results before and after passes.

use std::io;

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::module::Module;
use crate::registry::Registry;

use super::{Instrument, StepCx, StepResult};

/// Gives programs a meaning, for [`VerifySemantics`]; a dialect's interpreter does.
pub trait Oracle {
    /// What a program computes on the trial inputs.
    type Results;

    /// Runs the program on the trial inputs, which are the same each time.
    ///
    /// # Errors
    /// Where the program has no result on some input.
    fn evaluate(
        &mut self,
        module: &Module,
        registry: &Registry,
    ) -> Result<Self::Results, Diagnostics>;

    /// How `now` differs from `expected`, where it does by more than rounding. With `finite`,
    /// floats that are infinite or NaN in `expected` may be any.
    fn difference(
        &self,
        expected: &Self::Results,
        now: &Self::Results,
        finite: bool,
    ) -> Option<String>;

    /// Takes those results of `now` into `expected` that differ by more than rounding, infinities
    /// and NaN included.
    fn adopt(&self, expected: &mut Self::Results, now: Self::Results);
}

/// Runs the program on trial inputs before the first pass and after every pass that changed it,
/// and names the first pass that changes a result. Results are compared with those of the program
/// as it was read, so that small differences do not add up.
///
/// A pass that changes how numbers are rounded may give any number where the result was infinite or
/// NaN. Where it does, the passes after it are compared with what it gave.
pub struct VerifySemantics<O: Oracle> {
    oracle: O,
    expected: Option<Result<O::Results, Diagnostics>>,
}

impl<O: Oracle> VerifySemantics<O> {
    /// Compares what `oracle` computes.
    pub fn new(oracle: O) -> VerifySemantics<O> {
        VerifySemantics { oracle, expected: None }
    }
}

impl<O: Oracle> Instrument for VerifySemantics<O> {
    fn before(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        _log: &mut dyn io::Write,
    ) -> io::Result<()> {
        if self.expected.is_none() {
            self.expected = Some(self.oracle.evaluate(module, cx.registry));
        }
        Ok(())
    }

    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        result: &StepResult<'_>,
        _log: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        let expected = match &mut self.expected {
            Some(Ok(expected)) => expected,
            // The program that was read has no results: said once, and nothing to compare with.
            Some(Err(found)) if cx.index == 0 => {
                let note = "results are not compared: the program that was read has none";
                return Ok(found.clone().map(|mut warning| {
                    warning.severity = crate::Severity::Warning;
                    warning.note(note)
                }));
            }
            _ => return Ok(Diagnostics::new()),
        };
        if !result.changed {
            return Ok(Diagnostics::new());
        }
        let name = cx.step.def.name;
        let fault = |what: String| {
            Diagnostic::error("E0712", format!("pass `{name}` changed a result: {what}"))
                .note(format!("step {} of the pipeline: {}", cx.index + 1, cx.step))
        };
        Ok(match self.oracle.evaluate(module, cx.registry) {
            Ok(now) => match self.oracle.difference(expected, &now, result.rounds) {
                Some(what) => fault(what).into(),
                None => {
                    if result.rounds {
                        self.oracle.adopt(expected, now);
                    }
                    Diagnostics::new()
                }
            },
            Err(found) => found.map(|error| fault(error.message)),
        })
    }
}
