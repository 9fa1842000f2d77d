//! Every operator on random operands: valid ones give a value of the inferred type, and no others
//! panic.

use ir_core::{Attr, AttrData, DType};
use proptest::prelude::*;

use super::*;

/// A deterministic source of choices (xorshift64*).
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn shape(&mut self, rank: usize) -> Vec<i64> {
        (0..rank).map(|_| 1 + self.below(3) as i64).collect()
    }

    fn dtype(&mut self) -> DType {
        self.pick(&[
            DType::FLOAT32,
            DType::FLOAT64,
            DType::FLOAT16,
            DType::BFLOAT16,
            DType::INT8,
            DType::INT32,
            DType::INT64,
            DType::UINT8,
            DType::UINT64,
            DType::BOOL,
        ])
    }

    fn integer_dtype(&mut self) -> DType {
        self.pick(&[DType::INT8, DType::INT32, DType::INT64, DType::UINT8])
    }

    /// Elements from `low` to below `high`.
    fn tensor(&mut self, dtype: DType, shape: &[i64], low: i64, high: i64) -> Value {
        let count = shape.iter().product::<i64>() as usize;
        let values: Vec<i64> =
            (0..count).map(|_| low + self.below((high - low) as usize) as i64).collect();
        TensorData::from_i64(dtype, shape, &values).unwrap().into()
    }

    fn vector(&mut self, values: &[i64]) -> Value {
        let dtype = self.pick(&[DType::INT32, DType::INT64]);
        TensorData::from_i64(dtype, &[values.len() as i64], values).unwrap().into()
    }

    fn axis(&mut self, rank: usize) -> i64 {
        self.below(2 * rank) as i64 - rank as i64
    }
}

