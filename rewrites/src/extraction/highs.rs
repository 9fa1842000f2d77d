//! Exact extraction with HiGHS, a solver of integer linear programs in C++. No other module knows
//! it.
//!
//! A variable for each node says whether it is chosen. Classes have no variables: the sum over the
//! nodes of a class is 1 if the class is used, else 0. Rows say that roots are used, and that a
//! class is if a chosen node needs it. First the linear relaxation is solved and tightened by
//! [landmarks]; only what that leaves open goes to the search for integers, which has rows that
//! forbid cycles besides.

mod landmarks;

use std::ops::RangeInclusive;

use ::highs::{Col, HighsModelStatus, HighsSolutionStatus, Model, RowProblem, Sense, SolvedModel};

use self::landmarks::{Landmark, Landmarks};
use super::auto::all_rewards;
use super::cover::components;
use super::exact::{self, Proof, branch_and_bound, is_closed};
use super::problem::{Class, NONE, Node, Parents, Problem};
use super::strategy::{Limit, Options, ROUNDING, Strategy};

/// Extracts exactly where the budget allows, by integer programming.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "highs",
    doc: "as exact, with the integer programming solver HiGHS where branch and bound is at its end",
    proves: true,
    search: |problem, options: Options<'_>| exact::search(problem, options, solve),
};

/// Costs that are not whole are scaled so that the extraction to begin with costs at most this, and
/// more than half of it: HiGHS compares with absolute tolerances, of 1e-6 at most.
const SCALE: f64 = 16384.0;
/// Whole costs stay as they are where the extraction to begin with costs less than this.
const WHOLE: f64 = 1e6;
/// How far what HiGHS computes may be off, in scaled costs.
const SLACK: f64 = 1e-4;
/// What setting up HiGHS is worth, in visits.
const SETUP: u64 = 20_000;
/// How often the relaxation is tightened at most, and without effect.
const ROUNDS: u32 = 60;
const IDLE: u32 = 4;
/// What counts as an effect: this share of what is between the bound and the cost.
const PROGRESS: f64 = 1e-3;
/// For the option `presolve_rule_off`: dependent equations. The search for them is all that looks
/// at the clock though no limit of time is set.
const CLOCKED_RULES: i32 = 1 << 10;
/// The search for integers is hard by its gap, as a share, times the numbers of its program. At its
/// root it is taken to need so many iterations for each of these; beyond so many, it hardly ends.
/// Measured on the extraction gym.
const ROOT: f64 = 0.5;
const CLOSABLE: f64 = 2800.0;
/// How many iterations a node of the search for integers is taken to need.
const ITERATIONS: u64 = 100;

/// Solves a problem that falls into no parts: what is near is left to branch and bound, and so is
/// what HiGHS does not close.
fn solve(problem: &Problem, start: Vec<Node>, limit: Limit) -> Proof {
    let budget = limit.work;
    let parents = problem.parents();
    let terms = |class| (problem.nodes(class).len() * parents.of(class).len()) as u64;
    let size = problem.node_count() as u64 + problem.classes().map(terms).sum::<u64>();
    // What needs more than 32 bits would not end anyway.
    let is_small = SETUP + 32 * size <= budget && size < i32::MAX as u64 / 4;
    let mut known = if problem.has_rewards() {
        let start = exact::pruned(problem, start);
        let (cost, bound) = (exact::cost(problem, &start), all_rewards(problem));
        Proof { choice: start, cost, bound, work: size }
    } else {
        branch_and_bound(problem, start, limit.work(if is_small { budget / 8 } else { budget }))
    };
    if is_small && !limit.interrupt.is_raised() && !is_closed(known.cost, known.bound) {
        known.work += SETUP;
        let mut program = Program::new(problem, parents, known.cost);
        // Where HiGHS fails, what is known stays.
        _ = program.solve(&mut known, limit);
        let left = budget.saturating_sub(known.work);
        if left > budget / 4 && !is_closed(known.cost, known.bound) && !problem.has_rewards() {
            let proof = branch_and_bound(problem, known.choice, limit.work(left));
            let (bound, work) = (known.bound.max(proof.bound), known.work + proof.work);
            known = Proof { bound, work, ..proof };
        }
    }
    known
}

