//! Watching the edits of a body: they are counted, and a pass that makes too many is ended. For
//! debugging, its rewrites may be counted, limited, recorded, and remembered in the locations of
//! what they make.
//!
//! A rewrite is what a pass does to one operation: replacing its results, changing its operands or
//! attributes, moving or erasing it. Edits of one operation that follow each other are one rewrite,
//! and what is done between [`Body::begin_rewrite`] and [`Body::end_rewrite`] is one. Making an
//! operation is none: until it is used it changes nothing. So passes need no code to be watched,
//! and a body as it is between two rewrites is well formed, whichever pass is at work.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Body;
use crate::ids::{EntityId, OpId, ValueId};
use crate::intern::Symbol;
use crate::location::{Loc, LocData};
use crate::text::brief;

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchOptions {
    /// How many rewrites may happen; the one after them ends the pass.
    pub limit: Option<u64>,
    /// Whether rewrites are described.
    pub record: bool,
    /// Whether operations remember, in their locations, what they were made from and by which pass.
    pub provenance: bool,
}

/// How many edits a pass may make; one that makes more is taken to be endless, and ended by a
/// panic. Counted work ends it at the same edit in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EditLimit {
    /// For each operation that the pass begins with.
    pub for_each: u64,
    /// Besides.
    pub besides: u64,
}

impl EditLimit {
    /// Of a run, whose passes may make a large program of a small one.
    pub const DEFAULT: EditLimit = EditLimit { for_each: 1_000, besides: 10_000_000 };
    /// Of one of many trials.
    pub const TRIAL: EditLimit = EditLimit { for_each: 1_000, besides: 100_000 };

    /// For a pass that begins with `ops` operations.
    pub fn of(self, ops: usize) -> u64 {
        self.for_each.saturating_mul(ops as u64).saturating_add(self.besides)
    }
}

/// The edit at which a pass was ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endless {
    /// How many edits were allowed.
    pub limit: u64,
    /// The item that was edited.
    pub item: Symbol,
    /// Where the operation that was edited comes from, in the item.
    pub loc: Loc,
    /// The operation, on one line.
    pub op: String,
}

/// A rewrite that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// The item that was edited.
    pub item: Symbol,
    /// The rule that was applied, where the pass said.
    pub rule: Option<Symbol>,
    /// Where the operation that was rewritten comes from, in the item.
    pub loc: Loc,
    /// The operation, on one line.
    pub before: String,
    /// What came of it, likewise.
    pub after: String,
}

/// The edits of one pass on one item, or on the module.
#[derive(Clone)]
pub struct Tally(Arc<Shared>);

struct Shared {
    pass: Symbol,
    edits: AtomicU64,
    /// How many there may be.
    limit: u64,
    /// How rewrites are watched; `None` where edits are only counted.
    options: Option<WatchOptions>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: u64,
    endless: Option<Endless>,
    /// The operation, or the block argument, that is being rewritten, and in which item.
    open: Option<(Symbol, Subject)>,
    /// Whether the open rewrite ends only where the pass says so.
    named: bool,
    stopped: bool,
    rewrites: Vec<Rewrite>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Op(OpId),
    Argument(ValueId),
}

/// What a body has while it is watched.
#[derive(Clone)]
pub(super) struct Watch {
    item: Symbol,
    /// Operations from this index on were made by the pass.
    first_new: usize,
    tally: Tally,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch(@{})", self.item)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}

impl Tally {
    /// Nothing happened yet; `pass` is about to run, and may make as many edits as `limit`.
    pub fn new(
        pass: impl Into<Symbol>,
        options: Option<WatchOptions>,
        limit: Option<u64>,
    ) -> Tally {
        let (edits, state) = (AtomicU64::new(0), Mutex::default());
        let limit = limit.unwrap_or(u64::MAX);
        Tally(Arc::new(Shared { pass: pass.into(), edits, limit, options, state }))
    }

    /// The edit that was one too many.
    pub fn endless(&self) -> Option<Endless> {
        self.state().endless.clone()
    }

    /// How many rewrites there were.
    pub fn count(&self) -> u64 {
        self.state().count
    }

