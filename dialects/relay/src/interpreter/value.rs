//! Run-time values.
//!
//! **Invariants**
//! - Dropping, comparing, copying and printing a value use no native stack in proportion to its
//!   depth: a list of a million cells is an ordinary value.
//! - A value holds no borrow: it may outlive the interpreter that made it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use ir_core::{Symbol, TensorData};

use super::code::Unit;
use crate::language::short_name;

/// A run-time value.
#[derive(Clone)]
pub enum Value {
    /// A tensor.
    Tensor(TensorData),
    /// A tuple.
    Tuple(Fields),
    /// A value of a declared data type.
    Data(Data),
    /// A function with the values that it captured.
    Closure(Arc<Closure>),
    /// A function of the module.
    Global(Symbol),
    /// An operator as a function, by its full name.
    Operator(Symbol),
    /// A constructor as a function.
    Constructor(Symbol),
    /// A mutable cell.
    Reference(Reference),
}

/// A value of a declared data type.
#[derive(Clone)]
pub struct Data {
    /// The constructor.
    pub constructor: Symbol,
    /// Position of the constructor in the declaration of its type.
    pub tag: u32,
    /// The fields in declared order.
    pub fields: Fields,
}

/// A function with the values that it captured. Made and applied by the interpreter.
pub struct Closure {
    pub(super) unit: Arc<Unit>,
    pub(super) function: usize,
    pub(super) captured: Fields,
}

impl Closure {
    /// The values that it captured, in order of first use.
    pub fn captured(&self) -> &[Value] {
        &self.captured
    }
}

/// An immutable, shared sequence of values.
#[derive(Clone, Default)]
pub struct Fields(Option<Arc<[Value]>>);

impl Deref for Fields {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl FromIterator<Value> for Fields {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Fields {
        Fields::from(values.into_iter().collect::<Vec<Value>>())
    }
}

impl From<Vec<Value>> for Fields {
    fn from(values: Vec<Value>) -> Fields {
        Fields(if values.is_empty() { None } else { Some(values.into()) })
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Value::Tuple(self.clone()), f)
    }
}

/// A mutable cell. Clones are the same cell. A cycle of cells is never freed.
#[derive(Clone)]
pub struct Reference(Arc<Cell>);

struct Cell(Mutex<Value>);

impl Reference {
    /// A new cell.
    pub fn new(value: Value) -> Reference {
        Reference(Arc::new(Cell(Mutex::new(value))))
    }

    /// The content.
    pub fn read(&self) -> Value {
        // A poisoned lock still guards a whole value: replacing it is one step.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the content.
    pub fn write(&self, value: Value) {
        let old =
            std::mem::replace(&mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner), value);
        // Outside the lock: dropping may reach other cells.
        drop(old);
    }

