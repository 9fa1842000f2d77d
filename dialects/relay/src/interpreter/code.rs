//! Compiling bodies for the machine.
//!
//! Every function of a body (the item itself and each `relay.fn` inside) becomes one flat list of
//! instructions over numbered slots; `if` and `match` become jumps, so only calls make frames.
//!
//! **Invariants**
//! - A frame's slots are the arguments, then the function itself where it is recursive, then the
//!   captured values, then everything else. A slot is used again as soon as its value is dead, so
//!   a frame is as large as the number of values alive at once.
//! - An operand marked [`Operand::Last`] is moved out of its slot: a value lives no longer than
//!   its last use, or to the end of the `if` or `match` that holds it.
//! - A call whose value is the value of the function, also through `if` and `match`, is a
//!   [`Instruction::TailCall`]; it reuses the frame.

use indexmap::IndexSet;
use ir_core::{
    AttrDict, BlockId, Body, EntityId, Loc, OpId, Registry, Span, Symbol, TensorData, Type, ValueId,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::extents::mentions_extents;
use super::operation::Operation;
use super::value::Value;
use crate::language::{
    Call, Construct, Constructor, Global, Match, Operator, Pattern, TupleGet, fn_params, fn_self,
    operator,
};

/// The instructions of a body.
pub(super) struct Unit {
    /// The item, for messages.
    pub(super) name: Option<Symbol>,
    /// Where the item starts in its source.
    pub(super) span: Option<Span>,
    pub(super) constants: Vec<Value>,
    /// The item itself, then the functions inside.
    pub(super) functions: Vec<Function>,
    /// The values that function 0 takes from outside; only where one operation was compiled.
    pub(super) free: Vec<ValueId>,
}

/// The instructions of a function.
#[derive(Default)]
pub(super) struct Function {
    /// Parameter types.
    pub(super) params: Vec<Type>,
    /// Whether they mention shape parameters, each of which stands for one extent in a call.
    pub(super) symbolic: bool,
    /// Whether the slot after the parameters holds the function itself.
    pub(super) recursive: bool,
    pub(super) slots: usize,
    pub(super) code: Vec<Instruction>,
    /// Where each instruction comes from.
    pub(super) locs: Vec<Loc>,
}

/// What an instruction reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// A copy of a slot.
    Slot(u32),
    /// The content of a slot, which is dead afterwards.
    Last(u32),
    /// A constant of the unit.
    Constant(u32),
}

/// The slot that an instruction writes; `None` where nobody reads it.
pub(super) type Target = Option<u32>;

#[derive(Debug)]
pub(super) enum Instruction {
    Evaluate {
        operation: Box<Operation>,
        operands: Box<[Operand]>,
        to: Target,
    },
    Tuple {
        fields: Box<[Operand]>,
        to: Target,
    },
    TupleGet {
        tuple: Operand,
        index: i64,
        to: Target,
    },
    Construct {
        constructor: Symbol,
        fields: Box<[Operand]>,
        to: Target,
    },
    Closure {
        function: usize,
        captured: Box<[Operand]>,
        to: Target,
    },
    Call {
        call: Box<CallSite>,
        to: Target,
    },
    TailCall {
        call: Box<CallSite>,
    },
    RefCreate {
        value: Operand,
        to: Target,
    },
    RefRead {
        reference: Operand,
        to: Target,
    },
    RefWrite {
        reference: Operand,
        value: Operand,
        to: Target,
    },
    /// Goes on where the condition holds, and at `otherwise` where not.
    Branch {
        condition: Operand,
        otherwise: usize,
    },
    Match {
        data: Operand,
        clauses: Vec<Clause>,
    },
    Move {
        value: Operand,
        to: Target,
    },
    Release {
        slots: Box<[u32]>,
    },
    Jump {
        to: usize,
    },
    Return {
        value: Operand,
    },
    Fail {
        message: String,
    },
}

#[derive(Debug)]
pub(super) struct CallSite {
    pub(super) callee: Operand,
    pub(super) args: Box<[Operand]>,
    pub(super) attributes: AttrDict,
    pub(super) result: Type,
}

/// A clause of a `match`: where to go on, and the slots of the pattern's variables.
#[derive(Debug)]
pub(super) struct Clause {
    pub(super) pattern: Pattern,
    pub(super) slots: Vec<Target>,
    pub(super) target: usize,
}