/// Valid operands and attributes of operator `name` (without `relay.`).
fn valid(name: &str, c: &mut Choices) -> Case {
    let rank = 1 + c.below(3);
    let shape = c.shape(rank);
    let dtype = c.dtype();
    let float = c.pick(&[DType::FLOAT32, DType::FLOAT64, DType::FLOAT16]);
    let axis = c.axis(rank);
    let at = ((axis + rank as i64) % rank as i64) as usize;
    let case = |operands: Vec<Value>| Case::new(name, operands);
    match name {
        "bitwise_not" | "fixed_point_multiply" => {
            let dtype = c.integer_dtype();
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]);
            match name {
                "bitwise_not" => case,
                _ => case.with("multiplier", &(1i64 << 30)).with("shift", &1i64),
            }
        }
        "clip" => case(vec![c.tensor(dtype, &shape, 0, 9)]).with("a_min", &2.0).with("a_max", &5.0),
        "cast" => case(vec![c.tensor(dtype, &shape, 0, 9)]).with("dtype", &c.dtype()),
        "cast_like" => {
            let like = c.dtype();
            case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(like, &[2], 0, 9)])
        }
        "reinterpret" => {
            case(vec![c.tensor(DType::FLOAT32, &shape, 0, 9)]).with("dtype", &DType::INT32)
        }
        "add" | "subtract" | "multiply" | "divide" | "floor_divide" | "trunc_divide" | "mod"
        | "trunc_mod" | "floor_mod" | "power" | "maximum" | "minimum" | "logical_and"
        | "logical_or" | "logical_xor" | "bitwise_and" | "bitwise_or" | "bitwise_xor"
        | "left_shift" | "right_shift" | "equal" | "not_equal" | "less" | "less_equal"
        | "greater" | "greater_equal" => {
            let dtype = c.pick(&[DType::INT8, DType::INT32, DType::UINT64, DType::FLOAT32]);
            let bits = name.starts_with("bitwise") || name.ends_with("shift");
            let dtype = if bits { c.integer_dtype() } else { dtype };
            let mut other = shape[c.below(rank)..].to_vec();
            if let Some(first) = other.first_mut() {
                *first = if c.below(2) == 0 { 1 } else { *first };
            }
            let operands = vec![c.tensor(dtype, &shape, 0, 9), c.tensor(dtype, &other, 1, 9)];
            case(operands)
        }
        "sum" | "prod" | "mean" | "max" | "min" | "all" | "any" | "argmax" | "argmin" => {
            // The sums of means must fit 64 bits.
            let least = if dtype == DType::UINT64 { 0 } else { -2 };
            let case = case(vec![c.tensor(dtype, &shape, least, 3)]);
            let case = case.with("keepdims", &(c.below(2) == 0));
            match c.below(3) {
                0 => case,
                1 => case.with("axis", &vec![axis]),
                _ => case.with("axis", &axis).with("exclude", &true),
            }
        }
        "variance" => {
            let mut mean = shape.clone();
            mean[at] = 1;
            case(vec![c.tensor(float, &shape, 0, 9), c.tensor(float, &mean, 0, 9)])
                .with("axis", &vec![axis])
        }
        "collapse_sum_like" => {
            let like = shape[c.below(rank)..].to_vec();
            case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(dtype, &like, 0, 9)])
        }
        "collapse_sum_to" => {
            let to = shape[c.below(rank)..].to_vec();
            case(vec![c.tensor(dtype, &shape, 0, 9), c.vector(&to)])
        }
        "zeros" | "ones" => case(vec![]).with("shape", &shape).with("dtype", &dtype),
        "full" => case(vec![c.tensor(dtype, &[], 0, 9)]).with("shape", &shape),
        "full_like" => case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(float, &[], 0, 9)]),
        "arange" => {
            let dtype = c.pick(&[DType::INT32, DType::INT64, DType::FLOAT32]);
            let operands = vec![
                c.tensor(dtype, &[], -3, 3),
                c.tensor(dtype, &[], 0, 9),
                c.tensor(dtype, &[], 1, 4),
            ];
            case(operands).with("dtype", &dtype)
        }
        "meshgrid" => {
            let fields: Vec<Value> = shape.iter().map(|&n| c.tensor(dtype, &[n], 0, 9)).collect();
            let indexing = c.pick(&["ij", "xy"]).to_string();
            case(vec![Value::tuple(fields)]).with("indexing", &indexing)
        }
        "one_hot" | "dyn.one_hot" => {
            let mut operands = vec![c.tensor(DType::INT32, &shape, -1, 5)];
            operands.extend([scalar(float, 2.0), scalar(float, 1.0)]);
            let axis = c.axis(rank + 1);
            let case = match name {
                "one_hot" => case(operands).with("depth", &4i64),
                _ => {
                    operands.push(scalar(DType::INT64, 4.0));
                    case(operands)
                }
            };
            case.with("axis", &axis).with("dtype", &dtype)
        }
        "reshape" | "contrib_reverse_reshape" => {
            let newshape: Vec<i64> = match name {
                "reshape" => c.pick(&[&[-1i64][..], &[-2, 1], &[0, -1], &[1, -1, 1]]).to_vec(),
                _ => vec![-1, 0],
            };
            case(vec![c.tensor(dtype, &shape, 0, 9)]).with("newshape", &newshape)
        }
        "dyn.reshape" => {
            let count = shape.iter().product::<i64>();
            let newshape = c.pick(&[[1, count], [-1, 1], [0, -1]]);
            case(vec![c.tensor(dtype, &shape, 0, 9), c.vector(&newshape)])
        }
        "reshape_like" => {
            let flat = [shape.iter().product::<i64>()];
            case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(float, &flat, 0, 9)])
        }
        "transpose" => {
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]);
            let first = c.below(rank) as i64;
            let axes: Vec<i64> =
                (0..rank as i64).map(|axis| (axis + first) % rank as i64).collect();
            if c.below(2) == 0 { case } else { case.with("axes", &axes) }
        }
        "squeeze" | "dyn.squeeze" => {
            let mut shape = shape;
            shape[at] = 1;
            let data = c.tensor(dtype, &shape, 0, 9);
            match (name, c.below(2)) {
                ("squeeze", 0) => case(vec![data]),
                ("squeeze", _) => case(vec![data]).with("axis", &vec![axis]),
                _ => case(vec![data, c.vector(&[axis])]),
            }
        }
        "expand_dims" | "dyn.expand_dims" => {
            let data = c.tensor(dtype, &shape, 0, 9);
            let axis = c.axis(rank + 1);
            let new = c.below(3) as i64;
            match name {
                "expand_dims" => case(vec![data]).with("axis", &axis),
                _ => case(vec![data, scalar(DType::INT32, axis as f64)]),
            }
            .with("num_newaxis", &new)
        }
        "concatenate" | "stack" => {
            let fields: Vec<Value> = (0..1 + c.below(3))
                .map(|n| {
                    let mut shape = shape.clone();
                    shape[at] += if name == "concatenate" { n as i64 } else { 0 };
                    c.tensor(dtype, &shape, 0, 9)
                })
                .collect();
            let axis = if name == "stack" { c.axis(rank + 1) } else { axis };
            case(vec![Value::tuple(fields)]).with("axis", &axis)
        }
        "split" => {
            let mut shape = shape;
            shape[at] = 6;
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]).with("axis", &axis);
            match c.below(2) {
                0 => case.with("indices_or_sections", &c.pick(&[1i64, 2, 3])),
                _ => case.with("indices_or_sections", &c.pick(&[&[][..], &[2i64, 2, 5]]).to_vec()),
            }
        }
        "reverse" => case(vec![c.tensor(dtype, &shape, 0, 9)]).with("axis", &axis),
        "repeat" => {
            let repeats = 1 + c.below(3) as i64;
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]);
            case.with("axis", &axis).with("repeats", &repeats)
        }
        "tile" | "dyn.tile" => {
            let count = c.below(4);
            let reps = c.shape(count);
            let data = c.tensor(dtype, &shape, 0, 9);
            match name {
                "tile" => case(vec![data]).with("reps", &reps),
                _ => case(vec![data, c.vector(&reps)]),
            }
        }
        "broadcast_to" | "broadcast_to_like" | "dyn.broadcast_to" => {
            let mut from = shape[c.below(rank)..].to_vec();
            if let Some(first) = from.first_mut() {
                *first = 1;
            }
            let data = c.tensor(dtype, &from, 0, 9);
            match name {
                "broadcast_to" => case(vec![data]).with("shape", &shape),
                "dyn.broadcast_to" => case(vec![data, c.vector(&shape)]),
                _ => case(vec![data, c.tensor(float, &shape, 0, 9)]),
            }
        }
        "shape_of" | "ndarray_size" => {
            case(vec![c.tensor(dtype, &shape, 0, 9)]).with("dtype", &DType::INT64)
        }
        "take" => {
            let rank = c.below(3);
            let indices = c.shape(rank);
            let operands =
                vec![c.tensor(dtype, &shape, 0, 9), c.tensor(DType::INT32, &indices, -2, 4)];
            let mode = c.pick(&["clip", "wrap"]).to_string();
            match c.below(2) {
                0 => case(operands).with("mode", &mode),
                _ => case(operands).with("mode", &mode).with("axis", &axis),
            }
        }
        "gather" => {
            let mut indices = shape.clone();
            indices[at] = 2;
            let operands =
                vec![c.tensor(dtype, &shape, 0, 9), c.tensor(DType::INT64, &indices, -1, 1)];
            case(operands).with("axis", &axis)
        }
        "gather_nd" => {
            let indices = vec![1 + c.below(rank) as i64, 2, 2];
            case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(DType::INT32, &indices, -1, 1)])
        }
        "adv_index" => {
            let fields = vec![
                c.tensor(dtype, &shape, 0, 9),
                c.tensor(DType::INT32, &[2, 1], -1, 1),
                c.tensor(DType::INT32, &[3], -1, 1),
            ];
            let used = 2 + c.below(rank.min(2));
            case(vec![Value::tuple(fields.into_iter().take(used))])
        }
        "where" => {
            let operands = vec![
                c.tensor(DType::BOOL, &shape, 0, 2),
                c.tensor(dtype, &shape[at..], 0, 9),
                c.tensor(dtype, &[], 0, 9),
            ];
            case(operands)
        }
        "unravel_index" => case(vec![c.tensor(DType::INT32, &shape, 0, 6), c.vector(&[2, 3])]),
        "invert_permutation" => case(vec![c.vector(&[2, 0, 1])]),
        "strided_slice" | "dyn.strided_slice" | "strided_set" => {
            let (begin, end, strides) = (vec![0; rank], vec![1; rank], vec![1; rank]);
            let data = c.tensor(dtype, &shape, 0, 9);
            match name {
                "strided_slice" => {
                    let size = c.pick(&["size", "end"]).to_string();
                    let case = case(vec![data]).with("slice_mode", &size);
                    case.with("begin", &begin).with("end", &end).with("strides", &strides)
                }
                "strided_set" => {
                    let v = c.tensor(dtype, &vec![1; rank], 0, 9);
                    case(vec![data, v, c.vector(&begin), c.vector(&end), c.vector(&strides)])
                }
                _ => case(vec![data, c.vector(&begin), c.vector(&end), c.vector(&strides)]),
            }
        }
        "slice_like" => {
            let mut like = shape.clone();
            like[at] = 1;
            case(vec![c.tensor(dtype, &shape, 0, 9), c.tensor(float, &like, 0, 9)])
        }
        "scatter_elements" | "scatter_nd" => {
            let mut indices = shape.clone();
            indices[at] = 2;
            let reduction = c.pick(&["update", "add", "mul", "mean", "min", "max"]).to_string();
            let data = c.tensor(dtype, &shape, 0, 9);
            if name == "scatter_elements" {
                let places = c.tensor(DType::INT32, &indices, -1, 1);
                let updates = c.tensor(dtype, &indices, 0, 9);
                let case = case(vec![data, places, updates]);
                return case.with("axis", &axis).with("reduction", &reduction);
            }
            let places = c.tensor(DType::INT32, &[1, 2], -1, 1);
            let mut updates = shape.clone();
            updates[0] = 2;
            case(vec![data, places, c.tensor(dtype, &updates, 0, 9)]).with("mode", &reduction)
        }
        "trilu" => {
            let shape = [2, 3, 3];
            let k = scalar(DType::INT32, c.below(5) as f64 - 2.0);
            case(vec![c.tensor(dtype, &shape, 0, 9), k]).with("upper", &(c.below(2) == 0))
        }
        "matrix_set_diag" => {
            let data = c.tensor(dtype, &[2, 3, 4], 0, 9);
            let diagonals = c.tensor(dtype, &[2, 3, 3], 0, 9);
            case(vec![data, diagonals]).with("k1", &-1i64).with("k2", &1i64)
        }
        "sequence_mask" | "reverse_sequence" => {
            let data = c.tensor(dtype, &[3, 3, 2], 0, 9);
            case(vec![data, c.tensor(DType::INT32, &[3], 0, 5)])
        }
        "sort" | "argsort" => {
            let ascending = c.below(2) == 0;
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]).with("axis", &axis);
            case.with("is_ascend", &ascending)
        }
        "topk" | "dyn.topk" => {
            let k = c.below(4) as i64;
            let kind = c.pick(&["both", "values", "indices"]).to_string();
            let data = c.tensor(dtype, &shape, 0, 9);
            let case = match name {
                "topk" => case(vec![data]).with("k", &k),
                _ => case(vec![data, scalar(DType::INT32, k as f64)]),
            };
            case.with("axis", &axis).with("ret_type", &kind)
        }
        "searchsorted" => {
            let row = tensor(float, &[4], &[1.0, 2.0, 2.0, 7.0]);
            case(vec![row, c.tensor(float, &shape, 0, 9)]).with("right", &(c.below(2) == 0))
        }
        "dft" => {
            let parts = vec![c.tensor(float, &shape, -4, 9), c.tensor(float, &shape, -4, 9)];
            case(parts).with("inverse", &(c.below(2) == 0))
        }
        "stft" => {
            let (fft, hop) = (4 + c.below(3) as i64, 1 + c.below(3) as i64);
            let signal: &[i64] = if c.below(2) == 0 { &[9] } else { &[2, 9] };
            case(vec![c.tensor(float, signal, -4, 9), c.tensor(dtype, &[3], 0, 9)])
                .with("n_fft", &fft)
                .with("hop_length", &hop)
                .with("win_length", &3i64)
                .with("onesided", &(c.below(2) == 0))
        }
        "unique" => {
            let counts = c.below(2) == 0;
            let case = match c.below(2) {
                0 => case(vec![c.tensor(dtype, &shape, 0, 3)]).with("axis", &Some(axis)),
                _ => {
                    let count = c.below(6) as i64;
                    case(vec![c.tensor(dtype, &[count], 0, 3)])
                }
            };
            case.with("return_counts", &counts)
        }
        "image.grid_sample" => {
            let axes = 1 + c.below(3);
            let (image, mut grid) = (c.shape(axes + 2), c.shape(axes + 2));
            (grid[0], grid[1]) = (image[0], axes as i64);
            let method = c.pick(&["nearest", "bilinear", "bicubic"]).to_string();
            let padding = c.pick(&["zeros", "border", "reflection"]).to_string();
            case(vec![c.tensor(dtype, &image, 0, 9), c.tensor(float, &grid, -3, 4)])
                .with("method", &method)
                .with("padding_mode", &padding)
                .with("align_corners", &(c.below(2) == 0))
        }
        "vision.all_class_non_max_suppression" => {
            let [images, classes, boxes] = [(); 3].map(|()| c.below(4) as i64);
            let corners = c.tensor(float, &[images, boxes, 4], 0, 9);
            let scores = c.tensor(float, &[images, classes, boxes], 0, 9);
            let most = c.tensor(DType::INT64, &[], 0, 4);
            case(vec![corners, scores, most, scalar(float, 0.25), scalar(float, 1.0)])
        }
        "vision.roi_align" | "vision.roi_pool" => {
            let (images, regions) = (c.shape(4), c.below(3) as i64);
            let corners = c.tensor(float, &[regions, 5], 0, 1);
            let case = case(vec![c.tensor(float, &images, -4, 9), corners])
                .with("pooled_size", &c.shape(2))
                .with("spatial_scale", &0.5);
            match name {
                "vision.roi_align" => case.with("sample_ratio", &(c.below(3) as i64)),
                _ => case,
            }
        }
        "linalg.det" => {
            let rows = c.below(4) as i64;
            case(vec![c.tensor(float, &[shape[0], rows, rows], -4, 9)])
        }
        "nn.deformable_conv2d" => {
            let (groups, apart) = (1 + c.below(2) as i64, 1 + c.below(2) as i64);
            let kernel = c.shape(2);
            let (image, taps) = (c.shape(2), kernel[0] * kernel[1] * apart);
            let places = [0, 1].map(|axis| image[axis] + 2 - kernel[axis] + 1);
            let weight = [2 * groups, 2 * apart, kernel[0], kernel[1]];
            let shape = |channels: i64| [2, channels, places[0], places[1]];
            case(vec![
                c.tensor(float, &[2, weight[1] * groups, image[0], image[1]], -4, 9),
                c.tensor(float, &shape(2 * taps), -2, 3),
                c.tensor(float, &weight, -4, 9),
                c.tensor(float, &shape(taps), 0, 3),
            ])
            .with("padding", &vec![1i64; 4])
            .with("groups", &groups)
            .with("deformable_groups", &apart)
        }
        "cumsum" | "cumprod" => {
            let case = case(vec![c.tensor(dtype, &shape, 0, 9)]);
            let case = case.with("exclusive", &(c.below(2) == 0));
            if c.below(2) == 0 { case } else { case.with("axis", &axis) }
        }
        "image.resize1d" | "image.resize2d" | "image.resize3d" | "dyn.image.resize2d" => {
            let axes = if name.ends_with("1d") {
                1
            } else if name.ends_with("2d") {
                2
            } else {
                3
            };
            let size: Vec<i64> = c.shape(axes);
            let data = c.shape(axes + 2);
            let data = c.tensor(dtype, &data, 0, 9);
            let method = c.pick(&["nearest_neighbor", "linear", "cubic"]).to_string();
            let mode = c
                .pick(&["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
                .to_string();
            let case = match name {
                "dyn.image.resize2d" => {
                    case(vec![data, c.vector(&size), floats(&[4], &[0.0, 0.0, 1.0, 1.0])])
                }
                _ => case(vec![data]).with("size", &size),
            };
            case.with("method", &method).with("coordinate_transformation_mode", &mode)
        }
        "dyn.zeros" | "dyn.ones" => case(vec![c.vector(&shape)]).with("dtype", &dtype),
        "dyn.full" => case(vec![c.tensor(dtype, &[], 0, 9), c.vector(&shape)]),
        "dyn.nn.upsampling" => {
            let shape = c.shape(4);
            case(vec![c.tensor(dtype, &shape, 0, 9), scalar(float, 2.0), scalar(float, 1.5)])
        }
        "dyn.nn.upsampling3d" => {
            let shape = c.shape(5);
            let mut operands = vec![c.tensor(dtype, &shape, 0, 9)];
            operands.extend([scalar(float, 2.0), scalar(float, 1.5), scalar(float, 1.0)]);
            case(operands)
        }
        "dyn.nn.pad" => {
            let widths = c.tensor(DType::INT32, &[rank as i64, 2], 0, 3);
            let mode = c.pick(&["constant", "edge"]).to_string();
            let data = c.tensor(dtype, &shape, 0, 9);
            case(vec![data, widths, scalar(dtype, 1.0)]).with("pad_mode", &mode)
        }
        // The rest takes one tensor of any shape and needs no attributes.
        _ => case(vec![c.tensor(dtype, &shape, 0, 9)]),
    }
}

