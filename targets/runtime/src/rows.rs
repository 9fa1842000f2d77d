//! Programs on any number of rows: lowered for a few numbers, and joined.

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, Step, run};
use ir_core::{Diagnostic, Diagnostics, Module, Registry, Symbol};
use passes::inline::Inline;
use passes::rows::{Bound, join, split, takes_rows};

/// Runs `pipeline` on `module`; `None` where something is wrong with it.
fn passed(
    mut module: Module,
    registry: &Registry,
    pipeline: &Pipeline,
    threads: usize,
) -> Option<Module> {
    let options = RunOptions { threads, ..RunOptions::default() };
    let log = &mut std::io::sink();
    let report = run(pipeline, &mut module, registry, options, &mut [], log).ok()?;
    let done = matches!(report.outcome, Outcome::Done) && !report.diagnostics.has_errors();
    done.then_some(module)
}

/// `module` lowered by `pipeline` for any number of rows; `None` where its parameters have no rows,
/// or what it computes of a row does not depend on that row alone.
pub(crate) fn lower(
    module: &Module,
    registry: &Registry,
    pipeline: &Pipeline,
    threads: usize,
) -> Option<Module> {
    if !takes_rows(module) {
        return None;
    }
    let inlined = Pipeline::from([Step::of::<Inline>().flag("all")]);
    let inlined = passed(module.clone(), registry, &inlined, threads)?;
    let (bound, has_rows) = split(&inlined, registry)?;
    let lowered = bound.into_iter().map(|Bound { rows, module }| {
        let module = passed(module, registry, pipeline, threads)?;
        Some(Bound { rows, module })
    });
    join(lowered.collect::<Option<_>>()?, &has_rows).ok()
}

/// Gives the buffers of the kernels that compute rows in `module`, or up to bounds, their places.
///
/// # Errors
/// Where they are too large.
pub(crate) fn plan_memory(module: &mut Module) -> Result<(), Diagnostics> {
    let mut kernels: Vec<Symbol> = Vec::new();
    for (_, body) in prog::sites::functions(module) {
        let rows = body.walk().filter_map(|op| body.view::<prog::Rows>(op));
        kernels.extend(rows.flat_map(|rows| rows.kernels));
        let bounded = body.walk().filter_map(|op| body.view::<prog::Bounded>(op));
        kernels.extend(bounded.map(|bounded| bounded.kernel));
    }
    for kernel in kernels {
        let Some(item) = module.items.get_mut(&kernel) else { continue };
        let span = item.signature.span;
        if let Some(body) = item.body_mut() {
            te::loops::plan_memory(body, te::loops::ALIGNMENT)
                .map_err(|message| Diagnostic::error("E0910", message).at(span))?;
        }
    }
    Ok(())
}
