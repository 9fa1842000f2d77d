//! Support vector machines.
//!
//! Chang and Lin, "LIBSVM: A Library for Support Vector Machines", 2011: every pair of classes votes, and
//! the probabilities of all pairs give one for each class.

use ir_core::DType;

use super::learned::{Labels, Transform, matrix};
use super::linear::matmul;
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, few};

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "ai.onnx.ml.SVMClassifier",
        "`nn.matmul` and what the kernel takes, votes by `greater`, `argmax`, `take`; probabilities by a \
        recursive function",
        classify,
    ),
    one("ai.onnx.ml.SVMRegressor", "`nn.matmul` and what the kernel takes, `add`", |cx| {
        let count = cx.int("n_supports", 0)?;
        let machine = Machine::of(cx, count)?;
        let scores = machine.products(cx, 1)?;
        let scores = match cx.flag("one_class", false)? {
            false => scores,
            true => {
                let is_inside = cx.with_scalar("greater", &scores, 0.0)?;
                let (one, other) = (cx.scalar_like(1.0, &scores)?, cx.scalar_like(-1.0, &scores)?);
                cx.op("where", &[&is_inside, &one, &other])?
            }
        };
        Transform::of(cx)?.apply(cx, &scores)
    }),
];

/// How alike a row of features and a support vector are.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kernel {
    Linear,
    Polynomial { scale: f64, offset: f64, degree: f64 },
    Radial { scale: f64 },
    Sigmoid { scale: f64, offset: f64 },
}

impl Kernel {
    /// The one that the node names.
    fn of(cx: &Cx<'_, '_>) -> Result<Kernel, Fault> {
        let parameters = cx.floats("kernel_params")?.filter(|all| !all.is_empty());
        let parameters = parameters.unwrap_or_else(|| vec![0.0; 3]);
        let [scale, offset, degree] = parameters[..] else {
            let found = parameters.len();
            return Err(format!("expected 3 `kernel_params`, found {found}").into());
        };
        match cx.text("kernel_type", "LINEAR")? {
            "LINEAR" => Ok(Kernel::Linear),
            "POLY" => Ok(Kernel::Polynomial { scale, offset, degree: degree.trunc() }),
            "RBF" => Ok(Kernel::Radial { scale }),
            "SIGMOID" => Ok(Kernel::Sigmoid { scale, offset }),
            other => Err(format!("expected LINEAR, POLY, RBF or SIGMOID, found `{other}`").into()),
        }
    }

    /// For `data`, (rows, features), and `vectors`, (vectors, features): (rows, vectors).
    fn apply(self, cx: &mut Cx<'_, '_>, data: &Value, vectors: &Value) -> Result<Value, Fault> {
        if let Kernel::Radial { scale } = self {
            let data = cx.expand_dims(data, 1)?;
            let difference = cx.op("subtract", &[&data, vectors])?;
            let squares = cx.op("multiply", &[&difference, &difference])?;
            let distance = cx.op_with("sum", &[&squares], attr("axis", vec![-1i64]))?;
            let scaled = cx.with_scalar("multiply", &distance, -scale)?;
            return cx.op("exp", &[&scaled]);
        }
        let vectors = cx.transpose(vectors, &[1, 0])?;
        let product = matmul(cx, data, &vectors)?;
        let moved = |cx: &mut Cx<'_, '_>, scale, offset| {
            let scaled = cx.with_scalar("multiply", &product, scale)?;
            cx.with_scalar("add", &scaled, offset)
        };
        match self {
            Kernel::Polynomial { scale, offset, degree } => {
                let base = moved(cx, scale, offset)?;
                cx.with_scalar("power", &base, degree)
            }
            Kernel::Sigmoid { scale, offset } => {
                let scaled = moved(cx, scale, offset)?;
                cx.op("tanh", &[&scaled])
            }
            Kernel::Linear | Kernel::Radial { .. } => Ok(product),
        }
    }
}

