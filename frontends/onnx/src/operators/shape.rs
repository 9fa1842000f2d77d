//! Shapes: what changes them, and what computes with them.

use ir_core::{DType, Dim, DimOp, Scalar};

use super::{OfTexts, Operator, many, one};
use crate::importer::{Element, Fault, Value};
use crate::node::{Cx, all_from_front, attr, bounded, few, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("CenterCropPad", "`strided_slice`, `nn.pad`; a constant shape", center_crop_pad),
    one("Concat", "`concatenate`", |cx| {
        let parts = cx.all_inputs()?;
        let Some(first) = parts.first() else {
            return Err("expected at least one operand, found none".into());
        };
        let axis = match cx.opset() {
            4.. => cx.required_int("axis")?,
            _ => cx.int("axis", 1)?,
        };
        let axis = from_front(axis, cx.rank(first)?)?;
        let elements: Option<Vec<Vec<Element>>> =
            parts.iter().map(|part| known_vector(cx, part)).collect();
        let result = cx.concatenate(&parts, axis as i64)?;
        Ok(match elements {
            Some(elements) => cx.with_elements(result, elements.concat()),
            None => result,
        })
    })
    .of_texts(OfTexts::Move(0, usize::MAX)),
    one("DepthToSpace", "`nn.depth_to_space`", |cx| {
        let (data, block) = (cx.input(0)?, cx.required_int("blocksize")?);
        let mode = cx.text("mode", "DCR")?.to_string();
        cx.op_with("nn.depth_to_space", &[&data], attr("block_size", block).with("mode", &mode))
    })
    .moving(),
    one("Expand", "`broadcast_to`, or a product with ones where the shape is open", expand)
        .moving(),
    one("Flatten", "`reshape`", |cx| {
        let data = cx.input(0)?;
        let rank = cx.rank(&data)?;
        let axis = cx.int("axis", 1)?;
        let axis = if axis == rank as i64 { rank } else { from_front(axis, rank)? };
        flatten(cx, &data, axis)
    })
    .moving(),
    one("Identity", "its operand", |cx| cx.input(0)).moving(),
    one(
        "Pad",
        "`nn.pad` in the modes constant, edge and reflect; `strided_slice` where it crops; \
        `dyn.nn.pad` for widths that are computed",
        pad,
    ),
    one("Reshape", "`reshape`; `dyn.reshape` where more than one extent is computed", |cx| {
        let data = cx.input(0)?;
        reshape(cx, &data)
    })
    .moving(),
    one("Shape", "`shape_of`; a constant where the shape is known", |cx| {
        let data = cx.input(0)?;
        let rank = cx.rank(&data)? as i64;
        let place = |at: i64| if at < 0 { at + rank } else { at }.clamp(0, rank) as usize;
        let (start, end) = (place(cx.int("start", 0)?), place(cx.int("end", rank)?));
        let shape = cx.shape_of(&data)?;
        part(cx, &shape, start, end.max(start))
    })
    .of_texts(OfTexts::Measure),
    one("Size", "`ndarray_size`; a constant where the shape is known", |cx| {
        let data = cx.input(0)?;
        match cx.ty(&data)?.elements() {
            Some(count) => Ok(cx.int_scalar(DType::INT64, count)),
            None => cx.op_with("ndarray_size", &[&data], attr("dtype", DType::INT64)),
        }
    })
    .of_texts(OfTexts::Measure),
    one("SpaceToDepth", "`nn.space_to_depth`", |cx| {
        let (data, block) = (cx.input(0)?, cx.required_int("blocksize")?);
        cx.op_with("nn.space_to_depth", &[&data], attr("block_size", block))
    })
    .moving(),
    many("Split", "`split`", split).moving(),
    one("Squeeze", "`squeeze`", |cx| {
        let data = cx.input(0)?;
        let ty = cx.ty(&data)?;
        let axes = match cx.ints_since(13, 1, "axes")? {
            Some(axes) => all_from_front(&axes, ty.rank())?,
            None => {
                let shape = cx.shape(&data)?;
                (0..shape.len()).filter(|axis| shape[*axis] == 1).collect()
            }
        };
        let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
        let elements = cx.elements(&data);
        let result = cx.squeeze(&data, &axes)?;
        Ok(match elements {
            Some(elements) => cx.with_elements(result, elements),
            None => result,
        })
    })
    .moving(),
    one("Tile", "`tile`, or `dyn.tile` for numbers that are computed", |cx| {
        let (data, repeats) = (cx.input(0)?, cx.input(1)?);
        match cx.known_ints(&repeats) {
            Some(repeats) => cx.op_with("tile", &[&data], attr("reps", repeats)),
            None => cx.op("dyn.tile", &[&data, &repeats]),
        }
    })
    .moving(),
    one("Transpose", "`transpose`", |cx| {
        let data = cx.input(0)?;
        let rank = cx.rank(&data)? as i64;
        let axes = cx.ints("perm")?.unwrap_or_else(|| (0..rank).rev().collect());
        cx.transpose(&data, &axes)
    })
    .moving(),
    one("Unsqueeze", "`expand_dims`", |cx| {
        let data = cx.input(0)?;
        let axes = cx.ints_since(13, 1, "axes")?.unwrap_or_default();
        let mut axes = all_from_front(&axes, cx.rank(&data)? + axes.len())?;
        axes.sort_unstable();
        let elements = cx.elements(&data).filter(|elements| elements.len() == 1);
        let result =
            axes.iter().try_fold(data, |value, axis| cx.expand_dims(&value, *axis as i64))?;
        Ok(match elements {
            Some(elements) if axes.len() == 1 => cx.with_elements(result, elements),
            _ => result,
        })
    })
    .moving(),
];

