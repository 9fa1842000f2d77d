//! Recurrent networks, step after step.
//!
//! The products of the inputs and their weights are one product for all steps; a step multiplies
//! the state. Few steps stand one after the other, many and unknown numbers of them are a recursive
//! function. With lengths, the sequences of the other direction are turned around within their
//! length, and a step after the end of a sequence changes nothing.

use ir_core::{DType, Dim, Type};

use super::activation::{exponential, hard_sigmoid, softplus, softsign, thresholded_relu};
use super::quantization::dynamically_quantized;
use super::{Operator, many};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    many(
        "GRU",
        "`nn.dense` and gates, one step after the other; more than 32 are a recursive function",
        |cx| {
            network(
                cx,
                &Cell { gates: 3, defaults: &["Sigmoid", "Tanh"], step: gru, is_quantized: false },
            )
        },
    ),
    many(
        "LSTM",
        "`nn.dense` and gates, one step after the other; more than 32 are a recursive function",
        |cx| {
            network(
                cx,
                &Cell {
                    gates: 4,
                    defaults: &["Sigmoid", "Tanh", "Tanh"],
                    step: lstm,
                    is_quantized: false,
                },
            )
        },
    ),
    many(
        "RNN",
        "`nn.dense` and activations, one step after the other; more than 32 are a recursive function",
        |cx| network(cx, &Cell { gates: 1, defaults: &["Tanh"], step: rnn, is_quantized: false }),
    ),
    many(
        "com.microsoft.DynamicQuantizeLSTM",
        "as `LSTM`, where all that weights multiply is quantized as by `DynamicQuantizeLinear`",
        |cx| {
            let defaults = &["Sigmoid", "Tanh", "Tanh"];
            network(cx, &Cell { gates: 4, defaults, step: lstm, is_quantized: true })
        },
    ),
];

/// More steps are a recursive function: what compilers do with the others takes time for each.
const MAX_UNROLLED: i64 = 32;

/// A kind of cell.
struct Cell {
    /// Rows of the weights per unit of the state.
    gates: i64,
    /// The activations of one direction.
    defaults: &'static [&'static str],
    /// From the products of the inputs and the state before to the state after.
    step: fn(&mut Cx<'_, '_>, &Direction, &Value, &State) -> Result<State, Fault>,
    /// Whether the weights are integers of 8 bits.
    is_quantized: bool,
}

/// What multiplies rows.
struct Weight {
    /// (results, inputs): of floats, or `int32` without the zero point.
    values: Value,
    /// That of the integers, one for each result or for all.
    scale: Option<Value>,
}

impl Weight {
    /// `rows`, (rows, inputs), by it: (rows, results).
    fn product(&self, cx: &mut Cx<'_, '_>, rows: &Value) -> Result<Value, Fault> {
        let Some(scale) = &self.scale else { return cx.op("nn.dense", &[rows, &self.values]) };
        let [rows, of_rows, zero] = dynamically_quantized(cx, rows)?;
        let (rows, zero) = (cx.cast(&rows, DType::INT32)?, cx.cast(&zero, DType::INT32)?);
        let rows = cx.op("subtract", &[&rows, &zero])?;
        let product = cx.op("nn.dense", &[&rows, &self.values])?;
        let product = cx.cast(&product, DType::FLOAT32)?;
        let scale = cx.op("multiply", &[&of_rows, scale])?;
        cx.op("multiply", &[&product, &scale])
    }
}

/// The weights of each direction: operand `index`, and of integers the operands of scales and zero points.
fn weights(
    cx: &mut Cx<'_, '_>,
    (index, quantization): (usize, Option<[usize; 2]>),
    count: usize,
) -> Result<Vec<Weight>, Fault> {
    let values = cx.input(index)?;
    let parts = part(cx, &values, count)?;
    let Some([scale, zero]) = quantization else {
        return Ok(parts.into_iter().map(|values| Weight { values, scale: None }).collect());
    };
    let (scales, zeros) = (cx.input(scale)?, cx.input(zero)?);
    let (scales, zeros) = (part(cx, &scales, count)?, part(cx, &zeros, count)?);
    let mut found = Vec::new();
    for ((values, scale), zero) in parts.iter().zip(scales).zip(zeros) {
        let (values, zero) = (cx.cast(values, DType::INT32)?, cx.cast(&zero, DType::INT32)?);
        let values = cx.op("subtract", &[&values, &zero])?;
        found.push(Weight { values: cx.transpose(&values, &[1, 0])?, scale: Some(scale) });
    }
    Ok(found)
}

