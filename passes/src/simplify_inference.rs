//! Layers that matter in training only, as arithmetic.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};

use crate::by_rules;

/// Writes normalizations as arithmetic and drops dropout, as inference allows.
///
/// `nn.batch_norm` uses its moving mean and variance, which are its second and third result;
/// `nn.layer_norm`, `nn.instance_norm`, `nn.group_norm` and `nn.l2_normalize` become reductions
/// and elementwise operators. What is left can be fused, folded into weights and moved around.
/// Normalizations of integers, which round only once, stay.
///
/// These are the rewrite rules tagged `simplify-inference`, which `relay-opt rules list` prints, applied
/// until none fits. The last digits of floats may change.
///
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %gamma: Tensor[(2), float32],
///           %beta: Tensor[(2), float32], %mean: Tensor[(2), float32], %var: Tensor[(2), float32]) {
///   %0 = nn.batch_norm(%x, %gamma, %beta, %mean, %var);
///   %0.0
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4, 4), float32], %gamma: Tensor[(2), float32],
///     %beta: Tensor[(2), float32], %mean: Tensor[(2), float32], %var: Tensor[(2), float32])
///     -> Tensor[(1, 2, 4, 4), float32] {
///   %0 = add(%var, 1e-05f);
///   %1 = sqrt(%0);
///   %2 = divide(1f, %1);
///   %3 = multiply(%2, %gamma);
///   %4 = negative(%mean);
///   %5 = multiply(%4, %3);
///   %6 = add(%5, %beta);
///   %7 = expand_dims(%3, axis=1, num_newaxis=2);
///   %8 = multiply(%x, %7);
///   %9 = expand_dims(%6, axis=1, num_newaxis=2);
///   add(%8, %9)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "simplify-inference", function)]
pub struct SimplifyInference {}

impl FunctionPass for SimplifyInference {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        by_rules::run("simplify-inference", false, f, cx)
    }
}
