//! Equality saturation of a block: rules add equal forms until nothing is new or the budget ends.

use ir_core::{Attr, Diagnostic, Diagnostics, Interrupt, Registry};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes;
use crate::egraph::{Class, Graph};
use crate::family::Groups;
use crate::functions::splat;
use crate::instantiate::{Conditions, Operand, Plan, Refusal, plan};
use crate::library::{Compiled, RuleSet};
use crate::matching::{Match, TermGraph, search};
use crate::proof::Recorder;
use crate::regroup::{operations, regroup};
use crate::snapshot::Snapshot;

/// Rounds in which the terms of sums are grouped.
const REGROUPING: u32 = 2;

/// How much work to do, in counted units, so that equal inputs give equal outputs on any machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Nodes that are made. It is checked before every application of a rule, and never exceeded.
    pub nodes: usize,
    /// Nodes looked at while matching.
    pub work: u64,
    /// Rounds of matching all rules and applying what was found.
    pub iterations: u32,
    /// Rounds of rules with several roots, which grow the graph fastest: they come when the other
    /// rules find nothing new, or half of the rounds are over.
    pub merging_iterations: u32,
    /// Ends the work before that.
    pub interrupt: Interrupt,
}

/// Which rules take part in the rounds of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// All, until nothing is new.
    Saturate,
    /// All, in one round.
    Once,
    /// All but those that found more than so many matches in a round: these take a number of rounds
    /// off, and both numbers double for them.
    Backoff {
        /// Matches.
        matches: u64,
        /// Rounds.
        rounds: u32,
    },
}

/// A part of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// By the place of the rule in the set, whether it takes part.
    pub active: Vec<bool>,
    /// Rounds, at most.
    pub rounds: u32,
    /// Nodes that are made, at most.
    pub nodes: usize,
    /// Nodes looked at, at most.
    pub work: u64,
    /// Who takes part in a round.
    pub scheduler: Scheduler,
}

impl Phase {
    /// The phases of the pass: rules with one root, then those with several, once or as often as
    /// `budget` says, and again those with one.
    pub fn by_default(rules: &RuleSet, budget: Budget) -> Vec<Phase> {
        let chosen = |merges: bool| -> Vec<bool> {
            rules.rules.iter().map(|compiled| compiled.merges() == merges).collect()
        };
        let merging = if chosen(true).contains(&true) { budget.merging_iterations } else { 0 };
        let phase = |merges: bool, rounds: u32| Phase {
            active: chosen(merges),
            rounds,
            nodes: budget.nodes,
            work: budget.work,
            scheduler: if merges { Scheduler::Once } else { Scheduler::Saturate },
        };
        let first = if merging > 0 { budget.iterations.div_ceil(2) } else { budget.iterations };
        let mut phases = vec![phase(false, first)];
        for _ in 0..merging {
            phases.extend([phase(true, 1), phase(false, budget.iterations)]);
        }
        phases
    }
}

/// Why saturation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No rule finds anything new.
    Saturated,
    /// A part of the budget was used up.
    Budget,
    /// It was interrupted.
    Interrupted,
}

/// What one rule did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Matches whose conditions hold.
    pub matches: u64,
    /// Matches that were applied: the others make what is there, but for constants.
    pub applied: u64,
    /// Nodes that were new.
    pub nodes: u64,
    /// Classes that were found equal.
    pub unions: u64,
    /// Nodes looked at.
    pub work: u64,
    /// Nodes that it made and that the result has.
    pub used: u64,
}

impl Entry {
    /// Adds what the same rule did elsewhere.
    pub fn add(&mut self, other: &Entry) {
        self.matches += other.matches;
        self.applied += other.applied;
        self.nodes += other.nodes;
        self.unions += other.unions;
        self.work += other.work;
        self.used += other.used;
    }
}

/// What saturation did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// By the place of the rule in the set.
    pub rules: Vec<Entry>,
    /// Rounds.
    pub iterations: u32,
    /// Nodes looked at.
    pub work: u64,
    /// Why it ended.
    pub end: End,
    /// After each application that made nodes, how many there were, and the rule.
    pub made: Vec<(usize, usize)>,
}

