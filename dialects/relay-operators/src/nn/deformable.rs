//! Convolution whose places are computed: `nn.deformable_conv2d`.

use ir_core::{Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use crate::FusionPattern::Opaque;
use crate::elements;
use crate::relation;

/// A convolution that adds an offset to the place of every tap, and weighs it (Zhu et al., arXiv
/// 1811.11168).
///
/// Between pixels, linear interpolation; pixels outside of the image are 0. Sums are computed in
/// `float64`. Relay operator level 5.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.nn.deformable_conv2d",
    infer = infer_deformable,
    hooks(Opaque, Evaluate(|cx| evaluate_deformable(&cx.fields()?, cx)))
)]
pub struct DeformableConv2d<V = ValueId> {
    /// Images, floats of shape (N, C, H, W).
    pub data: V,
    /// Offsets along rows and columns, shape (N, deformable_groups · KH · KW · 2, OH, OW).
    pub offset: V,
    /// Shape (O, C / groups, KH, KW).
    pub weight: V,
    /// What taps are multiplied with, shape (N, deformable_groups · KH · KW, OH, OW).
    pub mask: V,
    /// Steps along rows and columns.
    #[default(vec![1, 1])]
    pub strides: Vec<i64>,
    /// Zeros at the top, left, bottom and right.
    #[default(vec![0, 0, 0, 0])]
    pub padding: Vec<i64>,
    /// Steps between taps.
    #[default(vec![1, 1])]
    pub dilation: Vec<i64>,
    /// Groups of channels with offsets of their own.
    #[default(1)]
    pub deformable_groups: i64,
    /// Groups of channels that are convolved apart.
    #[default(1)]
    pub groups: i64,
}

/// What the attributes say, by axis.
struct Window {
    strides: [i64; 2],
    padding: [i64; 4],
    dilation: [i64; 2],
}

impl<V> DeformableConv2d<V> {
    fn window(&self) -> Result<Window, String> {
        let found = (&self.strides[..], &self.padding[..], &self.dilation[..]);
        let (&[s0, s1], &[p0, p1, p2, p3], &[d0, d1]) = found else {
            return Err(format!("expected 2 strides, 4 pads and 2 dilations, found {found:?}"));
        };
        let within = |values: &[i64], least: i64| {
            values.iter().all(|value| (least..=i64::from(i32::MAX)).contains(value))
        };
        if !within(&[s0, s1, d0, d1, self.deformable_groups, self.groups], 1)
            || !within(&[p0, p1, p2, p3], 0)
        {
            return Err(
                "expected strides, dilations and groups of at least 1, and pads of at least 0"
                    .to_string(),
            );
        }
        Ok(Window { strides: [s0, s1], padding: [p0, p1, p2, p3], dilation: [d0, d1] })
    }
}

fn infer_deformable(op: DeformableConv2d<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let window = op.window()?;
    let (data, offset, weight, mask) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?, cx.tensor(3)?);
    for tensor in [data, offset, weight, mask] {
        relation::expect_floats(tensor)?;
        relation::expect_rank(tensor, 4)?;
        relation::same_dtype(data, tensor)?;
    }
    let known = |dim: Dim, what: &str| {
        dim.known().ok_or_else(|| Stop::Error(format!("expected a known {what}, found {dim}")))
    };
    let (channels, kernel) = (
        known(data.shape[1], "number of channels")?,
        [known(weight.shape[2], "kernel")?, known(weight.shape[3], "kernel")?],
    );
    if channels % op.groups != 0 || channels % op.deformable_groups != 0 {
        let found = (op.groups, op.deformable_groups);
        return Err(Stop::Error(format!(
            "expected groups that divide {channels}, found {found:?}"
        )));
    }
    if weight.shape[0].known().is_some_and(|outputs| outputs % op.groups != 0) {
        let (outputs, groups) = (weight.shape[0], op.groups);
        return Err(Stop::Error(format!("expected groups that divide {outputs}, found {groups}")));
    }
    relation::equal_dim(cx, weight.shape[1], Dim::Known(channels / op.groups))?;
    let taps = kernel[0].saturating_mul(kernel[1]).saturating_mul(op.deformable_groups);
    relation::equal_dim(cx, offset.shape[1], Dim::Known(taps.saturating_mul(2)))?;
    relation::equal_dim(cx, mask.shape[1], Dim::Known(taps))?;
    let mut batch = data.shape[0];
    let mut extents = [0, 1].map(|axis| match data.shape[2 + axis].known() {
        None => Dim::Any,
        Some(extent) => {
            let reach = (kernel[axis] - 1).saturating_mul(window.dilation[axis]).saturating_add(1);
            let padded = extent.saturating_add(window.padding[axis] + window.padding[axis + 2]);
            let places = padded.saturating_sub(reach).div_euclid(window.strides[axis]);
            Dim::Known(places.saturating_add(1).max(0))
        }
    });
    for tensor in [offset, mask] {
        batch = relation::equal_dim(cx, batch, tensor.shape[0])?;
        for (extent, found) in extents.iter_mut().zip(&tensor.shape[2..]) {
            *extent = relation::equal_dim(cx, *extent, *found)?;
        }
    }
    Ok(Type::tensor([batch, weight.shape[0], extents[0], extents[1]], data.dtype))
}

