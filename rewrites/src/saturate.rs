//! Equality saturation of a block: rules add equal forms until nothing is new or the budget ends.

use ir_core::{Diagnostic, Registry};

use crate::egraph::{Class, Graph};
use crate::instantiate::{Refusal, plan};
use crate::library::RuleSet;
use crate::matching::{Match, search};

/// How much work to do, in counted units, so that equal inputs give equal outputs on any machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Nodes of the graph. It is checked at every match, so that it is exceeded by no more than
    /// the right side of one rule.
    pub nodes: usize,
    /// Nodes looked at while matching.
    pub work: u64,
    /// Rounds of matching all rules and applying what was found.
    pub iterations: u32,
    /// Rounds in which rules with several roots take part: they grow the graph fastest.
    pub merging_iterations: u32,
}

/// Why saturation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No rule finds anything new.
    Saturated,
    /// A part of the budget was used up.
    Budget,
}

/// What one rule did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Matches whose conditions hold.
    pub matches: u64,
    /// Nodes that were new.
    pub nodes: u64,
    /// Classes that were found equal.
    pub unions: u64,
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
}

/// Applies `rules` to `graph` within `budget`.
///
/// In each round all matches are found first, rule by rule and class by class, and then applied in
/// that order. Matches of each rule share the work that is left evenly, so that no rule starves
/// those after it.
///
/// # Errors
/// When a rule's right side does not type.
pub fn saturate(
    graph: &mut Graph,
    rules: &RuleSet,
    registry: &Registry,
    budget: Budget,
) -> Result<Ledger, Box<Diagnostic>> {
    let mut ledger = Ledger {
        rules: vec![Entry::default(); rules.rules.len()],
        iterations: 0,
        work: 0,
        end: End::Budget,
    };
    graph.rebuild();
    while ledger.iterations < budget.iterations {
        let merging = ledger.iterations < budget.merging_iterations;
        ledger.iterations += 1;
        let index = graph.index();
        let (mut plans, mut complete) = (Vec::new(), true);
        for (place, compiled) in rules.rules.iter().enumerate() {
            if compiled.rule.left.len() > 1 && !merging {
                continue;
            }
            let share =
                (budget.work - ledger.work.min(budget.work)) / (rules.rules.len() - place) as u64;
            let mut work = 0;
            let mut error = None;
            for class in index.get(&compiled.pattern.root).into_iter().flatten() {
                let visit = &mut |found: &Match<Class>| {
                    match plan(graph, &compiled.rule, found, registry, &rules.functions) {
                        Ok(plan) => plans.push((place, plan)),
                        Err(Refusal::Condition) => {}
                        Err(Refusal::IllTyped(diagnostic)) => error = Some(diagnostic),
                    }
                    error.is_none() && plans.len() < budget.nodes
                };
                search(graph, &compiled.rule, &compiled.pattern, *class, &mut work, visit);
                if work > share || error.is_some() || plans.len() >= budget.nodes {
                    complete = false;
                    break;
                }
            }
            ledger.work += work;
            if let Some(error) = error {
                return Err(error);
            }
        }
        let mut changed = false;
        for (place, plan) in &plans {
            if graph.nodes() >= budget.nodes {
                complete = false;
                break;
            }
            let before = graph.nodes();
            let unions = graph.apply(plan, registry);
            let entry = &mut ledger.rules[*place];
            entry.matches += 1;
            entry.nodes += (graph.nodes() - before) as u64;
            entry.unions += unions as u64;
            changed |= unions > 0 || graph.nodes() != before;
            if rules.rules[*place].rule.subsume {
                for (old, _) in &plan.replacements {
                    graph.subsume(graph.find(*old), rules.rules[*place].pattern.root);
                }
            }
        }
        graph.rebuild();
        if !changed && complete {
            ledger.end = End::Saturated;
            break;
        }
        if !complete || ledger.work >= budget.work {
            break;
        }
    }
    Ok(ledger)
}
