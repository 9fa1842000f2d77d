//! The reference interpreter: the meaning of every program, simple rather than fast.

mod code;
mod evaluate;
mod machine;
mod value;

pub use evaluate::{EvalCx, EvalError, Evaluate};
pub use machine::{Interpreter, Options, check_type};
pub use value::{Closure, Data, Fields, Reference, Value};
