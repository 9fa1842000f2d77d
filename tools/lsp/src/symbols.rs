//! What a document consists of, and the types that it leaves out.

use std::ops::Range;

use analysis::{Types, Variable};
use ir_core::Symbol;
use relay::language::TYPE;
use serde_json::{Value, json};

use super::documents::View;
use super::links;

/// Longer types are cut in hints; the whole stands in a tooltip.
const LONGEST_HINT: usize = 80;

/// The items, with the constructors of data types.
pub(super) fn symbols(view: &View) -> Value {
    let snapshot = &view.snapshot;
    let symbol = |(name, kind): (Symbol, Symbol)| {
        let span = snapshot.signature(name)?.span?;
        let place = snapshot.name_place(name).unwrap_or(span);
        let bytes = |span: ir_core::Span| span.start as usize..span.end as usize;
        let is_type = kind == TYPE;
        let children = match is_type {
            true => constructors(view, name, bytes(place).end..bytes(span).end),
            false => Vec::new(),
        };
        Some(json!({
            "name": if is_type { name.to_string() } else { format!("@{name}") },
            "detail": if is_type { String::new() } else { snapshot.signature(name)?.ty.to_string() },
            // 10 is an enumeration, 12 a function.
            "kind": if is_type { 10 } else { 12 },
            "range": view.range(bytes(span)),
            "selectionRange": view.range(bytes(place)),
            "children": children,
        }))
    };
    snapshot.kinds().into_iter().filter_map(symbol).collect()
}

/// The items, and the constructors of data types, whose names hold the letters of `query` in this
/// order, whatever their case.
pub(super) fn matching(view: &View, query: &str) -> Vec<Value> {
    let flat = |symbol: &Value, container: &Value| {
        json!({
            "name": symbol["name"], "kind": symbol["kind"], "containerName": container,
            "location": { "uri": view.uri, "range": symbol["selectionRange"] },
        })
    };
    let mut found = Vec::new();
    for item in symbols(view).as_array().into_iter().flatten() {
        found.push(flat(item, &Value::Null));
        let children = item["children"].as_array().into_iter().flatten();
        found.extend(children.map(|child| flat(child, &item["name"])));
    }
    found.retain(|symbol| symbol["name"].as_str().is_some_and(|name| holds(name, query)));
    found
}

/// Whether `name` has the letters of `query` in this order.
fn holds(name: &str, query: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    query.chars().flat_map(char::to_lowercase).all(|wanted| letters.any(|letter| letter == wanted))
}

/// The constructors of data type `name`, whose declaration goes on in `rest`.
fn constructors(view: &View, name: Symbol, rest: Range<usize>) -> Vec<Value> {
    let Some(declared) = links::declaration(view, name) else { return Vec::new() };
    let text = view.snapshot.text();
    let mut tokens = ir_core::text::lexer::Lexer::at(text, rest.start)
        .take_while(|token| (token.start as usize) < rest.end);
    let mut found = Vec::new();
    for constructor in declared.constructors {
        let name = constructor.name.as_str();
        let Some(token) = tokens.find(|token| token.is_word(text, name)) else { break };
        let range = view.range(token.start as usize..token.end as usize);
        let fields: Vec<String> = constructor.fields.iter().map(ToString::to_string).collect();
        // 22 is a member of an enumeration.
        found.push(json!({
            "name": name, "detail": fields.join(", "), "kind": 22,
            "range": range, "selectionRange": range,
        }));
    }
    found
}

/// The types of what is bound in `range` without one.
pub(super) fn hints(view: &View, range: Range<usize>) -> Value {
    let snapshot = &view.snapshot;
    let mut hints = Vec::new();
    let mut known: Option<(Symbol, Option<Types>)> = None;
    for piece in snapshot.pieces(range.clone()) {
        for variable in snapshot.variables(piece) {
            let place = variable.name.end;
            if variable.typed || place < range.start || place > range.end {
                continue;
            }
            let Some(item) = snapshot.item_at(variable.name.start) else { continue };
            if known.as_ref().is_none_or(|(name, _)| *name != item) {
                known = Some((item, snapshot.types(item)));
            }
            let types = known.as_ref().and_then(|(_, types)| types.as_ref());
            hints.extend(types.and_then(|types| hint(view, types, &variable)));
        }
    }
    Value::Array(hints)
}

fn hint(view: &View, types: &Types, variable: &Variable) -> Option<Value> {
    let ty = types.of_variable(variable)?.to_string();
    let position = view.range(variable.name.end..variable.name.end).start;
    let cut = ty.char_indices().nth(LONGEST_HINT).map(|(end, _)| format!(": {}…", &ty[..end]));
    let mut hint = json!({ "position": position, "kind": 1 });
    match cut {
        None => hint["label"] = format!(": {ty}").into(),
        Some(cut) => {
            hint["label"] = cut.into();
            hint["tooltip"] = ty.into();
        }
    }
    Some(hint)
}
