//! Matrix products and the addition of a bias.

use ir_core::{
    AttrDict, DType, Dim, InferCx, KernelRole, Op, Registry, Spread, Stop, TensorData, TensorType,
    Type, ValueId, Work,
};
use relay::define::{Define, DefineCx, Defined, Index, Operand, accumulator, along};
use relay::interpreter::{EvalCx, EvalError, Evaluate, RandomOperand, Value};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use super::numeric::{Number, compute_dtype, dispatch, map_along, result_shape, size};
use super::relation::{require, require_rank, vectors_along};
use super::words::Words;
use crate::batch::{self, Batch, Examples};
use crate::broadcast::Add;
use crate::gradient::{Gradient, Pullback, Term};
use crate::layout::Layout;
use crate::spread::weight;
use crate::{FusionPattern, LayoutRule, multiply_adds};

/// A fully connected layer: `out[…, j] = Σ_k data[…, k] * weight[j, k]`.
///
/// With data `(…, K)` and weight `(units, K)` the result is `(…, units)`. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.dense",
    infer = dense_relation,
    hooks(
        Gradient(pull_dense),
        Batch(batch_dense),
        FusionPattern::OutFusable,
        KernelRole::Anchor,
        Work(multiply_adds::<Dense>),
        RandomOperand(|operand, types, _| weight(operand, types, 0)),
        Evaluate(evaluate_dense),
        Define(define_dense)
    )
)]
pub struct Dense<V = ValueId> {
    /// The input.
    pub data: V,
    /// The weight, one row per output.
    pub weight: V,
    /// Number of outputs; the weight's, where absent.
    #[default(None)]
    pub units: Option<i64>,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

fn dense_relation(op: Dense<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let Some((&inputs, outer)) = data.shape.split_last() else {
        return Err(Stop::error("expected data of rank 1 or more, found a scalar"));
    };
    let units = second_operand(cx, data, op.units, inputs, true)?;
    let shape = outer.iter().copied().chain([units]);
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(data.dtype)))
}

/// The columns of the product's second factor: `(units, inner)` when `transposed`, else
/// `(inner, units)`. An unknown factor is refined where `units` are given.
fn second_operand(
    cx: &mut InferCx<'_>,
    data: &TensorType,
    units: Option<i64>,
    inner: Dim,
    transposed: bool,
) -> Result<Dim, Stop> {
    match (cx.tensor(1), units) {
        (Ok(weight), _) => {
            require_rank("a weight", weight, 2)?;
            let (found, columns) = match transposed {
                true => (weight.shape[1], weight.shape[0]),
                false => (weight.shape[0], weight.shape[1]),
            };
            require(cx, "inner extent of the weight", inner, found)?;
            if let Some(units) = units {
                require(cx, "units of the weight", Dim::Known(units), columns)?;
            }
            Ok(columns)
        }
        (Err(Stop::Stuck), Some(units)) => {
            let units = Dim::Known(units);
            let shape = if transposed { [units, inner] } else { [inner, units] };
            cx.refine(1, Type::tensor(shape, data.dtype));
            Ok(units)
        }
        (Err(stop), _) => Err(stop),
    }
}

/// The rows of a matrix, or of several.
struct Rows<'a, T> {
    elements: &'a [T],
    /// Where each starts.
    starts: Vec<usize>,
    /// The distance of its elements.
    step: usize,
}

impl<'a, T> Rows<'a, T> {
    /// The rows of matrices of `rows` × `inner` elements that lie one behind the other, row by row,
    /// or column by column where they are `transposed`.
    fn new(elements: &'a [T], [rows, inner]: [usize; 2], transposed: bool) -> Rows<'a, T> {
        let (row, step) = if transposed { (1, rows) } else { (inner, 1) };
        let count = elements.len().checked_div(inner).unwrap_or(0);
        let start = |index: usize| index / rows * (rows * inner) + index % rows * row;
        Rows { elements, starts: (0..count).map(start).collect(), step }
    }
}

impl<T: Number> Rows<'_, T> {
    /// `sum` and the products of the elements of the row from `start` on with `factors`.
    fn dot(&self, start: usize, factors: &[T], sum: T) -> T {
        let row = &self.elements[start..];
        let plus = |sum: T, (x, y): (&T, &T)| sum.plus(x.times(*y));
        match self.step {
            1 => row.iter().zip(factors).fold(sum, plus),
            step => row.iter().step_by(step).zip(factors).fold(sum, plus),
        }
    }
}

