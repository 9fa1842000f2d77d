//! Loops that are replaced by a call.
//!
//! The loops of a stage from a certain one inwards compute what an intrinsic computes on parts of
//! buffers where their extents are its extents, the two elements are equal expressions, and every
//! access lies in memory as the intrinsic's does: *its place in its buffer, row by row, less the
//! place of the intrinsic's access in its parameter is the same number in all these iterations.*
//! That number is where the part starts. So nothing needs to be known of shapes: a row of a
//! matrix, a packed tile and a window of a vector are told apart by their strides alone.

use ir_core::{Body, OpId, Symbol, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::{Nest, Nests, buffer_extents};
use super::flatten::Flat;
use crate::compute::tensor_of;
use crate::compute::{Intrinsic, Load, LoadIf, Stage as StageView, Yield, is_same_kind};
use crate::index::values::index_values;
use crate::index::{Index, Indices, Range, Var};
use crate::loops::ForKind;
use crate::scalar::Check;
use crate::schedule::state::{Attach, Refused, Schedule};

/// A call in the place of loops.
#[derive(Clone, Debug)]
pub(crate) struct PartCall {
    /// The position of the outermost loop that it replaces.
    pub(crate) position: usize,
    pub(crate) kernel: Symbol,
    /// Whether it combines into the result.
    pub(crate) update: bool,
    /// The tensors, inputs first, each with where its part starts.
    pub(crate) parts: Vec<(ValueId, Index)>,
}

/// Finds the calls of all tensorized stages. Refused where one does not compute what its intrinsic
/// does.
pub(crate) fn tensorize(
    schedule: &Schedule,
    flat: &Flat,
    nests: &mut Nests,
) -> Result<(), Refused> {
    for stage in schedule.stages() {
        let Some((axis, intrinsic)) = &schedule.stages[stage.0].tensorized else { continue };
        let name = schedule.stage_name(stage);
        let Some(at) = nests.nests.iter().position(|nest| nest.stage == stage) else {
            return Err(format!("`{name}` is tensorized, so it needs loops of its own"));
        };
        let nest = &nests.nests[at];
        let Some(position) = nest.loops.iter().position(|level| level.axis == *axis) else {
            let axis = schedule.axis_name(*axis);
            return Err(format!("`{axis}` is tensorized, and no longer a loop of `{name}`"));
        };
        let call = Matcher {
            schedule,
            flat,
            intrinsic,
            nests: &nests.nests,
            nest,
            inner: nest.loops[position..].iter().filter_map(|level| level.var).collect(),
            indices: &mut nests.indices,
            parts: FxHashMap::default(),
        }
        .call(position)?;
        nests.nests[at].call = Some(call);
    }
    Ok(())
}

struct Matcher<'a> {
    schedule: &'a Schedule,
    flat: &'a Flat,
    intrinsic: &'a Intrinsic,
    nests: &'a [Nest],
    nest: &'a Nest,
    /// The variables of the loops that are replaced.
    inner: Vec<Var>,
    indices: &'a mut Indices,
    /// By tensor of the intrinsic: that of the function, and where the part starts.
    parts: FxHashMap<ValueId, (ValueId, Index)>,
}

