//! Padding as part of convolutions and pools.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};

use crate::by_rules;

/// Folds `nn.pad` into the convolution or pool that reads it.
///
/// A margin of zeros on the spatial axes adds to the padding of a convolution. It does so for an
/// average pool that counts its padding, or that has none yet, and for a max pool a margin of the
/// least value of the element type does. The padded tensor is never written then.
///
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32]) {
///   %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]);
///   nn.conv2d(%0, %w, channels=2, kernel_size=[3, 3])
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32])
///     -> Tensor[(1, 2, 8, 8), float32] {
///   nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=2, kernel_size=[3, 3])
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fold-explicit-padding", function)]
pub struct FoldExplicitPadding {}

impl FunctionPass for FoldExplicitPadding {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        by_rules::run("fold-explicit-padding", false, f, cx)
    }
}
