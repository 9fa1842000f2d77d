//! What models become.

use crate::support;

use std::collections::BTreeMap;

use bytes::Bytes;
use ir_core::TensorData;
use onnx_frontend::Options;
use support::*;

#[test]
fn a_graph_becomes_a_function_with_its_inputs_as_parameters() {
    let weight = floats("w", &[2, 3], &[0.5; 6]);
    let nodes = vec![
        node("MatMul", &["x", "w"], &["h"]),
        node("Add", &["h", "input.1"], &["s"]),
        node("Relu", &["s"], &["y"]),
    ];
    let inputs = vec![value("x", FLOAT, &["4", "2"]), value("input.1", FLOAT, &["3"])];
    let module = import(&model(17, graph(nodes, inputs, &["y"], vec![weight]))).unwrap().module;
    insta::assert_snapshot!(text(module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(4, 2), float32], %"input.1": Tensor[(3), float32], output_names=["y"]) -> Tensor[(4, 3), float32] {
      %0 = nn.matmul(%x, meta[relay.Constant][0] /* ty=Tensor[(2, 3), float32] */) /* ty=Tensor[(4, 3), float32] */;
      %1 = add(%0, %"input.1") /* ty=Tensor[(4, 3), float32] */;
      nn.relu(%1) /* ty=Tensor[(4, 3), float32] */
    }
    "#);
}

#[test]
fn operations_stand_where_their_node_does() {
    let nodes = vec![node("Relu", &["x"], &["y"])];
    let inputs = vec![value("x", FLOAT, &["2"])];
    let module = import(&model(17, graph(nodes, inputs, &["y"], vec![]))).unwrap().module;
    let body = module.body("main").unwrap();
    let relu = body.walk().find(|op| body.op_name(*op) == "relay.nn.relu").unwrap();
    let expected = ir_core::LocData::Imported(ir_core::Symbol::new("y_node"));
    assert_eq!(body.loc(relu).data(), expected);
}

#[test]
fn constants_share_the_bytes_of_the_file() {
    let weight = floats("w", &[1000], &[0.25; 1000]);
    let nodes = vec![node("Add", &["x", "w"], &["y"])];
    let inputs = vec![value("x", FLOAT, &["1000"])];
    let file = model(17, graph(nodes, inputs, &["y"], vec![weight]));
    let module = import(&file).unwrap().module;
    let body = module.body("main").unwrap();
    let tensor = body.walk().find_map(|op| body.attrs(op).value::<TensorData>("value")).unwrap();
    assert!(file.as_ptr_range().contains(&tensor.bytes().as_ptr()));
}

/// `x.view(x.size(0), -1)` as exporters write it.
fn view(dim: &str) -> Bytes {
    let nodes = vec![
        node("Shape", &["x"], &["shape"]),
        node("Gather", &["shape", "zero"], &["size"]),
        node("Unsqueeze", &["size", "axis"], &["sizes"]),
        node("Concat", &["sizes", "rest"], &["new"]).with("axis", Attribute::Int(0)),
        node("Reshape", &["x", "new"], &["y"]),
    ];
    let constants = vec![
        tensor("zero", INT64, &[], &0i64.to_le_bytes()),
        ints("axis", &[0]),
        ints("rest", &[-1]),
    ];
    let inputs = vec![value("x", FLOAT, &[dim, "3", "4"])];
    model(17, graph(nodes, inputs, &["y"], constants))
}

#[test]
fn shapes_of_static_inputs_fold() {
    insta::assert_snapshot!(text(import(&view("2")).unwrap().module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(2, 3, 4), float32], output_names=["y"]) -> Tensor[(2, 12), float32] {
      reshape(%x, newshape=[2, -1]) /* ty=Tensor[(2, 12), float32] */
    }
    "#);
}

