//! Networks over sequences.

use super::Graph;

/// The recurrent cell found by architecture search (Zoph and Le, arXiv 1611.01578, figure 8), 5
/// steps of width 512, with weights of their own.
pub fn nasrnn() -> String {
    nasrnn_of(5, 512)
}

/// The same with `steps` steps of width `width`.
pub(super) fn nasrnn_of(steps: usize, width: usize) -> String {
    let mut g = Graph::default();
    let mut state = g.input(&[1, width]);
    for _ in 0..steps {
        let x = g.input(&[1, width]);
        let mut sums = Vec::new();
        for _ in 0..8 {
            let (v, w) = (g.weight(&[width, width]), g.weight(&[width, width]));
            let a = g.op(&format!("nn.dense({x}, {v})"));
            let b = g.op(&format!("nn.dense({state}, {w})"));
            sums.push(g.op(&format!("add({a}, {b})")));
        }
        let mut unary = |name: &str, value: &str| g.op(&format!("{name}({value})"));
        let (a, b) = (unary("nn.relu", &sums[0]), unary("sigmoid", &sums[3]));
        let (c, d) = (unary("sigmoid", &sums[1]), unary("tanh", &sums[2]));
        let (e, f) = (unary("sigmoid", &sums[4]), unary("tanh", &sums[5]));
        let (h, i) = (unary("sigmoid", &sums[6]), unary("nn.relu", &sums[7]));
        let first = g.op(&format!("add({a}, {b})"));
        let second = g.op(&format!("add({c}, {d})"));
        let third = g.op(&format!("multiply({e}, {f})"));
        let fourth = g.op(&format!("multiply({h}, {i})"));
        let mut unary = |name: &str, value: &str| g.op(&format!("{name}({value})"));
        let (a, b) = (unary("sigmoid", &second), unary("tanh", &third));
        let (c, d) = (unary("tanh", &first), unary("tanh", &fourth));
        let left = g.op(&format!("add({a}, {b})"));
        let right = g.op(&format!("multiply({c}, {d})"));
        let mut unary = |name: &str, value: &str| g.op(&format!("{name}({value})"));
        let (a, b) = (unary("tanh", &left), unary("tanh", &right));
        let product = g.op(&format!("multiply({a}, {b})"));
        state = g.op(&format!("tanh({product})"));
    }
    g.text(&state)
}

/// Eight attention blocks as graph optimizers are measured on (Jia et al., SOSP 2019): products of
/// queries, keys and values of 16 heads for 64 tokens of width 1024, without softmax. What enters
/// a block is a product of what entered the one before.
pub fn bert() -> String {
    bert_of(8, (64, 1024, 16))
}

/// The same with `blocks` blocks for other tokens, width and heads.
pub(super) fn bert_of(blocks: usize, (tokens, width, heads): (usize, usize, usize)) -> String {
    let mut g = Graph::default();
    let input = g.input(&[tokens, width]);
    let mut x = g.op(&format!("nn.relu({input})"));
    let mut outputs = Vec::new();
    for _ in 0..blocks {
        let mut parts = Vec::new();
        for _ in 0..3 {
            let w = g.weight(&[width, width]);
            let product = g.op(&format!("nn.dense({x}, {w})"));
            let split = g.op(&format!(
                "reshape({product}, newshape=[{tokens}, {heads}, {}])",
                width / heads
            ));
            parts.push(g.op(&format!("transpose({split}, axes=[1, 0, 2])")));
        }
        let scores = g.op(&format!("nn.batch_matmul({}, {})", parts[0], parts[1]));
        let mixed = g.op(&format!("nn.batch_matmul({scores}, {})", parts[2]));
        let back = g.op(&format!("transpose({mixed}, axes=[1, 0, 2])"));
        outputs.push(g.op(&format!("reshape({back}, newshape=[{tokens}, {width}])")));
        let w = g.weight(&[width, width]);
        x = g.op(&format!("nn.dense({x}, {w})"));
    }
    outputs.push(x);
    let result = format!("({})", outputs.join(", "));
    g.text(&result)
}

/// An encoder of `layers` layers (Vaswani et al., arXiv 1706.03762), with softmax, layer
/// normalization and GELU in primitive operations: 45 operations a layer.
pub fn transformer(layers: usize) -> String {
    transformer_of(layers, (128, 768, 12))
}

