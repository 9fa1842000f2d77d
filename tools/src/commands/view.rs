//! The subcommand `view`: a page that shows what passes do to a program.

mod graph;
mod layout;

use std::io::{self, Write};

use clap::{ArgAction, Args};
use ir_core::pipeline::{
    Instrument, Outcome, PIPELINE_FILE, Pipeline, RunOptions, Stages, StepCx, StepResult,
    VerifyEach, run,
};
use ir_core::{Diagnostic, Diagnostics, Module, Registry};
use serde_json::{Map, Value, json};

use crate::driver::input;
use crate::driver::language::{Form, verify};
use crate::driver::model::ELIDED_OVER;
use crate::driver::model::load;
use crate::driver::options::{DiagnosticForm, ModelOptions};
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, INTERNAL, OK, USAGE};
use crate::process::io::{Io, plain};

/// Writes a page that shows what passes do to a program.
///
/// One file, without anything from elsewhere: the program after each pass as text, as a graph with the
/// operations of a kernel in one colour, and as a difference between any two stages; times and what
/// passes counted; and the kernels of a profile.
#[derive(Args, Debug)]
pub(crate) struct ViewModel {
    /// The program: text, or `.onnx`; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// Passes to run; a repeated option appends
    #[arg(long, value_name = "PIPELINE", action = ArgAction::Append)]
    pub(crate) pass: Vec<String>,
    /// What `relay-opt bench --json --profile` wrote, for the table of kernels
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<String>,
    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "view.html")]
    pub(crate) output: String,
}

/// The page, its style and its program; `{{title}}`, `{{style}}`, `{{script}}` and `{{data}}` stand
/// for what goes into it.
const PAGE: &str = include_str!("view/page.html");
const STYLE: &str = include_str!("view/style.css");
const SCRIPT: &str = concat!(
    include_str!("view/difference.js"),
    include_str!("view/drawing.js"),
    include_str!("view/script.js")
);

/// Writes the page and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn view(args: &ViewModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let text = args.pass.join(",");
    reporter.source(PIPELINE_FILE, &text);
    let pipeline = match Pipeline::parse(&text, registry) {
        Ok(pipeline) => pipeline,
        Err(diagnostic) => {
            reporter.report(diagnostic, io)?;
            reporter.finish(io)?;
            return Ok(USAGE);
        }
    };
    let mut found = Diagnostics::new();
    let page = data(args, &pipeline, registry, &mut reporter, &mut found, io);
    let written = match page {
        Ok(Some((data, status))) => {
            let path = io.directory.join(&args.output);
            match ir_core::files::write(&path, page_of(&args.model, &data)) {
                Ok(()) => {
                    writeln!(io.stdout, "wrote `{}`", args.output)?;
                    Some(status)
                }
                Err(error) => {
                    let message = format!("cannot write `{}`: {}", args.output, plain(&error));
                    found.push(Diagnostic::error("E0724", message));
                    None
                }
            }
        }
        Ok(None) => None,
        Err(error) => return Err(error),
    };
    reporter.report(found, io)?;
    reporter.finish(io)?;
    Ok(written.unwrap_or(DIAGNOSTICS))
}

/// The page with `data` in it.
fn page_of(title: &str, data: &Value) -> String {
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;");
    // In a script, text ends at the first `</script`, quoted or not.
    let data = data.to_string().replace("</", "<\\/");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (name, tail) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(match name {
            "title" => &escaped,
            "style" => STYLE,
            "script" => SCRIPT,
            "data" => &data,
            _ => "",
        });
        rest = tail;
    }
    page.push_str(rest);
    page
}

