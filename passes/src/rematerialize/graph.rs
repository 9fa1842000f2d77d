//! What a function computes, as a list of values.

use ir_core::{Body, Effects, FuncMut, OpId, Type, TypeData, Work};
use relay::language::{
    Constant, Constructor, Global, Operator, Tuple, TupleGet, is_form, short_name,
};
use relay_operators::FusionPattern;
use relay_operators::annotation::StopFusion;
use rustc_hash::FxHashMap;
use te::loops::ALIGNMENT;

/// What may be done with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It is computed once, where it stands.
    Fixed,
    /// A tuple, a projection or a barrier of fusion, which only names what is there.
    Alias,
    /// An operator that is fused into what reads it.
    Cheap,
    /// Any other operator without effects.
    Costly,
}

/// An operation of the block, with its value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) op: OpId,
    pub(super) kind: Kind,
    /// Whether nothing notices where it is computed.
    pub(super) is_pure: bool,
    /// What its value takes; 0 where nobody plans memory for it: constants, aliases, and results, which
    /// lie in memory of the caller.
    pub(super) bytes: i64,
    /// The nodes that it reads, here or in a region of its own, in order, with repeats.
    pub(super) operands: Vec<usize>,
    /// Whether the result of the function is made of it.
    pub(super) is_result: bool,
    /// Whether something in a region, such as a branch, reads it: that is not looked into.
    pub(super) is_read_inside: bool,
    /// Whether something reads it.
    pub(super) is_read: bool,
}

impl Node {
    /// Whether it may be computed again.
    pub(super) fn can_be_again(&self) -> bool {
        self.kind != Kind::Fixed && !self.is_result && !self.is_read_inside
    }
}

/// What reads a value on either side of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reads {
    /// The last node up to the place that reads it; itself where there is none.
    pub(super) last: usize,
    /// The first node behind the place that does.
    pub(super) late: Option<usize>,
}

/// The operations of the entry block of a function, each behind those that it reads. The last one gives the
/// result.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The first operation whose value has extents that are not known. They count as 1.
    pub(super) open: Option<OpId>,
}

impl Graph {
    /// Of the entry block of `f`. Linear in the size of the function.
    pub(super) fn of(f: &FuncMut<'_>) -> Graph {
        let body = &*f.body;
        let inner = body.inner_uses();
        let mut numbers: FxHashMap<OpId, usize> = FxHashMap::default();
        let mut graph = Graph { nodes: vec![], open: None };
        for op in body.block_ops(body.entry()) {
            let number = |value| body.defining_op(value).and_then(|op| numbers.get(&op)).copied();
            let inside: Vec<usize> =
                inner.of(op).iter().filter_map(|value| number(*value)).collect();
            let mut operands: Vec<usize> = body.operands(op).filter_map(number).collect();
            inside.iter().for_each(|read| graph.nodes[*read].is_read_inside = true);
            operands.extend(inside);
            operands.iter().for_each(|read| graph.nodes[*read].is_read = true);
            let kind = kind(f, op);
            let mut bytes = 0;
            if kind != Kind::Alias && !is_name(body, op) {
                for result in body.results(op) {
                    let (size, is_open) = size(body.ty(result));
                    bytes += size;
                    graph.open = graph.open.or(is_open.then_some(op));
                }
            }
            numbers.insert(op, graph.nodes.len());
            let is_pure = !body.has_regions(op)
                && body.result_count(op) > 0
                && f.registry.effects(body, op).is_empty();
            graph.nodes.push(Node {
                op,
                kind,
                is_pure,
                bytes,
                operands,
                is_result: false,
                is_read_inside: false,
                is_read: false,
            });
        }
        graph.mark_results(body);
        graph
    }

    /// Marks what the result of the function is made of.
    fn mark_results(&mut self, body: &Body) {
        let mut pending = match self.nodes.last() {
            Some(end) => end.operands.clone(),
            None => vec![],
        };
        while let Some(number) = pending.pop() {
            let node = &mut self.nodes[number];
            if std::mem::replace(&mut node.is_result, true) {
                continue;
            }
            if body.is::<Tuple>(node.op) {
                pending.extend(node.operands.iter().copied());
            } else if body.is::<TupleGet>(node.op) {
                // A field is written where the caller wants it by a copy, and what it is a field of is planned.
            } else {
                node.bytes = 0;
            }
        }
    }

