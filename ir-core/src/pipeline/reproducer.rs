//! A file that repeats a crash: the input behind a header of comments, so that it still reads as
//! an input.

use std::fmt;

/// Everything needed to run a crash again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reproducer {
    /// The version of the tool that crashed.
    pub version: String,
    /// The pipeline, as text.
    pub pipeline: String,
    /// What else the run was told, by name, each in one line.
    pub settings: Vec<(String, String)>,
    /// What happened, in one line.
    pub reason: String,
    /// The input, as it was read.
    pub input: String,
}

/// Why a text is no reproducer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokenReproducer {
    /// The line at fault, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
}

const TITLE: &str = "// relay-opt reproducer";
const VERSION: &str = "// version: ";
const PIPELINE: &str = "// pipeline: ";
const COMMENT: &str = "// ";
const END: &str = "// input:";

/// The lines of a text that are not read yet.
struct Header<'t> {
    rest: &'t str,
    /// The line that was read last, from 1.
    line: usize,
}

impl<'t> Header<'t> {
    /// What follows `prefix` in the next line.
    fn line(&mut self, prefix: &str, expected: &'static str) -> Result<&'t str, BrokenReproducer> {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        (self.rest, self.line) = (rest, self.line + 1);
        line.trim_end_matches('\r').strip_prefix(prefix).ok_or_else(|| self.broken(expected))
    }

    /// Says that the line that was read last is wrong.
    fn broken(&self, expected: &'static str) -> BrokenReproducer {
        BrokenReproducer { line: self.line, expected }
    }
}

impl Reproducer {
    /// Reads what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// Where the header is incomplete.
    pub fn parse(text: &str) -> Result<Reproducer, BrokenReproducer> {
        const REASON: &str = "`// reason: TEXT`";
        let mut header = Header { rest: text, line: 0 };
        header.line(TITLE, "`// relay-opt reproducer`")?;
        let version = header.line(VERSION, "`// version: VERSION`")?.to_string();
        let pipeline = header.line(PIPELINE, "`// pipeline: PIPELINE`")?.to_string();
        let mut settings = Vec::new();
        let reason = loop {
            let line = header.line(COMMENT, REASON)?;
            match line.split_once(": ").ok_or_else(|| header.broken(REASON))? {
                ("reason", reason) => break reason.to_string(),
                (name, value) => settings.push((name.to_string(), value.to_string())),
            }
        };
        header.line(END, "`// input:`")?;
        let rest = header.rest;
        Ok(Reproducer { version, pipeline, settings, reason, input: rest.to_string() })
    }
}

impl fmt::Display for Reproducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The header is read by line.
        let one_line = |text: &str| text.replace(['\r', '\n'], " ");
        writeln!(f, "{TITLE}")?;
        writeln!(f, "{VERSION}{}", one_line(&self.version))?;
        writeln!(f, "{PIPELINE}{}", one_line(&self.pipeline))?;
        for (name, value) in &self.settings {
            writeln!(f, "{COMMENT}{name}: {}", one_line(value))?;
        }
        writeln!(f, "{COMMENT}reason: {}", one_line(&self.reason))?;
        writeln!(f, "{END}")?;
        f.write_str(&self.input)
    }
}

impl fmt::Display for BrokenReproducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of a reproducer is not {}", self.line, self.expected)
    }
}

impl std::error::Error for BrokenReproducer {}
