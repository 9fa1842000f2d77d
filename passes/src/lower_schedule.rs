//! From compute functions and their schedules to kernels.

use indexmap::IndexMap;
use ir_core::text::attributes::write_dict;
use ir_core::text::layout::Line;
use ir_core::text::{PrintOptions, print_item};
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, Item, Module, ModulePass, OpId, Pass, PassContext,
    PassResult, Registry, Symbol,
};
use rustc_hash::FxBuildHasher;
use te::checks::spell_out;
use te::compute::FUNC;
use te::lower::lower;
use te::schedule::ops::{FUNCTION, SCHEDULE};
use te::schedule::replay::{replay, replay_steps};
use te::schedule::{Schedule, default_schedule};

use crate::codes;

/// Makes kernels of compute functions, as their schedules say.
///
/// Every `te.func` becomes a `te.kernel` of the same name. The `te.schedule` whose attribute
/// `function` names it, where there is one, is replayed and removed; without one, every stage has
/// loops of its own, but for maps of which each element is read at most once: those are computed
/// where they are read. What arithmetic expects of divisors, shifts and exponents of integers becomes
/// checks.
///
/// ```relay
/// "te.func" @double : fn (Tensor[(8), float32]) -> Tensor[(8), float32] {
///   ^(%x: Tensor[(8), float32]):
///   %y = "te.compute"() ({
///     ^(%i: int64):
///     %a = "te.load"(%x, %i) : (Tensor[(8), float32], int64) -> float32
///     %b = "te.add"(%a, %a) : (float32, float32) -> float32
///     "te.yield"(%b) : (float32) -> ()
///   }) {name = "y", shape = [8], dtype = float32} : () -> Tensor[(8), float32]
///   "te.return"(%y) : (Tensor[(8), float32]) -> ()
/// }
///
/// "te.schedule" @quickly {function = @double} : () {
///   %y, %i = "te.stage"() {name = "y"} : () -> (te.stage[], te.axis[])
///   "te.vectorize"(%i) : (te.axis[]) -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
/// becomes
/// ```relay
/// "te.kernel" @double {outputs = 1} : fn (Tensor[(8), float32], Tensor[(8), float32]) -> () {
///   ^(%x: Tensor[(8), float32], %y: Tensor[(8), float32]):
///   "te.for"() ({
///     ^(%i: int64):
///     %0 = "te.load"(%x, %i) : (Tensor[(8), float32], int64) -> float32
///     %1 = "te.add"(%0, %0) : (float32, float32) -> float32
///     "te.store"(%1, %y, %i) : (float32, Tensor[(8), float32], int64) -> ()
///   }) {kind = "vectorized", extent = 8} : () -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
#[derive(Pass)]
#[pass(name = "lower-schedule", module)]
pub struct LowerSchedule {
    /// Prints the loops of each function after each primitive of its schedule.
    #[default(false)]
    pub print_steps: bool,
}

impl ModulePass for LowerSchedule {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let mut schedules: IndexMap<Symbol, Symbol, FxBuildHasher> = IndexMap::default();
        for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == SCHEDULE) {
            let function = item.signature.attrs.value::<Symbol>(FUNCTION);
            let function = function.expect("a verified schedule names its function");
            if let Some(first) = schedules.insert(function, *name) {
                let message = format!("`@{function}` has two schedules, `@{first}` and `@{name}`");
                let first = module.get(first).and_then(|item| item.signature.span);
                let found = Diagnostic::error(codes::SCHEDULES, message).at(item.signature.span);
                cx.report(found.related(first, "the first").help("remove one of them"));
            }
        }
        // Before schedules copy arithmetic, and put it where nothing uses it.
        for item in module.items.values_mut().filter(|item| item.signature.op == FUNC) {
            item.body_mut().map(spell_out);
        }
        let mut kernels = Vec::new();
        for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == FUNC) {
            let schedule = schedules.get(name).and_then(|schedule| module.get(*schedule));
            match self.kernel(module, *name, item, schedule, cx) {
                Ok(kernel) => kernels.push((*name, kernel)),
                Err(found) => cx.diagnostics.extend(found),
            }
        }
        cx.count("lowered", kernels.len() as u64);
        cx.count("schedules", schedules.len() as u64);
        module.items.extend(kernels);
        module.items.retain(|_, item| item.signature.op != SCHEDULE);
        Ok(())
    }
}

