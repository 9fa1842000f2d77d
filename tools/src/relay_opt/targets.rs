//! The targets by name.

use std::io::{self, Write};

use ir_core::{Diagnostic, Registry};
use target_core::{Target, targets};

use crate::reference;

/// The target that `text` names, on `threads` threads. An option that the text sets counts.
pub(super) fn target(
    text: &str,
    threads: Option<u16>,
    registry: &Registry,
) -> Result<Box<dyn Target>, Diagnostic> {
    let Some(threads) = threads else { return targets(registry).parse(text) };
    let text = match text.strip_suffix('}') {
        Some(options) => format!("{options},threads={threads}}}"),
        None => format!("{text}{{threads={threads}}}"),
    };
    targets(registry).parse(&text)
}

/// Writes the targets with their options.
pub(super) fn list(registry: &Registry, out: &mut dyn Write) -> io::Result<()> {
    for target in targets(registry).all() {
        writeln!(out, "{}: {}", target.name, target.doc)?;
        reference::write_options(target.options, out)?;
    }
    Ok(())
}
