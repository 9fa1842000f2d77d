//! Fourier transforms.

use std::f64::consts::TAU;

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId, Work};
use relay::define::{Define, DefineCx, Defined, Operand, strided};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Tensor};
use te::scalar::ScalarOp;

use super::elements;
use super::nn::window::{Step, per_axis};
use super::relation;
use super::{FusionPattern, multiply_adds};

/// `exp(-2πi · turns / n)` for all `turns` below `n`: cosine and sine.
fn roots(n: usize) -> Vec<(f64, f64)> {
    let angle = |turns: usize| -TAU * turns as f64 / n as f64;
    (0..n).map(|turns| (angle(turns).cos(), angle(turns).sin())).collect()
}

/// Stages with the cosines and sines of [`roots`].
fn define_roots(cx: &mut DefineCx<'_>, n: i64) -> [Tensor; 2] {
    [("cos", ScalarOp::Cos), ("sin", ScalarOp::Sin)].map(|(part, function)| {
        let name = cx.stage_of(part);
        cx.builder.compute(&name, &[n], |e, i| {
            let turns = e.cast(i[0], DType::FLOAT64);
            let turn = e.number(DType::FLOAT64, -TAU);
            let (angle, all) = (e.mul(turn, turns), e.number(DType::FLOAT64, n as f64));
            let angle = e.div(angle, all);
            e.scalar(function, &[angle])
        })
    })
}

/// The discrete Fourier transform along the last axis:
/// `out[…, k] = Σ_j data[…, j] * exp(-2πi * j * k / N)`.
///
/// Real and imaginary parts are tensors of floats of one shape `(…, N)`, and so are both fields of
/// the result. With `inverse` the exponent is positive and the sums are divided by `N`. Sums are
/// computed in double precision. Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.dft",
    infer = dft_relation,
    hooks(
        FusionPattern::Opaque,
        Work(multiply_adds::<Dft>),
        Evaluate(evaluate_dft),
        Define(define_dft)
    )
)]
pub struct Dft<V = ValueId> {
    /// The real part.
    pub re_data: V,
    /// The imaginary part.
    pub im_data: V,
    /// Whether this is the inverse transform.
    #[default(false)]
    pub inverse: bool,
}

fn dft_relation(_op: Dft<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (re, im) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(re)?;
    relation::expect_floats(im)?;
    if re.rank() == 0 {
        return Err(Stop::error("expected tensors of rank 1 or more, found a scalar"));
    }
    let shape = relation::equal_dims(cx, &re.shape, &im.shape)?;
    Ok(Type::tuple([re, im].map(|part| Type::tensor(shape.iter().copied(), part.dtype))))
}

fn evaluate_dft(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Dft<Value>>()?;
    elements::result_type(cx, dft_relation)?;
    let (re, im) = (cx.tensor(0)?, cx.tensor(1)?);
    let n = re.shape().last().map_or(1, |&n| n as usize);
    let (sign, divisor) = if op.inverse { (-1.0, n as f64) } else { (1.0, 1.0) };
    let (roots, mut re_out, mut im_out) = (roots(n), Vec::new(), Vec::new());
    let rows = |part: &TensorData| part.to_f64();
    for (re, im) in rows(re).chunks(n.max(1)).zip(rows(im).chunks(n.max(1))) {
        for k in 0..n {
            let (mut re_sum, mut im_sum) = (0.0, 0.0);
            for (j, (re, im)) in re.iter().zip(im).enumerate() {
                let (cos, sin) = roots[j * k % n];
                re_sum += re * cos - im * sin * sign;
                im_sum += re * sin * sign + im * cos;
            }
            re_out.push(re_sum / divisor);
            im_out.push(im_sum / divisor);
        }
    }
    let part = |like: &TensorData, elements: &[f64]| {
        TensorData::from_f64(like.dtype(), like.shape(), elements).map(Value::from)
    };
    Ok(Value::tuple([part(re, &re_out)?, part(im, &im_out)?]))
}

