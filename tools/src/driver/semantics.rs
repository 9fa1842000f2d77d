//! What a program computes, for comparing it before and after passes.

use std::ops::Range;

use indexmap::IndexMap;
use ir_core::pipeline::Oracle;
use ir_core::{
    Diagnostic, Diagnostics, FunctionType, Item, Magnitudes, Module, Registry, Signatures, Spread,
    Symbol, TensorData,
};
use relay::interpreter::{
    Interpreter, Mismatch, Options, Value, approx_equal, approx_equal_where_finite,
    finite_where_finite, random_values, random_values_up_to, spreads,
};
use relay::language::FUNC;
use runtime::{BuildOptions, Program};
use target_core::targets;
use te::loops::{KERNEL, OUTPUTS};

/// Ends the trial of a program that does not end: hours of tensor work need fewer steps.
const STEP_LIMIT: u64 = 100_000_000;
/// The same on numbers of all magnitudes, which may make a loop long.
const FAR_STEP_LIMIT: u64 = 1_000_000;
/// Bounds on what rounding may change.
const RELATIVE: f64 = 1e-4;
const ABSOLUTE: f64 = 1e-5;

/// How `found` differs from `expected` by more than rounding may change. What rounds otherwise need
/// not keep infinities and NaN: with `finite`, floats that are so in `expected` may be any in
/// `found`. A float that is finite there has to be the same in any case.
pub(crate) fn mismatch(found: &Value, expected: &Value, finite: bool) -> Option<Mismatch> {
    let compare = if finite { approx_equal_where_finite } else { approx_equal };
    compare(found, expected, RELATIVE, ABSOLUTE).err()
}

/// Runs functions on random inputs: `main` where there is one, else every function that takes
/// data only. Functions of Relay, compute functions and kernels are run, each by its interpreter.
pub(crate) struct Trials {
    /// The numbers of the inputs, which choose them.
    inputs: Range<u32>,
    step_limit: u64,
    /// Whether there are as many trials again with floats of all magnitudes.
    all_magnitudes: bool,
    /// Chosen from the first module.
    plan: Option<Plan>,
}

/// What is run.
struct Plan {
    /// Those of the first module, which declare the types of the arguments.
    signatures: Signatures,
    calls: Vec<Call>,
}

/// One run of a function.
struct Call {
    name: Symbol,
    /// Its type, without the buffers of results.
    function: FunctionType,
    /// Where the numbers of its parameters lie.
    spreads: Vec<Spread>,
    /// For floats of all magnitudes, the exponent of two of the greatest.
    reach: Option<i32>,
    seed: u64,
    /// Its number among those of the function, for people.
    number: u32,
}

impl Call {
    fn arguments(&self, signatures: &Signatures) -> Result<Vec<Value>, String> {
        match self.reach {
            Some(reach) => {
                let how = (reach, self.seed);
                random_values_up_to(&self.function, &self.spreads, signatures, how)
            }
            None => random_values(&self.function, &self.spreads, signatures, self.seed),
        }
    }

    /// How `found` differs from `expected`, as [`mismatch`] says. Rounding changes digits of
    /// numbers of all magnitudes, of which some cancel: only what is finite has to stay so then, up
    /// to 10⁴. Of greater numbers products may overflow in another order.
    fn mismatch(&self, found: &Value, expected: &Value, rounds: bool) -> Option<Mismatch> {
        match self.reach {
            Some(reach) if rounds && reach > Magnitudes::REACHES[0] => None,
            Some(_) if rounds => finite_where_finite(found, expected).err(),
            _ => mismatch(found, expected, rounds),
        }
    }
}

/// Results, each with the function, by the place of the call.
type Results = IndexMap<usize, (Symbol, Value)>;

/// Runs the item that a call names on arguments; `None` for one that is not run.
type Runner<'r> = dyn FnMut(&Call, &Item, Vec<Value>) -> Result<Option<Value>, Diagnostics> + 'r;

/// How an item is run.
enum Kind {
    Function,
    Compute,
    /// With so many results.
    Kernel(usize),
}

