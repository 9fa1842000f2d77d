//! Typed views: an operation as a struct of its operands and attributes.

use smallvec::SmallVec;

use crate::attributes::{Attr, AttrDict};
use crate::body::{Body, InsertPoint, OpParts};
use crate::ids::{OpId, ValueId};
use crate::intern::Symbol;
use crate::location::Loc;
use crate::registry::{AttrField, OpInfo};
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

/// A struct of attributes that several operations have: a field of theirs that is marked
/// `#[flatten]`. Derive it with `#[derive(AttrGroup)]`.
///
/// ```
/// use ir_core::{AttrGroup, Op, ValueId};
///
/// /// Where windows are.
/// #[derive(AttrGroup, Clone, Debug)]
/// struct Windows {
///     /// Distance of neighbouring windows.
///     #[default(1)]
///     stride: i64,
/// }
///
/// /// The greatest element of each window.
/// #[derive(Op, Clone, Debug)]
/// #[op(name = "toy.greatest")]
/// struct Greatest<V = ValueId> {
///     /// The input.
///     data: V,
///     #[flatten]
///     windows: Windows,
/// }
///
/// let attributes = <Greatest as Op>::info().def.attrs;
/// assert_eq!(attributes.iter().map(|field| field.name).collect::<Vec<_>>(), ["stride"]);
/// ```
///
/// What has two attributes of one name does not compile:
///
/// ```compile_fail
/// # use ir_core::{AttrGroup, Op, ValueId};
/// # #[derive(AttrGroup, Clone, Debug)]
/// # struct Windows {
/// #     #[default(1)]
/// #     stride: i64,
/// # }
/// #[derive(Op, Clone, Debug)]
/// #[op(name = "toy.greatest")]
/// struct Greatest<V = ValueId> {
///     data: V,
///     stride: i64,
///     #[flatten]
///     windows: Windows,
/// }
/// # <Greatest as Op>::info();
/// ```
pub trait AttrGroup: Sized {
    /// The attributes, in printing order.
    const PARTS: &'static [AttrPart];

    /// What `attrs`, the attributes of the operation `op`, say. The error is a message that names the
    /// one that is missing or of the wrong type.
    fn decode(op: &str, attrs: AttrDict) -> Result<Self, String>;

    /// Adds the attributes to `entries`, those equal to their default left out.
    fn encode(&self, entries: &mut Vec<(Symbol, Attr)>);
}

/// What a field of an operation or of a group declares.
#[derive(Clone, Copy, Debug)]
pub enum AttrPart {
    /// One attribute.
    Field(AttrField),
    /// The attributes of a group.
    Group(&'static [AttrPart]),
}

impl AttrPart {
    /// The number of attributes of `parts`.
    pub const fn count(parts: &[AttrPart]) -> usize {
        let (mut total, mut part) = (0, 0);
        while part < parts.len() {
            total += match parts[part] {
                AttrPart::Field(_) => 1,
                AttrPart::Group(group) => AttrPart::count(group),
            };
            part += 1;
        }
        total
    }

    /// The attributes of `parts`, as many as [`count`](AttrPart::count) says, in order. Panics, which
    /// is while the operation is compiled, where two have one name.
    pub const fn flatten<const COUNT: usize>(parts: &[AttrPart]) -> [AttrField; COUNT] {
        const BLANK: AttrField =
            AttrField { name: "", expects: "", normalize: |_| None, default: None, doc: "" };
        let mut fields = [BLANK; COUNT];
        fill(&mut fields, 0, parts);
        fields
    }
}

/// Writes the attributes of `parts` from place `at` on; the place behind them.
const fn fill(fields: &mut [AttrField], mut at: usize, parts: &[AttrPart]) -> usize {
    let mut part = 0;
    while part < parts.len() {
        match parts[part] {
            AttrPart::Group(group) => at = fill(fields, at, group),
            AttrPart::Field(field) => {
                assert!(!has(fields, at, field.name), "two attributes have one name");
                fields[at] = field;
                at += 1;
            }
        }
        part += 1;
    }
    at
}

/// Whether one of the first `count` of `fields` is called `name`.
const fn has(fields: &[AttrField], count: usize, name: &str) -> bool {
    let mut at = 0;
    while at < count {
        if is_same(fields[at].name.as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
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
