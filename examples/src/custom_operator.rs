//! An operator.

// ANCHOR: operator
use ir_core::{InferCx, Op, Type, ValueId};
use relay::define::{self, Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use relay_operators::{FusionPattern, LayoutRule};
use te::scalar::ScalarOp;

/// `data · sigmoid(beta · data)`, elementwise.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.contrib.swish",
    infer = |_: Swish<Type>, cx: &mut InferCx<'_>| cx.floats(0),
    hooks(
        FusionPattern::Elementwise,
        LayoutRule::Pointwise,
        Evaluate(evaluate_swish),
        Define(define_swish)
    )
)]
pub struct Swish<V = ValueId> {
    /// Any shape, of floats.
    pub data: V,
    /// Sharpness.
    #[default(1.0)]
    pub beta: f64,
}

fn evaluate_swish(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let beta = cx.fields::<Swish<Value>>()?.beta;
    cx.map(|x| x / (1.0 + (-beta * x).exp()))
}

fn define_swish(cx: &mut DefineCx<'_>) -> Defined {
    let beta = cx.fields::<Swish<Operand>>()?.beta;
    define::map(cx, |e, x| {
        let beta = e.number_like(x, beta);
        let scaled = e.mul(beta, x);
        let sigmoid = e.scalar(ScalarOp::Sigmoid, &[scaled]);
        e.mul(x, sigmoid)
    })
}
// ANCHOR_END: operator
