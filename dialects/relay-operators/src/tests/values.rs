//! Values against hand-computed ones.

use super::*;

#[test]
fn elementwise() {
    let x = || floats(&[3], &[-1.5, 0.0, 2.5]);
    let unary = |name: &str| Case::new(name, [x()]);
    unary("exp").gives(&[3], &[0.22313016, 1.0, 12.182494]);
    unary("sigmoid").gives(&[3], &[0.18242552, 0.5, 0.92414182]);
    unary("tanh").gives(&[3], &[-0.90514825, 0.0, 0.98661430]);
    unary("erf").gives(&[3], &[-0.96610515, 0.0, 0.99959305]);
    unary("sign").gives(&[3], &[-1.0, 0.0, 1.0]);
    unary("round").gives(&[3], &[-2.0, 0.0, 3.0]);
    unary("floor").gives(&[3], &[-2.0, 0.0, 2.0]);
    unary("trunc").gives(&[3], &[-1.0, 0.0, 2.0]);
    unary("rsqrt").gives(&[3], &[f64::NAN, f64::INFINITY, 0.63245553]);
    unary("clip").with("a_min", &-1.0).with("a_max", &1.0).gives(&[3], &[-1.0, 0.0, 1.0]);
    unary("logical_not").gives(&[3], &[0.0, 1.0, 0.0]);
    let tests = floats(&[3], &[f64::NAN, f64::INFINITY, 1.0]);
    Case::new("isnan", [tests.clone()]).gives(&[3], &[1.0, 0.0, 0.0]);
    Case::new("isinf", [tests.clone()]).gives(&[3], &[0.0, 1.0, 0.0]);
    Case::new("isfinite", [tests]).gives(&[3], &[0.0, 0.0, 1.0]);
    Case::new("bitwise_not", [ints(&[2], &[0, 5])]).gives(&[2], &[-1.0, -6.0]);
    let least = tensor(DType::INT8, &[1], &[-128.0]);
    Case::new("abs", [least.clone()]).gives(&[1], &[-128.0]);
    Case::new("negative", [least]).gives(&[1], &[-128.0]);
    Case::new("fixed_point_multiply", [ints(&[2], &[10, -7])])
        .with("multiplier", &(1i64 << 30))
        .with("shift", &0i64)
        .gives(&[2], &[5.0, -3.0]);
}

#[test]
fn real_functions_are_accurate_far_out() {
    let of = |name: &'static str, x: f64| Case::new(name, [tensor(DType::FLOAT64, &[1], &[x])]);
    of("asinh", f64::MAX).gives(&[1], &[710.475860073944]);
    of("asinh", -f64::MAX).gives(&[1], &[-710.475860073944]);
    of("acosh", f64::MAX).gives(&[1], &[710.475860073944]);
    of("acosh", -65504.0).gives(&[1], &[f64::NAN]);
}

#[test]
fn casts() {
    let cast = |value: Value, dtype: DType| Case::new("cast", [value]).with("dtype", &dtype);
    let x = floats(&[4], &[-1.7, 0.4, 300.2, f64::NAN]);
    cast(x.clone(), DType::INT32).gives(&[4], &[-1.0, 0.0, 300.0, 0.0]);
    cast(x.clone(), DType::UINT8).gives(&[4], &[255.0, 0.0, 44.0, 0.0]);
    cast(x, DType::BOOL).gives(&[4], &[1.0, 1.0, 1.0, 1.0]);
    let big = TensorData::from_i64(DType::UINT64, &[1], &[-1]).unwrap();
    cast(big.into(), DType::FLOAT64).gives(&[1], &[18_446_744_073_709_551_615.0]);
    let bits = Case::new("reinterpret", [floats(&[1], &[1.0])]).with("dtype", &DType::INT32);
    bits.gives(&[1], &[f64::from(0x3f80_0000)]);
    let narrow = Case::new("reinterpret", [floats(&[1], &[1.0])]).with("dtype", &DType::INT8);
    assert!(narrow.type_error().contains("as wide as float32, found int8"));
}

