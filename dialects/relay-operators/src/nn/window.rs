//! Sliding windows: the geometry that convolutions and pools of every spatial rank share.

use std::ops::Range;

use ir_core::{Dim, DimOp, Scalar, ValueId};
use relay::define::{DefineCx, Index, strided, within};
use te::compute::{Combiner, Expression, Tensor};

use crate::layout::Layout;

/// The largest stride, dilation, window and padding: sums and products of two fit `i64`.
const MAX_EXTENT: i64 = i32::MAX as i64;

/// Letters of `rank` spatial axes, outermost first.
pub(super) fn spatial_axes(rank: usize) -> &'static str {
    &"DHW"[3 - rank..]
}

/// The order of a tensor's axes where nothing else is said, such as `NCHW`.
pub(super) fn data_order(rank: usize) -> String {
    format!("NC{}", spatial_axes(rank))
}

/// `values` with one entry per spatial axis; a single one counts for all. Errors when there are
/// more or fewer, or one is below `least`.
pub(crate) fn per_axis(
    name: &str,
    values: &[i64],
    rank: usize,
    least: i64,
) -> Result<Vec<i64>, String> {
    if let Some(bad) = values.iter().find(|value| !(least..=MAX_EXTENT).contains(value)) {
        return Err(match *bad < least {
            true => format!("expected `{name}` of at least {least}, found {bad}"),
            false => format!("expected `{name}` of at most {MAX_EXTENT}, found {bad}"),
        });
    }
    match values.len() {
        n if n == rank => Ok(values.to_vec()),
        1 => Ok(vec![values[0]; rank]),
        n => Err(format!("expected `{name}` with {rank} entries, found {n}")),
    }
}

/// Padding before and after every spatial axis. One entry counts for all sides, `rank` entries
/// for both sides of their axis, and of `2 * rank` the first half stands before, the second
/// after.
pub(super) fn padding(values: &[i64], rank: usize) -> Result<Vec<(i64, i64)>, String> {
    if values.len() == 2 * rank {
        let values = per_axis("padding", values, 2 * rank, 0)?;
        let (before, after) = values.split_at(rank);
        return Ok(before.iter().copied().zip(after.iter().copied()).collect());
    }
    match per_axis("padding", values, rank, 0) {
        Ok(values) => Ok(values.iter().map(|&pad| (pad, pad)).collect()),
        Err(_) if ![1, rank].contains(&values.len()) => Err(format!(
            "expected `padding` with 1, {rank} or {} entries, found {}",
            2 * rank,
            values.len()
        )),
        Err(message) => Err(message),
    }
}

/// `dim + n`.
pub(super) fn offset(dim: Dim, n: i64) -> Dim {
    match n {
        0.. => Dim::binary(DimOp::Add, dim, Dim::Known(n)),
        _ => Dim::binary(DimOp::Sub, dim, Dim::Known(-n)),
    }
}

/// Step, spread and margins of a window along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Distance of neighbouring windows.
    pub(crate) stride: i64,
    /// Distance of neighbouring elements of a window.
    pub(crate) dilation: i64,
    /// Padding before and after.
    pub(crate) padding: (i64, i64),
}

impl Step {
    /// One step per axis from the attributes of an operator.
    pub(super) fn all(
        rank: usize,
        strides: &[i64],
        dilation: &[i64],
        pads: &[i64],
    ) -> Result<Vec<Step>, String> {
        let strides = per_axis("strides", strides, rank, 1)?;
        let dilation = per_axis("dilation", dilation, rank, 1)?;
        let pads = padding(pads, rank)?;
        let steps = strides.into_iter().zip(dilation).zip(pads);
        Ok(steps.map(|((stride, dilation), padding)| Step { stride, dilation, padding }).collect())
    }

    /// The number of windows of `kernel` elements along an axis of extent `input`:
    /// `(input + padding - (kernel - 1) * dilation - 1) / stride + 1`, the quotient rounded down,
    /// or up with `ceil`. Errors when not even one fits.
    pub(crate) fn windows(&self, input: Dim, kernel: Dim, ceil: bool) -> Result<Dim, String> {
        let (before, after) = self.padding;
        // The `+ 1` goes into the dividend, so that an extent that stays the same stays simple.
        let round = self.stride + if ceil { self.stride - 1 } else { 0 };
        let margin = before + after;
        let dividend = match kernel {
            Dim::Known(kernel) => {
                let reach = (kernel - 1)
                    .checked_mul(self.dilation)
                    .and_then(|reach| reach.checked_add(1))
                    .ok_or_else(|| format!("a window of {kernel} elements is too large"))?;
                if let Dim::Known(input) = input
                    && input + margin < reach
                {
                    return Err(format!(
                        "expected a padded extent of at least {reach} under the window, found {}",
                        input + margin
                    ));
                }
                offset(input, margin + round - reach)
            }
            _ => {
                let reach = Dim::binary(
                    DimOp::Mul,
                    Dim::binary(DimOp::Sub, kernel, Dim::Known(1)),
                    Dim::Known(self.dilation),
                );
                offset(Dim::binary(DimOp::Sub, input, reach), margin + round - 1)
            }
        };
        Ok(Dim::binary(DimOp::FloorDiv, dividend, Dim::Known(self.stride)))
    }

