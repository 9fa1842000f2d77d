//! Reductions over rows.

use te::loops::Scope;
use te::schedule::{Access, Axis, Refused, Stage};

use super::tiles::{best_factors, past_counts};
use super::{
    MOST_BLOCKED_ROW, NEAREST_CACHE, PARALLEL_POINTS, PARALLEL_STEPS, Partials, Rules, points,
    points_of, reduce, sort_readers_first,
};

/// As many vectors are summed up at once, so that additions do not wait for one another.
const CHAINS: i64 = 4;

/// Rows of fewer vectors than this are reduced in vectors of half the width where these are a whole number: what is left
/// over, and what reduces a vector further, takes most of the time then.
const MOST_SHORT: i64 = 4;

/// What rows that are no whole number of tiles cost, as a part of the time.
const REST: f64 = 0.15;

/// What has so many times fewer elements is computed much sooner.
const MUCH_SMALLER: i64 = 4;

/// Loops of a reduction that are as one: the last ones of a stage.
pub(super) struct Run {
    axes: Vec<Axis>,
    extent: i64,
    /// By load, how many elements further the next iteration reads.
    steps: Vec<i64>,
}

impl Run {
    /// Whether each load reads neighbouring elements, or one.
    fn is_contiguous(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, 0 | 1))
    }
}

