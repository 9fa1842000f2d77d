//! Graphs that are computed again and again: `Loop` and `Scan`.
//!
//! Few iterations whose number is known stand one after the other, so that constants fold and
//! neighbours fuse. All others are a recursive function.

use ir_core::{DType, Dim, Scalar, TensorData, Type};

use super::shape::number;
use super::{Operator, many};
use crate::importer::{Fault, Value, list_of};
use crate::node::{Cx, attr, from_front};
use crate::proto::{Extent, Graph, ValueInfo, ValueType};
use crate::tensors::element_type;

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "Loop",
        "its iterations one after the other where their number is known and at most 1000; else a \
        recursive function. Rows that are collected have known extents",
        |cx| Iteration::of_loop(cx)?.results(cx),
    ),
    many("Scan", "as `Loop`; before operator set 9, for each of a known number of batches", scan),
];

/// More iterations become a recursive function.
const MAX_UNROLLED: i64 = 1000;

/// Where a slice of an iteration is in a tensor of all.
#[derive(Clone, Copy)]
struct Along {
    axis: i64,
    /// Whether the first iteration takes the last slice.
    reversed: bool,
}

/// A graph that is computed again and again.
struct Iteration<'a> {
    body: Graph<'a>,
    /// Whether the body takes the number of the iteration and a condition, and says whether another
    /// iteration follows.
    has_condition: bool,
    /// The most iterations, a scalar of type `int64`.
    trips: Option<Value>,
    /// Whether the first iteration takes place, a scalar of type `bool`.
    condition: Option<Value>,
    /// What iterations hand on.
    state: Vec<Value>,
    /// What is taken apart, a slice for each iteration.
    scanned: Vec<(Value, Along)>,
    /// How rows come together.
    collected: Vec<Along>,
}

/// What an iteration makes.
struct Step {
    /// Whether another one follows.
    condition: Option<Value>,
    state: Vec<Value>,
    rows: Vec<Value>,
}

/// How the iterations are a recursive function.
struct Plan {
    /// Whether a condition is a part of the state.
    is_conditional: bool,
    /// The rows that are collected.
    rows: Vec<Rows>,
    /// The most iterations, where that is known: there is room for their rows then.
    trips: Option<i64>,
}

/// What is known of collected rows before the iterations.
struct Rows {
    /// The extents of one.
    shape: Vec<i64>,
    dtype: DType,
}

