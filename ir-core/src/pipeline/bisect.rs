//! Running only the first N executions, to find the one at fault.

use std::io;

use crate::intern::Symbol;

use super::{Instrument, StepCx};

/// Lets only the first `limit` executions run, an execution being one pass on one function (or on
/// the module), and writes which ran. Without a limit all run.
#[derive(Debug)]
pub struct BisectLimit {
    limit: Option<u64>,
    count: u64,
}

impl BisectLimit {
    /// Lets the first `limit` executions run.
    pub fn new(limit: Option<u64>) -> BisectLimit {
        BisectLimit { limit, count: 0 }
    }
}

impl Instrument for BisectLimit {
    fn allow(
        &mut self,
        cx: StepCx<'_>,
        item: Option<Symbol>,
        log: &mut dyn io::Write,
    ) -> io::Result<bool> {
        self.count += 1;
        let run = self.limit.is_none_or(|limit| self.count <= limit);
        let verb = if run { "running" } else { "skipping" };
        let place = item.map_or("the module".to_string(), |name| format!("@{name}"));
        writeln!(log, "bisect: {verb} ({}) {} on {place}", self.count, cx.step)?;
        Ok(run)
    }
}
