//! Operations of one block that are computed at one place.

use ir_core::{Effects, FuncMut, InsertPoint, OpId};
use rustc_hash::FxHashSet;

/// How often each operation is looked at, at most, to find what depends on others.
const ROUNDS: usize = 64;

/// How many operations may still be looked at in a function. Each is seen a bounded number of times, so that the cost
/// stays linear.
pub(crate) struct Looks(usize);

impl Looks {
    /// For a function of so many operations.
    pub(crate) fn of(operations: usize) -> Looks {
        Looks(operations * ROUNDS)
    }

    /// Moves behind the last of `group`, operations of one block, what stands between them and depends on them. The last
    /// one, where all of them can be computed then: not where one of them depends on another, where what depends on
    /// them has effects or regions, or where too much would have to be looked at.
    ///
    /// What is moved may be of other groups, whose order changes then: it is asked for here, each time.
    pub(crate) fn make_room(&mut self, f: &mut FuncMut<'_>, group: &[OpId]) -> Option<OpId> {
        let last =
            group.iter().copied().reduce(|a, b| if f.body.is_before(a, b) { b } else { a })?;
        let depending = self.depending(f, group, last)?;
        // Behind the last one, in their order.
        let mut behind = last;
        for op in depending {
            f.body.move_op(op, InsertPoint::After(behind));
            behind = op;
        }
        Some(last)
    }

    /// What depends on `group`, of what stands before `last`, in program order.
    fn depending(&mut self, f: &FuncMut<'_>, group: &[OpId], last: OpId) -> Option<Vec<OpId>> {
        let block = f.body.op_block(last)?;
        let members: FxHashSet<OpId> = group.iter().copied().collect();
        let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
        let mut pending: Vec<OpId> = group.to_vec();
        while let Some(op) = pending.pop() {
            for result in f.body.results(op) {
                for (user, _) in f.body.uses(result) {
                    self.0 = self.0.checked_sub(1)?;
                    let user = f.body.ancestor_in(user, block)?;
                    if members.contains(&user) {
                        return None;
                    }
                    if !seen.insert(user) || !f.body.is_before(user, last) {
                        continue;
                    }
                    let has_effects = f.registry.effects(f.body, user) != Effects::empty();
                    if f.body.has_regions(user) || has_effects {
                        return None;
                    }
                    found.push(user);
                    pending.push(user);
                }
            }
        }
        found.sort_by(|a, b| match f.body.is_before(*a, *b) {
            true => std::cmp::Ordering::Less,
            false => std::cmp::Ordering::Greater,
        });
        Some(found)
    }
}
