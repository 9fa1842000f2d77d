//! Stages that another one reads slice by slice, computed so.

use te::loops::Scope;
use te::schedule::{Axis, Stage};

use super::{Rules, reduce};

/// With so many slices for each thread, one more for some of them makes no difference.
const MANY_SLICES: i64 = 8;

impl Rules<'_> {
    /// Computes what only `root` and stages within its loops read, slice by slice, in the outermost loop of
    /// `root`, where a slice stays in a cache and all slices do not: then nothing of it goes farther away.
    /// A slice is what belongs to one index of the first dimension that has several, such as a picture, or a
    /// channel of one picture.
    pub(super) fn slices(&mut self, root: Stage) {
        let Some((first, at)) = self.outermost(root, self.schedule.loops(root)) else { return };
        for stage in self.everything(&[root]) {
            let is_within = |reader: &Stage| self.schedule.attached_to(*reader) == Some(root);
            if !self.is_read_in_slices(root, stage, first, &is_within) {
                continue;
            }
            let before = self.schedule.clone();
            if reduce(self.schedule, stage).is_some() {
                let _ = self.schedule.cache_write(stage, Scope::Register);
            }
            match self.schedule.compute_at(stage, at) {
                Ok(()) => {
                    let sliced = first + 1;
                    Rules { sliced, ..Rules::new(self.schedule, self.machine) }.root(stage);
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
                .any(|stage| self.is_read_in_slices(root, *stage, first, &is_within))
    }

    /// The first dimension of `root` of several indices and the loop over it, where no other of `loops` is around it.
    fn outermost(&self, root: Stage, loops: &[Axis]) -> Option<(usize, Axis)> {
        let first = self.spatial(root).iter().position(|extent| *extent > 1)?;
        let at = *loops.iter().find(|axis| self.schedule.extent(**axis) > 1)?;
        (self.schedule.axes(root).get(first) == Some(&at)).then_some((first, at))
    }

    /// Whether only `root`, and what `is_within` its loops, read `stage`, in slices along dimension `first` that
    /// are worth computing one at a time.
    fn is_read_in_slices(
        &self,
        root: Stage,
        stage: Stage,
        first: usize,
        is_within: &dyn Fn(&Stage) -> bool,
    ) -> bool {
        let readers = self.schedule.readers(stage);
        let slices = self.spatial(root)[first];
        let is_apart = self.schedule.is_root(stage) && !self.schedule.is_ordered(stage);
        if !is_apart
            || !readers.iter().all(|reader| *reader == root || is_within(reader))
            || !self.is_worth_slicing(stage, first, slices)
        {
            return false;
        }
        let between: Vec<Stage> = readers.into_iter().chain([stage]).collect();
        self.dimensions_in_place(root, &between) > first
    }

    /// Whether a slice of `stage`, of which there are so many along dimension `first`, stays in the second cache,
    /// and all of it is not in the nearest one.
    fn is_worth_slicing(&self, stage: Stage, first: usize, slices: i64) -> bool {
        let elements = self
            .spatial(stage)
            .iter()
            .fold(1i64, |product, extent| product.saturating_mul(*extent));
        let bytes = elements.saturating_mul(i64::from(self.bits(stage)) / 8);
        // The other half is left for what is read besides.
        let [nearest, most, _] = self.machine.caches.map(|bytes| bytes as i64 / 2);
        self.spatial(stage).get(first) == Some(&slices) && bytes > nearest && bytes / slices <= most
    }
}
