//! Pools.

use super::convolution::Window;
use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("AveragePool", "`nn.avg_pool1d`, `nn.avg_pool2d` or `nn.avg_pool3d`", |cx| {
        let include = cx.flag("count_include_pad", false)?;
        let data = cx.input(0)?;
        pool(cx, &data, ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"], Some(include))
    }),
    one("GlobalAveragePool", "`nn.global_avg_pool2d`, or `mean`", |cx| {
        global(cx, "nn.global_avg_pool2d", "mean")
    }),
    one("GlobalMaxPool", "`nn.global_max_pool2d`, or `max`", |cx| {
        global(cx, "nn.global_max_pool2d", "max")
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
    one("MaxPool", "`nn.max_pool1d`, `nn.max_pool2d` or `nn.max_pool3d`; no indices", |cx| {
        let data = cx.input(0)?;
        pool(cx, &data, ["nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"], None)
    }),
];

fn global(cx: &mut Cx<'_, '_>, for_images: &str, other: &str) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    match cx.rank(&data)? {
        4 => cx.op(for_images, &[&data]),
        rank => {
            let axes: Vec<i64> = (2..rank as i64).collect();
            if axes.is_empty() {
                return Err(
                    format!("expected a tensor of rank at least 3, found rank {rank}").into()
                );
            }
            cx.op_with(other, &[&data], attr("axis", axes).with("keepdims", &true))
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