impl<'a> Iteration<'a> {
    fn of_loop(cx: &mut Cx<'_, 'a>) -> Result<Iteration<'a>, Fault> {
        let body = cx.graph("body")?;
        let mut optional = |index| match cx.optional(index) {
            Some(value) => scalar(cx, value).map(Some),
            None => Ok(None),
        };
        let (trips, condition) = (optional(0)?, optional(1)?);
        let state = (2..cx.input_count()).map(|index| cx.input(index));
        let state = state.collect::<Result<Vec<_>, _>>()?;
        let collected = rows_of(&body, 1 + state.len())?;
        let collected = vec![Along { axis: 0, reversed: false }; collected];
        Ok(Iteration {
            body,
            has_condition: true,
            trips,
            condition,
            state,
            scanned: vec![],
            collected,
        })
    }

    fn of_scan(cx: &mut Cx<'_, 'a>, inputs: &[Value]) -> Result<Iteration<'a>, Fault> {
        let body = cx.graph("body")?;
        let count = usize::try_from(cx.required_int("num_scan_inputs")?).ok();
        let Some(carried) =
            count.filter(|count| *count > 0).and_then(|c| inputs.len().checked_sub(c))
        else {
            let found = inputs.len();
            return Err(format!("expected 1 to {found} `num_scan_inputs`").into());
        };
        let (state, scanned) = inputs.split_at(carried);
        let directions = if cx.opset() < 9 { "directions" } else { "scan_input_directions" };
        let axes = Along::all(cx, ["scan_input_axes", directions], scanned.len())?;
        let mut extents = Vec::new();
        let mut slices = Vec::new();
        for (value, along) in scanned.iter().zip(axes) {
            let axis = from_front(along.axis, cx.rank(value)?)?;
            extents.push(cx.ty(value)?.shape[axis]);
            slices.push((value.clone(), Along { axis: axis as i64, ..along }));
        }
        let known = extents.iter().find_map(|extent| extent.known());
        let differs = |extent: &Dim| extent.known().is_some() && extent.known() != known;
        if extents.iter().any(differs) {
            return Err("expected scanned tensors of one extent along their axes".into());
        }
        let trips = match known {
            Some(extent) => cx.int_scalar(DType::INT64, extent),
            None => {
                let (value, along) = &slices[0];
                let shape = cx.shape_of(value)?;
                let axis = cx.int_scalar(DType::INT64, along.axis);
                cx.op_with("take", &[&shape, &axis], attr("axis", 0i64))?
            }
        };
        let count = rows_of(&body, carried)?;
        let collected = Along::all(cx, ["scan_output_axes", "scan_output_directions"], count)?;
        Ok(Iteration {
            body,
            has_condition: false,
            trips: Some(trips),
            condition: None,
            state: state.to_vec(),
            scanned: slices,
            collected,
        })
    }

    /// What is handed on in the end, and the rows of all iterations.
    fn results(&self, cx: &mut Cx<'_, 'a>) -> Result<Vec<Value>, Fault> {
        let trips = self.trips.as_ref().and_then(|trips| number(cx, trips));
        // Rows of no iteration have the extents that a graph says which is not computed.
        let first = if self.collected.is_empty() { 0.0 } else { 1.0 };
        if trips.is_some_and(|trips| (first..=MAX_UNROLLED as f64).contains(&trips)) {
            let mark = cx.mark();
            if let Some(results) = self.unrolled(cx, trips.unwrap_or(0.0) as i64)? {
                return Ok(results);
            }
            cx.roll_back(mark);
        }
        self.recursive(cx, trips.map(|trips| trips as i64))
    }

    /// The iterations one after the other; `None` where a condition is no constant.
    fn unrolled(&self, cx: &mut Cx<'_, 'a>, trips: i64) -> Result<Option<Vec<Value>>, Fault> {
        let (mut condition, mut state) = (self.condition.clone(), self.state.clone());
        let mut collected: Vec<Vec<Value>> = vec![Vec::new(); self.collected.len()];
        for trip in 0..trips {
            match condition.as_ref().map(|condition| number(cx, condition)) {
                None => {}
                Some(Some(0.0)) => break,
                Some(Some(_)) => {}
                Some(None) => return Ok(None),
            }
            let trip = cx.int_scalar(DType::INT64, trip);
            let step = self.step(cx, &trip, condition.as_ref(), &state)?;
            (condition, state) = (step.condition, step.state);
            for (list, row) in collected.iter_mut().zip(step.rows) {
                list.push(row);
            }
        }
        if collected.first().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        for (mut list, along) in collected.into_iter().zip(&self.collected) {
            if along.reversed {
                list.reverse();
            }
            let axis = along.stacked(cx, &list[0])?;
            let parts = list.iter().map(|part| cx.expand_dims(part, axis));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            state.push(cx.concatenate(&parts, axis)?);
        }
        Ok(Some(state))
    }

    /// One iteration: number `trip`, of type `int64`.
    fn step(
        &self,
        cx: &mut Cx<'_, 'a>,
        trip: &Value,
        condition: Option<&Value>,
        state: &[Value],
    ) -> Result<Step, Fault> {
        let mut arguments = Vec::new();
        if self.has_condition {
            arguments.extend([trip.clone(), condition.cloned().unwrap_or_else(always)]);
        }
        arguments.extend_from_slice(state);
        for (value, along) in &self.scanned {
            let trips = self.trips.as_ref().expect("what is taken apart has as many slices");
            let place = along.place(cx, trips, trip)?;
            arguments.push(cx.op_with("take", &[value, &place], attr("axis", along.axis))?);
        }
        if self.body.inputs.len() != arguments.len() {
            let (expected, found) = (arguments.len(), self.body.inputs.len());
            return Err(format!("expected a body of {expected} inputs, found {found}").into());
        }
        let results = cx.inline(&self.body, &arguments)?;
        let declared = self.body.outputs.iter().zip(results);
        let results = declared.map(|(output, value)| as_declared(cx, output, value));
        let mut results = results.collect::<Result<Vec<_>, _>>()?.into_iter();
        let condition = match self.has_condition {
            true => match results.next() {
                Some(condition) => Some(scalar(cx, condition)?),
                None => None,
            },
            false => None,
        };
        let state = results.by_ref().take(state.len()).collect();
        Ok(Step { condition, state, rows: results.collect() })
    }

    /// The iterations as a recursive function of the number of the iteration, a condition, what
    /// is handed on, and the rows so far.
    fn recursive(&self, cx: &mut Cx<'_, 'a>, trips: Option<i64>) -> Result<Vec<Value>, Fault> {
        if self.state.iter().any(|value| matches!(value, Value::Absent)) {
            return Err(
                "expected a state that is there, found an optional value that is not".into()
            );
        }
        let mut carried: Vec<Type> = self.state.iter().map(|value| cx.ty_of(value)).collect();
        let mut plan = match cx.attempt(|cx| self.plan(cx, trips, &carried, None)) {
            // What looks into a sequence wants an element, and the first one has none.
            Err(_) if self.declare(&mut carried)? => self.plan(cx, trips, &carried, None)?,
            planned => planned?,
        };
        loop {
            let mut first = self.first(cx, plan.is_conditional);
            let before = first.len() - carried.len();
            let mut types: Vec<Type> = first.iter().map(|value| cx.ty_of(value)).collect();
            types[before..].copy_from_slice(&carried);
            for row in &plan.rows {
                types.push(row.ty(trips));
                first.push(row.none_yet(cx, trips)?);
            }
            let mut recursion = cx.begin_recursion(&types);
            let state = recursion.state.clone();
            let goes_on = self.goes_on(cx, &plan, &state)?;
            let ends = goes_on.is_some();
            cx.begin_step(&mut recursion, &goes_on.unwrap_or_else(always));
            let next = self.next(cx, &plan, &state)?;
            // Each time, at least one extent more is open, or one sequence more is a list.
            if let Some(wider) = cx.wider(&recursion, &next)? {
                cx.abandon_recursion(recursion);
                carried = wider[before..before + carried.len()].to_vec();
                plan = self.plan(cx, trips, &carried, Some(plan.rows))?;
            } else if !ends {
                return Err("the iterations never end".into());
            } else {
                let last = cx.end_recursion(recursion, &first, &next);
                return self.last(cx, &plan, &last);
            }
        }
    }

    /// Makes empty sequences among what has the types `carried` lists of the elements that the body declares.
    /// Whether there are some.
    fn declare(&self, carried: &mut [Type]) -> Result<bool, Fault> {
        let inputs = self.body.inputs.iter().skip(if self.has_condition { 2 } else { 0 });
        let mut is_any = false;
        for (ty, input) in carried.iter_mut().zip(inputs) {
            if let ValueType::Sequence(element, Some(extents)) = &input.ty
                && *ty == Type::tuple([])
            {
                let dims = extents.iter().map(|extent| match extent {
                    Extent::Known(extent) => Dim::Known(*extent),
                    _ => Dim::Any,
                });
                *ty = list_of(Type::tensor(dims, element_type(*element)?));
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// The state before the first iteration, without rows.
    fn first(&self, cx: &Cx<'_, 'a>, is_conditional: bool) -> Vec<Value> {
        let mut first = vec![cx.int_scalar(DType::INT64, 0)];
        if is_conditional {
            first.push(self.condition.clone().unwrap_or_else(always));
        }
        first.extend(self.state.iter().cloned());
        first
    }

    /// What only an iteration shows, which is taken back: what it hands on has the types `carried`, and
    /// `rows` are those that are collected, where that is known. The condition may be constant for some types
    /// alone.
    fn plan(
        &self,
        cx: &mut Cx<'_, 'a>,
        trips: Option<i64>,
        carried: &[Type],
        rows: Option<Vec<Rows>>,
    ) -> Result<Plan, Fault> {
        let first = self.first(cx, self.has_condition);
        let before = &first[..first.len() - carried.len()];
        let mut types: Vec<Type> = before.iter().map(|value| cx.ty_of(value)).collect();
        types.extend_from_slice(carried);
        let recursion = cx.begin_recursion(&types);
        let state = &recursion.state;
        let (condition, carried) = match self.has_condition {
            true => (Some(&state[1]), &state[2..]),
            false => (None, &state[1..]),
        };
        let step = self.step(cx, &state[0], condition, carried)?;
        let holds = |cx: &Cx<'_, 'a>, value: &Value| number(cx, value).is_some_and(|n| n != 0.0);
        let begins = self.condition.as_ref().is_none_or(|condition| holds(cx, condition));
        let stays = match (&step.condition, condition) {
            (Some(Value::Computed(next)), Some(Value::Computed(this))) => next == this,
            (Some(next), _) => holds(cx, next),
            (None, _) => true,
        };
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let of = |row| Ok(Rows { shape: cx.shape(row)?, dtype: cx.dtype(row)? });
                step.rows.iter().map(of).collect::<Result<Vec<Rows>, Fault>>()?
            }
        };
        cx.abandon_recursion(recursion);
        Ok(Plan { is_conditional: !(begins && stays), rows, trips })
    }

    /// Whether there is an iteration after `state`; `None` where there always is.
    fn goes_on(
        &self,
        cx: &mut Cx<'_, 'a>,
        plan: &Plan,
        state: &[Value],
    ) -> Result<Option<Value>, Fault> {
        let condition = plan.is_conditional.then(|| state[1].clone());
        let below = match &self.trips {
            Some(trips) => Some(cx.op("less", &[&state[0], trips])?),
            None => None,
        };
        match (condition, below) {
            (Some(condition), Some(below)) => cx.op("logical_and", &[&condition, &below]).map(Some),
            (one, other) => Ok(one.or(other)),
        }
    }

    /// The state after `state`.
    fn next(&self, cx: &mut Cx<'_, 'a>, plan: &Plan, state: &[Value]) -> Result<Vec<Value>, Fault> {
        let (trip, rest) = (&state[0], &state[1..]);
        let (condition, rest) = match plan.is_conditional {
            true => (rest.first(), &rest[1..]),
            false => (None, rest),
        };
        let (carried, collected) = rest.split_at(self.state.len());
        let step = self.step(cx, trip, condition, carried)?;
        let one = cx.int_scalar(DType::INT64, 1);
        let mut next = vec![cx.op("add", &[trip, &one])?];
        next.extend(step.condition.filter(|_| plan.is_conditional));
        next.extend(step.state);
        for ((so_far, row), along) in collected.iter().zip(&step.rows).zip(&self.collected) {
            let row = cx.expand_dims(row, 0)?;
            next.push(match (plan.trips, &self.trips) {
                (Some(_), Some(trips)) => {
                    let place = along.place(cx, trips, trip)?;
                    let place = cx.reshape(&place, &[1, 1])?;
                    cx.op("scatter_nd", &[so_far, &place, &row])?
                }
                _ if along.reversed => cx.concatenate(&[row, so_far.clone()], 0)?,
                _ => cx.concatenate(&[so_far.clone(), row], 0)?,
            });
        }
        Ok(next)
    }

    /// The results, of the last state.
    fn last(&self, cx: &mut Cx<'_, 'a>, plan: &Plan, last: &[Value]) -> Result<Vec<Value>, Fault> {
        let skipped = 1 + usize::from(plan.is_conditional);
        let (state, rows) = last[skipped..].split_at(self.state.len());
        let mut results = state.to_vec();
        for (value, along) in rows.iter().zip(&self.collected) {
            let mut value = value.clone();
            // There is room for all iterations, and some may not have taken place.
            if plan.trips.is_some() && plan.is_conditional {
                let end = cx.reshape(&last[0], &[1])?;
                let (begin, step) = (cx.int_vector(&[0]), cx.int_vector(&[1]));
                let axes = attr("axes", Some(vec![0i64]));
                value = cx.op_with("dyn.strided_slice", &[&value, &begin, &end, &step], axes)?;
            }
            let rank = cx.rank(&value)?;
            let axis = from_front(along.axis, rank)?;
            if axis != 0 {
                let order = (1..=axis).chain([0]).chain(axis + 1..rank).map(|axis| axis as i64);
                value = cx.transpose(&value, &order.collect::<Vec<i64>>())?;
            }
            results.push(value);
        }
        Ok(results)
    }
}