impl Rules<'_> {
    /// Reduces in vectors along the last axis of the reduction: for products of rows with rows, several of each
    /// at once. The results `others` of the same shape are computed in the same loops.
    pub(super) fn reduce_in_vectors(
        &mut self,
        root: Stage,
        producer: Stage,
        others: &[Stage],
    ) -> bool {
        let mut outer = self.schedule.axes(root).to_vec();
        if outer.is_empty() {
            return false;
        }
        let work = points(self.schedule, producer);
        let before = self.schedule.clone();
        let mut factors = self.choose_rows(root, producer, work);
        let tile: i64 = factors.iter().product();
        let partials = self.factor_row(producer, (CHAINS / tile).max(1));
        if partials.stages.is_empty() {
            factors.fill(1);
        }
        let is_tiled = factors.iter().any(|factor| *factor > 1);
        if !is_tiled {
            self.block_rows(&mut outer, work, 0);
        } else if self.split_rows(&mut outer, &factors).is_err() {
            *self.schedule = before;
            return false;
        }
        let at = self.parallelize(&outer, work);
        let mut others = others.to_vec();
        sort_readers_first(self.schedule, &mut others);
        if !self.compute_tiles_at(&others, at, None)
            || !self.reduce_row(producer, &partials, at, is_tiled)
        {
            *self.schedule = before;
            return false;
        }
        let _ = self.schedule.set_scope(producer, Scope::Register);
        true
    }

    /// By dimension of `root`, how many rows are reduced at once, so that what one loads serves others.
    fn choose_rows(&self, root: Stage, producer: Stage, work: i64) -> Vec<i64> {
        let (spatial, accesses) = (self.spatial(root), self.schedule.accesses(producer));
        let mut factors = vec![1; spatial.len()];
        let is_read = self.run(producer).is_some_and(|run| run.is_contiguous());
        let extents = spatial.iter().enumerate().rev().filter(|(_, extent)| **extent > 1).take(3);
        let candidates: Vec<(usize, i64)> = extents.map(|(axis, extent)| (axis, *extent)).collect();
        if is_read && self.spatial(producer) == spatial {
            let counted = self.counted(root);
            let cost = |factors: &[i64], tile: i64| {
                // What is left over is written out as well, and that is long.
                let rest = |((_, extent), factor): (&(usize, i64), &i64)| extent % factor != 0;
                let rests = candidates.iter().zip(factors).filter(|pair| rest(*pair)).count();
                self.tile_cost(&candidates, factors, &accesses, tile)
                    * self.imbalance(&spatial, &candidates, factors, None, work)
                    * past_counts(&candidates, factors, &counted)
                    * (1.0 + REST * rests as f64)
            };
            let most = (self.machine.vector_registers.max(8) as i64 - 4).max(4);
            for ((axis, _), factor) in candidates.iter().zip(best_factors(&candidates, most, cost))
            {
                factors[*axis] = factor;
            }
        }
        factors
    }

    /// Splits the loops `outer` by `factors`, and writes out the inner ones; those around are left in `outer`.
    fn split_rows(&mut self, outer: &mut [Axis], factors: &[i64]) -> Result<(), Refused> {
        let mut rows = Vec::new();
        for (axis, factor) in outer.iter_mut().zip(factors).filter(|(_, factor)| **factor > 1) {
            let (rest, row) = self.schedule.split(*axis, *factor)?;
            *axis = rest;
            rows.push(row);
        }
        let order: Vec<Axis> = outer.iter().chain(&rows).copied().collect();
        self.schedule.reorder(&order)?;
        rows.into_iter().try_for_each(|row| self.schedule.unroll(row))
    }

    /// Divides reductions to a single number, of which none is scheduled yet, into partial results: as
    /// many as vector registers hold, of each of many parts where these are worth sharing between
    /// threads. So there are loops to take in vectors and to share, in a stage of its own.
    pub(super) fn divide_whole_reductions(&mut self) {
        for stage in self.schedule.stages() {
            let view = te::compute::Stage::of(self.schedule.body(), self.schedule.stage_op(stage));
            let is_whole = view.is_some_and(|view| view.shape.is_empty() && view.counts.is_empty());
            if is_whole && reduce(self.schedule, stage).is_some() {
                let before = self.schedule.clone();
                if self.divide(stage).is_none() {
                    *self.schedule = before;
                }
            }
        }
    }

    /// Divides the reduction `stage`, as [`divide_whole_reductions`](Rules::divide_whole_reductions) does.
    /// `None` where it cannot, and changes are to be taken back.
    fn divide(&mut self, stage: Stage) -> Option<()> {
        let run = self.run(stage).filter(Run::is_contiguous)?;
        let lanes = self.machine.lanes(self.bits(stage) as usize) as i64;
        let work = points(self.schedule, stage) / (PARALLEL_STEPS / PARALLEL_POINTS);
        let is_shared = self.is_shared_work(work);
        // Tiles are of several vectors, or of vectors of several parts.
        let vectors = if is_shared { &[1][..] } else { &[4, 2, 1][..] };
        let vectors = vectors.iter().find(|vectors| run.extent >= 2 * *vectors * lanes)?;
        let width = vectors * lanes;
        if lanes < 2 {
            return None;
        }
        let mut joined = self.join(&run)?;
        if is_shared {
            let parts = 16 * self.machine.threads as i64;
            let part = (run.extent / (parts * width) + 1) * width;
            let (parts, _) = self.schedule.split(joined, part).ok()?;
            let divided = self.schedule.rfactor(parts).ok()?;
            joined = *self.schedule.loops(divided).last()?;
        }
        let (_, lane) = self.schedule.split(joined, width).ok()?;
        self.schedule.rfactor(lane).ok()?;
        Some(())
    }

    /// Computes everything that `root` and the results `others` read row by row, and these results:
    /// at the innermost of the loops of `root` that all of it depends on.
    pub(super) fn rows(&mut self, root: Stage, others: &[Stage]) -> bool {
        let results: Vec<Stage> = others.iter().copied().chain([root]).collect();
        let mut all = self.everything(&results);
        all.extend(others);
        sort_readers_first(self.schedule, &mut all);
        let axes = self.schedule.axes(root).to_vec();
        // The leading dimensions that every producer has in common with the root stage.
        let spatial = self.spatial(root);
        let in_place = self.dimensions_in_place(root, &all);
        let common = self.common_dimensions(&spatial, &all).min(in_place);
        let work =
            all.iter().map(|stage| points(self.schedule, *stage)).fold(0i64, i64::saturating_add);
        // What others read as well is computed before.
        let is_read_outside = |stage: &Stage| {
            let readers = self.schedule.readers(*stage);
            let is_within = |reader: &Stage| results.contains(reader) || all.contains(reader);
            readers.iter().any(|reader| !self.schedule.is_inline(*reader) && !is_within(reader))
        };
        // Products of matrices, of which a row holds several of both factors, have tiles of registers of their own.
        let has_product = all.iter().any(|stage| self.is_product_of_matrices(*stage, common));
        let others_read = all.iter().filter(|stage| !results.contains(stage)).any(is_read_outside);
        if common == 0 || others_read || has_product && others.is_empty() {
            return false;
        }
        // On several threads, results apart are faster than those of a single row together, and so is one that
        // reads all over again what is much smaller.
        let is_single = points_of(self.schedule, &axes[..common]) <= 1;
        let mine = points(self.schedule, root) / MUCH_SMALLER;
        let is_much_smaller = |stage: &Stage| points(self.schedule, *stage) <= mine;
        let are_apart = !others.is_empty() || all.iter().all(is_much_smaller);
        if is_single && are_apart && self.is_shared_work(work) {
            return false;
        }
        let whole = all.iter().filter(|stage| reduce(self.schedule, **stage).is_none());
        let written = whole.chain([&root]).map(|stage| {
            let bytes = i64::from(self.bits(*stage)) / 8;
            points(self.schedule, *stage).saturating_mul(bytes)
        });
        let written = written.fold(0i64, i64::saturating_add);
        let streams = self.is_worth_streaming(root);
        let is_streamed = |stage: &Stage| {
            self.is_worth_streaming(*stage) && self.schedule.readers(*stage).is_empty()
        };
        let streamed: Vec<Stage> = others.iter().copied().filter(is_streamed).collect();
        let before = self.schedule.clone();
        let factored: Vec<(Stage, Partials)> =
            all.into_iter().map(|stage| (stage, self.factor_row(stage, CHAINS))).collect();
        let mut outer = axes[..common].to_vec();
        if !streams {
            self.block_rows(&mut outer, work, written);
        }
        let at = self.parallelize(&outer, work);
        for (stage, partials) in &factored {
            if !self.reduce_row(*stage, partials, at, false) {
                *self.schedule = before;
                return false;
            }
        }
        for (stage, _) in factored {
            if reduce(self.schedule, stage).is_none()
                && self.vectorize_last(stage)
                && streamed.contains(&stage)
            {
                let _ = self.schedule.stream(stage);
            }
        }
        if self.vectorize_last(root) {
            if streams {
                let _ = self.schedule.stream(root);
            }
        } else {
            self.share_places(root);
        }
        true
    }

    /// Whether `stage` is a reduction in which, dimensions up to `common` aside, several elements share what they
    /// read of one tensor, and others what they read of another one.
    pub(super) fn is_product_of_matrices(&self, stage: Stage, common: usize) -> bool {
        if reduce(self.schedule, stage).is_none() {
            return false;
        }
        let spatial = self.spatial(stage);
        let shared = |access: &Access| {
            let several = (common..spatial.len()).filter(|axis| spatial[*axis] > 1);
            several.filter(|axis| !access.depends_on(*axis)).collect::<Vec<usize>>()
        };
        let accesses = self.schedule.accesses(stage);
        let shared: Vec<Vec<usize>> = accesses.iter().map(shared).collect();
        let is_apart =
            |a: &[usize], b: &[usize]| !a.is_empty() && b.iter().any(|axis| !a.contains(axis));
        shared.iter().any(|a| shared.iter().any(|b| is_apart(a, b) && is_apart(b, a)))
    }

    /// How many leading dimensions the root, of extents `spatial`, and the stages `all`, of which it
    /// is one, have in common. What is no reduction keeps the last one for vectors.
    fn common_dimensions(&self, spatial: &[i64], all: &[Stage]) -> usize {
        let most = spatial.len().saturating_sub(1);
        let common = all.iter().map(|stage| {
            let own = self.spatial(*stage);
            let reduced = reduce(self.schedule, *stage).is_some();
            let same = own.iter().zip(spatial).take_while(|(a, b)| a == b).count();
            if reduced { same } else { same.min(most) }
        });
        common.min().expect("the root is one of them").min(most)
    }

    /// Takes a few rows of the innermost of the loops `outer` at once, where a row is short: then
    /// the end of one row's reduction overlaps with the next row. `work` is for all rows, and so
    /// are the `written` bytes of tensors.
    fn block_rows(&mut self, outer: &mut [Axis], work: i64, written: i64) {
        let all = points_of(self.schedule, outer).max(1);
        let Some(last) = outer.last_mut() else { return };
        let extent = self.schedule.extent(*last);
        // Half of the nearest cache is left for what is read.
        let fits = |rows: &i64| extent % rows == 0 && rows * (written / all) <= NEAREST_CACHE / 2;
        if work / all <= MOST_BLOCKED_ROW
            && let Some(rows) = [4, 2].into_iter().find(fits)
            && let Ok((blocks, _)) = self.schedule.split(*last, rows)
        {
            *last = blocks;
        }
    }

    /// Factors the reduction `stage` into vectors along its last axis, where what it reads along it
    /// is contiguous: into `chains` vectors at most, whose sums do not wait for each other, then down to a
    /// few numbers. What reads it must not be computed within other loops yet.
    fn factor_row(&mut self, stage: Stage, chains: i64) -> Partials {
        let mut partials = Partials { lanes: 1, stages: vec![] };
        let axes = self.schedule.axes(stage).to_vec();
        let Some(last) = axes.len().checked_sub(1) else { return partials };
        if !self.schedule.is_reduction(axes[last]) {
            return partials;
        }
        let Some(run) = self.run(stage).filter(Run::is_contiguous) else { return partials };
        let extent = run.extent;
        let most = self.machine.lanes(self.bits(stage) as usize) as i64;
        // A whole number of shorter vectors, where the rest would be most of the row.
        let dividing = most.min(1 << extent.trailing_zeros().min(16));
        let lanes = match () {
            _ if extent < 2 * most => dividing.min(extent / 2),
            _ if extent < MOST_SHORT * most && 2 * dividing == most => dividing,
            _ => most,
        };
        let unchanged = self.schedule.clone();
        if lanes < 4 || extent < 2 * lanes || self.join(&run).is_none() {
            return partials;
        }
        partials.lanes = lanes;
        let fits = |count: &i64| *count <= chains && extent >= 2 * count * lanes;
        let vectors = [CHAINS, 2, 1].into_iter().find(fits).unwrap_or(1);
        let mut left = extent;
        for width in [vectors * lanes, lanes, 4] {
            let Some(&reduced) = self.schedule.loops(stage).last() else { break };
            if width >= left {
                continue;
            }
            let before = self.schedule.clone();
            let split = self.schedule.split(reduced, width);
            match split.and_then(|(_, inner)| self.schedule.rfactor(inner)) {
                Ok(partial) => partials.stages.push(partial),
                Err(_) => {
                    *self.schedule = before;
                    break;
                }
            }
            left = width;
        }
        if partials.stages.is_empty() {
            *self.schedule = unchanged;
        }
        partials
    }

    /// The last loops of the reduction `stage`, of which nothing is scheduled yet, as far as everything
    /// that it reads lies along all of them as along one. `None` where it has no such loops.
    pub(super) fn run(&self, stage: Stage) -> Option<Run> {
        let accesses = self.schedule.accesses(stage);
        let axes = self.schedule.axes(stage);
        let mut run = Run { axes: vec![], extent: 1, steps: vec![0; accesses.len()] };
        let view = te::compute::Stage::of(self.schedule.body(), self.schedule.stage_op(stage))?;
        for (position, &axis) in axes.iter().enumerate().rev() {
            let extent = self.schedule.extent(axis);
            // What ends at a count is no part of something longer.
            let is_counted = view.count(position).is_some();
            if !self.schedule.is_reduction(axis) || is_counted && !run.axes.is_empty() {
                break;
            }
            let steps: Option<Vec<i64>> =
                accesses.iter().map(|access| access.steps.get(position).copied()?).collect();
            let steps = match steps {
                // A loop of one iteration steps nowhere.
                _ if extent == 1 => {
                    run.steps.iter().map(|step| step.saturating_mul(run.extent)).collect()
                }
                Some(steps) => steps,
                None => break,
            };
            if run.extent == 1 {
                run.steps = steps;
            } else if !steps
                .iter()
                .zip(&run.steps)
                .all(|(outer, inner)| inner.checked_mul(run.extent) == Some(*outer))
            {
                break;
            }
            let Some(extent) = run.extent.checked_mul(extent) else { break };
            run.extent = extent;
            run.axes.insert(0, axis);
            if is_counted {
                break;
            }
        }
        (!run.axes.is_empty()).then_some(run)
    }

    /// Makes one loop of those of `run`.
    pub(super) fn join(&mut self, run: &Run) -> Option<Axis> {
        let (mut joined, inner) = run.axes.split_first().map(|(first, inner)| (*first, inner))?;
        let before = self.schedule.clone();
        // From the outside in, indices are digits of one number: quotients of it, and remainders of these.
        for &axis in inner {
            match self.schedule.fuse(joined, axis) {
                Ok(both) => joined = both,
                Err(_) => {
                    *self.schedule = before;
                    return None;
                }
            }
        }
        Some(joined)
    }

    /// Computes the reduction `stage` and its partial results in the loop `at`, of a tile of rows the first
    /// partial results of all together. Whether that is allowed.
    fn reduce_row(&mut self, stage: Stage, partials: &Partials, at: Axis, is_tiled: bool) -> bool {
        if self.schedule.compute_at(stage, at).is_err() {
            return false;
        }
        let loops = self.schedule.loops(stage).to_vec();
        let own = loops.iter().copied().rfind(|axis| !self.schedule.is_reduction(*axis));
        for (number, &partial) in partials.stages.iter().enumerate().rev() {
            let is_together = is_tiled && number == 0;
            let within = own.filter(|_| !is_together).unwrap_or(at);
            if self.schedule.compute_at(partial, within).is_err() {
                return false;
            }
            self.in_registers(partial, partials.lanes, number > 0, is_together);
        }
        if is_tiled {
            for &axis in &loops {
                if !self.schedule.is_reduction(axis) {
                    let _ = self.schedule.unroll(axis);
                }
            }
        }
        if let Some(reduced) = loops.last().filter(|_| !partials.stages.is_empty()) {
            let _ = self.schedule.unroll(*reduced);
        }
        true
    }

    /// Keeps the partial results `stage` of a reduction in vector registers of `lanes` lanes at
    /// most; `short` reductions are written out, and those of a tile of `rows`.
    fn in_registers(&mut self, stage: Stage, lanes: i64, short: bool, rows: bool) {
        let _ = self.schedule.set_scope(stage, Scope::Register);
        let axes = self.schedule.axes(stage).to_vec();
        let (mut spatial, reduction): (Vec<Axis>, Vec<Axis>) =
            axes.iter().copied().partition(|axis| !self.schedule.is_reduction(*axis));
        if let Some(last) = spatial.pop()
            && let Ok((vectors, vector)) = self.schedule.split(last, lanes)
        {
            let _ = self.schedule.unroll(vectors);
            let _ = self.schedule.vectorize(vector);
            for axis in spatial.iter().filter(|_| rows) {
                let _ = self.schedule.unroll(*axis);
            }
            spatial.extend([vectors, vector]);
        }
        let order: Vec<Axis> = reduction.iter().chain(&spatial).copied().collect();
        let _ = self.schedule.reorder(&order);
        if short {
            for axis in reduction {
                let _ = self.schedule.unroll(axis);
            }
        }
    }
}