/// What a step hands to the next: the output, and for LSTM the cell.
#[derive(Clone)]
struct State {
    hidden: Value,
    cell: Option<Value>,
}

/// The parameters of one direction.
struct Direction {
    /// (gates · hidden, hidden).
    recurrence: Weight,
    /// The same by gate, (hidden, hidden) each, for a GRU that resets before the product.
    by_gate: Option<Vec<Value>>,
    /// The bias of the recurrence where it is kept apart: (hidden), that of the last gate of GRU.
    last_bias: Option<Value>,
    /// Weights of the cell in the gates: input, output, forget, each (hidden).
    peepholes: Option<Vec<Value>>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    coupled: bool,
}

/// A named function with its parameters.
#[derive(Clone)]
pub(super) struct Activation {
    pub(super) name: String,
    pub(super) alpha: Option<f64>,
    pub(super) beta: Option<f64>,
}

impl Activation {
    /// The function of `data`.
    pub(super) fn apply(&self, cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
        let (alpha, beta) = (self.alpha, self.beta);
        match self.name.as_str() {
            "Relu" => cx.op("nn.relu", &[data]),
            "Tanh" => cx.op("tanh", &[data]),
            "Sigmoid" => cx.op("sigmoid", &[data]),
            "Affine" => {
                let scaled = cx.with_scalar("multiply", data, alpha.unwrap_or(1.0))?;
                cx.with_scalar("add", &scaled, beta.unwrap_or(0.0))
            }
            "LeakyRelu" => {
                cx.op_with("nn.leaky_relu", &[data], attr("alpha", alpha.unwrap_or(0.01)))
            }
            "ThresholdedRelu" => thresholded_relu(cx, data, alpha.unwrap_or(1.0)),
            "ScaledTanh" => {
                let scaled = cx.with_scalar("multiply", data, beta.unwrap_or(1.0))?;
                let result = cx.op("tanh", &[&scaled])?;
                cx.with_scalar("multiply", &result, alpha.unwrap_or(1.0))
            }
            "HardSigmoid" => hard_sigmoid(cx, data, alpha.unwrap_or(0.2), beta.unwrap_or(0.5)),
            "Elu" => exponential(cx, data, &data.clone(), alpha.unwrap_or(1.0)),
            "Softsign" => softsign(cx, data),
            "Softplus" => softplus(cx, data),
            other => Err(format!("expected a known activation, found `{other}`").into()),
        }
    }

    /// How many of the lists of parameters it takes from.
    fn takes(name: &str) -> (bool, bool) {
        match name {
            "Affine" | "ScaledTanh" | "HardSigmoid" => (true, true),
            "LeakyRelu" | "ThresholdedRelu" | "Elu" => (true, false),
            _ => (false, false),
        }
    }
}

/// The activations of all directions.
fn activations(cx: &Cx<'_, '_>, cell: &Cell, directions: usize) -> Result<Vec<Activation>, Fault> {
    let names = cx.texts("activations")?.unwrap_or_else(|| {
        cell.defaults.repeat(directions).into_iter().map(str::to_string).collect()
    });
    let expected = cell.defaults.len() * directions;
    if names.len() != expected {
        return Err(format!("expected {expected} activations, found {}", names.len()).into());
    }
    let mut alphas = cx.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = cx.floats("activation_beta")?.unwrap_or_default().into_iter();
    let known = |name: &str| {
        // Names are compared without case.
        const NAMES: [&str; 11] = [
            "Relu",
            "Tanh",
            "Sigmoid",
            "Affine",
            "LeakyRelu",
            "ThresholdedRelu",
            "ScaledTanh",
            "HardSigmoid",
            "Elu",
            "Softsign",
            "Softplus",
        ];
        let known = NAMES.iter().find(|known| known.eq_ignore_ascii_case(name));
        known.map_or(name.to_string(), |known| known.to_string())
    };
    let activation = |name: &String| {
        let name = known(name);
        let (alpha, beta) = Activation::takes(&name);
        let alpha = if alpha { alphas.next() } else { None };
        let beta = if beta { betas.next() } else { None };
        Activation { name, alpha, beta }
    };
    Ok(names.iter().map(activation).collect())
}

