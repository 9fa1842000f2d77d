//! Operators that read the same data, merged into one.
//!
//! The rules tagged `combine-parallel` merge such operators too, but cannot stand for these passes:
//!
//! - the least number of operators is an option, and the text of a rule has no parameters;
//! - what follows the operators in step is merged whichever elementwise operator it is, where a
//!   pattern names its operators;
//! - it is merged only where it follows all of them, where the family of a rule is any members that
//!   fit;
//! - what computes a weight after the first operator is moved before it, and a rule moves nothing: it
//!   applies where one place is behind all operands and before all users.

use ir_core::{
    AttrDict, Diagnostics, Dim, Effects, FuncMut, FunctionPass, OpId, Pass, PassContext,
    PassResult, Symbol, TensorType, ValueId,
};
use relay_operators::FusionPattern;
use relay_operators::attributes::{Integers, Sections};
use relay_operators::index::slice::{SliceMode, StridedSlice};
use relay_operators::join::{Concatenate, Split, Stack};
use relay_operators::layout::Layout;
use relay_operators::nn::convolution::Conv2d;
use relay_operators::nn::linear::{BatchMatmul, Dense};
use relay_operators::shape::{ExpandDims, Squeeze};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::emit::{self, Emit, attribute, with_attribute};

/// Merges two-dimensional convolutions of the same data.
///
/// Convolutions with equal geometry and without groups become one with the kernels side by side;
/// equal elementwise operators that follow all of them are merged as well. Slices take the results
/// apart. One large convolution uses a device better than several small ones.
///
/// By default three convolutions at least are merged, as in the original. With
/// `min-num-branches=2` pairs are merged as well: Inception v3 then has 75 convolutions of 94, not
/// 76.
///
/// ```relay
/// def @main(%x: Tensor[(1, 4, 8, 8), float32], %w1: Tensor[(2, 4, 1, 1), float32],
///           %w2: Tensor[(3, 4, 1, 1), float32]) {
///   %0 = nn.conv2d(%x, %w1, channels=2, kernel_size=[1, 1]);
///   %1 = nn.conv2d(%x, %w2, channels=3, kernel_size=[1, 1]);
///   (%0, %1)
/// }
/// ```
/// becomes, with `min-num-branches=2`,
/// ```relay
/// def @main(%x: Tensor[(1, 4, 8, 8), float32], %w1: Tensor[(2, 4, 1, 1), float32],
///     %w2: Tensor[(3, 4, 1, 1), float32])
///     -> (Tensor[(1, 2, 8, 8), float32], Tensor[(1, 3, 8, 8), float32]) {
///   %0 = (%w1, %w2);
///   %1 = concatenate(%0);
///   %2 = nn.conv2d(%x, %1, channels=5, kernel_size=[1, 1]);
///   %3 = strided_slice(%2, begin=[0, 0], end=[-1, 2], strides=[1, 1], slice_mode="size");
///   %4 = strided_slice(%2, begin=[0, 2], end=[-1, 3], strides=[1, 1], slice_mode="size");
///   (%3, %4)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "combine-parallel-conv2d", function)]
pub struct CombineParallelConv2d {
    /// The least number of operators that are merged.
    #[default(3)]
    pub min_num_branches: usize,
}

/// Merges `nn.dense` operators of the same data.
///
/// The weights come side by side in one wider layer, and slices take the result apart; with
/// `to-batch`, layers of equal shapes become one `nn.batch_matmul` instead. Equal elementwise
/// operators that follow all of them are merged as well.
///
/// ```relay
/// def @main(%x: Tensor[(2, 4), float32], %w1: Tensor[(3, 4), float32],
///           %w2: Tensor[(5, 4), float32]) {
///   %0 = nn.dense(%x, %w1, units=3);
///   %1 = nn.dense(%x, %w2, units=5);
///   (%0, %1)
/// }
/// ```
/// becomes, with `min-num-branches=2`,
/// ```relay
/// def @main(%x: Tensor[(2, 4), float32], %w1: Tensor[(3, 4), float32],
///     %w2: Tensor[(5, 4), float32]) -> (Tensor[(2, 3), float32], Tensor[(2, 5), float32]) {
///   %0 = (%w1, %w2);
///   %1 = concatenate(%0);
///   %2 = nn.dense(%x, %1, units=8);
///   %3 = strided_slice(%2, begin=[0, 0], end=[-1, 3], strides=[1, 1], slice_mode="size");
///   %4 = strided_slice(%2, begin=[0, 3], end=[-1, 5], strides=[1, 1], slice_mode="size");
///   (%3, %4)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "combine-parallel-dense", function)]
pub struct CombineParallelDense {
    /// The least number of operators that are merged.
    #[default(3)]
    pub min_num_branches: usize,
    /// Makes a batch of layers of equal shapes, not one wide layer.
    #[default(false)]
    pub to_batch: bool,
}

