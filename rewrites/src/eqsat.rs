//! Equality saturation of a function: each block becomes an e-graph, and the cheapest program that
//! it holds comes back.
//!
//! Only operations without effects and regions enter; all others, and the ends of blocks, stay
//! where they are and are what the results are for. Values from outside of a block are leaves, so
//! nothing moves into or out of a branch or a function.

use std::borrow::Cow;

use ir_core::body::InnerUses;
use ir_core::{
    BlockId, Diagnostics, EntityId, FuncMut, InsertPoint, Interrupt, Loc, OpId, OpParts, SmallVec,
    ValueId,
};
use rustc_hash::FxHashMap;

use crate::body_graph::is_pure;
use crate::cost::CostModel;
use crate::dump::{Dump, describe};
use crate::egraph::{Class, Graph, Kind, Leaf};
use crate::extraction::gym::Gym;
use crate::extraction::{self, Builder, Extraction, NONE, Problem, Strategy};
use crate::library::RuleSet;
use crate::proof::Recorder;
use crate::saturate::{Budget, End, Entry, Phase, saturate};
use crate::snapshot::Snapshot;

/// What equality saturation did to a function.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// By the place of the rule in the set.
    pub rules: Vec<Entry>,
    /// Nodes of all e-graphs.
    pub nodes: u64,
    /// Nodes looked at while matching.
    pub work: u64,
    /// Rounds, of the block that took most.
    pub iterations: u32,
    /// Blocks whose budget ended before they were saturated.
    pub unfinished: u64,
    /// Whether the search was interrupted.
    pub interrupted: bool,
    /// Blocks that became cheaper.
    pub improved: u64,
    /// Blocks whose cheapest program could not be put in order; they are as they were.
    pub unplaced: u64,
    /// The cost before and after, over all blocks.
    pub cost: (f64, f64),
    /// The e-graphs, one for each block that has one, where they were asked for.
    pub dumps: Vec<Dump>,
}

/// How often extraction may visit each node and child of an e-graph. Saturation takes far longer.
const VISITS: u64 = 50;

/// What equality saturation is told.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// Which rules take part when; `None` is [`Phase::by_default`].
    pub phases: Option<&'a [Phase]>,
    /// How much to collect.
    pub budget: Budget,
    /// What is made small.
    pub model: CostModel,
    /// How the cheapest program is found.
    pub extraction: &'static extraction::Strategy,
    /// Whether to hand out the e-graphs as well.
    pub dump: bool,
}

/// Replaces the blocks of `f` by the cheapest equal programs that `rules` make and extraction
/// finds, where these are cheaper.
///
/// # Errors
/// When a rule's right side does not type.
pub fn optimize(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    settings: Settings<'_>,
) -> Result<Report, Diagnostics> {
    optimize_noted(f, rules, settings, None)
}

/// As [`optimize`]; what is done is noted with `recorder`.
///
/// # Errors
/// When a rule's right side does not type.
pub fn optimize_noted(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    settings: Settings<'_>,
    mut recorder: Option<&mut Recorder>,
) -> Result<Report, Diagnostics> {
    let mut report =
        Report { rules: vec![Entry::default(); rules.rules.len()], ..Report::default() };
    let blocks: Vec<BlockId> = f.body.walk_blocks().collect();
    // Rewriting a block changes nothing of what is used of the blocks inside it.
    let inner = f.body.inner_uses();
    for block in blocks {
        let recorder = recorder.as_deref_mut();
        Block::enter(f, block, &inner).optimize(f, rules, settings, &mut report, recorder)?;
    }
    Ok(report)
}

/// What `f` costs as it is.
pub fn cost(f: &FuncMut<'_>, model: CostModel) -> f64 {
    let blocks: Vec<BlockId> = f.body.walk_blocks().collect();
    let inner = f.body.inner_uses();
    blocks.into_iter().map(|block| Block::enter(f, block, &inner).original_cost(f, model)).sum()
}

/// A block and its e-graph.
struct Block {
    block: BlockId,
    graph: Graph,
    /// The class of each value that the block uses or defines.
    classes: FxHashMap<ValueId, Class>,
    /// Nodes that entered.
    entered: usize,
    /// Operations that entered, in program order.
    inside: Vec<(OpId, Class)>,
    /// Operations that did not, with the values of the block that they, or regions in them, use.
    outside: Vec<(OpId, Vec<ValueId>)>,
}

