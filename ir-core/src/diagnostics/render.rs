//! Diagnostics as text for people, as JSON lines, and as SARIF.
//!
//! All three give findings in the order of their places: by file as added to the source map, then
//! by position; findings without a place come last; ties keep the order given.

use std::{fmt, io};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use super::codes::Code;
use super::{Diagnostic, Label, Severity};
use crate::intern::Symbol;
use crate::location::{SourceMap, Span};

/// Bytes of a line that an excerpt shows at most, on each side of the place.
const CONTEXT: usize = 60;

/// A file and where its lines start.
struct File<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> File<'a> {
    fn new(text: &'a str) -> File<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        File { text, starts: std::iter::once(0).chain(breaks.map(|(i, _)| i + 1)).collect() }
    }

    /// The character boundary at or before `offset`.
    fn floor(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset.min(self.text.len()))
    }

    /// Index of the line of `offset`.
    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Line and column of `offset`, both from 1; the column counts characters.
    fn position(&self, offset: usize) -> (usize, usize) {
        let offset = self.floor(offset);
        let line = self.line(offset);
        (line + 1, self.text[self.starts[line]..offset].chars().count() + 1)
    }

    /// The bytes of line `line` without its end.
    fn line_range(&self, line: usize) -> std::ops::Range<usize> {
        let start = self.starts[line];
        let end = self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        start..start + self.text[start..end].trim_end_matches('\r').len()
    }
}

struct Files<'a> {
    files: IndexMap<Symbol, File<'a>, FxBuildHasher>,
}

impl<'a> Files<'a> {
    /// The files that `diagnostics` point into, in the order of `sources`.
    fn new(diagnostics: &[Diagnostic], sources: &'a SourceMap) -> Files<'a> {
        let named: rustc_hash::FxHashSet<Symbol> =
            diagnostics.iter().flat_map(labels).map(|label| label.span.file).collect();
        let files = sources.files().filter(|(name, _)| named.contains(name));
        Files { files: files.map(|(name, text)| (name, File::new(text))).collect() }
    }

    fn sorted<'d>(&self, diagnostics: &'d [Diagnostic]) -> Vec<&'d Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
        sorted.sort_by_key(|diagnostic| self.key(diagnostic));
        sorted
    }

    /// What diagnostics are sorted by.
    fn key(&self, diagnostic: &Diagnostic) -> (usize, u32) {
        match &diagnostic.primary {
            Some(Label { span, .. }) => {
                (self.files.get_index_of(&span.file).unwrap_or(usize::MAX - 1), span.start)
            }
            None => (usize::MAX, 0),
        }
    }

    /// File, line, column and end of `span`, as JSON.
    fn place(&self, label: &Label) -> Value {
        let Span { file, start, end } = label.span;
        let mut place = json!({ "file": file.as_str(), "start": start, "end": end });
        if let Some(file) = self.files.get(&file) {
            let (line, column) = file.position(start as usize);
            let (end_line, end_column) = file.position(end as usize);
            place["line"] = line.into();
            place["column"] = column.into();
            place["end_line"] = end_line.into();
            place["end_column"] = end_column.into();
        }
        if !label.message.is_empty() {
            place["message"] = label.message.as_str().into();
        }
        place
    }
}

/// Brings `diagnostics` into the order in which they are written.
pub fn sort(diagnostics: &mut [Diagnostic], sources: &SourceMap) {
    let files = Files::new(diagnostics, sources);
    diagnostics.sort_by_key(|diagnostic| files.key(diagnostic));
}

/// How many findings were left out of what is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Omitted {
    /// Errors.
    pub errors: usize,
    /// Warnings and notes.
    pub others: usize,
}

impl Omitted {
    /// Whether nothing was left out.
    pub fn is_empty(self) -> bool {
        self == Omitted::default()
    }

    /// The last line of a JSON log, in the form of [`json()`], with the counts under `omitted`.
    pub fn json(self) -> Value {
        json!({
            "severity": severity(Severity::Note),
            "code": "",
            "message": self.to_string(),
            "primary": null,
            "secondary": [],
            "notes": [],
            "help": null,
            "omitted": { "errors": self.errors, "others": self.others },
        })
    }
}

/// `… and 2 more errors`.
impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        let Omitted { errors, others } = *self;
        match (errors, others) {
            (_, 0) => write!(f, "… and {errors} more error{}", plural(errors)),
            (0, _) => write!(f, "… and {others} more warning{}", plural(others)),
            _ => write!(
                f,
                "… and {errors} more error{} and {others} more warning{}",
                plural(errors),
                plural(others)
            ),
        }
    }
}

