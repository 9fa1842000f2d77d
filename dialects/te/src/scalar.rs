//! Arithmetic on scalars and short vectors: the expressions inside computes and loops.
//!
//! A value of type `float32` is a scalar, one of type `float32x16` a vector of 16 lanes; every
//! operation here works lane by lane. Indices are `int64`.

use std::sync::LazyLock;

use ir_core::reduce::MakeZero;
use ir_core::registry::{Field, VerifyCx};
use ir_core::{
    Body, DType, DTypeKind, InferCx, InsertPoint, Op, OpDef, OpFields, OpInfo, OpParts, Registry,
    Scalar, Stop, Symbol, TensorData, Type, ValueId, registry,
};
use rustc_hash::FxHashMap;

/// Which operand types an operation takes, and what it gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Typing {
    /// Operands of one type; the result has it too.
    Arithmetic,
    /// Operands of one float type; the result has it too.
    Float,
    /// Operands of one integer type or `bool`; the result has it too.
    Bits,
    /// Operands of `int32`, whose bytes are numbers of their own; the result has it too.
    Words,
    /// Operands of one type; the result is `bool`.
    Comparison,
    /// One float; the result is `bool`.
    Test,
}

macro_rules! scalar_ops {
    ($($(#[doc = $doc:literal])* $variant:ident $name:literal $arity:literal $typing:ident)*) => {
        /// An elementwise operation on scalars, attached to its operation as a hook.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ScalarOp {
            $($(#[doc = $doc])* $variant,)*
        }

        impl ScalarOp {
            /// All of them.
            pub const ALL: &[ScalarOp] = &[$(ScalarOp::$variant),*];

            /// Full name, such as `te.add`.
            pub const fn name(self) -> &'static str {
                match self { $(ScalarOp::$variant => concat!("te.", $name),)* }
            }

            /// Number of operands.
            pub const fn arity(self) -> usize {
                match self { $(ScalarOp::$variant => $arity,)* }
            }

            /// Which operands it takes.
            pub const fn typing(self) -> Typing {
                match self { $(ScalarOp::$variant => Typing::$typing,)* }
            }

            const fn doc(self) -> &'static str {
                match self { $(ScalarOp::$variant => concat!($($doc),*),)* }
            }

            const fn infer(self) -> ir_core::infer::InferFn {
                match self { $(ScalarOp::$variant => |cx| ScalarOp::$variant.result(cx),)* }
            }
        }
    };
}

scalar_ops! {
    /// `a + b`; integers wrap.
    Add "add" 2 Arithmetic
    /// `a - b`; integers wrap.
    Sub "sub" 2 Arithmetic
    /// `a · b`; integers wrap.
    Mul "mul" 2 Arithmetic
    /// `a / b`; integers truncate toward zero. Division by integer 0 is an error.
    Div "div" 2 Arithmetic
    /// The remainder of truncating division, with the sign of `a`; by integer 0 it is an error.
    Mod "mod" 2 Arithmetic
    /// `⌊a / b⌋`. Division by integer 0 is an error.
    FloorDiv "floordiv" 2 Arithmetic
    /// `a - ⌊a / b⌋ · b`, with the sign of `b`; by integer 0 it is an error.
    FloorMod "floormod" 2 Arithmetic
    /// The lesser; NaN where either is.
    Min "min" 2 Arithmetic
    /// The greater; NaN where either is.
    Max "max" 2 Arithmetic
    /// `a` to the power of `b`; integers wrap, and a negative integer exponent is an error.
    Pow "pow" 2 Arithmetic
    /// `-a`; integers wrap.
    Neg "neg" 1 Arithmetic
    /// `|a|`; the least integer stays.
    Abs "abs" 1 Arithmetic
    /// Bitwise and; of `bool`, logical and. Both operands are evaluated.
    And "and" 2 Bits
    /// Bitwise or; of `bool`, logical or.
    Or "or" 2 Bits
    /// Bitwise exclusive or.
    Xor "xor" 2 Bits
    /// Bitwise complement; of `bool`, negation.
    Not "not" 1 Bits
    /// `a · 2^b`, wrapped; 0 where `b` is at least the width. A negative `b` is an error.
    ShiftLeft "shl" 2 Bits
    /// `⌊a / 2^b⌋`. A negative `b` is an error.
    ShiftRight "shr" 2 Bits
    /// The sum of the products of the lower and of the upper 16 bits of `a` and `b`, as signed integers; it
    /// wraps.
    PairDot "pairdot" 2 Words
    /// The sum of the products of the four bytes of `a`, as unsigned integers, and those of `b`, as signed ones;
    /// it wraps.
    QuadDot "quaddot" 2 Words
    /// `a = b`.
    Eq "eq" 2 Comparison
    /// `a ≠ b`.
    Ne "ne" 2 Comparison
    /// `a < b`.
    Lt "lt" 2 Comparison
    /// `a ≤ b`.
    Le "le" 2 Comparison
    /// `a > b`.
    Gt "gt" 2 Comparison
    /// `a ≥ b`.
    Ge "ge" 2 Comparison
    /// Whether `a` is NaN.
    IsNan "isnan" 1 Test
    /// Whether `a` is neither infinite nor NaN.
    IsFinite "isfinite" 1 Test
    /// Whether `a` is infinite.
    IsInf "isinf" 1 Test
    /// `e^a`.
    Exp "exp" 1 Float
    /// Natural logarithm.
    Log "log" 1 Float
    /// Logarithm to base 2.
    Log2 "log2" 1 Float
    /// Logarithm to base 10.
    Log10 "log10" 1 Float
    /// Square root.
    Sqrt "sqrt" 1 Float
    /// Sine.
    Sin "sin" 1 Float
    /// Cosine.
    Cos "cos" 1 Float
    /// Tangent.
    Tan "tan" 1 Float
    /// Inverse sine.
    Asin "asin" 1 Float
    /// Inverse cosine.
    Acos "acos" 1 Float
    /// Inverse tangent.
    Atan "atan" 1 Float
    /// Hyperbolic sine.
    Sinh "sinh" 1 Float
    /// Hyperbolic cosine.
    Cosh "cosh" 1 Float
    /// Hyperbolic tangent.
    Tanh "tanh" 1 Float
    /// Inverse hyperbolic sine.
    Asinh "asinh" 1 Float
    /// Inverse hyperbolic cosine.
    Acosh "acosh" 1 Float
    /// Inverse hyperbolic tangent.
    Atanh "atanh" 1 Float
    /// The error function.
    Erf "erf" 1 Float
    /// The logistic function, `1 / (1 + e^-a)`.
    Sigmoid "sigmoid" 1 Float
    /// The greatest whole number not above `a`.
    Floor "floor" 1 Float
    /// The least whole number not below `a`.
    Ceil "ceil" 1 Float
    /// The nearest whole number, halves away from zero.
    Round "round" 1 Float
    /// The nearest whole number, halves to even.
    RoundEven "roundeven" 1 Float
    /// `a` without its fraction.
    Trunc "trunc" 1 Float
}

static BY_NAME: LazyLock<FxHashMap<Symbol, ScalarOp>> =
    LazyLock::new(|| ScalarOp::ALL.iter().map(|op| (Symbol::new(op.name()), *op)).collect());

const UNARY: &[Field] = &[Field { name: "a", arity: registry::Arity::One, doc: "" }];
const BINARY: &[Field] = &[
    Field { name: "a", arity: registry::Arity::One, doc: "" },
    Field { name: "b", arity: registry::Arity::One, doc: "" },
];

impl ScalarOp {
    /// The operation `name`; `None` for one that is none of these.
    pub fn of(name: Symbol) -> Option<ScalarOp> {
        BY_NAME.get(&name).copied()
    }

    /// The result type for operands of element type `dtype`; `None` where it takes none such.
    pub fn result_dtype(self, dtype: DType) -> Option<DType> {
        let allowed = match self.typing() {
            _ if dtype.as_small_float().is_some() => false,
            Typing::Arithmetic | Typing::Comparison => true,
            Typing::Float | Typing::Test => dtype.is_float(),
            Typing::Bits => dtype.is_integer(),
            Typing::Words => dtype.is_integer() && dtype.is_signed() && dtype.bits() == 32,
        };
        let result = match self.typing() {
            Typing::Comparison | Typing::Test => bool_like(dtype),
            _ => dtype,
        };
        allowed.then_some(result)
    }

    fn result(self, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
        let first = scalar_type(cx, 0)?;
        for index in 1..self.arity() {
            same("operand", first, scalar_type(cx, index)?)?;
        }
        let result = self.result_dtype(first).ok_or_else(|| {
            if let Err(message) = computable(first) {
                return Stop::Error(message);
            }
            let expected = match self.typing() {
                Typing::Bits => "an integer type",
                Typing::Words => "`int32`",
                _ => "floats",
            };
            Stop::error(format!("expected {expected}, found {first}"))
        })?;
        Ok(Type::scalar(result))
    }

    /// What it computes, on operands of element type `dtype` (lanes are ignored). The result is
    /// rounded or wrapped to the result type. The error is a message that starts in lower case.
    pub fn evaluate(self, dtype: DType, operands: &[Scalar]) -> Result<Scalar, String> {
        let a = operands[0];
        let b = operands.get(1).copied().unwrap_or(a); // What takes one operand looks at one.
        let value = if dtype.is_float() {
            self.on_floats(a.as_f64(), b.as_f64(), dtype)
        } else {
            self.on_integers(integer(a, dtype), integer(b, dtype), dtype)?
        };
        let result = self.result_dtype(dtype);
        Ok(value.cast(result.unwrap_or_else(|| panic!("`{}` takes no {dtype}", self.name()))))
    }

    fn on_floats(self, a: f64, b: f64, dtype: DType) -> Scalar {
        use ScalarOp::*;
        let truth = |value: bool| Scalar::Int(value.into());
        Scalar::Float(match self {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            Div => a / b,
            Mod => a % b,
            FloorDiv => (a / b).floor(),
            FloorMod => floor_mod(a, b),
            Min => {
                if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Pow => a.powf(b),
            Neg => -a,
            Abs => a.abs(),
            Eq => return truth(a == b),
            Ne => return truth(a != b),
            Lt => return truth(a < b),
            Le => return truth(a <= b),
            Gt => return truth(a > b),
            Ge => return truth(a >= b),
            IsNan => return truth(a.is_nan()),
            IsFinite => return truth(a.is_finite()),
            IsInf => return truth(a.is_infinite()),
            Exp => a.exp(),
            Log => a.ln(),
            Log2 => a.log2(),
            Log10 => a.log10(),
            Sqrt => a.sqrt(),
            Sin => a.sin(),
            Cos => a.cos(),
            Tan => a.tan(),
            Asin => a.asin(),
            Acos => a.acos(),
            Atan => a.atan(),
            Sinh => a.sinh(),
            Cosh => a.cosh(),
            Tanh => a.tanh(),
            // The standard library's overflow for large numbers.
            Asinh => libm::asinh(a),
            Acosh => arcosh(a),
            Atanh => a.atanh(),
            Erf => libm::erf(a),
            Sigmoid => 1.0 / (1.0 + (-a).exp()),
            Floor => a.floor(),
            Ceil => a.ceil(),
            Round => a.round(),
            RoundEven => a.round_ties_even(),
            Trunc => a.trunc(),
            // The type relation admits no floats here.
            And | Or | Xor | Not | ShiftLeft | ShiftRight | PairDot | QuadDot => {
                debug_assert!(dtype.is_integer());
                f64::NAN
            }
        })
    }

    fn on_integers(self, a: i128, b: i128, dtype: DType) -> Result<Scalar, String> {
        use ScalarOp::*;
        let nonzero = |value: i128| match b {
            0 => Err("integer division by zero".to_string()),
            _ => Ok(value),
        };
        let amount = || match b {
            0.. => Ok(b.min(127) as u32),
            _ => Err(format!("expected a shift of at least 0, found {b}")),
        };
        let value = match self {
            Add => a + b,
            Sub => a - b,
            Mul => a.wrapping_mul(b),
            Div => nonzero(a.checked_div(b).unwrap_or(0))?,
            Mod => nonzero(a.checked_rem(b).unwrap_or(0))?,
            FloorDiv => nonzero(floor_div(a, b))?,
            FloorMod => nonzero(a - floor_div(a, b).wrapping_mul(b))?,
            Min => a.min(b),
            Max => a.max(b),
            Pow => power(a, b)?,
            Neg => -a,
            Abs => a.abs(),
            And => a & b,
            Or => a | b,
            Xor => a ^ b,
            Not if dtype.is_bool() => i128::from(a == 0),
            Not => !a,
            ShiftLeft => a.checked_shl(amount()?).filter(|_| b < 64).unwrap_or(0),
            ShiftRight => a >> amount()?,
            PairDot => {
                let half = |number: i128, from: u32| i128::from((number >> from) as i16);
                half(a, 0) * half(b, 0) + half(a, 16) * half(b, 16)
            }
            QuadDot => {
                let product =
                    |from: u32| i128::from((a >> from) as u8) * i128::from((b >> from) as i8);
                [0, 8, 16, 24].map(product).iter().sum()
            }
            Eq => (a == b).into(),
            Ne => (a != b).into(),
            Lt => (a < b).into(),
            Le => (a <= b).into(),
            Gt => (a > b).into(),
            Ge => (a >= b).into(),
            _ => return Err(format!("`{}` takes no integers", self.name())),
        };
        Ok(Scalar::Int(value as i64))
    }
}

/// The remainder of flooring division: exact up to the rounding of the result, and with the sign of
/// `b`, also where it is 0.
pub fn floor_mod(a: f64, b: f64) -> f64 {
    let rest = a % b;
    match rest == 0.0 {
        true => rest.copysign(b),
        false if (rest < 0.0) != (b < 0.0) => rest + b,
        false => rest,
    }
}

/// The integer that `value` of element type `dtype` stands for.
fn integer(value: Scalar, dtype: DType) -> i128 {
    let value = value.as_i64();
    match dtype.kind() {
        DTypeKind::UInt => i128::from(value as u64),
        _ => i128::from(value),
    }
}

fn floor_div(a: i128, b: i128) -> i128 {
    let quotient = a.checked_div(b).unwrap_or(0);
    if b != 0 && a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn power(base: i128, exponent: i128) -> Result<i128, String> {
    if exponent < 0 {
        return Err(format!("expected an exponent of at least 0, found {exponent}"));
    }
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    Ok(result)
}

/// `bool` with as many lanes as `dtype`.
pub fn bool_like(dtype: DType) -> DType {
    DType::BOOL.with_lanes_of(dtype)
}

/// The type of a scalar or a vector.
pub(crate) fn number_of(body: &Body, number: ValueId) -> DType {
    let ty = body.ty(number);
    dtype_of(ty).unwrap_or_else(|| panic!("expected a scalar or a vector, found {ty}"))
}

/// The element type of a scalar or vector type; `None` for tensors with dimensions and others.
pub fn dtype_of(ty: Type) -> Option<DType> {
    ty.as_tensor().filter(|tensor| tensor.rank() == 0).map(|tensor| tensor.dtype)
}

pub(crate) fn scalar_type(cx: &InferCx<'_>, index: usize) -> Result<DType, Stop> {
    let ty = cx.operands[index];
    dtype_of(ty).ok_or_else(|| {
        Stop::error(format!("expected a scalar as operand {}, found {ty}", index + 1))
    })
}

fn same(what: &str, expected: DType, found: DType) -> Result<(), Stop> {
    if expected == found {
        return Ok(());
    }
    Err(Stop::error(format!("expected {what}s of one type, found {expected} and {found}")))
}

/// A constant scalar.
#[derive(Op, Clone, Debug)]
#[op(
    name = "te.constant",
    traits(CONSTANT),
    infer = |c: Constant, _: &mut _| Ok(c.value.ty()),
    verify = verify_constant
)]
pub struct Constant {
    /// The number, a tensor of rank 0.
    pub value: TensorData,
}

fn verify_constant(cx: &VerifyCx<'_>) -> Result<(), String> {
    match cx.body.view::<Constant>(cx.op) {
        Some(constant) if constant.value.rank() != 0 => {
            Err(format!("expected a scalar, found a tensor of rank {}", constant.value.rank()))
        }
        Some(constant) => computable(constant.value.dtype()),
        _ => Ok(()),
    }
}

/// Requires numbers that loops compute with: those of floats of at most eight bits they only move.
fn computable(dtype: DType) -> Result<(), String> {
    match dtype.as_small_float() {
        Some(_) => Err(format!("expected integers, or floats of at least 16 bits, found {dtype}")),
        None => Ok(()),
    }
}

/// `a` converted to another element type: floats round to nearest even, floats to integers truncate
/// toward zero, integers wrap, and any nonzero number is `true`.
#[derive(Op, Clone, Debug)]
#[op(name = "te.cast", infer = cast_type)]
pub struct Cast<V = ValueId> {
    /// The number.
    pub a: V,
    /// The element type of the result; it has the lanes of `a`.
    pub dtype: DType,
}

fn cast_type(op: Cast<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    computable(op.dtype)?;
    computable(scalar_type(cx, 0)?)?;
    with_lanes(op.dtype, scalar_type(cx, 0)?)
}

/// The bits of `a` read as another element type of the same width. Integers of one width wrap; the
/// bits of a NaN other than that it is one may change.
#[derive(Op, Clone, Debug)]
#[op(name = "te.reinterpret", infer = reinterpret_type)]
pub struct Reinterpret<V = ValueId> {
    /// The number, no `bool`.
    pub a: V,
    /// The element type of the result, as wide as that of `a`, whose lanes it has.
    pub dtype: DType,
}

fn reinterpret_type(op: Reinterpret<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let from = scalar_type(cx, 0)?;
    computable(op.dtype)?;
    computable(from)?;
    if !is_reinterpretable(from, op.dtype) {
        let message = format!("expected an element type as wide as {from}, found {}", op.dtype);
        return Err(Stop::error(message));
    }
    with_lanes(op.dtype, from)
}

/// `dtype`, of one lane, with the lanes of `from`.
fn with_lanes(dtype: DType, from: DType) -> Result<Type, Stop> {
    match dtype.lanes() {
        1 => Ok(Type::scalar(dtype.with_lanes_of(from))),
        _ => Err(Stop::error("expected an element type of one lane")),
    }
}

/// Whether the bits of `from` may be read as `to`; lanes are ignored.
pub fn is_reinterpretable(from: DType, to: DType) -> bool {
    from.bits() == to.bits() && !from.is_bool() && !to.is_bool()
}

/// The number of element type `to` that has the bits of `value`, which is one of `from`.
pub fn reinterpret(value: Scalar, from: DType, to: DType) -> Scalar {
    let (from, to) = (from.lane(), to.lane());
    if from.is_integer() && to.is_integer() {
        return value.cast(to);
    }
    let bytes = TensorData::scalar(from, value).bytes().to_vec();
    let read = TensorData::from_bytes(to, &[], bytes).expect("both types are equally wide");
    read.element(0).expect("a scalar has one element")
}

/// `a` where `condition` holds, else `b`. Both are evaluated.
#[derive(Op, Clone, Debug)]
#[op(name = "te.select", infer = select_type)]
pub struct Select<V = ValueId> {
    /// A `bool` of as many lanes as `a`.
    pub condition: V,
    /// The value where it holds.
    pub a: V,
    /// The value elsewhere.
    pub b: V,
}

fn select_type(_: Select<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (condition, a) = (scalar_type(cx, 0)?, scalar_type(cx, 1)?);
    same("alternative", a, scalar_type(cx, 2)?)?;
    if condition != bool_like(a) {
        return Err(Stop::error(format!("expected {} to choose, found {condition}", bool_like(a))));
    }
    Ok(Type::scalar(a))
}

/// `a` where `condition` holds; elsewhere an error, of which `message` tells. What goes on
/// nevertheless has `otherwise` there, which has to be harmless. All are evaluated.
///
/// It has no effect: where nothing uses the result, there is no error.
#[derive(Op, Clone, Debug)]
#[op(name = "te.check", infer = |op: Check<Type>, cx: &mut _| {
    select_type(Select { condition: op.condition, a: op.a, b: op.otherwise }, cx)
})]
pub struct Check<V = ValueId> {
    /// A `bool` of as many lanes as `a`.
    pub condition: V,
    /// The value where it holds.
    pub a: V,
    /// The value elsewhere.
    pub otherwise: V,
    /// What was expected, such as `expected an index below 5`.
    pub message: String,
    /// Which of the checks of its function it is, once they are
    /// [numbered](crate::checks::spell_out).
    #[default(None)]
    pub site: Option<i64>,
}

