//! Extraction on random e-graphs, against trying all choices, and on files of the gym.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use ir_core::Interrupt;
use proptest::prelude::*;
use rewrites::extraction::{
    Builder, Extraction, HAS_HIGHS, Invalid, NONE, Node, Options, Problem, STRATEGIES, gym,
    missing, strategy,
};

/// A problem with up to eight classes of up to three nodes; children are any classes, so there are
/// cycles, and classes that nothing can be extracted from. Costs are small, so ties are common.
fn problems(costs: std::ops::Range<i8>) -> impl Strategy<Value = Problem> {
    let node = (costs, prop::collection::vec(0u32..8, 0..4));
    let class = prop::collection::vec(node, 1..4);
    let roots = prop::collection::vec(0u32..8, 1..3);
    (prop::collection::vec(class, 1..9), roots).prop_map(|(classes, roots)| {
        let count = classes.len() as u32;
        let mut builder = Builder::default();
        for class in classes {
            builder.class();
            for (cost, children) in class {
                builder.node(f64::from(cost), children.into_iter().map(|child| child % count));
            }
        }
        builder.finish(roots.into_iter().map(|root| root % count))
    })
}

/// The least DAG cost, by trying every choice.
fn brute_force(problem: &Problem) -> Option<f64> {
    let mut choice: Vec<Node> = problem.classes().map(|class| problem.nodes(class).start).collect();
    let mut best: Option<f64> = None;
    loop {
        if let Some(cost) = cost_by_hand(problem, &choice) {
            best = Some(best.map_or(cost, |best| best.min(cost)));
        }
        let mut class = 0;
        loop {
            let Some(node) = choice.get_mut(class) else { return best };
            *node += 1;
            if *node < problem.nodes(class as u32).end {
                break;
            }
            *node = problem.nodes(class as u32).start;
            class += 1;
        }
    }
}

/// The DAG cost, computed in another way than the product does: classes are taken once all that
/// they need has been taken; a class that never is taken has a cycle below it.
fn cost_by_hand(problem: &Problem, choice: &[Node]) -> Option<f64> {
    let mut reached = problem.roots().to_vec();
    let mut at = 0;
    while let Some(&class) = reached.get(at) {
        at += 1;
        let node = choice[class as usize];
        if node == NONE || !problem.nodes(class).contains(&node) {
            return None;
        }
        for &child in problem.children(node) {
            if !reached.contains(&child) {
                reached.push(child);
            }
        }
    }
    let mut taken: Vec<u32> = vec![];
    while taken.len() < reached.len() {
        let ready = reached.iter().find(|&&class| {
            let children = problem.children(choice[class as usize]);
            !taken.contains(&class) && children.iter().all(|child| taken.contains(child))
        })?;
        taken.push(*ready);
    }
    Some(taken.iter().map(|&class| problem.cost(choice[class as usize])).sum())
}

