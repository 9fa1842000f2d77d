//! Sampling an image where a grid says: `image.grid_sample`.

use ir_core::{DType, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};
use relay::define::{
    Define, DefineCx, Defined, Operand, Tap, reals_of, resampled, stage_taps, taps_at,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Expression;
use te::scalar::ScalarOp;

use crate::FusionPattern::Opaque;
use crate::attributes::keywords;
use crate::elements;
use crate::relation::{self, Dims};

keywords! {
    /// How a value between pixels is made.
    GridMethod {
        /// The nearest pixel; of two, the one with the even place.
        Nearest = "nearest",
        /// Linear interpolation of the two neighbours on every axis.
        Bilinear = "bilinear",
        /// Cubic convolution of the four neighbours on every axis, with the parameter -3/4.
        Bicubic = "bicubic",
    }
}

keywords! {
    /// What stands for pixels outside of the image.
    GridPadding {
        /// 0.
        Zeros = "zeros",
        /// The pixel at the border.
        Border = "border",
        /// The image, reflected at its border as often as it takes.
        Reflection = "reflection",
    }
}

/// An image sampled at the places of a grid: `out[n, c, …] = data[n, c, at grid[n, :, …]]`.
///
/// Places are from -1 to 1 along each axis of the image, which are its outermost pixels with
/// `align_corners`, else the borders of these. Places are computed in the element type of `grid`,
/// values as those of the image, of integers in `float64`, which truncate. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.image.grid_sample",
    infer = infer_grid_sample,
    hooks(
        Opaque,
        Evaluate(|cx| evaluate_grid_sample(&cx.fields()?, cx)),
        Define(define_grid_sample)
    )
)]
pub struct GridSample<V = ValueId> {
    /// An image (N, C, H, W), or one of 1 to 5 spatial axes.
    pub data: V,
    /// Places, shape (N, spatial axes, …) of as many axes as `data`: those along the last axis of the
    /// image come first.
    pub grid: V,
    /// "nearest", "bilinear" or "bicubic", on any number of axes.
    #[default(GridMethod::Bilinear)]
    pub method: GridMethod,
    /// What stands for pixels outside of the image.
    #[default(GridPadding::Zeros)]
    pub padding_mode: GridPadding,
    /// Whether -1 and 1 are the outermost pixels.
    #[default(true)]
    pub align_corners: bool,
}

fn infer_grid_sample(_op: GridSample<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, grid) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(grid)?;
    let axes = data.rank().checked_sub(2).filter(|axes| (1..=MOST_AXES).contains(axes));
    let Some(axes) = axes else {
        return Err(Stop::Error(format!(
            "expected an image of rank at least 3, found {}",
            data.rank()
        )));
    };
    relation::expect_rank(grid, data.rank())?;
    let batch = relation::equal_dim(cx, data.shape[0], grid.shape[0])?;
    relation::equal_dim(cx, grid.shape[1], (axes as i64).into())?;
    if data.shape[2..].iter().any(|dim| dim.known() == Some(0)) {
        return Err(Stop::error("expected an image with pixels, found none"));
    }
    let shape = [batch, data.shape[1]].into_iter().chain(grid.shape[2..].iter().copied());
    Ok(Type::tensor(shape.collect::<Dims>(), data.dtype))
}

/// A pixel is made of up to four along each axis, so that there are not many axes.
const MOST_AXES: usize = 5;

/// Pixels along an axis with their weights; one that is outside is `None`.
type Taps = Vec<(Option<usize>, f64)>;

/// How places along an axis of `extent` pixels are sampled.
struct Axis {
    extent: i64,
    method: GridMethod,
    padding: GridPadding,
    align_corners: bool,
    /// Whether places are rounded to `float32`.
    single: bool,
}

impl Axis {
    fn rounded(&self, value: f64) -> f64 {
        if self.single { f64::from(value as f32) } else { value }
    }

    /// The place from -1 to 1 in pixels.
    fn place(&self, at: f64) -> f64 {
        let (extent, moved) = (self.extent as f64, self.rounded(at + 1.0));
        match self.align_corners {
            true => self.rounded(self.rounded(moved / 2.0) * (extent - 1.0)),
            false => self.rounded(self.rounded(moved * extent) - 1.0) / 2.0,
        }
    }

    /// The border, first and last.
    fn border(&self) -> (f64, f64) {
        match self.align_corners {
            true => (0.0, (self.extent - 1) as f64),
            false => (-0.5, self.extent as f64 - 0.5),
        }
    }

