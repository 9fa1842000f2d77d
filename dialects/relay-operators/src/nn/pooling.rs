//! Pools over sliding windows, and the gradients of the two-dimensional ones.

use std::ops::Range;

use ir_core::{
    AttrGroup, DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorType, Type, ValueId,
};
use relay::define::{Define, DefineCx, Defined, Index, Operand, means_of, strided, within};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use super::numeric::{Number, dispatch, result_shape, size};
use super::padding::Pad;
use super::relation::layout_or;
use super::window::{
    Margin, Reach, Step, Windows, data_order, least, margins, pad_stage, per_axis,
};
use crate::attributes::Integers;
use crate::gradient::{Gradient, Pullback, Term};
use crate::index::slice::{SliceMode, StridedSlice};
use crate::layout::Layout;
use crate::{FusionPattern, LayoutRule};

/// The largest element of a window of at most so many is found in one go.
const MOST_WRITTEN: i64 = 9;

/// The attributes of a pool over `RANK` spatial axes.
#[derive(AttrGroup, Clone, Debug)]
pub struct Windowing<const RANK: usize> {
    /// Extents of a window.
    #[default(vec![1; RANK])]
    pub pool_size: Vec<i64>,
    /// Distance of neighbouring windows, per spatial axis.
    #[default(vec![1; RANK])]
    pub strides: Vec<i64>,
    /// Distance of neighbouring elements of a window, per spatial axis.
    #[default(vec![1; RANK])]
    pub dilation: Vec<i64>,
    /// Padding around the input: one number for all sides, one per axis, or all numbers
    /// before and then all numbers after.
    #[default(vec![0; RANK])]
    pub padding: Vec<i64>,
    /// What the layouts are.
    #[flatten]
    pub layouts: PoolLayouts<RANK>,
    /// Whether a last window may reach over the padded end.
    #[default(false)]
    pub ceil_mode: bool,
}

/// The layouts of a pool over `RANK` spatial axes.
#[derive(AttrGroup, Clone, Debug)]
pub struct PoolLayouts<const RANK: usize> {
    /// Layout of the input.
    #[default(data_order(RANK))]
    pub layout: String,
    /// Layout of the result; empty for that of the input.
    #[default(String::new())]
    pub out_layout: String,
}

/// The attributes of a pool that takes means, over `RANK` spatial axes.
#[derive(AttrGroup, Clone, Debug)]
pub struct Averaging<const RANK: usize> {
    /// The windows.
    #[flatten]
    pub windowing: Windowing<RANK>,
    /// Whether the divisor is the number of elements of the window inside the padded
    /// input, not inside the input.
    #[default(false)]
    pub count_include_pad: bool,
}

/// What the attributes of a pool say.
struct Pool {
    /// The order of the axes that is computed in.
    order: String,
    kind: PoolKind,
    sizes: Vec<i64>,
    steps: Vec<Step>,
    layout: Layout,
    out_layout: Layout,
    ceil_mode: bool,
}

/// What a pool computes of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PoolKind {
    /// The largest element; NaN where there is one.
    Max,
    /// The mean of the elements, or, with padding included, of the window.
    Average { include_padding: bool },
}

impl<const RANK: usize> PoolLayouts<RANK> {
    /// Layouts of the input and the result.
    pub(super) fn read(&self) -> Result<(Layout, Layout), String> {
        let layout = Layout::parse(&self.layout)?;
        let out_layout = layout_or(&self.out_layout, &layout)?;
        Ok((layout, out_layout))
    }
}

impl<const RANK: usize> Windowing<RANK> {
    fn pool(&self, kind: PoolKind) -> Result<Pool, String> {
        let (layout, out_layout) = self.layouts.read()?;
        Ok(Pool {
            order: data_order(RANK),
            kind,
            steps: Step::all(RANK, &self.strides, &self.dilation, &self.padding)?,
            sizes: per_axis("pool_size", &self.pool_size, RANK, 1)?,
            layout,
            out_layout,
            ceil_mode: self.ceil_mode,
        })
    }

    /// A pool that takes the largest elements.
    fn maxima(&self) -> Result<Pool, String> {
        self.pool(PoolKind::Max)
    }
}

impl<const RANK: usize> Averaging<RANK> {
    /// A pool that takes means.
    fn means(&self) -> Result<Pool, String> {
        self.windowing.pool(PoolKind::Average { include_padding: self.count_include_pad })
    }
}

