//! What watches a run.

use std::io;
use std::time::Duration;

use crate::body::Rewrite;
use crate::diagnostics::Diagnostics;
use crate::intern::Symbol;
use crate::module::Module;
use crate::registry::Registry;

use super::{ItemRun, Step};

/// The pass that an instrument is told about.
#[derive(Clone, Copy)]
pub struct StepCx<'a> {
    /// The pass and its options.
    pub step: &'a Step,
    /// Its place in the pipeline, from 0.
    pub index: usize,
    /// What exists.
    pub registry: &'a Registry,
}

/// What a pass did.
pub struct StepResult<'a> {
    /// Whether it edited anything.
    pub changed: bool,
    /// Whether it changed how numbers are rounded.
    pub rounds: bool,
    /// From its start to its end.
    pub wall: Duration,
    /// Its run on each item, in item order; empty for a module pass.
    pub items: &'a [ItemRun],
}

/// Watches a run. All hooks run on the calling thread, in pipeline order, so an instrument needs
/// no locks and its output does not depend on the number of threads. `log` is where it writes.
pub trait Instrument {
    /// Whether the pass may run on `item`, `None` for a module pass. Asked once for each, in item
    /// order, before any of them runs.
    fn allow(
        &mut self,
        cx: StepCx<'_>,
        item: Option<Symbol>,
        log: &mut dyn io::Write,
    ) -> io::Result<bool> {
        let _ = (cx, item, log);
        Ok(true)
    }

    /// Called before each pass.
    fn before(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        log: &mut dyn io::Write,
    ) -> io::Result<()> {
        let _ = (cx, module, log);
        Ok(())
    }

    /// Called with the rewrites of a pass that made some, where they are recorded; also before the
    /// run ends because the pass failed. The module is for places in the source.
    fn rewritten(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        rewrites: &[Rewrite],
        log: &mut dyn io::Write,
    ) -> io::Result<()> {
        let _ = (cx, module, rewrites, log);
        Ok(())
    }

    /// Called after each pass that succeeded. An error among the findings is the fault of the
    /// pass, and ends the run with [`Outcome::Broken`](super::Outcome::Broken).
    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        result: &StepResult<'_>,
        log: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        let _ = (cx, module, result, log);
        Ok(Diagnostics::new())
    }
}