/// What must hold for every extraction.
fn check(problem: &Problem, extraction: &Extraction, best: f64) {
    let cost = cost_by_hand(problem, &extraction.choice).expect("a choice without cycles");
    assert!((cost - extraction.cost).abs() < 1e-9);
    assert_eq!(problem.dag_cost(&extraction.choice), Ok(extraction.cost));
    assert!(extraction.cost >= best - 1e-9);
    if let Some(bound) = extraction.bound {
        assert!(bound <= best + 1e-9, "{bound} is no lower bound of {best}");
    }
    let mut pruned = extraction.choice.clone();
    assert_eq!(problem.prune(&mut pruned), Ok(extraction.cost));
    assert_eq!(pruned, extraction.choice, "nothing is chosen that is not needed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn extractions_are_valid_and_exact_ones_the_cheapest(problem in problems(0..5)) {
        let best = brute_force(&problem);
        for strategy in &STRATEGIES {
            let extraction = strategy.extract(&problem, Options::default());
            prop_assert_eq!(extraction.is_ok(), best.is_some());
            let (Ok(extraction), Some(best)) = (extraction, best) else { continue };
            check(&problem, &extraction, best);
            if ["exact", "highs"].contains(&strategy.name) {
                prop_assert_eq!(extraction.cost, best);
                prop_assert_eq!(extraction.gap(), Some(0.0));
            }
        }
    }

    #[test]
    fn rewards_keep_extractions_valid(problem in problems(-3..4)) {
        let best = brute_force(&problem);
        for strategy in &STRATEGIES {
            let extraction = strategy.extract(&problem, Options::default());
            prop_assert_eq!(extraction.is_ok(), best.is_some());
            if let (Ok(extraction), Some(best)) = (extraction, best) {
                // HiGHS may call what it begins with optimal and prove nothing, so that there is a gap.
                check(&problem, &extraction, best);
            }
        }
    }

    /// Costs that are no whole numbers, and differ by orders of magnitude.
    #[test]
    fn proofs_agree(problem in problems(0..9), unit in 0.01f64..3.0) {
        let mut builder = Builder::default();
        for class in problem.classes() {
            builder.class();
            for node in problem.nodes(class) {
                let cost = unit.powf(problem.cost(node)) - f64::from(problem.cost(node) == 0.0);
                builder.node(cost, problem.children(node).iter().copied());
            }
        }
        let problem = builder.finish(problem.roots().iter().copied());
        let Some(best) = brute_force(&problem) else { return Ok(()) };
        for strategy in STRATEGIES.iter().filter(|strategy| strategy.name != "tree-greedy") {
            let extraction = strategy.extract(&problem, Options::default()).expect("an extraction");
            check(&problem, &extraction, best);
            if ["exact", "highs"].contains(&strategy.name) {
                prop_assert!(extraction.cost <= best * (1.0 + 1e-7));
                prop_assert_eq!(extraction.gap(), Some(0.0));
            }
        }
    }

    #[test]
    fn equal_requests_have_equal_answers(problem in problems(0..5), seed in 0u64..4, budget in 0u64..500) {
        for strategy in &STRATEGIES {
            for budget in [None, Some(budget)] {
                let options = Options { budget, seed, ..Options::default() };
                let first = strategy.extract(&problem, options);
                prop_assert_eq!(&first, &strategy.extract(&problem, options));
                if let (Ok(extraction), Some(best)) = (first, brute_force(&problem)) {
                    check(&problem, &extraction, best);
                }
            }
        }
    }

    /// Whatever a strategy begins with, it finds nothing dearer; where nothing is cheaper, it
    /// changes nothing.
    #[test]
    fn a_start_is_never_made_worse(problem in problems(0..5), seed in 0u64..1000) {
        let Some(best) = brute_force(&problem) else { return Ok(()) };
        let mut random = ir_core::Random::new(seed);
        for _ in 0..20 {
            let choice = problem.classes().map(|class| {
                let nodes = problem.nodes(class);
                nodes.start + random.below(nodes.len()) as u32
            });
            let mut start: Vec<Node> = choice.collect();
            if problem.prune(&mut start).is_err() {
                continue;
            }
            let before = problem.dag_cost(&start).expect("an extraction");
            for strategy in &STRATEGIES {
                let options = Options { start: Some(&start), ..Options::default() };
                let found = strategy.extract(&problem, options).expect("an extraction");
                check(&problem, &found, best);
                prop_assert!(found.cost <= before);
                prop_assert!(found.cost < before || found.choice == start, "{}", strategy.name);
            }
        }
    }

    /// Work stays within the budget, but for a hundredth and some passes over the problem.
    #[test]
    fn budgets_hold(problem in problems(0..5), budget in 0u64..500) {
        within_budget(&problem, budget)?;
    }

    /// What is interrupted gives what it has, however much it may spend.
    #[test]
    fn interrupted_searches_end(problem in problems(0..5)) {
        static RAISED: AtomicBool = AtomicBool::new(true);
        let size = problem.class_count() + problem.node_count() + problem.edge_count();
        for strategy in &STRATEGIES {
            let interrupt = Interrupt::by(&RAISED);
            let options = Options { budget: Some(u64::MAX), interrupt, ..Options::default() };
            if let Ok(extraction) = strategy.extract(&problem, options) {
                prop_assert_eq!(problem.dag_cost(&extraction.choice), Ok(extraction.cost));
                prop_assert!(extraction.work <= 50 * size as u64, "{}", strategy.name);
            }
        }
    }

    #[test]
    fn json_is_read_back(problem in problems(-3..4)) {
        let operators = (0..problem.node_count()).map(|node| format!("op\"{node}")).collect();
        let operands = (0..problem.node_count() as u32)
            .map(|node| problem.children(node).iter().rev().copied().collect());
        let operands = operands.collect();
        let written = gym::Gym::new(problem, operators, operands).to_json().to_string();
        let read = gym::read("written", &written).expect("what was written");
        prop_assert_eq!(read.to_json().to_string(), written);
    }
}

