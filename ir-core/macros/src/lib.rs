//! Derive macros that turn declared fields into operations and passes.
//!
//! The macros are pure syntax: everything they produce can be written by hand against the public
//! interface of `ir-core`, and `cargo expand` shows it.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attributes;
mod fields;
mod op;
mod pass;

/// Makes a struct an operation.
///
/// ```ignore
/// /// `data · weightᵀ`.
/// #[derive(Op)]
/// #[op(name = "relay.nn.dense", infer = dense_relation, hooks(Pattern::OutFusable))]
/// pub struct Dense<V = ValueId> {
///     /// `(…, k)`.
///     pub data: V,
///     /// `(units, k)`.
///     pub weight: V,
///     /// Rows of the weight, to check it.
///     #[default(None)]
///     pub units: Option<i64>,
/// }
/// ```
///
/// Fields of type `V` are operands, and so are a last `Option<V>` (optional) or `Vec<V>` (any
/// number); all others are attributes of a type that implements `AttrValue`, required unless they
/// carry `#[default(…)]`, under their own name unless they carry `#[key = "…"]`. A field that carries
/// `#[flatten]` is a group of attributes, of a type that implements `AttrGroup`; its attributes stand
/// in its place. The struct's type parameter, if it has one, is the type of operands.
///
/// Keys of `#[op(…)]`: `name` (required); `traits(…)` and `effects(…)`, constants of `Traits` and
/// `Effects`; `infer`, a function `fn(Struct<Type>, &mut InferCx) -> Result<Type, Stop>`; `verify`
/// and `fold`, functions of the types in `registry`; `regions(name, …)`, with a last `name..` for
/// any number; `results(name, …)` likewise, or `results = 0`, for an operation that has not one
/// result; `open_attrs` to allow undeclared attributes; `hooks(…)`, expressions whose values are
/// attached as hooks.
#[proc_macro_derive(Op, attributes(op, default, key, flatten))]
pub fn derive_op(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    op::expand(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a struct a group of attributes that several operations have.
///
/// ```ignore
/// /// Where the windows of an operation are.
/// #[derive(AttrGroup, Clone, Debug)]
/// pub struct Windows<const RANK: usize> {
///     /// Distance of neighbouring windows, per axis.
///     #[default(vec![1; RANK])]
///     pub strides: Vec<i64>,
/// }
///
/// /// The greatest element of each window.
/// #[derive(Op)]
/// #[op(name = "toy.greatest")]
/// pub struct Greatest<V = ValueId> {
///     /// The input.
///     pub data: V,
///     #[flatten]
///     pub windows: Windows<2>,
/// }
/// ```
///
/// The fields are attributes as those of an operation are, and further groups. In text, in messages
/// and on reference pages there are no groups: the operation has their attributes.
#[proc_macro_derive(AttrGroup, attributes(default, key, flatten))]
pub fn derive_attr_group(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::expand(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes a struct a pass whose options are its fields.
///
/// ```ignore
/// /// Groups operations into kernels.
/// #[derive(Pass)]
/// #[pass(name = "fuse", function)]
/// pub struct Fuse {
///     /// Most operations in a kernel.
///     #[default(256)]
///     pub max_depth: usize,
/// }
/// ```
///
/// Every field needs `#[default(…)]` and a type that implements `OptionValue`; its key in
/// pipelines is its name with `-` for `_`. The struct must implement `FunctionPass` (with
/// `function`) or `ModulePass` (with `module`).
#[proc_macro_derive(Pass, attributes(pass, default))]
pub fn derive_pass(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    pass::expand(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes the fields of a struct options, read from `key=value` text like those of a pass.
///
/// ```ignore
/// #[derive(Options)]
/// #[options(of = "target `c`")]
/// pub struct COptions {
///     /// Lanes of a `float32` vector.
///     #[default(None)]
///     pub width: Option<usize>,
/// }
/// ```
///
/// `of` is how messages call what the options belong to.
#[proc_macro_derive(Options, attributes(options, default))]
pub fn derive_options(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    pass::expand_options(input).unwrap_or_else(|error| error.to_compile_error()).into()
}
