//! The memory of the device: buffers that do not touch, so that an access is in one or in none.

/// Bits of an address below the number of its buffer.
const SHIFT: u32 = 40;

/// Who used a byte last, and when.
#[derive(Clone, Copy, Default)]
pub(super) struct Use {
    /// 0 where nobody did, [`MANY`] where several threads did at once, else a thread from 1 on.
    thread: u32,
    /// The block of the thread; [`MANY`] where it was threads of several.
    block: u32,
    epoch: u32,
}

const MANY: u32 = u32::MAX;

/// The uses of a byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Uses {
    read: Use,
    written: Use,
    /// Whether what was written last was combined.
    combined: bool,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// At once with others that do.
    Combine,
}

/// Who accesses memory, and between which barriers.
#[derive(Clone, Copy)]
pub(super) struct Actor {
    /// The number of the thread in the whole grid, and that of its block.
    pub(super) thread: u32,
    pub(super) block: u32,
    pub(super) epoch: u32,
}

impl Actor {
    /// Whether `other` may happen at the same time: it is of another thread, and no barrier lies
    /// between.
    fn meets(self, other: Use) -> bool {
        let is_apart = other.block != self.block || other.epoch == self.epoch;
        other.thread != 0 && other.thread != self.thread + 1 && is_apart
    }

    fn mark(self) -> Use {
        Use { thread: self.thread + 1, block: self.block, epoch: self.epoch }
    }

    /// A use by this thread and by those of `other`, at once.
    fn joined(self, other: Use) -> Use {
        let block = if other.block == self.block { self.block } else { MANY };
        Use { thread: MANY, block, epoch: self.epoch }
    }
}

/// Bytes, and which of them were written to.
#[derive(Clone, Default)]
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    defined: Vec<bool>,
    /// Empty where races are not looked for.
    uses: Vec<Uses>,
}

impl Bytes {
    pub(super) fn undefined(len: usize) -> Bytes {
        Bytes { bytes: vec![0; len], defined: vec![false; len], uses: vec![] }
    }

    /// Forgets what was written.
    pub(super) fn clear(&mut self) {
        self.defined.fill(false);
        self.uses.clear();
    }

    /// Forgets who used what, since all wait for a launch.
    pub(super) fn settle(&mut self) {
        self.uses.clear();
    }

    fn range(
        &self,
        offset: u64,
        size: usize,
        what: &str,
    ) -> Result<std::ops::Range<usize>, String> {
        let start = usize::try_from(offset).ok();
        let end =
            start.and_then(|start| start.checked_add(size)).filter(|end| *end <= self.bytes.len());
        match start.zip(end) {
            Some((start, _)) if start % size != 0 => {
                Err(format!("{what} of {size} bytes at {start}, no multiple of it"))
            }
            Some((start, end)) => Ok(start..end),
            None => Err(format!(
                "{what} of {size} bytes at {} of a buffer of {}",
                offset as i64,
                self.bytes.len()
            )),
        }
    }

    /// The bytes of an access of `size` bytes, at `offset`, which has to be a multiple of it.
    pub(super) fn read(&self, offset: u64, size: usize) -> Result<&[u8], String> {
        let range = self.range(offset, size, "a read")?;
        match self.defined[range.clone()].iter().all(|defined| *defined) {
            true => Ok(&self.bytes[range]),
            false => {
                Err(format!("a read of {size} bytes at {offset}, to which nothing was written"))
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, size: usize) -> Result<&mut [u8], String> {
        let range = self.range(offset, size, "a store")?;
        self.defined[range.clone()].fill(true);
        Ok(&mut self.bytes[range])
    }

    /// Records an access that is within bounds. An error says with what it races.
    pub(super) fn record(
        &mut self,
        offset: u64,
        size: usize,
        kind: Kind,
        actor: Actor,
    ) -> Result<(), String> {
        self.uses.resize(self.bytes.len(), Uses::default());
        for uses in &mut self.uses[offset as usize..offset as usize + size] {
            let races = |with: &str| {
                let what = match kind {
                    Kind::Read => "a read",
                    Kind::Write => "a store",
                    Kind::Combine => "an atomic operation",
                };
                Err(format!("{what} at {offset} races with {with} of another thread"))
            };
            if actor.meets(uses.written) && !(uses.combined && kind == Kind::Combine) {
                return races(if uses.combined { "an atomic operation" } else { "a store" });
            }
            if kind != Kind::Read && actor.meets(uses.read) {
                return races("a read");
            }
            match kind {
                Kind::Read if actor.meets(uses.read) => uses.read = actor.joined(uses.read),

                Kind::Read => uses.read = actor.mark(),
                Kind::Write | Kind::Combine => {
                    uses.written = actor.mark();
                    uses.combined = kind == Kind::Combine;
                }
            }
        }
        Ok(())
    }
}

/// The memory of the device.
#[derive(Default)]
pub struct Memory {
    buffers: Vec<Bytes>,
}

impl Memory {
    /// Nothing.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A pointer to `len` bytes that nothing was written to.
    pub fn allocate(&mut self, len: usize) -> u64 {
        self.buffers.push(Bytes::undefined(len));
        (self.buffers.len() as u64) << SHIFT
    }

    /// Stores `bytes` to the start of the buffer that `pointer` points to. `None` where it has others.
    pub fn store(&mut self, pointer: u64, bytes: &[u8]) -> Option<()> {
        let buffer = self.buffers.get_mut(number(pointer)?)?;
        (buffer.bytes.len() == bytes.len()).then(|| {
            buffer.bytes.copy_from_slice(bytes);
            buffer.defined.fill(true);
        })
    }

    /// Forgets what was stored to the buffer that `pointer` points to.
    pub fn forget(&mut self, pointer: u64) {
        if let Some(buffer) = number(pointer).and_then(|number| self.buffers.get_mut(number)) {
            buffer.clear();
        }
    }

    /// The buffer that `pointer` points to, from its start on. `None` where there is none.
    pub fn bytes(&self, pointer: u64) -> Option<&[u8]> {
        Some(&self.buffers.get(number(pointer)?)?.bytes)
    }

    /// Ends a launch: the next one sees all that was stored.
    pub(super) fn settle(&mut self) {
        self.buffers.iter_mut().for_each(Bytes::settle);
    }

    /// The buffer of `address`, and where in it that is.
    pub(super) fn at(&mut self, address: u64) -> Result<(&mut Bytes, u64), String> {
        let outside = || format!("an access at {address:#x}, where no buffer is");
        let buffer = number(address).and_then(|number| self.buffers.get_mut(number));
        Ok((buffer.ok_or_else(outside)?, address & ((1 << SHIFT) - 1)))
    }
}

fn number(address: u64) -> Option<usize> {
    usize::try_from(address >> SHIFT).ok()?.checked_sub(1)
}
