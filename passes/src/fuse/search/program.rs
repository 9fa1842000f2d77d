//! The kernels of a block, as they are and as they become.
//!
//! Values have numbers: those of the graph's nodes, then others as they are met. A value that an
//! equal one has taken the place of is forwarded to that one.

use std::ops::Range;

use ir_core::{Attr, AttrData, BlockId, FuncMut, OpId, Type, ValueId};
use relay_operators::{Rows, is_large_fill};
use rewrites::body_graph::is_pure;
use rustc_hash::{FxHashMap, FxHashSet};

use super::facts::{bytes_of, is_anchor};
use super::window::{
    Input, NewKernel, Operation, Place, Solution, Source, Window, WindowKernel, WindowOp,
};
use crate::fuse::graph::Graph;

/// Constants of so many elements are a part of windows; of larger ones, rules know that they are
/// constants.
const SMALL: usize = 16;

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// Defined outside of the graph.
    Outside(ValueId),
    /// A constant, and where there is one already, its value.
    Constant(Operation, Option<ValueId>),
    Op(Operation, Vec<usize>),
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) ty: Type,
    pub(super) bytes: f64,
    /// Which operation outside of the graph it comes after, counted from 1; 0 for what needs none.
    pub(super) level: usize,
    /// Something outside of kernels needs it, or nothing reads it.
    pub(super) required: bool,
    /// No kernel may hide it: the program binds it with `let`.
    pub(super) bound: bool,
    /// It is a constant, or folded.
    weight: bool,
    /// The node of the graph that it is or was made from.
    pub(super) origin: Option<usize>,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Kernel {
    /// Each after those that it reads; the last one is the result.
    pub(super) members: Vec<usize>,
    /// Members that are results too, in the order of the members.
    pub(super) also: Vec<usize>,
    pub(super) cost: f64,
    /// It is computed from constants alone: the compiler does that.
    pub(super) folded: bool,
    /// It stays where it is, as it is.
    pub(super) fixed: bool,
    /// The level of its result: kernels stand between the operations outside of the graph.
    pub(super) level: usize,
    /// It has an operator such as a convolution: windows end before it.
    pub(super) anchors: bool,
}

impl Kernel {
    /// The kernel of the operation `number` alone.
    pub(super) fn alone(number: usize) -> Kernel {
        let (folded, fixed, anchors) = (false, false, false);
        let (members, also) = (vec![number], vec![]);
        Kernel { members, also, cost: 0.0, folded, fixed, level: 0, anchors }
    }

    /// The number of its result.
    pub(super) fn root(&self) -> usize {
        self.members[self.members.len() - 1]
    }

    /// The numbers of its results.
    pub(super) fn results(&self) -> impl Iterator<Item = usize> + '_ {
        self.also.iter().copied().chain([self.root()])
    }
}

/// The kernels of a block.
pub(super) struct Program {
    pub(super) values: Vec<Value>,
    /// Each after those that it reads.
    pub(super) kernels: Vec<Kernel>,
    /// The operations outside of the graph, in order.
    pub(super) outside: Vec<OpId>,
    /// Whether it has operations that the block does not have, or lacks some.
    pub(super) changed: bool,
    numbers: FxHashMap<(Operation, Vec<usize>), usize>,
    others: FxHashMap<ValueId, usize>,
    constants: FxHashMap<Operation, usize>,
    forward: Vec<usize>,
}

/// A window, and the numbers of its operations and inputs.
pub(super) struct Part {
    pub(super) window: Window,
    pub(super) ops: Vec<usize>,
    pub(super) inputs: Vec<usize>,
    level: usize,
}

