//! The relay dialect: a purely functional, statically typed tensor language.
//!
//! - [`language`]: the forms of the language as operations (call, fn, if, match, let's values …);
//! - [`define`]: operators as tensor expressions;
//! - [`text`]: the text syntax;
//! - [`inference`]: what types values have;
//! - [`interpreter`]: the reference interpreter, the oracle of every pass and backend;
//! - [`builder`]: programs built operation by operation.
//!
//! What the operators are, the language does not know: they are a crate of their own,
//! `relay-operators`, whose dialect is the whole one.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::Registry;
//! use relay::inference::infer_module;
//! use relay::interpreter::Interpreter;
//!
//! let mut registry = Registry::default();
//! relay::register(&mut registry);
//! let text = "def @main() { let %swap = fn (%pair) { (%pair.1, %pair.0) }; %swap((1, True)) }";
//! let (mut module, found) = Form::Readable.parse("swap.relay", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! assert!(infer_module(&mut module, &registry).is_empty());
//! let main = module.get("main").expect("what was read");
//! assert_eq!(main.signature.ty.to_string(), "fn () -> (bool, int32)");
//! let value = Interpreter::new(&module, &registry).call("main", vec![]).expect("a value");
//! assert_eq!(value.to_string(), "(True, 1)");
//! ```

pub mod builder;
pub mod define;
pub mod inference;
pub mod interpreter;
pub mod language;
pub mod prelude;
pub mod text;
pub mod types;

/// Adds the forms of the language and its text. The whole dialect, `relay_operators::dialect()`, has
/// operators too.
pub fn register(registry: &mut ir_core::Registry) {
    language::register(registry);
    registry.add_syntax(&text::RelaySyntax);
}
