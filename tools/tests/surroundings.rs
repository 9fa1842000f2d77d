//! Compiled programs where something around them is wrong: arrays that do not fit, compilers that
//! do not work, disks that are full, caches that are broken, and several processes at a time. Each
//! is a process of its own, since the surroundings are.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrays::{Arrays, save};
use ir_core::{DType, Random};

const MODEL: &str = r#"
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  (nn.relu(nn.dense(%x, %w)), tanh(%x))
}
"#;

/// A folder of its own for each test, with the model and fitting arrays in it.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("surroundings").join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("model.relay"), MODEL).unwrap();
        let place = Place(folder);
        place.arrays(
            "arrays.npz",
            &[("x", &[2, 3], DType::FLOAT32), ("w", &[4, 3], DType::FLOAT32)],
        );
        place
    }

    fn arrays(&self, file: &str, arrays: &[(&str, &[i64], DType)]) {
        let mut random = Random::new(1);
        let all: Arrays = arrays
            .iter()
            .map(|(name, shape, dtype)| (name.to_string(), random.tensor(shape, *dtype).unwrap()))
            .collect();
        save(&self.0.join(file), &all).unwrap();
    }

    /// A compiler that is the shell script `body`.
    fn compiler(&self, body: &str) -> String {
        let script = self.0.join("compiler");
        let version = "case \"$*\" in *--version*) echo a script; exit 0;; esac";
        fs::write(&script, format!("#!/bin/sh\n{version}\n{body}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script.display().to_string()
    }

    /// relay-opt on `arrays`, compiled, with a cache in this folder.
    fn command(&self, arrays: &str) -> Command {
        self.executor("graph", arrays)
    }

    fn executor(&self, executor: &str, arrays: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
        command.current_dir(&self.0).env("RELAY_CACHE_DIR", self.0.join("cache"));
        command.args(["run", "model.relay", "--executor", executor, "--inputs", arrays]);
        command
    }

    /// relay-opt in this folder.
    fn relay_opt(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
        command.current_dir(&self.0).args(args);
        command
    }

    /// Files of compiled code.
    fn entries(&self) -> Vec<PathBuf> {
        let files = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect()
        };
        let folders = files(&self.0.join("cache"));
        folders.iter().flat_map(|folder| files(folder)).collect()
    }
}

fn ran(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// The results, of a command that must succeed.
#[track_caller]
fn results(command: &mut Command) -> String {
    let (status, out, err) = ran(command);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("out_1"), "{out}");
    out
}

/// Checks that the command ends with an error of the input that says all of `parts`.
#[track_caller]
fn refused(command: &mut Command, parts: &[&str]) {
    let (status, out, err) = ran(command);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
    for part in parts {
        assert!(err.contains(part), "expected `{part}` in\n{err}");
    }
}

fn has_compiler() -> bool {
    target_c::runtime::Compiler::find().is_ok()
}

#[test]
fn arrays_that_do_not_fit_are_named() {
    let place = Place::new("arrays");
    let weight = ("w", &[4i64, 3][..], DType::FLOAT32);
    place.arrays("shape.npz", &[("x", &[3, 2], DType::FLOAT32), weight]);
    refused(&mut place.command("shape.npz"), &["E0732", "`x`", "found Tensor[(3, 2), float32]"]);
    place.arrays("dtype.npz", &[("x", &[2, 3], DType::FLOAT64), weight]);
    refused(&mut place.command("dtype.npz"), &["E0732", "`x`", "found Tensor[(2, 3), float64]"]);
    place.arrays("missing.npz", &[weight]);
    refused(&mut place.command("missing.npz"), &["E0731", "%x: Tensor[(2, 3), float32]"]);
    refused(&mut place.command("nowhere.npz"), &["nowhere.npz"]);
    fs::write(place.0.join("broken.npz"), b"PK\x03\x04 and no more").unwrap();
    refused(&mut place.command("broken.npz"), &["broken.npz"]);
    // One that nobody asked for is a warning.
    if has_compiler() {
        place.arrays(
            "more.npz",
            &[("x", &[2, 3], DType::FLOAT32), weight, ("z", &[1], DType::BOOL)],
        );
        let (status, _, err) = ran(&mut place.command("more.npz"));
        assert_eq!(status, Some(0), "{err}");
        assert!(err.contains("array `z` fits no parameter"), "{err}");
    }
}

