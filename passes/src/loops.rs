//! Passes over the loops of kernels.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};
use te::loops::{KERNEL, simplify, unroll, vectorize};
use te::text::tidy;

/// Replaces the loops of kernels that are marked vectorized by vector operations.
///
/// A loop that has no vector form becomes serial: one that is too long, or around a condition that
/// differs from lane to lane, an allocation, a call or a loop on threads.
///
/// ```relay
/// "te.kernel" @negate {outputs = 1} : fn (Tensor[(8), float32], Tensor[(8), float32]) -> () {
///   ^(%x: Tensor[(8), float32], %y: Tensor[(8), float32]):
///   "te.for"() ({
///     ^(%i: int64):
///     %0 = "te.load"(%x, %i) : (Tensor[(8), float32], int64) -> float32
///     %1 = "te.neg"(%0) : (float32) -> float32
///     "te.store"(%1, %y, %i) : (float32, Tensor[(8), float32], int64) -> ()
///   }) {kind = "vectorized", extent = 8} : () -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
/// becomes
/// ```relay
/// "te.kernel" @negate {outputs = 1} : fn (Tensor[(8), float32], Tensor[(8), float32]) -> () {
///   ^(%x: Tensor[(8), float32], %y: Tensor[(8), float32]):
///   %0 = "te.constant"() {value = dense<int64, 0>} : () -> int64
///   %1 = "te.ramp"(%0) {stride = 1, lanes = 8} : (int64) -> int64x8
///   %2 = "te.load"(%x, %1) : (Tensor[(8), float32], int64x8) -> float32x8
///   %3 = "te.neg"(%2) : (float32x8) -> float32x8
///   %4 = "te.ramp"(%0) {stride = 1, lanes = 8} : (int64) -> int64x8
///   "te.store"(%3, %y, %4) : (float32x8, Tensor[(8), float32], int64x8) -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
#[derive(Pass)]
#[pass(name = "vectorize-loops", function)]
pub struct VectorizeLoops {}

impl FunctionPass for VectorizeLoops {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if f.signature.op == KERNEL {
            cx.count("vectorized", vectorize(f.body));
        }
        Ok(())
    }
}

/// Writes out the loops of kernels that are marked unrolled, the innermost first.
///
/// Where the result would have too many operations, a loop becomes serial.
///
/// ```relay
/// "te.kernel" @negate {outputs = 1} : fn (Tensor[(2), float32], Tensor[(2), float32]) -> () {
///   ^(%x: Tensor[(2), float32], %y: Tensor[(2), float32]):
///   "te.for"() ({
///     ^(%i: int64):
///     %0 = "te.load"(%x, %i) : (Tensor[(2), float32], int64) -> float32
///     %1 = "te.neg"(%0) : (float32) -> float32
///     "te.store"(%1, %y, %i) : (float32, Tensor[(2), float32], int64) -> ()
///   }) {kind = "unrolled", extent = 2} : () -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
/// becomes
/// ```relay
/// "te.kernel" @negate {outputs = 1} : fn (Tensor[(2), float32], Tensor[(2), float32]) -> () {
///   ^(%x: Tensor[(2), float32], %y: Tensor[(2), float32]):
///   %0 = "te.constant"() {value = dense<int64, 0>} : () -> int64
///   %1 = "te.load"(%x, %0) : (Tensor[(2), float32], int64) -> float32
///   %2 = "te.neg"(%1) : (float32) -> float32
///   "te.store"(%2, %y, %0) : (float32, Tensor[(2), float32], int64) -> ()
///   %3 = "te.constant"() {value = dense<int64, 1>} : () -> int64
///   %4 = "te.load"(%x, %3) : (Tensor[(2), float32], int64) -> float32
///   %5 = "te.neg"(%4) : (float32) -> float32
///   "te.store"(%5, %y, %3) : (float32, Tensor[(2), float32], int64) -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
#[derive(Pass)]
#[pass(name = "unroll-loops", function)]
pub struct UnrollLoops {}

impl FunctionPass for UnrollLoops {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if f.signature.op == KERNEL {
            cx.count("unrolled", unroll(f.body));
        }
        Ok(())
    }
}

/// Simplifies the expressions of kernels: constants are computed, equal expressions of a block are
/// written once, and what nothing uses is dropped.
///
/// ```relay
/// "te.kernel" @third {outputs = 1} : fn (Tensor[(8), float32], Tensor[(1), float32]) -> () {
///   ^(%x: Tensor[(8), float32], %y: Tensor[(1), float32]):
///   %0 = "te.constant"() {value = dense<int64, 1>} : () -> int64
///   %1 = "te.add"(%0, %0) : (int64, int64) -> int64
///   %2 = "te.sub"(%0, %0) : (int64, int64) -> int64
///   %3 = "te.load"(%x, %1) : (Tensor[(8), float32], int64) -> float32
///   "te.store"(%3, %y, %2) : (float32, Tensor[(1), float32], int64) -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
/// becomes
/// ```relay
/// "te.kernel" @third {outputs = 1} : fn (Tensor[(8), float32], Tensor[(1), float32]) -> () {
///   ^(%x: Tensor[(8), float32], %y: Tensor[(1), float32]):
///   %0 = "te.constant"() {value = dense<int64, 2>} : () -> int64
///   %1 = "te.constant"() {value = dense<int64, 0>} : () -> int64
///   %2 = "te.load"(%x, %0) : (Tensor[(8), float32], int64) -> float32
///   "te.store"(%2, %y, %1) : (float32, Tensor[(1), float32], int64) -> ()
///   "te.yield"() : () -> ()
/// }
/// ```
#[derive(Pass)]
#[pass(name = "simplify-loops", function)]
pub struct SimplifyLoops {}

impl FunctionPass for SimplifyLoops {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if f.signature.op == KERNEL {
            cx.count("removed", simplify(f.body));
        }
        Ok(())
    }
}

/// Brings kernels into the form that reads best, without computing anything otherwise: buffers lose
/// their dimensions of extent 1, every block makes the constants that it uses, and what has no
/// effect stands where it is first used, in the order of the text. Loads pass no store.
///
/// ```relay
/// te.kernel @scale(%x: Tensor[(8), float32], %y: Tensor[(8), float32]) outputs 1 {
///   %a = alloc[(1), float32]
///   %0 = 0
///   for i < 8 {
///     %1 = %x[i] * 2f
///     %a[%0] = %1
///     %y[i] = %a[%0]
///   }
/// }
/// ```
/// becomes
/// ```relay
/// te.kernel @scale(%x: Tensor[(8), float32], %y: Tensor[(8), float32]) outputs 1 {
///   %a = alloc[(), float32]
///   for i < 8 {
///     %a[] = %x[i] * 2f
///     %y[i] = %a[]
///   }
/// }
/// ```
#[derive(Pass)]
#[pass(name = "tidy-loops", function)]
pub struct TidyLoops {}

impl FunctionPass for TidyLoops {
    fn run(&self, f: &mut FuncMut<'_>, _: &mut PassContext<'_>) -> PassResult {
        if f.signature.op == KERNEL {
            tidy(f.body);
        }
        Ok(())
    }
}
