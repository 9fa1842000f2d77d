//! Losses.

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand, reals_of, sums_of};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::{Combiner, Expression};
use te::scalar::ScalarOp;

use super::numeric::Number;
use super::relation::{require, require_rank};
use crate::FusionPattern;
use crate::create::OneHot;
use crate::gradient::{Gradient, Pullback, Term};

/// The mean cross entropy of predicted probabilities: `out = -Σ targets * log(predictions) / N`.
///
/// Both operands are `(N, C)`; the result is a scalar. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.cross_entropy",
    infer = |_: CrossEntropy<Type>, cx: &mut InferCx<'_>| cross_entropy_relation(cx),
    hooks(
        Gradient(|at| pull_cross_entropy(at, Term::log, |t, p| t / p)),
        FusionPattern::Opaque,
        Evaluate(|cx| cross_entropy(cx, f64::ln)),
        Define(|cx| define_cross_entropy(cx, |e, p| e.scalar(ScalarOp::Log, &[p])))
    )
)]
pub struct CrossEntropy<V = ValueId> {
    /// Probabilities.
    pub predictions: V,
    /// Probabilities that were right.
    pub targets: V,
}

/// The mean cross entropy of predicted logarithms of probabilities:
/// `out = -Σ targets * predictions / N`.
///
/// Both operands are `(N, C)`; the result is a scalar. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.cross_entropy_with_logits",
    infer = |_: CrossEntropyWithLogits<Type>, cx: &mut InferCx<'_>| cross_entropy_relation(cx),
    hooks(
        Gradient(|at| pull_cross_entropy(at, |p| p, |t, _| t)),
        FusionPattern::Opaque,
        Evaluate(|cx| cross_entropy(cx, |p| p)),
        Define(|cx| define_cross_entropy(cx, |_, p| p))
    )
)]
pub struct CrossEntropyWithLogits<V = ValueId> {
    /// Logarithms of probabilities.
    pub predictions: V,
    /// Probabilities that were right.
    pub targets: V,
}

fn cross_entropy_relation(cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (predictions, targets) = (cx.tensor(0)?, cx.tensor(1)?);
    require_rank("predictions", predictions, 2)?;
    require_rank("targets", targets, 2)?;
    for axis in 0..2 {
        require(cx, "extent of the targets", predictions.shape[axis], targets.shape[axis])?;
    }
    if predictions.dtype != targets.dtype {
        return Err(Stop::Error(format!(
            "expected targets of {}, found {}",
            predictions.dtype, targets.dtype
        )));
    }
    Ok(Type::scalar(predictions.dtype))
}

fn cross_entropy(cx: &EvalCx<'_>, logarithm: fn(f64) -> f64) -> Result<Value, EvalError> {
    let (predictions, targets) = (cx.tensor(0)?, cx.tensor(1)?);
    if predictions.shape() != targets.shape() || predictions.rank() != 2 {
        return Err(EvalError::new("expected two operands of one shape of rank 2"));
    }
    let pairs = predictions.to_f64().into_iter().zip(targets.to_f64());
    let sum: f64 = pairs.map(|(p, t)| t * logarithm(p)).sum();
    f64::write(predictions.dtype(), &[], &[-sum / predictions.shape()[0] as f64])
}

fn define_cross_entropy(
    cx: &mut DefineCx<'_>,
    logarithm: fn(&mut Expression<'_>, ValueId) -> ValueId,
) -> Defined {
    let (predictions, targets, (_, dtype)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let real = reals_of(dtype);
    let (extents, name) = (predictions.shape.clone(), cx.stage_of("sum"));
    let sum = cx.builder.reduce(&name, &[], &extents, Combiner::Sum, |e, _, r| {
        let (p, t) = (e.load(&predictions, r), e.load(&targets, r));
        let (p, t) = (e.cast(p, real), e.cast(t, real));
        let p = logarithm(e, p);
        e.mul(t, p)
    });
    cx.compute(|e, i| {
        let (sum, count) = (e.load(&sum, i), e.number(real, -(extents[0] as f64)));
        let mean = e.div(sum, count);
        e.cast(mean, dtype)
    })
}

/// The negative log likelihood of classes: `out[n, …] = -predictions[n, t, …] * weights[t]` with
/// `t = targets[n, …]`.
///
/// Predictions are `(N, C, D1, …)`, or `(C)`; targets `(N, D1, …)`, or a scalar; weights `(C)`.
/// With reduction `none` the result has the shape of the targets; with `sum` or `mean` it is a
/// scalar, where the mean is weighted. Places whose target is `ignore_index` count as zero. Relay
/// operator without a level.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.nll_loss",
    infer = nll_loss_relation,
    hooks(
        Gradient(pull_nll_loss),
        FusionPattern::OutFusable,
        Evaluate(evaluate_nll_loss),
        Define(define_nll_loss)
    )
)]
pub struct NllLoss<V = ValueId> {
    /// Logarithms of probabilities.
    pub predictions: V,
    /// Classes that were right, integers.
    pub targets: V,
    /// Weight of every class.
    pub weights: V,
    /// `mean`, `sum` or `none`.
    #[default("mean".to_string())]
    pub reduction: String,
    /// The class that does not count.
    #[default(-100)]
    pub ignore_index: i64,
}