#[test]
fn extents_are_open_variable_or_set() {
    insta::assert_snapshot!(text(import(&view("batch")).unwrap().module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(?, 3, 4), float32], output_names=["y"]) -> Tensor[(?, 12), float32] {
      reshape(%x, newshape=[0, -1]) /* ty=Tensor[(?, 12), float32] */
    }
    "#);
    let variable = Options { shape_variables: true, ..Options::default() };
    insta::assert_snapshot!(text(import_with(&view("batch"), &variable).unwrap().module), @r#"
    #[version = "0.0.5"]
    def @main[batch](%x: Tensor[(batch, 3, 4), float32], output_names=["y"]) -> Tensor[(batch, 12), float32] {
      reshape(%x, newshape=[0, -1]) /* ty=Tensor[(batch, 12), float32] */
    }
    "#);
    let set = |name: &str| Options {
        dims: BTreeMap::from([(name.to_string(), 5)]),
        ..Options::default()
    };
    insta::assert_snapshot!(text(import_with(&view("batch"), &set("batch")).unwrap().module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(5, 3, 4), float32], output_names=["y"]) -> Tensor[(5, 12), float32] {
      reshape(%x, newshape=[5, -1]) /* ty=Tensor[(5, 12), float32] */
    }
    "#);
    let found = import_with(&view("batch"), &set("bitch")).unwrap_err();
    assert_eq!(found[0].code, "E0808");
    assert_eq!(found[0].help.as_deref(), Some("did you mean `batch`?"));
}

#[test]
fn a_condition_that_is_computed_becomes_a_branch() {
    let branch = |op: &str| graph(vec![node(op, &["x", "x"], &["r"])], vec![], &["r"], vec![]);
    let nodes = vec![
        node("If", &["c"], &["y"])
            .with("then_branch", Attribute::Graph(branch("Add")))
            .with("else_branch", Attribute::Graph(branch("Mul"))),
    ];
    let inputs = vec![value("c", BOOL, &[]), value("x", FLOAT, &["2"])];
    let module = import(&model(17, graph(nodes.clone(), inputs, &["y"], vec![]))).unwrap().module;
    insta::assert_snapshot!(text(module), @r#"
    #[version = "0.0.5"]
    def @main(%c: bool, %x: Tensor[(2), float32], output_names=["y"]) -> Tensor[(2), float32] {
      if (%c) {
        add(%x, %x) /* ty=Tensor[(2), float32] */
      } else {
        multiply(%x, %x) /* ty=Tensor[(2), float32] */
      } /* ty=Tensor[(2), float32] */
    }
    "#);
    let constant = vec![tensor("c", BOOL, &[], &[0])];
    let inputs = vec![value("x", FLOAT, &["2"])];
    let module = import(&model(17, graph(nodes, inputs, &["y"], constant))).unwrap().module;
    insta::assert_snapshot!(text(module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(2), float32], output_names=["y"]) -> Tensor[(2), float32] {
      multiply(%x, %x) /* ty=Tensor[(2), float32] */
    }
    "#);
}

/// All orders of `items`.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let Some((last, rest)) = items.split_last() else { return vec![vec![]] };
    let places = |order: Vec<T>| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last.clone());
            order
        })
    };
    orders(rest).into_iter().flat_map(places).collect()
}

#[test]
fn nodes_may_stand_in_any_order() {
    // Each waits for the one before, one in a branch of it.
    let branch =
        |op: &str| graph(vec![node(op, &["b", "b"], &["inner"])], vec![], &["inner"], vec![]);
    let nodes = [
        node("Relu", &["x"], &["a"]),
        node("Exp", &["a"], &["b"]),
        node("If", &["c"], &["d"])
            .with("then_branch", Attribute::Graph(branch("Add")))
            .with("else_branch", Attribute::Graph(branch("Mul"))),
        node("Neg", &["d"], &["e"]),
        node("Tanh", &["e"], &["y"]),
    ];
    let text = |nodes: Vec<Message>| {
        let inputs = vec![value("c", BOOL, &[]), value("x", FLOAT, &["2"])];
        text(import(&model(17, graph(nodes, inputs, &["y"], vec![]))).unwrap().module)
    };
    let expected = text(nodes.to_vec());
    for order in orders(&nodes) {
        assert_eq!(text(order), expected);
    }
}

#[test]
fn a_loop_is_unrolled() {
    let body = graph(
        vec![
            node("Add", &["a", "a"], &["b"]),
            node("Identity", &["go"], &["again"]),
            node("Mul", &["b", "b"], &["s"]),
        ],
        vec![value("i", INT64, &[]), value("go", BOOL, &[]), value("a", FLOAT, &["2"])],
        &["again", "b", "s"],
        vec![],
    );
    let nodes =
        vec![node("Loop", &["n", "", "x"], &["y", "all"]).with("body", Attribute::Graph(body))];
    let constants = vec![tensor("n", INT64, &[], &2i64.to_le_bytes())];
    let inputs = vec![value("x", FLOAT, &["2"])];
    let module = import(&model(17, graph(nodes, inputs, &["y", "all"], constants))).unwrap().module;
    insta::assert_snapshot!(text(module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(2), float32], output_names=["y", "all"]) -> (Tensor[(2), float32], Tensor[(2, 2), float32]) {
      %0 = add(%x, %x) /* ty=Tensor[(2), float32] */;
      %1 = multiply(%0, %0) /* ty=Tensor[(2), float32] */;
      %2 = add(%0, %0) /* ty=Tensor[(2), float32] */;
      %3 = multiply(%2, %2) /* ty=Tensor[(2), float32] */;
      %4 = expand_dims(%1, axis=0) /* ty=Tensor[(1, 2), float32] */;
      %5 = expand_dims(%3, axis=0) /* ty=Tensor[(1, 2), float32] */;
      %6 = (%4, %5) /* ty=(Tensor[(1, 2), float32], Tensor[(1, 2), float32]) */;
      %7 = concatenate(%6) /* ty=Tensor[(2, 2), float32] */;
      (%2, %7) /* ty=(Tensor[(2), float32], Tensor[(2, 2), float32]) */
    }
    "#);
}

