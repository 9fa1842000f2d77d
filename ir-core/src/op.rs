//! Typed views: an operation as a struct of its operands and attributes.

use smallvec::SmallVec;

use crate::attributes::AttrDict;
use crate::body::{Body, InsertPoint, OpParts};
use crate::ids::{OpId, ValueId};
use crate::location::Loc;
use crate::registry::OpInfo;
use crate::types::Type;

/// A struct of the fields of an operation, with operands of type `V`.
///
/// One declaration serves every stage: with [`ValueId`] it is a view of an operation in a body
/// and a builder of one; with [`Type`] it is what a type relation looks at; with a
/// run-time value it is what an evaluator gets.
pub trait OpFields<V>: Sized {
    /// Full name, `dialect.op`.
    const NAME: &'static str;

    /// The fields of an operation with these operands and attributes. The error is a message that
    /// names the field that is missing or of the wrong type.
    fn decode(operands: &[V], attrs: AttrDict) -> Result<Self, String>;

    /// The operands in order.
    fn operands(&self) -> SmallVec<[V; 4]>;

    /// The attributes, those equal to their default left out.
    fn attrs(&self) -> AttrDict;
}

/// A declared operation. Derive it with `#[derive(Op)]`.
pub trait Op: OpFields<ValueId> {
    /// Definition and hooks, for [`Registry::op`](crate::Registry::op).
    fn info() -> OpInfo;
}

impl Body {
    /// Whether `op` is a `T`, whatever its fields are.
    #[inline]
    pub fn is<T: OpFields<ValueId>>(&self, op: OpId) -> bool {
        self.op_name(op) == T::NAME
    }

    /// Inserts the operation that `op` describes, which has no regions and one result, of type `ty`;
    /// that result.
    pub fn add<T: OpFields<ValueId>>(
        &mut self,
        at: InsertPoint,
        loc: Loc,
        op: &T,
        ty: Type,
    ) -> ValueId {
        let (operands, types) = (op.operands(), [ty]);
        let parts = OpParts::new(T::NAME, &operands, &types).attrs(op.attrs()).at(loc);
        let op = self.insert_op(at, parts);
        self.result(op, 0)
    }

    /// `op` seen as a `T`; `None` where it is another operation or its fields do not decode.
    pub fn view<T: OpFields<ValueId>>(&self, op: OpId) -> Option<T> {
        if !self.is::<T>(op) {
            return None;
        }
        let operands: SmallVec<[ValueId; 4]> = self.operands(op).collect();
        T::decode(&operands, self.attrs(op)).ok()
    }

    /// The operation that defines `value`, seen as a `T`.
    pub fn view_def<T: OpFields<ValueId>>(&self, value: ValueId) -> Option<(OpId, T)> {
        let op = self.defining_op(value)?;
        Some((op, self.view(op)?))
    }
}
