//! What the arms of choices read.
//!
//! `c ? x[i] : y[i]` loads what is chosen, and vectorizers make loads under masks of it. GCC 12 gives
//! several such loads side by side the mask of the first. The operands of `te.select` are all
//! computed whatever the condition is, so that a choice whose arms read what its condition does not
//! is written without a branch. Others stay branches, which cost less where a loop waits for them.

use ir_core::{Body, EntityId, SmallVec, ValueId};
use te::compute::{Load, LoadIf};
use te::scalar::{Select, dtype_of};

use super::layout::{Home, Layout};

/// The loads that a value is computed from; `None` where there are more than [`MOST`].
type Loads = Option<SmallVec<[ValueId; MOST]>>;

/// Loads that are told apart.
const MOST: usize = 4;

/// By value: the loads from memory that it is computed from, within its kernel.
pub(super) struct Arms(Vec<Loads>);

impl Arms {
    /// Looks at every operation and every operand once.
    pub(super) fn of(body: &Body, layout: &Layout) -> Arms {
        let mut arms = Arms(vec![Some(SmallVec::new()); body.value_capacity()]);
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
            arms.0[result.index()] = all;
        }
        arms
    }

    fn get(&self, value: ValueId) -> &Loads {
        static MANY: Loads = None;
        self.0.get(value.index()).unwrap_or(&MANY)
    }

    /// Whether an arm of `select` reads what its condition does not.
    pub(super) fn read_more(&self, select: &Select) -> bool {
        let condition = self.get(select.condition);
        let known = |load: &ValueId| condition.as_ref().is_some_and(|all| all.contains(load));
        let more = |arm: ValueId| !self.get(arm).as_ref().is_some_and(|all| all.iter().all(known));
        more(select.a) || more(select.b)
    }
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
