//! Operators that join tensors and take them apart: `concatenate`, `stack`, `split`.

use ir_core::infer::{tensor, tuple};
use ir_core::{Dim, DimOp, InferCx, KernelRole, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Tensor;

use super::FusionPattern::Injective;
use super::LayoutRule;
use super::attributes::Sections;
use super::batch::{self, Batch};
use super::elements::{self, Offsets};
use super::gradient::{Change, Gradient, Pullback, Term};
use super::relation::{self, Dims};

/// The tensors of a tuple one after another along `axis`. All have one element type and equal
/// extents on the other axes.
///
/// Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.concatenate",
    infer = infer_concatenate,
    hooks(batch::JOINED, Gradient(pull_concatenate), Injective, LayoutRule::Joined, Evaluate(|cx| evaluate_concatenate(&cx.fields()?, cx)), Define(define_concatenate))
)]
pub struct Concatenate<V = ValueId> {
    /// A tuple of tensors, at least one.
    pub data: V,
    /// The axis to join; negative ones count from the back.
    #[default(0)]
    pub axis: i64,
}

fn infer_concatenate(op: Concatenate<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let fields = tuple(op.data)?;
    let Some((&first, rest)) = fields.split_first() else {
        return Err(Stop::error("expected a tuple of at least one tensor, found ()"));
    };
    let first = tensor(first)?;
    let axis = relation::axis(op.axis, first.rank())?;
    let mut shape: Dims = first.shape.clone();
    for &field in rest {
        let field = tensor(field)?;
        relation::same_dtype(first, field)?;
        relation::expect_rank(field, first.rank())?;
        for (at, &dim) in field.shape.iter().enumerate() {
            shape[at] = match at == axis {
                true => Dim::binary(DimOp::Add, shape[at], dim),
                false => relation::equal_dim(cx, shape[at], dim).map_err(|_| {
                    Stop::Error(format!(
                        "expected equal extents on axis {at}, found {} and {dim}",
                        shape[at]
                    ))
                })?,
            };
        }
    }
    Ok(Type::tensor(shape, first.dtype))
}

fn evaluate_concatenate(op: &Concatenate<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_concatenate)?;
    let axis = relation::axis(op.axis, shape.len())?;
    joined(&elements::tensors(&op.data)?, &shape, axis)
}

fn define_concatenate(cx: &mut DefineCx<'_>) -> Defined {
    let axis = relation::axis(cx.fields::<Concatenate<Operand>>()?.axis, cx.result()?.0.len())?;
    let parts = cx.tensors(0)?;
    let extents: Vec<i64> = parts.iter().map(|part| part.shape[axis]).collect();
    define_joined(cx, &parts, &extents, axis, |index, at| at[axis] = index)
}

/// Each of `parts` in its range of indices along `axis`; `place` makes indices of a part of those
/// of the result and the index in the range.
fn define_joined(
    cx: &mut DefineCx<'_>,
    parts: &[Tensor],
    extents: &[i64],
    axis: usize,
    place: impl Fn(ValueId, &mut Vec<ValueId>),
) -> Defined {
    cx.compute(|e, i| {
        let mut end = 0;
        let mut value: Option<ValueId> = None;
        // Each part is read before its end; what came before is chosen before its begin.
        for (part, &extent) in parts.iter().zip(extents) {
            let begin = end;
            end += extent;
            let mut at = i.to_vec();
            place(e.add_index(i[axis], -begin), &mut at);
            let single = extents.len() == 1;
            if single {
                return e.load(part, &at);
            }
            let bounds = (e.index(begin), e.index(end));
            let inside = match value {
                None => e.lt(i[axis], bounds.1),
                Some(_) => {
                    let (after, before) = (e.ge(i[axis], bounds.0), e.lt(i[axis], bounds.1));
                    e.and(after, before)
                }
            };
            let otherwise = value.unwrap_or_else(|| e.number(part.dtype, 0.0));
            value = Some(e.load_if(inside, part, &at, otherwise));
        }
        value.unwrap_or_else(|| e.index(0))
    })
}

