//! What fusion looks at of each class of equal values and each operation that computes one, read
//! off once.

use ir_core::{Arithmetic, DType, Registry, Type, TypeData, Work};
use relay::language::{Tuple, TupleGet};
use relay_operators::{FusionPattern, ReshapeOnly, Rows, Transcendental};
use rewrites::egraph::{Class as GraphClass, Graph, Kind};
use rustc_hash::FxHashMap;

use super::entry::Entry;
use super::window::{Operation, Window};
use crate::fuse::graph::{is_literal, joins_as_constant, pattern};

/// A class of equal values.
pub(super) struct Class {
    pub(super) bytes: f64,
    /// Numbers in a value.
    pub(super) elements: f64,
    /// The extents, where they are known.
    pub(super) shape: Option<Vec<i64>>,
    /// The value must be stored, where it is computed at all, and no kernel may hide it: the
    /// program binds it with `let`.
    pub(super) bound: bool,
    /// It is computed from constants alone.
    pub(super) weight: bool,
    /// It is there already: an input of the window.
    pub(super) input: Option<usize>,
    /// It is this constant.
    pub(super) constant: Option<Operation>,
    /// The operations that compute it, by number.
    pub(super) nodes: Vec<usize>,
    /// How many read it, as far as that is known before kernels are chosen.
    pub(super) readers: f64,
}

impl Class {
    /// Whether it need not be computed.
    pub(super) fn is_there(&self) -> bool {
        self.input.is_some() || self.constant.is_some()
    }
}

/// An operator, tuple or projection.
pub(super) struct Node {
    pub(super) operation: Operation,
    /// The class of its result.
    pub(super) class: usize,
    /// The classes of its operands, in order.
    pub(super) operands: Vec<usize>,
    /// Those of them that it reads, each once: literals are a part of the kernel.
    pub(super) reads: Vec<usize>,
    pub(super) pattern: FusionPattern,
    /// A tuple or a projection, which computes nothing.
    pub(super) plumbing: bool,
    pub(super) reshape_only: bool,
    /// An element takes longer than to store it.
    pub(super) dear: bool,
    /// For what works row by row: how many dimensions of the first operand number the rows.
    pub(super) rows: Option<usize>,
    /// The extents of the first operand, where they are known.
    pub(super) operand_shape: Option<Vec<i64>>,
    /// Arithmetic operations, and of what kind.
    pub(super) work: f64,
    pub(super) arithmetic: Arithmetic,
}

impl Node {
    /// An operation that computes `class` from `operands` of `types`, of which some are literals.
    /// `None` where it is no part of kernels.
    fn new(
        operation: Operation,
        class: usize,
        operands: Vec<usize>,
        types: &[Type],
        literal: impl Fn(usize) -> bool,
        registry: &Registry,
    ) -> Option<Node> {
        let Operation { name, attrs, ty } = operation;
        let pattern = pattern(registry, name, types, &[ty])?;
        let rows = registry.hook::<Rows>(name).and_then(|rows| (rows.0)(types, attrs));
        let dear = registry.hook::<Transcendental>(name).is_some();
        let work = registry.hook::<Work>(name).map(|work| (work.0)(types, attrs, ty));
        let elements = types.iter().copied().chain([ty]).map(elements_of);
        let arithmetic = match (work, dear, pattern, rows) {
            (Some(_), ..) => Arithmetic::Product,
            (_, true, ..) | (.., FusionPattern::OutFusable, Some(_)) => Arithmetic::Transcendental,
            _ => Arithmetic::Plain,
        };
        let is_read = |place: &usize| !(joins_as_constant(pattern) && literal(*place));
        let mut reads: Vec<usize> = Vec::with_capacity(operands.len());
        for place in (0..types.len()).filter(is_read) {
            if !reads.contains(&operands[place]) {
                reads.push(operands[place]);
            }
        }
        Some(Node {
            operation,
            class,
            operands,
            reads,
            pattern,
            plumbing: name == Tuple::NAME || name == TupleGet::NAME,
            reshape_only: registry.hook::<ReshapeOnly>(name).is_some(),
            dear,
            rows,
            operand_shape: types.first().and_then(|ty| shape_of(*ty)),
            work: work.unwrap_or_else(|| elements.fold(0.0, f64::max)),
            arithmetic,
        })
    }

    /// Whether it takes no part in kernels with others before it, such as a convolution.
    pub(super) fn is_anchor(&self) -> bool {
        is_anchor(self.pattern, self.rows)
    }
}

/// Whether an operator takes no part in kernels with others before it, such as a convolution.
pub(super) fn is_anchor(pattern: FusionPattern, rows: Option<usize>) -> bool {
    match pattern {
        FusionPattern::OutFusable => rows.is_none(),
        FusionPattern::Scatter | FusionPattern::Opaque => true,
        _ => false,
    }
}

/// The e-graph of a window as fusion sees it.
pub(super) struct Facts {
    pub(super) classes: Vec<Class>,
    pub(super) nodes: Vec<Node>,
    /// The class of each operation of the window.
    pub(super) class_of: Vec<usize>,
    /// The node that is that operation; `None` where its result equals an operand.
    pub(super) node_of: Vec<Option<usize>>,
}

