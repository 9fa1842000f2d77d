//! Which functions are evaluated, and for what.

use std::collections::VecDeque;
use std::rc::Rc;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{Body, Effects, Item, Module, Registry, Symbol, Type};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::calls::{Callee, Key};
use super::evaluate::{Machine, Stop};
use super::sources::{Code, Sources};
use super::sweep::sweep;
use super::values::{Site, Token};
use super::{MAX_COPIES, MAX_DEPTH};
use crate::effects::{EffectSummaries, referenced_functions};
use crate::specialize::types::{Substitution, substitute};
use crate::tail_calls::KEEP_LOOP;

/// Evaluations of one function that teach something, at most.
const MAX_ATTEMPTS: usize = 64;

/// Those of them after which all cells stay.
const ATTEMPTS_ABOUT_CELLS: usize = 16;

/// Operations that an evaluation may take for each one of its function, beyond which it draws on what
/// the module may take.
const SHARE: u64 = 8;

/// A function that is evaluated: one of the module, or a copy of one.
pub(super) struct Job {
    pub(super) item: usize,
    name: Symbol,
    pub(super) types: Rc<Substitution>,
    /// What is known of its arguments.
    pub(super) args: Vec<Vec<Token>>,
    pub(super) result: Type,
    pub(super) is_copy: bool,
    /// The copy that has the first call of it.
    parent: Option<Rc<Job>>,
    /// How many copies lead to it.
    pub(super) depth: usize,
}

impl Job {
    fn ty(&self) -> Type {
        let leaves = self.args.iter().flatten().filter_map(|token| match token {
            Token::Leaf(ty) => Some(*ty),
            _ => None,
        });
        Type::function(leaves, self.result)
    }
}

/// What evaluations have in common.
pub(super) struct Shared<'m> {
    pub(super) registry: &'m Registry,
    pub(super) sources: Sources<'m>,
    summaries: EffectSummaries,
    /// Where cells are made that have to be cells from the start.
    pub(super) cells: FxHashSet<Site>,
    /// The functions whose calls, where these arguments are known, lead to calls of them that nothing
    /// decides.
    pub(super) calls: FxHashSet<(Code, u64)>,
    /// The functions that a budget was spent on.
    pub(super) endless: FxHashSet<usize>,
    /// Whether calls of loops stay.
    keep_loops: bool,
    copies: IndexMap<Key, Rc<Job>, FxBuildHasher>,
    by_name: FxHashMap<Symbol, Rc<Job>>,
    counts: FxHashMap<usize, usize>,
    names: FreshNames,
}

impl<'m> Shared<'m> {
    pub(super) fn new(module: &'m Module, registry: &'m Registry) -> Shared<'m> {
        Shared {
            registry,
            sources: Sources::new(module),
            summaries: EffectSummaries::of(module, registry),
            cells: FxHashSet::default(),
            calls: FxHashSet::default(),
            endless: FxHashSet::default(),
            keep_loops: false,
            copies: IndexMap::default(),
            by_name: FxHashMap::default(),
            counts: FxHashMap::default(),
            names: FreshNames::default(),
        }
    }

    /// What a call of function `item` may do.
    pub(super) fn effects(&self, item: usize) -> Effects {
        let (name, _) = self.sources.module.items.get_index(item).expect("a number of an item");
        self.summaries.of_function(*name)
    }

    /// Whether `callee` is a loop whose calls stay.
    pub(super) fn is_kept_loop(&self, callee: &Callee) -> bool {
        let (code, source) = (callee.code, &callee.source);
        let has_cells = || self.effects(code.item).intersects(Effects::READ | Effects::WRITE);
        let keeps =
            source.signature.attrs.get(KEEP_LOOP).is_some() || (self.keep_loops && !has_cells());
        code.op.is_none() && source.is_loop && keeps
    }

    /// Whether there is the copy `key`, or may be.
    pub(super) fn may_copy(&self, key: &Key) -> bool {
        let count = self.counts.get(&key.item).copied().unwrap_or_default();
        self.copies.contains_key(key) || count < MAX_COPIES
    }

    /// What the last copy of `item` on the way to `job` knows of its arguments.
    pub(super) fn copied_before<'j>(
        &self,
        job: &'j Job,
        item: usize,
    ) -> Option<&'j Vec<Vec<Token>>> {
        let way = std::iter::successors(Some(job), |job| job.parent.as_deref());
        let mut copies = way.take(MAX_DEPTH).filter(|job| job.is_copy);
        copies.find(|job| job.item == item).map(|job| &job.args)
    }

    /// The name and type of the copy `key`, which is made where there is none.
    pub(super) fn copy(
        &mut self,
        key: Key,
        types: &Rc<Substitution>,
        parent: &Rc<Job>,
    ) -> (Symbol, Type) {
        if let Some(job) = self.copies.get(&key) {
            return (job.name, job.ty());
        }
        let item = key.item;
        *self.counts.entry(item).or_default() += 1;
        let source = self.sources.get(item);
        let function = source.signature.ty.as_function().expect("functions have function types");
        let result = substitute(function.result, types);
        let module = self.sources.module;
        let is_taken = |name| module.items.contains_key(&name);
        let name = self.names.fresh(source.name.as_str(), "", is_taken);
        let (args, depth) = (key.args.clone(), parent.depth + 1);
        let (types, parent) = (Rc::clone(types), Some(Rc::clone(parent)));
        let job = Job { item, name, types, args, result, is_copy: true, parent, depth };
        let job = Rc::new(job);
        self.by_name.insert(name, Rc::clone(&job));
        let made = (name, job.ty());
        self.copies.insert(key, job);
        made
    }

    /// Function number `item`, of which nothing is known.
    fn original(&mut self, item: usize) -> Rc<Job> {
        let source = self.sources.get(item);
        let code = Code { item, op: None };
        let args = source.params(code).iter();
        let args = args.map(|param| vec![Token::Leaf(source.body.ty(*param))]).collect();
        let function = source.signature.ty.as_function().expect("functions have function types");
        Rc::new(Job {
            item,
            name: source.name,
            types: Rc::default(),
            args,
            result: function.result,
            is_copy: false,
            parent: None,
            depth: 0,
        })
    }
}

