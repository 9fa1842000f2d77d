//! Layouts and `layout_transform`.

use std::fmt;

use ir_core::registry::{FoldCx, Folded};
use ir_core::{Dim, DimOp, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Index, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use smallvec::SmallVec;
use te::compute::Expression;

use super::FusionPattern;

/// The largest block of a layout.
const MAX_BLOCK: i64 = 1 << 20;

/// Why a layout has the axes that its indices are asked for.
const COMPLETE: &str = "the type relation checked the axes of the layout";

/// How the logical axes of a tensor lie in memory, written as in `NCHW`, `NCHW16c`, `OIHW4i8o`.
///
/// An upper-case letter is an axis; a lower-case letter with a number is a block of the axis of
/// the same letter. The index along a logical axis is the mixed-radix number whose most
/// significant digit is the upper-case axis, followed by the blocks from left to right.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    axes: SmallVec<[LayoutAxis; 6]>,
}

/// One axis of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayoutAxis {
    /// The logical axis, an upper-case letter.
    pub name: char,
    /// The extent, where this is a block of the logical axis.
    pub block: Option<i64>,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for axis in &self.axes {
            match axis.block {
                None => write!(f, "{}", axis.name)?,
                Some(block) => write!(f, "{block}{}", axis.name.to_ascii_lowercase())?,
            }
        }
        Ok(())
    }
}

impl Layout {
    /// Reads a layout. Errors when an axis occurs twice, a block has no extent or no axis, or a
    /// character is neither letter nor digit.
    pub fn parse(text: &str) -> Result<Layout, String> {
        let wrong =
            |what: &str| format!("expected a layout such as NCHW16c, found `{text}`: {what}");
        let mut axes: SmallVec<[LayoutAxis; 6]> = SmallVec::new();
        let mut block: Option<i64> = None;
        for c in text.chars() {
            if let Some(digit) = c.to_digit(10) {
                let value = block.unwrap_or(0) * 10 + i64::from(digit);
                if value > MAX_BLOCK {
                    return Err(wrong("a block is too large"));
                }
                block = Some(value);
                continue;
            }
            let name = c.to_ascii_uppercase();
            match block.take() {
                None if c.is_ascii_uppercase() => {
                    if axes.iter().any(|axis| axis.name == name && axis.block.is_none()) {
                        return Err(wrong(&format!("axis {name} occurs twice")));
                    }
                    axes.push(LayoutAxis { name, block: None });
                }
                Some(extent) if c.is_ascii_lowercase() && extent > 0 => {
                    axes.push(LayoutAxis { name, block: Some(extent) });
                }
                _ if c.is_ascii_lowercase() => return Err(wrong("a block needs an extent")),
                _ => return Err(wrong("axes are letters, upper-case ones without a number")),
            }
        }
        if block.is_some() {
            return Err(wrong("it ends with a number"));
        }
        let layout = Layout { axes };
        match layout.axes.iter().find(|axis| layout.position(axis.name).is_none()) {
            Some(axis) => Err(wrong(&format!("there is no axis {}", axis.name))),
            None => Ok(layout),
        }
    }

    /// The layout without blocks whose axes are the upper-case letters of `names`, the first of
    /// each.
    pub fn plain(names: &str) -> Layout {
        let mut axes: SmallVec<[LayoutAxis; 6]> = SmallVec::new();
        for name in names.chars().filter(char::is_ascii_uppercase) {
            if axes.iter().all(|axis| axis.name != name) {
                axes.push(LayoutAxis { name, block: None });
            }
        }
        Layout { axes }
    }

    /// This layout with a further block of `extent` of axis `name`, innermost.
    pub fn with_block(&self, name: char, extent: i64) -> Layout {
        let block = LayoutAxis { name, block: Some(extent) };
        Layout { axes: self.axes.iter().copied().chain([block]).collect() }
    }

    /// This layout with groups of `count` in the place of the elements along `name`, and where these lie: the
    /// last block of the axis, or the axis itself. `None` where a block has no whole number of groups.
    pub fn with_groups(&self, name: char, count: i64) -> Option<(Layout, usize)> {
        let mut layout = self.clone();
        let place = layout.axes.iter().rposition(|axis| axis.name == name && axis.block.is_some());
        let place = place.or_else(|| self.position(name))?;
        match &mut layout.axes[place].block {
            Some(block) if *block % count != 0 => return None,
            Some(block) => *block /= count,
            None => {}
        }
        Some((layout, place))
    }