impl LowerSchedule {
    /// The kernel of `function`, called `name`.
    fn kernel(
        &self,
        module: &Module,
        name: Symbol,
        function: &Item,
        schedule: Option<&Item>,
        cx: &mut PassContext<'_>,
    ) -> Result<Item, Diagnostics> {
        let span = function.signature.span;
        let fail = |message: String| {
            let message = format!("`@{name}` cannot be lowered: {message}");
            Diagnostic::error(codes::LOWER, message).at(span)
        };
        let schedule = match schedule {
            Some(item) => self.replay(item, module, name, function, cx)?,
            None => {
                let schedule = default_schedule(function).map_err(fail)?;
                if self.print_steps {
                    let item = schedule.to_item(name).map_err(fail)?;
                    self.replay(&item, module, name, function, cx)?;
                }
                schedule
            }
        };
        let mut kernel = lower(&schedule).map_err(fail)?;
        let lowered = kernel.signature.attrs.entries();
        let attrs = function.signature.attrs.entries().iter().chain(lowered).copied();
        kernel.signature.attrs = AttrDict::new(attrs);
        kernel.signature.span = span;
        Ok(kernel)
    }

    /// The schedule that `item` describes, its steps printed where that was asked for.
    fn replay(
        &self,
        item: &Item,
        module: &Module,
        name: Symbol,
        function: &Item,
        cx: &mut PassContext<'_>,
    ) -> Result<Schedule, Diagnostics> {
        let registry = cx.registry;
        let Some(body) = item.body.as_deref().filter(|_| self.print_steps) else {
            return replay(item, module, registry);
        };
        let mut steps = Steps { name, registry, log: &mut cx.log };
        if let Ok(schedule) = Schedule::new(function) {
            steps.print("unscheduled", &schedule);
        }
        replay_steps(item, module, registry, &mut |schedule, op| {
            steps.print(&format!("after {}", describe(body, op, registry)), schedule);
        })
    }
}

/// Prints what becomes of a function.
struct Steps<'a> {
    name: Symbol,
    registry: &'a Registry,
    log: &'a mut Vec<u8>,
}

impl Steps<'_> {
    fn print(&mut self, what: &str, schedule: &Schedule) {
        let mut line = |text: &str| self.log.extend_from_slice(text.as_bytes());
        line(&format!("// ----- @{} {what} -----\n", self.name));
        match lower(schedule) {
            Err(message) => line(&format!("// no loops: {message}\n")),
            Ok(kernel) => {
                let options = PrintOptions::default();
                let syntax = self.registry.item(kernel.signature.op).and_then(|def| def.syntax);
                let print = syntax.map_or(print_item as _, |syntax| syntax.print);
                // Writing to memory does not fail.
                let _ = print(self.name, &kernel, self.registry, &options, self.log);
            }
        }
    }
}

/// A primitive in one line: `te.split(%i) {factor = 4}`.
fn describe(body: &Body, op: OpId, registry: &Registry) -> String {
    let name = body.op_name(op);
    let operands = body.operands(op).map(|operand| match body.name_hint(operand).name {
        Some(name) => format!("%{name}"),
        None => "_".to_string(),
    });
    let operands: Vec<String> = operands.collect();
    let mut line = Line::default();
    line.push(&format!("{name}({})", operands.join(", ")));
    if !body.attrs(op).is_empty() {
        line.push(" ");
        write_dict(body.attrs(op), registry.def(name), &PrintOptions::default(), &mut line);
    }
    std::mem::take(line.text())
}