impl Along {
    /// As the attributes say that are called `axes` and `directions`, for `count` tensors.
    fn all(
        cx: &Cx<'_, '_>,
        [axes, directions]: [&str; 2],
        count: usize,
    ) -> Result<Vec<Along>, Fault> {
        let numbers = |name: &str| -> Result<Vec<i64>, Fault> {
            let found = cx.ints(name)?.unwrap_or_else(|| vec![0; count]);
            match found.len() == count {
                true => Ok(found),
                false => Err(format!("expected {count} `{name}`, found {}", found.len()).into()),
            }
        };
        let directions = numbers(directions)?;
        let all = numbers(axes)?.into_iter().zip(directions);
        Ok(all.map(|(axis, direction)| Along { axis, reversed: direction != 0 }).collect())
    }

    /// The slice of iteration `trip` of `trips`.
    fn place(self, cx: &mut Cx<'_, '_>, trips: &Value, trip: &Value) -> Result<Value, Fault> {
        if !self.reversed {
            return Ok(trip.clone());
        }
        let one = cx.int_scalar(DType::INT64, 1);
        let last = cx.op("subtract", &[trips, &one])?;
        cx.op("subtract", &[&last, trip])
    }

    /// The axis along which slices like `row` are stacked.
    fn stacked(self, cx: &Cx<'_, '_>, row: &Value) -> Result<i64, Fault> {
        Ok(from_front(self.axis, cx.rank(row)? + 1)? as i64)
    }
}

