//! Optimizing, the command without a name: reading, running passes, and printing.

pub(crate) mod reference;
pub(crate) mod watch;

use std::io;

use ir_core::diagnostics::did_you_mean;
use ir_core::pipeline::{PIPELINE_FILE, Pipeline, Reproducer, Selection, TraceFilter};
use ir_core::{Diagnostic, Diagnostics, Registry, SourceMap};
use rewrites::library::Library;
use runtime::lowering::Level;
use target_core::targets;

use crate::driver::cached::Results;
use crate::driver::emit::Emit;
use crate::driver::input::{self, Input, SEE_COMMANDS};
use crate::driver::language::Style;
use crate::driver::options::Executor;
use crate::driver::options::optimize::Optimize;
use crate::driver::recorded::Recorded;
use crate::driver::report::{Ended, Reporter};
use crate::driver::session::{Lowering, Plan, Session};
use crate::driver::{consent, model};
use crate::process::io::Io;

/// Runs relay-opt proper.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn optimize(
    args: &Optimize,
    pipeline: &str,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(args.diagnostic_format, args.max_errors);
    // What a reproducer holds is known only once it is read.
    let repeated = args.run_reproducer.as_ref().map(|path| repeated(path, args, io));
    let repeated = match repeated.transpose() {
        Ok(repeated) => repeated,
        Err(found) => return Ended::input(found).tell(reporter, io),
    };
    let (plan, input) = match plan(args, pipeline, repeated.as_ref(), registry, &mut reporter, io) {
        Ok(planned) => planned,
        Err(ended) => return ended.tell(reporter, io),
    };
    let reproduced = repeated.as_ref().map(|repeated| &*repeated.program);
    Session::new(plan, reporter).run(&input, reproduced, io)
}

/// What is to be done, and for which input.
fn plan<'a>(
    args: &'a Optimize,
    pipeline: &'a str,
    repeated: Option<&'a Repeated>,
    registry: &'a Registry,
    reporter: &mut Reporter,
    io: &mut Io<'_>,
) -> Result<(Plan<'a>, Input), Ended> {
    let (args, text) = match repeated {
        Some(repeated) => (&repeated.args, repeated.pipeline.as_str()),
        None => (args, pipeline),
    };
    let emit = args.emit.as_deref().map(|name| Emit::named(name, registry)).transpose()?;
    let (before, after) = (&args.print_ir_before, &args.print_ir_after);
    let (before, after) = (selection(before, registry)?, selection(after, registry)?);
    let trace = trace_filters(&args.trace_rewrites, registry)?;
    reporter.source(PIPELINE_FILE, text);
    let mut pipeline = parse(args, text, repeated, registry)?;
    let level = emit.and_then(Emit::level);
    set_options(&mut pipeline, args, level)?;
    let lowering = lowering(args, level, registry, reporter)?;
    if args.print_pipeline {
        return Err(Ended::Answered(pipeline.to_string()));
    }
    let rules = input::read_rules(&args.rules, reporter, io).map_err(Ended::input)?;
    known_rules(&trace, &pipeline, &rules, registry)?;
    let is_model = repeated.is_none() && model::is_onnx(&args.input);
    let input = match repeated {
        Some(repeated) => repeated.input.clone(),
        // A model is no text; the session reads it.
        None if is_model => Input { file: args.input.clone(), text: String::new() },
        None => read(args, io).map_err(Ended::input)?,
    };
    reporter.source(&input.file, &input.text);
    let elide = args.elide_constants.or(is_model.then_some(model::ELIDED_OVER));
    let style = Style { elide, types: !args.no_types, ..Style::default() };
    let machine = lowering.as_ref().map(|lowering| &*lowering.target);
    let results = Results::open(args, &pipeline.to_string(), machine, &rules, registry, io);
    let results = results.map_err(Ended::input)?;
    let plan = Plan {
        args,
        registry,
        pipeline,
        emit,
        lowering,
        style,
        is_model,
        before,
        after,
        trace,
        rules,
        results,
    };
    Ok((plan, input))
}

/// The input. Where there is none, its name may be that of a command, misspelt.
pub(crate) fn read(args: &Optimize, io: &mut Io<'_>) -> Result<Input, Diagnostics> {
    let meant = |error: Diagnostic| match &args.meant {
        Some(command) if error.help.as_deref() == Some(SEE_COMMANDS) => error.help(command.clone()),
        _ => error,
    };
    input::read(&args.input, io).map_err(|found| found.map(meant))
}

/// The passes; those of a reproducer run no program unless that is allowed.
fn parse(
    args: &Optimize,
    text: &str,
    repeated: Option<&Repeated>,
    registry: &Registry,
) -> Result<Pipeline, Ended> {
    let parsed = match repeated.is_some() && !args.allow_exec {
        true => consent::parse(text, registry),
        false => Pipeline::parse(text, registry),
    };
    parsed.map_err(|found| match repeated {
        Some(repeated) => Ended::usage(found.map(|error| repeated.recorded.explain(error))),
        None => Ended::usage(found),
    })
}

