//! The e-graph: the only module that names egg.
//!
//! A node is a kind (operation, attributes, type of the result) and operands. Kinds are numbered in
//! the order in which they are met, so that no order depends on ids of the process. egg's runner,
//! patterns and extractor are not used: matching, budget and extraction are ours.

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use indexmap::{IndexMap, IndexSet};
use ir_core::{Attr, AttrData, AttrDict, Registry, SmallVec, Symbol, Traits, Type, is_large_fill};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::instantiate::{Operand, Plan};
use crate::matching::Head;
use crate::snapshot::{KindFacts, Snapshot};

/// What a node computes, apart from its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A value that rules do not look into.
    Leaf(Leaf),
    /// An operation.
    Op(Symbol, AttrDict, Type),
}

/// A value that rules do not look into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Leaf {
    /// Which one it is, to whoever makes the graph.
    pub number: usize,
    /// The type.
    pub ty: Type,
    /// The constant that it is, where rules may know.
    pub constant: Option<Attr>,
    /// Whether it is computed from constants alone.
    pub weight: bool,
}

/// A node: a kind, by number, and operands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Node {
    kind: u32,
    operands: SmallVec<[Id; 3]>,
}

impl Language for Node {
    type Discriminant = u32;

    fn discriminant(&self) -> u32 {
        self.kind
    }

    fn matches(&self, other: &Node) -> bool {
        self.kind == other.kind && self.operands.len() == other.operands.len()
    }

    fn children(&self) -> &[Id] {
        &self.operands
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.operands
    }
}

/// What is known about a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The type.
    pub ty: Type,
    /// The constant that it is.
    pub constant: Option<Attr>,
    /// Whether it is computed from constants alone.
    pub weight: bool,
    /// Whether the compiler computes it, once: it is a weight without large fills.
    pub folded: bool,
}

struct Kinds {
    kinds: IndexSet<Kind, FxBuildHasher>,
    /// The traits of the operation of each kind.
    traits: Vec<Traits>,
    /// Whether each kind is a [large fill](is_large_fill).
    fills: Vec<bool>,
    /// Classes that are new or have changed.
    touched: Vec<Id>,
    /// Two constants that were found to be equal and are not.
    contradiction: Option<[Attr; 2]>,
}

/// Whether two constants differ by more than rounding, which costs at most half of the digits here.
fn differ(a: Attr, b: Attr) -> bool {
    let (AttrData::Tensor(a), AttrData::Tensor(b)) = (a.data(), b.data()) else { return a != b };
    let dtype = a.dtype();
    if dtype != b.dtype() || a.shape() != b.shape() || !dtype.is_float() {
        return a != b;
    }
    let relative = 2f64.powi(-dtype.float_format().1 / 2);
    a.elements().zip(b.elements()).any(|(a, b)| {
        let (a, b) = (a.as_f64(), b.as_f64());
        let near = (a - b).abs() <= relative * a.abs().max(b.abs()).max(1.0);
        !(a == b || near || a.is_nan() && b.is_nan())
    })
}

impl Analysis<Node> for Kinds {
    type Data = Facts;

    fn make(graph: &mut EGraph<Node, Kinds>, node: &Node, _: Id) -> Facts {
        let kinds = &graph.analysis;
        match &kinds.kinds[node.kind as usize] {
            Kind::Leaf(Leaf { ty, constant, weight, .. }) => {
                Facts { ty: *ty, constant: *constant, weight: *weight, folded: *weight }
            }
            Kind::Op(_, attrs, ty) => {
                let constant = kinds.traits[node.kind as usize].contains(Traits::CONSTANT);
                let constant = constant.then(|| attrs.get("value")).flatten();
                let of_all = |property: fn(&Facts) -> bool| {
                    let mut operands = node.operands.iter();
                    constant.is_some()
                        || operands.len() > 0 && operands.all(|id| property(&graph[*id].data))
                };
                let weight = of_all(|facts| facts.weight);
                let folded = of_all(|facts| facts.folded) && !kinds.fills[node.kind as usize];
                Facts { ty: *ty, constant, weight, folded }
            }
        }
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let merged = Facts {
            ty: a.ty,
            constant: a.constant.or(b.constant),
            weight: a.weight || b.weight,
            folded: a.folded || b.folded,
        };
        if let (Some(one), Some(other)) = (a.constant, b.constant)
            && one != other
            && self.contradiction.is_none()
            && differ(one, other)
        {
            self.contradiction = Some([one, other]);
        }
        let changed = (merged != *a, merged != b);
        *a = merged;
        DidMerge(changed.0, changed.1)
    }

