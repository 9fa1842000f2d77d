//! Every scalar operation and cast on every element type, on special numbers and others, against what
//! the operation says of itself; and the assembler takes all of it.

use crate::common;

use ir_core::{DType, Item, Random, Scalar, TensorData};
use target_ptx::Arch;
use target_ptx::interpreter::Options;
use te::compute::ComputeBuilder;
use te::scalar::{ScalarOp, Typing, is_reinterpretable, reinterpret};

const COUNT: i64 = 400;

/// Architectures that differ in what they have: no `bfloat16`, and all.
const ARCHS: [&str; 2] = ["sm_70", "sm_80"];

fn dtypes() -> Vec<DType> {
    let names = [
        "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64", "bool", "int4", "uint5", "int33",
    ];
    names.iter().map(|name| name.parse().expect("a type")).collect()
}

/// Numbers of `dtype`: small ones, special ones, and ones of any size, in an order of `seed`.
fn numbers(dtype: DType, seed: u64) -> TensorData {
    let special = [
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 0.49999997, 3.5, 100.0, -100.0, 6e4, 3e9, -3e9,
        5e18, 1e19, -1e19, 3e38, -3e38, 1e-40, -1e-40, 5e-324, 1e300, 1e22, 355.0, 710.0, -745.0,
    ];
    let limits = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 88.5, -103.5, 0.625, 0.9277, 4.0];
    let integers =
        [0, 1, 2, 3, -1, -2, 7, 31, 32, 33, 63, 64, i64::MIN, i64::MAX, 1 << 31, -(1 << 31)];
    let mut random = Random::new(seed);
    let elements = (0..COUNT).map(|_| {
        let any = random.below(usize::MAX) as i64;
        match (random.below(3), dtype.is_float()) {
            (0, true) => Scalar::Float(special[random.below(special.len())]),
            (1, true) => Scalar::Float(limits[random.below(limits.len())]),
            (_, true) => Scalar::Float((any as f64) / 2f64.powi(56 + random.below(12) as i32)),
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

/// Units in the last place of `dtype` between two numbers; 0 where both are NaN.
fn distance(dtype: DType, a: Scalar, b: Scalar) -> f64 {
    let (Scalar::Float(a), Scalar::Float(b)) = (a, b) else {
        return f64::from(u8::from(a.as_i64() != b.as_i64()));
    };
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if !a.is_finite() || !b.is_finite() {
        return f64::INFINITY;
    }
    let (digits, least) = match dtype {
        DType::FLOAT64 => (52, -1074),
        DType::FLOAT32 => (23, -149),
        DType::FLOAT16 => (10, -24),
        _ => (7, -133),
    };
    let exponent = a.abs().max(b.abs()).log2().floor() as i32 - digits;
    (a - b).abs() / 2f64.powi(exponent.max(least))
}

/// How many units in the last place a result may be off, of which the expected numbers take some.
fn tolerance(op: ScalarOp, dtype: DType) -> f64 {
    use ScalarOp::*;
    let is_function = op.typing() == Typing::Float || op == Pow;
    match op {
        Neg | Abs | Sqrt | Floor | Ceil | Round | RoundEven | Trunc => 0.0,
        _ if !is_function || dtype.is_integer() => 0.0,
        // By way of `float64`, and rounded.
        _ if dtype.bits() == 16 => 1.0,
        Exp | Log | Tanh | Sigmoid | Erf if dtype == DType::FLOAT32 => 2.5,
        _ if dtype == DType::FLOAT32 => 1.0,
        Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Pow => 16.0,
        _ => 4.0,
    }
}

#[test]
fn every_operation_is_right() {
    for dtype in dtypes() {
        let items: Vec<(ScalarOp, Item)> =
            ScalarOp::ALL.iter().filter_map(|op| Some((*op, of_scalar(*op, dtype)?))).collect();
        let named = items.iter().map(|(op, item)| (op.name(), item.clone()));
        let module = common::lowered(common::module(named));
        for arch in ARCHS {
            let loaded = common::load(&module, arch, Options::default());
            let operands = [1, 2].map(|seed| numbers(dtype, seed));
            for (op, _) in &items {
                let found = common::call(&loaded, op.name(), &operands).swap_remove(0);
                for index in 0..COUNT as usize {
                    let scalars: Vec<Scalar> =
                        operands.iter().map(|one| one.element(index).expect("a number")).collect();
                    // What is an error in the language, a check tells.
                    let Ok(expected) = op.evaluate(dtype, &scalars[..op.arity()]) else { continue };
                    let result = found.element(index).expect("a number");
                    let off = distance(dtype, expected, result);
                    assert!(
                        off <= tolerance(*op, dtype),
                        "{} of {scalars:?}, {dtype}, {arch}: expected {expected:?}, found {result:?}, {off} units",
                        op.name()
                    );
                }
            }
        }
    }
}

#[test]
fn every_cast_is_right() {
    let mut cases = Vec::new();
    for from in dtypes() {
        for to in dtypes() {
            cases.push((format!("{from}_to_{to}"), from, to, false));
            if is_reinterpretable(from, to) {
                cases.push((format!("{from}_to_{to}_by_bits"), from, to, true));
            }
        }
    }
    let items: Vec<(&str, Item)> = cases
        .iter()
        .map(|(name, from, to, bits)| (name.as_str(), of_cast(*from, *to, *bits)))
        .collect();
    let module = common::lowered(common::module(items));
    for arch in ARCHS {
        let loaded = common::load(&module, arch, Options::default());
        for (name, from, to, by_bits) in &cases {
            let input = numbers(*from, 3);
            let found = common::call(&loaded, name, std::slice::from_ref(&input)).swap_remove(0);
            for index in 0..COUNT as usize {
                let a = input.element(index).expect("a number");
                let expected = match by_bits {
                    true => reinterpret(a, *from, *to),
                    // An unsigned number of 64 bits is not its bits.
                    false if from.is_integer() && !from.is_signed() && to.is_float() => {
                        Scalar::Float(a.as_integer(*from) as f64).cast(*to)
                    }
                    false => a.cast(*to),
                };
                let result = found.element(index).expect("a number");
                // Integers are rounded once here, and twice there, on the way to 32 bits.
                let allowed = if from.is_integer() && to.is_float() { 1.0 } else { 0.0 };
                let is_nan = *by_bits && a.as_f64().is_nan();
                let off = distance(*to, expected, result);
                assert!(
                    off <= allowed || is_nan,
                    "{name} of {a:?}, {arch}: expected {expected:?}, found {result:?}"
                );
            }
        }
    }
}

#[test]
fn the_assembler_takes_every_operation() {
    let mut items: Vec<(String, Item)> = Vec::new();
    for dtype in dtypes() {
        for op in ScalarOp::ALL {
            items
                .extend(of_scalar(*op, dtype).map(|item| (format!("{}_{dtype}", op.name()), item)));
        }
        for to in dtypes() {
            items.push((format!("cast_{dtype}_{to}"), of_cast(dtype, to, false)));
            if is_reinterpretable(dtype, to) {
                items.push((format!("bits_{dtype}_{to}"), of_cast(dtype, to, true)));
            }
        }
    }
    let module = common::lowered(common::module(
        items.iter().map(|(name, item)| (name.as_str(), item.clone())),
    ));
    for arch in
        [70, 80].map(|number| Arch::all().find(|arch| arch.number() == number).expect("one"))
    {
        for usage in common::assembled(&module, arch) {
            assert_eq!(usage.spilled, 0, "{usage:?}");
        }
    }
}
