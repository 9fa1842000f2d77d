//! Layouts for vector units.

use ir_core::{
    BlockId, DType, Diagnostics, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult,
    ValueId,
};
use relay_operators::attributes::Integers;
use relay_operators::index::slice::StridedSlice;
use relay_operators::layout::{Layout, LayoutTransform};
use relay_operators::nn::convolution::{Conv1d, Conv2d, Convolution, Kernel};
use relay_operators::nn::linear::{ContribDensePack, Dense, Matmul};
use relay_operators::nn::padding::Pad;
use relay_operators::nn::winograd::WinogradConv2d;
use relay_operators::nn::words::ContribQuads;
use relay_operators::shape::{ExpandDims, Squeeze, Transpose};
use rustc_hash::FxHashMap;

use crate::emit::{self, Emit, with_attribute};
use crate::layouts::{Change, Given, Need, Plan, open_operations, propagate};

/// Gives convolutions and dense layers layouts whose innermost axis fills a vector.
///
/// A `nn.conv2d` of `NCHW` and `OIHW` becomes one of `NCHW16c` and `OIHW16i16o`, a depthwise one
/// one of `NCHW16c` and `OIHW1i16o`, where `width` is 16. Blocks of a half of it, and of a quarter where rows fill no
/// half of a vector, serve where it does not divide the channels; few input channels are one
/// block, and up to three, as those of a picture, stay as they are. So do depthwise ones of small windows and long
/// rows whose data is in no blocks. Convolutions whose output channels no block divides stay, and so do those whose blocks
/// would reach over a group. One with fewer products is of `NCHW16c` and `HWOI16o`. A `nn.dense` with a constant weight,
/// or with one by which many rows are multiplied in all, and a `nn.matmul` by one become `nn.contrib_dense_pack`, of
/// which a `strided_slice` takes what is wanted where its units fill no block; one of `uint8` by `int8` takes four inputs
/// at a time (`nn.contrib_quads`). `layout_transform` brings tensors to the layouts; `fold-constant` does so with those
/// of constants.
///
/// Operators in between are computed in blocks too where that moves fewer elements: elementwise
/// ones, sums and products with other tensors and with something per channel, pools,
/// concatenations, reductions and padding. So a network of convolutions changes the layout once at
/// its end, and once at its start where that is no picture. Kernels stay as they are.
///
/// ```relay
/// def @main(%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(16, 32, 3, 3), float32]) {
///   %0 = nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3]);
///   nn.relu(%0)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(16, 32, 3, 3), float32])
///     -> Tensor[(1, 16, 6, 6), float32] {
///   %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW16c");
///   %1 = layout_transform(%w, src_layout="OIHW", dst_layout="OIHW16i16o");
///   %2 = nn.conv2d(%0,
///       %1, channels=16, kernel_size=[3, 3], data_layout="NCHW16c", kernel_layout="OIHW16i16o");
///   %3 = nn.relu(%2);
///   layout_transform(%3, src_layout="NCHW16c", dst_layout="NCHW")
/// }
/// ```
#[derive(Pass)]
#[pass(name = "alter-op-layout", function)]
pub struct AlterOpLayout {
    /// Numbers in a vector of the target.
    #[default(16)]
    pub width: i64,
    /// Packs no weights but constants, however many rows are multiplied by them.
    #[default(false)]
    pub constants: bool,
}

/// Dense layers of at most so many rows are bound by reading their weights.
const FEW_ROWS: i64 = 4;

/// A weight that is no constant is packed in each run, which so many rows are worth.
const MANY_ROWS: i64 = 96;

/// Columns of so many elements lie in as many pages of memory.
const LONG_COLUMN: i64 = 128;

/// The least block of channels: no vectors hold pairs, and what has only such is faster as it is.
const LEAST_BLOCK: i64 = 4;

/// Windows of so few elements read little more than once what they read in vectors.
const SMALL_WINDOW: i64 = 9;

/// So few channels, as those of a picture, are read where they are, a plane each.
const MOST_PLANES: i64 = 3;

/// Vectors that hide the latency of sums.
const VECTORS: i64 = 8;

