//! Many examples at once: which compute functions compute each row of their results from that row of their
//! operands, and those that do what others do for each example.

use ir_core::{BlockId, Body, DType, InsertPoint, Item, OpFields, OpId, OpParts, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compute::{
    Compute, FUNC, Load, LoadIf, Reduce, Return, Stage, Yield, function_type, tensor_of,
};

/// What a function does with rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Whether a reduction of rows reads a tensor of rank 2 or more that all rows share, as products
    /// with weights do: then several rows at once read it once.
    pub shares: bool,
}

/// What the compute function `body` does with the rows of its parameters `rows`, the slices along their
/// first axis: `None` unless each row of every result depends on that row of these parameters alone, and
/// is computed like any other. Linear in the size of the function.
///
/// ```
/// use te::batch::{Rows, by_rows};
/// use te::compute::ComputeBuilder;
/// use ir_core::DType;
///
/// let mut builder = ComputeBuilder::new();
/// let x = builder.input("x", &[4, 8], DType::FLOAT32);
/// let doubled = builder.compute("doubled", &[4, 8], |e, i| {
///     let element = e.load(&x, i);
///     e.add(element, element)
/// });
/// let item = builder.finish(&[doubled]).expect("a compute function");
/// let body = item.body.expect("a body");
/// let rows = body.block_args(body.entry());
/// assert_eq!(by_rows(&body, rows), Some(Rows { shares: false }));
/// ```
pub fn by_rows(body: &Body, rows: &[ValueId]) -> Option<Rows> {
    let axes = rows.iter().map(|tensor| (*tensor, 0)).collect();
    let Along { results, shares } = along_axes(body, axes)?;
    results.iter().all(|axis| *axis == 0).then_some(Rows { shares })
}

/// The axis of the results of the compute function `body` of which each index depends on the same index of `axes`
/// alone, the axes of some of its parameters, and is computed like any other. `None` unless there is one, in the same
/// place of all results. Linear in the size of the function.
///
/// ```
/// use te::batch::along;
/// use te::compute::ComputeBuilder;
/// use ir_core::DType;
///
/// let mut builder = ComputeBuilder::new();
/// let x = builder.input("x", &[4, 8], DType::FLOAT32);
/// let turned = builder.compute("turned", &[8, 4], |e, i| e.load(&x, &[i[1], i[0]]));
/// let item = builder.finish(&[turned]).expect("a compute function");
/// let body = item.body.expect("a body");
/// let x = body.block_args(body.entry())[0];
/// assert_eq!(along(&body, &[(x, 0)]), Some(1));
/// ```
pub fn along(body: &Body, axes: &[(ValueId, usize)]) -> Option<usize> {
    let Along { results, .. } = along_axes(body, axes.iter().copied().collect())?;
    let (first, others) = results.split_first()?;
    others.iter().all(|axis| axis == first).then_some(*first)
}

/// What a function does along axes.
struct Along {
    /// For each result, where the axis is.
    results: Vec<usize>,
    /// As in [`Rows`].
    shares: bool,
}

/// What the compute function `body` does along `axes`, those of some tensors: `None` unless each index along the axis
/// of every result depends on that index alone.
fn along_axes(body: &Body, mut axes: FxHashMap<ValueId, usize>) -> Option<Along> {
    let mut shares = false;
    for op in body.block_ops(body.entry()) {
        if let Some(end) = body.view::<Return>(op) {
            let results = end.tensors.iter().map(|tensor| axes.get(tensor).copied());
            return Some(Along { results: results.collect::<Option<_>>()?, shares });
        }
        let inside = |op: OpId| body.regions(op).iter().map(|region| body.block_of(*region));
        let all: Vec<OpId> = inside(op).flat_map(|block| body.walk_block(block)).collect();
        let reads = |op: &OpId| body.operands(*op).any(|operand| axes.contains_key(&operand));
        if !all.iter().chain([&op]).any(reads) {
            continue;
        }
        // What is no stage reads tensors as it likes.
        let stage = Stage::of(body, op)?;
        // Where an element is changed depends on the update.
        if stage.scatters {
            return None;
        }
        let loads = all.iter().filter_map(|op| load(body, *op));
        let mut indices = loads.filter_map(|(tensor, at)| at.get(*axes.get(&tensor)?).copied());
        let index = indices.next()?;
        let vars = &body.block_args(body.region_block(op, 0))[..stage.shape.len()];
        let axis = vars.iter().position(|var| *var == index)?;
        let is_own = indices.all(|other| other == index);
        let decides_nothing = body.uses(index).all(|(user, place)| {
            load(body, user).is_some_and(|(tensor, at)| {
                let first = body.operand_count(user) - at.len();
                axes.get(&tensor).is_some_and(|axis| place == first + axis)
            })
        });
        // An index of a scan along the axis depends on those before it.
        if !is_own || !decides_nothing || stage.scan == Some(axis) {
            return None;
        }
        let is_shared = |tensor: ValueId| {
            !axes.contains_key(&tensor)
                && body.ty(tensor).as_tensor().is_some_and(|ty| ty.rank() > 1)
        };
        let mut tensors = all.iter().filter_map(|op| load(body, *op)).map(|(tensor, _)| tensor);
        shares |= body.is::<Reduce>(op) && tensors.any(is_shared);
        axes.extend(body.results(op).map(|result| (result, axis)));
    }
    None
}

