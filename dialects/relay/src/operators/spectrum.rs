//! Fourier transforms.

use std::f64::consts::TAU;

use ir_core::{Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};

use super::FusionPattern;
use super::elements;
use super::nn::window::{Step, per_axis};
use super::relation;
use crate::interpreter::{EvalCx, EvalError, Evaluate, Value};

/// `exp(-2πi · turns / n)` for all `turns` below `n`: cosine and sine.
fn roots(n: usize) -> Vec<(f64, f64)> {
    let angle = |turns: usize| -TAU * turns as f64 / n as f64;
    (0..n).map(|turns| (angle(turns).cos(), angle(turns).sin())).collect()
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
    hooks(FusionPattern::Opaque, Evaluate(evaluate_dft))
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
    hooks(FusionPattern::Opaque, Evaluate(evaluate_stft))
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

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Dft>();
    registry.op::<Stft>();
}
