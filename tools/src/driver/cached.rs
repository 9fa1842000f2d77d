//! `--cache`: results of whole runs, kept on disk, and those of function passes: see [`items`].
//!
//! A result is kept where a run prints nothing but it: no diagnostics, and nothing about how it
//! went. Its key is everything that it depends on.

mod items;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::LazyLock;

use analysis::cache::{Cache, Found};
use ir_core::fingerprint::{Fingerprint, of_bytes};
use ir_core::{Diagnostic, Diagnostics, FilesRead, Registry, SourceMap};
use object::{Object, ReadCache};
use target_core::Target;

use crate::driver::options::DiagnosticForm;
use crate::driver::options::optimize::Optimize;
use crate::process::io::Io;
use items::Items;

/// The results of runs with certain options.
pub(crate) struct Results {
    cache: Cache,
    /// What all passes depend on besides the program.
    settings: Vec<String>,
    /// What the result of a whole run depends on besides.
    whole: Vec<String>,
}

impl Results {
    /// The results of runs with these options; `None` where none are kept, or where the options ask
    /// for more than the result.
    pub(crate) fn open(
        args: &Optimize,
        pipeline: &str,
        target: Option<&dyn Target>,
        rules: &SourceMap,
        registry: &Registry,
        io: &Io<'_>,
    ) -> Result<Option<Results>, Diagnostics> {
        let Some(folder) = &args.cache else { return Ok(None) };
        let watched = !args.print_ir_before.is_empty()
            || !args.print_ir_after.is_empty()
            || args.print_ir_after_change
            || args.print_ir_diff.is_some()
            || args.print_ir_tree_dir.is_some()
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
            let message = format!("`{}`: {}", folder.display(), crate::process::io::plain(&error));
            Diagnostic::error("E0728", message).help("name another folder")
        })?;
        let mut settings = vec![version, known(registry), format!("{:?}", args.pass_limit)];
        settings.extend(rules.files().map(|(name, text)| format!("{name}\n{text}")));
        let whole = vec![
            pipeline.to_string(),
            format!("{:?} {:?} {:?}", args.emit, args.target, args.elide_constants),
            format!("{:?} {:?}", args.verify_each, target.map(Target::capabilities)),
            format!("{:?} {:?}", args.no_types, args.unchecked),
        ];
        Ok(Some(Results { cache, settings, whole }))
    }

    /// The key of `input`.
    pub(crate) fn key(&self, input: &str) -> Fingerprint {
        let settings = self.settings.iter().chain(&self.whole).map(String::as_bytes);
        of_bytes(settings.chain([input.as_bytes()]))
    }

    /// What is kept under `key`, and what is wrong with it.
    pub(crate) fn get(&self, key: Fingerprint) -> (Option<String>, Option<Diagnostic>) {
        match self.cache.get(key) {
            Found::Nothing => (None, None),
            Found::Result(bytes, _) => (String::from_utf8(bytes).ok(), None),
            Found::Broken(reason) => (None, Some(broken(&reason))),
        }
    }

    /// Keeps `result` under `key`, made from `files`. What is wrong if it cannot be kept.
    pub(crate) fn put(
        &self,
        key: Fingerprint,
        result: &str,
        files: &FilesRead,
    ) -> Option<Diagnostic> {
        let error = self.cache.put(key, result.as_bytes(), files).err()?;
        Some(unkept(&error))
    }

    /// The results of function passes.
    pub(crate) fn items(&self, verified: bool, registry: &Registry) -> Items<'_> {
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
    let message = format!("the result cannot be kept: {}", crate::process::io::plain(error));
    Diagnostic::warning("E0728", message)
}

/// The version of this program: its number, and the identity that the linker gave its file, else a
/// hash of the file.
fn version() -> String {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let number = env!("CARGO_PKG_VERSION");
        let Ok(path) = std::env::current_exe() else { return number.to_string() };
        let whole = || fs::read(&path).map(|bytes| of_bytes([&*bytes]).to_string());
        let identity = linked_as(&path).or_else(|| whole().ok());
        format!("{number}-{}", identity.unwrap_or_default())
    });
    VERSION.clone()
}

/// The identity that the linker gave the program at `path`, if it gave one.
fn linked_as(path: &Path) -> Option<String> {
    let file = ReadCache::new(fs::File::open(path).ok()?);
    let file = object::File::parse(&file).ok()?;
    let identity = file.build_id().ok()??;
    Some(identity.iter().map(|byte| format!("{byte:02x}")).collect())
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
        text.push_str(&pipeline.text);
    }
    text
}

/// A stream that knows whether anything was written to it.
pub(crate) struct Noticed<'a> {
    pub(crate) inner: &'a mut dyn Write,
    pub(crate) written: bool,
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