/// The tensor that `op` reads an element of, and the element's indices.
fn load(body: &Body, op: OpId) -> Option<(ValueId, Vec<ValueId>)> {
    if let Some(Load { tensor, indices }) = body.view(op) {
        return Some((tensor, indices));
    }
    body.view(op).map(|LoadIf { tensor, indices, .. }| (tensor, indices))
}

/// The compute function that does for each of `extent` examples what `function` does for one. Its parameters that
/// `over` flags, and all of its results, have a leading axis of that extent: `result[i] = function(given[i])`; the
/// others are shared by all examples.
///
/// Each stage that reads a tensor with that axis has it as well, and reads there its own example. So nothing that
/// the examples share is computed twice, but for results that no example has a part in. The size of the function
/// is that of the original.
///
/// # Errors
/// Where an axis of a stage ends at a [count](crate::compute::counts), or `function` is no compute function. The
/// message starts in lower case.
///
/// ```
/// use ir_core::{DType, TensorData};
/// use te::compute::{Combiner, ComputeBuilder};
///
/// let mut f = ComputeBuilder::new();
/// let (x, w) = (f.input("x", &[2], DType::FLOAT32), f.input("w", &[2], DType::FLOAT32));
/// let product = f.reduce("product", &[], &[2], Combiner::Sum, |e, _, k| {
///     let (x, w) = (e.load(&x, k), e.load(&w, k));
///     e.mul(x, w)
/// });
/// let products = te::batch::batched(&f.finish(&[product])?, &[true, false], 3)?;
/// let floats = |shape: &[i64], numbers: &[f64]| {
///     TensorData::from_f64(DType::FLOAT32, shape, numbers).expect("small")
/// };
/// let arguments = [floats(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]), floats(&[2], &[5.0, 7.0])];
/// let body = products.body.expect("a body");
/// let results = te::interpreter::run_compute(&body, &arguments).expect("a value");
/// assert_eq!(results, [floats(&[3], &[5.0, 7.0, 12.0])]);
/// # Ok::<(), String>(())
/// ```
pub fn batched(function: &Item, over: &[bool], extent: i64) -> Result<Item, String> {
    let mut item = function.clone();
    let is_function = item.signature.op == FUNC;
    let body = item.body_mut().filter(|_| is_function);
    let body = body.ok_or_else(|| format!("expected a `{FUNC}` with a body"))?;
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let returned = end.ok_or("expected a function that returns something")?.tensors;
    let returned: FxHashSet<ValueId> = returned.into_iter().collect();
    let params = body.block_args(body.entry()).to_vec();
    let mut rows: FxHashSet<ValueId> = FxHashSet::default();
    for (param, _) in params.into_iter().zip(over).filter(|(_, over)| **over) {
        lead(body, param, extent);
        rows.insert(param);
    }
    for stage in Stage::all(body) {
        let reads = |op: OpId| load(body, op).is_some_and(|(tensor, _)| rows.contains(&tensor));
        let blocks = stage.blocks(body);
        let is_read = blocks.iter().any(|(block, _)| body.walk_block(*block).any(reads));
        if !is_read && !body.results(stage.op).any(|result| returned.contains(&result)) {
            continue;
        }
        if !stage.counts.is_empty() {
            return Err(format!("`{}` ends at counts", stage.name));
        }
        lead_stage(body, &stage, extent, &mut rows);
    }
    let end = body.last_op(body.entry()).expect("it was found above");
    let returned: Vec<ValueId> = body.operands(end).collect();
    let returned: Vec<ValueId> = returned
        .into_iter()
        .map(|tensor| match rows.contains(&tensor) {
            true => tensor,
            false => repeat(body, end, tensor, extent),
        })
        .collect();
    body.set_operands(end, &returned);
    let ty = function_type(body, &returned);
    item.signature.ty = ty;
    Ok(item)
}