#[test]
fn arithmetic() {
    let on = |name: &str, a: &[i64], b: &[i64]| {
        Case::new(name, [ints(&[a.len() as i64], a), ints(&[b.len() as i64], b)])
    };
    on("divide", &[7, -7], &[2, 2]).gives(&[2], &[3.0, -3.0]);
    on("floor_divide", &[7, -7], &[2, 2]).gives(&[2], &[3.0, -4.0]);
    on("mod", &[7, -7], &[3, 3]).gives(&[2], &[1.0, -1.0]);
    on("floor_mod", &[7, -7], &[3, 3]).gives(&[2], &[1.0, 2.0]);
    let floor_mod =
        |a: f64, b: f64| Case::new("floor_mod", [floats(&[1], &[a]), floats(&[1], &[b])]);
    floor_mod(1e30, 7.0).gives(&[1], &[1.0]);
    floor_mod(-7.0, f64::INFINITY).gives(&[1], &[f64::INFINITY]);
    floor_mod(-7.5, 2.0).gives(&[1], &[0.5]);
    on("power", &[2, -3], &[10, 3]).gives(&[2], &[1024.0, -27.0]);
    on("power", &[2], &[31]).gives(&[1], &[f64::from(i32::MIN)]);
    on("left_shift", &[1, 1], &[4, 40]).gives(&[2], &[16.0, 0.0]);
    on("right_shift", &[-5, -5], &[1, 200]).gives(&[2], &[-3.0, -1.0]);
    on("bitwise_xor", &[6], &[3]).gives(&[1], &[5.0]);
    assert!(on("divide", &[1], &[0]).value_error().contains("division by zero"));
    assert!(on("floor_mod", &[1], &[0]).value_error().contains("division by zero"));
    assert!(on("power", &[2], &[-1]).value_error().contains("exponent"));
    assert!(on("left_shift", &[1], &[-1]).value_error().contains("shift"));
    let max = TensorData::from_i64(DType::UINT64, &[2], &[-1, 3]).unwrap();
    let two = TensorData::from_i64(DType::UINT64, &[1], &[2]).unwrap();
    let pair = [Value::from(max), Value::from(two)];
    Case::new("divide", pair.clone()).gives(&[2], &[9_223_372_036_854_775_807.0, 1.0]);
    Case::new("greater", pair).gives(&[2], &[1.0, 1.0]);
    let float =
        |name: &str, a: f64, b: f64| Case::new(name, [floats(&[1], &[a]), floats(&[], &[b])]);
    float("divide", 1.0, 0.0).gives(&[1], &[f64::INFINITY]);
    float("floor_mod", -7.0, 3.0).gives(&[1], &[2.0]);
    float("maximum", f64::NAN, 1.0).gives(&[1], &[f64::NAN]);
    float("maximum", 1.0, f64::NAN).gives(&[1], &[f64::NAN]);
    float("not_equal", f64::NAN, f64::NAN).gives(&[1], &[1.0]);
    let rows = floats(&[2, 1], &[1.0, 2.0]);
    let columns = floats(&[3], &[10.0, 20.0, 30.0]);
    let sum = Case::new("add", [rows, columns]);
    sum.gives(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
    let wrong = Case::new("add", [floats(&[2], &[1.0, 2.0]), floats(&[3], &[0.0; 3])]);
    assert!(wrong.type_error().contains("expected shapes that broadcast, found (2,) and (3,)"));
    let wrong = Case::new("add", [floats(&[1], &[1.0]), ints(&[1], &[1])]);
    assert!(wrong.type_error().contains("one element type, found float32 and int32"));
}

#[test]
fn reductions() {
    let x = || floats(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 5.0, 0.0]);
    let reduce = |name: &str| Case::new(name, [x()]);
    reduce("sum").gives(&[], &[18.0]);
    reduce("sum").with("axis", &vec![-1i64]).gives(&[2], &[9.0, 9.0]);
    reduce("sum").with("axis", &0i64).with("keepdims", &true).gives(&[1, 3], &[5.0, 10.0, 3.0]);
    reduce("mean").with("axis", &0i64).with("exclude", &true).gives(&[2], &[3.0, 3.0]);
    reduce("prod").with("axis", &0i64).gives(&[3], &[4.0, 25.0, 0.0]);
    reduce("max").with("axis", &1i64).gives(&[2], &[5.0, 5.0]);
    reduce("min").gives(&[], &[0.0]);
    reduce("argmax").gives(&[], &[1.0]);
    reduce("argmax").with("select_last_index", &true).gives(&[], &[4.0]);
    reduce("argmin").with("axis", &1i64).gives(&[2], &[0.0, 2.0]);
    reduce("all").with("axis", &1i64).gives(&[2], &[1.0, 0.0]);
    Case::new("mean", [ints(&[2], &[-3, 0])]).gives(&[], &[-1.0]);
    // As in the definition, sums wrap at 64 bits.
    let long = TensorData::from_i64(DType::INT64, &[2], &[i64::MAX, i64::MAX]).unwrap();
    Case::new("mean", [long.into()]).gives(&[], &[-1.0]);
    // Halves have no 2049: their definitions sum in `float32`.
    for dtype in [DType::FLOAT16, DType::BFLOAT16] {
        let many = || tensor(dtype, &[4096], &[1.0; 4096]);
        Case::new("sum", [many()]).gives(&[], &[4096.0]);
        Case::new("mean", [many()]).gives(&[], &[1.0]);
        Case::new("variance", [many(), scalar(dtype, 0.0)]).gives(&[], &[1.0]);
        Case::new("collapse_sum_like", [many(), scalar(dtype, 0.0)]).gives(&[], &[4096.0]);
    }
    let empty = Case::new("max", [floats(&[0], &[])]);
    assert!(empty.value_error().contains("at least one element"));
    assert!(reduce("sum").with("axis", &2i64).type_error().contains("from -2 to 1, found 2"));
    assert!(reduce("sum").with("axis", &vec![0i64, -2]).type_error().contains("twice"));
    let variance = Case::new("variance", [x(), floats(&[2, 1], &[3.0, 3.0])]).with("axis", &1i64);
    variance.gives(&[2], &[8.0 / 3.0, 14.0 / 3.0]);
    variance.with("unbiased", &true).gives(&[2], &[4.0, 7.0]);
    Case::new("collapse_sum_like", [x(), floats(&[2, 1], &[0.0, 0.0])]).gives(&[2, 1], &[9.0, 9.0]);
    Case::new("collapse_sum_to", [x(), ints(&[1], &[3])]).gives(&[3], &[5.0, 10.0, 3.0]);
}

