//! Rewrites of single arithmetic operators.

use ir_core::{DType, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult};
use relay_operators::elementwise::Cast;

use crate::by_rules;
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
        by_rules::run("div-to-mul", false, f, cx)
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

impl FunctionPass for FastMath {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        by_rules::run("fast-math", false, f, cx)
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
    f.registry.hook::<relay_operators::FusionPattern>(f.body.op_name(op)).is_some()
}
