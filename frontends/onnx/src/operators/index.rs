//! Slices, gathering and scattering.

use ir_core::{DType, TensorData};

use super::shape::number;
use super::vision::first_rows;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, all_from_front, attr, attrs, bounded, few, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("Compress", "`argwhere`, `take`", |cx| {
        let (mut data, condition) = (cx.input(0)?, cx.input(1)?);
        let axis = match cx.int_if("axis")? {
            Some(axis) => from_front(axis, cx.rank(&data)?)?,
            None => {
                data = cx.reshape(&data, &[-1])?;
                0
            }
        };
        // A condition may say nothing of the last elements.
        let places = cx.op("argwhere", &[&condition])?;
        let places = cx.squeeze(&places, &[1])?;
        cx.op_with("take", &[&data, &places], attr("axis", axis as i64))
    })
    .moving(),
    one("Gather", "`take`", |cx| {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let rank = cx.rank(&data)?;
        let axis = cx.axis(0, rank)?;
        let elements = cx.elements(&data).filter(|_| rank == 1);
        let places = cx.known_ints(&indices).filter(|places| places.len() <= 1000);
        // A constant index gets its place; one that is computed may be negative.
        let extent = cx.ty(&data)?.shape[axis].known();
        let constant = cx.constant(&indices).zip(extent).and_then(|(tensor, extent)| {
            let places = tensor.to_i64();
            let inside = places.iter().all(|place| (-extent..extent).contains(place));
            let places: Vec<i64> =
                places.iter().map(|at| if *at < 0 { at + extent } else { *at }).collect();
            let places = TensorData::from_i64(tensor.dtype(), tensor.shape(), &places).ok()?;
            inside.then_some(Value::Constant(places))
        });
        let attrs = attr("axis", axis as i64);
        let result = match constant {
            Some(indices) => cx.op_with("take", &[&data, &indices], attrs)?,
            None => {
                cx.op_with("take", &[&data, &indices], attrs.with("mode", &"wrap".to_string()))?
            }
        };
        let (Some(elements), Some(places)) = (elements, places) else { return Ok(result) };
        let count = elements.len() as i64;
        let picked = places.iter().map(|at| if *at < 0 { at + count } else { *at });
        let picked = picked.map(|at| elements.get(usize::try_from(at).ok()?).copied());
        Ok(match picked.collect::<Option<Vec<_>>>() {
            Some(picked) => cx.with_elements(result, picked),
            None => result,
        })
    })
    .moving(),
    one("GatherElements", "`gather`", |cx| {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = cx.axis(0, cx.rank(&data)?)?;
        cx.op_with("gather", &[&data, &indices], attr("axis", axis as i64))
    })
    .moving(),
    one("GatherND", "`transpose` of the indices, `gather_nd`", |cx| {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let indices = tuples_first(cx, &indices)?;
        let batch = cx.int("batch_dims", 0)?;
        cx.op_with("gather_nd", &[&data, &indices], attr("batch_dims", batch))
    })
    .moving(),
    one("NonZero", "`argwhere`, `transpose`, `cast`", |cx| {
        let places = cx.unary("argwhere")?;
        let places = cx.transpose(&places, &[1, 0])?;
        cx.cast(&places, DType::INT64)
    }),
    one("OneHot", "`one_hot`; a constant depth and values", one_hot),
    one("ReverseSequence", "`reverse_sequence`", |cx| {
        let (data, lengths) = (cx.input(0)?, cx.input(1)?);
        let attrs =
            attr("seq_axis", cx.int("time_axis", 0)?).with("batch_axis", &cx.int("batch_axis", 1)?);
        cx.op_with("reverse_sequence", &[&data, &lengths], attrs)
    })
    .moving(),
    one("Scatter", "`scatter_elements`", scatter_elements),
    one("ScatterElements", "`scatter_elements`", scatter_elements),
    one("ScatterND", "`transpose` of the indices, `scatter_nd`", |cx| {
        let (data, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let indices = tuples_first(cx, &indices)?;
        let attrs = attr("mode", reduction(cx)?);
        cx.op_with("scatter_nd", &[&data, &indices, &updates], attrs)
    }),
    one("TensorScatter", "`scatter_nd`; known extents", tensor_scatter),
    many("Unique", "`unique`, `dyn.strided_slice`", unique),
    one("Slice", "`strided_slice`, or `dyn.strided_slice` for bounds that are computed", slice)
        .moving(),
    one("Trilu", "`trilu`", |cx| {
        let data = cx.input(0)?;
        let diagonal = match cx.optional(1) {
            Some(diagonal) => cx.reshape(&diagonal, &[])?,
            None => cx.int_scalar(DType::INT64, 0),
        };
        let attrs = attr("upper", cx.flag("upper", true)?);
        cx.op_with("trilu", &[&data, &diagonal], attrs)
    }),
];

