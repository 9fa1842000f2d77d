//! Where a program may fail, and the constants that it holds: in one order, in which generated code
//! and those who run it number them.

use indexmap::{IndexMap, IndexSet};
use ir_core::{Attr, Body, Loc, Module, OpId, Span, Symbol, TensorData};
use rustc_hash::FxBuildHasher;
use te::checks::CHECKS;

use crate::order::TOO_LONG;
use crate::sized::MISFIT;
use crate::{
    Bounded, Call, Cell, Constant, Construct, Expect, FUNC, Fail, Indices, Kernel, Open, Operate,
    Order, Reshape, Rows, Sized, is_counted,
};

/// What is said where a reshape does not keep the number of elements.
pub(crate) const RESHAPED: &str = "expected extents of as many elements";

/// An operation at which a program may fail: for a reason of its own, or for want of memory.
#[derive(Clone, Debug)]
pub struct Site {
    /// The function that the operation belongs to.
    pub function: Symbol,
    /// The operation.
    pub op: OpId,
    /// Its place.
    pub loc: Loc,
    /// Where the function starts in its source.
    pub base: Option<Span>,
    /// What was expected, as a message that starts in lower case.
    pub message: String,
    /// Whether it may run out of memory there: for what it makes, or, at a call, for what waits for the
    /// results.
    pub is_memory: bool,
}

/// The functions of `module`, in order.
pub fn functions(module: &Module) -> impl Iterator<Item = (Symbol, &Body)> {
    let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
    functions.filter_map(|(name, item)| Some((*name, item.body.as_deref()?)))
}

/// What the kernel or compute function `name` of `module` checks: a message for each of its last
/// results, which are numbers that are not 0 where a check fails.
pub fn checks(module: &Module, name: Symbol) -> Vec<String> {
    let attrs = module.get(name).map(|item| item.signature.attrs);
    attrs.and_then(|attrs| attrs.value(CHECKS)).unwrap_or_default()
}

/// Where `module` may fail. Each check of a kernel is a site of its own at each of its calls; the site
/// for want of memory is the last one of an operation.
pub fn of(module: &Module) -> Vec<Site> {
    let mut sites = Vec::new();
    for (function, body) in functions(module) {
        let base = module.get(function).and_then(|item| item.signature.span);
        for op in body.walk() {
            let (failures, memory) = messages(module, body, op);
            let loc = body.loc(op);
            let site =
                |message, loc, is_memory| Site { function, op, loc, base, message, is_memory };
            let known = body.view::<Rows>(op).map(|rows| places(module, &rows.kernels, 1));
            let known = known.or_else(|| {
                let bounded = body.view::<Bounded>(op)?;
                Some(places(module, &[bounded.kernel], bounded.failures(module).len()))
            });
            let mut known = known.into_iter().flatten();
            sites.extend(failures.into_iter().map(|message| {
                let place = known.next().flatten().unwrap_or(loc);
                site(message, place, false)
            }));
            sites.extend(memory.map(|message| site(message, loc, true)));
        }
    }
    sites
}

/// Where each failure of what `kernels` compute comes from, as far as that is known. Behind the first
/// `own`, which are those of inputs, are the checks of each kernel: those of what it calls, in the order
/// of the first calls.
fn places(module: &Module, kernels: &[Symbol], own: usize) -> Vec<Option<Loc>> {
    let mut places = vec![None; own];
    for &kernel in kernels {
        let (first, count) = (places.len(), checks(module, kernel).len());
        if let Some(body) = module.body(kernel) {
            let calls =
                body.walk().filter_map(|op| Some((op, body.view::<te::loops::Call>(op)?.kernel)));
            let mut known: IndexSet<Symbol, FxBuildHasher> = IndexSet::default();
            for (op, callee) in calls.filter(|(_, callee)| known.insert(*callee)) {
                places.extend(checks(module, callee).iter().map(|_| Some(body.loc(op))));
            }
        }
        if places.len() - first != count {
            places.truncate(first);
            places.resize(first + count, None);
        }
    }
    places
}