#[test]
fn reshapes() {
    let x = || floats(&[2, 3, 4], &(0..24).map(f64::from).collect::<Vec<_>>());
    let shape_of = |newshape: &[i64]| {
        let value = Case::new("reshape", [x()]).with("newshape", &newshape.to_vec()).run();
        value.as_tensor().map(|tensor| tensor.shape().to_vec()).unwrap_or_default()
    };
    assert_eq!(shape_of(&[4, 0, 2]), [4, 3, 2]);
    assert_eq!(shape_of(&[6, 1, -1]), [6, 1, 4]);
    assert_eq!(shape_of(&[-2, 1, 1]), [2, 3, 4, 1, 1]);
    assert_eq!(shape_of(&[-3, 4]), [6, 4]);
    assert_eq!(shape_of(&[-3, -2]), [6, 4]);
    assert_eq!(shape_of(&[-4, 1, 2, -2]), [1, 2, 3, 4]);
    assert_eq!(shape_of(&[2, -4, -1, 3, -2]), [2, 1, 3, 4]);
    let error = |newshape: &[i64]| {
        Case::new("reshape", [x()]).with("newshape", &newshape.to_vec()).type_error()
    };
    assert!(error(&[5, -1]).contains("a newshape of 24 elements"));
    assert!(error(&[23]).contains("expected a newshape of 24 elements, found 23"));
    assert!(error(&[-1, -1]).contains("at most one -1"));
    assert!(error(&[-5]).contains("found -5"));
    assert!(error(&[0, 0, 0, 0]).contains("for the 0 of newshape"));
    assert!(error(&[-4, 5, -1, -2]).contains("factors of 2"));
    let reverse = Case::new("contrib_reverse_reshape", [x()]).with("newshape", &vec![-1i64, 0]);
    assert_eq!(reverse.run().as_tensor().map(TensorData::shape), Some(&[6, 4][..]));
    let like = Case::new("reshape_like", [x(), floats(&[6, 5], &[0.0; 30])])
        .with("lhs_end", &2i64)
        .with("rhs_end", &1i64);
    assert_eq!(like.run().as_tensor().map(TensorData::shape), Some(&[6, 4][..]));
}

