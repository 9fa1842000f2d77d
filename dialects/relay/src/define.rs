//! The hook through which an operator says what it computes, element by element.
//!
//! [`Evaluate`](crate::interpreter::Evaluate) gives the meaning of an operator on numbers; a
//! [`Define`] writes the same as [tensor expressions](te::compute), which can be scheduled and
//! compiled. Where the evaluator refuses operands, such as an index outside of its axis, a
//! definition may do anything.

mod index;
mod patterns;

use ir_core::{AttrDict, DType, OpFields, Type, ValueId};
use te::compute::{Combiner, ComputeBuilder, Expression, Tensor};

pub use index::{Index, broadcast, load_broadcast, reshaped, strided};
pub use patterns::{
    Reduction, accumulator, along, arithmetic, as_real, cast_to, copied, elementwise, filled,
    logic, map, moved, nonzero, real, reciprocal, reshape, rounding, within,
};

use crate::operators::elements::{Shape, shape_of};

/// What a definition gives: a tensor for each field of the result, or a message that starts in
/// lower case.
pub type Defined = Result<Vec<Tensor>, String>;

/// Writes an operator as stages of a compute function. All extents are known. Stages are named
/// after the operator.
///
/// Attach it with `hooks(Define(define_dense))`. A definition must agree with the evaluator on
/// every operand that the evaluator takes, up to rounding of floats.
#[derive(Clone, Copy)]
pub struct Define(pub fn(&mut DefineCx<'_>) -> Defined);

/// An operand of an operator that is being defined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// The tensors of a tuple.
    Tuple(Vec<Tensor>),
}

impl Operand {
    /// Its tensors.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Operand::Tensor(tensor) => std::slice::from_ref(tensor),
            Operand::Tuple(fields) => fields,
        }
    }
}

/// What a definition looks at, and where it writes.
pub struct DefineCx<'a> {
    /// The function that is written.
    pub builder: &'a mut ComputeBuilder,
    /// Full name of the operator.
    pub name: &'a str,
    /// Operands in order.
    pub operands: &'a [Operand],
    /// Attributes, defaults left out.
    pub attrs: AttrDict,
    /// Type of the result.
    pub result: Type,
}

impl DefineCx<'_> {
    /// The declared fields of the operator.
    pub fn fields<T: OpFields<Operand>>(&self) -> Result<T, String> {
        T::decode(self.operands, self.attrs)
    }

    /// Operand `index` as a tensor.
    pub fn tensor(&self, index: usize) -> Result<Tensor, String> {
        match self.operands.get(index) {
            Some(Operand::Tensor(tensor)) => Ok(tensor.clone()),
            Some(Operand::Tuple(_)) => Err(format!("operand {index} is not a tensor")),
            None => Err(format!("operand {index} is missing")),
        }
    }

    /// The tensors of operand `index`.
    pub fn tensors(&self, index: usize) -> Result<Vec<Tensor>, String> {
        let operand = self.operands.get(index);
        operand
            .map(|operand| operand.tensors().to_vec())
            .ok_or_else(|| format!("operand {index} is missing"))
    }

    /// Shape and element type of the result, a tensor.
    pub fn result(&self) -> Result<(Shape, DType), String> {
        let dtype = self.result.as_tensor().map(|tensor| tensor.dtype);
        let dtype = dtype.ok_or_else(|| format!("expected a tensor, found {}", self.result))?;
        Ok((shape_of(self.result)?, dtype))
    }

    /// Name of a stage: the operator's without its prefixes.
    pub fn stage(&self) -> String {
        self.name.rsplit('.').next().unwrap_or(self.name).to_string()
    }

    /// Name of a stage before the last one, such as `softmax_sum`.
    pub fn stage_of(&self, part: &str) -> String {
        format!("{}_{part}", self.stage())
    }

    /// The operator as one stage, whose element at indices of the result is what `element` writes.
    pub fn compute(
        &mut self,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId]) -> ValueId,
    ) -> Defined {
        let (shape, _) = self.result()?;
        let name = self.stage();
        Ok(vec![self.builder.compute(&name, &shape, element)])
    }

    /// The operator as one reduction over axes of `extents`, whose value at indices of the result
    /// and of the reduction is what `element` writes. Sums in another element type than the
    /// result's are cast in a stage of their own.
    pub fn reduce(
        &mut self,
        extents: &[i64],
        combiner: Combiner,
        element: impl FnOnce(&mut Expression<'_>, &[ValueId], &[ValueId]) -> ValueId,
    ) -> Defined {
        let (shape, dtype) = self.result()?;
        let name = self.stage();
        let reduced = self.builder.reduce(&name, &shape, extents, combiner, element);
        if reduced.dtype == dtype {
            return Ok(vec![reduced]);
        }
        let name = self.stage_of("cast");
        Ok(vec![self.builder.compute(&name, &shape, |e, i| {
            let value = e.load(&reduced, i);
            e.cast(value, dtype)
        })])
    }
}
