//! What a result is printed as.

use std::io::{self, Write};

use ir_core::diagnostics::did_you_mean;
use ir_core::ids::EntityId;
use ir_core::{
    Attr, AttrData, AttrDict, BlockId, Body, Item, Module, OpId, Registry, Scalar, TensorData,
    ValueId,
};
use runtime::lowering::Level;
use target_core::targets;

use crate::driver::language::{Form, Style};

/// What a result is printed as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Emit {
    Text(Form),
    Json,
    /// What a target makes of the program.
    Lowered(Level),
}

pub(crate) const FORMS: [&str; 6] = ["relay", "generic", "json", "te", "schedule", "loops"];
const LATER: [&str; 1] = ["dot"];

impl Emit {
    /// The form called `name`; the code of a target is called like the target.
    ///
    /// # Errors
    /// A message where there is none.
    pub(crate) fn named(name: &str, registry: &Registry) -> Result<Emit, String> {
        let targets = targets(registry).all().iter().map(|target| target.name);
        let all: Vec<&str> = FORMS.into_iter().chain(targets).collect();
        let available = all.join(", ");
        match name {
            "relay" => Ok(Emit::Text(Form::Readable)),
            "generic" => Ok(Emit::Text(Form::Generic)),
            "json" => Ok(Emit::Json),
            "te" => Ok(Emit::Lowered(Level::Te)),
            "schedule" => Ok(Emit::Lowered(Level::Schedule)),
            "loops" => Ok(Emit::Lowered(Level::Loops)),
            target if all.contains(&target) => Ok(Emit::Lowered(Level::Code)),
            later if LATER.contains(&later) => {
                Err(format!("`--emit {later}` is not available yet; there are {available}"))
            }
            other => {
                let help = did_you_mean(other, all).unwrap_or(format!("expected {available}"));
                Err(format!("unknown form `{other}`; {help}"))
            }
        }
    }

    /// What the program is lowered to first.
    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Emit::Lowered(level) => Some(level),
            Emit::Text(_) | Emit::Json => None,
        }
    }

    /// Prints `module`.
    ///
    /// # Errors
    /// Those of writing to `out`.
    pub(crate) fn print(
        self,
        module: &Module,
        registry: &Registry,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self {
            Emit::Text(form) => form.print(module, registry, style, out),
            Emit::Json => json(module, out),
            // Relay text holds the items of all dialects.
            Emit::Lowered(_) => Form::Readable.print(module, registry, style, out),
        }
    }
}

/// Constants of more elements are written without them.
const MAX_ELEMENTS: usize = 64;

/// Writes a module as JSON: `items`, each with `name`, `kind`, `type`, `attributes` and, where it
/// has a body, `blocks`. Blocks are listed flat, a block before those inside it: `parent` is the
/// number of the operation that holds it (`null` for the first block), `region` its place there,
/// `arguments` are values. Operations are numbered in program order through the item: `op` is the
/// number, `operands` are numbers of values, `results` are values; a value is `{id, type, name?}`.
fn json(module: &Module, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"items\":[")?;
    for (index, (name, item)) in module.items.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        json_item(name.as_str(), item, out)?;
    }
    out.write_all(b"\n]}\n")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json_item(name: &str, item: &Item, out: &mut dyn Write) -> io::Result<()> {
    let signature = &item.signature;
    write!(out, "{{\"name\":{}", quoted(name))?;
    write!(out, ",\"kind\":{}", quoted(signature.op.as_str()))?;
    write!(out, ",\"type\":{}", quoted(&signature.ty.to_string()))?;
    write!(out, ",\"attributes\":")?;
    json_attrs(Piece::Dict(signature.attrs), out)?;
    if let Some(body) = &item.body {
        write!(out, ",\"blocks\":[")?;
        json_body(body, out)?;
        write!(out, "]")?;
    }
    write!(out, "}}")
}

fn json_body(body: &Body, out: &mut dyn Write) -> io::Result<()> {
    let mut values = vec![0u32; body.value_capacity()];
    let mut ops = vec![0u32; body.op_capacity()];
    let (mut next_value, mut next_op) = (0, 0);
    let mut number = |value: ValueId, values: &mut Vec<u32>| {
        values[value.index()] = next_value;
        next_value += 1;
    };
    for &argument in body.block_args(body.entry()) {
        number(argument, &mut values);
    }
    for op in body.walk() {
        ops[op.index()] = next_op;
        next_op += 1;
        for result in body.results(op) {
            number(result, &mut values);
        }
        for &region in body.regions(op) {
            for &argument in body.block_args(body.block_of(region)) {
                number(argument, &mut values);
            }
        }
    }
    for (index, block) in body.walk_blocks().enumerate() {
        out.write_all(if index == 0 { b"\n " } else { b",\n " })?;
        json_block(body, block, &ops, &values, out)?;
    }
    Ok(())
}

fn json_value(body: &Body, value: ValueId, id: u32, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"id\":{id},\"type\":{}", quoted(&body.ty(value).to_string()))?;
    if let Some(name) = body.name_hint(value).name {
        write!(out, ",\"name\":{}", quoted(name.as_str()))?;
    }
    write!(out, "}}")
}