#[test]
fn movements() {
    let x = || ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let on = |name: &str| Case::new(name, [x()]);
    on("transpose").gives(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    on("transpose").with("axes", &vec![0i64, 1]).gives(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(on("transpose").with("axes", &vec![0i64]).type_error().contains("permutation of 2"));
    on("reverse").with("axis", &1i64).gives(&[2, 3], &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
    let repeated = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0];
    on("repeat").with("axis", &1i64).with("repeats", &2i64).gives(&[2, 6], &repeated);
    let tiled = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0];
    on("tile").with("reps", &vec![1i64, 1, 2]).gives(&[1, 2, 6], &tiled);
    let pair = || Value::tuple([x(), x()]);
    let joined = Case::new("concatenate", [pair()]).with("axis", &1i64);
    joined.gives(&[2, 6], &tiled);
    Case::new("stack", [pair()]).with("axis", &1i64).gives(&[2, 2, 3], &tiled);
    let parts = on("split").with("indices_or_sections", &vec![1i64]).with("axis", &1i64).run();
    let parts = elements::tensors(&parts).unwrap();
    assert_eq!((parts[0].to_i64(), parts[0].shape()), (vec![1, 4], &[2, 1][..]));
    assert_eq!((parts[1].to_i64(), parts[1].shape()), (vec![2, 3, 5, 6], &[2, 2][..]));
    let uneven = on("split").with("indices_or_sections", &2i64).with("axis", &1i64);
    assert!(uneven.type_error().contains("divide the extent 3, found 2"));
    Case::new("meshgrid", [Value::tuple([ints(&[2], &[1, 2]), ints(&[], &[7])])]).run();
    Case::new("shape_of", [x()]).gives(&[2], &[2.0, 3.0]);
    Case::new("ndarray_size", [x()]).gives(&[], &[6.0]);
    assert!(on("squeeze").with("axis", &vec![0i64]).type_error().contains("extent 1 on axis 0"));
}

#[test]
fn makers() {
    let range = |start: f64, stop: f64, step: f64| {
        let ends = [start, stop, step].map(|end| scalar(DType::FLOAT32, end));
        Case::new("arange", ends).with("dtype", &DType::FLOAT32)
    };
    range(1.0, 2.0, 0.4).gives(&[3], &[1.0, 1.4, 1.8]);
    range(3.0, 0.0, -2.0).gives(&[2], &[3.0, 1.0]);
    range(3.0, 0.0, 1.0).gives(&[0], &[]);
    assert!(range(0.0, 1.0, 0.0).value_error().contains("a step that reaches the end, found 0"));
    let hot = Case::new(
        "one_hot",
        [ints(&[2], &[1, 3]), scalar(DType::FLOAT32, 5.0), scalar(DType::FLOAT32, -1.0)],
    )
    .with("depth", &3i64);
    hot.clone().gives(&[2, 3], &[-1.0, 5.0, -1.0, -1.0, -1.0, -1.0]);
    hot.with("axis", &0i64).gives(&[3, 2], &[-1.0, -1.0, 5.0, -1.0, -1.0, -1.0]);
    let full = Case::new("full", [scalar(DType::INT32, 3.0)]).with("shape", &vec![2i64]);
    full.gives(&[2], &[3.0, 3.0]);
    let huge = Case::new("zeros", []).with("shape", &vec![1i64 << 40]).with("dtype", &DType::INT8);
    assert!(huge.value_error().contains("at most"));
}

#[test]
fn gathers() {
    let x = || ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let take = |indices: Value| Case::new("take", [x(), indices]);
    take(ints(&[2], &[5, 9])).gives(&[2], &[6.0, 6.0]);
    take(ints(&[2], &[2, -1])).with("axis", &1i64).gives(&[2, 2], &[3.0, 1.0, 6.0, 4.0]);
    let wrap = take(ints(&[], &[-1])).with("axis", &1i64).with("mode", &"wrap".to_string());
    wrap.gives(&[2], &[3.0, 6.0]);
    let fast = take(ints(&[1], &[3])).with("axis", &1i64).with("mode", &"fast".to_string());
    assert!(fast.value_error().contains("expected an index below 3, found 3"));
    let batched = take(ints(&[2, 2], &[0, 2, 1, 1])).with("axis", &1i64).with("batch_dims", &1i64);
    batched.gives(&[2, 2], &[1.0, 3.0, 5.0, 5.0]);
    let gather = Case::new("gather", [x(), ints(&[2, 2], &[2, 0, -1, 1])]).with("axis", &1i64);
    gather.gives(&[2, 2], &[3.0, 1.0, 6.0, 5.0]);
    let nd = |indices: Value| Case::new("gather_nd", [x(), indices]);
    nd(ints(&[2, 2], &[1, 0, 2, 0])).gives(&[2], &[6.0, 1.0]);
    nd(ints(&[1, 1], &[1])).gives(&[1, 3], &[4.0, 5.0, 6.0]);
    nd(ints(&[1, 2], &[2, 0])).with("batch_dims", &1i64).gives(&[2], &[3.0, 4.0]);
    let advanced = Value::tuple([x(), ints(&[2, 1], &[0, 1]), ints(&[2], &[0, 2])]);
    Case::new("adv_index", [advanced]).gives(&[2, 2], &[1.0, 3.0, 4.0, 6.0]);
    let chosen = Case::new("where", [ints(&[2, 1], &[1, 0]), x(), ints(&[], &[0])]);
    chosen.gives(&[2, 3], &[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
    Case::new("argwhere", [ints(&[2, 2], &[0, 1, 1, 0])]).gives(&[2, 2], &[0.0, 1.0, 1.0, 0.0]);
    let unravel = Case::new("unravel_index", [ints(&[2], &[5, 1]), ints(&[2], &[2, 3])]);
    unravel.gives(&[2, 2], &[1.0, 0.0, 2.0, 1.0]);
    Case::new("invert_permutation", [ints(&[3], &[2, 0, 1])]).gives(&[3], &[1.0, 2.0, 0.0]);
    let twice = Case::new("invert_permutation", [ints(&[2], &[1, 1])]);
    assert!(twice.value_error().contains("permutation"));
}

#[test]
fn slices() {
    let x = || ints(&[5], &[0, 1, 2, 3, 4]);
    let slice = |begin: i64, end: i64, stride: i64| {
        let case = Case::new("strided_slice", [x()]).with("begin", &vec![begin]);
        case.with("end", &vec![end]).with("strides", &vec![stride])
    };
    slice(1, -1, 2).gives(&[2], &[1.0, 3.0]);
    slice(-1, -9, -2).gives(&[3], &[4.0, 2.0, 0.0]);
    let size =
        |begin: i64, size: i64| slice(begin, size, 1).with("slice_mode", &"size".to_string());
    size(3, -1).gives(&[2], &[3.0, 4.0]);
    size(-2, 2).gives(&[2], &[3.0, 4.0]);
    size(-3, 2).gives(&[2], &[2.0, 3.0]);
    assert!(slice(0, 1, 0).type_error().contains("strides other than 0"));
    let set = Case::new(
        "strided_set",
        [x(), ints(&[2], &[7, 8]), ints(&[1], &[0]), ints(&[1], &[4]), ints(&[1], &[2])],
    );
    set.gives(&[5], &[7.0, 1.0, 8.0, 3.0, 4.0]);
    Case::new("slice_like", [x(), ints(&[2], &[0, 0])]).gives(&[2], &[0.0, 1.0]);
    let long = Case::new("slice_like", [x(), ints(&[6], &[0; 6])]);
    assert!(long.type_error().contains("at most 5 on axis 0, found 6"));
}

#[test]
fn scatters() {
    let scatter = |reduction: &str| {
        let operands = [floats(&[3], &[1.0, 2.0, 3.0]), ints(&[3], &[0, 0, -1]), {
            floats(&[3], &[10.0, 20.0, 30.0])
        }];
        Case::new("scatter_elements", operands).with("reduction", &reduction.to_string())
    };
    scatter("update").gives(&[3], &[20.0, 2.0, 30.0]);
    scatter("add").gives(&[3], &[31.0, 2.0, 33.0]);
    scatter("mul").gives(&[3], &[200.0, 2.0, 90.0]);
    scatter("mean").gives(&[3], &[31.0 / 3.0, 2.0, 16.5]);
    scatter("min").gives(&[3], &[1.0, 2.0, 3.0]);
    scatter("max").gives(&[3], &[20.0, 2.0, 30.0]);
    assert!(scatter("median").type_error().contains("attribute `reduction`"));
    let nd = Case::new(
        "scatter_nd",
        [ints(&[2, 2], &[0; 4]), ints(&[1, 1], &[1]), ints(&[1, 2], &[5, 6])],
    );
    nd.gives(&[2, 2], &[0.0, 0.0, 5.0, 6.0]);
}

#[test]
fn masks() {
    let x = || ints(&[3, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let k = || scalar(DType::INT32, 1.0);
    let upper = Case::new("trilu", [x(), k()]);
    upper.clone().gives(&[3, 3], &[0.0, 2.0, 3.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0]);
    let lower = upper.with("upper", &false);
    lower.gives(&[3, 3], &[1.0, 2.0, 0.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let main = Case::new("matrix_set_diag", [x(), ints(&[3], &[0, 0, 0])]);
    main.gives(&[3, 3], &[0.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0, 8.0, 0.0]);
    let band = Case::new("matrix_set_diag", [x(), ints(&[2, 3], &[-1, 10, 20, 30, 40, 50])]);
    let band = band.with("k1", &0i64).with("k2", &1i64);
    band.gives(&[3, 3], &[30.0, 10.0, 3.0, 4.0, 40.0, 20.0, 7.0, 8.0, 50.0]);
    let mask = Case::new("sequence_mask", [x(), ints(&[3], &[1, 2, 3])]).with("mask_value", &-1.0);
    mask.gives(&[3, 3], &[1.0, 2.0, 3.0, -1.0, 5.0, 6.0, -1.0, -1.0, 9.0]);
    let reversed = Case::new("reverse_sequence", [x(), ints(&[3], &[2, 3, 1])]);
    reversed.gives(&[3, 3], &[2.0, 1.0, 3.0, 6.0, 5.0, 4.0, 7.0, 8.0, 9.0]);
}

/// Sorting networks merge runs that the length cuts short.
#[test]
fn rows_of_all_lengths_are_sorted() {
    for length in 0..40 {
        let values: Vec<i64> = (0..length).map(|at| at * at % 11 % 7).collect();
        for is_ascend in [false, true] {
            let case = Case::new("argsort", [ints(&[length], &values)]);
            case.with("is_ascend", &is_ascend).run();
        }
        let values: Vec<i64> = (0..length).map(|at| at / 2).collect();
        let wanted: Vec<i64> = (-1..length + 1).collect();
        let search = [ints(&[length], &values), ints(&[length + 2], &wanted)];
        Case::new("searchsorted", search.clone()).run();
        Case::new("searchsorted", search).with("right", &true).run();
    }
}

#[test]
fn sorting() {
    let x = || floats(&[2, 3], &[3.0, f64::NAN, 1.0, 2.0, 2.0, 0.0]);
    Case::new("sort", [x()]).gives(&[2, 3], &[1.0, 3.0, f64::NAN, 0.0, 2.0, 2.0]);
    let descending = Case::new("argsort", [x()]).with("is_ascend", &false);
    descending.gives(&[2, 3], &[1.0, 0.0, 2.0, 0.0, 1.0, 2.0]);
    let columns = Case::new("argsort", [x()]).with("axis", &0i64);
    columns.gives(&[2, 3], &[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    let top = |kind: &str| {
        let case = Case::new("topk", [ints(&[2, 3], &[1, 3, 2, 6, 4, 5])]).with("k", &2i64);
        case.with("ret_type", &kind.to_string())
    };
    top("values").gives(&[2, 2], &[3.0, 2.0, 6.0, 5.0]);
    top("indices").gives(&[2, 2], &[1.0, 2.0, 0.0, 2.0]);
    top("values").with("axis", &0i64).with("k", &1i64).gives(&[1, 3], &[6.0, 4.0, 5.0]);
    let row = || ints(&[4], &[1, 2, 2, 5]);
    let search = Case::new("searchsorted", [row(), ints(&[3], &[0, 2, 9])]);
    search.clone().gives(&[3], &[0.0, 1.0, 4.0]);
    search.with("right", &true).gives(&[3], &[0.0, 3.0, 4.0]);
    let unique = Case::new("unique", [ints(&[5], &[4, 1, 4, 3, 1])]).with("return_counts", &true);
    let fields = |case: &Case| -> Vec<Vec<i64>> {
        let value = case.run();
        elements::tensors(&value).unwrap().into_iter().map(TensorData::to_i64).collect()
    };
    let expected: [&[i64]; 5] =
        [&[1, 3, 4, 0, 0], &[1, 3, 0, 0, 0], &[2, 0, 2, 1, 0], &[3], &[2, 1, 2, 0, 0]];
    assert_eq!(fields(&unique), expected);
    let expected: [&[i64]; 5] =
        [&[4, 1, 3, 0, 0], &[0, 1, 3, 0, 0], &[0, 1, 0, 2, 1], &[3], &[2, 2, 1, 0, 0]];
    assert_eq!(fields(&unique.with("sorted", &false)), expected);
    let scan = |name: &str| Case::new(name, [ints(&[2, 2], &[1, 2, 3, 4])]);
    scan("cumsum").gives(&[4], &[1.0, 3.0, 6.0, 10.0]);
    scan("cumsum").with("axis", &0i64).gives(&[2, 2], &[1.0, 2.0, 4.0, 6.0]);
    scan("cumprod")
        .with("axis", &1i64)
        .with("exclusive", &true)
        .gives(&[2, 2], &[1.0, 1.0, 1.0, 3.0]);
}

#[test]
fn resizing() {
    let x = || floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let resize = |method: &str, mode: &str| {
        let case = Case::new("image.resize2d", [x()]).with("size", &vec![1i64, 4]);
        let case = case.with("method", &method.to_string());
        case.with("coordinate_transformation_mode", &mode.to_string())
    };
    resize("linear", "half_pixel").gives(&[1, 1, 1, 4], &[2.0, 2.25, 2.75, 3.0]);
    let third = 1.0 / 3.0;
    let corners = [1.0, 1.0 + third, 2.0 - third, 2.0];
    resize("linear", "align_corners").gives(&[1, 1, 1, 4], &corners);
    resize("nearest_neighbor", "asymmetric")
        .with("rounding_method", &"floor".to_string())
        .gives(&[1, 1, 1, 4], &[1.0, 1.0, 2.0, 2.0]);
    let crop = resize("linear", "tf_crop_and_resize").with("size", &vec![1i64, 3]);
    let crop = crop.with("roi", &vec![0.0, 0.0, 1.0, 2.0]).with("extrapolation_value", &9.0);
    crop.gives(&[1, 1, 1, 3], &[2.0, 3.0, 9.0]);
    // The weights of cubic convolution at the middle are -1/16, 9/16, 9/16, -1/16 for alpha -1/2.
    let row = floats(&[1, 1, 4], &[0.0, 1.0, 4.0, 9.0]);
    let cubic = Case::new("image.resize1d", [row]).with("size", &vec![1i64]);
    cubic.with("method", &"cubic".to_string()).gives(&[1, 1, 1], &[36.0 / 16.0]);
    let wrong = resize("linear", "half_pixel").with("layout", &"NCXY".to_string());
    assert!(wrong.type_error().contains("a layout of 4 axes with H, W"));
}

#[test]
fn dynamic_shapes() {
    let x = || ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    let registry = registry();
    let reshape = Case::new("dyn.reshape", [x(), ints(&[2], &[3, -1])]);
    reshape.gives(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let types: Vec<String> =
        [false, true].map(|known| reshape.infer(&registry, known).unwrap().to_string()).into();
    assert_eq!(types, ["Tensor[(?, ?), int32]", "Tensor[(3, 2), int32]"]);
    let flat = Case::new("dyn.reshape", [x(), ints(&[1], &[-2])]);
    assert!(flat.value_error().contains("expected a newshape of rank 1, found [-2]"));
    let bounds = [ints(&[2], &[0, 1]), ints(&[2], &[2, 3]), ints(&[2], &[1, 1])];
    let slice = Case::new("dyn.strided_slice", std::iter::once(x()).chain(bounds));
    slice.gives(&[2, 2], &[2.0, 3.0, 5.0, 6.0]);
    let pad = |mode: &str| {
        let widths = ints(&[1, 2], &[2, 1]);
        let operands = [ints(&[3], &[1, 2, 3]), widths, scalar(DType::INT32, 9.0)];
        Case::new("dyn.nn.pad", operands).with("pad_mode", &mode.to_string())
    };
    pad("constant").gives(&[6], &[9.0, 9.0, 1.0, 2.0, 3.0, 9.0]);
    pad("edge").gives(&[6], &[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
    pad("reflect").gives(&[6], &[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    let upsampling = Case::new(
        "dyn.nn.upsampling",
        [
            floats(&[1, 1, 1, 2], &[1.0, 2.0]),
            scalar(DType::FLOAT32, 2.0),
            scalar(DType::FLOAT32, 2.0),
        ],
    );
    upsampling.gives(&[1, 1, 2, 4], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
}
