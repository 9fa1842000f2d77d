//! The metadata section: constants and attribute objects that the text refers to by number.
//!
//! `#[metadata]` is followed by a graph of nodes as JSON. Node 0 is null; the root maps the name of
//! a kind to the array of its nodes. A field is a string: a number, a text, or the number of
//! another node. Arrays stand in `b64ndarrays`, in base64.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::{Attr, AttrData, AttrDict, DType, DTypeKind, SmallFloat, Symbol, TensorData};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// What is said where a text has no metadata section.
pub(super) const NO_METADATA: &str = "the text has no `#[metadata]` section";

/// The key under which an attribute dictionary names the kind of its node.
pub(super) const KIND: &str = "type_key";

/// The most nodes that one attribute may consist of.
const MAX_NODES: usize = 10_000;

/// The deepest nesting of nodes in one attribute.
const MAX_DEPTH: usize = 64;

/// Fields that hold numbers rather than nodes.
const NUMBERS: [&str; 4] = ["device_type_int", "virtual_device_id", "default_device_type", "value"];

/// The metadata section of a text that has one, or what is wrong with it.
pub(super) type Section = Result<Arc<Metadata>, String>;

/// The metadata section of a text.
#[derive(Debug)]
pub(super) struct Metadata {
    nodes: Vec<Value>,
    arrays: Vec<Value>,
    /// Nodes by kind.
    sections: FxHashMap<String, Vec<usize>>,
}

impl Metadata {
    /// Reads a metadata section, from `#[metadata]` on. The error is a message that starts in
    /// lower case.
    pub(super) fn of_section(section: &str) -> Result<Metadata, String> {
        Metadata::read(section.strip_prefix("#[metadata]").unwrap_or(section))
    }

    /// Reads the JSON after `#[metadata]`. The error is a message that starts in lower case.
    fn read(json: &str) -> Result<Metadata, String> {
        let mut root: Value = serde_json::from_str(json)
            .map_err(|error| format!("the metadata section is no JSON: {error}"))?;
        let mut take = |key: &str| match root.get_mut(key).map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let (nodes, arrays) = (take("nodes"), take("b64ndarrays"));
        let mut metadata = Metadata { nodes, arrays, sections: FxHashMap::default() };
        let root = root.get("root").and_then(Value::as_u64).unwrap_or(0) as usize;
        let Some(root) = metadata.nodes.get(root) else {
            return Err("the metadata section has no root node".to_string());
        };
        let keys = root.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
        for (key, node) in keys.iter().zip(numbers(root.get("data"))) {
            let members = numbers(metadata.nodes.get(node).and_then(|node| node.get("data")));
            metadata.sections.insert(key.as_str().unwrap_or("").to_string(), members);
        }
        Ok(metadata)
    }

    fn node(&self, kind: &str, index: usize) -> Result<&Value, String> {
        let section = self.sections.get(kind).map_or(&[][..], Vec::as_slice);
        let node = section.get(index).and_then(|node| self.nodes.get(*node));
        node.ok_or_else(|| {
            format!("the metadata section holds {} of `{kind}`, not number {index}", section.len())
        })
    }

    /// The constant `index`.
    pub(super) fn constant(&self, index: usize) -> Result<TensorData, String> {
        let node = self.node("relay.Constant", index)?;
        let data = node.get("attrs").and_then(|attrs| attrs.get("data"));
        let data = data.and_then(number).ok_or("the constant was left out, or names no array")?;
        let array = self.arrays.get(data).and_then(Value::as_str);
        let array = array.ok_or_else(|| format!("there is no array {data} in `b64ndarrays`"))?;
        let bytes = base64_decode(array).ok_or_else(|| format!("array {data} is no base64"))?;
        read_array(&bytes).ok_or_else(|| format!("array {data} is malformed"))
    }

    /// The object `index` of `kind` as an attribute: a dictionary that names its kind, with nested
    /// objects in it, a list, a number or a text.
    pub(super) fn attribute(&self, kind: &str, index: usize) -> Result<Attr, String> {
        let mut budget = MAX_NODES;
        self.node_attr(self.node(kind, index)?, 0, &mut budget)
    }

