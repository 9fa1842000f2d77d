//! Helpers of evaluators: exact arithmetic on elements, and walks over positions.
//!
//! Movement of elements is copying of bytes along [`Offsets`]; arithmetic is done in `i128` on
//! integers, then wrapped, and in `f64` on floats, then rounded to the element type.

use std::cmp::Ordering;

use ir_core::memory;
use ir_core::{DType, Dim, InferCx, OpFields, Scalar, Stop, TensorData, Type};
use relay::interpreter::{EvalCx, EvalError, ON_THE_WAY, Value};
use smallvec::SmallVec;

use super::relation::Dims;
pub use relay::interpreter::{Shape, shape_of};

/// The most elements that an evaluator makes. It guards against shapes that no machine holds.
pub const MAX_ELEMENTS: usize = 1 << 31;

/// Why an element that an offset names is there.
pub(crate) const WITHIN: &str = "offsets are within the shape that they were made for";

/// The number of elements of a shape. Errors on negative extents, absurd sizes, and where there is no
/// memory for them.
pub fn count(shape: &[i64]) -> Result<usize, EvalError> {
    let product = shape
        .iter()
        .try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?))
        .filter(|&n| n <= MAX_ELEMENTS);
    let elements = product.ok_or_else(|| {
        EvalError(format!("expected at most {MAX_ELEMENTS} elements, found the shape {shape:?}"))
    })?;
    memory::grant(elements.checked_mul(ON_THE_WAY))?;
    Ok(elements)
}

/// Row-major strides in elements.
pub fn strides(shape: &[i64]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = smallvec::smallvec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(shape[axis] as isize);
    }
    strides
}

/// Visits a shape in row-major order and yields, for each position, `start + Σ index · stride`.
pub struct Offsets {
    /// The axes but the last; those that one step walks through together are one.
    shape: Shape,
    strides: SmallVec<[isize; 4]>,
    index: Shape,
    /// Extent and stride of the last axis, and how much of it is left.
    row: i64,
    step: isize,
    left: i64,
    offset: isize,
    remaining: usize,
}

impl Offsets {
    /// A walk over `shape` with `strides`, as many as axes.
    pub fn new(shape: &[i64], strides: &[isize], start: isize) -> Result<Offsets, EvalError> {
        let remaining = count(shape)?;
        let mut merged: SmallVec<[(i64, isize); 4]> = SmallVec::new();
        for (&extent, &stride) in shape.iter().zip(strides).filter(|(extent, _)| **extent != 1) {
            match merged.last_mut() {
                Some(outer) if outer.1 == stride.wrapping_mul(extent as isize) => {
                    *outer = (outer.0.wrapping_mul(extent), stride);
                }
                _ => merged.push((extent, stride)),
            }
        }
        let (row, step) = merged.pop().unwrap_or((1, 0));
        Ok(Offsets {
            shape: merged.iter().map(|(extent, _)| *extent).collect(),
            strides: merged.iter().map(|(_, stride)| *stride).collect(),
            index: smallvec::smallvec![0; merged.len()],
            row,
            step,
            left: row,
            offset: start,
            remaining,
        })
    }

    /// Goes to the start of the next row, from the end of one.
    fn next_row(&mut self) {
        self.left = self.row;
        // A step that is undone below may leave the address space.
        self.offset = self.offset.wrapping_sub(self.step.wrapping_mul(self.row as isize));
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            self.offset = self.offset.wrapping_add(self.strides[axis]);
            if self.index[axis] < self.shape[axis] {
                break;
            }
            let row = self.strides[axis].wrapping_mul(self.shape[axis] as isize);
            self.offset = self.offset.wrapping_sub(row);
            self.index[axis] = 0;
        }
    }

    /// A walk over `to` that reads a tensor of shape `from` broadcast to it.
    pub fn broadcast(from: &[i64], to: &[i64]) -> Result<Offsets, EvalError> {
        let skipped = to.len().checked_sub(from.len());
        let fits = skipped.is_some_and(|skipped| {
            from.iter().zip(&to[skipped..]).all(|(&from, &to)| from == to || from == 1)
        });
        let Some(skipped) = skipped.filter(|_| fits) else {
            return Err(EvalError(format!(
                "expected a shape that broadcasts to {to:?}, found {from:?}"
            )));
        };
        let mut full: SmallVec<[isize; 4]> = smallvec::smallvec![0; to.len()];
        for (axis, stride) in strides(from).into_iter().enumerate() {
            if from[axis] != 1 {
                full[skipped + axis] = stride;
            }
        }
        Offsets::new(to, &full, 0)
    }
}

