//! The subcommand `compile`: a model as code that needs nothing of this program.

mod folder;

use std::io;
use std::path::Path;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ir_core::{Diagnostics, Module, Registry};
use runtime::{BuildOptions, MAIN, Package, Parameters};
use target_core::package::File;

use crate::driver::model::load_to_run;
use crate::driver::model::name_extents;
use crate::driver::options::{DiagnosticForm, Kernels, ModelOptions};
use crate::driver::report::Reporter;
use crate::driver::targets::target;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;
use crate::process::progress::Bar;

/// Compiles a model to C that needs nothing of this program.
///
/// Writes the code, its header and weights, an example with a Makefile, and a manifest. See
/// `docs/compile.md`.
#[derive(Args, Debug)]
pub(crate) struct CompileModel {
    /// The model: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    /// The folder to write to: a new or empty one, or one that holds what this command wrote before
    #[arg(short, long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// Constants for parameters, by name: a .npz or .safetensors file. The other parameters are
    /// inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// Inputs of the example, by name: a .npz or .safetensors file. They are written beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<String>,
    /// Seed of the random numbers that the example takes for its other inputs, as `run` does
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) fill: u64,
    /// What files and functions are called: `NAME.c`, `NAME_run`
    #[arg(long, value_name = "NAME", default_value = "model")]
    pub(crate) name: String,
    /// Writes to the folder even if it holds other files; those of the same names are replaced
    #[arg(long)]
    pub(crate) force: bool,
}

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn compile(
    args: &CompileModel,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let mut found = Diagnostics::new();
    let output = io.directory.join(&args.output);
    // Before the work, since the answer needs none of it.
    let allowed = folder::check(&output, args.force).map_err(|errors| found.extend(errors));
    let module = allowed.ok().and_then(|()| {
        load_to_run((&args.model, MAIN), &args.options, registry, &mut reporter, &mut found, io)
    });
    let files = module.and_then(|module| {
        let progress = Bar::on_terminal(io.styled);
        let files = package(args, module, registry, &mut found, &io.directory, &progress);
        let failed = |mut errors: Diagnostics| {
            name_extents(&mut errors, &args.model, &args.options, &io.directory);
            found.extend(errors);
        };
        files.map_err(failed).ok()
    });
    let written = files.filter(|_| !found.has_errors()).and_then(|files| {
        let written = folder::write(&output, &files, args.force);
        written.map_err(|errors| found.extend(errors)).ok().map(|()| files.len())
    });
    reporter.report(found, io)?;
    reporter.finish(io)?;
    let Some(count) = written else { return Ok(DIAGNOSTICS) };
    let name = &args.output;
    writeln!(io.stdout, "wrote {count} files to {name}; `make -C {name} run` runs the example")?;
    Ok(OK)
}

/// The files of the artifact.
fn package(
    args: &CompileModel,
    mut module: Module,
    registry: &Registry,
    found: &mut Diagnostics,
    directory: &Path,
    progress: &Bar,
) -> Result<Vec<File>, Diagnostics> {
    let target = target(&args.kernels.machine, registry)?;
    let parameters = Parameters::of_main(&module, registry);
    let mut read = |path: &Option<String>| {
        let path = path.as_ref().map(|path| directory.join(path));
        let arrays = path.map(|path| parameters.load(&path, found)).transpose()?;
        Ok::<_, Diagnostics>(parameters.named(arrays.unwrap_or_default()))
    };
    let constants = read(&args.params)?;
    let examples = read(&args.inputs)?;
    runtime::bind(&mut module, &constants);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // The program may be for a machine with fewer than this one.
    let options = args.kernels.build_options(&*target, progress)?;
    let options = BuildOptions { threads, bounds: args.options.bounds(), ..options };
    let source = match args.model.as_str() {
        "-" => "standard input".into(),
        path => Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let package = Package { name: args.name.clone(), source, examples, seed: args.fill };
    runtime::package(module, registry, package, &options, found)
}
