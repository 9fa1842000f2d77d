//! A transformer's encoder: batches of sequences, of extents that are numbers or names.

use std::fmt::Write as _;

/// How large an encoder is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Layers, with weights of their own.
    pub(crate) layers: usize,
    /// Numbers for each token.
    pub(crate) width: usize,
    /// Numbers within a layer.
    pub(crate) inner: usize,
    /// Heads, of which each has its part of the width.
    pub(crate) heads: usize,
}

/// The parameters that are weights, with their extents.
pub(crate) fn weights(sizes: Sizes) -> Vec<(String, Vec<i64>)> {
    let Sizes { layers, width, inner, .. } = sizes;
    let (width, inner) = (width as i64, inner as i64);
    let mut all = Vec::new();
    for layer in 0..layers {
        let products = [("q", width, width), ("k", width, width), ("v", width, width)];
        let products = products.into_iter().chain([
            ("o", width, width),
            ("up", inner, width),
            ("down", width, inner),
        ]);
        for (name, units, inputs) in products {
            all.push((format!("w_{name}{layer}"), vec![units, inputs]));
            all.push((format!("b_{name}{layer}"), vec![units]));
        }
        for name in ["g_1", "h_1", "g_2", "h_2"] {
            all.push((format!("{name}{layer}"), vec![width]));
        }
    }
    all
}

/// The text of an encoder of `batch` sequences of `tokens` tokens, where these are names of extents if
/// `names` lists them, as `[b, s]`.
pub(crate) fn encoder(sizes: Sizes, names: &str, batch: &str, tokens: &str) -> String {
    let Sizes { layers, width, inner, heads } = sizes;
    let depth = width / heads;
    let mut text = format!("def @main{names}(%x: Tensor[({batch}, {tokens}, {width}), float32]");
    // Writing to a string cannot fail.
    for (name, extents) in weights(sizes) {
        let extents: Vec<String> = extents.iter().map(i64::to_string).collect();
        let _ = write!(text, ", %{name}: Tensor[({}), float32]", extents.join(", "));
    }
    text += ") {\n";
    let mut x = "%x".to_string();
    for layer in 0..layers {
        let dense = |of: &str, name: &str, units: usize| {
            format!(
                "nn.bias_add(nn.dense({of}, %w_{name}{layer}, units={units}), %b_{name}{layer}, axis=-1)"
            )
        };
        let scale = 1.0 / (depth as f64).sqrt();
        let [q, k, v, scores, shares, of_heads] =
            std::array::from_fn(|index| 13 * layer + 1 + index);
        let [split, mixed, y, u, a, last] = std::array::from_fn(|index| 13 * layer + 7 + index);
        let by_head = |name: &str| {
            let product = dense(&x, name, width);
            format!(
                "transpose(reshape({product}, newshape=[0, 0, {heads}, {depth}]), axes=[0, 2, 1, 3])"
            )
        };
        let wide = 13 * layer;
        let _ = writeln!(text, "  %{wide} = {};", by_head("v"));
        let _ = writeln!(text, "  %{q} = reshape({}, newshape=[-3, 0, 0]);", by_head("q"));
        let _ = writeln!(text, "  %{k} = reshape({}, newshape=[-3, 0, 0]);", by_head("k"));
        let dense_o = dense(&format!("%{mixed}"), "o", width);
        let dense_up = dense(&format!("%{y}"), "up", inner);
        let dense_down = dense(&format!("%{a}"), "down", width);
        let _ = write!(
            text,
            "  %{v} = reshape(%{wide}, newshape=[-3, 0, 0]);
  %{scores} = multiply(nn.batch_matmul(%{q}, %{k}, transpose_b=True), {scale}f);
  %{shares} = nn.softmax(%{scores}, axis=-1);
  %{of_heads} = nn.batch_matmul(%{shares}, %{v}, transpose_b=False);
  %{split} = reshape_like(%{of_heads}, %{wide});
  %{mixed} = reshape(transpose(%{split}, axes=[0, 2, 1, 3]), newshape=[0, 0, -3]);
  %{y} = nn.layer_norm(add({dense_o}, {x}), %g_1{layer}, %h_1{layer});
  %{u} = {dense_up};
  %{a} = multiply(multiply(%{u}, 0.5f), add(erf(multiply(%{u}, 0.70710678f)), 1f));
  %{last} = nn.layer_norm(add({dense_down}, %{y}), %g_2{layer}, %h_2{layer});
"
        );
        x = format!("%{last}");
    }
    text + "  " + &x + "\n}\n"
}