/// The sums as they are written; a fast transform would be another schedule of factors.
fn define_dft(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Dft<Operand>>()?;
    let parts = [cx.tensor(0)?, cx.tensor(1)?];
    let shape = parts[0].shape.clone();
    let last = shape.len() - 1;
    let n = shape[last];
    let roots = define_roots(cx, n);
    let mut fields = Vec::new();
    for (field, part) in parts.iter().enumerate() {
        let name = cx.stage_of(["re", "im"][field]);
        let sum = cx.builder.reduce(&name, &shape, &[n], Combiner::Sum, |e, i, r| {
            let (turns, all) = (e.mul(i[last], r[0]), e.index(n));
            let turns = e.floor_mod(turns, all);
            let [cos, sin] = [0, 1].map(|which| e.load(&roots[which], &[turns]));
            let mut at = i.to_vec();
            at[last] = r[0];
            let [re, im] = [0, 1].map(|which| {
                let x = e.load(&parts[which], &at);
                e.cast(x, DType::FLOAT64)
            });
            // (re + i·im) · (cos + i·sin), of which one part.
            let (own, other) = if field == 0 { (re, im) } else { (im, re) };
            let (own, other) = (e.mul(own, cos), e.mul(other, sin));
            match (field == 0) != op.inverse {
                true => e.sub(own, other),
                false => e.add(own, other),
            }
        });
        let name = cx.stage();
        fields.push(cx.builder.compute(&name, &shape, |e, i| {
            let sum = e.load(&sum, i);
            let divisor = e.number(DType::FLOAT64, if op.inverse { n as f64 } else { 1.0 });
            let value = e.div(sum, divisor);
            e.cast(value, part.dtype)
        }));
    }
    Ok(fields)
}

/// Fourier transforms of overlapping pieces of a signal:
/// `out[…, k, t] = Σ_j window[j] * data[…, t * hop_length + j] * exp(-2πi * j * k / win_length)`.
///
/// Data is a signal `(L)` or a batch `(B, L)` of floats. The result is `(…, frequencies, (L -
/// n_fft) / hop_length + 1, 2)` with real and imaginary parts along the last axis; there are
/// `n_fft / 2 + 1` frequencies, or `n_fft` without `onesided`. Sums are computed in double
/// precision. Relay operator level 3.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.stft",
    infer = stft_relation,
    hooks(
        FusionPattern::Opaque,
        Work(multiply_adds::<Stft>),
        Evaluate(evaluate_stft),
        Define(define_stft)
    )
)]
pub struct Stft<V = ValueId> {
    /// The signal.
    pub data: V,
    /// Factors of the elements of a piece, `(win_length)`.
    pub window: V,
    /// Number of frequencies, and distance that pieces keep from the end of the signal.
    #[default(-1)]
    pub n_fft: i64,
    /// Distance of neighbouring pieces; -1 for a quarter of `n_fft`.
    #[default(-1)]
    pub hop_length: i64,
    /// Number of elements of a piece, at most `n_fft`; -1 for as many.
    #[default(-1)]
    pub win_length: i64,
    /// Whether the result is divided by the square root of `n_fft`.
    #[default(false)]
    pub normalized: bool,
    /// Whether frequencies above `n_fft / 2` are left out, which those below it determine.
    #[default(true)]
    pub onesided: bool,
}

impl<V> Stft<V> {
    /// `n_fft`, `hop_length` and `win_length`.
    fn lengths(&self) -> Result<(i64, i64, i64), String> {
        let at_least_one = |name, value| per_axis(name, &[value], 1, 1).map(|values| values[0]);
        let n_fft = at_least_one("n_fft", self.n_fft)?;
        let given = |value: i64, default: i64| if value == -1 { default } else { value };
        let hop = at_least_one("hop_length", given(self.hop_length, n_fft / 4))?;
        let piece = at_least_one("win_length", given(self.win_length, n_fft))?;
        if piece > n_fft {
            return Err(format!("expected `win_length` of at most {n_fft}, found {piece}"));
        }
        Ok((n_fft, hop, piece))
    }
}

