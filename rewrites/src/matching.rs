//! Finding the left side of a rule in a graph of operations: a body, or an e-graph.
//!
//! A pattern is compiled to a list of steps, which a loop with an explicit stack of choices runs.
//! In a body every value has at most one form; in an e-graph it has as many as its class has nodes.

use ir_core::{Attr, AttrData, AttrDict, Registry, Scalar, SmallVec, Symbol, Traits, Type};
use rustc_hash::FxHashMap;

use crate::rule::{Expr, Node, NodeId, OpNode, Operator, Rest, Rule, Var};

/// A graph of operations that patterns are matched against.
pub trait TermGraph {
    /// A value: a result of an operation, or a class of equal values.
    type Value: Copy + Eq;

    /// Whether patterns fit up to the order of operands, where an operation does not care for it.
    const UP_TO_ORDER: bool = false;

    /// How many operations compute this value, as far as patterns may look at them.
    fn forms(&self, value: Self::Value) -> usize;
    /// The name of one of them.
    fn name(&self, value: Self::Value, form: usize) -> Symbol;
    /// Its attributes, defaults left out.
    fn attrs(&self, value: Self::Value, form: usize) -> AttrDict;
    /// Its operands.
    fn operands(&self, value: Self::Value, form: usize) -> SmallVec<[Self::Value; 4]>;
    /// The type of a value.
    fn ty(&self, value: Self::Value) -> Type;
    /// The constant that a value is.
    fn constant(&self, value: Self::Value) -> Option<Attr>;
    /// Whether a value is computed from constants alone.
    fn is_weight(&self, value: Self::Value) -> bool;
    /// Values that an operation `name` computes from `value`, in a fixed order.
    fn users(&self, value: Self::Value, name: Symbol) -> Vec<Self::Value>;
    /// Of those, the first from place `from` on, and the place after it. Places are what this graph
    /// says they are, from 0.
    fn next_user(
        &self,
        value: Self::Value,
        name: Symbol,
        from: usize,
    ) -> Option<(Self::Value, usize)> {
        Some((*self.users(value, name).get(from)?, from + 1))
    }
}

/// What the variables of a rule stand for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Match<V> {
    /// By [`Var`].
    pub values: SmallVec<[Option<V>; 6]>,
    /// By [`Var`]; a rest of attributes is a dictionary.
    pub attributes: SmallVec<[Option<Attr>; 4]>,
    /// What stands at each equation of the left side.
    pub equations: SmallVec<[V; 2]>,
    /// All operations of the left side, the first root first.
    pub ops: SmallVec<[V; 4]>,
    /// Which of them have their two operands in the other order.
    pub swapped: SmallVec<[bool; 4]>,
}

/// A step of a compiled pattern. Slots hold values.
#[derive(Clone, Debug)]
enum Step {
    /// The value in `slot` is computed by the operation `node`; its operands go to the slots from
    /// `operands` on. With `swaps`, both orders of two operands differ, but mean the same.
    Form { slot: usize, node: NodeId, operands: usize, swaps: bool },
    /// The value in `slot` is `var`.
    Bind { slot: usize, var: Var },
    /// The value in `slot` is a constant with all elements equal to this.
    Number { slot: usize, number: Scalar },
    /// `slot` gets the value of `var`.
    Load { slot: usize, var: Var },
    /// `slot` gets some value that operation `name` computes from `var`.
    User { slot: usize, var: Var, name: Symbol },
    /// The value in `slot` stands at the next equation, and at none before.
    Equation { slot: usize },
}

/// The left side of a rule, ready to be looked for.
#[derive(Clone, Debug)]
pub struct Pattern {
    steps: Vec<Step>,
    slots: usize,
    /// The operation at the first equation.
    pub root: Symbol,
    /// What its operands must be.
    pub heads: SmallVec<[Head; 3]>,
    /// How far below its root the pattern looks; `None` with several equations.
    pub depth: Option<usize>,
}

/// What a pattern says about an operand of its root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// Nothing, or something that takes a closer look.
    Any,
    /// An operation of this name.
    Op(Symbol),
    /// A constant.
    Constant,
}

