//! The tensor-expression dialect: *what* is computed, kept apart from *how*.
//!
//! Three levels, one below the other, in one body representation:
//!
//! - [`compute`]: named multi-dimensional expressions over index variables, with reductions;
//! - [`schedule`]: how a compute function becomes loops, one primitive at a time;
//! - [`loops`]: loop nests over buffers. Targets see only this.
//!
//! The scalar arithmetic inside all of them is [`scalar`]. [`lower`] turns a compute function and
//! its schedule into loops, and [`interpreter`] gives the meaning of the first and the last, so
//! that "a schedule never changes results" is a property one can test.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::{DType, Registry, TensorData};
//! use te::{interpreter, lower::lower, schedule::Schedule};
//!
//! let registry = Registry::from([te::dialect()]);
//! let text = "te.func @double(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
//!   y[i < 4] = %x[i] + %x[i]
//!   return y
//! }";
//! let (module, found) = Form::Readable.parse("double.te", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! let function = module.get("double").expect("what was read");
//! let mut schedule = Schedule::new(function).expect("a compute function");
//! let y = schedule.stage("y").expect("its stage");
//! let (_, inner) = schedule.split(schedule.axes(y)[0], 2).expect("a loop");
//! schedule.unroll(inner).expect("a loop");
//! let kernel = lower(&schedule).expect("loops");
//!
//! let x = [TensorData::from_f64(DType::FLOAT32, &[4], &[1.0, 2.0, 3.0, 4.0]).expect("small")];
//! let body = |item: &ir_core::Item| item.body.clone().expect("a body");
//! let computed = interpreter::run_compute(&body(function), &x).expect("a value");
//! let looped = interpreter::run_kernel(&module, &body(&kernel), &x, 1).expect("a value");
//! assert_eq!(computed, looped);
//! ```

pub mod batch;
pub mod checks;
pub mod compute;
pub mod differentiate;
pub mod generate;
pub mod index;
pub mod interpreter;
pub mod loops;
pub mod lower;
pub mod rows;
pub mod scalar;
pub mod schedule;
pub mod text;

use ir_core::Dialect;

/// The dialect, for [`Registry::add_dialect`](ir_core::Registry::add_dialect).
pub fn dialect() -> Dialect {
    Dialect {
        name: "te",
        doc: "Tensor expressions, their schedules, and loops.",
        register: |registry| {
            scalar::register(registry);
            compute::register(registry, text::SYNTAX);
            loops::register(registry, text::SYNTAX);
            schedule::ops::register(registry, text::SCHEDULE_SYNTAX);
        },
    }
}