/// Adds the products of all rows with the matrix `right` of `inner` × `columns` elements, or of as
/// many rows as columns where it is `transposed`, to `out`, which has `columns` numbers for each
/// row.
///
/// What is read at a time is one row of `right`, as it lies there: it is often a weight, much
/// larger than the other factor and the same at every call.
fn multiply<T: Number>(
    left: &Rows<'_, T>,
    right: &TensorData,
    transposed: bool,
    [inner, columns]: [usize; 2],
    out: &mut [T],
) {
    let (rows, length) = if transposed { (columns, inner) } else { (inner, columns) };
    for row in 0..rows {
        let read = right.part(row * length, length).expect("the matrix has as many rows");
        let read = T::read(&read);
        for (start, out) in left.starts.iter().zip(out.chunks_exact_mut(columns.max(1))) {
            if transposed {
                out[row] = left.dot(*start, &read, out[row]);
            } else {
                let factor = left.elements[start + row * left.step];
                let sums = out.iter_mut().zip(&read);
                sums.for_each(|(sum, y)| *sum = sum.plus(factor.times(*y)));
            }
        }
    }
}

fn last(shape: &[i64], from_end: usize) -> usize {
    shape.len().checked_sub(from_end).map_or(1, |axis| shape[axis] as usize)
}

fn evaluate_dense(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (shape, dtype) = result_shape::<Dense>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, dense_by_units(cx, &shape, dtype))
}

/// A fully connected layer with a weight (units, inner).
fn dense_by_units<T: Number>(
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let (units, inner) = (last(weight.shape(), 2), last(weight.shape(), 1));
    let (a, mut out) = (T::read(data), vec![T::ZERO; size(shape)]);
    multiply(&Rows::new(&a, [1, inner], false), weight, true, [inner, units], &mut out);
    T::write(dtype, shape, &out)
}

/// A fully connected layer with a weight in a layout.
fn dense<T: Number>(
    cx: &EvalCx<'_>,
    op: &ContribDensePack<Value>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let (a, mut out) = (T::read(data), vec![T::ZERO; size(shape)]);
    let (units, inner) = (last(shape, 1), last(data.shape(), 1));
    let layout = Layout::parse(&op.weight_layout)?;
    // Behind the end of a row of words there are zeros.
    let (padded, b) = match op.quads {
        false => (inner, layout.unpack("NC", weight.shape(), T::read(weight))?.1),
        true => {
            let (extents, words) = layout.unpack("NC", weight.shape(), weight.to_i64())?;
            let parts = words.iter().flat_map(|word| Words::Quads.parts(*word as i32));
            let numbers = parts.map(|number| T::of(number as f64)).collect();
            ((extents[1] * Words::Quads.count()) as usize, numbers)
        }
    };
    let rows = Rows::new(&a, [1, inner], false);
    for (start, out) in rows.starts.iter().zip(out.chunks_exact_mut(units.max(1))) {
        for (sum, weights) in out.iter_mut().zip(b.chunks_exact(padded.max(1))) {
            *sum = rows.dot(*start, &weights[..inner], *sum);
        }
    }
    T::write(dtype, shape, &out)
}

/// Fewer rows are not worth preparing the other factor: packing it in words, or widening it.
const PREPARED_ROWS: i64 = 8;

