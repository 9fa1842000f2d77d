//! Attention and the embeddings of positions that it goes with.

use ir_core::{DType, TensorData};

use super::linear::matmul;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "Attention",
        "`nn.matmul` or `nn.batch_matmul`, `nn.softmax`, with masks, caches, groups of heads and a soft cap; \
        known extents",
        attention,
    ),
    one(
        "ai.onnx.preview.FlexAttention",
        "`nn.batch_matmul`, `nn.softmax`, and the graphs of the node; known extents",
        flex_attention,
    ),
    one(
        "RotaryEmbedding",
        "`split` or `strided_slice`, `multiply`, `concatenate`",
        rotary_embedding,
    ),
];

/// Queries, keys and values by head: of shape (batch, heads, positions, features).
struct Heads {
    queries: Value,
    keys: Value,
    values: Value,
    /// Positions of keys that come from a cache.
    past: i64,
}

fn attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let flat = cx.rank(&cx.input(0)?)? == 3;
    let Heads { queries, keys, values, past } = heads(cx, flat)?;
    let (present_keys, present_values) = (keys.clone(), values.clone());
    let shape = cx.shape(&queries)?;
    let scale = cx.float("scale", 1.0 / (shape[3] as f64).sqrt())?;

    // Both factors get the root of the scale, as the standard says.
    let (queries_scaled, keys_scaled) = (
        cx.with_scalar("multiply", &queries, scale.sqrt())?,
        cx.with_scalar("multiply", &keys, scale.sqrt())?,
    );
    let product = by_keys(cx, &queries_scaled, &keys_scaled)?;
    let capped = capped(cx, &product)?;
    let mut biased = capped.clone();
    for bias in biases(cx, &shape, &keys, past)? {
        biased = cx.op("add", &[&biased, &bias])?;
    }
    let precision = cx.element_type("softmax_precision")?.unwrap_or(cx.dtype(&biased)?);
    let precise = cx.cast(&biased, precision)?;
    let weights = cx.op_with("nn.softmax", &[&precise], attr("axis", -1i64))?;
    let weights = cx.cast(&weights, cx.dtype(&queries)?)?;
    let shown = match cx.int("qk_matmul_output_mode", 0)? {
        0 => product,
        1 => capped,
        2 => biased,
        3 => weights.clone(),
        other => {
            return Err(format!("expected `qk_matmul_output_mode` 0 to 3, found {other}").into());
        }
    };
    let mut result = of_values(cx, &weights, &values)?;
    if flat {
        result = side_by_side(cx, &result)?;
    }
    Ok(vec![result, present_keys, present_values, shown])
}

/// Attention whose products and weights pass through graphs of the node.
fn flex_attention(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let Heads { queries, keys, values, .. } = heads(cx, false)?;
    let (shape, dtype) = (four(cx, &queries)?, cx.dtype(&queries)?);
    let scale = cx.float("scale", 1.0 / (shape[3] as f64).sqrt())?;
    let queries = cx.with_scalar("multiply", &queries, scale.sqrt())?;
    let keys = cx.with_scalar("multiply", &keys, scale.sqrt())?;
    let product = by_keys(cx, &queries, &keys)?;
    let usual = if dtype == DType::FLOAT64 { dtype } else { DType::FLOAT32 };
    let precision = cx.element_type("softmax_precision")?.unwrap_or(usual);
    let product = cx.cast(&product, precision)?;
    let product = modified(cx, "score_mod", product)?;
    let weights = cx.op_with("nn.softmax", &[&product], attr("axis", -1i64))?;
    let weights = modified(cx, "prob_mod", weights)?;
    let of_result = cx.dtype(&values)?;
    let values = cx.cast(&values, precision)?;
    let result = of_values(cx, &weights, &values)?;
    cx.cast(&result, of_result)
}

/// What the graph `name` of the node makes of `value`, where it has one.
fn modified(cx: &mut Cx<'_, '_>, name: &str, value: Value) -> Result<Value, Fault> {
    if !cx.has_attribute(name) {
        return Ok(value);
    }
    let graph = cx.graph(name)?;
    match (graph.inputs.len(), cx.inline(&graph, &[value])?.as_slice()) {
        (1, [one]) => Ok(one.clone()),
        (inputs, results) => {
            let found = (inputs, results.len());
            Err(format!("expected `{name}` of one input and one result, found {found:?}").into())
        }
    }
}

