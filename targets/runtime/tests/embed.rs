//! A program outside of the workspace compiles a model and runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_of_ones_own_runs_a_model() {
    // Shared with what else builds outside of the workspace.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--offline", "--locked"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/embed"))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embed");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let run = |model: &str| {
        fs::write(folder.join("model.relay"), model).expect("a file");
        let ran = Command::new(target.join("debug/embed")).current_dir(&folder).output();
        let ran = ran.expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.success(), text(&ran.stdout), text(&ran.stderr))
    };

    let model = "def @main(%x: Tensor[(1, 3), float32], %w: Tensor[(2, 3), float32]) {\n\
                 nn.relu(nn.dense(%x, %w))\n}\n";
    let (success, out, err) = run(model);
    assert!(success, "{err}");
    assert_eq!(out, "Tensor[(1, 2), float32] [4.0, 3.0]\n");

    // What is wrong shows its place.
    let (success, out, err) = run(&model.replace("nn.relu", "nn.rely"));
    assert!(!success && out.is_empty(), "{out}");
    assert!(err.contains("model.relay:2:1") && err.contains("did you mean `nn.relu`"), "{err}");
}
