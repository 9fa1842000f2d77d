//! One form for what can be written in several.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{AttrData, Diagnostic, FuncMut, FunctionPass, OpId, Pass, PassContext};
use ir_core::{PassResult, ValueId};
use relay::operators::broadcast::Add;
use relay::operators::nn::linear::BiasAdd;

use crate::emit::{self, Emit};
use crate::simplify_inference::along;
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
        for op in f.all::<BiasAdd>() {
            let Some(bias_add) = f.view::<BiasAdd>(op) else { continue };
            cx.count("biases", u64::from(add_bias(f, op, &bias_add)?));
        }
        let folded = rewrite(f, &mut |f, op| Ok(folded_value(f, op)))?;
        cx.count("folded", folded);
        Ok(())
    }
}

fn add_bias(f: &mut FuncMut<'_>, op: OpId, bias_add: &BiasAdd) -> Result<bool, Diagnostic> {
    let Some(tensor) = f.body.ty(bias_add.data).as_tensor() else { return Ok(false) };
    let rank = tensor.rank();
    let axis = if bias_add.axis < 0 { bias_add.axis + rank as i64 } else { bias_add.axis };
    let Some(axis) = usize::try_from(axis).ok().filter(|axis| *axis < rank) else {
        return Ok(false);
    };
    let mut emit = Emit::before(f, op, PASS);
    let bias = along(&mut emit, bias_add.bias, rank, axis)?;
    let sum = emit.op(&Add { lhs: bias_add.data, rhs: bias })?;
    emit::replace(f, op, sum);
    Ok(true)
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
