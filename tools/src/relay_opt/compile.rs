//! The subcommand `compile`: a model as code that needs nothing of this program.

use std::io;
use std::path::Path;

use ir_core::{Diagnostic, Module, Registry, TensorData, verify};
use relay::arrays::Arrays;
use relay::language::output_names;
use runtime::{BuildOptions, Lowered, MAIN};
use rustc_hash::FxHashSet;
use target_core::package::{File, Input, Model};

use super::args::{CompileModel, DiagnosticForm};
use super::bench_model::{Parameter, parameters};
use super::folder;
use super::model::name_extents;
use super::report::Reporter;
use super::run_model::{PREFIXES, Parameters, load, read_arrays, seed_of};
use super::targets::target;
use super::{DIAGNOSTICS, OK};
use crate::io::Io;
use crate::progress::Bar;

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn compile(
    args: &CompileModel,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let mut found = Vec::new();
    let output = io.directory.join(&args.output);
    // Before the work, since the answer needs none of it.
    let allowed = folder::check(&output, args.force).map_err(|error| found.push(error));
    let module = allowed
        .ok()
        .and_then(|()| load(&args.model, &args.options, registry, &mut reporter, &mut found, io));
    let files = module.and_then(|module| {
        let progress = Bar::on_terminal(io.styled);
        let files = package(args, module, registry, &mut found, &io.directory, &progress);
        let failed = |mut errors: Vec<Diagnostic>| {
            name_extents(&mut errors, &args.model, &args.options, &io.directory);
            found.extend(errors);
        };
        files.map_err(failed).ok()
    });
    let written = files.filter(|_| !found.iter().any(Diagnostic::is_error)).and_then(|files| {
        let written = folder::write(&output, &files, args.force);
        written.map_err(|error| found.push(error)).ok().map(|()| files.len())
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
    found: &mut Vec<Diagnostic>,
    directory: &Path,
    progress: &Bar,
) -> Result<Vec<File>, Vec<Diagnostic>> {
    let one = |error: Diagnostic| vec![error];
    let target = target(&args.kernels.machine, registry).map_err(one)?;
    let all = parameters(&module, registry);
    let wanted = Parameters::of_main(&module);
    let mut read = |path: &Option<String>| match path {
        Some(path) => read_arrays(&directory.join(path), &wanted, found),
        None => Ok(Arrays::default()),
    };
    let constants = given(read(&args.params)?, &all);
    let mut examples = given(read(&args.inputs)?, &all);
    runtime::bind(&mut module, &constants);
    let mut inputs = Vec::new();
    for Parameter { name, ty, spread } in parameters(&module, registry) {
        if ty.as_tensor().is_none() {
            let message =
                format!("parameter `{name}` is no tensor: compiled programs take tensors");
            return Err(vec![Diagnostic::error("E0733", message)]);
        }
        let place = examples.iter().position(|(example, _)| *example == name);
        let example = place.map(|place| examples.swap_remove(place).1);
        inputs.push(Input { seed: seed_of(args.fill, &name), spread, name, example });
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // The program may be for a machine with fewer than this one.
    let options = args.kernels.build_options(&*target, progress).map_err(one)?;
    let options = BuildOptions { threads, ..options };
    let signature = module.get(MAIN).map(|main| main.signature.clone());
    let Lowered { layout, .. } = runtime::lower(&mut module, registry, &options, found)?;
    let base = module.get(MAIN).and_then(|main| main.signature.span);
    let messages = layout.checks.iter().flat_map(|call| call.messages(base, &module.sources));
    let messages = messages.collect();
    let verified = verify(&module, registry)?;
    let source = match args.model.as_str() {
        "-" => "standard input".into(),
        path => Path::new(path).file_name().unwrap_or_default().to_string_lossy(),
    };
    let model = Model {
        name: args.name.clone(),
        source: source.into_owned(),
        main: MAIN.to_string(),
        inputs,
        outputs: signature.map_or(vec![], |main| output_names(&main, layout.outputs)),
        seed: args.fill,
        layout,
        messages,
    };
    target.package(verified, &model)
}

/// The arrays by the names of their parameters.
fn given(arrays: Arrays, parameters: &[Parameter]) -> Vec<(String, TensorData)> {
    let names: FxHashSet<&str> =
        parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let name_of = |array: &str| {
        let short = PREFIXES.iter().find_map(|prefix| array.strip_prefix(prefix));
        let known = |name: &&str| names.contains(name);
        Some(array).filter(known).or_else(|| short.filter(known)).map(str::to_string)
    };
    arrays.into_iter().filter_map(|(array, tensor)| Some((name_of(&array)?, tensor))).collect()
}
