//! The subcommand `run`: runs a function of a model on arrays from files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;

use indexmap::IndexMap;
use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::{
    Diagnostic, Item, Module, Registry, Scalar, Span, Symbol, TensorData, Type, TypeData,
};
use passes::codes::OPEN;
use relay::arrays::{self, Arrays};
use relay::interpreter::{Interpreter, Options, Value, check_type, random_value, spreads};
use relay::language::{FUNC, output_names};
use runtime::profile::Profile;
use runtime::{BuildOptions, MAIN, Program, memory};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::args::{DiagnosticForm, Executor, ModelOptions, RunModel};
use super::language::{self, Form, infer, verify};
use super::report::Reporter;
use super::targets::target;
use super::{DIAGNOSTICS, OK, input, model, profile};
use target_core::checks::FAILED;

use crate::io::Io;
use crate::progress::Bar;

/// Elements of each result that are printed.
const SHOWN: usize = 6;

/// Kernels are measured for so long, and at least three times.
const PROFILE_SECONDS: f64 = 0.5;

/// The code of what a target says that finds no compiler.
const NO_COMPILER: &str = "E0903";

/// The code of programs that need more memory than there is.
const NO_MEMORY: &str = "E0735";

/// Prefixes of array names that are ignored where no parameter has the whole name.
pub(super) const PREFIXES: [&str; 2] = ["in_", "param_"];

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn run_model(args: &RunModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, args.max_errors);
    let mut found = Vec::new();
    let mut profile = None;
    let outputs = run(args, registry, &mut reporter, &mut found, &mut profile, io);
    let failed = found.iter().any(Diagnostic::is_error);
    reporter.report(found, io)?;
    reporter.finish(io)?;
    match outputs {
        Some(outputs) if !failed => {
            write_table(&outputs, io.stdout)?;
            if let Some(profile) = profile {
                profile::write_table(&profile, None, reporter.source_map(), io.stderr)?;
            }
            Ok(OK)
        }
        _ => Ok(DIAGNOSTICS),
    }
}

/// The results by name; `None` where an error is among `found`.
fn run(
    args: &RunModel,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Vec<Diagnostic>,
    profile: &mut Option<Profile>,
    io: &mut Io<'_>,
) -> Option<Vec<(String, Value)>> {
    let module = load(&args.model, &args.options, registry, reporter, found, io)?;
    let name = args.function.trim_start_matches('@');
    let item = find_function(&module, name).map_err(|error| found.push(error)).ok()?;
    let wanted = Parameters::of(name, item);
    let mut arrays = Arrays::default();
    // Of two arrays of one name, that of `--inputs` counts.
    let mut constants = FxHashSet::default();
    for (path, constant) in [(&args.params, true), (&args.inputs, false)] {
        let Some(path) = path else { continue };
        match read_arrays(&io.directory.join(path), &wanted, found) {
            Ok(loaded) => {
                for name in loaded.keys() {
                    match constant {
                        true => constants.insert(name.clone()),
                        false => constants.remove(name),
                    };
                }
                arrays.extend(loaded);
            }
            Err(errors) => found.extend(errors),
        }
    }
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if failed(found) {
        return None;
    }
    fits(name, &module).map_err(|error| found.push(error)).ok()?;
    let arguments = arguments(name, (&module, registry), (&arrays, &constants), args.fill, found);
    let arguments = arguments.map_err(|error| found.push(error)).ok()?;
    let is_terminal = io.styled;
    let (module, directory) = (&module, io.directory.as_path());
    let runner = Runner { args, name, module, registry, directory, arguments, is_terminal };
    let ran = runner.run(args.executor, found).map_err(|errors| found.extend(errors)).ok()?;
    let value = ran.value;
    *profile = ran.profile;
    if args.profile && profile.is_none() {
        let message = "there is no profile: the interpreter has no kernels";
        found.push(Diagnostic::warning("E0733", message));
    }
    if let Some(other) = args.compare {
        let other = runner.run(other, found).map_err(|errors| found.extend(errors)).ok()?;
        let (first, second) = (ran.executor, other.executor);
        found.push(match compare(&value, &other.value) {
            Ok(compared) => {
                let message = format!("`{first}` and `{second}` agree: {compared}");
                Diagnostic::remark("E0734", message)
            }
            Err(difference) => Diagnostic::error("E0734", difference)
                .note(format!("the first is of `{first}`, the other one of `{second}`")),
        });
    }
    let mut outputs = flatten(value);
    if let Some(item) = module.get(name) {
        let names = output_names(&item.signature, outputs.len());
        outputs.iter_mut().zip(names).for_each(|((output, _), name)| *output = name);
    }
    if let Some(path) = &args.output {
        let mut arrays = Arrays::default();
        for (name, value) in &outputs {
            match value {
                Value::Tensor(tensor) => {
                    arrays.insert(name.clone(), tensor.clone());
                }
                other => {
                    let message = format!("{name} is no array: found {}", other.describe());
                    found.push(Diagnostic::error("E0730", message));
                }
            }
        }
        if !failed(found)
            && let Err(error) = arrays::save(&io.directory.join(path), &arrays)
        {
            found.push(error);
        }
    }
    Some(outputs)
}