/// Before each operation of the block, the nodes that are computed there.
type Placement = Vec<(OpId, Vec<extraction::Node>)>;

impl Block {
    fn enter(f: &FuncMut<'_>, block: BlockId, inner: &InnerUses) -> Block {
        let mut this = Block {
            block,
            graph: Graph::default(),
            classes: FxHashMap::default(),
            entered: 0,
            inside: vec![],
            outside: vec![],
        };
        for op in f.body.block_ops(block) {
            if is_pure(f.body, f.registry, op) {
                let operands: Vec<ValueId> = f.body.operands(op).collect();
                let operands: SmallVec<[Class; 4]> =
                    operands.iter().map(|value| this.class(f, *value)).collect();
                let result = f.body.result(op, 0);
                let (name, attrs, ty) = (f.body.op_name(op), f.body.attrs(op), f.body.ty(result));
                let class = this.graph.op(name, attrs, ty, operands, f.registry);
                this.classes.insert(result, class);
                this.inside.push((op, class));
                continue;
            }
            let own = f.body.operands(op).filter(|value| f.body.def_block(*value) == Some(block));
            let used: Vec<ValueId> = own.chain(inner.of(op).iter().copied()).collect();
            used.iter().for_each(|value| _ = this.class(f, *value));
            this.outside.push((op, used));
        }
        this.entered = this.graph.made();
        this
    }

    fn class(&mut self, f: &FuncMut<'_>, value: ValueId) -> Class {
        if let Some(class) = self.classes.get(&value) {
            return *class;
        }
        let constant = f.registry.constant(f.body, value);
        let (number, ty, weight) = (value.index(), f.body.ty(value), constant.is_some());
        let class = self.graph.leaf(Leaf { number, ty, constant, weight });
        self.classes.insert(value, class);
        class
    }

    fn optimize(
        mut self,
        f: &mut FuncMut<'_>,
        rules: &RuleSet,
        settings: Settings<'_>,
        report: &mut Report,
        mut recorder: Option<&mut Recorder>,
    ) -> Result<(), Diagnostics> {
        if self.inside.is_empty() {
            return Ok(());
        }
        if let Some(recorder) = recorder.as_deref_mut() {
            recorder.enter(f.body, self.classes.iter(), f.registry);
        }
        let Settings { budget, model, .. } = settings;
        let mut graph = std::mem::take(&mut self.graph);
        let view = &*f;
        let best = &mut |graph: &Graph| self.best(view, graph, model, budget.interrupt);
        let default = || Cow::Owned(Phase::by_default(rules, budget));
        let phases = settings.phases.map_or_else(default, Cow::Borrowed);
        let ledger = saturate(&mut graph, rules, f.registry, budget, &phases, best, recorder);
        self.graph = graph;
        let ledger = ledger.map_err(|found| {
            let place = self.inside.first().and_then(|(op, _)| f.op_span(*op));
            found.map(|error| error.related(place, "in the program that begins here"))
        })?;
        for (total, entry) in report.rules.iter_mut().zip(&ledger.rules) {
            total.add(entry);
        }
        report.work += ledger.work;
        report.nodes += self.graph.nodes() as u64;
        report.iterations = report.iterations.max(ledger.iterations);
        report.unfinished += u64::from(ledger.end != End::Saturated);
        let interrupt = settings.budget.interrupt;
        let candidates = Candidates::new(f, &self, &self.graph, model, true);
        let before = self.original_cost(f, model);
        report.cost.0 += before;
        let start = candidates.start(f, &self, &self.graph);
        let found = candidates.choose(settings.extraction, &start, interrupt);
        report.interrupted |= interrupt.is_raised();
        let cheaper = found.filter(|found| found.cost < before - 1e-9);
        let placed = cheaper.as_ref().and_then(|found| self.place(f, &candidates, &found.choice));
        report.unplaced += u64::from(cheaper.is_some() && placed.is_none());
        let choice = match (cheaper, placed) {
            (Some(found), Some(plan)) => {
                self.write(f, &candidates, plan);
                report.improved += 1;
                report.cost.1 += found.cost;
                found.choice
            }
            _ => {
                report.cost.1 += before;
                start
            }
        };
        for rule in self.used(&candidates, &choice, &ledger.made) {
            report.rules[rule].used += 1;
        }
        if settings.dump {
            report.dumps.push(candidates.into_dump(f, &self, choice));
        }
        Ok(())
    }

