//! The subcommand `bench`: compiles a model and measures how long it runs.

use std::io;
use std::time::Instant;

use clap::{ArgAction, Args};
use ir_core::{
    Diagnostic, Diagnostics, Dim, Module, Random, Registry, SourceMap, Spread, TensorData, Type,
};
use passes::codes::{OPEN, OPEN_HELP};
use runtime::peak::{self, Peak};
use runtime::profile::Profile;
use runtime::{Bound, BuildOptions, BuildTimes, MAIN, Parameter, Parameters, Program, memory};
use serde_json::json;

use crate::driver::model::load_to_run;
use crate::driver::model::name_extents;
use crate::driver::options::{DiagnosticForm, Kernels, ModelOptions, name_unchecked};
use crate::driver::profile;
use crate::driver::report::Reporter;
use crate::driver::targets::target;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;
use crate::process::progress::Bar;

/// Compiles a model and measures how long it runs.
#[derive(Args, Debug)]
pub(crate) struct BenchModel {
    /// The model; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Parameters that stay inputs; the others without an array become random constants. The
    /// default is the first
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) input: Vec<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) fill: u64,
    /// Measures for so many seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Measures each kernel too, and what the machine can do at best
    #[arg(long)]
    pub(crate) profile: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was measured.
struct Measured {
    program: Program,
    times: BuildTimes,
    /// Seconds of each run, in order.
    runs: Vec<f64>,
    profile: Option<Profile>,
    peak: Option<Peak>,
}

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn bench_model(
    args: &BenchModel,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let mut found = Diagnostics::new();
    let measured =
        load_to_run((&args.model, MAIN), &args.options, registry, &mut reporter, &mut found, io)
            .and_then(|module| {
                let measured = measure(args, module, registry, &mut found, io);
                let failed = |mut errors: Diagnostics| {
                    name_extents(&mut errors, &args.model, &args.options, &io.directory);
                    found.extend(errors);
                };
                measured.map_err(failed).ok()
            });
    let failed = found.has_errors();
    reporter.report(found, io)?;
    reporter.finish(io)?;
    match measured {
        Some(measured) if !failed => print(args, &measured, reporter.source_map(), io).map(|()| OK),
        _ => Ok(DIAGNOSTICS),
    }
}

fn measure(
    args: &BenchModel,
    mut module: Module,
    registry: &Registry,
    found: &mut Diagnostics,
    io: &Io<'_>,
) -> Result<Measured, Diagnostics> {
    let one = |found: Diagnostics| found.map(name_unchecked);
    let target = target(&args.kernels.machine, registry).map_err(one)?;
    memory::check_function(MAIN, &module).map_err(one)?;
    let parameters = Parameters::of_main(&module, registry);
    let mut given = match &args.params {
        Some(path) => parameters.load(&io.directory.join(path), found)?,
        None => arrays::Arrays::default(),
    };
    let progress = Bar::on_terminal(io.styled);
    let bounds = args.options.bounds();
    let options = args.kernels.build_options(&*target, &progress).map_err(one)?;
    let options = BuildOptions { bounds: bounds.clone(), ..options };
    let is_open = |parameter: &Parameter| {
        let facts = parameter.ty.facts();
        facts.has_any || facts.has_parameter
    };
    // Where extents have bounds, they are measured.
    let types: Vec<Type> =
        parameters.all.iter().map(|parameter| largest(parameter, &bounds)).collect();
    let open = parameters.all.iter().zip(&types).filter(|(parameter, ty)| {
        is_open(parameter) && ty.as_tensor().is_none_or(|tensor| tensor.known_shape().is_none())
    });
    let open = open.map(|(parameter, _)| parameter);
    let open: Vec<String> = open.map(|one| format!("`%{}: {}`", one.name, one.ty)).collect();
    if !open.is_empty() {
        // Compiling says what is in the way, and what to do.
        Program::build(module.clone(), registry, &options, found)?;
        // What takes any number of rows is measured for some number of them.
        let message = format!("expected parameters of known extents, found {}", open.join(", "));
        let span = module.get(MAIN).and_then(|main| main.signature.span);
        let error = Diagnostic::error(OPEN, message).at(span);
        return Err(error.help(OPEN_HELP).into());
    }
    let (mut constants, mut inputs) = (Vec::new(), Vec::new());
    let signatures = module.signatures();
    for (position, parameter) in parameters.all.iter().enumerate() {
        let Parameter { name, spread, .. } = parameter;
        let ty = &types[position];
        let is_input = match args.input.is_empty() {
            true => position == 0,
            false => args.input.contains(name),
        };
        if is_open(parameter) {
            let value = match given.shift_remove(name) {
                Some(value) => value,
                None => random(*ty, *spread, args.fill + position as u64).map_err(one)?,
            };
            inputs.push(value.into());
            continue;
        }
        if ty.as_tensor().is_none() {
            // Constants are tensors.
            inputs.push(parameters.value(parameter, &given, &signatures, args.fill)?);
            continue;
        }
        let value = match given.shift_remove(name) {
            Some(value) => value,
            None if is_input => {
                inputs.push(random(*ty, *spread, args.fill).map_err(one)?.into());
                continue;
            }
            None => random(*ty, *spread, args.fill + position as u64 + 1).map_err(one)?,
        };
        constants.push((name.clone(), value));
    }
    runtime::bind(&mut module, &constants);
    let counting = args.profile.then(|| module.clone());
    let (mut program, times) = Program::build(module, registry, &options, found)?;
    drop(progress);
    program.set_arguments(&inputs).map_err(one)?;
    let mut runs = Vec::new();
    program.run().map_err(one)?;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < args.seconds || runs.len() < 3 {
        let start = Instant::now();
        program.run().map_err(one)?;
        runs.push(start.elapsed().as_secs_f64());
    }
    let (mut profile, mut peak) = (None, None);
    if args.profile {
        profile = Some(match counting.filter(|_| program.is_whole()) {
            // What counts itself is slower than what was measured.
            Some(module) => {
                let options = args.kernels.build_options(&*target, &()).map_err(one)?;
                let options = BuildOptions { profiled: true, bounds, ..options };
                let (mut program, _) = Program::build(module, registry, &options, found)?;
                program.set_arguments(&inputs).map_err(one)?;
                program.profile(args.seconds).map_err(one)?
            }
            None => program.profile(args.seconds).map_err(one)?,
        });
        peak = Some(peak::measure(&*target, registry)?);
    }
    Ok(Measured { program, times, runs, profile, peak })
}

