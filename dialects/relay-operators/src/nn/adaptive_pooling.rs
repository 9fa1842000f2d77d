//! Pools to a given extent: adaptive and global ones.

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorType, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Index, Operand, means_of, strided};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression};

use super::numeric::{Number, dispatch, result_shape, size};
use super::pooling::{MaxPool2dGrad, PoolLayouts, Windowing};
use super::window::{data_order, least, per_axis};
use crate::gradient::{Gradient, Pullback, Term};
use crate::layout::Layout;
use crate::{FusionPattern, LayoutRule};

/// What the attributes of an adaptive or global pool say.
struct AdaptivePool {
    /// The order of the axes that is computed in.
    order: String,
    maximum: bool,
    /// Spatial extents of the result; empty for those of the input.
    output_size: Vec<i64>,
    layout: Layout,
    out_layout: Layout,
}

/// Declares a pool to the extents that the attribute `output_size` says, or, where it is not named, to
/// extents of 1; what is before the name is its doc comment.
macro_rules! adaptive_pool {
    (
        $(#[doc = $doc:tt])*
        $name:ident = $text:tt, $rank:literal, maximum = $maximum:literal, $($output_size:ident)?
    ) => {
        #[derive(Op, Clone, Debug)]
        $(#[doc = $doc])*
        #[op(
            name = $text,
            infer = $name::infer,
            hooks(
                FusionPattern::OutFusable,
                LayoutRule::Named { blocks: true }, Evaluate($name::evaluate),
                Gradient(|at| {
                    if let Some(op) = at.fields::<$name<Term<'_>>>() {
                        pull_whole(at, $maximum, op.layouts);
                    }
                }),
                Define($name::define)
            )
        )]
        pub struct $name<V = ValueId> {
            /// The input, in `layout`.
            pub data: V,
            $(
                /// Spatial extents of the result: one for all axes, or one per axis; those of the
                /// input where empty.
                #[default(vec![])]
                pub $output_size: Vec<i64>,
            )?
            /// What the layouts are.
            #[flatten]
            pub layouts: PoolLayouts<$rank>,
        }

        impl<V> $name<V> {
            fn pool(&self) -> Result<AdaptivePool, String> {
                let sizes: &[&[i64]] = &[$(&self.$output_size,)? &[1; $rank]];
                AdaptivePool::new($maximum, sizes[0], &self.layouts)
            }
        }

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
                op.define(cx)
            }
        }
    };
}

adaptive_pool! {
    /// The mean over all spatial positions.
    ///
    /// `out[n, c, 0, 0] = mean_{y, x} data[n, c, y, x]`: data `(N, C, H, W)` gives `(N, C, 1, 1)`.
    /// Relay operator level 2.
    GlobalAvgPool2d = "relay.nn.global_avg_pool2d", 2, maximum = false,
}

adaptive_pool! {
    /// The largest element over all spatial positions.
    ///
    /// `out[n, c, 0, 0] = max_{y, x} data[n, c, y, x]`: data `(N, C, H, W)` gives `(N, C, 1, 1)`.
    /// Relay operator level 2.
    GlobalMaxPool2d = "relay.nn.global_max_pool2d", 2, maximum = true,
}

adaptive_pool! {
    /// The means over `output_size` parts of one axis.
    ///
    /// `out[n, c, x]` is the mean of `data[n, c, start..end]` with `start = x * W / OW` rounded
    /// down and `end = (x + 1) * W / OW` rounded up: data `(N, C, W)` gives `(N, C, OW)`. Relay
    /// operator level 10.
    AdaptiveAvgPool1d = "relay.nn.adaptive_avg_pool1d", 1, maximum = false, output_size
}

adaptive_pool! {
    /// The means over `output_size` parts of two axes.
    ///
    /// As `nn.adaptive_avg_pool1d` on data `(N, C, H, W)`. Relay operator level 10.
    AdaptiveAvgPool2d = "relay.nn.adaptive_avg_pool2d", 2, maximum = false, output_size
}

adaptive_pool! {
    /// The means over `output_size` parts of three axes.
    ///
    /// As `nn.adaptive_avg_pool1d` on data `(N, C, D, H, W)`. Relay operator level 10.
    AdaptiveAvgPool3d = "relay.nn.adaptive_avg_pool3d", 3, maximum = false, output_size
}

