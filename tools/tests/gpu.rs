//! Whole models on a graphics processor: in the interpreter of PTX, and on lavapipe, a device that computes
//! on the processor, they give what the interpreter gives.

use crate::encoder::{Sizes, encoder};

/// Residual blocks, one of which halves the picture.
const RESIDUAL: &str = r#"
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 3, 12, 12), float32], %w0: Tensor[(8, 3, 3, 3), float32],
          %w1: Tensor[(8, 8, 3, 3), float32], %w2: Tensor[(8, 8, 3, 3), float32],
          %w3: Tensor[(16, 8, 3, 3), float32], %w4: Tensor[(16, 16, 3, 3), float32],
          %w5: Tensor[(16, 8, 1, 1), float32], %w6: Tensor[(10, 16), float32],
          %g: Tensor[(16), float32], %b: Tensor[(16), float32], %m: Tensor[(16), float32]) {
  let %s = nn.relu(nn.conv2d(%x, %w0, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]));
  let %p = nn.max_pool2d(%s, pool_size=[2, 2], strides=[2, 2]);
  let %a = nn.relu(nn.conv2d(%p, %w1, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]));
  let %c = nn.relu(add(nn.conv2d(%a, %w2, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]), %p));
  let %d = nn.relu(nn.conv2d(%c, %w3, strides=[2, 2], padding=[1, 1, 1, 1], channels=16,
                             kernel_size=[3, 3]));
  let %n = nn.batch_norm(nn.conv2d(%d, %w4, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]),
                         %g, %b, %m, abs(%m));
  let %e = nn.relu(add(%n.0, nn.conv2d(%c, %w5, strides=[2, 2], channels=16, kernel_size=[1, 1])));
  nn.softmax(nn.dense(nn.batch_flatten(nn.global_avg_pool2d(%e)), %w6, units=10))
}
"#;

/// What is printed of a model on `target`, compared with the interpreter; `None` where there is no device.
fn compared(model: &str, input: &str, target: &str) -> Option<String> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let args = [
        "run",
        model,
        "--fill",
        "3",
        "--executor",
        "graph",
        "--compare",
        "interp",
        "--target",
        target,
    ];
    let ran = tools::run_within(&tools::registry(), &directory, &args, input.as_bytes());
    let text = ran.out + &ran.err;
    if text.contains("E0914") {
        let needed = std::env::var("REQUIRE_TOOLS").as_deref() == Ok("1");
        assert!(!needed, "no Vulkan device: install mesa-vulkan-drivers and libvulkan1");
        eprintln!("SKIPPED: no Vulkan device: install mesa-vulkan-drivers and libvulkan1");
        return None;
    }
    assert_eq!(ran.status, 0, "{target}: {text}");
    assert!(text.contains("out_0") && !text.contains("NaN"), "{target}: {text}");
    Some(text)
}

fn check(model: &str, input: &str) {
    for target in ["ptx{run=interpreter}", "spirv{device=llvmpipe}"] {
        compared(model, input, target);
    }
}

#[test]
fn layers() {
    check("examples/models/mlp.relay", "");
}

#[test]
fn an_lstm() {
    check("examples/models/lstm.relay", "");
}

#[test]
fn residual_blocks() {
    check("-", RESIDUAL);
}

#[test]
fn a_transformer() {
    let sizes = Sizes { layers: 2, width: 32, inner: 64, heads: 4 };
    check("-", &encoder(sizes, "", "2", "6"));
}
