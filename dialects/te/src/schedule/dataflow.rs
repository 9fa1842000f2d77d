//! Primitives that add stages: they change what is stored, never what is computed.

use ir_core::{AttrDict, InsertPoint, OpFields, OpId, OpParts, Symbol, Type, ValueId, ValueMap};
use rustc_hash::FxHashMap;

use super::ops::{self, Handle};
use super::{Axis, Limit, Refused, Relation, Schedule, Stage};
use crate::compute::counts::{are_open, open_counts};
use crate::compute::{
    Compute, Expression, Load, LoadIf, Reduce, Stage as StageView, Tensor, Yield,
};
use crate::loops::Scope;

/// The counts of the first `dimensions` axes of `stage`, before as many that are whole.
fn with_whole(stage: &StageView, dimensions: usize, whole: usize) -> Vec<i64> {
    let counts = stage.counts.iter().take(dimensions).copied();
    let counts: Vec<i64> = counts.chain(std::iter::repeat_n(-1, whole)).collect();
    if counts.iter().all(|count| *count < 0) { vec![] } else { counts }
}

impl Schedule {
    /// Computes `stage` into a buffer of `scope` first and copies it from there: returns the stage
    /// that computes, of which the loops are still as declared. With
    /// [`compute_at`](Schedule::compute_at), a tile is finished in registers before it is stored.
    /// Refused for a stage of several results and for one whose loops were changed.
    pub fn cache_write(&mut self, stage: Stage, scope: Scope) -> Result<Stage, Refused> {
        self.transact(|schedule| schedule.write_cache(stage, scope))
    }

    fn write_cache(&mut self, stage: Stage, scope: Scope) -> Result<Stage, Refused> {
        let op = self.stages[stage.0].op;
        self.is_unscheduled(stage)?;
        if self.update {
            return Err("the function combines into its result".to_string());
        }
        if self.body.result_count(op) != 1 {
            return Err(format!("`{}` has several results", self.stage_name(stage)));
        }
        let result = self.body.result(op, 0);
        let Some(tensor) = self.tensor(result) else {
            return Err(format!("`{}` has an unknown shape", self.stage_name(stage)));
        };
        let name = self.fresh_stage_name(&format!("{}_{}", self.stage_name(stage), scope.name()));
        let cache = self.body.copy_op(op, InsertPoint::Before(op), &mut ValueMap::default());
        let attrs = self.body.attrs(cache).with("name", &name);
        self.body.set_attrs(cache, attrs);
        let cached = Tensor { value: self.body.result(cache, 0), ..tensor };
        self.set_name(cached.value, &name);
        let stage_name = self.stage_name(stage).to_string();
        let copy = self.insert_copy(op, &stage_name, &cached);
        let copied = self.body.result(copy, 0);
        self.body.replace_all_uses(result, copied);
        self.body.erase(op);
        let limits = self.stages[stage.0].limits.clone();
        let roots = self.stages[stage.0].roots.clone();
        let view = self.view(copy)?;
        self.reset_axes(stage, &view);
        let view = self.view(cache)?;
        let cache = self.add_stage(&view);
        self.stages[cache.0].scope = Some(scope);
        let moved: FxHashMap<Axis, Axis> =
            roots.into_iter().zip(self.stages[cache.0].roots.iter().copied()).collect();
        self.stages[cache.0].limits = limits.iter().map(|limit| limit.renamed(&moved)).collect();
        let results = self.handles_with(cache, stage);
        self.record(&ops::CacheWrite { stage: stage.into(), scope }, &results);
        Ok(cache)
    }

    /// The operations by which `reader` reads `tensor`, a stage or a parameter by name. Refused where there are none.
    pub(super) fn loads_of(&self, tensor: &str, reader: Stage) -> Result<Vec<OpId>, Refused> {
        let value = self.value_of(tensor)?;
        let view = self.view(self.stages[reader.0].op)?;
        let is_load = |load: &OpId| {
            let loaded = self.body.view::<Load>(*load).map(|load| load.tensor);
            let loaded = loaded.or_else(|| self.body.view::<LoadIf>(*load).map(|load| load.tensor));
            loaded == Some(value)
        };
        let blocks = view.blocks(&self.body).into_iter();
        let loads: Vec<OpId> =
            blocks.flat_map(|(block, _)| self.body.block_ops(block).filter(is_load)).collect();
        match loads.is_empty() {
            true => Err(format!("`{}` does not read `{tensor}`", self.stage_name(reader))),
            false => Ok(loads),
        }
    }

