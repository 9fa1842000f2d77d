//! The text syntax of the relay dialect, version 0.0.5.
//!
//! What the original system printed is read, its printer defects included where the meaning is
//! clear; what is printed reads back as the same module. Parsing and printing are linear and walk
//! with explicit stacks, so neither length nor nesting of a program is limited by the native
//! stack.

pub mod codes;

mod attributes;
mod cursor;
mod declarations;
mod expressions;
mod literals;
mod metadata;
mod names;
mod parser;
mod patterns;
mod printer;
mod sinking;
mod types;

use std::io;

use ir_core::{Diagnostic, Module, Registry};

pub use printer::PrintOptions;

/// The version of the text format.
pub const VERSION: &str = "0.0.5";

/// The kind of an item that is a function of the original's tensor-level language: text that is
/// kept, and not understood.
pub const EXTERNAL: &str = "relay.external";

/// The type of a reference to an [`EXTERNAL`] item. Nothing but `vm.invoke_tvm_op` takes one.
pub const EXTERNAL_TYPE: &str = "tir.PrimFunc";

/// The operations that are forms of the language: written with syntax of their own, not as calls.
const FORMS: [&str; 15] = [
    "constant",
    "global",
    "operator",
    "constructor",
    "construct",
    "call",
    "tuple",
    "tuple_get",
    "fn",
    "if",
    "match",
    "ref",
    "ref_read",
    "ref_write",
    "yield",
];

/// Reads `text`, the content of `file`. All errors are reported; a function with errors keeps its
/// signature and has no body.
pub fn parse(file: &str, text: &str, registry: &Registry) -> (Module, Vec<Diagnostic>) {
    parser::Parser::new(file, text, registry).run()
}

/// Writes `module`. Items of other dialects are written in the syntax that those registered, after
/// the items of this one; kinds without a syntax are left out. Errors are those of `out`.
pub fn print(
    module: &Module,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    printer::print(module, registry, options, out)
}
