//! Which indices each stage is computed at.

use ir_core::{Body, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::MAX_DEPTH;
use super::flatten::Flat;
use super::results::{Part, parts};
use super::tensorize::PartCall;
use crate::compute::counts::are_open;
use crate::compute::{Load, LoadIf, Stage as StageView, tensor_of};
use crate::index::values::index_values;
use crate::index::{Index, Indices, Range, Var};
use crate::scalar::Check;
use crate::schedule::state::{Attach, Axis, Refused, Relation, Schedule, Stage};

/// Keeps iterations in bounds: `index < bound`.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) index: Index,
    pub(crate) bound: i64,
    /// Whether iterations for which it does not hold do no harm, so that tiles may be computed as a
    /// whole where it holds for some of their elements.
    pub(crate) loose: bool,
}

impl Guard {
    pub(crate) fn new(index: Index, bound: i64) -> Guard {
        Guard { index, bound, loose: false }
    }
}

/// One loop.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) axis: Axis,
    /// `None` where there is one iteration, the index 0.
    pub(crate) var: Option<Var>,
    pub(crate) extent: i64,
}

/// The loops of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub(crate) stage: Stage,
    /// Its operation in the flat function.
    pub(crate) op: OpId,
    pub(crate) loops: Vec<Loop>,
    /// Where the element stands, by dimension.
    pub(crate) spatial: Vec<Index>,
    /// The indices of the reduction.
    pub(crate) reduction: Vec<Index>,
    /// Where the region that is computed starts, by dimension.
    pub(crate) min: Vec<Index>,
    /// Extents of that region.
    pub(crate) extents: Vec<i64>,
    pub(crate) guards: Vec<Guard>,
    /// Guards of what is combined, that do not keep from initializing.
    pub(crate) limits: Vec<Guard>,
    /// What stands in the place of some of the loops.
    pub(crate) call: Option<PartCall>,
}

/// The loops of all stages, and what their indices are made of.
pub(crate) struct Nests {
    pub(crate) indices: Indices,
    /// The variables of the counts of the function.
    pub(crate) counts: Vec<Var>,
    /// In program order.
    pub(crate) nests: Vec<Nest>,
}

pub(crate) fn bounds(schedule: &Schedule, flat: &Flat) -> Result<Nests, Refused> {
    let indices = schedule.indices(&flat.body);
    let params = flat.body.block_args(flat.body.entry());
    let mut bounds = Bounds {
        schedule,
        body: &flat.body,
        counts: params.iter().filter_map(|param| indices.count_of(*param)).collect(),
        indices,
        nests: FxHashMap::default(),
        reads: FxHashMap::default(),
    };
    for &(stage, op) in flat.stages.iter().rev() {
        let view = StageView::of(&flat.body, op).expect("what has loops is a stage");
        let nest = bounds.nest(stage, &view)?;
        bounds.note_reads(&nest, &view);
        bounds.nests.insert(stage, nest);
    }
    let Bounds { indices, counts, mut nests, .. } = bounds;
    let nests = flat.stages.iter().filter_map(|(stage, _)| nests.remove(stage)).collect();
    Ok(Nests { indices, counts, nests })
}

struct Bounds<'a> {
    schedule: &'a Schedule,
    body: &'a Body,
    indices: Indices,
    counts: Vec<Var>,
    nests: FxHashMap<Stage, Nest>,
    /// By tensor, the indices at which it is read; `None` where one is no sum of loop variables.
    reads: FxHashMap<ValueId, Vec<Vec<Option<Index>>>>,
}

