//! Resizing images.

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, all_from_front, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "Resize",
        "`image.resize1d`, `image.resize2d` or `image.resize3d` on the axes from 2 on, to \
        a constant size; no antialiasing",
        resize,
    ),
    one("Upsample", "`image.resize1d`, `image.resize2d` or `image.resize3d`", |cx| {
        let data = cx.input(0)?;
        let scales = match cx.floats("scales")? {
            Some(scales) => Some(scales),
            None => constant(cx, 1)?,
        };
        let Some(scales) = scales else { return Err("expected constant `scales`".into()) };
        let method = match cx.text("mode", "nearest")? {
            "nearest" => "nearest_neighbor",
            "linear" | "bilinear" => "linear",
            other => {
                return Err(format!("expected the mode nearest or linear, found `{other}`").into());
            }
        };
        let rank = cx.rank(&data)?;
        let size = scaled(cx, &data, &scales, &(0..rank).collect::<Vec<_>>())?;
        spatial(cx, &data, &size, method, "asymmetric", "floor", None)
    }),
];

/// The floats of an optional operand that is not empty.
fn constant(cx: &Cx<'_, '_>, index: usize) -> Result<Option<Vec<f64>>, Fault> {
    let Some(value) = cx.optional(index) else { return Ok(None) };
    match cx.constant(&value) {
        Some(tensor) if tensor.is_empty() => Ok(None),
        Some(tensor) => Ok(Some(tensor.to_f64())),
        None => Err(format!("expected a constant as operand {index}").into()),
    }
}

/// The extents of `data` times `scales` on `axes`. A factor that gives no whole number would also
/// place the pixels, which the size alone does not tell.
fn scaled(
    cx: &Cx<'_, '_>,
    data: &Value,
    scales: &[f64],
    axes: &[usize],
) -> Result<Vec<Option<i64>>, Fault> {
    let mut shape = extents(cx, data)?;
    if scales.len() != axes.len() {
        let (expected, found) = (axes.len(), scales.len());
        return Err(format!("expected {expected} scales, found {found}").into());
    }
    for (axis, scale) in axes.iter().zip(scales).filter(|(_, scale)| **scale != 1.0) {
        let Some(extent) = shape[*axis] else {
            return Err(Fault::Open(format!("expected a known extent on axis {axis}")));
        };
        let exact = extent as f64 * scale;
        let whole = exact.round();
        if (exact - whole).abs() > 1e-3 || !(0.0..1e12).contains(&whole) {
            let message =
                format!("expected scales that give whole extents, found {scale} on {extent}");
            return Err(message.into());
        }
        shape[*axis] = Some(whole as i64);
    }
    Ok(shape)
}

fn extents(cx: &Cx<'_, '_>, data: &Value) -> Result<Vec<Option<i64>>, Fault> {
    Ok(cx.ty(data)?.shape.iter().map(|dim| dim.known()).collect())
}

fn resize(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let rank = cx.rank(&data)?;
    let old = cx.opset() < 11;
    let axes = match cx.ints("axes")? {
        Some(axes) => all_from_front(&axes, rank)?,
        None => (0..rank).collect(),
    };
    if cx.flag("antialias", false)? {
        return Err("expected no antialiasing".into());
    }
    let scales = constant(cx, if old { 1 } else { 2 })?;
    let sizes = if old { None } else { constant(cx, 3)? };
    let size = match (scales, sizes) {
        (_, Some(sizes)) => {
            if cx.text("keep_aspect_ratio_policy", "stretch")? != "stretch" {
                return Err("expected the aspect ratio policy stretch".into());
            }
            if sizes.len() != axes.len() {
                let (expected, found) = (axes.len(), sizes.len());
                return Err(format!("expected {expected} sizes, found {found}").into());
            }
            let mut shape = extents(cx, &data)?;
            for (axis, size) in axes.iter().zip(sizes) {
                // The size of a batch that is open stands for itself.
                if *axis > 1 || shape[*axis].is_some() {
                    shape[*axis] = Some(size as i64);
                }
            }
            shape
        }
        (Some(scales), None) => scaled(cx, &data, &scales, &axes)?,
        (None, None) => return Err("expected constant scales or sizes".into()),
    };
    let method = match cx.text("mode", "nearest")? {
        "nearest" => "nearest_neighbor",
        "linear" => "linear",
        "cubic" => "cubic",
        other => return Err(format!("expected nearest, linear or cubic, found `{other}`").into()),
    };
    let transformation = match old {
        true => "asymmetric",
        false => cx.text("coordinate_transformation_mode", "half_pixel")?,
    };
    let known = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"];
    if !known.contains(&transformation) {
        let names = known.join(", ");
        return Err(format!("expected the coordinates {names}, found `{transformation}`").into());
    }
    let rounding = match old {
        true => "floor",
        false => match cx.text("nearest_mode", "round_prefer_floor")? {
            known @ ("round_prefer_floor" | "round_prefer_ceil" | "floor" | "ceil") => known,
            other => return Err(format!("expected a known `nearest_mode`, found `{other}`").into()),
        },
    };
    let cubic = (cx.float("cubic_coeff_a", -0.75)?, cx.int("exclude_outside", 0)?);
    spatial(cx, &data, &size, method, transformation, rounding, Some(cubic))
}

/// `data` resized to `size` on the axes from 2 on; the others keep their extents.
fn spatial(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    size: &[Option<i64>],
    method: &str,
    transformation: &str,
    rounding: &str,
    cubic: Option<(f64, i64)>,
) -> Result<Value, Fault> {
    let shape = extents(cx, data)?;
    if shape == size {
        return Ok(data.clone());
    }
    let name = match shape.len() {
        3 => "image.resize1d",
        4 => "image.resize2d",
        5 => "image.resize3d",
        rank => return Err(format!("expected an image of rank 3 to 5, found rank {rank}").into()),
    };
    if shape[..2] != size[..2] {
        return Err("expected the batch and the channels to keep their extents".into());
    }
    let Some(size) = size[2..].iter().copied().collect::<Option<Vec<i64>>>() else {
        return Err(Fault::Open("expected known spatial extents".to_string()));
    };
    let mut attrs = attr("size", size)
        .with("method", &method.to_string())
        .with("coordinate_transformation_mode", &transformation.to_string());
    if method == "nearest_neighbor" {
        attrs = attrs.with("rounding_method", &rounding.to_string());
    }
    if let (Some((alpha, exclude)), "cubic") = (cubic, method) {
        attrs = attrs.with("cubic_alpha", &alpha).with("cubic_exclude", &exclude);
    }
    cx.op_with(name, &[data], attrs)
}
