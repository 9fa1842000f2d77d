//! Activations, dropout and flattening.

use ir_core::{
    AttrDict, Dim, DimOp, InferCx, KernelRole, Op, Registry, Scalar, Stop, TensorData, Type,
    ValueId, Work,
};
use relay::define::{self, Define, DefineCx, Defined, Operand, Reduction, reals_of};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Combiner;
use te::scalar::ScalarOp;

use super::numeric::{Number, dispatch, map_along, size};
use super::relation::vectors_along;
use crate::batch::{self, Batch};
use crate::gradient::{self, Change, Gradient, Pullback, Term};
use crate::work::nothing;
use crate::{FusionPattern, LayoutRule, ReshapeOnly, Rows, relation};

/// The positive part: `out = max(data, 0)`, elementwise.
///
/// The result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.relu",
    traits(IDEMPOTENT),
    infer = relation::identity,
    hooks(Gradient(|at| at.to(0, |g| g.masked(at.result().greater(0.0)))), KernelRole::Epilogue, FusionPattern::Elementwise, LayoutRule::Pointwise, Evaluate(evaluate_relu), Define(define_relu))
)]
pub struct Relu<V = ValueId> {
    /// The input.
    pub data: V,
}

fn evaluate_relu(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(data: &TensorData) -> Result<Value, EvalError> {
        let positive = |x: T| if x < T::ZERO { T::ZERO } else { x };
        map(data, positive)
    }
    let data = cx.tensor(0)?;
    dispatch!(data.dtype(), run(data))
}

fn define_relu(cx: &mut DefineCx<'_>) -> Defined {
    define::map(cx, |e, x| {
        let zero = e.number_like(x, 0.0);
        e.max(x, zero)
    })
}

fn map<T: Number>(data: &TensorData, function: impl Fn(T) -> T) -> Result<Value, EvalError> {
    let elements: Vec<T> = T::read(data).into_iter().map(function).collect();
    T::write(data.dtype(), data.shape(), &elements)
}

/// The positive part, and a fraction of the negative: `out = data > 0 ? data : alpha * data`.
///
/// The result has the type of `data`. Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.leaky_relu",
    infer = relation::identity,
    hooks(Gradient(pull_leaky_relu), FusionPattern::Elementwise, LayoutRule::Pointwise, Evaluate(evaluate_leaky_relu), Define(define_leaky_relu))
)]
pub struct LeakyRelu<V = ValueId> {
    /// The input.
    pub data: V,
    /// Slope of the negative part.
    #[default(0.25)]
    pub alpha: f64,
}

fn evaluate_leaky_relu(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<LeakyRelu<Value>>()?;
    map(cx.tensor(0)?, |x: f64| if x > 0.0 { x } else { x * op.alpha })
}

fn define_leaky_relu(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<LeakyRelu<Operand>>()?;
    define::map(cx, |e, x| {
        define::as_real(e, x, |e, x| {
            let (zero, slope) = (e.number_like(x, 0.0), e.number_like(x, op.alpha));
            let (positive, scaled) = (e.gt(x, zero), e.mul(x, slope));
            e.select(positive, x, scaled)
        })
    })
}

/// As `nn.leaky_relu`, with a slope per channel: `out[…, c, …] = data > 0 ? data : alpha[c] *
/// data`.
///
/// `alpha` has the extent of `data` along `axis`; the result has the type of `data`. Relay
/// operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.prelu",
    infer = prelu_relation,
    hooks(Gradient(pull_prelu), FusionPattern::Broadcast, LayoutRule::Along, Evaluate(evaluate_prelu), Define(define_prelu))
)]
pub struct Prelu<V = ValueId> {
    /// The input.
    pub data: V,
    /// Slopes of the negative part, a vector.
    pub alpha: V,
    /// The axis of channels; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
}

fn prelu_relation(op: Prelu<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    vectors_along(cx, op.axis, 1..2)?;
    Ok(op.data)
}

fn evaluate_prelu(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Prelu<Value>>()?;
    let slope = |x: f64, alpha: f64| if x <= 0.0 { x * alpha } else { x };
    map_along(cx.tensor(0)?, cx.tensor(1)?, op.axis, slope)
}

fn define_prelu(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Prelu<Operand>>()?;
    let (data, alpha) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = relation::axis(op.axis, data.shape.len())?;
    cx.compute(|e, i| {
        let slope = define::along(e, &alpha, i, axis);
        let x = e.load(&data, i);
        let (zero, scaled) = (e.number_like(x, 0.0), e.mul(x, slope));
        let negative = e.le(x, zero);
        e.select(negative, scaled, x)
    })
}

