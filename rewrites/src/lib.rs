//! Rewrite rules as text, and the strategies that apply them.
//!
//! One rule language feeds every strategy: a greedy driver that edits a body in place, and
//! equality saturation, which collects the consequences of all rules in an e-graph and extracts the
//! cheapest program. This crate knows operations by hook, and by the names in rules that dialects
//! register; it has no rules of its own.
//!
//! - [`rule`], [`parse`], [`print`](mod@print): the language;
//! - [`family`]: rules about any number of values of one kind;
//! - [`expression`], [`functions`]: side conditions and computed attributes;
//! - [`library`]: the rules of a registry, and choosing rules by name;
//! - [`matching`], [`instantiate`]: finding the left side and typing the right side, in any graph;
//! - [`greedy`]: the greedy strategy, over a [`body_graph`], which [`compute`]s what depends on
//!   constants alone;
//! - [`eqsat`]: equality saturation: [`egraph`], [`snapshot`], [`saturate`], [`regroup`], [`cost`],
//!   [`extraction`], [`dump`];
//! - [`beam`]: a search over programs; [`strategy`]: which driver applies which rules, as text;
//! - [`proof`]: certificates of what drivers did, and checking them.
//!
//! ```
//! use ir_core::Registry;
//!
//! let registry = Registry::from([relay_operators::dialect()]);
//! let text = "rule twice exact: negative(negative(%x)) => %x;";
//! let (rules, found) = rewrites::parse::parse("my.rules", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! assert_eq!(rewrites::print::file(&rules).trim_end(), text);
//! ```

/// The rule that rewrites are by which compute what another rule made of constants.
pub const COMPUTE: &str = "compute";

pub mod beam;
pub mod body_graph;
pub mod codes;
pub mod compute;
pub mod cost;
pub mod dump;
pub mod egraph;
pub mod eqsat;
pub mod expression;
pub mod extraction;
pub mod family;
pub mod functions;
pub mod greedy;
pub mod instantiate;
pub mod library;
pub mod matching;
pub mod parse;
pub mod print;
pub mod proof;
pub mod regroup;
pub mod rule;
pub mod saturate;
pub mod snapshot;
pub mod strategy;
