//! Pipelines of function passes, run on one item after the other and kept.
//!
//! What a pass sees of other items is their signatures after the passes before it, so that a
//! result stays as it is while these do.

use std::sync::Arc;

use ir_core::pass::PassInstance;
use ir_core::pipeline::{Outcome, Pipeline, RunOptions, catch_panic, run};
use ir_core::{Diagnostic, Diagnostics, FilesRead, Item, Module, Signature, Symbol};

use crate::Snapshot;
use crate::log::Query;
use crate::queries::{self, Db, Name, seen_by_others};

/// Function passes, each as text, at least one.
#[salsa::interned(revisions = usize::MAX)]
pub(crate) struct Stages<'db> {
    #[returns(clone)]
    passes: Arc<[String]>,
}

fn stages_of<'db>(db: &'db dyn Db, passes: &[String]) -> Stages<'db> {
    Stages::new(db, Arc::<[String]>::from(passes))
}

/// An item after passes.
#[derive(Debug)]
pub(crate) struct After {
    item: Item,
    /// What the last of the passes found.
    diagnostics: Diagnostics,
    /// The files that all of the passes read.
    files: FilesRead,
    /// Whether the last of the passes, or one before it, failed on this item.
    failed: bool,
}

#[salsa::tracked(returns(clone), no_eq)]
pub(crate) fn after<'db>(
    db: &'db dyn Db,
    name: Name<'db>,
    stages: Stages<'db>,
) -> Option<Arc<After>> {
    let symbol = name.symbol(db);
    let passes = stages.passes(db);
    db.log().note(Query::Pipeline, || format!("{symbol} {}", passes.join(",")));
    let (pass, before) = passes.split_last()?;
    let (item, mut files) = match before {
        [] => (queries::typed(db, name)?, FilesRead::default()),
        before => {
            let before = after(db, name, stages_of(db, before))?;
            let (item, files) = (before.item.clone(), before.files.clone());
            if before.failed {
                return Some(Arc::new(After {
                    item,
                    diagnostics: Diagnostics::new(),
                    files,
                    failed: true,
                }));
            }
            (item, files)
        }
    };
    if item.body.is_none() {
        return Some(Arc::new(After {
            item,
            diagnostics: Diagnostics::new(),
            files,
            failed: false,
        }));
    }
    let language = db.language();
    let mentions = language.mentions(&item);
    let signature = |other: Symbol| {
        let other = Name::new(db, other);
        match before {
            [] => queries::signature(db, other),
            before => signature_after(db, other, stages_of(db, before)),
        }
    };
    // The items around it as declarations: passes see no more of them.
    let mut module = Module::new();
    let mut declare = |other: Symbol| {
        if other != symbol
            && let Some(signature) = signature(other)
        {
            module.items.insert(other, Item { signature, body: None });
        }
    };
    if mentions.everything {
        queries::index(db).keys().for_each(|other| declare(*other));
    } else {
        if mentions.shared {
            queries::shared(db).0.keys().for_each(|other| declare(*other));
        }
        mentions.items.iter().for_each(|other| declare(*other));
    }
    module.items.insert(symbol, item.clone());
    let result = catch_panic(|| {
        let pipeline = Pipeline::parse(pass, language.registry())?;
        let (options, mut log) = (RunOptions::default(), Vec::new());
        match run(&pipeline, &mut module, language.registry(), options, &mut [], &mut log) {
            Ok(report) => Ok(report),
            Err(error) => Err(Diagnostic::error("E0710", error.to_string()).into()),
        }
    });
    let (diagnostics, failed) = match result {
        Ok(Ok(report)) => {
            files.extend(&report.files);
            (report.diagnostics, report.outcome != Outcome::Done)
        }
        Ok(Err(found)) => (found, true),
        Err(message) => (Diagnostics::from(Diagnostic::error("E0710", message)), true),
    };
    let item = match failed {
        true => item,
        false => module.items.swap_remove(&symbol)?,
    };
    Some(Arc::new(After { item, diagnostics, files, failed }))
}

#[salsa::tracked(returns(clone))]
fn signature_after<'db>(
    db: &'db dyn Db,
    name: Name<'db>,
    stages: Stages<'db>,
) -> Option<Signature> {
    after(db, name, stages).map(|after| seen_by_others(&after.item.signature))
}

/// The module after passes, and what they found.
#[derive(Debug)]
pub struct Optimized {
    /// The items; incomplete where something failed.
    pub module: Module,
    /// In pipeline order, and in item order within a pass.
    pub diagnostics: Diagnostics,
    /// The files that passes read. They are not looked at again: where one is another now, ask a
    /// new database.
    pub files: FilesRead,
    /// Whether all passes ran.
    pub done: bool,
}

impl Snapshot {
    /// Runs `pipeline` on the module, whose text must have no errors: function passes item by item
    /// as far as they come first, where results are kept; from the first module pass on, the whole
    /// module.
    pub fn optimize(&self, pipeline: &Pipeline, threads: usize) -> Optimized {
        let steps = pipeline.steps();
        let first = steps.iter().position(|step| matches!(step.pass, PassInstance::Module(_)));
        let (own, rest) = steps.split_at(first.unwrap_or(steps.len()));
        let passes: Vec<String> = own.iter().map(ToString::to_string).collect();
        let names = self.items();
        let (module, files) = (Module::new(), FilesRead::default());
        let mut optimized =
            Optimized { module, diagnostics: Diagnostics::new(), files, done: true };
        optimized.module.sources = self.sources();
        if let [_, ..] = passes.as_slice() {
            self.each(&names, threads, |snapshot, name| {
                let db = &snapshot.db;
                after(db, Name::new(db, name), stages_of(db, &passes));
            });
        }
        for count in 1..=passes.len() {
            let db = &self.db;
            for name in &names {
                let stages = stages_of(db, &passes[..count]);
                if let Some(after) = after(db, Name::new(db, *name), stages) {
                    let found = after.diagnostics.iter().map(|found| self.place(found));
                    optimized.diagnostics.extend(found);
                    optimized.files.extend(&after.files);
                    optimized.done &= !after.failed;
                }
            }
            if !optimized.done {
                return optimized;
            }
        }
        for name in &names {
            let db = &self.db;
            let key = Name::new(db, *name);
            let item = match passes.as_slice() {
                [] => queries::typed(db, key),
                passes => after(db, key, stages_of(db, passes)).map(|a| a.item.clone()),
            };
            if let Some(mut item) = item {
                item.signature.span = item.signature.span.map(|span| self.absolute(span));
                optimized.module.items.insert(*name, item);
            }
        }
        let text: Vec<String> = rest.iter().map(ToString::to_string).collect();
        if text.is_empty() {
            return optimized;
        }
        let registry = self.db.language().registry();
        let options = RunOptions { threads, ..RunOptions::default() };
        let mut log = Vec::new();
        match Pipeline::parse(&text.join(","), registry) {
            Err(found) => {
                optimized.diagnostics.extend(found);
                optimized.done = false;
            }
            Ok(pipeline) => {
                let module = &mut optimized.module;
                if let Ok(report) = run(&pipeline, module, registry, options, &mut [], &mut log) {
                    optimized.done = report.outcome == Outcome::Done;
                    optimized.files.extend(&report.files);
                    optimized.diagnostics.extend(report.diagnostics);
                }
            }
        }
        optimized
    }
}
