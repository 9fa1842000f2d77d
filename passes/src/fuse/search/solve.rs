//! The cheapest kernels of a window: a kernel is a node in the class of its result, its children are
//! the classes that it reads, so that choosing kernels is extraction.

use ir_core::{Diagnostics, Interrupt, Registry};
use rewrites::egraph::Graph;
use rewrites::extraction::{self, Builder, NONE, STRATEGIES};
use rewrites::library::RuleSet;
use rewrites::proof::Recorder;
use rewrites::saturate::{Budget, Phase, saturate};

use super::Limits;
use super::bound::Bound;
use super::candidates::{self, Candidate, in_order};
use super::cost::Machine;
use super::entry::enter;
use super::facts::{Class, Facts};
use super::legality::is_legal;
use super::window::{NewKernel, NewOp, Place, Solution, Window};

/// How many nodes rules make at most, for each operation of a window.
const NODES: usize = 16;

/// How many nodes they look at, for each operation.
const WORK: u64 = 2_000;

/// Rounds of applying them.
const ROUNDS: u32 = 4;

/// How often extraction may visit each node and child of a problem.
const VISITS: u64 = 1_000;

/// How often it may visit some at all.
const MOST_VISITS: u64 = 2_000_000;

/// Smaller differences of costs, as a share, are none.
const ROUNDING: f64 = 1e-9;

/// Which share of the cost of a window its bound is, where it may be proven by that alone.
const NEAR: f64 = 0.9;

/// What is computed from constants costs nothing, but of two ways the shorter one is taken.
const FOLDED: f64 = 1e-6;

/// What a window is solved with.
pub(in crate::fuse) struct Solver<'a> {
    pub(in crate::fuse) registry: &'a Registry,
    pub(in crate::fuse) rules: Option<&'a RuleSet>,
    pub(in crate::fuse) machine: Machine,
    pub(in crate::fuse) limits: Limits,
    /// Whether windows that are not solved yet stay as they are.
    pub(in crate::fuse) interrupt: Interrupt,
    /// How many threads solve windows. They change nothing but the time.
    pub(in crate::fuse) threads: usize,
}

/// What was found for a window.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Found {
    /// What costs less than the window does, if anything does.
    pub(super) cheaper: Option<Solution>,
    /// Whether no choice of the candidates costs less.
    pub(super) proven: bool,
    /// How much was done.
    pub(super) work: u64,
}

/// Kernels that are chosen.
struct Choice {
    forms: Vec<Form>,
    /// By class, the number of the form that is taken; [`NONE`] where it is not needed.
    taken: Vec<extraction::Node>,
    cost: f64,
    /// Whether no choice of the forms costs less.
    proven: bool,
    /// How much was done.
    work: u64,
}

/// What computes a class.
enum Form {
    /// An input, or a constant.
    There,
    /// A kernel of one node that is folded.
    Folded(usize),
    Kernel(Candidate),
}