    fn modify(graph: &mut EGraph<Node, Kinds>, id: Id) {
        graph.analysis.touched.push(id);
    }
}

/// A class of equal values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(Id);

impl Class {
    /// The class numbered `index`.
    pub(crate) fn at(index: usize) -> Class {
        Class(Id::from(index))
    }

    /// Its number.
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// Values of one block and what they are equal to.
pub struct Graph {
    graph: EGraph<Node, Kinds>,
    /// Nodes that patterns no longer see, after a rule with `subsume`.
    subsumed: FxHashSet<Node>,
    /// Nodes that a rule which is `safer` replaces.
    risky: FxHashSet<Node>,
    /// Classes that are new or have changed.
    changed: Vec<Id>,
}

impl Default for Graph {
    fn default() -> Graph {
        let kinds = Kinds {
            kinds: IndexSet::default(),
            traits: vec![],
            fills: vec![],
            touched: vec![],
            contradiction: None,
        };
        let (subsumed, risky) = (FxHashSet::default(), FxHashSet::default());
        Graph { graph: EGraph::new(kinds), subsumed, risky, changed: vec![] }
    }
}

impl Graph {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.graph.total_number_of_nodes()
    }

    /// Number of nodes that were ever made: what counts against a budget. Nodes that turn out to be
    /// equal stay counted.
    pub fn made(&self) -> usize {
        self.graph.nodes().len()
    }