    /// The rules that made the nodes of the result, one for each.
    fn used(
        &self,
        candidates: &Candidates,
        choice: &[extraction::Node],
        made: &[(usize, usize)],
    ) -> Vec<usize> {
        let mut choice = choice.to_vec();
        _ = candidates.problem.prune(&mut choice);
        let chosen = candidates.index.iter().filter_map(|(class, index)| {
            let node = choice[*index as usize];
            let first = candidates.problem.nodes(*index).start;
            (node != NONE).then(|| (*class, (node - first) as usize))
        });
        let made_at = self.graph.made_at(chosen);
        let rule = |at: usize| {
            let next = made.partition_point(|(nodes, _)| *nodes <= at);
            let before = next.checked_sub(1).map_or(self.entered, |before| made[before].0);
            // What was there at the start, or was made by grouping, is no rule's.
            made.get(next).filter(|_| at >= before).map(|(_, rule)| *rule)
        };
        made_at.into_iter().filter_map(rule).collect()
    }

    /// The nodes of the best program so far.
    fn best(
        &self,
        f: &FuncMut<'_>,
        graph: &Graph,
        model: CostModel,
        interrupt: Interrupt,
    ) -> Option<Snapshot> {
        let candidates = Candidates::new(f, self, graph, model, false);
        let start = candidates.start(f, self, graph);
        let choice = candidates.choose(&extraction::STRATEGIES[0], &start, interrupt)?.choice;
        let problem = &candidates.problem;
        let chosen = |class: Class, place: usize| {
            let class = candidates.index[&class];
            choice[class as usize] == problem.nodes(class).start + place as extraction::Node
        };
        Some(graph.snapshot_of(chosen))
    }

    /// What the block costs as it is, equal operations counted each, those that nobody uses too.
    fn original_cost(&self, f: &FuncMut<'_>, model: CostModel) -> f64 {
        let costs = self.inside.iter().map(|(op, class)| {
            if is_epilogue(f, *op, model) {
                return 0.0;
            }
            let operands = f.body.operands(*op).map(|value| self.classes[&value]);
            let operands: SmallVec<[Class; 4]> =
                operands.map(|class| self.graph.find(class)).collect();
            let result = f.body.ty(f.body.result(*op, 0));
            let operation = (f.body.op_name(*op), f.body.attrs(*op), result);
            price(f, &self.graph, model, operation, self.graph.find(*class), &operands)
        });
        costs.sum()
    }

    /// The order in which classes are computed before each operation that stays; `None` where one
    /// needs a value that is not there yet.
    fn place(
        &self,
        f: &FuncMut<'_>,
        candidates: &Candidates,
        choice: &[extraction::Node],
    ) -> Option<Placement> {
        let mut computed = vec![false; choice.len()];
        let mut available: rustc_hash::FxHashSet<ValueId> = Default::default();
        let mut plan = Vec::new();
        let mut outside = self.outside.iter().peekable();
        let mut inside = self.inside.iter().peekable();
        // In program order: what an operation computed is computed where it stood, if it still is.
        while let Some(op) = match (inside.peek(), outside.peek()) {
            (Some((a, _)), Some((b, _))) if f.body.is_before(*a, *b) => Some(*a),
            (_, Some((b, _))) => Some(*b),
            (Some((a, _)), None) => Some(*a),
            (None, None) => None,
        } {
            let stays = outside.peek().is_some_and(|(other, _)| *other == op);
            let roots: Vec<extraction::Class> = if stays {
                let used = outside.next().map_or(&[][..], |(_, used)| used);
                used.iter().filter_map(|value| candidates.of(self, &self.graph, *value)).collect()
            } else {
                let class = inside.next().map(|(_, class)| self.graph.find(*class))?;
                let class = candidates.index[&class];
                if choice[class as usize] == NONE { vec![] } else { vec![class] }
            };
            let mut made = Vec::new();
            let mut late = false;
            let mut pending: Vec<(extraction::Class, bool)> =
                roots.iter().map(|class| (*class, false)).collect();
            while let Some((class, done)) = pending.pop() {
                if computed[class as usize] {
                    continue;
                }
                let node = choice[class as usize];
                if done {
                    computed[class as usize] = true;
                    made.push(node);
                    continue;
                }
                if let Form::Leaf(value) = candidates.forms[node as usize] {
                    let here = f.body.def_block(value) == Some(self.block)
                        && f.body.defining_op(value).is_some();
                    if here && !available.contains(&value) {
                        late = true;
                        break;
                    }
                }
                pending.push((class, true));
                let operands = candidates.operands[node as usize].iter();
                pending.extend(operands.rev().map(|operand| (*operand, false)));
            }
            match (late, stays) {
                // The value is needed, but later: what comes first needs something that is not yet.
                (true, false) => made
                    .iter()
                    .for_each(|node| computed[candidates.problem.owner(*node) as usize] = false),
                (true, true) => return None,
                (false, _) => plan.push((op, made)),
            }
            if stays {
                available.extend(f.body.results(op));
            }
        }
        Some(plan)
    }

