//! The forms of the language as operations.
//!
//! A function is an item of kind [`FUNC`] whose body's entry arguments are its parameters; a data
//! type is an item of kind [`TYPE`]. Order in a block is A-normal form; `let` and graph bindings
//! are both values, told apart by their name hint.

pub(crate) mod items;
mod reducing;
mod verify;

use ir_core::reduce::{DropParameter, MakeTuple, MakeZero, OpenFunction};
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, BlockId, Body, InsertPoint, ItemDef, Loc, Op, OpFields,
    OpId, OpParts, Registry, Signature, Symbol, TensorData, Type, ValueId, Work,
};
use rustc_hash::FxHashSet;

pub use items::{AdtDecl, ConstructorDecl, EXTERNAL, EXTERNAL_TYPE, FUNC, TYPE};

/// The operations that are forms of the language: written with syntax of their own, not as calls.
pub(crate) const FORMS: [&str; 15] = [
    "constant",
    "global",
    "operator",
    "constructor",
    "construct",
    "call",
    "tuple",
    "tuple_get",
    "fn",
    "if",
    "match",
    "ref",
    "ref_read",
    "ref_write",
    "yield",
];

/// Whether operation `relay.NAME` is a form of the language, not an operator that is called by
/// name.
pub fn is_form(name: &str) -> bool {
    FORMS.contains(&name)
}

/// The attribute of a kernel that gives its operand another shape and computes nothing.
pub const RESHAPE_ONLY: &str = "relay.reshape_only";

/// What the full names of operators start with.
const PREFIX: &str = "relay.";

/// The full name of the operator that programs call `name`.
pub fn operator(name: &str) -> Symbol {
    Symbol::new(&format!("{PREFIX}{name}"))
}

/// What programs call the operation `name`: its name without the dialect's, where it is of this one.
pub fn short_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// A constant tensor.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.constant", traits(CONSTANT), infer = |c: Constant, _: &mut _| Ok(c.value.ty()))]
pub struct Constant {
    /// The elements.
    pub value: TensorData,
}

/// A reference to a function of the module, `@name`.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.global", verify = verify::global)]
pub struct Global {
    /// The function.
    pub name: Symbol,
}

/// An operator used as a function value: `map(tanh, xs)`.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.operator", verify = verify::operator)]
pub struct Operator {
    /// The operator without the dialect's prefix: `nn.relu`.
    pub name: String,
}

/// A constructor used as a function value.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.constructor", verify = verify::constructor)]
pub struct Constructor {
    /// The constructor.
    pub name: String,
}

/// A constructor applied to all its fields.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.construct", verify = verify::construct)]
pub struct Construct<V = ValueId> {
    /// The constructor.
    pub name: String,
    /// The fields in declared order.
    pub fields: Vec<V>,
}

/// A call of a function value.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.call",
    effects(ALLOCATE, READ, WRITE, DIVERGE),
    infer = verify::call_relation,
    verify = verify::call
)]
pub struct Call<V = ValueId> {
    /// Type arguments, where the source gives them.
    #[default(vec![])]
    pub type_args: Vec<Type>,
    /// Call attributes.
    #[default(AttrDict::empty())]
    pub attributes: AttrDict,
    /// The function.
    pub callee: V,
    /// The arguments.
    pub args: Vec<V>,
}

/// A tuple.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.tuple",
    infer = verify::tuple_relation,
    verify = verify::tuple,
    hooks(Work(|_, _, _| 0.0))
)]
pub struct Tuple<V = ValueId> {
    /// The fields.
    pub fields: Vec<V>,
}

/// A field of a tuple.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.tuple_get",
    infer = verify::tuple_get_relation,
    verify = verify::tuple_get,
    hooks(Work(|_, _, _| 0.0))
)]
pub struct TupleGet<V = ValueId> {
    /// The tuple.
    pub tuple: V,
    /// The field, from 0.
    pub index: i64,
}

/// A function value. Its region captures values from outside; the arguments of its block are the
/// parameters, followed, when it is recursive, by the function itself. Type parameters, parameter
/// types and the result type stand in the type of the value.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.fn", traits(DEFERRED), regions(body), verify = verify::function)]
pub struct Fn {
    /// Whether the last block argument is the function itself.
    #[default(false)]
    pub recursive: bool,
    /// What the source wrote after the parameters, such as `Primitive=1`.
    #[default(AttrDict::empty())]
    pub attributes: AttrDict,
}

