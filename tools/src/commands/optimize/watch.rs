//! `--watch`: compiling a file again whenever it changes, and saying what that changed.
//!
//! The file is polled, and so are the files that passes read: that works for every file system,
//! costs one system call at a time, and is soon enough for people.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use analysis::{Checks, Database};
use indexmap::IndexMap;
use ir_core::files::contents;
use ir_core::pipeline::{PIPELINE_FILE, Pipeline, catch_panic, write_diff};
use ir_core::text::item_text;
use ir_core::{
    Diagnostic, Diagnostics, FilesRead, Interrupt, Item, Module, Registry, Symbol, fingerprint,
};
use passes::incremental::Relay;
use rustc_hash::FxBuildHasher;

use super::read;
use crate::driver::crash::crash;
use crate::driver::language::{Form, Style, verify};
use crate::driver::options::optimize::{Optimize, Switch};
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK, USAGE};
use crate::process::io::Io;

/// Waits until one of the files may have changed; `false` ends the watch.
pub type Wait<'w> = dyn FnMut(&[PathBuf]) -> bool + 'w;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Waits until a file is another one, or there, or gone, or one is looked at for the first time, or
/// `interrupt` ends the watch.
pub(crate) fn poll(interrupt: Interrupt) -> impl FnMut(&[PathBuf]) -> bool {
    let mut seen: Vec<(PathBuf, Option<(SystemTime, u64)>)> = Vec::new();
    move |paths| {
        let look_at = |path: &PathBuf| {
            let facts = fs::metadata(path).ok();
            let facts = facts.and_then(|facts| Some((facts.modified().ok()?, facts.len())));
            (path.clone(), facts)
        };
        let look = || paths.iter().map(look_at).collect::<Vec<_>>();
        loop {
            if interrupt.is_raised() {
                return false;
            }
            let now = look();
            if now != seen {
                // Whoever writes it may not be done.
                std::thread::sleep(INTERVAL / 5);
                if look() == now {
                    seen = now;
                    return true;
                }
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Compiles the input now and after every `wait`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn watch(
    args: &Optimize,
    pipeline: &str,
    registry: &Registry,
    wait: Option<&mut Wait<'_>>,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    if args.input == "-" || crate::driver::model::is_onnx(&args.input) {
        writeln!(io.stderr, "error: `--watch` needs a file of text")?;
        return Ok(USAGE);
    }
    let parsed = match Pipeline::parse(pipeline, registry) {
        Ok(parsed) => parsed,
        Err(diagnostic) => {
            let mut reporter = Reporter::new(args.diagnostic_format, args.max_errors);
            reporter.source(PIPELINE_FILE, pipeline);
            reporter.report(diagnostic, io)?;
            reporter.finish(io)?;
            return Ok(USAGE);
        }
    };
    let language = Arc::new(Relay::new(registry.clone()));
    let mut watch = Watch {
        args,
        registry,
        pipeline: parsed,
        database: Database::new(args.input.as_str(), language),
        seen: None,
        printed: None,
        unreadable: None,
        status: OK,
    };
    let path = io.directory.join(&args.input);
    let mut polled = poll(io.interrupt());
    let wait = wait.unwrap_or(&mut polled);
    let mut paths = vec![path.clone()];
    // The first look finds what is there.
    while wait(&paths) {
        watch.update(io)?;
        let read = watch.seen.iter().flat_map(|(_, files)| files.paths()).map(PathBuf::from);
        paths = std::iter::once(path.clone()).chain(read).collect();
        io.stdout.flush()?;
        io.stderr.flush()?;
    }
    Ok(watch.status)
}

struct Watch<'a> {
    args: &'a Optimize,
    registry: &'a Registry,
    pipeline: Pipeline,
    database: Database,
    /// The text that was compiled last, and the files that passes read then.
    seen: Option<(String, FilesRead)>,
    /// The items as they were last, by name; `None` before the first success.
    printed: Option<IndexMap<Symbol, Item, FxBuildHasher>>,
    /// Why the file could not be read last time, which is said once.
    unreadable: Option<String>,
    status: i32,
}

impl Watch<'_> {
    /// Compiles the file as it is now.
    fn update(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        let text = match read(self.args, io) {
            Ok(input) => input.text,
            Err(found) => {
                // It may come back.
                self.status = DIAGNOSTICS;
                if self.unreadable.as_ref() != Some(&found.to_string()) {
                    self.unreadable = Some(found.to_string());
                    self.report(found, io)?;
                }
                return Ok(());
            }
        };
        self.unreadable = None;
        if let Some((before, files)) = &self.seen {
            let told = files.told().into_iter().flatten();
            let holds = told.into_iter().all(|(path, then)| contents(path) == then);
            if holds && *before == text {
                return Ok(());
            }
            if !holds {
                // What the database keeps was made from the files as they were.
                let language = Arc::new(Relay::new(self.registry.clone()));
                self.database = Database::new(self.args.input.as_str(), language);
            }
        }
        self.seen = Some((text.clone(), FilesRead::default()));
        if Form::of(&text) == Form::Generic {
            self.status = DIAGNOSTICS;
            let message = "`--watch` reads Relay text, not the generic form";
            return self.report(Diagnostics::from(Diagnostic::error("E0720", message)), io);
        }
        let (found, compiled, [checking, passing]) = self.compile(text);
        self.status = if compiled.is_some() { OK } else { DIAGNOSTICS };
        self.report(found, io)?;
        let changed = match compiled {
            Some(module) => self.print(module, io)?,
            None => "errors".to_string(),
        };
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            io.stderr,
            "{changed}; checked in {:.1} ms, passes took {:.1} ms",
            milliseconds(checking),
            milliseconds(passing)
        )
    }

    /// Checks `text` and runs the passes: what was found, what came of it where nothing is wrong, and
    /// how long both took.
    fn compile(&mut self, text: String) -> (Diagnostics, Option<Module>, [Duration; 2]) {
        let start = Instant::now();
        let threads = self.args.threads.map(usize::from).unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        self.database.set_text(&text);
        let (database, pipeline, registry) = (&self.database, &self.pipeline, self.registry);
        let checked = catch_panic(|| {
            database.prepare(threads);
            database.diagnostics(Checks::UntilError)
        });
        let mut found = checked.unwrap_or_else(|message| crash(&message).into());
        let checking = start.elapsed();
        let mut compiled = None;
        let start = Instant::now();
        if !found.has_errors() {
            let optimized = catch_panic(|| database.optimize(pipeline, threads));
            match optimized {
                Err(message) => found.push(crash(&message)),
                Ok(optimized) => {
                    self.seen = Some((text, optimized.files));
                    found.extend(optimized.diagnostics);
                    if optimized.done && self.args.verify_each == Switch::On {
                        found.extend(self.changed_is_wrong(&optimized.module, registry));
                    }
                    let failed = !optimized.done || found.has_errors();
                    compiled = (!failed).then_some(optimized.module);
                }
            }
        }
        (found, compiled, [checking, start.elapsed()])
    }

    fn report(&self, found: Diagnostics, io: &mut Io<'_>) -> io::Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let mut reporter = Reporter::new(self.args.diagnostic_format, self.args.max_errors);
        reporter.sources(&self.database.sources());
        reporter.report(found, io)?;
        reporter.finish(io)
    }

    /// What is wrong with the items that passes made and that were not there before.
    fn changed_is_wrong(&self, module: &Module, registry: &Registry) -> Diagnostics {
        match self.pipeline.is_empty() || self.changed(module).is_empty() {
            true => Diagnostics::new(),
            false => verify(module, registry),
        }
    }

    /// The items that are not as they were last.
    fn changed(&self, module: &Module) -> Vec<Symbol> {
        let changed = |(name, item): &(&Symbol, &Item)| {
            let before = self.printed.as_ref().and_then(|printed| printed.get(*name));
            before.is_none_or(|before| !fingerprint::same(before, item))
        };
        module.items.iter().filter(changed).map(|(name, _)| *name).collect()
    }

    /// Prints the items that are not as they were last; says how many.
    fn print(&mut self, module: Module, io: &mut Io<'_>) -> io::Result<String> {
        let (changed, now) = (self.changed(&module), module.items);
        let total = now.len();
        let Some(printed) = self.printed.take() else {
            // All of it would be new, and is in the file.
            self.printed = Some(now);
            return Ok(format!("{total} items"));
        };
        let mut gone = 0;
        for name in printed.keys().filter(|name| !now.contains_key(*name)) {
            gone += 1;
            writeln!(io.stdout, "// {name} is gone")?;
        }
        for name in &changed {
            let text = self.text(*name, now.get(name));
            if let Some(layout) = self.args.print_ir_diff {
                let before = self.text(*name, printed.get(name));
                let (old, new) = (format!("{name} before"), format!("{name} now"));
                let titles = (old.as_str(), new.as_str());
                let form = layout.form(io);
                write_diff((&before, &text), titles, form, io.coloured(), io.stdout)?;
            } else {
                io.stdout.write_all(text.as_bytes())?;
            }
        }
        self.printed = Some(now);
        let gone = if gone > 0 { format!(", {gone} gone") } else { String::new() };
        Ok(format!("{} of {total} items changed{gone}", changed.len()))
    }

    /// An item as text.
    fn text(&self, name: Symbol, item: Option<&Item>) -> String {
        let (elide, types) = (self.args.elide_constants, !self.args.no_types);
        let style = Style { elide, types, ..Style::default() };
        item.map_or(String::new(), |item| item_text(name, item, self.registry, style))
    }
}
