//! Random numbers: the same ones in each run, by the seed that a node has, or by its place among those that draw.

use ir_core::{DType, TensorData};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("Bernoulli", "`random.uniform`, `less`, `cast`", |cx| {
        let chances = cx.input(0)?;
        let dtype = cx.element_type("dtype")?.unwrap_or(cx.dtype(&chances)?);
        let (shape, of) = (cx.shape(&chances)?, computed_in(cx.dtype(&chances)?));
        let shares = uniform(cx, &shape, of, [0.0, 1.0])?;
        let chances = cx.cast(&chances, of)?;
        let hits = cx.op("less", &[&shares, &chances])?;
        cx.cast(&hits, dtype)
    }),
    one("Multinomial", "`nn.softmax`, `random.multinomial`, `cast`", |cx| {
        let data = cx.input(0)?;
        let dtype = cx.element_type("dtype")?.unwrap_or(DType::INT32);
        let chances = cx.op_with("nn.softmax", &[&data], attr("axis", -1i64))?;
        let count = cx.int("sample_size", 1)?;
        let generator = generator(cx)?;
        let attrs = attr("num_samples", count);
        let mut drawn = cx.fields_of("random.multinomial", &[&generator, &chances], attrs)?;
        let places = drawn.swap_remove(1);
        cx.cast(&places, dtype)
    }),
    one("RandomNormal", "`random.normal`", |cx| {
        let shape = named_shape(cx)?;
        let dtype = cx.element_type("dtype")?.unwrap_or(DType::FLOAT32);
        distributed(cx, &shape, dtype, "random.normal", [("mean", 0.0), ("scale", 1.0)])
    }),
    one("RandomNormalLike", "`random.normal`; known extents", |cx| {
        let (shape, dtype) = like(cx)?;
        distributed(cx, &shape, dtype, "random.normal", [("mean", 0.0), ("scale", 1.0)])
    }),
    one("RandomUniform", "`random.uniform`", |cx| {
        let shape = named_shape(cx)?;
        let dtype = cx.element_type("dtype")?.unwrap_or(DType::FLOAT32);
        distributed(cx, &shape, dtype, "random.uniform", [("low", 0.0), ("high", 1.0)])
    }),
    one("RandomUniformLike", "`random.uniform`; known extents", |cx| {
        let (shape, dtype) = like(cx)?;
        distributed(cx, &shape, dtype, "random.uniform", [("low", 0.0), ("high", 1.0)])
    }),
];

fn named_shape(cx: &Cx<'_, '_>) -> Result<Vec<i64>, Fault> {
    cx.ints("shape")?.ok_or_else(|| Fault::from("attribute `shape` is missing"))
}

/// The shape of the operand, and the element type that the node names, or that of the operand.
fn like(cx: &Cx<'_, '_>) -> Result<(Vec<i64>, DType), Fault> {
    let data = cx.input(0)?;
    let dtype = cx.element_type("dtype")?.unwrap_or(cx.dtype(&data)?);
    Ok((cx.shape(&data)?, dtype))
}

/// The type in which numbers are drawn that become `dtype`.
fn computed_in(dtype: DType) -> DType {
    if dtype == DType::FLOAT64 { dtype } else { DType::FLOAT32 }
}

/// Numbers from 0 to below 1, for elements of `shape` of which each is kept or not.
pub(super) fn shares(cx: &mut Cx<'_, '_>, shape: &[i64]) -> Result<Value, Fault> {
    uniform(cx, shape, DType::FLOAT32, [0.0, 1.0])
}

fn uniform(
    cx: &mut Cx<'_, '_>,
    shape: &[i64],
    dtype: DType,
    bounds: [f64; 2],
) -> Result<Value, Fault> {
    drawn(cx, shape, dtype, "random.uniform", bounds)
}

/// Numbers of the distribution that `operator` draws from, with two attributes of the node and what these are where
/// it does not have them.
fn distributed(
    cx: &mut Cx<'_, '_>,
    shape: &[i64],
    dtype: DType,
    operator: &str,
    attributes: [(&str, f64); 2],
) -> Result<Value, Fault> {
    if !dtype.is_float() {
        return Err(format!("expected floats, found {dtype}").into());
    }
    let [(first, usual), (second, usual_second)] = attributes;
    let parameters = [cx.float(first, usual)?, cx.float(second, usual_second)?];
    let numbers = drawn(cx, shape, computed_in(dtype), operator, parameters)?;
    cx.cast(&numbers, dtype)
}

fn drawn(
    cx: &mut Cx<'_, '_>,
    shape: &[i64],
    dtype: DType,
    operator: &str,
    parameters: [f64; 2],
) -> Result<Value, Fault> {
    let generator = generator(cx)?;
    let [first, second] =
        parameters.map(|number| Value::Constant(crate::tensors::scalar(dtype, number)));
    let attrs = attr("out_shape", shape.to_vec()).with("out_dtype", &dtype);
    let mut drawn = cx.fields_of(operator, &[&generator, &first, &second], attrs)?;
    Ok(drawn.swap_remove(1))
}

/// The generator of the node: of its seed, or of how many nodes without one drew before it.
fn generator(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let seed = match cx.float_if("seed")? {
        Some(seed) => u64::from((seed as f32).to_bits()),
        // Above those of all seeds.
        None => (1 << 32) + cx.count_draw(),
    };
    // Four words of a key, two of a path, two of a counter, and two with the bit of the next split.
    let words = [seed.cast_signed(), 0, 0, 0, 0, 0, 0, 0, i64::MIN, 0];
    let generator = TensorData::from_i64(DType::UINT64, &[10], &words);
    Ok(Value::Constant(generator.map_err(|error| error.to_string())?))
}
