//! Functions as flat instructions over numbered slots.

use ir_core::{BlockId, Body, EntityId, Item, OpId, Span, Symbol, TensorData, Type, ValueId};

use super::{KIND, Stop};
use crate::{
    Bounded, Call, Cell, Constant, Construct, Drop, Dup, Expect, Extent, Fail, If, Indices, Kernel,
    Open as OpenTensor, Operate, Order, Read, Reshape, Rows, Sized, Switch, Tail, Write, Yield,
};

/// A place in the frame of a call. Values of blocks of which only one runs share slots.
pub(super) type Slot = u32;

/// Slots in order.
pub(super) type Slots = Box<[Slot]>;

/// A case of a switch.
pub(super) struct Case {
    pub(super) tag: i64,
    /// Where its fields go.
    pub(super) fields: Slots,
    pub(super) to: usize,
}

pub(super) enum Instruction {
    Constant {
        value: TensorData,
        to: Slot,
    },
    Call {
        function: Symbol,
        arguments: Slots,
        to: Slots,
    },
    Tail {
        function: Symbol,
        arguments: Slots,
    },
    Branch {
        condition: Slot,
        otherwise: usize,
    },
    Switch {
        data: Slot,
        cases: Vec<Case>,
        rest: Option<usize>,
    },
    Jump {
        to: usize,
    },
    /// The end of a block whose values are those of the operation around.
    Give {
        from: Slots,
        to: Slots,
    },
    Construct {
        tag: i64,
        fields: Slots,
        to: Slot,
    },
    Kernel {
        function: Symbol,
        inputs: Slots,
        to: Slots,
    },
    Rows {
        kernels: Vec<Symbol>,
        inputs: Slots,
        to: Slots,
    },
    Bounded {
        bounded: Bounded<()>,
        inputs: Slots,
        to: Slots,
    },
    Extent {
        tensor: Slot,
        axis: usize,
        to: Slot,
    },
    Reshape {
        tensor: Slot,
        extents: Slots,
        to: Slot,
    },
    Indices {
        tensor: Slot,
        to: Slot,
    },
    Order {
        tensor: Slot,
        wanted: Slot,
        to: Slot,
    },
    Expect {
        tensor: Slot,
        expected: Type,
        to: Slot,
    },
    Sized {
        sized: Sized<()>,
        inputs: Slots,
        to: Slots,
    },
    Operate {
        inputs: Slots,
        to: Slots,
    },
    /// The same tensor: here all of them have their extents.
    Open {
        tensor: Slot,
        to: Slot,
    },
    Cell {
        values: Slots,
        to: Slot,
    },
    Read {
        cell: Slot,
        to: Slots,
    },
    Write {
        cell: Slot,
        values: Slots,
    },
    Dup {
        value: Slot,
    },
    Drop {
        value: Slot,
    },
    Fail {
        message: String,
    },
    Return {
        values: Slots,
    },
}

/// A function.
pub(super) struct Code {
    pub(super) name: Symbol,
    pub(super) params: Vec<Type>,
    /// How many slots a frame has; parameters have the first.
    pub(super) slots: usize,
    pub(super) instructions: Vec<Instruction>,
    /// The operation that each came from.
    pub(super) ops: Vec<OpId>,
    /// Where the function starts in its source.
    pub(super) span: Option<Span>,
    /// Where its operations come from.
    pub(super) body: std::sync::Arc<Body>,
}

/// A block that is being written.
struct Open {
    next: Option<OpId>,
    /// What it belongs to; `None` of the body's block.
    around: Option<Around>,
}

struct Around {
    op: OpId,
    /// Which of its regions this is.
    region: usize,
    /// The first slot of the block.
    first: Slot,
    /// The instruction that chooses a region.
    choice: usize,
    /// Jumps behind the operation.
    jumps: Vec<usize>,
}

struct Writer<'b> {
    body: &'b Body,
    code: Code,
    /// The slot of each value.
    slots: Vec<Slot>,
    /// The first free one.
    free: Slot,
}

/// The instructions of function `name`.
pub(super) fn compile(name: Symbol, item: &Item) -> Result<Code, Stop> {
    let Some(body) = item.body.clone() else {
        return Err(Stop::new(KIND, format!("function `@{name}` has no body")));
    };
    let args = body.block_args(body.entry());
    let code = Code {
        name,
        params: args.iter().map(|arg| body.ty(*arg)).collect(),
        slots: 0,
        instructions: Vec::new(),
        ops: Vec::new(),
        span: item.signature.span,
        body: body.clone(),
    };
    let slots = vec![0; body.value_capacity()];
    let mut writer = Writer { body: &body, code, slots, free: 0 };
    writer.define(args.iter().copied());
    writer.blocks()?;
    Ok(writer.code)
}

