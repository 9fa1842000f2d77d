//! Kernels for blocks of rows: how tensors of any number of rows are computed by kernels of
//! constant extents.
//!
//! A row of a tensor is what lies at one index of its first axis. Where what is computed of a row
//! depends on that row alone, kernels for a few numbers of rows compute any number of them.

use ir_core::registry::VerifyCx;
use ir_core::{Module, Op, Signature, Symbol, Type, ValueId};
use te::checks::CHECKS;
use te::loops::{buffer_types, output_count};

use crate::{is_counted, is_fixed, is_open, opened};

/// Computes rows of tensors by kernels that differ in the number of rows that they compute, the
/// most rows first. It borrows.
///
/// Inputs whose extents are a part of the value have as many rows as one another, and the other
/// extents that the kernels expect; it fails where they do not. All other inputs go to the kernels
/// as they are. Every result has as many rows. **A kernel computes each row of its results from the
/// rows of its inputs at the same index**: so the last kernel gets rows twice where too few are
/// left.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.rows", effects(DIVERGE), results(tensors..), verify = verify)]
pub struct Rows<V = ValueId> {
    /// The kernels, each for fewer rows than the one before.
    pub kernels: Vec<Symbol>,
    /// Their inputs.
    pub inputs: Vec<V>,
}

/// A kernel for a block of rows.
#[derive(Clone, Debug)]
pub struct Block {
    /// The kernel.
    pub kernel: Symbol,
    /// How many rows it computes.
    pub rows: i64,
    /// The types of what it takes.
    pub inputs: Vec<Type>,
    /// The types of what it gives, without its checks.
    pub results: Vec<Type>,
}

/// The number of rows of tensors of type `ty`; `None` of scalars and where it is not known.
fn rows_of(ty: Type) -> Option<i64> {
    ty.as_tensor()?.known_shape()?.first().copied()
}

impl Block {
    /// The kernel `name` for rows of the inputs that are open, of which there are some.
    fn of(name: Symbol, signature: &Signature, inputs: &[Type]) -> Option<Block> {
        let mut types = buffer_types(signature)?;
        let checks = usize::from(signature.attrs.get(CHECKS).is_some());
        let mut results = types.split_off(types.len().checked_sub(output_count(signature)?)?);
        results.truncate(results.len().checked_sub(checks)?);
        let first = inputs.iter().position(|ty| is_open(*ty))?;
        let rows = rows_of(*types.get(first)?)?;
        Some(Block { kernel: name, rows, inputs: types, results })
    }

    /// Whether it has rows in the place of what is open in `inputs` and `results`, and equal types
    /// elsewhere.
    fn fits(&self, inputs: &[Type], results: &[Type]) -> bool {
        let has_rows = |ty: Type| is_fixed(ty) && is_counted(ty) && rows_of(ty) == Some(self.rows);
        let fits = |own: Type, ty: Type| match is_open(ty) {
            true => has_rows(own) && opened(own) == ty,
            false => own == ty,
        };
        let all_open = results.iter().all(|ty| is_open(*ty));
        let equal_counts = self.inputs.len() == inputs.len() && self.results.len() == results.len();
        let mut pairs = self.inputs.iter().zip(inputs).chain(self.results.iter().zip(results));
        self.rows > 0 && all_open && equal_counts && pairs.all(|(own, ty)| fits(*own, *ty))
    }
}

/// The blocks of `rows`, whose inputs are of types `inputs`, in `module`; `None` where a kernel is
/// missing.
pub fn blocks<V>(module: &Module, rows: &Rows<V>, inputs: &[Type]) -> Option<Vec<Block>> {
    let block = |name: &Symbol| Block::of(*name, &module.get(*name)?.signature, inputs);
    rows.kernels.iter().map(block).collect()
}

/// Which of the blocks of `sizes` rows, the most first, computes the next rows where `left` are
/// left, and how many these are: so that together they compute `left` rows, rounded up to a
/// multiple of the last size.
///
/// # Panics
/// Where there is no size, or a size is 0.
pub fn next(sizes: &[i64], left: i64) -> (usize, i64) {
    let last = sizes.len() - 1;
    let rounded = (left - 1) / sizes[last] * sizes[last] + sizes[last];
    let fits = |size: &i64| left >= *size || rounded == *size;
    let index = sizes.iter().position(fits).unwrap_or(last);
    (index, left.min(sizes[index]))
}

fn verify(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Rows>(cx.op) else { return Ok(()) };
    let inputs: Vec<Type> = op.inputs.iter().map(|input| cx.body.ty(*input)).collect();
    let results: Vec<Type> = cx.body.results(cx.op).map(|result| cx.body.ty(result)).collect();
    if op.kernels.is_empty() || !inputs.iter().any(|ty| is_open(*ty)) {
        return Err("expected kernels, and an input of any number of rows".to_string());
    }
    let mut before = i64::MAX;
    for name in &op.kernels {
        let signature = cx.signatures.get(name);
        let block = signature.and_then(|signature| Block::of(*name, signature, &inputs));
        let block =
            block.ok_or_else(|| format!("no compute function or kernel `@{name}` of rows"))?;
        if !block.fits(&inputs, &results) {
            return Err(format!(
                "expected `@{name}` to take and give {} rows of what has any number of them, and the same \
                 types elsewhere",
                block.rows
            ));
        }
        if block.rows >= before {
            return Err(format!("expected `@{name}` to take fewer rows than the one before"));
        }
        before = block.rows;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is computed is never more than the rows, rounded up to a multiple of the last size.
    #[test]
    fn blocks_compute_little_more_than_there_is() {
        for sizes in [&[16, 8, 4][..], &[16, 4], &[3], &[1]] {
            let last = sizes[sizes.len() - 1];
            for rows in 0..70 {
                let (mut left, mut computed) = (rows, 0);
                while left > 0 {
                    let (index, taken) = next(sizes, left);
                    assert!(0 < taken && taken <= left.min(sizes[index]));
                    left -= taken;
                    computed += sizes[index];
                }
                assert_eq!(computed, (rows + last - 1) / last * last, "{rows} of {sizes:?}");
            }
        }
    }
}