impl Pattern {
    /// The left side of `rule`, which the parser has checked.
    pub fn new(rule: &Rule, registry: &Registry) -> Option<Pattern> {
        let mut steps = Vec::new();
        let mut slots = 0;
        let mut bound = vec![false; rule.values.len()];
        for (index, equation) in rule.left.iter().enumerate() {
            let Node::Op(op) = rule.node(equation.node) else { return None };
            let slot = slots;
            slots += 1;
            if index > 0 {
                let named = equation.name.filter(|var| bound[var.0]);
                let operand = op.operands.iter().find_map(|operand| match rule.node(*operand) {
                    Node::Value(var) if bound[var.0] => Some(*var),
                    _ => None,
                });
                steps.push(match (named, operand) {
                    (Some(var), _) => Step::Load { slot, var },
                    (None, Some(var)) => Step::User { slot, var, name: op.name },
                    (None, None) => return None,
                });
            }
            steps.push(Step::Equation { slot });
            let mut pending = vec![(slot, equation.node)];
            while let Some((slot, id)) = pending.pop() {
                match rule.node(id) {
                    Node::Value(var) => {
                        bound[var.0] = true;
                        steps.push(Step::Bind { slot, var: *var });
                    }
                    Node::Number(number) => steps.push(Step::Number { slot, number: *number }),
                    Node::Choice(_) => return None,
                    Node::Op(op) => {
                        let swaps = swaps(rule, id, registry);
                        steps.push(Step::Form { slot, node: id, operands: slots, swaps });
                        // Reversed, so that the first operand is looked at first.
                        let operands = op.operands.iter().enumerate().rev();
                        pending.extend(operands.map(|(i, node)| (slots + i, *node)));
                        slots += op.operands.len();
                    }
                }
            }
            if let Some(var) = equation.name {
                bound[var.0] = true;
                steps.push(Step::Bind { slot, var });
            }
        }
        let Node::Op(root) = rule.node(rule.left.first()?.node) else { return None };
        let heads = root.operands.iter().map(|operand| match rule.node(*operand) {
            Node::Value(_) | Node::Choice(_) => Head::Any,
            Node::Number(_) => Head::Constant,
            Node::Op(op) => Head::Op(op.name),
        });
        let mut depths = vec![0; rule.nodes.len()];
        for (index, node) in rule.nodes.iter().enumerate() {
            if let Node::Op(op) = node {
                depths[index] = 1 + op.operands.iter().map(|o| depths[o.0]).max().unwrap_or(0);
            }
        }
        let depth = (rule.left.len() == 1).then(|| depths[rule.left[0].node.0]);
        Some(Pattern { steps, slots, root: root.name, heads: heads.collect(), depth })
    }
}

/// Whether the operation `id` of the left side of `rule` takes its two operands in any order, and
/// swapping them gives more than the same rule with other names.
fn swaps(rule: &Rule, id: NodeId, registry: &Registry) -> bool {
    let Node::Op(op) = rule.node(id) else { return false };
    let traits = registry.def(op.name).map_or(Traits::empty(), |def| def.traits);
    let [a, b] = op.operands[..] else { return false };
    if !traits.contains(Traits::COMMUTATIVE) {
        return false;
    }
    // Two values that nothing else names, or that conditions do not tell apart.
    let mut pairs = vec![(a, b)];
    let mut renamed: FxHashMap<Var, Var> = FxHashMap::default();
    while let Some((a, b)) = pairs.pop() {
        match (rule.node(a), rule.node(b)) {
            (Node::Value(a), Node::Value(b)) => {
                let swapped = |names: &mut FxHashMap<Var, Var>, a: Var, b: Var| {
                    *names.entry(a).or_insert(b) == b
                };
                if !(swapped(&mut renamed, *a, *b) && swapped(&mut renamed, *b, *a)) {
                    return true;
                }
            }
            (Node::Op(x), Node::Op(y)) => {
                let same = x.name == y.name
                    && x.attrs == y.attrs
                    && x.rest == y.rest
                    && x.operands.len() == y.operands.len();
                if !same {
                    return true;
                }
                pairs.extend(x.operands.iter().copied().zip(y.operands.iter().copied()));
            }
            (Node::Number(a), Node::Number(b)) if a == b => {}
            _ => return true,
        }
    }
    // What is renamed must not stand anywhere else on the left side, nor in a condition.
    let inside = rule.reachable([id]);
    let outside = rule.reachable(rule.left.iter().map(|equation| equation.node));
    let is_renamed = |var: &Var| renamed.get(var).is_some_and(|other| other != var);
    let users = outside.iter().filter(|node| !inside.contains(node));
    let mut named = users.filter_map(|node| match rule.node(*node) {
        Node::Op(op) => Some(
            op.operands
                .iter()
                .any(|operand| matches!(rule.node(*operand), Node::Value(var) if is_renamed(var))),
        ),
        _ => None,
    });
    let conditioned = rule.conditions.iter().any(|condition| {
        let mut found = false;
        condition.visit(&mut |part| {
            found |= matches!(part, Expr::Value(var) if is_renamed(var));
        });
        found && !is_symmetric(condition, &renamed)
    });
    let rooted = rule.left.iter().any(|equation| equation.name.is_some_and(|var| is_renamed(&var)));
    named.any(|named| named) || conditioned || rooted
}

