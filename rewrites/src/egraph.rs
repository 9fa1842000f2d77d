//! The e-graph: the only module that names egg.
//!
//! A node is a kind (operation, attributes, type of the result) and operands. Kinds are numbered in
//! the order in which they are met, so that no order depends on ids of the process. egg's runner,
//! patterns and extractor are not used: matching, budget and extraction are ours.

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use indexmap::IndexSet;
use ir_core::{Attr, AttrDict, Registry, SmallVec, Symbol, Traits, Type, ValueId};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::instantiate::{Operand, Plan};
use crate::matching::TermGraph;

/// What a node computes, apart from its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A value of the body that rules do not look into.
    Leaf(ValueId, Type, Option<Attr>),
    /// An operation.
    Op(Symbol, AttrDict, Type),
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
#[derive(Clone, PartialEq, Eq, Debug)]
struct Facts {
    ty: Type,
    constant: Option<Attr>,
    /// Whether it is computed from constants alone.
    weight: bool,
}

struct Kinds {
    kinds: IndexSet<Kind, FxBuildHasher>,
    /// Whether each kind is a constant operation.
    constants: Vec<bool>,
}

impl Analysis<Node> for Kinds {
    type Data = Facts;

    fn make(graph: &mut EGraph<Node, Kinds>, node: &Node, _: Id) -> Facts {
        let kinds = &graph.analysis;
        match &kinds.kinds[node.kind as usize] {
            Kind::Leaf(_, ty, constant) => {
                Facts { ty: *ty, constant: *constant, weight: constant.is_some() }
            }
            Kind::Op(_, attrs, ty) => {
                let constant = kinds.constants[node.kind as usize].then(|| attrs.get("value"));
                let constant = constant.flatten();
                let weight = !node.operands.is_empty()
                    && node.operands.iter().all(|id| graph[*id].data.weight);
                Facts { ty: *ty, constant, weight: weight || constant.is_some() }
            }
        }
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let merged =
            Facts { ty: a.ty, constant: a.constant.or(b.constant), weight: a.weight || b.weight };
        let changed = (merged != *a, merged != b);
        *a = merged;
        DidMerge(changed.0, changed.1)
    }
}

/// A class of equal values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(Id);

/// Values of one block and what they are equal to.
pub struct Graph {
    graph: EGraph<Node, Kinds>,
    /// Nodes that patterns no longer see, after a rule with `subsume`.
    subsumed: rustc_hash::FxHashSet<Node>,
}

impl Default for Graph {
    fn default() -> Graph {
        let kinds = Kinds { kinds: IndexSet::default(), constants: vec![] };
        Graph { graph: EGraph::new(kinds), subsumed: Default::default() }
    }
}

impl Graph {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.graph.total_size()
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

    /// Whether a class is computed from constants alone.
    pub fn is_weight(&self, class: Class) -> bool {
        self.graph[class.0].data.weight
    }

    fn kind(&mut self, kind: Kind, is_constant: bool) -> u32 {
        let (index, new) = self.graph.analysis.kinds.insert_full(kind);
        if new {
            self.graph.analysis.constants.push(is_constant);
        }
        index as u32
    }

    /// The class of a value that rules do not look into.
    pub fn leaf(&mut self, value: ValueId, ty: Type, constant: Option<Attr>) -> Class {
        let kind = self.kind(Kind::Leaf(value, ty, constant), false);
        Class(self.graph.add(Node { kind, operands: SmallVec::new() }))
    }

    /// The class of an operation on `operands`.
    pub fn op(
        &mut self,
        name: Symbol,
        attrs: AttrDict,
        ty: Type,
        operands: impl IntoIterator<Item = Class>,
        registry: &Registry,
    ) -> Class {
        let constant = registry.def(name).is_some_and(|def| def.traits.contains(Traits::CONSTANT));
        let kind = self.kind(Kind::Op(name, attrs, ty), constant);
        let operands = operands.into_iter().map(|class| class.0).collect();
        Class(self.graph.add(Node { kind, operands }))
    }

