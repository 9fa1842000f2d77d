//! Relatives of convolution: the correlation of two images, and grayscale dilation.

use ir_core::{DType, Dim, DimOp, InferCx, Op, Registry, Stop, TensorData, Type, ValueId, Work};
use relay::define::{
    Define, DefineCx, Defined, Index, Operand, accumulator, means_of, strided, within,
};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::Combiner;

use super::numeric::{Number, compute_dtype, dispatch, result_shape, size};
use super::relation::{require, require_rank};
use super::window::{Margin, Step, margins, offset, pad_stage, padding, per_axis};
use crate::layout::Layout;
use crate::{FusionPattern, multiply_adds, relation};

/// The channels of a batch of images, with zeros around each.
struct Planes<T> {
    elements: Vec<T>,
    channels: i64,
    height: i64,
    width: i64,
}

impl<T: Number> Planes<T> {
    /// From elements of logical shape `(N, C, H, W)`.
    fn new(shape: &[i64], elements: Vec<T>) -> Planes<T> {
        let extent = |axis: usize| shape.get(axis).copied().unwrap_or(1);
        Planes { elements, channels: extent(1), height: extent(2), width: extent(3) }
    }

    fn at(&self, n: i64, c: i64, y: i64, x: i64) -> T {
        if !(0..self.height).contains(&y) || !(0..self.width).contains(&x) {
            return T::ZERO;
        }
        let plane = n * self.channels + c;
        self.elements[((plane * self.height + y) * self.width + x) as usize]
    }
}

/// Calls `element` with every `(n, c, y, x)` of `shape`, in row-major order.
fn fill<T>(shape: &[i64], mut element: impl FnMut(i64, i64, i64, i64) -> T) -> Vec<T> {
    let mut out = Vec::with_capacity(size(shape));
    let &[batch, channels, height, width] = shape else { return out };
    for n in 0..batch {
        for c in 0..channels {
            for y in 0..height {
                out.extend((0..width).map(|x| element(n, c, y, x)));
            }
        }
    }
    out
}

/// How alike the surroundings of places in two images are.
///
/// A patch of `kernel_size`² around every `stride1`-th place of `data1` is compared with patches
/// of `data2` that are displaced by up to `max_displacement` on both axes, in steps of `stride2`:
/// the products of their elements (or, without `is_multiply`, the absolute differences) are summed
/// over patch and channels and divided by `kernel_size² * C`. Both images are `(N, C, H, W)`; the
/// result is `(N, D², (H + padding - 2 * border) / stride1, …)`, rounded up, where `D = 2 *
/// (max_displacement / stride2) + 1` and `border = max_displacement + (kernel_size - 1) / 2`. It
/// has the element type of `data1`. Relay operator level 2, after FlowNet (arXiv 1504.06852).
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.correlation",
    infer = correlation_relation,
    hooks(
        FusionPattern::OutFusable,
        Work(multiply_adds::<Correlation>),
        Evaluate(evaluate_correlation),
        Define(define_correlation)
    )
)]
pub struct Correlation<V = ValueId> {
    /// The image whose places are compared.
    pub data1: V,
    /// The image with the displaced patches, of the type of `data1`.
    pub data2: V,
    /// Extent of a patch; odd.
    #[default(1)]
    pub kernel_size: i64,
    /// The largest displacement along an axis.
    #[default(1)]
    pub max_displacement: i64,
    /// Distance of neighbouring places.
    #[default(1)]
    pub stride1: i64,
    /// Distance of neighbouring displacements.
    #[default(1)]
    pub stride2: i64,
    /// Zeros around both images: one number for all sides, one per axis, or all numbers before and
    /// then all numbers after.
    #[default(vec![0, 0])]
    pub padding: Vec<i64>,
    /// Whether patches are multiplied; else subtracted.
    #[default(true)]
    pub is_multiply: bool,
    /// Layout of both images; only `NCHW` has a meaning here.
    #[default("NCHW".to_string())]
    pub layout: String,
}

