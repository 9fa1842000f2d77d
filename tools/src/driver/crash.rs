//! Panics: errors of the compiler, wherever they happen.

use std::io;
use std::path::Path;

use ir_core::diagnostics::render;
use ir_core::pipeline::{catch_panic, take_backtrace};
use ir_core::{Diagnostic, Registry, SourceMap};

use crate::driver::language::Form;
use crate::driver::model::{is_onnx, read};
use crate::driver::options::ModelOptions;
use crate::driver::reproducers::Reproducers;
use crate::process::exit::INTERNAL;
use crate::process::io::Io;

/// A model that a command works on.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Its file, as it was given.
    pub(crate) path: &'a str,
    pub(crate) options: &'a ModelOptions,
}

/// Does `work`. A panic that nothing in it catches is reported, with a reproducer where there is a
/// `subject`.
///
/// # Errors
/// Those of `work`, and of writing to standard error.
pub(crate) fn guard(
    subject: Option<Subject<'_>>,
    registry: &Registry,
    io: &mut Io<'_>,
    work: impl FnOnce(&mut Io<'_>) -> io::Result<i32>,
) -> io::Result<i32> {
    let message = match catch_panic(|| work(io)) {
        Ok(status) => return status,
        Err(message) => message,
    };
    let program = subject.and_then(|subject| text_of(subject, registry, &io.directory));
    let mut report = crash(&message);
    if program.is_some() {
        report = report.note("`relay-opt --emit c` of the reproducer compiles it again");
    }
    render::human(&[report], &SourceMap::default(), io.styled, io.stderr)?;
    if let Some(program) = program {
        Reproducers::default().write(String::new(), &program, message, io.stderr)?;
    }
    Ok(INTERNAL)
}

/// What to say of a panic.
pub(crate) fn crash(message: &str) -> Diagnostic {
    let mut crash = Diagnostic::error("E0727", format!("relay-opt crashed: {message}"))
        .help("this is an error of the compiler, not of the input; please report it");
    crash.notes.extend(take_backtrace());
    crash
}

/// The program as text; `None` where it cannot be read, or not again.
fn text_of(subject: Subject<'_>, registry: &Registry, directory: &Path) -> Option<String> {
    let Subject { path, options } = subject;
    match path {
        "-" => None,
        path if is_onnx(path) => model_text(path, options, registry, directory),
        path => std::fs::read_to_string(directory.join(path)).ok(),
    }
}

/// The model at `path` as text; `None` where it cannot be imported.
pub(crate) fn model_text(
    path: &str,
    options: &ModelOptions,
    registry: &Registry,
    directory: &Path,
) -> Option<String> {
    let text = catch_panic(|| {
        let (module, _) = read(path, options, registry, directory);
        let mut text = Vec::new();
        let printed = Form::Readable.print(&module, registry, None, &mut text);
        printed.map(|()| String::from_utf8_lossy(&text).into_owned())
    });
    text.ok()?.ok()
}
