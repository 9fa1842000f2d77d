//! A worker for benchmark drivers that time several runtimes in turns.
//!
//! `relay-worker MODEL_DIR THREADS OUT_DIR` compiles `MODEL_DIR/model.onnx`, runs it once on
//! `MODEL_DIR/in_0.npy`, `in_1.npy` and so on, writes `OUT_DIR/out_0.npy` and so on, and prints a
//! line `READY` with a JSON object (`version`, `note`, `import_s`, `load_s` and `first_s`, in
//! seconds). Each line `run N` is answered with a JSON list of `N` pairs: nanoseconds on the wall,
//! and nanoseconds of processor time of all threads. `quit` or the end of the input ends it.

use std::io::{BufRead, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cpu_time::ProcessTime;
use ir_core::files::OutputFile;
use ir_core::{Diagnostics, Registry, TensorData};
use runtime::{BuildOptions, Program};
use serde_json::json;
use target_core::targets;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match serve(&arguments, &mut stdin().lock(), &mut stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Nobody listens where standard error is closed.
            let _ = writeln!(stderr(), "relay-worker: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Serves the protocol above on `input` and `output` until the input ends. The error is what went
/// wrong, for people.
fn serve(
    arguments: &[String],
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), String> {
    let [model, threads, out] = arguments else {
        return Err("usage: relay-worker MODEL_DIR THREADS OUT_DIR".to_string());
    };
    let threads: usize =
        threads.parse().map_err(|_| format!("`{threads}` is no number of threads"))?;
    let start = Instant::now();
    let mut program = load(Path::new(model), threads, &runtime::registry())?;
    let first = Instant::now();
    program.run().map_err(said)?;
    let (load_s, first_s) = (start.elapsed().as_secs_f64(), first.elapsed().as_secs_f64());
    for (index, tensor) in program.outputs().map_err(said)?.iter().enumerate() {
        let path = Path::new(out).join(format!("out_{index}.npy"));
        let failed = |why: String| format!("cannot write `{}`: {why}", path.display());
        let file = OutputFile::create(&path);
        let mut file = file.map_err(|error| failed(error.to_string()))?;
        arrays::write_npy(tensor, &mut file).map_err(failed)?;
        file.finish().map_err(|error| failed(error.to_string()))?;
    }
    let version = concat!("relay ", env!("CARGO_PKG_VERSION"));
    let ready = json!({
        "version": version, "note": "", "import_s": 0, "load_s": load_s, "first_s": first_s,
    });
    let failed = |error: std::io::Error| format!("cannot answer: {error}");
    writeln!(output, "READY {ready}").and_then(|()| output.flush()).map_err(failed)?;

    let mut line = String::new();
    loop {
        line.clear();
        let read = input.read_line(&mut line);
        if read.map_err(|error| format!("cannot read a command: {error}"))? == 0 {
            return Ok(());
        }
        let command = line.trim();
        if command == "quit" {
            return Ok(());
        }
        let count = command.strip_prefix("run ").and_then(|count| count.parse::<usize>().ok());
        let count = count.ok_or_else(|| format!("unknown command `{command}`"))?;
        let mut times = Vec::new();
        for _ in 0..count {
            let (wall, processor) = (Instant::now(), ProcessTime::now());
            program.run().map_err(said)?;
            let wall = u64::try_from(wall.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let processor = u64::try_from(processor.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.push((wall, processor));
        }
        writeln!(output, "{}", json!(times)).and_then(|()| output.flush()).map_err(failed)?;
    }
}

/// What `errors` say.
fn said(errors: Diagnostics) -> String {
    let lines = errors.into_iter().map(|error| format!("{}: {}", error.code, error.message));
    lines.collect::<Vec<_>>().join("\n")
}

/// The model of `folder`, compiled for `threads` threads of this machine, its inputs set.
fn load(folder: &Path, threads: usize, registry: &Registry) -> Result<Program, String> {
    let path = folder.join("model.onnx");
    let import = onnx_frontend::import(&path, &onnx_frontend::Options::default(), registry);
    let mut module = import.map_err(said)?.module;
    let found = relay::inference::infer_module(&mut module, registry);
    if found.has_errors() {
        return Err(said(found));
    }
    ir_core::verify(&module, registry).map_err(said)?;
    let target = targets(registry).parse(&format!("c{{threads={threads}}}")).map_err(said)?;
    let mut remarks = Diagnostics::new();
    let options = BuildOptions { threads, ..BuildOptions::new(&*target) };
    let built = Program::build(module, registry, &options, &mut remarks);
    let (mut program, _) = built.map_err(said)?;
    let mut inputs: Vec<TensorData> = Vec::new();
    for index in 0..program.inputs().len() {
        let path = folder.join(format!("in_{index}.npy"));
        let arrays = arrays::load(&path).map_err(said)?;
        inputs.extend(arrays.into_values());
    }
    program.set_inputs(&inputs).map_err(said)?;
    Ok(program)
}
