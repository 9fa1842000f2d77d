//! Rules about any number of values of one kind: a rule with families, such as `%w..`, stands for
//! the rules that it is expanded to, one for each number of members.
//!
//! What mentions a family belongs to a member. An operand of a tuple, an item of a list, a
//! condition or an equation that belongs to a member is repeated for every member.

use std::hash::Hash;
use std::sync::OnceLock;

use indexmap::IndexMap;
use ir_core::{Attr, Dim, DimExprData, SmallVec, Symbol, Type, TypeData};
use rustc_hash::FxBuildHasher;

use crate::expression::{evaluate, holds};
use crate::functions::Functions;
use crate::instantiate::Known;
use crate::matching::{Match, TermGraph};
use crate::rule::{
    Choice, Equation, Expr, Node, NodeId, OpNode, Operator, Rest, Rule, Sample, Var,
};

/// Members of a family, at most.
pub const MAX_MEMBERS: usize = 64;

/// Whether `rule` has families.
pub fn has_families(rule: &Rule) -> bool {
    let is_member = |(_, value): &(Symbol, Expr)| *value == Expr::Member;
    rule.families.contains(&true)
        || rule.nodes.iter().any(|node| match node {
            Node::Op(op) => op.attrs.iter().any(is_member),
            _ => false,
        })
}

/// Whether the left side of `rule` is a family of operations, to be found one by one.
pub fn has_siblings(rule: &Rule) -> bool {
    rule.left.iter().any(|equation| equation.name.is_some_and(|var| rule.families[var.0]))
}

/// `rule` for families of `members` each.
fn expand(rule: &Rule, members: usize) -> Rule {
    Expansion::new(rule, members).rule()
}

/// A rule whose left side is a family of operations, which have something in common.
///
/// The operations are found one by one and grouped by what they share, so that all of a group are
/// replaced at once.
#[derive(Clone, Debug)]
pub struct Siblings {
    /// The rule for one member: what is looked for.
    pub member: Rule,
    rule: Rule,
    /// The rules for two members and more, made when they are asked for.
    expansions: Vec<OnceLock<Rule>>,
    /// Which values are families.
    families: Vec<bool>,
    /// What is the same for all members, about one.
    same: Vec<Expr>,
    /// Which attributes are used: others may differ.
    used: Vec<bool>,
}

/// What members of a group share: values, attributes, and what `same` says.
type Key<V> = (SmallVec<[Option<V>; 6]>, SmallVec<[Option<Attr>; 4]>, SmallVec<[Option<Attr>; 2]>);

/// Members by what they share.
pub struct Groups<V> {
    groups: IndexMap<Key<V>, Vec<Match<V>>, FxBuildHasher>,
}

impl<V> Default for Groups<V> {
    fn default() -> Groups<V> {
        Groups { groups: IndexMap::default() }
    }
}

impl<V: Copy + Eq + Hash> Groups<V> {
    /// The groups of more than one, in the order in which they were met, of at most
    /// [`MAX_MEMBERS`] each.
    pub fn iter(&self) -> impl Iterator<Item = &[Match<V>]> {
        let parts = self.groups.values().flat_map(|group| {
            let parts = group.len().div_ceil(MAX_MEMBERS).max(1);
            group.chunks(group.len().div_ceil(parts))
        });
        parts.filter(|part| part.len() > 1)
    }
}

impl Siblings {
    /// The rules that `rule` stands for; `None` where its left side is no family of operations.
    pub fn new(rule: &Rule) -> Option<Siblings> {
        has_siblings(rule).then(|| {
            let one = Expansion::new(rule, 1);
            let same = rule.conditions.iter().filter_map(|condition| match condition {
                Expr::Same(part) => Some(one.expr(part, 0)),
                _ => None,
            });
            Siblings {
                member: one.rule(),
                rule: rule.clone(),
                expansions: vec![OnceLock::new(); MAX_MEMBERS - 1],
                families: rule.families.clone(),
                same: same.collect(),
                used: used_attributes(rule),
            }
        })
    }

    /// The rule for `members` members.
    pub fn of(&self, members: usize) -> Option<&Rule> {
        let expansion = self.expansions.get(members.checked_sub(2)?)?;
        Some(expansion.get_or_init(|| expand(&self.rule, members)))
    }

