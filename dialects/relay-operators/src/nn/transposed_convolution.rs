//! The adjoints of convolution: with respect to its input (`nn.conv*_transpose`) and to its
//! weight (`nn.conv2d_backward_weight`).

use ir_core::{AttrGroup, DType, Dim, DimOp, InferCx, Op, Registry, Stop, Type, ValueId, Work};
use relay::define::{Define, DefineCx, Defined, Index, Operand, accumulator, strided, within};
use relay::interpreter::{EvalCx, EvalError, Evaluate, RandomOperand, Value};

use te::compute::{Combiner, Expression, Tensor};

use super::convolution::{Adjoint, Geometry, beside, for_each};
use super::numeric::{Number, compute_dtype, dispatch, result_shape, size};
use super::relation::{divide, kernel, layout_or, require};
use super::window::{Margin, Step, Windows, data_order, margins, offset, pad_stage, per_axis};
use crate::batch::{Batch, Examples};
use crate::gradient::{Gradient, Pullback, Term};
use crate::layout::Layout;
use crate::{FusionPattern, LayoutRule, multiply_adds, spread};

/// The attributes of a transposed convolution over `RANK` spatial axes.
#[derive(AttrGroup, Clone, Debug)]
pub struct Transposed<const RANK: usize> {
    /// Number of output channels; the weight's, where absent.
    #[default(None)]
    pub channels: Option<i64>,
    /// Spatial extents of the kernel; the weight's, where absent.
    #[default(None)]
    pub kernel_size: Option<Vec<i64>>,
    /// Distance in the result of neighbouring input elements, per spatial axis.
    #[default(vec![1; RANK])]
    pub strides: Vec<i64>,
    /// How much of the full result is left out: one number for all sides, one per axis,
    /// or all numbers before and then all numbers after.
    #[default(vec![0; RANK])]
    pub padding: Vec<i64>,
    /// How much longer the result is at its end, per spatial axis; below the stride or
    /// the dilation.
    #[default(vec![0; RANK])]
    pub output_padding: Vec<i64>,
    /// Distance of neighbouring kernel elements, per spatial axis.
    #[default(vec![1; RANK])]
    pub dilation: Vec<i64>,
    /// Number of groups that input and output channels are split into.
    #[default(1)]
    pub groups: i64,
    /// Layout of the input.
    #[default(data_order(RANK))]
    pub data_layout: String,
    /// Layout of the kernel.
    #[default(kernel_order(RANK).to_string())]
    pub kernel_layout: String,
    /// Layout of the result; empty for that of the input.
    #[default(String::new())]
    pub out_layout: String,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

/// Declares a transposed convolution; what is before the name is its doc comment.
macro_rules! transposed {
    ($(#[doc = $doc:tt])* $name:ident = $text:tt, $rank:literal) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| op.transposed.infer(cx),
            hooks(
                FusionPattern::OutFusable,
                Work(multiply_adds::<$name>),
                LayoutRule::Convolution,
                RandomOperand(|operand, types, attributes| {
                    spread::kernel(operand, types, attributes, kernel_order($rank))
                }),
                Evaluate(|cx| {
                    let geometry = cx.fields::<$name<Value>>()?.transposed.geometry()?;
                    let (shape, dtype) = result_shape::<$name>(cx)?;
                    let sums = compute_dtype(cx, dtype)?;
                    dispatch!(sums, convolve_transposed(&geometry, cx, &shape, dtype))
                }),
                Gradient(|at| {
                    if let Some(op) = at.fields::<$name<Term<'_>>>() {
                        pull_transposed(at, &op.transposed);
                    }
                }),
                Define(|cx| {
                    let geometry = cx.fields::<$name<Operand>>()?.transposed.geometry()?;
                    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
                    define_transposed(&geometry, cx, &data, &weight)
                })
            )
        )]
        pub struct $name<V = ValueId> {
            /// The input, in `data_layout`.
            pub data: V,
            /// The kernel, in `kernel_layout`.
            pub weight: V,
            /// The attributes.
            #[flatten]
            pub transposed: Transposed<$rank>,
        }
    };
}

transposed! {
    /// Transposed one-dimensional convolution, the adjoint of `nn.conv1d` in its data.
    ///
    /// With data `(N, C, W)` and weight `(C, O / groups, KW)` the result is `(N, O, (W - 1) *
    /// stride - padding + (KW - 1) * dilation + 1 + output_padding)`. In `kernel_layout` the
    /// letter `O` stands for the axis of input channels and `I` for that of output channels, as
    /// in the original. Relay operator level 2.
    Conv1dTranspose = "relay.nn.conv1d_transpose", 1
}

transposed! {
    /// Transposed two-dimensional convolution, the adjoint of `nn.conv2d` in its data.
    ///
    /// `out[n, o, y * stride + j * dilation - padding, …] += data[n, i, y, x] * weight[i, o, j,
    /// k]`. With data `(N, C, H, W)` and weight `(C, O / groups, KH, KW)` the result is `(N, O,
    /// OH, OW)`, where `OH = (H - 1) * stride - padding + (KH - 1) * dilation + 1 +
    /// output_padding`. Relay operator level 2.
    Conv2dTranspose = "relay.nn.conv2d_transpose", 2
}

