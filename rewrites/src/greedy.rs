//! The greedy strategy: apply rules in place until none applies.

use std::collections::VecDeque;

use ir_core::{
    Diagnostic, Diagnostics, Effects, EntityId, FuncMut, InsertPoint, Interrupt, Loc, OpId,
    OpParts, SmallVec, Symbol, Traits, ValueDef, ValueId,
};

use crate::COMPUTE;
use crate::body_graph::{BodyGraph, is_pure};
use crate::codes;
use crate::compute::computed;
use crate::family::{Groups, Siblings};
use crate::instantiate::{Conditions, Operand, Plan, Refusal, plan};
use crate::library::{Compiled, RuleSet};
use crate::matching::{Head, Match, Pattern, TermGraph, search};
use crate::proof::Recorder;
use crate::rule::{FloatClass, Rule};

/// How far to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Applications of rules.
    pub rewrites: u64,
    /// Matches of one rule at one operation that are looked at.
    pub matches: u64,
    /// Ends the work before that.
    pub interrupt: Interrupt,
}

/// What the rules did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// How often each rule was applied, by its place in the set.
    pub applied: Vec<u64>,
    /// Operations on constants that were computed.
    pub computed: u64,
    /// Operations looked at.
    pub work: u64,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Applies `rules` to `f` until none applies, or the limit is reached, which is reported as a
/// warning. Operations are visited in program order, then what was made and whoever uses it; at
/// one operation, the first rule of the set that applies is taken. What a rule makes of constants
/// alone is computed at once, where there is an [evaluator](crate::compute::Evaluator).
///
/// # Errors
/// When a rule's right side does not type.
pub fn rewrite(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    limits: Limits,
) -> Result<(Statistics, Option<Diagnostic>), Diagnostics> {
    rewrite_with(f, rules, &vec![true; rules.rules.len()], limits, None)
}

/// As [`rewrite`], with those of `rules` alone that are `active`. What is done is noted with
/// `recorder`.
///
/// # Errors
/// When a rule's right side does not type.
pub fn rewrite_with(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    active: &[bool],
    limits: Limits,
    mut recorder: Option<&mut Recorder>,
) -> Result<(Statistics, Option<Diagnostic>), Diagnostics> {
    let applied = vec![0; rules.rules.len()];
    let mut statistics = Statistics { applied, ..Statistics::default() };
    let mut worklist = Worklist::new(f);
    let mut total = 0;
    while let Some(op) = worklist.pop() {
        if limits.interrupt.is_raised() {
            statistics.interrupted = true;
            break;
        }
        if !f.body.is_live(op) {
            continue;
        }
        let Some((index, found, plan)) = first_plan(f, rules, active, op, limits, &mut statistics)?
        else {
            continue;
        };
        if total == limits.rewrites {
            return Ok((statistics.clone(), Some(stopped(f, rules, &statistics, limits))));
        }
        total += 1;
        statistics.applied[index] += 1;
        let rule = rules.rules[index].rule.name;
        let loc = location(f, rule, &found, &plan);
        if let Some(recorder) = recorder.as_deref_mut() {
            recorder.in_place(f.body, rules, index, &found, f.registry);
        }
        f.body.begin_rewrite(rule, op);
        let made = apply(f, &plan, loc, &mut worklist);
        f.body.end_rewrite();
        recorder.iter_mut().for_each(|recorder| recorder.made(&made));
        for value in made {
            let recorder = recorder.as_deref_mut();
            statistics.computed += u64::from(compute(f, value, recorder, &mut worklist));
        }
    }
    Ok((statistics, None))
}

/// Replaces an operation on constants, which a rule made, by its result; whether there is one.
fn compute(
    f: &mut FuncMut<'_>,
    value: ValueId,
    mut recorder: Option<&mut Recorder>,
    worklist: &mut Worklist,
) -> bool {
    let Some(op) = f.body.defining_op(value).filter(|op| f.body.is_live(*op)) else { return false };
    // Most operations have an operand that is no constant.
    let first = f.body.operands(op).next();
    if first.is_none_or(|operand| f.registry.constant(f.body, operand).is_none()) {
        return false;
    }
    let graph = BodyGraph { body: f.body, registry: f.registry };
    let Some(plan) = computed(&graph, value, f.registry) else { return false };
    if let Some(recorder) = recorder.as_deref_mut() {
        recorder.computed(f.body, value, f.registry);
    }
    let (rule, loc) = (Symbol::new(COMPUTE), f.body.loc(op));
    f.body.begin_rewrite(rule, op);
    let made = apply(f, &plan, loc.by_pass(rule), worklist);
    f.body.end_rewrite();
    recorder.iter_mut().for_each(|recorder| recorder.made(&made));
    true
}

/// Operations that are still to be visited.
struct Worklist {
    pending: VecDeque<OpId>,
    queued: Vec<bool>,
}

