//! The default: local search, proven where that is quick.

use super::exact::{branch_and_bound, is_closed, prove};
use super::local_search::{Search, default_budget};
use super::problem::Problem;
use super::strategy::{Found, Limit, Options, ROUNDING, Strategy};

/// How many nodes and children a problem may have to be proven with little work: larger ones take
/// more for a bound than searching does, and hardly ever close.
const PROVABLE: u64 = 6000;

/// How many passes over the problem a proof takes at least, with the first bound.
const LEAST: u64 = 3;

/// Extracts well in little time.
pub(super) const STRATEGY: Strategy = Strategy {
    name: "auto",
    doc: "local search, and a proof where one is near; the default",
    proves: false,
    search: |problem, options: Options<'_>| {
        let budget = options.budget.unwrap_or_else(|| default_budget(problem));
        let size = problem.size();
        let parents = problem.parents();
        let mut search = Search::new(problem, &parents, None, options);
        search.descend(budget / 2);
        let mut work = 0;
        if options.start.is_some() {
            let mut other = Search::new(problem, &parents, options.start, options);
            other.descend(budget / 2);
            // At equal costs what began wins.
            if other.cost() <= search.cost() + ROUNDING * search.cost().abs() {
                std::mem::swap(&mut search, &mut other);
            }
            work = other.work();
            search.restore(options.start);
        }
        let mut bound = None;
        if problem.has_rewards() {
            bound = Some(all_rewards(problem));
        } else if !options.interrupt.is_raised()
            && size <= PROVABLE.max(budget / 64)
            && let left = budget.saturating_sub(work + search.work())
            && left >= LEAST * size
        {
            let limit = Limit { work: left / 2, interrupt: options.interrupt };
            let proof = prove(problem, None, search.choice(), limit, 8, branch_and_bound);
            work += proof.work;
            bound = Some(proof.bound);
            if is_closed(proof.cost, proof.bound) {
                return Found { choice: proof.choice, bound, work: work + search.work() };
            }
            if proof.cost < search.cost() * (1.0 - ROUNDING) {
                work += search.work();
                search = Search::new(problem, &parents, Some(&proof.choice), options);
            }
        }
        search.perturb(budget.saturating_sub(work));
        search.restore(options.start);
        Found { work: work + search.work(), choice: search.into_choice(), bound }
    },
};

/// Nothing costs less than all rewards together.
pub(super) fn all_rewards(problem: &Problem) -> f64 {
    let least = |class| problem.nodes(class).map(|node| problem.cost(node)).fold(0.0, f64::min);
    problem.classes().map(least).sum()
}
