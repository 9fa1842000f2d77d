//! Normalizations.

use ir_core::{
    AttrDict, AttrGroup, DType, InferCx, Op, Registry, Spread, Stop, TensorData, Type, ValueId,
};
use relay::define::{
    Define, DefineCx, Defined, Index, Operand, Reduction, along, reals_of, within,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, RandomOperand, Value};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use super::numeric::{Number, size};
use super::padding::Pad;
use super::relation::{divide, vectors_along};
use crate::batch::{self, Batch};
use crate::gradient::{Change, Gradient, Pullback, Term};
use crate::{FusionPattern, relation};

/// What a normalization does to numbers whose mean is 0: a division and, for each channel, a factor
/// and a summand.
#[derive(AttrGroup, Clone, Debug)]
pub struct Rescaling {
    /// Added to the variance.
    #[default(1e-5)]
    pub epsilon: f64,
    /// Whether `beta` is added.
    #[default(true)]
    pub center: bool,
    /// Whether `gamma` is multiplied.
    #[default(true)]
    pub scale: bool,
}

/// Normalizes by given statistics of every channel: `out = (data - moving_mean) /
/// sqrt(moving_var + epsilon) * gamma + beta`.
///
/// The four vectors have the extent of `data` along `axis`. The result is the tuple of the output,
/// of the type of `data`, and of `moving_mean` and `moving_var`, unchanged as in inference. Relay
/// operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.batch_norm",
    infer = batch_norm_relation,
    hooks(
        Gradient(pull_batch_norm),
        FusionPattern::OutFusable,
        RandomOperand(batch_norm_operand),
        Evaluate(evaluate_batch_norm),
        Define(define_batch_norm)
    )
)]
pub struct BatchNorm<V = ValueId> {
    /// The input.
    pub data: V,
    /// Factor of every channel.
    pub gamma: V,
    /// Summand of every channel.
    pub beta: V,
    /// Mean of every channel.
    pub moving_mean: V,
    /// Variance of every channel.
    pub moving_var: V,
    /// The axis of channels; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
    /// What is done after the mean is taken off.
    #[flatten]
    pub rescaling: Rescaling,
}

fn batch_norm_relation(op: BatchNorm<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let channel = vectors_along(cx, op.axis, 1..5)?;
    Ok(Type::tuple([op.data, channel, channel]))
}

/// Variances are positive, and so are factors.
fn batch_norm_operand(operand: usize, _: &[Type], _: AttrDict) -> Option<Spread> {
    matches!(operand, 1 | 4).then_some(Spread { least: 0.5, width: 1.0 })
}

/// Factors are about 1.
fn norm_operand(operand: usize, _: &[Type], _: AttrDict) -> Option<Spread> {
    (operand == 1).then_some(Spread { least: 0.5, width: 1.0 })
}

fn evaluate_batch_norm(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<BatchNorm<Value>>()?;
    let affine = Affine::new(cx, op.axis, &op.rescaling)?;
    let (mean, variance) = (cx.tensor(3)?.to_f64(), cx.tensor(4)?.to_f64());
    if mean.len() != affine.channels || variance.len() != affine.channels {
        return Err(EvalError::new("expected as many means and variances as channels"));
    }
    let mut out = cx.tensor(0)?.to_f64();
    for (i, x) in out.iter_mut().enumerate() {
        let c = affine.channel(i);
        *x = (*x - mean[c]) / (variance[c] + op.rescaling.epsilon).sqrt();
    }
    Ok(Value::tuple([affine.finish(out)?, cx.operands[3].clone(), cx.operands[4].clone()]))
}

fn define_batch_norm(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<BatchNorm<Operand>>()?;
    let (data, mean, variance) = (cx.tensor(0)?, cx.tensor(3)?, cx.tensor(4)?);
    let scaling = Scaling::new(cx, op.axis, &op.rescaling)?;
    let name = cx.stage();
    let normalized = cx.builder.compute(&name, &data.shape, |e, i| {
        let x = e.load(&data, i);
        let (mean, variance) =
            (along(e, &mean, i, scaling.axis), along(e, &variance, i, scaling.axis));
        let scale = scaling.scale(e, variance, op.rescaling.epsilon);
        scaling.normalized(e, i, x, mean, scale)
    });
    Ok(vec![normalized, mean, variance])
}

/// The last step of every normalization, as an expression.
struct Scaling {
    axis: usize,
    dtype: DType,
    gamma: Option<Tensor>,
    beta: Option<Tensor>,
}

impl Scaling {
    /// The step for operands `data`, `gamma`, `beta`.
    fn new(cx: &DefineCx<'_>, axis: i64, rescaling: &Rescaling) -> Result<Scaling, String> {
        let data = cx.tensor(0)?;
        Ok(Scaling {
            axis: relation::axis(axis, data.shape.len())?,
            dtype: data.dtype,
            gamma: if rescaling.scale { Some(cx.tensor(1)?) } else { None },
            beta: if rescaling.center { Some(cx.tensor(2)?) } else { None },
        })
    }

