//! Factors per channel, folded into weights.

use ir_core::{
    AttrData, BlockId, Body, Diagnostics, FuncMut, FunctionPass, OpId, Pass, PassContext,
    PassResult, ValueId,
};
use relay_operators::attributes::Integers;
use relay_operators::broadcast::{Add, Divide, Multiply, Subtract};
use relay_operators::elementwise::{Rsqrt, Sqrt};
use relay_operators::layout::Layout;
use relay_operators::nn::activation::{LeakyRelu, Relu};
use relay_operators::nn::adaptive_pooling::GlobalAvgPool2d;
use relay_operators::nn::convolution::{Conv1d, Conv2d, Conv3d};
use relay_operators::nn::linear::Dense;
use relay_operators::nn::pooling::{
    AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
};
use relay_operators::shape::{BroadcastTo, ExpandDims, Reshape, Squeeze, Transpose};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::emit::{self, Emit, attribute};
use crate::fold_constant::FoldConstant;

/// Folds factors per channel into the weights of convolutions and dense layers.
///
/// Runs `backward-fold-scale-axis`, `forward-fold-scale-axis` and `fold-constant`: with constant
/// weights the factors, such as those of a batch normalization, cost nothing then.
///
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///           %s: Tensor[(2, 1, 1), float32]) {
///   %0 = nn.conv2d(%x, %w, channels=2, kernel_size=[3, 3]);
///   multiply(%0, %s)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///     %s: Tensor[(2, 1, 1), float32]) -> Tensor[(1, 2, 6, 6), float32] {
///   %0 = squeeze(%s, axis=[1, 2]);
///   %1 = expand_dims(%0, axis=1, num_newaxis=3);
///   %2 = multiply(%w, %1);
///   nn.conv2d(%x, %2, channels=2, kernel_size=[3, 3])
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fold-scale-axis", function)]
pub struct FoldScaleAxis {}

/// Folds factors on the results of convolutions and dense layers into their weights.
///
/// The factor must be one number for each output channel. It moves back through operations that
/// nothing else uses: through `add` and `subtract` of something per channel, or of another such
/// layer, and through average pools; through `nn.relu`, `nn.leaky_relu` and max pools when it is a
/// positive constant.
///
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///           %b: Tensor[(2, 1, 1), float32], %s: Tensor[(2, 1, 1), float32]) {
///   %0 = nn.conv2d(%x, %w, channels=2, kernel_size=[3, 3]);
///   %1 = add(%0, %b);
///   multiply(%1, %s)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///     %b: Tensor[(2, 1, 1), float32], %s: Tensor[(2, 1, 1), float32])
///     -> Tensor[(1, 2, 6, 6), float32] {
///   %0 = squeeze(%s, axis=[1, 2]);
///   %1 = expand_dims(%0, axis=1, num_newaxis=3);
///   %2 = multiply(%w, %1);
///   %3 = nn.conv2d(%x, %2, channels=2, kernel_size=[3, 3]);
///   %4 = expand_dims(%0, axis=1, num_newaxis=2);
///   %5 = multiply(%b, %4);
///   add(%3, %5)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "backward-fold-scale-axis", function)]
pub struct BackwardFoldScaleAxis {}

/// Folds factors on the input of convolutions and dense layers into their weights.
///
/// The factor must be one number for each input channel, and everything that uses the product must
/// be such a layer, possibly behind average pools, or, when the factor is a positive constant,
/// `nn.relu`, `nn.leaky_relu`, max pools and additions of something per channel.
///
/// ```relay
/// def @main(%x: Tensor[(5, 3), float32], %w: Tensor[(2, 3), float32], %s: Tensor[(3), float32]) {
///   %0 = multiply(%x, %s);
///   nn.dense(%0, %w, units=2)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(5, 3), float32], %w: Tensor[(2, 3), float32], %s: Tensor[(3), float32])
///     -> Tensor[(5, 2), float32] {
///   %0 = multiply(%w, %s);
///   nn.dense(%x, %0, units=2)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "forward-fold-scale-axis", function)]
pub struct ForwardFoldScaleAxis {}

impl FunctionPass for FoldScaleAxis {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        BackwardFoldScaleAxis {}.run(f, cx)?;
        ForwardFoldScaleAxis {}.run(f, cx)?;
        FoldConstant { max_bytes: 1 << 30 }.run(f, cx)
    }
}