/// The product over `inner` elements whose factors stand at the indices that `left` and `right`
/// give for indices of the result and of the sum. `axes` are those of the factors that are summed over,
/// where there is one each.
fn define_product(
    cx: &mut DefineCx<'_>,
    inner: i64,
    axes: Option<[usize; 2]>,
    left: impl FnOnce(&mut Expression<'_>, &[ValueId], ValueId) -> Vec<ValueId>,
    right: impl FnOnce(&mut Expression<'_>, &[ValueId], ValueId) -> Vec<ValueId>,
) -> Defined {
    let (mut a, mut b) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let sums = accumulator(a.dtype, b.dtype, dtype);
    let rows = shape.iter().rev().skip(1).fold(1i64, |rows, extent| rows.saturating_mul(*extent));
    let (mut extent, mut product) = (inner, ScalarOp::Mul);
    if let Some([of_a, of_b]) = axes
        && let Some(words) = Words::of(a.dtype, b.dtype, sums).first()
        && inner > 1
        && rows >= PREPARED_ROWS
    {
        a = words.define(cx, &a, of_a, "lhs");
        b = words.define(cx, &b, of_b, "rhs");
        let count = words.count();
        (extent, product) = ((inner + count - 1) / count, words.dot());
    } else if rows >= PREPARED_ROWS && sums == DType::FLOAT32 {
        // Each number is read many times: it is converted once.
        a = define_wide(cx, &a, "lhs");
        b = define_wide(cx, &b, "rhs");
    }
    cx.reduce(&[extent], Combiner::Sum, |e, i, k| {
        let at = left(e, i, k[0]);
        let x = e.load(&a, &at);
        let x = e.cast(x, sums);
        let at = right(e, i, k[0]);
        let y = e.load(&b, &at);
        let y = e.cast(y, sums);
        e.scalar(product, &[x, y])
    })
}

/// A stage of the numbers of `tensor`, where it is of floats of 16 bits, as `float32`.
fn define_wide(cx: &mut DefineCx<'_>, tensor: &Tensor, name: &str) -> Tensor {
    if !matches!(tensor.dtype, DType::FLOAT16 | DType::BFLOAT16) {
        return tensor.clone();
    }
    let name = cx.stage_of(name);
    cx.builder.compute(&name, &tensor.shape, |e, i| {
        let number = e.load(tensor, i);
        e.cast(number, DType::FLOAT32)
    })
}

/// Indices `i` without the last, then `last`.
fn with_last(i: &[ValueId], last: ValueId) -> Vec<ValueId> {
    let outer = &i[..i.len().saturating_sub(1)];
    outer.iter().copied().chain([last]).collect()
}

fn define_dense(cx: &mut DefineCx<'_>) -> Defined {
    let data = cx.tensor(0)?;
    let inner = last(&data.shape, 1) as i64;
    define_product(
        cx,
        inner,
        Some([data.shape.len().saturating_sub(1), 1]),
        |_, i, k| with_last(i, k),
        |_, i, k| i.last().copied().into_iter().chain([k]).collect(),
    )
}

/// A fully connected layer whose weight is blocked for vector units.
///
/// Computes `nn.dense`; the weight is in a layout of the axes `N` (units) and `C` (inputs), such
/// as `NC8n`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.contrib_dense_pack",
    infer = dense_pack_relation,
    hooks(
        FusionPattern::OutFusable,
        KernelRole::Anchor,
        Work(multiply_adds::<ContribDensePack>),
        Evaluate(evaluate_dense_pack),
        Define(define_dense_pack)
    )
)]
pub struct ContribDensePack<V = ValueId> {
    /// The input, `(…, K)`.
    pub data: V,
    /// The weight, in `weight_layout`.
    pub weight: V,
    /// Number of outputs; the weight's, where absent.
    #[default(None)]
    pub units: Option<i64>,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
    /// Layout of the weight.
    #[default("NC".to_string())]
    pub weight_layout: String,
    /// Whether the weight is in words, as `nn.contrib_quads` makes them along `C`. Then the input is of `uint8`, and
    /// the result of `int32`.
    #[default(false)]
    pub quads: bool,
}

fn dense_pack_relation(op: ContribDensePack<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let layout = Layout::parse(&op.weight_layout)?;
    let of_weight = weight.dtype;
    let weight = layout.logical("NC", &weight.shape)?;
    let Some((&inputs, outer)) = data.shape.split_last() else {
        return Err(Stop::error("expected data of rank 1 or more, found a scalar"));
    };
    match inputs {
        _ if !op.quads => require(cx, "inner extent of the weight", inputs, weight[1])?,
        _ if (data.dtype, of_weight) != (DType::UINT8, DType::INT32) => {
            let found = format!("{} by {of_weight}", data.dtype);
            return Err(Stop::Error(format!("expected uint8 by words of int32, found {found}")));
        }
        _ if op.out_dtype != Some(DType::INT32) => {
            return Err(Stop::error("expected `out_dtype` int32 for words"));
        }
        Dim::Known(inputs) => {
            let words = Dim::Known(Words::Quads.words(inputs));
            require(cx, "inner extent of the weight", words, weight[1])?;
        }
        _ => {}
    }
    if let Some(units) = op.units {
        require(cx, "units of the weight", Dim::Known(units), weight[0])?;
    }
    let shape = outer.iter().copied().chain([weight[0]]);
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(data.dtype)))
}