/// Field `index` along the first axis, without that axis.
fn part(cx: &mut Cx<'_, '_>, value: &Value, count: usize) -> Result<Vec<Value>, Fault> {
    let parts = cx.split(value, count as i64, 0)?;
    parts.iter().map(|part| cx.squeeze(part, &[0])).collect()
}

/// What a network takes, in parts by direction.
struct Inputs {
    /// (steps, batch, size).
    data: Value,
    steps: Dim,
    batch: Dim,
    lengths: Option<Value>,
    /// By direction: whether it goes from the last step to the first.
    directions: Vec<bool>,
    weights: Vec<Weight>,
    recurrences: Vec<Weight>,
    biases: Option<Vec<Value>>,
    peepholes: Option<Vec<Value>>,
    /// The state before the first step, and of LSTM the cell: each zero where it is not given.
    initial: Vec<Option<Vec<Value>>>,
    /// (batch, hidden).
    zeros: Value,
}

fn network(cx: &mut Cx<'_, '_>, cell: &Cell) -> Result<Vec<Value>, Fault> {
    let batch_first = cx.flag("layout", false)?;
    let inputs = inputs(cx, cell, batch_first)?;
    let activations = activations(cx, cell, inputs.directions.len())?;
    let (mut sequences, mut finals) = (Vec::new(), Vec::new());
    for (index, &reversed) in inputs.directions.iter().enumerate() {
        let own = &activations[index * cell.defaults.len()..][..cell.defaults.len()];
        let (direction, bias) = direction(cx, cell, &inputs, index, own)?;
        let data = turned(cx, &inputs.data, reversed, &inputs.lengths)?;
        let product = product(cx, &data, &inputs.weights[index], bias)?;
        let is_unrolled = |steps: &i64| *steps <= MAX_UNROLLED || cx.options().unrolled;
        let steps = inputs.steps.known().filter(is_unrolled);
        let (sequence, last) = match steps {
            Some(steps) => unrolled(cx, cell, &inputs, index, &direction, (&product, steps))?,
            None => repeated(cx, cell, &inputs, index, &direction, &product)?,
        };
        let sequence = turned(cx, &sequence, reversed, &inputs.lengths)?;
        sequences.push(cx.expand_dims(&sequence, 1)?);
        finals.push(last);
    }
    results(cx, cell, &sequences, &finals, batch_first)
}

fn inputs(cx: &mut Cx<'_, '_>, cell: &Cell, batch_first: bool) -> Result<Inputs, Fault> {
    let mut data = cx.input(0)?;
    if batch_first {
        data = cx.transpose(&data, &[1, 0, 2])?;
    }
    let dims = &cx.ty(&data)?.shape;
    let [steps, batch, _] = dims[..] else {
        return Err(format!("expected an input of rank 3, found rank {}", dims.len()).into());
    };
    let directions = match cx.text("direction", "forward")? {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(format!("expected a known direction, found `{other}`").into()),
    };
    let count = directions.len();
    let quantized = |operands| cell.is_quantized.then_some(operands);
    let weights = weights(cx, (1, quantized([8, 9])), count)?;
    let recurrences = self::weights(cx, (2, quantized([10, 11])), count)?;
    let Some(&Dim::Known(hidden)) = cx.ty(&recurrences[0].values)?.shape.last() else {
        return Err("expected a known size of the state".into());
    };
    if steps.known() == Some(0) {
        return Err("expected at least one step, found none".into());
    }
    let is_lstm = cell.gates == 4;
    let lengths = lengths(cx, steps)?;
    let biases = cx.optional(3).map(|value| part(cx, &value, count)).transpose()?;
    let peepholes = cx.optional(7).filter(|_| is_lstm);
    let peepholes = peepholes.map(|value| part(cx, &value, count)).transpose()?;
    let mut initial = Vec::new();
    for index in [5, 6].into_iter().take(if is_lstm { 2 } else { 1 }) {
        let value = match cx.optional(index) {
            Some(value) if batch_first => Some(cx.transpose(&value, &[1, 0, 2])?),
            other => other,
        };
        initial.push(value.map(|value| part(cx, &value, count)).transpose()?);
    }
    let zeros = zeros(cx, &data, batch, hidden)?;
    Ok(Inputs {
        data,
        steps,
        batch,
        lengths,
        directions,
        weights,
        recurrences,
        biases,
        peepholes,
        initial,
        zeros,
    })
}

