//! Printing the rewrites of passes, one to a line.

use std::io;

use crate::body::Rewrite;
use crate::module::Module;

use super::{Instrument, StepCx};

/// The rewrites of a pass, or those by one of its rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFilter {
    /// The pass.
    pub pass: String,
    /// The rule; `None` for all rewrites.
    pub rule: Option<String>,
}

/// Prints rewrites: the pass and the rule, where, and the operation before and after. They have to
/// be [recorded](crate::body::WatchOptions::record).
#[derive(Clone, Debug)]
pub struct TraceRewrites {
    filters: Vec<TraceFilter>,
}

impl TraceRewrites {
    /// Prints the rewrites that one of `filters` names.
    pub fn new(filters: Vec<TraceFilter>) -> TraceRewrites {
        TraceRewrites { filters }
    }

    fn holds(&self, pass: &str, rewrite: &Rewrite) -> bool {
        let rule = rewrite.rule.map(|rule| rule.as_str());
        self.filters.iter().any(|filter| {
            filter.pass == pass && (filter.rule.is_none() || filter.rule.as_deref() == rule)
        })
    }
}

impl Instrument for TraceRewrites {
    fn rewritten(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        rewrites: &[Rewrite],
        log: &mut dyn io::Write,
    ) -> io::Result<()> {
        let pass = cx.step.def.name;
        for rewrite in rewrites.iter().filter(|rewrite| self.holds(pass, rewrite)) {
            let rule = rewrite.rule.map_or(String::new(), |rule| format!(":{rule}"));
            let base = module.items.get(&rewrite.item).and_then(|item| item.signature.span);
            let place = rewrite.loc.span(base).and_then(|span| {
                let (line, column) = module.sources.line_column(span.file, span.start)?;
                Some(format!(" {}:{line}:{column}", span.file))
            });
            let place = place.unwrap_or_default();
            let Rewrite { item, before, after, .. } = rewrite;
            writeln!(log, "rewrite {pass}{rule} in @{item}{place}: {before} => {after}")?;
        }
        Ok(())
    }
}
