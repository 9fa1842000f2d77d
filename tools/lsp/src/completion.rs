//! What may be written at a place.

use ir_core::registry::{AttrField, OpDef};
use ir_core::text::lexer::TokenKind;
use ir_core::{Registry, Symbol};
use relay::language::TYPE;
use relay::text::DTYPES;
use relay_operators::describe;
use serde_json::{Value, json};

use super::context::{self, Context};
use super::documents::View;
use super::links;
use super::protocol::{Failure, Params};
use super::tokens::KEYWORDS;

/// Kinds of completions, by their numbers in the protocol.
const METHOD: u8 = 2;
const FUNCTION: u8 = 3;
const PROPERTY: u8 = 10;
const VARIABLE: u8 = 6;
const ENUM: u8 = 13;
const KEYWORD: u8 = 14;
const VALUE: u8 = 12;
const MEMBER: u8 = 20;
const MODULE: u8 = 9;

/// Completions of the word around byte `offset`.
pub(super) fn complete(view: &View, offset: usize, registry: &Registry) -> Value {
    let text = view.snapshot.text();
    let line = text.get(..offset).unwrap_or("");
    let line = line.rsplit(['\n', '\r']).next().unwrap_or("");
    if let Some((_, command)) = line.split_once("// RUN:") {
        return in_command(view, offset, command, registry);
    }
    if line.contains("//") {
        return json!([]);
    }
    let context = context::at(view, offset, registry);
    let mut list = List { items: Vec::new(), range: json!(view.range(context.word.clone())) };
    let word = text.get(context.word.start..offset).unwrap_or("");
    match word.chars().next() {
        Some('%') => list.variables(view, context.word.start),
        Some('@') => list.globals(view),
        _ => {
            let dot = context.before == TokenKind::Dot;
            match (&context, context.attribute) {
                // A field of a tuple.
                _ if dot => {}
                (Context { call: Some(call), .. }, Some(attribute)) => {
                    list.values(call.attr(attribute));
                }
                _ if matches!(context.before, TokenKind::Colon | TokenKind::Arrow) => {
                    list.types(view);
                }
                _ => {
                    list.attributes(&context);
                    list.expressions(view, registry);
                }
            }
        }
    }
    json!({ "isIncomplete": false, "items": list.items })
}

/// Completions in a command of a lit test: passes.
fn in_command(view: &View, offset: usize, command: &str, registry: &Registry) -> Value {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let start = offset - (command.len() - command.trim_end_matches(is_part).len());
    if !command.contains("--pass") || command.trim_end_matches(is_part).ends_with("--") {
        return json!([]);
    }
    let mut list = List { items: Vec::new(), range: json!(view.range(start..offset)) };
    for pass in registry.passes() {
        list.add(pass.name, MODULE, Some(describe::summary(pass.doc)));
    }
    for pipeline in registry.pipelines() {
        list.add(pipeline.name, MODULE, Some(describe::summary(pipeline.doc)));
    }
    json!({ "isIncomplete": false, "items": list.items })
}

/// Completions that replace the same range.
struct List {
    items: Vec<Value>,
    range: Value,
}

impl List {
    fn add(&mut self, label: &str, kind: u8, detail: Option<&str>) -> &mut Value {
        let edit = json!({ "range": self.range, "newText": label });
        let mut item = json!({ "label": label, "kind": kind, "textEdit": edit });
        if let Some(detail) = detail {
            item["detail"] = detail.into();
        }
        self.items.push(item);
        let last = self.items.len() - 1;
        &mut self.items[last]
    }

    /// The variables in scope at byte `offset`, innermost first.
    fn variables(&mut self, view: &View, offset: usize) {
        let snapshot = &view.snapshot;
        let piece = snapshot.piece_at(offset).or_else(|| snapshot.pieces(0..offset).last());
        let Some(piece) = piece else { return };
        let behind = offset >= piece.end;
        let types = snapshot.item_at(piece.start).and_then(|item| snapshot.types(item));
        let mut seen = rustc_hash::FxHashSet::default();
        for variable in snapshot.variables(piece.clone()).iter().rev() {
            let scope = &variable.scope;
            let reaches = offset <= scope.end || behind && scope.end == piece.end;
            let Some(name) = snapshot.text().get(variable.name.clone()) else { continue };
            if scope.start < scope.end && scope.start <= offset && reaches && seen.insert(name) {
                let ty = types.as_ref().and_then(|types| types.of_variable(variable));
                self.add(name, VARIABLE, ty.map(|ty| ty.to_string()).as_deref());
            }
        }
    }