impl Matcher<'_> {
    fn call(mut self, position: usize) -> Result<PartCall, Refused> {
        self.check_loops(position)?;
        let axes = self.axes(position)?;
        self.check_guards()?;
        self.expression(&axes)?;
        let (intrinsic, nest) = (self.intrinsic, self.nest);
        let body = &intrinsic.body;
        let result = (self.flat.body.result(nest.op, 0), body.result(intrinsic.stage, 0));
        self.access(result.0, &nest.spatial, result.1, &axes[..axes.len().min(self.rank())])?;
        let tensors = body.block_args(body.entry()).iter().chain([&result.1]);
        let parts = tensors.map(|tensor| self.parts.get(tensor).cloned());
        let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
            return Err(format!("not every parameter of `@{}` is read", intrinsic.name));
        };
        let (kernel, update) = (intrinsic.name, intrinsic.update);
        Ok(PartCall { position, kernel, update, parts })
    }

    /// The dimensions of the intrinsic's result.
    fn rank(&self) -> usize {
        let stage = StageView::of(&self.intrinsic.body, self.intrinsic.stage);
        stage.expect("an intrinsic is one stage").shape.len()
    }

    fn check_loops(&self, position: usize) -> Result<(), Refused> {
        let Matcher { schedule, nest, intrinsic, .. } = self;
        let kind = |axis: &crate::schedule::state::Axis| schedule.axes[axis.0].kind;
        for (number, level) in nest.loops.iter().enumerate() {
            let name = schedule.axis_name(level.axis);
            let kind = kind(&level.axis);
            let fits = match number < position {
                true => kind != ForKind::Vectorized,
                // How the initialization runs.
                false => !matches!(kind, ForKind::Parallel | ForKind::Thread),
            };
            if !fits {
                let (place, kind) = (if number < position { "around" } else { "in" }, kind.name());
                let call = intrinsic.name;
                return Err(format!("`{name}`, a loop {place} the call of `@{call}`, is {kind}"));
            }
            if number < position
                && !intrinsic.update
                && level.var.is_some()
                && schedule.is_reduction(level.axis)
            {
                return Err(format!(
                    "`{name}` is reduced around the call of `@{0}`, which starts anew each time: \
                     give `@{0}` the attribute `update = True`",
                    intrinsic.name
                ));
            }
        }
        let replaced = &nest.loops[position..];
        let inside = schedule.stages.iter().find(|stage| match stage.attach {
            Attach::At(_, axis) => replaced.iter().any(|level| level.axis == axis),
            _ => false,
        });
        match inside {
            Some(stage) => Err(format!(
                "`{}` is computed inside of the loops that `@{}` replaces",
                stage.name, intrinsic.name
            )),
            None => Ok(()),
        }
    }

    /// The axes of the intrinsic, as indices of the loops: its dimensions are the spatial loops
    /// from the outermost, and likewise those of the reduction; what has one iteration is left out.
    fn axes(&mut self, position: usize) -> Result<Vec<Index>, Refused> {
        let (schedule, nest, intrinsic) = (self.schedule, self.nest, self.intrinsic);
        let refused = || format!("`@{}` is no stage", intrinsic.name);
        let view = StageView::of(&intrinsic.body, intrinsic.stage).ok_or_else(refused)?;
        let loops = |reduction: bool| {
            let levels = nest.loops[position..].iter();
            let levels = levels.filter(move |l| schedule.is_reduction(l.axis) == reduction);
            levels.filter_map(|level| Some((level.var?, level.extent))).collect::<Vec<_>>()
        };
        let mut axes = Vec::new();
        for (extents, loops, verbs) in [
            (&view.shape, loops(false), ["run over", "runs over"]),
            (&view.reduction, loops(true), ["reduce", "reduces"]),
        ] {
            let long = extents.iter().copied().filter(|extent| *extent != 1);
            if !long.clone().eq(loops.iter().map(|(_, extent)| *extent)) {
                let found: Vec<i64> = loops.iter().map(|(_, extent)| *extent).collect();
                let expected: Vec<i64> = long.collect();
                return Err(format!(
                    "the loops from `{}` inwards {} {found:?}, and `@{}` {} {expected:?}",
                    schedule.axis_name(nest.loops[position].axis),
                    verbs[0],
                    intrinsic.name,
                    verbs[1]
                ));
            }
            let mut vars = loops.into_iter();
            for extent in extents {
                let var = if *extent == 1 { None } else { vars.next() };
                axes.push(var.map_or(Index::constant(0), |(var, _)| self.indices.of_var(var)));
            }
        }
        Ok(axes)
    }

    /// Refuses loops that would be cut short.
    fn check_guards(&self) -> Result<(), Refused> {
        let Nest { guards, limits, .. } = self.nest;
        let limits = limits.iter().map(|guard| (guard, true));
        for (guard, is_limit) in guards.iter().map(|guard| (guard, false)).chain(limits) {
            let inside = self.indices.vars(&guard.index).any(|var| self.inner.contains(&var));
            // What starts anew inside cannot leave out what a limit around excludes.
            let matters = inside || (is_limit && !self.intrinsic.update);
            if matters && self.indices.range(&guard.index).high >= guard.bound {
                return Err(format!(
                    "the loops that `@{}` replaces are cut short at the border of `{}`: split by \
                     factors that divide",
                    self.intrinsic.name,
                    self.schedule.stage_name(self.nest.stage)
                ));
            }
        }
        Ok(())
    }

    /// Requires that the elements are equal but for where they are read, and finds the parts that
    /// are read.
    fn expression(&mut self, axes: &[Index]) -> Result<(), Refused> {
        let (own, other) = (&self.flat.body, &self.intrinsic.body);
        let (op, stage) = (self.nest.op, self.intrinsic.stage);
        let stage_name = self.schedule.stage_name(self.nest.stage);
        let differs = |what: String, expected: String| {
            Err(format!(
                "`{stage_name}` has {what} where `@{}` has {expected}",
                self.intrinsic.name
            ))
        };
        if own.result_count(op) != 1 || !is_same_kind(own, op, other, stage) {
            return differs(describe(own, op), describe(other, stage));
        }
        let (block, inside) = (own.region_block(op, 0), other.region_block(stage, 0));
        let args: Vec<Index> =
            self.nest.spatial.iter().chain(&self.nest.reduction).cloned().collect();
        let known = index_values(own, block, &args, self.indices);
        let theirs = index_values(other, inside, axes, self.indices);
        let yielded = |body: &Body, block| {
            let end = body.last_op(block).and_then(|end| body.view::<Yield>(end));
            end.and_then(|end| end.values.first().copied())
        };
        let ends = yielded(own, block).zip(yielded(other, inside));
        let mut pending: Vec<(ValueId, ValueId)> = ends.into_iter().collect();
        let mut seen: FxHashSet<(ValueId, ValueId)> = FxHashSet::default();
        while let Some((mine, its)) = pending.pop() {
            if !seen.insert((mine, its)) {
                continue;
            }
            let (index, expected) = (known.get(&mine), theirs.get(&its));
            if index.is_some() && index == expected && own.ty(mine) == other.ty(its) {
                continue;
            }
            let (Some(a), Some(b)) = (own.defining_op(mine), other.defining_op(its)) else {
                let of = |index: Option<&Index>| match index {
                    Some(_) => "an index".to_string(),
                    None => "a number".to_string(),
                };
                return differs(of(index), of(expected));
            };
            let same = own.op_name(a) == other.op_name(b)
                && is_same_attrs(own, a, other, b)
                && own.operand_count(a) == other.operand_count(b)
                && own.ty(mine) == other.ty(its)
                && index.is_none()
                && expected.is_none();
            if own.view::<LoadIf>(a).is_some() || other.view::<LoadIf>(b).is_some() {
                return Err(format!(
                    "`{stage_name}` reads under a condition: compute what is padded before"
                ));
            }
            let loads = (own.view::<Load>(a), other.view::<Load>(b));
            if let (Some(load), Some(param)) = loads {
                let of = |indices: &[ValueId], known: &FxHashMap<ValueId, Index>| {
                    indices.iter().map(|index| known.get(index).cloned()).collect()
                };
                let indices: Option<Vec<Index>> = of(&load.indices, &known);
                let expected: Option<Vec<Index>> = of(&param.indices, &theirs);
                let (Some(indices), Some(expected)) = (indices, expected) else {
                    return Err(format!(
                        "`{}` is read at an index that is no sum of loop variables",
                        tensor_name(own, load.tensor)
                    ));
                };
                if own.ty(mine) != other.ty(its) {
                    return differs(own.ty(mine).to_string(), other.ty(its).to_string());
                }
                self.access(load.tensor, &indices, param.tensor, &expected)?;
                continue;
            }
            if !same {
                return differs(describe(own, a), describe(other, b));
            }
            pending.extend(own.operands(a).zip(other.operands(b)));
        }
        Ok(())
    }

    /// Notes that the intrinsic's `param` is a part of `tensor`, by an access to both. Refused where
    /// the part lies otherwise in memory, or starts elsewhere than other accesses say.
    fn access(
        &mut self,
        tensor: ValueId,
        indices: &[Index],
        param: ValueId,
        expected: &[Index],
    ) -> Result<(), Refused> {
        let (own, other) = (&self.flat.body, &self.intrinsic.body);
        let names = (tensor_name(own, tensor), tensor_name(other, param));
        let (min, extents) = self.buffer(tensor);
        let part = shape_of(other, param);
        let own_types = (own.ty(tensor).as_tensor(), other.ty(param).as_tensor());
        let dtypes = (own_types.0.map(|t| t.dtype), own_types.1.map(|t| t.dtype));
        if dtypes.0 != dtypes.1 {
            return Err(format!(
                "`{}` is of type {}, and `%{}` of `@{}` of type {}",
                names.0,
                own.ty(tensor),
                names.1,
                self.intrinsic.name,
                other.ty(param)
            ));
        }
        let local: Vec<Index> =
            indices.iter().zip(&min).map(|(i, min)| i.difference(min)).collect();
        let (place, in_part) = (linear(&local, &extents), linear(expected, &part));
        let start = place.difference(&in_part);
        if let Some(var) = self.indices.vars(&start).find(|var| self.inner.contains(var)) {
            let level = self.nest.loops.iter().find(|level| level.var == Some(var));
            let level = level.expect("what is inside is a loop of the stage");
            let axis = self.schedule.axis_name(level.axis);
            let step = |index: &Index| match self.indices.step(index, var) {
                Some(step) => format!("{step} elements"),
                None => "unsteadily".to_string(),
            };
            return Err(format!(
                "along `{axis}`, `{}` advances by {}, and `%{}` of `@{}` by {}",
                names.0,
                step(&place),
                names.1,
                self.intrinsic.name,
                step(&in_part)
            ));
        }
        let count = |shape: &[i64]| shape.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent));
        let Range { low, high } = self.indices.range(&start);
        let fits = count(&part).zip(count(&extents)).is_some_and(|(part, all)| {
            low >= 0 && high.checked_add(part).is_some_and(|end| end <= all)
        });
        if !fits {
            return Err(format!(
                "`%{}` of `@{}` would reach beyond the border of `{}`",
                names.1, self.intrinsic.name, names.0
            ));
        }
        let before = self.parts.entry(param).or_insert_with(|| (tensor, start.clone()));
        match *before == (tensor, start) {
            true => Ok(()),
            false => Err(format!(
                "`%{}` of `@{}` would be two parts, one of `{}` and one of `{}`",
                names.1,
                self.intrinsic.name,
                tensor_name(own, before.0),
                names.0
            )),
        }
    }

    /// The index in `tensor` of the first element of its buffer, and the extents of that.
    fn buffer(&self, tensor: ValueId) -> (Vec<Index>, Vec<i64>) {
        let body = &self.flat.body;
        let producer = body.defining_op(tensor).filter(|_| !self.flat.outputs.contains(&tensor));
        let nest = producer.and_then(|op| self.nests.iter().find(|nest| nest.op == op));
        match nest {
            Some(nest) => (nest.min.clone(), buffer_extents(self.schedule, nest)),
            None => {
                let shape = shape_of(body, tensor);
                (vec![Index::default(); shape.len()], shape)
            }
        }
    }
}