    /// The element type of statistics.
    fn computed_in(&self) -> DType {
        reals_of(self.dtype)
    }

    /// `1 / sqrt(variance + epsilon)`.
    fn scale(&self, e: &mut Expression<'_>, variance: ValueId, epsilon: f64) -> ValueId {
        let real = self.computed_in();
        let (variance, epsilon) = (e.cast(variance, real), e.number(real, epsilon));
        let shifted = e.add(variance, epsilon);
        let deviation = e.scalar(ScalarOp::Sqrt, &[shifted]);
        let one = e.number(real, 1.0);
        e.div(one, deviation)
    }

    /// `(x - mean) * scale * gamma + beta` at indices `i`.
    fn normalized(
        &self,
        e: &mut Expression<'_>,
        i: &[ValueId],
        x: ValueId,
        mean: ValueId,
        scale: ValueId,
    ) -> ValueId {
        let real = self.computed_in();
        let [x, mean] = [x, mean].map(|value| e.cast(value, real));
        let centered = e.sub(x, mean);
        let mut value = e.mul(centered, scale);
        if let Some(gamma) = &self.gamma {
            let gamma = along(e, gamma, i, self.axis);
            let gamma = e.cast(gamma, real);
            value = e.mul(value, gamma);
        }
        if let Some(beta) = &self.beta {
            let beta = along(e, beta, i, self.axis);
            let beta = e.cast(beta, real);
            value = e.add(value, beta);
        }
        e.cast(value, self.dtype)
    }

    /// Normalizes groups of elements to mean 0 and variance 1. A group is a place in `view`, a
    /// shape of the same elements, without the axes that `reduced` holds for.
    fn define(
        &self,
        cx: &mut DefineCx<'_>,
        epsilon: f64,
        view: &[i64],
        reduced: &[bool],
    ) -> Defined {
        let (normalized, _) = self.define_with_statistics(cx, epsilon, view, reduced)?;
        Ok(vec![normalized])
    }

    /// The same, with the mean and the variance of each group.
    fn define_with_statistics(
        &self,
        cx: &mut DefineCx<'_>,
        epsilon: f64,
        view: &[i64],
        reduced: &[bool],
    ) -> Result<(Tensor, [Tensor; 2]), String> {
        let (data, real) = (cx.tensor(0)?, self.computed_in());
        let reduction = Reduction::new(view, reduced, false);
        let at = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let place = reduction.place(i, r);
            Index::row_major(&place, view).split(e, &data.shape)
        };
        let Reduction { shape, extents, .. } = &reduction;
        let mut statistics = Vec::new();
        for part in ["mean", "variance"] {
            let mean = statistics.last().cloned();
            let name = cx.stage_of(&format!("{part}_sum"));
            let sum = cx.builder.reduce(&name, shape, extents, Combiner::Sum, |e, i, r| {
                let place = at(e, i, r);
                let x = e.load(&data, &place);
                let x = e.cast(x, real);
                match &mean {
                    None => x,
                    Some(mean) => {
                        let mean = e.load(mean, i);
                        let difference = e.sub(x, mean);
                        e.mul(difference, difference)
                    }
                }
            });
            let (name, count) = (cx.stage_of(part), reduction.count() as f64);
            statistics.push(cx.builder.compute(&name, shape, |e, i| {
                let (sum, count) = (e.load(&sum, i), e.number(real, count));
                e.div(sum, count)
            }));
        }
        let statistics: [Tensor; 2] =
            statistics.try_into().map_err(|_| "expected a mean and a variance".to_string())?;
        let [mean, variance] = &statistics;
        // A root and a division for each row, not for each element.
        let name = cx.stage_of("scale");
        let scale = cx.builder.compute(&name, shape, |e, i| {
            let variance = e.load(variance, i);
            self.scale(e, variance, epsilon)
        });
        let name = cx.stage();
        let normalized = cx.builder.compute(&name, &data.shape, |e, i| {
            let x = e.load(&data, i);
            let place = Index::row_major(i, &data.shape).split(e, view);
            let group = reduction.kept(e, &place);
            let (mean, scale) = (e.load(mean, &group), e.load(&scale, &group));
            self.normalized(e, i, x, mean, scale)
        });
        Ok((normalized, statistics))
    }
}

/// The last step of every normalization: a factor and a summand per channel.
struct Affine<'a> {
    data: &'a TensorData,
    channels: usize,
    /// Number of elements after the axis of channels.
    inner: usize,
    gamma: Vec<f64>,
    beta: Vec<f64>,
}

