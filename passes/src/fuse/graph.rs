//! The forward dataflow graph of a block.

use ir_core::body::InnerUses;
use ir_core::{Binding, BlockId, Body, FuncMut, OpId, Registry, Symbol, Type, ValueId};
use relay::language::{Tuple, TupleGet};
use relay_operators::{FusionPattern, ShapeFromData};
use rustc_hash::{FxHashMap, FxHashSet};

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

/// The operators of one block, each before its users.
///
/// Their order is that of a depth-first walk over operands from what the block needs, as in the
/// original: which of two groups grows first decides the result, and the order of the text, in
/// which independent operators may stand either way, must not.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Of `block` of a body with these uses inside its operations.
    pub(super) fn of_block(f: &FuncMut<'_>, block: BlockId, inner: &InnerUses) -> Graph {
        let body = &*f.body;
        // Values are dense, but a block may be a small part of its body, so the tables are maps.
        let mut patterns: FxHashMap<OpId, FusionPattern> = FxHashMap::default();
        let mut candidates: Vec<OpId> = vec![];
        let mut needed_outside: FxHashSet<OpId> = FxHashSet::default();
        for op in body.block_ops(block) {
            let operands: Vec<Type> = body.operands(op).map(|value| body.ty(value)).collect();
            let results: Vec<Type> = body.results(op).map(|value| body.ty(value)).collect();
            if let Some(pattern) = pattern(f.registry, body.op_name(op), &operands, &results) {
                patterns.insert(op, pattern);
                candidates.push(op);
                continue;
            }
            for operand in body.operands(op).chain(inner.of(op).iter().copied()) {
                needed_outside.extend(body.defining_op(operand));
            }
        }
        let is_let = |op: OpId| body.name_hint(body.result(op, 0)).binding == Binding::Let;
        let escapes = |op: OpId| needed_outside.contains(&op) || is_let(op);
        let roots = candidates.iter().copied().filter(|op| {
            let mut users = body.uses(body.result(*op, 0));
            escapes(*op) || !users.any(|(user, _)| patterns.contains_key(&user))
        });
        let order = depth_first(body, roots, |op| patterns.contains_key(&op));
        let mut nodes: Vec<Node> = Vec::with_capacity(order.len());
        let mut node_of: FxHashMap<ValueId, usize> = FxHashMap::default();
        for op in order {
            let (index, pattern, result) = (nodes.len(), patterns[&op], body.result(op, 0));
            let mut constants = 0;
            for (place, operand) in body.operands(op).enumerate() {
                if is_copied_constant(f.registry, body, operand) {
                    constants += usize::from(joins_as_constant(pattern));
                } else if let Some(&producer) = node_of.get(&operand) {
                    match edge(body, pattern, (place, operand), result) {
                        Some(edge) => nodes[producer].outputs.push((index, edge)),
                        None => nodes[producer].escapes = true,
                    }
                }
            }
            nodes.push(Node { op, pattern, escapes: escapes(op), outputs: vec![], constants });
            node_of.insert(result, index);
        }
        Graph { nodes }
    }
}

/// The operations that `include` accepts and `roots` depend on, in post-order: operands from first
/// to last, each before its user.
fn depth_first(
    body: &Body,
    roots: impl Iterator<Item = OpId>,
    include: impl Fn(OpId) -> bool,
) -> Vec<OpId> {
    let mut order = vec![];
    let mut seen: FxHashSet<OpId> = FxHashSet::default();
    // Operations that are being visited, each with the operand to look at next.
    let mut open: Vec<(OpId, usize)> = vec![];
    for root in roots {
        if seen.insert(root) {
            open.push((root, 0));
        }
        while let Some((op, next)) = open.last_mut() {
            if *next == body.operand_count(*op) {
                order.push(*op);
                open.pop();
                continue;
            }
            let producer = body.defining_op(body.operand(*op, *next));
            *next += 1;
            if let Some(producer) = producer.filter(|producer| include(*producer))
                && seen.insert(producer)
            {
                open.push((producer, 0));
            }
        }
    }
    order
}

/// The fusion pattern of operation `name`; `None` for what is no node of the graph.
pub(super) fn pattern(
    registry: &Registry,
    name: Symbol,
    operands: &[Type],
    results: &[Type],
) -> Option<FusionPattern> {
    if name == Tuple::NAME {
        return Some(FusionPattern::Tuple);
    }
    if name == TupleGet::NAME {
        return operands.first()?.facts().is_flat.then_some(FusionPattern::Injective);
    }
    let info = registry.info(name)?;
    let pattern = *info.hook::<FusionPattern>()?;
    let unknown_shape = results.iter().any(|result| result.facts().has_any);
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
    (place, operand): (usize, ValueId),
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
        // What is changed may be changed where it is.
        FusionPattern::Scatter if place == 0 => Some(FusionPattern::Opaque),
        pattern => Some(pattern),
    }
}

/// Whether `value` is a scalar constant of a type that a kernel holds as a literal.
pub(super) fn is_copied_constant(registry: &Registry, body: &Body, value: ValueId) -> bool {
    is_literal(body.ty(value)) && registry.constant(body, value).is_some()
}

/// Whether a kernel holds a constant of type `ty` as a literal.
pub(super) fn is_literal(ty: Type) -> bool {
    use ir_core::DType;
    let literal = [DType::INT32, DType::INT64, DType::FLOAT32, DType::FLOAT64, DType::BOOL];
    ty.as_tensor().is_some_and(|ty| ty.shape.is_empty() && literal.contains(&ty.dtype))
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