    /// This layout without the axes, and their blocks, that `keep` does not choose by name.
    pub fn keep(&self, keep: impl Fn(char) -> bool) -> Layout {
        Layout { axes: self.axes.iter().copied().filter(|axis| keep(axis.name)).collect() }
    }

    /// Whether both are orders, blocks aside, of the same axes.
    pub fn same_axes(&self, other: &Layout) -> bool {
        let covers = |a: &Layout, b: &Layout| b.axes.iter().all(|x| a.position(x.name).is_some());
        covers(self, other) && covers(other, self)
    }

    /// The axes from left to right.
    pub fn axes(&self) -> &[LayoutAxis] {
        &self.axes
    }

    /// Number of axes, blocks included.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Whether no axis is blocked.
    pub fn is_plain(&self) -> bool {
        self.axes.iter().all(|axis| axis.block.is_none())
    }

    /// The names of the logical axes from left to right.
    pub fn names(&self) -> String {
        self.axes.iter().filter(|axis| axis.block.is_none()).map(|axis| axis.name).collect()
    }

    /// Where the logical axis `name` lies, its blocks aside.
    pub fn position(&self, name: char) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name && axis.block.is_none())
    }

    /// The product of the blocks of `name`, 1 without any.
    pub fn block(&self, name: char) -> i64 {
        let blocks = self.axes.iter().filter(|axis| axis.name == name);
        blocks.filter_map(|axis| axis.block).fold(1i64, i64::saturating_mul)
    }

    /// For each letter of `order`, the positions of its axis and blocks, most significant first.
    /// Errors when this layout has other logical axes than `order`.
    fn digits(&self, order: &str) -> Result<Vec<SmallVec<[usize; 2]>>, String> {
        let groups: Vec<SmallVec<[usize; 2]>> = order
            .chars()
            .map(|name| {
                let blocks = self.axes.iter().enumerate();
                let blocks = blocks.filter(|(_, axis)| axis.name == name && axis.block.is_some());
                self.position(name).into_iter().chain(blocks.map(|(i, _)| i)).collect()
            })
            .collect();
        let complete = groups.iter().all(|group| !group.is_empty());
        if complete && groups.iter().map(SmallVec::len).sum::<usize>() == self.rank() {
            Ok(groups)
        } else {
            Err(format!("expected a layout of the axes {order}, found {self}"))
        }
    }

    /// The extents of the logical axes in `order` of a tensor of `shape` in this layout. Errors
    /// when the shape does not fit the layout, or the layout has other axes than `order`.
    pub fn logical(&self, order: &str, shape: &[Dim]) -> Result<Vec<Dim>, String> {
        let groups = self.digits(order)?;
        if shape.len() != self.rank() {
            return Err(format!(
                "expected a tensor of rank {} for layout {self}, found rank {}",
                self.rank(),
                shape.len()
            ));
        }
        for (axis, dim) in self.axes.iter().zip(shape) {
            if let (Some(block), Dim::Known(extent)) = (axis.block, dim)
                && block != *extent
            {
                return Err(format!(
                    "expected extent {block} on axis {block}{} of layout {self}, found {extent}",
                    axis.name.to_ascii_lowercase()
                ));
            }
        }
        let extent = |group: &SmallVec<[usize; 2]>| {
            group.iter().fold(Dim::Known(1), |product, &axis| {
                let dim = self.axes[axis].block.map_or(shape[axis], Dim::Known);
                Dim::binary(DimOp::Mul, product, dim)
            })
        };
        Ok(groups.iter().map(extent).collect())
    }

    /// As [`Layout::logical`], for a shape whose extents are all known.
    pub fn logical_extents(&self, order: &str, shape: &[i64]) -> Result<Vec<i64>, String> {
        let dims: Vec<Dim> = shape.iter().copied().map(Dim::Known).collect();
        known(&self.logical(order, &dims)?)
    }

    /// The shape in this layout of a tensor with `extents` along the logical axes in `order`.
    /// Errors when a block does not divide its axis, or the layout has other axes than `order`.
    pub fn physical(&self, order: &str, extents: &[Dim]) -> Result<Vec<Dim>, String> {
        self.digits(order)?;
        let dim = |axis: &LayoutAxis| {
            if let Some(block) = axis.block {
                return Ok(Dim::Known(block));
            }
            let index = order.chars().position(|name| name == axis.name);
            let extent = extents[index.expect(COMPLETE)];
            let block = self.block(axis.name);
            match extent {
                Dim::Known(extent) if extent % block != 0 => Err(format!(
                    "expected a multiple of {block} along axis {} for layout {self}, found {extent}",
                    axis.name
                )),
                _ => Ok(Dim::binary(DimOp::FloorDiv, extent, Dim::Known(block))),
            }
        };
        self.axes.iter().map(dim).collect()
    }

    /// The logical indices, in `order`, of the element at indices `i` of a tensor of `shape` in
    /// this layout.
    pub(crate) fn logical_indices(&self, order: &str, shape: &[i64], i: &[ValueId]) -> Vec<Index> {
        let groups = self.digits(order).expect(COMPLETE);
        let index = |group: &SmallVec<[usize; 2]>| {
            group.iter().fold(Index::default(), |index, &axis| {
                index.then(&Index::new(i[axis], shape[axis]))
            })
        };
        groups.iter().map(index).collect()
    }

    /// The indices in a tensor in this layout of the element at `logical` indices in `order`.
    pub(crate) fn physical_indices(
        &self,
        e: &mut Expression<'_>,
        order: &str,
        logical: &[Index],
    ) -> Vec<ValueId> {
        let groups = self.digits(order).expect(COMPLETE);
        let mut indices = vec![None; self.rank()];
        for (group, index) in groups.iter().zip(logical) {
            let mut divisor = 1i64;
            for &axis in group.iter().rev() {
                let extent = self.axes[axis].block.unwrap_or(index.extent() / divisor.max(1));
                indices[axis] = Some(index.digit(e, divisor, extent));
                divisor = divisor.saturating_mul(extent);
            }
        }
        let index = |index: Option<ValueId>| index.expect(COMPLETE);
        indices.into_iter().map(index).collect()
    }

    /// Reorders `data` of `shape` in this layout to row-major order of the logical axes in
    /// `order`; the result comes with their extents.
    pub fn unpack<T: Copy>(
        &self,
        order: &str,
        shape: &[i64],
        data: Vec<T>,
    ) -> Result<(Vec<i64>, Vec<T>), String> {
        let extents = self.logical_extents(order, shape)?;
        let permutation: Vec<usize> = self.digits(order)?.into_iter().flatten().collect();
        Ok((extents, transpose(shape, data, &permutation)))
    }

    /// Reorders `data`, in row-major order of the logical axes in `order`, to this layout; the
    /// result comes with its shape.
    pub fn pack<T: Copy>(
        &self,
        order: &str,
        extents: &[i64],
        data: Vec<T>,
    ) -> Result<(Vec<i64>, Vec<T>), String> {
        let dims: Vec<Dim> = extents.iter().copied().map(Dim::Known).collect();
        let shape = known(&self.physical(order, &dims)?)?;
        let permutation: Vec<usize> = self.digits(order)?.into_iter().flatten().collect();
        let digits: Vec<i64> = permutation.iter().map(|&axis| shape[axis]).collect();
        let mut inverse = vec![0; permutation.len()];
        for (from, &to) in permutation.iter().enumerate() {
            inverse[to] = from;
        }
        Ok((shape, transpose(&digits, data, &inverse)))
    }
}

