//! Operators that the optimizers and quantizers of ONNX Runtime write.

mod attention;
mod quantized;

use ir_core::DType;

use super::activation::gelu_of;
use super::convolution;
use super::linear::{gemm, matmul};
use super::normalization::{last_axis, root_mean_square};
use super::recurrent::Activation;
use super::{Family, Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

/// All of them.
pub(super) const FAMILIES: [Family; 3] = [
    Family { title: "Extensions of ONNX Runtime", operators: OPERATORS },
    Family { title: "Attention of ONNX Runtime", operators: attention::OPERATORS },
    Family { title: "Quantization of ONNX Runtime", operators: quantized::OPERATORS },
];

const OPERATORS: &[Operator] = &[
    one("SimplifiedLayerNormalization", "`multiply`, `mean`, `rsqrt`", |cx| {
        let (data, scale) = (cx.input(0)?, cx.input(1)?);
        let rank = cx.rank(&data)?;
        let axis = cx.axis(-1, rank)?;
        root_mean_square(cx, &data, &scale, axis)
    }),
    one("com.microsoft.BiasGelu", "`add`, `erf`, `multiply`", |cx| {
        let data = cx.binary("add")?;
        gelu_of(cx, &data, false)
    }),
    many(
        "com.microsoft.EmbedLayerNormalization",
        "`take`, `add`, `nn.layer_norm`, `sum` of the mask",
        embeddings,
    ),
    one("com.microsoft.FastGelu", "`add`, `tanh`, `multiply`", |cx| {
        let mut data = cx.input(0)?;
        if let Some(bias) = cx.optional(1) {
            data = cx.op("add", &[&data, &bias])?;
        }
        gelu_of(cx, &data, true)
    }),
    one("com.microsoft.FusedConv", "as `Conv`, `add`, an activation", |cx| {
        let mut result = convolution::convolution(cx)?;
        if let Some(added) = cx.optional(3) {
            result = cx.op("add", &[&result, &added])?;
        }
        let numbers = cx.floats("activation_params")?.unwrap_or_default();
        activated(cx, &result, numbers.first().copied(), numbers.get(1).copied())
    }),
    one("com.microsoft.FusedGemm", "as `Gemm`, an activation", |cx| {
        let result = gemm(cx)?;
        let numbers = [cx.float_if("activation_alpha")?, cx.float_if("activation_beta")?];
        activated(cx, &result, numbers[0], numbers[1])
    }),
    one(
        "com.microsoft.FusedMatMul",
        "`transpose`, `nn.matmul` or `nn.batch_matmul`, `multiply`",
        |cx| {
            let mut sides = [cx.input(0)?, cx.input(1)?];
            for (side, name) in sides.iter_mut().zip(["A", "B"]) {
                if cx.flag(&format!("transBatch{name}"), false)? {
                    return Err(format!("expected `transBatch{name}` 0").into());
                }
                if cx.flag(&format!("trans{name}"), false)? && cx.rank(side)? > 1 {
                    *side = turned(cx, side)?;
                }
            }
            let product = matmul(cx, &sides[0], &sides[1])?;
            match cx.float("alpha", 1.0)? {
                1.0 => Ok(product),
                alpha => cx.with_scalar("multiply", &product, alpha),
            }
        },
    ),
    one("com.microsoft.Gelu", "`erf`, `multiply`", |cx| {
        let data = cx.input(0)?;
        gelu_of(cx, &data, false)
    }),
    one("com.microsoft.QuickGelu", "`sigmoid`, `multiply`", |cx| {
        let data = cx.input(0)?;
        let scaled = cx.with_scalar("multiply", &data, cx.float("alpha", 1.702)?)?;
        let gate = cx.op("sigmoid", &[&scaled])?;
        cx.op("multiply", &[&data, &gate])
    }),
    many(
        "com.microsoft.SkipLayerNormalization",
        "`add`, `mean`, `variance`, `rsqrt`, `multiply`; no statistics",
        |cx| {
            let (data, skip, gamma) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
            let (beta, bias) = (cx.optional(3), cx.optional(4));
            let sum = sum_of(cx, &data, &skip, bias.as_ref())?;
            let epsilon = cx.float("epsilon", 1e-5)?;
            let mut results = last_axis(cx, &sum, &gamma, beta, epsilon)?;
            if cx.wants(1) || cx.wants(2) {
                return Err("expected no statistics as results".into());
            }
            results.truncate(1);
            results.extend([sum.clone(), sum.clone(), sum]);
            Ok(results)
        },
    ),
    many(
        "com.microsoft.SkipSimplifiedLayerNormalization",
        "`add`, `multiply`, `mean`, `rsqrt`; no statistics",
        |cx| {
            let (data, skip, scale) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
            let bias = cx.optional(3);
            let sum = sum_of(cx, &data, &skip, bias.as_ref())?;
            if cx.wants(1) || cx.wants(2) {
                return Err("expected no statistics as results".into());
            }
            let axis = cx.rank(&sum)?.saturating_sub(1);
            let result = root_mean_square(cx, &sum, &scale, axis)?;
            Ok(vec![result, sum.clone(), sum.clone(), sum])
        },
    ),
];

/// The matrices of `data`, transposed.
fn turned(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let rank = cx.rank(data)? as i64;
    let order: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    cx.transpose(data, &order)
}

/// The sum of the first operands, and of a bias where there is one.
fn sum_of(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    skip: &Value,
    bias: Option<&Value>,
) -> Result<Value, Fault> {
    let sum = cx.op("add", &[data, skip])?;
    match bias {
        Some(bias) => cx.op("add", &[&sum, bias]),
        None => Ok(sum),
    }
}

/// `data` through the activation that the node names, if any, with these parameters.
fn activated(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    alpha: Option<f64>,
    beta: Option<f64>,
) -> Result<Value, Fault> {
    match (cx.text("activation", "")?, alpha, beta) {
        ("", ..) => Ok(data.clone()),
        ("Clip", Some(least), Some(greatest)) => {
            cx.op_with("clip", &[data], attr("a_min", least).with("a_max", &greatest))
        }
        (name, ..) => Activation { name: name.to_string(), alpha, beta }.apply(cx, data),
    }
}

/// The normal values of sums of embeddings: of words, of places, and of segments where there are any.
fn embeddings(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let (words, segments) = (cx.input(0)?, cx.optional(1));
    let rows = |cx: &mut Cx<'_, '_>, table: usize, places: &Value| {
        let table = cx.input(table)?;
        cx.op_with("take", &[&table, places], attr("axis", 0i64))
    };
    let mut sum = rows(cx, 2, &words)?;
    let of_places = match cx.optional(8) {
        Some(places) => rows(cx, 3, &places)?,
        None => {
            let positions = cx.shape(&words)?.last().copied().unwrap_or(0);
            let table = cx.input(3)?;
            let attrs = attr("begin", vec![0i64]).with("end", &vec![positions]);
            cx.op_with("strided_slice", &[&table], attrs.with("axes", &vec![0i64]))?
        }
    };
    sum = cx.op("add", &[&sum, &of_places])?;
    if let (Some(segments), Some(_)) = (&segments, cx.optional(4)) {
        let of_segments = rows(cx, 4, segments)?;
        sum = cx.op("add", &[&sum, &of_segments])?;
    }
    let (gamma, beta) = (cx.input(5)?, cx.input(6)?);
    let epsilon = cx.float("epsilon", 1e-12)?;
    let mut results = last_axis(cx, &sum, &gamma, Some(beta), epsilon)?;
    results.truncate(1);
    results.push(match cx.optional(7) {
        Some(mask) => {
            let mask = cx.cast(&mask, DType::INT32)?;
            cx.op_with("sum", &[&mask], attr("axis", vec![1i64]))?
        }
        None => {
            let batch = cx.shape(&words)?.first().copied().unwrap_or(0);
            cx.zeros(DType::INT32, &[batch])?
        }
    });
    results.push(sum);
    Ok(results)
}
