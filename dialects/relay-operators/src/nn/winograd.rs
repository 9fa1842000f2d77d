//! Convolutions with fewer products: by tiles of the result, in a transformed domain.
//!
//! Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, CVPR 2016: a tile of `m` by `m` results of a
//! kernel of `r` by `r` takes `(m + r - 1)²` products for each input channel rather than `m² r²`. The matrices are
//! those of Toom and Cook for 0, 1, -1, ½, -2 and further ones, and infinity; a half and -2, rather than both ±2,
//! keep errors smaller (Barabasz et al., *Error Analysis and Improving the Accuracy of Winograd Convolution*, 2020).

use ir_core::{DType, Dim, InferCx, KernelRole, Op, Registry, Stop, Type, ValueId, Work};
use relay::define::{Define, DefineCx, Defined, Index, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};
use te::compute::{Combiner, Expression};

use super::numeric::{Number, result_shape, size};
use super::relation::{layout_or, require};
use super::window::{Margin, Step, margins, pad_stage};
use crate::layout::Layout;
use crate::{FusionPattern, multiply_adds, relation};

/// Where polynomials are evaluated, besides infinity.
const POINTS: [f64; 7] = [0.0, 1.0, -1.0, 0.5, -2.0, 2.0, -0.5];

/// The order in which the axes of a transformed kernel are computed in: its places, output and input channels.
const KERNEL: &str = "HWOI";

const DATA: &str = "NCHW";

/// The matrices of tiles of `tile` results and a kernel of `taps` elements along an axis.
struct Matrices {
    /// From a kernel to the domain of products, `(tile + taps - 1, taps)`.
    kernel: Vec<Vec<f64>>,
    /// From the input, square.
    data: Vec<Vec<f64>>,
    /// To results, `(tile, tile + taps - 1)`.
    result: Vec<Vec<f64>>,
}

impl Matrices {
    fn new(tile: usize, taps: usize) -> Result<Matrices, String> {
        let size = tile + taps - 1;
        let Some(points) = POINTS.get(..size - 1) else {
            return Err(format!(
                "expected tiles that read at most {} elements along an axis, found {size}",
                POINTS.len() + 1
            ));
        };
        let power = |point: f64, exponent: usize| point.powi(exponent as i32);
        let last = |length: usize| (0..length).map(|at| f64::from(at + 1 == length)).collect();
        let mut kernel: Vec<Vec<f64>> = Vec::new();
        let mut data: Vec<Vec<f64>> = Vec::new();
        for (at, point) in points.iter().enumerate() {
            let others =
                || points.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, p)| *p);
            let scale: f64 = others().map(|other| point - other).product();
            kernel.push((0..taps).map(|tap| power(*point, tap) / scale).collect());
            data.push(polynomial(others(), size));
        }
        kernel.push(last(taps));
        data.push(polynomial(points.iter().copied(), size));
        let row = |row: usize| {
            let at_infinity = f64::from(row + 1 == tile);
            points.iter().map(|point| power(*point, row)).chain([at_infinity]).collect()
        };
        Ok(Matrices { kernel, data, result: (0..tile).map(row).collect() })
    }
}

/// The coefficients, the constant one first and `count` in all, of the polynomial with these roots.
fn polynomial(roots: impl Iterator<Item = f64>, count: usize) -> Vec<f64> {
    let mut coefficients = vec![0.0; count];
    coefficients[0] = 1.0;
    for root in roots {
        for at in (0..count).rev() {
            let lower = if at == 0 { 0.0 } else { coefficients[at - 1] };
            coefficients[at] = lower - root * coefficients[at];
        }
    }
    coefficients
}

