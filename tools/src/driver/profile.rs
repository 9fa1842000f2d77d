//! How profiles print.

use std::io::{self, Write};

use ir_core::SourceMap;
use runtime::peak::Peak;
use runtime::profile::{KernelProfile, Profile};
use serde_json::{Value, json};

/// So many sources of a kernel are printed in the table.
const SHOWN: usize = 3;

fn rate(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

/// Writes a table of kernels, the one that takes longest first.
///
/// # Errors
/// Those of writing.
pub(crate) fn write_table(
    profile: &Profile,
    peak: Option<Peak>,
    sources: &SourceMap,
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(peak) = peak {
        let (flops, copied) = (peak.flops / 1e9, peak.copied / 1e9);
        writeln!(out, "peak     {flops:.1} GFLOP/s of multiply-adds, {copied:.1} GB/s copied")?;
    }
    let total = profile.seconds();
    let width = profile.kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0).max(6);
    let of_peak = if peak.is_some() { "  % peak" } else { "" };
    writeln!(
        out,
        "{:>10} {:>7} {:>6} {:>9}{of_peak} {:>7}  {:width$}  from",
        "us", "share", "calls", "GFLOP/s", "GB/s", "kernel"
    )?;
    for kernel in &profile.kernels {
        let KernelProfile { name, calls, seconds, work, .. } = kernel;
        let share = if total > 0.0 { 100.0 * seconds / total } else { 0.0 };
        let (flops, bytes) = (rate(work.flops, *seconds), rate(work.bytes, *seconds));
        let of_peak = match peak {
            Some(peak) => format!(" {:7.1}", 100.0 * flops / peak.flops),
            None => String::new(),
        };
        let from = profile.sources(kernel, sources);
        let mut text = from.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if from.len() > SHOWN {
            text += &format!(" and {} more", from.len() - SHOWN);
        }
        let (flops, bytes) = (flops / 1e9, bytes / 1e9);
        let line = format!(
            "{:10.2} {share:6.1}% {calls:6} {flops:9.2}{of_peak} {bytes:7.2}  {name:width$}  {text}",
            seconds * 1e6
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out, "{:10.2} 100.0% in all, medians of {} runs", total * 1e6, profile.runs)
}

/// The same as JSON.
pub(crate) fn json(profile: &Profile, peak: Option<Peak>, sources: &SourceMap) -> Value {
    let total = profile.seconds();
    let kernels = profile.kernels.iter().map(|kernel| {
        let flops = rate(kernel.work.flops, kernel.seconds);
        json!({
            "name": kernel.name,
            "calls": kernel.calls,
            "seconds": kernel.seconds,
            "share": if total > 0.0 { kernel.seconds / total } else { 0.0 },
            "flops": kernel.work.flops,
            "bytes": kernel.work.bytes,
            "flops_per_s": flops,
            "bytes_per_s": rate(kernel.work.bytes, kernel.seconds),
            "share_of_peak": peak.map(|peak| flops / peak.flops),
            "from": profile.sources(kernel, sources),
        })
    });
    json!({
        "runs": profile.runs,
        "seconds": total,
        "peak": peak.map(|peak| json!({
            "flops_per_s": peak.flops,
            "copied_bytes_per_s": peak.copied,
        })),
        "kernels": kernels.collect::<Vec<_>>(),
    })
}
