//! How far long work is, for whoever shows it.

use std::io;

use ir_core::Module;
use ir_core::pipeline::{Instrument, StepCx};

/// Told how far long work is.
pub trait Progress {
    /// Expects so many more steps.
    fn expect(&self, steps: usize);
    /// Goes on to the next step, `what`.
    fn step(&self, what: &str);
}

/// Nobody is told.
impl Progress for () {
    fn expect(&self, _: usize) {}
    fn step(&self, _: &str) {}
}

/// Each pass is a step.
pub struct PassProgress<'a>(pub &'a dyn Progress);

impl Instrument for PassProgress<'_> {
    fn before(&mut self, cx: StepCx<'_>, _: &Module, _: &mut dyn io::Write) -> io::Result<()> {
        self.0.step(cx.step.def.name);
        Ok(())
    }
}
