//! What a test file asks of the runner.

/// The keywords of a test file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Command lines with their 1-based line numbers; a trailing backslash joins
    /// a line with the next `RUN:`.
    pub(super) runs: Vec<(usize, String)>,
    /// All must hold, or the test does not run.
    pub(super) requires: Vec<String>,
    /// If one holds, the test does not run.
    pub(super) unsupported: Vec<String>,
    /// If one holds, the test must fail.
    pub(super) expected_failures: Vec<String>,
}

const KEYWORDS: [&str; 5] = ["RUN:", "REQUIRES:", "UNSUPPORTED:", "XFAIL:", "END."];

impl Script {
    /// Reads the keywords, which may start anywhere in a line.
    ///
    /// # Errors
    /// No `RUN:` line, or one that continues past the last.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        let mut open = false;
        for (index, line) in text.lines().enumerate() {
            let Some((keyword, value)) = keyword(line) else {
                continue;
            };
            let list = |value: &str| -> Vec<String> {
                value.split(',').map(|part| part.trim().to_owned()).collect()
            };
            match keyword {
                "RUN:" => {
                    let (value, continues) = match value.strip_suffix('\\') {
                        Some(value) => (value.trim_end(), true),
                        None => (value, false),
                    };
                    match script.runs.last_mut().filter(|_| open) {
                        Some((_, last)) => *last = format!("{last} {value}"),
                        None => script.runs.push((index + 1, value.to_owned())),
                    }
                    open = continues;
                }
                "REQUIRES:" => script.requires.extend(list(value)),
                "UNSUPPORTED:" => script.unsupported.extend(list(value)),
                "XFAIL:" => script.expected_failures.extend(list(value)),
                _ => break,
            }
        }
        if script.runs.is_empty() {
            return Err("expected a RUN: line, found none".to_owned());
        }
        if open {
            return Err("expected another RUN: line after a trailing backslash".to_owned());
        }
        Ok(script)
    }
}

/// The first keyword of a line that no word character precedes, and its value.
fn keyword(line: &str) -> Option<(&'static str, &str)> {
    KEYWORDS
        .iter()
        .filter_map(|keyword| {
            let at = line.find(keyword)?;
            let before = line[..at].bytes().next_back();
            let stands_alone =
                before.is_none_or(|b| !b.is_ascii_alphanumeric() && !b"-_".contains(&b));
            stands_alone.then(|| (at, *keyword, line[at + keyword.len()..].trim()))
        })
        .min_by_key(|(at, ..)| *at)
        .map(|(_, keyword, value)| (keyword, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_start_anywhere_and_lines_continue() {
        let text = "// RUN: a \\\n// RUN:   b\nx; RUN: c\n// REQUIRES: p, q && r\n\
                    // XFAIL: *\n// UNSUPPORTED: s\n// NORUN: d\n// END.\n// RUN: e\n";
        let expected = Script {
            runs: vec![(1, "a b".to_owned()), (3, "c".to_owned())],
            requires: vec!["p".to_owned(), "q && r".to_owned()],
            unsupported: vec!["s".to_owned()],
            expected_failures: vec!["*".to_owned()],
        };
        assert_eq!(Script::parse(text), Ok(expected));
    }

    #[test]
    fn a_script_must_run_something() {
        assert!(Script::parse("// CHECK: a\n").is_err());
        assert!(Script::parse("// RUN: a \\\n").is_err());
    }
}
