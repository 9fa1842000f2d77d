//! Where the pieces of a text stand, kept up to date while it is edited.

use std::ops::Range;
use std::sync::Arc;

use ir_core::text::module::Outline;
use ir_core::text::module::pieces::{Extent, extent};
use ir_core::{Registry, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::queries::Piece;

/// Why a piece behind an edit has a place afterwards.
const BEHIND: &str = "what is behind an edit stays behind what it puts there";

/// A piece and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) piece: Piece,
    /// What places in the piece name as their file.
    pub(crate) file: Symbol,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A text and its pieces.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) file: Symbol,
    pub(crate) text: String,
    /// In order; they do not overlap.
    pub(crate) slots: Vec<Slot>,
    /// Where the metadata section starts.
    pub(crate) metadata: Option<usize>,
    /// What the reading of other pieces may depend on, by the file of the piece.
    pub(crate) outlines: FxHashMap<Symbol, Outline>,
    /// The number of the slot of each piece, by the file that it is for its places.
    by_file: FxHashMap<Symbol, usize>,
}

/// The pieces that an edit replaces, and those that stand there afterwards.
#[derive(Debug)]
pub(crate) struct Change {
    /// Slots of the layout before.
    pub(crate) replaced: Range<usize>,
    /// Ranges of bytes of the text afterwards.
    pub(crate) pieces: Vec<(usize, usize)>,
    /// Whether the metadata section is another one.
    pub(crate) metadata: bool,
    /// By how many bytes what comes behind moves.
    shift: isize,
}

impl Layout {
    pub(crate) fn new(file: Symbol) -> Layout {
        Layout {
            file,
            text: String::new(),
            slots: Vec::new(),
            metadata: None,
            outlines: FxHashMap::default(),
            by_file: FxHashMap::default(),
        }
    }

    /// Puts `replacement` in the place of `range`, and finds the pieces that are affected. Looks
    /// for pieces from the last one that the edit cannot have moved, until one starts where one
    /// started before.
    ///
    /// `range` must lie in the text and between characters.
    pub(crate) fn edit(
        &mut self,
        range: Range<usize>,
        replacement: &str,
        registry: &Registry,
    ) -> Change {
        let shift = replacement.len() as isize - range.len() as isize;
        // What is inside of what was replaced may be before the start.
        let moved = |place: usize| place.checked_add_signed(shift).unwrap_or(0);
        self.text.replace_range(range.clone(), replacement);
        // What is before the last piece that starts before the edit, and is no head of that piece,
        // has not changed.
        let touched = self.slots.partition_point(|slot| slot.start < range.start);
        let first = touched.saturating_sub(2);
        let mut start = match self.slots.get(first) {
            Some(slot) if first > 0 => slot.start,
            // What stands before the first piece may become a part of it.
            _ => 0,
        };
        let old_metadata = self.metadata;
        let (mut pieces, mut next_old) = (Vec::new(), touched);
        self.metadata = None;
        let replaced_to = loop {
            let Extent { end, next, metadata } = extent(&self.text, start, registry);
            if end > start {
                pieces.push((start, end));
            }
            if metadata {
                self.metadata = Some(next);
                break self.slots.len();
            }
            if next >= self.text.len() {
                break self.slots.len();
            }
            // Where a piece starts behind the edit as one did before, the rest is as before.
            while let Some(slot) = self.slots.get(next_old)
                && (slot.start < range.end || moved(slot.start) < next)
            {
                next_old += 1;
            }
            if let Some(slot) = self.slots.get(next_old)
                && moved(slot.start) == next
            {
                self.metadata = old_metadata.map(moved);
                break next_old;
            }
            start = next;
        };
        let metadata = match (old_metadata, self.metadata) {
            (None, None) => false,
            // It is the same unless the edit touches it.
            (Some(before), Some(now)) => range.end > before || moved(before) != now,
            _ => true,
        };
        Change { replaced: first..replaced_to, pieces, metadata, shift }
    }

    /// Puts `slots` in the place of those that `change` replaces, and moves what is behind.
    pub(crate) fn replace(&mut self, change: &Change, slots: Vec<Slot>) {
        let same = change.replaced.len() == slots.len()
            && self.slots[change.replaced.clone()]
                .iter()
                .zip(&slots)
                .all(|(before, after)| before.file == after.file);
        let behind = change.replaced.start + slots.len();
        self.slots.splice(change.replaced.clone(), slots);
        for slot in &mut self.slots[behind..] {
            slot.start = slot.start.checked_add_signed(change.shift).expect(BEHIND);
            slot.end = slot.end.checked_add_signed(change.shift).expect(BEHIND);
        }
        if !same {
            self.by_file =
                self.slots.iter().enumerate().map(|(index, slot)| (slot.file, index)).collect();
        }
    }

    /// What the reading of pieces may depend on, in order.
    pub(crate) fn outlines(&self) -> Vec<Outline> {
        if self.outlines.is_empty() {
            return Vec::new();
        }
        self.slots.iter().filter_map(|slot| self.outlines.get(&slot.file)).cloned().collect()
    }

    /// The text of `slot`.
    pub(crate) fn text_of(&self, slot: &Slot) -> &str {
        &self.text[slot.start..slot.end]
    }

    /// The metadata section.
    pub(crate) fn metadata_text(&self) -> Option<Arc<str>> {
        self.metadata.and_then(|start| self.text.get(start..)).map(Arc::from)
    }

    /// The slot of the piece that places call `file`.
    pub(crate) fn slot_of(&self, file: Symbol) -> Option<&Slot> {
        self.slots.get(*self.by_file.get(&file)?)
    }

    /// The slot of the piece that byte `offset` is in or right behind, or the blanks after which
    /// it stands in.
    pub(crate) fn slot_at(&self, offset: usize) -> Option<&Slot> {
        let after = self.slots.partition_point(|slot| slot.start <= offset);
        self.slots.get(after.checked_sub(1)?)
    }

    /// A place in a piece as one in the file; `end` is where the piece's item ends where the place
    /// says so.
    pub(crate) fn absolute(&self, span: Span, end_of_item: impl FnOnce(&Slot) -> u32) -> Span {
        let Some(slot) = self.slot_of(span.file) else { return span };
        let end = match span.end {
            crate::queries::END_OF_ITEM => end_of_item(slot),
            end => end,
        };
        let place = |offset: u32| (slot.start + offset as usize) as u32;
        Span { file: self.file, start: place(span.start), end: place(end) }
    }
}

/// The smallest edit that makes `new` out of `old`: a range of `old` and what to put there.
pub(crate) fn difference<'t>(old: &str, new: &'t str) -> (Range<usize>, &'t str) {
    let mut prefix = common(old.as_bytes().iter(), new.as_bytes().iter());
    while !old.is_char_boundary(prefix) || !new.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let (rest_old, rest_new) = (&old[prefix..], &new[prefix..]);
    let mut suffix = common(rest_old.as_bytes().iter().rev(), rest_new.as_bytes().iter().rev());
    while !rest_old.is_char_boundary(rest_old.len() - suffix)
        || !rest_new.is_char_boundary(rest_new.len() - suffix)
    {
        suffix -= 1;
    }
    (prefix..old.len() - suffix, &new[prefix..new.len() - suffix])
}

fn common<'t>(a: impl Iterator<Item = &'t u8>, b: impl Iterator<Item = &'t u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}
