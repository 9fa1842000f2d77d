//! Operators that change elements by their place: masks, triangles, diagonals, sequences.

use ir_core::{DType, Dim, InferCx, Op, Registry, Scalar, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use te::compute::Expression;

use crate::FusionPattern::{Elementwise, Injective};
use crate::elements;
use crate::gradient::Gradient;
use crate::relation;

/// The upper or lower triangle of the matrices in the last two axes; 0 elsewhere. The upper one
/// keeps `column - row ≥ k`, the lower one `column - row ≤ k`.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.trilu",
    infer = |_op: Trilu<Type>, cx: &mut InferCx<'_>| {
        expect_matrices(cx.tensor(0)?.rank())?;
        relation::expect_rank(cx.tensor(1)?, 0)?;
        relation::expect_integers(cx.tensor(1)?)?;
        Ok(cx.operands[0])
    },
    hooks(Gradient(|at| at.to(0, |g| at.again("relay.trilu", &[g, at.operand(1)]))), Elementwise, Evaluate(|cx| evaluate_trilu(&cx.fields()?, cx)), Define(define_trilu))
)]
pub struct Trilu<V = ValueId> {
    /// Rank at least 2.
    pub data: V,
    /// The diagonal at which the triangle ends, an integer scalar.
    pub k: V,
    /// Whether the upper triangle is kept.
    #[default(true)]
    pub upper: bool,
}

fn expect_matrices(rank: usize) -> Result<(), String> {
    match rank >= 2 {
        true => Ok(()),
        false => Err(format!("expected a tensor of rank at least 2, found {rank}")),
    }
}

fn evaluate_trilu(op: &Trilu<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    expect_matrices(data.rank())?;
    let k = cx.tensor(1)?.element(0);
    let k = k.ok_or_else(|| EvalError::new("expected a scalar `k`, found no elements"))?.as_i64();
    let (rows, columns) = (data.shape()[data.rank() - 2], data.shape()[data.rank() - 1]);
    let values = data.elements().enumerate().map(|(at, value)| {
        let (row, column) = (at as i64 / columns % rows, at as i64 % columns);
        let kept = if op.upper { column - row >= k } else { column - row <= k };
        if kept { value } else { Scalar::Int(0) }
    });
    Ok(TensorData::from_scalars(data.dtype(), data.shape(), values)?.into())
}

fn define_trilu(cx: &mut DefineCx<'_>) -> Defined {
    let (op, data, k) = (cx.fields::<Trilu<Operand>>()?, cx.tensor(0)?, cx.tensor(1)?);
    let rank = data.shape.len();
    expect_matrices(rank)?;
    cx.compute(|e, i| {
        let k = e.load(&k, &[]);
        let (k, diagonal) = (e.cast(k, DType::INT64), e.sub(i[rank - 1], i[rank - 2]));
        let kept = if op.upper { e.ge(diagonal, k) } else { e.le(diagonal, k) };
        let (x, zero) = (e.load(&data, i), e.number(data.dtype, 0.0));
        e.select(kept, x, zero)
    })
}

/// `input` with the diagonals `k1` to `k2` of the matrices in its last two axes replaced. Diagonal
/// `d` holds the elements with `column - row = d`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.matrix_set_diag",
    infer = infer_matrix_set_diag,
    hooks(Injective, Evaluate(|cx| evaluate_matrix_set_diag(&cx.fields()?, cx)), Define(define_matrix_set_diag))
)]
pub struct MatrixSetDiag<V = ValueId> {
    /// Shape `(…, rows, columns)`.
    pub input: V,
    /// Shape `(…, length)` for one diagonal, else `(…, k2 - k1 + 1, length)`, from `k2` down to
    /// `k1`, where `length` is that of the longest; shorter ones are padded.
    pub diagonal: V,
    /// The lowest diagonal.
    #[default(0)]
    pub k1: i64,
    /// The highest diagonal.
    #[default(0)]
    pub k2: i64,
    /// Whether diagonals above the main one stand at the end of their row, padded in front.
    #[default(true)]
    pub super_diag_right_align: bool,
    /// Whether diagonals below the main one stand at the end of their row, padded in front.
    #[default(false)]
    pub sub_diag_right_align: bool,
}

/// The number of elements on diagonal `d` of a matrix.
fn diagonal_length(rows: i64, columns: i64, d: i64) -> i64 {
    rows.saturating_add(d.min(0)).min(columns.saturating_sub(d.max(0))).max(0)
}

