//! `--cache`: results of function passes, kept on disk for each function.
//!
//! A function pass sees one function and the signatures of what that mentions, so what a row of
//! them makes of a function is known where all of this is as it was once, whatever else the program
//! has in it. What is kept is the body, id for id, so that the passes behind cannot tell.
//!
//! A pass may change the signature of its function, which others see from the next pass on. Then
//! nothing is kept, and nothing that was is used.

use std::io;
use std::sync::Arc;

use analysis::Language;
use analysis::cache::{Cache, Found};
use ir_core::fingerprint::{Fingerprint, of_bytes, of_signature};
use ir_core::pass::PassInstance;
use ir_core::pipeline::{
    Instrument, Outcome, Pipeline, Report, RunOptions, StepCx, is_left_alone, run,
};
use ir_core::{
    Body, Decoder, Diagnostics, Encoder, FilesRead, Item, Module, Registry, Signature, Symbol,
};
use passes::incremental::Relay;
use rustc_hash::{FxHashMap, FxHashSet};

use super::broken;

/// The results of runs with certain options.
pub(crate) struct Items<'c> {
    cache: &'c Cache,
    /// What a run depends on besides the program.
    settings: Fingerprint,
    language: Relay,
    encoder: Encoder,
    decoder: Decoder,
    /// What is wrong with the cache.
    wrong: Diagnostics,
}

/// What a function goes by.
struct Key {
    /// Everything that its result depends on.
    whole: Fingerprint,
    /// The body alone.
    before: Fingerprint,
}

/// What is kept of a function.
enum Kept {
    /// The passes leave it as it is: an entry of no bytes.
    Same,
    /// Its body after the passes.
    Body(Arc<Body>),
}

/// Leaves out functions whose results are there.
struct Skip(FxHashSet<Symbol>);

impl Instrument for Skip {
    fn allow(
        &mut self,
        _: StepCx<'_>,
        item: Option<Symbol>,
        _: &mut dyn io::Write,
    ) -> io::Result<bool> {
        Ok(item.is_none_or(|name| !self.0.contains(&name)))
    }
}