/// Compiles the body of an item.
pub(super) fn compile_body(
    name: Symbol,
    span: Option<Span>,
    body: &Body,
    registry: &Registry,
) -> Unit {
    let mut compiler = Compiler::new(body, registry);
    compiler.functions.push(Plan::new(None, 0, Some(body.entry())));
    compiler.block_function[body.entry().index()] = Some(0);
    compiler.analyze(body.walk());
    compiler.compile(Some(name), span)
}

/// Compiles one operation, regions included, as a function of the values that it takes from
/// outside.
pub(super) fn compile_op(span: Option<Span>, body: &Body, op: OpId, registry: &Registry) -> Unit {
    let mut compiler = Compiler::new(body, registry);
    compiler.functions.push(Plan::new(Some(op), 0, None));
    let inside = body.regions(op).iter().flat_map(|r| body.walk_block(body.block_of(*r)));
    compiler.analyze(std::iter::once(op).chain(inside));
    compiler.compile(None, span)
}

/// What is known of a function before its instructions are made.
struct Plan {
    /// The `relay.fn`; for function 0 of a single operation, that operation.
    op: Option<OpId>,
    parent: usize,
    /// `None` for function 0 of a single operation.
    block: Option<BlockId>,
    captured: IndexSet<ValueId, FxBuildHasher>,
    /// The operation of the root block in or at which a captured value is used last.
    last: FxHashMap<ValueId, OpId>,
}

impl Plan {
    fn new(op: Option<OpId>, parent: usize, block: Option<BlockId>) -> Plan {
        Plan { op, parent, block, captured: IndexSet::default(), last: FxHashMap::default() }
    }
}

struct Compiler<'a> {
    body: &'a Body,
    registry: &'a Registry,
    functions: Vec<Plan>,
    /// The function that a block belongs to; `None` outside of what is compiled.
    block_function: Vec<Option<usize>>,
    /// The function that a `relay.fn` makes.
    function_of: FxHashMap<OpId, usize>,
    /// The operation of the defining block in or at which a value is used last.
    last: Vec<Option<OpId>>,
    /// What is used inside the regions of an operation but lives outside.
    inside: FxHashMap<OpId, IndexSet<ValueId, FxBuildHasher>>,
    constants: Vec<Value>,
    constant_of: FxHashMap<ValueId, u32>,
}

