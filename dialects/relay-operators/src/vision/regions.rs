//! Pooling of regions of interest.

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand, resampled, stage_taps, sums_of, taps_at};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression};
use te::scalar::ScalarOp;

use crate::FusionPattern::Opaque;
use crate::attributes::{Integers, keywords};
use crate::elements;
use crate::relation;

keywords! {
    /// What becomes of the samples of a bin.
    RoiMode {
        /// Their mean.
        Avg = "avg",
        /// The greatest part of a pixel in them.
        Max = "max",
    }
}

/// Regions of images as images of one size, sampled between pixels (He et al., arXiv 1703.06870).
///
/// A region is divided into `pooled_size` bins, and a bin into `sample_ratio` by `sample_ratio` places,
/// or as many as it has pixels where that is 0. A place has the value that linear interpolation gives;
/// more than a pixel outside of the image it is 0. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vision.roi_align",
    infer = |op: RoiAlign<Type>, cx: &mut InferCx<'_>| infer_regions(cx, &op.pooled_size),
    hooks(
        Opaque,
        Evaluate(|cx| evaluate_roi_align(&cx.fields()?, cx)),
        Define(define_roi_align)
    )
)]
pub struct RoiAlign<V = ValueId> {
    /// Images, floats of shape (N, C, H, W).
    pub data: V,
    /// Regions, floats of shape (regions, 5): the place of the image, and the first and the last corner,
    /// x, y, x, y.
    pub rois: V,
    /// Height and width of the result.
    pub pooled_size: Integers,
    /// What corners are multiplied with.
    pub spatial_scale: f64,
    /// Places in a bin along an axis; 0 means as many as there are pixels, rounded up.
    #[default(0)]
    pub sample_ratio: i64,
    /// "avg" or "max".
    #[default(RoiMode::Avg)]
    pub mode: RoiMode,
    /// Whether corners are those of pixels, which are half a pixel from their centers; else regions
    /// have at least a pixel.
    #[default(false)]
    pub aligned: bool,
}

/// Regions of images as images of one size: each bin has its greatest pixel (Girshick, arXiv
/// 1504.08083).
///
/// Corners are rounded to whole pixels. A bin without pixels is 0. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vision.roi_pool",
    infer = |op: RoiPool<Type>, cx: &mut InferCx<'_>| infer_regions(cx, &op.pooled_size),
    hooks(Opaque, Evaluate(|cx| evaluate_roi_pool(&cx.fields()?, cx)))
)]
pub struct RoiPool<V = ValueId> {
    /// Images, floats of shape (N, C, H, W).
    pub data: V,
    /// Regions, floats of shape (regions, 5): the place of the image, and the first and the last corner,
    /// x, y, x, y.
    pub rois: V,
    /// Height and width of the result.
    pub pooled_size: Integers,
    /// What corners are multiplied with.
    pub spatial_scale: f64,
}

fn infer_regions(cx: &mut InferCx<'_>, size: &Integers) -> Result<Type, Stop> {
    let (data, rois) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(data)?;
    relation::expect_rank(data, 4)?;
    relation::expect_floats(rois)?;
    relation::expect_rank(rois, 2)?;
    relation::equal_dim(cx, rois.shape[1], Dim::Known(5))?;
    let &[height, width] = size.0.as_slice() else {
        return Err(Stop::Error(format!("expected a size of two extents, found {:?}", size.0)));
    };
    if height < 1 || width < 1 {
        return Err(Stop::Error(format!("expected extents of at least 1, found {:?}", size.0)));
    }
    if data.shape[2..].iter().any(|dim| dim.known() == Some(0)) {
        return Err(Stop::error("expected images with pixels, found none"));
    }
    let shape = [rois.shape[0], data.shape[1], Dim::Known(height), Dim::Known(width)];
    Ok(Type::tensor(shape, data.dtype))
}

/// The shape of the result, the images, the regions, and for each of them the place of its image.
struct Regions {
    shape: elements::Shape,
    data: Vec<f64>,
    height: usize,
    width: usize,
    rois: Vec<f64>,
    images: Vec<usize>,
}

