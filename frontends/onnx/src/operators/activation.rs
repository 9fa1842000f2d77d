//! Activations and softmax.

use ir_core::DType;

use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("Celu", "`exp`, `maximum`, `minimum`", |cx| {
        let (data, alpha) = (cx.input(0)?, cx.float("alpha", 1.0)?);
        let scaled = cx.with_scalar("divide", &data, alpha)?;
        exponential(cx, &data, &scaled, alpha)
    }),
    many(
        "Dropout",
        "its operand, and ones as mask; in a training mode `random.uniform`, `where`, `divide`",
        dropout,
    ),
    one("Elu", "`exp`, `maximum`, `minimum`", |cx| {
        let (data, alpha) = (cx.input(0)?, cx.float("alpha", 1.0)?);
        exponential(cx, &data, &data.clone(), alpha)
    }),
    one("Gelu", "`erf`, or `tanh` as `approximate` says", gelu),
    one("Hardmax", "`argmax`, `equal`, `cast`", |cx| {
        let data = cx.input(0)?;
        let (rank, dtype) = (cx.rank(&data)?, cx.dtype(&data)?);
        if cx.opset() < 13 {
            // Old versions look at a matrix row: all axes from this one on.
            let axis = cx.int("axis", 1)?;
            let axis = if axis == rank as i64 { rank } else { from_front(axis, rank)? };
            let matrix = super::shape::flatten(cx, &data, axis)?;
            let greatest = hardmax(cx, &matrix, 1, dtype)?;
            return cx.op("reshape_like", &[&greatest, &data]);
        }
        let axis = cx.axis(-1, rank)?;
        hardmax(cx, &data, axis, dtype)
    }),
    one("HardSigmoid", "`multiply`, `add`, `clip`", |cx| {
        let data = cx.input(0)?;
        let (alpha, beta) = (cx.float("alpha", 0.2)?, cx.float("beta", 0.5)?);
        hard_sigmoid(cx, &data, alpha, beta)
    }),
    one("HardSwish", "`multiply`, `add`, `clip`", |cx| {
        let data = cx.input(0)?;
        let gate = hard_sigmoid(cx, &data, 1.0 / 6.0, 0.5)?;
        cx.op("multiply", &[&data, &gate])
    }),
    one("LeakyRelu", "`nn.leaky_relu`", |cx| {
        let (data, alpha) = (cx.input(0)?, cx.float("alpha", 0.01)?);
        cx.op_with("nn.leaky_relu", &[&data], attr("alpha", alpha))
    }),
    one("LogSoftmax", "`nn.log_softmax`", |cx| softmax(cx, "nn.log_softmax")),
    one("Mish", "`tanh` of a softplus, `multiply`", |cx| {
        let data = cx.input(0)?;
        let gate = softplus(cx, &data)?;
        let gate = cx.op("tanh", &[&gate])?;
        cx.op("multiply", &[&data, &gate])
    }),
    one("PRelu", "`nn.prelu` for a slope per channel, else `where`", prelu),
    one("Relu", "`nn.relu`", |cx| cx.unary("nn.relu")),
    one("Selu", "`exp`, `maximum`, `minimum`", |cx| {
        let data = cx.input(0)?;
        let alpha = cx.float("alpha", 1.673_263_192_176_818_8)?;
        let gamma = cx.float("gamma", 1.050_701_022_148_132_3)?;
        let elu = exponential(cx, &data, &data.clone(), alpha)?;
        cx.with_scalar("multiply", &elu, gamma)
    }),
    one("Shrink", "`where`; of integers, in `float64`", |cx| {
        let given = cx.input(0)?;
        let dtype = cx.dtype(&given)?;
        // Neither bias nor threshold need be whole.
        let data = if dtype.is_float() { given } else { cx.cast(&given, DType::FLOAT64)? };
        let (bias, lambda) = (cx.float("bias", 0.0)?, cx.float("lambd", 0.5)?);
        let is_low = cx.with_scalar("less", &data, -lambda)?;
        let is_high = cx.with_scalar("greater", &data, lambda)?;
        let low = cx.with_scalar("add", &data, bias)?;
        let high = cx.with_scalar("subtract", &data, bias)?;
        let zero = cx.scalar_like(0.0, &data)?;
        let upper = cx.op("where", &[&is_high, &high, &zero])?;
        let result = cx.op("where", &[&is_low, &low, &upper])?;
        cx.cast(&result, dtype)
    }),
    one("Sigmoid", "`sigmoid`", |cx| cx.unary("sigmoid")),
    one("Softmax", "`nn.softmax`; of old versions, over all axes from `axis` on", |cx| {
        softmax(cx, "nn.softmax")
    }),
    one("Softplus", "`exp`, `log`", |cx| {
        let data = cx.input(0)?;
        softplus(cx, &data)
    }),
    one("Softsign", "`abs`, `divide`", |cx| {
        let data = cx.input(0)?;
        softsign(cx, &data)
    }),
    one("Swish", "`sigmoid`, `multiply`", |cx| {
        let data = cx.input(0)?;
        let scaled = cx.with_scalar("multiply", &data, cx.float("alpha", 1.0)?)?;
        let gate = cx.op("sigmoid", &[&scaled])?;
        cx.op("multiply", &[&data, &gate])
    }),
    one("Tanh", "`tanh`", |cx| cx.unary("tanh")),
    one("ThresholdedRelu", "`where`", |cx| {
        let (data, alpha) = (cx.input(0)?, cx.float("alpha", 1.0)?);
        thresholded_relu(cx, &data, alpha)
    }),
];

