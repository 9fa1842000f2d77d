//! Progress of long work, on a terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::progress::Progress;

/// Work that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line on standard error that appears after a second and goes away with the value: a bar where
/// it is known how many steps there are. Nothing where that is no terminal.
#[derive(Default)]
pub(crate) struct Bar {
    shown: Option<Shown>,
}

struct Shown {
    bar: ProgressBar,
    /// Steps that were started; the bar shows those that are done.
    started: AtomicU64,
    /// Told when the work is done.
    done: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// Progress on standard error, where that is a terminal.
    pub(crate) fn on_terminal(is_terminal: bool) -> Bar {
        if !is_terminal {
            return Bar::default();
        }
        // Until it is known how many steps there are, there is nothing to fill.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {msg}") {
            bar.set_style(style);
        }
        let (done, finished) = channel();
        let later = bar.clone();
        let show = move || {
            if finished.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                later.set_draw_target(ProgressDrawTarget::stderr());
                later.enable_steady_tick(Duration::from_millis(200));
            }
        };
        let thread = std::thread::Builder::new().name("progress".to_string()).spawn(show).ok();
        let started = AtomicU64::new(0);
        Bar { shown: Some(Shown { bar, started, done, thread }) }
    }
}

impl Bar {
    /// Does `what`, such as writing lines to the terminal, while the bar is not there.
    pub(crate) fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        match &self.shown {
            Some(Shown { bar, .. }) => bar.suspend(what),
            None => what(),
        }
    }
}

impl Progress for Bar {
    fn expect(&self, steps: usize) {
        if let Some(Shown { bar, .. }) = &self.shown
            && steps > 0
        {
            if bar.length().is_none()
                && let Ok(style) =
                    ProgressStyle::with_template("{elapsed:>4} [{bar:30}] {pos}/{len} {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_length(bar.length().unwrap_or(0) + steps as u64);
        }
    }

    fn step(&self, what: &str) {
        if let Some(Shown { bar, started, .. }) = &self.shown {
            bar.set_message(what.to_string());
            bar.set_position(started.fetch_add(1, Ordering::Relaxed));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        let Some(Shown { bar, done, thread, .. }) = self.shown.take() else { return };
        // The thread may be past waiting.
        let _ = done.send(());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_bar_only_where_there_is_something_to_fill() {
        let progress = Bar::on_terminal(true);
        let length = || progress.shown.as_ref().and_then(|shown| shown.bar.length());
        progress.step("a search");
        progress.expect(0);
        assert_eq!(length(), None);
        progress.expect(2);
        progress.expect(1);
        assert_eq!(length(), Some(3));
    }
}