impl Regions {
    fn of(cx: &EvalCx<'_>, size: &Integers) -> Result<Regions, EvalError> {
        let types = [cx.tensor(0)?.ty(), cx.tensor(1)?.ty()];
        let ty = infer_regions(&mut InferCx::new(&types, cx.attrs), size)?;
        let shape = relay::interpreter::shape_of(ty)?;
        let (data, rois) = (cx.tensor(0)?, cx.tensor(1)?.to_f64());
        let batch = data.shape()[0];
        let mut images = Vec::new();
        for region in rois.chunks(5) {
            match (0.0..batch as f64).contains(&region[0]) {
                true => images.push(region[0] as usize),
                false => {
                    let message = format!("expected an image below {batch}, found {}", region[0]);
                    return Err(EvalError(message));
                }
            }
        }
        let (height, width) = (data.shape()[2] as usize, data.shape()[3] as usize);
        Ok(Regions { shape, data: data.to_f64(), height, width, rois, images })
    }

    /// Writes `value` of each channel's pixels, region, row and column of the result.
    fn write(
        &self,
        cx: &EvalCx<'_>,
        value: impl Fn(&[f64], &[f64], usize, usize) -> f64,
    ) -> Result<Value, EvalError> {
        let mut out = Vec::with_capacity(elements::count(&self.shape)?);
        let pixels = self.height * self.width;
        let channels = self.shape[1] as usize;
        for (region, image) in self.rois.chunks(5).zip(&self.images) {
            for channel in 0..channels {
                let plane = &self.data[(image * channels + channel) * pixels..][..pixels];
                for row in 0..self.shape[2] as usize {
                    for column in 0..self.shape[3] as usize {
                        out.push(value(plane, region, row, column));
                    }
                }
            }
        }
        Ok(TensorData::from_f64(cx.tensor(0)?.dtype(), &self.shape, &out)?.into())
    }
}

/// A bin has at most so many places along an axis: regions may be of any size.
const MOST_SAMPLES: f64 = 1024.0;

/// What linear interpolation takes at `place`: two pixels of `extent` and their weights; `None` more
/// than a pixel outside.
fn neighbours(place: f64, extent: usize) -> Option<[(usize, f64); 2]> {
    if !(-1.0..=extent as f64).contains(&place) {
        return None;
    }
    let (place, last) = (place.max(0.0), extent - 1);
    let low = place as usize;
    if low >= last {
        return Some([(last, 1.0), (last, 0.0)]);
    }
    let part = place - low as f64;
    Some([(low, 1.0 - part), (low + 1, part)])
}

fn evaluate_roi_align(op: &RoiAlign<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let regions = Regions::of(cx, &op.pooled_size)?;
    let bins = [regions.shape[2] as f64, regions.shape[3] as f64];
    let (height, width) = (regions.height, regions.width);
    let offset = if op.aligned { 0.5 } else { 0.0 };
    // By axis, the first place of a bin, the distance of places, and their number.
    let places = |region: &[f64], axis: usize, bin: usize| {
        // Corners are x, y, and axes rows, columns.
        let corner = |which: usize| region[1 + 2 * which + (1 - axis)] * op.spatial_scale - offset;
        let (first, last) = (corner(0), corner(1));
        let length = if op.aligned { last - first } else { (last - first).max(1.0) };
        let size = length / bins[axis];
        let count = match op.sample_ratio {
            1.. => op.sample_ratio as f64,
            _ => size.ceil(),
        };
        let count = count.max(0.0);
        let step = size / count;
        (first + bin as f64 * size + 0.5 * step, step, count as usize)
    };
    for region in regions.rois.chunks(5) {
        for axis in 0..2 {
            let (_, _, count) = places(region, axis, 0);
            if count as f64 > MOST_SAMPLES {
                let message =
                    format!("expected bins of at most {MOST_SAMPLES} places, found {count}");
                return Err(EvalError(message));
            }
        }
    }
    regions.write(cx, |plane, region, row, column| {
        let (y0, y_step, rows) = places(region, 0, row);
        let (x0, x_step, columns) = places(region, 1, column);
        let (mut sum, mut greatest) = (0.0, None::<f64>);
        for y in (0..rows).map(|at| y0 + at as f64 * y_step) {
            for x in (0..columns).map(|at| x0 + at as f64 * x_step) {
                let parts = neighbours(y, height).zip(neighbours(x, width));
                let parts = parts.map(|(rows, columns)| {
                    let pairs = rows.map(|row| columns.map(|column| (row, column)));
                    pairs
                        .as_flattened()
                        .iter()
                        .map(|((y, by), (x, bx))| plane[y * width + x] * (by * bx))
                        .collect::<Vec<f64>>()
                });
                let parts = parts.unwrap_or_else(|| vec![0.0]);
                sum += parts.iter().sum::<f64>();
                greatest = greatest.into_iter().chain(parts).reduce(greater);
            }
        }
        match op.mode {
            RoiMode::Avg => sum / (rows * columns).max(1) as f64,
            RoiMode::Max => greatest.unwrap_or(0.0),
        }
    })
}

