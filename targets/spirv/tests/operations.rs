//! Every scalar operation and cast on every element type, on special numbers and others, against what the
//! operation says of itself.

use crate::common;

use ir_core::{DType, Item, Random, Scalar, TensorData};
use te::compute::ComputeBuilder;
use te::scalar::{ScalarOp, Typing, is_reinterpretable, reinterpret};

const COUNT: i64 = 400;

fn dtypes() -> Vec<DType> {
    let names = [
        "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64", "bool", "int4", "uint5", "int33",
    ];
    names.iter().map(|name| name.parse().expect("a type")).collect()
}

/// Numbers of `dtype`: small ones, special ones, and ones of any size, in an order of `seed`.
fn numbers(dtype: DType, seed: u64) -> TensorData {
    let mut random = Random::new(seed);
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.5, 100.0, -100.0, 6e4, 3e9, -3e9, 5e18];
    let limits =
        [1e19, -1e19, 3e38, -3e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 88.5, -103.5];
    let integers =
        [0, 1, 2, 3, -1, -2, 7, 31, 32, 33, 63, 64, i64::MIN, i64::MAX, 1 << 31, -(1 << 31)];
    let elements = (0..COUNT).map(|_| {
        let any = random.below(usize::MAX) as i64;
        match (random.below(3), dtype.is_float()) {
            (0, true) => Scalar::Float(special[random.below(special.len())]),
            (1, true) => Scalar::Float(limits[random.below(limits.len())]),
            (_, true) => Scalar::Float((any as f64) / 2f64.powi(60 + random.below(8) as i32)),
            (0, false) => Scalar::Int(integers[random.below(integers.len())]),
            (1, false) => Scalar::Int(any % 9),
            (_, false) => Scalar::Int(any.rotate_left(random.below(64) as u32)),
        }
    });
    TensorData::from_scalars(dtype, &[COUNT], elements).expect("numbers")
}

/// The function of one stage, whose element is what `op` gives of two parameters' elements.
fn of_scalar(op: ScalarOp, dtype: DType) -> Option<Item> {
    op.result_dtype(dtype)?;
    let mut builder = ComputeBuilder::new();
    let inputs = ["a", "b"].map(|name| builder.input(name, &[COUNT], dtype));
    let stage = builder.compute("y", &[COUNT], |e, i| {
        let operands = inputs.each_ref().map(|input| e.load(input, i));
        e.scalar(op, &operands[..op.arity()])
    });
    Some(builder.finish(&[stage]).expect("a function"))
}

/// The function of one stage, whose element is that of a parameter as another type, by value or by its
/// bits.
fn of_cast(from: DType, to: DType, by_bits: bool) -> Item {
    let mut builder = ComputeBuilder::new();
    let input = builder.input("a", &[COUNT], from);
    let stage = builder.compute("y", &[COUNT], |e, i| {
        let a = e.load(&input, i);
        if by_bits { e.reinterpret(a, to) } else { e.cast(a, to) }
    });
    builder.finish(&[stage]).expect("a function")
}

/// How far apart two numbers are, in parts of the greater; 0 where both are NaN. Devices may take a
/// subnormal number for 0.
fn distance(a: Scalar, b: Scalar, least: f64) -> f64 {
    let (Scalar::Float(a), Scalar::Float(b)) = (a, b) else {
        return f64::from(u8::from(a.as_i64() != b.as_i64()));
    };
    match (a - b).abs() {
        _ if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        difference if difference.is_finite() => difference / a.abs().max(b.abs()).max(least),
        _ => f64::INFINITY,
    }
}

/// What the precision of `dtype` is, as a part of a number, and its least normal number.
fn precision(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::FLOAT64 => (2f64.powi(-52), 2f64.powi(-1022)),
        DType::FLOAT32 => (2f64.powi(-23), 2f64.powi(-126)),
        DType::FLOAT16 => (2f64.powi(-10), 2f64.powi(-14)),
        _ => (2f64.powi(-7), 2f64.powi(-126)),
    }
}

/// How many units of its precision a result may be off.
fn tolerance(op: ScalarOp) -> f64 {
    use ScalarOp::*;
    match op {
        Add | Sub | Mul | Min | Max | Neg | Abs | Floor | Ceil | Round | RoundEven | Trunc
        | Mod | FloorMod => 0.0,
        // As Vulkan promises.
        Div | Sqrt | FloorDiv => 3.0,
        // The rounding of the exponent is a factor of the result.
        Pow => 200.0,
        // Instructions, of which Vulkan promises less than these have.
        Sin | Cos | Tan | Asin | Acos | Atan => 4096.0,
        _ => 8.0,
    }
}

