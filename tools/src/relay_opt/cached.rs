//! `--cache`: results of whole runs, kept on disk, and those of function passes: see [`items`].
//!
//! A result is kept where a run prints nothing but it: no diagnostics, and nothing about how it
//! went. Its key is everything that it depends on.

mod items;

use std::fs;
use std::io::{self, Write};
use std::time::UNIX_EPOCH;

use analysis::cache::{Cache, Found};
use ir_core::fingerprint::{Fingerprint, of_bytes};
use ir_core::{Diagnostic, Registry, SourceMap};

use super::args::{DiagnosticForm, Optimize};
use crate::io::Io;
use items::Items;

/// The results of runs with certain options.
pub(super) struct Results {
    cache: Cache,
    /// What all passes depend on besides the program.
    settings: Vec<String>,
    /// What the result of a whole run depends on besides.
    whole: Vec<String>,
}

impl Results {
    /// The results of runs with these options; `None` where none are kept, or where the options ask
    /// for more than the result.
    pub(super) fn open(
        args: &Optimize,
        pipeline: &str,
        rules: &SourceMap,
        registry: &Registry,
        io: &Io<'_>,
    ) -> Result<Option<Results>, Diagnostic> {
        let Some(folder) = &args.cache else { return Ok(None) };
        let watched = !args.print_ir_before.is_empty()
            || !args.print_ir_after.is_empty()
            || args.print_ir_after_change
            || args.print_ir_diff.is_some()
            || !args.trace_rewrites.is_empty()
            || args.print_provenance
            || args.print_schedule_steps
            || args.dump_egraph.is_some()
            || args.explain_rewrites.is_some()
            || args.timing.is_some()
            || args.stats
            || args.verify_semantics.is_some()
            || args.bisect_limit.is_some()
            || args.verify_diagnostics
            || args.run_reproducer.is_some()
            || args.diagnostic_format == DiagnosticForm::Sarif;
        if watched || super::model::is_onnx(&args.input) {
            return Ok(None);
        }
        let folder = io.directory.join(folder);
        let limit = args.cache_size.saturating_mul(1 << 20);
        let version = version();
        let cache = Cache::at(&folder, &version, limit).map_err(|error| {
            let message = format!("`{}`: {}", folder.display(), super::plain(&error));
            Diagnostic::error("E0728", message).help("name another folder")
        })?;
        let mut settings = vec![version, known(registry)];
        settings.extend(rules.files().map(|(name, text)| format!("{name}\n{text}")));
        // Passes read files of rules and strategies themselves.
        let words = pipeline.split([',', '=', '+', '{', '}', '[', ']', '"', ' ']);
        let files = words.filter(|word| word.ends_with(".rules") || word.ends_with(".strategy"));
        settings.extend(files.map(|file| format!("{file}\n{:?}", fs::read_to_string(file).ok())));
        let whole = vec![
            pipeline.to_string(),
            format!("{:?} {:?} {:?}", args.emit, args.target, args.elide_constants),
        ];
        Ok(Some(Results { cache, settings, whole }))
    }

    /// The key of `input`.
    pub(super) fn key(&self, input: &str) -> Fingerprint {
        let settings = self.settings.iter().chain(&self.whole).map(String::as_bytes);
        of_bytes(settings.chain([input.as_bytes()]))
    }

    /// What is kept under `key`, and what is wrong with it.
    pub(super) fn get(&self, key: Fingerprint) -> (Option<String>, Option<Diagnostic>) {
        match self.cache.get(key) {
            Found::Nothing => (None, None),
            Found::Result(bytes) => (String::from_utf8(bytes).ok(), None),
            Found::Broken(reason) => (None, Some(broken(&reason))),
        }
    }

    /// Keeps `result` under `key`. What is wrong if it cannot be kept.
    pub(super) fn put(&self, key: Fingerprint, result: &str) -> Option<Diagnostic> {
        let error = self.cache.put(key, result.as_bytes()).err()?;
        Some(unkept(&error))
    }

    /// The results of function passes.
    pub(super) fn items(&self, verified: bool, registry: &Registry) -> Items<'_> {
        let settings = self.settings.iter().map(String::as_bytes);
        let verified: &[u8] = if verified { b"verified" } else { b"" };
        let settings = of_bytes(settings.chain([&b"function passes"[..], verified]));
        Items::new(&self.cache, settings, registry)
    }
}

/// What to say of an entry that cannot be used.
fn broken(reason: &str) -> Diagnostic {
    let message = format!("an entry of the cache cannot be used: {reason}");
    Diagnostic::warning("E0728", message).help("it is made again")
}

/// What to say where a result cannot be kept.
fn unkept(error: &io::Error) -> Diagnostic {
    let message = format!("the result cannot be kept: {}", super::plain(error));
    Diagnostic::warning("E0728", message)
}

/// The version of this program. Programs built while it is developed differ by their file.
fn version() -> String {
    let file = std::env::current_exe().and_then(|path| path.metadata());
    let built = file.map_or(String::new(), |facts| {
        let time = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        format!("-{}-{}", facts.len(), time.map_or(0, |time| time.as_nanos()))
    });
    format!("{}{built}", env!("CARGO_PKG_VERSION"))
}

/// What exists: plugins may bring more, or something else under the same names.
fn known(registry: &Registry) -> String {
    let mut text = String::new();
    for info in registry.ops() {
        text.push_str(info.def.name);
        text.push_str(info.def.doc);
    }
    for pass in registry.passes() {
        text.push_str(pass.name);
        text.push_str(pass.doc);
        for option in pass.options {
            text.push_str(option.name);
            text.push_str(&(option.default)());
        }
    }
    for pipeline in registry.pipelines() {
        text.push_str(pipeline.name);
        text.push_str(pipeline.text);
    }
    text
}

/// A stream that knows whether anything was written to it.
pub(super) struct Noticed<'a> {
    pub(super) inner: &'a mut dyn Write,
    pub(super) written: bool,
}

impl Write for Noticed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written |= !bytes.is_empty();
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