/// The type of `parameter` with the most that its open extents may be.
fn largest(parameter: &Parameter, bounds: &[Bound]) -> Type {
    let Some(tensor) = parameter.ty.as_tensor() else { return parameter.ty };
    let most = |(axis, dim): (usize, &Dim)| {
        let name = match dim {
            Dim::Any => format!("{}.{axis}", parameter.name),
            dim => dim.to_string(),
        };
        let bound = bounds.iter().find(|bound| bound.name == name);
        bound.map_or(*dim, |bound| Dim::Known(bound.most))
    };
    Type::tensor(tensor.shape.iter().enumerate().map(most).collect::<Vec<_>>(), tensor.dtype)
}

fn random(ty: Type, spread: Spread, seed: u64) -> Result<TensorData, Diagnostics> {
    let tensor = ty.as_tensor().and_then(|tensor| Some((tensor.known_shape()?, tensor.dtype)));
    let Some((shape, dtype)) = tensor else {
        let message = format!("there are no random numbers of type {ty}");
        return Err(Diagnostic::error("E0733", message).into());
    };
    let made = Random::new(seed).tensor_within(&shape, dtype, spread);
    made.map_err(|message| Diagnostic::error("E0733", message)).map_err(Diagnostics::from)
}

fn print(
    args: &BenchModel,
    measured: &Measured,
    sources: &SourceMap,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let Measured { program, times, runs, profile, peak } = measured;
    let mut sorted = runs.clone();
    sorted.sort_by(f64::total_cmp);
    let (least, median) = (sorted[0], sorted[sorted.len() / 2]);
    let memory = program.layout().memory;
    if args.json {
        let value = json!({
            "runs": runs.len(),
            "median_s": median,
            "least_s": least,
            "build_s": {
                "passes": times.passes.as_secs_f64(),
                "lower": times.lower.as_secs_f64(),
                "compile": times.compile.as_secs_f64(),
            },
            "kernels": program.kernels().len() - 1,
            "memory_bytes": {
                "planned": memory.planned,
                "sum": memory.sum,
                "lower_bound": memory.lower_bound,
            },
            "profile": profile.as_ref().map(|profile| profile::json(profile, *peak, sources)),
        });
        return writeln!(io.stdout, "{value:#}");
    }
    writeln!(io.stdout, "median   {:10.4} ms of {} runs", median * 1e3, runs.len())?;
    writeln!(io.stdout, "least    {:10.4} ms", least * 1e3)?;
    writeln!(
        io.stdout,
        "built in {:10.3} s: passes {:.3}, schedules and loops {:.3}, code and compiler {:.3}",
        (times.passes + times.lower + times.compile).as_secs_f64(),
        times.passes.as_secs_f64(),
        times.lower.as_secs_f64(),
        times.compile.as_secs_f64()
    )?;
    writeln!(
        io.stdout,
        "memory   {} bytes planned for buffers of {} in all; at least {} are live at once",
        memory.planned, memory.sum, memory.lower_bound
    )?;
    writeln!(io.stdout, "kernels  {}", program.kernels().len() - 1)?;
    match profile {
        Some(profile) => profile::write_table(profile, *peak, sources, io.stdout),
        None => Ok(()),
    }
}