    /// By attribute, whether members share it: others may differ.
    pub fn shared_attributes(&self) -> &[bool] {
        &self.used
    }

    /// Puts a match of the rule for one member to those with which it shares everything, if its
    /// conditions hold.
    pub fn add<G: TermGraph>(
        &self,
        groups: &mut Groups<G::Value>,
        graph: &G,
        found: &Match<G::Value>,
        functions: &Functions,
    ) where
        G::Value: Hash,
    {
        let known = Known { graph, found };
        if !self.member.conditions.iter().all(|condition| holds(condition, &known, functions)) {
            return;
        }
        let values = found.values.iter().zip(&self.families);
        let values = values.map(|(value, family)| if *family { None } else { *value });
        let same = self.same.iter().map(|part| evaluate(part, &known, functions)?.attr());
        let attributes = found.attributes.iter().zip(&self.used);
        let attributes = attributes.map(|(attr, used)| attr.filter(|_| *used));
        let key = (values.collect(), attributes.collect(), same.collect());
        let group = groups.groups.entry(key).or_default();
        if group.iter().all(|other| other.equations != found.equations) {
            group.push(found.clone());
        }
    }

    /// A value that all members of a group have as an operand.
    pub fn shared<V: Copy>(&self, found: &Match<V>) -> Option<V> {
        let Node::Op(op) = self.member.node(self.member.left.first()?.node) else { return None };
        op.operands.iter().find_map(|operand| match self.member.node(*operand) {
            // With one member, values have the places that they have in the rule.
            Node::Value(var) if !self.families[var.0] => found.values[var.0],
            _ => None,
        })
    }

    /// The match of the rule for all of `group`.
    pub fn join<V: Copy>(&self, group: &[Match<V>]) -> Match<V> {
        let mut values = SmallVec::new();
        for (index, family) in self.families.iter().enumerate() {
            let members = if *family { group } else { &group[..1] };
            values.extend(members.iter().map(|found| found.values[index]));
        }
        Match {
            values,
            attributes: group[0].attributes.clone(),
            equations: group.iter().flat_map(|found| found.equations.iter().copied()).collect(),
            ops: group.iter().flat_map(|found| found.ops.iter().copied()).collect(),
            swapped: group.iter().flat_map(|found| found.swapped.iter().copied()).collect(),
        }
    }
}

/// Attributes that the right side or a condition names.
fn used_attributes(rule: &Rule) -> Vec<bool> {
    let mut used = vec![false; rule.attributes.len()];
    let mut visit = |part: &Expr| {
        if let Expr::Attribute(var) = part {
            used[var.0] = true;
        }
    };
    rule.conditions.iter().for_each(|condition| condition.visit(&mut visit));
    let right = rule.reachable(rule.right.iter().map(|equation| equation.node));
    for node in &right {
        match rule.node(*node) {
            Node::Op(op) => op.attrs.iter().for_each(|(_, value)| value.visit(&mut visit)),
            Node::Choice(choice) => choice.condition.visit(&mut visit),
            Node::Value(_) | Node::Number(_) => {}
        }
    }
    for node in right {
        if let Node::Op(OpNode { rest: Rest::Variable(var), .. }) = rule.node(node) {
            used[var.0] = true;
        }
    }
    used
}

/// The rules that `rule` stands for with families of `members` each: one, or where its left side is
/// one of the members, one for each.
pub fn expansions(rule: &Rule, members: usize) -> Vec<Rule> {
    let mut expansion = Expansion::new(rule, members);
    let of_member = rule.left.iter().any(|equation| expansion.of_member[equation.node.0]);
    let count = if of_member && !has_siblings(rule) { members } else { 1 };
    (0..count)
        .map(|member| {
            expansion.root = member;
            expansion.rule()
        })
        .collect()
}

struct Expansion<'a> {
    rule: &'a Rule,
    members: usize,
    /// The place of each value, or of the first member.
    values: Vec<usize>,
    /// Whether each node belongs to a member.
    of_member: Vec<bool>,
    /// The place of each node, or of that of the first member.
    places: Vec<usize>,
    /// The member that stands for all in an equation without a family.
    root: usize,
}