/// `max(data, 0) + alpha · (exp(min(exponent, 0)) - 1)`.
pub(super) fn exponential(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    exponent: &Value,
    alpha: f64,
) -> Result<Value, Fault> {
    let positive = cx.op("nn.relu", &[data])?;
    let negative = cx.with_scalar("minimum", exponent, 0.0)?;
    let grown = cx.op("exp", &[&negative])?;
    let grown = cx.with_scalar("subtract", &grown, 1.0)?;
    let grown = cx.with_scalar("multiply", &grown, alpha)?;
    cx.op("add", &[&positive, &grown])
}

/// `min(max(alpha · data + beta, 0), 1)`.
pub(super) fn hard_sigmoid(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    alpha: f64,
    beta: f64,
) -> Result<Value, Fault> {
    let line = cx.with_scalar("multiply", data, alpha)?;
    let line = cx.with_scalar("add", &line, beta)?;
    cx.op_with("clip", &[&line], attr("a_min", 0.0).with("a_max", &1.0))
}

/// `log(1 + exp(data))`, without overflow.
pub(super) fn softplus(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let magnitude = cx.op("abs", &[data])?;
    let fallen = cx.op("negative", &[&magnitude])?;
    let grown = cx.op("exp", &[&fallen])?;
    let grown = cx.with_scalar("add", &grown, 1.0)?;
    let rest = cx.op("log", &[&grown])?;
    let positive = cx.op("nn.relu", &[data])?;
    cx.op("add", &[&positive, &rest])
}

/// `data / (1 + |data|)`.
pub(super) fn softsign(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let magnitude = cx.op("abs", &[data])?;
    let divisor = cx.with_scalar("add", &magnitude, 1.0)?;
    cx.op("divide", &[data, &divisor])
}

/// `data` where it is more than `alpha`, else 0.
pub(super) fn thresholded_relu(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    alpha: f64,
) -> Result<Value, Fault> {
    let is_high = cx.with_scalar("greater", data, alpha)?;
    let zero = cx.scalar_like(0.0, data)?;
    cx.op("where", &[&is_high, data, &zero])
}

fn gelu(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    match cx.text("approximate", "none")? {
        "none" => gelu_of(cx, &data, false),
        "tanh" => gelu_of(cx, &data, true),
        other => Err(format!("expected `approximate` none or tanh, found `{other}`").into()),
    }
}

/// `data` by the probability that a normal number is below it, which `tanh` approximates.
pub(super) fn gelu_of(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    is_approximate: bool,
) -> Result<Value, Fault> {
    let inner = match is_approximate {
        false => {
            let scaled = cx.with_scalar("multiply", data, std::f64::consts::FRAC_1_SQRT_2)?;
            cx.op("erf", &[&scaled])?
        }
        true => {
            let square = cx.op("multiply", &[data, data])?;
            let cube = cx.op("multiply", &[&square, data])?;
            let cube = cx.with_scalar("multiply", &cube, 0.044715)?;
            let sum = cx.op("add", &[data, &cube])?;
            let scaled = cx.with_scalar("multiply", &sum, (2.0 / std::f64::consts::PI).sqrt())?;
            cx.op("tanh", &[&scaled])?
        }
    };
    let gate = cx.with_scalar("add", &inner, 1.0)?;
    let half = cx.with_scalar("multiply", data, 0.5)?;
    cx.op("multiply", &[&half, &gate])
}