/// Index tuples along the first axis, not the last.
fn tuples_first(cx: &mut Cx<'_, '_>, indices: &Value) -> Result<Value, Fault> {
    let rank = cx.rank(indices)? as i64;
    if rank == 0 {
        return Err("expected indices of rank at least 1, found a scalar".into());
    }
    let axes: Vec<i64> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
    cx.transpose(indices, &axes)
}

fn unique(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let mut data = cx.input(0)?;
    let axis = match cx.int_if("axis")? {
        Some(axis) => from_front(axis, cx.rank(&data)?)?,
        None => {
            data = cx.reshape(&data, &[-1])?;
            0
        }
    };
    let attrs = attr("sorted", cx.flag("sorted", true)?)
        .with("return_counts", &true)
        .with("axis", &Some(axis as i64));
    let fields = cx.fields_of("unique", &[&data], attrs)?;
    let [values, first, places, number, counts] = &fields[..] else {
        return Err(format!("`unique`: expected five fields, found {}", fields.len()).into());
    };
    let values = first_rows(cx, values, number, axis as i64)?;
    let mut results = vec![values];
    for (field, is_cut) in [(first, true), (places, false), (counts, true)] {
        let field = if is_cut { first_rows(cx, field, number, 0)? } else { field.clone() };
        results.push(cx.cast(&field, DType::INT64)?);
    }
    Ok(results)
}

/// `past` with `update` written from a place on that each batch has of its own.
fn tensor_scatter(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (past, update) = (cx.input(0)?, cx.input(1)?);
    let rank = cx.rank(&past)?;
    let axis = cx.axis(-2, rank)?;
    if axis == 0 {
        return Err("expected an axis behind that of the batches".into());
    }
    let (shape, new) = (cx.shape(&past)?, cx.shape(&update)?);
    let (batch, length, extent) = (shape[0], new.get(axis).copied().unwrap_or(0), shape[axis]);
    few("places to write", &[batch, length])?;
    bounded("extents", &[extent], 0)?;
    // The axis that is written along behind that of the batches, and back.
    let others = (1..rank as i64).filter(|at| *at != axis as i64);
    let order: Vec<i64> = [0, axis as i64].into_iter().chain(others).collect();
    let mut back = vec![0i64; rank];
    order.iter().enumerate().for_each(|(at, from)| back[*from as usize] = at as i64);
    let (past, update) = (cx.transpose(&past, &order)?, cx.transpose(&update, &order)?);
    let along = cx.int_vector(&(0..length).collect::<Vec<i64>>());
    let mut places = match cx.optional(2) {
        Some(start) => {
            let start = cx.cast(&start, DType::INT64)?;
            let start = cx.reshape(&start, &[batch, 1])?;
            cx.op("add", &[&start, &along])?
        }
        None => cx.op_with("broadcast_to", &[&along], attr("shape", vec![batch, length]))?,
    };
    match cx.text("mode", "linear")? {
        "linear" => {}
        "circular" => places = cx.with_scalar("floor_mod", &places, extent as f64)?,
        other => return Err(format!("expected linear or circular, found `{other}`").into()),
    }
    let batches = cx.int_vector(&(0..batch).collect::<Vec<i64>>());
    let batches = cx.reshape(&batches, &[batch, 1])?;
    let batches = cx.op_with("broadcast_to", &[&batches], attr("shape", vec![batch, length]))?;
    let pair = [cx.expand_dims(&batches, 0)?, cx.expand_dims(&places, 0)?];
    let places = cx.concatenate(&pair, 0)?;
    let written = cx.op("scatter_nd", &[&past, &places, &update])?;
    cx.transpose(&written, &back)
}

fn reduction(cx: &Cx<'_, '_>) -> Result<String, Fault> {
    match cx.text("reduction", "none")? {
        "none" => Ok("update".to_string()),
        known @ ("add" | "mul" | "min" | "max") => Ok(known.to_string()),
        other => {
            Err(format!("expected a reduction none, add, mul, min or max, found `{other}`").into())
        }
    }
}

