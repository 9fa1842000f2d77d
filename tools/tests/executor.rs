//! Compiled programs give what the interpreter gives.

const CONVOLUTIONS: &str = r#"
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 3, 17, 17), float32], %w0: Tensor[(32, 3, 3, 3), float32],
          %b0: Tensor[(32), float32], %w1: Tensor[(32, 1, 3, 3), float32],
          %w2: Tensor[(48, 32, 1, 1), float32], %w3: Tensor[(10, 48), float32]) {
  let %a = nn.relu(nn.bias_add(nn.conv2d(%x, %w0, strides=[2, 2], padding=[1, 1, 1, 1],
                                         channels=32, kernel_size=[3, 3]), %b0));
  let %d = nn.relu(nn.conv2d(%a, %w1, padding=[1, 1, 1, 1], groups=32, channels=32,
                             kernel_size=[3, 3]));
  let %e = add(nn.conv2d(add(%a, %d), %w2, channels=48, kernel_size=[1, 1]), 0.5f);
  let %p = nn.max_pool2d(%e, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]);
  let %g = nn.batch_flatten(nn.global_avg_pool2d(%p));
  nn.softmax(nn.dense(%g, %w3, units=10))
}
"#;

const ROWS: &str = r#"
#[version = "0.0.5"]
def @main(%x: Tensor[(5, 48), float32], %g: Tensor[(48), float32], %b: Tensor[(48), float32],
          %w: Tensor[(7, 48), float32]) {
  let %n = nn.layer_norm(%x, %g, %b);
  let %s = nn.softmax(multiply(%n, %x), axis=-1);
  (nn.dense(%s, %w, units=7), argmax(%s, axis=[1]), transpose(tanh(%s), axes=[1, 0]),
   mean(%n, axis=[0], keepdims=True), concatenate((%s, %n), axis=1))
}
"#;

/// The exit status and what was printed.
fn relay_opt(args: &[&str], input: &str) -> (i32, String) {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ran = tools::run_within(&tools::registry(), &directory, args, input.as_bytes());
    (ran.status, ran.out + &ran.err)
}

fn check(model: &str, input: &str, more: &[&str]) {
    let mut args = vec!["run", model, "--fill", "3", "--executor", "graph", "--compare", "interp"];
    args.extend(more);
    let (status, text) = relay_opt(&args, input);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("out_0"), "{text}");
    assert!(!text.contains("NaN"), "nothing is compared with NaN: {text}");
}

#[test]
fn a_network_of_convolutions() {
    check("-", CONVOLUTIONS, &[]);
}

#[test]
fn reductions_over_rows() {
    check("-", ROWS, &[]);
}

#[test]
fn portable_code() {
    check("-", CONVOLUTIONS, &["--target", "c{isa=scalar}"]);
    check("-", ROWS, &["--target", "c{isa=scalar}"]);
}

#[test]
fn narrow_vectors_and_one_thread() {
    check("-", CONVOLUTIONS, &["--target", "c{width=4}", "--threads", "1"]);
}

#[test]
fn a_model() {
    check("examples/models/mlp.relay", "", &[]);
}

/// A program that gives a function.
const GIVES_FUNCTION: &str =
    "def @main(%x: Tensor[(4), float32]) { (%x, fn (%y: float32) { exp(%y) }) }";

#[test]
fn what_cannot_be_compiled_is_named() {
    let args = ["run", "-", "--fill", "1", "--executor", "graph"];
    let (status, text) = relay_opt(&args, GIVES_FUNCTION);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("`@main` takes or gives a function"), "{text}");
}

#[test]
fn auto_falls_back_to_the_interpreter() {
    let args = ["run", "-", "--fill", "1", "--executor", "auto"];
    let (status, text) = relay_opt(&args, GIVES_FUNCTION);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("runs in the interpreter"), "{text}");
}

#[test]
fn a_bench_reports_times_and_memory() {
    let args = ["bench", "examples/models/mlp.relay", "--seconds", "0.01", "--json"];
    let (status, text) = relay_opt(&args, "");
    assert_eq!(status, 0, "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["median_s"].as_f64().unwrap() > 0.0);
    assert!(value["memory_bytes"]["planned"].as_i64() <= value["memory_bytes"]["sum"].as_i64());
}

#[test]
fn a_bench_reports_kernels_and_the_peak() {
    let args = ["bench", "examples/models/mlp.relay", "--seconds", "0.01", "--json", "--profile"];
    let (status, text) = relay_opt(&args, "");
    assert_eq!(status, 0, "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let profile = &value["profile"];
    assert!(profile["peak"]["flops_per_s"].as_f64().unwrap() > 0.0, "{text}");
    let kernels = profile["kernels"].as_array().unwrap();
    let shares = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{text}");
    // The largest layer, a multiply-add for each weight and row, and the bias.
    let flops = kernels.iter().map(|kernel| kernel["flops"].as_u64().unwrap());
    assert!(flops.max().unwrap() > 2 * 128 * 64, "{text}");
    let places = kernels.iter().flat_map(|kernel| kernel["from"].as_array().unwrap());
    assert!(places.into_iter().any(|place| place.as_str().unwrap().starts_with("mlp.relay:")));
}