/// `case` with one operand or attribute replaced by something that may not fit.
fn broken(mut case: Case, c: &mut Choices) -> Case {
    let rank = c.below(4);
    let dtype = c.dtype();
    let shape: Vec<i64> = (0..rank).map(|_| c.below(3) as i64).collect();
    let other = c.tensor(dtype, &shape, -3, 6);
    let place = c.below(case.operands.len().max(1));
    match (c.below(3), case.operands.get_mut(place)) {
        (0, Some(operand)) => *operand = other,
        (1, Some(operand)) => *operand = Value::tuple([other]),
        _ => {
            let entries = case.attrs.entries();
            if entries.is_empty() {
                return case;
            }
            let (key, _) = entries[c.below(entries.len())];
            let int = c.pick(&[-4, -2, -1, 0, 1, 2, 3, 5, i64::MIN, i64::MAX]);
            let value = match c.below(3) {
                0 => Attr::of(&int),
                1 => Attr::of(&vec![int, c.pick(&[-1, 0, 2])]),
                _ => Attr::new(AttrData::None),
            };
            case.attrs = case.attrs.with(key, &value);
        }
    }
    case
}

/// The operators of these tests; operands of quantized ones are made in `quantized`.
fn names(registry: &Registry) -> impl Iterator<Item = &'static str> {
    let names = registry.ops().map(|info| info.def.name.trim_start_matches("relay."));
    names.filter(|name| !name.starts_with("qnn."))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn evaluators_agree_with_relations(seed in 1u64..) {
        let registry = registry();
        let mut choices = Choices(seed);
        for name in names(&registry) {
            valid(name, &mut choices).run();
        }
    }

    #[test]
    fn wrong_operands_are_errors(seed in 1u64..) {
        let registry = registry();
        let mut choices = Choices(seed);
        for name in names(&registry) {
            let case = broken(valid(name, &mut choices), &mut choices);
            let (inferred, value) = (case.infer(&registry, false), case.evaluate(&registry));
            if let (Ok(ty), Ok(value)) = (inferred, value) {
                prop_assert!(fits(ty, &value), "{case:?}: inferred {ty}, found {value:?}");
            }
        }
    }
}

#[test]
fn every_operator_is_documented_and_evaluated() {
    for info in registry().ops() {
        let def = &info.def;
        let doc = def.doc.replace('\n', " ");
        let is_new = doc.contains("no such operator");
        assert!(is_new || doc.contains("Relay operator level"), "{}: {doc}", def.name);
        let fields = def.operands.iter().map(|field| field.doc);
        let attrs = def.attrs.iter().map(|field| field.doc);
        assert!(fields.chain(attrs).all(|doc| !doc.is_empty()), "{}", def.name);
        // A pass puts something else in its place.
        let is_expanded = def.name == "relay.grad";
        let is_evaluated = is_expanded || info.hook::<Evaluate>().is_some();
        assert!(is_evaluated && def.infer.is_some(), "{}", def.name);
        // The original fuses few quantized operators: it lowers them first.
        let fuses = info.hook::<crate::FusionPattern>().is_some();
        assert!(fuses || def.name.starts_with("relay.qnn."), "{}", def.name);
    }
}