fn labels(diagnostic: &Diagnostic) -> impl Iterator<Item = &Label> {
    diagnostic.primary.iter().chain(&diagnostic.secondary)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Writes diagnostics for people: message, excerpt, notes and help. `styled` adds colours; pass
/// `false` unless the output is a terminal. Very long lines are clipped around the place.
pub fn human(
    diagnostics: &[Diagnostic],
    sources: &SourceMap,
    styled: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let files = Files::new(diagnostics, sources);
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    for diagnostic in files.sorted(diagnostics) {
        let level = match diagnostic.severity {
            Severity::Note => Level::NOTE,
            Severity::Warning => Level::WARNING,
            Severity::Error => Level::ERROR,
        };
        let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code);
        let mut group = Group::with_title(title);
        for (index, label) in labels(diagnostic).enumerate() {
            let primary = index == 0 && diagnostic.primary.is_some();
            group = excerpt(group, &files, label, primary);
        }
        for note in &diagnostic.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        writeln!(out, "{}\n", renderer.render(&[group]))?;
    }
    Ok(())
}

fn excerpt<'a>(group: Group<'a>, files: &Files<'a>, label: &'a Label, primary: bool) -> Group<'a> {
    let Span { file: name, start, end } = label.span;
    let origin = Origin::path(name.as_str());
    let Some(file) = files.files.get(&name) else {
        return group.element(origin);
    };
    let start = file.floor(start as usize);
    let (line, column) = file.position(start);
    let range = file.line_range(line - 1);
    // The place is shown up to the end of its first line, and one character at least.
    let start = start.min(range.end);
    let end = file.floor(end as usize).clamp(start, range.end);
    let from =
        if start - range.start > CONTEXT { file.floor(start - CONTEXT) } else { range.start };
    let to = if range.end - end > CONTEXT { file.floor(end + CONTEXT) } else { range.end };
    let to = if to - start > 3 * CONTEXT { file.floor(start + 3 * CONTEXT) } else { to };
    let kind = if primary { AnnotationKind::Primary } else { AnnotationKind::Context };
    let mut annotation = kind.span(start - from..end.min(to) - from);
    if !label.message.is_empty() {
        annotation = annotation.label(label.message.as_str());
    }
    let snippet = Snippet::source(&file.text[from..to]).line_start(line).annotation(annotation);
    if from == range.start {
        return group.element(snippet.path(name.as_str()));
    }
    // A snippet counts columns from its own start, so a clipped one needs its origin spelled out.
    group.element(origin.line(line).char_column(column)).element(snippet)
}

/// Writes diagnostics as JSON, one object per line: `severity`, `code`, `message`, `primary` and
/// `secondary` places (`file`, byte offsets `start` and `end`, `line`, `column`, `end_line`,
/// `end_column` from 1, `message`), `notes`, `help`.
pub fn json(
    diagnostics: &[Diagnostic],
    sources: &SourceMap,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let files = Files::new(diagnostics, sources);
    for diagnostic in files.sorted(diagnostics) {
        let object = json!({
            "severity": severity(diagnostic.severity),
            "code": diagnostic.code,
            "message": diagnostic.message,
            "primary": diagnostic.primary.as_ref().map(|label| files.place(label)),
            "secondary":
                diagnostic.secondary.iter().map(|label| files.place(label)).collect::<Vec<_>>(),
            "notes": diagnostic.notes,
            "help": diagnostic.help,
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

/// Writes diagnostics as one SARIF 2.1.0 log of tool `tool`. `codes` describes the rules; codes
/// outside it are named only. What was left out is counted in the properties of the run.
pub fn sarif(
    diagnostics: &[Diagnostic],
    omitted: Omitted,
    sources: &SourceMap,
    tool: &str,
    codes: &[&[Code]],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let files = Files::new(diagnostics, sources);
    let sorted = files.sorted(diagnostics);
    let mut rules: IndexMap<&str, Value, FxBuildHasher> = IndexMap::default();
    for diagnostic in &sorted {
        rules.entry(diagnostic.code).or_insert_with(|| {
            match super::codes::explain(diagnostic.code, codes) {
                None => json!({ "id": diagnostic.code }),
                Some(code) => json!({
                    "id": code.code,
                    "shortDescription": { "text": code.title },
                    "fullDescription": { "text": code.explanation },
                }),
            }
        });
    }
    let location = |label: &Label| {
        let Span { file, start, end } = label.span;
        let mut region = json!({ "byteOffset": start, "byteLength": end.saturating_sub(start) });
        if let Some(file) = files.files.get(&file) {
            let (line, column) = file.position(start as usize);
            let (end_line, end_column) = file.position(end as usize);
            region["startLine"] = line.into();
            region["startColumn"] = column.into();
            region["endLine"] = end_line.into();
            region["endColumn"] = end_column.into();
        }
        let mut location = json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri(file.as_str()) },
            "region": region,
        }});
        if !label.message.is_empty() {
            location["message"] = json!({ "text": label.message });
        }
        location
    };
    let results: Vec<Value> = sorted
        .iter()
        .map(|diagnostic| {
            let further = diagnostic.notes.iter().map(|note| format!("\nnote: {note}"));
            let help = diagnostic.help.iter().map(|help| format!("\nhelp: {help}"));
            let text: String =
                std::iter::once(diagnostic.message.clone()).chain(further).chain(help).collect();
            json!({
                "ruleId": diagnostic.code,
                "ruleIndex": rules.get_index_of(diagnostic.code),
                "level": severity(diagnostic.severity),
                "message": { "text": text },
                "locations": diagnostic.primary.iter().map(location).collect::<Vec<_>>(),
                "relatedLocations":
                    diagnostic.secondary.iter().map(location).collect::<Vec<_>>(),
            })
        })
        .collect();
    let mut log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": tool, "rules": rules.into_values().collect::<Vec<_>>() } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    if !omitted.is_empty() {
        log["runs"][0]["properties"] =
            json!({ "omittedErrors": omitted.errors, "omittedOthers": omitted.others });
    }
    writeln!(out, "{log:#}")
}

