//! The readable text of this dialect's items. What is printed reads back as an equal item, its
//! operations in the same order.
//!
//! ```text
//! te.func @dense(%x: Tensor[(8, 64), float32], %w: Tensor[(32, 64), float32])
//!     -> Tensor[(8, 32), float32] {
//!   dense[i < 8, j < 32] = sum[k < 64] %x[i, k] * %w[j, k]
//!   relu[i < 8, j < 32] = max(dense[i, j], 0f)
//!   return relu
//! }
//! te.kernel @relu(%x: Tensor[(64), float32], %y: Tensor[(64), float32]) outputs 1 {
//!   parallel i < 4 {
//!     %v = %x[ramp(i * 16, 1, 16)]
//!     %y[ramp(i * 16, 1, 16)] = max(%v, broadcast(0f, 16))
//!   }
//! }
//! ```
//!
//! Buffers, parameters and temporaries are written with a `%`; stages and indices are plain words.
//!
//! **Statements.**
//!
//! | statement | operation |
//! |---|---|
//! | `a[i < 8] = e` | a stage that maps; `{ … yield e }` where it needs temporaries |
//! | `a[i < 8] = sum[k < 4] e` | a stage that reduces; also `product`, `max`, `min` |
//! | `a[i < 8] = argmax[k < 4] k, e` | the same with two results, `a.0` and `a.1`; also `argmin` |
//! | `a[i < 8] = user(0f)[k < 4] { yield e } combine(a, b) { yield a + b }` | the same with a combination and identities of its own |
//! | `return a, b` | the end of a compute function |
//! | `for i < 8 { … }` | a loop; also `parallel`, `vectorized`, `unrolled`, `thread(blockIdx.x)` |
//! | `if e { … } else { … }` | branches |
//! | `%a = alloc[(8, 16), float32] register at 64` | a buffer; scope and offset may be left out |
//! | `%a = data dense<…>` | a buffer with constant contents |
//! | `%a[i] = e` | a store |
//! | `atomic %a[i] = sum e` | an atomic combination |
//! | `barrier`, `call @f(%x, %y)` | themselves |
//! | `%0 = e` | a value with several uses, or one that is computed at this place |
//! | `%0 = "a.b"(e, e) {key = value} : T` | any other operation |
//!
//! **Expressions**, from those that hold together least to those that do most:
//!
//! | | |
//! |---|---|
//! | `if c then %x[i] else e` | a load where `c` holds |
//! | `or`, `xor`, `and` | in this order |
//! | `not a` | |
//! | `==` `!=` `<` `<=` `>` `>=` | |
//! | `+` `-` | |
//! | `*` `/` `%` | `/` is `te.div`, `%` is `te.floormod` |
//! | `-a` | |
//! | `i`, `1`, `%x[i]`, `exp(a)`, `cast<int8>(a)`, `select(c, a, b)`, `ramp(a, 1, 4)`, `(a)` | |
//!
//! Operations of equal rank group to the left. A plain integer is an `int64`; other constants carry
//! their type, `0f`, `1i8`, `2f16`. **Equal numbers in one block are one constant**; a further one
//! has a name: `%0 = 1`. **Operations are made in the order of the text, operands first.**
//!
//! **Schedules** list primitives, one on a line: what it gives, its name, its handles, its required
//! attributes in the order of their declaration, then others behind their names. An attribute that
//! is no word and no number is written in braces with all others, `pragma %i {key = [1, 2]}`.
//!
//! ```text
//! te.schedule @fast for @dense {
//!   %relu, %i, %j = stage relu
//!   %j_outer, %j_inner = split %j factor 16
//!   reorder %j_outer, %i, %j_inner
//!   vectorize %j_inner
//!   %dense, %i1, %j1, %k = stage dense
//!   compute_at %dense, %i
//!   set_scope %dense register
//! }
//! ```

pub mod codes;

mod expressions;
mod forms;
mod inlining;
mod names;
mod operators;
mod parser;
mod printer;
mod schedules;
mod statements;
mod tidy;

use ir_core::text::ItemSyntax;

pub use tidy::tidy;

/// The syntax of compute functions and kernels.
pub(crate) const SYNTAX: ItemSyntax =
    ItemSyntax { print: printer::print_item, parse: parser::parse_item };

/// The syntax of schedules.
pub(crate) const SCHEDULE_SYNTAX: ItemSyntax =
    ItemSyntax { print: schedules::print_item, parse: schedules::parse_item };