impl Program {
    /// The kernels `groups` of `graph`, the graph of `block`; `None` where one of them does more than
    /// to compute its result.
    pub(super) fn new(
        f: &FuncMut<'_>,
        block: BlockId,
        graph: &Graph,
        groups: &[Vec<usize>],
    ) -> Option<Program> {
        let body = &*f.body;
        let node_of: FxHashMap<OpId, usize> =
            graph.nodes.iter().enumerate().map(|(index, node)| (node.op, index)).collect();
        let mut this = Program {
            values: Vec::with_capacity(graph.nodes.len()),
            kernels: vec![],
            outside: vec![],
            changed: false,
            numbers: FxHashMap::default(),
            others: FxHashMap::default(),
            constants: FxHashMap::default(),
            forward: vec![],
        };
        let mut levels: FxHashMap<OpId, usize> = FxHashMap::default();
        for op in body.block_ops(block) {
            let is_inside = node_of.contains_key(&op) && is_pure(body, f.registry, op);
            let is_constant =
                body.results(op).any(|value| f.registry.constant(body, value).is_some());
            if !is_inside && !is_constant {
                this.outside.push(op);
                levels.insert(op, this.outside.len());
            }
        }
        let mut numbers: FxHashMap<ValueId, usize> = FxHashMap::default();
        for (index, node) in graph.nodes.iter().enumerate() {
            numbers.insert(body.result(node.op, 0), index);
        }
        // Nodes first, so that their numbers are those of the graph.
        let count = graph.nodes.len();
        for (index, node) in graph.nodes.iter().enumerate() {
            let result = body.result(node.op, 0);
            let operation = Operation {
                name: body.op_name(node.op),
                attrs: body.attrs(node.op),
                ty: body.ty(result),
            };
            this.values.push(Value {
                kind: Kind::Op(operation, vec![]),
                ty: body.ty(result),
                bytes: bytes_of(body.ty(result)),
                level: 0,
                required: node.escapes || node.outputs.is_empty(),
                bound: body.name_hint(result).binding == ir_core::Binding::Let,
                weight: false,
                origin: Some(index),
            });
            this.forward.push(index);
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut level = 0;
            let mut operands = Vec::with_capacity(body.operand_count(node.op));
            for operand in body.operands(node.op) {
                let number = match numbers.get(&operand) {
                    Some(number) => *number,
                    None => this.other(f, operand, &levels),
                };
                level = level.max(this.values[number].level);
                operands.push(number);
            }
            let value = &mut this.values[index];
            value.level = levels.get(&node.op).copied().unwrap_or(level);
            if let Kind::Op(operation, of) = &mut value.kind {
                operands.clone_into(of);
                this.numbers.entry((*operation, operands)).or_insert(index);
            }
        }
        for members in groups {
            let effects = members.iter().any(|node| levels.contains_key(&graph.nodes[*node].op));
            let fixed = effects || members.len() == 1 && this.is_large_fill(f, members[0]);
            if members.is_empty()
                || fixed && members.len() > 1
                || members.iter().any(|m| *m >= count)
            {
                return None;
            }
            let anchors = members.iter().any(|node| {
                let op = graph.nodes[*node].op;
                let types: Vec<Type> = body.operands(op).map(|value| body.ty(value)).collect();
                let rows = f.registry.hook::<Rows>(body.op_name(op));
                let rows = rows.and_then(|rows| (rows.0)(&types, body.attrs(op)));
                is_anchor(graph.nodes[*node].pattern, rows)
            });
            let level = this.values[members[members.len() - 1]].level;
            let members = members.clone();
            let (also, cost, folded) = (vec![], 0.0, false);
            let kernel = Kernel { members, also, cost, folded, fixed, level, anchors };
            this.kernels.push(kernel);
        }
        this.kernels.sort_by_key(|kernel| (kernel.level, !kernel.fixed));
        Some(this)
    }

    /// Whether the value `number` is one number so often that no kernel should know it: it is no
    /// constant that rules could join with others, and windows differ in nothing but such numbers.
    fn is_large_fill(&self, f: &FuncMut<'_>, number: usize) -> bool {
        let Kind::Op(Operation { name, ty, .. }, operands) = &self.values[number].kind else {
            return false;
        };
        let is_constant = |read: &usize| matches!(self.values[*read].kind, Kind::Constant(..));
        is_large_fill(f.registry, *name, *ty) && operands.iter().all(is_constant)
    }

    /// The number of a value that is no node of the graph.
    fn other(&mut self, f: &FuncMut<'_>, value: ValueId, levels: &FxHashMap<OpId, usize>) -> usize {
        if let Some(number) = self.others.get(&value) {
            return *number;
        }
        let ty = f.body.ty(value);
        let op = f.body.defining_op(value);
        let number = match op.filter(|_| f.registry.constant(f.body, value).is_some()) {
            Some(op) => {
                let (name, attrs) = (f.body.op_name(op), f.body.attrs(op));
                self.constant(Operation { name, attrs, ty }, Some(value))
            }
            None => {
                let level = op.and_then(|op| levels.get(&op)).copied().unwrap_or(0);
                self.add(Kind::Outside(value), ty, level)
            }
        };
        self.others.insert(value, number);
        number
    }

    fn constant(&mut self, operation: Operation, value: Option<ValueId>) -> usize {
        if let Some(number) = self.constants.get(&operation) {
            return *number;
        }
        let number = self.add(Kind::Constant(operation, value), operation.ty, 0);
        self.constants.insert(operation, number);
        number
    }

    fn add(&mut self, kind: Kind, ty: Type, level: usize) -> usize {
        let weight = matches!(kind, Kind::Constant(..));
        let (bytes, required, bound, origin) = (bytes_of(ty), false, false, None);
        self.values.push(Value { kind, ty, bytes, level, required, bound, weight, origin });
        self.forward.push(self.forward.len());
        self.forward.len() - 1
    }