/// A row: what a sum over nodes is between.
struct Row {
    bounds: RangeInclusive<f64>,
    terms: Vec<(Node, f64)>,
    is_landmark: bool,
}

/// The integer program of a problem.
struct Program<'a> {
    problem: &'a Problem,
    parents: Parents,
    rows: Vec<Row>,
    /// What costs are multiplied by: a power of two, so that nothing is rounded.
    scale: f64,
    /// All costs are whole numbers.
    is_whole: bool,
    /// Nodes that no cheaper extraction has.
    is_out: Vec<bool>,
}

impl<'a> Program<'a> {
    /// The program without what forbids cycles; an extraction costs `cost`.
    fn new(problem: &'a Problem, parents: Parents, cost: f64) -> Program<'a> {
        // What is dearer than all that may be had for it is in no cheaper extraction.
        let most = cost - all_rewards(problem);
        let costs = (0..problem.node_count() as u32).map(|node| problem.cost(node));
        let is_out: Vec<bool> = costs.clone().map(|cost| cost > most + ROUNDING * most).collect();
        let is_whole = |(cost, &is_out): (f64, &bool)| is_out || cost.fract() == 0.0;
        let is_whole = most < WHOLE && costs.zip(&is_out).all(is_whole);
        let scale =
            if is_whole || most <= 0.0 { 1.0 } else { (SCALE / most).log2().floor().exp2() };
        let mut program = Program { problem, parents, rows: vec![], scale, is_whole, is_out };
        program.require();
        program
    }

    /// Adds the rows that say what is used.
    fn require(&mut self) {
        let problem = self.problem;
        let is_root = |class: Class| problem.roots().binary_search(&class).is_ok();
        let has_rewards = problem.has_rewards();
        for class in problem.classes() {
            let nodes = || problem.nodes(class).map(|node| (node, 1.0));
            self.add(if is_root(class) { 1.0 } else { 0.0 }..=1.0, nodes());
            if has_rewards && !is_root(class) {
                // What nobody needs is not there.
                let above: Vec<Node> = self.parents.of(class).to_vec();
                let above = above.into_iter().map(|node| (node, -1.0));
                self.add(f64::NEG_INFINITY..=0.0, nodes().chain(above));
            }
            for (child, needing) in needs(problem, class) {
                if !is_root(child) {
                    let needing = needing.into_iter().map(|node| (node, 1.0));
                    let child = problem.nodes(child).map(|node| (node, -1.0));
                    self.add(f64::NEG_INFINITY..=0.0, needing.chain(child));
                }
            }
        }
    }

    fn add(&mut self, bounds: RangeInclusive<f64>, terms: impl Iterator<Item = (Node, f64)>) {
        self.rows.push(Row { bounds, terms: terms.collect(), is_landmark: false });
    }

    /// How many numbers the program has.
    fn size(&self) -> u64 {
        let terms: usize = self.rows.iter().map(|row| row.terms.len()).sum();
        (terms + self.rows.len() + self.problem.node_count()) as u64
    }

    /// A model of the rows, and the columns of the nodes; `order` adds what forbids cycles, and
    /// makes the columns integers.
    fn model(&self, order: Option<&Order>) -> Option<(Model, Vec<Col>)> {
        let problem = self.problem;
        let mut rows = RowProblem::new();
        let mut columns: Vec<Col> = Vec::with_capacity(problem.node_count());
        for node in 0..problem.node_count() as u32 {
            let cost = self.scale * problem.cost(node);
            let most = if self.is_out[node as usize] { 0.0 } else { 1.0 };
            columns.push(rows.add_column_with_integrality(cost, 0.0..=most, order.is_some()));
        }
        for row in &self.rows {
            rows.add_row(row.bounds.clone(), row.terms(&columns));
        }
        if let Some(order) = order {
            order.forbid_cycles(problem, &mut rows, &columns);
        }
        let mut model = rows.try_optimise(Sense::Minimise).ok()?;
        model.make_quiet();
        model.try_set_option("threads", 1).ok()?;
        model.try_set_option("parallel", "off").ok()?;
        model.try_set_option("random_seed", 0).ok()?;
        model.try_set_option("presolve_rule_off", CLOCKED_RULES).ok()?;
        model.try_set_option("solver", "simplex").ok()?;
        Some((model, columns))
    }

    /// Relaxes, then searches. `None` where HiGHS failed or the limit is too near.
    fn solve(&mut self, known: &mut Proof, limit: Limit) -> Option<()> {
        let relaxed = self.relax(known, limit)?;
        if is_closed(known.cost, known.bound) {
            return Some(());
        }
        // Landmarks that do not bind would slow the search down.
        self.rows
            .retain(|row| !row.is_landmark || row.value(&relaxed) < row.bounds.start() + SLACK);
        // HiGHS has no limit but that of nodes, and may be long at the root already: where it will
        // hardly end within the budget, it does not begin.
        let gap = (known.cost - known.bound) / known.cost.abs().max(known.bound.abs());
        let hardness = gap * self.size() as f64;
        if hardness > CLOSABLE {
            return None;
        }
        let iteration = 1000 + self.size() / 3;
        let root = ROOT * hardness * iteration as f64;
        let left = limit.work.checked_sub(known.work)?.checked_sub(root as u64)?;
        // HiGHS itself does not look at it.
        (!limit.interrupt.is_raised()).then_some(())?;
        self.search(known, left / (ITERATIONS * iteration) + 1, iteration)
    }

    /// An extraction that is cheaper than one of `cost`, by more than HiGHS can tell, has at most
    /// this scaled cost.
    fn cheaper(&self, cost: f64) -> f64 {
        self.scale * cost - if self.is_whole { 1.0 } else { 2.0 * SLACK }
    }

    /// Raises the bound to what HiGHS computed, made safe.
    fn raise(&self, known: &mut Proof, computed: f64) {
        let mut bound = computed - SLACK;
        if self.is_whole {
            bound = bound.ceil();
        }
        let is_least = bound > self.cheaper(known.cost);
        let bound = if is_least { known.cost } else { bound / self.scale };
        known.bound = known.bound.max(bound.min(known.cost));
    }

    /// Takes `choice` if it is cheaper.
    fn improve(&mut self, known: &mut Proof, mut choice: Vec<Node>) {
        let Ok(cost) = self.problem.prune(&mut choice) else { return };
        if !is_closed(known.cost, cost) {
            for &node in choice.iter().filter(|&&node| node != NONE) {
                self.is_out[node as usize] = false;
            }
            (known.choice, known.cost) = (choice, cost);
        }
    }

    /// Solves the linear relaxation and adds the landmarks that it violates, while that raises the
    /// bound. Returns the solution, or `None` where the limit allows no more than that.
    fn relax(&mut self, known: &mut Proof, limit: Limit) -> Option<Vec<f64>> {
        let problem = self.problem;
        let mut landmarks = Landmarks::new(problem);
        let (mut model, columns) = self.model(None)?;
        let (mut idle, mut last) = (0, f64::NEG_INFINITY);
        for round in 0.. {
            let iteration = 20 + self.size() / 6;
            (!limit.interrupt.is_raised()).then_some(())?;
            let most = limit.work.saturating_sub(known.work) / 2 / iteration;
            let most = most.min(i32::MAX as u64) as i32;
            model.try_set_option("simplex_iteration_limit", most).ok()?;
            let solved = model.try_solve().ok()?;
            known.work += iterations(&solved) * iteration + self.size();
            if solved.status() != HighsModelStatus::Optimal {
                return None;
            }
            let computed = solved.objective_value();
            self.raise(known, computed);
            let solution = solved.get_solution();
            landmarks.support(&self.parents, solution.columns());
            self.improve(known, landmarks.choice().to_vec());
            self.raise(known, computed);
            // A node whose reduced cost exceeds what is left is in no cheaper extraction.
            let room = self.cheaper(known.cost) - computed;
            for (node, &reduced) in (0..).zip(solution.dual_columns()).take(problem.node_count()) {
                let is_chosen = known.choice[problem.owner(node) as usize] == node;
                if reduced > room + SLACK && !is_chosen {
                    self.is_out[node as usize] = true;
                }
            }
            idle = if computed - last > PROGRESS * room.abs() { 0 } else { idle + 1 };
            last = computed;
            let is_over = is_closed(known.cost, known.bound) || idle > IDLE || round == ROUNDS;
            let violated = if is_over { vec![] } else { landmarks.violated() };
            known.work += std::mem::take(&mut landmarks.work);
            if violated.is_empty() {
                return Some(solution.columns().to_vec());
            }
            model = Model::from(solved);
            for landmark in &violated {
                let row = Row::new(problem, landmark);
                model.try_add_row(row.bounds.clone(), row.terms(&columns)).ok()?;
                self.rows.push(row);
            }
        }
        None
    }

    /// Searches for the cheapest extraction, with so many nodes at most, and counts so many visits
    /// for an iteration.
    fn search(&mut self, known: &mut Proof, nodes: u64, iteration: u64) -> Option<()> {
        let problem = self.problem;
        let order = Order::new(problem);
        let (mut model, _) = self.model(Some(&order))?;
        let mut start = vec![0.0; problem.node_count()];
        for &node in known.choice.iter().filter(|&&node| node != NONE) {
            start[node as usize] = 1.0;
        }
        start.extend(order.places(problem, &self.parents, &known.choice));
        model.try_set_solution(Some(&start), None, None, None).ok()?;
        model.try_set_option("mip_max_nodes", nodes.min(i32::MAX as u64) as i32).ok()?;
        // The choice to begin with is good, and neither heuristics nor trying out branches end by
        // the limit of nodes.
        model.try_set_option("mip_heuristic_effort", 0.0).ok()?;
        model.try_set_option("mip_pscost_minreliable", 0).ok()?;
        model.try_set_option("mip_rel_gap", 0.0).ok()?;
        model.try_set_option("mip_abs_gap", SLACK / 100.0).ok()?;
        let solved = model.try_solve().ok()?;
        known.work += iterations(&solved) * iteration + SETUP;
        let is_optimal = match solved.status() {
            HighsModelStatus::Optimal => true,
            HighsModelStatus::ReachedSolutionLimit => false,
            // There is an extraction, so this is a mistake.
            _ => return None,
        };
        let computed = solved.double_info_value(c"mip_dual_bound").ok()?;
        let objective = solved.objective_value();
        if solved.primal_solution_status() == HighsSolutionStatus::Feasible {
            let mut choice = vec![NONE; problem.class_count()];
            let solution = solved.get_solution();
            let columns = solution.columns().iter().take(problem.node_count());
            for (node, _) in (0..).zip(columns).filter(|&(_, &value)| value > 0.5) {
                choice[problem.owner(node) as usize] = node;
            }
            self.improve(known, choice);
        }
        // What is optimal costs no more than what was there before.
        if !is_optimal || objective <= self.scale * known.cost + SLACK {
            self.raise(known, computed);
        }
        Some(())
    }
}

impl Row {
    fn new(problem: &Problem, landmark: &Landmark) -> Row {
        let is_root = problem.roots().binary_search(&landmark.class).is_ok();
        if is_root {
            let terms = landmark.nodes.iter().map(|&node| (node, 1.0)).collect();
            return Row { bounds: 1.0..=f64::INFINITY, terms, is_landmark: true };
        }
        // Nodes of the class itself are on both sides.
        let is_other = |node: &Node| problem.owner(*node) != landmark.class;
        let others = landmark.nodes.iter().copied().filter(is_other).map(|node| (node, 1.0));
        let is_in = |node: Node| landmark.nodes.binary_search(&node).is_ok();
        let needing = problem.nodes(landmark.class).filter(|&node| !is_in(node));
        let terms = others.chain(needing.map(|node| (node, -1.0))).collect();
        Row { bounds: 0.0..=f64::INFINITY, terms, is_landmark: true }
    }

