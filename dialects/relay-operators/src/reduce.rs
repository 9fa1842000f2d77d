//! Reductions: `sum`, `mean`, `argmax`, `variance` ….

use std::cmp::Ordering;

use ir_core::{
    AttrDict, AttrGroup, DType, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId,
};
use relay::define::{
    Define, DefineCx, Defined, Index, Operand, Reduction, load_broadcast, nonzero, sums_of,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Combiner;
use te::scalar::ScalarOp;

use super::FusionPattern::Reduce;
use super::attributes::Integers;
use super::elements::{self, Offsets};
use super::gradient::{Gradient, Pullback, Term};
use super::relation;
use super::shape::expect_broadcasts_to;
use super::{LayoutRule, Rows, batch};

/// Which axes a reduction runs over and whether they stay.
#[derive(AttrGroup, Clone, Debug)]
pub struct Axes {
    /// The axes to reduce; none (or an empty list) reduces all.
    #[default(None)]
    pub axis: Option<Integers>,
    /// Whether reduced axes stay, with extent 1.
    #[default(false)]
    pub keepdims: bool,
    /// Whether the axes that are not in `axis` are reduced instead.
    #[default(false)]
    pub exclude: bool,
}

impl Axes {
    fn reduced(&self, rank: usize) -> Result<smallvec::SmallVec<[bool; 4]>, String> {
        let given = self.axis.as_ref().map(|axes| &axes.0[..]);
        relation::reduced_axes(given, self.exclude, rank)
    }

    /// The reduction of the first operand.
    fn reduction(&self, cx: &DefineCx<'_>) -> Result<Reduction, String> {
        let shape = cx.tensor(0)?.shape;
        Ok(Reduction::new(&shape, &self.reduced(shape.len())?, self.keepdims))
    }

    fn infer(&self, cx: &InferCx<'_>, dtype: Option<DType>) -> Result<Type, Stop> {
        let data = cx.tensor(0)?;
        let reduced = self.reduced(data.rank())?;
        let shape = relation::reduced_dims(&data.shape, &reduced, self.keepdims);
        Ok(Type::tensor(shape, dtype.unwrap_or(data.dtype)))
    }

    /// Applies `f` to every group of elements that are reduced to one, in row-major order.
    fn evaluate(
        &self,
        data: &TensorData,
        dtype: DType,
        mut f: impl FnMut(&[Scalar]) -> Result<Scalar, EvalError>,
    ) -> Result<Value, EvalError> {
        let reduced = self.reduced(data.rank())?;
        let strides = elements::strides(data.shape());
        // Walk the kept axes outside and the reduced ones inside, so that groups are contiguous.
        let (mut walked, mut steps, mut shape) = (Vec::new(), Vec::new(), Vec::new());
        for inside in [false, true] {
            for axis in (0..data.rank()).filter(|&axis| reduced[axis] == inside) {
                walked.push(data.shape()[axis]);
                steps.push(strides[axis]);
            }
        }
        for (&extent, &reduced) in data.shape().iter().zip(&reduced) {
            match (reduced, self.keepdims) {
                (false, _) => shape.push(extent),
                (true, true) => shape.push(1),
                (true, false) => {}
            }
        }
        let kept = reduced.iter().filter(|reduced| !**reduced).count();
        let size = elements::count(&walked[kept..])?;
        let mut offsets = Offsets::new(&walked, &steps, 0)?;
        let mut group = Vec::with_capacity(size);
        let mut values = Vec::new();
        for _ in 0..elements::count(&shape)? {
            group.clear();
            group.extend(
                offsets.by_ref().take(size).map(|at| data.element(at).expect(elements::WITHIN)),
            );
            values.push(f(&group)?);
        }
        Ok(TensorData::from_scalars(dtype, &shape, values)?.into())
    }
}

impl Axes {
    /// The reduced axes of a tensor of this rank, in order.
    fn list(&self, rank: usize) -> Vec<usize> {
        let reduced = self.reduced(rank).unwrap_or_default(); // The relation refused others.
        (0..reduced.len()).filter(|axis| reduced[*axis]).collect()
    }
}

/// `term`, a result of a reduction of `data` over `axes`, with them as extents of 1.
fn kept<'p>(term: Term<'p>, data: Term<'p>, axes: &[usize]) -> Term<'p> {
    let extents = data.shape().into_iter().enumerate();
    let extents: Vec<i64> =
        extents.map(|(axis, extent)| if axes.contains(&axis) { 1 } else { extent }).collect();
    term.reshape(&extents)
}

fn pull_sum(at: &Pullback<'_>, axes: &Axes) {
    let data = at.operand(0);
    let axes = axes.list(data.rank());
    at.to(0, |g| kept(g, data, &axes).broadcast(&data.shape()));
}

fn pull_mean(at: &Pullback<'_>, axes: &Axes) {
    let data = at.operand(0);
    let axes = axes.list(data.rank());
    at.to(0, |g| {
        let shape = data.shape();
        let count: i64 = axes.iter().map(|axis| shape[*axis]).product();
        kept(g * (1.0 / count as f64), data, &axes).broadcast(&shape)
    });
}

/// `data` with `axes` last and as one, and what moves it back.
fn grouped<'p>(
    data: Term<'p>,
    axes: &[usize],
) -> (Term<'p>, impl Fn(Term<'p>) -> Term<'p> + use<'p>) {
    let shape = data.shape();
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let moved: Vec<i64> = order.iter().map(|axis| shape[*axis]).collect();
    let mut flat: Vec<i64> = moved[..shape.len() - axes.len()].to_vec();
    flat.push(moved[flat.len()..].iter().product());
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, axis)| inverse[*axis] = place);
    let back = move |term: Term<'p>| term.reshape(&moved).transpose(&inverse);
    (data.transpose(&order).reshape(&flat), back)
}