/// Declares a pool whose attributes are a group, of which a method makes the pool; what is before the
/// name is its doc comment.
macro_rules! pool {
    (
        $(#[doc = $doc:tt])*
        $name:ident = $text:tt ($($before:ident: $before_doc:tt)?), $group:ty, $pool:ident
    ) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            infer = $name::infer,
            hooks(
                FusionPattern::OutFusable,
                LayoutRule::Named { blocks: true },
                Evaluate($name::evaluate),
                Gradient($name::<Term<'_>>::pull),
                Define($name::define)
            )
        )]
        pub struct $name<V = ValueId> {
            $(#[doc = $before_doc] pub $before: V,)?
            /// The input, in `layout`.
            pub data: V,
            /// The attributes.
            #[flatten]
            pub attributes: $group,
        }

        impl<V> $name<V> {
            fn pool(&self) -> Result<Pool, String> {
                self.attributes.$pool()
            }
        }
    };
}

/// The hooks of a pool that `pool!` declares.
macro_rules! forward {
    ($($name:ident),*) => {$(
        impl $name<Type> {
            fn infer(self, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
                Ok(self.pool()?.result(cx.tensor(0)?)?)
            }
        }

        impl $name<Value> {
            fn evaluate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
                let op = cx.fields::<$name<Value>>()?.pool()?;
                let (shape, dtype) = result_shape::<$name>(cx)?;
                dispatch!(dtype, pool(&op, cx, &shape, dtype))
            }
        }

        impl $name<Operand> {
            fn define(cx: &mut DefineCx<'_>) -> Defined {
                let op = cx.fields::<$name<Operand>>()?.pool()?;
                let data = cx.tensor(0)?;
                op.define(cx, &data)
            }
        }
    )*};
}

/// The hooks of a pool's gradient that `pool!` declares.
macro_rules! backward {
    ($($name:ident),*) => {$(
        impl $name<Type> {
            fn infer(self, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
                let data = cx.tensor(1)?;
                let pool = self.pool()?.result(data)?;
                // The gradient has the shape of the pool's result and its own element type.
                let grad = match cx.tensor(0) {
                    Ok(grad) => match pool.as_tensor() {
                        Some(pool) => Type::tensor(pool.shape.iter().copied(), grad.dtype),
                        None => pool,
                    },
                    Err(Stop::Stuck) => pool,
                    Err(stop) => return Err(stop),
                };
                cx.refine(0, grad);
                Ok(self.data)
            }
        }

        impl $name<Value> {
            fn evaluate(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
                let op = cx.fields::<$name<Value>>()?.pool()?;
                let (shape, dtype) = result_shape::<$name>(cx)?;
                dispatch!(dtype, pool_gradient(&op, cx, &shape, dtype))
            }
        }

        impl $name<Operand> {
            fn define(cx: &mut DefineCx<'_>) -> Defined {
                let op = cx.fields::<$name<Operand>>()?.pool()?;
                let (grad, data) = (cx.tensor(0)?, cx.tensor(1)?);
                op.define_gradient(cx, &grad, &data)
            }
        }
    )*};
}

forward!(MaxPool1d, MaxPool2d, MaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d);
backward!(MaxPool2dGrad, AvgPool2dGrad);

pool! {
    /// The largest element of every window along one axis; NaN where there is one.
    ///
    /// `out[n, c, x] = max_k data[n, c, x * stride + k * dilation - padding]`. With data `(N, C,
    /// W)` the result is `(N, C, (W + padding - (K - 1) * dilation - 1) / stride + 1)`, rounded
    /// down, or up with `ceil_mode`. Relay operator level 2.
    MaxPool1d = "relay.nn.max_pool1d" (), Windowing<1>, maxima
}

pool! {
    /// The largest element of every window along two axes.
    ///
    /// As `nn.max_pool1d` on data `(N, C, H, W)`. Relay operator level 2.
    MaxPool2d = "relay.nn.max_pool2d" (), Windowing<2>, maxima
}

pool! {
    /// The largest element of every window along three axes.
    ///
    /// As `nn.max_pool1d` on data `(N, C, D, H, W)`. Relay operator level 2.
    MaxPool3d = "relay.nn.max_pool3d" (), Windowing<3>, maxima
}

pool! {
    /// The mean of every window along one axis.
    ///
    /// `out[n, c, x] = mean_k data[n, c, x * stride + k * dilation - padding]`, over the elements
    /// inside the input, or with `count_include_pad` over those inside the padded input, whose
    /// padding is zero; what a last window has beyond, with `ceil_mode`, never counts.
    /// The shape is that of `nn.max_pool1d`; integers truncate. Relay operator level 2.
    AvgPool1d = "relay.nn.avg_pool1d" (), Averaging<1>, means
}