/// Zeros, (batch, hidden), of the type of `data`, (steps, batch, size).
fn zeros(cx: &mut Cx<'_, '_>, data: &Value, batch: Dim, hidden: i64) -> Result<Value, Fault> {
    let dtype = cx.dtype(data)?;
    match batch.known() {
        Some(batch) => cx.full(dtype, &[batch, hidden], 0.0),
        None => {
            let shape = cx.shape_of(data)?;
            let batch = super::shape::part(cx, &shape, 1, 2)?;
            let shape = cx.concatenate(&[batch, cx.int_vector(&[hidden])], 0)?;
            cx.op_with("dyn.zeros", &[&shape], attr("dtype", dtype))
        }
    }
}

/// The parameters of direction `index`, and the bias of the products of its inputs.
fn direction(
    cx: &mut Cx<'_, '_>,
    cell: &Cell,
    inputs: &Inputs,
    index: usize,
    activations: &[Activation],
) -> Result<(Direction, Option<Value>), Fault> {
    let reset_after = cx.flag("linear_before_reset", false)?;
    let biases = inputs.biases.as_ref();
    let bias = biases.map(|all| halves(cx, &all[index], cell.gates, reset_after)).transpose()?;
    let (bias, last_bias) = bias.map_or((None, None), |(bias, last)| (Some(bias), last));
    let peepholes = inputs.peepholes.as_ref();
    let recurrence = &inputs.recurrences[index];
    let direction = Direction {
        peepholes: peepholes.map(|all| cx.split(&all[index], 3, 0)).transpose()?,
        recurrence: Weight {
            values: cx.shared(&recurrence.values),
            scale: recurrence.scale.clone(),
        },
        by_gate: match cell.gates == 3 && !reset_after {
            true => Some(cx.split(&recurrence.values, 3, 0)?),
            false => None,
        },
        last_bias,
        activations: activations.to_vec(),
        clip: cx.float_if("clip")?,
        coupled: cx.flag("input_forget", false)?,
    };
    Ok((direction, bias))
}

/// The steps of direction `index` on the `products` of its inputs: the outputs of all, (steps, batch,
/// hidden), and the state after the last.
fn unrolled(
    cx: &mut Cx<'_, '_>,
    cell: &Cell,
    inputs: &Inputs,
    index: usize,
    direction: &Direction,
    (product, steps): (&Value, i64),
) -> Result<(Value, State), Fault> {
    let mut state = inputs.first(index);
    let mut outputs = Vec::new();
    for (step, product) in cx.split(product, steps, 0)?.iter().enumerate() {
        let after = (cell.step)(cx, direction, product, &state)?;
        let (lengths, zeros) = (&inputs.lengths, &inputs.zeros);
        let step = cx.int_scalar(DType::INT64, step as i64);
        let (state_after, output) = masked(cx, lengths, &step, state, after, zeros)?;
        state = state_after;
        outputs.push(cx.expand_dims(&output, 0)?);
    }
    Ok((cx.concatenate(&outputs, 0)?, state))
}

