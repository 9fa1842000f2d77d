//! The graph executor: a first-order program compiled for a target as a whole, and run.
//!
//! The program is optimized and fused, its kernels become tensor expressions, these are scheduled
//! for the target and compiled, and a main kernel calls them on buffers whose places were planned.
//! What comes out is one call.

use std::time::{Duration, Instant};

use ir_core::pipeline::{Instrument, Outcome, Pipeline, RunOptions, Step, Timing, run};
use ir_core::{
    Diagnostic, Diagnostics, FunctionType, InsertPoint, Loc, Module, Registry, SourceMap, Span,
    Symbol, TensorData, Type, TypeData, ValueId, verify,
};
use passes::bounds::Bound;
use passes::extents::has_open_values;
use passes::pipelines::{self, Compile, Fusion};
use relay::interpreter::Value;
use relay::language::{Constant, FUNC};
use rustc_hash::FxHashMap;
use target_core::calls::Calls;
use target_core::checks::{first_failure, report_checks};
use target_core::program::{Layout, lay_out, lower_functions};
use target_core::{Buffer, Executable, Interpreted, Target, gpu};
use te::compute::Work;
use te::loops::MemoryPlan;

use crate::codes::UNCHECKED_HELP;
use crate::interface::{Encoded, Interface};
use crate::profile::{self, Profile};
use crate::progress::{PassProgress, Progress};
use crate::whole::Whole;
use crate::{Error, memory, rows};

/// The passes that a program goes through as `options` say.
pub fn pipeline(options: &BuildOptions<'_>) -> Pipeline {
    pipelines::lower(&compile(options, false))
}

fn compile(options: &BuildOptions<'_>, packaged: bool) -> Compile {
    let machine = options.target.capabilities();
    // Schedules for devices know nothing of stages that are chosen from.
    let fewer_products = !options.strict && machine.gpu.is_none() && machine.vector_bits > 0;
    let (lanes, fusion, any_extents) = (machine.lanes(32), options.fusion, false);
    Compile { lanes, fusion, fewer_products, packaged, any_extents }
}

/// The function that programs start at, and then the kernel that is called.
pub const MAIN: &str = "main";

/// A program that is ready to run.
pub struct Program {
    executable: Box<dyn Executable>,
    layout: Layout,
    params: Vec<Type>,
    /// Where the program starts in its source.
    span: Option<Span>,
    /// What errors are about.
    sources: SourceMap,
    /// Inputs, constants, results, statuses of checks: the parameters of the main kernel.
    buffers: Vec<Buffer>,
    calls: Calls,
    works: FxHashMap<Symbol, Work>,
    /// What it runs on where it is more than a list of kernels.
    whole: Option<Whole>,
    interface: Interface,
}

/// How a program is built.
pub struct BuildOptions<'a> {
    /// What for.
    pub target: &'a dyn Target,
    /// How kernels are chosen.
    pub fusion: Fusion,
    /// Whether passes keep to what is exact or adds up in another order, with a smaller error than that of
    /// convolutions with fewer products.
    pub strict: bool,
    /// Threads of the passes.
    pub threads: usize,
    /// Interprets the loops of kernels, rather than compiling them. Slow, and needs no compiler.
    pub interpret: bool,
    /// Whether what operators expect of numbers, such as divisors and indices, is checked. What is
    /// not checked computes anything, from its operands alone.
    pub checked: bool,
    /// Whether a whole program counts what runs how often and for how long, for
    /// [`profile`](Program::profile), which makes it slower. Others are profiled as they are.
    pub profiled: bool,
    /// Whether nobody computes operators while the program runs, as in a package: those that have no kernels
    /// are errors, and extents for which a kernel is not written end the program.
    pub packaged: bool,
    /// How large the named extents of `@main` may be. A program that has such is compiled once for all
    /// of them.
    pub bounds: Vec<Bound>,
    /// Told how far it is.
    pub progress: &'a dyn Progress,
}

impl<'a> BuildOptions<'a> {
    /// For `target` and as many threads as it has, as programs are compiled where nobody says how, and
    /// telling nobody how far it is.
    pub fn new(target: &'a dyn Target) -> BuildOptions<'a> {
        let (fusion, threads) = (Fusion::Dominator, target.capabilities().threads);
        BuildOptions {
            target,
            fusion,
            strict: false,
            threads,
            interpret: false,
            checked: true,
            profiled: false,
            packaged: false,
            bounds: vec![],
            progress: &(),
        }
    }
}

/// Where the time of building a program went.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildTimes {
    /// The passes on the whole program.
    pub passes: Duration,
    /// Schedules and loops.
    pub lower: Duration,
    /// Code generation and the target's compiler.
    pub compile: Duration,
}

