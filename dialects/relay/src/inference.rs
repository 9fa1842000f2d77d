//! Type inference: Hindley–Milner with type relations (Relay, arXiv 1904.08368, section 3.2).
//!
//! Every function is walked once in program order. An operator whose operand types are known gets
//! its result type from its relation on the spot, without variables; only what is really unknown
//! goes through unification, and a relation whose operands are open waits until a variable that
//! they mention becomes known.
//!
//! **Invariants**
//! - A type that a value has already is an annotation or from an earlier inference. It is kept,
//!   and what is found must fit it; inferring twice changes nothing.
//! - Functions with a complete declared type are used by it; the others are inferred in groups of
//!   mutual recursion, callees first, and generalised. A function value is polymorphic only in
//!   the type parameters that it declares, as in the original, which generalises nothing.
//! - The work is linear in the program, up to the depth of types, which is bounded: types are put
//!   together from parts that are not looked into again, and what is too deep is poisoned where
//!   it is found.
//! - One cause gives one diagnostic: what depends on something wrong gets an unknown type in
//!   silence.

mod checks;
mod codes;
mod engine;
pub(crate) mod environment;
mod extents;
mod finish;
mod forms;
mod join;
mod kinds;
mod order;
mod patterns;
mod rebuild;
pub(crate) mod signatures;
pub(crate) mod solver;

use std::sync::Arc;

use ir_core::{
    Body, Diagnostic, Diagnostics, FuncMut, Module, Registry, Signature, Signatures, Span, Symbol,
    Type,
};
use rustc_hash::FxHashMap;

pub use codes::CODES;
pub use environment::{DataTypes, Surroundings, data_types};
pub use join::TypeArguments;
pub use order::open_callees;
pub use signatures::{declared_type, is_callable};

use engine::Engine;
use environment::Environment;
use signatures::is_function;

/// Infers the type of every value and every function of `module`. Errors and warnings come back
/// in the order of their places; what could not be inferred stays unknown.
pub fn infer_module(module: &mut Module, registry: &Registry) -> Diagnostics {
    infer_counted(module, registry).0
}

/// The same, and how many steps it took: operations visited, relations tried, and parts of types
/// looked at.
pub fn infer_counted(module: &mut Module, registry: &Registry) -> (Diagnostics, u64) {
    let mut steps = 0;
    let mut known = Known::new(module.signatures());
    for (name, item) in &module.items {
        if let Some(body) = item.body.as_ref().filter(|_| is_function(&item.signature)) {
            known.functions.insert(*name, declared_type(&item.signature, body));
        }
    }
    let types = known.types();
    let declared = types.adts.keys();
    let mut diagnostics: Diagnostics = declared.flat_map(|name| types.check(*name)).collect();
    for group in order::groups(module) {
        let mut functions: Vec<(Symbol, Signature, Arc<Body>)> = Vec::new();
        for name in group {
            let item =
                module.items.get_mut(&name).expect("groups are of the functions of the module");
            if let Some(body) = item.body.take() {
                functions.push((name, item.signature.clone(), body));
            }
        }
        let (found, taken) = infer_group_counted(&mut functions, registry, &known);
        steps += taken;
        diagnostics.extend(found);
        for (name, signature, body) in functions {
            known.functions.insert(name, signature.ty);
            if let Some(item) = module.items.get_mut(&name) {
                item.signature = signature;
                item.body = Some(body);
            }
        }
    }
    in_source_order(&mut diagnostics);
    (diagnostics, steps)
}

/// Infers functions that refer to each other, or one function, given the types of those around
/// them. Diagnostics come in the order in which they are found.
pub fn infer_group(
    functions: &mut [(Symbol, Signature, Arc<Body>)],
    registry: &Registry,
    surroundings: &dyn Surroundings,
) -> Diagnostics {
    infer_group_counted(functions, registry, surroundings).0
}

fn infer_group_counted(
    functions: &mut [(Symbol, Signature, Arc<Body>)],
    registry: &Registry,
    surroundings: &dyn Surroundings,
) -> (Diagnostics, u64) {
    let env = Environment::new(registry, surroundings);
    let mut engine = Engine::new(&env);
    for (name, signature, body) in functions {
        engine.add(*name, signature, Arc::make_mut(body));
    }
    engine.run();
    (std::mem::take(&mut engine.diagnostics), engine.steps())
}

/// Infers one function, given the signatures of the others. Types that are there are kept; unknown
/// ones are filled in.
pub fn infer_function(function: &mut FuncMut<'_>) -> Diagnostics {
    let env = Environment::new(function.registry, function.signatures);
    let mut engine = Engine::new(&env);
    engine.add(function.name, function.signature, function.body);
    engine.run();
    let mut diagnostics = std::mem::take(&mut engine.diagnostics);
    in_source_order(&mut diagnostics);
    diagnostics
}

/// The types of the functions of a module whose inference goes on.
struct Known {
    signatures: Signatures,
    /// Types that are known better than their signature says.
    functions: FxHashMap<Symbol, Type>,
}

impl Known {
    fn new(signatures: Signatures) -> Known {
        Known { signatures, functions: FxHashMap::default() }
    }
}

impl Surroundings for Known {
    fn function(&self, name: Symbol) -> Option<(Type, Option<Span>)> {
        let (ty, span) = self.signatures.function(name)?;
        Some((self.functions.get(&name).copied().unwrap_or(ty), span))
    }

    fn functions(&self) -> Vec<Symbol> {
        self.signatures.functions()
    }

    fn types(&self) -> Arc<DataTypes> {
        data_types(&self.signatures)
    }
}

impl Surroundings for Signatures {
    fn function(&self, name: Symbol) -> Option<(Type, Option<Span>)> {
        let signature = self.get(&name).filter(|signature| is_callable(signature))?;
        Some((signature.ty, signature.span))
    }

    fn functions(&self) -> Vec<Symbol> {
        let functions = self.iter().filter(|(_, signature)| is_callable(signature));
        functions.map(|(name, _)| *name).collect()
    }

    fn types(&self) -> Arc<DataTypes> {
        data_types(self)
    }
}

/// Puts `diagnostics` in the order of their places.
pub fn in_source_order(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|diagnostic| {
        diagnostic.primary.as_ref().map(|label| (label.span.file, label.span.start))
    });
}
