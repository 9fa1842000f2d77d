//! The forward dataflow graph of a block.

use ir_core::{Binding, BlockId, Body, FuncMut, OpId, Registry, Type, ValueId};
use relay::operators::{FusionPattern, NonComputational, ShapeFromData};

/// A node: an operator, tuple or projection of the block.
pub(super) struct Node {
    pub(super) op: OpId,
    pub(super) pattern: FusionPattern,
    /// Something outside the graph needs the value: it can be computed inside a kernel only as
    /// the kernel's result.
    pub(super) escapes: bool,
    /// The users in this graph, each with what the value is to it.
    pub(super) outputs: Vec<(usize, FusionPattern)>,
    /// Scalar constants among the operands that are copied into the kernel.
    pub(super) constants: usize,
}

/// The operators of one block in order, each before its users.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    pub(super) fn of_block(f: &FuncMut<'_>, block: BlockId) -> Graph {
        let body = &*f.body;
        let mut nodes: Vec<Node> = Vec::new();
        // The node of a value defined in this block. Values are dense, but a block may be a small
        // part of its body, so the table is a map.
        let mut node_of = rustc_hash::FxHashMap::<ValueId, usize>::default();
        for op in body.block_ops(block) {
            let Some(pattern) = pattern(f.registry, body, op) else {
                for operand in operands_inside(body, op) {
                    if let Some(&producer) = node_of.get(&operand) {
                        nodes[producer].escapes = true;
                    }
                }
                continue;
            };
            let index = nodes.len();
            let result = body.result(op, 0);
            let mut constants = 0;
            for operand in body.operands(op) {
                if is_copied_constant(f.registry, body, operand) {
                    constants += usize::from(joins_as_constant(pattern));
                } else if let Some(&producer) = node_of.get(&operand) {
                    match edge(body, pattern, operand, result) {
                        Some(edge) => nodes[producer].outputs.push((index, edge)),
                        None => nodes[producer].escapes = true,
                    }
                }
            }
            let escapes = body.name_hint(result).binding == Binding::Let;
            nodes.push(Node { op, pattern, escapes, outputs: vec![], constants });
            node_of.insert(result, index);
        }
        Graph { nodes }
    }
}

/// Operands of `op` and of everything inside it.
fn operands_inside(body: &Body, op: OpId) -> impl Iterator<Item = ValueId> + '_ {
    let regions = body.regions(op).iter();
    let inner = regions.flat_map(|region| body.walk_block(body.block_of(*region)));
    std::iter::once(op).chain(inner).flat_map(|op| body.operands(op))
}

/// The fusion pattern of `op`; `None` for what is no node of the graph.
fn pattern(registry: &Registry, body: &Body, op: OpId) -> Option<FusionPattern> {
    let name = body.op_name(op);
    if name == "relay.tuple" {
        return Some(FusionPattern::Tuple);
    }
    if name == "relay.tuple_get" {
        let fields = body.ty(body.operand(op, 0)).as_tuple()?;
        return fields
            .iter()
            .all(|ty| ty.as_tensor().is_some())
            .then_some(FusionPattern::Injective);
    }
    let info = registry.info(name)?;
    let pattern = *info.hook::<FusionPattern>()?;
    if info.hook::<NonComputational>().is_some() {
        return None;
    }
    let unknown_shape = body.results(op).any(|result| body.ty(result).facts().has_any);
    if unknown_shape && info.hook::<ShapeFromData>().is_some() {
        return Some(FusionPattern::Opaque);
    }
    Some(pattern)
}

/// What `operand` is to a user of `pattern` with `result`; `None` where the user does not look
/// into it.
fn edge(
    body: &Body,
    pattern: FusionPattern,
    operand: ValueId,
    result: ValueId,
) -> Option<FusionPattern> {
    let shape = |ty: Type| ty.as_tensor().map(|tensor| &tensor.shape);
    let (from, to) = (body.ty(operand), body.ty(result));
    match pattern {
        // A tuple groups tensors; other fields pass through it untouched.
        FusionPattern::Tuple => from.as_tensor().map(|_| FusionPattern::Injective),
        // Broadcasting between equal shapes is elementwise.
        FusionPattern::Broadcast if shape(from).is_some() && shape(from) == shape(to) => {
            Some(FusionPattern::Elementwise)
        }
        pattern => Some(pattern),
    }
}

/// Whether `value` is a scalar constant of a type that a kernel holds as a literal.
pub(super) fn is_copied_constant(registry: &Registry, body: &Body, value: ValueId) -> bool {
    use ir_core::DType;
    let Some(tensor) = body.ty(value).as_tensor() else { return false };
    let literal = [DType::INT32, DType::INT64, DType::FLOAT32, DType::FLOAT64, DType::BOOL];
    tensor.shape.is_empty()
        && literal.contains(&tensor.dtype)
        && registry.constant(body, value).is_some()
}

/// Whether a scalar constant joins the kernel of its user, by the user's pattern.
pub(super) fn joins_as_constant(user: FusionPattern) -> bool {
    user <= FusionPattern::Reduce
}

/// A set of visited nodes that is emptied in constant time.
pub(super) struct Visited {
    stamps: Vec<u32>,
    stamp: u32,
}

impl Visited {
    pub(super) fn new(nodes: usize) -> Visited {
        Visited { stamps: vec![0; nodes], stamp: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.stamp += 1;
    }

    /// Whether `node` is visited for the first time since the last `clear`.
    pub(super) fn insert(&mut self, node: usize) -> bool {
        std::mem::replace(&mut self.stamps[node], self.stamp) != self.stamp
    }
}
