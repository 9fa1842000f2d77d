//! Types and symbolic dimensions: interned, `Copy`, made without a context.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::LazyLock;

use hashbrown::Equivalent;
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::intern::{Interner, Symbol};
use crate::text::lexer;

/// The deepest nesting of a type. Deeper types are refused where they would be made, so that
/// walking a type is always cheap.
pub const MAX_TYPE_DEPTH: u32 = 1_000;

/// The most parts of a type, where a shared one counts each time: types share their parts, so that
/// a small program may have one whose text would not fit into memory. Larger types are refused
/// where they would be made, and written as `_`.
pub const MAX_TYPE_PARTS: u32 = 1 << 22;

/// An interned type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(NonZeroU32);

/// What a type is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TypeData {
    /// Not inferred yet; verified bodies hold none.
    Unknown,
    /// An unknown of the running type inference; bodies never hold one between passes.
    Variable(u32),
    /// A tensor; rank 0 is a scalar.
    Tensor(TensorType),
    /// A tuple; the empty one is the unit type.
    Tuple(Box<[Type]>),
    /// A function.
    Function(FunctionType),
    /// A bound type parameter of an enclosing function or type declaration.
    Parameter(Symbol),
    /// A reference to a mutable cell.
    Ref(Type),
    /// A named type applied to parameters: a declared data type such as `List`, or a type of a
    /// dialect such as `te.buffer`.
    Named {
        /// The declared name, or the registered `dialect.type`.
        name: Symbol,
        /// The parameters in declared order.
        params: SmallVec<[TypeParam; 2]>,
    },
}

/// The payload of a tensor type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Extents, outermost first.
    pub shape: SmallVec<[Dim; 4]>,
    /// Element type.
    pub dtype: DType,
}

/// The payload of a function type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FunctionType {
    /// Names of the bound type and shape parameters.
    pub type_params: Box<[Symbol]>,
    /// Parameter types.
    pub params: Box<[Type]>,
    /// Result type.
    pub result: Type,
}

/// A parameter of a named type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeParam {
    /// A type.
    Type(Type),
    /// A name.
    Symbol(Symbol),
    /// An integer.
    Int(i64),
    /// A dimension.
    Dim(Dim),
    /// An element type.
    DType(DType),
}

/// The extent of one tensor axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dim {
    /// A known number of elements, at least 0.
    Known(i64),
    /// `?`: known only at run time, and equal to nothing, not even itself.
    Any,
    /// A variable or arithmetic over variables.
    Expr(DimExpr),
}

/// An interned symbolic extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DimExpr(NonZeroU32);

/// What a symbolic extent is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DimExprData {
    /// A bound shape parameter.
    Parameter(Symbol),
    /// An unknown of the running type inference.
    Variable(u32),
    /// Arithmetic on two extents, not both known.
    Binary(DimOp, Dim, Dim),
}

/// Arithmetic on extents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DimOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient rounded down.
    FloorDiv,
    /// Remainder of the quotient rounded down.
    FloorMod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
}

impl DimOp {
    /// The value on two numbers; `None` on overflow and on division by zero.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            DimOp::Add => a.checked_add(b),
            DimOp::Sub => a.checked_sub(b),
            DimOp::Mul => a.checked_mul(b),
            DimOp::FloorDiv => {
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
            }
            DimOp::FloorMod => Some(a - DimOp::FloorDiv.apply(a, b)? * b),
            DimOp::Min => Some(a.min(b)),
            DimOp::Max => Some(a.max(b)),
        }
    }
}

/// An interned expression with what it contains, computed once from its parts: expressions share
/// parts, and a walk over all of one could take exponentially long.
struct DimExprEntry {
    data: DimExprData,
    facts: DimFacts,
}

/// What an extent contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DimFacts {
    /// Some part is an unknown of a running inference.
    pub has_variable: bool,
    /// Some part is a shape parameter.
    pub has_parameter: bool,
    /// Some part is `?`.
    pub has_any: bool,
    /// Its parts as they are written, where a shared one counts each time; saturates.
    pub parts: u32,
}

