//! `relay-worker` serves what its documentation says.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_worker_runs_a_model_as_often_as_it_is_told() {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/onnx/Inputs");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("worker");
    fs::create_dir_all(&folder).expect("a folder");
    fs::copy(inputs.join("cnn.onnx"), folder.join("model.onnx")).expect("a model");
    let image = &arrays::load(&inputs.join("cnn.npz")).expect("arrays")["image"];
    let mut file = File::create(folder.join("in_0.npy")).expect("a file");
    arrays::write_npy(image, &mut file).expect("an array");
    drop(file);

    let mut worker = Command::new(env!("CARGO_BIN_EXE_relay-worker"))
        .args([&folder, Path::new("1"), &folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    let mut commands = worker.stdin.take().expect("a pipe");
    commands.write_all(b"run 2\nrun 0\nquit\n").expect("the worker reads");
    let ended = worker.wait_with_output().expect("the worker ends");
    assert!(ended.status.success());
    let text = String::from_utf8(ended.stdout).expect("text");
    let [ready, twice, never] = &text.lines().collect::<Vec<_>>()[..] else {
        panic!("expected three answers, found {text}")
    };
    let facts = ready.strip_prefix("READY ").expect("the worker is ready");
    let facts: serde_json::Value = serde_json::from_str(facts).expect("an object");
    for seconds in ["import_s", "load_s", "first_s"] {
        assert!(facts[seconds].is_number(), "{facts}");
    }
    let times: Vec<(u64, u64)> = serde_json::from_str(twice).expect("pairs");
    assert_eq!((times.len(), *never), (2, "[]"));
    let output = arrays::load(&folder.join("out_0.npy")).expect("what the model returned");
    let output = output.values().next().expect("an array").to_f64();
    // As onnxruntime says.
    for (found, expected) in output.iter().zip([0.18933, 0.18933, 0.2204, 0.40082]) {
        assert!((found - expected).abs() < 1e-4, "{output:?}");
    }
}
