//! The reference pages of the documentation, made from what is registered.

use std::io;

use std::fmt::Write;

use ir_core::pass::{OptionField, PassDef};
use ir_core::pipeline::Pipeline;
use ir_core::registry::{Arity, AttrField, Field, OpDef, OpInfo};
use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_attr;
use ir_core::text::layout::Line;
use ir_core::{Effects, Registry, Traits};
use relay::define::Define;
use relay::interpreter::Evaluate;
use relay_operators::{FAMILIES, FusionPattern};

/// What stands at the top of a page that this module writes.
const GENERATED: &str =
    "<!-- Generated; `UPDATE=1 cargo test -p tools --test docs` rewrites it. -->";

/// The first line of a documentation text.
pub(crate) fn summary(doc: &str) -> &str {
    doc.lines().next().unwrap_or_default()
}

/// The default of an attribute as the generic form writes it: `default [1, 1]`, or `required`.
pub(crate) fn attribute_default(field: &AttrField) -> String {
    let Some(default) = field.default else { return "required".to_string() };
    let mut line = Line::default();
    write_attr(default(), &PrintOptions::complete(), &mut line);
    format!("default {}", line.text())
}

/// The default of an option as it would be written, or `none`.
pub(crate) fn option_default(field: &OptionField) -> String {
    let default = (field.default)();
    if default.is_empty() { "none".to_string() } else { default }
}