#[test]
fn compilers_that_do_not_work_are_named() {
    let place = Place::new("compilers");
    let command = |compiler: &str| {
        let mut command = place.command("arrays.npz");
        command.env("CC", compiler);
        command
    };
    refused(&mut command("/bin/false"), &["E0903", "/bin/false", "CC"]);
    refused(&mut command("no-such-compiler"), &["E0903", "no-such-compiler"]);
    let compiler = place.compiler("echo 'kernels.c:1:2: error: not today' >&2; exit 3");
    refused(&mut command(&compiler), &["E0904", "the source is kept in", "error: not today"]);
    refused(&mut command(&place.compiler("exit 0")), &["E0904", "wrote no file"]);
    refused(&mut command(&place.compiler("echo nothing > kernels.so")), &["E0906"]);
    let compiler = place.compiler("echo 'cc1: fatal error: No space left on device' >&2; exit 1");
    refused(&mut command(&compiler), &["E0905", "no space left on device", "make room"]);
    // The interpreter needs none.
    let mut automatic = place.executor("auto", "arrays.npz");
    let (status, out, err) = ran(automatic.env("CC", "/bin/false"));
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("out_1") && err.contains("are interpreted"), "{out}{err}");
}

#[test]
fn code_that_cannot_be_loaded_is_made_again() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("unloadable");
    let good = place.0.join("good");
    // A compiler that links from the second time on.
    let body = format!(
        "case \"$*\" in *-shared*) if [ ! -e {0} ]; then touch {0}; \
         echo nothing > kernels.so; exit 0; fi;; esac; exec cc \"$@\"",
        good.display()
    );
    let compiler = place.compiler(&body);
    let mut command = place.command("arrays.npz");
    refused(command.env("CC", &compiler), &["E0906"]);
    results(&mut command);
}

/// The passes of `pipeline` with the figures of the targets in them.
fn figures(place: &Place, pipeline: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
    command.current_dir(&place.0).env("RELAY_CACHE_DIR", place.0.join("cache"));
    ran(command.args(["--pass", pipeline, "--print-pipeline"]))
}

#[test]
fn measured_costs_are_used_where_they_are_named() {
    let place = Place::new("calibrate");
    let calibrate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
        command.current_dir(&place.0).env("RELAY_CACHE_DIR", place.0.join("cache"));
        command.args(["calibrate", "--threads", "1"]).args(arguments);
        command
    };
    refused(calibrate(&[]).env("CC", "/bin/false"), &["E0903", "/bin/false", "CC"]);
    if !has_compiler() {
        return;
    }
    let unmeasured = ["fuse", "fuse{target=c}", "eqsat{target=c{threads=1}}"];
    let before = unmeasured.map(|pipeline| figures(&place, pipeline));
    assert!(before.iter().all(|(status, ..)| *status == Some(0)), "{before:?}");
    let measured = "fuse{target=c{threads=1,costs=measured}}";
    let (status, _, err) = figures(&place, measured);
    assert_eq!(status, Some(2), "{err}");
    let help = "`relay-opt calibrate --target 'c{threads=1}'` measures them";
    assert!(err.contains("E0912") && err.contains(help), "{err}");

    let (status, out, err) = ran(&mut calibrate(&["--json"]));
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["target"], "c{threads=1}");
    let names = ["launch", "bandwidth", "arithmetic", "products", "transcendental"];
    let figure = |name| format!("{name}={}", said["costs"][name].as_f64().unwrap());
    let expected = format!("fuse{{target={{{}}}}}\n", names.map(figure).join(","));
    let (status, out, err) = figures(&place, measured);
    assert_eq!((status, out), (Some(0), expected), "{err}");
    assert_eq!(said["copies"].as_array().unwrap().len(), 3);
    // What did not name them is as it was.
    assert_eq!(unmeasured.map(|pipeline| figures(&place, pipeline)), before);
    let mut fused = place.command("arrays.npz");
    results(fused.args(["--fuse", "search", "--target", "c{threads=1,costs=measured}"]));

    let file = said["file"].as_str().unwrap();
    let text = fs::read_to_string(file).unwrap();
    for (broken, why) in [
        (text[..text.len() - 10].to_string(), "it is broken"),
        (text.replace("version 1", "version 0"), "another version of this program measured it"),
    ] {
        fs::write(file, broken).unwrap();
        let (status, _, err) = figures(&place, measured);
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains("E0912") && err.contains(why), "{err}");
    }
    let (status, out, err) = ran(&mut calibrate(&[]));
    assert_eq!(status, Some(0), "{err}");
    assert!(err.contains("note[E0912]") && err.contains("it is measured again"), "{err}");
    assert!(out.contains("--target 'c{threads=1,costs=measured}'"), "{out}");
    // Another compiler, which says of itself what it is.
    let compiler = place.compiler("exec cc \"$@\"");
    let mut other = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
    other.env("RELAY_CACHE_DIR", place.0.join("cache")).env("CC", compiler);
    let (_, _, err) = ran(other.args(["--pass", measured, "--print-pipeline"]));
    assert!(err.contains("it was measured with another compiler"), "{err}");
}

