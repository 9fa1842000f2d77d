//! The reference pages of the documentation, made from what is registered.

use std::io;

use std::fmt::Write;

use ir_core::pass::{OptionField, PassDef};
use ir_core::pipeline::Pipeline;
use ir_core::registry::OpInfo;
use ir_core::{Effects, Registry, Traits};
use relay_operators::{FAMILIES, describe};

/// What stands at the top of a page that this module writes.
const GENERATED: &str =
    "<!-- Generated; `UPDATE=1 cargo test -p relay-opt --test integration docs` rewrites it. -->";

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
        let names: Vec<_> =
            registry.ops().map(|info| format!("`{}`", describe::text_name(info))).collect();
        push(&mut page, &format!("- [{title}](#{}): {}\n", anchor(title), names.join(", ")));
    }
    for (title, registry) in &families {
        push(&mut page, &format!("\n## {title}\n"));
        registry.ops().for_each(|info| operator(&mut page, info));
    }
    page
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn push(page: &mut String, text: &str) {
    page.push_str(text);
}

fn operator(page: &mut String, info: &OpInfo) {
    push(page, &format!("\n### {}\n\n{}", describe::text_name(info), describe::operator(info)));
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
        match Pipeline::parse(&pipeline.text, registry) {
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
        let line = format!("- [{}](#{}): {}\n", pass.name, pass.name, describe::summary(pass.doc));
        push(&mut page, &line);
    }
    passes.iter().for_each(|pass| describe_pass(&mut page, pass));
    page
}

fn describe_pass(page: &mut String, pass: &PassDef) {
    push(page, &format!("\n### {}\n\n{}\n", pass.name, pass.doc.trim()));
    if !pass.never_after.is_empty() {
        let others: Vec<String> = pass.never_after.iter().map(|name| format!("`{name}`")).collect();
        push(page, &format!("\nNever behind {}.\n", others.join(", ")));
    }
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
    for entry in crate::driver::codes::ALL.iter() {
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

/// The page of the command line: the `help` of the program and of its commands, by name.
pub fn command_line(help: &[(String, String)]) -> String {
    let clean = |text: &str| {
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_string()
    };
    let mut page = format!("# Command line\n\n{GENERATED}\n");
    for (name, help) in help {
        push(&mut page, &format!("\n## {name}\n\n```text\n{}\n```\n", clean(help)));
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
        push(&mut text, &describe::fields(def));
        let mut facts = Vec::new();
        if def.traits != Traits::empty() {
            facts.push(format!("traits: {}", describe::traits(def)));
        }
        let effects =
            if def.effects == Effects::empty() { "none".into() } else { describe::effects(def) };
        facts.push(format!("effects: {effects}"));
        push(&mut text, &format!("\n*{}*\n", facts.join("; ")));
    }
    text
}
