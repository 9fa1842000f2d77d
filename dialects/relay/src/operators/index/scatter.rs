//! Operators that place elements at computed places: `scatter_elements`, `scatter_nd`.

use ir_core::{DType, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};

use super::gather::{expect_fits, position, slice_offsets};
use crate::interpreter::{EvalCx, EvalError, Evaluate, Value};
use crate::operators::FusionPattern::Opaque;
use crate::operators::attributes::keywords;
use crate::operators::elements::{self, Offsets};
use crate::operators::relation;

keywords! {
    /// How an update changes what is there. Updates are applied in row-major order.
    Reduction {
        /// It replaces it.
        Update = "update",
        /// Their sum.
        Add = "add",
        /// Their product.
        Multiply = "mul",
        /// The mean of it and all its updates.
        Mean = "mean",
        /// The lesser one.
        Min = "min",
        /// The greater one.
        Max = "max",
    }
}

/// `data` with `updates` applied at `places`, in order.
fn scattered(
    data: &TensorData,
    updates: &TensorData,
    places: impl Iterator<Item = usize>,
    reduction: Reduction,
) -> Result<Value, EvalError> {
    let dtype = data.dtype();
    let mut values: Vec<Scalar> = data.elements().collect();
    let mut counts = vec![1u32; if reduction == Reduction::Mean { values.len() } else { 0 }];
    for (place, update) in places.zip(updates.elements()) {
        let Some(slot) = values.get_mut(place) else {
            return Err(EvalError(format!("expected a position below {}", data.len())));
        };
        *slot = match reduction {
            Reduction::Update => update,
            Reduction::Add => add(*slot, update, dtype),
            Reduction::Mean => {
                counts[place] = counts[place].saturating_add(1);
                match dtype.is_float() {
                    // The sum is rounded only once, at the end.
                    true => Scalar::Float(slot.as_f64() + update.as_f64()),
                    false => add(*slot, update, dtype),
                }
            }
            Reduction::Multiply => match dtype.is_float() {
                true => Scalar::Float(slot.as_f64() * update.as_f64()).cast(dtype),
                false => Scalar::Int(slot.as_i64().wrapping_mul(update.as_i64())).cast(dtype),
            },
            Reduction::Min if elements::total_order(update, *slot, dtype).is_lt() => update,
            Reduction::Max if elements::total_order(update, *slot, dtype).is_gt() => update,
            Reduction::Min | Reduction::Max => *slot,
        };
    }
    for (value, &count) in values.iter_mut().zip(&counts) {
        *value = match dtype.is_float() {
            true => Scalar::Float(value.as_f64() / f64::from(count)),
            false => elements::wrapped(elements::integer(*value, dtype) / i128::from(count)),
        };
    }
    Ok(TensorData::from_scalars(dtype, data.shape(), values)?.into())
}

fn add(a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    match dtype.is_float() {
        true => Scalar::Float(a.as_f64() + b.as_f64()).cast(dtype),
        false => Scalar::Int(a.as_i64().wrapping_add(b.as_i64())).cast(dtype),
    }
}

/// `data` with `data[…, indices[…, j, …], …]` changed by `updates[…, j, …]` along `axis`. An index
/// outside is an error; negative ones count from the back.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.scatter_elements",
    infer = infer_scatter_elements,
    hooks(Opaque, Evaluate(|cx| evaluate_scatter_elements(&cx.fields()?, cx)))
)]
pub struct ScatterElements<V = ValueId> {
    /// Rank at least 1.
    pub data: V,
    /// Integers, of the rank of `data`; extents on axes other than `axis` are at most those of
    /// `data`.
    pub indices: V,
    /// Of the shape of `indices` and the element type of `data`.
    pub updates: V,
    /// The axis; negative ones count from the back.
    #[default(0)]
    pub axis: i64,
    /// How an update changes what is there: "update", "add", "mul", "mean", "min" or "max".
    #[default(Reduction::Update)]
    pub reduction: Reduction,
}

fn infer_scatter_elements(op: ScatterElements<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    relation::expect_integers(indices)?;
    relation::expect_rank(indices, data.rank())?;
    relation::same_dtype(data, updates)?;
    relation::equal_dims(cx, &indices.shape, &updates.shape)?;
    expect_fits(&indices.shape, &data.shape, relation::axis(op.axis, data.rank())?)?;
    Ok(Type::tensor(data.shape.iter().copied(), data.dtype))
}

fn evaluate_scatter_elements(
    op: &ScatterElements<Value>,
    cx: &EvalCx<'_>,
) -> Result<Value, EvalError> {
    elements::result_shape(cx, infer_scatter_elements)?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let axis = relation::axis(op.axis, data.rank())?;
    let mut strides = elements::strides(data.shape());
    let stride = std::mem::take(&mut strides[axis]) as usize;
    let places: Result<Vec<usize>, EvalError> = Offsets::new(indices.shape(), &strides, 0)?
        .zip(indices.elements())
        .map(|(base, index)| Ok(base + position(index.as_i64(), data.shape()[axis])? * stride))
        .collect();
    scattered(data, updates, places?.into_iter(), op.reduction)
}

/// `data` with slices changed at index tuples that stand along the first axis of `indices`:
/// `data[indices[0, y], …, indices[m - 1, y], x]` by `updates[y, x]`. An index outside is an error;
/// negative ones count from the back.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.scatter_nd",
    infer = infer_scatter_nd,
    hooks(Opaque, Evaluate(|cx| evaluate_scatter_nd(&cx.fields()?, cx)))
)]
pub struct ScatterNd<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Integers of shape `(m, y…)`.
    pub indices: V,
    /// Of shape `y ++ data[m..]` and the element type of `data`.
    pub updates: V,
    /// How an update changes what is there: "update", "add", "mul", "mean", "min" or "max".
    #[default(Reduction::Update)]
    pub mode: Reduction,
}

fn infer_scatter_nd(_op: ScatterNd<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    relation::expect_integers(indices)?;
    relation::same_dtype(data, updates)?;
    let count = match indices.shape.first().map(|dim| dim.known()) {
        Some(Some(count @ 0..)) if count as usize <= data.rank() => count as usize,
        _ => {
            return Err(Stop::Error(format!(
                "expected indices whose first extent is at most {}, found the shape {}",
                data.rank(),
                relation::display_dims(&indices.shape)
            )));
        }
    };
    let mut expected: relation::Dims = indices.shape[1..].into();
    expected.extend_from_slice(&data.shape[count..]);
    relation::equal_dims(cx, &expected, &updates.shape)?;
    Ok(Type::tensor(data.shape.iter().copied(), data.dtype))
}

fn evaluate_scatter_nd(op: &ScatterNd<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    elements::result_shape(cx, infer_scatter_nd)?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let run = elements::count(&data.shape()[indices.shape()[0] as usize..])?;
    let starts = slice_offsets(indices, data.shape(), 0)?;
    let places = starts.into_iter().flat_map(|start| start..start + run);
    scattered(data, updates, places, op.mode)
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<ScatterElements>();
    registry.op::<ScatterNd>();
}
