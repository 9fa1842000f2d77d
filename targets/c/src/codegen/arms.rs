//! What the arms of choices read.
//!
//! `c ? x[i] : y[i]` loads what is chosen, and vectorizers make loads under masks of it. GCC 12
//! gives several such loads side by side the mask of the first. The operands of `te.select` are all
//! computed whatever the condition is, so that a choice whose arms read what its condition does not
//! is written without a branch. So is one that an index comes from: GCC 12 makes a choice of loads of
//! `x[c ? 1 : 0]`. Others stay branches, which cost less where a loop waits for them.

use ir_core::{Body, EntityId, SmallVec, ValueId};
use te::compute::{Load, LoadIf};
use te::scalar::{Select, dtype_of};

use super::layout::{Home, Layout};

/// The loads that a value is computed from; `None` where there are more than [`MOST`].
type Loads = Option<SmallVec<[ValueId; MOST]>>;

/// Loads that are told apart.
const MOST: usize = 4;

pub(super) struct Arms {
    /// By value: the loads from memory that it is computed from, within its kernel.
    loads: Vec<Loads>,
    /// By value: whether an index of a load is computed from it.
    gives_index: Vec<bool>,
}

impl Arms {
    /// Looks at every operation and every operand twice.
    pub(super) fn of(body: &Body, layout: &Layout) -> Arms {
        let loads = vec![Some(SmallVec::new()); body.value_capacity()];
        let mut arms = Arms { loads, gives_index: indices(body) };
        for op in body.walk().filter(|op| body.result_count(*op) == 1) {
            let result = body.result(op, 0);
            if dtype_of(body.ty(result)).is_none() {
                continue;
            }
            let loaded = match (body.view::<Load>(op), body.view::<LoadIf>(op)) {
                (Some(load), _) => Some(load.tensor),
                (_, Some(load)) => Some(load.tensor),
                _ => None,
            };
            let in_memory =
                |tensor: ValueId| !matches!(layout.home(tensor), Some(Home::Variables(_)));
            let own = loaded.filter(|tensor| in_memory(*tensor)).map(|_| result);
            let mut all: Loads = Some(own.into_iter().collect());
            for operand in body.operands(op) {
                all = union(all, arms.get(operand));
            }
            arms.loads[result.index()] = all;
        }
        arms
    }

    fn get(&self, value: ValueId) -> &Loads {
        &self.loads[value.index()]
    }

    /// Whether `value` is computed from what is loaded.
    pub(super) fn is_loaded(&self, value: ValueId) -> bool {
        self.get(value).as_ref().is_none_or(|all| !all.is_empty())
    }

    /// Whether `select`, of which `result` is the result, may be no branch.
    pub(super) fn are_computed(&self, select: &Select, result: ValueId) -> bool {
        self.gives_index[result.index()] || self.read_more(select)
    }

    /// Whether an arm of `select` reads what its condition does not.
    pub(super) fn read_more(&self, select: &Select) -> bool {
        let condition = self.get(select.condition);
        let known = |load: &ValueId| condition.as_ref().is_some_and(|all| all.contains(load));
        let more = |arm: ValueId| !self.get(arm).as_ref().is_some_and(|all| all.iter().all(known));
        more(select.a) || more(select.b)
    }
}

/// By value: whether an index of a load is computed from it.
fn indices(body: &Body) -> Vec<bool> {
    let mut gives = vec![false; body.value_capacity()];
    // Uses come after definitions: from the last to the first, one walk is enough.
    for op in body.walk().collect::<Vec<_>>().into_iter().rev() {
        let indices = match (body.view::<Load>(op), body.view::<LoadIf>(op)) {
            (Some(load), _) => load.indices,
            (_, Some(load)) => load.indices,
            _ if body.results(op).any(|result| gives[result.index()]) => {
                body.operands(op).collect()
            }
            _ => continue,
        };
        indices.iter().for_each(|index| gives[index.index()] = true);
    }
    gives
}

fn union(all: Loads, more: &Loads) -> Loads {
    let (mut all, more) = (all?, more.as_ref()?);
    for load in more {
        if !all.contains(load) {
            if all.len() == MOST {
                return None;
            }
            all.push(*load);
        }
    }
    Some(all)
}