/// Writes the options of a pass or a target, where it has some.
///
/// # Errors
/// Those of writing.
pub(crate) fn write_options(options: &[OptionField], out: &mut dyn io::Write) -> io::Result<()> {
    if options.is_empty() {
        return Ok(());
    }
    writeln!(out, "\noptions")?;
    for option in options {
        let default = option_default(option);
        writeln!(out, "  {}: {}, default {default}", option.name, option.expects)?;
        for line in option.doc.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// What follows the name of a field that does not stand for exactly one value.
pub(crate) fn arity(field: &Field) -> &'static str {
    match field.arity {
        Arity::One => "",
        Arity::Optional => " (optional)",
        Arity::Many => " (any number)",
    }
}

/// The names of the traits of `def`.
pub(crate) fn traits(def: &OpDef) -> String {
    flags(def.traits.iter_names().map(|(name, _)| name))
}

/// The names of the effects of `def`.
pub(crate) fn effects(def: &OpDef) -> String {
    flags(def.effects.iter_names().map(|(name, _)| name))
}

fn flags(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ").to_ascii_lowercase().replace('_', " ")
}

/// The page of all operators, by family.
pub fn operators() -> String {
    let mut page = format!(
        "# Operators\n\n{GENERATED}\n\n\
         An operator is written `name(operands, attribute=value)`; attributes at their default are\n\
         left out. *Evaluator* means that the reference interpreter and `fold-constant` can run\n\
         it; *fold* that it simplifies itself. Its *fusion pattern* says how it joins kernels.\n\n"
    );
    let families = FAMILIES.iter().map(|family| {
        let mut registry = Registry::new();
        (family.register)(&mut registry);
        (family.title, registry)
    });
    let families: Vec<_> = families.collect();
    for (title, registry) in &families {
        let names: Vec<_> = registry.ops().map(|info| format!("`{}`", text_name(info))).collect();
        push(&mut page, &format!("- [{title}](#{}): {}\n", anchor(title), names.join(", ")));
    }
    for (title, registry) in &families {
        push(&mut page, &format!("\n## {title}\n"));
        registry.ops().for_each(|info| operator(&mut page, info));
    }
    page
}

/// The name of an operator in relay text.
fn text_name(info: &OpInfo) -> &'static str {
    info.def.name.strip_prefix("relay.").unwrap_or(info.def.name)
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn push(page: &mut String, text: &str) {
    page.push_str(text);
}

fn operator(page: &mut String, info: &OpInfo) {
    push(page, &format!("\n### {}\n\n{}", text_name(info), operator_text(info)));
}

/// What is known of an operator, as Markdown.
pub(crate) fn operator_text(info: &OpInfo) -> String {
    let def = &info.def;
    let mut text = format!("`{}({})`\n\n{}\n", text_name(info), parameters(def), def.doc.trim());
    fields(&mut text, def);
    let mut facts = Vec::new();
    let pattern = info.hook::<FusionPattern>().copied().unwrap_or(FusionPattern::Opaque);
    facts.push(format!("fusion pattern {}", pattern_name(pattern)));
    facts.push(if info.hook::<Evaluate>().is_some() { "evaluator" } else { "no evaluator" }.into());
    facts.push(if info.hook::<Define>().is_some() { "definition" } else { "no definition" }.into());
    if def.fold.is_some() {
        facts.push("fold".into());
    }
    if def.traits != Traits::empty() {
        facts.push(traits(def));
    }
    let effects = if def.effects == Effects::empty() { "none".into() } else { effects(def) };
    facts.push(format!("effects: {effects}"));
    push(&mut text, &format!("\n*{}*\n", facts.join("; ")));
    text
}

/// What is known of an attribute, as Markdown.
pub(crate) fn attribute_text(attr: &AttrField) -> String {
    let title = format!("`{}`, {}, {}", attr.name, attr.expects, code_default(attr));
    let doc = attr.doc.trim();
    if doc.is_empty() { title } else { format!("{title}\n\n{doc}") }
}

fn pattern_name(pattern: FusionPattern) -> &'static str {
    match pattern {
        FusionPattern::Elementwise => "elementwise",
        FusionPattern::Broadcast => "broadcast",
        FusionPattern::Injective => "injective",
        FusionPattern::Reduce => "reduce",
        FusionPattern::OutFusable => "out-fusable",
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

/// A list of the operands, attributes and regions of `def`.
fn fields(page: &mut String, def: &OpDef) {
    let mut lines = Vec::new();
    for field in def.operands.iter().chain(def.regions) {
        lines.push((format!("`{}`{}", field.name, arity(field)), field.doc));
    }
    for attr in def.attrs {
        let title = format!("`{}`, {}, {}", attr.name, attr.expects, code_default(attr));
        lines.push((title, attr.doc));
    }
    if !lines.is_empty() {
        page.push('\n');
    }
    for (title, doc) in lines {
        let doc = doc.trim().replace('\n', "\n  ");
        let text = if doc.is_empty() { format!("- {title}") } else { format!("- {title}: {doc}") };
        push(page, &format!("{text}\n"));
    }
}

fn code_default(attr: &AttrField) -> String {
    let default = attribute_default(attr);
    match default.strip_prefix("default ") {
        Some(default) => format!("default `{default}`"),
        None => default,
    }
}

/// The page of all passes and named pipelines.
pub fn passes(registry: &Registry) -> String {
    let mut page = format!(
        "# Passes\n\n{GENERATED}\n\n\
         A pipeline is a list of passes: `a,b{{key=value,flag}},c`. Named pipelines may stand in it\n\
         like passes. The example of a pass is checked: the pass turns the first program into the\n\
         second.\n\n## Pipelines\n\n"
    );
    for pipeline in registry.pipelines() {
        push(&mut page, &format!("- `{}`: {}", pipeline.name, pipeline.doc.trim()));
        match Pipeline::parse(pipeline.text, registry) {
            Ok(expanded) if !expanded.is_empty() => {
                push(&mut page, &format!("\n\n  ```text\n  {expanded}\n  ```\n\n"));
            }
            _ => page.push('\n'),
        }
    }
    push(&mut page, "\n## All passes\n\n");
    let mut passes: Vec<_> = registry.passes().collect();
    passes.sort_by_key(|pass| pass.name);
    for pass in &passes {
        let line = format!("- [{}](#{}): {}\n", pass.name, pass.name, summary(pass.doc));
        push(&mut page, &line);
    }
    passes.iter().for_each(|pass| describe_pass(&mut page, pass));
    page
}

fn describe_pass(page: &mut String, pass: &PassDef) {
    push(page, &format!("\n### {}\n\n{}\n", pass.name, pass.doc.trim()));
    if !pass.options.is_empty() {
        push(page, "\nOptions:\n\n");
    }
    for option in pass.options {
        let doc = option.doc.trim().replace('\n', "\n  ");
        let default = option_default(option);
        let line = format!("- `{}`, {}, default `{default}`: {doc}\n", option.name, option.expects);
        push(page, &line);
    }
}

/// The page of all diagnostic codes.
pub fn diagnostics() -> String {
    let mut page = format!(
        "# Diagnostics\n\n{GENERATED}\n\n\
         Every diagnostic has a code that does not change; `relay-opt --explain CODE` prints what\n\
         stands here. Codes that start with E are errors, those with W warnings.\n"
    );
    for entry in crate::codes::ALL.iter() {
        let text =
            format!("\n## {}\n\n{}.\n\n{}\n", entry.code, capital(entry.title), entry.explanation);
        push(&mut page, &text);
    }
    page
}

/// `text` with its first letter in upper case.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The page of the command line of relay-opt.
pub fn command_line() -> String {
    let clean = |text: &str| {
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_string()
    };
    let mut page = format!("# Command line\n\n{GENERATED}\n");
    for (name, help) in crate::relay_opt::help() {
        push(&mut page, &format!("\n## {name}\n\n```text\n{}\n```\n", clean(&help)));
    }
    page
}

/// The section of the page on importing ONNX on the operators that can be imported.
pub fn onnx_operators() -> String {
    let mut text = String::new();
    for family in onnx_frontend::FAMILIES {
        push(&mut text, &format!("\n### {}\n\n| operator | becomes |\n|---|---|\n", family.title));
        for operator in family.operators {
            push(&mut text, &format!("| {} | {} |\n", operator.name, operator.doc));
        }
    }
    text
}

/// The section of the language page on the operations that the forms of the language are.
pub fn language_operations(registry: &Registry) -> String {
    let mut operators = Registry::new();
    for family in FAMILIES {
        (family.register)(&mut operators);
    }
    let mut text = String::new();
    for info in registry.ops() {
        let def = &info.def;
        if operators.info(def.name).is_some() || !def.name.starts_with("relay.") {
            continue;
        }
        let _ = write!(text, "\n### {}\n\n{}\n", def.name, def.doc.trim());
        fields(&mut text, def);
        let mut facts = Vec::new();
        if def.traits != Traits::empty() {
            facts.push(format!("traits: {}", traits(def)));
        }
        let effects = if def.effects == Effects::empty() { "none".into() } else { effects(def) };
        facts.push(format!("effects: {effects}"));
        push(&mut text, &format!("\n*{}*\n", facts.join("; ")));
    }
    text
}
