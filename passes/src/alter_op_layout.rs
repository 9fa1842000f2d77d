//! Layouts for vector units.

use ir_core::{FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult, ValueId};
use relay::operators::layout::{Layout, LayoutTransform};
use relay::operators::nn::convolution::Conv2d;
use relay::operators::nn::linear::{ContribDensePack, Dense};

use crate::emit::{self, Emit, with_attribute};
use crate::layouts::{Change, Need, Plan, open_operations, propagate};

/// Gives convolutions and dense layers layouts whose innermost axis fills a vector.
///
/// A `nn.conv2d` of `NCHW` and `OIHW` becomes one of `NCHW16c` and `OIHW16i16o`, a depthwise one
/// one of `NCHW16c` and `OIHW1i16o`, where `width` is 16. Blocks of a half and a quarter of it serve
/// where it does not divide the channels; few input channels, such as those of a picture, are one
/// block. Convolutions whose output channels no block divides stay, and so do those whose blocks
/// would reach over a group. A `nn.dense` with a constant weight becomes
/// `nn.contrib_dense_pack`. `layout_transform` brings tensors to the layouts; `fold-constant`
/// does so with those of constants.
///
/// Operators in between are computed in blocks too where that moves fewer elements: elementwise
/// ones, sums and products with other tensors and with something per channel, pools,
/// concatenations, reductions and padding. So a network of convolutions changes the layout once at
/// its start and once at its end. Kernels stay as they are.
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
}

/// Dense layers of at most so many rows are bound by reading their weights.
const FEW_ROWS: i64 = 4;

/// Vectors that hide the latency of sums.
const VECTORS: i64 = 8;

impl FunctionPass for AlterOpLayout {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let altered = propagate(f, "alter-op-layout", &|f, op, data| self.conv2d(f, op, data))?;
        cx.count("altered", altered);
        for op in open_operations(f) {
            let Some(pack) = self.dense(f, op) else { continue };
            let mut emit = Emit::before(f, op, "alter-op-layout");
            let weight = emit.op(&LayoutTransform {
                data: pack.weight,
                src_layout: "NC".to_string(),
                dst_layout: pack.weight_layout.clone(),
            })?;
            let value = emit.op(&ContribDensePack { weight, ..pack })?;
            emit::replace(f, op, value);
            cx.count("packed", 1);
        }
        Ok(())
    }
}

impl AlterOpLayout {
    /// The largest usable block of so many channels: the width, a half or a quarter of it.
    fn block(&self, channels: i64) -> Option<i64> {
        let blocks = [self.width, self.width / 2, self.width / 4];
        blocks.into_iter().find(|block| *block > 1 && channels % block == 0)
    }

    fn conv2d(&self, f: &FuncMut<'_>, op: OpId, data: Option<&Change>) -> Option<Plan> {
        let conv: Conv2d = f.view(op)?;
        let plain = conv.data_layout == "NCHW" && ["", "NCHW"].contains(&&*conv.out_layout);
        if !plain || conv.kernel_layout != "OIHW" {
            return None;
        }
        let extents = |value: ValueId| {
            let shape = &f.body.ty(value).as_tensor()?.shape;
            Some((shape.first()?.known()?, shape.get(1)?.known()?))
        };
        let channels = |value: ValueId| f.body.ty(value).as_tensor()?.shape.get(1)?.known();
        let inputs = channels(conv.data)?;
        let outputs = channels(f.body.result(op, 0))?;
        let kernels = extents(conv.weight)?;
        let groups = conv.groups;
        // The block that the data is in already serves as well as another.
        let own = data.filter(|change| change.from.names() == "NCHW").map(|x| x.to.block('C'));
        let own = |channels: i64| own.filter(|block| *block > 1 && channels % block == 0);
        let (input, output, kernel) = if groups > 1 && groups == inputs && groups == outputs {
            let block = own(inputs).or_else(|| self.block(inputs))?;
            (kernels == (outputs, 1)).then_some((block, block, format!("1i{block}o")))?
        } else {
            if kernels.0 != outputs {
                return None;
            }
            let all = Some(inputs).filter(|inputs| groups == 1 && *inputs <= self.width);
            let inputs = inputs / groups;
            let input = own(inputs).or_else(|| self.block(inputs)).or(all)?;
            let output = self.block(outputs / groups)?;
            (input, output, format!("{input}i{output}o"))
        };
        let (nchw, oihw) = (Layout::plain("NCHW"), Layout::plain("OIHW"));
        let kernel = Layout::parse(&format!("OIHW{kernel}")).ok()?;
        let (from, to) = (nchw.with_block('C', input), nchw.with_block('C', output));
        let (name, mut attrs) = (f.body.op_name(op), f.body.attrs(op));
        let out = if from == to { String::new() } else { to.to_string() };
        let layouts = [
            ("data_layout", from.to_string()),
            ("kernel_layout", kernel.to_string()),
            ("out_layout", out),
        ];
        for (key, layout) in layouts {
            attrs = with_attribute(f.registry, name, attrs, key, &layout);
        }
        let data = Change { from: nchw.clone(), to: from };
        let weight = Change { from: oihw, to: kernel };
        Some(Plan {
            name,
            attrs,
            inputs: vec![(conv.data, Need::As(data)), (conv.weight, Need::As(weight))],
            joined: false,
            result: Change { from: nchw, to },
        })
    }

    /// The packed form of a dense layer, its weight not yet packed.
    fn dense(&self, f: &FuncMut<'_>, op: OpId) -> Option<ContribDensePack> {
        let dense: Dense = f.view(op)?;
        f.registry.constant(f.body, dense.weight)?;
        let units = f.body.ty(dense.weight).as_tensor()?.shape.first()?.known()?;
        let block = self.block(units)?;
        // With few rows, reading the weight takes all the time: it is then read in one stream, for
        // as many vectors as are computed at once. Many rows share what they read.
        let outer = f.body.ty(dense.data).as_tensor()?.shape.split_last()?.1;
        let rows = outer.iter().try_fold(1i64, |rows, dim| rows.checked_mul(dim.known()?));
        let most = if rows? <= FEW_ROWS { VECTORS } else { 1 };
        let vectors = (1..=most).rev().find(|vectors| units % (block * vectors) == 0)?;
        let layout = Layout::plain("NC").with_block('N', block * vectors);
        Some(ContribDensePack {
            data: dense.data,
            weight: dense.weight,
            units: dense.units,
            out_dtype: dense.out_dtype,
            weight_layout: layout.to_string(),
        })
    }
}