/// A stage before `end`: the tensor `value`, which is no stage, for each of `extent` examples.
fn repeat(body: &mut Body, end: OpId, value: ValueId, extent: i64) -> ValueId {
    let tensor = tensor_of(body, value);
    let (rank, dtype) = (tensor.rank(), tensor.dtype);
    let taken: FxHashSet<String> = Stage::all(body).into_iter().map(|stage| stage.name).collect();
    let mut names = std::iter::once("each".to_string()).chain((1..).map(|n| format!("each_{n}")));
    let name = names.find(|name| !taken.contains(name)).expect("there is no end of names");
    let shape = tensor.known_shape().expect("extents are constants");
    let shape = [&[extent], &shape[..]].concat();
    let types = [Type::tensor(shape.iter().copied(), dtype)];
    let attrs = OpFields::<ValueId>::attrs(&Compute { name, shape, dtype, counts: vec![] });
    let name = <Compute as OpFields<ValueId>>::NAME;
    let parts = OpParts::new(name, &[], &types).attrs(attrs).regions(1);
    let stage = body.insert_op(InsertPoint::Before(end), parts.at(body.loc(end)));
    let block = body.region_block(stage, 0);
    let index = Type::scalar(DType::INT64);
    let indices: Vec<ValueId> =
        (0..=rank).map(|_| body.add_block_arg(block, index)).skip(1).collect();
    let (at, load) = (InsertPoint::End(block), Load { tensor: value, indices });
    let element = body.add(at, body.loc(end), &load, Type::scalar(dtype));
    body.insert_op(at, OpParts::new(Yield::<ValueId>::NAME, &[element], &[]));
    body.result(stage, 0)
}

/// Gives the tensor `value` a leading axis.
fn lead(body: &mut Body, value: ValueId, extent: i64) {
    let tensor = tensor_of(body, value);
    let shape = std::iter::once(extent.into()).chain(tensor.shape.iter().copied());
    let ty = Type::tensor(shape, tensor.dtype);
    body.set_ty(value, ty);
}

/// Puts a stage with a leading axis in the place of `stage`. Its results are among `rows` then, the tensors with
/// that axis.
fn lead_stage(body: &mut Body, stage: &Stage, extent: i64, rows: &mut FxHashSet<ValueId>) {
    let front = |shape: Vec<i64>| [vec![extent], shape].concat();
    let op = stage.op;
    let attrs = body.attrs(op).with("shape", &front(stage.shape.clone()));
    let attrs = match stage.scan {
        Some(axis) => attrs.with("axis", &(axis as i64 + 1)),
        // The updates of an example are its own.
        None if stage.scatters => attrs.with("extents", &front(stage.reduction.clone())),
        None => attrs,
    };
    let types: Vec<Type> = body.results(op).map(|result| body.ty(result)).collect();
    let count = body.regions(op).len();
    let parts = OpParts::new(body.op_name(op), &[], &types).attrs(attrs).regions(count);
    let new = body.insert_op(InsertPoint::Before(op), parts.at(body.loc(op)));
    for (old, result) in body.results(op).zip(body.results(new)) {
        lead(body, result, extent);
        body.set_name_hint(result, body.name_hint(old));
        body.replace_all_uses(old, result);
        rows.insert(result);
    }
    let readers = stage.blocks(body).len();
    for region in 0..count {
        let (from, to) = (body.region_block(op, region), body.region_block(new, region));
        let row = (region < readers).then(|| body.add_block_arg(to, Type::scalar(DType::INT64)));
        for arg in body.block_args(from).to_vec() {
            let copy = body.add_block_arg(to, body.ty(arg));
            body.set_name_hint(copy, body.name_hint(arg));
            body.replace_all_uses(arg, copy);
        }
        body.move_block_ops(from, InsertPoint::End(to));
        let Some(row) = row else { continue };
        read_row(body, to, row, rows);
        if stage.scatters && region == 1 {
            let end = body.last_op(to).filter(|end| body.is::<Yield>(*end));
            let end = end.expect("blocks of stages end with what they yield");
            let place: Vec<ValueId> = std::iter::once(row).chain(body.operands(end)).collect();
            body.set_operands(end, &place);
        }
    }
    body.erase(op);
}

/// Lets what `block` reads of `rows` be that of example `row`.
fn read_row(body: &mut Body, block: BlockId, row: ValueId, rows: &FxHashSet<ValueId>) {
    for op in body.walk_block(block).collect::<Vec<_>>() {
        let Some((_, indices)) = load(body, op).filter(|(tensor, _)| rows.contains(tensor)) else {
            continue;
        };
        let mut operands: Vec<ValueId> = body.operands(op).collect();
        operands.insert(operands.len() - indices.len(), row);
        body.set_operands(op, &operands);
    }
}
