//! Matrix products.

use std::collections::BTreeMap;

use ir_core::{DType, Dim};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("Det", "`linalg.det`", |cx| cx.unary("linalg.det")),
    one("Einsum", "`nn.batch_matmul` for products of matrices, else `einsum`; no ellipsis", |cx| {
        let inputs = cx.all_inputs()?;
        let equation = cx.text("equation", "")?.to_string();
        if let [a, b] = &inputs[..]
            && let Some(axes) = ProductAxes::of(&equation)
            && let Some(product) = axes.product(cx, a, b)?
        {
            return Ok(product);
        }
        cx.op_on_tuple("einsum", &inputs, attr("equation", equation))
    }),
    one(
        "Gemm",
        "`nn.dense` where only the second operand is transposed, else `nn.matmul`; \
        `nn.bias_add` or `add`",
        gemm,
    ),
    one("MatMul", "`nn.matmul`, or `nn.batch_matmul` for batches of both operands", |cx| {
        let (a, b) = (cx.input(0)?, cx.input(1)?);
        for side in [&a, &b] {
            if cx.dtype(side)?.is_bool() {
                return Err(format!("expected numbers, found {}", cx.ty_of(side)).into());
            }
        }
        matmul(cx, &a, &b)
    }),
];

/// The letters of an equation that is a product of matrices, by what they are axes of.
struct ProductAxes {
    operands: [Vec<char>; 2],
    result: Vec<char>,
    /// Of both operands and the result.
    batch: Vec<char>,
    /// Of the first operand and the result.
    rows: Vec<char>,
    /// Of the second operand and the result.
    columns: Vec<char>,
    /// Of both operands.
    summed: Vec<char>,
}

impl ProductAxes {
    /// Those of `equation`, where each letter stands once in each of the two operands and the result that have it,
    /// and some are rows, columns and summed over.
    fn of(equation: &str) -> Option<ProductAxes> {
        let equation: String = equation.chars().filter(|letter| *letter != ' ').collect();
        let (operands, result) = equation.split_once("->")?;
        let (a, b) = operands.split_once(',')?;
        let axes = [a, b, result].map(|term| term.chars().collect::<Vec<char>>());
        let is_plain = |term: &Vec<char>| {
            let mut seen = term.clone();
            seen.sort_unstable();
            seen.dedup();
            seen.len() == term.len() && term.iter().all(char::is_ascii_alphabetic)
        };
        let [a, b, result] = axes;
        let chosen = |of: &[char], other: &[char], in_result: bool, in_other: bool| {
            let is = |letter: &&char| {
                result.contains(letter) == in_result && other.contains(letter) == in_other
            };
            of.iter().filter(is).copied().collect::<Vec<char>>()
        };
        let batch = chosen(&a, &b, true, true);
        let (rows, columns) = (chosen(&a, &b, true, false), chosen(&b, &a, true, false));
        let summed = chosen(&a, &b, false, true);
        let is_product = [&a, &b, &result].into_iter().all(is_plain)
            && !rows.is_empty()
            && !columns.is_empty()
            && !summed.is_empty()
            && a.len() == batch.len() + rows.len() + summed.len()
            && b.len() == batch.len() + columns.len() + summed.len()
            && result.len() == batch.len() + rows.len() + columns.len();
        is_product.then_some(ProductAxes { operands: [a, b], result, batch, rows, columns, summed })
    }

    /// The product of `a` and `b`, as one of batches of matrices. `None` where they are no floats of known extents
    /// with as many axes, or extents of one letter differ.
    fn product(&self, cx: &mut Cx<'_, '_>, a: &Value, b: &Value) -> Result<Option<Value>, Fault> {
        let mut extents: BTreeMap<char, i64> = BTreeMap::new();
        for (value, letters) in [a, b].into_iter().zip(&self.operands) {
            let ty = cx.ty(value)?;
            let Some(shape) = ty.known_shape().filter(|shape| shape.len() == letters.len()) else {
                return Ok(None);
            };
            for (letter, extent) in letters.iter().zip(shape) {
                if !ty.dtype.is_float() || *extents.entry(*letter).or_insert(extent) != extent {
                    return Ok(None);
                }
            }
        }
        let shape = |letters: &[char]| letters.iter().map(|letter| extents[letter]).collect();
        let count = |letters: &[char]| -> i64 {
            let shape: Vec<i64> = shape(letters);
            shape.into_iter().fold(1i64, i64::saturating_mul)
        };
        let places = |of: &[char], order: &[&[char]]| -> Vec<i64> {
            let place = |letter: &char| of.iter().position(|other| other == letter);
            order
                .iter()
                .flat_map(|part| part.iter())
                .filter_map(place)
                .map(|at| at as i64)
                .collect()
        };
        let ProductAxes { operands, result, batch, rows, columns, summed } = self;
        let a = cx.transpose(a, &places(&operands[0], &[batch, rows, summed]))?;
        let a = cx.reshape(&a, &[count(batch), count(rows), count(summed)])?;
        let b = cx.transpose(b, &places(&operands[1], &[batch, summed, columns]))?;
        let b = cx.reshape(&b, &[count(batch), count(summed), count(columns)])?;
        let product = matmul(cx, &a, &b)?;
        let order = [&batch[..], rows, columns].concat();
        let product = cx.reshape(&product, &shape(&order))?;
        cx.transpose(&product, &places(&order, &[result])).map(Some)
    }
}