/// The model at `path`, its types inferred, verified; `None` where an error is among `found`.
pub(super) fn load(
    path: &str,
    options: &ModelOptions,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Vec<Diagnostic>,
    io: &mut Io<'_>,
) -> Option<Module> {
    let (form, mut module, diagnostics);
    if model::is_onnx(path) {
        form = Form::Relay;
        (module, diagnostics) = model::read(path, options, registry, &io.directory);
    } else {
        let input = input::read(path, io).map_err(|error| found.push(error)).ok()?;
        reporter.source(&input.file, &input.text);
        form = Form::of(&input.text);
        (module, diagnostics) = language::parse(form, &input.file, &input.text, registry);
    }
    reporter.sources(&module.sources);
    found.extend(diagnostics);
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if !failed(found) && form == Form::Relay {
        found.extend(infer(&mut module, registry));
    }
    if !failed(found) {
        found.extend(verify(&module, registry));
    }
    (!failed(found)).then_some(module)
}

/// An error where the parameters and the result of a function do not fit into memory.
pub(super) fn fits(name: &str, module: &Module) -> Result<(), Diagnostic> {
    let function = module.get(name).and_then(|item| item.signature.ty.as_function());
    let Some(function) = function else { return Ok(()) };
    let types = function.params.iter().copied().chain([function.result]);
    memory::check(memory::bytes_of(Type::tuple(types)), "the parameters and results")
}

/// Runs a function.
struct Runner<'a> {
    args: &'a RunModel,
    name: &'a str,
    module: &'a Module,
    registry: &'a Registry,
    /// Where relative paths start.
    directory: &'a Path,
    arguments: Vec<Argument>,
    is_terminal: bool,
}

/// What came of a run.
struct Ran {
    value: Value,
    /// What ran it, as `--executor` names it.
    executor: &'static str,
    profile: Option<Profile>,
}