/// As [`unrolled`], as a recursive function of the number of the step, the state before it, and the outputs
/// so far.
fn repeated(
    cx: &mut Cx<'_, '_>,
    cell: &Cell,
    inputs: &Inputs,
    index: usize,
    direction: &Direction,
    product: &Value,
) -> Result<(Value, State), Fault> {
    let Dim::Known(batch) = inputs.batch else {
        return Err(Fault::Open("expected a known size of the batch".to_string()));
    };
    let Some(&Dim::Known(gates)) = cx.ty(product)?.shape.last() else {
        return Err("expected a known size of the state".into());
    };
    let first = inputs.first(index);
    let (hidden, dtype) = (cx.shape(&inputs.zeros)?[1], cx.dtype(&inputs.zeros)?);
    let products = cx.reshape(product, &[-1, batch, gates])?;
    let (steps, outputs) = match inputs.steps.known() {
        Some(steps) => {
            (cx.int_scalar(DType::INT64, steps), cx.full(dtype, &[steps, batch, hidden], 0.0)?)
        }
        None => {
            let shape = cx.shape_of(&inputs.data)?;
            let steps = super::shape::part(cx, &shape, 0, 1)?;
            let shape = cx.concatenate(&[steps.clone(), cx.int_vector(&[batch, hidden])], 0)?;
            let outputs = cx.op_with("dyn.zeros", &[&shape], attr("dtype", dtype))?;
            (cx.reshape(&steps, &[])?, outputs)
        }
    };
    let all = Type::tensor([inputs.steps, Dim::Known(batch), Dim::Known(hidden)], dtype);
    let mut begin = vec![cx.int_scalar(DType::INT64, 0), first.hidden];
    begin.extend(first.cell);
    let mut types: Vec<Type> = begin.iter().map(|value| cx.ty_of(value)).collect();
    begin.push(outputs);
    types.push(all);
    let mut recursion = cx.begin_recursion(&types);
    let state = recursion.state.clone();
    let [step, hidden, cells @ .., so_far] = &state[..] else {
        return Err("expected a state".into());
    };
    let goes_on = cx.op("less", &[step, &steps])?;
    cx.begin_step(&mut recursion, &goes_on);
    let own = cx.op_with("take", &[&products, step], attr("axis", 0i64))?;
    let before = State { hidden: hidden.clone(), cell: cells.first().cloned() };
    let after = (cell.step)(cx, direction, &own, &before)?;
    let (after, output) = masked(cx, &inputs.lengths, step, before, after, &inputs.zeros)?;
    let (place, row) = (cx.reshape(step, &[1, 1])?, cx.expand_dims(&output, 0)?);
    let mut next = vec![cx.op("add", &[step, &cx.int_scalar(DType::INT64, 1)])?, after.hidden];
    next.extend(after.cell);
    next.push(cx.op("scatter_nd", &[so_far, &place, &row])?);
    let mut last = cx.end_recursion(recursion, &begin, &next).into_iter().skip(1);
    let (hidden, outputs) = (last.next(), last.next_back());
    let (Some(hidden), Some(outputs)) = (hidden, outputs) else {
        return Err("expected a state".into());
    };
    Ok((outputs, State { hidden, cell: last.next() }))
}

impl Inputs {
    /// The state of direction `index` before its first step.
    fn first(&self, index: usize) -> State {
        let initial = |values: &Option<Vec<Value>>| match values {
            Some(values) => values[index].clone(),
            None => self.zeros.clone(),
        };
        State { hidden: initial(&self.initial[0]), cell: self.initial.get(1).map(initial) }
    }
}

/// The outputs of all steps, then the last ones, then of LSTM the last cells.
fn results(
    cx: &mut Cx<'_, '_>,
    cell: &Cell,
    sequences: &[Value],
    finals: &[State],
    batch_first: bool,
) -> Result<Vec<Value>, Fault> {
    let all = cx.concatenate(sequences, 1)?;
    let mut last = |value: fn(&State) -> Option<&Value>| {
        let parts = finals.iter().filter_map(value).map(|value| cx.expand_dims(value, 0));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let joined = cx.concatenate(&parts, 0)?;
        if batch_first { cx.transpose(&joined, &[1, 0, 2]) } else { Ok(joined) }
    };
    let mut results = vec![all, last(|state| Some(&state.hidden))?];
    if cell.gates == 4 {
        results.push(last(|state| state.cell.as_ref())?);
    }
    if batch_first {
        results[0] = cx.transpose(&results[0], &[2, 0, 1, 3])?;
    }
    Ok(results)
}

