//! How stages walk through memory: what schedule rules decide by.

use ir_core::ValueId;
use rustc_hash::FxHashMap;

use super::state::{Schedule, Stage};
use crate::compute::{Load, LoadIf, Stage as StageView};
use crate::index::values::index_values;
use crate::index::{Index, Var};

/// One load of a stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// What is read.
    pub tensor: ValueId,
    /// By root axis of the stage, how many elements further the next iteration reads, in a tensor
    /// stored in the order of its dimensions; `None` where that differs from place to place.
    pub steps: Vec<Option<i64>>,
    /// By dimension of the tensor, the same in that dimension.
    pub by_dimension: Vec<Vec<Option<i64>>>,
    /// How many elements further the next lane reads, where an axis is taken in vectors.
    pub lane: Option<i64>,
    /// How many lanes that follow one another read the same element before the next one is read, where they
    /// do.
    pub repeats: Option<i64>,
    /// Whether it is read under a condition only.
    pub conditional: bool,
    /// The number of the first load of the stage that reads the same element, its own where none
    /// does.
    pub same: usize,
}

impl Access {
    /// Whether what is read depends on root axis `axis`.
    pub fn depends_on(&self, axis: usize) -> bool {
        self.steps.get(axis).is_none_or(|step| *step != Some(0))
    }
}

impl Schedule {
    /// The loads of `stage`, in program order.
    pub fn accesses(&self, stage: Stage) -> Vec<Access> {
        self.accesses_in_vectors(stage, usize::MAX, 1)
    }

    /// The loads of `stage` where root axis `axis` is taken in vectors of `lanes`: its steps are
    /// then from vector to vector. An index such as `⌊j / 16⌋` is regular only so.
    pub fn accesses_in_vectors(&self, stage: Stage, axis: usize, lanes: i64) -> Vec<Access> {
        let body = self.body();
        let view = StageView::of(body, self.stage_op(stage)).expect("a handle names a stage");
        let mut indices = self.indices(body);
        let lane = indices.var(lanes);
        let mut vars: Vec<Var> = Vec::new();
        let mut args: Vec<Index> = Vec::new();
        for (position, &extent) in view.shape.iter().chain(&view.reduction).enumerate() {
            let in_vectors = position == axis;
            let var = indices.var(if in_vectors { extent / lanes + 1 } else { extent });
            vars.push(var);
            let index = indices.of_var(var);
            args.push(match in_vectors {
                true => indices.of_var(lane).plus_scaled(&index, lanes),
                false => index,
            });
        }
        let spatial = vars.len();
        vars.push(lane);
        let mut accesses: Vec<Access> = Vec::new();
        let mut read = FxHashMap::default();
        for (block, axes) in view.blocks(body) {
            let known = index_values(body, block, &args[axes], &mut indices);
            for op in body.block_ops(block) {
                let load = body.view::<Load>(op).map(|load| (load.tensor, load.indices, false));
                let load = load.or_else(|| {
                    body.view::<LoadIf>(op).map(|load| (load.tensor, load.indices, true))
                });
                let Some((tensor, places, conditional)) = load else { continue };
                let shape = body.ty(tensor).as_tensor().and_then(|tensor| tensor.known_shape());
                let shape = shape.expect("tensors that stages read have known extents");
                let by_dimension: Vec<Vec<Option<i64>>> = places
                    .iter()
                    .map(|place| {
                        let index = known.get(place);
                        vars.iter().map(|var| indices.step(index?, *var)).collect()
                    })
                    .collect();
                let mut place = Some(Index::default());
                let mut stride = 1i64;
                for (index, extent) in places.iter().zip(&shape).rev() {
                    let index = known.get(index);
                    place = place.zip(index).map(|(place, index)| place.plus_scaled(index, stride));
                    stride = stride.saturating_mul(*extent);
                }
                let known_place = place.map(|place| indices.joined(&place));
                let step = |var: &Var| indices.step(known_place.as_ref()?, *var);
                let mut steps: Vec<Option<i64>> = vars.iter().map(step).collect();
                // Places as far as they are known, and else as values.
                let place: Vec<Result<Index, ValueId>> =
                    places.iter().map(|place| known.get(place).cloned().ok_or(*place)).collect();
                let same = *read.entry((tensor, place)).or_insert(accesses.len());
                let repeats = known_place.and_then(|place| indices.repeats(&place, vars[spatial]));
                let lane = steps.split_off(spatial).pop().flatten();
                accesses.push(Access {
                    lane,
                    repeats,
                    tensor,
                    steps,
                    by_dimension,
                    conditional,
                    same,
                });
            }
        }
        accesses
    }

    /// The stages that read `stage`, each once, in program order.
    pub fn readers(&self, stage: Stage) -> Vec<Stage> {
        let body = self.body();
        let results: Vec<ValueId> = body.results(self.stage_op(stage)).collect();
        let users = results.iter().flat_map(|result| body.uses(*result));
        let ops: rustc_hash::FxHashSet<_> =
            users.filter_map(|(user, _)| body.ancestor_in(user, body.entry())).collect();
        let mut readers: Vec<Stage> =
            self.stages().filter(|stage| ops.contains(&self.stage_op(*stage))).collect();
        readers.sort_by(|a, b| {
            let (a, b) = (self.stage_op(*a), self.stage_op(*b));
            body.is_before(b, a).cmp(&body.is_before(a, b))
        });
        readers
    }

    /// The stage of which `tensor` is a result; `None` for a parameter.
    pub fn stage_of(&self, tensor: ValueId) -> Option<Stage> {
        let op = self.body().defining_op(tensor)?;
        self.stages().find(|stage| self.stage_op(*stage) == op)
    }
}
