//! Reductions that reuse what they load, such as products and convolutions, in tiles.
//!
//! A block computes a tile of the result in two dimensions, each of its threads some elements in
//! registers. Step by step along the reduction, the threads copy what the tile needs to shared memory
//! together, and then each multiplies its part of it. The elements of a thread lie as far apart as there
//! are threads on an axis, so that threads that follow one another use neighbours.

use te::loops::Scope;
use te::schedule::{Axis, Refused, Schedule, Stage};

use super::fits;
use crate::Gpu;
use crate::stages::{reduce, spatial};

/// Threads of a block on each of two axes, where it may have as many.
const SIDE: i64 = 16;

/// Elements of a thread along each dimension, the most that registers hold first.
const EACH: [i64; 3] = [4, 2, 1];

/// Blocks that a device has something to do with.
const ENOUGH_BLOCKS: i64 = 32;

/// Iterations of the reduction for which operands are in shared memory at a time.
const STEP: i64 = 8;

/// Shorter reductions reuse too little.
const LEAST_REDUCTION: i64 = 16;

/// Computes `producer`, a reduction that `root` reads element by element, in tiles of `root`. Whether
/// that is worth it and fits; nothing is changed where it does not.
pub(super) fn tile(schedule: &mut Schedule, root: Stage, producer: Stage, gpu: &Gpu) -> bool {
    for tile in Tile::choices(schedule, root, producer, gpu) {
        let before = schedule.clone();
        if tile.apply(schedule, root, producer).is_ok() && fits(schedule, gpu) {
            return true;
        }
        *schedule = before;
    }
    false
}

/// Which dimensions are tiled, and how.
struct Tile {
    y: usize,
    x: usize,
    side: i64,
    each: i64,
}

impl Tile {
    /// The tiles that are worth it, the largest first.
    fn choices(schedule: &Schedule, root: Stage, producer: Stage, gpu: &Gpu) -> Vec<Tile> {
        let extents = spatial(schedule, root);
        let Some(reduction) = reduce(schedule, producer) else { return vec![] };
        let fewest = gpu.threads[0].min(gpu.threads[1]);
        let side = SIDE.min(fewest).min(gpu.block_threads.isqrt());
        let Some(x) = extents.len().checked_sub(1) else { return vec![] };
        let steps =
            reduction.extents.iter().fold(1, |all: i64, extent| all.saturating_mul(*extent));
        if steps < LEAST_REDUCTION || extents[x] < side {
            return vec![];
        }
        let accesses = schedule.accesses(producer);
        let reuses = |y: &usize| {
            let reused = |own: usize, other: usize| {
                accesses.iter().any(|access| access.depends_on(own) && !access.depends_on(other))
            };
            extents[*y] >= side && reused(*y, x) && reused(x, *y)
        };
        let Some(y) = (0..x).filter(reuses).max_by_key(|y| extents[*y]) else { return vec![] };
        let others: i64 = (0..x).filter(|other| *other != y).map(|other| extents[other]).product();
        let blocks = |each: i64| {
            let along = |dimension: usize| {
                let tile = side * each;
                extents[dimension].div_euclid(tile) + i64::from(extents[dimension] % tile != 0)
            };
            [along(x), along(y), others]
        };
        let fits = |each: &i64| {
            let blocks = blocks(*each);
            let all = blocks.iter().fold(1, |all: i64, count| all.saturating_mul(*count));
            let is_full = extents[y].min(extents[x]) >= side * each;
            let is_on_grid = blocks.iter().zip(gpu.blocks).all(|(count, most)| *count <= most);
            is_full && is_on_grid && all >= if *each == 1 { 2 } else { ENOUGH_BLOCKS }
        };
        EACH.into_iter().filter(fits).map(|each| Tile { y, x, side, each }).collect()
    }