impl FunctionPass for BackwardFoldScaleAxis {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        // From the first product on, so that a product of a product folds twice.
        for op in f.all::<Multiply>() {
            let Some(product) = f.view::<Multiply>(op) else { continue };
            let factors = [(product.lhs, product.rhs), (product.rhs, product.lhs)];
            let found = factors.into_iter().find_map(|(data, factor)| {
                scales(f, data, factor).into_iter().find_map(|scale| {
                    let nodes = backward_plan(f, op, data, &scale)?;
                    Some((data, scale, nodes))
                })
            });
            if let Some((data, scale, nodes)) = found {
                let value = fold_backward(f, op, data, &scale, nodes)?;
                emit::replace(f, op, value);
                cx.rounded_otherwise();
                cx.count("folded", 1);
            }
        }
        Ok(())
    }
}

impl FunctionPass for ForwardFoldScaleAxis {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Multiply>().into_iter().rev() {
            let Some(product) = f.view::<Multiply>(op) else { continue };
            let factors = [(product.lhs, product.rhs), (product.rhs, product.lhs)];
            let found = factors.into_iter().find_map(|(data, factor)| {
                scales(f, data, factor).into_iter().find_map(|scale| {
                    let nodes = forward_plan(f, op, &scale)?;
                    Some((data, scale, nodes))
                })
            });
            if let Some((data, scale, nodes)) = found {
                fold_forward(f, op, data, &scale, nodes)?;
                cx.rounded_otherwise();
                cx.count("folded", 1);
            }
        }
        Ok(())
    }
}

/// A factor per channel.
struct Scale {
    value: ValueId,
    /// The axis of the channels.
    axis: usize,
    /// Axes of extent 1 of `value` besides that of the channels.
    ones: Vec<i64>,
    /// Whether it is a constant of positive numbers.
    positive: bool,
}

/// Every way to read `factor` as one number for each index along an axis of `data`.
fn scales(f: &FuncMut<'_>, data: ValueId, factor: ValueId) -> Vec<Scale> {
    let rank = rank_of(f, data);
    let positive = is_positive(f, factor);
    (0..rank)
        .filter_map(|axis| {
            let ones = per_channel(f, data, factor, axis)?;
            Some(Scale { value: factor, axis, ones, positive })
        })
        .collect()
}

/// Whether `factor` has one element for each index along `axis` of `data`: then its other axes,
/// all of extent 1.
fn per_channel(f: &FuncMut<'_>, data: ValueId, factor: ValueId, axis: usize) -> Option<Vec<i64>> {
    let (data, factor) = (f.body.ty(data).as_tensor()?, f.body.ty(factor).as_tensor()?);
    let missing = data.rank().checked_sub(factor.rank())?;
    let own = axis.checked_sub(missing)?;
    let extent = factor.shape.get(own)?.known()?;
    if data.dtype != factor.dtype || data.shape[axis].known() != Some(extent) {
        return None;
    }
    let others = factor.shape.iter().enumerate().filter(|(index, _)| *index != own);
    others.map(|(index, dim)| (dim.known() == Some(1)).then_some(index as i64)).collect()
}

/// Whether `value` is made of positive constants only.
fn is_positive(f: &FuncMut<'_>, value: ValueId) -> bool {
    const KEEP: [&str; 10] = [
        ExpandDims::NAME,
        Squeeze::NAME,
        Reshape::NAME,
        Transpose::NAME,
        BroadcastTo::NAME,
        Sqrt::NAME,
        Rsqrt::NAME,
        Multiply::NAME,
        Divide::NAME,
        Add::NAME,
    ];
    let (mut pending, mut seen) = (vec![value], FxHashSet::default());
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        if let Some(constant) = f.registry.constant(f.body, value) {
            let AttrData::Tensor(tensor) = constant.data() else { return false };
            let finite = |x: f64| x > 0.0 && x.is_finite();
            if !tensor.elements().all(|element| finite(element.as_f64())) {
                return false;
            }
            continue;
        }
        match f.body.defining_op(value) {
            Some(op) if KEEP.contains(&f.body.op_name(op).as_str()) => {
                pending.extend(f.body.operands(op));
            }
            _ => return false,
        }
    }
    true
}

