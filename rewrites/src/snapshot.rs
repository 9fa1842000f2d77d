//! An e-graph as it is at one time, in arrays: what patterns are looked for in.

use ir_core::{Attr, AttrDict, SmallVec, Symbol, Type};
use rustc_hash::FxHashMap;

use crate::egraph::{Class, Facts};
use crate::matching::{Head, Pattern, TermGraph};

/// A node: a kind, and its operands' place.
#[derive(Clone, Copy)]
struct Form {
    kind: u32,
    first: u32,
    operands: u32,
}

/// An operation without operands, as patterns see it.
#[derive(Clone, Copy)]
pub(crate) struct KindFacts {
    /// The name; `None` for what patterns do not look into.
    pub(crate) name: Option<Symbol>,
    pub(crate) attrs: AttrDict,
    /// Whether the order of its two operands does not matter.
    pub(crate) commutative: bool,
}

/// The classes and nodes of an e-graph at one time. Everything is found by the number of a class.
#[derive(Default)]
pub struct Snapshot {
    kinds: Vec<KindFacts>,
    /// Where the nodes of each class begin, and after the last one, where they end.
    starts: Vec<u32>,
    forms: Vec<Form>,
    operands: Vec<Class>,
    facts: Vec<Option<Facts>>,
    /// Where the users of each class begin, and where they end.
    user_starts: Vec<u32>,
    users: Vec<Class>,
    /// Classes by the names of their operations.
    by_name: FxHashMap<Symbol, Vec<Class>>,
    /// A bit for each name.
    bits: FxHashMap<Symbol, u32>,
    /// By class, the bits of the operations that compute it.
    contents: Vec<u128>,
}

impl Snapshot {
    /// Of `kinds` alone, for classes numbered below `classes`.
    pub(crate) fn new(kinds: Vec<KindFacts>, classes: usize) -> Snapshot {
        Snapshot {
            kinds,
            starts: Vec::with_capacity(classes + 1),
            facts: vec![None; classes],
            contents: vec![0; classes],
            ..Snapshot::default()
        }
    }

    /// Begins the class numbered `class`, after all with lower numbers.
    pub(crate) fn class(&mut self, class: Class, facts: Facts) {
        self.starts.resize(class.index() + 1, self.forms.len() as u32);
        self.facts[class.index()] = Some(facts);
    }

    /// Adds a node to the class that was begun last.
    pub(crate) fn form(&mut self, kind: u32, operands: impl IntoIterator<Item = Class>) {
        let class = self.starts.len() - 1;
        let first = self.operands.len();
        self.operands.extend(operands);
        let count = self.operands.len() - first;
        self.forms.push(Form { kind, first: first as u32, operands: count as u32 });
        let Some(name) = self.kinds[kind as usize].name else { return };
        let with_name = self.by_name.entry(name).or_default();
        let class_id = Class::at(class);
        if with_name.last() != Some(&class_id) {
            with_name.push(class_id);
        }
        // Names beyond the number of bits share the last one.
        let next = self.bits.len().min(127) as u32;
        let bit = *self.bits.entry(name).or_insert(next);
        self.contents[class] |= 1 << bit;
    }

    /// Ends the last class and finds the users of each.
    pub(crate) fn finish(mut self) -> Snapshot {
        let classes = self.facts.len();
        self.starts.resize(classes + 1, self.forms.len() as u32);
        let mut counts = vec![0u32; classes + 1];
        self.operands.iter().for_each(|operand| counts[operand.index() + 1] += 1);
        for class in 0..classes {
            counts[class + 1] += counts[class];
        }
        let mut users = vec![Class::at(0); self.operands.len()];
        let mut next = counts.clone();
        for class in 0..classes {
            for form in self.forms_at(class) {
                for operand in self.operands_of(form) {
                    let place = &mut next[operand.index()];
                    users[*place as usize] = Class::at(class);
                    *place += 1;
                }
            }
        }
        self.user_starts = counts;
        self.users = users;
        self
    }

    fn forms_at(&self, class: usize) -> &[Form] {
        &self.forms[self.starts[class] as usize..self.starts[class + 1] as usize]
    }

    fn operands_of(&self, form: &Form) -> &[Class] {
        &self.operands[form.first as usize..][..form.operands as usize]
    }

    /// The operations that compute `class`, by name and operands.
    pub fn operations(&self, class: Class) -> impl Iterator<Item = (Symbol, &[Class])> {
        let forms = self.forms_at(class.index()).iter();
        forms
            .filter_map(|form| Some((self.kinds[form.kind as usize].name?, self.operands_of(form))))
    }