impl Runner<'_> {
    fn run(&self, executor: Executor, found: &mut Vec<Diagnostic>) -> Result<Ran, Vec<Diagnostic>> {
        match executor {
            Executor::Interp => self.interpret(),
            Executor::Graph => self.compiled(false, found),
            Executor::Loops => self.compiled(true, found),
            Executor::Auto if self.args.step_limit.is_some() => self.interpret(),
            Executor::Auto => self.first_that_can(found),
        }
    }

    fn first_that_can(&self, found: &mut Vec<Diagnostic>) -> Result<Ran, Vec<Diagnostic>> {
        let mut errors = match self.compiled(false, found) {
            Ok(ran) => return Ok(ran),
            Err(errors) => errors,
        };
        let has = |errors: &[Diagnostic], code: &str| errors.iter().any(|e| e.code == code);
        let remark = |message: &str, errors: Vec<Diagnostic>| {
            let mut remark = Diagnostic::remark("E0733", message);
            let open = errors.iter().find(|error| error.code == OPEN);
            remark.help = open.and_then(|error| error.help.clone());
            remark.notes = errors.into_iter().map(|error| error.message).collect();
            remark
        };
        if has(&errors, NO_COMPILER) {
            match self.compiled(true, found) {
                Ok(ran) => {
                    found.push(remark("the loops of the kernels are interpreted", errors));
                    return Ok(ran);
                }
                Err(more) => errors = more,
            }
        }
        if has(&errors, NO_MEMORY) || has(&errors, FAILED) {
            return Err(errors);
        }
        found.push(remark("the program runs in the interpreter", errors));
        self.interpret()
    }

    /// Runs the reference interpreter.
    fn interpret(&self) -> Result<Ran, Vec<Diagnostic>> {
        if let Some(body) = self.module.body(Symbol::new(self.name)) {
            // What branches and inner functions compute may never be.
            let results = body.block_ops(body.entry()).flat_map(|op| body.results(op));
            for value in results {
                memory::check(memory::bytes_of(body.ty(value)), "values of the program")
                    .map_err(|error| vec![error])?;
            }
        }
        let options = Options { step_limit: self.args.step_limit, ..Options::default() };
        let values = self.arguments.iter().map(|argument| argument.value.clone()).collect();
        let interpreter = Interpreter::new(self.module, self.registry).options(options);
        let value = interpreter.call(self.name, values).map_err(|error| vec![error])?;
        Ok(Ran { value, executor: "interp", profile: None })
    }

    /// Compiles the function and runs it, or interprets its loops. The arrays of `--params` are
    /// constants.
    fn compiled(
        &self,
        interpret: bool,
        found: &mut Vec<Diagnostic>,
    ) -> Result<Ran, Vec<Diagnostic>> {
        let (name, args) = (self.name, self.args);
        if name != "main" {
            let message = format!("compiled programs start at @main, not at @{name}");
            return Err(vec![Diagnostic::error("E0733", message)]);
        }
        let target = target(&args.kernels.machine, self.registry).map_err(|error| vec![error])?;
        let mut module = self.module.clone();
        let mut constants = Vec::new();
        let mut inputs = Vec::new();
        for Argument { name, value, constant } in self.arguments.iter().cloned() {
            let Value::Tensor(tensor) = value else {
                let message =
                    format!("parameter `{name}` is no tensor: compiled programs take tensors");
                return Err(vec![Diagnostic::error("E0733", message)]);
            };
            match constant {
                true => constants.push((name, tensor)),
                false => inputs.push(tensor),
            }
        }
        runtime::bind(&mut module, &constants);
        let progress = Bar::on_terminal(self.is_terminal);
        let options = args.kernels.build_options(&*target, &progress);
        let options = BuildOptions { interpret, ..options.map_err(|error| vec![error])? };
        let built = Program::build(module, self.registry, &options, found);
        let (mut program, _) = built.map_err(|mut errors| {
            model::name_extents(&mut errors, &args.model, &args.options, self.directory);
            errors
        })?;
        drop(progress);
        let profiled = args.profile;
        let run = |program: &mut Program| {
            program.set_inputs(&inputs)?;
            program.run()?;
            let outputs = program.outputs()?;
            let profile = profiled.then(|| program.profile(PROFILE_SECONDS)).transpose()?;
            Ok((outputs, profile))
        };
        let ran = run(&mut program).map_err(|error| vec![name_unchecked(error)]);
        let (mut outputs, profile) = ran?;
        let value = match outputs.len() {
            1 => Value::Tensor(outputs.swap_remove(0)),
            _ => Value::tuple(outputs.into_iter().map(Value::Tensor)),
        };
        let executor = if interpret { "loops" } else { "graph" };
        Ok(Ran { value, executor, profile })
    }
}

/// Names the option that leaves checks out, where one failed.
pub(super) fn name_unchecked(error: Diagnostic) -> Diagnostic {
    match error.code == FAILED {
        true => error.help("run on other inputs, or leave the checks out with `--unchecked`"),
        false => error,
    }
}