impl<'a> Affine<'a> {
    /// The step for operands `data`, `gamma`, `beta`.
    fn new(cx: &'a EvalCx<'_>, axis: i64, rescaling: &Rescaling) -> Result<Affine<'a>, EvalError> {
        let data = cx.tensor(0)?;
        let axis = relation::axis(axis, data.rank())?;
        let channels = data.shape()[axis] as usize;
        let inner = size(&data.shape()[axis + 1..]);
        let gamma = if rescaling.scale { cx.tensor(1)?.to_f64() } else { vec![1.0; channels] };
        let beta = if rescaling.center { cx.tensor(2)?.to_f64() } else { vec![0.0; channels] };
        if gamma.len() != channels || beta.len() != channels {
            return Err(EvalError::new(format!("expected {channels} factors and summands")));
        }
        Ok(Affine { data, channels, inner, gamma, beta })
    }

    /// The channel of the element at a row-major index.
    fn channel(&self, index: usize) -> usize {
        index / self.inner % self.channels
    }

    fn finish(&self, mut normalized: Vec<f64>) -> Result<Value, EvalError> {
        for (i, x) in normalized.iter_mut().enumerate() {
            let c = self.channel(i);
            *x = *x * self.gamma[c] + self.beta[c];
        }
        f64::write(self.data.dtype(), self.data.shape(), &normalized)
    }

    /// Normalizes every group of elements to mean 0 and variance 1; `group` names the group of a
    /// row-major index, below `groups`.
    fn normalize(
        &self,
        epsilon: f64,
        groups: usize,
        group: impl Fn(usize) -> usize,
    ) -> Result<Value, EvalError> {
        self.normalize_with_statistics(epsilon, groups, group).map(|(normalized, _)| normalized)
    }

    /// The same, with the means and the variances of the groups.
    fn normalize_with_statistics(
        &self,
        epsilon: f64,
        groups: usize,
        group: impl Fn(usize) -> usize,
    ) -> Result<(Value, [Vec<f64>; 2]), EvalError> {
        let mut out = self.data.to_f64();
        let mut counts = vec![0.0f64; groups];
        let mut means = vec![0.0; groups];
        for (i, x) in out.iter().enumerate() {
            counts[group(i)] += 1.0;
            means[group(i)] += x;
        }
        means.iter_mut().zip(&counts).for_each(|(mean, count)| *mean /= count);
        let mut variances = vec![0.0; groups];
        for (i, x) in out.iter().enumerate() {
            let g = group(i);
            variances[g] += (x - means[g]) * (x - means[g]) / counts[g];
        }
        for (i, x) in out.iter_mut().enumerate() {
            let g = group(i);
            *x = (*x - means[g]) / (variances[g] + epsilon).sqrt();
        }
        Ok((self.finish(out)?, [means, variances]))
    }
}

/// Normalizes every channel by its own statistics: `out = (data - mean) / sqrt(variance + epsilon) *
/// gamma + beta`, as in training.
///
/// Mean and variance, which counts no element less, are taken over all axes but `axis`. `data` has floats;
/// `gamma` and `beta` have its extent along `axis`. The result is the tuple of the output, of the type of
/// `data`, and of the mean and the variance, of which `nn.batch_norm` takes moving averages in inference.
/// Relay has no such operator: its `nn.batch_norm` is that of inference.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.batch_norm_train",
    infer = batch_norm_train_relation,
    hooks(
        Gradient(pull_batch_norm_train),
        FusionPattern::Opaque,
        RandomOperand(norm_operand),
        Evaluate(evaluate_batch_norm_train),
        Define(define_batch_norm_train)
    )
)]
pub struct BatchNormTrain<V = ValueId> {
    /// The input.
    pub data: V,
    /// Factor of every channel.
    pub gamma: V,
    /// Summand of every channel.
    pub beta: V,
    /// The axis of channels; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
    /// What is done after the mean is taken off.
    #[flatten]
    pub rescaling: Rescaling,
}

fn batch_norm_train_relation(op: BatchNormTrain<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.floats(0)?;
    let channel = vectors_along(cx, op.axis, 1..3)?;
    Ok(Type::tuple([data, channel, channel]))
}

fn evaluate_batch_norm_train(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<BatchNormTrain<Value>>()?;
    let affine = Affine::new(cx, op.axis, &op.rescaling)?;
    let (normalized, statistics) =
        affine.normalize_with_statistics(op.rescaling.epsilon, affine.channels, |i| {
            affine.channel(i)
        })?;
    let channels = [affine.channels as i64];
    let [mean, variance] =
        statistics.map(|numbers| f64::write(affine.data.dtype(), &channels, &numbers));
    Ok(Value::tuple([normalized, mean?, variance?]))
}