/// Runs `steps` on `module`. Warnings and remarks go to `found`.
///
/// # Errors
/// Those of the passes.
pub(crate) fn run_passes<const N: usize>(
    module: &mut Module,
    registry: &Registry,
    steps: [Step; N],
    found: &mut Diagnostics,
) -> Result<(), Diagnostics> {
    let (pipeline, log) = (Pipeline::from(steps), &mut std::io::sink());
    let report = run(&pipeline, module, registry, RunOptions::default(), &mut [], log)
        .map_err(|error| Diagnostic::error("E0733", error.to_string()))?;
    if report.diagnostics.has_errors() || !matches!(report.outcome, Outcome::Done) {
        return Err(report.diagnostics);
    }
    found.extend(report.diagnostics);
    Ok(())
}

/// Makes the parameters of `@main` that `values` names constants. Returns the names that it has no
/// parameter for.
pub fn bind(module: &mut Module, values: &[(String, TensorData)]) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, value) in values {
        let place = module.body(Symbol::new(MAIN)).and_then(|body| {
            let named =
                |arg: &ValueId| body.name_hint(*arg).name.is_some_and(|hint| hint == name.as_str());
            let args = body.block_args(body.entry());
            let place = args.iter().position(named)?;
            (body.ty(args[place]) == value.ty()).then_some(place)
        });
        match place {
            Some(place) => bind_at(module, place, value),
            None => unknown.push(name.clone()),
        }
    }
    unknown
}

/// Makes parameter `place` of `@main`, which is of its type, the constant `value`.
pub(crate) fn bind_at(module: &mut Module, place: usize, value: &TensorData) {
    let item = module.items.get_mut(&Symbol::new(MAIN)).expect("a program has a main function");
    let function = item.signature.ty.as_function().expect("functions have function types").clone();
    let body = item.body_mut().expect("the main function has a body");
    let entry = body.entry();
    let arg = body.block_args(entry)[place];
    let constant = Constant { value: value.clone() };
    let at = InsertPoint::Start(entry);
    let result = body.add(at, Loc::UNKNOWN, &constant, value.ty());
    body.replace_all_uses(arg, result);
    body.remove_block_arg(entry, place);
    let mut params: Vec<Type> = function.params.to_vec();
    params.remove(place);
    let ty = FunctionType { params: params.into(), ..function };
    item.signature.ty = Type::new(TypeData::Function(ty));
}

/// A program of kernels.
pub struct Lowered {
    /// What surrounds the kernels.
    pub layout: Layout,
    /// What each kernel does, by name.
    pub works: FxHashMap<Symbol, Work>,
    /// Where the time went.
    pub times: BuildTimes,
}

/// Makes kernels of `module`, a verified Relay program that starts at `@main`. They do not depend
/// on the number of threads that make them. Warnings and remarks of the passes go to `found`.
/// Errors are what cannot be lowered or scheduled.
pub fn lower(
    module: &mut Module,
    registry: &Registry,
    options: &BuildOptions<'_>,
    found: &mut Diagnostics,
) -> Result<Lowered, Diagnostics> {
    lower_for(module, registry, options, options.packaged, found)
}

