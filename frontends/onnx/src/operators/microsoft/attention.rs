//! Attention as the optimizers of transformers write it.

use ir_core::{DType, TensorData};

use super::super::attention::{
    by_head, by_keys, capped, four, in_heads, of_values, side_by_side, turned,
};
use super::super::linear::matmul;
use super::super::{Operator, many, one};
use super::quantized::product_of_integers;
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded, few};

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "com.microsoft.Attention",
        "`nn.matmul`, `nn.batch_matmul`, `nn.softmax`, with masks and caches; no rotation; known extents",
        attention,
    ),
    many(
        "com.microsoft.GroupQueryAttention",
        "`nn.batch_matmul`, `nn.softmax`, as `RotaryEmbedding`; no quantized caches; known extents",
        group_query_attention,
    ),
    many(
        "com.microsoft.MultiHeadAttention",
        "`nn.batch_matmul`, `nn.softmax`, with masks and caches, packed operands too; known extents",
        multi_head_attention,
    ),
    many(
        "com.microsoft.QAttention",
        "`nn.matmul` of integers, and as `Attention`",
        quantized_attention,
    ),
    one("com.microsoft.RotaryEmbedding", "as `RotaryEmbedding`, of other operands", |cx| {
        if cx.flag("is_packed_batching", false)? {
            return Err("expected `is_packed_batching` 0".into());
        }
        let (data, places) = (cx.input(0)?, cx.input(1)?);
        let given = cx.shape(&data)?;
        let data = match given[..] {
            [_, _, _, _] => cx.transpose(&data, &[0, 2, 1, 3])?,
            _ => {
                let heads = match cx.int("num_heads", 0)? {
                    // Where only a part is turned, the count is there; else the tables say it.
                    0 => heads_of_tables(cx, given.last().copied().unwrap_or(0))?,
                    heads => heads,
                };
                in_heads(cx, &data, heads)?
            }
        };
        let positions = four(cx, &data)?[1];
        // One place is that of the first position.
        let places = match cx.rank(&places)? {
            1 => {
                let steps = cx.cast(&counted(cx, positions)?, cx.dtype(&places)?)?;
                let places = cx.op("add", &[&places, &steps])?;
                cx.expand_dims(&places, 0)?
            }
            _ => places,
        };
        let tables = tables(cx, [2, 3], &places)?;
        let is_interleaved = cx.flag("interleaved", false)?;
        let mut result = turned(cx, &data, [&tables[0], &tables[1]], is_interleaved)?;
        if let Some(scale) = cx.float_if("scale")?.filter(|scale| *scale != 1.0) {
            result = cx.with_scalar("multiply", &result, scale)?;
        }
        match given.len() {
            4 => cx.transpose(&result, &[0, 2, 1, 3]),
            _ => cx.reshape(&result, &given),
        }
    }),
];

/// Heads of `features`, each of twice as many as the table of cosines has columns.
fn heads_of_tables(cx: &Cx<'_, '_>, features: i64) -> Result<i64, Fault> {
    let columns = cx.shape(&cx.input(2)?)?.last().copied().unwrap_or(0);
    match columns.checked_mul(2) {
        Some(width @ 1..) if features % width == 0 => Ok(features / width),
        _ => Err(format!("expected cosines that fit {features} features, found {columns}").into()),
    }
}

/// Rows `places` of the tables that are operands `indices`: (batch, positions, pairs) each.
fn tables(cx: &mut Cx<'_, '_>, indices: [usize; 2], places: &Value) -> Result<[Value; 2], Fault> {
    let mut row = |index: usize| {
        let table = cx.input(index)?;
        cx.op_with("take", &[&table, places], attr("axis", 0i64))
    };
    Ok([row(indices[0])?, row(indices[1])?])
}

/// 0, 1, … below `count`, as a vector of `int64`.
fn counted(cx: &Cx<'_, '_>, count: i64) -> Result<Value, Fault> {
    few("positions", &[count])?;
    let places: Vec<i64> = (0..count).collect();
    Ok(cx.int_vector(&places))
}

/// Attention over heads, all of shape (batch, heads, positions, features).
struct Heads {
    queries: Value,
    keys: Value,
    values: Value,
}

