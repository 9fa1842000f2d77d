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

    /// Moves behind the last of `group`, operations of one block in program order, what stands between them and depends
    /// on them: all of them can be computed where the last one is then. Whether it did: not where one of them depends on
    /// another, where what depends on them has effects or regions, or where too much would have to be looked at.
    pub(crate) fn make_room(&mut self, f: &mut FuncMut<'_>, group: &[OpId]) -> bool {
        let Some(depending) = self.depending(f, group) else { return false };
        // Behind the last one, in their order.
        let last = group[group.len() - 1];
        let mut behind = last;
        for op in depending {
            f.body.move_op(op, InsertPoint::After(behind));
            behind = op;
        }
        true
    }

    /// What depends on `group`, of what stands between, in program order.
    fn depending(&mut self, f: &FuncMut<'_>, group: &[OpId]) -> Option<Vec<OpId>> {
        let last = *group.last()?;
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