pool! {
    /// The mean of every window along two axes.
    ///
    /// As `nn.avg_pool1d` on data `(N, C, H, W)`. Relay operator level 2.
    AvgPool2d = "relay.nn.avg_pool2d" (), Averaging<2>, means
}

pool! {
    /// The mean of every window along three axes.
    ///
    /// As `nn.avg_pool1d` on data `(N, C, D, H, W)`. Relay operator level 2.
    AvgPool3d = "relay.nn.avg_pool3d" (), Averaging<3>, means
}

pool! {
    /// The gradient of `nn.max_pool2d`.
    ///
    /// Adds the gradient of every window to its largest element, of several the first. The result
    /// has the type of `data`. Relay operator level 2.
    MaxPool2dGrad = "relay.nn.max_pool2d_grad" (out_grad: "Gradient of the pool's result."),
    Windowing<2>, maxima
}

pool! {
    /// The gradient of `nn.avg_pool2d`.
    ///
    /// Spreads the gradient of every window evenly over its elements. The result has the type of
    /// `data`. Relay operator level 2.
    AvgPool2dGrad = "relay.nn.avg_pool2d_grad" (out_grad: "Gradient of the pool's result."),
    Averaging<2>, means
}

impl Pool {
    fn result(&self, data: &TensorType) -> Result<Type, String> {
        let input = self.layout.logical(&self.order, &data.shape)?;
        let mut output = input[..2].to_vec();
        for ((step, size), extent) in self.steps.iter().zip(&self.sizes).zip(&input[2..]) {
            output.push(step.windows(*extent, Dim::Known(*size), self.ceil_mode)?);
        }
        Ok(Type::tensor(self.out_layout.physical(&self.order, &output)?, data.dtype))
    }

    /// The places along every axis whose elements the mean of a window is taken of.
    fn places(&self, input: &[i64]) -> Vec<Range<i64>> {
        let with_padding = matches!(self.kind, PoolKind::Average { include_padding: true });
        self.steps
            .iter()
            .zip(input)
            .map(|(step, &input)| step.places(input, with_padding))
            .collect()
    }

    /// The divisor of every window's mean, for spatial extents `input` and `output`.
    fn divisors(&self, input: &[i64], output: &[i64]) -> Vec<i64> {
        let axes = self.steps.iter().zip(&self.sizes).zip(self.places(input)).zip(output);
        let mut divisors = vec![1];
        for (((step, size), places), &windows) in axes {
            let counts: Vec<i64> =
                (0..windows).map(|window| step.elements_in(&places, window, *size)).collect();
            let grown = divisors.iter().flat_map(|divisor: &i64| {
                counts.iter().map(|count| divisor.saturating_mul(*count))
            });
            divisors = grown.collect();
        }
        divisors.into_iter().map(|divisor| divisor.max(1)).collect()
    }
}

fn pool<T: Number>(
    op: &Pool,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let Pool { order, layout, out_layout, .. } = op;
    let (input, data) = layout.unpack(order, data.shape(), T::read(data))?;
    let output = out_layout.logical_extents(order, shape)?;
    let windows = Windows::new(&op.steps, &input[2..], &output[2..], &op.sizes);
    let (in_size, out_size) = (size(&input[2..]), size(&output[2..]));
    let start = if op.kind == PoolKind::Max { T::lowest(dtype) } else { T::ZERO };
    let divisors = op.divisors(&input[2..], &output[2..]);
    let mut result = vec![start; size(&output)];
    if result.is_empty() || data.is_empty() {
        return T::write(dtype, shape, &result);
    }
    for (plane, channel) in result.chunks_exact_mut(out_size).zip(data.chunks_exact(in_size)) {
        for run in windows.taps.iter().flat_map(|tap| &tap.runs) {
            let elements = channel[run.input..].iter().step_by(windows.stride);
            for (out, &element) in plane[run.output..][..run.count].iter_mut().zip(elements) {
                match op.kind {
                    PoolKind::Max => *out = out.greater(element),
                    PoolKind::Average { .. } => *out = out.plus(element),
                }
            }
        }
        if op.kind != PoolKind::Max {
            for (out, &divisor) in plane.iter_mut().zip(&divisors) {
                *out = out.over(divisor);
            }
        }
    }
    let (shape, result) = out_layout.pack(order, &output, result)?;
    T::write(dtype, &shape, &result)
}

