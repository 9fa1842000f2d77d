//! Reductions, scans and order along axes.

use ir_core::{AttrDict, DType};

use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, all_from_front, attr, attrs, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("ArgMax", "`argmax`, `cast`", |cx| arg(cx, "argmax")),
    one("ArgMin", "`argmin`, `cast`", |cx| arg(cx, "argmin")),
    one(
        "CumProd",
        "`cumprod`, between two `reverse` for the other direction; a constant axis",
        |cx| scan(cx, "cumprod"),
    ),
    one(
        "CumSum",
        "`cumsum`, between two `reverse` for the other direction; a constant axis",
        |cx| scan(cx, "cumsum"),
    ),
    one("ReduceL1", "`abs`, `sum`", |cx| {
        let Some(axes) = Axes::of(cx, 18)? else { return cx.unary("abs") };
        let magnitude = cx.unary("abs")?;
        axes.reduce(cx, "sum", &magnitude)
    }),
    one("ReduceL2", "`multiply`, `sum`, `sqrt`", |cx| {
        let Some(axes) = Axes::of(cx, 18)? else { return cx.unary("abs") };
        let sum = axes.sum_of_squares(cx)?;
        cx.op("sqrt", &[&sum])
    }),
    one("ReduceLogSum", "`sum`, `log`", |cx| {
        let Some(axes) = Axes::of(cx, 18)? else { return cx.unary("log") };
        let data = cx.input(0)?;
        let sum = axes.reduce(cx, "sum", &data)?;
        cx.op("log", &[&sum])
    }),
    one("ReduceLogSumExp", "`max`, `exp`, `sum`, `log`", |cx| {
        let data = cx.input(0)?;
        let Some(axes) = Axes::of(cx, 18)? else { return Ok(data) };
        // The greatest is taken out, so that nothing overflows.
        let greatest = |cx: &mut Cx<'_, '_>, axes: &Axes| {
            let greatest = axes.reduce(cx, "max", &data)?;
            if !cx.dtype(&greatest)?.is_float() {
                return Ok::<Value, Fault>(greatest);
            }
            // Infinity less infinity is no number.
            let (is_infinite, zero) = (cx.op("isinf", &[&greatest])?, cx.scalar_like(0.0, &data)?);
            cx.op("where", &[&is_infinite, &zero, &greatest])
        };
        let taken = greatest(cx, &Axes { keep: true, ..axes.clone() })?;
        let rest = cx.op("subtract", &[&data, &taken])?;
        let rest = cx.op("exp", &[&rest])?;
        let sum = axes.reduce(cx, "sum", &rest)?;
        let logarithm = cx.op("log", &[&sum])?;
        let greatest = if axes.keep { taken } else { greatest(cx, &axes)? };
        cx.op("add", &[&logarithm, &greatest])
    }),
    one("ReduceMax", "`max`", |cx| reduce(cx, "max", 18)),
    one("ReduceMean", "`mean`", |cx| reduce(cx, "mean", 18)),
    one("ReduceMin", "`min`", |cx| reduce(cx, "min", 18)),
    one("ReduceProd", "`prod`", |cx| reduce(cx, "prod", 18)),
    one("ReduceSum", "`sum`", |cx| reduce(cx, "sum", 13)),
    one("ReduceSumSquare", "`multiply`, `sum`", |cx| match Axes::of(cx, 18)? {
        Some(axes) => axes.sum_of_squares(cx),
        None => {
            let data = cx.input(0)?;
            cx.op("multiply", &[&data, &data])
        }
    }),
    many("TopK", "`topk`, or `dyn.topk` for a number that is computed", top_k),
];

/// What a reduction runs over.
#[derive(Clone)]
struct Axes {
    axes: Vec<i64>,
    keep: bool,
}

impl Axes {
    /// The axes of the node, an operand from opset `since` on; `None` where nothing is reduced.
    fn of(cx: &mut Cx<'_, '_>, since: i64) -> Result<Option<Axes>, Fault> {
        let axes = cx.ints_since(since, 1, "axes")?.unwrap_or_default();
        if axes.is_empty() && cx.flag("noop_with_empty_axes", false)? {
            return Ok(None);
        }
        Ok(Some(Axes { axes, keep: cx.flag("keepdims", true)? }))
    }

    fn attrs(&self) -> AttrDict {
        match self.axes.is_empty() {
            true => attrs().with("keepdims", &self.keep),
            false => attr("axis", self.axes.clone()).with("keepdims", &self.keep),
        }
    }

