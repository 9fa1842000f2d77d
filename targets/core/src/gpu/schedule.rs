//! Default schedules for graphics processors.
//!
//! Elementwise stages are inlined where that costs less than storing them, as on processors. Every
//! other stage has a nest of its own, in which each element has a thread: the loops over elements
//! become one, which is cut into blocks. Threads that follow one another have elements that follow one
//! another, so that they read and write neighbours. A reduction that a stage of the same shape reads
//! element by element is computed in the thread that has that element, or, where it reuses what it loads,
//! in [tiles](super::tiles). What reads rows that are reduced is computed with them, [row by
//! row](super::rows).
//!
//! The rules look only at extents and strides, never at what operator it was, and cover everything
//! that a compute function can say.

use ir_core::Item;
use te::loops::Scope;
use te::schedule::{Axis, Refused, Schedule, Stage};

use super::BLOCK;
use super::rows::{divide, rows};
use super::tiles::tile;
use crate::Gpu;
use crate::stages::{inline, producers, reads_in_place, reduce, sort_readers_first};

/// The default schedule of the compute function `function` on `gpu`. Errors where `function` is no
/// compute function.
pub fn schedule(function: &Item, gpu: &Gpu) -> Result<Schedule, Refused> {
    let mut schedule = Schedule::new(function)?;
    inline(&mut schedule);
    divide(&mut schedule);
    // A number has no loops to be computed in.
    let is_result = |stage: &Stage| {
        schedule.is_output(*stage)
            && reduce(&schedule, *stage).is_some_and(|reduction| !reduction.shape.is_empty())
    };
    let reductions: Vec<Stage> = schedule.stages().filter(is_result).collect();
    for stage in reductions {
        // Refused for several results: those are reduced in place.
        let _ = schedule.cache_write(stage, Scope::Register);
    }
    // Readers first: what they compute within their own loops is no root any more.
    let mut roots: Vec<Stage> = schedule.stages().collect();
    sort_readers_first(&schedule, &mut roots);
    for root in roots {
        if !schedule.is_root(root) {
            continue;
        }
        let own = producers(&schedule, root);
        if let [producer] = own.as_slice()
            && schedule.is_root(*producer)
            && reads_in_place(&schedule, root, *producer)
            && tile(&mut schedule, root, *producer, gpu)
        {
            continue;
        }
        if rows(&mut schedule, root, gpu) {
            continue;
        }
        let Some(thread) = bind(&mut schedule, root, gpu) else { continue };
        for producer in own {
            let in_place = schedule.is_root(producer)
                && reduce(&schedule, producer).is_some()
                && reads_in_place(&schedule, root, producer);
            // Refused where others read it, too: then it is stored.
            if in_place && schedule.compute_at(producer, thread).is_ok() {
                schedule.set_scope(producer, Scope::Register)?;
            }
        }
    }
    Ok(schedule)
}

/// Gives each element of `root` a thread; the innermost loop over elements, or `None` for a number.
fn bind(schedule: &mut Schedule, root: Stage, gpu: &Gpu) -> Option<Axis> {
    let loops = schedule.loops(root).iter().copied();
    let spatial: Vec<Axis> = loops.filter(|axis| !schedule.is_reduction(*axis)).collect();
    let (&first, rest) = spatial.split_first()?;
    let mut elements = first;
    for &next in rest {
        // Refused where the elements are too many to count, which no memory holds.
        elements = schedule.fuse(elements, next).ok()?;
    }
    let extent = schedule.extent(elements);
    let most = BLOCK.min(gpu.block_threads).min(gpu.threads[0]);
    let threads = (extent.clamp(1, most) as u64).next_power_of_two().min(most as u64) as i64;
    let (mut blocks, thread) = schedule.split(elements, threads).ok()?;
    let mut innermost = thread;
    if schedule.extent(blocks) > gpu.blocks[0] {
        // Each thread has several elements, a grid apart.
        let (rounds, block) = schedule.split(blocks, gpu.blocks[0]).ok()?;
        schedule.reorder(&[block, thread, rounds]).ok()?;
        (blocks, innermost) = (block, rounds);
    }
    schedule.bind(blocks, "blockIdx.x").ok()?;
    schedule.bind(thread, "threadIdx.x").ok()?;
    Some(innermost)
}
