//! Pipelines: passes in order, written as text, run over a module.
//!
//! **Invariants**
//! - Pipeline text is the only configuration: [`Pipeline`], whether read or made of [`Step`]s, prints as
//!   text that parses back, and a named pipeline such as `O2` is nothing but text in the registry.
//! - The result of a run does not depend on the number of threads: bodies, findings and counters
//!   are merged in the order of the module's items.
//! - The driver knows no printer and no verifier; whatever watches a run is an [`Instrument`].

mod bisect;
mod build;
mod clock;
pub mod codes;
mod crash;
mod diff;
mod instrument;
mod parse;
mod print_ir;
mod provenance;
mod reproducer;
mod run;
mod statistics;
mod timing;
mod trace;
mod verify_each;
mod verify_semantics;

pub use bisect::BisectLimit;
pub use clock::{Clock, Working};
pub use crash::{Crash, catch_panic, take_backtrace};
pub use diff::{DiffForm, Stages, write_diff};
pub use instrument::{Instrument, StepCx, StepResult};
pub use parse::{Choice, PIPELINE_FILE, Pipeline, Step, choose};
pub use print_ir::{PrintIr, PrintModule, Selection};
pub use reproducer::{BrokenReproducer, Reproducer};
pub use run::{ItemRun, Outcome, Report, RunOptions, StepReport, is_left_alone, run};
pub use statistics::write_statistics;
pub use timing::Timing;
pub use trace::{TraceFilter, TraceRewrites};
pub use verify_each::VerifyEach;
pub use verify_semantics::{Oracle, VerifySemantics};
