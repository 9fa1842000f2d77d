//! Where a loop is cut into several, so that what it loads under conditions is known in each.
//!
//! `y[j] = j >= 203 ? b[j - 203] : a[j]` is copied element by element: a vectorizer that loads
//! under masks needs them for every element, and GCC 12 gets them wrong (`arms.rs`). As two loops, one to
//! 203 and one from there, neither chooses, and compilers copy vectors. Of vectors of 16 lanes, those before lane 192
//! and those from lane 208 choose nothing, and the one between is a loop of its own.

use std::collections::BTreeSet;

use ir_core::{
    Body, DType, InsertPoint, OpFields, OpId, OpParts, Scalar, TensorData, Type, ValueId, ValueMap,
};
use rustc_hash::FxHashSet;
use te::compute::{Load, LoadIf};
use te::loops::{Alloc, Fetch, For, ForKind, Store, simplify};
use te::scalar::{Constant, ScalarOp, Select, dtype_of};

use super::affine::Affine;
use super::ranges::Ranges;

/// Loops over fewer elements are not cut: their parts would be too short for vectors.
const LEAST_EXTENT: i64 = 16;

/// Loops that would be cut more often stay one.
const MOST_CUTS: usize = 8;

/// Loops that would have more operations in all their parts stay one.
const MOST_OPERATIONS: usize = 2_000;

/// `body` with loops that are cut, and without what is never chosen; `None` where that is `body` itself.
pub(super) fn cut(body: &Body, affine: &Affine, ranges: &Ranges) -> Option<Body> {
    body.walk().find(|op| body.view::<LoadIf>(*op).is_some())?;
    // The innermost loops first, which are in all parts of those around.
    let loops: Vec<(OpId, Vec<i64>)> = body
        .post_order()
        .into_iter()
        .map(|op| (op, cuts(body, affine, ranges, op)))
        .filter(|(_, cuts)| !cuts.is_empty())
        .collect();
    if loops.is_empty() && decisions(body, ranges).is_empty() {
        return None;
    }
    let mut body = body.clone();
    for (op, cuts) in loops {
        let operations = body.walk_block(body.region_block(op, 0)).count();
        if operations * (cuts.len() + 1) <= MOST_OPERATIONS {
            cut_loop(&mut body, op, &cuts);
        }
    }
    decide(&mut body);
    Some(body)
}

/// The iterations, but for the first, from which on a condition of a load in the loop `op` holds in all lanes, does so
/// no longer, or is not the same in all, in order. None where the loop ends at a limit, or does more than to load,
/// compute and store.
fn cuts(body: &Body, affine: &Affine, ranges: &Ranges, op: OpId) -> Vec<i64> {
    let Some(For { extent, limit: None, kind: ForKind::Serial, .. }) = body.view(op) else {
        return vec![];
    };
    let block = body.region_block(op, 0);
    let index = body.block_args(block)[0];
    let is_plain = |op: OpId| match body.view::<For>(op) {
        Some(inner) => inner.kind == ForKind::Serial,
        None => {
            body.is::<Store>(op)
                || body.is::<Fetch>(op)
                || body.result_count(op) == 1 && body.view::<Alloc>(op).is_none()
        }
    };
    if extent < 2 || !body.walk_block(block).all(is_plain) {
        return vec![];
    }
    let conditions = body.walk_block(block).filter_map(|op| body.view::<LoadIf>(op));
    let mut pending: Vec<ValueId> = conditions.map(|load| load.condition).collect();
    let (mut seen, mut cuts) = (FxHashSet::default(), BTreeSet::new());
    while let Some(value) = pending.pop() {
        let Some(op) = body.defining_op(value).filter(|_| seen.insert(value)) else { continue };
        match ScalarOp::of(body.op_name(op)) {
            Some(ScalarOp::And | ScalarOp::Or | ScalarOp::Not) => pending.extend(body.operands(op)),
            Some(comparison) if body.operand_count(op) == 2 => {
                let lanes = dtype_of(body.ty(value)).map_or(1, |dtype| i64::from(dtype.lanes()));
                if extent.saturating_mul(lanes) < LEAST_EXTENT {
                    continue;
                }
                let [a, b] = [0, 1].map(|side| affine.get(body, ranges, body.operand(op, side)));
                let Some(difference) = a.plus(&b, -1) else { continue };
                let [(term, coefficient)] = difference.terms[..] else { continue };
                if term != index {
                    continue;
                }
                // Between the borders of the first lane and of the last one, lanes differ.
                let last = difference.step.checked_mul(lanes - 1);
                let last = last.and_then(|last| difference.constant.checked_add(last));
                let ends = [Some(difference.constant), last].into_iter().flatten();
                let borders = ends.filter_map(|end| border(comparison, coefficient, end));
                cuts.extend(borders.filter(|cut| (1..extent).contains(cut)));
            }
            _ => {}
        }
    }
    if cuts.len() > MOST_CUTS { vec![] } else { cuts.into_iter().collect() }
}