/// 1 at the first of the greatest elements along `axis`, else 0.
fn hardmax(cx: &mut Cx<'_, '_>, data: &Value, axis: usize, dtype: DType) -> Result<Value, Fault> {
    let extent = cx.shape(data)?[axis];
    let attrs = attr("axis", vec![axis as i64]).with("keepdims", &true);
    let place = cx.op_with("argmax", &[data], attrs)?;
    let places: Vec<i64> = (0..extent).collect();
    let mut shape = vec![1; cx.rank(data)?];
    shape[axis] = extent;
    let places = cx.int_vector(&places);
    let places = cx.cast(&places, DType::INT32)?;
    let places = cx.reshape(&places, &shape)?;
    let is_there = cx.op("equal", &[&place, &places])?;
    cx.cast(&is_there, dtype)
}

fn softmax(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let rank = cx.rank(&data)?;
    if cx.opset() >= 13 {
        let axis = cx.axis(-1, rank)?;
        return cx.op_with(name, &[&data], attr("axis", axis as i64));
    }
    let axis = cx.int("axis", 1)?;
    let axis = if axis == rank as i64 { rank } else { from_front(axis, rank)? };
    if axis + 1 == rank {
        return cx.op_with(name, &[&data], attr("axis", axis as i64));
    }
    // Old versions take the exponentials of a matrix row: all axes from this one on.
    let matrix = super::shape::flatten(cx, &data, axis)?;
    let matrix = cx.op_with(name, &[&matrix], attr("axis", 1i64))?;
    cx.op("reshape_like", &[&matrix, &data])
}

fn prelu(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (data, mut slope) = (cx.input(0)?, cx.input(1)?);
    // Before opset 7, a vector has a slope for each channel.
    let channels = cx.ty(&data)?.shape.get(1).and_then(|dim| dim.known());
    if cx.opset() < 7
        && let [dim] = cx.ty(&slope)?.shape.as_slice()
        && dim.known() == channels
    {
        let axes = cx.rank(&data)? - 2;
        slope = (0..axes).try_fold(slope, |slope, at| cx.expand_dims(&slope, at as i64 + 1))?;
    }
    let (x, s) = (cx.ty(&data)?, cx.ty(&slope)?);
    let per_channel = x.rank() >= 2
        && s.rank() + 1 == x.rank()
        && s.shape.iter().skip(1).all(|dim| dim.known() == Some(1))
        && s.shape.first() == x.shape.get(1)
        && s.shape.first().is_some_and(|dim| dim.known().is_some());
    if per_channel {
        let slope = cx.reshape(&slope, &[-1])?;
        return cx.op("nn.prelu", &[&data, &slope]);
    }
    let is_negative = cx.with_scalar("less", &data, 0.0)?;
    let scaled = cx.op("multiply", &[&data, &slope])?;
    cx.op("where", &[&is_negative, &scaled, &data])
}

fn dropout(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = cx.input(0)?;
    let is_training = match cx.optional(2) {
        None => false,
        Some(mode) => match cx.known_ints(&mode) {
            Some(mode) => mode != [0],
            None => return Err("expected a known training mode".into()),
        },
    };
    let ratio = cx.optional(1);
    let is_known_zero =
        ratio.as_ref().is_some_and(|ratio| super::shape::number(cx, ratio) == Some(0.0));
    if is_training && !is_known_zero {
        return train_dropout(cx, &data, ratio);
    }
    let mut results = vec![data.clone()];
    if cx.wants(1) {
        let ones = cx.op("ones_like", &[&data])?;
        results.push(if cx.opset() < 10 { ones } else { cx.cast(&ones, DType::BOOL)? });
    }
    Ok(results)
}

/// `data` with some of its elements, as many as `ratio` says on average, replaced by 0 and the others scaled, and which
/// these are.
fn train_dropout(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    ratio: Option<Value>,
) -> Result<Vec<Value>, Fault> {
    let (shape, dtype) = (cx.shape(data)?, cx.dtype(data)?);
    let float = |number: f64| Value::Constant(crate::tensors::scalar(DType::FLOAT32, number));
    let ratio = match ratio {
        Some(ratio) => cx.cast(&ratio, DType::FLOAT32)?,
        None => float(0.5),
    };
    let shares = super::random::shares(cx, &shape)?;
    let is_kept = cx.op("greater_equal", &[&shares, &ratio])?;
    let kept = cx.op("subtract", &[&float(1.0), &ratio])?;
    let kept = cx.cast(&kept, dtype)?;
    let scaled = cx.op("divide", &[data, &kept])?;
    let zero = cx.scalar_like(0.0, data)?;
    let result = cx.op("where", &[&is_kept, &scaled, &zero])?;
    Ok(vec![result, is_kept])
}