#[test]
fn a_disk_that_is_full_is_said() {
    let place = Place::new("full");
    // No file may grow, which looks like a full disk to whoever writes.
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let inner = place.command("arrays.npz");
    command.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(&place.0).env("RELAY_CACHE_DIR", place.0.join("cache"));
    if has_compiler() {
        refused(&mut command, &["E0905", "cannot be written", "RELAY_CACHE_DIR"]);
    }
    assert_eq!(place.entries(), Vec::<PathBuf>::new(), "nothing half written is left");
}

#[test]
fn a_cache_that_is_no_folder_is_said() {
    let place = Place::new("no-folder");
    fs::write(place.0.join("cache"), "").unwrap();
    if has_compiler() {
        refused(&mut place.command("arrays.npz"), &["E0905", "cannot be written"]);
    }
}

#[test]
fn broken_entries_are_made_again() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("broken");
    let good = results(&mut place.command("arrays.npz"));
    let made = place.entries();
    // The program, and what the compiler was tested with.
    assert_eq!(made.len(), 2, "{made:?}");
    for entry in &made {
        let whole = fs::read(entry).unwrap();
        for broken in [&b""[..], &whole[..whole.len() / 2], b"no library"] {
            fs::write(entry, broken).unwrap();
            assert_eq!(results(&mut place.command("arrays.npz")), good);
            assert_eq!(place.entries(), made);
        }
    }
    // What a process left that was stopped in the middle does no harm.
    fs::create_dir_all(place.0.join("cache/making-1-0")).unwrap();
    assert_eq!(results(&mut place.command("arrays.npz")), good);
    // An entry is used without a word to the compiler.
    let mut command = place.command("arrays.npz");
    let compiler = place.compiler("test -z \"$REFUSES\" && exec cc \"$@\"");
    assert_eq!(results(command.env("CC", &compiler)), good);
    assert_eq!(results(command.env("REFUSES", "1")), good);
}

#[test]
fn another_compiler_of_the_same_name_compiles_anew() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("another");
    let mut count = 0;
    let mut compiles = |command: &mut Command| {
        results(command);
        let before = std::mem::replace(&mut count, place.entries().len());
        count > before
    };
    let compiler = place.compiler("exec cc \"$@\"");
    let mut command = place.command("arrays.npz");
    command.env("CC", &compiler);
    assert!(compiles(&mut command));
    assert!(!compiles(&mut command));
    // A file of the same length and time.
    let time = fs::metadata(&compiler).unwrap().modified().unwrap();
    place.compiler("exec  cc \"$@\"".replace("  ", "\t").as_str());
    fs::File::options().append(true).open(&compiler).unwrap().set_modified(time).unwrap();
    assert!(compiles(&mut command));
    // Arguments, and what compilers look at.
    assert!(compiles(command.env("CC", format!("{compiler} -g0"))));
    assert!(compiles(command.env("CPATH", place.0.join("include"))));
    assert!(!compiles(&mut command));
}

