//! Steps of training against the formulas of their optimizers, which are written down here once more.

use crate::common;

use common::{parse, registry, run};
use ir_core::{DType, TensorData};
use relay::interpreter::{Interpreter, Value, flatten};

/// The loss `sum((w * x - 1)^2)`, whose gradient by `w` is `2 * (w * x - 1) * x`.
const PROGRAM: &str = "
def @main(%w: Tensor[(3), float64], %x: Tensor[(3), float64]) {
  let %e = subtract(multiply(%w, %x), 1f64);
  sum(multiply(%e, %e))
}";

const X: [f64; 3] = [0.5, -1.5, 2.0];
const W: [f64; 3] = [1.0, 0.25, -0.75];

fn gradient(w: &[f64]) -> Vec<f64> {
    w.iter().zip(X).map(|(w, x)| 2.0 * (w * x - 1.0) * x).collect()
}

fn tensor(values: &[f64]) -> Value {
    let shape = [values.len() as i64];
    TensorData::from_f64(DType::FLOAT64, &shape, values).expect("as many elements").into()
}

/// Twenty steps of `pass` from `W`, the state from zeros: the parameters after each, and the losses.
fn steps(pass: &str, kept: usize, counts: bool) -> (Vec<Vec<f64>>, Vec<f64>) {
    let registry = registry();
    let mut module = parse("step", PROGRAM, &registry).expect("a program");
    run(&mut module, pass, &registry).expect("a step");
    ir_core::verify(&module, &registry).expect("a program again");
    let zero = TensorData::from_f64(DType::FLOAT64, &[], &[0.0]).expect("one element");
    let mut state: Vec<Value> = (0..kept).map(|_| tensor(&[0.0; 3])).collect();
    state.extend(counts.then(|| zero.into()));
    let (mut w, mut all, mut losses) = (tensor(&W), vec![], vec![]);
    for _ in 0..20 {
        let args = [vec![w.clone(), tensor(&X)], state.clone()].concat();
        let value = Interpreter::new(&module, &registry).call("main", args).expect("a value");
        let mut tensors = flatten(&value).expect("tensors").into_iter();
        losses.extend(tensors.next().expect("a loss").to_f64());
        let next = tensors.next().expect("a parameter");
        all.push(next.to_f64());
        w = next.into();
        state = tensors.map(Value::from).collect();
    }
    (all, losses)
}

fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>]) {
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "step {step}: {found}, expected {expected}");
        }
    }
}

/// The parameters after each of twenty steps, of what `step` makes of the gradient.
fn expected(mut step: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let mut w = W.to_vec();
    let next = |_| {
        let change = step(&gradient(&w));
        w = w.iter().zip(change).map(|(w, change)| w - change).collect();
        w.clone()
    };
    (0..20).map(next).collect()
}

#[test]
fn sgd_goes_against_the_gradient() {
    let (found, losses) = steps("train-step{rate=0.1 wrt=w}", 0, false);
    assert_close(&found, &expected(|g| g.iter().map(|g| 0.1 * g).collect()));
    assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
}

#[test]
fn momentum_keeps_earlier_gradients() {
    let (found, _) = steps("train-step{optimizer=momentum rate=0.05 momentum=0.8 wrt=w}", 1, false);
    let mut velocity = vec![0.0; 3];
    let step = |g: &[f64]| {
        velocity = velocity.iter().zip(g).map(|(v, g)| 0.8 * v + g).collect();
        velocity.iter().map(|v| 0.05 * v).collect()
    };
    assert_close(&found, &expected(step));
}

#[test]
fn adam_divides_by_the_size_of_gradients() {
    let pass = "train-step{optimizer=adam rate=0.1 momentum=0.7 decay=0.9 epsilon=0.001 wrt=w}";
    let (found, _) = steps(pass, 2, true);
    let (mut mean, mut square, mut count) = (vec![0.0; 3], vec![0.0; 3], 0);
    let step = |g: &[f64]| {
        count += 1;
        mean = mean.iter().zip(g).map(|(m, g)| 0.7 * m + 0.3 * g).collect();
        square = square.iter().zip(g).map(|(s, g)| 0.9 * s + 0.1 * g * g).collect();
        let (m, s) = (1.0 - 0.7f64.powi(count), 1.0 - 0.9f64.powi(count));
        let change = mean.iter().zip(&square);
        change.map(|(mean, square)| 0.1 * (mean / m) / ((square / s).sqrt() + 0.001)).collect()
    };
    assert_close(&found, &expected(step));
}
