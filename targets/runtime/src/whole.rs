//! Running programs that own what they compute with.

use std::ops::Range;

use ir_core::{Diagnostic, Diagnostics, LocData, Module};
use prog::sites::Site;
use target_core::checks::FAILED;
use target_core::{ALIGNMENT, Buffer, Executable};

use crate::{MAIN, memory};

/// How much larger a block is than the one that was too small.
const GROWTH: usize = 4;

/// The largest block: addresses in it are counted in 32 bits, in multiples of 16 bytes, and so are the
/// owners of anything.
const LARGEST: usize = 1 << 35;

/// What a program runs on besides its buffers, of which the last one is its state.
pub(crate) struct Whole {
    /// How much of the block is its own; then comes the data that it takes.
    own: usize,
    /// The data that it takes.
    taken: Vec<u8>,
    /// Where in the block data is that it gave.
    given: Range<usize>,
    /// Where it may fail.
    sites: Vec<Site>,
    /// The memory that it takes all of its own from.
    block: Buffer,
}

impl Whole {
    /// For the program of `module`, which needs `block` bytes at least.
    pub(crate) fn new(module: &Module, block: usize) -> Whole {
        let own = block.max(1).next_multiple_of(ALIGNMENT);
        let (taken, given, block) = (Vec::new(), 0..0, Buffer::zeroed(own));
        Whole { own, taken, given, sites: prog::sites::of(module), block }
    }

    /// Sets the data that it takes.
    pub(crate) fn set_data(&mut self, bytes: Vec<u8>) {
        self.taken = bytes;
        self.allocate(self.own);
    }

    /// The data that it gave.
    pub(crate) fn data(&self) -> &[u8] {
        self.block.as_ref().get(self.given.clone()).unwrap_or_default()
    }

    fn allocate(&mut self, own: usize) {
        // The old one is not needed meanwhile.
        self.block = Buffer::zeroed(0);
        self.block = Buffer::zeroed(own + self.taken.len());
        self.own = own;
        self.block.as_mut()[own..].copy_from_slice(&self.taken);
    }

    /// Runs the program on `buffers`, in a larger block where one is too small.
    ///
    /// # Errors
    /// Where it fails, and where it needs more memory than there is.
    pub(crate) fn run(
        &mut self,
        executable: &dyn Executable,
        buffers: &mut [Buffer],
    ) -> Result<(), Diagnostics> {
        loop {
            let bytes = self.own as i64;
            let (size, ..) = state(buffers)?.split_at_mut(8);
            size.copy_from_slice(&bytes.to_ne_bytes());
            executable.call_in(MAIN, buffers, &mut self.block)?;
            let state = state(buffers)?;
            match number(state, 1) {
                0 => {
                    let place = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
                    let (start, bytes) = (place(number(state, 2)), place(number(state, 3)));
                    self.given = start..start.saturating_add(bytes);
                    return Ok(());
                }
                1 => self.grow(number(state, 2))?,
                _ => return Err(self.failure(number(state, 2)).into()),
            }
        }
    }

    /// Takes a larger block, after the program failed at `site` for want of memory.
    fn grow(&mut self, site: i64) -> Result<(), Diagnostics> {
        let bytes = self.own.saturating_mul(GROWTH);
        // The rest is for everything else that runs, and for what the program does outside of it.
        let most = ir_core::memory::available().map_or(LARGEST, |bytes| LARGEST.min(bytes / 2));
        if bytes > most {
            let message = "the program ran out of memory".to_string();
            let block = ir_core::memory::human(self.own);
            let mut error = Diagnostic::error(memory::TOO_LITTLE, message)
                .note(format!("its values and pending calls take more than {block}"))
                .help("does every recursion end? If so, make the input smaller");
            if let Some(site) = self.site(site) {
                let function = site.function;
                error = error.at(site.loc.span(site.base));
                error =
                    error.note(format!("`@{function}` waits for the call that was one too many"));
            }
            return Err(error.into());
        }
        self.allocate(bytes);
        Ok(())
    }

    fn site(&self, number: i64) -> Option<&Site> {
        usize::try_from(number).ok().and_then(|number| self.sites.get(number))
    }

    fn failure(&self, site: i64) -> Diagnostic {
        let Some(site) = self.site(site) else {
            return Diagnostic::error(FAILED, "the program failed at an unknown place");
        };
        let message = format!("`@{}` failed: {}", site.function, site.message);
        let mut error = Diagnostic::error(FAILED, message).at(site.loc.span(site.base));
        if let LocData::Imported(node) = site.loc.data() {
            error = error.note(format!("made of the node `{node}`"));
        }
        error
    }
}

/// The bytes of the state of a program.
fn state(buffers: &mut [Buffer]) -> Result<&mut [u8], Diagnostics> {
    let last = buffers.last_mut().filter(|state| state.len() == 32);
    let missing = || Diagnostic::error("E0907", format!("`@{MAIN}` takes a state"));
    last.map(AsMut::as_mut).ok_or_else(|| missing().into())
}

fn number(state: &[u8], index: usize) -> i64 {
    let (numbers, _) = state.as_chunks::<8>();
    numbers.get(index).map_or(0, |bytes| i64::from_ne_bytes(*bytes))
}