impl Heads {
    /// The same, with those of the caches `past`, where they are there, before the keys and values.
    fn after(self, cx: &mut Cx<'_, '_>, past: Option<[Value; 2]>) -> Result<Heads, Fault> {
        let Some([keys, values]) = past else { return Ok(self) };
        Ok(Heads {
            queries: self.queries,
            keys: cx.concatenate(&[keys, self.keys], 2)?,
            values: cx.concatenate(&[values, self.values], 2)?,
        })
    }

    /// Their results side by side, (batch, positions, heads · features): values by what softmax makes of the
    /// products and `biases`, and of `sink`, (heads, 1, 1), for which no value stands.
    fn attend(
        &self,
        cx: &mut Cx<'_, '_>,
        biases: &[Value],
        sink: Option<&Value>,
    ) -> Result<Value, Fault> {
        let [batch, heads, positions, features] = four(cx, &self.queries)?;
        let usual = 1.0 / (features as f64).sqrt();
        let scale = cx.float_if("scale")?.filter(|scale| *scale != 0.0).unwrap_or(usual);
        let queries = cx.with_scalar("multiply", &self.queries, scale)?;
        let product = by_keys(cx, &queries, &self.keys)?;
        let mut logits = capped(cx, &product)?;
        for bias in biases {
            logits = cx.op("add", &[&logits, bias])?;
        }
        let of_keys = four(cx, &logits)?[3];
        if let Some(sink) = sink {
            let shape = vec![batch, heads, positions, 1];
            let sink = cx.op_with("broadcast_to", &[sink], attr("shape", shape))?;
            logits = cx.concatenate(&[logits, sink], 3)?;
        }
        let mut weights = cx.op_with("nn.softmax", &[&logits], attr("axis", -1i64))?;
        if sink.is_some() {
            weights = slice(cx, &weights, 3, [0, of_keys])?;
        }
        let result = of_values(cx, &weights, &self.values)?;
        side_by_side(cx, &result)
    }
}

/// `value` from `begin` to before `end` on `axis`.
fn slice(
    cx: &mut Cx<'_, '_>,
    value: &Value,
    axis: i64,
    [begin, end]: [i64; 2],
) -> Result<Value, Fault> {
    let attrs = attr("begin", vec![begin]).with("end", &vec![end]).with("axes", &vec![axis]);
    cx.op_with("strided_slice", &[value], attrs)
}

/// Parts of `value` along its last axis, of these widths.
fn parts(cx: &mut Cx<'_, '_>, value: &Value, widths: [i64; 3]) -> Result<[Value; 3], Fault> {
    let axis = cx.rank(value)? as i64 - 1;
    let found = cx.shape(value)?.last().copied();
    let total = widths.iter().fold(0i64, |sum, width| sum.saturating_add(*width));
    if found != Some(total) || widths.iter().any(|width| *width < 0) {
        let found = found.unwrap_or(0);
        return Err(format!("expected parts {widths:?} of an axis of {found}").into());
    }
    let [first, second, _] = widths;
    Ok([
        slice(cx, value, axis, [0, first])?,
        slice(cx, value, axis, [first, first + second])?,
        slice(cx, value, axis, [first + second, total])?,
    ])
}

fn attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let (data, weights) = (cx.input(0)?, cx.input(1)?);
    let product = matmul(cx, &data, &weights)?;
    with_projections(cx, &product, [2, 3, 4], Some(5))
}

fn quantized_attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let product = product_of_integers(cx, [0, 3, 6], [1, 4, 7])?;
    with_projections(cx, &product, [2, 5, 8], None)
}

