//! Lines of a text, and places in it as editors count them.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A place: a line and a column, both from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) character: u64,
}

/// What stands between two places.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct PositionRange {
    pub(super) start: Position,
    pub(super) end: Position,
}

/// What a column counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
}

impl Encoding {
    /// The columns that `text` takes.
    fn columns(self, text: &str) -> usize {
        match self {
            Encoding::Utf8 => text.len(),
            // Every character is one unit, those of four bytes two.
            Encoding::Utf16 => {
                let units = |byte: u8| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0);
                text.bytes().map(units).sum()
            }
        }
    }

    /// The byte of `line` at column `character`, or its end.
    fn byte(self, line: &str, character: u64) -> usize {
        let character = usize::try_from(character).unwrap_or(usize::MAX);
        if self == Encoding::Utf8 || line.is_ascii() {
            let mut byte = character.min(line.len());
            while !line.is_char_boundary(byte) {
                byte -= 1;
            }
            return byte;
        }
        let mut column = 0;
        for (byte, next) in line.char_indices() {
            if column + next.len_utf16() > character {
                return byte;
            }
            column += next.len_utf16();
        }
        line.len()
    }
}

/// Where the lines of a text start. Lines end at `\n`, `\r\n` and `\r`, as the protocol says.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    encoding: Encoding,
    /// First bytes, that of the first line included.
    starts: Arc<Vec<u32>>,
}

impl Lines {
    /// The lines of `text`.
    pub(super) fn new(text: &str, encoding: Encoding) -> Lines {
        let mut starts = vec![0];
        line_starts(text.as_bytes(), 0..text.len(), &mut starts);
        Lines { encoding, starts: Arc::new(starts) }
    }

    /// Follows an edit after which `text` has `inserted` bytes where it had `range`.
    pub(super) fn edit(&mut self, text: &str, range: Range<usize>, inserted: usize) {
        let starts = Arc::make_mut(&mut self.starts);
        // `\r` right before the edit may be a line break with what follows now, or no longer.
        let first = starts.partition_point(|start| (*start as usize) < range.start.max(1));
        let behind = starts.partition_point(|start| *start as usize <= range.end).max(first);
        let shift = inserted as i64 - range.len() as i64;
        for start in &mut starts[behind..] {
            *start = (i64::from(*start) + shift) as u32;
        }
        let mut found = Vec::new();
        let around = range.start.saturating_sub(1)..range.start + inserted;
        line_starts(text.as_bytes(), around, &mut found);
        starts.splice(first..behind, found);
    }

    /// The byte of `text` at `position`; the nearest one where there is no such place.
    pub(super) fn offset(&self, text: &str, position: Position) -> usize {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let Some(start) = self.starts.get(line) else { return text.len() };
        let start = *start as usize;
        start + self.encoding.byte(self.line(text, line), position.character)
    }

    /// The bytes of `text` at `range`; none where it ends before it starts.
    pub(super) fn bytes(&self, text: &str, range: PositionRange) -> Range<usize> {
        let start = self.offset(text, range.start);
        start..self.offset(text, range.end).max(start)
    }

    /// The place of byte `offset` of `text`, or of its last byte.
    pub(super) fn position(&self, text: &str, offset: usize) -> Position {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let after = self.starts.partition_point(|start| *start as usize <= offset);
        let line = after.saturating_sub(1);
        let start = self.starts.get(line).map_or(0, |start| *start as usize);
        let character = self.encoding.columns(text.get(start..offset).unwrap_or(""));
        Position { line: line as u64, character: character as u64 }
    }

    /// The places of the bytes `range` of `text`.
    pub(super) fn range(&self, text: &str, range: Range<usize>) -> PositionRange {
        let start = self.position(text, range.start);
        PositionRange { start, end: self.position(text, range.end.max(range.start)) }
    }

    /// What its columns count.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The columns that `text`, which has no line break, takes.
    pub(super) fn columns(&self, text: &str) -> usize {
        self.encoding.columns(text)
    }

    /// Line `line` of `text` without its line break.
    fn line<'t>(&self, text: &'t str, line: usize) -> &'t str {
        let start = self.starts.get(line).map_or(text.len(), |start| *start as usize);
        let end = self.starts.get(line + 1).map_or(text.len(), |end| *end as usize);
        text.get(start..end).unwrap_or("").trim_end_matches(['\r', '\n'])
    }
}

/// Adds the starts of the lines that start behind a line break in `range` of `text`.
fn line_starts(text: &[u8], range: Range<usize>, starts: &mut Vec<u32>) {
    for found in memchr::memchr2_iter(b'\n', b'\r', &text[range.clone()]) {
        let at = range.start + found;
        if text[at] == b'\n' || text.get(at + 1) != Some(&b'\n') {
            starts.push(at as u32 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Following edits gives what reading the text again gives, and every place there is leads
        /// back to its byte.
        #[test]
        fn edits_are_followed(
            text in "[a\r\nä😀]{0,40}",
            edits in prop::collection::vec((0usize..60, 0usize..20, "[a\r\nä😀]{0,8}"), 0..8),
        ) {
            for encoding in [Encoding::Utf8, Encoding::Utf16] {
                let mut text = text.clone();
                let mut lines = Lines::new(&text, encoding);
                for (start, length, new) in &edits {
                    let place = |mut at: usize| {
                        at = at.min(text.len());
                        while !text.is_char_boundary(at) { at -= 1; }
                        at
                    };
                    let range = place(*start)..place(start + length);
                    text.replace_range(range.clone(), new);
                    lines.edit(&text, range, new.len());
                    prop_assert_eq!(&lines.starts, &Lines::new(&text, encoding).starts);
                }
                for (offset, _) in text.char_indices() {
                    // Inside a line break there is no place of its own.
                    let inside = text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                    if !inside {
                        let position = lines.position(&text, offset);
                        prop_assert_eq!(lines.offset(&text, position), offset);
                    }
                }
            }
        }
    }
}
