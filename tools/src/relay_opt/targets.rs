//! The targets by name.

use std::io::{self, Write};

use ir_core::Diagnostic;
use target_core::{Target, Targets};

use crate::reference;

/// The targets that there are.
pub(super) fn targets() -> Targets {
    Targets::new().with(target_c::registration())
}

/// The target that `text` names, on `threads` threads. An option that the text sets counts.
pub(super) fn target(text: &str, threads: Option<u16>) -> Result<Box<dyn Target>, Diagnostic> {
    let Some(threads) = threads else { return targets().parse(text) };
    let text = match text.strip_suffix('}') {
        Some(options) => format!("{options},threads={threads}}}"),
        None => format!("{text}{{threads={threads}}}"),
    };
    targets().parse(&text)
}

/// Writes the targets with their options.
pub(super) fn list(out: &mut dyn Write) -> io::Result<()> {
    for target in targets().all() {
        writeln!(out, "{}: {}", target.name, target.doc)?;
        reference::write_options(target.options, out)?;
    }
    Ok(())
}
