//! Calls that something waits for within a group, and what must be kept meanwhile.

use ir_core::{Body, OpId, Symbol, ValueId};
use prog::Call;
use rustc_hash::{FxHashMap, FxHashSet};

use super::holes::Holes;

/// The calls of a group that push a frame.
#[derive(Default)]
pub(super) struct Waits {
    calls: Vec<Wait>,
    numbers: FxHashMap<(usize, OpId), usize>,
}

/// A call that pushes a frame.
pub(super) struct Wait {
    /// The function of the group that calls.
    pub(super) function: usize,
    /// The values that are used afterwards.
    pub(super) kept: Vec<ValueId>,
}

impl Waits {
    /// Whether there are such calls.
    pub(super) fn any(&self) -> bool {
        !self.calls.is_empty()
    }

    /// They.
    pub(super) fn all(&self) -> &[Wait] {
        &self.calls
    }

    /// The number of the call `op` of `function`, where it pushes a frame.
    pub(super) fn number(&self, function: usize, op: OpId) -> Option<usize> {
        self.numbers.get(&(function, op)).copied()
    }

    /// Adds the calls of `body`, function number `function`, of `members` of the group, without those that
    /// fill `holes`.
    pub(super) fn find(
        &mut self,
        function: usize,
        body: &Body,
        members: &FxHashSet<Symbol>,
        holes: &Holes,
    ) {
        let order: Vec<OpId> = body.walk().collect();
        let places: FxHashMap<OpId, usize> =
            order.iter().enumerate().map(|(place, op)| (*op, place)).collect();
        // Where the last operation inside of each stands.
        let mut ends: Vec<usize> = (0..order.len()).collect();
        for place in (0..order.len()).rev() {
            let block = body.op_block(order[place]);
            if let Some(around) = block.and_then(|block| body.block_parent(block)) {
                let around = places[&around];
                ends[around] = ends[around].max(ends[place]);
            }
        }
        // Values by the operation after which they are there, with their last use.
        let mut defined: FxHashMap<usize, Vec<(usize, ValueId)>> = FxHashMap::default();
        let mut add = |after: usize, value: ValueId| {
            let last = body.uses(value).map(|(user, _)| places[&user]).max();
            if let Some(last) = last {
                defined.entry(after).or_default().push((last, value));
            }
        };
        for (place, &op) in order.iter().enumerate() {
            for result in body.results(op) {
                // What branches give is there when they have ended.
                add(ends[place] + 1, result);
            }
        }
        for block in body.walk_blocks() {
            let first = body.first_op(block).map_or(0, |op| places[&op]);
            body.block_args(block).iter().for_each(|argument| add(first, *argument));
        }
        let mut live: Vec<(usize, ValueId)> = Vec::new();
        for (place, &op) in order.iter().enumerate() {
            live.extend(defined.remove(&place).unwrap_or_default());
            let call = body.view::<Call>(op).filter(|call| members.contains(&call.function));
            // Nothing waits for what fills a hole.
            if call.is_none() || body.results(op).any(|result| holes.is_result(result)) {
                continue;
            }
            live.retain(|(last, _)| *last > place);
            let kept = live.iter().map(|(_, value)| *value).collect();
            self.numbers.insert((function, op), self.calls.len());
            self.calls.push(Wait { function, kept });
        }
    }
}
