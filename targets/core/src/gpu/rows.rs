//! Reductions along rows, and what is computed of these, by the threads of a block together.
//!
//! A block has one row, or a few short ones. Its threads read a row together, each some of its elements,
//! and combine what they found; what is computed of the row waits in shared memory, so that a softmax is
//! one launch. Where it is the rows that lie side by side in memory, as where columns
//! are summed up, threads that follow one another have neighbouring rows instead.

use te::loops::Scope;
use te::schedule::{Axis, Refused, Schedule, Stage};

use super::{BLOCK, fits};
use crate::Gpu;
use crate::stages::{points_of, producers, reduce, sort_readers_first, spatial};

/// Elements that a thread combines on its own, where there are rows for all of the device.
const EACH: i64 = 8;

/// Rows that a device has something to do with, a block for each.
const ENOUGH_BLOCKS: i64 = 32;

/// Shorter reductions to elements are done by a thread each.
const LEAST_REDUCTION: i64 = 32;

/// Where there are fewer elements, a thread for each leaves most of a device idle.
const ENOUGH_ELEMENTS: i64 = 1 << 13;

/// Longer reductions to few numbers are divided between blocks.
const MOST_OF_BLOCK: i64 = 1 << 14;

/// Blocks that a reduction is divided between.
const MOST_PARTS: i64 = 256;

/// Loops of at most so many iterations are written out.
const MOST_UNROLLED: i64 = 8;

/// Divides long reductions to few numbers into parts, each a row of its own.
pub(super) fn divide(schedule: &mut Schedule) {
    for stage in schedule.stages() {
        let before = schedule.clone();
        if divide_one(schedule, stage).is_none() {
            *schedule = before;
        }
    }
}

fn divide_one(schedule: &mut Schedule, stage: Stage) -> Option<()> {
    let reduction = reduce(schedule, stage)?;
    let (rows, _) = axes_of(schedule, stage);
    let steps = reduction.extents.iter().try_fold(1i64, |all, extent| all.checked_mul(*extent))?;
    let is_divided = points_of(schedule, &rows) < ENOUGH_BLOCKS && steps > MOST_OF_BLOCK;
    if !is_divided || !reduction.counts.is_empty() {
        return None;
    }
    let parts = (steps / (BLOCK * EACH)).min(MOST_PARTS);
    let all = fused(schedule, &axes_of(schedule, stage).1)?;
    let (part, _) = schedule.split_into(all, parts).ok()?;
    // Refused for what has several results.
    schedule.rfactor(part).ok()?;
    Some(())
}

/// Computes `root` row by row with all that it reads of rows, each by threads together. Whether there are
/// rows, and that is worth it and fits; nothing is changed where not.
pub(super) fn rows(schedule: &mut Schedule, root: Stage, gpu: &Gpu) -> bool {
    let Some(rows) = Rows::of(schedule, root, gpu) else { return false };
    // What is no reduction is kept, or, where it does not fit, computed wherever it is read.
    for keeps in [true, false] {
        let before = schedule.clone();
        if rows.apply(schedule, keeps, gpu).is_ok() && fits(schedule, gpu) {
            return true;
        }
        *schedule = before;
    }
    false
}

/// The loops of `stage` over its elements, and over what it reduces.
fn axes_of(schedule: &Schedule, stage: Stage) -> (Vec<Axis>, Vec<Axis>) {
    let axes = schedule.axes(stage).iter().copied();
    axes.partition(|axis| !schedule.is_reduction(*axis))
}

/// One loop of `axes`, which follow one another.
fn fused(schedule: &mut Schedule, axes: &[Axis]) -> Option<Axis> {
    let (first, rest) = axes.split_first()?;
    rest.iter().try_fold(*first, |all, next| schedule.fuse(all, *next).ok())
}

/// Rows, and what is computed of each.
struct Rows {
    root: Stage,
    /// What is computed with it, of which it reads rows, readers first.
    others: Vec<Stage>,
    /// How many dimensions come before those of a row.
    common: usize,
    /// Threads along a row, and rows of a block.
    threads: i64,
    each_block: i64,
    /// Whether threads that follow one another have rows that do.
    columns: bool,
}

/// The loops along a row.
struct Along {
    /// Over what each thread has.
    each: Vec<Axis>,
    /// Over threads.
    thread: Option<Axis>,
}

