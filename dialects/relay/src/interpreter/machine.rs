//! Running programs.
//!
//! **Invariant:** the machine calls no Rust function once per call of the program: frames live in
//! a vector, so native stack use is constant, and a tail call reuses its frame.

use std::sync::{Arc, OnceLock};

use ir_core::diagnostics::did_you_mean_with;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, Loc, LocData, Module, OpId, Registry, Signatures,
    SmallVec, Span, Symbol, Type, TypeData, ValueId,
};
use rustc_hash::FxHashMap;

use super::code::{CallSite, Instruction, Operand, Target, Unit, compile_body, compile_op};
use super::extents::check_extents;
use super::operation::Operation;
use super::value::{Closure, Fields, Reference, Value};
use crate::inference::{DataTypes, data_types};
use crate::language::{FUNC, Pattern};

/// Bounds on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The most instructions a run may take; `None` for no bound.
    pub step_limit: Option<u64>,
    /// The most bytes that the frames of pending calls may take, not counting what their values
    /// point to.
    pub stack_limit: usize,
}

impl Default for Options {
    /// No bound on steps, 2 GiB of frames.
    fn default() -> Options {
        Options { step_limit: None, stack_limit: 2 << 30 }
    }
}

struct FunctionItem {
    body: Option<Arc<Body>>,
    span: Option<Span>,
    unit: OnceLock<Arc<Unit>>,
}

/// The reference interpreter: the whole language, strict, in program order, deterministic.
///
/// It holds snapshots of the module's bodies, compiled when first called, so one interpreter may
/// serve many calls and outlive edits of the module.
pub struct Interpreter<'r> {
    registry: &'r Registry,
    options: Options,
    functions: FxHashMap<Symbol, FunctionItem>,
    types: Arc<DataTypes>,
}

/// Why a run stops, before its place is known.
pub(super) struct Failure {
    code: &'static str,
    message: String,
    notes: Vec<String>,
    help: Option<String>,
}

impl Failure {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Box<Failure> {
        Box::new(Failure { code, message: message.into(), notes: vec![], help: None })
    }

    pub(super) fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Failure> {
        self.notes.push(note.into());
        self
    }

    pub(super) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Failure> {
        self.help = Some(help.into());
        self
    }

    pub(super) fn at(self, span: Option<Span>) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message).at(span);
        diagnostic.notes = self.notes;
        diagnostic.help = self.help;
        diagnostic
    }
}

pub(super) type Outcome<T> = Result<T, Box<Failure>>;