transposed! {
    /// Transposed three-dimensional convolution, the adjoint of `nn.conv3d` in its data.
    ///
    /// As `nn.conv2d_transpose` with a depth axis: data `(N, C, D, H, W)`, weight `(C, O / groups,
    /// KD, KH, KW)`. Relay operator level 2.
    Conv3dTranspose = "relay.nn.conv3d_transpose", 3
}

/// The order of a kernel's axes: input channels, output channels of a group, spatial axes. The
/// original has the letters of channels exchanged where there are several spatial axes.
fn kernel_order(rank: usize) -> &'static str {
    ["OIW", "IOHW", "IODHW"][rank - 1]
}

impl<const RANK: usize> Transposed<RANK> {
    fn geometry(&self) -> Result<Geometry, String> {
        let data_layout = Layout::parse(&self.data_layout)?;
        Ok(Geometry {
            order: data_order(RANK),
            kernel_order: kernel_order(RANK).to_string(),
            kernel_layout: Layout::parse(&self.kernel_layout)?,
            out_layout: layout_or(&self.out_layout, &data_layout)?,
            data_layout,
            steps: Step::all(RANK, &self.strides, &self.dilation, &self.padding)?,
            groups: self.groups,
        })
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
        let data = cx.tensor(0)?;
        let geometry = self.geometry()?;
        let Geometry { order, kernel_order, steps, .. } = &geometry;
        let extra = per_axis("output_padding", &self.output_padding, RANK, 0)?;
        for (step, &extra) in steps.iter().zip(&extra) {
            let limit = step.stride.max(step.dilation);
            if extra >= limit {
                return Err(Stop::Error(format!(
                    "expected `output_padding` below {limit}, the stride or dilation, found {extra}"
                )));
            }
        }
        let input = geometry.data_layout.logical(order, &data.shape)?;
        divide("a number of input channels", input[1], self.groups)?;
        let kernel = kernel(cx, &geometry.kernel_layout, kernel_order, &self.kernel_size, || {
            let Some(channels) = self.channels else { return Err(Stop::Stuck) };
            let outputs = divide("a number of output channels", channels.into(), self.groups)?;
            Ok([input[1], outputs])
        })?;
        require(cx, "input channels of the weight", input[1], kernel[0])?;
        let channels = Dim::binary(DimOp::Mul, kernel[1], Dim::Known(self.groups));
        if let Some(expected) = self.channels {
            require(cx, "output channels", Dim::Known(expected), channels)?;
        }
        let mut output = vec![input[0], channels];
        for axis in 0..RANK {
            let (step, extra) = (steps[axis], extra[axis]);
            let margin = extra + 1 - step.padding.0 - step.padding.1;
            let spread =
                Dim::binary(DimOp::Mul, offset(input[axis + 2], -1), Dim::Known(step.stride));
            let reach =
                Dim::binary(DimOp::Mul, offset(kernel[axis + 2], -1), Dim::Known(step.dilation));
            // A known reach joins the other numbers, so that a symbolic extent stays simple.
            let extent = match reach {
                Dim::Known(reach) => offset(spread, reach + margin),
                _ => offset(Dim::binary(DimOp::Add, spread, reach), margin),
            };
            if let Dim::Known(extent @ ..0) = extent {
                return Err(Stop::Error(format!(
                    "expected padding below the extent of the result, found a result of {extent}"
                )));
            }
            output.push(extent);
        }
        let shape = geometry.out_layout.physical(order, &output)?;
        Ok(Type::tensor(shape, self.out_dtype.unwrap_or(data.dtype)))
    }
}

fn convolve_transposed<T: Number>(
    geometry: &Geometry,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let Geometry { order, kernel_order, steps, out_layout, .. } = geometry;
    let (input, data) = geometry.data_layout.unpack(order, data.shape(), T::read(data))?;
    let (kernel, weight) =
        geometry.kernel_layout.unpack(kernel_order, weight.shape(), T::read(weight))?;
    let output = out_layout.logical_extents(order, shape)?;
    // The windows of the convolution whose adjoint this is slide over the result.
    let windows = Windows::new(steps, &output[2..], &input[2..], &kernel[2..]);

    let (in_size, out_size, taps) = (size(&input[2..]), size(&output[2..]), size(&kernel[2..]));
    let (inputs, outputs, groups) =
        (input[1] as usize, output[1] as usize, geometry.groups as usize);
    let (group_inputs, group_outputs) = (inputs / groups, outputs / groups);
    let mut result = vec![T::ZERO; size(&output)];
    if result.is_empty() {
        return T::write(dtype, shape, &result);
    }
    for (index, plane) in result.chunks_exact_mut(out_size).enumerate() {
        let (n, o) = (index / outputs, index % outputs);
        let (group, o) = (o / group_outputs, o % group_outputs);
        for i in group * group_inputs..(group + 1) * group_inputs {
            let channel = &data[(n * inputs + i) * in_size..][..in_size];
            let kernel = &weight[(i * group_outputs + o) * taps..][..taps];
            for tap in &windows.taps {
                let factor = kernel[tap.kernel];
                for run in &tap.runs {
                    let elements = &channel[run.output..run.output + run.count];
                    let out = plane[run.input..].iter_mut().step_by(windows.stride);
                    for (out, &element) in out.zip(elements) {
                        *out = out.plus(factor.times(element));
                    }
                }
            }
        }
    }
    let (shape, result) = out_layout.pack(order, &output, result)?;
    T::write(dtype, &shape, &result)
}

