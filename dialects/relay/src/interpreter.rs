//! The reference interpreter: the whole language, simple and slow.

mod evaluate;
mod value;

pub use evaluate::{EvalCx, EvalError, Evaluate};
pub use value::Value;