fn known(dims: &[Dim]) -> Result<Vec<i64>, String> {
    let extents: Option<Vec<i64>> = dims.iter().map(|dim| dim.known()).collect();
    extents.ok_or_else(|| "the extents overflow".to_string())
}

/// The row-major elements of `data` of `shape` with its axes in the order of `permutation`; `data`
/// itself where that is theirs.
pub(super) fn transpose<T: Copy>(shape: &[i64], data: Vec<T>, permutation: &[usize]) -> Vec<T> {
    if permutation.iter().enumerate().all(|(i, &axis)| i == axis) {
        return data;
    }
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as usize;
    }
    let extents: Vec<usize> = permutation.iter().map(|&axis| shape[axis] as usize).collect();
    let steps: Vec<usize> = permutation.iter().map(|&axis| strides[axis]).collect();
    let mut out = Vec::with_capacity(data.len());
    let (Some((&inner, outer)), Some((&step, outer_steps))) =
        (extents.split_last(), steps.split_last())
    else {
        return data;
    };
    let mut index = vec![0usize; outer.len()];
    let mut start = 0;
    while out.len() < data.len() {
        out.extend((0..inner).map(|i| data[start + i * step]));
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            start += outer_steps[axis];
            if index[axis] < outer[axis] {
                break;
            }
            start -= outer_steps[axis] * outer[axis];
            index[axis] = 0;
        }
    }
    out
}