/// A loop that doubles `a`, and collects squares, for `trips` iterations or while the sum is small.
fn doubling(has_condition: bool, trips: Option<i64>) -> Bytes {
    let go = match has_condition {
        true => node("Less", &["r", "limit"], &["again"]),
        false => node("Identity", &["go"], &["again"]),
    };
    let body = graph(
        vec![
            node("Add", &["a", "a"], &["b"]),
            node("Mul", &["b", "b"], &["s"]),
            node("ReduceMax", &["b"], &["r"]).with("keepdims", Attribute::Int(0)),
            go,
        ],
        vec![value("i", INT64, &[]), value("go", BOOL, &[]), value("a", FLOAT, &["2"])],
        &["again", "b", "s"],
        vec![],
    );
    let nodes =
        vec![node("Loop", &["n", "", "x"], &["y", "all"]).with("body", Attribute::Graph(body))];
    let mut inputs = vec![value("x", FLOAT, &["2"])];
    let mut constants = vec![floats("limit", &[], &[100.0])];
    match trips {
        Some(trips) => constants.push(tensor("n", INT64, &[], &trips.to_le_bytes())),
        None => inputs.push(value("n", INT64, &[])),
    }
    model(17, graph(nodes, inputs, &["y", "all"], constants))
}

#[test]
fn a_loop_of_many_iterations_is_a_recursive_function() {
    insta::assert_snapshot!(text(import(&doubling(false, Some(5000))).unwrap().module));
}

#[test]
fn a_loop_with_a_computed_condition_keeps_the_rows_that_it_made() {
    insta::assert_snapshot!(text(import(&doubling(true, Some(8))).unwrap().module));
}

#[test]
fn a_loop_of_any_number_of_iterations_appends() {
    insta::assert_snapshot!(text(import(&doubling(false, None)).unwrap().module));
}

#[test]
fn a_scan_takes_apart_and_collects() {
    let body = graph(
        vec![node("Add", &["s", "t"], &["u"]), node("Neg", &["u"], &["v"])],
        vec![value("s", FLOAT, &["2"]), value("t", FLOAT, &["2"])],
        &["u", "v"],
        vec![],
    );
    let scan = node("Scan", &["s0", "x"], &["last", "all"])
        .with("body", Attribute::Graph(body))
        .with("num_scan_inputs", Attribute::Int(1))
        .with("scan_input_axes", Attribute::Ints(vec![1]))
        .with("scan_input_directions", Attribute::Ints(vec![1]))
        .with("scan_output_axes", Attribute::Ints(vec![-1]))
        .with("scan_output_directions", Attribute::Ints(vec![1]));
    let module = |extent: &str| {
        let inputs = vec![value("s0", FLOAT, &["2"]), value("x", FLOAT, &["2", extent])];
        import(&model(17, graph(vec![scan.clone()], inputs, &["last", "all"], vec![]))).unwrap()
    };
    insta::assert_snapshot!(text(module("2").module));
    insta::assert_snapshot!(text(module("2000").module));
}

#[test]
fn large_constants_become_parameters_where_asked_for() {
    let nodes = vec![node("Add", &["x", "w"], &["h"]), node("Mul", &["h", "s"], &["y"])];
    let constants = vec![floats("w", &[40], &[0.5; 40]), floats("s", &[1], &[2.0])];
    let inputs = vec![value("x", FLOAT, &["40"])];
    let file = model(17, graph(nodes, inputs, &["y"], constants));
    let options = Options { weights_over: Some(100), ..Options::default() };
    let import = import_with(&file, &options).unwrap();
    assert_eq!(import.weights.keys().collect::<Vec<_>>(), ["w"]);
    insta::assert_snapshot!(text(import.module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(40), float32], %w: Tensor[(40), float32], output_names=["y"]) -> Tensor[(40), float32] {
      %0 = add(%x, %w) /* ty=Tensor[(40), float32] */;
      multiply(%0, meta[relay.Constant][0] /* ty=Tensor[(1), float32] */) /* ty=Tensor[(40), float32] */
    }
    "#);
}

