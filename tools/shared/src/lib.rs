//! relay-opt as a shared library, which its plugins are linked with. A plugin depends on this crate
//! and calls [`plugin!`]; see `docs/plugins.md`.

pub use tools::*;