/// Applies `rules` to `graph` within `budget`, phase by phase.
///
/// Each rule looks only at what changes since its last search may have made possible. In each round
/// all matches are found first, rule by rule and class by class, and then applied in that order.
/// Rules share the work and the nodes that are left evenly, so that none starves those after it.
///
/// Rules with several roots look for what they merge in the whole graph and in what `best` gives:
/// the nodes of the best program so far. Some members of a group may not be needed in the end;
/// these the best program does not have.
///
/// What is applied is noted with `recorder`, where there is one.
///
/// # Errors
/// When a rule's right side does not type.
pub fn saturate(
    graph: &mut Graph,
    rules: &RuleSet,
    registry: &Registry,
    budget: Budget,
    phases: &[Phase],
    best: &mut dyn FnMut(&Graph) -> Option<Snapshot>,
    recorder: Option<&mut Recorder>,
) -> Result<Ledger, Diagnostics> {
    let entered = graph.made();
    let mut run = Saturation::new(rules, registry, recorder);
    run.phases(graph, budget, phases, best)?;
    graph.drop_doubtful(entered);
    Ok(run.ledger)
}

/// What one round did.
struct Round {
    /// Whether anything is new.
    changed: bool,
    /// Whether the budget allowed everything.
    complete: bool,
    /// Whether a rule was left out for a while.
    paused: bool,
}

/// What a rule found.
#[derive(Clone)]
struct Proposal {
    /// The rule, by its place.
    place: usize,
    /// What it makes.
    plan: Plan<Class>,
    /// Where it matches, if that is noted.
    found: Option<Box<Match<Class>>>,
}

/// What rules found in a round, rule by rule.
type Plans = Vec<Proposal>;

/// A run of rules over a graph.
struct Saturation<'a> {
    rules: &'a RuleSet,
    registry: &'a Registry,
    /// By rule, the round of its last search that was not cut short.
    searched: Vec<u32>,
    /// By rule, the round up to which it takes no part, and how often that was so.
    pauses: Vec<(u32, u32)>,
    /// What changed before each round, in order.
    changes: Vec<(u32, Class)>,
    ledger: Ledger,
    recorder: Option<&'a mut Recorder>,
    /// The constants that rules found values to be, their classes, and the rule, by its place.
    constants: Vec<(Attr, Class, usize)>,
}