fn kind(item: &Item) -> Option<Kind> {
    let signature = &item.signature;
    item.body.as_ref()?;
    match signature.op.as_str() {
        FUNC => Some(Kind::Function),
        te::compute::FUNC => Some(Kind::Compute),
        KERNEL => Some(Kind::Kernel(signature.attrs.value::<i64>(OUTPUTS)?.try_into().ok()?)),
        _ => None,
    }
}

impl Trials {
    /// `count` trials for each function.
    pub(crate) fn new(count: u32) -> Trials {
        Trials { inputs: 0..count, step_limit: STEP_LIMIT, all_magnitudes: false, plan: None }
    }

    /// The trials with these numbers, from 0, for each function.
    pub(crate) fn of_inputs(inputs: Range<u32>) -> Trials {
        Trials { inputs, ..Trials::new(0) }
    }

    /// The same, and as many trials with floats of all magnitudes, up to 10⁴ and 10³⁰ in turn.
    pub(crate) fn of_all_magnitudes(self) -> Trials {
        Trials { all_magnitudes: true, ..self }
    }

    /// The same, where a run takes at most `steps` steps.
    pub(crate) fn step_limit(self, steps: u64) -> Trials {
        Trials { step_limit: steps, ..self }
    }

    fn choose(&self, module: &Module, registry: &Registry) -> Result<Plan, Diagnostics> {
        let signatures = module.signatures();
        let main = module.items.get_key_value(&Symbol::new("main"));
        let others = module.items.iter().filter(|_| main.is_none());
        let mut calls = Vec::new();
        for (name, item) in main.into_iter().chain(others) {
            let (Some(kind), Some(function)) = (kind(item), item.signature.ty.as_function()) else {
                continue;
            };
            let mut function = function.clone();
            if let Kind::Kernel(outputs) = kind {
                let inputs = function.params.len().saturating_sub(outputs);
                function.params = function.params[..inputs].into();
            }
            let spreads = spreads(item, registry);
            let near = self.inputs.clone().map(|seed| (seed, None));
            let reaches = [Magnitudes::REACHES[0], Magnitudes::REACHES[2]].into_iter().cycle();
            let far = self.inputs.clone().zip(reaches.map(Some)).filter(|_| self.all_magnitudes);
            for (number, (seed, reach)) in (self.inputs.start..).zip(near.chain(far)) {
                let (function, spreads) = (function.clone(), spreads.clone());
                let (name, seed) = (*name, u64::from(seed));
                let call = Call { name, function, spreads, reach, seed, number };
                match call.arguments(&signatures) {
                    Ok(_) => calls.push(call),
                    Err(message) if main.is_some() => {
                        let message = format!("cannot run @{name}: {message}");
                        return Err(Diagnostic::error("E0730", message)
                            .at(item.signature.span)
                            .into());
                    }
                    Err(_) => break,
                }
            }
        }
        Ok(Plan { signatures, calls })
    }

    /// What the calls give when `run` makes them. A call is left out where there is no such
    /// function any more: a pass may remove one that nothing calls.
    fn run(
        &mut self,
        module: &Module,
        registry: &Registry,
        run: &mut Runner<'_>,
    ) -> Result<Results, Diagnostics> {
        if self.plan.is_none() {
            self.plan = Some(self.choose(module, registry)?);
        }
        let mut results = IndexMap::new();
        let Some(Plan { signatures, calls }) = &self.plan else { return Ok(results) };
        for (index, call) in calls.iter().enumerate() {
            let name = &call.name;
            let Some(item) = module.items.get(name) else {
                if name.as_str() == "main" {
                    return Err(
                        Diagnostic::error("E0730", "there is no function @main any more").into()
                    );
                }
                continue;
            };
            // New ones for each run, which may change the contents of cells.
            let arguments = call.arguments(signatures);
            let arguments = arguments.map_err(|message| Diagnostic::error("E0730", message))?;
            let cells = arguments.iter().filter(|value| value.as_reference().is_some());
            let cells: Vec<Value> = cells.cloned().collect();
            let value = match run(call, item, arguments) {
                // What ends on numbers around 0 need not on others.
                Err(_) if call.reach.is_some() => None,
                value => value?,
            };
            if let Some(value) = value {
                let value = match cells.is_empty() {
                    true => value,
                    false => Value::tuple(std::iter::once(value).chain(cells)),
                };
                results.insert(index, (*name, value));
            }
        }
        Ok(results)
    }

