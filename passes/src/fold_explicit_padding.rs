//! Padding as part of convolutions and pools.

use ir_core::{Diagnostic, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult, ValueId};
use relay::operators::layout::Layout;
use relay::operators::nn::padding::Pad;

use crate::emit::{Emit, attribute, with_attribute};
use crate::worklist::rewrite;

/// Folds `nn.pad` into the convolution or pool that reads it.
///
/// A margin of zeros on the spatial axes adds to the padding of a convolution. It does so for an
/// average pool that counts its padding, or that has none yet, and for a max pool a margin of the
/// least value of the element type does. The padded tensor is never written then.
///
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32]) {
///   %0 = nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]);
///   nn.conv2d(%0, %w, channels=2, kernel_size=[3, 3])
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32])
///     -> Tensor[(1, 2, 8, 8), float32] {
///   nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=2, kernel_size=[3, 3])
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fold-explicit-padding", function)]
pub struct FoldExplicitPadding {}

/// What reads the padded tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Convolution,
    AveragePool,
    MaxPool,
}

const READERS: [(&str, Reader, &str); 9] = [
    ("relay.nn.conv1d", Reader::Convolution, "W"),
    ("relay.nn.conv2d", Reader::Convolution, "HW"),
    ("relay.nn.conv3d", Reader::Convolution, "DHW"),
    ("relay.nn.avg_pool1d", Reader::AveragePool, "W"),
    ("relay.nn.avg_pool2d", Reader::AveragePool, "HW"),
    ("relay.nn.avg_pool3d", Reader::AveragePool, "DHW"),
    ("relay.nn.max_pool1d", Reader::MaxPool, "W"),
    ("relay.nn.max_pool2d", Reader::MaxPool, "HW"),
    ("relay.nn.max_pool3d", Reader::MaxPool, "DHW"),
];

impl FunctionPass for FoldExplicitPadding {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        cx.count("folded", rewrite(f, &mut fold)?);
        Ok(())
    }
}

fn fold(f: &mut FuncMut<'_>, op: OpId) -> Result<Option<ValueId>, Diagnostic> {
    let name = f.body.op_name(op);
    let Some((_, reader, spatial)) = READERS.into_iter().find(|(reader, _, _)| name == *reader)
    else {
        return Ok(None);
    };
    let Some((_, pad)) = f.body.view_def::<Pad>(f.body.operand(op, 0)) else { return Ok(None) };
    let Some(padding) = added(f, op, &pad, reader, spatial) else { return Ok(None) };
    let mut attrs = with_attribute(f.registry, name, f.body.attrs(op), "padding", &padding);
    if reader == Reader::AveragePool {
        // The margin was elements like all others.
        attrs = with_attribute(f.registry, name, attrs, "count_include_pad", &true);
    }
    let mut operands: Vec<ValueId> = f.body.operands(op).collect();
    operands[0] = pad.data;
    Emit::before(f, op, "fold-explicit-padding").named(name, &operands, attrs).map(Some)
}

/// The padding of `op` with that of `pad` added: all numbers before, then all numbers after.
/// `None` where the two do not mean the same.
fn added(f: &FuncMut<'_>, op: OpId, pad: &Pad, reader: Reader, spatial: &str) -> Option<Vec<i64>> {
    let value = f.registry.constant(f.body, pad.pad_value)?;
    let ir_core::AttrData::Tensor(value) = value.data() else { return None };
    let value = value.element(0)?.as_f64();
    let key = if reader == Reader::Convolution { "data_layout" } else { "layout" };
    let layout = Layout::parse(&attribute::<String>(f, op, key)?).ok()?;
    let axes = spatial.len();
    let own = both_sides(&attribute::<Vec<i64>>(f, op, "padding")?, axes)?;
    let dtype = f.body.ty(pad.data).as_tensor()?.dtype;
    let neutral = match reader {
        Reader::Convolution => value == 0.0,
        Reader::AveragePool => {
            let counted = attribute::<bool>(f, op, "count_include_pad")?;
            let ceil = attribute::<bool>(f, op, "ceil_mode")?;
            value == 0.0 && !ceil && (counted || own.iter().all(|width| *width == 0))
        }
        Reader::MaxPool => match dtype.is_float() {
            true => value == f64::NEG_INFINITY || value <= least_float(dtype.bits()),
            false => dtype.is_integer() && value <= least_integer(dtype),
        },
    };
    if !neutral || pad.pad_mode != "constant" || pad.pad_width.len() != layout.rank() {
        return None;
    }
    let mut padding = own;
    for (axis, place) in layout.axes().iter().zip(&pad.pad_width) {
        let [before, after] = place[..] else { return None };
        match spatial.find(axis.name).filter(|_| axis.block.is_none()) {
            Some(_) if before < 0 || after < 0 => return None,
            Some(index) => {
                padding[index] += before;
                padding[axes + index] += after;
            }
            None if before == 0 && after == 0 => {}
            None => return None,
        }
    }
    Some(padding)
}

/// Padding as all numbers before and then all numbers after.
fn both_sides(padding: &[i64], axes: usize) -> Option<Vec<i64>> {
    match padding.len() {
        1 => Some(vec![padding[0]; 2 * axes]),
        n if n == axes => Some(padding.repeat(2)),
        n if n == 2 * axes => Some(padding.to_vec()),
        _ => None,
    }
}

/// The least finite value of a float type of so many bits.
fn least_float(bits: u32) -> f64 {
    match bits {
        16 => -65504.0,
        32 => f64::from(f32::MIN),
        _ => f64::MIN,
    }
}

fn least_integer(dtype: ir_core::DType) -> f64 {
    match dtype.is_signed() {
        true => -(2f64.powi(dtype.bits() as i32 - 1)),
        false => 0.0,
    }
}
