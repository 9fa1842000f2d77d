//! Dead code elimination.

use ir_core::{Body, Effects, EntityId, Module, ModulePass, OpId, Pass, PassContext, PassResult};

use crate::effects::{EffectSummaries, LocalEffects};

/// Removes operations whose value nobody uses and whose effects nobody can see.
///
/// An operation goes when its results are unused and it changes no state: allocating, reading and
/// diverging do not keep it, so an unused call of a pure function disappears even where it might
/// not end. What a call does is found interprocedurally; a call of an unknown function stays.
/// Linear in the size of the module, times the depth of mutual recursion.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   let %a = exp(%x);
///   let %b = log(%x);
///   %b
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   let %b = log(%x);
///   %b
/// }
/// ```
#[derive(Pass)]
#[pass(name = "dce", module)]
pub struct Dce {
    /// Removes unused operations with effects as well.
    #[default(false)]
    pub ignore_effects: bool,
}

impl ModulePass for Dce {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let summaries = EffectSummaries::of(module, cx.registry);
        let mut removed = 0;
        for item in module.items.values_mut() {
            let Some(shared) = &item.body else { continue };
            let effects = LocalEffects::of(shared, cx.registry, &summaries);
            let dead = dead_ops(shared, &effects, self.ignore_effects);
            removed += dead.len() as u64;
            // A body without dead code stays the shared snapshot it is.
            if !dead.is_empty()
                && let Some(body) = item.body_mut()
            {
                for op in dead {
                    if body.is_live(op) {
                        body.erase(op);
                    }
                }
            }
        }
        cx.count("removed", removed);
        Ok(())
    }
}

/// Dead operations, users before the operations that they use.
fn dead_ops(body: &Body, effects: &LocalEffects, ignore_effects: bool) -> Vec<OpId> {
    let order: Vec<OpId> = body.walk().collect();
    // Operations that are dead or inside a dead one.
    let mut gone = vec![false; body.op_capacity()];
    let mut dead = vec![];
    let mut inside = vec![];
    for &op in order.iter().rev() {
        let visible = effects.of_op(op).contains(Effects::WRITE) && !ignore_effects;
        let mut results = body.results(op);
        if results.len() == 0 || visible {
            continue;
        }
        if !results.all(|result| body.uses(result).all(|(user, _)| gone[user.index()])) {
            continue;
        }
        dead.push(op);
        gone[op.index()] = true;
        inside.push(op);
        while let Some(outer) = inside.pop() {
            for region in body.regions(outer) {
                for op in body.block_ops(body.block_of(*region)) {
                    // What is gone already has taken its inside along.
                    if !std::mem::replace(&mut gone[op.index()], true) {
                        inside.push(op);
                    }
                }
            }
        }
    }
    dead
}