/// The number of the element at `indices` of a buffer, row by row.
fn linear(indices: &[Index], extents: &[i64]) -> Index {
    let mut place = Index::default();
    let mut stride = 1i64;
    for (index, extent) in indices.iter().zip(extents).rev() {
        place = place.plus_scaled(index, stride);
        stride = stride.saturating_mul(*extent);
    }
    place
}

fn shape_of(body: &Body, tensor: ValueId) -> Vec<i64> {
    let shape = tensor_of(body, tensor).known_shape();
    shape.expect("the extents of what is scheduled are known").to_vec()
}

/// How a tensor is called in messages.
fn tensor_name(body: &Body, tensor: ValueId) -> String {
    if let Some(stage) = body.defining_op(tensor).and_then(|op| StageView::of(body, op)) {
        return stage.name;
    }
    let args = body.block_args(body.entry());
    let hint = body.name_hint(tensor).name.map(|name| name.to_string());
    hint.unwrap_or_else(|| {
        let number = args.iter().position(|arg| *arg == tensor);
        number.expect("a tensor is a stage or a parameter").to_string()
    })
}

/// What an operation is, in messages.
fn describe(body: &Body, op: OpId) -> String {
    match body.view::<crate::compute::Reduce>(op) {
        Some(reduce) => {
            format!("`{}` of {} results", reduce.combiner.name(), body.result_count(op))
        }
        None => {
            let ty = body.results(op).next().map(|result| format!(" of type {}", body.ty(result)));
            format!("`{}`{}", body.op_name(op), ty.unwrap_or_default())
        }
    }
}

/// Whether two operations say the same, but for the numbers of checks, which each function counts
/// for itself.
fn is_same_attrs(own: &Body, a: OpId, other: &Body, b: OpId) -> bool {
    match (own.view::<Check>(a), other.view::<Check>(b)) {
        (Some(a), Some(b)) => a.message == b.message,
        _ => own.attrs(a) == other.attrs(b),
    }
}
