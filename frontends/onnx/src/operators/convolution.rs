//! Convolutions.

use super::linear::sums;
use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded};

pub(super) const OPERATORS: &[Operator] = &[
    one("Col2Im", "`scatter_nd`, `strided_slice`; known extents", column_to_image),
    one("Conv", "`nn.conv1d`, `nn.conv2d` or `nn.conv3d`, and `nn.bias_add`", convolution),
    one("DeformConv", "`nn.deformable_conv2d`, `nn.bias_add`; known extents", deformable),
    one(
        "ConvTranspose",
        "`nn.conv1d_transpose`, `nn.conv2d_transpose` or `nn.conv3d_transpose`, \
        and `nn.bias_add`",
        transposed,
    ),
];

/// The window of a convolution or pool.
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// Before all axes, then after all.
    pub(super) pads: Vec<i64>,
}

impl Window {
    /// The window of a node over `data`.
    pub(super) fn of(cx: &mut Cx<'_, '_>, data: &Value, kernel: Vec<i64>) -> Result<Window, Fault> {
        let rank = kernel.len();
        let (strides, dilations) = steps(cx, rank)?;
        bounded("kernel_shape", &kernel, 1)?;
        let mut window = Window { kernel, strides, dilations, pads: vec![0; 2 * rank] };
        match cx.text("auto_pad", "NOTSET")? {
            "NOTSET" | "" => {
                if let Some(pads) = cx.ints("pads")? {
                    bounded("pads", &pads, 0)?;
                    if pads.len() != 2 * rank {
                        let (expected, found) = (2 * rank, pads.len());
                        return Err(format!("expected {expected} pads, found {found}").into());
                    }
                    window.pads = pads;
                }
            }
            "VALID" => {}
            mode @ ("SAME_UPPER" | "SAME_LOWER") => {
                let extents = cx.spatial(data)?;
                for (axis, extent) in extents.iter().enumerate() {
                    let stride = window.strides[axis];
                    let count = (extent + stride - 1) / stride;
                    let total = ((count - 1) * stride + window.reach(axis) - extent).max(0);
                    let before = if mode == "SAME_UPPER" { total / 2 } else { total - total / 2 };
                    (window.pads[axis], window.pads[axis + rank]) = (before, total - before);
                }
            }
            other => return Err(format!("expected a known `auto_pad`, found `{other}`").into()),
        }
        Ok(window)
    }

    /// Elements from the first to the last of a window along `axis`.
    pub(super) fn reach(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }
}

/// The strides and dilations of a node with `rank` spatial axes.
fn steps(cx: &Cx<'_, '_>, rank: usize) -> Result<(Vec<i64>, Vec<i64>), Fault> {
    let per_axis = |name: &str| -> Result<Vec<i64>, Fault> {
        let values = cx.ints(name)?.unwrap_or_else(|| vec![1; rank]);
        bounded(name, &values, 1)?;
        match values.len() == rank {
            true => Ok(values),
            false => Err(format!("expected `{name}` of {rank} numbers, found {values:?}").into()),
        }
    };
    Ok((per_axis("strides")?, per_axis("dilations")?))
}

/// The spatial extents of the kernel: those of the weight, which the attribute repeats.
fn kernel(cx: &Cx<'_, '_>, weight: &Value) -> Result<Vec<i64>, Fault> {
    let kernel = cx.spatial(weight)?;
    match cx.ints("kernel_shape")? {
        Some(given) if given != kernel => {
            Err(format!("expected `kernel_shape` {kernel:?} as the weight has, found {given:?}")
                .into())
        }
        _ => Ok(kernel),
    }
}

/// The operator for as many spatial axes as `kernel` has.
fn by_rank(
    names: [&'static str; 3],
    cx: &Cx<'_, '_>,
    data: &Value,
    kernel: &[i64],
) -> Result<&'static str, Fault> {
    let rank = cx.rank(data)?;
    match names.get(kernel.len().wrapping_sub(1)) {
        Some(name) if rank == kernel.len() + 2 => Ok(name),
        _ => Err(format!(
            "expected an input with 1 to 3 spatial axes and a kernel of as many, found rank {rank} \
             and {kernel:?}"
        )
        .into()),
    }
}

fn with_bias(cx: &mut Cx<'_, '_>, result: Value) -> Result<Value, Fault> {
    match cx.optional(2) {
        Some(bias) => cx.op_with("nn.bias_add", &[&result, &bias], attr("axis", 1i64)),
        None => Ok(result),
    }
}

/// The convolution of operand 0 by operand 1, and the bias that operand 2 may be.
pub(super) fn convolution(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, weight) = (cx.input(0)?, cx.input(1)?);
    let result = convolve(cx, &data, &weight, None)?;
    with_bias(cx, result)
}