impl Rows {
    /// The rows that `root` reads or is; `None` where threads for each element are no worse.
    fn of(schedule: &Schedule, root: Stage, gpu: &Gpu) -> Option<Rows> {
        if schedule.is_ordered(root) {
            return None;
        }
        let extents = spatial(schedule, root);
        let (others, common) = members(schedule, root)?;
        let reductions = || {
            let all = others.iter().copied().chain([root]);
            all.filter_map(|stage| Some((stage, reduce(schedule, stage)?)))
        };
        let product = |extents: &[i64]| extents.iter().fold(1i64, |a, b| a.saturating_mul(*b));
        let (longest, reduction) = reductions().max_by_key(|(_, of)| product(&of.extents))?;
        let (rows, length) = (product(&extents[..common]), product(&reduction.extents));
        let length = length.max(product(&extents[common..]));
        let columns = common == extents.len() && are_columns(schedule, longest);
        let is_worth = common < extents.len()
            || length >= LEAST_REDUCTION
                && (rows < ENOUGH_ELEMENTS || are_rows_apart(schedule, longest));
        let is_too_long = common < extents.len() && rows < ENOUGH_BLOCKS && length > MOST_OF_BLOCK;
        if rows == 0 || length == 0 || !is_worth || is_too_long {
            return None;
        }
        let most = BLOCK.min(gpu.block_threads).min(gpu.threads[0]).min(gpu.threads[1]);
        let most = 1 << most.ilog2();
        let each = if rows < ENOUGH_BLOCKS { 2 } else { EACH };
        let rounded = |count: i64| (count as u64).next_power_of_two() as i64;
        let threads = rounded((length.min(most * each) + each - 1) / each).min(most);
        if common == 0 && threads == 1 {
            return None;
        }
        let last = common.checked_sub(1).map_or(1, |last| extents[last]);
        let (threads, mut each_block) = match columns {
            true => {
                let side = rounded(last.min(gpu.warp)).min(gpu.warp);
                (threads.min((most / side).max(1)), side)
            }
            false => (threads, (most / threads).min(rounded(last))),
        };
        while !columns && each_block > 1 && rows / each_block < ENOUGH_BLOCKS {
            each_block /= 2;
        }
        Some(Rows { root, others, common, threads, each_block, columns })
    }

    /// The axis of threads along a row, and that of rows.
    fn axes(&self) -> [&'static str; 2] {
        let [x, y] = ["threadIdx.x", "threadIdx.y"];
        if self.columns { [y, x] } else { [x, y] }
    }

    /// Schedules all of it; `keeps` what is no reduction in shared memory.
    fn apply(&self, schedule: &mut Schedule, keeps: bool, gpu: &Gpu) -> Result<(), Refused> {
        let (mut around, own) = axes_of(schedule, self.root);
        let mut within = around.split_off(self.common);
        let mut row = None;
        if around.is_empty()
            && let Some(all) = fused(schedule, &within)
        {
            // All is one row.
            let (only, all) = schedule.split(all, schedule.extent(all))?;
            (around, within) = (vec![only], vec![all]);
        } else if let Some(last) = around.last_mut() {
            let (blocks, rows) = schedule.split(*last, self.each_block)?;
            (*last, row) = (blocks, Some(rows));
        }
        let (mut order, mut blocks) = (vec![], None);
        if let Some((&first, rest)) = around.split_first() {
            let inner: Vec<Axis> = row.iter().chain(&within).chain(&own).copied().collect();
            let all: Vec<Axis> = around.iter().copied().chain(inner).collect();
            schedule.reorder(&all)?;
            let mut block = rest.iter().try_fold(first, |all, next| schedule.fuse(all, *next))?;
            if schedule.extent(block) > gpu.blocks[0] {
                // Each block has several tiles of rows, a grid apart.
                let (rounds, blocks) = schedule.split(block, gpu.blocks[0])?;
                order.extend([blocks, rounds]);
                block = blocks;
            } else {
                order.push(block);
            }
            blocks = Some(block);
        }
        let within = match reduce(schedule, self.root) {
            None => self.along(schedule, &within)?,
            Some(_) => self.reduced(schedule, self.root)?,
        };
        let at = order.last().copied();
        self.bind(schedule, order, row, within)?;
        if let Some(block) = blocks {
            schedule.bind(block, "blockIdx.x")?;
        }
        for &stage in &self.others {
            if reduce(schedule, stage).is_none() && !keeps {
                schedule.compute_inline(stage)?;
            } else {
                self.compute_at(schedule, stage, at.ok_or("there is no loop to compute it in")?)?;
            }
        }
        Ok(())
    }

