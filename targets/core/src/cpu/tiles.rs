//! Reductions in tiles of registers.

use te::loops::Scope;
use te::schedule::{Access, Axis, Stage};

use super::{
    LINE, MOST_WINDOW, PARALLEL_POINTS, PARALLEL_STEPS, Rules, Tile, is_shared, is_vector, points,
    sort_readers_first, sort_rows,
};
use crate::stages;

/// A part of a tensor that all tiles within a loop read.
struct Panel {
    tensor: String,
    around: Axis,
}

/// Vectors of fewer lanes are no better than single numbers.
const LEAST_LANES: i64 = 4;

/// Rows so many bytes apart, or a multiple of it, share few lines of a cache.
const APART: i64 = 2048;

/// Rows that share few lines fit into these.
const MOST_SHARED: i64 = 16;

/// The rows of a panel of a few vectors that stays in cache.
const MOST_ROWS: i64 = 2048;

/// A panel of such rows is worth a copy where so many tiles read it.
const REPEATED: i64 = 8;

/// A line comes from the farthest cache in the time of about so many products of vectors.
const PRODUCTS_AHEAD: i64 = 400;

/// So many iterations ahead is far enough for any line, and few enough to stay near.
const MOST_AHEAD: i64 = 4;

/// Any panel is where so many do: its rows lie in other pages each.
const OFTEN_REPEATED: i64 = 64;