/// Writes `items` with commas between them.
fn separated<T>(
    out: &mut dyn Write,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            write!(out, ",")?;
        }
        each(out, item)?;
    }
    Ok(())
}

fn json_block(
    body: &Body,
    block: BlockId,
    ops: &[u32],
    values: &[u32],
    out: &mut dyn Write,
) -> io::Result<()> {
    let value = |out: &mut dyn Write, v: ValueId| json_value(body, v, values[v.index()], out);
    match body.block_parent(block) {
        None => write!(out, "{{\"parent\":null,\"region\":0")?,
        Some(parent) => {
            let region = body.region_of(block);
            let place = body.regions(parent).iter().position(|r| *r == region);
            let place = place.expect("a region is one of its operation's");
            write!(out, "{{\"parent\":{},\"region\":{place}", ops[parent.index()])?;
        }
    }
    write!(out, ",\"arguments\":[")?;
    separated(out, body.block_args(block).iter().copied(), value)?;
    write!(out, "],\"operations\":[")?;
    separated(out, body.block_ops(block), |out, op: OpId| {
        let (number, name) = (ops[op.index()], quoted(body.op_name(op).as_str()));
        write!(out, "\n  {{\"op\":{number},\"name\":{name},\"operands\":[")?;
        separated(out, body.operands(op), |out, v| write!(out, "{}", values[v.index()]))?;
        write!(out, "],\"attributes\":")?;
        json_attrs(Piece::Dict(body.attrs(op)), out)?;
        write!(out, ",\"results\":[")?;
        separated(out, body.results(op), value)?;
        write!(out, "]}}")
    })?;
    write!(out, "]}}")
}

/// A piece of an attribute that is still to be written.
enum Piece {
    Text(&'static str),
    Key(ir_core::Symbol),
    Attr(Attr),
    Dict(AttrDict),
}

/// Writes an attribute. Numbers, strings, truth values, lists and dictionaries are themselves; a
/// type, element type, symbol or tensor is an object with one such key, and a float that JSON
/// lacks is the object `{"float": "inf"}`.
fn json_attrs(piece: Piece, out: &mut dyn Write) -> io::Result<()> {
    let mut pending = vec![piece];
    while let Some(piece) = pending.pop() {
        let attr = match piece {
            Piece::Text(text) => {
                write!(out, "{text}")?;
                continue;
            }
            Piece::Key(key) => {
                write!(out, "{}:", quoted(key.as_str()))?;
                continue;
            }
            Piece::Dict(dict) => {
                write!(out, "{{")?;
                pending.push(Piece::Text("}"));
                for (index, (key, attr)) in dict.entries().iter().enumerate().rev() {
                    pending.extend([Piece::Attr(*attr), Piece::Key(*key)]);
                    pending.push(Piece::Text(if index > 0 { "," } else { "" }));
                }
                continue;
            }
            Piece::Attr(attr) => attr,
        };
        match attr.data() {
            AttrData::None => write!(out, "null")?,
            AttrData::Bool(value) => write!(out, "{value}")?,
            AttrData::Int(value) => write!(out, "{value}")?,
            AttrData::Float(value) => json_float(value.0, out)?,
            AttrData::String(text) => write!(out, "{}", quoted(text))?,
            AttrData::Symbol(name) => write!(out, "{{\"symbol\":{}}}", quoted(name.as_str()))?,
            AttrData::Type(ty) => write!(out, "{{\"type\":{}}}", quoted(&ty.to_string()))?,
            AttrData::DType(dtype) => {
                write!(out, "{{\"dtype\":{}}}", quoted(&dtype.to_string()))?;
            }
            AttrData::Array(items) => {
                write!(out, "[")?;
                pending.push(Piece::Text("]"));
                for (index, item) in items.iter().enumerate().rev() {
                    pending.push(Piece::Attr(*item));
                    pending.push(Piece::Text(if index > 0 { "," } else { "" }));
                }
            }
            AttrData::Dict(dict) => pending.push(Piece::Dict(*dict)),
            AttrData::Tensor(tensor) => json_tensor(tensor, out)?,
        }
    }
    Ok(())
}

fn json_float(value: f64, out: &mut dyn Write) -> io::Result<()> {
    if value.is_finite() {
        write!(out, "{value:?}")
    } else {
        write!(out, "{{\"float\":\"{value}\"}}")
    }
}

/// Writes `{"tensor": type}`, with `elements` where there are few.
fn json_tensor(tensor: &TensorData, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"tensor\":{}", quoted(&tensor.ty().to_string()))?;
    if tensor.len() <= MAX_ELEMENTS {
        write!(out, ",\"elements\":[")?;
        separated(out, tensor.elements(), |out, element| match element {
            Scalar::Int(_) => write!(out, "{}", element.as_integer(tensor.dtype())),
            Scalar::Float(value) => json_float(value, out),
        })?;
        write!(out, "]")?;
    }
    write!(out, "}}")
}