    /// Whether both are the same cell.
    pub fn is_same(&self, other: &Reference) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that tells this cell from every other one that is alive.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

// ---- dropping without recursion ------------------------------------------------------------

impl Drop for Fields {
    fn drop(&mut self) {
        let mut pending = Vec::new();
        take_parts(self, &mut pending);
        drop_all(pending);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let content = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if content.is_compound() {
            drop_all(vec![std::mem::replace(content, Value::unit())]);
        }
    }
}

/// Drops `pending` and whatever only it holds, one value at a time: each is emptied before it is
/// dropped, so that the derived drop finds nothing to descend into.
fn drop_all(mut pending: Vec<Value>) {
    while let Some(mut value) = pending.pop() {
        match &mut value {
            Value::Tuple(fields) => take_parts(fields, &mut pending),
            Value::Data(data) => take_parts(&mut data.fields, &mut pending),
            Value::Closure(closure) => {
                if let Some(closure) = Arc::get_mut(closure) {
                    take_parts(&mut closure.captured, &mut pending);
                }
            }
            Value::Reference(reference) => {
                if let Some(cell) = Arc::get_mut(&mut reference.0) {
                    let content = cell.0.get_mut().unwrap_or_else(PoisonError::into_inner);
                    if content.is_compound() {
                        pending.push(std::mem::replace(content, Value::unit()));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Moves the compound values of `fields` to `pending` where nobody else holds the sequence.
fn take_parts(fields: &mut Fields, pending: &mut Vec<Value>) {
    if let Some(values) = fields.0.as_mut().and_then(Arc::get_mut) {
        for value in values.iter_mut().filter(|value| value.is_compound()) {
            pending.push(std::mem::replace(value, Value::unit()));
        }
    }
}

// ---- access --------------------------------------------------------------------------------

impl Value {
    /// The empty tuple.
    pub fn unit() -> Value {
        Value::Tuple(Fields(None))
    }

    /// A tuple of `fields`.
    pub fn tuple(fields: impl IntoIterator<Item = Value>) -> Value {
        Value::Tuple(fields.into_iter().collect())
    }

    /// A value made by `constructor`, which stands at position `tag` of its declaration.
    pub fn data(
        constructor: impl Into<Symbol>,
        tag: u32,
        fields: impl IntoIterator<Item = Value>,
    ) -> Value {
        let (constructor, fields) = (constructor.into(), fields.into_iter().collect());
        Value::Data(Data { constructor, tag, fields })
    }

    /// The tensor, where this is one.
    pub fn as_tensor(&self) -> Option<&TensorData> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The fields, where this is a tuple.
    pub fn as_tuple(&self) -> Option<&[Value]> {
        match self {
            Value::Tuple(fields) => Some(fields),
            _ => None,
        }
    }

    /// The constructor and fields, where this is of a declared data type.
    pub fn as_data(&self) -> Option<&Data> {
        match self {
            Value::Data(data) => Some(data),
            _ => None,
        }
    }

    /// The cell, where this is one.
    pub fn as_reference(&self) -> Option<&Reference> {
        match self {
            Value::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    /// What kind of value this is, with an article, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Tuple(_) => "a tuple",
            Value::Data(_) => "a value of a data type",
            Value::Closure(_) => "a function",
            Value::Global(_) => "a global function",
            Value::Operator(_) => "an operator",
            Value::Constructor(_) => "a constructor",
            Value::Reference(_) => "a reference",
        }
    }

    /// The type of a tensor, or the kind of another value, for messages.
    pub fn describe(&self) -> String {
        match self {
            Value::Tensor(tensor) => tensor.ty().to_string(),
            Value::Tuple(fields) => format!("a tuple of {}", fields.len()),
            Value::Data(data) => format!("a `{}`", data.constructor),
            other => other.kind().to_string(),
        }
    }

    /// Whether it can hold further values.
    fn is_compound(&self) -> bool {
        match self {
            Value::Tuple(fields) => fields.0.is_some(),
            Value::Data(data) => data.fields.0.is_some(),
            Value::Closure(_) | Value::Reference(_) => true,
            Value::Tensor(_) | Value::Global(_) | Value::Operator(_) | Value::Constructor(_) => {
                false
            }
        }
    }
}

impl From<TensorData> for Value {
    fn from(tensor: TensorData) -> Value {
        Value::Tensor(tensor)
    }
}

// ---- printing ------------------------------------------------------------------------------

/// The most elements of a tensor that are printed.
const SHOWN_ELEMENTS: usize = 8;
/// The most parts of a value that are printed.
const SHOWN_PARTS: usize = 1_000;

/// A piece of a value's text that is still to be written.
enum Piece {
    Text(&'static str),
    Value(Value),
}

fn push_list(pending: &mut Vec<Piece>, fields: &Fields, close: &'static str) {
    pending.push(Piece::Text(close));
    for (index, value) in fields.iter().enumerate().rev() {
        pending.push(Piece::Value(value.clone()));
        if index > 0 {
            pending.push(Piece::Text(", "));
        }
    }
}

fn write_tensor(tensor: &TensorData, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let scalar = tensor.rank() == 0;
    if !scalar {
        write!(f, "{} [", tensor.ty())?;
    }
    for (index, element) in tensor.elements().take(SHOWN_ELEMENTS).enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        match element {
            ir_core::Scalar::Int(value) if tensor.dtype().is_bool() => {
                f.write_str(if value != 0 { "True" } else { "False" })?;
            }
            ir_core::Scalar::Int(_) => write!(f, "{}", element.as_integer(tensor.dtype()))?,
            ir_core::Scalar::Float(value) if tensor.dtype().bits() == 64 => write!(f, "{value}")?,
            ir_core::Scalar::Float(value) => write!(f, "{}", value as f32)?,
        }
    }
    if tensor.len() > SHOWN_ELEMENTS {
        f.write_str(", …")?;
    }
    if scalar { Ok(()) } else { f.write_str("]") }
}

/// Writes scalars as numbers, other tensors as type and first elements, `(a, b)`, `Cons(a, b)`,
/// `@f`, `fn`, `ref(a)`. Long values are cut with `…`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pending = vec![Piece::Value(self.clone())];
        let mut shown = 0;
        while let Some(piece) = pending.pop() {
            let value = match piece {
                Piece::Text(text) => {
                    f.write_str(text)?;
                    continue;
                }
                Piece::Value(value) => value,
            };
            shown += 1;
            if shown > SHOWN_PARTS {
                return f.write_str("…");
            }
            match &value {
                Value::Tensor(tensor) => write_tensor(tensor, f)?,
                Value::Tuple(fields) => {
                    f.write_str("(")?;
                    push_list(&mut pending, fields, if fields.len() == 1 { ",)" } else { ")" });
                }
                Value::Data(data) => {
                    f.write_str(data.constructor.as_str())?;
                    if !data.fields.is_empty() {
                        f.write_str("(")?;
                        push_list(&mut pending, &data.fields, ")");
                    }
                }
                Value::Closure(_) => f.write_str("fn")?,
                Value::Global(name) => write!(f, "@{name}")?,
                Value::Operator(name) => {
                    f.write_str(short_name(name.as_str()))?;
                }
                Value::Constructor(name) => f.write_str(name.as_str())?,
                Value::Reference(reference) => {
                    f.write_str("ref(")?;
                    pending.extend([Piece::Text(")"), Piece::Value(reference.read())]);
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir_core::{DType, Scalar};

    fn int(value: i64) -> Value {
        TensorData::scalar(DType::INT32, Scalar::Int(value)).into()
    }

    #[test]
    fn a_long_list_drops_and_prints_without_recursion() {
        let mut list = Value::data("Nil", 1, []);
        for index in 0..1_000_000 {
            list = Value::data("Cons", 0, [int(index), list]);
        }
        let text = list.to_string();
        assert!(text.starts_with("Cons(999999, Cons(999998, ") && text.ends_with('…'));
        let shared = list.clone();
        drop(list);
        assert_eq!(shared.as_data().map(|data| data.fields.len()), Some(2));
        drop(shared);
    }

    #[test]
    fn long_chains_of_every_compound_drop_without_recursion() {
        let mut chain = int(0);
        for index in 0..1_000_000 {
            chain = match index % 3 {
                0 => Value::tuple([chain]),
                1 => Value::Reference(Reference::new(chain)),
                _ => Value::data("Some", 0, [chain]),
            };
        }
        drop(chain);
    }

    #[test]
    fn values_print_in_the_syntax_of_the_language() {
        let pair = Value::tuple([int(1), Value::unit()]);
        let tensor = TensorData::from_f64(DType::FLOAT32, &[2], &[0.1, 2.0]).unwrap();
        let cell = Value::Reference(Reference::new(Value::tuple([tensor.into()])));
        assert_eq!(pair.to_string(), "(1, ())");
        assert_eq!(cell.to_string(), "ref((Tensor[(2), float32] [0.1, 2],))");
        assert_eq!(Value::data("Nil", 1, []).to_string(), "Nil");
        assert_eq!(Value::Operator("relay.nn.relu".into()).to_string(), "nn.relu");
    }

    #[test]
    fn clones_of_a_cell_are_one_cell() {
        let cell = Reference::new(int(1));
        let alias = cell.clone();
        alias.write(int(2));
        assert_eq!(cell.read().to_string(), "2");
        assert!(cell.is_same(&alias) && !cell.is_same(&Reference::new(int(2))));
    }
}
