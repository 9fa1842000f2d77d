//! Which attributes the operators of the standard have.

use std::sync::LazyLock;

use ir_core::diagnostics::did_you_mean;
use rustc_hash::FxHashMap;

use crate::importer::Fault;
use crate::proto::Node;

/// A line for each operator: its name, as nodes have it, and its attributes in any version of the operator
/// set. `tests/attributes.rs` compares it with the package onnx.
static BY_OPERATOR: LazyLock<FxHashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let lines = include_str!("attributes.txt").lines();
    let entry = |line: &'static str| {
        let mut words = line.split(' ');
        Some((words.next()?, words.collect()))
    };
    lines.filter_map(entry).collect()
});

/// Refuses attributes that the operator of `node` never had: they are misspelt, and whoever wrote them counts on
/// them. Operators that are not of the standard may have any.
pub(crate) fn check(node: &Node<'_>) -> Result<(), Fault> {
    let Some(known) = BY_OPERATOR.get(node.operator().as_str()) else { return Ok(()) };
    let Some(unknown) = node.attributes.iter().find(|found| !known.contains(&found.name)) else {
        return Ok(());
    };
    let (name, offset) = (unknown.name, unknown.offset);
    let near = did_you_mean(name, known.iter().copied());
    let near = near.map(|near| format!("; {near}")).unwrap_or_default();
    Err(format!("attribute `{name}`, at byte {offset}: the operator has no such attribute{near}")
        .into())
}