/// The kernel of a convolution, transformed for `nn.contrib_conv2d_winograd_without_weight_transform`.
///
/// A weight `(O, I, r, r)` becomes `(m + r - 1, m + r - 1, O, I)`, where `m` is `tile_size`: `G g Gᵀ` for the kernel
/// `g` of each pair of channels. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.contrib_conv2d_winograd_weight_transform",
    infer = infer_weight,
    hooks(
        FusionPattern::OutFusable,
        Evaluate(evaluate_weight),
        Define(define_weight)
    )
)]
pub struct WinogradWeightTransform<V = ValueId> {
    /// Floats of shape `(O, I, r, r)`.
    pub weight: V,
    /// Results along an axis of a tile.
    pub tile_size: i64,
}

/// Two-dimensional convolution, without strides, dilation and groups, with a kernel that
/// `nn.contrib_conv2d_winograd_weight_transform` transformed.
///
/// The result is that of `nn.conv2d` up to rounding: a number is as exact as the greatest ones that its tile is
/// computed from, and where one of these is infinite or NaN, all of the tile may be. For `m` results along an axis of a
/// tile, which `tile_size` says, and kernels of `r` elements along an axis, products are `(m + r - 1)² / (m² r²)` of those of
/// `nn.conv2d`: 0.44 for 2, and 0.25 for 4, where `r` is 3. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.contrib_conv2d_winograd_without_weight_transform",
    infer = infer_convolution,
    hooks(
        FusionPattern::OutFusable,
        KernelRole::Anchor,
        Work(multiply_adds::<WinogradConv2d>),
        Evaluate(evaluate_convolution),
        Define(define_convolution)
    )
)]
pub struct WinogradConv2d<V = ValueId> {
    /// The input, floats in `data_layout`.
    pub data: V,
    /// The transformed kernel, in `kernel_layout`.
    pub weight: V,
    /// Results along an axis of a tile.
    pub tile_size: i64,
    /// Zeros around the input: one number for all sides, one per axis, or all numbers before and then all numbers after.
    #[default(vec![0; 2])]
    pub padding: Vec<i64>,
    /// Number of output channels; the weight's, where absent.
    #[default(None)]
    pub channels: Option<i64>,
    /// Layout of the input.
    #[default(DATA.to_string())]
    pub data_layout: String,
    /// Layout of the transformed kernel, of which `H` and `W` are the places.
    #[default(KERNEL.to_string())]
    pub kernel_layout: String,
    /// Layout of the result; empty for that of the input.
    #[default(String::new())]
    pub out_layout: String,
    /// Element type of the result; that of the input where absent.
    #[default(None)]
    pub out_dtype: Option<DType>,
}

/// What the attributes say about loops.
struct Geometry {
    /// Results along an axis of a tile.
    tile: usize,
    padding: Vec<Step>,
    data: Layout,
    kernel: Layout,
    out: Layout,
}

impl<V> WinogradConv2d<V> {
    fn geometry(&self) -> Result<Geometry, String> {
        let data = Layout::parse(&self.data_layout)?;
        Ok(Geometry {
            tile: tile(self.tile_size)?,
            padding: Step::all(2, &[1], &[1], &self.padding)?,
            kernel: Layout::parse(&self.kernel_layout)?,
            out: layout_or(&self.out_layout, &data)?,
            data,
        })
    }
}

fn tile(size: i64) -> Result<usize, String> {
    let fits = usize::try_from(size).ok().filter(|size| (1..=POINTS.len()).contains(size));
    fits.ok_or_else(|| format!("expected a `tile_size` from 1 to {}, found {size}", POINTS.len()))
}

/// How many elements a kernel has along an axis that is `size` long once it is transformed for tiles of `tile`.
fn taps(tile: usize, size: Dim) -> Result<usize, Stop> {
    let Dim::Known(size) = size else { return Err(Stop::Stuck) };
    let taps = usize::try_from(size).ok().and_then(|size| (size + 1).checked_sub(tile));
    match taps.filter(|taps| *taps > 0) {
        Some(taps) => Ok(taps),
        None => {
            Err(Stop::Error(format!("expected a kernel of at least {tile} places, found {size}")))
        }
    }
}

