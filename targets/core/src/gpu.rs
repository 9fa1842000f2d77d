//! Kernels for graphics processors: their default schedules, and how kernels become launches.
//!
//! - [`schedule`] gives each element a thread, products tiles in shared memory, and rows that are
//!   reduced the threads of a block;
//! - [`launches`] takes kernels apart where all threads have to wait for one another, so that **each
//!   kernel that is no list of calls is one launch**, and says of each how many blocks and threads it
//!   runs on. A program is a list of [calls](crate::calls) of these;
//! - [`faults`] finds what is certain to go wrong in one;
//! - [`plan`] says where the buffers of a program lie in the memory of a device;
//! - [`host`] writes what packages for devices have in common.
//!
//! Nothing here knows the language of a device.

pub mod faults;
pub mod host;
pub mod launches;
pub mod plan;
mod rows;
mod schedule;
mod tiles;

use ir_core::Body;
use te::loops::{Alloc, Scope};
use te::schedule::Schedule;

use crate::Gpu;

pub use schedule::schedule;

/// Threads of a block, where there is as much to do.
const BLOCK: i64 = 256;

/// Whether the device has what `schedule` asks for.
fn fits(schedule: &Schedule, gpu: &Gpu) -> bool {
    let Ok(kernel) = te::lower::lower(schedule) else { return false };
    let body = kernel.body.as_deref().expect("a kernel has a body");
    bytes_shared(body) <= gpu.shared_bytes as i64
}

/// Bytes of shared memory that the kernel `body` asks for.
fn bytes_shared(body: &Body) -> i64 {
    let allocs = body.walk().filter_map(|op| body.view::<Alloc>(op));
    let shared = allocs.filter(|alloc| alloc.scope == Scope::Shared);
    // Narrow numbers may take four bytes there, and what follows may have to be aligned.
    let bytes = shared.map(|alloc| {
        let each = alloc.dtype.bytes().max(4) as i64;
        let bytes = alloc.shape.iter().fold(each, |bytes, extent| bytes.saturating_mul(*extent));
        bytes.saturating_add(15) / 16 * 16
    });
    bytes.fold(0, i64::saturating_add)
}
