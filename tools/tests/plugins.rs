//! Plugins in shared libraries, built as their authors do and loaded by a relay-opt that is linked
//! statically, as the installed one is.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tools::relay_opt::{DIAGNOSTICS, INTERNAL, OK, USAGE};

/// A plugin of these sources, by its folder, built as its author would.
fn build(folder: &str, name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds");
    let output = Command::new(env!("CARGO_BIN_EXE_relay-opt"))
        .args(["plugin", "build", folder])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .expect("relay-opt runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    target.join("debug").join(format!("{prefix}{name}{suffix}"))
}

static EXAMPLE: LazyLock<PathBuf> = LazyLock::new(|| build("examples/plugin", "example_plugin"));
static FAULTY: LazyLock<PathBuf> =
    LazyLock::new(|| build("tools/tests/faulty-plugin", "faulty_plugin"));

/// A folder of its own for `test`.
fn place(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// The exit status, standard output and standard error of relay-opt.
fn relay_opt(plugins: &[&Path], args: &[&str], input: &str) -> (i32, String, String) {
    let mut all: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    for plugin in plugins {
        all.extend(["--load-plugin".to_string(), plugin.display().to_string()]);
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let ran = tools::run_within(&tools::registry(), Path::new(""), &all, input.as_bytes());
    (ran.status, ran.out, ran.err)
}

const NEGATIVES: &str = "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  %0 = negative(%x);
  negative(%0)
}
";

#[test]
fn a_pass_of_a_plugin_runs() {
    let plugin = EXAMPLE.as_path();
    let (status, out, err) =
        relay_opt(&[plugin], &["--pass", "example-plugin,dce", "--stats"], NEGATIVES);
    assert_eq!(status, OK, "{err}");
    assert!(out.ends_with("{\n  %x\n}\n"), "{out}");
    assert!(err.contains("pairs dropped"), "{err}");
}

#[test]
fn what_a_plugin_has_is_listed_and_described() {
    let plugin = EXAMPLE.as_path();
    let (status, out, _) = relay_opt(&[plugin], &["--list-passes"], "");
    assert_eq!(status, OK);
    assert!(out.lines().any(|line| line.starts_with("example-plugin ")), "{out}");
    let (status, out, _) = relay_opt(&[plugin], &["--help-pass", "example-plugin"], "");
    assert_eq!(status, OK);
    assert!(out.contains("limit"), "{out}");
    let (status, _, err) = relay_opt(&[plugin], &["--pass", "example-plugim"], NEGATIVES);
    assert_ne!(status, OK);
    assert!(err.contains("did you mean `example-plugin`"), "{err}");
}

#[test]
fn two_plugins_work_together() {
    let (first, second) = (EXAMPLE.as_path(), FAULTY.as_path());
    let (status, out, err) = relay_opt(
        &[first, second],
        &["--pass", "rewrite{rules=faulty},example-plugin,dce"],
        NEGATIVES,
    );
    assert_eq!(status, OK, "{err}");
    assert!(out.ends_with("{\n  %x\n}\n"), "{out}");
}

#[test]
fn plugins_serve_subcommands() {
    let folder = place("subcommands");
    let model = folder.join("model.relay");
    fs::write(&model, NEGATIVES).expect("the model is written");
    let plugin = EXAMPLE.as_path();
    let model = model.display().to_string();
    let args = ["run", &model, "--executor", "interp", "--fill", "1"];
    let (status, out, err) = relay_opt(&[plugin], &args, "");
    let (wanted, plain, _) = relay_opt(&[], &args, "");
    assert_eq!((status, &out), (wanted, &plain), "{err}");
    assert_eq!(status, OK);
}

#[test]
fn a_pass_that_panics_is_an_error_with_a_reproducer() {
    let folder = place("panics");
    let plugin = FAULTY.as_path();
    let crashes = folder.display().to_string();
    let args = ["--pass", "faulty", "--crash-reproducer", &crashes];
    let (status, _, err) = relay_opt(&[plugin], &args, NEGATIVES);
    assert_eq!(status, INTERNAL, "{err}");
    assert!(err.contains("the module is empty") && err.contains(&crashes), "{err}");
    // The reproducer names the plugin, without which the pass is unknown, and crashes with it.
    let path = err.lines().find_map(|line| line.strip_prefix("reproducer: ")).expect("its path");
    let text = fs::read_to_string(path).expect("the reproducer");
    assert!(text.contains(&format!("// plugin: {}\n", plugin.display())), "{text}");
    let again = ["--run-reproducer", path, "--crash-reproducer", &crashes];
    let (status, _, err) = relay_opt(&[], &again, "");
    assert!(status == USAGE && err.contains("the run that it repeats had --load-plugin"), "{err}");
    assert_eq!(relay_opt(&[plugin], &again, "").0, INTERNAL);
    // The process goes on, and so does the plugin.
    let (status, _, err) = relay_opt(&[plugin], &["--pass", "rewrite{rules=faulty}"], NEGATIVES);
    assert_eq!(status, OK, "{err}");
}

/// Waiting counts as work: what is slow is not known before it is done.
#[test]
fn a_slow_command_of_a_plugin_without_optimizations_is_told_of_them() {
    const HINT: &str = "`relay-opt plugin build --release` makes it faster";
    let plugin = EXAMPLE.as_path();
    let (status, _, err) = relay_opt(&[plugin], &["--pass", "dce"], NEGATIVES);
    assert!(status == OK && !err.contains(HINT), "{err}");
    let wait = "exec{cmd=\"sh -c 'sleep 5; cat'\"}";
    let (status, _, err) = relay_opt(&[plugin], &["--pass", wait], NEGATIVES);
    assert!(status == OK && err.lines().last().is_some_and(|line| line.ends_with(HINT)), "{err}");
    // It is about plugins.
    let (_, _, err) = relay_opt(&[], &["--pass", wait], NEGATIVES);
    assert!(!err.contains(HINT), "{err}");
}

#[test]
fn names_that_are_taken_are_an_error() {
    let folder = place("taken");
    let plugin = EXAMPLE.as_path();
    let other = folder.join("other.so");
    fs::copy(plugin, &other).expect("the plugin is copied");
    let (status, _, err) = relay_opt(&[plugin, &other], &["--list-passes"], "");
    assert_eq!(status, DIAGNOSTICS, "{err}");
    assert!(err.contains("E0742") && err.contains("`example-plugin` is registered twice"), "{err}");
    assert!(err.contains("other.so"), "{err}");
}

#[test]
fn a_plugin_of_another_version_is_refused() {
    let folder = place("version");
    let bytes = fs::read(EXAMPLE.as_path()).expect("the plugin can be read");
    let at = bytes.windows(8).position(|window| window == b", build ").expect("a description");
    let mut changed = bytes.clone();
    changed[at + 8] = if changed[at + 8] == b'0' { b'1' } else { b'0' };
    let other = folder.join("other.so");
    fs::write(&other, changed).expect("the copy is written");
    let (status, _, err) = relay_opt(&[&other], &["--list-passes"], "");
    assert_eq!(status, DIAGNOSTICS, "{err}");
    let lines = ["E0741", "the plugin is for version", "this is version", "plugin build"];
    assert!(lines.iter().all(|line| err.contains(line)), "{err}");
    assert_eq!(err.matches("rustc 1.").count(), 2, "{err}");
}

#[test]
fn files_that_are_no_plugins_are_refused() {
    let folder = place("files");
    let text = folder.join("text.so");
    fs::write(&text, "not a library").expect("the file is written");
    let bytes = fs::read(EXAMPLE.as_path()).expect("the plugin can be read");
    // Its description is there, and the rest is not.
    let start = b"relay-opt plugin, version ";
    let at = bytes.windows(start.len()).position(|window| window == start).expect("a description");
    let cut = folder.join("cut.so");
    fs::write(&cut, &bytes[..at + 300]).expect("the file is written");
    for (path, message) in [
        (folder.join("missing.so"), "No such file"),
        (text, "it is no plugin"),
        (folder.clone(), "Is a directory"),
        (cut, "the file is not complete"),
    ] {
        let (status, out, err) = relay_opt(&[&path], &["--list-passes"], "");
        assert_eq!((status, out.as_str()), (DIAGNOSTICS, ""), "{err}");
        assert!(err.contains("E0740") && err.contains(message), "{err}");
    }
}

/// `relay-opt plugin new` makes what stands in `examples/plugin`, but for the manifest, which names
/// the folders of the sources.
#[test]
fn the_example_is_what_a_new_plugin_is() {
    let folder = place("new").join("example-plugin");
    let output = folder.display().to_string();
    let args = ["plugin", "new", "example-plugin", "--output", &output];
    let (status, out, err) = relay_opt(&[], &args, "");
    assert_eq!(status, OK, "{err}");
    assert!(out.contains("relay-opt plugin build"), "{out}");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugin");
    for file in ["build.rs", "src/lib.rs", "tests/lit.rs", "tests/example-plugin.relay"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).expect("a file");
        assert_eq!(read(&folder), read(&example), "{file}");
    }
    // The manifest reads, and its paths lead somewhere. Packages for other platforms need not be there.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--offline", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let (status, _, err) = relay_opt(&[], &args, "");
    assert_eq!(status, DIAGNOSTICS);
    assert!(err.contains("E0743") && err.contains("holds files already"), "{err}");
    for (name, source) in [("My Plugin", None), ("x", Some("/nonexistent"))] {
        let mut args = vec!["plugin", "new", name];
        args.extend(source.into_iter().flat_map(|source| ["--source", source]));
        let (status, _, err) = relay_opt(&[], &args, "");
        assert_eq!(status, DIAGNOSTICS);
        assert!(err.contains("E0743"), "{err}");
    }
}

/// The example of a binary outside the workspace, built as its author would.
#[test]
fn a_binary_of_ones_own_has_everything_and_its_pass() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--offline", "--locked"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/driver"))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = place("driver").join("model.relay");
    let text = "def @main(%x: Tensor[(2), float32]) { nn.relu(negative(negative(%x))) }\n";
    fs::write(&file, text).expect("a file");
    let output = Command::new(target.join("debug/my-relay-opt"))
        .arg(&file)
        .args(["--pass", "drop-double-negative,dce,fuse{strategy=dominator}"])
        .output()
        .expect("the binary runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("nn.relu(%p0)") && !out.contains("negative"), "{out}");
}

#[test]
fn a_program_with_passes_of_its_own_loads_none() {
    let mut registry = tools::registry();
    registry.add_pipeline("of-its-own", "", "Nothing.");
    registry.pass::<Own>();
    let plugin = EXAMPLE.as_path().display().to_string();
    let args = ["--list-passes", "--load-plugin", &plugin];
    let ran = tools::run_within(&registry, Path::new(""), &args, b"");
    assert_eq!(ran.status, DIAGNOSTICS);
    assert!(ran.err.contains("E0740") && ran.err.contains("`own`"), "{}", ran.err);
}

/// A pass of the program.
#[derive(ir_core::Pass)]
#[pass(name = "own", module)]
struct Own {}

impl ir_core::ModulePass for Own {
    fn run(
        &self,
        _: &mut ir_core::Module,
        _: &mut ir_core::PassContext<'_>,
    ) -> ir_core::PassResult {
        Ok(())
    }
}