#[test]
fn files_of_others_are_not_loaded() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("planted");
    let good = results(&mut place.command("arrays.npz"));
    let made = place.entries();
    // What somebody puts beside, under the name that it has in a folder of theirs.
    let other = Place::new("planter");
    let planted = place.0.join("cache").join("planted");
    let _ = results(&mut other.command("arrays.npz"));
    let theirs = other.entries().remove(0);
    fs::create_dir_all(&planted).unwrap();
    let ours = made[0].parent().unwrap();
    fs::copy(&theirs, ours.join(theirs.file_name().unwrap())).unwrap();
    fs::remove_file(&made[0]).unwrap();
    assert_eq!(results(&mut place.command("arrays.npz")), good);
    assert_eq!(place.entries(), made);
    // A folder that others write is none.
    let cache = place.0.join("cache");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let parts = ["E0905", "other users may write to it", "RELAY_CACHE_DIR"];
    refused(&mut place.command("arrays.npz"), &parts);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    // Without a folder of the user's own, it is one among the temporary files that is theirs.
    let temporary = place.0.join("temporary");
    fs::create_dir(&temporary).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(temporary.join("relay-cache")).unwrap();
    let mut homeless = place.command("arrays.npz");
    let folders = ["HOME", "XDG_CACHE_HOME", "RELAY_CACHE_DIR"];
    for name in folders {
        homeless.env_remove(name);
    }
    assert_eq!(results(homeless.env("TMPDIR", &temporary)), good);
    let user = nix::unistd::geteuid();
    let folder = temporary.join(format!("relay-cache-{user}"));
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fs::read_dir(temporary.join("relay-cache")).unwrap().count(), 0);
    // Somebody else's folder of that name; who may not give files away cannot try.
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    if std::os::unix::fs::chown(&folder, Some(12345), None).is_ok() {
        refused(&mut homeless, &["E0905", "it belongs to another user"]);
    }
}

#[test]
fn a_pipe_as_an_input_is_refused() {
    let place = Place::new("pipe");
    let made = Command::new("mkfifo").arg(place.0.join("pipe.npz")).status();
    if made.is_ok_and(|status| status.success()) {
        refused(&mut place.command("pipe.npz"), &["E0520", "it is no regular file"]);
        let plugin = ["model.relay", "--load-plugin", "pipe.npz"];
        refused(&mut place.relay_opt(&plugin), &["E0740", "it is no regular file"]);
    }
    // Opened, it would be waited for until somebody writes to it.
    let made = Command::new("mkfifo").arg(place.0.join("pipe.onnx")).status();
    if made.is_ok_and(|status| status.success()) {
        for command in [&["pipe.onnx"][..], &["import", "pipe.onnx"], &["run", "pipe.onnx"]] {
            refused(&mut place.relay_opt(command), &["E0800", "it is no regular file"]);
        }
    }
}

#[test]
fn a_program_ends_with_the_process_whose_pass_waits_for_it() {
    let place = Place::new("left-behind");
    fs::write(place.0.join("wait.sh"), "echo $$ > pid\nexec sleep 60\n").unwrap();
    let args = ["model.relay", "--pass", "exec{cmd=\"sh wait.sh\"}", "--pass-time-limit", "0.5"];
    let (status, _, err) = ran(&mut place.relay_opt(&args));
    assert!(status == Some(3) && err.contains("E0715"), "{err}");
    let id = fs::read_to_string(place.0.join("pid")).unwrap();
    let probe = Command::new("kill").args(["-0", id.trim()]).output().unwrap();
    assert!(!probe.status.success(), "process {id} is still there");
}

