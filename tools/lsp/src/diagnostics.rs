//! Diagnostics, and what can be done about them.

use analysis::Checks;
use ir_core::diagnostics::codes::{self, Code};
use ir_core::diagnostics::{Label, Severity};
use ir_core::text::Form;
use ir_core::{Diagnostic, Diagnostics, Registry, SourceMap, Span};
use serde_json::{Value, json};

use super::documents::View;
use super::protocol;

/// What is wrong with a document, as a list for the editor.
pub(super) fn all(view: &View, registry: &Registry) -> Vec<Value> {
    let snapshot = &view.snapshot;
    let found = match Form::of(snapshot.text()) {
        Form::Readable => snapshot.diagnostics(Checks::Everything),
        Form::Generic => generic(view, registry),
    };
    // What is wrong with the text often is wrong with its types as well, which says no more.
    let mut places = rustc_hash::FxHashSet::default();
    let mut is_first = |diagnostic: &&Diagnostic| match &diagnostic.primary {
        Some(label) if diagnostic.is_error() => places.insert(label.span.start),
        _ => true,
    };
    let first = found.iter().filter(|diagnostic| is_first(diagnostic));
    first.map(|diagnostic| one(view, diagnostic)).collect()
}

/// What is wrong with a text in the generic form.
fn generic(view: &View, registry: &Registry) -> Diagnostics {
    let snapshot = &view.snapshot;
    let file = snapshot.file();
    let (module, found) = Form::Generic.parse(file.as_str(), snapshot.text(), registry);
    if !found.is_empty() {
        return found;
    }
    ir_core::verify::verify(&module, registry).err().unwrap_or_default()
}

/// A message with the diagnostics of a document.
pub(super) fn publication(uri: &str, version: &Value, diagnostics: Vec<Value>) -> Value {
    let mut params = json!({ "uri": uri, "diagnostics": diagnostics });
    if !version.is_null() {
        params["version"] = version.clone();
    }
    protocol::notification("textDocument/publishDiagnostics", params)
}

fn one(view: &View, diagnostic: &Diagnostic) -> Value {
    let place = |span: Span| {
        let text = view.snapshot.text();
        let (start, end) = (span.start as usize, span.end as usize);
        // What has no extent is shown at the character that stands there.
        let next = text.get(start..).and_then(|rest| rest.chars().next());
        let one = next.filter(|next| !matches!(next, '\n' | '\r')).map_or(0, char::len_utf8);
        view.range(start..if end > start { end } else { start + one })
    };
    let here = |label: &&Label| label.span.file == view.snapshot.file();
    let primary = diagnostic.primary.as_ref().filter(here);
    let mut message = diagnostic.message.clone();
    let label = primary.map(|label| label.message.as_str()).filter(|label| !label.is_empty());
    let further = label.map(str::to_string).into_iter();
    let further = further.chain(diagnostic.notes.iter().map(|note| format!("note: {note}")));
    for line in further.chain(diagnostic.help.iter().map(|help| format!("help: {help}"))) {
        message.push('\n');
        message.push_str(&line);
    }
    let related = diagnostic.secondary.iter().filter(here).map(|label| {
        let location = json!({ "uri": view.uri, "range": place(label.span) });
        json!({ "location": location, "message": label.message })
    });
    let related: Vec<Value> = related.collect();
    json!({
        "range": primary.map_or_else(|| view.range(0..0), |label| place(label.span)),
        "severity": match diagnostic.severity {
            Severity::Error => 1,
            Severity::Warning => 2,
            Severity::Note => 3,
        },
        "code": diagnostic.code,
        "source": "relay-opt",
        "message": message,
        "relatedInformation": related,
    })
}

/// What `code`, one of `codes`, means, as Markdown.
pub(super) fn explanation(code: &str, codes: &[Code]) -> Option<String> {
    let entry = codes::explain(code, &[codes])?;
    Some(format!("# {}: {}\n\n{}\n", entry.code, entry.title, entry.explanation))
}

/// Diagnostics as lines of text.
pub(super) fn text(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = ir_core::diagnostics::render::human(diagnostics, sources, false, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
