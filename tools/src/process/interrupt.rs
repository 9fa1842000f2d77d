//! Ctrl-C as a flag: the first one raises it, the second one ends the process.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use ir_core::Interrupt;
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};

use super::exit::INTERRUPTED;

/// What Ctrl-C raises from now on in this process. Where the system refuses, Ctrl-C goes on to end
/// the process, and nothing is raised.
pub(crate) fn listen() -> Interrupt {
    static LISTENING: OnceLock<Interrupt> = OnceLock::new();
    *LISTENING.get_or_init(|| {
        // Signals come as long as the process lives.
        let flag: &'static Arc<AtomicBool> = Box::leak(Box::default());
        // The handlers run in this order: the first one finds what the second one left last time.
        let registered = register_conditional_shutdown(SIGINT, INTERRUPTED, flag.clone())
            .and_then(|_| register(SIGINT, flag.clone()));
        registered.map_or_else(|_| Interrupt::default(), |_| Interrupt::by(flag))
    })
}
