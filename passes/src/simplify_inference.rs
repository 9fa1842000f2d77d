//! Layers that matter in training only, as arithmetic.

use ir_core::{Diagnostic, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult, ValueId};
use relay::language::TupleGet;
use relay::operators::attributes::Integers;
use relay::operators::broadcast::{Add, Divide, Maximum, Multiply, Subtract};
use relay::operators::elementwise::{Negative, Sqrt};
use relay::operators::nn::activation::Dropout;
use relay::operators::nn::normalization::{
    BatchNorm, GroupNorm, InstanceNorm, L2Normalize, LayerNorm,
};
use relay::operators::reduce::{Mean, Sum, Variance};
use relay::operators::shape::{ExpandDims, Reshape};

use crate::emit::{self, Emit};

/// Writes normalizations as arithmetic and drops dropout, as inference allows.
///
/// `nn.batch_norm` uses its moving mean and variance, which are its second and third result;
/// `nn.layer_norm`, `nn.instance_norm`, `nn.group_norm` and `nn.l2_normalize` become reductions
/// and elementwise operators. What is left can be fused, folded into weights and moved around.
///
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %gamma: Tensor[(2), float32],
///           %beta: Tensor[(2), float32], %mean: Tensor[(2), float32], %var: Tensor[(2), float32]) {
///   %0 = nn.batch_norm(%x, %gamma, %beta, %mean, %var);
///   %0.0
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %gamma: Tensor[(2), float32],
///     %beta: Tensor[(2), float32], %mean: Tensor[(2), float32], %var: Tensor[(2), float32])
///     -> Tensor[(1, 2, 4, 4), float32] {
///   %0 = add(%var, 1e-05f);
///   %1 = sqrt(%0);
///   %2 = divide(1f, %1);
///   %3 = multiply(%2, %gamma);
///   %4 = negative(%mean);
///   %5 = multiply(%4, %3);
///   %6 = add(%5, %beta);
///   %7 = expand_dims(%3, axis=1, num_newaxis=2);
///   %8 = multiply(%x, %7);
///   %9 = expand_dims(%6, axis=1, num_newaxis=2);
///   add(%8, %9)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "simplify-inference", function)]
pub struct SimplifyInference {}

const PASS: &str = "simplify-inference";

impl FunctionPass for SimplifyInference {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<BatchNorm>() {
            let Some(norm) = f.view::<BatchNorm>(op) else { continue };
            cx.count("simplified", u64::from(batch_norm(f, op, &norm)?));
        }
        for op in f.all::<Dropout>() {
            let Some(dropout) = f.view::<Dropout>(op) else { continue };
            cx.count("simplified", u64::from(replace_fields(f, op, &[Some(dropout.data), None])));
        }
        for op in f.all::<LayerNorm>() {
            let Some(norm) = f.view::<LayerNorm>(op) else { continue };
            let Some((axis, rank)) = axis_of(f, norm.data, norm.axis) else { continue };
            let mut emit = Emit::before(f, op, PASS);
            let centred = standardize(&mut emit, norm.data, vec![norm.axis], norm.epsilon)?;
            let affine = Affine {
                scale: norm.scale.then_some(norm.gamma),
                shift: norm.center.then_some(norm.beta),
            };
            let out = affine.apply(&mut emit, centred, rank, axis)?;
            emit::replace(f, op, out);
            cx.count("simplified", 1);
        }
        for op in f.all::<InstanceNorm>() {
            let Some(norm) = f.view::<InstanceNorm>(op) else { continue };
            let Some((axis, rank)) = axis_of(f, norm.data, norm.axis) else { continue };
            let axes: Vec<i64> = (1..rank as i64).filter(|other| *other != axis as i64).collect();
            if axes.is_empty() {
                // An empty list of axes means all axes to a reduction.
                continue;
            }
            let mut emit = Emit::before(f, op, PASS);
            let centred = standardize(&mut emit, norm.data, axes, norm.epsilon)?;
            let affine = Affine {
                scale: norm.scale.then_some(norm.gamma),
                shift: norm.center.then_some(norm.beta),
            };
            let out = affine.apply(&mut emit, centred, rank, axis)?;
            emit::replace(f, op, out);
            cx.count("simplified", 1);
        }
        for op in f.all::<GroupNorm>() {
            let Some(norm) = f.view::<GroupNorm>(op) else { continue };
            cx.count("simplified", u64::from(group_norm(f, op, &norm)?));
        }
        for op in f.all::<L2Normalize>() {
            let Some(norm) = f.view::<L2Normalize>(op) else { continue };
            let mut emit = Emit::before(f, op, PASS);
            let square = emit.op(&Multiply { lhs: norm.data, rhs: norm.data })?;
            let axis = norm.axis.map(Integers);
            let sum = emit.op(&Sum { data: square, axis, keepdims: true, exclude: false })?;
            let least = emit.scalar(norm.eps, norm.data)?;
            let bounded = emit.op(&Maximum { lhs: sum, rhs: least })?;
            let length = emit.op(&Sqrt { data: bounded })?;
            let out = emit.op(&Divide { lhs: norm.data, rhs: length })?;
            emit::replace(f, op, out);
            cx.count("simplified", 1);
        }
        Ok(())
    }
}

/// `axis` from 0 and the rank of `data`; `None` where that is unknown or has no such axis.
fn axis_of(f: &FuncMut<'_>, data: ValueId, axis: i64) -> Option<(usize, usize)> {
    let rank = f.body.ty(data).as_tensor()?.rank();
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    Some((usize::try_from(axis).ok().filter(|axis| *axis < rank)?, rank))
}

/// What multiplies and what is added per channel.
struct Affine {
    scale: Option<ValueId>,
    shift: Option<ValueId>,
}