impl<V> Correlation<V> {
    /// The attributes, once they are known to make sense.
    fn check(&self) -> Result<(), String> {
        per_axis("kernel_size", &[self.kernel_size], 1, 1)?;
        per_axis("max_displacement", &[self.max_displacement], 1, 0)?;
        per_axis("stride1", &[self.stride1], 1, 1)?;
        per_axis("stride2", &[self.stride2], 1, 1)?;
        if self.kernel_size % 2 == 0 {
            return Err(format!("expected an odd `kernel_size`, found {}", self.kernel_size));
        }
        match self.layout.as_str() {
            "NCHW" => Ok(()),
            other => Err(format!("expected `layout` NCHW, found `{other}`")),
        }
    }

    /// Number of displacements to either side along an axis.
    fn reach(&self) -> i64 {
        self.max_displacement / self.stride2
    }
}

fn correlation_relation(op: Correlation<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    op.check()?;
    let (data1, data2) = (cx.tensor(0)?, cx.tensor(1)?);
    require_rank("an image", data1, 4)?;
    relation::same_dtype(data1, data2)?;
    let input = relation::equal_dims(cx, &data1.shape, &data2.shape)?;
    let displacements = 2 * op.reach() + 1;
    let Some(displacements) = displacements.checked_mul(displacements) else {
        return Err(Stop::error("expected fewer displacements: their number overflows"));
    };
    let mut shape = vec![input[0], Dim::Known(displacements)];
    let border = op.max_displacement + op.kernel_size / 2;
    for (&extent, (before, after)) in input[2..].iter().zip(padding(&op.padding, 2)?) {
        let padded = offset(extent, before + after);
        if let Dim::Known(padded) = padded
            && padded <= 2 * border
        {
            return Err(Stop::error(format!(
                "expected a padded extent above {}, found {padded}",
                2 * border
            )));
        }
        let places = offset(padded, op.stride1 - 1 - 2 * border);
        shape.push(Dim::binary(DimOp::FloorDiv, places, Dim::Known(op.stride1)));
    }
    Ok(Type::tensor(shape, data1.dtype))
}

fn evaluate_correlation(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Correlation<Value>>()?;
    let (shape, dtype) = result_shape::<Correlation>(cx)?;
    dispatch!(dtype, correlate(&op, cx, &shape, dtype))
}

fn correlate<T: Number>(
    op: &Correlation<Value>,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let planes = |data: &TensorData| Planes::new(data.shape(), T::read(data));
    let (first, second) = (planes(cx.tensor(0)?), planes(cx.tensor(1)?));
    let pads = padding(&op.padding, 2)?;
    let (reach, side) = (op.reach(), 2 * op.reach() + 1);
    let compare = |a: T, b: T| match op.is_multiply {
        true => a.times(b),
        false if a < b => b.plus(a.times(T::of(-1.0))),
        false => a.plus(b.times(T::of(-1.0))),
    };
    let count = op.kernel_size.saturating_mul(op.kernel_size).saturating_mul(first.channels.max(1));
    let out = fill(shape, |n, displacement, y, x| {
        // The corner of the patch in the first image, and how the one in the second is displaced.
        let y = y * op.stride1 + op.max_displacement - pads[0].0;
        let x = x * op.stride1 + op.max_displacement - pads[1].0;
        let down = (displacement / side - reach) * op.stride2;
        let right = (displacement % side - reach) * op.stride2;
        let mut sum = T::ZERO;
        for c in 0..first.channels {
            for y in y..y + op.kernel_size {
                for x in x..x + op.kernel_size {
                    let (a, b) = (first.at(n, c, y, x), second.at(n, c, y + down, x + right));
                    sum = sum.plus(compare(a, b));
                }
            }
        }
        sum.over(count)
    });
    T::write(dtype, shape, &out)
}

