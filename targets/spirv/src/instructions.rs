//! The instructions that shaders are made of: one table, from which both the text and the words of a
//! module are written.
//!
//! Numbers are those of the SPIR-V specification, version 1.3 (sections 3.3 to 3.37).

use std::fmt::{self, Write};

/// Declares an enumeration of named numbers.
macro_rules! enumeration {
    ($(#[doc = $doc:literal])* $name:ident { $($variant:ident = $number:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs, reason = "the names are those of the specification")]
        pub enum $name { $($variant = $number,)* }

        impl $name {
            /// Its name in text.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)* }
            }
        }

        impl From<$name> for Operand {
            fn from(value: $name) -> Operand {
                Operand::Named(value as u32, value.name())
            }
        }
    };
}

enumeration! {
    /// The instructions.
    Opcode {
        Name = 5,
        Extension = 10,
        ExtInstImport = 11,
        ExtInst = 12,
        MemoryModel = 14,
        EntryPoint = 15,
        ExecutionMode = 16,
        Capability = 17,
        TypeVoid = 19,
        TypeBool = 20,
        TypeInt = 21,
        TypeFloat = 22,
        TypeVector = 23,
        TypeArray = 28,
        TypeRuntimeArray = 29,
        TypeStruct = 30,
        TypePointer = 32,
        TypeFunction = 33,
        ConstantTrue = 41,
        ConstantFalse = 42,
        Constant = 43,
        Function = 54,
        FunctionEnd = 56,
        Variable = 59,
        Load = 61,
        Store = 62,
        AccessChain = 65,
        Decorate = 71,
        MemberDecorate = 72,
        CompositeExtract = 81,
        ConvertFToU = 109,
        ConvertFToS = 110,
        ConvertSToF = 111,
        ConvertUToF = 112,
        UConvert = 113,
        SConvert = 114,
        FConvert = 115,
        Bitcast = 124,
        SNegate = 126,
        FNegate = 127,
        IAdd = 128,
        FAdd = 129,
        ISub = 130,
        FSub = 131,
        IMul = 132,
        FMul = 133,
        UDiv = 134,
        SDiv = 135,
        FDiv = 136,
        UMod = 137,
        IsNan = 156,
        IsInf = 157,
        LogicalEqual = 164,
        LogicalNotEqual = 165,
        LogicalOr = 166,
        LogicalAnd = 167,
        LogicalNot = 168,
        Select = 169,
        IEqual = 170,
        INotEqual = 171,
        UGreaterThan = 172,
        SGreaterThan = 173,
        UGreaterThanEqual = 174,
        SGreaterThanEqual = 175,
        ULessThan = 176,
        SLessThan = 177,
        ULessThanEqual = 178,
        SLessThanEqual = 179,
        FOrdEqual = 180,
        FUnordNotEqual = 183,
        FOrdLessThan = 184,
        FOrdGreaterThan = 186,
        FOrdLessThanEqual = 188,
        FOrdGreaterThanEqual = 190,
        ShiftRightLogical = 194,
        ShiftRightArithmetic = 195,
        ShiftLeftLogical = 196,
        BitwiseOr = 197,
        BitwiseXor = 198,
        BitwiseAnd = 199,
        Not = 200,
        ControlBarrier = 224,
        AtomicIAdd = 234,
        AtomicSMin = 236,
        AtomicUMin = 237,
        AtomicSMax = 238,
        AtomicUMax = 239,
        Phi = 245,
        LoopMerge = 246,
        SelectionMerge = 247,
        Label = 248,
        Branch = 249,
        BranchConditional = 250,
        Return = 253,
    }
}

enumeration! {
    /// What a module asks of a device.
    Capability {
        Shader = 1,
        Float16 = 9,
        Float64 = 10,
        Int64 = 11,
        Int16 = 22,
        StorageBuffer16BitAccess = 4433,
        StorageBuffer8BitAccess = 4448,
    }
}

enumeration! {
    /// Where a variable lives.
    StorageClass {
        Input = 1,
        Workgroup = 4,
        Function = 7,
        StorageBuffer = 12,
    }
}

enumeration! {
    /// What is said of a type or variable.
    Decoration {
        Block = 2,
        ArrayStride = 6,
        BuiltIn = 11,
        NonWritable = 24,
        Binding = 33,
        DescriptorSet = 34,
        Offset = 35,
        NoContraction = 42,
    }
}

enumeration! {
    /// What the device tells a thread.
    BuiltIn {
        WorkgroupId = 26,
        LocalInvocationId = 27,
    }
}

enumeration! {
    /// Who runs an entry point.
    ExecutionModel {
        GLCompute = 5,
    }
}

enumeration! {
    /// How an entry point runs.
    ExecutionMode {
        LocalSize = 17,
    }
}

enumeration! {
    /// How addresses look.
    AddressingModel {
        Logical = 0,
    }
}

enumeration! {
    /// Which stores other threads see.
    MemoryModel {
        GLSL450 = 1,
    }
}

enumeration! {
    /// What a compiler should know of a function, loop or branch: nothing.
    Control {
        None = 0,
    }
}

enumeration! {
    /// The instructions of `GLSL.std.450`.
    Extended {
        RoundEven = 2,
        Trunc = 3,
        FAbs = 4,
        Floor = 8,
        Ceil = 9,
        Sin = 13,
        Cos = 14,
        Tan = 15,
        Asin = 16,
        Acos = 17,
        Atan = 18,
        Sqrt = 31,
    }
}

