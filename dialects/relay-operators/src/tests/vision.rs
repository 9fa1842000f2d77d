//! Sampling images, finding objects, determinants: values by hand.

use super::*;

#[test]
fn grids_sample_between_pixels() {
    let image = || floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    // Columns first: the four corners, the middle, and a place outside.
    let places = [[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [3.0, 0.0]];
    let grid = || {
        let rows = (0..2).flat_map(|axis| places.map(|place| place[axis]));
        floats(&[1, 2, 1, 4], &rows.collect::<Vec<f64>>())
    };
    let sampled = |padding: &str, method: &str, corners: bool| {
        Case::new("image.grid_sample", [image(), grid()])
            .with("padding_mode", &padding.to_string())
            .with("method", &method.to_string())
            .with("align_corners", &corners)
    };
    sampled("zeros", "bilinear", true).gives(&[1, 1, 1, 4], &[1.0, 4.0, 2.5, 0.0]);
    sampled("border", "bilinear", true).gives(&[1, 1, 1, 4], &[1.0, 4.0, 2.5, 3.0]);
    // Two turns lie between the last pixel and 3.
    sampled("reflection", "bilinear", true).gives(&[1, 1, 1, 4], &[1.0, 4.0, 2.5, 2.0]);
    // A corner of the image is a quarter pixel and zeros.
    sampled("zeros", "bilinear", false).gives(&[1, 1, 1, 4], &[0.25, 1.0, 2.5, 0.0]);
    sampled("zeros", "nearest", true).gives(&[1, 1, 1, 4], &[1.0, 4.0, 1.0, 0.0]);
    let wrong = Case::new("image.grid_sample", [image(), floats(&[1, 3, 1, 4], &[0.0; 12])]);
    assert!(wrong.type_error().contains('3'), "{}", wrong.type_error());
}

#[test]
fn boxes_that_overlap_better_ones_are_left_out() {
    // The second overlaps the first by a half; the third lies apart, its corners the other way round.
    let boxes = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 2.0, 9.0, 9.0, 8.0, 8.0];
    for dtype in [DType::FLOAT32, DType::FLOAT64, DType::FLOAT16] {
        let tensor = |shape: &[i64], values: &[f64]| {
            let tensor = TensorData::from_f64(dtype, shape, values);
            Value::from(tensor.expect("as many numbers as the shape says"))
        };
        let kept_of = |scores: [f64; 3], most: f64, overlap: f64, least: f64| {
            let name = "vision.all_class_non_max_suppression";
            let value = Case::new(
                name,
                [
                    tensor(&[1, 3, 4], &boxes),
                    tensor(&[1, 1, 3], &scores),
                    scalar(DType::INT64, most),
                    scalar(DType::FLOAT32, overlap),
                    scalar(DType::FLOAT32, least),
                ],
            )
            .run();
            let fields = value.as_tuple().unwrap();
            let count = fields[1].as_tensor().unwrap().to_i64()[0] as usize;
            let places = fields[0].as_tensor().unwrap().to_i64();
            assert!(places[count * 3..].iter().all(|place| *place == 0));
            places[..count * 3].chunks(3).map(|row| row[2]).collect::<Vec<i64>>()
        };
        let kept =
            |most: f64, overlap: f64, least: f64| kept_of([0.5, 0.75, 0.25], most, overlap, least);
        assert_eq!(kept(3.0, 0.25, 0.0), [1, 2]);
        // As a part of what both cover, it is a half, which is not more than a half.
        assert_eq!(kept(3.0, 0.5, 0.0), [1, 0, 2]);
        assert_eq!(kept(2.0, 0.5, 0.0), [1, 0]);
        assert_eq!(kept(3.0, 0.5, 0.25), [1, 0]);
        assert_eq!(kept(0.0, 0.5, 0.0), Vec::<i64>::new());
        // Of equal scores the first comes first, and zeros are equal; what is no number is no candidate.
        assert_eq!(kept_of([0.0, -0.0, f64::NAN], 3.0, 0.5, -1.0), [0, 1]);
        assert_eq!(kept_of([-0.5, -0.75, 0.5], 3.0, 0.5, f64::NEG_INFINITY), [2, 0, 1]);
    }
}