fn nll_loss_relation(op: NllLoss<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (predictions, targets) = (cx.tensor(0)?, cx.tensor(1)?);
    let (classes, expected): (Dim, Vec<Dim>) = match &predictions.shape[..] {
        [] => return Err(Stop::error("expected predictions of rank 1 or more, found a scalar")),
        [classes] => (*classes, vec![]),
        [batch, classes, rest @ ..] => {
            (*classes, [*batch].into_iter().chain(rest.iter().copied()).collect())
        }
    };
    require_rank("targets", targets, expected.len())?;
    if !targets.dtype.is_integer() {
        return Err(Stop::Error(format!("expected integer targets, found {}", targets.dtype)));
    }
    for (&expected, &found) in expected.iter().zip(&targets.shape) {
        require(cx, "extent of the targets", expected, found)?;
    }
    cx.refine(2, Type::tensor([classes], predictions.dtype));
    match op.reduction.as_str() {
        "none" => Ok(Type::tensor(targets.shape.iter().copied(), predictions.dtype)),
        "mean" | "sum" => Ok(Type::scalar(predictions.dtype)),
        other => {
            Err(Stop::Error(format!("expected `reduction` mean, sum or none, found `{other}`")))
        }
    }
}

fn evaluate_nll_loss(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<NllLoss<Value>>()?;
    let (predictions, targets) = (cx.tensor(0)?, cx.tensor(1)?);
    let (elements, weights) = (predictions.to_f64(), cx.tensor(2)?.to_f64());
    let classes = weights.len();
    let inner = predictions.shape().iter().skip(2).product::<i64>() as usize;
    let (mut losses, mut total) = (Vec::with_capacity(targets.len()), 0.0);
    for (place, target) in targets.to_i64().into_iter().enumerate() {
        if target == op.ignore_index {
            losses.push(0.0);
            continue;
        }
        let class = usize::try_from(target).ok().filter(|&class| class < classes);
        let Some(class) = class else {
            return Err(EvalError(format!("expected a target below {classes}, found {target}")));
        };
        let index = (place / inner * classes + class) * inner + place % inner;
        let Some(element) = elements.get(index) else {
            return Err(EvalError::new("expected as many weights as classes"));
        };
        losses.push(-element * weights[class]);
        total += weights[class];
    }
    let sum: f64 = losses.iter().sum();
    match op.reduction.as_str() {
        "none" => f64::write(predictions.dtype(), targets.shape(), &losses),
        "sum" => f64::write(predictions.dtype(), &[], &[sum]),
        _ => f64::write(predictions.dtype(), &[], &[sum / total]),
    }
}