/// The transposed convolution that `adjoint` says, with `extra` elements at the end of each axis.
pub(super) fn transposed_convolution<'p>(
    at: &Pullback<'p>,
    adjoint: &Adjoint,
    extra: Vec<i64>,
    data: ValueId,
    weight: ValueId,
) -> Term<'p> {
    match extra.len() {
        1 => at.build(&Conv1dTranspose { data, weight, transposed: attributes(adjoint, extra) }),
        2 => at.build(&Conv2dTranspose { data, weight, transposed: attributes(adjoint, extra) }),
        _ => at.build(&Conv3dTranspose { data, weight, transposed: attributes(adjoint, extra) }),
    }
}

fn attributes<const RANK: usize>(adjoint: &Adjoint, extra: Vec<i64>) -> Transposed<RANK> {
    Transposed {
        channels: None,
        kernel_size: None,
        strides: adjoint.strides.clone(),
        padding: adjoint.padding.clone(),
        output_padding: extra,
        dilation: adjoint.dilation.clone(),
        groups: adjoint.groups,
        data_layout: data_order(RANK),
        kernel_layout: kernel_order(RANK).to_string(),
        out_layout: String::new(),
        out_dtype: None,
    }
}

fn pull_transposed<const RANK: usize>(at: &Pullback<'_>, attributes: &Transposed<RANK>) {
    let (data, weight) = (at.operand(0), at.operand(1));
    let Ok(geometry) = attributes.geometry() else { return };
    if let Some(layout) = geometry.unusual_layout() {
        return at.refuse(format!("layout {layout}: transpose to {}", geometry.order));
    }
    let adjoint = Adjoint::new(&geometry.steps, geometry.groups);
    let shape = data.shape();
    // Further windows, in what `output_padding` adds, come from no element.
    at.to(0, |g| {
        let change = adjoint.forward(at, g.cast(data.dtype()), weight);
        change.slice(&vec![0; shape.len()], &shape)
    });
    at.to(1, |g| {
        let extra = attributes.output_padding.iter().zip(&geometry.steps);
        if extra.clone().any(|(extra, step)| *extra >= step.stride) {
            at.refuse("`output_padding` of a stride or more, in the change of the weight");
            return weight;
        }
        adjoint.of_weight(at, data, g.cast(data.dtype()), &weight.shape())
    });
}

fn pull_backward_weight(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Conv2dBackwardWeight<Term<'_>>>() else { return };
    let (Ok(steps), Ok(layouts)) = (op.steps(), op.layouts()) else { return };
    let usual = ["NCHW", "NCHW", "OIHW"].map(Layout::parse);
    if layouts.into_iter().zip(usual).any(|(layout, usual)| Ok(layout) != usual) {
        return at.refuse("layouts other than NCHW");
    }
    let adjoint = Adjoint::new(&steps, op.groups);
    at.to(0, |g| adjoint.forward(at, op.data, g.cast(op.data.dtype())));
    at.to(1, |g| adjoint.of_data(at, op.grad, g.cast(op.grad.dtype()), &op.data.shape()));
}

/// The change of the weight of each example: of a convolution with as many more groups.
fn batch_backward_weight<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Conv2dBackwardWeight<Term<'p>>>()?;
    let usual = ["NCHW", "NCHW", "OIHW"].map(Layout::parse);
    let is_usual = op.layouts().ok()?.into_iter().zip(usual).all(|(a, b)| Ok(a) == b);
    if !is_usual || at.extent() == 0 {
        return None;
    }
    let operands = [0, 1].map(|index| beside(for_each(at, index)));
    let attrs = at.attrs().without("channels").with("groups", &(op.groups * at.extent()));
    let result = at.again(&operands, attrs);
    let shape = result.shape();
    Some(result.reshape(&[&[at.extent(), shape[0] / at.extent()], &shape[1..]].concat()))
}