/// One of two values, by a scalar `bool`; only the taken region runs.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.if",
    traits(RECURSIVE_EFFECTS),
    regions(then_branch, else_branch),
    verify = verify::branches
)]
pub struct If<V = ValueId> {
    /// The condition.
    pub condition: V,
}

/// The value of the first clause whose pattern fits. Region `i` belongs to pattern `i`; its block
/// arguments are the variables of the pattern from left to right.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.match",
    traits(RECURSIVE_EFFECTS),
    effects(DIVERGE),
    regions(clauses..),
    verify = verify::clauses
)]
pub struct Match<V = ValueId> {
    /// What is taken apart.
    pub data: V,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Whether the patterns must cover every case (`match`, not `match?`).
    #[default(true)]
    pub complete: bool,
}

/// A new mutable cell.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.ref",
    effects(ALLOCATE),
    infer = verify::ref_relation,
    verify = verify::ref_create
)]
pub struct RefCreate<V = ValueId> {
    /// The first content.
    pub value: V,
}

/// The content of a cell.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.ref_read",
    effects(READ),
    infer = verify::ref_read_relation,
    verify = verify::ref_read
)]
pub struct RefRead<V = ValueId> {
    /// The cell.
    pub reference: V,
}

/// Replaces the content of a cell; the result is the empty tuple.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.ref_write",
    effects(WRITE),
    infer = verify::ref_write_relation,
    verify = verify::ref_write
)]
pub struct RefWrite<V = ValueId> {
    /// The cell.
    pub reference: V,
    /// The new content.
    pub value: V,
}

/// Ends a block with its value.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.yield", traits(TERMINATOR), results = 0, verify = verify::ends_region)]
pub struct Yield<V = ValueId> {
    /// The value.
    pub value: V,
}

/// A pattern of a `match` clause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// `_`: fits everything.
    Wildcard,
    /// `%x`: fits everything and binds it.
    Variable,
    /// `Cons(p, q)`.
    Constructor(Symbol, Vec<Pattern>),
    /// `(p, q)`.
    Tuple(Vec<Pattern>),
}

/// The deepest nesting of patterns. Deeper ones are refused where they would be made.
pub const MAX_PATTERN_DEPTH: usize = 200;

/// Written as `None`, `True`, `["Cons", p, q]` and `[None, p, q]`.
impl AttrValue for Pattern {
    const EXPECTS: &'static str = "a pattern";