/// Numbers of 32 bits in a line of a cache. Narrower vectors are read faster in as many streams as are computed at once;
/// and there are too few registers for the sums of several rows with [`VECTORS`] each.
const LINE: i64 = 16;

impl FunctionPass for AlterOpLayout {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in open_operations(f) {
            if let Some(conv) = strided(f, op) {
                as_image(conv, f, op)?;
                cx.count("widened", 1);
            }
        }
        let plan = |f: &FuncMut<'_>, op: OpId, data: Given<'_>| match f.view(op) {
            Some(conv) => self.winograd(f, op, &conv, data),
            None => self.conv2d(f, op, data),
        };
        let altered = propagate(f, "alter-op-layout", &plan)?;
        cx.count("altered", altered);
        let products = open_operations(f);
        let mut rows: FxHashMap<ValueId, i64> = FxHashMap::default();
        for product in products.iter().filter_map(|op| product(f, *op)) {
            let all = rows.entry(product.dense.weight).or_default();
            *all = all.saturating_add(product.rows(f).unwrap_or_default());
        }
        let mut prepared = Prepared::default();
        for op in products {
            let Some(packed) = self.dense(f, op, &rows) else { continue };
            packed.replace(f, op, &mut prepared)?;
            cx.count("packed", 1);
        }
        Ok(())
    }
}

/// The convolution that `op` is, where it is of one dimension, in the usual layouts and with a stride.
fn strided(f: &FuncMut<'_>, op: OpId) -> Option<Conv1d> {
    let conv: Conv1d = f.view(op)?;
    let told = &conv.convolution.kernel;
    let plain = told.data_layout == "NCW" && ["", "NCW"].contains(&&*told.out_layout);
    let is_known =
        |value: ValueId| f.body.ty(value).as_tensor().is_some_and(|ty| ty.known_shape().is_some());
    let usual = plain && told.kernel_layout == "OIW" && is_known(conv.data);
    (usual && conv.convolution.strides.iter().any(|stride| *stride > 1)).then_some(conv)
}

/// Puts a convolution of images of one row in the place of `op`, which is `conv`.
fn as_image(conv: Conv1d, f: &mut FuncMut<'_>, op: OpId) -> PassResult {
    let Convolution { strides, padding, kernel, out_dtype } = conv.convolution;
    let with_row = |row: i64, of: &[i64]| [&[row], of].concat();
    // One number is that of both sides.
    let (before, after) = (padding.first().copied(), padding.last().copied());
    let padding = vec![0, before.unwrap_or_default(), 0, after.unwrap_or_default()];
    let usual = |layout: &str| layout.replace('W', "HW");
    let mut emit = Emit::before(f, op, "alter-op-layout");
    let data = emit.op(&ExpandDims { data: conv.data, axis: 2, num_newaxis: 1 })?;
    let weight = emit.op(&ExpandDims { data: conv.weight, axis: 2, num_newaxis: 1 })?;
    let kernel = Kernel {
        dilation: with_row(1, &kernel.dilation),
        kernel_size: kernel.kernel_size.map(|size| with_row(1, &size)),
        data_layout: usual(&kernel.data_layout),
        kernel_layout: usual(&kernel.kernel_layout),
        out_layout: usual(&kernel.out_layout),
        groups: kernel.groups,
        channels: kernel.channels,
    };
    let convolution = Convolution { strides: with_row(1, &strides), padding, kernel, out_dtype };
    let data = emit.op(&Conv2d { data, weight, convolution })?;
    let value = emit.op(&Squeeze { data, axis: Some(Integers(vec![2])) })?;
    emit::replace(f, op, value);
    Ok(())
}

/// The dense layer that `op` is.
struct Product {
    dense: Dense,
    /// The layout of its weight.
    weight: &'static str,
    /// Whether it reads the columns of its data.
    by_columns: bool,
}

fn product(f: &FuncMut<'_>, op: OpId) -> Option<Product> {
    if let Some(dense) = f.view::<Dense>(op) {
        return Some(Product { dense, weight: "NC", by_columns: false });
    }
    let Matmul { tensor_a, tensor_b, units, out_dtype, transpose_a, transpose_b } = f.view(op)?;
    let dense = Dense { data: tensor_a, weight: tensor_b, units, out_dtype };
    let weight = if transpose_b { "NC" } else { "CN" };
    Some(Product { dense, weight, by_columns: transpose_a })
}