fn pool_gradient<T: Number>(
    op: &Pool,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (grad, data) = (cx.tensor(0)?, cx.tensor(1)?);
    let Pool { order, layout, out_layout, .. } = op;
    let (input, data) = layout.unpack(order, data.shape(), T::read(data))?;
    let (output, grad) = out_layout.unpack(order, grad.shape(), T::read(grad))?;
    let windows = Windows::new(&op.steps, &input[2..], &output[2..], &op.sizes);
    let (in_size, out_size) = (size(&input[2..]), size(&output[2..]));
    let divisors = op.divisors(&input[2..], &output[2..]);
    // NaN is less than all numbers.
    let number = |x: T| if x.partial_cmp(&x).is_some() { x } else { T::lowest(dtype) };
    let mut result = vec![T::ZERO; data.len()];
    if result.is_empty() || grad.is_empty() {
        return T::write(dtype, shape, &result);
    }
    let planes = result.chunks_exact_mut(in_size).zip(data.chunks_exact(in_size));
    for ((sums, channel), grads) in planes.zip(grad.chunks_exact(out_size)) {
        // The first largest element of every window, for the maximum.
        let mut largest: Vec<Option<usize>> = vec![None; out_size];
        for run in windows.taps.iter().flat_map(|tap| &tap.runs) {
            for i in 0..run.count {
                let (window, element) = (run.output + i, run.input + i * windows.stride);
                if op.kind != PoolKind::Max {
                    sums[element] = sums[element].plus(grads[window].over(divisors[window]));
                } else if largest[window]
                    .is_none_or(|best| number(channel[element]) > number(channel[best]))
                {
                    largest[window] = Some(element);
                }
            }
        }
        for (window, element) in largest.into_iter().enumerate() {
            if let Some(element) = element {
                sums[element] = sums[element].plus(grads[window]);
            }
        }
    }
    let (shape, result) = layout.pack(order, &input, result)?;
    T::write(dtype, &shape, &result)
}

