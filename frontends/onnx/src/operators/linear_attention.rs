//! Attention that is a recurrence, and the convolution that goes with it.

use ir_core::{DType, Dim};

use super::linear::matmul;
use super::{Operator, many};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, few};

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "CausalConvWithState",
        "`concatenate`, `nn.conv1d`, `nn.bias_add`, `sigmoid`; known extents",
        causal_convolution,
    ),
    many(
        "LinearAttention",
        "`nn.batch_matmul`, `multiply` and `add`, one position after the other; known extents",
        linear_attention,
    ),
];

/// Positions are written one after the other, so that there are at most so many.
const MOST_POSITIONS: i64 = 1000;

fn causal_convolution(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let (data, weight) = (cx.input(0)?, cx.input(1)?);
    let (shape, dtype) = (cx.shape(&data)?, cx.dtype(&data)?);
    let (&[batch, channels, length], &[outputs, 1, width]) =
        (shape.as_slice(), cx.shape(&weight)?.as_slice())
    else {
        return Err(format!(
            "expected operands of shape (batch, channels, length) and \
            (channels, 1, width), found {shape:?} and {:?}",
            cx.shape(&weight)?
        )
        .into());
    };
    if outputs != channels || width < 1 {
        return Err(format!("expected a kernel of {channels} channels, found {outputs}").into());
    }
    let before = match cx.optional(3) {
        Some(state) => state,
        None => cx.zeros(dtype, &[batch, channels, width - 1])?,
    };
    let padded = cx.concatenate(&[before, data], 2)?;
    let attrs = attr("groups", channels)
        .with("channels", &Some(channels))
        .with("kernel_size", &vec![width]);
    let mut result = cx.op_with("nn.conv1d", &[&padded, &weight], attrs)?;
    if let Some(bias) = cx.optional(2) {
        result = cx.op_with("nn.bias_add", &[&result, &bias], attr("axis", 1i64))?;
    }
    match cx.text("activation", "none")? {
        "none" => {}
        "silu" | "swish" => {
            let wide = cx.cast(&result, DType::FLOAT32)?;
            let gate = cx.op("sigmoid", &[&wide])?;
            let product = cx.op("multiply", &[&wide, &gate])?;
            result = cx.cast(&product, dtype)?;
        }
        other => return Err(format!("expected silu, swish or none, found `{other}`").into()),
    }
    let attrs = attr("begin", vec![length])
        .with("end", &vec![length + width - 1])
        .with("axes", &vec![2i64]);
    let state = cx.op_with("strided_slice", &[&padded], attrs)?;
    Ok(vec![result, state])
}

/// What changes the state besides keys and values.
#[derive(Clone, Copy)]
struct Rule {
    decays: bool,
    corrects: bool,
}

impl Rule {
    fn of(cx: &Cx<'_, '_>) -> Result<Rule, Fault> {
        let (decays, corrects) = match cx.text("update_rule", "gated_delta")? {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => {
                let message =
                    format!("expected linear, gated, delta or gated_delta, found `{other}`");
                return Err(message.into());
            }
        };
        for (index, name, is_used) in [(4, "decay", decays), (5, "beta", corrects)] {
            if cx.optional(index).is_some() != is_used {
                let (expected, found) = if is_used { ("", "none") } else { ("no ", "one") };
                return Err(format!("expected {expected}`{name}`, found {found}").into());
            }
        }
        Ok(Rule { decays, corrects })
    }
}