/// The gradient of `nn.conv2d` with respect to its weight.
///
/// `out[o, i, j, k] = Σ_{n, y, x} grad[n, o, y, x] * data[n, i, y * stride + j * dilation -
/// padding, …]`. With gradient `(N, O, OH, OW)` and data `(N, C, H, W)` the result is
/// `(O, C / groups, KH, KW)` for the given `kernel_size`. Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.conv2d_backward_weight",
    infer = backward_weight_relation,
    hooks(
        FusionPattern::OutFusable,
        Work(multiply_adds::<Conv2dBackwardWeight>),
        Evaluate(evaluate_backward_weight),
        Gradient(pull_backward_weight),
        Batch(batch_backward_weight),
        Define(define_backward_weight)
    )
)]
pub struct Conv2dBackwardWeight<V = ValueId> {
    /// Gradient of the convolution's result, in `kernel_layout`.
    pub grad: V,
    /// Data of the convolution, in `data_layout`.
    pub data: V,
    /// Strides of the convolution.
    #[default(vec![1; 2])]
    pub strides: Vec<i64>,
    /// Padding of the convolution.
    #[default(vec![0; 2])]
    pub padding: Vec<i64>,
    /// Dilation of the convolution.
    #[default(vec![1; 2])]
    pub dilation: Vec<i64>,
    /// Groups of the convolution.
    #[default(1)]
    pub groups: i64,
    /// Output channels of the convolution.
    #[default(None)]
    pub channels: Option<i64>,
    /// Spatial extents of the weight.
    pub kernel_size: Vec<i64>,
    /// Layout of `data`.
    #[default("NCHW".to_string())]
    pub data_layout: String,
    /// Layout of `grad`; the original keeps it under this name.
    pub kernel_layout: String,
    /// Layout of the result; `OIHW` where empty.
    #[default(String::new())]
    pub out_layout: String,
    /// Element type of the result; that of the gradient where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

impl<V> Conv2dBackwardWeight<V> {
    /// Layouts of the gradient, the data and the result.
    fn layouts(&self) -> Result<[Layout; 3], String> {
        let out_layout = if self.out_layout.is_empty() { "OIHW" } else { &self.out_layout };
        Ok([
            Layout::parse(&self.kernel_layout)?,
            Layout::parse(&self.data_layout)?,
            Layout::parse(out_layout)?,
        ])
    }

    fn steps(&self) -> Result<Vec<Step>, String> {
        Step::all(2, &self.strides, &self.dilation, &self.padding)
    }
}

fn backward_weight_relation(
    op: Conv2dBackwardWeight<Type>,
    cx: &mut InferCx<'_>,
) -> Result<Type, Stop> {
    let (grad, data) = (cx.tensor(0)?, cx.tensor(1)?);
    let [grad_layout, data_layout, out_layout] = op.layouts()?;
    let output = grad_layout.logical("NCHW", &grad.shape)?;
    let input = data_layout.logical("NCHW", &data.shape)?;
    let sizes = per_axis("kernel_size", &op.kernel_size, 2, 1)?;
    require(cx, "batch of the gradient", input[0], output[0])?;
    if let Some(channels) = op.channels {
        require(cx, "channels of the gradient", Dim::Known(channels), output[1])?;
    }
    divide("a number of output channels", output[1], op.groups)?;
    for (axis, step) in op.steps()?.iter().enumerate() {
        let windows = step.windows(input[axis + 2], Dim::Known(sizes[axis]), false);
        require(cx, "extent of the gradient", windows?, output[axis + 2])?;
    }
    let inputs = divide("a number of input channels", input[1], op.groups)?;
    let kernel = [output[1], inputs, sizes[0].into(), sizes[1].into()];
    let shape = out_layout.physical("OIHW", &kernel)?;
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(grad.dtype)))
}

fn evaluate_backward_weight(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Conv2dBackwardWeight<Value>>()?;
    let (shape, dtype) = result_shape::<Conv2dBackwardWeight>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, backward_weight(&op, cx, &shape, dtype))
}

fn backward_weight<T: Number>(
    op: &Conv2dBackwardWeight<Value>,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (grad, data) = (cx.tensor(0)?, cx.tensor(1)?);
    let [grad_layout, data_layout, out_layout] = op.layouts()?;
    let (output, grad) = grad_layout.unpack("NCHW", grad.shape(), T::read(grad))?;
    let (input, data) = data_layout.unpack("NCHW", data.shape(), T::read(data))?;
    let kernel = out_layout.logical_extents("OIHW", shape)?;
    let windows = Windows::new(&op.steps()?, &input[2..], &output[2..], &kernel[2..]);

    let (in_size, out_size, taps) = (size(&input[2..]), size(&output[2..]), size(&kernel[2..]));
    let (inputs, outputs) = (input[1] as usize, output[1] as usize);
    let (group_inputs, group_outputs) = (kernel[1] as usize, outputs / op.groups as usize);
    let mut result = vec![T::ZERO; size(&kernel)];
    for n in 0..input[0] as usize {
        for o in 0..outputs {
            let plane = &grad[(n * outputs + o) * out_size..][..out_size];
            for i in 0..group_inputs {
                let source = n * inputs + o / group_outputs * group_inputs + i;
                let channel = &data[source * in_size..][..in_size];
                let sums = &mut result[(o * group_inputs + i) * taps..][..taps];
                for tap in &windows.taps {
                    for run in &tap.runs {
                        let elements = channel[run.input..].iter().step_by(windows.stride);
                        let grads = &plane[run.output..run.output + run.count];
                        for (&grad, &element) in grads.iter().zip(elements) {
                            sums[tap.kernel] = sums[tap.kernel].plus(grad.times(element));
                        }
                    }
                }
            }
        }
    }
    let (shape, result) = out_layout.pack("OIHW", &kernel, result)?;
    T::write(dtype, &shape, &result)
}

