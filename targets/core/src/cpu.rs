//! Default schedules for processors with vector registers.
//!
//! A function is scheduled from its *root* stages, those with loops of their own: its results, and
//! what is worth storing. What a root stage reads is computed within it, in one of three ways:
//!
//! - elementwise stages are *inlined*;
//! - a reduction of the same shape (convolution, matrix product, pooling) is computed in *register
//!   tiles* of the root stage: a vector of the last dimension by as many other elements as
//!   registers hold, so that every loaded number is used several times;
//! - reductions over whole rows (softmax, normalization) and what they read are computed *a few rows
//!   at a time*, so that a row stays in the nearest cache.
//!
//! Root stages that read across rows (transposes) go through *square tiles*. Those that are larger
//! than all caches, and no products, are stored past them.
//!
//! The rules look only at extents and strides ([`Access`]), never at what operator it was.

use te::compute::{Compute, Load, LoadIf, Reduce, Yield};
use te::loops::Scope;
use te::schedule::{Access, Axis, Refused, Schedule, Stage};

use crate::Capabilities;

/// Loops of fewer points than this are not worth sharing between threads: fetching what another
/// thread wrote, and saying that it is done, takes as long.
const PARALLEL_POINTS: i64 = 1 << 14;

/// The same for reductions in register tiles, which take less time for each point.
const PARALLEL_STEPS: i64 = 1 << 16;

/// Stages are inlined while the expression stays below this many operations.
const INLINE_OPS: usize = 256;

/// Longer rows, in elements of all that is computed of them, are computed one at a time.
const MOST_BLOCKED_ROW: i64 = 1 << 13;

/// Bytes of the nearest cache of a core, on most machines.
const NEAREST_CACHE: i64 = 1 << 15;

/// Bytes that caches and memory exchange at a time, on most machines.
const LINE: i64 = 64;

/// Windows of at most so many elements are written out.
const MOST_WINDOW: i64 = 7;

/// The default schedule of the compute function `function` on `machine`. Errors where `function` is
/// no compute function.
pub fn schedule(function: &ir_core::Item, machine: &Capabilities) -> Result<Schedule, Refused> {
    let mut schedule = Schedule::new(function)?;
    inline(&mut schedule);
    // Reductions that are results get a root stage that copies them from registers.
    let reductions: Vec<Stage> = schedule
        .stages()
        .filter(|stage| schedule.is_output(*stage) && reduce(&schedule, *stage).is_some())
        .collect();
    for stage in reductions {
        // Refused for several results: those are computed in place.
        let _ = schedule.cache_write(stage, Scope::Register);
    }
    // Readers first: what they compute within their own loops is no root any more.
    let mut roots: Vec<Stage> = schedule.stages().collect();
    sort_readers_first(&schedule, &mut roots);
    for root in roots {
        let own = schedule.is_output(root) || reduce(&schedule, root).is_none();
        if own && schedule.is_root(root) {
            Rules { schedule: &mut schedule, machine }.root(root);
        }
    }
    Ok(schedule)
}

/// Sorts `stages` so that each comes before those that it reads.
fn sort_readers_first(schedule: &Schedule, stages: &mut [Stage]) {
    let position: Vec<_> = schedule.body().block_ops(schedule.body().entry()).collect();
    stages.sort_by_key(|stage| {
        let op = schedule.stage_op(*stage);
        std::cmp::Reverse(position.iter().position(|other| *other == op))
    });
}

fn reduce(schedule: &Schedule, stage: Stage) -> Option<Reduce> {
    schedule.body().view(schedule.stage_op(stage))
}

fn points(schedule: &Schedule, stage: Stage) -> i64 {
    points_of(schedule, schedule.axes(stage))
}

fn points_of(schedule: &Schedule, axes: &[Axis]) -> i64 {
    let extents = axes.iter().map(|axis| schedule.extent(*axis));
    extents.fold(1i64, i64::saturating_mul)
}

