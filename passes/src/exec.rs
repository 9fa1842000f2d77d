//! Passes that are programs.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ir_core::text::Form;
use ir_core::{Diagnostic, Module, ModulePass, Pass, PassContext, PassResult};

use crate::codes;

/// Pipes the program through another program, which reads text and writes text.
///
/// The command gets the program on its standard input and writes what it made of it to its standard
/// output; what it writes to its standard error is shown. A status other than 0, no answer within the
/// timeout, and output that does not parse or type are errors, and the program is what it was.
/// Constants travel with the text, bit by bit, and locations in the result are those of the text
/// that the command wrote.
///
/// `exec{cmd="python3 my_pass.py --level 2"}` runs a program with arguments. They are split at blanks,
/// and quotes hold together what belongs together; there is no shell in between.
///
/// ```relay
/// def @main(%x: Tensor[(2), float32]) {
///   nn.relu(%x)
/// }
/// ```
/// becomes, with `cmd="sed s/nn.relu/tanh/"`,
/// ```relay
/// def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
///   tanh(%x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "exec", module)]
pub struct Exec {
    /// The program and its arguments.
    #[default(String::new())]
    pub cmd: String,
    /// What it reads and writes: `relay`, Relay text, or `generic`, the generic form of the IR.
    #[default("relay".to_string())]
    pub form: String,
    /// Seconds that it may take.
    #[default(60)]
    pub timeout: u64,
}

/// An output text is smaller: places in it are 31-bit offsets.
const MOST_OUTPUT: u64 = (1 << 31) - 1;

/// How much of what a failing program says is shown, in bytes.
const MOST_SHOWN: usize = 4000;

impl ModulePass for Exec {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let error = |message: String| Diagnostic::error(codes::EXEC, message);
        let form = match self.form.as_str() {
            "relay" => Form::Readable,
            "generic" => Form::Generic,
            other => {
                return Err(error(format!("`{other}` is no form that `exec` knows"))
                    .help("expected `relay` or `generic`")
                    .into());
            }
        };
        let words = shlex::split(&self.cmd).ok_or_else(|| {
            error("the command of `exec` has a quotation without an end".to_string())
                .help("commands are split into words as in a shell")
        })?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(error("`exec` needs a command".to_string())
                .help("for example `exec{cmd=\"python3 my_pass.py\"}`")
                .into());
        };
        let mut input = Vec::new();
        let printed = form.print(module, cx.registry, None, &mut input);
        printed.map_err(|problem| error(format!("the program cannot be printed: {problem}")))?;
        let is_empty = module.items.is_empty();
        // Nobody knows what the program looks at.
        cx.files.depend_on_more();
        let mut command = Command::new(program);
        command.args(arguments);
        let (output, said) = pipe(command, input, Duration::from_secs(self.timeout));
        let output = match output {
            Ok(output) => output,
            Err(what) => return Err(with_note(failure(&what, program), said).into()),
        };
        let file = format!("<output of {program}>");
        let text = String::from_utf8(output).map_err(|problem| {
            let at = problem.utf8_error().valid_up_to();
            error(format!("what `{program}` wrote is not text: byte {at} is not UTF-8"))
        })?;
        if text.trim().is_empty() && !is_empty {
            let nothing = error(format!("`{program}` wrote nothing"))
                .help("it must write the whole program to its standard output");
            return Err(with_note(nothing, said).into());
        }
        if said.is_some() {
            let message = format!("`{program}` wrote to its standard error");
            cx.report(with_note(Diagnostic::remark(codes::EXEC, message), said));
        }
        cx.sources.add(file.as_str(), text.clone());
        let (mut result, mut found) = form.parse(&file, &text, cx.registry);
        if !found.has_errors() {
            found.extend(relay::inference::infer_module(&mut result, cx.registry));
        }
        let failed = found.has_errors();
        cx.diagnostics.extend(found);
        if !failed {
            *module = result;
        }
        Ok(())
    }
}

/// What kept a program from answering.
enum Failure {
    /// It could not be run, or its streams broke.
    System(io::Error),
    /// It took longer than so many seconds.
    Timeout(u64),
    /// It wrote more than a text may have.
    TooMuch,
    /// It ended with this status.
    Status(ExitStatus),
}