/// The lengths of the sequences, where they are not all that of the input.
fn lengths(cx: &Cx<'_, '_>, steps: Dim) -> Result<Option<Value>, Fault> {
    let Some(lengths) = cx.optional(4) else { return Ok(None) };
    let full =
        cx.known_ints(&lengths).is_some_and(|all| all.iter().all(|n| Some(*n) == steps.known()));
    Ok((!full).then_some(lengths))
}

/// `value` (steps, batch, …) in the order of a direction.
fn turned(
    cx: &mut Cx<'_, '_>,
    value: &Value,
    reversed: bool,
    lengths: &Option<Value>,
) -> Result<Value, Fault> {
    match (reversed, lengths) {
        (false, _) => Ok(value.clone()),
        (true, None) => cx.op_with("reverse", &[value], attr("axis", 0i64)),
        (true, Some(lengths)) => {
            let attrs = attr("seq_axis", 0i64).with("batch_axis", &1i64);
            cx.op_with("reverse_sequence", &[value, lengths], attrs)
        }
    }
}

/// The bias of the inputs and that of the recurrence, added up; of a GRU that resets after the
/// product, the last part of the recurrence's stays apart.
fn halves(
    cx: &mut Cx<'_, '_>,
    bias: &Value,
    gates: i64,
    reset_after: bool,
) -> Result<(Value, Option<Value>), Fault> {
    let both = cx.split(bias, 2, 0)?;
    if gates != 3 || !reset_after {
        return Ok((cx.op("add", &[&both[0], &both[1]])?, None));
    }
    let (input, state) = (cx.split(&both[0], 3, 0)?, cx.split(&both[1], 3, 0)?);
    let update = cx.op("add", &[&input[0], &state[0]])?;
    let reset = cx.op("add", &[&input[1], &state[1]])?;
    let sum = cx.concatenate(&[update, reset, input[2].clone()], 0)?;
    Ok((sum, Some(state[2].clone())))
}

/// The products of the inputs and the weights, and the bias: (steps · batch, gates · hidden).
fn product(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    weight: &Weight,
    bias: Option<Value>,
) -> Result<Value, Fault> {
    let Some(Dim::Known(inputs)) = cx.ty(&weight.values)?.shape.last().copied() else {
        return Err("expected a known size of the input".into());
    };
    let rows = cx.reshape(data, &[-1, inputs])?;
    let mut product = weight.product(cx, &rows)?;
    if let Some(bias) = bias {
        product = cx.op_with("nn.bias_add", &[&product, &bias], attr("axis", 1i64))?;
    }
    Ok(product)
}

/// The state after a step, which only changes sequences that have not ended, and the output, which
/// is 0 for the others.
fn masked(
    cx: &mut Cx<'_, '_>,
    lengths: &Option<Value>,
    step: &Value,
    before: State,
    after: State,
    zeros: &Value,
) -> Result<(State, Value), Fault> {
    let Some(lengths) = lengths else {
        let output = after.hidden.clone();
        return Ok((after, output));
    };
    let step = cx.cast(step, cx.dtype(lengths)?)?;
    let runs = cx.op("greater", &[lengths, &step])?;
    let runs = cx.expand_dims(&runs, 1)?;
    let mut chosen = |new: &Value, old: &Value| cx.op("where", &[&runs, new, old]);
    let hidden = chosen(&after.hidden, &before.hidden)?;
    let cell = match (&after.cell, &before.cell) {
        (Some(new), Some(old)) => Some(chosen(new, old)?),
        _ => None,
    };
    let output = chosen(&after.hidden, zeros)?;
    Ok((State { hidden, cell }, output))
}

impl Direction {
    /// Activation `index` of `data`, which is clipped before.
    fn activate(&self, cx: &mut Cx<'_, '_>, index: usize, data: &Value) -> Result<Value, Fault> {
        match self.clip {
            None => self.activations[index].apply(cx, data),
            Some(bound) => {
                let attrs = attr("a_min", -bound).with("a_max", &bound);
                let data = cx.op_with("clip", &[data], attrs)?;
                self.activations[index].apply(cx, &data)
            }
        }
    }

    /// `gate` and the cell through its peephole `index`.
    fn peep(
        &self,
        cx: &mut Cx<'_, '_>,
        gate: &Value,
        cell: &Value,
        index: usize,
    ) -> Result<Value, Fault> {
        match &self.peepholes {
            None => Ok(gate.clone()),
            Some(peepholes) => {
                let seen = cx.op("multiply", &[cell, &peepholes[index]])?;
                cx.op("add", &[gate, &seen])
            }
        }
    }
}