/// Elements that a walk visits one after the other.
enum Row<'a, T> {
    /// Neighbours.
    Elements(&'a [T]),
    /// The same one each time.
    One(T),
}

impl Offsets {
    /// How many steps from here on go to neighbours, or stay at one element; at least one.
    fn steady(&self) -> usize {
        let left = usize::try_from(self.left).unwrap_or(1);
        if matches!(self.step, 0 | 1) { left.min(self.remaining) } else { 1 }
    }

    /// What the next `steps` steps visit, which are steady ones; elements past the end are zeros.
    fn take_row<'a, T: Copy + Default>(&mut self, steps: usize, of: &'a [T]) -> Row<'a, T> {
        let start = self.offset as usize;
        let row = match of.get(start..start.saturating_add(steps)) {
            Some(row) if self.step == 1 => Row::Elements(row),
            _ => Row::One(of.get(start).copied().unwrap_or_default()),
        };
        self.remaining -= steps;
        self.offset = self.offset.wrapping_add(self.step.wrapping_mul(steps as isize));
        self.left -= steps as i64;
        if self.left == 0 {
            self.next_row();
        }
        row
    }
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.remaining = self.remaining.checked_sub(1)?;
        let offset = self.offset;
        self.offset = self.offset.wrapping_add(self.step);
        self.left -= 1;
        if self.left == 0 {
            self.next_row();
        }
        Some(offset as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

/// The tensor of `shape` whose elements are those of `data` at `offsets`. Errors when an offset is
/// past the end or their number does not fit.
pub fn pick(
    data: &TensorData,
    shape: &[i64],
    offsets: impl IntoIterator<Item = usize>,
) -> Result<TensorData, EvalError> {
    fn copy<const SIZE: usize>(
        data: &TensorData,
        count: usize,
        offsets: impl Iterator<Item = usize>,
    ) -> Option<Vec<u8>> {
        let (elements, _) = data.bytes().as_chunks::<SIZE>();
        let mut out: Vec<[u8; SIZE]> = Vec::with_capacity(count);
        for offset in offsets {
            out.push(*elements.get(offset)?);
        }
        Some(out.into_flattened())
    }
    let (size, count, offsets) = (data.dtype().bytes(), count(shape)?, offsets.into_iter());
    memory::grant(count.checked_mul(size))?;
    let bytes = match size {
        1 => copy::<1>(data, count, offsets),
        2 => copy::<2>(data, count, offsets),
        4 => copy::<4>(data, count, offsets),
        8 => copy::<8>(data, count, offsets),
        _ => {
            let mut bytes = Vec::with_capacity(count.saturating_mul(size));
            let mut elements = offsets.map(|offset| {
                let start = offset.checked_mul(size)?;
                bytes.extend_from_slice(data.bytes().get(start..start.checked_add(size)?)?);
                Some(())
            });
            elements.all(|found| found.is_some()).then_some(bytes)
        }
    };
    let Some(bytes) = bytes else {
        return Err(EvalError(format!("expected a position below {}", data.len())));
    };
    Ok(TensorData::from_bytes(data.dtype(), shape, bytes)?)
}

/// A tensor of `shape` filled with `value`.
pub fn filled(dtype: DType, shape: &[i64], value: Scalar) -> Result<TensorData, EvalError> {
    let one = TensorData::scalar(dtype, value);
    pick(&one, shape, std::iter::repeat_n(0, count(shape)?))
}

/// An integer element of type `dtype` as it is meant: `uint64` is not negative.
pub fn integer(value: Scalar, dtype: DType) -> i128 {
    value.as_integer(dtype)
}

/// An element of type `dtype` as a float.
pub fn real(value: Scalar, dtype: DType) -> f64 {
    match value {
        Scalar::Int(_) => integer(value, dtype) as f64,
        Scalar::Float(v) => v,
    }
}

/// An integer as an element, wrapped to 64 bits.
pub fn wrapped(value: i128) -> Scalar {
    Scalar::Int(value as i64)
}

/// The order of two elements of type `dtype`; `None` where one is NaN.
pub fn compare(a: Scalar, b: Scalar, dtype: DType) -> Option<Ordering> {
    match dtype.is_float() {
        true => a.as_f64().partial_cmp(&b.as_f64()),
        false => Some(integer(a, dtype).cmp(&integer(b, dtype))),
    }
}

/// A total order of elements of type `dtype`, with NaN above everything.
pub fn total_order(a: Scalar, b: Scalar, dtype: DType) -> Ordering {
    order_key(a, dtype).cmp(&order_key(b, dtype))
}

/// The number by whose order elements of type `dtype` are in [`total_order`].
pub fn order_key(value: Scalar, dtype: DType) -> u64 {
    const SIGN: u64 = 1 << 63;
    match value {
        Scalar::Float(number) if number.is_nan() => u64::MAX,
        Scalar::Float(number) => {
            // Zeros are equal; of other floats, the bits are in order, those of negative ones backwards.
            let bits = if number == 0.0 { 0 } else { number.to_bits() };
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        }
        Scalar::Int(number) if dtype.is_signed() => number as u64 ^ SIGN,
        Scalar::Int(number) => number as u64,
    }
}

/// Applies `f` to every element; results are cast to `dtype`.
pub fn map(
    data: &TensorData,
    dtype: DType,
    f: impl FnMut(Scalar) -> Scalar,
) -> Result<Value, EvalError> {
    let values = data.elements().map(f);
    Ok(TensorData::from_scalars(dtype, data.shape(), values)?.into())
}

/// Applies a real function to every element of the first operand. Integers go through `f64` and
/// come back truncated.
pub fn map_real(cx: &EvalCx<'_>, f: impl Fn(f64) -> f64) -> Result<Value, EvalError> {
    let data = cx.tensor(0)?;
    let dtype = data.dtype();
    map(data, dtype, |v| Scalar::Float(f(real(v, dtype))))
}

/// The shape that two known shapes broadcast to.
pub fn broadcast_shape(a: &[i64], b: &[i64]) -> Result<Shape, EvalError> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape: Shape = long.into();
    let skipped = long.len() - short.len();
    for (to, &from) in shape[skipped..].iter_mut().zip(short) {
        match (*to, from) {
            (1, _) => *to = from,
            (x, y) if x == y || y == 1 => {}
            _ => {
                return Err(EvalError(format!(
                    "expected shapes that broadcast, found {a:?} and {b:?}"
                )));
            }
        }
    }
    Ok(shape)
}

