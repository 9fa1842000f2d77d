//! What may be folded.

use std::ops::Range;

use ir_core::text::lexer::{Lexer, TokenKind};
use serde_json::{Value, json};

use super::documents::View;

/// Brackets over several lines, runs of comments, and the metadata section. Linear in the text.
pub(super) fn ranges(view: &View) -> Value {
    let text = view.snapshot.text();
    let mut found = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut end = 0;
    for token in Lexer::new(text) {
        let (start, after) = (token.start as usize, token.end as usize);
        comments(view, end..start, &mut found);
        match token.kind {
            TokenKind::LeftBrace | TokenKind::LeftParen | TokenKind::LeftBracket => {
                open.push(start);
            }
            TokenKind::RightBrace | TokenKind::RightParen | TokenKind::RightBracket => {
                // The line of the closing bracket stays in sight.
                if let Some(from) = open.pop() {
                    fold(view, from, start, 1, None, &mut found);
                }
            }
            TokenKind::Metadata => fold(view, start, after, 0, Some("region"), &mut found),
            _ => {}
        }
        end = after;
    }
    comments(view, end..text.len(), &mut found);
    Value::Array(found)
}

/// Folds the lines from that of byte `from` to that of byte `to`, without the last `less` ones.
fn fold(
    view: &View,
    from: usize,
    to: usize,
    less: u64,
    kind: Option<&str>,
    found: &mut Vec<Value>,
) {
    let range = view.range(from..to);
    let (first, last) = (range.start.line, range.end.line.saturating_sub(less));
    if first < last {
        let mut fold = json!({ "startLine": first, "endLine": last });
        if let Some(kind) = kind {
            fold["kind"] = kind.into();
        }
        found.push(fold);
    }
}

/// Folds lines that follow each other and hold nothing but comments. `between` has no tokens.
fn comments(view: &View, between: Range<usize>, found: &mut Vec<Value>) {
    let text = view.snapshot.text().get(between.clone()).unwrap_or("");
    if !text.contains("//") && !text.contains("/*") {
        return;
    }
    let mut run: Option<Range<usize>> = None;
    let mut at = between.start;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = at;
        at += line.len();
        // A comment behind a token belongs to its line.
        let whole = index > 0 || between.start == 0;
        run = match (run, whole && !line.trim().is_empty()) {
            (None, true) => Some(start..start + line.trim_end().len()),
            (Some(run), true) => Some(run.start..start + line.trim_end().len()),
            (run, false) => {
                if let Some(run) = run {
                    fold(view, run.start, run.end, 0, Some("comment"), found);
                }
                None
            }
        };
    }
    if let Some(run) = run {
        fold(view, run.start, run.end, 0, Some("comment"), found);
    }
}
