//! Convolutions over one, two and three spatial axes.

use ir_core::{
    AttrGroup, DType, Dim, DimOp, InferCx, KernelRole, Op, Registry, Stop, Type, ValueId, Work,
};
use relay::define::{Define, DefineCx, Defined, Index, Operand, accumulator, strided};
use relay::interpreter::{EvalCx, EvalError, Evaluate, RandomOperand, Value};
use te::compute::{Combiner, Tensor};
use te::scalar::ScalarOp;

use super::numeric::{Number, compute_dtype, dispatch, result_shape, size};
use super::relation::{divide, kernel, layout_or, require};
use super::transposed_convolution::{Conv2dBackwardWeight, transposed_convolution};
use super::window::{Margin, Step, Windows, data_order, margins, pad_stage, spatial_axes};
use super::words::Words;
use crate::batch::{Batch, Examples};
use crate::gradient::{Gradient, Pullback, Term};
use crate::layout::Layout;
use crate::{FusionPattern, LayoutRule, multiply_adds, spread};

/// The attributes of a convolution over `RANK` spatial axes.
#[derive(AttrGroup, Clone, Debug)]
pub struct Convolution<const RANK: usize> {
    /// Distance of neighbouring windows, per spatial axis.
    #[default(vec![1; RANK])]
    pub strides: Vec<i64>,
    /// Zeros around the input: one number for all sides, one per axis, or all numbers
    /// before and then all numbers after.
    #[default(vec![0; RANK])]
    pub padding: Vec<i64>,
    /// The attributes of the kernel, and layouts.
    #[flatten]
    pub kernel: Kernel<RANK>,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

/// What a convolution over `RANK` spatial axes is told of its kernel, and of layouts.
#[derive(AttrGroup, Clone, Debug)]
pub struct Kernel<const RANK: usize> {
    /// Distance of neighbouring kernel elements, per spatial axis.
    #[default(vec![1; RANK])]
    pub dilation: Vec<i64>,
    /// Number of groups that input and output channels are split into.
    #[default(1)]
    pub groups: i64,
    /// Number of output channels; the weight's, where absent.
    #[default(None)]
    pub channels: Option<i64>,
    /// Spatial extents of the kernel; the weight's, where absent.
    #[default(None)]
    pub kernel_size: Option<Vec<i64>>,
    /// Layout of the input.
    #[default(data_order(RANK))]
    pub data_layout: String,
    /// Layout of the kernel.
    #[default(kernel_order(RANK))]
    pub kernel_layout: String,
    /// Layout of the result; empty for that of the input.
    #[default(String::new())]
    pub out_layout: String,
}

/// Declares a convolution; what is before the name is its doc comment.
macro_rules! convolution {
    ($(#[doc = $doc:tt])* $name:ident = $text:tt, $rank:literal) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| op.convolution.infer(cx),
            hooks(
                FusionPattern::OutFusable,
                KernelRole::Anchor,
                Work(multiply_adds::<$name>),
                LayoutRule::Convolution,
                RandomOperand(|operand, types, attributes| {
                    spread::kernel(operand, types, attributes, &kernel_order($rank))
                }),
                Evaluate(|cx| {
                    let geometry = cx.fields::<$name<Value>>()?.convolution.geometry()?;
                    let (shape, dtype) = result_shape::<$name>(cx)?;
                    dispatch!(compute_dtype(cx, dtype)?, convolve(&geometry, cx, &shape, dtype))
                }),
                Gradient(|at| {
                    if let Some(op) = at.fields::<$name<Term<'_>>>() {
                        pull_convolution(at, &op.convolution);
                    }
                }),
                Batch(|at| {
                    let op = at.fields::<$name<Term<'_>>>()?;
                    batch_convolution(at, &op.convolution.geometry().ok()?)
                }),
                Define(|cx| {
                    let geometry = cx.fields::<$name<Operand>>()?.convolution.geometry()?;
                    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
                    define_convolution(&geometry, cx, &data, &weight)
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
            pub convolution: Convolution<$rank>,
        }
    };
}

convolution! {
    /// One-dimensional convolution.
    ///
    /// `out[n, o, x] = Σ_{i, k} data[n, i, x * stride + k * dilation - padding] * weight[o, i, k]`,
    /// where `i` runs over the input channels of the group of `o`. With data `(N, C, W)` and
    /// weight `(O, C / groups, KW)` the result is `(N, O, (W + padding - (KW - 1) * dilation - 1)
    /// / stride + 1)`. Relay operator level 2.
    Conv1d = "relay.nn.conv1d", 1
}

convolution! {
    /// Two-dimensional convolution.
    ///
    /// `out[n, o, y, x] = Σ_{i, j, k} data[n, i, y * stride + j * dilation - padding, …] *
    /// weight[o, i, j, k]`, where `i` runs over the input channels of the group of `o`. With data
    /// `(N, C, H, W)` and weight `(O, C / groups, KH, KW)` the result is `(N, O, OH, OW)`, where
    /// `OH = (H + padding - (KH - 1) * dilation - 1) / stride + 1`. A depthwise convolution has as
    /// many groups as input channels; its weight may also be `(C, multiplier, KH, KW)` with
    /// `O = C * multiplier`. Relay operator level 2.
    Conv2d = "relay.nn.conv2d", 2
}

convolution! {
    /// Three-dimensional convolution.
    ///
    /// As `nn.conv2d` with a depth axis: data `(N, C, D, H, W)`, weight `(O, C / groups, KD, KH,
    /// KW)`. Relay operator level 2.
    Conv3d = "relay.nn.conv3d", 3
}

convolution! {
    /// Two-dimensional convolution on tensors with blocked channels.
    ///
    /// Computes `nn.conv2d`; data is in a layout such as `NCHW16c`, the weight in one such as
    /// `OIHW16i16o`. Relay operator level 10.
    ContribConv2dNchwc = "relay.nn.contrib_conv2d_NCHWc", 2
}

convolution! {
    /// Depthwise two-dimensional convolution on tensors with blocked channels.
    ///
    /// Computes `nn.conv2d` with as many groups as channels; data is in a layout such as
    /// `NCHW16c`, the weight in one such as `OIHW1i16o`. Relay operator level 10.
    ContribDepthwiseConv2dNchwc = "relay.nn.contrib_depthwise_conv2d_NCHWc", 2
}

/// The order of a kernel's axes where nothing else is said, such as `OIHW`.
fn kernel_order(rank: usize) -> String {
    format!("OI{}", spatial_axes(rank))
}

/// What the attributes of a convolution, or of a transposed one, say about its loops.
#[derive(Clone)]
pub(super) struct Geometry {
    /// The orders of the axes that are computed in.
    pub(super) order: String,
    pub(super) kernel_order: String,
    pub(super) steps: Vec<Step>,
    pub(super) groups: i64,
    pub(super) data_layout: Layout,
    pub(super) kernel_layout: Layout,
    pub(super) out_layout: Layout,
}

impl<const RANK: usize> Convolution<RANK> {
    fn geometry(&self) -> Result<Geometry, String> {
        let kernel = &self.kernel;
        let data_layout = Layout::parse(&kernel.data_layout)?;
        Ok(Geometry {
            order: data_order(RANK),
            kernel_order: kernel_order(RANK),
            kernel_layout: Layout::parse(&kernel.kernel_layout)?,
            out_layout: layout_or(&kernel.out_layout, &data_layout)?,
            data_layout,
            steps: Step::all(RANK, &self.strides, &kernel.dilation, &self.padding)?,
            groups: kernel.groups,
        })
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
        let data = cx.tensor(0)?;
        let (geometry, attributes) = (self.geometry()?, &self.kernel);
        let Geometry { order, kernel_order, steps, groups, .. } = &geometry;
        let input = geometry.data_layout.logical(order, &data.shape)?;
        let sizes = &attributes.kernel_size;
        let kernel = kernel(cx, &geometry.kernel_layout, kernel_order, sizes, || {
            let Some(channels) = attributes.channels else { return Err(Stop::Stuck) };
            Ok([channels.into(), divide("a number of input channels", input[1], *groups)?])
        })?;
        let channels = match geometry.is_depthwise(input[1], kernel[0]) {
            true => Dim::binary(DimOp::Mul, kernel[0], kernel[1]),
            false => {
                let inputs = divide("a number of input channels", input[1], *groups)?;
                require(cx, "input channels of the weight", inputs, kernel[1])?;
                kernel[0]
            }
        };
        divide("a number of output channels", channels, *groups)?;
        if let Some(expected) = attributes.channels {
            require(cx, "output channels", Dim::Known(expected), channels)?;
        }
        let mut output = vec![input[0], channels];
        for (axis, step) in steps.iter().enumerate() {
            let windows = step.windows(input[axis + 2], kernel[axis + 2], false);
            output.push(windows?);
        }
        let shape = geometry.out_layout.physical(order, &output)?;
        Ok(Type::tensor(shape, self.out_dtype.unwrap_or(data.dtype)))
    }
}

impl Geometry {
    /// Whether the weight is `(C, multiplier, …)`.
    fn is_depthwise(&self, inputs: Dim, kernels: Dim) -> bool {
        let groups = Dim::Known(self.groups);
        self.groups > 1 && inputs == groups && kernels == groups
    }
}

fn convolve<T: Number>(
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
    let windows = Windows::new(steps, &input[2..], &output[2..], &kernel[2..]);

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
        let group = o / group_outputs;
        for i in 0..group_inputs {
            let start = (n * inputs + group * group_inputs + i) * in_size;
            let channel = &data[start..start + in_size];
            let kernel = &weight[(o * group_inputs + i) * taps..][..taps];
            for tap in &windows.taps {
                let factor = kernel[tap.kernel];
                for run in &tap.runs {
                    let out = &mut plane[run.output..run.output + run.count];
                    if windows.stride == 1 {
                        let elements = &channel[run.input..run.input + run.count];
                        for (out, &element) in out.iter_mut().zip(elements) {
                            *out = out.plus(factor.times(element));
                        }
                    } else {
                        let elements = channel[run.input..].iter().step_by(windows.stride);
                        for (out, &element) in out.iter_mut().zip(elements) {
                            *out = out.plus(factor.times(element));
                        }
                    }
                }
            }
        }
    }
    let (shape, result) = out_layout.pack(order, &output, result)?;
    T::write(dtype, &shape, &result)
}

/// A convolution, of several channels at a time where elements are short integers.
fn define_convolution(
    geometry: &Geometry,
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    weight: &Tensor,
) -> Defined {
    let sums = accumulator(data.dtype, weight.dtype, cx.result()?.1);
    let input = geometry.data_layout.logical_extents(&geometry.order, &data.shape)?;
    let channels = input[1] / geometry.groups.max(1);
    let mut choices = Words::of(data.dtype, weight.dtype, sums).iter();
    if let Some(words) = choices.find(|words| channels % words.count() == 0) {
        let of_data = geometry.data_layout.with_groups('C', words.count());
        let of_weight = geometry.kernel_layout.with_groups('I', words.count());
        if let Some(((data_layout, channels), (kernel_layout, inputs))) = of_data.zip(of_weight) {
            let data = words.define(cx, data, channels, "data");
            let weight = words.define(cx, weight, inputs, "weight");
            let paired = Geometry { data_layout, kernel_layout, ..geometry.clone() };
            return define_sums(&paired, cx, &data, &weight, words.dot(), sums);
        }
    }
    define_sums(geometry, cx, data, weight, ScalarOp::Mul, sums)
}

/// The padded input, where there is padding, and the sum of what `product` makes of its elements and those of
/// the kernel, as `sums`, over input channels of a group and places of the kernel.
fn define_sums(
    geometry: &Geometry,
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    weight: &Tensor,
    product: ScalarOp,
    sums: DType,
) -> Defined {
    let (shape, _) = cx.result()?;
    let Geometry { order, kernel_order, steps, data_layout, kernel_layout, out_layout, .. } =
        geometry;
    let groups = geometry.groups.max(1);
    let input = data_layout.logical_extents(order, &data.shape)?;
    let output = out_layout.logical_extents(order, &shape)?;
    let kernel = kernel_layout.logical_extents(kernel_order, &weight.shape)?;
    // Places of the kernel that only meet padding, as those of large dilations do, are left out.
    let mut steps = steps.clone();
    let mut places = Vec::with_capacity(steps.len());
    for (axis, step) in steps.iter_mut().enumerate() {
        let met = step.met(input[axis + 2], output[axis + 2], kernel[axis + 2]);
        step.padding.0 -= met.start * step.dilation;
        places.push(met);
    }
    let taps: Vec<i64> = places.iter().map(|met| met.end - met.start).collect();
    let margins = margins(&steps, &input[2..], &output[2..], &taps);
    let padded = pad_stage(cx, data, data_layout, order, &margins, Margin::Zero)?;

    let group_inputs = input[1] / groups;
    let group_outputs = output[1] / groups;
    // Channels in blocks are summed block by block, where blocks do not cross groups.
    let block = data_layout.block('C');
    let channels = match block {
        2.. if group_inputs % block == 0 => vec![group_inputs / block, block],
        _ if group_inputs == 1 => vec![],
        _ => vec![group_inputs],
    };
    let extents: Vec<i64> = channels.iter().chain(&taps).copied().collect();
    cx.reduce(&extents, Combiner::Sum, |e, i, r| {
        let out = out_layout.logical_indices(order, &shape, i);
        let (r, taps) = r.split_at(channels.len());
        let channel = Index::row_major(r, &channels);
        let group = out[1].digit(e, group_outputs, groups);
        let mut place = vec![out[0].clone(), Index::new(group, groups).then(&channel)];
        // Of a depthwise weight, output channels are those of all kernels.
        let kernels = out[1].clone().then(&channel);
        let mut tap_place = vec![
            Index::new(kernels.digit(e, kernel[1], kernel[0]), kernel[0]),
            Index::new(kernels.digit(e, 1, kernel[1]), kernel[1]),
        ];
        for (axis, step) in steps.iter().enumerate() {
            let window = out[axis + 2].value(e);
            let start = strided(e, window, margins[axis].shift(), step.stride);
            let reach = e.mul_index(taps[axis], step.dilation);
            place.push(Index::new(e.add(start, reach), margins[axis].extent()));
            let tap = e.add_index(taps[axis], places[axis].start);
            tap_place.push(Index::new(tap, kernel[axis + 2]));
        }
        let at = padded.layout.physical_indices(e, order, &place);
        let x = e.load(&padded.tensor, &at);
        let x = e.cast(x, sums);
        let at = kernel_layout.physical_indices(e, kernel_order, &tap_place);
        let w = e.load(weight, &at);
        let w = e.cast(w, sums);
        e.scalar(product, &[x, w])
    })
}

/// A convolution between tensors whose layouts are the usual ones, as its adjoints see it.
#[derive(Clone)]
pub(super) struct Adjoint {
    pub(super) strides: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    /// All numbers before and then all numbers after.
    pub(super) padding: Vec<i64>,
    pub(super) groups: i64,
}

impl Adjoint {
    pub(super) fn new(steps: &[Step], groups: i64) -> Adjoint {
        let before = steps.iter().map(|step| step.padding.0);
        Adjoint {
            strides: steps.iter().map(|step| step.stride).collect(),
            dilation: steps.iter().map(|step| step.dilation).collect(),
            padding: before.chain(steps.iter().map(|step| step.padding.1)).collect(),
            groups,
        }
    }

    fn rank(&self) -> usize {
        self.strides.len()
    }

    fn convolution<const RANK: usize>(&self) -> Convolution<RANK> {
        Convolution {
            strides: self.strides.clone(),
            padding: self.padding.clone(),
            kernel: Kernel {
                dilation: self.dilation.clone(),
                groups: self.groups,
                channels: None,
                kernel_size: None,
                data_layout: data_order(RANK),
                kernel_layout: kernel_order(RANK),
                out_layout: String::new(),
            },
            out_dtype: None,
        }
    }

    /// The convolution itself.
    pub(super) fn forward<'p>(
        &self,
        at: &Pullback<'p>,
        data: Term<'p>,
        weight: Term<'p>,
    ) -> Term<'p> {
        let (data, weight) = (data.id(), weight.id());
        match self.rank() {
            1 => at.build(&Conv1d { data, weight, convolution: self.convolution() }),
            2 => at.build(&Conv2d { data, weight, convolution: self.convolution() }),
            _ => at.build(&Conv3d { data, weight, convolution: self.convolution() }),
        }
    }