    fn write(&self, f: &mut FuncMut<'_>, candidates: &Candidates, plan: Placement) {
        // The first operation of each class gives its name and place.
        let mut origins: FxHashMap<extraction::Class, OpId> = FxHashMap::default();
        for (op, class) in &self.inside {
            origins.entry(candidates.index[&self.graph.find(*class)]).or_insert(*op);
        }
        let mut values: Vec<Option<ValueId>> = vec![None; candidates.problem.class_count()];
        for (at, made) in plan {
            for node in made {
                let class = candidates.problem.owner(node);
                let operands = candidates.operands[node as usize].iter();
                let mut operands: SmallVec<[ValueId; 4]> =
                    operands.filter_map(|operand| values[*operand as usize]).collect();
                let (name, attrs, ty) = match candidates.forms[node as usize] {
                    Form::Leaf(value) => {
                        values[class as usize] = Some(value);
                        continue;
                    }
                    Form::Op(name, attrs, ty) => (name, attrs, ty),
                    Form::Fused { first: (name, attrs, ty), then } => {
                        let results = [ty];
                        let loc = f.body.loc(at).by_pass("eqsat");
                        let parts = OpParts::new(name, &operands, &results).attrs(attrs).at(loc);
                        let op = f.body.insert_op(InsertPoint::Before(at), parts);
                        operands = std::iter::once(f.body.result(op, 0)).collect();
                        then
                    }
                };
                let origin = origins.get(&class).copied();
                let loc = origin.map_or(f.body.loc(at).by_pass("eqsat"), |origin| {
                    let same = f.body.op_name(origin) == name && f.body.attrs(origin) == attrs;
                    let loc: Loc = f.body.loc(origin);
                    if same { loc } else { loc.by_pass("eqsat") }
                });
                let results = [ty];
                let parts = OpParts::new(name, &operands, &results).attrs(attrs).at(loc);
                let op = f.body.insert_op(InsertPoint::Before(at), parts);
                let value = f.body.result(op, 0);
                if let Some(origin) = origin {
                    f.body.set_name_hint(value, f.body.name_hint(f.body.result(origin, 0)));
                }
                values[class as usize] = Some(value);
            }
        }
        for (_, used) in &self.outside {
            for old in used {
                let new =
                    candidates.of(self, &self.graph, *old).and_then(|class| values[class as usize]);
                if let Some(new) = new.filter(|new| new != old) {
                    f.body.replace_all_uses(*old, new);
                }
            }
        }
        for (op, _) in self.inside.iter().rev() {
            if f.body.results(*op).all(|result| f.body.is_unused(result)) {
                f.body.erase(*op);
            }
        }
    }
}

/// An operation without its operands.
type Operation = (ir_core::Symbol, ir_core::AttrDict, ir_core::Type);

/// What computes a class.
#[derive(Clone, Copy)]
enum Form {
    Leaf(ValueId),
    Op(ir_core::Symbol, ir_core::AttrDict, ir_core::Type),
    /// Two operations as one: `then` on the result of `first`.
    Fused {
        first: Operation,
        then: Operation,
    },
}

/// What `operation` costs, which computes `class` from `operands`.
fn price(
    f: &FuncMut<'_>,
    graph: &Graph,
    model: CostModel,
    operation: Operation,
    class: Class,
    operands: &[Class],
) -> f64 {
    let (name, attrs, ty) = operation;
    let types: SmallVec<[ir_core::Type; 4]> =
        operands.iter().map(|operand| graph.ty(*operand)).collect();
    let free = model.weights_are_free() && graph.is_weight(class);
    let folded = free || graph.folds((name, ty), operands, f.registry);
    model.cost(f.registry, name, attrs, &types, ty, folded)
}