impl Rows {
    /// The type of the rows of all iterations, of which there are `trips` where that is known.
    fn ty(&self, trips: Option<i64>) -> Type {
        let first = trips.map_or(Dim::Any, Dim::Known);
        let rest = self.shape.iter().map(|extent| Dim::Known(*extent));
        Type::tensor(std::iter::once(first).chain(rest), self.dtype)
    }

    /// What stands for them before the first iteration.
    fn none_yet(&self, cx: &mut Cx<'_, '_>, trips: Option<i64>) -> Result<Value, Fault> {
        let shape: Vec<i64> =
            std::iter::once(trips.unwrap_or(0)).chain(self.shape.clone()).collect();
        cx.full(self.dtype, &shape, 0.0)
    }
}

fn scan(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let count = cx.input_count();
    if cx.opset() >= 9 {
        let inputs = cx.all_inputs()?;
        return Iteration::of_scan(cx, &inputs)?.results(cx);
    }
    if cx.optional(0).is_some() {
        return Err("expected sequences of one length, found operand 0".into());
    }
    let inputs = (1..count).map(|index| cx.input(index)).collect::<Result<Vec<Value>, Fault>>()?;
    let Some(first) = inputs.first() else {
        return Err("expected a tensor to scan, found none".into());
    };
    let batches = cx.ty(first)?.shape.first().and_then(|dim| dim.known());
    let Some(batches @ 1..=MAX_UNROLLED) = batches else {
        return Err(Fault::Open(format!("expected 1 to {MAX_UNROLLED} batches")));
    };
    let mut columns: Vec<Vec<Value>> = Vec::new();
    for batch in 0..batches {
        let place = cx.int_scalar(DType::INT64, batch);
        let own =
            inputs.iter().map(|value| cx.op_with("take", &[value, &place], attr("axis", 0i64)));
        let own = own.collect::<Result<Vec<Value>, Fault>>()?;
        let results = Iteration::of_scan(cx, &own)?.results(cx)?;
        columns.resize(results.len(), vec![]);
        for (column, result) in columns.iter_mut().zip(results) {
            column.push(cx.expand_dims(&result, 0)?);
        }
    }
    columns.iter().map(|column| cx.concatenate(column, 0)).collect()
}

