//! Whether what is computed of a row of tensors depends on that row alone.
//!
//! A row is what lies at one index of the first axis. Where every load of rows is at the first
//! index of what is computed, and that index decides nothing else, a kernel for some rows computes
//! any others as well. That is read off the loads of stages, whatever operators they come from.

use ir_core::{Body, Item, Module, OpId, Symbol, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compute::{FUNC, Load, LoadIf, Return, Stage, UPDATE, Yield};
use crate::index::Indices;
use crate::index::values::index_values;
use crate::loops::{Alloc, Call, Data, KERNEL, output_count};

/// What a tensor has to do with rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    /// It is the same whatever rows there are.
    Shared,
    /// It has a row for each row. Rows that are all the same, whatever is given, are among these.
    Rows,
}

/// Whether the kernel `main` of `module`, a list of calls of compute functions, gives for each of
/// its `rows` rows what depends on that row alone; `has_rows` says which of its inputs have rows,
/// the others are the same for all.
///
/// # Errors
/// The name of what mixes rows, or of `main`, where it is something else or a result has no rows.
pub fn check(module: &Module, main: Symbol, rows: i64, has_rows: &[bool]) -> Result<(), Symbol> {
    let item = module.get(main).filter(|item| item.signature.op == KERNEL).ok_or(main)?;
    let body = item.body.as_deref().ok_or(main)?;
    let outputs = output_count(&item.signature).ok_or(main)?;
    let params = body.block_args(body.entry());
    let inputs = params.len().checked_sub(outputs).filter(|count| *count == has_rows.len());
    let inputs = inputs.ok_or(main)?;
    let mut sorts: FxHashMap<ValueId, Sort> = FxHashMap::default();
    for (param, has_rows) in params.iter().zip(has_rows) {
        sorts.insert(*param, if *has_rows { Sort::Rows } else { Sort::Shared });
    }
    for op in body.block_ops(body.entry()) {
        if body.is::<Data>(op) {
            sorts.insert(body.result(op, 0), Sort::Shared);
        } else if let Some(call) = body.view::<Call>(op).filter(|call| !call.parts) {
            let callee = module.get(call.kernel).ok_or(call.kernel)?;
            let results = output_count(&callee.signature).ok_or(call.kernel)?;
            let (given, made) = call.arguments.split_at(call.arguments.len() - results);
            // What is read before it is computed is no list of calls.
            let given: Option<Vec<Sort>> =
                given.iter().map(|one| sorts.get(one).copied()).collect();
            let computed = results_of(callee, rows, &given.ok_or(main)?).ok_or(call.kernel)?;
            sorts.extend(made.iter().copied().zip(computed));
        } else if !body.is::<Alloc>(op) && !body.is::<Yield>(op) {
            return Err(main);
        }
    }
    let is_row = |result: &ValueId| sorts.get(result) == Some(&Sort::Rows);
    if params[inputs..].iter().all(is_row) { Ok(()) } else { Err(main) }
}

/// What the results of the compute function `function` are, of parameters of these sorts; `None`
/// where it mixes rows.
fn results_of(function: &Item, rows: i64, params: &[Sort]) -> Option<Vec<Sort>> {
    let body = function.body.as_deref().filter(|_| function.signature.op == FUNC)?;
    if function.signature.attrs.get(UPDATE).is_some() {
        return None;
    }
    let own = body.block_args(body.entry()).iter().copied();
    let mut sorts: FxHashMap<ValueId, Sort> = own.zip(params.iter().copied()).collect();
    for stage in Stage::all(body) {
        let sort = sort_of(body, &stage, rows, &sorts)?;
        sorts.extend(body.results(stage.op).map(|result| (result, sort)));
    }
    let end = body.last_op(body.entry())?;
    let Return { tensors } = body.view(end)?;
    tensors.iter().map(|tensor| sorts.get(tensor).copied()).collect()
}

/// A load of a stage: what it reads, its indices, and what else it depends on.
fn load_of(body: &Body, op: OpId) -> Option<(ValueId, Vec<ValueId>, Vec<ValueId>)> {
    if let Some(Load { tensor, indices }) = body.view(op) {
        return Some((tensor, indices, vec![]));
    }
    let LoadIf { condition, otherwise, tensor, indices } = body.view(op)?;
    Some((tensor, indices, vec![condition, otherwise]))
}

/// What `stage` computes, of tensors of these sorts; `None` where it mixes rows.
fn sort_of(
    body: &Body,
    stage: &Stage,
    rows: i64,
    sorts: &FxHashMap<ValueId, Sort>,
) -> Option<Sort> {
    if stage.scatters {
        return None;
    }
    let block = body.region_block(stage.op, 0);
    let mut indices = Indices::default();
    let extents = stage.shape.iter().chain(&stage.reduction);
    let vars: Vec<_> = extents.map(|extent| indices.var(*extent)).collect();
    let args: Vec<_> = vars.iter().map(|var| indices.of_var(*var)).collect();
    let known = index_values(body, block, &args, &mut indices);
    let first = match stage.shape.first() {
        Some(extent) if *extent == rows => body.block_args(block).first().copied(),
        _ => None,
    };
    // The values that depend on the number of the row.
    let mut numbered: FxHashSet<ValueId> = first.into_iter().collect();
    let (mut reads_rows, mut is_mixed) = (false, stage.scan == Some(0));
    for op in body.block_ops(block) {
        let Some((tensor, places, others)) = load_of(body, op) else {
            if body.operands(op).any(|operand| numbered.contains(&operand)) {
                numbered.extend(body.results(op));
                // What is yielded is no value of its own.
                is_mixed |= body.is::<Yield>(op);
            }
            continue;
        };
        let has_rows = sorts.get(&tensor)? == &Sort::Rows;
        reads_rows |= has_rows;
        let depends = |value: &ValueId| {
            let by_index = || match (known.get(value), vars.first()) {
                (Some(index), Some(var)) => indices.vars(index).any(|one| one == *var),
                _ => true,
            };
            numbered.contains(value) && by_index()
        };
        let others_depend = others.iter().any(|value| numbered.contains(value));
        let is_own = has_rows
            && first.is_some()
            && places.first().and_then(|place| known.get(place)) == args.first();
        let rest = if is_own { &places[1..] } else { &places[..] };
        if others_depend || rest.iter().any(depends) || (has_rows && !is_own) {
            is_mixed = true;
            numbered.extend(body.results(op));
        }
    }
    match (reads_rows, is_mixed) {
        (true, true) => None,
        (true, false) => Some(Sort::Rows),
        // It depends on nothing that is given; rows that are all the same are rows.
        (false, false) if first.is_some() => Some(Sort::Rows),
        (false, _) => Some(Sort::Shared),
    }
}