/// Merges `nn.batch_matmul` operators with the same left factor.
///
/// The right factors come side by side, and slices take the product apart. Equal elementwise
/// operators that follow all of them are merged as well.
///
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4), float32], %a: Tensor[(1, 3, 4), float32],
///           %b: Tensor[(1, 5, 4), float32]) {
///   %0 = nn.batch_matmul(%x, %a, transpose_b=True);
///   %1 = nn.batch_matmul(%x, %b, transpose_b=True);
///   (%0, %1)
/// }
/// ```
/// becomes, with `min-num-branches=2`,
/// ```relay
/// def @main(%x: Tensor[(1, 2, 4), float32], %a: Tensor[(1, 3, 4), float32],
///     %b: Tensor[(1, 5, 4), float32])
///     -> (Tensor[(1, 2, 3), float32], Tensor[(1, 2, 5), float32]) {
///   %0 = (%a, %b);
///   %1 = concatenate(%0, axis=1);
///   %2 = nn.batch_matmul(%x, %1, transpose_b=True);
///   %3 = strided_slice(%2, begin=[0, 0, 0], end=[-1, -1, 3], strides=[1, 1, 1], slice_mode="size");
///   %4 = strided_slice(%2, begin=[0, 0, 3], end=[-1, -1, 5], strides=[1, 1, 1], slice_mode="size");
///   (%3, %4)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "combine-parallel-batch-matmul", function)]
pub struct CombineParallelBatchMatmul {
    /// The least number of operators that are merged.
    #[default(3)]
    pub min_num_branches: usize,
}

impl FunctionPass for CombineParallelConv2d {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        combine(
            f,
            cx,
            &Combiner {
                pass: "combine-parallel-conv2d",
                operator: Conv2d::NAME,
                least: self.min_num_branches,
                merge: conv2d,
            },
        )
    }
}

impl FunctionPass for CombineParallelDense {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        combine(
            f,
            cx,
            &Combiner {
                pass: "combine-parallel-dense",
                operator: Dense::NAME,
                least: self.min_num_branches,
                merge: if self.to_batch { dense_batch } else { dense },
            },
        )
    }
}

impl FunctionPass for CombineParallelBatchMatmul {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        combine(
            f,
            cx,
            &Combiner {
                pass: "combine-parallel-batch-matmul",
                operator: BatchMatmul::NAME,
                least: self.min_num_branches,
                merge: batch_matmul,
            },
        )
    }
}

/// What is merged, and how.
struct Combiner {
    pass: &'static str,
    operator: &'static str,
    least: usize,
    /// How an operator can be merged; `None` where it cannot.
    merge: fn(&FuncMut<'_>, OpId) -> Option<Merge>,
}

/// How results come together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Joint {
    /// Side by side along this axis of the result, by weights side by side along another axis.
    SideBySide { result: usize, weight: usize },
    /// Along a new first axis.
    Stacked,
}

/// How an operator can be merged with others of an equal `Merge`.
#[derive(PartialEq, Eq, Hash)]
struct Merge {
    joint: Joint,
    /// The attributes that must be equal.
    attrs: AttrDict,
    /// The weight's element type and extents, without the axis along which weights come together.
    weight: TensorType,
}

/// A tensor type without axis `removed`; `None` where an extent is not known or another axis is
/// missing.
fn without_axis(tensor: &TensorType, removed: Option<usize>) -> Option<TensorType> {
    let kept = tensor.shape.iter().enumerate().filter(|(axis, _)| Some(*axis) != removed);
    let shape = kept.map(|(_, dim)| (*dim != Dim::Any).then_some(*dim)).collect::<Option<_>>()?;
    if let Some(removed) = removed {
        tensor.shape.get(removed)?.known()?;
    }
    Some(TensorType { shape, dtype: tensor.dtype })
}

fn conv2d(f: &FuncMut<'_>, op: OpId) -> Option<Merge> {
    if attribute::<i64>(f, op, "groups")? != 1 {
        return None;
    }
    let data: String = attribute(f, op, "data_layout")?;
    let out: String = attribute(f, op, "out_layout")?;
    let kernel: String = attribute(f, op, "kernel_layout")?;
    let out = Layout::parse(if out.is_empty() { &data } else { &out }).ok()?;
    let kernel = Layout::parse(&kernel).ok()?;
    if !out.is_plain() || !kernel.is_plain() {
        return None;
    }
    let joint = Joint::SideBySide { result: out.position('C')?, weight: kernel.position('O')? };
    merge(f, op, joint, "channels")
}

