//! Whole programs, below the functional language and above kernels: functions that call one another,
//! data types, mutable cells, and who owns what.
//!
//! A program is first-order and has one type for each value. Functions are items of kind [`FUNC`],
//! data types items of kind [`DATA`]; what computes numbers are compute functions and kernels of
//! `te`, called by [`Kernel`]. Tuples do not exist: functions, branches and constructors take and
//! give several values.
//!
//! Values are of three sorts. Tensors of rank 0 are *scalars*. All others are *counted*
//! ([`is_counted`]): tensors, data and cells are shared, and their memory is free when nobody owns
//! them any more. Tensors whose extents are not known before they are there ([`is_open`]) have them as a
//! part of the value; operators on them are computed by whoever runs the program ([`Operate`]). **Every
//! value that a block owns is consumed exactly once on each path**: by an
//! operation that takes it, such as a call, or by [`Drop`]; [`Dup`] makes one owner two. Kernels and
//! cells that are read or written borrow. [`ownership::insert`] adds what is missing, and the verifier
//! checks it.
//!
//! ```
//! use ir_core::{Registry, text, verify};
//!
//! let registry = Registry::from([te::dialect(), prog::dialect()]);
//! let text = "
//! prog.func @twice(%x: Tensor[(4), float32]) -> (Tensor[(4), float32], Tensor[(4), float32]) {
//!   dup %x
//!   yield %x, %x
//! }";
//! let (module, found) = text::module::parse("twice", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! assert!(verify(&module, &registry).is_ok());
//! ```

pub mod bounded;
pub mod codes;
pub mod columns;
pub mod data;
pub mod interpreter;
pub mod operators;
pub mod order;
pub mod ownership;
pub mod rows;
pub mod shapes;
pub mod sites;
pub mod sized;
pub mod text;
mod verify;

pub use bounded::Bounded;
pub use order::Order;
pub use rows::Rows;
pub use shapes::{Expect, Extent, Indices, Reshape};
pub use sized::Sized;

use ir_core::{
    AttrDict, Dialect, Dim, ItemDef, Op, Registry, Symbol, TensorData, Type, TypeData, ValueId,
};

/// The kind of a function. Its type is `fn (parameters) -> result`, where several [`results`], or none,
/// are a tuple; the parameters are the arguments of its body's block, which owns them.
pub const FUNC: &str = "prog.func";

/// The kind of a data type; its attributes are a [`data::Declaration`].
pub const DATA: &str = "prog.data";

/// Whether values of type `ty` are counted, so that their owners matter: all but scalars.
pub fn is_counted(ty: Type) -> bool {
    ty.as_tensor().is_none_or(|tensor| tensor.rank() > 0)
}

/// The most axes of a tensor of unknown extents.
pub const MOST_OPEN_AXES: usize = 6;

/// Whether values of type `ty` are tensors whose extents are not known before they are there.
pub fn is_open(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.known_shape().is_none())
}

/// Whether values of type `ty` are tensors of known extents, which have a place in memory of known size.
pub fn is_fixed(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.known_shape().is_some())
}

/// The type of a tensor of type `ty` whose extents are a part of the value: all of them are `?`.
pub fn opened(ty: Type) -> Type {
    match ty.as_tensor() {
        Some(tensor) => Type::tensor(tensor.shape.iter().map(|_| Dim::Any), tensor.dtype),
        None => ty,
    }
}

/// The types of the values that a function with the result type `ty` gives.
pub fn results(ty: &Type) -> &[Type] {
    ty.as_tuple().unwrap_or(std::slice::from_ref(ty))
}

/// The result type of a function that gives values of `types`.
pub fn result_type(types: impl IntoIterator<Item = Type>) -> Type {
    let types: Vec<Type> = types.into_iter().collect();
    match types[..] {
        [one] => one,
        _ => Type::tuple(types),
    }
}

/// The types of what a cell of type `ty` holds; `None` of other types.
pub fn contents(ty: Type) -> Option<Vec<Type>> {
    match ty.data() {
        TypeData::Ref(content) => Some(match content.as_tuple() {
            Some(fields) => fields.to_vec(),
            None => vec![*content],
        }),
        _ => None,
    }
}

/// A constant tensor, which lives as long as the program: the owners of its result own nothing.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.constant", traits(CONSTANT), infer = |c: Constant, _: &mut _| Ok(c.value.ty()))]
pub struct Constant {
    /// The elements.
    pub value: TensorData,
}

/// Calls a function. It consumes its arguments.
#[derive(Op, Clone, Debug)]
#[op(
    name = "prog.call",
    effects(ALLOCATE, READ, WRITE, DIVERGE),
    results(values..),
    verify = verify::call
)]
pub struct Call<V = ValueId> {
    /// The function.
    pub function: Symbol,
    /// Its parameters.
    pub arguments: Vec<V>,
}

/// Ends a block, and the function with it, by calling a function whose results are those of this one.
/// It consumes its arguments, so that nothing of the calling function is left: however many calls
/// follow one another like this, they take the memory of one.
#[derive(Op, Clone, Debug)]
#[op(
    name = "prog.tail",
    traits(TERMINATOR, LEAVES),
    effects(ALLOCATE, READ, WRITE, DIVERGE),
    results = 0,
    verify = verify::tail
)]
pub struct Tail<V = ValueId> {
    /// The function.
    pub function: Symbol,
    /// Its parameters.
    pub arguments: Vec<V>,
}