/// The part that an operation plays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A layer whose weight takes the factor along this axis.
    Layer(usize),
    /// Passes a factor through from its first operand.
    Through,
    /// `add` or `subtract`: which operands carry the factor; the other takes it.
    Sum([bool; 2]),
}

/// What `op` is to a factor along a channel axis, sums aside.
enum Kind {
    Convolution,
    Dense,
    Sum,
    /// Commutes with a factor; with a positive one only, where set.
    Through {
        positive: bool,
    },
    Other,
}

fn kind(body: &Body, op: OpId) -> Kind {
    match body.op_name(op).as_str() {
        Conv1d::NAME | Conv2d::NAME | Conv3d::NAME => Kind::Convolution,
        Dense::NAME => Kind::Dense,
        Add::NAME | Subtract::NAME => Kind::Sum,
        Relu::NAME | LeakyRelu::NAME | MaxPool1d::NAME | MaxPool2d::NAME | MaxPool3d::NAME => {
            Kind::Through { positive: true }
        }
        AvgPool1d::NAME | AvgPool2d::NAME | AvgPool3d::NAME | GlobalAvgPool2d::NAME => {
            Kind::Through { positive: false }
        }
        _ => Kind::Other,
    }
}

/// Whether the pool `op` works along `axis`; operators that are no pools do not.
fn pools(f: &FuncMut<'_>, op: OpId, axis: usize) -> bool {
    let Some(layout) = attribute::<String>(f, op, "layout") else { return false };
    let out = attribute::<String>(f, op, "out_layout").filter(|out| !out.is_empty());
    match Layout::parse(&layout) {
        Ok(parsed) => parsed.position('C') != Some(axis) || out.is_some_and(|out| out != layout),
        Err(_) => true,
    }
}

/// Layouts of a convolution without blocks: of the data, the result and the kernel.
fn layouts(f: &FuncMut<'_>, op: OpId) -> Option<[Layout; 3]> {
    let data: String = attribute(f, op, "data_layout")?;
    let out: String = attribute(f, op, "out_layout")?;
    let kernel: String = attribute(f, op, "kernel_layout")?;
    let out = if out.is_empty() { &data } else { &out };
    let layouts =
        [Layout::parse(&data).ok()?, Layout::parse(out).ok()?, Layout::parse(&kernel).ok()?];
    layouts.iter().all(Layout::is_plain).then_some(layouts)
}

/// Whether the weight of `op` has `value`'s element type and its extent of `axis` along `own`.
fn weight_fits(f: &FuncMut<'_>, op: OpId, own: usize, value: ValueId, axis: usize) -> bool {
    let weight = f.body.ty(f.body.operand(op, 1)).as_tensor();
    let value = f.body.ty(value).as_tensor();
    weight.zip(value).is_some_and(|(weight, value)| {
        let extent = |shape: &[ir_core::Dim], axis: usize| shape.get(axis)?.known();
        weight.dtype == value.dtype
            && extent(&weight.shape, own).is_some()
            && extent(&weight.shape, own) == extent(&value.shape, axis)
    })
}

/// The axis of the weight of layer `op` that makes `axis` of its result.
fn output_axis(f: &FuncMut<'_>, op: OpId, axis: usize) -> Option<usize> {
    let result = f.body.result(op, 0);
    let own = match kind(f.body, op) {
        Kind::Dense => {
            let rank = f.body.ty(result).as_tensor()?.rank();
            (axis + 1 == rank).then_some(0)?
        }
        Kind::Convolution => {
            let [_, out, kernel] = layouts(f, op)?;
            (out.position('C') == Some(axis)).then(|| kernel.position('O'))??
        }
        _ => return None,
    };
    weight_fits(f, op, own, result, axis).then_some(own)
}

/// The axis of the weight of layer `op` that meets `axis` of its data.
fn input_axis(f: &FuncMut<'_>, op: OpId, axis: usize) -> Option<usize> {
    let data = f.body.operand(op, 0);
    let own = match kind(f.body, op) {
        Kind::Dense => {
            let rank = f.body.ty(data).as_tensor()?.rank();
            (axis + 1 == rank).then_some(1)?
        }
        Kind::Convolution => {
            let [layout, _, kernel] = layouts(f, op)?;
            if layout.position('C') != Some(axis) {
                return None;
            }
            // With as many groups as channels every channel has a kernel of its own.
            match attribute::<i64>(f, op, "groups")? {
                1 => kernel.position('I')?,
                groups => {
                    let channels = f.body.ty(data).as_tensor()?.shape.get(axis)?.known()?;
                    (groups == channels).then(|| kernel.position('O'))??
                }
            }
        }
        _ => return None,
    };
    weight_fits(f, op, own, data, axis).then_some(own)
}

