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
    let (keys, values) = (repeated(cx, keys, shape[1])?, repeated(cx, values, shape[1])?);

    // Both factors get the root of the scale, as the standard says.
    let (queries_scaled, keys_scaled) = (
        cx.with_scalar("multiply", &queries, scale.sqrt())?,
        cx.with_scalar("multiply", &keys, scale.sqrt())?,
    );
    let turned = cx.transpose(&keys_scaled, &[0, 1, 3, 2])?;
    let product = matmul(cx, &queries_scaled, &turned)?;
    let cap = cx.float("softcap", 0.0)?;
    let capped = match cap == 0.0 {
        true => product.clone(),
        false => {
            let part = cx.with_scalar("divide", &product, cap)?;
            let part = cx.op("tanh", &[&part])?;
            cx.with_scalar("multiply", &part, cap)?
        }
    };
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
    let mut result = matmul(cx, &weights, &values)?;
    if flat {
        result = cx.transpose(&result, &[0, 2, 1, 3])?;
        let [batch, positions, count, features] = four(cx, &result)?;
        result = cx.reshape(&result, &[batch, positions, count * features])?;
    }
    Ok(vec![result, present_keys, present_values, shown])
}

/// Attention whose products and weights pass through graphs of the node.
fn flex_attention(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let Heads { queries, keys, values, .. } = heads(cx, false)?;
    let (shape, dtype) = (four(cx, &queries)?, cx.dtype(&queries)?);
    let scale = cx.float("scale", 1.0 / (shape[3] as f64).sqrt())?;
    let (keys, values) = (repeated(cx, keys, shape[1])?, repeated(cx, values, shape[1])?);
    let queries = cx.with_scalar("multiply", &queries, scale.sqrt())?;
    let keys = cx.with_scalar("multiply", &keys, scale.sqrt())?;
    let turned = cx.transpose(&keys, &[0, 1, 3, 2])?;
    let product = matmul(cx, &queries, &turned)?;
    let usual = if dtype == DType::FLOAT64 { dtype } else { DType::FLOAT32 };
    let precision = cx.element_type("softmax_precision")?.unwrap_or(usual);
    let product = cx.cast(&product, precision)?;
    let product = modified(cx, "score_mod", product)?;
    let weights = cx.op_with("nn.softmax", &[&product], attr("axis", -1i64))?;
    let weights = modified(cx, "prob_mod", weights)?;
    let of_values = cx.dtype(&values)?;
    let values = cx.cast(&values, precision)?;
    let result = matmul(cx, &weights, &values)?;
    cx.cast(&result, of_values)
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

fn four(cx: &Cx<'_, '_>, value: &Value) -> Result<[i64; 4], Fault> {
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
    let mut by_head = |index: usize, count: i64| -> Result<Value, Fault> {
        let value = cx.input(index)?;
        if !flat {
            return Ok(value);
        }
        let shape = cx.shape(&value)?;
        let [batch, positions, features] = shape[..] else {
            return Err(
                format!("expected operand {index} of rank 3, found extents {shape:?}").into()
            );
        };
        if count < 1 || features % count != 0 {
            return Err(format!("expected heads that divide {features}, found {count}").into());
        }
        let value = cx.reshape(&value, &[batch, positions, count, features / count])?;
        cx.transpose(&value, &[0, 2, 1, 3])
    };
    let queries = by_head(0, counts[0])?;
    let (mut keys, mut values) = (by_head(1, counts[1])?, by_head(2, counts[1])?);
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

/// `value` with each head as often as it takes to have `count`.
fn repeated(cx: &mut Cx<'_, '_>, value: Value, count: i64) -> Result<Value, Fault> {
    let heads = four(cx, &value)?[1];
    match heads {
        _ if heads == count => Ok(value),
        1.. if count % heads == 0 => {
            cx.op_with("repeat", &[&value], attr("repeats", count / heads).with("axis", &1i64))
        }
        _ => Err(format!("expected heads of keys that divide {count}, found {heads}").into()),
    }
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
    let given = cx.shape(&data)?;
    // Features of a head last, heads before them.
    let by_head = match given[..] {
        [_, _, _, _] => cx.transpose(&data, &[0, 2, 1, 3])?,
        [batch, positions, features] => {
            let heads = cx.required_int("num_heads")?;
            if heads < 1 || features % heads != 0 {
                return Err(format!("expected heads that divide {features}, found {heads}").into());
            }
            cx.reshape(&data, &[batch, positions, heads, features / heads])?
        }
        _ => {
            return Err(
                format!("expected an operand of rank 3 or 4, found extents {given:?}").into()
            );
        }
    };
    let features = four(cx, &by_head)?[3];
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
    if let Some(places) = cx.optional(3) {
        let attrs = attr("axis", 0i64);
        cosines = cx.op_with("take", &[&cosines, &places], attrs)?;
        sines = cx.op_with("take", &[&sines, &places], attrs)?;
    }
    let (cosines, sines) = (cx.expand_dims(&cosines, 2)?, cx.expand_dims(&sines, 2)?);
    let interleaved = cx.flag("interleaved", false)?;
    let (first, step) = match interleaved {
        true => ([0, 1], 2),
        false => ([0, turned / 2], 1),
    };
    let ends = if interleaved { [turned, turned] } else { [turned / 2, turned] };
    let part = |cx: &mut Cx<'_, '_>, begin: i64, end: i64, step: i64| {
        let attrs = attr("begin", vec![begin]).with("end", &vec![end]);
        let attrs = attrs.with("strides", &vec![step]).with("axes", &vec![3i64]);
        cx.op_with("strided_slice", &[&by_head], attrs)
    };
    let (x, y) = (part(cx, first[0], ends[0], step)?, part(cx, first[1], ends[1], step)?);
    let sum = |cx: &mut Cx<'_, '_>, name: &str, a: (&Value, &Value), b: (&Value, &Value)| {
        let (a, b) = (cx.op("multiply", &[a.0, a.1])?, cx.op("multiply", &[b.0, b.1])?);
        cx.op(name, &[&a, &b])
    };
    let real = sum(cx, "subtract", (&cosines, &x), (&sines, &y))?;
    let imaginary = sum(cx, "add", (&sines, &x), (&cosines, &y))?;
    let mut result = match interleaved {
        true => {
            let pair = [cx.expand_dims(&real, 4)?, cx.expand_dims(&imaginary, 4)?];
            let [batch, positions, heads, _] = four(cx, &by_head)?;
            let both = cx.concatenate(&pair, 4)?;
            cx.reshape(&both, &[batch, positions, heads, turned])?
        }
        false => cx.concatenate(&[real, imaginary], 3)?,
    };
    if turned < features {
        let rest = part(cx, turned, features, 1)?;
        result = cx.concatenate(&[result, rest], 3)?;
    }
    match given.len() {
        4 => cx.transpose(&result, &[0, 2, 1, 3]),
        _ => cx.reshape(&result, &given),
    }
}