/// Writes `op`, of one result of type `ty`, at a place; its result.
pub(crate) fn insert<T: OpFields<ValueId>>(
    body: &mut Body,
    at: InsertPoint,
    op: &T,
    ty: Type,
) -> ValueId {
    let (operands, types) = (op.operands(), [ty]);
    let parts = OpParts::new(T::NAME, &operands, &types).attrs(op.attrs());
    let op = body.insert_op(at, parts);
    body.result(op, 0)
}

/// The constant 0, where `ty` is a scalar.
fn zero(body: &mut Body, at: InsertPoint, ty: Type) -> Option<ValueId> {
    let value = TensorData::scalar(dtype_of(ty)?, Scalar::Int(0));
    Some(insert(body, at, &Constant { value }, ty))
}

/// `arcosh(x)`; NaN below 1, where the library's is not always.
pub fn arcosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The scalar operations.
pub(crate) fn register(registry: &mut Registry) {
    for op in ScalarOp::ALL {
        let def = OpDef {
            operands: if op.arity() == 1 { UNARY } else { BINARY },
            infer: Some(op.infer()),
            ..OpDef::new(op.name(), op.doc())
        };
        registry.add_op(OpInfo::new(def).with(*op));
    }
    registry.add_op(Constant::info().with(MakeZero(zero)));
    registry.op::<Cast>();
    registry.op::<Reinterpret>();
    registry.op::<Select>();
    registry.op::<Check>();
}
