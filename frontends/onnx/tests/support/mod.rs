//! Writes models: the messages of the format, as far as tests need them.

use bytes::Bytes;
use ir_core::{Diagnostics, Module, Registry};
use onnx_frontend::{Import, Options};

/// A message: its bytes so far.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn new() -> Message {
        Message::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn int(mut self, field: u64, value: i64) -> Message {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    pub(crate) fn float(mut self, field: u64, value: f32) -> Message {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(crate) fn text(self, field: u64, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u64, value: Message) -> Message {
        self.bytes(field, &value.0)
    }

    pub(crate) fn messages(self, field: u64, values: impl IntoIterator<Item = Message>) -> Message {
        values.into_iter().fold(self, |message, value| message.message(field, value))
    }
}

pub(crate) const FLOAT: i64 = 1;
pub(crate) const INT64: i64 = 7;
pub(crate) const BOOL: i64 = 9;

/// A tensor with the elements as bytes.
pub(crate) fn tensor(name: &str, data_type: i64, dims: &[i64], raw: &[u8]) -> Message {
    let message = dims.iter().fold(Message::new(), |message, dim| message.int(1, *dim));
    message.int(2, data_type).text(8, name).bytes(9, raw)
}

/// A tensor of floats.
pub(crate) fn floats(name: &str, dims: &[i64], values: &[f32]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, FLOAT, dims, &raw)
}

/// A vector of integers.
pub(crate) fn ints(name: &str, values: &[i64]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, INT64, &[values.len() as i64], &raw)
}

/// An input or output; an extent is a number or a name.
pub(crate) fn value(name: &str, data_type: i64, dims: &[&str]) -> Message {
    let dims = dims.iter().map(|dim| match dim.parse() {
        Ok(extent) => Message::new().int(1, extent),
        Err(_) => Message::new().text(2, dim),
    });
    let shape = Message::new().messages(1, dims);
    let tensor = Message::new().int(1, data_type).message(2, shape);
    Message::new().text(1, name).message(2, Message::new().message(1, tensor))
}

/// A node without attributes.
pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let message = inputs.iter().fold(Message::new(), |message, name| message.text(1, name));
    let message = outputs.iter().fold(message, |message, name| message.text(2, name));
    message.text(3, &format!("{}_node", outputs[0])).text(4, op)
}

/// An attribute: integer, integers, float, text, tensor or graph.
pub(crate) fn attribute(name: &str, value: Attribute) -> Message {
    let message = Message::new().text(1, name);
    match value {
        Attribute::Int(value) => message.int(3, value).int(20, 2),
        Attribute::Ints(values) => {
            values.iter().fold(message, |message, value| message.int(8, *value)).int(20, 7)
        }
        Attribute::Text(value) => message.text(4, value).int(20, 3),
        Attribute::Graph(value) => message.message(6, value).int(20, 5),
    }
}

pub(crate) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Text(&'static str),
    Graph(Message),
}

impl Message {
    /// A node with a further attribute.
    pub(crate) fn with(self, name: &str, value: Attribute) -> Message {
        self.message(5, attribute(name, value))
    }
}

/// A graph.
pub(crate) fn graph(
    nodes: Vec<Message>,
    inputs: Vec<Message>,
    outputs: &[&str],
    initializers: Vec<Message>,
) -> Message {
    let outputs = outputs.iter().map(|name| Message::new().text(1, name));
    Message::new()
        .messages(1, nodes)
        .text(2, "g")
        .messages(5, initializers)
        .messages(11, inputs)
        .messages(12, outputs)
}

/// A model of operator set `opset`.
pub(crate) fn model(opset: i64, graph: Message) -> Bytes {
    let set = Message::new().int(2, opset);
    Message::new().int(1, 8).text(2, "test").message(7, graph).message(8, set).0.into()
}

pub(crate) fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

pub(crate) fn import(model: &Bytes) -> Result<Import, Diagnostics> {
    import_with(model, &Options::default())
}

pub(crate) fn import_with(model: &Bytes, options: &Options) -> Result<Import, Diagnostics> {
    onnx_frontend::import_bytes(model, None, options, &registry())
}

/// The module as text. Panics where it does not infer or verify.
pub(crate) fn text(mut module: Module) -> String {
    let registry = registry();
    let found = relay::inference::infer_module(&mut module, &registry);
    assert!(found.is_empty(), "{found:?}");
    if let Err(found) = ir_core::verify(&module, &registry) {
        panic!("{found:?}");
    }
    let options = ir_core::text::Style { elide: Some(64), ..ir_core::text::Style::default() };
    let mut out = Vec::new();
    ir_core::text::module::print(&module, &registry, &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.split("\n#[metadata]").next().unwrap_or_default().to_string()
}

/// The only diagnostic of a model, as code, message and notes.
pub(crate) fn error(model: &Bytes) -> String {
    match import(model) {
        Ok(import) => panic!("imported: {}", text(import.module)),
        Err(found) => {
            assert_eq!(found.len(), 1);
            let mut text = format!("{} {}", found[0].code, found[0].message);
            for note in found[0].notes.iter().chain(&found[0].help) {
                text.push_str(&format!("\n{note}"));
            }
            text
        }
    }
}
