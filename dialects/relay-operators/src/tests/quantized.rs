//! Quantized operators against real arithmetic: dequantize, compute, quantize again. The integers
//! may differ by one, as rounding happens at other places.

use ir_core::{DType, Scalar, TensorData};
use proptest::prelude::*;
use relay::interpreter::Value;

use super::{Case, scalar, tensor};

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;

/// A quantized tensor; more than one scale and zero point are along the first axis.
#[derive(Clone, Debug)]
struct Quantized {
    dtype: DType,
    shape: Vec<i64>,
    numbers: Vec<i64>,
    scales: Vec<f32>,
    zeros: Vec<i64>,
}

impl Quantized {
    fn value(&self) -> Value {
        TensorData::from_i64(self.dtype, &self.shape, &self.numbers).unwrap().into()
    }

    /// A scalar, or a vector of one number for each channel.
    fn parameter(&self, dtype: DType, numbers: Vec<f64>) -> Value {
        match &numbers[..] {
            [one] => scalar(dtype, *one),
            many => tensor(dtype, &[many.len() as i64], many),
        }
    }

    fn scale(&self) -> Value {
        self.parameter(DType::FLOAT32, self.scales.iter().copied().map(f64::from).collect())
    }

    fn zero(&self) -> Value {
        self.parameter(DType::INT32, self.zeros.iter().map(|&zero| zero as f64).collect())
    }

    fn reals(&self) -> Vec<f64> {
        let inner = self.numbers.len() / self.scales.len();
        let real = |(i, &number): (usize, &i64)| {
            (number - self.zeros[i / inner]) as f64 * f64::from(self.scales[i / inner])
        };
        self.numbers.iter().enumerate().map(real).collect()
    }

    /// As if its zero point were its lowest number, so that it stands for no negative one.
    fn not_negative(mut self) -> Quantized {
        self.zeros = vec![lowest(self.dtype)];
        self
    }
}

fn lowest(dtype: DType) -> i64 {
    if dtype == DType::INT8 { -128 } else { 0 }
}

/// Tensors of `shape` with parameters for each of `channels`.
fn quantized(
    dtype: DType,
    shape: &[i64],
    channels: usize,
) -> impl Strategy<Value = Quantized> + use<> {
    let shape = shape.to_vec();
    let number = || (0i64..256).prop_map(move |number| number + lowest(dtype));
    let numbers = proptest::collection::vec(number(), shape.iter().product::<i64>() as usize);
    let scales = proptest::collection::vec(0.01f32..0.5, channels);
    let zeros = proptest::collection::vec(number(), channels);
    (numbers, scales, zeros).prop_map(move |(numbers, scales, zeros)| Quantized {
        dtype,
        shape: shape.clone(),
        numbers,
        scales,
        zeros,
    })
}

/// A scale and a zero point of a result.
fn output(dtype: DType) -> impl Strategy<Value = Quantized> {
    quantized(dtype, &[1], 1)
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::INT8), Just(DType::UINT8)]
}

fn reals_of(value: &Value) -> Vec<f64> {
    value.as_tensor().map(TensorData::to_f64).unwrap_or_default()
}

/// Checks that `case` gives what `reals` are under the quantization of `to`, up to one.
fn agrees(case: &Case, reals: &[f64], to: &Quantized) {
    let found = reals_of(&case.run());
    assert_eq!(found.len(), reals.len(), "{case:?}");
    let (low, scale, zero) = (lowest(to.dtype) as f64, f64::from(to.scales[0]), to.zeros[0] as f64);
    for (found, real) in found.iter().zip(reals) {
        let expected = ((real / scale).round() + zero).clamp(low, low + 255.0);
        assert!((found - expected).abs() <= 1.0, "{case:?}: expected {expected}, found {found}");
    }
}