#[test]
fn a_file_that_does_not_end_is_refused() {
    let place = Place::new("endless");
    for (name, pass) in [("a.rules", "rewrite{rules"), ("a.strategy", "eqsat{strategy")] {
        std::os::unix::fs::symlink("/dev/zero", place.0.join(name)).unwrap();
        let pass = format!("{pass}={name}}}");
        refused(&mut place.relay_opt(&["model.relay", "--pass", &pass]), &["E1009", "too large"]);
    }
}

/// Runs a command that may write no file of more than this many blocks.
fn limited(place: &Place, blocks: u32, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_relay-opt")]).args(args);
    ran(command.current_dir(&place.0))
}

#[test]
fn outputs_are_whole_or_as_they_were() {
    let place = Place::new("outputs");
    // More than a block.
    let long: Vec<i64> = vec![64, 64];
    place.arrays("long.npz", &[("x", &long, DType::FLOAT32)]);
    let text = "def @main(%x: Tensor[(64, 64), float32]) { copy(%x) }\n";
    fs::write(place.0.join("copy.relay"), text.to_string() + &"// long\n".repeat(400)).unwrap();
    let large = format!("def @main() {{ ({}) }}\n", vec!["1f"; 4000].join(", "));
    fs::write(place.0.join("large.relay"), large).unwrap();
    let commands: [(&str, &[&str]); 4] = [
        ("out.relay", &["large.relay", "-o", "out.relay"]),
        ("out.json", &["large.relay", "--emit", "json", "-o", "out.json"]),
        (
            "out.npz",
            &[
                "run",
                "copy.relay",
                "--executor",
                "interp",
                "--inputs",
                "long.npz",
                "--output",
                "out.npz",
            ],
        ),
        ("view.html", &["view", "large.relay", "-o", "view.html"]),
    ];
    for (file, args) in commands {
        let path = place.0.join(file);
        fs::write(&path, "good").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let (status, _, err) = limited(&place, 1, args);
        assert_eq!(status, Some(1), "{file}: {err}");
        assert!(err.contains("cannot write"), "{file}: {err}");
        assert_eq!(fs::read(&path).unwrap(), b"good", "{file}");
        let (status, _, err) = limited(&place, 100_000, args);
        assert_eq!(status, Some(0), "{file}: {err}");
        assert!(fs::read(&path).unwrap().len() > 512, "{file}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o604, "{file}");
    }
    let names = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().file_name());
    let left = names.filter(|name| name.to_string_lossy().contains("partial"));
    assert_eq!(left.count(), 0);
    // What is no file is written as it goes.
    for special in ["/dev/stdout", "/dev/null"] {
        let (status, out, err) = limited(&place, 100_000, &["copy.relay", "-o", special]);
        assert_eq!(status, Some(0), "{special}: {err}");
        assert_eq!(out.contains("def @main"), special == "/dev/stdout");
    }
    let (status, _, err) = limited(&place, 100_000, &["copy.relay", "-o", "/dev/full"]);
    assert!(status == Some(1) && err.contains("E0724"), "{err}");
}

#[test]
fn a_folder_that_is_only_read_serves_what_is_in_it() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("read-only");
    let good = results(&mut place.command("arrays.npz"));
    let cache = place.0.join("cache");
    let set = |mode| fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    assert_eq!(results(&mut place.command("arrays.npz")), good);
    // Another program is not in it. Who may do everything may write as well.
    let model = MODEL.replace("tanh", "sigmoid");
    fs::write(place.0.join("model.relay"), model).unwrap();
    if fs::write(cache.join("probe"), "").is_err() {
        refused(&mut place.command("arrays.npz"), &["E0905", "cannot be written"]);
    }
    set(0o755);
}

#[test]
fn processes_share_a_cache() {
    if !has_compiler() {
        return;
    }
    let place = Place::new("processes");
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = place.command("arrays.npz");
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let outputs: Vec<Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    for output in &outputs {
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        assert_eq!(output.stdout, outputs[0].stdout);
    }
    // Compilers need not write the same bytes twice; but nothing half made is there.
    assert!(!place.entries().is_empty());
    assert!(place.entries().iter().all(|path| path.extension().is_some_and(|end| end == "so")));
}
