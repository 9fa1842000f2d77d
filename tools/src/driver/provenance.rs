//! Where the operations of a program come from.

use std::io;

use indexmap::IndexSet;
use ir_core::text::brief;
use ir_core::{Loc, LocData, Module, Registry, Span, Traits};

/// Writes a line for each operation of `module`, in order: what it is, the places in the sources
/// that it comes from, and the passes and rules that made it, in the order in which they did. Those
/// of a body are under the name of its item.
///
/// # Errors
/// Those of writing to `out`.
pub(crate) fn write(
    module: &Module,
    registry: &Registry,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    for (name, item) in &module.items {
        let Some(body) = item.body.as_deref() else { continue };
        writeln!(out, "provenance of @{name}:")?;
        for op in body.walk() {
            if registry.traits(body, op).contains(Traits::TERMINATOR) {
                continue;
            }
            let (places, passes) = sources(body.loc(op), item.signature.span, module);
            let text = brief::operation(body, op);
            let from = if places.is_empty() { "unknown".to_string() } else { places.join(", ") };
            let by = if passes.is_empty() { String::new() } else { "; by ".to_string() };
            writeln!(out, "  {text}: from {from}{by}{}", passes.join(", "))?;
        }
    }
    Ok(())
}

/// The places behind `loc`, and the passes, in the order of their work.
fn sources(loc: Loc, base: Option<Span>, module: &Module) -> (Vec<String>, Vec<String>) {
    let (mut places, mut passes) = (IndexSet::new(), IndexSet::new());
    let place = |span: Span| match module.sources.line_column(span.file, span.start) {
        Some((line, column)) => format!("{}:{line}:{column}", span.file),
        None => span.file.to_string(),
    };
    for part in loc.parts() {
        match part.data() {
            LocData::Unknown | LocData::Fused(_) => {}
            LocData::Offset(_) => places.extend(part.span(base).map(place)),
            LocData::Span(span) => {
                places.insert(place(span));
            }
            LocData::Imported(node) => {
                places.insert(format!("node `{node}`"));
            }
            LocData::Pass(pass, _) => {
                passes.insert(pass.to_string());
            }
        }
    }
    (places.into_iter().collect(), passes.into_iter().rev().collect())
}
