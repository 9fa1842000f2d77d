//! What is computed of rows that were taken out of a table, computed on the table.

use indexmap::IndexMap;
use ir_core::{
    Attr, Diagnostics, Dim, Effects, FuncMut, FunctionPass, InferCx, OpFields, OpId, Pass,
    PassContext, PassResult, TensorType, Type, ValueId,
};
use relay::define::{Define, define_alone};
use relay::language::{Constant, is_primitive};
use relay_operators::FusionPattern;
use relay_operators::index::gather::{OutOfBounds, Take};
use rewrites::cost::CostModel;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use te::batch::along;

use crate::emit::{self, Emit};

/// Computes on tables, before rows are taken out of them, what is computed of each row.
///
/// Where more rows are taken out of a table than it has, most are taken several times. What is computed of each row
/// alone is the same each time, and is computed once for each row of the table then; rows are taken out of the results.
/// An operator does so where its definition reads, for each index along the axis of rows, that index of what was taken
/// by the same indices, and all else whatever the index. It stays where it could fail for a row that nobody takes, or
/// where its result has more elements than what it is computed of. What is taken by the same indices stays together
/// where that costs less, as `eqsat` counts it by default.
///
/// ```relay
/// def @main(%table: Tensor[(8), float32], %indices: Tensor[(1000), int32]) {
///   %0 = take(%table, %indices, axis=0);
///   sin(%0)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%table: Tensor[(8), float32], %indices: Tensor[(1000), int32]) -> Tensor[(1000), float32] {
///   %0 = sin(%table);
///   take(%0, %indices, axis=0)
/// }
/// ```
///
/// The cost is linear in the size of the function and of the definitions of what reads rows.
#[derive(Pass)]
#[pass(name = "sink-gathers", function)]
pub struct SinkGathers;

impl FunctionPass for SinkGathers {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if is_primitive(f.signature.attrs) {
            return Ok(());
        }
        let rows = Rows::of(f);
        let groups = rows.groups(f);
        let mut moved = 0;
        for group in groups.into_values() {
            if group.pays(f, &rows) {
                moved += group.sink(f, &rows)?;
            }
        }
        cx.count("operators on tables", moved);
        Ok(())
    }
}

/// How rows are chosen; equal choices of equally many rows are the same rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Choice {
    indices: ValueId,
    mode: OutOfBounds,
    /// The rows of the tables.
    rows: i64,
}

/// A tensor of rows that were taken, or that are computed of such, row by row.
struct Taken {
    choice: Choice,
    /// The axis of rows.
    axis: usize,
    /// The type of the table out of which they could be taken.
    table: Type,
    /// What computes it: a `take` out of a table that there is, or what could be computed on tables.
    op: OpId,
    sinks: bool,
}

/// What is computed of rows, in program order.
struct Rows(IndexMap<ValueId, Taken, FxBuildHasher>);

impl Rows {
    fn of(f: &FuncMut<'_>) -> Rows {
        let mut rows = Rows(IndexMap::default());
        for op in f.body.walk() {
            if let Some(taken) = rows.sinking(f, op).or_else(|| taken_out(f, op)) {
                rows.0.insert(f.body.result(op, 0), taken);
            }
        }
        rows
    }

    /// What `op` computes, where it is of rows that were taken and can be computed on their tables.
    fn sinking(&self, f: &FuncMut<'_>, op: OpId) -> Option<Taken> {
        if f.body.result_count(op) != 1 {
            return None;
        }
        let operands: Vec<ValueId> = f.body.operands(op).collect();
        let own = || operands.iter().filter_map(|operand| self.0.get(operand));
        let choice = own().next()?.choice;
        let info = f.registry.info(f.body.op_name(op))?;
        let is_simple = info.hook::<FusionPattern>().is_some_and(|p| *p <= FusionPattern::Reduce)
            && info.hook::<Define>().is_some()
            && info.def.effects == Effects::empty();
        // What fails for some operands depends on integers; a constant fails for all rows or none.
        let is_safe = |operand: &ValueId| {
            f.body.view_def::<Constant>(*operand).is_some()
                || known_floats(f.body.ty(*operand)).is_some()
        };
        let result = f.body.ty(f.body.result(op, 0));
        let floats = known_floats(result)?;
        if !is_simple || !operands.iter().all(is_safe) || !own().all(|one| one.choice == choice) {
            return None;
        }
        let attrs = f.body.attrs(op);
        let types: Vec<Type> = operands.iter().map(|operand| f.body.ty(*operand)).collect();
        let on_tables: Vec<Type> = operands
            .iter()
            .map(|operand| self.0.get(operand).map_or(f.body.ty(*operand), |one| one.table))
            .collect();
        let constants =
            |index: usize| -> Option<Attr> { f.registry.constant(f.body, *operands.get(index)?) };
        let mut cx = InferCx::with_constants(&on_tables, attrs, &constants);
        let table = cx.answer(info.def.infer?).ok()?;
        let axis_of = |types: &[Type], result: Type| -> Option<usize> {
            let item = define_alone(f.registry, info, types, attrs, result).ok()?;
            let body = item.body.as_deref()?;
            let params = body.block_args(body.entry());
            let axes = params.iter().zip(&operands);
            let axes: Vec<(ValueId, usize)> = axes
                .filter_map(|(param, operand)| Some((*param, self.0.get(operand)?.axis)))
                .collect();
            (params.len() == operands.len()).then(|| along(body, &axes))?
        };
        let axis = axis_of(&types, result)?;
        // Attributes may say how many rows there are.
        let mut shape = floats.shape.clone();
        shape[axis] = choice.rows.into();
        if table != Type::tensor(shape, floats.dtype) || axis_of(&on_tables, table)? != axis {
            return None;
        }
        let most = own().filter_map(|one| one.table.as_tensor()?.elements()).max()?;
        let grows = table.as_tensor()?.elements()? > most;
        (!grows).then_some(Taken { choice, axis, table, op, sinks: true })
    }

