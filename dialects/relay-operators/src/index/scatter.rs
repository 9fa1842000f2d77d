//! Operators that place elements at computed places: `scatter_elements`, `scatter_nd`.

use ir_core::{DType, InferCx, Op, Registry, Scalar, SmallVec, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Index, Operand, copied, means_of, sums_of, within};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression, Tensor};

use super::gather::{
    define_index, define_position, expect_fits, index_of, position, slice_offsets,
};
use crate::FusionPattern::Opaque;
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

/// What writes, for an element at indices `i` of the data, whether update `r` changes it, and that
/// update, which may be anything where it does not.
trait Updates {
    fn hits(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId;

    /// How many of the first axes of the data, of so many, decide whether an update hits.
    fn deciding(&self, rank: usize) -> usize;

    fn value(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId;
}

/// The first operand with updates, of which there are `extents` for each element. Every element
/// looks for those that hit it: stages have no order in which updates could be applied.
fn define_scattered(
    cx: &mut DefineCx<'_>,
    extents: &[i64],
    reduction: Reduction,
    updates: &impl Updates,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    if extents.contains(&0) {
        return copied(cx);
    }
    let sums = sums_of(dtype);
    // What is the same for whole slices is found once for each.
    let deciding = updates.deciding(shape.len());
    let last = |cx: &mut DefineCx<'_>| {
        let name = cx.stage_of("last");
        cx.builder.reduce(&name, &shape[..deciding], extents, Combiner::Max, |e, i, r| {
            let (number, none) = (Index::row_major(r, extents).value(e), e.index(-1));
            let hits = updates.hits(e, i, r);
            e.select(hits, number, none)
        })
    };
    let folded = |cx: &mut DefineCx<'_>, combiner: Combiner, neutral: f64| {
        let name = cx.stage_of("updates");
        cx.builder.reduce(&name, &shape, extents, combiner, |e, i, r| {
            let (hits, update) = (updates.hits(e, i, r), updates.value(e, i, r));
            let (update, neutral) = (e.cast(update, sums), e.number(sums, neutral));
            e.select(hits, update, neutral)
        })
    };
    match reduction {
        Reduction::Update => {
            let last = last(cx);
            let count = extents.iter().product();
            cx.compute(|e, i| {
                let number = e.load(&last, &i[..deciding]);
                let (zero, old) = (e.index(0), e.load(&data, i));
                let (hit, number) = (e.ge(number, zero), e.max(number, zero));
                let at = Index::new(number, count).split(e, extents);
                let new = updates.value(e, i, &at);
                e.select(hit, new, old)
            })
        }
        Reduction::Add | Reduction::Multiply | Reduction::Mean => {
            let product = reduction == Reduction::Multiply;
            let (combiner, neutral) =
                if product { (Combiner::Product, 1.0) } else { (Combiner::Sum, 0.0) };
            let folded = folded(cx, combiner, neutral);
            let hits = (reduction == Reduction::Mean).then(|| {
                let name = cx.stage_of("hits");
                cx.builder.reduce(&name, &shape[..deciding], extents, Combiner::Sum, |e, i, r| {
                    let hits = updates.hits(e, i, r);
                    e.cast(hits, DType::INT64)
                })
            });
            cx.compute(|e, i| {
                let (old, new) = (e.load(&data, i), e.load(&folded, i));
                let old = e.cast(old, sums);
                let mut value = if product { e.mul(old, new) } else { e.add(old, new) };
                if let Some(hits) = &hits {
                    let hits = e.load(hits, &i[..deciding]);
                    let count = e.add_index(hits, 1);
                    let wide = means_of(dtype);
                    let (sum, count) = (e.cast(value, wide), e.cast(count, wide));
                    value = e.div(sum, count);
                }
                e.cast(value, dtype)
            })
        }
        Reduction::Min | Reduction::Max => {
            let is_min = reduction == Reduction::Min;
            let better = |e: &mut Expression<'_>, new: ValueId, old: ValueId| {
                let better =
                    if is_min { define_less(e, new, old) } else { define_less(e, old, new) };
                e.select(better, new, old)
            };
            let neutral = worst(dtype, is_min);
            let name = cx.stage_of("updates");
            let best = cx.builder.reduce_user(
                &name,
                &shape,
                extents,
                &[neutral],
                |e, i, r| {
                    let (hits, update) = (updates.hits(e, i, r), updates.value(e, i, r));
                    let neutral = e.constant(dtype, neutral);
                    SmallVec::from_buf([e.select(hits, update, neutral)])
                },
                |e, a, b| SmallVec::from_buf([better(e, b[0], a[0])]),
            );
            cx.compute(|e, i| {
                let (old, new) = (e.load(&data, i), e.load(&best[0], i));
                better(e, new, old)
            })
        }
    }
}