/// The first `j` from which on `coefficient · j + constant` compares otherwise with 0.
fn border(comparison: ScalarOp, coefficient: i64, constant: i64) -> Option<i64> {
    use ScalarOp::{Ge, Gt, Le, Lt};
    let reaches = match comparison {
        Lt | Ge => true,
        Le | Gt => false,
        _ => return None,
    };
    // The first `j` with `size · j >= bound`, or with `size · j > bound`.
    let size = coefficient.checked_abs()?;
    let is_down = coefficient < 0;
    let bound = if is_down { constant } else { constant.checked_neg()? };
    let quotient = bound.div_euclid(size);
    match (reaches != is_down) && bound.rem_euclid(size) == 0 {
        true => Some(quotient),
        false => quotient.checked_add(1),
    }
}

/// Makes of the loop `op` one for each range of iterations between `cuts`.
fn cut_loop(body: &mut Body, op: OpId, cuts: &[i64]) {
    let Some(whole) = body.view::<For>(op) else { return };
    let ends = cuts.iter().copied().chain([whole.extent]);
    for (first, end) in [0].into_iter().chain(cuts.iter().copied()).zip(ends) {
        let part = body.copy_op(op, InsertPoint::Before(op), &mut ValueMap::default());
        body.set_attrs(part, OpFields::attrs(&For { extent: end - first, ..whole.clone() }));
        let block = body.region_block(part, 0);
        let index = body.block_args(block)[0];
        let Some(start) = body.first_op(block).filter(|_| first > 0) else { continue };
        let at = InsertPoint::Before(start);
        let types = [Type::scalar(DType::INT64)];
        let value = TensorData::scalar(DType::INT64, Scalar::Int(first));
        let constant = OpParts::new(<Constant as OpFields<ValueId>>::NAME, &[], &types)
            .attrs(OpFields::<ValueId>::attrs(&Constant { value }));
        let constant = body.insert_op(at, constant);
        let operands = [index, body.result(constant, 0)];
        let sum = body.insert_op(at, OpParts::new(ScalarOp::Add.name(), &operands, &types));
        let shifted = body.result(sum, 0);
        body.replace_uses_where(index, shifted, |_, (user, _)| user != sum);
    }
    body.erase(op);
}

/// What is always chosen.
enum Decision {
    /// The operand of this number.
    Operand(usize),
    /// What is loaded.
    Load,
}

/// The choices in `body` of which the ranges of values say what they choose.
fn decisions(body: &Body, ranges: &Ranges) -> Vec<(OpId, Decision)> {
    let constant = |value| ranges.get(body, value).constant();
    let decision = |op: OpId| -> Option<Decision> {
        if let Some(load) = body.view::<LoadIf>(op) {
            // What is the same in all lanes stays as it is.
            let lanes = |value| dtype_of(body.ty(value)).map(|dtype| dtype.lanes());
            let is_load = load.indices.iter().any(|index| lanes(*index) == lanes(load.condition));
            return match constant(load.condition)? {
                0 => Some(Decision::Operand(1)),
                _ => is_load.then_some(Decision::Load),
            };
        }
        if let Some(select) = body.view::<Select>(op) {
            return Some(Decision::Operand(if constant(select.condition)? == 0 { 2 } else { 1 }));
        }
        let truths = [0, 1].map(|side| {
            let is_and = ScalarOp::of(body.op_name(op)) == Some(ScalarOp::And);
            let value = is_and.then(|| body.operand(op, side))?;
            constant(value).filter(|_| dtype_of(body.ty(value)).is_some_and(DType::is_bool))
        });
        match truths {
            [Some(1), _] => Some(Decision::Operand(1)),
            [_, Some(1)] => Some(Decision::Operand(0)),
            _ => None,
        }
    };
    body.walk().filter_map(|op| Some((op, decision(op)?))).collect()
}

/// Takes out of `body` what is never chosen.
fn decide(body: &mut Body) {
    let ranges = Ranges::of(body);
    for (op, decision) in decisions(body, &ranges) {
        let chosen = match decision {
            Decision::Operand(number) => body.operand(op, number),
            Decision::Load => {
                // Behind the condition and what is there otherwise.
                let operands: Vec<ValueId> = body.operands(op).skip(2).collect();
                let types = [body.ty(body.result(op, 0))];
                let name = <Load as OpFields<ValueId>>::NAME;
                let parts = OpParts::new(name, &operands, &types).at(body.loc(op));
                let load = body.insert_op(InsertPoint::Before(op), parts);
                body.result(load, 0)
            }
        };
        body.replace_all_uses(body.result(op, 0), chosen);
        body.erase(op);
    }
    simplify(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_where_comparisons_change() {
        let comparisons = [ScalarOp::Lt, ScalarOp::Le, ScalarOp::Gt, ScalarOp::Ge];
        let sums = [1, -1, 3, -3].into_iter().flat_map(|by| (-9..=9).map(move |plus| (by, plus)));
        for (comparison, (coefficient, constant)) in comparisons
            .into_iter()
            .flat_map(|comparison| sums.clone().map(move |sum| (comparison, sum)))
        {
            let holds = |j: i64| {
                let sum = coefficient * j + constant;
                match comparison {
                    ScalarOp::Lt => sum < 0,
                    ScalarOp::Le => sum <= 0,
                    ScalarOp::Gt => sum > 0,
                    _ => sum >= 0,
                }
            };
            let cut = border(comparison, coefficient, constant).unwrap();
            let case = format!("{comparison:?} {coefficient} {constant}");
            assert!((cut..20).all(|j| holds(j) == holds(cut)), "{case}");
            assert!((-20..cut).all(|j| holds(j) != holds(cut)), "{case}");
        }
    }
}