impl<'a> Expansion<'a> {
    fn new(rule: &'a Rule, members: usize) -> Expansion<'a> {
        let (mut values, mut count) = (Vec::new(), 0);
        for family in &rule.families {
            values.push(count);
            count += if *family { members } else { 1 };
        }
        let mut of_member: Vec<bool> = Vec::new();
        for node in &rule.nodes {
            of_member.push(match node {
                Node::Value(var) => rule.families[var.0],
                Node::Number(_) => false,
                Node::Choice(choice) => {
                    choice.branches.iter().any(|branch| of_member[branch.0])
                        || belongs_to_member(rule, &choice.condition)
                }
                Node::Op(op) => {
                    let repeats = is_tuple(op);
                    op.operands.iter().any(|operand| !repeats && of_member[operand.0])
                        || op.attrs.iter().any(|(_, value)| belongs_to_member(rule, value))
                }
            });
        }
        let (mut places, mut count) = (Vec::new(), 0);
        for member in &of_member {
            places.push(count);
            count += if *member { members } else { 1 };
        }
        Expansion { rule, members, values, of_member, places, root: 0 }
    }

    fn rule(&self) -> Rule {
        let rule = self.rule;
        let mut values = Vec::new();
        for (name, family) in rule.values.iter().zip(&rule.families) {
            match family {
                true => values.extend(
                    (0..self.members).map(|member| Symbol::new(&format!("{name}.{member}"))),
                ),
                false => values.push(*name),
            }
        }
        let mut nodes = Vec::new();
        for (index, node) in rule.nodes.iter().enumerate() {
            let copies = if self.of_member[index] { self.members } else { 1 };
            nodes.extend((0..copies).map(|member| self.node(node, member)));
        }
        let mut conditions = Vec::new();
        for condition in &rule.conditions {
            match condition {
                Expr::Same(part) => {
                    let first = self.expr(part, 0);
                    conditions.extend((1..self.members).map(|member| {
                        let other = self.expr(part, member);
                        Expr::Binary(Operator::Equal, first.clone().into(), other.into())
                    }));
                }
                _ if belongs_to_member(rule, condition) => {
                    conditions.extend((0..self.members).map(|i| self.expr(condition, i)));
                }
                _ => conditions.push(self.expr(condition, 0)),
            }
        }
        Rule {
            families: vec![false; values.len()],
            values,
            nodes,
            left: self.side(&rule.left),
            right: self.side(&rule.right),
            conditions,
            samples: rule.samples.iter().flat_map(|sample| self.sample(sample)).collect(),
            ..rule.clone()
        }
    }

    fn var(&self, var: Var, member: usize) -> Var {
        Var(self.values[var.0] + if self.rule.families[var.0] { member } else { 0 })
    }

    fn place(&self, node: NodeId, member: usize) -> NodeId {
        NodeId(self.places[node.0] + if self.of_member[node.0] { member } else { 0 })
    }

    fn node(&self, node: &Node, member: usize) -> Node {
        let op = match node {
            Node::Value(var) => return Node::Value(self.var(*var, member)),
            Node::Number(number) => return Node::Number(*number),
            Node::Choice(choice) => {
                return Node::Choice(Choice {
                    condition: self.expr(&choice.condition, member),
                    branches: choice.branches.map(|branch| self.place(branch, member)),
                    span: choice.span,
                });
            }
            Node::Op(op) => op,
        };
        let mut operands = Vec::new();
        for operand in &op.operands {
            if is_tuple(op) && self.of_member[operand.0] {
                operands.extend((0..self.members).map(|member| self.place(*operand, member)));
            } else {
                operands.push(self.place(*operand, member));
            }
        }
        let attrs = op.attrs.iter().map(|(key, value)| (*key, self.expr(value, member)));
        Node::Op(OpNode { operands, attrs: attrs.collect(), ..op.clone() })
    }

    fn side(&self, side: &[Equation]) -> Vec<Equation> {
        let mut equations = Vec::new();
        for equation in side {
            let repeats = equation.name.is_some_and(|var| self.rule.families[var.0]);
            let copies = if repeats { self.members } else { 1 };
            equations.extend((0..copies).map(|member| Equation {
                name: equation.name.map(|var| self.var(var, member)),
                node: self.place(equation.node, if repeats { member } else { self.root }),
            }));
        }
        equations
    }

    // Recursion is bounded by the parser's limit.
    fn expr(&self, expr: &Expr, member: usize) -> Expr {
        match expr {
            Expr::Literal(_) | Expr::Attribute(_) => expr.clone(),
            Expr::Value(var) => Expr::Value(self.var(*var, member)),
            Expr::Member => Expr::Literal(Attr::of(&(member as i64))),
            Expr::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    let copies = match belongs_to_member(self.rule, item) {
                        true => 0..self.members,
                        false => member..member + 1,
                    };
                    list.extend(copies.map(|member| self.expr(item, member)));
                }
                Expr::List(list)
            }
            Expr::Call(name, arguments) => {
                let arguments = arguments.iter().map(|argument| self.expr(argument, member));
                Expr::Call(*name, arguments.collect())
            }
            Expr::Index(a, b) => {
                Expr::Index(self.expr(a, member).into(), self.expr(b, member).into())
            }
            Expr::Negative(part) => Expr::Negative(self.expr(part, member).into()),
            Expr::Not(part) => Expr::Not(self.expr(part, member).into()),
            Expr::Same(part) => Expr::Same(self.expr(part, member).into()),
            Expr::Binary(operator, a, b) => {
                Expr::Binary(*operator, self.expr(a, member).into(), self.expr(b, member).into())
            }
        }
    }

    /// Names of extents that only a family has are different for each member.
    fn sample(&self, sample: &Sample) -> Vec<Sample> {
        match sample {
            Sample::Type(var, ty) if self.rule.families[var.0] => {
                let shared = |name: Symbol| {
                    self.rule.samples.iter().any(|other| match other {
                        Sample::Type(other, ty) => {
                            !self.rule.families[other.0] && extents(*ty).contains(&name)
                        }
                        Sample::Attributes(..) => false,
                    })
                };
                let of = |member| rename(*ty, member, &shared);
                let members = 0..self.members;
                members.map(|member| Sample::Type(self.var(*var, member), of(member))).collect()
            }
            Sample::Type(var, ty) => vec![Sample::Type(self.var(*var, 0), *ty)],
            Sample::Attributes(..) => vec![sample.clone()],
        }
    }
}

