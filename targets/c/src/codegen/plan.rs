//! Which values get a name in C, and which are written where they are used.

use ir_core::{Body, DType, EntityId, OpId, ValueId};
use rustc_hash::FxHashMap;
use te::compute::{Load, LoadIf};
use te::loops::{Alloc, Atomic, Broadcast, Call, Ramp, Store};
use te::scalar::{Constant, ScalarOp, dtype_of};

use super::affine::{Affine, indexed};
use super::ranges::Ranges;

/// How a value appears in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Not at all.
    Dead,
    /// In a variable of its own.
    Named,
    /// In the one expression that uses it.
    Inline,
    /// Wherever it is used: it costs nothing, as constants do.
    Everywhere,
}

/// The place of every value.
pub(super) struct Plan(Vec<Place>);

/// Loads and stores whose addresses are not made of all that their indices are.
struct Addresses {
    /// Of each, the values that its address is made of.
    values: FxHashMap<OpId, Vec<ValueId>>,
    /// The same by value: whose addresses are made of it.
    accesses: FxHashMap<ValueId, Vec<OpId>>,
}

impl Addresses {
    fn of(body: &Body, affine: &Affine, ranges: &Ranges) -> Addresses {
        let values = affine.divided_addresses(body, ranges);
        let mut accesses: FxHashMap<ValueId, Vec<OpId>> = FxHashMap::default();
        for (op, values) in &values {
            values.iter().for_each(|value| accesses.entry(*value).or_default().push(*op));
        }
        Addresses { values, accesses }
    }

    /// Whether operand `slot` of `user` is an index that says nothing of what is written.
    fn is_replaced(&self, body: &Body, user: OpId, slot: usize) -> bool {
        self.values.contains_key(&user) && indexed(body, user).is_some_and(|(_, at)| slot >= at)
    }

    /// Whose addresses are made of `value`, besides the users for which that is known from their operands.
    fn accesses(&self, value: ValueId) -> impl Iterator<Item = OpId> + '_ {
        self.accesses.get(&value).into_iter().flatten().copied()
    }
}

/// Memory that stores may change. Buffers with a planned place may lie on one another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Memory {
    Own(ValueId),
    Planned,
}

fn memory(body: &Body, buffer: ValueId) -> Memory {
    match body.view_def::<Alloc>(buffer) {
        Some((_, alloc)) if alloc.offset.is_some() => Memory::Planned,
        _ => Memory::Own(buffer),
    }
}

/// Where memory is written.
struct Writes {
    /// The place of each operation in program order.
    position: Vec<usize>,
    /// The places of what writes a memory, in order.
    places: FxHashMap<Memory, Vec<usize>>,
}

impl Writes {
    /// Those of the operations of a body, which are in program `order`.
    fn of(body: &Body, order: &[OpId]) -> Writes {
        let mut position = vec![0; body.op_capacity()];
        let mut places: FxHashMap<Memory, Vec<usize>> = FxHashMap::default();
        for (index, &op) in order.iter().enumerate() {
            position[op.index()] = index;
            let mut write = |buffer| places.entry(memory(body, buffer)).or_default().push(index);
            if let Some(store) = body.view::<Store>(op) {
                write(store.buffer);
            } else if let Some(atomic) = body.view::<Atomic>(op) {
                write(atomic.buffer);
            } else if let Some(call) = body.view::<Call>(op) {
                call.buffers().iter().copied().for_each(write);
            }
        }
        Writes { position, places }
    }

    /// Whether `buffer` is written between two operations.
    fn between(&self, body: &Body, buffer: ValueId, after: OpId, before: OpId) -> bool {
        let Some(places) = self.places.get(&memory(body, buffer)) else { return false };
        let (after, before) = (self.position[after.index()], self.position[before.index()]);
        let next = places.partition_point(|place| *place <= after);
        places.get(next).is_some_and(|place| *place < before)
    }
}

