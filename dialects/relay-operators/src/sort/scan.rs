//! Tensor expressions of scans.

use ir_core::{DType, Scalar, ValueId};
use relay::define::{DefineCx, Defined, Index};
use te::compute::{Combiner, Expression, Tensor};

use crate::elements::Shape;
use crate::relation;

/// Elements that are combined one by one.
const BLOCK: i64 = 32;

/// A scan along one axis.
struct Scan {
    combiner: Combiner,
    /// What combining starts from.
    neutral: i64,
    axis: usize,
    /// Shape of the result.
    shape: Shape,
    /// The operand, and whether it is scanned as a vector of all elements.
    data: Tensor,
    flat: bool,
    /// Element type of the combinations.
    sums: DType,
}

/// For every element, the combination of all before it, and of itself unless `exclusive`. A scan
/// would do with a step per element, but stages have no order: blocks of elements are combined,
/// blocks of those, and so on; then every element takes what is before its block, and what is
/// before it in the block. So each costs some [`BLOCK`] steps, whatever the extent is.
///
/// Floats are combined as `float64`, as the evaluator does: in `float32`, the combination of a block
/// could be infinite where none from the start is.
pub(super) fn define_scan(
    cx: &mut DefineCx<'_>,
    axis: Option<i64>,
    exclusive: bool,
    combiner: Combiner,
    neutral: i64,
) -> Defined {
    let (data, (shape, dtype)) = (cx.tensor(0)?, cx.result()?);
    let flat = axis.is_none();
    let axis = axis.map(|axis| relation::axis(axis, data.shape.len())).transpose()?;
    // Integers are converted before they are combined, floats as they are combined.
    let sums = if dtype.is_float() { DType::FLOAT64 } else { dtype };
    let axis = axis.unwrap_or(0);
    let scan = Scan { combiner, neutral, axis, shape, data, flat, sums };
    let mut levels = vec![];
    let mut extent = scan.shape[axis];
    while extent > 2 * BLOCK {
        let blocks = scan.blocks(cx, levels.last(), extent);
        extent = blocks.shape[axis];
        levels.push(blocks);
    }
    let mut before: Option<Tensor> = None;
    while let Some(level) = levels.pop() {
        let within = scan.within(cx, Some(&level), level.shape[axis], true);
        before = Some(scan.joined(cx, before.as_ref(), within)?);
    }
    let within = scan.within(cx, None, scan.shape[axis], exclusive);
    let whole = scan.joined(cx, before.as_ref(), within)?;
    if whole.dtype == dtype {
        return Ok(vec![whole]);
    }
    let name = cx.stage_of("cast");
    Ok(vec![cx.builder.compute(&name, &scan.shape, |e, i| {
        let value = e.load(&whole, i);
        e.cast(value, dtype)
    })])
}

impl Scan {
    fn shape_with(&self, extent: i64) -> Shape {
        let mut shape = self.shape.clone();
        shape[self.axis] = extent;
        shape
    }

    /// The combinations of blocks of the elements of `level`, or of the operand, of which there are
    /// `extent` along the axis.
    fn blocks(&self, cx: &mut DefineCx<'_>, level: Option<&Tensor>, extent: i64) -> Tensor {
        let shape = self.shape_with(extent / BLOCK + i64::from(extent % BLOCK != 0));
        let name = cx.stage_of("blocks");
        cx.builder.reduce(&name, &shape, &[BLOCK], self.combiner, |e, i, r| {
            let place = Index::new(i[self.axis], shape[self.axis]);
            let place = place.then(&Index::new(r[0], BLOCK)).value(e);
            let end = e.index(extent);
            let is_there = e.lt(place, end);
            self.element(e, level, i, place, is_there, extent % BLOCK == 0)
        })
    }

    /// For every element of `level`, or of the operand, the combination of those before it, and of
    /// itself unless `exclusive`, in its block where there are several.
    fn within(
        &self,
        cx: &mut DefineCx<'_>,
        level: Option<&Tensor>,
        extent: i64,
        exclusive: bool,
    ) -> Tensor {
        let shape = self.shape_with(extent);
        let is_whole = extent <= 2 * BLOCK;
        let count = if is_whole { extent } else { BLOCK };
        let name = if is_whole { cx.stage() } else { cx.stage_of("within") };
        cx.builder.reduce(&name, &shape, &[count], self.combiner, |e, i, r| {
            let here = i[self.axis];
            let mut place = r[0];
            if !is_whole {
                let length = e.index(BLOCK);
                let block = e.floor_div(here, length);
                let start = e.mul_index(block, BLOCK);
                place = e.add(start, place);
            }
            let before = if exclusive { e.lt(place, here) } else { e.le(place, here) };
            self.element(e, level, i, place, before, is_whole || extent % BLOCK == 0)
        })
    }

    /// `within`, combined with what is in `before` for each block.
    fn joined(
        &self,
        cx: &mut DefineCx<'_>,
        before: Option<&Tensor>,
        within: Tensor,
    ) -> Result<Tensor, String> {
        let Some(before) = before else { return Ok(within) };
        let op = self.combiner.scalar();
        let op = op.ok_or_else(|| format!("no scan combines by `{}`", self.combiner.name()))?;
        let name = cx.stage();
        Ok(cx.builder.compute(&name, &within.shape, |e, i| {
            let mut block = i.to_vec();
            let length = e.index(BLOCK);
            block[self.axis] = e.floor_div(i[self.axis], length);
            let operands = [e.load(before, &block), e.load(&within, i)];
            e.scalar(op, &operands)
        }))
    }

    /// The element at `place` of `level`, or of the operand, where `condition` holds; what combining
    /// starts from elsewhere. `exists` says that there is an element in any case.
    fn element(
        &self,
        e: &mut Expression<'_>,
        level: Option<&Tensor>,
        i: &[ValueId],
        place: ValueId,
        condition: ValueId,
        exists: bool,
    ) -> ValueId {
        let tensor = level.unwrap_or(&self.data);
        let at = match level.is_none() && self.flat {
            true => Index::new(place, self.shape[0]).split(e, &tensor.shape),
            false => {
                let mut at = i.to_vec();
                at[self.axis] = place;
                at
            }
        };
        let neutral = e.constant(tensor.dtype, Scalar::Int(self.neutral));
        let x = match exists {
            true => {
                let x = e.load(tensor, &at);
                e.select(condition, x, neutral)
            }
            false => e.load_if(condition, tensor, &at, neutral),
        };
        e.cast(x, self.sums)
    }
}
