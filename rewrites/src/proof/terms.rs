//! Terms and what is known to be equal among them: a store of its own, without egg.
//!
//! Terms are hash-consed. Classes of equal terms are closed under congruence: operations on equal
//! operands are equal, in either order where their two operands commute.

use indexmap::IndexSet;
use ir_core::{Attr, AttrDict, Registry, SmallVec, Symbol, Traits, Type};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::matching::TermGraph;

use super::forest::{Edge, Why};

/// A term, by its place in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Term(pub u32);

/// Terms in order.
pub type Operands = SmallVec<[Term; 3]>;

/// What a term is, apart from its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The value of this number, that rules do not look into, and the constant that it is.
    Leaf(u32, Type, Option<Attr>),
    /// An operation: its name, attributes and the type of its result.
    Op(Symbol, AttrDict, Type),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    kind: u32,
    operands: Operands,
}

/// Terms and classes of equal ones.
pub struct Terms {
    kinds: IndexSet<Kind, FxBuildHasher>,
    traits: Vec<Traits>,
    entries: IndexSet<Entry, FxBuildHasher>,
    /// A forest whose roots stand for classes.
    parents: Vec<Term>,
    /// Of roots: members and users, which bounds the depth of the forest and the work of a union.
    sizes: Vec<u32>,
    /// Of roots: the terms that have a member as an operand.
    users: Vec<Vec<Term>>,
    /// Of roots: the constant that they are, with a term that shows it.
    constants: Vec<Option<(Attr, Term)>>,
    /// Terms by kind and the roots of their operands.
    signatures: FxHashMap<Entry, Term>,
    pending: Vec<(Term, Term, Why)>,
    /// What was united, in order, where that is kept.
    edges: Option<Vec<Edge>>,
}

impl Terms {
    /// No terms. With `edges`, what is united is kept for explanations.
    pub fn new(edges: bool) -> Terms {
        Terms {
            kinds: IndexSet::default(),
            traits: vec![],
            entries: IndexSet::default(),
            parents: vec![],
            sizes: vec![],
            users: vec![],
            constants: vec![],
            signatures: FxHashMap::default(),
            pending: vec![],
            edges: edges.then(Vec::new),
        }
    }

    /// Number of terms.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of `kind`.
    pub fn kind_number(&mut self, kind: Kind, registry: &Registry) -> u32 {
        let traits = match &kind {
            Kind::Leaf(..) => Traits::empty(),
            Kind::Op(name, ..) => registry.def(*name).map_or(Traits::empty(), |def| def.traits),
        };
        let (number, new) = self.kinds.insert_full(kind);
        if new {
            self.traits.push(traits);
        }
        number as u32
    }