impl Facts {
    /// Of `graph`, which holds the operations of `window`.
    pub(super) fn new(graph: &Graph, window: &Window, entry: &Entry, registry: &Registry) -> Facts {
        let all = graph.classes();
        let numbers: FxHashMap<GraphClass, usize> =
            all.iter().enumerate().map(|(number, class)| (*class, number)).collect();
        let number = |class: &GraphClass| numbers[&graph.find(*class)];
        let (mut classes, mut nodes) = (Vec::with_capacity(all.len()), vec![]);
        for (at, class) in all.iter().enumerate() {
            let ty = graph.ty(*class);
            let mut facts = Class {
                bytes: bytes_of(ty),
                elements: elements_of(ty),
                shape: shape_of(ty),
                bound: false,
                weight: graph.is_weight(*class),
                input: None,
                constant: None,
                nodes: vec![],
                readers: 0.0,
            };
            for (kind, operands) in graph.forms_of(*class) {
                let (name, attrs, ty) = match kind {
                    Kind::Leaf(leaf) => {
                        facts.input = Some(leaf.number);
                        continue;
                    }
                    Kind::Op(name, attrs, ty) => (*name, *attrs, *ty),
                };
                let operation = Operation { name, attrs, ty };
                if operands.is_empty()
                    && graph.constant(*class).is_some_and(|value| attrs.get("value") == Some(value))
                {
                    facts.constant = Some(operation);
                    continue;
                }
                let types: Vec<Type> = operands.iter().map(|class| graph.ty(*class)).collect();
                let literal = |place: usize| {
                    is_literal(types[place]) && graph.constant(operands[place]).is_some()
                };
                let operands_at: Vec<usize> = operands.iter().map(number).collect();
                // What needs itself computes nothing.
                if operands_at.contains(&at) {
                    continue;
                }
                if let Some(node) = Node::new(operation, at, operands_at, &types, literal, registry)
                {
                    facts.nodes.push(nodes.len());
                    nodes.push(node);
                }
            }
            classes.push(facts);
        }
        let class_of: Vec<usize> = entry.ops.iter().map(number).collect();
        let mut node_of = Vec::with_capacity(class_of.len());
        for ((op, operands), class) in window.ops.iter().zip(&entry.operands).zip(&class_of) {
            let operands: Vec<usize> = operands.iter().map(number).collect();
            let found = classes[*class].nodes.iter().copied().find(|node: &usize| {
                let node: &Node = &nodes[*node];
                let swapped =
                    || node.operands.len() == 2 && node.operands.iter().rev().eq(&operands);
                node.operation == op.operation && (node.operands == operands || swapped())
            });
            if let Some(node) = found {
                // In the order of the program.
                nodes[node].operands = operands;
            }
            node_of.push(found);
            classes[*class].bound |= op.bound;
        }
        let mut facts = Facts { classes, nodes, class_of, node_of };
        facts.count_readers(window);
        facts
    }

    /// Which of `members` computes `class`.
    pub(super) fn inside(&self, members: &[usize], class: usize) -> Option<usize> {
        members.iter().position(|member| self.nodes[*member].class == class)
    }

    /// The class of the result of `node`.
    pub(super) fn class(&self, node: usize) -> &Class {
        &self.classes[self.nodes[node].class]
    }

    /// Counts readers: in the program as it is, where a value is there, else all that there could be.
    fn count_readers(&mut self, window: &Window) {
        let mut known = vec![false; self.classes.len()];
        self.class_of.iter().for_each(|class| known[*class] = true);
        let mut pairs: Vec<(usize, usize)> = vec![];
        for node in self.node_of.iter().flatten() {
            let node = &self.nodes[*node];
            pairs.extend(node.reads.iter().map(|read| (*read, node.class)));
        }
        for node in &self.nodes {
            let unknown = node.reads.iter().filter(|read| !known[**read]);
            pairs.extend(unknown.map(|read| (*read, node.class)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs.iter().for_each(|(read, _)| self.classes[*read].readers += 1.0);
        window.needed.iter().for_each(|op| self.classes[self.class_of[*op]].readers += 1.0);
    }
}

fn shape_of(ty: Type) -> Option<Vec<i64>> {
    Some(ty.as_tensor()?.known_shape()?.to_vec())
}

/// The numbers in a value; unknown extents count as 1.
fn elements_of(ty: Type) -> f64 {
    sum_of(ty, |_| 1.0)
}

/// The bytes of a value; unknown extents count as 1.
pub(super) fn bytes_of(ty: Type) -> f64 {
    sum_of(ty, |dtype| dtype.bytes() as f64)
}

fn sum_of(ty: Type, of: impl Fn(DType) -> f64) -> f64 {
    let (mut pending, mut total) = (vec![ty], 0.0);
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(tensor) => {
                let extents = tensor.shape.iter().map(|dim| dim.known().unwrap_or(1) as f64);
                total += extents.product::<f64>() * of(tensor.dtype);
            }
            TypeData::Tuple(fields) => pending.extend(fields.iter()),
            _ => {}
        }
    }
    total
}
