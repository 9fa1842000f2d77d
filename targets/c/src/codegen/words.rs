//! Words that are made of four neighbouring bytes, which processors that have these in order load at once.

use ir_core::{Body, DType, EntityId, OpId, ValueId};
use rustc_hash::FxHashMap;
use te::compute::Load;
use te::loops::Alloc;
use te::scalar::{Cast, ScalarOp, dtype_of};

use super::affine::{Affine, Linear};
use super::expr::Expr;
use super::kernel::Emitter;
use super::layout::{Home, Layout};
use super::plan::{Place, Plan};
use super::ranges::Ranges;
use super::values::{Repr, Vector};

/// Bytes of a word.
const BYTES: usize = 4;

/// The operations that make words, and what they are made of.
pub(super) struct Words {
    /// By the operation that gives a word: the load of its first byte.
    first: FxHashMap<OpId, OpId>,
    /// By value: whether it is only part of a word.
    is_part: Vec<bool>,
}

/// What [`Words`] asks about a kernel.
pub(super) struct Kernel<'a> {
    pub(super) body: &'a Body,
    pub(super) ranges: &'a Ranges,
    pub(super) affine: &'a Affine,
    pub(super) layout: &'a Layout,
    pub(super) plan: &'a Plan,
}

impl Words {
    /// No words in `body`.
    pub(super) fn none(body: &Body) -> Words {
        Words { first: FxHashMap::default(), is_part: vec![false; body.value_capacity()] }
    }

    /// Those of a kernel.
    pub(super) fn of(kernel: &Kernel<'_>) -> Words {
        let mut words = Words::none(kernel.body);
        for op in kernel.body.walk() {
            if let Some((first, parts)) = kernel.word(op) {
                words.first.insert(op, first);
                parts.into_iter().for_each(|part| words.is_part[part.index()] = true);
            }
        }
        words
    }

    /// Whether `value` is only part of a word.
    pub(super) fn is_part(&self, value: ValueId) -> bool {
        self.is_part[value.index()]
    }
}

impl Kernel<'_> {
    fn scalar_op(&self, value: ValueId) -> Option<(ScalarOp, ValueId, ValueId)> {
        let op = self.body.defining_op(value)?;
        let scalar = ScalarOp::of(self.body.op_name(op)).filter(|scalar| scalar.arity() == 2)?;
        Some((scalar, self.body.operand(op, 0), self.body.operand(op, 1)))
    }

    /// `a` and `b` where `value` is `op` of `a` and the number `b`.
    fn by_number(&self, value: ValueId, op: ScalarOp) -> Option<(ValueId, i128)> {
        let (found, a, b) = self.scalar_op(value)?;
        let number = self.ranges.get(self.body, b).constant()?;
        (found == op).then_some((a, number))
    }

    /// The load of the first of the bytes that `op` joins to a word, and the values that are of use for this alone.
    fn word(&self, op: OpId) -> Option<(OpId, Vec<ValueId>)> {
        if ScalarOp::of(self.body.op_name(op)) != Some(ScalarOp::Or) {
            return None;
        }
        let word = self.body.result(op, 0);
        if dtype_of(self.body.ty(word))?.lane() != DType::INT32 {
            return None;
        }
        let (mut rest, mut parts) = (word, Vec::new());
        let mut loads = Vec::new();
        for byte in (0..BYTES).rev() {
            let mut number = rest;
            if byte > 0 {
                let (found, lower, part) = self.scalar_op(rest)?;
                let (shifted, bits) = self.by_number(part, ScalarOp::ShiftLeft)?;
                if found != ScalarOp::Or || bits != 8 * byte as i128 {
                    return None;
                }
                parts.extend([lower, part]);
                (rest, number) = (lower, shifted);
            }
            // What is above the last byte is lost; that of the others has to be.
            let mut is_clear = byte + 1 == BYTES;
            if let Some((masked, 255)) = self.by_number(number, ScalarOp::And) {
                parts.push(number);
                (number, is_clear) = (masked, true);
            }
            let cast: Cast = self.body.view(self.body.defining_op(number)?)?;
            let load = self.body.defining_op(cast.a)?;
            let dtype = dtype_of(self.body.ty(cast.a))?;
            parts.extend([number, cast.a]);
            let is_byte = dtype.is_integer() && dtype.bits() == 8;
            if !is_byte || dtype.is_signed() && !is_clear {
                return None;
            }
            loads.push(load);
        }
        loads.reverse();
        parts.retain(|part| *part != word);
        // Computed where the word is, and nowhere else.
        let are_inline = parts.iter().all(|part| self.plan.get(*part) == Place::Inline);
        let first = self.place(loads[0])?;
        let follow = loads.iter().enumerate().all(|(byte, load)| {
            self.place(*load).is_some_and(|(buffer, place)| {
                let constant = place.constant.checked_sub(byte as i64);
                constant.is_some_and(|constant| (buffer, Linear { constant, ..place }) == first)
            })
        });
        (are_inline && follow).then_some((loads[0], parts))
    }

    /// Where a byte in memory is loaded from.
    fn place(&self, load: OpId) -> Option<(ValueId, Linear)> {
        let Load { tensor, indices } = self.body.view(load)?;
        if matches!(self.layout.home(tensor), Some(Home::Variables(_))) {
            return None;
        }
        let shape = match self.body.view_def::<Alloc>(tensor) {
            Some((_, alloc)) => alloc.shape.iter().copied().collect(),
            None => self.body.ty(tensor).as_tensor()?.known_shape()?,
        };
        Some((tensor, self.affine.address(self.body, self.ranges, &shape, &indices)?))
    }
}

impl Emitter<'_> {
    /// What `op` gives, where it joins bytes to a word.
    pub(super) fn word(&mut self, op: OpId) -> Option<Repr> {
        let load = *self.words.first.get(&op)?;
        let Load { tensor, indices } = self.body.view(load)?;
        let (buffer, place) = self.place(load, tensor, &indices)?;
        let dtype = self.dtype(self.body.result(op, 0));
        let follow = self
            .is_consecutive(&Linear { step: place.step / BYTES as i64, ..place.clone() })
            && place.step % BYTES as i64 == 0;
        if self.has_vectors(dtype) && follow {
            let (elem, lanes) = self.natural(dtype);
            let function = self.helpers.load_words(lanes);
            let pieces = (0..dtype.lanes() as usize / lanes).map(|piece| {
                let address = self.address(&buffer, &place, piece * lanes * BYTES);
                Expr::call(&function, &[&address])
            });
            return Some(Repr::Vector(Vector { elem, lanes, pieces: pieces.collect() }));
        }
        let varies = self.varies(&place);
        let index = self.index(&place);
        let word =
            Expr::call(&self.helpers.load_words(1), &[&Expr::address(buffer.name(), &index)]);
        Some(match (dtype.lanes(), varies) {
            (1, _) => Repr::Scalar(word),
            (_, false) => Repr::Splat(word),
            (_, true) => Repr::Lanes(word),
        })
    }
}