impl Bounds<'_> {
    fn note_reads(&mut self, nest: &Nest, view: &StageView) {
        let args: Vec<Index> = nest.spatial.iter().chain(&nest.reduction).cloned().collect();
        for (tensor, indices) in reads(self.body, view, &args, &mut self.indices) {
            self.reads.entry(tensor).or_default().push(indices);
        }
    }

    /// The variables of the loops around where `attach` is.
    fn around(&self, mut attach: Attach) -> FxHashSet<Var> {
        let mut vars: FxHashSet<Var> = self.counts.iter().copied().collect();
        while let Attach::At(stage, axis) = attach {
            if let Some(nest) = self.nests.get(&stage) {
                for level in &nest.loops {
                    vars.extend(level.var);
                    if level.axis == axis {
                        break;
                    }
                }
            }
            attach = self.schedule.stages[stage.0].attach;
        }
        vars
    }

    /// What is read of the results of `op` within the loops of `fixed`: a start and an extent by
    /// dimension.
    fn region(&mut self, op: OpId, shape: &[i64], fixed: &FxHashSet<Var>) -> Vec<(Index, i64)> {
        let mut region: Vec<Option<(Index, i64)>> = vec![None; shape.len()];
        for result in self.body.results(op) {
            // Of several results, some may be read by nothing.
            let reads = self.reads.get(&result).cloned().unwrap_or_default();
            for indices in reads {
                for (dimension, index) in indices.into_iter().enumerate() {
                    let whole = (Index::constant(0), shape[dimension]);
                    let read = index.and_then(|index| {
                        let interval = self.indices.interval(&index, |var| fixed.contains(&var));
                        Some((interval.min, interval.extent?))
                    });
                    let read = read.map_or(whole.clone(), |read| clipped(read, shape[dimension]));
                    let union = match region[dimension].take() {
                        None => read,
                        Some(sofar) => union(sofar, read).unwrap_or(whole),
                    };
                    region[dimension] = Some(clipped(union, shape[dimension]));
                }
            }
        }
        // What nothing reads is computed once, for nothing.
        region.into_iter().map(|d| d.unwrap_or((Index::constant(0), 1))).collect()
    }

    /// What is computed of the result `stage` in loop `axis` of `other`: the elements at the indices
    /// that `other` has there. Refused where more of it is read there.
    fn region_with(
        &mut self,
        stage: Stage,
        (other, axis): (Stage, Axis),
        view: &StageView,
        fixed: &FxHashSet<Var>,
    ) -> Result<Vec<(Index, i64)>, Refused> {
        let schedule = self.schedule;
        let leaves = &schedule.stages[other.0].leaves;
        let position = leaves.iter().position(|leaf| *leaf == axis).ok_or_else(|| {
            let (name, at) = (schedule.stage_name(stage), schedule.stage_name(other));
            format!("`{name}` is computed at `{}`, no loop of `{at}`", schedule.axis_name(axis))
        })?;
        let parts = parts(schedule, other, position);
        let common = schedule.common_dimensions(stage, other);
        let spatial = self.nests.get(&other).map(|nest| nest.spatial.clone()).unwrap_or_default();
        let mut region = Vec::with_capacity(view.shape.len());
        for (dimension, &extent) in view.shape.iter().enumerate() {
            let part = schedule.axes(other).get(dimension).map(|axis| parts[axis]);
            region.push(match (part, spatial.get(dimension)) {
                (Some(Part::Tile(count)), Some(index)) if common[dimension] => {
                    let interval = self.indices.interval(index, |var| fixed.contains(&var));
                    clipped((interval.min, count), extent)
                }
                _ => (Index::constant(0), extent),
            });
        }
        let is_read = self.body.results(view.op).any(|result| self.reads.contains_key(&result));
        if is_read {
            let read = self.region(view.op, &view.shape, fixed);
            let covers = |(whole, part): (&(Index, i64), &(Index, i64))| {
                let apart = part.0.difference(&whole.0).as_constant();
                apart.is_some_and(|apart| apart >= 0 && apart.saturating_add(part.1) <= whole.1)
            };
            if !region.iter().zip(&read).all(covers) {
                let (name, at) = (schedule.stage_name(stage), schedule.axis_name(axis));
                return Err(format!(
                    "`{name}` is a result, and an iteration of `{at}` reads more of it than it \
                     computes"
                ));
            }
        }
        Ok(region)
    }

    fn nest(&mut self, stage: Stage, view: &StageView) -> Result<Nest, Refused> {
        let state = &self.schedule.stages[stage.0];
        let region: Vec<(Index, i64)> = match state.attach {
            Attach::At(other, axis) if self.schedule.is_output(stage) => {
                let fixed = self.around(state.attach);
                self.region_with(stage, (other, axis), view, &fixed)?
            }
            Attach::At(..) => {
                let fixed = self.around(state.attach);
                self.region(view.op, &view.shape, &fixed)
            }
            _ => view.shape.iter().map(|extent| (Index::constant(0), *extent)).collect(),
        };
        let (min, extents): (Vec<Index>, Vec<i64>) = region.into_iter().unzip();
        let mut extent_of: FxHashMap<Axis, i64> = FxHashMap::default();
        let all = extents.iter().chain(&view.reduction);
        extent_of.extend(state.roots.iter().copied().zip(all.copied()));
        for relation in &state.relations {
            match *relation {
                Relation::Split { parent, outer, inner, factor } => {
                    let extent = extent_of[&parent];
                    let factor = factor.min(extent.max(1));
                    extent_of.insert(outer, extent / factor + i64::from(extent % factor != 0));
                    extent_of.insert(inner, factor);
                }
                Relation::Fuse { outer, inner, fused } => {
                    let product = extent_of[&outer].checked_mul(extent_of[&inner]);
                    let Some(product) = product else {
                        return Err(format!("the loops of `{}` are too long", state.name));
                    };
                    extent_of.insert(fused, product);
                }
            }
        }
        let mut index_of: FxHashMap<Axis, Index> = FxHashMap::default();
        let mut loops = Vec::new();
        for &axis in &state.leaves {
            let extent = extent_of[&axis];
            let var = (extent != 1).then(|| self.indices.var(extent));
            let index = var.map_or(Index::constant(0), |var| self.indices.of_var(var));
            index_of.insert(axis, index);
            loops.push(Loop { axis, var, extent });
        }
        if loops.len() > MAX_DEPTH {
            return Err(format!("`{}` has over {MAX_DEPTH} loops", state.name));
        }
        let mut guards = Vec::new();
        for relation in state.relations.iter().rev() {
            match *relation {
                Relation::Split { parent, outer, inner, .. } => {
                    let (extent, factor) = (extent_of[&parent], extent_of[&inner]);
                    let index = index_of[&inner].plus_scaled(&index_of[&outer], factor);
                    if extent_of[&outer].saturating_mul(factor) > extent {
                        guards.push(Guard::new(index.clone(), extent));
                    }
                    index_of.insert(parent, index);
                }
                Relation::Fuse { outer, inner, fused } => {
                    let (index, extent) = (index_of[&fused].clone(), extent_of[&inner].max(1));
                    index_of.insert(outer, self.indices.quotient(&index, extent));
                    index_of.insert(inner, self.indices.remainder(&index, extent));
                }
            }
        }
        let mut roots = state.roots.iter().map(|axis| index_of[axis].clone());
        let spatial: Vec<Index> =
            min.iter().zip(&mut roots).map(|(min, root)| min.sum(&root)).collect();
        assert_eq!(spatial.len(), min.len(), "a loop for each dimension");
        let reduction: Vec<Index> = roots.collect();
        for (index, &extent) in spatial.iter().zip(&view.shape) {
            let Range { low, high } = self.indices.range(index);
            if matches!(state.attach, Attach::At(..)) && high >= extent {
                guards.push(Guard::new(index.clone(), extent));
            }
            if low < 0 {
                guards.push(Guard::new(index.scaled(-1), 1));
            }
        }
        let mut limits = Vec::new();
        if !view.counts.is_empty() {
            // Nothing lies beyond open counts.
            let loose = !are_open(&self.schedule.counts) && self.is_harmless(view);
            for (axis, index) in spatial.iter().chain(&reduction).enumerate() {
                let Some(count) = view.count(axis) else { continue };
                let count = self.indices.of_var(self.counts[count]);
                let reduced = axis >= spatial.len();
                let list = if reduced { &mut limits } else { &mut guards };
                let loose = loose && !reduced;
                list.push(Guard { index: index.difference(&count), bound: 0, loose });
            }
        }
        for limit in &state.limits {
            let places = state.roots.iter().zip(spatial.iter().chain(&reduction));
            let terms = limit.index.iter().filter_map(|(axis, times)| {
                places.clone().find(|(root, _)| *root == axis).map(|(_, index)| (index, *times))
            });
            let index =
                terms.fold(Index::default(), |sum, (index, times)| sum.plus_scaled(index, times));
            let index = match limit.count {
                Some(count) => index.difference(&self.indices.of_var(self.counts[count])),
                None => index,
            };
            limits.push(Guard::new(index, limit.bound));
        }
        let op = view.op;
        let call = None;
        Ok(Nest { stage, op, loops, spatial, reduction, min, extents, guards, limits, call })
    }
}

