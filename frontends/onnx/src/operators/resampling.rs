//! Resizing along one axis after the other, as sums of elements that are known places apart: what the
//! operators on images cannot do.

use ir_core::DType;

use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, few};

/// How an axis is resized.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Which.
    pub(super) axis: usize,
    /// Its extent.
    pub(super) from: i64,
    /// That of the result.
    pub(super) to: i64,
    /// By what places are divided; the quotient of the extents only where these say so.
    pub(super) scale: f64,
    /// The first and the last part of the axis, for `tf_crop_and_resize`.
    pub(super) region: (f64, f64),
}

/// How elements are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method<'a> {
    pub(super) mode: Mode<'a>,
    pub(super) transformation: &'a str,
    pub(super) antialias: bool,
    /// Whether places outside take no part.
    pub(super) excludes: bool,
}

/// What elements are made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode<'a> {
    /// The nearest one, as this rounds.
    Nearest(&'a str),
    /// The two next to it.
    Linear,
    /// The four next to it, with this coefficient.
    Cubic(f64),
}

/// Elements of an axis with their weights.
type Taps = Vec<(i64, f64)>;

impl Axis {
    /// Whether nothing changes along it.
    pub(super) fn is_kept(&self, method: &Method<'_>) -> bool {
        let is_whole = method.transformation != "tf_crop_and_resize" || self.region == (0.0, 1.0);
        self.from == self.to && (self.scale - 1.0).abs() < 1e-9 && is_whole
    }

    /// Where element `at` of the result stands.
    fn place(&self, at: i64, transformation: &str) -> f64 {
        let (x, from) = (at as f64, self.from as f64);
        let width = self.scale * from;
        let half = (x + 0.5) / self.scale - 0.5;
        match transformation {
            "align_corners" if width == 1.0 => 0.0,
            "align_corners" => x * (from - 1.0) / (width - 1.0),
            "asymmetric" => x / self.scale,
            "pytorch_half_pixel" if width == 1.0 => -0.5,
            // The middle stays in the middle, whatever is cut off.
            "half_pixel_symmetric" => from / 2.0 * (1.0 - self.to as f64 / width) + half,
            "tf_crop_and_resize" => {
                let (first, last) = self.region;
                let part = (last - first) * (from - 1.0);
                let moved = if width == 1.0 { part / 2.0 } else { x * part / (width - 1.0) };
                moved + first * (from - 1.0)
            }
            _ => half,
        }
    }

    /// Whether element `at` of the result stands outside of the axis.
    fn is_outside(&self, at: i64, transformation: &str) -> bool {
        let place = self.place(at, transformation);
        !(0.0..=(self.from - 1) as f64).contains(&place)
    }