fn linear_attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let rule = Rule::of(cx)?;
    let (of_queries, of_keys) = (cx.required_int("q_num_heads")?, cx.required_int("kv_num_heads")?);
    if of_keys < 1 || of_queries < 1 || of_queries % of_keys != 0 {
        let message = format!("expected heads that {of_keys} divides, found {of_queries}");
        return Err(message.into());
    }
    let query = cx.input(0)?;
    let (dtype, shape) = (cx.dtype(&query)?, cx.shape(&query)?);
    let &[batch, length, features] = shape.as_slice() else {
        return Err(format!("expected queries of rank 3, found extents {shape:?}").into());
    };
    if length > MOST_POSITIONS {
        return Err(format!("expected at most {MOST_POSITIONS} positions, found {length}").into());
    }
    let queries = positions(cx, 0, of_queries)?;
    let (keys, values) = (positions(cx, 1, of_keys)?, positions(cx, 2, of_keys)?);
    let decay = if rule.decays { positions(cx, 4, of_keys)? } else { vec![] };
    let beta = match rule.corrects {
        true => {
            let beta = cx.input(5)?;
            let heads = cx.ty(&beta)?.shape.last().and_then(|dim| dim.known()).unwrap_or(1);
            positions(cx, 5, heads)?
        }
        false => vec![],
    };
    let (size, width) = (features / of_queries, last_extent(cx, 2)? / of_keys);
    let (mut state, of_state) = match cx.optional(3) {
        Some(state) => {
            let of_state = cx.dtype(&state)?;
            (cx.cast(&state, DType::FLOAT32)?, of_state)
        }
        None => (cx.zeros(DType::FLOAT32, &[batch, of_keys, size, width])?, dtype),
    };
    let others =
        [Some(&keys), Some(&values), rule.decays.then_some(&decay), rule.corrects.then_some(&beta)];
    if others.into_iter().flatten().any(|list| list.len() != queries.len()) {
        return Err(format!("expected operands of {length} positions").into());
    }
    let scale = match cx.float("scale", 0.0)? {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    let mut results = Vec::new();
    for (at, query) in queries.iter().enumerate() {
        let column = cx.transpose(&keys[at], &[0, 1, 3, 2])?;
        if let Some(decay) = decay.get(at) {
            let factor = cx.op("exp", &[decay])?;
            let factor = cx.transpose(&factor, &[0, 1, 3, 2])?;
            state = cx.op("multiply", &[&state, &factor])?;
        }
        let mut value = values[at].clone();
        if let Some(beta) = beta.get(at) {
            let known = matmul(cx, &keys[at], &state)?;
            let news = cx.op("subtract", &[&value, &known])?;
            value = cx.op("multiply", &[beta, &news])?;
        }
        let outer = cx.op("multiply", &[&column, &value])?;
        state = cx.op("add", &[&state, &outer])?;
        let read = match of_queries / of_keys {
            1 => state.clone(),
            times => cx.op_with("repeat", &[&state], attr("repeats", times).with("axis", &1i64))?,
        };
        let product = matmul(cx, query, &read)?;
        results.push(cx.with_scalar("multiply", &product, scale)?);
    }
    let result = match results.is_empty() {
        true => cx.zeros(DType::FLOAT32, &[batch, of_queries, 0, width])?,
        false => cx.concatenate(&results, 2)?,
    };
    let result = cx.transpose(&result, &[0, 2, 1, 3])?;
    let result = cx.reshape(&result, &[batch, length, of_queries * width])?;
    Ok(vec![cx.cast(&result, dtype)?, cx.cast(&state, of_state)?])
}

fn last_extent(cx: &Cx<'_, '_>, index: usize) -> Result<i64, Fault> {
    match cx.ty(&cx.input(index)?)?.shape.last().copied().and_then(Dim::known) {
        Some(extent) => Ok(extent),
        None => Err(Fault::Open(format!("expected a known last extent of operand {index}"))),
    }
}

/// Operand `index`, of shape (batch, positions, heads · features), by position: `float32` of shape
/// (batch, heads, 1, features).
fn positions(cx: &mut Cx<'_, '_>, index: usize, heads: i64) -> Result<Vec<Value>, Fault> {
    let data = cx.input(index)?;
    let shape = cx.shape(&data)?;
    few("positions", &[shape.get(1).copied().unwrap_or(0)])?;
    let &[batch, length, features] = shape.as_slice() else {
        return Err(format!("expected operand {index} of rank 3, found extents {shape:?}").into());
    };
    if heads < 1 || features % heads != 0 {
        return Err(format!("expected heads that divide {features}, found {heads}").into());
    }
    let data = cx.reshape(&data, &[batch, length, heads, features / heads])?;
    let data = cx.transpose(&data, &[0, 2, 1, 3])?;
    let data = cx.cast(&data, DType::FLOAT32)?;
    if length == 0 {
        return Ok(vec![]);
    }
    cx.split(&data, length, 2)
}
