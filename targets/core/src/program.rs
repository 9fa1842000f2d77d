//! Whole programs: every compute function scheduled and lowered, constants and memory laid out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ir_core::{
    Attr, AttrDict, Diagnostic, Diagnostics, Item, Module, Symbol, TensorData, Type, ValueId,
};
use rustc_hash::FxHashMap;
use te::checks::{Site, spell_out};
use te::compute::counts::{are_open, bounds};
use te::compute::parts::plain;
use te::compute::{EXTERN, FUNC, UPDATE, updates};
use te::loops::{Data, KERNEL, MemoryPlan, plan_memory, simplify, unroll, vectorize};
use te::schedule::{Refused, Schedule};

use crate::checks::CheckedCall;
use crate::{Capabilities, cpu, gpu};

/// The default schedule of the compute function `function` on `machine`. Errors where `function` is no
/// compute function.
pub fn default_schedule(function: &Item, machine: &Capabilities) -> Result<Schedule, Refused> {
    if are_open(&bounds(&function.signature)) {
        return open_schedule(function, machine);
    }
    match &machine.gpu {
        Some(gpu) => gpu::schedule(function, gpu),
        None => cpu::schedule(function, machine),
    }
}

/// The schedule of the open function `function`. How much there is to compute is not known, so it is
/// computed on one thread, and nothing is stored past the caches.
fn open_schedule(function: &Item, machine: &Capabilities) -> Result<Schedule, Refused> {
    let machine = Capabilities { threads: 1, caches: [usize::MAX >> 1; 3], ..machine.clone() };
    // A schedule that keeps a tensor between loops is none for it.
    match cpu::schedule(function, &machine) {
        Ok(schedule) if te::lower::lower(&schedule).is_ok() => Ok(schedule),
        _ => plain(function),
    }
}

/// The kernel that a compute function becomes on `machine` by its default schedule, and its checks,
/// which are spelt out and numbered in it. The error is a message.
pub fn lower_function(
    function: &Item,
    machine: &Capabilities,
) -> Result<(Item, Vec<Site>), String> {
    let mut function = function.clone();
    // A function without a body checks nothing, and has no schedule.
    let sites = function.body_mut().map(spell_out).unwrap_or_default();
    // Nothing may be stored to the result before it was combined with.
    let schedule = match updates(&function) {
        true => Schedule::new(&function)?,
        false => default_schedule(&function, machine)?,
    };
    let mut kernel = te::lower::lower(&schedule)?;
    kernel.signature.span = function.signature.span;
    let kept = [UPDATE, EXTERN].map(Symbol::new);
    let attrs = function.signature.attrs.entries().iter().filter(|(key, _)| kept.contains(key));
    let attrs = attrs.chain(kernel.signature.attrs.entries()).copied();
    kernel.signature.attrs = AttrDict::new(attrs);
    if let Some(body) = kernel.body_mut() {
        vectorize(body);
        unroll(body);
        simplify(body);
    }
    Ok((kernel, sites))
}

/// The checks of kernels, by name.
pub type Sites = FxHashMap<Symbol, Vec<Site>>;

/// Replaces every compute function of `module` by its kernel on `machine`, on `threads` threads;
/// their checks. The result does not depend on the number of threads. Errors are what has no
/// schedule.
pub fn lower_functions(
    module: &mut Module,
    machine: &Capabilities,
    threads: usize,
) -> Result<Sites, Diagnostics> {
    let functions: Vec<Symbol> = module
        .items
        .iter()
        .filter(|(_, item)| item.signature.op.as_str() == FUNC)
        .map(|(name, _)| *name)
        .collect();
    let next = AtomicUsize::new(0);
    type Lowered = Result<(Item, Vec<Site>), String>;
    let results: Mutex<Vec<(usize, Lowered)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, functions.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = functions.get(index).and_then(|name| module.items.get(name))
                    else {
                        break;
                    };
                    let kernel = lower_function(item, machine);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((index, kernel));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    let (mut sites, mut errors) = (Sites::default(), Diagnostics::new());
    for (index, result) in results {
        let name = functions[index];
        match result {
            Ok((kernel, own)) => {
                module.items.insert(name, kernel);
                sites.insert(name, own);
            }
            Err(message) => {
                let span = module.items.get(&name).and_then(|item| item.signature.span);
                let message = format!("`@{name}` has no schedule: {message}");
                errors.push(Diagnostic::error("E0910", message).at(span));
            }
        }
    }
    if errors.is_empty() { Ok(sites) } else { Err(errors) }
}

