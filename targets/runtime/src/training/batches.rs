//! The rows of data, in an order that the seed decides.

use std::ops::Range;

use ir_core::{Random, TensorData};

use crate::Program;
use crate::arguments::seed_of;

/// Batches of rows of arrays that belong together.
pub(super) struct Batches {
    /// For each input of the program that is fed, its place and its rows.
    fed: Vec<(usize, TensorData)>,
    rows: usize,
    size: usize,
    seed: u64,
    /// The rows of an epoch in the order in which they are fed, and which epoch that is.
    order: (Option<usize>, Vec<usize>),
}

impl Batches {
    /// Batches of `size` of the `rows` of the arrays in `fed`.
    pub(super) fn new(
        fed: Vec<(usize, TensorData)>,
        rows: usize,
        size: usize,
        seed: u64,
    ) -> Batches {
        Batches { fed, rows, size, seed, order: (None, vec![]) }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How many there are in an epoch.
    pub(super) fn steps(&self) -> usize {
        self.rows / self.size
    }

    /// Gives `program` the rows of step `step` of all epochs.
    pub(super) fn feed(&mut self, step: usize, program: &mut Program) {
        let (epoch, step) = (step / self.steps(), step % self.steps());
        if self.order.0 != Some(epoch) {
            self.shuffle(epoch);
        }
        let rows = &self.order.1[step * self.size..(step + 1) * self.size];
        for (input, array) in &self.fed {
            let bytes = program.input_mut(*input);
            let width = bytes.len() / self.size;
            if width > 0 {
                for (place, row) in bytes.chunks_exact_mut(width).zip(rows) {
                    place.copy_from_slice(&array.bytes()[bytes_of(*row, width)]);
                }
            }
        }
    }

    /// The row that had element `element` of `input` when step `step` was fed, the last one; `None` where that input
    /// is not fed.
    pub(super) fn row(&self, step: usize, input: usize, element: usize) -> Option<usize> {
        let (_, array) = self.fed.iter().find(|(fed, _)| *fed == input)?;
        let place = element / (array.len() / self.rows);
        Some(self.order.1[step % self.steps() * self.size + place])
    }

    /// Orders the rows for `epoch` (Fisher and Yates, as Durstenfeld does it).
    fn shuffle(&mut self, epoch: usize) {
        let (known, order) = &mut self.order;
        order.clear();
        order.extend(0..self.rows);
        let mut random = Random::new(seed_of(self.seed, &format!("epoch {epoch}")));
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        *known = Some(epoch);
    }
}

/// The bytes of `row`, of rows of `width` bytes.
fn bytes_of(row: usize, width: usize) -> Range<usize> {
    row * width..(row + 1) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_has_all_rows_in_an_order_of_its_own() {
        let order = |seed: u64, epoch: usize| {
            let mut batches = Batches::new(vec![], 97, 10, seed);
            batches.shuffle(epoch);
            batches.order.1
        };
        for epoch in 0..5 {
            let mut rows = order(3, epoch);
            assert_eq!(rows, order(3, epoch));
            assert_ne!(rows, order(3, epoch + 1));
            assert_ne!(rows, order(4, epoch));
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..97));
        }
    }
}
