//! The `nn.*`, layout and annotation operators: what type they have, and what they compute.
//!
//! Expected numbers were computed with direct numpy formulas, independent of the evaluators.

use ir_core::text::module::parse;
use ir_core::{Module, Registry, TensorData, Type, TypeData};
use proptest::prelude::*;
use relay::define::{Define, define_alone};
use relay::inference::infer_module;
use relay::interpreter::{Interpreter, Value, approx_equal, flatten};

fn registry() -> Registry {
    Registry::from([relay_operators::dialect()])
}

/// Operand `k` of a test: small integers without a short period.
fn fill(shape: &[i64], k: i64) -> TensorData {
    let values: Vec<i64> = (0..shape.iter().product()).map(|i| (7 * i + 3 * k) % 11 - 5).collect();
    TensorData::from_i64(ir_core::DType::FLOAT32, shape, &values).unwrap()
}

/// The inferred type and the value of `expression` over parameters `%a`, `%b`, ….
fn run_on(
    registry: &Registry,
    expression: &str,
    operands: &[TensorData],
) -> Result<(Type, Value), String> {
    let names = ["a", "b", "c", "d", "e"];
    let params: Vec<String> = names
        .iter()
        .zip(operands)
        .map(|(name, value)| format!("%{name}: {}", value.ty()))
        .collect();
    let text = format!(
        "#[version = \"0.0.5\"]\ndef @main({}) {{\n  {expression}\n}}\n",
        params.join(", ")
    );
    let (mut module, mut found) = parse("test", &text, registry);
    if found.is_empty() {
        found = infer_module(&mut module, registry);
    }
    if let Some(diagnostic) = found.first() {
        return Err(diagnostic.message.clone());
    }
    let ty = module.get("main").unwrap().signature.ty.as_function().unwrap().result;
    let args = operands.iter().cloned().map(Value::from).collect();
    let value = Interpreter::new(&module, registry).call("main", args);
    let value = value.map_err(|found| found.to_string())?;
    check_definition(registry, &module, operands, &value);
    Ok((ty, value))
}

/// Where `@main` is one operator on its parameters, checks that its definition as tensor
/// expressions, where there is one, gives `value`.
fn check_definition(registry: &Registry, module: &Module, operands: &[TensorData], value: &Value) {
    let body = module.body("main").unwrap();
    let params = body.block_args(body.entry());
    let mut ops = body.block_ops(body.entry()).filter(|op| body.op_name(*op) != "relay.yield");
    let (Some(op), None) = (ops.next(), ops.next()) else { return };
    if registry.hook::<Define>(body.op_name(op)).is_none() {
        return;
    }
    let types: Vec<Type> = body.operands(op).map(|operand| body.ty(operand)).collect();
    let inputs: Vec<TensorData> = body
        .operands(op)
        .filter_map(|operand| params.iter().position(|param| *param == operand))
        .map(|number| operands[number].clone())
        .collect();
    let info = registry.info(body.op_name(op)).unwrap();
    let result = body.ty(body.result(op, 0));
    let item = define_alone(registry, info, &types, body.attrs(op), result).unwrap();
    let found = te::interpreter::run_compute(item.body.as_ref().unwrap(), &inputs).unwrap();
    for (found, expected) in found.into_iter().zip(flatten(value).unwrap()) {
        let equal = approx_equal(&found.into(), &expected.into(), 1e-5, 1e-5);
        equal.unwrap_or_else(|mismatch| panic!("`{}`: {mismatch}", info.def.name));
    }
}

fn run(expression: &str, shapes: &[&[i64]]) -> Result<(Type, Value), String> {
    let operands: Vec<TensorData> =
        shapes.iter().enumerate().map(|(k, shape)| fill(shape, k as i64)).collect();
    run_on(&registry(), expression, &operands)
}