impl<'c> Items<'c> {
    pub(crate) fn new(cache: &'c Cache, settings: Fingerprint, registry: &Registry) -> Items<'c> {
        let language = Relay::new(registry.clone());
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        Items { cache, settings, language, encoder, decoder, wrong: Diagnostics::new() }
    }

    /// Runs the passes of `pipeline` in order, rows of function passes only on functions whose
    /// results are not there.
    ///
    /// # Errors
    /// Only those of writing to `log`.
    pub(crate) fn run(
        mut self,
        pipeline: &Pipeline,
        module: &mut Module,
        options: &RunOptions,
        instruments: &mut [&mut dyn Instrument],
        log: &mut dyn io::Write,
    ) -> io::Result<Report> {
        let mut whole = Report::new(Outcome::Done);
        for (of_functions, text) in rows(pipeline) {
            let report = match of_functions {
                true => self.row(&text, module, options, instruments, log)?,
                false => self.passes(&text, module, options, instruments, None, log)?,
            };
            whole.diagnostics.extend(report.diagnostics);
            whole.steps.extend(report.steps);
            whole.sources.extend(&report.sources);
            whole.files.extend(&report.files);
            whole.explanations.extend(report.explanations);
            whole.outcome = report.outcome;
            if whole.outcome != Outcome::Done {
                break;
            }
        }
        let later = std::mem::replace(&mut whole.diagnostics, self.wrong);
        whole.diagnostics.extend(later);
        Ok(whole)
    }

    /// Runs a row of function passes.
    fn row(
        &mut self,
        text: &str,
        module: &mut Module,
        options: &RunOptions,
        instruments: &mut [&mut dyn Instrument],
        log: &mut dyn io::Write,
    ) -> io::Result<Report> {
        let (mut known, mut missing) = (FxHashMap::default(), Vec::new());
        let mut files = FilesRead::default();
        let shared = self.shared(module);
        for (name, item) in &module.items {
            let Some(body) = item.body.as_ref().filter(|_| !is_left_alone(&item.signature)) else {
                continue;
            };
            let Some(key) = self.key(text, *name, item, body, module, &shared) else { continue };
            match self.get(key.whole, &mut files) {
                Some(kept) => drop(known.insert(*name, kept)),
                None => missing.push((*name, key)),
            }
        }
        let before: Vec<Signature> =
            module.items.values().map(|item| item.signature.clone()).collect();
        let unchanged =
            |module: &Module| before.iter().eq(module.items.values().map(|item| &item.signature));
        let mut skip = Skip(known.keys().copied().collect());
        let original = (!known.is_empty()).then(|| module.clone());
        for (name, kept) in known {
            if let (Some(item), Kept::Body(body)) = (module.items.get_mut(&name), kept) {
                item.body = Some(body);
            }
        }
        let mut report = self.passes(text, module, options, instruments, Some(&mut skip), log)?;
        if let (Some(original), false) = (original, unchanged(module)) {
            *module = original;
            return self.passes(text, module, options, instruments, None, log);
        }
        if report.outcome == Outcome::Done && report.diagnostics.is_empty() && unchanged(module) {
            self.keep(&missing, module, &report.files);
        }
        report.files.extend(&files);
        Ok(report)
    }

    fn passes(
        &self,
        text: &str,
        module: &mut Module,
        options: &RunOptions,
        instruments: &mut [&mut dyn Instrument],
        skip: Option<&mut Skip>,
        log: &mut dyn io::Write,
    ) -> io::Result<Report> {
        let registry = self.language.registry();
        let pipeline = match Pipeline::parse(text, registry) {
            Ok(pipeline) => pipeline,
            Err(diagnostic) => {
                let diagnostics = diagnostic;
                return Ok(Report { diagnostics, ..Report::new(Outcome::Failed) });
            }
        };
        let mut all: Vec<&mut dyn Instrument> = Vec::new();
        all.extend(skip.map(|skip| skip as &mut dyn Instrument));
        for instrument in instruments {
            all.push(&mut **instrument);
        }
        run(&pipeline, module, registry, options.clone(), &mut all, log)
    }

    /// What all functions may look at.
    fn shared(&self, module: &Module) -> Vec<(Symbol, Fingerprint)> {
        let items = module.items.iter();
        let shared = items.filter(|(_, item)| self.language.is_shared(item.signature.op));
        shared.map(|(name, item)| (*name, of_signature(&item.signature))).collect()
    }

    /// Everything that a row of passes depends on; `None` where that is more than can be told.
    fn key(
        &mut self,
        text: &str,
        name: Symbol,
        item: &Item,
        body: &Body,
        module: &Module,
        shared: &[(Symbol, Fingerprint)],
    ) -> Option<Key> {
        let mentions = self.language.mentions(item);
        if mentions.everything {
            return None;
        }
        let mut bytes = Vec::new();
        if !self.encoder.body(body, &mut bytes) {
            return None;
        }
        let signature = |name: Symbol| {
            let item = module.items.get(&name);
            item.map_or("nothing".to_string(), |item| of_signature(&item.signature).to_string())
        };
        let mut around = String::new();
        for name in mentions.items {
            around.push_str(&format!("{name} {}\n", signature(name)));
        }
        if mentions.shared {
            shared.iter().for_each(|(name, found)| around.push_str(&format!("{name} {found}\n")));
        }
        let (settings, own) = (self.settings.to_string(), signature(name));
        let before = of_bytes([&*bytes]);
        let parts = [&settings, text, name.as_str(), &own, &around, &before.to_string()];
        Some(Key { whole: of_bytes(parts.map(str::as_bytes)), before })
    }

    /// What is kept under `key`, and from which files it was made.
    fn get(&mut self, key: Fingerprint, files: &mut FilesRead) -> Option<Kept> {
        let reason = match self.cache.get(key) {
            Found::Nothing => return None,
            Found::Broken(reason) => reason,
            Found::Result(bytes, read) => {
                files.extend(&read);
                if bytes.is_empty() {
                    return Some(Kept::Same);
                }
                let mut rest = &*bytes;
                match self.decoder.body(&mut rest) {
                    Some(body) if rest.is_empty() => return Some(Kept::Body(body.into())),
                    _ => "it holds no function".to_string(),
                }
            }
        };
        self.wrong.push(broken(&reason));
        None
    }

    /// Keeps what became of functions.
    fn keep(&mut self, missing: &[(Symbol, Key)], module: &Module, files: &FilesRead) {
        let mut results = Vec::new();
        for (name, key) in missing {
            let mut bytes = Vec::new();
            if let Some(body) = module.body(*name)
                && self.encoder.body(body, &mut bytes)
            {
                if of_bytes([&*bytes]) == key.before {
                    bytes.clear();
                }
                results.push((key.whole, bytes));
            }
        }
        if let Err(error) = self.cache.put_all(&results, files) {
            self.wrong.push(super::unkept(&error));
        }
    }
}

/// The passes of `pipeline` in rows of function passes and of others, as text.
fn rows(pipeline: &Pipeline) -> Vec<(bool, String)> {
    let mut rows: Vec<(bool, Vec<String>)> = Vec::new();
    for step in pipeline.steps() {
        let of_functions = matches!(step.pass, PassInstance::Function(_));
        match rows.last_mut() {
            Some((same, row)) if *same == of_functions => row.push(step.to_string()),
            _ => rows.push((of_functions, vec![step.to_string()])),
        }
    }
    rows.into_iter().map(|(of_functions, row)| (of_functions, row.join(","))).collect()
}