/// Reorders a tensor from one layout to another: the element at each logical index stays.
///
/// `src_layout` and `dst_layout` name the same logical axes, such as `NCHW` and `NCHW16c`; blocks
/// of `dst_layout` must divide the extents. The result has the shape that `dst_layout` gives.
/// Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.layout_transform",
    infer = layout_transform_relation,
    fold = fold_layout_transform,
    hooks(
        FusionPattern::Injective,
        Evaluate(|cx| layout_transform(&cx.fields()?, cx)),
        Define(define_layout_transform)
    )
)]
pub struct LayoutTransform<V = ValueId> {
    /// The tensor, in `src_layout`.
    pub data: V,
    /// Layout of the operand.
    pub src_layout: String,
    /// Layout of the result.
    pub dst_layout: String,
}

fn layout_transform_relation(
    op: LayoutTransform<Type>,
    cx: &mut InferCx<'_>,
) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let source = Layout::parse(&op.src_layout)?;
    let target = Layout::parse(&op.dst_layout)?;
    let order = source.names();
    let extents = source.logical(&order, &data.shape)?;
    let shape = target.physical(&order, &extents)?;
    Ok(Type::tensor(shape, data.dtype))
}

fn fold_layout_transform(cx: &FoldCx<'_>) -> Option<Folded> {
    let op = cx.body.view::<LayoutTransform>(cx.op)?;
    (op.src_layout == op.dst_layout).then_some(Folded::Value(op.data))
}

fn layout_transform(op: &LayoutTransform<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<const SIZE: usize>(
        data: &TensorData,
        source: &Layout,
        target: &Layout,
    ) -> Result<Value, EvalError> {
        let order = source.names();
        let (elements, _) = data.bytes().as_chunks::<SIZE>();
        let (extents, logical) = source.unpack(&order, data.shape(), elements.to_vec())?;
        let (shape, elements) = target.pack(&order, &extents, logical)?;
        Ok(TensorData::from_bytes(data.dtype(), &shape, elements.into_flattened())?.into())
    }
    let data = cx.tensor(0)?;
    let (source, target) = (Layout::parse(&op.src_layout)?, Layout::parse(&op.dst_layout)?);
    match data.dtype().bytes() {
        1 => run::<1>(data, &source, &target),
        2 => run::<2>(data, &source, &target),
        4 => run::<4>(data, &source, &target),
        8 => run::<8>(data, &source, &target),
        size => Err(EvalError(format!("expected elements of 1 to 8 bytes, found {size} bytes"))),
    }
}

fn define_layout_transform(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<LayoutTransform<Operand>>()?;
    let (source, target) = (Layout::parse(&op.src_layout)?, Layout::parse(&op.dst_layout)?);
    let (shape, _) = cx.result()?;
    relay::define::moved(cx, |e, i| {
        let order = source.names();
        let logical = target.logical_indices(&order, &shape, i);
        source.physical_indices(e, &order, &logical)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<LayoutTransform>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_parse_and_print() {
        for text in ["NCHW", "NCHW16c", "OIHW4i8o", "OIHW4i16o4i", "NHWC", ""] {
            assert_eq!(Layout::parse(text).map(|l| l.to_string()), Ok(text.to_string()));
        }
        for bad in ["NN", "N16c", "NCc", "NC16", "N C", "NC4C", "NC0c", "NC99999999999999999999c"] {
            assert!(Layout::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pack_and_unpack_are_inverse() {
        let data: Vec<i64> = (0..2 * 8 * 3).collect();
        for text in ["OI2i4oW", "IWO", "OIW4o2o", "2oWO1iI"] {
            let layout = Layout::parse(text).unwrap();
            let (shape, packed) = layout.pack("OIW", &[8, 2, 3], data.clone()).unwrap();
            let (extents, unpacked) = layout.unpack("OIW", &shape, packed).unwrap();
            assert_eq!((extents, &unpacked), (vec![8, 2, 3], &data), "{text}");
        }
    }

    #[test]
    fn blocks_are_the_low_digits() {
        let layout = Layout::parse("NCW2c").unwrap();
        let (shape, packed) = layout.pack("NCW", &[1, 4, 2], (0..8).collect()).unwrap();
        assert_eq!(shape, [1, 2, 2, 2]);
        assert_eq!(packed, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
