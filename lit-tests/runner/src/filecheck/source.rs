//! Named texts, and the positions that diagnostics point at.

/// A named text: the check file, the input, or a text given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// A source whose horizontal white space is made canonical.
    ///
    /// `\r\n` becomes `\n`; unless `strict`, each run of spaces and tabs
    /// becomes one space.
    #[must_use]
    pub fn new(name: &str, text: &str, strict: bool) -> Self {
        Self { name: name.to_owned(), text: canonicalise(text, strict) }
    }

    /// The name that diagnostics print: a path, `<stdin>` or `command line`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The canonical text; every offset counts its bytes.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The 1-based line and column (in characters) of a byte offset.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, self.text[line_start..offset].chars().count() + 1)
    }

    /// The line that holds a byte offset, without its newline.
    pub(super) fn line_at(&self, offset: usize) -> &str {
        let start = self.text[..offset].rfind('\n').map_or(0, |n| n + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |n| offset + n);
        &self.text[start..end]
    }
}

fn canonicalise(text: &str, strict: bool) -> String {
    let mut canonical = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            ' ' | '\t' if !strict => {
                while rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
                canonical.push(' ');
            }
            _ => canonical.push(c),
        }
    }
    canonical
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_made_canonical_unless_strict() {
        assert_eq!(Source::new("t", "a \t b\r\nc\r", false).text(), "a b\nc\r");
        assert_eq!(Source::new("t", "a \t b\r\n", true).text(), "a \t b\n");
    }

    #[test]
    fn positions_count_from_one() {
        let source = Source::new("t", "ab\ncd", false);
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(4), (2, 2));
        assert_eq!(source.line_at(5), "cd");
    }
}