fn define_correlation(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Correlation<Operand>>()?;
    let (first, second) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let pads = padding(&op.padding, 2)?;
    let (reach, side) = (op.reach(), 2 * op.reach() + 1);
    let [channels, height, width] = [1, 2, 3].map(|axis| first.shape[axis]);
    // Sums of integers do not wrap before they are divided.
    let sums = means_of(dtype);
    let taps = [channels, op.kernel_size, op.kernel_size];
    let name = cx.stage_of("sum");
    let sum = cx.builder.reduce(&name, &shape, &taps, Combiner::Sum, |e, i, r| {
        let mut corner = [i[2], i[3]];
        for (axis, index) in corner.iter_mut().enumerate() {
            let start = strided(e, *index, op.max_displacement - pads[axis].0, op.stride1);
            *index = e.add(start, r[axis + 1]);
        }
        let displacement = Index::new(i[1], shape[1]);
        let moves = [displacement.digit(e, side, side), displacement.digit(e, 1, side)];
        let moved = [0, 1].map(|axis| {
            let by = strided(e, moves[axis], -reach * op.stride2, op.stride2);
            e.add(corner[axis], by)
        });
        let [a, b] = [(&first, corner), (&second, moved)].map(|(image, [y, x])| {
            let zero = e.number(dtype, 0.0);
            let inside = within(e, [(y, height), (x, width)]);
            let at = [i[0], r[0], y, x];
            let value = match inside {
                Some(inside) => e.load_if(inside, image, &at, zero),
                None => e.load(image, &at),
            };
            e.cast(value, sums)
        });
        if op.is_multiply {
            return e.mul(a, b);
        }
        let (less, forwards, backwards) = (e.lt(a, b), e.sub(b, a), e.sub(a, b));
        e.select(less, forwards, backwards)
    });
    let count = op.kernel_size.saturating_mul(op.kernel_size).saturating_mul(channels.max(1));
    cx.compute(|e, i| {
        let sum = e.load(&sum, i);
        let count = e.number(sums, count as f64);
        let mean = e.div(sum, count);
        e.cast(mean, dtype)
    })
}

/// Grayscale dilation: the largest sum of a window and a structuring element.
///
/// `out[n, c, y, x] = max_{j, k} data[n, c, y * stride + j * dilation - padding, …] +
/// weight[c, j, k]`, where the padding is zeros, which take part. With data `(N, C, H, W)` and
/// weight `(C, KH, KW)` the result is `(N, C, OH, OW)`, where `OH = (H + padding - (KH - 1) *
/// dilation - 1) / stride + 1`, in the layout of the data. Relay operator level 2.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.image.dilation2d",
    infer = dilation_relation,
    hooks(FusionPattern::OutFusable, Evaluate(evaluate_dilation), Define(define_dilation))
)]
pub struct Dilation2d<V = ValueId> {
    /// The images, in `data_layout`.
    pub data: V,
    /// The structuring element, in `kernel_layout`.
    pub weight: V,
    /// Distance of neighbouring windows, per spatial axis.
    #[default(vec![1, 1])]
    pub strides: Vec<i64>,
    /// Zeros around the input: one number for all sides, one per axis, or all numbers before and
    /// then all numbers after.
    #[default(vec![0, 0])]
    pub padding: Vec<i64>,
    /// Distance of neighbouring elements of a window, per spatial axis.
    #[default(vec![1, 1])]
    pub dilations: Vec<i64>,
    /// Layout of input and result.
    #[default("NCHW".to_string())]
    pub data_layout: String,
    /// Layout of the structuring element, whose channels are the axis `I`.
    #[default("IHW".to_string())]
    pub kernel_layout: String,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

impl<V> Dilation2d<V> {
    fn steps(&self) -> Result<Vec<Step>, String> {
        Step::all(2, &self.strides, &self.dilations, &self.padding)
    }
}

fn dilation_relation(op: Dilation2d<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let layout = Layout::parse(&op.data_layout)?;
    let input = layout.logical("NCHW", &data.shape)?;
    let kernel = Layout::parse(&op.kernel_layout)?.logical("IHW", &weight.shape)?;
    require(cx, "channels of the weight", input[1], kernel[0])?;
    let mut output = input[..2].to_vec();
    for ((step, &extent), &size) in op.steps()?.iter().zip(&input[2..]).zip(&kernel[1..]) {
        output.push(step.windows(extent, size, false)?);
    }
    let shape = layout.physical("NCHW", &output)?;
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(data.dtype)))
}

