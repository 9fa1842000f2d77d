//! Diagnostics announced in comments: `// expected-error@+1 {{text}}`.

use std::sync::LazyLock;

use ir_core::{Diagnostic, Diagnostics, Severity, SourceMap, Span, Symbol};
use regex::Regex;

/// A diagnostic that a comment announces.
struct Expectation {
    kind: Kind,
    /// Line from 1; `None` for a diagnostic without a place.
    line: Option<usize>,
    text: String,
    pattern: Regex,
    span: Span,
    met: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Warning,
    Remark,
    /// What a diagnostic says besides its message.
    Note,
}

/// Something that was reported.
struct Reported<'a> {
    kind: Kind,
    line: Option<usize>,
    message: &'a str,
    span: Option<Span>,
    met: bool,
}

static DESIGNATOR: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r"expected-(error|warning|note|remark)(-re)? *(?:@([+-][0-9]+|above|below|unknown))? *\{\{(.*)\}\}\s*$",
    )
});

/// Compares what `part` of `file` announces with what was reported, and returns the differences.
/// `part` stands at its place in the file.
pub(crate) fn check(
    file: &str,
    part: &str,
    reported: &[Diagnostic],
    sources: &SourceMap,
) -> Diagnostics {
    let file = Symbol::new(file);
    let (mut expected, mut differences) = expectations(file, part);
    let mut found = Vec::new();
    for diagnostic in reported {
        let line = |span: Option<Span>| {
            let span = span.filter(|span| span.file == file)?;
            Some(sources.line_column(file, span.start)?.0)
        };
        let primary = diagnostic.primary.as_ref();
        let span = primary.map(|label| label.span);
        let kind = match diagnostic.severity {
            Severity::Error => Kind::Error,
            Severity::Warning => Kind::Warning,
            Severity::Note => Kind::Remark,
        };
        let message = diagnostic.message.as_str();
        let place = line(span);
        found.push(Reported { kind, line: place, message, span, met: false });
        let mut note = |message, span: Option<Span>, line| {
            found.push(Reported { kind: Kind::Note, line, message, span, met: false });
        };
        for label in primary.into_iter().chain(&diagnostic.secondary) {
            note(label.message.as_str(), Some(label.span), line(Some(label.span)));
        }
        for text in diagnostic.notes.iter().chain(&diagnostic.help) {
            note(text.as_str(), span, place);
        }
    }
    for expectation in &mut expected {
        let fits = |r: &&mut Reported<'_>| {
            !r.met
                && r.kind == expectation.kind
                && r.line == expectation.line
                && expectation.pattern.is_match(r.message)
        };
        if let Some(reported) = found.iter_mut().find(fits) {
            reported.met = true;
            expectation.met = true;
        }
    }
    for missing in expected.iter().filter(|expectation| !expectation.met) {
        let place = missing.line.map_or("without a place".to_string(), |n| format!("on line {n}"));
        let message = format!("expected {} {place}: {}", missing.kind.name(), missing.text);
        differences.push(
            Diagnostic::error("E0726", message).at(missing.span).labelled("it was not reported"),
        );
    }
    // Notes need not be announced.
    for extra in found.iter().filter(|reported| !reported.met && reported.kind != Kind::Note) {
        let message = format!("unexpected {}: {}", extra.kind.name(), extra.message);
        differences.push(Diagnostic::error("E0726", message).at(extra.span));
    }
    differences
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Warning => "warning",
            Kind::Remark => "remark",
            Kind::Note => "note",
        }
    }

    /// What a comment calls so.
    fn named(name: &str) -> Kind {
        match name {
            "error" => Kind::Error,
            "warning" => Kind::Warning,
            "remark" => Kind::Remark,
            _ => Kind::Note,
        }
    }
}

/// The announcements in `part`, and what is wrong with them.
fn expectations(file: Symbol, part: &str) -> (Vec<Expectation>, Diagnostics) {
    let (mut expected, mut errors) = (Vec::<Expectation>::new(), Diagnostics::new());
    let Ok(designator) = &*DESIGNATOR else { return (expected, errors) };
    // The last line that announces nothing, and the announcements for the next such line.
    let mut above = None;
    let mut below: Vec<usize> = Vec::new();
    let mut offset = 0;
    for (index, line) in part.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let start = offset;
        offset += line.len();
        let captured = designator.captures(line).filter(|captures| {
            let whole = captures.get(0).map_or(0, |whole| whole.start());
            line[..whole].contains("//")
        });
        let Some(captures) = captured else {
            above = Some(number);
            for index in below.drain(..) {
                expected[index].line = Some(number);
            }
            continue;
        };
        let group = |index| captures.get(index).map_or("", |group| group.as_str());
        let whole = captures.get(0).map_or(0..0, |whole| whole.range());
        let text = group(4);
        let span = Span {
            file,
            start: u32::try_from(start + whole.start).unwrap_or(u32::MAX),
            end: u32::try_from(start + line.trim_end().len()).unwrap_or(u32::MAX),
        };
        let place = match group(3) {
            "" => Some(number),
            "unknown" => None,
            "above" => above,
            "below" => {
                below.push(expected.len());
                None
            }
            relative => {
                relative.parse().ok().and_then(|relative| number.checked_add_signed(relative))
            }
        };
        let kind = Kind::named(group(1));
        let source = if group(2).is_empty() { regex::escape(text) } else { mixed_pattern(text) };
        match Regex::new(&source) {
            Ok(pattern) => {
                let text = text.to_string();
                expected.push(Expectation { kind, line: place, text, pattern, span, met: false });
            }
            Err(error) => {
                below.retain(|index| *index != expected.len());
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default().trim().to_string();
                let message = format!("expected a regular expression: {reason}");
                errors.push(Diagnostic::error("E0726", message).at(span));
            }
        }
    }
    (expected, errors)
}

/// The regular expression for text with expressions between `{{` and `}}`.
fn mixed_pattern(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some((plain, tail)) = rest.split_once("{{") {
        let (expression, tail) = tail.split_once("}}").unwrap_or((tail, ""));
        pattern += &format!("{}(?:{expression})", regex::escape(plain));
        rest = tail;
    }
    pattern + &regex::escape(rest)
}
