//! What fusion looks at of each operator, read off once.

use ir_core::{Binding, FuncMut, Symbol, Type, TypeData, ValueId, Work};
use relay::operators::{FusionPattern, ReshapeOnly, Rows, Transcendental};
use rewrites::body_graph::is_pure;
use rustc_hash::FxHashMap;

use crate::fuse::graph::{Graph, is_copied_constant, joins_as_constant};

/// Arithmetic operations that a transcendental function takes.
const TRANSCENDENTAL: f64 = 16.0;

/// An operator, tuple or projection.
pub(super) struct Node {
    pub(super) pattern: FusionPattern,
    /// The value must be stored: something outside of kernels needs it, or nothing reads it.
    pub(super) required: bool,
    /// The value may be stored, and no kernel may hide it: the program binds it with `let`.
    pub(super) bound: bool,
    /// It may be computed in several kernels: it has no effects and costs little.
    pub(super) copyable: bool,
    /// A tuple or a projection, which computes nothing.
    pub(super) plumbing: bool,
    pub(super) reshape_only: bool,
    /// An element takes longer than to store it.
    pub(super) dear: bool,
    /// For what works row by row: how many dimensions of the first operand number the rows.
    pub(super) rows: Option<usize>,
    /// The extents of the first operand, where they are known.
    pub(super) operand_shape: Option<Vec<i64>>,
    /// The extents of the result, where they are known.
    pub(super) shape: Option<Vec<i64>>,
    /// What it reads, each value once: numbers below that of all nodes are nodes.
    pub(super) operands: Vec<usize>,
    /// The nodes that read it, each once.
    pub(super) users: Vec<usize>,
    /// Numbers in the result.
    pub(super) elements: f64,
    /// Arithmetic operations.
    pub(super) work: f64,
}

impl Node {
    /// Whether it takes no part in kernels with others before it, such as a convolution.
    pub(super) fn is_anchor(&self) -> bool {
        match self.pattern {
            FusionPattern::OutFusable => self.rows.is_none(),
            FusionPattern::Opaque => true,
            _ => false,
        }
    }
}

/// A block as fusion sees it.
pub(super) struct Facts {
    /// In the order of the graph: each after what it reads.
    pub(super) nodes: Vec<Node>,
    /// The bytes of each value: those of the nodes, then others.
    pub(super) bytes: Vec<f64>,
}

impl Facts {
    pub(super) fn new(f: &FuncMut<'_>, graph: &Graph) -> Facts {
        let body = &*f.body;
        let mut numbers: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut bytes: Vec<f64> = vec![];
        for (index, node) in graph.nodes.iter().enumerate() {
            let value = body.result(node.op, 0);
            numbers.insert(value, index);
            bytes.push(bytes_of(body.ty(value)));
        }
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let name = body.op_name(node.op);
            let is = |text: &str| name == Symbol::new(text);
            let plumbing = is("relay.tuple") || is("relay.tuple_get");
            let result = body.result(node.op, 0);
            let types: Vec<Type> = body.operands(node.op).map(|value| body.ty(value)).collect();
            let mut operands: Vec<usize> = vec![];
            for operand in body.operands(node.op) {
                if joins_as_constant(node.pattern) && is_copied_constant(f.registry, body, operand)
                {
                    continue;
                }
                let number = *numbers.entry(operand).or_insert_with(|| {
                    bytes.push(bytes_of(body.ty(operand)));
                    bytes.len() - 1
                });
                if !operands.contains(&number) {
                    operands.push(number);
                }
            }
            let mut users: Vec<usize> = node.outputs.iter().map(|(user, _)| *user).collect();
            users.dedup();
            let attrs = body.attrs(node.op);
            let rows = f.registry.hook::<Rows>(name).and_then(|rows| (rows.0)(&types, attrs));
            let dear = f.registry.hook::<Transcendental>(name).is_some();
            let bound = body.name_hint(result).binding == Binding::Let;
            let work = f.registry.hook::<Work>(name);
            let work = work.map(|work| (work.0)(&types, attrs, body.ty(result)));
            let elements = types.iter().copied().chain([body.ty(result)]).map(elements_of);
            let each = match (dear, node.pattern, rows) {
                (true, ..) | (_, FusionPattern::OutFusable, Some(_)) => TRANSCENDENTAL,
                _ => 1.0,
            };
            nodes.push(Node {
                pattern: node.pattern,
                required: node.escapes || users.is_empty(),
                bound,
                copyable: !bound
                    && is_pure(body, f.registry, node.op)
                    && (plumbing || node.pattern <= FusionPattern::Broadcast && !dear),
                plumbing,
                reshape_only: f.registry.hook::<ReshapeOnly>(name).is_some(),
                dear,
                rows,
                operand_shape: types.first().and_then(|ty| shape_of(*ty)),
                shape: shape_of(body.ty(result)),
                operands,
                users,
                elements: elements_of(body.ty(result)),
                work: work.unwrap_or_else(|| each * elements.fold(0.0, f64::max)),
            });
        }
        Facts { nodes, bytes }
    }
}

fn shape_of(ty: Type) -> Option<Vec<i64>> {
    Some(ty.as_tensor()?.known_shape()?.to_vec())
}

/// The numbers in a tensor; unknown extents count as 1.
fn elements_of(ty: Type) -> f64 {
    let extents = ty.as_tensor().map(|tensor| tensor.shape.iter());
    extents.map_or(0.0, |extents| extents.map(|dim| dim.known().unwrap_or(1) as f64).product())
}

/// The bytes of a value; unknown extents count as 1.
fn bytes_of(ty: Type) -> f64 {
    let (mut pending, mut total) = (vec![ty], 0.0);
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(tensor) => total += elements_of(ty) * tensor.dtype.bytes() as f64,
            TypeData::Tuple(fields) => pending.extend(fields.iter()),
            _ => {}
        }
    }
    total
}