/// The operations to make again so that `data`, used by `product` alone, comes out multiplied, in
/// program order; `None` where it cannot.
fn backward_plan(
    f: &FuncMut<'_>,
    product: OpId,
    data: ValueId,
    scale: &Scale,
) -> Option<Vec<(OpId, Role)>> {
    let block: Option<BlockId> = f.body.op_block(product);
    // Whether the factor can enter what makes a value, which nothing else may see.
    let reachable = |value: ValueId| -> Option<OpId> {
        let op = f.body.defining_op(value)?;
        (f.body.has_one_use(value) && f.body.op_block(op) == block).then_some(op)
    };
    let mut nodes = vec![];
    let mut pending = vec![reachable(data)?];
    while let Some(op) = pending.pop() {
        let role = match kind(f.body, op) {
            Kind::Convolution | Kind::Dense => Role::Layer(output_axis(f, op, scale.axis)?),
            Kind::Through { positive } => {
                if positive && !scale.positive || pools(f, op, scale.axis) {
                    return None;
                }
                pending.push(reachable(f.body.operand(op, 0))?);
                Role::Through
            }
            Kind::Sum => {
                let result = f.body.result(op, 0);
                let operands = [f.body.operand(op, 0), f.body.operand(op, 1)];
                let constant = operands.map(|o| per_channel(f, result, o, scale.axis).is_some());
                let whole = operands.map(|o| f.body.ty(o) == f.body.ty(result));
                let carries = [0, 1].map(|i| whole[i] && !constant[i]);
                // Either both operands are made by layers, or one of them is per channel.
                match carries {
                    [true, true] => {}
                    [true, false] if constant[1] => {}
                    [false, true] if constant[0] => {}
                    _ => return None,
                }
                for index in [0, 1] {
                    if carries[index] {
                        pending.push(reachable(operands[index])?);
                    }
                }
                Role::Sum(carries)
            }
            Kind::Other => return None,
        };
        nodes.push((op, role));
    }
    nodes.sort_by(|(a, _), (b, _)| match f.body.is_before(*a, *b) {
        true => std::cmp::Ordering::Less,
        false => std::cmp::Ordering::Greater,
    });
    Some(nodes)
}

/// The factor as a vector.
fn squeezed(emit: &mut Emit<'_, '_>, scale: &Scale) -> Result<ValueId, Diagnostics> {
    match scale.ones.is_empty() {
        true => Ok(scale.value),
        false => emit.op(&Squeeze { data: scale.value, axis: Some(Integers(scale.ones.clone())) }),
    }
}

/// `value` times the vector `factor` along `axis` of a tensor of `rank`.
fn scaled(
    emit: &mut Emit<'_, '_>,
    value: ValueId,
    factor: ValueId,
    rank: usize,
    axis: usize,
) -> Result<ValueId, Diagnostics> {
    let rhs = spread(emit, factor, rank, axis)?;
    emit.op(&Multiply { lhs: value, rhs })
}

/// The vector `factor` so that it broadcasts along `axis` of `rank`.
fn spread(
    emit: &mut Emit<'_, '_>,
    factor: ValueId,
    rank: usize,
    axis: usize,
) -> Result<ValueId, Diagnostics> {
    match rank - axis - 1 {
        0 => Ok(factor),
        new => emit.op(&ExpandDims { data: factor, axis: 1, num_newaxis: new as i64 }),
    }
}

fn rank_of(f: &FuncMut<'_>, value: ValueId) -> usize {
    f.body.ty(value).as_tensor().expect("scales are of tensors").rank()
}