impl<'r> Interpreter<'r> {
    /// An interpreter of the functions of `module`.
    pub fn new(module: &Module, registry: &'r Registry) -> Interpreter<'r> {
        let mut interpreter = Interpreter::with_signatures(&module.signatures(), registry);
        for (name, item) in &module.items {
            if item.signature.op == FUNC {
                let body = item.body.clone();
                let span = item.signature.span;
                let function = FunctionItem { body, span, unit: OnceLock::new() };
                interpreter.functions.insert(*name, function);
            }
        }
        interpreter
    }

    /// An interpreter that knows data types but no functions: for
    /// [`evaluate_op`](Interpreter::evaluate_op) where only signatures are at hand.
    pub fn with_signatures(signatures: &Signatures, registry: &'r Registry) -> Interpreter<'r> {
        // Once for all interpreters with these signatures: passes make one for each function.
        let (functions, types) = (FxHashMap::default(), data_types(signatures));
        Interpreter { registry, options: Options::default(), functions, types }
    }

    /// The same with other bounds.
    pub fn options(self, options: Options) -> Self {
        Interpreter { options, ..self }
    }

    /// Calls function `function` of the module.
    pub fn call(
        &self,
        function: impl Into<Symbol>,
        args: Vec<Value>,
    ) -> Result<Value, Diagnostics> {
        self.apply(&Value::Global(function.into()), args)
    }

    /// Calls a function value.
    pub fn apply(&self, callee: &Value, args: Vec<Value>) -> Result<Value, Diagnostics> {
        let mut machine = Machine::new(self);
        let mut current = Frame::outside();
        let args = args.into_iter().collect();
        let entered =
            machine.enter(&mut current, callee.clone(), args, None, AttrDict::empty(), None);
        match entered {
            Ok(Next::Done(value)) => Ok(value),
            Ok(_) => machine.run(current),
            Err(failure) => {
                let item = match callee {
                    Value::Global(name) => self.functions.get(name),
                    _ => None,
                };
                Err(failure.at(item.and_then(|item| item.span)).into())
            }
        }
    }

    /// Evaluates one operation of a body, its regions included. `environment` gives the values it
    /// takes from outside; `base` is where the item starts in its source.
    pub fn evaluate_op(
        &self,
        body: &Body,
        op: OpId,
        base: Option<Span>,
        environment: &dyn Fn(ValueId) -> Option<Value>,
    ) -> Result<Value, Diagnostics> {
        let unit = Arc::new(compile_op(base, body, op, self.registry));
        let mut machine = Machine::new(self);
        for &value in &unit.free {
            match environment(value) {
                Some(value) => machine.stack.push(value),
                None => {
                    let name = body.op_name(op);
                    let message = format!("`{name}` takes a value that is not known here");
                    return Err(Failure::new("E0504", message).at(body.loc(op).span(base)).into());
                }
            }
        }
        machine.stack.resize(unit.functions[0].slots, Value::unit());
        machine.run(Frame { unit, function: 0, next: 0, base: 0, to: None })
    }

    /// Applies operator `name` (with its dialect's prefix) to `operands`. `result` is the type of
    /// the result where it is known, for operators whose meaning depends on it.
    pub fn evaluate_operator(
        &self,
        name: impl Into<Symbol>,
        operands: &[Value],
        attrs: AttrDict,
        result: Type,
    ) -> Result<Value, Diagnostics> {
        let name = name.into();
        Operation::new(self.registry, name, attrs, result)
            .evaluate(self.registry, operands)
            .map_err(|failure| failure.at(None))
            .map_err(Diagnostics::from)
    }

    fn unit(&self, name: Symbol) -> Outcome<Arc<Unit>> {
        let Some(item) = self.functions.get(&name) else {
            let mut known: Vec<&str> = self.functions.keys().map(|name| name.as_str()).collect();
            known.sort_unstable();
            let failure = Failure::new("E0508", format!("there is no function `@{name}`"));
            return Err(match did_you_mean_with("@", name.as_str(), known) {
                Some(help) => failure.help(help),
                None => failure,
            });
        };
        let Some(body) = &item.body else {
            let message = format!("function `@{name}` has no body to interpret");
            return Err(Failure::new("E0508", message));
        };
        let compile = || Arc::new(compile_body(name, item.span, body, self.registry));
        Ok(item.unit.get_or_init(compile).clone())
    }

    fn construct(&self, constructor: Symbol, fields: Fields) -> Outcome<Value> {
        let Some((_, adt, tag)) = self.types.constructor(constructor) else {
            let message = format!("there is no constructor `{constructor}`");
            return Err(Failure::new("E0508", message));
        };
        let declared = &adt.decl.constructors[tag];
        let (expected, found) = (declared.fields.len(), fields.len());
        if found != expected {
            let message =
                format!("`{constructor}` takes {expected} fields, and {found} were given");
            return Err(Failure::new("E0509", message));
        }
        Ok(Value::data(declared.shown(), tag as u32, fields.iter().cloned()))
    }
}

/// Whether `value` can have type `ty`: element types, ranks and known extents of tensors, and the
/// fields of tuples. Other types are taken on trust. The error says what was expected and found.
pub fn check_type(value: &Value, ty: Type) -> Result<(), String> {
    let mut pending: SmallVec<[(&Value, Type); 4]> = SmallVec::new();
    pending.push((value, ty));
    while let Some((value, ty)) = pending.pop() {
        let fits = match (ty.data(), value) {
            (TypeData::Tensor(expected), Value::Tensor(found)) => {
                expected.dtype == found.dtype()
                    && expected.rank() == found.rank()
                    && expected.shape.iter().zip(found.shape()).all(|(expected, found)| {
                        expected.known().is_none_or(|expected| expected == *found)
                    })
            }
            (TypeData::Tuple(expected), Value::Tuple(found)) => {
                pending.extend(found.iter().zip(expected.iter().copied()));
                expected.len() == found.len()
            }
            (TypeData::Tensor(_) | TypeData::Tuple(_), _) => false,
            (TypeData::Ref(_), found) => matches!(found, Value::Reference(_)),
            _ => true,
        };
        if !fits {
            return Err(format!("expected {ty}, found {}", value.describe()));
        }
    }
    Ok(())
}

/// A pending or running call.
struct Frame {
    unit: Arc<Unit>,
    function: usize,
    /// The instruction to run next.
    next: usize,
    /// Where its slots start in the stack.
    base: usize,
    /// The caller's slot for the value.
    to: Target,
}

impl Frame {
    /// The caller of the first call: it has nothing to go on with.
    fn outside() -> Frame {
        let (constants, functions, free) = (vec![], vec![], vec![]);
        let unit = Unit { name: None, span: None, constants, functions, free };
        Frame { unit: Arc::new(unit), function: 0, next: 0, base: 0, to: None }
    }

    fn is_outside(&self) -> bool {
        self.unit.functions.is_empty()
    }

    /// The place of the instruction that runs.
    fn loc(&self) -> Option<Loc> {
        let function = self.unit.functions.get(self.function)?;
        function.locs.get(self.next.checked_sub(1)?).copied()
    }

    fn span(&self) -> Option<Span> {
        self.loc().unwrap_or(Loc::UNKNOWN).span(self.unit.span)
    }
}

/// What the machine does after an instruction.
enum Next {
    /// The next instruction of the same function.
    Go,
    /// An instruction of another function, or the same from its start.
    Switch,
    /// Nothing: this is the value of the run.
    Done(Value),
}

type Values = SmallVec<[Value; 4]>;

struct Machine<'a, 'r> {
    interpreter: &'a Interpreter<'r>,
    /// The slots of all frames.
    stack: Vec<Value>,
    /// The pending callers, outermost first.
    callers: Vec<Frame>,
    steps: u64,
}

impl<'a, 'r> Machine<'a, 'r> {
    fn new(interpreter: &'a Interpreter<'r>) -> Self {
        Machine { interpreter, stack: Vec::new(), callers: Vec::new(), steps: 0 }
    }

    fn run(&mut self, mut current: Frame) -> Result<Value, Diagnostics> {
        loop {
            let unit = current.unit.clone();
            let code = &unit.functions[current.function].code;
            loop {
                let Some(instruction) = code.get(current.next) else {
                    unreachable!("every path of a function ends with a return or a failure");
                };
                current.next += 1;
                match self.step(&mut current, &unit, instruction) {
                    Ok(Next::Go) => {}
                    Ok(Next::Switch) => break,
                    Ok(Next::Done(value)) => return Ok(value),
                    Err(failure) => return Err(self.locate(&current, *failure).into()),
                }
            }
        }
    }

    /// The most calls that a diagnostic names.
    const SHOWN_CALLS: usize = 5;

    fn locate(&self, current: &Frame, failure: Failure) -> Diagnostic {
        let mut diagnostic = failure.at(current.span());
        for caller in self.callers.iter().rev().take(Self::SHOWN_CALLS) {
            diagnostic = diagnostic.related(caller.span(), "called from here");
        }
        if let Some(LocData::Imported(node)) = current.loc().map(Loc::data) {
            diagnostic = diagnostic.note(format!("made of the node `{node}`"));
        }
        if let Some(name) = current.unit.name {
            diagnostic = diagnostic.note(format!("while running `@{name}`"));
        }
        match self.callers.len().saturating_sub(Self::SHOWN_CALLS) {
            0 => diagnostic,
            more => diagnostic.note(format!("and {more} more pending calls")),
        }
    }

    fn read(&mut self, current: &Frame, operand: Operand) -> Value {
        match operand {
            Operand::Slot(slot) => self.stack[current.base + slot as usize].clone(),
            Operand::Last(slot) => {
                std::mem::replace(&mut self.stack[current.base + slot as usize], Value::unit())
            }
            Operand::Constant(index) => current.unit.constants[index as usize].clone(),
        }
    }

    fn read_all(&mut self, current: &Frame, operands: &[Operand]) -> Values {
        operands.iter().map(|operand| self.read(current, *operand)).collect()
    }

    fn write(&mut self, current: &Frame, to: Target, value: Value) {
        if let Some(slot) = to {
            self.stack[current.base + slot as usize] = value;
        }
    }

    fn step(
        &mut self,
        current: &mut Frame,
        unit: &Arc<Unit>,
        instruction: &Instruction,
    ) -> Outcome<Next> {
        self.steps += 1;
        if let Some(limit) = self.interpreter.options.step_limit.filter(|max| self.steps > *max) {
            let failure = Failure::new("E0506", format!("the run takes more than {limit} steps"));
            return Err(failure.help("raise the step limit, or check that the recursion ends"));
        }
        match instruction {
            Instruction::Evaluate { operation, operands, to } => {
                let operands = self.read_all(current, operands);
                let value = operation.evaluate(self.interpreter.registry, &operands)?;
                self.write(current, *to, value);
            }
            Instruction::Tuple { fields, to } => {
                let value = Value::tuple(self.read_all(current, fields));
                self.write(current, *to, value);
            }
            Instruction::TupleGet { tuple, index, to } => {
                let tuple = self.read(current, *tuple);
                let Some(fields) = tuple.as_tuple() else {
                    return Err(expected("a tuple", &tuple));
                };
                let field = usize::try_from(*index).ok().and_then(|index| fields.get(index));
                let Some(field) = field.cloned() else {
                    let message = format!("there is no field {index} in {}", tuple.describe());
                    return Err(Failure::new("E0504", message));
                };
                self.write(current, *to, field);
            }
            Instruction::Construct { constructor, fields, to } => {
                let fields = self.read_all(current, fields).into_iter().collect();
                let value = self.interpreter.construct(*constructor, fields)?;
                self.write(current, *to, value);
            }
            Instruction::Closure { function, captured, to } => {
                let captured = self.read_all(current, captured).into_iter().collect();
                let closure = Closure { unit: unit.clone(), function: *function, captured };
                self.write(current, *to, Value::Closure(Arc::new(closure)));
            }
            Instruction::Call { call, to } => return self.call(current, call, Some(*to)),
            Instruction::TailCall { call } => return self.call(current, call, None),
            Instruction::RefCreate { value, to } => {
                let value = self.read(current, *value);
                self.write(current, *to, Value::Reference(Reference::new(value)));
            }
            Instruction::RefRead { reference, to } => {
                let value = match self.read(current, *reference) {
                    Value::Reference(reference) => reference.read(),
                    other => return Err(expected("a reference", &other)),
                };
                self.write(current, *to, value);
            }
            Instruction::RefWrite { reference, value, to } => {
                let reference = self.read(current, *reference);
                let value = self.read(current, *value);
                match reference {
                    Value::Reference(reference) => reference.write(value),
                    other => return Err(expected("a reference", &other)),
                }
                self.write(current, *to, Value::unit());
            }
            Instruction::Branch { condition, otherwise } => {
                let condition = self.read(current, *condition);
                let tensor = condition.as_tensor();
                match tensor.filter(|t| t.len() == 1).and_then(|t| t.element(0)) {
                    Some(element) if element.as_bool() => {}
                    Some(_) => current.next = *otherwise,
                    None => return Err(expected("a scalar `bool`", &condition)),
                }
            }
            Instruction::Match { data, clauses } => {
                let value = self.read(current, *data);
                let mut bound = Values::new();
                let types = &*self.interpreter.types;
                let clause =
                    clauses.iter().find(|clause| fits(&clause.pattern, &value, types, &mut bound));
                let Some(clause) = clause else {
                    let failure = Failure::new("E0501", "no clause of the `match` fits the value");
                    return Err(failure
                        .note(format!("the value is {value}"))
                        .help("add a clause for it, or a last clause `_ => …`"));
                };
                for (slot, value) in clause.slots.iter().zip(bound) {
                    self.write(current, *slot, value);
                }
                current.next = clause.target;
            }
            Instruction::Move { value, to } => {
                let value = self.read(current, *value);
                self.write(current, *to, value);
            }
            Instruction::Release { slots } => {
                for &slot in slots {
                    self.stack[current.base + slot as usize] = Value::unit();
                }
            }
            Instruction::Jump { to } => current.next = *to,
            Instruction::Return { value } => {
                let value = self.read(current, *value);
                return Ok(self.leave(current, value));
            }
            Instruction::Fail { message } => return Err(Failure::new("E0504", message)),
        }
        Ok(Next::Go)
    }

    /// Calls; `to` is `None` for a tail call.
    fn call(&mut self, current: &mut Frame, call: &CallSite, to: Option<Target>) -> Outcome<Next> {
        let callee = self.read(current, call.callee);
        let args = self.read_all(current, &call.args);
        self.enter(current, callee, args, to, call.attributes, Some(call.result))
    }

    /// Goes on in `callee`, which for operators and constructors means to go on after it.
    fn enter(
        &mut self,
        current: &mut Frame,
        callee: Value,
        args: Values,
        to: Option<Target>,
        attributes: AttrDict,
        result: Option<Type>,
    ) -> Outcome<Next> {
        let (unit, index, captured) = match &callee {
            Value::Closure(closure) => (closure.unit.clone(), closure.function, &*closure.captured),
            Value::Global(name) => (self.interpreter.unit(*name)?, 0, &[] as &[Value]),
            Value::Operator(name) => {
                let value = self.operator(*name, &args, attributes, result)?;
                return Ok(self.deliver(current, value, to));
            }
            Value::Constructor(name) => {
                let value = self.interpreter.construct(*name, args.into_iter().collect())?;
                return Ok(self.deliver(current, value, to));
            }
            other => return Err(expected("a function", other)),
        };
        let function = &unit.functions[index];
        if function.params.len() != args.len() {
            let (expected, found) = (function.params.len(), args.len());
            let message = format!("{callee} takes {expected} arguments, and {found} were given");
            return Err(Failure::new("E0509", message));
        }
        for (position, (arg, ty)) in args.iter().zip(&function.params).enumerate() {
            check_type(arg, *ty).map_err(|message| {
                let message = format!("argument {position} of {callee}: {message}");
                Failure::new("E0505", message)
            })?;
        }
        if function.symbolic {
            check_extents(&function.params, &args)
                .map_err(|message| Failure::new("E0505", format!("call of {callee}: {message}")))?;
        }
        let values = self.stack.len() + function.slots;
        let bytes = values * size_of::<Value>() + self.callers.len() * size_of::<Frame>();
        if bytes > self.interpreter.options.stack_limit {
            let calls = self.callers.len();
            let limit = self.interpreter.options.stack_limit;
            let message = format!("{calls} pending calls take more than {limit} bytes");
            let failure = Failure::new("E0507", message);
            return Err(failure.help("check that the recursion ends, or make it a tail call"));
        }
        // A tail call leaves its caller behind.
        let tail = to.is_none();
        if tail {
            self.stack.truncate(current.base);
        }
        let to = to.unwrap_or(current.to);
        let base = self.stack.len();
        self.stack.extend(args);
        if function.recursive {
            self.stack.push(callee.clone());
        }
        self.stack.extend_from_slice(captured);
        self.stack.resize(base + function.slots, Value::unit());
        let frame = Frame { unit, function: index, next: 0, base, to };
        let caller = std::mem::replace(current, frame);
        if !tail {
            self.callers.push(caller);
        }
        Ok(Next::Switch)
    }

    fn operator(
        &self,
        name: Symbol,
        args: &[Value],
        attributes: AttrDict,
        result: Option<Type>,
    ) -> Outcome<Value> {
        let mut attrs = attributes;
        if let Some(def) = self.interpreter.registry.def(name) {
            attrs = def
                .normalize_attrs(attributes)
                .map_err(|errors| Failure::new("E0502", errors.join("; ")))?;
        }
        let result = result.unwrap_or_else(Type::unknown);
        let registry = self.interpreter.registry;
        Operation::new(registry, name, attrs, result).evaluate(registry, args)
    }

    /// Gives `value` to the running function, or where `to` is `None`, to its caller.
    fn deliver(&mut self, current: &mut Frame, value: Value, to: Option<Target>) -> Next {
        match to {
            _ if current.is_outside() => Next::Done(value),
            None => self.leave(current, value),
            Some(to) => {
                self.write(current, to, value);
                Next::Go
            }
        }
    }

    /// Ends the running call with `value`.
    fn leave(&mut self, current: &mut Frame, value: Value) -> Next {
        self.stack.truncate(current.base);
        let to = current.to;
        match self.callers.pop() {
            None => Next::Done(value),
            Some(caller) => {
                *current = caller;
                self.write(current, to, value);
                Next::Switch
            }
        }
    }
}

fn expected(what: &str, found: &Value) -> Box<Failure> {
    Failure::new("E0504", format!("expected {what}, found {}", found.describe()))
}

/// Whether `value` fits `pattern`; then `bound` holds the values of its variables from left to
/// right. Constructors are told by their tags: a copy of a data type has others of these names.
fn fits(pattern: &Pattern, value: &Value, types: &DataTypes, bound: &mut Values) -> bool {
    bound.clear();
    let mut pending: SmallVec<[(&Pattern, &Value); 8]> = SmallVec::new();
    pending.push((pattern, value));
    while let Some((pattern, value)) = pending.pop() {
        let (patterns, values) = match (pattern, value) {
            (Pattern::Wildcard, _) => continue,
            (Pattern::Variable, value) => {
                bound.push(value.clone());
                continue;
            }
            (Pattern::Tuple(patterns), Value::Tuple(fields)) => (patterns, fields),
            (Pattern::Constructor(name, patterns), Value::Data(data))
                if types.constructor(*name).is_some_and(|(_, _, tag)| tag == data.tag as usize) =>
            {
                (patterns, &data.fields)
            }
            _ => return false,
        };
        if patterns.len() != values.len() {
            return false;
        }
        pending.extend(patterns.iter().zip(values.iter()).rev());
    }
    true
}
