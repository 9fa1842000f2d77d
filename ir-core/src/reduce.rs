//! What the reducer of programs asks dialects: hooks of the operations that they concern.
//!
//! The reducer tries edits and keeps those after which the program still verifies, so that it needs
//! to know little. An operation that has one of these hooks is what its dialect makes such values
//! with.

use crate::body::{Body, InsertPoint};
use crate::ids::{OpId, ValueId};
use crate::types::Type;

/// Makes zeros of a type, with the operation that has this hook; `None` where there are none of
/// that type.
#[derive(Clone, Copy, Debug)]
pub struct MakeZero(pub fn(&mut Body, InsertPoint, Type) -> Option<ValueId>);

/// Makes one value of several, with the operation that has this hook, whose operands they become.
#[derive(Clone, Copy, Debug)]
pub struct MakeTuple(pub fn(&mut Body, InsertPoint, &[ValueId]) -> ValueId);

/// Puts what the function that the operation with this hook makes computes in the place of its only
/// call; returns whether that could be done, and changes nothing where not.
#[derive(Clone, Copy, Debug)]
pub struct OpenFunction(pub fn(&mut Body, OpId) -> bool);

/// Removes a parameter of the function that the operation with this hook makes or names, by its
/// place, and the argument from all calls; returns whether that could be done, and changes nothing
/// where not. A parameter of a region must have no users, and goes from the region as well.
#[derive(Clone, Copy, Debug)]
pub struct DropParameter(pub fn(&mut Body, OpId, usize) -> bool);
