//! The interpreter as a device.

use ir_core::{Diagnostic, Diagnostics};
use target_core::calls::Local;

use super::{Device, bytes_of};
use crate::codegen::Entry;
use crate::interpreter::{Memory, Options, Program};

/// A module of PTX in the interpreter. Every buffer is memory of its own, so that an access outside of
/// one is seen.
pub struct Interpreted {
    program: Program,
    memory: Memory,
    options: Options,
}

impl Interpreted {
    /// The module `text`. Errors (`E0925`) are those of [`Program::parse`].
    pub fn new(text: &str, options: Options) -> Result<Interpreted, Diagnostics> {
        Ok(Interpreted { program: Program::parse(text)?, memory: Memory::new(), options })
    }
}

/// An address that the memory did not give.
fn unknown(address: u64) -> Diagnostics {
    Diagnostic::error("E0925", format!("no buffer is at {address:#x}")).into()
}

impl Device for Interpreted {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Diagnostics> {
        Ok(self.memory.allocate(bytes))
    }

    fn locals(&mut self, locals: &[Local]) -> Result<Vec<u64>, Diagnostics> {
        locals.iter().map(|local| self.allocate(bytes_of(local.ty))).collect()
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Diagnostics> {
        self.memory.store(to, bytes).ok_or_else(|| unknown(to))
    }

    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Diagnostics> {
        let stored = self.memory.bytes(from).filter(|stored| stored.len() == bytes.len());
        bytes.copy_from_slice(stored.ok_or_else(|| unknown(from))?);
        Ok(())
    }

    fn forget(&mut self, address: u64) {
        self.memory.forget(address);
    }

    fn launch(&mut self, entry: &Entry, buffers: &[u64]) -> Result<(), Diagnostics> {
        // The generator refuses what has more.
        let blocks = entry.launch.blocks.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        self.program.run(&entry.name, blocks, buffers, &mut self.memory, self.options).map(drop)
    }
}
