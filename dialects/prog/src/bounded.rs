//! Tensors of any extents up to a bound, computed by a kernel for the most that they may be.
//!
//! Where the kernel takes and gives tensors, these lie in buffers of the bounds. What a caller has and
//! gets are tensors of the extents that they have, one element after the other; so elements are moved
//! where a program begins and ends, and nowhere else.

use ir_core::registry::VerifyCx;
use ir_core::{Module, Op, Signature, Symbol, Type, ValueId};
use te::checks::CHECKS;
use te::compute::counts;
use te::loops::{buffer_types, output_count};

use crate::{is_fixed, is_open, opened};

/// Computes tensors by a kernel that takes [counts]: extents of its inputs. It
/// borrows.
///
/// The kernel takes the counts, then its inputs, each of the most extents that it may have. It gives
/// its results, and then for each of these that is open here a vector of its extents. It fails where an
/// extent is less than the least, or more than the bound, and where extents that are one count differ.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.bounded", effects(DIVERGE), results(tensors..), verify = verify)]
pub struct Bounded<V = ValueId> {
    /// The kernel.
    pub kernel: Symbol,
    /// What each count is called, for messages.
    pub names: Vec<String>,
    /// The least that each count may be.
    pub least: Vec<i64>,
    /// For each axis of each input that is open, one input after the other: the number of the count
    /// that its extent is, or -1 where it is that of the kernel. Each count is one of them.
    pub axes: Vec<i64>,
    /// Its inputs, without the counts.
    pub inputs: Vec<V>,
}

/// The kernel of a [`Bounded`].
#[derive(Clone, Debug)]
pub struct Shapes {
    /// The most that each count may be.
    pub bounds: Vec<i64>,
    /// The types of what it takes behind the counts.
    pub inputs: Vec<Type>,
    /// The types of what it gives, before extents and checks.
    pub results: Vec<Type>,
    /// How many vectors of extents it gives.
    pub extents: usize,
    /// For each input, the counts of its axes; empty where it is not open.
    pub axes: Vec<Vec<Option<usize>>>,
}

impl Shapes {
    /// Those of `op`, whose kernel has `signature`, with inputs and results of these types. `None` where
    /// they do not go together.
    fn of<V>(
        op: &Bounded<V>,
        signature: &Signature,
        inputs: &[Type],
        results: &[Type],
    ) -> Option<Shapes> {
        let bounds = counts::bounds(signature);
        let mut types = buffer_types(signature)?;
        let checks = usize::from(signature.attrs.get(CHECKS).is_some());
        let mut given = types.split_off(types.len().checked_sub(output_count(signature)?)?);
        given.truncate(given.len().checked_sub(checks)?);
        let extents = results.iter().filter(|ty| is_open(**ty)).count();
        given.truncate(given.len().checked_sub(extents)?);
        let taken = types.split_off(bounds.len().min(types.len()));
        let fits = |own: &Type, ty: &Type| own == ty || is_fixed(*own) && opened(*own) == *ty;
        let pairs = || taken.iter().zip(inputs).chain(given.iter().zip(results));
        let counted = bounds.len() == op.names.len() && bounds.len() == op.least.len();
        if taken.len() != inputs.len()
            || given.len() != results.len()
            || !counted
            || !pairs().all(|(own, ty)| fits(own, ty))
        {
            return None;
        }
        let mut rest = op.axes.as_slice();
        let mut axes = Vec::new();
        for (own, ty) in taken.iter().zip(inputs) {
            let rank = if is_open(*ty) { ty.as_tensor()?.rank() } else { 0 };
            let (first, others) = rest.split_at_checked(rank)?;
            rest = others;
            let shape = own.as_tensor()?.known_shape()?;
            let count = |(count, extent): (&i64, &i64)| match usize::try_from(*count) {
                Ok(count) => (bounds.get(count) == Some(extent)).then_some(Some(count)),
                Err(_) => Some(None),
            };
            axes.push(first.iter().zip(&shape).map(count).collect::<Option<Vec<_>>>()?);
        }
        let is_known = |count: usize| axes.iter().flatten().any(|one| *one == Some(count));
        let whole = rest.is_empty() && (0..bounds.len()).all(is_known);
        whole.then_some(Shapes { bounds, inputs: taken, results: given, extents, axes })
    }

    /// Those of `op` in `module`.
    pub fn in_module<V>(
        op: &Bounded<V>,
        module: &Module,
        inputs: &[Type],
        results: &[Type],
    ) -> Option<Shapes> {
        Shapes::of(op, &module.get(op.kernel)?.signature, inputs, results)
    }
}

impl<V> Bounded<V> {
    /// What is said where it fails before its kernel runs: of inputs that do not fit, and then of each
    /// count.
    pub fn failures(&self, module: &Module) -> Vec<String> {
        let bounds = module.get(self.kernel).map(|item| counts::bounds(&item.signature));
        let mut messages = vec!["the extents of inputs do not fit together".to_string()];
        let bounds = bounds.unwrap_or_default();
        for ((name, least), bound) in self.names.iter().zip(&self.least).zip(bounds) {
            messages.push(format!("the extent `{name}` is not from {least} to {bound}"));
        }
        messages
    }
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Bounded>(cx.op) else { return Ok(()) };
    let inputs: Vec<Type> = op.inputs.iter().map(|input| cx.body.ty(*input)).collect();
    let results: Vec<Type> = cx.body.results(cx.op).map(|result| cx.body.ty(result)).collect();
    let signature = cx.signatures.get(&op.kernel);
    let shapes = signature.and_then(|kernel| Shapes::of(&op, kernel, &inputs, &results));
    match shapes {
        Some(_) => Ok(()),
        None => Err(format!(
            "expected `@{}` to be a kernel that takes counts, each an extent of an input, and to take and \
             give tensors of these types",
            op.kernel
        )),
    }
}
