//! Programs on their way from text to a target.

use std::path::Path;

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, Step, run};
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, verify};
use passes::gradient::ExpandGrad;
use relay::inference::infer_module;

use crate::{BuildOptions, Error, MAIN, Program, Versions, bind};

/// A program that is typed and verified.
#[derive(Clone)]
pub struct Model<'r> {
    module: Module,
    registry: &'r Registry,
    /// Warnings and remarks so far.
    found: Diagnostics,
}

impl<'r> Model<'r> {
    /// The program of a file of Relay text.
    ///
    /// # Errors
    /// When the file cannot be read, and those of [`parse`](Model::parse).
    pub fn read(path: impl AsRef<Path>, registry: &'r Registry) -> Result<Model<'r>, Error> {
        let path = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Diagnostic::error("E0720", format!("cannot read `{path}`: {error}"))
        })?;
        Model::parse(&path, &text, registry)
    }

    /// The program that `text` describes; `file` is what errors call it.
    ///
    /// # Errors
    /// When it does not parse, or has no types.
    pub fn parse(file: &str, text: &str, registry: &'r Registry) -> Result<Model<'r>, Error> {
        let (module, found) = ir_core::text::module::parse(file, text, registry);
        Model::checked(module, registry, found)
    }

    /// The program of `module`, as importers make it: types are inferred where there are none, and the
    /// operator `grad` becomes the gradient.
    ///
    /// # Errors
    /// When it has no types, is not well formed, or asks for the gradient of what has none.
    pub fn new(module: Module, registry: &'r Registry) -> Result<Model<'r>, Error> {
        Model::checked(module, registry, Diagnostics::new())
    }

    fn checked(
        mut module: Module,
        registry: &'r Registry,
        mut found: Diagnostics,
    ) -> Result<Model<'r>, Error> {
        let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
        if !failed(&found) {
            found.extend(infer_module(&mut module, registry));
        }
        if !failed(&found) {
            found.extend(verify(&module, registry).err().unwrap_or_default());
        }
        if !failed(&found) {
            found.extend(expand_grad(&mut module, registry, MAIN).err().unwrap_or_default());
        }
        match failed(&found) {
            true => Err(Error::new(found, &module.sources)),
            false => Ok(Model { module, registry, found }),
        }
    }

    /// Makes the parameters of `@main` that `values` names constants, such as weights. Returns the
    /// names that it has no parameter for, of their type.
    pub fn bind(&mut self, values: &[(String, TensorData)]) -> Vec<String> {
        bind(&mut self.module, values)
    }

    /// Runs passes on as many threads as there are processors.
    ///
    /// # Errors
    /// What passes report as one; the program is then nothing in particular.
    pub fn run_passes(&mut self, pipeline: &Pipeline) -> Result<(), Error> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = RunOptions { threads, ..RunOptions::default() };
        let (module, registry) = (&mut self.module, self.registry);
        let report = run(pipeline, module, registry, options, &mut [], &mut std::io::sink())
            .map_err(|error| Diagnostic::error("E0733", error.to_string()))?;
        let failed = !matches!(report.outcome, Outcome::Done);
        if failed || report.diagnostics.has_errors() {
            return Err(Error::new(report.diagnostics, &self.module.sources));
        }
        self.found.extend(report.diagnostics);
        match verify(&self.module, self.registry) {
            Ok(_) => Ok(()),
            Err(errors) => Err(Error::new(errors, &self.module.sources)),
        }
    }

    /// The program, ready to run. The model stays as it is, for other targets.
    ///
    /// # Errors
    /// What cannot be lowered or compiled, and programs that need more memory than there is.
    pub fn compile(&mut self, options: &BuildOptions<'_>) -> Result<Program, Error> {
        let module = self.module.clone();
        let built = Program::build(module, self.registry, options, &mut self.found);
        let failed = |errors| Error::new(errors, &self.module.sources);
        built.map(|(program, _)| program).map_err(failed)
    }

    /// The program, ready to run on inputs of any extents: where those of its parameters are `?` or shape
    /// parameters, it is compiled when it is called. The model stays as it is.
    pub fn versions<'a>(&self, options: BuildOptions<'a>) -> Versions<'a>
    where
        'r: 'a,
    {
        Versions::new(self.module.clone(), self.registry, options)
    }

    /// The program as it is.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Warnings and remarks so far.
    pub fn found(&self) -> &[Diagnostic] {
        &self.found
    }
}

/// Puts the gradient in the place of the operator `grad`, in what function `entry` reaches. It comes before
/// whatever optimizes: a program says what is differentiated as it is written.
///
/// # Errors
/// When something that is differentiated has no gradient.
pub fn expand_grad(
    module: &mut Module,
    registry: &Registry,
    entry: &str,
) -> Result<(), Diagnostics> {
    let pipeline = Pipeline::from([Step::of::<ExpandGrad>().with("entry", entry.to_string())]);
    let options = RunOptions::default();
    let report = run(&pipeline, module, registry, options, &mut [], &mut std::io::sink())
        .map_err(|error| Diagnostic::error("E0733", error.to_string()))?;
    match report.diagnostics.has_errors() || !matches!(report.outcome, Outcome::Done) {
        true => Err(report.diagnostics),
        false => Ok(()),
    }
}
