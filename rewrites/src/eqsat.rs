//! Equality saturation of a function: each block becomes an e-graph, and the cheapest program that
//! it holds comes back.
//!
//! Only operations without effects and regions enter; all others, and the ends of blocks, stay
//! where they are and are what the results are for. Values from outside of a block are leaves, so
//! nothing moves into or out of a branch or a function.

use ir_core::{BlockId, Diagnostic, FuncMut, InsertPoint, Loc, OpId, OpParts, SmallVec, ValueId};
use rustc_hash::FxHashMap;

use crate::body_graph::is_pure;
use crate::cost::CostModel;
use crate::egraph::{Class, Graph, Kind};
use crate::library::RuleSet;
use crate::matching::TermGraph;
use crate::saturate::{Budget, End, Entry, saturate};
use crate::select::{Node, Selection, Snapshot, cost, improve, order};

/// What equality saturation did to a function.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// By the place of the rule in the set.
    pub rules: Vec<Entry>,
    /// Nodes of all e-graphs.
    pub nodes: u64,
    /// Rounds, of the block that took most.
    pub iterations: u32,
    /// Blocks whose budget ended before they were saturated.
    pub unfinished: u64,
    /// Blocks that became cheaper.
    pub improved: u64,
    /// Blocks whose cheapest program could not be put in order; they are as they were.
    pub unplaced: u64,
    /// The cost before and after, over all blocks.
    pub cost: (f64, f64),
}

/// Replaces the blocks of `f` by the cheapest equal programs that `rules` find within `budget`,
/// where these are cheaper.
///
/// # Errors
/// When a rule's right side does not type.
pub fn optimize(
    f: &mut FuncMut<'_>,
    rules: &RuleSet,
    budget: Budget,
    model: CostModel,
) -> Result<Report, Box<Diagnostic>> {
    let mut report =
        Report { rules: vec![Entry::default(); rules.rules.len()], ..Report::default() };
    let blocks: Vec<BlockId> = f.body.walk_blocks().collect();
    for block in blocks {
        Block::enter(f, block).optimize(f, rules, budget, model, &mut report)?;
    }
    Ok(report)
}

/// A block and its e-graph.
struct Block {
    block: BlockId,
    graph: Graph,
    /// The class of each value that the block uses or defines.
    classes: FxHashMap<ValueId, Class>,
    /// Operations that entered, in program order.
    inside: Vec<(OpId, Class)>,
    /// Operations that did not, with the values of the block that they, or regions in them, use.
    outside: Vec<(OpId, Vec<ValueId>)>,
}

/// Before each operation that stays, the classes that are computed there, each by its node.
type Placement = Vec<(OpId, Vec<(usize, usize)>)>;

impl Block {
    fn enter(f: &FuncMut<'_>, block: BlockId) -> Block {
        let mut this = Block {
            block,
            graph: Graph::default(),
            classes: FxHashMap::default(),
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
            let nested = f.body.regions(op).iter();
            let nested = nested.flat_map(|r| f.body.walk_block(f.body.block_of(*r)));
            let used = std::iter::once(op).chain(nested).flat_map(|op| f.body.operands(op));
            let used: Vec<ValueId> =
                used.filter(|value| f.body.def_block(*value) == Some(block)).collect();
            used.iter().for_each(|value| _ = this.class(f, *value));
            this.outside.push((op, used));
        }
        this
    }

    fn class(&mut self, f: &FuncMut<'_>, value: ValueId) -> Class {
        if let Some(class) = self.classes.get(&value) {
            return *class;
        }
        let constant = f.registry.constant(f.body, value);
        let class = self.graph.leaf(value, f.body.ty(value), constant);
        self.classes.insert(value, class);
        class
    }

