//! Normalization.

use ir_core::DType;

use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    many("BatchNormalization", "`nn.batch_norm`; `nn.batch_norm_train` in a training mode", |cx| {
        let operands = [0, 1, 2, 3, 4].map(|index| cx.input(index));
        let [data, gamma, beta, mean, variance] = operands;
        let (data, gamma, beta) = (data?, gamma?, beta?);
        let (mean, variance) = (mean?, variance?);
        if cx.flag("training_mode", false)? {
            return train_batch_norm(cx, &data, [&gamma, &beta], [&mean, &variance]);
        }
        if !cx.flag("spatial", true)? {
            return Err("expected statistics per channel, found `spatial` 0".into());
        }
        let attrs = attr("epsilon", cx.float("epsilon", 1e-5)?);
        let dtype = cx.dtype(&data)?;
        let operands = in_one_type(cx, [data, gamma, beta, mean, variance])?;
        let mut results = cx.fields_of("nn.batch_norm", &operands.each_ref(), attrs)?;
        Ok(vec![cx.cast(&results.swap_remove(0), dtype)?])
    }),
    one("GroupNormalization", "`nn.group_norm`", |cx| {
        let (data, gamma, beta) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let groups = cx.required_int("num_groups")?;
        let Some(channels) = cx.ty(&data)?.shape.get(1).and_then(|dim| dim.known()) else {
            return Err(Fault::Open("expected a known number of channels".to_string()));
        };
        // Before version 21 there is a factor per group, since then one per channel.
        let mut per_channel = |value: Value| match cx.ty(&value)?.shape.first() {
            Some(dim) if dim.known() == Some(channels) => Ok(value),
            _ if groups > 0 && channels % groups == 0 => {
                let attrs = attr("repeats", channels / groups).with("axis", &0i64);
                cx.op_with("repeat", &[&value], attrs)
            }
            _ => {
                Err(Fault::from(format!("expected groups that divide {channels}, found {groups}")))
            }
        };
        let (gamma, beta) = (per_channel(gamma)?, per_channel(beta)?);
        let attrs = attr("num_groups", groups).with("epsilon", &cx.float("epsilon", 1e-5)?);
        cx.op_with("nn.group_norm", &[&data, &gamma, &beta], attrs)
    }),
    one("InstanceNormalization", "`nn.instance_norm`", |cx| {
        let (data, gamma, beta) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let attrs = attr("epsilon", cx.float("epsilon", 1e-5)?);
        cx.op_with("nn.instance_norm", &[&data, &gamma, &beta], attrs)
    }),
    many(
        "LayerNormalization",
        "`nn.layer_norm` over the last axis; else, or where the statistics \
        are wanted, `mean`, `variance`, `rsqrt`",
        layer_norm,
    ),
    one("LpNormalization", "`multiply`, `sum`, `where`, `divide`; zero stays zero", |cx| {
        let data = cx.input(0)?;
        let axis = cx.axis(-1, cx.rank(&data)?)? as i64;
        let attrs = attr("axis", vec![axis]).with("keepdims", &true);
        let norm = match cx.int("p", 2)? {
            1 => {
                let magnitude = cx.op("abs", &[&data])?;
                cx.op_with("sum", &[&magnitude], attrs)?
            }
            2 => {
                let squares = cx.op("multiply", &[&data, &data])?;
                let sum = cx.op_with("sum", &[&squares], attrs)?;
                cx.op("sqrt", &[&sum])?
            }
            other => return Err(format!("expected the norm 1 or 2, found {other}").into()),
        };
        // What is zero stays zero.
        let (zero, one) = (cx.scalar_like(0.0, &norm)?, cx.scalar_like(1.0, &norm)?);
        let is_zero = cx.op("equal", &[&norm, &zero])?;
        let norm = cx.op("where", &[&is_zero, &one, &norm])?;
        cx.op("divide", &[&data, &norm])
    }),
    one("LRN", "`nn.lrn`", |cx| {
        let data = cx.input(0)?;
        let attrs = attr("size", cx.required_int("size")?)
            .with("alpha", &cx.float("alpha", 1e-4)?)
            .with("beta", &cx.float("beta", 0.75)?)
            .with("bias", &cx.float("bias", 1.0)?);
        cx.op_with("nn.lrn", &[&data], attrs)
    }),
    one("MeanVarianceNormalization", "`mean`, `variance`, `sqrt`, `divide`", |cx| {
        let data = cx.input(0)?;
        let axes = cx.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
        let (centred, variance) = moments(cx, &data, &axes)?.1;
        let deviation = cx.op("sqrt", &[&variance])?;
        let deviation = cx.with_scalar("add", &deviation, 1e-9)?;
        cx.op("divide", &[&centred, &deviation])
    }),
    one("RMSNormalization", "`multiply`, `mean`, `rsqrt`", |cx| {
        let (data, scale) = (cx.input(0)?, cx.input(1)?);
        let axis = cx.axis(-1, cx.rank(&data)?)?;
        root_mean_square(cx, &data, &scale, axis)
    }),
];