impl Affine {
    /// `data * scale + shift`, both along `axis` of `rank`.
    fn apply(
        &self,
        emit: &mut Emit<'_, '_>,
        data: ValueId,
        rank: usize,
        axis: usize,
    ) -> Result<ValueId, Diagnostic> {
        let mut out = data;
        if let Some(scale) = self.scale {
            let rhs = along(emit, scale, rank, axis)?;
            out = emit.op(&Multiply { lhs: out, rhs })?;
        }
        if let Some(shift) = self.shift {
            let rhs = along(emit, shift, rank, axis)?;
            out = emit.op(&Add { lhs: out, rhs })?;
        }
        Ok(out)
    }
}

/// The vector `value` so that it broadcasts along `axis` of `rank`.
fn along(
    emit: &mut Emit<'_, '_>,
    value: ValueId,
    rank: usize,
    axis: usize,
) -> Result<ValueId, Diagnostic> {
    match rank - axis - 1 {
        0 => Ok(value),
        new => emit.op(&ExpandDims { data: value, axis: 1, num_newaxis: new as i64 }),
    }
}

/// `(data - mean) / √(variance + epsilon)`, mean and variance over `axes`.
fn standardize(
    emit: &mut Emit<'_, '_>,
    data: ValueId,
    axes: Vec<i64>,
    epsilon: f64,
) -> Result<ValueId, Diagnostic> {
    let axis = Some(Integers(axes));
    let mean = emit.op(&Mean { data, axis: axis.clone(), keepdims: true, exclude: false })?;
    let variance =
        emit.op(&Variance { data, mean, axis, keepdims: true, exclude: false, unbiased: false })?;
    let epsilon = emit.scalar(epsilon, data)?;
    let positive = emit.op(&Add { lhs: variance, rhs: epsilon })?;
    let centred = emit.op(&Subtract { lhs: data, rhs: mean })?;
    let deviation = emit.op(&Sqrt { data: positive })?;
    emit.op(&Divide { lhs: centred, rhs: deviation })
}

/// Makes the projections of the tuple that `op` results in uses of `fields`, where given, and
/// erases `op` when no other use is left. Whether anything changed.
fn replace_fields(f: &mut FuncMut<'_>, op: OpId, fields: &[Option<ValueId>]) -> bool {
    let tuple = f.body.result(op, 0);
    let users: Vec<OpId> = f.body.uses(tuple).map(|(user, _)| user).collect();
    let mut changed = false;
    for user in users {
        let Some(get) = f.body.view::<TupleGet>(user) else { continue };
        let field = usize::try_from(get.index).ok().and_then(|index| fields.get(index));
        if let Some(Some(value)) = field {
            f.replace(user, *value);
            changed = true;
        }
    }
    emit::erase_unused(f, [op]);
    changed
}

fn batch_norm(f: &mut FuncMut<'_>, op: OpId, norm: &BatchNorm) -> Result<bool, Diagnostic> {
    let Some((axis, rank)) = axis_of(f, norm.data, norm.axis) else { return Ok(false) };
    let mut emit = Emit::before(f, op, PASS);
    let epsilon = emit.scalar(norm.epsilon, norm.moving_var)?;
    let positive = emit.op(&Add { lhs: norm.moving_var, rhs: epsilon })?;
    let deviation = emit.op(&Sqrt { data: positive })?;
    let one = emit.scalar(1.0, norm.moving_var)?;
    let mut scale = emit.op(&Divide { lhs: one, rhs: deviation })?;
    if norm.scale {
        scale = emit.op(&Multiply { lhs: scale, rhs: norm.gamma })?;
    }
    let minus = emit.op(&Negative { data: norm.moving_mean })?;
    let mut shift = emit.op(&Multiply { lhs: minus, rhs: scale })?;
    if norm.center {
        shift = emit.op(&Add { lhs: shift, rhs: norm.beta })?;
    }
    let affine = Affine { scale: Some(scale), shift: Some(shift) };
    let out = affine.apply(&mut emit, norm.data, rank, axis)?;
    let fields = [out, norm.moving_mean, norm.moving_var];
    replace_fields(f, op, &fields.map(Some));
    if f.body.is_live(op) {
        let tuple = Emit::before(f, op, PASS).tuple(fields.to_vec());
        f.replace(op, tuple);
    }
    let last = f.body.defining_op(out);
    emit::erase_unused(f, last);
    Ok(true)
}

fn group_norm(f: &mut FuncMut<'_>, op: OpId, norm: &GroupNorm) -> Result<bool, Diagnostic> {
    let Some((axis, rank)) = axis_of(f, norm.data, norm.axis) else { return Ok(false) };
    let shape = f.body.ty(norm.data).as_tensor().and_then(|tensor| tensor.known_shape());
    let Some(shape) = shape.filter(|_| norm.num_groups > 0) else { return Ok(false) };
    // The channels split into groups and the channels of a group.
    let mut split = shape.to_vec();
    split.splice(axis..=axis, [norm.num_groups, shape[axis] / norm.num_groups]);
    let reduced = (1..=rank as i64).filter(|other| *other != axis as i64).collect();
    let mut emit = Emit::before(f, op, PASS);
    let reshape = |data, newshape| Reshape { data, newshape, allowzero: false };
    let groups = emit.op(&reshape(norm.data, split))?;
    let centred = standardize(&mut emit, groups, reduced, norm.epsilon)?;
    let merged = emit.op(&reshape(centred, shape.to_vec()))?;
    let affine =
        Affine { scale: norm.scale.then_some(norm.gamma), shift: norm.center.then_some(norm.beta) };
    let out = affine.apply(&mut emit, merged, rank, axis)?;
    emit::replace(f, op, out);
    Ok(true)
}
