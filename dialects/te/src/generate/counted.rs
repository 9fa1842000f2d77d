//! Random functions whose axes end at counts.

use ir_core::{DType, InsertPoint, Item, OpId, Random, Scalar, TensorData, Type, ValueId};
use rustc_hash::FxHashMap;

use crate::checks::scalar;
use crate::compute::counts::{COUNTS, bounds, insert_counts, open_bound};
use crate::compute::{Load, LoadIf, Return, Stage, function_type};
use crate::scalar::{Constant, ScalarOp, insert, number_of};

/// `function`, of which random axes end at counts that `seed` chooses, one or two; `None` where it has
/// no axes. What stages read of one another is 0 beyond these, so that they read nothing that is not
/// computed.
pub fn counted(function: &Item, seed: u64) -> Option<Item> {
    let mut random = Random::new(seed);
    let mut function = function.clone();
    let body = function.body_mut()?;
    let stages = Stage::all(body);
    let extents: Vec<i64> = stages
        .iter()
        .flat_map(|stage| stage.shape.iter().chain(&stage.reduction))
        .copied()
        .filter(|extent| *extent > 0)
        .collect();
    let bounds: Vec<i64> = (0..1 + random.below(2))
        .map(|_| random.choose(&extents).copied())
        .collect::<Option<_>>()?;

    let counts = insert_counts(body, 0, bounds.len());
    let entry = body.entry();

    let mut counts_of: FxHashMap<ValueId, Vec<i64>> = FxHashMap::default();
    for stage in &stages {
        let axes = stage.shape.iter().chain(&stage.reduction);
        let chosen = axes.map(|extent| {
            let number = bounds.iter().position(|bound| bound == extent);
            number.filter(|_| random.one_in(2)).map_or(-1, |number| number as i64)
        });
        let mut chosen: Vec<i64> = chosen.collect();
        if stage.scatters {
            // Places are computed from whole dimensions.
            chosen[..stage.shape.len()].fill(-1);
        }
        if chosen.iter().any(|count| *count >= 0) {
            let attrs = body.attrs(stage.op).with("counts", &chosen);
            body.set_attrs(stage.op, attrs);
        }
        for (block, range) in stage.blocks(body) {
            let args = body.block_args(block).iter().copied();
            let axes: FxHashMap<ValueId, i64> = args.zip(chosen[range].iter().copied()).collect();
            for op in body.block_ops(block).collect::<Vec<_>>() {
                keep_within(body, op, &axes, &counts, &counts_of);
            }
        }
        for result in body.results(stage.op) {
            counts_of.insert(result, chosen[..stage.shape.len()].to_vec());
        }
    }
    let end = body.last_op(entry).and_then(|end| body.view::<Return>(end))?;
    function.signature.ty = function_type(function.body.as_deref()?, &end.tensors);
    function.signature.attrs = function.signature.attrs.with(COUNTS, &bounds);
    Some(function)
}

/// Makes `op`, where it reads a tensor that ends at counts, read it below these only. `axes` are the
/// axes of the stage, with the counts at which they end.
fn keep_within(
    body: &mut ir_core::Body,
    op: OpId,
    axes: &FxHashMap<ValueId, i64>,
    counts: &[ValueId],
    counts_of: &FxHashMap<ValueId, Vec<i64>>,
) {
    let at = InsertPoint::Before(op);
    let (tensor, indices, condition) = match (body.view::<Load>(op), body.view::<LoadIf>(op)) {
        (Some(load), _) => (load.tensor, load.indices, None),
        (_, Some(load)) => (load.tensor, load.indices, Some((load.condition, load.otherwise))),
        _ => return,
    };
    let Some(ends) = counts_of.get(&tensor) else { return };
    let (index, truth) = (Type::scalar(DType::INT64), Type::scalar(DType::BOOL));
    let mut within: Option<ValueId> = None;
    for (place, count) in indices.iter().zip(ends) {
        if *count < 0 || axes.get(place) == Some(count) {
            continue;
        }
        let load = Load { tensor: counts[*count as usize], indices: vec![] };
        let operands = [*place, insert(body, at, &load, index)];
        let below = scalar(body, at, ScalarOp::Lt, &operands, truth);
        within = Some(match within {
            None => below,
            Some(within) => scalar(body, at, ScalarOp::And, &[within, below], truth),
        });
    }
    let Some(mut within) = within else { return };
    let result = body.result(op, 0);
    let (ty, dtype) = (body.ty(result), number_of(body, result));
    let otherwise = match condition {
        Some((condition, otherwise)) => {
            let both = [condition, within];
            within = scalar(body, at, ScalarOp::And, &both, truth);
            otherwise
        }
        None => {
            let value = TensorData::scalar(dtype, Scalar::Int(0));
            insert(body, at, &Constant { value }, ty)
        }
    };
    let load = LoadIf { condition: within, otherwise, tensor, indices };
    let value = insert(body, at, &load, ty);
    body.replace_all_uses(result, value);
    body.erase(op);
}