    // Recursion is bounded by MAX_PATTERN_DEPTH.
    fn from_attr(attr: Attr) -> Option<Pattern> {
        match attr.data() {
            AttrData::None => Some(Pattern::Wildcard),
            AttrData::Bool(true) => Some(Pattern::Variable),
            AttrData::Array(items) => {
                let (head, fields) = items.split_first()?;
                let fields =
                    fields.iter().map(|f| Pattern::from_attr(*f)).collect::<Option<_>>()?;
                match head.data() {
                    AttrData::None => Some(Pattern::Tuple(fields)),
                    AttrData::String(name) => Some(Pattern::Constructor(Symbol::new(name), fields)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        let list = |head: Attr, fields: &[Pattern]| {
            let fields = fields.iter().map(Pattern::to_attr);
            Attr::new(AttrData::Array(std::iter::once(head).chain(fields).collect()))
        };
        match self {
            Pattern::Wildcard => Attr::new(AttrData::None),
            Pattern::Variable => true.to_attr(),
            Pattern::Constructor(name, fields) => list(Attr::of(&name.to_string()), fields),
            Pattern::Tuple(fields) => list(Attr::new(AttrData::None), fields),
        }
    }
}

impl Pattern {
    /// Number of variables that the pattern binds.
    pub fn variables(&self) -> usize {
        match self {
            Pattern::Wildcard => 0,
            Pattern::Variable => 1,
            Pattern::Constructor(_, fields) | Pattern::Tuple(fields) => {
                fields.iter().map(Pattern::variables).sum()
            }
        }
    }
}

/// The parameters of a `relay.fn` operation: its block's arguments without the function itself.
pub fn fn_params(body: &Body, op: OpId) -> &[ValueId] {
    let args = body.block_args(body.region_block(op, 0));
    match fn_self(body, op) {
        Some(_) => &args[..args.len() - 1],
        None => args,
    }
}

/// The block argument through which a recursive `relay.fn` operation refers to itself.
pub fn fn_self(body: &Body, op: OpId) -> Option<ValueId> {
    let recursive = body.attrs(op).value::<bool>("recursive").unwrap_or(false);
    if recursive { body.block_args(body.region_block(op, 0)).last().copied() } else { None }
}

/// Inserts a `relay.fn` without captures yet, whose block has one argument for each of `params`
/// and no operations. `result` is the type that the block will yield.
pub fn create_fn(
    body: &mut Body,
    at: InsertPoint,
    loc: Loc,
    attributes: AttrDict,
    params: &[Type],
    result: Type,
) -> OpId {
    let ty = Type::function(params.iter().copied(), result);
    let attrs = OpFields::<ValueId>::attrs(&Fn { recursive: false, attributes });
    let types = [ty];
    let parts = OpParts::new(Fn::NAME, &[], &types).attrs(attrs).regions(1).at(loc);
    let op = body.insert_op(at, parts);
    let block = body.region_block(op, 0);
    for &param in params {
        body.add_block_arg(block, param);
    }
    op
}

/// Ends `block` with `value`.
pub fn end_block(body: &mut Body, block: BlockId, value: ValueId) {
    body.insert_op(InsertPoint::End(block), OpParts::new(Yield::NAME, &[value], &[]));
}

/// The attribute of a function with the names of what it returns, in order, the fields of a tuple
/// one by one: `output_names=["logits", "scores"]`. Models that were imported have it.
pub const OUTPUT_NAMES: &str = "output_names";

/// The names of what the function of this signature returns, `count` of them, where it has as many
/// different ones; empty where it has not.
pub fn output_names(signature: &Signature, count: usize) -> Vec<String> {
    let names: Vec<String> = signature.attrs.value(OUTPUT_NAMES).unwrap_or_default();
    let different: FxHashSet<&String> = names.iter().collect();
    match names.len() == count && different.len() == count {
        true => names,
        false => Vec::new(),
    }
}

/// What the source wrote after the parameters of a `relay.fn`.
pub fn fn_attributes(body: &Body, op: OpId) -> AttrDict {
    body.attrs(op).value("attributes").unwrap_or_else(AttrDict::empty)
}

/// Whether function attributes mark a kernel made by fusion.
pub fn is_primitive(attributes: AttrDict) -> bool {
    attributes.value::<i64>("Primitive").unwrap_or(0) != 0
}

/// The value that `block` yields, once it is complete.
pub fn yielded(body: &Body, block: BlockId) -> Option<ValueId> {
    let last = body.last_op(block)?;
    body.is::<Yield>(last).then(|| body.operand(last, 0))
}

/// A constant of zeros, where `ty` is a tensor whose extents are known.
fn zeros(body: &mut Body, at: InsertPoint, ty: Type) -> Option<ValueId> {
    let tensor = ty.as_tensor()?;
    let shape = tensor.known_shape()?;
    let value = TensorData::zeros(tensor.dtype, &shape).ok()?;
    Some(body.add(at, Loc::UNKNOWN, &Constant { value }, ty))
}

fn tuple(body: &mut Body, at: InsertPoint, fields: &[ValueId]) -> ValueId {
    let ty = Type::tuple(fields.iter().map(|field| body.ty(*field)));
    body.add(at, Loc::UNKNOWN, &Tuple { fields: fields.to_vec() }, ty)
}

/// Adds the forms of the language. The whole dialect has operators too.
pub fn register(registry: &mut Registry) {
    registry.add_item(ItemDef {
        verify: Some(verify::function_item),
        ..ItemDef::new(FUNC, "A function: its parameters are the arguments of its body's block.")
    });
    registry.add_item(ItemDef {
        verify: Some(verify::type_item),
        ..ItemDef::new(TYPE, "A data type: its attributes name parameters and constructors.")
    });
    registry.add_item(ItemDef::new(
        EXTERNAL,
        "A function of the original's tensor-level language, kept as text.",
    ));
    registry.add_op(Constant::info().with(MakeZero(zeros)));
    registry.add_op(<Global as Op>::info().with(DropParameter(reducing::drop_parameter)));
    registry.op::<Operator>();
    registry.op::<Constructor>();
    registry.op::<Construct>();
    registry.op::<Call>();
    registry.add_op(<Tuple as Op>::info().with(MakeTuple(tuple)));
    registry.op::<TupleGet>();
    let function = <Fn as Op>::info().with(DropParameter(reducing::drop_parameter));
    registry.add_op(function.with(OpenFunction(reducing::open_function)));
    registry.op::<If>();
    registry.op::<Match>();
    registry.op::<RefCreate>();
    registry.op::<RefRead>();
    registry.op::<RefWrite>();
    registry.op::<Yield>();
}
