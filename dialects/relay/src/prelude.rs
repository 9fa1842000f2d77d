//! The prelude: lists, options, trees and the functions over them, in the text format.

use ir_core::text::module::parse;
use ir_core::{Diagnostics, Module, Registry};

/// The file name of the prelude in locations.
pub const FILE: &str = "prelude.relay";

/// The text of the prelude.
pub const TEXT: &str = include_str!("prelude.relay");

/// The prelude as a module, types not inferred yet. `registry` must have the relay dialect.
/// Errors are those of parsing, which only another registry can cause.
pub fn prelude(registry: &Registry) -> Result<Module, Diagnostics> {
    match parse(FILE, TEXT, registry) {
        (module, diagnostics) if diagnostics.is_empty() => Ok(module),
        (_, diagnostics) => Err(diagnostics),
    }
}

/// Adds the items of the prelude that `module` does not define itself, before those that it does.
pub fn import(module: &mut Module, registry: &Registry) -> Result<(), Diagnostics> {
    let prelude = prelude(registry)?;
    module.sources.add(FILE, TEXT);
    let own = std::mem::replace(&mut module.items, prelude.items);
    for (name, item) in own {
        module.items.insert(name, item);
    }
    Ok(())
}