    fn terms(&self, columns: &[Col]) -> Vec<(Col, f64)> {
        self.terms.iter().map(|&(node, factor)| (columns[node as usize], factor)).collect()
    }

    fn value(&self, values: &[f64]) -> f64 {
        self.terms.iter().map(|&(node, factor)| factor * values[node as usize]).sum()
    }
}

/// How many iterations of the simplex method were done.
fn iterations(solved: &SolvedModel) -> u64 {
    // More than 32 bits can hold are -1.
    let count = solved.int_info_value(c"simplex_iteration_count").unwrap_or(0);
    if count < 0 { i32::MAX as u64 } else { count as u64 }
}

/// For each class that nodes of `class` need, which of them do.
fn needs(problem: &Problem, class: Class) -> Vec<(Class, Vec<Node>)> {
    let of_node = |node| problem.children(node).iter().map(move |&child| (child, node));
    let mut pairs: Vec<(Class, Node)> = problem.nodes(class).flat_map(of_node).collect();
    pairs.sort_unstable();
    let groups = pairs.chunk_by(|(a, _), (b, _)| a == b);
    groups.map(|group| (group[0].0, group.iter().map(|&(_, node)| node).collect())).collect()
}

/// Forbids cycles. Only classes of one strongly connected component can be on a cycle, so only
/// these have places, and what needs another class of its component has a later place.
struct Order {
    /// The component of each class.
    components: Vec<u32>,
    /// How many classes each component has.
    sizes: Vec<u32>,
}

impl Order {
    fn new(problem: &Problem) -> Order {
        let components = components(problem);
        let mut sizes = vec![0; problem.class_count()];
        for &component in &components {
            sizes[component as usize] += 1;
        }
        Order { components, sizes }
    }

