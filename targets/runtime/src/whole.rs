//! Running programs that own what they compute with.

use std::time::Instant;

use ir_core::{Diagnostic, Diagnostics, LocData, Module, Registry, Symbol};
use prog::columns::{Filled, Layout};
use prog::sites::Site;
use rustc_hash::FxHashMap;
use target_core::checks::FAILED;
use target_core::whole::{Interface, State, Status, columns_in};
use target_core::{ALIGNMENT, Buffer, Executable};

use te::compute::Work;

use crate::evaluators::Evaluators;
use crate::profile::{self, Counted, Profile};
use crate::{MAIN, memory};

/// How much larger a block is than the one that was too small.
const GROWTH: usize = 4;

/// The largest block: addresses in it are counted in 32 bits, in multiples of 16 bytes, and so are the
/// owners of anything.
const LARGEST: usize = 1 << 35;

/// What a program runs on besides its buffers, of which the last one is its state.
pub(crate) struct Whole {
    /// How much of the block is its own; then come the columns that it takes.
    own: usize,
    /// The columns that it takes.
    taken: Vec<Filled>,
    /// The columns of what it gives.
    given: Vec<Layout>,
    /// Where it may fail.
    sites: Vec<Site>,
    /// What computes the operators that it leaves to others.
    operators: Evaluators,
    /// The memory that it takes all of its own from.
    block: Buffer,
    /// What it counts.
    counted: Vec<Counted>,
}

impl Whole {
    /// For the program of `module` with this interface, which needs `block` bytes at least.
    pub(crate) fn new(
        module: &Module,
        registry: &Registry,
        interface: Interface,
        block: usize,
    ) -> Whole {
        let own = block.max(1).next_multiple_of(ALIGNMENT);
        let taken = vec![Filled::default(); interface.taken.columns().count()];
        let given = interface.given.data;
        let (sites, counted) = (prog::sites::of(module), profile::counted(module));
        let operators = Evaluators::of(module, registry);
        Whole { own, taken, given, sites, operators, block: Buffer::zeroed(own), counted }
    }

    /// Sets the columns that it takes.
    pub(crate) fn set_data(&mut self, columns: Vec<Filled>) {
        self.taken = columns;
        self.allocate(self.own);
    }

    /// The columns that it gave; `state` is the last of its buffers. `None` where it gave none.
    pub(crate) fn data(&self, state: &Buffer) -> Option<Vec<(&[u8], usize)>> {
        let mut state = state.clone();
        let state = State::new(state.as_mut());
        let (mut columns, mut first) = (Vec::new(), self.taken.len());
        for layout in &self.given {
            let range = first..first + layout.columns.len();
            first = range.end;
            columns.extend(columns_in(self.block.as_ref(), &state, range, layout)?);
        }
        Some(columns)
    }

    /// The memory that it ran in.
    pub(crate) fn block(&self) -> &[u8] {
        self.block.as_ref()
    }