/// Tensors one after another along `axis`; they agree on all others.
fn joined(parts: &[&TensorData], shape: &[i64], axis: usize) -> Result<Value, EvalError> {
    let Some(first) = parts.first() else {
        return Err(EvalError::new("expected at least one tensor"));
    };
    let (dtype, rows) = (first.dtype(), elements::count(&shape[..axis])?);
    let mut bytes = Vec::with_capacity(elements::count(shape)?.saturating_mul(dtype.bytes()));
    for row in 0..rows {
        for part in parts {
            let run = part.bytes().len() / rows;
            bytes.extend_from_slice(&part.bytes()[row * run..(row + 1) * run]);
        }
    }
    Ok(TensorData::from_bytes(dtype, shape, bytes)?.into())
}

/// The tensors of a tuple, all of one type, joined along a new axis.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.stack",
    infer = infer_stack,
    hooks(batch::JOINED, Gradient(pull_stack), Injective, Evaluate(|cx| evaluate_stack(&cx.fields()?, cx)), Define(define_stack))
)]
pub struct Stack<V = ValueId> {
    /// A tuple of tensors, at least one.
    pub data: V,
    /// Place of the new axis in the result; negative ones count from the back.
    #[default(0)]
    pub axis: i64,
}

fn infer_stack(op: Stack<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let fields = tuple(op.data)?;
    let Some((&first, rest)) = fields.split_first() else {
        return Err(Stop::error("expected a tuple of at least one tensor, found ()"));
    };
    let first = tensor(first)?;
    let axis = relation::axis(op.axis, first.rank() + 1)?;
    let mut shape: Dims = first.shape.clone();
    for &field in rest {
        let field = tensor(field)?;
        relation::same_dtype(first, field)?;
        shape = relation::equal_dims(cx, &shape, &field.shape)?;
    }
    shape.insert(axis, Dim::Known(fields.len() as i64));
    Ok(Type::tensor(shape, first.dtype))
}

fn evaluate_stack(op: &Stack<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_stack)?;
    let axis = relation::axis(op.axis, shape.len())?;
    joined(&elements::tensors(&op.data)?, &shape, axis)
}

fn define_stack(cx: &mut DefineCx<'_>) -> Defined {
    let axis = relation::axis(cx.fields::<Stack<Operand>>()?.axis, cx.result()?.0.len())?;
    let parts = cx.tensors(0)?;
    define_joined(cx, &parts, &vec![1; parts.len()], axis, |_, at| {
        at.remove(axis);
    })
}

/// The parts of `data` along `axis`, as a tuple.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.split",
    infer = infer_split,
    hooks(Batch(|at| batch::along(at, 0)), Gradient(pull_split), KernelRole::View, Injective, Evaluate(|cx| evaluate_split(&cx.fields()?, cx)), Define(define_split))
)]
pub struct Split<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// An integer: so many equal parts. A list: new parts begin at these increasing indices.
    pub indices_or_sections: Sections,
    /// The axis to split; negative ones count from the back.
    #[default(0)]
    pub axis: i64,
}

/// The most parts of a split.
const MAX_PARTS: i64 = 1 << 20;

fn infer_split(op: Split<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.rank())?;
    let whole = data.shape[axis];
    let part = |extent: Dim| {
        let mut shape = data.shape.clone();
        shape[axis] = extent;
        Type::tensor(shape, data.dtype)
    };
    match op.indices_or_sections {
        Sections::Equal(count) => {
            if !(1..=MAX_PARTS).contains(&count) {
                return Err(Stop::Error(format!(
                    "expected from 1 to {MAX_PARTS} sections, found {count}"
                )));
            }
            if whole.known().is_some_and(|n| n % count != 0) {
                return Err(Stop::Error(format!(
                    "expected sections that divide the extent {whole}, found {count}"
                )));
            }
            let extent = Dim::binary(DimOp::FloorDiv, whole, count.into());
            Ok(Type::tuple(std::iter::repeat_n(part(extent), count as usize)))
        }
        Sections::At(indices) => {
            let mut parts = Vec::with_capacity(indices.len() + 1);
            let mut begin = 0;
            for index in indices {
                if index < begin || whole.known().is_some_and(|n| index > n) {
                    return Err(Stop::Error(format!(
                        "expected an index from {begin} to {whole}, found {index}"
                    )));
                }
                parts.push(part((index - begin).into()));
                begin = index;
            }
            parts.push(part(Dim::binary(DimOp::Sub, whole, begin.into())));
            Ok(Type::tuple(parts))
        }
    }
}