    /// How many classes the component of `class` has.
    fn size(&self, class: Class) -> u32 {
        self.sizes[self.components[class as usize] as usize]
    }

    /// Adds a column for the place of each class that may be on a cycle, and rows for what needs
    /// what.
    fn forbid_cycles(&self, problem: &Problem, rows: &mut RowProblem, columns: &[Col]) {
        let places: Vec<Option<Col>> = problem
            .classes()
            .map(|class| {
                let last = f64::from(self.size(class) - 1);
                (last > 0.0).then(|| rows.add_column(0.0, 0.0..=last))
            })
            .collect();
        for class in problem.classes() {
            let Some(place) = places[class as usize] else { continue };
            let size = f64::from(self.size(class));
            for (child, nodes) in needs(problem, class) {
                let is_near = self.components[child as usize] == self.components[class as usize];
                let Some(below) = places[child as usize].filter(|_| is_near) else { continue };
                // If one of the nodes is chosen, the place is at least one later.
                let terms = nodes.iter().map(|&node| (columns[node as usize], -size));
                let terms = terms.chain([(place, 1.0), (below, -1.0)]);
                rows.add_row(1.0 - size.., terms.collect::<Vec<_>>());
                // Two classes do not need each other.
                if child < class {
                    let back = problem.nodes(child);
                    let back = back.filter(|&node| problem.children(node).contains(&class));
                    let both = nodes.iter().copied().chain(back);
                    let terms: Vec<_> = both.map(|node| (columns[node as usize], 1.0)).collect();
                    if terms.len() > nodes.len() {
                        rows.add_row(..=1.0, terms);
                    }
                }
            }
        }
    }

