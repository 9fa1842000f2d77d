//! The meaning of whole programs: simple rather than fast, and exact about who owns what.
//!
//! Calls that are pending lie on a stack of the interpreter's own, so recursion is as deep as memory
//! allows, and a tail call takes the frame of its caller. Kernels run in the interpreter of `te`.
//!
//! **Owners are counted as `dup` and `drop` say**, and by nothing else. A use of what nobody owns any
//! more is an error, and so is what has owners at the end: so this is the oracle of ownership. It
//! trusts no verifier.
//!
//! ```
//! use ir_core::{DType, Registry, TensorData, text};
//! use prog::interpreter::run;
//!
//! let registry = Registry::from([te::dialect(), prog::dialect()]);
//! let text = "
//! prog.func @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
//!   %y: Tensor[(2), float32] = kernel @twice(%x)
//!   drop %x
//!   yield %y
//! }
//! te.func @twice(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
//!   y[i < 2] = %x[i] + %x[i]
//!   return y
//! }";
//! let (module, _) = text::module::parse("twice", text, &registry);
//! let x = TensorData::from_f64(DType::FLOAT32, &[2], &[1.0, 2.0]).unwrap();
//! assert_eq!(run(&module, "main", &[x]).unwrap()[0].to_f64(), [2.0, 4.0]);
//! ```

mod bounded;
mod code;
mod heap;
mod rows;
mod sized;

use std::rc::Rc;

use ir_core::tensor::tensor_bytes;
use ir_core::{DType, Diagnostic, Module, OpId, Scalar, Span, Symbol, TensorData};
use rustc_hash::FxHashMap;
use te::compute;
use te::interpreter::Decoded;
use te::loops::{KERNEL, outputs};

pub use heap::Value;

use crate::FUNC;
use crate::operators::Operators;
use crate::order;
use crate::sites::{RESHAPED, Site, checks};
use code::{Code, Instruction, Slot, Slots};
use heap::{Heap, Shared};

// Codes of the interpreter of Relay, for what is the same here.
const FAILED: &str = "E0502";
const KIND: &str = "E0504";
const STEPS: &str = "E0506";
const STACK: &str = "E0507";
const UNKNOWN: &str = "E0508";
const ARGUMENTS: &str = "E0509";

/// Bounds on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The most instructions that a call may take, those of kernels left out; `None` for no bound.
    pub step_limit: Option<u64>,
    /// The most bytes that pending calls may take, not counting what their values share.
    pub stack_limit: usize,
}

impl Default for Options {
    /// No bound on steps, 2 GiB of pending calls.
    fn default() -> Options {
        Options { step_limit: None, stack_limit: 2 << 30 }
    }
}

/// Why a run ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The code of its diagnostic.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// The function and the operation in it, where there is one.
    pub place: Option<(Symbol, OpId)>,
    /// Which of the checks of a kernel failed.
    pub check: usize,
    span: Option<Span>,
}

impl Error {
    /// The error as a diagnostic.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::error(self.code, self.message.clone()).at(self.span)
    }

    /// The number of the site that the program failed at, out of those of the module; `None` where it
    /// is none of them.
    pub fn site(&self, sites: &[Site]) -> Option<usize> {
        let place = self.place.filter(|_| self.code == FAILED)?;
        let first = sites.iter().position(|site| (site.function, site.op) == place)?;
        Some(first + self.check)
    }
}

/// Why an instruction has no result, before its place is known.
struct Stop {
    code: &'static str,
    message: String,
    check: usize,
}

impl Stop {
    fn new(code: &'static str, message: impl Into<String>) -> Stop {
        Stop { code, message: message.into(), check: 0 }
    }

    /// An error that is nowhere in particular.
    fn nowhere(self) -> Error {
        let Stop { code, message, check } = self;
        Error { code, message, place: None, check, span: None }
    }
}

/// Calls `function` of `module` on tensors, gives the tensors that it returns, and checks that nothing
/// has owners then.
///
/// # Errors
/// Where the program fails, where its owners do not add up, and where it is malformed.
pub fn run(
    module: &Module,
    function: impl Into<Symbol>,
    inputs: &[TensorData],
) -> Result<Vec<TensorData>, Error> {
    let mut interpreter = Interpreter::new(module);
    let inputs = inputs.iter().map(|input| interpreter.tensor(input.clone())).collect();
    let results = interpreter.call(function, inputs)?;
    let tensors = results.iter().map(|result| interpreter.to_tensor(result)).collect();
    for result in &results {
        interpreter.drop(result)?;
    }
    interpreter.finish()?;
    tensors
}