/// The first of the elements that are the result changes with it.
fn pull_extreme(at: &Pullback<'_>, axes: &Axes, greatest: bool) {
    let data = at.operand(0);
    let axes = axes.list(data.rank());
    at.to(0, |g| {
        let (rows, back) = grouped(data, &axes);
        let (last, shape) = (rows.rank() - 1, rows.shape());
        let axis = Some(Integers(vec![last as i64]));
        let (keepdims, select_last_index, exclude) = (false, false, false);
        let data = rows.id();
        let first = match greatest {
            true => at.build(&ArgMax { data, axis, keepdims, select_last_index, exclude }),
            false => at.build(&ArgMin { data, axis, keepdims, select_last_index, exclude }),
        };
        let (one, zero) = (g.number(1.0).id(), g.number(0.0).id());
        let mask = at.build(&crate::create::OneHot {
            indices: first.id(),
            on_value: one,
            off_value: zero,
            depth: shape[last],
            axis: -1,
            dtype: g.dtype(),
        });
        let mut group = shape.clone();
        group[last] = 1;
        back(mask * g.reshape(&group))
    });
}

fn pull_greatest(at: &Pullback<'_>, axes: &Axes) {
    pull_extreme(at, axes, true);
}

fn pull_least(at: &Pullback<'_>, axes: &Axes) {
    pull_extreme(at, axes, false);
}

/// The product of all others: of those before, and of those behind, so that zeros do no harm.
fn pull_product<'p>(at: &Pullback<'p>, axes: &Axes) {
    let data = at.operand(0);
    let axes = axes.list(data.rank());
    at.to(0, |g| {
        let (rows, back) = grouped(data, &axes);
        let axis = rows.rank() as i64 - 1;
        let before = |term: Term<'p>| {
            let (data, axis, dtype, exclusive) = (term.id(), Some(axis), None, true);
            at.build(&crate::sort::CumProd { data, axis, dtype, exclusive })
        };
        let reversed = |term: Term<'p>| at.build(&crate::shape::Reverse { data: term.id(), axis });
        let behind = reversed(before(reversed(rows)));
        let mut group = rows.shape();
        group[axis as usize] = 1;
        back(before(rows) * behind * g.reshape(&group))
    });
}