fn rnn(
    cx: &mut Cx<'_, '_>,
    own: &Direction,
    product: &Value,
    state: &State,
) -> Result<State, Fault> {
    let recurrence = own.recurrence.product(cx, &state.hidden)?;
    let sum = cx.op("add", &[product, &recurrence])?;
    Ok(State { hidden: own.activate(cx, 0, &sum)?, cell: None })
}

/// Gates in the order input, output, forget, cell.
fn lstm(
    cx: &mut Cx<'_, '_>,
    own: &Direction,
    product: &Value,
    state: &State,
) -> Result<State, Fault> {
    let Some(cell) = &state.cell else { return Err("an LSTM has a cell".into()) };
    let recurrence = own.recurrence.product(cx, &state.hidden)?;
    let sum = cx.op("add", &[product, &recurrence])?;
    let gates = cx.split(&sum, 4, 1)?;
    let input = own.peep(cx, &gates[0], cell, 0)?;
    let input = own.activate(cx, 0, &input)?;
    let forget = match own.coupled {
        true => {
            let one = cx.scalar_like(1.0, &input)?;
            cx.op("subtract", &[&one, &input])?
        }
        false => {
            let forget = own.peep(cx, &gates[2], cell, 2)?;
            own.activate(cx, 0, &forget)?
        }
    };
    let candidate = own.activate(cx, 1, &gates[3])?;
    let kept = cx.op("multiply", &[&forget, cell])?;
    let added = cx.op("multiply", &[&input, &candidate])?;
    let cell = cx.op("add", &[&kept, &added])?;
    let output = own.peep(cx, &gates[1], &cell, 1)?;
    let output = own.activate(cx, 0, &output)?;
    let shown = own.activations[2].apply(cx, &cell)?;
    let hidden = cx.op("multiply", &[&output, &shown])?;
    Ok(State { hidden, cell: Some(cell) })
}

/// Gates in the order update, reset, candidate.
fn gru(
    cx: &mut Cx<'_, '_>,
    own: &Direction,
    product: &Value,
    state: &State,
) -> Result<State, Fault> {
    let inputs = cx.split(product, 3, 1)?;
    let hidden = &state.hidden;
    // What the candidate takes from the state: a product that waits for the reset, or a weight.
    let (gates, last) = match own.by_gate.as_deref() {
        Some([update, reset, candidate]) => {
            let update = cx.op("nn.dense", &[hidden, update])?;
            ([update, cx.op("nn.dense", &[hidden, reset])?], candidate.clone())
        }
        _ => {
            let recurrence = own.recurrence.product(cx, hidden)?;
            let parts = cx.split(&recurrence, 3, 1)?;
            let candidate = match &own.last_bias {
                Some(bias) => cx.op_with("nn.bias_add", &[&parts[2], bias], attr("axis", 1i64))?,
                None => parts[2].clone(),
            };
            ([parts[0].clone(), parts[1].clone()], candidate)
        }
    };
    let update = cx.op("add", &[&inputs[0], &gates[0]])?;
    let update = own.activate(cx, 0, &update)?;
    let reset = cx.op("add", &[&inputs[1], &gates[1]])?;
    let reset = own.activate(cx, 0, &reset)?;
    let recurrence = match own.by_gate {
        None => cx.op("multiply", &[&reset, &last])?,
        Some(_) => {
            let left = cx.op("multiply", &[&reset, hidden])?;
            cx.op("nn.dense", &[&left, &last])?
        }
    };
    let candidate = cx.op("add", &[&inputs[2], &recurrence])?;
    let candidate = own.activate(cx, 1, &candidate)?;
    let one = cx.scalar_like(1.0, &update)?;
    let rest = cx.op("subtract", &[&one, &update])?;
    let new = cx.op("multiply", &[&rest, &candidate])?;
    let old = cx.op("multiply", &[&update, hidden])?;
    Ok(State { hidden: cx.op("add", &[&new, &old])?, cell: None })
}