/// The type of a value made of tensors and tuples of tensors.
fn type_of(value: &Value) -> Type {
    match value.as_tensor() {
        Some(tensor) => tensor.ty(),
        None => Type::tuple(value.as_tuple().unwrap().iter().map(type_of)),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match value.as_tensor() {
        Some(tensor) => tensor.to_f64(),
        None => numbers(&value.as_tuple().unwrap()[0]),
    }
}

fn check(expression: &str, shapes: &[&[i64]], expected: &[f64]) {
    let (ty, value) = run(expression, shapes).unwrap_or_else(|e| panic!("{expression}: {e}"));
    assert_eq!(type_of(&value), ty, "{expression}");
    let found = numbers(&value);
    assert_eq!(found.len(), expected.len(), "{expression}: {found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let close = (found - expected).abs() <= 2e-5 * (1.0 + expected.abs());
        assert!(close, "{expression}: expected {expected}, found {found}");
    }
}

#[test]
fn convolutions() {
    check(
        "nn.conv2d(%a, %b, strides=[2, 1], padding=[1, 0])",
        &[&[1, 2, 4, 5], &[2, 2, 3, 2]],
        &[
            -13.0, 58.0, -36.0, 2.0, 2.0, -34.0, 62.0, -29.0, -15.0, -36.0, 97.0, -45.0, 53.0,
            11.0, -53.0, 92.0,
        ],
    );
    check(
        "nn.conv2d(%a, %b, dilation=[2, 3], groups=2)",
        &[&[1, 4, 5, 5], &[2, 2, 2, 2]],
        &[59.0, -23.0, -32.0, 29.0, -24.0, 59.0, -8.0, -1.0, 5.0, -21.0, -4.0, -8.0],
    );
    check(
        "nn.conv1d_transpose(%a, %b, strides=[2], padding=[1], output_padding=[1])",
        &[&[1, 2, 3], &[2, 2, 2]],
        &[-25.0, 0.0, 10.0, -8.0, -10.0, 30.0, -2.0, -3.0, 10.0, -3.0],
    );
}

#[test]
fn pools() {
    let x: &[&[i64]] = &[&[1, 1, 4, 4]];
    let window = "pool_size=[3, 3], strides=[2, 2], padding=[1, 1]";
    check(&format!("nn.max_pool2d(%a, {window})"), x, &[2.0, 5.0, 3.0, 5.0]);
    check(&format!("nn.avg_pool2d(%a, {window})"), x, &[-1.25, 1.0, -0.5, 2.0 / 9.0]);
    check(
        &format!("nn.avg_pool2d(%a, {window}, count_include_pad=True)"),
        x,
        &[-5.0 / 9.0, 6.0 / 9.0, -3.0 / 9.0, 2.0 / 9.0],
    );
    check(
        "nn.max_pool2d(%a, pool_size=[2, 2], strides=[3, 3], ceil_mode=True)",
        x,
        &[2.0, 5.0, 2.0, 1.0],
    );
}

#[test]
fn normalizations() {
    check("nn.softmax(%a)", &[&[2, 3]], &[0.000895, 0.981135, 0.01797, 0.98169, 0.01798, 0.000329]);
    check(
        "nn.log_softmax(%a, axis=0)",
        &[&[2, 3]],
        &[-10.000045, -0.313262, -0.313262, -0.000045, -1.313262, -1.313262],
    );
    check(
        "nn.layer_norm(%a, %b, %c)",
        &[&[2, 4], &[4], &[4]],
        &[3.626128, -0.373872, 3.474774, -3.939192, 0.6, -9.999994, 5.399999, 0.6],
    );
    check(
        "nn.instance_norm(%a, %b, %c)",
        &[&[1, 2, 3], &[2], &[2]],
        &[3.324951, -1.557446, 1.232495, 3.123721, -3.0, -9.123721],
    );
    check(
        "nn.group_norm(%a, %b, %c, num_groups=2)",
        &[&[1, 4, 2], &[4], &[4]],
        &[3.626128, -0.050451, -5.626128, 3.565319, 4.2, 2.600001, -4.199997, 0.6],
    );
    check(
        "nn.l2_normalize(%a, eps=1e-5f, axis=[1])",
        &[&[1, 4, 2]],
        &[-0.73721, 0.324443, -0.294884, 0.811107, 0.147442, -0.486664, 0.589768, 0.0],
    );
    check(
        "nn.lrn(%a, size=3, alpha=0.1f)",
        &[&[1, 4, 2]],
        &[-2.211915, 0.884766, -0.877383, 2.057744, 0.474763, -1.273844, 1.972572, 0.0],
    );
    check(
        "nn.batch_norm(%a, %b, %c, %d, abs(%e))",
        &[&[1, 2, 2], &[2], &[2], &[2], &[2]],
        &[9.999989, 2.999998, -8.773493, 11.433733],
    );
}

#[test]
fn products() {
    check("nn.dense(%a, %b, units=2)", &[&[2, 3], &[2, 3]], &[18.0, 23.0, -8.0, -11.0]);
    check(
        "nn.batch_matmul(%a, %b, transpose_b=True)",
        &[&[2, 2, 3], &[1, 2, 3]],
        &[18.0, 23.0, -8.0, -11.0, -12.0, -12.0, -16.0, -13.0],
    );
    check(
        "einsum((%a, %b), equation=\"ij,kj->ki\")",
        &[&[2, 3], &[2, 3]],
        &[18.0, -8.0, 23.0, -11.0],
    );
    check("nn.bias_add(%a, %b, axis=-2)", &[&[2, 2], &[2]], &[-7.0, 0.0, 3.0, 10.0]);
}

#[test]
fn placements() {
    check(
        "nn.pad(%a, 0f, pad_width=[[1, 0], [1, 2]], pad_mode=\"reflect\")",
        &[&[2, 3]],
        &[
            1.0, 5.0, 1.0, -3.0, 1.0, 5.0, 2.0, -5.0, 2.0, -2.0, 2.0, -5.0, 1.0, 5.0, 1.0, -3.0,
            1.0, 5.0,
        ],
    );
    check(
        "nn.mirror_pad(%a, pad_width=[[1, 0], [1, 2]])",
        &[&[2, 3]],
        &[
            -5.0, -5.0, 2.0, -2.0, -2.0, 2.0, -5.0, -5.0, 2.0, -2.0, -2.0, 2.0, 5.0, 5.0, 1.0,
            -3.0, -3.0, 1.0,
        ],
    );
    check(
        "nn.depth_to_space(%a, block_size=2)",
        &[&[1, 4, 1, 2]],
        &[-5.0, -2.0, 2.0, 5.0, 1.0, 4.0, -3.0, 0.0],
    );
    check(
        "nn.space_to_depth(%a, block_size=2)",
        &[&[1, 1, 2, 4]],
        &[-5.0, -2.0, 2.0, 5.0, 1.0, 4.0, -3.0, 0.0],
    );
    check("nn.dilate(%a, strides=[2], dilation_value=9f)", &[&[2]], &[-5.0, 9.0, 2.0]);
    check("nn.upsampling(%a, scale_h=1f, scale_w=2f)", &[&[1, 1, 1, 2]], &[-5.0, -5.0, 2.0, 2.0]);
    check(
        "nn.upsampling(%a, scale_h=1f, scale_w=1.5f, method=\"bilinear\", align_corners=True)",
        &[&[1, 1, 1, 2]],
        &[-5.0, -1.5, 2.0],
    );
}

/// Expected numbers are those of `numpy.fft` for `dft`, and of loops in numpy for `stft`.
#[test]
fn spectra() {
    check(
        "concatenate(dft(%a, %b))",
        &[&[5], &[5]],
        &[
            1.0, -3.197802, -9.716441, -3.283559, -9.802198, 5.0, 5.562627, -17.144368, -2.654006,
            -0.764253,
        ],
    );
    check(
        "concatenate(dft(%a, %b, inverse=True))",
        &[&[5], &[5]],
        &[
            0.2, -1.96044, -0.656712, -1.943288, -0.63956, 1.0, -0.152851, -0.530801, -3.428874,
            1.112525,
        ],
    );
    check(
        "stft(%a, %b, n_fft=4, hop_length=3, win_length=3, onesided=False)",
        &[&[7], &[3]],
        &[
            18.0, 0.0, -8.0, 0.0, 6.0, -10.392305, -11.0, -6.928203, 6.0, 10.392305, -11.0,
            6.928203, 18.0, 0.0, -8.0, 0.0,
        ],
    );
    check(
        "stft(%a, %b, n_fft=4, normalized=True)",
        &[&[2, 6], &[4]],
        &[
            1.5, 0.0, -6.0, 0.0, 19.5, 0.0, 6.0, -12.5, -4.5, 3.5, 1.5, -8.0, 6.5, 0.0, 7.0, 0.0,
            -14.5, 0.0, -10.5, 0.0, -7.0, 0.0, 18.5, 0.0, -2.0, -4.5, -1.5, 11.5, 4.5, 0.0, -1.5,
            0.0, 10.0, 0.0, -11.5, 0.0,
        ],
    );
}

/// Expected numbers are those of loops in numpy.
#[test]
fn relatives_of_convolution() {
    check(
        "nn.correlation(%a, %b, padding=[1, 1, 0, 0])",
        &[&[1, 2, 3, 3], &[1, 2, 3, 3]],
        &[
            0.0, 0.0, 0.0, 4.0, 0.0, 0.0, -10.0, 0.5, 0.0, 0.0, 14.5, 2.5, 0.0, 0.5, 0.0, -6.5,
            -2.5, 4.0, -2.5, 1.0, -9.5, 2.0, 11.0, 3.0, 0.0, -5.5, 0.0, -6.0, 15.0, 3.5, -6.0, 1.5,
            -8.5, 1.5, 7.5, 3.5,
        ],
    );
    check(
        "nn.correlation(%a, %b, kernel_size=3, max_displacement=2, stride1=2, stride2=2, \
         padding=[2], is_multiply=False)",
        &[&[1, 1, 5, 5], &[1, 1, 5, 5]],
        &[
            2.888889, 3.333333, 3.222222, 5.333333, 3.111111, 2.0, 3.0, 2.0, 2.444444, 2.666667,
            2.777778, 3.111111, 2.222222, 0.0, 1.555556, 0.0, 3.555556, 4.666667, 4.111111,
            4.111111, 5.555556, 4.0, 5.555556, 3.444444, 3.888889, 5.333333, 3.333333, 3.888889,
            5.333333, 5.0, 3.555556, 3.555556, 3.0, 2.555556, 3.222222, 2.777778,
        ],
    );
    check(
        "image.dilation2d(%a, %b, strides=[2, 1], padding=[1, 0, 0, 1], dilations=[1, 2])",
        &[&[1, 2, 4, 4], &[2, 2, 2]],
        &[5.0, 5.0, 5.0, 9.0, 5.0, 5.0, 4.0, 4.0, 4.0, 7.0, 3.0, 3.0],
    );
}

/// Expected numbers are those of `numpy.concatenate`.
#[test]
fn queues() {
    let expected = &[1.0, -5.0, 2.0, 0.0, -2.0, 5.0];
    check("nn.fifo_buffer(%a, %b, axis=-1)", &[&[2, 2], &[2, 3]], expected);
}

/// Expected numbers are those of `numpy.einsum`.
#[test]
fn axes_under_dots_broadcast() {
    check(
        "einsum((%a, %b), equation=\"...ij,...jk->...ik\")",
        &[&[2, 1, 1, 2], &[2, 2, 2]],
        &[12.0, -31.0, -28.0, 6.0, 9.0, -25.0, -28.0, 15.0],
    );
    check(
        "einsum((%a, %b), equation=\"b...,...\")",
        &[&[2, 3], &[1]],
        &[10.0, -10.0, -4.0, -2.0, 4.0, 6.0],
    );
}

/// One call of every operator: the evaluated type is the inferred one.
const CALLS: &[(&str, &[&[i64]])] = &[
    ("nn.conv1d(%a, %b)", &[&[1, 2, 5], &[3, 2, 2]]),
    (
        "nn.deformable_conv2d(%a, %b, %c, %d, padding=[1, 0, 1, 0])",
        &[&[1, 2, 5, 5], &[1, 8, 6, 4], &[3, 2, 2, 2], &[1, 4, 6, 4]],
    ),
    ("nn.conv2d(%a, %b, out_dtype=\"\")", &[&[1, 2, 5, 5], &[3, 2, 2, 2]]),
    ("nn.conv3d(%a, %b)", &[&[1, 2, 3, 3, 3], &[3, 2, 2, 2, 2]]),
    (
        "nn.contrib_conv2d_NCHWc(%a, %b, data_layout=\"NCHW2c\", kernel_layout=\"OIHW2i3o\", \
         out_layout=\"NCHW3c\")",
        &[&[1, 1, 4, 4, 2], &[2, 1, 3, 3, 2, 3]],
    ),
    ("nn.contrib_conv2d_winograd_weight_transform(%a, tile_size=2)", &[&[3, 2, 3, 3]]),
    (
        "nn.contrib_conv2d_winograd_without_weight_transform(%a, %b, tile_size=2, padding=[1, 1])",
        &[&[1, 2, 5, 4], &[4, 4, 3, 2]],
    ),
    (
        "nn.contrib_depthwise_conv2d_NCHWc(%a, %b, groups=4, data_layout=\"NCHW2c\", \
         kernel_layout=\"OIHW1i2o\")",
        &[&[1, 2, 4, 4, 2], &[2, 1, 3, 3, 1, 2]],
    ),
    ("nn.correlation(%a, %b, max_displacement=2)", &[&[1, 2, 7, 6], &[1, 2, 7, 6]]),
    ("image.dilation2d(%a, %b, data_layout=\"NHWC\")", &[&[1, 5, 4, 2], &[2, 2, 3]]),
    ("nn.fifo_buffer(%a, %b)", &[&[2, 3], &[4, 3]]),
    ("dft(%a, %b)", &[&[2, 4], &[2, 4]]),
    ("stft(%a, %b, n_fft=5, hop_length=2, onesided=False)", &[&[2, 8], &[5]]),
    ("nn.conv1d_transpose(%a, %b)", &[&[1, 2, 5], &[2, 3, 2]]),
    ("nn.conv2d_transpose(%a, %b, strides=[2, 2])", &[&[1, 2, 5, 5], &[2, 3, 2, 2]]),
    ("nn.conv3d_transpose(%a, %b, padding=[1])", &[&[1, 2, 3, 3, 3], &[2, 3, 2, 2, 2]]),
    (
        "nn.conv2d_backward_weight(%a, %b, kernel_size=[3, 3], padding=[1, 1], \
         kernel_layout=\"NCHW\", out_layout=\"HWOI\")",
        &[&[2, 3, 5, 5], &[2, 4, 5, 5]],
    ),
    ("nn.max_pool1d(%a, pool_size=[2])", &[&[1, 2, 5]]),
    ("nn.max_pool2d(%a, pool_size=[2, 2], layout=\"NHWC\")", &[&[1, 5, 5, 2]]),
    ("nn.max_pool3d(%a, pool_size=[2, 2, 2])", &[&[1, 2, 4, 4, 4]]),
    ("nn.avg_pool1d(%a, pool_size=[2])", &[&[1, 2, 5]]),
    ("nn.avg_pool2d(%a, pool_size=[2, 2], dilation=[2, 2])", &[&[1, 2, 5, 5]]),
    ("nn.avg_pool3d(%a, pool_size=[2, 2, 2])", &[&[1, 2, 4, 4, 4]]),
    ("nn.max_pool2d_grad(%a, %b, pool_size=[2, 2])", &[&[1, 2, 4, 4], &[1, 2, 5, 5]]),
    ("nn.avg_pool2d_grad(%a, %b, pool_size=[2, 2])", &[&[1, 2, 4, 4], &[1, 2, 5, 5]]),
    ("nn.global_avg_pool2d(%a, layout=\"NCHW2c\")", &[&[1, 3, 4, 4, 2]]),
    ("nn.global_max_pool2d(%a)", &[&[1, 3, 4, 4]]),
    ("nn.adaptive_avg_pool1d(%a, output_size=[3])", &[&[1, 2, 5]]),
    ("nn.adaptive_avg_pool2d(%a, output_size=[3, 2])", &[&[1, 2, 5, 5]]),
    ("nn.adaptive_avg_pool3d(%a, output_size=[2])", &[&[1, 2, 5, 5, 3]]),
    ("nn.adaptive_max_pool1d(%a, output_size=[7])", &[&[1, 2, 5]]),
    ("nn.adaptive_max_pool2d(%a)", &[&[1, 2, 5, 5]]),
    ("nn.adaptive_max_pool3d(%a, output_size=[1])", &[&[1, 2, 5, 5, 3]]),
    ("nn.dense(%a, %b)", &[&[2, 2, 3], &[4, 3]]),
    ("nn.contrib_dense_pack(%a, %b, weight_layout=\"NC2n\")", &[&[2, 3], &[2, 3, 2]]),
    ("nn.contrib_quads(cast(%a, dtype=\"int8\"), axis=0)", &[&[5, 3]]),
    ("nn.matmul(%a, %b, transpose_a=True)", &[&[5, 3, 2], &[3, 4]]),
    ("nn.batch_matmul(%a, %b)", &[&[1, 3, 2], &[4, 2, 2]]),
    ("nn.bias_add(%a, %b)", &[&[2, 3, 2], &[3]]),
    ("einsum((%a, %b), equation=\"bi,bj\")", &[&[2, 3], &[2, 4]]),
    ("nn.batch_norm(%a, %b, %c, %d, abs(%e), axis=3)", &[&[1, 2, 2, 3], &[3], &[3], &[3], &[3]]),
    ("nn.batch_norm_train(%a, %b, %c)", &[&[2, 4, 3], &[4], &[4]]),
    ("nn.layer_norm(%a, %b, %c, axis=1)", &[&[2, 4, 3], &[4], &[4]]),
    ("nn.instance_norm(%a, %b, %c)", &[&[2, 4, 3], &[4], &[4]]),
    ("nn.group_norm(%a, %b, %c, num_groups=2)", &[&[2, 4, 3], &[4], &[4]]),
    ("nn.l2_normalize(%a, eps=1e-5f)", &[&[2, 4, 3]]),
    ("nn.lrn(%a)", &[&[1, 4, 3]]),
    ("nn.relu(%a)", &[&[3, 4]]),
    ("nn.leaky_relu(%a, alpha=1f)", &[&[3, 4]]),
    ("nn.prelu(%a, %b)", &[&[3, 4, 2], &[4]]),
    ("nn.softmax(%a, axis=1)", &[&[3, 4, 2]]),
    ("nn.fast_softmax(%a)", &[&[3, 4, 2]]),
    ("nn.log_softmax(%a)", &[&[3, 4, 2]]),
    ("nn.dropout(%a, rate=0.3f)", &[&[3, 4]]),
    ("nn.batch_flatten(%a)", &[&[3, 4, 2]]),
    ("nn.pad(%a, 1f, pad_width=[[1, 2], [0, 1]])", &[&[3, 4]]),
    ("nn.mirror_pad(%a, mode=\"REFLECT\", pad_width=[[1, 2], [0, 1]])", &[&[3, 4]]),
    ("nn.dilate(%a, strides=[2, 3])", &[&[3, 4]]),
    ("nn.upsampling(%a, scale_h=1.5f, scale_w=2f, method=\"bicubic\")", &[&[1, 2, 3, 4]]),
    (
        "nn.upsampling3d(%a, scale_d=2f, scale_h=2f, scale_w=2f, method=\"trilinear\")",
        &[&[1, 2, 3, 4, 2]],
    ),
    ("nn.depth_to_space(%a, block_size=2, mode=\"CRD\", layout=\"NHWC\")", &[&[1, 2, 3, 8]]),
    ("nn.space_to_depth(%a, block_size=2)", &[&[1, 2, 4, 6]]),
    ("nn.space_to_batch_nd(%a, block_shape=[2, 2], paddings=[[1, 0], [0, 2]])", &[&[1, 3, 4, 2]]),
    ("nn.batch_to_space_nd(%a, block_shape=[2, 2], crops=[[0, 1], [1, 0]])", &[&[8, 3, 4, 2]]),
    ("nn.cross_entropy(abs(%a), %b)", &[&[3, 4], &[3, 4]]),
    ("nn.cross_entropy_with_logits(%a, %b)", &[&[3, 4], &[3, 4]]),
    (
        "nn.nll_loss(%a, cast(clip(%b, a_min=0f, a_max=3f), dtype=\"int32\"), %c, \
         reduction=\"none\")",
        &[&[2, 4, 3], &[2, 3], &[4]],
    ),
    ("layout_transform(%a, src_layout=\"NCHW\", dst_layout=\"HWNC2c\")", &[&[1, 4, 2, 3]]),
    ("device_copy(%a)", &[&[3]]),
    ("on_device(%a, constrain_result=True)", &[&[3]]),
    ("annotation.stop_fusion(%a)", &[&[3]]),
    ("annotation.checkpoint(%a)", &[&[3]]),
    ("annotation.compiler_begin(%a, compiler=\"other\")", &[&[3]]),
    ("annotation.compiler_end(%a, compiler=\"other\")", &[&[3]]),
    ("annotation.cast_hint(%a, dtype=\"float16\")", &[&[3]]),
    ("annotation.bitpack_start(%a)", &[&[3]]),
    ("annotation.bitpack_end(%a)", &[&[3]]),
    ("debug(%a)", &[&[3]]),
];

#[test]
fn every_operator_has_the_type_that_it_says() {
    for (call, shapes) in CALLS {
        let (ty, value) = run(call, shapes).unwrap_or_else(|e| panic!("{call}: {e}"));
        assert_eq!(type_of(&value), ty, "{call}");
        assert!(numbers(&value).iter().all(|x| !x.is_nan()) || call.contains("entropy"), "{call}");
    }
    // Every operator of this family is in the list.
    for info in registry().ops() {
        let Some(name) = info.def.name.strip_prefix("relay.nn.") else { continue };
        assert!(CALLS.iter().any(|(call, _)| call.starts_with(&format!("nn.{name}("))), "{name}");
    }
}

#[test]
fn mistakes_are_explained() {
    for (call, shapes, expected) in [
        ("nn.conv2d(%a, %b)", &[&[1, 2, 5, 5][..], &[3, 4, 2, 2]][..], "expected input channels"),
        ("nn.conv2d(%a, %b)", &[&[1, 2, 5, 5], &[3, 2, 7, 2]], "expected a padded extent"),
        ("nn.conv2d(%a, %b, strides=[0, 1])", &[&[1, 2, 5, 5], &[3, 2, 2, 2]], "`strides`"),
        ("nn.conv2d(%a, %b, groups=2)", &[&[1, 3, 5, 5], &[4, 1, 2, 2]], "input channels that 2"),
        ("nn.conv2d(%a, %b, channels=5)", &[&[1, 2, 5, 5], &[3, 2, 2, 2]], "output channels 5"),
        ("nn.conv2d(%a, %b, data_layout=\"NCH\")", &[&[1, 2, 5], &[3, 2, 2, 2]], "axes NCHW"),
        ("nn.dense(%a, %b)", &[&[2, 3], &[4, 2]], "expected inner extent of the weight 3, found 2"),
        ("nn.bias_add(%a, %b, axis=3)", &[&[2, 3], &[4]], "expected an axis"),
        ("nn.pad(%a, 0f, pad_width=[[1, 1]])", &[&[2, 3]], "`pad_width` with 2 pairs, found 1"),
        (
            "nn.pad(%a, 0f, pad_width=[[9, 9]], pad_mode=\"reflect\")",
            &[&[2]],
            "margin of at most 1",
        ),
        ("nn.softmax(%a, axis=2)", &[&[2, 3]], "expected an axis"),
        ("nn.max_pool2d(%a, pool_size=[1, 2, 3])", &[&[1, 1, 5, 5]], "`pool_size` with 2 entries"),
        ("nn.group_norm(%a, %b, %c)", &[&[1, 4, 2], &[4], &[4]], "`num_groups` of at least 1"),
        (
            "layout_transform(%a, src_layout=\"NC\", dst_layout=\"NC4c\")",
            &[&[2, 6]],
            "multiple of 4",
        ),
        ("einsum((%a, %b), equation=\"ij,jk\")", &[&[2, 3], &[2, 3]], "axis j 3, found 2"),
        ("einsum((%a, %b), equation=\"ij\")", &[&[2], &[2]], "expected 1 tensors"),
        ("einsum((%a,), equation=\"...i->i\")", &[&[2, 3]], "under the dots are not in the result"),
        ("einsum((%a,), equation=\"i.\")", &[&[2, 3]], "axes are letters, or three dots"),
        ("einsum((%a,), equation=\"...ij\")", &[&[2]], "rank 2 or more, found 1"),
        ("einsum((%a, %b), equation=\"...,...\")", &[&[2], &[3]], "shapes that broadcast"),
        ("dft(%a, %b)", &[&[4], &[5]], "expected equal shapes, found (4,) and (5,)"),
        ("stft(%a, %b)", &[&[9], &[4]], "expected `n_fft` of at least 1, found -1"),
        ("stft(%a, %b, n_fft=4)", &[&[9], &[3]], "expected equal shapes, found (4,) and (3,)"),
        ("stft(%a, %b, n_fft=8)", &[&[7], &[8]], "expected a padded extent of at least 8"),
        ("stft(%a, %b, n_fft=4, win_length=5)", &[&[9], &[5]], "`win_length` of at most 4"),
        ("nn.correlation(%a, %b, kernel_size=2)", &[&[1, 1, 9, 9], &[1, 1, 9, 9]], "an odd"),
        (
            "nn.correlation(%a, %b, max_displacement=3)",
            &[&[1, 1, 6, 6], &[1, 1, 6, 6]],
            "expected a padded extent above 6, found 6",
        ),
        ("image.dilation2d(%a, %b)", &[&[1, 2, 5, 5], &[3, 2, 2]], "channels of the weight 2"),
        ("nn.fifo_buffer(%a, %b)", &[&[4], &[3]], "expected data of at most 3, found 4"),
    ] {
        let error = run(call, shapes).map(|(ty, _)| ty).expect_err(call);
        assert!(error.contains(expected), "{call}: {error}");
    }
}

#[test]
fn symbolic_extents_pass_through() {
    let registry = registry();
    let text = "#[version = \"0.0.5\"]
def @main(%x: Tensor[(?, 3, ?, 8), float32], %w) {
  nn.batch_flatten(nn.max_pool2d(nn.conv2d(%x, %w, padding=[1, 1], channels=4, kernel_size=[3, 3]),
    pool_size=[2, 2], strides=[2, 2]))
}
";
    let (mut module, found) = parse("test", text, &registry);
    assert!(found.is_empty(), "{found:?}");
    let found = infer_module(&mut module, &registry);
    assert!(found.is_empty(), "{found:?}");
    let ty = module.get("main").unwrap().signature.ty;
    let TypeData::Function(ty) = ty.data() else { panic!("{ty}") };
    assert_eq!(ty.params[1].to_string(), "Tensor[(4, 3, 3, 3), float32]");
    assert_eq!(ty.result.to_string(), "Tensor[(?, ?), float32]");
}

#[test]
fn quantized_products_are_exact() {
    let registry = registry();
    let int8 = |shape: &[i64], values: &[i64]| {
        TensorData::from_i64(ir_core::DType::INT8, shape, values).unwrap()
    };
    let operands = [int8(&[1, 3], &[127, -128, 127]), int8(&[1, 3], &[127, -128, 127])];
    let call = "nn.dense(%a, %b, out_dtype=\"int32\")";
    let (_, value) = run_on(&registry, call, &operands).unwrap();
    assert_eq!(numbers(&value), [48642.0]);
    let operands = [int8(&[1, 1, 1, 2], &[-128, 100]), int8(&[1, 1, 1, 2], &[-128, 100])];
    let call = "nn.conv2d(%a, %b, out_dtype=\"int32\")";
    let (_, value) = run_on(&registry, call, &operands).unwrap();
    assert_eq!(numbers(&value), [26384.0]);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// `⟨conv(x, w), y⟩ = ⟨x, transpose(y, w)⟩ = ⟨w, backward_weight(y, x)⟩`.
    #[test]
    fn convolutions_are_adjoint(
        height in 3i64..7, width in 3i64..7, kernel in 1i64..4, stride in 1i64..3,
        dilation in 1i64..3, padding in 0i64..3, groups in 1i64..3, nhwc: bool,
    ) {
        prop_assume!((kernel - 1) * dilation < height.min(width) + 2 * padding);
        let registry = registry();
        let x = fill(&[2, 2 * groups, height, width], 1);
        let w = fill(&[3 * groups, 2, kernel, kernel], 2);
        let attrs = format!(
            "strides=[{stride}, {stride}], padding=[{padding}, {padding}], \
             dilation=[{dilation}, {dilation}], groups={groups}"
        );
        let forward = if nhwc {
            format!(
                "layout_transform(nn.conv2d(layout_transform(%a, src_layout=\"NCHW\", \
                 dst_layout=\"NHWC\"), %b, {attrs}, data_layout=\"NHWC\"), src_layout=\"NHWC\", \
                 dst_layout=\"NCHW\")"
            )
        } else {
            format!("nn.conv2d(%a, %b, {attrs})")
        };
        let (ty, out) = run_on(&registry, &forward, &[x.clone(), w.clone()]).unwrap();
        prop_assert_eq!(type_of(&out), ty);
        let y = fill(out.as_tensor().unwrap().shape(), 3);
        let forward = dot(&numbers(&out), &y.to_f64());

        let reached = |extent: i64| {
            let windows = (extent + 2 * padding - (kernel - 1) * dilation - 1) / stride;
            windows * stride + (kernel - 1) * dilation + 1 - 2 * padding
        };
        let extra = (height - reached(height), width - reached(width));
        let transpose = format!(
            "nn.conv2d_transpose(%a, %b, {attrs}, output_padding=[{}, {}])", extra.0, extra.1
        );
        // The kernel of the adjoint has the output channels of a group first.
        let (ty, back) = run_on(&registry, &transpose, &[y.clone(), w.clone()]).unwrap();
        prop_assert_eq!(type_of(&back), ty);
        prop_assert_eq!(dot(&numbers(&back), &x.to_f64()), forward);

        let backward = format!(
            "nn.conv2d_backward_weight(%a, %b, {attrs}, kernel_size=[{kernel}, {kernel}], \
             kernel_layout=\"NCHW\", out_layout=\"OIHW\")"
        );
        let (ty, grad) = run_on(&registry, &backward, &[y, x]).unwrap();
        prop_assert_eq!(type_of(&grad), ty);
        prop_assert_eq!(dot(&numbers(&grad), &w.to_f64()), forward);
    }

    /// A pool of one spatial axis is the pool of two with a window of extent 1 along the other.
    #[test]
    fn pools_agree_across_ranks(
        extent in 3i64..9, size in 1i64..4, stride in 1i64..4, dilation in 1i64..3,
        padding in 0i64..2, ceil: bool, average: bool,
    ) {
        prop_assume!((size - 1) * dilation < extent + 2 * padding);
        let registry = registry();
        let kind = if average { "avg" } else { "max" };
        let ceil = if ceil { "True" } else { "False" };
        let one = format!(
            "nn.{kind}_pool1d(%a, pool_size=[{size}], strides=[{stride}], dilation=[{dilation}], \
             padding=[{padding}], ceil_mode={ceil})"
        );
        let two = format!(
            "nn.{kind}_pool2d(%a, pool_size=[1, {size}], strides=[1, {stride}], \
             dilation=[1, {dilation}], padding=[0, {padding}], ceil_mode={ceil})"
        );
        let (ty, line) = run_on(&registry, &one, &[fill(&[2, 3, extent], 1)]).unwrap();
        prop_assert_eq!(type_of(&line), ty);
        let (ty, plane) = run_on(&registry, &two, &[fill(&[2, 3, 1, extent], 1)]).unwrap();
        prop_assert_eq!(type_of(&plane), ty);
        prop_assert_eq!(numbers(&line), numbers(&plane));
    }

    /// Moving between batch and space, and between depth and space, loses nothing.
    #[test]
    fn rearrangements_are_inverse(batch in 1i64..3, height in 1i64..4, width in 1i64..4) {
        let registry = registry();
        let x = fill(&[batch, 3, 2 * height, 2 * width], 1);
        for call in [
            "nn.depth_to_space(nn.space_to_depth(%a, block_size=2), block_size=2)",
            "nn.batch_to_space_nd(nn.space_to_batch_nd(%a, block_shape=[3, 2, 2], \
             paddings=[[0, 0], [1, 1], [1, 1]]), block_shape=[3, 2, 2], \
             crops=[[0, 0], [1, 1], [1, 1]])",
        ] {
            let (ty, back) = run_on(&registry, call, std::slice::from_ref(&x)).unwrap();
            prop_assert_eq!(ty, x.ty());
            prop_assert_eq!(numbers(&back), x.to_f64());
        }
    }
}

/// Attributes that the tests of values do not reach; `run` compares evaluator and definition.
#[test]
fn definitions_agree_with_evaluators() {
    let cases: &[(&str, &[&[i64]])] = &[
        (
            "nn.conv2d(%a, %b, padding=[2, 1, 0, 1], strides=[2, 1], dilation=[1, 2], groups=2)",
            &[&[2, 4, 6, 7], &[6, 2, 3, 2]],
        ),
        ("nn.conv2d(%a, %b, padding=[1], groups=4)", &[&[1, 4, 4, 4], &[4, 3, 3, 3]]),
        (
            "nn.conv2d(%a, %b, padding=[1, 1], data_layout=\"NHWC\", kernel_layout=\"HWIO\")",
            &[&[1, 5, 4, 3], &[3, 3, 3, 2]],
        ),
        (
            "nn.conv2d(%a, %b, padding=[1, 1], data_layout=\"NCHW2c\", kernel_layout=\"OIHW2i4o\")",
            &[&[1, 2, 5, 4, 2], &[2, 2, 3, 3, 2, 4]],
        ),
        (
            "nn.conv2d(%a, %b, groups=2, data_layout=\"NCHW2c\", out_layout=\"NHWC\")",
            &[&[1, 2, 5, 4, 2], &[6, 2, 3, 3]],
        ),
        (
            "nn.contrib_depthwise_conv2d_NCHWc(%a, %b, groups=4, padding=[1, 1], \
             data_layout=\"NCHW2c\", kernel_layout=\"OIHW1i2o\")",
            &[&[1, 2, 4, 4, 2], &[2, 1, 3, 3, 1, 2]],
        ),
        ("nn.conv1d(%a, %b, padding=[1, 2], strides=[2])", &[&[2, 3, 7], &[4, 3, 3]]),
        ("nn.conv3d(%a, %b, padding=[1, 0, 1], groups=2)", &[&[1, 4, 3, 4, 3], &[2, 2, 2, 3, 2]]),
        (
            "nn.conv2d_transpose(%a, %b, strides=[2, 3], padding=[1, 0], output_padding=[1, 2], \
             dilation=[1, 2], groups=2)",
            &[&[1, 4, 3, 4], &[4, 3, 3, 2]],
        ),
        (
            "nn.conv2d_transpose(%a, %b, data_layout=\"NHWC\", kernel_layout=\"HWIO\")",
            &[&[1, 3, 4, 2], &[2, 2, 2, 3]],
        ),
        (
            "nn.conv3d_transpose(%a, %b, strides=[2, 1, 2], padding=[1, 0, 1])",
            &[&[1, 2, 2, 3, 2], &[2, 2, 2, 2, 3]],
        ),
        (
            "nn.conv2d_backward_weight(%a, %b, strides=[2, 1], padding=[1, 1], groups=2, \
             kernel_size=[3, 2], kernel_layout=\"NCHW\")",
            &[&[2, 4, 3, 6], &[2, 4, 6, 5]],
        ),
        ("nn.max_pool2d(%a, pool_size=[3, 2], strides=[2, 2], padding=[1, 0])", &[&[1, 2, 5, 6]]),
        (
            "nn.max_pool2d(%a, pool_size=[3, 3], strides=[2, 2], ceil_mode=True, layout=\"NHWC\")",
            &[&[1, 6, 6, 3]],
        ),
        (
            "nn.avg_pool2d(%a, pool_size=[3, 3], strides=[2, 2], padding=[1, 1], ceil_mode=True)",
            &[&[1, 2, 6, 5]],
        ),
        (
            "nn.avg_pool2d(%a, pool_size=[3, 2], strides=[2, 3], dilation=[1, 2], padding=[1, 0], \
             ceil_mode=True, count_include_pad=True)",
            &[&[1, 2, 6, 6]],
        ),
        (
            "nn.avg_pool2d(%a, pool_size=[2, 3], dilation=[2, 2], padding=[2, 1, 1, 2])",
            &[&[1, 2, 5, 6]],
        ),
        (
            "nn.avg_pool2d(%a, pool_size=[3, 3], padding=[1, 1], count_include_pad=True, \
             layout=\"NCHW2c\")",
            &[&[1, 2, 5, 5, 2]],
        ),
        ("nn.avg_pool1d(%a, pool_size=[2], strides=[3], padding=[1])", &[&[1, 2, 7]]),
        ("nn.avg_pool3d(%a, pool_size=[2], strides=[2])", &[&[1, 2, 4, 4, 4]]),
        ("nn.global_avg_pool2d(%a)", &[&[2, 3, 4, 5]]),
        ("nn.global_max_pool2d(%a, layout=\"NHWC\")", &[&[2, 3, 4, 5]]),
        ("nn.adaptive_avg_pool2d(%a, output_size=[3, 2])", &[&[1, 2, 7, 4]]),
        ("nn.adaptive_max_pool1d(%a, output_size=[4])", &[&[1, 2, 7]]),
        ("nn.adaptive_avg_pool3d(%a, output_size=[2, 2, 1])", &[&[1, 1, 5, 4, 3]]),
        (
            "nn.max_pool2d_grad(%a, %b, pool_size=[3, 2], strides=[2, 1], padding=[1, 1])",
            &[&[1, 2, 3, 6], &[1, 2, 5, 5]],
        ),
        (
            "nn.avg_pool2d_grad(%a, %b, pool_size=[3, 2], strides=[2, 1], padding=[1, 1])",
            &[&[1, 2, 3, 6], &[1, 2, 5, 5]],
        ),
        (
            "nn.avg_pool2d_grad(%a, %b, pool_size=[3, 2], strides=[2, 2], padding=[1, 0], \
             ceil_mode=True, count_include_pad=True)",
            &[&[1, 2, 4, 2], &[1, 2, 6, 3]],
        ),
        ("nn.dense(%a, %b)", &[&[2, 3, 5], &[4, 5]]),
        ("nn.contrib_dense_pack(%a, %b, weight_layout=\"NC2n\")", &[&[3, 5], &[2, 5, 2]]),
        ("nn.matmul(%a, %b, transpose_a=True, transpose_b=True)", &[&[5, 3], &[4, 5]]),
        ("nn.batch_matmul(%a, %b, transpose_a=True, transpose_b=False)", &[&[1, 5, 3], &[2, 5, 4]]),
        ("nn.bias_add(%a, %b, axis=-1)", &[&[2, 3, 4], &[4]]),
        ("nn.prelu(%a, %b)", &[&[2, 3, 4], &[3]]),
        ("nn.leaky_relu(%a, alpha=0.1f)", &[&[2, 3]]),
        ("nn.softmax(%a, axis=1)", &[&[2, 3, 4]]),
        ("nn.log_softmax(%a)", &[&[2, 3, 4]]),
        ("nn.batch_norm(%a, %b, %c, %d, %e, scale=False)", &[&[2, 3, 4], &[3], &[3], &[3], &[3]]),
        ("nn.batch_norm_train(%a, %b, %c)", &[&[2, 3, 4], &[3], &[3]]),
        ("nn.batch_norm_train(%a, %b, %c, axis=0, center=False)", &[&[3, 2, 4], &[3], &[3]]),
        ("nn.batch_norm_train(%a, %b, %c, axis=-1, scale=False)", &[&[5], &[5], &[5]]),
        ("nn.layer_norm(%a, %b, %c, axis=1)", &[&[2, 3, 4], &[3], &[3]]),
        ("nn.instance_norm(%a, %b, %c, axis=2)", &[&[2, 3, 4], &[4], &[4]]),
        ("nn.group_norm(%a, %b, %c, num_groups=2)", &[&[2, 4, 3, 2], &[4], &[4]]),
        ("nn.l2_normalize(%a, eps=0.001f, axis=[1])", &[&[2, 3, 4]]),
        ("nn.lrn(%a, size=3)", &[&[2, 5, 3, 2]]),
        ("nn.dropout(%a)", &[&[2, 3]]),
        ("nn.batch_flatten(%a)", &[&[2, 3, 4]]),
        ("nn.pad(%a, 2f, pad_width=[[1, 0], [0, 2]])", &[&[2, 3]]),
        ("nn.mirror_pad(%a, mode=\"REFLECT\", pad_width=[[1, 1], [2, 0]])", &[&[3, 4]]),
        ("nn.mirror_pad(%a, pad_width=[[3, 1], [0, 4]])", &[&[3, 4]]),
        ("nn.dilate(%a, strides=[2, 3], dilation_value=7f)", &[&[3, 2]]),
        ("nn.depth_to_space(%a, block_size=2, mode=\"CRD\")", &[&[1, 8, 2, 3]]),
        ("nn.depth_to_space(%a, block_size=2, layout=\"NHWC\")", &[&[1, 2, 3, 8]]),
        ("nn.space_to_depth(%a, block_size=2)", &[&[2, 2, 4, 6]]),
        (
            "nn.space_to_batch_nd(%a, block_shape=[2, 3], paddings=[[1, 0], [0, 2]], pad_value=3f)",
            &[&[2, 3, 4, 2]],
        ),
        ("nn.batch_to_space_nd(%a, block_shape=[2, 3], crops=[[1, 0], [0, 2]])", &[&[12, 2, 2, 3]]),
        ("nn.upsampling(%a, scale_h=2f, scale_w=1.5f)", &[&[1, 2, 3, 4]]),
        ("nn.upsampling(%a, scale_h=2f, scale_w=3f, method=\"bilinear\")", &[&[1, 2, 3, 4]]),
        (
            "nn.upsampling(%a, scale_h=2f, scale_w=3f, method=\"bicubic\", align_corners=True, \
             layout=\"NHWC\")",
            &[&[1, 3, 4, 2]],
        ),
        (
            "nn.upsampling3d(%a, scale_d=2f, scale_h=2f, scale_w=2f, method=\"trilinear\")",
            &[&[1, 1, 2, 3, 2]],
        ),
        ("layout_transform(%a, src_layout=\"NCHW\", dst_layout=\"NCHW4c\")", &[&[1, 8, 2, 3]]),
        ("layout_transform(%a, src_layout=\"NCHW4c\", dst_layout=\"NHWC2c\")", &[&[1, 2, 2, 3, 4]]),
        ("nn.cross_entropy_with_logits(%a, %b)", &[&[2, 3], &[2, 3]]),
    ];
    for (expression, shapes) in cases {
        run(expression, shapes).unwrap_or_else(|error| panic!("{expression}: {error}"));
    }
}
