//! What makes a compute function well formed.

use ir_core::registry::VerifyCx;
use ir_core::{BlockId, Body, DType, Dim, InferCx, OpId, Scalar, Stop, TensorData, Type, ValueId};

use super::{Combiner, Compute, Load, LoadIf, Reduce, Return, Scan, Scatter, Stage, Yield};
use crate::scalar::{Constant, bool_like, dtype_of, scalar_type};

pub(super) fn load(op: Load<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    element(op.tensor, cx, 1)
}

pub(super) fn load_if(op: LoadIf<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let ty = element(op.tensor, cx, 3)?;
    let (condition, otherwise) = (scalar_type(cx, 0)?, scalar_type(cx, 1)?);
    let element = dtype_of(ty).unwrap_or(otherwise);
    if condition != bool_like(element) || otherwise != element {
        return Err(Stop::error(format!(
            "expected {} and {element}, found {condition} and {otherwise}",
            bool_like(element)
        )));
    }
    Ok(ty)
}

/// The type of an element of `tensor` at the indices from operand `first` on: as many lanes as the
/// widest index.
pub(crate) fn element(tensor: Type, cx: &InferCx<'_>, first: usize) -> Result<Type, Stop> {
    let Some(data) = tensor.as_tensor() else {
        return Err(Stop::error(format!("expected a tensor, found {tensor}")));
    };
    let indices = cx.operands.len() - first;
    if indices != data.rank() {
        return Err(Stop::error(format!(
            "expected {} indices for {tensor}, found {indices}",
            data.rank()
        )));
    }
    let mut lanes = 1;
    for index in first..cx.operands.len() {
        let dtype = scalar_type(cx, index)?;
        if dtype.lane() != DType::INT64 {
            return Err(Stop::error(format!("expected int64 indices, found {dtype}")));
        }
        match (lanes, dtype.lanes()) {
            (_, 1) => {}
            (1, wide) => lanes = wide,
            (one, other) if one == other => {}
            (one, other) => {
                return Err(Stop::error(format!("indices of {one} and of {other} lanes")));
            }
        }
    }
    let dtype = data.dtype.with_lanes(lanes as u16).filter(|_| data.dtype.lanes() == 1);
    dtype
        .map(Type::scalar)
        .ok_or_else(|| Stop::error(format!("no {lanes} lanes of {}", data.dtype)))
}

pub(super) fn loads_within(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Load>(cx.op) else { return Ok(()) };
    is_within(cx, op.tensor, &op.indices)
}

/// An error where whatever runs `cx.op` accesses `tensor` at a constant index that is outside of it.
/// What some branch keeps from running is found out then.
pub(crate) fn is_within(
    cx: &VerifyCx<'_>,
    tensor: ValueId,
    indices: &[ValueId],
) -> Result<(), String> {
    let Some(tensor) = cx.body.ty(tensor).as_tensor() else { return Ok(()) };
    for (dimension, (index, extent)) in indices.iter().zip(&tensor.shape).enumerate() {
        let constant = cx.body.view_def::<Constant>(*index);
        let index = constant.and_then(|(_, constant)| constant.value.element(0));
        if let (Some(Scalar::Int(index)), Dim::Known(extent)) = (index, *extent)
            && !(0..extent).contains(&index)
            && always_runs(cx.body, cx.op)
        {
            return Err(format!("index {index} is outside of dimension {dimension}, of {extent}"));
        }
    }
    Ok(())
}

/// Whether `op` runs whenever its function does: only stages and loops of at least one iteration are
/// around it.
fn always_runs(body: &Body, op: OpId) -> bool {
    let mut inner = op;
    while let Some(outer) = body.op_block(inner).and_then(|block| body.block_parent(block)) {
        let runs = match Stage::of(body, outer) {
            Some(stage) => stage.shape.iter().chain(&stage.reduction).all(|extent| *extent > 0),
            // Of what else is around others, a loop has an extent.
            None => body.attrs(outer).value::<i64>("extent").is_some_and(|extent| extent > 0),
        };
        if !runs {
            return false;
        }
        inner = outer;
    }
    true
}