/// The result of an instruction, numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub u32);

/// An operand of an instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// The result of another one.
    Id(Id),
    /// A number.
    Number(u32),
    /// A constant of an integer type, in one or two words.
    Integer(u64, u32),
    /// The bits of a `float` of 32 bits.
    Float(u32),
    /// The bits of a `double`.
    Double(u64),
    /// A number with a name.
    Named(u32, &'static str),
    /// Text.
    Text(String),
}

impl From<Id> for Operand {
    fn from(id: Id) -> Operand {
        Operand::Id(id)
    }
}

impl From<u32> for Operand {
    fn from(number: u32) -> Operand {
        Operand::Number(number)
    }
}

impl Operand {
    fn words(&self, out: &mut Vec<u32>) {
        match self {
            Operand::Id(Id(word)) | Operand::Number(word) | Operand::Float(word) => out.push(*word),
            Operand::Named(word, _) => out.push(*word),
            Operand::Integer(value, 64) | Operand::Double(value) => {
                out.extend([*value as u32, (*value >> 32) as u32]);
            }
            Operand::Integer(value, _) => out.push(*value as u32),
            Operand::Text(text) => {
                // At least one zero byte ends it, and zeros fill the last word.
                let mut bytes = text.as_bytes().to_vec();
                bytes.resize((bytes.len() / 4 + 1) * 4, 0);
                out.extend(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)));
            }
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Id(Id(id)) => write!(f, "%{id}"),
            Operand::Number(number) => write!(f, "{number}"),
            Operand::Integer(value, _) => write!(f, "{value}"),
            Operand::Float(bits) => float(f, f64::from(f32::from_bits(*bits)), *bits, 8, 23),
            Operand::Double(bits) => float(f, f64::from_bits(*bits), *bits, 11, 52),
            Operand::Named(_, name) => f.write_str(name),
            Operand::Text(text) => {
                f.write_char('"')?;
                for c in text.chars() {
                    if matches!(c, '"' | '\\') {
                        f.write_char('\\')?;
                    }
                    f.write_char(c)?;
                }
                f.write_char('"')
            }
        }
    }
}

/// The number `value`, of so many bits of exponent and fraction, such that reading it gives `bits`.
fn float(
    f: &mut fmt::Formatter<'_>,
    value: f64,
    bits: impl Into<u64>,
    exponent: u32,
    fraction: u32,
) -> fmt::Result {
    let bits = bits.into();
    if value.is_finite() {
        return match fraction {
            23 => write!(f, "{:?}", value as f32),
            _ => write!(f, "{value:?}"),
        };
    }
    // An exponent beyond all numbers, as assemblers read it.
    let sign = if bits >> (exponent + fraction) == 1 { "-" } else { "" };
    let digits = fraction.div_ceil(4);
    let rest = (bits & ((1 << fraction) - 1)) << (digits * 4 - fraction);
    match rest {
        0 => write!(f, "{sign}0x1p+{}", 1u32 << (exponent - 1)),
        _ => write!(
            f,
            "{sign}0x1.{rest:0width$x}p+{}",
            1u32 << (exponent - 1),
            width = digits as usize
        ),
    }
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Which.
    pub opcode: Opcode,
    /// The type of its result.
    pub ty: Option<Id>,
    /// Its result.
    pub result: Option<Id>,
    /// Its operands, in the order of the specification.
    pub operands: Vec<Operand>,
}

impl Instruction {
    /// An instruction without a result.
    pub fn new<const N: usize>(opcode: Opcode, operands: [Operand; N]) -> Instruction {
        Instruction { opcode, ty: None, result: None, operands: operands.into() }
    }

    /// Its words.
    pub fn words(&self, out: &mut Vec<u32>) {
        let first = out.len();
        out.push(0);
        out.extend(self.ty.map(|id| id.0));
        out.extend(self.result.map(|id| id.0));
        self.operands.iter().for_each(|operand| operand.words(out));
        out[first] = (((out.len() - first) as u32) << 16) | self.opcode as u32;
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.result {
            Some(id) => write!(f, "{:>8} = ", format!("%{}", id.0))?,
            None => f.write_str("           ")?,
        }
        write!(f, "Op{}", self.opcode.name())?;
        if let Some(Id(ty)) = self.ty {
            write!(f, " %{ty}")?;
        }
        self.operands.iter().try_for_each(|operand| write!(f, " {operand}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_text_and_words() {
        let name = Instruction::new(Opcode::Name, [Id(3).into(), Operand::Text("a\"b".into())]);
        let mut words = Vec::new();
        name.words(&mut words);
        assert_eq!(words, [(3 << 16) | 5, 3, u32::from_le_bytes(*b"a\"b\0")]);
        assert_eq!(name.to_string().trim(), r#"OpName %3 "a\"b""#);
        let numbers = [f32::INFINITY, f32::NAN, -0.0, 1e-45, 0.1].map(f32::to_bits);
        let text = numbers.map(|bits| Operand::Float(bits).to_string());
        assert_eq!(text, ["0x1p+128", "0x1.800000p+128", "-0.0", "1e-45", "0.1"]);
        assert_eq!(Operand::Double(f64::NEG_INFINITY.to_bits()).to_string(), "-0x1p+1024");
    }
}
