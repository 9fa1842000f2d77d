//! Formatting.

use ir_core::Registry;
use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::text::{Form, item_text};
use relay::language::FUNC;
use serde_json::{Value, json};

use super::documents::View;
use super::protocol::{Failure, REQUEST_FAILED};

/// Prints functions as the compiler prints them. What stands between functions stays as it is, and
/// so does a function that holds a comment, which printing would lose, or constants of the metadata
/// section, whose numbers would change.
///
/// # Errors
/// When the text has errors.
pub(super) fn format(view: &View, registry: &Registry) -> Result<Value, Failure> {
    let snapshot = &view.snapshot;
    if Form::of(snapshot.text()) == Form::Generic {
        return Err(Failure::new(REQUEST_FAILED, "only Relay text can be formatted"));
    }
    if snapshot.diagnostics(analysis::Checks::Everything).has_errors() {
        return Err(Failure::new(REQUEST_FAILED, "the text has errors; correct them first"));
    }
    // As it is written: inference would add types.
    let (module, _) = Form::Readable.parse(snapshot.file().as_str(), snapshot.text(), registry);
    let mut edits = Vec::new();
    for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == FUNC) {
        let Some(span) = item.signature.span else { continue };
        let range = span.start as usize..span.end as usize;
        let Some(text) = snapshot.text().get(range.clone()) else { continue };
        // An expression outside of functions is `@main` without a word of it.
        if !text.starts_with("def") || holds_comment(text) || holds_constant(text) {
            continue;
        }
        let printed = item_text(*name, item, registry, None);
        let printed = printed.trim();
        if printed != text && !holds_constant(printed) {
            edits.push(json!({ "range": view.range(range), "newText": printed }));
        }
    }
    Ok(Value::Array(edits))
}

/// Whether comments stand between the tokens of `text`.
fn holds_comment(text: &str) -> bool {
    let mut end = 0;
    for token in Lexer::new(text) {
        let between = text.get(end..token.start as usize).unwrap_or("");
        if between.contains('/') {
            return true;
        }
        end = token.end as usize;
    }
    text.get(end..).is_some_and(|rest| rest.contains('/'))
}

/// Whether `text` refers to the metadata section, or has one.
fn holds_constant(text: &str) -> bool {
    Lexer::new(text).any(|token| token.kind == TokenKind::Metadata || token.is_word(text, "meta"))
}
