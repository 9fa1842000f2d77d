//! Type relations shared by several operators.
//!
//! A relation named in `#[op(infer = …)]` takes the declared fields, which the general ones here
//! ignore. The checks that return `Result<_, String>` serve relations and evaluators alike.

use ir_core::registry::{FoldCx, Folded};
use ir_core::{Attr, AttrData, DType, Dim, DimExprData, DimOp, InferCx, Stop, TensorType, Type};
use smallvec::SmallVec;

/// Extents of a tensor type.
pub type Dims = SmallVec<[Dim; 4]>;

/// The result has the type of the first operand, a tensor.
pub fn identity<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    cx.tensor(0)?;
    Ok(cx.operands[0])
}

/// As [`identity`], on integers.
pub fn identity_integers<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    expect_integers(cx.tensor(0)?)?;
    Ok(cx.operands[0])
}

/// The result is `bool` of the shape of the first operand.
pub fn predicate<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let data = cx.tensor(0)?;
    Ok(Type::tensor(data.shape.iter().copied(), DType::BOOL))
}

/// Two operands of one element type; shapes broadcast.
pub fn broadcast<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    let dtype = same_dtype(lhs, rhs)?;
    Ok(Type::tensor(broadcast_dims(cx, &lhs.shape, &rhs.shape)?, dtype))
}

/// As [`broadcast`], with a result of `bool`.
pub fn broadcast_compare<T>(_op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    same_dtype(lhs, rhs)?;
    Ok(Type::tensor(broadcast_dims(cx, &lhs.shape, &rhs.shape)?, DType::BOOL))
}

/// As [`broadcast`], on integers.
pub fn broadcast_integers<T>(op: T, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    expect_integers(cx.tensor(0)?)?;
    broadcast(op, cx)
}

/// The element type that both tensors have.
pub fn same_dtype(a: &TensorType, b: &TensorType) -> Result<DType, Stop> {
    if a.dtype != b.dtype {
        return Err(Stop::Error(format!(
            "expected operands of one element type, found {} and {}",
            a.dtype, b.dtype
        )));
    }
    Ok(a.dtype)
}

/// Requires an integer element type (or `bool`).
pub fn expect_integers(tensor: &TensorType) -> Result<(), Stop> {
    match tensor.dtype.is_integer() {
        true => Ok(()),
        false => Err(Stop::Error(format!("expected integer elements, found {}", tensor.dtype))),
    }
}

/// Requires a floating-point element type.
pub fn expect_floats(tensor: &TensorType) -> Result<(), Stop> {
    match tensor.dtype.is_float() {
        true => Ok(()),
        false => Err(Stop::Error(format!("expected float elements, found {}", tensor.dtype))),
    }
}

/// Requires an element type.
pub fn expect_dtype(tensor: &TensorType, dtype: DType) -> Result<(), Stop> {
    match tensor.dtype == dtype {
        true => Ok(()),
        false => Err(Stop::Error(format!("expected elements of {dtype}, found {}", tensor.dtype))),
    }
}

/// Requires a rank.
pub fn expect_rank(tensor: &TensorType, rank: usize) -> Result<(), Stop> {
    match tensor.rank() == rank {
        true => Ok(()),
        false => {
            Err(Stop::Error(format!("expected a tensor of rank {rank}, found {}", tensor.rank())))
        }
    }
}

/// The shape that two shapes broadcast to, aligned at the last axis. An extent of 1 gives way to
/// any other; `?` gives way to any but 1.
pub fn broadcast_dims(cx: &mut InferCx<'_>, a: &[Dim], b: &[Dim]) -> Result<Dims, Stop> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut dims: Dims = long.into();
    let skipped = long.len() - short.len();
    for (to, &from) in dims[skipped..].iter_mut().zip(short) {
        *to = broadcast_dim(cx, *to, from).map_err(|stop| match stop {
            Stop::Stuck => Stop::Stuck,
            Stop::Error(_) => Stop::Error(format!(
                "expected shapes that broadcast, found {} and {}",
                display_dims(a),
                display_dims(b)
            )),
        })?;
    }
    Ok(dims)
}

fn broadcast_dim(cx: &mut InferCx<'_>, a: Dim, b: Dim) -> Result<Dim, Stop> {
    match (a, b) {
        (Dim::Known(1), other) | (other, Dim::Known(1)) => Ok(other),
        _ if a == b => Ok(a),
        (Dim::Any, other) | (other, Dim::Any) => Ok(other),
        // An unknown of the running inference may still turn out to be 1.
        _ if is_variable(a) || is_variable(b) => Err(Stop::Stuck),
        _ => equal_dim(cx, a, b),
    }
}

/// Whether `dim` is an unknown of the running inference.
pub fn is_variable(dim: Dim) -> bool {
    matches!(dim, Dim::Expr(expr) if matches!(expr.data(), DimExprData::Variable(_)))
}

