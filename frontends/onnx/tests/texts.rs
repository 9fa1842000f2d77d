//! Operators on texts give what Rust's own do, for texts of letters of several lengths in UTF-8.

use crate::support;

use std::collections::BTreeMap;

use bytes::Bytes;
use ir_core::{DType, TensorData};
use onnx_frontend::Options;
use proptest::prelude::*;
use relay::interpreter::{Interpreter, Value};
use support::*;

const STRING: i64 = 8;

/// The code points of `texts`.
fn encoded(texts: &[String]) -> TensorData {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let mut points = Vec::new();
    for text in texts {
        points.extend(text.chars().map(|c| i64::from(u32::from(c))));
        points.resize(points.len().next_multiple_of(width), 0);
        if text.is_empty() {
            points.resize(points.len() + width, 0);
        }
    }
    TensorData::from_i64(DType::INT32, &[texts.len() as i64, width as i64], &points).unwrap()
}

/// The texts whose code points `value` has along its last axis.
fn decoded(value: &Value) -> Vec<String> {
    let tensor = value.as_tensor().unwrap();
    let width = *tensor.shape().last().unwrap() as usize;
    let points = tensor.to_i64();
    let letter = |point: &i64| char::from_u32(*point as u32).unwrap();
    let text = |row: &[i64]| row.iter().take_while(|point| **point != 0).map(letter).collect();
    points.chunks(width).map(text).collect()
}

/// What `node` gives for vectors of texts, the inputs `x` and `z`.
fn results(node: Message, outputs: &[&str], inputs: &[&[String]]) -> Vec<Value> {
    let names = ["x", "z"];
    let types = inputs
        .iter()
        .zip(names)
        .map(|(texts, name)| value(name, STRING, &[&texts.len().to_string()]));
    let model: Bytes = model(20, graph(vec![node], types.collect(), outputs, vec![]));
    let arguments: Vec<TensorData> = inputs.iter().map(|texts| encoded(texts)).collect();
    let extents = names.iter().zip(&arguments);
    let extents: BTreeMap<String, Vec<i64>> =
        extents.map(|(name, tensor)| (name.to_string(), tensor.shape().to_vec())).collect();
    let options = Options { extents: Some(extents), ..Options::default() };
    let mut module = import_with(&model, &options).unwrap().module;
    let registry = registry();
    let found = relay::inference::infer_module(&mut module, &registry);
    assert!(!found.has_errors(), "{found:?}");
    ir_core::verify(&module, &registry).unwrap();
    let arguments = arguments.into_iter().map(Value::Tensor).collect();
    let result = Interpreter::new(&module, &registry).call("main", arguments).unwrap();
    match outputs.len() {
        1 => vec![result],
        _ => result.as_tuple().unwrap().to_vec(),
    }
}

fn with_text(node: Message, name: &str, text: &str) -> Message {
    node.message(5, Message::new().text(1, name).text(4, text).int(20, 3))
}

/// Few letters, so that delimiters occur, overlap, and stand at the ends.
fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab\u{e4}\u{4e2d}\u{1f600} \t-]{0,8}", 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn texts_split(
        texts in texts(),
        delimiter in prop::option::of("[ab\u{e4} -]{1,3}"),
        limit in prop::option::of(0usize..3),
    ) {
        let mut split = node("StringSplit", &["x"], &["parts", "count"]);
        if let Some(delimiter) = &delimiter {
            split = with_text(split, "delimiter", delimiter);
        }
        if let Some(limit) = limit {
            split = split.with("maxsplit", Attribute::Int(limit as i64));
        }
        let expected: Vec<Vec<String>> = texts.iter().map(|text| {
            let parts: Vec<&str> = match (&delimiter, limit) {
                (Some(delimiter), Some(limit)) => text.splitn(limit + 1, delimiter.as_str()).collect(),
                (Some(delimiter), None) => text.split(delimiter.as_str()).collect(),
                (None, None) => text.split_whitespace().collect(),
                (None, Some(limit)) => {
                    let (mut rest, mut parts) = (text.trim_start(), Vec::new());
                    while !rest.is_empty() && parts.len() < limit {
                        let (part, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                        parts.push(part);
                        rest = after.trim_start();
                    }
                    parts.extend((!rest.is_empty()).then_some(rest));
                    parts
                }
            };
            parts.into_iter().map(str::to_string).collect()
        }).collect();
        let found = results(split, &["parts", "count"], &[&texts]);
        let most = expected.iter().map(Vec::len).max().unwrap();
        let counts: Vec<i64> = expected.iter().map(|parts| parts.len() as i64).collect();
        prop_assert_eq!(found[1].as_tensor().unwrap().to_i64(), counts);
        let filled = expected.into_iter().flat_map(|mut parts| {
            parts.resize(most, String::new());
            parts
        });
        prop_assert_eq!(decoded(&found[0]), filled.collect::<Vec<String>>());
    }

    #[test]
    fn texts_are_joined_and_compared(texts in texts(), other in "[ab\u{4e2d}]{0,3}") {
        let joined = node("StringConcat", &["x", "z"], &["y"]);
        let found = results(joined, &["y"], &[&texts, std::slice::from_ref(&other)]);
        let expected: Vec<String> = texts.iter().map(|text| format!("{text}{other}")).collect();
        prop_assert_eq!(decoded(&found[0]), expected);
        let equal = node("Equal", &["x", "z"], &["y"]);
        let found = results(equal, &["y"], &[&texts, std::slice::from_ref(&other)]);
        let expected: Vec<i64> = texts.iter().map(|text| (*text == other).into()).collect();
        prop_assert_eq!(found[0].as_tensor().unwrap().to_i64(), expected);
    }

    #[test]
    fn patterns_match_whole_texts(
        texts in texts(),
        pattern in prop::sample::select(vec![
            "a*", ".", ".{2,4}", "[^a]+", "(a|b)*.?", "(?i)A.*", "\u{4e2d}+|b", "a.*?b?", "", "[ab-]*\\s.*", "-|",
        ]),
    ) {
        let found = results(with_text(node("RegexFullMatch", &["x"], &["y"]), "pattern", pattern), &["y"], &[&texts]);
        let whole = regex::Regex::new(&format!(r"\A(?:{pattern})\z")).unwrap();
        let expected: Vec<i64> = texts.iter().map(|text| whole.is_match(text).into()).collect();
        prop_assert_eq!(found[0].as_tensor().unwrap().to_i64(), expected);
    }

    #[test]
    fn stopwords_go_and_cases_change(texts in texts(), word in "[ab\u{e4}]{0,2}") {
        let stopwords = Message::new().text(1, "stopwords").text(9, &word).int(20, 8);
        let normalizer = with_text(node("StringNormalizer", &["x"], &["y"]), "case_change_action", "UPPER");
        let found = results(normalizer.message(5, stopwords), &["y"], &[&texts]);
        let kept = texts.iter().filter(|text| text.to_lowercase() != word);
        let mut expected: Vec<String> = kept.map(|text| text.to_uppercase()).collect();
        if expected.is_empty() {
            expected.push(String::new());
        }
        prop_assert_eq!(decoded(&found[0]), expected);
    }
}

