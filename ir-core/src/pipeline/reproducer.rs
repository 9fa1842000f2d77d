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
        const REASON_TEXT: &str = "`// reason: TEXT`";
        line(TITLE, "`// relay-opt reproducer`")?;
        let version = line(VERSION, "`// version: VERSION`")?;
        let pipeline = line(PIPELINE, "`// pipeline: PIPELINE`")?;
        let mut settings = Vec::new();
        let reason = loop {
            let content = line(COMMENT, REASON_TEXT)?;
            match content.split_once(": ") {
                Some(("reason", reason)) => break reason.to_string(),
                Some((name, value)) => settings.push((name.to_string(), value.to_string())),
                None if content.trim_end() == "reason:" => break String::new(),
                // The place of the line at fault.
                None => drop(line("\n", REASON_TEXT)?),
            }
        };
        line(END, "`// input:`")?;
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