/// Exponentials that sum to one along an axis: `out = exp(data) / Σ exp(data)`.
///
/// The maximum is subtracted first. The result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.softmax",
    infer = |op: Softmax<Type>, cx: &mut InferCx<'_>| softmax_relation(op.data, op.axis, cx),
    hooks(
        Gradient(|at| pull_softmax(at, at.fields::<Softmax<Term<'_>>>().map(|op| op.axis))),
        Batch(|at| batch::along(at, -1)),
        FusionPattern::OutFusable,
        Rows(softmax_rows),
        LayoutRule::Along, Evaluate(|cx| softmax(cx, cx.fields::<Softmax<Value>>()?.axis, false)),
        Define(|cx| define_softmax(cx, cx.fields::<Softmax<Operand>>()?.axis, false))
    )
)]
pub struct Softmax<V = ValueId> {
    /// The input.
    pub data: V,
    /// The axis; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

/// As `nn.softmax`, where a backend may approximate the exponential.
///
/// The reference computes it exactly. The result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.fast_softmax",
    infer = |op: FastSoftmax<Type>, cx: &mut InferCx<'_>| softmax_relation(op.data, op.axis, cx),
    hooks(
        Gradient(|at| pull_softmax(at, at.fields::<FastSoftmax<Term<'_>>>().map(|op| op.axis))),
        Batch(|at| batch::along(at, -1)),
        FusionPattern::OutFusable,
        Rows(softmax_rows),
        LayoutRule::Along, Evaluate(|cx| softmax(cx, cx.fields::<FastSoftmax<Value>>()?.axis, false)),
        Define(|cx| define_softmax(cx, cx.fields::<FastSoftmax<Operand>>()?.axis, false))
    )
)]
pub struct FastSoftmax<V = ValueId> {
    /// The input.
    pub data: V,
    /// The axis; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

/// The logarithm of `nn.softmax`: `out = data - log Σ exp(data)`.
///
/// The maximum is subtracted first. The result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.log_softmax",
    infer = |op: LogSoftmax<Type>, cx: &mut InferCx<'_>| softmax_relation(op.data, op.axis, cx),
    hooks(
        Gradient(pull_log_softmax),
        Batch(|at| batch::along(at, -1)),
        FusionPattern::OutFusable,
        Rows(softmax_rows),
        LayoutRule::Along, Evaluate(|cx| softmax(cx, cx.fields::<LogSoftmax<Value>>()?.axis, true)),
        Define(|cx| define_softmax(cx, cx.fields::<LogSoftmax<Operand>>()?.axis, true))
    )
)]
pub struct LogSoftmax<V = ValueId> {
    /// The input.
    pub data: V,
    /// The axis; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
}

fn softmax_relation(data: Type, axis: i64, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    relation::axis(axis, cx.tensor(0)?.rank())?;
    Ok(data)
}

/// The dimensions before the axis, where it is the last one.
fn softmax_rows(operands: &[Type], attrs: AttrDict) -> Option<usize> {
    let rank = operands.first()?.as_tensor()?.shape.len();
    let axis = relation::axis(attrs.value("axis").unwrap_or(-1), rank).ok()?;
    (axis + 1 == rank).then_some(axis)
}

fn softmax(cx: &EvalCx<'_>, axis: i64, logarithm: bool) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let axis = relation::axis(axis, data.rank())?;
    let extent = data.shape()[axis] as usize;
    let inner = size(&data.shape()[axis + 1..]);
    let mut out = data.to_f64();
    for block in out.chunks_mut((extent * inner).max(1)) {
        for start in 0..inner {
            let places = (0..extent).map(|i| start + i * inner);
            let highest = places.clone().map(|i| block[i]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = places.clone().map(|i| (block[i] - highest).exp()).sum();
            for i in places {
                let shifted = block[i] - highest;
                block[i] = if logarithm { shifted - sum.ln() } else { shifted.exp() / sum };
            }
        }
    }
    f64::write(data.dtype(), data.shape(), &out)
}

fn define_softmax(cx: &mut DefineCx<'_>, axis: i64, logarithm: bool) -> Defined {
    let mut data = cx.tensor(0)?;
    let (shape, dtype) = cx.result()?;
    let axis = relation::axis(axis, shape.len())?;
    let real = reals_of(dtype);
    if dtype != real {
        let name = cx.stage_of("float");
        data = cx.builder.compute(&name, &shape, |e, i| {
            let x = e.load(&data, i);
            e.cast(x, real)
        });
    }
    let reduction = Reduction::of_axis(&shape, axis);
    let name = cx.stage_of("max");
    let highest = reduction.stage(cx, &name, Combiner::Max, &data, |_, _, x| x);
    let name = cx.stage_of(if logarithm { "shift" } else { "exp" });
    let terms = cx.builder.compute(&name, &shape, |e, i| {
        let at = reduction.kept(e, i);
        let (x, highest) = (e.load(&data, i), e.load(&highest, &at));
        let shifted = e.sub(x, highest);
        if logarithm { shifted } else { e.scalar(ScalarOp::Exp, &[shifted]) }
    });
    let name = cx.stage_of("sum");
    let sum = reduction.stage(cx, &name, Combiner::Sum, &terms, |e, _, x| match logarithm {
        true => e.scalar(ScalarOp::Exp, &[x]),
        false => x,
    });
    // A logarithm or a division for each row, not for each element.
    let name = cx.stage_of(if logarithm { "log" } else { "scale" });
    let scale = cx.builder.compute(&name, &reduction.shape, |e, i| {
        let sum = e.load(&sum, i);
        if logarithm {
            return e.scalar(ScalarOp::Log, &[sum]);
        }
        let one = e.number_like(sum, 1.0);
        e.div(one, sum)
    });
    cx.compute(|e, i| {
        let at = reduction.kept(e, i);
        let (x, scale) = (e.load(&terms, i), e.load(&scale, &at));
        let value = if logarithm { e.sub(x, scale) } else { e.mul(x, scale) };
        e.cast(value, dtype)
    })
}

/// Zeroes elements at random while training; the identity in inference, which the reference
/// computes.
///
/// The result is the tuple of the output and the mask, all ones, both of the type of `data`. Relay
/// operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.dropout",
    infer = |op: Dropout<Type>, cx: &mut InferCx<'_>| {
        cx.tensor(0).map(|_| Type::tuple([op.data, op.data]))
    },
    hooks(Gradient(pull_dropout), FusionPattern::Opaque, Evaluate(evaluate_dropout), Define(define_dropout))
)]
pub struct Dropout<V = ValueId> {
    /// The input.
    pub data: V,
    /// The probability of an element to be zeroed.
    #[default(0.5)]
    pub rate: f64,
}