fn define_batch_norm_train(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<BatchNormTrain<Operand>>()?;
    let scaling = Scaling::new(cx, op.axis, &op.rescaling)?;
    let shape = cx.tensor(0)?.shape;
    let reduced: Vec<bool> = (0..shape.len()).map(|axis| axis != scaling.axis).collect();
    let epsilon = op.rescaling.epsilon;
    let (normalized, statistics) = scaling.define_with_statistics(cx, epsilon, &shape, &reduced)?;
    let mut results = vec![normalized];
    for (tensor, part) in statistics.iter().zip(["batch_mean", "batch_variance"]) {
        let name = cx.stage_of(part);
        results.push(cx.builder.compute(&name, &tensor.shape, |e, i| {
            let value = e.load(tensor, i);
            e.cast(value, scaling.dtype)
        }));
    }
    Ok(results)
}

/// Refines `gamma` and `beta` to vectors along `axis`.
fn normalization_relation(data: Type, axis: i64, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    vectors_along(cx, axis, 1..3)?;
    Ok(data)
}

/// Normalizes along one axis: `out = (data - mean) / sqrt(variance + epsilon) * gamma + beta`.
///
/// Mean and variance are taken over `axis`, separately for all other indices. `gamma` and `beta`
/// have the extent of `data` along `axis`; the result has the type of `data`. Relay operator
/// level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.layer_norm",
    infer = |op: LayerNorm<Type>, cx: &mut InferCx<'_>| normalization_relation(op.data, op.axis, cx),
    hooks(
        RandomOperand(norm_operand),
        Gradient(pull_layer_norm),
        Batch(|at| batch::along(at, -1)),
        Evaluate(evaluate_layer_norm),
        Define(define_layer_norm)
    )
)]
pub struct LayerNorm<V = ValueId> {
    /// The input.
    pub data: V,
    /// Factor of every channel.
    pub gamma: V,
    /// Summand of every channel.
    pub beta: V,
    /// The axis; counted from the end where negative.
    #[default(-1)]
    pub axis: i64,
    /// What is done after the mean is taken off.
    #[flatten]
    pub rescaling: Rescaling,
}

fn evaluate_layer_norm(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<LayerNorm<Value>>()?;
    let affine = Affine::new(cx, op.axis, &op.rescaling)?;
    let (inner, channels) = (affine.inner, affine.channels);
    let groups = affine.data.len() / channels.max(1);
    affine.normalize(op.rescaling.epsilon, groups, |i| i / (inner * channels) * inner + i % inner)
}

fn define_layer_norm(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<LayerNorm<Operand>>()?;
    let scaling = Scaling::new(cx, op.axis, &op.rescaling)?;
    let shape = cx.tensor(0)?.shape;
    let reduced: Vec<bool> = (0..shape.len()).map(|axis| axis == scaling.axis).collect();
    scaling.define(cx, op.rescaling.epsilon, &shape, &reduced)
}

/// Normalizes every channel of every example: `out = (data - mean) / sqrt(variance + epsilon) *
/// gamma + beta`.
///
/// Mean and variance are taken over all axes except the first and `axis`. `gamma` and `beta` have
/// the extent of `data` along `axis`; the result has the type of `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.instance_norm",
    infer = instance_norm_relation,
    hooks(
        RandomOperand(norm_operand),
        Gradient(pull_instance_norm),
        Evaluate(evaluate_instance_norm),
        Define(define_instance_norm)
    )
)]
pub struct InstanceNorm<V = ValueId> {
    /// The input; its first axis is that of the batch.
    pub data: V,
    /// Factor of every channel.
    pub gamma: V,
    /// Summand of every channel.
    pub beta: V,
    /// The axis of channels, not the first; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
    /// What is done after the mean is taken off.
    #[flatten]
    pub rescaling: Rescaling,
}

/// Errors when the axis of channels is that of the batch.
fn require_batch(axis: i64, rank: usize) -> Result<usize, Stop> {
    match relation::axis(axis, rank)? {
        0 => Err(Stop::error("expected an axis of channels after the first, found axis 0")),
        axis => Ok(axis),
    }
}

fn instance_norm_relation(op: InstanceNorm<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    require_batch(op.axis, cx.tensor(0)?.rank())?;
    normalization_relation(op.data, op.axis, cx)
}

fn evaluate_instance_norm(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<InstanceNorm<Value>>()?;
    let affine = Affine::new(cx, op.axis, &op.rescaling)?;
    let batch = affine.data.shape()[0] as usize;
    let example = (affine.data.len() / batch.max(1)).max(1);
    affine.normalize(op.rescaling.epsilon, batch * affine.channels, |i| {
        i / example * affine.channels + affine.channel(i)
    })
}