    /// All classes, in the order in which they were made.
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self.graph.classes().map(|class| Class(class.id)).collect();
        classes.sort_unstable();
        classes
    }

    /// The class that `class` has become.
    pub fn find(&self, class: Class) -> Class {
        Class(self.graph.find(class.0))
    }

    fn kind(&mut self, kind: Kind, traits: Traits, fill: bool) -> u32 {
        let (index, new) = self.graph.analysis.kinds.insert_full(kind);
        if new {
            self.graph.analysis.traits.push(traits);
            self.graph.analysis.fills.push(fill);
        }
        index as u32
    }

    /// The class of a value that rules do not look into.
    pub fn leaf(&mut self, leaf: Leaf) -> Class {
        let kind = self.kind(Kind::Leaf(leaf), Traits::empty(), false);
        Class(self.graph.add(Node { kind, operands: SmallVec::new() }))
    }

    /// The class of an operation on `operands`, or of the same with its two operands swapped, where
    /// their order does not matter.
    pub fn op(
        &mut self,
        name: Symbol,
        attrs: AttrDict,
        ty: Type,
        operands: impl IntoIterator<Item = Class>,
        registry: &Registry,
    ) -> Class {
        let traits = registry.def(name).map_or(Traits::empty(), |def| def.traits);
        let kind = self.kind(Kind::Op(name, attrs, ty), traits, is_large_fill(registry, name, ty));
        let operands = operands.into_iter().map(|class| self.graph.find(class.0)).collect();
        let node = Node { kind, operands };
        if let Some(swapped) = self.swapped(&node) {
            return Class(swapped);
        }
        Class(self.graph.add(node))
    }

    /// Adds what `plan` makes and unites it with what it replaces; how many classes became one, and
    /// the classes of what it made, in order.
    pub fn apply(&mut self, plan: &Plan<Class>, registry: &Registry) -> (usize, Vec<Class>) {
        let mut made: Vec<Class> = Vec::with_capacity(plan.ops.len());
        let resolve = |operand: Operand<Class>, made: &[Class]| match operand {
            Operand::Value(class) => class,
            Operand::New(index) => made[index],
        };
        for op in &plan.ops {
            let operands: SmallVec<[Class; 4]> =
                op.operands.iter().map(|operand| resolve(*operand, &made)).collect();
            let class = self.op(op.name, op.attrs, op.ty, operands, registry);
            made.push(class);
        }
        let mut unions = 0;
        for (old, new) in &plan.replacements {
            unions += usize::from(self.graph.union(old.0, resolve(*new, &made).0));
        }
        (unions, made)
    }

    /// Whether what `plan` makes differs from what is there in constants alone: in operands that
    /// are computed from constants, here and there. Those are free, so the one is as good as the
    /// other.
    pub fn is_known(&self, plan: &Plan<Class>) -> bool {
        let [(old, Operand::New(new))] = plan.replacements[..] else { return false };
        let Some(op) = plan.ops.get(new) else { return false };
        let weights = self.planned_weights(plan);
        let fits = |(id, operand): (&Id, &Operand<Class>)| {
            let facts = &self.graph[*id].data;
            match *operand {
                Operand::Value(class) if self.graph.find(class.0) == self.graph.find(*id) => true,
                Operand::Value(class) => {
                    let other = &self.graph[class.0].data;
                    facts.weight
                        && other.weight
                        && facts.ty == other.ty
                        && (facts.constant.is_some() || other.constant.is_none())
                }
                Operand::New(index) => {
                    facts.weight && weights[index] == Some(false) && facts.ty == plan.ops[index].ty
                }
            }
        };
        self.graph[old.0].nodes.iter().any(|node| {
            let kind = &self.graph.analysis.kinds[node.kind as usize];
            matches!(kind, Kind::Op(name, attrs, ty)
                if *name == op.name && *attrs == op.attrs && *ty == op.ty)
                && node.operands.len() == op.operands.len()
                && node.operands.iter().zip(&op.operands).all(fits)
        })
    }

    /// By planned operation, whether it is computed from constants alone: `Some(true)` where it is
    /// one.
    fn planned_weights(&self, plan: &Plan<Class>) -> Vec<Option<bool>> {
        let mut weights: Vec<Option<bool>> = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let is_weight = |operand: &Operand<Class>| match *operand {
                Operand::Value(class) => self.is_weight(class),
                Operand::New(index) => weights[index].is_some(),
            };
            let constant = op.operands.is_empty();
            weights.push(op.operands.iter().all(is_weight).then_some(constant));
        }
        weights
    }

    /// When each of these nodes, given by class and place in [`Graph::forms_of`], was made: how
    /// many there were before.
    pub fn made_at(&self, chosen: impl IntoIterator<Item = (Class, usize)>) -> Vec<usize> {
        let nodes = chosen.into_iter().filter_map(|(class, place)| {
            let node = self.graph[class.0].nodes.get(place)?;
            Some((node.clone(), usize::MAX))
        });
        let mut made: IndexMap<Node, usize, FxBuildHasher> = nodes.collect();
        for (place, node) in self.graph.nodes().iter().enumerate() {
            let node = node.clone().map_children(|id| self.graph.find(id));
            if let Some(at) = made.get_mut(&node) {
                *at = (*at).min(place);
            }
        }
        made.into_values().filter(|at| *at != usize::MAX).collect()
    }

    /// States that two classes are equal.
    pub fn unite(&mut self, a: Class, b: Class) {
        self.graph.union(a.0, b.0);
    }

    /// Hides the operations `name` of `class` from patterns. Extraction still sees them.
    pub fn subsume(&mut self, class: Class, name: Symbol) {
        let kinds = &self.graph.analysis.kinds;
        let named =
            |node: &&Node| matches!(&kinds[node.kind as usize], Kind::Op(op, ..) if *op == name);
        let nodes = self.graph[class.0].nodes.iter().filter(named).cloned();
        self.subsumed.extend(nodes.collect::<Vec<_>>());
    }

    /// States that the operations `name` of `class` on operands such as `heads` may be infinite or
    /// NaN where what they are equal to is finite.
    pub fn doubt(&mut self, class: Class, name: Symbol, heads: &[Head]) {
        let kinds = &self.graph.analysis.kinds;
        let is = |id: &Id, name: Symbol| {
            let nodes = self.graph[*id].nodes.iter();
            let mut kinds = nodes.map(|node| &kinds[node.kind as usize]);
            kinds.any(|kind| matches!(kind, Kind::Op(op, ..) if *op == name))
        };
        let fits = |id: &Id, head: &Head| match head {
            Head::Any => true,
            Head::Op(name) => is(id, *name),
            Head::Constant => self.graph[*id].data.constant.is_some(),
        };
        let doubtful = |node: &&Node| {
            let Kind::Op(op, ..) = &kinds[node.kind as usize] else { return false };
            let all = |operands: &mut dyn Iterator<Item = &Id>| {
                operands.zip(heads).all(|(id, head)| fits(id, head))
            };
            let either = self.graph.analysis.traits[node.kind as usize];
            *op == name
                && (all(&mut node.operands.iter())
                    || either.contains(Traits::COMMUTATIVE) && all(&mut node.operands.iter().rev()))
        };
        let nodes = self.graph[class.0].nodes.iter().filter(doubtful).cloned();
        self.risky.extend(nodes.collect::<Vec<_>>());
    }

    /// Drops the nodes in doubt, but for those by which alone the program, the first `entered`
    /// nodes that were made, computes a value. Only extraction may follow.
    pub fn drop_doubtful(&mut self, entered: usize) {
        if self.risky.is_empty() {
            return;
        }
        let graph = &self.graph;
        let canonical = |node: &Node| node.clone().map_children(|id| graph.find(id));
        let program: FxHashSet<Node> = graph.nodes()[..entered].iter().map(canonical).collect();
        let risky = std::mem::take(&mut self.risky);
        for class in self.graph.classes_mut() {
            let certain = |node: &Node| !risky.contains(node);
            let other_way = class.nodes.iter().any(|node| certain(node) && program.contains(node));
            let stays = |node: &Node| certain(node) || !other_way && program.contains(node);
            // Rules that replace one another leave nothing else.
            if class.nodes.iter().any(stays) {
                class.nodes.retain(stays);
            }
        }
    }

    /// Draws the conclusions from unions.
    pub fn rebuild(&mut self) {
        loop {
            self.graph.rebuild();
            let touched = std::mem::take(&mut self.graph.analysis.touched);
            let united = self.unite_swapped(&touched);
            self.changed.extend(touched);
            if !united {
                break;
            }
        }
        let graph = &self.graph;
        let subsumed = self.subsumed.drain();
        self.subsumed = subsumed.map(|node| node.map_children(|id| graph.find(id))).collect();
        let risky = self.risky.drain();
        self.risky = risky.map(|node| node.map_children(|id| graph.find(id))).collect();
    }

    /// Unites what differs by the order of operands alone, at and above `touched`; whether there
    /// was such a thing.
    fn unite_swapped(&mut self, touched: &[Id]) -> bool {
        let mut equal = Vec::new();
        // Many that were touched may be one class by now, with many above it.
        let (mut met, mut seen) = (FxHashSet::default(), FxHashSet::default());
        for id in touched {
            let id = self.graph.find(*id);
            if !met.insert(id) {
                continue;
            }
            let above = self.graph[id].parents().map(|id| self.graph.find(id));
            for id in std::iter::once(id).chain(above) {
                if !seen.insert(id) {
                    continue;
                }
                for node in &self.graph[id].nodes {
                    if let Some(other) = self.swapped(node)
                        && self.graph.find(other) != id
                    {
                        equal.push((id, other));
                    }
                }
            }
        }
        equal.into_iter().fold(false, |any, (a, b)| self.graph.union(a, b) || any)
    }

    /// The class of `node` with its two operands swapped, where their order does not matter.
    fn swapped(&self, node: &Node) -> Option<Id> {
        let [a, b] = *node.operands else { return None };
        let commutes = self.graph.analysis.traits[node.kind as usize].contains(Traits::COMMUTATIVE);
        let swapped = || Node { kind: node.kind, operands: SmallVec::from_slice(&[b, a]) };
        (commutes && a != b).then(|| self.graph.lookup(swapped()))?
    }

    /// The nodes of a class: kinds and operands.
    pub fn forms_of(&self, class: Class) -> impl Iterator<Item = (&Kind, SmallVec<[Class; 4]>)> {
        let nodes = self.graph[class.0].nodes.iter();
        nodes.map(|node| {
            let operands = node.operands.iter().map(|id| Class(self.graph.find(*id))).collect();
            (&self.graph.analysis.kinds[node.kind as usize], operands)
        })
    }

    /// What patterns are looked for in.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(|_, _| true)
    }

    /// Those nodes alone that `keep` keeps, by class and place in [`Graph::forms_of`].
    pub fn snapshot_of(&self, keep: impl Fn(Class, usize) -> bool) -> Snapshot {
        let classes = self.classes();
        let count = classes.last().map_or(0, |class| class.index() + 1);
        let kinds = &self.graph.analysis;
        let facts = kinds.kinds.iter().zip(&kinds.traits).map(|(kind, traits)| match kind {
            Kind::Leaf(..) => {
                KindFacts { name: None, attrs: AttrDict::empty(), commutative: false }
            }
            Kind::Op(name, attrs, _) => KindFacts {
                name: Some(*name),
                attrs: *attrs,
                commutative: traits.contains(Traits::COMMUTATIVE),
            },
        });
        let mut snapshot = Snapshot::new(facts.collect(), count);
        for class in classes {
            let of_class = &self.graph[class.0];
            snapshot.class(class, of_class.data);
            for (place, node) in of_class.nodes.iter().enumerate() {
                let subsumed = !self.subsumed.is_empty() && self.subsumed.contains(node);
                if !subsumed && keep(class, place) {
                    let operands = node.operands.iter().map(|id| Class(self.graph.find(*id)));
                    snapshot.form(node.kind, operands);
                }
            }
        }
        snapshot.finish()
    }

    /// The classes that are new or have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<Class> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|id| Class(self.graph.find(id))).collect()
    }

    /// Two constants that are one class by what was stated so far, though they differ by more than
    /// rounding; each such pair is told once.
    pub fn take_contradiction(&mut self) -> Option<[Attr; 2]> {
        self.graph.analysis.contradiction.take()
    }

    /// The type of a class.
    pub fn ty(&self, class: Class) -> Type {
        self.graph[class.0].data.ty
    }

    /// The constant that a class is.
    pub fn constant(&self, class: Class) -> Option<Attr> {
        self.graph[class.0].data.constant
    }

    /// Whether a class is computed from constants alone.
    pub fn is_weight(&self, class: Class) -> bool {
        self.graph[class.0].data.weight
    }

    /// Whether the compiler computes the operation `name` on `operands`, of the type `ty`, so that
    /// the program does not.
    pub fn folds(
        &self,
        (name, ty): (Symbol, Type),
        operands: &[Class],
        registry: &Registry,
    ) -> bool {
        let mut folded = operands.iter().map(|class| self.graph[class.0].data.folded);
        !operands.is_empty() && folded.all(|folded| folded) && !is_large_fill(registry, name, ty)
    }
}
