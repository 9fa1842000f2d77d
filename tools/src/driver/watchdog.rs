//! Ends a process in which a pass works for too long. Nothing else ends such a pass: it asks
//! nobody, and what it edits is not for others to touch.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ir_core::pipeline::{Clock, Working};

use crate::driver::report::Reporter;
use crate::driver::reproducers::Reproducers;
use crate::process::exit::INTERNAL;
use crate::process::io::Io;

/// What is said when a pass works for too long.
pub(crate) struct LastWords {
    pub(crate) reporter: Reporter,
    pub(crate) reproducers: Reproducers,
    /// The passes, as text.
    pub(crate) pipeline: String,
    /// What they began with, as text.
    pub(crate) program: String,
    /// Whether standard error is a terminal.
    pub(crate) styled: bool,
}

/// A thread that watches passes, as long as this lives.
pub(crate) struct Watchdog {
    done: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// How often a clock is looked at.
const OFTEN: Duration = Duration::from_millis(20);

impl Watchdog {
    /// Watches the passes on `clock`. Where one works for too long, says so on standard error of
    /// the process, and ends it as a crash of a pass does. Where the system grants no thread,
    /// nobody watches.
    pub(crate) fn new(clock: Clock, words: LastWords) -> Watchdog {
        let done: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let ours = done.clone();
        let watch = move || {
            if let Some(late) = wait(&clock, &ours) {
                // Whoever reads standard error may be gone.
                let _ = words.say(&clock, &late);
                passes::exec::stop_programs();
                // What other threads do is not waited for, nor what would run at the end of `main`.
                signal_hook::low_level::exit(INTERNAL);
            }
        };
        Watchdog { done, thread: std::thread::Builder::new().spawn(watch).ok() }
    }
}

/// The pass that works for too long; `None` where they are done first.
fn wait(clock: &Clock, (done, told): &(Mutex<bool>, Condvar)) -> Option<Working> {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    while !*done {
        if let Some(late) = clock.late() {
            return Some(late);
        }
        (done, _) = told.wait_timeout(done, OFTEN).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; where it ends the process, so does this wait.
            let _ = thread.join();
        }
    }
}

impl LastWords {
    fn say(mut self, clock: &Clock, late: &Working) -> io::Result<()> {
        let mut stderr = io::stderr();
        let (mut stdin, mut stdout) = (io::empty(), io::sink());
        let mut io = Io::new(&mut stdin, &mut stdout, &mut stderr, Path::new(""));
        io.styled = self.styled;
        self.reporter.report(clock.diagnostic(late).into(), &mut io)?;
        self.reporter.finish(&mut io)?;
        let reason = clock.message(late);
        self.reproducers.write(self.pipeline, &self.program, reason, io.stderr)
    }
}