    /// The kinds, by number.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = &Kind> {
        self.kinds.iter()
    }

    /// The term of this kind on `operands`.
    pub fn add(
        &mut self,
        kind: Kind,
        operands: impl IntoIterator<Item = Term>,
        registry: &Registry,
    ) -> Term {
        let kind = self.kind_number(kind, registry);
        self.add_numbered(kind, operands)
    }

    /// The term of the kind numbered `kind` on `operands`.
    pub fn add_numbered(&mut self, kind: u32, operands: impl IntoIterator<Item = Term>) -> Term {
        let entry = Entry { kind, operands: operands.into_iter().collect() };
        let (place, new) = self.entries.insert_full(entry.clone());
        let term = Term(place as u32);
        if !new {
            return term;
        }
        self.parents.push(term);
        self.sizes.push(1);
        self.users.push(vec![]);
        self.constants.push(self.constant_of(kind, term));
        let roots: Operands = entry.operands.iter().map(|operand| self.find(*operand)).collect();
        for (place, root) in roots.iter().enumerate() {
            if !roots[..place].contains(root) {
                self.users[root.0 as usize].push(term);
                self.sizes[root.0 as usize] += 1;
            }
        }
        let signature = self.signature(term);
        match self.signatures.get(&signature) {
            Some(other) => self.pending.push((term, *other, Why::Congruent)),
            None => _ = self.signatures.insert(signature, term),
        }
        if let (true, &[operand]) = (self.is_identity(kind), &*entry.operands) {
            self.pending.push((term, operand, Why::Identity));
        }
        self.close();
        term
    }

    fn is_identity(&self, kind: u32) -> bool {
        self.traits[kind as usize].contains(Traits::IDENTITY)
    }

    fn constant_of(&self, kind: u32, term: Term) -> Option<(Attr, Term)> {
        let constant = match &self.kinds[kind as usize] {
            Kind::Leaf(_, _, constant) => *constant,
            Kind::Op(_, attrs, _) => {
                let is_constant = self.traits[kind as usize].contains(Traits::CONSTANT);
                is_constant.then(|| attrs.get("value")).flatten()
            }
        };
        constant.map(|attr| (attr, term))
    }

    /// The kind of a term.
    pub fn kind(&self, term: Term) -> &Kind {
        &self.kinds[self.entries[term.0 as usize].kind as usize]
    }

    /// The number of the kind of a term.
    pub fn kind_of(&self, term: Term) -> u32 {
        self.entries[term.0 as usize].kind
    }

    /// The operands of a term.
    pub fn operands(&self, term: Term) -> &[Term] {
        &self.entries[term.0 as usize].operands
    }

    /// Whether the order of the two operands of `term` does not matter.
    pub fn commutes(&self, term: Term) -> bool {
        let entry = &self.entries[term.0 as usize];
        entry.operands.len() == 2 && self.traits[entry.kind as usize].contains(Traits::COMMUTATIVE)
    }

    /// The term that stands for the class of `term`.
    pub fn find(&self, mut term: Term) -> Term {
        while self.parents[term.0 as usize] != term {
            term = self.parents[term.0 as usize];
        }
        term
    }

    /// Whether two terms are known to be equal.
    pub fn equal(&self, a: Term, b: Term) -> bool {
        a == b || self.find(a) == self.find(b)
    }

    /// A term of this kind on operands that are equal to `operands`, if there is one.
    pub fn lookup(&self, kind: &Kind, operands: &[Term]) -> Option<Term> {
        let kind = self.kinds.get_index_of(kind)?;
        let operands = operands.iter().map(|operand| self.find(*operand)).collect();
        let entry = Entry { kind: kind as u32, operands };
        self.signatures.get(&self.sorted(entry)).copied()
    }

    fn signature(&self, term: Term) -> Entry {
        let entry = &self.entries[term.0 as usize];
        let operands = entry.operands.iter().map(|operand| self.find(*operand)).collect();
        self.sorted(Entry { kind: entry.kind, operands })
    }

    fn sorted(&self, mut entry: Entry) -> Entry {
        let commutes = self.traits[entry.kind as usize].contains(Traits::COMMUTATIVE);
        if commutes && entry.operands.len() == 2 {
            entry.operands.sort_unstable();
        }
        entry
    }

    /// States that two terms are equal, and draws the conclusions.
    pub fn unite(&mut self, a: Term, b: Term, why: Why) {
        self.pending.push((a, b, why));
        self.close();
    }

    fn close(&mut self) {
        while let Some((a, b, why)) = self.pending.pop() {
            let (mut root, mut other) = (self.find(a), self.find(b));
            if root == other {
                continue;
            }
            if self.sizes[root.0 as usize] < self.sizes[other.0 as usize] {
                (root, other) = (other, root);
            }
            if self.edges.is_some() {
                let swapped = why == Why::Congruent && !self.pairs_in_order(a, b);
                self.edges.iter_mut().for_each(|edges| edges.push(Edge { a, b, why, swapped }));
            }
            self.parents[other.0 as usize] = root;
            self.sizes[root.0 as usize] += self.sizes[other.0 as usize];
            // The older constant, so that it does not depend on sizes.
            let both = [root, other].into_iter().filter_map(|term| self.constants[term.0 as usize]);
            self.constants[root.0 as usize] = both.min_by_key(|(_, term)| *term);
            let moved = std::mem::take(&mut self.users[other.0 as usize]);
            for user in &moved {
                let signature = self.signature(*user);
                match self.signatures.get(&signature) {
                    Some(same) => self.pending.push((*user, *same, Why::Congruent)),
                    None => _ = self.signatures.insert(signature, *user),
                }
            }
            self.users[root.0 as usize].extend(moved);
        }
    }

    /// Whether the operands of two congruent terms are equal in order, rather than swapped.
    fn pairs_in_order(&self, a: Term, b: Term) -> bool {
        self.operands(a).iter().zip(self.operands(b)).all(|(a, b)| self.equal(*a, *b))
    }

    /// The term that shows which constant `term` is.
    pub fn constant_shown(&self, term: Term) -> Option<Term> {
        self.constants[self.find(term).0 as usize].map(|(_, shown)| shown)
    }

    /// What was united, in order.
    pub fn edges(&self) -> &[Edge] {
        self.edges.as_deref().unwrap_or_default()
    }
}

/// What conditions and type relations ask about terms. Patterns are not looked for in it.
impl TermGraph for Terms {
    type Value = Term;

    fn forms(&self, _: Term) -> usize {
        1
    }

    fn name(&self, term: Term, _: usize) -> Symbol {
        match self.kind(term) {
            Kind::Op(name, ..) => *name,
            Kind::Leaf(..) => Symbol::new(""),
        }
    }

    fn attrs(&self, term: Term, _: usize) -> AttrDict {
        match self.kind(term) {
            Kind::Op(_, attrs, _) => *attrs,
            Kind::Leaf(..) => AttrDict::empty(),
        }
    }

    fn operands(&self, term: Term, _: usize) -> SmallVec<[Term; 4]> {
        Terms::operands(self, term).into()
    }

    fn ty(&self, term: Term) -> Type {
        match self.kind(term) {
            Kind::Op(_, _, ty) | Kind::Leaf(_, ty, _) => *ty,
        }
    }

    fn constant(&self, term: Term) -> Option<Attr> {
        self.constants[self.find(term).0 as usize].map(|(attr, _)| attr)
    }

    /// What a value is computed from is no matter of what is equal.
    fn is_weight(&self, _: Term) -> bool {
        true
    }

    fn users(&self, _: Term, _: Symbol) -> Vec<Term> {
        vec![]
    }
}
