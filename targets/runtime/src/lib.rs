//! Compiles programs for a target, and runs them.

pub mod calibrate;
pub mod lowering;
pub mod memory;
pub mod peak;
pub mod profile;
mod program;
pub mod progress;

pub use program::{
    BuildOptions, BuildTimes, Fusion, Lowered, MAIN, Program, bind, lower, pipeline,
};