/// Requires two extents to be equal and returns the one that says more.
pub fn equal_dim(cx: &mut InferCx<'_>, a: Dim, b: Dim) -> Result<Dim, Stop> {
    cx.require_equal(a, b)?;
    Ok(match (a, b) {
        (Dim::Known(_), _) | (_, Dim::Any) => a,
        _ => b,
    })
}

/// Requires two shapes to be equal and returns the extents that say more.
pub fn equal_dims(cx: &mut InferCx<'_>, a: &[Dim], b: &[Dim]) -> Result<Dims, Stop> {
    let different = || {
        Stop::Error(format!(
            "expected equal shapes, found {} and {}",
            display_dims(a),
            display_dims(b)
        ))
    };
    if a.len() != b.len() {
        return Err(different());
    }
    a.iter().zip(b).map(|(&a, &b)| equal_dim(cx, a, b).map_err(|_| different())).collect()
}

/// A shape as `(2, n, ?)`.
pub fn display_dims(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    match &dims[..] {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}

/// The product of extents.
pub fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Known(1), |a, &b| Dim::binary(DimOp::Mul, a, b))
}

/// An axis counted from the front; a negative one counts from the back.
pub fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    match from_front.and_then(|a| usize::try_from(a).ok()) {
        Some(a) if a < rank => Ok(a),
        _ => Err(match rank {
            0 => format!("expected an axis, found {axis} of a scalar, which has none"),
            _ => format!("expected an axis from -{rank} to {}, found {axis}", rank - 1),
        }),
    }
}

/// Distinct axes counted from the front.
pub fn axes(given: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>, String> {
    let mut axes: SmallVec<[usize; 4]> = SmallVec::new();
    for &a in given {
        let counted = axis(a, rank)?;
        if axes.contains(&counted) {
            return Err(format!("expected distinct axes, found axis {a} twice"));
        }
        axes.push(counted);
    }
    Ok(axes)
}

/// For every axis, whether a reduction over `given` runs over it: those not given where `exclude`
/// is set; all axes where none are given, whatever `exclude` says.
pub fn reduced_axes(
    given: Option<&[i64]>,
    exclude: bool,
    rank: usize,
) -> Result<SmallVec<[bool; 4]>, String> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        return Ok(smallvec::smallvec![true; rank]);
    };
    let mut reduced: SmallVec<[bool; 4]> = smallvec::smallvec![exclude; rank];
    for a in axes(given, rank)? {
        reduced[a] = !exclude;
    }
    Ok(reduced)
}

/// The shape that is left after a reduction.
pub fn reduced_dims(dims: &[Dim], reduced: &[bool], keepdims: bool) -> Dims {
    let kept = dims.iter().zip(reduced).filter_map(|(&dim, &reduced)| match (reduced, keepdims) {
        (false, _) => Some(dim),
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
    });
    kept.collect()
}

/// The extents that an attribute gives; errors on a negative one.
pub fn shape_attr(shape: &[i64]) -> Result<Dims, String> {
    let dim = |&n: &i64| match n >= 0 {
        true => Ok(Dim::Known(n)),
        false => Err(format!("expected extents of at least 0, found {n}")),
    };
    shape.iter().map(dim).collect()
}

/// The extents that a vector of extents stands for while its elements are unknown: all `?`.
pub fn open_dims(shape: &TensorType) -> Result<Dims, Stop> {
    expect_integers(shape)?;
    expect_rank(shape, 1)?;
    match shape.shape[0].known() {
        Some(rank @ 0..=MAX_RANK) => Ok(smallvec::smallvec![Dim::Any; rank as usize]),
        _ => Err(Stop::Error(format!(
            "expected a vector of at most {MAX_RANK} extents, found {} elements",
            shape.shape[0]
        ))),
    }
}

/// The most axes of a tensor that an operator makes.
pub const MAX_RANK: i64 = 1_000;

/// The elements of operand `index` as integers, where it is a known constant.
pub fn constant_integers(cx: &InferCx<'_>, index: usize) -> Option<Vec<i64>> {
    cx.constant(index).and_then(integers)
}

/// The elements of a constant as integers.
pub fn integers(constant: Attr) -> Option<Vec<i64>> {
    match constant.data() {
        AttrData::Tensor(tensor) => Some(tensor.to_i64()),
        _ => None,
    }
}

/// Folds an operation that does nothing where the type stays the same to its first operand.
pub fn fold_same_type(cx: &FoldCx<'_>) -> Option<Folded> {
    let data = cx.operand(0);
    let ty = cx.body.ty(data);
    let facts = ty.facts();
    let sure = !facts.has_any && !facts.has_unknown && !facts.has_variable;
    (sure && cx.body.ty(cx.body.result(cx.op, 0)) == ty).then_some(Folded::Value(data))
}

/// Folds an operation that always returns its first operand.
pub fn fold_first(cx: &FoldCx<'_>) -> Option<Folded> {
    Some(Folded::Value(cx.operand(0)))
}
