//! Terms: values of the program that rules compute with, or tensors of which all elements are one
//! number, which are known while rules are applied and seldom written.

use std::fmt;

use ir_core::{DType, Dim, OpFields, Scalar, Symbol, TensorData, TensorType, Type, ValueId};
use relay::language::Constant;

use super::Emit;
use crate::attributes::Integers;
use crate::create::{Full, Ones, Zeros};
use crate::elementwise::Cast;
use crate::index::gather::Where;
use crate::index::slice::{SliceMode, StridedSlice};
use crate::nn::linear::Matmul;
use crate::reduce::{Axes, Sum};
use crate::shape::{BroadcastTo, Reshape, Transpose};

/// A tensor in a rule.
#[derive(Clone, Copy)]
pub struct Term<'p> {
    pub(super) emit: &'p dyn Emit,
    pub(super) ty: Type,
    pub(super) of: Of,
}

/// What a term is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Of {
    /// A value of the program.
    Value(ValueId),
    /// A tensor of which all elements are this number.
    Filled(f64),
}

impl fmt::Debug for Term<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.of, self.ty)
    }
}

impl<'p> Term<'p> {
    /// A value of the program.
    pub fn value(emit: &'p dyn Emit, value: ValueId, ty: Type) -> Term<'p> {
        Term { emit, ty, of: Of::Value(value) }
    }

    /// A tensor of type `ty` of which all elements are `number`.
    pub fn filled(emit: &'p dyn Emit, number: f64, ty: Type) -> Term<'p> {
        Term { emit, ty, of: Of::Filled(number) }
    }

    /// The result of an operation.
    pub fn build<T: OpFields<ValueId>>(emit: &'p dyn Emit, op: &T) -> Term<'p> {
        let (value, ty) = emit.emit(Symbol::new(T::NAME), &op.operands(), op.attrs());
        Term::value(emit, value, ty)
    }

    /// The scalar `number` of the element type of this term.
    pub fn number(self, number: f64) -> Term<'p> {
        Term::filled(self.emit, number, Type::scalar(self.dtype()))
    }

    /// The tensor of the type of this term of which all elements are `number`.
    pub fn like(self, number: f64) -> Term<'p> {
        Term::filled(self.emit, number, self.ty)
    }

    /// The tensor of another type of which all elements are the number that this one's are.
    pub fn of_type(self, ty: Type) -> Term<'p> {
        Term { ty, ..self }
    }

    /// The sum of this and `other`, which are changes of data.
    pub(super) fn plus_data(self, other: Term<'p>) -> Term<'p> {
        let (value, ty) = self.emit.add_data(self.id(), other.id());
        Term::value(self.emit, value, ty)
    }

    /// Its type.
    pub fn ty(self) -> Type {
        self.ty
    }

    pub(super) fn tensor(self) -> Option<&'static TensorType> {
        self.ty.as_tensor()
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.tensor().map_or(DType::FLOAT32, |tensor| tensor.dtype)
    }

    /// Its extents. Where one is not known, that is refused, and it is 1.
    pub fn shape(self) -> Vec<i64> {
        let dims = self.tensor().map_or(&[][..], |tensor| &tensor.shape);
        if dims.iter().any(|dim| dim.known().is_none()) {
            self.emit.refuse(format!("a tensor of unknown extents, {}", self.ty));
        }
        dims.iter().map(|dim| dim.known().unwrap_or(1)).collect()
    }

    /// The number of axes.
    pub fn rank(self) -> usize {
        self.tensor().map_or(0, TensorType::rank)
    }

    /// The number of elements.
    pub fn size(self) -> i64 {
        self.shape().iter().product()
    }

    /// Whether all elements are `number`, which is known.
    pub fn is(self, number: f64) -> bool {
        self.of == Of::Filled(number)
    }

    /// Its elements, where it is a value of the program and they are known.
    pub fn known(self) -> Option<TensorData> {
        match self.of {
            Of::Value(value) => self.emit.known(value),
            Of::Filled(_) => None,
        }
    }

    /// The value of the program that it is; a number is written.
    pub fn id(self) -> ValueId {
        let number = match self.of {
            Of::Value(value) => return value,
            Of::Filled(number) => number,
        };
        let dtype = self.dtype();
        let scalar = TensorData::scalar(dtype, Scalar::Float(number));
        if self.rank() == 0 {
            return self.emit.constant(scalar);
        }
        let shape = Integers(self.shape());
        let term = match number {
            0.0 => Term::build(self.emit, &Zeros { shape, dtype }),
            1.0 => Term::build(self.emit, &Ones { shape, dtype }),
            _ => {
                let fill_value = self.emit.constant(scalar);
                Term::build(self.emit, &Full { fill_value, shape, dtype: None })
            }
        };
        match term.of {
            Of::Value(value) => value,
            Of::Filled(_) => self.emit.constant(TensorData::scalar(dtype, Scalar::Float(number))),
        }
    }

    /// The number as a scalar, where all elements are one and operators broadcast; else the value.
    pub(super) fn broadcast_id(self) -> ValueId {
        match self.of {
            Of::Value(value) => value,
            Of::Filled(number) => self.number(number).id(),
        }
    }

    fn of_shape(self, shape: &[i64]) -> Type {
        Type::tensor(shape.iter().map(|extent| Dim::Known(*extent)), self.dtype())
    }

