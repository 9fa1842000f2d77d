//! The relay dialect: a purely functional, statically typed tensor language.
//!
//! - [`language`]: the forms of the language as operations (call, fn, if, match, let's values …);
//! - [`operators`]: the tensor operators, each declared in one place with its type relation,
//!   fusion pattern, evaluator, definition and documentation;
//! - [`define`]: operators as tensor expressions;
//! - [`arrays`]: files of named arrays;
//! - [`text`]: the text syntax;
//! - [`interpreter`]: the reference interpreter, the oracle of every pass and backend.

pub mod arrays;
pub mod define;
pub mod generate;
pub mod inference;
pub mod interpreter;
pub mod language;
pub mod operators;
pub mod prelude;
mod rules;
pub mod text;
pub mod types;

use ir_core::{Dialect, Registry};

/// The dialect, for [`Registry::add_dialect`].
pub fn dialect() -> Dialect {
    Dialect {
        name: "relay",
        doc: "A purely functional, statically typed tensor language.",
        register: |registry: &mut Registry| {
            language::register(registry);
            operators::register(registry);
            rules::register(registry);
        },
    }
}