#[test]
fn regions_are_pooled_to_one_size() {
    let image = || floats(&[1, 1, 4, 4], &(0..16).map(f64::from).collect::<Vec<f64>>());
    let pooled = |name: &str, corners: [f64; 4]| {
        let [x0, y0, x1, y1] = corners;
        Case::new(name, [image(), floats(&[1, 5], &[0.0, x0, y0, x1, y1])])
            .with("pooled_size", &vec![2i64, 2])
            .with("spatial_scale", &1.0)
    };
    // Of planes, means are what stands in the middle of bins.
    let aligned = pooled("vision.roi_align", [0.5, 0.5, 2.5, 2.5]).with("sample_ratio", &2i64);
    aligned.clone().with("aligned", &true).gives(&[1, 1, 2, 2], &[2.5, 3.5, 6.5, 7.5]);
    aligned.gives(&[1, 1, 2, 2], &[5.0, 6.0, 9.0, 10.0]);
    pooled("vision.roi_pool", [0.0, 0.0, 3.0, 3.0]).gives(&[1, 1, 2, 2], &[5.0, 7.0, 13.0, 15.0]);
    let outside =
        Case::new("vision.roi_pool", [image(), floats(&[1, 5], &[1.0, 0.0, 0.0, 3.0, 3.0])])
            .with("pooled_size", &vec![2i64, 2])
            .with("spatial_scale", &1.0);
    assert_eq!(outside.value_error(), "expected an image below 1, found 1");
}

#[test]
fn deformable_convolutions_move_their_taps() {
    let image = || floats(&[1, 1, 3, 3], &(0..9).map(f64::from).collect::<Vec<f64>>());
    let weight = floats(&[1, 1, 2, 2], &[1.0, 1.0, 1.0, 1.0]);
    let convolved = |row: f64, column: f64, mask: f64| {
        let offsets = (0..8).flat_map(|at| [if at % 2 == 0 { row } else { column }; 4]);
        let offsets = floats(&[1, 8, 2, 2], &offsets.collect::<Vec<f64>>());
        let mask = floats(&[1, 4, 2, 2], &[mask; 16]);
        Case::new("nn.deformable_conv2d", [image(), offsets, weight.clone(), mask])
    };
    convolved(0.0, 0.0, 1.0).gives(&[1, 1, 2, 2], &[8.0, 12.0, 20.0, 24.0]);
    convolved(0.0, 0.0, 0.5).gives(&[1, 1, 2, 2], &[4.0, 6.0, 10.0, 12.0]);
    // Half a pixel to the right; what is outside is 0.
    convolved(0.0, 0.5, 1.0).gives(&[1, 1, 2, 2], &[10.0, 9.5, 22.0, 18.5]);
    convolved(9.0, 0.0, 1.0).gives(&[1, 1, 2, 2], &[0.0; 4]);
}

#[test]
fn determinants_change_sign_with_rows() {
    let determinants =
        |shape: &[i64], values: &[f64]| Case::new("linalg.det", [floats(shape, values)]);
    determinants(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0]).gives(&[2], &[-2.0, -1.0]);
    determinants(&[3, 3], &[2.0, 0.0, 1.0, 4.0, 0.0, 2.0, 0.0, 3.0, 5.0]).gives(&[], &[0.0]);
    determinants(&[2, 0, 0], &[]).gives(&[2], &[1.0, 1.0]);
    assert!(determinants(&[2, 3], &[0.0; 6]).type_error().contains('3'));
}

#[test]
fn slices_are_told_apart_along_an_axis() {
    let data = ints(&[2, 3, 2], &[5, 6, 1, 2, 5, 6, 7, 8, 3, 4, 7, 8]);
    let value =
        Case::new("unique", [data]).with("axis", &Some(1i64)).with("return_counts", &true).run();
    let fields: Vec<Vec<i64>> =
        value.as_tuple().unwrap().iter().map(|field| field.as_tensor().unwrap().to_i64()).collect();
    assert_eq!(fields[0], [1, 2, 5, 6, 0, 0, 3, 4, 7, 8, 0, 0]);
    assert_eq!(fields[1..], [vec![1, 0, 0], vec![1, 0, 1], vec![2], vec![1, 2, 0]]);
}
