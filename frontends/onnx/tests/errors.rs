//! Models that cannot be imported.

use crate::support;

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use onnx_frontend::Options;
use support::*;

fn simple(nodes: Vec<Message>, constants: Vec<Message>) -> Bytes {
    model(17, graph(nodes, vec![value("x", FLOAT, &["2", "3"])], &["y"], constants))
}

#[test]
fn damage_has_a_place() {
    insta::assert_snapshot!(error(&Bytes::from_static(b"version https://git-lfs")), @"E0801 expected an ONNX model: expected a wire type from 0 to 5, found 6 at byte 0");
    insta::assert_snapshot!(error(&Bytes::new()), @"E0806 the model has no graph");
    let mut bytes = simple(vec![node("Relu", &["x"], &["y"])], vec![]).to_vec();
    bytes.truncate(40);
    insta::assert_snapshot!(error(&bytes.into()), @"E0801 expected an ONNX model: expected 51 bytes, found 30 at byte 9");
}

/// A model of these nodes and functions of operator set `local`, each its name, inputs, outputs and nodes.
fn with_functions(
    nodes: Vec<Message>,
    functions: Vec<(&str, &[&str], &[&str], Vec<Message>)>,
) -> Bytes {
    let functions = functions.into_iter().map(|(name, inputs, outputs, nodes)| {
        let function = Message::new().text(1, name).text(10, "local");
        let function = inputs.iter().fold(function, |function, input| function.text(4, input));
        let function = outputs.iter().fold(function, |function, output| function.text(5, output));
        function.messages(7, nodes)
    });
    let bytes = simple(nodes, vec![]).to_vec();
    Message(bytes).messages(25, functions).0.into()
}