adaptive_pool! {
    /// The largest elements of `output_size` parts of one axis.
    ///
    /// `out[n, c, x]` is the maximum of `data[n, c, start..end]` with `start = x * W / OW` rounded
    /// down and `end = (x + 1) * W / OW` rounded up: data `(N, C, W)` gives `(N, C, OW)`. Relay
    /// operator level 10.
    AdaptiveMaxPool1d = "relay.nn.adaptive_max_pool1d", 1, maximum = true, output_size
}

adaptive_pool! {
    /// The largest elements of `output_size` parts of two axes.
    ///
    /// As `nn.adaptive_max_pool1d` on data `(N, C, H, W)`. Relay operator level 10.
    AdaptiveMaxPool2d = "relay.nn.adaptive_max_pool2d", 2, maximum = true, output_size
}

adaptive_pool! {
    /// The largest elements of `output_size` parts of three axes.
    ///
    /// As `nn.adaptive_max_pool1d` on data `(N, C, D, H, W)`. Relay operator level 10.
    AdaptiveMaxPool3d = "relay.nn.adaptive_max_pool3d", 3, maximum = true, output_size
}

impl AdaptivePool {
    fn new<const RANK: usize>(
        maximum: bool,
        output_size: &[i64],
        layouts: &PoolLayouts<RANK>,
    ) -> Result<AdaptivePool, String> {
        let (layout, out_layout) = layouts.read()?;
        let output_size = match output_size {
            [] => vec![],
            sizes => per_axis("output_size", sizes, RANK, 1)?,
        };
        Ok(AdaptivePool { order: data_order(RANK), maximum, output_size, layout, out_layout })
    }

    fn result(&self, data: &TensorType) -> Result<Type, String> {
        let mut extents = self.layout.logical(&self.order, &data.shape)?;
        if !self.output_size.is_empty() {
            extents.splice(2.., self.output_size.iter().map(|size| Dim::Known(*size)));
        }
        Ok(Type::tensor(self.out_layout.physical(&self.order, &extents)?, data.dtype))
    }
}

/// Row-major indices of the elements in the part of `input` that belongs to place `index` of
/// `output`.
fn part(input: &[i64], output: &[i64], index: usize) -> Vec<usize> {
    let mut rest = index as i64;
    let mut ranges = vec![0..0; input.len()];
    for axis in (0..input.len()).rev() {
        let (extent, parts) = (input[axis], output[axis]);
        let place = rest % parts;
        rest /= parts;
        ranges[axis] = place * extent / parts..((place + 1) * extent + parts - 1) / parts;
    }
    ranges.into_iter().zip(input).fold(vec![0], |elements, (range, &extent)| {
        let inner =
            |element: usize| range.clone().map(move |i| element * extent as usize + i as usize);
        elements.into_iter().flat_map(inner).collect()
    })
}

fn pool<T: Number>(
    op: &AdaptivePool,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let AdaptivePool { order, layout, out_layout, .. } = op;
    let (input, data) = layout.unpack(order, data.shape(), T::read(data))?;
    let output = out_layout.logical_extents(order, shape)?;
    let (in_size, out_size) = (size(&input[2..]), size(&output[2..]));
    let planes = size(&output[..2]);
    let mut result = vec![T::ZERO; size(&output)];
    for place in 0..out_size {
        let elements = part(&input[2..], &output[2..], place);
        for plane in 0..planes {
            let values = elements.iter().map(|&element| data[plane * in_size + element]);
            result[plane * out_size + place] = if op.maximum {
                values.fold(T::lowest(dtype), T::greater)
            } else {
                values.fold(T::ZERO, T::plus).over(elements.len().max(1) as i64)
            };
        }
    }
    let (shape, result) = out_layout.pack(order, &output, result)?;
    T::write(dtype, &shape, &result)
}