    /// The fields of object `index` of `kind`, each with everything that it may mean.
    pub(super) fn fields(
        &self,
        kind: &str,
        index: usize,
    ) -> Result<Vec<(Symbol, Vec<Attr>)>, String> {
        let node = self.node(kind, index)?;
        let mut budget = MAX_NODES;
        let mut fields = Vec::new();
        for (key, value) in node.get("attrs").and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().unwrap_or("");
            let mut meanings = Vec::new();
            if let Ok(value) = text.parse::<i64>() {
                meanings.push(Attr::of(&value));
            } else if let Ok(value) = text.parse::<f64>() {
                meanings.push(Attr::of(&value));
            }
            if let Some(node) = number(value).and_then(|node| self.nodes.get(node)) {
                match node.get("repr_str").and_then(Value::as_str) {
                    Some(text) => meanings.push(Attr::of(&text.to_string())),
                    None => meanings.push(self.node_attr(node, 0, &mut budget)?),
                }
                match node.get(KIND).and_then(Value::as_str) {
                    // Where a field may be absent, a reference to the empty node says so.
                    Some("") => meanings.insert(0, Attr::new(AttrData::None)),
                    // Where a field may be a list, it is a reference, not a number.
                    Some("Array") => meanings.rotate_right(1),
                    _ => {}
                }
            }
            meanings.push(Attr::of(&text.to_string()));
            meanings.push(Attr::new(AttrData::None));
            fields.push((Symbol::new(key), meanings));
        }
        Ok(fields)
    }

    // Recursion is bounded by MAX_DEPTH, and work by MAX_NODES.
    fn node_attr(&self, node: &Value, depth: usize, budget: &mut usize) -> Result<Attr, String> {
        if depth > MAX_DEPTH || *budget == 0 {
            return Err("the object is too large, or part of itself".to_string());
        }
        *budget -= 1;
        let mut refer = |node: usize| match self.nodes.get(node) {
            Some(node) => self.node_attr(node, depth + 1, budget),
            None => Err(format!("there is no node {node}")),
        };
        let kind = node.get(KIND).and_then(Value::as_str).unwrap_or("");
        let fields = node.get("attrs").and_then(Value::as_object);
        let field = |key: &str| fields.and_then(|fields| fields.get(key)).and_then(Value::as_str);
        match kind {
            "" => Ok(Attr::new(AttrData::None)),
            "Array" => {
                let items = numbers(node.get("data")).into_iter().map(refer);
                Ok(Attr::new(AttrData::Array(items.collect::<Result<_, _>>()?)))
            }
            "IntImm" => {
                let value = field("value").and_then(|value| value.parse::<i64>().ok());
                value.map(|value| Attr::of(&value)).ok_or("an integer has no value".to_string())
            }
            "Map" => {
                let keys = node.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
                let mut entries = vec![(Symbol::new(KIND), Attr::of(&"Map".to_string()))];
                for (key, node) in keys.iter().zip(numbers(node.get("data"))) {
                    entries.push((Symbol::new(key.as_str().unwrap_or("")), refer(node)?));
                }
                Ok(Attr::of(&AttrDict::new(entries)))
            }
            _ => {
                let mut entries = vec![(Symbol::new(KIND), Attr::of(&kind.to_string()))];
                if let Some(text) = node.get("repr_str").and_then(Value::as_str) {
                    entries.push((Symbol::new("repr_str"), Attr::of(&text.to_string())));
                }
                for (key, value) in fields.into_iter().flatten() {
                    let text = value.as_str().unwrap_or("");
                    let attr = match number(value) {
                        _ if NUMBERS.contains(&key.as_str()) => match text.parse::<i64>() {
                            Ok(value) => Attr::of(&value),
                            Err(_) => Attr::of(&text.to_string()),
                        },
                        Some(node) => refer(node)?,
                        None => Attr::of(&text.to_string()),
                    };
                    entries.push((Symbol::new(key), attr));
                }
                Ok(Attr::of(&AttrDict::new(entries)))
            }
        }
    }
}

/// A number, written as one or as a string.
fn number(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => text.parse().ok(),
        _ => usize::try_from(value.as_u64()?).ok(),
    }
}

fn numbers(value: Option<&Value>) -> Vec<usize> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(number).collect()
}

const ARRAY_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;

