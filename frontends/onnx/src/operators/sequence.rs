//! Sequences and optional values. Whether a value is there is known while a model is imported, and so is
//! mostly how long a sequence is: what becomes an input, a result, or a state is a tuple. Those of other
//! lengths, and what is at a place that is computed, are [lists](super::lists).

use ir_core::DType;

use super::lists;
use super::shape::number;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "ConcatFromSequence",
        "`concatenate` or `stack`; neighbours of a list, and those of what they become",
        |cx| {
            let value = cx.input(0)?;
            if cx.is_list(&value) {
                return lists::concatenate(cx, &value);
            }
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
        },
    ),
    one("Optional", "its operand", |cx| Ok(cx.optional(0).unwrap_or(Value::Absent))),
    one("OptionalGetElement", "its operand", |cx| match cx.input(0)? {
        Value::Absent => Err("expected an optional value that is there".into()),
        value => Ok(value),
    }),
    one("OptionalHasElement", "a constant", |cx| {
        let is_there = !matches!(cx.optional(0), None | Some(Value::Absent));
        Ok(cx.int_scalar(DType::BOOL, is_there.into()))
    }),
    one("SequenceAt", "an element of a tuple or, at a place that is computed, of a list", |cx| {
        let (value, place) = (cx.input(0)?, cx.input(1)?);
        let place = match known(cx, &value, Some(&place)) {
            true => place,
            false => return lists::at(cx, &value, &place),
        };
        let values = cx.sequence(&value)?;
        let place = place_of(cx, &place, values.len(), values.len())?;
        Ok(values[place].clone())
    }),
    one("SequenceConstruct", "a tuple", |cx| {
        let values = cx.all_inputs()?;
        checked(cx, values)
    }),
    one("SequenceEmpty", "a tuple", |_| Ok(Value::Sequence([].into()))),
    one("SequenceErase", "a tuple or, at a place that is computed, a list", |cx| {
        let (value, place) = (cx.input(0)?, cx.optional(1));
        if !known(cx, &value, place.as_ref()) {
            return lists::erase(cx, &value, place.as_ref());
        }
        let mut values = cx.sequence(&value)?;
        let place = match place {
            Some(place) => place_of(cx, &place, values.len(), values.len())?,
            None => values.len().checked_sub(1).ok_or("expected a sequence that is not empty")?,
        };
        values.remove(place);
        Ok(Value::Sequence(values.into()))
    }),
    one("SequenceInsert", "a tuple or, at a place that is computed, a list", |cx| {
        let (sequence, value, place) = (cx.input(0)?, cx.input(1)?, cx.optional(2));
        if !known(cx, &sequence, place.as_ref()) {
            return lists::insert(cx, &sequence, &value, place.as_ref());
        }
        let mut values = cx.sequence(&sequence)?;
        let place = match place {
            Some(place) => place_of(cx, &place, values.len(), values.len() + 1)?,
            None => values.len(),
        };
        values.insert(place, value);
        checked(cx, values)
    }),
    one("SequenceLength", "a constant, or a count of the elements of a list", |cx| {
        let value = cx.input(0)?;
        if cx.is_list(&value) {
            return Ok(lists::length(cx, &value));
        }
        let length = cx.sequence(&value)?.len();
        Ok(cx.int_scalar(DType::INT64, length as i64))
    }),
    many("SequenceMap", "its body for each element; a recursive function over a list", |cx| {
        let body = cx.graph("body")?;
        let operands = cx.all_inputs()?;
        let (expected, found) = (operands.len(), body.inputs.len());
        if expected != found {
            return Err(format!("expected a body of {expected} inputs, found {found}").into());
        }
        if operands.iter().any(|operand| cx.is_list(operand)) {
            return lists::map(cx, &operands, |cx, arguments| cx.inline(&body, arguments));
        }
        let values = sequence(cx, 0)?;
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
        for (index, value) in values.iter().enumerate() {
            let mut arguments = vec![value.clone()];
            for other in &operands[1..] {
                arguments.push(match cx.is_sequence(other) {
                    true => cx.sequence(other)?.get(index).cloned().ok_or_else(|| {
                        format!("expected sequences of {} elements", values.len())
                    })?,
                    false => other.clone(),
                });
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

/// Whether what is at `place` of `sequence` is known, or what is behind its last element.
fn known(cx: &Cx<'_, '_>, sequence: &Value, place: Option<&Value>) -> bool {
    !cx.is_list(sequence) && place.is_none_or(|place| number(cx, place).is_some())
}

/// The place in a sequence of `length` elements that `value` says, below `end`; negative ones count from
/// the end of the sequence.
fn place_of(cx: &Cx<'_, '_>, value: &Value, length: usize, end: usize) -> Result<usize, Fault> {
    let Some(found) = number(cx, value) else {
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
