//! Tensors of any extents, computed by a kernel that is told them.
//!
//! The elements of such a tensor follow one another as those of any other, whatever its extents are; so
//! nothing is moved, and results take the memory that they need.

use ir_core::registry::VerifyCx;
use ir_core::{Op, Signature, Symbol, Type, ValueId};
use te::checks::CHECKS;
use te::compute::FUNC;
use te::compute::counts::{OPEN, are_open, bounds, closed_type};
use te::loops::compact::row;
use te::loops::{buffer_types, output_count};

use crate::opened;

/// Computes tensors by a compute function that takes [open counts](te::compute::counts), or its kernel. It
/// borrows.
///
/// A tensor that ends at a count is open here: its extents are a part of it. Results get the extents that
/// the counts say. It fails where those of inputs are others, and where a count is negative or larger than
/// any extent.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.sized", effects(DIVERGE), results(tensors..), verify = verify)]
pub struct Sized<V = ValueId> {
    /// The compute function or kernel.
    pub function: Symbol,
    /// The types of the tensors that the compute function takes behind its counts, and then of those that
    /// it gives.
    pub tensors: Vec<Type>,
    /// The counts, and then its other inputs.
    pub inputs: Vec<V>,
}

/// What is said where extents are not those that the counts say.
pub(crate) const MISFIT: &str = "the extents of tensors do not fit together";

impl<V> Sized<V> {
    /// The types of what it takes behind the counts, and of what it gives.
    pub fn split(&self, results: usize) -> (&[Type], &[Type]) {
        self.tensors.split_at(self.tensors.len().saturating_sub(results))
    }
}

/// Whether `count` may be an extent.
pub fn is_count(count: i64) -> bool {
    (0..=OPEN).contains(&count)
}

/// Whether tensors of type `ty` end at a count.
pub fn ends_at_count(ty: Type) -> bool {
    closed_type(ty, &[0; te::compute::counts::MOST_OPEN]) != ty
}

/// The type of values that are tensors of type `ty` of a compute function.
pub fn value_type(ty: Type) -> Type {
    if ends_at_count(ty) { opened(ty) } else { ty }
}

/// Whether the function of `signature` takes and gives the tensors of `op`.
fn fits(op: &Sized, signature: &Signature) -> bool {
    let counts = bounds(signature).len();
    let checks = usize::from(signature.attrs.get(CHECKS).is_some());
    let Some((types, outputs)) = buffer_types(signature).zip(output_count(signature)) else {
        return false;
    };
    let is_function = signature.op == FUNC;
    let expected = |ty: &Type| match ty.as_tensor().filter(|_| !is_function && ends_at_count(*ty)) {
        Some(tensor) => row(tensor.dtype),
        None => *ty,
    };
    let tensors = op.tensors.iter().map(expected);
    are_open(&bounds(signature))
        && outputs >= checks
        && types.len() == counts + op.tensors.len() + checks
        && types[counts..].iter().copied().zip(tensors).all(|(own, ty)| own == ty)
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Sized>(cx.op) else { return Ok(()) };
    let signature = cx.signatures.get(&op.function).filter(|signature| fits(&op, signature));
    let signature = signature.ok_or_else(|| {
        format!(
            "expected `@{}` to take open counts, and to take and give these tensors",
            op.function
        )
    })?;
    let results: Vec<Type> = cx.body.results(cx.op).map(|result| cx.body.ty(result)).collect();
    let found: Vec<Type> = op.inputs.iter().map(|input| cx.body.ty(*input)).collect();
    let counts = bounds(signature).into_iter().map(|_| Type::scalar(ir_core::DType::INT64));
    let all: Vec<Type> = counts.chain(op.tensors.iter().map(|ty| value_type(*ty))).collect();
    if all.iter().eq(found.iter().chain(&results))
        && op.split(results.len()).1.len() == results.len()
    {
        return Ok(());
    }
    let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
    let (expected, found) = (list(&all), list(&[found, results].concat()));
    Err(format!("expected inputs and results ({expected}), found ({found})"))
}