/// [`lower`], where `packaged` for a package, in which nobody computes what has no kernel.
pub(crate) fn lower_for(
    module: &mut Module,
    registry: &Registry,
    options: &BuildOptions<'_>,
    packaged: bool,
    found: &mut Diagnostics,
) -> Result<Lowered, Diagnostics> {
    let &BuildOptions { target, threads, checked, progress, ref bounds, .. } = options;
    let mut times = BuildTimes::default();
    let start = Instant::now();
    let compile = compile(options, packaged);
    let pipeline = pipelines::lower(&compile);
    let for_any_extents = pipelines::lower(&Compile { any_extents: true, ..compile });
    let mut timing = Timing::new();
    // Schedules and loops are a step, and code is one.
    progress.expect(pipeline.steps().len() + 2);
    let mut steps = PassProgress(progress);
    let mut instruments: Vec<&mut dyn Instrument> = vec![&mut timing, &mut steps];
    let options = RunOptions { threads, backtraces: true, ..RunOptions::default() };
    let mut log = Vec::new();
    match rows::lower(module, registry, &for_any_extents, threads) {
        Some(lowered) => *module = lowered,
        None if !bounds.is_empty() && has_open_values(module) => {
            *module = crate::bounds::lower(module, registry, &for_any_extents, threads, bounds)?;
        }
        None => {
            let report = run(&pipeline, module, registry, options, &mut instruments, &mut log)
                .map_err(|error| {
                    Diagnostics::from(Diagnostic::error("E0733", error.to_string()))
                })?;
            let failed = report.diagnostics.has_errors();
            if failed || !matches!(report.outcome, Outcome::Done) {
                return Err(report.diagnostics);
            }
            found.extend(report.diagnostics);
        }
    }
    times.passes = start.elapsed();

    let start = Instant::now();
    progress.step("schedules and loops");
    let works = profile::works(module);
    let sites = lower_functions(module, target.capabilities(), threads)?;
    module.items.retain(|_, item| item.signature.op.as_str() != FUNC);
    let checks = report_checks(module, MAIN, sites, checked)?;
    if target.capabilities().gpu.is_some() {
        gpu::launches::split(module)?;
    }
    rows::plan_memory(module)?;
    let layout = match is_whole(module) {
        true => whole_layout(module)?,
        false => lay_out(module, MAIN, checks, target.capabilities())?,
    };
    times.lower = start.elapsed();
    Ok(Lowered { layout, works, times })
}

/// What surrounds a whole program: its constants, and how many tensors it takes and gives. Its state
/// comes behind its results.
fn whole_layout(module: &Module) -> Result<Layout, Diagnostics> {
    let interface = whole_interface(module)?;
    Ok(Layout {
        inputs: interface.taken.tensors.len(),
        outputs: interface.given.tensors.len(),
        data: interface.constants,
        checks: vec![],
        memory: MemoryPlan::default(),
    })
}

/// What the whole program of `module` takes and gives.
pub(crate) fn whole_interface(
    module: &Module,
) -> Result<target_core::whole::Interface, Diagnostics> {
    let refused = |ty: Option<Type>| {
        let ty = ty.map_or_else(|| "nothing".to_string(), |ty| ty.to_string());
        let message = format!("`@{MAIN}` takes or gives {ty}, and programs take tensors and data");
        let span = module.get(MAIN).and_then(|main| main.signature.span);
        Diagnostics::from(Diagnostic::error("E0733", message).at(span))
    };
    let interface = target_core::whole::Interface::of(module).ok_or_else(|| refused(None))?;
    interface.map_err(|ty| refused(Some(ty)))
}

/// Whether `module` is a whole program.
pub(crate) fn is_whole(module: &Module) -> bool {
    module.get(MAIN).is_some_and(|main| main.signature.op == prog::FUNC)
}

