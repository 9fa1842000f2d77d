//! Image operators: `image.resize2d` ….

pub mod grid_sample;

use ir_core::{
    AttrGroup, DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId,
};
use relay::define::{
    Define, DefineCx, Defined, Operand, Tap, TapStages, resampled, stage_taps, taps_at,
};
use relay::interpreter::{EvalError, Evaluate, Value};

use te::compute::Expression;
use te::scalar::ScalarOp;

use super::FusionPattern::Injective;
use super::LayoutRule;
use super::attributes::{Integers, keywords};
use super::elements;
use super::relation::Dims;

keywords! {
    /// How a value between pixels is made.
    Method {
        /// The nearest pixel.
        Nearest = "nearest_neighbor",
        /// Linear interpolation of the two neighbours on every axis.
        Linear = "linear",
        /// Cubic convolution of the four neighbours on every axis.
        Cubic = "cubic",
    }
}

keywords! {
    /// Where the pixel `x` of a result of `n` pixels stands on an axis of `m` pixels.
    Transformation {
        /// `(x + 1/2) · m/n - 1/2`.
        HalfPixel = "half_pixel",
        /// `x · (m - 1) / (n - 1)`.
        AlignCorners = "align_corners",
        /// `x · m/n`.
        Asymmetric = "asymmetric",
        /// As `half_pixel`, but 0 where `n = 1`.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// `(x + 1/2) · m/n`.
        TfHalfPixelForNn = "tf_half_pixel_for_nn",
        /// Within the region of interest; pixels outside the image are `extrapolation_value`.
        TfCropAndResize = "tf_crop_and_resize",
    }
}

keywords! {
    /// Which pixel is the nearest.
    Rounding {
        /// The usual one: `floor`, or `round` with `align_corners`.
        Usual = "",
        /// Ties go away from zero.
        Round = "round",
        /// Ties go down.
        RoundPreferFloor = "round_prefer_floor",
        /// Ties go up.
        RoundPreferCeil = "round_prefer_ceil",
        /// The one below.
        Floor = "floor",
        /// The one above.
        Ceil = "ceil",
    }
}

/// How a pixel of a resized image is made.
#[derive(AttrGroup, Clone, Copy, Debug)]
pub struct Sampling {
    /// "nearest_neighbor", "linear" or "cubic".
    #[default(Method::Linear)]
    pub method: Method,
    /// Where a pixel of the result stands on the source.
    #[default(Transformation::HalfPixel)]
    pub coordinate_transformation_mode: Transformation,
    /// Which pixel is the nearest.
    #[default(Rounding::Round)]
    pub rounding_method: Rounding,
    /// The parameter of cubic convolution.
    #[default(-0.5)]
    pub cubic_alpha: f64,
    /// Whether cubic convolution leaves out pixels past an edge.
    #[default(0)]
    pub cubic_exclude: i64,
    /// Pixels outside of the image with "tf_crop_and_resize".
    #[default(0.0)]
    pub extrapolation_value: f64,
}

/// What the resizing operators have in common.
pub(super) struct Resize<'a> {
    pub(super) layout: &'a str,
    pub(super) sampling: Sampling,
    /// The region of interest: begins, then ends, of all spatial axes.
    pub(super) roi: &'a [f64],
}

/// The axes of a layout such as `NCHW` that stand for space, in the order depth, height, width.
/// Errors when it is not of so many spatial axes or not of the rank.
pub(super) fn spatial_axes(layout: &str, count: usize, rank: usize) -> Result<Vec<usize>, String> {
    let names = &["D", "H", "W"][3usize.saturating_sub(count)..];
    let axes: Option<Vec<usize>> = names.iter().map(|name| layout.find(name)).collect();
    let plain = layout.len() == rank && layout.chars().all(|c| c.is_ascii_uppercase());
    match axes.filter(|axes| plain && axes.len() == count) {
        Some(axes) => Ok(axes),
        None => Err(format!(
            "expected a layout of {rank} axes with {} among them, found \"{layout}\"",
            names.join(", ")
        )),
    }
}

/// The pixels of the source that a pixel of the result is made of, with weights. Empty outside the
/// region of interest.
type Taps = Vec<(usize, f64)>;

