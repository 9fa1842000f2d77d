//! A request to end long work with what there is.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether someone wants long work to end with the best that it has. Searches look at it where they
/// look at their budgets.
#[derive(Clone, Copy, Default, Debug)]
pub struct Interrupt(Option<&'static AtomicBool>);

impl Interrupt {
    /// What is raised when `flag` becomes true. It lives as long as the process, as signals do.
    pub const fn by(flag: &'static AtomicBool) -> Interrupt {
        Interrupt(Some(flag))
    }

    /// Whether the work is to end.
    pub fn is_raised(self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl PartialEq for Interrupt {
    fn eq(&self, other: &Interrupt) -> bool {
        match (self.0, other.0) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Interrupt {}