    /// How the data, of extents `shape`, changes with a result that changes by `change`.
    pub(super) fn of_data<'p>(
        &self,
        at: &Pullback<'p>,
        change: Term<'p>,
        weight: Term<'p>,
        shape: &[i64],
    ) -> Term<'p> {
        let (kernel, output, rank) = (weight.shape(), change.shape(), self.rank());
        let extra = (0..rank).map(|axis| {
            let margin = self.padding[axis] + self.padding[rank + axis];
            let reach = (kernel[axis + 2] - 1) * self.dilation[axis] + 1;
            shape[axis + 2] - ((output[axis + 2] - 1) * self.strides[axis] + reach - margin)
        });
        transposed_convolution(at, self, extra.collect(), change.id(), weight.id())
    }

    /// How the weight, of extents `shape`, changes with a result that changes by `change`.
    pub(super) fn of_weight<'p>(
        &self,
        at: &Pullback<'p>,
        change: Term<'p>,
        data: Term<'p>,
        shape: &[i64],
    ) -> Term<'p> {
        match self.rank() {
            1 => {
                // As a convolution of rows with one row.
                let row = |term: Term<'p>| {
                    let mut shape = term.shape();
                    shape.insert(2, 1);
                    term.reshape(&shape)
                };
                let padding = vec![0, self.padding[0], 0, self.padding[1]];
                let (strides, dilation) = (vec![1, self.strides[0]], vec![1, self.dilation[0]]);
                let wide = Adjoint { strides, dilation, padding, groups: self.groups };
                let kernel = [shape[0], shape[1], 1, shape[2]];
                wide.of_weight(at, row(change), row(data), &kernel).reshape(shape)
            }
            2 => at.build(&Conv2dBackwardWeight {
                grad: change.id(),
                data: data.id(),
                strides: self.strides.clone(),
                padding: self.padding.clone(),
                dilation: self.dilation.clone(),
                groups: self.groups,
                channels: None,
                kernel_size: shape[2..].to_vec(),
                data_layout: data_order(2),
                kernel_layout: data_order(2),
                out_layout: String::new(),
                out_dtype: None,
            }),
            _ if self.groups != 1 => {
                at.refuse("the weight of groups of channels along three axes");
                data
            }
            _ => {
                // A convolution with the change for kernel: batch and channels change places, and so
                // do strides and dilation.
                let swap = |term: Term<'p>| term.transpose(&[1, 0, 2, 3, 4]);
                let (strides, dilation) = (self.dilation.clone(), self.strides.clone());
                let swapped = Adjoint { strides, dilation, ..self.clone() };
                let whole = swap(swapped.forward(at, swap(data), swap(change)));
                whole.slice(&[0; 5], shape)
            }
        }
    }
}