/// The input with its elements moved apart and padded, and the convolution of that with the
/// mirrored kernel.
fn define_transposed(
    geometry: &Geometry,
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    weight: &Tensor,
) -> Defined {
    let (shape, dtype) = cx.result()?;
    let Geometry { order, kernel_order, steps, data_layout, kernel_layout, out_layout, .. } =
        geometry;
    let input = data_layout.logical_extents(order, &data.shape)?;
    let output = out_layout.logical_extents(order, &shape)?;
    let kernel = kernel_layout.logical_extents(kernel_order, &weight.shape)?;
    if let Some(phases) = Phases::of(steps, &output, &kernel) {
        return define_by_phases(geometry, cx, data, weight, &phases);
    }
    if are_columns_less(geometry, &input, &output, &kernel) {
        return define_by_columns(geometry, cx, data, weight);
    }

    // Output `y` meets input `x` through tap `k` where `x · stride = y + padding - k ·
    // dilation`; with the last tap first, that is element `y + k' · dilation` of this stage.
    let reach: Vec<i64> = steps
        .iter()
        .zip(&kernel[2..])
        .map(|(step, size)| (size - 1).max(0) * step.dilation)
        .collect();
    let mut extents = input[..2].to_vec();
    extents.extend(output[2..].iter().zip(&reach).map(|(extent, reach)| extent + reach));
    let spread = cx.builder.compute("pad", &extents, |e, i| {
        let mut at = vec![Index::new(i[0], input[0]), Index::new(i[1], input[1])];
        let mut inside = None;
        for (axis, step) in steps.iter().enumerate() {
            let shift = step.padding.0 - reach[axis];
            let place = e.add_index(i[axis + 2], shift);
            let (by, zero) = (e.index(step.stride), e.index(0));
            let (element, rest) = (e.floor_div(place, by), e.floor_mod(place, by));
            let end = e.index(input[axis + 2]);
            for condition in [e.eq(rest, zero), e.ge(element, zero), e.lt(element, end)] {
                inside = Some(inside.map_or(condition, |inside| e.and(inside, condition)));
            }
            at.push(Index::new(element, input[axis + 2]));
        }
        let at = data_layout.physical_indices(e, order, &at);
        let outside = e.number(data.dtype, 0.0);
        match inside {
            Some(inside) => e.load_if(inside, data, &at, outside),
            None => e.load(data, &at),
        }
    });
    let groups = geometry.groups.max(1);
    let (group_inputs, group_outputs) = (input[1] / groups, output[1] / groups);
    let sizes: Vec<i64> = [group_inputs].iter().chain(&kernel[2..]).copied().collect();
    let sums = accumulator(data.dtype, weight.dtype, dtype);
    cx.reduce(&sizes, Combiner::Sum, |e, i, r| {
        let out = out_layout.logical_indices(order, &shape, i);
        let group = Index::new(out[1].digit(e, group_outputs, groups), groups);
        let channel = group.then(&Index::new(r[0], group_inputs));
        let mut at = vec![out[0].value(e), channel.value(e)];
        let unit = out[1].digit(e, 1, group_outputs);
        let mut tap = vec![channel, Index::new(unit, group_outputs)];
        for (axis, step) in steps.iter().enumerate() {
            let (y, within) = (out[axis + 2].value(e), e.mul_index(r[axis + 1], step.dilation));
            at.push(e.add(y, within));
            let last = e.index(kernel[axis + 2] - 1);
            tap.push(Index::new(e.sub(last, r[axis + 1]), kernel[axis + 2]));
        }
        let x = e.load(&spread, &at);
        let x = e.cast(x, sums);
        let at = kernel_layout.physical_indices(e, kernel_order, &tap);
        let w = e.load(weight, &at);
        let w = e.cast(w, sums);
        e.mul(x, w)
    })
}

/// Output channels of a group from which on they are the lanes of vectors.
const LEAST_CHANNELS: i64 = 4;

/// Then there are a multiple of so many of them, zeros being added.
const CHANNELS_TOGETHER: i64 = 8;

/// How many channels are computed for `channels` of them.
fn together(channels: i64) -> i64 {
    (channels + CHANNELS_TOGETHER - 1) / CHANNELS_TOGETHER * CHANNELS_TOGETHER
}

/// The phases of a transposed convolution. Results whose places differ by multiples of the stride meet
/// the same taps, and are an ordinary convolution of neighbouring elements with these: place `y` of an
/// axis is element `⌊(y + padding) / stride⌋` of phase `(y + padding) mod stride`, whose taps are every
/// `stride`-th from the phase on.
struct Phases {
    /// By axis, the first element that is there in each phase.
    first: Vec<i64>,
    /// By axis, how many elements are computed of each phase.
    extents: Vec<i64>,
    /// By axis, how many taps a phase has at most.
    taps: Vec<i64>,
}