    /// The places that `choice` has, of the classes that have one.
    fn places(&self, problem: &Problem, parents: &Parents, choice: &[Node]) -> Vec<f64> {
        let mut places = vec![0.0_f64; problem.class_count()];
        let mut missing = vec![0; problem.class_count()];
        let mut pending: Vec<Class> = Vec::new();
        for class in problem.classes().filter(|&class| choice[class as usize] != NONE) {
            missing[class as usize] = problem.children(choice[class as usize]).len();
            if missing[class as usize] == 0 {
                pending.push(class);
            }
        }
        while let Some(class) = pending.pop() {
            let above = parents.of(class).iter().map(|&node| (node, problem.owner(node)));
            for (_, above) in above.filter(|&(node, above)| choice[above as usize] == node) {
                if self.components[above as usize] == self.components[class as usize] {
                    let place = places[above as usize].max(places[class as usize] + 1.0);
                    places[above as usize] = place;
                }
                missing[above as usize] -= 1;
                if missing[above as usize] == 0 {
                    pending.push(above);
                }
            }
        }
        let cyclic = problem.classes().filter(|&class| self.size(class) > 1);
        cyclic.map(|class| places[class as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use ir_core::{Interrupt, Random};

    use super::super::problem::Builder;
    use super::super::reduce::Reduced;
    use super::super::tree_greedy::Trees;
    use super::*;

    /// Sixteen classes that use one another at random, so that most are on cycles.
    fn problem(random: &mut Random, is_whole: bool) -> Problem {
        let mut builder = Builder::default();
        for _ in 0..16 {
            builder.class();
            for _ in 0..1 + random.below(4) {
                let cost = 1 + random.below(20);
                let cost = if is_whole { cost as f64 } else { (cost as f64).sqrt() };
                let children = 1 + random.below(3);
                let children: Vec<Class> =
                    (0..children).map(|_| random.below(16) as Class).collect();
                builder.node(cost, children);
            }
            if random.below(3) == 0 {
                builder.node(60.0, []);
            }
        }
        builder.finish([0, 1, 2])
    }

    /// What branch and bound proves, HiGHS does without its help: with landmarks, and without, so
    /// that nothing but the order of classes forbids cycles.
    #[test]
    fn programs_prove_what_branch_and_bound_does() {
        let mut random = Random::new(1);
        for round in 0..20 {
            let problem = problem(&mut random, round % 2 == 0);
            let Ok(reduced) = Reduced::new(&problem, |_| true) else { continue };
            let (problem, _) = reduced.into_parts();
            let start = Trees::new(&problem, &problem.parents(), None).choice;
            let start = exact::pruned(&problem, start);
            let cost = exact::cost(&problem, &start);
            let limit = Limit { work: 1 << 40, interrupt: Interrupt::default() };
            let best = branch_and_bound(&problem, start.clone(), limit);
            assert!(is_closed(best.cost, best.bound));
            for is_relaxed in [true, false] {
                let bound = f64::NEG_INFINITY;
                let mut known = Proof { choice: start.clone(), cost, bound, work: 0 };
                let mut program = Program::new(&problem, problem.parents(), cost);
                let done = if is_relaxed {
                    program.solve(&mut known, limit)
                } else {
                    program.search(&mut known, 1 << 30, 1)
                };
                assert_eq!(done, Some(()));
                assert!(is_closed(known.cost, known.bound), "{} {}", known.cost, known.bound);
                assert!((known.cost - best.cost).abs() < 1e-6 * best.cost);
                assert_eq!(problem.dag_cost(&known.choice), Ok(known.cost));
            }
        }
    }
}