fn evaluate_dropout(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let mask = TensorData::from_i64(data.dtype(), data.shape(), &vec![1; data.len()])?;
    Ok(Value::tuple([data.clone().into(), mask.into()]))
}

fn define_dropout(cx: &mut DefineCx<'_>) -> Defined {
    let (data, name) = (cx.tensor(0)?, cx.stage_of("mask"));
    let dtype = data.dtype;
    let mask = cx.builder.compute(&name, &data.shape, |e, _| e.constant(dtype, Scalar::Int(1)));
    Ok(vec![data, mask])
}

/// Joins all axes after the first: `(N, A, B, …)` becomes `(N, A * B * …)`.
///
/// The elements stay in order. Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.batch_flatten",
    traits(IDEMPOTENT),
    infer = batch_flatten_relation,
    hooks(gradient::RESHAPE, FusionPattern::Injective, ReshapeOnly, Work(nothing), Evaluate(evaluate_batch_flatten), Define(define::reshape))
)]
pub struct BatchFlatten<V = ValueId> {
    /// The input.
    pub data: V,
}

fn batch_flatten_relation(_op: BatchFlatten<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let Some((&batch, rest)) = data.shape.split_first() else {
        return Err(Stop::error("expected data of rank 1 or more, found a scalar"));
    };
    let join = |product, &dim| Dim::binary(DimOp::Mul, product, dim);
    let features = rest.iter().fold(Dim::Known(1), join);
    Ok(Type::tensor([batch, features], data.dtype))
}

fn evaluate_batch_flatten(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let Some((&batch, rest)) = data.shape().split_first() else {
        return Err(EvalError::new("expected data of rank 1 or more, found a scalar"));
    };
    Ok(data.reshaped(&[batch, rest.iter().product()])?.into())
}

fn pull_leaky_relu(at: &Pullback<'_>) {
    let Some(op) = at.fields::<LeakyRelu<Term<'_>>>() else { return };
    at.to(0, |g| op.data.greater(0.0).choose(g, g * op.alpha));
}

fn pull_prelu(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Prelu<Term<'_>>>() else { return };
    let rank = op.data.rank();
    let axis = op.axis.rem_euclid(rank.max(1) as i64) as usize;
    let mut along = vec![1; rank];
    along[axis] = op.alpha.size();
    let positive = op.data.greater(0.0);
    at.to(0, |g| positive.choose(g, g * op.alpha.reshape(&along)));
    at.to(1, |g| {
        let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
        positive.choose(g.number(0.0), g * op.data).sum(&others, false).reshape(&op.alpha.shape())
    });
}

fn pull_softmax(at: &Pullback<'_>, axis: Option<i64>) {
    let (Some(axis), y) = (axis, at.result()) else { return };
    let axis = axis.rem_euclid(y.rank().max(1) as i64) as usize;
    at.to(0, |g| (g - (g * y).sum(&[axis], true)) * y);
}

fn pull_log_softmax(at: &Pullback<'_>) {
    let Some(op) = at.fields::<LogSoftmax<Term<'_>>>() else { return };
    let y = at.result();
    let axis = op.axis.rem_euclid(y.rank().max(1) as i64) as usize;
    at.to(0, |g| g - y.exp() * g.sum(&[axis], true));
}

/// In inference the operand comes through as it is.
fn pull_dropout(at: &Pullback<'_>) {
    if let Change::Tuple(changes) = at.change() {
        at.give(0, changes[0].clone());
    }
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Relu>();
    registry.op::<LeakyRelu>();
    registry.op::<Prelu>();
    registry.op::<Softmax>();
    registry.op::<FastSoftmax>();
    registry.op::<LogSoftmax>();
    registry.op::<Dropout>();
    registry.op::<BatchFlatten>();
}