/// Attention whose queries, keys and values stand side by side in `product`; a bias, a mask and a cache of both
/// keys and values are operands, and what is added to the products.
fn with_projections(
    cx: &mut Cx<'_, '_>,
    product: &Value,
    [bias, mask, past]: [usize; 3],
    added: Option<usize>,
) -> Result<Vec<Value>, Fault> {
    if cx.flag("do_rotary", false)? {
        return Err("expected `do_rotary` 0".into());
    }
    let count = cx.required_int("num_heads")?;
    let product = match cx.optional(bias) {
        Some(bias) => cx.op("add", &[product, &bias])?,
        None => product.clone(),
    };
    let width = cx.shape(&product)?.last().copied().unwrap_or(0);
    let widths = cx.ints("qkv_hidden_sizes")?.unwrap_or_else(|| vec![width / 3; 3]);
    let Ok(widths) = <[i64; 3]>::try_from(widths) else {
        return Err("expected three `qkv_hidden_sizes`".into());
    };
    let [queries, keys, values] = parts(cx, &product, widths)?;
    let heads = Heads {
        queries: by_head(cx, &queries, count)?,
        keys: by_head(cx, &keys, count)?,
        values: by_head(cx, &values, count)?,
    };
    let past = match cx.optional(past) {
        Some(both) => Some([field(cx, &both, 0)?, field(cx, &both, 1)?]),
        None => None,
    };
    let heads = heads.after(cx, past)?;
    let biases = biases(cx, &heads, mask, added)?;
    let result = heads.attend(cx, &biases, None)?;
    let mut results = vec![result];
    if cx.wants(1) {
        let both = [cx.expand_dims(&heads.keys, 0)?, cx.expand_dims(&heads.values, 0)?];
        results.push(cx.concatenate(&both, 0)?);
    }
    Ok(results)
}

/// Element `index` along the first axis, without that axis.
fn field(cx: &mut Cx<'_, '_>, value: &Value, index: i64) -> Result<Value, Fault> {
    let part = slice(cx, value, 0, [index, index + 1])?;
    cx.squeeze(&part, &[0])
}

fn multi_head_attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    if cx.optional(8).is_some() || cx.optional(9).is_some() {
        return Err("expected no `past_sequence_length` and no `cache_indirection`".into());
    }
    if cx.wants(3) {
        return Err("expected no products as a result".into());
    }
    let count = cx.required_int("num_heads")?;
    let data = cx.input(0)?;
    // Queries, keys and values, or keys and values, between the heads and their features.
    let unpacked = |cx: &mut Cx<'_, '_>, value: &Value, fields: i64| -> Result<Vec<Value>, Fault> {
        let shape = cx.shape(value)?;
        match shape[..] {
            [_, _, heads, found, _] if heads == count && found == fields => {}
            _ => {
                let message =
                    format!("expected {count} heads of {fields}, found extents {shape:?}");
                return Err(message.into());
            }
        }
        let mut found = Vec::new();
        for index in 0..fields {
            let part = slice(cx, value, 3, [index, index + 1])?;
            let part = cx.squeeze(&part, &[3])?;
            found
                .push(cx.reshape(&part, &[shape[0], shape[1], shape[2].saturating_mul(shape[4])])?);
        }
        Ok(found)
    };
    let operands: Vec<Value> = match (cx.optional(1), cx.optional(2)) {
        (None, None) => unpacked(cx, &data, 3)?,
        (Some(keys), None) => {
            let mut found = unpacked(cx, &keys, 2)?;
            found.insert(0, data);
            found
        }
        (Some(keys), Some(values)) => vec![data, keys, values],
        (None, Some(_)) => return Err("expected keys where there are values".into()),
    };
    let Ok([mut queries, mut keys, mut values]) = <[Value; 3]>::try_from(operands) else {
        return Err("expected queries, keys and values".into());
    };
    // Those of another sequence, which are kept by head, have their bias.
    let are_kept = cx.rank(&keys)? == 4;
    if let Some(bias) = cx.optional(3) {
        let width = |cx: &Cx<'_, '_>, value: &Value| -> Result<i64, Fault> {
            let shape = cx.shape(value)?;
            Ok(if are_kept && shape.len() == 4 {
                shape[1].saturating_mul(shape[3])
            } else {
                shape.last().copied().unwrap_or(0)
            })
        };
        let widths = [width(cx, &queries)?, width(cx, &keys)?, width(cx, &values)?];
        let [of_queries, of_keys, of_values] = parts(cx, &bias, widths)?;
        queries = cx.op("add", &[&queries, &of_queries])?;
        if !are_kept {
            keys = cx.op("add", &[&keys, &of_keys])?;
            values = cx.op("add", &[&values, &of_values])?;
        }
    }
    let queries = by_head(cx, &queries, count)?;
    if !are_kept {
        (keys, values) = (by_head(cx, &keys, count)?, by_head(cx, &values, count)?);
    }
    let past = match (cx.optional(6), cx.optional(7)) {
        (Some(keys), Some(values)) => Some([keys, values]),
        (None, None) => None,
        _ => return Err("expected both `past_key` and `past_value`, or none of them".into()),
    };
    let heads = Heads { queries, keys, values }.after(cx, past)?;
    let biases = biases(cx, &heads, 4, Some(5))?;
    let result = heads.attend(cx, &biases, None)?;
    Ok(vec![result, heads.keys, heads.values])
}

