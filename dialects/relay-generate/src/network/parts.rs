//! Operators on elements, reductions, and what moves elements.

use ir_core::{AttrDict, DType, DTypeKind, ValueId};

use super::Network;

/// Where a function of floats is smooth, and changes no faster than its argument by much.
#[derive(Clone, Copy)]
enum Domain {
    Everywhere,
    /// From -b to b.
    Within(f64),
    /// From a up.
    Above(f64),
}

use Domain::{Above, Everywhere, Within};

const FLOAT_FUNCTIONS: [(&str, Domain); 36] = [
    ("exp", Within(3.0)),
    ("fast_exp", Within(3.0)),
    ("log", Above(0.25)),
    ("log2", Above(0.25)),
    ("log10", Above(0.25)),
    ("sqrt", Above(0.0625)),
    ("rsqrt", Above(0.25)),
    ("sigmoid", Everywhere),
    ("sigmoid", Everywhere),
    ("tanh", Everywhere),
    ("tanh", Everywhere),
    ("fast_tanh", Everywhere),
    ("erf", Everywhere),
    ("fast_erf", Everywhere),
    ("sin", Within(40.0)),
    ("cos", Within(40.0)),
    ("tan", Within(1.0)),
    ("sinh", Within(3.0)),
    ("cosh", Within(3.0)),
    ("asin", Within(0.75)),
    ("acos", Within(0.75)),
    ("atan", Everywhere),
    ("asinh", Everywhere),
    ("acosh", Above(1.5)),
    ("atanh", Within(0.75)),
    ("negative", Everywhere),
    ("abs", Everywhere),
    ("nn.relu", Everywhere),
    ("nn.relu", Everywhere),
    ("nn.relu", Everywhere),
    ("nn.leaky_relu", Everywhere),
    ("copy", Everywhere),
    ("stop_gradient", Everywhere),
    ("zeros_like", Everywhere),
    ("ones_like", Everywhere),
    ("nn.dropout", Everywhere),
];

/// Functions of floats that jump, and those of floats and integers that keep the type.
const JUMPS: [&str; 9] =
    ["sign", "floor", "ceil", "trunc", "round", "round_even", "isnan", "isfinite", "isinf"];
const INTEGER_FUNCTIONS: [&str; 13] = [
    "negative",
    "abs",
    "copy",
    "sign",
    "bitwise_not",
    "nn.relu",
    "zeros_like",
    "ones_like",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_even",
];
/// What says something of a value and leaves it as it is.
const ANNOTATIONS: [&str; 10] = [
    "device_copy",
    "on_device",
    "annotation.stop_fusion",
    "annotation.checkpoint",
    "annotation.compiler_begin",
    "annotation.compiler_end",
    "annotation.cast_hint",
    "annotation.bitpack_start",
    "annotation.bitpack_end",
    "check_shape",
];
const BINARY: [&str; 7] = ["add", "add", "subtract", "multiply", "multiply", "maximum", "minimum"];
const INTEGER_BINARY: [&str; 5] =
    ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"];
const DIVISIONS: [&str; 6] =
    ["divide", "floor_divide", "trunc_divide", "mod", "trunc_mod", "floor_mod"];
const COMPARE: [&str; 6] = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"];
const LOGIC: [&str; 3] = ["logical_and", "logical_or", "logical_xor"];