#[test]
fn elements_stand_in_lists_too() {
    // Half floats and truth values are integers there, packed or not.
    let half =
        Message::new().int(1, 2).int(2, 10).text(8, "h").bytes(5, &[0x80, 0x78, 0x80, 0x80, 0x01]);
    let truth = Message::new().int(1, 2).int(2, BOOL).text(8, "t").int(5, 7).int(5, 0);
    let float = Message::new().int(1, 2).int(2, FLOAT).text(8, "f").float(4, 1.5).float(4, -2.0);
    let double = Message::new().int(1, 1).int(2, 11).text(8, "d").bytes(10, &0.25f64.to_le_bytes());
    let long = Message::new().int(1, 2).int(2, INT64).text(8, "l").bytes(7, &[0x05, 0xff, 0x01]);
    let constants = vec![half, truth, float, double, long];
    let names = ["h", "t", "f", "d", "l"];
    let module = import(&model(17, graph(vec![], vec![], &names, constants))).unwrap().module;
    let body = module.body("main").unwrap();
    let tensors = body.walk().filter_map(|op| body.attrs(op).value::<TensorData>("value"));
    let values: Vec<(String, Vec<f64>)> =
        tensors.map(|tensor| (tensor.dtype().to_string(), tensor.to_f64())).collect();
    let expected = [
        ("float16", vec![1.0, 2.0]),
        ("bool", vec![1.0, 0.0]),
        ("float32", vec![1.5, -2.0]),
        ("float64", vec![0.25]),
        ("int64", vec![5.0, 255.0]),
    ];
    assert_eq!(values, expected.map(|(dtype, values)| (dtype.to_string(), values)));
}

#[test]
fn what_a_model_is_can_be_told_without_importing_it() {
    let nodes = vec![node("Relu", &["x"], &["h"]), node("Dot", &["h"], &["y"])];
    let inputs = vec![value("x", FLOAT, &["n", "2"])];
    let file = model(13, graph(nodes, inputs, &["y"], vec![floats("w", &[2, 3], &[0.0; 6])]));
    insta::assert_debug_snapshot!(onnx_frontend::summarize(&file).unwrap());
}

#[test]
fn what_has_no_length_keeps_its_zeros() {
    let nodes = vec![node("LpNormalization", &["x"], &["y"]).with("p", Attribute::Int(1))];
    let inputs = vec![value("x", FLOAT, &["2", "3"])];
    let module = import(&model(17, graph(nodes, inputs, &["y"], vec![]))).unwrap().module;
    insta::assert_snapshot!(text(module), @r#"
    #[version = "0.0.5"]
    def @main(%x: Tensor[(2, 3), float32], output_names=["y"]) -> Tensor[(2, 3), float32] {
      %0 = abs(%x) /* ty=Tensor[(2, 3), float32] */;
      %1 = sum(%0, axis=[1], keepdims=True) /* ty=Tensor[(2, 1), float32] */;
      %2 = equal(%1, 0f) /* ty=Tensor[(2, 1), bool] */;
      %3 = where(%2, 1f, %1) /* ty=Tensor[(2, 1), float32] */;
      divide(%x, %3) /* ty=Tensor[(2, 3), float32] */
    }
    "#);
}

#[test]
fn sparse_constants_become_dense() {
    let values = floats("w", &[2], &[1.0, 2.0]);
    // Rows of indices: places 1 and 5 of a matrix of two rows.
    let places: Vec<u8> = [0i64, 1, 1, 2].iter().flat_map(|at| at.to_le_bytes()).collect();
    let places = tensor("", INT64, &[2, 2], &places);
    let sparse = Message::new().message(1, values).message(2, places).int(3, 2).int(3, 3);
    let nodes = vec![node("Add", &["x", "w"], &["y"])];
    let graph = graph(nodes, vec![value("x", FLOAT, &["2", "3"])], &["y"], vec![]);
    let module = import(&model(17, graph.message(15, sparse))).unwrap().module;
    let body = module.body("main").unwrap();
    let tensor = body.walk().find_map(|op| body.attrs(op).value::<TensorData>("value")).unwrap();
    assert_eq!(tensor.shape(), [2, 3]);
    assert_eq!(tensor.to_f64(), [0.0, 1.0, 0.0, 0.0, 0.0, 2.0]);
}