fn infer_weight(op: WinogradWeightTransform<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let weight = cx.tensor(0)?;
    relation::expect_floats(weight)?;
    relation::expect_rank(weight, 4)?;
    let tile = tile(op.tile_size)?;
    relation::equal_dim(cx, weight.shape[2], weight.shape[3])?;
    let Dim::Known(taps) = weight.shape[2] else { return Err(Stop::Stuck) };
    let Some(count) = usize::try_from(taps).ok().filter(|taps| *taps > 0) else {
        return Err(Stop::Error("expected a kernel with elements".to_string()));
    };
    Matrices::new(tile, count)?;
    let size = Dim::Known((tile + count - 1) as i64);
    Ok(Type::tensor([size, size, weight.shape[0], weight.shape[1]], weight.dtype))
}

fn infer_convolution(op: WinogradConv2d<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    relation::expect_floats(data)?;
    relation::expect_floats(weight)?;
    let geometry = op.geometry()?;
    let input = geometry.data.logical(DATA, &data.shape)?;
    let kernel = geometry.kernel.logical(KERNEL, &weight.shape)?;
    let places = relation::equal_dim(cx, kernel[0], kernel[1])?;
    let taps = taps(geometry.tile, places)?;
    Matrices::new(geometry.tile, taps)?;
    require(cx, "input channels of the weight", input[1], kernel[3])?;
    if let Some(expected) = op.channels {
        require(cx, "output channels", Dim::Known(expected), kernel[2])?;
    }
    let mut output = vec![input[0], kernel[2]];
    for (step, extent) in geometry.padding.iter().zip(&input[2..]) {
        output.push(step.windows(*extent, Dim::Known(taps as i64), false)?);
    }
    let shape = geometry.out.physical(DATA, &output)?;
    Ok(Type::tensor(shape, op.out_dtype.unwrap_or(data.dtype)))
}

/// The greatest number of places of a tile, of those that are read and in the domain of products.
const MOST_PLACES: usize = (POINTS.len() + 1) * (POINTS.len() + 1);

/// Kernels are transformed so many at a time, which stay in cache.
const MOST_PAIRS: usize = 256;

/// Numbers of a tile, as many as it has, the first ones.
type Tile = [f64; MOST_PLACES];

/// `rows · x · rowsᵀ`, where `x` is square and has as many rows as `rows` columns. What is multiplied by 0 takes no
/// part.
fn transformed(rows: &[Vec<f64>], x: &Tile) -> Tile {
    let side = rows.first().map_or(0, Vec::len);
    let (mut half, mut result) = ([0.0; MOST_PLACES], [0.0; MOST_PLACES]);
    for (at, row) in rows.iter().enumerate() {
        for column in 0..side {
            let taken = (0..side).filter(|k| row[*k] != 0.0);
            half[at * side + column] = taken.map(|k| row[k] * x[k * side + column]).sum();
        }
    }
    for left in 0..rows.len() {
        for (at, row) in rows.iter().enumerate() {
            let half = &half[left * side..][..side];
            let taken = half.iter().zip(row).filter(|(_, factor)| **factor != 0.0);
            result[left * rows.len() + at] = taken.map(|(value, factor)| value * factor).sum();
        }
    }
    result
}

/// The first numbers of a tile.
fn tile_of(values: impl Iterator<Item = f64>) -> Tile {
    let mut tile = [0.0; MOST_PLACES];
    tile.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    tile
}