/// `path` as a relative URI reference: everything but unreserved characters and `/` is
/// percent-encoded.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into());
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::codes::CODES;

    fn example() -> (Vec<Diagnostic>, SourceMap) {
        let mut sources = SourceMap::default();
        let a = sources.add("a b.relay", "let %x = é + 1;\r\n%y\n");
        let long = format!("{}%z{}", "x".repeat(9000), "y".repeat(9000));
        let b = sources.add("long.relay", long);
        let span = |file, start, end| Span { file, start, end };
        let diagnostics = vec![
            Diagnostic::warning("W0000", "without a place").note("a note"),
            Diagnostic::error("E0111", "in a long line").at(span(b, 9000, 9002)).labelled("here"),
            Diagnostic::error("E0112", "`%y` is not defined")
                .at(span(a, 18, 20))
                .related(span(a, 4, 6), "`%x` is")
                .help("define it"),
            Diagnostic::error("E0110", "past the end").at(span(a, 500, 600)),
            Diagnostic::remark("E0110", "several lines").at(span(a, 9, 20)),
        ];
        (diagnostics, sources)
    }

    #[test]
    fn people_get_excerpts() {
        let (diagnostics, sources) = example();
        let mut out = Vec::new();
        human(&diagnostics, &sources, false, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn json_lines_and_sarif_are_valid_and_ordered() {
        let (diagnostics, sources) = example();
        let mut out = Vec::new();
        json(&diagnostics, &sources, &mut out).unwrap();
        let lines: Vec<Value> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let messages: Vec<&str> =
            lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(
            messages,
            [
                "several lines",
                "`%y` is not defined",
                "past the end",
                "in a long line",
                "without a place"
            ]
        );
        assert_eq!(lines[1]["primary"]["line"], 2);
        assert_eq!(lines[3]["primary"]["column"], 9001);

        let mut out = Vec::new();
        sarif(&diagnostics, Omitted::default(), &sources, "relay-opt", &[CODES], &mut out).unwrap();
        let log: Value = serde_json::from_slice(&out).unwrap();
        let run = &log["runs"][0];
        assert_eq!(run["results"].as_array().unwrap().len(), 5);
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "E0110");
        let place = &run["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.relay");
        assert_eq!(place["region"]["startLine"], 1);
    }

    #[test]
    fn every_code_of_this_crate_is_explained() {
        let sources = [
            include_str!("../rewriter.rs"),
            include_str!("../verify.rs"),
            include_str!("../text/parser.rs"),
            include_str!("../text/cursor.rs"),
            include_str!("../text/types.rs"),
            include_str!("../text/attributes.rs"),
        ];
        let used = |code: &str| sources.iter().any(|text| text.contains(&format!("\"{code}\"")));
        let known: Vec<&str> = CODES.iter().map(|entry| entry.code).collect();
        assert!(known.iter().all(|code| used(code)), "a code in the table is never reported");
        for text in sources {
            for (at, _) in text.match_indices("\"E01") {
                let code = &text[at + 1..at + 6];
                assert!(known.contains(&code), "{code} is not in the table");
            }
        }
    }
}