impl<'a> Compiler<'a> {
    fn new(body: &'a Body, registry: &'a Registry) -> Compiler<'a> {
        Compiler {
            body,
            registry,
            functions: Vec::new(),
            block_function: vec![None; body.block_capacity()],
            function_of: FxHashMap::default(),
            last: vec![None; body.value_capacity()],
            inside: FxHashMap::default(),
            constants: Vec::new(),
            constant_of: FxHashMap::default(),
        }
    }

    /// Finds functions, captured values and last uses. `ops` come outer before inner.
    fn analyze(&mut self, ops: impl Iterator<Item = OpId>) {
        for op in ops {
            let function = self.function_at(op);
            let is_fn = self.body.op_name(op) == "relay.fn";
            for region in self.body.regions(op) {
                let block = self.body.block_of(*region);
                let owner = if is_fn { self.functions.len() } else { function };
                self.block_function[block.index()] = Some(owner);
            }
            if let (true, Some(region)) = (is_fn, self.body.regions(op).first()) {
                let block = self.body.block_of(*region);
                self.function_of.insert(op, self.functions.len());
                self.functions.push(Plan::new(Some(op), function, Some(block)));
            }
            for operand in self.body.operands(op) {
                if self.constant(operand).is_none() {
                    self.record_use(op, function, operand);
                }
            }
        }
    }

    /// The function in which `op` runs.
    fn function_at(&self, op: OpId) -> usize {
        let block = self.body.op_block(op);
        block.and_then(|block| self.block_function[block.index()]).unwrap_or(0)
    }

    fn record_use(&mut self, user: OpId, function: usize, value: ValueId) {
        let def_block = self.body.def_block(value);
        let owner = def_block.and_then(|block| self.block_function[block.index()]);
        let (mut user, mut function) = (user, function);
        loop {
            let owned = owner == Some(function);
            let block = if owned { def_block } else { self.functions[function].block };
            // The use, seen from the block in which the value begins to live.
            let at = match block {
                Some(block) => self.body.ancestor_in(user, block),
                None => self.functions[function].op,
            };
            let Some(at) = at else { return };
            if at != user {
                self.inside.entry(at).or_default().insert(value);
            }
            let last = match owned {
                true => self.last[value.index()],
                false => self.functions[function].last.get(&value).copied(),
            };
            let later = match last {
                Some(last) if last != at && self.body.is_before(at, last) => last,
                _ => at,
            };
            if owned {
                self.last[value.index()] = Some(later);
                return;
            }
            let plan = &mut self.functions[function];
            plan.captured.insert(value);
            plan.last.insert(value, later);
            if function == 0 {
                return;
            }
            let Some(op) = self.functions[function].op else { return };
            (user, function) = (op, self.functions[function].parent);
        }
    }

    /// The constant behind `value`; functions, operators and constructors count.
    fn constant(&mut self, value: ValueId) -> Option<u32> {
        let op = self.body.defining_op(value)?;
        let constant: Value = match self.body.op_name(op).as_str() {
            "relay.constant" => self.body.attrs(op).value::<TensorData>("value")?.into(),
            "relay.global" => Value::Global(self.body.view::<Global>(op)?.name),
            "relay.operator" => {
                let name = self.body.view::<Operator>(op)?.name;
                Value::Operator(operator(&name))
            }
            "relay.constructor" => {
                Value::Constructor(Symbol::new(&self.body.view::<Constructor>(op)?.name))
            }
            _ => return None,
        };
        Some(*self.constant_of.entry(value).or_insert_with(|| {
            self.constants.push(constant);
            self.constants.len() as u32 - 1
        }))
    }

    fn compile(mut self, name: Option<Symbol>, span: Option<Span>) -> Unit {
        let functions = (0..self.functions.len()).map(|f| Emitter::new(&mut self, f).emit());
        let functions = functions.collect();
        let free = match self.functions.first() {
            Some(plan) => plan.captured.iter().copied().collect(),
            None => Vec::new(),
        };
        Unit { name, span, constants: self.constants, functions, free }
    }
}

/// Where the value of a block goes.
#[derive(Clone, Copy)]
enum Exit {
    /// Out of the function.
    Return,
    /// To a slot and then to a join, by its index.
    Join(Target, usize),
}

/// What is still to be emitted.
enum Task {
    /// The rest of a block.
    Rest(Option<OpId>, Exit),
    /// Region `index` of an operation, whose place instruction `from` must learn.
    Region { op: OpId, index: usize, from: usize, exit: Exit },
    /// The end of an `if` or `match`.
    Join { op: OpId, join: usize },
}

/// Makes the instructions of one function.
struct Emitter<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    function: usize,
    out: Function,
    slot_of: FxHashMap<ValueId, u32>,
    /// Slots without a live value.
    free: Vec<u32>,
    /// For each join, the jumps to it.
    joins: Vec<Vec<usize>>,
    loc: Loc,
}

impl<'c, 'a> Emitter<'c, 'a> {
    fn new(compiler: &'c mut Compiler<'a>, function: usize) -> Self {
        Emitter {
            compiler,
            function,
            out: Function::default(),
            slot_of: FxHashMap::default(),
            free: Vec::new(),
            joins: Vec::new(),
            loc: Loc::UNKNOWN,
        }
    }

    fn emit(mut self) -> Function {
        let body = self.compiler.body;
        let plan = &self.compiler.functions[self.function];
        let mut leading: Vec<ValueId> = Vec::new();
        if let Some(block) = plan.block {
            let (params, own) = match plan.op {
                Some(op) => (fn_params(body, op), fn_self(body, op)),
                None => (body.block_args(block), None),
            };
            self.out.params = params.iter().map(|param| body.ty(*param)).collect();
            self.out.symbolic = self.out.params.iter().any(|ty| mentions_extents(*ty));
            self.out.recursive = own.is_some();
            leading.extend(params.iter().copied().chain(own));
        }
        leading.extend(plan.captured.iter().copied());
        let (block, op) = (plan.block, plan.op);
        for value in leading {
            self.slot_of.insert(value, self.out.slots as u32);
            self.out.slots += 1;
        }
        match (block, op) {
            (Some(block), _) => self.run(vec![Task::Rest(body.first_op(block), Exit::Return)]),
            (None, Some(op)) => self.single(op),
            (None, None) => {}
        }
        self.out
    }

