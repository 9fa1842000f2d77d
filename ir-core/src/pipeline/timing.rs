//! Where the time goes.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::diagnostics::Diagnostics;
use crate::intern::Symbol;
use crate::module::Module;

use super::{Instrument, StepCx, StepResult};

/// Measures every pass. The rest of the time goes to reading, printing and checking.
#[derive(Debug)]
pub struct Timing {
    start: Instant,
    /// Phases around the passes and passes, in order.
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    wall: Duration,
    /// Summed over the functions, on all threads.
    work: Option<Duration>,
    functions: usize,
    slowest: Option<(Symbol, Duration)>,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing::new()
    }
}

impl Timing {
    /// Starts the clock.
    pub fn new() -> Timing {
        Timing { start: Instant::now(), rows: vec![] }
    }

    /// Adds a phase that is no pass, such as `parse`, and returns what it gives.
    pub fn phase<R>(&mut self, name: &str, run: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = run();
        let (name, wall) = (name.to_string(), start.elapsed());
        self.rows.push(Row { name, wall, work: None, functions: 0, slowest: None });
        result
    }

    /// Writes a table: one row for each phase and pass and, below a pass over several functions,
    /// the slowest of them.
    ///
    /// # Errors
    /// Those of writing to `out`.
    pub fn write_table(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let total = self.start.elapsed();
        let share = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-9);
        writeln!(out, "timing: {:.4} s", total.as_secs_f64())?;
        writeln!(out, "    wall s       %    work s  what")?;
        let row = |out: &mut dyn io::Write, time: Duration, work: Option<Duration>, name: &str| {
            let work = work.map_or(String::new(), |work| format!("{:.4}", work.as_secs_f64()));
            writeln!(out, "  {:>8.4}  {:>5.1}%  {work:>8}  {name}", time.as_secs_f64(), share(time))
        };
        let mut named = Duration::ZERO;
        for entry in &self.rows {
            named += entry.wall;
            row(out, entry.wall, entry.work, &entry.name)?;
            if let Some((name, time)) = entry.slowest.filter(|_| entry.functions > 1) {
                let functions = entry.functions;
                let name = format!("  slowest of {functions} functions: @{name}");
                writeln!(out, "{:>19}  {:>8.4}  {name}", "", time.as_secs_f64())?;
            }
        }
        row(out, total.saturating_sub(named), None, "other")
    }

    /// Writes one JSON object: `total_s` and `rows`, each with `name` and `wall_s`, and for a
    /// function pass `work_s`, `functions` and `slowest`.
    ///
    /// # Errors
    /// Those of writing to `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let rows: Vec<serde_json::Value> = self
            .rows
            .iter()
            .map(|row| {
                let mut object = json!({ "name": row.name, "wall_s": row.wall.as_secs_f64() });
                if let Some(work) = row.work {
                    object["work_s"] = json!(work.as_secs_f64());
                    object["functions"] = json!(row.functions);
                }
                if let Some((name, time)) = row.slowest {
                    let time = time.as_secs_f64();
                    object["slowest"] = json!({ "function": name.as_str(), "work_s": time });
                }
                object
            })
            .collect();
        let total = self.start.elapsed().as_secs_f64();
        writeln!(out, "{}", json!({ "total_s": total, "rows": rows }))
    }
}

impl Instrument for Timing {
    fn after(
        &mut self,
        cx: StepCx<'_>,
        _module: &Module,
        result: &StepResult<'_>,
        _log: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        let items = result.items;
        self.rows.push(Row {
            name: cx.step.to_string(),
            wall: result.wall,
            work: (!items.is_empty()).then(|| items.iter().map(|item| item.time).sum()),
            functions: items.len(),
            slowest: items.iter().max_by_key(|item| item.time).map(|item| (item.name, item.time)),
        });
        Ok(Diagnostics::new())
    }
}