impl<'a> Saturation<'a> {
    fn new(
        rules: &'a RuleSet,
        registry: &'a Registry,
        recorder: Option<&'a mut Recorder>,
    ) -> Saturation<'a> {
        let count = rules.rules.len();
        let entries = vec![Entry::default(); count];
        let ledger =
            Ledger { rules: entries, iterations: 0, work: 0, end: End::Budget, made: vec![] };
        Saturation {
            rules,
            registry,
            searched: vec![0; count],
            pauses: vec![(0, 0); count],
            changes: vec![],
            ledger,
            recorder,
            constants: vec![],
        }
    }

    /// Runs `phases` within `budget`.
    fn phases(
        &mut self,
        graph: &mut Graph,
        budget: Budget,
        phases: &[Phase],
        best: &mut dyn FnMut(&Graph) -> Option<Snapshot>,
    ) -> Result<(), Diagnostics> {
        graph.rebuild();
        for phase in phases {
            self.ledger.end = End::Budget;
            let limits = Budget {
                nodes: budget.nodes.min(graph.made().saturating_add(phase.nodes)),
                work: budget.work.min(self.ledger.work.saturating_add(phase.work)),
                ..budget
            };
            self.pauses = vec![(0, 0); self.rules.rules.len()];
            for _ in 0..phase.rounds {
                if budget.interrupt.is_raised() {
                    self.ledger.end = End::Interrupted;
                    return Ok(());
                }
                if self.ledger.iterations >= budget.iterations {
                    return Ok(());
                }
                let round = self.round(graph, limits, phase, best)?;
                if !round.changed && round.complete && !round.paused {
                    self.ledger.end = End::Saturated;
                    break;
                }
                if phase.scheduler == Scheduler::Once {
                    break;
                }
                if !round.complete || self.ledger.work >= limits.work {
                    break;
                }
            }
        }
        if self.ledger.end == End::Budget && budget.interrupt.is_raised() {
            self.ledger.end = End::Interrupted;
        }
        Ok(())
    }

    /// Lets the rules of `phase` search and apply what they find.
    fn round(
        &mut self,
        graph: &mut Graph,
        budget: Budget,
        phase: &Phase,
        best: &mut dyn FnMut(&Graph) -> Option<Snapshot>,
    ) -> Result<Round, Diagnostics> {
        self.ledger.iterations += 1;
        if self.ledger.iterations <= REGROUPING {
            let regrouped = operations(self.rules, self.registry);
            let snapshot = graph.snapshot();
            let before = graph.made();
            for name in regrouped {
                let recorder = self.recorder.as_deref_mut();
                regroup(graph, &snapshot, name, self.registry, budget.nodes, recorder);
            }
            self.recorder.iter_mut().for_each(|recorder| recorder.end_round());
            if graph.made() > before {
                graph.rebuild();
            }
        }
        let round = self.ledger.iterations;
        self.changes.extend(graph.take_changed().into_iter().map(|class| (round, class)));
        let snapshot = graph.snapshot();
        let active: Vec<usize> = (0..self.rules.rules.len())
            .filter(|place| phase.active.get(*place) == Some(&true))
            .filter(|place| self.pauses[*place].0 < round)
            .collect();
        let paused = active.len() < phase.active.iter().filter(|active| **active).count();
        let (mut plans, mut complete) = self.search(graph, &snapshot, budget, &active)?;
        let snapshot = self.recorder.is_some().then_some(snapshot);
        let merging: Vec<usize> =
            active.iter().copied().filter(|place| self.rules.rules[*place].merges()).collect();
        if !merging.is_empty()
            && let Some(snapshot) = best(graph)
        {
            let (mut of_best, all) = self.search(graph, &snapshot, budget, &merging)?;
            let known: FxHashSet<(usize, &Plan<Class>)> =
                plans.iter().map(|found| (found.place, &found.plan)).collect();
            of_best.retain(|found| !known.contains(&(found.place, &found.plan)));
            plans.extend(of_best);
            plans.sort_by_key(|found| found.place);
            complete &= all;
        }
        plans.iter().for_each(|found| self.ledger.rules[found.place].matches += 1);
        if let Scheduler::Backoff { matches, rounds } = phase.scheduler {
            plans = self.pause(plans, matches, rounds);
        }
        let mut done = self.apply(graph, &plans, snapshot.as_ref(), budget)?;
        done.complete &= complete;
        done.paused = paused || self.pauses.iter().any(|(until, _)| *until >= round);
        graph.rebuild();
        self.agree(graph, None)?;
        Ok(done)
    }

    /// Errors where values were found to be two constants; by the rule that was applied last to
    /// `class`, if one was.
    fn agree(&self, graph: &mut Graph, class: Option<Class>) -> Result<(), Diagnostics> {
        let Some(constants) = graph.take_contradiction() else { return Ok(()) };
        let is_it = |of: Class| class.is_none_or(|class| graph.find(of) == graph.find(class));
        let by = |constant: &Attr| {
            let mut all = self.constants.iter();
            all.position(|(found, of, _)| found == constant && is_it(*of))
        };
        let [one, other] = constants.map(|constant| (by(&constant), constant));
        let (first, second) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        let [first, second] =
            [first, second].map(|(at, constant)| (at.map(|at| self.constants[at].2), constant));
        let rule = |place: usize| &self.rules.rules[place].rule;
        let what = |place: Option<usize>| match place {
            Some(place) => format!("rule `{}`", rule(place).name),
            None => "the program".to_string(),
        };
        let message = format!(
            "{} and {} contradict each other: one value is {} and {}",
            what(first.0),
            what(second.0),
            shown(first.1),
            shown(second.1),
        );
        let help = "one of them is wrong: `relay-opt rules check` tries rules";
        let mut error = Diagnostic::error(codes::CONTRADICTION, message).help(help);
        if let Some(place) = second.0 {
            error = error.at(rule(place).span);
        }
        if let Some(place) = first.0 {
            error = error.related(rule(place).span, "the other one");
        }
        Err(error.into())
    }

    /// Leaves out what rules found that found more than `matches`, and pauses them for `rounds`.
    fn pause(&mut self, plans: Plans, matches: u64, rounds: u32) -> Plans {
        let round = self.ledger.iterations;
        let mut kept = Vec::with_capacity(plans.len());
        for of_rule in plans.chunk_by(|a, b| a.place == b.place) {
            let place = of_rule[0].place;
            let (until, times) = &mut self.pauses[place];
            if of_rule.len() as u64 <= matches << (*times).min(32) {
                kept.extend_from_slice(of_rule);
                continue;
            }
            *until = round + (rounds << (*times).min(16));
            *times += 1;
            self.searched[place] = 0;
        }
        kept
    }

    /// What the rules at the places `chosen` find in `snapshot`, and whether the budget allowed to
    /// look everywhere.
    fn search(
        &mut self,
        graph: &Graph,
        snapshot: &Snapshot,
        budget: Budget,
        chosen: &[usize],
    ) -> Result<(Plans, bool), Diagnostics> {
        let depths = chosen.iter().filter_map(|place| self.rules.rules[*place].pattern.depth);
        let depth = depths.max().unwrap_or(0);
        let mut distances: FxHashMap<u32, Vec<u8>> = FxHashMap::default();
        let (mut plans, mut complete) = (Vec::new(), true);
        for (index, place) in chosen.iter().enumerate() {
            let compiled = &self.rules.rules[*place];
            let left = budget.work - self.ledger.work.min(budget.work);
            let share = left / (chosen.len() - index) as u64;
            let since = self.searched[*place];
            let near = (since > 0).then(|| {
                &**distances.entry(since).or_insert_with(|| {
                    let new = self.changes.partition_point(|(round, _)| *round <= since);
                    let changed = self.changes[new..].iter().map(|(_, class)| graph.find(*class));
                    snapshot.distances(changed.collect(), depth)
                })
            });
            let mut search = RuleSearch {
                compiled,
                snapshot,
                rules: self.rules,
                registry: self.registry,
                limits: (share, budget.nodes),
                interrupt: budget.interrupt,
                work: 0,
                place: *place,
                plans: Vec::new(),
                record: self.recorder.is_some(),
            };
            let all = search.run(near)?;
            self.ledger.work += search.work;
            self.ledger.rules[*place].work += search.work;
            plans.extend(search.plans);
            complete &= all;
            if all {
                self.searched[*place] = self.ledger.iterations;
            }
        }
        Ok((plans, complete))
    }

    /// Applies what was found in `snapshot`, which is there where that is noted.
    fn apply(
        &mut self,
        graph: &mut Graph,
        plans: &Plans,
        snapshot: Option<&Snapshot>,
        budget: Budget,
    ) -> Result<Round, Diagnostics> {
        let mut changed = false;
        let mut by_rule: Vec<&[Proposal]> = plans.chunk_by(|a, b| a.place == b.place).collect();
        // First everybody's share, then what is left.
        for share_alike in [true, false] {
            let count = by_rule.len();
            for (index, of_rule) in by_rule.iter_mut().enumerate() {
                let left = budget.nodes.saturating_sub(graph.made());
                let share = if share_alike { left / (count - index) } else { left };
                let limit = graph.made() + share;
                while let Some((proposal, rest)) = of_rule.split_first() {
                    let is_over = graph.made() + proposal.plan.ops.len() > limit;
                    if is_over || budget.interrupt.is_raised() {
                        break;
                    }
                    *of_rule = rest;
                    self.doubt(graph, proposal);
                    if !graph.is_known(&proposal.plan) {
                        changed |= self.apply_one(graph, proposal, snapshot)?;
                    }
                }
            }
        }
        let unapplied = by_rule.iter().filter_map(|of_rule| of_rule.first());
        let unapplied: Vec<usize> = unapplied.map(|found| found.place).collect();
        unapplied.iter().for_each(|place| self.searched[*place] = 0);
        self.recorder.iter_mut().for_each(|recorder| recorder.end_round());
        Ok(Round { changed, complete: unapplied.is_empty(), paused: false })
    }

    /// Notes that what `proposal` replaces may be infinite or NaN where the rest of its class is
    /// not.
    fn doubt(&self, graph: &mut Graph, proposal: &Proposal) {
        let compiled = &self.rules.rules[proposal.place];
        if compiled.rule.safer {
            for (old, _) in &proposal.plan.replacements {
                graph.doubt(graph.find(*old), compiled.pattern.root, &compiled.pattern.heads);
            }
        }
    }

    /// Whether it made anything new.
    fn apply_one(
        &mut self,
        graph: &mut Graph,
        proposal: &Proposal,
        snapshot: Option<&Snapshot>,
    ) -> Result<bool, Diagnostics> {
        let Proposal { place, plan, found } = proposal;
        let place = *place;
        let before = graph.made();
        for (old, new) in &plan.replacements {
            let constant = match *new {
                Operand::Value(class) => graph.constant(class),
                Operand::New(index) => plan.ops[index].literal(),
            };
            self.constants.extend(constant.map(|constant| (constant, *old, place)));
        }
        let (unions, made) = graph.apply(plan, self.registry);
        self.agree(graph, plan.replacements.first().map(|(old, _)| *old))?;
        if let (Some(recorder), Some(snapshot), Some(found)) =
            (self.recorder.as_deref_mut(), snapshot, found)
        {
            recorder.applied(self.rules, place, (snapshot, found), &made, self.registry);
        }
        let nodes = graph.made() - before;
        let entry = &mut self.ledger.rules[place];
        entry.applied += 1;
        entry.nodes += nodes as u64;
        entry.unions += unions as u64;
        let compiled = &self.rules.rules[place];
        if compiled.rule.subsume {
            for (old, _) in &plan.replacements {
                graph.subsume(graph.find(*old), compiled.pattern.root);
            }
        }
        if nodes > 0 {
            self.ledger.made.push((graph.made(), place));
        }
        Ok(unions > 0 || nodes > 0)
    }
}