/// Inlines the stages that cost less to compute again than to store.
fn inline(schedule: &mut Schedule) {
    let stages: Vec<Stage> = schedule.stages().collect();
    let body = schedule.body();
    let size =
        |stage: Stage| body.block_ops(body.region_block(schedule.stage_op(stage), 0)).count();
    let mut sizes: Vec<usize> = stages.iter().map(|stage| size(*stage)).collect();
    let mut inlined: Vec<Stage> = Vec::new();
    for (position, &stage) in stages.iter().enumerate() {
        let is_map = body.view::<Compute>(schedule.stage_op(stage)).is_some();
        for access in schedule.accesses(stage) {
            if let Some(producer) = schedule.stage_of(access.tensor)
                && inlined.contains(&producer)
            {
                let at = stages.iter().position(|other| *other == producer);
                sizes[position] += at.map_or(0, |at| sizes[at]);
            }
        }
        if !is_map || schedule.is_output(stage) || sizes[position] > INLINE_OPS {
            continue;
        }
        let readers = schedule.readers(stage);
        let own = points(schedule, stage).max(1);
        let again = readers.iter().any(|reader| points(schedule, *reader) > own);
        let dear = is_dear(schedule, stage);
        if again && (dear || readers.iter().any(|reader| reduce(schedule, *reader).is_some())) {
            continue;
        }
        if dear && readers.len() > 1 {
            continue;
        }
        // What is computed anew at several places, by readers that are so as well, takes
        // exponentially long.
        let several = readers.iter().any(|reader| {
            let count = places(schedule, *reader, stage);
            count > 1 && count.saturating_mul(points(schedule, *reader)) > own
        });
        if several && !is_move(schedule, stage) {
            continue;
        }
        inlined.push(stage);
    }
    for stage in inlined {
        // Refused only where a stage is read in a way that forbids it: then it is stored.
        let _ = schedule.compute_inline(stage);
    }
}

/// At how many places `reader` reads `stage` for one element.
fn places(schedule: &Schedule, reader: Stage, stage: Stage) -> i64 {
    let accesses = schedule.accesses(reader).into_iter().enumerate();
    let of_stage = accesses.filter(|(number, access)| {
        access.same == *number && schedule.stage_of(access.tensor) == Some(stage)
    });
    of_stage.count() as i64
}

/// Whether `stage` only moves what it reads.
fn is_move(schedule: &Schedule, stage: Stage) -> bool {
    let body = schedule.body();
    let block = body.region_block(schedule.stage_op(stage), 0);
    let end = body.last_op(block).and_then(|op| body.view::<Yield>(op));
    end.is_some_and(|end| {
        end.values.iter().all(|value| {
            let op = body.defining_op(*value);
            op.is_none_or(|op| body.view::<Load>(op).is_some() || body.view::<LoadIf>(op).is_some())
        })
    })
}

/// Whether an element of `stage` takes much longer than reading it.
fn is_dear(schedule: &Schedule, stage: Stage) -> bool {
    let body = schedule.body();
    let block = body.region_block(schedule.stage_op(stage), 0);
    body.block_ops(block).any(|op| {
        te::scalar::ScalarOp::of(body.op_name(op)).is_some_and(|op| {
            op.typing() == te::scalar::Typing::Float || op == te::scalar::ScalarOp::Pow
        })
    })
}

/// Whether a number that is loaded serves several lanes.
fn is_shared(accesses: &[Access]) -> bool {
    accesses.iter().any(|access| access.lane == Some(0))
}

