//! The cheapest way to compute what is needed, by dynamic programming from the last value to the
//! first.
//!
//! Candidates read earlier values only. So when the values from some place on are decided, all that
//! matters of the decisions is which earlier values they need, and of all that need the same, only
//! the cheapest. Values that several kernels read count once.

use rustc_hash::FxHashMap;

/// How many values a window has at most.
pub(super) const MOST_VALUES: usize = 96;

/// With how many cheaper sets of needed values each is compared, to drop it where one is a part of
/// it.
const COMPARED: usize = 64;

/// A way to compute a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Choice {
    /// What it costs; not negative.
    pub(super) cost: f64,
    /// The values of the window that it reads, as bits: all before the value.
    pub(super) inputs: u128,
}

/// Some values, in order, with the ways to compute each.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Window {
    pub(super) values: Vec<Vec<Choice>>,
    /// The values that are needed outside, as bits.
    pub(super) needed: u128,
    /// What is chosen now, for values that are needed now.
    pub(super) start: Vec<Option<usize>>,
}

impl Eq for Window {}

impl std::hash::Hash for Window {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.needed.hash(state);
        self.start.hash(state);
        for choices in &self.values {
            choices.len().hash(state);
            for choice in choices {
                choice.cost.to_bits().hash(state);
                choice.inputs.hash(state);
            }
        }
    }
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Solution {
    /// The choices, for values that are needed, where they cost less than those at the start.
    pub(super) choice: Option<Vec<Option<usize>>>,
    /// Whether nothing costs less.
    pub(super) is_proven: bool,
    /// How many decisions were looked at.
    pub(super) work: u64,
}

/// Decisions on the values from some place on.
#[derive(Clone, Copy)]
struct State {
    cost: f64,
    /// Earlier values that they need.
    needed: u128,
    /// The last decision.
    step: Option<usize>,
}

/// A decision, and those before it.
struct Step {
    value: usize,
    choice: usize,
    before: Option<usize>,
}

/// Chooses for the values of `window` what costs less than at the start, if anything does. Follows
/// `most_states` sets of needed values at most.
pub(super) fn solve(window: &Window, most_states: usize) -> Solution {
    let start: f64 = (window.start.iter().zip(&window.values))
        .filter_map(|(chosen, choices)| Some(choices[(*chosen)?].cost))
        .sum();
    // Each needed value costs at least its cheapest choice.
    let least = |choices: &Vec<Choice>| {
        choices.iter().map(|choice| choice.cost).fold(f64::INFINITY, f64::min)
    };
    let least: Vec<f64> = window.values.iter().map(least).collect();
    let bound = |needed: u128| {
        let (mut left, mut sum) = (needed, 0.0);
        while left != 0 {
            sum += least[left.trailing_zeros() as usize];
            left &= left - 1;
        }
        sum
    };
    let limit = start - 1e-9 * start.max(1.0);
    let mut steps: Vec<Step> = vec![];
    let mut states = vec![State { cost: 0.0, needed: window.needed, step: None }];
    let (mut is_proven, mut work) = (true, 0);
    for value in (0..window.values.len()).rev() {
        let bit = 1u128 << value;
        let mut place: FxHashMap<u128, usize> = FxHashMap::default();
        let mut next: Vec<(f64, State)> = vec![];
        for state in &states {
            if state.needed & bit == 0 {
                add(&mut next, &mut place, *state, bound(state.needed));
                continue;
            }
            for (number, choice) in window.values[value].iter().enumerate() {
                let needed = state.needed & !bit | choice.inputs;
                let (cost, rest) = (state.cost + choice.cost, bound(needed));
                if cost + rest >= limit {
                    continue;
                }
                let step = Some(steps.len());
                if add(&mut next, &mut place, State { cost, needed, step }, rest) {
                    steps.push(Step { value, choice: number, before: state.step });
                }
            }
        }
        work += next.len() as u64;
        next.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.needed.cmp(&y.needed)));
        states.clear();
        for (_, state) in next {
            let is_better = |s: &State| s.cost <= state.cost && s.needed & !state.needed == 0;
            if states.iter().take(COMPARED).any(is_better) {
                continue;
            }
            if states.len() == most_states {
                is_proven = false;
                break;
            }
            states.push(state);
        }
    }
    let best = states
        .into_iter()
        .filter(|state| state.cost < limit)
        .min_by(|a, b| a.cost.total_cmp(&b.cost));
    let choice = best.map(|best| {
        let mut choice = vec![None; window.values.len()];
        let mut at = best.step;
        while let Some(step) = at {
            choice[steps[step].value] = Some(steps[step].choice);
            at = steps[step].before;
        }
        choice
    });
    Solution { choice, is_proven, work }
}

/// Keeps `state` unless one that needs the same costs no more; `rest` is a bound for what is left.
fn add(
    states: &mut Vec<(f64, State)>,
    place: &mut FxHashMap<u128, usize>,
    state: State,
    rest: f64,
) -> bool {
    match place.get(&state.needed) {
        Some(&at) if states[at].1.cost <= state.cost => return false,
        Some(&at) => states[at] = (state.cost + rest, state),
        None => {
            place.insert(state.needed, states.len());
            states.push((state.cost + rest, state));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use ir_core::Random;

    use super::*;

    /// A window in which all choices are allowed to read what is before them.
    fn random_window(random: &mut Random, values: usize) -> Window {
        let mut window = Window::default();
        for value in 0..values {
            let mut choices = vec![];
            for _ in 0..1 + random.below(3) {
                let inputs = u128::from(random.bits()) & u128::from(random.bits());
                let cost = random.below(20) as f64;
                choices.push(Choice { cost, inputs: inputs & ((1 << value) - 1) });
            }
            window.values.push(choices);
        }
        window.needed = 1 << (values - 1) | u128::from(random.bits()) & ((1 << values) - 1);
        window.start = choices_from(&window, |_| 0).0;
        window
    }

    /// What is needed when `pick` chooses, and what it costs.
    fn choices_from(window: &Window, pick: impl Fn(usize) -> usize) -> (Vec<Option<usize>>, f64) {
        let (mut needed, mut cost) = (window.needed, 0.0);
        let mut chosen = vec![None; window.values.len()];
        for value in (0..window.values.len()).rev() {
            if needed >> value & 1 == 1 {
                let number = pick(value) % window.values[value].len();
                let choice = window.values[value][number];
                chosen[value] = Some(number);
                needed |= choice.inputs;
                cost += choice.cost;
            }
        }
        (chosen, cost)
    }

    #[test]
    fn solutions_cost_as_little_as_the_best_of_all() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let window = random_window(&mut random, 7);
            let all = (0..3usize.pow(7))
                .map(|code| choices_from(&window, |value| code / 3usize.pow(value as u32) % 3).1);
            let best = all.fold(f64::INFINITY, f64::min);
            let (start, cost) = choices_from(&window, |_| 0);
            assert_eq!(start, window.start);
            let solution = solve(&window, 1 << 7);
            assert!(solution.is_proven);
            match solution.choice {
                None => assert!(cost <= best + 1e-6, "{cost} {best}"),
                Some(choice) => {
                    let pick = |value: usize| choice[value].unwrap_or(0);
                    let (same, found) = choices_from(&window, pick);
                    assert_eq!(same, choice);
                    assert!(found < cost && (found - best).abs() < 1e-6, "{found} {cost} {best}");
                }
            }
        }
    }
}
