//! From a schedule to loops.
//!
//! [`legality`](crate::schedule) says what loops there are and what is computed in them; *emission*
//! (`emit.rs`) writes them, outermost first.
//!
//! Where a loop was split by a factor that does not divide it, and where a region reaches beyond
//! its tensor, a *guard* keeps iterations in bounds. A guard is dropped where it always holds. It
//! is checked as far out as it can be: a tile that lies within its bounds as a whole runs without
//! checks, and vectorized and unrolled; only the tiles on the border check each element.
//!
//! A loop over an axis that ends at a count ends with it (`ends.rs`). Where what is computed beyond a
//! count does no harm, a tile of which a part is within is computed as a whole, as fast as any.
//!
//! A reduction along threads of a block is several loops over these that follow one another, with what they share
//! between (`combine.rs`).
//!
//! What a loop is to prefetch is asked for where an iteration begins (`prefetch.rs`).
//!
//! Loops nest at most [`MAX_DEPTH`] deep, so the functions here recurse over loops.

mod combine;
mod emit;
mod ends;
mod prefetch;
mod writer;

use ir_core::Item;

use crate::compute::counts::are_open;
use crate::loops::compact::compact;
pub use crate::schedule::legality::MAX_DEPTH;
use crate::schedule::legality::{bounds, check_attachments, check_combined, flatten, tensorize};
use crate::schedule::{Refused, Schedule};

/// The kernel that `schedule` makes: an item of kind [`KERNEL`](crate::loops::KERNEL) with the
/// inputs and then the results of the function as parameters. Loops are still marked vectorized and
/// unrolled. What ends at open counts is a [row of elements](crate::loops::compact). Refused where the loops
/// nest deeper than [`MAX_DEPTH`] or are too long to count, and where loops of an open function keep a
/// tensor.
pub fn lower(schedule: &Schedule) -> Result<Item, Refused> {
    check_combined(schedule)?;
    check_attachments(schedule)?;
    let flat = flatten::flatten(schedule);
    let mut nests = bounds::bounds(schedule, &flat)?;
    tensorize::tensorize(schedule, &flat, &mut nests)?;
    let mut kernel = emit::emit(schedule, &flat, nests)?;
    if are_open(&schedule.counts) {
        compact(&mut kernel)?;
    }
    Ok(kernel)
}