pub(super) fn four(cx: &Cx<'_, '_>, value: &Value) -> Result<[i64; 4], Fault> {
    let shape = cx.shape(value)?;
    shape.try_into().map_err(|shape| {
        Fault::from(format!("expected an operand of rank 3 or 4, found extents {shape:?}"))
    })
}

/// The operands of the node by head; those of rank 3, where `flat`, have their heads side by side.
fn heads(cx: &mut Cx<'_, '_>, flat: bool) -> Result<Heads, Fault> {
    let counts = match flat {
        true => [cx.required_int("q_num_heads")?, cx.required_int("kv_num_heads")?],
        false => [0, 0],
    };
    let mut operand = |index: usize, count: i64| -> Result<Value, Fault> {
        let value = cx.input(index)?;
        if flat { by_head(cx, &value, count) } else { Ok(value) }
    };
    let queries = operand(0, counts[0])?;
    let (mut keys, mut values) = (operand(1, counts[1])?, operand(2, counts[1])?);
    let mut past = 0;
    if let Some(cache) = cx.optional(4) {
        past = four(cx, &cache)?[2];
        keys = cx.concatenate(&[cache, keys], 2)?;
    }
    if let Some(cache) = cx.optional(5) {
        values = cx.concatenate(&[cache, values], 2)?;
    }
    for value in [&queries, &keys, &values] {
        four(cx, value)?;
    }
    Ok(Heads { queries, keys, values, past })
}

/// The products of `queries`, (batch, heads, positions, features), and `keys`, which may have fewer heads, each
/// for a group of the others: (batch, heads, positions, positions of keys).
pub(super) fn by_keys(cx: &mut Cx<'_, '_>, queries: &Value, keys: &Value) -> Result<Value, Fault> {
    let [batch, heads, positions, _] = four(cx, queries)?;
    let [_, _, of_keys, _] = four(cx, keys)?;
    let rows = in_groups(cx, queries, keys)?;
    if is_one_row(cx, &rows)? {
        // Each key is read once: as it lies, whatever heads are made of.
        let product = cx.op("multiply", &[&rows, keys])?;
        let product = cx.op_with("sum", &[&product], attr("axis", vec![3i64]))?;
        return cx.reshape(&product, &[batch, heads, positions, of_keys]);
    }
    let turned = cx.transpose(keys, &[0, 1, 3, 2])?;
    let product = matmul(cx, &rows, &turned)?;
    cx.reshape(&product, &[batch, heads, positions, of_keys])
}

/// The sums of `values`, (batch, heads, positions, features), by `weights`, whose heads may be more, groups of
/// them for each: (batch, heads of the weights, positions of the weights, features).
pub(super) fn of_values(
    cx: &mut Cx<'_, '_>,
    weights: &Value,
    values: &Value,
) -> Result<Value, Fault> {
    let [batch, heads, positions, _] = four(cx, weights)?;
    let [_, _, _, features] = four(cx, values)?;
    let rows = in_groups(cx, weights, values)?;
    if is_one_row(cx, &rows)? {
        let column = cx.transpose(&rows, &[0, 1, 3, 2])?;
        let product = cx.op("multiply", &[&column, values])?;
        let sums = cx.op_with("sum", &[&product], attr("axis", vec![2i64]))?;
        return cx.reshape(&sums, &[batch, heads, positions, features]);
    }
    let sums = matmul(cx, &rows, values)?;
    cx.reshape(&sums, &[batch, heads, positions, features])
}

/// Whether a product by `rows`, (batch, heads, positions, features), is of one row for each head, of floats that are
/// summed up as they are.
fn is_one_row(cx: &Cx<'_, '_>, rows: &Value) -> Result<bool, Fault> {
    let dtype = cx.dtype(rows)?;
    Ok(four(cx, rows)?[2] == 1 && [DType::FLOAT32, DType::FLOAT64].contains(&dtype))
}

