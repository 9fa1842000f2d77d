//! Pools.

use super::convolution::Window;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded, few};

pub(super) const OPERATORS: &[Operator] = &[
    one("AveragePool", "`nn.avg_pool1d`, `nn.avg_pool2d` or `nn.avg_pool3d`", |cx| {
        let data = cx.input(0)?;
        average_pool(cx, &data)
    }),
    one("GlobalAveragePool", "`nn.global_avg_pool2d`, or `mean`", |cx| {
        let data = cx.input(0)?;
        global_average_pool(cx, &data)
    }),
    one("GlobalMaxPool", "`nn.global_max_pool2d`, or `max`", |cx| {
        let data = cx.input(0)?;
        global(cx, &data, "nn.global_max_pool2d", "max")
    }),
    one("GlobalLpPool", "`abs`, `power`, `sum`", |cx| {
        let data = cx.input(0)?;
        let powers = powers(cx, &data)?;
        let axes: Vec<i64> = (2..cx.rank(&data)? as i64).collect();
        let sum = cx.op_with("sum", &[&powers], attr("axis", axes).with("keepdims", &true))?;
        root(cx, &sum)
    }),
    one("LpPool", "`abs`, `power`, and the mean of a pool times its size", |cx| {
        let data = cx.input(0)?;
        let powers = powers(cx, &data)?;
        let names = ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"];
        let mean = pool(cx, &powers, names, Some(true))?;
        let kernel = cx.ints("kernel_shape")?.unwrap_or_default();
        let count: f64 = kernel.iter().map(|extent| *extent as f64).product();
        let sum = cx.with_scalar("multiply", &mean, count)?;
        root(cx, &sum)
    }),
    many(
        "MaxPool",
        "`nn.max_pool1d`, `nn.max_pool2d` or `nn.max_pool3d`; where places are wanted, `strided_slice` and \
        `where` for each element of the window",
        max_pool,
    ),
    one("MaxUnpool", "`scatter_nd`, `nn.pad`; known extents", max_unpool),
];

