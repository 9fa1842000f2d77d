//! Operators on sequences whose length is not known while a model is imported: lists.

use ir_core::{DType, Dim, Type};

use super::shape::number;
use crate::importer::{Fault, Value, element_of, list_of};
use crate::node::{Cx, attr};

/// The number of elements of a list, of type `int64`.
pub(super) fn length(cx: &mut Cx<'_, '_>, list: &Value) -> Value {
    let none = cx.int_scalar(DType::INT64, 0);
    cx.importer().list_call("sequence_length", &[list, &none], Type::scalar(DType::INT64))
}

/// How many elements stand behind the place `place` of `list`, of which places from 0 on mean the ones before
/// `end` elements more than there are, and negative ones count from the last on.
fn behind(
    cx: &mut Cx<'_, '_>,
    list: &Value,
    place: &Value,
    is_insertion: bool,
) -> Result<Value, Fault> {
    let place = cx.reshape(place, &[])?;
    let place = cx.cast(&place, DType::INT64)?;
    let from_last = i64::from(!is_insertion);
    let shift = cx.int_scalar(DType::INT64, -from_last);
    match number(cx, &place) {
        Some(known) if known < 0.0 => cx.op("subtract", &[&shift, &place]),
        Some(_) => {
            let length = length(cx, list);
            let length = cx.op("add", &[&length, &shift])?;
            cx.op("subtract", &[&length, &place])
        }
        None => {
            let length = length(cx, list);
            let zero = cx.int_scalar(DType::INT64, 0);
            let is_negative = cx.op("less", &[&place, &zero])?;
            let end = cx.op("where", &[&is_negative, &zero, &length])?;
            let end = cx.op("add", &[&end, &shift])?;
            cx.op("subtract", &[&end, &place])
        }
    }
}

/// The element at `place`.
pub(super) fn at(cx: &mut Cx<'_, '_>, sequence: &Value, place: &Value) -> Result<Value, Fault> {
    let list = cx.importer().as_list(sequence, None)?;
    let behind = behind(cx, &list, place, false)?;
    let importer = cx.importer();
    let ty = importer.ty(&list);
    let rest = importer.list_call("sequence_from", &[&list, &behind], ty);
    importer.with_last(&rest, |_, value, _| value)
}

/// The sequence without the element at `place`, or its last one.
pub(super) fn erase(
    cx: &mut Cx<'_, '_>,
    sequence: &Value,
    place: Option<&Value>,
) -> Result<Value, Fault> {
    let list = cx.importer().as_list(sequence, None)?;
    let Some(place) = place else {
        return cx.importer().with_last(&list, |_, _, others| others);
    };
    let behind = behind(cx, &list, place, false)?;
    let importer = cx.importer();
    let ty = importer.ty(&list);
    let rest = importer.list_call("sequence_from", &[&list, &behind], ty);
    importer.with_last(&rest, |importer, _, _| {
        importer.list_call("sequence_erase", &[&list, &behind], ty)
    })
}

/// The sequence with `value` at `place`, or behind its last element.
pub(super) fn insert(
    cx: &mut Cx<'_, '_>,
    sequence: &Value,
    value: &Value,
    place: Option<&Value>,
) -> Result<Value, Fault> {
    cx.ty(value)?;
    let ty = cx.ty_of(value);
    let list = cx.importer().as_list(sequence, Some(ty))?;
    let longer = cx.importer().append(&list, value)?;
    let Some(place) = place else { return Ok(longer) };
    let behind = behind(cx, &list, place, true)?;
    let importer = cx.importer();
    let ty = importer.ty(&longer);
    let rest = importer.list_call("sequence_from", &[&longer, &behind], ty);
    importer.with_last(&rest, |importer, _, _| {
        importer.list_call("sequence_insert", &[&list, &behind, value], ty)
    })
}