/// Operands of one element type: where theirs are several, of the widest, but at least `float32`.
fn in_one_type<const N: usize>(
    cx: &mut Cx<'_, '_>,
    mut operands: [Value; N],
) -> Result<[Value; N], Fault> {
    let dtypes = operands.iter().map(|operand| cx.dtype(operand));
    let dtypes = dtypes.collect::<Result<Vec<_>, _>>()?;
    if dtypes.windows(2).any(|pair| pair[0] != pair[1]) {
        let is_double = dtypes.contains(&DType::FLOAT64);
        let dtype = if is_double { DType::FLOAT64 } else { DType::FLOAT32 };
        for operand in &mut operands {
            *operand = cx.cast(operand, dtype)?;
        }
    }
    Ok(operands)
}

/// `data` by the root of the mean of its squares over the axes from `axis` on, times `scale`.
pub(super) fn root_mean_square(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    scale: &Value,
    axis: usize,
) -> Result<Value, Fault> {
    let (rank, dtype) = (cx.rank(data)?, cx.dtype(data)?);
    let precision = match cx.int("stash_type", 1)? {
        0 => dtype,
        _ => cx.element_type("stash_type")?.unwrap_or(DType::FLOAT32),
    };
    let precise = cx.cast(data, precision)?;
    let squares = cx.op("multiply", &[&precise, &precise])?;
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let attrs = attr("axis", axes).with("keepdims", &true);
    let mean = cx.op_with("mean", &[&squares], attrs)?;
    let mean = cx.with_scalar("add", &mean, cx.float("epsilon", 1e-5)?)?;
    let inverse = cx.op("rsqrt", &[&mean])?;
    let normal = cx.op("multiply", &[&precise, &inverse])?;
    let normal = cx.cast(&normal, dtype)?;
    // The result is of the type of the scale.
    let normal = cx.cast(&normal, cx.dtype(scale)?)?;
    cx.op("multiply", &[&normal, scale])
}

/// The normal values of a batch by its own statistics, and the running ones that follow.
fn train_batch_norm(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    [gamma, beta]: [&Value; 2],
    running: [&Value; 2],
) -> Result<Vec<Value>, Fault> {
    let attrs = attr("epsilon", cx.float("epsilon", 1e-5)?);
    let mut results = cx.fields_of("nn.batch_norm_train", &[data, gamma, beta], attrs)?;
    let statistics = results.split_off(1);
    let momentum = cx.float("momentum", 0.9)?;
    for (old, new) in running.into_iter().zip(statistics) {
        let (old, new) = (
            cx.with_scalar("multiply", old, momentum)?,
            cx.with_scalar("multiply", &new, 1.0 - momentum)?,
        );
        results.push(cx.op("add", &[&old, &new])?);
    }
    Ok(results)
}

/// The mean over `axes`, and `data` without it and its variance, axes kept.
fn moments(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    axes: &[i64],
) -> Result<(Value, (Value, Value)), Fault> {
    let attrs = attr("axis", axes.to_vec()).with("keepdims", &true);
    let mean = cx.op_with("mean", &[data], attrs)?;
    let variance = cx.op_with("variance", &[data, &mean], attrs)?;
    let centred = cx.op("subtract", &[data, &mean])?;
    Ok((mean, (centred, variance)))
}

fn layer_norm(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let (data, gamma) = (cx.input(0)?, cx.input(1)?);
    let axis = cx.axis(-1, cx.rank(&data)?)?;
    let epsilon = cx.float("epsilon", 1e-5)?;
    let beta = cx.optional(2);
    let statistics = cx.wants(1) || cx.wants(2);
    normalized(cx, &data, &gamma, beta, epsilon, axis, statistics)
}

/// The normal values along the last axis.
pub(super) fn last_axis(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    gamma: &Value,
    beta: Option<Value>,
    epsilon: f64,
) -> Result<Vec<Value>, Fault> {
    let axis = cx.rank(data)?.saturating_sub(1);
    normalized(cx, data, gamma, beta, epsilon, axis, false)
}

/// The normal values over the axes from `axis` on, and where they are wanted the statistics.
fn normalized(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    gamma: &Value,
    beta: Option<Value>,
    epsilon: f64,
    axis: usize,
    statistics: bool,
) -> Result<Vec<Value>, Fault> {
    let rank = cx.rank(data)?;
    let extent = cx.ty(data)?.shape.last().and_then(|dim| dim.known());
    let full = |cx: &Cx<'_, '_>, value: &Value| {
        Ok::<bool, Fault>(
            cx.ty(value)?.shape.as_slice() == [ir_core::Dim::Known(extent.unwrap_or(-1))],
        )
    };
    if axis + 1 == rank
        && !statistics
        && full(cx, gamma)?
        && let Some(extent) = extent
    {
        let beta = match &beta {
            Some(beta) => beta.clone(),
            None => cx.full(cx.dtype(gamma)?, &[extent], 0.0)?,
        };
        if full(cx, &beta)? {
            let attrs = attr("epsilon", epsilon);
            return Ok(vec![cx.op_with("nn.layer_norm", &[data, gamma, &beta], attrs)?]);
        }
    }
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let (mean, (centred, variance)) = moments(cx, data, &axes)?;
    let variance = cx.with_scalar("add", &variance, epsilon)?;
    let inverse = cx.op("rsqrt", &[&variance])?;
    let normal = cx.op("multiply", &[&centred, &inverse])?;
    let mut result = cx.op("multiply", &[&normal, gamma])?;
    if let Some(beta) = beta {
        result = cx.op("add", &[&result, &beta])?;
    }
    Ok(vec![result, mean, inverse])
}
