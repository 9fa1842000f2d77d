//! Whether a rule fits named terms. Nothing is searched for: a step says which operation of the
//! left side is which term.

use ir_core::{Attr, AttrData, AttrDict, Registry, Scalar, SmallVec, Symbol, Traits};
use rustc_hash::FxHashMap;

use crate::compute::{Evaluator, Known, tensor};
use crate::functions::splat;
use crate::instantiate::{Operand, Plan};
use crate::library::Compiled;
use crate::matching::{Match, TermGraph};
use crate::regroup::regrouped;
use crate::rule::{Expr, Node, OpNode, Rest, Rule, Var};

use super::terms::{Kind, Operands, Term, Terms};

/// A term of the left side of a step, and whether its two operands stand there in the other order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The term.
    pub term: Term,
    /// Whether its operands are swapped.
    pub swapped: bool,
}

impl Line {
    /// The operands in the order of the rule.
    pub fn operands(self, terms: &Terms) -> Operands {
        let mut operands: Operands = terms.operands(self.term).into();
        if self.swapped {
            operands.reverse();
        }
        operands
    }
}

/// An operand on the left side of a rule.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A variable.
    Value(Var),
    /// A constant with all elements equal to this.
    Number(Scalar),
    /// The operation at this place.
    Op(usize),
}

/// The operations of the left side of a rule in the order in which they are matched: a root, and
/// what is below its first operand, before what is below the next.
pub struct Shape<'r> {
    /// The operations with their operands.
    pub ops: Vec<(&'r OpNode, SmallVec<[Part; 4]>)>,
    /// The place of the operation of each equation.
    pub roots: Vec<usize>,
}

impl<'r> Shape<'r> {
    /// Of `rule`; `None` where an equation is no operation.
    pub fn new(rule: &'r Rule) -> Option<Shape<'r>> {
        let mut shape = Shape { ops: vec![], roots: vec![] };
        for equation in &rule.left {
            // Nodes with the operation and the operand that they are.
            let mut pending = vec![(equation.node, None)];
            while let Some((node, user)) = pending.pop() {
                let part = match rule.node(node) {
                    Node::Value(var) => Part::Value(*var),
                    Node::Number(number) => Part::Number(*number),
                    Node::Choice(_) => return None,
                    Node::Op(op) => {
                        let place = shape.ops.len();
                        let operands = op.operands.iter().map(|_| Part::Op(place)).collect();
                        shape.ops.push((op, operands));
                        let operands = op.operands.iter().enumerate().rev();
                        pending.extend(operands.map(|(i, node)| (*node, Some((place, i)))));
                        Part::Op(place)
                    }
                };
                match (user, part) {
                    (Some((user, index)), _) => shape.ops[user].1[index] = part,
                    (None, Part::Op(place)) => shape.roots.push(place),
                    (None, _) => return None,
                }
            }
        }
        Some(shape)
    }
}

/// Where a rule fits.
pub struct Fitted {
    /// What its variables stand for.
    pub found: Match<Term>,
    /// Different terms that are equal, because of which it fits.
    pub equal: Vec<(Term, Term)>,
}

/// A rule, for so many members where it is about families.
#[derive(Clone, Copy)]
pub struct Instance<'r> {
    /// The rule.
    pub rule: &'r Rule,
    /// By attribute, whether it is the same wherever it stands; `None` where all are.
    shared: Option<&'r [bool]>,
}

impl<'r> Instance<'r> {
    /// The rule that `compiled` stands for whose left side has `ops` operations.
    pub fn new(compiled: &'r Compiled, ops: usize) -> Option<Instance<'r>> {
        let Some(siblings) = &compiled.siblings else {
            return Some(Instance { rule: &compiled.rule, shared: None });
        };
        let of_member = Shape::new(&siblings.member)?.ops.len();
        let rule = siblings.of(ops.checked_div(of_member)?)?;
        Some(Instance { rule, shared: Some(siblings.shared_attributes()) })
    }

    fn is_shared(self, attribute: Var) -> bool {
        self.shared.is_none_or(|shared| shared[attribute.0])
    }
}

/// How a rule fits `left`, one term for each operation of its left side; `None` where it does not.
/// Conditions are not looked at. Equations may stand for one value: what a rule says about two
/// holds for one as well.
pub fn fit(
    terms: &Terms,
    instance: Instance<'_>,
    shape: &Shape<'_>,
    left: &[Line],
) -> Option<Fitted> {
    if shape.ops.len() != left.len() {
        return None;
    }
    let rule = instance.rule;
    let mut fitted = Fitted {
        found: Match {
            values: SmallVec::from_elem(None, rule.values.len()),
            attributes: SmallVec::from_elem(None, rule.attributes.len()),
            equations: shape.roots.iter().map(|place| left[*place].term).collect(),
            ops: left.iter().map(|line| line.term).collect(),
            swapped: left.iter().map(|line| line.swapped).collect(),
        },
        equal: vec![],
    };
    for ((op, parts), line) in shape.ops.iter().zip(left) {
        let Kind::Op(name, attrs, _) = terms.kind(line.term) else { return None };
        let operands = line.operands(terms);
        let fits = *name == op.name
            && operands.len() == parts.len()
            && (!line.swapped || terms.commutes(line.term))
            && attributes(op, *attrs, instance, &mut fitted.found.attributes);
        if !fits {
            return None;
        }
        for (operand, part) in operands.into_iter().zip(parts) {
            match *part {
                Part::Value(var) => fitted.bind(terms, var, operand)?,
                Part::Op(place) => fitted.need(terms, operand, left[place].term)?,
                Part::Number(number) => {
                    let shown = terms.constant_shown(operand)?;
                    fitted.need(terms, operand, shown)?;
                    let splat = splat(terms.constant(operand)?)?;
                    (splat.as_f64() == number.as_f64()).then_some(())?;
                }
            }
        }
    }
    for (equation, place) in rule.left.iter().zip(&shape.roots) {
        if let Some(var) = equation.name {
            fitted.bind(terms, var, left[*place].term)?;
        }
    }
    Some(fitted)
}

impl Fitted {
    fn bind(&mut self, terms: &Terms, var: Var, term: Term) -> Option<()> {
        match self.found.values[var.0] {
            Some(bound) => self.need(terms, bound, term),
            None => {
                self.found.values[var.0] = Some(term);
                Some(())
            }
        }
    }

