//! What a program computes, for comparing it before and after passes.

use indexmap::IndexMap;
use ir_core::pipeline::Oracle;
use ir_core::{Diagnostic, Module, Registry, Symbol};
use relay::interpreter::{Interpreter, Options, Value, approx_equal, random_arguments};
use relay::language::FUNC;

/// Ends the trial of a program that does not end: hours of tensor work need fewer steps.
const STEP_LIMIT: u64 = 100_000_000;
/// Bounds on what rounding may change.
const RELATIVE: f64 = 1e-4;
const ABSOLUTE: f64 = 1e-5;

/// Runs functions on random inputs: `main` where there is one, else every function that takes
/// data only.
pub(super) struct Trials {
    count: u32,
    /// The calls, chosen from the first module.
    calls: Option<Vec<(Symbol, Vec<Value>)>>,
}

impl Trials {
    /// `count` trials for each function.
    pub(super) fn new(count: u32) -> Trials {
        Trials { count, calls: None }
    }

    fn choose(&self, module: &Module) -> Result<Vec<(Symbol, Vec<Value>)>, Diagnostic> {
        let signatures = module.signatures();
        let main = signatures.get_key_value(&Symbol::new("main"));
        let others = signatures.iter().filter(|_| main.is_none());
        let mut calls = Vec::new();
        for (name, signature) in main.into_iter().chain(others) {
            let function = match signature.ty.as_function() {
                Some(function) if signature.op == FUNC => function,
                _ => continue,
            };
            for seed in 0..self.count {
                match random_arguments(function, &signatures, u64::from(seed)) {
                    Ok(arguments) => calls.push((*name, arguments)),
                    Err(message) if main.is_some() => {
                        let message = format!("cannot run @{name}: {message}");
                        return Err(Diagnostic::error("E0730", message).at(signature.span));
                    }
                    Err(_) => break,
                }
            }
        }
        Ok(calls)
    }
}

impl Oracle for Trials {
    /// Results by the place of the call.
    type Results = IndexMap<usize, (Symbol, Value)>;

    fn evaluate(
        &mut self,
        module: &Module,
        registry: &Registry,
    ) -> Result<Self::Results, Diagnostic> {
        if self.calls.is_none() {
            self.calls = Some(self.choose(module)?);
        }
        let options = Options { step_limit: Some(STEP_LIMIT), ..Options::default() };
        let interpreter = Interpreter::new(module, registry).options(options);
        let mut results = IndexMap::new();
        for (index, (name, arguments)) in self.calls.iter().flatten().enumerate() {
            // A pass may remove a function that nothing calls.
            if *name == "main" || module.items.contains_key(name) {
                let value = interpreter.call(*name, arguments.clone())?;
                results.insert(index, (*name, value));
            }
        }
        Ok(results)
    }

    fn difference(&self, expected: &Self::Results, now: &Self::Results) -> Option<String> {
        expected.iter().find_map(|(index, (name, expected))| {
            let (_, found) = now.get(index)?;
            let mismatch = approx_equal(found, expected, RELATIVE, ABSOLUTE).err()?;
            Some(format!("@{name} on random input {index}: {mismatch}"))
        })
    }
}