impl DimFacts {
    const LEAF: DimFacts =
        DimFacts { has_variable: false, has_parameter: false, has_any: false, parts: 1 };

    fn of(data: &DimExprData) -> DimFacts {
        match data {
            DimExprData::Parameter(_) => DimFacts { has_parameter: true, ..DimFacts::LEAF },
            DimExprData::Variable(_) => DimFacts { has_variable: true, ..DimFacts::LEAF },
            DimExprData::Binary(_, a, b) => {
                let (a, b) = (a.facts(), b.facts());
                DimFacts {
                    parts: a.parts.saturating_add(b.parts),
                    has_variable: a.has_variable || b.has_variable,
                    has_parameter: a.has_parameter || b.has_parameter,
                    has_any: a.has_any || b.has_any,
                }
            }
        }
    }
}

static DIM_EXPRS: LazyLock<Interner<DimExprEntry>> = LazyLock::new(Interner::new);

impl DimExpr {
    /// The interned expression.
    pub fn new(data: DimExprData) -> DimExpr {
        let entry = || DimExprEntry { data, facts: DimFacts::of(&data) };
        DimExpr(DIM_EXPRS.intern(&Key(&data), entry))
    }
    /// What this expression is.
    pub fn data(self) -> DimExprData {
        DIM_EXPRS.value(self.0).data
    }
    /// What this expression contains.
    pub fn facts(self) -> DimFacts {
        DIM_EXPRS.value(self.0).facts
    }
}

impl TypeFacts {
    /// Whether the type nests no deeper than [`MAX_TYPE_DEPTH`] and has no more parts than
    /// [`MAX_TYPE_PARTS`].
    pub fn is_within_limits(self) -> bool {
        self.depth <= MAX_TYPE_DEPTH && self.parts <= MAX_TYPE_PARTS
    }
}

impl Dim {
    /// The shape parameter `name`.
    pub fn parameter(name: impl Into<Symbol>) -> Dim {
        Dim::Expr(DimExpr::new(DimExprData::Parameter(name.into())))
    }

    /// The unknown `index` of a running inference.
    pub fn variable(index: u32) -> Dim {
        Dim::Expr(DimExpr::new(DimExprData::Variable(index)))
    }

    /// `a op b`: folded when both are known, `?` when either is `?` or the result does not exist,
    /// and with neutral elements dropped.
    pub fn binary(op: DimOp, a: Dim, b: Dim) -> Dim {
        match (op, a, b) {
            (_, Dim::Any, _) | (_, _, Dim::Any) => Dim::Any,
            (_, Dim::Known(x), Dim::Known(y)) => op.apply(x, y).map_or(Dim::Any, Dim::Known),
            (DimOp::Add | DimOp::Sub, x, Dim::Known(0))
            | (DimOp::Add, Dim::Known(0), x)
            | (DimOp::Mul | DimOp::FloorDiv, x, Dim::Known(1))
            | (DimOp::Mul, Dim::Known(1), x) => x,
            (DimOp::Mul, Dim::Known(0), _) | (DimOp::Mul, _, Dim::Known(0)) => Dim::Known(0),
            (DimOp::Sub, x, y) if x == y => Dim::Known(0),
            (DimOp::Min | DimOp::Max, x, y) if x == y => x,
            _ => Dim::Expr(DimExpr::new(DimExprData::Binary(op, a, b))),
        }
    }

    /// What this extent contains.
    pub fn facts(self) -> DimFacts {
        match self {
            Dim::Known(_) => DimFacts::LEAF,
            Dim::Any => DimFacts { has_any: true, ..DimFacts::LEAF },
            Dim::Expr(expr) => expr.facts(),
        }
    }

    /// The number, where it is known.
    pub fn known(self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(n),
            _ => None,
        }
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::Known(n)
    }
}

/// Facts of an interned type, computed once from its parts.
struct TypeEntry {
    data: TypeData,
    facts: TypeFacts,
}