impl Rules<'_> {
    /// Whether `root` reads each element of `producer` just where it computes its own, itself or
    /// through inlined stages.
    pub(super) fn reads_in_place(&self, root: Stage, producer: Stage) -> bool {
        stages::reads_in_place(self.schedule, root, producer)
    }

    /// How many leading dimensions `root` and `all` read of one another just where they compute
    /// their own, themselves or through inlined stages: rows along these are independent.
    pub(super) fn dimensions_in_place(&self, root: Stage, all: &[Stage]) -> usize {
        let mut pending: Vec<Stage> = all.iter().copied().chain([root]).collect();
        let mut seen = pending.clone();
        let mut least = usize::MAX;
        while let Some(reader) = pending.pop() {
            let extents: Vec<i64> =
                self.schedule.axes(reader).iter().map(|axis| self.schedule.extent(*axis)).collect();
            for access in self.schedule.accesses(reader) {
                let Some(read) = self.schedule.stage_of(access.tensor) else { continue };
                let inlined = self.schedule.is_inline(read);
                let leads = || self.producers(read).iter().any(|producer| all.contains(producer));
                if !(all.contains(&read) || inlined && leads()) {
                    continue;
                }
                let in_place = |(dimension, steps): &(usize, &Vec<Option<i64>>)| {
                    steps.iter().zip(&extents).enumerate().all(|(axis, (step, extent))| {
                        *step == Some(i64::from(axis == *dimension)) || *extent == 1
                    })
                };
                let dimensions = access.by_dimension.iter().enumerate();
                least = least.min(dimensions.take_while(in_place).count());
                if inlined && !seen.contains(&read) {
                    seen.push(read);
                    pending.push(read);
                }
            }
        }
        least
    }

    /// Computes `producer`, a reduction of the shape of `root`, in register tiles of `root`, and
    /// the results `others` of the same shape in the same tiles.
    pub(super) fn tile(&mut self, root: Stage, producer: Stage, others: &[Stage]) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let spatial = self.spatial(root);
        let Some(last) = spatial.iter().rposition(|extent| *extent > 1) else {
            return self.reduce_in_vectors(root, producer, others);
        };
        let Some((lanes, accesses)) = self.tile_lanes(&spatial, last, producer) else {
            return self.reduce_in_vectors(root, producer, others);
        };
        let work = self.tile_work(producer);
        // What is read, and of integers products before they are added, stand in registers as well.
        let operands = if self.dtype(producer).is_float() { 4 } else { 6 };
        let counted = self.counted(root);
        let tile = self.choose_tile((&spatial, &counted), last, (lanes, operands), &accesses, work);

        let Some((mut outer, inner)) = self.split_tile(&axes, &tile, last, lanes) else {
            return false;
        };
        // What changes the weights goes outermost, so that they stay in cache while the rest runs, or within the first
        // loop over the rest, where all of them do.
        let weights = accesses.iter().find(|access| is_vector(access));
        let shared = accesses.iter().any(|access| access.lane == Some(0));
        let mut panel = None;
        if let Some(weights) = weights.filter(|_| shared) {
            outer.sort_by_key(|(position, _)| !weights.depends_on(*position));
            if let Some(first) = self.rereads(weights, &accesses, &outer) {
                outer[..=first].rotate_right(1);
            }
            panel = self.panel(producer, weights, &outer, &counted);
        }
        let outer: Vec<Axis> = outer.into_iter().map(|(_, axis)| axis).collect();
        let order: Vec<Axis> =
            outer.iter().copied().chain(inner.iter().map(|(_, axis, _)| *axis)).collect();
        if self.schedule.reorder(&order).is_err() {
            return false;
        }
        for (_, axis, row) in &inner {
            if *row {
                let _ = self.schedule.unroll(*axis);
            }
        }
        let at = if self.is_whole() && self.shares_slices(root, producer, &outer) {
            let several = outer.iter().position(|axis| self.schedule.extent(*axis) > 1);
            self.parallelize(&outer[..=several.unwrap_or_default()], work);
            self.schedule.loops(root)[outer.len() - 1]
        } else {
            self.parallelize(&outer, work)
        };
        let mut others = others.to_vec();
        sort_readers_first(self.schedule, &mut others);
        if !self.compute_tiles_at(&others, at, Some(lanes))
            || self.schedule.compute_at(producer, at).is_err()
        {
            return false;
        }
        let _ = self.schedule.set_scope(producer, Scope::Register);
        self.tile_within(producer, last, &tile, &accesses);
        if let Some(panel) = panel {
            self.copy_panel(root, producer, &panel);
        }
        true
    }

    /// Which of the loops `outer`, those that change `weights` first, is to be outermost: the first other one, where the
    /// weights stay in the second cache, and what else is read does so for one iteration, but not all of it, which would be
    /// read again from farther away for each part of the weights.
    fn rereads(
        &self,
        weights: &Access,
        accesses: &[Access],
        outer: &[(usize, Axis)],
    ) -> Option<usize> {
        let several = |(_, axis): &(usize, Axis)| self.schedule.extent(*axis) > 1;
        let is_other = |(position, _): &&(usize, Axis)| !weights.depends_on(*position);
        let parts = outer.iter().any(|each| !is_other(&each) && several(each));
        let first = outer.iter().position(|each| is_other(&each) && several(each))?;
        let iterations = self.schedule.extent(outer[first].1);
        let most = self.machine.caches[1] as i64 / 2;
        let others = accesses.iter().filter(|access| access.tensor != weights.tensor);
        let read = others.map(|access| self.bytes_of(access)).max()?;
        (parts && self.bytes_of(weights) <= most && read > most && read / iterations <= most)
            .then_some(first)
    }

    /// The bytes of what is read.
    fn bytes_of(&self, access: &Access) -> i64 {
        let ty = self.schedule.body().ty(access.tensor).as_tensor();
        let bytes =
            ty.and_then(|ty| ty.elements()?.checked_mul(i64::from(ty.dtype.bits().max(8)) / 8));
        bytes.unwrap_or(i64::MAX)
    }

    /// The lanes of vectors along dimension `last` in which everything that `producer` reads is contiguous or the same
    /// in all lanes, and what it reads so. `spatial` are its extents.
    pub(super) fn tile_lanes(
        &self,
        spatial: &[i64],
        last: usize,
        producer: Stage,
    ) -> Option<(i64, Vec<Access>)> {
        // Parts of a vector may be contiguous where all of it is not.
        let narrower = |lanes: &i64| Some(lanes / 2).filter(|lanes| *lanes >= LEAST_LANES);
        let widest = self.lanes(spatial[last], self.bits(producer));
        std::iter::successors(widest, narrower).find_map(|lanes| {
            let accesses = self.schedule.accesses_in_vectors(producer, last, lanes);
            let is_one = |access: &Access| access.lane == Some(0);
            let contiguous = accesses.iter().all(|access| is_one(access) || is_vector(access));
            (contiguous && !accesses.iter().all(is_one)).then_some((lanes, accesses))
        })
    }

    /// The work of `producer` in tiles, in points that take as long as those of other loops.
    pub(super) fn tile_work(&self, producer: Stage) -> i64 {
        points(self.schedule, producer) / (PARALLEL_STEPS / PARALLEL_POINTS)
    }

    /// What `producer` reads of `weights` in vectors, where it is read again for many tiles, `outer` being the
    /// loops around these, and from rows so far apart that they share few lines of a cache. `counted` says which
    /// dimensions end at counts.
    fn panel(
        &self,
        producer: Stage,
        weights: &Access,
        outer: &[(usize, Axis)],
        counted: &[bool],
    ) -> Option<Panel> {
        let last = outer.iter().rposition(|(position, _)| weights.depends_on(*position))?;
        let repeated = outer[last + 1..].iter().fold(1i64, |all, (position, axis)| {
            let extent = self.schedule.extent(*axis);
            let usual = if counted[*position] { usual_extent(extent) as i64 } else { extent };
            all.saturating_mul(usual)
        });
        let axes = self.schedule.axes(producer);
        let mut rows = 1i64;
        let mut is_apart = false;
        for (axis, step) in axes.iter().zip(&weights.steps) {
            if self.schedule.is_reduction(*axis) {
                let bytes = (*step)?.saturating_mul(i64::from(self.bits(producer)) / 8);
                is_apart |= bytes != 0 && bytes % APART == 0;
                rows = rows.saturating_mul(self.schedule.extent(*axis));
            }
        }
        let least = if is_apart { REPEATED } else { OFTEN_REPEATED };
        let is_worth = (MOST_SHARED..=MOST_ROWS).contains(&rows);
        let name = self.schedule.body().name_hint(weights.tensor).name?;
        (is_worth && repeated >= least)
            .then(|| Panel { tensor: name.to_string(), around: outer[last].1 })
    }

    /// Copies a panel into memory of its own, row behind row, once for all tiles that read it.
    fn copy_panel(&mut self, root: Stage, producer: Stage, panel: &Panel) {
        // It may have become part of a loop that threads share.
        if !self.schedule.loops(root).contains(&panel.around) {
            return;
        }
        let before = self.schedule.clone();
        let copied = self.schedule.cache_read(&panel.tensor, Scope::Local, &[producer]);
        let done = copied.and_then(|copy| {
            self.schedule.compute_at(copy, panel.around)?;
            self.vectorize_last(copy);
            Ok(())
        });
        if done.is_err() {
            *self.schedule = before;
        }
    }

    /// Splits the loops `axes` into outer ones and those of the tile, its rows before its vectors: each
    /// with its dimension, and of the latter whether it is one of rows.
    #[expect(clippy::type_complexity, reason = "two lists of loops")]
    pub(super) fn split_tile(
        &mut self,
        axes: &[Axis],
        tile: &Tile,
        last: usize,
        lanes: i64,
    ) -> Option<(Vec<(usize, Axis)>, Vec<(usize, Axis, bool)>)> {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for (position, (&axis, &factor)) in axes.iter().zip(&tile.factors).enumerate() {
            let mut axis = axis;
            if position == last {
                let Ok((rest, vector)) = self.schedule.split(axis, lanes) else { return None };
                let _ = self.schedule.vectorize(vector);
                inner.push((position, vector, false));
                axis = rest;
            }
            if factor > 1 {
                let Ok((rest, row)) = self.schedule.split(axis, factor) else { return None };
                inner.insert(inner.len() - usize::from(position == last), (position, row, true));
                outer.push((position, rest));
            } else {
                outer.push((position, axis));
            }
        }
        Some((outer, inner))
    }

    /// Orders the loops of a reduction that is computed in register tiles: those of the reduction,
    /// as what is read in vectors lies in memory, then the rows of the tile, then its vectors.
    pub(super) fn tile_within(
        &mut self,
        producer: Stage,
        last: usize,
        tile: &Tile,
        accesses: &[Access],
    ) {
        let axes = self.schedule.axes(producer).to_vec();
        let (spatial, mut reduction): (Vec<Axis>, Vec<Axis>) =
            axes.iter().copied().partition(|axis| !self.schedule.is_reduction(*axis));
        if let Some(vectors) = accesses.iter().find(|access| is_vector(access)) {
            // Sequential reads are what caches and their prefetchers are made for.
            let step = |axis: &Axis| {
                let position = axes.iter().position(|other| other == axis)?;
                vectors.steps.get(position).copied().flatten()
            };
            reduction.sort_by_key(|axis| std::cmp::Reverse(step(axis).unwrap_or(i64::MAX)));
        }
        // Behind the dimensions of the tile, a partial sum has one of blocks, of which there is one at a time.
        let dimensions = tile.factors.len() - 1;
        let lanes = tile.factors[dimensions];
        reduction.splice(0..0, spatial[dimensions..].iter().copied());
        let mut rows: Vec<(usize, Axis)> =
            spatial[..dimensions].iter().copied().enumerate().collect();
        let mut vector = None;
        if let Ok((vectors, lane)) = self.schedule.split(rows[last].1, lanes) {
            let _ = self.schedule.vectorize(lane);
            vector = Some(lane);
            rows.remove(last);
            rows.push((last, vectors));
        }
        sort_rows(&mut rows, tile, accesses);
        let rows: Vec<Axis> = rows.into_iter().map(|(_, axis)| axis).collect();
        let innermost = reduction.last().copied();
        let order: Vec<Axis> =
            reduction.iter().copied().chain(rows.iter().copied()).chain(vector).collect();
        let _ = self.schedule.reorder(&order);
        for axis in rows {
            let _ = self.schedule.unroll(axis);
        }
        let window = innermost.filter(|axis| self.schedule.extent(*axis) <= MOST_WINDOW);
        if let Some(window) = window.filter(|_| !is_shared(accesses)) {
            let _ = self.schedule.unroll(window);
        }
        self.prefetch_jumps(&axes, &reduction, tile, accesses);
    }

    /// Asks early for what stands in all lanes, where a loop of the `reduction` of a stage with the root `axes` jumps so far in
    /// it that it is no stream which caches follow, and it does not stay in the second one.
    fn prefetch_jumps(
        &mut self,
        axes: &[Axis],
        reduction: &[Axis],
        tile: &Tile,
        accesses: &[Access],
    ) {
        for access in accesses.iter().filter(|access| access.lane == Some(0)) {
            let bytes = self.bytes_of(access);
            let tensor = self.schedule.body().ty(access.tensor);
            let Some(tensor) = tensor.as_tensor() else { continue };
            let element = i64::from(tensor.dtype.bits().max(8)) / 8;
            let jumps = |axis: &&Axis| {
                let position = axes.iter().position(|other| other == *axis);
                let step = position.and_then(|position| access.steps[position]);
                self.schedule.extent(**axis) > 1
                    && step.is_some_and(|step| step.saturating_mul(element) >= APART)
            };
            let Some(at) = reduction.iter().find(jumps) else { continue };
            let name = self.schedule.body().name_hint(access.tensor).name;
            let is_there = self
                .schedule
                .stage_of(access.tensor)
                .is_none_or(|stage| self.schedule.is_root(stage));
            let Some(name) = name.filter(|_| is_there && bytes > self.machine.caches[1] as i64 / 2)
            else {
                continue;
            };
            let inner = reduction.iter().skip_while(|axis| *axis != at).skip(1);
            let inner =
                inner.map(|axis| self.schedule.extent(*axis)).chain(tile.factors.iter().copied());
            let products =
                inner.fold(1i64, i64::saturating_mul) / tile.factors.last().copied().unwrap_or(1);
            let distance = (PRODUCTS_AHEAD / products.max(1)).clamp(1, MOST_AHEAD);
            let distance = distance.min(self.schedule.extent(*at));
            let _ = self.schedule.prefetch(*at, name.as_str(), distance, LINE / element);
        }
    }

    /// The tile that loads the fewest numbers for each combination, of those that fit in registers.
    /// The factor after those of the axes is the number of lanes. `operands` registers are left. With the extents
    /// `spatial` go which of them end at counts.
    pub(super) fn choose_tile(
        &self,
        (spatial, counted): (&[i64], &[bool]),
        last: usize,
        (lanes, operands): (i64, i64),
        accesses: &[Access],
        work: i64,
    ) -> Tile {
        let registers = self.machine.vector_registers.max(8) as i64;
        // Where each number is loaded for one element only, as in pools, the registers hold what
        // neighbours read of the same row.
        let most = if is_shared(accesses) { (registers - operands).max(4) } else { registers / 4 };
        // Candidates: the two innermost axes besides the vector, and the vectors themselves.
        let vectors = (spatial[last] + lanes - 1) / lanes;
        let mut candidates: Vec<(usize, i64)> = spatial
            .iter()
            .enumerate()
            .rev()
            .filter(|(axis, extent)| *axis != last && **extent > 1)
            .map(|(axis, extent)| (axis, *extent))
            .take(3)
            .collect();
        if vectors > 1 {
            candidates.push((last, vectors));
        }
        let far = accesses.iter().find(|access| is_vector(access) && self.is_far(access));
        let lines = |weights: &Access| {
            let ty = self.schedule.body().ty(weights.tensor).as_tensor();
            let bits = ty.map_or(0, |ty| i64::from(ty.dtype.bits()));
            (lanes * bits) as f64 / (8 * LINE) as f64
        };
        let cost = |factors: &[i64], tile: i64| {
            let near = self.tile_cost(&candidates, factors, accesses, tile);
            let cost = match far {
                Some(weights) => {
                    let far = FAR_LINE * lines(weights);
                    with_stream((near, far), weights, spatial, &candidates, factors)
                }
                None => near,
            };
            cost * self.imbalance(spatial, &candidates, factors, Some(last), work)
                * past_counts(&candidates, factors, counted)
        };
        let mut tile = Tile { factors: vec![1; spatial.len()] };
        for ((axis, _), factor) in candidates.iter().zip(best_factors(&candidates, most, cost)) {
            tile.factors[*axis] = factor;
        }
        tile.factors.push(lanes);
        tile
    }

    /// Whether what is read does not stay in the second caches of the threads.
    fn is_far(&self, access: &Access) -> bool {
        self.bytes_of(access) > (self.machine.caches[1] * self.machine.threads) as i64
    }

    /// Cycles for each combination in a tile, roughly: loads, the latency of additions where there
    /// are too few to overlap, and what is lost at the border of the tensor.
    pub(super) fn tile_cost(
        &self,
        candidates: &[(usize, i64)],
        factors: &[i64],
        accesses: &[Access],
        tile: i64,
    ) -> f64 {
        let mut loads = 0.0;
        for access in accesses {
            let each =
                candidates.iter().zip(factors).filter(|((axis, _), _)| access.depends_on(*axis));
            let count = each.map(|(_, factor)| *factor as f64).product::<f64>();
            // Vectors come from farther away than what stands in all lanes, which is read again.
            loads += count * if access.lane == Some(0) { 1.0 } else { 1.5 };
        }
        let loads = loads / tile as f64;
        let mut waste = 1.0;
        for ((_, extent), factor) in candidates.iter().zip(factors) {
            let covered = (extent + factor - 1) / factor * factor;
            // What is left over is a tile of its own, in which less is shared.
            waste *= (covered + extent) as f64 / (2 * extent) as f64;
        }
        let latency = (8.0 / tile as f64).max(1.0);
        let loop_overhead = 2.0 / tile as f64;
        (latency.max(loads) + 0.4 * loads + loop_overhead) * waste
    }

    /// How many times as long tiles take as they would if each thread had as many as the others. `vectors`
    /// is the axis of which tiles have vectors.
    pub(super) fn imbalance(
        &self,
        spatial: &[i64],
        candidates: &[(usize, i64)],
        factors: &[i64],
        vectors: Option<usize>,
        work: i64,
    ) -> f64 {
        if !self.is_shared_work(work) {
            return 1.0;
        }
        let mut tiles = 1.0;
        for (axis, extent) in spatial.iter().enumerate() {
            let place = candidates.iter().position(|(candidate, _)| *candidate == axis);
            tiles *= match place {
                Some(place) => (candidates[place].1 as f64 / factors[place] as f64).ceil(),
                // All its vectors are one.
                None if Some(axis) == vectors => 1.0,
                None => *extent as f64,
            };
        }
        let threads = self.machine.threads as f64;
        (tiles / threads).ceil() * threads / tiles
    }
}