    /// The value that has taken the place of `number`.
    pub(super) fn find(&self, number: usize) -> usize {
        let mut number = number;
        while self.forward[number] != number {
            number = self.forward[number];
        }
        number
    }

    /// Modelled microseconds.
    pub(super) fn cost(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.cost).sum()
    }

    /// What `member` reads; nothing where it is no operation.
    pub(super) fn operands(&self, member: usize) -> &[usize] {
        match &self.values[member].kind {
            Kind::Op(_, operands) => operands,
            _ => &[],
        }
    }

    /// The values that `kernel` reads, with repetition.
    pub(super) fn reads<'a>(&'a self, kernel: &'a Kernel) -> impl Iterator<Item = usize> + 'a {
        let all = kernel.members.iter().flat_map(|member| self.operands(*member));
        all.filter(|operand| self.inside(kernel, **operand).is_none())
            .map(|operand| self.find(*operand))
    }

    /// The number of the member of `kernel` that is the value `operand` of a member.
    pub(super) fn inside(&self, kernel: &Kernel, operand: usize) -> Option<usize> {
        if kernel.members.contains(&operand) {
            return Some(operand);
        }
        let found = self.find(operand);
        kernel.results().find(|result| *result == found)
    }

    /// Drops kernels that nothing needs, and those whose result another one before computes; by value,
    /// how many kernels read it.
    pub(super) fn tidy(&mut self) -> Vec<u32> {
        let mut stored = vec![false; self.values.len()];
        let mut kernels = std::mem::take(&mut self.kernels);
        kernels.retain(|kernel| !std::mem::replace(&mut stored[kernel.root()], true));
        let mut uses = vec![0u32; self.values.len()];
        let mut kept: Vec<Kernel> = Vec::with_capacity(kernels.len());
        for kernel in kernels.into_iter().rev() {
            let root = kernel.root();
            if !(kernel.fixed || self.values[root].required || uses[root] > 0) {
                continue;
            }
            self.reads(&kernel).for_each(|read| uses[read] += 1);
            kept.push(kernel);
        }
        kept.reverse();
        self.kernels = kept;
        uses
    }

    /// Ranges of kernels that cover all but the fixed ones, each of about `size` operations, the first
    /// of `first`. They end before anchors, so that equal parts of the program have equal windows.
    pub(super) fn windows(&self, first: usize, size: usize, most: usize) -> Vec<Range<usize>> {
        let mut windows = vec![];
        let (mut start, mut ops, mut least) = (0, 0, first);
        for (at, kernel) in self.kernels.iter().enumerate() {
            let count = kernel.members.len();
            let breaks = kernel.fixed || kernel.level != self.kernels[start].level;
            let full = ops >= least && kernel.anchors || ops + count > most;
            if start < at && (breaks || full) {
                windows.push(start..at);
                (start, ops) = (at, 0);
                least = if breaks { first } else { size };
            }
            if kernel.fixed {
                start = at + 1;
                continue;
            }
            ops += count;
        }
        if start < self.kernels.len() {
            windows.push(start..self.kernels.len());
        }
        windows
    }

    /// `kernels` as a window. `stored` says what kernels before them store, `uses` how many read each
    /// value.
    pub(super) fn part(&self, kernels: &[Kernel], stored: &[bool], uses: &[u32]) -> Part {
        let mut part = Part {
            window: Window::default(),
            ops: vec![],
            inputs: vec![],
            level: kernels.first().map_or(0, |kernel| kernel.level),
        };
        let mut ops: FxHashMap<usize, usize> = FxHashMap::default();
        let mut inputs: FxHashMap<usize, usize> = FxHashMap::default();
        let mut inside: FxHashMap<usize, u32> = FxHashMap::default();
        let mut roots: FxHashMap<usize, usize> = FxHashMap::default();
        for kernel in kernels {
            for &member in &kernel.members {
                if ops.contains_key(&member) {
                    continue;
                }
                let Kind::Op(operation, operands) = &self.values[member].kind else { continue };
                let mut sources = Vec::with_capacity(operands.len());
                for &operand in operands {
                    let member = self.inside(kernel, operand);
                    let found = member.unwrap_or_else(|| self.find(operand));
                    let op = if member.is_some() { ops.get(&found) } else { roots.get(&found) };
                    sources.push(match (op, &self.values[found].kind) {
                        (Some(op), _) => Source::Op(*op),
                        (None, Kind::Constant(constant, _)) if is_small(constant) => {
                            Source::Constant(*constant)
                        }
                        _ => Source::Input(self.input(found, &mut part, &mut inputs)),
                    });
                }
                let same = self.find(member);
                let is_stored = stored.get(same) == Some(&true);
                let is_stored = is_stored.then(|| self.input(same, &mut part, &mut inputs));
                ops.insert(member, part.ops.len());
                part.ops.push(member);
                part.window.ops.push(WindowOp {
                    operation: *operation,
                    operands: sources,
                    stored: is_stored,
                    bound: self.values[member].bound,
                });
            }
            self.reads(kernel).for_each(|read| *inside.entry(read).or_default() += 1);
            let members = kernel.members.iter().map(|member| ops[member]).collect();
            part.window.kernels.push(WindowKernel { members, folded: kernel.folded });
            roots.insert(kernel.root(), ops[&kernel.root()]);
        }
        for kernel in kernels {
            let root = kernel.root();
            let others = uses[root] > inside.get(&root).copied().unwrap_or(0);
            if self.values[root].required || others {
                part.window.needed.push(ops[&root]);
            }
        }
        part
    }

    fn input(&self, value: usize, part: &mut Part, inputs: &mut FxHashMap<usize, usize>) -> usize {
        *inputs.entry(value).or_insert_with(|| {
            let Value { ty, weight, .. } = self.values[value];
            part.window.inputs.push(Input { ty, weight });
            part.inputs.push(value);
            part.inputs.len() - 1
        })
    }

    /// The kernels of `solution`, which take the place of those of `part`.
    pub(super) fn adopt(&mut self, part: &Part, solution: &Solution) -> Vec<Kernel> {
        let mut kernels: Vec<Kernel> = Vec::with_capacity(solution.kernels.len());
        for new in &solution.kernels {
            let mut members: Vec<usize> = Vec::with_capacity(new.members.len());
            let mut read: FxHashSet<usize> = FxHashSet::default();
            for op in &new.members {
                let operands = op.operands.iter();
                let operands: Vec<usize> =
                    operands.map(|place| self.place(part, &kernels, &members, *place)).collect();
                read.extend(operands.iter().filter(|operand| !members.contains(operand)));
                let origin = op.origin.map(|origin| part.ops[origin]);
                let number = self.intern(op.operation, operands, part.level);
                self.changed |= origin != Some(number);
                if let (None, Some(origin)) = (self.values[number].origin, origin) {
                    self.values[number].origin = self.values[origin].origin;
                }
                members.push(number);
            }
            self.changed |= new.folded;
            if let Some(&root) = members.last() {
                self.forward[root] = root;
                self.values[root].weight |= new.folded;
            }
            let members = self.computed(&members, &read);
            let &NewKernel { cost, folded, anchors, .. } = new;
            let (fixed, level) = (false, part.level);
            kernels.push(Kernel { members, also: vec![], cost, folded, fixed, level, anchors });
        }
        for (op, place) in part.window.needed.iter().zip(&solution.outputs) {
            let (old, new) = (part.ops[*op], self.place(part, &kernels, &[], *place));
            if old != new {
                let Value { required, bound, .. } = self.values[old];
                self.values[new].required |= required;
                self.values[new].bound |= bound;
                self.forward[old] = new;
                self.changed = true;
            }
        }
        kernels
    }

    /// Which of `members`, the last of which is the result, their kernel computes, where they read
    /// the values `read` from outside: each number once, none that is read, and only what is needed.
    ///
    /// To a window, an input equals no operation unless it is known to be stored, so that a kernel
    /// may read a value and compute it after that. Then its readers would be given what comes after
    /// them, and the kernel that stores the value would be dropped.
    fn computed(&self, members: &[usize], read: &FxHashSet<usize>) -> Vec<usize> {
        let Some(root) = members.last() else { return vec![] };
        let mut needed = FxHashSet::from_iter([*root]);
        let mut computed: Vec<usize> = Vec::with_capacity(members.len());
        for (at, member) in members.iter().enumerate().rev() {
            let is_read = member != root && read.contains(member);
            if needed.contains(member) && !is_read && !members[..at].contains(member) {
                needed.extend(self.operands(*member));
                computed.push(*member);
            }
        }
        computed.reverse();
        computed
    }

    fn place(&mut self, part: &Part, kernels: &[Kernel], members: &[usize], place: Place) -> usize {
        match place {
            Place::Input(input) => part.inputs[input],
            Place::Constant(constant) => self.constant(constant, None),
            Place::Kernel(kernel) => kernels[kernel].root(),
            Place::Member(member) => members[member],
        }
    }

    /// The number of `operation` on `operands`.
    fn intern(&mut self, operation: Operation, operands: Vec<usize>, level: usize) -> usize {
        if let Some(number) = self.numbers.get(&(operation, operands.clone())) {
            return *number;
        }
        let number = self.add(Kind::Op(operation, operands.clone()), operation.ty, level);
        self.numbers.insert((operation, operands), number);
        number
    }
}

fn is_small(constant: &Operation) -> bool {
    let value = constant.attrs.get("value");
    let data = value.map(Attr::data);
    matches!(data, Some(AttrData::Tensor(tensor)) if tensor.len() <= SMALL)
}
