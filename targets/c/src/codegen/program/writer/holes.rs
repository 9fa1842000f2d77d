//! Calls of a function by itself whose result is a field of what it gives: tail calls but for a
//! constructor, as in `map` over a list.
//!
//! Nothing waits for such a call. What is made comes first, with a hole where the field is, and the
//! function starts again, to fill the hole instead of giving its result.

use ir_core::{BlockId, Body, OpId, Symbol, Type, ValueId};
use prog::{Call, Construct, Yield, is_counted};
use rustc_hash::{FxHashMap, FxHashSet};

/// Those calls of a function.
#[derive(Default)]
pub(super) struct Holes {
    /// The results of the calls, which are never there.
    results: FxHashSet<ValueId>,
    /// What is made of them, with the call.
    made: FxHashMap<OpId, OpId>,
    /// What gives that.
    ends: FxHashSet<OpId>,
}

impl Holes {
    /// Those of `function`, which gives values of `results`.
    pub(super) fn of(function: Symbol, body: &Body, results: &[Type]) -> Holes {
        let mut holes = Holes::default();
        let is_object = |ty: &Type| is_counted(*ty) && ty.as_tensor().is_none();
        if !matches!(results, [one] if is_object(one)) {
            return holes;
        }
        for block in last_blocks(body) {
            let Some(end) = body.last_op(block) else { continue };
            let Some(made) = body.prev_op(end).filter(|op| body.is::<Construct>(*op)) else {
                continue;
            };
            let Some(call) = body.prev_op(made) else { continue };
            let calls = body.view::<Call>(call).is_some_and(|call| call.function == function);
            let gives =
                body.view::<Yield>(end).is_some_and(|end| end.values == [body.result(made, 0)]);
            if !(calls && gives) {
                continue;
            }
            let result = body.result(call, 0);
            if body.uses(result).count() == 1
                && body.uses(body.result(made, 0)).count() == 1
                && body.operands(made).any(|field| field == result)
            {
                holes.results.insert(result);
                holes.made.insert(made, call);
                holes.ends.insert(end);
            }
        }
        holes
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.made.is_empty()
    }

    /// Whether `value` is the result of such a call.
    pub(super) fn is_result(&self, value: ValueId) -> bool {
        self.results.contains(&value)
    }

    /// The call whose result `made` has a hole for.
    pub(super) fn call(&self, made: OpId) -> Option<OpId> {
        self.made.get(&made).copied()
    }

    /// Whether `end` gives something with a hole.
    pub(super) fn is_end(&self, end: OpId) -> bool {
        self.ends.contains(&end)
    }
}

/// The blocks of `body` whose values are those of the function.
fn last_blocks(body: &Body) -> Vec<BlockId> {
    let mut blocks = vec![body.entry()];
    let mut next = 0;
    while let Some(&block) = blocks.get(next) {
        next += 1;
        let Some(end) = body.last_op(block) else { continue };
        let Some(around) = body.prev_op(end) else { continue };
        let values = body.view::<Yield>(end).map(|end| end.values).unwrap_or_default();
        if !values.is_empty() && values.iter().copied().eq(body.results(around)) {
            blocks.extend(body.regions(around).iter().map(|region| body.block_of(*region)));
        }
    }
    blocks
}