    /// In how many windows of `size` elements one element is at most. With both a stride and a dilation, so many are
    /// tried.
    pub(super) fn windows_of_one(&self, size: i64) -> i64 {
        match self.dilation {
            1 => (size + self.stride - 1) / self.stride,
            _ => size,
        }
    }

    /// Window `number` of those that the element at place `at` of the padded axis is in.
    pub(super) fn window_over(&self, e: &mut Expression<'_>, at: ValueId, number: ValueId) -> Over {
        if self.stride == 1 {
            let reach = e.mul_index(number, self.dilation);
            return Over { window: e.sub(at, reach), tap: number, met: None };
        }
        let stride = e.index(self.stride);
        if self.dilation == 1 {
            let (last, first) = (e.floor_div(at, stride), e.floor_mod(at, stride));
            let reach = e.mul_index(number, self.stride);
            return Over { window: e.sub(last, number), tap: e.add(first, reach), met: None };
        }
        let reach = e.mul_index(number, self.dilation);
        let start = e.sub(at, reach);
        let (window, rest, zero) =
            (e.floor_div(start, stride), e.floor_mod(start, stride), e.index(0));
        Over { window, tap: number, met: Some(e.eq(rest, zero)) }
    }

    /// The places along an axis of extent `input`: those of elements, or of padding as well.
    pub(super) fn places(&self, input: i64, with_padding: bool) -> Range<i64> {
        match with_padding {
            true => -self.padding.0..input + self.padding.1,
            false => 0..input,
        }
    }

    /// How many of the `size` elements of window `window` lie in `places`.
    pub(super) fn elements_in(&self, places: &Range<i64>, window: i64, size: i64) -> i64 {
        // Element `k` lies at `start + k · dilation`, so inside from the first `k` at or after the
        // begin to before the first at or after the end.
        let start = window * self.stride - self.padding.0;
        let first = |bound: i64| {
            (bound + self.dilation - 1 - start).div_euclid(self.dilation).clamp(0, size)
        };
        first(places.end) - first(places.start)
    }

    /// As [`elements_in`](Step::elements_in), as an expression.
    pub(super) fn define_elements_in(
        &self,
        e: &mut Expression<'_>,
        places: &Range<i64>,
        window: ValueId,
        size: i64,
    ) -> ValueId {
        let start = strided(e, window, -self.padding.0, self.stride);
        let first = |e: &mut Expression<'_>, bound: i64| {
            let (distance, dilation) = (e.index(bound + self.dilation - 1), e.index(self.dilation));
            let distance = e.sub(distance, start);
            let place = e.floor_div(distance, dilation);
            let (least, most) = (e.index(0), e.index(size));
            let place = e.max(place, least);
            e.min(place, most)
        };
        let (first, end) = (first(e, places.start), first(e, places.end));
        e.sub(end, first)
    }
}

/// A window that an element may be in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    /// Its number, below 0 or too large where there is none.
    pub(super) window: ValueId,
    /// The place of the element in it, too large where it is not in it.
    pub(super) tap: ValueId,
    /// Whether it starts where a window does; all of them do where absent.
    pub(super) met: Option<ValueId>,
}

/// Neighbouring windows that meet neighbouring elements: window `output + i` meets element
/// `input + i * stride` for all `i` below `count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Row-major index of the first window.
    pub(super) output: usize,
    /// Row-major index of the first element.
    pub(super) input: usize,
    /// How many.
    pub(super) count: usize,
}

/// Which windows meet which elements through one place of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tap {
    /// Row-major index of the place in the kernel.
    pub(super) kernel: usize,
    /// The pairs of window and element.
    pub(super) runs: Vec<Run>,
}

/// All pairs of windows and elements; those that fall into the padding are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Windows {
    /// The places of the kernel that meet anything.
    pub(super) taps: Vec<Tap>,
    /// Distance of elements in a run.
    pub(super) stride: usize,
}