fn evaluate_weight(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<WinogradWeightTransform<Value>>()?;
    let (shape, dtype) = result_shape::<WinogradWeightTransform>(cx)?;
    let weight = cx.tensor(0)?;
    let taps = weight.shape()[2] as usize;
    let matrices = Matrices::new(tile(op.tile_size)?, taps)?;
    let (pairs, kernels, places) = (size(&shape[2..]), weight.to_f64(), shape[0] as usize);
    let mut result = vec![0.0; size(&shape)];
    // Place by place, many kernels side by side.
    let mut given = vec![0.0; taps * taps * MOST_PAIRS];
    let mut half = vec![0.0; places * taps * MOST_PAIRS];
    for (number, block) in kernels.chunks(taps * taps * MOST_PAIRS).enumerate() {
        let count = block.len() / (taps * taps);
        for (pair, kernel) in block.chunks_exact(taps * taps).enumerate() {
            kernel.iter().enumerate().for_each(|(at, tap)| given[at * MOST_PAIRS + pair] = *tap);
        }
        for (row, factors) in matrices.kernel.iter().enumerate() {
            for column in 0..taps {
                let sum = &mut half[(row * taps + column) * MOST_PAIRS..][..count];
                sum_of_parts(sum, factors, &given, |tap| (tap * taps + column) * MOST_PAIRS);
            }
            for (column, factors) in matrices.kernel.iter().enumerate() {
                let start = (row * places + column) * pairs + number * MOST_PAIRS;
                let sum = &mut result[start..][..count];
                sum_of_parts(sum, factors, &half, |tap| (row * taps + tap) * MOST_PAIRS);
            }
        }
    }
    <f64 as Number>::write(dtype, &shape, &result)
}

/// Sets `sum` to the sum of parts of `values`, part `k` of which begins at `begin(k)`, each as often as `factors` say.
/// Where these are 0, it takes no part.
fn sum_of_parts(sum: &mut [f64], factors: &[f64], values: &[f64], begin: impl Fn(usize) -> usize) {
    sum.fill(0.0);
    for (part, factor) in factors.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
        let values = &values[begin(part)..][..sum.len()];
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
    }
}

fn evaluate_convolution(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let geometry = cx.fields::<WinogradConv2d<Value>>()?.geometry()?;
    let (shape, dtype) = result_shape::<WinogradConv2d>(cx)?;
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let (input, data) = geometry.data.unpack(DATA, data.shape(), data.to_f64())?;
    let (kernel, weight) = geometry.kernel.unpack(KERNEL, weight.shape(), weight.to_f64())?;
    let output = geometry.out.logical_extents(DATA, &shape)?;
    let (m, places) = (geometry.tile, kernel[0] as usize);
    let matrices = Matrices::new(m, places + 1 - m)?;
    let mut result = vec![0.0; size(&output)];
    let [height, width] = [input[2], input[3]];
    let [rows, columns] = [output[2] as usize, output[3] as usize];
    let (inputs, outputs) = (input[1] as usize, output[1] as usize);
    let pads: Vec<i64> = geometry.padding.iter().map(|step| step.padding.0).collect();
    let across = columns.div_ceil(m);
    for image in 0..output[0] as usize {
        for number in 0..rows.div_ceil(m) * across {
            let (top, left) = (number / across * m, number % across * m);
            let mut sums = vec![0.0; outputs * places * places];
            for channel in 0..inputs {
                let plane = (image * inputs + channel) as i64 * height * width;
                let element = |place: usize| {
                    let y = (top + place / places) as i64 - pads[0];
                    let x = (left + place % places) as i64 - pads[1];
                    let is_inside = (0..height).contains(&y) && (0..width).contains(&x);
                    if is_inside { data[(plane + y * width + x) as usize] } else { 0.0 }
                };
                let read = tile_of((0..places * places).map(element));
                let values = transformed(&matrices.data, &read);
                for (place, value) in values[..places * places].iter().enumerate() {
                    for out in 0..outputs {
                        let factor = weight[(place * outputs + out) * inputs + channel];
                        sums[out * places * places + place] += value * factor;
                    }
                }
            }
            for (out, sums) in sums.chunks_exact(places * places).enumerate() {
                let values = transformed(&matrices.result, &tile_of(sums.iter().copied()));
                for (at, value) in values[..m * m].iter().enumerate() {
                    let (y, x) = (top + at / m, left + at % m);
                    if y < rows && x < columns {
                        result[((image * outputs + out) * rows + y) * columns + x] = *value;
                    }
                }
            }
        }
    }
    let (shape, result) = geometry.out.pack(DATA, &output, result)?;
    <f64 as Number>::write(dtype, &shape, &result)
}