impl Bounds<'_> {
    /// Whether elements of `view` beyond its counts may be computed: where that reads within tensors
    /// whatever they hold, and checks nothing.
    fn is_harmless(&self, view: &StageView) -> bool {
        if view.scatters {
            return false;
        }
        let mut indices = self.schedule.indices(self.body);
        let mut index = |extent: &i64| {
            let var = indices.var(*extent);
            indices.of_var(var)
        };
        let args: Vec<Index> = view.shape.iter().chain(&view.reduction).map(&mut index).collect();
        let block = self.body.region_block(view.op, 0);
        let known = index_values(self.body, block, &args, &mut indices);
        self.body.walk_block(block).all(|op| {
            let load = self.body.view::<Load>(op).map(|load| (load.tensor, load.indices));
            let load = load
                .or_else(|| self.body.view::<LoadIf>(op).map(|load| (load.tensor, load.indices)));
            let Some((tensor, places)) = load else { return !self.body.is::<Check>(op) };
            let shape = tensor_of(self.body, tensor).known_shape();
            let shape = shape.expect("tensors that stages read have known extents");
            places.iter().zip(&shape).all(|(place, extent)| {
                known.get(place).is_some_and(|index| {
                    let Range { low, high } = indices.range(index);
                    low >= 0 && high < *extent
                })
            })
        })
    }
}