/// The numbers that DLPack gives floats of at most eight bits.
const SMALL_FLOATS: [(u8, SmallFloat); 6] = [
    (10, SmallFloat::E4M3FN),
    (11, SmallFloat::E4M3FNUZ),
    (12, SmallFloat::E5M2),
    (13, SmallFloat::E5M2FNUZ),
    (14, SmallFloat::E8M0FNU),
    (17, SmallFloat::E2M1FN),
];

/// Reads the binary form of an array: magic, reserved word, device, rank, element type, extents,
/// number of bytes, bytes; all little-endian.
fn read_array(bytes: &[u8]) -> Option<TensorData> {
    let mut rest = bytes;
    let mut take = |count: usize| -> Option<&[u8]> {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let magic = u64::from_le_bytes(take(8)?.try_into().ok()?);
    if magic != ARRAY_MAGIC {
        return None;
    }
    take(8 + 8)?;
    let rank = u32::from_le_bytes(take(4)?.try_into().ok()?);
    let (code, bits) = (take(1)?[0], take(1)?[0]);
    let lanes = u16::from_le_bytes(take(2)?.try_into().ok()?);
    let kind = match code {
        0 => DTypeKind::Int,
        1 => DTypeKind::UInt,
        2 => DTypeKind::Float,
        4 => DTypeKind::BFloat,
        6 => DTypeKind::UInt,
        _ => DTypeKind::Small(SMALL_FLOATS.iter().find(|(number, _)| *number == code)?.1),
    };
    let dtype = DType::new(kind, if code == 6 { 1 } else { bits }, lanes)?;
    let mut shape = Vec::new();
    for _ in 0..rank {
        shape.push(i64::from_le_bytes(take(8)?.try_into().ok()?));
    }
    let count = usize::try_from(u64::from_le_bytes(take(8)?.try_into().ok()?)).ok()?;
    let data = take(count)?;
    let lane = dtype.bytes() / dtype.lanes() as usize;
    TensorData::from_bytes(dtype, &shape, native(data, lane)).ok()
}

fn array_bytes(tensor: &TensorData) -> Vec<u8> {
    let dtype = tensor.dtype();
    let code = match dtype.kind() {
        DTypeKind::Int => 0,
        DTypeKind::UInt => 1,
        DTypeKind::Float => 2,
        DTypeKind::BFloat => 4,
        DTypeKind::Small(format) => {
            let found = SMALL_FLOATS.iter().find(|(_, small)| *small == format);
            found.expect("every format has a number").0
        }
    };
    let mut out = Vec::with_capacity(tensor.bytes().len() + 64);
    out.extend(ARRAY_MAGIC.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    // The device: the first processor.
    out.extend([1u32.to_le_bytes(), 0u32.to_le_bytes()].concat());
    out.extend((tensor.rank() as u32).to_le_bytes());
    out.extend([code, dtype.bits() as u8]);
    out.extend((dtype.lanes() as u16).to_le_bytes());
    for extent in tensor.shape() {
        out.extend(extent.to_le_bytes());
    }
    out.extend((tensor.bytes().len() as u64).to_le_bytes());
    out.extend(native(tensor.bytes(), dtype.bytes() / dtype.lanes() as usize));
    out
}

/// Turns elements of `size` bytes from little-endian to native order, or back.
fn native(data: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    }
    bytes
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_decode(text: &str) -> Option<Vec<u8>> {
    const TABLE: [u8; 256] = {
        let mut table = [64; 256];
        let mut digit = 0;
        while digit < 64 {
            table[BASE64[digit] as usize] = digit as u8;
            digit += 1;
        }
        table
    };
    let digits = text.trim_end().trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let mut word = 0u32;
        for &digit in group {
            let value = TABLE[digit as usize];
            if value == 64 {
                return None;
            }
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - group.len());
        let bytes = word.to_be_bytes();
        match group.len() {
            1 => return None,
            length => out.extend_from_slice(&bytes[1..length]),
        }
    }
    Some(out)
}

fn base64_write(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(4096);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * place)) as usize & 63];
            buffer.push(if place > group.len() { b'=' } else { digit });
        }
        if buffer.len() >= 4096 {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)
}