    /// The same operations in another order, in which each is behind those that it reads.
    pub(super) fn in_order(&self, order: &[usize]) -> Graph {
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(index, number)| place[*number] = index);
        let moved = order.iter().map(|number| {
            let node = self.nodes[*number].clone();
            let operands = node.operands.iter().map(|operand| place[*operand]).collect();
            Node { operands, ..node }
        });
        Graph { nodes: moved.collect(), open: self.open }
    }

    /// What reads each node, or a part or tuple of it, on either side of `at`. Linear.
    pub(super) fn reads(&self, at: usize) -> Vec<Reads> {
        let none = |node| Reads { last: node, late: None };
        let mut reads: Vec<Reads> = (0..self.nodes.len()).map(none).collect();
        for (number, node) in self.nodes.iter().enumerate().rev() {
            let alias = (node.kind == Kind::Alias).then_some(reads[number]);
            let own = match number <= at {
                true => Reads { last: number, late: None },
                false => Reads { last: 0, late: Some(number) },
            };
            for &operand in &node.operands {
                for other in std::iter::once(own).chain(alias) {
                    let read = &mut reads[operand];
                    if other.last <= at {
                        read.last = read.last.max(other.last);
                    }
                    read.late = match (read.late, other.late) {
                        (Some(read), Some(other)) => Some(read.min(other)),
                        (read, other) => read.or(other),
                    };
                }
            }
        }
        reads
    }

    /// The arithmetic that each node takes: that of the hook `Work`, else one for each byte that it gives.
    pub(super) fn work(&self, f: &FuncMut<'_>) -> Vec<f64> {
        let body = &*f.body;
        let work = |node: &Node| match (f.registry.hook::<Work>(body.op_name(node.op)), node.kind) {
            (_, Kind::Fixed | Kind::Alias) => 0.0,
            (None, _) => node.bytes as f64,
            (Some(Work(work)), _) => {
                let operands: Vec<Type> =
                    body.operands(node.op).map(|operand| body.ty(operand)).collect();
                work(&operands, body.attrs(node.op), body.ty(body.result(node.op, 0)))
            }
        };
        self.nodes.iter().map(work).collect()
    }
}

/// Whether `op` names something that is there before the program runs.
fn is_name(body: &Body, op: OpId) -> bool {
    let names = [Constant::NAME, Global::NAME, Operator::NAME, Constructor::NAME];
    names.contains(&body.op_name(op).as_str())
}

fn kind(f: &FuncMut<'_>, op: OpId) -> Kind {
    let (body, name) = (&*f.body, f.body.op_name(op));
    if body.is::<Tuple>(op) || body.is::<TupleGet>(op) || body.is::<StopFusion>(op) {
        return Kind::Alias;
    }
    let short = short_name(name.as_str());
    let is_operator = short != name.as_str() && !is_form(short);
    let is_repeatable = is_operator
        && body.result_count(op) == 1
        && !body.has_regions(op)
        && f.registry.effects(body, op) == Effects::empty();
    // What reads constants alone is one, and an equal one is found by whoever merges what is equal.
    let reads = |value| body.defining_op(value).is_none_or(|op| !body.is::<Constant>(op));
    if !is_repeatable || !body.operands(op).any(reads) {
        return Kind::Fixed;
    }
    match f.registry.hook::<FusionPattern>(name) {
        Some(pattern) if *pattern <= FusionPattern::Injective => Kind::Cheap,
        _ => Kind::Costly,
    }
}

/// What the tensors of type `ty` take, as the plan of memory places them, and whether extents are not known.
fn size(ty: Type) -> (i64, bool) {
    let (mut bytes, mut is_open) = (0i64, false);
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tuple(fields) => pending.extend(fields.iter().copied()),
            TypeData::Tensor(tensor) => {
                let extents = tensor.shape.iter().map(|dim| dim.known());
                let mut elements = tensor.dtype.bytes() as i64;
                for extent in extents {
                    is_open |= extent.is_none();
                    elements = elements.saturating_mul(extent.unwrap_or(1));
                }
                let lines = elements.max(1).saturating_add(ALIGNMENT - 1) / ALIGNMENT;
                bytes = bytes.saturating_add(lines.saturating_mul(ALIGNMENT));
            }
            _ => {}
        }
    }
    // Sums of all values stay numbers.
    (bytes.min(i64::MAX >> 24), is_open)
}
