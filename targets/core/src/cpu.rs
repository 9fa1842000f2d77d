//! Default schedules for processors with vector registers.
//!
//! A function is scheduled from its *root* stages, those with loops of their own: its results, and
//! what is worth storing. What a root stage reads is computed within it, in one of three ways:
//!
//! - elementwise stages are *inlined*;
//! - a reduction of the same shape (convolution, matrix product, pooling) is computed in *register
//!   tiles* of the root stage: a vector of the last dimension by as many other elements as
//!   registers hold, so that every loaded number is used several times;
//! - reductions over whole rows (softmax, normalization) and what they read are computed *a few
//!   rows at a time*, so that a row stays in the nearest cache.
//!
//! A reduction to a single number is divided into partial results first, which are a root stage with
//! register tiles, on several threads where they are many.
//!
//! A scan takes its steps innermost, those of several lines together: side by side in vectors, or
//! written out.
//!
//! Products of matrices between other stages are computed together with these in *bands* of the result, where what is
//! between them stays in a cache then and does not without.
//!
//! Few long sums of products, whose factors do not stay in a cache, are added up *block by block* of their terms.
//!
//! What a root stage reads of another one slice by slice, such as picture by picture, is computed so within
//! its outermost loop where slices stay in a cache and all of them do not.
//!
//! Root stages that read across rows (transposes) go through *square tiles*, which targets transpose in
//! registers. Elementwise ones whose rows are no whole vectors are one loop over all dimensions that lie in
//! memory as one, and those that read something over and over copy it in rows. Those whose rows are a line of a
//! cache and part of longer ones that they read go through a few of these at a time. Those that are larger than
//! all caches, and no products, are stored past them.
//!
//! Stages whose elements are one of a few expressions, by an index, as products with small matrices of constants
//! are, have these written out side by side.
//!
//! Of several results, the last one is the root stage of those before it that have its shape, or
//! are rows or numbers of its rows: they are computed in its loops, where its vectors, tiles or
//! rows are, so that what they read is read once, and what they share is computed once.
//!
//! The rules look only at extents and strides ([`Access`]), never at what operator it was.

mod bands;
mod blocks;
mod choices;
mod moves;
mod rows;
mod scans;
mod scatters;
mod slices;
mod tiles;
mod together;

use ir_core::DType;
use te::loops::Scope;
use te::schedule::{Access, Axis, Refused, Schedule, Stage};

use crate::Capabilities;
use crate::stages::{self, inline, points, points_of, reduce, sort_readers_first};

/// Loops of fewer points than this are not worth sharing between threads: fetching what another
/// thread wrote, and saying that it is done, takes as long.
const PARALLEL_POINTS: i64 = 1 << 14;

/// The same for reductions in register tiles, which take less time for each point.
const PARALLEL_STEPS: i64 = 1 << 16;

/// As many iterations for each thread are enough where more would be of loops that end within a tile.
const SHARES: i64 = 3;

/// Longer rows, in elements of all that is computed of them, are computed one at a time.
const MOST_BLOCKED_ROW: i64 = 1 << 13;

/// Bytes of the nearest cache of a core, on most machines.
const NEAREST_CACHE: i64 = 1 << 15;

/// Bytes that caches and memory exchange at a time, on most machines.
const LINE: i64 = 64;

/// Lanes are loaded as vectors where they lie at most so many elements apart.
const MOST_APART: i64 = 2;

/// Windows of at most so many elements are written out.
const MOST_WINDOW: i64 = 7;

/// The default schedule of the compute function `function` on `machine`. Errors where `function` is
/// no compute function.
pub fn schedule(function: &ir_core::Item, machine: &Capabilities) -> Result<Schedule, Refused> {
    let mut schedule = Schedule::new(function)?;
    inline(&mut schedule);
    Rules::new(&mut schedule, machine).divide_whole_reductions();
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
        if !schedule.is_root(root) {
            continue;
        }
        // What nothing computes in its own loops gets a root stage as results do.
        if !schedule.is_output(root) && reduce(&schedule, root).is_some() {
            let _ = schedule.cache_write(root, Scope::Register);
        }
        if schedule.is_output(root) || reduce(&schedule, root).is_none() {
            let mut rules = Rules::new(&mut schedule, machine);
            rules.root(root);
            rules.space_rows(root);
        }
    }
    Ok(schedule)
}

/// Whether a number that is loaded serves several lanes.
fn is_shared(accesses: &[Access]) -> bool {
    accesses.iter().any(|access| access.lane == Some(0))
}

/// Sorts the rows of a tile, positions of root axes with the loops over them, such that as few
/// numbers as possible are in registers besides the results: what does not depend on the outer rows
/// is kept from one of them to the next.
fn sort_rows(rows: &mut [(usize, Axis)], tile: &Tile, accesses: &[Access]) {
    let Some(vectors) = accesses.iter().find(|access| is_vector(access)) else { return };
    let count = |of_vectors: bool| {
        let rows = rows.iter().filter(|(row, _)| vectors.depends_on(*row) == of_vectors);
        rows.map(|(row, _)| tile.factors[*row]).product::<i64>()
    };
    let vectors_inside = count(true) <= count(false);
    rows.sort_by_key(|(row, _)| vectors.depends_on(*row) == vectors_inside);
}