    /// Copies `tensor`, a stage or a parameter by name, into a buffer of `scope` from which
    /// `readers` read it: returns the stage that copies. Refused where one of `readers` does not
    /// read it.
    pub fn cache_read(
        &mut self,
        tensor: &str,
        scope: Scope,
        readers: &[Stage],
    ) -> Result<Stage, Refused> {
        self.transact(|schedule| schedule.read_cache(tensor, scope, readers))
    }

    fn read_cache(
        &mut self,
        tensor: &str,
        scope: Scope,
        readers: &[Stage],
    ) -> Result<Stage, Refused> {
        let value = self.value_of(tensor)?;
        let Some(source) = self.tensor(value) else {
            return Err(format!("`{tensor}` has an unknown shape"));
        };
        let mut loads: Vec<OpId> = Vec::new();
        for &reader in readers {
            loads.extend(self.loads_of(tensor, reader)?);
        }
        let ops = readers.iter().map(|reader| self.stages[reader.0].op);
        let first = ops.reduce(|a, b| if self.body.is_before(b, a) { b } else { a });
        let Some(first) = first else { return Err("expected a reader".to_string()) };
        let name = self.fresh_stage_name(&format!("{tensor}_{}", scope.name()));
        let copy = self.insert_copy(first, &name, &source);
        let copied = self.body.result(copy, 0);
        for load in loads {
            let operands: Vec<ValueId> = self.body.operands(load).collect();
            for (index, operand) in operands.into_iter().enumerate() {
                if operand == value {
                    self.body.set_operand(load, index, copied);
                }
            }
        }
        let view = self.view(copy)?;
        let stage = self.add_stage(&view);
        self.stages[stage.0].scope = Some(scope);
        let readers = readers.iter().copied().map(Handle::Stage).collect();
        let results = self.handles(stage);
        self.record(&ops::CacheRead { readers, tensor: tensor.to_string(), scope }, &results);
        Ok(stage)
    }

    /// Factors the loop `axis` out of the reduction of its stage: returns a new stage that reduces
    /// over the other axes, with `axis` as its last dimension; the stage itself then reduces over
    /// `axis` alone. What was a chain of additions becomes several that can run side by side.
    /// Refused where the loops of the stage were changed other than by splitting and fusing those of
    /// its reduction, and where a loop was fused whose split left a rest.
    pub fn rfactor(&mut self, axis: Axis) -> Result<Stage, Refused> {
        self.transact(|schedule| schedule.factor_reduction(axis))
    }

