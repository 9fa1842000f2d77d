//! Products of short integers, two at a time.

use ir_core::{DType, Scalar};
use relay::define::DefineCx;
use te::compute::Tensor;
use te::scalar::ScalarOp;

/// Whether products of `a` and `b`, which are summed up as `sums`, are taken in pairs: those of integers that
/// 16 bits hold.
pub(super) fn are_paired(a: DType, b: DType, sums: DType) -> bool {
    let bits = |dtype: DType| dtype.bits() + u32::from(!dtype.is_signed());
    let is_short = |dtype: DType| dtype.is_integer() && !dtype.is_bool() && bits(dtype) <= 16;
    sums == DType::INT32 && is_short(a) && is_short(b)
}

/// A stage of the pairs of neighbours of `tensor`, of short integers, along `axis`: the first in the lower 16
/// bits of an `int32`, the second, or 0 behind the end, in the upper ones.
pub(super) fn define_pairs(
    cx: &mut DefineCx<'_>,
    tensor: &Tensor,
    axis: usize,
    name: &str,
) -> Tensor {
    let mut shape = tensor.shape.clone();
    let extent = shape[axis];
    shape[axis] = (extent + 1) / 2;
    let name = cx.stage_of(name);
    cx.builder.compute(&name, &shape, |e, i| {
        let int = DType::INT32;
        let mut at = i.to_vec();
        at[axis] = e.mul_index(i[axis], 2);
        let low = e.load(tensor, &at);
        at[axis] = e.add_index(at[axis], 1);
        let high = if extent % 2 == 0 {
            e.load(tensor, &at)
        } else {
            let (end, none) = (e.index(extent), e.number(tensor.dtype, 0.0));
            let inside = e.lt(at[axis], end);
            e.load_if(inside, tensor, &at, none)
        };
        let [mask, sixteen] = [0xffff, 16].map(|number| e.constant(int, Scalar::Int(number)));
        let (low, high) = (e.cast(low, int), e.cast(high, int));
        let low = e.scalar(ScalarOp::And, &[low, mask]);
        let high = e.scalar(ScalarOp::ShiftLeft, &[high, sixteen]);
        e.scalar(ScalarOp::Or, &[high, low])
    })
}