/// Row `index` of `matrix` times the numbers that `read` gives, all of which are read.
fn product_of_row(
    e: &mut Expression<'_>,
    matrix: &[Vec<f64>],
    index: ValueId,
    read: impl Fn(&mut Expression<'_>, i64) -> ValueId,
) -> ValueId {
    let columns = matrix.first().map_or(0, Vec::len);
    let values: Vec<ValueId> = (0..columns as i64).map(|column| read(e, column)).collect();
    let sums: Vec<ValueId> = matrix.iter().map(|row| weighted_sum(e, row, &values)).collect();
    let (last, others) = sums.split_last().expect("a matrix has rows");
    others.iter().enumerate().rev().fold(*last, |other, (row, sum)| {
        let number = e.index(row as i64);
        let is_row = e.eq(index, number);
        e.select(is_row, *sum, other)
    })
}

/// The sum of `values`, each as often as `weights` say. Where these are 0, it takes no part.
fn weighted_sum(e: &mut Expression<'_>, weights: &[f64], values: &[ValueId]) -> ValueId {
    let mut sum = None;
    for (weight, value) in weights.iter().zip(values).filter(|(weight, _)| **weight != 0.0) {
        let times = |e: &mut Expression<'_>, weight: f64| match weight == 1.0 {
            true => *value,
            false => {
                let weight = e.number_like(*value, weight);
                e.mul(*value, weight)
            }
        };
        sum = Some(match sum {
            None => times(e, *weight),
            Some(sum) if *weight < 0.0 => {
                let term = times(e, -weight);
                e.sub(sum, term)
            }
            Some(sum) => {
                let term = times(e, *weight);
                e.add(sum, term)
            }
        });
    }
    sum.unwrap_or_else(|| e.number_like(values[0], 0.0))
}

fn define_weight(cx: &mut DefineCx<'_>) -> Defined {
    let op = cx.fields::<WinogradWeightTransform<Operand>>()?;
    let weight = cx.tensor(0)?;
    let (shape, dtype) = cx.result()?;
    let taps = weight.shape[2];
    let Matrices { kernel, .. } = Matrices::new(tile(op.tile_size)?, taps as usize)?;
    let name = cx.stage_of("rows");
    let rows = cx.builder.compute(&name, &[shape[0], taps, shape[2], shape[3]], |e, i| {
        product_of_row(e, &kernel, i[0], |e, tap| {
            let tap = e.index(tap);
            let value = e.load(&weight, &[i[2], i[3], tap, i[1]]);
            e.cast(value, sums_of(dtype))
        })
    });
    cx.compute(|e, i| {
        let sum = product_of_row(e, &kernel, i[1], |e, tap| {
            let tap = e.index(tap);
            e.load(&rows, &[i[0], tap, i[2], i[3]])
        });
        e.cast(sum, dtype)
    })
}

/// What sums of elements of type `dtype` are computed in.
fn sums_of(dtype: DType) -> DType {
    if dtype == DType::FLOAT64 { dtype } else { DType::FLOAT32 }
}

