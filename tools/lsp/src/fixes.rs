//! What can be done about diagnostics, and types that are not written.

use std::ops::Range;

use analysis::{Binder, Variable};
use ir_core::Type;
use ir_core::diagnostics::codes::Code;
use ir_core::diagnostics::suggestions;
use serde_json::{Value, json};

use super::diagnostics::explanation;
use super::documents::View;
use super::lines::PositionRange;
use super::protocol::Params;

/// The code of what has no type.
const NOT_INFERRED: &str = "E0303";

/// Quick fixes of the diagnostics in a request, then the types that `range` leaves out, then what
/// explains the codes, those that are `known`.
pub(super) fn actions(
    view: &View,
    range: Range<usize>,
    params: Params<'_>,
    known: &[Code],
) -> Value {
    let wanted: Option<Vec<String>> = params.get("/context/only").ok();
    let is_wanted = |kind: &String| kind.is_empty() || kind == "quickfix";
    if wanted.is_some_and(|wanted| !wanted.iter().any(is_wanted)) {
        return json!([]);
    }
    let found: Vec<Value> = params.get("/context/diagnostics").unwrap_or_default();
    let mut actions: Vec<Value> =
        found.iter().flat_map(|diagnostic| corrections(view, diagnostic)).collect();
    actions.extend(annotations(view, range));
    let codes = found.iter().filter_map(|found| found.get("code").and_then(Value::as_str));
    let mut codes: Vec<&str> = codes.filter(|code| explanation(code, known).is_some()).collect();
    codes.sort_unstable();
    codes.dedup();
    actions.extend(codes.into_iter().map(explain));
    Value::Array(actions)
}

fn explain(code: &str) -> Value {
    let title = format!("Explain {code}");
    let arguments = json!([{ "code": code }]);
    let command = json!({ "title": title, "command": "relay.explain", "arguments": arguments });
    json!({ "title": title, "kind": "quickfix", "command": command })
}

/// An action that puts `new` in the place of `range`.
fn replace(view: &View, title: String, range: Range<usize>, new: &str) -> Value {
    let mut changes = serde_json::Map::new();
    let edit = json!({ "range": view.range(range), "newText": new });
    changes.insert(view.uri.clone(), json!([edit]));
    json!({ "title": title, "kind": "quickfix", "edit": { "changes": changes } })
}

/// What corrects `diagnostic`: a name that is near to a misspelt one, or a type to begin with.
fn corrections(view: &View, diagnostic: &Value) -> Vec<Value> {
    let message = diagnostic["message"].as_str().unwrap_or("");
    let Ok(range) = serde_json::from_value::<PositionRange>(diagnostic["range"].clone()) else {
        return Vec::new();
    };
    let range = view.bytes(range);
    let mut actions = match diagnostic["code"].as_str() {
        Some(NOT_INFERRED) => first_types(view, range),
        _ => match suggestions(message) {
            Some((name, near)) => renamings(view, range, name, &near),
            None => Vec::new(),
        },
    };
    for (index, action) in actions.iter_mut().enumerate() {
        action["diagnostics"] = json!([diagnostic]);
        action["isPreferred"] = (index == 0).into();
    }
    actions
}

/// Actions that write one of `near` in the place of `name`, which stands in `range`.
fn renamings(view: &View, range: Range<usize>, name: &str, near: &[&str]) -> Vec<Value> {
    let text = view.snapshot.text().get(range.clone()).unwrap_or("");
    let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c);
    let alone = |at: &usize| {
        !text[..*at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    };
    let Some(start) = text.match_indices(name).map(|(at, _)| at).find(alone) else {
        return Vec::new();
    };
    let place = range.start + start..range.start + start + name.len();
    let action = |near: &&str| replace(view, format!("Write `{near}`"), place.clone(), near);
    near.iter().map(action).collect()
}

/// Actions that give a type to the variable at the start of `range`, whose type cannot be known.
fn first_types(view: &View, range: Range<usize>) -> Vec<Value> {
    let Some(variable) = view.snapshot.variable_at(range.start) else { return Vec::new() };
    let types = ["Tensor[(?), float32]", "float32"];
    types.iter().filter_map(|ty| annotation(view, &variable, ty)).collect()
}

/// Actions that write the types of what is bound in `range` without one.
fn annotations(view: &View, range: Range<usize>) -> Vec<Value> {
    let snapshot = &view.snapshot;
    let mut actions = Vec::new();
    for piece in snapshot.pieces(range.clone()) {
        for variable in snapshot.variables(piece) {
            let name = &variable.name;
            if variable.typed || name.end < range.start || name.start > range.end {
                continue;
            }
            let types = snapshot.item_at(name.start).and_then(|item| snapshot.types(item));
            let ty = types.and_then(|types| types.of_variable(&variable));
            if let Some(ty) = ty.filter(|ty| is_writable(*ty)) {
                actions.extend(annotation(view, &variable, &ty.to_string()));
            }
        }
    }
    actions
}

/// An action that writes the type of a variable where it is bound; graph bindings have none.
fn annotation(view: &View, variable: &Variable, ty: &str) -> Option<Value> {
    if !matches!(variable.binder, Binder::Parameter | Binder::Let) {
        return None;
    }
    let name = view.snapshot.text().get(variable.name.clone())?;
    let end = variable.name.end;
    Some(replace(view, format!("Write `{name}: {ty}`"), end..end, &format!(": {ty}")))
}

/// Whether a type can be written where a variable is bound. What was generalised has parameters
/// that have no name in the text.
fn is_writable(ty: Type) -> bool {
    let facts = ty.facts();
    !(facts.has_parameter || facts.has_unknown || facts.has_variable)
}