    fn taps(&self, at: i64, method: &Method<'_>) -> Taps {
        let place = self.place(at, method.transformation);
        let (low, part) = (place.floor(), place - place.floor());
        let scale = if method.antialias { self.scale.min(1.0) } else { 1.0 };
        let cubic = |alpha: f64, distance: f64| {
            let d = distance.abs();
            match d {
                _ if d <= 1.0 => ((alpha + 2.0) * d - (alpha + 3.0)) * d * d + 1.0,
                _ if d < 2.0 => ((alpha * d - 5.0 * alpha) * d + 8.0 * alpha) * d - 4.0 * alpha,
                _ => 0.0,
            }
        };
        let reach = |radius: f64| ((radius / scale).ceil() as i64).clamp(1, MOST_REACH);
        let (radius, weight): (i64, &dyn Fn(f64) -> f64) = match method.mode {
            Mode::Nearest(rounding) => {
                let up = match rounding {
                    "round_prefer_ceil" => part >= 0.5,
                    "floor" => false,
                    "ceil" => part > 0.0,
                    _ => part > 0.5,
                };
                return vec![(self.inside(low as i64 + i64::from(up)), 1.0)];
            }
            Mode::Linear => (reach(1.0), &|distance| (1.0 - distance.abs()).max(0.0)),
            Mode::Cubic(alpha) => (reach(2.0), &move |distance| cubic(alpha, distance)),
        };
        let near = (1 - radius..=radius).map(|step| low as i64 + step);
        let weighed = near.map(|at| (at, weight((at as f64 - place) * scale)));
        let is_inside = |at: &i64| (0..self.from).contains(at);
        let kept = weighed.filter(|(at, _)| !method.excludes || is_inside(at));
        let mut taps: Taps = kept.filter(|(_, weight)| *weight != 0.0).collect();
        let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
        if method.excludes || method.antialias {
            taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        taps.iter_mut().for_each(|(at, _)| *at = self.inside(*at));
        taps
    }

    fn inside(&self, at: i64) -> i64 {
        at.clamp(0, self.from - 1)
    }
}

/// An element of the result is made of at most twice as many.
const MOST_REACH: i64 = 512;

/// `data` resized along `axes`; elements that stand outside are `beyond`, where that is given.
pub(super) fn resample(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    axes: &[Axis],
    method: &Method<'_>,
    beyond: Option<f64>,
) -> Result<Value, Fault> {
    let dtype = cx.dtype(data)?;
    let is_picked = matches!(method.mode, Mode::Nearest(_));
    let mut result = match is_picked || dtype.is_float() {
        true => data.clone(),
        false => cx.cast(data, DType::FLOAT32)?,
    };
    for axis in axes.iter().filter(|axis| !axis.is_kept(method)) {
        if axis.from < 1 {
            return Err("expected elements to resize, found none".into());
        }
        few("elements along an axis", &[axis.to])?;
        let taps: Vec<Taps> = (0..axis.to).map(|at| axis.taps(at, method)).collect();
        result = along(cx, &result, axis.axis, &taps)?;
    }
    if let Some(beyond) = beyond {
        let rank = cx.rank(&result)?;
        let beyond = cx.scalar_like(beyond, &result)?;
        for axis in axes {
            few("elements along an axis", &[axis.to])?;
            let outside = (0..axis.to).map(|at| axis.is_outside(at, method.transformation));
            let outside: Vec<i64> = outside.map(i64::from).collect();
            if outside.contains(&1) {
                let outside = cx.int_vector(&outside);
                let mut shape = vec![1; rank - axis.axis];
                shape[0] = axis.to;
                let outside = cx.reshape(&outside, &shape)?;
                let outside = cx.cast(&outside, DType::BOOL)?;
                result = cx.op("where", &[&outside, &beyond, &result])?;
            }
        }
    }
    cx.cast(&result, dtype)
}

/// `data` with element `at` of `axis` made of the elements `taps[at]`.
fn along(cx: &mut Cx<'_, '_>, data: &Value, axis: usize, taps: &[Taps]) -> Result<Value, Fault> {
    let rank = cx.rank(data)?;
    let most = taps.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut sum: Option<Value> = None;
    for tap in 0..most {
        // Where there are fewer, the first stands in, with the weight 0.
        let own = |taps: &Taps| match (taps.get(tap), taps.first()) {
            (Some(tap), _) => *tap,
            (None, Some((at, _))) => (*at, 0.0),
            (None, None) => (0, 0.0),
        };
        let (places, weights): (Vec<i64>, Vec<f64>) = taps.iter().map(own).unzip();
        let places = cx.int_vector(&places);
        let part = cx.op_with("take", &[data, &places], attr("axis", axis as i64))?;
        let part = match weights.iter().all(|weight| *weight == 1.0) {
            true => part,
            false => {
                let mut shape = vec![1; rank - axis];
                shape[0] = weights.len() as i64;
                let weights = cx.floats_like(&weights, &shape, data)?;
                cx.op("multiply", &[&part, &weights])?
            }
        };
        sum = Some(match sum {
            None => part,
            Some(sum) => cx.op("add", &[&sum, &part])?,
        });
    }
    sum.ok_or_else(|| Fault::from("expected elements to resize"))
}