impl Pool {
    /// The padded input, where windows reach over it, and what the pool computes of windows.
    fn define(&self, cx: &mut DefineCx<'_>, data: &Tensor) -> Defined {
        let (shape, dtype) = cx.result()?;
        let Pool { order, steps, sizes, layout, out_layout, .. } = self;
        let input = layout.logical_extents(order, &data.shape)?;
        let output = out_layout.logical_extents(order, &shape)?;
        let reaches = margins(steps, &input[2..], &output[2..], sizes);
        let maximum = self.kind == PoolKind::Max;
        let margin = if maximum { Margin::Least } else { Margin::Zero };
        let padded = pad_stage(cx, data, layout, order, &reaches, margin)?;
        let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let mut place = out_layout.logical_indices(order, &shape, i);
            for (axis, (step, reach)) in steps.iter().zip(&reaches).enumerate() {
                let window = place[axis + 2].value(e);
                let start = strided(e, window, reach.shift(), step.stride);
                let within = e.mul_index(r[axis], step.dilation);
                place[axis + 2] = Index::new(e.add(start, within), reach.extent());
            }
            let at = padded.layout.physical_indices(e, order, &place);
            e.load(&padded.tensor, &at)
        };
        if maximum {
            return cx.reduce(sizes, Combiner::Max, element);
        }
        // Sums of integers do not wrap.
        let sums = means_of(dtype);
        let name = cx.stage_of("sum");
        let sum = cx.builder.reduce(&name, &shape, sizes, Combiner::Sum, |e, i, r| {
            let x = element(e, i, r);
            e.cast(x, sums)
        });
        cx.compute(|e, i| {
            let x = e.load(&sum, i);
            let windows = out_layout.logical_indices(order, &shape, i);
            let divisor = self.divisor(e, &windows[2..], &reaches);
            let divisor = e.cast(divisor, sums);
            let mean = e.div(x, divisor);
            e.cast(mean, dtype)
        })
    }

    /// Which element of each window is its first largest one: a tensor of the shape of the pool's result, with
    /// places in a window, and their number where a window has no element. NaN is less than all numbers.
    fn define_largest(
        &self,
        cx: &mut DefineCx<'_>,
        shape: &[i64],
        data: &Tensor,
    ) -> Result<Tensor, String> {
        let Pool { order, steps, sizes, layout, out_layout, .. } = self;
        let input = layout.logical_extents(order, &data.shape)?;
        let output = out_layout.logical_extents(order, shape)?;
        let reaches = margins(steps, &input[2..], &output[2..], sizes);
        let outside = least(data.dtype)?;
        let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let mut place = out_layout.logical_indices(order, shape, i);
            let mut bounds = Vec::new();
            for (axis, step) in steps.iter().enumerate() {
                let window = place[axis + 2].value(e);
                let start = strided(e, window, -step.padding.0, step.stride);
                let reach = e.mul_index(r[axis], step.dilation);
                let at = e.add(start, reach);
                if !reaches[axis].is_inside() {
                    bounds.push((at, input[axis + 2]));
                }
                place[axis + 2] = Index::new(at, input[axis + 2]);
            }
            let at = layout.physical_indices(e, order, &place);
            let outside = e.constant(data.dtype, outside);
            let inside = within(e, bounds);
            let x = match inside {
                Some(inside) => e.load_if(inside, data, &at, outside),
                None => e.load(data, &at),
            };
            if !data.dtype.is_float() {
                return (inside, x);
            }
            let is_nan = e.scalar(ScalarOp::IsNan, &[x]);
            (inside, e.select(is_nan, outside, x))
        };
        let count = sizes.iter().fold(1i64, |product, size| product.saturating_mul(*size));
        let places = if i32::try_from(count).is_ok() { DType::INT32 } else { DType::INT64 };
        if count <= MOST_WRITTEN {
            let name = cx.stage_of("first");
            return Ok(cx.builder.compute(&name, shape, |e, i| {
                let none = e.constant(places, Scalar::Int(count));
                // Whether one has been met in every window.
                let mut is_found = false;
                let (mut best, mut first) = (e.constant(data.dtype, outside), none);
                for place in 0..count {
                    let index = e.index(place);
                    let tap = Index::new(index, count).split(e, sizes);
                    let (inside, x) = element(e, i, &tap);
                    let here = e.constant(places, Scalar::Int(place));
                    if place == 0 && inside.is_none() {
                        (best, first, is_found) = (x, here, true);
                        continue;
                    }
                    let mut is_better = e.gt(x, best);
                    if !is_found {
                        let is_first = e.eq(first, none);
                        is_better = e.or(is_better, is_first);
                    }
                    if let Some(inside) = inside {
                        is_better = e.and(is_better, inside);
                    }
                    first = e.select(is_better, here, first);
                    best = e.select(is_better, x, best);
                }
                first
            }));
        }
        let name = cx.stage_of("largest");
        let largest =
            cx.builder.reduce(&name, shape, sizes, Combiner::Max, |e, i, r| element(e, i, r).1);
        let name = cx.stage_of("first");
        Ok(cx.builder.reduce(&name, shape, sizes, Combiner::Min, |e, i, r| {
            let (inside, x) = element(e, i, r);
            let largest = e.load(&largest, i);
            let mut is_largest = e.eq(x, largest);
            if let Some(inside) = inside {
                is_largest = e.and(is_largest, inside);
            }
            let place = Index::row_major(r, sizes).value(e);
            let place = e.cast(place, places);
            let none = e.constant(places, Scalar::Int(count));
            e.select(is_largest, place, none)
        }))
    }

    /// The sum, over the windows that an element is in, of what these give it: for maxima, those of which it is the
    /// first largest one.
    fn define_gradient(&self, cx: &mut DefineCx<'_>, grad: &Tensor, data: &Tensor) -> Defined {
        let (shape, dtype) = cx.result()?;
        let Pool { order, steps, sizes, layout, out_layout, .. } = self;
        let input = layout.logical_extents(order, &data.shape)?;
        let output = out_layout.logical_extents(order, &grad.shape)?;
        let reaches = margins(steps, &input[2..], &output[2..], sizes);
        let largest = match self.kind {
            PoolKind::Max => Some(self.define_largest(cx, &grad.shape, data)?),
            PoolKind::Average { .. } => None,
        };
        let sums = means_of(dtype);
        let axes = steps.iter().zip(sizes);
        let extents: Vec<i64> = axes.map(|(step, size)| step.windows_of_one(*size)).collect();
        let given = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let mut place = layout.logical_indices(order, &shape, i);
            let (mut bounds, mut taps, mut met) = (Vec::new(), Vec::new(), None);
            for (axis, (step, size)) in steps.iter().zip(sizes).enumerate() {
                let at = place[axis + 2].value(e);
                let at = e.add_index(at, step.padding.0);
                let over = step.window_over(e, at, r[axis]);
                bounds.push((over.window, output[axis + 2]));
                bounds.push((over.tap, *size));
                met = match (met, over.met) {
                    (Some(met), Some(here)) => Some(e.and(met, here)),
                    (met, here) => met.or(here),
                };
                taps.push(over.tap);
                place[axis + 2] = Index::new(over.window, output[axis + 2]);
            }
            let windows = place[2..].to_vec();
            let at = out_layout.physical_indices(e, order, &place);
            let inside = within(e, bounds);
            let chosen = match (inside, met) {
                (Some(inside), Some(met)) => Some(e.and(inside, met)),
                (inside, met) => inside.or(met),
            };
            let load = |e: &mut Expression<'_>, chosen, tensor: &Tensor, otherwise| match chosen {
                Some(chosen) => e.load_if(chosen, tensor, &at, otherwise),
                None => e.load(tensor, &at),
            };
            let zero = e.number(grad.dtype, 0.0);
            if let Some(largest) = &largest {
                let none = e.constant(largest.dtype, Scalar::Int(-1));
                let best = load(e, chosen, largest, none);
                let tap = Index::row_major(&taps, sizes).value(e);
                let tap = e.cast(tap, largest.dtype);
                let is_largest = e.eq(best, tap);
                let value = load(e, chosen, grad, zero);
                let value = e.select(is_largest, value, zero);
                return e.cast(value, sums);
            }
            let value = load(e, chosen, grad, zero);
            let value = e.cast(value, sums);
            let divisor = self.divisor(e, &windows, &reaches);
            let divisor = e.cast(divisor, sums);
            e.div(value, divisor)
        };
        if extents.iter().all(|extent| *extent == 1) {
            return cx.compute(|e, i| {
                let window = vec![e.index(0); extents.len()];
                let value = given(e, i, &window);
                e.cast(value, dtype)
            });
        }
        cx.reduce(&extents, Combiner::Sum, given)
    }

    /// The number of elements that the mean of a window is taken of.
    fn divisor(&self, e: &mut Expression<'_>, windows: &[Index], reaches: &[Reach]) -> ValueId {
        let Pool { steps, sizes, .. } = self;
        let input: Vec<i64> = reaches.iter().map(Reach::input).collect();
        let places = self.places(&input);
        if reaches.iter().zip(&places).all(|(reach, places)| reach.is_in(places)) {
            let whole = sizes.iter().fold(1i64, |product, size| product.saturating_mul(*size));
            return e.index(whole);
        }
        let mut count = e.index(1);
        for (((window, step), &size), places) in windows.iter().zip(steps).zip(sizes).zip(&places) {
            let window = window.value(e);
            let inside = step.define_elements_in(e, places, window, size);
            count = e.mul(count, inside);
        }
        let one = e.index(1);
        e.max(count, one)
    }
}