/// What is added to the products of `heads`: of the mask that is operand `mask`, of the order of positions, and
/// operand `added`.
fn biases(
    cx: &mut Cx<'_, '_>,
    heads: &Heads,
    mask: usize,
    added: Option<usize>,
) -> Result<Vec<Value>, Fault> {
    let [batch, _, positions, _] = four(cx, &heads.queries)?;
    let (of_keys, dtype) = (four(cx, &heads.keys)?[2], cx.dtype(&heads.queries)?);
    let mut found = vec![];
    if let Some(mask) = cx.optional(mask) {
        let allowed = allowed(cx, &mask, [batch, positions, of_keys])?;
        let filter = cx.float("mask_filter_value", -10_000.0)?;
        found.push(chosen(cx, &allowed, dtype, filter)?);
    }
    if cx.flag("unidirectional", false)? && positions > 1 {
        let columns = counted(cx, of_keys)?;
        let rows = counted(cx, positions)?;
        let rows = cx.with_scalar("add", &rows, (of_keys - positions) as f64)?;
        let rows = cx.expand_dims(&rows, 1)?;
        let allowed = cx.op("less_equal", &[&columns, &rows])?;
        found.push(chosen(cx, &allowed, dtype, least(dtype))?);
    }
    found.extend(added.and_then(|added| cx.optional(added)));
    Ok(found)
}

/// Which keys a mask of integers allows, as `bool`, in a shape that goes with (batch, heads, positions, keys).
fn allowed(
    cx: &mut Cx<'_, '_>,
    mask: &Value,
    [batch, positions, of_keys]: [i64; 3],
) -> Result<Value, Fault> {
    let shape = cx.shape(mask)?;
    let one_each = match shape[..] {
        // Where the keys end, and where they begin.
        [count] if count == batch || count == batch.saturating_mul(2) => {
            let places = cx.cast(&counted(cx, of_keys)?, cx.dtype(mask)?)?;
            let by_sample = |cx: &mut Cx<'_, '_>, from: i64| {
                let bounds = slice(cx, mask, 0, [from, from + batch])?;
                cx.reshape(&bounds, &[batch, 1, 1, 1])
            };
            let ends = by_sample(cx, 0)?;
            let mut allowed = cx.op("less", &[&places, &ends])?;
            if count != batch {
                let begins = by_sample(cx, batch)?;
                let is_begun = cx.op("greater_equal", &[&places, &begins])?;
                allowed = cx.op("logical_and", &[&allowed, &is_begun])?;
            }
            return Ok(allowed);
        }
        [rows, columns] if rows == batch && columns == of_keys => vec![batch, 1, 1, of_keys],
        [samples, rows, columns] if samples == batch && rows == positions && columns == of_keys => {
            vec![batch, 1, positions, of_keys]
        }
        _ => {
            return Err(format!(
                "expected a mask of {batch} lengths, or of extents {:?} or {:?}, found {shape:?}",
                [batch, of_keys],
                [batch, positions, of_keys]
            )
            .into());
        }
    };
    let mask = cx.reshape(mask, &one_each)?;
    match cx.dtype(&mask)?.is_bool() {
        true => Ok(mask),
        false => cx.with_scalar("greater", &mask, 0.0),
    }
}

/// 0 where `allowed`, else `filter`.
fn chosen(cx: &mut Cx<'_, '_>, allowed: &Value, dtype: DType, filter: f64) -> Result<Value, Fault> {
    let scalar = |number: f64| Value::Constant(crate::tensors::scalar(dtype, number));
    cx.op("where", &[allowed, &scalar(0.0), &scalar(filter)])
}

/// The least finite number.
fn least(dtype: DType) -> f64 {
    if dtype == DType::FLOAT16 { -65504.0 } else { f64::from(f32::MIN) }
}

