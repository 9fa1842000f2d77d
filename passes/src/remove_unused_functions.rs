//! Removal of functions that nothing reaches.

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult, Symbol};
use relay::language::FUNC;
use rustc_hash::FxHashSet;

use crate::effects::referenced_functions;
use crate::gradient::rule;

/// Removes the functions that the entry functions do not reach.
///
/// Types stay, and so do the rules for gradients of what is reached. Where no entry function exists, such
/// as in a library, nothing is removed.
///
/// ```relay
/// def @main(%x: float32) {
///   @f(%x)
/// }
///
/// def @f(%x: float32) -> float32 {
///   exp(%x)
/// }
///
/// def @g(%x: float32) -> float32 {
///   log(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: float32) -> float32 {
///   @f(%x)
/// }
///
/// def @f(%x: float32) -> float32 {
///   exp(%x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "remove-unused-functions", module)]
pub struct RemoveUnusedFunctions {
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
}

impl ModulePass for RemoveUnusedFunctions {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let is_function =
            |name: &Symbol| module.items.get(name).is_some_and(|item| item.signature.op == FUNC);
        let mut pending: Vec<Symbol> =
            self.entry.iter().map(|name| Symbol::new(name)).filter(is_function).collect();
        if pending.is_empty() {
            return Ok(());
        }
        // Items of other kinds stay, and so does what they refer to.
        let others = module.items.iter().filter(|(_, item)| item.signature.op != FUNC);
        pending.extend(others.filter(|(_, item)| item.body.is_some()).map(|(name, _)| *name));
        let mut reached: FxHashSet<Symbol> = pending.iter().copied().collect();
        while let Some(name) = pending.pop() {
            let Some(item) = module.get(name) else { continue };
            let called = item.body.as_deref().into_iter().flat_map(referenced_functions);
            for name in called.chain(rule(&item.signature)) {
                if reached.insert(name) {
                    pending.push(name);
                }
            }
        }
        let before = module.items.len();
        module.items.retain(|name, item| item.signature.op != FUNC || reached.contains(name));
        cx.count("removed", (before - module.items.len()) as u64);
        Ok(())
    }
}
