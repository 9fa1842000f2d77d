//! How an operator may join a fused kernel.

use ir_core::{AttrDict, Type};

/// The fusion pattern of an operator (Relay, arXiv 1904.08368, section 4.1), ordered from the
/// most to the least fusable. Attached as a hook; an operator without one is opaque.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FusionPattern {
    /// One output element from the input element at the same place.
    Elementwise,
    /// As elementwise, with axes of the output missing or of extent 1 in an input.
    Broadcast,
    /// Every output element from one input element at a place computed from its own.
    Injective,
    /// A commutative reduction over axes.
    Reduce,
    /// Heavy, but elementwise operators may be fused to its output: convolution, dense.
    OutFusable,
    /// Changes elements of its first operand one after the other, at places that are computed. Operators that move elements may be
    /// fused to its other operands; what computes them is not, since one after the other it takes longer.
    Scatter,
    /// A tuple, which only groups values.
    Tuple,
    /// Never fused.
    Opaque,
}

/// Marks an operator whose result has the elements of its first operand, in order, under another
/// shape. A kernel of such operators alone copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct ReshapeOnly;

/// Marks an operator whose result shape depends on the elements of an operand. With a result
/// shape that is not known before run time it is never fused.
#[derive(Clone, Copy, Debug)]
pub struct ShapeFromData;

/// Marks an operator whose result is as large as so many elements of an operand are of some kind, rather
/// than as elements of it say.
#[derive(Clone, Copy, Debug)]
pub struct CountsElements;

/// Marks an elementwise operator of which one element takes much longer than to read or write a
/// number, such as `exp`: it is better stored than computed twice.
#[derive(Clone, Copy, Debug)]
pub struct Transcendental;

/// The hook of an operator that computes row by row: each row of the result depends on one row of
/// the first operand. From the types of the operands and the attributes it tells how many leading
/// dimensions of the first operand number the rows, where the others are one row; `None` where
/// these attributes go across rows.
#[derive(Clone, Copy)]
pub struct Rows(pub fn(&[Type], AttrDict) -> Option<usize>);