fn define_instance_norm(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<InstanceNorm<Operand>>()?;
    let scaling = Scaling::new(cx, op.axis, &op.rescaling)?;
    let shape = cx.tensor(0)?.shape;
    let reduced: Vec<bool> =
        (0..shape.len()).map(|axis| axis != 0 && axis != scaling.axis).collect();
    scaling.define(cx, op.rescaling.epsilon, &shape, &reduced)
}

/// Normalizes groups of channels of every example: `out = (data - mean) / sqrt(variance +
/// epsilon) * gamma + beta`.
///
/// Mean and variance are taken over the channels of a group and all axes except the first and
/// `axis`. `gamma` and `beta` have the extent of `data` along `axis`; the result has the type of
/// `data`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.group_norm",
    infer = group_norm_relation,
    hooks(
        RandomOperand(norm_operand),
        Gradient(pull_group_norm),
        Evaluate(evaluate_group_norm),
        Define(define_group_norm)
    )
)]
pub struct GroupNorm<V = ValueId> {
    /// The input; its first axis is that of the batch.
    pub data: V,
    /// Factor of every channel.
    pub gamma: V,
    /// Summand of every channel.
    pub beta: V,
    /// Number of groups, which divides the number of channels.
    #[default(0)]
    pub num_groups: i64,
    /// The axis of channels, not the first; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
    /// What is done after the mean is taken off.
    #[flatten]
    pub rescaling: Rescaling,
}

fn group_norm_relation(op: GroupNorm<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axis = require_batch(op.axis, data.rank())?;
    if op.num_groups < 1 {
        return Err(Stop::Error(format!(
            "expected `num_groups` of at least 1, found {}",
            op.num_groups
        )));
    }
    divide("a number of channels", data.shape[axis], op.num_groups)?;
    normalization_relation(op.data, op.axis, cx)
}

fn evaluate_group_norm(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<GroupNorm<Value>>()?;
    let affine = Affine::new(cx, op.axis, &op.rescaling)?;
    let batch = affine.data.shape()[0] as usize;
    let example = (affine.data.len() / batch.max(1)).max(1);
    let groups = op.num_groups.max(1) as usize;
    let size = (affine.channels / groups).max(1);
    affine.normalize(op.rescaling.epsilon, batch * groups, |i| {
        i / example * groups + affine.channel(i) / size
    })
}

fn define_group_norm(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<GroupNorm<Operand>>()?;
    let scaling = Scaling::new(cx, op.axis, &op.rescaling)?;
    let (mut view, groups) = (cx.tensor(0)?.shape, op.num_groups.max(1));
    // The axis of channels as one of groups and one of the channels of a group.
    view[scaling.axis] /= groups;
    view.insert(scaling.axis, groups);
    let reduced: Vec<bool> =
        (0..view.len()).map(|axis| axis != 0 && axis != scaling.axis).collect();
    scaling.define(cx, op.rescaling.epsilon, &view, &reduced)
}

/// Divides by the Euclidean norm: `out = data / sqrt(max(Σ data², eps))`.
///
/// The sum runs over `axis`, all axes where absent or empty. The result has the type of `data`.
/// Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.l2_normalize",
    infer = l2_normalize_relation,
    hooks(
        Gradient(pull_l2_normalize),
        Evaluate(evaluate_l2_normalize),
        Define(define_l2_normalize)
    )
)]
pub struct L2Normalize<V = ValueId> {
    /// The input.
    pub data: V,
    /// Lower bound of the sum of squares.
    pub eps: f64,
    /// The axes; counted from the end where negative.
    #[default(None)]
    pub axis: Option<Vec<i64>>,
}

fn l2_normalize_relation(op: L2Normalize<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let rank = cx.tensor(0)?.rank();
    for &axis in op.axis.iter().flatten() {
        relation::axis(axis, rank)?;
    }
    Ok(op.data)
}

