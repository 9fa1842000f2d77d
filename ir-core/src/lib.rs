//! The generic core: bodies in arenas, interned types and attributes, a registry of operations
//! and passes, text, verification, diagnostics, and the pass manager.
//!
//! This crate knows no dialect. The data flows one way: text is parsed into a [`Module`] of
//! [`Item`]s, each with a [`Body`] of its own; passes edit one body at a time through
//! [`FuncMut`], or the module; what is verified can be printed or handed to a target.
//!
//! ```
//! use ir_core::text::{parse, print};
//! use ir_core::{ItemDef, Op, Registry, ValueId, verify};
//!
//! /// The number with the other sign.
//! #[derive(Op, Clone, Debug)]
//! #[op(name = "toy.negate")]
//! struct Negate<V = ValueId> {
//!     /// The number.
//!     number: V,
//! }
//!
//! /// The end of a function.
//! #[derive(Op, Clone, Debug)]
//! #[op(name = "toy.return", traits(TERMINATOR), results = 0)]
//! struct Return<V = ValueId> {
//!     /// What it gives.
//!     value: V,
//! }
//!
//! let mut registry = Registry::default();
//! registry.add_item(ItemDef::new("toy.function", "A function."));
//! registry.op::<Negate>();
//! registry.op::<Return>();
//! let text = r#""toy.function" @twice : float32 {
//!   ^(%x: float32):
//!   %0 = "toy.negate"(%x) : (float32) -> float32
//!   %1 = "toy.negate"(%0) : (float32) -> float32
//!   "toy.return"(%1) : (float32) -> ()
//! }
//! "#;
//! let (module, found) = parse("toy.ir", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! assert!(verify(&module, &registry).is_ok());
//! let mut printed = Vec::new();
//! print(&module, &registry, &mut printed).expect("memory takes what is written");
//! assert_eq!(String::from_utf8_lossy(&printed), text);
//! ```

// The derive macros name this crate by its outside name.
extern crate self as ir_core;

pub mod attributes;
pub mod body;
mod compact;
pub mod copy;
mod costs;
pub mod diagnostics;
pub mod dtype;
pub mod files;
pub mod fingerprint;
pub mod graph;
pub mod ids;
pub mod infer;
mod intern;
mod interrupt;
pub mod location;
pub mod memory;
pub mod module;
pub mod op;
pub mod pass;
pub mod pipeline;
pub mod random;
pub mod reduce;
pub mod registry;
pub mod rewriter;
pub mod rules;
pub mod tensor;
pub mod text;
pub mod types;
pub mod verify;

pub use attributes::{Attr, AttrData, AttrDict, AttrValue, Float};
pub use body::{
    Binding, Body, Decoder, Encoder, InsertPoint, MAX_OPERANDS, MAX_RESULTS, NameHint, OpParts,
    Rewrite, ValueDef, WatchOptions,
};
pub use copy::ValueMap;
pub use costs::{Arithmetic, CostTable, CostsByName};
pub use diagnostics::{Diagnostic, Diagnostics, Label, Severity};
pub use dtype::{DType, DTypeKind, SmallFloat};
pub use files::FilesRead;
pub use fingerprint::Fingerprint;
pub use ids::{BlockId, EntityId, OpId, RegionId, UseId, ValueId};
pub use infer::{InferCx, Stop};
pub use intern::Symbol;
pub use interrupt::Interrupt;
pub use location::{Loc, LocData, SourceMap, Span};
pub use module::{Item, Module, Signature, Signatures};
pub use op::{AttrGroup, Op, OpFields};
pub use pass::{FunctionPass, ModulePass, Options, Pass, PassContext, PassResult};
pub use random::{Magnitudes, Random, Spread};
pub use registry::{Dialect, Effects, ItemDef, OpDef, OpInfo, Registry, Traits};
pub use rewriter::FuncMut;
pub use rules::{Fill, KernelRole, RuleArgument, RuleFunction, Work, is_large_fill};
pub use smallvec::SmallVec;
pub use tensor::{Scalar, TensorData};
pub use types::{
    Dim, DimExpr, DimExprData, DimFacts, DimOp, FunctionType, TensorType, Type, TypeData, TypeParam,
};
pub use verify::{Verified, verify};

/// Derives [`AttrGroup`](trait@AttrGroup) from a struct of attributes.
pub use ir_macros::AttrGroup;
/// Derives [`Op`](trait@Op) and [`OpFields`] from a struct of operands and attributes.
pub use ir_macros::Op;
/// Derives [`Options`](trait@Options) from a struct of options.
pub use ir_macros::Options;
/// Derives [`Pass`](trait@Pass) from a struct of options.
pub use ir_macros::Pass;
