//! Sampling images, and finding objects in them.

use ir_core::DType;

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded, few};

pub(super) const OPERATORS: &[Operator] = &[
    one("AffineGrid", "`nn.matmul` with a constant; a constant size", affine_grid),
    one("GridSample", "`transpose`, `image.grid_sample`", |cx| {
        let (data, grid) = (cx.input(0)?, cx.input(1)?);
        let method = match cx.text("mode", "linear")? {
            "linear" | "bilinear" => "bilinear",
            "nearest" => "nearest",
            "cubic" | "bicubic" => "bicubic",
            other => {
                return Err(format!("expected linear, nearest or cubic, found `{other}`").into());
            }
        };
        // The places of a pixel stand last here, and behind the batch there.
        let rank = cx.rank(&grid)? as i64;
        let order: Vec<i64> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let grid = cx.transpose(&grid, &order)?;
        let attrs = attr("method", method.to_string())
            .with("padding_mode", &cx.text("padding_mode", "zeros")?.to_string())
            .with("align_corners", &cx.flag("align_corners", false)?);
        cx.op_with("image.grid_sample", &[&data, &grid], attrs)
    }),
    one("MaxRoiPool", "`vision.roi_pool`", |cx| {
        let (data, rois) = (cx.input(0)?, cx.input(1)?);
        let size = cx.ints("pooled_shape")?.unwrap_or_default();
        let attrs =
            attr("pooled_size", size).with("spatial_scale", &cx.float("spatial_scale", 1.0)?);
        cx.op_with("vision.roi_pool", &[&data, &rois], attrs)
    }),
    one(
        "NonMaxSuppression",
        "`vision.all_class_non_max_suppression`, `dyn.strided_slice`",
        suppression,
    ),
    one("RoiAlign", "`concatenate`, `vision.roi_align`", |cx| {
        let (data, rois, images) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let images = cx.cast(&images, cx.dtype(&rois)?)?;
        let images = cx.expand_dims(&images, 1)?;
        let rois = cx.concatenate(&[images, rois], 1)?;
        // Before version 16, corners are not moved.
        let usual = if cx.opset() < 16 { "output_half_pixel" } else { "half_pixel" };
        let aligned = match cx.text("coordinate_transformation_mode", usual)? {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => {
                let message = format!("expected half_pixel or output_half_pixel, found `{other}`");
                return Err(message.into());
            }
        };
        let attrs =
            attr("pooled_size", vec![cx.int("output_height", 1)?, cx.int("output_width", 1)?])
                .with("spatial_scale", &cx.float("spatial_scale", 1.0)?)
                .with("sample_ratio", &cx.int("sampling_ratio", 0)?)
                .with("mode", &cx.text("mode", "avg")?.to_string())
                .with("aligned", &aligned);
        cx.op_with("vision.roi_align", &[&data, &rois], attrs)
    }),
];

/// Places for `GridSample`: an affine function of those of the image itself.
fn affine_grid(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let theta = cx.input(0)?;
    let Some(size) = cx.int_operand(1, "size")?.filter(|size| matches!(size.len(), 4 | 5)) else {
        return Err("expected 4 or 5 constants as `size`".into());
    };
    bounded("size", &size, 1)?;
    let (batch, extents) = (size[0], &size[2..]);
    few("pixels", extents)?;
    let corners = cx.flag("align_corners", false)?;
    let places = |extent: i64| {
        let place = move |at: i64| match corners {
            true if extent == 1 => -1.0,
            true => 2.0 * at as f64 / (extent - 1) as f64 - 1.0,
            false => (2 * at + 1) as f64 / extent as f64 - 1.0,
        };
        (0..extent).map(place).collect::<Vec<f64>>()
    };
    let along: Vec<Vec<f64>> = extents.iter().map(|extent| places(*extent)).collect();
    let pixels: i64 = extents.iter().fold(1, |all: i64, extent| all.saturating_mul(*extent));
    let axes = extents.len() as i64;
    // By row the places of all pixels along an axis, the last axis first, and then ones.
    let ones = cx.full(DType::FLOAT64, &[axes + 1, pixels], 1.0)?;
    let Some(ones) = cx.constant(&ones) else { return Ok(theta) };
    let mut values = ones.to_f64();
    for (row, axis) in (0..extents.len()).rev().enumerate() {
        let inner: usize = extents[axis + 1..].iter().product::<i64>() as usize;
        for pixel in 0..pixels as usize {
            values[row * pixels as usize + pixel] = along[axis][pixel / inner % along[axis].len()];
        }
    }
    let grid = cx.floats_like(&values, &[axes + 1, pixels], &theta)?;
    let moved = super::linear::matmul(cx, &theta, &grid)?;
    let moved = cx.transpose(&moved, &[0, 2, 1])?;
    let shape: Vec<i64> =
        [batch].into_iter().chain(extents.iter().copied()).chain([axes]).collect();
    cx.reshape(&moved, &shape)
}

fn suppression(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (mut boxes, scores) = (cx.input(0)?, cx.input(1)?);
    if cx.flag("center_point_box", false)? {
        let parts = cx.split(&boxes, 4, 2)?;
        let [x, y, width, height] = &parts[..] else {
            return Err("expected boxes of 4 numbers".into());
        };
        let mut ends = Vec::new();
        for (name, center, size) in
            [("subtract", y, height), ("subtract", x, width), ("add", y, height), ("add", x, width)]
        {
            let half = cx.with_scalar("multiply", size, 0.5)?;
            ends.push(cx.op(name, &[center, &half])?);
        }
        boxes = cx.concatenate(&ends, 2)?;
    }
    let mut scalar = |index: usize, dtype: DType, default: f64| match cx.optional(index) {
        Some(value) => cx.reshape(&value, &[]),
        None => Ok(Value::Constant(crate::tensors::scalar(dtype, default))),
    };
    let most = scalar(2, DType::INT64, 0.0)?;
    let threshold = scalar(3, DType::FLOAT32, 0.0)?;
    // Without a threshold, all scores count.
    let least = scalar(4, DType::FLOAT32, f64::NEG_INFINITY)?;
    let operands = [&boxes, &scores, &most, &threshold, &least];
    let name = "vision.all_class_non_max_suppression";
    let fields = cx.fields_of(name, &operands, crate::node::attrs())?;
    first_rows(cx, &fields[0], &fields[1], 0)
}

/// The first `count` slices of `data` along `axis`.
pub(super) fn first_rows(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    count: &Value,
    axis: i64,
) -> Result<Value, Fault> {
    let end = cx.cast(count, DType::INT64)?;
    let (begin, step) = (cx.int_vector(&[0]), cx.int_vector(&[1]));
    let axes = attr("axes", Some(vec![axis]));
    cx.op_with("dyn.strided_slice", &[data, &begin, &end, &step], axes)
}
