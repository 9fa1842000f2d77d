//! Partial evaluation: programs computed as far as they are known.

mod calls;
mod evaluate;
mod jobs;
mod residual;
mod sources;
mod sweep;
mod values;

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult, Symbol};
use relay::language::FUNC;

use jobs::{Job, Jobs, Shared};

/// Copies of one function, at most.
const MAX_COPIES: usize = 64;

/// Copies that lead from one to the next, at most, unless they are for the same.
const MAX_DEPTH: usize = 64;

/// Evaluates what is known before a program runs.
///
/// Loops with known bounds are unrolled, calls of known functions become what they compute, and
/// cells and data whose contents are known go. Values are known in part: a tuple or list whose
/// fields are not, a function, a cell with what it holds. A call is unfolded where something of its
/// arguments is known, and inside itself only where a condition was decided since; else it becomes
/// a call of a copy of the function for what is known, of which there is one for each. What would
/// change with each copy that leads to another is taken for unknown. Cells whose contents are known
/// wherever they are used are gone; others stay, and so do all effects and calls that may not end,
/// in their order. Nothing is computed twice. A function whose type has extents `?` is called as it
/// is.
///
/// Starts with the functions of `entry`, or with all where there is none of these, and goes on with
/// those that are called then. Linear in the operations that are evaluated; where these are more than
/// `limit` and a few for each operation of the program, the functions that called themselves most
/// often are called instead, which the statistics tell as `cut short`.
///
/// ```relay
/// def @power(%n: int32, %x: float32) -> float32 {
///   if (equal(%n, 0)) { 1f } else { multiply(%x, @power(subtract(%n, 1), %x)) }
/// }
///
/// def @main(%x: float32) {
///   let %total = ref(0f);
///   let %add = fn (%y: float32) { ref_write(%total, add(ref_read(%total), %y)) };
///   let %_ = %add(@power(2, %x));
///   let %_1 = %add(%x);
///   ref_read(%total)
/// }
/// ```
/// becomes
/// ```relay
/// def @power(%n: int32, %x: float32) -> float32 {
///   %0 = equal(%n, 0);
///   if (%0) {
///     1f
///   } else {
///     %1 = subtract(%n, 1);
///     %2 = @power(%1, %x);
///     multiply(%x, %2)
///   }
/// }
///
/// def @main(%x: float32) -> float32 {
///   %0 = multiply(%x, 1f);
///   %1 = multiply(%x, %0);
///   %2 = add(0f, %1);
///   add(%2, %x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "partial-eval", module)]
pub struct PartialEval {
    /// Most operations to evaluate, beyond a few for each operation of the program.
    #[default(1_000_000)]
    pub limit: usize,
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
    /// Whether calls of loops, functions that call themselves only as their end, stay as they are where these read
    /// and write no cells. With the attribute `KeepLoop=1`, those of one always do.
    #[default(false)]
    pub keep_loops: bool,
}

impl ModulePass for PartialEval {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let functions = module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
        let functions: Vec<Symbol> = functions.map(|(name, _)| *name).collect();
        let is_entry = |name: &&Symbol| self.entry.iter().any(|entry| entry == name.as_str());
        let entry: Vec<Symbol> = functions.iter().filter(is_entry).copied().collect();
        let entry = if entry.is_empty() { functions } else { entry };
        let mut jobs = Jobs::new(module, cx.registry, self.limit as u64);
        jobs.keep_loops(self.keep_loops);
        let done = jobs.run(&entry);
        cx.count("evaluated", jobs.counts.evaluated);
        cx.count("copies", jobs.counts.copies);
        cx.count("cut short", jobs.counts.cut_short);
        let mut new = jobs.into_module();
        let found = relay::inference::infer_module(&mut new, cx.registry);
        // What fails where it is reached is no error of the program.
        match done.is_none() || found.iter().any(|diagnostic| diagnostic.is_error()) {
            true => cx.count("left as it was", 1),
            false => *module = new,
        }
        Ok(())
    }
}