fn fold_backward(
    f: &mut FuncMut<'_>,
    product: OpId,
    data: ValueId,
    scale: &Scale,
    nodes: Vec<(OpId, Role)>,
) -> Result<ValueId, Diagnostics> {
    // What carries the factor is made before what uses it.
    let mut made: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut emit = Emit::before(f, product, "backward-fold-scale-axis");
    let factor = squeezed(&mut emit, scale)?;
    for (op, role) in nodes {
        let mut operands: Vec<ValueId> = emit.f.body.operands(op).collect();
        match role {
            Role::Layer(axis) => {
                let rank = rank_of(emit.f, operands[1]);
                operands[1] = scaled(&mut emit, operands[1], factor, rank, axis)?;
            }
            Role::Through => operands[0] = made[&operands[0]],
            Role::Sum(carries) => {
                let rank = rank_of(emit.f, emit.f.body.result(op, 0));
                for index in [0, 1] {
                    operands[index] = match made.get(&operands[index]) {
                        Some(value) if carries[index] => *value,
                        _ => scaled(&mut emit, operands[index], factor, rank, scale.axis)?,
                    };
                }
            }
        }
        let value = emit.again(op, &operands)?;
        made.insert(emit.f.body.result(op, 0), value);
    }
    Ok(made[&data])
}

/// The operations to make again so that nothing needs the factor of `product`, in program order;
/// `None` where something does.
fn forward_plan(f: &FuncMut<'_>, product: OpId, scale: &Scale) -> Option<Vec<(OpId, Role)>> {
    let mut nodes: Vec<(OpId, Role)> = vec![];
    let mut pending = vec![f.body.result(product, 0)];
    let mut layers = 0;
    while let Some(value) = pending.pop() {
        for (user, index) in f.body.uses(value) {
            let role = match kind(f.body, user) {
                Kind::Convolution | Kind::Dense if index == 0 => {
                    layers += 1;
                    Role::Layer(input_axis(f, user, scale.axis)?)
                }
                Kind::Through { positive } => {
                    if positive && !scale.positive || pools(f, user, scale.axis) {
                        return None;
                    }
                    Role::Through
                }
                Kind::Sum => {
                    let (result, other) = (f.body.result(user, 0), f.body.operand(user, 1 - index));
                    per_channel(f, result, other, scale.axis)?;
                    // x·s + b = (x + b/s)·s.
                    if !scale.positive || f.body.ty(result) != f.body.ty(value) {
                        return None;
                    }
                    Role::Sum([index == 0, index == 1])
                }
                _ => return None,
            };
            if !matches!(role, Role::Layer(_)) {
                pending.push(f.body.result(user, 0));
            }
            nodes.push((user, role));
        }
    }
    if layers == 0 {
        return None;
    }
    let position: FxHashMap<OpId, usize> = f.body.walk().zip(0..).collect();
    nodes.sort_by_key(|(op, _)| position.get(op).copied());
    Some(nodes)
}

fn fold_forward(
    f: &mut FuncMut<'_>,
    product: OpId,
    data: ValueId,
    scale: &Scale,
    nodes: Vec<(OpId, Role)>,
) -> Result<(), Diagnostics> {
    const PASS: &str = "forward-fold-scale-axis";
    // What carries the factor is made before what uses it.
    let mut made: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    made.insert(f.body.result(product, 0), data);
    let factor = squeezed(&mut Emit::before(f, product, PASS), scale)?;
    let mut layers = vec![];
    for (op, role) in nodes {
        let mut emit = Emit::before(f, op, PASS);
        let mut operands: Vec<ValueId> = emit.f.body.operands(op).collect();
        let rank = rank_of(emit.f, emit.f.body.result(op, 0));
        match role {
            Role::Layer(axis) => {
                let rank = rank_of(emit.f, operands[1]);
                operands[1] = scaled(&mut emit, operands[1], factor, rank, axis)?;
                operands[0] = made[&operands[0]];
            }
            Role::Through => operands[0] = made[&operands[0]],
            Role::Sum(carries) => {
                let carried = usize::from(carries[1]);
                operands[carried] = made[&operands[carried]];
                let rhs = spread(&mut emit, factor, rank, scale.axis)?;
                operands[1 - carried] = emit.op(&Divide { lhs: operands[1 - carried], rhs })?;
            }
        }
        let value = emit.again(op, &operands)?;
        made.insert(emit.f.body.result(op, 0), value);
        if matches!(role, Role::Layer(_)) {
            layers.push((op, value));
        }
    }
    for (op, value) in layers {
        emit::replace(f, op, value);
    }
    Ok(())
}