    fn factor_reduction(&mut self, axis: Axis) -> Result<Stage, Refused> {
        let (stage, _) = self.leaf(axis)?;
        let state = self.stages[stage.0].clone();
        let name = state.name.clone();
        if !self.is_reduction(axis) {
            return Err(format!("`{}` is not reduced", self.axis_name(axis)));
        }
        let Some(reduce) = self.body.view::<Reduce>(state.op) else {
            return Err(format!("`{name}` is no reduction"));
        };
        if self.body.result_count(state.op) != 1 || self.body.regions(state.op).len() != 1 {
            return Err(format!("`{name}` has several results, or a combiner of its own"));
        }
        if let Some((_, intrinsic)) = &state.tensorized {
            return Err(format!("`{name}` is tensorized with `@{}`", intrinsic.name));
        }
        let others: Vec<Axis> = state
            .leaves
            .iter()
            .copied()
            .filter(|leaf| self.is_reduction(*leaf) && *leaf != axis)
            .collect();
        let spatial = reduce.shape.len();
        if state.leaves.iter().filter(|leaf| !self.is_reduction(**leaf)).ne(&state.roots[..spatial])
        {
            return Err(format!("the spatial loops of `{name}` were changed: factor first"));
        }
        let limits = self.limits_by_loops(&state)?;

        let mut shape = reduce.shape.clone();
        shape.push(self.extent(axis));
        let extents: Vec<i64> = others.iter().map(|axis| self.extent(*axis)).collect();
        let partial_name = self.fresh_stage_name(&format!("{name}_partial"));
        let Some(dtype) = self.tensor(self.body.result(state.op, 0)).map(|tensor| tensor.dtype)
        else {
            return Err(format!("`{name}` has an unknown shape"));
        };
        let view = self.view(state.op)?;
        let fields = Reduce {
            name: partial_name.clone(),
            shape: shape.clone(),
            extents,
            counts: with_whole(&view, spatial, 1 + others.len()),
            ..reduce.clone()
        };
        let types = [Type::tensor(shape.iter().copied(), dtype)];
        let attrs = <Reduce as OpFields<ValueId>>::attrs(&fields);
        let partial =
            self.insert_stage(state.op, <Reduce as OpFields<ValueId>>::NAME, attrs, &types);
        let value = self.body.result(partial, 0);
        self.set_name(value, &partial_name);
        self.fill_factored(&state, spatial, axis, &others, partial);

        let partial_tensor = Tensor { value, shape: shape.into(), dtype };
        let counts = with_whole(&view, spatial, 1);
        let fields = Reduce { extents: vec![self.extent(axis)], counts, ..reduce };
        let types = [self.body.ty(self.body.result(state.op, 0))];
        let attrs = <Reduce as OpFields<ValueId>>::attrs(&fields);
        let whole = self.insert_stage(state.op, <Reduce as OpFields<ValueId>>::NAME, attrs, &types);
        self.fill_copy(whole, spatial + 1, &partial_tensor);
        let (old, new) = (self.body.result(state.op, 0), self.body.result(whole, 0));
        self.set_name(new, &name);
        self.body.replace_all_uses(old, new);
        self.body.erase(state.op);
        let view = self.view(whole)?;
        self.reset_axes(stage, &view);
        let view = self.view(partial)?;
        let partial = self.add_stage(&view);
        let before = state.roots[..spatial].iter().chain([&axis]).chain(&others).copied();
        let renamed: FxHashMap<Axis, Axis> =
            before.zip(self.stages[partial.0].roots.iter().copied()).collect();
        self.stages[partial.0].limits =
            limits.iter().map(|limit| limit.renamed(&renamed)).collect();
        let results = self.handles_with(partial, stage);
        self.record(&ops::Rfactor { axis: axis.into() }, &results);
        Ok(partial)
    }

    /// Which iterations of the loops of `state` combine elements: its limits, those of splits that
    /// leave a rest, and of axes that end at counts. Refused where such a limit is no sum of loops.
    fn limits_by_loops(&self, state: &super::StageState) -> Result<Vec<Limit>, Refused> {
        let mut sums: FxHashMap<Axis, Vec<(Axis, i64)>> =
            state.leaves.iter().map(|leaf| (*leaf, vec![(*leaf, 1)])).collect();
        let mut limits = Vec::new();
        let sum_of = |sums: &FxHashMap<Axis, Vec<(Axis, i64)>>, axes: &[(Axis, i64)]| {
            let mut sum = Vec::new();
            for (axis, times) in axes {
                let terms = sums.get(axis)?.iter();
                sum.extend(terms.map(|(axis, inner)| (*axis, times.saturating_mul(*inner))));
            }
            Some(sum)
        };
        let refused = |axis: Axis| {
            format!(
                "the rest of `{}` is no sum of loops: fuse before splitting",
                self.axis_name(axis)
            )
        };
        for relation in state.relations.iter().rev() {
            let Relation::Split { parent, outer, inner, factor } = *relation else { continue };
            let (extent, sum) =
                (self.extent(parent), sum_of(&sums, &[(outer, factor), (inner, 1)]));
            if self.extent(outer).saturating_mul(factor) != extent {
                let index = sum.clone().ok_or_else(|| refused(parent))?;
                limits.push(Limit { index, bound: extent, count: None });
            }
            if let Some(sum) = sum {
                sums.insert(parent, sum);
            }
        }
        for limit in &state.limits {
            let index = sum_of(&sums, &limit.index).ok_or_else(|| refused(limit.index[0].0))?;
            limits.push(Limit { index, ..*limit });
        }
        let view = self.view(state.op)?;
        for (position, &axis) in state.roots.iter().enumerate().skip(view.shape.len()) {
            let Some(count) = view.count(position) else { continue };
            let index = sums.get(&axis).cloned().ok_or_else(|| refused(axis))?;
            limits.push(Limit { index, bound: 0, count: Some(count) });
        }
        Ok(limits)
    }

