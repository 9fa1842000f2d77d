//! The hook through which an operator says what it computes, element by element.
//!
//! [`Evaluate`](crate::interpreter::Evaluate) gives the meaning of an operator on numbers; a
//! [`Define`] writes the same as [tensor expressions](te::compute), which can be scheduled and
//! compiled. Where the evaluator refuses operands, such as an index outside of its axis, so does
//! the definition, with a [check](Expression::check).

mod index;
mod patterns;

use ir_core::{AttrDict, DType, Item, OpFields, OpInfo, Registry, Type, ValueId};
use te::compute::{Combiner, ComputeBuilder, Expression, Tensor};
use te::lower::MAX_DEPTH;

pub use index::{Index, broadcast, load_broadcast, reshaped, strided};
pub use patterns::{
    Reduction, Tap, TapStages, accumulator, along, arithmetic, as_real, cast_to, copied,
    elementwise, filled, logic, map, means_of, moved, nonzero, real, reals_of, reciprocal,
    resampled, reshape, rounding, stage_taps, sums_of, taps_at, within,
};

use crate::interpreter::{Shape, shape_of};

/// What a definition gives: a tensor for each field of the result, or a message that starts in
/// lower case.
pub type Defined = Result<Vec<Tensor>, String>;

/// Writes an operator as stages of a compute function. All extents are known. Stages are named
/// after the operator.
///
/// Attach it with `hooks(Define(define_dense))`. A definition must agree with the evaluator on
/// every operand that the evaluator takes, up to rounding of floats, and refuse the others.
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
    /// What exists, for operators that are about others.
    pub registry: &'a Registry,
}

impl DefineCx<'_> {
    /// What `define` gives. Errors also where that is not of the type of the result.
    pub fn write(&mut self, define: &Define) -> Defined {
        let operands = self.operands.iter().flat_map(Operand::tensors);
        let results = tensor_types(self.result).unwrap_or_default();
        let results = results.iter().filter_map(|ty| ty.as_tensor());
        let ranks = operands.map(|tensor| tensor.shape.len()).chain(results.map(|ty| ty.rank()));
        if let Some(rank) = ranks.max().filter(|rank| *rank > MAX_DEPTH) {
            return Err(format!("expected at most {MAX_DEPTH} axes, found {rank}"));
        }
        let tensors = define.0(self)?;
        let types =
            tensors.iter().map(|tensor| Type::tensor(tensor.shape.iter().copied(), tensor.dtype));
        let types: Vec<Type> = types.collect();
        match tensor_types(self.result).is_some_and(|expected| expected == types) {
            true => Ok(tensors),
            false => Err(format!(
                "its definition gives {} instead of {}",
                Type::tuple(types),
                self.result
            )),
        }
    }

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

/// The tensors of a value of type `ty`: the fields of tuples, nested ones in reading order. `None`
/// for other types.
pub fn tensor_types(ty: Type) -> Option<Vec<Type>> {
    let mut tensors = Vec::new();
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match (ty.as_tensor(), ty.as_tuple()) {
            (Some(_), _) => tensors.push(ty),
            (_, Some(fields)) => pending.extend(fields.iter().rev()),
            _ => return None,
        }
    }
    Some(tensors)
}

/// The compute function of the operator `info` of `registry` alone, on operands of types `operands`, whose
/// result is of type `result`. It takes and returns the tensors of tuples one by one. Errors where
/// there is no definition or it refuses.
pub fn define_alone(
    registry: &Registry,
    info: &OpInfo,
    operands: &[Type],
    attrs: AttrDict,
    result: Type,
) -> Result<Item, String> {
    let name = info.def.name;
    let define = info.hook::<Define>().ok_or_else(|| format!("`{name}` has no definition"))?;
    let mut builder = ComputeBuilder::new();
    let mut given = Vec::with_capacity(operands.len());
    let mut number = 0;
    for &operand in operands {
        let mut tensors = Vec::new();
        let types = tensor_types(operand);
        for ty in types.ok_or_else(|| format!("expected tensors, found {operand}"))? {
            let shape = shape_of(ty)?;
            let dtype = ty.as_tensor().map_or(DType::FLOAT32, |tensor| tensor.dtype);
            tensors.push(builder.input(&format!("p{number}"), &shape, dtype));
            number += 1;
        }
        given.push(match (operand.as_tensor(), tensors.pop()) {
            (Some(_), Some(tensor)) => Operand::Tensor(tensor),
            (_, last) => Operand::Tuple(tensors.into_iter().chain(last).collect()),
        });
    }
    let mut cx =
        DefineCx { builder: &mut builder, name, operands: &given, attrs, result, registry };
    let tensors = cx.write(define)?;
    builder.finish(&tensors)
}
