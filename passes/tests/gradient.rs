//! Gradients: against differences of values, and against those of the original.

use crate::common;

use common::differences::check;
use common::tangents;
use common::{cases, parse, printed, registry, run};
use ir_core::{Module, Random, TensorData};
use relay::interpreter::{Interpreter, approx_equal, flatten, random_arguments};
use relay_operators::Gradient;

/// Expressions of `%x`, and of `%y` and `%z` where they are named, with their types; `f64` stands for
/// elements.
pub(crate) const EXPRESSIONS: &[(&str, &str)] = &[
    // Elementwise; what is not defined everywhere is of a number that is far from the border.
    ("(3, 2)", "log(add(exp(%x), 0.5f64))"),
    ("(3, 2)", "log2(add(exp(%x), 0.5f64))"),
    ("(3, 2)", "log10(add(exp(%x), 0.5f64))"),
    ("(3, 2)", "fast_exp(%x)"),
    ("(3, 2)", "sqrt(add(exp(%x), 0.5f64))"),
    ("(3, 2)", "rsqrt(add(exp(%x), 0.5f64))"),
    ("(3, 2)", "sigmoid(%x)"),
    ("(3, 2)", "tanh(%x)"),
    ("(3, 2)", "fast_tanh(%x)"),
    ("(3, 2)", "erf(%x)"),
    ("(3, 2)", "fast_erf(%x)"),
    ("(3, 2)", "add(sin(%x), cos(%x))"),
    ("(3, 2)", "tan(%x)"),
    ("(3, 2)", "multiply(sinh(%x), cosh(%x))"),
    ("(3, 2)", "asin(multiply(%x, 0.9f64))"),
    ("(3, 2)", "acos(multiply(%x, 0.9f64))"),
    ("(3, 2)", "atan(%x)"),
    ("(3, 2)", "asinh(%x)"),
    ("(3, 2)", "acosh(add(exp(%x), 1.5f64))"),
    ("(3, 2)", "atanh(multiply(%x, 0.9f64))"),
    ("(3, 2)", "negative(abs(%x))"),
    ("(3, 2)", "multiply(%x, sign(%x))"),
    ("(3, 2)", "multiply(%x, floor(%x))"),
    ("(3, 2)", "multiply(%x, add(ceil(%x), add(round(%x), round_even(%x))))"),
    ("(3, 2)", "multiply(%x, add(trunc(%x), ones_like(%x)))"),
    ("(3, 2)", "copy(clip(%x, a_min=-0.5, a_max=0.7))"),
    ("(3, 2)", "cast(cast(%x, dtype=\"float64\"), dtype=\"float64\")"),
    // Broadcasting.
    ("(3, 2); (2)", "add(%x, %y)"),
    ("(3, 1); (1, 2)", "subtract(%x, %y)"),
    ("(3, 1); (4, 1, 2)", "multiply(%x, %y)"),
    ("(); (4, 1, 2)", "divide(%x, add(exp(%y), 0.3f64))"),
    ("(3, 2); (2)", "power(add(exp(%x), 0.3f64), %y)"),
    ("(3, 2)", "power(%x, 3f64)"),
    ("(3, 2); (1, 2)", "maximum(%x, %y)"),
    ("(3, 1); (1, 2)", "minimum(%x, %y)"),
    ("(3, 2); (2)", "mod(multiply(%x, 5f64), add(exp(%y), 0.5f64))"),
    ("(3, 2); (2)", "floor_mod(multiply(%x, 5f64), add(exp(%y), 0.5f64))"),
    ("(3, 2); (2)", "add(%x, floor_divide(%x, add(exp(%y), 0.5f64)))"),
    ("(3, 2); (2); (1)", "where(greater(%x, %y), multiply(%x, %z), %y)"),
    // Reductions.
    ("(3, 2, 4)", "sum(%x, axis=[0, 2])"),
    ("(3, 2, 4)", "sum(%x, axis=[1], exclude=True, keepdims=True)"),
    ("(3, 2, 4)", "mean(%x, axis=[-1])"),
    ("(3, 2, 4)", "max(%x, axis=[0, 2])"),
    ("(3, 2, 4)", "min(%x, axis=[1], keepdims=True)"),
    ("(3, 2, 4)", "max(%x)"),
    ("(3, 2, 4)", "prod(%x, axis=[0, 1])"),
    ("(3, 2, 4)", "variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1])"),
    ("(3, 2, 4); (2, 1)", "variance(%x, %y, axis=[1], exclude=True, keepdims=True, unbiased=True)"),
    ("(3, 4)", "cumsum(%x, axis=1)"),
    ("(3, 4)", "cumsum(%x, exclusive=True)"),
    ("(3, 4); (4)", "collapse_sum_like(%x, %y)"),
    ("(3, 4)", "multiply(sort(%x, axis=0), %x)"),
    ("(3, 4)", "multiply(sort(%x, is_ascend=False), %x)"),
    ("(3, 5)", "topk(%x, k=2, axis=1, ret_type=\"values\")"),
    ("(5, 3)", "exp(topk(%x, k=3, axis=0, is_ascend=True).0)"),
    // Shape.
    ("(3, 4)", "reshape(%x, newshape=[2, -1])"),
    ("(3, 1, 4)", "squeeze(%x, axis=[1])"),
    ("(3, 4)", "expand_dims(%x, axis=1, num_newaxis=2)"),
    ("(3, 4); (2, 6)", "reshape_like(%x, %y)"),
    ("(3, 4, 2)", "transpose(%x, axes=[2, 0, 1])"),
    ("(3, 4, 2)", "transpose(%x)"),
    ("(3, 4)", "reverse(%x, axis=1)"),
    ("(3, 4)", "repeat(%x, repeats=3, axis=1)"),
    ("(3, 4)", "tile(%x, reps=[2, 3, 1])"),
    ("(3, 1)", "broadcast_to(%x, shape=[2, 3, 4])"),
    ("(3, 1); (3, 4)", "broadcast_to_like(%x, %y)"),
    ("(2, 3); (2, 1)", "concatenate((%x, %y, %x), axis=1)"),
    ("(2, 3); (2, 3)", "stack((%x, %y), axis=1)"),
    (
        "(2, 6)",
        "multiply(split(%x, indices_or_sections=3, axis=1).0, split(%x, indices_or_sections=3, axis=1).2)",
    ),
    ("(5, 6)", "strided_slice(%x, begin=[1, 0], end=[5, 6], strides=[2, 3])"),
    ("(5, 6)", "strided_slice(%x, begin=[4, 5], end=[0, 1], strides=[-2, -1])"),
    ("(5, 6); (2, 3)", "slice_like(%x, %y)"),
    ("(3, 4)", "take(%x, meta_indices, axis=1)"),
    ("(3, 4)", "take(%x, 1, axis=0)"),
    ("(3, 4)", "take(%x, 9)"),
    ("(3, 4)", "take(%x, -3, axis=1, mode=\"wrap\")"),
    ("(3, 4)", "take(%x, -1, axis=0, mode=\"fast\")"),
    ("(3, 4)", "take(%x, subtract(meta_indices, 1i64), mode=\"wrap\")"),
    ("(4, 3)", "take(%x, subtract(meta_indices, 1i64), axis=0, mode=\"fast\")"),
    ("(4, 3)", "gather(%x, expand_dims(meta_indices, axis=1), axis=1)"),
    ("(3, 4)", "reverse_sequence(%x, meta_indices, seq_axis=1, batch_axis=0)"),
    (
        "(4, 3); (4, 3)",
        "scatter_elements(%x, expand_dims(meta_indices, axis=0), strided_slice(%y, begin=[0, 0], end=[1, 3]), axis=0, reduction=\"add\")",
    ),
    ("(3, 4); (3, 4)", "scatter_nd(%x, expand_dims(meta_indices, axis=0), %y, mode=\"add\")"),
    ("(3, 4)", "gather_nd(%x, expand_dims(meta_indices, axis=0))"),
    ("(3, 4)", "nn.dilate(%x, strides=[2, 3], dilation_value=1.0)"),
    ("(3, 4)", "trilu(%x, 1)"),
    // Matrices.
    ("(3, 4); (2, 4)", "nn.dense(%x, %y)"),
    ("(2, 3, 4); (2, 4)", "nn.dense(%x, %y)"),
    ("(3, 4); (4, 2)", "nn.matmul(%x, %y)"),
    ("(4, 3); (4, 2)", "nn.matmul(%x, %y, transpose_a=True)"),
    ("(3, 4); (2, 4)", "nn.matmul(%x, %y, transpose_b=True)"),
    ("(4, 3); (2, 4)", "nn.matmul(%x, %y, transpose_a=True, transpose_b=True)"),
    ("(5, 3, 4); (5, 2, 4)", "nn.batch_matmul(%x, %y, transpose_b=True)"),
    ("(5, 3, 4); (1, 4, 2)", "nn.batch_matmul(%x, %y)"),
    ("(5, 4, 3); (5, 2, 4)", "nn.batch_matmul(%x, %y, transpose_a=True, transpose_b=True)"),
    ("(5, 4, 3); (5, 4, 2)", "nn.batch_matmul(%x, %y, transpose_a=True)"),
    ("(2, 3, 4); (3)", "nn.bias_add(%x, %y)"),
    ("(2, 3, 4); (4)", "nn.bias_add(%x, %y, axis=-1)"),
    // Activations and losses.
    ("(3, 4)", "nn.relu(%x)"),
    ("(3, 4)", "nn.leaky_relu(%x, alpha=0.1)"),
    ("(2, 3, 4); (3)", "nn.prelu(%x, %y)"),
    ("(3, 4)", "nn.softmax(%x)"),
    ("(3, 4)", "nn.fast_softmax(%x, axis=0)"),
    ("(3, 4)", "nn.log_softmax(%x)"),
    ("(3, 4)", "nn.dropout(%x, rate=0.3).0"),
    ("(3, 2, 2)", "nn.batch_flatten(%x)"),
    ("(3, 4); (3, 4)", "nn.cross_entropy(nn.softmax(%x), %y)"),
    ("(3, 4); (3, 4)", "nn.cross_entropy_with_logits(nn.log_softmax(%x), %y)"),
    ("(3, 4); (4)", "nn.nll_loss(nn.log_softmax(%x), meta_indices, %y)"),
    ("(3, 4); (4)", "nn.nll_loss(%x, meta_indices, %y, reduction=\"sum\", ignore_index=1)"),
    ("(3, 4); (4)", "nn.nll_loss(%x, meta_indices, exp(%y), ignore_index=2)"),
    (
        "(3, 4, 2); (4)",
        "nn.nll_loss(%x, stack((meta_indices, meta_indices), axis=1), %y, reduction=\"none\")",
    ),
    ("(4); (4)", "nn.nll_loss(%x, 2, %y, reduction=\"none\")"),
    ("(3, 4)", "nn.mirror_pad(%x, pad_width=[[1, 2], [3, 0]])"),
    ("(3, 4)", "nn.mirror_pad(%x, mode=\"REFLECT\", pad_width=[[1, 2], [0, 3]])"),
    ("(3, 4)", "nn.pad(%x, 0.5f64, pad_width=[[2, 1], [1, 1]], pad_mode=\"reflect\")"),
    ("(3, 4)", "nn.pad(%x, 0.5f64, pad_width=[[1, 0], [2, 3]])"),
    // Normalizations.
    ("(3, 4, 2); (2); (2)", "nn.layer_norm(%x, %y, %z)"),
    ("(3, 4, 2); (4); (4)", "nn.layer_norm(%x, %y, %z, axis=1, epsilon=0.1)"),
    ("(3, 4, 5); (4); (4)", "nn.instance_norm(%x, %y, %z)"),
    ("(3, 6, 5); (6); (6)", "nn.group_norm(%x, %y, %z, num_groups=2)"),
    ("(3, 4, 2)", "nn.l2_normalize(%x, eps=0.001, axis=[1])"),
    ("(3, 4, 2)", "nn.l2_normalize(%x, eps=1.5, axis=[-1])"),
    ("(2, 6, 3)", "nn.lrn(%x, size=3, bias=1.0, alpha=0.5, beta=0.6)"),
    ("(2, 3)", "nn.lrn(%x, size=9, axis=1, bias=1.0, alpha=0.5)"),
    ("(2, 3, 4); (3); (3)", "nn.batch_norm(%x, %y, %z, %y, exp(%z)).0"),
    ("(2, 3, 4); (3); (3)", "nn.batch_norm_train(%x, %y, %z).0"),
    ("(2, 3, 4); (4); (4)", "nn.batch_norm_train(%x, %y, %z, axis=-1, epsilon=0.1, scale=False).0"),
    (
        "(2, 3, 4); (3); (3)",
        "let %t = nn.batch_norm_train(%x, %y, %z, center=False);
         multiply(%t.0, expand_dims(add(multiply(%t.1, %y), sin(%t.2)), axis=1, num_newaxis=1))",
    ),
    // Pools.
    ("(1, 2, 7)", "nn.max_pool1d(%x, pool_size=[3], strides=[2], padding=[1, 0])"),
    ("(1, 2, 7)", "nn.avg_pool1d(%x, pool_size=[3], strides=[2], padding=[1, 0])"),
    ("(1, 2, 4, 5)", "nn.global_avg_pool2d(%x)"),
    ("(1, 2, 4, 5)", "nn.global_max_pool2d(%x)"),
    ("(1, 2, 4, 5)", "nn.adaptive_avg_pool2d(%x, output_size=[1, 1])"),
    // Identities.
    ("(3)", "annotation.stop_fusion(%x)"),
    // Derived from definitions: of operators without a rule, and of cases that rules do not have.
    ("(2, 3); (3, 4)", "einsum((%x, %y), equation=\"ij,jk->ki\")"),
    ("(3, 3)", "einsum((%x,), equation=\"ii->i\")"),
    ("(1, 2, 2, 3)", "nn.upsampling(%x, scale_h=2f, scale_w=3f, method=\"bilinear\")"),
    ("(1, 2, 3, 2)", "image.resize2d(%x, size=[5, 4], method=\"cubic\")"),
    ("(1, 4, 3, 2)", "nn.depth_to_space(%x, block_size=2)"),
    ("(3, 4); (3)", "matrix_set_diag(%x, %y)"),
    ("(3, 4)", "cumprod(%x, axis=1, exclusive=True)"),
    (
        "(1, 5, 4, 2); (3, 2, 2, 3)",
        "nn.conv2d(%x, %y, strides=[2, 1], data_layout=\"NHWC\", kernel_layout=\"HWIO\")",
    ),
    ("(1, 2, 5, 7)", "nn.adaptive_avg_pool2d(%x, output_size=[2, 3])"),
    ("(1, 2, 5, 7)", "nn.adaptive_max_pool2d(%x, output_size=[2, 3])"),
    ("(1, 5, 5, 2)", "nn.max_pool2d(%x, pool_size=[2, 3], strides=[1, 2], layout=\"NHWC\")"),
    (
        "(3, 4); (3)",
        "scatter_elements(%x, expand_dims(meta_indices, axis=1), expand_dims(%y, axis=1), axis=1)",
    ),
];