/// The places of a kernel axis that meet anything, each with the first window that does, the
/// first element met, and the number of windows.
fn axis_taps(step: &Step, input: i64, output: i64, kernel: i64) -> Vec<(i64, i64, i64, i64)> {
    let (stride, before) = (step.stride, step.padding.0);
    let first = ((before - (output - 1).saturating_mul(stride)) / step.dilation).max(0);
    let mut taps = Vec::new();
    for k in first..kernel {
        // Window `o` meets element `o * stride + shift`.
        let shift = k * step.dilation - before;
        if shift >= input {
            break;
        }
        let low = if shift < 0 { (-shift + stride - 1) / stride } else { 0 };
        let high = ((input - 1 - shift) / stride + 1).min(output);
        if low < high {
            taps.push((k, low, low * stride + shift, high - low));
        }
    }
    taps
}

impl Windows {
    /// The pairs for windows of `kernel` over `input`, `output` windows along each axis.
    pub(super) fn new(steps: &[Step], input: &[i64], output: &[i64], kernel: &[i64]) -> Windows {
        let mut taps = vec![Tap { kernel: 0, runs: vec![Run { output: 0, input: 0, count: 1 }] }];
        for (axis, step) in steps.iter().enumerate() {
            let (extent, windows) = (input[axis] as usize, output[axis] as usize);
            let last = axis + 1 == steps.len();
            let places = axis_taps(step, input[axis], output[axis], kernel[axis]);
            let mut next = Vec::with_capacity(taps.len() * places.len());
            for tap in &taps {
                for &(place, low, element, count) in &places {
                    let (low, element, count) = (low as usize, element as usize, count as usize);
                    let mut runs = Vec::new();
                    for run in &tap.runs {
                        let (output, input) = (run.output * windows, run.input * extent);
                        if last {
                            let (output, input) = (output + low, input + element);
                            runs.push(Run { output, input, count });
                        } else {
                            runs.extend((0..count).map(|i| Run {
                                output: output + low + i,
                                input: input + element + i * step.stride as usize,
                                count: 1,
                            }));
                        }
                    }
                    let kernel = tap.kernel * kernel[axis] as usize + place as usize;
                    next.push(Tap { kernel, runs });
                }
            }
            taps = next;
        }
        let innermost = steps.last().expect("windows slide along an axis");
        Windows { taps, stride: innermost.stride as usize }
    }
}

/// How far windows reach over an axis of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reach {
    /// Extent of the axis.
    input: i64,
    /// How far the first window reaches over the begin; negative where it starts after it.
    pub(super) before: i64,
    /// How far the last window reaches over the end.
    pub(super) after: i64,
}

impl Reach {
    /// Extent of the axis.
    pub(super) fn input(&self) -> i64 {
        self.input
    }

    /// Where the first window starts in the padded axis.
    pub(super) fn shift(&self) -> i64 {
        (-self.before).max(0)
    }

    /// Extent of the padded axis.
    pub(super) fn extent(&self) -> i64 {
        self.input + self.before.max(0) + self.after.max(0)
    }

    /// Whether every window lies inside.
    pub(super) fn is_inside(&self) -> bool {
        self.is_in(&(0..self.input))
    }

    /// Whether every window lies in `places`.
    pub(super) fn is_in(&self, places: &Range<i64>) -> bool {
        -self.before >= places.start && self.input + self.after <= places.end
    }
}

impl Step {
    /// The places of a window of `kernel` elements that meet any of `input` elements in one of `output` windows; one of
    /// them where none does.
    pub(super) fn met(&self, input: i64, output: i64, kernel: i64) -> Range<i64> {
        let last = (output - 1).max(0) * self.stride;
        let meets = |place: &i64| {
            let first = place * self.dilation - self.padding.0;
            first < input && first + last >= 0
        };
        let start = (0..kernel).find(meets).unwrap_or(0);
        start..(start..kernel).rfind(meets).unwrap_or(start) + 1
    }
}

/// How far windows of `kernel` elements reach over `input`, `output` windows along each axis.
pub(super) fn margins(steps: &[Step], input: &[i64], output: &[i64], kernel: &[i64]) -> Vec<Reach> {
    let axes = steps.iter().zip(input).zip(output.iter().zip(kernel));
    axes.map(|((step, &input), (&output, &kernel))| {
        let before = step.padding.0;
        let last = (output - 1).max(0) * step.stride + (kernel - 1).max(0) * step.dilation;
        Reach { input, before, after: last + 1 - before - input }
    })
    .collect()
}

/// What a padded tensor holds around its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Margin {
    /// Zero.
    Zero,
    /// The least number, which takes no part in a maximum.
    Least,
}

/// A tensor with a margin around its spatial axes, and its layout.
pub(super) struct Padded {
    pub(super) tensor: Tensor,
    pub(super) layout: Layout,
}

