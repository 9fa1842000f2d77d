//! Chains of stages around products of matrices, a band of the result at a time.

use rustc_hash::FxHashMap;
use te::loops::Scope;
use te::schedule::{Axis, Refused, Stage};

use super::{Band, Rules, points, reduce};

/// Bands begin where a period of so many indices, at most, does.
const MOST_PERIOD: i64 = 8;

/// What is computed for a band of a result.
struct Bands {
    /// Of the result.
    result: Band,
    /// Of the stages that only the result and one another read.
    parts: FxHashMap<Stage, Band>,
}

impl Rules<'_> {
    /// Where products of matrices stand between other stages, and what these store for one another does not stay in
    /// the second cache: computes all of them for a band of `root` at a time, of which it does. What the products
    /// are multiplied by is read again for each band, so that it has to fit as well.
    pub(super) fn bands(&mut self, root: Stage) -> bool {
        let Some(bands) = self.choose_bands(root) else { return false };
        let before = self.schedule.clone();
        let done = self.compute_bands(root, &bands);
        if done.is_err() {
            *self.schedule = before;
        }
        done.is_ok()
    }

    fn choose_bands(&self, root: Stage) -> Option<Bands> {
        let all = self.everything(&[root]);
        let is_between = |stage: &Stage| {
            let is_read = self.producers(*stage).iter().any(|producer| all.contains(producer));
            is_read && self.is_product_of_matrices(*stage, 0)
        };
        let is_within = |stage: &Stage| {
            let readers = self.schedule.readers(*stage);
            let inner = |reader: &Stage| {
                *reader == root || all.contains(reader) || self.schedule.is_inline(*reader)
            };
            self.schedule.is_root(*stage)
                && !self.schedule.is_ordered(*stage)
                && readers.iter().all(inner)
        };
        let has_counts = |stage: &Stage| {
            let view = te::compute::Stage::of(self.schedule.body(), self.schedule.stage_op(*stage));
            view.is_none_or(|view| !view.counts.is_empty())
        };
        let cache = self.machine.caches[1] as i64;
        // What the result reads just where it is computed stands in registers otherwise.
        let in_registers = |stage: &&Stage| {
            reduce(self.schedule, **stage).is_some() && self.reads_in_place(root, **stage)
        };
        let kept = all.iter().filter(|stage| !in_registers(stage));
        let stored: i64 = kept.map(|stage| self.bytes(*stage)).fold(0, i64::saturating_add);
        if !all.iter().any(is_between)
            || all.iter().chain([&root]).any(has_counts)
            || !all.iter().all(is_within)
            || stored <= cache
            || self.bytes_of_factors(&all) > cache
        {
            return None;
        }
        let extents = self.spatial(root);
        let dimensions = (0..extents.len().saturating_sub(1)).filter(|at| extents[*at] > 1);
        dimensions.into_iter().find_map(|dimension| {
            let bands = |extent: i64| {
                let result = Band { dimension, extent };
                let parts = self.parts(root, result)?;
                let is_part =
                    |stage| parts.get(stage).is_some_and(|part| !self.cuts_vectors(*stage, *part));
                all.iter().all(is_part).then_some(Bands { result, parts })
            };
            let least = (1..=MOST_PERIOD.min(extents[dimension] / 2)).find_map(bands)?;
            let bytes: i64 =
                least.parts.iter().map(|(stage, band)| self.bytes_in(*stage, *band)).sum();
            let longest = (cache / 2 / bytes.max(1)).max(1) * least.result.extent;
            // As many for each thread.
            let threads = self.machine.threads as i64;
            let count = (extents[dimension] + longest - 1) / longest;
            let count = (count + threads - 1) / threads * threads;
            let period = least.result.extent;
            let periods = (extents[dimension] + period - 1) / period;
            let extent = ((periods + count - 1) / count).max(1) * period;
            bands(extent).filter(|_| extent < extents[dimension])
        })
    }

    /// What has to be there of each stage that `root` reads, itself or through others, for a band of it that begins
    /// at any of its beginnings. `None` where bands of one read other parts than bands.
    fn parts(&self, root: Stage, band: Band) -> Option<FxHashMap<Stage, Band>> {
        let mut parts = FxHashMap::default();
        let mut pending = vec![(root, band)];
        while let Some((stage, band)) = pending.pop() {
            for access in self.schedule.accesses_in_vectors(stage, band.dimension, band.extent) {
                let Some(read) = self.schedule.stage_of(access.tensor) else { continue };
                let steps = access.by_dimension.iter().map(|steps| steps[band.dimension]);
                let mut moved = steps.enumerate().filter(|(_, step)| *step != Some(0));
                let (Some((dimension, Some(extent))), None) = (moved.next(), moved.next()) else {
                    return None;
                };
                if extent < 1 {
                    return None;
                }
                let part = Band { dimension, extent };
                match parts.insert(read, part) {
                    None => pending.push((read, part)),
                    Some(other) if other == part => {}
                    Some(_) => return None,
                }
            }
        }
        Some(parts)
    }

    /// Whether rows of `part` of `stage` are no whole number of vectors where those of all of it may be.
    fn cuts_vectors(&self, stage: Stage, part: Band) -> bool {
        let spatial = self.spatial(stage);
        let lanes = self.machine.lanes(self.bits(stage) as usize) as i64;
        spatial.iter().rposition(|extent| *extent > 1) == Some(part.dimension)
            && part.extent < spatial[part.dimension]
            && part.extent % lanes != 0
    }

    fn compute_bands(&mut self, root: Stage, bands: &Bands) -> Result<(), Refused> {
        let work = points(self.schedule, root);
        let axes = self.schedule.axes(root).to_vec();
        let (outer, _) = self.schedule.split(axes[bands.result.dimension], bands.result.extent)?;
        let others = self.schedule.loops(root).iter().copied().filter(|axis| *axis != outer);
        let order: Vec<Axis> = [outer].into_iter().chain(others).collect();
        self.schedule.reorder(&order)?;
        let mut within =
            Rules { band: Some(bands.result), ..Rules::new(self.schedule, self.machine) };
        if !within.choose(root) {
            within.vectorize_last(root);
        }
        for stage in self.everything(&[root]) {
            if !self.schedule.is_root(stage) {
                continue;
            }
            if reduce(self.schedule, stage).is_some() {
                self.schedule.cache_write(stage, Scope::Register)?;
            }
            self.schedule.compute_at(stage, outer)?;
            let band = bands.parts.get(&stage).copied();
            Rules { band, ..Rules::new(self.schedule, self.machine) }.root(stage);
        }
        if self.is_shared_work(work) {
            self.schedule.parallel(outer)?;
        }
        Ok(())
    }

    fn bytes(&self, stage: Stage) -> i64 {
        let elements = self.spatial(stage).into_iter().fold(1i64, i64::saturating_mul);
        elements.saturating_mul(i64::from(self.bits(stage)) / 8)
    }

    fn bytes_in(&self, stage: Stage, band: Band) -> i64 {
        if self.schedule.is_inline(stage) {
            return 0;
        }
        let whole = self.spatial(stage)[band.dimension].max(1);
        self.bytes(stage) / whole * band.extent.min(whole)
    }

    /// The bytes of what reductions among `stages` read that none of them computes.
    fn bytes_of_factors(&self, stages: &[Stage]) -> i64 {
        let body = self.schedule.body();
        let mut bytes = 0i64;
        for &stage in stages.iter().filter(|stage| reduce(self.schedule, **stage).is_some()) {
            for access in self.schedule.accesses(stage) {
                let ty = body.ty(access.tensor).as_tensor();
                let size = ty.and_then(|ty| Some((ty.elements()?, i64::from(ty.dtype.bits()) / 8)));
                if let Some((elements, each)) = size
                    && self.schedule.stage_of(access.tensor).is_none()
                {
                    bytes = bytes.saturating_add(elements.saturating_mul(each));
                }
            }
        }
        bytes
    }
}
