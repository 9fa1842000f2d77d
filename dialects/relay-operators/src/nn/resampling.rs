//! Upsampling.

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, TensorType, Type, ValueId};
use relay::define::{
    Define, DefineCx, Defined, Index, Operand, Tap, resampled, stage_taps, taps_at,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::Expression;
use te::scalar::ScalarOp;

use super::numeric::{Number, result_shape, size};
use crate::layout::Layout;
use crate::{FusionPattern, LayoutRule};

/// Coefficient of the cubic kernel.
const CUBIC: f64 = -0.75;

/// How a place in the result maps to one in the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coordinates {
    /// The outermost elements stay outermost.
    AlignCorners,
    /// The first element stays first.
    Asymmetric,
    /// The outer borders of the outermost elements stay.
    HalfPixel,
}

/// How elements between those of the input are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Nearest,
    Linear,
    Cubic,
}

/// For every place along an axis of the result, elements of the input with their weights.
fn axis_weights(
    input: i64,
    output: i64,
    method: Method,
    coordinates: Coordinates,
) -> Vec<Vec<(usize, f64)>> {
    let clamp = |place: f64| (place.max(0.0) as i64).min(input - 1).max(0) as usize;
    (0..output)
        .map(|place| {
            let (x, n, m) = (place as f64, input as f64, output as f64);
            let source = match coordinates {
                Coordinates::AlignCorners => x * (n - 1.0) / (m - 1.0).max(1.0),
                Coordinates::Asymmetric => x * n / m,
                Coordinates::HalfPixel => (x + 0.5) * n / m - 0.5,
            };
            let low = source.floor();
            let t = source - low;
            match method {
                Method::Nearest if coordinates == Coordinates::AlignCorners => {
                    vec![(clamp((source + 0.5).floor()), 1.0)]
                }
                // The small summand keeps exact multiples on their element despite rounding.
                Method::Nearest => vec![(clamp((source + 1e-5).floor()), 1.0)],
                Method::Linear => vec![(clamp(low), 1.0 - t), (clamp(low + 1.0), t)],
                Method::Cubic => {
                    let near = |d: f64| ((CUBIC + 2.0) * d - (CUBIC + 3.0)) * d * d + 1.0;
                    let far =
                        |d: f64| ((CUBIC * d - 5.0 * CUBIC) * d + 8.0 * CUBIC) * d - 4.0 * CUBIC;
                    vec![
                        (clamp(low - 1.0), far(1.0 + t)),
                        (clamp(low), near(t)),
                        (clamp(low + 1.0), near(1.0 - t)),
                        (clamp(low + 2.0), far(2.0 - t)),
                    ]
                }
            }
        })
        .collect()
}

