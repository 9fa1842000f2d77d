//! A function as several, each of which stores what it computes.
//!
//! Loops of an open function have no memory of their own that ends at a count, since nobody knows how much
//! that is before they run. So what is worth storing between loops is a result of a function, and whoever
//! calls that gives it memory.

use ir_core::{Item, OpId, ValueId};
use rustc_hash::FxHashSet;

use super::counts::bounds;
use super::{Return, Stage, function_type};
use crate::schedule::{Refused, Schedule, inlining};

/// A tensor of the function that is taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Its parameter of that number, counts being the first.
    Parameter(usize),
    /// A result of the part of that number: which of them.
    Part(usize, usize),
}

/// A part of a function.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it computes: what one stage gives, and whatever that reads without storing it. It takes the
    /// counts of the function.
    pub item: Item,
    /// What it takes behind the counts.
    pub inputs: Vec<Source>,
}

/// The parts of the open function `function`, in order, and what of them it returns.
///
/// # Errors
/// Where it is none, and where a part cannot be computed without memory of its own.
pub fn split(function: &Item) -> Result<(Vec<Part>, Vec<Source>), Refused> {
    let mut schedule = Schedule::new(function)?;
    inlining::inline(&mut schedule);
    let stored: Vec<OpId> = schedule
        .stages()
        .filter(|stage| !schedule.is_inline(*stage))
        .map(|stage| schedule.stage_op(stage))
        .collect();
    let body = function.body.as_deref().ok_or("a function without a body")?;
    let counts = bounds(&function.signature).len();
    let params = body.block_args(body.entry());
    let source = |value: ValueId| {
        let param = params.iter().position(|param| *param == value).map(Source::Parameter);
        param.or_else(|| {
            let op = body.defining_op(value)?;
            let part = stored.iter().position(|other| *other == op)?;
            let result = body.results(op).position(|result| result == value)?;
            Some(Source::Part(part, result))
        })
    };
    let mut parts = Vec::with_capacity(stored.len());
    for &op in &stored {
        let part = part(function, op, &stored, counts, source)?;
        // What cannot be computed anyhow is found here, and not where code is written.
        crate::lower::lower(&plain(&part.item)?)?;
        parts.push(part);
    }
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let returned = end.ok_or("a function without results")?.tensors;
    let returned: Option<Vec<Source>> = returned.into_iter().map(source).collect();
    Ok((parts, returned.ok_or("a result that is no stage")?))
}

/// The schedule of a part for want of a better one: everything that it does not return is computed where it
/// is read.
///
/// # Errors
/// Where that is not allowed.
pub fn plain(part: &Item) -> Result<Schedule, Refused> {
    let mut schedule = Schedule::new(part)?;
    for stage in schedule.stages().filter(|stage| !schedule.is_output(*stage)).collect::<Vec<_>>() {
        schedule.compute_inline(stage)?;
    }
    Ok(schedule)
}

/// The part of `function` that stores `stage`. `stored` are all stages that are.
fn part(
    function: &Item,
    stage: OpId,
    stored: &[OpId],
    counts: usize,
    source: impl Fn(ValueId) -> Option<Source>,
) -> Result<Part, Refused> {
    let mut item = function.clone();
    let body = item.body_mut().ok_or("a function without a body")?;
    let entry = body.entry();
    // What it computes, and what of other parts that reads.
    let (mut own, mut pending) = (FxHashSet::from_iter([stage]), vec![stage]);
    let mut read: Vec<ValueId> = Vec::new();
    while let Some(op) = pending.pop() {
        let regions = body.regions(op).to_vec();
        let inside = regions.into_iter().flat_map(|region| body.walk_block(body.block_of(region)));
        let operands: Vec<ValueId> = inside.flat_map(|op| body.operands(op)).collect();
        for value in operands {
            let producer = body.defining_op(value).filter(|op| Stage::of(body, *op).is_some());
            let Some(producer) = producer else { continue };
            if !stored.contains(&producer) || producer == stage {
                pending.extend(own.insert(producer).then_some(producer));
            } else if !read.contains(&value) {
                read.push(value);
            }
        }
    }
    // In the order of the function, whatever the order in which they were found.
    let order: Vec<ValueId> = body.block_ops(entry).flat_map(|op| body.results(op)).collect();
    read.sort_by_key(|value| order.iter().position(|other| other == value));
    let params = body.block_args(entry).to_vec();
    let mut sources: Vec<Source> = (counts..params.len()).map(Source::Parameter).collect();
    for value in read {
        let param = body.add_block_arg(entry, body.ty(value));
        let hint = body.name_hint(value);
        body.set_name_hint(param, hint);
        sources.push(source(value).ok_or("a stage that is not stored")?);
        body.replace_all_uses(value, param);
    }
    let end = body.last_op(entry).ok_or("a function without results")?;
    let results: Vec<ValueId> = body.results(stage).collect();
    body.set_operands(end, &results);
    let others: Vec<OpId> = body
        .block_ops(entry)
        .filter(|op| Stage::of(body, *op).is_some() && !own.contains(op))
        .collect();
    for op in others.into_iter().rev() {
        body.erase(op);
    }
    for index in (0..sources.len()).rev() {
        let param = body.block_args(entry)[counts + index];
        if body.is_unused(param) {
            body.remove_block_arg(entry, counts + index);
            sources.remove(index);
        }
    }
    item.signature.ty = function_type(item.body.as_deref().ok_or("a body")?, &results);
    Ok(Part { item, inputs: sources })
}