/// What `view` reads where `args` are the indices of its dimensions and then of its reduction: each time a tensor and where,
/// by dimension; `None` where that is no sum of these.
pub(crate) fn reads(
    body: &Body,
    view: &StageView,
    args: &[Index],
    indices: &mut Indices,
) -> Vec<(ValueId, Vec<Option<Index>>)> {
    let mut reads = Vec::new();
    for (block, axes) in view.blocks(body) {
        let known = index_values(body, block, &args[axes], indices);
        for op in body.block_ops(block) {
            let load = body.view::<Load>(op).map(|load| (load.tensor, load.indices));
            let load =
                load.or_else(|| body.view::<LoadIf>(op).map(|load| (load.tensor, load.indices)));
            if let Some((tensor, places)) = load {
                let places = places.iter().map(|place| known.get(place).cloned()).collect();
                reads.push((tensor, places));
            }
        }
    }
    reads
}

/// The extents of the buffer of `nest`, padded as `storage_align` asks.
pub(crate) fn buffer_extents(schedule: &Schedule, nest: &Nest) -> Vec<i64> {
    let state = &schedule.stages[nest.stage.0];
    let mut extents = nest.extents.clone();
    for dimension in (0..extents.len().saturating_sub(1)).rev() {
        let alignment = state.alignments.iter().find(|(axis, ..)| *axis == state.roots[dimension]);
        let Some((_, factor, offset)) = alignment else { continue };
        let inner: i64 = extents[dimension + 2..].iter().product();
        let padded = (extents[dimension + 1]..extents[dimension + 1] + factor)
            .find(|extent| extent.wrapping_mul(inner).rem_euclid(*factor) == *offset);
        // Where no padding brings that about, none is needed.
        extents[dimension + 1] = padded.unwrap_or(extents[dimension + 1]);
    }
    extents
}

/// The part of a region that lies within a tensor, as far as that is known.
fn clipped((min, extent): (Index, i64), limit: i64) -> (Index, i64) {
    let Some(first) = min.as_constant() else {
        return if extent >= limit { (Index::constant(0), limit) } else { (min, extent) };
    };
    let (low, high) = (first.clamp(0, limit), first.saturating_add(extent).clamp(0, limit));
    (Index::constant(low), (high - low).max(1).min(limit))
}

/// The least region that holds two; `None` where they are not a constant apart.
pub(crate) fn union(a: (Index, i64), b: (Index, i64)) -> Option<(Index, i64)> {
    let apart = b.0.difference(&a.0).as_constant()?;
    let (low, high) = (apart.min(0), a.1.max(apart.saturating_add(b.1)));
    Some((a.0.plus(low), high - low))
}