    fn need(&mut self, terms: &Terms, a: Term, b: Term) -> Option<()> {
        if a != b {
            terms.equal(a, b).then_some(())?;
            self.equal.push((a, b));
        }
        Some(())
    }
}

/// Whether `attrs` are what `op` says, given what its variables are bound to, which may become
/// more.
pub fn attributes(
    op: &OpNode,
    attrs: AttrDict,
    instance: Instance<'_>,
    bound: &mut [Option<Attr>],
) -> bool {
    let mut bind = |var: Var, attr: Attr| {
        !instance.is_shared(var) || *bound[var.0].get_or_insert(attr) == attr
    };
    for ((key, pattern), default) in op.attrs.iter().zip(&op.defaults) {
        let fits = match (pattern, attrs.get(*key).or(*default)) {
            (Expr::Attribute(var), Some(attr)) => bind(*var, attr),
            (Expr::Literal(literal), Some(attr)) => *literal == attr,
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    let written = |key: &Symbol| op.attrs.iter().any(|(name, _)| name == key);
    let mut others = attrs.entries().iter().copied().filter(|(key, _)| !written(key));
    match op.rest {
        Rest::Default => others.next().is_none(),
        Rest::Ignored => true,
        Rest::Variable(var) => bind(var, Attr::new(AttrData::Dict(AttrDict::new(others)))),
    }
}

/// What grouping makes of the sum that `left` is, operations in the order of its text: the plan,
/// and the equalities because of which they are one sum. `None` where they are none of operations
/// whose order and grouping do not matter but for rounding, or where a place in `group` is none of
/// a term.
pub fn regroup(
    terms: &Terms,
    left: &[Line],
    group: &[usize],
    registry: &Registry,
) -> Option<(Plan<Term>, Vec<(Term, Term)>)> {
    let total = left.first()?.term;
    let Kind::Op(name, attrs, ty) = terms.kind(total) else { return None };
    let traits = registry.def(*name)?.traits;
    if !traits.contains(Traits::ASSOCIATIVE | Traits::COMMUTATIVE) || !attrs.is_empty() {
        return None;
    }
    let (mut parts, mut equal) = (Vec::new(), Vec::new());
    let mut next = 0;
    let mut pending = vec![total];
    while let Some(term) = pending.pop() {
        match left.get(next) {
            Some(line) if terms.equal(line.term, term) => {
                let operands = line.operands(terms);
                let same = operands.iter().all(|operand| terms.ty(*operand) == *ty);
                if terms.kind(line.term) != terms.kind(total) || !same {
                    return None;
                }
                if line.term != term {
                    equal.push((line.term, term));
                }
                next += 1;
                pending.extend(operands.iter().rev());
            }
            _ => parts.push(term),
        }
    }
    let ordered = group.windows(2).all(|pair| pair[0] < pair[1]);
    let fits = group.last().is_some_and(|last| *last < parts.len());
    (next == left.len() && ordered && fits)
        .then(|| (regrouped(*name, *ty, &parts, group, total), equal))
}

/// What computing the first operation of `left` gives: the plan, and the equalities because of
/// which its operands are known. They are constants, or computed by the operations of `left`
/// behind, each of which comes after those that read it. `None` where one is neither, or has no
/// result.
pub fn compute(
    terms: &Terms,
    left: &[Line],
    registry: &Registry,
) -> Option<(Plan<Term>, Vec<(Term, Term)>)> {
    let evaluate = registry.extension::<Evaluator>()?.0?;
    // By the term that stands for their class.
    let mut known: FxHashMap<Term, (Term, Known)> = FxHashMap::default();
    let mut equal = Vec::new();
    for line in left.iter().rev() {
        let Kind::Op(name, attrs, ty) = terms.kind(line.term) else { return None };
        let mut operands: SmallVec<[Known; 3]> = SmallVec::new();
        for operand in line.operands(terms) {
            let (shown, value) = match known.get(&terms.find(operand)) {
                Some(computed) => computed.clone(),
                None => {
                    let value = Known::Tensor(tensor(terms.constant(operand)?)?);
                    (terms.constant_shown(operand)?, value)
                }
            };
            if shown != operand {
                equal.push((operand, shown));
            }
            operands.push(value);
        }
        let value = evaluate(registry, *name, *attrs, &operands, *ty)?;
        known.insert(terms.find(line.term), (line.term, value));
    }
    let (root, value) = known.get(&terms.find(left.first()?.term))?;
    let Kind::Op(name, _, ty) = terms.kind(*root) else { return None };
    let ops = value.planned(*name, *ty);
    let result = ops.last().filter(|planned| planned.ty == *ty).map(|_| ops.len() - 1)?;
    let replacements = std::iter::once((*root, Operand::New(result))).collect();
    Some((Plan { ops, replacements }, equal))
}