fn evaluate_dense_pack(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<ContribDensePack<Value>>()?;
    let (shape, dtype) = result_shape::<ContribDensePack>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, dense(cx, &op, &shape, dtype))
}

fn define_dense_pack(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<ContribDensePack<Operand>>()?;
    let layout = Layout::parse(&op.weight_layout)?;
    let (data, (shape, _)) = (cx.tensor(0)?, cx.result()?);
    let inner = last(&data.shape, 1) as i64;
    let units = last(&shape, 1) as i64;
    if op.quads {
        return define_by_quads(cx, &layout);
    }
    let inputs = layout.position('C').filter(|_| layout.block('C') == 1);
    define_product(
        cx,
        inner,
        inputs.map(|inputs| [data.shape.len().saturating_sub(1), inputs]),
        |_, i, k| with_last(i, k),
        |e, i, k| {
            let unit = i.last().map(|unit| Index::new(*unit, units)).unwrap_or_default();
            layout.physical_indices(e, "NC", &[unit, Index::new(k, inner)])
        },
    )
}

/// A fully connected layer whose weight is in words already, in `layout`.
fn define_by_quads(cx: &mut DefineCx<'_>, layout: &Layout) -> Defined {
    let (data, weight, (shape, _)) = (cx.tensor(0)?, cx.tensor(1)?, cx.result()?);
    let axis = data.shape.len().saturating_sub(1);
    let units = last(&shape, 1) as i64;
    let data = Words::Quads.define(cx, &data, axis, "lhs");
    let words = data.shape[axis];
    cx.reduce(&[words], Combiner::Sum, |e, i, k| {
        let x = e.load(&data, &with_last(i, k[0]));
        let unit = i.last().map(|unit| Index::new(*unit, units)).unwrap_or_default();
        let at = layout.physical_indices(e, "NC", &[unit, Index::new(k[0], words)]);
        let w = e.load(&weight, &at);
        e.scalar(Words::Quads.dot(), &[x, w])
    })
}

/// A matrix product: `out[…, i, j] = Σ_k a[…, i, k] * b[k, j]`.
///
/// With `tensor_a` `(…, M, K)` and `tensor_b` `(K, N)` the result is `(…, M, N)`; the flags say
/// which of them is stored transposed. Relay operator level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.matmul",
    infer = matmul_relation,
    hooks(
        Gradient(pull_matmul),
        Batch(batch_matmul),
        FusionPattern::OutFusable,
        KernelRole::Anchor,
        Work(multiply_adds::<Matmul>),
        RandomOperand(matmul_operand),
        Evaluate(evaluate_matmul),
        Define(define_matmul)
    )
)]
pub struct Matmul<V = ValueId> {
    /// The first factor.
    pub tensor_a: V,
    /// The second factor, a matrix.
    pub tensor_b: V,
    /// Number of columns of the result; those of `tensor_b`, where absent.
    #[default(None)]
    pub units: Option<i64>,
    /// Element type of the result; that of `tensor_a` where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
    /// Whether `tensor_a` is `(…, K, M)`.
    #[default(false)]
    pub transpose_a: bool,
    /// Whether `tensor_b` is `(N, K)`.
    #[default(false)]
    pub transpose_b: bool,
}

fn matmul_operand(operand: usize, types: &[Type], attributes: AttrDict) -> Option<Spread> {
    let is_transposed = attributes.value("transpose_b").unwrap_or(false);
    weight(operand, types, usize::from(!is_transposed))
}

fn matmul_relation(op: Matmul<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    let mut shape = data.shape.clone();
    if op.transpose_a {
        let rank = shape.len();
        if rank < 2 {
            return Err(Stop::error("expected a transposed factor of rank 2 or more"));
        }
        shape.swap(rank - 2, rank - 1);
    }
    let Some(inner) = shape.pop() else {
        return Err(Stop::error("expected a factor of rank 1 or more, found a scalar"));
    };
    shape.push(second_operand(cx, data, op.units, inner, op.transpose_b)?);
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(data.dtype)))
}