fn pull_nothing(_at: &Pullback<'_>, _axes: &Axes) {}

/// Declares reductions with the usual attributes; the function takes the elements of a group and
/// their type, the definition the reduction.
macro_rules! reductions {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $function:path,
        $define:ident($combiner:ident), $pull:path;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Relay operator level 4.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| op.axes.infer(cx, None),
            hooks(batch::REDUCED, Reduce, LayoutRule::Reduced, Rows(rows), Evaluate(|cx| {
                let (op, data) = (cx.fields::<$name<Value>>()?, cx.tensor(0)?);
                let dtype = data.dtype();
                op.axes.evaluate(data, dtype, |group| $function(group, dtype))
            }), Gradient(|at| {
                if let Some(op) = at.fields::<$name<Term<'_>>>() {
                    $pull(at, &op.axes);
                }
            }), Define(|cx| {
                let reduction = cx.fields::<$name<Operand>>()?.axes.reduction(cx)?;
                $define(cx, &reduction, Combiner::$combiner)
            }))
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
            /// Which axes are reduced.
            #[flatten]
            pub axes: Axes,
        }
    )* };
}

reductions! {
    /// `Σ data`; integers wrap. Floats accumulate in `f64`; in compiled programs in their own type,
    /// or in `float32` where that is wider.
    Sum "relay.sum" sum, define_reduction(Sum), pull_sum;
    /// `Π data`; accumulated as in `sum`.
    Prod "relay.prod" product, define_reduction(Product), pull_product;
    /// `Σ data / n`; floats accumulate as in `sum`. The sum of integers wraps at 64 bits, the
    /// quotient truncates toward zero, and their mean over no elements is an error.
    Mean "relay.mean" mean, define_mean(Sum), pull_mean;
    /// The greatest element; NaN where there is one. An error over no elements.
    Max "relay.max" maximum, define_extreme(Max), pull_greatest;
    /// The least element; NaN where there is one. An error over no elements.
    Min "relay.min" minimum, define_extreme(Min), pull_least;
    /// 1 where all elements are not 0, else 0, in the element type of `data` (normally `bool`).
    All "relay.all" all, define_truth(Min), pull_nothing;
    /// 1 where some element is not 0, else 0, in the element type of `data` (normally `bool`).
    Any "relay.any" any, define_truth(Max), pull_nothing;
}

/// The dimensions before those that are reduced, where these are the last ones.
fn rows(operands: &[Type], attrs: AttrDict) -> Option<usize> {
    let rank = operands.first()?.as_tensor()?.shape.len();
    let axis = attrs.value::<Integers>("axis");
    let exclude = attrs.value("exclude").unwrap_or(false);
    let axes = Axes { axis, keepdims: false, exclude };
    let reduced = axes.reduced(rank).ok()?;
    let rows = reduced.iter().take_while(|reduced| !**reduced).count();
    (rows < rank && reduced[rows..].iter().all(|reduced| *reduced)).then_some(rows)
}

/// The combination of all elements.
fn define_reduction(cx: &mut DefineCx<'_>, reduction: &Reduction, combiner: Combiner) -> Defined {
    let data = cx.tensor(0)?;
    let dtype = match combiner {
        Combiner::Sum | Combiner::Product => sums_of(data.dtype),
        _ => data.dtype,
    };
    cx.reduce(&reduction.extents, combiner, |e, i, r| {
        let at = reduction.place(i, r);
        let x = e.load(&data, &at);
        e.cast(x, dtype)
    })
}

fn define_extreme(cx: &mut DefineCx<'_>, reduction: &Reduction, combiner: Combiner) -> Defined {
    expect_elements(reduction)?;
    define_reduction(cx, reduction, combiner)
}

/// That there is something to choose from wherever something is chosen.
fn expect_elements(reduction: &Reduction) -> Result<(), String> {
    match reduction.count() == 0 && !reduction.shape.contains(&0) {
        true => Err("expected at least one element to choose from, found none".to_string()),
        false => Ok(()),
    }
}