    /// `place` reflected at the border until it is inside.
    fn reflected(&self, place: f64) -> f64 {
        let (first, last) = self.border();
        let range = last - first;
        if range <= 0.0 {
            return first;
        }
        let (beyond, from_first) = match place {
            _ if place < first => (first - place, true),
            _ if place > last => (place - last, false),
            _ => return place,
        };
        let turns = (beyond / range).floor();
        let rest = beyond - turns * range;
        match from_first == (turns % 2.0 == 0.0) {
            true => first + rest,
            false => last - rest,
        }
    }

    /// The pixel at a whole place.
    fn pixel(&self, place: f64) -> Option<usize> {
        let last = (self.extent - 1) as f64;
        let inside = match self.padding {
            GridPadding::Zeros if !(0.0..=last).contains(&place) => return None,
            GridPadding::Zeros => place,
            GridPadding::Border => place,
            GridPadding::Reflection => self.reflected(place).trunc(),
        };
        // What is no number is no place: the first pixel stands for it.
        Some(inside.clamp(0.0, last) as usize)
    }

    fn taps(&self, at: f64) -> Taps {
        let mut place = self.place(at);
        if self.method == GridMethod::Nearest {
            place = place.round_ties_even();
        }
        let (first, last) = self.border();
        if !(first..=last).contains(&place) {
            place = match self.padding {
                GridPadding::Zeros => place,
                GridPadding::Border => place.clamp(0.0, (self.extent - 1) as f64),
                GridPadding::Reflection => self.reflected(place),
            };
        }
        let (low, part) = (place.floor(), place - place.floor());
        match self.method {
            GridMethod::Nearest => vec![(self.pixel(place.trunc()), 1.0)],
            GridMethod::Bilinear => {
                vec![(self.pixel(low), 1.0 - part), (self.pixel(low + 1.0), part)]
            }
            GridMethod::Bicubic => {
                let steps = [-1.0, 0.0, 1.0, 2.0];
                steps.map(|step| (self.pixel(low + step), cubic(step - part))).to_vec()
            }
        }
    }
}

impl Axis {
    /// As [`place`](Axis::place), in the element type of `at`.
    fn define_place(&self, e: &mut Expression<'_>, at: ValueId) -> ValueId {
        let mut number = |value: f64| e.number_like(at, value);
        let (one, two, extent) = (number(1.0), number(2.0), number(self.extent as f64));
        let last = number((self.extent - 1) as f64);
        let moved = e.add(at, one);
        if self.align_corners {
            let part = e.div(moved, two);
            return e.mul(part, last);
        }
        let scaled = e.mul(moved, extent);
        let centered = e.sub(scaled, one);
        e.div(centered, two)
    }

    /// As [`reflected`](Axis::reflected), in `float64`.
    fn define_reflected(&self, e: &mut Expression<'_>, place: ValueId) -> ValueId {
        let (first, last) = self.border();
        let range = last - first;
        let mut number = |value: f64| e.number(DType::FLOAT64, value);
        let two = number(2.0);
        let (first, last, length) = (number(first), number(last), number(range));
        if range <= 0.0 {
            return first;
        }
        let (before, after) = (e.lt(place, first), e.gt(place, last));
        let (to_first, to_last) = (e.sub(first, place), e.sub(place, last));
        let beyond = e.select(before, to_first, to_last);
        let turns = e.div(beyond, length);
        let turns = e.scalar(ScalarOp::Floor, &[turns]);
        let whole = e.mul(turns, length);
        let rest = e.sub(beyond, whole);
        let pairs = e.div(turns, two);
        let floor = e.scalar(ScalarOp::Floor, &[pairs]);
        let (even, odd) = (e.eq(floor, pairs), e.lt(floor, pairs));
        let from_first = e.select(before, even, odd);
        let (up, down) = (e.add(first, rest), e.sub(last, rest));
        let inside = e.select(from_first, up, down);
        let outside = e.or(before, after);
        e.select(outside, inside, place)
    }

    /// As [`pixel`](Axis::pixel), -1 where it is outside, and whether it is inside where that is asked.
    fn define_pixel(&self, e: &mut Expression<'_>, place: ValueId) -> (ValueId, Option<ValueId>) {
        let last = (self.extent - 1) as f64;
        let inside = match self.padding {
            GridPadding::Zeros | GridPadding::Border => place,
            GridPadding::Reflection => {
                let reflected = self.define_reflected(e, place);
                e.scalar(ScalarOp::Trunc, &[reflected])
            }
        };
        let (zero, last) = (e.number(DType::FLOAT64, 0.0), e.number(DType::FLOAT64, last));
        // Comparisons with what is no number do not hold: the first pixel stands for it.
        let (after, before) = (e.ge(inside, zero), e.le(inside, last));
        let below = e.select(before, inside, last);
        let clamped = e.select(after, below, zero);
        let pixel = e.cast(clamped, DType::INT64);
        if self.padding != GridPadding::Zeros {
            return (pixel, None);
        }
        let (within, none) = (e.and(after, before), e.index(-1));
        (e.select(within, pixel, none), Some(within))
    }