impl Phases {
    /// Those of results of the logical extents `output`, where they are worth it: with both a stride and a
    /// dilation, a phase does not have neighbouring elements, and with fewer taps than phases, some have none.
    fn of(steps: &[Step], output: &[i64], kernel: &[i64]) -> Option<Phases> {
        let are_apart = steps.iter().any(|step| step.stride > 1);
        let is_plain = |(step, taps): (&Step, &i64)| {
            step.stride == 1 || step.dilation == 1 && step.stride <= *taps
        };
        let are_plain = steps.iter().zip(&kernel[2..]).all(is_plain);
        if !are_apart || !are_plain || kernel[1] < LEAST_CHANNELS {
            return None;
        }
        let axes = || steps.iter().zip(&output[2..]).zip(&kernel[2..]);
        let first = axes().map(|((step, _), _)| step.padding.0 / step.stride).collect();
        let extents = axes().map(|((step, extent), _)| {
            let (first, last) = (step.padding.0, step.padding.0 + extent - 1);
            last / step.stride - first / step.stride + 1
        });
        let taps = axes().map(|((step, _), taps)| (taps + step.stride - 1) / step.stride);
        let is_empty = output.iter().chain(kernel).any(|extent| *extent == 0);
        let (extents, taps) = (extents.collect(), taps.collect());
        (!is_empty).then_some(Phases { first, extents, taps })
    }
}

/// Whether products of elements and weights that are added up where they meet are by far fewer than those that
/// windows over a padded input take. So it is where the result is much larger than the input, which windows
/// mostly reach over. What is added up should be sums of several products each, or memory takes longer.
fn are_columns_less(geometry: &Geometry, input: &[i64], output: &[i64], kernel: &[i64]) -> bool {
    let places =
        |extents: &[i64]| extents[2..].iter().map(|extent| *extent as f64).product::<f64>();
    let are_dense = geometry.steps.iter().all(|step| step.stride == 1);
    let group_inputs = input[1] / geometry.groups.max(1);
    are_dense && group_inputs >= LEAST_CHANNELS && places(output) > 1.5 * places(input) && {
        input.iter().chain(output).chain(kernel).all(|extent| *extent > 0)
    }
}

/// What each input element gives to each tap, a product of matrices, and then the sums of what meets in an
/// element of the result: no product is one with padding. Strides are 1.
fn define_by_columns(
    geometry: &Geometry,
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    weight: &Tensor,
) -> Defined {
    let (shape, dtype) = cx.result()?;
    let Geometry { order, kernel_order, steps, data_layout, kernel_layout, out_layout, .. } =
        geometry;
    let input = data_layout.logical_extents(order, &data.shape)?;
    let kernel = kernel_layout.logical_extents(kernel_order, &weight.shape)?;
    let groups = geometry.groups.max(1);
    let (group_inputs, group_outputs) = (input[1] / groups, kernel[1]);
    let places = &input[2..];
    let count: i64 = places.iter().product();
    let sums = accumulator(data.dtype, weight.dtype, dtype);

    // By picture, group, output channel and tap, and place: the axes of a product of matrices.
    let taps = &kernel[2..];
    let parts: Vec<i64> = [group_outputs].iter().chain(taps).copied().collect();
    let given = parts.iter().product();
    let name = cx.stage_of("columns");
    let extents = [input[0], groups, given, count];
    let columns = cx.builder.reduce(&name, &extents, &[group_inputs], Combiner::Sum, |e, i, r| {
        let channel = Index::new(i[1], groups).then(&Index::new(r[0], group_inputs));
        let with = |mut at: Vec<Index>, parts: Vec<ValueId>, extents: &[i64]| {
            let parts = parts.into_iter().zip(extents);
            at.extend(parts.map(|(part, extent)| Index::new(part, *extent)));
            at
        };
        let place = Index::new(i[3], count).split(e, places);
        let at = with(vec![Index::new(i[0], input[0]), channel.clone()], place, places);
        let at = data_layout.physical_indices(e, order, &at);
        let x = e.load(data, &at);
        let x = e.cast(x, sums);
        let tap = Index::new(i[2], given).split(e, &parts);
        let at = with(vec![channel], tap, &parts);
        let at = kernel_layout.physical_indices(e, kernel_order, &at);
        let w = e.load(weight, &at);
        let w = e.cast(w, sums);
        e.mul(x, w)
    });
    cx.reduce(taps, Combiner::Sum, |e, i, r| {
        let out = out_layout.logical_indices(order, &shape, i);
        let (mut bounds, mut met) = (Vec::new(), Vec::new());
        for (axis, step) in steps.iter().enumerate() {
            let place = out[axis + 2].value(e);
            let place = e.add_index(place, step.padding.0);
            let reach = e.mul_index(r[axis], step.dilation);
            let place = e.sub(place, reach);
            bounds.push((place, places[axis]));
            met.push(Index::new(place, places[axis]));
        }
        let inside = within(e, bounds);
        let mut part = vec![out[1].digit(e, 1, group_outputs)];
        part.extend(r);
        let place = met.into_iter().reduce(|place, low| place.then(&low));
        let mut at = vec![out[0].value(e), out[1].digit(e, group_outputs, groups)];
        at.push(Index::row_major(&part, &parts).value(e));
        at.extend(place.map(|place| place.value(e)));
        let zero = e.number(sums, 0.0);
        match inside {
            Some(inside) => e.load_if(inside, &columns, &at, zero),
            None => e.load(&columns, &at),
        }
    })
}

