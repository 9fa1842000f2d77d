//! Conversions between element types.

use ir_core::{DType, SmallFloat};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr};
use crate::texts::TEXT;

pub(super) const OPERATORS: &[Operator] = &[
    one("BitCast", "`reinterpret`, or `cast` of `bool`", |cx| {
        let data = cx.input(0)?;
        let Some(dtype) = cx.element_type("to")? else {
            return Err("attribute `to` is missing".into());
        };
        // Truth values are the bytes 0 and 1.
        match cx.dtype(&data)?.is_bool() && dtype.bits() == 8 {
            true => cx.cast(&data, dtype),
            false => cx.op_with("reinterpret", &[&data], attr("dtype", dtype)),
        }
    }),
    one(
        "Cast",
        "`cast`, with `clip` to floats of 8 bits; no texts from numbers, or numbers from texts",
        |cx| {
            let data = cx.input(0)?;
            let to_texts = cx.int_if("to")? == Some(TEXT);
            match (matches!(data, Value::Texts(_)), to_texts) {
                (true, true) => return Ok(data),
                (true, false) => return Err("expected numbers, found texts".into()),
                (false, true) => return Err("expected texts, found numbers".into()),
                (false, false) => {}
            }
            let Some(dtype) = cx.element_type("to")? else {
                return Err("attribute `to` is missing".into());
            };
            converted(cx, &data, dtype)
        },
    )
    .reading(),
    one(
        "CastLike",
        "`cast`, with `clip` to floats of 8 bits; no texts from numbers, or numbers from texts",
        |cx| {
            let (data, like) = (cx.input(0)?, cx.input(1)?);
            if let (Value::Texts(_), Value::Texts(_)) = (&data, &like) {
                return Ok(data);
            }
            let dtype = cx.dtype(&like)?;
            converted(cx, &data, dtype)
        },
    )
    .reading(),
];

/// `data` as another element type; what is known about a vector of extents is kept.
fn converted(cx: &mut Cx<'_, '_>, data: &Value, dtype: DType) -> Result<Value, Fault> {
    let elements = cx.elements(data).filter(|_| dtype.is_integer() && !dtype.is_bool());
    let result = match dtype.as_small_float() {
        Some(SmallFloat::E8M0FNU) => power_of_two(cx, data)?,
        Some(format) if cx.flag("saturate", true)? => {
            let wide = widened(cx, data)?;
            saturated(cx, &wide, format)?
        }
        _ => cx.cast(data, dtype)?,
    };
    match elements {
        Some(elements) => Ok(cx.with_elements(result, elements)),
        None => Ok(result),
    }
}

/// `data` in an element type that holds the numbers of all floats of at most eight bits.
fn widened(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let dtype = cx.dtype(data)?;
    match dtype.is_float() && dtype.as_small_float().is_none() {
        true => Ok(data.clone()),
        false => cx.cast(data, DType::FLOAT32),
    }
}

/// `data`, of floats, as ones of at most eight bits: what is too large becomes the greatest.
pub(super) fn saturated(
    cx: &mut Cx<'_, '_>,
    data: &Value,
    format: SmallFloat,
) -> Result<Value, Fault> {
    let bounds = attr("a_min", -format.max()).with("a_max", &format.max());
    let clipped = cx.op_with("clip", &[data], bounds)?;
    cx.cast(&clipped, DType::small_float(format))
}

/// `data` as powers of two, rounded as the node says: the exponent of a `float32`, and one more where its
/// mantissa asks for it.
fn power_of_two(cx: &mut Cx<'_, '_>, data: &Value) -> Result<Value, Fault> {
    let data = cx.cast(data, DType::FLOAT32)?;
    let bits = cx.op_with("reinterpret", &[&data], attr("dtype", DType::INT32))?;
    let part = |cx: &mut Cx<'_, '_>, shift: i64, mask: i64| {
        let shift = cx.int_scalar(DType::INT32, shift);
        let moved = cx.op("right_shift", &[&bits, &shift])?;
        let mask = cx.int_scalar(DType::INT32, mask);
        cx.op("bitwise_and", &[&moved, &mask])
    };
    let (exponent, mantissa) = (part(cx, 23, 0xff)?, part(cx, 0, 0x7f_ffff)?);
    let least = match cx.text("round_mode", "up")? {
        "up" => 1,
        "nearest" => 0x40_0000,
        "down" => 0x80_0000,
        other => {
            return Err(format!("expected to round up, down or to nearest, found `{other}`").into());
        }
    };
    let least = cx.int_scalar(DType::INT32, least);
    let is_more = cx.op("greater_equal", &[&mantissa, &least])?;
    let is_more = cx.cast(&is_more, DType::INT32)?;
    let rounded = cx.op("add", &[&exponent, &is_more])?;
    // The greatest power stands for what is beyond, infinity too, unless that is not a number.
    let saturates = cx.flag("saturate", true)?;
    let bounds = attr("a_min", 0.0).with("a_max", &(if saturates { 254.0 } else { 255.0 }));
    let rounded = cx.op_with("clip", &[&rounded], bounds)?;
    let nan = cx.int_scalar(DType::INT32, 0xff);
    let is_nan = cx.op("isnan", &[&data])?;
    let is_negative = cx.with_scalar("less", &data, 0.0)?;
    let is_none = cx.op("logical_or", &[&is_nan, &is_negative])?;
    let pattern = cx.op("where", &[&is_none, &nan, &rounded])?;
    let pattern = cx.cast(&pattern, DType::UINT8)?;
    let dtype = DType::small_float(SmallFloat::E8M0FNU);
    cx.op_with("reinterpret", &[&pattern], attr("dtype", dtype))
}