/// The rows of `value` with the heads of `like`: those of a group of heads follow one another.
fn in_groups(cx: &mut Cx<'_, '_>, value: &Value, like: &Value) -> Result<Value, Fault> {
    let [batch, heads, positions, features] = four(cx, value)?;
    match four(cx, like)?[1] {
        groups if groups == heads => Ok(value.clone()),
        groups @ 1.. if heads % groups == 0 => cx
            .reshape(value, &[batch, groups, (heads / groups).saturating_mul(positions), features]),
        found => Err(format!("expected heads of keys that divide {heads}, found {found}").into()),
    }
}

/// `product` within the attribute `softcap`, where that is not 0.
pub(super) fn capped(cx: &mut Cx<'_, '_>, product: &Value) -> Result<Value, Fault> {
    let cap = cx.float("softcap", 0.0)?;
    if cap == 0.0 {
        return Ok(product.clone());
    }
    let part = cx.with_scalar("divide", product, cap)?;
    let part = cx.op("tanh", &[&part])?;
    cx.with_scalar("multiply", &part, cap)
}

/// `value`, of shape (batch, positions, features), by `count` heads: (batch, heads, positions, features of one).
pub(super) fn by_head(cx: &mut Cx<'_, '_>, value: &Value, count: i64) -> Result<Value, Fault> {
    let value = in_heads(cx, value, count)?;
    cx.transpose(&value, &[0, 2, 1, 3])
}

/// `value`, of shape (batch, positions, features), as (batch, positions, heads, features of one).
pub(super) fn in_heads(cx: &mut Cx<'_, '_>, value: &Value, count: i64) -> Result<Value, Fault> {
    let shape = cx.shape(value)?;
    let [batch, positions, features] = shape[..] else {
        return Err(format!("expected an operand of rank 3, found extents {shape:?}").into());
    };
    if count < 1 || features % count != 0 {
        return Err(format!("expected heads that divide {features}, found {count}").into());
    }
    cx.reshape(value, &[batch, positions, count, features / count])
}

/// The opposite of [`by_head`].
pub(super) fn side_by_side(cx: &mut Cx<'_, '_>, value: &Value) -> Result<Value, Fault> {
    let value = cx.transpose(value, &[0, 2, 1, 3])?;
    let [batch, positions, count, features] = four(cx, &value)?;
    cx.reshape(&value, &[batch, positions, count * features])
}

/// What is added to the products: of the mask, of the order of positions, and of what keys are no more
/// than padding.
fn biases(
    cx: &mut Cx<'_, '_>,
    queries: &[i64],
    keys: &Value,
    past: i64,
) -> Result<Vec<Value>, Fault> {
    let dtype = cx.dtype(keys)?;
    let (from, to) = (queries[2], four(cx, keys)?[2]);
    let mut found = vec![];
    if let Some(mask) = cx.optional(3) {
        let mask = match cx.dtype(&mask)?.is_bool() {
            true => forbidding(cx, &mask, dtype)?,
            false => mask,
        };
        found.push(padded(cx, mask, to)?);
    }
    if cx.flag("is_causal", false)? {
        let rows = usize::try_from(from).unwrap_or(0);
        let columns = usize::try_from(to).unwrap_or(0);
        let behind = |at: usize| (at % columns) as i64 - past > (at / columns) as i64;
        let elements: Vec<f64> = (0..rows * columns)
            .map(|at| if behind(at) { f64::NEG_INFINITY } else { 0.0 })
            .collect();
        let bias = TensorData::from_f64(dtype, &[from, to], &elements);
        found.push(Value::Constant(bias.map_err(|error| error.to_string())?));
    }
    if let Some(counts) = cx.optional(6) {
        let places: Vec<i64> = (0..to).collect();
        let places = cx.int_vector(&places);
        let counts = cx.cast(&counts, DType::INT64)?;
        let counts = cx.expand_dims(&counts, 1)?;
        let is_there = cx.op("less", &[&places, &counts])?;
        let bias = forbidding(cx, &is_there, dtype)?;
        found.push(cx.reshape(&bias, &[queries[0], 1, 1, to])?);
    }
    Ok(found)
}

/// 0 where `allowed`, else the least number.
fn forbidding(cx: &mut Cx<'_, '_>, allowed: &Value, dtype: DType) -> Result<Value, Fault> {
    let zero = Value::Constant(crate::tensors::scalar(dtype, 0.0));
    let least = Value::Constant(crate::tensors::scalar(dtype, f64::NEG_INFINITY));
    cx.op("where", &[allowed, &zero, &least])
}

