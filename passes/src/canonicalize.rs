//! One form for what can be written in several.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{AttrData, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult, ValueId};

use crate::by_rules;
use crate::emit::Emit;
use crate::worklist::rewrite;

/// Writes biases as additions and applies the simplifications that operators declare.
///
/// `nn.bias_add` becomes `expand_dims` and `add`. Every operator's fold hook is applied until none
/// changes anything: an operation that folds is replaced, and its users are looked at again. Each
/// fold removes an operation and makes at most a constant, so this ends.
///
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %b: Tensor[(2), float32]) {
///   nn.bias_add(%x, %b)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %b: Tensor[(2), float32])
///     -> Tensor[(1, 2, 4, 4), float32] {
///   %0 = expand_dims(%b, axis=1, num_newaxis=2);
///   add(%x, %0)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "canonicalize", function)]
pub struct Canonicalize {}

const PASS: &str = "canonicalize";

impl FunctionPass for Canonicalize {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        // A certificate is about a whole pass, and this one goes on.
        let explain = std::mem::take(&mut cx.explain);
        by_rules::run("canonicalize", false, f, cx)?;
        cx.explain = explain;
        let folded = rewrite(f, &mut |f, op| Ok(folded_value(f, op)))?;
        cx.count("folded", folded);
        Ok(())
    }
}

fn folded_value(f: &mut FuncMut<'_>, op: OpId) -> Option<ValueId> {
    let hook = f.registry.def_of(f.body, op)?.fold?;
    match hook(&FoldCx { body: f.body, op, registry: f.registry })? {
        Folded::Value(value) => (value != f.body.result(op, 0)).then_some(value),
        Folded::Constant(attr) => match attr.data() {
            AttrData::Tensor(tensor) => Some(Emit::before(f, op, PASS).constant(tensor.clone())),
            _ => None,
        },
    }
}