impl Windowing<1> {
    /// The same windows in rows of which each is a plane; `None` in another layout than the usual one.
    fn planes(&self) -> Option<Windowing<2>> {
        let windows = |numbers: &[i64]| Some(vec![1, *numbers.first()?]);
        let padding = match self.padding[..] {
            [before, after] => vec![0, before, 0, after],
            [both] => vec![0, both, 0, both],
            _ => return None,
        };
        let layouts = &self.layouts;
        let is_usual = layouts.layout == data_order(1)
            && (layouts.out_layout.is_empty() || layouts.out_layout == layouts.layout);
        is_usual.then_some(())?;
        Some(Windowing {
            pool_size: windows(&self.pool_size)?,
            strides: windows(&self.strides)?,
            dilation: windows(&self.dilation)?,
            padding,
            layouts: PoolLayouts { layout: data_order(2), out_layout: String::new() },
            ceil_mode: self.ceil_mode,
        })
    }
}

/// `term` with an axis before its last one.
fn as_plane(term: Term<'_>) -> Term<'_> {
    let mut shape = term.shape();
    shape.insert(2, 1);
    term.reshape(&shape)
}

impl MaxPool1d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<MaxPool1d<Term<'_>>>() else { return };
        let Some(attributes) = op.attributes.planes() else { return at.refuse("this layout") };
        at.to(0, |g| {
            let (out_grad, data) = (as_plane(g).id(), as_plane(op.data).id());
            let change = at.build(&MaxPool2dGrad { out_grad, data, attributes });
            change.reshape(&op.data.shape())
        });
    }
}

