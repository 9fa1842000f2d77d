//! `relay-opt rules check --gradients`: checking how operators are differentiated.

use std::io;

use ir_core::{Diagnostic, Diagnostics, Registry};
use relay::language::short_name;
use relay_operators::gradient::check::{Report, check_all};
use rewrites::codes::{REFUTED, UNTRIED};

use crate::driver::options::DiagnosticForm;
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// Checks the gradients of every operator that has a definition, on up to `trials` uses, and writes a line for each.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn check(trials: u32, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let network = |seed| relay_generate::random_network(registry, seed, 10);
    let reports = check_all(registry, trials, network);
    let mut found = Diagnostics::new();
    let width = reports.iter().map(|report| short_name(report.name).len()).max().unwrap_or(0);
    for report in &reports {
        let name = short_name(report.name);
        writeln!(io.stdout, "{name:width$}  {}", state(report))?;
        let findings = &report.findings;
        let notes = findings.underived.iter().map(|why| format!("not derived: {why}"));
        let otherwise =
            findings.otherwise.map(|why| format!("its rule gives something else: {why}"));
        for note in notes.chain(otherwise) {
            writeln!(io.stdout, "{:width$}  {note}", "")?;
        }
        if let Some(fault) = findings.faults.first() {
            let message = format!("the gradient of `{name}` is wrong");
            let error = Diagnostic::error(REFUTED, message).note(fault);
            found.push(match findings.faults.len() - 1 {
                0 => error,
                others => error.note(format!("and so in {others} more cases")),
            });
        }
        if report.is_untried() {
            let message = format!("the gradient of `{name}` was not checked: no operands fit it");
            found.push(Diagnostic::warning(UNTRIED, message));
        }
    }
    let mut reporter = Reporter::new(DiagnosticForm::Human, 0);
    let failed = found.has_errors();
    reporter.report(found, io)?;
    reporter.finish(io)?;
    Ok(if failed { DIAGNOSTICS } else { OK })
}

/// What was checked, and what came of it.
fn state(report: &Report) -> String {
    if let Some(why) = report.excluded {
        return format!("not checked: {why}");
    }
    let findings = &report.findings;
    let origin = match (report.has_rule, findings.compared > 0) {
        (true, true) => "rule, derived",
        (true, false) => "rule",
        (false, _) => "derived",
    };
    let state = if findings.faults.is_empty() { "ok" } else { "FAILS" };
    format!(
        "{origin:13}  {:3} compared, {:2} by differences, {:2} transposed, {:2} a second time  {state}",
        findings.compared, findings.limits, findings.transposed, findings.second
    )
}

#[cfg(test)]
mod tests {
    use ir_core::Registry;
    use relay_operators::Gradient;
    use relay_operators::gradient::check::check_all;

    #[test]
    fn a_wrong_rule_is_found() {
        let mut registry = Registry::from([te::dialect(), relay_operators::dialect()]);
        let wrong = Gradient(|at| at.to(0, |change| change * at.operand(0).sin()));
        assert!(registry.attach("relay.sin", wrong));
        let network = |seed| relay_generate::random_network(&registry, seed, 10);
        let reports = check_all(&registry, 1, network);
        let faulty = reports.iter().filter(|report| !report.findings.faults.is_empty());
        assert_eq!(faulty.map(|report| report.name).collect::<Vec<_>>(), ["relay.sin"]);
    }
}