fn evaluate_split(op: &Split<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.rank())?;
    let strides = elements::strides(data.shape());
    let mut begin = 0;
    let mut parts = Vec::new();
    for ty in elements::result_type(cx, infer_split)?.as_tuple().unwrap_or_default() {
        let shape = elements::shape_of(*ty)?;
        let offsets = Offsets::new(&shape, &strides, begin * strides[axis])?;
        parts.push(Value::from(elements::pick(data, &shape, offsets)?));
        begin += shape[axis] as isize;
    }
    Ok(Value::tuple(parts))
}

fn define_split(cx: &mut DefineCx<'_>) -> Defined {
    let data = cx.tensor(0)?;
    let axis = relation::axis(cx.fields::<Split<Operand>>()?.axis, data.shape.len())?;
    let (mut begin, mut parts) = (0, Vec::new());
    for ty in cx.result.as_tuple().unwrap_or_default() {
        let (shape, name) = (elements::shape_of(*ty)?, cx.stage());
        parts.push(cx.builder.compute(&name, &shape, |e, i| {
            let mut at = i.to_vec();
            at[axis] = e.add_index(i[axis], begin);
            e.load(&data, &at)
        }));
        begin += shape[axis];
    }
    Ok(parts)
}

/// The parts of `change` along `axis` that came from the fields of operand 0, of these extents.
fn parts<'p>(change: Term<'p>, axis: usize, extents: &[i64]) -> Vec<Term<'p>> {
    let (mut begin, mut counts) = (vec![0; change.rank()], change.shape());
    let part = |extent: &i64| {
        counts[axis] = *extent;
        let part = change.slice(&begin, &counts);
        begin[axis] += extent;
        part
    };
    extents.iter().map(part).collect()
}

fn pull_concatenate(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Concatenate<Term<'_>>>() else { return };
    let Some(change) = at.change().tensor() else { return };
    let Ok(axis) = relation::axis(op.axis, change.rank()) else { return };
    let extents: Vec<i64> =
        at.field_types(0).iter().map(|ty| change.number(0.0).of_type(*ty).shape()[axis]).collect();
    let parts = parts(change, axis, &extents).into_iter().map(Change::Tensor);
    at.give(0, Change::Tuple(parts.collect()));
}

fn pull_stack(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Stack<Term<'_>>>() else { return };
    let Some(change) = at.change().tensor() else { return };
    let Ok(axis) = relation::axis(op.axis, change.rank()) else { return };
    let mut shape = change.shape();
    shape.remove(axis);
    let parts = parts(change, axis, &vec![1; at.field_types(0).len()]);
    let parts = parts.into_iter().map(|part| Change::Tensor(part.reshape(&shape)));
    at.give(0, Change::Tuple(parts.collect()));
}

fn pull_split(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Split<Term<'_>>>() else { return };
    let Change::Tuple(changes) = at.change() else { return };
    let types = at.result_types();
    let parts = changes.iter().zip(types).map(|(change, ty)| match change.tensor() {
        Some(change) => change.id(),
        None => op.data.number(0.0).of_type(*ty).id(),
    });
    let parts: Vec<_> = parts.collect();
    let joined = Concatenate { data: at.tuple(&parts), axis: op.axis };
    if at.wants(0) {
        at.give(0, Change::Tensor(at.build(&joined)));
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Concatenate>();
    registry.op::<Stack>();
    registry.op::<Split>();
}