impl Product {
    /// How many rows are multiplied by the weight: columns of matrices, else elements of all dimensions but the last.
    fn rows(&self, f: &FuncMut<'_>) -> Option<i64> {
        let (last, outer) = f.body.ty(self.dense.data).as_tensor()?.shape.split_last()?;
        match (self.by_columns, outer) {
            (false, outer) => {
                outer.iter().try_fold(1i64, |rows, extent| rows.checked_mul(extent.known()?))
            }
            (true, [_]) => last.known(),
            (true, _) => None,
        }
    }

    /// How many numbers are summed up for an element of the result.
    fn terms(&self, f: &FuncMut<'_>) -> Option<i64> {
        let place = self.weight.find('C')?;
        f.body.ty(self.dense.weight).as_tensor()?.shape.get(place)?.known()
    }
}

/// What is there already for products of the same block.
#[derive(Default)]
struct Prepared {
    /// Packed weights: of which one, and how they lie.
    weights: FxHashMap<(Option<BlockId>, ValueId, &'static str, String, bool), ValueId>,
    /// Columns that are rows.
    rows: FxHashMap<(Option<BlockId>, ValueId), ValueId>,
}

impl AlterOpLayout {
    /// The largest usable block of so many channels: the width, a half or a quarter of it, but no pairs.
    fn block(&self, channels: i64) -> Option<i64> {
        let blocks = [self.width, self.width / 2, self.width / 4];
        blocks.into_iter().find(|block| *block >= LEAST_BLOCK && channels % block == 0)
    }

    fn conv2d(&self, f: &FuncMut<'_>, op: OpId, data: Given<'_>) -> Option<Plan> {
        let conv: Conv2d = f.view(op)?;
        let told = &conv.convolution.kernel;
        let plain = told.data_layout == "NCHW" && ["", "NCHW"].contains(&&*told.out_layout);
        if !plain || told.kernel_layout != "OIHW" {
            return None;
        }
        let extents = |value: ValueId| {
            let shape = &f.body.ty(value).as_tensor()?.shape;
            Some((shape.first()?.known()?, shape.get(1)?.known()?))
        };
        let channels = |value: ValueId| f.body.ty(value).as_tensor()?.shape.get(1)?.known();
        let inputs = channels(conv.data)?;
        let outputs = channels(f.body.result(op, 0))?;
        // Where rows fill half a vector, they are better than blocks that do not.
        let row = f.body.ty(f.body.result(op, 0)).as_tensor()?.shape.get(3)?.known()?;
        let least = if row % (self.width / 2).max(1) == 0 { self.width / 2 } else { 1 };
        let block = |channels: i64| self.block(channels).filter(|block| *block >= least);
        let kernels = extents(conv.weight)?;
        let groups = told.groups;
        // The block that the data is in already serves as well as another.
        let own = block_of(data);
        let own = |channels: i64| own.filter(|block| *block > 1 && channels % block == 0);
        let (input, output, kernel) = if groups > 1 && groups == inputs && groups == outputs {
            let window: Option<i64> = told.kernel_size.as_ref().map(|size| size.iter().product());
            // Vectors along rows are as fast where windows are small, and nothing has to be moved.
            let by_rows = row >= self.width && window.is_some_and(|window| window <= SMALL_WINDOW);
            if matches!(data, Given::AsWritten) && by_rows {
                return None;
            }
            let block = own(inputs).or_else(|| block(inputs))?;
            (kernels == (outputs, 1)).then_some((block, block, format!("1i{block}o")))?
        } else {
            if kernels.0 != outputs {
                return None;
            }
            let few = || match inputs {
                _ if groups > 1 || inputs > self.width => None,
                ..=MOST_PLANES => Some(1),
                _ => Some(inputs),
            };
            let inputs = inputs / groups;
            let input = own(inputs).or_else(|| block(inputs)).or_else(few)?;
            let output = block(outputs / groups)?;
            let of_inputs = if input > 1 { format!("{input}i") } else { String::new() };
            (input, output, format!("{of_inputs}{output}o"))
        };
        let (nchw, oihw) = (Layout::plain("NCHW"), Layout::plain("OIHW"));
        let kernel = Layout::parse(&format!("OIHW{kernel}")).ok()?;
        let from = if input > 1 { nchw.with_block('C', input) } else { nchw.clone() };
        let to = nchw.with_block('C', output);
        let data = Change { from: nchw.clone(), to: from };
        let weight = Change { from: oihw, to: kernel };
        let operands = [(conv.data, data), (conv.weight, weight)];
        Some(in_blocks(f, op, operands, Change { from: nchw, to }))
    }

