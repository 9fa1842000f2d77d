//! What two lists of lines have in common.

use std::ops::Range;

use rustc_hash::FxHashMap;
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A part of two lists: lines that are equal, or those between two such parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) same: bool,
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// Lists longer than this, without a line that is once in both, are compared piece by piece: the
/// cost of comparing them grows with lines times differences.
const LONGEST: usize = 2000;

/// The parts of `old` and `new`, given as hashes of their lines. The cost is linear but for
/// sorting.
///
/// Lines that are once in both are matched first, as in patience diff, and what lies between them
/// then by the algorithm of Myers (An O(ND) Difference Algorithm and Its Variations, 1986).
pub(super) fn parts(old: &[u64], new: &[u64]) -> Vec<Part> {
    let mut parts = Parts { parts: Vec::new(), at: (0, 0) };
    for (x, y) in anchors(old, new) {
        parts.compare(&old[parts.at.0..x], &new[parts.at.1..y]);
        parts.add(true, 1, 1);
    }
    parts.compare(&old[parts.at.0..], &new[parts.at.1..]);
    parts.parts
}

struct Parts {
    parts: Vec<Part>,
    /// The lines behind those that are in parts.
    at: (usize, usize),
}

impl Parts {
    /// Adds so many lines of each list.
    fn add(&mut self, same: bool, old: usize, new: usize) {
        let (from, to) = self.at;
        self.at = (from + old, to + new);
        match self.parts.last_mut() {
            _ if old + new == 0 => {}
            Some(last) if last.same == same => (last.old.end, last.new.end) = self.at,
            _ => self.parts.push(Part { same, old: from..self.at.0, new: to..self.at.1 }),
        }
    }

    /// Adds the parts of lists without an anchor.
    fn compare(&mut self, old: &[u64], new: &[u64]) {
        let equal = |(a, b): &(&u64, &u64)| a == b;
        let head = old.iter().zip(new).take_while(equal).count();
        let (old, new) = (&old[head..], &new[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(equal).count();
        let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
        self.add(true, head, head);
        let pieces = old.len().max(new.len()).div_ceil(LONGEST);
        for index in 0..pieces {
            let cut = |list: &[u64], index| list.len() * index / pieces;
            let old = &old[cut(old, index)..cut(old, index + 1)];
            let new = &new[cut(new, index)..cut(new, index + 1)];
            for op in capture_diff_slices(Algorithm::Myers, old, new) {
                let same = matches!(op, DiffOp::Equal { .. });
                self.add(same, op.old_range().len(), op.new_range().len());
            }
        }
        self.add(true, tail, tail);
    }
}

/// The most lines that are once in each list and in the same order in both, as pairs of places.
fn anchors(old: &[u64], new: &[u64]) -> Vec<(usize, usize)> {
    // By line: how often it is in each list, and where.
    let mut seen: FxHashMap<u64, ([u32; 2], usize)> = FxHashMap::default();
    for line in old {
        seen.entry(*line).or_default().0[0] += 1;
    }
    for (place, line) in new.iter().enumerate() {
        let (counts, last) = seen.entry(*line).or_default();
        counts[1] += 1;
        *last = place;
    }
    let once = old.iter().enumerate().filter_map(|(place, line)| match seen.get(line) {
        Some(([1, 1], other)) => Some((place, *other)),
        _ => None,
    });
    let pairs: Vec<(usize, usize)> = once.collect();
    // The longest increasing subsequence: of each length the one with the least end, and for each
    // pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut chosen = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        chosen.push(pairs[index]);
        next = before[index];
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_tile_both_lists(
            old in prop::collection::vec(0..12_u64, 0..40),
            new in prop::collection::vec(0..12_u64, 0..40),
        ) {
            let (mut i, mut j) = (0, 0);
            let mut last = None;
            for part in parts(&old, &new) {
                prop_assert_eq!((part.old.start, part.new.start), (i, j));
                prop_assert_ne!(last, Some(part.same));
                if part.same {
                    prop_assert_eq!(&old[part.old.clone()], &new[part.new.clone()]);
                }
                (i, j, last) = (part.old.end, part.new.end, Some(part.same));
            }
            prop_assert_eq!((i, j), (old.len(), new.len()));
        }
    }

    #[test]
    fn long_lists_are_compared_in_pieces() {
        let old: Vec<u64> = (0..50_000).map(|line| line % 7).collect();
        let new: Vec<u64> = (0..60_000).map(|line| line % 5).collect();
        assert!(parts(&old, &new).iter().any(|part| part.same));
    }
}