impl AvgPool1d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<AvgPool1d<Term<'_>>>() else { return };
        let Some(windowing) = op.attributes.windowing.planes() else {
            return at.refuse("this layout");
        };
        let count_include_pad = op.attributes.count_include_pad;
        at.to(0, |g| {
            let (out_grad, data) = (as_plane(g).id(), as_plane(op.data).id());
            let attributes = Averaging { windowing, count_include_pad };
            let change = at.build(&AvgPool2dGrad { out_grad, data, attributes });
            change.reshape(&op.data.shape())
        });
    }
}

impl Windowing<3> {
    /// The same windows as those along the last two axes, and then those along the first of the three; `None` in
    /// another layout than the usual one. The largest element of a window is the largest of the largest ones of its
    /// planes, the first of several too, and the mean is the mean of means, since each plane counts as many elements.
    fn planes_and_depth(&self) -> Option<[Windowing<2>; 2]> {
        let layouts = &self.layouts;
        let is_usual = layouts.layout == data_order(3)
            && (layouts.out_layout.is_empty() || layouts.out_layout == layouts.layout);
        is_usual.then_some(())?;
        let steps = Step::all(3, &self.strides, &self.dilation, &self.padding).ok()?;
        let sizes = per_axis("pool_size", &self.pool_size, 3, 1).ok()?;
        let windowing = |axes: [Option<usize>; 2]| {
            let of = |value: &dyn Fn(usize) -> i64, neutral: i64| {
                axes.iter().map(|axis| axis.map_or(neutral, value)).collect::<Vec<i64>>()
            };
            let before = of(&|axis| steps[axis].padding.0, 0);
            let after = of(&|axis| steps[axis].padding.1, 0);
            Windowing {
                pool_size: of(&|axis| sizes[axis], 1),
                strides: of(&|axis| steps[axis].stride, 1),
                dilation: of(&|axis| steps[axis].dilation, 1),
                padding: [before, after].concat(),
                layouts: PoolLayouts { layout: data_order(2), out_layout: String::new() },
                ceil_mode: self.ceil_mode,
            }
        };
        Some([windowing([Some(1), Some(2)]), windowing([Some(0), None])])
    }
}

/// `term`, of five axes, with those of channels and depth as one.
fn as_planes(term: Term<'_>) -> Term<'_> {
    let shape = term.shape();
    term.reshape(&[shape[0], shape[1] * shape[2], shape[3], shape[4]])
}

/// `term`, of the extents `shape` but for the last two, with these as one.
fn as_columns<'p>(term: Term<'p>, shape: &[i64]) -> Term<'p> {
    let plane = term.shape()[term.rank() - 2..].iter().product();
    term.reshape(&[shape[0], shape[1], shape[2], plane])
}

/// The change of the data of a pool along three axes, of that of its result, by pools along two: `forward` and
/// `backward` build one and its gradient, for the windows of planes and for those of the depth.
fn pull_by_planes<'p>(
    g: Term<'p>,
    data: Term<'p>,
    forward: impl Fn(Term<'p>) -> Term<'p>,
    backward: [&dyn Fn(Term<'p>, Term<'p>) -> Term<'p>; 2],
) -> Term<'p> {
    let (shape, result) = (data.shape(), g.shape());
    let planes = as_planes(data);
    let pooled = forward(planes);
    let columns = as_columns(pooled, &shape);
    let change = backward[1](as_columns(g, &result), columns);
    backward[0](change.reshape(&pooled.shape()), planes).reshape(&shape)
}

impl MaxPool3d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<MaxPool3d<Term<'_>>>() else { return };
        let Some(windows) = op.attributes.planes_and_depth() else {
            return at.refuse("this layout");
        };
        let back = |windowing: &Windowing<2>, g: Term<'_>, data: Term<'_>| {
            let (out_grad, data, attributes) = (g.id(), data.id(), windowing.clone());
            at.build(&MaxPool2dGrad { out_grad, data, attributes })
        };
        at.to(0, |g| {
            let forward = |data: Term<'_>| {
                at.build(&MaxPool2d { data: data.id(), attributes: windows[0].clone() })
            };
            let backward: [&dyn Fn(_, _) -> _; 2] =
                [&|g, data| back(&windows[0], g, data), &|g, data| back(&windows[1], g, data)];
            pull_by_planes(g, op.data, forward, backward)
        });
    }
}