/// A program, with its objects.
pub struct Interpreter<'m> {
    module: &'m Module,
    options: Options,
    functions: FxHashMap<Symbol, Rc<Code>>,
    kernels: FxHashMap<Symbol, Rc<Callee>>,
    heap: Heap,
    /// Who computes operators, and the number of each.
    operators: Option<&'m mut dyn Operators>,
    numbers: FxHashMap<(Symbol, OpId), usize>,
}

/// A kernel or compute function.
struct Callee {
    code: Decoded,
    /// What it checks.
    checks: Vec<String>,
}

impl<'m> Interpreter<'m> {
    /// The program of `module`, without objects yet.
    pub fn new(module: &'m Module) -> Interpreter<'m> {
        let (functions, kernels) = (FxHashMap::default(), FxHashMap::default());
        let (options, heap) = (Options::default(), Heap::default());
        let (operators, numbers) = (None, FxHashMap::default());
        Interpreter { module, options, functions, kernels, heap, operators, numbers }
    }

    /// The same with operators that `operators` computes.
    pub fn operators(self, operators: &'m mut dyn Operators) -> Self {
        let all = crate::operators::of(self.module).into_iter().enumerate();
        let numbers = all.map(|(number, one)| ((one.function, one.op), number)).collect();
        Interpreter { operators: Some(operators), numbers, ..self }
    }

    /// The same with other bounds.
    pub fn options(self, options: Options) -> Self {
        Interpreter { options, ..self }
    }

    /// A tensor, with one owner.
    pub fn tensor(&mut self, tensor: TensorData) -> Value {
        self.heap.tensor(tensor)
    }

    /// Data of constructor number `tag`, with one owner. It takes one owner of each field.
    pub fn data(&mut self, tag: i64, fields: Vec<Value>) -> Value {
        self.heap.add(Shared::Data(tag, fields))
    }

    /// A cell, with one owner. It takes one owner of each value.
    pub fn cell(&mut self, values: Vec<Value>) -> Value {
        self.heap.add(Shared::Cell(values))
    }

    /// `value`, which stays as it is, as a tensor. Errors where it is none, or is gone.
    pub fn to_tensor(&self, value: &Value) -> Result<TensorData, Error> {
        self.heap.to_tensor(value).map_err(Stop::nowhere)
    }

    /// The constructor that made `value`, which stays as it is, and its fields. Errors where it is no
    /// data, or is gone.
    pub fn to_data(&self, value: &Value) -> Result<(i64, &[Value]), Error> {
        self.heap.data(value).map_err(Stop::nowhere)
    }

    /// What the cell `value` holds, which stays as it is. Errors where it is no cell, or is gone.
    pub fn held(&self, value: &Value) -> Result<&[Value], Error> {
        self.heap.held(value).map_err(Stop::nowhere)
    }

    /// Gives up one owner of `value`. Errors where it has none.
    pub fn drop(&mut self, value: &Value) -> Result<(), Error> {
        self.heap.drop(value).map_err(Stop::nowhere)
    }

    /// Checks that nothing has owners any more. Cells that hold each other in a circle may be left,
    /// since counts never free them.
    pub fn finish(&self) -> Result<(), Error> {
        self.heap.expect_empty().map_err(Stop::nowhere)
    }

    /// Calls a function, which takes one owner of each argument. Each result has an owner.
    ///
    /// # Errors
    /// Where the program fails, uses what nobody owns, or goes beyond its bounds. Then owners are what
    /// they are.
    pub fn call(
        &mut self,
        function: impl Into<Symbol>,
        arguments: Vec<Value>,
    ) -> Result<Vec<Value>, Error> {
        let code = self.function(function.into()).map_err(Stop::nowhere)?;
        if arguments.len() != code.params.len() {
            let (name, expected, found) = (code.name, code.params.len(), arguments.len());
            let message = format!("`@{name}` takes {expected} arguments, and {found} were given");
            return Err(Stop::new(ARGUMENTS, message).nowhere());
        }
        for (argument, ty) in arguments.iter().zip(&code.params) {
            self.heap.expect(argument, *ty).map_err(Stop::nowhere)?;
        }
        let mut machine = Machine { stack: arguments, callers: vec![], code, next: 0, base: 0 };
        machine.stack.resize_with(machine.code.slots, Value::default);
        self.execute(&mut machine).map_err(|stop| machine.located(stop))
    }

    fn function(&mut self, name: Symbol) -> Result<Rc<Code>, Stop> {
        if let Some(code) = self.functions.get(&name) {
            return Ok(code.clone());
        }
        let item = self.module.get(name).filter(|item| item.signature.op == FUNC);
        let missing = || Stop::new(UNKNOWN, format!("there is no function `@{name}`"));
        let code = Rc::new(code::compile(name, item.ok_or_else(missing)?)?);
        self.functions.insert(name, code.clone());
        Ok(code)
    }

    fn kernel(&mut self, name: Symbol) -> Result<Rc<Callee>, Stop> {
        if let Some(kernel) = self.kernels.get(&name) {
            return Ok(kernel.clone());
        }
        let missing = || Stop::new(UNKNOWN, format!("there is no kernel `@{name}` with a body"));
        let item = self.module.get(name).ok_or_else(missing)?;
        let body = item.body.as_deref().ok_or_else(missing)?;
        // What lies beyond counts may be read, and is used for nothing.
        let reads_undefined = !te::compute::counts::bounds(&item.signature).is_empty();
        let options = te::interpreter::Options { reads_undefined, ..Default::default() };
        let code = match item.signature.op.as_str() {
            compute::FUNC => options.decode_compute(body),
            KERNEL => options.decode_kernel(self.module, body, outputs(&item.signature)),
            _ => return Err(missing()),
        };
        let code = code.map_err(|error| stop_of(name, &error))?;
        let kernel = Rc::new(Callee { code, checks: checks(self.module, name) });
        self.kernels.insert(name, kernel.clone());
        Ok(kernel)
    }

    // ---- running ---------------------------------------------------------------------------

    /// Runs to the end of the call; its results.
    fn execute(&mut self, machine: &mut Machine) -> Result<Vec<Value>, Stop> {
        let mut steps = 0u64;
        loop {
            steps += 1;
            if self.options.step_limit.is_some_and(|limit| steps > limit) {
                let message = format!("the run took more than {} steps", steps - 1);
                return Err(Stop::new(STEPS, message));
            }
            let code = machine.code.clone();
            let Some(instruction) = code.instructions.get(machine.next) else {
                return Err(Stop::new(KIND, "a block has no end"));
            };
            match instruction {
                Instruction::Call { function, arguments, .. } => {
                    let callee = self.function(*function)?;
                    let arguments = self.uses(machine, arguments)?;
                    expect_count(&callee, arguments.len())?;
                    let base = machine.stack.len();
                    machine.stack.extend(arguments);
                    machine.stack.resize_with(base + callee.slots, Value::default);
                    machine.grow(self.options.stack_limit)?;
                    let (next, before) = (machine.next, machine.base);
                    machine.callers.push(Caller { code, next, base: before });
                    (machine.code, machine.next, machine.base) = (callee, 0, base);
                    continue;
                }
                Instruction::Tail { function, arguments } => {
                    let callee = self.function(*function)?;
                    let arguments = self.uses(machine, arguments)?;
                    expect_count(&callee, arguments.len())?;
                    machine.stack.truncate(machine.base);
                    machine.stack.extend(arguments);
                    machine.stack.resize_with(machine.base + callee.slots, Value::default);
                    (machine.code, machine.next) = (callee, 0);
                    continue;
                }
                Instruction::Return { values } => {
                    let values = self.uses(machine, values)?;
                    machine.stack.truncate(machine.base);
                    let Some(caller) = machine.callers.pop() else { return Ok(values) };
                    let Caller { code, next, base } = caller;
                    (machine.next, machine.base) = (next, base);
                    if let Some(Instruction::Call { to, .. }) = code.instructions.get(next) {
                        machine.set(to, values)?;
                    }
                    machine.code = code;
                }
                Instruction::Branch { condition, otherwise } => {
                    if !self.heap.to_bool(machine.get(*condition))? {
                        machine.next = *otherwise;
                        continue;
                    }
                }
                Instruction::Switch { data, cases, rest } => {
                    let data = machine.get(*data).clone();
                    let (tag, _) = self.heap.data(&data)?;
                    match (cases.iter().find(|case| case.tag == tag), rest) {
                        (Some(case), _) => {
                            let fields = self.heap.open(&data)?;
                            machine.set(&case.fields, fields)?;
                            machine.next = case.to;
                        }
                        (None, Some(rest)) => {
                            self.heap.drop(&data)?;
                            machine.next = *rest;
                        }
                        (None, None) => {
                            let message = format!("there is no case for constructor {tag}");
                            return Err(Stop::new(KIND, message));
                        }
                    }
                    continue;
                }
                Instruction::Jump { to } => {
                    machine.next = *to;
                    continue;
                }
                Instruction::Fail { message } => {
                    let name = code.name;
                    return Err(Stop::new(FAILED, format!("`@{name}` failed: {message}")));
                }
                other => self.step(machine, other, code.name)?,
            }
            machine.next += 1;
        }
    }

    /// Runs an instruction that does not change where the program goes on.
    fn step(
        &mut self,
        machine: &mut Machine,
        instruction: &Instruction,
        function: Symbol,
    ) -> Result<(), Stop> {
        match instruction {
            Instruction::Constant { value, to } => {
                let value = self.heap.tensor(value.clone());
                machine.put(*to, value);
            }
            Instruction::Give { from, to } => {
                let values = self.uses(machine, from)?;
                machine.set(to, values)?;
            }
            Instruction::Construct { tag, fields, to } => {
                let fields = self.uses(machine, fields)?;
                machine.put(*to, self.heap.add(Shared::Data(*tag, fields)));
            }
            Instruction::Cell { values, to } => {
                let values = self.uses(machine, values)?;
                machine.put(*to, self.heap.add(Shared::Cell(values)));
            }
            Instruction::Read { cell, to } => {
                let values = self.heap.held(machine.get(*cell))?.to_vec();
                for value in &values {
                    self.heap.dup(value)?;
                }
                machine.set(to, values)?;
            }
            Instruction::Write { cell, values } => {
                let values = self.uses(machine, values)?;
                self.heap.write(machine.get(*cell), values)?;
            }
            Instruction::Dup { value } => self.heap.dup(machine.get(*value))?,
            Instruction::Drop { value } => self.heap.drop(machine.get(*value))?,
            Instruction::Kernel { function: kernel, inputs, to } => {
                let results = self.call_kernel(machine, *kernel, inputs, function)?;
                machine.set(to, results)?;
            }
            Instruction::Rows { kernels, inputs, to } => {
                let results = self.compute_rows(machine, kernels, inputs, function)?;
                machine.set(to, results)?;
            }
            Instruction::Bounded { bounded, inputs, to } => {
                let results = self.compute_bounded(machine, bounded, inputs, function)?;
                machine.set(to, results)?;
            }
            Instruction::Extent { tensor, axis, to } => {
                let tensor = self.heap.to_tensor(machine.get(*tensor))?;
                let extent = tensor.shape().get(*axis);
                let extent = *extent.ok_or_else(|| Stop::new(KIND, "a tensor of fewer axes"))?;
                let extent = TensorData::scalar(DType::INT64, Scalar::Int(extent));
                let extent = self.heap.tensor(extent);
                machine.put(*to, extent);
            }
            Instruction::Reshape { tensor, extents, to } => {
                let value = machine.get(*tensor).clone();
                let found = self.heap.to_tensor(&value)?;
                let numbers = extents.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
                let numbers = numbers.collect::<Result<Vec<TensorData>, Stop>>()?;
                let shape: Vec<i64> = numbers.iter().flat_map(TensorData::to_i64).collect();
                let known = shape.iter().all(|extent| *extent >= 0);
                let bytes = known.then(|| tensor_bytes(&shape, found.dtype())).flatten();
                if bytes != Some(found.bytes().len()) {
                    let message = format!("`@{function}` failed: {RESHAPED}");
                    return Err(Stop::new(FAILED, message));
                }
                let made = TensorData::from_bytes(found.dtype(), &shape, found.bytes().to_vec());
                self.heap.drop(&value)?;
                let made = made.map_err(|message| Stop::new(KIND, message.to_string()))?;
                let made = self.heap.tensor(made);
                machine.put(*to, made);
            }
            Instruction::Indices { tensor, to } => {
                let mask = self.heap.to_tensor(machine.get(*tensor))?;
                let mut rows: Vec<i64> = Vec::new();
                let mut count = 0;
                for (at, _) in mask.elements().enumerate().filter(|(_, element)| element.as_bool())
                {
                    let (mut rest, first) = (at as i64, rows.len());
                    rows.extend(mask.shape().iter().rev().map(|extent| {
                        let index = rest % extent;
                        rest /= extent;
                        index
                    }));
                    rows[first..].reverse();
                    count += 1;
                }
                let shape = [count, mask.rank() as i64];
                let rows = TensorData::from_i64(DType::INT32, &shape, &rows);
                let rows = rows.map_err(|message| Stop::new(KIND, message.to_string()))?;
                let rows = self.heap.tensor(rows);
                machine.put(*to, rows);
            }
            Instruction::Order { tensor, wanted, to } => {
                let numbers = self.heap.to_tensor(machine.get(*tensor))?;
                let wanted = self.heap.to_tensor(machine.get(*wanted))?.to_i64();
                let wanted = wanted.first().copied();
                let wanted = wanted.ok_or_else(|| Stop::new(KIND, "no number of elements"))?;
                let found = order::places(&numbers.to_i64(), numbers.shape(), wanted);
                let Some((shape, places)) = found else {
                    let message = format!("`@{function}` failed: {}", order::TOO_LONG);
                    return Err(Stop::new(FAILED, message));
                };
                let places = TensorData::from_i64(DType::INT32, &shape, &places);
                let places = places.map_err(|message| Stop::new(KIND, message.to_string()))?;
                let places = self.heap.tensor(places);
                machine.put(*to, places);
            }
            Instruction::Expect { tensor, expected, to } => {
                let value = machine.get(*tensor).clone();
                let found = self.heap.to_tensor(&value)?;
                let dims = expected.as_tensor().map_or(&[][..], |tensor| &tensor.shape);
                let mut pairs = dims.iter().zip(found.shape());
                if !pairs.all(|(dim, extent)| dim.known().is_none_or(|known| known == *extent)) {
                    let message = format!("`@{function}` failed: expected {expected}");
                    return Err(Stop::new(FAILED, message));
                }
                machine.put(*to, value);
            }
            Instruction::Sized { sized, inputs, to } => {
                let results = self.compute_sized(machine, sized, inputs, function)?;
                machine.set(to, results)?;
            }
            Instruction::Operate { inputs, to } => {
                let results = self.operate(machine, inputs, function)?;
                machine.set(to, results)?;
            }
            Instruction::Open { tensor, to } => {
                let tensor = machine.get(*tensor).clone();
                self.heap.check(&tensor)?;
                machine.put(*to, tensor);
            }
            Instruction::Call { .. }
            | Instruction::Tail { .. }
            | Instruction::Branch { .. }
            | Instruction::Switch { .. }
            | Instruction::Jump { .. }
            | Instruction::Fail { .. }
            | Instruction::Return { .. } => {}
        }
        Ok(())
    }

    /// Calls `kernel` in `function`.
    fn call_kernel(
        &mut self,
        machine: &Machine,
        kernel: Symbol,
        inputs: &Slots,
        function: Symbol,
    ) -> Result<Vec<Value>, Stop> {
        let inputs = inputs.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
        let inputs = inputs.collect::<Result<Vec<TensorData>, Stop>>()?;
        let results = self.run_kernel(kernel, &inputs, function)?;
        Ok(results.into_iter().map(|result| self.heap.tensor(result)).collect())
    }

    /// What `kernel`, which `function` calls, computes of `inputs`.
    fn run_kernel(
        &mut self,
        kernel: Symbol,
        inputs: &[TensorData],
        function: Symbol,
    ) -> Result<Vec<TensorData>, Stop> {
        let callee = self.kernel(kernel)?;
        let results = callee.code.run(inputs);
        checked(results.map_err(|error| stop_of(function, &error))?, &callee.checks, function)
    }

    /// Computes the operator that comes next in `function`.
    fn operate(
        &mut self,
        machine: &Machine,
        inputs: &Slots,
        function: Symbol,
    ) -> Result<Vec<Value>, Stop> {
        let inputs = inputs.iter().map(|slot| self.heap.to_tensor(machine.get(*slot)));
        let inputs = inputs.collect::<Result<Vec<TensorData>, Stop>>()?;
        let failed = |what: &str| Stop::new(FAILED, format!("`@{function}` failed: {what}"));
        let op = machine.code.ops.get(machine.next);
        let number = op.and_then(|op| self.numbers.get(&(function, *op)));
        let number = *number.ok_or_else(|| failed("nobody computes an operator"))?;
        let results = self.operators.as_mut().and_then(|all| all.compute(number, inputs));
        let results = results.ok_or_else(|| failed("an operator has no value on its operands"))?;
        Ok(results.into_iter().map(|result| self.heap.tensor(result)).collect())
    }

    /// The values of slots, which must have owners.
    fn uses(&self, machine: &Machine, slots: &Slots) -> Result<Vec<Value>, Stop> {
        let value = |slot: &Slot| {
            let value = machine.get(*slot);
            self.heap.check(value).map(|()| value.clone())
        };
        slots.iter().map(value).collect()
    }
}

/// The results of a kernel that `function` calls, without the numbers of its `checks`; an error where one
/// failed.
fn checked(
    mut results: Vec<TensorData>,
    checks: &[String],
    function: Symbol,
) -> Result<Vec<TensorData>, Stop> {
    if !checks.is_empty() {
        let numbers = results.pop().expect("a kernel with checks gives their numbers").to_i64();
        let failed = numbers.iter().zip(checks).position(|(number, _)| *number != 0);
        if let Some(check) = failed {
            let message = format!("`@{function}` failed: {}", checks[check]);
            return Err(Stop { check, ..Stop::new(FAILED, message) });
        }
    }
    Ok(results)
}

/// An error of a kernel that `function` calls.
fn stop_of(function: Symbol, error: &te::interpreter::Error) -> Stop {
    match error.code {
        // Numbers that an operation has no value for, and checks.
        "E0852" | "E0858" => Stop::new(FAILED, format!("`@{function}` failed: {}", error.message)),
        code => Stop::new(code, error.to_string()),
    }
}

fn expect_count(callee: &Code, found: usize) -> Result<(), Stop> {
    let expected = callee.params.len();
    if expected == found {
        return Ok(());
    }
    let name = callee.name;
    let message = format!("`@{name}` takes {expected} arguments, and {found} were given");
    Err(Stop::new(ARGUMENTS, message))
}

/// A call that waits for another one.
struct Caller {
    code: Rc<Code>,
    /// The instruction of the other one.
    next: usize,
    base: usize,
}

/// A run: the function that runs, and those that wait.
struct Machine {
    /// The slots of all calls.
    stack: Vec<Value>,
    callers: Vec<Caller>,
    code: Rc<Code>,
    /// The instruction that comes next.
    next: usize,
    /// The first slot of the function.
    base: usize,
}

impl Machine {
    fn get(&self, slot: Slot) -> &Value {
        &self.stack[self.base + slot as usize]
    }