    /// Whether the limit ended the pass.
    pub fn stopped(&self) -> bool {
        self.state().stopped
    }

    /// Takes the rewrites that were recorded, in order.
    pub fn take(&self) -> Vec<Rewrite> {
        std::mem::take(&mut self.state().rewrites)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(|error| error.into_inner())
    }

    fn options(&self) -> WatchOptions {
        self.0.options.unwrap_or_default()
    }
}

impl Watch {
    /// Counts an edit; `describe` says where, and of which operation.
    fn edit(&self, describe: impl FnOnce() -> (Loc, String)) {
        let Shared { edits, limit, pass, .. } = &*self.tally.0;
        // Nothing else is ordered by this count.
        if edits.fetch_add(1, Ordering::Relaxed) < *limit {
            return;
        }
        let (limit, (loc, op)) = (*limit, describe());
        self.tally.state().endless = Some(Endless { limit, item: self.item, loc, op });
        resume_unwind(Box::new(format!("`{pass}` does not end: it made more than {limit} edits")));
    }

    fn edit_of(&self, body: &Body, op: OpId) {
        self.edit(|| (body.loc(op), brief::operation(body, op)));
    }

    /// Begins a rewrite of `subject`, unless that is what is going on.
    fn begin(&self, body: &Body, subject: Subject, rule: Option<Symbol>) {
        let Some(options) = self.tally.0.options else { return };
        let mut state = self.tally.state();
        let same = state.open == Some((self.item, subject));
        if rule.is_none() && (same || state.named) {
            return;
        }
        if options.limit.is_some_and(|limit| state.count >= limit) {
            state.stopped = true;
            drop(state);
            resume_unwind(Box::new("the limit of rewrites is reached".to_string()));
        }
        state.count += 1;
        state.open = Some((self.item, subject));
        state.named = rule.is_some();
        if options.record {
            let (loc, before) = match subject {
                Subject::Op(op) => (body.loc(op), brief::operation(body, op)),
                Subject::Argument(value) => (body.value_loc(value), brief::value(body, value)),
            };
            let after = String::new();
            state.rewrites.push(Rewrite { item: self.item, rule, loc, before, after });
        }
    }

    /// Describes what came of the open rewrite.
    fn became(&self, text: impl FnOnce() -> String, only_if_new: bool) {
        if !self.tally.options().record {
            return;
        }
        if let Some(rewrite) = self.tally.state().rewrites.last_mut()
            && (!only_if_new || rewrite.after.is_empty())
        {
            rewrite.after = text();
        }
    }

    /// The name of the pass, where locations are kept.
    fn keeps_locations(&self) -> Option<Symbol> {
        self.tally.options().provenance.then_some(self.tally.0.pass)
    }
}

impl Body {
    /// Says that what follows is one rewrite, by `rule`, of the operation `op`. Nothing happens
    /// where nobody watches.
    pub fn begin_rewrite(&mut self, rule: Symbol, op: OpId) {
        if let Some(watch) = &self.watch {
            watch.begin(self, Subject::Op(op), Some(rule));
        }
    }

    /// Says that the rewrite is complete.
    pub fn end_rewrite(&mut self) {
        if let Some(watch) = &self.watch
            && watch.tally.0.options.is_some()
        {
            let mut state = watch.tally.state();
            (state.open, state.named) = (None, false);
        }
    }

    /// Counts the rewrites of this body, which is that of `item`, in `tally`.
    pub(crate) fn watch(&mut self, item: Symbol, tally: &Tally) {
        let first_new = self.op_capacity();
        self.watch = Some(Box::new(Watch { item, first_new, tally: tally.clone() }));
    }

    /// Ends watching. What the pass made says so from then on, where `tally` keeps locations.
    pub(crate) fn unwatch(&mut self, tally: &Tally) {
        // A body that was not watched is one that the pass made.
        let first_new = self.watch.take().map_or(0, |watch| watch.first_new);
        if tally.options().provenance {
            self.complete_locations(first_new, tally.0.pass);
        }
    }

