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
const REASON: &str = "// reason: ";
const END: &str = "// input:";

impl Reproducer {
    /// Reads what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// Where the header is incomplete.
    pub fn parse(text: &str) -> Result<Reproducer, BrokenReproducer> {
        let mut rest = text;
        let mut number = 0;
        let mut line = |prefix: &str, expected: &'static str| {
            number += 1;
            let (line, tail) = rest.split_once('\n').unwrap_or((rest, ""));
            let Some(content) = line.trim_end_matches('\r').strip_prefix(prefix) else {
                return Err(BrokenReproducer { line: number, expected });
            };
            rest = tail;
            Ok(content.to_string())
        };
        line(TITLE, "`// relay-opt reproducer`")?;
        let version = line(VERSION, "`// version: VERSION`")?;
        let pipeline = line(PIPELINE, "`// pipeline: PIPELINE`")?;
        let reason = line(REASON, "`// reason: TEXT`")?;
        line(END, "`// input:`")?;
        Ok(Reproducer { version, pipeline, reason, input: rest.to_string() })
    }
}

impl fmt::Display for Reproducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The header is read by line.
        let one_line = |text: &str| text.replace(['\r', '\n'], " ");
        writeln!(f, "{TITLE}")?;
        writeln!(f, "{VERSION}{}", one_line(&self.version))?;
        writeln!(f, "{PIPELINE}{}", one_line(&self.pipeline))?;
        writeln!(f, "{REASON}{}", one_line(&self.reason))?;
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