fn infer_matrix_set_diag(op: MatrixSetDiag<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (input, diagonal) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::same_dtype(input, diagonal)?;
    expect_matrices(input.rank())?;
    if op.k1 > op.k2 {
        return Err(Stop::Error(format!("expected k1 ≤ k2, found {} and {}", op.k1, op.k2)));
    }
    let batch = input.rank() - 2;
    let mut expected: relation::Dims = input.shape[..batch].into();
    if op.k1 != op.k2 {
        expected.push(Dim::Known(op.k2.saturating_sub(op.k1).saturating_add(1)));
    }
    expected.push(match (input.shape[batch].known(), input.shape[batch + 1].known()) {
        (Some(rows), Some(columns)) => {
            // The longest is the one nearest to the main diagonal.
            let length = diagonal_length(rows, columns, 0i64.clamp(op.k1, op.k2));
            if op.k1 <= -rows.max(1) || op.k2 >= columns.max(1) {
                return Err(Stop::Error(format!(
                    "expected diagonals between -{rows} and {columns}, found {} to {}",
                    op.k1, op.k2
                )));
            }
            Dim::Known(length)
        }
        _ => Dim::Any,
    });
    relation::equal_dims(cx, &expected, &diagonal.shape)?;
    Ok(Type::tensor(input.shape.iter().copied(), input.dtype))
}

fn evaluate_matrix_set_diag(
    op: &MatrixSetDiag<Value>,
    cx: &EvalCx<'_>,
) -> Result<Value, EvalError> {
    elements::result_shape(cx, infer_matrix_set_diag)?;
    let (input, diagonal) = (cx.tensor(0)?, cx.tensor(1)?);
    let (rows, columns) = (input.shape()[input.rank() - 2], input.shape()[input.rank() - 1]);
    let longest = diagonal.shape().last().copied().unwrap_or(0);
    let count = op.k2 - op.k1 + 1;
    let values = input.elements().enumerate().map(|(at, value)| {
        let at = at as i64;
        let (matrix, row, column) = (at / columns / rows, at / columns % rows, at % columns);
        let d = column - row;
        if !(op.k1..=op.k2).contains(&d) {
            return value;
        }
        let right = if d >= 0 { op.super_diag_right_align } else { op.sub_diag_right_align };
        let padding = if right { longest - diagonal_length(rows, columns, d) } else { 0 };
        let place = (matrix * count + op.k2 - d) * longest + row.min(column) + padding;
        diagonal.element(place as usize).expect(elements::WITHIN)
    });
    Ok(TensorData::from_scalars(input.dtype(), input.shape(), values)?.into())
}

fn define_matrix_set_diag(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<MatrixSetDiag<Operand>>()?;
    let (input, diagonal) = (cx.tensor(0)?, cx.tensor(1)?);
    let batch = input.shape.len() - 2;
    let (rows, columns) = (input.shape[batch], input.shape[batch + 1]);
    let longest = diagonal.shape.last().copied().unwrap_or(0);
    cx.compute(|e, i| {
        let (row, column) = (i[batch], i[batch + 1]);
        let (d, zero) = (e.sub(column, row), e.index(0));
        let (lowest, highest) = (e.index(op.k1), e.index(op.k2));
        let (above, below) = (e.ge(d, lowest), e.le(d, highest));
        let inside = e.and(above, below);
        // Diagonals that stand at the end of their row start after what they lack.
        let (down, right) = (e.min(d, zero), e.max(d, zero));
        let down = e.add_index(down, rows);
        let (all, none) = (e.index(columns), e.index(longest));
        let across = e.sub(all, right);
        let length = e.min(down, across);
        let lacking = e.sub(none, length);
        let upper = if op.super_diag_right_align { lacking } else { zero };
        let lower = if op.sub_diag_right_align { lacking } else { zero };
        let is_upper = e.ge(d, zero);
        let padding = e.select(is_upper, upper, lower);
        let place = e.min(row, column);
        let place = e.add(place, padding);
        let mut at = i[..batch].to_vec();
        if op.k1 != op.k2 {
            at.push(e.sub(highest, d));
        }
        at.push(place);
        let old = e.load(&input, i);
        e.load_if(inside, &diagonal, &at, old)
    })
}

/// `data` with elements after the end of each sequence replaced by `mask_value`.
///
/// Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.sequence_mask",
    infer = |op: SequenceMask<Type>, cx: &mut InferCx<'_>| {
        expect_sequences(cx, op.axis, 1 - op.axis)?;
        Ok(cx.operands[0])
    },
    hooks(Injective, Evaluate(|cx| {
        let (op, data) = (cx.fields::<SequenceMask<Value>>()?, cx.tensor(0)?);
        let places = places(data, op.axis, 1 - op.axis)?;
        let lengths = cx.tensor(1)?.to_i64();
        let values = data.elements().zip(places).map(|(value, (time, batch))| {
            let inside = lengths.get(batch).is_some_and(|&length| (time as i64) < length);
            if inside { value } else { Scalar::Float(op.mask_value) }
        });
        Ok(TensorData::from_scalars(data.dtype(), data.shape(), values)?.into())
    }), Define(define_sequence_mask))
)]
pub struct SequenceMask<V = ValueId> {
    /// Shape `(time, batch, …)`, or `(batch, time, …)` with `axis = 1`.
    pub data: V,
    /// The length of every sequence, integers of shape `(batch,)`.
    pub valid_length: V,
    /// What replaces the rest.
    #[default(0.0)]
    pub mask_value: f64,
    /// The axis of time: 0 or 1.
    #[default(0)]
    pub axis: i64,
}