/// The convolutions of all phases, with output channels last, and their elements where they belong: there
/// is no multiplication with zeros between elements.
fn define_by_phases(
    geometry: &Geometry,
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    weight: &Tensor,
    phases: &Phases,
) -> Defined {
    let (shape, dtype) = cx.result()?;
    let Geometry { order, kernel_order, steps, data_layout, kernel_layout, out_layout, .. } =
        geometry;
    let rank = steps.len();
    let input = data_layout.logical_extents(order, &data.shape)?;
    let kernel = kernel_layout.logical_extents(kernel_order, &weight.shape)?;
    let groups = geometry.groups.max(1);
    let (group_inputs, group_outputs) = (input[1] / groups, kernel[1]);
    let channels = together(group_outputs);

    // What all taps of the computed elements of a phase meet.
    let mut extents = input[..2].to_vec();
    extents.extend(
        (0..rank).map(|axis| phases.extents[axis] + (phases.taps[axis] - 1) * steps[axis].dilation),
    );
    let padded = cx.builder.compute("pad", &extents, |e, i| {
        let mut at = vec![Index::new(i[0], input[0]), Index::new(i[1], input[1])];
        let mut bounds = Vec::new();
        for (axis, step) in steps.iter().enumerate() {
            let reach = (phases.taps[axis] - 1) * step.dilation;
            let place = e.add_index(i[axis + 2], phases.first[axis] - reach);
            bounds.push((place, input[axis + 2]));
            at.push(Index::new(place, input[axis + 2]));
        }
        let at = data_layout.physical_indices(e, order, &at);
        let outside = e.number(data.dtype, 0.0);
        match within(e, bounds) {
            Some(inside) => e.load_if(inside, data, &at, outside),
            None => e.load(data, &at),
        }
    });

    // By group, phase, input channel and taps, the last one first: the weight of each output channel.
    let strides: Vec<i64> = steps.iter().map(|step| step.stride).collect();
    let count = strides.iter().product();
    let extents: Vec<i64> = [groups, count, group_inputs]
        .into_iter()
        .chain(phases.taps.iter().copied())
        .chain([channels])
        .collect();
    let name = cx.stage_of("weight");
    let taps = cx.builder.compute(&name, &extents, |e, i| {
        let unit = i[3 + rank];
        let channel = Index::new(i[0], groups).then(&Index::new(i[2], group_inputs));
        let mut at = vec![channel, Index::new(unit, group_outputs)];
        let mut bounds = Vec::new();
        if channels > group_outputs {
            bounds.push((unit, group_outputs));
        }
        let phase = Index::new(i[1], count).split(e, &strides);
        for (axis, step) in steps.iter().enumerate() {
            let last = e.index((phases.taps[axis] - 1) * step.stride);
            let before = e.mul_index(i[3 + axis], step.stride);
            let first = e.sub(last, before);
            let tap = e.add(first, phase[axis]);
            if kernel[axis + 2] % step.stride != 0 {
                bounds.push((tap, kernel[axis + 2]));
            }
            at.push(Index::new(tap, kernel[axis + 2]));
        }
        let at = kernel_layout.physical_indices(e, kernel_order, &at);
        let outside = e.number(weight.dtype, 0.0);
        match within(e, bounds) {
            Some(inside) => e.load_if(inside, weight, &at, outside),
            None => e.load(weight, &at),
        }
    });

    let extents: Vec<i64> = [count, input[0], groups]
        .into_iter()
        .chain(phases.extents.iter().copied())
        .chain([channels])
        .collect();
    let reduced: Vec<i64> = [group_inputs].iter().chain(&phases.taps).copied().collect();
    let sums = accumulator(data.dtype, weight.dtype, dtype);
    let name = cx.stage_of("phases");
    let combined = cx.builder.reduce(&name, &extents, &reduced, Combiner::Sum, |e, i, r| {
        let channel = Index::new(i[2], groups).then(&Index::new(r[0], group_inputs));
        let mut at = vec![i[1], channel.value(e)];
        for (axis, step) in steps.iter().enumerate() {
            let reach = e.mul_index(r[axis + 1], step.dilation);
            at.push(e.add(i[3 + axis], reach));
        }
        let x = e.load(&padded, &at);
        let x = e.cast(x, sums);
        let at: Vec<ValueId> =
            [i[2], i[0]].iter().chain(r).chain([&i[3 + rank]]).copied().collect();
        let w = e.load(&taps, &at);
        let w = e.cast(w, sums);
        e.mul(x, w)
    });
    cx.compute(|e, i| {
        let out = out_layout.logical_indices(order, &shape, i);
        let (mut phase, mut elements) = (Vec::new(), Vec::new());
        for (axis, step) in steps.iter().enumerate() {
            let place = out[axis + 2].value(e);
            let place = e.add_index(place, step.padding.0);
            let stride = e.index(step.stride);
            phase.push(e.floor_mod(place, stride));
            let element = e.floor_div(place, stride);
            elements.push(e.add_index(element, -phases.first[axis]));
        }
        let mut at = vec![Index::row_major(&phase, &strides).value(e), out[0].value(e)];
        at.push(out[1].digit(e, group_outputs, groups));
        at.extend(elements);
        at.push(out[1].digit(e, 1, group_outputs));
        let value = e.load(&combined, &at);
        e.cast(value, dtype)
    })
}