fn evaluate_l2_normalize(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<L2Normalize<Value>>()?;
    let data = cx.tensor(0)?;
    let rank = data.rank();
    let given = op.axis.unwrap_or_default();
    let axes =
        given.iter().map(|&axis| relation::axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let kept: Vec<usize> =
        (0..rank).filter(|axis| !axes.is_empty() && !axes.contains(axis)).collect();
    let group = |mut index: usize| {
        let (mut group, mut scale) = (0, 1);
        for axis in (0..rank).rev() {
            let extent = data.shape()[axis] as usize;
            if kept.contains(&axis) {
                group += index % extent * scale;
                scale *= extent;
            }
            index /= extent;
        }
        group
    };
    let mut out = data.to_f64();
    let groups = kept.iter().map(|&axis| data.shape()[axis] as usize).product();
    let mut sums = vec![0.0f64; groups];
    for (i, x) in out.iter().enumerate() {
        sums[group(i)] += x * x;
    }
    for (i, x) in out.iter_mut().enumerate() {
        *x /= sums[group(i)].max(op.eps).sqrt();
    }
    f64::write(data.dtype(), data.shape(), &out)
}

fn define_l2_normalize(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<L2Normalize<Operand>>()?;
    let data = cx.tensor(0)?;
    let reduced = relation::reduced_axes(op.axis.as_deref(), false, data.shape.len())?;
    let (reduction, name) = (Reduction::new(&data.shape, &reduced, false), cx.stage_of("sum"));
    let real = reals_of(data.dtype);
    let sum = reduction.stage(cx, &name, Combiner::Sum, &data, |e, _, x| {
        let x = e.cast(x, real);
        e.mul(x, x)
    });
    cx.compute(|e, i| {
        let at = reduction.kept(e, i);
        let (x, sum, least) = (e.load(&data, i), e.load(&sum, &at), e.number(real, op.eps));
        // A sum that is NaN gives way to the bound.
        let above = e.gt(sum, least);
        let bounded = e.select(above, sum, least);
        let (x, norm) = (e.cast(x, real), e.scalar(ScalarOp::Sqrt, &[bounded]));
        let value = e.div(x, norm);
        e.cast(value, data.dtype)
    })
}

/// Local response normalization: `out = data / (bias + alpha / size * Σ data²) ^ beta`.
///
/// The sum runs over the `size` neighbours along `axis` around every element; there are none
/// outside the tensor. The result has the type of `data`. Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.lrn",
    infer = lrn_relation,
    hooks(
        Gradient(pull_lrn),
        FusionPattern::Opaque,
        Evaluate(evaluate_lrn),
        Define(define_lrn)
    )
)]
pub struct Lrn<V = ValueId> {
    /// The input.
    pub data: V,
    /// Number of neighbours, the element itself included; odd.
    #[default(5)]
    pub size: i64,
    /// The axis; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
    /// Summand of the divisor.
    #[default(2.0)]
    pub bias: f64,
    /// Factor of the sum of squares.
    #[default(1e-5)]
    pub alpha: f64,
    /// Exponent of the divisor.
    #[default(0.75)]
    pub beta: f64,
}

fn lrn_relation(op: Lrn<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    relation::axis(op.axis, cx.tensor(0)?.rank())?;
    if op.size < 1 || op.size % 2 == 0 {
        return Err(Stop::Error(format!("expected an odd `size`, found {}", op.size)));
    }
    Ok(op.data)
}

fn evaluate_lrn(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Lrn<Value>>()?;
    let tensor = cx.tensor(0)?;
    let axis = relation::axis(op.axis, tensor.rank())?;
    let extent = tensor.shape()[axis] as usize;
    let inner = size(&tensor.shape()[axis + 1..]);
    let reach = usize::try_from(op.size / 2).unwrap_or(0);
    let data = tensor.to_f64();
    let out: Vec<f64> = (0..data.len())
        .map(|i| {
            let place = i / inner % extent;
            let base = i - place * inner;
            let neighbours =
                place.saturating_sub(reach)..place.saturating_add(reach + 1).min(extent);
            let sum: f64 = neighbours.map(|p| data[base + p * inner].powi(2)).sum();
            data[i] / (op.bias + op.alpha * sum / op.size as f64).powf(op.beta)
        })
        .collect();
    f64::write(tensor.dtype(), tensor.shape(), &out)
}

fn define_lrn(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Lrn<Operand>>()?;
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.shape.len())?;
    let (extent, reach) = (data.shape[axis], (op.size / 2).min(data.shape[axis]));
    let real = reals_of(data.dtype);
    let name = cx.stage_of("sum");
    let window = [2 * reach + 1];
    let sum = cx.builder.reduce(&name, &data.shape, &window, Combiner::Sum, |e, i, r| {
        let mut at = i.to_vec();
        let place = e.add(i[axis], r[0]);
        at[axis] = e.add_index(place, -reach);
        let outside = e.number(data.dtype, 0.0);
        let x = match within(e, [(at[axis], extent)]) {
            Some(inside) => e.load_if(inside, &data, &at, outside),
            None => outside,
        };
        let x = e.cast(x, real);
        e.mul(x, x)
    });
    cx.compute(|e, i| {
        let (x, sum) = (e.load(&data, i), e.load(&sum, i));
        let [alpha, size, bias, beta] =
            [op.alpha, op.size as f64, op.bias, op.beta].map(|value| e.number(real, value));
        let scaled = e.mul(alpha, sum);
        let mean = e.div(scaled, size);
        let shifted = e.add(bias, mean);
        let (x, divisor) = (e.cast(x, real), e.scalar(ScalarOp::Pow, &[shifted, beta]));
        let value = e.div(x, divisor);
        e.cast(value, data.dtype)
    })
}