fn stft_relation(op: Stft<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (n_fft, hop, piece) = op.lengths()?;
    let (data, window) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(data)?;
    let Some((&length, batch @ ([] | [_]))) = data.shape.split_last() else {
        return Err(Stop::error(format!(
            "expected a signal of rank 1 or 2, found rank {}",
            data.rank()
        )));
    };
    relation::equal_dims(cx, &[Dim::Known(piece)], &window.shape)?;
    let frequencies = if op.onesided { n_fft / 2 + 1 } else { n_fft };
    let step = Step { stride: hop, dilation: 1, padding: (0, 0) };
    let pieces = step.windows(length, Dim::Known(n_fft), false)?;
    let shape = batch.iter().copied().chain([Dim::Known(frequencies), pieces, Dim::Known(2)]);
    Ok(Type::tensor(shape, data.dtype))
}

fn evaluate_stft(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Stft<Value>>()?;
    let shape = elements::result_shape(cx, stft_relation)?;
    let mut out = Vec::with_capacity(elements::count(&shape)?);
    let (n_fft, hop, piece) = op.lengths()?;
    let (data, window) = (cx.tensor(0)?, cx.tensor(1)?.to_f64());
    let [.., frequencies, pieces, _] = shape[..] else {
        return Err(EvalError::new("expected a result of rank 3 or 4"));
    };
    let length = data.shape().last().map_or(1, |&length| length as usize);
    let scale = if op.normalized { (n_fft as f64).sqrt() } else { 1.0 };
    let roots = roots(piece as usize);
    for signal in data.to_f64().chunks(length.max(1)) {
        for k in 0..frequencies as usize {
            for t in 0..pieces as usize {
                let (mut re, mut im) = (0.0, 0.0);
                let elements = &signal[t * hop as usize..];
                for (j, (element, factor)) in elements.iter().zip(&window).enumerate() {
                    let (cos, sin) = roots[j * k % roots.len()];
                    re += element * factor * cos;
                    im += element * factor * sin;
                }
                out.extend([re / scale, im / scale]);
            }
        }
    }
    Ok(TensorData::from_f64(data.dtype(), &shape, &out)?.into())
}

fn define_stft(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Stft<Operand>>()?;
    let (n_fft, hop, piece) = op.lengths()?;
    let (data, window) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let batch = shape.len() - 3;
    let frequencies = shape[batch];
    let roots = define_roots(cx, piece);
    // The product of two matrices: rows of pieces, and columns of cosines, then of sines.
    let name = cx.stage_of("basis");
    let basis = cx.builder.compute(&name, &[piece, 2 * frequencies], |e, i| {
        let (count, all) = (e.index(frequencies), e.index(piece));
        let frequency = e.floor_mod(i[1], count);
        let turns = e.mul(frequency, i[0]);
        let turns = e.floor_mod(turns, all);
        let [cos, sin] = [0, 1].map(|which| e.load(&roots[which], &[turns]));
        let real = e.lt(i[1], count);
        e.select(real, cos, sin)
    });
    let mut rows: Vec<i64> = shape[..batch].to_vec();
    rows.extend([shape[batch + 1], piece]);
    let name = cx.stage_of("pieces");
    let pieces = cx.builder.compute(&name, &rows, |e, i| {
        let mut at = i[..batch].to_vec();
        let start = strided(e, i[batch], 0, hop);
        at.push(e.add(start, i[batch + 1]));
        let (x, factor) = (e.load(&data, &at), e.load(&window, &[i[batch + 1]]));
        let (x, factor) = (e.cast(x, DType::FLOAT64), e.cast(factor, DType::FLOAT64));
        e.mul(x, factor)
    });
    rows[batch + 1] = 2 * frequencies;
    let name = cx.stage_of("sum");
    let sum = cx.builder.reduce(&name, &rows, &[piece], Combiner::Sum, |e, i, r| {
        let mut at = i[..=batch].to_vec();
        at.push(r[0]);
        let (x, root) = (e.load(&pieces, &at), e.load(&basis, &[r[0], i[batch + 1]]));
        e.mul(x, root)
    });
    cx.compute(|e, i| {
        let count = e.index(frequencies);
        let column = e.mul(i[batch + 2], count);
        let mut at = i[..batch].to_vec();
        at.extend([i[batch + 1], e.add(column, i[batch])]);
        let sum = e.load(&sum, &at);
        let scale = if op.normalized { (n_fft as f64).sqrt() } else { 1.0 };
        let scale = e.number(DType::FLOAT64, scale);
        let value = e.div(sum, scale);
        e.cast(value, dtype)
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Dft>();
    registry.op::<Stft>();
}
