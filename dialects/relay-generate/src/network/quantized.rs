//! Quantized operators, on integers.

use ir_core::{AttrDict, DType, ValueId};

use super::Network;

impl Network<'_> {
    pub(super) fn quantized(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        let dtype = [DType::INT8, DType::UINT8][self.random.below(2)];
        let zero = |this: &mut Self, most: &[i64]| {
            let zero = this.one_of(most) as f64;
            this.constant(DType::INT32, zero)
        };
        let (zeros, scales) = (&[0, 0, 1, 3][..], [0.5, 0.25, 0.125]);
        match self.random.below(12) {
            0 => {
                let shape = self.some_shape(2);
                let data = self.tensor(dtype, &shape);
                let columns = self.extent();
                let weight = self.tensor(DType::INT8, &[columns, shape[1]]);
                let (one, two) = (zero(self, zeros), zero(self, zeros));
                let scale = self.constant(DType::FLOAT32, 0.5);
                let attrs = none.with("out_dtype", &DType::INT32).with("units", &columns);
                if dtype == DType::UINT8 && self.random.one_in(3) {
                    let weight = self.tensor(DType::INT8, &[columns, shape[1], 4]);
                    let axis = none.with("axis", &1i64);
                    let weight = self.apply("nn.contrib_quads", &[weight], axis)?;
                    let attrs = attrs.with("units", &(4 * columns)).with("quads", &true);
                    let attrs = attrs.with("weight_layout", &"NC4n".to_string());
                    return self.apply("nn.contrib_dense_pack", &[data, weight], attrs);
                }
                if self.random.one_in(4) {
                    return self.apply("nn.dense", &[data, weight], attrs);
                }
                if self.random.one_in(3) {
                    let weight = self.tensor(DType::INT8, &[columns, shape[1], 4]);
                    let attrs = attrs.with("units", &(4 * columns));
                    let attrs = attrs.with("weight_layout", &"NC4n".to_string());
                    let operands = [data, weight, one, two, scale, scale];
                    return self.apply("qnn.contrib_dense_pack", &operands, attrs);
                }
                self.apply("qnn.dense", &[data, weight, one, two, scale, scale], attrs)
            }
            1 => {
                let shape = [1, self.one_of(&[1, 3, 4, 8]), 7, self.one_of(&[5, 8])];
                let data = self.tensor(dtype, &shape);
                let channels = self.one_of(&[1, 4, 7, 16]);
                let weight = self.tensor(DType::INT8, &[channels, shape[1], 3, 3]);
                let (one, two) = (zero(self, zeros), zero(self, zeros));
                let scale = self.constant(DType::FLOAT32, 0.5);
                let attrs = none.with("out_dtype", &DType::INT32).with("channels", &channels);
                let attrs = attrs.with("kernel_size", &vec![3i64, 3]);
                let attrs = attrs.with("padding", &vec![1i64, 1, 0, 1]);
                let attrs = attrs.with("strides", &vec![self.one_of(&[1, 2]), 1]);
                if self.random.one_in(3) {
                    let weight = self.tensor(DType::INT8, &[shape[1], channels, 3, 3]);
                    let operands = [data, weight, one, two, scale, scale];
                    return self.apply("qnn.conv2d_transpose", &operands, attrs);
                }
                self.apply("qnn.conv2d", &[data, weight, one, two, scale, scale], attrs)
            }
            2 => {
                let shape = self.some_shape(3);
                let data = self.tensor(dtype, &shape);
                let other = self.tensor(DType::INT8, &[shape[0], shape[2], 3]);
                let (one, two) = (zero(self, zeros), zero(self, zeros));
                let scale = self.constant(DType::FLOAT32, 0.5);
                let attrs = none.with("out_dtype", &DType::INT32);
                self.apply("qnn.batch_matmul", &[data, other, one, two, scale, scale], attrs)
            }
            3 => {
                let rank = self.random.below(4);
                let shape = self.some_shape(rank);
                let data = self.tensor(dtype, &shape);
                let scale = scales[self.random.below(3)];
                let scale = self.constant(DType::FLOAT32, scale);
                let zero = zero(self, zeros);
                let attrs = none.with("out_dtype", &DType::FLOAT32);
                self.apply("qnn.dequantize", &[data, scale, zero], attrs)
            }
            4 => {
                const NAMES: [&str; 9] = [
                    "qnn.abs",
                    "qnn.erf",
                    "qnn.exp",
                    "qnn.hardswish",
                    "qnn.log",
                    "qnn.rsqrt",
                    "qnn.sigmoid",
                    "qnn.sqrt",
                    "qnn.tanh",
                ];
                let name = NAMES[self.random.below(NAMES.len())];
                let rank = self.random.below(4);
                let shape = self.some_shape(rank);
                let mut data = self.tensor(dtype, &shape);
                if ["qnn.log", "qnn.rsqrt", "qnn.sqrt"].contains(&name) {
                    data = self.clipped(data, 1.0, 100.0)?;
                }
                let (scale, output) = (scales[self.random.below(3)], 0.0625);
                let scale = self.constant(DType::FLOAT32, scale);
                let output = self.constant(DType::FLOAT32, output);
                let (one, two) = (zero(self, &[0]), zero(self, zeros));
                self.plain(name, &[data, scale, one, output, two])
            }
            5 => {
                let rank = 1 + self.random.below(3);
                let shape = self.some_shape(rank);
                let data = self.tensor(DType::INT32, &shape);
                let attrs = none.with("multiplier", &((1i64 << 30) + 12_345_678));
                let attrs = attrs.with("shift", &self.one_of(&[-1, 0, 1, 3]));
                self.apply("fixed_point_multiply", &[data], attrs)
            }
            6 => {
                let data = self.exact(0..=3);
                if !self.is_float(data) {
                    return None;
                }
                let scale = scales[self.random.below(3)];
                let scale = self.constant(DType::FLOAT32, scale);
                let zero = zero(self, zeros);
                if self.random.one_in(2) {
                    let simulated = self.one_of(&[0, 1, 2, 3]) as f64;
                    let simulated = self.constant(DType::INT32, simulated);
                    let name = self.pick(&["qnn.simulated_quantize", "qnn.simulated_dequantize"]);
                    return self.plain(name, &[data, simulated, scale, zero]);
                }
                let attrs = none.with("out_dtype", &dtype);
                self.apply("qnn.quantize", &[data, scale, zero], attrs)
            }
            7 => {
                let rank = self.random.below(4);
                let shape = self.some_shape(rank);
                let from = [dtype, DType::INT32][self.random.below(2)];
                let data = self.tensor(from, &shape);
                let mut operands = vec![data];
                for _ in 0..2 {
                    let scale = scales[self.random.below(3)] * 0.7;
                    operands.push(self.constant(DType::FLOAT32, scale));
                    operands.push(zero(self, zeros));
                }
                let rounding = self.pick(&["None", "UPWARD", "TONEAREST"]).to_string();
                let compute = self.pick(&["None", "int64", "float32", "float64"]).to_string();
                let attrs = none.with("out_dtype", &dtype).with("rounding", &rounding);
                self.apply("qnn.requantize", &operands, attrs.with("compute_dtype", &compute))
            }
            8 => {
                let name = self.pick(&["qnn.leaky_relu", "qnn.softmax"]);
                let rank = 1 + self.random.below(3);
                let shape = self.some_shape(rank);
                let data = self.tensor(dtype, &shape);
                let scale = self.constant(DType::FLOAT32, 0.25);
                let output = self.constant(DType::FLOAT32, 0.125);
                let (one, two) = (zero(self, zeros), zero(self, zeros));
                self.plain(name, &[data, scale, one, output, two])
            }
            9 => {
                let shape = [1, self.one_of(&[1, 3, 8]), 7, self.one_of(&[5, 8])];
                let data = self.tensor(dtype, &shape);
                let scale = self.constant(DType::FLOAT32, 0.25);
                let output = self.constant(DType::FLOAT32, 0.5);
                let (one, two) = (zero(self, zeros), zero(self, zeros));
                let attrs = none.with("pool_size", &vec![3i64, 2]);
                let attrs = attrs.with("padding", &vec![1i64, 0]);
                let attrs = attrs.with("count_include_pad", &self.random.one_in(2));
                self.apply("qnn.avg_pool2d", &[data, scale, one, output, two], attrs)
            }
            10 => {
                let rank = 1 + self.random.below(3);
                let shape = self.some_shape(rank);
                let (mut data, mut inputs, mut zero_points) = (vec![], vec![], vec![]);
                for _ in 0..2 {
                    data.push(self.tensor(dtype, &shape));
                    let scale = scales[self.random.below(3)];
                    inputs.push(self.constant(DType::FLOAT32, scale));
                    zero_points.push(zero(self, zeros));
                }
                let [data, inputs, zero_points] =
                    [data, inputs, zero_points].map(|fields| self.tuple(fields));
                let output = self.constant(DType::FLOAT32, 0.25);
                let last = zero(self, zeros);
                let attrs = none.with("axis", &self.axis(rank));
                self.apply("qnn.concatenate", &[data, inputs, zero_points, output, last], attrs)
            }
            _ => {
                const NAMES: [&str; 3] = ["qnn.add", "qnn.subtract", "qnn.mul"];
                let name = NAMES[self.random.below(3)];
                let rank = self.random.below(4);
                let shape = self.some_shape(rank);
                let other = self.narrower(&shape);
                let (lhs, rhs) = (self.tensor(dtype, &shape), self.tensor(dtype, &other));
                let mut operands = vec![lhs, rhs];
                for _ in 0..3 {
                    let scale = scales[self.random.below(3)];
                    operands.push(self.constant(DType::FLOAT32, scale));
                    operands.push(zero(self, zeros));
                }
                self.plain(name, &operands)
            }
        }
    }
}