    /// The items that have an `@`.
    fn globals(&mut self, view: &View) {
        for (name, kind) in view.snapshot.kinds() {
            if kind != TYPE {
                let signature = view.snapshot.signature(name);
                let ty = signature.map(|signature| signature.ty.to_string());
                self.add(&format!("@{name}"), FUNCTION, ty.as_deref());
            }
        }
    }

    fn types(&mut self, view: &View) {
        for name in ["Tensor", "fn", "ref"].iter().chain(&DTYPES) {
            self.add(name, ENUM, None);
        }
        for (name, _) in links::declarations(view) {
            self.add(name.as_str(), ENUM, None);
        }
    }

    /// The attributes of the call around.
    fn attributes(&mut self, context: &Context<'_, '_>) {
        let first = matches!(context.before, TokenKind::LeftParen | TokenKind::Comma);
        let Some(call) = context.call.filter(|_| first) else { return };
        for attr in call.attrs {
            let item = self.add(attr.name, PROPERTY, Some(attr.expects));
            item["textEdit"]["newText"] = format!("{}=", attr.name).into();
            // Before everything else.
            item["sortText"] = format!("0{}", attr.name).into();
            item["documentation"] = markdown(&describe::attribute(attr));
        }
    }

    /// Values of `attr`, as far as they can be listed.
    fn values(&mut self, attr: Option<&AttrField>) {
        let Some(attr) = attr else { return };
        // What an attribute expects names its strings in quotes.
        let quoted = attr.expects.split('"').skip(1).step_by(2);
        for text in quoted {
            self.add(&format!("\"{text}\""), VALUE, None);
        }
        if attr.expects.starts_with("an element type") {
            for dtype in DTYPES {
                self.add(&format!("\"{dtype}\""), VALUE, None);
            }
        }
        if attr.expects.contains("True") {
            self.add("True", VALUE, None);
            self.add("False", VALUE, None);
        }
        if let Some(default) = describe::attribute_default(attr).strip_prefix("default ")
            && !self.items.iter().any(|item| item["label"] == default)
        {
            self.add(default, VALUE, Some("the default"));
        }
    }

    /// Operators, constructors and words of the language.
    fn expressions(&mut self, view: &View, registry: &Registry) {
        for info in registry.ops() {
            let Some(name) = operator_name(&info.def) else { continue };
            let item = self.add(name, METHOD, Some(describe::summary(info.def.doc)));
            item["data"] = json!({ "operator": name });
        }
        for (owner, declared) in links::declarations(view) {
            for constructor in declared.constructors {
                self.add(constructor.name.as_str(), MEMBER, Some(owner.as_str()));
            }
        }
        for keyword in KEYWORDS {
            self.add(keyword, KEYWORD, None);
        }
    }
}

/// What text calls an operator; `None` for operations that are written in other ways.
fn operator_name(def: &OpDef) -> Option<&'static str> {
    let name = def.name.strip_prefix("relay.")?;
    (!relay::language::is_form(name)).then_some(name)
}

fn markdown(text: &str) -> Value {
    json!({ "kind": "markdown", "value": text })
}

/// A completion with the documentation of its operator.
///
/// # Errors
/// When the parameters are no completion.
pub(super) fn resolve(params: Params<'_>, registry: &Registry) -> Result<Value, Failure> {
    params.get::<String>("/label")?;
    let mut item = params.0.clone();
    let operator: Option<String> = params.get("/data/operator").ok();
    let name = operator.map(|name| Symbol::new(&format!("relay.{name}")));
    if let Some(info) = name.and_then(|name| registry.info(name)) {
        item["documentation"] = markdown(&describe::operator(info));
    }
    Ok(item)
}