fn evaluate_matmul(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(
        op: &Matmul<Value>,
        cx: &EvalCx<'_>,
        shape: &[i64],
        dtype: DType,
    ) -> Result<Value, EvalError> {
        let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
        let inner = last(b.shape(), if op.transpose_b { 1 } else { 2 });
        let (rows, columns) = (last(shape, 2), last(shape, 1));
        let (a, mut out) = (T::read(a), vec![T::ZERO; size(shape)]);
        let left = Rows::new(&a, [rows, inner], op.transpose_a);
        multiply(&left, b, op.transpose_b, [inner, columns], &mut out);
        T::write(dtype, shape, &out)
    }
    let op = cx.fields::<Matmul<Value>>()?;
    let (shape, dtype) = result_shape::<Matmul>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, run(&op, cx, &shape, dtype))
}

fn define_matmul(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Matmul<Operand>>()?;
    let inner = last(&cx.tensor(1)?.shape, if op.transpose_b { 1 } else { 2 }) as i64;
    if op.transpose_a && op.transpose_b {
        return define_product_of_transposed(cx, inner, |_, i, k| {
            let mut at = with_last(i, k);
            let rank = at.len();
            at.swap(rank - 2, rank - 1);
            at
        });
    }
    let rank = cx.tensor(0)?.shape.len();
    let row = rank.saturating_sub(if op.transpose_a { 2 } else { 1 });
    define_product(
        cx,
        inner,
        Some([row, usize::from(op.transpose_b)]),
        |_, i, k| {
            let mut at = with_last(i, k);
            if op.transpose_a {
                let rank = at.len();
                at.swap(rank - 2, rank - 1);
            }
            at
        },
        |_, i, k| {
            let column = i.last().copied();
            let row = [k].into_iter();
            match op.transpose_b {
                true => column.into_iter().chain(row).collect(),
                false => row.chain(column).collect(),
            }
        },
    )
}

/// A sum over an axis of extent `inner` of products of what `left` says and the second operand, which is
/// stored transposed, as the first one is: neither has vectors along the result then, so that the second is
/// turned first.
fn define_product_of_transposed(
    cx: &mut DefineCx<'_>,
    inner: i64,
    left: impl FnOnce(&mut Expression<'_>, &[ValueId], ValueId) -> Vec<ValueId>,
) -> Defined {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let sums = accumulator(a.dtype, b.dtype, cx.result()?.1);
    let mut shape = b.shape.clone();
    let rank = shape.len();
    shape.swap(rank - 2, rank - 1);
    let name = cx.stage_of("turned");
    let turned = cx.builder.compute(&name, &shape, |e, i| {
        let mut at = i.to_vec();
        at.swap(rank - 2, rank - 1);
        e.load(&b, &at)
    });
    cx.reduce(&[inner], Combiner::Sum, |e, i, k| {
        let at = left(e, i, k[0]);
        let x = e.load(&a, &at);
        let x = e.cast(x, sums);
        let batch = (rank > 2).then(|| if turned.shape[0] == 1 { e.index(0) } else { i[0] });
        let at: Vec<ValueId> = batch.into_iter().chain([k[0]]).chain(i.last().copied()).collect();
        let y = e.load(&turned, &at);
        let y = e.cast(y, sums);
        e.mul(x, y)
    })
}

/// Matrix products of a batch: `out[b, i, j] = Σ_k x[b, i, k] * y[b, k, j]`.
///
/// With `tensor_a` `(B, M, K)` and `tensor_b` `(B, K, N)` the result is `(B, M, N)`; a batch of
/// one factor of extent 1 stands for all. The flags say which of them is stored transposed. Relay
/// operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.batch_matmul",
    infer = batch_matmul_relation,
    hooks(
        Gradient(pull_batch_matmul),
        Batch(batch_batch_matmul),
        FusionPattern::OutFusable,
        KernelRole::Anchor,
        Work(multiply_adds::<BatchMatmul>),
        Evaluate(evaluate_batch_matmul),
        Define(define_batch_matmul)
    )
)]
pub struct BatchMatmul<V = ValueId> {
    /// The first factors.
    pub tensor_a: V,
    /// The second factors.
    pub tensor_b: V,
    /// Element type of the result; that of `tensor_a` where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
    /// Whether `tensor_a` is `(B, K, M)`.
    #[default(false)]
    pub transpose_a: bool,
    /// Whether `tensor_b` is `(B, N, K)`.
    #[default(false)]
    pub transpose_b: bool,
}

