//! How much an operator computes.

use std::sync::{LazyLock, Mutex, PoisonError};

use ir_core::{AttrDict, Dim, Op, OpFields, Registry, Symbol, TensorType, Type, TypeData, ValueId};
use relay::define::define_alone;
use rustc_hash::FxHashMap;

/// No arithmetic: [`Work`](ir_core::Work) of operators that give their operand another shape.
pub(crate) fn nothing(_: &[Type], _: AttrDict, _: Type) -> f64 {
    0.0
}

/// What a use of an operator is counted by.
type Key = (Symbol, Vec<Type>, AttrDict, Type);

/// What was counted before. It grows no more than the types and dictionaries do, which are kept for
/// the whole process as well.
static COUNTED: LazyLock<Mutex<FxHashMap<Key, f64>>> = LazyLock::new(Mutex::default);

/// [`Work`](ir_core::Work) of the operator `T`, which multiplies and adds: two operations for each
/// element that its [definition](relay::define::Define) reduces. Unknown extents count as 1. Where
/// the definition refuses these operands, one for each element of the result.
pub fn multiply_adds<T: Op>(operands: &[Type], attrs: AttrDict, result: Type) -> f64 {
    let name = Symbol::new(<T as OpFields<ValueId>>::NAME);
    let key = (name, operands.to_vec(), attrs, result);
    let known = COUNTED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    if let Some(known) = known {
        return known;
    }
    let types: Vec<Type> = operands.iter().map(|ty| closed(*ty)).collect();
    let counted = match define_alone(&Registry::new(), &T::info(), &types, attrs, closed(result)) {
        Ok(function) => 2.0 * te::compute::reduced(&function),
        Err(_) => result.as_tensor().map_or(1.0, elements),
    };
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, counted);
    counted
}

fn elements(tensor: &TensorType) -> f64 {
    tensor.shape.iter().map(|dim| dim.known().unwrap_or(1) as f64).product()
}

/// `ty` with 1 for the extents that are not known.
fn closed(ty: Type) -> Type {
    match ty.data() {
        TypeData::Tensor(tensor) => {
            let shape = tensor.shape.iter().map(|dim| Dim::Known(dim.known().unwrap_or(1)));
            Type::tensor(shape, tensor.dtype)
        }
        // Tuples of operators hold tensors.
        TypeData::Tuple(fields) => {
            Type::tuple(fields.iter().map(|field| match field.as_tensor() {
                Some(_) => closed(*field),
                None => *field,
            }))
        }
        _ => ty,
    }
}

#[cfg(test)]
mod tests {
    use ir_core::DType;

    use super::*;
    use crate::nn::convolution::{ContribConv2dNchwc, Conv2d};

    #[test]
    fn a_convolution_is_as_much_work_in_any_layout() {
        let ty = |shape: &[i64]| Type::tensor(shape.iter().copied(), DType::FLOAT32);
        let attrs = |layouts: &[(&str, &str)]| {
            let layouts = layouts.iter().map(|(key, layout)| (*key, layout.to_string()));
            layouts.fold(AttrDict::empty(), |attrs, (key, layout)| attrs.with(key, &layout))
        };
        let expected = f64::from(2 * 16 * 4 * 4 * 8 * 3 * 3);
        for (layout, weight) in
            [("OIHW", &[16, 8, 3, 3]), ("OHWI", &[16, 3, 3, 8]), ("HWIO", &[3, 3, 8, 16])]
        {
            let operands = [ty(&[1, 8, 6, 6]), ty(weight)];
            let attrs = attrs(&[("kernel_layout", layout)]);
            let work = multiply_adds::<Conv2d>(&operands, attrs, ty(&[1, 16, 4, 4]));
            assert_eq!(work, expected, "{layout}");
        }
        let operands = [ty(&[1, 1, 6, 6, 8]), ty(&[4, 1, 3, 3, 8, 4])];
        let attrs = attrs(&[
            ("data_layout", "NCHW8c"),
            ("kernel_layout", "OIHW8i4o"),
            ("out_layout", "NCHW4c"),
        ]);
        let result = ty(&[1, 4, 4, 4, 4]);
        assert_eq!(multiply_adds::<ContribConv2dNchwc>(&operands, attrs, result), expected);
    }
}