/// Collects what a printed text refers to, and writes the metadata section.
#[derive(Default)]
pub(super) struct MetadataWriter {
    /// Constants in the order of their numbers, without those that are left out.
    constants: Vec<Option<TensorData>>,
    objects: IndexMap<String, Vec<AttrDict>>,
}

/// A node that is being written.
enum Node {
    Object { kind: String, fields: BTreeMap<String, String>, text: Option<String> },
    Array(Vec<usize>),
    Map(Vec<(String, usize)>),
}

impl MetadataWriter {
    /// The number of a new constant.
    pub(super) fn constant(&mut self, tensor: TensorData) -> usize {
        self.constants.push(Some(tensor));
        self.constants.len() - 1
    }

    /// The number of a constant that only the text mentions.
    pub(super) fn elide(&mut self) -> usize {
        self.constants.push(None);
        self.constants.len() - 1
    }

    /// The number of an object among those of its `kind`; equal ones share a number.
    pub(super) fn object(&mut self, kind: &str, object: AttrDict) -> usize {
        let section = self.objects.entry(kind.to_string()).or_default();
        match section.iter().position(|known| *known == object) {
            Some(index) => index,
            None => {
                section.push(object);
                section.len() - 1
            }
        }
    }

    /// Writes the section, where there is anything in it.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let written: Vec<&TensorData> = self.constants.iter().flatten().collect();
        if written.is_empty() && self.objects.is_empty() {
            return Ok(());
        }
        let mut nodes: Vec<Node> = Vec::new();
        // Nodes 0 and 1 are null and the root; node `i + 2` is `nodes[i]`.
        let mut sections: Vec<(String, usize)> = Vec::new();
        if !written.is_empty() {
            let device = default_device(&mut nodes);
            let mut array = 0;
            let members = self.constants.iter().map(|constant| match constant {
                // The null node keeps the numbers of the others right.
                None => 0,
                Some(tensor) => {
                    array += 1;
                    constant_node(&mut nodes, array - 1, tensor, device)
                }
            });
            let members = members.collect();
            sections.push(("relay.Constant".to_string(), push(&mut nodes, Node::Array(members))));
        }
        for (kind, objects) in &self.objects {
            let members = objects.iter().map(|object| object_node(&mut nodes, *object)).collect();
            sections.push((kind.clone(), push(&mut nodes, Node::Array(members))));
        }
        out.write_all(b"#[metadata]\n{\n  \"root\": 1, \n  \"nodes\": [\n    {\n")?;
        out.write_all(b"      \"type_key\": \"\"\n    }, \n    ")?;
        write_node(&Node::Map(sections), out)?;
        for node in &nodes {
            out.write_all(b", \n    ")?;
            write_node(node, out)?;
        }
        out.write_all(b"\n  ], \n  \"b64ndarrays\": [")?;
        for (index, tensor) in written.iter().enumerate() {
            out.write_all(if index == 0 { b"\n    \"" } else { b", \n    \"" })?;
            base64_write(&array_bytes(tensor), out)?;
            out.write_all(b"\"")?;
        }
        out.write_all(if written.is_empty() { b"" } else { b"\n  " })?;
        out.write_all(b"], \n  \"attrs\": {\"tvm_version\": \"0.14.0\"}\n}\n")
    }
}

/// Adds `node` and returns its number.
fn push(nodes: &mut Vec<Node>, node: Node) -> usize {
    nodes.push(node);
    nodes.len() + 1
}

fn object(nodes: &mut Vec<Node>, kind: &str, fields: &[(&str, String)]) -> usize {
    let fields = fields.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    push(nodes, Node::Object { kind: kind.to_string(), fields, text: None })
}

fn default_device(nodes: &mut Vec<Node>) -> usize {
    let scope = object(nodes, "runtime.String", &[]);
    let fields = [
        ("device_type_int", "-1".to_string()),
        ("memory_scope", scope.to_string()),
        ("target", "0".to_string()),
        ("virtual_device_id", "-1".to_string()),
    ];
    object(nodes, "VirtualDevice", &fields)
}

fn integer(nodes: &mut Vec<Node>, value: i64) -> usize {
    let dtype = if i32::try_from(value).is_ok() { "int32" } else { "int64" };
    let fields =
        [("dtype", dtype.to_string()), ("span", "0".to_string()), ("value", value.to_string())];
    object(nodes, "IntImm", &fields)
}