    fn apply(&self, schedule: &mut Schedule, root: Stage, producer: Stage) -> Result<(), Refused> {
        let &Tile { y, x, side, each } = self;
        let axes = schedule.axes(root).to_vec();
        let others = |axes: &[Axis]| -> Vec<Axis> {
            let rest = axes.iter().enumerate().filter(|(at, _)| ![x, y].contains(at));
            rest.map(|(_, axis)| *axis).collect()
        };
        let mut outer = others(&axes);
        let (y_block, rest) = schedule.split(axes[y], side * each)?;
        let (y_each, y_thread) = schedule.split(rest, side)?;
        let (x_block, rest) = schedule.split(axes[x], side * each)?;
        let (x_each, x_thread) = schedule.split(rest, side)?;
        let inner = [y_block, x_block, y_thread, x_thread, y_each, x_each];
        schedule.reorder(&outer.iter().copied().chain(inner).collect::<Vec<_>>())?;
        if let Some((first, rest)) = outer.split_first_mut() {
            let fused = rest.iter().try_fold(*first, |all, next| schedule.fuse(all, *next))?;
            schedule.bind(fused, "blockIdx.z")?;
        }
        schedule.bind(y_block, "blockIdx.y")?;
        schedule.bind(x_block, "blockIdx.x")?;
        schedule.bind(y_thread, "threadIdx.y")?;
        schedule.bind(x_thread, "threadIdx.x")?;

        schedule.compute_at(producer, x_block)?;
        schedule.set_scope(producer, Scope::Register)?;
        let axes = schedule.axes(producer).to_vec();
        let is_reduced = |schedule: &Schedule, axis: &Axis| schedule.is_reduction(*axis);
        let longest = axes.iter().copied().filter(|axis| is_reduced(schedule, axis));
        let longest = longest.max_by_key(|axis| schedule.extent(*axis)).ok_or("no reduction")?;
        let (step, within) = schedule.split(longest, STEP)?;
        let (y_each, y_thread) = schedule.split(axes[y], side)?;
        let (x_each, x_thread) = schedule.split(axes[x], side)?;
        let rest = others(&axes).into_iter().filter(|axis| *axis != longest);
        let (reduced, outer): (Vec<Axis>, Vec<Axis>) =
            rest.partition(|axis| is_reduced(schedule, axis));
        let order = outer
            .into_iter()
            .chain([step, y_thread, x_thread])
            .chain(reduced)
            .chain([within, y_each, x_each]);
        schedule.reorder(&order.collect::<Vec<_>>())?;
        schedule.bind(y_thread, "threadIdx.y")?;
        schedule.bind(x_thread, "threadIdx.x")?;
        schedule.unroll(y_each)?;
        schedule.unroll(x_each)?;
        self.share_operands(schedule, producer, step)
    }

    /// Copies what `producer` reads to shared memory in the loop `step`.
    fn share_operands(
        &self,
        schedule: &mut Schedule,
        producer: Stage,
        step: Axis,
    ) -> Result<(), Refused> {
        let mut tensors = Vec::new();
        for access in schedule.accesses(producer) {
            if !tensors.contains(&access.tensor) {
                tensors.push(access.tensor);
            }
        }
        for tensor in tensors {
            let inlined = schedule.stage_of(tensor).filter(|stage| schedule.is_inline(*stage));
            let copy = match inlined {
                // What is computed where it is read, such as padding, is computed once instead.
                Some(stage) if schedule.readers(stage) == [producer] => {
                    schedule.compute_root(stage)?;
                    stage
                }
                Some(_) => continue,
                None => {
                    let name = schedule.body().name_hint(tensor).name.ok_or("no name")?;
                    schedule.cache_read(name.as_str(), Scope::Shared, &[producer])?
                }
            };
            schedule.compute_at(copy, step)?;
            schedule.set_scope(copy, Scope::Shared)?;
            let loops = schedule.loops(copy).to_vec();
            let (first, rest) = loops.split_first().ok_or("a number needs no copy")?;
            let all = rest.iter().try_fold(*first, |all, next| schedule.fuse(all, *next))?;
            let (rest, x_thread) = schedule.split(all, self.side)?;
            let (_, y_thread) = schedule.split(rest, self.side)?;
            schedule.bind(y_thread, "threadIdx.y")?;
            schedule.bind(x_thread, "threadIdx.x")?;
        }
        Ok(())
    }
}