/// The combination of whether elements are not 0, in their type.
fn define_truth(cx: &mut DefineCx<'_>, reduction: &Reduction, combiner: Combiner) -> Defined {
    let (data, name) = (cx.tensor(0)?, cx.stage());
    let dtype = data.dtype;
    let truth = reduction.stage(cx, &name, combiner, &data, |e, _, x| nonzero(e, x));
    if dtype.is_bool() {
        return Ok(vec![truth]);
    }
    let name = cx.stage_of("cast");
    Ok(vec![cx.builder.compute(&name, &reduction.shape, |e, i| {
        let truth = e.load(&truth, i);
        e.cast(truth, dtype)
    })])
}

/// The sum divided by the number of elements. Sums of integers wrap at 64 bits only.
fn define_mean(cx: &mut DefineCx<'_>, reduction: &Reduction, combiner: Combiner) -> Defined {
    let (data, name) = (cx.tensor(0)?, cx.stage_of("sum"));
    let (dtype, count) = (data.dtype, reduction.count());
    let sums = match dtype {
        float if float.is_float() => sums_of(dtype),
        signed if signed.is_signed() => DType::INT64,
        _ => DType::UINT64,
    };
    let sum = reduction.stage(cx, &name, combiner, &data, |e, _, x| e.cast(x, sums));
    cx.compute(|e, i| {
        let (sum, count) = (e.load(&sum, i), e.constant(sums, Scalar::Int(count)));
        let mean = e.div(sum, count);
        e.cast(mean, dtype)
    })
}

fn sum(group: &[Scalar], dtype: DType) -> Result<Scalar, EvalError> {
    Ok(match dtype.is_float() {
        true => Scalar::Float(group.iter().map(|v| v.as_f64()).sum()),
        false => elements::wrapped(group.iter().map(|&v| elements::integer(v, dtype)).sum()),
    })
}

fn product(group: &[Scalar], dtype: DType) -> Result<Scalar, EvalError> {
    Ok(match dtype.is_float() {
        true => Scalar::Float(group.iter().map(|v| v.as_f64()).product()),
        false => {
            let factors = group.iter().map(|&v| elements::integer(v, dtype));
            elements::wrapped(factors.fold(1, i128::wrapping_mul))
        }
    })
}

fn mean(group: &[Scalar], dtype: DType) -> Result<Scalar, EvalError> {
    if dtype.is_float() {
        let sum: f64 = group.iter().map(|v| v.as_f64()).sum();
        return Ok(Scalar::Float(sum / group.len() as f64));
    }
    let sum: i128 = group.iter().map(|&v| elements::integer(v, dtype)).sum();
    let sum = match dtype.is_signed() {
        true => i128::from(sum as i64),
        false => i128::from(sum as u64),
    };
    match sum.checked_div(group.len() as i128) {
        Some(mean) => Ok(elements::wrapped(mean)),
        None => {
            Err(EvalError::new("expected at least one integer to take the mean of, found none"))
        }
    }
}

fn maximum(group: &[Scalar], dtype: DType) -> Result<Scalar, EvalError> {
    extreme(group, dtype, Ordering::Greater, false).map(|at| group[at])
}

fn minimum(group: &[Scalar], dtype: DType) -> Result<Scalar, EvalError> {
    extreme(group, dtype, Ordering::Less, false).map(|at| group[at])
}

fn all(group: &[Scalar], _dtype: DType) -> Result<Scalar, EvalError> {
    Ok(Scalar::Int(group.iter().all(|v| v.as_bool()).into()))
}

fn any(group: &[Scalar], _dtype: DType) -> Result<Scalar, EvalError> {
    Ok(Scalar::Int(group.iter().any(|v| v.as_bool()).into()))
}

/// The position of the element that is `wanted` of all others, or of the first NaN. Of equal ones
/// the first, or with `last` the last.
fn extreme(
    group: &[Scalar],
    dtype: DType,
    wanted: Ordering,
    last: bool,
) -> Result<usize, EvalError> {
    let mut best = 0;
    for (at, &value) in group.iter().enumerate() {
        match elements::compare(value, group[best], dtype) {
            None if value.as_f64().is_nan() && !group[best].as_f64().is_nan() => best = at,
            Some(order) if order == wanted || (last && order == Ordering::Equal) => best = at,
            _ => {}
        }
    }
    match group.is_empty() {
        true => Err(EvalError::new("expected at least one element to choose from, found none")),
        false => Ok(best),
    }
}