/// What a type contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypeFacts {
    /// Some part is [`TypeData::Unknown`].
    pub has_unknown: bool,
    /// Some part is an unknown of a running inference (of a type or a dimension).
    pub has_variable: bool,
    /// Some part is a type or shape parameter.
    pub has_parameter: bool,
    /// Some extent is `?`.
    pub has_any: bool,
    /// Some part is a declared type.
    pub has_named: bool,
    /// It is a tensor, or a tuple of tensors.
    pub is_flat: bool,
    /// Levels of nesting, 1 for a leaf.
    pub depth: u32,
    /// Its parts as they are written, where a shared one counts each time; saturates.
    pub parts: u32,
}

struct Key<'a, T>(&'a T);

impl<T: std::hash::Hash> std::hash::Hash for Key<'_, T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<TypeEntry> for Key<'_, TypeData> {
    fn equivalent(&self, entry: &TypeEntry) -> bool {
        *self.0 == entry.data
    }
}

impl Equivalent<DimExprEntry> for Key<'_, DimExprData> {
    fn equivalent(&self, entry: &DimExprEntry) -> bool {
        *self.0 == entry.data
    }
}

/// Entries of interners are told apart by what they are, of which the facts follow.
macro_rules! identified_by_data {
    ($($entry:ty),*) => {$(
        impl std::hash::Hash for $entry {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.data.hash(state);
            }
        }

        impl PartialEq for $entry {
            fn eq(&self, other: &$entry) -> bool {
                self.data == other.data
            }
        }

        impl Eq for $entry {}
    )*};
}

identified_by_data!(TypeEntry, DimExprEntry);

static TYPES: LazyLock<Interner<TypeEntry>> = LazyLock::new(Interner::new);
static UNKNOWN: LazyLock<Type> = LazyLock::new(|| Type::new(TypeData::Unknown));
static UNIT: LazyLock<Type> = LazyLock::new(|| Type::new(TypeData::Tuple(Box::new([]))));

impl Type {
    /// The interned type.
    pub fn new(data: TypeData) -> Type {
        Type(TYPES.intern(&Key(&data), || TypeEntry { facts: facts_of(&data), data: data.clone() }))
    }

    /// The type that is not inferred yet.
    pub fn unknown() -> Type {
        *UNKNOWN
    }

    /// The empty tuple.
    pub fn unit() -> Type {
        *UNIT
    }

    /// The unknown `index` of a running inference.
    pub fn variable(index: u32) -> Type {
        Type::new(TypeData::Variable(index))
    }

    /// A tensor of `shape` and `dtype`.
    pub fn tensor(shape: impl IntoIterator<Item = impl Into<Dim>>, dtype: DType) -> Type {
        let shape = shape.into_iter().map(Into::into).collect();
        Type::new(TypeData::Tensor(TensorType { shape, dtype }))
    }

    /// A scalar: a tensor of rank 0.
    pub fn scalar(dtype: DType) -> Type {
        Type::tensor([] as [Dim; 0], dtype)
    }

    /// A tuple of `fields`.
    pub fn tuple(fields: impl IntoIterator<Item = Type>) -> Type {
        Type::new(TypeData::Tuple(fields.into_iter().collect()))
    }

    /// A function without type parameters.
    pub fn function(params: impl IntoIterator<Item = Type>, result: Type) -> Type {
        let params = params.into_iter().collect();
        Type::new(TypeData::Function(FunctionType { type_params: Box::new([]), params, result }))
    }

    /// A bound type parameter.
    pub fn parameter(name: impl Into<Symbol>) -> Type {
        Type::new(TypeData::Parameter(name.into()))
    }

    /// A reference to a mutable cell of type `inner`.
    pub fn reference(inner: Type) -> Type {
        Type::new(TypeData::Ref(inner))
    }

    /// A named type applied to parameters.
    pub fn named(name: impl Into<Symbol>, params: impl IntoIterator<Item = TypeParam>) -> Type {
        Type::new(TypeData::Named { name: name.into(), params: params.into_iter().collect() })
    }