fn dense(f: &FuncMut<'_>, op: OpId) -> Option<Merge> {
    let rank = f.body.ty(f.body.result(op, 0)).as_tensor()?.rank();
    merge(f, op, Joint::SideBySide { result: rank.checked_sub(1)?, weight: 0 }, "units")
}

fn dense_batch(f: &FuncMut<'_>, op: OpId) -> Option<Merge> {
    let data = f.body.ty(f.body.operand(op, 0)).as_tensor()?;
    (data.rank() == 2).then(|| merge(f, op, Joint::Stacked, "units"))?
}

fn batch_matmul(f: &FuncMut<'_>, op: OpId) -> Option<Merge> {
    let weight = if attribute(f, op, "transpose_b")? { 1 } else { 2 };
    merge(f, op, Joint::SideBySide { result: 2, weight }, "")
}

/// `width` names the attribute that holds the extent of the joined axis.
fn merge(f: &FuncMut<'_>, op: OpId, joint: Joint, width: &str) -> Option<Merge> {
    let removed = match joint {
        Joint::SideBySide { weight, .. } => Some(weight),
        Joint::Stacked => None,
    };
    let weight = without_axis(f.body.ty(f.body.operand(op, 1)).as_tensor()?, removed)?;
    Some(Merge { joint, attrs: f.body.attrs(op).without(width), weight })
}

fn combine(f: &mut FuncMut<'_>, cx: &mut PassContext<'_>, combiner: &Combiner) -> PassResult {
    // Groups in the order of their first members, so that the output is deterministic.
    let mut groups: Vec<Vec<OpId>> = vec![];
    let mut group_of = FxHashMap::default();
    for op in f.body.walk() {
        if f.body.op_name(op) == combiner.operator
            && let Some(merge) = (combiner.merge)(f, op)
        {
            let key = (f.body.op_block(op), f.body.operand(op, 0), merge);
            let index = *group_of.entry(key).or_insert_with(|| {
                groups.push(vec![]);
                groups.len() - 1
            });
            groups[index].push(op);
        }
    }
    for group in groups {
        if group.len() >= combiner.least.max(2)
            && let Some(merge) = (combiner.merge)(f, group[0])
            && combine_group(f, combiner, &merge, &group)?
        {
            cx.count("groups", 1);
        }
    }
    Ok(())
}

/// Merges `group`, operators in program order in one block. Whether it could: not where an operand
/// of one depends on the result of another.
fn combine_group(
    f: &mut FuncMut<'_>,
    combiner: &Combiner,
    merge: &Merge,
    group: &[OpId],
) -> Result<bool, Diagnostics> {
    let weights: Vec<ValueId> = group.iter().map(|op| f.body.operand(*op, 1)).collect();
    if let Joint::SideBySide { weight, .. } = merge.joint
        && total_extent(f, &weights, weight).is_none()
    {
        return Ok(false);
    }
    if !hoist(f, group[0], &weights) {
        return Ok(false);
    }
    let mut combined = combine_roots(f, combiner, merge, group, &weights)?;
    // The last merged operation of every branch.
    let mut tails: Vec<OpId> = group.to_vec();
    while let Some(next) = following(f, group[0], merge.joint, &tails) {
        let Some(parent) = f.body.operands(next[0]).position(|v| v == f.body.result(tails[0], 0))
        else {
            break;
        };
        combined = combine_following(f, combiner, merge.joint, group[0], combined, &next, parent)?;
        tails = next;
    }
    let extents = group.iter().map(|op| match merge.joint {
        Joint::SideBySide { result, .. } => extent(f, f.body.result(*op, 0), result),
        Joint::Stacked => Some(1),
    });
    let Some(extents) = extents.collect::<Option<Vec<i64>>>() else { return Ok(false) };
    let parts = take_apart(f, combiner, merge.joint, group[0], combined, &extents)?;
    for (tail, part) in tails.into_iter().zip(parts) {
        emit::replace(f, tail, part);
    }
    Ok(true)
}

/// The sum of the extents of `values` along `axis`; `None` where one is not known or the sum does
/// not exist.
fn total_extent(f: &FuncMut<'_>, values: &[ValueId], axis: usize) -> Option<i64> {
    values.iter().try_fold(0_i64, |total, value| total.checked_add(extent(f, *value, axis)?))
}

fn extent(f: &FuncMut<'_>, value: ValueId, axis: usize) -> Option<i64> {
    f.body.ty(value).as_tensor()?.shape.get(axis)?.known()
}

