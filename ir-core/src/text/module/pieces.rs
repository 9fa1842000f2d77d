//! Where the items of a text start and end.
//!
//! A text is a row of pieces, each from the first token of an item to the last token before the
//! next item, and possibly a metadata section. **Where a piece ends can be told from its start
//! on**, without reading what comes before it, so that after an edit only the pieces around it are
//! looked for again.
//!
//! An item starts at a dotted word before a global (`te.func @f`), or like a [`Start`] of a
//! registered syntax (`def @name`, `type Name`), whatever brackets are open: a forgotten one never
//! hides the items behind it. What comes before the first item, the version and text outside of any
//! item, is a piece of its own.

use super::syntax::{Start, Syntaxes};
use crate::registry::Registry;
use crate::text::lexer::{CLASS, DIGIT, LETTER, SPACE};

/// Where a piece ends, and what comes after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// One past the last byte of its last token; its start where it has none.
    pub end: usize,
    /// First byte of the next piece or of the metadata section; the length of the text where
    /// neither follows.
    pub next: usize,
    /// Whether the metadata section comes next.
    pub metadata: bool,
}

/// The extent of the piece that starts at byte `start` of `text`. Linear in the piece.
pub fn extent(text: &str, start: usize, registry: &Registry) -> Extent {
    let (bytes, syntaxes) = (text.as_bytes(), registry.syntaxes());
    Scanner { bytes, syntaxes, first: start, position: start, end: start, last: Last::Other }.run()
}

/// The start and the end of every piece of `text`, and the start of the metadata section.
pub fn split(text: &str, registry: &Registry) -> (Vec<(usize, usize)>, Option<usize>) {
    let (mut pieces, mut start) = (Vec::new(), 0);
    loop {
        let Extent { end, next, metadata } = extent(text, start, registry);
        if end > start {
            pieces.push((start, end));
        }
        if metadata {
            return (pieces, Some(next));
        }
        if next >= text.len() {
            return (pieces, None);
        }
        start = next;
    }
}

/// A token that may start an item.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    /// Where the token before it ended.
    before: usize,
}

/// The tokens before the position, as far as the start of an item depends on them.
#[derive(Clone, Copy)]
enum Last {
    Other,
    /// A word up to this byte.
    Word(Place, usize),
    /// A word such as `type` after another word.
    Second,
    /// A word and a dot.
    Dot(Place),
    /// Two words with a dot between them; the second one, and where it ends.
    Dotted(Place, Place, usize),
    /// A global.
    Global(Place),
    /// A global and `=`.
    Assigned(Place),
}

struct Scanner<'t> {
    bytes: &'t [u8],
    syntaxes: &'t Syntaxes,
    /// Where the piece starts.
    first: usize,
    position: usize,
    /// Where the last token ended.
    end: usize,
    last: Last,
}