/// What two results have in common, in words. The error is where they differ by more than rounding
/// does: over a thousandth of the largest element, for floats; at all, for others.
fn compare(found: &Value, expected: &Value) -> Result<String, String> {
    let (found, expected) = (flatten(found.clone()), flatten(expected.clone()));
    if found.len() != expected.len() {
        return Err(format!("{} results, and {} to compare with", found.len(), expected.len()));
    }
    let (mut tensors, mut elements, mut most) = (0, 0, 0.0_f64);
    for ((name, found), (_, expected)) in found.iter().zip(&expected) {
        let (Value::Tensor(found), Value::Tensor(expected)) = (found, expected) else { continue };
        if found.ty() != expected.ty() {
            return Err(format!("{name} is {}, and to compare with {}", found.ty(), expected.ty()));
        }
        let expected_values = expected.to_f64();
        let largest = expected_values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let bound = if found.dtype().is_float() { 1e-3 * largest.max(1e-30) } else { 0.0 };
        for (place, (a, b)) in found.to_f64().iter().zip(&expected_values).enumerate() {
            let equal = a == b || (a.is_nan() && b.is_nan());
            let difference = if equal { 0.0 } else { (a - b).abs() };
            // What is no number is not close.
            if difference.is_nan() || difference > bound {
                return Err(format!("{name} differs at element {place}: {a} and {b}"));
            }
            most = most.max(difference);
        }
        (tensors, elements) = (tensors + 1, elements + expected_values.len());
    }
    let many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (tensors, elements) = (many(tensors, "tensor"), many(elements, "element"));
    Ok(match most {
        0.0 => format!("{tensors} of {elements} in all, without a difference"),
        _ => format!("{tensors} of {elements} in all, the largest difference is {most:.3e}"),
    })
}

/// A value for a parameter.
#[derive(Clone)]
pub(super) struct Argument {
    /// The parameter.
    pub(super) name: String,
    /// Its value.
    pub(super) value: Value,
    /// Whether it is the same in every run.
    pub(super) constant: bool,
}

fn find_function<'m>(module: &'m Module, name: &str) -> Result<&'m Item, Diagnostic> {
    match module.get(name) {
        Some(item) if item.signature.op == FUNC && item.body.is_some() => Ok(item),
        _ => {
            let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
            let names: Vec<&str> = functions.map(|(name, _)| name.as_str()).collect();
            let error = Diagnostic::error("E0730", format!("there is no function @{name}"));
            Err(match did_you_mean_with("@", name, names.iter().copied()) {
                Some(help) => error.help(help),
                None if names.is_empty() => error.help("the module has no functions"),
                None => error.help(format!("the module has @{}", names.join(", @"))),
            })
        }
    }
}

/// The parameters that a function takes arrays for.
pub(super) struct Parameters {
    function: String,
    span: Option<Span>,
    types: IndexMap<String, Type, FxBuildHasher>,
}

impl Parameters {
    /// Those of the function `name`, which is `item`.
    pub(super) fn of(name: &str, item: &Item) -> Parameters {
        let mut types = IndexMap::default();
        if let Some(body) = &item.body {
            for (index, argument) in body.block_args(body.entry()).iter().enumerate() {
                let hint = body.name_hint(*argument).name;
                let hint = hint.map_or_else(|| format!("arg{index}"), |hint| hint.to_string());
                types.insert(hint, body.ty(*argument));
            }
        }
        Parameters { function: name.to_string(), span: item.signature.span, types }
    }

    /// Those of `@main`; none where there is none.
    pub(super) fn of_main(module: &Module) -> Parameters {
        let none = || Parameters { function: MAIN.into(), span: None, types: IndexMap::default() };
        module.get(MAIN).map_or_else(none, |item| Parameters::of(MAIN, item))
    }
}