/// Moves what makes `values` before `anchor`, where it comes later in the same block. Whether it
/// could: not where it has effects or depends on `anchor`.
fn hoist(f: &mut FuncMut<'_>, anchor: OpId, values: &[ValueId]) -> bool {
    let block = f.body.op_block(anchor);
    let mut late: Vec<OpId> = vec![];
    let mut seen: FxHashSet<OpId> = FxHashSet::default();
    let mut pending: Vec<ValueId> = values.to_vec();
    while let Some(value) = pending.pop() {
        let Some(op) = f.body.defining_op(value) else { continue };
        if op == anchor {
            return false;
        }
        // What is defined outside this block is there before it.
        if f.body.op_block(op) != block || f.body.is_before(op, anchor) || !seen.insert(op) {
            continue;
        }
        if f.body.has_regions(op) || f.registry.effects(f.body, op) != Effects::empty() {
            return false;
        }
        late.push(op);
        pending.extend(f.body.operands(op));
    }
    late.sort_by(|a, b| match f.body.is_before(*a, *b) {
        true => std::cmp::Ordering::Less,
        false => std::cmp::Ordering::Greater,
    });
    for op in late {
        f.body.move_op(op, ir_core::InsertPoint::Before(anchor));
    }
    true
}

fn combine_roots(
    f: &mut FuncMut<'_>,
    combiner: &Combiner,
    merge: &Merge,
    group: &[OpId],
    weights: &[ValueId],
) -> Result<ValueId, Diagnostics> {
    let first = group[0];
    let (name, attrs) = (f.body.op_name(first), f.body.attrs(first));
    let data = f.body.operand(first, 0);
    match merge.joint {
        Joint::SideBySide { weight, .. } => {
            let total = total_extent(f, weights, weight);
            let width = match combiner.operator {
                Conv2d::NAME => Some("channels"),
                Dense::NAME => Some("units"),
                _ => None,
            };
            let attrs = match width {
                Some(key) => with_attribute(f.registry, name, attrs, key, &total),
                None => attrs,
            };
            let mut emit = Emit::before(f, first, combiner.pass);
            let weights = emit.tuple(weights.to_vec());
            let weight = emit.op(&Concatenate { data: weights, axis: weight as i64 })?;
            emit.named(name, &[data, weight], attrs)
        }
        Joint::Stacked => {
            let mut emit = Emit::before(f, first, combiner.pass);
            let data = emit.tuple(vec![data; group.len()]);
            let weights = emit.tuple(weights.to_vec());
            let tensor_a = emit.op(&Stack { data, axis: 0 })?;
            let tensor_b = emit.op(&Stack { data: weights, axis: 0 })?;
            emit.op(&BatchMatmul {
                tensor_a,
                tensor_b,
                out_dtype: attrs.value("out_dtype"),
                transpose_a: false,
                transpose_b: true,
            })
        }
    }
}

/// The operations that follow `tails` in every branch, where they can be merged: equal elementwise
/// operators that alone use them and whose other operands can be joined.
fn following(f: &mut FuncMut<'_>, anchor: OpId, joint: Joint, tails: &[OpId]) -> Option<Vec<OpId>> {
    let next: Vec<OpId> = tails
        .iter()
        .map(|tail| {
            let value = f.body.result(*tail, 0);
            let (user, _) = f.body.uses(value).next()?;
            (f.body.has_one_use(value) && f.body.op_block(user) == f.body.op_block(anchor))
                .then_some(user)
        })
        .collect::<Option<_>>()?;
    let position = |f: &FuncMut<'_>, branch: usize| {
        f.body.operands(next[branch]).position(|v| v == f.body.result(tails[branch], 0))
    };
    let parent = position(f, 0)?;
    let first = next[0];
    let pattern = f.registry.hook::<FusionPattern>(f.body.op_name(first))?;
    // An operator that takes the shape of its result as an attribute would have to be changed.
    if *pattern > FusionPattern::Broadcast || f.body.attrs(first).get("shape").is_some() {
        return None;
    }
    let mut others = vec![];
    for (branch, op) in next.iter().enumerate() {
        let same = f.body.op_name(*op) == f.body.op_name(first)
            && f.body.attrs(*op) == f.body.attrs(first)
            && f.body.operand_count(*op) == f.body.operand_count(first)
            && position(f, branch) == Some(parent);
        let tail = f.body.ty(f.body.result(tails[branch], 0)).as_tensor()?;
        let result = f.body.ty(f.body.result(*op, 0)).as_tensor()?;
        if !same || tail.shape != result.shape {
            return None;
        }
        for index in (0..f.body.operand_count(*op)).filter(|index| *index != parent) {
            let operand = f.body.operand(*op, index);
            let (one, representative) = (
                f.body.ty(operand).as_tensor()?,
                f.body.ty(f.body.operand(first, index)).as_tensor()?,
            );
            if !can_join(one, representative, result, joint) {
                return None;
            }
            others.push(operand);
        }
    }
    // Two branches that end in one operation are not parallel.
    let distinct: FxHashSet<OpId> = next.iter().copied().collect();
    (distinct.len() == next.len() && hoist(f, anchor, &others)).then_some(next)
}

