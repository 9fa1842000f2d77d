//! A module of shaders: its sections, and types and constants that are each written once.

use std::collections::BTreeSet;
use std::fmt::Write;

use rustc_hash::FxHashMap;

use crate::instructions::{
    AddressingModel, BuiltIn, Capability, Decoration, Id, Instruction, MemoryModel, Opcode,
    Operand, StorageClass,
};

/// The version of SPIR-V of all modules: that of Vulkan 1.1.
const VERSION: u32 = 0x0001_0300;

/// What begins a module.
const MAGIC: u32 = 0x0723_0203;

/// The set of instructions besides those of the core.
const EXTENDED: &str = "GLSL.std.450";

/// A module that is being written.
#[derive(Default)]
pub struct Module {
    capabilities: BTreeSet<Capability>,
    extensions: BTreeSet<&'static str>,
    extended: Option<Id>,
    entry_points: Vec<Instruction>,
    modes: Vec<Instruction>,
    names: Vec<Instruction>,
    decorations: Vec<Instruction>,
    globals: Vec<Instruction>,
    functions: Vec<Instruction>,
    known: FxHashMap<(Opcode, Option<Id>, Vec<Operand>), Id>,
    /// What each constant integer is.
    integers: FxHashMap<Id, u64>,
    inputs: FxHashMap<BuiltIn, Id>,
    last: u32,
}

impl Module {
    /// A module that asks for shaders alone.
    pub fn new() -> Module {
        Module { capabilities: BTreeSet::from([Capability::Shader]), ..Module::default() }
    }

    /// A number for a new result.
    pub fn fresh(&mut self) -> Id {
        self.last += 1;
        Id(self.last)
    }

    /// Asks for `capability`.
    pub fn require(&mut self, capability: Capability) {
        self.capabilities.insert(capability);
        if capability == Capability::StorageBuffer8BitAccess {
            self.extensions.insert("SPV_KHR_8bit_storage");
        }
    }