fn constant_node(nodes: &mut Vec<Node>, index: usize, tensor: &TensorData, device: usize) -> usize {
    let extents = tensor.shape().iter().map(|extent| integer(nodes, *extent)).collect();
    let shape = push(nodes, Node::Array(extents));
    let fields = [
        ("dtype", tensor.dtype().to_string()),
        ("shape", shape.to_string()),
        ("span", "0".to_string()),
    ];
    let ty = object(nodes, "relay.TensorType", &fields);
    let fields = [
        ("_checked_type_", ty.to_string()),
        ("data", index.to_string()),
        ("span", "0".to_string()),
        ("virtual_device_", device.to_string()),
    ];
    object(nodes, "relay.Constant", &fields)
}

/// The node of an object read by [`Metadata::attribute`].
// Recursion is bounded, since attributes are: what is deeper is written as null.
fn object_node(nodes: &mut Vec<Node>, dict: AttrDict) -> usize {
    attr_node(nodes, Attr::of(&dict), 0)
}

fn attr_node(nodes: &mut Vec<Node>, attr: Attr, depth: usize) -> usize {
    if depth > MAX_DEPTH {
        return 0;
    }
    match attr.data() {
        AttrData::Int(value) => integer(nodes, *value),
        AttrData::Bool(value) => integer(nodes, (*value).into()),
        AttrData::String(text) => {
            let (kind, text) = ("runtime.String".to_string(), Some(text.to_string()));
            push(nodes, Node::Object { kind, fields: BTreeMap::new(), text })
        }
        AttrData::Array(items) => {
            let members = items.iter().map(|item| attr_node(nodes, *item, depth + 1)).collect();
            push(nodes, Node::Array(members))
        }
        AttrData::Dict(dict) => {
            let kind: String = dict.value(KIND).unwrap_or_else(|| "Map".to_string());
            let text: Option<String> = dict.value("repr_str");
            let entries = dict.entries().iter().filter(|(key, _)| *key != KIND);
            if kind == "Map" {
                let members = entries
                    .map(|(key, value)| (key.to_string(), attr_node(nodes, *value, depth + 1)));
                let members = members.collect();
                return push(nodes, Node::Map(members));
            }
            let fields = entries
                .filter(|(key, _)| *key != "repr_str")
                .map(|(key, value)| {
                    let value = match value.data() {
                        AttrData::String(text) => text.to_string(),
                        AttrData::Int(number) => number.to_string(),
                        _ => attr_node(nodes, *value, depth + 1).to_string(),
                    };
                    (key.to_string(), value)
                })
                .collect();
            push(nodes, Node::Object { kind, fields, text })
        }
        _ => 0,
    }
}

fn write_node(node: &Node, out: &mut dyn Write) -> io::Result<()> {
    let quote = |text: &str| Value::String(text.to_string()).to_string();
    let list = |members: &mut dyn Iterator<Item = usize>| {
        members.map(|member| member.to_string()).collect::<Vec<_>>().join(", ")
    };
    match node {
        Node::Array(members) => {
            let members = list(&mut members.iter().copied());
            write!(out, "{{\n      \"type_key\": \"Array\", \n      \"data\": [{members}]\n    }}")
        }
        Node::Map(entries) => {
            write!(out, "{{\n      \"type_key\": \"Map\"")?;
            if !entries.is_empty() {
                let keys: Vec<String> =
                    entries.iter().map(|(key, _)| format!("\n        {}", quote(key))).collect();
                let members = list(&mut entries.iter().map(|(_, member)| *member));
                write!(out, ", \n      \"keys\": [{}\n      ], ", keys.join(", "))?;
                write!(out, "\n      \"data\": [{members}]")?;
            }
            out.write_all(b"\n    }")
        }
        Node::Object { kind, fields, text } => {
            write!(out, "{{\n      \"type_key\": {}", quote(kind))?;
            if !fields.is_empty() {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(key, value)| format!("\n        {}: {}", quote(key), quote(value)))
                    .collect();
                write!(out, ", \n      \"attrs\": {{{}\n      }}", fields.join(", "))?;
            }
            if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                write!(out, ", \n      \"repr_str\": {}", quote(text))?;
            }
            out.write_all(b"\n    }")
        }
    }
}
