//! Steps of optimizers.

use super::{Operator, many};
use crate::importer::{Fault, Value};
use crate::node::Cx;

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "ai.onnx.preview.training.Gradient",
        "`grad` of a function of what is between; nodes without graphs",
        |cx| {
            let (names, others) = (cx.names("xs")?, cx.names("zs")?);
            let mut values = cx.all_inputs()?;
            let (expected, found) = (names.len() + others.len(), values.len());
            if expected != found || names.is_empty() {
                let message = "expected operands for all of `xs` and `zs`, and some `xs`";
                return Err(format!("{message}, found {found} for {expected}").into());
            }
            let others = others.into_iter().zip(values.split_off(names.len())).collect();
            let y = cx.text("y", "")?;
            cx.gradient(names.into_iter().zip(values).collect(), others, y)
        },
    ),
    many("ai.onnx.preview.training.Adagrad", "`multiply`, `add`, `sqrt`, `divide`", |cx| {
        let decay = cx.float("decay_factor", 0.0)?;
        let epsilon = cx.float("epsilon", 1e-6)?;
        let (rate, count) = rate(cx)?;
        let slowed = cx.with_scalar("multiply", &count, decay)?;
        let slowed = cx.with_scalar("add", &slowed, 1.0)?;
        let rate = cx.op("divide", &[&rate, &slowed])?;
        each(cx, 1, |cx, value, gradient, states| {
            let gradient = regularized(cx, value, gradient)?;
            let square = cx.op("multiply", &[&gradient, &gradient])?;
            let squares = cx.op("add", &[&states[0], &square])?;
            let root = cx.op("sqrt", &[&squares])?;
            let root = cx.with_scalar("add", &root, epsilon)?;
            let step = cx.op("multiply", &[&rate, &gradient])?;
            let step = cx.op("divide", &[&step, &root])?;
            Ok(vec![cx.op("subtract", &[value, &step])?, squares])
        })
    }),
    many("ai.onnx.preview.training.Adam", "`multiply`, `add`, `power`, `sqrt`, `divide`", |cx| {
        let (alpha, beta) = (cx.float("alpha", 0.9)?, cx.float("beta", 0.999)?);
        let epsilon = cx.float("epsilon", 1e-6)?;
        let after = 1.0 - cx.float("norm_coefficient_post", 0.0)?;
        let (rate, count) = rate(cx)?;
        // Before the first step nothing is corrected.
        let without = |cx: &mut Cx<'_, '_>, base: f64| {
            let base = cx.scalar_like(base, &count)?;
            let power = cx.op("power", &[&base, &count])?;
            let one = cx.scalar_like(1.0, &power)?;
            cx.op("subtract", &[&one, &power])
        };
        let (first, second) = (without(cx, alpha)?, without(cx, beta)?);
        let second = cx.op("sqrt", &[&second])?;
        let corrected = cx.op("multiply", &[&rate, &second])?;
        let corrected = cx.op("divide", &[&corrected, &first])?;
        let is_later = cx.with_scalar("greater", &count, 0.0)?;
        let rate = cx.op("where", &[&is_later, &corrected, &rate])?;
        each(cx, 2, |cx, value, gradient, states| {
            let gradient = regularized(cx, value, gradient)?;
            let square = cx.op("multiply", &[&gradient, &gradient])?;
            let momentum = mixed(cx, &states[0], &gradient, alpha, 1.0 - alpha)?;
            let squares = mixed(cx, &states[1], &square, beta, 1.0 - beta)?;
            let root = cx.op("sqrt", &[&squares])?;
            let root = cx.with_scalar("add", &root, epsilon)?;
            let step = cx.op("divide", &[&momentum, &root])?;
            let step = cx.op("multiply", &[&rate, &step])?;
            let moved = cx.op("subtract", &[value, &step])?;
            Ok(vec![cx.with_scalar("multiply", &moved, after)?, momentum, squares])
        })
    }),
    many("ai.onnx.preview.training.Momentum", "`multiply`, `add`, `subtract`", |cx| {
        let (alpha, beta) = (cx.float("alpha", 0.0)?, cx.float("beta", 0.0)?);
        let is_nesterov = match cx.text("mode", "standard")? {
            "nesterov" => true,
            "standard" => false,
            other => {
                return Err(format!("expected standard or nesterov, found `{other}`").into());
            }
        };
        let (rate, count) = rate(cx)?;
        // The first gradient counts as a whole.
        let is_later = cx.with_scalar("greater", &count, 0.0)?;
        let (beta, one) = (cx.scalar_like(beta, &rate)?, cx.scalar_like(1.0, &rate)?);
        let beta = cx.op("where", &[&is_later, &beta, &one])?;
        each(cx, 1, |cx, value, gradient, states| {
            let gradient = regularized(cx, value, gradient)?;
            let part = cx.op("multiply", &[&beta, &gradient])?;
            let momentum = mixed(cx, &states[0], &part, alpha, 1.0)?;
            let step = match is_nesterov {
                true => mixed(cx, &momentum, &gradient, alpha, 1.0)?,
                false => momentum.clone(),
            };
            let step = cx.op("multiply", &[&rate, &step])?;
            Ok(vec![cx.op("subtract", &[value, &step])?, momentum])
        })
    }),
];

/// The learning rate and the number of the step, of the element type of what is learned.
fn rate(cx: &mut Cx<'_, '_>) -> Result<(Value, Value), Fault> {
    let dtype = cx.dtype(&cx.input(2)?)?;
    let (rate, count) = (cx.input(0)?, cx.input(1)?);
    let (rate, count) = (cx.reshape(&rate, &[])?, cx.reshape(&count, &[])?);
    Ok((cx.cast(&rate, dtype)?, cx.cast(&count, dtype)?))
}

/// The results of `step` on each tensor, its gradient, and its `states`: first all that are learned,
/// then all first states, and so on.
fn each(
    cx: &mut Cx<'_, '_>,
    states: usize,
    step: impl Fn(&mut Cx<'_, '_>, &Value, &Value, &[Value]) -> Result<Vec<Value>, Fault>,
) -> Result<Vec<Value>, Fault> {
    let operands = cx.all_inputs()?;
    let operands = operands.get(2..).unwrap_or_default();
    let count = operands.len() / (2 + states);
    if count == 0 || operands.len() % (2 + states) != 0 {
        let (by, found) = (2 + states, operands.len());
        return Err(format!("expected {by} operands for each tensor, found {found}").into());
    }
    let mut results = vec![Vec::new(); 1 + states];
    for at in 0..count {
        let own = |place: usize| operands[place * count + at].clone();
        let own_states: Vec<Value> = (2..2 + states).map(own).collect();
        let found = step(cx, &own(0), &own(1), &own_states)?;
        results.iter_mut().zip(found).for_each(|(list, value)| list.push(value));
    }
    Ok(results.concat())
}

/// `gradient`, and the part of `value` that the node says.
fn regularized(cx: &mut Cx<'_, '_>, value: &Value, gradient: &Value) -> Result<Value, Fault> {
    let norm = cx.float("norm_coefficient", 0.0)?;
    mixed(cx, value, gradient, norm, 1.0)
}

/// `a · of_a + b · of_b`.
fn mixed(cx: &mut Cx<'_, '_>, a: &Value, b: &Value, of_a: f64, of_b: f64) -> Result<Value, Fault> {
    let a = cx.with_scalar("multiply", a, of_a)?;
    let b = if of_b == 1.0 { b.clone() } else { cx.with_scalar("multiply", b, of_b)? };
    cx.op("add", &[&a, &b])
}
