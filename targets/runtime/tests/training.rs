//! Training against the formulas of the optimizers, on data that is taken whole.

use arrays::Arrays;
use ir_core::{DType, Diagnostics, Module, TensorData};
use passes::gradient::Checkpoint;
use passes::train_step::Optimizer;
use relay::inference::infer_module;
use runtime::training::{Evaluation, Settings, Source, Trainer};
use runtime::{BuildOptions, registry, target};

/// The mean of `(x * w - y)^2`, whose gradient by `w` is `mean(2 * x * (x * w - y))`.
const PROGRAM: &str = "
def @main(%x: Tensor[(?), float64], %w: float64, %y: Tensor[(?), float64]) {
  let %e = subtract(multiply(%x, %w), %y);
  mean(multiply(%e, %e))
}";

const X: [f64; 6] = [0.5, -1.5, 2.0, 1.0, -0.25, 3.0];

fn vector(values: &[f64]) -> TensorData {
    TensorData::from_f64(DType::FLOAT64, &[values.len() as i64], values).expect("as many elements")
}

/// The losses of twelve steps with batches of `batch` rows, and the weight after each. After `stop` steps, another
/// trainer goes on.
fn train(optimizer: Optimizer, batch: usize, stop: usize) -> (Vec<f64>, Vec<f64>) {
    let registry = registry();
    let (mut module, found) = ir_core::text::module::parse("loss", PROGRAM, &registry);
    assert!(found.is_empty(), "{found:?}");
    assert!(infer_module(&mut module, &registry).is_empty());
    let y: Vec<f64> = X.iter().map(|x| 2.0 * x).collect();
    let data: Arrays =
        [("x".to_string(), vector(&X)), ("y".to_string(), vector(&y))].into_iter().collect();
    let start = TensorData::from_f64(DType::FLOAT64, &[], &[0.25]).expect("one element");
    let weights: Arrays = [("w".to_string(), start)].into_iter().collect();
    let (batch, frozen) = (Some(batch), vec![]);
    let checkpoint = Checkpoint::None;
    let settings = Settings { optimizer, rate: 0.1, batch, frozen, seed: 7, checkpoint };
    let target = target("c{threads=1}", &registry).expect("a target");
    let options = BuildOptions { interpret: true, ..BuildOptions::new(&*target) };
    let trainer = || {
        let (source, found) = (Source { data: &data, weights: &weights }, &mut Diagnostics::new());
        Trainer::new(module.clone(), &registry, source, &settings, &options, found)
            .expect("a trainer")
    };
    let mut current = trainer();
    let (mut losses, mut weights) = (vec![], vec![]);
    for step in 0..12 {
        if step == stop {
            let snapshot = current.snapshot().expect("a snapshot");
            current = trainer();
            current.restore(&snapshot).expect("a snapshot of this run");
        }
        losses.push(current.step().expect("a loss"));
        current.take();
        weights.push(current.weights().expect("weights")["w"].to_f64()[0]);
    }
    (losses, weights)
}

/// Compares twelve steps with what `follow` makes of the gradients.
fn check(optimizer: Optimizer, mut follow: impl FnMut(f64) -> f64) {
    let (losses, weights) = train(optimizer, X.len(), 12);
    let mut w = 0.25;
    let close = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
    for (loss, weight) in losses.into_iter().zip(weights) {
        let mean = |of: &dyn Fn(f64) -> f64| X.iter().map(|x| of(*x)).sum::<f64>() / X.len() as f64;
        let expected = mean(&|x| (x * w - 2.0 * x).powi(2));
        assert!(close(loss, expected), "{loss}, expected {expected}");
        w -= follow(mean(&|x| 2.0 * x * (x * w - 2.0 * x)));
        assert!(close(weight, w), "{weight}, expected {w}");
    }
}

#[test]
fn steps_are_those_of_the_formulas() {
    check(Optimizer::Sgd, |g| 0.1 * g);
    let mut velocity = 0.0;
    check(Optimizer::Momentum, |g| {
        velocity = 0.9 * velocity + g;
        0.1 * velocity
    });
    let (mut mean, mut square, mut count) = (0.0, 0.0, 0);
    check(Optimizer::Adam, |g| {
        (mean, square, count) = (0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g, count + 1);
        let (m, s) = (1.0 - 0.9f64.powi(count), 1.0 - 0.999f64.powi(count));
        0.1 * (mean / m) / ((square / s).sqrt() + 1e-8)
    });
}

#[test]
fn a_run_goes_on_from_anywhere() {
    for optimizer in [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam] {
        for batch in [1, 4] {
            let whole = train(optimizer, batch, 12);
            for stop in [0, 1, 5, 6, 11] {
                assert_eq!(train(optimizer, batch, stop), whole, "stopped after {stop} steps");
            }
        }
    }
}