impl Solver<'_> {
    /// Modelled microseconds of the only kernel of `window`, as it is.
    pub(super) fn price(&self, window: &Window) -> f64 {
        let (graph, entry) = enter(window, self.registry);
        let facts = Facts::new(&graph, window, &entry, self.registry);
        let mut members: Vec<usize> = vec![];
        for op in window.kernels.iter().flat_map(|kernel| &kernel.members).rev() {
            let Some(node) = facts.node_of[*op] else { return 0.0 };
            // What equals another member is computed once.
            if facts.inside(&members, facts.nodes[node].class).is_none() {
                members.push(node);
            }
        }
        members.reverse();
        self.machine.cost(&facts, &members, &[])
    }

    /// Modelled microseconds of the only kernel of `window`, of which the operations `also` are
    /// results too; `None` where it is not legal.
    pub(super) fn price_of_several(&self, window: &Window, also: &[usize]) -> Option<f64> {
        let (graph, entry) = enter(window, self.registry);
        let facts = Facts::new(&graph, window, &entry, self.registry);
        let [kernel] = window.kernels.as_slice() else { return None };
        let nodes = |ops: &[usize]| -> Option<Vec<usize>> {
            ops.iter().map(|op| facts.node_of[*op]).collect()
        };
        let (members, also) = (nodes(&kernel.members)?, nodes(also)?);
        // Equal members would be computed twice.
        let is_first = |(at, member): (usize, &usize)| {
            facts.inside(&members, facts.nodes[*member].class) == Some(at)
        };
        let is_kernel = members.len() <= self.limits.operators
            && members.iter().enumerate().all(is_first)
            && is_legal(&facts, &members, &also, self.limits.rows);
        is_kernel.then(|| self.machine.cost(&facts, &members, &also))
    }

    /// Chooses kernels for `window`, which cost less than `cost`.
    pub(super) fn solve(&self, window: &Window, cost: f64) -> Result<Found, Diagnostics> {
        let (mut graph, entry) = enter(window, self.registry);
        let mut work = 0;
        if let Some(rules) = self.rules {
            work += self.saturate(&mut graph, rules, window.ops.len(), self.interrupt, None)?;
        }
        let facts = Facts::new(&graph, window, &entry, self.registry);
        let seeds = seeds(&facts, window);
        let needed: Vec<usize> = window.needed.iter().map(|op| facts.class_of[*op]).collect();
        let bound = Bound::new(&facts, &self.machine.0, &needed);
        let bound = bound.cost(&self.machine.0, self.most_operators(window));
        let is_least = |choice: &Choice| choice.cost <= bound + ROUNDING * bound;
        // Where that is near, the kernels as they are may be the cheapest.
        let mut choice = None;
        if bound >= NEAR * cost {
            let kept = candidates::keep(&facts, self.machine, &seeds);
            choice = self.choose(window, &facts, &seeds, kept);
        }
        if !choice.as_ref().is_some_and(is_least) {
            let (grown, looked_at) = candidates::grow(&facts, self.machine, &seeds, self.limits);
            work += looked_at;
            choice = self.choose(window, &facts, &seeds, grown);
        }
        let Some(choice) = choice else { return Ok(Found { work, ..Found::default() }) };
        work += choice.work;
        let proven = choice.proven || is_least(&choice);
        let cheaper = write(&facts, window, &choice).filter(|solution| {
            let after: f64 = solution.kernels.iter().map(|kernel| kernel.cost).sum();
            after < cost - ROUNDING * cost.max(1.0)
        });
        Ok(Found { cheaper, proven, work })
    }

    /// The most operators in a kernel that `window` may become. Kernels that it has may be larger than
    /// those that are grown; where it has a single one, what does not take it is grown.
    fn most_operators(&self, window: &Window) -> usize {
        match &window.kernels[..] {
            [_] => self.limits.operators,
            _ => usize::MAX,
        }
    }

    /// The cheapest choice of `candidates`, by class, for the window of `facts`; `None` where they are
    /// not enough.
    fn choose(
        &self,
        window: &Window,
        facts: &Facts,
        seeds: &[Option<Vec<usize>>],
        candidates: Vec<Vec<Candidate>>,
    ) -> Option<Choice> {
        let mut builder = Builder::default();
        let (mut forms, mut start) = (vec![], vec![NONE; facts.classes.len()]);
        for (at, candidates) in candidates.into_iter().enumerate() {
            let class = &facts.classes[at];
            builder.class();
            if class.is_there() {
                start[at] = builder.node(0.0, []);
                forms.push(Form::There);
            }
            if class.weight {
                for &node in &class.nodes {
                    let reads = facts.nodes[node].operands.iter();
                    builder.node(FOLDED, reads.map(|class| *class as extraction::Class));
                    forms.push(Form::Folded(node));
                }
            }
            for candidate in candidates {
                let reads = candidate.reads.iter().map(|class| *class as extraction::Class);
                let number = builder.node(candidate.cost, reads);
                if start[at] == NONE && seeds[at].as_ref() == Some(&candidate.members) {
                    start[at] = number;
                }
                forms.push(Form::Kernel(candidate));
            }
        }
        let folded = window.kernels.iter().filter(|kernel| kernel.folded);
        for op in folded.filter_map(|kernel| kernel.members.last()) {
            let (at, node) = (facts.class_of[*op], facts.node_of[*op]);
            let is_it = |form: &Form| matches!(form, Form::Folded(other) if Some(*other) == node);
            if let (true, Some(found)) = (start[at] == NONE, forms.iter().position(is_it)) {
                start[at] = found as extraction::Node;
            }
        }
        let needed = window.needed.iter().map(|op| facts.class_of[*op]);
        let problem = builder.finish(needed.map(|class| class as extraction::Class));
        let size = (problem.node_count() + problem.edge_count()) as u64;
        let budget = Some(MOST_VISITS.min(VISITS * size));
        let (start, interrupt) = (Some(&*start), self.interrupt);
        let options = extraction::Options { budget, start, interrupt, ..Default::default() };
        let found = STRATEGIES[0].extract(&problem, options).ok()?;
        let proven = found.gap() == Some(0.0);
        Some(Choice { forms, taken: found.choice, cost: found.cost, proven, work: found.work })
    }

    /// Applies `rules` to the e-graph of a window of `ops` operations; how much was done.
    pub(super) fn saturate(
        &self,
        graph: &mut Graph,
        rules: &RuleSet,
        ops: usize,
        interrupt: Interrupt,
        recorder: Option<&mut Recorder>,
    ) -> Result<u64, Diagnostics> {
        let budget = Budget {
            nodes: graph.made() + NODES * ops,
            work: WORK * ops as u64,
            iterations: ROUNDS,
            merging_iterations: 1,
            interrupt,
        };
        let phases = Phase::by_default(rules, budget);
        let (registry, best) = (self.registry, &mut |_: &Graph| None);
        let ledger = saturate(graph, rules, registry, budget, &phases, best, recorder)?;
        Ok(ledger.work)
    }
}