#[test]
fn functions_are_applied_as_they_are_declared() {
    let mut found = Vec::new();
    let local = |op, inputs: &[&str], outputs: &[&str]| node(op, inputs, outputs).text(7, "local");
    let own = vec![local("F", &["a"], &["b"])];
    let model = with_functions(vec![local("F", &["x"], &["y"])], vec![("F", &["a"], &["b"], own)]);
    found.push(error(&model));
    let inside = vec![node("Swirl", &["a"], &["b"])];
    let model =
        with_functions(vec![local("F", &["x"], &["y"])], vec![("F", &["a"], &["b"], inside)]);
    found.push(error(&model));
    // What is outside has no name inside.
    let outside = || vec![node("Add", &["a", "x"], &["b"])];
    let model =
        with_functions(vec![local("F", &["x"], &["y"])], vec![("F", &["a"], &["b"], outside())]);
    found.push(error(&model));
    let many = vec![local("F", &["x", "x"], &["y"])];
    let model = with_functions(many, vec![("F", &["a"], &["b"], outside())]);
    found.push(error(&model));
    // A function that nobody gives a result.
    let model =
        with_functions(vec![local("F", &["x"], &["y"])], vec![("F", &["a"], &["b"], vec![])]);
    found.push(error(&model));
    let referring = node("LeakyRelu", &["x"], &["y"])
        .message(5, Message::new().text(1, "alpha").int(20, 1).text(21, "slope"));
    found.push(error(&simple(vec![referring], vec![])));
    insta::assert_snapshot!(found.join("\n"), @r#"
    E0803 local.F `b_node`: expected graphs nested at most 32 deep
    the node stands at byte 88
    E0802 the operator Swirl cannot be imported
    Swirl: once, first in node `b_node` at byte 88
    did you mean `Swish`?
    E0803 Add `b_node`: expected a value `x`, found none
    the node stands at byte 88
    E0803 local.F `y_node`: expected at most 1 operands, found 2
    the node stands at byte 10
    E0806 output, at byte 85: expected a value `b`, found none
    E0803 LeakyRelu `y_node`: attribute `alpha`, at byte 37: expected a float, found an attribute of a function, outside of functions
    the node stands at byte 10
    "#);
}

#[test]
fn support_vectors_are_as_many_as_the_node_says() {
    let mut found = Vec::new();
    let machine = |attributes: Vec<Message>| {
        let machine = node("SVMClassifier", &["x"], &["y"]).text(7, "ai.onnx.ml");
        error(&simple(vec![machine.messages(5, attributes)], vec![]))
    };
    let ints = |name, values: &[i64]| attribute(name, Attribute::Ints(values.to_vec()));
    found.push(machine(vec![]));
    let labels = || ints("classlabels_ints", &[3, 4]);
    found.push(machine(vec![labels()]));
    found.push(machine(vec![labels(), ints("vectors_per_class", &[1, 1, 1])]));
    found.push(machine(vec![labels(), ints("vectors_per_class", &[-1, 1])]));
    found.push(machine(vec![labels(), ints("vectors_per_class", &[i64::MAX, 9])]));
    found.push(machine(vec![labels(), ints("vectors_per_class", &[2, 1])]));
    let zip = node("ZipMap", &["x"], &["y"]).text(7, "ai.onnx.ml");
    found.push(error(&simple(vec![zip.clone()], vec![])));
    let zip = zip.messages(5, [ints("classlabels_int64s", &[1, 2])]);
    found.push(error(&simple(vec![zip], vec![])));
    insta::assert_snapshot!(found.join("\n"), @r#"
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected labels, as `classlabels_ints` or `classlabels_strings`
    the node stands at byte 10
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected coefficients in 2 rows, found 0 numbers
    the node stands at byte 10
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected `vectors_per_class` of 2 classes or more, and as many labels, found [1, 1, 1] and 2
    the node stands at byte 11
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected `vectors_per_class` of 2 classes or more, and as many labels, found [-1, 1] and 2
    the node stands at byte 11
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected fewer support vectors
    the node stands at byte 11
    E0803 ai.onnx.ml.SVMClassifier `y_node`: expected support vectors in 3 rows, found 0 numbers
    the node stands at byte 10
    E0803 ai.onnx.ml.ZipMap `y_node`: expected keys
    the node stands at byte 10
    E0803 ai.onnx.ml.ZipMap `y_node`: expected a column for each of 2 keys, found 3
    the node stands at byte 10
    "#);
}

#[test]
fn all_missing_operators_are_listed() {
    let nodes = vec![
        node("Dot", &["x"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Dot", &["b"], &["c"]),
        node("Swirl", &["c"], &["y"]).text(7, "com.example"),
    ];
    insta::assert_snapshot!(error(&simple(nodes, vec![])), @r#"
    E0802 2 operators cannot be imported: Dot, com.example.Swirl
    Dot: 2 times, first in node `a_node` at byte 11; did you mean `Not` or `Det`?
    com.example.Swirl: once, first in node `y_node` at byte 75
    write them with other operators, as functions of the model, or leave them out; the page on importing ONNX lists all that can be imported
    "#);
    insta::assert_snapshot!(error(&simple(vec![node("Rleu", &["x"], &["y"])], vec![])), @r#"
    E0802 the operator Rleu cannot be imported
    Rleu: once, first in node `y_node` at byte 10
    did you mean `Relu`, `Celu` or `Elu`?
    "#);
}

#[test]
fn a_wrong_node_is_named() {
    let error = |node: Message| error(&simple(vec![node], vec![]));
    insta::assert_snapshot!(error(node("Relu", &["z"], &["y"])), @r#"
    E0803 Relu `y_node`: expected a value `z`, found none
    the node stands at byte 10
    "#);
    insta::assert_snapshot!(error(node("Relu", &[], &["y"])), @r#"
    E0803 Relu `y_node`: operand 0 is missing
    the node stands at byte 10
    "#);
    insta::assert_snapshot!(error(node("Concat", &["x", "x"], &["y"])), @r#"
    E0803 Concat `y_node`: attribute `axis` is missing
    the node stands at byte 10
    "#);
    let concat = node("Concat", &["x", "x"], &["y"]).with("axis", Attribute::Text("one"));
    insta::assert_snapshot!(error(concat), @r#"
    E0803 Concat `y_node`: attribute `axis`, at byte 37: expected an integer, found a string
    the node stands at byte 10
    "#);
    insta::assert_snapshot!(error(node("MatMul", &["x", "x"], &["y"])), @r#"
    E0803 MatMul `y_node`: `nn.matmul`: expected inner extent of the weight 3, found 2
    the node stands at byte 10
    "#);
    insta::assert_snapshot!(error(node("Relu", &["x"], &["", "y"])), @r#"
    E0803 Relu `_node`: result 1 is not supported
    the node stands at byte 10
    "#);
    let pool = node("MaxPool", &["x"], &["y"]).with("kernel_shape", Attribute::Ints(vec![2]));
    insta::assert_snapshot!(error(pool), @r#"
    E0803 MaxPool `y_node`: expected an input with 1 to 3 spatial axes and a kernel of as many, found rank 2 and [2]
    the node stands at byte 10
    "#);
}

#[test]
fn extents_that_must_be_known_can_be_set() {
    let nodes = vec![node("Squeeze", &["x"], &["y"])];
    let file = model(17, graph(nodes, vec![value("x", FLOAT, &["n", "3"])], &["y"], vec![]));
    insta::assert_snapshot!(error(&file), @r#"
    E0803 Squeeze `y_node`: expected known extents, found Tensor[(?, 3), float32]
    the node stands at byte 10
    give the extents that the model names numbers, as in --dim n=1
    "#);
}

/// Extents without a name have one of their place.
#[test]
fn extents_without_names_can_be_set() {
    let nodes = vec![node("Squeeze", &["x"], &["y"])];
    let file = model(
        17,
        graph(nodes, vec![value("x", FLOAT, &["", "-1", "?", "?", "3"])], &["y"], vec![]),
    );
    insta::assert_snapshot!(error(&file), @r#"
    E0803 Squeeze `y_node`: expected known extents, found Tensor[(?, ?, ?, ?, 3), float32]
    the node stands at byte 10
    give the extents that the model names numbers, as in --dim 'x.0=1' --dim 'x.1=1' --dim 'x.2=1' --dim 'x.3=1'
    "#);
}

#[test]
fn graphs_and_constants_are_checked() {
    let relu = || vec![node("Relu", &["x"], &["y"])];
    insta::assert_snapshot!(error(&model(28, graph(relu(), vec![], &["y"], vec![]))), @r#"
    E0807 expected version 1 to 27 of the operator set, found 28
    export the model again with another opset version
    "#);
    insta::assert_snapshot!(error(&Message::new().int(1, 8).0.into()), @"E0806 the model has no graph");
    insta::assert_snapshot!(error(&simple(relu(), vec![tensor("w", FLOAT, &[2], &[0; 7])])), @"E0805 constant `w`, at byte 37: expected 8 bytes, found 7");
    insta::assert_snapshot!(error(&simple(relu(), vec![tensor("w", FLOAT, &[-1], &[])])), @"E0805 constant `w`, at byte 37: the extents [-1] are negative or too large");
    insta::assert_snapshot!(error(&simple(relu(), vec![tensor("w", 14, &[0], &[])])), @"E0805 constant `w`, at byte 37: expected numbers or truth values, found elements of complex type");
    insta::assert_snapshot!(error(&simple(relu(), vec![tensor("w", 8, &[2], &[])])), @"E0805 constant `w`, at byte 37: expected texts for extents [2], found 0");
    let untyped = vec![Message::new().text(1, "x")];
    insta::assert_snapshot!(error(&model(17, graph(relu(), untyped, &["y"], vec![]))), @"E0806 input `x`, at byte 35: expected a type, found none");
    let input = || vec![value("x", FLOAT, &["2"])];
    insta::assert_snapshot!(error(&model(17, graph(relu(), input(), &["z"], vec![]))), @"E0806 output, at byte 52: expected a value `z`, found none");
    insta::assert_snapshot!(error(&model(17, graph(relu(), input(), &[], vec![]))), @"E0806 the graph has no outputs");
}

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("onnx-frontend-{}-{name}", std::process::id()));
    fs::create_dir_all(folder.join("models")).unwrap();
    folder
}

#[test]
fn elements_may_stand_in_files_beside_the_model_and_nowhere_else() {
    let folder = folder("external");
    let path = folder.join("models/model.onnx");
    fs::write(folder.join("models/weights"), [0u8; 20]).unwrap();
    fs::write(folder.join("secret"), [0u8; 20]).unwrap();
    let found = |location: &str, offset: &str| {
        let entry = |key: &str, value: &str| Message::new().text(1, key).text(2, value);
        let entries = [("location", location), ("offset", offset), ("length", "8")];
        let entries = entries.map(|(key, value)| entry(key, value));
        let tensor = Message::new().int(1, 2).int(2, FLOAT).text(8, "w").messages(13, entries);
        let constants = vec![tensor.int(14, 1)];
        let file = model(17, graph(vec![], vec![], &["w"], constants));
        let options = Options::default();
        match onnx_frontend::import_bytes(&file, Some(&path), &options, &registry()) {
            Ok(_) => "imported".to_string(),
            Err(found) => found[0].message.split(": ").skip(1).collect::<Vec<_>>().join(": "),
        }
    };
    assert_eq!(found("weights", "12"), "imported");
    assert_eq!(found("./weights", "4"), "imported");
    let short = "expected 8 bytes from offset 16 in `weights`, which has 20";
    assert_eq!(found("weights", "16"), short);
    let outside =
        |name: &str| format!("the elements' file `{name}` is outside of the model's folder");
    assert_eq!(found("../secret", "0"), outside("../secret"));
    let absolute = folder.join("secret").to_string_lossy().into_owned();
    assert_eq!(found(&absolute, "0"), outside(&absolute));
    assert_eq!(found("", "0"), outside(""));
    assert!(found("missing", "0").contains("No such file"));
    assert!(found("weights", "many").contains("expected a number as the offset"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.join("secret"), folder.join("models/link")).unwrap();
        assert_eq!(found("link", "0"), outside("link"));
        // A pipe that nobody writes to would be waited for.
        let pipe = folder.join("models/pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(found("pipe", "0").ends_with("it is no regular file"));
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nesting_and_loops_are_bounded() {
    let mut body = graph(vec![node("Identity", &["x"], &["r"])], vec![], &["r"], vec![]);
    for _ in 0..100 {
        let inner = node("If", &["c"], &["r"])
            .with("then_branch", Attribute::Graph(body.clone()))
            .with("else_branch", Attribute::Graph(graph(vec![], vec![], &["x"], vec![])));
        body = graph(vec![inner], vec![], &["r"], vec![]);
    }
    let nodes = vec![
        node("If", &["c"], &["y"])
            .with("then_branch", Attribute::Graph(body))
            .with("else_branch", Attribute::Graph(graph(vec![], vec![], &["x"], vec![]))),
    ];
    let constants = vec![tensor("c", BOOL, &[], &[1])];
    assert!(error(&simple(nodes, constants)).contains("expected graphs nested at most 32 deep"));

    let mut body = vec![node("Add", &["a", "a"], &["b"])];
    for _ in 0..4 {
        let graph = graph(
            [body, vec![node("Identity", &["go"], &["again"])]].concat(),
            vec![value("i", INT64, &[]), value("go", BOOL, &[]), value("a", FLOAT, &["2"])],
            &["again", "b"],
            vec![],
        );
        body = vec![node("Loop", &["n", "", "a"], &["b"]).with("body", Attribute::Graph(graph))];
    }
    let nodes = [vec![node("Identity", &["x"], &["a"])], body].concat();
    let constants = vec![tensor("n", INT64, &[], &1000i64.to_le_bytes())];
    let file = model(17, graph(nodes, vec![value("x", FLOAT, &["2"])], &["b"], constants));
    assert!(error(&file).contains("in all iterations"));
}

#[test]
fn every_wrong_node_is_reported_once() {
    let nodes = vec![
        node("Concat", &["x", "x"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Relu", &[], &["c"]),
        node("Add", &["b", "c"], &["y"]),
    ];
    let found = import(&simple(nodes, vec![])).unwrap_err();
    let messages: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
    let expected =
        ["Concat `a_node`: attribute `axis` is missing", "Relu `c_node`: operand 0 is missing"];
    assert_eq!(messages, expected);
    let constants = vec![tensor("v", FLOAT, &[2], &[0; 7]), tensor("w", 8, &[1], &[])];
    let found = import(&simple(vec![node("Relu", &["x"], &["y"])], constants)).unwrap_err();
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn all_problems_are_listed_beside_missing_operators() {
    let nodes = vec![
        node("Swirl", &["x"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Concat", &["x"], &["c"]),
        node("Relu", &["x", "x"], &["y"]),
    ];
    let found = import(&simple(nodes, vec![])).unwrap_err();
    let messages: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
    let expected = [
        "the operator Swirl cannot be imported",
        "Concat `c_node`: attribute `axis` is missing",
        "Relu `y_node`: expected at most 1 operands, found 2",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn nodes_that_wait_for_one_another_are_errors() {
    let nodes = vec![
        node("Add", &["x", "b"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Neg", &["x"], &["y"]),
    ];
    let found = error(&simple(nodes, vec![]));
    assert!(found.contains("Add `a_node`: expected a value `b`, found none"), "{found}");
}

#[test]
fn attributes_are_those_of_the_operator() {
    let with = |op: &str, name: &str| {
        import(&simple(vec![node(op, &["x"], &["y"]).with(name, Attribute::Int(1))], vec![]))
    };
    let messages = |op: &str, name: &str| with(op, name).unwrap_err().to_string();
    let found = messages("Softmax", "axiss");
    assert!(found.contains("the operator has no such attribute; did you mean `axis`?"), "{found}");
    let found = messages("Relu", "axis");
    assert!(found.contains("attribute `axis`, at byte"), "{found}");
    // One of an older version of the operator.
    assert!(with("Relu", "consumed_inputs").is_ok());
}

#[test]
fn names_are_given_once_and_operands_are_those_of_the_operator() {
    let message = |nodes: Vec<Message>| error(&simple(nodes, vec![]));
    let relu = |inputs: &[&str]| node("Relu", inputs, &["y"]);
    let twice = message(vec![relu(&["x"]), relu(&["x"])]);
    assert!(twice.contains("expected a new name, found `y` again"), "{twice}");
    let input = || value("x", FLOAT, &["2"]);
    let twice =
        error(&model(17, graph(vec![relu(&["x"])], vec![input(), input()], &["y"], vec![])));
    assert!(twice.starts_with("E0806 input `x`"), "{twice}");
    let more = message(vec![relu(&["x", "x"])]);
    assert!(more.contains("expected at most 1 operands, found 2"), "{more}");
    assert!(import(&simple(vec![relu(&["x", ""])], vec![])).is_ok());
    let truth = vec![value("x", BOOL, &["2", "2"])];
    let product = vec![node("MatMul", &["x", "x"], &["y"])];
    let found = error(&model(17, graph(product, truth, &["y"], vec![])));
    assert!(found.contains("expected numbers, found Tensor[(2, 2), bool]"), "{found}");
}

#[test]
fn places_of_sparse_constants_are_inside() {
    let sparse = |places: &[i64]| {
        let values = floats("w", &[2], &[1.0, 2.0]);
        let sparse = Message::new().message(1, values).message(2, ints("", places)).int(3, 3);
        let nodes = vec![node("Add", &["x", "w"], &["y"])];
        let graph = graph(nodes, vec![value("x", FLOAT, &["3"])], &["y"], vec![]);
        model(17, graph.message(15, sparse))
    };
    assert!(import(&sparse(&[0, 2])).is_ok());
    for places in [&[0, 3][..], &[-1, 0], &[1]] {
        let found = error(&sparse(places));
        assert!(found.starts_with("E0805 constant `w`"), "{found}");
    }
}