/// The same for other tokens, width and heads.
pub(super) fn transformer_of(
    layers: usize,
    (tokens, width, heads): (usize, usize, usize),
) -> String {
    let depth = width / heads;
    let mut g = Graph::default();
    let mut x = g.input(&[tokens, width]);
    for _ in 0..layers {
        let mut parts = Vec::new();
        for axes in ["[1, 0, 2]", "[1, 2, 0]", "[1, 0, 2]"] {
            let (w, b) = (g.weight(&[width, width]), g.weight(&[width]));
            let product = g.op(&format!("nn.dense({x}, {w})"));
            let biased = g.op(&format!("add({product}, {b})"));
            let split = g.op(&format!("reshape({biased}, newshape=[{tokens}, {heads}, {depth}])"));
            parts.push(g.op(&format!("transpose({split}, axes={axes})")));
        }
        let scores = g.op(&format!("nn.batch_matmul({}, {})", parts[0], parts[1]));
        let scaled = g.op(&format!("divide({scores}, {}f)", (depth as f64).sqrt()));
        let weights = softmax(&mut g, &scaled);
        let mixed = g.op(&format!("nn.batch_matmul({weights}, {})", parts[2]));
        let back = g.op(&format!("transpose({mixed}, axes=[1, 0, 2])"));
        let joined = g.op(&format!("reshape({back}, newshape=[{tokens}, {width}])"));
        let attended = linear(&mut g, &joined, width, width);
        let sum = g.op(&format!("add({x}, {attended})"));
        let normal = layer_norm(&mut g, &sum, width);
        let wide = linear(&mut g, &normal, width, 4 * width);
        let active = gelu(&mut g, &wide);
        let narrow = linear(&mut g, &active, 4 * width, width);
        let sum = g.op(&format!("add({normal}, {narrow})"));
        x = layer_norm(&mut g, &sum, width);
    }
    g.text(&x)
}

fn linear(g: &mut Graph, x: &str, inputs: usize, outputs: usize) -> String {
    let (w, b) = (g.weight(&[outputs, inputs]), g.weight(&[outputs]));
    let product = g.op(&format!("nn.dense({x}, {w})"));
    g.op(&format!("add({product}, {b})"))
}

fn softmax(g: &mut Graph, x: &str) -> String {
    let most = g.op(&format!("max({x}, axis=[-1], keepdims=True)"));
    let shifted = g.op(&format!("subtract({x}, {most})"));
    let power = g.op(&format!("exp({shifted})"));
    let sum = g.op(&format!("sum({power}, axis=[-1], keepdims=True)"));
    g.op(&format!("divide({power}, {sum})"))
}

fn layer_norm(g: &mut Graph, x: &str, width: usize) -> String {
    let (gamma, beta) = (g.weight(&[width]), g.weight(&[width]));
    let mean = g.op(&format!("mean({x}, axis=[-1], keepdims=True)"));
    let centered = g.op(&format!("subtract({x}, {mean})"));
    let square = g.op(&format!("multiply({centered}, {centered})"));
    let variance = g.op(&format!("mean({square}, axis=[-1], keepdims=True)"));
    let shifted = g.op(&format!("add({variance}, 0.00001f)"));
    let root = g.op(&format!("sqrt({shifted})"));
    let normal = g.op(&format!("divide({centered}, {root})"));
    let scaled = g.op(&format!("multiply({normal}, {gamma})"));
    g.op(&format!("add({scaled}, {beta})"))
}

fn gelu(g: &mut Graph, x: &str) -> String {
    let scaled = g.op(&format!("multiply({x}, 0.70710678f)"));
    let error = g.op(&format!("erf({scaled})"));
    let shifted = g.op(&format!("add({error}, 1f)"));
    let half = g.op(&format!("multiply({x}, 0.5f)"));
    g.op(&format!("multiply({half}, {shifted})"))
}

/// A chain of products, sums, rectifiers and residual sums of about `operations` operations: for
/// how time and memory grow.
pub fn residual_chain(operations: usize) -> String {
    let mut g = Graph::default();
    let mut x = g.input(&[16, 64]);
    let (w, b) = (g.weight(&[64, 64]), g.weight(&[64]));
    for _ in 0..operations / 4 {
        let product = g.op(&format!("nn.dense({x}, {w})"));
        let biased = g.op(&format!("add({product}, {b})"));
        let active = g.op(&format!("nn.relu({biased})"));
        x = g.op(&format!("add({active}, {x})"));
    }
    g.text(&x)
}

/// A chain of about `operations` operations, every third of which is a product with one: a rule
/// applies at each.
pub fn scaled_chain(operations: usize) -> String {
    let mut g = Graph::default();
    let (mut x, y) = (g.input(&[4, 4]), g.input(&[4, 4]));
    for _ in 0..operations / 3 {
        let scaled = g.op(&format!("multiply({x}, 1f)"));
        let active = g.op(&format!("nn.relu({scaled})"));
        x = g.op(&format!("add({active}, {y})"));
    }
    g.text(&x)
}