/// Declares reductions to the position of an element.
macro_rules! positions {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $wanted:expr, $combiner:ident;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// The position is counted over the reduced axes in row-major order; the first NaN comes
        /// before everything. An error over no elements. Relay operator level 4.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| {
                op.axes().infer(cx, Some(DType::INT32))
            },
            hooks(batch::REDUCED, Reduce, Evaluate(|cx| {
                let (op, data) = (cx.fields::<$name<Value>>()?, cx.tensor(0)?);
                op.axes().evaluate(data, DType::INT32, |group| {
                    let at = extreme(group, data.dtype(), $wanted, op.select_last_index)?;
                    Ok(Scalar::Int(at as i64))
                })
            }), Define(|cx| {
                let op = cx.fields::<$name<Operand>>()?;
                let reduction = op.axes().reduction(cx)?;
                define_position(cx, &reduction, Combiner::$combiner, op.select_last_index)
            }))
        )]
        pub struct $name<V = ValueId> {
            /// Any shape.
            pub data: V,
            /// The axes to reduce; none (or an empty list) reduces all.
            #[default(None)]
            pub axis: Option<Integers>,
            /// Whether reduced axes stay, with extent 1.
            #[default(false)]
            pub keepdims: bool,
            /// Whether the last of equal elements is chosen, not the first.
            #[default(false)]
            pub select_last_index: bool,
            /// Whether the axes that are not in `axis` are reduced instead.
            #[default(false)]
            pub exclude: bool,
        }

        impl<V> $name<V> {
            fn axes(&self) -> Axes {
                Axes { axis: self.axis.clone(), keepdims: self.keepdims, exclude: self.exclude }
            }
        }
    )* };
}

/// The position of an element: that of the first which equals the greatest, or the least, so that both
/// are found in vectors. What is no number comes before all others.
fn define_position(
    cx: &mut DefineCx<'_>,
    reduction: &Reduction,
    combiner: Combiner,
    last: bool,
) -> Defined {
    expect_elements(reduction)?;
    let (data, (_, dtype)) = (cx.tensor(0)?, cx.result()?);
    let Reduction { shape, extents, .. } = reduction;
    let count = reduction.count();
    let name = cx.stage_of("element");
    let best = cx.builder.reduce(&name, shape, extents, combiner, |e, i, r| {
        let at = reduction.place(i, r);
        e.load(&data, &at)
    });
    let name = cx.stage_of("position");
    let position = cx.builder.reduce(&name, shape, extents, Combiner::Min, |e, i, r| {
        let (at, position) = (reduction.place(i, r), Index::row_major(r, extents).value(e));
        let mut position = e.cast(position, dtype);
        if last {
            let end = e.constant(dtype, Scalar::Int(count - 1));
            position = e.sub(end, position);
        }
        let (x, best, none) =
            (e.load(&data, &at), e.load(&best, i), e.constant(dtype, Scalar::Int(count)));
        let equal = e.eq(x, best);
        let found = e.select(equal, position, none);
        if !data.dtype.is_float() {
            return found;
        }
        let (nan, before) = (e.scalar(ScalarOp::IsNan, &[x]), e.sub(position, none));
        e.select(nan, before, found)
    });
    cx.compute(|e, i| {
        let mut position = e.load(&position, i);
        if data.dtype.is_float() {
            let (zero, count) =
                (e.constant(dtype, Scalar::Int(0)), e.constant(dtype, Scalar::Int(count)));
            let (is_nan, first) = (e.lt(position, zero), e.add(position, count));
            position = e.select(is_nan, first, position);
        }
        if last {
            let end = e.constant(dtype, Scalar::Int(count - 1));
            position = e.sub(end, position);
        }
        position
    })
}

positions! {
    /// The position of the greatest element, as `int32`.
    ArgMax "relay.argmax" Ordering::Greater, Max;
    /// The position of the least element, as `int32`.
    ArgMin "relay.argmin" Ordering::Less, Min;
}