/// What is known about a vector: at least its length.
fn known_vector(cx: &Cx<'_, '_>, value: &Value) -> Option<Vec<Element>> {
    let ty = cx.ty(value).ok()?;
    if ty.rank() != 1 || !ty.dtype.is_integer() {
        return None;
    }
    let length = usize::try_from(ty.shape[0].known()?).ok().filter(|length| *length <= 1000)?;
    Some(cx.elements(value).unwrap_or_else(|| vec![Element::Unknown; length]))
}

/// Elements `start` to `end` of a vector.
pub(super) fn part(
    cx: &mut Cx<'_, '_>,
    vector: &Value,
    start: usize,
    end: usize,
) -> Result<Value, Fault> {
    let elements = cx.elements(vector);
    if elements.as_ref().is_some_and(|elements| start == 0 && end == elements.len()) {
        return Ok(vector.clone());
    }
    let attrs = attr("begin", vec![start as i64]).with("end", &vec![end as i64]);
    let result = cx.op_with("strided_slice", &[vector], attrs)?;
    Ok(match elements.and_then(|elements| Some(elements.get(start..end)?.to_vec())) {
        Some(elements) => cx.with_elements(result, elements),
        None => result,
    })
}

/// `data` as a matrix: the axes before `axis`, and the others.
pub(super) fn flatten(cx: &mut Cx<'_, '_>, data: &Value, axis: usize) -> Result<Value, Fault> {
    let dims = &cx.ty(data)?.shape;
    let product = |dims: &[Dim]| {
        dims.iter().fold(Dim::Known(1), |a, b| Dim::binary(DimOp::Mul, a, *b)).known()
    };
    let shape = match (product(&dims[..axis]), product(&dims[axis..])) {
        (Some(rows), Some(columns)) => vec![rows, columns],
        (Some(rows), None) => vec![rows, -1],
        (None, Some(columns)) => vec![-1, columns],
        (None, None) if axis == 1 => vec![0, -1],
        (None, None) => {
            let message = "expected known extents before or after the axis";
            return Err(Fault::Open(message.to_string()));
        }
    };
    if shape.contains(&0) && product(dims).is_some() {
        // An extent of 0, not one that is kept.
        let attrs = attr("newshape", shape).with("allowzero", &true);
        return cx.op_with("reshape", &[data], attrs);
    }
    cx.reshape(data, &shape)
}

