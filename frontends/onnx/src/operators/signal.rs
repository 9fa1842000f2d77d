//! Fourier transforms and windows of signals.

use std::f64::consts::PI;

use ir_core::{DType, TensorData};

use super::{Operator, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, bounded, from_front};

pub(super) const OPERATORS: &[Operator] = &[
    one("BlackmanWindow", "a constant", |cx| {
        window(cx, |turn| 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos())
    }),
    one("DFT", "`dft`, with `nn.pad` or `strided_slice` to its length; known extents", fourier),
    one("HammingWindow", "a constant", |cx| {
        let alpha = 25.0 / 46.0;
        window(cx, |turn| alpha - (1.0 - alpha) * turn.cos())
    }),
    one("HannWindow", "a constant", |cx| window(cx, |turn| 0.5 - 0.5 * turn.cos())),
    one("MelWeightMatrix", "a constant", mel_weights),
    one("STFT", "`stft`, `transpose`; a constant step and length", short_time_fourier),
];

/// The values of `of` at as many angles of one turn as operand 0 says.
fn window(cx: &mut Cx<'_, '_>, of: impl Fn(f64) -> f64) -> Result<Value, Fault> {
    let Some(&[size]) = cx.int_operand(0, "size")?.as_deref() else {
        return Err("expected one constant as `size`".into());
    };
    bounded("size", &[size], 0)?;
    let turns = if cx.flag("periodic", true)? { size } else { size - 1 };
    let values: Vec<f64> =
        (0..size).map(|at| of(2.0 * PI * at as f64 / turns.max(1) as f64)).collect();
    let dtype = cx.element_type("output_datatype")?.unwrap_or(DType::FLOAT32);
    let tensor = TensorData::from_f64(dtype, &[size], &values);
    Ok(Value::Constant(tensor.map_err(|error| error.to_string())?))
}

/// Triangles over the frequencies of a transform, whose middles are evenly spaced on the mel scale.
fn mel_weights(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let mut operands = [0.0; 5];
    for (index, operand) in operands.iter_mut().enumerate() {
        let value = cx.input(index)?;
        match super::shape::number(cx, &value) {
            Some(number) if number.is_finite() => *operand = number,
            _ => return Err(format!("expected a finite constant as operand {index}").into()),
        }
    }
    let [bins, length, rate, lower, upper] = operands;
    let (bins, length) = (bins as i64, length as i64);
    bounded("num_mel_bins", &[bins], 0)?;
    bounded("dft_length", &[length], 0)?;
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(upper) - mel(lower)) / (bins + 2) as f64;
    let place = |bin: i64| {
        let hertz = 700.0 * (10f64.powf((mel(lower) + bin as f64 * step) / 2595.0) - 1.0);
        // Far outside of all frequencies, but not of what can be counted.
        ((length + 1) as f64 * hertz / rate).floor().clamp(-1e12, 1e12) as i64
    };
    let rows = length / 2 + 1;
    let dtype = cx.element_type("output_datatype")?.unwrap_or(DType::FLOAT32);
    let zeros = cx.full(dtype, &[rows, bins], 0.0)?;
    let Some(zeros) = cx.constant(&zeros) else { return Ok(zeros) };
    let mut values = zeros.to_f64();
    for bin in 0..bins {
        let (left, middle, right) = (place(bin), place(bin + 1), place(bin + 2));
        let mut set = |row: i64, value: f64| {
            if (0..rows).contains(&row) {
                values[(row * bins + bin) as usize] = value;
            }
        };
        if left == middle {
            set(middle, 1.0);
        }
        let part = |row: i64, from: i64, to: i64| (row - from) as f64 / (to - from) as f64;
        for row in left.max(0)..=middle.min(rows - 1) {
            if left != middle {
                set(row, part(row, left, middle));
            }
        }
        for row in middle.max(0)..right.min(rows) {
            set(row, part(row, right, middle));
        }
    }
    let tensor = TensorData::from_f64(dtype, &[rows, bins], &values);
    Ok(Value::Constant(tensor.map_err(|error| error.to_string())?))
}

/// A number that optional operand `index` gives.
fn number(cx: &Cx<'_, '_>, index: usize, name: &str) -> Result<Option<i64>, Fault> {
    match cx.int_operand(index, name)?.as_deref() {
        None => Ok(None),
        Some([number]) => Ok(Some(*number)),
        Some(_) => Err(format!("expected one constant as `{name}`").into()),
    }
}

/// Elements `begin` to `end` of the last axis.
fn part(cx: &mut Cx<'_, '_>, data: &Value, begin: i64, end: i64) -> Result<Value, Fault> {
    let attrs = attr("begin", vec![begin]).with("end", &vec![end]).with("axes", &vec![-1i64]);
    cx.op_with("strided_slice", &[data], attrs)
}

