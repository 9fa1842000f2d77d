//! Tensors of texts while a model is imported.

use std::rc::Rc;

use ir_core::{AttrDict, DType, Scalar, TensorData};

use super::{Importer, Value};
use crate::tensors::vector;

/// More texts have no places, which are constants.
const MOST_TEXTS: i64 = 1 << 22;

/// A tensor of texts. What only moves texts changes their places, not the texts.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    /// Texts as rows of code points, `(count, length)`, both known; zeros stand behind the last of each.
    pub rows: Value,
    /// For each element of the tensor its row, an `int64`.
    pub places: Value,
}

impl Texts {
    /// A tensor of `shape`, the rows of which are its elements in order. The error is a message.
    pub(crate) fn in_order(rows: Value, shape: &[i64]) -> Result<Texts, String> {
        let places = vector(&(0..count(shape)?).collect::<Vec<i64>>());
        let places = places.reshaped(shape).map_err(|error| error.to_string())?;
        Ok(Texts { rows, places: Value::Constant(places) })
    }
}

/// How many texts a tensor of `shape` has, or characters a row, each of which has a place. The error is a
/// message.
pub(crate) fn count(shape: &[i64]) -> Result<i64, String> {
    let count = shape.iter().try_fold(1i64, |count, extent| count.checked_mul(*extent));
    count.filter(|count| (0..=MOST_TEXTS).contains(count)).ok_or_else(|| {
        format!("expected at most {MOST_TEXTS} texts or characters of one, found extents {shape:?}")
    })
}

impl Importer<'_> {
    /// The texts whose code points `value` has along its last axis. The error is a message.
    pub(crate) fn texts(&mut self, value: &Value) -> Result<Value, String> {
        let ty = self.tensor(value)?;
        let Some(shape) = ty.known_shape() else {
            let found = self.ty(value);
            return Err(format!("expected known extents and lengths of texts, found {found}"));
        };
        let Some((&length, shape)) = shape.split_last() else {
            return Err("expected code points of texts, found a scalar".to_string());
        };
        let count = count(shape)?;
        let rows = match value {
            Value::Constant(tensor) => {
                let rows = tensor.reshaped(&[count, length]).map_err(|error| error.to_string())?;
                Value::Constant(rows)
            }
            _ => {
                let attrs = AttrDict::empty()
                    .with("newshape", &vec![count, length])
                    .with("allowzero", &true);
                self.apply("reshape", std::slice::from_ref(value), attrs)?
            }
        };
        Ok(Value::Texts(Rc::new(Texts::in_order(rows, shape)?)))
    }

    /// The code points of `texts` along one more axis. The error is a message.
    pub(crate) fn spelled(&mut self, texts: &Texts) -> Result<Value, String> {
        let operands = [texts.rows.clone(), texts.places.clone()];
        self.apply("take", &operands, AttrDict::empty().with("axis", &0i64))
    }

    /// `rows` with zeros up to `length` columns. The error is a message.
    pub(crate) fn lengthened(&mut self, rows: &Value, length: i64) -> Result<Value, String> {
        let own = self.tensor(rows)?.shape[1].known().unwrap_or(length);
        if own >= length {
            return Ok(rows.clone());
        }
        let zero = Value::Constant(crate::tensors::scalar(DType::INT32, 0.0));
        let attrs =
            AttrDict::empty().with("pad_width", &vec![vec![0i64, 0], vec![0, length - own]]);
        self.apply("nn.pad", &[rows.clone(), zero], attrs)
    }

    /// `inputs` with the places of texts instead of texts, and the rows that these are places in;
    /// nothing where none of them is one. The error is a message.
    pub(super) fn places(
        &mut self,
        inputs: &[Option<Value>],
    ) -> Result<Option<(Value, Vec<Option<Value>>)>, String> {
        let texts = inputs.iter().flatten().filter_map(|input| match input {
            Value::Texts(texts) => Some(texts.clone()),
            _ => None,
        });
        let texts: Vec<Rc<Texts>> = texts.collect();
        let mut shapes = Vec::new();
        for texts in &texts {
            match self.tensor(&texts.rows)?.known_shape().as_deref() {
                Some([count, length]) => shapes.push((*count, *length)),
                _ => return Err("expected texts whose number is known".to_string()),
            }
        }
        let Some(longest) = shapes.iter().map(|(_, length)| *length).max() else {
            return Ok(None);
        };
        let (mut rows, mut places, mut first) = (Vec::new(), Vec::new(), 0i64);
        for (texts, (count, _)) in texts.iter().zip(shapes) {
            rows.push(self.lengthened(&texts.rows, longest)?);
            let moved = match first {
                0 => texts.places.clone(),
                _ => {
                    let first = TensorData::scalar(DType::INT64, Scalar::Int(first));
                    let operands = [texts.places.clone(), Value::Constant(first)];
                    self.apply("add", &operands, AttrDict::empty())?
                }
            };
            places.push(moved);
            first = first.checked_add(count).ok_or("expected fewer texts")?;
        }
        let rows = match rows.as_slice() {
            [one] => one.clone(),
            many => {
                self.apply_to_tuple("concatenate", many, AttrDict::empty().with("axis", &0i64))?
            }
        };
        let mut places = places.into_iter();
        let inputs = inputs.iter().map(|input| match input {
            Some(Value::Texts(_)) => places.next(),
            other => other.clone(),
        });
        Ok(Some((rows, inputs.collect())))
    }
}