/// A constant as a message shows it.
fn shown(constant: Attr) -> String {
    match splat(constant) {
        Some(number) => number.as_f64().to_string(),
        None => "a tensor".to_string(),
    }
}

/// The search of one rule.
struct RuleSearch<'a> {
    compiled: &'a Compiled,
    snapshot: &'a Snapshot,
    rules: &'a RuleSet,
    registry: &'a Registry,
    /// Nodes to look at, and plans.
    limits: (u64, usize),
    interrupt: Interrupt,
    work: u64,
    place: usize,
    plans: Plans,
    /// Whether it is noted where the rule matches.
    record: bool,
}

impl RuleSearch<'_> {
    /// Finds everything near enough to changes; whether the limits allowed it.
    fn run(&mut self, near: Option<&[u8]>) -> Result<bool, Diagnostics> {
        let (snapshot, functions) = (self.snapshot, &self.rules.functions);
        let pattern = &self.compiled.pattern;
        // What is computed from constants alone is free, so other ways to compute it are of no use.
        let shrinks = self.compiled.shrinks();
        let candidates = || {
            let classes = snapshot.candidates(pattern, near);
            classes.filter(move |class| shrinks || !snapshot.is_weight(*class))
        };
        if let Some(siblings) = &self.compiled.siblings {
            let mut groups = Groups::default();
            for class in candidates() {
                let visit = &mut |found: &Match<Class>| {
                    siblings.add(&mut groups, snapshot, found, functions);
                    true
                };
                search(snapshot, &siblings.member, pattern, class, &mut self.work, visit);
                if self.work > self.limits.0 || self.interrupt.is_raised() {
                    return Ok(false);
                }
            }
            for group in groups.iter() {
                let Some(rule) = siblings.of(group.len()) else { continue };
                let found = siblings.join(group);
                match plan(snapshot, (rule, Conditions::All), &found, self.registry, functions) {
                    Ok(plan) => {
                        let (place, found) = (self.place, self.record.then(|| found.into()));
                        self.plans.push(Proposal { place, plan, found });
                    }
                    Err(Refusal::Condition) => {}
                    Err(Refusal::IllTyped(diagnostic)) => return Err(diagnostic),
                }
            }
            return Ok(true);
        }
        let rule = &self.compiled.rule;
        for class in candidates() {
            let mut error = None;
            let (plans, limit) = (&mut self.plans, self.limits.1);
            let (registry, place, record) = (self.registry, self.place, self.record);
            let visit = &mut |found: &Match<Class>| {
                match plan(snapshot, (rule, Conditions::All), found, registry, functions) {
                    Ok(plan) => {
                        let found = record.then(|| found.clone().into());
                        plans.push(Proposal { place, plan, found });
                    }
                    Err(Refusal::Condition) => {}
                    Err(Refusal::IllTyped(diagnostic)) => error = Some(diagnostic),
                }
                error.is_none() && plans.len() < limit
            };
            search(snapshot, rule, pattern, class, &mut self.work, visit);
            if let Some(error) = error {
                return Err(error);
            }
            let is_over = self.work > self.limits.0 || self.plans.len() >= limit;
            if is_over || self.interrupt.is_raised() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