    /// Emits one operation and the return of its result.
    fn single(&mut self, op: OpId) {
        let join = self.new_join();
        let slot = self.allocate();
        let exit = Exit::Join(Some(slot), join);
        let mut tasks = Vec::new();
        self.loc = self.compiler.body.loc(op);
        if self.control_flow(op, exit, join, &mut tasks) {
            self.run(tasks);
        } else {
            self.straight(op, Some(slot));
        }
        self.push(Instruction::Return { value: Operand::Last(slot) });
    }

    fn run(&mut self, mut tasks: Vec<Task>) {
        let body = self.compiler.body;
        while let Some(task) = tasks.pop() {
            match task {
                Task::Rest(None, _) => {
                    self.fail("expected a block that ends with `relay.yield`, found one without");
                }
                Task::Rest(Some(op), exit) => {
                    self.loc = body.loc(op);
                    self.operation(op, exit, &mut tasks);
                }
                Task::Region { op, index, from, exit } => {
                    self.region(op, index, from, exit, &mut tasks)
                }
                Task::Join { op, join } => self.finish(op, join),
            }
        }
    }

    fn operation(&mut self, op: OpId, exit: Exit, tasks: &mut Vec<Task>) {
        let body = self.compiler.body;
        let next = body.next_op(op);
        if body.op_name(op) == "relay.yield" {
            let mut values = self.operands(op, body.operands(op)).into_vec();
            match (values.pop(), exit) {
                (None, _) => self.fail("expected `relay.yield` with a value"),
                (Some(value), Exit::Return) => self.push(Instruction::Return { value }),
                (Some(value), Exit::Join(to, join)) => {
                    self.push(Instruction::Move { value, to });
                    self.joins[join].push(self.out.code.len());
                    self.push(Instruction::Jump { to: 0 });
                }
            }
            return;
        }
        if body.result_count(op) == 0 {
            let name = body.op_name(op);
            return self.fail(&format!("expected an operation with a value, found `{name}`"));
        }
        let result = body.result(op, 0);
        let tail = matches!(exit, Exit::Return)
            && next.is_some_and(|next| {
                body.op_name(next) == "relay.yield" && body.operands(next).any(|v| v == result)
            });
        match body.op_name(op).as_str() {
            "relay.if" | "relay.match" if tail => {
                self.control_flow(op, Exit::Return, usize::MAX, tasks);
            }
            "relay.if" | "relay.match" => {
                tasks.push(Task::Rest(next, exit));
                let join = self.new_join();
                // The slot is taken before the branches, so that none of them uses it otherwise.
                let to = (!body.is_unused(result)).then(|| self.allocate());
                self.control_flow(op, Exit::Join(to, join), join, tasks);
                if let Some(to) = to {
                    self.slot_of.insert(result, to);
                }
            }
            "relay.call" if tail => match self.call_site(op) {
                Some(call) => self.push(Instruction::TailCall { call }),
                None => self.malformed(op),
            },
            _ => {
                if self.compiler.constant(result).is_none() {
                    self.straight_with_target(op, result);
                }
                tasks.push(Task::Rest(next, exit));
            }
        }
    }

    /// Emits an operation without branches whose result lives in a slot of its own.
    fn straight_with_target(&mut self, op: OpId, result: ValueId) {
        let at = self.straight(op, None);
        // Only now, so that the result may take the slot of an operand that died here.
        if !self.compiler.body.is_unused(result) {
            let slot = self.allocate();
            self.slot_of.insert(result, slot);
            set_target(&mut self.out.code[at], Some(slot));
        }
    }

