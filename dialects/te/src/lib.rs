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

pub mod checks;
pub mod compute;
pub mod generate;
pub mod index;
pub mod interpreter;
pub mod loops;
pub mod lower;
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