/// Whether `block` takes `count` indices; an error says what it takes.
fn takes_indices(body: &Body, block: BlockId, count: usize) -> Result<(), String> {
    takes_state(body, block, count, &[])
}

/// Whether `block` takes `count` indices and a state of these element types; an error says what it takes.
fn takes_state(body: &Body, block: BlockId, count: usize, state: &[DType]) -> Result<(), String> {
    let args = body.block_args(block);
    let index = Type::scalar(DType::INT64);
    let state: Vec<Type> = state.iter().map(|dtype| Type::scalar(*dtype)).collect();
    if args.len() == count + state.len()
        && args[..count].iter().all(|arg| body.ty(*arg) == index)
        && args[count..].iter().zip(&state).all(|(arg, ty)| body.ty(*arg) == *ty)
    {
        return Ok(());
    }
    let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
    let found: Vec<Type> = args.iter().map(|arg| body.ty(*arg)).collect();
    let state = match state.as_slice() {
        [] => String::new(),
        state => format!(" and a state ({})", list(state)),
    };
    Err(format!("expected {count} arguments of type int64{state}, found ({})", list(&found)))
}

/// The values that `block` ends with.
fn yielded(body: &Body, block: BlockId) -> Result<Vec<ValueId>, String> {
    let last = body.last_op(block).and_then(|op| body.view::<Yield>(op));
    last.map(|end| end.values)
        .ok_or_else(|| "expected the block to end with `te.yield`".to_string())
}

fn yields(body: &Body, block: BlockId, expected: &[DType]) -> Result<(), String> {
    let found: Vec<Type> = yielded(body, block)?.iter().map(|value| body.ty(*value)).collect();
    let expected: Vec<Type> = expected.iter().map(|dtype| Type::scalar(*dtype)).collect();
    if found == expected {
        return Ok(());
    }
    let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
    Err(format!("expected to yield ({}), found ({})", list(&expected), list(&found)))
}

fn extents_are_positive(shape: &[i64], what: &str) -> Result<(), String> {
    match shape.iter().find(|extent| **extent < 0) {
        Some(extent) => Err(format!("expected {what} of at least 0, found {extent}")),
        None => Ok(()),
    }
}

/// Whether another stage of the function has the name of this one.
fn has_unique_name(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(stage) = Stage::of(cx.body, cx.op) else { return Ok(()) };
    let mut earlier = cx.body.prev_op(cx.op);
    // One lookup back per stage would be quadratic on long functions; the first stage checks all.
    if earlier.is_some() {
        return Ok(());
    }
    let mut names = rustc_hash::FxHashSet::default();
    names.insert(stage.name);
    earlier = cx.body.next_op(cx.op);
    while let Some(op) = earlier {
        if let Some(stage) = Stage::of(cx.body, op)
            && !names.insert(stage.name.clone())
        {
            return Err(format!("two stages are called `{}`", stage.name));
        }
        earlier = cx.body.next_op(op);
    }
    Ok(())
}

pub(super) fn compute(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Compute>(cx.op) else { return Ok(()) };
    extents_are_positive(&op.shape, "extents")?;
    let block = cx.body.region_block(cx.op, 0);
    takes_indices(cx.body, block, op.shape.len())?;
    yields(cx.body, block, &[op.dtype])?;
    has_unique_name(cx)
}