/// The convolution of `data` by `weight`, without bias, as the attributes of the node say. `margin`, where it is there,
/// is what stands beside the data instead of 0.
pub(super) fn convolve(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    weight: &Value,
    margin: Option<&Value>,
) -> Result<Value, Fault> {
    let kernel = kernel(cx, weight)?;
    let name = by_rank(["nn.conv1d", "nn.conv2d", "nn.conv3d"], cx, data, &kernel)?;
    let mut window = Window::of(cx, data, kernel)?;
    let mut data = data.clone();
    if let Some(margin) = margin
        && window.pads.iter().any(|pad| *pad != 0)
    {
        let (before, after) = window.pads.split_at(window.kernel.len());
        let sides = before.iter().zip(after).map(|(before, after)| vec![*before, *after]);
        let widths: Vec<Vec<i64>> = [vec![0, 0], vec![0, 0]].into_iter().chain(sides).collect();
        data = cx.op_with("nn.pad", &[&data, margin], attr("pad_width", widths))?;
        window.pads.fill(0);
    }
    let channels = cx.ty(weight)?.shape[0].known();
    let attrs = attr("strides", window.strides)
        .with("padding", &window.pads)
        .with("dilation", &window.dilations)
        .with("groups", &cx.int("group", 1)?)
        .with("channels", &channels)
        .with("kernel_size", &window.kernel)
        .with("out_dtype", &sums(cx, &data)?);
    cx.op_with(name, &[&data, weight], attrs)
}

fn deformable(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, weight, offset) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let kernel = kernel(cx, &weight)?;
    let taps = kernel.iter().fold(1i64, |all, extent| all.saturating_mul(*extent));
    let window = Window::of(cx, &data, kernel)?;
    let groups = cx.int("offset_group", 1)?;
    let mask = match cx.optional(4) {
        Some(mask) => mask,
        None => {
            let mut shape = cx.shape(&offset)?;
            if shape.len() < 2 {
                return Err(format!("expected offsets of rank 4, found {shape:?}").into());
            }
            shape[1] = groups.saturating_mul(taps);
            let attrs = attr("shape", shape).with("dtype", &cx.dtype(&data)?);
            cx.op_with("ones", &[], attrs)?
        }
    };
    let attrs = attr("strides", window.strides)
        .with("padding", &window.pads)
        .with("dilation", &window.dilations)
        .with("deformable_groups", &groups)
        .with("groups", &cx.int("group", 1)?);
    let operands = [&data, &offset, &weight, &mask];
    let result = cx.op_with("nn.deformable_conv2d", &operands, attrs)?;
    match cx.optional(3) {
        Some(bias) => cx.op_with("nn.bias_add", &[&result, &bias], attr("axis", 1i64)),
        None => Ok(result),
    }
}

/// The sum of blocks, each at its place in an image.
fn column_to_image(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let (Some(image), Some(block)) =
        (cx.int_operand(1, "image_shape")?, cx.int_operand(2, "block_shape")?)
    else {
        return Err("expected an image and a block".into());
    };
    bounded("image_shape", &image, 0)?;
    let axes = image.len();
    let mut window = Window::of(cx, &data, block)?;
    if window.kernel.len() != axes {
        let found = window.kernel.len();
        return Err(format!("expected a block of {axes} extents, found {found}").into());
    }
    let pads = window.pads.split_off(axes);
    let before = window.pads.clone();
    let padded: Vec<i64> = (0..axes).map(|axis| image[axis] + before[axis] + pads[axis]).collect();
    let places: Vec<i64> = (0..axes)
        .map(|axis| (padded[axis] - window.reach(axis)).div_euclid(window.strides[axis]) + 1)
        .collect();
    let product = |extents: &[i64]| {
        extents
            .iter()
            .try_fold(1i64, |all, extent| all.checked_mul(*extent))
            .ok_or_else(|| Fault::from("expected extents whose product fits 64 bits"))
    };
    let (taps, blocks, pixels) = (product(&window.kernel)?, product(&places)?, product(&padded)?);
    let shape = cx.shape(&data)?;
    let &[batch, columns, count] = shape.as_slice() else {
        return Err(format!("expected a tensor of rank 3, found extents {shape:?}").into());
    };
    if places.iter().any(|extent| *extent < 1) || count != blocks || columns % taps != 0 {
        return Err(format!("expected {blocks} blocks of {taps} pixels, found {shape:?}").into());
    }
    bounded("extents", &shape, 0)?;
    let channels = columns / taps;
    // By tap and block, the place in the padded image.
    let zeros = cx.full(ir_core::DType::INT64, &[1, taps, blocks], 0.0)?;
    let Some(zeros) = cx.constant(&zeros) else { return Ok(data) };
    let mut indices = zeros.to_i64();
    for (at, index) in indices.iter_mut().enumerate() {
        let (mut tap, mut place) = (at as i64 / blocks, at as i64 % blocks);
        let mut stride = 1;
        for axis in (0..axes).rev() {
            let along = tap % window.kernel[axis] * window.dilations[axis]
                + place % places[axis] * window.strides[axis];
            *index += along * stride;
            stride *= padded[axis];
            tap /= window.kernel[axis];
            place /= places[axis];
        }
    }
    let indices =
        ir_core::TensorData::from_i64(ir_core::DType::INT64, &[1, taps, blocks], &indices);
    let indices = Value::Constant(indices.map_err(|error| error.to_string())?);
    let rows = batch * channels;
    let updates = cx.reshape(&data, &[rows, taps, blocks])?;
    let updates = cx.transpose(&updates, &[1, 2, 0])?;
    let empty = cx.zeros(cx.dtype(&data)?, &[pixels, rows])?;
    let attrs = attr("mode", "add".to_string());
    let sums = cx.op_with("scatter_nd", &[&empty, &indices, &updates], attrs)?;
    let sums = cx.transpose(&sums, &[1, 0])?;
    let whole: Vec<i64> = [batch, channels].into_iter().chain(padded.iter().copied()).collect();
    let sums = cx.reshape(&sums, &whole)?;
    let end: Vec<i64> = (0..axes).map(|axis| before[axis] + image[axis]).collect();
    let spatial: Vec<i64> = (2..2 + axes as i64).collect();
    let attrs = attr("begin", before).with("end", &end).with("axes", &spatial);
    cx.op_with("strided_slice", &[&sums], attrs)
}