fn reshape(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let shape = match cx.opset() {
        5.. => cx.input(1)?,
        _ => match cx.ints("shape")? {
            Some(shape) => cx.int_vector(&shape),
            None => return Err("attribute `shape` is missing".into()),
        },
    };
    let zero = cx.flag("allowzero", false)?;
    let Some(elements) = cx.elements(&shape) else {
        let attrs = attr("allowzero", zero);
        return cx.op_with("dyn.reshape", &[data, &shape], attrs);
    };
    let dims = &cx.ty(data)?.shape;
    let mut open = elements.iter().filter(|element| **element == Element::Known(-1)).count();
    let mut newshape = Vec::new();
    for (place, element) in elements.iter().enumerate() {
        newshape.push(match element {
            Element::Known(extent) => *extent,
            // The same extent at the same place is kept.
            Element::Extent(source, axis)
                if !zero && same_extent(cx, data, place, *source, *axis) =>
            {
                0
            }
            _ => {
                open += 1;
                -1
            }
        });
    }
    let keeps_zero = newshape.contains(&0) && newshape.len() > dims.len();
    if open > 1 || keeps_zero && !zero && elements.iter().any(|e| matches!(e, Element::Extent(..)))
    {
        let attrs = attr("allowzero", zero);
        return cx.op_with("dyn.reshape", &[data, &shape], attrs);
    }
    let integers = cx.elements(data).filter(|_| newshape.len() <= 1);
    let result = match zero {
        true => {
            let attrs = attr("newshape", newshape).with("allowzero", &true);
            cx.op_with("reshape", &[data], attrs)?
        }
        false => match cx.constant(data) {
            // A constant takes its shape without special values.
            Some(_) if newshape.contains(&0) || newshape.contains(&-1) => {
                cx.op_with("reshape", &[data], attr("newshape", newshape))?
            }
            _ => cx.reshape(data, &newshape)?,
        },
    };
    Ok(match integers {
        Some(elements) => cx.with_elements(result, elements),
        None => result,
    })
}

/// Whether extent `place` of `data` is extent `axis` of `source`.
fn same_extent(
    cx: &Cx<'_, '_>,
    data: &Value,
    place: usize,
    source: ir_core::ValueId,
    axis: usize,
) -> bool {
    if let Value::Computed(id) = data
        && (*id, place) == (source, axis)
    {
        return true;
    }
    let dim = |value: &Value, axis: usize| cx.ty(value).ok()?.shape.get(axis).copied();
    // `?` equals nothing, not even itself; a shape variable does.
    matches!(
        (dim(data, place), dim(&Value::Computed(source), axis)),
        (Some(Dim::Expr(a)), Some(Dim::Expr(b))) if a == b
    )
}

fn expand(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, shape) = (cx.input(0)?, cx.input(1)?);
    let ty = cx.ty(&data)?;
    let wanted = cx.known_ints(&shape);
    if let (Some(wanted), Some(own)) = (&wanted, ty.known_shape()) {
        let rank = wanted.len().max(own.len());
        let at = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
            Some(place) => shape[place],
            None => 1,
        };
        let shape: Vec<i64> = (0..rank)
            .map(|axis| match (at(&own, axis), at(wanted, axis)) {
                (1, extent) => extent,
                (extent, _) => extent,
            })
            .collect();
        return match shape == own.as_slice() {
            true => Ok(data),
            false => cx.op_with("broadcast_to", &[&data], attr("shape", shape)),
        };
    }
    // The shapes broadcast in both directions, as the operands of a product do.
    let dtype = ty.dtype;
    let ones = match wanted {
        Some(wanted) => cx.op_with("ones", &[], attr("shape", wanted).with("dtype", &dtype))?,
        None => cx.op_with("dyn.ones", &[&shape], attr("dtype", dtype))?,
    };
    let name = if dtype.is_bool() { "logical_and" } else { "multiply" };
    cx.op(name, &[&data, &ones])
}

