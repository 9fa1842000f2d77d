//! Graphs of well-known networks as program text, for measuring rewriting: what is computed and
//! the shapes are those of the publications, the weights are anything.
//!
//! `relay-opt` reads what these functions return.

mod convolutional;
mod sequence;

use std::fmt::Write as _;

use ir_core::CostTable;

pub use convolutional::{inception_v3, nasnet_a, resnext_50, squeezenet, vgg_19};
pub use sequence::{bert, nasrnn, residual_chain, scaled_chain, transformer};

/// A data-centre accelerator of 2018, for which published results count: a launch of 5 µs, 300 GB/s
/// and 8 Tflop/s.
pub const ACCELERATOR: CostTable = CostTable::new(5.0, 300.0, 8000.0);

/// A network's name, and what writes its text.
pub type Network = (&'static str, fn() -> String);

/// All networks, the small ones of the literature first.
pub const ALL: [Network; 11] = [
    ("nasrnn", nasrnn),
    ("bert", bert),
    ("resnext-50", resnext_50),
    ("nasnet-a", nasnet_a),
    ("squeezenet", squeezenet),
    ("vgg-19", vgg_19),
    ("inception-v3", inception_v3),
    ("transformer-1k", || transformer(22)),
    ("transformer-10k", || transformer(222)),
    ("chain-100k", || residual_chain(100_000)),
    ("scaled-chain-100k", || scaled_chain(100_000)),
];

/// Those of the literature, on which a search over whole programs ends in seconds.
pub const PUBLISHED: &[Network] = ALL.split_at(7).0;

/// Small variants of them, for interpreters.
pub fn small() -> Vec<(&'static str, String)> {
    vec![
        ("nasrnn", sequence::nasrnn_of(2, 8)),
        ("bert", sequence::bert_of(3, (4, 8, 2))),
        ("transformer", sequence::transformer_of(1, (4, 8, 2))),
        ("chain", residual_chain(40)),
        ("resnext", convolutional::resnext_of(32, 16)),
        ("nasnet", convolutional::nasnet_of(32, 32)),
        ("squeezenet", convolutional::squeezenet_of(32, 8)),
    ]
}

/// The text of a function, one operation a line.
#[derive(Default)]
struct Graph {
    inputs: Vec<String>,
    lines: String,
    values: usize,
    weights: usize,
}

/// A value, and its shape where a builder wants to know it: (channels, height and width).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    name: String,
    channels: usize,
    extent: usize,
}

impl Graph {
    fn input(&mut self, shape: &[usize]) -> String {
        let name = format!("%x{}", self.inputs.len());
        self.inputs.push(format!("{name}: Tensor[{}, float32]", tuple(shape)));
        name
    }

    /// A new value, computed by `text`.
    fn op(&mut self, text: &str) -> String {
        let name = format!("%{}", self.values);
        self.values += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "  {name} = {text};");
        name
    }

    /// A weight: a constant that differs from all others.
    fn weight(&mut self, shape: &[usize]) -> String {
        self.weights += 1;
        let number = self.weights as f64 / 1024.0;
        let shape = shape.iter().map(|extent| extent.to_string()).collect::<Vec<_>>();
        self.op(&format!("full({number}f, shape=[{}], dtype=\"float32\")", shape.join(", ")))
    }

    fn text(self, result: &str) -> String {
        format!("def @main({}) {{\n{}  {result}\n}}\n", self.inputs.join(", "), self.lines)
    }
}

fn tuple(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(|extent| extent.to_string()).collect();
    format!("({})", extents.join(", "))
}