fn batch_matmul_relation(op: BatchMatmul<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    require_rank("a first operand", a, 3)?;
    require_rank("a second operand", b, 3)?;
    let (mut x, mut y) = (a.shape.clone(), b.shape.clone());
    if op.transpose_a {
        x.swap(1, 2);
    }
    if op.transpose_b {
        y.swap(1, 2);
    }
    require(cx, "inner extent of the second operand", x[2], y[1])?;
    let batch = match (x[0], y[0]) {
        (Dim::Known(1), batch) | (batch, Dim::Known(1)) => batch,
        (x, y) => {
            require(cx, "batch of the second operand", x, y)?;
            if x == Dim::Any { y } else { x }
        }
    };
    Ok(Type::tensor([batch, x[1], y[2]], op.out_dtype.unwrap_or(a.dtype)))
}

fn evaluate_batch_matmul(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    fn run<T: Number>(
        op: &BatchMatmul<Value>,
        cx: &EvalCx<'_>,
        shape: &[i64],
        dtype: DType,
    ) -> Result<Value, EvalError> {
        let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
        let (x, y) = (a.shape(), b.shape());
        let inner = if op.transpose_a { x[1] } else { x[2] } as usize;
        let (rows, columns) = (shape[1] as usize, shape[2] as usize);
        let (a_size, b_size, out_size) = (rows * inner, inner * columns, rows * columns);
        let (a, mut out) = (T::read(a), vec![T::ZERO; size(shape)]);
        for (batch, out) in out.chunks_exact_mut(out_size.max(1)).enumerate() {
            // A batch of extent 1 stands for all.
            let a = &a[batch.min(x[0] as usize - 1) * a_size..][..a_size];
            let b = b.part(batch.min(y[0] as usize - 1) * b_size, b_size);
            let b = b.ok_or_else(|| EvalError::new("a factor lacks elements"))?;
            let left = Rows::new(a, [rows, inner], op.transpose_a);
            multiply(&left, &b, op.transpose_b, [inner, columns], out);
        }
        T::write(dtype, shape, &out)
    }
    let op = cx.fields::<BatchMatmul<Value>>()?;
    let (shape, dtype) = result_shape::<BatchMatmul>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, run(&op, cx, &shape, dtype))
}

fn define_batch_matmul(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<BatchMatmul<Operand>>()?;
    let (x, y) = (cx.tensor(0)?.shape, cx.tensor(1)?.shape);
    let inner = if op.transpose_a { x[1] } else { x[2] };
    // A batch of extent 1 stands for all.
    let batch = |e: &mut Expression<'_>, extent: i64, index: ValueId| match extent {
        1 => e.index(0),
        _ => index,
    };
    if op.transpose_a && op.transpose_b {
        return define_product_of_transposed(cx, inner, |e, i, k| {
            vec![batch(e, x[0], i[0]), k, i[1]]
        });
    }
    define_product(
        cx,
        inner,
        Some([if op.transpose_a { 1 } else { 2 }, if op.transpose_b { 2 } else { 1 }]),
        |e, i, k| {
            let (row, column) = if op.transpose_a { (k, i[1]) } else { (i[1], k) };
            vec![batch(e, x[0], i[0]), row, column]
        },
        |e, i, k| {
            let (row, column) = if op.transpose_b { (i[2], k) } else { (k, i[2]) };
            vec![batch(e, y[0], i[0]), row, column]
        },
    )
}

/// Adds a vector along one axis: `out[…, c, …] = data[…, c, …] + bias[c]`.
///
/// `bias` has the extent of `data` along `axis`; the result has the type of `data`. Relay operator
/// level 1.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.bias_add",
    infer = bias_add_relation,
    hooks(Batch(batch_bias_add), Gradient(pull_bias_add), FusionPattern::Broadcast, LayoutRule::Bias, Evaluate(evaluate_bias_add), Define(define_bias_add))
)]
pub struct BiasAdd<V = ValueId> {
    /// The input.
    pub data: V,
    /// What is added, a vector.
    pub bias: V,
    /// The axis; counted from the end where negative.
    #[default(1)]
    pub axis: i64,
}

fn bias_add_relation(op: BiasAdd<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    vectors_along(cx, op.axis, 1..2)?;
    Ok(op.data)
}

