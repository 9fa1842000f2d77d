//! The subcommand `debug`: from a fault to a reproducer and a lit test.

use std::fs;
use std::io;
use std::path::Path;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ir_core::{Module, Registry, files};

use crate::driver::faults::reduce::Reduced;
use crate::driver::faults::{
    Extent, Place, Predicate, Session, Trial, begin, bisected, explain, limits, narrowed, no_fault,
    reproducer, rules_of, search, summary, unwritable,
};
use crate::driver::options::Executor;
use crate::driver::options::faults::{Budget, Fault};
use crate::process::exit::{OK, USAGE};
use crate::process::io::Io;

/// Finds the pass at fault, reduces the program before it, and writes a reproducer and a lit test.
///
/// See `docs/debug.md`.
#[derive(Args, Debug)]
pub(crate) struct DebugPasses {
    /// Does all of it, which is what there is
    #[arg(long)]
    pub(crate) auto: bool,
    #[command(flatten)]
    pub(crate) fault: Fault,
    /// The folder that `reproducer.relay` and `test.relay` go to
    #[arg(short, long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) output: String,
    #[command(flatten)]
    pub(crate) budget: Budget,
}

/// Runs `relay-opt debug`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn debug(args: &DebugPasses, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    if !args.auto {
        writeln!(
            io.stderr,
            "error: expected `--auto`, as in `relay-opt debug --auto FILE -o DIR`"
        )?;
        return Ok(USAGE);
    }
    let mut session = match begin(&args.fault, registry, io)? {
        Ok(session) => session,
        Err(status) => return Ok(status),
    };
    let folder = io.directory.join(&args.output);
    if let Err(error) = fs::create_dir_all(&folder) {
        return session.fail(unwritable(&folder, &error), io);
    }
    let before = session.module.op_count();
    session.make_small(io)?;
    let (trial, module, text) = at_fault(&session, io)?;
    let path = folder.join("reproducer.relay");
    let reduced =
        search(&trial, module, text, &limits(&args.budget, &session.recorded, io), Some(&path), io);
    let reduced = match reduced {
        Ok(Some(reduced)) => reduced,
        Ok(None) => {
            let diagnostic = no_fault(&trial);
            drop(trial);
            return session.fail(diagnostic, io);
        }
        Err(found) => {
            drop(trial);
            return session.fail(found, io);
        }
    };
    let what = reduced.finding.what.clone();
    let recorded = &session.recorded;
    let reproducer = reproducer(recorded, trial.pipeline.clone(), what, reduced.text.clone());
    let test = lit_test(&trial, &reduced, &recorded.plugins);
    let test_path = folder.join("test.relay");
    drop(trial);
    for (path, text) in [(&path, reproducer.to_string()), (&test_path, test)] {
        if let Err(error) = files::write(path, text) {
            return session.fail(unwritable(path, &error), io);
        }
    }
    writeln!(io.stderr, "{}", summary(before, &reduced, io.interrupt()))?;
    io.stdout.write_all(reduced.text.as_bytes())?;
    let shown = Path::new(&args.output);
    writeln!(io.stderr, "reproducer: {}", shown.join("reproducer.relay").display())?;
    writeln!(io.stderr, "lit test: {}", shown.join("test.relay").display())?;
    Ok(OK)
}

/// The pass at fault, with the program before it and its text. Where the pass needs what the program
/// came through, all of the pipeline is kept.
fn at_fault(session: &Session, io: &mut Io<'_>) -> io::Result<(Trial, Module, String)> {
    match bisected(session, io) {
        Some(Place::Narrowed(finding, executions, total)) => {
            narrowed(&finding, executions, total, io)?;
        }
        Some(Place::Found(found)) => {
            explain(&found, &session.trial, &session.sources(&found), io)?;
            let trial = session.trial.of_pipeline(found.execution.step.clone());
            let text = trial.write(&found.before, true).unwrap_or_default();
            if trial.check(&found.before, &text, Extent::All).is_some() {
                return Ok((trial, found.before, text));
            }
        }
        None => {}
    }
    let trial = session.trial.of_pipeline(session.trial.pipeline.clone());
    Ok((trial, session.module.clone(), session.text.clone()))
}

/// A lit test of a reduced program, which is expected to fail where the passes are wrong.
fn lit_test(trial: &Trial, reduced: &Reduced, plugins: &[String]) -> String {
    let what = reduced.finding.what.replace(['\r', '\n'], " ");
    let pass = match trial.pipeline.as_str() {
        "" => String::new(),
        pipeline => {
            let plugins: String =
                plugins.iter().map(|path| format!(" --load-plugin {path}")).collect();
            format!("{plugins} --pass '{pipeline}'{}", rules_of(trial))
        }
    };
    let known =
        "// XFAIL: *\n// Expected to fail until this is mended; then remove the line above.";
    let header = match &trial.predicate {
        Predicate::Crash => {
            format!("// RUN: relay-opt %s{pass} --crash-reproducer=%t\n{known}")
        }
        Predicate::Miscompile(Executor::Interp | Executor::Auto) => {
            format!("// RUN: relay-opt %s{pass} --verify-semantics --crash-reproducer=%t\n{known}")
        }
        Predicate::Miscompile(executor) => {
            let name = if *executor == Executor::Graph { "graph" } else { "loops" };
            format!(
                "// RUN: relay-opt %s{pass} -o %t.relay && relay-opt run %t.relay --fill 0 \
                 --executor {name} --compare interp\n{known}"
            )
        }
        Predicate::Message(regex) => {
            let not = if reduced.finding.key == "error" { "not " } else { "" };
            format!(
                "// RUN: {not}relay-opt %s{pass} --diagnostic-format=json 2>&1 | FileCheck %s\n\
                 // CHECK: {{{{{regex}}}}}"
            )
        }
        Predicate::Command(command) => {
            let passes = format!("relay-opt %s{pass} -o %t.relay && ");
            match command.text.contains("{}") {
                true => format!("// RUN: {passes}{}", command.text.replace("{}", "%t.relay")),
                false => format!("// RUN: {passes}{} %t.relay", command.text),
            }
        }
    };
    format!("{header}\n// {what}\n{}", reduced.text)
}
