//! Operations as text for people, from what they declare: for the reference, the help of tools and
//! editors.

use ir_core::registry::{Arity, AttrField, Field, OpDef, OpInfo};
use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_attr;
use ir_core::text::layout::Line;
use ir_core::{Effects, Traits};
use relay::define::Define;
use relay::interpreter::Evaluate;
use relay::language::short_name;

use crate::{FusionPattern, Gradient};

/// What is known of an operator, as Markdown.
pub fn operator(info: &OpInfo) -> String {
    let def = &info.def;
    let mut facts = Vec::new();
    let pattern = info.hook::<FusionPattern>().copied().unwrap_or(FusionPattern::Opaque);
    facts.push(format!("fusion pattern {}", pattern_name(pattern)));
    facts.push(if info.hook::<Evaluate>().is_some() { "evaluator" } else { "no evaluator" }.into());
    facts.push(if info.hook::<Define>().is_some() { "definition" } else { "no definition" }.into());
    if info.hook::<Gradient>().is_some() {
        facts.push("gradient".into());
    }
    if def.fold.is_some() {
        facts.push("fold".into());
    }
    if def.traits != Traits::empty() {
        facts.push(traits(def));
    }
    let effects = if def.effects == Effects::empty() { "none".into() } else { effects(def) };
    facts.push(format!("effects: {effects}"));
    let (name, parameters, doc) = (text_name(info), parameters(def), def.doc.trim());
    format!("`{name}({parameters})`\n\n{doc}\n{}\n*{}*\n", fields(def), facts.join("; "))
}

/// The operands, regions and attributes of `def` as a list in Markdown, behind a blank line; empty
/// where it has none.
pub fn fields(def: &OpDef) -> String {
    let fields = def.operands.iter().chain(def.regions);
    let fields = fields.map(|field| (format!("`{}`{}", field.name, arity(field)), field.doc));
    let attributes = def.attrs.iter().map(|attr| (attribute_title(attr), attr.doc));
    let lines = fields.chain(attributes).map(|(title, doc)| match doc.trim() {
        "" => format!("- {title}\n"),
        doc => format!("- {title}: {}\n", doc.replace('\n', "\n  ")),
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// What is known of an attribute, as Markdown.
pub fn attribute(attr: &AttrField) -> String {
    match attr.doc.trim() {
        "" => attribute_title(attr),
        doc => format!("{}\n\n{doc}", attribute_title(attr)),
    }
}

/// The default of an attribute as the generic form writes it: `default [1, 1]`, or `required`.
pub fn attribute_default(field: &AttrField) -> String {
    let Some(default) = field.default else { return "required".to_string() };
    let mut line = Line::default();
    write_attr(default(), &PrintOptions::complete(), &mut line);
    format!("default {}", line.text())
}

/// Name, type and default.
fn attribute_title(attr: &AttrField) -> String {
    let default = attribute_default(attr);
    let default = match default.strip_prefix("default ") {
        Some(default) => format!("default `{default}`"),
        None => default,
    };
    format!("`{}`, {}, {default}", attr.name, attr.expects)
}

/// The first line of a documentation text.
pub fn summary(doc: &str) -> &str {
    doc.lines().next().unwrap_or_default()
}

/// The name of an operator in relay text.
pub fn text_name(info: &OpInfo) -> &'static str {
    short_name(info.def.name)
}

/// What follows the name of a field that does not stand for exactly one value.
pub fn arity(field: &Field) -> &'static str {
    match field.arity {
        Arity::One => "",
        Arity::Optional => " (optional)",
        Arity::Many => " (any number)",
    }
}

/// The names of the traits of `def`.
pub fn traits(def: &OpDef) -> String {
    flags(def.traits.iter_names().map(|(name, _)| name))
}

/// The names of the effects of `def`.
pub fn effects(def: &OpDef) -> String {
    flags(def.effects.iter_names().map(|(name, _)| name))
}

fn flags(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ").to_ascii_lowercase().replace('_', " ")
}

fn pattern_name(pattern: FusionPattern) -> &'static str {
    match pattern {
        FusionPattern::Elementwise => "elementwise",
        FusionPattern::Broadcast => "broadcast",
        FusionPattern::Injective => "injective",
        FusionPattern::Reduce => "reduce",
        FusionPattern::OutFusable => "out-fusable",
        FusionPattern::Scatter => "scatter",
        FusionPattern::Tuple => "tuple",
        FusionPattern::Opaque => "opaque",
    }
}

/// Operands and attributes as in a call.
fn parameters(def: &OpDef) -> String {
    let operands = def.operands.iter().map(|field| match field.arity {
        Arity::One => field.name.to_string(),
        Arity::Optional => format!("[{}]", field.name),
        Arity::Many => format!("{}…", field.name),
    });
    let attrs = def.attrs.iter().map(|attr| {
        let default = attribute_default(attr);
        match default.strip_prefix("default ") {
            Some(default) => format!("{}={default}", attr.name),
            None => format!("{}=…", attr.name),
        }
    });
    operands.chain(attrs).collect::<Vec<_>>().join(", ")
}
