//! Suppression of boxes that overlap better ones.

use std::collections::BinaryHeap;

use ir_core::{DType, Dim, DimOp, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use crate::FusionPattern::Opaque;
use crate::elements::{self, order_key};
use crate::relation;

/// The boxes that stay, for every image and class: a tuple of
/// - the triples of image, class and box, `int64` of shape `(images · classes · boxes, 3)`, those that
///   stay first, in the order of images, classes, and falling scores; the others are 0,
/// - how many stay, `int64` of shape `(1,)`.
///
/// Boxes whose score is above `score_threshold` are taken in the order of falling scores, of equal
/// ones the first; a box stays where none that stays overlaps it by more than `iou_threshold`, as the
/// part of what they cover together. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.vision.all_class_non_max_suppression",
    infer = infer_suppression,
    hooks(Opaque, Evaluate(evaluate_suppression))
)]
pub struct NonMaxSuppression<V = ValueId> {
    /// Two opposite corners of each box, floats of shape (images, boxes, 4): y, x, y, x.
    pub boxes: V,
    /// The scores, floats of shape (images, classes, boxes).
    pub scores: V,
    /// The most boxes of a class in an image, an integer scalar.
    pub max_output_boxes_per_class: V,
    /// A float scalar.
    pub iou_threshold: V,
    /// A float scalar.
    pub score_threshold: V,
}

fn infer_suppression(_op: NonMaxSuppression<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (boxes, scores) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(boxes)?;
    relation::expect_floats(scores)?;
    relation::expect_rank(boxes, 3)?;
    relation::expect_rank(scores, 3)?;
    let images = relation::equal_dim(cx, boxes.shape[0], scores.shape[0])?;
    let count = relation::equal_dim(cx, boxes.shape[1], scores.shape[2])?;
    relation::equal_dim(cx, boxes.shape[2], Dim::Known(4))?;
    for (index, is_integer) in [(2, true), (3, false), (4, false)] {
        let scalar = cx.tensor(index)?;
        relation::expect_rank(scalar, 0)?;
        match is_integer {
            true => relation::expect_integers(scalar)?,
            false => relation::expect_floats(scalar)?,
        }
    }
    let rows = [scores.shape[1], count];
    let rows = rows.into_iter().fold(images, |all, dim| Dim::binary(DimOp::Mul, all, dim));
    let places = Type::tensor([rows, Dim::Known(3)], DType::INT64);
    Ok(Type::tuple([places, Type::tensor([1], DType::INT64)]))
}

/// A box by its lower and upper corner, and what it covers.
#[derive(Clone, Copy)]
struct Area {
    least: [f64; 2],
    most: [f64; 2],
    size: f64,
}

impl Area {
    fn of(corners: &[f64]) -> Area {
        let pair = |a: f64, b: f64| if a <= b { (a, b) } else { (b, a) };
        let ((y0, y1), (x0, x1)) = (pair(corners[0], corners[2]), pair(corners[1], corners[3]));
        Area { least: [y0, x0], most: [y1, x1], size: (y1 - y0) * (x1 - x0) }
    }

    /// What both cover, as a part of what they cover together; 0 where one is empty.
    fn overlap(&self, other: &Area) -> f64 {
        let side = |axis: usize| {
            let least = greater(self.least[axis], other.least[axis]);
            greater(-greater(-self.most[axis], -other.most[axis]) - least, 0.0)
        };
        // Whether boxes are apart is not foreseen: a division costs less than a branch.
        let common = side(0) * side(1);
        let together = self.size + other.size - common;
        match self.size <= 0.0 || other.size <= 0.0 || together <= 0.0 {
            true => 0.0,
            false => common / together,
        }
    }
}

/// The greater number, the second where one is none: an instruction each, and no branch.
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The number by whose order floats of at most 32 bits are sorted, as [`order_key`] gives it for 64; `score` is a
/// number.
fn narrow_key(score: f32) -> u64 {
    const SIGN: u32 = 1 << 31;
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    u64::from(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

/// The boxes of a class that stay, the best first: `ranks` are those of its candidates, `place` tells which box has
/// one, and `corners` are those of all boxes.
fn keep<R: Ord>(
    ranks: impl Iterator<Item = R>,
    place: impl Fn(R) -> usize,
    corners: &[f64],
    most: f64,
    threshold: f64,
) -> Vec<usize> {
    // Often, only the first few are asked for.
    let mut order: BinaryHeap<R> = ranks.collect();
    let (mut kept, mut areas): (Vec<usize>, Vec<Area>) = (Vec::new(), Vec::new());
    while let Some(next) = order.pop()
        && (kept.len() as f64) < most
    {
        let candidate = place(next);
        let area = Area::of(&corners[4 * candidate..][..4]);
        if !areas.iter().any(|other| area.overlap(other) > threshold) {
            areas.push(area);
            kept.push(candidate);
        }
    }
    kept
}

fn evaluate_suppression(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    elements::result_type(cx, infer_suppression)?;
    let (boxes, scores) = (cx.tensor(0)?, cx.tensor(1)?);
    let number = |index: usize| -> Result<f64, EvalError> {
        let element = cx.tensor(index)?.element(0);
        Ok(element.ok_or_else(|| EvalError::new("expected a scalar, found no elements"))?.as_f64())
    };
    let (most, threshold, least) = (number(2)?, number(3)?, number(4)?);
    let (images, count) = (boxes.shape()[0] as usize, boxes.shape()[1] as usize);
    let classes = scores.shape()[1] as usize;
    let is_narrow = scores.dtype() != DType::FLOAT64 && u32::try_from(count).is_ok();
    let (corners, scores) = (boxes.to_f64(), scores.to_f64());
    let mut places = Vec::new();
    for image in 0..images {
        let corners = &corners[image * count * 4..][..count * 4];
        for class in 0..classes {
            let scores = &scores[(image * classes + class) * count..][..count];
            let candidates = (0..count).filter(|at| scores[*at] > least);
            // The score, and of equal ones the first: as one number, of 64 bits where that is exact.
            let behind = |at: usize| (count - at) as u64;
            let kept = match is_narrow {
                true => {
                    let rank = |at: usize| narrow_key(scores[at] as f32) << 32 | behind(at);
                    let place = |rank: u64| count - (rank as u32) as usize;
                    keep(candidates.map(rank), place, corners, most, threshold)
                }
                false => {
                    let key = |at: usize| order_key(Scalar::Float(scores[at]), DType::FLOAT64);
                    let rank = |at: usize| u128::from(key(at)) << 64 | u128::from(behind(at));
                    let place = |rank: u128| count - (rank as u64) as usize;
                    keep(candidates.map(rank), place, corners, most, threshold)
                }
            };
            places.extend(kept.iter().flat_map(|at| [image as i64, class as i64, *at as i64]));
        }
    }
    let rows = images * classes * count;
    let kept = places.len() / 3;
    places.resize(rows * 3, 0);
    let places = TensorData::from_i64(DType::INT64, &[rows as i64, 3], &places)?;
    let kept = TensorData::from_i64(DType::INT64, &[1], &[kept as i64])?;
    Ok(Value::tuple([places.into(), kept.into()]))
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<NonMaxSuppression>();
}