/// The means of windows of `data`, as the attributes of `AveragePool` say.
pub(super) fn average_pool(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let include = cx.flag("count_include_pad", false)?;
    pool(cx, data, ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"], Some(include))
}

/// The means of whole channels of `data`.
pub(super) fn global_average_pool(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    global(cx, data, "nn.global_avg_pool2d", "mean")
}

fn global(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    for_images: &str,
    other: &str,
) -> Result<Value, Fault> {
    match cx.rank(data)? {
        4 => cx.op(for_images, &[data]),
        rank => {
            let axes: Vec<i64> = (2..rank as i64).collect();
            if axes.is_empty() {
                return Err(
                    format!("expected a tensor of rank at least 3, found rank {rank}").into()
                );
            }
            cx.op_with(other, &[data], attr("axis", axes).with("keepdims", &true))
        }
    }
}

/// What the norm `p` of the node adds up.
fn powers(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let magnitude = cx.op("abs", &[data])?;
    match cx.int("p", 2)? {
        1 => Ok(magnitude),
        2 => cx.op("multiply", &[data, data]),
        p => cx.with_scalar("power", &magnitude, p as f64),
    }
}

/// The norm `p` of the node from the sum of powers.
fn root(cx: &mut Cx<'_, '_>, sum: &Value) -> Result<Value, Fault> {
    match cx.int("p", 2)? {
        1 => Ok(sum.clone()),
        2 => cx.op("sqrt", &[sum]),
        p => cx.with_scalar("power", sum, 1.0 / p as f64),
    }
}

/// A pool of `data`, its mean over the padding too where `include` says so.
fn pool(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    names: [&str; 3],
    include: Option<bool>,
) -> Result<Value, Fault> {
    let Some(kernel) = cx.ints("kernel_shape")? else {
        return Err("attribute `kernel_shape` is missing".into());
    };
    let rank = kernel.len();
    let found = cx.rank(data)?;
    let Some(name) = names.get(rank.wrapping_sub(1)).filter(|_| found == rank + 2) else {
        return Err(format!(
            "expected an input with 1 to 3 spatial axes and a kernel of as many, found rank \
             {found} and {kernel:?}"
        )
        .into());
    };
    let mut window = Window::of(cx, data, kernel)?;
    let ends = match cx.flag("ceil_mode", false)? {
        true => ends(&mut window, &cx.spatial(data)?),
        false => vec![],
    };
    let mut attrs = attr("pool_size", window.kernel.clone())
        .with("strides", &window.strides)
        .with("dilation", &window.dilations)
        .with("padding", &window.pads);
    if let Some(include) = include {
        attrs = attrs.with("count_include_pad", &include);
    }
    let mut result = cx.op_with(name, &[data], attrs)?;
    if include == Some(true) {
        // Beyond the padding nothing counts: the last mean is over fewer elements.
        for (axis, end) in ends.iter().enumerate().filter(|(_, end)| end.over > 0) {
            let factors = factors(&window, axis, end);
            let mut shape = vec![1; rank - axis];
            shape[0] = factors.len() as i64;
            let factors = cx.floats_like(&factors, &shape, &result)?;
            result = cx.op("multiply", &[&result, &factors])?;
        }
    }
    Ok(result)
}

fn max_pool(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = cx.input(0)?;
    match cx.wants(1) {
        true => max_pool_with_places(cx, &data),
        false => {
            let names = ["nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"];
            Ok(vec![pool(cx, &data, names, None)?])
        }
    }
}

/// A window of more elements is no pool any more.
const MOST_ELEMENTS: i64 = 1024;

/// The greatest elements of windows, and their places in the whole tensor.
fn max_pool_with_places(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Vec<Value>, Fault> {
    let kernel = cx.ints("kernel_shape")?.unwrap_or_default();
    let (axes, extents) = (kernel.len(), cx.spatial(data)?);
    if axes != extents.len() || axes == 0 {
        let found = extents.len();
        return Err(format!("expected a kernel of {found} extents, found {kernel:?}").into());
    }
    let mut window = Window::of(cx, data, kernel)?;
    if cx.flag("ceil_mode", false)? {
        ends(&mut window, &extents);
    }
    let taps = window.kernel.iter().fold(1i64, |all, extent| all.saturating_mul(*extent));
    if taps > MOST_ELEMENTS {
        let message = format!("expected windows of at most {MOST_ELEMENTS} elements, found {taps}");
        return Err(message.into());
    }
    few("elements of an image", &extents)?;
    // Places in the spatial axes, in the order that the node says.
    let is_column_major = cx.flag("storage_order", false)?;
    let stride = |axis: usize| -> i64 {
        let others = if is_column_major { &extents[..axis] } else { &extents[axis + 1..] };
        others.iter().product()
    };
    let dtype = cx.dtype(data)?;
    let least = match dtype.is_float() {
        true => f64::NEG_INFINITY,
        false if dtype.is_signed() => -(2f64.powi(dtype.bits() as i32 - 1)),
        false => 0.0,
    };
    let mut widths = vec![vec![0i64, 0]; 2];
    widths.extend((0..axes).map(|axis| vec![window.pads[axis], window.pads[axis + axes]]));
    let padding = Value::Constant(crate::tensors::scalar(dtype, least));
    let padded = cx.op_with("nn.pad", &[data, &padding], attr("pad_width", widths))?;
    let counts: Vec<i64> = (0..axes)
        .map(|axis| {
            let whole = extents[axis] + window.pads[axis] + window.pads[axis + axes];
            (whole - window.reach(axis)).div_euclid(window.strides[axis]) + 1
        })
        .collect();
    if counts.iter().any(|count| *count < 1) {
        return Err(
            format!("expected a window within {extents:?}, found {:?}", window.kernel).into()
        );
    }
    few("places of windows", &counts)?;
    let spatial: Vec<i64> = (2..2 + axes as i64).collect();
    let mut best: Option<(Value, Value)> = None;
    for tap in 0..taps {
        let mut rest = tap;
        let mut begin = vec![0; axes];
        for axis in (0..axes).rev() {
            begin[axis] = rest % window.kernel[axis] * window.dilations[axis];
            rest /= window.kernel[axis];
        }
        let end: Vec<i64> = (0..axes)
            .map(|axis| begin[axis] + (counts[axis] - 1) * window.strides[axis] + 1)
            .collect();
        let attrs = attr("begin", begin.clone())
            .with("end", &end)
            .with("strides", &window.strides)
            .with("axes", &spatial);
        let values = cx.op_with("strided_slice", &[&padded], attrs)?;
        // The places that these elements come from.
        let mut places = cx.int_scalar(ir_core::DType::INT64, 0);
        for axis in 0..axes {
            let along = (0..counts[axis]).map(|at| {
                (begin[axis] + at * window.strides[axis] - window.pads[axis]) * stride(axis)
            });
            let along = cx.int_vector(&along.collect::<Vec<i64>>());
            let mut shape = vec![1; axes - axis];
            shape[0] = counts[axis];
            let along = cx.reshape(&along, &shape)?;
            places = cx.op("add", &[&places, &along])?;
        }
        best = Some(match best {
            None => {
                let like = cx.op("zeros_like", &[&values])?;
                let like = cx.cast(&like, ir_core::DType::INT64)?;
                let places = cx.op("add", &[&like, &places])?;
                (values, places)
            }
            Some((greatest, at)) => {
                let is_greater = cx.op("greater", &[&values, &greatest])?;
                let at = cx.op("where", &[&is_greater, &places, &at])?;
                (cx.op("maximum", &[&greatest, &values])?, at)
            }
        });
    }
    let Some((greatest, places)) = best else { return Err("expected a window".into()) };
    // What stands before an image in the whole tensor.
    let shape = cx.shape(data)?;
    let image: i64 = extents.iter().product();
    let (batch, channels) = (shape[0], shape[1]);
    few("channels of all images", &[batch, channels])?;
    let before: Vec<i64> = (0..batch * channels).map(|at| at * image).collect();
    let before = cx.int_vector(&before);
    let mut aligned = vec![batch, channels];
    aligned.resize(2 + axes, 1);
    let before = cx.reshape(&before, &aligned)?;
    Ok(vec![greatest, cx.op("add", &[&places, &before])?])
}

/// A tensor of zeros with elements of `data` at the places that a pool took them from.
fn max_unpool(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, places) = (cx.input(0)?, cx.input(1)?);
    let Some(kernel) = cx.ints("kernel_shape")? else {
        return Err("attribute `kernel_shape` is missing".into());
    };
    let (axes, shape) = (kernel.len(), cx.shape(&data)?);
    let window = Window::of(cx, &data, kernel)?;
    if shape.len() != axes + 2 {
        return Err(format!("expected a kernel for {shape:?}, found {:?}", window.kernel).into());
    }
    bounded("extents", &shape, 0)?;
    let mut whole = shape.clone();
    for axis in 0..axes {
        let pads = window.pads[axis] + window.pads[axis + axes];
        whole[axis + 2] = (shape[axis + 2] - 1) * window.strides[axis] - pads + window.kernel[axis];
    }
    bounded("extents", &whole, 0)?;
    let total = whole.iter().try_fold(1i64, |all, extent| all.checked_mul(*extent));
    let total = total.ok_or("expected extents whose product fits 64 bits")?;
    let empty = cx.zeros(cx.dtype(&data)?, &[total])?;
    let values = cx.reshape(&data, &[-1])?;
    let places = cx.reshape(&places, &[1, -1])?;
    let spread = cx.op("scatter_nd", &[&empty, &places, &values])?;
    let result = cx.reshape(&spread, &whole)?;
    let Some(wanted) = cx.int_operand(2, "output_shape")? else { return Ok(result) };
    if wanted.len() != whole.len() || wanted.iter().zip(&whole).any(|(a, b)| a < b) {
        return Err(
            format!("expected at least {whole:?} as `output_shape`, found {wanted:?}").into()
        );
    }
    bounded("output_shape", &wanted, 0)?;
    let widths = wanted.iter().zip(&whole).map(|(wanted, extent)| vec![0, wanted - extent]);
    let zero = cx.scalar_like(0.0, &result)?;
    let attrs = attr("pad_width", widths.collect::<Vec<Vec<i64>>>());
    cx.op_with("nn.pad", &[&result, &zero], attrs)
}

/// Where the last window of an axis ends.
struct End {
    /// How many windows there are.
    count: i64,
    /// By how much the last one reaches over the padded end.
    over: i64,
}

/// Pads the input to the end of a window more than fits, along each axis of `extents`, unless it
/// would begin after the input.
fn ends(window: &mut Window, extents: &[i64]) -> Vec<End> {
    let rank = extents.len();
    let mut ends = Vec::with_capacity(rank);
    for (axis, extent) in extents.iter().enumerate() {
        let (before, after) = (window.pads[axis], window.pads[axis + rank]);
        let (stride, reach) = (window.strides[axis], window.reach(axis));
        let padded = extent + before + after;
        let mut count = (padded - reach).max(0).div_euclid(stride) + 1;
        let is_partial = padded >= reach && (padded - reach) % stride != 0;
        if is_partial && count * stride < extent + before {
            count += 1;
        }
        let over = ((count - 1) * stride + reach - padded).max(0);
        window.pads[axis + rank] += over;
        ends.push(End { count, over });
    }
    ends
}

/// By window along `axis`: what its mean over all elements is multiplied by, for one over those that
/// do not lie beyond the `end`.
fn factors(window: &Window, axis: usize, end: &End) -> Vec<f64> {
    let inside = (0..window.kernel[axis])
        .filter(|tap| tap * window.dilations[axis] < window.reach(axis) - end.over)
        .count();
    let last = window.kernel[axis] as f64 / inside.max(1) as f64;
    (1..=end.count).map(|number| if number == end.count { last } else { 1.0 }).collect()
}