/// Sets the options of passes that have options of the command line.
fn set_options(
    pipeline: &mut Pipeline,
    args: &Optimize,
    level: Option<Level>,
) -> Result<(), String> {
    let lowers_schedules = level >= Some(Level::Loops);
    if args.print_schedule_steps
        && let Err(message) = pipeline.set_option("lower-schedule", "print-steps", "")
        && !lowers_schedules
    {
        return Err(message);
    }
    let Some(form) = &args.dump_egraph else { return Ok(()) };
    match pipeline.steps().iter().any(|step| step.def.name == "eqsat") {
        true => pipeline.set_option("eqsat", "dump", form),
        false => Err("`--dump-egraph` needs the pass `eqsat`".to_string()),
    }
}

/// What the program is lowered to, where it is.
fn lowering(
    args: &Optimize,
    level: Option<Level>,
    registry: &Registry,
    reporter: &mut Reporter,
) -> Result<Option<Lowering>, Ended> {
    let code_of = args.emit.as_deref().filter(|_| level == Some(Level::Code));
    let target = args.target.as_deref().or(code_of).unwrap_or("c");
    reporter.source("<target>", target);
    let Some(level) = level else { return Ok(None) };
    let target = targets(registry).parse(target).map_err(Ended::usage)?;
    if let Some(name) = code_of.filter(|name| *name != target.name()) {
        let found = target.name();
        let message = format!("`--emit {name}` is the code of the target `{name}`");
        return Err(Ended::Misused(format!("{message}, found `--target {found}`")));
    }
    Ok(Some(Lowering { level, target, print_steps: args.print_schedule_steps }))
}

/// The passes that `--print-ir-before` or `--print-ir-after` names. The error is a message.
fn selection(values: &[String], registry: &Registry) -> Result<Selection, String> {
    if values.is_empty() {
        return Ok(Selection::None);
    }
    let names: Vec<&str> = values.iter().flat_map(|v| v.split(',')).map(str::trim).collect();
    if names.contains(&"") {
        return Ok(Selection::All);
    }
    for name in &names {
        known_pass(name, registry)?;
    }
    Ok(Selection::Named(names.into_iter().map(str::to_string).collect()))
}

/// An error, a message, where there is no pass `name`.
fn known_pass(name: &str, registry: &Registry) -> Result<(), String> {
    if registry.find_pass(name).is_some() {
        return Ok(());
    }
    let help = did_you_mean(name, registry.passes().map(|pass| pass.name));
    let help = help.map_or(String::new(), |help| format!("; {help}"));
    Err(format!("unknown pass `{name}`{help}"))
}

/// What `--trace-rewrites` names. The error is a message.
fn trace_filters(texts: &[String], registry: &Registry) -> Result<Vec<TraceFilter>, String> {
    let filter = |text: &String| {
        let (pass, rule) = match text.split_once(':') {
            Some((pass, rule)) => (pass, Some(rule.to_string())),
            None => (text.as_str(), None),
        };
        known_pass(pass, registry)?;
        Ok(TraceFilter { pass: pass.to_string(), rule })
    };
    texts.iter().map(filter).collect()
}

/// An error, a message, where a filter names a rule that there is not, built in or in `files`.
/// Those in files that a pipeline names are known to its passes alone.
fn known_rules(
    filters: &[TraceFilter],
    pipeline: &Pipeline,
    files: &SourceMap,
    registry: &Registry,
) -> Result<(), String> {
    let pipeline = pipeline.to_string();
    let mut named = filters.iter().filter_map(|filter| filter.rule.as_deref()).peekable();
    if named.peek().is_none() || pipeline.contains(".rules") || pipeline.contains(".strategy") {
        return Ok(());
    }
    // What is wrong with the files, the passes say.
    let (library, _) = Library::new(registry, files);
    let rules = library.rules.iter().map(|rule| rule.name.as_str());
    let known: Vec<&str> = rules.chain([rewrites::COMPUTE]).collect();
    let Some(rule) = named.find(|rule| !known.contains(rule)) else { return Ok(()) };
    let help = did_you_mean(rule, known.iter().copied());
    let help = help.unwrap_or("`relay-opt --list-rules` lists them".to_string());
    Err(format!("unknown rule `{rule}`; {help}"))
}

/// A run that a reproducer repeats.
struct Repeated {
    /// The file.
    input: Input,
    /// The program in it.
    program: String,
    pipeline: String,
    recorded: Recorded,
    /// The arguments, with what the reproducer records besides the passes.
    args: Optimize,
}

/// The run that the reproducer at `path` repeats.
fn repeated(path: &str, args: &Optimize, io: &mut Io<'_>) -> Result<Repeated, Diagnostics> {
    /// As for `--verify-semantics` without a number.
    const TRIALS: u32 = 3;
    let input = input::read(path, io)?;
    let Reproducer { pipeline, settings, input: program, .. } = Reproducer::parse(&input.text)
        .map_err(|error| Diagnostic::error("E0725", format!("`{path}`: {error}")))?;
    let recorded = Recorded::read(&settings)?;
    let mut args = args.clone();
    match recorded.miscompile {
        None => {}
        Some(Executor::Interp | Executor::Auto) => {
            args.verify_semantics.get_or_insert(TRIALS);
        }
        Some(_) => {
            let message = format!("the fault of `{path}` shows where the program is compiled");
            let help = format!("`relay-opt bisect {path}` and `reduce` look for it");
            return Err(Diagnostic::error("E0725", message).help(help).into());
        }
    }
    if args.rules.is_empty() {
        args.rules.clone_from(&recorded.rules);
    }
    args.pass_time_limit = args.pass_time_limit.or(recorded.pass_time_limit);
    Ok(Repeated { input, program, pipeline, recorded, args })
}