/// Applies `f` to the first two operands element by element, broadcasting; results are cast to
/// `dtype`.
pub fn zip(
    cx: &EvalCx<'_>,
    dtype: DType,
    mut f: impl FnMut(Scalar, Scalar) -> Result<Scalar, EvalError>,
) -> Result<Value, EvalError> {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    if lhs.shape() == rhs.shape() {
        let values: Result<Vec<Scalar>, EvalError> =
            lhs.elements().zip(rhs.elements()).map(|(a, b)| f(a, b)).collect();
        return Ok(TensorData::from_scalars(dtype, lhs.shape(), values?)?.into());
    }
    let shape = broadcast_shape(lhs.shape(), rhs.shape())?;
    let lhs_at = Offsets::broadcast(lhs.shape(), &shape)?;
    let rhs_at = Offsets::broadcast(rhs.shape(), &shape)?;
    let values: Result<Vec<Scalar>, EvalError> = lhs_at
        .zip(rhs_at)
        .map(|(i, j)| {
            let element = |tensor: &TensorData, at| tensor.element(at).expect(WITHIN);
            f(element(lhs, i), element(rhs, j))
        })
        .collect();
    Ok(TensorData::from_scalars(dtype, &shape, values?)?.into())
}

/// Applies `f` to the first two operands, of `float32`, as [`zip()`] does, only faster: rounding once
/// more after arithmetic in `f64` changes nothing.
pub fn zip_float32(cx: &EvalCx<'_>, f: impl Fn(f64, f64) -> f64) -> Result<Value, EvalError> {
    let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
    let (a, b) = (lhs.bytes().as_chunks().0, rhs.bytes().as_chunks().0);
    let of = |element: [u8; 4]| f64::from(f32::from_ne_bytes(element));
    let both = |a: [u8; 4], b: [u8; 4]| (f(of(a), of(b)) as f32).to_ne_bytes();
    if lhs.shape() == rhs.shape() {
        let values: Vec<[u8; 4]> = a.iter().zip(b).map(|(a, b)| both(*a, *b)).collect();
        let bytes = values.into_flattened();
        return Ok(TensorData::from_bytes(DType::FLOAT32, lhs.shape(), bytes)?.into());
    }
    let shape = broadcast_shape(lhs.shape(), rhs.shape())?;
    let mut lhs_at = Offsets::broadcast(lhs.shape(), &shape)?;
    let mut rhs_at = Offsets::broadcast(rhs.shape(), &shape)?;
    let mut values: Vec<[u8; 4]> = Vec::with_capacity(lhs_at.remaining);
    while lhs_at.remaining > 0 {
        let steps = lhs_at.steady().min(rhs_at.steady());
        let (a, b) = (lhs_at.take_row(steps, a), rhs_at.take_row(steps, b));
        match (a, b) {
            (Row::Elements(a), Row::Elements(b)) => {
                values.extend(a.iter().zip(b).map(|(a, b)| both(*a, *b)));
            }
            (Row::Elements(a), Row::One(b)) => values.extend(a.iter().map(|a| both(*a, b))),
            (Row::One(a), Row::Elements(b)) => values.extend(b.iter().map(|b| both(a, *b))),
            (Row::One(a), Row::One(b)) => values.extend(std::iter::repeat_n(both(a, b), steps)),
        }
    }
    Ok(TensorData::from_bytes(DType::FLOAT32, &shape, values.into_flattened())?.into())
}