/// The program that computes an expression of parameters of these shapes.
pub(crate) fn program(shapes: &str, expression: &str) -> String {
    let names = ["%x", "%y", "%z", "%w"];
    let params = shapes.split("; ").zip(names);
    let params = params.map(|(shape, name)| format!("{name}: Tensor[{shape}, float64]"));
    let indices = "cast(arange(0f64, 3f64, 1f64, start=0, stop=3, step=1, dtype=\"float64\"), dtype=\"int64\")";
    let expression = expression.replace("meta_indices", indices);
    format!("def @main({}) {{ {expression} }}", params.collect::<Vec<_>>().join(", "))
}

#[test]
fn gradients_are_the_limits_of_differences() {
    let registry = registry();
    let mut failures = vec![];
    for (shapes, expression) in EXPRESSIONS {
        let text = program(shapes, expression);
        for seed in cases(3) {
            if let Err(message) = check(&text, seed, &registry) {
                failures.push(format!("{text}, seed {seed}: {message}"));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// A random convolution or pool, with strides, dilation, padding and groups, along one to three axes.
fn windows(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut number = |least: usize, most: usize| (least + random.below(most - least + 1)) as i64;
    let rank = number(1, 3) as usize;
    let kind = number(0, 4);
    let groups = if rank == 3 { 1 } else { number(1, 3) };
    let (inputs, outputs) = (groups * number(1, 2), groups * number(1, 2));
    let mut list = |least, most| (0..rank).map(|_| number(least, most)).collect::<Vec<i64>>();
    let (kernel, strides, dilation) = (list(1, 3), list(1, 4), list(1, 3));
    let (before, behind) = (list(0, 1), list(0, 2));
    let reach: Vec<i64> = kernel.iter().zip(&dilation).map(|(k, d)| (k - 1) * d + 1).collect();
    let extents: Vec<i64> =
        list(0, 6).iter().zip(&reach).map(|(more, reach)| more + reach).collect();
    let padding = [before, behind].concat();
    let joined = |first: [i64; 2], rest: &[i64]| {
        let all: Vec<String> = first.iter().chain(rest).map(i64::to_string).collect();
        format!("({})", all.join(", "))
    };
    let tail = format!("strides={strides:?}, padding={padding:?}, dilation={dilation:?}");
    match kind {
        0 | 1 => program(
            &format!(
                "{}; {}",
                joined([2, inputs], &extents),
                joined([outputs, inputs / groups], &kernel)
            ),
            &format!("nn.conv{rank}d(%x, %y, groups={groups}, {tail})"),
        ),
        2 => {
            let tail = tail.replace(&format!("{padding:?}"), &format!("{:?}", vec![0; 2 * rank]));
            program(
                &format!(
                    "{}; {}",
                    joined([2, inputs], &extents),
                    joined([inputs, outputs / groups], &kernel)
                ),
                &format!("nn.conv{rank}d_transpose(%x, %y, groups={groups}, {tail})"),
            )
        }
        kind => {
            let name = if kind == 3 { "max" } else { "avg" };
            program(
                &joined([2, inputs], &extents),
                &format!(
                    "nn.{name}_pool{rank}d(%x, pool_size={kernel:?}, strides={strides:?}, dilation={dilation:?})"
                ),
            )
        }
    }
}

/// Gradients are programs, which have gradients.
#[test]
fn gradients_have_gradients() {
    let registry = registry();
    let programs = [
        ("(3, 4); (2, 4)", "nn.softmax(nn.dense(tanh(%x), %y))"),
        ("(3, 4); (4)", "divide(sum(multiply(%x, %y), axis=[1]), add(exp(mean(%x)), 1f64))"),
        (
            "(1, 2, 5, 5); (2, 2, 3, 3)",
            "sigmoid(nn.conv2d(tanh(%x), %y, strides=[2, 1], padding=[1, 0]))",
        ),
        ("(3, 4, 2); (2); (2)", "nn.layer_norm(%x, %y, %z)"),
        (
            "(1, 2, 4, 5)",
            "sin(nn.max_pool2d(sin(%x), pool_size=[2, 3], strides=[1, 2], padding=[0, 1]))",
        ),
        ("(1, 2, 5)", "sin(nn.max_pool1d(sin(%x), pool_size=[3], strides=[2], ceil_mode=True))"),
        ("(1, 1, 3, 3, 2)", "sin(nn.max_pool3d(sin(%x), pool_size=[2, 2, 1], strides=[1, 2, 1]))"),
        ("(2, 3)", "concatenate((sin(%x), power(add(exp(%x), 1f64), 1.5f64)), axis=1)"),
        ("(1, 2, 4)", "nn.avg_pool1d(multiply(%x, sin(%x)), pool_size=[2], padding=[1, 0])"),
        ("(3, 4)", "log(sum(exp(take(%x, meta_indices, axis=1)), axis=[1]))"),
    ];
    for (shapes, expression) in programs {
        let text = program(shapes, expression);
        let mut first = parse("gradient", &text, &registry).expect("a program");
        run(&mut first, "gradient", &registry).expect("a gradient");
        // The first parameter's gradient is the value of a program again.
        let text = printed(&first, &registry);
        let main = text.rfind("def @main").map(|start| text[start..].to_string());
        let main = main.expect("a function").replace("def @main", "def @first");
        let calls = shapes.split("; ").zip(["%x", "%y", "%z"]);
        let names: Vec<&str> = calls.map(|(_, name)| name).collect();
        let outer = program(shapes, &format!("@first({}).1.0", names.join(", ")));
        let mut module = parse("second", &format!("{main}\n{outer}"), &registry)
            .unwrap_or_else(|found| panic!("{found}\n{main}"));
        run(&mut module, "inline{all=true}", &registry).expect("one function");
        run(&mut module, "remove-unused-functions", &registry).expect("one function");
        let text = printed(&module, &registry);
        check(&text, 1, &registry).unwrap_or_else(|message| panic!("{text}: {message}"));
    }
}

/// Forward and reverse mode are two ways to take products with one Jacobian.
#[test]
fn tangents_are_those_of_the_gradients() {
    let registry = registry();
    let mut failures = vec![];
    for (shapes, expression) in EXPRESSIONS {
        let text = program(shapes, expression);
        match tangents::check(&text, 1, &registry) {
            Ok(tangents::Compared::Equal) => {}
            Ok(other) => failures.push(format!("{text}: {other:?}")),
            Err(message) => failures.push(format!("{text}: {message}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn windows_of_every_geometry_have_tangents() {
    let registry = registry();
    for seed in cases(100) {
        let text = windows(seed);
        let compared = tangents::check(&text, seed, &registry);
        assert_eq!(compared, Ok(tangents::Compared::Equal), "{text}, seed {seed}");
    }
}

/// Tangents have at most two operators more than what people write for them.
#[test]
fn tangents_are_short() {
    let registry = registry();
    let programs = [
        ("(3); (3)", "multiply(sin(%x), %y)", 7),
        ("(3, 4); (2, 4)", "tanh(nn.dense(%x, %y))", 9),
        ("(3, 4)", "nn.softmax(%x)", 7),
        ("(3, 4); (3, 4)", "mean(multiply(%x, %y))", 8),
    ];
    for (shapes, expression, most) in programs {
        let mut module =
            parse("short", &program(shapes, expression), &registry).expect("a program");
        for pass in ["jvp", "fold-constant", "rewrite", "cse", "dce"] {
            run(&mut module, pass, &registry).unwrap_or_else(|found| panic!("{pass}: {found}"));
        }
        let text = printed(&module, &registry);
        let operators = text.lines().filter(|line| line.starts_with("  %") && line.contains(" = "));
        let count = operators.filter(|line| !line.contains(" = (")).count();
        assert!(count <= most, "{expression}: {count} operators\n{text}");
    }
}

/// `fixtures/gradients/CASE.in.relay` is a program and `CASE.out.relay` what the original's
/// `FirstOrderGradient` made of it, or of those called `higher_CASE`, its gradient of higher order.
#[test]
fn gradients_are_those_of_the_original() {
    let registry = registry();
    let mut count = 0;
    let first = ["add", "conv_softmax", "mlp", "mul_broadcast"];
    let higher = ["add", "global_fn", "id", "if", "mlp", "pe_dce_square", "ref"];
    let higher = higher.map(|case| format!("higher_{case}"));
    for case in first.map(str::to_string).into_iter().chain(higher) {
        let read = |name: &str| {
            let path = common::fixtures().join("gradients").join(format!("{case}.{name}.relay"));
            let text = std::fs::read_to_string(&path).expect("a fixture");
            parse(&case, &text, &registry).unwrap_or_else(|found| panic!("{case}: {found}"))
        };
        let (mut ours, theirs) = (read("in"), read("out"));
        let main = ours.get("main").expect("a function");
        let args = random_arguments(main, &registry, &ours.signatures(), 1).expect("arguments");
        run(&mut ours, "gradient", &registry).expect("a gradient");
        // The original gives what has no derivatives a gradient of its own type.
        let floats = |module: &Module| -> Vec<TensorData> {
            let value = Interpreter::new(module, &registry).call("main", args.clone());
            let tensors = flatten(&value.expect("a value")).expect("tensors");
            tensors.into_iter().filter(|tensor| tensor.dtype().is_float()).collect()
        };
        let (ours, theirs) = (floats(&ours), floats(&theirs));
        assert_eq!(ours.len(), theirs.len(), "{case}");
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            approx_equal(&ours.into(), &theirs.into(), 1e-5, 1e-6)
                .unwrap_or_else(|difference| panic!("{case}: {difference}"));
        }
        count += 1;
    }
    assert_eq!(count, 11);
}

/// Of models, gradients are no longer than people write them.
#[test]
fn gradients_of_models_are_short() {
    let registry = registry();
    for (model, most) in [("mlp", 28), ("dqn", 40)] {
        let path = common::fixtures().join("corpus").join(format!("{model}.relay"));
        let text = std::fs::read_to_string(&path).expect("a fixture");
        let mut module = parse(model, &text, &registry).expect("a program");
        run(&mut module, "gradient", &registry).expect("a gradient");
        let text = printed(&module, &registry);
        // Calls of operators; the tuples of results are none.
        let operators = text.lines().filter(|line| line.starts_with("  %") && line.contains(" = "));
        let count = operators.filter(|line| !line.contains(" = (")).count();
        assert!(count <= most, "{model}: {count} operators\n{text}");
        for like in ["zeros_like", "ones_like", "collapse_sum_like"] {
            assert!(!text.contains(like), "{model}: {text}");
        }
    }
}

#[test]
fn windows_of_every_geometry_have_gradients() {
    let registry = registry();
    for seed in cases(150) {
        let text = windows(seed);
        check(&text, seed, &registry)
            .unwrap_or_else(|message| panic!("{text}, seed {seed}: {message}"));
    }
}

/// Operators with a rule that no expression above has: those of integers and truth values, whose rule
/// is that there is nothing to change, and those that only place or annotate. `stop_gradient` has another
/// gradient than its value has.
const UNTRIED: &[&str] = &[
    "annotation.",
    "random.",
    "bitwise_",
    "left_shift",
    "right_shift",
    "logical_",
    "all",
    "any",
    "device_copy",
    "on_device",
    "check_shape",
    "zeros_like",
    "cast_like",
    "contrib_reverse_reshape",
    "trunc_divide",
    "trunc_mod",
    "collapse_sum_to",
    "nn.contrib_",
    "cumprod",
    "stop_gradient",
    "nn.max_pool",
    "nn.avg_pool",
    "nn.adaptive_",
    "nn.conv",
    "debug",
];

#[test]
fn rules_are_tried() {
    let registry = registry();
    let with_rule = registry.ops().filter(|op| op.hook::<Gradient>().is_some());
    let names = with_rule.map(|op| relay::language::short_name(op.def.name));
    let untried: Vec<&str> = names
        .filter(|name| !UNTRIED.iter().any(|other| name.starts_with(other)))
        .filter(|name| !EXPRESSIONS.iter().any(|(_, text)| text.contains(&format!("{name}("))))
        .collect();
    assert!(untried.is_empty(), "no expression has {}", untried.join(", "));
}
