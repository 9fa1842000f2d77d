//! Loops without a reduction: elementwise ones, and transposes in square tiles.

use ir_core::ValueId;
use te::compute::Load;
use te::loops::Scope;
use te::scalar::{Constant, ScalarOp};
use te::schedule::{Access, Axis, Refused, Stage};

use super::{LINE, Rules, points, reduce};

/// A tile has at most so many rows, which targets transpose in registers.
const MOST_ROWS: i64 = 16;

/// A line of a cache is worth being kept for so many reads.
const LEAST_REUSED: i64 = 4;

/// Rows that are a multiple of so many lines apart share lines of a cache with several others.
const SHARED_LINES: i64 = 4;

/// So many rows, of which lines are kept, are few enough for caches of addresses, too.
const BLOCKED_ROWS: i64 = 32;

/// So many elements that are read at the same places are computed one after the other, so that places are
/// looked up once for them.
const SHARED_PLACES: i64 = 4;

impl Rules<'_> {
    /// Elementwise loops: vectors in the innermost, threads on the outermost.
    pub(super) fn plain(&mut self, root: Stage) {
        let axes = self.schedule.axes(root).to_vec();
        let spatial: Vec<Axis> =
            axes.into_iter().filter(|axis| !self.schedule.is_reduction(*axis)).collect();
        if spatial.is_empty() {
            return;
        }
        let work = points(self.schedule, root);
        if reduce(self.schedule, root).is_none() {
            if self.transpose(root) || self.choose(root) {
                return;
            }
            if let Some(outer) = self.block_columns(root) {
                self.parallelize(&outer, work);
                return;
            }
            let streams = self.is_worth_streaming(root);
            if self.repeat(root) || self.flatten(root) {
                let outer = self.schedule.loops(root).to_vec();
                if let [outer @ .., _] = outer.as_slice()
                    && !outer.is_empty()
                {
                    self.parallelize(outer, work);
                }
                return;
            }
            if self.vectorize_last(root) {
                self.keep_lines(root);
                if streams {
                    let _ = self.schedule.stream(root);
                }
            } else if let Some(outer) = self.share_places(root) {
                self.parallelize(&outer, work);
                return;
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
        // Targets cut loops where conditions of loads change, but not those that threads share.
        let enough = (1..outer.len()).find(|count| self.is_enough_for_threads(&outer[..*count]));
        if let Some(enough) = enough.filter(|_| self.has_conditional_loads(root)) {
            outer.truncate(enough);
        }
        self.parallelize(&outer, work);
    }

    /// Whether `root`, or what is inlined in it, loads under conditions.
    fn has_conditional_loads(&self, root: Stage) -> bool {
        let stages = self.with_inlined(root);
        let mut accesses = stages.iter().flat_map(|stage| self.schedule.accesses(*stage));
        accesses.any(|access| access.conditional)
    }

    /// Where the last dimension of `root` is at most a line of a cache, and what it reads goes on behind that line along
    /// an earlier dimension than the one before: goes through a few rows of these at a time, which stay in the nearest
    /// cache until what is behind them is read as well.
    fn keep_lines(&mut self, root: Stage) {
        let axes = self.schedule.axes(root).to_vec();
        let extents = self.spatial(root);
        let bytes = i64::from(self.bits(root)) / 8;
        let several = |axis: &usize| extents[*axis] > 1;
        let Some(last) = (0..extents.len()).rev().find(several) else { return };
        let Some(row) = (0..last).rev().find(several) else { return };
        let lines = self.machine.caches[0] as i64 / LINE;
        if extents[last].saturating_mul(bytes) > LINE || extents[row] <= lines / 2 {
            return;
        }
        let is_within_line = |step: Option<i64>| {
            step.is_some_and(|step| {
                step != 0 && step.saturating_abs().saturating_mul(bytes) <= LINE
            })
        };
        let before = |access: &Access| {
            let goes_on = access.steps[last] == Some(1) && !is_within_line(access.steps[row]);
            (0..row).find(|axis| goes_on && several(axis) && is_within_line(access.steps[*axis]))
        };
        let stages = self.with_inlined(root);
        let mut accesses = stages.iter().flat_map(|stage| self.schedule.accesses(*stage));
        let Some(before) = accesses.find_map(|access| before(&access)) else { return };
        let unchanged = self.schedule.clone();
        let done = self.schedule.split(axes[row], BLOCKED_ROWS).and_then(|(outer, _)| {
            let mut order = self.schedule.loops(root).to_vec();
            order.retain(|axis| *axis != outer);
            let place = order.iter().position(|axis| *axis == axes[before]);
            order.insert(place.unwrap_or_default(), outer);
            self.schedule.reorder(&order)
        });
        if done.is_err() {
            *self.schedule = unchanged;
        }
    }

    /// Where `root` reads at places that are themselves read, such as `x[i, places[j]]`: computes a few
    /// elements of the same places at once. The loops around; `None` where nothing is read so.
    pub(super) fn share_places(&mut self, root: Stage) -> Option<Vec<Axis>> {
        let axes = self.schedule.axes(root).to_vec();
        let last = axes.len().checked_sub(1)?;
        let accesses = self.schedule.accesses(root);
        let is_place =
            |access: &Access, axis: usize| access.depends_on(last) && !access.depends_on(axis);
        let is_looked_up = |access: &Access, axis: usize| {
            let steps = |of: usize| access.by_dimension.iter().map(move |steps| steps[of]);
            steps(last).any(|step| step.is_none()) && steps(axis).flatten().any(|step| step != 0)
        };
        let shares = |axis: &usize| {
            accesses.iter().any(|access| is_looked_up(access, *axis))
                && accesses.iter().any(|access| is_place(access, *axis))
        };
        let axis = (0..last).rev().find(shares)?;
        let factors = [SHARED_PLACES, 3, 2];
        let extent = self.schedule.extent(axes[axis]);
        let factor = factors.into_iter().find(|factor| extent % factor == 0)?;
        let before = self.schedule.clone();
        let done = self.schedule.split(axes[axis], factor).and_then(|(_, row)| {
            let mut outer = self.schedule.loops(root).to_vec();
            outer.retain(|axis| *axis != row);
            let order: Vec<Axis> = outer.iter().copied().chain([row]).collect();
            self.schedule.reorder(&order)?;
            self.schedule.unroll(row)?;
            Ok(outer)
        });
        if done.is_err() {
            *self.schedule = before;
        }
        done.ok()
    }

    /// Makes two loops of each dimension of `root` that reads something over and over, such as `x[j mod 100]`:
    /// the repetitions, and what is repeated, which is regular. The last of these is taken in vectors.
    fn repeat(&mut self, root: Stage) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let periods: Vec<Option<i64>> =
            (0..axes.len()).map(|position| self.period(root, position)).collect();
        let (Some(Some(period)), bits) = (periods.last().copied(), self.bits(root)) else {
            return false;
        };
        let accesses = self.schedule.accesses_in_vectors(root, axes.len() - 1, period);
        let is_vector = |access: &Access| matches!(access.lane, Some(0 | 1));
        let Some(lanes) = self.lanes(period, bits).filter(|_| accesses.iter().all(is_vector))
        else {
            return false;
        };
        let before = self.schedule.clone();
        let done = axes.iter().zip(&periods).try_fold(None, |inner, (axis, period)| match period {
            Some(period) => self.schedule.split(*axis, *period).map(|(_, repeated)| Some(repeated)),
            None => Ok(inner),
        });
        let done = done.and_then(|last| {
            let (_, vector) = self.schedule.split(last.unwrap_or(axes[axes.len() - 1]), lanes)?;
            self.schedule.vectorize(vector)
        });
        if done.is_err() {
            *self.schedule = before;
        }
        done.is_ok()
    }

    /// The number of indices after which what `root` reads along a dimension is the same again.
    fn period(&self, root: Stage, position: usize) -> Option<i64> {
        let body = self.schedule.body();
        let view = te::compute::Stage::of(body, self.schedule.stage_op(root))?;
        let extent = *view.shape.get(position).filter(|_| view.counts.is_empty())?;
        let [(block, _)] = view.blocks(body)[..] else { return None };
        let index = *body.block_args(block).get(position)?;
        let rests = body.uses(index).filter(|(user, operand)| {
            *operand == 0 && ScalarOp::of(body.op_name(*user)) == Some(ScalarOp::FloorMod)
        });
        let periods = rests.filter_map(|(rest, _)| {
            let (_, period) = body.view_def::<Constant>(body.operand(rest, 1))?;
            period.value.to_i64().first().copied()
        });
        let mut periods =
            periods.filter(|period| (2..extent).contains(period) && extent % period == 0);
        periods.next()
    }

    /// Makes one loop, in vectors, of the last dimensions of `root`, where all that it reads lies in memory
    /// as what it writes, and rows are no whole number of vectors.
    fn flatten(&mut self, root: Stage) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let extents: Vec<i64> = axes.iter().map(|axis| self.schedule.extent(*axis)).collect();
        let (Some(&row), bits) = (extents.last(), self.bits(root)) else { return false };
        let most = self.machine.lanes(bits as usize) as i64;
        if most < 2 || row % most == 0 {
            return false;
        }
        // With a loop of one iteration, another would be no longer.
        let is_loop = |first: &usize| extents[*first] > 1;
        let Some(first) =
            (0..axes.len() - 1).filter(is_loop).find(|first| self.are_one(root, &extents, *first))
        else {
            return false;
        };
        let total: i64 = extents[first..].iter().product();
        let Some(lanes) = self.lanes(total, bits) else { return false };
        let before = self.schedule.clone();
        let fused = axes[first + 1..]
            .iter()
            .try_fold(axes[first], |fused, axis| self.schedule.fuse(fused, *axis));
        let is_whole = total % lanes == 0;
        let done = fused.and_then(|fused| {
            let (_, vector) = self.schedule.split(fused, lanes)?;
            self.schedule.vectorize(vector)
        });
        if done.is_ok() && is_whole && self.is_larger_than_caches(root) {
            let _ = self.schedule.stream(root);
        }
        if done.is_err() {
            *self.schedule = before;
        }
        done.is_ok()
    }

    /// Whether the dimensions from `first` on are one in all that `root` and what is inlined in it read, or
    /// not read at all, and say nothing else than where that is. `extents` are those of `root`.
    fn are_one(&self, root: Stage, extents: &[i64], first: usize) -> bool {
        let mut strides = vec![1i64; extents.len()];
        for axis in (first..extents.len() - 1).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(extents[axis + 1]);
        }
        let (mut pending, mut seen) = (vec![root], vec![root]);
        while let Some(stage) = pending.pop() {
            if self.spatial(stage) != extents || !self.are_places_alone(stage, first) {
                return false;
            }
            for access in self.schedule.accesses(stage) {
                let steps = &access.steps[first..extents.len()];
                let is_read = steps.iter().any(|step| *step != Some(0));
                let is_same = steps.iter().zip(&strides[first..]).all(|(a, b)| *a == Some(*b));
                if access.conditional || is_read && !is_same {
                    return false;
                }
                let inlined = self.schedule.stage_of(access.tensor);
                let inlined = inlined.filter(|stage| self.schedule.is_inline(*stage));
                if let Some(inlined) = inlined.filter(|stage| is_read && !seen.contains(stage)) {
                    seen.push(inlined);
                    pending.push(inlined);
                }
            }
        }
        true
    }

    /// Whether the indices of `stage` from dimension `first` on say where something is read, and nothing else.
    fn are_places_alone(&self, stage: Stage, first: usize) -> bool {
        let body = self.schedule.body();
        let Some(view) = te::compute::Stage::of(body, self.schedule.stage_op(stage)) else {
            return false;
        };
        // A count is one of a dimension.
        view.counts.is_empty()
            && view.blocks(body).iter().all(|(block, range)| {
                let args = body.block_args(*block).iter().zip(range.clone());
                args.filter(|(_, axis)| *axis >= first)
                    .all(|(arg, _)| body.uses(*arg).all(|(user, _)| body.is::<Load>(user)))
            })
    }

    /// Where `root` reads a tensor along another of its dimensions: in square tiles, each of which
    /// is read in vectors and lies in the nearest cache until it is written in vectors.
    fn transpose(&mut self, root: Stage) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let lanes = self.machine.lanes(self.bits(root) as usize) as i64;
        let tile = lanes.clamp(8, MOST_ROWS);
        let Some((tensor, reader, along)) = self.read_across(root, tile) else { return false };
        let (along, last) = (axes[along], axes[axes.len() - 1]);
        if [last, along].iter().any(|axis| self.schedule.extent(*axis) < tile) {
            return false;
        }
        let Some(name) = self.schedule.body().name_hint(tensor).name else { return false };
        let before = self.schedule.clone();
        let done = self.transpose_tiles((root, reader), name.as_str(), (along, last), tile);
        if done.is_err() {
            *self.schedule = before;
        }
        done.is_ok()
    }

    /// The only tensor that `root`, or what is inlined in it, reads along another dimension of `root` than the last
    /// one, with what reads it and that dimension. Whether they do is asked of `tile` elements where extents are a
    /// multiple of it: of an index such as `⌊j / 16⌋`, tiles are regular, but not all of the axis.
    fn read_across(&self, root: Stage, tile: i64) -> Option<(ValueId, Stage, usize)> {
        let axes = self.schedule.axes(root);
        let last = axes.len().checked_sub(1)?;
        let whole = |axis: &Axis| tile > 1 && self.schedule.extent(*axis) % tile == 0;
        let mut found = None;
        for stage in self.with_inlined(root) {
            let by_axis = (0..last).map(|position| match whole(&axes[position]) {
                true => self.schedule.accesses_in_vectors(stage, position, tile),
                false => self.schedule.accesses(stage),
            });
            let by_axis: Vec<Vec<Access>> = by_axis.collect();
            for (number, access) in self.schedule.accesses(stage).into_iter().enumerate() {
                let is_along = |position: &usize| {
                    let own = &by_axis[*position][number];
                    let step =
                        if whole(&axes[*position]) { own.lane } else { own.steps[*position] };
                    step == Some(1)
                };
                if access.steps.get(last).copied().flatten().is_none_or(|step| step <= 1) {
                    continue;
                }
                if let Some(along) = (0..last).find(is_along)
                    && found.replace((access.tensor, stage, along)).is_some()
                {
                    return None;
                }
            }
        }
        found
    }

    /// `root`, and what is inlined in it at the very places that it computes.
    fn with_inlined(&self, root: Stage) -> Vec<Stage> {
        let mut stages = vec![root];
        let mut next = 0;
        while let Some(&stage) = stages.get(next) {
            for access in self.schedule.accesses(stage) {
                let read = self.schedule.stage_of(access.tensor);
                let Some(read) = read.filter(|read| self.schedule.is_inline(*read)) else {
                    continue;
                };
                let is_same = self.spatial(read) == self.spatial(root)
                    && self.dimensions_in_place(stage, &[read]) == self.spatial(root).len();
                if is_same && !stages.contains(&read) {
                    stages.push(read);
                }
            }
            next += 1;
        }
        stages
    }

    /// Where `root` reads a tensor along another of its dimensions, and those behind that one are too short for
    /// square tiles: goes through as many of the columns behind it at a time as the nearest cache has lines for.
    /// The loops around; `None` where that is not so.
    fn block_columns(&mut self, root: Stage) -> Option<Vec<Axis>> {
        let axes = self.schedule.axes(root).to_vec();
        let (_, _, along) = self.read_across(root, 1)?;
        let most = self.machine.caches[0] as i64 / 2 / LINE;
        let extent = |axis: &Axis| self.schedule.extent(*axis);
        let columns = axes[along + 1..].iter().map(extent).fold(1i64, i64::saturating_mul);
        let rest = axes[along + 2..].iter().map(extent).fold(1i64, i64::saturating_mul);
        if columns <= most || extent(&axes[along]) < LEAST_REUSED || rest > most / 2 {
            return None;
        }
        let before = self.schedule.clone();
        let blocked = self.schedule.split(axes[along + 1], 1 << (most / rest).ilog2()).and_then(
            |(outer, inner)| {
                let around = axes[..along].iter().copied().chain([outer, axes[along]]);
                let order = around.chain([inner]).chain(axes[along + 2..].iter().copied());
                let order: Vec<Axis> = order.collect();
                self.schedule.reorder(&order)?;
                Ok(order[..along + 2].to_vec())
            },
        );
        if blocked.is_err() {
            *self.schedule = before;
        }
        blocked.ok()
    }

    /// Has rows of `stage` begin in different lines of a cache where they are read across: rows that are a power of two
    /// apart share few lines.
    pub(super) fn space_rows(&mut self, stage: Stage) {
        let extents = self.spatial(stage);
        let bits = i64::from(self.bits(stage));
        let (Some(row), Some(before)) = (extents.last(), extents.len().checked_sub(2)) else {
            return;
        };
        let is_across = |reader: &Stage| {
            let own = self.schedule.accesses(*reader);
            let last = self.spatial(*reader).len().checked_sub(1);
            let down = |access: &Access| {
                last.and_then(|last| access.steps[last]).is_some_and(|step| step > 1)
            };
            own.iter()
                .any(|access| self.schedule.stage_of(access.tensor) == Some(stage) && down(access))
        };
        if row.saturating_mul(bits) / 8 % (SHARED_LINES * LINE) == 0
            && self.schedule.readers(stage).iter().any(is_across)
        {
            let line = LINE * 8 / bits;
            let axis = self.schedule.axes(stage)[before];
            // Refused for results of the function, which lie as they are asked for.
            let _ = self.schedule.storage_align(stage, axis, SHARED_LINES * line, line);
        }
    }

    fn transpose_tiles(
        &mut self,
        (root, reader): (Stage, Stage),
        tensor: &str,
        (along, last): (Axis, Axis),
        tile: i64,
    ) -> Result<(), Refused> {
        let work = points(self.schedule, root);
        // Of a line that is written in parts, parts would go to memory.
        let whole_lines = tile * i64::from(self.bits(root)) / 8 >= LINE;
        let streams = whole_lines && self.is_worth_streaming(root);
        let copy = self.schedule.cache_read(tensor, Scope::Local, &[reader])?;
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
