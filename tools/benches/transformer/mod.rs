//! A transformer in small operators.

use std::fmt::Write as _;

/// Tokens, numbers for each, those within a layer, and heads.
const SIZES: [usize; 4] = [128, 768, 3072, 12];

/// Writes the operators of a program, numbered.
struct Writer {
    text: String,
    next: usize,
}

impl Writer {
    /// Adds an operator; its name.
    fn op(&mut self, expression: &str) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {name} = {expression};");
        name
    }

    fn dense(&mut self, x: &str, weight: &str) -> String {
        let product = self.op(&format!("nn.dense({x}, %w_{weight}, units=None)"));
        self.op(&format!("add({product}, %b_{weight})"))
    }

    /// By head: (heads, tokens, numbers), or the last two the other way around.
    fn heads(&mut self, x: &str, weight: &str, axes: &str) -> String {
        let [tokens, width, _, heads] = SIZES;
        let x = self.dense(x, weight);
        let x = self.op(&format!("reshape({x}, newshape=[{tokens}, {heads}, {}])", width / heads));
        self.op(&format!("transpose({x}, axes=[{axes}])"))
    }

    fn softmax(&mut self, x: &str) -> String {
        let highest = self.op(&format!("max({x}, axis=[-1], keepdims=True)"));
        let shifted = self.op(&format!("subtract({x}, {highest})"));
        let terms = self.op(&format!("exp({shifted})"));
        let sum = self.op(&format!("sum({terms}, axis=[-1], keepdims=True)"));
        self.op(&format!("divide({terms}, {sum})"))
    }

    fn normalize(&mut self, x: &str, weight: &str) -> String {
        let mean = self.op(&format!("mean({x}, axis=[-1], keepdims=True)"));
        let centred = self.op(&format!("subtract({x}, {mean})"));
        let squares = self.op(&format!("multiply({centred}, {centred})"));
        let variance = self.op(&format!("mean({squares}, axis=[-1], keepdims=True)"));
        let variance = self.op(&format!("add({variance}, 1e-5f)"));
        let deviation = self.op(&format!("sqrt({variance})"));
        let x = self.op(&format!("divide({centred}, {deviation})"));
        let x = self.op(&format!("multiply({x}, %g_{weight})"));
        self.op(&format!("add({x}, %b_{weight})"))
    }

    fn gelu(&mut self, x: &str) -> String {
        let scaled = self.op(&format!("multiply({x}, 0.70710678f)"));
        let erf = self.op(&format!("erf({scaled})"));
        let share = self.op(&format!("add({erf}, 1f)"));
        let half = self.op(&format!("multiply({x}, 0.5f)"));
        self.op(&format!("multiply({half}, {share})"))
    }

    fn layer(&mut self, x: &str) -> String {
        let [tokens, width, _, _] = SIZES;
        let q = self.heads(x, "q", "1, 0, 2");
        let k = self.heads(x, "k", "1, 2, 0");
        let v = self.heads(x, "v", "1, 0, 2");
        let scores = self.op(&format!("nn.batch_matmul({q}, {k})"));
        let scores = self.op(&format!("multiply({scores}, 0.125f)"));
        let scores = self.op(&format!("add({scores}, %mask)"));
        let shares = self.softmax(&scores);
        let mixed = self.op(&format!("nn.batch_matmul({shares}, {v})"));
        let mixed = self.op(&format!("transpose({mixed}, axes=[1, 0, 2])"));
        let mixed = self.op(&format!("reshape({mixed}, newshape=[{tokens}, {width}])"));
        let mixed = self.dense(&mixed, "o");
        let sum = self.op(&format!("add({mixed}, {x})"));
        let x = self.normalize(&sum, "1");
        let inner = self.dense(&x, "up");
        let inner = self.gelu(&inner);
        let outer = self.dense(&inner, "down");
        let sum = self.op(&format!("add({outer}, {x})"));
        self.normalize(&sum, "2")
    }
}

/// A transformer of `layers` layers, all with the same weights.
pub(crate) fn transformer(layers: usize) -> String {
    let [tokens, width, inner, _] = SIZES;
    let mut params = vec![format!("%x: Tensor[({tokens}, {width}), float32]")];
    params.push(format!("%mask: Tensor[(1, {tokens}, {tokens}), float32]"));
    for (name, units, inputs) in [
        ("q", width, width),
        ("k", width, width),
        ("v", width, width),
        ("o", width, width),
        ("up", inner, width),
        ("down", width, inner),
    ] {
        params.push(format!("%w_{name}: Tensor[({units}, {inputs}), float32]"));
        params.push(format!("%b_{name}: Tensor[({units}), float32]"));
    }
    for name in ["g_1", "b_1", "g_2", "b_2"] {
        params.push(format!("%{name}: Tensor[({width}), float32]"));
    }
    let mut writer = Writer { text: format!("def @main({}) {{\n", params.join(", ")), next: 0 };
    let mut x = "%x".to_string();
    for _ in 0..layers {
        x = writer.layer(&x);
    }
    writer.text + "  " + &x + "\n}\n"
}