/// As [`axis_weights`], for the place `x` in the result.
fn axis_taps(
    e: &mut Expression<'_>,
    x: ValueId,
    (input, output): (i64, i64),
    method: Method,
    coordinates: Coordinates,
) -> Vec<Tap> {
    if input == output && coordinates != Coordinates::AlignCorners && method == Method::Nearest {
        return vec![(x, None)];
    }
    let (n, m) = (input as f64, output as f64);
    let number = |e: &mut Expression<'_>, value: f64| e.number(DType::FLOAT64, value);
    let x = e.cast(x, DType::FLOAT64);
    let scaled = |e: &mut Expression<'_>, x: ValueId, n: f64, m: f64| {
        let (n, m) = (number(e, n), number(e, m));
        let product = e.mul(x, n);
        e.div(product, m)
    };
    let source = match coordinates {
        Coordinates::AlignCorners => scaled(e, x, n - 1.0, (m - 1.0).max(1.0)),
        Coordinates::Asymmetric => scaled(e, x, n, m),
        Coordinates::HalfPixel => {
            let half = number(e, 0.5);
            let center = e.add(x, half);
            let center = scaled(e, center, n, m);
            e.sub(center, half)
        }
    };
    let floor = |e: &mut Expression<'_>, x: ValueId| e.scalar(ScalarOp::Floor, &[x]);
    let clamp = |e: &mut Expression<'_>, place: ValueId| {
        let (least, most) = (number(e, 0.0), e.index((input - 1).max(0)));
        let place = e.max(place, least);
        let place = e.cast(place, DType::INT64);
        e.min(place, most)
    };
    if method == Method::Nearest {
        // The small summand keeps exact multiples on their element despite rounding.
        let summand = if coordinates == Coordinates::AlignCorners { 0.5 } else { 1e-5 };
        let summand = number(e, summand);
        let place = e.add(source, summand);
        let place = floor(e, place);
        return vec![(clamp(e, place), None)];
    }
    let low = floor(e, source);
    let (t, one) = (e.sub(source, low), number(e, 1.0));
    let rest = e.sub(one, t);
    let neighbour = |e: &mut Expression<'_>, step: f64, weight: ValueId| {
        let step = number(e, step);
        let place = e.add(low, step);
        (clamp(e, place), Some(weight))
    };
    if method == Method::Linear {
        return vec![neighbour(e, 0.0, rest), neighbour(e, 1.0, t)];
    }
    // Horner's scheme on the coefficients from the highest.
    let polynomial = |e: &mut Expression<'_>, x: ValueId, coefficients: [f64; 4]| {
        let mut value = number(e, coefficients[0]);
        for coefficient in &coefficients[1..] {
            let (product, coefficient) = (e.mul(value, x), number(e, *coefficient));
            value = e.add(product, coefficient);
        }
        value
    };
    let near = [CUBIC + 2.0, -(CUBIC + 3.0), 0.0, 1.0];
    let far = [CUBIC, -5.0 * CUBIC, 8.0 * CUBIC, -4.0 * CUBIC];
    let (after, before) = (e.add(one, t), e.add(one, rest));
    let mut taps = Vec::new();
    let sides = [(-1.0, after, far), (0.0, t, near), (1.0, rest, near), (2.0, before, far)];
    for (step, distance, coefficients) in sides {
        let weight = polynomial(e, distance, coefficients);
        taps.push(neighbour(e, step, weight));
    }
    taps
}

fn define_resampling(
    cx: &mut DefineCx<'_>,
    layout: &str,
    spatial: &str,
    method: Method,
    coordinates: Coordinates,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    let (layout, order) = (Layout::parse(layout)?, format!("NC{spatial}"));
    let input = layout.logical_extents(&order, &data.shape)?;
    let output = layout.logical_extents(&order, &shape)?;
    let real = match method {
        Method::Nearest => dtype,
        _ if dtype.is_float() && dtype.bits() <= 32 => DType::FLOAT32,
        _ => DType::FLOAT64,
    };
    let mut stages = Vec::new();
    for extents in input.iter().copied().zip(output.iter().copied()).skip(2) {
        stages.push(stage_taps(cx, &[extents.1], real, |e, x| {
            axis_taps(e, x[0], extents, method, coordinates)
        }));
    }
    cx.compute(|e, i| {
        let out = layout.logical_indices(&order, &shape, i);
        let mut taps = Vec::new();
        for (stages, x) in stages.iter().zip(&out[2..]) {
            let x = x.value(e);
            taps.push(taps_at(e, stages, &[x]));
        }
        let value = resampled(e, real, &taps, |e, places| {
            let mut at = out[..2].to_vec();
            at.extend(places.iter().zip(&input[2..]).map(|(at, extent)| Index::new(*at, *extent)));
            let at = layout.physical_indices(e, &order, &at);
            e.load(&data, &at)
        });
        e.cast(value, dtype)
    })
}