    /// Writes the element of a reduction with `axis` as its last dimension: every reduced index is
    /// put together from the loops that it was split into.
    fn fill_factored(
        &mut self,
        state: &super::StageState,
        spatial: usize,
        axis: Axis,
        others: &[Axis],
        partial: OpId,
    ) {
        let from = self.body.region_block(state.op, 0);
        let to = self.body.region_block(partial, 0);
        let index = Type::scalar(ir_core::DType::INT64);
        let mut values: FxHashMap<Axis, ValueId> = FxHashMap::default();
        let order = state.roots[..spatial].iter().chain([&axis]).chain(others);
        for &axis in order {
            let arg = self.body.add_block_arg(to, index);
            let name = self.axis_name(axis).to_string();
            self.set_name(arg, &name);
            values.insert(axis, arg);
        }
        let extents: FxHashMap<Axis, i64> = state
            .relations
            .iter()
            .flat_map(|relation| match *relation {
                Relation::Split { inner, .. } | Relation::Fuse { inner, .. } => Some(inner),
            })
            .map(|axis| (axis, self.axes[axis.0].extent))
            .collect();
        let mut e = Expression::new(&mut self.body, to);
        for relation in state.relations.iter().rev() {
            match *relation {
                Relation::Split { parent, outer, inner, .. } => {
                    let outer = e.mul_index(values[&outer], extents[&inner]);
                    let value = e.add(outer, values[&inner]);
                    values.insert(parent, value);
                }
                Relation::Fuse { outer, inner, fused } => {
                    let extent = e.index(extents[&inner].max(1));
                    let (outer_value, inner_value) =
                        (e.floor_div(values[&fused], extent), e.floor_mod(values[&fused], extent));
                    values.insert(outer, outer_value);
                    values.insert(inner, inner_value);
                }
            }
        }
        let args = self.body.block_args(from).to_vec();
        let mut map: ValueMap =
            args.into_iter().zip(state.roots.iter().map(|root| values[root])).collect();
        self.body.copy_block_ops(from, InsertPoint::End(to), &mut map);
    }

    /// Does what `change` does, or nothing: not where it is refused, nor where a stage would then
    /// be read where it is not computed.
    pub(super) fn transact<T>(
        &mut self,
        change: impl FnOnce(&mut Schedule) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let before = self.clone();
        let result = change(self).and_then(|done| self.check().map(|()| done));
        result.inspect_err(|_| *self = before)
    }

    fn is_unscheduled(&self, stage: Stage) -> Result<(), Refused> {
        let state = &self.stages[stage.0];
        let plain = state.leaves.iter().all(|axis| {
            let axis = &self.axes[axis.0];
            axis.kind == crate::loops::ForKind::Serial
                && axis.pragmas.is_empty()
                && axis.prefetches.is_empty()
        });
        if state.relations.is_empty()
            && state.leaves == self.declared(&state.roots)
            && plain
            && state.tensorized.is_none()
        {
            return Ok(());
        }
        Err(format!("the loops of `{}` were changed: cache first", state.name))
    }

    fn tensor(&self, value: ValueId) -> Option<Tensor> {
        let tensor = self.body.ty(value).as_tensor()?;
        let shape = tensor.known_shape()?;
        Some(Tensor { value, shape, dtype: tensor.dtype })
    }