/// The shape with `size` on the spatial axes.
pub(super) fn infer_resized(
    cx: &InferCx<'_>,
    layout: &str,
    size: &[Dim],
    out_dtype: Option<DType>,
) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let axes = spatial_axes(layout, size.len(), data.rank())?;
    let mut shape: Dims = data.shape.clone();
    for (&axis, &extent) in axes.iter().zip(size) {
        if extent.known().is_some_and(|n| n < 1) {
            return Err(Stop::Error(format!("expected sizes of at least 1, found {extent}")));
        }
        shape[axis] = extent;
    }
    Ok(Type::tensor(shape, out_dtype.unwrap_or(data.dtype)))
}

impl Sampling {
    /// Whether cubic convolution leaves out pixels past an edge.
    fn excludes(&self) -> bool {
        self.cubic_exclude != 0
    }
}

/// Where the pixels of the result stand on the source along an axis.
enum Places {
    /// By stages, one element for each pixel.
    Table(TapStages),
    /// Each pixel of the source so often, one after the other.
    Quotient(i64),
}

impl Resize<'_> {
    /// `data` resized to `size` on the spatial axes. Weights are computed in `f64`; integers round
    /// to nearest. The nearest pixels stay as they are.
    pub(super) fn evaluate(
        &self,
        data: &TensorData,
        size: &[i64],
        out_dtype: Option<DType>,
    ) -> Result<Value, EvalError> {
        let dtype = out_dtype.unwrap_or(data.dtype());
        let axes = spatial_axes(self.layout, size.len(), data.rank())?;
        let mut resized_shape = data.shape().to_vec();
        for (&axis, &wanted) in axes.iter().zip(size) {
            resized_shape[axis] = wanted;
        }
        elements::count(&resized_shape)?;
        let from = data.dtype();
        // Nothing is computed with the nearest pixels, so that their places are resized.
        let picks = self.sampling.method == Method::Nearest && from == dtype;
        let mut values: Vec<f64> = match picks {
            true => (0..data.len()).map(|place| place as f64).collect(),
            false => data.elements().map(|v| elements::real(v, from)).collect(),
        };
        let mut shape = data.shape().to_vec();
        let mut outside = vec![false; values.len()];
        // The weights factor by axis, so one axis is resized after the other.
        for (number, &axis) in axes.iter().enumerate() {
            let (extent, wanted) = (shape[axis], size[number]);
            if wanted < 1 || extent < 1 {
                return Err(EvalError(format!(
                    "expected extents of at least 1, found {extent} resized to {wanted}"
                )));
            }
            elements::count(&[wanted])?;
            let region = self.region(number, size.len())?;
            let taps: Vec<Taps> =
                (0..wanted).map(|x| self.taps(x as f64, extent, wanted, region)).collect();
            let inner = elements::count(&shape[axis + 1..])?;
            let outer = elements::count(&shape[..axis])?;
            shape[axis] = wanted;
            let mut resized = Vec::with_capacity(elements::count(&shape)?);
            let mut missing = Vec::with_capacity(resized.capacity());
            for row in 0..outer {
                let start = row * extent as usize * inner;
                for taps in &taps {
                    for column in 0..inner {
                        let at = |tap: usize| start + tap * inner + column;
                        let sum: f64 = taps.iter().map(|&(x, w)| values[at(x)] * w).sum();
                        resized.push(sum);
                        missing.push(taps.is_empty() || taps.iter().any(|&(x, _)| outside[at(x)]));
                    }
                }
            }
            (values, outside) = (resized, missing);
        }
        let values = values.into_iter().zip(outside).map(|(value, outside)| {
            let pixel = if picks && !outside { data.element(value as usize) } else { None };
            let value = if outside { self.sampling.extrapolation_value } else { value };
            pixel.unwrap_or(Scalar::Float(if dtype.is_float() { value } else { value.round() }))
        });
        Ok(TensorData::from_scalars(dtype, &shape, values)?.into())
    }

    /// As [`evaluate`](Resize::evaluate), as tensor expressions.
    fn define(&self, cx: &mut DefineCx<'_>, size: &[i64]) -> Defined {
        let (data, (_, dtype)) = (cx.tensor(0)?, cx.result()?);
        let axes = spatial_axes(self.layout, size.len(), data.shape.len())?;
        let mut regions = Vec::new();
        for number in 0..axes.len() {
            regions.push(self.region(number, size.len())?);
        }
        let real = match data.dtype {
            from if from == dtype && self.sampling.method == Method::Nearest => dtype,
            from if from.is_float() && from.bits() <= 32 => DType::FLOAT32,
            _ => DType::FLOAT64,
        };
        let extents: Vec<(i64, i64)> =
            axes.iter().zip(size).map(|(axis, wanted)| (data.shape[*axis], *wanted)).collect();
        let mut stages = Vec::new();
        for (extents, region) in extents.iter().zip(&regions) {
            stages.push(match self.repeats(*extents) {
                Some(times) => Places::Quotient(times),
                None => Places::Table(stage_taps(cx, &[extents.1], real, |e, x| {
                    let place = self.define_place(e, x[0], *extents, *region);
                    self.define_taps(e, place, extents.0)
                })),
            });
        }
        cx.compute(|e, i| {
            let (mut taps, mut inside) = (Vec::new(), None);
            for (number, &axis) in axes.iter().enumerate() {
                let extents = extents[number];
                if self.sampling.coordinate_transformation_mode == Transformation::TfCropAndResize {
                    let place = self.define_place(e, i[axis], extents, regions[number]);
                    let last = (e.number(DType::FLOAT64, 0.0), real_of(e, extents.0 - 1));
                    let (after, before) = (e.ge(place, last.0), e.le(place, last.1));
                    let here = e.and(after, before);
                    inside = Some(inside.map_or(here, |inside| e.and(inside, here)));
                }
                taps.push(match &stages[number] {
                    Places::Table(stage) => taps_at(e, stage, &[i[axis]]),
                    Places::Quotient(times) => {
                        let times = e.index(*times);
                        vec![(e.floor_div(i[axis], times), None)]
                    }
                });
            }
            let value = resampled(e, real, &taps, |e, places| {
                let mut at = i.to_vec();
                for (place, &axis) in places.iter().zip(&axes) {
                    at[axis] = *place;
                }
                e.load(&data, &at)
            });
            let value = match dtype.is_float() || real == dtype {
                true => value,
                false => e.scalar(ScalarOp::Round, &[value]),
            };
            let value = e.cast(value, dtype);
            match inside {
                Some(inside) => {
                    let outside = self.sampling.extrapolation_value;
                    let outside = if dtype.is_float() { outside } else { outside.round() };
                    let outside = e.number(dtype, outside);
                    e.select(inside, value, outside)
                }
                None => value,
            }
        })
    }

    /// How often each pixel of the source stands in the result along an axis, one after the other, where
    /// that is all there is to it: the extent is a multiple, and no pixel lies near the middle of two. Such
    /// a place is a quotient, of which vectors are loaded as one.
    fn repeats(&self, (extent, wanted): (i64, i64)) -> Option<i64> {
        // With more, pixels come as near to the next one as the slack of rounding down.
        const MOST: i64 = 1024;
        if self.sampling.method != Method::Nearest || extent < 1 || wanted % extent != 0 {
            return None;
        }
        use Rounding::{Floor, Round, RoundPreferCeil, RoundPreferFloor, Usual};
        let rounding = self.sampling.rounding_method;
        let is_quotient = match self.sampling.coordinate_transformation_mode {
            Transformation::Asymmetric | Transformation::TfHalfPixelForNn => {
                matches!(rounding, Floor | Usual)
            }
            Transformation::HalfPixel | Transformation::PytorchHalfPixel => {
                matches!(rounding, Round | RoundPreferFloor | RoundPreferCeil)
            }
            Transformation::AlignCorners | Transformation::TfCropAndResize => false,
        };
        (is_quotient && (1..=MOST).contains(&(wanted / extent))).then_some(wanted / extent)
    }

    /// Where the pixel `x` of the result stands on the source, in `float64`.
    fn define_place(
        &self,
        e: &mut Expression<'_>,
        x: ValueId,
        (extent, wanted): (i64, i64),
        (begin, end): (f64, f64),
    ) -> ValueId {
        let (last, m, n) = ((extent - 1) as f64, extent as f64, wanted as f64);
        let x = e.cast(x, DType::FLOAT64);
        let number = |e: &mut Expression<'_>, value: f64| e.number(DType::FLOAT64, value);
        let scaled = |e: &mut Expression<'_>, x: ValueId, m: f64, n: f64| {
            let (m, n) = (number(e, m), number(e, n));
            let product = e.mul(x, m);
            e.div(product, n)
        };
        let half = number(e, 0.5);
        match self.sampling.coordinate_transformation_mode {
            Transformation::AlignCorners | Transformation::PytorchHalfPixel if wanted <= 1 => {
                number(e, 0.0)
            }
            Transformation::HalfPixel | Transformation::PytorchHalfPixel => {
                let center = e.add(x, half);
                let center = scaled(e, center, m, n);
                e.sub(center, half)
            }
            Transformation::AlignCorners => scaled(e, x, last, n - 1.0),
            Transformation::Asymmetric => scaled(e, x, m, n),
            Transformation::TfHalfPixelForNn => {
                let center = e.add(x, half);
                scaled(e, center, m, n)
            }
            Transformation::TfCropAndResize if wanted > 1 => {
                let (length, last) = (number(e, end - begin), number(e, last));
                let (first, rest) = (number(e, begin), number(e, n - 1.0));
                let first = e.mul(first, last);
                let product = e.mul(x, length);
                let product = e.mul(product, last);
                let distance = e.div(product, rest);
                e.add(first, distance)
            }
            Transformation::TfCropAndResize => number(e, 0.5 * (begin + end) * last),
        }
    }

    /// The pixels that the one at `place` is made of.
    fn define_taps(&self, e: &mut Expression<'_>, place: ValueId, extent: i64) -> Vec<Tap> {
        let number = |e: &mut Expression<'_>, value: f64| e.number(DType::FLOAT64, value);
        let pixel = |e: &mut Expression<'_>, x: ValueId| {
            let (least, most) = (number(e, 0.0), real_of(e, (extent - 1).max(0)));
            let x = e.max(x, least);
            let x = e.min(x, most);
            e.cast(x, DType::INT64)
        };
        if self.sampling.method == Method::Nearest {
            const SLACK: f64 = 1e-5;
            let (summand, op) = match self.sampling.rounding_method {
                Rounding::Usual
                    if self.sampling.coordinate_transformation_mode
                        == Transformation::AlignCorners =>
                {
                    (0.0, ScalarOp::Round)
                }
                Rounding::Round => (0.0, ScalarOp::Round),
                Rounding::RoundPreferFloor => (-0.5, ScalarOp::Ceil),
                Rounding::RoundPreferCeil => (0.5, ScalarOp::Floor),
                Rounding::Usual | Rounding::Floor => (SLACK, ScalarOp::Floor),
                Rounding::Ceil => (-SLACK, ScalarOp::Ceil),
            };
            let summand = number(e, summand);
            let place = e.add(place, summand);
            let nearest = e.scalar(op, &[place]);
            return vec![(pixel(e, nearest), None)];
        }
        let low = e.scalar(ScalarOp::Floor, &[place]);
        let one = number(e, 1.0);
        if self.sampling.method == Method::Linear {
            let (part, high) = (e.sub(place, low), e.add(low, one));
            let rest = e.sub(one, part);
            return vec![(pixel(e, low), Some(rest)), (pixel(e, high), Some(part))];
        }
        let mut taps: Vec<Tap> = Vec::new();
        for step in -1..=2 {
            let step = number(e, f64::from(step));
            let x = e.add(low, step);
            let distance = e.sub(place, x);
            let mut weight = self.define_weight(e, distance);
            if self.sampling.excludes() {
                let (first, last) = (number(e, 0.0), real_of(e, extent - 1));
                let (after, before) = (e.ge(x, first), e.le(x, last));
                let kept = e.and(after, before);
                weight = e.select(kept, weight, first);
            }
            taps.push((pixel(e, x), Some(weight)));
        }
        if self.sampling.excludes() {
            let weights = taps.iter().filter_map(|(_, weight)| *weight);
            let sum = weights.reduce(|a, b| e.add(a, b));
            for (_, weight) in &mut taps {
                *weight = weight.zip(sum).map(|(weight, sum)| e.div(weight, sum));
            }
        }
        taps
    }

    /// The weight of cubic convolution at `distance`.
    fn define_weight(&self, e: &mut Expression<'_>, distance: ValueId) -> ValueId {
        let a = self.sampling.cubic_alpha;
        let number = |e: &mut Expression<'_>, value: f64| e.number(DType::FLOAT64, value);
        let d = e.scalar(ScalarOp::Abs, &[distance]);
        // Horner's scheme on the coefficients from the highest.
        let polynomial = |e: &mut Expression<'_>, coefficients: [f64; 4]| {
            let mut value = number(e, coefficients[0]);
            for coefficient in &coefficients[1..] {
                let (product, coefficient) = (e.mul(value, d), number(e, *coefficient));
                value = e.add(product, coefficient);
            }
            value
        };
        let near = polynomial(e, [a + 2.0, -(a + 3.0), 0.0, 1.0]);
        let far = polynomial(e, [a, -5.0 * a, 8.0 * a, -4.0 * a]);
        let (zero, one, two) = (number(e, 0.0), number(e, 1.0), number(e, 2.0));
        let (is_near, is_far) = (e.le(d, one), e.lt(d, two));
        let far = e.select(is_far, far, zero);
        e.select(is_near, near, far)
    }

    /// Begin and end of the region of interest on a spatial axis, as parts of the whole.
    fn region(&self, number: usize, count: usize) -> Result<(f64, f64), EvalError> {
        if self.sampling.coordinate_transformation_mode != Transformation::TfCropAndResize {
            return Ok((0.0, 1.0));
        }
        match (self.roi.get(number), self.roi.get(number + count)) {
            (Some(&begin), Some(&end)) => Ok((begin, end)),
            _ => Err(EvalError(format!(
                "expected a region of {} numbers, found {}",
                2 * count,
                self.roi.len()
            ))),
        }
    }

    fn taps(&self, x: f64, extent: i64, wanted: i64, (begin, end): (f64, f64)) -> Taps {
        let (last, m, n) = ((extent - 1) as f64, extent as f64, wanted as f64);
        let place = match self.sampling.coordinate_transformation_mode {
            Transformation::HalfPixel => (x + 0.5) * m / n - 0.5,
            Transformation::AlignCorners if wanted > 1 => x * last / (n - 1.0),
            Transformation::AlignCorners => 0.0,
            Transformation::Asymmetric => x * m / n,
            Transformation::PytorchHalfPixel if wanted > 1 => (x + 0.5) * m / n - 0.5,
            Transformation::PytorchHalfPixel => 0.0,
            Transformation::TfHalfPixelForNn => (x + 0.5) * m / n,
            Transformation::TfCropAndResize if wanted > 1 => {
                begin * last + x * (end - begin) * last / (n - 1.0)
            }
            Transformation::TfCropAndResize => 0.5 * (begin + end) * last,
        };
        if self.sampling.coordinate_transformation_mode == Transformation::TfCropAndResize
            && !(0.0..=last).contains(&place)
        {
            return Taps::new();
        }
        let pixel = |x: f64| x.clamp(0.0, last.max(0.0)) as usize;
        match self.sampling.method {
            Method::Nearest => vec![(pixel(self.nearest(place)), 1.0)],
            Method::Linear => {
                let part = place - place.floor();
                vec![(pixel(place.floor()), 1.0 - part), (pixel(place.floor() + 1.0), part)]
            }
            Method::Cubic => self.cubic_taps(place, last, pixel),
        }
    }

    fn nearest(&self, place: f64) -> f64 {
        // A place that should be an integer may be off by rounding.
        const SLACK: f64 = 1e-5;
        match self.sampling.rounding_method {
            Rounding::Usual
                if self.sampling.coordinate_transformation_mode == Transformation::AlignCorners =>
            {
                place.round()
            }
            Rounding::Round => place.round(),
            Rounding::RoundPreferFloor => (place - 0.5).ceil(),
            Rounding::RoundPreferCeil => (place + 0.5).floor(),
            Rounding::Usual | Rounding::Floor => (place + SLACK).floor(),
            Rounding::Ceil => (place - SLACK).ceil(),
        }
    }

    /// Cubic convolution (Keys 1981) with the parameter `cubic_alpha`.
    fn cubic_taps(&self, place: f64, last: f64, pixel: impl Fn(f64) -> usize) -> Taps {
        let a = self.sampling.cubic_alpha;
        let weight = |distance: f64| {
            let d = distance.abs();
            match d {
                _ if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
                _ if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
                _ => 0.0,
            }
        };
        let mut taps = Taps::new();
        for step in -1..=2 {
            let x = place.floor() + f64::from(step);
            let kept = !self.sampling.excludes() || (0.0..=last).contains(&x);
            taps.push((pixel(x), if kept { weight(place - x) } else { 0.0 }));
        }
        if self.sampling.excludes() {
            let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
            taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        taps
    }
}