/// What `docs/extraction.md` says of budgets, from the greedy choice and from a start.
fn within_budget(problem: &Problem, budget: u64) -> Result<(), TestCaseError> {
    let visited = problem.class_count() + problem.node_count() + problem.edge_count();
    let pass = (visited + problem.roots().len()) as u64;
    let passes = if budget < 20 * pass { 4 } else { 1 };
    let greedy = strategy("tree-greedy").expect("a strategy").extract(problem, Options::default());
    let Ok(greedy) = greedy else { return Ok(()) };
    // HiGHS ends where it can.
    for strategy in STRATEGIES.iter().filter(|strategy| strategy.name != "highs") {
        for start in [None, Some(&*greedy.choice)] {
            let options = Options { budget: Some(budget), start, ..Options::default() };
            let work = strategy.extract(problem, options).expect("an extraction").work;
            let most = budget + budget / 100 + passes * pass;
            let name = strategy.name;
            prop_assert!(work <= most, "{name}: {work} of {budget}, where a pass is {pass}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The same on larger problems, where a visit may lead far.
    #[test]
    fn budgets_hold_on_larger_problems(seed in 0u64..u64::MAX, classes in 20u32..1500, budget in 0u64..500_000) {
        within_budget(&layered(&mut ir_core::Random::new(seed), classes), budget)?;
    }
}

/// A problem with the sharing of a layered network; some of its nodes need later classes.
fn layered(random: &mut ir_core::Random, classes: u32) -> Problem {
    let mut builder = Builder::default();
    for class in 0..classes {
        builder.class();
        for _ in 0..1 + random.below(4) {
            let first = class.saturating_sub(20);
            let children = if class < 10 { 0 } else { 1 + random.below(3) };
            let children: Vec<u32> = (0..children)
                .map(|_| first + random.below((class + 3 - first) as usize) as u32)
                .map(|child| child.min(classes - 1))
                .collect();
            builder.node(random.below(20) as f64, children);
        }
        builder.node(50.0, []);
    }
    builder.finish([classes - 1, classes * 3 / 4, classes / 2])
}

/// Larger random problems.
#[test]
fn better_strategies_cost_no_more_than_greedy() {
    let mut random = ir_core::Random::new(7);
    for _ in 0..20 {
        let problem = layered(&mut random, 200);
        let cost = |name: &str| {
            let strategy = strategy(name).unwrap();
            let options = Options { budget: Some(2_000_000), ..Options::default() };
            let extraction = strategy.extract(&problem, options).unwrap();
            check(&problem, &extraction, extraction.bound.unwrap_or(0.0));
            extraction.cost
        };
        let (greedy, local, exact) = (cost("greedy-dag"), cost("local-search"), cost("exact"));
        assert!(local <= greedy && exact <= local, "{exact}, {local}, {greedy}");
        if HAS_HIGHS {
            assert!(cost("highs") <= local);
        }
    }
}

#[test]
fn deep_and_wide_problems_need_no_stack() {
    let mut builder = Builder::default();
    builder.class();
    builder.node(1.0, []);
    for class in 1..200_000u32 {
        builder.class();
        builder.node(1.0, [class - 1]);
        builder.node(2.0, [class - 1, class / 2]);
    }
    let problem = builder.finish([199_999]);
    for name in ["auto", "tree-greedy", "local-search"] {
        let extraction = strategy(name).unwrap().extract(&problem, Options::default()).unwrap();
        assert_eq!(extraction.cost, 200_000.0, "{name}");
    }
    let options = Options { budget: Some(1_000_000), ..Options::default() };
    for strategy in &STRATEGIES {
        let extraction = strategy.extract(&problem, options).unwrap();
        assert_eq!(extraction.cost, 200_000.0, "{}", strategy.name);
    }
}

/// `highs` is there or is told how to get.
#[test]
fn strategies_of_other_builds_are_known() {
    assert_eq!(strategy("highs").is_some(), HAS_HIGHS);
    assert_eq!(missing("highs").is_none(), HAS_HIGHS);
    assert!(missing("exact").is_none() && missing("unknown").is_none());
}

#[test]
fn wrong_choices_are_found() {
    let mut builder = Builder::default();
    builder.class();
    builder.node(1.0, [1]);
    builder.class();
    builder.node(1.0, [0]);
    builder.node(1.0, []);
    let problem = builder.finish([0]);
    assert_eq!(problem.dag_cost(&[0, 1]), Err(Invalid::Cycle(0)));
    assert_eq!(problem.dag_cost(&[0, NONE]), Err(Invalid::Missing(1)));
    assert_eq!(problem.dag_cost(&[0, 0]), Err(Invalid::Missing(1)));
    assert_eq!(problem.dag_cost(&[0, 2]), Ok(2.0));
}

/// The least costs of the files of `tests/gym`, which a solver for integer programs proved.
#[test]
fn files_of_the_gym() {
    let known: BTreeMap<&str, f64> = BTreeMap::from([
        ("ab_add", 7.0),
        ("loop", 5.0),
        ("math_simplify_root", 4.0),
        ("set_covering", 2.0),
        ("vgg_acyclic", 4.866774947848171),
    ]);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gym");
    for (name, known) in known {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let gym = gym::read(name, &text).unwrap();
        for strategy in &STRATEGIES {
            let is_best = !["greedy-dag", "tree-greedy"].contains(&strategy.name);
            let extraction = strategy.extract(&gym.problem, Options::default()).unwrap();
            check(&gym.problem, &extraction, known);
            assert!(!is_best || extraction.cost < known + 1e-9, "{name}: {}", extraction.cost);
        }
    }
}

#[test]
fn classes_that_share_change_together() {
    // Two products at 10 each, or one of 12 and two free parts of it.
    let mut builder = Builder::default();
    builder.class();
    builder.node(0.0, []);
    for _ in 0..2 {
        builder.class();
        builder.node(10.0, [0]);
        builder.node(0.0, [3]);
    }
    builder.class();
    builder.node(12.0, [0]);
    let problem = builder.finish([1, 2]);
    let start = [0, 1, 3, NONE];
    assert_eq!(problem.dag_cost(&start), Ok(20.0));
    for name in ["auto", "local-search", "exact"] {
        let options = Options { start: Some(&start), ..Options::default() };
        let found = strategy(name).unwrap().extract(&problem, options).unwrap();
        assert_eq!(found.cost, 12.0, "{name}");
    }
}
