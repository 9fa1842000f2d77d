//! The operators, one entry each, in one table.
//!
//! To add one, write its entry in the table of its family: its name, what it becomes, and a
//! function that makes that from a [`Cx`]. The documentation lists what the entries say.

mod activation;
mod arithmetic;
mod attention;
pub(crate) mod attributes;
mod control;
mod conversion;
mod convolution;
mod features;
mod index;
mod integers;
mod iteration;
mod learned;
mod linear;
mod linear_attention;
mod lists;
mod loss;
mod microsoft;
mod normalization;
mod pooling;
mod quantization;
mod random;
mod recurrent;
mod reduce;
mod resampling;
mod resize;
mod sequence;
mod shape;
mod signal;
mod support_vectors;
mod texts;
mod training;
mod trees;
mod vision;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::importer::{Fault, Value};
use crate::node::Cx;
use crate::proto::Node;

/// Converts a node to a value.
pub(crate) type ConvertOne = fn(&mut Cx<'_, '_>) -> Result<Value, Fault>;

/// Converts a node to several values.
pub(crate) type ConvertMany = fn(&mut Cx<'_, '_>) -> Result<Vec<Value>, Fault>;

/// How a node is converted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Convert {
    /// To its only result.
    One(ConvertOne),
    /// To its results in order; those that no node can ask for are left out.
    Many(ConvertMany),
}

/// An operator that can be imported.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// Its name, with its operator set before it where that is not the default one.
    pub name: &'static str,
    /// What it becomes, and what of it cannot be imported, as Markdown.
    pub doc: &'static str,
    pub(crate) convert: Convert,
    pub(crate) of_texts: OfTexts,
}

/// What an operator does where an operand is texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OfTexts {
    /// It wants numbers.
    Refuse,
    /// It moves them: it is converted as one of their places, and its results are texts. Operands from
    /// the first number to before the second are texts, and no others.
    Move(usize, usize),
    /// It looks at the shape of operand 0 alone: it is converted as one of its places.
    Measure,
    /// It reads them.
    Read,
}

impl OfTexts {
    /// Whether operand `index` is texts, where any is; one that is read may be.
    pub(crate) fn takes(self, index: usize) -> bool {
        match self {
            OfTexts::Refuse => false,
            OfTexts::Move(first, end) => (first..end).contains(&index),
            OfTexts::Measure => index == 0,
            OfTexts::Read => true,
        }
    }
}

impl Operator {
    /// The same, with what it does of texts.
    const fn of_texts(self, of_texts: OfTexts) -> Operator {
        Operator { of_texts, ..self }
    }

    /// The same, which moves the texts that are operand 0.
    const fn moving(self) -> Operator {
        self.of_texts(OfTexts::Move(0, 1))
    }

    /// The same, which reads texts.
    const fn reading(self) -> Operator {
        self.of_texts(OfTexts::Read)
    }
}

/// Operators that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Heading in the reference.
    pub title: &'static str,
    /// The operators.
    pub operators: &'static [Operator],
}

/// All operators, by family.
pub const FAMILIES: &[Family] = &[
    Family { title: "Arithmetic and logic", operators: arithmetic::OPERATORS },
    Family { title: "Conversions", operators: conversion::OPERATORS },
    Family { title: "Activations", operators: activation::OPERATORS },
    Family { title: "Reductions", operators: reduce::OPERATORS },
    Family { title: "Shapes", operators: shape::OPERATORS },
    Family { title: "Indexing", operators: index::OPERATORS },
    Family { title: "Matrix products", operators: linear::OPERATORS },
    Family { title: "Attention", operators: attention::OPERATORS },
    Family { title: "Linear attention", operators: linear_attention::OPERATORS },
    Family { title: "Convolution", operators: convolution::OPERATORS },
    Family { title: "Pooling", operators: pooling::OPERATORS },
    Family { title: "Normalization", operators: normalization::OPERATORS },
    Family { title: "Losses", operators: loss::OPERATORS },
    Family { title: "Images", operators: resize::OPERATORS },
    Family { title: "Vision", operators: vision::OPERATORS },
    Family { title: "Texts", operators: texts::OPERATORS },
    Family { title: "Words", operators: features::OPERATORS },
    Family { title: "Signals", operators: signal::OPERATORS },
    Family { title: "Recurrent networks", operators: recurrent::OPERATORS },
    Family { title: "Quantization", operators: quantization::OPERATORS },
    Family { title: "Constants and branches", operators: control::OPERATORS },
    Family { title: "Iteration", operators: iteration::OPERATORS },
    Family { title: "Random numbers", operators: random::OPERATORS },
    Family { title: "Training", operators: training::OPERATORS },
    microsoft::FAMILIES[0],
    microsoft::FAMILIES[1],
    microsoft::FAMILIES[2],
    Family { title: "Classical learning", operators: learned::OPERATORS },
    Family { title: "Decision trees", operators: trees::OPERATORS },
    Family { title: "Support vector machines", operators: support_vectors::OPERATORS },
    Family { title: "Sequences and optional values", operators: sequence::OPERATORS },
];

/// An entry with one result.
const fn one(name: &'static str, doc: &'static str, convert: ConvertOne) -> Operator {
    Operator { name, doc, convert: Convert::One(convert), of_texts: OfTexts::Refuse }
}

/// An entry with several results.
const fn many(name: &'static str, doc: &'static str, convert: ConvertMany) -> Operator {
    Operator { name, doc, convert: Convert::Many(convert), of_texts: OfTexts::Refuse }
}

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Operator>> = LazyLock::new(|| {
    let operators = FAMILIES.iter().flat_map(|family| family.operators);
    operators.map(|operator| (operator.name, operator)).collect()
});

/// The entry of the operator of `node`.
pub(crate) fn find(node: &Node<'_>) -> Option<&'static Operator> {
    BY_NAME.get(node.operator().as_str()).copied()
}

/// The operators nearest to a name that is none.
pub(crate) fn near(name: &str) -> Option<String> {
    let names = FAMILIES.iter().flat_map(|family| family.operators);
    ir_core::diagnostics::did_you_mean(name, names.map(|operator| operator.name))
}
