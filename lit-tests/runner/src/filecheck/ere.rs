//! POSIX extended regular expressions, as LLVM's FileCheck understands them:
//! leftmost-longest matches, back-references, and `\d` is the letter `d`.
//!
//! The `regex` crate finds where a match may start, in linear time. A small
//! machine then finds the longest match from there with its groups.
//!
//! No crate can do the second part. FileCheck's `[[X:a|ab]]-[[X]]` asks for the
//! longest match of an expression with a back-reference and for its groups:
//! `regex` has neither longest matches nor back-references, `regex-automata`
//! finds longest matches (`MatchKind::All`) without groups, and `fancy-regex`
//! has back-references but takes the first alternative that fits. Besides, the
//! syntax is another one: `\d`, `a{`, `[]a]` and the wording of errors.

mod machine;
mod parser;

use std::ops::Range;

use machine::Instruction;

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Regex {
    program: Vec<Instruction>,
    groups: usize,
    /// Matches wherever the expression does, and perhaps elsewhere.
    start: regex::Regex,
    ignore_case: bool,
}

/// The byte ranges of group 0 (the whole match) and of the groups that took part.
pub(super) type Captures = Vec<Option<Range<usize>>>;

impl Regex {
    /// Compiles `pattern`. The error is POSIX's wording, such as
    /// `parentheses not balanced`.
    pub(super) fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let parsed = parser::parse(pattern)?;
        let start = regex::RegexBuilder::new(&parsed.superset)
            .multi_line(true)
            .case_insensitive(ignore_case)
            .build()
            .map_err(|_| "regular expression too big".to_owned())?;
        Ok(Self { program: parsed.program, groups: parsed.groups, start, ignore_case })
    }

    /// Number of parenthesised groups, without group 0.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// The leftmost match, and the longest of those.
    pub(super) fn find(&self, text: &str) -> Option<Captures> {
        let mut from = 0;
        while from <= text.len() {
            let start = self.start.find_at(text, from)?.start();
            let found =
                machine::longest_match(&self.program, self.groups, text, start, self.ignore_case);
            if found.is_some() {
                return found;
            }
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
        None
    }
}

/// `text` as an expression that matches exactly it.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "()^$|*+?.[]\\{}".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(pattern: &str, text: &str) -> Option<Range<usize>> {
        Regex::new(pattern, false).ok()?.find(text)?[0].clone()
    }

    #[test]
    fn the_longest_of_the_leftmost_matches_wins() {
        assert_eq!(span("a|ab", "xabab"), Some(1..3));
        assert_eq!(span("(a?)(ab)?", "ab"), Some(0..2));
        assert_eq!(span("x*", "aaa"), Some(0..0));
        assert_eq!(span("(a*)*b", "aaab"), Some(0..4));
        assert_eq!(span("(a*)+", "b"), Some(0..0));
    }

    #[test]
    fn newlines_bound_dots_negated_sets_and_anchors() {
        assert_eq!(span("a.b", "a\nb"), None);
        assert_eq!(span("a[^x]b", "a\nb"), None);
        assert_eq!(span("a[[:space:]]b", "a\nb"), Some(0..3));
        assert_eq!(span("^b$", "a\nb\nc"), Some(2..3));
    }

    #[test]
    fn back_references_repeat_the_group() {
        assert_eq!(span(r"([a-z]+)-\1", "ab-cd ab-ab"), Some(6..11));
        assert_eq!(span(r"([a-z]+)-\1", "ab-ba"), Some(1..4));
        assert_eq!(span(r"([a-z]+)-\1$", "ab-ba"), None);
    }

    #[test]
    fn counted_repeats_and_sets() {
        assert_eq!(span("a{2,3}", "aaaa"), Some(0..3));
        assert_eq!(span("a{2}", "a"), None);
        assert_eq!(span("a{2,}", "aaaa"), Some(0..4));
        assert_eq!(span("[]a-]+", "x]-a"), Some(1..4));
        assert_eq!(span("a{b", "a{b"), Some(0..3));
        assert_eq!(span("[[:<:]]ab[[:>:]]", "xab ab"), Some(4..6));
        assert_eq!(span(r"\d", "1d"), Some(1..2));
    }

    #[test]
    fn letters_of_either_case_match_when_asked() {
        let regex = Regex::new(r"([a-c]+)X\1", true).map_err(|e| panic!("{e}"));
        let found = regex.ok().and_then(|r| r.find("zABxab"));
        assert_eq!(found.and_then(|c| c[0].clone()), Some(1..6));
    }

    #[test]
    fn errors_are_posix_wording() {
        for (pattern, message) in [
            ("", "empty (sub)expression"),
            ("a|", "empty (sub)expression"),
            ("(", "parentheses not balanced"),
            (")", "parentheses not balanced"),
            ("[a", "brackets ([ ]) not balanced"),
            ("[z-a]", "invalid character range"),
            ("[[:nope:]]", "invalid character class"),
            ("a{2", "braces not balanced"),
            ("a{2,1}", "invalid repetition count(s)"),
            ("a{256}", "invalid repetition count(s)"),
            ("*a", "repetition-operator operand invalid"),
            ("a**", "repetition-operator operand invalid"),
            ("^*", "repetition-operator operand invalid"),
            (r"\1", "invalid backreference number"),
            ("a\\", "trailing backslash (\\)"),
            ("((((a{255}){255}){255}){255})", "regular expression too big"),
        ] {
            assert_eq!(Regex::new(pattern, false).err().as_deref(), Some(message), "{pattern}");
        }
    }
}