    /// The tensor called `name`: the result of a stage, or a parameter.
    fn value_of(&self, name: &str) -> Result<ValueId, Refused> {
        if let Some(stage) = self.stage(name) {
            return Ok(self.body.result(self.stages[stage.0].op, 0));
        }
        let params = self.body.block_args(self.body.entry());
        let named = params.iter().find(|param| {
            self.body.name_hint(**param).name.is_some_and(|hint| hint.as_str() == name)
        });
        named.copied().ok_or_else(|| format!("no stage or parameter is called `{name}`"))
    }

    /// `stage` and its axes.
    pub(super) fn handles(&self, stage: Stage) -> Vec<Handle> {
        let axes = self.axes(stage).iter().copied().map(Handle::Axis);
        std::iter::once(Handle::Stage(stage)).chain(axes).collect()
    }

    /// `made` and its axes, and the new axes of `rewritten`.
    pub(super) fn handles_with(&self, made: Stage, rewritten: Stage) -> Vec<Handle> {
        let axes = self.axes(rewritten).iter().copied().map(Handle::Axis);
        self.handles(made).into_iter().chain(axes).collect()
    }

    /// The names that [`cache_read`](Schedule::cache_read) takes: stages, then parameters.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        let params = self.body.block_args(self.body.entry()).iter();
        let params = params.filter_map(|param| Some(self.body.name_hint(*param).name?.as_str()));
        self.stages().map(|stage| self.stage_name(stage)).chain(params)
    }

    fn fresh_stage_name(&self, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 1;
        while self.value_of(&name).is_ok() {
            name = format!("{base}{number}");
            number += 1;
        }
        name
    }

    fn view(&self, op: OpId) -> Result<StageView, Refused> {
        StageView::of(&self.body, op).ok_or_else(|| "the stage is malformed".to_string())
    }

    fn set_name(&mut self, value: ValueId, name: &str) {
        let hint = ir_core::NameHint { name: Some(Symbol::new(name)), ..Default::default() };
        self.body.set_name_hint(value, hint);
    }

    fn insert_stage(&mut self, before: OpId, name: &str, attrs: AttrDict, types: &[Type]) -> OpId {
        let parts = OpParts::new(name, &[], types).attrs(attrs).regions(1);
        self.body.insert_op(InsertPoint::Before(before), parts)
    }

    /// Inserts a stage called `name` that copies `source`.
    fn insert_copy(&mut self, before: OpId, name: &str, source: &Tensor) -> OpId {
        let stage =
            self.body.defining_op(source.value).and_then(|op| StageView::of(&self.body, op));
        let counts = match &stage {
            Some(stage) => with_whole(stage, source.shape.len(), 0),
            // What is beyond a count of a parameter is there, whatever it is, unless the count is open.
            None if are_open(&self.counts) => open_counts(&source.shape),
            None => vec![],
        };
        let fields = Compute {
            name: name.to_string(),
            shape: source.shape.to_vec(),
            dtype: source.dtype,
            counts,
        };
        let attrs = <Compute as OpFields<ValueId>>::attrs(&fields);
        let types = [Type::tensor(source.shape.iter().copied(), source.dtype)];
        let copy = self.insert_stage(before, <Compute as OpFields<ValueId>>::NAME, attrs, &types);
        let value = self.body.result(copy, 0);
        self.set_name(value, name);
        self.fill_copy(copy, source.shape.len(), source);
        copy
    }

    /// Writes the element of `stage`: that of `source` at its `indices` indices.
    fn fill_copy(&mut self, stage: OpId, indices: usize, source: &Tensor) {
        let block = self.body.region_block(stage, 0);
        let index = Type::scalar(ir_core::DType::INT64);
        let args: Vec<ValueId> =
            (0..indices).map(|_| self.body.add_block_arg(block, index)).collect();
        let value = Expression::new(&mut self.body, block).load(source, &args);
        let end = OpParts::new(Yield::<ValueId>::NAME, std::slice::from_ref(&value), &[]);
        self.body.insert_op(InsertPoint::End(block), end);
    }
}