/// Five stages: the rows of tiles are transformed, then their columns; products are summed over input channels; then
/// the columns of results are transformed, and their rows. All tiles are whole: what is beyond the input is 0, what is
/// beyond the result is not stored.
fn define_convolution(cx: &mut DefineCx<'_>) -> Defined {
    let geometry = cx.fields::<WinogradConv2d<Operand>>()?.geometry()?;
    let (data, weight) = (cx.tensor(0)?, cx.tensor(1)?);
    let (shape, dtype) = cx.result()?;
    let input = geometry.data.logical_extents(DATA, &data.shape)?;
    let output = geometry.out.logical_extents(DATA, &shape)?;
    let extents = geometry.kernel.logical_extents(KERNEL, &weight.shape)?;
    let (m, places) = (geometry.tile as i64, extents[0]);
    let taps = places + 1 - m;
    let matrices = Matrices::new(geometry.tile, taps as usize)?;
    let sums = sums_of(dtype);
    let tiles: Vec<i64> = output[2..].iter().map(|extent| (extent + m - 1) / m).collect();
    let covered: Vec<i64> = tiles.iter().map(|tiles| tiles * m).collect();
    let reaches = margins(&geometry.padding, &input[2..], &covered, &[taps; 2]);
    let padded = pad_stage(cx, &data, &geometry.data, DATA, &reaches, Margin::Zero)?;
    let [images, channels, outputs] = [input[0], input[1], output[1]];
    let [down, across] = [tiles[0], tiles[1]];

    let name = cx.stage_of("rows");
    let read = covered[1] + taps - 1;
    let rows = cx.builder.compute(&name, &[images, places, down, read, channels], |e, i| {
        let first = e.mul_index(i[2], m);
        product_of_row(e, &matrices.data, i[1], |e, row| {
            let y = e.add_index(first, row);
            let y = e.add_index(y, reaches[0].shift());
            let x = e.add_index(i[3], reaches[1].shift());
            let place = [
                Index::new(i[0], images),
                Index::new(i[4], channels),
                Index::new(y, reaches[0].extent()),
                Index::new(x, reaches[1].extent()),
            ];
            let at = padded.layout.physical_indices(e, DATA, &place);
            let value = e.load(&padded.tensor, &at);
            e.cast(value, sums)
        })
    });
    let name = cx.stage_of("data");
    let shape_of = |channels: i64| [images, places, places, down, across, channels];
    let transformed = cx.builder.compute(&name, &shape_of(channels), |e, i| {
        let first = e.mul_index(i[4], m);
        product_of_row(e, &matrices.data, i[2], |e, column| {
            let x = e.add_index(first, column);
            e.load(&rows, &[i[0], i[1], i[3], x, i[5]])
        })
    });
    let name = cx.stage_of("products");
    let shape_of_products = shape_of(outputs);
    let products =
        cx.builder.reduce(&name, &shape_of_products, &[channels], Combiner::Sum, |e, i, r| {
            let x = e.load(&transformed, &[i[0], i[1], i[2], i[3], i[4], r[0]]);
            let place = [
                Index::new(i[1], places),
                Index::new(i[2], places),
                Index::new(i[5], outputs),
                Index::new(r[0], channels),
            ];
            let at = geometry.kernel.physical_indices(e, KERNEL, &place);
            let w = e.load(&weight, &at);
            let w = e.cast(w, sums);
            e.mul(x, w)
        });
    // Rows of results, transformed along columns alone: of `[n, t, p, j, u, o]`, `p` is a row of tile row `t`, and `j`
    // still a place in the domain of products.
    let name = cx.stage_of("columns");
    let columns = cx.builder.compute(&name, &[images, down, m, places, across, outputs], |e, i| {
        product_of_row(e, &matrices.result, i[2], |e, place| {
            let place = e.index(place);
            e.load(&products, &[i[0], place, i[3], i[1], i[4], i[5]])
        })
    });
    cx.compute(|e, i| {
        let out = geometry.out.logical_indices(DATA, &shape, i);
        let [image, channel, y, x] = [0, 1, 2, 3].map(|axis: usize| out[axis].value(e));
        let tile = e.index(m);
        let (top, row) = (e.floor_div(y, tile), e.floor_mod(y, tile));
        let (left, column) = (e.floor_div(x, tile), e.floor_mod(x, tile));
        let value = product_of_row(e, &matrices.result, column, |e, place| {
            let place = e.index(place);
            e.load(&columns, &[image, top, row, place, left, channel])
        });
        e.cast(value, dtype)
    })
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<WinogradWeightTransform>();
    registry.op::<WinogradConv2d>();
}
