//! Pools.

use super::convolution::Window;
use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("AveragePool", "`nn.avg_pool1d`, `nn.avg_pool2d` or `nn.avg_pool3d`", |cx| {
        let include = cx.flag("count_include_pad", false)?;
        pool(cx, ["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"], Some(include))
    }),
    one("GlobalAveragePool", "`nn.global_avg_pool2d`, or `mean`", |cx| {
        global(cx, "nn.global_avg_pool2d", "mean")
    }),
    one("GlobalMaxPool", "`nn.global_max_pool2d`, or `max`", |cx| {
        global(cx, "nn.global_max_pool2d", "max")
    }),
    one("MaxPool", "`nn.max_pool1d`, `nn.max_pool2d` or `nn.max_pool3d`; no indices", |cx| {
        pool(cx, ["nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"], None)
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

/// A pool, its mean over the padding too where `include` says so.
fn pool(cx: &mut Cx<'_, '_>, names: [&str; 3], include: Option<bool>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let Some(kernel) = cx.ints("kernel_shape")? else {
        return Err("attribute `kernel_shape` is missing".into());
    };
    let rank = kernel.len();
    let found = cx.rank(&data)?;
    let Some(name) = names.get(rank.wrapping_sub(1)).filter(|_| found == rank + 2) else {
        return Err(format!(
            "expected an input with 1 to 3 spatial axes and a kernel of as many, found rank \
             {found} and {kernel:?}"
        )
        .into());
    };
    let mut window = Window::of(cx, &data, kernel)?;
    // By how much a last window reaches over the padded end.
    let mut over = vec![0; rank];
    let mut counts = vec![0; rank];
    if cx.flag("ceil_mode", false)? {
        // A window more than fits, unless it would begin after the input: pad to its end.
        let extents = cx.spatial(&data)?;
        for axis in 0..rank {
            let (before, after) = (window.pads[axis], window.pads[axis + rank]);
            let (stride, reach) = (window.strides[axis], window.reach(axis));
            let padded = extents[axis] + before + after;
            let mut count = (padded - reach).max(0).div_euclid(stride) + 1;
            if padded >= reach
                && (padded - reach) % stride != 0
                && count * stride < extents[axis] + before
            {
                count += 1;
            }
            counts[axis] = count;
            over[axis] = ((count - 1) * stride + reach - padded).max(0);
            window.pads[axis + rank] += over[axis];
        }
    }
    let mut attrs = attr("pool_size", window.kernel.clone())
        .with("strides", &window.strides)
        .with("dilation", &window.dilations)
        .with("padding", &window.pads);
    if let Some(include) = include {
        attrs = attrs.with("count_include_pad", &include);
    }
    let mut result = cx.op_with(name, &[&data], attrs)?;
    if include == Some(true) {
        // Beyond the padding nothing counts: the last mean is over fewer elements.
        for axis in (0..rank).filter(|axis| over[*axis] > 0) {
            let inside = (0..window.kernel[axis])
                .filter(|tap| tap * window.dilations[axis] < window.reach(axis) - over[axis])
                .count();
            let count = usize::try_from(counts[axis]).unwrap_or(0);
            let mut factors = vec![1.0; count];
            if let Some(last) = factors.last_mut() {
                *last = window.kernel[axis] as f64 / inside.max(1) as f64;
            }
            let mut shape = vec![1; rank - axis];
            shape[0] = counts[axis];
            let factors = cx.floats_like(&factors, &shape, &result)?;
            result = cx.op("multiply", &[&result, &factors])?;
        }
    }
    Ok(result)
}
