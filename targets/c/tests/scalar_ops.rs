//! Every scalar operation on every element type, in scalars and in vectors of several widths, as
//! both compilers translate it, against what the operation says of itself.

use crate::common;

use common::{Writer, module, numbers};
use ir_core::{DType, Item, Scalar, TensorData};
use te::scalar::{ScalarOp, Typing};

/// A common multiple of all widths.
const COUNT: i64 = 192;

/// Vectors, one of them of a width that no machine has, and one that most need several of.
const WIDTHS: [i64; 3] = [16, 12, 64];

const FLOATS: [DType; 4] = [DType::FLOAT32, DType::FLOAT64, DType::FLOAT16, DType::BFLOAT16];

fn dtypes() -> Vec<DType> {
    let mut dtypes = FLOATS.to_vec();
    let integers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
    let others = ["bool", "int4", "uint5", "int33"];
    dtypes.extend(integers.iter().chain(&others).map(|name| name.parse::<DType>().unwrap()));
    dtypes
}

/// A kernel that applies `op` to all elements in every width.
fn kernel(op: ScalarOp, dtype: DType) -> Option<Item> {
    let result = op.result_dtype(dtype)?;
    let mut w = Writer::new();
    let inputs: Vec<_> =
        ["a", "b"].iter().take(op.arity()).map(|name| w.param(name, &[COUNT], dtype)).collect();
    let scalars = w.param("scalars", &[COUNT], result);
    let outputs: Vec<_> =
        WIDTHS.iter().map(|lanes| w.param(&format!("by_{lanes}"), &[COUNT], result)).collect();
    w.serial("i", COUNT, |w, i| {
        let operands: Vec<_> = inputs.iter().map(|input| w.load(*input, &[i])).collect();
        let value = w.scalar(op, &operands);
        w.store(value, scalars, &[i]);
    });
    for (lanes, output) in WIDTHS.iter().zip(outputs) {
        w.serial("i", COUNT / lanes, |w, i| {
            let base = w.affine(i, *lanes, 0);
            let place = w.ramp(base, *lanes);
            let operands: Vec<_> = inputs.iter().map(|input| w.load(*input, &[place])).collect();
            let value = w.scalar(op, &operands);
            w.store(value, output, &[place]);
        });
    }
    Some(w.finish(4))
}

/// Special numbers first, then others.
fn operands(dtype: DType, seed: u64) -> TensorData {
    let count = COUNT as usize;
    if dtype.is_float() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.5,
            -2.5,
            1e-3,
            100.0,
            -100.0,
            1e5,
            6e4,
            -3e38,
            1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            88.0,
            -88.0,
            -103.0,
            3.5,
            -7.0,
            0.625,
        ];
        let mut values = special.to_vec();
        values.extend(numbers(count / 2, seed, -4.0, 4.0));
        values.extend(numbers(count, seed + 1, -90.0, 90.0));
        // Another order for the second operand, so that all meet.
        values.truncate(count);
        values.rotate_left((seed as usize * 7) % count);
        return TensorData::from_f64(dtype, &[COUNT], &values).unwrap();
    }
    let mut values: Vec<i64> =
        vec![0, 1, 2, 3, -1, -2, 7, 8, 31, 32, 33, 63, 64, i64::MIN, i64::MAX, 127, -128, 128];
    values.extend([i64::from(i32::MIN), i64::from(i32::MAX), 255, 256, 65535, 1 << 31, 1 << 32]);
    values.extend(numbers(count / 2, seed, -9.0, 9.0).iter().map(|value| *value as i64));
    values.extend(numbers(count, seed + 1, -4e18, 4e18).iter().map(|value| *value as i64));
    values.truncate(count);
    values.rotate_left((seed as usize * 5) % count);
    TensorData::from_i64(dtype, &[COUNT], &values).unwrap()
}