/// Whether `condition` compares the same about a value and the one that it is renamed to.
fn is_symmetric(condition: &Expr, renamed: &FxHashMap<Var, Var>) -> bool {
    let Expr::Binary(Operator::Equal, left, right) = condition else { return false };
    let identity = FxHashMap::default();
    parts(left, renamed) == parts(right, &identity)
}

/// The parts of an expression, the whole first, with values renamed.
fn parts(expr: &Expr, renamed: &FxHashMap<Var, Var>) -> Vec<(Expr, usize)> {
    let mut parts = Vec::new();
    expr.visit(&mut |part| {
        parts.push(match part {
            Expr::Value(var) => (Expr::Value(renamed.get(var).copied().unwrap_or(*var)), 0),
            Expr::List(items) => (Expr::List(vec![]), items.len()),
            Expr::Call(name, arguments) => (Expr::Call(*name, vec![]), arguments.len()),
            Expr::Index(..) => (Expr::Index(Expr::Member.into(), Expr::Member.into()), 2),
            Expr::Negative(_) => (Expr::Negative(Expr::Member.into()), 1),
            Expr::Not(_) => (Expr::Not(Expr::Member.into()), 1),
            Expr::Same(_) => (Expr::Same(Expr::Member.into()), 1),
            Expr::Binary(operator, ..) => {
                (Expr::Binary(*operator, Expr::Member.into(), Expr::Member.into()), 2)
            }
            Expr::Literal(_) | Expr::Attribute(_) | Expr::Member => (part.clone(), 0),
        });
    });
    parts
}

/// A decision that may be taken back.
struct Choice {
    step: usize,
    next: usize,
    values: usize,
    attributes: usize,
    equations: usize,
    ops: usize,
}

/// A search for all matches at one value.
struct Search<'g, G: TermGraph> {
    graph: &'g G,
    rule: &'g Rule,
    slots: SmallVec<[Option<G::Value>; 8]>,
    found: Match<G::Value>,
    /// Variables in the order in which they were bound, to unbind them.
    bound_values: Vec<Var>,
    bound_attributes: Vec<Var>,
}

/// Looks for `pattern`, the left side of `rule`, with its first equation at `root`. `visit` gets
/// every match and says whether to go on. `work` counts the forms that were looked at.
pub fn search<G: TermGraph>(
    graph: &G,
    rule: &Rule,
    pattern: &Pattern,
    root: G::Value,
    work: &mut u64,
    visit: &mut dyn FnMut(&Match<G::Value>) -> bool,
) {
    let mut search = Search {
        graph,
        rule,
        slots: SmallVec::from_elem(None, pattern.slots),
        found: Match {
            values: SmallVec::from_elem(None, rule.values.len()),
            attributes: SmallVec::from_elem(None, rule.attributes.len()),
            equations: SmallVec::new(),
            ops: SmallVec::new(),
            swapped: SmallVec::new(),
        },
        bound_values: vec![],
        bound_attributes: vec![],
    };
    search.slots[0] = Some(root);
    let mut choices: Vec<Choice> = Vec::new();
    let (mut at, mut first) = (0, 0);
    loop {
        let fits = match pattern.steps.get(at) {
            None => {
                if !visit(&search.found) {
                    return;
                }
                false
            }
            Some(step) => {
                let choice = Choice {
                    step: at,
                    next: 0,
                    values: search.bound_values.len(),
                    attributes: search.bound_attributes.len(),
                    equations: search.found.equations.len(),
                    ops: search.found.ops.len(),
                };
                match search.step(step, first, work) {
                    Outcome::Fits => true,
                    Outcome::FitsOrElse(next) => {
                        choices.push(Choice { next, ..choice });
                        true
                    }
                    Outcome::Fails => false,
                }
            }
        };
        if fits {
            (at, first) = (at + 1, 0);
            continue;
        }
        let Some(choice) = choices.pop() else { return };
        search.undo(&choice);
        (at, first) = (choice.step, choice.next);
    }
}

enum Outcome {
    Fits,
    /// It fits, and the alternatives from this one on are untried.
    FitsOrElse(usize),
    Fails,
}