/// Requires data with an axis of time and one of batches, and a length per batch.
fn expect_sequences(cx: &mut InferCx<'_>, time: i64, batch: i64) -> Result<(), Stop> {
    let (data, lengths) = (cx.tensor(0)?, cx.tensor(1)?);
    let (time, batch) = (relation::axis(time, data.rank())?, relation::axis(batch, data.rank())?);
    if time == batch {
        return Err(Stop::error("expected different axes of time and of batches, found one"));
    }
    relation::expect_integers(lengths)?;
    relation::expect_rank(lengths, 1)?;
    relation::equal_dims(cx, &[data.shape[batch]], &lengths.shape)?;
    Ok(())
}

/// For every element, its place on the axis of time and on that of batches.
fn places(
    data: &TensorData,
    time: i64,
    batch: i64,
) -> Result<impl Iterator<Item = (usize, usize)> + use<>, EvalError> {
    let shape = data.shape().to_vec();
    let strides = elements::strides(&shape);
    let (time, batch) = (relation::axis(time, shape.len())?, relation::axis(batch, shape.len())?);
    let place = move |at: usize, axis: usize| at / strides[axis] as usize % shape[axis] as usize;
    Ok((0..data.len()).map(move |at| (place(at, time), place(at, batch))))
}

/// `data` with the first `seq_lengths[b]` slices of every batch `b` in reversed order.
///
/// Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.reverse_sequence",
    infer = |op: ReverseSequence<Type>, cx: &mut InferCx<'_>| {
        expect_sequences(cx, op.seq_axis, op.batch_axis)?;
        Ok(cx.operands[0])
    },
    hooks(Gradient(|at| at.to(0, |g| at.again("relay.reverse_sequence", &[g, at.operand(1)]))), Injective, Evaluate(|cx| {
        let (op, data) = (cx.fields::<ReverseSequence<Value>>()?, cx.tensor(0)?);
        let axis = relation::axis(op.seq_axis, data.rank())?;
        let stride = elements::strides(data.shape())[axis];
        let lengths = cx.tensor(1)?.to_i64();
        let batches = data.shape()[relation::axis(op.batch_axis, data.rank())?];
        if lengths.len() as i64 != batches {
            let found = lengths.len();
            return Err(EvalError(format!("expected {batches} lengths, found {found}")));
        }
        let places = places(data, op.seq_axis, op.batch_axis)?;
        let offsets = places.enumerate().map(|(at, (time, batch))| {
            let given = lengths[batch];
            let length = given.clamp(0, data.shape()[axis]) as usize;
            let from = if time < length { length - 1 - time } else { time };
            (at as isize + (from as isize - time as isize) * stride) as usize
        });
        Ok(elements::pick(data, data.shape(), offsets)?.into())
    }), Define(define_reverse_sequence))
)]
pub struct ReverseSequence<V = ValueId> {
    /// Rank at least 2.
    pub data: V,
    /// How many slices of each batch to reverse, integers of shape `(batch,)`; what is more than
    /// the extent counts as the extent, and less than 0 as 0.
    pub seq_lengths: V,
    /// The axis along which to reverse.
    #[default(1)]
    pub seq_axis: i64,
    /// The axis of batches.
    #[default(0)]
    pub batch_axis: i64,
}

/// The length of the sequence that the element at indices `i` belongs to, and its place in it.
fn sequence(
    e: &mut Expression<'_>,
    lengths: &te::compute::Tensor,
    i: &[ValueId],
    (time, batch): (usize, usize),
) -> (ValueId, ValueId) {
    let length = e.load(lengths, &[i[batch]]);
    (e.cast(length, DType::INT64), i[time])
}

fn define_sequence_mask(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<SequenceMask<Operand>>()?;
    let (data, lengths) = (cx.tensor(0)?, cx.tensor(1)?);
    let rank = data.shape.len();
    let axes = (relation::axis(op.axis, rank)?, relation::axis(1 - op.axis, rank)?);
    cx.compute(|e, i| {
        let (length, place) = sequence(e, &lengths, i, axes);
        let (inside, x) = (e.lt(place, length), e.load(&data, i));
        let mask = e.number(data.dtype, op.mask_value);
        e.select(inside, x, mask)
    })
}

fn define_reverse_sequence(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<ReverseSequence<Operand>>()?;
    let (data, lengths) = (cx.tensor(0)?, cx.tensor(1)?);
    let rank = data.shape.len();
    let axes = (relation::axis(op.seq_axis, rank)?, relation::axis(op.batch_axis, rank)?);
    cx.compute(|e, i| {
        let (length, place) = sequence(e, &lengths, i, axes);
        let (least, most) = (e.index(0), e.index(data.shape[axes.0]));
        let length = e.max(length, least);
        let length = e.min(length, most);
        let (inside, last) = (e.lt(place, length), e.add_index(length, -1));
        let reversed = e.sub(last, place);
        let mut at = i.to_vec();
        at[axes.0] = e.select(inside, reversed, place);
        e.load(&data, &at)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Trilu>();
    registry.op::<MatrixSetDiag>();
    registry.op::<SequenceMask>();
    registry.op::<ReverseSequence>();
}
