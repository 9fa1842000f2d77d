//! Verification after every pass.

use std::io;

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::module::Module;
use crate::registry::Registry;

use super::{Instrument, StepCx, StepResult};

/// Verifies the module after every pass that changed it, and names the pass that broke it.
pub struct VerifyEach<'a> {
    check: &'a dyn Fn(&Module, &Registry) -> Diagnostics,
}

impl<'a> VerifyEach<'a> {
    /// Verifies with `check`, which returns what is wrong.
    pub fn new(check: &'a dyn Fn(&Module, &Registry) -> Diagnostics) -> VerifyEach<'a> {
        VerifyEach { check }
    }
}

impl Instrument for VerifyEach<'_> {
    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        result: &StepResult<'_>,
        _log: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        if !result.changed {
            return Ok(Diagnostics::new());
        }
        let mut found = (self.check)(module, cx.registry);
        if found.has_errors() {
            let name = cx.step.def.name;
            let message = format!("pass `{name}` broke the program; it was well formed before");
            found.push(
                Diagnostic::error("E0711", message)
                    .note(format!("step {} of the pipeline: {}", cx.index + 1, cx.step))
                    .help("this is an error of the pass, not of the input; please report it"),
            );
        }
        Ok(found)
    }
}