impl Program {
    /// Compiles `@main` of `module`, a verified Relay program, for a target. Warnings and remarks
    /// of the passes go to `found`. Errors are what cannot be lowered, scheduled or compiled, and
    /// programs that need more memory than there is.
    pub fn build(
        mut module: Module,
        registry: &Registry,
        options: &BuildOptions<'_>,
        found: &mut Diagnostics,
    ) -> Result<(Program, BuildTimes), Diagnostics> {
        let mut interface = Interface::of(&module);
        let Lowered { layout, works, mut times } = lower(&mut module, registry, options, found)?;
        let start = Instant::now();
        let &BuildOptions { target, interpret, profiled, progress, .. } = options;
        // Interpreted loops take so long that there is nothing to learn from where.
        if profiled
            && !interpret
            && is_whole(&module)
            && let Some(main) = module.items.get_mut(&Symbol::new(MAIN))
        {
            main.signature.attrs = main.signature.attrs.with(prog::sites::PROFILE, &true);
        }
        let calls = Calls::of(&module, MAIN);
        let main = module.get(MAIN).and_then(|main| main.signature.ty.as_function());
        let params = main.map(|main| Type::tuple(main.params.iter().copied()));
        let span = module.get(MAIN).and_then(|main| main.signature.span);
        let sources = module.sources.clone();
        let planned = usize::try_from(layout.memory.planned).ok();
        let fits = |more: usize| {
            let bytes = params.map_or(Some(0), memory::bytes_of);
            let all = bytes.and_then(|bytes| bytes.checked_add(planned?)?.checked_add(more));
            memory::check(all, "the inputs, constants, results and buffers of the program")
        };
        fits(0)?;
        let verified = verify(&module, registry)?;
        times.lower += start.elapsed();

        let start = Instant::now();
        progress.step("code");
        let mut executable: Box<dyn Executable> = match interpret {
            true => Box::new(Interpreted::new(verified)),
            false => target.load(verified)?,
        };
        executable.keep(MAIN, layout.inputs..layout.inputs + layout.data.len());
        times.compile = start.elapsed();
        found.extend(executable.remarks().iter().cloned());
        let kernel = executable.kernels().iter().find(|kernel| kernel.name == MAIN);
        let kernel = kernel.expect("what runs has a main kernel");
        fits(kernel.workspace.saturating_sub(planned.unwrap_or(0)))?;
        let params = kernel.params.clone();
        let mut buffers = Vec::with_capacity(params.len());
        for ty in &params {
            match Buffer::of_type(*ty) {
                Some(buffer) => buffers.push(buffer),
                None => {
                    let message = format!("there is no buffer of type {ty}");
                    return Err(Diagnostic::error("E0733", message).into());
                }
            }
        }
        for (buffer, value) in buffers.iter_mut().skip(layout.inputs).zip(&layout.data) {
            buffer.as_mut().copy_from_slice(value.bytes());
        }
        let whole = match is_whole(&module) {
            true => {
                let own = whole_interface(&module)?;
                if !interface.fits(&own.taken.data, &own.given.data) {
                    let message = "the data of the program is not what its source says";
                    return Err(Diagnostic::error("E0733", message).at(span).into());
                }
                Some(Whole::new(&module, registry, own, kernel.workspace))
            }
            false => None,
        };
        let program = Program {
            executable,
            layout,
            params,
            span,
            sources,
            buffers,
            calls,
            works,
            whole,
            interface,
        };
        Ok((program, times))
    }

    /// Whether it is more than a list of kernels.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The types of the inputs.
    pub fn inputs(&self) -> &[Type] {
        &self.params[..self.layout.inputs]
    }

    /// What surrounds the kernels.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The kernels, the main one included.
    pub fn kernels(&self) -> &[target_core::Kernel] {
        self.executable.kernels()
    }

    /// The results on `inputs`, which are in the order of the parameters that are no constants.
    ///
    /// # Errors
    /// When their number or types do not fit, and what [`run`](Program::run) says.
    pub fn call(&mut self, inputs: &[TensorData]) -> Result<Vec<TensorData>, Error> {
        let results = match self.interface.takes_open_tensors() {
            true => self.call_with_extents(inputs),
            false => {
                let ran = self.set_inputs(inputs).and_then(|()| self.run());
                ran.and_then(|()| self.outputs())
            }
        };
        results.map_err(|error| Error::new(error, &self.sources))
    }

    /// The results on `inputs`, some of which have extents that the program does not know.
    fn call_with_extents(&mut self, inputs: &[TensorData]) -> Result<Vec<TensorData>, Diagnostics> {
        let values: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
        self.set_arguments(&values)?;
        self.run()?;
        let (mut tensors, mut pending) = (Vec::new(), vec![self.result()?]);
        while let Some(value) = pending.pop() {
            match value {
                Value::Tensor(tensor) => tensors.push(tensor),
                other => pending.extend(other.as_tuple().into_iter().flatten().rev().cloned()),
            }
        }
        Ok(tensors)
    }

    /// Sets the values of the parameters that are no constants.
    ///
    /// # Errors
    /// When their number or types do not fit, and when they are functions.
    pub fn set_arguments(&mut self, values: &[Value]) -> Result<(), Diagnostics> {
        let Encoded { tensors, columns } = self.interface.encode(values)?;
        if let Some(whole) = &mut self.whole {
            whole.set_data(columns);
        }
        self.set_inputs(&tensors)
    }