    /// Where the time of a run goes, measured for some seconds and three runs at least.
    ///
    /// # Errors
    /// Where a run fails, and where the program was not built for that.
    pub(crate) fn profile(
        &mut self,
        executable: &dyn Executable,
        buffers: &mut [Buffer],
        works: &FxHashMap<Symbol, Work>,
        seconds: f64,
    ) -> Result<Profile, Diagnostics> {
        if self.counted.is_empty() {
            let message = "the program was not built to be profiled";
            return Err(Diagnostic::error("E0733", message).into());
        }
        let columns =
            self.taken.len() + self.given.iter().map(|layout| layout.columns.len()).sum::<usize>();
        let (mut runs, begin) = (Vec::new(), Instant::now());
        // The first run may have to find out how large its block is.
        self.run(executable, buffers)?;
        while runs.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
            self.run(executable, buffers)?;
            let state = State::new(last(buffers)?);
            runs.push((0..self.counted.len()).map(|one| state.counter(columns, one)).collect());
        }
        Ok(profile::of_counts(&self.counted, works, &runs))
    }

    /// Takes a block of which so many bytes are the program's.
    fn allocate(&mut self, own: usize) {
        // The old one is not needed meanwhile.
        self.block = Buffer::zeroed(0);
        let columns = self.taken.iter().map(|one| one.bytes.len().next_multiple_of(ALIGNMENT));
        self.block = Buffer::zeroed(own + columns.sum::<usize>());
        self.own = own;
        let mut start = own;
        for Filled { bytes, .. } in &self.taken {
            self.block.as_mut()[start..start + bytes.len()].copy_from_slice(bytes);
            start += bytes.len().next_multiple_of(ALIGNMENT);
        }
    }

    /// Tells the program of its block.
    fn describe(&self, state: &mut State<'_>) {
        state.set_own(self.own);
        let mut start = self.own;
        for (index, Filled { bytes, count }) in self.taken.iter().enumerate() {
            state.set_column(index, start, *count);
            start += bytes.len().next_multiple_of(ALIGNMENT);
        }
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
            self.describe(&mut State::new(last(buffers)?));
            executable.call_in(MAIN, buffers, &mut self.block, &mut self.operators)?;
            match State::new(last(buffers)?).end() {
                (Status::Done, _) => return Ok(()),
                (Status::Small, site) => self.grow(site)?,
                (Status::Failed, site) => return Err(self.failure(site).into()),
                (Status::Misfit, _) => {
                    let message = "an input that is data is none of its type";
                    return Err(Diagnostic::error("E0733", message).into());
                }
            }
        }
    }

    /// Takes a larger block, after the program failed at `site` for want of memory.
    fn grow(&mut self, site: Option<usize>) -> Result<(), Diagnostics> {
        let bytes = self.own.saturating_mul(GROWTH);
        // The rest is for everything else that runs, and for what the program does outside of it.
        let most = ir_core::memory::available().map_or(LARGEST, |bytes| LARGEST.min(bytes / 2));
        if bytes > most {
            let message = "the program ran out of memory".to_string();
            let block = ir_core::memory::human(self.own);
            let mut error = Diagnostic::error(memory::TOO_LITTLE, message)
                .note(format!("its values and pending calls take more than {block}"))
                .help("does every recursion end? If so, make the input smaller");
            if let Some(site) = site.and_then(|site| self.sites.get(site)) {
                error = error.at(site.loc.span(site.base));
                error = error.note(format!("in `@{}`: {}", site.function, site.message));
            }
            return Err(error.into());
        }
        self.allocate(bytes);
        Ok(())
    }

    fn failure(&mut self, site: Option<usize>) -> Diagnostic {
        let why = self.operators.take_failure();
        let Some(site) = site.and_then(|site| self.sites.get(site)) else {
            return Diagnostic::error(FAILED, "the program failed at an unknown place");
        };
        match why {
            Some(why) => imported(why.at(site.loc.span(site.base)), site),
            None => failure_at(site),
        }
    }
}

/// The error that a program failed at `site`.
pub(crate) fn failure_at(site: &Site) -> Diagnostic {
    let message = format!("`@{}` failed: {}", site.function, site.message);
    imported(Diagnostic::error(FAILED, message).at(site.loc.span(site.base)), site)
}

/// `error`, which is at `site`, with the node of the model that it was made of.
fn imported(mut error: Diagnostic, site: &Site) -> Diagnostic {
    if let LocData::Imported(node) = site.loc.data() {
        error = error.note(format!("made of the node `{node}`"));
    }
    error
}

/// The bytes of the state of a program.
fn last(buffers: &mut [Buffer]) -> Result<&mut [u8], Diagnostics> {
    let state = buffers.last_mut().filter(|state| state.len() >= 8 * State::FIRST);
    let missing = || Diagnostic::error("E0907", format!("`@{MAIN}` takes a state"));
    state.map(AsMut::as_mut).ok_or_else(|| missing().into())
}
