//! An operator.

// ANCHOR: operator
use ir_core::{InferCx, Op, Scalar, Stop, TensorData, Type, ValueId};
use relay::define::{self, Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use relay_operators::{FusionPattern, LayoutRule};
use te::scalar::ScalarOp;

/// `data · sigmoid(beta · data)`, elementwise.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.contrib.swish",
    infer = swish_relation,
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

fn swish_relation(op: Swish<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    match cx.tensor(0)?.dtype.is_float() {
        true => Ok(op.data),
        false => Err(Stop::error(format!("expected a tensor of floats, found {}", op.data))),
    }
}

fn evaluate_swish(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let beta = cx.fields::<Swish<Value>>()?.beta;
    let data = cx.tensor(0)?;
    let swish = |x: f64| x / (1.0 + (-beta * x).exp());
    let values = data.elements().map(|x| Scalar::Float(swish(x.as_f64())));
    Ok(TensorData::from_scalars(data.dtype(), data.shape(), values)?.into())
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
