//! A search over programs: of all that one more rule makes, the cheapest few go on.

use std::rc::Rc;

use ir_core::fingerprint::{Fingerprint, fingerprint};
use ir_core::{Body, Diagnostics, FuncMut, Interrupt, OpId};
use rustc_hash::FxHashSet;

use crate::body_graph::is_pure;
use crate::cost::CostModel;
use crate::eqsat::cost;
use crate::greedy::{Found as Plan, apply_plan, plan_of};
use crate::library::RuleSet;
use crate::proof::Recorder;
use crate::saturate::Entry;

/// How far to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Programs that go on after a round.
    pub width: usize,
    /// Rounds.
    pub rounds: u32,
    /// Operations that are looked at or copied.
    pub work: u64,
    /// Ends the work before that.
    pub interrupt: Interrupt,
}

/// What the search did.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// By the place of the rule in the set.
    pub rules: Vec<Entry>,
    /// Operations that were looked at or copied.
    pub work: u64,
    /// Rounds.
    pub rounds: u32,
    /// Whether no program was left to go on from.
    pub finished: bool,
}

struct State {
    cost: f64,
    body: Body,
    /// The rules that led here.
    rules: Vec<usize>,
    /// What they did, where that is noted.
    trail: Vec<Rc<Plan>>,
}

/// Replaces `f` by the cheapest program found, if it is cheaper. `active` says which of `rules`
/// take part. Programs that were met before are not looked at again. What led to it is noted with
/// `recorder`.
///
/// # Errors
/// When a rule's right side does not type.
pub fn search(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    active: &[bool],
    model: CostModel,
    limits: Limits,
    recorder: Option<&mut Recorder>,
) -> Result<Found, Diagnostics> {
    let noted = recorder.is_some();
    let mut found = Found {
        rules: vec![Entry::default(); rules.rules.len()],
        work: 0,
        rounds: 0,
        finished: false,
    };
    let before = cost(f, model);
    let mut best: Option<State> = None;
    let mut states =
        vec![State { cost: before, body: f.body.clone(), rules: vec![], trail: vec![] }];
    let mut seen: FxHashSet<Fingerprint> = std::iter::once(fingerprint(f.body)).collect();
    let is_over = |found: &Found| found.work >= limits.work || limits.interrupt.is_raised();
    while found.rounds < limits.rounds && !is_over(&found) {
        found.rounds += 1;
        let mut next = Vec::new();
        for state in &mut states {
            let seen = &mut seen;
            expand(f, rules, active, model, limits, state, noted, seen, &mut found, &mut next)?;
        }
        // A stable sort: of equal ones, the one that was found first.
        next.sort_by(|a: &State, b: &State| a.cost.total_cmp(&b.cost));
        next.truncate(limits.width);
        states = next;
        let Some(first) = states.first() else {
            found.finished = !is_over(&found);
            break;
        };
        if first.cost < best.as_ref().map_or(before, |best| best.cost) - 1e-9 {
            let (body, rules) = (first.body.clone(), first.rules.clone());
            best = Some(State { cost: first.cost, body, rules, trail: first.trail.clone() });
        }
    }
    if let Some(best) = best {
        best.rules.iter().for_each(|rule| found.rules[*rule].used += 1);
        if let Some(recorder) = recorder {
            note(f, rules, &best.trail, recorder);
        }
        *f.body = best.body;
    }
    Ok(found)
}

/// Goes to the best program once more, in a copy, and notes the steps: equal edits of equal bodies
/// make values of equal ids.
fn note(f: &mut FuncMut<'_>, rules: &RuleSet, trail: &[Rc<Plan>], recorder: &mut Recorder) {
    let mut body = f.body.clone();
    let mut view = with_body(f, &mut body);
    for plan in trail {
        recorder.in_place(view.body, rules, plan.0, &plan.1, view.registry);
        let made = apply_plan(&mut view, rules, plan);
        recorder.made(&made);
    }
}

/// The function as it would be with another body.
fn with_body<'a>(f: &'a mut FuncMut<'_>, body: &'a mut Body) -> FuncMut<'a> {
    FuncMut {
        name: f.name,
        signature: &mut *f.signature,
        body,
        signatures: f.signatures,
        registry: f.registry,
    }
}

/// Adds to `next` what each rule makes at each place of `state`.
#[allow(clippy::too_many_arguments, reason = "the state of one loop")]
fn expand(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    active: &[bool],
    model: CostModel,
    limits: Limits,
    state: &mut State,
    noted: bool,
    seen: &mut FxHashSet<Fingerprint>,
    found: &mut Found,
    next: &mut Vec<State>,
) -> Result<(), Diagnostics> {
    let mut view = with_body(f, &mut state.body);
    let ops: Vec<OpId> = view.body.walk().collect();
    for op in ops {
        if !is_pure(view.body, view.registry, op) {
            continue;
        }
        let Some(places) = rules.by_root.get(&view.body.op_name(op)) else { continue };
        for place in places.iter().copied().filter(|place| active[*place]) {
            if found.work >= limits.work || limits.interrupt.is_raised() {
                return Ok(());
            }
            let mut work = 1;
            let plan = plan_of(&view, rules, place, op, 100, &mut work)?;
            found.work += work;
            found.rules[place].work += work;
            let Some(plan) = plan else { continue };
            found.rules[place].matches += 1;
            let mut body = view.body.clone();
            found.work += body.op_count() as u64;
            std::mem::swap(view.body, &mut body);
            apply_plan(&mut view, rules, &plan);
            let new = seen.insert(fingerprint(view.body));
            let cost = if new { cost(&view, model) } else { 0.0 };
            std::mem::swap(view.body, &mut body);
            if new {
                found.rules[place].applied += 1;
                let rules = state_rules(&state.rules, place);
                let mut trail = state.trail.clone();
                trail.extend(noted.then(|| Rc::new(plan)));
                next.push(State { cost, body, rules, trail });
            }
        }
    }
    Ok(())
}

fn state_rules(rules: &[usize], place: usize) -> Vec<usize> {
    rules.iter().copied().chain(std::iter::once(place)).collect()
}
