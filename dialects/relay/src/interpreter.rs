//! The reference interpreter: the meaning of every program, simple rather than fast.

mod code;
mod codes;
mod compare;
mod evaluate;
mod extents;
mod machine;
mod operation;
mod random;
mod value;

pub use codes::CODES;
pub use compare::{
    Mismatch, approx_equal, approx_equal_where_finite, finite_where_finite, flatten,
};
pub use evaluate::{EvalCx, EvalError, Evaluate, ON_THE_WAY, Shape, shape_of};
pub use ir_core::Random;
pub use machine::{Interpreter, Options, check_type};
pub use operation::Operation;
pub use random::{
    RandomOperand, random_arguments, random_value, random_values, random_values_up_to, spreads,
    told_spreads,
};
pub use value::{Closure, Data, Fields, Reference, Value};
