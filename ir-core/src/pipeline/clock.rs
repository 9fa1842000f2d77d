//! How long passes work, for whom another thread asks: a pass that does not end says nothing
//! itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::diagnostics::Diagnostic;
use crate::intern::Symbol;
use crate::location::Span;

/// A limit of the time that a pass may work on one item, or on the module, and those that work now.
/// Clones are about the same ones.
#[derive(Clone, Debug)]
pub struct Clock {
    limit: Duration,
    /// Those that work, with numbers by which they leave.
    working: Arc<Mutex<Vec<(u64, Working)>>>,
}

/// A pass that works on an item or on the module.
#[derive(Clone, Debug)]
pub struct Working {
    /// The pass.
    pub pass: &'static str,
    /// The item; `None` for the module.
    pub item: Option<Symbol>,
    /// Where the item stands.
    pub span: Option<Span>,
    start: Instant,
}

/// While it lives, a pass works.
pub(super) struct Shift<'c> {
    clock: &'c Clock,
    number: u64,
}

impl Clock {
    /// A clock that allows so much wall-clock time.
    pub fn new(limit: Duration) -> Clock {
        Clock { limit, working: Arc::default() }
    }

    /// The limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// The first pass at work that takes longer than the limit.
    pub fn late(&self) -> Option<Working> {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        working.iter().map(|(_, pass)| pass).find(|pass| self.is_late(pass)).cloned()
    }

    fn is_late(&self, working: &Working) -> bool {
        working.start.elapsed() > self.limit
    }

    /// What to say of a pass that takes longer than the limit.
    pub fn diagnostic(&self, late: &Working) -> Diagnostic {
        let diagnostic = Diagnostic::error("E0715", self.message(late)).help(
            "this is an error of the pass, or a program that is too large for it; \
             `--pass-time-limit SECONDS` gives it more time",
        );
        match late.span {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        }
    }

    /// The same in one line.
    pub fn message(&self, late: &Working) -> String {
        let place = late.item.map_or("the module".to_string(), |item| format!("@{item}"));
        let seconds = self.limit.as_secs_f64();
        format!("pass `{}` works on {place} for more than {seconds} s", late.pass)
    }

    /// Begins to watch a pass.
    pub(super) fn start(
        &self,
        pass: &'static str,
        item: Option<Symbol>,
        span: Option<Span>,
    ) -> Shift<'_> {
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        // They leave in any order.
        let number = working.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        working.push((number, Working { pass, item, span, start: Instant::now() }));
        Shift { clock: self, number }
    }
}

impl Shift<'_> {
    /// Ends it; the pass, where it took longer than the limit.
    pub(super) fn end(self) -> Option<Working> {
        let working = self.leave()?;
        self.clock.is_late(&working).then_some(working)
    }

    fn leave(&self) -> Option<Working> {
        let mut working = self.clock.working.lock().unwrap_or_else(PoisonError::into_inner);
        let index = working.iter().position(|(number, _)| *number == self.number)?;
        Some(working.swap_remove(index).1)
    }
}

impl Drop for Shift<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
