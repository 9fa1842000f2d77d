//! The subcommand `calibrate`: measures what kernels cost on this machine, and keeps it.

use std::io;
use std::path::PathBuf;

use clap::Args;
use ir_core::{Diagnostic, Diagnostics, Registry};
use runtime::calibrate::{Measured, measure};
use serde_json::{Map, json};
use target_core::Calibration;

use crate::driver::options::{DiagnosticForm, Machine};
use crate::driver::report::Reporter;
use crate::driver::targets::target;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// Measures what kernels cost on this machine, and keeps it.
///
/// A few seconds of small kernels, compiled as those of programs are. The costs are used by whatever
/// names them: `--target 'c{costs=measured}'`, and `--pass 'fuse{target=c{costs=measured}}'`.
#[derive(Args, Debug)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn calibrate(args: &Calibrate, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    reporter.source("<target>", &args.machine.target);
    let mut found = Diagnostics::new();
    let kept = keep(args, registry, &mut found);
    let kept = kept.map_err(|errors| found.extend(errors));
    reporter.report(found, io)?;
    match kept {
        Ok((calibration, measured, path)) => {
            print(args, &calibration, &measured, &path.display().to_string(), io).map(|()| OK)
        }
        Err(()) => Ok(DIAGNOSTICS),
    }
}

/// What was measured for which target, and where it is kept now.
fn keep(
    args: &Calibrate,
    registry: &Registry,
    found: &mut Diagnostics,
) -> Result<(Calibration, Measured, PathBuf), Diagnostics> {
    let target = target(&args.machine, registry)?;
    let calibration = target.calibration()?;
    // What was there was of no use until now.
    if calibration.path().exists()
        && let Err(ignored) = calibration.find()
    {
        let remark = |error: Diagnostic| Diagnostic::remark(error.code, error.message);
        found.extend(ignored.map(|error| remark(error).help("it is measured again")));
    }
    let measured = measure(&*target, registry)?;
    let path = calibration.keep(&measured.costs)?;
    Ok((calibration, measured, path))
}

fn print(
    args: &Calibrate,
    calibration: &Calibration,
    measured: &Measured,
    path: &str,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let Measured { costs, copies } = measured;
    let target = &calibration.target;
    let out = &mut *io.stdout;
    if args.json {
        let figures = costs.figures().map(|(name, value)| (name.to_string(), json!(value)));
        let copies = copies.iter().map(|(bytes, rate)| json!({ "bytes": bytes, "gb_per_s": rate }));
        let value = json!({
            "target": target,
            "costs": Map::from_iter(figures),
            "copies": copies.collect::<Vec<_>>(),
            "file": path,
        });
        return writeln!(out, "{value:#}");
    }
    writeln!(out, "target          {target}")?;
    for (name, value) in costs.figures() {
        let unit = match name {
            "launch" => "us",
            "bandwidth" => "GB/s",
            _ => "Gop/s",
        };
        writeln!(out, "{name:<15} {value} {unit}")?;
    }
    for (bytes, rate) in copies {
        writeln!(out, "copied          {rate} GB/s of {bytes} bytes")?;
    }
    writeln!(out, "kept in         {path}")?;
    let used = target.strip_suffix('}').unwrap_or(target);
    writeln!(out, "used by         --target '{used},costs=measured}}'")
}
