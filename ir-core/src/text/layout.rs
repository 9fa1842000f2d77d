//! The layout of one operation's text: on one line where it fits, otherwise broken inside its
//! brackets.

use std::io;

use pretty::{Arena, DocAllocator, DocBuilder};

/// Columns that a line should keep to.
pub const WIDTH: usize = 100;

/// Deeper nesting is not indented further, so that the output stays linear in the input.
const MAX_INDENT: usize = 32;

/// A place where the text may break.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// After an opening bracket.
    Open,
    /// At the blank after a comma.
    Comma,
    /// Before a closing bracket.
    Close,
}

/// The flat text of one operation with the places where it may break. Reused from one operation
/// to the next.
#[derive(Default, Debug)]
pub struct Line {
    text: String,
    marks: Vec<(usize, Mark)>,
}

impl Line {
    /// Where text is appended.
    pub fn text(&mut self) -> &mut String {
        &mut self.text
    }

    /// Appends text that never breaks.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends an opening bracket.
    pub fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.marks.push((self.text.len(), Mark::Open));
    }

    /// Appends a comma and a blank.
    pub fn comma(&mut self) {
        self.text.push(',');
        self.marks.push((self.text.len(), Mark::Comma));
        self.text.push(' ');
    }

    /// Appends a closing bracket.
    pub fn close(&mut self, bracket: char) {
        self.marks.push((self.text.len(), Mark::Close));
        self.text.push(bracket);
    }

    /// Writes the text, indented by `depth` levels, with a line break, and empties this.
    pub fn flush(&mut self, depth: usize, out: &mut dyn io::Write) -> io::Result<()> {
        const BLANKS: [u8; 2 * MAX_INDENT] = [b' '; 2 * MAX_INDENT];
        let indent = 2 * depth.min(MAX_INDENT);
        out.write_all(&BLANKS[..indent])?;
        if self.marks.is_empty() || indent + self.text.len() <= WIDTH {
            out.write_all(self.text.as_bytes())?;
        } else {
            self.broken(indent, out)?;
        }
        self.text.clear();
        self.marks.clear();
        out.write_all(b"\n")
    }

    /// Lays the text out over several lines; the first is indented already.
    fn broken(&self, indent: usize, out: &mut dyn io::Write) -> io::Result<()> {
        let arena: Arena<'_, ()> = Arena::new();
        let mut outer: Vec<DocBuilder<'_, Arena<'_, ()>, ()>> = Vec::new();
        let mut doc = arena.nil();
        let mut start = 0;
        for &(at, mark) in &self.marks {
            doc = doc.append(arena.text(&self.text[start..at]));
            start = at;
            match mark {
                Mark::Open => {
                    let inner = arena.line_();
                    outer.push(std::mem::replace(&mut doc, inner));
                }
                Mark::Comma => {
                    doc = doc.append(arena.softline());
                    start += 1;
                }
                Mark::Close => {
                    let inner = doc.nest(2).append(arena.line_()).group();
                    doc = outer.pop().expect("what closes was opened").append(inner);
                }
            }
        }
        let doc = doc.append(arena.text(&self.text[start..]));
        doc.nest(indent as isize).render(WIDTH - indent.min(WIDTH / 2), out)
    }
}