impl AvgPool3d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<AvgPool3d<Term<'_>>>() else { return };
        let Some(windows) = op.attributes.windowing.planes_and_depth() else {
            return at.refuse("this layout");
        };
        let count_include_pad = op.attributes.count_include_pad;
        let averaging = windows.map(|windowing| Averaging { windowing, count_include_pad });
        let back = |averaging: &Averaging<2>, g: Term<'_>, data: Term<'_>| {
            let (out_grad, data, attributes) = (g.id(), data.id(), averaging.clone());
            at.build(&AvgPool2dGrad { out_grad, data, attributes })
        };
        at.to(0, |g| {
            let forward = |data: Term<'_>| {
                at.build(&AvgPool2d { data: data.id(), attributes: averaging[0].clone() })
            };
            let backward: [&dyn Fn(_, _) -> _; 2] =
                [&|g, data| back(&averaging[0], g, data), &|g, data| back(&averaging[1], g, data)];
            pull_by_planes(g, op.data, forward, backward)
        });
    }
}

impl MaxPool2d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<MaxPool2d<Term<'_>>>() else { return };
        at.to(0, |g| {
            let (out_grad, data) = (g.id(), op.data.id());
            at.build(&MaxPool2dGrad { out_grad, data, attributes: op.attributes })
        });
    }
}

impl AvgPool2d<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<AvgPool2d<Term<'_>>>() else { return };
        at.to(0, |g| {
            let (out_grad, data) = (g.id(), op.data.id());
            at.build(&AvgPool2dGrad { out_grad, data, attributes: op.attributes })
        });
    }
}

impl MaxPool2dGrad<Term<'_>> {
    /// It adds the element of each window to the place of its largest element. So the change of that element is what
    /// stands there in the change of the result: the first of the places of a window that holds the largest one.
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<MaxPool2dGrad<Term<'_>>>() else { return };
        let layouts = &op.attributes.layouts;
        let is_usual = layouts.layout == data_order(2)
            && (layouts.out_layout.is_empty() || layouts.out_layout == layouts.layout);
        let (Ok(pool), true) = (op.pool(), is_usual) else { return at.refuse("this layout") };
        at.to(0, |g| {
            let attributes = op.attributes.clone();
            let largest = at.build(&MaxPool2d { data: op.data.id(), attributes });
            let (input, output) = (op.data.shape(), largest.shape());
            let reach = margins(&pool.steps, &input[2..], &output[2..], &pool.sizes);
            let around = |term: Term<'_>, number: f64| {
                let width = |reach: &Reach| vec![reach.before, reach.after.max(0)];
                let pad_width = [vec![0, 0], vec![0, 0]].into_iter().chain(reach.iter().map(width));
                let (data, pad_value) = (term.id(), term.number(number).id());
                let (pad_width, pad_mode) = (pad_width.collect(), "constant".to_string());
                at.build(&Pad { data, pad_value, pad_width, pad_mode })
            };
            let (data, change) = (around(op.data, f64::NEG_INFINITY), around(g, 0.0));
            let taps = (0..pool.sizes[0]).flat_map(|y| (0..pool.sizes[1]).map(move |x| [y, x]));
            let tap = |term: Term<'_>, place: &[i64; 2]| {
                let strides: Vec<i64> = pool.steps.iter().map(|step| step.stride).collect();
                let first = pool.steps.iter().zip(place).map(|(step, place)| step.dilation * place);
                let first: Vec<i64> = first.collect();
                let end = |axis: usize| first[axis] + (output[axis + 2] - 1) * strides[axis] + 1;
                let slice = StridedSlice {
                    data: term.id(),
                    begin: Integers(vec![0, 0, first[0], first[1]]),
                    end: Integers(vec![output[0], output[1], end(0), end(1)]),
                    strides: Some(Integers(vec![1, 1, strides[0], strides[1]])),
                    slice_mode: SliceMode::End,
                    axes: None,
                };
                at.build(&slice)
            };
            // From the last place to the first, so that the first one counts.
            taps.rev().fold(largest.like(0.0), |found, place| {
                tap(data, &place).equal(largest).choose(tap(change, &place), found)
            })
        });
    }
}

impl AvgPool2dGrad<Term<'_>> {
    fn pull(at: &Pullback<'_>) {
        let Some(op) = at.fields::<AvgPool2dGrad<Term<'_>>>() else { return };
        // Of the data, only the shape matters.
        at.to(0, |g| at.build(&AvgPool2d { data: g.id(), attributes: op.attributes }));
    }
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<MaxPool1d>();
    registry.op::<MaxPool2d>();
    registry.op::<MaxPool3d>();
    registry.op::<AvgPool1d>();
    registry.op::<AvgPool2d>();
    registry.op::<AvgPool3d>();
    registry.op::<MaxPool2dGrad>();
    registry.op::<AvgPool2dGrad>();
}