    /// What the last run gave.
    ///
    /// # Errors
    /// When it is not what the program said.
    pub fn result(&self) -> Result<Value, Diagnostics> {
        let given = self.whole.as_ref().zip(self.buffers.last());
        let columns = given.map_or(Some(vec![]), |(whole, state)| whole.data(state));
        let missing = || Diagnostic::error("E0733", "the program gave no data");
        let block = self.whole.as_ref().map_or(&[][..], Whole::block);
        self.interface.decode(self.outputs()?, &columns.ok_or_else(missing)?, block)
    }

    /// Sets the tensors among the inputs, also those in tuples. Errors where their number or types do
    /// not fit.
    pub fn set_inputs(&mut self, inputs: &[TensorData]) -> Result<(), Diagnostics> {
        if inputs.len() != self.layout.inputs {
            let (expected, found) = (self.layout.inputs, inputs.len());
            let message = format!("expected {expected} inputs, found {found}");
            return Err(Diagnostic::error("E0733", message).into());
        }
        for ((input, ty), buffer) in inputs.iter().zip(&self.params).zip(&mut self.buffers) {
            if input.ty() != *ty {
                let message = format!("expected an input of type {ty}, found {}", input.ty());
                return Err(Diagnostic::error("E0733", message).into());
            }
            buffer.as_mut().copy_from_slice(input.bytes());
        }
        Ok(())
    }

    /// The bytes of input `index`, for who sets it in place.
    pub(crate) fn input_mut(&mut self, index: usize) -> &mut [u8] {
        self.buffers[index].as_mut()
    }

    /// Input `index` as it is.
    ///
    /// # Errors
    /// When it is no tensor of known extents.
    pub(crate) fn input(&self, index: usize) -> Result<TensorData, Diagnostics> {
        self.tensor(index)
    }

    /// Result `index` of the last run.
    ///
    /// # Errors
    /// When it is no tensor of known extents.
    pub(crate) fn output(&self, index: usize) -> Result<TensorData, Diagnostics> {
        self.tensor(self.first_output() + index)
    }

    /// Makes result `output` of the last run input `input` of the next one, which is of its type. They trade
    /// places, so that nothing is copied; the result is nothing in particular until the next run.
    pub(crate) fn carry(&mut self, output: usize, input: usize) {
        let output = self.first_output() + output;
        self.buffers.swap(input, output);
    }

    /// Runs on the inputs that were set. Errors where a check fails: the first, in the order of the
    /// program. Then the results are nothing in particular.
    pub fn run(&mut self) -> Result<(), Diagnostics> {
        if let Some(whole) = &mut self.whole {
            return whole.run(&*self.executable, &mut self.buffers);
        }
        self.executable.call(MAIN, &mut self.buffers)?;
        let statuses = &self.buffers[self.first_output() + self.layout.outputs..];
        let failure = first_failure(&self.layout.checks, statuses, self.span);
        failure.map_or(Ok(()), |failure| Err(failure.help(UNCHECKED_HELP).into()))
    }

    /// Which of the parameters is the first result.
    fn first_output(&self) -> usize {
        let behind = self.layout.checks.len() + usize::from(self.whole.is_some());
        self.params.len().saturating_sub(self.layout.outputs + behind)
    }

    /// Where the time of a run on the inputs that were set goes, measured for some seconds.
    ///
    /// # Errors
    /// Where a main kernel does more than calling others, where a whole program was not built to be
    /// [profiled](BuildOptions::profiled), and where a run fails.
    pub fn profile(&mut self, seconds: f64) -> Result<Profile, Diagnostics> {
        let Program { executable, buffers, calls, works, whole, .. } = self;
        if let Some(whole) = whole {
            return whole.profile(&**executable, buffers, works, seconds);
        }
        profile::profile(calls, works, &**executable, buffers, seconds)
    }

    /// The tensors among the results of the last run, also those in tuples.
    pub fn outputs(&self) -> Result<Vec<TensorData>, Diagnostics> {
        (0..self.layout.outputs).map(|index| self.output(index)).collect()
    }

    /// What buffer `index` holds.
    fn tensor(&self, index: usize) -> Result<TensorData, Diagnostics> {
        let (ty, buffer) = (self.params[index], &self.buffers[index]);
        let tensor = ty
            .as_tensor()
            .and_then(|tensor| buffer.to_tensor(tensor.dtype, &tensor.known_shape()?).ok());
        let message = || Diagnostic::error("E0733", format!("a value of the program is no {ty}"));
        Ok(tensor.ok_or_else(message)?)
    }
}