/// Adds a stage `pad` where windows reach over `data` in `layout`, whose spatial axes are those of
/// `order` after the first two.
pub(super) fn pad_stage(
    cx: &mut DefineCx<'_>,
    data: &Tensor,
    layout: &Layout,
    order: &str,
    reaches: &[Reach],
    margin: Margin,
) -> Result<Padded, String> {
    if reaches.iter().all(Reach::is_inside) {
        return Ok(Padded { tensor: data.clone(), layout: layout.clone() });
    }
    let input = layout.logical_extents(order, &data.shape)?;
    // Blocks of a padded axis would have to divide its new extent.
    let blocked = order.chars().skip(2).any(|axis| layout.block(axis) != 1);
    let target = if blocked { Layout::parse(order)? } else { layout.clone() };
    let mut extents = input.clone();
    for (extent, reach) in extents[2..].iter_mut().zip(reaches) {
        *extent = reach.extent();
    }
    let dims: Vec<Dim> = extents.into_iter().map(Dim::Known).collect();
    let shape: Option<Vec<i64>> =
        target.physical(order, &dims)?.iter().map(|dim| dim.known()).collect();
    let shape = shape.ok_or("expected known extents")?;
    let outside = match margin {
        Margin::Zero => Scalar::Int(0),
        Margin::Least => least(data.dtype)?,
    };
    let tensor = cx.builder.compute("pad", &shape, |e, i| {
        let mut logical = target.logical_indices(order, &shape, i);
        let mut bounds = Vec::new();
        for (axis, reach) in reaches.iter().enumerate() {
            let index = &mut logical[axis + 2];
            let place = index.value(e);
            let place = e.add_index(place, -reach.before.max(0));
            *index = Index::new(place, reach.input);
            if !reach.is_inside() {
                bounds.push((place, reach.input));
            }
        }
        let at = layout.physical_indices(e, order, &logical);
        let otherwise = e.constant(data.dtype, outside);
        match within(e, bounds) {
            Some(inside) => e.load_if(inside, data, &at, otherwise),
            None => e.load(data, &at),
        }
    });
    Ok(Padded { tensor, layout: target })
}

/// The least number of `dtype`.
pub(super) fn least(dtype: ir_core::DType) -> Result<Scalar, String> {
    let identity = Combiner::Max.identity(0, &[dtype], &[]);
    identity.ok_or_else(|| format!("there is no least {dtype}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stride: i64, dilation: i64, before: i64, after: i64) -> Step {
        Step { stride, dilation, padding: (before, after) }
    }

    #[test]
    fn window_counts() {
        let n = Dim::parameter("n");
        assert_eq!(step(1, 1, 1, 1).windows(n, 3.into(), false), Ok(n));
        assert_eq!(step(2, 1, 1, 1).windows(224.into(), 3.into(), false), Ok(112.into()));
        assert_eq!(step(2, 1, 0, 0).windows(112.into(), 3.into(), true), Ok(56.into()));
        assert_eq!(step(1, 2, 0, 0).windows(5.into(), 3.into(), false), Ok(1.into()));
        assert_eq!(step(1, 1, 0, 0).windows(Dim::Any, 3.into(), false), Ok(Dim::Any));
        assert!(step(1, 1, 0, 0).windows(2.into(), 3.into(), false).is_err());
    }

    /// Every pair that the definition gives is there exactly once.
    #[test]
    fn taps_are_the_definition() {
        for (s, d, p) in [(1, 1, 0), (2, 1, 1), (3, 2, 4), (1, 3, 2), (2, 2, 7)] {
            let steps = [step(s, d, p, p), step(s, d, p, p)];
            let (input, kernel) = ([5i64, 6], [3i64, 2]);
            let output: Vec<i64> = (0..2)
                .map(|a| steps[a].windows(input[a].into(), kernel[a].into(), false))
                .map(|n| n.unwrap().known().unwrap())
                .collect();
            let mut expected = Vec::new();
            for (k0, k1) in (0..3).flat_map(|a| (0..2).map(move |b| (a, b))) {
                for o0 in 0..output[0] {
                    for o1 in 0..output[1] {
                        let (i0, i1) = (o0 * s + k0 * d - p, o1 * s + k1 * d - p);
                        if (0..5).contains(&i0) && (0..6).contains(&i1) {
                            expected.push((k0 * 2 + k1, o0 * output[1] + o1, i0 * 6 + i1));
                        }
                    }
                }
            }
            let windows = Windows::new(&steps, &input, &output, &kernel);
            let mut found = Vec::new();
            for tap in &windows.taps {
                for run in &tap.runs {
                    found.extend((0..run.count).map(|i| {
                        let element = run.input + i * windows.stride;
                        (tap.kernel as i64, (run.output + i) as i64, element as i64)
                    }));
                }
            }
            assert_eq!(found, expected);
        }
    }
}