    /// What this type is.
    pub fn data(self) -> &'static TypeData {
        &TYPES.value(self.0).data
    }

    /// What this type contains.
    pub fn facts(self) -> TypeFacts {
        TYPES.value(self.0).facts
    }

    /// Whether this is [`TypeData::Unknown`] itself.
    pub fn is_unknown(self) -> bool {
        self == Type::unknown()
    }

    /// The tensor payload, where this is a tensor.
    pub fn as_tensor(self) -> Option<&'static TensorType> {
        match self.data() {
            TypeData::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The fields, where this is a tuple.
    pub fn as_tuple(self) -> Option<&'static [Type]> {
        match self.data() {
            TypeData::Tuple(fields) => Some(fields),
            _ => None,
        }
    }

    /// The function payload, where this is a function.
    pub fn as_function(self) -> Option<&'static FunctionType> {
        match self.data() {
            TypeData::Function(function) => Some(function),
            _ => None,
        }
    }
}

impl TensorType {
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The extents, where all are known.
    pub fn known_shape(&self) -> Option<SmallVec<[i64; 4]>> {
        self.shape.iter().map(|dim| dim.known()).collect()
    }

    /// The number of elements, where all extents are known and the product fits.
    pub fn elements(&self) -> Option<i64> {
        self.shape.iter().try_fold(1i64, |n, dim| n.checked_mul(dim.known()?))
    }
}

fn facts_of(data: &TypeData) -> TypeFacts {
    let mut facts = TypeFacts {
        has_unknown: matches!(data, TypeData::Unknown),
        has_variable: matches!(data, TypeData::Variable(_)),
        has_parameter: matches!(data, TypeData::Parameter(_)),
        has_any: false,
        has_named: matches!(data, TypeData::Named { .. }),
        is_flat: match data {
            TypeData::Tensor(_) => true,
            TypeData::Tuple(fields) => fields.iter().all(|field| field.as_tensor().is_some()),
            _ => false,
        },
        depth: 1,
        parts: 1,
    };
    let mut add = |ty: Type| {
        let part = ty.facts();
        facts.has_unknown |= part.has_unknown;
        facts.has_variable |= part.has_variable;
        facts.has_parameter |= part.has_parameter;
        facts.has_any |= part.has_any;
        facts.has_named |= part.has_named;
        facts.depth = facts.depth.max(part.depth + 1);
        facts.parts = facts.parts.saturating_add(part.parts);
    };
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::new();
    match data {
        TypeData::Unknown | TypeData::Variable(_) | TypeData::Parameter(_) => {}
        TypeData::Tensor(tensor) => dims.extend_from_slice(&tensor.shape),
        TypeData::Tuple(fields) => fields.iter().copied().for_each(&mut add),
        TypeData::Function(function) => {
            function.params.iter().copied().for_each(&mut add);
            add(function.result);
        }
        TypeData::Ref(inner) => add(*inner),
        TypeData::Named { params, .. } => {
            for param in params {
                match *param {
                    TypeParam::Type(ty) => add(ty),
                    TypeParam::Dim(dim) => dims.push(dim),
                    TypeParam::Symbol(_) | TypeParam::Int(_) | TypeParam::DType(_) => {}
                }
            }
        }
    }
    for dim in dims {
        let part = dim.facts();
        facts.has_variable |= part.has_variable;
        facts.has_parameter |= part.has_parameter;
        facts.has_any |= part.has_any;
        facts.parts = facts.parts.saturating_add(part.parts);
    }
    facts
}

