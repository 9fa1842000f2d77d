//! Windows that are solved before the search comes to them, on several threads.
//!
//! What a window becomes depends on nothing but the window. So the search finds the same with any
//! number of threads, and where it comes to another window than expected, that one is solved then.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ir_core::pipeline::catch_panic;
use rustc_hash::{FxHashMap, FxHashSet};

use super::solve::{Found, Solver};
use super::window::Window;

/// How many windows are solved at once at most, so that what waits takes little memory.
pub(super) const BATCH: usize = 64;

/// What `windows`, of kernels that cost so much, become. What fails is left out, so that it fails
/// where it is asked for.
pub(super) fn solve(
    mut windows: Vec<(Window, f64)>,
    solver: &Solver<'_>,
) -> FxHashMap<Window, Found> {
    let mut seen: FxHashSet<Window> = FxHashSet::default();
    windows.retain(|(window, _)| seen.insert(window.clone()));
    let (next, solved) = (AtomicUsize::new(0), Mutex::new(FxHashMap::default()));
    let work = || {
        while let Some((window, cost)) = windows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Ok(Ok(found)) = catch_panic(|| solver.solve(window, *cost)) {
                let mut solved = solved.lock().unwrap_or_else(|error| error.into_inner());
                solved.insert(window.clone(), found);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..solver.threads.min(windows.len()) {
            // Where the system grants no more threads, this one does the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    solved.into_inner().unwrap_or_else(|error| error.into_inner())
}
