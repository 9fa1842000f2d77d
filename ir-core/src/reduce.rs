//! What the reducer of programs asks dialects: hooks of the operations that they concern.
//!
//! The reducer tries edits and keeps those after which the program still verifies, so that it needs
//! to know little. An operation that has one of these hooks is what its dialect makes such values
//! with.

use crate::body::{Body, InsertPoint};
use crate::ids::ValueId;
use crate::types::Type;

/// Makes zeros of a type, with the operation that has this hook; `None` where there are none of
/// that type.
#[derive(Clone, Copy, Debug)]
pub struct MakeZero(pub fn(&mut Body, InsertPoint, Type) -> Option<ValueId>);

/// Makes one value of several, with the operation that has this hook, whose operands they become.
#[derive(Clone, Copy, Debug)]
pub struct MakeTuple(pub fn(&mut Body, InsertPoint, &[ValueId]) -> ValueId);