/// The extent that counts up to `bound` have, by and large: small ones are as usual as great ones.
fn usual_extent(bound: i64) -> f64 {
    (bound as f64).sqrt().min(MOST_USUAL)
}

/// Of counts without a bound, or with one that only has to be large enough, this says more.
const MOST_USUAL: f64 = 64.0;

/// How many times as long tiles take as they would if each ended at the counts at which dimensions end, of those that
/// are `counted`: the last one is computed whole, of which half is past the count by and large.
pub(super) fn past_counts(candidates: &[(usize, i64)], factors: &[i64], counted: &[bool]) -> f64 {
    let each = candidates.iter().zip(factors).filter(|((axis, _), _)| counted[*axis]);
    each.map(|((_, bound), factor)| 1.0 + (factor - 1) as f64 / (2.0 * usual_extent(*bound)))
        .product()
}

/// A line from beyond the second cache takes as long as so many products with vectors.
const FAR_LINE: f64 = 17.0;

/// What each combination costs where it costs `near` with `weights` in the nearest caches, and they come from farther
/// away, each vector in the time of `far` combinations. The first tile of rows reads them from there, which takes as
/// long as what it computes or longer; those behind it find them in the second cache. So of few rows as many as possible
/// are in the first tile.
fn with_stream(
    (near, far): (f64, f64),
    weights: &Access,
    spatial: &[i64],
    candidates: &[(usize, i64)],
    factors: &[i64],
) -> f64 {
    let others = spatial.iter().enumerate().filter(|(axis, _)| !weights.depends_on(*axis));
    let all = others.fold(1.0, |all, (_, extent)| all * *extent as f64);
    let others = candidates.iter().zip(factors).filter(|((axis, _), _)| !weights.depends_on(*axis));
    let rows = others.fold(1.0, |rows, (_, factor)| rows * *factor as f64);
    let first = far.max(rows * near);
    // What is hidden behind the stream counts a little, so that of equals the better one is taken.
    (first + (all - rows).max(0.0) * near) / all + 0.1 * near
}

/// The combination of factors of at most `most` in all, one for each of the `candidates`, axes with their
/// extents, that costs least.
pub(super) fn best_factors(
    candidates: &[(usize, i64)],
    most: i64,
    cost: impl Fn(&[i64], i64) -> f64,
) -> Vec<i64> {
    let mut factors = vec![1i64; candidates.len()];
    let mut best: Option<(f64, Vec<i64>)> = None;
    loop {
        let tile: i64 = factors.iter().product();
        if tile <= most {
            let cost = cost(&factors, tile);
            if best.as_ref().is_none_or(|(least, _)| cost < *least - 1e-9) {
                best = Some((cost, factors.clone()));
            }
        }
        // The next combination, counting with a digit for each candidate.
        let Some(digit) = (0..factors.len()).find(|digit| {
            let next = factors[*digit] + 1;
            next <= candidates[*digit].1.min(most)
        }) else {
            break;
        };
        factors[digit] += 1;
        factors[..digit].fill(1);
    }
    best.map_or(factors, |(_, best)| best)
}