fn evaluate_bias_add(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<BiasAdd<Value>>()?;
    let (data, bias) = (cx.tensor(0)?, cx.tensor(1)?);
    dispatch!(data.dtype(), map_along(data, bias, op.axis, Number::plus))
}

fn define_bias_add(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<BiasAdd<Operand>>()?;
    let (data, bias) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = crate::relation::axis(op.axis, data.shape.len())?;
    cx.compute(|e, i| {
        let (x, y) = (e.load(&data, i), along(e, &bias, i, axis));
        e.add(x, y)
    })
}

/// `term` as a matrix: its axes but the last as one.
fn as_matrix(term: Term<'_>) -> Term<'_> {
    let shape = term.shape();
    let (columns, rows) = shape.split_last().unwrap_or((&1, &[]));
    term.reshape(&[rows.iter().product(), *columns])
}

fn batch_dense<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Dense<Term<'p>>>()?;
    batch_product(at, op.out_dtype, false, true)
}

fn batch_matmul<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<Matmul<Term<'p>>>()?;
    batch_product(at, op.out_dtype, op.transpose_a, op.transpose_b)
}

/// The product of a tensor with a matrix, each transposed where the flag says so: a product of pairs of matrices where
/// the second factor differs between examples.
fn batch_product<'p>(
    at: &Examples<'p>,
    out_dtype: Option<DType>,
    transpose_a: bool,
    transpose_b: bool,
) -> Option<Term<'p>> {
    if !at.over(1) {
        return Some(at.again(&at.operands(), at.attrs()));
    }
    let (a, tensor_b) = (at.led(0), at.operand(1).id());
    let shape = a.shape();
    let tensor_a = match at.rank(0) {
        2 => a,
        // The rows of all matrices lie one behind the other.
        _ if transpose_a => return None,
        _ => {
            let (inner, outer) = shape[1..].split_last()?;
            a.reshape(&[shape[0], outer.iter().product(), *inner])
        }
    };
    let tensor_a = tensor_a.id();
    let product =
        at.build(&BatchMatmul { tensor_a, tensor_b, out_dtype, transpose_a, transpose_b });
    let result = at.result().as_tensor()?.known_shape()?;
    Some(product.reshape(&[&[at.extent()], &result[..]].concat()))
}

fn batch_batch_matmul<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let result = at.result().as_tensor()?.known_shape()?;
    let pairs = *result.first()?;
    let operands = [0, 1].map(|index| {
        let operand = at.led(index);
        let shape = operand.shape();
        match (at.over(index), shape[1]) {
            // Each pair takes the same matrix.
            (false, 1) => at.operand(index),
            _ => {
                let matrices = [&[at.extent(), pairs], &shape[2..]].concat();
                let merged = [&[at.extent() * pairs], &shape[2..]].concat();
                operand.broadcast(&matrices).reshape(&merged)
            }
        }
    });
    let product = at.again(&operands, at.attrs());
    Some(product.reshape(&[&[at.extent()], &result[..]].concat()))
}

fn batch_bias_add<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let op = at.fields::<BiasAdd<Term<'p>>>()?;
    if !at.over(1) {
        return batch::along(at, 1);
    }
    let axis = crate::relation::axis(op.axis, at.rank(0)).ok()?;
    let mut shape = vec![1; at.rank(0) + 1];
    (shape[0], shape[axis + 1]) = (at.extent(), *op.bias.shape().get(1)?);
    let (lhs, rhs) = (op.data.id(), op.bias.reshape(&shape).id());
    Some(at.build(&Add { lhs, rhs }))
}

fn pull_dense(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Dense<Term<'_>>>() else { return };
    let change = |g: Term<'_>, like: Term<'_>| as_matrix(g.cast(like.dtype())).id();
    let product = |a, transpose_a, b, transpose_b| {
        let (tensor_a, tensor_b, units, out_dtype) = (a, b, None, None);
        at.build(&Matmul { tensor_a, tensor_b, units, out_dtype, transpose_a, transpose_b })
    };
    at.to(0, |g| {
        product(change(g, op.data), false, op.weight.id(), false).reshape(&op.data.shape())
    });
    at.to(1, |g| product(change(g, op.weight), true, as_matrix(op.data).id(), false));
}

/// The operands of the product that is the change of an operand: which they are, the change being
/// `None`, and whether each is transposed.
type Factors = [(Option<usize>, bool); 2];