fn define_backward_weight(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Conv2dBackwardWeight<Operand>>()?;
    let (grad, data, (shape, dtype)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let [grad_layout, data_layout, out_layout] = op.layouts()?;
    let output = grad_layout.logical_extents("NCHW", &grad.shape)?;
    let input = data_layout.logical_extents("NCHW", &data.shape)?;
    let kernel = out_layout.logical_extents("OIHW", &shape)?;
    let steps = op.steps()?;
    let reaches = margins(&steps, &input[2..], &output[2..], &kernel[2..]);
    let padded = pad_stage(cx, &data, &data_layout, "NCHW", &reaches, Margin::Zero)?;
    let groups = op.groups.max(1);
    let group_outputs = output[1] / groups;
    let extents = [output[0], output[2], output[3]];
    let sums = accumulator(grad.dtype, data.dtype, dtype);
    // The element of the data that a tap meets in a window.
    let met = |e: &mut Expression<'_>, group: Index, tap: &[ValueId], r: &[ValueId]| {
        let mut place = vec![Index::new(r[0], output[0]), group];
        for (axis, step) in steps.iter().enumerate() {
            let reach = strided(e, tap[axis], reaches[axis].shift(), step.dilation);
            let start = e.mul_index(r[axis + 1], step.stride);
            place.push(Index::new(e.add(start, reach), reaches[axis].extent()));
        }
        let at = padded.layout.physical_indices(e, "NCHW", &place);
        let x = e.load(&padded.tensor, &at);
        e.cast(x, sums)
    };
    if group_outputs < LEAST_CHANNELS || kernel.contains(&0) || output.contains(&0) {
        return cx.reduce(&extents, Combiner::Sum, |e, i, r| {
            let tap = out_layout.logical_indices("OIHW", &shape, i);
            let group = Index::new(tap[0].digit(e, group_outputs, groups), groups).then(&tap[1]);
            let places = [tap[2].value(e), tap[3].value(e)];
            let x = met(e, group, &places, r);
            let mut at = vec![Index::new(r[0], output[0]), tap[0].clone()];
            at.extend((0..2).map(|axis| Index::new(r[axis + 1], output[axis + 2])));
            let at = grad_layout.physical_indices(e, "NCHW", &at);
            let y = e.load(&grad, &at);
            let y = e.cast(y, sums);
            e.mul(x, y)
        });
    }
    // With output channels last, they are the lanes of vectors.
    let channels = together(group_outputs);
    let name = cx.stage_of("change");
    let apart = [output[0], output[2], output[3], groups, channels];
    let change = cx.builder.compute(&name, &apart, |e, i| {
        let channel = Index::new(i[3], groups).then(&Index::new(i[4], group_outputs));
        let at = [(i[0], output[0]), (i[1], output[2]), (i[2], output[3])]
            .map(|(index, extent)| Index::new(index, extent));
        let [batch, y, x] = at;
        let at = grad_layout.physical_indices(e, "NCHW", &[batch, channel, y, x]);
        if channels == group_outputs {
            return e.load(&grad, &at);
        }
        let (end, outside) = (e.index(group_outputs), e.number(grad.dtype, 0.0));
        let inside = e.lt(i[4], end);
        e.load_if(inside, &grad, &at, outside)
    });
    let name = cx.stage_of("channels");
    let places = [groups, kernel[1], kernel[2], kernel[3], channels];
    let combined = cx.builder.reduce(&name, &places, &extents, Combiner::Sum, |e, i, r| {
        let group = Index::new(i[0], groups).then(&Index::new(i[1], kernel[1]));
        let x = met(e, group, &i[2..4], r);
        let y = e.load(&change, &[r[0], r[1], r[2], i[0], i[4]]);
        let y = e.cast(y, sums);
        e.mul(x, y)
    });
    cx.compute(|e, i| {
        let tap = out_layout.logical_indices("OIHW", &shape, i);
        let at = [
            tap[0].digit(e, group_outputs, groups),
            tap[1].value(e),
            tap[2].value(e),
            tap[3].value(e),
            tap[0].digit(e, 1, group_outputs),
        ];
        let value = e.load(&combined, &at);
        e.cast(value, dtype)
    })
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Conv1dTranspose>();
    registry.op::<Conv2dTranspose>();
    registry.op::<Conv3dTranspose>();
    registry.op::<Conv2dBackwardWeight>();
}
