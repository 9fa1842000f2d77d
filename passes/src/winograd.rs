//! Convolutions with fewer products.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};

use crate::by_rules;

/// Computes convolutions by constant kernels of 3 by 3 in tiles of the result, with a quarter of the products,
/// or four ninths of them on small images.
///
/// A number is as exact as the greatest ones that its tile is computed from: results differ from those of `nn.conv2d`
/// by some millionths of the greatest one. It pays where
/// products take most of the time, which many channels are a sign of; the transformed kernels are four times as large,
/// or 1.8 times. These are the rewrite rules tagged `winograd`, which `relay-opt rules list` prints.
///
/// ```relay
/// def @main(%x: Tensor[(1, 64, 14, 14), float32]) {
///   %0 = full(0.5f, shape=[64, 64, 3, 3], dtype=float32);
///   nn.conv2d(%x, %0, padding=[1, 1], channels=64, kernel_size=[3, 3])
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 64, 14, 14), float32]) -> Tensor[(1, 64, 14, 14), float32] {
///   %0 = full(0.5f, shape=[64, 64, 3, 3], dtype=float32);
///   %1 = nn.contrib_conv2d_winograd_weight_transform(%0, tile_size=4);
///   nn.contrib_conv2d_winograd_without_weight_transform(%x, %1, tile_size=4, padding=[1, 1], channels=64)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "winograd", function)]
pub struct Winograd {}

impl FunctionPass for Winograd {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        by_rules::run("winograd", false, f, cx)
    }
}