/// What surrounds the kernels of a program.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The constants, as further inputs of the main kernel, between its inputs and its results.
    pub data: Vec<TensorData>,
    /// How many of the parameters are inputs of the program.
    pub inputs: usize,
    /// How many of them are results of the program.
    pub outputs: usize,
    /// The calls that check numbers. For each, the main kernel has one more result, after those of
    /// the program: as many `int32` as there are checks, 0 for those that hold.
    pub checks: Vec<CheckedCall>,
    /// Where its buffers lie.
    pub memory: MemoryPlan,
}

/// Takes the constants out of the kernel `main` of `module`, each once, as parameters, and plans
/// the memory of its buffers on `machine`. `checks` are those that the program
/// [reports](crate::checks::report_checks). Errors where there is no such kernel, or its buffers
/// are too large.
pub fn lay_out(
    module: &mut Module,
    main: &str,
    checks: Vec<CheckedCall>,
    machine: &Capabilities,
) -> Result<Layout, Diagnostics> {
    let name = Symbol::new(main);
    let missing = || Diagnostic::error("E0910", format!("there is no kernel `@{main}`"));
    let item = module.items.get_mut(&name).ok_or_else(missing)?;
    if item.signature.op.as_str() != KERNEL {
        return Err(missing().into());
    }
    let outputs = te::loops::outputs(&item.signature);
    let span = item.signature.span;
    let body = item.body_mut().ok_or_else(missing)?;
    let entry = body.entry();
    let inputs = body.block_args(entry).len() - outputs;

    // Results stay the last parameters: they are added again after the constants.
    let mut data = Vec::new();
    let mut added = Vec::new();
    let constants: Vec<_> =
        body.block_ops(entry).filter_map(|op| Some((op, body.view::<Data>(op)?.value))).collect();
    let mut known: FxHashMap<Attr, ValueId> = FxHashMap::default();
    for (op, value) in constants {
        let key = Attr::of(&value);
        let result = body.result(op, 0);
        let param = match known.get(&key) {
            Some(param) => *param,
            None => {
                let param = body.add_block_arg(entry, value.ty());
                let hint = body.name_hint(result);
                body.set_name_hint(param, hint);
                known.insert(key, param);
                added.push(param);
                data.push(value);
                param
            }
        };
        body.replace_all_uses(result, param);
        body.erase(op);
    }
    if !added.is_empty() {
        let results = body.block_args(entry)[inputs..inputs + outputs].to_vec();
        for result in results {
            let again = body.add_block_arg(entry, body.ty(result));
            let hint = body.name_hint(result);
            body.set_name_hint(again, hint);
            body.replace_all_uses(result, again);
        }
        body.remove_block_args(entry, inputs..inputs + outputs);
    }
    let memory = plan_memory(body, machine.alignment())
        .map_err(|message| Diagnostic::error("E0910", message).at(span))?;
    let params: Vec<Type> = body.block_args(entry).iter().map(|arg| body.ty(*arg)).collect();
    item.signature.ty = Type::function(params, Type::unit());
    let outputs = outputs - checks.len();
    Ok(Layout { data, inputs, outputs, checks, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_main_kernel() {
        let error = lay_out(&mut Module::new(), "main", vec![], &crate::host()).unwrap_err();
        assert_eq!(
            (error[0].code, error[0].message.as_str()),
            ("E0910", "there is no kernel `@main`")
        );
    }
}