    /// What is taken by the same indices.
    fn groups(&self, f: &FuncMut<'_>) -> IndexMap<Choice, Group, FxBuildHasher> {
        let mut groups: IndexMap<Choice, Group, FxBuildHasher> = IndexMap::default();
        let sinks: FxHashSet<OpId> =
            self.0.values().filter(|taken| taken.sinks).map(|taken| taken.op).collect();
        for (value, taken) in &self.0 {
            let group = groups.entry(taken.choice).or_default();
            group.members.push(*value);
            if f.body.uses(*value).any(|(user, _)| !sinks.contains(&user)) {
                group.read.insert(*value);
            }
        }
        groups
    }
}

/// What `op` takes out of a table of fewer rows than are taken.
fn taken_out(f: &FuncMut<'_>, op: OpId) -> Option<Taken> {
    let take = f.body.view::<Take>(op)?;
    let table = f.body.ty(take.data);
    let data = known_floats(table)?;
    let indices = f.body.ty(take.indices);
    let [Dim::Known(taken)] = indices.as_tensor()?.shape.as_slice() else { return None };
    let rank = data.shape.len() as i64;
    let axis = take.axis.map(|axis| if axis < 0 { axis + rank } else { axis })?;
    let axis = usize::try_from(axis).ok()?;
    let rows = data.shape.get(axis)?.known()?;
    let choice = Choice { indices: take.indices, mode: take.mode, rows };
    let repeats = take.batch_dims == 0 && 0 < rows && rows < *taken;
    repeats.then_some(Taken { choice, axis, table, op, sinks: false })
}

/// The tensor type `ty`, where its elements are floats and its extents known.
fn known_floats(ty: Type) -> Option<&'static TensorType> {
    let tensor = ty.as_tensor().filter(|tensor| tensor.dtype.is_float())?;
    tensor.elements().map(|_| tensor)
}

/// What is taken by the same indices, or computed of that.
#[derive(Default)]
struct Group {
    /// In program order.
    members: Vec<ValueId>,
    /// Those that something reads that is not computed on tables.
    read: FxHashSet<ValueId>,
}

impl Group {
    /// Whether it costs less on tables.
    fn pays(&self, f: &FuncMut<'_>, rows: &Rows) -> bool {
        let model = CostModel::default();
        let (mut rowwise, mut on_tables) = (0.0, 0.0);
        for value in &self.members {
            let Taken { choice, axis, table, op, sinks } = &rows.0[value];
            let (name, attrs) = (f.body.op_name(*op), f.body.attrs(*op));
            let types: Vec<Type> = f.body.operands(*op).map(|operand| f.body.ty(operand)).collect();
            let ty = f.body.ty(*value);
            let cost = |name, attrs, types: &[Type], result| {
                model.cost(f.registry, name, attrs, types, result, false)
            };
            rowwise += cost(name, attrs, &types, ty);
            if *sinks {
                let operands = f.body.operands(*op);
                let operands: Vec<Type> = operands
                    .map(|operand| rows.0.get(&operand).map_or(f.body.ty(operand), |one| one.table))
                    .collect();
                on_tables += cost(name, attrs, &operands, *table);
            }
            if self.read.contains(value) {
                // The cost of a `take` depends on types alone.
                let take = choice.take(*value, *axis);
                let operands = [*table, f.body.ty(choice.indices)];
                on_tables += cost(Take::<ValueId>::NAME.into(), take.attrs(), &operands, ty);
            }
        }
        on_tables < rowwise
    }

    /// Computes on tables what can be; how many operators that are.
    fn sink(&self, f: &mut FuncMut<'_>, rows: &Rows) -> Result<u64, Diagnostics> {
        let mut tables: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let mut sunk = vec![];
        for value in &self.members {
            let Taken { choice, axis, op, sinks, .. } = &rows.0[value];
            if !sinks {
                tables.insert(*value, f.body.operand(*op, 0));
                continue;
            }
            let operands = f.body.operands(*op);
            let operands: Vec<ValueId> =
                operands.map(|operand| tables.get(&operand).copied().unwrap_or(operand)).collect();
            let mut emit = Emit::before(f, *op, "sink-gathers");
            let table = emit.again(*op, &operands)?;
            tables.insert(*value, table);
            let taken = match self.read.contains(value) {
                true => Some(emit.op(&choice.take(table, *axis))?),
                false => None,
            };
            sunk.push((*op, taken));
        }
        for (op, taken) in sunk.iter().rev() {
            match taken {
                Some(taken) => emit::replace(f, *op, *taken),
                None => emit::erase_unused(f, [*op]),
            }
        }
        Ok(sunk.len() as u64)
    }
}

impl Choice {
    /// Takes these rows out of `data`.
    fn take(&self, data: ValueId, axis: usize) -> Take {
        let Choice { indices, mode, .. } = *self;
        Take { data, indices, batch_dims: 0, axis: Some(axis as i64), mode }
    }
}