fn group_query_attention(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    for (index, name) in [(12, "k_scale"), (13, "v_scale")] {
        if cx.optional(index).is_some() {
            return Err(format!("expected no `{name}`: caches of floats").into());
        }
    }
    for name in ["qk_output", "kv_cache_bit_width"] {
        if cx.int(name, 0)? != 0 {
            return Err(format!("expected `{name}` 0").into());
        }
    }
    let (count, groups) = (cx.required_int("num_heads")?, cx.required_int("kv_num_heads")?);
    let data = cx.input(0)?;
    let operands = match (cx.optional(1), cx.optional(2)) {
        (Some(keys), Some(values)) => [data, keys, values],
        (None, None) => {
            let width = cx.shape(&data)?.last().copied().unwrap_or(0);
            let all = count.saturating_add(groups.saturating_mul(2));
            if all < 1 || width % all != 0 {
                return Err(format!("expected heads that divide {width}, found {all}").into());
            }
            let size = width / all;
            parts(cx, &data, [count, groups, groups].map(|heads| heads.saturating_mul(size)))?
        }
        _ => return Err("expected both keys and values, or none of them".into()),
    };
    let [queries, keys, values] = operands;
    let (mut queries, mut keys) = (in_heads(cx, &queries, count)?, in_heads(cx, &keys, groups)?);
    let values = by_head(cx, &values, groups)?;
    let past = match (cx.optional(3), cx.optional(4)) {
        (Some(keys), Some(values)) => Some([keys, values]),
        (None, None) => None,
        _ => return Err("expected both `past_key` and `past_value`, or none of them".into()),
    };
    let caches = Caches::of(cx, four(cx, &queries)?, past)?;
    if cx.flag("do_rotary", false)? {
        let places = match cx.optional(9) {
            Some(places) => places,
            None => caches.places.clone(),
        };
        let [cosines, sines] = tables(cx, [7, 8], &places)?;
        let is_interleaved = cx.flag("rotary_interleaved", false)?;
        queries = turned(cx, &queries, [&cosines, &sines], is_interleaved)?;
        keys = turned(cx, &keys, [&cosines, &sines], is_interleaved)?;
    } else {
        // They say nothing then.
        let _ = [7, 8, 9].map(|index| cx.optional(index));
    }
    let queries = cx.transpose(&queries, &[0, 2, 1, 3])?;
    let keys = cx.transpose(&keys, &[0, 2, 1, 3])?;
    let dtype = cx.dtype(&queries)?;
    let (present_keys, present_values) = caches.joined(cx, keys, values)?;
    let heads = Heads {
        queries,
        keys: caches.used(cx, &present_keys)?,
        values: caches.used(cx, &present_values)?,
    };
    let mut biases = caches.order(cx, dtype)?;
    biases.extend(cx.optional(10));
    let sink = match (cx.optional(11), cx.flag("smooth_softmax", false)?) {
        (Some(sink), _) => {
            let sink = cx.cast(&sink, dtype)?;
            Some(cx.reshape(&sink, &[count, 1, 1])?)
        }
        (None, true) => Some(cx.full(dtype, &[1, 1, 1], 0.0)?),
        (None, false) => None,
    };
    let result = heads.attend(cx, &biases, sink.as_ref())?;
    Ok(vec![result, present_keys, present_values])
}

/// Where the new positions stand among those of the caches.
struct Caches {
    past: Option<[Value; 2]>,
    batch: i64,
    /// New positions.
    count: i64,
    /// Positions that the caches before and after have, and how many of them are used.
    extents: [i64; 2],
    used: i64,
    /// Positions before the new ones: (batch, 1), or where it is known the same for all.
    before: Value,
    known: Option<i64>,
    /// The new positions: (batch or 1, count).
    places: Value,
}