    /// As [`taps`](Axis::taps).
    fn define_taps(&self, e: &mut Expression<'_>, at: ValueId) -> Vec<Tap> {
        let place = self.define_place(e, at);
        let mut place = e.cast(place, DType::FLOAT64);
        if self.method == GridMethod::Nearest {
            place = e.scalar(ScalarOp::RoundEven, &[place]);
        }
        let (first, last) = self.border();
        let mut number = |value: f64| e.number(DType::FLOAT64, value);
        let (first, last, zero) = (number(first), number(last), number(0.0));
        let most = number((self.extent - 1) as f64);
        place = match self.padding {
            GridPadding::Zeros => place,
            GridPadding::Border => {
                let (before, after) = (e.lt(place, first), e.gt(place, last));
                let (below, above) = (e.lt(place, zero), e.gt(place, most));
                let clamped = e.select(below, zero, place);
                let clamped = e.select(above, most, clamped);
                let outside = e.or(before, after);
                e.select(outside, clamped, place)
            }
            GridPadding::Reflection => self.define_reflected(e, place),
        };
        if self.method == GridMethod::Nearest {
            let pixel = e.scalar(ScalarOp::Trunc, &[place]);
            return vec![(self.define_pixel(e, pixel).0, None)];
        }
        let low = e.scalar(ScalarOp::Floor, &[place]);
        let part = e.sub(place, low);
        let steps = match self.method {
            GridMethod::Bicubic => -1..=2,
            GridMethod::Nearest | GridMethod::Bilinear => 0..=1,
        };
        let tap = |step: i32| {
            let step = e.number(DType::FLOAT64, f64::from(step));
            let place = e.add(low, step);
            let (pixel, within) = self.define_pixel(e, place);
            let distance = e.sub(step, part);
            let distance = e.scalar(ScalarOp::Abs, &[distance]);
            let weight = match self.method {
                GridMethod::Bicubic => define_cubic(e, distance),
                GridMethod::Nearest | GridMethod::Bilinear => {
                    let one = e.number(DType::FLOAT64, 1.0);
                    e.sub(one, distance)
                }
            };
            // Outside is 0, whatever the weight.
            let zero = e.number(DType::FLOAT64, 0.0);
            (pixel, Some(within.map_or(weight, |within| e.select(within, weight, zero))))
        };
        steps.map(tap).collect()
    }
}

/// As [`cubic`], of a distance of at least 0.
fn define_cubic(e: &mut Expression<'_>, distance: ValueId) -> ValueId {
    // Horner's scheme on the coefficients from the highest.
    let mut polynomial = |coefficients: [f64; 4]| {
        let mut value = e.number(DType::FLOAT64, coefficients[0]);
        for coefficient in &coefficients[1..] {
            let product = e.mul(value, distance);
            let coefficient = e.number(DType::FLOAT64, *coefficient);
            value = e.add(product, coefficient);
        }
        value
    };
    let near = polynomial([CUBIC + 2.0, -(CUBIC + 3.0), 0.0, 1.0]);
    let far = polynomial([CUBIC, -5.0 * CUBIC, 8.0 * CUBIC, -4.0 * CUBIC]);
    let one = e.number(DType::FLOAT64, 1.0);
    let is_near = e.le(distance, one);
    e.select(is_near, near, far)
}

/// Definitions write out at most so many pixels for one of the result.
const MOST_TAPS: usize = 64;