/// The diagnostic with what a program said, if it said anything.
fn with_note(diagnostic: Diagnostic, said: Option<String>) -> Diagnostic {
    match said {
        Some(said) => diagnostic.note(said),
        None => diagnostic,
    }
}

fn failure(what: &Failure, program: &str) -> Diagnostic {
    let error = |message| Diagnostic::error(codes::EXEC, message);
    match what {
        Failure::System(problem) => {
            let text = problem.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text).to_string();
            error(format!("cannot run `{program}`: {text}"))
                .help("paths are relative to the current folder; there is no shell")
        }
        Failure::Timeout(seconds) => {
            error(format!("`{program}` did not end within {seconds} s and was stopped"))
                .help("give it more time with `timeout=SECONDS`")
        }
        Failure::TooMuch => error(format!("`{program}` wrote 2 GiB or more, and was stopped")),
        Failure::Status(status) => error(format!("`{program}` failed: {status}")),
    }
}

/// What `command` writes when it reads `input`, and what it writes to its standard error. It is
/// stopped after `timeout`.
fn pipe(
    mut command: Command,
    input: Vec<u8>,
    timeout: Duration,
) -> (Result<Vec<u8>, Failure>, Option<String>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = match command.spawn() {
        Ok(child) => Running::new(child),
        Err(error) => return (Err(Failure::System(error)), None),
    };
    let stderr = program.child().stderr.take();
    let stderr = stderr.map(|stream| read_on(stream, MOST_SHOWN as u64));
    let output = answer(&program, input, timeout);
    let said = stderr.and_then(|stream| stream.recv_timeout(REST).ok()).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim_end().to_string();
    (output, (!said.is_empty()).then_some(said))
}

/// The streams of a program end with it, unless it left another one behind, which is not waited for.
const REST: Duration = Duration::from_secs(1);

/// What a program writes to its standard output.
fn answer(program: &Running, input: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, Failure> {
    let (stdin, stdout) = {
        let mut child = program.child();
        (child.stdin.take(), child.stdout.take())
    };
    if let Some(mut stdin) = stdin {
        // A program may answer without reading all, which is no error.
        thread::spawn(move || stdin.write_all(&input));
    }
    let stdout = stdout.map(|stream| read_on(stream, MOST_OUTPUT + 1));
    let status = wait(program, timeout)?;
    if !status.success() {
        return Err(Failure::Status(status));
    }
    let output = match stdout {
        Some(stream) => {
            stream.recv_timeout(REST).map_err(|_| Failure::Timeout(timeout.as_secs()))?
        }
        None => vec![],
    };
    if output.len() as u64 > MOST_OUTPUT { Err(Failure::TooMuch) } else { Ok(output) }
}

/// Reads a stream to its end, or `limit` bytes of it, while others go on.
fn read_on(stream: impl Read + Send + 'static, limit: u64) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut stream = stream;
        let mut bytes = Vec::new();
        // What was read before an error is all that there is.
        let _ = (&mut stream).take(limit).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
        // The rest is read away, so that the program does not wait for a reader.
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    receiver
}

/// Waits for a program, and stops it after `timeout`.
fn wait(program: &Running, timeout: Duration) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(100);
    loop {
        let status = program.child().try_wait().map_err(Failure::System)?;
        match status {
            Some(status) => return Ok(status),
            None if start.elapsed() >= timeout => {
                stop(&mut program.child());
                return Err(Failure::Timeout(timeout.as_secs()));
            }
            None => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The programs that passes wait for.
static RUNNING: Mutex<Vec<Arc<Mutex<Child>>>> = Mutex::new(Vec::new());

/// A program that a pass waits for, as long as this lives.
struct Running(Arc<Mutex<Child>>);

impl Running {
    fn new(child: Child) -> Running {
        let child = Arc::new(Mutex::new(child));
        running().push(child.clone());
        Running(child)
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        running().retain(|child| !Arc::ptr_eq(child, &self.0));
    }
}

fn running() -> MutexGuard<'static, Vec<Arc<Mutex<Child>>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the programs that passes of this process wait for: for a process that ends before its passes
/// do.
pub fn stop_programs() {
    for child in running().drain(..) {
        stop(&mut child.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn stop(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}
