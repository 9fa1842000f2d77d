//! Where a loop is cut into several, so that what it loads under conditions is known in each.
//!
//! `y[j] = j >= 203 ? b[j - 203] : a[j]` is copied element by element: a vectorizer that loads
//! under masks needs them for every element, and GCC 12 gets them wrong (`arms.rs`). Written as two
//! loops with the same body, one to 203 and one from there, compilers see that neither chooses, and
//! copy vectors.

use std::collections::BTreeSet;

use ir_core::{Body, OpId, ValueId};
use rustc_hash::FxHashSet;
use te::compute::LoadIf;
use te::loops::For;
use te::scalar::ScalarOp;

use super::affine::Affine;
use super::ranges::Ranges;

/// Shorter loops are not cut: their parts would be too short for vectors.
const LEAST_EXTENT: i64 = 16;

/// Loops that would be cut more often stay one.
const MOST_CUTS: usize = 4;

/// The iterations, but for the first, from which on a condition of a load in the loop `op` holds,
/// or does so no longer, in order. None where the loop has loops or branches inside, or ends at a limit.
pub(super) fn cuts(body: &Body, affine: &Affine, ranges: &Ranges, op: OpId) -> Vec<i64> {
    let Some(For { extent, limit: None, .. }) = body.view(op) else { return vec![] };
    let block = body.region_block(op, 0);
    let index = body.block_args(block)[0];
    if extent < LEAST_EXTENT || body.block_ops(block).any(|op| body.has_regions(op)) {
        return vec![];
    }
    let conditions = body.block_ops(block).filter_map(|op| body.view::<LoadIf>(op));
    let mut pending: Vec<ValueId> = conditions.map(|load| load.condition).collect();
    let (mut seen, mut cuts) = (FxHashSet::default(), BTreeSet::new());
    while let Some(value) = pending.pop() {
        let Some(op) = body.defining_op(value).filter(|_| seen.insert(value)) else { continue };
        match ScalarOp::of(body.op_name(op)) {
            Some(ScalarOp::And | ScalarOp::Or | ScalarOp::Not) => pending.extend(body.operands(op)),
            Some(comparison) if body.operand_count(op) == 2 => {
                let [a, b] = [0, 1].map(|side| affine.get(body, ranges, body.operand(op, side)));
                let difference = a.plus(&b, -1).filter(|sum| sum.step == 0);
                let Some(difference) = difference else { continue };
                let [(term, coefficient)] = difference.terms[..] else { continue };
                let cut = border(comparison, coefficient, difference.constant);
                cuts.extend(cut.filter(|cut| term == index && (1..extent).contains(cut)));
            }
            _ => {}
        }
    }
    if cuts.len() > MOST_CUTS { vec![] } else { cuts.into_iter().collect() }
}

/// The first `j` from which on `coefficient · j + constant` compares otherwise with 0.
fn border(comparison: ScalarOp, coefficient: i64, constant: i64) -> Option<i64> {
    use ScalarOp::{Ge, Gt, Le, Lt};
    match (comparison, coefficient) {
        (Lt | Ge, 1) => constant.checked_neg(),
        (Le | Gt, 1) => constant.checked_neg()?.checked_add(1),
        (Lt | Ge, -1) => constant.checked_add(1),
        (Le | Gt, -1) => Some(constant),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_where_comparisons_change() {
        for comparison in [ScalarOp::Lt, ScalarOp::Le, ScalarOp::Gt, ScalarOp::Ge] {
            for (coefficient, constant) in [(1, -7), (-1, 7)] {
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
                assert!((cut..20).all(|j| holds(j) == holds(cut)), "{comparison:?} {coefficient}");
                assert!((0..cut).all(|j| holds(j) != holds(cut)), "{comparison:?} {coefficient}");
            }
        }
    }
}
