//! Files of other formats than programs.

use crate::scratch::{relay_opt, with_files};

/// A model, imported and described.
pub(crate) fn onnx(data: &[u8]) {
    with_files(&[("model.onnx", data)], |folder| {
        relay_opt(folder, &["model.onnx"], b"");
        relay_opt(folder, &["inspect", "model.onnx"], b"");
    });
}

const TAKES_ARRAYS: &[u8] =
    b"def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2), int8]) { (%x, %y) }";
const TAKES_ARRAY: &[u8] = b"def @main(%x: Tensor[(2, 3), float32]) { %x }";

/// Arrays for the parameters of a program. The first byte says of what kind.
pub(crate) fn arrays(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let (name, program) = match kind % 3 {
        0 => ("x.npz", TAKES_ARRAYS),
        1 => ("x.safetensors", TAKES_ARRAYS),
        _ => ("x.npy", TAKES_ARRAY),
    };
    with_files(&[("program.relay", program), (name, data)], |folder| {
        relay_opt(folder, &["run", "program.relay", "--executor", "interp", "--inputs", name], b"");
    });
}

/// A program in which most rules find something.
const PROGRAM: &[u8] = b"def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = add(%x, 0f);
  %1 = nn.dense(%0, %w, units=None);
  %2 = multiply(nn.relu(%1), 2f);
  (transpose(transpose(%2, axes=None), axes=None), sum(%2, axis=[1]), exp(negative(%x)))
}
";

/// A certificate of rewrites of a program.
pub(crate) fn certificate(data: &[u8]) {
    with_files(&[("a.cert", data), ("program.relay", PROGRAM)], |folder| {
        relay_opt(folder, &["rules", "replay", "a.cert", "program.relay"], b"");
    });
}

/// A file of rules, applied to a program.
pub(crate) fn rules(data: &[u8]) {
    with_files(&[("a.rules", data), ("program.relay", PROGRAM)], |folder| {
        relay_opt(folder, &["program.relay", "--rules", "a.rules", "--pass", "rewrite"], b"");
    });
}

/// A strategy, applied to a program.
pub(crate) fn strategy(data: &[u8]) {
    // A strategy may name other files, which are none of ours.
    if data.contains(&b'/') {
        return;
    }
    with_files(&[("a.strategy", data), ("program.relay", PROGRAM)], |folder| {
        let file = folder.join("a.strategy");
        let pipeline = format!("eqsat{{strategy={}}}", file.display());
        relay_opt(folder, &["program.relay", "--pass", &pipeline], b"");
    });
}