/// Axis `axis` of `rank`, counted from the front.
fn front(axis: i64, rank: usize) -> usize {
    axis.rem_euclid(rank.max(1) as i64) as usize
}

/// `term`, a vector, along `axis` of a tensor with `rank` axes.
fn lying(term: Term<'_>, axis: usize, rank: usize) -> Term<'_> {
    let mut shape = vec![1; rank];
    shape[axis] = term.size();
    term.reshape(&shape)
}

/// With the mean and the variance as operands.
fn pull_batch_norm(at: &Pullback<'_>) {
    let Some(op) = at.fields::<BatchNorm<Term<'_>>>() else { return };
    let Change::Tuple(changes) = at.change() else { return };
    if changes[1..].iter().any(|change| !matches!(change, Change::None)) {
        return at.refuse("the moving mean or variance that it gives");
    }
    let Some(g) = changes[0].tensor() else { return };
    let (rank, axis) = (op.data.rank(), front(op.axis, op.data.rank()));
    let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
    let inverse = (op.moving_var + op.rescaling.epsilon).rsqrt();
    let factor = if op.rescaling.scale { op.gamma * inverse } else { inverse };
    if at.wants(0) {
        at.give(0, Change::Tensor(g * lying(factor, axis, rank)));
    }
    let needs = |index: usize| at.wants(index);
    if (needs(1) && op.rescaling.scale) || needs(4) {
        let centered = op.data - lying(op.moving_mean, axis, rank);
        let slope = (g * centered).sum(&others, false);
        if op.rescaling.scale {
            at.give(1, Change::Tensor(slope * inverse));
        }
        at.give(4, Change::Tensor(slope * factor * inverse * inverse * -0.5));
    }
    if needs(2) && op.rescaling.center {
        at.give(2, Change::Tensor(g.sum(&others, false)));
    }
    if needs(3) {
        at.give(3, Change::Tensor(-(g.sum(&others, false) * factor)));
    }
}

fn pull_batch_norm_train(at: &Pullback<'_>) {
    let Some(op) = at.fields::<BatchNormTrain<Term<'_>>>() else { return };
    let Change::Tuple(changes) = at.change() else { return };
    let (rank, axis) = (op.data.rank(), front(op.axis, op.data.rank()));
    let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
    if let Some(g) = changes[0].tensor() {
        if at.wants(0) || (at.wants(1) && op.rescaling.scale) {
            let parts = normalized(op.data, &others, op.rescaling.epsilon);
            if at.wants(0) {
                let g = if op.rescaling.scale { g * lying(op.gamma, axis, rank) } else { g };
                at.give(0, Change::Tensor(pull_normalized(g, parts, &others)));
            }
            if op.rescaling.scale {
                at.give(1, Change::Tensor((g * parts.0).sum(&others, false)));
            }
        }
        if op.rescaling.center {
            at.give(2, Change::Tensor(g.sum(&others, false)));
        }
    }
    if at.wants(0) {
        let shape = op.data.shape();
        let share = 1.0 / others.iter().map(|axis| shape[*axis]).product::<i64>() as f64;
        if let Some(g) = changes[1].tensor() {
            let along = lying(g * share, axis, rank);
            at.give(0, Change::Tensor(along.broadcast(&shape)));
        }
        if let Some(g) = changes[2].tensor() {
            let centered = op.data - op.data.sum(&others, true) * share;
            at.give(0, Change::Tensor(centered * lying(g * (2.0 * share), axis, rank)));
        }
    }
}

/// `data` with mean 0 and variance 1 over `axes`, and the factor that made it so.
fn normalized<'p>(data: Term<'p>, axes: &[usize], epsilon: f64) -> (Term<'p>, Term<'p>) {
    let shape = data.shape();
    let share = 1.0 / axes.iter().map(|axis| shape[*axis]).product::<i64>() as f64;
    let centered = data - data.sum(axes, true) * share;
    let variance = (centered * centered).sum(axes, true) * share;
    let inverse = (variance + epsilon).rsqrt();
    (centered * inverse, inverse)
}

/// The change of the data, from that of the normalized data.
fn pull_normalized<'p>(
    g: Term<'p>,
    (normal, inverse): (Term<'p>, Term<'p>),
    axes: &[usize],
) -> Term<'p> {
    let shape = normal.shape();
    let share = 1.0 / axes.iter().map(|axis| shape[*axis]).product::<i64>() as f64;
    let mean = |term: Term<'p>| term.sum(axes, true) * share;
    (g - mean(g) - normal * mean(g * normal)) * inverse
}

