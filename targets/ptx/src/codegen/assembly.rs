//! Instructions as text, and the registers that they use.

use std::fmt::{self, Display, Write as _};

/// A kind of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Truth.
    Predicate,
    /// 16 bits: a `float16` or `bfloat16` on its way from or to memory.
    Half,
    /// 32 bits: integers of up to 32 bits, extended by their sign.
    Word,
    /// 64 bits.
    Long,
    /// A `float32`.
    Float,
    /// A `float64`.
    Double,
}

impl Class {
    const ALL: [Class; 6] =
        [Class::Predicate, Class::Half, Class::Word, Class::Long, Class::Float, Class::Double];

    /// Prefix of its registers, and the type they are declared with, which moves and selections of
    /// them have, too.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Class::Predicate => ("p", "pred"),
            Class::Half => ("h", "b16"),
            Class::Word => ("r", "b32"),
            Class::Long => ("rd", "b64"),
            Class::Float => ("f", "f32"),
            Class::Double => ("d", "f64"),
        }
    }

    /// The type of moves.
    pub(super) fn ty(self) -> &'static str {
        self.names().1
    }
}

/// What an instruction reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Operand {
    Register(Class, u32),
    Int(i64),
    Float(f32),
    Double(f64),
}

impl Operand {
    /// The class of a register.
    pub(super) fn class(self) -> Option<Class> {
        match self {
            Operand::Register(class, _) => Some(class),
            _ => None,
        }
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Register(class, number) => write!(f, "%{}{number}", class.names().0),
            Operand::Int(value) => write!(f, "{value}"),
            Operand::Float(value) => write!(f, "0f{:08X}", value.to_bits()),
            Operand::Double(value) => write!(f, "0d{:016X}", value.to_bits()),
        }
    }
}

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(u32);

impl Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

/// The instructions of one entry.
#[derive(Default)]
pub(super) struct Assembler {
    registers: [u32; 6],
    labels: u32,
    /// What runs first, and the rest.
    start: String,
    text: String,
    /// Whether instructions go to the start.
    starting: bool,
    /// Declarations of memory.
    pub(super) memory: String,
    /// Whether the digits of 2/π are read.
    pub(super) reads_two_over_pi: bool,
}

impl Assembler {
    /// A register that nothing was written to.
    pub(super) fn fresh(&mut self, class: Class) -> Operand {
        let number = &mut self.registers[class as usize];
        *number += 1;
        Operand::Register(class, *number)
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Writes `instruction`, without its semicolon.
    pub(super) fn line(&mut self, instruction: impl Display) {
        let text = if self.starting { &mut self.start } else { &mut self.text };
        writeln!(text, "    {instruction};").expect("text takes text");
    }

    /// What `write` writes runs before all else.
    pub(super) fn at_start<T>(&mut self, write: impl FnOnce(&mut Assembler) -> T) -> T {
        let outer = std::mem::replace(&mut self.starting, true);
        let result = write(self);
        self.starting = outer;
        result
    }

    /// Writes `name` into `to`.
    pub(super) fn write_to(&mut self, name: &str, to: Operand, operands: &[Operand]) {
        let list: Vec<String> = operands.iter().map(Operand::to_string).collect();
        self.line(format_args!("{name} {to}, {}", list.join(", ")));
    }

    /// The result of the instruction `name`.
    pub(super) fn op(&mut self, name: &str, class: Class, operands: &[Operand]) -> Operand {
        let to = self.fresh(class);
        self.write_to(name, to, operands);
        to
    }

    pub(super) fn copy(&mut self, to: Operand, from: Operand) {
        let ty = to.class().expect("what is written to is a register").ty();
        self.write_to(&format!("mov.{ty}"), to, &[from]);
    }

    /// `a` where `condition` holds, else `b`; both of `class`.
    pub(super) fn select(
        &mut self,
        class: Class,
        condition: Operand,
        a: Operand,
        b: Operand,
    ) -> Operand {
        if a == b {
            return a;
        }
        if class == Class::Predicate {
            let yes = self.op("and.pred", class, &[condition, a]);
            let no = self.op("not.pred", class, &[condition]);
            let no = self.op("and.pred", class, &[no, b]);
            return self.op("or.pred", class, &[yes, no]);
        }
        self.op(&format!("selp.{}", class.ty()), class, &[a, b, condition])
    }

    pub(super) fn place(&mut self, label: Label) {
        writeln!(self.text, "{label}:").expect("text takes text");
    }

    /// Goes to `label` where `condition` is `when`.
    pub(super) fn branch(&mut self, condition: Operand, when: bool, label: Label) {
        let not = if when { "" } else { "!" };
        self.line(format_args!("@{not}{condition} bra {label}"));
    }

    /// Declarations and instructions.
    pub(super) fn finish(self) -> String {
        let mut text = String::new();
        for class in Class::ALL {
            let (count, (prefix, ty)) = (self.registers[class as usize], class.names());
            if count > 0 {
                // Registers are numbered from 1.
                text += &format!("    .reg .{ty} %{prefix}<{}>;\n", count + 1);
            }
        }
        text + &self.memory + &self.start + &self.text + "    ret;\n"
    }
}