impl Scanner<'_> {
    fn run(mut self) -> Extent {
        loop {
            self.skip(SPACE);
            let Some(&byte) = self.bytes.get(self.position) else { break };
            let place = Place { start: self.position, before: self.end };
            let found = match byte {
                byte if self.class(byte) & LETTER != 0 => self.word(place),
                b'@' => self.global(place),
                b'"' => self.text(),
                b'%' => {
                    self.variable(true);
                    self.other()
                }
                b'/' => match self.bytes.get(self.position + 1) {
                    Some(b'/') => {
                        self.line();
                        continue;
                    }
                    Some(b'*') => match self.comment() {
                        true => continue,
                        // What has no end is an error of this piece.
                        false => self.other(),
                    },
                    _ => {
                        self.position += 1;
                        self.other()
                    }
                },
                b'#' if self.bytes[self.position..].starts_with(b"#[metadata]") => {
                    return Extent { end: self.end, next: self.position, metadata: true };
                }
                b'.' => {
                    self.position += 1;
                    self.last = match self.last {
                        Last::Word(word, _) | Last::Dotted(_, word, _) => Last::Dot(word),
                        _ => Last::Other,
                    };
                    None
                }
                b'=' => {
                    self.position += 1;
                    let longer = matches!(self.bytes.get(self.position), Some(b'=' | b'>'));
                    self.position += usize::from(longer);
                    self.last = match self.last {
                        Last::Global(global) if !longer => Last::Assigned(global),
                        _ => Last::Other,
                    };
                    None
                }
                byte if self.class(byte) & DIGIT != 0 => {
                    self.skip(LETTER | DIGIT);
                    self.other()
                }
                _ => {
                    self.position += 1;
                    self.other()
                }
            };
            if let Some(item) = found {
                if item.start > self.first {
                    return Extent { end: item.before, next: item.start, metadata: false };
                }
                self.last = Last::Other;
            }
            self.end = self.position;
        }
        Extent { end: self.end, next: self.bytes.len(), metadata: false }
    }

    fn class(&self, byte: u8) -> u8 {
        CLASS[byte as usize]
    }

    fn skip(&mut self, class: u8) {
        let rest = &self.bytes[self.position..];
        let length = rest.iter().position(|&byte| CLASS[byte as usize] & class == 0);
        self.position += length.unwrap_or(rest.len());
    }

    fn other(&mut self) -> Option<Place> {
        self.last = Last::Other;
        None
    }

    /// Whether items start with the words `first` and `second`.
    fn are_two(&self, first: &[u8], second: &[u8]) -> bool {
        let is = |start| matches!(start, Start::Two(a, b) if same(a, first) && same(b, second));
        self.syntaxes.starts().any(is)
    }

    /// Whether items start with this word and a name without a sigil.
    fn names(&self, word: Place, end: usize) -> bool {
        let word = &self.bytes[word.start..end];
        self.syntaxes.starts().any(|start| matches!(start, Start::Name(name) if same(name, word)))
    }

    /// Whether items start with `word` and a global.
    fn is_before_global(&self, word: &[u8]) -> bool {
        self.syntaxes.starts().any(|start| matches!(start, Start::Global(name) if same(name, word)))
    }

    /// Whether items start with a global, `=` and `word`.
    fn is_assigned(&self, word: &[u8]) -> bool {
        let is = |start| matches!(start, Start::Assigned(name) if same(name, word));
        self.syntaxes.starts().any(is)
    }

    /// Goes past a word. Where an item starts, if that is clear by now.
    fn word(&mut self, word: Place) -> Option<Place> {
        self.skip(LETTER | DIGIT);
        let end = self.position;
        let text = &self.bytes[word.start..end];
        if text == b"_" || is_float(text) {
            return self.other();
        }
        if text == b"match" && self.bytes.get(end) == Some(&b'?') {
            self.position += 1;
            return self.other();
        }
        let (last, found) = match self.last {
            Last::Word(before, at) if self.are_two(&self.bytes[before.start..at], text) => {
                (Last::Other, Some(before))
            }
            Last::Word(before, at) | Last::Dotted(_, before, at) if self.names(before, at) => {
                (Last::Word(word, end), Some(before))
            }
            // An index of a loop may be called `type`.
            Last::Word(..) | Last::Dotted(..) if self.names(word, end) => (Last::Second, None),
            Last::Dot(before) => (Last::Dotted(before, word, end), None),
            Last::Assigned(global) if self.is_assigned(text) => {
                if global.start == self.first {
                    self.foreign();
                }
                (Last::Other, Some(global))
            }
            _ => (Last::Word(word, end), None),
        };
        self.last = last;
        found
    }

    /// Goes past text with tokens of its own, which ends with a `}` that starts a line.
    fn foreign(&mut self) {
        let rest = &self.bytes[self.position..];
        let length = rest.windows(2).position(|bytes| bytes == b"\n}");
        self.position += length.map_or(rest.len(), |length| length + 2);
    }

    fn global(&mut self, global: Place) -> Option<Place> {
        let named = self.variable(false);
        let last = std::mem::replace(&mut self.last, Last::Other);
        if !named {
            return None;
        }
        match last {
            Last::Dotted(first, ..) => Some(first),
            Last::Word(word, end) if self.is_before_global(&self.bytes[word.start..end]) => {
                Some(word)
            }
            _ => {
                self.last = Last::Global(global);
                None
            }
        }
    }

    fn text(&mut self) -> Option<Place> {
        let found = match self.last {
            Last::Word(word, end) | Last::Dotted(_, word, end) if self.names(word, end) => {
                Some(word)
            }
            _ => None,
        };
        let ended = self.string();
        self.last = Last::Other;
        found.filter(|_| ended)
    }

    /// Goes past a string, to the end of the line where it has no end. Whether it has.
    fn string(&mut self) -> bool {
        self.position += 1;
        loop {
            match self.bytes.get(self.position) {
                None | Some(b'\n') => return false,
                Some(b'"') => {
                    self.position += 1;
                    return true;
                }
                // Escapes end before the end of the line, and `\"` and `\\` are the only ones
                // that matter.
                Some(b'\\') if matches!(self.bytes.get(self.position + 1), Some(b'"' | b'\\')) => {
                    self.position += 2;
                }
                Some(_) => self.position += 1,
            }
        }
    }

    /// Goes past a variable or a global. Whether it has a name.
    fn variable(&mut self, local: bool) -> bool {
        self.position += 1;
        match self.bytes.get(self.position).copied() {
            Some(b'"') => self.string(),
            Some(byte) if self.class(byte) & LETTER != 0 => {
                self.skip(LETTER | DIGIT);
                while self.bytes.get(self.position) == Some(&b'/')
                    && let Some(next) = self.bytes.get(self.position + 1)
                    && self.class(*next) & LETTER != 0
                {
                    self.position += 1;
                    self.skip(LETTER | DIGIT);
                }
                true
            }
            Some(byte) if local && self.class(byte) & DIGIT != 0 => {
                self.skip(DIGIT);
                true
            }
            _ => false,
        }
    }

    fn line(&mut self) {
        let rest = &self.bytes[self.position..];
        self.position += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    /// Goes past a comment; comments nest. Whether it has an end.
    fn comment(&mut self) -> bool {
        let mut depth = 0usize;
        loop {
            match (self.bytes.get(self.position), self.bytes.get(self.position + 1)) {
                (Some(b'/'), Some(b'*')) => (depth, self.position) = (depth + 1, self.position + 2),
                (Some(b'*'), Some(b'/')) => (depth, self.position) = (depth - 1, self.position + 2),
                (None, _) => return false,
                _ => self.position += 1,
            }
            if depth == 0 {
                return true;
            }
        }
    }
}

fn same(word: &str, text: &[u8]) -> bool {
    word.as_bytes() == text
}

/// Whether `word` is a number rather than a name.
fn is_float(word: &[u8]) -> bool {
    (word.starts_with(b"inf") || word.starts_with(b"nan"))
        && std::str::from_utf8(word).is_ok_and(crate::text::lexer::is_special_float)
}