/// Whether `op` of `dtype` is what shaders do not have.
fn is_refused(op: ScalarOp, dtype: DType) -> bool {
    use ScalarOp::*;
    let is_function = op.typing() == Typing::Float || op == Pow;
    dtype == DType::FLOAT64
        && is_function
        && !matches!(op, Sqrt | Floor | Ceil | Round | RoundEven | Trunc)
}

#[test]
fn every_operation_is_right_or_refused() {
    for dtype in dtypes() {
        let (mut items, mut refused) = (Vec::new(), Vec::new());
        for op in ScalarOp::ALL {
            let Some(item) = of_scalar(*op, dtype) else { continue };
            match is_refused(*op, dtype) {
                true => refused.push((op.name(), item)),
                false => items.push((*op, item)),
            }
        }
        let named = items.iter().map(|(op, item)| (op.name(), item.clone())).collect();
        let module = common::lowered(common::module(named));
        common::check_text(&module);
        let Some(loaded) = common::load(&module) else { return };
        let operands = [1, 2].map(|seed| numbers(dtype, seed));
        for (op, _) in &items {
            let found = common::call(&loaded, op.name(), &operands).swap_remove(0);
            let (unit, least) = precision(dtype);
            for index in 0..COUNT as usize {
                let scalars: Vec<Scalar> =
                    operands.iter().map(|one| one.element(index).expect("a number")).collect();
                // What is an error in the language, a check tells.
                let Ok(expected) = op.evaluate(dtype, &scalars[..op.arity()]) else { continue };
                let is_subnormal = |scalar: &Scalar| {
                    let size = scalar.as_f64().abs();
                    dtype.is_float() && size > 0.0 && size < least
                };
                let large = matches!(op, ScalarOp::Sin | ScalarOp::Cos | ScalarOp::Tan)
                    && scalars[0].as_f64().abs() > 100.0;
                if scalars.iter().any(is_subnormal) || is_subnormal(&expected) || large {
                    continue;
                }
                let result = found.element(index).expect("a number");
                let off = distance(expected, result, least) / unit;
                assert!(
                    off <= tolerance(*op),
                    "{} of {scalars:?}, {dtype}: expected {expected:?}, found {result:?}, {off} units",
                    op.name()
                );
            }
        }
        for (name, item) in refused {
            let module = common::lowered(common::module(vec![(name, item)]));
            let errors = common::try_load(&module).err().expect("a refusal");
            assert!(errors[0].code == "E0902" && errors[0].message.contains(name), "{errors:?}");
        }
    }
}

#[test]
fn every_cast_is_right() {
    let mut cases = Vec::new();
    for from in dtypes() {
        for to in dtypes() {
            let name: &'static str = format!("{from}_to_{to}").leak();
            cases.push((name, from, to, false));
            if is_reinterpretable(from, to) {
                cases.push((format!("{name}_by_bits").leak(), from, to, true));
            }
        }
    }
    let items = cases.iter().map(|(name, from, to, bits)| (*name, of_cast(*from, *to, *bits)));
    let module = common::lowered(common::module(items.collect()));
    common::check_text(&module);
    let Some(loaded) = common::load(&module) else { return };
    for (name, from, to, by_bits) in cases {
        let input = numbers(from, 3);
        let found = common::call(&loaded, name, std::slice::from_ref(&input)).swap_remove(0);
        for index in 0..COUNT as usize {
            let a = input.element(index).expect("a number");
            let expected = match by_bits {
                true => reinterpret(a, from, to),
                false if from == DType::UINT64 && to.is_float() => {
                    Scalar::Float(a.as_integer(from) as f64).cast(to)
                }
                false => a.cast(to),
            };
            let result = found.element(index).expect("a number");
            let (unit, least) = precision(to);
            let off = distance(expected, result, least);
            // Integers are rounded twice on the way to halves.
            let allowed = if from.is_integer() && to.is_float() { unit } else { 0.0 };
            let is_subnormal = to.is_float() && expected.as_f64().abs() < least;
            let bits_of_nan = by_bits && a.as_f64().is_nan();
            let right = off <= allowed || is_subnormal || bits_of_nan;
            assert!(right, "{name} of {a:?}: expected {expected:?}, found {result:?}");
        }
    }
}
