//! Random values of given types, the same for the same seed on every machine.

use std::hash::{DefaultHasher, Hash, Hasher};

use ir_core::types::TypeData;
use ir_core::{DType, DTypeKind, Scalar, TensorData, TensorType, Type};
use relay::interpreter::Value;

/// The extent that stands for a symbolic or unknown one. One for all, so that shapes that must
/// agree do.
const OPEN_EXTENT: i64 = 3;

/// The most elements of a filled tensor.
const MAX_ELEMENTS: i64 = 1 << 28;

/// A sequence of random numbers (SplitMix64, Steele, Lea and Flood 2014).
pub(super) struct Random(u64);

impl Random {
    /// The sequence for `name` under `seed`.
    pub(super) fn new(seed: u64, name: &str) -> Random {
        // Fixed keys: the same hash everywhere.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Random(seed ^ hasher.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Floats are uniform in -1 to 1, integers in 0 to 3.
    fn scalar(&mut self, dtype: DType) -> Scalar {
        let bits = self.next();
        match dtype.kind() {
            DTypeKind::Float | DTypeKind::BFloat => {
                Scalar::Float((bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
            }
            _ if dtype.bits() == 1 => Scalar::Int((bits & 1) as i64),
            _ => Scalar::Int((bits & 3) as i64),
        }
    }

    fn tensor(&mut self, ty: &TensorType) -> Result<TensorData, String> {
        let shape: Vec<i64> =
            ty.shape.iter().map(|dim| dim.known().unwrap_or(OPEN_EXTENT)).collect();
        let count = shape
            .iter()
            .try_fold(i64::from(ty.dtype.lanes()), |n, extent| n.checked_mul(*extent))
            .filter(|count| (0..=MAX_ELEMENTS).contains(count))
            .ok_or_else(|| format!("a tensor of shape {shape:?} is too large to fill"))?;
        let scalars = (0..count).map(|_| self.scalar(ty.dtype));
        TensorData::from_scalars(ty.dtype, &shape, scalars).map_err(|error| error.to_string())
    }

    /// A value of type `ty`. The error is a message, where `ty` is not made of tensors and tuples.
    pub(super) fn value(&mut self, ty: Type) -> Result<Value, String> {
        enum Step {
            Make(Type),
            Tuple(usize),
        }
        let mut pending = vec![Step::Make(ty)];
        let mut done: Vec<Value> = Vec::new();
        while let Some(step) = pending.pop() {
            match step {
                Step::Tuple(count) => {
                    let fields = done.split_off(done.len() - count);
                    done.push(Value::tuple(fields));
                }
                Step::Make(ty) => match ty.data() {
                    TypeData::Tensor(tensor) => done.push(self.tensor(tensor)?.into()),
                    TypeData::Tuple(fields) => {
                        pending.push(Step::Tuple(fields.len()));
                        pending.extend(fields.iter().rev().map(|field| Step::Make(*field)));
                    }
                    _ => return Err(format!("there are no random values of type {ty}")),
                },
            }
        }
        Ok(done.pop().unwrap_or(Value::unit()))
    }
}