/// Hands a trainer of `text`, with `data`, and the module, to `then`.
fn trained<T>(
    text: &str,
    optimizer: Optimizer,
    data: &Arrays,
    then: impl FnOnce(Trainer<'_>, Module, &Settings, &BuildOptions<'_>) -> T,
) -> T {
    let registry = registry();
    let (mut module, found) = ir_core::text::module::parse("loss", text, &registry);
    assert!(found.is_empty(), "{found:?}");
    assert!(infer_module(&mut module, &registry).is_empty());
    let (frozen, checkpoint) = (vec![], Checkpoint::None);
    let settings = Settings { optimizer, rate: 0.1, batch: None, frozen, seed: 7, checkpoint };
    let target = target("c{threads=1}", &registry).expect("a target");
    let options = BuildOptions { interpret: true, ..BuildOptions::new(&*target) };
    let (weights, mut found) = (Arrays::default(), Diagnostics::new());
    let source = Source { data, weights: &weights };
    let trainer = Trainer::new(module.clone(), &registry, source, &settings, &options, &mut found);
    then(trainer.expect("a trainer"), module, &settings, &options)
}

/// Two rows of three floats for `x`.
fn rows() -> Arrays {
    let rows = TensorData::from_f64(DType::FLOAT32, &[2, 3], &[0.5, 1.0, -2.0, 3.0, 0.25, -1.0]);
    [("x".to_string(), rows.expect("six elements"))].into_iter().collect()
}

#[test]
fn factors_start_as_ones_and_matrices_at_random() {
    let text = "
    def @main(%x: Tensor[(?, 3), float32], %gamma: Tensor[(3), float32], %beta: Tensor[(3), float32],
              %narrow: Tensor[(1, 3), float32], %wide: Tensor[(3, 1), float32]) {
      let %y = nn.layer_norm(%x, %gamma, %beta);
      mean(nn.dense(nn.dense(%y, %narrow), %wide))
    }";
    let weights = trained(text, Optimizer::Sgd, &rows(), |trainer, _, _, _| trainer.weights());
    let weights = weights.expect("weights");
    assert_eq!(weights["gamma"].to_f64(), [1.0; 3]);
    assert_eq!(weights["beta"].to_f64(), [0.0; 3]);
    for name in ["narrow", "wide"] {
        assert!(weights[name].to_f64().iter().all(|x| *x != 0.0), "{name}: {:?}", weights[name]);
    }
}

#[test]
fn what_optimizers_keep_has_names_of_its_own() {
    let text = "
    def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(3), float32],
              %w_mean: Tensor[(3), float32], %steps: float32) {
      let %e = subtract(multiply(%x, add(%w, %w_mean)), %steps);
      mean(multiply(%e, %e))
    }";
    let names = |optimizer| {
        trained(text, optimizer, &rows(), |trainer, _, _, _| {
            let snapshot = trainer.snapshot().expect("a snapshot");
            snapshot.keys().filter(|name| name.starts_with("parameter/")).count()
        })
    };
    // Three weights, a mean and a square of each, and the number of steps.
    assert_eq!(names(Optimizer::Adam), 10);
    let momentum = trained(text, Optimizer::Momentum, &rows(), |trainer, _, _, _| {
        trainer.snapshot().expect("a snapshot")
    });
    trained(text, Optimizer::Sgd, &rows(), |mut trainer, _, _, _| {
        let errors = trainer.restore(&momentum).expect_err("it is of another optimizer");
        assert!(errors[0].message.contains("velocity"), "{errors:?}");
    });
}

#[test]
fn predictions_of_other_rows_are_refused() {
    let text = "
    def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(3), float32], %y: Tensor[(?), float32]) {
      let %e = subtract(sum(multiply(%x, %w), axis=[1]), %y);
      mean(multiply(%e, %e))
    }
    def @predict(%x: Tensor[(?, 3), float32], %w: Tensor[(3), float32]) -> Tensor[(?), float32] {
      reshape(multiply(%x, %w), newshape=[-1])
    }";
    let mut data = rows();
    let labels = TensorData::from_f64(DType::FLOAT32, &[2], &[1.0, 2.0]).expect("two");
    data.insert("y".to_string(), labels);
    trained(text, Optimizer::Sgd, &data, |trainer, module, settings, options| {
        let (weights, mut found) = (Arrays::default(), Diagnostics::new());
        let source = Source { data: &data, weights: &weights };
        let made = Evaluation::new(module, &trainer, source, settings, options, &mut found);
        let errors = made.err().expect("it predicts six numbers for two rows");
        assert!(errors[0].message.contains("for 2 rows"), "{errors:?}");
    });
}
