//! What a call takes, while it is written.

use ir_core::registry::{Arity, OpDef};
use ir_core::text::lexer::TokenKind;
use ir_core::{Registry, Type};
use relay_operators::describe;
use serde_json::{Value, json};

use super::context::{self, Context};
use super::documents::View;
use super::links::{self, Named};

/// A signature as it grows.
struct Signature {
    label: String,
    parameters: Vec<Value>,
}

impl Signature {
    fn new(name: &str) -> Signature {
        Signature { label: format!("{name}("), parameters: Vec::new() }
    }

    /// Adds a parameter, with what is known of it as Markdown.
    fn parameter(&mut self, text: &str, doc: &str) {
        // Places in a label are counted in UTF-16 whatever was agreed.
        let units = |text: &str| text.encode_utf16().count();
        if !self.parameters.is_empty() {
            self.label.push_str(", ");
        }
        let start = units(&self.label);
        self.label.push_str(text);
        let mut parameter = json!({ "label": [start, start + units(text)] });
        if !doc.is_empty() {
            parameter["documentation"] = json!({ "kind": "markdown", "value": doc });
        }
        self.parameters.push(parameter);
    }

    /// The answer to the editor, with parameter `active` marked.
    fn finish(mut self, end: &str, doc: &str, active: usize) -> Value {
        self.label.push_str(end);
        let documentation = json!({ "kind": "markdown", "value": doc });
        let signature = json!({
            "label": self.label, "parameters": self.parameters, "documentation": documentation,
        });
        json!({ "signatures": [signature], "activeSignature": 0, "activeParameter": active })
    }
}

/// What the call around byte `offset` takes, and which of it stands there.
pub(super) fn help(view: &View, offset: usize, registry: &Registry) -> Value {
    let context = context::at(view, offset, registry);
    let found = match (context.call, context.callee.clone()) {
        (Some(operator), _) => Some(of_operator(operator, &context)),
        (None, Some(callee)) => {
            let named = links::named(view, callee.start, registry);
            named.and_then(|(named, _)| of_named(view, &named, context.arguments))
        }
        (None, None) => None,
    };
    found.unwrap_or(Value::Null)
}

fn of_operator(operator: &OpDef, context: &Context<'_, '_>) -> Value {
    let mut signature = Signature::new(operator.name.trim_start_matches("relay."));
    for field in operator.operands {
        let more = if field.arity == Arity::Many { "…" } else { "" };
        signature.parameter(&format!("{}{more}", field.name), field.doc);
    }
    for attr in operator.attrs {
        signature.parameter(&format!("{}=", attr.name), &describe::attribute(attr));
    }
    let operands = operator.operands.len();
    let written = context.attribute.or(context.key);
    let attribute = written.and_then(|name| {
        operator.attrs.iter().position(|attr| attr.name == name).map(|index| operands + index)
    });
    // Of several operands of one name, all are the last one.
    let many = operator.operands.last().is_some_and(|field| field.arity == Arity::Many);
    let operand = if many { context.arguments.min(operands - 1) } else { context.arguments };
    let active = attribute.unwrap_or(operand);
    signature.finish(")", describe::summary(operator.doc), active)
}

/// The signature of a function, a constructor or a variable that is a function.
fn of_named(view: &View, named: &Named, active: usize) -> Option<Value> {
    let snapshot = &view.snapshot;
    match named {
        Named::Item(name) => {
            let place = snapshot.name_place(*name)?;
            let names = parameters(view, place.end as usize);
            function(&format!("@{name}"), snapshot.signature(*name)?.ty, &names, active)
        }
        Named::Variable(variable) => {
            let name = snapshot.text().get(variable.name.clone())?;
            let item = snapshot.item_at(variable.name.start)?;
            function(name, snapshot.types(item)?.of_variable(variable)?, &[], active)
        }
        Named::Constructor(name, owner) => {
            let declared = links::declaration(view, *owner)?;
            let constructor = declared.constructors.iter().find(|own| own.name == *name)?;
            let mut signature = Signature::new(name.as_str());
            for field in &constructor.fields {
                signature.parameter(&field.to_string(), "");
            }
            let params: Vec<&str> = declared.params.iter().map(|param| param.as_str()).collect();
            Some(signature.finish(&format!(") -> {owner}[{}]", params.join(", ")), "", active))
        }
        Named::Type(_) => None,
    }
}

fn function(name: &str, ty: Type, names: &[&str], active: usize) -> Option<Value> {
    let function = ty.as_function()?;
    let mut signature = Signature::new(name);
    for (index, param) in function.params.iter().enumerate() {
        let text = match names.get(index) {
            Some(name) => format!("{name}: {param}"),
            None => param.to_string(),
        };
        signature.parameter(&text, "");
    }
    Some(signature.finish(&format!(") -> {}", function.result), "", active))
}

/// The names of the parameters that are declared from byte `start` on.
fn parameters(view: &View, start: usize) -> Vec<&str> {
    let text = view.snapshot.text();
    let (mut names, mut depth) = (Vec::new(), 0usize);
    for token in ir_core::text::lexer::Lexer::at(text, start) {
        match token.kind {
            TokenKind::LeftBrace | TokenKind::End => break,
            TokenKind::LeftParen | TokenKind::LeftBracket => depth += 1,
            TokenKind::RightParen | TokenKind::RightBracket => depth = depth.saturating_sub(1),
            TokenKind::Local | TokenKind::Graph if depth == 1 => names.push(token.text(text)),
            _ => {}
        }
    }
    names
}