/// A weight of each example: a convolution with as many more groups, or output channels where all take the same data.
fn batch_convolution<'p>(at: &Examples<'p>, geometry: &Geometry) -> Option<Term<'p>> {
    if !at.over(1) || at.extent() == 0 || geometry.unusual_layout().is_some() {
        return None;
    }
    let weight = joined(at.operand(1));
    let shares = !at.over(0) && geometry.groups == 1;
    let data = if shares { at.operand(0) } else { beside(for_each(at, 0)) };
    let groups = if shares { 1 } else { geometry.groups * at.extent() };
    let attrs = at.attrs().without("channels").without("groups");
    let attrs = if groups == 1 { attrs } else { attrs.with("groups", &groups) };
    let result = at.again(&[data, weight], attrs);
    // The channels of each example apart, and examples first.
    let mut shape = result.shape();
    let channels = shape[1] / at.extent();
    shape.splice(1..2, [at.extent(), channels]);
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.swap(0, 1);
    Some(result.reshape(&shape).transpose(&order))
}

/// Operand `index` with an element for each example.
pub(super) fn for_each<'p>(at: &Examples<'p>, index: usize) -> Term<'p> {
    let operand = at.led(index);
    let mut shape = operand.shape();
    shape[0] = at.extent();
    operand.broadcast(&shape)
}