/// Declares resizing operators.
macro_rules! resizes {
    ($($(#[doc = $doc:tt])* $name:ident $text:tt $axes:literal $layout:literal;)*) => { $(
        $(#[doc = $doc])*
        ///
        /// Every pixel of the result is placed on the source by
        /// `coordinate_transformation_mode` and made from its neighbours by `method`; pixels past
        /// an edge are those at the edge. Relay operator level 5.
        #[derive(Op, Clone, Debug)]
        #[op(
            name = $text,
            infer = |op: $name<Type>, cx: &mut InferCx<'_>| {
                let size = op.sizes()?;
                let size: Dims = size.into_iter().map(Dim::Known).collect();
                infer_resized(cx, &op.layout, &size, op.out_dtype)
            },
            hooks(Injective, LayoutRule::Named { blocks: false }, Evaluate(|cx| {
                let op = cx.fields::<$name<Value>>()?;
                op.resize().evaluate(cx.tensor(0)?, &op.sizes()?, op.out_dtype)
            }), Define(|cx| {
                let op = cx.fields::<$name<Operand>>()?;
                op.resize().define(cx, &op.sizes()?)
            }))
        )]
        pub struct $name<V = ValueId> {
            /// An image in `layout`.
            pub data: V,
            /// Extents of the spatial axes of the result.
            pub size: Integers,
            /// The region of interest for "tf_crop_and_resize": the begins of all spatial axes,
            /// then the ends, as parts of the whole.
            #[default(None)]
            pub roi: Option<Vec<f64>>,
            /// The order of the axes.
            #[default($layout.to_string())]
            pub layout: String,
            /// How a pixel of the result is made.
            #[flatten]
            pub sampling: Sampling,
            /// Element type of the result; none means that of `data`.
            #[default(None)]
            pub out_dtype: Option<DType>,
        }

        impl<V> $name<V> {
            fn resize(&self) -> Resize<'_> {
                let roi = self.roi.as_deref().unwrap_or_default();
                Resize { layout: &self.layout, sampling: self.sampling, roi }
            }

            fn sizes(&self) -> Result<Vec<i64>, String> {
                match self.size.0.len() {
                    $axes => Ok(self.size.0.clone()),
                    found => Err(format!("expected a size of {} extents, found {found}", $axes)),
                }
            }
        }
    )* };
}

resizes! {
    /// A signal resized along its width.
    Resize1d "relay.image.resize1d" 1 "NCW";
    /// An image resized along its height and width.
    Resize2d "relay.image.resize2d" 2 "NCHW";
    /// A volume resized along its depth, height and width.
    Resize3d "relay.image.resize3d" 3 "NCDHW";
}

/// The number `value` as a real.
fn real_of(e: &mut Expression<'_>, value: i64) -> ValueId {
    e.number(DType::FLOAT64, value as f64)
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Resize1d>();
    registry.op::<Resize2d>();
    registry.op::<Resize3d>();
    grid_sample::register(registry);
}
