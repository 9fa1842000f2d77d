//! What runs a function: compiled kernels, the loops of the kernels, interpreted, or the reference
//! interpreter, which runs every program.

use ir_core::{Diagnostic, Diagnostics, Module, Registry, Symbol};
use passes::codes::OPEN;
use relay::interpreter::{Interpreter, Options, Value};
use target_core::checks::FAILED;

use crate::profile::Profile;
use crate::versions::settle;
use crate::{Argument, MAIN, Program, memory};

/// The code of what a target says that finds no compiler.
const NO_COMPILER: &str = "E0903";

/// What runs a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executor {
    /// The reference interpreter.
    Interpreter,
    /// Compiled kernels on planned memory.
    Graph,
    /// The loops of the kernels, interpreted.
    Loops,
    /// `Graph` where the program can be compiled and there is a compiler, `Loops` where there is
    /// none, else the interpreter.
    Auto,
}

/// Builds a program, to be interpreted where the flag says so; warnings and remarks go to the list.
pub type Build<'a> = dyn Fn(Module, bool, &mut Diagnostics) -> Result<Program, Diagnostics> + 'a;

/// A function with what it runs on.
pub struct Runner<'a> {
    /// The program, typed and verified.
    pub module: &'a Module,
    /// What exists.
    pub registry: &'a Registry,
    /// The function. Compiled programs start at `@main`.
    pub function: &'a str,
    /// Values for its parameters. Those that are the same in every run are compiled in.
    pub arguments: Vec<Argument>,
    /// Ends a run of the reference interpreter after so many steps; `Auto` takes it then.
    pub step_limit: Option<u64>,
    /// Measures where the time goes, for so many seconds.
    pub profile: Option<f64>,
    /// Whether a program is built for any extents, rather than for those of the arguments.
    pub any_extents: bool,
    /// Builds the program.
    pub build: &'a Build<'a>,
}

/// What came of a run.
pub struct Ran {
    /// The result.
    pub value: Value,
    /// What ran it: `interp`, `graph` or `loops`.
    pub executor: &'static str,
    /// Where the time went, if that was asked for and there are kernels.
    pub profile: Option<Profile>,
}

impl Runner<'_> {
    /// Runs the function. Warnings, and why `Auto` took another way than `Graph`, go to `found`.
    ///
    /// # Errors
    /// When the program is none that `executor` runs, does not fit into memory, or fails.
    pub fn run(&self, executor: Executor, found: &mut Diagnostics) -> Result<Ran, Diagnostics> {
        match executor {
            Executor::Interpreter => self.interpret(),
            Executor::Graph => self.compiled(false, found),
            Executor::Loops => self.compiled(true, found),
            Executor::Auto if self.step_limit.is_some() => self.interpret(),
            Executor::Auto => self.first_that_can(found),
        }
    }

    fn first_that_can(&self, found: &mut Diagnostics) -> Result<Ran, Diagnostics> {
        let mut errors = match self.compiled(false, found) {
            Ok(ran) => return Ok(ran),
            Err(errors) => errors,
        };
        let has = |errors: &[Diagnostic], code: &str| errors.iter().any(|e| e.code == code);
        let remark = |message: &str, errors: Diagnostics| {
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
        if has(&errors, memory::TOO_LITTLE) || has(&errors, FAILED) {
            return Err(errors);
        }
        found.push(remark("the program runs in the interpreter", errors));
        self.interpret()
    }

    /// Runs the reference interpreter.
    fn interpret(&self) -> Result<Ran, Diagnostics> {
        if let Some(body) = self.module.body(Symbol::new(self.function)) {
            // What branches and inner functions compute may never be.
            let results = body.block_ops(body.entry()).flat_map(|op| body.results(op));
            for value in results {
                memory::check(memory::bytes_of(body.ty(value)), "values of the program")?;
            }
        }
        let options = Options { step_limit: self.step_limit, ..Options::default() };
        let values = self.arguments.iter().map(|argument| argument.value.clone()).collect();
        let interpreter = Interpreter::new(self.module, self.registry).options(options);
        let value = interpreter.call(self.function, values)?;
        Ok(Ran { value, executor: "interp", profile: None })
    }

    /// Compiles the function and runs it, or interprets its loops.
    fn compiled(&self, interpret: bool, found: &mut Diagnostics) -> Result<Ran, Diagnostics> {
        let name = self.function;
        if name != MAIN {
            let message = format!("compiled programs start at @main, not at @{name}");
            return Err(Diagnostic::error("E0733", message).into());
        }
        let mut module = self.module.clone();
        let values: Vec<Value> = self.arguments.iter().map(|given| given.value.clone()).collect();
        let bound = match self.any_extents {
            true => vec![],
            false => settle(&mut module, self.registry, &values)?,
        };
        let (mut constants, mut inputs) = (Vec::new(), Vec::new());
        for (index, given) in self.arguments.iter().cloned().enumerate() {
            if bound.iter().any(|(other, _)| *other == index) {
                continue;
            }
            let Argument { name, value, constant } = given;
            match (constant, value) {
                (true, Value::Tensor(tensor)) => constants.push((name, tensor)),
                (_, value) => inputs.push(value),
            }
        }
        crate::bind(&mut module, &constants);
        let mut program = (self.build)(module, interpret, found)?;
        let run = |program: &mut Program| {
            program.set_arguments(&inputs)?;
            program.run()?;
            let value = program.result()?;
            let profile = self.profile.map(|seconds| program.profile(seconds)).transpose()?;
            Ok::<_, Diagnostics>((value, profile))
        };
        let (value, profile) = run(&mut program)?;
        let executor = if interpret { "loops" } else { "graph" };
        Ok(Ran { value, executor, profile })
    }
}

/// What a parameter is that compiled programs cannot have.
pub(crate) fn no_data(parameter: &str) -> Diagnostic {
    let message = format!(
        "parameter `{parameter}` is neither a tensor nor data: compiled programs take these"
    );
    Diagnostic::error("E0733", message)
}