/// The last number of `dtype` in the order of [`elements::total_order`], or the first one.
fn worst(dtype: DType, last: bool) -> Scalar {
    if dtype.is_float() {
        return Scalar::Float(if last { f64::NAN } else { f64::NEG_INFINITY });
    }
    let unsigned = !dtype.is_signed();
    let bits = if dtype.is_bool() { 1 } else { dtype.bits() };
    Scalar::Int(match (unsigned, last) {
        (true, true) => (u64::MAX >> (64 - bits)) as i64,
        (true, false) => 0,
        (false, true) => i64::MAX >> (64 - bits),
        (false, false) => i64::MIN >> (64 - bits),
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
        Opaque,
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
    struct Elements {
        axis: usize,
        places: Tensor,
        updates: Tensor,
    }
    impl Elements {
        /// Where the update stands, and whether there is one.
        fn place(
            &self,
            e: &mut Expression<'_>,
            i: &[ValueId],
            r: &[ValueId],
        ) -> (Vec<ValueId>, Option<ValueId>) {
            let mut at = i.to_vec();
            at[self.axis] = r[0];
            let axes = (0..at.len()).filter(|axis| *axis != self.axis);
            let inside = within(e, axes.map(|axis| (at[axis], self.places.shape[axis])));
            (at, inside)
        }

        fn load(
            &self,
            e: &mut Expression<'_>,
            tensor: &Tensor,
            i: &[ValueId],
            r: &[ValueId],
        ) -> ValueId {
            let (at, inside) = self.place(e, i, r);
            let otherwise = e.number(tensor.dtype, 0.0);
            match inside {
                Some(inside) => e.load_if(inside, tensor, &at, otherwise),
                None => e.load(tensor, &at),
            }
        }
    }
    impl Updates for Elements {
        fn hits(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId {
            let place = self.load(e, &self.places, i, r);
            let hits = e.eq(place, i[self.axis]);
            match self.place(e, i, r).1 {
                Some(inside) => e.and(inside, hits),
                None => hits,
            }
        }

        fn deciding(&self, rank: usize) -> usize {
            rank
        }

        fn value(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId {
            self.load(e, &self.updates, i, r)
        }
    }
    let op = cx.fields::<ScatterElements<Operand>>()?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let axis = relation::axis(op.axis, data.shape.len())?;
    let extents = [indices.shape[axis]];
    let name = cx.stage_of("places");
    let places = cx.builder.compute(&name, &indices.shape, |e, i| {
        let index = e.load(&indices, i);
        let index = define_index(e, index);
        define_position(e, index, data.shape[axis])
    });
    define_scattered(cx, &extents, op.reduction, &Elements { axis, places, updates })
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
        Opaque,
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
    struct Slices {
        /// By leading axis of the data, where on it.
        places: Vec<Tensor>,
        updates: Tensor,
    }
    impl Updates for Slices {
        fn hits(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId {
            let mut hits = None;
            for (places, index) in self.places.iter().zip(i) {
                let place = e.load(places, r);
                let same = e.eq(place, *index);
                hits = Some(hits.map_or(same, |hits| e.and(hits, same)));
            }
            hits.unwrap_or_else(|| e.constant(DType::BOOL, Scalar::Int(1)))
        }

        fn deciding(&self, _rank: usize) -> usize {
            self.places.len()
        }

        fn value(&self, e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]) -> ValueId {
            let rest = &i[self.places.len()..];
            let at: Vec<ValueId> = r.iter().chain(rest).copied().collect();
            e.load(&self.updates, &at)
        }
    }
    let op = cx.fields::<ScatterNd<Operand>>()?;
    let (data, indices, updates) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let extents: elements::Shape = indices.shape[1..].into();
    let mut places = Vec::new();
    for (axis, &extent) in (0..indices.shape[0]).zip(&data.shape) {
        let name = cx.stage_of("places");
        places.push(cx.builder.compute(&name, &extents, |e, i| {
            let mut at = vec![e.index(axis)];
            at.extend_from_slice(i);
            let index = e.load(&indices, &at);
            let index = define_index(e, index);
            define_position(e, index, extent)
        }));
    }
    define_scattered(cx, &extents, op.mode, &Slices { places, updates })
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