/// What the node says of support vectors.
struct Machine {
    /// (rows, features).
    data: Value,
    kernel: Kernel,
    /// (vectors, features); none where the coefficients are those of the features.
    vectors: Option<Value>,
    coefficients: Vec<f64>,
    /// What is added to each score.
    rho: Vec<f64>,
}

impl Machine {
    /// With `count` support vectors.
    fn of(cx: &mut Cx<'_, '_>, count: i64) -> Result<Machine, Fault> {
        let data = matrix(cx)?;
        let data = cx.cast(&data, DType::FLOAT32)?;
        let kernel = Kernel::of(cx)?;
        let coefficients = cx.floats("coefficients")?.unwrap_or_default();
        let vectors = match count {
            ..=0 => None,
            _ => {
                let vectors = cx.floats("support_vectors")?.unwrap_or_default();
                let shape = rows(vectors.len(), count, "support vectors")?;
                Some(cx.floats_like(&vectors, &shape, &data)?)
            }
        };
        let rho = cx.floats("rho")?.unwrap_or_default();
        Ok(Machine { data, kernel, vectors, coefficients, rho })
    }

    /// What each row is like: (rows, vectors), or the features themselves.
    fn likeness(&self, cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
        match &self.vectors {
            None => Ok(self.data.clone()),
            Some(vectors) => self.kernel.apply(cx, &self.data, vectors),
        }
    }

    /// That by the coefficients as `columns` rows, and the first `rho` of all: (rows, columns).
    fn products(&self, cx: &mut Cx<'_, '_>, columns: i64) -> Result<Value, Fault> {
        let likeness = self.likeness(cx)?;
        let shape = rows(self.coefficients.len(), columns, "coefficients")?;
        let weights = cx.floats_like(&self.coefficients, &shape, &likeness)?;
        let weights = cx.transpose(&weights, &[1, 0])?;
        let scores = matmul(cx, &likeness, &weights)?;
        match self.rho.first() {
            None => Err("expected `rho`".into()),
            Some(rho) => cx.with_scalar("add", &scores, *rho),
        }
    }

    /// For each pair of classes which is more likely, above 0 for the first: (rows, pairs). The classes
    /// have so many support vectors, one after the other.
    fn pairs(&self, cx: &mut Cx<'_, '_>, of_classes: &[usize]) -> Result<Value, Fault> {
        let vectors: usize = of_classes.iter().sum();
        let others = of_classes.len() - 1;
        if self.coefficients.len() != others * vectors {
            let (expected, found) = (others * vectors, self.coefficients.len());
            return Err(format!("expected {expected} coefficients, found {found}").into());
        }
        let pairs = pairs(of_classes.len());
        if self.rho.len() != pairs.len() {
            let (expected, found) = (pairs.len(), self.rho.len());
            return Err(format!("expected {expected} numbers in `rho`, found {found}").into());
        }
        few("numbers for pairs and vectors", &[pairs.len() as i64, vectors as i64])?;
        let starts: Vec<usize> = of_classes
            .iter()
            .scan(0, |next, count| {
                let start = *next;
                *next += count;
                Some(start)
            })
            .collect();
        let mut weights = vec![0.0; vectors * pairs.len()];
        for (row, &(first, second)) in weights.chunks_mut(vectors).zip(&pairs) {
            // The coefficients of a vector are those against each other class.
            for (class, against) in [(first, second - 1), (second, first)] {
                let of_class = starts[class]..starts[class] + of_classes[class];
                let all = &self.coefficients[against * vectors..][..vectors];
                row[of_class.clone()].copy_from_slice(&all[of_class]);
            }
        }
        let likeness = self.likeness(cx)?;
        let shape = [pairs.len() as i64, vectors as i64];
        let weights = cx.floats_like(&weights, &shape, &likeness)?;
        let weights = cx.transpose(&weights, &[1, 0])?;
        let scores = matmul(cx, &likeness, &weights)?;
        let rho = cx.floats_like(&self.rho, &[pairs.len() as i64], &scores)?;
        cx.op("add", &[&scores, &rho])
    }
}

