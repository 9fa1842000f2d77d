//! Scatters: elements are changed at places that are computed, one update after the other.

use te::schedule::{Axis, Refused, Stage};

use super::Rules;
use crate::stages::points_of;

/// Of so few columns, those of an update are changed one after the other, so that its index is computed once.
const FEW_COLUMNS: i64 = 16;

impl Rules<'_> {
    /// The loops of a scatter. What is there before is written like any map. Of the updates, those that
    /// change elements of their own are shared by threads, or are vectors where they lie side by side.
    pub(super) fn scatter(&mut self, root: Stage) {
        let before = self.schedule.clone();
        if self.elements(root).and_then(|()| self.updates(root)).is_err() {
            *self.schedule = before;
        }
    }

    fn elements(&mut self, root: Stage) -> Result<(), Refused> {
        let axes = self.schedule.axes(root).to_vec();
        let mut spatial: Vec<Axis> =
            axes.into_iter().filter(|axis| !self.schedule.is_reduction(*axis)).collect();
        let Some(&last) = spatial.last() else { return Ok(()) };
        let elements = points_of(self.schedule, &spatial);
        let (extent, position) = (self.schedule.extent(last), spatial.len() - 1);
        if let Some(lanes) = self.contiguous_lanes(&[root], position, extent, self.bits(root)) {
            let (vectors, vector) = self.schedule.split(last, lanes)?;
            self.schedule.vectorize(vector)?;
            spatial[position] = vectors;
        }
        self.parallelize(&spatial, elements);
        Ok(())
    }

    fn updates(&mut self, root: Stage) -> Result<(), Refused> {
        let schedule = &*self.schedule;
        let axes = schedule.axes(root).to_vec();
        let is_update = |axis: &Axis| schedule.is_reduction(*axis);
        let (mut apart, ordered): (Vec<Axis>, Vec<Axis>) =
            axes.iter().copied().filter(is_update).partition(|axis| schedule.changes_apart(*axis));
        let updates: Vec<Axis> = apart.iter().chain(&ordered).copied().collect();
        let work = points_of(self.schedule, &updates);
        let columns = apart.last().filter(|last| Some(*last) == axes.last()).copied();
        let are_few = columns.is_some_and(|last| self.schedule.extent(last) <= FEW_COLUMNS);
        let mut within = vec![];
        if let Some(last) = columns.filter(|_| are_few && self.reads_inlined(root)) {
            // Where each column is read from is known then.
            self.schedule.unroll(last)?;
            apart.pop();
            within.push(last);
        } else if let Some((vectors, lane)) = self.update_vectors(root, columns)? {
            apart.pop();
            // Without another axis to share, threads have columns.
            match apart.is_empty() && self.is_shared_work(work) {
                true => apart.push(vectors),
                false => within.push(vectors),
            }
            within.push(lane);
        } else if are_few && (apart.len() > 1 || !self.is_shared_work(work)) {
            within.extend(apart.pop());
        }
        let around = apart.clone();
        let order: Vec<Axis> = apart.into_iter().chain(ordered).chain(within).collect();
        self.schedule.reorder(&order)?;
        if !around.is_empty() {
            self.parallelize(&around, work);
        }
        Ok(())
    }

    /// Whether `root` reads elements that others only move: those of an update lie anywhere.
    fn reads_inlined(&self, root: Stage) -> bool {
        self.schedule.accesses(root).iter().any(|access| {
            let read = self.schedule.stage_of(access.tensor);
            read.is_some_and(|read| self.schedule.is_inline(read))
        })
    }

    /// The loops over vectors, and over lanes, of `columns` of the updates of `root`, where these lie side by side.
    fn update_vectors(
        &mut self,
        root: Stage,
        columns: Option<Axis>,
    ) -> Result<Option<(Axis, Axis)>, Refused> {
        let Some(last) = columns else { return Ok(None) };
        let (position, extent) = (self.schedule.axes(root).len() - 1, self.schedule.extent(last));
        let Some(lanes) = self.contiguous_lanes(&[root], position, extent, self.bits(root)) else {
            return Ok(None);
        };
        let (vectors, lane) = self.schedule.split(last, lanes)?;
        self.schedule.vectorize(lane)?;
        Ok(Some((vectors, lane)))
    }
}