fn transposed(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, weight) = (cx.input(0)?, cx.input(1)?);
    let kernel = kernel(cx, &weight)?;
    let rank = kernel.len();
    let names = ["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"];
    let name = by_rank(names, cx, &data, &kernel)?;
    let groups = cx.int("group", 1)?;
    let mode = cx.text("auto_pad", "NOTSET")?;
    let mut output_padding = cx.ints("output_padding")?.unwrap_or_else(|| vec![0; rank]);
    output_padding.resize(rank, 0);
    bounded("output_padding", &output_padding, 0)?;
    let output_shape = cx.ints("output_shape")?;
    bounded("output_shape", output_shape.as_deref().unwrap_or_default(), 0)?;
    // The pads of `auto_pad` follow from the extents of the result, computed below.
    let mut window = match mode {
        "NOTSET" | "" => Window::of(cx, &data, kernel)?,
        _ => {
            let (strides, dilations) = steps(cx, rank)?;
            Window { kernel, strides, dilations, pads: vec![0; 2 * rank] }
        }
    };
    if matches!(mode, "SAME_UPPER" | "SAME_LOWER") || output_shape.is_some() {
        let extents = cx.spatial(&data)?;
        let wanted = match &output_shape {
            // Of a shape with batch and channels, the spatial part.
            Some(shape) if shape.len() >= rank => shape[shape.len() - rank..].to_vec(),
            Some(shape) => {
                let message = format!("expected `output_shape` of {rank} numbers, found {shape:?}");
                return Err(message.into());
            }
            None => extents.iter().zip(&window.strides).map(|(extent, by)| extent * by).collect(),
        };
        cut(&mut window, &mut output_padding, &extents, &wanted, mode == "SAME_UPPER");
    }
    let channels = cx.ty(&weight)?.shape[1].known().map(|channels| channels.saturating_mul(groups));
    let layout = ["IOW", "IOHW", "IODHW"][rank - 1].to_string();
    let mut attrs = attr("strides", window.strides)
        .with("padding", &window.pads)
        .with("dilation", &window.dilations)
        .with("output_padding", &output_padding)
        .with("groups", &groups)
        .with("channels", &channels)
        .with("kernel_size", &window.kernel);
    if rank > 1 {
        attrs = attrs.with("kernel_layout", &layout);
    }
    let result = cx.op_with(name, &[&data, &weight], attrs)?;
    with_bias(cx, result)
}

/// Pads a transposed convolution of an input of `extents` so that its result has those `wanted`:
/// what is too much is cut off at both ends, at the upper one more where `upper` says so.
fn cut(
    window: &mut Window,
    output_padding: &mut [i64],
    extents: &[i64],
    wanted: &[i64],
    upper: bool,
) {
    let rank = extents.len();
    for axis in 0..rank {
        let last = (extents[axis] - 1) * window.strides[axis];
        let total = last + window.reach(axis) + output_padding[axis] - wanted[axis];
        if total < 0 {
            // Longer than without padding: the end grows.
            output_padding[axis] -= total;
        }
        let total = total.max(0);
        let less = total / 2;
        let before = if upper { less } else { total - less };
        (window.pads[axis], window.pads[axis + rank]) = (before, total - before);
    }
}
