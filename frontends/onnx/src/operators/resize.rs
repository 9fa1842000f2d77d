//! Resizing images.

use super::resampling::{Axis, Method, Mode, resample};
use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, all_from_front, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "Resize",
        "`image.resize1d`, `image.resize2d` or `image.resize3d`, or sums of `take` where none of them does \
        the same; constant scales, sizes and regions",
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

/// The extents of `data` times `scales` on `axes`, all whole numbers.
fn scaled(
    cx: &Cx<'_, '_>,
    data: &Value,
    scales: &[f64],
    axes: &[usize],
) -> Result<Vec<Option<i64>>, Fault> {
    let mut shape = extents(cx, data)?;
    for change in changes_by_scales(&shape, axes, scales)? {
        shape[change.axis] = Some(change.to);
    }
    Ok(shape)
}

/// What `scales` ask of `axes`, as far as they change something.
fn changes_by_scales(
    shape: &[Option<i64>],
    axes: &[usize],
    scales: &[f64],
) -> Result<Vec<Axis>, Fault> {
    if scales.len() != axes.len() {
        let (expected, found) = (axes.len(), scales.len());
        return Err(format!("expected {expected} scales, found {found}").into());
    }
    let changed = axes.iter().zip(scales).filter(|(_, scale)| **scale != 1.0);
    let changes = changed.map(|(axis, scale)| {
        let Some(from) = shape[*axis] else {
            return Err(Fault::Open(format!("expected a known extent on axis {axis}")));
        };
        // As exporters and runtimes compute it.
        let to = (from as f32 * *scale as f32).floor();
        if !(*scale > 0.0 && (0.0..1e12).contains(&to)) {
            return Err(format!("expected positive scales, found {scale} on {from}").into());
        }
        Ok(Axis { axis: *axis, from, to: to as i64, scale: *scale, region: (0.0, 1.0) })
    });
    changes.collect()
}

/// What `sizes` ask of `axes`. The size of a batch that is open stands for itself.
fn changes_by_sizes(
    shape: &[Option<i64>],
    axes: &[usize],
    sizes: &[f64],
    policy: &str,
) -> Result<Vec<Axis>, Fault> {
    if sizes.len() != axes.len() {
        let (expected, found) = (axes.len(), sizes.len());
        return Err(format!("expected {expected} sizes, found {found}").into());
    }
    if sizes.iter().any(|size| !(0.0..1e12).contains(size)) {
        return Err(format!("expected sizes of at least 0, found {sizes:?}").into());
    }
    let own = axes.iter().zip(sizes).filter(|(axis, _)| **axis > 1 || shape[**axis].is_some());
    let changes = own.map(|(axis, size)| match shape[*axis] {
        Some(from) => {
            let (to, scale) = (*size as i64, size / from as f64);
            Ok(Axis { axis: *axis, from, to, scale, region: (0.0, 1.0) })
        }
        None => Err(Fault::Open(format!("expected a known extent on axis {axis}"))),
    });
    let mut changes: Vec<Axis> = changes.collect::<Result<_, Fault>>()?;
    let scales = changes.iter().map(|change| change.scale);
    let common = match policy {
        "stretch" => return Ok(changes),
        "not_larger" => scales.reduce(f64::min),
        "not_smaller" => scales.reduce(f64::max),
        other => {
            let message = format!("expected stretch, not_larger or not_smaller, found `{other}`");
            return Err(message.into());
        }
    };
    for change in &mut changes {
        change.scale = common.unwrap_or(1.0);
        change.to = (change.scale * change.from as f64 + 0.5).floor() as i64;
    }
    Ok(changes)
}

fn extents(cx: &Cx<'_, '_>, data: &Value) -> Result<Vec<Option<i64>>, Fault> {
    Ok(cx.ty(data)?.shape.iter().map(|dim| dim.known()).collect())
}