    /// Computes `stage` in the loop `at`, for the rows of a block.
    fn compute_at(&self, schedule: &mut Schedule, stage: Stage, at: Axis) -> Result<(), Refused> {
        schedule.compute_at(stage, at)?;
        schedule.set_scope(stage, Scope::Shared)?;
        let (mut order, _) = axes_of(schedule, stage);
        let within = order.split_off(self.common.min(order.len()));
        let mut row = None;
        if let Some(last) = order.last_mut() {
            let (outer, rows) = schedule.split(*last, self.each_block)?;
            (*last, row) = (outer, Some(rows));
        }
        let within = match reduce(schedule, stage) {
            None => self.along(schedule, &within)?,
            Some(_) => {
                order.extend(within);
                self.reduced(schedule, stage)?
            }
        };
        self.bind(schedule, order, row, within)
    }

    /// The loops `axes` of a row, as one over what each thread has, and one over threads.
    fn along(&self, schedule: &mut Schedule, axes: &[Axis]) -> Result<Along, Refused> {
        let Some((&first, rest)) = axes.split_first() else {
            return Ok(Along { each: vec![], thread: None });
        };
        let all = rest.iter().try_fold(first, |all, next| schedule.fuse(all, *next))?;
        let (each, thread) = schedule.split(all, self.threads)?;
        Ok(Along { each: vec![each], thread: Some(thread) })
    }

    /// The loops of the reduction `stage`, as those over what each thread combines, and one over threads,
    /// where there is something to combine.
    fn reduced(&self, schedule: &mut Schedule, stage: Stage) -> Result<Along, Refused> {
        let (_, mut axes) = axes_of(schedule, stage);
        if self.threads == 1 || points_of(schedule, &axes) <= 1 {
            return Ok(Along { each: axes, thread: None });
        }
        match axes.last() {
            // Rows are long enough without what is around them, which spares divisions.
            Some(&last) if schedule.extent(last) >= self.threads => {
                axes.pop();
                let (each, thread) = schedule.split(last, self.threads)?;
                axes.push(each);
                Ok(Along { each: axes, thread: Some(thread) })
            }
            _ => self.along(schedule, &axes),
        }
    }

    /// Orders the loops of a stage, `outer` around all others, and gives threads their iterations of
    /// `row`, over rows, and of `within`, along one. Where there is nothing along one, the first of the
    /// threads along it has the row.
    fn bind(
        &self,
        schedule: &mut Schedule,
        outer: Vec<Axis>,
        row: Option<Axis>,
        within: Along,
    ) -> Result<(), Refused> {
        let [along, across] = self.axes();
        let Along { each, mut thread } = within;
        let (mut row, mut outer) = (row, outer);
        if thread.is_none()
            && let Some(rows) = row
        {
            let (rows, only) = schedule.split(rows, 1)?;
            (row, thread) = (Some(rows), Some(only));
        }
        if self.each_block == 1 {
            outer.extend(row.take());
        }
        let mut threads: Vec<Axis> = row.into_iter().chain(thread).collect();
        if self.columns {
            threads.reverse();
        }
        let order = outer.into_iter().chain(threads).chain(each.iter().copied());
        schedule.reorder(&order.collect::<Vec<_>>())?;
        if let Some(row) = row {
            schedule.bind(row, across)?;
        }
        if let Some(thread) = thread {
            schedule.bind(thread, along)?;
        }
        if let Some(&last) = each.last()
            && (2..=MOST_UNROLLED).contains(&schedule.extent(last))
        {
            schedule.unroll(last)?;
        }
        Ok(())
    }
}