/// The type of a run-time value. Errors on values other than tensors and tuples of tensors.
pub fn type_of(value: &Value) -> Result<Type, EvalError> {
    if let Some(tensor) = value.as_tensor() {
        return Ok(tensor.ty());
    }
    Ok(Type::tuple(tensors(value)?.into_iter().map(TensorData::ty)))
}

/// The fields of a tuple of tensors.
pub fn tensors(value: &Value) -> Result<Vec<&TensorData>, EvalError> {
    let fields = value.as_tuple().and_then(|fields| fields.iter().map(Value::as_tensor).collect());
    fields.ok_or_else(|| EvalError::new("expected a tuple of tensors"))
}

/// The result type that `relation` gives for the run-time types of the operands. It repeats at run
/// time the checks that `?` left open, and keeps shapes in one place.
pub fn result_type<T: OpFields<Type>>(
    cx: &EvalCx<'_>,
    relation: impl Fn(T, &mut InferCx<'_>) -> Result<Type, Stop>,
) -> Result<Type, EvalError> {
    let types: Vec<Type> = cx.operands.iter().map(type_of).collect::<Result<_, _>>()?;
    let fields = T::decode(&types, cx.attrs)?;
    Ok(relation(fields, &mut InferCx::new(&types, cx.attrs))?)
}

/// Known extents as dimensions of a type.
pub fn dims(shape: &[i64]) -> Dims {
    shape.iter().copied().map(Dim::Known).collect()
}

/// As [`result_type`], for a result that is one tensor: its shape.
pub fn result_shape<T: OpFields<Type>>(
    cx: &EvalCx<'_>,
    relation: impl Fn(T, &mut InferCx<'_>) -> Result<Type, Stop>,
) -> Result<Shape, EvalError> {
    shape_of(result_type(cx, relation)?)
}

/// Extents that are all known, as numbers. Errors where one is not.
pub fn known(dims: &[Dim]) -> Result<Shape, EvalError> {
    let shape: Option<Shape> = dims.iter().map(|dim| dim.known()).collect();
    shape.ok_or_else(|| EvalError::new("expected known extents"))
}