impl Network<'_> {
    pub(super) fn pick<'n>(&mut self, names: &[&'n str]) -> &'n str {
        self.random.choose(names).copied().unwrap_or("copy")
    }

    pub(super) fn unary(&mut self) -> Option<ValueId> {
        let data = self.any();
        if self.random.one_in(24) {
            let name = self.pick(&ANNOTATIONS);
            let none = AttrDict::empty();
            let attrs = match name {
                "annotation.cast_hint" => none.with("dtype", &DType::FLOAT16),
                "check_shape" => none.with("shape", &self.shape(data)),
                _ if name.contains("compiler") => none.with("compiler", &"another".to_string()),
                _ => none,
            };
            return self.apply(name, &[data], attrs);
        }
        if !self.is_float(data) {
            if self.random.one_in(4) {
                return self.clipped(data, -2.0, 5.0);
            }
            let name = self.pick(&INTEGER_FUNCTIONS);
            return self.plain(name, &[data]);
        }
        if !self.is_rounded(data) && self.random.one_in(4) {
            let name = self.pick(&JUMPS);
            return self.plain(name, &[data]);
        }
        if self.random.one_in(8) {
            return self.clipped(data, -0.5, 0.75);
        }
        let (name, domain) = FLOAT_FUNCTIONS[self.random.below(FLOAT_FUNCTIONS.len())];
        let data = match domain {
            Everywhere => data,
            Within(bound) => self.clipped(data, -bound, bound)?,
            Above(bound) => {
                let data = self.plain("abs", &[data])?;
                let least = self.constant(self.dtype(data), bound);
                self.plain("add", &[data, least])?
            }
        };
        let value = self.plain(name, &[data])?;
        if name == "nn.dropout" { self.field(value, 0) } else { Some(value) }
    }

    pub(super) fn binary(&mut self) -> Option<ValueId> {
        let data = self.any();
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let other = self.narrower(&shape);
        let other = self.tensor(dtype, &other);
        let swapped = self.random.one_in(2);
        match self.random.below(8) {
            0 if dtype.is_integer() && !dtype.is_bool() => {
                let name = self.pick(&INTEGER_BINARY);
                let other = match name.ends_with("shift") {
                    true => self.clipped(other, 0.0, 6.0)?,
                    false => other,
                };
                self.plain(name, &[data, other])
            }
            0 | 1 => {
                // A divisor of 1 or more.
                let divisor = match dtype.is_float() {
                    true => self.plain("abs", &[other])?,
                    false => other,
                };
                let one = self.constant(dtype, 1.0);
                let divisor = self.plain("maximum", &[divisor, one])?;
                let smooth = self.is_rounded(data) || self.is_rounded(other);
                let name = if smooth { "divide" } else { self.pick(&DIVISIONS) };
                // Powers of quotients of rounded numbers jump.
                self.plain(name, &[data, divisor])
            }
            2 if dtype.is_float() => {
                let base = self.plain("abs", &[data])?;
                let half = self.constant(dtype, 0.5);
                let base = self.plain("add", &[base, half])?;
                let base = self.clipped(base, 0.5, 4.0)?;
                let exponent = self.clipped(other, -2.0, 2.0)?;
                self.plain("power", &[base, exponent])
            }
            3 => {
                let truth = self.narrower(&shape);
                let truth = self.truth(&truth);
                let operands = if swapped { [truth, other, data] } else { [truth, data, other] };
                self.plain("where", &operands)
            }
            _ => {
                let name = self.pick(&BINARY);
                let operands = if swapped { [other, data] } else { [data, other] };
                self.plain(name, &operands)
            }
        }
    }

    pub(super) fn compare(&mut self) -> Option<ValueId> {
        let truth = self.existing(|this, value| this.dtype(value).is_bool());
        match (truth, self.random.below(3)) {
            (Some(truth), 0) => self.plain("logical_not", &[truth]),
            (Some(truth), 1) => {
                let other = self.narrower(&self.shape(truth));
                let other = self.truth(&other);
                let name = self.pick(&LOGIC);
                self.plain(name, &[truth, other])
            }
            _ => {
                let data = self.exact(0..=4);
                let other = self.narrower(&self.shape(data));
                let other = self.tensor(self.dtype(data), &other);
                if self.is_rounded(other) {
                    return None;
                }
                let name = self.pick(&COMPARE);
                self.plain(name, &[data, other])
            }
        }
    }

    pub(super) fn reduction(&mut self) -> Option<ValueId> {
        let data = match self.random.below(5) {
            0 => self.exact(0..=5),
            1 => self.existing(|this, value| this.dtype(value).is_bool())?,
            _ => self.any(),
        };
        let rank = self.shape(data).len();
        let mut attrs = AttrDict::empty().with("keepdims", &self.random.one_in(2));
        if !self.random.one_in(5) {
            let axes: Vec<i64> = match self.random.below(4) {
                0 => vec![-1],
                1 => vec![0],
                _ => (0..rank as i64).filter(|_| self.random.one_in(2)).collect(),
            };
            attrs = attrs.with("axis", &axes).with("exclude", &self.random.one_in(8));
        }
        if self.dtype(data).is_bool() {
            let name = self.pick(&["all", "any"]);
            return self.apply(name, &[data], attrs);
        }
        match self.random.below(8) {
            0 if !self.is_rounded(data) => {
                let name = self.pick(&["argmax", "argmin"]);
                let attrs = attrs.with("select_last_index", &self.random.one_in(2));
                self.apply(name, &[data], attrs)
            }
            1 if self.is_float(data) => {
                let mean = self.apply("mean", &[data], attrs.with("keepdims", &true))?;
                let attrs = attrs.with("unbiased", &false);
                self.apply("variance", &[data, mean], attrs)
            }
            2 => {
                let data = match self.is_float(data) {
                    true => self.clipped(data, 0.75, 1.25)?,
                    false => data,
                };
                self.apply("prod", &[data], attrs)
            }
            3 => {
                let to = self.narrower(&self.shape(data));
                match self.random.one_in(2) {
                    true => {
                        let like = self.tensor(self.dtype(data), &to);
                        self.plain("collapse_sum_like", &[data, like])
                    }
                    false => {
                        let shape =
                            ir_core::TensorData::from_i64(DType::INT64, &[to.len() as i64], &to);
                        let shape = self.builder.constant(shape.ok()?);
                        let attrs = AttrDict::empty().with("shape", &to);
                        self.apply("collapse_sum_to", &[data, shape], attrs)
                    }
                }
            }
            4 if rank > 0 && self.random.one_in(2) => {
                let attrs = AttrDict::empty().with("exclusive", &self.random.one_in(2));
                let attrs = match self.random.one_in(4) {
                    true => attrs,
                    false => attrs.with("axis", &self.axis(rank)),
                };
                match self.is_float(data) && self.random.one_in(2) {
                    true => {
                        let data = self.clipped(data, 0.75, 1.25)?;
                        self.apply("cumprod", &[data], attrs)
                    }
                    false => self.apply("cumsum", &[data], attrs),
                }
            }
            4 | 5 => {
                let name = self.pick(&["max", "min"]);
                self.apply(name, &[data], attrs)
            }
            6 => self.apply("mean", &[data], attrs),
            _ => self.apply("sum", &[data], attrs),
        }
    }

    /// What gives another place to elements of one tensor.
    pub(super) fn rearrangement(&mut self) -> Option<ValueId> {
        let data = match self.random.one_in(8) {
            true => self.existing(|this, value| this.dtype(value).is_bool())?,
            false => self.any(),
        };
        let shape = self.shape(data);
        let rank = shape.len();
        let none = AttrDict::empty();
        let axis = self.axis(rank);
        match self.random.below(18) {
            0..=2 => {
                let newshape = self.regrouped(&shape);
                match self.random.below(4) {
                    0 => {
                        let like = self.tensor(DType::FLOAT32, &newshape);
                        self.plain("reshape_like", &[data, like])
                    }
                    1 => {
                        let attrs = none.with("newshape", &vec![-1i64]);
                        self.apply("contrib_reverse_reshape", &[data], attrs)
                    }
                    _ => self.apply("reshape", &[data], none.with("newshape", &newshape)),
                }
            }
            3..=6 => {
                let mut axes: Vec<i64> = (0..rank as i64).collect();
                for at in (1..rank).rev() {
                    axes.swap(at, self.random.below(at + 1));
                }
                self.apply("transpose", &[data], none.with("axes", &axes))
            }
            7 => self.plain("squeeze", &[data]),
            8 => {
                let attrs = none.with("axis", &self.axis(rank + 1));
                let attrs = attrs.with("num_newaxis", &self.one_of(&[1, 2]));
                self.apply("expand_dims", &[data], attrs)
            }
            9 => self.apply("reverse", &[data], none.with("axis", &axis)),
            10 => {
                let attrs = none.with("axis", &axis).with("repeats", &self.one_of(&[1, 2, 3]));
                self.apply("repeat", &[data], attrs)
            }
            11 => {
                let count = 1 + self.random.below(rank + 1);
                let reps: Vec<i64> = (0..count).map(|_| self.one_of(&[1, 1, 2, 3])).collect();
                self.apply("tile", &[data], none.with("reps", &reps))
            }
            12 => {
                let mut wider: Vec<i64> =
                    (0..self.random.below(2)).map(|_| self.extent()).collect();
                wider.extend(&shape);
                for extent in &mut wider {
                    if *extent == 1 {
                        *extent = self.extent();
                    }
                }
                match self.random.one_in(2) {
                    true if wider.iter().product::<i64>() <= super::MOST_ELEMENTS => {
                        let like = self.tensor(DType::FLOAT32, &wider);
                        self.plain("broadcast_to_like", &[data, like])
                    }
                    _ => self.apply("broadcast_to", &[data], none.with("shape", &wider)),
                }
            }
            13 => {
                let mut begin = Vec::new();
                let (mut end, mut strides) = (Vec::new(), Vec::new());
                for &extent in &shape {
                    let stride = self.one_of(&[1, 1, 2, 3, -1, -2]);
                    let (one, two) = (self.random.below(extent as usize) as i64, extent);
                    let two = two - self.random.below((two - one) as usize) as i64;
                    match stride > 0 {
                        true => (begin.push(one), end.push(two)),
                        false => (begin.push(two - 1), end.push(one - 1 - 2 * extent)),
                    };
                    if stride < 0 && one > 0 {
                        end.pop();
                        end.push(one - 1);
                    }
                    strides.push(stride);
                }
                let attrs = none.with("begin", &begin).with("end", &end).with("strides", &strides);
                self.apply("strided_slice", &[data], attrs)
            }
            14 => {
                let like: Vec<i64> =
                    shape.iter().map(|n| 1 + self.random.below(*n as usize) as i64).collect();
                let like = self.tensor(DType::FLOAT32, &like);
                self.plain("slice_like", &[data, like])
            }
            15 => {
                let k = self.one_of(&[-1, 0, 1, 2]);
                let k = self.constant(DType::INT32, k as f64);
                let attrs = none.with("upper", &self.random.one_in(2));
                self.apply("trilu", &[data, k], attrs)
            }
            16 => self.plain("nn.batch_flatten", &[data]),
            _ => match self.random.below(4) {
                0 => self.plain("shape_of", &[data]),
                1 => self.plain("ndarray_size", &[data]),
                2 => {
                    let value = self.constant(self.dtype(data), 2.0);
                    self.plain("full_like", &[data, value])
                }
                _ => self.layout(data),
            },
        }
    }

    /// Another shape of as many elements.
    fn regrouped(&mut self, shape: &[i64]) -> Vec<i64> {
        let mut rest = shape.iter().product::<i64>();
        let mut regrouped = Vec::new();
        while rest > 1 && regrouped.len() < 3 {
            let factors: Vec<i64> = (1..=rest.min(64)).filter(|n| rest % n == 0).collect();
            let factor = self.one_of(&factors);
            regrouped.push(factor);
            rest /= factor;
        }
        let at = self.random.below(regrouped.len() + 1);
        regrouped.insert(at, rest);
        regrouped
    }

    /// One tensor of several, or several of one.
    pub(super) fn join(&mut self) -> Option<ValueId> {
        let data = self.any();
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let rank = shape.len();
        let none = AttrDict::empty();
        let axis = self.axis(rank);
        let at = axis.rem_euclid(rank.max(1) as i64) as usize;
        match self.random.below(6) {
            0..=2 if rank > 0 => {
                let mut fields = vec![data];
                for _ in 0..1 + self.random.below(3) {
                    let mut other = shape.clone();
                    other[at] = self.extent();
                    fields.push(self.tensor(dtype, &other));
                }
                let place = self.random.below(fields.len());
                fields.swap(0, place);
                let tuple = self.tuple(fields);
                self.apply("concatenate", &[tuple], none.with("axis", &axis))
            }
            3 => {
                let fields = vec![data, self.tensor(dtype, &shape)];
                let tuple = self.tuple(fields);
                let axis = self.axis(rank + 1);
                self.apply("stack", &[tuple], none.with("axis", &axis))
            }
            4 => {
                let extents: Vec<i64> =
                    (0..1 + self.random.below(2)).map(|_| self.extent()).collect();
                let fields = extents.iter().map(|n| self.tensor(dtype, &[*n])).collect();
                let tuple = self.tuple(fields);
                let indexing = self.pick(&["ij", "xy"]).to_string();
                let grids = self.apply("meshgrid", &[tuple], none.with("indexing", &indexing))?;
                self.field(grids, 0)
            }
            _ if rank > 0 => {
                let extent = shape[at];
                let attrs = none.with("axis", &axis);
                let attrs = match extent % 2 == 0 && self.random.one_in(2) {
                    true => attrs.with("indices_or_sections", &2i64),
                    false => {
                        let cut = 1 + self.random.below(extent.max(2) as usize - 1) as i64;
                        attrs.with("indices_or_sections", &vec![cut.min(extent)])
                    }
                };
                let parts = self.apply("split", &[data], attrs)?;
                // An empty part is none to go on with.
                let index = self.random.below(2);
                let value = self.field(parts, index)?;
                if self.shape(value).contains(&0) {
                    self.values.pop();
                    return None;
                }
                Some(value)
            }
            _ => None,
        }
    }

    /// Elements chosen by numbers or truths.
    pub(super) fn selection(&mut self) -> Option<ValueId> {
        let data = self.any();
        let (dtype, shape) = (self.dtype(data), self.shape(data));
        let rank = shape.len();
        if rank == 0 {
            return None;
        }
        let none = AttrDict::empty();
        let axis = self.axis(rank);
        let at = axis.rem_euclid(rank as i64) as usize;
        match self.random.below(11) {
            10 => match self.random.one_in(2) {
                true => {
                    let count = self.extent();
                    let places: Vec<i64> = (0..count).map(|n| (n + 2) % count).rev().collect();
                    let places =
                        ir_core::TensorData::from_i64(DType::INT32, &[count], &places).ok()?;
                    let places = self.builder.constant(places);
                    self.plain("invert_permutation", &[places])
                }
                false => {
                    let (rows, columns) = (self.extent(), self.extent());
                    let places = self.places(&[7], rows * columns)?;
                    let dtype = self.dtype(places);
                    let extents =
                        ir_core::TensorData::from_i64(dtype, &[2], &[rows, columns]).ok()?;
                    let extents = self.builder.constant(extents);
                    self.plain("unravel_index", &[places, extents])
                }
            },
            0 | 1 => {
                let count = self.random.below(3);
                let indices: Vec<i64> = (0..count).map(|_| self.one_of(&[1, 2, 3, 5, 7])).collect();
                let indices = self.tensor(DType::INT32, &indices);
                let mode = self.pick(&["clip", "wrap"]).to_string();
                let attrs = none.with("mode", &mode);
                match self.random.one_in(4) {
                    true => self.apply("take", &[data, indices], attrs),
                    false => self.apply("take", &[data, indices], attrs.with("axis", &axis)),
                }
            }
            2 => {
                let mut places = shape.clone();
                places[at] = self.one_of(&[1, 2, 3, 7]);
                let places = self.places(&places, shape[at])?;
                self.apply("gather", &[data, places], none.with("axis", &axis))
            }
            3 => {
                let depth = 1 + self.random.below(rank);
                let bound = shape[..depth].iter().copied().min()?;
                let places = self.places(&[depth as i64, 5], bound)?;
                self.plain("gather_nd", &[data, places])
            }
            4 => {
                let mut fields = vec![data, self.places(&[3, 1], shape[0])?];
                if rank > 1 && self.random.one_in(2) {
                    fields.push(self.places(&[7], shape[1])?);
                }
                let tuple = self.tuple(fields);
                self.plain("adv_index", &[tuple])
            }
            5 => {
                let (on, off) = (self.constant(dtype, 3.0), self.constant(dtype, 1.0));
                let count = 1 + self.random.below(2);
                let shape: Vec<i64> = (0..count).map(|_| self.extent()).collect();
                let indices = self.tensor(DType::INT32, &shape);
                let attrs = none.with("depth", &self.one_of(&[3, 4, 17])).with("dtype", &dtype);
                let attrs = attrs.with("axis", &self.axis(count + 1));
                self.apply("one_hot", &[indices, on, off], attrs)
            }
            6 if rank > 1 => {
                let lengths = self.places(&[shape[1]], shape[0] + 1)?;
                let attrs = none.with("mask_value", &1.5f64);
                self.apply("sequence_mask", &[data, lengths], attrs)
            }
            7 if rank > 1 => {
                let lengths = self.places(&[shape[0]], shape[1] + 1)?;
                self.plain("reverse_sequence", &[data, lengths])
            }
            8 if rank > 1 => {
                let mut diagonal = shape[..rank - 2].to_vec();
                diagonal.push(shape[rank - 1].min(shape[rank - 2]));
                let diagonal = self.tensor(dtype, &diagonal);
                self.plain("matrix_set_diag", &[data, diagonal])
            }
            9 => {
                let (mut begin, mut end, mut part) = (vec![], vec![], vec![]);
                for &extent in &shape {
                    let from = self.random.below(extent as usize) as i64;
                    let to = from + 1 + self.random.below((extent - from) as usize) as i64;
                    begin.push(from);
                    end.push(to);
                    part.push(to - from);
                }
                let v = self.tensor(dtype, &part);
                let vector = |numbers: &[i64]| {
                    let count = [numbers.len() as i64];
                    ir_core::TensorData::from_i64(DType::INT64, &count, numbers).ok()
                };
                let mut operands = vec![data, v];
                for numbers in [begin, end, vec![1; rank]] {
                    operands.push(self.builder.constant(vector(&numbers)?));
                }
                self.plain("strided_set", &operands)
            }
            _ => None,
        }
    }

    pub(super) fn conversion(&mut self) -> Option<ValueId> {
        let none = AttrDict::empty();
        match self.random.below(8) {
            0 => {
                let shape = self.some_shape(2);
                let attrs = none.with("shape", &shape).with("dtype", &self.number());
                let name = self.pick(&["zeros", "ones"]);
                self.apply(name, &[], attrs)
            }
            1 => {
                let (dtype, shape) = (self.number(), self.some_shape(2));
                let value = self.tensor(dtype, &[]);
                self.apply("full", &[value], none.with("shape", &shape))
            }
            2 => {
                let dtype = self.pick(&["int32", "int64", "float32"]).parse().ok()?;
                let stop = self.one_of(&[3, 7, 17]) as f64;
                let operands = [(0.0), stop, 1.0].map(|number| self.constant(dtype, number));
                self.apply("arange", &operands, none.with("dtype", &dtype))
            }
            3 => self.bits(),
            _ => {
                let to = self.number();
                let data = match to.is_float() {
                    true => self.any(),
                    false => self.exact(0..=5),
                };
                match self.random.one_in(4) {
                    true => {
                        let like = self.tensor(to, &[2]);
                        self.plain("cast_like", &[data, like])
                    }
                    false => self.apply("cast", &[data], none.with("dtype", &to)),
                }
            }
        }
    }

    /// The bits of floats as integers; of integers as floats, and again as integers, because floats
    /// of any bits make other operators jump.
    fn bits(&mut self) -> Option<ValueId> {
        let data = self.exact(0..=5);
        let dtype = self.dtype(data);
        let integer = DType::new(DTypeKind::Int, dtype.bits() as u8, 1)?;
        let reading = |to: DType| AttrDict::empty().with("dtype", &to);
        if dtype.is_float() {
            return self.apply("reinterpret", &[data], reading(integer));
        }
        let float = DType::new(DTypeKind::Float, dtype.bits() as u8, 1);
        let float = float.filter(|float| float.bits() >= 32)?;
        let read = self.apply("reinterpret", &[data], reading(float))?;
        self.values.retain(|value| *value != read);
        self.apply("reinterpret", &[read], reading(integer))
    }
}
