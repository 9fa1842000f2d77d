//! What is chosen so far, for the whole block.

use std::ops::Range;

use super::candidates::Candidate;
use super::cover::{Choice, Window};
use super::facts::Facts;

/// A kernel for each value that is needed.
pub(super) struct Selection<'a> {
    candidates: &'a [Vec<Candidate>],
    chosen: Vec<Option<usize>>,
    /// How many chosen kernels read each value; one more for values that are required.
    uses: Vec<u32>,
    /// Values that lost their last use.
    released: Vec<usize>,
}

impl<'a> Selection<'a> {
    /// The kernels of `seeds`, which compute everything that is needed.
    pub(super) fn new(
        facts: &Facts,
        candidates: &'a [Vec<Candidate>],
        seeds: &[Vec<usize>],
    ) -> Selection<'a> {
        let uses = facts.nodes.iter().map(|node| u32::from(node.required)).collect();
        let chosen = vec![None; facts.nodes.len()];
        let mut this = Selection { candidates, chosen, uses, released: vec![] };
        for seed in seeds {
            let Some(&root) = seed.last() else { continue };
            let is_seed = |candidate: &Candidate| candidate.members == *seed;
            this.choose(root, candidates[root].iter().position(is_seed));
        }
        this
    }

    /// Modelled microseconds.
    pub(super) fn cost(&self) -> f64 {
        self.chosen().map(|candidate| candidate.cost).sum()
    }

    /// The members of the kernels, each after those that it reads.
    pub(super) fn kernels(&self) -> Vec<Vec<usize>> {
        self.chosen().map(|candidate| candidate.members.clone()).collect()
    }

    fn chosen(&self) -> impl Iterator<Item = &'a Candidate> + '_ {
        self.chosen.iter().zip(self.candidates).filter_map(|(chosen, all)| all.get((*chosen)?))
    }

    fn inputs(&self, value: usize) -> &'a [usize] {
        self.chosen[value].map_or(&[], |chosen| &self.candidates[value][chosen].inputs)
    }

    /// The values of `range`, where all others stay as they are, and which candidate each choice is.
    pub(super) fn window(&self, range: Range<usize>) -> (Window, Vec<Vec<usize>>) {
        let mut window = Window::default();
        let mut inside = vec![0u32; range.len()];
        for value in range.clone() {
            for input in self.inputs(value).iter().filter(|input| range.contains(input)) {
                inside[input - range.start] += 1;
            }
        }
        let mut numbers = vec![];
        for value in range.clone() {
            if self.uses[value] > inside[value - range.start] {
                window.needed |= 1 << (value - range.start);
            }
            let (mut choices, mut numbers_of) = (vec![], vec![]);
            let mut start = None;
            for (number, candidate) in self.candidates[value].iter().enumerate() {
                let mut inputs = 0u128;
                let mut is_there = true;
                for &input in &candidate.inputs {
                    match range.contains(&input) {
                        true => inputs |= 1 << (input - range.start),
                        false => is_there &= self.chosen[input].is_some(),
                    }
                }
                if is_there {
                    if self.chosen[value] == Some(number) {
                        start = Some(choices.len());
                    }
                    choices.push(Choice { cost: candidate.cost, inputs });
                    numbers_of.push(number);
                }
            }
            window.values.push(choices);
            window.start.push(start);
            numbers.push(numbers_of);
        }
        (window, numbers)
    }

    /// Computes `value` by the candidate `choice`, or not at all.
    pub(super) fn choose(&mut self, value: usize, choice: Option<usize>) {
        if self.chosen[value] == choice {
            return;
        }
        let old = self.inputs(value);
        self.chosen[value] = choice;
        self.inputs(value).iter().for_each(|input| self.uses[*input] += 1);
        for &input in old {
            self.uses[input] -= 1;
            if self.uses[input] == 0 {
                self.released.push(input);
            }
        }
    }

    /// Drops the kernels of values that nothing reads any more.
    pub(super) fn release(&mut self) {
        while let Some(value) = self.released.pop() {
            if self.uses[value] == 0 {
                self.choose(value, None);
            }
        }
    }
}
