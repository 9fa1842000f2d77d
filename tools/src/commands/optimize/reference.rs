//! What exists: lists and descriptions from the registry.

use std::io::{self, Write};

use ir_core::diagnostics::codes;
use ir_core::diagnostics::did_you_mean;
use ir_core::pass::PassDef;
use ir_core::pipeline::Pipeline;
use ir_core::registry::{Field, OpDef};
use ir_core::{Effects, Registry, SourceMap, Traits};
use relay_operators::describe;

use crate::driver::codes::ALL;
use crate::driver::options::optimize::Optimize;
use crate::driver::reference;
use crate::driver::targets;
use crate::process::exit::{OK, USAGE};
use crate::process::io::Io;

/// Answers the questions among `args`; `None` where there are none.
///
/// # Errors
/// Those of writing.
pub(crate) fn answer(
    args: &Optimize,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<Option<i32>> {
    let mut answered = lists(args, registry, io.stdout)?;
    let mut unknown = None;
    if let Some(name) = &args.help_pass {
        answered = true;
        unknown = described_pass(name, registry, io.stdout)?;
    }
    if let Some(name) = &args.help_op {
        answered = true;
        unknown = described_op(name, registry, io.stdout)?.or(unknown);
    }
    if let Some(code) = &args.explain {
        answered = true;
        unknown = explained(code, io.stdout)?.or(unknown);
    }
    if let Some(Unknown { kind, name, help }) = unknown {
        let help = help.map_or(String::new(), |help| format!("; {help}"));
        writeln!(io.stderr, "error: unknown {kind} `{name}`{help}")?;
        return Ok(Some(USAGE));
    }
    Ok(answered.then_some(OK))
}

/// A name that nothing has.
struct Unknown<'n> {
    /// What it was asked for as.
    kind: &'static str,
    name: &'n str,
    help: Option<String>,
}

/// Writes the lists that `args` ask for; whether there is one.
fn lists(args: &Optimize, registry: &Registry, out: &mut dyn Write) -> io::Result<bool> {
    if args.list_passes {
        let passes = registry.passes().map(|pass| (pass.name, pass.doc));
        let pipelines = registry.pipelines().map(|pipeline| (pipeline.name, pipeline.doc));
        list(out, passes.chain(pipelines))?;
    }
    if args.list_dialects {
        list(out, registry.dialects().map(|dialect| (dialect.name, dialect.doc)))?;
    }
    if args.list_ops {
        list(out, registry.ops().map(|info| (info.def.name, info.def.doc)))?;
    }
    if args.list_rules {
        let (library, _) = rewrites::library::Library::new(registry, &SourceMap::default());
        for rule in &library.rules {
            writeln!(out, "{rule}")?;
        }
    }
    if args.list_targets {
        targets::list(registry, out)?;
    }
    let Optimize { list_passes, list_dialects, list_ops, list_rules, list_targets, .. } = *args;
    Ok(list_passes || list_dialects || list_ops || list_rules || list_targets)
}

/// Describes a pass or a named pipeline.
fn described_pass<'n>(
    name: &'n str,
    registry: &Registry,
    out: &mut dyn Write,
) -> io::Result<Option<Unknown<'n>>> {
    if let Some(pass) = registry.find_pass(name) {
        help_pass(out, pass)?;
        return Ok(None);
    }
    if let Some(pipeline) = registry.find_pipeline(name) {
        writeln!(out, "{name}: {}\n", pipeline.doc)?;
        writeln!(out, "text: {}", pipeline.text)?;
        if let Ok(expanded) = Pipeline::parse(&pipeline.text, registry) {
            writeln!(out, "passes: {expanded}")?;
        }
        return Ok(None);
    }
    let names = registry.passes().map(|pass| pass.name);
    let names = names.chain(registry.pipelines().map(|pipeline| pipeline.name));
    Ok(Some(Unknown { kind: "pass", name, help: did_you_mean(name, names) }))
}

/// Describes an operation.
fn described_op<'n>(
    name: &'n str,
    registry: &Registry,
    out: &mut dyn Write,
) -> io::Result<Option<Unknown<'n>>> {
    if let Some(def) = find_op(name, registry) {
        return help_op(out, def).map(|()| None);
    }
    let names = registry.ops().flat_map(|info| {
        let short = info.def.name.split_once('.').map(|(_, short)| short);
        short.into_iter().chain([info.def.name])
    });
    Ok(Some(Unknown { kind: "operation", name, help: did_you_mean(name, names) }))
}

/// Explains the code of a diagnostic.
fn explained<'n>(code: &'n str, out: &mut dyn Write) -> io::Result<Option<Unknown<'n>>> {
    match codes::explain(&code.to_ascii_uppercase(), &[&ALL]) {
        Some(entry) => {
            writeln!(out, "{}: {}\n\n{}", entry.code, entry.title, entry.explanation)?;
            Ok(None)
        }
        None => {
            let all = ALL.iter().map(|entry| entry.code);
            Ok(Some(Unknown { kind: "code", name: code, help: did_you_mean(code, all) }))
        }
    }
}

/// Writes names and summaries in two columns.
fn list<'a>(
    out: &mut dyn Write,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
) -> io::Result<()> {
    let entries: Vec<_> = entries.collect();
    let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, doc) in entries {
        writeln!(out, "{}", format!("{name:width$}  {}", describe::summary(doc)).trim_end())?;
    }
    Ok(())
}

fn help_pass(out: &mut dyn Write, pass: &PassDef) -> io::Result<()> {
    writeln!(out, "{}: {}", pass.name, pass.doc)?;
    if !pass.never_after.is_empty() {
        writeln!(out, "\nnever behind {}", pass.never_after.join(", "))?;
    }
    if pass.options.is_empty() {
        return writeln!(out, "\nno options");
    }
    reference::write_options(pass.options, out)
}

/// The operation `name`, with or without the name of its dialect.
fn find_op<'r>(name: &str, registry: &'r Registry) -> Option<&'r OpDef> {
    let mut full = registry.dialects().map(|dialect| format!("{}.{name}", dialect.name));
    registry.def(name).or_else(|| full.find_map(|full| registry.def(full.as_str())))
}

fn help_op(out: &mut dyn Write, def: &OpDef) -> io::Result<()> {
    writeln!(out, "{}: {}", def.name, def.doc)?;
    for (title, fields) in
        [("operands", def.operands), ("results", def.results), ("regions", def.regions)]
    {
        help_fields(out, title, fields)?;
    }
    if !def.attrs.is_empty() {
        writeln!(out, "\nattributes")?;
    }
    for attr in def.attrs {
        let default = describe::attribute_default(attr);
        writeln!(out, "  {}: {}, {default}", attr.name, attr.expects)?;
        for line in attr.doc.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    if def.traits != Traits::empty() {
        writeln!(out, "\ntraits: {}", describe::traits(def))?;
    }
    if def.effects != Effects::empty() {
        writeln!(out, "\neffects: {}", describe::effects(def))?;
    }
    Ok(())
}

fn help_fields(out: &mut dyn Write, title: &str, fields: &[Field]) -> io::Result<()> {
    if fields.iter().any(|field| !field.doc.is_empty()) {
        writeln!(out, "\n{title}")?;
        for field in fields {
            let arity = describe::arity(field);
            writeln!(out, "  {}{arity}", field.name)?;
            for line in field.doc.lines() {
                writeln!(out, "    {line}")?;
            }
        }
    }
    Ok(())
}
