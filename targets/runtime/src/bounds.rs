//! Programs on extents up to a bound: lowered for some extents, and joined.

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, Step, run};
use ir_core::{Diagnostic, Diagnostics, Module, Registry};
use passes::bounds::{Bound, Point, join, split};
use passes::dynamic_to_static::DynamicToStatic;
use passes::inline::Inline;

/// Runs `pipeline` on `module`.
fn passed(
    module: &mut Module,
    registry: &Registry,
    pipeline: &Pipeline,
    threads: usize,
) -> Result<(), Diagnostics> {
    let options = RunOptions { threads, ..RunOptions::default() };
    let log = &mut std::io::sink();
    let report = run(pipeline, module, registry, options, &mut [], log)
        .map_err(|error| Diagnostic::error("E0733", error.to_string()))?;
    match report.diagnostics.has_errors() || !matches!(report.outcome, Outcome::Done) {
        true => Err(report.diagnostics),
        false => Ok(()),
    }
}

/// `module` lowered by `pipeline` for any extents within `bounds`.
///
/// # Errors
/// Where it cannot be lowered, or depends on extents in another way than by their numbers.
pub(crate) fn lower(
    module: &Module,
    registry: &Registry,
    pipeline: &Pipeline,
    threads: usize,
    bounds: &[Bound],
) -> Result<Module, Diagnostics> {
    let mut inlined = module.clone();
    passed(&mut inlined, registry, &Pipeline::from([Step::of::<Inline>().flag("all")]), threads)?;
    let (bounds, mut points) = split(&inlined, registry, bounds)?;
    let settled = Pipeline::from([Step::of::<DynamicToStatic>()]);
    for Point { module, .. } in &mut points {
        passed(module, registry, &settled, threads)?;
        passed(module, registry, pipeline, threads)?;
    }
    Ok(join(&bounds, points)?)
}