/// The changes of both operands of a product of matrices.
fn factors(transpose_a: bool, transpose_b: bool) -> [Factors; 2] {
    let left = match transpose_a {
        false => [(None, false), (Some(1), !transpose_b)],
        true => [(Some(1), transpose_b), (None, true)],
    };
    let right = match transpose_b {
        false => [(Some(0), !transpose_a), (None, false)],
        true => [(None, true), (Some(0), transpose_a)],
    };
    [left, right]
}

fn pull_matmul(at: &Pullback<'_>) {
    let Some(op) = at.fields::<Matmul<Term<'_>>>() else { return };
    if op.tensor_a.rank() != 2 {
        return at.refuse("a left factor of more than 2 axes: write `nn.dense`");
    }
    for (index, [(a, transpose_a), (b, transpose_b)]) in
        factors(op.transpose_a, op.transpose_b).into_iter().enumerate()
    {
        at.to(index, |g| {
            let factor = |place: Option<usize>| place.map_or(g, |place| at.operand(place)).id();
            let (tensor_a, tensor_b, units, out_dtype) = (factor(a), factor(b), None, None);
            at.build(&Matmul { tensor_a, tensor_b, units, out_dtype, transpose_a, transpose_b })
        });
    }
}

fn pull_batch_matmul(at: &Pullback<'_>) {
    let Some(op) = at.fields::<BatchMatmul<Term<'_>>>() else { return };
    for (index, [(a, transpose_a), (b, transpose_b)]) in
        factors(op.transpose_a, op.transpose_b).into_iter().enumerate()
    {
        at.to(index, |g| {
            let factor = |place: Option<usize>| place.map_or(g, |place| at.operand(place)).id();
            let (tensor_a, tensor_b, out_dtype) = (factor(a), factor(b), None);
            let product = BatchMatmul { tensor_a, tensor_b, out_dtype, transpose_a, transpose_b };
            at.build(&product).sum_to(at.operand(index))
        });
    }
}

fn pull_bias_add(at: &Pullback<'_>) {
    let Some(op) = at.fields::<BiasAdd<Term<'_>>>() else { return };
    let rank = op.data.rank();
    let axis = op.axis.rem_euclid(rank.max(1) as i64) as usize;
    let others: Vec<usize> = (0..rank).filter(|other| *other != axis).collect();
    at.to(0, |g| g);
    at.to(1, |g| g.sum(&others, false));
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Dense>();
    registry.op::<ContribDensePack>();
    registry.op::<Matmul>();
    registry.op::<BatchMatmul>();
    registry.op::<BiasAdd>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_transposed_matrices() {
        let a = [1i64, 2, 3, 4, 5, 6];
        let b =
            |shape: &[i64]| TensorData::from_i64(DType::INT8, shape, &[1, 0, 2, 1, 0, 3]).unwrap();
        let product = |rows: &Rows<'_, i64>, b: &TensorData, transposed| {
            let mut out = vec![0; 4];
            multiply(rows, b, transposed, [3, 2], &mut out);
            out
        };
        // (2, 3) × (3, 2), and the transposes of a (3, 2) and a (2, 3) matrix.
        assert_eq!(product(&Rows::new(&a, [2, 3], false), &b(&[3, 2]), false), [5, 11, 14, 23]);
        assert_eq!(product(&Rows::new(&a, [2, 3], true), &b(&[2, 3]), true), [11, 16, 14, 20]);
        // Two matrices of one row.
        assert_eq!(product(&Rows::new(&a, [1, 3], true), &b(&[3, 2]), false), [5, 11, 14, 23]);
    }

    #[test]
    fn a_weight_is_refined() {
        let data = Type::tensor([Dim::parameter("n"), 8.into()], DType::FLOAT32);
        let operands = [data, Type::unknown()];
        let dense = Dense { data, weight: operands[1], units: Some(4), out_dtype: None };
        let mut cx = InferCx::new(&operands, ir_core::AttrDict::empty());
        let result = dense_relation(dense.clone(), &mut cx);
        assert_eq!(result.map(|ty| ty.to_string()), Ok("Tensor[(n, 4), float32]".to_string()));
        assert_eq!(cx.refinements[0], (1, Type::tensor([4, 8], DType::FLOAT32)));
        let stuck = dense_relation(Dense { units: None, ..dense }, &mut cx);
        assert_eq!(stuck, Err(Stop::Stuck));
    }
}