/// Whether the lanes of `access` are a vector in memory: one after the other, or every second element.
fn is_vector(access: &Access) -> bool {
    matches!(access.lane, Some(1..=MOST_APART))
}

struct Rules<'a> {
    schedule: &'a mut Schedule,
    machine: &'a Capabilities,
    /// Of how many of the first dimensions one index is computed at a time, by one thread.
    sliced: usize,
    /// Of which dimension few indices are computed at a time, by one thread.
    band: Option<Band>,
}

/// A part of a stage: so many indices of a dimension that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Band {
    dimension: usize,
    extent: i64,
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

impl<'a> Rules<'a> {
    fn new(schedule: &'a mut Schedule, machine: &'a Capabilities) -> Rules<'a> {
        Rules { schedule, machine, sliced: 0, band: None }
    }
}

impl Rules<'_> {
    /// Schedules the loops of `root` and what is computed in them.
    fn root(&mut self, root: Stage) {
        if self.schedule.is_scan(root) {
            return self.scan(root);
        }
        if self.schedule.is_scatter(root) {
            return self.scatter(root);
        }
        if self.is_whole() && (self.blocks(root) || self.bands(root)) {
            return;
        }
        let companions = self.companions(root);
        if !companions.is_empty() && self.together(root, &companions) {
            return;
        }
        let producers: Vec<Stage> = self.producers(root);
        let same_shape = |stage: &Stage| {
            reduce(self.schedule, *stage).is_some() && self.reads_in_place(root, *stage)
        };
        let tiled: Vec<Stage> = producers.iter().copied().filter(same_shape).collect();
        let done = match (tiled.as_slice(), producers.len()) {
            ([one], 1) => self.tile(root, *one, &[]),
            (_, 0) => false,
            // What is chosen from elements that were computed before is no row of them.
            _ if self.is_chosen_from_maps(root, &producers) => false,
            _ => self.rows(root, &[]),
        };
        if !done {
            self.plain(root);
        }
        if self.is_whole() {
            self.slices(root);
        }
    }

    /// The stages with loops of their own that `stage` reads, itself or through inlined stages.
    fn producers(&self, stage: Stage) -> Vec<Stage> {
        stages::producers(self.schedule, stage)
    }

    /// The stages with loops of their own that `stages` read, and those that these read in turn.
    fn everything(&self, stages: &[Stage]) -> Vec<Stage> {
        let mut all = Vec::new();
        let mut pending = stages.to_vec();
        while let Some(stage) = pending.pop() {
            for producer in self.producers(stage) {
                if !all.contains(&producer) {
                    all.push(producer);
                    pending.push(producer);
                }
            }
        }
        all
    }

    /// The extents of the dimensions of `stage`, as far as they are computed at a time.
    fn spatial(&self, stage: Stage) -> Vec<i64> {
        let mut spatial = stages::spatial(self.schedule, stage);
        spatial.iter_mut().take(self.sliced).for_each(|extent| *extent = 1);
        if let Some(Band { dimension, extent }) = self.band
            && let Some(all) = spatial.get_mut(dimension)
        {
            *all = extent.min(*all);
        }
        spatial
    }

    /// Which dimensions of `stage` end at counts.
    fn counted(&self, stage: Stage) -> Vec<bool> {
        let mut counted = vec![false; self.schedule.axes(stage).len()];
        let op = self.schedule.stage_op(stage);
        if let Some(view) = te::compute::Stage::of(self.schedule.body(), op) {
            counted
                .iter_mut()
                .zip(&view.counts)
                .for_each(|(counted, count)| *counted = *count >= 0);
        }
        counted
    }

    /// Lanes for a loop of `extent` iterations over elements of `bits` bits: a power of two that
    /// divides it, or all lanes where the rest is worth a loop of its own; `None` for short loops.
    fn lanes(&self, extent: i64, bits: u32) -> Option<i64> {
        let most = self.machine.lanes(bits as usize) as i64;
        let dividing = most.min(1 << extent.trailing_zeros().min(16));
        // With shorter ones for the rest.
        let vectors = |lanes: i64| extent / lanes + i64::from((extent % lanes).count_ones());
        match () {
            _ if most < 2 => None,
            _ if dividing >= 2 && dividing * 2 >= most && vectors(most) < vectors(dividing) => {
                Some(most)
            }
            _ if dividing * 2 >= most && dividing >= 2 => Some(dividing),
            _ if extent >= 4 * most => Some(most),
            _ if extent > most && dividing * 4 <= most => Some(most),
            _ if dividing >= 4 => Some(dividing),
            _ if extent > most => Some(most),
            // A vector that is not a whole one, and what is left of the row.
            _ if extent > 4 => Some(1 << extent.ilog2()),
            _ => None,
        }
    }

    fn bits(&self, stage: Stage) -> u32 {
        self.dtype(stage).bits().max(8)
    }

    /// The element type of what a stage computes.
    fn dtype(&self, stage: Stage) -> DType {
        let body = self.schedule.body();
        let result = body.result(self.schedule.stage_op(stage), 0);
        body.ty(result).as_tensor().expect("stages give tensors").dtype
    }

    /// Whether loops of `work` points are worth sharing between threads.
    fn is_shared_work(&self, work: i64) -> bool {
        self.machine.threads > 1 && work >= PARALLEL_POINTS && self.is_whole()
    }

    /// Whether all of a stage is computed at a time.
    fn is_whole(&self) -> bool {
        self.sliced == 0 && self.band.is_none()
    }

    /// Whether the loops `outer` have as many iterations as are enough where more would cost more.
    fn is_enough_for_threads(&self, outer: &[Axis]) -> bool {
        let extents = outer.iter().map(|axis| self.schedule.extent(*axis));
        extents.fold(1, i64::saturating_mul) >= SHARES * self.machine.threads as i64
    }

    /// Makes one loop of `outer`, as far as threads need, and runs it on several; returns the
    /// innermost loop that is left of them.
    fn parallelize(&mut self, outer: &[Axis], work: i64) -> Axis {
        let mut at = outer[outer.len() - 1];
        if !self.is_shared_work(work) {
            return at;
        }
        let enough = 16 * self.machine.threads as i64;
        // Loops of one iteration stay around.
        let first = outer.iter().position(|axis| self.schedule.extent(*axis) > 1).unwrap_or(0);
        let outer = &outer[first..];
        let mut fused = outer[0];
        let mut is_whole = self.schedule.is_whole(fused);
        for &next in &outer[1..] {
            is_whole &= self.schedule.is_whole(next);
            // The ends of several loops would have to be found in each iteration.
            let threads = self.machine.threads as i64;
            let enough = if is_whole { enough } else { SHARES * threads };
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

    /// Whether `stage` is larger than all caches, and its vectors lie where whole ones do.
    fn is_worth_streaming(&self, stage: Stage) -> bool {
        // What has no dimensions is one number.
        let row = self.spatial(stage).last().copied().unwrap_or(1);
        let whole = self.lanes(row, self.bits(stage)).is_some_and(|lanes| row % lanes == 0);
        whole && self.is_larger_than_caches(stage)
    }

    fn is_larger_than_caches(&self, stage: Stage) -> bool {
        let bytes = i64::from(self.bits(stage)) / 8;
        points(self.schedule, stage).saturating_mul(bytes) > self.machine.caches[2] as i64
    }

    /// Lanes for a loop of `extent` iterations over root axis `position` of `stages`, whose
    /// elements have `bits` bits at most, where everything that they access is loaded as vectors.
    fn contiguous_lanes(
        &self,
        stages: &[Stage],
        position: usize,
        extent: i64,
        bits: u32,
    ) -> Option<i64> {
        let contiguous = |lanes: &i64| {
            stages.iter().all(|stage| {
                let accesses = self.schedule.accesses_in_vectors(*stage, position, *lanes);
                accesses.iter().all(|access| match (access.lane, access.repeats) {
                    (Some(apart), _) => (0..=MOST_APART).contains(&apart),
                    (None, times) => {
                        times.is_some_and(|times| lanes % times == 0 && *lanes > times)
                            || self.is_gathered(access, *lanes)
                    }
                })
            })
        };
        // Halves of a vector may be contiguous where all of it is not.
        let narrower = |lanes: &i64| Some(lanes / 2).filter(|l| *l * i64::from(bits) >= 128);
        std::iter::successors(self.lanes(extent, bits), narrower).find(contiguous)
    }

    /// Whether `access`, at places that are read from somewhere, is one instruction for `lanes` lanes.
    fn is_gathered(&self, access: &Access, lanes: i64) -> bool {
        let tensor = self.schedule.body().ty(access.tensor);
        let dtype = tensor.as_tensor().map(|tensor| tensor.dtype);
        let is_computed = |steps: &Vec<Option<i64>>| steps.iter().all(Option::is_none);
        self.machine.gathers()
            && !access.conditional
            && [DType::FLOAT32, DType::FLOAT64].into_iter().any(|float| {
                dtype == Some(float) && self.machine.lanes(float.bits() as usize) as i64 == lanes
            })
            && access.by_dimension.iter().any(is_computed)
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
        let lanes = self.contiguous_lanes(&[stage], position, extent, self.bits(stage));
        let Some(lanes) = lanes else { return false };
        match self.schedule.split(innermost, lanes) {
            Ok((_, vector)) => self.schedule.vectorize(vector).is_ok(),
            Err(_) => false,
        }
    }
}