/// The product of matrices as the attributes of `Gemm` say.
pub(super) fn gemm(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let (alpha, beta) = (cx.float("alpha", 1.0)?, cx.float("beta", 1.0)?);
    let (transpose_a, transpose_b) = (cx.flag("transA", false)?, cx.flag("transB", false)?);
    let mut product = match (transpose_a, transpose_b) {
        (false, true) => cx.op("nn.dense", &[&a, &b])?,
        _ => {
            let attrs = attr("transpose_a", transpose_a).with("transpose_b", &transpose_b);
            cx.op_with("nn.matmul", &[&a, &b], attrs)?
        }
    };
    if alpha != 1.0 {
        product = cx.with_scalar("multiply", &product, alpha)?;
    }
    let Some(mut bias) = cx.optional(2).filter(|_| beta != 0.0) else { return Ok(product) };
    if beta != 1.0 {
        bias = cx.with_scalar("multiply", &bias, beta)?;
    }
    let (columns, ty) = (cx.ty(&product)?.shape[1], cx.ty(&bias)?);
    let is_row = ty.rank() == 1 && ty.shape[0] == columns && columns.known().is_some();
    match is_row {
        true => cx.op_with("nn.bias_add", &[&product, &bias], attr("axis", 1i64)),
        false => cx.op("add", &[&product, &bias]),
    }
}

/// The product of matrices, vectors, and batches of matrices, as numpy has it.
pub(super) fn matmul(cx: &mut Cx<'_, '_>, a: &Value, b: &Value) -> Result<Value, Fault> {
    let (rank_a, rank_b) = (cx.rank(a)?, cx.rank(b)?);
    match (rank_a, rank_b) {
        (0, _) | (_, 0) => Err("expected operands of rank at least 1, found a scalar".into()),
        (1, _) => {
            let row = cx.expand_dims(a, 0)?;
            let product = matmul(cx, &row, b)?;
            let axis = if rank_b == 1 { -1 } else { -2 };
            cx.squeeze(&product, &[axis])
        }
        (_, 1) => {
            let column = cx.expand_dims(b, 1)?;
            let product = matmul(cx, a, &column)?;
            cx.squeeze(&product, &[-1])
        }
        (_, 2) => {
            let attrs = attr("out_dtype", sums(cx, a)?);
            cx.op_with("nn.matmul", &[a, b], attrs)
        }
        (3, 3) => {
            let attrs = attr("out_dtype", sums(cx, a)?);
            cx.op_with("nn.batch_matmul", &[a, b], attrs)
        }
        _ => batches(cx, a, b),
    }
}

/// The element type of sums of products of `value`, where it is another one: integers of 8 bits, and what they are
/// less their zero points, are summed up as `int32`.
pub(super) fn sums(cx: &mut Cx<'_, '_>, value: &Value) -> Result<Option<DType>, Fault> {
    let is_short = matches!(cx.dtype(value)?, DType::INT16 | DType::UINT8);
    Ok(is_short.then_some(DType::INT32))
}

/// The product of batches of any rank, as one of batches of rank 3.
fn batches(cx: &mut Cx<'_, '_>, a: &Value, b: &Value) -> Result<Value, Fault> {
    let (x, y) = (cx.ty(a)?, cx.ty(b)?);
    let (batch_x, batch_y) = (&x.shape[..x.rank() - 2], &y.shape[..y.rank() - 2]);
    let rank = batch_x.len().max(batch_y.len());
    let at = |batch: &[Dim], axis: usize| match (axis + batch.len()).checked_sub(rank) {
        Some(place) => batch[place],
        None => Dim::Known(1),
    };
    let one = Dim::Known(1);
    let joined: Vec<Dim> = (0..rank)
        .map(|axis| match (at(batch_x, axis), at(batch_y, axis)) {
            (dim, other) if dim == one || dim == Dim::Any && other != one => other,
            (dim, _) => dim,
        })
        .collect();
    // Each operand as matrices in a row: one of them, or as many as the result has.
    let mut in_a_row = |value: &Value, batch: &[Dim]| -> Result<Value, Fault> {
        let ty = cx.ty(value)?;
        let matrix = &ty.shape[ty.rank() - 2..];
        let (Some(rows), Some(columns)) = (matrix[0].known(), matrix[1].known()) else {
            let message = "expected matrices of known extents in batches of several axes";
            return Err(Fault::Open(message.to_string()));
        };
        let full = rank == batch.len() && batch == joined;
        let single = batch.iter().all(|dim| *dim == one);
        let mut value = value.clone();
        if !full && !single {
            let shape: Option<Vec<i64>> = joined.iter().map(|dim| dim.known()).collect();
            let Some(mut shape) = shape else {
                let message = "expected known extents where batches broadcast";
                return Err(Fault::Open(message.to_string()));
            };
            shape.extend([rows, columns]);
            value = cx.op_with("broadcast_to", &[&value], attr("shape", shape))?;
        }
        let count = if single { 1 } else { -1 };
        cx.reshape(&value, &[count, rows, columns])
    };
    let (flat_a, flat_b) = (in_a_row(a, batch_x)?, in_a_row(b, batch_y)?);
    let attrs = attr("out_dtype", sums(cx, a)?);
    let product = cx.op_with("nn.batch_matmul", &[&flat_a, &flat_b], attrs)?;
    let open = joined.iter().filter(|dim| dim.known().is_none()).count();
    if open > 1 {
        let message = "expected at most one open extent in the batches";
        return Err(Fault::Open(message.to_string()));
    }
    let mut shape: Vec<i64> = joined.iter().map(|dim| dim.known().unwrap_or(-1)).collect();
    let matrix = &cx.ty(&product)?.shape[1..];
    shape.extend(matrix.iter().map(|dim| dim.known().unwrap_or(-1)));
    cx.reshape(&product, &shape)
}