/// Units in the last place of `dtype` between two numbers, 0 where both are NaN.
fn distance(dtype: DType, a: f64, b: f64) -> f64 {
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

/// How many units in the last place a result may be off.
fn tolerance(op: ScalarOp, dtype: DType) -> f64 {
    use ScalarOp::*;
    match op {
        _ if dtype.is_integer() => 0.0,
        Add | Sub | Mul | Div | Mod | FloorDiv | FloorMod | Min | Max | Neg | Abs | Sqrt
        | Floor | Ceil | Round | RoundEven | Trunc => 0.0,
        _ if op.typing() == Typing::Comparison || op.typing() == Typing::Test => 0.0,
        // Expected numbers are themselves off by some units here.
        Asinh | Acosh | Atanh | Sinh | Cosh | Tanh | Sigmoid if dtype == DType::FLOAT64 => 64.0,
        // In `float`, then rounded.
        _ if dtype.bits() == 16 => 1.0,
        _ => 4.0,
    }
}

fn check_results(
    op: ScalarOp,
    dtype: DType,
    inputs: &[TensorData],
    place: &str,
    results: &[TensorData],
) {
    for (result, form) in results.iter().zip(["scalars", "by 16", "by 12", "by 64"]) {
        for index in 0..COUNT as usize {
            let operands: Vec<Scalar> =
                inputs.iter().map(|input| input.element(index).unwrap()).collect();
            // What is an error in the language is nothing here.
            let Ok(expected) = op.evaluate(dtype, &operands) else { continue };
            let found = result.element(index).unwrap();
            let off = match (expected, found) {
                (Scalar::Int(a), Scalar::Int(b)) => f64::from(u8::from(a != b)),
                (a, b) => distance(dtype, a.as_f64(), b.as_f64()),
            };
            let allowed = tolerance(op, dtype);
            assert!(
                off <= allowed,
                "{} of {operands:?}, {dtype}: expected {expected:?}, found {found:?}, {off} ulp \
                 ({place}, {form})",
                op.name()
            );
        }
    }
}

/// All operations of one type as one module, so that a compiler runs once.
fn check_type(dtype: DType) {
    let mut items = Vec::new();
    for op in ScalarOp::ALL {
        if let Some(item) = kernel(*op, dtype) {
            items.push((*op, item));
        }
    }
    let module = module(items.iter().map(|(op, item)| (op.name(), item.clone())));
    let registry = common::registry();
    let verified = ir_core::verify(&module, &registry).expect("a verified module");
    for (command, compiler) in common::compilers() {
        for isa in common::isas() {
            // Element types whose vectors differ little are looked at in two forms only.
            let usual = [DType::FLOAT32, DType::INT8, DType::INT32, DType::BOOL].contains(&dtype);
            let wanted = usual || isa == "scalar" || isa == target_core::host().isa;
            if !wanted {
                continue;
            }
            let loaded = common::target(isa).load_with(verified, &compiler, &common::cache());
            let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:#?}"));
            for (op, _) in &items {
                let inputs: Vec<TensorData> =
                    (0..op.arity()).map(|index| operands(dtype, index as u64 * 3)).collect();
                let results = common::call(&loaded, op.name(), &inputs);
                check_results(*op, dtype, &inputs, &format!("{command} {isa}"), &results);
            }
        }
    }
}

#[test]
fn float_operations() {
    FLOATS.iter().for_each(|dtype| check_type(*dtype));
}

#[test]
fn integer_operations() {
    dtypes().into_iter().filter(|dtype| dtype.is_integer()).for_each(check_type);
}

/// C takes a literal for an `int`, in which an operation of 64 bits may overflow.
#[test]
fn operations_on_literals() {
    const NUMBERS: [i64; 5] = [1, 3, 40, 65536, 2_147_483_647];
    let size = NUMBERS.len();
    let binary = |op: &ScalarOp| op.arity() == 2;
    for dtype in [DType::INT64, DType::UINT64, DType::INT32, DType::UINT32] {
        let mut items = Vec::new();
        for op in ScalarOp::ALL.iter().copied().filter(binary) {
            let Some(result) = op.result_dtype(dtype) else { continue };
            let mut w = Writer::new();
            let numbers = w.param("numbers", &[size as i64], dtype);
            let chosen = w.param("chosen", &[1], DType::BOOL);
            let y = w.param("y", &[3, (size * size) as i64], result);
            let first = w.index(0);
            let chosen = w.load(chosen, &[first]);
            for place in 0..size * size {
                let (left, right) = (place / size, place % size);
                let a = w.constant(dtype, Scalar::Int(NUMBERS[left]));
                let b = w.constant(dtype, Scalar::Int(NUMBERS[right]));
                let other = w.constant(dtype, Scalar::Int(2));
                let choice = w.select(chosen, a, other);
                let right = w.index(right as i64);
                let loaded = w.load(numbers, &[right]);
                let operands = [[a, b], [choice, b], [choice, loaded]];
                for (row, operands) in operands.iter().enumerate() {
                    let value = w.scalar(op, operands);
                    let (row, place) = (w.index(row as i64), w.index(place as i64));
                    w.store(value, y, &[row, place]);
                }
            }
            items.push((op, w.finish(1)));
        }
        let module = module(items.iter().map(|(op, item)| (op.name(), item.clone())));
        let numbers = TensorData::from_i64(dtype, &[size as i64], &NUMBERS).unwrap();
        let chosen = TensorData::from_i64(DType::BOOL, &[1], &[1]).unwrap();
        let inputs = [numbers, chosen];
        for (op, _) in &items {
            common::run_on(&["scalar"], &module, op.name(), &inputs, |place, results| {
                for (index, found) in results[0].elements().enumerate() {
                    let at = index % (size * size);
                    let operands = [NUMBERS[at / size], NUMBERS[at % size]].map(Scalar::Int);
                    let Ok(expected) = op.evaluate(dtype, &operands) else { continue };
                    let name = op.name();
                    assert_eq!(found, expected, "{name} of {operands:?}, {dtype} ({place})");
                }
            });
        }
    }
}

#[test]
fn casts_between_all_types() {
    // A kernel for each type of elements: compilers take long for a large one.
    let kernel = |from: DType| {
        let mut w = Writer::new();
        let input = w.param("from", &[COUNT], from);
        let outputs: Vec<_> =
            dtypes().into_iter().map(|to| (to, w.param("to", &[2, COUNT], to))).collect();
        for &(to, output) in &outputs {
            w.serial("i", COUNT, |w, i| {
                let value = w.load(input, &[i]);
                let value = w.cast(value, to);
                let first = w.index(0);
                w.store(value, output, &[first, i]);
            });
            w.serial("i", COUNT / 16, |w, i| {
                let base = w.affine(i, 16, 0);
                let place = w.ramp(base, 16);
                let value = w.load(input, &[place]);
                let value = w.cast(value, to);
                let second = w.index(1);
                w.store(value, output, &[second, place]);
            });
        }
        w.finish(outputs.len() as i64)
    };
    let names: Vec<(DType, String)> =
        dtypes().into_iter().map(|from| (from, format!("casts_of_{from}"))).collect();
    let module = module(names.iter().map(|(from, name)| (name.as_str(), kernel(*from))));
    let isas = [target_core::host().isa, "scalar"];
    for (from, name) in &names {
        let input = operands(*from, 2);
        let inputs = [input.clone()];
        common::run_on(&isas, &module, name, &inputs, |place, results| {
            for (to, result) in dtypes().into_iter().zip(&results) {
                for index in 0..2 * COUNT as usize {
                    let value = input.element(index % COUNT as usize).unwrap();
                    // Signed as stored, but a number above those.
                    let negative = matches!(value, Scalar::Int(..0));
                    if *from == DType::UINT64 && negative {
                        continue;
                    }
                    let (expected, found) = (value.cast(to), result.element(index).unwrap());
                    let same = expected == found
                        || (expected.as_f64().is_nan() && found.as_f64().is_nan());
                    assert!(
                        same,
                        "{value:?} from {from} to {to}: expected {expected:?}, found {found:?} \
                         ({place}, {index})"
                    );
                }
            }
        });
    }
}

/// The functions that we compute ourselves, over all magnitudes of `float`.
#[test]
fn own_functions_are_accurate() {
    const STEP: usize = 1009;
    use ScalarOp::{Atan, Cos, Erf, Exp, Log, Sigmoid, Sin, Tanh};
    let ops = [Exp, Log, Tanh, Sigmoid, Atan, Erf, Sin, Cos];
    let numbers: Vec<f64> =
        (0..=u32::MAX).step_by(STEP).map(|bits| f32::from_bits(bits).into()).collect();
    let count = (numbers.len() / 16 * 16) as i64;
    let data = TensorData::from_f64(DType::FLOAT32, &[count], &numbers[..count as usize]).unwrap();
    let mut w = Writer::new();
    let x = w.param("x", &[count], DType::FLOAT32);
    let outputs: Vec<_> =
        ops.iter().map(|op| w.param(op.name(), &[2, count], DType::FLOAT32)).collect();
    for (op, output) in ops.iter().zip(outputs) {
        for lanes in [1, 16] {
            w.serial("i", count / lanes, |w, i| {
                let base = w.affine(i, lanes, 0);
                let place = if lanes == 1 { base } else { w.ramp(base, lanes) };
                let value = w.load(x, &[place]);
                let value = w.scalar(*op, &[value]);
                let row = w.index((lanes > 1).into());
                w.store(value, output, &[row, place]);
            });
        }
    }
    let module = module([("functions", w.finish(ops.len() as i64))]);
    let isas = [target_core::host().isa];
    common::run_on(&isas, &module, "functions", std::slice::from_ref(&data), |place, results| {
        for (op, result) in ops.iter().zip(&results) {
            let (mut worst, mut at) = (0.0, 0.0);
            for (index, found) in result.elements().enumerate() {
                let x = numbers[index % count as usize];
                // Not rounded: the unit in the last place is that of the exact number.
                let Ok(Scalar::Float(exact)) = op.evaluate(DType::FLOAT64, &[Scalar::Float(x)])
                else {
                    continue;
                };
                let rounded = f64::from(exact as f32);
                let off = match rounded.is_finite() && found.as_f64().is_finite() {
                    true => distance(DType::FLOAT32, exact, found.as_f64()),
                    false => distance(DType::FLOAT32, rounded, found.as_f64()),
                };
                if off > worst {
                    (worst, at) = (off, x);
                }
            }
            eprintln!("{}: {worst:.2} ulp at {at:e} ({place})", op.name());
            let allowed = match op {
                Tanh => 2.75,
                Sigmoid => 2.5,
                _ => 1.5,
            };
            assert!(worst <= allowed, "{}: {worst} ulp at {at:e} ({place})", op.name());
        }
    });
}