/// What is computed with `root` row by row, readers first, and how many dimensions come before those of a
/// row. `None` where it has nothing to do with rows.
fn members(schedule: &Schedule, root: Stage) -> Option<(Vec<Stage>, usize)> {
    let extents = spatial(schedule, root);
    let common_with = |stage: Stage| {
        let own = spatial(schedule, stage);
        own.iter().zip(&extents).take_while(|(a, b)| a == b).count()
    };
    // The dimensions of what is reduced to one element of each row.
    let row_of = |stage: Stage| {
        reduce(schedule, stage)?;
        let (own, common) = (spatial(schedule, stage), common_with(stage));
        own[common..].iter().all(|extent| *extent == 1).then_some(common)
    };
    let mut candidates = producers(schedule, root);
    let mut next = 0;
    while let Some(&stage) = candidates.get(next) {
        next += 1;
        for producer in producers(schedule, stage) {
            if !candidates.contains(&producer) {
                candidates.push(producer);
            }
        }
    }
    candidates.retain(|stage| schedule.is_root(*stage) && !schedule.is_inline(*stage));
    sort_readers_first(schedule, &mut candidates);
    let common = match reduce(schedule, root) {
        Some(_) => extents.len(),
        None => candidates.iter().find_map(|stage| row_of(*stage))?,
    };
    let mut members = vec![];
    for stage in candidates {
        let is_of_rows = match reduce(schedule, stage) {
            Some(_) => row_of(stage) == Some(common),
            None => common_with(stage) >= common,
        };
        // There are loops to give threads.
        let is_of_rows = is_of_rows && points_of(schedule, schedule.axes(stage)) > 1;
        let readers = all_readers(schedule, stage);
        let is_within = |reader: &Stage| *reader == root || members.contains(reader);
        if is_of_rows
            && readers.iter().all(is_within)
            && readers.iter().all(|reader| reads_rows(schedule, *reader, stage, common))
        {
            members.push(stage);
        }
    }
    let reduces = members.iter().chain([&root]).any(|stage| reduce(schedule, *stage).is_some());
    reduces.then_some((members, common))
}

/// The stages with loops that read `stage`, themselves or through inlined stages.
fn all_readers(schedule: &Schedule, stage: Stage) -> Vec<Stage> {
    let mut found = vec![];
    let mut pending = schedule.readers(stage);
    while let Some(reader) = pending.pop() {
        if schedule.is_inline(reader) {
            pending.extend(schedule.readers(reader));
        } else if !found.contains(&reader) {
            found.push(reader);
        }
    }
    found
}

/// Whether `reader` reads only that row of `producer` that it computes of its own `common` first
/// dimensions, itself or through inlined stages.
fn reads_rows(schedule: &Schedule, reader: Stage, producer: Stage, common: usize) -> bool {
    let (mut pending, mut seen) = (vec![reader], vec![reader]);
    while let Some(stage) = pending.pop() {
        let extents: Vec<i64> =
            schedule.axes(stage).iter().map(|axis| schedule.extent(*axis)).collect();
        for access in schedule.accesses(stage) {
            let Some(read) = schedule.stage_of(access.tensor) else { continue };
            let is_inline = schedule.is_inline(read);
            if read != producer && !is_inline {
                continue;
            }
            let in_place = |(dimension, steps): (usize, &Vec<Option<i64>>)| {
                steps.iter().zip(&extents).enumerate().all(|(axis, (step, extent))| {
                    *step == Some(i64::from(axis == dimension)) || *extent == 1
                })
            };
            let mut rows = access.by_dimension.iter().take(common).enumerate();
            if !rows.all(in_place)
                && (read == producer || producers(schedule, read).contains(&producer))
            {
                return false;
            }
            if is_inline && !seen.contains(&read) {
                seen.push(read);
                pending.push(read);
            }
        }
    }
    true
}

/// How many elements further each load of the reduction `stage` reads with its next step, and with its
/// next element.
fn steps(schedule: &Schedule, stage: Stage) -> Vec<[Option<i64>; 2]> {
    let (elements, steps) = axes_of(schedule, stage);
    let last = |axes: &[Axis]| {
        let last = axes.iter().rfind(|axis| schedule.extent(**axis) > 1)?;
        schedule.axes(stage).iter().position(|axis| axis == last)
    };
    let places = [last(&steps), last(&elements)];
    let accesses = schedule.accesses(stage).into_iter();
    accesses
        .map(|access| places.map(|place| place.map_or(Some(0), |at| access.steps[at])))
        .collect()
}

/// Whether the elements of the reduction `stage` lie side by side in what it reads, and its steps do not.
fn are_columns(schedule: &Schedule, stage: Stage) -> bool {
    let steps = steps(schedule, stage);
    steps.iter().any(|[_, element]| *element == Some(1))
        && !steps.iter().any(|[step, _]| *step == Some(1))
}

/// Whether the steps of the reduction `stage` are side by side in something that it reads, and its
/// elements are not.
fn are_rows_apart(schedule: &Schedule, stage: Stage) -> bool {
    let is_apart =
        |[step, element]: &[Option<i64>; 2]| *step == Some(1) && !matches!(element, Some(0 | 1));
    steps(schedule, stage).iter().any(is_apart)
}
