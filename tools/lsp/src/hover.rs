//! What is shown about a word.

use std::ops::Range;

use analysis::{Binder, Word};
use ir_core::text::lexer::TokenKind;
use ir_core::{Registry, Type};
use relay::language::FUNC;
use relay_operators::describe;
use serde_json::{Value, json};

use super::context;
use super::documents::View;
use super::links::{self, Named};

/// Longer declarations are cut.
const LONGEST_DECLARATION: usize = 2000;

/// What is known of what stands at byte `offset`, as Markdown.
pub(super) fn hover(view: &View, offset: usize, registry: &Registry) -> Value {
    let found = attribute(view, offset, registry).or_else(|| word(view, offset, registry));
    let Some((text, range)) = found else { return Value::Null };
    json!({ "contents": { "kind": "markdown", "value": text }, "range": view.range(range) })
}

/// The key of an attribute.
fn attribute(view: &View, offset: usize, registry: &Registry) -> Option<(String, Range<usize>)> {
    let context = context::at(view, offset, registry);
    let name = view.snapshot.text().get(context.word.clone())?;
    if context.after != TokenKind::Equal {
        return None;
    }
    let field = context.call?.attr(name)?;
    Some((describe::attribute(field), context.word))
}

fn word(view: &View, offset: usize, registry: &Registry) -> Option<(String, Range<usize>)> {
    let snapshot = &view.snapshot;
    let hover = snapshot.hover(offset)?;
    if let Word::Operation(name) = hover.word {
        let info = registry.info(name)?;
        let ty = snapshot.item_at(offset).and_then(|item| snapshot.types(item));
        let ty = ty.and_then(|types| types.of_operation(hover.range.start));
        let result = ty.map_or(String::new(), |ty| format!("```relay\n{ty}\n```\n\n"));
        return Some((format!("{result}{}", describe::operator(info)), hover.range));
    }
    let (named, range) = links::named(view, offset, registry)?;
    let text = match named {
        Named::Variable(variable) => {
            let name = snapshot.text().get(variable.name)?;
            let what = match variable.binder {
                Binder::Parameter => "parameter",
                Binder::Let => "bound by `let`",
                Binder::Graph => "graph binding",
                Binder::Pattern => "bound by a pattern",
            };
            let ty = hover.ty.map_or("_".to_string(), |ty: Type| ty.to_string());
            format!("```relay\n{name}: {ty}\n```\n\n{what}")
        }
        Named::Item(name) => {
            let signature = snapshot.signature(name)?;
            let kind = match signature.op == FUNC {
                true => String::new(),
                false => format!("\n\n`{}`", signature.op),
            };
            let comment = comment(view, signature.span?.start as usize);
            let comment = comment.map_or(String::new(), |comment| format!("\n\n{comment}"));
            format!("```relay\n@{name}: {}\n```{kind}{comment}", signature.ty)
        }
        Named::Type(name) => declaration(view, name)?,
        Named::Constructor(name, owner) => {
            format!("`{name}` is a constructor of\n\n{}", declaration(view, owner)?)
        }
    };
    Some((text, range))
}

/// The text that declares data type `name`.
fn declaration(view: &View, name: ir_core::Symbol) -> Option<String> {
    let span = view.snapshot.signature(name)?.span?;
    let text = view.snapshot.text().get(span.start as usize..span.end as usize)?;
    let end = text.char_indices().nth(LONGEST_DECLARATION).map(|(end, _)| end);
    let cut = end.map_or(text.to_string(), |end| format!("{} …", &text[..end]));
    let start = span.start as usize;
    let comment = comment(view, start).map_or(String::new(), |comment| format!("\n\n{comment}"));
    Some(format!("```relay\n{cut}\n```{comment}"))
}

/// The comment on the lines right above byte `start`.
fn comment(view: &View, start: usize) -> Option<String> {
    let above = view.snapshot.text().get(..start)?;
    let above = above.strip_suffix('\n')?;
    let lines = above.rsplit('\n').map(str::trim);
    let lines =
        lines.map_while(|line| line.strip_prefix("//").map(|line| line.trim_start_matches('/')));
    // Commands of tests are about the file.
    let is_command = |line: &&str| line.trim().starts_with("RUN:") || line.contains("CHECK");
    let mut lines: Vec<&str> = lines.take_while(|line| !is_command(line)).map(str::trim).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
