//! What a program computes, for comparing it before and after passes.

use indexmap::IndexMap;
use ir_core::pipeline::Oracle;
use ir_core::{DTypeKind, Diagnostic, Module, Registry, Symbol, TensorData};
use relay::interpreter::{Interpreter, Value};
use relay::language::FUNC;

use super::fill::Random;

/// Runs functions on random inputs: `main` where there is one, else every function whose
/// parameters are tensors and tuples of known types.
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
        let main = module.items.get_key_value(&Symbol::new("main"));
        let mut calls = Vec::new();
        let all = module.items.iter().filter(|_| main.is_none());
        for (name, item) in main.into_iter().chain(all) {
            let function = match item.signature.ty.as_function() {
                Some(function) if item.signature.op == FUNC => function,
                _ => continue,
            };
            for trial in 0..self.count {
                let arguments = function.params.iter().enumerate().map(|(index, ty)| {
                    Random::new(u64::from(trial), &format!("{name}.{index}")).value(*ty)
                });
                match arguments.collect::<Result<Vec<_>, String>>() {
                    Ok(arguments) => calls.push((*name, arguments)),
                    Err(message) if main.is_some() => {
                        let message = format!("cannot run @{name}: {message}");
                        return Err(
                            Diagnostic::error("E0730", message).at(item.signature.span)
                        );
                    }
                    Err(_) => break,
                }
            }
        }
        Ok(calls)
    }
}

impl Oracle for Trials {
    /// Results by function and trial.
    type Results = IndexMap<(Symbol, usize), Value>;

    fn evaluate(
        &mut self,
        module: &Module,
        registry: &Registry,
    ) -> Result<Self::Results, Diagnostic> {
        let calls = match self.calls.take() {
            Some(calls) => calls,
            None => self.choose(module)?,
        };
        let interpreter = Interpreter::new(module, registry);
        let mut results = IndexMap::new();
        let mut failed = None;
        for (index, (name, arguments)) in calls.iter().enumerate() {
            // A pass may remove a function that nothing calls.
            if module.get(name.as_str()).is_none() && name.as_str() != "main" {
                continue;
            }
            match interpreter.call(*name, arguments.clone()) {
                Ok(value) => {
                    results.insert((*name, index), value);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.calls = Some(calls);
        failed.map_or(Ok(results), Err)
    }

    fn difference(&self, expected: &Self::Results, now: &Self::Results) -> Option<String> {
        expected.iter().find_map(|(key, expected)| {
            let difference = value_difference(expected, now.get(key)?)?;
            Some(format!("@{} returned {difference}", key.0))
        })
    }
}

/// How `now` differs from `expected` by more than rounding. Functions and references are not
/// compared.
fn value_difference(expected: &Value, now: &Value) -> Option<String> {
    let mut pending = vec![(expected.clone(), now.clone())];
    while let Some((expected, now)) = pending.pop() {
        match (&expected, &now) {
            (Value::Tensor(a), Value::Tensor(b)) => {
                if let Some(difference) = tensor_difference(a, b) {
                    return Some(difference);
                }
            }
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                pending.extend(a.iter().cloned().zip(b.iter().cloned()));
            }
            (Value::Data(a), Value::Data(b))
                if a.constructor == b.constructor && a.fields.len() == b.fields.len() =>
            {
                pending.extend(a.fields.iter().cloned().zip(b.fields.iter().cloned()));
            }
            (Value::Tensor(_) | Value::Tuple(_) | Value::Data(_), now) => {
                return Some(format!("{}, expected {}", now.describe(), expected.describe()));
            }
            _ => {}
        }
    }
    None
}

fn tensor_difference(expected: &TensorData, now: &TensorData) -> Option<String> {
    if expected.ty() != now.ty() {
        return Some(format!("{}, expected {}", now.ty(), expected.ty()));
    }
    // Bounds on the rounding of a few hundred operations in the element type.
    let (relative, absolute) = match (expected.dtype().kind(), expected.dtype().bits()) {
        (DTypeKind::Float, 64) => (1e-9, 1e-12),
        (DTypeKind::Float, 32) => (1e-4, 1e-5),
        (DTypeKind::Float | DTypeKind::BFloat, _) => (2e-2, 1e-2),
        _ => (0.0, 0.0),
    };
    let pairs = expected.elements().zip(now.elements());
    pairs.enumerate().find_map(|(index, (a, b))| {
        let (a, b) = (a.as_f64(), b.as_f64());
        let close = a == b
            || (a.is_nan() && b.is_nan())
            || (a - b).abs() <= absolute + relative * a.abs().max(b.abs());
        (!close).then(|| format!("{b} for element {index} of {}, expected {a}", expected.ty()))
    })
}