/// By class, the kernel of `window` that computes it. Of several, the first one: what it reads is
/// computed before.
fn seeds(facts: &Facts, window: &Window) -> Vec<Option<Vec<usize>>> {
    // What a rule finds equal to what members read need not be computed.
    let is_at_hand = |class: usize, among: &[usize]| {
        let is_it = |member: &usize| {
            let node = &facts.nodes[*member];
            node.class == class || node.reads.contains(&class)
        };
        among.iter().any(is_it)
    };
    let mut seeds = vec![None; facts.classes.len()];
    for kernel in window.kernels.iter().filter(|kernel| !kernel.folded) {
        let mut among: Vec<usize> = vec![];
        for op in &kernel.members {
            if let Some(node) = facts.node_of[*op]
                && !is_at_hand(facts.nodes[node].class, &among)
            {
                among.push(node);
            }
        }
        let Some(op) = kernel.members.last() else { continue };
        let class = facts.class_of[*op];
        if seeds[class].is_none()
            && let Some(root) = facts.inside(&among, class)
        {
            seeds[class] = in_order(facts, &among, among[root]);
        }
    }
    seeds
}

/// The kernels that are taken, each after those that it reads; `None` where it lacks something.
fn write(facts: &Facts, window: &Window, Choice { forms, taken, .. }: &Choice) -> Option<Solution> {
    let mut origin: Vec<Option<usize>> = vec![None; facts.classes.len()];
    for (op, class) in facts.class_of.iter().enumerate() {
        origin[*class].get_or_insert(op);
    }
    let mut places: Vec<Option<Place>> = vec![None; facts.classes.len()];
    let mut kernels: Vec<NewKernel> = vec![];
    let chosen = |class: usize| (taken[class] != NONE).then(|| &forms[taken[class] as usize]);
    let mut open: Vec<(usize, bool)> = vec![];
    for op in &window.needed {
        open.push((facts.class_of[*op], false));
        while let Some((class, is_ready)) = open.pop() {
            let (None, Some(form)) = (places[class], chosen(class)) else { continue };
            let (members, cost, folded) = match form {
                Form::There => {
                    places[class] = there(facts, class);
                    continue;
                }
                Form::Folded(node) => (std::slice::from_ref(node), 0.0, true),
                Form::Kernel(kernel) => (&kernel.members[..], kernel.cost, false),
            };
            if !is_ready {
                open.push((class, true));
                let operands = members.iter().flat_map(|member| &facts.nodes[*member].operands);
                let outside: Vec<usize> = operands
                    .filter(|class| facts.inside(members, **class).is_none())
                    .copied()
                    .collect();
                open.extend(outside.into_iter().rev().map(|class| (class, false)));
                continue;
            }
            // In the same order, however it was grown.
            let ordered = members.last().and_then(|root| in_order(facts, members, *root));
            let members = ordered.as_deref().unwrap_or(members);
            let place = |class: &usize| match facts.inside(members, *class) {
                Some(member) => Some(Place::Member(member)),
                None => places[*class].or_else(|| there(facts, *class)),
            };
            let op = |member: &usize| {
                let node = &facts.nodes[*member];
                let operands = node.operands.iter().map(place).collect::<Option<Vec<Place>>>()?;
                Some(NewOp { operation: node.operation, operands, origin: origin[node.class] })
            };
            let anchors = members.iter().any(|member| facts.nodes[*member].is_anchor());
            let members = members.iter().map(op).collect::<Option<Vec<NewOp>>>()?;
            places[class] = Some(Place::Kernel(kernels.len()));
            kernels.push(NewKernel { members, cost, folded, anchors });
        }
    }
    let outputs = window.needed.iter().map(|op| facts.class_of[*op]);
    let outputs = outputs.map(|class| places[class].or_else(|| there(facts, class)));
    Some(Solution { outputs: outputs.collect::<Option<Vec<Place>>>()?, kernels })
}

/// Where `class` is, if it need not be computed.
fn there(facts: &Facts, class: usize) -> Option<Place> {
    let Class { input, constant, .. } = &facts.classes[class];
    input.map(Place::Input).or_else(|| constant.map(Place::Constant))
}