    fn put(&mut self, slot: Slot, value: Value) {
        self.stack[self.base + slot as usize] = value;
    }

    /// Sets slots to as many values.
    fn set(&mut self, slots: &Slots, values: Vec<Value>) -> Result<(), Stop> {
        if slots.len() != values.len() {
            let (expected, found) = (slots.len(), values.len());
            let message = format!("expected {expected} values, found {found}");
            return Err(Stop::new(KIND, message));
        }
        slots.iter().zip(values).for_each(|(slot, value)| self.put(*slot, value));
        Ok(())
    }

    /// Checks that pending calls take no more than `limit` bytes.
    fn grow(&self, limit: usize) -> Result<(), Stop> {
        let calls = self.callers.len() + 1;
        let bytes = calls * size_of::<Caller>() + self.stack.len() * size_of::<Value>();
        match bytes <= limit {
            true => Ok(()),
            false => Err(Stop::new(STACK, format!("{calls} pending calls take too much memory"))),
        }
    }

    /// `stop` at the instruction that comes next.
    fn located(&self, stop: Stop) -> Error {
        let Stop { code, message, check } = stop;
        let Code { name, ops, body, span, .. } = &*self.code;
        let op = ops.get(self.next).copied();
        let place = op.map(|op| (*name, op));
        let span = op.and_then(|op| body.loc(op).span(*span)).or(*span);
        Error { code, message, place, check, span }
    }
}