/// `data` with `length` elements along its last axis: cut, or with zeros behind.
fn with_length(cx: &mut Cx<'_, '_>, data: &Value, length: i64) -> Result<Value, Fault> {
    let shape = cx.shape(data)?;
    let more = length - shape.last().copied().unwrap_or(0);
    match more {
        0 => Ok(data.clone()),
        ..0 => part(cx, data, 0, length),
        _ => {
            let mut widths = vec![vec![0i64, 0]; shape.len()];
            widths[shape.len() - 1][1] = more;
            let zero = cx.scalar_like(0.0, data)?;
            cx.op_with("nn.pad", &[data, &zero], attr("pad_width", widths))
        }
    }
}

fn fourier(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let data = cx.input(0)?;
    let shape = cx.shape(&data)?;
    let rank = shape.len();
    let axis = match cx.opset() {
        20.. => number(cx, 2, "axis")?.unwrap_or(-2),
        _ => cx.int("axis", 1)?,
    };
    let axis = from_front(axis, rank)?;
    if axis + 1 == rank {
        return Err("expected an axis before the last, which has real and imaginary parts".into());
    }
    let (inverse, onesided) = (cx.flag("inverse", false)?, cx.flag("onesided", false)?);
    let half = inverse && onesided;
    let length = number(cx, 1, "dft_length")?;
    let length = length.unwrap_or(if half { 2 * (shape[axis] - 1) } else { shape[axis] });
    bounded("dft_length", &[length], 1)?;
    // The axis last, then real and imaginary parts.
    let parts = match shape[rank - 1] {
        1 => vec![data],
        2 => cx.split(&data, 2, -1)?,
        other => return Err(format!("expected a last extent of 1 or 2, found {other}").into()),
    };
    let mut turned: Vec<i64> = (0..rank as i64 - 1).filter(|at| *at != axis as i64).collect();
    turned.push(axis as i64);
    let mut sides = vec![];
    for side in parts {
        let side = cx.squeeze(&side, &[-1])?;
        let side = cx.transpose(&side, &turned)?;
        sides.push(with_length(cx, &side, if half { length / 2 + 1 } else { length })?);
    }
    if sides.len() == 1 {
        sides.push(cx.op("zeros_like", &[&sides[0]])?);
    }
    if half {
        for (at, side) in sides.iter_mut().enumerate() {
            *side = mirrored(cx, side, length, at == 1)?;
        }
    }
    let attrs = attr("inverse", inverse);
    let mut sides = cx.fields_of("dft", &[&sides[0], &sides[1]], attrs)?;
    if half {
        sides.truncate(1);
    }
    let mut back = vec![0i64; rank - 1];
    turned.iter().enumerate().for_each(|(at, from)| back[*from as usize] = at as i64);
    let mut results = vec![];
    for side in sides {
        let side = if onesided && !inverse { part(cx, &side, 0, length / 2 + 1)? } else { side };
        let side = cx.transpose(&side, &back)?;
        results.push(cx.expand_dims(&side, rank as i64 - 1)?);
    }
    cx.concatenate(&results, -1)
}

/// The frequencies of a real signal of `length` elements, of which `side` has those up to the half: the
/// others are the same from there back, with the sign turned where `negated`.
fn mirrored(cx: &mut Cx<'_, '_>, side: &Value, length: i64, negated: bool) -> Result<Value, Fault> {
    let count = length - (length / 2 + 1);
    if count == 0 {
        return Ok(side.clone());
    }
    let rest = part(cx, side, 1, 1 + count)?;
    let mut rest = cx.op_with("reverse", &[&rest], attr("axis", -1i64))?;
    if negated {
        rest = cx.op("negative", &[&rest])?;
    }
    cx.concatenate(&[side.clone(), rest], -1)
}

fn short_time_fourier(cx: &mut Cx<'_, '_>) -> Result<Value, Fault> {
    let mut data = cx.input(0)?;
    if cx.rank(&data)? == 3 {
        if cx.ty(&data)?.shape[2].known() != Some(1) {
            return Err("expected a signal of real numbers".into());
        }
        data = cx.squeeze(&data, &[2])?;
    }
    let Some(step) = number(cx, 1, "frame_step")? else {
        return Err("operand 1 is missing".into());
    };
    let window = cx.optional(2);
    let length = match (number(cx, 3, "frame_length")?, &window) {
        (Some(length), _) => length,
        (None, Some(window)) => cx.shape(window)?.first().copied().unwrap_or(0),
        (None, None) => return Err("expected a window or a `frame_length`".into()),
    };
    bounded("frame_step", &[step], 1)?;
    bounded("frame_length", &[length], 1)?;
    let window = match window {
        Some(window) => window,
        None => cx.full(cx.dtype(&data)?, &[length], 1.0)?,
    };
    let attrs = attr("n_fft", length)
        .with("hop_length", &step)
        .with("win_length", &cx.shape(&window)?.first().copied().unwrap_or(0))
        .with("onesided", &cx.flag("onesided", true)?);
    let result = cx.op_with("stft", &[&data, &window], attrs)?;
    cx.transpose(&result, &[0, 2, 1, 3])
}
