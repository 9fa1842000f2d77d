//! Ctrl-C: real signals to real processes. Each is sent once a process has said, or shown by a
//! file, that it is at work.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("relay-interrupt-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn wait_for(&self, name: &str) {
        while !self.0.join(name).exists() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(folder: &Path, args: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay-opt"));
        command.args(args).current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Running { child, stderr }
    }

    /// Reads standard error up to a line with `text`.
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "no `{text}`");
        }
    }

    fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// The exit status, and what is left of both streams.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut stdout = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), reader.join().unwrap(), stderr)
    }
}

/// A sum of so many numbers, in each of several functions.
fn sums(functions: usize, terms: usize) -> String {
    let sum = |function: usize| {
        let params: Vec<String> =
            (0..terms).map(|index| format!("%p{index}: Tensor[(4), float32]")).collect();
        let mut sum = "%p0".to_string();
        for index in 1..terms {
            sum = format!("add({sum}, %p{index})");
        }
        format!("def @f{function}({}) -> Tensor[(4), float32] {{ {sum} }}\n", params.join(", "))
    };
    (0..functions).map(sum).collect()
}

#[test]
fn a_search_ends_with_what_it_has_and_the_other_passes_run() {
    let folder = Folder::new("eqsat");
    folder.write("sum.relay", &sums(1, 80));
    let endless = "nodes=100000000,work=1000000000,iterations=1000000";
    let pipeline = format!("eqsat{{{endless}}},fuse");
    let args = ["sum.relay", "--pass", &pipeline, "--print-ir-before=eqsat"];
    let mut running = Running::start(&folder.0, &args);
    running.wait_for("def @f0");
    running.interrupt();
    let (status, stdout, stderr) = running.end();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stderr.contains("E0713") && stderr.contains("pass `eqsat` was interrupted"),
        "{stderr}"
    );
    assert!(stdout.contains("Primitive=1"), "{stdout}");
    folder.write("out.relay", &stdout);
    let (status, _, stderr) = Running::start(&folder.0, &["out.relay"]).end();
    assert_eq!(status, Some(0), "{stderr}");
}

#[test]
fn training_goes_on_where_it_was_interrupted() {
    let folder = Folder::new("train");
    folder.write(
        "line.relay",
        "def @main(%w: Tensor[(1, 3), float32], %x: Tensor[(?, 3), float32], %y: Tensor[(?), int32]) {
  let %e = subtract(squeeze(nn.dense(%x, %w), axis=[1]), cast(%y, dtype=\"float32\"));
  mean(multiply(%e, %e))
}",
    );
    let data =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../lit-tests/relay-opt/Inputs/train.npz");
    let data = data.to_str().expect("a path that is text");
    let train = |more: &[&str]| {
        let all = ["train", "line.relay", "--data", data, "--batch", "2", "--rate", "0.001"];
        Running::start(&folder.0, &[&all, more].concat())
    };
    let endless = ["--epochs", "1000000", "--checkpoint", "stopped.npz", "-o", "stopped-w.npz"];
    let running = train(&endless);
    folder.wait_for("stopped.npz");
    running.interrupt();
    let (status, _, stderr) = running.end();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("go on with `--resume stopped.npz`"), "{stderr}");
    assert!(folder.0.join("stopped-w.npz").exists());
    let step =
        stderr.split("interrupted after step ").nth(1).and_then(|text| text.split(' ').next());
    let step: usize = step.and_then(|step| step.parse().ok()).expect("a number of steps");
    // Eight steps take all sixteen rows.
    let epochs = (step / 8 + 2).to_string();
    for more in [&["--resume", "stopped.npz", "-o", "a.npz"][..], &["-o", "b.npz"]] {
        let (status, _, stderr) = train(&[&["--epochs", &epochs], more].concat()).end();
        assert_eq!(status, Some(0), "{stderr}");
    }
    let read = |name: &str| fs::read(folder.0.join(name)).expect("weights");
    assert_eq!(read("a.npz"), read("b.npz"));
}

#[test]
fn a_watch_ends() {
    let folder = Folder::new("watch");
    folder.write("sum.relay", &sums(1, 3));
    let mut running = Running::start(&folder.0, &["sum.relay", "--watch"]);
    running.wait_for("1 items; checked");
    running.interrupt();
    assert_eq!(running.end().0, Some(0));
}