/// A piece of a type's text that is still to be written.
enum Piece {
    Text(&'static str),
    Symbol(Symbol),
    Type(Type),
    Dim(Dim),
    Param(TypeParam),
    DType(DType),
}

/// Writes a name in a type: in quotes where it would read as something else.
fn write_name(name: Symbol, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = name.as_str();
    let reserved = matches!(text, "fn" | "ref" | "Tensor" | "_" | "dim" | "dtype" | "match")
        || text.parse::<DType>().is_ok()
        || text.split('.').any(lexer::is_special_float);
    if !reserved && text.split('.').all(|part| lexer::is_word(part) && part != "_") {
        return f.write_str(text);
    }
    let mut quoted = String::new();
    lexer::quote_into(text, &mut quoted);
    f.write_str(&quoted)
}

/// Queues `items` so that they come out in order, with `, ` between them.
fn push_list<T>(
    pending: &mut Vec<Piece>,
    items: impl DoubleEndedIterator<Item = T>,
    piece: fn(T) -> Piece,
) {
    let mut rest = items.rev().peekable();
    while let Some(item) = rest.next() {
        pending.push(piece(item));
        if rest.peek().is_some() {
            pending.push(Piece::Text(", "));
        }
    }
}

/// Writes types in the syntax of the text format: `Tensor[(1, n), float32]`, `(A, B)`,
/// `fn [A](A) -> A`, `ref(A)`, `List[A]`; `_` is a type that is not inferred yet, or of more than
/// [`MAX_TYPE_PARTS`].
fn write_pieces(mut pending: Vec<Piece>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use Piece::{Text, Type as Ty};
    while let Some(piece) = pending.pop() {
        match piece {
            Text(text) => f.write_str(text)?,
            Piece::Symbol(name) => write_name(name, f)?,
            Piece::DType(dtype) => write!(f, "{dtype}")?,
            Piece::Param(param) => match param {
                TypeParam::Type(ty) => pending.push(Ty(ty)),
                TypeParam::Symbol(name) => {
                    let mut text = String::from("@");
                    lexer::name_into(name.as_str(), &mut text);
                    f.write_str(&text)?;
                }
                TypeParam::Int(value) => write!(f, "{value}")?,
                TypeParam::Dim(dim) => {
                    f.write_str("dim(")?;
                    pending.extend([Text(")"), Piece::Dim(dim)]);
                }
                TypeParam::DType(dtype) => write!(f, "dtype({dtype})")?,
            },
            Piece::Dim(Dim::Known(n)) => write!(f, "{n}")?,
            Piece::Dim(Dim::Any) => f.write_str("?")?,
            Piece::Dim(dim) if dim.facts().parts > MAX_TYPE_PARTS => f.write_str("?")?,
            Piece::Dim(Dim::Expr(expr)) => match expr.data() {
                DimExprData::Parameter(name) => write_name(name, f)?,
                DimExprData::Variable(index) => write!(f, "?{index}")?,
                DimExprData::Binary(op, a, b) => {
                    let (open, infix) = match op {
                        DimOp::Add => ("(", " + "),
                        DimOp::Sub => ("(", " - "),
                        DimOp::Mul => ("(", " * "),
                        // `//` starts a comment and `%` a variable.
                        DimOp::FloorDiv => ("floordiv(", ", "),
                        DimOp::FloorMod => ("floormod(", ", "),
                        DimOp::Min => ("min(", ", "),
                        DimOp::Max => ("max(", ", "),
                    };
                    f.write_str(open)?;
                    pending.extend([Text(")"), Piece::Dim(b), Text(infix), Piece::Dim(a)]);
                }
            },
            Ty(ty) if ty.facts().parts > MAX_TYPE_PARTS => f.write_str("_")?,
            Ty(ty) => match ty.data() {
                TypeData::Unknown => f.write_str("_")?,
                TypeData::Variable(index) => write!(f, "_{index}")?,
                TypeData::Parameter(name) => write_name(*name, f)?,
                TypeData::Tensor(tensor) if tensor.shape.is_empty() => {
                    write!(f, "{}", tensor.dtype)?;
                }
                TypeData::Tensor(tensor) => {
                    f.write_str("Tensor[(")?;
                    pending.extend([Text("]"), Piece::DType(tensor.dtype), Text("), ")]);
                    push_list(&mut pending, tensor.shape.iter().copied(), Piece::Dim);
                }
                TypeData::Tuple(fields) => {
                    f.write_str("(")?;
                    // A tuple of one keeps its comma, to tell it from parentheses.
                    pending.push(Text(if fields.len() == 1 { ",)" } else { ")" }));
                    push_list(&mut pending, fields.iter().copied(), Ty);
                }
                TypeData::Function(function) => {
                    f.write_str("fn ")?;
                    pending.extend([Ty(function.result), Text(") -> ")]);
                    push_list(&mut pending, function.params.iter().copied(), Ty);
                    pending.push(Text("("));
                    if !function.type_params.is_empty() {
                        pending.push(Text("]"));
                        let names = function.type_params.iter().copied();
                        push_list(&mut pending, names, Piece::Symbol);
                        pending.push(Text("["));
                    }
                }
                TypeData::Ref(inner) => {
                    f.write_str("ref(")?;
                    pending.extend([Text(")"), Ty(*inner)]);
                }
                TypeData::Named { name, params } => {
                    write_name(*name, f)?;
                    f.write_str("[")?;
                    pending.push(Text("]"));
                    push_list(&mut pending, params.iter().copied(), Piece::Param);
                }
            },
        }
    }
    Ok(())
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pieces(vec![Piece::Type(*self)], f)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_pieces(vec![Piece::Dim(*self)], f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_in_the_text_syntax() {
        let n = Dim::parameter("n");
        let rows = Type::tensor([n, Dim::Known(4), Dim::Any], DType::FLOAT32);
        assert_eq!(rows.to_string(), "Tensor[(n, 4, ?), float32]");
        let scalar = Type::scalar(DType::BOOL);
        let pair = Type::tuple([scalar, Type::reference(rows)]);
        assert_eq!(pair.to_string(), "(bool, ref(Tensor[(n, 4, ?), float32]))");
        let list = Type::named("List", [TypeParam::Type(Type::parameter("A"))]);
        let id = Type::new(TypeData::Function(FunctionType {
            type_params: Box::new(["A".into()]),
            params: Box::new([list, Type::unit()]),
            result: Type::tuple([list]),
        }));
        assert_eq!(id.to_string(), "fn [A](List[A], ()) -> (List[A],)");
        assert!(id.facts().has_parameter && !id.facts().has_any && rows.facts().has_any);
    }

    /// `n` doubled so often that its text would have more characters than a machine has bytes.
    #[test]
    fn facts_of_shared_extents_are_read_off() {
        let doubled = |from: Dim| (0..200).fold(from, |dim, _| Dim::binary(DimOp::Add, dim, dim));
        let facts = Type::tensor([doubled(Dim::parameter("n"))], DType::INT8).facts();
        assert!(facts.has_parameter && !facts.has_variable && !facts.has_any);
        let facts = Type::tensor([doubled(Dim::variable(0))], DType::INT8).facts();
        assert!(!facts.has_parameter && facts.has_variable && !facts.has_any);
    }

    #[test]
    fn types_without_end_are_not_written() {
        let pair = |ty: Type| Type::tuple([ty, ty]);
        let wide = (0..40).fold(Type::scalar(DType::BOOL), |ty, _| pair(ty));
        assert_eq!(Type::function([Type::unit()], wide).to_string(), "_");
        let doubled = (0..40).fold(Dim::parameter("n"), |dim, _| Dim::binary(DimOp::Add, dim, dim));
        assert_eq!(doubled.to_string(), "?");
        assert_eq!(Type::tensor([doubled], DType::INT8).to_string(), "_");
    }

    #[test]
    fn dims_fold() {
        let n = Dim::parameter("n");
        assert_eq!(Dim::binary(DimOp::Mul, n, 1.into()), n);
        assert_eq!(Dim::binary(DimOp::Add, 2.into(), 3.into()), Dim::Known(5));
        assert_eq!(Dim::binary(DimOp::FloorDiv, 7.into(), 0.into()), Dim::Any);
        assert_eq!(Dim::binary(DimOp::FloorDiv, (-7).into(), 2.into()), Dim::Known(-4));
        let twice = Dim::binary(DimOp::Mul, n, 2.into());
        assert_eq!(Dim::binary(DimOp::Add, twice, n).to_string(), "((n * 2) + n)");
    }
}
