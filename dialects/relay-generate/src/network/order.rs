//! Operators whose elements are placed by what others hold, and transforms of signals.

use ir_core::{AttrDict, DType, ValueId};

use super::Network;

impl Network<'_> {
    /// Sorts, searches and scatters.
    pub(super) fn order(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        match self.random.below(7) {
            0..=2 => {
                let data = self.exact(1..=3);
                let axis = self.axis(self.shape(data).len());
                let attrs = none.with("axis", &axis).with("is_ascend", &self.random.one_in(2));
                match self.random.below(4) {
                    0 => self.apply("sort", &[data], attrs),
                    1 => self.apply("argsort", &[data], attrs),
                    _ => {
                        let result = self.pick(&["values", "indices"]).to_string();
                        let attrs = attrs.with("k", &self.one_of(&[0, 1, 2, 5]));
                        self.apply("topk", &[data], attrs.with("ret_type", &result))
                    }
                }
            }
            3 => {
                let row = self.exact(1..=1);
                let row = self.apply("sort", &[row], none)?;
                let rank = self.random.below(3);
                let shape = self.some_shape(rank);
                let values = self.input(self.dtype(row), &shape);
                let attrs = none.with("right", &self.random.one_in(2));
                self.apply("searchsorted", &[row, values], attrs)
            }
            4 | 5 => {
                let rank = 1 + self.random.below(2);
                let (dtype, shape) = (self.number(), self.some_shape(rank));
                let data = self.tensor(dtype, &shape);
                let axis = self.axis(rank);
                let at = axis.rem_euclid(rank as i64) as usize;
                let mut fewer: Vec<i64> =
                    shape.iter().map(|extent| 1 + extent / self.one_of(&[1, 2])).collect();
                fewer.iter_mut().zip(&shape).for_each(|(few, all)| *few = (*few).min(*all));
                fewer[at] = self.one_of(&[1, 3, 8]);
                let places = self.places(&fewer, shape[at])?;
                let updates = self.tensor(dtype, &fewer);
                let attrs = none.with("axis", &axis).with("reduction", &self.reduction_mode());
                self.apply("scatter_elements", &[data, places, updates], attrs)
            }
            _ => {
                let rank = 1 + self.random.below(3);
                let (dtype, shape) = (self.number(), self.some_shape(rank));
                let data = self.tensor(dtype, &shape);
                let depth = 1 + self.random.below(rank);
                let bound = shape[..depth].iter().copied().min()?;
                let places = self.places(&[depth as i64, 4], bound)?;
                let slices: Vec<i64> = [4].into_iter().chain(shape[depth..].to_vec()).collect();
                let updates = self.tensor(dtype, &slices);
                let attrs = none.with("mode", &self.reduction_mode());
                self.apply("scatter_nd", &[data, places, updates], attrs)
            }
        }
    }

    fn reduction_mode(&mut self) -> String {
        self.pick(&["update", "add", "mul", "mean", "min", "max"]).to_string()
    }

    /// Fourier transforms, queues, and relatives of convolution.
    pub(super) fn signal(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        match self.random.below(5) {
            0 => {
                let re = self.floats(1..=3);
                let im = self.tensor(self.dtype(re), &self.shape(re));
                let attrs = none.with("inverse", &self.random.one_in(2));
                let parts = self.apply("dft", &[re, im], attrs)?;
                let part = self.random.below(2);
                self.field(parts, part)
            }
            1 => {
                let length = self.one_of(&[16, 17, 33]);
                let data = match self.random.one_in(2) {
                    true => self.tensor(DType::FLOAT32, &[length]),
                    false => self.tensor(DType::FLOAT32, &[3, length]),
                };
                let piece = self.one_of(&[5, 8]);
                let window = self.tensor(DType::FLOAT32, &[piece]);
                let attrs = none.with("n_fft", &8i64).with("win_length", &piece);
                let attrs = attrs.with("hop_length", &self.one_of(&[1, 2, 3]));
                let attrs = attrs.with("normalized", &self.random.one_in(2));
                let attrs = attrs.with("onesided", &self.random.one_in(2));
                self.apply("stft", &[data, window], attrs)
            }
            2 => {
                let rank = 1 + self.random.below(3);
                let (dtype, shape) = (self.number(), self.some_shape(rank));
                let buffer = self.tensor(dtype, &shape);
                let axis = self.axis(rank);
                let mut new = shape.clone();
                let at = axis.rem_euclid(rank as i64) as usize;
                new[at] = 1 + self.random.below(shape[at] as usize) as i64;
                let data = self.tensor(dtype, &new);
                self.apply("nn.fifo_buffer", &[data, buffer], none.with("axis", &axis))
            }
            3 => {
                let shape = [self.one_of(&[1, 2]), self.one_of(&[1, 3]), 7, self.one_of(&[6, 9])];
                let dtype = self.number();
                let (first, second) = (self.tensor(dtype, &shape), self.tensor(dtype, &shape));
                let attrs = none.with("kernel_size", &self.one_of(&[1, 3]));
                let attrs = attrs.with("max_displacement", &self.one_of(&[1, 2]));
                let attrs = attrs.with("stride1", &self.one_of(&[1, 2]));
                let attrs = attrs.with("stride2", &self.one_of(&[1, 2]));
                let attrs = attrs.with("padding", &vec![self.one_of(&[0, 1]), 1]);
                let attrs = attrs.with("is_multiply", &self.random.one_in(2));
                self.apply("nn.correlation", &[first, second], attrs)
            }
            _ => {
                let shape = [self.one_of(&[1, 2]), self.one_of(&[1, 3]), 7, self.one_of(&[6, 9])];
                let data = self.tensor(DType::FLOAT32, &shape);
                let columns = self.one_of(&[1, 2]);
                let weight = self.tensor(DType::FLOAT32, &[shape[1], 3, columns]);
                let attrs = none.with("padding", &vec![self.one_of(&[0, 1]), 1]);
                let attrs = attrs.with("strides", &vec![self.one_of(&[1, 2]), 1]);
                let attrs = attrs.with("dilations", &vec![1, self.one_of(&[1, 2])]);
                self.apply("image.dilation2d", &[data, weight], attrs)
            }
        }
    }
}