    /// What `@main` gives as a program for this machine, or as its loops, interpreted.
    pub(crate) fn compiled(
        &mut self,
        module: &Module,
        registry: &Registry,
        interpret: bool,
    ) -> Result<Results, Diagnostics> {
        let first = |errors: Diagnostics| {
            let unknown = || Diagnostic::error("E0733", "the program cannot be compiled");
            errors.into_iter().next().unwrap_or_else(unknown)
        };
        let target = targets(registry).parse("c{threads=1}")?;
        let options = BuildOptions { interpret, ..BuildOptions::new(&*target) };
        let built = Program::build(module.clone(), registry, &options, &mut Diagnostics::new());
        let (mut program, _) = built.map_err(first)?;
        self.run(module, registry, &mut |call, _, arguments| {
            if call.name.as_str() != "main" {
                return Ok(None);
            }
            program.set_arguments(&arguments)?;
            program.run()?;
            program.result().map(Some)
        })
    }
}

/// The tensors of `values`, those of tuples in their order.
fn tensors(values: &[Value]) -> Result<Vec<TensorData>, Diagnostics> {
    let mut found = Vec::new();
    let mut pending: Vec<&Value> = values.iter().rev().collect();
    while let Some(value) = pending.pop() {
        match (value.as_tensor(), value.as_tuple()) {
            (Some(tensor), _) => found.push(tensor.clone()),
            (_, Some(fields)) => pending.extend(fields.iter().rev()),
            _ => {
                let message = format!("expected tensors, found {}", value.describe());
                return Err(Diagnostic::error("E0730", message).into());
            }
        }
    }
    Ok(found)
}

/// One value of several tensors.
fn together(mut tensors: Vec<TensorData>) -> Value {
    match tensors.len() {
        1 => Value::Tensor(tensors.swap_remove(0)),
        _ => Value::tuple(tensors.into_iter().map(Value::Tensor)),
    }
}

impl Oracle for Trials {
    type Results = Results;

    fn evaluate(&mut self, module: &Module, registry: &Registry) -> Result<Results, Diagnostics> {
        let interpreter = |steps: u64| {
            let options = Options { step_limit: Some(steps), ..Options::default() };
            Interpreter::new(module, registry).options(options)
        };
        let (near, far) = (interpreter(self.step_limit), interpreter(FAR_STEP_LIMIT));
        let step_limit = Some(self.step_limit);
        let te = te::interpreter::Options { step_limit, ..Default::default() };
        self.run(module, registry, &mut |call, item, arguments| {
            let (Some(kind), Some(body)) = (kind(item), &item.body) else { return Ok(None) };
            let name = call.name;
            let interpreter = if call.reach.is_some() { &far } else { &near };
            let span = item.signature.span;
            let results = match kind {
                Kind::Function => return interpreter.call(name, arguments).map(Some),
                Kind::Compute => te.run_compute(body, &tensors(&arguments)?),
                Kind::Kernel(outputs) => {
                    te.run_kernel(module, body, &tensors(&arguments)?, outputs)
                }
            };
            Ok(Some(together(results.map_err(|error| error.diagnostic(span))?)))
        })
    }

    fn difference(&self, expected: &Results, now: &Results, finite: bool) -> Option<String> {
        expected.iter().find_map(|(index, (name, expected))| {
            let (_, found) = now.get(index)?;
            let call = self.plan.as_ref()?.calls.get(*index)?;
            let mut difference = call.mismatch(found, expected, finite)?;
            // A kernel gives the fields of a tuple one by one.
            let flat = |value| tensors(std::slice::from_ref(value)).ok().map(together);
            if let (Some(found), Some(expected)) = (flat(found), flat(expected)) {
                difference = call.mismatch(&found, &expected, finite)?;
            }
            Some(format!("@{name} on random input {}: {difference}", call.number))
        })
    }

    fn adopt(&self, expected: &mut Results, now: Results) {
        for (index, result) in now {
            if let Some(known) = expected.get_mut(&index)
                && mismatch(&result.1, &known.1, false).is_some()
            {
                *known = result;
            }
        }
    }
}