    /// A convolution with fewer products reads and writes blocks of channels, and its kernels by blocks of
    /// output channels.
    fn winograd(
        &self,
        f: &FuncMut<'_>,
        op: OpId,
        conv: &WinogradConv2d,
        data: Given<'_>,
    ) -> Option<Plan> {
        let plain = conv.data_layout == "NCHW" && ["", "NCHW"].contains(&&*conv.out_layout);
        if !plain || conv.kernel_layout != "HWOI" {
            return None;
        }
        let channels = |value: ValueId| f.body.ty(value).as_tensor()?.shape.get(1)?.known();
        let inputs = channels(conv.data)?;
        let own = block_of(data).filter(|block| *block > 1 && inputs % block == 0);
        let input = own.or_else(|| self.block(inputs))?;
        let output = self.block(channels(f.body.result(op, 0))?)?;
        let (nchw, places) = (Layout::plain("NCHW"), Layout::plain("HWOI"));
        let kernel = places.with_block('O', output);
        let data = Change { from: nchw.clone(), to: nchw.with_block('C', input) };
        let result = Change { to: nchw.with_block('C', output), from: nchw };
        let weight = Change { from: places, to: kernel };
        Some(in_blocks(f, op, [(conv.data, data), (conv.weight, weight)], result))
    }

