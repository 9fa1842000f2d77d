//! Scans, backwards: a step changes with the state before it, and so with all steps before.

use ir_core::{Body, Scalar, SmallVec, TensorData, ValueId};
use rustc_hash::FxHashMap;

use super::all_points;
use super::point::{Point, is_float};
use super::rules::wide;
use super::sources::{from_the_last, yielded};
use crate::compute::{ComputeBuilder, Scan, Stage, Tensor};

/// What is known of the steps of a scan.
pub(super) struct Written {
    /// What its block gives for the element, with the change of that.
    pub(super) element: (ValueId, Tensor),
    /// What it gives for the states that are floats, with their changes, from the last step to the first.
    pub(super) states: Vec<(ValueId, Tensor)>,
    /// The states that it takes, before each step.
    pub(super) before: Vec<(ValueId, Tensor)>,
    /// The dimension along which steps follow one another.
    pub(super) axis: usize,
}

/// Writes the states before each step of `scan`, whose elements change by `change`, and then, from the last step
/// on, by how much the states behind each step change.
pub(super) fn write(
    body: &Body,
    stage: &Stage,
    scan: &Scan,
    change: Tensor,
    builder: &mut ComputeBuilder,
    tensors: &FxHashMap<ValueId, Tensor>,
) -> Written {
    let block = body.region_block(stage.op, 0);
    let (shape, axis) = (&stage.shape, stage.scan.expect("a scan has an axis"));
    let states = body.block_args(block)[shape.len()..].to_vec();
    let given = yielded(body, block);
    let (element, next) = (given[0], &given[1..]);
    let mut before = vec![];
    for (number, state) in states.iter().enumerate() {
        let name = format!("{}_before", stage.name);
        let tensor = builder.scan(&name, shape, axis, &scan.initial, |e, i, values| {
            let (mut table, vars, axes) = all_points(shape, i);
            let mut point = Point::new(body, tensors, &mut table, vars);
            for (state, value) in states.iter().zip(values) {
                point.bind_value(*state, *value);
            }
            point.write(e, block, &axes);
            let next = next.iter().map(|value| point.value(e, *value));
            let results: SmallVec<[ValueId; 1]> =
                std::iter::once(values[number]).chain(next).collect();
            e.keep(&results);
            results
        });
        before.push((*state, tensor));
    }
    let floats: Vec<usize> =
        (0..states.len()).filter(|number| is_float(body, states[*number])).collect();
    let zeros: Vec<TensorData> = floats
        .iter()
        .map(|number| {
            let dtype = wide(scan.initial[*number].dtype());
            TensorData::scalar(dtype, Scalar::Int(0))
        })
        .collect();
    let mut changes = vec![];
    for (place, number) in floats.iter().enumerate() {
        let name = format!("{}_back", stage.name);
        let tensor = builder.scan(&name, shape, axis, &zeros, |e, i, values| {
            let (mut table, vars, mut axes) = all_points(shape, i);
            axes[axis] = from_the_last(&axes[axis], shape[axis]);
            let mut point = Point::new(body, tensors, &mut table, vars);
            for (state, tensor) in &before {
                let value = point.read(e, tensor, &axes);
                point.bind_value(*state, value);
            }
            point.write(e, block, &axes);
            let mut seeds = vec![(element, point.read(e, &change, &axes))];
            seeds.extend(floats.iter().map(|number| next[*number]).zip(values.iter().copied()));
            let mut results: SmallVec<[ValueId; 1]> = SmallVec::from_buf([values[place]]);
            for (number, zero) in floats.iter().zip(values) {
                let pulled = point.pull(e, block, &seeds, states[*number]);
                results.push(pulled.unwrap_or_else(|| e.number_like(*zero, 0.0)));
            }
            e.keep(&results);
            results
        });
        changes.push((next[*number], tensor));
    }
    Written { element: (element, change), states: changes, before, axis }
}