/// What the import of `node` on a text input of two elements reports.
fn refused(node: Message) -> String {
    let numbers = vec![ints("n", &[0, 1])];
    let file = model(20, graph(vec![node], vec![value("x", STRING, &["2"])], &["y"], numbers));
    let dims = BTreeMap::from([("x.1".to_string(), 4)]);
    let found = import_with(&file, &Options { dims, ..Options::default() }).unwrap_err();
    found.iter().map(|found| format!("{}\n", found.message)).collect()
}

#[test]
fn texts_are_as_many_as_have_places() {
    let many = |shape: &[&str]| {
        let nodes = vec![node("Identity", &["x"], &["y"])];
        let file = model(20, graph(nodes, vec![value("x", STRING, shape)], &["y"], vec![]));
        let dims = BTreeMap::from([(format!("x.{}", shape.len()), 4)]);
        let found = import_with(&file, &Options { dims, ..Options::default() });
        found.err().map(|found| found[0].message.clone()).unwrap_or_default()
    };
    for shape in [&["9223372036854775807", "2"][..], &["1000000000"]] {
        let error = many(shape);
        assert!(error.contains("expected at most 4194304 texts"), "{error}");
    }
    assert_eq!(many(&["2", "0"]), "");
}

#[test]
fn what_wants_numbers_refuses_texts() {
    let refusals = [
        node("Relu", &["x"], &["y"]),
        node("Cast", &["x"], &["y"]).with("to", Attribute::Int(FLOAT)),
        node("Equal", &["x", "x", "x"], &["y"]),
        with_text(node("RegexFullMatch", &["x"], &["y"]), "pattern", "(a"),
        with_text(node("RegexFullMatch", &["x"], &["y"]), "pattern", "(.{100}){100}"),
        node("SequenceConstruct", &["x"], &["y"]),
        node("Gather", &["n", "x"], &["y"]),
        node("Reshape", &["n", "x"], &["y"]),
        node("Reshape", &["x", "x"], &["y"]),
        node("Concat", &["x", "n"], &["y"]).with("axis", Attribute::Int(0)),
        node("Where", &["n", "x", "n"], &["y"]),
        node("Equal", &["n", "x"], &["y"]),
        with_text(node("StringSplit", &["n"], &["y"]), "delimiter", "a"),
    ];
    let refusals: String = refusals.into_iter().map(refused).collect();
    insta::assert_snapshot!(refusals, @r"
    Relu `y_node`: operand 0: expected numbers, found texts
    Cast `y_node`: expected numbers, found texts
    Equal `y_node`: expected at most 2 operands, found 3
    RegexFullMatch `y_node`: the pattern `(a` cannot be compiled: unclosed group
    RegexFullMatch `y_node`: the pattern `(.{100}){100}` cannot be compiled: DFA exceeded size limit of 4194304 during determinization
    SequenceConstruct `y_node`: operand 0: expected numbers, found texts
    Gather `y_node`: operand 0: expected texts, found numbers
    Reshape `y_node`: operand 0: expected texts, found numbers
    Reshape `y_node`: operand 1: expected numbers, found texts
    Concat `y_node`: operand 1: expected texts, found numbers
    Where `y_node`: operand 2: expected texts, found numbers
    Equal `y_node`: expected numbers, found texts
    StringSplit `y_node`: expected texts, found Tensor[(2), int64]
    ");
}