/// The number of results of `body` behind the first `others`.
fn rows_of(body: &Graph<'_>, others: usize) -> Result<usize, Fault> {
    body.outputs.len().checked_sub(others).ok_or_else(|| {
        let found = body.outputs.len();
        format!("expected a body with at least {others} results, found {found}").into()
    })
}

/// The value of an output of a body, of the extents that the output says where those of the value
/// are open: what is handed on and collected keeps its type then.
fn as_declared(cx: &mut Cx<'_, '_>, output: &ValueInfo<'_>, value: Value) -> Result<Value, Fault> {
    let ValueType::Tensor(_, Some(extents)) = &output.ty else { return Ok(value) };
    let known = |extent: &Extent<'_>| match extent {
        Extent::Known(extent) => Some(*extent),
        _ => None,
    };
    match extents.iter().map(known).collect::<Option<Vec<i64>>>() {
        Some(shape) if cx.ty(&value)?.known_shape().is_none() => cx.reshape(&value, &shape),
        _ => Ok(value),
    }
}

/// The one element of a value.
fn scalar(cx: &mut Cx<'_, '_>, value: Value) -> Result<Value, Fault> {
    if cx.rank(&value)? == 0 { Ok(value) } else { cx.reshape(&value, &[]) }
}

/// A condition that holds.
fn always() -> Value {
    Value::Constant(TensorData::scalar(DType::BOOL, Scalar::Int(1)))
}
