//! The readable text of this dialect's items. What is printed reads back as an equal item, its
//! operations in the same order.
//!
//! ```text
//! prog.data @List {
//!   Nil,
//!   Cons(float32, List[]),
//! }
//!
//! prog.func @map(%list: List[]) -> List[] {
//!   %mapped: List[] = switch %list {
//!     0 => {
//!       %0: List[] = construct 0
//!       yield %0
//!     }
//!     1(%x: float32, %rest: List[]) => {
//!       %y: float32 = kernel @tanh(%x)
//!       %1: List[] = call @map(%rest)
//!       %2: List[] = construct 1(%y, %1)
//!       yield %2
//!     }
//!   }
//!   yield %mapped
//! }
//! ```
//!
//! Values are written with a `%`. Each has its type where it is defined, since an item is read by
//! itself; a constant has it in itself. Constructors are numbers, by their position from 0. **Equal
//! text is an equal item**: each statement is one operation, none is left out, and what is owned
//! changes hands where the text says so.
//!
//! | statement | operation |
//! |---|---|
//! | `%a = constant 1f`, `%a = constant dense<…>` | a constant; a plain integer is an `int64` |
//! | `%a: T, %b: U = call @f(%x, %y)` | a call |
//! | `tail @f(%x, %y)` | a tail call, with which the block ends |
//! | `%a: T = kernel @f(%x, %y)` | a call of a compute function or kernel |
//! | `%a: T = if %c { … } else { … }` | one of two blocks |
//! | `%a: T = switch %x { 0 => { … } 1(%y: U) => { … } _ => { … } }` | the block of a constructor; `_` is that of all others |
//! | `%a: T = construct 1(%x, %y)` | data of the type `T`, by constructor 1 |
//! | `%a: ref(T) = cell(%x)` | a new cell |
//! | `%a: T = read %c`, `write %c(%x)` | what is in a cell, and what is from now on |
//! | `dup %x`, `drop %x` | one owner more, one less |
//! | `yield %a, %b` | the end of a block |
//! | `fail "message"` | the end of the program |
//! | `%a: T = "a.b"(%x) {key = value} with (%i: U) { … }` | any other operation, with its blocks |

mod parser;
mod printer;
mod statements;

use ir_core::text::ItemSyntax;

/// The syntax of functions and data types.
pub(crate) const SYNTAX: ItemSyntax =
    ItemSyntax { print: printer::print_item, parse: parser::parse_item };

/// The words of statements.
mod words {
    pub(super) const ATTRIBUTES: &str = "attributes";
    pub(super) const CALL: &str = "call";
    pub(super) const CELL: &str = "cell";
    pub(super) const CONSTANT: &str = "constant";
    pub(super) const CONSTRUCT: &str = "construct";
    pub(super) const DROP: &str = "drop";
    pub(super) const DUP: &str = "dup";
    pub(super) const ELSE: &str = "else";
    pub(super) const FAIL: &str = "fail";
    pub(super) const IF: &str = "if";
    pub(super) const KERNEL: &str = "kernel";
    pub(super) const ROWS: &str = "rows";
    pub(super) const READ: &str = "read";
    pub(super) const SWITCH: &str = "switch";
    pub(super) const TAIL: &str = "tail";
    pub(super) const WITH: &str = "with";
    pub(super) const WRITE: &str = "write";
    pub(super) const YIELD: &str = "yield";
}