/// All elements along one axis, which is a new one where the node says so: neighbours are joined, and then what
/// they became, so that each element is copied as often as the number of elements has digits.
pub(super) fn concatenate(cx: &mut Cx<'_, '_>, list: &Value) -> Result<Value, Fault> {
    let mut list = list.clone();
    let is_new = cx.flag("new_axis", false)?;
    let Some(tensor) = element_of(cx.ty_of(&list)).and_then(|ty| ty.as_tensor()) else {
        return Err(format!("expected a list of tensors, found {}", cx.ty_of(&list)).into());
    };
    let axis = cx.axis(0, tensor.rank() + usize::from(is_new))?;
    let mut dims: Vec<Dim> = tensor.shape.to_vec();
    match is_new {
        true => {
            dims.insert(axis, Dim::Any);
            let longer = |cx: &mut Cx<'_, '_>, values: &[Value]| {
                Ok(vec![cx.expand_dims(&values[0], axis as i64)?])
            };
            list = map(cx, &[list], longer)?.remove(0);
        }
        false => dims[axis] = Dim::Any,
    }
    let whole = Type::tensor(dims, tensor.dtype);
    let importer = cx.importer();
    let join = importer.function(&[whole, whole], whole, |importer, values| {
        let values = [values[1].clone(), values[0].clone()];
        Ok(importer.apply_to_tuple("concatenate", &values, attr("axis", axis as i64))?)
    })?;
    let joined = importer.list_call("sequence_join", &[&join, &list], list_of(whole));
    importer.with_last(&joined, |_, value, _| value)
}

/// The sequences of what `each` makes of the elements at one place of `operands`, of which those that are no
/// sequences count in each place.
pub(super) fn map<'a>(
    cx: &mut Cx<'_, 'a>,
    operands: &[Value],
    mut each: impl FnMut(&mut Cx<'_, 'a>, &[Value]) -> Result<Vec<Value>, Fault>,
) -> Result<Vec<Value>, Fault> {
    let mut lists = Vec::new();
    let sequences = operands.iter().filter(|operand| cx.is_sequence(operand));
    for operand in sequences.collect::<Vec<&Value>>() {
        let list = cx.importer().as_list(operand, None)?;
        let ty = cx.ty_of(&list);
        lists.push(cx.importer().list_call("rev", &[&list], ty));
    }
    let count = length(cx, &lists[0]);
    // The number of elements so far, what is left of the sequences, and what was made of the others.
    let mut first = vec![cx.int_scalar(DType::INT64, 0)];
    first.extend(lists.iter().cloned());
    let mut types: Vec<Type> = first.iter().map(|value| cx.ty_of(value)).collect();
    // What is made of one is taken back: it says of what types results are.
    let recursion = cx.begin_recursion(&types);
    let state = recursion.state.clone();
    let (arguments, _) = next(cx, operands, &state[1..])?;
    let results = each(cx, &arguments)?;
    for result in &results {
        cx.ty(result)?;
    }
    let elements: Vec<Type> = results.iter().map(|result| cx.ty_of(result)).collect();
    cx.abandon_recursion(recursion);
    for element in elements {
        types.push(list_of(element));
        first.push(cx.importer().empty_list(element));
    }
    let mut recursion = cx.begin_recursion(&types);
    let state = recursion.state.clone();
    let goes_on = cx.op("less", &[&state[0], &count])?;
    cx.begin_step(&mut recursion, &goes_on);
    let (rests, made) = state[1..].split_at(lists.len());
    let (arguments, rests) = next(cx, operands, rests)?;
    let results = each(cx, &arguments)?;
    let one = cx.int_scalar(DType::INT64, 1);
    let mut state = vec![cx.op("add", &[&state[0], &one])?];
    state.extend(rests);
    for (list, result) in made.iter().zip(&results) {
        state.push(cx.importer().append(list, result)?);
    }
    let last = cx.end_recursion(recursion, &first, &state);
    let (rests, made) = last[1..].split_at(lists.len());
    let mut made = made.to_vec();
    // The first one is at its end.
    for rest in &rests[1..] {
        made = made.iter().map(|list| cx.importer().where_empty(rest, list)).collect();
    }
    Ok(made)
}

/// What `operands` are for the first elements of `lists`, which are those among them that are sequences, and
/// what is left of these.
fn next(
    cx: &mut Cx<'_, '_>,
    operands: &[Value],
    lists: &[Value],
) -> Result<(Vec<Value>, Vec<Value>), Fault> {
    let (mut arguments, mut rests) = (Vec::new(), Vec::new());
    for operand in operands {
        match lists.get(rests.len()).filter(|_| cx.is_sequence(operand)) {
            None => arguments.push(operand.clone()),
            Some(list) => {
                let both = cx
                    .importer()
                    .with_last(list, |_, value, rest| Value::Sequence([value, rest].into()))?;
                let both = cx.sequence(&both)?;
                arguments.push(both[0].clone());
                rests.push(both[1].clone());
            }
        }
    }
    Ok((arguments, rests))
}