    /// Emits an operation without branches; the index of the instruction.
    fn straight(&mut self, op: OpId, to: Target) -> usize {
        let body = self.compiler.body;
        let name = body.op_name(op);
        let all = |emitter: &mut Self| emitter.operands(op, body.operands(op));
        let instruction = match name.as_str() {
            "relay.tuple" => Some(Instruction::Tuple { fields: all(self), to }),
            "relay.tuple_get" => body.view::<TupleGet>(op).and_then(|view| {
                let tuple = *all(self).first()?;
                Some(Instruction::TupleGet { tuple, index: view.index, to })
            }),
            "relay.construct" => body.view::<Construct>(op).map(|view| {
                let constructor = Symbol::new(&view.name);
                Instruction::Construct { constructor, fields: all(self), to }
            }),
            "relay.ref" => all(self).first().map(|&value| Instruction::RefCreate { value, to }),
            "relay.ref_read" => {
                all(self).first().map(|&reference| Instruction::RefRead { reference, to })
            }
            "relay.ref_write" => match *all(self) {
                [reference, value] => Some(Instruction::RefWrite { reference, value, to }),
                _ => None,
            },
            "relay.call" => self.call_site(op).map(|call| Instruction::Call { call, to }),
            "relay.fn" => self.compiler.function_of.get(&op).copied().map(|function| {
                let plan = &self.compiler.functions[function];
                let captured: Vec<ValueId> = plan.captured.iter().copied().collect();
                let captured = self.operands(op, captured.into_iter());
                Instruction::Closure { function, captured, to }
            }),
            "relay.constant" | "relay.global" | "relay.operator" | "relay.constructor" => {
                let result = body.result(op, 0);
                let constant = self.compiler.constant(result);
                constant.map(|c| Instruction::Move { value: Operand::Constant(c), to })
            }
            _ => {
                let (registry, result) = (self.compiler.registry, body.ty(body.result(op, 0)));
                let operation = Operation::new(registry, name, body.attrs(op), result);
                let operands = all(self);
                Some(Instruction::Evaluate { operation: Box::new(operation), operands, to })
            }
        };
        match instruction {
            Some(instruction) => self.push(instruction),
            None => self.malformed(op),
        }
        self.out.code.len() - 1
    }

    /// Emits the head of an `if` or `match` and leaves the rest to `tasks`; whether `op` is one.
    fn control_flow(&mut self, op: OpId, exit: Exit, join: usize, tasks: &mut Vec<Task>) -> bool {
        let body = self.compiler.body;
        let regions = body.regions(op).len();
        let is_if = body.op_name(op) == "relay.if";
        if !is_if && body.op_name(op) != "relay.match" {
            return false;
        }
        let operand = self.operands(op, body.operands(op)).first().copied();
        let from = self.out.code.len();
        let patterns = body.view::<Match>(op).map(|view| view.patterns);
        match (operand, patterns) {
            (Some(condition), _) if is_if && regions == 2 => {
                self.push(Instruction::Branch { condition, otherwise: 0 });
            }
            (Some(data), Some(patterns)) if patterns.len() == regions => {
                let clause = |pattern| Clause { pattern, slots: vec![], target: 0 };
                let clauses = patterns.into_iter().map(clause).collect();
                self.push(Instruction::Match { data, clauses });
            }
            _ => {
                self.malformed(op);
                return true;
            }
        }
        if let Exit::Join(..) = exit {
            tasks.push(Task::Join { op, join });
        }
        for index in (0..regions).rev() {
            tasks.push(Task::Region { op, index, from, exit });
        }
        true
    }

    fn region(&mut self, op: OpId, index: usize, from: usize, exit: Exit, tasks: &mut Vec<Task>) {
        let body = self.compiler.body;
        let block = body.region_block(op, index);
        let mut slots = Vec::new();
        for &arg in body.block_args(block) {
            slots.push((!body.is_unused(arg)).then(|| self.allocate()));
            if let Some(&Some(slot)) = slots.last() {
                self.slot_of.insert(arg, slot);
            }
        }
        let here = self.out.code.len();
        match &mut self.out.code[from] {
            Instruction::Branch { otherwise, .. } if index == 1 => *otherwise = here,
            Instruction::Match { clauses, .. } => {
                (clauses[index].slots, clauses[index].target) = (slots, here);
            }
            _ => {}
        }
        tasks.push(Task::Rest(body.first_op(block), exit));
    }

    fn finish(&mut self, op: OpId, join: usize) {
        let here = self.out.code.len();
        for jump in std::mem::take(&mut self.joins[join]) {
            if let Instruction::Jump { to } = &mut self.out.code[jump] {
                *to = here;
            }
        }
        let inside = self.compiler.inside.get(&op).into_iter().flatten().copied();
        let dead: Vec<ValueId> = inside.filter(|v| self.last_use(*v) == Some(op)).collect();
        let slots: Box<[u32]> = dead.iter().filter_map(|v| self.slot_of.remove(v)).collect();
        if !slots.is_empty() {
            self.free.extend_from_slice(&slots);
            self.push(Instruction::Release { slots });
        }
    }