/// The arrays of a file that parameters have names and types for; no other takes memory. Those
/// without a parameter are warned of.
///
/// # Errors
/// The file cannot be read, or arrays do not fit their parameters.
pub(super) fn read_arrays(
    path: &Path,
    parameters: &Parameters,
    found: &mut Vec<Diagnostic>,
) -> Result<Arrays, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let Parameters { function, span, types } = parameters;
    let mut wanted = |array: &str, ty: Type| {
        let short = PREFIXES.iter().find_map(|prefix| array.strip_prefix(prefix));
        let parameter = types.get(array).or_else(|| types.get(short?));
        let Some(expected) = parameter else {
            let message = format!("array `{array}` fits no parameter of @{function}");
            let mut warning = Diagnostic::warning("E0731", message);
            warning.help = did_you_mean(array, types.keys().map(String::as_str));
            found.push(warning);
            return false;
        };
        let fits = takes(*expected, ty);
        if !fits {
            let message = format!(
                "array `{array}` does not fit its parameter: expected {expected}, found {ty}"
            );
            errors.push(Diagnostic::error("E0732", message).at(*span));
        }
        fits
    };
    let arrays = arrays::load_where(path, &mut wanted).map_err(|error| vec![error])?;
    if errors.is_empty() { Ok(arrays) } else { Err(errors) }
}

/// Whether a parameter of type `expected` takes an array of type `found`.
fn takes(expected: Type, found: Type) -> bool {
    match (expected.data(), found.data()) {
        (TypeData::Tensor(expected), TypeData::Tensor(found)) => {
            let mut extents = expected.shape.iter().zip(&found.shape);
            expected.dtype == found.dtype
                && expected.rank() == found.rank()
                && extents.all(|(expected, found)| expected.known().is_none() || expected == found)
        }
        (TypeData::Tensor(_) | TypeData::Tuple(_) | TypeData::Ref(_), _) => false,
        _ => true,
    }
}

/// A value for each parameter of the function.
fn arguments(
    name: &str,
    (module, registry): (&Module, &Registry),
    (arrays, constants): (&Arrays, &FxHashSet<String>),
    seed: Option<u64>,
    found: &mut Vec<Diagnostic>,
) -> Result<Vec<Argument>, Diagnostic> {
    let item = find_function(module, name)?;
    let (signature, signatures) = (&item.signature, module.signatures());
    let (Some(body), Some(function)) = (&item.body, signature.ty.as_function()) else {
        let message = format!("@{name} is no function: its type is {}", signature.ty);
        return Err(Diagnostic::error("E0730", message).at(signature.span));
    };
    let parameters = body.block_args(body.entry()).iter().enumerate().map(|(index, argument)| {
        body.name_hint(*argument).name.unwrap_or_else(|| Symbol::new(&format!("arg{index}")))
    });
    let parameters: Vec<Symbol> = parameters.collect();
    let mut used = vec![false; arrays.len()];
    let mut missing = Vec::new();
    let mut values = Vec::new();
    let spreads = spreads(item, registry);
    for ((parameter, ty), spread) in parameters.iter().zip(&function.params).zip(spreads) {
        let exact = arrays.get_index_of(parameter.as_str());
        let place = exact.or_else(|| {
            let with_prefix = |prefix: &&str| arrays.get_index_of(&format!("{prefix}{parameter}"));
            PREFIXES.iter().find_map(with_prefix)
        });
        if let Some((array, tensor)) = place.and_then(|place| arrays.get_index(place)) {
            if exact.is_none() {
                let message = format!("array `{array}` is taken for parameter `{parameter}`");
                found.push(Diagnostic::remark("E0731", message));
            }
            let value = Value::Tensor(tensor.clone());
            if let Err(message) = check_type(&value, *ty) {
                let message = format!("array `{array}` does not fit its parameter: {message}");
                found.push(Diagnostic::error("E0732", message).at(signature.span));
            }
            if let Some(place) = place {
                used[place] = true;
            }
            values.push(Argument {
                name: parameter.to_string(),
                value,
                constant: constants.contains(array),
            });
        } else if let Some(seed) = seed {
            match random_value(*ty, spread, &signatures, seed_of(seed, parameter.as_str())) {
                Ok(value) => {
                    values.push(Argument { name: parameter.to_string(), value, constant: false });
                }
                Err(message) => {
                    let message = format!("cannot fill parameter `{parameter}`: {message}");
                    found.push(Diagnostic::error("E0730", message).at(signature.span));
                }
            }
        } else {
            missing.push(format!("%{parameter}: {ty}"));
        }
    }
    for ((array, _), _) in arrays.iter().zip(&used).filter(|(_, used)| !**used) {
        let message = format!("array `{array}` fits no parameter of @{name}");
        let mut warning = Diagnostic::warning("E0731", message);
        warning.help = did_you_mean(array, parameters.iter().map(|name| name.as_str()));
        found.push(warning);
    }
    if !missing.is_empty() {
        let message = match missing.len() {
            1 => format!("there is no array for a parameter of @{name}"),
            count => format!("there are no arrays for {count} parameters of @{name}"),
        };
        let mut error = Diagnostic::error("E0731", message)
            .at(signature.span)
            .help("give them with --inputs or --params, or fill them with --fill SEED");
        error.notes = missing;
        return Err(error);
    }
    match found.iter().rposition(Diagnostic::is_error) {
        Some(last) => Err(found.remove(last)),
        None => Ok(values),
    }
}

