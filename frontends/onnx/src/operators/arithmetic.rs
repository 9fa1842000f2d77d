//! Elementwise arithmetic, comparison and logic.

use super::{OfTexts, Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("Abs", "`abs`", |cx| cx.unary("abs")),
    one("Acos", "`acos`", |cx| cx.unary("acos")),
    one("Acosh", "`acosh`", |cx| cx.unary("acosh")),
    one("Add", "`add`", |cx| broadcast(cx, "add")),
    one("And", "`logical_and`", |cx| broadcast(cx, "logical_and")),
    one("Asin", "`asin`", |cx| cx.unary("asin")),
    one("Asinh", "`asinh`", |cx| cx.unary("asinh")),
    one("Atan", "`atan`", |cx| cx.unary("atan")),
    one("Atanh", "`atanh`", |cx| cx.unary("atanh")),
    one("BitShift", "`left_shift` or `right_shift`", |cx| match cx.text("direction", "")? {
        "LEFT" => cx.binary("left_shift"),
        "RIGHT" => cx.binary("right_shift"),
        other => Err(format!("expected the direction LEFT or RIGHT, found `{other}`").into()),
    }),
    one("BitwiseAnd", "`bitwise_and`", |cx| cx.binary("bitwise_and")),
    one("BitwiseNot", "`bitwise_not`", |cx| cx.unary("bitwise_not")),
    one("BitwiseOr", "`bitwise_or`", |cx| cx.binary("bitwise_or")),
    one("BitwiseXor", "`bitwise_xor`", |cx| cx.binary("bitwise_xor")),
    one("Ceil", "`ceil`", |cx| cx.unary("ceil")),
    one("Clip", "`clip`, or `maximum` and `minimum` for bounds that are computed or absent", clip),
    one("Cos", "`cos`", |cx| cx.unary("cos")),
    one("Cosh", "`cosh`", |cx| cx.unary("cosh")),
    one("Div", "`divide`", |cx| broadcast(cx, "divide")),
    one("Equal", "`equal`, of texts with `all`", |cx| match cx.input(0)? {
        Value::Texts(_) => super::texts::equal(cx),
        _ => broadcast(cx, "equal"),
    })
    .reading(),
    one("Erf", "`erf`", |cx| cx.unary("erf")),
    one("Exp", "`exp`", |cx| cx.unary("exp")),
    one("Floor", "`floor`", |cx| cx.unary("floor")),
    one("Greater", "`greater`", |cx| broadcast(cx, "greater")),
    one("GreaterOrEqual", "`greater_equal`", |cx| cx.binary("greater_equal")),
    one("IsInf", "`isinf`, with a comparison where one sign is meant", |cx| {
        let data = cx.input(0)?;
        let infinite = cx.op("isinf", &[&data])?;
        match (cx.flag("detect_positive", true)?, cx.flag("detect_negative", true)?) {
            (true, true) => Ok(infinite),
            (positive, negative) => {
                let sign = match (positive, negative) {
                    (true, _) => cx.with_scalar("greater", &data, 0.0)?,
                    (_, true) => cx.with_scalar("less", &data, 0.0)?,
                    // Nothing is both below and not below 0.
                    _ => cx.op("not_equal", &[&infinite, &infinite])?,
                };
                cx.op("logical_and", &[&infinite, &sign])
            }
        }
    }),
    one("IsNaN", "`isnan`", |cx| cx.unary("isnan")),
    one("Less", "`less`", |cx| broadcast(cx, "less")),
    one("LessOrEqual", "`less_equal`", |cx| cx.binary("less_equal")),
    one("Log", "`log`", |cx| cx.unary("log")),
    one("Max", "`maximum` of all operands", |cx| all(cx, "maximum")),
    one("Mean", "`add` of all operands, `divide`", |cx| {
        let sum = all(cx, "add")?;
        let count = cx.all_inputs()?.len();
        match count {
            1 => Ok(sum),
            _ => cx.with_scalar("divide", &sum, count as f64),
        }
    }),
    one("Min", "`minimum` of all operands", |cx| all(cx, "minimum")),
    one("Mod", "`floor_mod`, or `mod` with `fmod`", |cx| match cx.flag("fmod", false)? {
        true => cx.binary("mod"),
        false => cx.binary("floor_mod"),
    }),
    one("Mul", "`multiply`", |cx| broadcast(cx, "multiply")),
    one("Neg", "`negative`", |cx| cx.unary("negative")),
    one("Not", "`logical_not`", |cx| cx.unary("logical_not")),
    one("Or", "`logical_or`", |cx| broadcast(cx, "logical_or")),
    one("Pow", "`power`; operands of two element types are cast", power),
    one("Reciprocal", "`divide`", |cx| {
        let data = cx.input(0)?;
        let one = cx.scalar_like(1.0, &data)?;
        cx.op("divide", &[&one, &data])
    }),
    one("Round", "`round_even`", round),
    one("Sign", "`sign`", |cx| cx.unary("sign")),
    one("Sin", "`sin`", |cx| cx.unary("sin")),
    one("Sinh", "`sinh`", |cx| cx.unary("sinh")),
    one("Sqrt", "`sqrt`", |cx| cx.unary("sqrt")),
    one("Sub", "`subtract`", |cx| broadcast(cx, "subtract")),
    one("Sum", "`add` of all operands", |cx| all(cx, "add")),
    one("Tan", "`tan`", |cx| cx.unary("tan")),
    one("Where", "`where`", |cx| {
        let (condition, x, y) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        cx.op("where", &[&condition, &x, &y])
    })
    .of_texts(OfTexts::Move(1, 3)),
    one("Xor", "`logical_xor`", |cx| broadcast(cx, "logical_xor")),
];

