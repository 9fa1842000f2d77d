//! Programs of one type each from polymorphic ones.

mod arguments;
mod data_types;
mod functions;
mod known;
pub(crate) mod types;
mod visit;

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult, Symbol, Type};

use functions::Functions;
pub(crate) use functions::{Mode, closed, substitute_body, substitute_op};

/// Copies functions and data types for what they are used with: afterwards nothing that `@main`
/// reaches has type parameters.
///
/// A function is copied for the types of each use, and for the functions that it is passed where the
/// call says which they are; so `@map` with a known function has no call of a value. Such a function
/// moves to the top level, with what it captures as its first parameters, and so do local functions
/// that are called. Data types are copied for their parameters. The first copy has the name of the
/// original, the others a number; constructors keep order and tags, and results are printed with the
/// original's names.
///
/// Parameters for extents are no obstacle: where a call says what they are, the copy knows it, else
/// they stay. Functions that an entry function does not reach go; where there is no entry function,
/// those without type parameters are reached.
///
/// An entry function may have type parameters that its parameters have nothing to do with, as where it
/// gives an empty list of anything. They stand for the empty tuple.
///
/// A function or a data type that uses itself with larger and larger types is an error, and so is a
/// function value whose type depends on a type parameter that no use fixes.
///
/// ```relay
/// type List[A] { Cons(A, List[A]), Nil }
/// def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
///   match (%xs) {
///     Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)),
///     Nil => Nil,
///   }
/// }
/// def @main(%a: float32, %xs: List[float32]) {
///   @map(fn (%x: float32) -> bool { less(%x, %a) }, %xs)
/// }
/// ```
/// becomes
/// ```relay
/// type List {
///   Cons(float32, List[]),
///   Nil,
/// }
///
/// type List1 {
///   Cons1(bool, List1[]),
///   Nil1,
/// }
///
/// def @map(%a: float32, %xs: List[]) -> List1[] {
///   match (%xs) {
///     Cons(%x: float32, %rest: List[]) => {
///       %0 = @main_lambda(%a, %x);
///       %1 = @map(%a, %rest);
///       Cons1(%0, %1)
///     },
///     Nil => {
///       Nil1
///     },
///   }
/// }
///
/// def @main(%a: float32, %xs: List[]) -> List1[] {
///   @map(%a, %xs)
/// }
///
/// def @main_lambda(%a: float32, %x: float32) -> bool {
///   less(%x, %a)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "specialize", module)]
pub struct Specialize {
    /// Copies functions for the functions that they are passed, too, and moves local functions that
    /// are called to the top level.
    #[default(true)]
    pub functions: bool,
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
}

/// The type of the copy of an entry function of type `ty`: parameters for types that nothing fixes stand
/// for the empty tuple.
pub fn entry_type(ty: Type) -> Type {
    functions::without_type_parameters(ty)
}

impl ModulePass for Specialize {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let entry: Vec<Symbol> = self.entry.iter().map(|name| Symbol::new(name)).collect();
        let mode = if self.functions { Mode::KnownFunctions } else { Mode::Types };
        specialize(module, mode, &entry, cx)
    }
}

/// Copies the functions that those of `entry` reach, or where there are none of these, those without
/// type parameters.
pub(crate) fn specialize(
    module: &mut Module,
    mode: Mode,
    entry: &[Symbol],
    cx: &mut PassContext<'_>,
) -> PassResult {
    let mut functions = Functions::new(module, cx.registry, mode, entry)?;
    functions.run()?;
    cx.count("copies", functions.copies());
    cx.count("lifted", functions.lifted());
    functions.finish(module);
    data_types::specialize(module, entry)
}