    fn optimize(
        mut self,
        f: &mut FuncMut<'_>,
        rules: &RuleSet,
        budget: Budget,
        model: CostModel,
        report: &mut Report,
    ) -> Result<(), Box<Diagnostic>> {
        if self.inside.is_empty() {
            return Ok(());
        }
        let ledger = saturate(&mut self.graph, rules, f.registry, budget).map_err(|error| {
            let place = self.inside.first().and_then(|(op, _)| f.op_span(*op));
            Box::new(error.related(place, "in the program that begins here"))
        })?;
        for (total, entry) in report.rules.iter_mut().zip(&ledger.rules) {
            total.matches += entry.matches;
            total.nodes += entry.nodes;
            total.unions += entry.unions;
        }
        report.nodes += self.graph.nodes() as u64;
        report.iterations = report.iterations.max(ledger.iterations);
        report.unfinished += u64::from(ledger.end == End::Budget);
        let candidates = Candidates::new(f, &self, model);
        let start = candidates.start(f, &self);
        let before = self.original_cost(f, model);
        let found =
            improve(&candidates.snapshot, &start, 2_000_000 + 200 * self.inside.len() as u64);
        let after = cost(&candidates.snapshot, &found).unwrap_or(f64::INFINITY);
        report.cost.0 += before;
        let placed = match after < before - 1e-9 {
            true => self.place(f, &candidates, &found),
            false => None,
        };
        match placed {
            Some(plan) => {
                self.write(f, &candidates, plan);
                report.improved += 1;
                report.cost.1 += after;
            }
            None => {
                report.unplaced += u64::from(after < before - 1e-9);
                report.cost.1 += before;
            }
        }
        Ok(())
    }

    /// What the block costs as it is, equal operations counted each, those that nobody uses too.
    fn original_cost(&self, f: &FuncMut<'_>, model: CostModel) -> f64 {
        let costs = self.inside.iter().map(|(op, class)| {
            let operands: SmallVec<[ir_core::Type; 4]> =
                f.body.operands(*op).map(|value| f.body.ty(value)).collect();
            let result = f.body.ty(f.body.result(*op, 0));
            let weight = self.graph.is_weight(self.graph.find(*class));
            let (name, attrs) = (f.body.op_name(*op), f.body.attrs(*op));
            model.cost(f.registry, name, attrs, &operands, result, weight)
        });
        costs.sum()
    }

