//! Explanations: which rules, where, lead from a program to what drivers made of it, as text that
//! can be checked.
//!
//! Drivers tell a [`Recorder`] what they apply. It keeps terms of its own, and a forest of what was
//! united and why; from the result it goes back to the steps that are needed, and writes them.
//! [`replay`](replay::replay) makes each step again, from the terms of the program alone: it shares
//! matching by name ([`fit`]), conditions and typing with the drivers, and nothing of what they
//! found. Nothing is noted unless a recorder is there.

pub mod fit;
pub mod forest;
pub mod program;
pub mod record;
pub mod replay;
pub mod store;
pub mod terms;
pub mod text;

pub use record::Recorder;
