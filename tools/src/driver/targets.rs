//! The targets by name.

use std::io::{self, Write};

use ir_core::{Diagnostics, Registry};
use target_core::{Target, targets};

use crate::driver::options::Machine;
use crate::driver::reference;

/// The target of `machine`. An option that its text sets counts.
pub(crate) fn target(
    machine: &Machine,
    registry: &Registry,
) -> Result<Box<dyn Target>, Diagnostics> {
    let Machine { target: text, threads } = machine;
    let Some(threads) = threads else { return targets(registry).parse(text) };
    let text = match text.strip_suffix('}') {
        Some(options) => format!("{options},threads={threads}}}"),
        None => format!("{text}{{threads={threads}}}"),
    };
    targets(registry).parse(&text)
}

/// Writes the targets with their options.
pub(crate) fn list(registry: &Registry, out: &mut dyn Write) -> io::Result<()> {
    for target in targets(registry).all() {
        writeln!(out, "{}: {}", target.name, target.doc)?;
        reference::write_options(target.options, out)?;
    }
    Ok(())
}
