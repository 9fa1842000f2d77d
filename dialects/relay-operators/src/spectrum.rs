//! Fourier transforms.

use std::f64::consts::TAU;

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId, Work};
use relay::define::{Define, DefineCx, Defined, Operand, strided};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression, Tensor};
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

/// The direction of a transform: what element `j` is multiplied by for frequency `k`.
#[derive(Clone, Copy)]
enum Turn {
    /// `exp(-2πi * j * k / n)`.
    Back,
    /// `exp(2πi * j * k / n)`.
    Forth,
}

/// Transforms of rows of `n` elements, by the definition as a sum or, where `n` is a product, by two
/// smaller ones (Cooley and Tukey 1965): each of them is a product of two matrices.
struct Transform {
    /// Extents of the axes before the last.
    rows: Vec<i64>,
    n: i64,
    turn: Turn,
    /// How many of the lowest frequencies are asked for, at most `n`.
    frequencies: i64,
}

/// The two parts of [`Transform`]'s results in one tensor.
struct Transformed {
    parts: Tensor,
    /// The smaller factor of `n`.
    outer: i64,
    /// How many columns of `parts` belong to one of the two parts.
    columns: i64,
}

impl Transformed {
    /// Part `part` (0 is the real one) at a frequency of the row at `row`.
    fn load(
        &self,
        e: &mut Expression<'_>,
        row: &[ValueId],
        frequency: ValueId,
        part: i64,
    ) -> ValueId {
        let outer = e.index(self.outer);
        let (minor, major) = (e.floor_mod(frequency, outer), e.floor_div(frequency, outer));
        let column = e.add_index(major, part * self.columns);
        let at: Vec<ValueId> = row.iter().copied().chain([minor, column]).collect();
        e.load(&self.parts, &at)
    }
}

impl Transform {
    /// The larger factor of `n`, which is 1 or more, in the product of two that differ least.
    fn inner(&self) -> i64 {
        let root = self.n.isqrt();
        (1..=root)
            .rev()
            .find(|factor| self.n % factor == 0)
            .map_or(self.n, |factor| self.n / factor)
    }

    /// Stages that transform `parts`: the real part, and the imaginary one where it is not 0, of
    /// shape `(rows…, n)` and in double precision.
    ///
    /// With `n = outer * inner`, element `j1 * inner + j2` and frequency `k1 + outer * k2`, the sum
    /// over `j1` depends on `k1` and `j2` alone, and the sum over `j2` of these, each turned by
    /// `k1 * j2 / n`, is the result.
    fn define(&self, cx: &mut DefineCx<'_>, parts: &[Tensor]) -> Transformed {
        let (inner, before) = (self.inner(), self.rows.len());
        let outer = self.n / inner;
        let columns = (self.frequencies - 1) / outer + 1;
        let roots = self.roots(cx);
        let sums = (outer > 1).then(|| {
            let name = cx.stage_of("outer");
            let shape = self.shape(&[inner, parts.len() as i64 * outer]);
            let elements = cx.builder.compute(&name, &shape, |e, i| {
                let (row, j2, column) = (&i[..before], i[before], i[before + 1]);
                load_part(e, column, outer, parts, |e, part, j1| {
                    let j = e.mul_index(j1, inner);
                    let j = e.add(j, j2);
                    e.load(part, &[row, &[j]].concat())
                })
            });
            self.product(cx, &elements, &roots, [outer, outer, inner])
        });
        let name = cx.stage_of("inner");
        let count = if sums.is_some() { 2 } else { parts.len() as i64 };
        let shape = self.shape(&[outer, count * inner]);
        let elements = cx.builder.compute(&name, &shape, |e, i| {
            let (row, k1, column) = (&i[..before], i[before], i[before + 1]);
            let Some(sums) = &sums else {
                return load_part(e, column, inner, parts, |e, part, j| {
                    e.load(part, &[row, &[j]].concat())
                });
            };
            let width = e.index(inner);
            let j2 = e.floor_mod(column, width);
            let turns = e.mul(k1, j2);
            let [cos, sin] = [0, 1].map(|which| e.load(&roots[which], &[turns]));
            let imaginary = e.add_index(k1, outer);
            let [re, im] = [k1, imaginary].map(|at| e.load(sums, &[row, &[j2, at]].concat()));
            // (re + i·im) · (cos + i·sin)
            let [re_cos, im_sin] = [e.mul(re, cos), e.mul(im, sin)];
            let [re_sin, im_cos] = [e.mul(re, sin), e.mul(im, cos)];
            let (real, imaginary) = (e.sub(re_cos, im_sin), e.add(re_sin, im_cos));
            let is_real = e.lt(column, width);
            e.select(is_real, real, imaginary)
        });
        let parts = self.product(cx, &elements, &roots, [inner, columns, outer]);
        Transformed { parts, outer, columns }
    }

    fn shape(&self, more: &[i64]) -> Vec<i64> {
        self.rows.iter().chain(more).copied().collect()
    }

    /// Stages with cosines and sines of all turns below `n`.
    fn roots(&self, cx: &mut DefineCx<'_>) -> [Tensor; 2] {
        let turn = if matches!(self.turn, Turn::Back) { -TAU } else { TAU };
        [("cos", ScalarOp::Cos), ("sin", ScalarOp::Sin)].map(|(part, function)| {
            let name = cx.stage_of(part);
            cx.builder.compute(&name, &[self.n], |e, i| {
                let turns = e.cast(i[0], DType::FLOAT64);
                let turn = e.number(DType::FLOAT64, turn);
                let (angle, all) = (e.mul(turn, turns), e.number(DType::FLOAT64, self.n as f64));
                let angle = e.div(angle, all);
                e.scalar(function, &[angle])
            })
        })
    }

