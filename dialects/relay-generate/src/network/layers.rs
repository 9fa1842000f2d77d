//! Layers of networks: products, convolutions, windows, normalizations.

use ir_core::{AttrDict, DType, TensorData, ValueId};

use super::{MOST_ELEMENTS, MOST_PRODUCTS, Network};

/// A spatial axis of a convolution or a pool.
#[derive(Clone, Copy)]
struct Window {
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
}

impl Network<'_> {
    pub(super) fn normalization(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        let choice = self.random.below(10);
        let data = match choice {
            0..=3 => self.floats(1..=4),
            4 => self.floats(2..=2),
            _ => self.floats(2..=5),
        };
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let rank = shape.len();
        let axis = match self.random.one_in(2) {
            true => -1,
            false => self.axis(rank),
        };
        let at = axis.rem_euclid(rank as i64) as usize;
        match choice {
            0..=3 => {
                const NAMES: [&str; 4] =
                    ["nn.softmax", "nn.softmax", "nn.fast_softmax", "nn.log_softmax"];
                let name = NAMES[self.random.below(4)];
                self.apply(name, &[data], none.with("axis", &axis))
            }
            4 => self.loss(data),
            5 => {
                let (gamma, beta) =
                    (self.tensor(dtype, &[shape[at]]), self.tensor(dtype, &[shape[at]]));
                let attrs = self.parameters().with("axis", &axis).with("epsilon", &1e-2);
                self.apply("nn.layer_norm", &[data, gamma, beta], attrs)
            }
            6 => {
                let channels = [shape[at]];
                let (gamma, beta) = (self.tensor(dtype, &channels), self.tensor(dtype, &channels));
                if dtype.is_float() && self.random.one_in(4) {
                    let attrs = self.parameters().with("axis", &axis).with("epsilon", &1e-2);
                    let result = self.apply("nn.batch_norm_train", &[data, gamma, beta], attrs)?;
                    let index = self.random.below(3);
                    return self.field(result, index);
                }
                let mean = self.tensor(dtype, &channels);
                let variance = vec![0.75; shape[at] as usize];
                let variance = TensorData::from_f64(dtype, &channels, &variance).ok()?;
                let variance = self.builder.constant(variance);
                let attrs = self.parameters().with("axis", &axis);
                let operands = [data, gamma, beta, mean, variance];
                let result = self.apply("nn.batch_norm", &operands, attrs)?;
                let index = if self.random.one_in(8) { 1 + self.random.below(2) } else { 0 };
                self.field(result, index)
            }
            7 => {
                let at = 1 + self.random.below(rank - 1);
                let (gamma, beta) =
                    (self.tensor(dtype, &[shape[at]]), self.tensor(dtype, &[shape[at]]));
                let attrs = self.parameters().with("axis", &(at as i64)).with("epsilon", &1e-2);
                match self.random.one_in(2) {
                    true => self.apply("nn.instance_norm", &[data, gamma, beta], attrs),
                    false => {
                        let groups: Vec<i64> =
                            (1..=shape[at]).filter(|g| shape[at] % g == 0).collect();
                        let groups = self.one_of(&groups);
                        let attrs = attrs.with("num_groups", &groups);
                        self.apply("nn.group_norm", &[data, gamma, beta], attrs)
                    }
                }
            }
            8 => match self.random.one_in(2) {
                true => {
                    let attrs = none.with("eps", &0.125).with("axis", &vec![at as i64]);
                    self.apply("nn.l2_normalize", &[data], attrs)
                }
                false => {
                    let attrs = none.with("axis", &(at as i64)).with("size", &3i64);
                    self.apply("nn.lrn", &[data], attrs.with("alpha", &0.5))
                }
            },
            _ => {
                let bias = self.tensor(dtype, &[shape[at]]);
                let name = if self.random.one_in(4) { "nn.prelu" } else { "nn.bias_add" };
                self.apply(name, &[data, bias], none.with("axis", &axis))
            }
        }
    }

    /// Which parameters a normalization uses: both, most often.
    fn parameters(&mut self) -> AttrDict {
        let (center, scale) = (!self.random.one_in(4), !self.random.one_in(4));
        AttrDict::empty().with("center", &center).with("scale", &scale)
    }

    /// A loss of the predictions `data`, (n, c).
    fn loss(&mut self, data: ValueId) -> Option<ValueId> {
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let none = AttrDict::empty();
        match self.random.below(3) {
            0 => {
                let positive = self.clipped(data, 0.25, 2.0)?;
                let targets = self.tensor(dtype, &shape);
                self.plain("nn.cross_entropy", &[positive, targets])
            }
            1 => {
                let targets = self.tensor(dtype, &shape);
                self.plain("nn.cross_entropy_with_logits", &[data, targets])
            }
            _ => {
                let targets = self.places(&[shape[0]], shape[1])?;
                let weights = self.tensor(dtype, &[shape[1]]);
                let positive = self.clipped(weights, 0.5, 1.0)?;
                let reduction = ["mean", "sum", "none"][self.random.below(3)].to_string();
                let attrs = none.with("reduction", &reduction);
                self.apply("nn.nll_loss", &[data, targets, positive], attrs)
            }
        }
    }

    pub(super) fn product(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        let integers = self.random.one_in(6);
        let data = match integers {
            true => {
                let rank = 2 + self.random.below(2);
                let shape = self.some_shape(rank);
                self.tensor(DType::INT8, &shape)
            }
            false => self.floats(2..=3),
        };
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let none = match integers {
            true => none.with("out_dtype", &DType::INT32),
            false => none,
        };
        let columns = self.extent();
        if shape.iter().product::<i64>() * columns > MOST_PRODUCTS {
            return None;
        }
        match (shape.as_slice(), self.random.below(5)) {
            (&[rows, inner], 0) => {
                let (transpose_a, transpose_b) = (self.random.one_in(2), self.random.one_in(2));
                let inner = if transpose_a { rows } else { inner };
                let other = if transpose_b { [columns, inner] } else { [inner, columns] };
                let other = self.tensor(dtype, &other);
                let attrs =
                    none.with("transpose_a", &transpose_a).with("transpose_b", &transpose_b);
                self.apply("nn.matmul", &[data, other], attrs)
            }
            (&[_, inner], 1) => {
                let units = 8 * self.one_of(&[1, 2, 3]);
                let weight = self.tensor(dtype, &[units / 8, inner, 8]);
                let attrs = none.with("weight_layout", &"NC8n".to_string()).with("units", &units);
                self.apply("nn.contrib_dense_pack", &[data, weight], attrs)
            }
            (&[rows, inner], 2) if !integers => {
                let (equation, other): (&str, Vec<i64>) = match self.random.below(4) {
                    0 => ("ij,jk->ik", vec![inner, columns]),
                    1 => ("ij,kj->ki", vec![columns, inner]),
                    2 => ("ij,ij->i", vec![rows, inner]),
                    _ => ("ij,i->j", vec![rows]),
                };
                let other = self.tensor(dtype, &other);
                let tuple = self.tuple(vec![data, other]);
                let attrs = AttrDict::empty().with("equation", &equation.to_string());
                self.apply("einsum", &[tuple], attrs)
            }
            (&[batch, rows, inner], 0..=2) => {
                let (transpose_a, transpose_b) = (self.random.one_in(3), self.random.one_in(2));
                let inner = if transpose_a { rows } else { inner };
                let batch = if self.random.one_in(4) { 1 } else { batch };
                let other =
                    if transpose_b { [batch, columns, inner] } else { [batch, inner, columns] };
                let other = self.tensor(dtype, &other);
                let attrs =
                    none.with("transpose_a", &transpose_a).with("transpose_b", &transpose_b);
                self.apply("nn.batch_matmul", &[data, other], attrs)
            }
            (&[.., inner], _) => {
                let weight = self.tensor(dtype, &[columns, inner]);
                let value = self.apply("nn.dense", &[data, weight], none)?;
                self.finished(value)
            }
            _ => None,
        }
    }

    /// What usually follows a layer, half of the time: a bias and an activation.
    fn finished(&mut self, value: ValueId) -> Option<ValueId> {
        if !self.is_float(value) || self.random.one_in(2) {
            return Some(value);
        }
        let (dtype, shape) = (self.dtype(value), self.shape(value));
        let channels = *shape.get(1)?;
        let bias = self.tensor(dtype, &[channels]);
        let biased = self.plain("nn.bias_add", &[value, bias])?;
        let activated = match self.random.below(3) {
            0 => biased,
            1 => self.plain("nn.relu", &[biased])?,
            _ => self.plain("sigmoid", &[biased])?,
        };
        match self.random.one_in(3) {
            true => {
                let other = self.tensor(dtype, &shape);
                self.plain("add", &[activated, other])
            }
            false => Some(activated),
        }
    }

    fn windows(&mut self, spatial: &[i64]) -> Vec<Window> {
        let mut windows = Vec::new();
        for &extent in spatial {
            let (before, after) = (self.one_of(&[0, 0, 1, 1, 2]), self.one_of(&[0, 0, 1, 1, 2]));
            let dilation = self.one_of(&[1, 1, 1, 2]);
            let mut kernel = self.one_of(&[1, 1, 2, 3, 3, 3, 5]);
            while (kernel - 1) * dilation + 1 > extent + before + after {
                kernel -= 1;
            }
            // Padding is less than a window, as pools want it.
            let (before, after) = (before.min(kernel - 1), after.min(kernel - 1));
            while (kernel - 1) * dilation + 1 > extent + before + after {
                kernel -= 1;
            }
            let stride = self.one_of(&[1, 1, 2, 2, 3]);
            windows.push(Window { kernel: kernel.max(1), stride, dilation, before, after });
        }
        windows
    }

    /// Strides, dilation and padding of `windows`.
    fn window_attrs(attrs: AttrDict, windows: &[Window]) -> AttrDict {
        let list = |of: fn(&Window) -> i64| windows.iter().map(of).collect::<Vec<i64>>();
        let mut padding = list(|window| window.before);
        padding.extend(list(|window| window.after));
        let attrs = attrs.with("strides", &list(|window| window.stride));
        attrs.with("dilation", &list(|window| window.dilation)).with("padding", &padding)
    }

    /// An image, a volume or a signal, channels after the batch.
    pub(super) fn image(&mut self, axes: usize) -> ValueId {
        let rank = axes + 2;
        let fits = |this: &Self, value| this.is_float(value) && this.shape(value).len() == rank;
        match self.existing(fits) {
            Some(value) if !self.random.one_in(4) => value,
            _ => {
                let mut shape =
                    vec![self.one_of(&[1, 1, 2]), self.one_of(&[1, 2, 3, 4, 8, 16, 17, 32])];
                for _ in 0..axes {
                    let most =
                        if axes == 3 { &[1, 2, 3, 5][..] } else { &[1, 3, 5, 7, 8, 15, 16, 17] };
                    shape.push(self.one_of(most));
                }
                let dtype = self.float_type();
                self.input(dtype, &shape)
            }
        }
    }

    /// A convolution whose channels are in blocks.
    fn blocked_convolution(&mut self) -> Option<ValueId> {
        let (input, output) = (self.one_of(&[4, 8]), self.one_of(&[4, 8]));
        let (blocks, out_blocks) = (self.one_of(&[1, 2, 3]), self.one_of(&[1, 2]));
        let (height, width) = (self.one_of(&[3, 7, 8]), self.one_of(&[3, 5, 17]));
        let dtype = self.float_type();
        let attrs = AttrDict::empty().with("padding", &vec![1i64, 0, 1, 1]);
        let attrs = attrs.with("kernel_size", &vec![3i64, 3]);
        let attrs = attrs.with("data_layout", &format!("NCHW{input}c"));
        let data = self.tensor(dtype, &[1, blocks, height, width, input]);
        if self.random.one_in(2) {
            let weight = self.tensor(dtype, &[blocks, 1, 3, 3, 1, input]);
            let attrs = attrs.with("channels", &(blocks * input)).with("groups", &(blocks * input));
            let attrs = attrs.with("kernel_layout", &format!("OIHW1i{input}o"));
            let attrs = attrs.with("out_layout", &format!("NCHW{input}c"));
            return self.apply("nn.contrib_depthwise_conv2d_NCHWc", &[data, weight], attrs);
        }
        let weight = self.tensor(dtype, &[out_blocks, blocks, 3, 3, input, output]);
        let attrs = attrs.with("channels", &(out_blocks * output));
        let attrs = attrs.with("kernel_layout", &format!("OIHW{input}i{output}o"));
        let attrs = attrs.with("out_layout", &format!("NCHW{output}c"));
        self.apply("nn.contrib_conv2d_NCHWc", &[data, weight], attrs)
    }

    /// A convolution by tiles of the result, whose channels may be in blocks.
    fn convolution_by_tiles(&mut self) -> Option<ValueId> {
        let (input, output) = (self.one_of(&[1, 4, 8]), self.one_of(&[1, 4, 8]));
        let (blocks, out_blocks) = (self.one_of(&[1, 2, 3]), self.one_of(&[1, 2]));
        let (height, width) = (self.one_of(&[3, 7, 8]), self.one_of(&[3, 5, 17]));
        let (kernel, tile) = (self.one_of(&[2, 3]), self.one_of(&[1, 2, 3, 4]));
        let dtype = self.float_type();
        let weight = [out_blocks * output, blocks * input, kernel, kernel];
        let weight = self.tensor(dtype, &weight);
        let attrs = AttrDict::empty().with("tile_size", &tile);
        let weight = self.apply("nn.contrib_conv2d_winograd_weight_transform", &[weight], attrs)?;
        let attrs = attrs.with("padding", &vec![1i64, 0, 1, 1]);
        if input * output == 1 {
            let images = self.one_of(&[0, 1, 2]);
            let data = self.tensor(dtype, &[images, blocks, height, width]);
            let name = "nn.contrib_conv2d_winograd_without_weight_transform";
            return self.apply(name, &[data, weight], attrs);
        }
        let data = self.tensor(dtype, &[1, blocks, height, width, input]);
        let layout = AttrDict::empty().with("src_layout", &"HWOI".to_string());
        let to = format!("HWOI{output}o");
        let weight = self.apply("layout_transform", &[weight], layout.with("dst_layout", &to))?;
        let attrs = attrs.with("data_layout", &format!("NCHW{input}c"));
        let attrs = attrs.with("kernel_layout", &to);
        let attrs = attrs.with("out_layout", &format!("NCHW{output}c"));
        self.apply("nn.contrib_conv2d_winograd_without_weight_transform", &[data, weight], attrs)
    }

    pub(super) fn convolution(&mut self) -> Option<ValueId> {
        if self.random.one_in(10) {
            return match self.random.one_in(2) {
                true => self.blocked_convolution(),
                false => self.convolution_by_tiles(),
            };
        }
        let axes = [1, 2, 2, 2, 2, 2, 3][self.random.below(7)];
        let data = self.image(axes);
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let transposed = self.random.one_in(6);
        let last = axes == 2 && !transposed && self.random.one_in(4);
        let (channels, spatial) = match last {
            true => (shape[3], shape[1..3].to_vec()),
            false => (shape[1], shape[2..].to_vec()),
        };
        let windows = self.windows(&spatial);
        let divisors: Vec<i64> = (1..=channels).filter(|n| channels % n == 0).collect();
        let groups = match self.random.below(4) {
            0 => channels,
            1 => self.one_of(&divisors),
            _ => 1,
        };
        let each = match groups == channels {
            true => self.one_of(&[1, 1, 2]),
            false => self.one_of(&[1, 2, 3, 7, 8, 16]),
        };
        let kernel: Vec<i64> = windows.iter().map(|window| window.kernel).collect();
        let products = shape.iter().product::<i64>() * each * kernel.iter().product::<i64>() * 4;
        if products > 4 * MOST_PRODUCTS {
            return None;
        }
        let attrs = Self::window_attrs(AttrDict::empty(), &windows);
        let attrs = attrs.with("groups", &groups).with("kernel_size", &kernel);
        let attrs = attrs.with("channels", &(groups * each));
        let name = format!("nn.conv{axes}d");
        if transposed {
            let mut weight = vec![channels, each];
            weight.extend(&kernel);
            let weight = self.tensor(dtype, &weight);
            let strides: Vec<i64> = windows.iter().map(|window| window.stride).collect();
            let more: Vec<i64> =
                strides.iter().map(|stride| self.random.below(*stride as usize) as i64).collect();
            let layout = ["IOW", "IOHW", "IODHW"][axes - 1].to_string();
            let attrs = attrs.with("output_padding", &more).with("kernel_layout", &layout);
            let value = self.apply(&format!("{name}_transpose"), &[data, weight], attrs)?;
            return self.finished(value);
        }
        let mut weight = vec![groups * each, channels / groups];
        weight.extend(&kernel);
        let attrs = match last {
            true => {
                weight = vec![kernel[0], kernel[1], channels / groups, groups * each];
                let attrs = attrs.with("data_layout", &"NHWC".to_string());
                attrs.with("kernel_layout", &"HWIO".to_string())
            }
            false => attrs,
        };
        let weight = self.tensor(dtype, &weight);
        let value = self.apply(&name, &[data, weight], attrs)?;
        if axes == 2 && !last && groups == 1 && self.random.one_in(8) {
            return self.weight_gradient(data, value, &windows, &kernel);
        }
        if last { Some(value) } else { self.finished(value) }
    }

    /// The gradient of the weight of a convolution of `data` that gave `value`.
    fn weight_gradient(
        &mut self,
        data: ValueId,
        value: ValueId,
        windows: &[Window],
        kernel: &[i64],
    ) -> Option<ValueId> {
        let grad = self.tensor(self.dtype(value), &self.shape(value));
        let attrs = Self::window_attrs(AttrDict::empty(), windows);
        let attrs = attrs.with("kernel_size", &kernel.to_vec());
        let attrs = attrs.with("kernel_layout", &"NCHW".to_string());
        let attrs = attrs.with("channels", &self.shape(value)[1]);
        self.apply("nn.conv2d_backward_weight", &[grad, data], attrs)
    }

    pub(super) fn pool(&mut self) -> Option<ValueId> {
        let axes = [1, 2, 2, 2, 3][self.random.below(5)];
        let data = self.image(axes);
        let spatial = self.shape(data)[2..].to_vec();
        let none = AttrDict::empty();
        let kind = ["max", "avg"][self.random.below(2)];
        match self.random.below(5) {
            0 if axes == 2 => self.plain(&format!("nn.global_{kind}_pool2d"), &[data]),
            1 => {
                let size: Vec<i64> = spatial
                    .iter()
                    .map(|extent| 1 + self.random.below(*extent as usize) as i64)
                    .collect();
                let attrs = none.with("output_size", &size);
                self.apply(&format!("nn.adaptive_{kind}_pool{axes}d"), &[data], attrs)
            }
            choice => {
                let windows = self.windows(&spatial);
                let kernel: Vec<i64> = windows.iter().map(|window| window.kernel).collect();
                let attrs = Self::window_attrs(none, &windows);
                let attrs = attrs.with("pool_size", &kernel);
                let attrs = attrs.with("ceil_mode", &self.random.one_in(4));
                let attrs = match kind {
                    "avg" => attrs.with("count_include_pad", &self.random.one_in(2)),
                    _ => attrs,
                };
                let value = self.apply(&format!("nn.{kind}_pool{axes}d"), &[data], attrs)?;
                // The gradient of the largest jumps between elements.
                let smooth = kind == "avg" || !self.is_rounded(data);
                if axes != 2 || choice != 2 || !smooth {
                    return Some(value);
                }
                let grad = self.tensor(self.dtype(value), &self.shape(value));
                self.apply(&format!("nn.{kind}_pool2d_grad"), &[grad, data], attrs)
            }
        }
    }

    /// Margins, blocks, and images of other sizes.
    pub(super) fn resampling(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        match self.random.below(8) {
            0 | 1 => {
                let data = self.any();
                let shape = self.shape(data);
                let width: Vec<Vec<i64>> = shape
                    .iter()
                    .map(|extent| {
                        let most = (*extent - 1).clamp(0, 2) as usize;
                        vec![self.random.below(most + 1) as i64, self.random.below(most + 1) as i64]
                    })
                    .collect();
                let attrs = none.with("pad_width", &width);
                if self.random.one_in(3) {
                    let mode = ["SYMMETRIC", "REFLECT"][self.random.below(2)].to_string();
                    return self.apply("nn.mirror_pad", &[data], attrs.with("mode", &mode));
                }
                let mode = ["constant", "constant", "edge", "reflect"][self.random.below(4)];
                let value = self.constant(self.dtype(data), 2.0);
                self.apply("nn.pad", &[data, value], attrs.with("pad_mode", &mode.to_string()))
            }
            2 => {
                let data = self.any();
                let rank = self.shape(data).len();
                let strides: Vec<i64> = (0..rank).map(|_| self.one_of(&[1, 1, 2, 3])).collect();
                let attrs = none.with("strides", &strides).with("dilation_value", &0.5);
                self.apply("nn.dilate", &[data], attrs)
            }
            3 => {
                let axes = 2 + self.random.below(2);
                let data = self.image(axes);
                let attrs = none.with("scale_h", &2.0).with("scale_w", &1.5);
                match axes {
                    2 => {
                        let method = ["nearest_neighbor", "bilinear"][self.random.below(2)];
                        let attrs = attrs.with("method", &method.to_string());
                        let attrs = attrs.with("align_corners", &self.random.one_in(2));
                        self.apply("nn.upsampling", &[data], attrs)
                    }
                    _ => {
                        let method = ["nearest_neighbor", "trilinear"][self.random.below(2)];
                        let attrs = attrs.with("method", &method.to_string());
                        self.apply("nn.upsampling3d", &[data], attrs.with("scale_d", &2.0))
                    }
                }
            }
            4 => {
                let axes = 1 + self.random.below(3);
                let data = self.image(axes);
                let size: Vec<i64> = (0..axes).map(|_| self.one_of(&[1, 2, 5, 7, 9])).collect();
                let method = ["nearest_neighbor", "linear", "cubic"][self.random.below(3)];
                const MODES: [&str; 4] =
                    ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"];
                let mode = MODES[self.random.below(4)];
                let attrs = none.with("size", &size).with("method", &method.to_string());
                let attrs = attrs.with("coordinate_transformation_mode", &mode.to_string());
                self.apply(&format!("image.resize{axes}d"), &[data], attrs)
            }
            5 => {
                let data = self.image(2);
                let name = ["nn.depth_to_space", "nn.space_to_depth"][self.random.below(2)];
                let attrs = none.with("block_size", &self.one_of(&[1, 2, 2, 3]));
                let mode = ["DCR", "CRD"][self.random.below(2)].to_string();
                self.apply(name, &[data], attrs.with("mode", &mode))
            }
            6 => {
                let data = self.image(2);
                let spatial = self.shape(data);
                let block = [self.one_of(&[1, 2]), self.one_of(&[1, 2, 3])];
                // The axes after the batch, which padding makes multiples of blocks.
                let padding: Vec<Vec<i64>> = (0..2)
                    .map(|axis| {
                        let missing = (block[axis] - spatial[axis + 1] % block[axis]) % block[axis];
                        vec![0, missing]
                    })
                    .collect();
                let attrs = none.with("block_shape", &block.to_vec());
                let attrs = attrs.with("paddings", &padding);
                let blocks = self.apply("nn.space_to_batch_nd", &[data], attrs)?;
                if self.random.one_in(2) {
                    return Some(blocks);
                }
                let attrs = none.with("block_shape", &block.to_vec()).with("crops", &padding);
                self.apply("nn.batch_to_space_nd", &[blocks], attrs)
            }
            _ => {
                let data = self.image(2);
                self.layout(data)
            }
        }
    }

    /// An image in another layout.
    pub(super) fn layout(&mut self, data: ValueId) -> Option<ValueId> {
        let shape = self.shape(data);
        if shape.len() != 4 || shape.iter().product::<i64>() > MOST_ELEMENTS {
            return None;
        }
        let (from, to) =
            [("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "NCHW4c"), ("NCHW", "NCHW16c")]
                [self.random.below(4)];
        let attrs = AttrDict::empty().with("src_layout", &from.to_string());
        let value =
            self.apply("layout_transform", &[data], attrs.with("dst_layout", &to.to_string()))?;
        match to.ends_with('c') && self.random.one_in(2) {
            true => {
                let relu = match self.is_float(value) {
                    true => self.plain("nn.relu", &[value])?,
                    false => value,
                };
                let attrs = AttrDict::empty().with("src_layout", &to.to_string());
                self.apply("layout_transform", &[relu], attrs.with("dst_layout", &from.to_string()))
            }
            false => Some(value),
        }
    }
}