    /// Whether edits are counted.
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Called before an operation `name` is made.
    pub(super) fn watch_creation(&self, name: Symbol, loc: Loc) {
        if let Some(watch) = &self.watch {
            watch.edit(|| (loc, name.to_string()));
        }
    }

    /// Called before `op` is changed.
    pub(super) fn watch_change(&self, op: OpId) {
        let Some(watch) = &self.watch else { return };
        watch.edit_of(self, op);
        // What the pass has made changes nothing until it is used.
        let idle = op.index() >= watch.first_new
            && self.result_count(op) > 0
            && self.results(op).all(|result| self.is_unused(result));
        if !idle {
            watch.begin(self, Subject::Op(op), None);
        }
    }

    /// Called after operands or attributes of `op` were changed.
    pub(super) fn watched_change(&mut self, op: OpId) {
        let Some(watch) = &self.watch else { return };
        if op.index() >= watch.first_new {
            return;
        }
        watch.became(|| brief::operation(self, op), false);
        if let Some(pass) = watch.keeps_locations()
            && !mentions(self.loc(op), &LocTest::Pass(pass))
        {
            self.ops[op].loc = self.loc(op).by_pass(pass);
        }
    }

    /// Called before `op` is erased.
    pub(super) fn watch_erasure(&self, op: OpId) {
        let Some(watch) = &self.watch else { return };
        watch.edit_of(self, op);
        if op.index() < watch.first_new {
            watch.begin(self, Subject::Op(op), None);
            watch.became(|| "nothing".to_string(), true);
        }
    }

    /// Called before the first use of `from` becomes one of `to`.
    pub(super) fn watch_replacement(&self, from: ValueId, to: ValueId) {
        let Some(watch) = &self.watch else { return };
        let subject = self.defining_op(from).map_or(Subject::Argument(from), Subject::Op);
        match subject {
            Subject::Op(op) => watch.edit_of(self, op),
            Subject::Argument(value) => {
                watch.edit(|| (self.value_loc(value), brief::value(self, value)));
            }
        }
        watch.begin(self, subject, None);
        watch.became(|| brief::definition(self, to), false);
    }

    /// Called after uses of `from` have become uses of `to`.
    pub(super) fn watched_replacement(&mut self, from: ValueId, to: ValueId) {
        let Some(watch) = &self.watch else { return };
        let (Some(pass), Some(op)) = (watch.keeps_locations(), self.defining_op(to)) else {
            return;
        };
        let (old, mine) = (self.value_loc(from), self.loc(op));
        if old == Loc::UNKNOWN || mentions(mine, &LocTest::Is(old)) {
            return;
        }
        let old = if op.index() < watch.first_new { old.by_pass(pass) } else { old };
        self.ops[op].loc = Loc::fused([mine, old]);
    }

    /// Gives the operations that `pass` made, those from `first_new` on, locations that say so.
    fn complete_locations(&mut self, first_new: usize, pass: Symbol) {
        let made: Vec<OpId> = self.walk().filter(|op| op.index() >= first_new).collect();
        for &op in made.iter().rev() {
            if !self.loc(op).has_source() {
                let users = self.results(op).flat_map(|result| self.uses(result));
                let mut near = Loc::fused(users.take(4).map(|(user, _)| self.loc(user)));
                if !near.has_source() {
                    near = Loc::fused(self.operands(op).take(4).map(|value| self.value_loc(value)));
                }
                self.ops[op].loc = Loc::fused([self.loc(op), near]);
            }
        }
        for op in made {
            if !mentions(self.loc(op), &LocTest::Pass(pass)) {
                self.ops[op].loc = self.loc(op).by_pass(pass);
            }
        }
    }
}

/// What is looked for in a location.
enum LocTest {
    /// That location.
    Is(Loc),
    /// That pass.
    Pass(Symbol),
}

/// Whether `loc` or a location inside it is what is looked for.
fn mentions(loc: Loc, test: &LocTest) -> bool {
    loc.parts().into_iter().any(|part| match (test, part.data()) {
        (LocTest::Is(wanted), _) => part == *wanted,
        (LocTest::Pass(wanted), LocData::Pass(pass, _)) => pass == *wanted,
        _ => false,
    })
}
