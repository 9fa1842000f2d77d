//! Pipelines that a file brings, which may be anybody's.

use ir_core::pipeline::Pipeline;
use ir_core::{CostTable, CostsByName, Diagnostic, Diagnostics, Pass, Registry};
use passes::exec::Exec;
use target_core::targets;

/// The pipeline `text`, where it runs no program, neither now nor later.
///
/// # Errors
/// Those of [`Pipeline::parse`], and where it runs one.
pub(crate) fn parse(text: &str, registry: &Registry) -> Result<Pipeline, Diagnostics> {
    let mut registry = registry.clone();
    *registry.extension_mut() = CostsByName(Some(costs));
    let pipeline = Pipeline::parse(text, &registry)?;
    let exec = Exec::def().name;
    match pipeline.steps().iter().find(|step| step.def.name == exec) {
        Some(step) => {
            let message = format!("the pass `{exec}` of this file runs a program");
            Err(refused(message).at(step.span).into())
        }
        None => Ok(pipeline),
    }
}

/// The costs of a target that names no compiler, which would be asked for its version.
fn costs(registry: &Registry, target: &str) -> Result<CostTable, Diagnostics> {
    if target.contains("compiler") {
        return Err(
            refused("the target of this file runs a program, its compiler".to_string()).into()
        );
    }
    targets(registry).parse(target)?.costs()
}

fn refused(message: String) -> Diagnostic {
    Diagnostic::error("E0769", message)
        .help("read it; `--allow-exec` lets it run what it names, as you")
}