fn define_nll_loss(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<NllLoss<Operand>>()?;
    let (predictions, targets, weights) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
    let dtype = predictions.dtype;
    let classes = weights.shape.first().copied().unwrap_or(0);
    // The weight of the class at a place, 0 for the one that does not count; and its logarithm.
    let weight = |e: &mut Expression<'_>, i: &[ValueId]| {
        let target = e.load(&targets, i);
        let target = e.cast(target, DType::INT64);
        let (ignored, zero) = (e.index(op.ignore_index), e.number(dtype, 0.0));
        let counts = e.scalar(ScalarOp::Ne, &[target, ignored]);
        let (first, end) = (e.index(0), e.index(classes));
        let (after, before) = (e.ge(target, first), e.lt(target, end));
        let (known, ignored) = (e.and(after, before), e.scalar(ScalarOp::Not, &[counts]));
        let fits = e.or(known, ignored);
        let target = e.check(fits, target, first, format!("expected a target below {classes}"));
        (counts, target, e.load_if(counts, &weights, &[target], zero))
    };
    let name = cx.stage_of("losses");
    let name = if op.reduction == "none" { cx.stage() } else { name };
    let losses = cx.builder.compute(&name, &targets.shape, |e, i| {
        let (counts, target, weight) = weight(e, i);
        let mut at = i.to_vec();
        at.insert(usize::from(!i.is_empty()), target);
        let zero = e.number(dtype, 0.0);
        let p = e.load_if(counts, &predictions, &at, zero);
        let p = e.neg(p);
        e.mul(p, weight)
    });
    let extents = targets.shape.clone();
    match op.reduction.as_str() {
        "none" => return Ok(vec![losses]),
        "sum" => {
            return cx.reduce(&extents, Combiner::Sum, |e, _, r| {
                let loss = e.load(&losses, r);
                e.cast(loss, sums_of(dtype))
            });
        }
        _ => {}
    }
    let name = cx.stage_of("sum");
    let sum = cx.builder.reduce(&name, &[], &extents, Combiner::Sum, |e, _, r| {
        let loss = e.load(&losses, r);
        e.cast(loss, sums_of(dtype))
    });
    let name = cx.stage_of("total");
    let total = cx.builder.reduce(&name, &[], &extents, Combiner::Sum, |e, _, r| {
        let (.., weight) = weight(e, r);
        e.cast(weight, sums_of(dtype))
    });
    cx.compute(|e, i| {
        let (sum, total) = (e.load(&sum, i), e.load(&total, i));
        let mean = e.div(sum, total);
        e.cast(mean, dtype)
    })
}

/// With the logarithm of predictions, and its derivative times targets.
fn pull_cross_entropy<'p>(
    at: &Pullback<'p>,
    logarithm: fn(Term<'p>) -> Term<'p>,
    weighted: fn(Term<'p>, Term<'p>) -> Term<'p>,
) {
    let (predictions, targets) = (at.operand(0), at.operand(1));
    let share = |g: Term<'p>| g * (-1.0 / predictions.shape()[0] as f64);
    at.to(0, |g| share(g) * weighted(targets, predictions));
    at.to(1, |g| share(g) * logarithm(predictions));
}

/// The loss is linear in the predictions, and so are its sum and none in the weights; the mean divides by the sum of
/// the weights that count.
fn pull_nll_loss<'p>(at: &Pullback<'p>) {
    let Some(op) = at.fields::<NllLoss<Term<'p>>>() else { return };
    let (predictions, rank) = (op.predictions, op.predictions.rank());
    let (classes, axis) = (op.weights.size(), usize::from(rank > 1));
    let counted = counted(at, &op, axis);
    let along: Vec<i64> = (0..rank).map(|other| if other == axis { classes } else { 1 }).collect();
    let weighted = counted * op.weights.reshape(&along);
    let all: Vec<usize> = (0..rank).collect();
    let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
    // The change of each loss, against which predictions lie.
    let change = |g: Term<'p>| match (op.reduction.as_str(), rank) {
        ("none", 2..) => {
            let mut shape = predictions.shape();
            shape[axis] = 1;
            -g.reshape(&shape)
        }
        ("mean", _) => -(g / weighted.sum(&all, false)),
        _ => -g,
    };
    at.to(0, |g| change(g) * weighted);
    at.to(2, |g| {
        // A prediction that does not count may be infinite.
        let picked = predictions.masked(counted.equal(1.0));
        let losses = (change(g) * picked).sum(&others, false);
        match op.reduction.as_str() {
            "mean" => losses + change(g) * at.result() * counted.sum(&others, false),
            _ => losses,
        }
    });
}

/// 1 where a prediction is that of the class that was right and that counts, else 0.
fn counted<'p>(at: &Pullback<'p>, op: &NllLoss<Term<'p>>, axis: usize) -> Term<'p> {
    let (predictions, classes) = (op.predictions, op.weights.size());
    let indices = match (0..classes).contains(&op.ignore_index) {
        false => op.targets,
        true => {
            let ignored = op.targets.equal(op.ignore_index as f64);
            ignored
                .choose(op.targets.number(-1.0).cast(DType::INT64), op.targets.cast(DType::INT64))
        }
    };
    let [on_value, off_value] = [1.0, 0.0].map(|number| predictions.number(number).id());
    at.build(&OneHot {
        indices: indices.id(),
        on_value,
        off_value,
        depth: classes,
        axis: axis as i64,
        dtype: predictions.dtype(),
    })
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<CrossEntropy>();
    registry.op::<CrossEntropyWithLogits>();
    registry.op::<NllLoss>();
}
