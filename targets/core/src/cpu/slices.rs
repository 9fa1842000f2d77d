//! Stages that another one reads slice by slice, computed so.

use te::loops::Scope;
use te::schedule::Stage;

use super::{Rules, reduce};

impl Rules<'_> {
    /// Computes what only `root` and stages within its loops read, slice by slice, in the outermost loop of
    /// `root`, where a slice stays in the second cache and all slices do not: then nothing of it goes to memory.
    /// A slice is what belongs to one index of the first dimension that has several, such as a picture, or a
    /// channel of one picture.
    pub(super) fn slices(&mut self, root: Stage) {
        let (axes, loops) = (self.schedule.axes(root), self.schedule.loops(root));
        let Some(first) = self.spatial(root).iter().position(|extent| *extent > 1) else { return };
        let Some(&at) = loops.get(first).filter(|_| axes[..=first] == loops[..=first]) else {
            return;
        };
        let slices = self.schedule.extent(at);
        for stage in self.everything(&[root]) {
            let is_apart = self.schedule.is_root(stage) && !self.schedule.is_ordered(stage);
            let readers = self.schedule.readers(stage);
            let is_within = |reader: &Stage| {
                *reader == root || self.schedule.attached_to(*reader) == Some(root)
            };
            if !is_apart
                || !readers.iter().all(is_within)
                || !self.is_worth_slicing(stage, first, slices)
            {
                continue;
            }
            let between: Vec<Stage> = readers.into_iter().chain([stage]).collect();
            if self.dimensions_in_place(root, &between) <= first {
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

    /// Whether a slice of `stage`, of which there are so many along dimension `first`, stays in a cache that all of
    /// it does not stay in.
    fn is_worth_slicing(&self, stage: Stage, first: usize, slices: i64) -> bool {
        let elements = self
            .spatial(stage)
            .iter()
            .fold(1i64, |product, extent| product.saturating_mul(*extent));
        let bytes = elements.saturating_mul(i64::from(self.bits(stage)) / 8);
        // The other half is left for what is read besides.
        let most = self.machine.caches[1] as i64 / 2;
        self.spatial(stage).get(first) == Some(&slices) && bytes > most && bytes / slices <= most
    }
}