/// A mask that says nothing of the last positions forbids them.
fn padded(cx: &mut Cx<'_, '_>, mask: Value, positions: i64) -> Result<Value, Fault> {
    let (shape, dtype) = (cx.shape(&mask)?, cx.dtype(&mask)?);
    let Some(more) = shape.last().map(|last| positions - last).filter(|more| *more > 0) else {
        return Ok(mask);
    };
    let mut widths = vec![vec![0i64, 0]; shape.len()];
    widths[shape.len() - 1][1] = more;
    let least = Value::Constant(crate::tensors::scalar(dtype, f64::NEG_INFINITY));
    cx.op_with("nn.pad", &[&mask, &least], attr("pad_width", widths))
}

fn rotary_embedding(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, mut cosines, mut sines) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    if let Some(places) = cx.optional(3) {
        let attrs = attr("axis", 0i64);
        cosines = cx.op_with("take", &[&cosines, &places], attrs)?;
        sines = cx.op_with("take", &[&sines, &places], attrs)?;
    }
    let is_interleaved = cx.flag("interleaved", false)?;
    let given = cx.shape(&data)?;
    match given.len() {
        4 => {
            let data = cx.transpose(&data, &[0, 2, 1, 3])?;
            let result = turned(cx, &data, [&cosines, &sines], is_interleaved)?;
            cx.transpose(&result, &[0, 2, 1, 3])
        }
        _ => {
            let heads = cx.required_int("num_heads")?;
            let data = in_heads(cx, &data, heads)?;
            let result = turned(cx, &data, [&cosines, &sines], is_interleaved)?;
            cx.reshape(&result, &given)
        }
    }
}

/// `data`, of shape (batch, positions, heads, features), with pairs of features turned by angles whose cosines
/// and sines have the shape (batch, positions, pairs): the first ones, as many as `rotary_embedding_dim` says.
pub(super) fn turned(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    [cosines, sines]: [&Value; 2],
    is_interleaved: bool,
) -> Result<Value, Fault> {
    let [batch, positions, heads, features] = four(cx, data)?;
    let turned = match cx.int("rotary_embedding_dim", 0)? {
        0 => features,
        turned if (2..=features).contains(&turned) && turned % 2 == 0 => turned,
        other => {
            return Err(format!(
                "expected an even `rotary_embedding_dim` of at most {features}, found {other}"
            )
            .into());
        }
    };
    let axis = cx.rank(cosines)? as i64 - 1;
    let (cosines, sines) = (cx.expand_dims(cosines, axis)?, cx.expand_dims(sines, axis)?);
    let (second, step) = if is_interleaved { (1, 2) } else { (turned / 2, 1) };
    let ends = if is_interleaved { [turned, turned] } else { [turned / 2, turned] };
    let part = |cx: &mut Cx<'_, '_>, begin: i64, end: i64, step: i64| {
        let attrs = attr("begin", vec![begin]).with("end", &vec![end]);
        let attrs = attrs.with("strides", &vec![step]).with("axes", &vec![3i64]);
        cx.op_with("strided_slice", &[data], attrs)
    };
    let (x, y) = (part(cx, 0, ends[0], step)?, part(cx, second, ends[1], step)?);
    let sum = |cx: &mut Cx<'_, '_>, name: &str, a: (&Value, &Value), b: (&Value, &Value)| {
        let (a, b) = (cx.op("multiply", &[a.0, a.1])?, cx.op("multiply", &[b.0, b.1])?);
        cx.op(name, &[&a, &b])
    };
    let real = sum(cx, "subtract", (&cosines, &x), (&sines, &y))?;
    let imaginary = sum(cx, "add", (&sines, &x), (&cosines, &y))?;
    let result = match is_interleaved {
        true => {
            let pair = [cx.expand_dims(&real, 4)?, cx.expand_dims(&imaginary, 4)?];
            let both = cx.concatenate(&pair, 4)?;
            cx.reshape(&both, &[batch, positions, heads, turned])?
        }
        false => cx.concatenate(&[real, imaginary], 3)?,
    };
    if turned == features {
        return Ok(result);
    }
    let rest = part(cx, turned, features, 1)?;
    cx.concatenate(&[result, rest], 3)
}