/// The greater number; what is no number where one is none.
fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

/// A bin of fixed places is a sum over these; how many there are otherwise depends on the regions.
fn define_roi_align(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<RoiAlign<Operand>>()?;
    let (data, rois, (shape, dtype)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let ratio = op.sample_ratio;
    if ratio < 1 {
        return Err("expected a fixed number of places in a bin".to_string());
    }
    if ratio as f64 > MOST_SAMPLES {
        return Err(format!("expected bins of at most {MOST_SAMPLES} places, found {ratio}"));
    }
    let real = sums_of(dtype);
    let name = cx.stage_of("images");
    let images = cx.builder.compute(&name, &rois.shape[..1], |e, i| {
        let first = e.index(0);
        let image = e.load(&rois, &[i[0], first]);
        let image = e.cast(image, DType::FLOAT64);
        let (zero, batch) = (e.number(DType::FLOAT64, 0.0), data.shape[0]);
        let end = e.number(DType::FLOAT64, batch as f64);
        let (after, before) = (e.ge(image, zero), e.lt(image, end));
        let inside = e.and(after, before);
        let image = e.select(inside, image, zero);
        let image = e.cast(image, DType::INT64);
        e.check(inside, image, first, format!("expected an image below {batch}"))
    });
    let mean = op.mode == RoiMode::Avg;
    // The greatest part of a pixel is one of twice as many places: each is a pixel.
    let candidates = if mean { ratio } else { 2 * ratio };
    let mut stages = Vec::new();
    for axis in 0..2 {
        let (bins, extent) = (shape[2 + axis], data.shape[2 + axis]);
        // Corners are x, y, and axes rows, columns.
        let corners = [2 - axis as i64, 4 - axis as i64];
        stages.push(stage_taps(cx, &[shape[0], bins, candidates], real, |e, i| {
            let number = |e: &mut Expression<'_>, value: f64| e.number(DType::FLOAT64, value);
            let corner = |e: &mut Expression<'_>, place: i64| {
                let place = e.index(place);
                let corner = e.load(&rois, &[i[0], place]);
                let corner = e.cast(corner, DType::FLOAT64);
                let scale = number(e, op.spatial_scale);
                let offset = number(e, if op.aligned { 0.5 } else { 0.0 });
                let scaled = e.mul(corner, scale);
                e.sub(scaled, offset)
            };
            let (first, last) = (corner(e, corners[0]), corner(e, corners[1]));
            let mut length = e.sub(last, first);
            if !op.aligned {
                let one = number(e, 1.0);
                length = e.max(length, one);
            }
            let (count, places) = (number(e, bins as f64), number(e, ratio as f64));
            let size = e.div(length, count);
            let step = e.div(size, places);
            let two = e.index(2);
            let at = if mean { i[2] } else { e.scalar(ScalarOp::FloorDiv, &[i[2], two]) };
            let (bin, at) = (e.cast(i[1], DType::FLOAT64), e.cast(at, DType::FLOAT64));
            let half = number(e, 0.5);
            let to_bin = e.mul(bin, size);
            let begin = e.add(first, to_bin);
            let to_center = e.mul(half, step);
            let center = e.add(begin, to_center);
            let to_place = e.mul(at, step);
            let place = e.add(center, to_place);
            let taps = define_neighbours(e, place, extent);
            if mean {
                return taps.map(|(pixel, weight)| (pixel, Some(weight))).to_vec();
            }
            let [(low, low_weight), (high, high_weight)] = taps;
            let (which, none) = (e.scalar(ScalarOp::FloorMod, &[i[2], two]), e.index(0));
            let is_low = e.eq(which, none);
            let weight = e.select(is_low, low_weight, high_weight);
            vec![(e.select(is_low, low, high), Some(weight))]
        }));
    }
    let combiner = if mean { Combiner::Sum } else { Combiner::Max };
    let name = cx.stage_of("places");
    let samples =
        cx.builder.reduce(&name, &shape, &[candidates, candidates], combiner, |e, i, r| {
            let image = e.load(&images, &i[..1]);
            let rows = taps_at(e, &stages[0], &[i[0], i[2], r[0]]);
            let columns = taps_at(e, &stages[1], &[i[0], i[3], r[1]]);
            resampled(e, real, &[rows, columns], |e, at| {
                let none = e.index(0);
                let inside = (e.ge(at[0], none), e.ge(at[1], none));
                let inside = e.and(inside.0, inside.1);
                let outside = e.number(dtype, 0.0);
                e.load_if(inside, &data, &[image, i[1], at[0], at[1]], outside)
            })
        });
    cx.compute(|e, i| {
        let mut value = e.load(&samples, i);
        if mean {
            let count = e.number(real, (ratio * ratio) as f64);
            value = e.div(value, count);
        }
        e.cast(value, dtype)
    })
}