/// `Σ (data - mean)² / n`, or `/ (n - 1)` with `unbiased`; accumulated as in `sum`.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.variance",
    infer = infer_variance,
    hooks(
        Reduce,
        Rows(rows),
        Gradient(pull_variance),
        Evaluate(|cx| evaluate_variance(&cx.fields()?, cx)),
        Define(define_variance)
    )
)]
pub struct Variance<V = ValueId> {
    /// Floats, any shape.
    pub data: V,
    /// The mean of `data` over the same axes, with reduced axes kept at extent 1, or of any shape
    /// that broadcasts to `data`.
    pub mean: V,
    /// Which axes are reduced.
    #[flatten]
    pub axes: Axes,
    /// Whether to divide by `n - 1`.
    #[default(false)]
    pub unbiased: bool,
}

fn pull_variance<'p>(at: &Pullback<'p>) {
    let Some(op) = at.fields::<Variance<Term<'p>>>() else { return };
    let (shape, axes) = (op.data.shape(), &op.axes);
    let given = axes.axis.as_ref().map(|axis| &axis.0[..]);
    let Ok(reduced) = relation::reduced_axes(given, axes.exclude, shape.len()) else { return };
    let extents = shape.iter().zip(&reduced);
    let count: i64 = extents.clone().filter(|(_, reduced)| **reduced).map(|(n, _)| *n).product();
    let kept: Vec<i64> = extents.map(|(n, reduced)| if *reduced { 1 } else { *n }).collect();
    let slope = |g: Term<'p>| {
        let share = 2.0 / (count - i64::from(op.unbiased)) as f64;
        g.reshape(&kept) * share * (op.data - op.mean)
    };
    at.to(0, slope);
    at.to(1, |g| -slope(g).sum_to(op.mean));
}

fn infer_variance(op: Variance<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, mean) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::same_dtype(data, mean)?;
    if !data.dtype.is_float() {
        return Err(Stop::Error(format!("expected floats, found {}", data.dtype)));
    }
    expect_broadcasts_to(cx, &mean.shape, &data.shape)?;
    op.axes.infer(cx, None)
}

fn evaluate_variance(op: &Variance<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (data, mean) = (cx.tensor(0)?, cx.tensor(1)?);
    let means = Offsets::broadcast(mean.shape(), data.shape())?;
    let squares: Vec<f64> = (data.elements().zip(means))
        .map(|(v, at)| (v.as_f64() - mean.element(at).expect(elements::WITHIN).as_f64()).powi(2))
        .collect();
    let squares = TensorData::from_f64(DType::FLOAT64, data.shape(), &squares)?;
    op.axes.evaluate(&squares, data.dtype(), |group| {
        let count = group.len() as f64 - f64::from(u8::from(op.unbiased));
        Ok(Scalar::Float(group.iter().map(|v| v.as_f64()).sum::<f64>() / count))
    })
}

fn define_variance(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Variance<Operand>>()?;
    let (data, mean) = (cx.tensor(0)?, cx.tensor(1)?);
    let (reduction, name) = (op.axes.reduction(cx)?, cx.stage_of("sum"));
    let (shape, real) = (data.shape.clone(), sums_of(data.dtype));
    let sum = reduction.stage(cx, &name, Combiner::Sum, &data, |e, i, x| {
        let mean = load_broadcast(e, &mean, i, &shape);
        let (x, mean) = (e.cast(x, real), e.cast(mean, real));
        let difference = e.sub(x, mean);
        e.mul(difference, difference)
    });
    let count = reduction.count() - i64::from(op.unbiased);
    cx.compute(|e, i| {
        let sum = e.load(&sum, i);
        let count = e.number_like(sum, count as f64);
        let variance = e.div(sum, count);
        e.cast(variance, data.dtype)
    })
}

/// `data` summed over the axes along which `collapse_type` would have to be broadcast: the reverse
/// of broadcasting. Accumulated as in `sum`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.collapse_sum_like",
    infer = |_op: CollapseSumLike<Type>, cx: &mut InferCx<'_>| {
        let (data, like) = (cx.tensor(0)?, cx.tensor(1)?);
        expect_broadcasts_to(cx, &like.shape, &data.shape)?;
        Ok(Type::tensor(like.shape.iter().copied(), data.dtype))
    },
    fold = relation::fold_same_type,
    hooks(
        Gradient(|at| at.to(0, |g| g.broadcast(&at.operand(0).shape()))),
        Reduce,
        Evaluate(|cx| collapse(cx.tensor(0)?, cx.tensor(1)?.shape())),
        Define(define_collapse)
    )
)]
pub struct CollapseSumLike<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// Only its shape matters, which broadcasts to that of `data`.
    pub collapse_type: V,
}