    fn reduce(&self, cx: &mut Cx<'_, '_>, name: &str, data: &Value) -> Result<Value, Fault> {
        let name = match (name, cx.dtype(data)?.is_bool()) {
            ("max", true) => "any",
            ("min", true) => "all",
            _ => name,
        };
        match (name, self.of_nothing(cx, data)?) {
            ("max" | "min", Some(shape)) => {
                let dtype = cx.dtype(data)?;
                let least = match dtype.is_float() {
                    true => f64::NEG_INFINITY,
                    false if dtype.is_signed() => -(2f64.powi(dtype.bits() as i32 - 1)),
                    false => 0.0,
                };
                let greatest = match dtype.is_float() {
                    true => f64::INFINITY,
                    false if dtype.is_signed() => -least - 1.0,
                    false => 2f64.powi(dtype.bits() as i32) - 1.0,
                };
                cx.full(dtype, &shape, if name == "max" { least } else { greatest })
            }
            _ => cx.op_with(name, &[data], self.attrs()),
        }
    }

    /// The shape of the result where nothing is reduced to each of its elements.
    fn of_nothing(&self, cx: &Cx<'_, '_>, data: &Value) -> Result<Option<Vec<i64>>, Fault> {
        let Some(shape) = cx.ty(data)?.known_shape() else { return Ok(None) };
        let axes = match self.axes.is_empty() {
            true => (0..shape.len()).collect(),
            false => all_from_front(&self.axes, shape.len())?,
        };
        if axes.iter().all(|axis| shape[*axis] != 0) {
            return Ok(None);
        }
        let left = shape.iter().enumerate().filter_map(|(axis, extent)| {
            match (axes.contains(&axis), self.keep) {
                (false, _) => Some(*extent),
                (true, true) => Some(1),
                (true, false) => None,
            }
        });
        Ok(Some(left.collect()))
    }

    fn sum_of_squares(&self, cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
        let data = cx.input(0)?;
        let squares = cx.op("multiply", &[&data, &data])?;
        self.reduce(cx, "sum", &squares)
    }
}

fn reduce(cx: &mut Cx<'_, '_>, name: &str, since: i64) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    match Axes::of(cx, since)? {
        Some(axes) => axes.reduce(cx, name, &data),
        None => Ok(data),
    }
}

fn scan(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let axis = match cx.int_operand(1, "axis")?.as_deref() {
        Some([axis]) => from_front(*axis, cx.rank(&data)?)? as i64,
        _ => return Err("expected one constant as `axis`".into()),
    };
    let reverse = cx.flag("reverse", false)?;
    let turned = |cx: &mut Cx<'_, '_>, data: Value| match reverse {
        true => cx.op_with("reverse", &[&data], attr("axis", axis)),
        false => Ok(data),
    };
    let data = turned(cx, data)?;
    let attrs = attr("axis", axis).with("exclusive", &cx.flag("exclusive", false)?);
    let scanned = cx.op_with(name, &[&data], attrs)?;
    turned(cx, scanned)
}

fn arg(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let axis = cx.axis(0, cx.rank(&data)?)? as i64;
    let attrs = attr("axis", vec![axis])
        .with("keepdims", &cx.flag("keepdims", true)?)
        .with("select_last_index", &cx.flag("select_last_index", false)?);
    let place = cx.op_with(name, &[&data], attrs)?;
    cx.cast(&place, DType::INT64)
}

fn top_k(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let data = cx.input(0)?;
    let axis = cx.axis(-1, cx.rank(&data)?)? as i64;
    let attrs = attr("axis", axis)
        .with("is_ascend", &!cx.flag("largest", true)?)
        .with("dtype", &DType::INT64);
    let number = match cx.opset() < 10 {
        true => Some(vec![cx.required_int("k")?]),
        false => cx.known_ints(&cx.input(1)?),
    };
    match number.as_deref() {
        // Less than 1 would mean all.
        Some([number]) if *number >= 1 => cx.fields_of("topk", &[&data], attrs.with("k", number)),
        Some(found) => Err(format!("expected at least 1 as `k`, found {found:?}").into()),
        None => {
            let number = cx.input(1)?;
            let number = cx.reshape(&number, &[])?;
            cx.fields_of("dyn.topk", &[&data, &number], attrs)
        }
    }
}