/// `(examples, A, …)` as `(examples * A, …)`.
fn joined(term: Term<'_>) -> Term<'_> {
    let shape = term.shape();
    term.reshape(&[&[shape[0] * shape[1]], &shape[2..]].concat())
}

/// `(examples, N, C, …)` as `(N, examples * C, …)`, the channels of examples beside one another.
pub(super) fn beside(term: Term<'_>) -> Term<'_> {
    let mut order: Vec<usize> = (0..term.rank()).collect();
    order.swap(0, 1);
    let moved = term.transpose(&order);
    let mut shape = moved.shape();
    let channels = shape[1] * shape[2];
    shape.splice(1..3, [channels]);
    moved.reshape(&shape)
}

fn pull_convolution<const RANK: usize>(at: &Pullback<'_>, attributes: &Convolution<RANK>) {
    let (data, weight) = (at.operand(0), at.operand(1));
    let Ok(geometry) = attributes.geometry() else { return };
    if let Some(layout) = geometry.unusual_layout() {
        return at.refuse(format!(
            "layout {layout}: differentiate before layouts are chosen, or transpose to {}",
            geometry.order
        ));
    }
    let adjoint = Adjoint::new(&geometry.steps, geometry.groups);
    let (inputs, kernel) = (data.shape(), weight.shape());
    // Of a depthwise weight, output channels are those of all kernels.
    let mut grouped = kernel.clone();
    if geometry.is_depthwise(inputs[1].into(), kernel[0].into()) {
        grouped[0] *= kernel[1];
        grouped[1] = 1;
    }
    at.to(0, |g| {
        let weight = weight.reshape(&grouped);
        adjoint.of_data(at, g.cast(data.dtype()), weight, &inputs)
    });
    at.to(1, |g| adjoint.of_weight(at, g.cast(weight.dtype()), data, &grouped).reshape(&kernel));
}

impl Geometry {
    /// A layout that is another one than text has where it says nothing.
    pub(super) fn unusual_layout(&self) -> Option<&Layout> {
        let usual = Layout::parse(&self.order).ok()?;
        let kernel = Layout::parse(&self.kernel_order).ok()?;
        let [data, weight, out] = [&self.data_layout, &self.kernel_layout, &self.out_layout];
        [(data, &usual), (weight, &kernel), (out, &usual)]
            .into_iter()
            .find(|(layout, usual)| layout != usual)
            .map(|(layout, _)| layout)
    }
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Conv1d>();
    registry.op::<Conv2d>();
    registry.op::<Conv3d>();
    registry.op::<ContribConv2dNchwc>();
    registry.op::<ContribDepthwiseConv2dNchwc>();
}