/// Sorts the rows of a tile, positions of root axes with the loops over them, such that as few
/// numbers as possible are in registers besides the results: what does not depend on the outer rows
/// is kept from one of them to the next.
fn sort_rows(rows: &mut [(usize, Axis)], tile: &Tile, accesses: &[Access]) {
    let Some(vectors) = accesses.iter().find(|access| access.lane == Some(1)) else { return };
    let count = |of_vectors: bool| {
        let rows = rows.iter().filter(|(row, _)| vectors.depends_on(*row) == of_vectors);
        rows.map(|(row, _)| tile.factors[*row]).product::<i64>()
    };
    let vectors_inside = count(true) <= count(false);
    rows.sort_by_key(|(row, _)| vectors.depends_on(*row) == vectors_inside);
}

struct Rules<'a> {
    schedule: &'a mut Schedule,
    machine: &'a Capabilities,
}

/// Which loops of a tile: the factor by root axis, 1 where it is not tiled.
struct Tile {
    factors: Vec<i64>,
}

/// The partial results of a reduction, each stage reduced further by the next.
struct Partials {
    /// Lanes of the vectors in which they lie.
    lanes: i64,
    stages: Vec<Stage>,
}

impl Rules<'_> {
    /// Schedules the loops of `root` and what is computed in them.
    fn root(&mut self, root: Stage) {
        let producers: Vec<Stage> = self.producers(root);
        let same_shape = |stage: &Stage| {
            reduce(self.schedule, *stage).is_some() && self.reads_in_place(root, *stage)
        };
        let tiled: Vec<Stage> = producers.iter().copied().filter(same_shape).collect();
        let done = match (tiled.as_slice(), producers.len()) {
            ([one], 1) => self.tile(root, *one),
            (_, 0) => false,
            _ => self.rows(root),
        };
        if !done {
            self.plain(root);
        }
    }

    /// The stages with loops of their own that `stage` reads, itself or through inlined stages.
    fn producers(&self, stage: Stage) -> Vec<Stage> {
        let mut found = Vec::new();
        let mut pending = vec![stage];
        let mut seen = vec![stage];
        while let Some(reader) = pending.pop() {
            for access in self.schedule.accesses(reader) {
                let Some(producer) = self.schedule.stage_of(access.tensor) else { continue };
                if seen.contains(&producer) {
                    continue;
                }
                seen.push(producer);
                if self.schedule.is_inline(producer) {
                    pending.push(producer);
                } else if !self.schedule.is_output(producer) {
                    found.push(producer);
                }
            }
        }
        found.sort();
        found
    }

    /// Whether `root` reads each element of `producer` just where it computes its own, itself or
    /// through inlined stages.
    fn reads_in_place(&self, root: Stage, producer: Stage) -> bool {
        let spatial = self.spatial(producer);
        if spatial != self.spatial(root) {
            return false;
        }
        let mut pending = vec![root];
        let mut seen = vec![root];
        while let Some(reader) = pending.pop() {
            for access in self.schedule.accesses(reader) {
                let Some(read) = self.schedule.stage_of(access.tensor) else { continue };
                let inlined = self.schedule.is_inline(read);
                if read != producer && !inlined {
                    continue;
                }
                let in_place = access.by_dimension.len() == spatial.len()
                    && access.by_dimension.iter().enumerate().all(|(dimension, steps)| {
                        steps.iter().enumerate().all(|(axis, step)| {
                            *step == Some(i64::from(axis == dimension))
                                || spatial.get(axis) == Some(&1)
                        })
                    });
                if !in_place && (read == producer || self.leads_to(read, producer)) {
                    return false;
                }
                if inlined && !seen.contains(&read) {
                    seen.push(read);
                    pending.push(read);
                }
            }
        }
        true
    }

    /// How many leading dimensions `root` and `all` read of one another just where they compute
    /// their own, themselves or through inlined stages: rows along these are independent.
    fn dimensions_in_place(&self, root: Stage, all: &[Stage]) -> usize {
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

    fn leads_to(&self, stage: Stage, producer: Stage) -> bool {
        self.producers(stage).contains(&producer)
    }

    fn spatial(&self, stage: Stage) -> Vec<i64> {
        let axes = self.schedule.axes(stage).iter();
        let spatial = axes.filter(|axis| !self.schedule.is_reduction(**axis));
        spatial.map(|axis| self.schedule.extent(*axis)).collect()
    }

    /// Lanes for a loop of `extent` iterations over elements of `bits` bits: a power of two that
    /// divides it, or all lanes where the rest is worth a loop of its own; `None` for short loops.
    fn lanes(&self, extent: i64, bits: u32) -> Option<i64> {
        let most = self.machine.lanes(bits as usize) as i64;
        let dividing = most.min(1 << extent.trailing_zeros().min(16));
        match () {
            _ if most < 2 => None,
            _ if dividing * 2 >= most && dividing >= 2 => Some(dividing),
            _ if extent >= 4 * most => Some(most),
            _ if dividing >= 4 => Some(dividing),
            _ if extent > most => Some(most),
            _ => None,
        }
    }

    fn bits(&self, stage: Stage) -> u32 {
        let body = self.schedule.body();
        let result = body.result(self.schedule.stage_op(stage), 0);
        body.ty(result).as_tensor().map_or(32, |tensor| tensor.dtype.bits().max(8))
    }

    /// Computes `producer`, a reduction of the shape of `root`, in register tiles of `root`.
    fn tile(&mut self, root: Stage, producer: Stage) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let spatial = self.spatial(root);
        let Some(last) = spatial.iter().rposition(|extent| *extent > 1) else {
            return self.reduce_in_vectors(root, producer);
        };
        let Some(lanes) = self.lanes(spatial[last], self.bits(producer)) else {
            return self.reduce_in_vectors(root, producer);
        };
        let accesses = self.schedule.accesses_in_vectors(producer, last, lanes);
        let contiguous = accesses.iter().all(|access| matches!(access.lane, Some(0 | 1)));
        if !contiguous || accesses.iter().all(|access| access.lane == Some(0)) {
            return self.reduce_in_vectors(root, producer);
        }
        // In points that take as long as those of other loops.
        let work = points(self.schedule, producer) / (PARALLEL_STEPS / PARALLEL_POINTS);
        let tile = self.choose_tile(&spatial, last, lanes, &accesses, work);

        // Outer loops, then the tile: its rows, then its vectors.
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for (position, (&axis, &factor)) in axes.iter().zip(&tile.factors).enumerate() {
            let mut axis = axis;
            if position == last {
                let Ok((rest, vector)) = self.schedule.split(axis, lanes) else { return false };
                let _ = self.schedule.vectorize(vector);
                inner.push((position, vector, false));
                axis = rest;
            }
            if factor > 1 {
                let Ok((rest, row)) = self.schedule.split(axis, factor) else { return false };
                inner.insert(inner.len() - usize::from(position == last), (position, row, true));
                outer.push((position, rest));
            } else {
                outer.push((position, axis));
            }
        }
        // What changes the weights goes outermost, so that they stay in cache while the rest runs.
        let weights = accesses.iter().find(|access| access.lane == Some(1));
        let shared = accesses.iter().any(|access| access.lane == Some(0));
        if let Some(weights) = weights.filter(|_| shared) {
            outer.sort_by_key(|(position, _)| !weights.depends_on(*position));
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
        let at = self.parallelize(&outer, work);
        if self.schedule.compute_at(producer, at).is_err() {
            return false;
        }
        let _ = self.schedule.set_scope(producer, Scope::Register);
        self.tile_within(producer, last, &tile, &accesses);
        true
    }

    /// Orders the loops of a reduction that is computed in register tiles: those of the reduction,
    /// as what is read in vectors lies in memory, then the rows of the tile, then its vectors.
    fn tile_within(&mut self, producer: Stage, last: usize, tile: &Tile, accesses: &[Access]) {
        let axes = self.schedule.axes(producer).to_vec();
        let (spatial, mut reduction): (Vec<Axis>, Vec<Axis>) =
            axes.iter().copied().partition(|axis| !self.schedule.is_reduction(*axis));
        if let Some(vectors) = accesses.iter().find(|access| access.lane == Some(1)) {
            // Sequential reads are what caches and their prefetchers are made for.
            let step = |axis: &Axis| {
                let position = axes.iter().position(|other| other == axis)?;
                vectors.steps.get(position).copied().flatten()
            };
            reduction.sort_by_key(|axis| std::cmp::Reverse(step(axis).unwrap_or(i64::MAX)));
        }
        let lanes = tile.factors.get(spatial.len()).copied().unwrap_or(1);
        let mut rows: Vec<(usize, Axis)> = spatial.into_iter().enumerate().collect();
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
            reduction.into_iter().chain(rows.iter().copied()).chain(vector).collect();
        let _ = self.schedule.reorder(&order);
        for axis in rows {
            let _ = self.schedule.unroll(axis);
        }
        let window = innermost.filter(|axis| self.schedule.extent(*axis) <= MOST_WINDOW);
        if let Some(window) = window.filter(|_| !is_shared(accesses)) {
            let _ = self.schedule.unroll(window);
        }
    }

    /// The tile that loads the fewest numbers for each combination, of those that fit in registers.
    /// The factor after those of the axes is the number of lanes.
    fn choose_tile(
        &self,
        spatial: &[i64],
        last: usize,
        lanes: i64,
        accesses: &[Access],
        work: i64,
    ) -> Tile {
        let registers = self.machine.vector_registers.max(8) as i64;
        // Where each number is loaded for one element only, as in pools, the registers hold what
        // neighbours read of the same row.
        let most = if is_shared(accesses) { (registers - 4).max(4) } else { registers / 4 };
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
        let mut best: Option<(f64, Vec<i64>)> = None;
        let mut factors = vec![1i64; candidates.len()];
        loop {
            let tile: i64 = factors.iter().product();
            if tile <= most {
                let cost = self.tile_cost(&candidates, &factors, accesses, tile)
                    * self.imbalance(spatial, &candidates, &factors, last, work);
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
        let mut tile = Tile { factors: vec![1; spatial.len()] };
        if let Some((_, factors)) = best {
            for ((axis, _), factor) in candidates.iter().zip(factors) {
                tile.factors[*axis] = factor;
            }
        }
        tile.factors.push(lanes);
        tile
    }

    /// Cycles for each combination in a tile, roughly: loads, the latency of additions where there
    /// are too few to overlap, and what is lost at the border of the tensor.
    fn tile_cost(
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

    /// How many times as long tiles take as they would if each thread had as many as the others.
    fn imbalance(
        &self,
        spatial: &[i64],
        candidates: &[(usize, i64)],
        factors: &[i64],
        last: usize,
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
                None if axis == last => 1.0,
                None => *extent as f64,
            };
        }
        let threads = self.machine.threads as f64;
        (tiles / threads).ceil() * threads / tiles
    }

    /// Whether loops of `work` points are worth sharing between threads.
    fn is_shared_work(&self, work: i64) -> bool {
        self.machine.threads > 1 && work >= PARALLEL_POINTS
    }

    /// Makes one loop of `outer`, as far as threads need, and runs it on several; returns the
    /// innermost loop that is left of them.
    fn parallelize(&mut self, outer: &[Axis], work: i64) -> Axis {
        let mut at = outer[outer.len() - 1];
        if !self.is_shared_work(work) {
            return at;
        }
        let enough = 16 * self.machine.threads as i64;
        let mut fused = outer[0];
        for &next in &outer[1..] {
            if self.schedule.extent(fused) >= enough {
                break;
            }
            let Ok(both) = self.schedule.fuse(fused, next) else { break };
            if next == at {
                at = both;
            }
            fused = both;
        }
        if outer.len() == 1 {
            at = fused;
        }
        let _ = self.schedule.parallel(fused);
        at
    }

    /// Reduces in vectors along the last axis of the reduction: for products of rows with rows.
    fn reduce_in_vectors(&mut self, root: Stage, producer: Stage) -> bool {
        let mut outer = self.schedule.axes(root).to_vec();
        if outer.is_empty() {
            return false;
        }
        let work = points(self.schedule, producer);
        let before = self.schedule.clone();
        let partials = self.factor_row(producer);
        self.block_rows(&mut outer, work, 0);
        let at = self.parallelize(&outer, work);
        if !self.reduce_row(producer, &partials, at) {
            *self.schedule = before;
            return false;
        }
        let _ = self.schedule.set_scope(producer, Scope::Register);
        true
    }

    /// Computes everything that `root` reads row by row: at the innermost of its loops that all of
    /// it depends on.
    fn rows(&mut self, root: Stage) -> bool {
        let mut all = Vec::new();
        let mut pending = vec![root];
        while let Some(stage) = pending.pop() {
            for producer in self.producers(stage) {
                if !all.contains(&producer) {
                    all.push(producer);
                    pending.push(producer);
                }
            }
        }
        sort_readers_first(self.schedule, &mut all);
        let axes = self.schedule.axes(root).to_vec();
        // The leading dimensions that every producer has in common with the root stage.
        let spatial = self.spatial(root);
        let in_place = self.dimensions_in_place(root, &all);
        let common = all
            .iter()
            .map(|stage| {
                let own = self.spatial(*stage);
                let reduced = reduce(self.schedule, *stage).is_some();
                let same = own.iter().zip(&spatial).take_while(|(a, b)| a == b).count();
                if reduced { same } else { same.min(spatial.len().saturating_sub(1)) }
            })
            .min()
            .unwrap_or(0)
            .min(spatial.len().saturating_sub(1))
            .min(in_place);
        let work =
            all.iter().map(|stage| points(self.schedule, *stage)).fold(0i64, i64::saturating_add);
        if common == 0 {
            return false;
        }
        let whole = all.iter().filter(|stage| reduce(self.schedule, **stage).is_none());
        let written = whole.chain([&root]).map(|stage| {
            let bytes = i64::from(self.bits(*stage)) / 8;
            points(self.schedule, *stage).saturating_mul(bytes)
        });
        let written = written.fold(0i64, i64::saturating_add);
        let streams = self.is_worth_streaming(root);
        let before = self.schedule.clone();
        let factored: Vec<(Stage, Partials)> =
            all.into_iter().map(|stage| (stage, self.factor_row(stage))).collect();
        let mut outer = axes[..common].to_vec();
        if !streams {
            self.block_rows(&mut outer, work, written);
        }
        let at = self.parallelize(&outer, work);
        for (stage, partials) in &factored {
            if !self.reduce_row(*stage, partials, at) {
                *self.schedule = before;
                return false;
            }
        }
        for (stage, _) in factored {
            if reduce(self.schedule, stage).is_none() {
                self.vectorize_last(stage);
            }
        }
        if self.vectorize_last(root) && streams {
            let _ = self.schedule.stream(root);
        }
        true
    }

    /// Whether `stage` is larger than all caches, and its vectors lie where whole ones do.
    fn is_worth_streaming(&self, stage: Stage) -> bool {
        let bits = self.bits(stage);
        let bytes = points(self.schedule, stage).saturating_mul(i64::from(bits) / 8);
        let row = self.spatial(stage).last().copied().unwrap_or(1);
        let whole = self.lanes(row, bits).is_some_and(|lanes| row % lanes == 0);
        whole && bytes > self.machine.caches[2] as i64
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
    /// is contiguous: into several vectors, whose sums do not wait for each other, then down to a
    /// few numbers. What reads it must not be computed within other loops yet.
    fn factor_row(&mut self, stage: Stage) -> Partials {
        let mut partials = Partials { lanes: 1, stages: vec![] };
        let axes = self.schedule.axes(stage).to_vec();
        let Some(last) = axes.len().checked_sub(1) else { return partials };
        if !self.schedule.is_reduction(axes[last]) {
            return partials;
        }
        let accesses = self.schedule.accesses(stage);
        let contiguous =
            accesses.iter().all(|access| matches!(access.steps.get(last), Some(Some(0 | 1))));
        let extent = self.schedule.extent(axes[last]);
        let most = self.machine.lanes(self.bits(stage) as usize) as i64;
        // A whole number of shorter vectors, where the rest would be most of the row.
        let dividing = most.min(1 << extent.trailing_zeros().min(16));
        let lanes = if extent < 2 * most { dividing } else { most };
        if !contiguous || lanes < 4 || extent < 2 * lanes {
            return partials;
        }
        partials.lanes = lanes;
        let vectors = [4, 2, 1].into_iter().find(|count| extent >= 2 * count * lanes).unwrap_or(1);
        let mut left = extent;
        for width in [vectors * lanes, lanes, 4] {
            let Some(&reduced) = self.schedule.axes(stage).last() else { break };
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
        partials
    }

    /// Computes the reduction `stage` and its partial results in the loop `at`. Whether that is
    /// allowed.
    fn reduce_row(&mut self, stage: Stage, partials: &Partials, at: Axis) -> bool {
        if self.schedule.compute_at(stage, at).is_err() {
            return false;
        }
        let loops = self.schedule.loops(stage).to_vec();
        let own = loops.iter().copied().rfind(|axis| !self.schedule.is_reduction(*axis));
        for (number, &partial) in partials.stages.iter().enumerate().rev() {
            if self.schedule.compute_at(partial, own.unwrap_or(at)).is_err() {
                return false;
            }
            self.in_registers(partial, partials.lanes, number > 0);
        }
        if let Some(reduced) = loops.last().filter(|_| !partials.stages.is_empty()) {
            let _ = self.schedule.unroll(*reduced);
        }
        true
    }

    /// Keeps the partial results `stage` of a reduction in vector registers of `lanes` lanes at
    /// most; `short` reductions are written out.
    fn in_registers(&mut self, stage: Stage, lanes: i64, short: bool) {
        let _ = self.schedule.set_scope(stage, Scope::Register);
        let axes = self.schedule.axes(stage).to_vec();
        let (mut spatial, reduction): (Vec<Axis>, Vec<Axis>) =
            axes.iter().copied().partition(|axis| !self.schedule.is_reduction(*axis));
        if let Some(last) = spatial.pop()
            && let Ok((vectors, vector)) = self.schedule.split(last, lanes)
        {
            spatial.extend([vectors, vector]);
            let _ = self.schedule.unroll(vectors);
            let _ = self.schedule.vectorize(vector);
        }
        let order: Vec<Axis> = reduction.iter().chain(&spatial).copied().collect();
        let _ = self.schedule.reorder(&order);
        if short {
            for axis in reduction {
                let _ = self.schedule.unroll(axis);
            }
        }
    }

    /// Vectorizes the innermost loop of `stage`, where everything in it is contiguous. Whether it
    /// is.
    fn vectorize_last(&mut self, stage: Stage) -> bool {
        let loops = self.schedule.loops(stage).to_vec();
        let Some(&innermost) = loops.last() else { return false };
        let Some(position) = self.schedule.axes(stage).iter().position(|axis| *axis == innermost)
        else {
            return false;
        };
        let extent = self.schedule.extent(innermost);
        let contiguous = |lanes: &i64| {
            let accesses = self.schedule.accesses_in_vectors(stage, position, *lanes);
            accesses.iter().all(|access| matches!(access.lane, Some(0 | 1)))
        };
        // Halves of a vector may be contiguous where all of it is not.
        let bits = self.bits(stage);
        let narrower = |lanes: &i64| Some(lanes / 2).filter(|l| *l * i64::from(bits) >= 128);
        let mut widths = std::iter::successors(self.lanes(extent, bits), narrower);
        let Some(lanes) = widths.find(contiguous) else { return false };
        match self.schedule.split(innermost, lanes) {
            Ok((_, vector)) => self.schedule.vectorize(vector).is_ok(),
            Err(_) => false,
        }
    }

    /// Elementwise loops: vectors in the innermost, threads on the outermost.
    fn plain(&mut self, root: Stage) {
        let axes = self.schedule.axes(root).to_vec();
        let spatial: Vec<Axis> =
            axes.into_iter().filter(|axis| !self.schedule.is_reduction(*axis)).collect();
        if spatial.is_empty() {
            return;
        }
        let work = points(self.schedule, root);
        if reduce(self.schedule, root).is_none() {
            if self.transpose(root) {
                return;
            }
            let streams = self.is_worth_streaming(root);
            if self.vectorize_last(root) && streams {
                let _ = self.schedule.stream(root);
            }
        }
        let mut outer: Vec<Axis> = self
            .schedule
            .loops(root)
            .iter()
            .copied()
            .filter(|axis| !self.schedule.is_reduction(*axis))
            .collect();
        if outer.len() > spatial.len() {
            outer.pop();
        }
        self.parallelize(&outer, work);
    }

    /// Where `root` reads a tensor along another of its dimensions: in square tiles, each of which is
    /// read in vectors and lies in the nearest cache until it is written in vectors.
    fn transpose(&mut self, root: Stage) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let Some((&last, others)) = axes.split_last() else { return false };
        let tile = self.machine.lanes(self.bits(root) as usize).max(8) as i64;
        let accesses = self.schedule.accesses(root);
        let mut strided = accesses.iter().filter_map(|access| {
            let across = access.steps.get(others.len()).copied().flatten()?;
            let along = others.iter().position(|axis| {
                let position = axes.iter().position(|other| other == axis);
                position.is_some_and(|at| access.steps.get(at) == Some(&Some(1)))
            })?;
            (across > 1).then_some((access.tensor, others[along]))
        });
        let Some((tensor, along)) = strided.next() else { return false };
        if strided.next().is_some() || [last, along].iter().any(|a| self.schedule.extent(*a) < tile)
        {
            return false;
        }
        let Some(name) = self.schedule.body().name_hint(tensor).name else { return false };
        let before = self.schedule.clone();
        let done = self.transpose_tiles(root, name.as_str(), along, last, tile);
        if done.is_err() {
            *self.schedule = before;
        }
        done.is_ok()
    }

    fn transpose_tiles(
        &mut self,
        root: Stage,
        tensor: &str,
        along: Axis,
        last: Axis,
        tile: i64,
    ) -> Result<(), Refused> {
        let work = points(self.schedule, root);
        // Of a line that is written in parts, parts would go to memory.
        let whole_lines = tile * i64::from(self.bits(root)) / 8 >= LINE;
        let streams = whole_lines && self.is_worth_streaming(root);
        let copy = self.schedule.cache_read(tensor, Scope::Local, &[root])?;
        let (rows, row) = self.schedule.split(along, tile)?;
        let (_, lane) = self.schedule.split(last, tile)?;
        let mut outer: Vec<Axis> = self.schedule.loops(root).to_vec();
        outer.retain(|axis| ![row, lane].contains(axis));
        if streams {
            // Tiles as they are read: whole lines go to memory in any order.
            outer.sort_by_key(|axis| *axis == rows);
        }
        let order: Vec<Axis> = outer.iter().copied().chain([row, lane]).collect();
        self.schedule.reorder(&order)?;
        self.schedule.vectorize(lane)?;
        if streams {
            self.schedule.stream(root)?;
        }
        let at = self.parallelize(&outer, work);
        self.schedule.compute_at(copy, at)?;
        self.vectorize_last(copy);
        Ok(())
    }
}