/// A script that answers as `answers` say, one for each program that it is asked about, the last
/// one from then on. It says by a file that it is asked for the `waiting`th time, and waits for
/// another one then.
fn probe(folder: &Folder, answers: &[u8], waiting: usize) {
    let mut script =
        "n=$(cat count 2>/dev/null || echo 0)\nn=$((n+1))\necho $n > count\n".to_string();
    script += &format!(
        "if [ $n -eq {waiting} ]; then\n  touch waiting\n  while [ ! -e go ]; do sleep 0.01; done\n  touch ended\nfi\n"
    );
    for (index, answer) in answers.iter().enumerate() {
        let test = if index + 1 < answers.len() { "-eq" } else { "-ge" };
        script += &format!("if [ $n {test} {} ]; then exit {answer}; fi\n", index + 1);
    }
    folder.write("probe.sh", &script);
    folder.write("in.relay", &sums(4, 6));
}

/// Interrupts a command whose search asks the script, once that waits.
fn interrupted(folder: &Folder, command: &[&str]) -> (Option<i32>, String, String) {
    let asks = ["--command", "sh probe.sh {}", "--timeout", "100000"];
    let running = Running::start(&folder.0, &[command, &asks].concat());
    folder.wait_for("waiting");
    running.interrupt();
    folder.write("go", "");
    running.end()
}

#[test]
fn reducing_keeps_the_smallest_program_so_far() {
    let folder = Folder::new("reduce");
    // Without all functions, and then without half of them.
    probe(&folder, &[0, 1, 0, 1], 4);
    let args = ["reduce", "in.relay", "--threads", "1", "-o", "out.relay"];
    let (status, _, stderr) = interrupted(&folder, &args);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("in 4 trials; interrupted"), "{stderr}");
    assert!(folder.read("out.relay").len() < folder.read("in.relay").len());
}

#[test]
fn a_second_signal_ends_the_process() {
    let folder = Folder::new("twice");
    probe(&folder, &[0], 1);
    let args = ["reduce", "in.relay", "--command", "sh probe.sh {}", "--timeout", "100000"];
    let mut running = Running::start(&folder.0, &args);
    folder.wait_for("waiting");
    // Signals that come before the one before them was seen are one.
    while running.child.try_wait().unwrap().is_none() {
        let _ = Command::new("kill")
            .args(["-INT", &running.child.id().to_string()])
            .stderr(Stdio::null())
            .status();
    }
    assert_eq!(running.end().0, Some(tools::exit::INTERRUPTED));
    // The script outlives who asked it.
    folder.write("go", "");
    folder.wait_for("ended");
}

#[test]
fn bisecting_says_how_far_it_came() {
    let folder = Folder::new("bisect");
    probe(&folder, &[0, 1, 1], 3);
    let args = ["bisect", "in.relay", "--pass", "cse", "-o", "out.relay"];
    let (status, _, stderr) = interrupted(&folder, &args);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("interrupted: the fault is in executions 3 to 4 of 4"), "{stderr}");
    assert!(folder.read("out.relay").contains("cse"));
}

#[test]
fn debugging_writes_what_it_has() {
    let folder = Folder::new("debug");
    probe(&folder, &[0, 1, 1, 0], 3);
    let args = ["debug", "--auto", "in.relay", "--pass", "cse", "--threads", "1", "-o", "out"];
    let (status, _, stderr) = interrupted(&folder, &args);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert!(folder.read("out/reproducer.relay").contains("def @f0"));
    assert!(folder.read("out/test.relay").contains("RUN"));
}

/// Every driver and pass that searches, interrupted before it begins, leaves a program that
/// verifies, and says that it was cut.
#[test]
fn whoever_searches_can_be_cut() {
    use std::sync::atomic::AtomicBool;

    use ir_core::pipeline::{Outcome, Pipeline, RunOptions, run};

    static RAISED: AtomicBool = AtomicBool::new(true);
    let registry = tools::registry();
    let pipelines = [
        "eqsat",
        "eqsat{strategy=greedy}",
        "eqsat{strategy=beam}",
        "eqsat{strategy=pulsed}",
        "eqsat{strategy=exact}",
        "rewrite",
        "fuse{strategy=search}",
    ];
    for text in pipelines {
        let (mut module, mut found) = ir_core::text::module::parse("sum", &sums(1, 40), &registry);
        found.extend(relay::inference::infer_module(&mut module, &registry));
        assert!(found.is_empty(), "{found:?}");
        let pipeline = Pipeline::parse(text, &registry).unwrap();
        let interrupt = ir_core::Interrupt::by(&RAISED);
        let options = RunOptions { interrupt, ..RunOptions::default() };
        let report =
            run(&pipeline, &mut module, &registry, options, &mut [], &mut std::io::sink()).unwrap();
        assert_eq!(report.outcome, Outcome::Done);
        let codes: Vec<&str> = report.diagnostics.iter().map(|found| found.code).collect();
        assert_eq!(codes, ["E0713"], "{text}");
        assert!(ir_core::verify(&module, &registry).is_ok(), "{text}");
    }
}
