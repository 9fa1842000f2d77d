//! Definitions that many operators share.

use ir_core::{DType, Scalar, SmallVec, ValueId};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use super::{DefineCx, Defined, load_broadcast, reshaped};
use crate::interpreter::Shape;

/// What `element` makes of every element of the first operand.
pub fn map(
    cx: &mut DefineCx<'_>,
    element: impl FnOnce(&mut Expression<'_>, ValueId) -> ValueId,
) -> Defined {
    let data = cx.tensor(0)?;
    cx.compute(|e, i| {
        let x = e.load(&data, i);
        element(e, x)
    })
}

/// The elements of the first operand.
pub fn copied(cx: &mut DefineCx<'_>) -> Defined {
    map(cx, |_, x| x)
}

/// The elements of the first operand at the indices that `place` computes from the result's.
pub fn moved(
    cx: &mut DefineCx<'_>,
    place: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> Vec<ValueId>,
) -> Defined {
    let data = cx.tensor(0)?;
    cx.compute(|e, i| {
        let at = place(e, i);
        e.load(&data, &at)
    })
}

/// The elements of the first operand in row-major order.
pub fn reshape(cx: &mut DefineCx<'_>) -> Defined {
    let (to, _) = cx.result()?;
    let from = cx.tensor(0)?.shape;
    moved(cx, |e, i| reshaped(e, i, &to, &from))
}

/// The elements of the first operand as element type `dtype`.
pub fn cast_to(cx: &mut DefineCx<'_>, dtype: DType) -> Defined {
    map(cx, |e, x| e.cast(x, dtype))
}

/// `value` everywhere.
pub fn filled(cx: &mut DefineCx<'_>, value: Scalar) -> Defined {
    let (_, dtype) = cx.result()?;
    cx.compute(|e, _| e.constant(dtype, value))
}

/// `op` on elements of one operand, or of two that broadcast.
pub fn arithmetic(cx: &mut DefineCx<'_>, op: ScalarOp) -> Defined {
    elementwise(cx, op.arity(), |e, x| e.scalar(op, x))
}

/// `op` on the truth of elements, in their element type.
pub fn logic(cx: &mut DefineCx<'_>, op: ScalarOp) -> Defined {
    elementwise(cx, op.arity(), |e, x| {
        let dtype = e.dtype(x[0]);
        let truths: SmallVec<[ValueId; 2]> = x.iter().map(|x| nonzero(e, *x)).collect();
        let value = e.scalar(op, &truths);
        e.cast(value, dtype)
    })
}

/// `op`, a function of reals. Integers are computed as reals and truncated.
pub fn real(cx: &mut DefineCx<'_>, op: ScalarOp) -> Defined {
    map(cx, |e, x| as_real(e, x, |e, x| e.scalar(op, &[x])))
}

/// `1 / op`, as [`real`].
pub fn reciprocal(cx: &mut DefineCx<'_>, op: ScalarOp) -> Defined {
    map(cx, |e, x| {
        as_real(e, x, |e, x| {
            let (one, value) = (e.number_like(x, 1.0), e.scalar(op, &[x]));
            e.div(one, value)
        })
    })
}

/// `op`, which does nothing to integers.
pub fn rounding(cx: &mut DefineCx<'_>, op: ScalarOp) -> Defined {
    map(cx, |e, x| match e.dtype(x).is_float() {
        true => e.scalar(op, &[x]),
        false => x,
    })
}

/// What `element` makes of the elements of the first operands, which broadcast.
pub fn elementwise(
    cx: &mut DefineCx<'_>,
    operands: usize,
    element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
) -> Defined {
    let (shape, _) = cx.result()?;
    let tensors: Vec<Tensor> = (0..operands).map(|n| cx.tensor(n)).collect::<Result<_, _>>()?;
    cx.compute(|e, i| {
        let values: SmallVec<[ValueId; 2]> =
            tensors.iter().map(|tensor| load_broadcast(e, tensor, i, &shape)).collect();
        element(e, &values)
    })
}

/// What `function` makes of `x`; of an integer as `float64`, truncated.
pub fn as_real(
    e: &mut Expression<'_>,
    x: ValueId,
    function: impl FnOnce(&mut Expression<'_>, ValueId) -> ValueId,
) -> ValueId {
    let dtype = e.dtype(x);
    if dtype.is_float() {
        return function(e, x);
    }
    let x = e.cast(x, DType::FLOAT64);
    let value = function(e, x);
    e.cast(value, dtype)
}

/// Whether `x` is not 0.
pub fn nonzero(e: &mut Expression<'_>, x: ValueId) -> ValueId {
    if e.dtype(x).is_bool() {
        return x;
    }
    let zero = e.number_like(x, 0.0);
    e.scalar(ScalarOp::Ne, &[x, zero])
}

/// Whether `0 ≤ index < extent` for every pair; `None` for no pairs.
pub fn within(
    e: &mut Expression<'_>,
    indices: impl IntoIterator<Item = (ValueId, i64)>,
) -> Option<ValueId> {
    let mut inside = None;
    for (index, extent) in indices {
        let (least, end) = (e.index(0), e.index(extent));
        for condition in [e.ge(index, least), e.lt(index, end)] {
            inside = Some(match inside {
                Some(inside) => e.and(inside, condition),
                None => condition,
            });
        }
    }
    inside
}

/// The element of `vector` that belongs to indices `i` of a tensor, along its `axis`.
pub fn along(e: &mut Expression<'_>, vector: &Tensor, i: &[ValueId], axis: usize) -> ValueId {
    e.load(vector, &[i[axis]])
}

/// The element type that sums of elements of type `dtype` are computed in: floats narrower than
/// `float32` would soon be too coarse for what is added to them.
pub fn sums_of(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() < 32 { DType::FLOAT32 } else { dtype }
}

/// The element type that means of elements of type `dtype` are computed in: sums of integers do not
/// wrap, as far as 64 bits reach.
pub fn means_of(dtype: DType) -> DType {
    match dtype {
        DType::UINT64 => dtype,
        _ if dtype.is_float() => sums_of(dtype),
        _ => DType::INT64,
    }
}

/// The element type that real functions of elements of type `dtype` are computed in.
pub fn reals_of(dtype: DType) -> DType {
    if dtype.is_float() { sums_of(dtype) } else { DType::FLOAT64 }
}

/// The element type that a sum of products of `a` and `b` with result `out` is computed in: the
/// widest float where a factor is one, else that of the result, to which integers wrap.
pub fn accumulator(a: DType, b: DType, out: DType) -> DType {
    let floats = [a, b].into_iter().filter(|dtype| dtype.is_float());
    let widest = floats.max_by_key(|dtype| dtype.bits());
    sums_of(match widest {
        Some(float) if out.is_float() && out.bits() >= float.bits() => out,
        Some(float) => float,
        None => out,
    })
}

/// An element along an axis that takes part in a weighted sum: its index, and its weight in
/// `float64`; `None` is 1.
pub type Tap = (ValueId, Option<ValueId>);

/// The taps of places on an axis, as stages over what the places are computed from.
pub type TapStages = Vec<(Tensor, Option<Tensor>)>;

/// The taps of places on an axis, of which there are `extents`, and which `taps` writes, as stages of their own: all
/// that is computed on them is computed once, not for each element. Weights become `real`.
pub fn stage_taps(
    cx: &mut DefineCx<'_>,
    extents: &[i64],
    real: DType,
    taps: impl Fn(&mut Expression<'_>, &[ValueId]) -> Vec<Tap>,
) -> TapStages {
    let (mut stages, mut count, mut weighted) = (TapStages::new(), 1, false);
    while stages.len() < count {
        let number = stages.len();
        let name = cx.stage_of("places");
        let places = cx.builder.compute(&name, extents, |e, i| {
            let taps = taps(e, i);
            (count, weighted) = (taps.len(), taps[number].1.is_some());
            taps[number].0
        });
        let weights = weighted.then(|| {
            let name = cx.stage_of("weights");
            cx.builder.compute(&name, extents, |e, i| match taps(e, i)[number].1 {
                Some(weight) => e.cast(weight, real),
                None => e.number(real, 1.0),
            })
        });
        stages.push((places, weights));
    }
    stages
}

/// The taps of `stages` at the indices `at`.
pub fn taps_at(e: &mut Expression<'_>, stages: &TapStages, at: &[ValueId]) -> Vec<Tap> {
    let load = |(places, weights): &(Tensor, Option<Tensor>)| {
        let place = e.load(places, at);
        (place, weights.as_ref().map(|weights| e.load(weights, at)))
    };
    stages.iter().map(load).collect()
}

/// The sum, over the axes of `taps` in order, of weighted elements in element type `real`. `element` loads
/// the one at indices along the axes.
pub fn resampled(
    e: &mut Expression<'_>,
    real: DType,
    taps: &[Vec<Tap>],
    element: impl Fn(&mut Expression<'_>, &[ValueId]) -> ValueId,
) -> ValueId {
    // Every choice of a tap per axis, that of the first axis changing fastest.
    let count = taps.iter().map(Vec::len).product::<usize>();
    let mut values: Vec<ValueId> = Vec::with_capacity(count);
    for number in 0..count {
        let mut rest = number;
        let mut indices = SmallVec::<[ValueId; 4]>::new();
        for taps in taps {
            indices.push(taps[rest % taps.len()].0);
            rest /= taps.len();
        }
        let x = element(e, &indices);
        values.push(e.cast(x, real));
    }
    for taps in taps {
        let rows: Vec<Vec<ValueId>> = values.chunks(taps.len()).map(<[_]>::to_vec).collect();
        values.clear();
        for row in rows {
            let mut sum = None;
            for (value, (_, weight)) in row.into_iter().zip(taps) {
                let term = match weight {
                    Some(weight) => {
                        let weight = e.cast(*weight, real);
                        e.mul(value, weight)
                    }
                    None => value,
                };
                sum = Some(sum.map_or(term, |sum| e.add(sum, term)));
            }
            values.extend(sum);
        }
    }
    values.first().copied().unwrap_or_else(|| e.number(real, 0.0))
}

/// Which axes of a tensor are reduced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reduction {
    /// For every axis, whether it is reduced.
    pub reduced: SmallVec<[bool; 4]>,
    /// Whether reduced axes stay in the result, with extent 1.
    pub keepdims: bool,
    /// Extents of the reduced axes.
    pub extents: Shape,
    /// Extents of the result.
    pub shape: Shape,
}

impl Reduction {
    /// The reduction of a tensor of `shape` over the axes for which `reduced` holds.
    pub fn new(shape: &[i64], reduced: &[bool], keepdims: bool) -> Reduction {
        let of = |wanted: bool| {
            let axes = shape.iter().zip(reduced).filter(move |(_, reduced)| **reduced == wanted);
            axes.map(|(extent, _)| *extent)
        };
        let shape = match keepdims {
            true => {
                let axes = shape.iter().zip(reduced);
                axes.map(|(extent, reduced)| if *reduced { 1 } else { *extent }).collect()
            }
            false => of(false).collect(),
        };
        Reduction { reduced: reduced.into(), keepdims, extents: of(true).collect(), shape }
    }

    /// The reduction of one axis, which does not stay.
    pub fn of_axis(shape: &[i64], axis: usize) -> Reduction {
        let reduced: SmallVec<[bool; 4]> = (0..shape.len()).map(|at| at == axis).collect();
        Reduction::new(shape, &reduced, false)
    }

    /// Number of elements that become one.
    pub fn count(&self) -> i64 {
        self.extents.iter().product()
    }

    /// The indices of the element at indices `i` of the result and `r` of the reduction.
    pub fn place(&self, i: &[ValueId], r: &[ValueId]) -> Vec<ValueId> {
        let (mut i, mut r) = (i.iter(), r.iter());
        let axes = self.reduced.iter().filter_map(|reduced| {
            if *reduced && self.keepdims {
                i.next();
            }
            if *reduced { r.next() } else { i.next() }
        });
        axes.copied().collect()
    }

    /// The indices in the result for indices `i` of the tensor.
    pub fn kept(&self, e: &mut Expression<'_>, i: &[ValueId]) -> Vec<ValueId> {
        let axes = self.reduced.iter().zip(i).filter_map(|(reduced, index)| match reduced {
            false => Some(*index),
            true => self.keepdims.then(|| e.index(0)),
        });
        axes.collect()
    }

    /// Adds a stage called `name` with the reduction of `tensor`, each element of which `element`
    /// changes.
    pub fn stage(
        &self,
        cx: &mut DefineCx<'_>,
        name: &str,
        combiner: Combiner,
        tensor: &Tensor,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], ValueId) -> ValueId,
    ) -> Tensor {
        cx.builder.reduce(name, &self.shape, &self.extents, combiner, |e, i, r| {
            let at = self.place(i, r);
            let x = e.load(tensor, &at);
            element(e, &at, x)
        })
    }
}