/// The values of one of two blocks, by a scalar `bool`; only that block runs.
#[derive(Op, Clone, Debug)]
#[op(
    name = "prog.if",
    traits(RECURSIVE_EFFECTS),
    regions(then_branch, else_branch),
    results(values..),
    verify = verify::branches
)]
pub struct If<V = ValueId> {
    /// The condition.
    pub condition: V,
}

/// The values of the block for the constructor that `data` was made by; the block takes the fields. It
/// consumes `data`, and the block owns the fields.
#[derive(Op, Clone, Debug)]
#[op(
    name = "prog.switch",
    traits(RECURSIVE_EFFECTS),
    regions(cases..),
    results(values..),
    verify = verify::switch
)]
pub struct Switch<V = ValueId> {
    /// What is taken apart.
    pub data: V,
    /// By block: the number of its constructor. One more block, if there is one, is for all others; it
    /// takes nothing.
    pub tags: Vec<i64>,
}

/// Makes data. It consumes the fields.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.construct", effects(ALLOCATE), verify = verify::construct)]
pub struct Construct<V = ValueId> {
    /// The number of the constructor.
    pub tag: i64,
    /// Its fields.
    pub fields: Vec<V>,
}

/// Calls a compute function or a kernel on tensors; its results are new ones. It borrows.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.kernel", effects(DIVERGE), results(tensors..), verify = verify::kernel)]
pub struct Kernel<V = ValueId> {
    /// The compute function or kernel.
    pub function: Symbol,
    /// Its inputs.
    pub inputs: Vec<V>,
}

/// Computes an operator of another dialect on tensors of any extents. Whoever runs the program does that
/// ([`operators::Operators`]); its results are new tensors. It borrows.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.operate", effects(DIVERGE), results(tensors..), verify = verify::operate)]
pub struct Operate<V = ValueId> {
    /// The operator.
    pub operator: Symbol,
    /// Its attributes.
    pub attributes: AttrDict,
    /// The types of its operands: tensors, and tuples of them.
    pub operands: Vec<Type>,
    /// The type of its result, a tensor or a tuple of them.
    pub result: Type,
    /// The tensors of its operands.
    pub inputs: Vec<V>,
}

/// The same tensor, with its extents as a part of the value. It consumes the tensor.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.open", effects(ALLOCATE), verify = verify::open)]
pub struct Open<V = ValueId> {
    /// A tensor of known extents.
    pub tensor: V,
}

/// A new mutable cell. It consumes what the cell holds.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.cell", effects(ALLOCATE), verify = verify::cell)]
pub struct Cell<V = ValueId> {
    /// What it holds.
    pub values: Vec<V>,
}

/// What a cell holds, with owners of its own. It borrows the cell.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.read", effects(READ), results(values..), verify = verify::read)]
pub struct Read<V = ValueId> {
    /// The cell.
    pub cell: V,
}

/// Replaces what a cell holds, and drops what it held. It borrows the cell and consumes the values.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.write", effects(WRITE), results = 0, verify = verify::write)]
pub struct Write<V = ValueId> {
    /// The cell.
    pub cell: V,
    /// What it holds from now on.
    pub values: Vec<V>,
}

/// One more owner of a counted value.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.dup", effects(WRITE), results = 0, verify = verify::counted)]
pub struct Dup<V = ValueId> {
    /// The value.
    pub value: V,
}

/// One owner less of a counted value; its memory is free when none is left.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.drop", effects(WRITE), results = 0, verify = verify::counted)]
pub struct Drop<V = ValueId> {
    /// The value.
    pub value: V,
}

/// Ends the program with an error at its place.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.fail", traits(TERMINATOR, LEAVES), effects(DIVERGE), results = 0)]
pub struct Fail {
    /// What is wrong, as a message that starts in lower case.
    pub message: String,
}

/// Ends a block with its values. It consumes them.
#[derive(Op, Clone, Debug)]
#[op(name = "prog.yield", traits(TERMINATOR), results = 0, verify = verify::yielded)]
pub struct Yield<V = ValueId> {
    /// The values.
    pub values: Vec<V>,
}

/// The dialect, for [`Registry::add_dialect`](ir_core::Registry::add_dialect).
pub fn dialect() -> Dialect {
    Dialect {
        name: "prog",
        doc: "Whole programs: functions, data, cells, and who owns what.",
        register,
    }
}

fn register(registry: &mut Registry) {
    registry.add_item(ItemDef {
        verify: Some(verify::function),
        syntax: Some(text::SYNTAX),
        ..ItemDef::new(FUNC, "A function: its parameters are the arguments of its body's block.")
    });
    registry.add_item(ItemDef {
        verify: Some(verify::declaration),
        syntax: Some(text::SYNTAX),
        ..ItemDef::new(DATA, "A data type: its attributes name constructors.")
    });
    registry.op::<Constant>();
    registry.op::<Call>();
    registry.op::<Tail>();
    registry.op::<If>();
    registry.op::<Switch>();
    registry.op::<Construct>();
    registry.op::<Kernel>();
    registry.op::<Operate>();
    registry.op::<Rows>();
    registry.op::<Bounded>();
    registry.op::<Expect>();
    registry.op::<Extent>();
    registry.op::<Indices>();
    registry.op::<Order>();
    registry.op::<Reshape>();
    registry.op::<Sized>();
    registry.op::<Open>();
    registry.op::<Cell>();
    registry.op::<Read>();
    registry.op::<Write>();
    registry.op::<Dup>();
    registry.op::<Drop>();
    registry.op::<Fail>();
    registry.op::<Yield>();
}
