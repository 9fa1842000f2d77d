//! What is random about a trial, as a sequence of numbers, so that a trial that fails can be made
//! simpler without knowing what its numbers stand for (MacIver and Donaldson, "Test-Case Reduction
//! via Test-Case Generation", ECOOP 2020).

use ir_core::Random;

/// Numbers below bounds, the smaller the simpler: random ones, or those of a sequence and then 0.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    random: Option<Random>,
    given: Vec<usize>,
    /// What was chosen so far.
    pub(super) made: Vec<usize>,
}

impl Choices {
    /// The random choices that belong to `seed`.
    pub(super) fn random(seed: u32) -> Choices {
        let random = Random::new(0x5eed + u64::from(seed));
        Choices { random: Some(random), given: vec![], made: vec![] }
    }

    /// The choices `given`.
    pub(super) fn replay(given: Vec<usize>) -> Choices {
        Choices { random: None, given, made: vec![] }
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let choice = match &mut self.random {
            Some(random) => random.below(bound),
            None => self.given.get(self.made.len()).copied().unwrap_or(0).min(bound - 1),
        };
        self.made.push(choice);
        choice
    }

    /// True once in `times` times, and where it is simple false.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of `choices`, which are not none; the first is the simplest.
    pub(super) fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Makes `failure`, which came of `choices`, simpler as long as there is something simpler that
/// `fails`. Its work is bounded.
pub(super) fn shrink<T>(
    mut choices: Vec<usize>,
    mut failure: T,
    fails: &mut dyn FnMut(Choices) -> Option<(Vec<usize>, T)>,
) -> T {
    /// Trials, at most.
    const WORK: u32 = 8000;
    /// The simplest numbers, all of which are tried in the place of a larger one.
    const SIMPLEST: usize = 16;
    let mut work = WORK;
    loop {
        let before = choices.clone();
        let mut index = 0;
        while index < choices.len() {
            // What a smaller number makes superfluous stands behind it, if anywhere.
            let simpler = (0..choices[index].min(SIMPLEST)).map(|number| (number, 0));
            let shorter = (0..choices[index].min(SIMPLEST))
                .flat_map(|number| [1, 2, 3].map(|left_out| (number, left_out)));
            for (number, left_out) in simpler.chain(shorter) {
                let mut other = choices.clone();
                other[index] = number;
                other.drain((index + 1).min(other.len())..(index + 1 + left_out).min(other.len()));
                if work == 0 {
                    return failure;
                }
                work -= 1;
                if let Some(found) = fails(Choices::replay(other)) {
                    (choices, failure) = found;
                    break;
                }
            }
            index += 1;
        }
        if choices == before {
            return failure;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to nine numbers, of which one is too large.
    fn fails(mut choices: Choices) -> Option<(Vec<usize>, Vec<usize>)> {
        let count = choices.below(10);
        let numbers: Vec<usize> = (0..count).map(|_| choices.below(100)).collect();
        numbers.iter().any(|number| *number > 4).then_some((choices.made, numbers))
    }

    #[test]
    fn what_fails_becomes_as_simple_as_it_can() {
        for seed in 0..100 {
            if let Some((choices, numbers)) = fails(Choices::random(seed)) {
                assert_eq!(shrink(choices, numbers, &mut fails), [5], "seed {seed}");
            }
        }
    }
}
