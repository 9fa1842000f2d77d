//! The steps in which a clause is computed.

use indexmap::IndexSet;
use ir_core::{Body, OpId, ValueId};
use relay::language::{Call, Constant, Global, yielded};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::groups::{Clause, Descent, Group, Member, Param};

/// Operations of a clause that are computed together.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// In their order.
    pub(super) ops: Vec<OpId>,
    /// The variables of the pattern that it reads.
    pub(super) captured: Vec<ValueId>,
    /// What it reads that is computed elsewhere: parameters that are given, results of calls, and what the
    /// step before gives.
    pub(super) reads: Vec<ValueId>,
    /// What others read.
    pub(super) gives: Vec<ValueId>,
}

/// What a clause computes.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// What its calls are given; `None` where that is nothing that it computes.
    pub(super) before: Option<Step>,
    /// The result.
    pub(super) after: Step,
}

type Values = IndexSet<ValueId, FxBuildHasher>;

/// The steps of `clause` of `member`, with body `body`. What needs nothing but what is the same for
/// all nodes is computed in both. Linear in the size of the clause.
pub(super) fn steps(body: &Body, group: &Group, member: &Member, clause: &Clause) -> Steps {
    let is_computed =
        |op: &OpId| body.result_count(*op) > 0 && !body.is::<Global>(*op) && !body.is::<Call>(*op);
    let computed: Vec<OpId> = body.block_ops(clause.block).filter(is_computed).collect();
    let shared = shared(body, member, &computed);
    let mut gives = given(group, member, clause, body);
    let early = needed(body, &computed, &gives);
    let before: Vec<OpId> = computed.iter().copied().filter(|op| early.contains(op)).collect();
    let is_late = |op: &OpId| !early.contains(op) || shared.contains(op);
    let after: Vec<OpId> = computed.into_iter().filter(is_late).collect();

    let result = yielded(body, clause.block).expect("clauses give values");
    let used = used(body, &after, [result]);
    let kept = before.iter().filter(|op| !shared.contains(*op)).flat_map(|op| body.results(*op));
    let kept: Vec<ValueId> = kept.filter(|value| used.contains(value)).collect();
    gives.extend(&kept);
    let descents = clause.calls.iter().map(|descent| body.result(descent.call, 0));
    let elsewhere: Vec<ValueId> = kept.iter().copied().chain(descents).collect();
    let step = |ops: Vec<OpId>, used: &Values, elsewhere: &[ValueId], gives: Vec<ValueId>| {
        let of = |values: &[ValueId]| values.iter().copied().filter(|v| used.contains(v)).collect();
        let params = body.block_args(body.entry());
        let mut reads: Vec<ValueId> =
            of(&member.given().map(|index| params[index]).collect::<Vec<_>>());
        reads.extend::<Vec<ValueId>>(of(elsewhere));
        Step { ops, captured: of(body.block_args(clause.block)), reads, gives }
    };
    let after = step(after, &used, &elsewhere, vec![result]);
    let gives: Vec<ValueId> = gives.into_iter().collect();
    let used = self::used(body, &before, gives.iter().copied());
    let before = (!gives.is_empty()).then(|| step(before, &used, &[], gives));
    Steps { before, after }
}

/// The operations among `computed` that need nothing but what is the same for all nodes.
fn shared(body: &Body, member: &Member, computed: &[OpId]) -> FxHashSet<OpId> {
    let params = body.block_args(body.entry()).iter().zip(&member.params);
    let handed = params.filter(|(_, param)| !matches!(param, Param::Data | Param::Given));
    let constants = body.block_ops(body.entry()).filter(|op| body.is::<Constant>(*op));
    let mut same: FxHashSet<ValueId> = handed.map(|(value, _)| *value).collect();
    same.extend(constants.flat_map(|op| body.results(op)));
    let mut shared = FxHashSet::default();
    for op in computed {
        if body.operands(*op).all(|operand| same.contains(&operand)) {
            shared.insert(*op);
            same.extend(body.results(*op));
        }
    }
    shared
}

/// What the calls of `clause` are given besides data, and that is not given to `member` itself.
fn given(group: &Group, member: &Member, clause: &Clause, body: &Body) -> Values {
    let params = body.block_args(body.entry());
    let is_passed_on = |arg: &ValueId| member.given().any(|index| params[index] == *arg);
    let of = |descent: &Descent| {
        let callee = &group[&descent.callee];
        callee.given().map(|index| descent.args[index]).collect::<Vec<_>>()
    };
    clause.calls.iter().flat_map(of).filter(|arg| !is_passed_on(arg)).collect()
}

/// The operations among `computed`, which are in order, that `values` need.
fn needed(body: &Body, computed: &[OpId], values: &Values) -> FxHashSet<OpId> {
    let mut needed: FxHashSet<ValueId> = values.iter().copied().collect();
    let mut found = FxHashSet::default();
    for op in computed.iter().rev() {
        if body.results(*op).any(|value| needed.contains(&value)) {
            found.insert(*op);
            needed.extend(body.operands(*op));
        }
    }
    found
}

/// What `ops` read, and `values`.
fn used(body: &Body, ops: &[OpId], values: impl IntoIterator<Item = ValueId>) -> Values {
    ops.iter().flat_map(|op| body.operands(*op)).chain(values).collect()
}