/// The rule of a normalization of `grouped`, the data in another shape, over `axes` of it; the factor and
/// the offset lie along `axis` of the data.
fn pull_norm<'p>(
    at: &Pullback<'p>,
    grouped: &[i64],
    axes: &[usize],
    axis: i64,
    rescaling: &Rescaling,
) {
    let (data, gamma) = (at.operand(0), at.operand(1));
    let (rank, shape, axis) = (data.rank(), data.shape(), front(axis, data.rank()));
    let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
    if at.wants(0) || (at.wants(1) && rescaling.scale) {
        let parts = normalized(data.reshape(grouped), axes, rescaling.epsilon);
        at.to(0, |g| {
            let g = if rescaling.scale { g * lying(gamma, axis, rank) } else { g };
            pull_normalized(g.reshape(grouped), parts, axes).reshape(&shape)
        });
        if rescaling.scale {
            at.to(1, |g| (g * parts.0.reshape(&shape)).sum(&others, false));
        }
    }
    if rescaling.center {
        at.to(2, |g| g.sum(&others, false));
    }
}

fn pull_layer_norm(at: &Pullback<'_>) {
    let Some(op) = at.fields::<LayerNorm<Term<'_>>>() else { return };
    let axis = front(op.axis, op.data.rank());
    pull_norm(at, &op.data.shape(), &[axis], op.axis, &op.rescaling);
}

fn pull_instance_norm(at: &Pullback<'_>) {
    let Some(op) = at.fields::<InstanceNorm<Term<'_>>>() else { return };
    let (rank, axis) = (op.data.rank(), front(op.axis, op.data.rank()));
    let axes: Vec<usize> = (1..rank).filter(|other| *other != axis).collect();
    pull_norm(at, &op.data.shape(), &axes, op.axis, &op.rescaling);
}

fn pull_group_norm(at: &Pullback<'_>) {
    let Some(op) = at.fields::<GroupNorm<Term<'_>>>() else { return };
    let (rank, axis) = (op.data.rank(), front(op.axis, op.data.rank()));
    let mut grouped = op.data.shape();
    grouped[axis] /= op.num_groups.max(1);
    grouped.insert(axis, op.num_groups);
    // The groups stand before the channels of each; of the rest, all but the batch is normalized.
    let axes: Vec<usize> = (1..=rank).filter(|other| *other != axis).collect();
    pull_norm(at, &grouped, &axes, op.axis, &op.rescaling);
}

/// Where the sum of squares gives way to its bound, the divisor is a constant.
fn pull_l2_normalize(at: &Pullback<'_>) {
    let Some(op) = at.fields::<L2Normalize<Term<'_>>>() else { return };
    let (data, normal) = (op.data, at.result());
    let Ok(reduced) = relation::reduced_axes(op.axis.as_deref(), false, data.rank()) else {
        return;
    };
    let axes: Vec<usize> = (0..data.rank()).filter(|axis| reduced[*axis]).collect();
    at.to(0, |g| {
        let squares = (data * data).sum(&axes, true);
        let above = squares.greater(op.eps);
        let inverse = above.choose(squares, squares.like(op.eps)).rsqrt();
        let along = (g * normal).sum(&axes, true).masked(above);
        (g - normal * along) * inverse
    });
}

/// An element takes part in the divisors of its neighbours, which are those that take part in its own.
fn pull_lrn<'p>(at: &Pullback<'p>) {
    let Some(op) = at.fields::<Lrn<Term<'p>>>() else { return };
    let (data, axis) = (op.data, front(op.axis, op.data.rank()));
    let share = op.alpha / op.size as f64;
    let sum = |term: Term<'p>| sum_of_neighbours(at, term, axis, op.size / 2);
    at.to(0, |g| {
        let divisor = sum(data * data) * share + op.bias;
        let others = sum(g * at.result() / divisor);
        g * divisor.power(-op.beta) - data * others * (2.0 * share * op.beta)
    });
}

/// The sum of the elements along `axis` around each element of `term`, up to `reach` of them to both sides.
fn sum_of_neighbours<'p>(at: &Pullback<'p>, term: Term<'p>, axis: usize, reach: i64) -> Term<'p> {
    let shape = term.shape();
    let reach = reach.min(shape[axis]);
    let mut pad_width = vec![vec![0, 0]; shape.len()];
    pad_width[axis] = vec![reach, reach];
    let (data, pad_value) = (term.id(), term.number(0.0).id());
    let padded = at.build(&Pad { data, pad_value, pad_width, pad_mode: "constant".to_string() });
    let mut begin = vec![0; shape.len()];
    let shifted = (0..=2 * reach).map(|place| {
        begin[axis] = place;
        padded.slice(&begin, &shape)
    });
    shifted.reduce(|sum, term| sum + term).unwrap_or(term)
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<BatchNorm>();
    registry.op::<BatchNormTrain>();
    registry.op::<LayerNorm>();
    registry.op::<InstanceNorm>();
    registry.op::<GroupNorm>();
    registry.op::<L2Normalize>();
    registry.op::<Lrn>();
}