/// What the page shows, and the exit status; nothing where the program does not read.
fn data(
    args: &ViewModel,
    pipeline: &Pipeline,
    registry: &Registry,
    reporter: &mut Reporter,
    found: &mut Diagnostics,
    io: &mut Io<'_>,
) -> io::Result<Option<(Value, i32)>> {
    let profile = match &args.profile {
        None => Value::Null,
        Some(path) => match input::read(path, io).and_then(|input| profile(path, &input.text)) {
            Ok(profile) => profile,
            Err(errors) => {
                found.extend(errors);
                return Ok(None);
            }
        },
    };
    let module = load(&args.model, &args.options, registry, reporter, found, io);
    let Some(mut module) = module else { return Ok(None) };
    let mut recorder = Recorder { registry, stages: vec![], last: String::new(), numbered: None };
    recorder.record("input", None, &module)?;
    let mut verify_each = VerifyEach::new(&verify);
    let mut instruments: Vec<&mut dyn Instrument> = vec![&mut recorder, &mut verify_each];
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = RunOptions { threads, backtraces: true, ..RunOptions::default() };
    let report = run(pipeline, &mut module, registry, options, &mut instruments, io.stderr)?;
    reporter.sources(&report.sources);
    found.extend(report.diagnostics);
    for (stage, step) in recorder.stages.iter_mut().skip(1).zip(&report.steps) {
        let counters: Map<String, Value> =
            step.statistics.iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
        stage["counters"] = Value::Object(counters);
        // Not all that changes shows in the text, such as which constants are one.
        stage["changed"] = json!(step.changed);
    }
    // The page shows how far the passes came.
    let (status, end) = match report.outcome {
        Outcome::Done => (OK, Value::Null),
        Outcome::Failed | Outcome::Stopped(_) => (DIAGNOSTICS, json!("a pass reported an error")),
        Outcome::Broken(_) => (INTERNAL, json!("a pass left a program that does not verify")),
        Outcome::Crashed(crash) => {
            let message = format!("pass `{}` crashed: {}", crash.pass, crash.message);
            found.push(Diagnostic::error("E0727", message.clone()));
            (INTERNAL, json!(message))
        }
    };
    let data = json!({
        "title": args.model,
        "version": env!("CARGO_PKG_VERSION"),
        "pipeline": pipeline.to_string(),
        "end": end,
        "stages": recorder.stages,
        "profile": profile,
    });
    Ok(Some((data, status)))
}

/// What `relay-opt bench --json --profile` wrote.
fn profile(path: &str, text: &str) -> Result<Value, Diagnostics> {
    let wrong = |what: String| {
        Diagnostic::error("E0737", format!("`{path}` is no profile: {what}"))
            .help("`relay-opt bench MODEL --json --profile` writes one")
    };
    let mut value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let profile = value.get_mut("profile").map(Value::take).unwrap_or_default();
    let kernels = profile["kernels"].as_array();
    let is_kernel = |kernel: &Value| kernel["name"].is_string() && kernel["seconds"].is_number();
    match kernels.is_some_and(|kernels| kernels.iter().all(is_kernel)) {
        true => Ok(profile),
        false => Err(wrong("it has no times of kernels".to_string()).into()),
    }
}

/// Keeps what the program is after each pass.
struct Recorder<'a> {
    registry: &'a Registry,
    stages: Vec<Value>,
    /// The text of the last stage.
    last: String,
    /// The same with numbers that stay through all stages.
    numbered: Option<Stages>,
}

impl Recorder<'_> {
    fn record(&mut self, name: &str, time: Option<f64>, module: &Module) -> io::Result<()> {
        let mut text = Vec::new();
        Form::Readable.print(module, self.registry, Some(ELIDED_OVER), &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let ops: usize =
            module.items.values().filter_map(|item| Some(item.body.as_ref()?.op_count())).sum();
        let mut stage = json!({ "name": name, "ms": time, "ops": ops });
        // A stage without a text is as the one before.
        if text != self.last {
            let mut graphs = Vec::new();
            for (name, item) in &module.items {
                match graph::graph(item, self.registry) {
                    None => {}
                    Some(Ok(graph)) => {
                        graphs.push(json!({ "name": name.as_str(), "graph": graph }))
                    }
                    Some(Err(ops)) => graphs.push(json!({
                        "name": name.as_str(), "ops": ops, "most": graph::MOST_NODES,
                    })),
                }
            }
            match &mut self.numbered {
                None => self.numbered = Some(Stages::new(&text)),
                Some(stages) => {
                    let numbered = stages.next(&text);
                    if numbered != text {
                        stage["numbered"] = Value::String(numbered.to_string());
                    }
                }
            }
            stage["text"] = Value::String(text.clone());
            stage["graphs"] = Value::Array(graphs);
            self.last = text;
        }
        self.stages.push(stage);
        Ok(())
    }
}

impl Instrument for Recorder<'_> {
    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        result: &StepResult<'_>,
        _: &mut dyn Write,
    ) -> io::Result<Diagnostics> {
        let time = result.wall.as_secs_f64() * 1e3;
        self.record(&cx.step.to_string(), Some(time), module)?;
        Ok(Diagnostics::new())
    }
}