fn resize(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let (rank, shape) = (cx.rank(&data)?, extents(cx, &data)?);
    let old = cx.opset() < 11;
    let axes = match cx.ints("axes")? {
        Some(axes) => all_from_front(&axes, rank)?,
        None => (0..rank).collect(),
    };
    let scales = constant(cx, if old { 1 } else { 2 })?;
    let sizes = if old { None } else { constant(cx, 3)? };
    let policy = cx.text("keep_aspect_ratio_policy", "stretch")?;
    let mut changes = match (scales, sizes) {
        (_, Some(sizes)) => changes_by_sizes(&shape, &axes, &sizes, policy)?,
        (Some(scales), None) => changes_by_scales(&shape, &axes, &scales)?,
        (None, None) => return Err("expected constant scales or sizes".into()),
    };
    let rounding = match old {
        true => "floor",
        false => match cx.text("nearest_mode", "round_prefer_floor")? {
            known @ ("round_prefer_floor" | "round_prefer_ceil" | "floor" | "ceil") => known,
            other => return Err(format!("expected a known `nearest_mode`, found `{other}`").into()),
        },
    };
    let alpha = cx.float("cubic_coeff_a", -0.75)?;
    let mode = match cx.text("mode", "nearest")? {
        "nearest" => Mode::Nearest(rounding),
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic(alpha),
        other => return Err(format!("expected nearest, linear or cubic, found `{other}`").into()),
    };
    let transformation = match old {
        true => "asymmetric",
        false => cx.text("coordinate_transformation_mode", "half_pixel")?,
    };
    let excludes = cx.flag("exclude_outside", false)?;
    let antialias = cx.flag("antialias", false)?;
    let method = Method { mode, transformation, antialias, excludes };
    let mut beyond = None;
    match transformation {
        "half_pixel"
        | "half_pixel_symmetric"
        | "pytorch_half_pixel"
        | "align_corners"
        | "asymmetric" => {}
        "tf_crop_and_resize" => {
            changes = within_region(cx, &shape, &axes, changes)?;
            beyond = Some(cx.float("extrapolation_value", 0.0)?);
        }
        other => return Err(format!("expected known coordinates, found `{other}`").into()),
    }
    changes.retain(|change| !change.is_kept(&method));
    let is_whole =
        |change: &Axis| (change.from as f64 * change.scale - change.to as f64).abs() < 1e-3;
    let has_operator = !antialias
        && !matches!(transformation, "tf_crop_and_resize" | "half_pixel_symmetric")
        && (3..=5).contains(&rank)
        && changes.iter().all(|change| change.axis > 1 && change.to > 0 && is_whole(change))
        && shape[2..].iter().all(Option::is_some);
    if !has_operator {
        return resample(cx, &data, &changes, &method, beyond);
    }
    let mut size = shape;
    for change in &changes {
        size[change.axis] = Some(change.to);
    }
    let name = match mode {
        Mode::Nearest(_) => "nearest_neighbor",
        Mode::Linear => "linear",
        Mode::Cubic(_) => "cubic",
    };
    let cubic = (alpha, i64::from(excludes));
    spatial(cx, &data, &size, name, transformation, rounding, Some(cubic))
}

/// The changes of all `axes`, which are cut to the region that operand 1 says.
fn within_region(
    cx: &Cx<'_, '_>,
    shape: &[Option<i64>],
    axes: &[usize],
    changes: Vec<Axis>,
) -> Result<Vec<Axis>, Fault> {
    let region = constant(cx, 1)?.filter(|region| region.len() == 2 * axes.len());
    let Some(region) = region else {
        return Err(format!("expected {} constants as `roi`", 2 * axes.len()).into());
    };
    let all = axes.iter().enumerate().map(|(at, axis)| {
        let ends = (region[at], region[at + axes.len()]);
        let change = changes.iter().find(|change| change.axis == *axis).cloned();
        let kept = shape[*axis].map(|from| Axis {
            axis: *axis,
            from,
            to: from,
            scale: 1.0,
            region: (0.0, 1.0),
        });
        match change.or(kept) {
            Some(change) => Ok(Axis { region: ends, ..change }),
            None => Err(Fault::Open(format!("expected a known extent on axis {axis}"))),
        }
    });
    all.collect()
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