/// What evaluations have made.
pub(super) struct Jobs<'m> {
    shared: Shared<'m>,
    /// The new functions, by the number of the one they come from.
    made: FxHashMap<usize, Vec<(Symbol, Item)>>,
    /// Operations that evaluations may take beyond their shares.
    budget: u64,
    pub(super) counts: Counts,
}

/// What is told of a run.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) evaluated: u64,
    pub(super) copies: u64,
    pub(super) cut_short: u64,
}

impl<'m> Jobs<'m> {
    pub(super) fn new(module: &'m Module, registry: &'m Registry, budget: u64) -> Jobs<'m> {
        let (shared, made) = (Shared::new(module, registry), FxHashMap::default());
        Jobs { shared, made, budget, counts: Counts::default() }
    }

    /// Whether calls of loops stay.
    pub(super) fn keep_loops(&mut self, keep: bool) {
        self.shared.keep_loops = keep;
    }

    /// Evaluates the functions `entry`, and those that they call then.
    pub(super) fn run(&mut self, entry: &[Symbol]) -> Option<()> {
        let mut pending: VecDeque<Symbol> = entry.iter().copied().collect();
        let mut reached: FxHashSet<Symbol> = pending.iter().copied().collect();
        while let Some(name) = pending.pop_front() {
            let copy = self.shared.by_name.get(&name).cloned();
            let job = match (copy, self.shared.sources.find(name)) {
                (Some(job), _) => job,
                (None, Some(item)) => self.shared.original(item),
                (None, None) => continue,
            };
            let body = self.function(&job)?;
            let source = self.shared.sources.get(job.item);
            let names = referenced_functions(body.as_ref().unwrap_or(&source.body));
            pending.extend(names.into_iter().filter(|name| reached.insert(*name)));
            let Some(body) = body else { continue };
            self.counts.evaluated += 1;
            self.counts.copies += u64::from(job.is_copy);
            let mut signature = source.signature.clone();
            if job.is_copy {
                signature.ty = job.ty();
            }
            let item = Item { signature, body: Some(body.into()) };
            self.made.entry(job.item).or_default().push((name, item));
        }
        Some(())
    }

    /// The functions in the place of those that they come from, copies behind originals.
    pub(super) fn into_module(mut self) -> Module {
        let module = self.shared.sources.module;
        let mut new = Module { sources: module.sources.clone(), ..Module::new() };
        for (index, (name, item)) in module.items.iter().enumerate() {
            new.items.insert(*name, item.clone());
            new.items.extend(self.made.remove(&index).into_iter().flatten());
        }
        new
    }

    /// The function that `job` is; `None` within where it stays as it is.
    fn function(&mut self, job: &Rc<Job>) -> Option<Option<Body>> {
        let source = self.shared.sources.get(job.item);
        let share = source.body.op_count() as u64 * SHARE + SHARE;
        let (mut attempt, mut keeps_cells) = (0, false);
        let mut general: Option<Vec<Vec<Token>>> = None;
        while attempt < MAX_ATTEMPTS && self.budget > 0 {
            attempt += 1;
            let own = if job.is_copy { 0 } else { share };
            let mut machine = Machine::new(&mut self.shared, job, own + self.budget.div_ceil(4));
            machine.keeps_cells = keeps_cells;
            let result = match &general {
                None => machine.run(),
                Some(args) => machine.run_wrapper(args),
            };
            let (body, steps, unfolded) = machine.finish();
            self.budget = self.budget.saturating_sub(steps.saturating_sub(own));
            match result {
                Ok(()) => return Some(Some(swept(body, self.shared.registry))),
                Err(Stop::Cell(site)) => {
                    self.shared.cells.insert(site);
                    keeps_cells = attempt >= ATTEMPTS_ABOUT_CELLS;
                }
                Err(Stop::Call(code, known)) => _ = self.shared.calls.insert((code, known)),
                Err(Stop::General(args)) if general.is_none() => general = Some(args),
                Err(Stop::Budget) => {
                    self.counts.cut_short += 1;
                    let Some(call) = unfolded else { break };
                    self.shared.calls.insert(call);
                    self.shared.endless.insert(call.0.item);
                }
                Err(Stop::General(_) | Stop::Unfit) => break,
            }
        }
        if !job.is_copy {
            return Some(None);
        }
        // What it is a copy of is called, with everything that is known made a value.
        let unknown: Vec<Vec<Token>> =
            job.args.iter().map(|_| vec![Token::Leaf(Type::unknown())]).collect();
        let mut machine = Machine::new(&mut self.shared, job, u64::MAX);
        machine.copying = 1;
        machine.run_wrapper(&unknown).ok()?;
        let (body, ..) = machine.finish();
        Some(Some(swept(body, self.shared.registry)))
    }
}

fn swept(mut body: Body, registry: &Registry) -> Body {
    sweep(&mut body, registry);
    body
}
