//! Products of short integers, several at a time.

use ir_core::{DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Tensor;
use te::scalar::ScalarOp;

use super::numeric::size;
use crate::{FusionPattern, relation};

/// How factors lie in words of 32 bits, such that one operation multiplies those of two words and adds the products.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Words {
    /// Two integers of 16 bits.
    Pairs,
    /// Four of 8 bits: unsigned ones in the first factor, signed ones in the second.
    Quads,
}

impl Words {
    /// In which words the factors `a` and `b` may lie, whose products are summed up as `sums`, the best ones first:
    /// those of integers that 16 bits hold.
    pub(super) fn of(a: DType, b: DType, sums: DType) -> &'static [Words] {
        let bits = |dtype: DType| dtype.bits() + u32::from(!dtype.is_signed());
        let is_short = |dtype: DType| dtype.is_integer() && !dtype.is_bool() && bits(dtype) <= 16;
        match (a, b) {
            _ if sums != DType::INT32 => &[],
            (DType::UINT8, DType::INT8) => &[Words::Quads, Words::Pairs],
            _ if is_short(a) && is_short(b) => &[Words::Pairs],
            _ => &[],
        }
    }

    /// Integers in a word.
    pub(super) fn count(self) -> i64 {
        match self {
            Words::Pairs => 2,
            Words::Quads => 4,
        }
    }

    /// Words that hold so many integers.
    pub(super) fn words(self, integers: i64) -> i64 {
        integers / self.count() + i64::from(integers % self.count() != 0)
    }

    /// The integers in a word, as those of the second factor are.
    pub(super) fn parts(self, word: i32) -> impl Iterator<Item = i64> {
        let bits = 32 / self.count();
        (0..self.count())
            .map(move |place| i64::from(word << (32 - bits * (place + 1)) >> (32 - bits)))
    }

    /// The sum of the products of two words.
    pub(super) fn dot(self) -> ScalarOp {
        match self {
            Words::Pairs => ScalarOp::PairDot,
            Words::Quads => ScalarOp::QuadDot,
        }
    }

    /// A stage of the words of neighbours of `tensor`, of short integers, along `axis`: the first in the lowest bits
    /// of an `int32`, and 0 for what is behind the end.
    pub(super) fn define(
        self,
        cx: &mut DefineCx<'_>,
        tensor: &Tensor,
        axis: usize,
        name: &str,
    ) -> Tensor {
        let (count, bits) = (self.count(), 32 / self.count());
        let mut shape = tensor.shape.clone();
        let extent = shape[axis];
        shape[axis] = self.words(extent);
        let name = cx.stage_of(name);
        cx.builder.compute(&name, &shape, |e, i| {
            let int = DType::INT32;
            let mut at = i.to_vec();
            let first = e.mul_index(i[axis], count);
            let mut word = None;
            for place in 0..count {
                at[axis] = e.add_index(first, place);
                // The first is always there.
                let number = if place == 0 || extent % count == 0 {
                    e.load(tensor, &at)
                } else {
                    let (end, none) = (e.index(extent), e.number(tensor.dtype, 0.0));
                    let inside = e.lt(at[axis], end);
                    e.load_if(inside, tensor, &at, none)
                };
                let number = e.cast(number, int);
                let constant = |number| Scalar::Int(number);
                // Of the last one, shifting leaves its own bits only.
                let part = if place + 1 == count {
                    number
                } else {
                    let mask = e.constant(int, constant((1 << bits) - 1));
                    e.scalar(ScalarOp::And, &[number, mask])
                };
                word = Some(match word {
                    None => part,
                    Some(word) => {
                        let amount = e.constant(int, constant(place * bits));
                        let part = e.scalar(ScalarOp::ShiftLeft, &[part, amount]);
                        e.scalar(ScalarOp::Or, &[word, part])
                    }
                });
            }
            word.unwrap_or_else(|| e.number(int, 0.0))
        })
    }
}

/// Four neighbours along an axis, integers of 8 bits, in one word each.
///
/// The first is in the lowest bits of an `int32`; behind the end of the axis there are zeros. Products of bytes take such
/// words: see `quads` of `nn.contrib_dense_pack`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.contrib_quads",
    infer = quads_relation,
    hooks(FusionPattern::Injective, Evaluate(evaluate_quads), Define(define_quads))
)]
pub struct ContribQuads<V = ValueId> {
    /// The integers, `int8` or `uint8`.
    pub data: V,
    /// The axis that becomes a quarter as long.
    #[default(-1)]
    pub axis: i64,
}

fn quads_relation(op: ContribQuads<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    if ![DType::INT8, DType::UINT8].contains(&data.dtype) {
        return Err(Stop::Error(format!("expected int8 or uint8, found {}", data.dtype)));
    }
    let axis = relation::axis(op.axis, data.rank())?;
    let mut shape = data.shape.clone();
    shape[axis] = match shape[axis] {
        Dim::Known(extent) => Dim::Known(Words::Quads.words(extent)),
        _ => Dim::Any,
    };
    Ok(Type::tensor(shape, DType::INT32))
}

fn evaluate_quads(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<ContribQuads<Value>>()?;
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.shape().len())?;
    let (outer, inner) = (size(&data.shape()[..axis]), size(&data.shape()[axis + 1..]));
    let extent = data.shape()[axis] as usize;
    let mut shape = data.shape().to_vec();
    shape[axis] = Words::Quads.words(shape[axis]);
    let words = shape[axis] as usize;
    let mut result = vec![0i32; outer * words * inner];
    for (place, number) in data.to_i64().into_iter().enumerate() {
        let (at, column) = (place / inner % extent, place % inner);
        let word = (place / (inner * extent) * words + at / 4) * inner + column;
        result[word] |= i32::from(number as u8) << (at % 4 * 8);
    }
    let result: Vec<i64> = result.into_iter().map(i64::from).collect();
    Ok(TensorData::from_i64(DType::INT32, &shape, &result)?.into())
}

fn define_quads(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<ContribQuads<Operand>>()?;
    let data = cx.tensor(0)?;
    let axis = relation::axis(op.axis, data.shape.len())?;
    Ok(vec![Words::Quads.define(cx, &data, axis, "words")])
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<ContribQuads>();
}
