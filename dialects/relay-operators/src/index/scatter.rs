//! Operators that place elements at computed places: `scatter_elements`, `scatter_nd`.

use ir_core::{DType, InferCx, Op, Registry, Scalar, SmallVec, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand, copied, means_of, sums_of};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Expression, Tensor};

use super::gather::{define_position, expect_fits, index_of, load_index, position, slice_offsets};
use crate::FusionPattern;
use crate::attributes::keywords;
use crate::elements::{self, Offsets};
use crate::gradient::{Gradient, Pullback, Term};
use crate::index::gather::{Gather, GatherNd};
use crate::relation;
use crate::sort::define_less;

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

/// Where the updates go: for the indices of one, a place in the data.
type Places<'a> = &'a dyn Fn(&mut Expression<'_>, &[ValueId]) -> SmallVec<[ValueId; 4]>;

/// The first operand with the elements of `updates` applied at `places` one after the other.
fn define_scattered(
    cx: &mut DefineCx<'_>,
    updates: &Tensor,
    reduction: Reduction,
    places: Places<'_>,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    if updates.shape.contains(&0) {
        return copied(cx);
    }
    if shape.contains(&0) {
        return Err("expected no updates of a tensor without elements".to_string());
    }
    // Means are of sums that are rounded once; all else is rounded at each update.
    let (name, wide) = match reduction {
        Reduction::Mean => (cx.stage_of("sum"), sums_of(dtype)),
        _ => (cx.stage(), dtype),
    };
    let initial = |e: &mut Expression<'_>, i: &[ValueId]| {
        let element = e.load(&data, i);
        e.cast(element, wide)
    };
    let update = |e: &mut Expression<'_>, k: &[ValueId]| {
        let place = places(e, k);
        let value = e.load(updates, k);
        let value = e.cast(value, wide);
        place.into_iter().chain([value]).collect()
    };
    let combine = |e: &mut Expression<'_>, old: ValueId, new: ValueId| match reduction {
        Reduction::Update => new,
        Reduction::Add | Reduction::Mean => e.add(old, new),
        Reduction::Multiply => e.mul(old, new),
        Reduction::Min => {
            let better = define_less(e, new, old);
            e.select(better, new, old)
        }
        Reduction::Max => {
            let better = define_less(e, old, new);
            e.select(better, new, old)
        }
    };
    let changed = cx.builder.scatter(&name, &shape, &updates.shape, initial, update, combine);
    if reduction != Reduction::Mean {
        return Ok(vec![changed]);
    }
    let name = cx.stage_of("count");
    let counts = cx.builder.scatter(
        &name,
        &shape,
        &updates.shape,
        |e, _| e.index(1),
        |e, k| {
            let place = places(e, k);
            let one = e.index(1);
            place.into_iter().chain([one]).collect()
        },
        |e, old, new| e.add(old, new),
    );
    cx.compute(|e, i| {
        let (sum, count, wide) = (e.load(&changed, i), e.load(&counts, i), means_of(dtype));
        let (sum, count) = (e.cast(sum, wide), e.cast(count, wide));
        let mean = e.div(sum, count);
        e.cast(mean, dtype)
    })
}

/// `data` with `data[…, indices[…, j, …], …]` changed by `updates[…, j, …]` along `axis`. An index
/// outside is an error; negative ones count from the back.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.scatter_elements",
    infer = infer_scatter_elements,
    hooks(
        Gradient(pull_scatter_elements),
        FusionPattern::Scatter,
        Evaluate(|cx| evaluate_scatter_elements(&cx.fields()?, cx)),
        Define(define_scatter_elements)
    )
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
        .map(|(base, index)| {
            let index = index_of(index, indices.dtype());
            Ok(base + position(index, data.shape()[axis])? * stride)
        })
        .collect();
    scattered(data, updates, places?.into_iter(), op.reduction)
}

fn define_scatter_elements(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<ScatterElements<Operand>>()?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let axis = relation::axis(op.axis, data.shape.len())?;
    define_scattered(cx, &updates, op.reduction, &|e, k| {
        let mut place: SmallVec<[ValueId; 4]> = k.into();
        let index = load_index(e, &indices, k);
        place[axis] = define_position(e, index, data.shape[axis]);
        place
    })
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
    hooks(
        Gradient(pull_scatter_nd),
        FusionPattern::Scatter,
        Evaluate(|cx| evaluate_scatter_nd(&cx.fields()?, cx)),
        Define(define_scatter_nd)
    )
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

fn define_scatter_nd(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<ScatterNd<Operand>>()?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let tuples = indices.shape.len() - 1;
    define_scattered(cx, &updates, op.mode, &|e, k| {
        let mut place = SmallVec::new();
        for (number, &extent) in (0..indices.shape[0]).zip(&data.shape) {
            let mut at = vec![e.index(number)];
            at.extend_from_slice(&k[..tuples]);
            let index = load_index(e, &indices, &at);
            place.push(define_position(e, index, extent));
        }
        place.extend_from_slice(&k[tuples..]);
        place
    })
}

fn pull_scatter_elements(at: &Pullback<'_>) {
    let Some(op) = at.fields::<ScatterElements<Term<'_>>>() else { return };
    if op.reduction != Reduction::Add {
        return at.refuse("a reduction other than `add`");
    }
    let (indices, axis) = (op.indices.id(), op.axis);
    at.to(0, |g| g);
    at.to(2, |g| at.build(&Gather { data: g.id(), indices, axis }));
}

fn pull_scatter_nd(at: &Pullback<'_>) {
    let Some(op) = at.fields::<ScatterNd<Term<'_>>>() else { return };
    if op.mode != Reduction::Add {
        return at.refuse("a mode other than `add`");
    }
    at.to(0, |g| g);
    at.to(2, |g| {
        let (data, indices, batch_dims, index_rank) = (g.id(), op.indices.id(), 0, None);
        at.build(&GatherNd { data, indices, batch_dims, index_rank })
    });
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<ScatterElements>();
    registry.op::<ScatterNd>();
}
