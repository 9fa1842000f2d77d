//! An interpreter of PTX: what the text means, without a device.
//!
//! It reads the text, not what it was made of, and covers the instructions that the generator writes
//! (`functions` has them). It is stricter than a device. These end a run with an error that names the
//! line, the block and the thread:
//!
//! - an access outside of its buffer, or at no multiple of its size;
//! - a read of a register or of memory that nothing was written to;
//! - a barrier at which not all threads of the block arrive;
//! - a race, on request: two threads use an element, one stores it, and no barrier lies between.
//!
//! Threads of a block run one after the other, from barrier to barrier, in an [`Order`] that the
//! caller chooses. A right program gives the same in every one, but for the rounding of atomic sums.
//!
//! What it reads of the manual is what the generator reads of it. That the text has the right syntax
//! and types says `ptxas`; that a device agrees, only a device.

mod decode;
mod functions;
mod machine;
mod memory;

use ir_core::{Diagnostic, Diagnostics};
use te::interpreter::Order;

pub use decode::Program;
pub use memory::Memory;

/// Threads along each axis, of a grid in blocks or of a block.
pub type Extents = [u32; 3];

/// How a run goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The order of blocks, and of the threads of a block between two barriers.
    pub order: Order,
    /// Whether races are errors. That takes some 30 bytes for each byte of memory.
    pub check_races: bool,
    /// The most instructions that all threads together may take; `None` for no bound.
    pub step_limit: Option<u64>,
}

/// Why a run ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Trap {
    message: String,
    /// The number of the instruction.
    at: usize,
}

impl Program {
    /// Runs the entry `entry` on a grid of `grid` blocks, with a pointer into `memory` for each
    /// parameter. The number of instructions that the threads took.
    ///
    /// # Errors
    /// `E0925` where the program is not what the module comment asks for, or there is no such entry.
    pub fn run(
        &self,
        entry: &str,
        grid: Extents,
        pointers: &[u64],
        memory: &mut Memory,
        options: Options,
    ) -> Result<u64, Diagnostics> {
        let error = |message: String| Diagnostics::from(Diagnostic::error("E0925", message));
        let Some(found) = self.entries.get(entry) else {
            return Err(error(format!("the module has no entry `{entry}`")));
        };
        if found.parameters.len() != pointers.len() {
            let (expected, given) = (found.parameters.len(), pointers.len());
            return Err(error(format!("`{entry}` takes {expected} pointers, found {given}")));
        }
        machine::run(self, found, grid, pointers, memory, options).map_err(
            |(trap, block, thread)| {
                let line = found.lines[trap.at.min(found.lines.len() - 1)];
                let text = self.text.lines().nth(line).unwrap_or_default().trim();
                let (line, place) = (line + 1, format!("block {block:?}, thread {thread:?}"));
                let error =
                    Diagnostic::error("E0925", format!("`{entry}`, line {line}: {}", trap.message));
                error.note(format!("the line: {text}")).note(place).into()
            },
        )
    }
}