/// Whether an operand can be joined with a `representative` where the results, like `result`, are.
fn can_join(
    operand: &TensorType,
    representative: &TensorType,
    result: &TensorType,
    joint: Joint,
) -> bool {
    match joint {
        Joint::Stacked => without_axis(operand, None)
            .is_some_and(|operand| Some(operand) == without_axis(representative, None)),
        Joint::SideBySide { result: axis, .. } => {
            let Some(own) = (axis + operand.rank()).checked_sub(result.rank()) else {
                return false;
            };
            operand.shape.get(own) == result.shape.get(axis)
                && without_axis(operand, Some(own))
                    .is_some_and(|operand| Some(operand) == without_axis(representative, Some(own)))
        }
    }
}

/// Merges `ops`, whose operand `parent` is the joined result `combined`.
fn combine_following(
    f: &mut FuncMut<'_>,
    combiner: &Combiner,
    joint: Joint,
    anchor: OpId,
    combined: ValueId,
    ops: &[OpId],
    parent: usize,
) -> Result<ValueId, Diagnostics> {
    let rank = |f: &FuncMut<'_>, value| {
        let tensor: &TensorType =
            f.body.ty(value).as_tensor().expect("what is combined are tensors");
        tensor.rank()
    };
    let mut operands = vec![];
    for index in 0..f.body.operand_count(ops[0]) {
        if index == parent {
            operands.push(combined);
            continue;
        }
        let parts: Vec<ValueId> = ops.iter().map(|op| f.body.operand(*op, index)).collect();
        let (own, result) = (rank(f, parts[0]), rank(f, f.body.result(ops[0], 0)));
        let mut emit = Emit::before(f, anchor, combiner.pass);
        let joined = match joint {
            Joint::SideBySide { result: axis, .. } => {
                let data = emit.tuple(parts);
                emit.op(&Concatenate { data, axis: (axis + own - result) as i64 })?
            }
            Joint::Stacked => {
                // The new axis must come before all others, those that broadcast included.
                let new = (result - own) as i64;
                let mut expanded = vec![];
                for data in parts {
                    expanded.push(match new {
                        0 => data,
                        num_newaxis => emit.op(&ExpandDims { data, axis: 0, num_newaxis })?,
                    });
                }
                let data = emit.tuple(expanded);
                emit.op(&Stack { data, axis: 0 })?
            }
        };
        operands.push(joined);
    }
    let (name, attrs): (Symbol, AttrDict) = (f.body.op_name(ops[0]), f.body.attrs(ops[0]));
    Emit::before(f, anchor, combiner.pass).named(name, &operands, attrs)
}

/// The parts of `combined` that belong to the branches.
fn take_apart(
    f: &mut FuncMut<'_>,
    combiner: &Combiner,
    joint: Joint,
    anchor: OpId,
    combined: ValueId,
    extents: &[i64],
) -> Result<Vec<ValueId>, Diagnostics> {
    let mut emit = Emit::before(f, anchor, combiner.pass);
    let mut parts = vec![];
    match joint {
        Joint::SideBySide { result: axis, .. } => {
            let mut start = 0;
            for &extent in extents {
                let (mut begin, mut end) = (vec![0; axis + 1], vec![-1; axis + 1]);
                (begin[axis], end[axis]) = (start, extent);
                start += extent;
                parts.push(emit.op(&StridedSlice {
                    data: combined,
                    begin: Integers(begin),
                    end: Integers(end),
                    strides: Some(Integers(vec![1; axis + 1])),
                    slice_mode: SliceMode::Size,
                    axes: None,
                })?);
            }
        }
        Joint::Stacked => {
            let count = Sections::Equal(extents.len() as i64);
            let split = emit.op(&Split { data: combined, indices_or_sections: count, axis: 0 })?;
            for index in 0..extents.len() {
                let data =
                    emit.field(split, index).expect("a split gives as many parts as were joined");
                parts.push(emit.op(&Squeeze { data, axis: Some(Integers(vec![0])) })?);
            }
        }
    }
    Ok(parts)
}