impl<G: TermGraph> Search<'_, G> {
    fn step(&mut self, step: &Step, first: usize, work: &mut u64) -> Outcome {
        let fits = match *step {
            Step::Form { slot, node, operands, swaps } => {
                let orders = if swaps && G::UP_TO_ORDER { 2 } else { 1 };
                return self.form(slot, node, operands, orders, first, work);
            }
            Step::User { slot, var, name } => {
                let Some(value) = self.found.values[var.0] else { return Outcome::Fails };
                let found = self.graph.next_user(value, name, first);
                *work += 1;
                let Some((user, next)) = found else { return Outcome::Fails };
                self.slots[slot] = Some(user);
                return Outcome::FitsOrElse(next);
            }
            Step::Bind { slot, var } => match (self.slots[slot], self.found.values[var.0]) {
                (Some(value), None) => {
                    self.found.values[var.0] = Some(value);
                    self.bound_values.push(var);
                    true
                }
                (value, bound) => value == bound,
            },
            Step::Load { slot, var } => {
                self.slots[slot] = self.found.values[var.0];
                true
            }
            Step::Number { slot, number } => {
                let constant = self.slots[slot].and_then(|value| self.graph.constant(value));
                constant.is_some_and(|constant| {
                    crate::functions::splat(constant)
                        .is_some_and(|splat| splat.as_f64() == number.as_f64())
                })
            }
            Step::Equation { slot } => match self.slots[slot] {
                Some(value) if !self.found.equations.contains(&value) => {
                    self.found.equations.push(value);
                    true
                }
                _ => false,
            },
        };
        if fits { Outcome::Fits } else { Outcome::Fails }
    }

    fn form(
        &mut self,
        slot: usize,
        node: NodeId,
        operands: usize,
        orders: usize,
        first: usize,
        work: &mut u64,
    ) -> Outcome {
        let (Some(value), Node::Op(op)) = (self.slots[slot], self.rule.node(node)) else {
            return Outcome::Fails;
        };
        // Each form in each order of its operands.
        let alternatives = self.graph.forms(value) * orders;
        for alternative in first..alternatives {
            let form = alternative / orders;
            *work += 1;
            if self.graph.name(value, form) != op.name {
                continue;
            }
            let mut found = self.graph.operands(value, form);
            if alternative % orders == 1 {
                found.reverse();
                if found[0] == found[1] {
                    continue;
                }
            }
            let bound = self.bound_attributes.len();
            if found.len() != op.operands.len() || !self.attributes(op, value, form) {
                self.unbind_attributes(bound);
                continue;
            }
            for (index, operand) in found.into_iter().enumerate() {
                self.slots[operands + index] = Some(operand);
            }
            self.found.ops.push(value);
            self.found.swapped.push(alternative % orders == 1);
            // The attributes bound here are taken back with this choice, which was made before.
            return match alternative + 1 < alternatives {
                true => Outcome::FitsOrElse(alternative + 1),
                false => Outcome::Fits,
            };
        }
        Outcome::Fails
    }

    fn attributes(&mut self, op: &OpNode, value: G::Value, form: usize) -> bool {
        let attrs = self.graph.attrs(value, form);
        for ((key, pattern), default) in op.attrs.iter().zip(&op.defaults) {
            let attr = attrs.get(*key).or(*default);
            let fits = match (pattern, attr) {
                (Expr::Attribute(var), Some(attr)) => self.bind_attribute(*var, attr),
                (Expr::Literal(literal), Some(attr)) => *literal == attr,
                _ => false,
            };
            if !fits {
                return false;
            }
        }
        let others = || {
            let written = |key: &Symbol| op.attrs.iter().any(|(name, _)| name == key);
            attrs.entries().iter().copied().filter(move |(key, _)| !written(key))
        };
        match op.rest {
            Rest::Default => others().next().is_none(),
            Rest::Ignored => true,
            Rest::Variable(var) => {
                let rest = Attr::new(AttrData::Dict(AttrDict::new(others())));
                self.bind_attribute(var, rest)
            }
        }
    }

    fn bind_attribute(&mut self, var: Var, attr: Attr) -> bool {
        match self.found.attributes[var.0] {
            Some(bound) => bound == attr,
            None => {
                self.found.attributes[var.0] = Some(attr);
                self.bound_attributes.push(var);
                true
            }
        }
    }

    fn unbind_attributes(&mut self, keep: usize) {
        for var in self.bound_attributes.drain(keep..) {
            self.found.attributes[var.0] = None;
        }
    }

    fn undo(&mut self, choice: &Choice) {
        for var in self.bound_values.drain(choice.values..) {
            self.found.values[var.0] = None;
        }
        self.unbind_attributes(choice.attributes);
        self.found.equations.truncate(choice.equations);
        self.found.ops.truncate(choice.ops);
        self.found.swapped.truncate(choice.ops);
    }
}