/// Two operands through operator `name`. Before opset 7, `axis` says where in the first the second one's
/// axes begin.
fn broadcast(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let axis = match cx.opset() {
        7.. => None,
        _ => cx.int_if("axis")?,
    };
    let Some(axis) = axis else { return cx.op(name, &[&a, &b]) };
    let (rank, of_second) = (cx.rank(&a)?, cx.rank(&b)?);
    let axis = from_front(axis, rank)?;
    let Some(after) = rank.checked_sub(axis + of_second) else {
        let message =
            format!("expected {of_second} axes from axis {axis} on, found {}", rank - axis);
        return Err(message.into());
    };
    let b = (0..after).try_fold(b, |b, at| cx.expand_dims(&b, (of_second + at) as i64))?;
    cx.op(name, &[&a, &b])
}

/// All operands joined by operator `name`.
fn all(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let inputs = cx.all_inputs()?;
    let Some((first, rest)) = inputs.split_first() else {
        return Err("expected at least one operand, found none".into());
    };
    rest.iter().try_fold(first.clone(), |value, input| cx.op(name, &[&value, input]))
}

fn clip(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let [least, greatest] = if cx.opset() < 11 {
        ["min", "max"]
            .map(|name| cx.float_if(name).map(|bound| bound.map(|b| cx.scalar_like(b, &data))))
    } else {
        [1, 2].map(|index| Ok(cx.optional(index).map(Ok)))
    };
    let (least, greatest) = (least?.transpose()?, greatest?.transpose()?);
    let number = |value: &Option<Value>| {
        let tensor = cx.constant(value.as_ref()?)?;
        (tensor.len() == 1).then(|| tensor.element(0).map(|element| element.as_f64()))?
    };
    if let (Some(least), Some(greatest)) = (number(&least), number(&greatest))
        && least.is_finite()
        && greatest.is_finite()
        && least <= greatest
    {
        return cx.op_with("clip", &[&data], attr("a_min", least).with("a_max", &greatest));
    }
    let mut result = data;
    if let Some(least) = least {
        result = cx.op("maximum", &[&result, &least])?;
    }
    if let Some(greatest) = greatest {
        result = cx.op("minimum", &[&result, &greatest])?;
    }
    Ok(result)
}

fn power(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let (base, exponent) = (cx.input(0)?, cx.input(1)?);
    let (to, from) = (cx.dtype(&base)?, cx.dtype(&exponent)?);
    // A real exponent of an integer: the power is real, the result is not.
    let common = if to.is_integer() && from.is_float() { from } else { to };
    let (x, y) = (cx.cast(&base, common)?, cx.cast(&exponent, common)?);
    let result = cx.op("power", &[&x, &y])?;
    cx.cast(&result, to)
}

fn round(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    round_to_even(cx, &data)
}

/// The nearest integers, of two the even one.
pub(super) fn round_to_even(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    if cx.dtype(data)?.is_integer() {
        return Ok(data.clone());
    }
    cx.op("round_even", &[data])
}