fn define_grid_sample(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<GridSample<Operand>>()?;
    let (data, grid, (_, dtype)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let spatial = data.shape[2..].to_vec();
    let single = grid.dtype != DType::FLOAT64;
    let mut domain = vec![grid.shape[0]];
    domain.extend_from_slice(&grid.shape[2..]);
    let (real, exact) = match op.method {
        GridMethod::Nearest => (dtype, true),
        _ => (reals_of(dtype), false),
    };
    let mut stages = Vec::new();
    for (number, &extent) in spatial.iter().enumerate() {
        let axis = Axis {
            extent,
            method: op.method,
            padding: op.padding_mode,
            align_corners: op.align_corners,
            single,
        };
        stages.push(stage_taps(cx, &domain, if exact { DType::FLOAT64 } else { real }, |e, i| {
            // The last axis of the image comes first.
            let mut at = vec![i[0], e.index((spatial.len() - 1 - number) as i64)];
            at.extend_from_slice(&i[1..]);
            let at = e.load(&grid, &at);
            let at = e.cast(at, if single { DType::FLOAT32 } else { DType::FLOAT64 });
            axis.define_taps(e, at)
        }));
    }
    if stages.iter().map(Vec::len).product::<usize>() > MOST_TAPS {
        return Err(format!("expected at most {MOST_TAPS} pixels for one of the result"));
    }
    cx.compute(|e, i| {
        let mut at = vec![i[0]];
        at.extend_from_slice(&i[2..]);
        let taps: Vec<Vec<Tap>> = stages.iter().map(|stages| taps_at(e, stages, &at)).collect();
        let value = resampled(e, real, &taps, |e, places| {
            let zero = e.index(0);
            // Where an image ends is nothing to predict: a pixel is read in any case.
            let is_clamped = op.padding_mode == GridPadding::Zeros;
            let mut pixel = |place: &ValueId| match is_clamped {
                true => e.scalar(ScalarOp::Max, &[*place, zero]),
                false => *place,
            };
            let clamped: Vec<ValueId> = places.iter().map(&mut pixel).collect();
            let place: Vec<ValueId> = i[..2].iter().copied().chain(clamped).collect();
            let value = e.load(&data, &place);
            let within = places.iter().map(|place| e.ge(*place, zero)).collect::<Vec<_>>();
            let within = within.into_iter().reduce(|a, b| e.and(a, b));
            match within.filter(|_| is_clamped) {
                Some(within) => {
                    let outside = e.number(dtype, 0.0);
                    e.select(within, value, outside)
                }
                None => value,
            }
        });
        e.cast(value, dtype)
    })
}

/// The parameter of cubic convolution.
const CUBIC: f64 = -0.75;

/// The weight of a pixel at this distance in cubic convolution (Keys 1981).
fn cubic(distance: f64) -> f64 {
    let d = distance.abs();
    match d {
        _ if d <= 1.0 => ((CUBIC + 2.0) * d - (CUBIC + 3.0)) * d * d + 1.0,
        _ => ((CUBIC * d - 5.0 * CUBIC) * d + 8.0 * CUBIC) * d - 4.0 * CUBIC,
    }
}

fn evaluate_grid_sample(op: &GridSample<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_grid_sample)?;
    let (data, grid) = (cx.tensor(0)?, cx.tensor(1)?);
    let (channels, spatial) = (shape[1] as usize, &data.shape()[2..]);
    let axes = spatial.iter().map(|extent| Axis {
        extent: *extent,
        method: op.method,
        padding: op.padding_mode,
        align_corners: op.align_corners,
        single: grid.dtype() != DType::FLOAT64,
    });
    let axes: Vec<Axis> = axes.collect();
    let (image, pixels) = (spatial.iter().product::<i64>() as usize, elements::count(&shape[2..])?);
    let strides = elements::strides(spatial);
    let (source, places) = (data.to_f64(), grid.to_f64());
    let mut out = vec![Scalar::Int(0); elements::count(&shape)?];
    for batch in 0..shape[0] as usize {
        for pixel in 0..pixels {
            // Pixels of the image by their offset, and their weights.
            let mut taps = vec![(Some(0usize), 1.0)];
            for (index, axis) in axes.iter().enumerate() {
                let row = batch * axes.len() + axes.len() - 1 - index;
                let along = axis.taps(places[row * pixels + pixel]);
                let stride = strides[index] as usize;
                let joined = taps.iter().flat_map(|(offset, weight)| {
                    along.iter().map(move |(place, by)| {
                        (offset.zip(*place).map(|(o, p)| o + p * stride), weight * by)
                    })
                });
                taps = joined.collect();
            }
            for channel in 0..channels {
                let start = (batch * channels + channel) * image;
                // Outside is 0, whatever the weight.
                let value = |(offset, weight): &(Option<usize>, f64)| {
                    offset.map_or(0.0, |offset| source[start + offset] * weight)
                };
                let sampled = match (op.method, taps[0].0) {
                    // Nothing is computed with the nearest pixel.
                    (GridMethod::Nearest, Some(offset)) => data.element(start + offset),
                    _ => Some(Scalar::Float(taps.iter().map(value).sum())),
                };
                let sampled = sampled.expect(elements::WITHIN);
                out[(batch * channels + channel) * pixels + pixel] = sampled;
            }
        }
    }
    Ok(TensorData::from_scalars(data.dtype(), &shape, out)?.into())
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<GridSample>();
}