    /// Transforms of length `length` of the last axis of `elements`, which has the real parts and
    /// then, where it is twice as long, the imaginary ones: `frequencies` real parts of the result,
    /// then as many imaginary ones. `n` is `length * step`.
    fn product(
        &self,
        cx: &mut DefineCx<'_>,
        elements: &Tensor,
        roots: &[Tensor; 2],
        [length, frequencies, step]: [i64; 3],
    ) -> Tensor {
        let last = elements.shape.len() - 1;
        let depth = elements.shape[last];
        let name = cx.stage_of(&format!("basis{length}"));
        let basis = cx.builder.compute(&name, &[depth, 2 * frequencies], |e, i| {
            let (width, all) = (e.index(frequencies), e.index(length));
            let (to, k) = (e.floor_div(i[1], width), e.floor_mod(i[1], width));
            let (from, j) = (e.floor_div(i[0], all), e.floor_mod(i[0], all));
            let turns = e.mul(j, k);
            let turns = e.floor_mod(turns, all);
            let turns = e.mul_index(turns, step);
            let [cos, sin] = [0, 1].map(|which| e.load(&roots[which], &[turns]));
            // (re + i·im) · (cos + i·sin): each part by the cosine, the other part by the sine.
            let (same, real) = (e.eq(from, to), e.lt(to, from));
            let negative = e.scalar(ScalarOp::Neg, &[sin]);
            let other = e.select(real, negative, sin);
            e.select(same, cos, other)
        });
        let mut shape = elements.shape.to_vec();
        shape[last] = 2 * frequencies;
        let name = cx.stage_of(&format!("sum{length}"));
        cx.builder.reduce(&name, &shape, &[depth], Combiner::Sum, |e, i, r| {
            let mut at = i[..last].to_vec();
            at.push(r[0]);
            let (x, root) = (e.load(elements, &at), e.load(&basis, &[r[0], i[last]]));
            e.mul(x, root)
        })
    }
}

/// What `load` gives for the one of `parts`, each of `length` columns, and the place in it that `column`
/// stands for.
fn load_part(
    e: &mut Expression<'_>,
    column: ValueId,
    length: i64,
    parts: &[Tensor],
    mut load: impl FnMut(&mut Expression<'_>, &Tensor, ValueId) -> ValueId,
) -> ValueId {
    let [real, imaginary] = parts else {
        return load(e, &parts[0], column);
    };
    let width = e.index(length);
    let place = e.floor_mod(column, width);
    let is_real = e.lt(column, width);
    let (real, imaginary) = (load(e, real, place), load(e, imaginary, place));
    e.select(is_real, real, imaginary)
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

fn define_dft(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Dft<Operand>>()?;
    let parts = [cx.tensor(0)?, cx.tensor(1)?];
    let shape = parts[0].shape.clone();
    let last = shape.len() - 1;
    let n = shape[last];
    if n == 0 {
        return Ok(parts.to_vec());
    }
    let turn = if op.inverse { Turn::Forth } else { Turn::Back };
    let transform = Transform { rows: shape[..last].to_vec(), n, turn, frequencies: n };
    let wide = ["re", "im"].map(|part| cx.stage_of(part));
    let wide = [0, 1].map(|part| {
        cx.builder.compute(&wide[part], &shape, |e, i| {
            let x = e.load(&parts[part], i);
            e.cast(x, DType::FLOAT64)
        })
    });
    let transformed = transform.define(cx, &wide);
    let mut fields = Vec::new();
    for (field, part) in parts.iter().enumerate() {
        let name = cx.stage();
        fields.push(cx.builder.compute(&name, &shape, |e, i| {
            let sum = transformed.load(e, &i[..last], i[last], field as i64);
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
    let rows: Vec<i64> = shape[..batch].iter().copied().chain([shape[batch + 1]]).collect();
    let pieces_shape: Vec<i64> = rows.iter().copied().chain([piece]).collect();
    let name = cx.stage_of("pieces");
    let pieces = cx.builder.compute(&name, &pieces_shape, |e, i| {
        let mut at = i[..batch].to_vec();
        let start = strided(e, i[batch], 0, hop);
        at.push(e.add(start, i[batch + 1]));
        let (x, factor) = (e.load(&data, &at), e.load(&window, &[i[batch + 1]]));
        let (x, factor) = (e.cast(x, DType::FLOAT64), e.cast(factor, DType::FLOAT64));
        e.mul(x, factor)
    });
    // Pieces shorter than `n_fft` have frequencies beyond their length, which are those below once more.
    let known = frequencies.min(piece);
    let transform = Transform { rows, n: piece, turn: Turn::Back, frequencies: known };
    let transformed = transform.define(cx, &[pieces]);
    cx.compute(|e, i| {
        let row: Vec<ValueId> = i[..batch].iter().copied().chain([i[batch + 1]]).collect();
        let period = e.index(piece);
        let frequency = e.floor_mod(i[batch], period);
        let [re, im] = [0, 1].map(|part| transformed.load(e, &row, frequency, part));
        let zero = e.index(0);
        let is_real = e.eq(i[batch + 2], zero);
        let sum = e.select(is_real, re, im);
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
