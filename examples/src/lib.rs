//! Extending the compiler from outside: the code of the pages "write a pass", "add an operator",
//! "add a dialect", "rewrite rules", "add a target" and "compile while you edit" of the documentation;
//! and graphs of well-known networks.

pub mod custom_dialect;
pub mod custom_operator;
pub mod custom_pass;
pub mod custom_rules;
pub mod custom_target;
pub mod editing;
pub mod graphs;

use ir_core::Registry;
use target_core::AddTarget;

/// Everything that `relay-opt` has, and the extensions of this crate.
pub fn registry() -> Registry {
    let mut registry = tools::registry();
    registry.add_dialect(custom_dialect::dialect());
    registry.op::<custom_operator::Swish>();
    registry.pass::<custom_pass::DropReluOfClip>();
    custom_rules::register(&mut registry);
    registry.pass::<custom_dialect::Unroll>();
    registry.add_target(custom_target::registration());
    registry
}