fn scatter_elements(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let axis = cx.axis(0, cx.rank(&data)?)?;
    let attrs = attr("axis", axis as i64).with("reduction", &reduction(cx)?);
    cx.op_with("scatter_elements", &[&data, &indices, &updates], attrs)
}

fn one_hot(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (indices, depth, values) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let Some(depth) = number(cx, &depth).filter(|depth| *depth >= 0.0) else {
        return Err("expected a constant as `depth`".into());
    };
    let Some(pair) = cx.constant(&values).filter(|values| values.len() == 2) else {
        return Err("expected two constants as `values`".into());
    };
    let (dtype, pair) = (pair.dtype(), pair.to_f64());
    let off = Value::Constant(crate::tensors::scalar(dtype, pair[0]));
    let on = Value::Constant(crate::tensors::scalar(dtype, pair[1]));
    let indices = cx.cast(&indices, DType::INT64)?;
    // Negative indices count from the back.
    let is_negative = cx.with_scalar("less", &indices, 0.0)?;
    let from_back = cx.with_scalar("add", &indices, depth)?;
    let indices = cx.op("where", &[&is_negative, &from_back, &indices])?;
    let attrs =
        attr("depth", depth as i64).with("axis", &cx.int("axis", -1)?).with("dtype", &dtype);
    cx.op_with("one_hot", &[&indices, &on, &off], attrs)
}

/// Bounds beyond this are the ends; exporters write the greatest integer of some type.
const FAR: i64 = i32::MAX as i64;

fn slice(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let rank = cx.rank(&data)?;
    let old = cx.opset() < 10;
    let bound = |index: usize, name: &str| match old {
        true => cx.ints(name),
        false => Ok(cx.optional(index).and_then(|value| cx.known_ints(&value))),
    };
    let (begin, end) = (bound(1, "starts")?, bound(2, "ends")?);
    let axes = match old {
        true => cx.ints("axes")?,
        false => cx.int_operand(3, "axes")?,
    };
    let steps = match old {
        true => None,
        false => cx.int_operand(4, "steps")?,
    };
    let (Some(begin), Some(end)) = (begin, end) else {
        let (begin, end) = (cx.input(1)?, cx.input(2)?);
        let count = cx.shape(&begin)?.first().copied().unwrap_or(1);
        let axes = axes.unwrap_or_else(|| (0..count).collect());
        let axes = all_from_front(&axes, rank)?;
        let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
        let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
        let dtype = cx.dtype(&begin)?;
        let steps = cx.cast(&cx.int_vector(&steps), dtype)?;
        return cx.op_with("dyn.strided_slice", &[&data, &begin, &end, &steps], attr("axes", axes));
    };
    let axes = axes.unwrap_or_else(|| (0..begin.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; begin.len()]);
    if [end.len(), axes.len(), steps.len()].iter().any(|length| *length != begin.len()) {
        let lengths = [begin.len(), end.len(), axes.len(), steps.len()];
        return Err(format!("expected bounds of one length, found {lengths:?}").into());
    }
    let near = |bounds: &[i64]| bounds.iter().map(|at| (*at).clamp(-FAR, FAR)).collect::<Vec<_>>();
    let axes = axes
        .iter()
        .map(|axis| from_front(*axis, rank).map(|axis| axis as i64))
        .collect::<Result<Vec<_>, Fault>>()?;
    if rank == 1
        && let ([first], [last], [1]) = (&begin[..], &end[..], &steps[..])
        && let Some(count) = cx.elements(&data).map(|elements| elements.len() as i64)
    {
        let place = |at: i64| if at < 0 { at.saturating_add(count) } else { at }.clamp(0, count);
        let (first, last) = (place(*first), place(*last));
        return super::shape::part(cx, &data, first as usize, last.max(first) as usize);
    }
    let mut attrs = attrs().with("begin", &near(&begin)).with("end", &near(&end));
    if steps.iter().any(|step| *step != 1) {
        attrs = attrs.with("strides", &near(&steps));
    }
    let first_axes = axes.iter().enumerate().all(|(at, axis)| at as i64 == *axis);
    if !first_axes {
        attrs = attrs.with("axes", &axes);
    }
    cx.op_with("strided_slice", &[&data], attrs)
}