    /// What it asks of a device.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> + '_ {
        self.capabilities.iter().copied()
    }

    /// The set of instructions besides those of the core.
    pub fn extended(&mut self) -> Id {
        match self.extended {
            Some(id) => id,
            None => {
                let id = self.fresh();
                *self.extended.insert(id)
            }
        }
    }

    /// The type or constant `opcode` with these operands, which is written once.
    pub fn global(&mut self, opcode: Opcode, ty: Option<Id>, operands: Vec<Operand>) -> Id {
        let key = (opcode, ty, operands);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let id = self.fresh();
        let (_, _, operands) = key.clone();
        self.globals.push(Instruction { opcode, ty, result: Some(id), operands });
        self.known.insert(key, id);
        id
    }

    /// The type without values.
    pub fn void(&mut self) -> Id {
        self.global(Opcode::TypeVoid, None, vec![])
    }

    /// The type of truth values.
    pub fn bool(&mut self) -> Id {
        self.global(Opcode::TypeBool, None, vec![])
    }

    /// The type of integers of `bits` bits. Whether they are signed, operations say.
    pub fn integer(&mut self, bits: u32) -> Id {
        if bits == 64 {
            self.require(Capability::Int64);
        }
        self.global(Opcode::TypeInt, None, vec![bits.into(), 0.into()])
    }

    /// The type of floats of `bits` bits.
    pub fn float(&mut self, bits: u32) -> Id {
        if bits == 64 {
            self.require(Capability::Float64);
        }
        self.global(Opcode::TypeFloat, None, vec![bits.into()])
    }

    /// The type of addresses of `ty` in `class`.
    pub fn pointer(&mut self, class: StorageClass, ty: Id) -> Id {
        self.global(Opcode::TypePointer, None, vec![class.into(), ty.into()])
    }

    /// The integer `value` of `bits` bits.
    pub fn constant(&mut self, value: u64, bits: u32) -> Id {
        let ty = self.integer(bits);
        let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
        let id = self.global(Opcode::Constant, Some(ty), vec![Operand::Integer(value, bits)]);
        self.integers.insert(id, value);
        id
    }

    /// The integer that `id` is, where it is a constant.
    pub fn integer_of(&self, id: Id) -> Option<u64> {
        self.integers.get(&id).copied()
    }

    /// The float `value`.
    pub fn float_constant(&mut self, value: f32) -> Id {
        let ty = self.float(32);
        self.global(Opcode::Constant, Some(ty), vec![Operand::Float(value.to_bits())])
    }

    /// The float `value` of 64 bits.
    pub fn double_constant(&mut self, value: f64) -> Id {
        let ty = self.float(64);
        self.global(Opcode::Constant, Some(ty), vec![Operand::Double(value.to_bits())])
    }

    /// The truth value `value`.
    pub fn truth(&mut self, value: bool) -> Id {
        let ty = self.bool();
        let opcode = if value { Opcode::ConstantTrue } else { Opcode::ConstantFalse };
        self.global(opcode, Some(ty), vec![])
    }

    /// A variable outside of functions.
    pub fn variable(&mut self, class: StorageClass, ty: Id) -> Id {
        let ty = self.pointer(class, ty);
        let id = self.fresh();
        let operands = vec![class.into()];
        let (opcode, ty, result) = (Opcode::Variable, Some(ty), Some(id));
        self.globals.push(Instruction { opcode, ty, result, operands });
        id
    }

    /// The variable of what the device tells each thread: three numbers of 32 bits.
    pub fn input(&mut self, what: BuiltIn) -> Id {
        if let Some(&known) = self.inputs.get(&what) {
            return known;
        }
        let ty = self.three_integers();
        let id = self.variable(StorageClass::Input, ty);
        self.decorate(id, vec![Decoration::BuiltIn.into(), what.into()]);
        self.inputs.insert(what, id);
        id
    }

    /// The type of three integers of 32 bits.
    pub fn three_integers(&mut self) -> Id {
        let ty = self.integer(32);
        self.global(Opcode::TypeVector, None, vec![ty.into(), 3.into()])
    }

    /// The type of a buffer in memory whose elements have type `ty` and take `bytes` bytes.
    pub fn buffer_type(&mut self, ty: Id, bytes: u32) -> Id {
        let declared = self.globals.len();
        let array = self.global(Opcode::TypeRuntimeArray, None, vec![ty.into()]);
        let buffer = self.global(Opcode::TypeStruct, None, vec![array.into()]);
        if self.globals.len() > declared {
            self.decorate(array, vec![Decoration::ArrayStride.into(), bytes.into()]);
            self.decorate(buffer, vec![Decoration::Block.into()]);
            let operands = [buffer.into(), 0.into(), Decoration::Offset.into(), 0.into()];
            self.decorations.push(Instruction::new(Opcode::MemberDecorate, operands));
        }
        buffer
    }

    /// Says something of `id`.
    pub fn decorate(&mut self, id: Id, what: Vec<Operand>) {
        let operands = std::iter::once(id.into()).chain(what).collect();
        self.decorations.push(Instruction {
            opcode: Opcode::Decorate,
            ty: None,
            result: None,
            operands,
        });
    }

    /// Calls `id` so, for readers.
    pub fn name(&mut self, id: Id, name: &str) {
        let operands = [id.into(), Operand::Text(name.to_string())];
        self.names.push(Instruction::new(Opcode::Name, operands));
    }

    /// Adds an entry point, and how it runs.
    pub fn entry_point(&mut self, entry_point: Instruction, mode: Instruction) {
        self.entry_points.push(entry_point);
        self.modes.push(mode);
    }

    /// Adds the instructions of a function.
    pub fn function(&mut self, instructions: Vec<Instruction>) {
        self.functions.extend(instructions);
    }

    /// Its instructions, in the order that the specification wants.
    fn instructions(&self) -> impl Iterator<Item = Instruction> + '_ {
        let capabilities = self.capabilities.iter();
        let capabilities =
            capabilities.map(|one| Instruction::new(Opcode::Capability, [(*one).into()]));
        let extensions = self
            .extensions
            .iter()
            .map(|name| Instruction::new(Opcode::Extension, [Operand::Text((*name).to_string())]));
        let extended = self.extended.map(|id| {
            let import =
                Instruction::new(Opcode::ExtInstImport, [Operand::Text(EXTENDED.to_string())]);
            Instruction { result: Some(id), ..import }
        });
        let model = [AddressingModel::Logical.into(), MemoryModel::GLSL450.into()];
        let model = Instruction::new(Opcode::MemoryModel, model);
        let sections = [
            &self.entry_points,
            &self.modes,
            &self.names,
            &self.decorations,
            &self.globals,
            &self.functions,
        ];
        let rest = sections.into_iter().flatten().cloned();
        capabilities.chain(extensions).chain(extended).chain([model]).chain(rest)
    }

    /// The module as text for an assembler that keeps numbers.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for instruction in self.instructions() {
            writeln!(text, "{instruction}").expect("a string takes all text");
        }
        text
    }

    /// The module as words. The second says the version, and the third, which tool wrote it, that it
    /// is none of the known ones.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![MAGIC, VERSION, 0, self.last + 1, 0];
        self.instructions().for_each(|instruction| instruction.words(&mut words));
        words
    }
}