fn split(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = cx.input(0)?;
    let ty = cx.ty(&data)?;
    let axis = cx.axis(0, ty.rank())?;
    let count = match cx.int_if("num_outputs")? {
        Some(count) => count,
        None => cx.output_count() as i64,
    };
    if count != cx.output_count() as i64 || count == 0 {
        let found = cx.output_count();
        return Err(format!("expected {} results, found {found}", count.max(1)).into());
    }
    let sizes = match (cx.ints_since(13, 1, "split")?, ty.shape[axis].known()) {
        (Some(sizes), _) => sizes,
        // The last part is smaller where the extent does not divide.
        (None, Some(extent)) => {
            let size = extent / count + i64::from(extent % count != 0);
            let left = |index: i64| extent.saturating_sub(index.saturating_mul(size));
            (0..count).map(|index| left(index).clamp(0, size)).collect()
        }
        (None, None) => {
            return cx.split(&data, count, axis as i64);
        }
    };
    if sizes.len() <= 1 {
        return Ok(vec![data]);
    }
    let mut end = 0i64;
    let mut places = Vec::new();
    for size in &sizes[..sizes.len() - 1] {
        end = end.saturating_add(*size);
        places.push(end);
    }
    let equal = sizes.iter().all(|size| *size == sizes[0]);
    let total = end.saturating_add(sizes[sizes.len() - 1]);
    if ty.shape[axis].known().is_some_and(|extent| extent != total) {
        return Err(format!("expected parts of {} in all, found {total}", ty.shape[axis]).into());
    }
    if equal && sizes[0] > 0 {
        return cx.split(&data, sizes.len() as i64, axis as i64);
    }
    let attrs = attr("indices_or_sections", places).with("axis", &(axis as i64));
    cx.fields_of("split", &[&data], attrs)
}

fn pad(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let rank = cx.rank(&data)?;
    let mode = match cx.text("mode", "constant")? {
        mode @ ("constant" | "edge" | "reflect" | "wrap") => mode.to_string(),
        other => {
            let message =
                format!("expected the mode constant, edge, reflect or wrap, found `{other}`");
            return Err(message.into());
        }
    };
    let value = match cx.opset() < 11 {
        true => cx.scalar_like(cx.float("value", 0.0)?, &data)?,
        false => match cx.optional(2) {
            Some(value) if cx.rank(&value)? == 0 => value,
            Some(value) => cx.reshape(&value, &[])?,
            None => cx.scalar_like(0.0, &data)?,
        },
    };
    let axes = cx.int_operand(3, "axes")?.map(|axes| all_from_front(&axes, rank)).transpose()?;
    let axes = axes.unwrap_or_else(|| (0..rank).collect());
    let pads = match cx.opset() < 11 {
        true => cx.ints("pads")?,
        false => cx.known_ints(&cx.input(1)?),
    };
    let Some(pads) = pads else {
        if axes.len() != rank {
            return Err("expected constant pads where axes are given".into());
        }
        let pads = cx.input(1)?;
        let widths = cx.reshape(&pads, &[2, rank as i64])?;
        let widths = cx.transpose(&widths, &[1, 0])?;
        if mode == "wrap" {
            return Err("expected constant pads in the mode wrap".into());
        }
        return cx.op_with("dyn.nn.pad", &[&data, &widths, &value], attr("pad_mode", mode));
    };
    if pads.len() != 2 * axes.len() {
        let (expected, found) = (2 * axes.len(), pads.len());
        return Err(format!("expected {expected} pads, found {found}").into());
    }
    bounded("pads", &pads, -i64::from(i32::MAX))?;
    let mut widths = vec![vec![0i64; 2]; rank];
    for (index, axis) in axes.iter().enumerate() {
        widths[*axis] = vec![pads[index], pads[index + axes.len()]];
    }
    let mut result = data;
    if mode == "wrap" {
        return wrapped(cx, result, &widths);
    }
    if widths.iter().flatten().any(|width| *width > 0) {
        let added: Vec<Vec<i64>> =
            widths.iter().map(|both| both.iter().map(|width| (*width).max(0)).collect()).collect();
        let attrs = attr("pad_width", added).with("pad_mode", &mode);
        result = cx.op_with("nn.pad", &[&result, &value], attrs)?;
    }
    if widths.iter().flatten().any(|width| *width < 0) {
        let begin: Vec<i64> = widths.iter().map(|both| (-both[0]).max(0)).collect();
        let end: Vec<i64> = widths
            .iter()
            .map(|both| if both[1] < 0 { both[1] } else { i64::from(i32::MAX) })
            .collect();
        result = cx.op_with("strided_slice", &[&result], attr("begin", begin).with("end", &end))?;
    }
    Ok(result)
}