pub(super) fn reduce(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Reduce>(cx.op) else { return Ok(()) };
    extents_are_positive(&op.shape, "extents")?;
    extents_are_positive(&op.extents, "reduction extents")?;
    let block = cx.body.region_block(cx.op, 0);
    takes_indices(cx.body, block, op.shape.len() + op.extents.len())?;
    let mut dtypes = Vec::new();
    for result in cx.body.results(cx.op) {
        let ty = cx.body.ty(result);
        let tensor = ty.as_tensor().filter(|tensor| {
            tensor.known_shape().is_some_and(|shape| shape.as_slice() == op.shape.as_slice())
        });
        let Some(tensor) = tensor else {
            return Err(format!("expected results of shape {:?}, found {ty}", op.shape));
        };
        dtypes.push(tensor.dtype);
    }
    yields(cx.body, block, &dtypes)?;
    let (combiner, count) = (op.combiner, dtypes.len());
    let regions = cx.body.regions(cx.op).len();
    match combiner {
        Combiner::User => {
            if regions != 2 || op.identity.len() != count {
                return Err(format!(
                    "expected a second block and {count} identities, found {} blocks and {} \
                     identities",
                    regions,
                    op.identity.len()
                ));
            }
            for (identity, dtype) in op.identity.iter().zip(&dtypes) {
                if identity.rank() != 0 || identity.dtype() != *dtype {
                    return Err(format!(
                        "expected an identity of {dtype}, found {}",
                        identity.ty()
                    ));
                }
            }
            let combine = cx.body.region_block(cx.op, 1);
            let expected: Vec<Type> =
                dtypes.iter().chain(&dtypes).map(|dtype| Type::scalar(*dtype)).collect();
            let args: Vec<Type> =
                cx.body.block_args(combine).iter().map(|arg| cx.body.ty(*arg)).collect();
            if args != expected {
                return Err("expected the second block to take two tuples of values".to_string());
            }
            yields(cx.body, combine, &dtypes)?;
        }
        _ if regions != 1 || !op.identity.is_empty() => {
            return Err(format!("`{}` takes no second block and no identity", combiner.name()));
        }
        Combiner::ArgMax | Combiner::ArgMin if count != 2 || !dtypes[0].is_integer() => {
            return Err(format!("`{}` gives an integer index and a value", combiner.name()));
        }
        Combiner::ArgMax | Combiner::ArgMin => {}
        _ if count != 1 => return Err(format!("`{}` gives one value", combiner.name())),
        _ => {}
    }
    has_unique_name(cx)
}

pub(super) fn scan(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Scan>(cx.op) else { return Ok(()) };
    extents_are_positive(&op.shape, "extents")?;
    if !usize::try_from(op.axis).is_ok_and(|axis| axis < op.shape.len()) {
        return Err(format!(
            "expected an axis of {} dimensions, found {}",
            op.shape.len(),
            op.axis
        ));
    }
    if let Some(initial) = op.initial.iter().find(|initial| initial.rank() != 0) {
        return Err(format!("expected a state of scalars, found {}", initial.ty()));
    }
    let state: Vec<DType> = op.initial.iter().map(TensorData::dtype).collect();
    let block = cx.body.region_block(cx.op, 0);
    takes_state(cx.body, block, op.shape.len(), &state)?;
    let values: Vec<DType> = [op.dtype].into_iter().chain(state).collect();
    yields(cx.body, block, &values)?;
    has_unique_name(cx)
}

pub(super) fn scatter(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Scatter>(cx.op) else { return Ok(()) };
    extents_are_positive(&op.shape, "extents")?;
    extents_are_positive(&op.extents, "extents of updates")?;
    let block = |number| cx.body.region_block(cx.op, number);
    takes_indices(cx.body, block(0), op.shape.len())?;
    yields(cx.body, block(0), &[op.dtype])?;
    takes_indices(cx.body, block(1), op.extents.len())?;
    let place = op.shape.iter().map(|_| DType::INT64);
    yields(cx.body, block(1), &place.chain([op.dtype]).collect::<Vec<_>>())?;
    takes_state(cx.body, block(2), 0, &[op.dtype, op.dtype])?;
    yields(cx.body, block(2), &[op.dtype])?;
    has_unique_name(cx)
}

pub(super) fn returns(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Return>(cx.op) else { return Ok(()) };
    if op.tensors.is_empty() {
        return Err("expected at least one tensor".to_string());
    }
    match op.tensors.iter().map(|value| cx.body.ty(*value)).find(|ty| ty.as_tensor().is_none()) {
        Some(ty) => Err(format!("expected tensors, found {ty}")),
        None => Ok(()),
    }
}