    fn call_site(&mut self, op: OpId) -> Option<Box<CallSite>> {
        let body = self.compiler.body;
        let view = body.view::<Call>(op)?;
        let operands = self.operands(op, body.operands(op));
        let (&callee, args) = operands.split_first()?;
        let result = body.ty(body.result(op, 0));
        let attributes = view.attributes;
        Some(Box::new(CallSite { callee, args: args.into(), attributes, result }))
    }

    /// How `op` reads `values`. Slots that die here become free.
    fn operands(&mut self, op: OpId, values: impl Iterator<Item = ValueId>) -> Box<[Operand]> {
        let values: Vec<ValueId> = values.collect();
        let mut dead = Vec::new();
        let mut operands = Vec::with_capacity(values.len());
        // From the last operand, so that of two equal operands the later one is moved.
        for &value in values.iter().rev() {
            operands.push(match self.compiler.constant(value) {
                Some(constant) => Operand::Constant(constant),
                None => match self.slot_of.get(&value) {
                    Some(&slot) if !dead.contains(&slot) && self.dies_at(op, value) => {
                        dead.push(slot);
                        Operand::Last(slot)
                    }
                    Some(&slot) => Operand::Slot(slot),
                    None => {
                        self.fail("expected an operand that is computed before its use");
                        Operand::Constant(0)
                    }
                },
            });
        }
        for &value in &values {
            if self.slot_of.get(&value).is_some_and(|slot| dead.contains(slot)) {
                self.slot_of.remove(&value);
            }
        }
        self.free.extend(dead);
        operands.reverse();
        operands.into()
    }

    fn last_use(&self, value: ValueId) -> Option<OpId> {
        let captured = self.compiler.functions[self.function].last.get(&value);
        captured.copied().or(self.compiler.last[value.index()])
    }

    /// Whether nothing reads `value` after the operands of `op`.
    fn dies_at(&self, op: OpId, value: ValueId) -> bool {
        let inside = self.compiler.inside.get(&op).is_some_and(|values| values.contains(&value));
        self.last_use(value) == Some(op) && !inside
    }

    fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.out.slots += 1;
            self.out.slots as u32 - 1
        })
    }

    fn new_join(&mut self) -> usize {
        self.joins.push(Vec::new());
        self.joins.len() - 1
    }

    fn push(&mut self, instruction: Instruction) {
        self.out.code.push(instruction);
        self.out.locs.push(self.loc);
    }

    fn fail(&mut self, message: &str) {
        self.push(Instruction::Fail { message: message.to_string() });
    }

    fn malformed(&mut self, op: OpId) {
        let name = self.compiler.body.op_name(op);
        self.fail(&format!("the operands, attributes or regions of `{name}` are malformed"));
    }
}

fn set_target(instruction: &mut Instruction, target: Target) {
    match instruction {
        Instruction::Evaluate { to, .. }
        | Instruction::Tuple { to, .. }
        | Instruction::TupleGet { to, .. }
        | Instruction::Construct { to, .. }
        | Instruction::Closure { to, .. }
        | Instruction::Call { to, .. }
        | Instruction::RefCreate { to, .. }
        | Instruction::RefRead { to, .. }
        | Instruction::RefWrite { to, .. }
        | Instruction::Move { to, .. } => *to = target,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use ir_core::Type;

    use super::*;
    use crate::builder::Builder;
    use crate::language::Tuple;

    #[test]
    fn dead_values_are_freed_at_their_last_use() {
        // A chain of a hundred values; two are alive at a time, besides the argument.
        let (mut builder, params) = Builder::new(&[Type::unknown()]);
        let last = (0..100).fold(params[0], |value, _| {
            builder.add(&Tuple { fields: vec![value] }, Type::unknown())
        });
        builder.yields(last);
        let mut registry = Registry::new();
        crate::register(&mut registry);
        let unit = compile_body("main".into(), None, &builder.body, &registry);
        assert_eq!(unit.functions[0].slots, 1);
    }
}