/// Replaces `axis` of `data` by weighted sums along it.
fn resample_axis(
    shape: &mut [i64],
    data: &[f64],
    axis: usize,
    weights: &[Vec<(usize, f64)>],
) -> Vec<f64> {
    let inner = size(&shape[axis + 1..]);
    let block = inner * shape[axis] as usize;
    shape[axis] = weights.len() as i64;
    let mut out = Vec::with_capacity(size(shape));
    for source in data.chunks(block.max(1)) {
        for terms in weights {
            out.extend((0..inner).map(|i| {
                terms.iter().map(|&(place, weight)| source[place * inner + i] * weight).sum::<f64>()
            }));
        }
    }
    out
}

/// Enlarges images `(N, C, H, W)` to `(N, C, H * scale_h, W * scale_w)`, extents rounded.
///
/// `nearest_neighbor` repeats elements, `bilinear` and `bicubic` interpolate between them. Relay
/// operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.upsampling",
    infer = upsampling_relation,
    hooks(
        FusionPattern::Injective,
        LayoutRule::Named { blocks: true },
        Evaluate(evaluate_upsampling),
        Define(define_upsampling)
    )
)]
pub struct Upsampling<V = ValueId> {
    /// The input, in `layout`.
    pub data: V,
    /// Factor of the height.
    #[default(1.0)]
    pub scale_h: f64,
    /// Factor of the width.
    #[default(1.0)]
    pub scale_w: f64,
    /// Layout of input and result.
    #[default("NCHW".to_string())]
    pub layout: String,
    /// `nearest_neighbor`, `bilinear` or `bicubic`.
    #[default("nearest_neighbor".to_string())]
    pub method: String,
    /// Whether the outermost elements stay outermost; else the first element stays first.
    #[default(false)]
    pub align_corners: bool,
}

/// Enlarges volumes `(N, C, D, H, W)` by a factor per spatial axis, extents rounded.
///
/// `nearest_neighbor` repeats elements, `trilinear` interpolates between them. Relay operator
/// level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.upsampling3d",
    infer = upsampling3d_relation,
    hooks(
        FusionPattern::Injective,
        LayoutRule::Named { blocks: true },
        Evaluate(evaluate_upsampling3d),
        Define(define_upsampling3d)
    )
)]
pub struct Upsampling3d<V = ValueId> {
    /// The input, in `layout`.
    pub data: V,
    /// Factor of the depth.
    #[default(1.0)]
    pub scale_d: f64,
    /// Factor of the height.
    #[default(1.0)]
    pub scale_h: f64,
    /// Factor of the width.
    #[default(1.0)]
    pub scale_w: f64,
    /// Layout of input and result.
    #[default("NCDHW".to_string())]
    pub layout: String,
    /// `nearest_neighbor` or `trilinear`.
    #[default("nearest_neighbor".to_string())]
    pub method: String,
    /// How places map: `half_pixel` (outer borders stay), `align_corners` (outermost elements
    /// stay) or `asymmetric` (the first element stays).
    #[default("half_pixel".to_string())]
    pub coordinate_transformation_mode: String,
}

fn method(name: &str, known: &[(&str, Method)]) -> Result<Method, String> {
    known.iter().find(|(known, _)| *known == name).map(|(_, method)| *method).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("expected `method` {}, found `{name}`", known.join(" or "))
    })
}

const METHODS_2D: &[(&str, Method)] = &[
    ("nearest_neighbor", Method::Nearest),
    ("bilinear", Method::Linear),
    ("bicubic", Method::Cubic),
];

const METHODS_3D: &[(&str, Method)] =
    &[("nearest_neighbor", Method::Nearest), ("trilinear", Method::Linear)];

fn coordinates(name: &str) -> Result<Coordinates, String> {
    match name {
        "half_pixel" => Ok(Coordinates::HalfPixel),
        "align_corners" => Ok(Coordinates::AlignCorners),
        "asymmetric" => Ok(Coordinates::Asymmetric),
        _ => Err(format!(
            "expected `coordinate_transformation_mode` half_pixel, align_corners or asymmetric, \
             found `{name}`"
        )),
    }
}

