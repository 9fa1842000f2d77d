//! Reducing a program to one that shows the same fault.
//!
//! Strategies are tried in turn until none makes the program smaller. Each offers a list of edits;
//! chunks of it are applied at once, all of it first, then halves, down to single edits, as in
//! delta debugging. A candidate is written and read again before it is tried, so that what comes
//! out is what the file will be, and so that types are inferred anew.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ir_core::pipeline::catch_panic;
use ir_core::{Body, Interrupt, Module, TypeData};
use rustc_hash::FxHashSet;

use super::edits::{Edit, Strategy, apply, edits};
use super::trial::{Extent, Finding, Limit, Predicate, Trial};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Programs that are tried.
    pub(crate) trials: u64,
    /// Programs that are tried at once; this changes nothing but the time.
    pub(crate) threads: usize,
    /// Ends the search before that.
    pub(crate) interrupt: Interrupt,
    /// How long a trial may take, besides ten times as long as the first one.
    pub(crate) time: Duration,
}

/// Trials that took too long, after which the search ends: each keeps a thread busy.
const MOST_LEFT: u64 = 8;

/// A program that shows the fault.
#[derive(Clone)]
pub(crate) struct Reduced {
    pub(crate) module: Module,
    pub(crate) text: String,
    pub(crate) finding: Finding,
    /// How many programs were tried.
    pub(crate) trials: u64,
    /// Whether nothing makes it smaller; else the limit of trials was reached.
    pub(crate) complete: bool,
    /// Programs on which the passes did not end.
    pub(crate) endless: u64,
}

/// Told of every program that is smaller than the one before, and by which strategy.
pub(crate) type Watcher<'w> = dyn FnMut(&Reduced, Strategy) + 'w;

/// What is made small: operations, then items, parameters, attributes, elements, and text. Every
/// step makes it less, so that reducing ends.
type Size = (usize, usize, usize, usize, u128, usize);

fn size(module: &Module, text: &str) -> Size {
    let (mut params, mut attributes) = (0, 0);
    for body in module.items.values().filter_map(|item| item.body.as_deref()) {
        params += body.walk_blocks().map(|block| body.block_args(block).len()).sum::<usize>();
        attributes += body.walk().map(|op| body.attrs(op).entries().len()).sum::<usize>();
    }
    (module.op_count(), module.items.len(), params, attributes, elements(module), text.len())
}

/// The elements of all values of `module`.
pub(crate) fn elements(module: &Module) -> u128 {
    let bodies = module.items.values().filter_map(|item| item.body.as_deref());
    bodies.map(|body| body.walk_blocks().map(|block| elements_of(body, block)).sum::<u128>()).sum()
}

/// The elements of the values that `block` and its operations define.
fn elements_of(body: &Body, block: ir_core::BlockId) -> u128 {
    let results = body.block_ops(block).flat_map(|op| body.results(op));
    let values = body.block_args(block).iter().copied().chain(results);
    let count = |value| match body.ty(value).data() {
        TypeData::Tensor(tensor) => tensor.elements().map_or(1, |count| count.max(0) as u128),
        _ => 1,
    };
    values.map(count).sum()
}

/// Reduces `module`, a verified program whose text is `text`. The program is returned as it is
/// where the fault is lost already by writing and reading it; `None` where it shows no fault.
pub(crate) fn reduce(
    module: Module,
    text: String,
    trial: &Trial,
    limits: Limits,
    watcher: &mut Watcher<'_>,
) -> Option<Reduced> {
    let start = Instant::now();
    // Where running a program is what takes time, one with small tensors is looked for first.
    let small = match trial.predicate {
        Predicate::Miscompile(_) => small(&module, trial),
        _ => None,
    };
    let (module, text, finding) = match small {
        Some((Candidate { module, text }, finding)) => (module, text, finding),
        // The program is what is read from its text, if that shows the fault.
        None => match Candidate::new(&module, &[], trial).and_then(|read| shown(read, trial)) {
            Some((Candidate { module, text }, finding)) => (module, text, finding),
            None => {
                let finding = trial.check(&module, &text, Extent::All)?;
                (module, text, finding)
            }
        },
    };
    let mut trial = trial.clone();
    trial.key = Some(finding.key.clone());
    let time = limits.time.saturating_add(start.elapsed().saturating_mul(10));
    trial.limit = Some(Limit { time, left: Arc::default() });
    let best = Reduced { module, text, finding, trials: 1, complete: false, endless: 0 };
    let mut search = Search { trial: &trial, limits, best, tried: FxHashSet::default(), watcher };
    loop {
        let before = search.size();
        for strategy in Strategy::ALL {
            if strategy == Strategy::Calls {
                search.cut();
            }
            search.shrink(strategy);
        }
        let endless = search.endless();
        if search.is_over() {
            return Some(Reduced { endless, ..search.best });
        }
        if search.size() == before {
            return Some(Reduced { complete: true, endless, ..search.best });
        }
    }
}

/// Extents that all larger ones are made at first. Smaller ones would meet attributes that are no
/// extents.
const SMALL: [i64; 4] = [4, 8, 16, 32];

/// `module` with small extents, where it shows the fault then, and what that is.
pub(crate) fn small(module: &Module, trial: &Trial) -> Option<(Candidate, Finding)> {
    SMALL
        .into_iter()
        .find_map(|most| shown(Candidate::new(module, &[Edit::Shrink(most)], trial)?, trial))
}