    /// The same elements in another shape.
    pub fn reshape(self, shape: &[i64]) -> Term<'p> {
        match self.of {
            Of::Filled(number) => Term::filled(self.emit, number, self.of_shape(shape)),
            Of::Value(_) if self.shape() == shape => self,
            Of::Value(data) => Term::build(
                self.emit,
                &Reshape { data, newshape: shape.to_vec(), allowzero: shape.contains(&0) },
            ),
        }
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    pub fn transpose(self, axes: &[usize]) -> Term<'p> {
        let shape = self.shape();
        let moved: Vec<i64> = axes.iter().map(|axis| shape[*axis]).collect();
        match self.of {
            Of::Filled(number) => Term::filled(self.emit, number, self.of_shape(&moved)),
            Of::Value(_) if axes.iter().enumerate().all(|(index, axis)| index == *axis) => self,
            Of::Value(data) => {
                let axes = Some(axes.iter().map(|axis| *axis as i64).collect());
                Term::build(self.emit, &Transpose { data, axes })
            }
        }
    }

    /// Broadcast to `shape`.
    pub fn broadcast(self, shape: &[i64]) -> Term<'p> {
        match self.of {
            Of::Filled(number) => Term::filled(self.emit, number, self.of_shape(shape)),
            Of::Value(_) if self.shape() == shape => self,
            Of::Value(data) => {
                let shape = Integers(shape.to_vec());
                Term::build(self.emit, &BroadcastTo { data, shape, dtype: None })
            }
        }
    }

    /// The sum over `axes`, which stay with extent 1 where `keep`.
    pub fn sum(self, axes: &[usize], keep: bool) -> Term<'p> {
        if axes.is_empty() {
            return self;
        }
        if let Of::Filled(number) = self.of {
            let shape = self.shape();
            let count: i64 = axes.iter().map(|axis| shape[*axis]).product();
            let extents = shape.iter().enumerate().filter_map(|(axis, extent)| {
                match (axes.contains(&axis), keep) {
                    (false, _) => Some(*extent),
                    (true, keep) => keep.then_some(1),
                }
            });
            let extents: Vec<i64> = extents.collect();
            return Term::filled(self.emit, number * count as f64, self.of_shape(&extents));
        }
        let axis = Some(Integers(axes.iter().map(|axis| *axis as i64).collect()));
        Term::build(
            self.emit,
            &Sum { data: self.id(), axes: Axes { axis, keepdims: keep, exclude: false } },
        )
    }

    /// What was broadcast from the shape of `operand`, summed to it.
    pub fn sum_to(self, operand: Term<'p>) -> Term<'p> {
        // Extents that are not known are those of the operand, or 1 against them.
        if self.tensor().map(|ty| &ty.shape) == operand.tensor().map(|ty| &ty.shape) {
            return self;
        }
        let (from, to) = (self.shape(), operand.shape());
        let front = from.len().saturating_sub(to.len());
        let stretched =
            |axis: &usize| *axis < front || (to[*axis - front] == 1 && from[*axis] != 1);
        let axes: Vec<usize> = (0..from.len()).filter(stretched).collect();
        self.sum(&axes, front == 0).reshape(&to)
    }

    /// The number 1 where `condition` holds, 0 elsewhere, times this term: `where(condition, self, 0)`.
    pub fn masked(self, condition: Term<'p>) -> Term<'p> {
        condition.choose(self, self.number(0.0))
    }

    /// Elements of `x` where this term holds, elsewhere of `y`.
    pub fn choose(self, x: Term<'p>, y: Term<'p>) -> Term<'p> {
        if let (Of::Filled(a), Of::Filled(b)) = (x.of, y.of)
            && a == b
        {
            return x;
        }
        let dims = |term: Term<'p>| term.tensor().map_or(&[][..], |tensor| &tensor.shape);
        // A number is written as large as it is where nothing else is.
        let operand = |of: Term<'p>, other: Term<'p>| {
            let is_as_large = |value: Term<'p>| dims(value) == dims(of);
            let is_value = matches!(other.of, Of::Value(_));
            let is_met = is_as_large(self) || is_value && is_as_large(other);
            if dims(of).is_empty() || is_met { of.broadcast_id() } else { of.id() }
        };
        let (x, y) = (operand(x, y), operand(y, x));
        Term::build(self.emit, &Where { condition: self.id(), x, y })
    }

    /// Converted to elements of `dtype`.
    pub fn cast(self, dtype: DType) -> Term<'p> {
        if self.dtype() == dtype {
            return self;
        }
        match self.of {
            Of::Filled(number) => {
                let shape = self.tensor().map_or(&[][..], |tensor| &tensor.shape);
                Term::filled(self.emit, number, Type::tensor(shape.iter().copied(), dtype))
            }
            Of::Value(data) => Term::build(self.emit, &Cast { data, dtype }),
        }
    }

    /// The elements from `begin` on in steps of `strides`, as many as `counts` says, per axis.
    pub fn slice(self, begin: &[i64], counts: &[i64]) -> Term<'p> {
        if self.shape() == counts {
            return self;
        }
        if let Of::Filled(number) = self.of {
            return Term::filled(self.emit, number, self.of_shape(counts));
        }
        let end = begin.iter().zip(counts).map(|(begin, count)| begin + count).collect();
        let slice = StridedSlice {
            data: self.id(),
            begin: Integers(begin.to_vec()),
            end: Integers(end),
            strides: None,
            slice_mode: SliceMode::End,
            axes: None,
        };
        Term::build(self.emit, &slice)
    }

    /// The product of two matrices, each transposed where the flag beside it says so.
    pub fn matmul(self, transpose_a: bool, other: Term<'p>, transpose_b: bool) -> Term<'p> {
        let (tensor_a, tensor_b) = (self.id(), other.id());
        let (units, out_dtype) = (None, None);
        let product = Matmul { tensor_a, tensor_b, units, out_dtype, transpose_a, transpose_b };
        Term::build(self.emit, &product)
    }

    /// The constant `value`.
    pub fn constant(self, value: TensorData) -> Term<'p> {
        let ty = Constant { value: value.clone() }.value.ty();
        Term::value(self.emit, self.emit.constant(value), ty)
    }
}
