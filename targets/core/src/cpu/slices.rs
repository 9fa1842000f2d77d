//! Stages that another one reads slice by slice, computed so.

use te::loops::Scope;
use te::schedule::{Axis, Stage};

use super::{Band, Rules, reduce};

/// With so many slices for each thread, one more for some of them makes no difference.
const MANY_SLICES: i64 = 8;

/// What bands read twice is at most one in so many rows.
const LEAST_IN_COMMON: i64 = 4;

/// What of a stage is computed at a time.
enum Slice {
    /// All of one index of a dimension.
    Whole,
    /// What so many iterations of a loop within read, so many rows.
    Rows { of: Axis, rows: i64, read: i64 },
}

impl Rules<'_> {
    /// Computes what only `root` and stages within its loops read, slice by slice, in the outermost loop of
    /// `root`, where a slice stays in a cache and all slices do not: then nothing of it goes farther away.
    /// A slice is what belongs to one index of the first dimension that has several, such as a picture, or a
    /// channel of one picture; where that is too large, what a band of rows of it reads.
    pub(super) fn slices(&mut self, root: Stage) {
        let Some((first, at)) = self.outermost(root, self.schedule.loops(root)) else { return };
        for stage in self.everything(&[root]) {
            let is_within = |reader: &Stage| self.schedule.attached_to(*reader) == Some(root);
            let Some(slice) = self.slice_of(root, stage, first, &is_within) else { continue };
            let before = self.schedule.clone();
            if reduce(self.schedule, stage).is_some() {
                let _ = self.schedule.cache_write(stage, Scope::Register);
            }
            let (within, band) = match slice {
                Slice::Whole => (Ok(at), None),
                Slice::Rows { of, rows, read } => {
                    let bands = self.schedule.split(of, rows).map(|(bands, _)| bands);
                    (bands, Some(Band { dimension: first + 1, extent: read }))
                }
            };
            match within.and_then(|within| self.schedule.compute_at(stage, within)) {
                Ok(()) => {
                    let sliced = first + 1;
                    Rules { sliced, band, ..Rules::new(self.schedule, self.machine) }.root(stage);
                }
                Err(_) => *self.schedule = before,
            }
        }
    }

    /// Whether `outer`, the loops of `root` outside the tiles in which it computes `producer`, are shared between
    /// threads by slices of what `producer` reads, of which each thread has as many as the others.
    pub(super) fn shares_slices(&self, root: Stage, producer: Stage, outer: &[Axis]) -> bool {
        let threads = self.machine.threads as i64;
        let Some((first, at)) = self.outermost(root, outer) else { return false };
        let slices = self.schedule.extent(at);
        let is_within = |reader: &Stage| *reader == producer;
        (slices % threads == 0 || slices >= MANY_SLICES * threads)
            && self
                .producers(producer)
                .iter()
                .any(|stage| self.slice_of(root, *stage, first, &is_within).is_some())
    }

    /// The first dimension of `root` of several indices and the loop over it, where no other of `loops` is around it.
    fn outermost(&self, root: Stage, loops: &[Axis]) -> Option<(usize, Axis)> {
        let first = self.spatial(root).iter().position(|extent| *extent > 1)?;
        let at = *loops.iter().find(|axis| self.schedule.extent(**axis) > 1)?;
        (self.schedule.axes(root).get(first) == Some(&at)).then_some((first, at))
    }

    /// In what slices along dimension `first` only `root`, and what `is_within` its loops, read `stage`, where that is worth
    /// computing one at a time.
    fn slice_of(
        &self,
        root: Stage,
        stage: Stage,
        first: usize,
        is_within: &dyn Fn(&Stage) -> bool,
    ) -> Option<Slice> {
        let readers = self.schedule.readers(stage);
        let slices = self.spatial(root)[first];
        let is_apart = self.schedule.is_root(stage) && !self.schedule.is_ordered(stage);
        let extents = self.spatial(stage);
        let elements = extents.iter().fold(1i64, |product, extent| product.saturating_mul(*extent));
        let bytes = elements.saturating_mul(i64::from(self.bits(stage)) / 8);
        // The other half is left for what is read besides.
        let [nearest, most, _] = self.machine.caches.map(|bytes| bytes as i64 / 2);
        if !is_apart
            || !readers.iter().all(|reader| *reader == root || is_within(reader))
            || extents.get(first) != Some(&slices)
            || bytes <= nearest
        {
            return None;
        }
        let between: Vec<Stage> = readers.iter().copied().chain([stage]).collect();
        if self.dimensions_in_place(root, &between) <= first {
            return None;
        }
        if bytes / slices <= most {
            return Some(Slice::Whole);
        }
        let row = bytes / slices / extents.get(first + 1).filter(|rows| **rows > 1)?;
        self.rows_of(root, stage, &readers, (first + 1, most / row.max(1)))
    }

    /// The most rows of `root`, indices of dimension `rows`, for which its `readers` read at most so many rows of `stage`; where
    /// these are many more than what bands have in common.
    fn rows_of(
        &self,
        root: Stage,
        stage: Stage,
        readers: &[Stage],
        (rows, most): (usize, i64),
    ) -> Option<Slice> {
        let of = *self.schedule.axes(root).get(rows)?;
        let loops = self.schedule.loops(root);
        let several = loops.iter().filter(|axis| self.schedule.extent(**axis) > 1);
        if several.take(2).last() != Some(&of) {
            return None;
        }
        // Rows of the stage to the next row, and more of them for one row.
        let (mut step, mut window) = (0, 0);
        for reader in readers {
            let axes = self.schedule.axes(*reader);
            let accesses = self.schedule.accesses(*reader);
            let of_stage = |access: &&te::schedule::Access| {
                self.schedule.stage_of(access.tensor) == Some(stage)
            };
            for access in accesses.iter().filter(of_stage) {
                let mut reach = 0i64;
                for (position, by) in access.by_dimension.get(rows)?.iter().enumerate() {
                    let by = by.filter(|by| *by >= 0)?;
                    match axes.get(position) {
                        _ if position == rows => step = step.max(by),
                        Some(axis) => {
                            let last = self.schedule.extent(*axis) - 1;
                            reach = reach.saturating_add(by.saturating_mul(last));
                        }
                        None => {}
                    }
                }
                window = window.max(reach);
            }
        }
        let all = self.schedule.extent(of);
        if step == 0 || window >= most {
            return None;
        }
        let largest = ((most - window - 1) / step + 1).min(all / 2);
        // A last band that is shorter is written out once more.
        let rows = (largest / 2 + 1..=largest).rev().find(|rows| all % rows == 0);
        let rows = rows.unwrap_or(largest);
        let read = (rows - 1) * step + window + 1;
        let is_worth = read <= rows * step + rows * step / LEAST_IN_COMMON;
        (rows > 0 && is_worth).then_some(Slice::Rows { of, rows, read })
    }
}