/// `candidate`, where it shows the fault, and what that is.
fn shown(candidate: Candidate, trial: &Trial) -> Option<(Candidate, Finding)> {
    let finding = trial.check(&candidate.module, &candidate.text, Extent::All)?;
    Some((candidate, finding))
}

/// A program to be tried.
pub(crate) struct Candidate {
    pub(crate) module: Module,
    pub(crate) text: String,
}

impl Candidate {
    /// `module` after `edits`, written and read again; `None` where that is no program.
    fn new(module: &Module, edits: &[Edit], trial: &Trial) -> Option<Candidate> {
        let mut module = module.clone();
        catch_panic(|| apply(&mut module, edits, &trial.registry)).ok()?;
        // Types that are written may not be those that follow now.
        [true, false].into_iter().find_map(|types| {
            let text = trial.write(&module, types)?;
            let module = trial.read(&text)?;
            let text = trial.write(&module, true)?;
            Some(Candidate { module, text })
        })
    }
}

struct Search<'s, 'w> {
    trial: &'s Trial,
    limits: Limits,
    best: Reduced,
    /// Hashes of programs that were tried and are not worth it.
    tried: FxHashSet<u64>,
    watcher: &'s mut Watcher<'w>,
}

impl Reduced {
    fn with(&self, candidate: Candidate) -> Reduced {
        let Candidate { module, text } = candidate;
        Reduced { module, text, ..self.clone() }
    }
}

impl Search<'_, '_> {
    fn size(&self) -> Size {
        size(&self.best.module, &self.best.text)
    }

    fn is_over(&self) -> bool {
        self.best.trials >= self.limits.trials
            || self.limits.interrupt.is_raised()
            || self.endless() >= MOST_LEFT
    }

    /// Programs on which the passes did not end.
    fn endless(&self) -> u64 {
        self.trial.limit.as_ref().map_or(0, |limit| limit.left.load(Ordering::Relaxed))
    }

    /// Tries each of several lists of edits; takes the first that keeps the fault, and returns its
    /// place.
    fn try_first(&mut self, lists: &[&[Edit]], strategy: Strategy) -> Option<usize> {
        let before = self.size();
        let (known, trial, module) = (&self.tried, self.trial, &self.best.module);
        let one = |list: &[Edit]| {
            let candidate = Candidate::new(module, list, trial)?;
            let hash = hash_of(&candidate.text);
            if known.contains(&hash) || size(&candidate.module, &candidate.text) >= before {
                return Some((hash, None));
            }
            let finding = trial.check(&candidate.module, &candidate.text, Extent::All);
            Some((hash, Some((candidate, finding))))
        };
        let one = &one;
        let found: Vec<_> = match lists {
            [list] => vec![one(list)],
            _ => std::thread::scope(|scope| {
                let work: Vec<_> =
                    lists.iter().map(|list| scope.spawn(move || one(list))).collect();
                work.into_iter().map(|work| work.join().ok().flatten()).collect()
            }),
        };
        for (index, tried) in found.into_iter().enumerate() {
            let Some((hash, tried)) = tried else { continue };
            self.tried.insert(hash);
            let Some((candidate, finding)) = tried else { continue };
            self.best.trials += 1;
            if let Some(finding) = finding {
                self.best = Reduced { finding, ..self.best.with(candidate) };
                (self.watcher)(&self.best, strategy);
                return Some(index);
            }
            if self.is_over() {
                break;
            }
        }
        None
    }

    /// Tries the edits of one kind, many at once, then fewer.
    fn shrink(&mut self, strategy: Strategy) {
        let list = |search: &Self| edits(strategy, &search.best.module, &search.trial.registry);
        let mut all = list(self);
        let mut size = all.len();
        let mut start = 0;
        while !all.is_empty() && !self.is_over() {
            size = size.clamp(1, all.len());
            let chunks: Vec<Range<usize>> = (start..all.len())
                .step_by(size)
                .take(self.limits.threads.max(1))
                .map(|from| from..(from + size).min(all.len()))
                .collect();
            if chunks.is_empty() {
                if size == 1 {
                    return;
                }
                (size, start) = (size / 2, 0);
                continue;
            }
            let lists: Vec<&[Edit]> = chunks.iter().map(|range| &all[range.clone()]).collect();
            match self.try_first(&lists, strategy) {
                None => start = chunks.last().map_or(all.len(), |chunk| chunk.end),
                Some(index) => {
                    let chunk = &chunks[index];
                    let count = all.len();
                    all = list(self);
                    // What follows the chunk has moved to its place, if the chunk is gone.
                    start = if all.len() < count { chunk.start } else { chunk.end };
                }
            }
        }
    }

    /// Returns earlier values of functions: keeps a half of the operations, then three quarters,
    /// and so on.
    fn cut(&mut self) {
        let names: Vec<_> = self.best.module.items.keys().copied().collect();
        for name in names {
            let count = |search: &Self| {
                let body = search.best.module.body(name);
                body.map_or(0, |body| body.block_ops(body.entry()).count().saturating_sub(1))
            };
            let mut step = count(self) / 2;
            while step > 0 && !self.is_over() {
                let kept = count(self).saturating_sub(step);
                let done = kept > 0
                    && self.try_first(&[&[Edit::Cut(name, kept)]], Strategy::Operations).is_some();
                if !done || step > count(self) / 2 {
                    step /= 2;
                }
            }
        }
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
