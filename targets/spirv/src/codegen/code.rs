//! The instructions of a function while it is written.

use crate::instructions::{Control, Extended, Id, Instruction, Opcode, Operand, StorageClass};
use crate::module::Module;

/// What a number is in a register. Narrower numbers are kept in the types of 32 bits: integers as
/// what they are, and halves rounded after every operation. So they ask no arithmetic of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Register {
    /// A truth value.
    Bool,
    /// An integer of up to 32 bits, or an index that fits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A float of up to 32 bits.
    Float32,
    /// A float of 64 bits.
    Float64,
}

impl Register {
    /// Its width; 1 for truth values.
    pub(super) fn bits(self) -> u32 {
        match self {
            Register::Bool => 1,
            Register::Int32 | Register::Float32 => 32,
            Register::Int64 | Register::Float64 => 64,
        }
    }
}

/// A function of a module that is being written.
pub(super) struct Code<'m> {
    pub(super) module: &'m mut Module,
    /// Variables of the function, which stand first.
    variables: Vec<Instruction>,
    instructions: Vec<Instruction>,
    /// The block that is being written.
    pub(super) block: Id,
}

impl<'m> Code<'m> {
    /// A function of which nothing is written.
    pub(super) fn new(module: &'m mut Module) -> Code<'m> {
        let block = module.fresh();
        Code { module, variables: vec![], instructions: vec![], block }
    }

    /// Ends the function `function`, and gives it to the module.
    pub(super) fn finish(self, function: Id) {
        let Code { module, variables, instructions, .. } = self;
        let void = module.void();
        let ty = module.global(Opcode::TypeFunction, None, vec![void.into()]);
        let (block, rest) = instructions.split_first().expect("a function has a block");
        let start = Instruction {
            opcode: Opcode::Function,
            ty: Some(void),
            result: Some(function),
            operands: vec![Control::None.into(), ty.into()],
        };
        let all = [start, block.clone()].into_iter().chain(variables).chain(rest.iter().cloned());
        let end = [Opcode::Return, Opcode::FunctionEnd].map(|end| Instruction::new(end, []));
        module.function(all.chain(end).collect());
    }

    /// The type of numbers in `register`.
    pub(super) fn ty(&mut self, register: Register) -> Id {
        match register {
            Register::Bool => self.module.bool(),
            Register::Int32 | Register::Int64 => self.module.integer(register.bits()),
            Register::Float32 | Register::Float64 => self.module.float(register.bits()),
        }
    }

    /// Writes an instruction without a result.
    pub(super) fn statement<const N: usize>(&mut self, opcode: Opcode, operands: [Operand; N]) {
        self.instructions.push(Instruction::new(opcode, operands));
    }

    /// Writes an instruction with a result of type `ty`.
    pub(super) fn typed(&mut self, opcode: Opcode, ty: Id, operands: Vec<Operand>) -> Id {
        let result = self.module.fresh();
        self.instructions.push(Instruction {
            opcode,
            ty: Some(ty),
            result: Some(result),
            operands,
        });
        result
    }

    /// Writes an operation on values, whose result is in `register`.
    pub(super) fn op<const N: usize>(
        &mut self,
        opcode: Opcode,
        register: Register,
        operands: [Id; N],
    ) -> Id {
        let ty = self.ty(register);
        self.typed(opcode, ty, operands.map(Operand::Id).into())
    }

    /// Writes an operation of the extended set.
    pub(super) fn extended<const N: usize>(
        &mut self,
        operation: Extended,
        register: Register,
        operands: [Id; N],
    ) -> Id {
        let (set, ty) = (self.module.extended(), self.ty(register));
        let first = [Operand::Id(set), operation.into()];
        let operands = first.into_iter().chain(operands.map(Operand::Id)).collect();
        self.typed(Opcode::ExtInst, ty, operands)
    }

    /// The integer `value` in `register`.
    pub(super) fn int(&mut self, value: i64, register: Register) -> Id {
        self.module.constant(value as u64, register.bits())
    }

    /// The integer `value` of 32 bits.
    pub(super) fn word(&mut self, value: u32) -> Id {
        self.module.constant(value.into(), 32)
    }

    /// The float `value` in `register`.
    pub(super) fn real(&mut self, value: f64, register: Register) -> Id {
        match register {
            Register::Float64 => self.module.double_constant(value),
            _ => self.module.float_constant(value as f32),
        }
    }

    /// `a` where `condition` holds, else `b`.
    pub(super) fn select(&mut self, register: Register, condition: Id, a: Id, b: Id) -> Id {
        if a == b {
            return a;
        }
        self.op(Opcode::Select, register, [condition, a, b])
    }

    /// `a + b`, of integers; what adding 0 gives is not written.
    pub(super) fn add(&mut self, register: Register, a: Id, b: Id) -> Id {
        match (self.module.integer_of(a), self.module.integer_of(b)) {
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.op(Opcode::IAdd, register, [a, b]),
        }
    }

    /// `a · b`, of integers; what multiplying with 1 or 0 gives is not written.
    pub(super) fn multiply(&mut self, register: Register, a: Id, b: Id) -> Id {
        match (self.module.integer_of(a), self.module.integer_of(b)) {
            (Some(1), _) | (_, Some(0)) => b,
            (_, Some(1)) | (Some(0), _) => a,
            _ => self.op(Opcode::IMul, register, [a, b]),
        }
    }

    /// A variable of the function, of type `ty`.
    pub(super) fn variable(&mut self, ty: Id) -> Id {
        let ty = self.module.pointer(StorageClass::Function, ty);
        let result = self.module.fresh();
        self.variables.push(Instruction {
            opcode: Opcode::Variable,
            ty: Some(ty),
            result: Some(result),
            operands: vec![StorageClass::Function.into()],
        });
        result
    }

    /// Starts the block `label`.
    pub(super) fn begin(&mut self, label: Id) {
        let start = Instruction::new(Opcode::Label, []);
        self.instructions.push(Instruction { result: Some(label), ..start });
        self.block = label;
    }

    /// Ends a block with a jump to `label`.
    pub(super) fn jump(&mut self, label: Id) {
        self.statement(Opcode::Branch, [label.into()]);
    }

    /// Starts a branch that ends at the label that is given: runs what follows where `condition`
    /// holds, or else from `otherwise` on, where there is that.
    pub(super) fn branch(&mut self, condition: Id, otherwise: Option<Id>) -> Id {
        let (then, merge) = (self.module.fresh(), self.module.fresh());
        self.statement(Opcode::SelectionMerge, [merge.into(), Control::None.into()]);
        let otherwise = otherwise.unwrap_or(merge);
        let operands = [condition, then, otherwise].map(Operand::Id);
        self.statement(Opcode::BranchConditional, operands);
        self.begin(then);
        merge
    }

    /// Starts a loop over `extent` indices in `register`.
    pub(super) fn open_loop(&mut self, extent: i64, register: Register) -> OpenLoop {
        let [header, body, next, merge] = std::array::from_fn(|_| self.module.fresh());
        let (ty, zero, before) = (self.ty(register), self.int(0, register), self.block);
        let (index, following) = (self.module.fresh(), self.module.fresh());
        self.jump(header);
        self.begin(header);
        let ways = [zero, before, following, next].map(Operand::Id);
        self.instructions.push(Instruction {
            opcode: Opcode::Phi,
            ty: Some(ty),
            result: Some(index),
            operands: ways.into(),
        });
        let extent = self.int(extent, register);
        let condition = self.op(Opcode::SLessThan, Register::Bool, [index, extent]);
        let operands = [merge.into(), next.into(), Control::None.into()];
        self.statement(Opcode::LoopMerge, operands);
        let ways = [condition, body, merge].map(Operand::Id);
        self.statement(Opcode::BranchConditional, ways);
        self.begin(body);
        OpenLoop { header, next, merge, index, following, register }
    }

    /// Ends the loop.
    pub(super) fn close_loop(&mut self, open: &OpenLoop) {
        let &OpenLoop { header, next, merge, index, following, register } = open;
        self.jump(next);
        self.begin(next);
        let (ty, one) = (self.ty(register), self.int(1, register));
        self.instructions.push(Instruction {
            opcode: Opcode::IAdd,
            ty: Some(ty),
            result: Some(following),
            operands: vec![index.into(), one.into()],
        });
        self.jump(header);
        self.begin(merge);
    }
}

/// A loop that is being written.
pub(super) struct OpenLoop {
    header: Id,
    next: Id,
    merge: Id,
    /// The index.
    pub(super) index: Id,
    following: Id,
    register: Register,
}