/// `data` summed to a shape that broadcasts to its own: the reverse of broadcasting.
/// Accumulated as in `sum`.
///
/// Relay operator level 4.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.collapse_sum_to",
    infer = infer_collapse_sum_to,
    fold = relation::fold_same_type,
    hooks(
        Gradient(|at| at.to(0, |g| g.broadcast(&at.operand(0).shape()))),
        Reduce,
        Evaluate(|cx| collapse(cx.tensor(0)?, &cx.tensor(1)?.to_i64())),
        Define(define_collapse)
    )
)]
pub struct CollapseSumTo<V = ValueId> {
    /// Any shape.
    pub data: V,
    /// The shape as a vector of extents.
    pub shape: V,
    /// The operand `shape` where it is known; a constant operand says the same.
    #[default(None)]
    #[key = "shape"]
    pub static_shape: Option<Integers>,
    /// Element type of `data`, to check it.
    #[default(None)]
    pub dtype: Option<DType>,
}

fn infer_collapse_sum_to(op: CollapseSumTo<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    if let Some(dtype) = op.dtype {
        relation::expect_dtype(data, dtype)?;
    }
    let known = op.static_shape.map(|shape| shape.0);
    let dims = match known.or_else(|| relation::constant_integers(cx, 1)) {
        Some(shape) => relation::shape_attr(&shape)?,
        None => relation::open_dims(cx.tensor(1)?)?,
    };
    expect_broadcasts_to(cx, &dims, &data.shape)?;
    Ok(Type::tensor(dims, data.dtype))
}

/// The reverse of broadcasting `shape` to that of `data`.
fn collapse(data: &TensorData, shape: &[i64]) -> Result<Value, EvalError> {
    let targets = Offsets::broadcast(shape, data.shape())?;
    let dtype = data.dtype();
    let count = elements::count(shape)?;
    if dtype.is_float() {
        let mut sums = vec![0.0; count];
        for (value, at) in data.elements().zip(targets) {
            sums[at] += value.as_f64();
        }
        return Ok(TensorData::from_f64(dtype, shape, &sums)?.into());
    }
    let mut sums = vec![0i64; count];
    for (value, at) in data.elements().zip(targets) {
        sums[at] = sums[at].wrapping_add(value.as_i64());
    }
    Ok(TensorData::from_i64(dtype, shape, &sums)?.into())
}

fn define_collapse(cx: &mut DefineCx<'_>) -> Defined {
    let (data, (shape, _)) = (cx.tensor(0)?, cx.result()?);
    let from = &data.shape;
    let skipped = from.len().saturating_sub(shape.len());
    let is_summed = |axis: usize| axis < skipped || shape[axis - skipped] != from[axis];
    let extents: Vec<i64> =
        (0..from.len()).filter(|axis| is_summed(*axis)).map(|axis| from[axis]).collect();
    cx.reduce(&extents, Combiner::Sum, |e, i, r| {
        let mut r = r.iter();
        let axes = (0..from.len()).filter_map(|axis| match is_summed(axis) {
            true => r.next().copied(),
            false => Some(i[axis - skipped]),
        });
        let at: Vec<ValueId> = axes.collect();
        let x = e.load(&data, &at);
        e.cast(x, sums_of(data.dtype))
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Sum>();
    registry.op::<Prod>();
    registry.op::<Mean>();
    registry.op::<Max>();
    registry.op::<Min>();
    registry.op::<All>();
    registry.op::<Any>();
    registry.op::<ArgMax>();
    registry.op::<ArgMin>();
    registry.op::<Variance>();
    registry.op::<CollapseSumLike>();
    registry.op::<CollapseSumTo>();
}
