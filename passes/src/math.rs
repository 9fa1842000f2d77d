//! Rewrites of single arithmetic operators.

use ir_core::{AttrData, DType, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult};
use ir_core::{Scalar, Symbol, TensorData};
use relay::operators::broadcast::{Divide, Multiply};
use relay::operators::elementwise::Cast;

use crate::emit::Emit;

/// Divides by a constant by multiplying with its reciprocal.
///
/// Only for floats, whose last digit may change; a divisor with a zero stays.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   divide(%x, 4f)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   multiply(%x, 0.25f)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "div-to-mul", function)]
pub struct DivToMul {}

impl FunctionPass for DivToMul {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Divide>() {
            let Some(divide) = f.view::<Divide>(op) else { continue };
            let Some(constant) = f.registry.constant(f.body, divide.rhs) else { continue };
            let AttrData::Tensor(divisor) = constant.data() else { continue };
            let zero = divisor.elements().any(|element| element.as_f64() == 0.0);
            if !divisor.dtype().is_float() || zero {
                continue;
            }
            let reciprocals =
                divisor.elements().map(|element| Scalar::Float(1.0 / element.as_f64()));
            let Ok(reciprocal) =
                TensorData::from_scalars(divisor.dtype(), divisor.shape(), reciprocals)
            else {
                continue;
            };
            let mut emit = Emit::before(f, op, "div-to-mul");
            let rhs = emit.constant(reciprocal);
            let product = emit.op(&Multiply { lhs: divide.lhs, rhs })?;
            f.replace(op, product);
            cx.count("divisions", 1);
        }
        Ok(())
    }
}

/// Replaces transcendental functions by their fast approximations.
///
/// `exp`, `tanh`, `erf` and `nn.softmax` become `fast_exp`, `fast_tanh`, `fast_erf` and
/// `nn.fast_softmax`, which a target may approximate.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   exp(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   fast_exp(%x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fast-math", function)]
pub struct FastMath {}

const FAST: [(&str, &str); 4] = [
    ("relay.exp", "relay.fast_exp"),
    ("relay.tanh", "relay.fast_tanh"),
    ("relay.erf", "relay.fast_erf"),
    ("relay.nn.softmax", "relay.nn.fast_softmax"),
];

impl FunctionPass for FastMath {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let ops: Vec<OpId> = f.body.walk().collect();
        for op in ops {
            let name = f.body.op_name(op);
            if let Some((_, fast)) = FAST.iter().find(|(exact, _)| name == *exact) {
                crate::emit::rename(f, op, Symbol::new(fast), "fast-math");
                cx.count("replaced", 1);
            }
        }
        Ok(())
    }
}

/// Gives every user of a widening cast a cast of its own.
///
/// A shared cast to a wider type would be a kernel of its own that writes the wide tensor; a copy
/// for each user is fused into it.
///
/// ```relay
/// def @main(%x: Tensor[(4), int8], %a: Tensor[(4), int32], %b: Tensor[(4), int32]) {
///   %0 = cast(%x, dtype="int32");
///   %1 = add(%0, %a);
///   %2 = multiply(%0, %b);
///   (%1, %2)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), int8], %a: Tensor[(4), int32], %b: Tensor[(4), int32])
///     -> (Tensor[(4), int32], Tensor[(4), int32]) {
///   %0 = cast(%x, dtype="int32");
///   %1 = add(%0, %a);
///   %2 = cast(%x, dtype="int32");
///   %3 = multiply(%2, %b);
///   (%1, %3)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "canonicalize-cast", function)]
pub struct CanonicalizeCast {}

impl FunctionPass for CanonicalizeCast {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Cast>() {
            let Some(cast) = f.view::<Cast>(op) else { continue };
            let widens = |from: DType| from.bits() < cast.dtype.bits();
            if !f.body.ty(cast.data).as_tensor().is_some_and(|tensor| widens(tensor.dtype)) {
                continue;
            }
            let value = f.body.result(op, 0);
            let mut users: Vec<OpId> = f.body.uses(value).map(|(user, _)| user).collect();
            // The use-list has no particular order; the text order is what a reader sees.
            users.sort_unstable();
            users.dedup();
            for &user in users.iter().skip(1) {
                if !is_operator(f, user) {
                    continue;
                }
                let copy = Emit::before(f, user, "canonicalize-cast").op(&cast)?;
                f.body.replace_uses_where(value, copy, |_, (other, _)| other == user);
                cx.count("copied", 1);
            }
        }
        Ok(())
    }
}

/// Whether `op` is an operator that fusion can put a cast into.
fn is_operator(f: &FuncMut<'_>, op: OpId) -> bool {
    f.registry.hook::<relay::operators::FusionPattern>(f.body.op_name(op)).is_some()
}
