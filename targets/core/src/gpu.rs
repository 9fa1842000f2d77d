//! Kernels for graphics processors: their default schedules, and how kernels become launches.
//!
//! - [`schedule`] gives each element a thread, and products tiles in shared memory;
//! - [`launches`] takes kernels apart where all threads have to wait for one another, so that **each
//!   kernel that is no list of calls is one launch**, and says of each how many blocks and threads it
//!   runs on. A program is a list of [calls](crate::calls) of these.
//!
//! Nothing here knows the language of a device.

pub mod launches;
mod schedule;
mod tiles;

pub use schedule::schedule;
