//! Chains of choices by one index.
//!
//! What several tensors one after the other have at `i` is
//! `i >= 40 ? c[i - 40] : (i >= 20 & i < 40) ? b[i - 20] : i < 20 ? a[i] : 0`, and a text of it that asks for each part
//! asks as often as there are parts. Each part of such a chain begins where the one before ends: the right one is found
//! by halves.

use ir_core::{Body, DType, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use te::compute::LoadIf;
use te::loops::Broadcast;
use te::scalar::ScalarOp;

use super::affine::{Affine, Linear};
use super::expr::Expr;
use super::kernel::Emitter;
use super::ranges::Ranges;
use super::values::{Repr, Vector};

/// Chains of fewer parts are asked one after the other.
const LEAST_PARTS: usize = 4;

/// Loads, each where an index is from some number to before another one, which is that of the next load.
#[derive(Clone)]
pub(super) struct Chain {
    index: Linear,
    parts: Vec<OpId>,
    /// Where the first begins, if not wherever the index does.
    low: Option<i64>,
    /// Where each part but the last ends.
    ends: Vec<i64>,
    /// Where the last ends, if not wherever the index does.
    end: Option<i64>,
    /// What each load asks of its lanes besides, the same of all.
    lanes: Vec<ValueId>,
    /// What is chosen in no part.
    otherwise: ValueId,
}

/// The chains of a kernel, by their last loads.
#[derive(Default)]
pub(super) struct Chains {
    whole: FxHashMap<OpId, Chain>,
    /// All but the last loads.
    inside: FxHashSet<OpId>,
}

impl Chains {
    /// Looks at every operation once.
    pub(super) fn of(body: &Body, affine: &Affine, ranges: &Ranges) -> Chains {
        let mut chains = Chains::default();
        for block in body.walk_blocks() {
            // Those that a load of this block may go on.
            let mut open: FxHashMap<OpId, Chain> = FxHashMap::default();
            for op in body.block_ops(block) {
                // What is loaded may be written by what has no result.
                if body.result_count(op) != 1 {
                    chains.take(open.drain());
                    continue;
                }
                let Some(load) = body.view::<LoadIf>(op) else { continue };
                let Some(range) = interval(body, affine, ranges, load.condition) else { continue };
                let before = body.defining_op(load.otherwise);
                let goes_on = |before: &OpId| {
                    let chain = open.get(before);
                    body.has_one_use(load.otherwise)
                        && chain.is_some_and(|chain| chain.goes_on_at(&range))
                };
                let before = before.filter(goes_on).and_then(|before| open.remove(&before));
                let chain = match before {
                    Some(chain) => chain.with(op, &range),
                    None => {
                        let Interval { index, low, end, lanes } = range;
                        let (parts, ends, otherwise) = (vec![op], vec![], load.otherwise);
                        Chain { index, parts, low, ends, end, lanes, otherwise }
                    }
                };
                open.insert(op, chain);
            }
            chains.take(open.drain());
        }
        chains
    }

    fn take(&mut self, found: impl Iterator<Item = (OpId, Chain)>) {
        for (last, chain) in found.filter(|(_, chain)| chain.parts.len() >= LEAST_PARTS) {
            self.inside.extend(chain.parts.iter().filter(|part| **part != last));
            self.whole.insert(last, chain);
        }
    }

    /// Whether `op` is written where the last load of its chain is.
    pub(super) fn is_inside(&self, op: OpId) -> bool {
        self.inside.contains(&op)
    }

    pub(super) fn get(&self, last: OpId) -> Option<&Chain> {
        self.whole.get(&last)
    }
}

impl Chain {
    /// Whether what is chosen in the interval follows.
    fn goes_on_at(&self, next: &Interval) -> bool {
        next.index == self.index
            && next.low.is_some()
            && next.low == self.end
            && next.lanes == self.lanes
    }

    /// This and then `load`, which is chosen in the interval.
    fn with(mut self, load: OpId, next: &Interval) -> Chain {
        self.ends.extend(self.end);
        self.parts.push(load);
        self.end = next.end;
        self
    }
}

/// Where something holds.
struct Interval {
    /// An index without its constant, the same in all lanes.
    index: Linear,
    /// The first number at which it holds, if not any.
    low: Option<i64>,
    /// The number behind the last one, if there is one.
    end: Option<i64>,
    /// What has to hold besides, of lanes that differ; in order.
    lanes: Vec<ValueId>,
}

/// Where `condition` holds.
fn interval(body: &Body, affine: &Affine, ranges: &Ranges, condition: ValueId) -> Option<Interval> {
    use ScalarOp::{And, Ge, Gt, Le, Lt};
    let mut found: Option<Interval> = None;
    let mut lanes = Vec::new();
    let mut pending = vec![condition];
    while let Some(value) = pending.pop() {
        let op = body.defining_op(value)?;
        if let Some(broadcast) = body.view::<Broadcast>(op) {
            pending.push(broadcast.a);
            continue;
        }
        let comparison = ScalarOp::of(body.op_name(op))?;
        if comparison == And {
            pending.extend(body.operands(op));
            continue;
        }
        let [a, b] = [0, 1].map(|side| body.operand(op, side));
        let is_index = super::expr::type_of(body, a).lane() == DType::INT64;
        if !matches!(comparison, Lt | Le | Gt | Ge) || !is_index {
            return None;
        }
        let [a, b] = [a, b].map(|side| affine.get(body, ranges, side));
        let difference = a.plus(&b, -1)?;
        let differs = |(term, _): &(ValueId, i64)| super::expr::type_of(body, *term).lanes() > 1;
        if difference.step != 0 || difference.terms.iter().any(differs) {
            lanes.push(value);
            continue;
        }
        let border = difference.constant.checked_neg()?;
        let index = Linear { constant: 0, ..difference };
        // Where the index reaches the border, or is beyond it.
        let (low, end) = match comparison {
            Lt => (None, Some(border)),
            Le => (None, Some(border.checked_add(1)?)),
            Ge => (Some(border), None),
            _ => (Some(border.checked_add(1)?), None),
        };
        let (low, end) = match &found {
            None => (low, end),
            Some(known) if known.index != index => return None,
            Some(Interval { low: known, end: None, .. }) if end.is_some() => (*known, end),
            Some(Interval { low: None, end: known, .. }) if low.is_some() => (low, *known),
            Some(_) => return None,
        };
        found = Some(Interval { index, low, end, lanes: vec![] });
    }
    lanes.sort();
    lanes.dedup();
    // What holds nowhere has no place among the others.
    let is_somewhere =
        |low: Option<i64>, end: Option<i64>| low.zip(end).is_none_or(|(low, end)| low <= end);
    let found = found
        .filter(|found| !found.index.terms.is_empty() && is_somewhere(found.low, found.end))?;
    Some(Interval { lanes, ..found })
}

impl Emitter<'_> {
    /// What `chain` chooses.
    pub(super) fn chain(&mut self, chain: &Chain, dtype: DType) -> Option<Repr> {
        let mut arms = Vec::new();
        let otherwise = self.repr(chain.otherwise);
        for part in &chain.parts {
            let load = self.body.view::<LoadIf>(*part)?;
            arms.push(match chain.lanes[..] {
                [] => self.load(*part, load.tensor, &load.indices, dtype)?,
                _ => self.load_where(*part, &load, &chain.lanes, &otherwise, dtype)?,
            });
        }
        let mut borders = chain.ends.clone();
        if let Some(low) = chain.low {
            arms.insert(0, otherwise.clone());
            borders.insert(0, low);
        }
        if let Some(end) = chain.end {
            arms.push(otherwise);
            borders.push(end);
        }
        self.kept.branches = true;
        if arms.iter().any(|arm| matches!(arm, Repr::Vector(_))) && self.has_vectors(dtype) {
            let (elem, lanes) = self.natural(dtype);
            let arms: Vec<Vector> =
                arms.into_iter().map(|arm| self.vector(arm, dtype, elem, lanes)).collect();
            let pieces = (0..dtype.lanes() as usize / lanes).map(|piece| {
                let arms: Vec<&Expr> = arms.iter().map(|arm| &arm.pieces[piece]).collect();
                self.by_halves(&chain.index, &borders, &arms)
            });
            let pieces = pieces.collect();
            return Some(Repr::Vector(Vector { elem, lanes, pieces }));
        }
        let is_same = arms.iter().all(|arm| matches!(arm, Repr::Scalar(_) | Repr::Splat(_)));
        let arms: Vec<Expr> = arms.into_iter().map(|arm| self.lane(arm, dtype)).collect();
        let arms: Vec<&Expr> = arms.iter().collect();
        let chosen = self.by_halves(&chain.index, &borders, &arms);
        Some(match (dtype.lanes(), is_same) {
            (1, _) => Repr::Scalar(chosen),
            (_, true) => Repr::Splat(chosen),
            (_, false) => Repr::Lanes(chosen),
        })
    }

    /// That of `arms` between whose `borders` the index is. One deep for each halving.
    fn by_halves(&mut self, index: &Linear, borders: &[i64], arms: &[&Expr]) -> Expr {
        let middle = borders.len() / 2;
        let Some(&border) = borders.get(middle) else { return arms[0].clone() };
        let (left, right) = (&borders[..middle], &borders[middle + 1..]);
        let left = self.by_halves(index, left, &arms[..=middle]);
        let right = self.by_halves(index, right, &arms[middle + 1..]);
        let index = self.index(index);
        let border = self.index(&Linear::constant(border));
        Expr::choice(&Expr::binary("<", &index, &border), &left, &right)
    }
}