/// Checks that `case` gives integers that, each times its scale, are `reals`.
fn is_product(case: &Case, reals: &[f64], scale: impl Fn(usize) -> f64) {
    let found = reals_of(&case.run());
    assert_eq!(found.len(), reals.len(), "{case:?}");
    for (i, (found, real)) in found.iter().zip(reals).enumerate() {
        let expected = real / scale(i);
        assert!((found - expected).abs() < 1e-3, "{case:?}: expected {expected}, found {found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn conversions(
        x in dtypes().prop_flat_map(|dtype| quantized(dtype, &[3, 4], 3)),
        to in dtypes().prop_flat_map(output),
    ) {
        let dequantize = Case::new("qnn.dequantize", [x.value(), x.scale(), x.zero()]);
        let dequantize = dequantize.with("axis", &0i64).with("out_dtype", &DType::FLOAT32);
        for (found, real) in reals_of(&dequantize.run()).iter().zip(x.reals()) {
            prop_assert!((found - real).abs() <= 1e-5 * real.abs());
        }
        let reals = tensor(DType::FLOAT32, &x.shape, &x.reals());
        let quantize = Case::new("qnn.quantize", [reals, to.scale(), to.zero()]);
        agrees(&quantize.with("out_dtype", &to.dtype), &x.reals(), &to);
        for rounding in ["UPWARD", "TONEAREST"] {
            for compute in ["int64", "float32", "float64"] {
                let operands = [x.value(), x.scale(), x.zero(), to.scale(), to.zero()];
                let case = Case::new("qnn.requantize", operands).with("axis", &0i64);
                let case = case.with("out_dtype", &to.dtype);
                let case = case.with("rounding", &rounding.to_string());
                agrees(&case.with("compute_dtype", &compute.to_string()), &x.reals(), &to);
            }
        }
    }

    #[test]
    fn simulations(x in quantized(DType::INT8, &[2, 3], 2), to in output(DType::INT8)) {
        let int8 = || scalar(DType::INT32, 1.0);
        let reals = tensor(DType::FLOAT32, &x.shape, &x.reals());
        let quantize = Case::new("qnn.simulated_quantize", [reals, int8(), to.scale(), to.zero()]);
        agrees(&quantize, &x.reals(), &to);
        let numbers: Vec<f64> = x.numbers.iter().map(|&number| number as f64).collect();
        let numbers = tensor(DType::FLOAT32, &x.shape, &numbers);
        let operands = [numbers, int8(), x.scale(), x.zero()];
        let dequantize = Case::new("qnn.simulated_dequantize", operands).with("axis", &0i64);
        for (found, real) in reals_of(&dequantize.run()).iter().zip(x.reals()) {
            prop_assert!((found - real).abs() <= 1e-5 * real.abs());
        }
    }

    /// The second operand broadcasts; the first has a scale for each row.
    #[test]
    fn arithmetic((x, y, to) in dtypes().prop_flat_map(|dtype| (
        quantized(dtype, &[3, 4], 3), quantized(dtype, &[4], 1), output(dtype),
    ))) {
        let functions: [(&str, Binary); 3] = [
            ("qnn.add", |a, b| a + b),
            ("qnn.subtract", |a, b| a - b),
            ("qnn.mul", |a, b| a * b),
        ];
        let (a, b) = (x.reals(), y.reals());
        for (name, function) in functions {
            let operands = [
                x.value(), y.value(), x.scale(), x.zero(), y.scale(), y.zero(), to.scale(),
                to.zero(),
            ];
            let reals: Vec<f64> = a.iter().enumerate().map(|(i, a)| function(*a, b[i % 4])).collect();
            agrees(&Case::new(name, operands).with("lhs_axis", &0i64), &reals, &to);
        }
    }

    #[test]
    fn functions(
        (x, to) in dtypes().prop_flat_map(|dtype| (quantized(dtype, &[8], 1), output(dtype))),
    ) {
        let functions: [(&str, bool, Unary); 9] = [
            ("abs", false, f64::abs),
            // The series of the error function, summed to where its terms vanish.
            ("erf", false, |x| {
                let (x, sign) = (x.abs().min(5.0), x.signum());
                let (mut term, mut sum) = (x, x);
                for n in 1..200 {
                    term *= -x * x / f64::from(n);
                    sum += term / f64::from(2 * n + 1);
                }
                sign * sum * 2.0 / std::f64::consts::PI.sqrt()
            }),
            ("exp", false, f64::exp),
            ("hardswish", false, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
            ("log", true, f64::ln),
            ("rsqrt", true, |x| x.powf(-0.5)),
            ("sigmoid", false, |x| 0.5 + 0.5 * (x / 2.0).tanh()),
            ("sqrt", true, |x| x.powf(0.5)),
            ("tanh", false, |x| 1.0 - 2.0 / ((2.0 * x).exp() + 1.0)),
        ];
        for (name, positive, function) in functions {
            let x = if positive { x.clone().not_negative() } else { x.clone() };
            let operands = [x.value(), x.scale(), x.zero(), to.scale(), to.zero()];
            let reals: Vec<f64> = x.reals().into_iter().map(function).collect();
            agrees(&Case::new(&format!("qnn.{name}"), operands), &reals, &to);
        }
    }

    #[test]
    fn pieces((x, y, to, alpha) in dtypes().prop_flat_map(|dtype| (
        quantized(dtype, &[1, 1, 3, 4], 1), quantized(dtype, &[1, 1, 2, 4], 1), output(dtype),
        0.05f64..0.95,
    ))) {
        let case = |name: &str| {
            Case::new(name, [x.value(), x.scale(), x.zero(), to.scale(), to.zero()])
        };
        let a = x.reals();
        let softmax: Vec<f64> = a
            .chunks(4)
            .flat_map(|row| row.iter().map(|a| 1.0 / row.iter().map(|b| (b - a).exp()).sum::<f64>()))
            .collect();
        agrees(&case("qnn.softmax"), &softmax, &to);
        let means: Vec<f64> = (0..2)
            .flat_map(|i| (0..3).map(move |j| 4 * i + j))
            .map(|i| (a[i] + a[i + 1] + a[i + 4] + a[i + 5]) / 4.0)
            .collect();
        agrees(&case("qnn.avg_pool2d").with("pool_size", &vec![2i64, 2]), &means, &to);
        let joined: Vec<f64> = a.iter().copied().chain(y.reals()).collect();
        let operands = [
            Value::tuple([x.value(), y.value()]),
            Value::tuple([x.scale(), y.scale()]),
            Value::tuple([x.zero(), y.zero()]),
            to.scale(),
            to.zero(),
        ];
        agrees(&Case::new("qnn.concatenate", operands).with("axis", &2i64), &joined, &to);
        // The product is rounded before the scale changes, so the scale must not shrink.
        let mut wide = to.clone();
        wide.scales[0] += x.scales[0];
        let operands = [x.value(), x.scale(), x.zero(), wide.scale(), wide.zero()];
        let leaky: Vec<f64> = a.iter().map(|&a| if a < 0.0 { alpha * a } else { a }).collect();
        agrees(&Case::new("qnn.leaky_relu", operands).with("alpha", &alpha), &leaky, &wide);
    }

    /// Two groups, and a scale for each output channel.
    #[test]
    fn convolutions(
        x in dtypes().prop_flat_map(|dtype| quantized(dtype, &[1, 4, 5, 4], 1)),
        w in quantized(DType::INT8, &[6, 2, 3, 2], 6),
        stride in 1usize..3, dilation in 1usize..3, pad in 0usize..3,
    ) {
        let (a, b) = (x.reals(), w.reals());
        let windows = |extent: usize, kernel: usize| {
            (extent + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1
        };
        let place = |window: usize, tap: usize, extent: usize| {
            (window * stride + tap * dilation).checked_sub(pad).filter(|&place| place < extent)
        };
        prop_assume!(5 + 2 * pad > 2 * dilation);
        let (height, width) = (windows(5, 3), windows(4, 2));
        let mut reals = vec![0.0; 6 * height * width];
        for (index, real) in reals.iter_mut().enumerate() {
            let (o, i, j) = (index / width / height, index / width % height, index % width);
            for (c, k, l) in (0..12).map(|t| (t / 6, t / 2 % 3, t % 2)) {
                if let (Some(y), Some(x)) = (place(i, k, 5), place(j, l, 4)) {
                    let channel = o / 3 * 2 + c;
                    *real += a[(channel * 5 + y) * 4 + x] * b[((o * 2 + c) * 3 + k) * 2 + l];
                }
            }
        }
        let operands = [x.value(), w.value(), x.zero(), w.zero(), x.scale(), w.scale()];
        let both = |value: usize| vec![value as i64; 2];
        let case = Case::new("qnn.conv2d", operands)
            .with("strides", &both(stride))
            .with("padding", &both(pad))
            .with("dilation", &both(dilation))
            .with("groups", &2i64)
            .with("out_dtype", &DType::INT32);
        let plane = height * width;
        is_product(&case, &reals, |i| f64::from(x.scales[0]) * f64::from(w.scales[i / plane]));
    }

    /// Every element of the input is spread over the result.
    #[test]
    fn transposed_convolutions(
        x in quantized(DType::UINT8, &[1, 2, 3, 2], 1),
        w in quantized(DType::INT8, &[2, 3, 2, 2], 1),
        stride in 1usize..4,
    ) {
        let (a, b) = (x.reals(), w.reals());
        let (height, width) = (2 * stride + 2, stride + 2);
        let mut reals = vec![0.0; 3 * height * width];
        for (c, y, x, o, k, l) in
            (0..144).map(|t| (t / 72, t / 24 % 3, t / 12 % 2, t / 4 % 3, t / 2 % 2, t % 2))
        {
            let place = (o * height + y * stride + k) * width + x * stride + l;
            reals[place] += a[(c * 3 + y) * 2 + x] * b[((c * 3 + o) * 2 + k) * 2 + l];
        }
        let operands = [x.value(), w.value(), x.zero(), w.zero(), x.scale(), w.scale()];
        let case = Case::new("qnn.conv2d_transpose", operands)
            .with("strides", &vec![stride as i64; 2])
            .with("out_dtype", &DType::INT32);
        is_product(&case, &reals, |_| f64::from(x.scales[0]) * f64::from(w.scales[0]));
    }

    #[test]
    fn products(
        x in quantized(DType::UINT8, &[2, 3], 1), w in quantized(DType::INT8, &[4, 3], 4),
    ) {
        let (a, b) = (x.reals(), w.reals());
        let dot = |i: usize| {
            let (row, column) = (i / 4, i % 4);
            (0..3).map(|k| a[row * 3 + k] * b[column * 3 + k]).sum()
        };
        let reals: Vec<f64> = (0..8).map(dot).collect();
        let operands = || [x.value(), w.value(), x.zero(), w.zero(), x.scale(), w.scale()];
        let scale = |i: usize| f64::from(x.scales[0]) * f64::from(w.scales[i % 4]);
        for name in ["qnn.dense", "qnn.contrib_dense_pack"] {
            let case = Case::new(name, operands()).with("out_dtype", &DType::INT32);
            is_product(&case, &reals, scale);
        }
        // A batch of one; its second factor has a single scale.
        let batch = |mut tensor: Quantized| {
            tensor.shape.insert(0, 1);
            (tensor.scales, tensor.zeros) = (vec![tensor.scales[0]], vec![tensor.zeros[0]]);
            tensor
        };
        let (x, w) = (batch(x.clone()), batch(w.clone()));
        let (a, b) = (x.reals(), w.reals());
        let dot = |i: usize| (0..3).map(|k| a[i / 4 * 3 + k] * b[i % 4 * 3 + k]).sum();
        let reals: Vec<f64> = (0..8).map(dot).collect();
        let operands = [x.value(), w.value(), x.zero(), w.zero(), x.scale(), w.scale()];
        let case = Case::new("qnn.batch_matmul", operands)
            .with("transpose_b", &true)
            .with("out_dtype", &DType::INT32);
        is_product(&case, &reals, |_| f64::from(x.scales[0]) * f64::from(w.scales[0]));
    }
}

/// Halves go up, or away from zero.
#[test]
fn ties_of_requantize() {
    let numbers = TensorData::from_i64(DType::INT8, &[4], &[-3, -1, 1, 3]).unwrap();
    let float = |value: f64| scalar(DType::FLOAT32, value);
    let zero = || TensorData::scalar(DType::INT32, Scalar::Int(0)).into();
    for (rounding, expected) in
        [("UPWARD", [-1.0, 0.0, 1.0, 2.0]), ("TONEAREST", [-2.0, -1.0, 1.0, 2.0])]
    {
        for compute in ["int64", "float32", "float64"] {
            let operands = [numbers.clone().into(), float(0.5), zero(), float(1.0), zero()];
            let case = Case::new("qnn.requantize", operands).with("out_dtype", &DType::INT8);
            let case = case.with("rounding", &rounding.to_string());
            case.with("compute_dtype", &compute.to_string()).gives(&[4], &expected);
        }
    }
}