    /// Adds what `plan` makes and unites it with what it replaces; how many classes became one.
    pub fn apply(&mut self, plan: &Plan<Class>, registry: &Registry) -> usize {
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
        unions
    }

    /// Hides the operations `name` of `class` from patterns. Extraction still sees them.
    pub fn subsume(&mut self, class: Class, name: Symbol) {
        let kinds = &self.graph.analysis.kinds;
        let named =
            |node: &&Node| matches!(&kinds[node.kind as usize], Kind::Op(op, ..) if *op == name);
        let nodes = self.graph[class.0].nodes.iter().filter(named).cloned();
        self.subsumed.extend(nodes.collect::<Vec<_>>());
    }

    /// Draws the conclusions from unions.
    pub fn rebuild(&mut self) {
        self.graph.rebuild();
        let graph = &self.graph;
        let subsumed = self.subsumed.drain();
        self.subsumed = subsumed.map(|node| node.map_children(|id| graph.find(id))).collect();
    }

    /// The nodes of a class: kinds and operands.
    pub fn forms_of(&self, class: Class) -> impl Iterator<Item = (&Kind, SmallVec<[Class; 4]>)> {
        let nodes = self.graph[class.0].nodes.iter();
        nodes.map(|node| {
            let operands = node.operands.iter().map(|id| Class(self.graph.find(*id))).collect();
            (&self.graph.analysis.kinds[node.kind as usize], operands)
        })
    }

    /// Classes by the names of their operations.
    pub fn index(&self) -> FxHashMap<Symbol, Vec<Class>> {
        let mut index: FxHashMap<Symbol, Vec<Class>> = FxHashMap::default();
        for class in self.classes() {
            for (kind, _) in self.forms_of(class) {
                if let Kind::Op(name, ..) = kind {
                    let classes = index.entry(*name).or_default();
                    if classes.last() != Some(&class) {
                        classes.push(class);
                    }
                }
            }
        }
        index
    }

    fn node(&self, class: Class, form: usize) -> Option<&Node> {
        let node = self.graph[class.0].nodes.get(form)?;
        (self.subsumed.is_empty() || !self.subsumed.contains(node)).then_some(node)
    }
}

impl TermGraph for Graph {
    type Value = Class;

    fn forms(&self, class: Class) -> usize {
        self.graph[class.0].nodes.len()
    }

    fn name(&self, class: Class, form: usize) -> Symbol {
        match self.node(class, form).map(|node| &self.graph.analysis.kinds[node.kind as usize]) {
            Some(Kind::Op(name, ..)) => *name,
            _ => Symbol::new(""),
        }
    }

    fn attrs(&self, class: Class, form: usize) -> AttrDict {
        match self.node(class, form).map(|node| &self.graph.analysis.kinds[node.kind as usize]) {
            Some(Kind::Op(_, attrs, _)) => *attrs,
            _ => AttrDict::empty(),
        }
    }

    fn operands(&self, class: Class, form: usize) -> SmallVec<[Class; 4]> {
        let operands = self.node(class, form).map_or(&[][..], |node| &node.operands);
        operands.iter().map(|id| Class(self.graph.find(*id))).collect()
    }

    fn ty(&self, class: Class) -> Type {
        self.graph[class.0].data.ty
    }

    fn constant(&self, class: Class) -> Option<Attr> {
        self.graph[class.0].data.constant
    }

    fn users(&self, class: Class, name: Symbol) -> Vec<Class> {
        let parents = self.graph[class.0].parents().map(|id| Class(self.graph.find(id)));
        let mut parents: Vec<Class> = parents.collect();
        parents.sort_unstable();
        parents.dedup();
        parents.retain(|parent| {
            self.forms_of(*parent).any(|(kind, operands)| {
                matches!(kind, Kind::Op(op, ..) if *op == name) && operands.contains(&class)
            })
        });
        parents
    }
}