fn evaluate_dilation(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Dilation2d<Value>>()?;
    let (shape, dtype) = result_shape::<Dilation2d>(cx)?;
    dispatch!(compute_dtype(cx, dtype)?, dilate(&op, cx, &shape, dtype))
}

fn dilate<T: Number>(
    op: &Dilation2d<Value>,
    cx: &EvalCx<'_>,
    shape: &[i64],
    dtype: DType,
) -> Result<Value, EvalError> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let layout = Layout::parse(&op.data_layout)?;
    let (extents, elements) = layout.unpack("NCHW", data.shape(), T::read(data))?;
    let images = Planes::new(&extents, elements);
    let kernel_layout = Layout::parse(&op.kernel_layout)?;
    let (kernel, weight) = kernel_layout.unpack("IHW", weight.shape(), T::read(weight))?;
    let [rows, columns] = <[Step; 2]>::try_from(op.steps()?)
        .map_err(|_| EvalError::new("expected two spatial axes"))?;
    let place = |step: Step, window: i64, tap: i64| {
        window * step.stride + tap * step.dilation - step.padding.0
    };
    let output = layout.logical_extents("NCHW", shape)?;
    let out = fill(&output, |n, c, y, x| {
        let taps = (0..kernel[1]).flat_map(|j| (0..kernel[2]).map(move |k| (j, k)));
        let sums = taps.map(|(j, k)| {
            let element = images.at(n, c, place(rows, y, j), place(columns, x, k));
            element.plus(weight[((c * kernel[1] + j) * kernel[2] + k) as usize])
        });
        sums.reduce(|a, b| if b > a { b } else { a }).unwrap_or(T::ZERO)
    });
    let (shape, out) = layout.pack("NCHW", &output, out)?;
    T::write(dtype, &shape, &out)
}

fn define_dilation(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<Dilation2d<Operand>>()?;
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let layout = Layout::parse(&op.data_layout)?;
    let kernel_layout = Layout::parse(&op.kernel_layout)?;
    let steps = op.steps()?;
    let input = layout.logical_extents("NCHW", &data.shape)?;
    let output = layout.logical_extents("NCHW", &shape)?;
    let kernel = kernel_layout.logical_extents("IHW", &weight.shape)?;
    let reaches = margins(&steps, &input[2..], &output[2..], &kernel[1..]);
    let padded = pad_stage(cx, &data, &layout, "NCHW", &reaches, Margin::Zero)?;
    let sums = accumulator(data.dtype, weight.dtype, dtype);
    let name = cx.stage_of("max");
    let largest = cx.builder.reduce(&name, &shape, &kernel[1..], Combiner::Max, |e, i, r| {
        let mut place = layout.logical_indices("NCHW", &shape, i);
        let channel = place[1].clone();
        for (axis, (step, reach)) in steps.iter().zip(&reaches).enumerate() {
            let window = place[axis + 2].value(e);
            let start = strided(e, window, reach.shift(), step.stride);
            let tap = e.mul_index(r[axis], step.dilation);
            place[axis + 2] = Index::new(e.add(start, tap), reach.extent());
        }
        let at = padded.layout.physical_indices(e, "NCHW", &place);
        let x = e.load(&padded.tensor, &at);
        let tap = [channel, Index::new(r[0], kernel[1]), Index::new(r[1], kernel[2])];
        let at = kernel_layout.physical_indices(e, "IHW", &tap);
        let w = e.load(&weight, &at);
        let (x, w) = (e.cast(x, sums), e.cast(w, sums));
        e.add(x, w)
    });
    cx.compute(|e, i| {
        let largest = e.load(&largest, i);
        e.cast(largest, dtype)
    })
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<Correlation>();
    registry.op::<Dilation2d>();
}