impl Caches {
    fn of(
        cx: &mut Cx<'_, '_>,
        [batch, count, _, _]: [i64; 4],
        past: Option<[Value; 2]>,
    ) -> Result<Caches, Fault> {
        let (lengths, total) = (cx.input(5)?, cx.input(6)?);
        let kept = match &past {
            Some([keys, _]) => four(cx, keys)?[2],
            None => 0,
        };
        let total = match cx.known_ints(&total).as_deref() {
            Some([total]) => *total,
            _ if kept == 0 => count,
            _ => {
                let message = "expected a known `total_sequence_length` where keys are cached";
                return Err(Fault::Open(message.to_string()));
            }
        };
        bounded("positions", &[kept, count, total], 0)?;
        let present = kept.max(total);
        // All of one sample are used; of several samples, as many as each has.
        let lengths = cx.reshape(&lengths, &[batch, 1])?;
        let lengths = cx.cast(&lengths, DType::INT64)?;
        let known = match count == total {
            true => Some(0),
            false if batch == 1 => Some(total - count),
            false => None,
        };
        if known.is_some_and(|before| !(0..=kept).contains(&before)) {
            return Err(format!(
                "expected {count} positions after {kept} at most, found {total} in all"
            )
            .into());
        }
        let before = match known {
            Some(before) => Value::Constant(
                TensorData::from_i64(DType::INT64, &[1, 1], &[before])
                    .map_err(|error| error.to_string())?,
            ),
            None => {
                let before = cx.with_scalar("subtract", &lengths, (count - 1) as f64)?;
                cx.with_scalar("maximum", &before, 0.0)?
            }
        };
        let steps = counted(cx, count)?;
        let places = cx.op("add", &[&before, &steps])?;
        let extents = [kept, present];
        Ok(Caches { past, batch, count, extents, used: total, before, known, places })
    }

    /// The caches with the new `keys` and `values` where they belong.
    fn joined(
        &self,
        cx: &mut Cx<'_, '_>,
        keys: Value,
        values: Value,
    ) -> Result<(Value, Value), Fault> {
        match &self.past {
            None => Ok((keys, values)),
            Some([of_keys, of_values]) => {
                Ok((self.put(cx, of_keys, keys)?, self.put(cx, of_values, values)?))
            }
        }
    }

    /// The cache `old` with `new` from the first free position on, and zeros behind.
    fn put(&self, cx: &mut Cx<'_, '_>, old: &Value, new: Value) -> Result<Value, Fault> {
        let [kept, present] = self.extents;
        let [_, heads, _, features] = four(cx, &new)?;
        let dtype = cx.dtype(&new)?;
        if let Some(before) = self.known {
            let mut parts = vec![new];
            if before > 0 {
                parts.insert(0, slice(cx, old, 2, [0, before])?);
            }
            let free = present - before - self.count;
            if free > 0 {
                parts.push(cx.zeros(dtype, &[self.batch, heads, free, features])?);
            }
            return cx.concatenate(&parts, 2);
        }
        // Each position is one of these, which stand behind one another.
        let zeros = cx.zeros(dtype, &[self.batch, heads, 1, features])?;
        let all = cx.concatenate(&[old.clone(), new, zeros], 2)?;
        let columns = counted(cx, present)?;
        let step = cx.op("subtract", &[&columns, &self.before])?;
        let is_old = cx.with_scalar("less", &step, 0.0)?;
        let of_new = cx.with_scalar("minimum", &step, self.count as f64)?;
        let of_new = cx.with_scalar("add", &of_new, kept as f64)?;
        let places = cx.op("where", &[&is_old, &columns, &of_new])?;
        let places = cx.reshape(&places, &[self.batch, 1, present, 1])?;
        let shape = vec![self.batch, heads, present, features];
        let places = cx.op_with("broadcast_to", &[&places], attr("shape", shape))?;
        cx.op_with("gather", &[&all, &places], attr("axis", 2i64))
    }

    /// The positions of `cache` that are used.
    fn used(&self, cx: &mut Cx<'_, '_>, cache: &Value) -> Result<Value, Fault> {
        match self.used == self.extents[1] {
            true => Ok(cache.clone()),
            false => slice(cx, cache, 2, [0, self.used]),
        }
    }

    /// What forbids later positions, and those too far back, where there are any.
    fn order(&self, cx: &mut Cx<'_, '_>, dtype: DType) -> Result<Vec<Value>, Fault> {
        let window = cx.int("local_window_size", -1)?;
        let is_near = window < 1 || window >= self.used;
        if self.known.is_some() && self.count == 1 && is_near {
            return Ok(vec![]);
        }
        let columns = counted(cx, self.used)?;
        let rows = cx.expand_dims(&self.places, 2)?;
        let mut allowed = cx.op("less_equal", &[&columns, &rows])?;
        if !is_near {
            let first = cx.with_scalar("subtract", &rows, window as f64)?;
            let is_near = cx.op("greater", &[&columns, &first])?;
            allowed = cx.op("logical_and", &[&allowed, &is_near])?;
        }
        let bias = chosen(cx, &allowed, dtype, least(dtype))?;
        Ok(vec![cx.expand_dims(&bias, 1)?])
    }
}