/// Whether `model` prices `op` as a part of what computes its operand, which nothing else uses.
fn is_epilogue(f: &FuncMut<'_>, op: OpId, model: CostModel) -> bool {
    let mut operands = f.body.operands(op);
    let (Some(operand), None) = (operands.next(), operands.next()) else { return false };
    let before = f.body.defining_op(operand).filter(|before| is_pure(f.body, f.registry, *before));
    before.is_some_and(|before| {
        f.body.op_block(before) == f.body.op_block(op)
            && f.body.has_one_use(operand)
            && model.fuses(f.registry, f.body.op_name(before), f.body.op_name(op))
    })
}

/// Adds, to each class that an operation computes from a class, its computation together with what
/// computes that one, where the model prices the two as one.
fn fuse(f: &FuncMut<'_>, classes: &mut [Vec<(f64, Form, Operands)>], model: CostModel) {
    for class in 0..classes.len() {
        let mut fused = Vec::new();
        for (_, form, operands) in &classes[class] {
            let (&Form::Op(name, attrs, ty), &[operand]) = (form, &operands[..]) else { continue };
            if operand as usize == class {
                continue;
            }
            for (cost, inner, operands) in &classes[operand as usize] {
                let &Form::Op(before, before_attrs, before_ty) = inner else { continue };
                if model.fuses(f.registry, before, name) {
                    let first = (before, before_attrs, before_ty);
                    let form = Form::Fused { first, then: (name, attrs, ty) };
                    fused.push((*cost, form, operands.clone()));
                }
            }
        }
        classes[class].extend(fused);
    }
}

/// Operands of a node, in order.
type Operands = SmallVec<[extraction::Class; 4]>;

/// The e-graph as an extraction problem.
struct Candidates {
    problem: Problem,
    /// What each node is.
    forms: Vec<Form>,
    /// The operands of each node, in order.
    operands: Vec<Operands>,
    index: FxHashMap<Class, extraction::Class>,
}

impl Candidates {
    /// Of what `graph` holds; with `fused`, of operations that are computed together, too.
    fn new(
        f: &FuncMut<'_>,
        block: &Block,
        graph: &Graph,
        model: CostModel,
        fused: bool,
    ) -> Candidates {
        let classes = graph.classes();
        let index: FxHashMap<Class, extraction::Class> =
            classes.iter().enumerate().map(|(index, class)| (*class, index as u32)).collect();
        let mut nodes = Vec::new();
        for class in &classes {
            let mut of_class = Vec::new();
            for (kind, operands) in graph.forms_of(*class) {
                let (cost, form) = match kind {
                    Kind::Leaf(leaf) => (0.0, Form::Leaf(ValueId::from_index(leaf.number))),
                    Kind::Op(name, attrs, ty) => {
                        let operation = (*name, *attrs, *ty);
                        let cost = price(f, graph, model, operation, *class, &operands);
                        (cost, Form::Op(*name, *attrs, *ty))
                    }
                };
                let operands: Operands = operands.iter().map(|operand| index[operand]).collect();
                of_class.push((cost, form, operands));
            }
            nodes.push(of_class);
        }
        if fused {
            fuse(f, &mut nodes, model);
        }
        let mut builder = Builder::default();
        let (mut forms, mut operands_of) = (Vec::new(), Vec::new());
        for of_class in nodes {
            builder.class();
            for (cost, form, operands) in of_class {
                builder.node(cost, operands.iter().copied());
                operands_of.push(operands);
                forms.push(form);
            }
        }
        let used = block.outside.iter().flat_map(|(_, used)| used);
        let class_of = |value: &ValueId| index.get(&graph.find(*block.classes.get(value)?));
        let problem = builder.finish(used.filter_map(class_of).copied());
        Candidates { problem, forms, operands: operands_of, index }
    }