impl Worklist {
    fn new(f: &FuncMut<'_>) -> Worklist {
        let pending: VecDeque<OpId> = f.body.walk().collect();
        let mut queued = vec![false; f.body.op_capacity()];
        pending.iter().for_each(|op| queued[op.index()] = true);
        Worklist { pending, queued }
    }

    fn push(&mut self, op: OpId) {
        if op.index() >= self.queued.len() {
            self.queued.resize(op.index() + 1, false);
        }
        if !std::mem::replace(&mut self.queued[op.index()], true) {
            self.pending.push_back(op);
        }
    }

    fn pop(&mut self) -> Option<OpId> {
        let op = self.pending.pop_front()?;
        self.queued[op.index()] = false;
        Some(op)
    }
}

/// A rule, by its place, where it matches, and what it makes.
pub(crate) type Found = (usize, Match<ValueId>, Plan<ValueId>);

/// What the first rule that applies makes of `op`.
fn first_plan(
    f: &FuncMut<'_>,
    rules: &RuleSet,
    active: &[bool],
    op: OpId,
    limits: Limits,
    statistics: &mut Statistics,
) -> Result<Option<Found>, Diagnostics> {
    let Some(candidates) = rules.by_root.get(&f.body.op_name(op)) else { return Ok(None) };
    if !is_pure(f.body, f.registry, op) {
        return Ok(None);
    }
    let operands: SmallVec<[_; 4]> =
        f.body.operands(op).map(|value| first_sight(f, value)).collect();
    for index in candidates.iter().copied().filter(|index| active[*index]) {
        if !begins(&rules.rules[index].pattern, &operands) {
            continue;
        }
        let found = plan_of(f, rules, index, op, limits.matches, &mut statistics.work)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The operation that computes `value`, and whether it is a constant.
fn first_sight(f: &FuncMut<'_>, value: ValueId) -> (Option<Symbol>, bool) {
    let Some(op) = f.body.defining_op(value) else { return (None, false) };
    (Some(f.body.op_name(op)), f.registry.traits(f.body, op).contains(Traits::CONSTANT))
}

/// Whether `operands`, in some order, are what `pattern` says of them at first sight.
fn begins(pattern: &Pattern, operands: &[(Option<Symbol>, bool)]) -> bool {
    let heads = &*pattern.heads;
    let fits = |(head, operand): (&Head, &(Option<Symbol>, bool))| match head {
        Head::Any => true,
        Head::Op(name) => operand.0 == Some(*name),
        Head::Constant => operand.1,
    };
    operands.len() == heads.len()
        && (heads.iter().zip(operands).all(fits)
            || operands.len() == 2 && heads.iter().zip(operands.iter().rev()).all(fits))
}

/// What the rule at the place `index` makes of `op`.
pub(crate) fn plan_of(
    f: &FuncMut<'_>,
    rules: &RuleSet,
    index: usize,
    op: OpId,
    matches: u64,
    work: &mut u64,
) -> Result<Option<Found>, Diagnostics> {
    let graph = BodyGraph { body: f.body, registry: f.registry };
    let root = f.body.result(op, 0);
    let compiled = &rules.rules[index];
    let applied = |found: Diagnostics| {
        found.map(|error| error.related(f.op_span(op), "the operation it was applied to"))
    };
    if let Some(siblings) = &compiled.siblings {
        return match family(f, compiled, siblings, rules, root, work) {
            Ok(found) => Ok(found.map(|(found, plan)| (index, found, plan))),
            Err(found) => Err(applied(found)),
        };
    }
    let (mut chosen, mut refused) = (None, None);
    let mut left = matches;
    let mut visit = |found: &Match<ValueId>| {
        left = left.saturating_sub(1);
        if !is_allowed(f, rules, &compiled.rule, found) {
            return left > 0;
        }
        match plan(&graph, (&compiled.rule, Conditions::All), found, f.registry, &rules.functions) {
            Ok(plan) if changes(f, &plan) && place(f, &found.equations, &plan).is_some() => {
                chosen = Some((index, found.clone(), plan));
            }
            Err(Refusal::IllTyped(found)) if !rules.lenient => refused = Some(found),
            Ok(_) | Err(_) => {}
        }
        chosen.is_none() && refused.is_none() && left > 0
    };
    search(&graph, &compiled.rule, &compiled.pattern, root, work, &mut visit);
    match refused {
        Some(found) => Err(applied(found)),
        None => Ok(chosen),
    }
}

/// Whether `rule` may be applied where it was `found`, whatever it says of types and attributes.
fn is_allowed(f: &FuncMut<'_>, rules: &RuleSet, rule: &Rule, found: &Match<ValueId>) -> bool {
    let is_float = |value: &ValueId| {
        f.body.ty(*value).as_tensor().is_some_and(|tensor| tensor.dtype.is_float())
    };
    if rules.exact && rule.class != FloatClass::Exact {
        let values = found.values.iter().flatten();
        if found.ops.iter().chain(values).any(is_float) {
            return false;
        }
    }
    let is_shared =
        |value: &ValueId| !found.equations.contains(value) && !f.body.has_one_use(*value);
    !(rule.unshared && found.ops.iter().any(is_shared))
}

/// Applies what [`plan_of`] found; the values of the operations that it made.
pub(crate) fn apply_plan(f: &mut FuncMut<'_>, rules: &RuleSet, found: &Found) -> Vec<ValueId> {
    let (index, matched, plan) = found;
    let loc = location(f, rules.rules[*index].rule.name, matched, plan);
    let mut worklist = Worklist { pending: VecDeque::new(), queued: vec![] };
    apply(f, plan, loc, &mut worklist)
}

/// Where what `rule` makes of `found` comes from.
fn location(f: &FuncMut<'_>, rule: Symbol, found: &Match<ValueId>, plan: &Plan<ValueId>) -> Loc {
    // Nothing is made, so nothing needs it.
    if plan.ops.is_empty() {
        return Loc::UNKNOWN;
    }
    Loc::fused(found.ops.iter().map(|value| f.body.value_loc(*value))).by_pass(rule)
}

/// What a rule about a family makes of the operation of `root` and of those that share an operand
/// with it.
fn family(
    f: &FuncMut<'_>,
    compiled: &Compiled,
    siblings: &Siblings,
    rules: &RuleSet,
    root: ValueId,
    work: &mut u64,
) -> Result<Option<(Match<ValueId>, Plan<ValueId>)>, Diagnostics> {
    let graph = BodyGraph { body: f.body, registry: f.registry };
    let mut shared = None;
    search(&graph, &siblings.member, &compiled.pattern, root, work, &mut |found| {
        shared = siblings.shared(found);
        false
    });
    let Some(shared) = shared else { return Ok(None) };
    let mut groups = Groups::default();
    for user in graph.users(shared, compiled.pattern.root) {
        search(&graph, &siblings.member, &compiled.pattern, user, work, &mut |found| {
            siblings.add(&mut groups, &graph, found, &rules.functions);
            true
        });
    }
    for group in groups.iter() {
        let Some(rule) = siblings.of(group.len()) else { continue };
        let found = siblings.join(group);
        if !found.equations.contains(&root) || !is_allowed(f, rules, rule, &found) {
            continue;
        }
        match plan(&graph, (rule, Conditions::All), &found, f.registry, &rules.functions) {
            Ok(plan) if place(f, &found.equations, &plan).is_some() => {
                return Ok(Some((found, plan)));
            }
            Err(Refusal::IllTyped(found)) if !rules.lenient => return Err(found),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Whether a plan makes anything else than what is there.
fn changes(f: &FuncMut<'_>, plan: &Plan<ValueId>) -> bool {
    let same = |(old, new): &(ValueId, Operand<ValueId>)| match new {
        Operand::Value(value) => value == old,
        Operand::New(index) => {
            let planned = &plan.ops[*index];
            let Some(op) = f.body.defining_op(*old) else { return false };
            let operands = planned.operands.iter().map(|operand| match operand {
                Operand::Value(value) => Some(*value),
                Operand::New(_) => None,
            });
            f.body.op_name(op) == planned.name
                && f.body.attrs(op) == planned.attrs
                && f.body.operands(op).map(Some).eq(operands)
        }
    };
    !plan.replacements.iter().all(same)
}

/// Where the new operations can stand: after what they use and before every use of what they
/// replace. With one root that is just before it. With several, they and the operands must share
/// a block.
fn place(f: &FuncMut<'_>, roots: &[ValueId], plan: &Plan<ValueId>) -> Option<InsertPoint> {
    let root = f.body.defining_op(*roots.first()?)?;
    if plan.replacements.len() == 1 && roots.len() == 1 {
        return Some(InsertPoint::Before(root));
    }
    let block = f.body.op_block(root)?;
    let outside = plan.ops.iter().flat_map(|op| &op.operands);
    let outside = outside.chain(plan.replacements.iter().map(|(_, new)| new));
    let mut last: Option<OpId> = None;
    for operand in outside {
        let Operand::Value(value) = operand else { continue };
        match f.body.def(*value) {
            ValueDef::Result(op, _) if f.body.op_block(op) == Some(block) => {
                if last.is_none_or(|last| f.body.is_before(last, op)) {
                    last = Some(op);
                }
            }
            // What is defined around the block is visible all over it, and what is defined
            // elsewhere is not visible at all.
            _ if is_around(f, *value, root) => {}
            _ => return None,
        }
    }
    for (old, _) in &plan.replacements {
        let op = f.body.defining_op(*old)?;
        (f.body.op_block(op) == Some(block)).then_some(())?;
        for (user, _) in f.body.uses(*old) {
            let user = f.body.ancestor_in(user, block)?;
            if last.is_some_and(|last| last == user || f.body.is_before(user, last)) {
                return None;
            }
        }
    }
    Some(last.map_or(InsertPoint::Start(block), InsertPoint::After))
}

/// Whether `value` is defined in a block around that of `op`, or is an argument of one.
fn is_around(f: &FuncMut<'_>, value: ValueId, op: OpId) -> bool {
    let Some(block) = f.body.def_block(value) else { return false };
    match (f.body.def(value), f.body.ancestor_in(op, block)) {
        (ValueDef::Argument(..), Some(_)) => true,
        (ValueDef::Result(def, _), Some(ancestor)) => f.body.is_before(def, ancestor),
        _ => false,
    }
}

/// The values of the operations that it made, in the order of the plan; some may be gone again.
fn apply(
    f: &mut FuncMut<'_>,
    plan: &Plan<ValueId>,
    loc: Loc,
    worklist: &mut Worklist,
) -> Vec<ValueId> {
    let found: SmallVec<[ValueId; 2]> = plan.replacements.iter().map(|(old, _)| *old).collect();
    let Some(first) = found.first().and_then(|old| f.body.defining_op(*old)) else {
        return vec![];
    };
    let at = match plan.replacements.len() {
        1 => InsertPoint::Before(first),
        _ => match place(f, &found, plan) {
            Some(at) => at,
            None => return vec![],
        },
    };
    let mut made: Vec<ValueId> = Vec::with_capacity(plan.ops.len());
    let mut at = at;
    for planned in &plan.ops {
        let operands: SmallVec<[ValueId; 4]> =
            planned.operands.iter().map(|operand| resolve(*operand, &made)).collect();
        let results = [planned.ty];
        let parts = OpParts::new(planned.name, &operands, &results).attrs(planned.attrs).at(loc);
        let op = f.body.insert_op(at, parts);
        if !matches!(at, InsertPoint::Before(_)) {
            at = InsertPoint::After(op);
        }
        made.push(f.body.result(op, 0));
        worklist.push(op);
    }
    let mut unused = Vec::new();
    for (old, new) in &plan.replacements {
        let new = resolve(*new, &made);
        let Some(op) = f.body.defining_op(*old) else { continue };
        let users: Vec<OpId> = f.body.uses(*old).map(|(user, _)| user).collect();
        unused.extend(f.body.operands(op).filter_map(|operand| f.body.defining_op(operand)));
        f.replace(op, new);
        users.into_iter().for_each(|user| worklist.push(user));
    }
    unused.extend(made.iter().filter_map(|value| f.body.defining_op(*value)));
    erase_unused(f, unused, worklist);
    made
}

fn resolve(operand: Operand<ValueId>, made: &[ValueId]) -> ValueId {
    match operand {
        Operand::Value(value) => value,
        Operand::New(index) => made[index],
    }
}

/// Erases those of `candidates` that nobody uses, and then what only they used. The users of an
/// operand that lost one are visited again: rules may ask how often a value is used.
fn erase_unused(f: &mut FuncMut<'_>, mut candidates: Vec<OpId>, worklist: &mut Worklist) {
    while let Some(op) = candidates.pop() {
        if !f.body.is_live(op)
            || f.body.result_count(op) == 0
            || f.body.has_regions(op)
            || f.body.results(op).any(|result| !f.body.is_unused(result))
            || f.registry.effects(f.body, op).intersects(Effects::WRITE | Effects::DIVERGE)
        {
            continue;
        }
        let operands: Vec<OpId> =
            f.body.operands(op).filter_map(|operand| f.body.defining_op(operand)).collect();
        f.body.erase(op);
        for operand in operands {
            worklist.push(operand);
            candidates.push(operand);
        }
    }
}

fn stopped(
    f: &FuncMut<'_>,
    rules: &RuleSet,
    statistics: &Statistics,
    limits: Limits,
) -> Diagnostic {
    let message =
        format!("rewriting of @{} was stopped after {} rewrites", f.name, limits.rewrites);
    let mut most: Vec<(u64, &str)> = statistics
        .applied
        .iter()
        .zip(&rules.rules)
        .map(|(count, compiled)| (*count, compiled.rule.name.as_str()))
        .filter(|(count, _)| *count > 0)
        .collect();
    most.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let mut warning = Diagnostic::warning(codes::ENDLESS, message).at(f.base());
    for (count, name) in most.into_iter().take(3) {
        warning = warning.note(format!("`{name}` was applied {count} times"));
    }
    warning.help("leave out rules that undo one another, raise `limit`, or use `eqsat`")
}