/// The value of `plane`, of `[height, width]`, at a place between its pixels.
fn interpolated(plane: &[f64], [height, width]: [i64; 2], y: f64, x: f64) -> f64 {
    let (top, left) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (row, by_row) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, by_column) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside =
                (0.0..height as f64).contains(&row) && (0.0..width as f64).contains(&column);
            if inside {
                sum += plane[(row as i64 * width + column as i64) as usize] * by_row * by_column;
            }
        }
    }
    sum
}

fn evaluate_deformable(op: &DeformableConv2d<Value>, cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let shape = elements::result_shape(cx, infer_deformable)?;
    let window = op.window()?;
    let (data, weight) = (cx.tensor(0)?, cx.tensor(2)?);
    let (image, channels) = ([data.shape()[2], data.shape()[3]], data.shape()[1] as usize);
    let (rows, columns) = (weight.shape()[2] as usize, weight.shape()[3] as usize);
    let (per_group, taps) = (weight.shape()[1] as usize, rows * columns);
    let (outputs, pixels) = (shape[1] as usize, (shape[2] * shape[3]) as usize);
    let plane = (image[0] * image[1]) as usize;
    let values = [0, 1, 2, 3].map(|index| cx.tensor(index).map(TensorData::to_f64));
    let [source, offset, weights, mask] = values;
    let (source, offset, weights, mask) = (source?, offset?, weights?, mask?);
    let (groups, apart) = (op.groups as usize, op.deformable_groups as usize);
    let mut out = vec![0.0; elements::count(&shape)?];
    // The taps of a pixel of the result, of all channels.
    let mut column = vec![0.0; channels * taps];
    for batch in 0..shape[0] as usize {
        for pixel in 0..pixels {
            let place = [pixel as i64 / shape[3], pixel as i64 % shape[3]];
            for (at, value) in column.iter_mut().enumerate() {
                let (channel, tap) = (at / taps, at % taps);
                let group = channel / (channels / apart);
                let number = (batch * apart + group) * taps + tap;
                let step = [(tap / columns) as i64, (tap % columns) as i64];
                let [y, x] = [0, 1].map(|axis| {
                    let start = place[axis] * window.strides[axis] - window.padding[axis];
                    let moved = offset[(number * 2 + axis) * pixels + pixel];
                    (start + step[axis] * window.dilation[axis]) as f64 + moved
                });
                let plane = &source[(batch * channels + channel) * plane..][..plane];
                *value = interpolated(plane, image, y, x) * mask[number * pixels + pixel];
            }
            for output in 0..outputs {
                let first = output / (outputs / groups) * per_group * taps;
                let weights = &weights[output * per_group * taps..][..per_group * taps];
                let products = weights.iter().zip(&column[first..]).map(|(a, b)| a * b);
                out[(batch * outputs + output) * pixels + pixel] = products.sum();
            }
        }
    }
    Ok(TensorData::from_f64(data.dtype(), &shape, &out)?.into())
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<DeformableConv2d>();
}
