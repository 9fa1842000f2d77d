//! Running passes on an open document, and what else commands do.

use ir_core::pipeline::{DiffForm, Pipeline, write_diff};
use ir_core::text::item_text;
use ir_core::{Registry, Symbol, fingerprint};
use relay::language::FUNC;
use relay_operators::describe;
use serde_json::{Value, json};

use super::diagnostics;
use super::documents::{Shared, View};
use super::protocol::{Failure, INVALID_PARAMS, Params, REQUEST_FAILED};

/// For each function: to run a pass on it, and how many kernels it becomes.
pub(super) fn lenses(view: &View) -> Value {
    let snapshot = &view.snapshot;
    let mut lenses = Vec::new();
    for (name, _) in snapshot.kinds().into_iter().filter(|(_, kind)| *kind == FUNC) {
        let Some(place) = snapshot.name_place(name) else { continue };
        let range = view.range(place.start as usize..place.end as usize);
        let arguments = json!([{ "uri": view.uri, "function": name.as_str() }]);
        let command = json!({
            "title": "Run pass…", "command": "relay.runPass", "arguments": arguments,
        });
        lenses.push(json!({ "range": range, "command": command }));
        let data = json!({ "uri": view.uri, "function": name.as_str() });
        lenses.push(json!({ "range": range, "data": data }));
    }
    Value::Array(lenses)
}

/// A lens with the number of kernels of its function.
///
/// # Errors
/// When the parameters are no lens.
pub(super) fn resolve_lens(view: &View, params: Params<'_>) -> Result<Value, Failure> {
    let function: String = params.get("/data/function")?;
    let groups = view.snapshot.fusion_groups(Symbol::new(&function)).groups.len();
    let title = match groups {
        0 => "no fused kernels".to_string(),
        1 => "1 fused kernel".to_string(),
        groups => format!("{groups} fused kernels"),
    };
    let arguments =
        json!([{ "uri": view.uri, "function": function, "pass": "fuse{strategy=dominator}" }]);
    let mut lens = params.0.clone();
    lens["command"] = json!({ "title": title, "command": "relay.runPass", "arguments": arguments });
    Ok(lens)
}

/// Runs a command that is about no document.
///
/// # Errors
/// When there is no such command, or its arguments are wrong.
pub(super) fn execute(params: Params<'_>, shared: &Shared<'_>) -> Result<Value, Failure> {
    let registry = &shared.registry;
    let command: String = params.get("/command")?;
    match command.as_str() {
        "relay.passes" => {
            let passes = registry.passes().map(|pass| (pass.name, pass.doc));
            let pipelines = registry.pipelines().map(|pipeline| (pipeline.name, pipeline.doc));
            let all = passes.chain(pipelines);
            let one = |(name, doc)| json!({ "name": name, "doc": describe::summary(doc) });
            Ok(all.map(one).collect())
        }
        "relay.explain" => {
            let code: String = params.get("/arguments/0/code")?;
            let text = diagnostics::explanation(&code, shared.codes);
            let unknown = || Failure::new(REQUEST_FAILED, format!("unknown code `{code}`"));
            text.map(Value::from).ok_or_else(unknown)
        }
        "relay.runPass" => {
            // It names no document, else this would not be asked.
            Err(params.get::<String>("/arguments/0/uri").err().unwrap_or_else(|| wrong(&command)))
        }
        _ => Err(wrong(&command)),
    }
}

fn wrong(command: &str) -> Failure {
    Failure::new(INVALID_PARAMS, format!("unknown command `{command}`"))
}

/// Runs a command that is about a document.
///
/// # Errors
/// When there is no such command, its arguments are wrong, or the pass fails.
pub(super) fn execute_on(
    view: &View,
    params: Params<'_>,
    shared: &Shared<'_>,
) -> Result<Value, Failure> {
    let command: String = params.get("/command")?;
    if command != "relay.runPass" {
        return execute(params, shared);
    }
    let pass: String = params.get("/arguments/0/pass")?;
    let function: Option<String> = params.get("/arguments/0/function").ok();
    let function = function.map(|name| Symbol::new(&name));
    run_pass(view, &pass, function, &shared.registry).map(Value::from)
}

/// What `pass` changes in the program, or in `function`, as a unified diff. The whole program goes
/// through the pass in either case, as a pass may look at all of it.
fn run_pass(
    view: &View,
    pass: &str,
    function: Option<Symbol>,
    registry: &Registry,
) -> Result<String, Failure> {
    let failed = |message: String| Failure::new(REQUEST_FAILED, message);
    let snapshot = &view.snapshot;
    if let Some(function) = function
        && snapshot.signature(function).is_none()
    {
        return Err(failed(format!("unknown function `@{function}`")));
    }
    let pipeline = Pipeline::parse(pass, registry).map_err(|found| {
        let help = found.iter().filter_map(|error| error.help.as_ref());
        let help: String = help.map(|help| format!("; {help}")).collect();
        failed(format!("{found}{help}"))
    })?;
    let found = snapshot.diagnostics(analysis::Checks::UntilError);
    if found.has_errors() {
        return Err(failed("the program has errors; correct them first".to_string()));
    }
    let optimized = snapshot.optimize(&pipeline, 1);
    if !optimized.done || optimized.diagnostics.has_errors() {
        let sources = &optimized.module.sources;
        return Err(failed(diagnostics::text(&optimized.diagnostics, sources)));
    }
    let after = optimized.module.items;
    let mut names = snapshot.items();
    names.extend(after.keys().filter(|name| snapshot.signature(**name).is_none()));
    let mut diff = Vec::new();
    for name in names {
        // What a pass moves out of a function is a part of what it does to it.
        let is_new = snapshot.signature(name).is_none();
        if function.is_some_and(|function| function != name) && !is_new {
            continue;
        }
        let before = snapshot.item(name);
        let now = after.get(&name);
        if let (Some(before), Some(now)) = (&before, now)
            && fingerprint::same(before, now)
        {
            continue;
        }
        let text = |item: Option<&ir_core::Item>| {
            item.map_or(String::new(), |item| item_text(name, item, registry, None))
        };
        let (old, new) = (text(before.as_ref()), text(now));
        let (from, to) = (format!("@{name}"), format!("@{name} after {pass}"));
        write_diff((&old, &new), (&from, &to), DiffForm::Unified, false, &mut diff)
            .map_err(|error| failed(error.to_string()))?;
    }
    Ok(String::from_utf8_lossy(&diff).into_owned())
}