    /// How a dense layer is packed. `all_rows` says how many rows are multiplied by each weight.
    fn dense(
        &self,
        f: &FuncMut<'_>,
        op: OpId,
        all_rows: &FxHashMap<ValueId, i64>,
    ) -> Option<Packed> {
        let product = product(f, op)?;
        let (dense, given) = (&product.dense, product.weight);
        // Columns are made rows first, which pays where they are long.
        if product.by_columns && (self.constants || product.terms(f)? < LONG_COLUMN) {
            return None;
        }
        let place = given.find('N')?;
        let units = f.body.ty(dense.weight).as_tensor()?.shape.get(place)?.known()?;
        if f.registry.constant(f.body, dense.weight).is_none() {
            let is_float = f.body.ty(dense.weight).as_tensor()?.dtype.is_float();
            let may_pay = is_float && !self.constants && units >= self.width;
            all_rows.get(&dense.weight).filter(|rows| may_pay && **rows >= MANY_ROWS)?;
        }
        // What fills no block is made up with zeros, which cost less than single numbers do, and than
        // many blocks that are too small for a vector.
        let widths = [self.width / 4, self.width / 2, self.width];
        let fitting = widths.into_iter().find(|block| *block >= units).unwrap_or(self.width);
        let blocks = |block: i64| units / block + i64::from(units % block != 0);
        let whole = self.block(units).filter(|block| blocks(*block) <= blocks(fitting));
        let block = whole.unwrap_or(fitting.max(2));
        let padded = units.checked_add(block - 1)? / block * block;
        // With few rows, reading the weight takes all the time: vectors of whole lines are then read in
        // one stream, as many as are computed at once. Many rows share what they read.
        let is_one_stream = product.rows(f)? <= FEW_ROWS && self.width >= LINE;
        let most = if is_one_stream { VECTORS } else { 1 };
        let vectors = (1..=most).rev().find(|vectors| padded % (block * vectors) == 0)?;
        let layout = Layout::plain("NC").with_block('N', block * vectors);
        let rank = f.body.ty(dense.data).as_tensor()?.shape.len();
        let dtypes =
            [dense.data, dense.weight].map(|value| Some(f.body.ty(value).as_tensor()?.dtype));
        let quads = dtypes == [Some(DType::UINT8), Some(DType::INT8)]
            && dense.out_dtype == Some(DType::INT32);
        Some(Packed { product, rank, units, padded, layout, quads })
    }
}

/// The block of channels that the data of a convolution is in.
fn block_of(data: Given<'_>) -> Option<i64> {
    let Given::In(change) = data else { return None };
    (change.from.names() == "NCHW").then(|| change.to.block('C'))
}

/// The convolution `op` in other layouts of data and weight, its `operands`, and of its result.
fn in_blocks(f: &FuncMut<'_>, op: OpId, operands: [(ValueId, Change); 2], result: Change) -> Plan {
    let (name, mut attrs) = (f.body.op_name(op), f.body.attrs(op));
    let [(_, data), (_, weight)] = &operands;
    let out = if data.to == result.to { String::new() } else { result.to.to_string() };
    let layouts = [
        ("data_layout", data.to.to_string()),
        ("kernel_layout", weight.to.to_string()),
        ("out_layout", out),
    ];
    for (key, layout) in layouts {
        attrs = with_attribute(f.registry, name, attrs, key, &layout);
    }
    let need =
        |change: Change| if change.from == change.to { Need::Same } else { Need::As(change) };
    let inputs = operands.map(|(value, change)| (value, need(change))).into();
    Plan { name, attrs, inputs, joined: false, result }
}

/// A dense layer, and how it is packed.
struct Packed {
    product: Product,
    /// The rank of its data.
    rank: usize,
    /// How many units it has.
    units: i64,
    /// How many units the packed weight has.
    padded: i64,
    /// The layout of the weight.
    layout: Layout,
    /// Whether the weight is in words of four bytes.
    quads: bool,
}

impl Packed {
    /// Puts the packed layer in the place of `op`, of what is `prepared` already where that is.
    fn replace(self, f: &mut FuncMut<'_>, op: OpId, prepared: &mut Prepared) -> PassResult {
        let (block, weight_layout) = (f.body.op_block(op), self.layout.to_string());
        let Dense { data, weight, .. } = self.product.dense;
        let mut emit = Emit::before(f, op, "alter-op-layout");
        let key = (block, weight, self.product.weight, weight_layout.clone(), self.quads);
        let weight = match prepared.weights.get(&key) {
            Some(weight) => *weight,
            None => self.weight(&mut emit)?,
        };
        prepared.weights.insert(key, weight);
        let data = match (self.product.by_columns, prepared.rows.get(&(block, data))) {
            (false, _) => data,
            (true, Some(rows)) => *rows,
            (true, None) => {
                let rows = emit.op(&Transpose { data, axes: None })?;
                prepared.rows.insert((block, data), rows);
                rows
            }
        };
        let Packed { product: Product { dense, .. }, rank, units, padded, quads, .. } = self;
        let mut value = emit.op(&ContribDensePack {
            data,
            weight,
            units: dense.units.map(|_| padded),
            out_dtype: dense.out_dtype,
            weight_layout,
            quads,
        })?;
        if padded > units {
            value = emit.op(&StridedSlice::along(value, rank as i64 - 1, 0, units))?;
        }
        emit::replace(f, op, value);
        Ok(())
    }

    /// The weight as it is packed.
    fn weight(&self, emit: &mut Emit<'_, '_>) -> Result<ValueId, Diagnostics> {
        let Packed { ref product, units, padded, quads, .. } = *self;
        let (mut weight, given) = (product.dense.weight, product.weight);
        if padded > units {
            let pad_value = emit.scalar(0.0, weight)?;
            let pad = |axis: char| vec![0, if axis == 'N' { padded - units } else { 0 }];
            let pad_width = given.chars().map(pad).collect();
            let pad_mode = "constant".to_string();
            weight = emit.op(&Pad { data: weight, pad_value, pad_width, pad_mode })?;
        }
        if quads {
            let axis = given.find('C').map_or(-1, |axis| axis as i64);
            weight = emit.op(&ContribQuads { data: weight, axis })?;
        }
        emit.op(&LayoutTransform {
            data: weight,
            src_layout: given.to_string(),
            dst_layout: self.layout.to_string(),
        })
    }
}
