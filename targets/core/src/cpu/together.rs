//! Several results in one nest of loops.

use te::loops::Scope;
use te::schedule::{Axis, Stage};

use super::{Rules, points, reduce, sort_readers_first};

impl Rules<'_> {
    /// The results that may be computed in the loops of the result `root`: those before it that are
    /// as many along the first dimension, and are no reductions computed in place.
    pub(super) fn companions(&self, root: Stage) -> Vec<Stage> {
        let schedule = &*self.schedule;
        let Some(first) = self.spatial(root).first().copied() else { return vec![] };
        let is_before = |stage: Stage| {
            schedule.body().is_before(schedule.stage_op(stage), schedule.stage_op(root))
        };
        let companions = schedule.stages().filter(|stage| {
            schedule.is_output(*stage)
                && schedule.is_root(*stage)
                && reduce(schedule, *stage).is_none()
                && !schedule.is_ordered(*stage)
                && self.spatial(*stage).first() == Some(&first)
                && is_before(*stage)
        });
        match schedule.is_output(root) {
            true => companions.collect(),
            false => vec![],
        }
    }

    /// Computes the results `others` in the loops of `root`, with what all of them read. Whether
    /// there are such loops; else nothing changes.
    pub(super) fn together(&mut self, root: Stage, others: &[Stage]) -> bool {
        let results: Vec<Stage> = others.iter().copied().chain([root]).collect();
        let all = self.everything(&results);
        let is_map = |stage: &Stage| reduce(self.schedule, *stage).is_none();
        let in_place = |stage: &Stage| {
            let mut readers = results.iter().chain(&all).filter(|reader| *reader != stage);
            readers.all(|reader| self.reads_in_place(*reader, *stage))
        };
        let same_shape = others.iter().all(|other| self.spatial(*other) == self.spatial(root));
        let before = self.schedule.clone();
        let done = match all.as_slice() {
            maps if maps.iter().all(is_map) => {
                same_shape && maps.iter().all(in_place) && self.maps(root, others, maps)
            }
            [one] if same_shape && in_place(one) => self.tile(root, *one, others),
            _ => self.rows(root, others),
        };
        if !done {
            *self.schedule = before;
        }
        done
    }

    /// Elementwise loops of several results, element by element or vector by vector; the stages
    /// `shared` that they read are in registers.
    fn maps(&mut self, root: Stage, others: &[Stage], shared: &[Stage]) -> bool {
        let axes = self.schedule.axes(root).to_vec();
        let Some((&last, outer)) = axes.split_last() else { return false };
        let mut within: Vec<Stage> = others.iter().chain(shared).copied().collect();
        sort_readers_first(self.schedule, &mut within);
        let all: Vec<Stage> = within.iter().copied().chain([root]).collect();
        let extent = self.schedule.extent(last);
        let bits = all.iter().map(|stage| self.bits(*stage)).max().expect("the root is one");
        let mut lanes = None;
        if self.lanes(extent, bits).is_some() {
            lanes = self.contiguous_lanes(&all, outer.len(), extent, bits);
            // Results that are read across rows have other loops each.
            if lanes.is_none() {
                return false;
            }
        }
        let work = points(self.schedule, root);
        let streamed: Vec<Stage> =
            all.iter().copied().filter(|stage| self.is_worth_streaming(*stage)).collect();
        let mut outer = axes.clone();
        if let Some(lanes) = lanes {
            let Ok((vectors, vector)) = self.schedule.split(last, lanes) else { return false };
            if self.schedule.vectorize(vector).is_err() {
                return false;
            }
            outer[axes.len() - 1] = vectors;
        }
        let at = self.parallelize(&outer, work);
        if !self.compute_tiles_at(&within, at, lanes) {
            return false;
        }
        for stage in streamed {
            let is_stored = self.schedule.is_output(stage);
            // What is read again is in the nearest cache.
            if lanes.is_some() && is_stored && self.schedule.readers(stage).is_empty() {
                let _ = self.schedule.stream(stage);
            }
        }
        true
    }

    /// Computes `stages`, which are maps, each before those that it reads, in the loop `at` of a
    /// tile, as the tile is written: in vectors of `lanes`, its other loops unrolled. What is no
    /// result is in registers. Whether that is allowed.
    pub(super) fn compute_tiles_at(
        &mut self,
        stages: &[Stage],
        at: Axis,
        lanes: Option<i64>,
    ) -> bool {
        for &stage in stages {
            if self.schedule.compute_at(stage, at).is_err() {
                return false;
            }
            if !self.schedule.is_output(stage) {
                let _ = self.schedule.set_scope(stage, Scope::Register);
            }
            let axes = self.schedule.axes(stage).to_vec();
            let (Some(lanes), Some((&last, outer))) = (lanes, axes.split_last()) else { continue };
            let Ok((vectors, vector)) = self.schedule.split(last, lanes) else { return false };
            if self.schedule.vectorize(vector).is_err() {
                return false;
            }
            for &axis in outer.iter().chain([&vectors]) {
                let _ = self.schedule.unroll(axis);
            }
        }
        true
    }
}