    /// The order in which classes are computed before each operation that stays; `None` where one
    /// needs a value that is not there yet.
    fn place(
        &self,
        f: &FuncMut<'_>,
        candidates: &Candidates,
        selection: &Selection,
    ) -> Option<Placement> {
        let needed = order(&candidates.snapshot, selection)?;
        let mut is_needed = vec![false; selection.len()];
        needed.iter().for_each(|class| is_needed[*class] = true);
        let mut computed = vec![false; selection.len()];
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
            let roots: Vec<usize> = if stays {
                let used = outside.next().map_or(&[][..], |(_, used)| used);
                used.iter().filter_map(|value| candidates.of(self, *value)).collect()
            } else {
                let class = inside.next().map(|(_, class)| self.graph.find(*class))?;
                let class = candidates.index[&class];
                if is_needed[class] { vec![class] } else { vec![] }
            };
            let mut made = Vec::new();
            let mut late = false;
            let mut pending: Vec<(usize, bool)> = roots.iter().map(|c| (*c, false)).collect();
            while let Some((class, done)) = pending.pop() {
                if computed[class] {
                    continue;
                }
                let form = selection[class]?;
                let node = &candidates.snapshot.classes[class][form];
                if done {
                    computed[class] = true;
                    made.push((class, form));
                    continue;
                }
                if let Form::Leaf(value) = candidates.forms[class][form] {
                    let here = f.body.def_block(value) == Some(self.block)
                        && f.body.defining_op(value).is_some();
                    if here && !available.contains(&value) {
                        late = true;
                        break;
                    }
                }
                pending.push((class, true));
                pending.extend(node.operands.iter().rev().map(|operand| (*operand, false)));
            }
            match (late, stays) {
                // The value is needed, but later: what comes first needs something that is not yet.
                (true, false) => made.iter().for_each(|(class, _)| computed[*class] = false),
                (true, true) => return None,
                (false, _) => plan.push((op, made)),
            }
            if stays {
                available.extend(f.body.results(op));
            }
        }
        Some(plan)
    }

    fn write(
        &self,
        f: &mut FuncMut<'_>,
        candidates: &Candidates,
        plan: Vec<(OpId, Vec<(usize, usize)>)>,
    ) {
        // The first operation of each class gives its name and place.
        let mut origins: FxHashMap<usize, OpId> = FxHashMap::default();
        for (op, class) in &self.inside {
            origins.entry(candidates.index[&self.graph.find(*class)]).or_insert(*op);
        }
        let mut values: Vec<Option<ValueId>> = vec![None; candidates.forms.len()];
        for (at, made) in plan {
            for (class, form) in made {
                let (name, attrs, ty) = match candidates.forms[class][form] {
                    Form::Leaf(value) => {
                        values[class] = Some(value);
                        continue;
                    }
                    Form::Op(name, attrs, ty) => (name, attrs, ty),
                };
                let node = &candidates.snapshot.classes[class][form];
                let operands: SmallVec<[ValueId; 4]> =
                    node.operands.iter().filter_map(|operand| values[*operand]).collect();
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
                values[class] = Some(value);
            }
        }
        for (_, used) in &self.outside {
            for old in used {
                let new = candidates.of(self, *old).and_then(|class| values[class]);
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

/// What computes a class.
#[derive(Clone, Copy)]
enum Form {
    Leaf(ValueId),
    Op(ir_core::Symbol, ir_core::AttrDict, ir_core::Type),
}

/// The e-graph as a snapshot with costs.
struct Candidates {
    snapshot: Snapshot,
    forms: Vec<Vec<Form>>,
    index: FxHashMap<Class, usize>,
}

impl Candidates {
    fn new(f: &FuncMut<'_>, block: &Block, model: CostModel) -> Candidates {
        let graph = &block.graph;
        let classes = graph.classes();
        let index: FxHashMap<Class, usize> =
            classes.iter().enumerate().map(|(index, class)| (*class, index)).collect();
        let (mut nodes, mut forms) = (Vec::new(), Vec::new());
        for class in &classes {
            let (mut class_nodes, mut class_forms) = (Vec::new(), Vec::new());
            for (kind, operands) in graph.forms_of(*class) {
                let (cost, form) = match kind {
                    Kind::Leaf(value, ..) => (0.0, Form::Leaf(*value)),
                    Kind::Op(name, attrs, ty) => {
                        let types: SmallVec<[ir_core::Type; 4]> =
                            operands.iter().map(|operand| graph.ty(*operand)).collect();
                        let weight = graph.is_weight(*class);
                        let cost = model.cost(f.registry, *name, *attrs, &types, *ty, weight);
                        (cost, Form::Op(*name, *attrs, *ty))
                    }
                };
                let operands = operands.iter().map(|operand| index[operand]).collect();
                class_nodes.push(Node { cost, operands });
                class_forms.push(form);
            }
            nodes.push(class_nodes);
            forms.push(class_forms);
        }
        let mut this =
            Candidates { snapshot: Snapshot { classes: nodes, roots: vec![] }, forms, index };
        let used = block.outside.iter().flat_map(|(_, used)| used);
        let mut roots: Vec<usize> = used.filter_map(|value| this.of(block, *value)).collect();
        roots.sort_unstable();
        roots.dedup();
        this.snapshot.roots = roots;
        this
    }

    /// The class of a value of the block.
    fn of(&self, block: &Block, value: ValueId) -> Option<usize> {
        self.index.get(&block.graph.find(*block.classes.get(&value)?)).copied()
    }

    /// The program as it is: each class by its leaf, or the operation that came first. A later one
    /// may need the class itself.
    fn start(&self, f: &FuncMut<'_>, block: &Block) -> Selection {
        let mut selection: Selection = vec![None; self.forms.len()];
        for (class, forms) in self.forms.iter().enumerate() {
            for (index, form) in forms.iter().enumerate() {
                if let Form::Leaf(_) = form {
                    selection[class].get_or_insert(index);
                }
            }
        }
        for (op, class) in &block.inside {
            let class = self.index[&block.graph.find(*class)];
            if selection[class].is_some() {
                continue;
            }
            let operands: Option<Vec<usize>> =
                f.body.operands(*op).map(|value| self.of(block, value)).collect();
            let (name, attrs) = (f.body.op_name(*op), f.body.attrs(*op));
            let nodes = self.forms[class].iter().zip(&self.snapshot.classes[class]);
            selection[class] = nodes.into_iter().position(|(form, node)| {
                matches!(form, Form::Op(n, a, _) if *n == name && *a == attrs)
                    && Some(&node.operands) == operands.as_ref()
            });
        }
        selection
    }
}