/// What is said where an operation fails, and where it runs out of memory.
fn messages(module: &Module, body: &Body, op: OpId) -> (Vec<String>, Option<String>) {
    let makes = || Some("there is no memory for what is made here".to_string());
    if let Some(fail) = body.view::<Fail>(op) {
        (vec![fail.message], None)
    } else if let Some(kernel) = body.view::<Kernel>(op) {
        let allocates = body.results(op).any(|result| is_counted(body.ty(result)));
        (checks(module, kernel.function), makes().filter(|_| allocates))
    } else if let Some(operate) = body.view::<Operate>(op) {
        (vec![format!("`{}` has no value on its operands", operate.operator)], makes())
    } else if let Some(rows) = body.view::<Rows>(op) {
        let mut failures = vec!["the rows of inputs do not fit together".to_string()];
        failures.extend(rows.kernels.iter().flat_map(|kernel| checks(module, *kernel)));
        (failures, makes())
    } else if let Some(bounded) = body.view::<Bounded>(op) {
        let mut failures = bounded.failures(module);
        failures.extend(checks(module, bounded.kernel));
        (failures, makes())
    } else if let Some(sized) = body.view::<Sized>(op) {
        let mut failures = vec![MISFIT.to_string()];
        failures.extend(checks(module, sized.function));
        (failures, makes())
    } else if let Some(expect) = body.view::<Expect>(op) {
        (vec![format!("expected {}", expect.expected)], None)
    } else if body.is::<Reshape>(op) {
        (vec![RESHAPED.to_string()], makes())
    } else if body.is::<Order>(op) {
        (vec![TOO_LONG.to_string()], makes())
    } else if body.is::<Open>(op) || body.is::<Indices>(op) {
        (vec![], makes())
    } else if let Some(call) = body.view::<Call>(op) {
        (vec![], Some(format!("there is no memory for what waits for `@{}`", call.function)))
    } else if body.is::<Cell>(op)
        || body.view::<Construct>(op).is_some_and(|made| !made.fields.is_empty())
    {
        (vec![], makes())
    } else {
        (vec![], None)
    }
}

/// The attribute of the function that a program starts at which asks for counting what runs how often,
/// and for how long.
pub const PROFILE: &str = "profile";

/// What is counted in the program of `module` where its `@main` asks for it: functions, then kernels
/// that are more than arithmetic on scalars, which is part of its function.
pub fn counters(module: &Module) -> IndexSet<Symbol, FxBuildHasher> {
    let asks = module.get("main").and_then(|main| main.signature.attrs.value::<bool>(PROFILE));
    if asks != Some(true) {
        return IndexSet::default();
    }
    let mut counters: IndexSet<Symbol, FxBuildHasher> =
        functions(module).map(|(name, _)| name).collect();
    counters.extend(kernels(module).map(|(_, _, name)| name));
    counters
}

/// The calls of kernels that are more than arithmetic on scalars: in which function, at which operation,
/// and of which kernel.
pub fn kernels(module: &Module) -> impl Iterator<Item = (Symbol, OpId, Symbol)> {
    functions(module).flat_map(|(function, body)| {
        let called = body.walk().filter_map(move |op| {
            let kernels = match body.view::<Kernel>(op) {
                Some(kernel) => vec![kernel.function],
                None => match body.view::<Rows>(op) {
                    Some(rows) => rows.kernels,
                    None => match body.view::<Bounded>(op) {
                        Some(bounded) => vec![bounded.kernel],
                        None => vec![body.view::<Sized>(op)?.function],
                    },
                },
            };
            let mut values = body.operands(op).chain(body.results(op));
            let is_more = values.any(|value| is_counted(body.ty(value)));
            is_more.then(|| kernels.into_iter().map(move |kernel| (function, op, kernel)))
        });
        called.flatten()
    })
}

/// The constants of `module` that are no scalars, each once.
pub fn constants(module: &Module) -> IndexMap<Attr, TensorData, FxBuildHasher> {
    let mut constants = IndexMap::default();
    for (_, body) in functions(module) {
        for op in body.walk() {
            if let Some(Constant { value }) = body.view(op)
                && value.rank() > 0
            {
                constants.entry(Attr::of(&value)).or_insert(value);
            }
        }
    }
    constants
}
