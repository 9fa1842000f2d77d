//! Compiles programs for a target and runs them, without a command line.
//!
//! ```
//! use runtime::{BuildOptions, DType, Error, Model, TensorData, pipelines, registry, target};
//!
//! fn main() -> Result<(), Error> {
//!     let registry = registry();
//!     let text = "def @main(%x: Tensor[(2, 3), float32]) { nn.relu(negative(%x)) }";
//!     let mut model = Model::parse("relu.relay", text, &registry)?;
//!     model.run_passes(&pipelines::o1())?;
//!     let target = target("c{threads=1}", &registry)?;
//!     let mut program = model.compile(&BuildOptions::new(&*target))?;
//!     let x = TensorData::from_f64(DType::FLOAT32, &[2, 3], &[-1.0, 2.0, -3.0, 4.0, -5.0, 6.0])?;
//!     let results = program.call(&[x])?;
//!     assert_eq!(results[0].to_f64(), [1.0, 0.0, 3.0, 0.0, 5.0, 0.0]);
//!     Ok(())
//! }
//! ```
//!
//! - [`registry`]: all that exists, to which a program of your own adds;
//! - [`Model`]: a program on which passes run, and that is compiled; [`pipelines`] has the passes that
//!   levels of optimization stand for;
//! - [`Program`]: compiled kernels on memory that was planned;
//! - [`Versions`]: a program with extents that its inputs decide, compiled for each choice of them;
//! - [`package`]: a program as files that others build, without us;
//! - [`Runner`]: whatever runs a program, the reference interpreter too, on arguments that
//!   [`Parameters`] find in files or fill with random numbers;
//! - [`training`]: a loss that is trained on data;
//! - [`lowering`]: the steps in between, for who looks at them;
//! - [`profile`], [`peak`] and [`calibrate`]: where the time goes, and what the machine can do;
//! - [`progress`]: how far long work is.

pub mod arguments;
mod bounds;
pub mod calibrate;
pub mod codes;
mod error;
mod evaluators;
pub mod executor;
mod interface;
pub mod lowering;
pub mod memory;
mod model;
mod package;
pub mod peak;
pub mod profile;
mod program;
pub mod progress;
mod rows;
pub mod training;
mod versions;
mod whole;

use target_core::{AddTarget, Target, targets};

pub use arguments::{Argument, Parameter, Parameters};
pub use error::Error;
pub use executor::{Executor, Runner};
pub use ir_core::pipeline::Pipeline;
pub use ir_core::{DType, Diagnostic, Module, Registry, TensorData};
pub use model::{Model, expand_grad};
pub use package::{Package, package};
pub use passes::bounds::Bound;
pub use passes::pipelines;
pub use passes::pipelines::Fusion;
pub use program::{BuildOptions, BuildTimes, Lowered, MAIN, Program, bind, lower, pipeline};
pub use versions::Versions;

/// Everything that comes with this compiler: the dialects, the passes with their named pipelines, and
/// the targets. A program of your own starts from this and adds to it.
pub fn registry() -> Registry {
    let mut registry = Registry::from([te::dialect(), prog::dialect(), relay_operators::dialect()]);
    passes::register(&mut registry);
    registry.add_target(target_c::registration());
    registry.add_target(target_spirv::registration());
    registry.add_target(target_ptx::registration());
    registry
}

/// The target that `text` names and configures, such as `c` for this machine, or
/// `c{isa=avx2,threads=4}`.
///
/// # Errors
/// When there is no such target, or it has no such options.
pub fn target(text: &str, registry: &Registry) -> Result<Box<dyn Target>, Error> {
    Ok(targets(registry).parse(text)?)
}