/// The type of `data` with its spatial axes, named by `spatial`, enlarged by `scales`.
fn scaled(data: &TensorType, layout: &str, spatial: &str, scales: &[f64]) -> Result<Type, String> {
    let layout = Layout::parse(layout)?;
    let order = format!("NC{spatial}");
    let mut extents = layout.logical(&order, &data.shape)?;
    for (dim, &scale) in extents[2..].iter_mut().zip(scales) {
        if !(scale > 0.0 && scale <= f64::from(i32::MAX)) {
            return Err(format!("expected a positive scale, found {scale}"));
        }
        *dim = match *dim {
            Dim::Known(extent) => Dim::Known((extent as f64 * scale).round() as i64),
            dim if scale.fract() == 0.0 => {
                Dim::binary(ir_core::DimOp::Mul, dim, Dim::Known(scale as i64))
            }
            _ => Dim::Any,
        };
    }
    Ok(Type::tensor(layout.physical(&order, &extents)?, data.dtype))
}

fn upsampling_relation(op: Upsampling<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    method(&op.method, METHODS_2D)?;
    Ok(scaled(cx.tensor(0)?, &op.layout, "HW", &[op.scale_h, op.scale_w])?)
}

fn upsampling3d_relation(op: Upsampling3d<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    method(&op.method, METHODS_3D)?;
    coordinates(&op.coordinate_transformation_mode)?;
    let scales = [op.scale_d, op.scale_h, op.scale_w];
    Ok(scaled(cx.tensor(0)?, &op.layout, "DHW", &scales)?)
}

fn resample<T: Op>(
    cx: &EvalCx<'_>,
    layout: &str,
    spatial: &str,
    method: Method,
    coordinates: Coordinates,
) -> Result<Value, EvalError> {
    let (shape, dtype) = result_shape::<T>(cx)?;
    let data = cx.tensor(0)?;
    let (layout, order) = (Layout::parse(layout)?, format!("NC{spatial}"));
    // Nothing is computed with the nearest elements, so that their places are resampled.
    let picks = method == Method::Nearest;
    let numbers = match picks {
        true => (0..data.len()).map(|place| place as f64).collect(),
        false => data.to_f64(),
    };
    let (mut extents, mut elements) = layout.unpack(&order, data.shape(), numbers)?;
    let output = layout.logical_extents(&order, &shape)?;
    for axis in 2..extents.len() {
        let weights = axis_weights(extents[axis], output[axis], method, coordinates);
        elements = resample_axis(&mut extents, &elements, axis, &weights);
    }
    let (shape, elements) = layout.pack(&order, &extents, elements)?;
    if !picks {
        return f64::write(dtype, &shape, &elements);
    }
    let picked = elements.iter().filter_map(|place| data.element(*place as usize));
    Ok(TensorData::from_scalars(dtype, &shape, picked)?.into())
}

fn evaluate_upsampling(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Upsampling<Value>>()?;
    let coordinates = match op.align_corners {
        true => Coordinates::AlignCorners,
        false => Coordinates::Asymmetric,
    };
    resample::<Upsampling>(cx, &op.layout, "HW", method(&op.method, METHODS_2D)?, coordinates)
}

fn evaluate_upsampling3d(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Upsampling3d<Value>>()?;
    let coordinates = coordinates(&op.coordinate_transformation_mode)?;
    resample::<Upsampling3d>(cx, &op.layout, "DHW", method(&op.method, METHODS_3D)?, coordinates)
}

fn define_upsampling(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Upsampling<Operand>>()?;
    let coordinates = match op.align_corners {
        true => Coordinates::AlignCorners,
        false => Coordinates::Asymmetric,
    };
    define_resampling(cx, &op.layout, "HW", method(&op.method, METHODS_2D)?, coordinates)
}

fn define_upsampling3d(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Upsampling3d<Operand>>()?;
    let coordinates = coordinates(&op.coordinate_transformation_mode)?;
    define_resampling(cx, &op.layout, "DHW", method(&op.method, METHODS_3D)?, coordinates)
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Upsampling>();
    registry.op::<Upsampling3d>();
}