    /// All classes that are computed from `class`, in order, once for each use.
    pub fn all_users(&self, class: Class) -> &[Class] {
        let (begin, end) = (self.user_starts[class.index()], self.user_starts[class.index() + 1]);
        &self.users[begin as usize..end as usize]
    }

    /// The classes that an operation `name` computes.
    pub fn named(&self, name: Symbol) -> &[Class] {
        self.by_name.get(&name).map_or(&[], Vec::as_slice)
    }

    /// By class, how far below it one of `changed` is; `u8::MAX` where it is farther than `depth`.
    pub fn distances(&self, changed: Vec<Class>, depth: usize) -> Vec<u8> {
        let mut distances = vec![u8::MAX; self.facts.len()];
        let mut reached = changed;
        for distance in 0..=depth.min(254) as u8 {
            let mut next = Vec::new();
            for class in reached {
                let known = &mut distances[class.index()];
                if *known == u8::MAX {
                    *known = distance;
                    next.extend_from_slice(self.all_users(class));
                }
            }
            reached = next;
        }
        distances
    }

    /// The classes at which `pattern` could be found, by a look at the operations at its root and
    /// at what their operands are. With `distances`, only those near enough to what changed.
    pub fn candidates<'a>(
        &'a self,
        pattern: &'a Pattern,
        distances: Option<&'a [u8]>,
    ) -> impl Iterator<Item = Class> + 'a {
        self.named(pattern.root).iter().copied().filter(move |class| {
            let near = match (distances, pattern.depth) {
                (Some(distances), Some(depth)) => usize::from(distances[class.index()]) <= depth,
                _ => true,
            };
            near && self.forms_at(class.index()).iter().any(|form| self.fits(form, pattern))
        })
    }

    fn fits(&self, form: &Form, pattern: &Pattern) -> bool {
        let kind = &self.kinds[form.kind as usize];
        if kind.name != Some(pattern.root) || form.operands as usize != pattern.heads.len() {
            return false;
        }
        let fits = |class: &Class, head: &Head| match head {
            Head::Any => true,
            Head::Constant => self.constant(*class).is_some(),
            Head::Op(name) => self
                .bits
                .get(name)
                .is_some_and(|bit| self.contents[class.index()] & (1 << bit) != 0),
        };
        let operands = self.operands_of(form);
        let in_order = operands.iter().zip(&pattern.heads).all(|(class, head)| fits(class, head));
        in_order
            || kind.commutative
                && operands.iter().rev().zip(&pattern.heads).all(|(class, head)| fits(class, head))
    }

    fn at(&self, class: Class, form: usize) -> Option<&Form> {
        self.forms_at(class.index()).get(form)
    }
}

impl TermGraph for Snapshot {
    type Value = Class;

    const UP_TO_ORDER: bool = true;

    fn forms(&self, class: Class) -> usize {
        self.forms_at(class.index()).len()
    }

    fn name(&self, class: Class, form: usize) -> Symbol {
        let name = self.at(class, form).and_then(|form| self.kinds[form.kind as usize].name);
        name.unwrap_or_else(|| Symbol::new(""))
    }

    fn attrs(&self, class: Class, form: usize) -> AttrDict {
        let form = self.at(class, form);
        form.map_or_else(AttrDict::empty, |form| self.kinds[form.kind as usize].attrs)
    }

    fn operands(&self, class: Class, form: usize) -> SmallVec<[Class; 4]> {
        self.at(class, form).map_or(&[][..], |form| self.operands_of(form)).into()
    }

    fn ty(&self, class: Class) -> Type {
        self.facts[class.index()].as_ref().map_or_else(Type::unknown, |facts| facts.ty)
    }

    fn constant(&self, class: Class) -> Option<Attr> {
        self.facts[class.index()].as_ref()?.constant
    }

    fn is_weight(&self, class: Class) -> bool {
        self.facts[class.index()].as_ref().is_some_and(|facts| facts.weight)
    }

    fn users(&self, class: Class, name: Symbol) -> Vec<Class> {
        let mut from = 0;
        let next = || {
            let (user, after) = self.next_user(class, name, from)?;
            from = after;
            Some(user)
        };
        std::iter::from_fn(next).collect()
    }

    fn next_user(&self, class: Class, name: Symbol, from: usize) -> Option<(Class, usize)> {
        let users = self.all_users(class);
        let place = (from..users.len()).find(|&place| {
            let is_again = place > 0 && users[place - 1] == users[place];
            !is_again
                && self
                    .operations(users[place])
                    .any(|(op, operands)| op == name && operands.contains(&class))
        })?;
        Some((users[place], place + 1))
    }
}