impl AdaptivePool {
    fn define(&self, cx: &mut DefineCx<'_>) -> Defined {
        let data = cx.tensor(0)?;
        let (shape, dtype) = cx.result()?;
        let AdaptivePool { order, layout, out_layout, .. } = self;
        let input = layout.logical_extents(order, &data.shape)?;
        let output = out_layout.logical_extents(order, &shape)?;
        let axes: Vec<(i64, i64)> =
            input[2..].iter().copied().zip(output[2..].iter().copied()).collect();
        let extents: Vec<i64> = axes.iter().map(|&(input, parts)| longest(input, parts)).collect();
        let outside = if self.maximum { least(dtype)? } else { ir_core::Scalar::Int(0) };
        let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let mut place = out_layout.logical_indices(order, &shape, i);
            let mut inside = None;
            for (axis, &(extent, parts)) in axes.iter().enumerate() {
                let part = place[axis + 2].value(e);
                let (begin, end) = bounds(e, part, extent, parts);
                let at = e.add(begin, r[axis]);
                if extent % parts != 0 {
                    let condition = e.lt(at, end);
                    inside = Some(inside.map_or(condition, |inside| e.and(inside, condition)));
                }
                place[axis + 2] = Index::new(at, extent);
            }
            let at = layout.physical_indices(e, order, &place);
            match inside {
                Some(inside) => {
                    let otherwise = e.constant(dtype, outside);
                    e.load_if(inside, &data, &at, otherwise)
                }
                None => e.load(&data, &at),
            }
        };
        if self.maximum {
            return cx.reduce(&extents, Combiner::Max, element);
        }
        // Sums of integers do not wrap.
        let sums = means_of(dtype);
        let name = cx.stage_of("sum");
        let sum = cx.builder.reduce(&name, &shape, &extents, Combiner::Sum, |e, i, r| {
            let x = element(e, i, r);
            e.cast(x, sums)
        });
        cx.compute(|e, i| {
            let x = e.load(&sum, i);
            let places = out_layout.logical_indices(order, &shape, i);
            let mut count = e.index(1);
            for (place, &(extent, parts)) in places[2..].iter().zip(&axes) {
                let inside = match extent % parts {
                    0 => e.index(extent / parts),
                    _ => {
                        let part = place.value(e);
                        let (begin, end) = bounds(e, part, extent, parts);
                        e.sub(end, begin)
                    }
                };
                count = e.mul(count, inside);
            }
            let one = e.index(1);
            let count = e.max(count, one);
            let count = e.cast(count, sums);
            let mean = e.div(x, count);
            e.cast(mean, dtype)
        })
    }
}

/// The most elements that one of `parts` parts of an axis has.
fn longest(extent: i64, parts: i64) -> i64 {
    let length = |part: i64| ((part + 1) * extent + parts - 1) / parts - part * extent / parts;
    (0..parts).map(length).max().unwrap_or(0)
}

/// Where the part `part` of an axis begins and ends.
fn bounds(e: &mut Expression<'_>, part: ValueId, extent: i64, parts: i64) -> (ValueId, ValueId) {
    if extent % parts == 0 {
        let length = extent / parts;
        return (e.mul_index(part, length), strided(e, part, length, length));
    }
    let by = e.index(parts);
    let begin = e.mul_index(part, extent);
    let end = e.add_index(begin, extent + parts - 1);
    (e.floor_div(begin, by), e.floor_div(end, by))
}

/// The rule of a pool whose one window is all of the input.
fn pull_whole<const RANK: usize>(at: &Pullback<'_>, maximum: bool, layouts: PoolLayouts<RANK>) {
    let (data, order) = (at.operand(0), data_order(RANK));
    let (shape, result) = (data.shape(), at.result().shape());
    let is_usual = |layout: &str| layout.is_empty() || layout == order;
    if !is_usual(&layouts.layout) || !is_usual(&layouts.out_layout) {
        return at.refuse("another layout than the usual one");
    }
    if result[2..].iter().any(|extent| *extent != 1) || (maximum && RANK != 2) {
        return at.refuse("windows that are a part of the input: write a pool with strides");
    }
    at.to(0, |g| {
        if !maximum {
            let share = 1.0 / shape[2..].iter().product::<i64>() as f64;
            return (g * share).broadcast(&shape);
        }
        let windows = Windowing {
            pool_size: shape[2..].to_vec(),
            strides: vec![1; 2],
            dilation: vec![1; 2],
            padding: vec![0; 2],
            layouts: PoolLayouts { layout: data_order(2), out_layout: String::new() },
            ceil_mode: false,
        };
        at.build(&MaxPool2dGrad { out_grad: g.id(), data: data.id(), attributes: windows })
    });
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<GlobalAvgPool2d>();
    registry.op::<GlobalMaxPool2d>();
    registry.op::<AdaptiveAvgPool1d>();
    registry.op::<AdaptiveAvgPool2d>();
    registry.op::<AdaptiveAvgPool3d>();
    registry.op::<AdaptiveMaxPool1d>();
    registry.op::<AdaptiveMaxPool2d>();
    registry.op::<AdaptiveMaxPool3d>();
}
