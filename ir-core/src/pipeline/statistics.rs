//! Counters of passes.

use std::io;

use super::Report;

/// Writes what the passes counted, one block for each pass: live operations before and after, then
/// its counters.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_statistics(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "statistics")?;
    for step in &report.steps {
        let (before, after) = step.op_counts;
        writeln!(out, "  {}", step.pass)?;
        if before == after {
            writeln!(out, "    {before:>8}  operations")?;
        } else {
            writeln!(out, "    {after:>8}  operations, {before} before")?;
        }
        for (counter, amount) in &step.statistics {
            writeln!(out, "    {amount:>8}  {counter}")?;
        }
    }
    Ok(())
}
