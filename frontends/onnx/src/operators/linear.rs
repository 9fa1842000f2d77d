//! Matrix products.

use ir_core::{DType, Dim};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};

pub(super) const OPERATORS: &[Operator] = &[
    one("Det", "`linalg.det`", |cx| cx.unary("linalg.det")),
    one("Einsum", "`einsum`; no ellipsis", |cx| {
        let inputs = cx.all_inputs()?;
        let equation = cx.text("equation", "")?.to_string();
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

/// The element type of sums of products of `value`, where it is another one: integers without their zero points,
/// which 16 bits hold, are summed up as `int32`.
pub(super) fn sums(cx: &mut Cx<'_, '_>, value: &Value) -> Result<Option<DType>, Fault> {
    Ok((cx.dtype(value)? == DType::INT16).then_some(DType::INT32))
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