    /// A cheap extraction that costs no more than `start`. Where operations can be computed
    /// together, what pays without that is sought first, too: one that is a part of another no
    /// longer has the operand that others could share.
    fn choose(
        &self,
        strategy: &Strategy,
        start: &[extraction::Node],
        interrupt: Interrupt,
    ) -> Option<Extraction> {
        let extract = |problem: &Problem, start: &[extraction::Node]| {
            let size = problem.node_count() + problem.edge_count();
            let budget = Some(VISITS * size as u64);
            let start = Some(start);
            let options = extraction::Options { budget, start, interrupt, ..Default::default() };
            // The program as it was is an extraction, so there is one.
            strategy.extract(problem, options).ok()
        };
        // Proofs begin with what is found without them.
        let first = &extraction::STRATEGIES[0];
        let quick = strategy.proves.then(|| self.choose(first, start, interrupt)).flatten();
        let start = quick.as_ref().map_or(start, |found| &found.choice);
        let found = extract(&self.problem, start)?;
        let is_alone =
            |node: &extraction::Node| !matches!(self.forms[*node as usize], Form::Fused { .. });
        let kept: Vec<extraction::Node> =
            (0..self.problem.node_count() as extraction::Node).filter(is_alone).collect();
        if kept.len() == self.problem.node_count() {
            return Some(found);
        }
        let mut builder = Builder::default();
        for class in self.problem.classes() {
            builder.class();
            for node in self.problem.nodes(class).filter(is_alone) {
                builder.node(self.problem.cost(node), self.problem.children(node).iter().copied());
            }
        }
        let alone = builder.finish(self.problem.roots().iter().copied());
        let number = |node: &extraction::Node| {
            kept.binary_search(node).map_or(NONE, |number| number as extraction::Node)
        };
        let apart = extract(&alone, &start.iter().map(number).collect::<Vec<_>>())?;
        let back = |node: &extraction::Node| kept.get(*node as usize).copied().unwrap_or(NONE);
        let joined = extract(&self.problem, &apart.choice.iter().map(back).collect::<Vec<_>>())?;
        Some(if joined.cost < found.cost { joined } else { found })
    }

    /// The class of a value of the block.
    fn of(&self, block: &Block, graph: &Graph, value: ValueId) -> Option<extraction::Class> {
        self.index.get(&graph.find(*block.classes.get(&value)?)).copied()
    }

    /// The program as it is: each class by its leaf, or the operation that came first. A later one
    /// may need the class itself.
    fn start(&self, f: &FuncMut<'_>, block: &Block, graph: &Graph) -> Vec<extraction::Node> {
        let mut choice = vec![NONE; self.problem.class_count()];
        for (node, form) in self.forms.iter().enumerate() {
            let chosen = &mut choice[self.problem.owner(node as u32) as usize];
            if let Form::Leaf(_) = form
                && *chosen == NONE
            {
                *chosen = node as u32;
            }
        }
        for (op, class) in &block.inside {
            let class = self.index[&graph.find(*class)];
            if choice[class as usize] != NONE {
                continue;
            }
            let operands: Option<Operands> =
                f.body.operands(*op).map(|value| self.of(block, graph, value)).collect();
            let (name, attrs) = (f.body.op_name(*op), f.body.attrs(*op));
            let is_it = |node: &extraction::Node| {
                matches!(self.forms[*node as usize], Form::Op(n, a, _) if n == name && a == attrs)
                    && Some(&self.operands[*node as usize]) == operands.as_ref()
            };
            choice[class as usize] = self.problem.nodes(class).find(is_it).unwrap_or(NONE);
        }
        choice
    }

    /// The e-graph as text would have it, with what was taken.
    fn into_dump(self, f: &FuncMut<'_>, block: &Block, choice: Vec<extraction::Node>) -> Dump {
        let name = |form: &Form| match form {
            Form::Leaf(value) => match f.body.name_hint(*value).name {
                Some(name) => format!("%{name}"),
                None => "%_".to_string(),
            },
            Form::Op(name, attrs, _) => describe(*name, *attrs, f.registry),
            Form::Fused { first, then } => {
                let [then, first] = [then, first].map(|op| describe(op.0, op.1, f.registry));
                format!("{then} of {first}")
            }
        };
        let operators = self.forms.iter().map(name).collect();
        let types = block.graph.classes().into_iter().map(|class| block.graph.ty(class)).collect();
        let mut choice = choice;
        // What nobody needs is not taken; where the program was no extraction, all stays.
        _ = self.problem.prune(&mut choice);
        Dump { gym: Gym::new(self.problem, operators, self.operands), types, choice }
    }
}