/// `function` with open counts, one or two, in the place of random extents, and the counts for which it is
/// what it was; `None` where it has no axes.
pub fn open(function: &Item, seed: u64) -> Option<(Item, Vec<i64>)> {
    let mut random = Random::new(seed);
    let mut function = function.clone();
    let body = function.body_mut()?;
    let stages = Stage::all(body);
    let extents: Vec<i64> = stages
        .iter()
        .flat_map(|stage| stage.shape.iter().chain(&stage.reduction))
        .copied()
        .collect();
    let mut counts: Vec<i64> = Vec::new();
    for _ in 0..1 + random.below(2) {
        let count = *random.choose(&extents)?;
        if !counts.contains(&count) {
            counts.push(count);
        }
    }
    let number = |extent: &i64| counts.iter().position(|count| count == extent);
    let opened = |extent: &i64| number(extent).map_or(*extent, open_bound);
    let values: Vec<ValueId> = body.walk().flat_map(|op| body.results(op)).collect();
    let entry = body.entry();
    for value in body.block_args(entry).to_vec().into_iter().chain(values) {
        let ty = body.ty(value).as_tensor().and_then(|ty| Some((ty.known_shape()?, ty.dtype)));
        if let Some((shape, dtype)) = ty {
            body.set_ty(value, Type::tensor(shape.iter().map(opened), dtype));
        }
    }
    for stage in &stages {
        let all = |list: &[i64]| -> Vec<i64> { list.iter().map(opened).collect() };
        let mut attrs = body.attrs(stage.op).with("shape", &all(&stage.shape));
        if body.attrs(stage.op).get("extents").is_some() {
            attrs = attrs.with("extents", &all(&stage.reduction));
        }
        let axes = stage.shape.iter().chain(&stage.reduction);
        let numbers: Vec<i64> = axes.map(|axis| number(axis).map_or(-1, |n| n as i64)).collect();
        if numbers.iter().any(|number| *number >= 0) {
            attrs = attrs.with("counts", &numbers);
        }
        body.set_attrs(stage.op, attrs);
    }
    insert_counts(body, 0, counts.len());
    let end = body.last_op(entry).and_then(|end| body.view::<Return>(end))?;
    function.signature.ty = function_type(function.body.as_deref()?, &end.tensors);
    let bounds: Vec<i64> = (0..counts.len()).map(open_bound).collect();
    function.signature.attrs = function.signature.attrs.with(COUNTS, &bounds);
    Some((function, counts))
}

/// Numbers for the counts of `function` to run it with: none, some, and as many as there may be. Of
/// `inputs`, which are given as well, the counts are replaced.
pub fn calls(function: &Item, inputs: &[TensorData]) -> Vec<Vec<TensorData>> {
    let bounds = bounds(&function.signature);
    let call = |numbers: &[i64; 2]| {
        let counts = bounds.iter().zip(numbers).map(|(bound, number)| {
            TensorData::scalar(DType::INT64, Scalar::Int(*number.min(bound)))
        });
        counts.chain(inputs.iter().skip(bounds.len()).cloned()).collect()
    };
    [[0, 0], [1, 2], [3, 1], [19, 6], [i64::MAX; 2]].iter().map(call).collect()
}

/// `results` of `function` for `inputs`, with 0 where nothing is said of them: beyond counts.
///
/// # Panics
/// Where these are no results of the function.
pub fn below_counts(
    function: &Item,
    inputs: &[TensorData],
    results: &[TensorData],
) -> Vec<TensorData> {
    let body = function.body.as_deref().expect("a function with a body");
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let Return { tensors } = end.expect("a function with results");
    let below = |(result, tensor): (&TensorData, &ValueId)| {
        let stage = body.defining_op(*tensor).and_then(|op| Stage::of(body, op));
        let ends = (0..result.rank()).map(|axis| {
            let count = stage.as_ref().and_then(|stage| stage.count(axis))?;
            inputs[count].element(0).map(Scalar::as_i64)
        });
        let ends: Vec<Option<i64>> = ends.collect();
        let within = |mut at: i64| {
            result.shape().iter().zip(&ends).rev().all(|(extent, end)| {
                let index = at % extent;
                at /= extent;
                end.is_none_or(|end| index < end)
            })
        };
        let elements = result.elements().enumerate().map(|(at, element)| match within(at as i64) {
            true => element,
            false if result.dtype().is_float() => Scalar::Float(0.0),
            false => Scalar::Int(0),
        });
        TensorData::from_scalars(result.dtype(), result.shape(), elements)
            .expect("as many elements")
    };
    results.iter().zip(&tensors).map(below).collect()
}