fn is_tuple(op: &OpNode) -> bool {
    op.name.as_str().rsplit('.').next() == Some("tuple")
}

/// Whether `expr` has one value for each member. A list has all of them.
fn belongs_to_member(rule: &Rule, expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Attribute(_) | Expr::List(_) | Expr::Same(_) => false,
        Expr::Value(var) => rule.families[var.0],
        Expr::Member => true,
        Expr::Call(_, arguments) => arguments.iter().any(|part| belongs_to_member(rule, part)),
        Expr::Negative(part) | Expr::Not(part) => belongs_to_member(rule, part),
        Expr::Index(a, b) | Expr::Binary(_, a, b) => {
            belongs_to_member(rule, a) || belongs_to_member(rule, b)
        }
    }
}

/// The names in the shape of a tensor.
fn extents(ty: Type) -> Vec<Symbol> {
    let TypeData::Tensor(tensor) = ty.data() else { return vec![] };
    let names = tensor.shape.iter().filter_map(|dim| match dim {
        Dim::Expr(expr) => match expr.data() {
            DimExprData::Parameter(name) => Some(name),
            _ => None,
        },
        _ => None,
    });
    names.collect()
}

fn rename(ty: Type, member: usize, shared: &dyn Fn(Symbol) -> bool) -> Type {
    let TypeData::Tensor(tensor) = ty.data() else { return ty };
    let shape = tensor.shape.iter().map(|dim| match dim {
        Dim::Expr(expr) => match expr.data() {
            DimExprData::Parameter(name) if !shared(name) => {
                Dim::parameter(Symbol::new(&format!("{name}.{member}")))
            }
            _ => *dim,
        },
        _ => *dim,
    });
    Type::tensor(shape.collect::<Vec<_>>(), tensor.dtype)
}
