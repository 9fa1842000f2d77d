//! Scans: along an axis, elements are computed one after the other.

use te::compute::Scan;
use te::schedule::{Axis, Refused, Stage};

use super::Rules;
use crate::stages::points;

/// As many lines as take their steps together at most, where their elements lie side by side: their state
/// is in the nearest cache.
const MOST_LINES: i64 = 1024;

/// As many lines as take their steps together where their elements lie apart, each in registers: a step
/// waits for the one before, but not for those of other lines.
const APART: i64 = 4;

impl Rules<'_> {
    /// The loops of a scan: threads have lines, and steps are taken by several lines at once.
    pub(super) fn scan(&mut self, root: Stage) {
        let before = self.schedule.clone();
        if self.lines(root).is_err() {
            *self.schedule = before;
        }
    }

    /// The bits of the elements of `root`, or of its state where these have more: what is converted between
    /// vectors of one register and of two is taken apart and put together again at each step.
    fn widest(&self, root: Stage) -> u32 {
        let scan = self.schedule.body().view::<Scan>(self.schedule.stage_op(root));
        let states = scan.iter().flat_map(|scan| &scan.initial).map(|state| state.dtype().bits());
        states.fold(self.bits(root), u32::max)
    }

    fn lines(&mut self, root: Stage) -> Result<(), Refused> {
        let work = points(self.schedule, root);
        let loops = self.schedule.loops(root).to_vec();
        let Some((&steps, lines)) = loops.split_last() else { return Ok(()) };
        let Some((&last, outer)) = lines.split_last() else { return Ok(()) };
        let mut around: Vec<Axis> = outer.to_vec();
        let mut within = vec![];
        let extent = self.schedule.extent(last);
        let position = self.schedule.axes(root).len() - 1;
        if self.schedule.axes(root).last() != Some(&last) {
            let (rows, row) = self.schedule.split(last, APART)?;
            self.schedule.unroll(row)?;
            around.push(rows);
            within.push(row);
        } else if let Some(lanes) =
            self.contiguous_lanes(&[root], position, extent, self.widest(root))
        {
            let (vectors, vector) = self.schedule.split(last, lanes)?;
            self.schedule.vectorize(vector)?;
            let (tiles, tile) = self.schedule.split(vectors, MOST_LINES / lanes)?;
            around.push(tiles);
            within.extend([tile, vector]);
        } else {
            let (tiles, tile) = self.schedule.split(last, MOST_LINES)?;
            around.push(tiles);
            within.push(tile);
        }
        let order: Vec<Axis> = around.iter().copied().chain([steps]).chain(within).collect();
        self.schedule.reorder(&order)?;
        self.parallelize(&around, work);
        Ok(())
    }
}
