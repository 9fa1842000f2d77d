//! `relay-opt rules count`, `ablate` and `compare`: what strategies and rules do for models.

use std::io;

use ir_core::files;
use ir_core::{Diagnostic, Diagnostics, Interrupt, Module, Registry, SourceMap};
use rewrites::cost::CostModel;

use crate::driver::language::{self, Form, infer};
use crate::driver::options::{DiagnosticForm, ModelOptions};
use crate::driver::report::Reporter;
use crate::driver::strategies::{Measured, measure, prepare};
use crate::driver::{input, model};
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::{Io, plain};

/// A table, the first row of which names the columns.
type Table = Vec<Vec<String>>;

/// What went wrong, and the texts that it is about.
pub(crate) type Failure = (Diagnostics, SourceMap);

/// `rules count`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn count(
    path: &str,
    strategy: &str,
    csv: Option<&str>,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let table = read(path, registry, io).and_then(|module| {
        let measured = run(&module, strategy, None, registry, io.interrupt())?;
        let mut table =
            vec![row(["rule", "matches", "applied", "nodes", "unions", "work", "used"])];
        for (name, entry) in &measured.rules {
            let numbers =
                [entry.matches, entry.applied, entry.nodes, entry.unions, entry.work, entry.used];
            let numbers = numbers.iter().map(u64::to_string);
            table.push(std::iter::once(name.to_string()).chain(numbers).collect());
        }
        Ok(table)
    });
    write(table, csv, io)
}

/// `rules ablate`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn ablate(
    path: &str,
    strategy: &str,
    csv: Option<&str>,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let table = read(path, registry, io).and_then(|module| {
        let interrupt = io.interrupt();
        let with = run(&module, strategy, None, registry, interrupt)?;
        let mut rows = Vec::new();
        for (name, entry) in with.rules.iter().filter(|(_, entry)| entry.applied > 0) {
            let without = run(&module, strategy, Some(name.as_str()), registry, interrupt)?;
            if interrupt.is_raised() {
                break;
            }
            let worth = without.cost.1 - with.cost.1;
            rows.push((
                worth,
                [
                    name.to_string(),
                    format!("{:.2}", without.cost.1),
                    format!("{worth:.2}"),
                    format!("{}", with.nodes as i64 - without.nodes as i64),
                    entry.used.to_string(),
                ],
            ));
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut table = vec![row(["rule", "cost without", "worth", "nodes", "used"])];
        let all = ["(all rules)".to_string(), format!("{:.2}", with.cost.1)];
        table.push(all.into_iter().chain(["", "", ""].map(String::from)).collect());
        table.extend(rows.into_iter().map(|(_, row)| row.to_vec()));
        Ok(table)
    });
    write(table, csv, io)
}

/// `rules compare`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn compare(
    models: &[String],
    strategies: &[String],
    csv: Option<&str>,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let registered = registry.strategies().map(|strategy| strategy.name.to_string());
    let names = if strategies.is_empty() { registered.collect() } else { strategies.to_vec() };
    let mut table = vec![row(COLUMNS)];
    let interrupt = io.interrupt();
    for path in models {
        let filled = read(path, registry, io).and_then(|module| {
            for name in &names {
                let measured = run(&module, name, None, registry, interrupt)?;
                if interrupt.is_raised() {
                    break;
                }
                table.push(compared(path, &measured));
            }
            Ok(())
        });
        if let Err(failure) = filled {
            return write(Err(failure), csv, io);
        }
    }
    write(Ok(table), csv, io)
}

/// The columns of a comparison.
const COLUMNS: [&str; 9] =
    ["model", "strategy", "before", "after", "saved %", "nodes", "work", "complete", "CPU ms"];

fn compared(model: &str, measured: &Measured) -> Vec<String> {
    vec![
        model.to_string(),
        measured.strategy.clone(),
        format!("{:.2}", measured.cost.0),
        format!("{:.2}", measured.cost.1),
        format!("{:.1}", measured.saved()),
        measured.nodes.to_string(),
        measured.work.to_string(),
        if measured.complete { "yes" } else { "no" }.to_string(),
        format!("{:.1}", measured.time.as_secs_f64() * 1e3),
    ]
}

fn row<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(String::from).to_vec()
}

fn run(
    module: &Module,
    strategy: &str,
    without: Option<&str>,
    registry: &Registry,
    interrupt: Interrupt,
) -> Result<Measured, Failure> {
    let prepared = prepare(strategy, without, registry)?;
    measure(module, &prepared, CostModel::default(), registry, interrupt)
        .map_err(|error| (error, SourceMap::default()))
}

/// The typed program or model at `path`.
pub(crate) fn read(path: &str, registry: &Registry, io: &mut Io<'_>) -> Result<Module, Failure> {
    let (mut module, found) = if model::is_onnx(path) {
        model::read(path, &ModelOptions::default(), registry, &io.directory)
    } else {
        let input = input::read(path, io).map_err(|error| (error, SourceMap::default()))?;
        language::parse(Form::of(&input.text), &input.file, &input.text, registry)
    };
    let failed = |found: &[Diagnostic]| found.iter().any(Diagnostic::is_error);
    if failed(&found) {
        return Err((found, module.sources));
    }
    let found = infer(&mut module, registry);
    if failed(&found) { Err((found, module.sources)) } else { Ok(module) }
}

fn write(table: Result<Table, Failure>, csv: Option<&str>, io: &mut Io<'_>) -> io::Result<i32> {
    if io.interrupt().is_raised() {
        writeln!(io.stderr, "interrupted: what was measured until then")?;
    }
    let mut reporter = Reporter::new(DiagnosticForm::Human, 0);
    let table = match table {
        Ok(table) => table,
        Err((found, sources)) => {
            reporter.sources(&sources);
            reporter.report(found, io)?;
            reporter.finish(io)?;
            return Ok(DIAGNOSTICS);
        }
    };
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| {
        table.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &table {
        let mut line = String::new();
        for (text, width) in row.iter().zip(&widths) {
            // Numbers, and what stands above them, to the right.
            let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            line += &match number {
                true => format!("{text:>width$}  "),
                false => format!("{text:width$}  "),
            };
        }
        writeln!(io.stdout, "{}", line.trim_end())?;
    }
    let Some(path) = csv else { return Ok(OK) };
    let lines = table.iter().map(|row| row.join(",") + "\n");
    if let Err(error) = files::write(&io.directory.join(path), lines.collect::<String>()) {
        let message = format!("cannot write `{path}`: {}", plain(&error));
        reporter.report(Diagnostics::from(Diagnostic::error("E0724", message)), io)?;
        return Ok(DIAGNOSTICS);
    }
    Ok(OK)
}
