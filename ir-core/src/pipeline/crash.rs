//! Panics of a pass, caught and described.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use crate::intern::Symbol;

/// A panic of a pass: an error of the compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crash {
    /// The pass.
    pub pass: &'static str,
    /// The function it ran on; `None` for a module pass.
    pub item: Option<Symbol>,
    /// The panic message, with the place in our source.
    pub message: String,
    /// How the pass came there, where that was asked for.
    pub backtrace: Option<String>,
}

thread_local! {
    /// `Some` while this thread runs a pass: what the panic hook saw.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Where the last panic of this thread that was caught came from.
    static TRACE: RefCell<Option<Backtrace>> = const { RefCell::new(None) };
}

static INSTALL: Once = Once::new();

/// The result of `run`, or the message of its panic, which is not printed. What `run` was editing
/// must not be used after a panic.
pub fn catch_panic<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = SEEN.with_borrow_mut(|seen| match seen {
                Some(message) => {
                    *message = describe(info);
                    TRACE.set(Some(Backtrace::capture()));
                    true
                }
                None => false,
            });
            if !caught {
                previous(info);
            }
        }));
    });
    let outer = SEEN.replace(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let seen = SEEN.replace(outer);
    result.map_err(|payload| match seen {
        Some(message) if !message.is_empty() => message,
        _ => text(&*payload).to_string(),
    })
}

/// How this thread came to the last panic that [`catch_panic`] caught, as a note of a diagnostic,
/// where the environment asks for that with `RUST_BACKTRACE`; nothing the second time.
pub fn take_backtrace() -> Option<String> {
    let trace = TRACE.take()?;
    (trace.status() == BacktraceStatus::Captured).then(|| format!("backtrace:\n{trace}"))
}

fn text(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "a panic without a message",
    }
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let message = text(info.payload());
    match info.location() {
        Some(place) => format!("{message} ({}:{})", place.file(), place.line()),
        None => message.to_string(),
    }
}
