//! Asking early for what later iterations read.

use ir_core::{BlockId, OpFields, OpParts, Symbol, ValueId};

use super::emit::Emitter;
use super::writer::Term;
use crate::compute::{Stage as StageView, tensor_of};
use crate::index::{Index, Var};
use crate::loops::{Fetch, ForKind};
use crate::schedule::legality::bounds::{Nest, reads, union};
use crate::schedule::{Attach, Prefetch, Refused};

/// An iteration asks for so many elements of a tensor at most: more do not arrive together.
const MOST_FETCHED: usize = 64;

/// A part of a tensor: where it starts and its extent, by dimension.
type Region = Vec<(Index, i64)>;

impl Emitter<'_> {
    /// Writes at the end of `block` what an iteration of loop `position` of `nest` asks for.
    pub(super) fn prefetch(
        &mut self,
        nest: &Nest,
        position: usize,
        block: BlockId,
    ) -> Result<(), Refused> {
        let schedule = self.schedule;
        let level = &nest.loops[position];
        let state = &schedule.axes[level.axis.0];
        let Some(var) = level.var.filter(|_| state.kind == ForKind::Serial) else { return Ok(()) };
        for prefetch in &state.prefetches {
            let Some((tensor, region)) = self.read_ahead(nest, var, prefetch) else { continue };
            let shape = tensor_of(&self.flat.body, tensor).known_shape().unwrap_or_default();
            for offsets in places(&region, &shape, prefetch.step) {
                let terms: Vec<Term> = region
                    .iter()
                    .zip(offsets)
                    .map(|((min, _), offset)| Term::Index(min.plus(offset)))
                    .collect();
                let mut writer = self.writer(block);
                let (buffer, indices) = writer.place(tensor, &terms);
                writer.finish()?;
                let fetch = Fetch { buffer, indices };
                let name = <Fetch as OpFields<ValueId>>::NAME;
                self.insert(block, OpParts::new(name, &fetch.operands(), &[]).attrs(fetch.attrs()));
            }
        }
        Ok(())
    }

    /// What is read of a tensor in the iteration of the loop of `var` that `prefetch` is for; `None` where that is no region
    /// that moves by as much with each iteration.
    fn read_ahead(
        &mut self,
        nest: &Nest,
        var: Var,
        prefetch: &Prefetch,
    ) -> Option<(ValueId, Region)> {
        let body = &self.flat.body;
        let view = StageView::of(body, nest.op)?;
        let name = Some(Symbol::new(&prefetch.tensor));
        let args: Vec<Index> = nest.spatial.iter().chain(&nest.reduction).cloned().collect();
        let mut found: Option<(ValueId, Region)> = None;
        for (tensor, places) in reads(body, &view, &args, &mut self.indices) {
            if body.name_hint(tensor).name != name || !self.is_whole(tensor) {
                continue;
            }
            let shape = tensor_of(body, tensor).known_shape()?;
            let mut region = Region::with_capacity(shape.len());
            for (index, extent) in places.into_iter().zip(shape) {
                let index = index?;
                let step = self.indices.step(&index, var)?;
                let ahead = index.plus(step.saturating_mul(prefetch.distance));
                let interval = self.indices.interval(&ahead, |var| self.scope.contains_key(&var));
                region.push((interval.min, interval.extent?.min(extent)));
            }
            found = Some(match found {
                None => (tensor, region),
                Some((_, other)) => {
                    let both = other.into_iter().zip(region).map(|(a, b)| union(a, b));
                    (tensor, both.collect::<Option<Region>>()?)
                }
            });
        }
        found
    }

    /// Whether all of `tensor` is there for the whole kernel. What is computed in loops is near anyway.
    fn is_whole(&self, tensor: ValueId) -> bool {
        let made_by = self.flat.body.defining_op(tensor);
        let nest = self.nests.iter().find(|nest| Some(nest.op) == made_by);
        nest.is_none_or(|nest| self.schedule.stages[nest.stage.0].attach == Attach::Root)
    }
}

/// One of `step` elements that follow one another in `region` of a tensor of extents `shape`: how far each is from where
/// the region starts, by dimension.
fn places(region: &Region, shape: &[i64], step: i64) -> Vec<Vec<i64>> {
    let extents: Vec<i64> = region.iter().map(|(_, extent)| *extent).collect();
    // Elements follow one another along the dimensions of which all is read, and one more.
    let whole = extents.iter().zip(shape).rev().take_while(|(extent, all)| extent == all).count();
    let apart = extents.len().saturating_sub(whole + 1);
    let product =
        |extents: &[i64]| extents.iter().fold(1i64, |all, extent| all.saturating_mul(*extent));
    let (rows, run) = (product(&extents[..apart]), product(&extents[apart..]));
    let starts = (0..rows).flat_map(|row| {
        (0..run).step_by(usize::try_from(step).unwrap_or(usize::MAX)).map(move |at| (row, at))
    });
    let place = |(mut row, mut at): (i64, i64)| {
        let mut offsets = vec![0; extents.len()];
        for dimension in (0..extents.len()).rev() {
            let rest = if dimension < apart { &mut row } else { &mut at };
            offsets[dimension] = *rest % extents[dimension];
            *rest /= extents[dimension];
        }
        offsets
    };
    starts.take(MOST_FETCHED).map(place).collect()
}
