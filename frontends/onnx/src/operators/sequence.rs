//! Sequences and optional values. Both are known while a model is imported: how long a sequence is,
//! and whether a value is there. What becomes an input, a result, or a state is a tuple.

use ir_core::DType;

use super::shape::number;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("ConcatFromSequence", "`concatenate` or `stack`", |cx| {
        let parts = sequence(cx, 0)?;
        let Some(first) = parts.first() else {
            return Err("expected a sequence that is not empty".into());
        };
        let rank = cx.rank(first)?;
        match cx.flag("new_axis", false)? {
            false => {
                let axis = cx.axis(0, rank)? as i64;
                cx.concatenate(&parts, axis)
            }
            true => {
                let axis = cx.axis(0, rank + 1)? as i64;
                let parts = parts.iter().map(|part| cx.expand_dims(part, axis));
                let parts = parts.collect::<Result<Vec<Value>, Fault>>()?;
                cx.concatenate(&parts, axis)
            }
        }
    }),
    one("Optional", "its operand", |cx| Ok(cx.optional(0).unwrap_or(Value::Absent))),
    one("OptionalGetElement", "its operand", |cx| match cx.input(0)? {
        Value::Absent => Err("expected an optional value that is there".into()),
        value => Ok(value),
    }),
    one("OptionalHasElement", "a constant", |cx| {
        let is_there = !matches!(cx.optional(0), None | Some(Value::Absent));
        Ok(cx.int_scalar(DType::BOOL, is_there.into()))
    }),
    one("SequenceAt", "an element of a tuple; a constant position", |cx| {
        let values = sequence(cx, 0)?;
        let place = place(cx, 1, values.len(), values.len())?;
        Ok(values[place].clone())
    }),
    one("SequenceConstruct", "a tuple", |cx| {
        let values = cx.all_inputs()?;
        checked(cx, values)
    }),
    one("SequenceEmpty", "a tuple", |_| Ok(Value::Sequence([].into()))),
    one("SequenceErase", "a tuple; a constant position", |cx| {
        let mut values = sequence(cx, 0)?;
        let place = match cx.optional(1) {
            Some(_) => place(cx, 1, values.len(), values.len())?,
            None => values.len().checked_sub(1).ok_or("expected a sequence that is not empty")?,
        };
        values.remove(place);
        Ok(Value::Sequence(values.into()))
    }),
    one("SequenceInsert", "a tuple; a constant position", |cx| {
        let (mut values, value) = (sequence(cx, 0)?, cx.input(1)?);
        let place = match cx.optional(2) {
            Some(_) => place(cx, 2, values.len(), values.len() + 1)?,
            None => values.len(),
        };
        values.insert(place, value);
        checked(cx, values)
    }),
    one("SequenceLength", "a constant", |cx| {
        let length = sequence(cx, 0)?.len();
        Ok(cx.int_scalar(DType::INT64, length as i64))
    }),
    many("SequenceMap", "its body for each element", |cx| {
        let (body, values) = (cx.graph("body")?, sequence(cx, 0)?);
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
        let others: Vec<Value> =
            (1..cx.input_count()).map(|index| cx.input(index)).collect::<Result<_, Fault>>()?;
        for (index, value) in values.iter().enumerate() {
            let mut arguments = vec![value.clone()];
            for other in &others {
                arguments.push(match cx.is_sequence(other) {
                    true => cx.sequence(other)?.get(index).cloned().ok_or_else(|| {
                        format!("expected sequences of {} elements", values.len())
                    })?,
                    false => other.clone(),
                });
            }
            if body.inputs.len() != arguments.len() {
                let (expected, found) = (arguments.len(), body.inputs.len());
                return Err(format!("expected a body of {expected} inputs, found {found}").into());
            }
            for (column, result) in columns.iter_mut().zip(cx.inline(&body, &arguments)?) {
                column.push(result);
            }
        }
        columns.into_iter().map(|column| checked(cx, column)).collect()
    }),
    one("SplitToSequence", "`split`; constant sizes", split_to_sequence),
];

/// Sequences are copied when one element changes.
const MOST_ELEMENTS: usize = 10_000;

/// The sequence of `values`, which are tensors.
fn checked(cx: &Cx<'_, '_>, values: Vec<Value>) -> Result<Value, Fault> {
    if values.len() > MOST_ELEMENTS {
        let found = values.len();
        return Err(format!("expected at most {MOST_ELEMENTS} elements, found {found}").into());
    }
    for value in &values {
        cx.ty(value)?;
    }
    Ok(Value::Sequence(values.into()))
}

/// The elements of operand `index`, a sequence.
fn sequence(cx: &mut Cx<'_, '_>, index: usize) -> Result<Vec<Value>, Fault> {
    let value = cx.input(index)?;
    cx.sequence(&value)
}

/// The place in a sequence of `length` elements that operand `index` says, below `end`; negative ones
/// count from the end of the sequence.
fn place(cx: &Cx<'_, '_>, index: usize, length: usize, end: usize) -> Result<usize, Fault> {
    let value = cx.input(index)?;
    let Some(found) = number(cx, &value) else {
        return Err("expected a constant position".into());
    };
    let counted = if found < 0.0 { found + length as f64 } else { found };
    match counted >= 0.0 && counted < end as f64 {
        true => Ok(counted as usize),
        false => Err(format!("expected a position below {end}, found {found}").into()),
    }
}

fn split_to_sequence(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let ty = cx.ty(&data)?;
    let axis = cx.axis(0, ty.rank())?;
    let Some(extent) = ty.shape[axis].known() else {
        return Err(Fault::Open(format!("expected a known extent on axis {axis}")));
    };
    if extent > MOST_ELEMENTS as i64 {
        return Err(format!("expected at most {MOST_ELEMENTS} parts, found {extent}").into());
    }
    let sizes = match cx.optional(1) {
        None => vec![1; usize::try_from(extent).unwrap_or(0)],
        Some(split) => {
            let Some(sizes) = cx.known_ints(&split) else {
                return Err("expected a constant as `split`".into());
            };
            match (cx.rank(&split)?, sizes.as_slice()) {
                (0, &[size]) if size > 0 => {
                    let whole = vec![size; usize::try_from(extent / size).unwrap_or(0)];
                    let rest = extent % size;
                    whole.into_iter().chain((rest > 0).then_some(rest)).collect()
                }
                (1, _) if sizes.iter().all(|size| *size >= 0) => sizes,
                _ => return Err(format!("expected sizes of parts, found {sizes:?}").into()),
            }
        }
    };
    let total = sizes.iter().fold(0i64, |total, size| total.saturating_add(*size));
    if total != extent {
        return Err(format!("expected parts of {extent} in all, found {total}").into());
    }
    let mut parts = match sizes.as_slice() {
        [] => vec![],
        [_] => vec![data.clone()],
        [first @ .., _] => {
            let mut end = 0;
            let places: Vec<i64> = first
                .iter()
                .map(|size| {
                    end += size;
                    end
                })
                .collect();
            let attrs = attr("indices_or_sections", places).with("axis", &(axis as i64));
            cx.fields_of("split", &[&data], attrs)?
        }
    };
    if cx.optional(1).is_none() && !cx.flag("keepdims", true)? {
        let axis = axis as i64;
        let squeezed = parts.iter().map(|part| cx.squeeze(part, &[axis]));
        parts = squeezed.collect::<Result<_, Fault>>()?;
    }
    Ok(Value::Sequence(parts.into()))
}