impl Writer<'_> {
    /// Gives values slots.
    fn define(&mut self, values: impl IntoIterator<Item = ValueId>) -> Slots {
        let mut slots = Vec::new();
        for value in values {
            self.slots[value.index()] = self.free;
            slots.push(self.free);
            self.free += 1;
        }
        self.code.slots = self.code.slots.max(self.free as usize);
        slots.into()
    }

    fn slot(&self, value: ValueId) -> Slot {
        self.slots[value.index()]
    }

    fn all(&self, values: &[ValueId]) -> Slots {
        values.iter().map(|value| self.slot(*value)).collect()
    }

    /// The slot of the only result of `op`.
    fn result(&mut self, op: OpId) -> Result<Slot, Stop> {
        match self.define(self.body.results(op))[..] {
            [one] => Ok(one),
            _ => Err(malformed(self.body, op)),
        }
    }

    fn emit(&mut self, op: OpId, instruction: Instruction) {
        self.code.instructions.push(instruction);
        self.code.ops.push(op);
    }

    fn blocks(&mut self) -> Result<(), Stop> {
        let body = self.body;
        let mut open = vec![Open { next: body.first_op(body.entry()), around: None }];
        while let Some(block) = open.last_mut() {
            let Some(op) = block.next else {
                if let Some(Open { around: Some(around), .. }) = open.pop() {
                    open.extend(self.leave(around));
                }
                continue;
            };
            block.next = body.next_op(op);
            if let Some(Yield { values }) = body.view(op) {
                let values = self.all(&values);
                match &mut block.around {
                    None => self.emit(op, Instruction::Return { values }),
                    Some(around) => {
                        let to: Vec<ValueId> = body.results(around.op).collect();
                        let to = self.all(&to);
                        if to.len() != values.len() {
                            return Err(malformed(body, op));
                        }
                        self.emit(op, Instruction::Give { from: values, to });
                        around.jumps.push(self.code.instructions.len());
                        self.emit(op, Instruction::Jump { to: 0 });
                    }
                }
            } else if let Some(instruction) = self.simple(op)? {
                self.emit(op, instruction);
            } else {
                open.push(self.choice(op)?);
            }
        }
        Ok(())
    }

    /// The instruction of an operation without regions; `None` of one that has some.
    fn simple(&mut self, op: OpId) -> Result<Option<Instruction>, Stop> {
        let body = self.body;
        Ok(Some(if let Some(Constant { value }) = body.view(op) {
            Instruction::Constant { value, to: self.result(op)? }
        } else if let Some(Call { function, arguments }) = body.view(op) {
            let arguments = self.all(&arguments);
            Instruction::Call { function, arguments, to: self.define(body.results(op)) }
        } else if let Some(Tail { function, arguments }) = body.view(op) {
            Instruction::Tail { function, arguments: self.all(&arguments) }
        } else if let Some(Kernel { function, inputs }) = body.view(op) {
            let inputs = self.all(&inputs);
            Instruction::Kernel { function, inputs, to: self.define(body.results(op)) }
        } else if let Some(Rows { kernels, inputs }) = body.view(op) {
            let inputs = self.all(&inputs);
            Instruction::Rows { kernels, inputs, to: self.define(body.results(op)) }
        } else if let Some(Bounded { kernel, names, least, axes, inputs }) = body.view(op) {
            let inputs = self.all(&inputs);
            let bounded = Bounded { kernel, names, least, axes, inputs: vec![] };
            Instruction::Bounded { bounded, inputs, to: self.define(body.results(op)) }
        } else if let Some(Extent { tensor, axis }) = body.view(op) {
            let axis = usize::try_from(axis).map_err(|_| malformed(body, op))?;
            Instruction::Extent { tensor: self.slot(tensor), axis, to: self.result(op)? }
        } else if let Some(Expect { tensor, expected }) = body.view(op) {
            Instruction::Expect { tensor: self.slot(tensor), expected, to: self.result(op)? }
        } else if let Some(Reshape { tensor, extents }) = body.view(op) {
            let extents = self.all(&extents);
            Instruction::Reshape { tensor: self.slot(tensor), extents, to: self.result(op)? }
        } else if let Some(Indices { tensor }) = body.view(op) {
            Instruction::Indices { tensor: self.slot(tensor), to: self.result(op)? }
        } else if let Some(Order { tensor, wanted }) = body.view(op) {
            let (tensor, wanted) = (self.slot(tensor), self.slot(wanted));
            Instruction::Order { tensor, wanted, to: self.result(op)? }
        } else if let Some(Sized { function, tensors, inputs }) = body.view(op) {
            let inputs = self.all(&inputs);
            let sized = Sized { function, tensors, inputs: vec![] };
            Instruction::Sized { sized, inputs, to: self.define(body.results(op)) }
        } else if let Some(Operate { inputs, .. }) = body.view(op) {
            let inputs = self.all(&inputs);
            Instruction::Operate { inputs, to: self.define(body.results(op)) }
        } else if let Some(OpenTensor { tensor }) = body.view(op) {
            Instruction::Open { tensor: self.slot(tensor), to: self.result(op)? }
        } else if let Some(Construct { tag, fields }) = body.view(op) {
            let fields = self.all(&fields);
            Instruction::Construct { tag, fields, to: self.result(op)? }
        } else if let Some(Cell { values }) = body.view(op) {
            let values = self.all(&values);
            Instruction::Cell { values, to: self.result(op)? }
        } else if let Some(Read { cell }) = body.view(op) {
            Instruction::Read { cell: self.slot(cell), to: self.define(body.results(op)) }
        } else if let Some(Write { cell, values }) = body.view(op) {
            Instruction::Write { cell: self.slot(cell), values: self.all(&values) }
        } else if let Some(Dup { value }) = body.view(op) {
            Instruction::Dup { value: self.slot(value) }
        } else if let Some(Drop { value }) = body.view(op) {
            Instruction::Drop { value: self.slot(value) }
        } else if let Some(Fail { message }) = body.view(op) {
            Instruction::Fail { message }
        } else if body.has_regions(op) {
            return Ok(None);
        } else {
            return Err(malformed(body, op));
        }))
    }

    /// Begins an operation with regions, and its first one.
    fn choice(&mut self, op: OpId) -> Result<Open, Stop> {
        let body = self.body;
        self.define(body.results(op));
        let regions = body.regions(op).len();
        let instruction = if let Some(If { condition }) = body.view(op)
            && regions == 2
        {
            Instruction::Branch { condition: self.slot(condition), otherwise: 0 }
        } else if let Some(Switch { data, tags }) = body.view(op)
            && (regions == tags.len() || regions == tags.len() + 1)
        {
            let case = |tag| Case { tag, fields: [].into(), to: 0 };
            let rest = (regions > tags.len()).then_some(0);
            let cases = tags.into_iter().map(case).collect();
            Instruction::Switch { data: self.slot(data), cases, rest }
        } else {
            return Err(malformed(body, op));
        };
        let choice = self.code.instructions.len();
        self.emit(op, instruction);
        let (first, jumps) = (self.free, Vec::new());
        Ok(self.enter(Around { op, region: 0, first, choice, jumps }))
    }

    /// Begins region `around.region`.
    fn enter(&mut self, around: Around) -> Open {
        self.free = around.first;
        let block: BlockId = self.body.region_block(around.op, around.region);
        let args = self.define(self.body.block_args(block).iter().copied());
        let here = self.code.instructions.len();
        match &mut self.code.instructions[around.choice] {
            Instruction::Branch { otherwise, .. } if around.region == 1 => *otherwise = here,
            Instruction::Switch { cases, rest, .. } => match cases.get_mut(around.region) {
                Some(case) => (case.fields, case.to) = (args, here),
                None => *rest = Some(here),
            },
            _ => {}
        }
        Open { next: self.body.first_op(block), around: Some(around) }
    }

    /// Goes on behind a region: with the next one, or behind the operation.
    fn leave(&mut self, around: Around) -> Option<Open> {
        if around.region + 1 < self.body.regions(around.op).len() {
            return Some(self.enter(Around { region: around.region + 1, ..around }));
        }
        self.free = around.first;
        let here = self.code.instructions.len();
        for jump in around.jumps {
            self.code.instructions[jump] = Instruction::Jump { to: here };
        }
        None
    }
}

fn malformed(body: &Body, op: OpId) -> Stop {
    Stop::new(KIND, format!("`{}` is none of what a whole program does", body.op_name(op)))
}