/// `data`, repeated in all directions, cut to `widths` more elements before and after it.
fn wrapped(cx: &mut Cx<'_, '_>, data: Value, widths: &[Vec<i64>]) -> Result<Value, Fault> {
    let mut result = data;
    for (axis, both) in widths.iter().enumerate().filter(|(_, both)| both.iter().any(|w| *w != 0)) {
        let Some(extent) = cx.ty(&result)?.shape[axis].known() else {
            return Err(Fault::Open(format!("expected a known extent on axis {axis}")));
        };
        if extent == 0 {
            return Err(format!("expected elements on axis {axis}, found none").into());
        }
        few("elements along an axis", &[both[0].saturating_add(extent).saturating_add(both[1])])?;
        let places: Vec<i64> =
            (-both[0]..extent.saturating_add(both[1])).map(|at| at.rem_euclid(extent)).collect();
        let places = cx.int_vector(&places);
        result = cx.op_with("take", &[&result, &places], attr("axis", axis as i64))?;
    }
    Ok(result)
}

/// The single number of a constant.
pub(super) fn number(cx: &Cx<'_, '_>, value: &Value) -> Option<f64> {
    let tensor = cx.constant(value).filter(|tensor| tensor.len() == 1)?;
    tensor.element(0).map(Scalar::as_f64)
}

fn center_crop_pad(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let shape = cx.shape(&data)?;
    let axes = match cx.ints("axes")? {
        Some(axes) => all_from_front(&axes, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    let Some(wanted) = cx.int_operand(1, "shape")?.filter(|wanted| wanted.len() == axes.len())
    else {
        return Err(format!("expected {} constants as `shape`", axes.len()).into());
    };
    bounded("shape", &wanted, 0)?;
    let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
    let mut widths = vec![vec![0i64, 0]; shape.len()];
    for (axis, wanted) in axes.into_iter().zip(wanted) {
        let more = wanted - shape[axis];
        match more {
            ..0 => {
                begin[axis] = -more / 2;
                end[axis] = begin[axis] + wanted;
            }
            _ => widths[axis] = vec![more / 2, more - more / 2],
        }
    }
    let mut result = data.clone();
    if end != shape || begin.iter().any(|begin| *begin != 0) {
        let attrs = attr("begin", begin).with("end", &end);
        result = cx.op_with("strided_slice", &[&data], attrs)?;
    }
    if widths.iter().flatten().any(|width| *width != 0) {
        let zero = cx.scalar_like(0.0, &result)?;
        result = cx.op_with("nn.pad", &[&result, &zero], attr("pad_width", widths))?;
    }
    Ok(result)
}
