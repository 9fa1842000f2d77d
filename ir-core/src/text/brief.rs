//! One operation on one line, for people who watch passes: `relay.add(%x, relay.exp(%y))`. This
//! text does not read back.

use crate::attributes::AttrDict;
use crate::body::{Body, ValueDef};
use crate::ids::{OpId, ValueId};

use super::attributes::{PrintOptions, write_dict};
use super::layout::Line;

/// More of the attributes or operands is left out.
const LIMIT: usize = 80;

/// `op`, its operands named or hinted at, and the types of its results.
pub fn operation(body: &Body, op: OpId) -> String {
    let operands: Vec<String> = body.operands(op).map(|operand| nested(body, operand)).collect();
    let types: Vec<String> = body.results(op).map(|value| body.ty(value).to_string()).collect();
    let mut text = format!("{}({})", body.op_name(op), shortened(operands.join(", ")));
    text += &attributes(body.attrs(op));
    if !types.is_empty() {
        text += &format!(": {}", shortened(types.join(", ")));
    }
    text
}

/// `operand` with its own operands, where these are short.
fn nested(body: &Body, operand: ValueId) -> String {
    const SHORT: usize = 24;
    let text = value(body, operand);
    let Some(start) = text.strip_suffix("(..)") else { return text };
    let op = body.defining_op(operand);
    let inner: Vec<String> =
        op.into_iter().flat_map(|op| body.operands(op)).map(|inner| value(body, inner)).collect();
    let inner = inner.join(", ");
    if inner.len() <= SHORT { format!("{start}({inner})") } else { text }
}

/// What defines `value`, as a line.
pub fn definition(body: &Body, defined: ValueId) -> String {
    match body.defining_op(defined) {
        Some(op) => operation(body, op),
        None => format!("{}: {}", value(body, defined), body.ty(defined)),
    }
}

/// `value` as an operand: its name, or the operation that it is a result of.
pub fn value(body: &Body, value: ValueId) -> String {
    if let Some(name) = body.name_hint(value).name {
        return format!("%{name}");
    }
    match body.def(value) {
        ValueDef::Argument(_, index) => format!("%argument{index}"),
        ValueDef::Result(op, _) if body.operand_count(op) == 0 => {
            format!("{}{}", body.op_name(op), attributes(body.attrs(op)))
        }
        ValueDef::Result(op, 0) => format!("{}(..)", body.op_name(op)),
        ValueDef::Result(op, index) => format!("{}(..).{index}", body.op_name(op)),
    }
}

fn attributes(attrs: AttrDict) -> String {
    if attrs.is_empty() {
        return String::new();
    }
    let mut line = Line::default();
    write_dict(attrs, None, &PrintOptions::default(), &mut line);
    format!(" {}", shortened(line.text().clone()))
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LIMIT) {
        text.truncate(end);
        text += "…";
    }
    text
}