impl Plan {
    /// Looks at every operation and every use once.
    pub(super) fn of(body: &Body, affine: &Affine, ranges: &Ranges) -> Plan {
        let order: Vec<OpId> = body.walk().collect();
        let addresses = Addresses::of(body, affine, ranges);
        let writes = Writes::of(body, &order);
        let mut plan = Plan(vec![Place::Dead; body.value_capacity()]);
        // By value: in how many places it is written, and the statement that holds the last.
        let mut uses = vec![(0usize, None::<OpId>); body.value_capacity()];
        // By value: whether it only says which lanes of an index are loaded. Then a load asks at which
        // lanes that changes.
        let mut conditions = vec![false; body.value_capacity()];
        // Users come later in program order.
        for &op in order.iter().rev() {
            if body.result_count(op) != 1 {
                continue;
            }
            let value = body.result(op, 0);
            if dtype_of(body.ty(value)).is_none() {
                continue;
            }
            conditions[value.index()] = compares_indices(body, op)
                && body.uses(value).all(|(user, slot)| {
                    let is_condition = body.view::<LoadIf>(user).is_some() && slot == 0;
                    is_condition
                        || body.result_count(user) == 1 && conditions[body.result(user, 0).index()]
                });
            let (count, statement) = plan.users(body, value, &addresses, &uses);
            let reads = match (body.view::<Load>(op), body.view::<LoadIf>(op)) {
                (Some(load), _) => Some(load.tensor),
                (_, Some(load)) => Some(load.tensor),
                _ => None,
            };
            let costs_nothing = affine.is_sum(value)
                || body.view::<Constant>(op).is_some()
                || body.view::<Broadcast>(op).is_some()
                || body.view::<Ramp>(op).is_some()
                || conditions[value.index()];
            let stays = |statement: OpId| {
                body.op_block(statement) == body.op_block(op)
                    && !reads.is_some_and(|buffer| writes.between(body, buffer, op, statement))
            };
            plan.0[value.index()] = match (count, statement) {
                (0, _) => Place::Dead,
                _ if costs_nothing => Place::Everywhere,
                (1, Some(statement)) if stays(statement) => Place::Inline,
                _ => Place::Named,
            };
            uses[value.index()] = (count, statement);
        }
        plan
    }

    /// In how many places `value` is written, and the statement that holds the last; `uses` has the
    /// same of its users.
    fn users(
        &self,
        body: &Body,
        value: ValueId,
        addresses: &Addresses,
        uses: &[(usize, Option<OpId>)],
    ) -> (usize, Option<OpId>) {
        let (mut count, mut statement) = (0usize, None);
        let operands = body.uses(value);
        let operands = operands.filter(|(user, slot)| !addresses.is_replaced(body, *user, *slot));
        for user in operands.map(|(user, _)| user).chain(addresses.accesses(value)) {
            let result = (body.result_count(user) == 1).then(|| body.result(user, 0));
            // What gives no value is a statement.
            let place = result.map_or(Place::Named, |result| self.get(result));
            match (place, result) {
                (Place::Dead, _) => {}
                (Place::Everywhere, Some(result)) => {
                    count = count.saturating_add(uses[result.index()].0);
                    statement = uses[result.index()].1;
                }
                (Place::Inline, Some(result)) => {
                    count += 1;
                    statement = uses[result.index()].1;
                }
                _ => {
                    count += 1;
                    statement = Some(user);
                }
            }
        }
        (count, statement)
    }

    /// The place of `value`; block arguments and buffers have names.
    pub(super) fn get(&self, value: ValueId) -> Place {
        self.0[value.index()]
    }
}

/// Whether `op` gives for each lane how an index compares, or whether several such do.
fn compares_indices(body: &Body, op: OpId) -> bool {
    let value = body.result(op, 0);
    let is_vector = dtype_of(body.ty(value)).is_some_and(|dtype| dtype.lanes() > 1);
    is_vector
        && match ScalarOp::of(body.op_name(op)) {
            Some(ScalarOp::And) => true,
            Some(ScalarOp::Lt | ScalarOp::Le | ScalarOp::Gt | ScalarOp::Ge) => {
                let compared = dtype_of(body.ty(body.operand(op, 0)));
                compared.is_some_and(|dtype| dtype.lane() == DType::INT64)
            }
            _ => false,
        }
}