/// The shape of `count` numbers as so many `rows`.
fn rows(count: usize, rows: i64, what: &str) -> Result<[i64; 2], Fault> {
    match usize::try_from(rows) {
        Ok(rows @ 1..) if count > 0 && count.is_multiple_of(rows) => {
            Ok([rows as i64, (count / rows) as i64])
        }
        _ => Err(format!("expected {what} in {rows} rows, found {count} numbers").into()),
    }
}

/// Two of `classes`, the lower one first.
fn pairs(classes: usize) -> Vec<(usize, usize)> {
    (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect()
}

/// More pairs have no model; the votes of so many are a constant of some three million numbers.
const MOST_PAIRS: i64 = 1 << 14;

fn classify(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let labels = Labels::of(cx, "classlabels_ints")?;
    let of_classes = cx.ints("vectors_per_class")?.unwrap_or_default();
    let transform = Transform::of(cx)?;
    if of_classes.iter().all(|count| *count == 0) {
        return linear(cx, &labels, transform);
    }
    let counts = of_classes.iter().map(|count| usize::try_from(*count).ok());
    let counts = counts.collect::<Option<Vec<usize>>>();
    let classes = labels.len() as i64;
    let Some(counts) = counts.filter(|counts| counts.len() == labels.len() && classes > 1) else {
        let message = "expected `vectors_per_class` of 2 classes or more, and as many labels";
        return Err(format!("{message}, found {of_classes:?} and {classes}").into());
    };
    if classes.saturating_mul(classes - 1) / 2 > MOST_PAIRS {
        return Err(format!("expected fewer classes, found {classes}").into());
    }
    let vectors = of_classes.iter().try_fold(0i64, |sum, count| sum.checked_add(*count));
    let Some(vectors) = vectors else { return Err("expected fewer support vectors".into()) };
    let machine = Machine::of(cx, vectors)?;
    let scores = machine.pairs(cx, &counts)?;
    let votes = votes(cx, &scores, counts.len())?;
    let label = labels.of_greatest(cx, &votes)?;
    let of_first = cx.floats("prob_a")?.filter(|all| !all.is_empty());
    let scores = match of_first {
        Some(a) => {
            let b = cx.floats("prob_b")?.unwrap_or_default();
            probabilities(cx, &scores, [&a, &b], counts.len())?
        }
        // One score for two classes says how likely the second is.
        None if counts.len() == 2 => {
            let other = cx.op("negative", &[&scores])?;
            cx.concatenate(&[other, scores], 1)?
        }
        None => scores,
    };
    Ok(vec![label, transform.apply(cx, &scores)?])
}

/// Classes whose coefficients are those of the features.
fn linear(cx: &mut Cx<'_, '_>, labels: &Labels, transform: Transform) -> Result<Vec<Value>, Fault> {
    if labels.len() < 2 {
        return Err("expected two labels or more".into());
    }
    let machine = Machine::of(cx, 0)?;
    let scores = machine.products(cx, labels.len() as i64)?;
    Ok(vec![labels.of_greatest(cx, &scores)?, transform.apply(cx, &scores)?])
}

/// How many pairs vote for each class: (rows, classes).
fn votes(cx: &mut Cx<'_, '_>, scores: &Value, classes: usize) -> Result<Value, Fault> {
    let pairs = pairs(classes);
    let shape = [pairs.len() as i64, classes as i64];
    let (mut change, mut without) = (vec![0.0; pairs.len() * classes], vec![0.0; classes]);
    for (row, (first, second)) in change.chunks_mut(classes).zip(pairs) {
        (row[first], row[second]) = (1.0, -1.0);
        without[second] += 1.0;
    }
    let is_first = cx.with_scalar("greater", scores, 0.0)?;
    let is_first = cx.cast(&is_first, cx.dtype(scores)?)?;
    let change = cx.floats_like(&change, &shape, scores)?;
    let change = matmul(cx, &is_first, &change)?;
    let without = cx.floats_like(&without, &[classes as i64], scores)?;
    cx.op("add", &[&change, &without])
}

/// Probabilities that are not quite 0 or 1.
const LEAST: f64 = 1e-7;

/// The probability of each class, (rows, classes), from the scores of pairs, (rows, pairs), and what
/// makes probabilities of them. Wu, Lin and Weng, "Probability Estimates for Multi-class Classification
/// by Pairwise Coupling", 2004, the second method, as LIBSVM iterates.
fn probabilities(
    cx: &mut Cx<'_, '_>,
    scores: &Value,
    [a, b]: [&[f64]; 2],
    classes: usize,
) -> Result<Value, Fault> {
    let (count, k) = (pairs(classes).len(), classes as i64);
    if [a.len(), b.len()] != [count, count] {
        let (of_a, of_b) = (a.len(), b.len());
        let message = format!("expected {count} numbers in `prob_a` and `prob_b`");
        return Err(format!("{message}, found {of_a} and {of_b}").into());
    }
    let a = cx.floats_like(a, &[count as i64], scores)?;
    let b = cx.floats_like(b, &[count as i64], scores)?;
    let scaled = cx.op("multiply", &[scores, &a])?;
    let moved = cx.op("add", &[&scaled, &b])?;
    let moved = cx.op("negative", &[&moved])?;
    let of_first = cx.op("sigmoid", &[&moved])?;
    let bounds = attr("a_min", LEAST).with("a_max", &(1.0 - LEAST));
    let of_first = cx.op_with("clip", &[&of_first], bounds)?;
    let products = coupled(cx, &of_first, classes)?;
    let column = cx.op_with("take", &[&of_first, &cx.int_vector(&[0])], attr("axis", 1i64))?;
    let zeros = cx.op("zeros_like", &[&column])?;
    let shares = cx.floats_like(&vec![1.0 / classes as f64; classes], &[1, k], scores)?;
    let start = cx.op("add", &[&zeros, &shares])?;
    let is_done = cx.with_scalar("less", &zeros, 0.0)?;
    let first = [cx.int_scalar(DType::INT64, 0), start, is_done];
    let types = [cx.ty_of(&first[0]), cx.ty_of(&first[1]), cx.ty_of(&first[2])];
    let mut recursion = cx.begin_recursion(&types);
    let state = recursion.state.clone();
    let is_done = cx.op("all", &[&state[2]])?;
    let is_open = cx.op("logical_not", &[&is_done])?;
    let most = cx.int_scalar(DType::INT64, k.max(100));
    let has_steps = cx.op("less", &[&state[0], &most])?;
    let goes_on = cx.op("logical_and", &[&is_open, &has_steps])?;
    cx.begin_step(&mut recursion, &goes_on);
    let (probabilities, is_done) = improved(cx, &products, &state[1], &state[2], classes)?;
    let one = cx.int_scalar(DType::INT64, 1);
    let next = [cx.op("add", &[&state[0], &one])?, probabilities, is_done];
    let last = cx.end_recursion(recursion, &first, &next);
    Ok(last[1].clone())
}

/// The matrix whose form is least for the probabilities of the classes, (rows, classes, classes), where
/// `of_first` are those of the first of each pair.
fn coupled(cx: &mut Cx<'_, '_>, of_first: &Value, classes: usize) -> Result<Value, Fault> {
    let k = classes as i64;
    let one = cx.scalar_like(1.0, of_first)?;
    let of_second = cx.op("subtract", &[&one, of_first])?;
    let both = cx.concatenate(&[of_first.clone(), of_second], 1)?;
    // On the diagonal anything: it is multiplied by 0.
    let mut places = vec![0; classes * classes];
    let pairs = pairs(classes);
    for (place, (i, j)) in pairs.iter().enumerate() {
        places[i * classes + j] = place as i64;
        places[j * classes + i] = (place + pairs.len()) as i64;
    }
    let places = cx.int_vector(&places);
    let all = cx.op_with("take", &[&both, &places], attr("axis", 1i64))?;
    let all = cx.reshape(&all, &[-1, k, k])?;
    let diagonal = |on: f64, off: f64| {
        (0..classes * classes)
            .map(move |at| if at % (classes + 1) == 0 { on } else { off })
            .collect::<Vec<f64>>()
    };
    let (off, on) = (diagonal(0.0, 1.0), diagonal(1.0, 0.0));
    let off = cx.floats_like(&off, &[k, k], of_first)?;
    let on = cx.floats_like(&on, &[k, k], of_first)?;
    let all = cx.op("multiply", &[&all, &off])?;
    let turned = cx.transpose(&all, &[0, 2, 1])?;
    let products = cx.op("multiply", &[&all, &turned])?;
    let squares = cx.op("multiply", &[&all, &all])?;
    let squares =
        cx.op_with("sum", &[&squares], attr("axis", vec![1i64]).with("keepdims", &true))?;
    let squares = cx.op("multiply", &[&squares, &on])?;
    cx.op("subtract", &[&squares, &products])
}

/// The probabilities of the classes after one more iteration, (rows, classes), and the rows for which none
/// is needed, (rows, 1).
fn improved(
    cx: &mut Cx<'_, '_>,
    products: &Value,
    before: &Value,
    was_done: &Value,
    classes: usize,
) -> Result<(Value, Value), Fault> {
    let k = classes as i64;
    let in_row = || attr("axis", vec![1i64]).with("keepdims", &true);
    let column = cx.expand_dims(before, 1)?;
    let weighted = cx.op("multiply", &[products, &column])?;
    let mut slopes = cx.op_with("sum", &[&weighted], attr("axis", vec![2i64]))?;
    let form = cx.op("multiply", &[before, &slopes])?;
    let mut form = cx.op_with("sum", &[&form], in_row())?;
    let error = cx.op("subtract", &[&slopes, &form])?;
    let error = cx.op("abs", &[&error])?;
    let error = cx.op_with("max", &[&error], in_row())?;
    let is_near = cx.with_scalar("less", &error, 0.005 / classes as f64)?;
    let is_done = cx.op("logical_or", &[was_done, &is_near])?;
    let mut after = before.clone();
    for class in 0..classes {
        let own = cx.int_vector(&[class as i64]);
        let row = cx.op_with("take", &[products, &own], attr("axis", 1i64))?;
        let row = cx.reshape(&row, &[-1, k])?;
        let itself = cx.op_with("take", &[&row, &own], attr("axis", 1i64))?;
        let slope = cx.op_with("take", &[&slopes, &own], attr("axis", 1i64))?;
        let step = cx.op("subtract", &[&form, &slope])?;
        let step = cx.op("divide", &[&step, &itself])?;
        let whole = cx.with_scalar("add", &step, 1.0)?;
        let mask = (0..classes).map(|other| if other == class { 1.0 } else { 0.0 });
        let mask = cx.floats_like(&mask.collect::<Vec<f64>>(), &[1, k], &row)?;
        let moved = cx.op("multiply", &[&step, &mask])?;
        let moved = cx.op("add", &[&after, &moved])?;
        after = cx.op("divide", &[&moved, &whole])?;
        let own_part = cx.op("multiply", &[&step, &itself])?;
        let twice = cx.with_scalar("multiply", &slope, 2.0)?;
        let change = cx.op("add", &[&own_part, &twice])?;
        let change = cx.op("multiply", &[&step, &change])?;
        let sum = cx.op("add", &[&form, &change])?;
        let squared = cx.op("multiply", &[&whole, &whole])?;
        form = cx.op("divide", &[&sum, &squared])?;
        let change = cx.op("multiply", &[&step, &row])?;
        let sum = cx.op("add", &[&slopes, &change])?;
        slopes = cx.op("divide", &[&sum, &whole])?;
    }
    let after = cx.op("where", &[&is_done, before, &after])?;
    Ok((after, is_done))
}