/// Where the random numbers of a parameter start.
pub(super) fn seed_of(seed: u64, parameter: &str) -> u64 {
    // Fixed keys: the same hash in every run.
    let mut hasher = DefaultHasher::new();
    (seed, parameter).hash(&mut hasher);
    hasher.finish()
}

/// The parts of a result that are no tuples, named `out_0`, `out_1` and so on.
fn flatten(value: Value) -> Vec<(String, Value)> {
    let mut pending = vec![value];
    let mut outputs = Vec::new();
    while let Some(value) = pending.pop() {
        match value.as_tuple() {
            Some(fields) => pending.extend(fields.iter().rev().cloned()),
            None => outputs.push((format!("out_{}", outputs.len()), value)),
        }
    }
    outputs
}

fn write_table(outputs: &[(String, Value)], out: &mut dyn Write) -> io::Result<()> {
    let kinds: Vec<String> = outputs.iter().map(|(_, value)| value.describe()).collect();
    let name_width = outputs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let kind_width = kinds.iter().map(String::len).max().unwrap_or(0);
    for ((name, value), kind) in outputs.iter().zip(&kinds) {
        let values = match value {
            Value::Tensor(tensor) => shown(tensor),
            other => other.to_string(),
        };
        writeln!(out, "{name:name_width$}  {kind:kind_width$}  {values}")?;
    }
    Ok(())
}

/// The first elements.
fn shown(tensor: &TensorData) -> String {
    let elements = tensor.elements().take(SHOWN).map(|element| match element {
        Scalar::Int(_) => element.as_integer(tensor.dtype()).to_string(),
        Scalar::Float(value) => format!("{:?}", value as f32),
    });
    let mut text = elements.collect::<Vec<_>>().join(" ");
    if tensor.elements().len() > SHOWN {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use ir_core::DType;

    use super::*;

    /// What E0734 reports: more than rounding, and shapes, types and numbers of results.
    #[test]
    fn differences_are_more_than_rounding() {
        let floats = |values: &[f64]| {
            let shape = [values.len() as i64];
            Value::Tensor(TensorData::from_f64(DType::FLOAT32, &shape, values).unwrap())
        };
        let compared = compare(&floats(&[1.0, 2.0]), &floats(&[1.0001, 2.0])).unwrap();
        assert_eq!(compared, "1 tensor of 2 elements in all, the largest difference is 1.000e-4");
        let compared = compare(&floats(&[f64::NAN]), &floats(&[f64::NAN])).unwrap();
        assert_eq!(compared, "1 tensor of 1 element in all, without a difference");
        assert!(compare(&floats(&[f64::NAN]), &floats(&[1.0])).is_err());
        let found = compare(&floats(&[1.0, 2.0]), &floats(&[1.1, 2.0])).unwrap_err();
        assert!(found.starts_with("out_0 differs at element 0"), "{found}");
        assert!(compare(&floats(&[1.0]), &floats(&[1.0, 2.0])).is_err());
        let both = Value::tuple([floats(&[1.0]), floats(&[2.0])]);
        assert!(compare(&both, &floats(&[1.0])).is_err());
    }
}