/// As [`neighbours`]; more than a pixel outside, they are -1 and have the weight 0.
fn define_neighbours(
    e: &mut Expression<'_>,
    place: ValueId,
    extent: i64,
) -> [(ValueId, ValueId); 2] {
    let mut number = |value: f64| e.number(DType::FLOAT64, value);
    let (zero, one, before) = (number(0.0), number(1.0), number(-1.0));
    let (end, last) = (number(extent as f64), number((extent - 1) as f64));
    let (after, until) = (e.ge(place, before), e.le(place, end));
    let inside = e.and(after, until);
    // What is no number is outside.
    let place = e.select(inside, place, zero);
    let place = e.max(place, zero);
    let place = e.min(place, last);
    let low = e.scalar(ScalarOp::Floor, &[place]);
    let part = e.sub(place, low);
    let rest = e.sub(one, part);
    let high = e.add(low, one);
    let high = e.min(high, last);
    let mut tap = |pixel: ValueId, weight: ValueId| {
        let (pixel, none) = (e.cast(pixel, DType::INT64), e.index(-1));
        (e.select(inside, pixel, none), e.select(inside, weight, zero))
    };
    [tap(low, rest), tap(high, part)]
}

fn evaluate_roi_pool(op: &RoiPool<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let regions = Regions::of(cx, &op.pooled_size)?;
    let bins = [regions.shape[2] as f64, regions.shape[3] as f64];
    let extents = [regions.height, regions.width];
    // The pixels of a bin along an axis.
    let pixels = |region: &[f64], axis: usize, bin: usize| {
        let corner = |which: usize| (region[1 + 2 * which + (1 - axis)] * op.spatial_scale).round();
        let (first, last) = (corner(0), corner(1));
        let size = (last - first + 1.0).max(1.0) / bins[axis];
        let clamped = |place: f64| (place + first).clamp(0.0, extents[axis] as f64) as usize;
        clamped((bin as f64 * size).floor())..clamped(((bin + 1) as f64 * size).ceil())
    };
    regions.write(cx, |plane, region, row, column| {
        let columns = pixels(region, 1, column);
        let values = pixels(region, 0, row)
            .flat_map(|y| columns.clone().map(move |x| plane[y * extents[1] + x]));
        values.reduce(f64::max).unwrap_or(0.0)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<RoiAlign>();
    registry.op::<RoiPool>();
}
