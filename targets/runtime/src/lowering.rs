//! From programs to tensor expressions, schedules, loops and generated code, for `--emit`.
//!
//! Each step looks at what the module is by now and runs what is missing.

use ir_core::pipeline::Pipeline;
use ir_core::{Diagnostic, Diagnostics, Item, Module, Registry, Symbol, verify};
use passes::pipelines;
use relay::language::{FUNC, Fn, is_primitive};
use rustc_hash::FxHashSet;
use target_core::checks::report_checks;
use target_core::program::{Sites, default_schedule, lay_out};
use target_core::{Target, gpu};
use te::checks::spell_out;
use te::loops::KERNEL;
use te::schedule::ops::{FUNCTION, SCHEDULE};

use crate::{BuildOptions, MAIN, pipeline};

/// What a program is lowered to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Compute functions, and a kernel that calls them.
    Te,
    /// Compute functions and their schedules.
    Schedule,
    /// Kernels.
    Loops,
    /// The text of a target.
    Code,
}

/// A step down, each a pipeline of passes after some preparation.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// To tensor expressions.
    Functions,
    /// To kernels.
    Loops,
}

/// The steps in order.
pub const STEPS: [Step; 2] = [Step::Functions, Step::Loops];

impl Step {
    /// Prepares `module` on its way to `level`; gives the passes to run then.
    /// Steps of schedules print where `print_steps` says so.
    pub fn prepare(
        self,
        level: Level,
        module: &mut Module,
        target: &dyn Target,
        print_steps: bool,
    ) -> Result<Pipeline, Diagnostics> {
        let is_te = |item: &Item| item.signature.op.as_str().starts_with("te.");
        match self {
            Step::Functions => Ok(match module.get(MAIN) {
                Some(main) if main.signature.op == FUNC && !is_fused(module) => {
                    pipeline(&BuildOptions::new(target))
                }
                None if module.items.values().any(is_te) => Pipeline::default(),
                Some(main) if main.signature.op != FUNC => Pipeline::default(),
                // It says so where there is nothing to lower.
                _ => pipelines::to_tensor_expressions(),
            }),
            Step::Loops => {
                drop_lowered(module);
                if level == Level::Code {
                    spell_out_kernels(module);
                }
                if level >= Level::Schedule {
                    add_schedules(module, target)?;
                }
                Ok(match level {
                    Level::Te | Level::Schedule => Pipeline::default(),
                    Level::Loops | Level::Code => pipelines::to_loops(print_steps),
                })
            }
        }
    }
}

/// Whether some function of `module` has been put into kernels.
fn is_fused(module: &Module) -> bool {
    let bodies = module.items.values().filter_map(|item| item.body.as_deref());
    bodies
        .flat_map(|body| body.walk().filter_map(|op| body.view::<Fn>(op)))
        .any(|function| is_primitive(function.attributes))
}

/// Makes checks of what the arithmetic of kernels expects that were not lowered here.
fn spell_out_kernels(module: &mut Module) {
    for item in module.items.values_mut().filter(|item| item.signature.op == KERNEL) {
        item.body_mut().map(spell_out);
    }
}

/// Drops the Relay functions of `module` once nothing can call them: when `@main` is a kernel.
fn drop_lowered(module: &mut Module) {
    if module.get(MAIN).is_some_and(|main| main.signature.op == KERNEL) {
        module.items.retain(|_, item| item.signature.op != FUNC);
    }
}

/// Gives each compute function of `module` that has no schedule the default one of `target`, as an
/// item behind it.
fn add_schedules(module: &mut Module, target: &dyn Target) -> Result<(), Diagnostics> {
    let function_of = |item: &Item| item.signature.attrs.value::<Symbol>(FUNCTION);
    let scheduled: FxHashSet<Symbol> = module
        .items
        .values()
        .filter(|item| item.signature.op == SCHEDULE)
        .filter_map(function_of)
        .collect();
    let mut errors = Diagnostics::new();
    let mut schedules = Vec::new();
    for (name, item) in &module.items {
        if item.signature.op != te::compute::FUNC || scheduled.contains(name) {
            continue;
        }
        let schedule = default_schedule(item, target.capabilities());
        match schedule.and_then(|schedule| schedule.to_item(*name)) {
            Ok(schedule) => schedules.push((*name, schedule)),
            Err(message) => {
                let message = format!("`@{name}` has no schedule: {message}");
                errors.push(Diagnostic::error("E0910", message).at(item.signature.span));
            }
        }
    }
    for (function, schedule) in schedules {
        let numbered = (1..).map(|number| Symbol::new(&format!("{function}_schedule{number}")));
        let mut names = std::iter::once(Symbol::new(&format!("{function}_schedule")));
        let free = names.by_ref().chain(numbered).find(|name| !module.items.contains_key(name));
        let place = module.items.get_index_of(&function);
        if let (Some(name), Some(place)) = (free, place) {
            module.items.shift_insert(place + 1, name, schedule);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The text of the kernels of `module`. Where there is a kernel `@main`, its constants become
/// parameters and its buffers get their places, as for running it.
pub fn code(
    module: &mut Module,
    registry: &Registry,
    target: &dyn Target,
    checked: bool,
) -> Result<String, Diagnostics> {
    let checks = report_checks(module, MAIN, Sites::default(), checked)?;
    if target.capabilities().gpu.is_some() {
        gpu::launches::split(module)?;
    }
    if module.get(MAIN).is_some_and(|main| main.signature.op == KERNEL) {
        lay_out(module, MAIN, checks, target.capabilities())?;
    }
    let artifacts = target.codegen(verify(module, registry)?)?;
    Ok(artifacts.into_iter().next().map(|artifact| artifact.text).unwrap_or_default())
}
