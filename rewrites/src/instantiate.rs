//! The right side of a rule for one match: checked and typed before anything is inserted.

use ir_core::{
    Attr, AttrData, AttrDict, Diagnostic, Diagnostics, InferCx, Registry, RuleArgument, Scalar,
    SmallVec, Stop, Symbol, TensorData, Type,
};

use crate::codes;
use crate::expression::{Bindings, evaluate, holds};
use crate::functions::Functions;
use crate::matching::{Match, TermGraph};
use crate::parse::canonical;
use crate::rule::{Choice, Equation, Expr, Node, NodeId, OpNode, Rest, Rule, Var};

/// An operand in a plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand<V> {
    /// What is there already.
    Value(V),
    /// The result of a planned operation, by its place.
    New(usize),
}

/// An operation that will be made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Planned<V> {
    /// Full name.
    pub name: Symbol,
    /// Attributes, defaults left out.
    pub attrs: AttrDict,
    /// Operands; planned ones come before.
    pub operands: SmallVec<[Operand<V>; 4]>,
    /// The type of the result.
    pub ty: Type,
}

impl<V> Planned<V> {
    /// The constant that it is.
    pub(crate) fn literal(&self) -> Option<Attr> {
        self.attrs.get("value").filter(|_| self.operands.is_empty())
    }

    /// The constant `tensor` in the dialect of the operation `like`.
    pub(crate) fn constant(like: Symbol, tensor: &TensorData) -> Planned<V> {
        Planned {
            name: Self::beside(like, "constant"),
            attrs: AttrDict::empty().with("value", tensor),
            operands: SmallVec::new(),
            ty: tensor.ty(),
        }
    }

    /// The operation called `name` in the dialect of the operation `like`.
    pub(crate) fn beside(like: Symbol, name: &str) -> Symbol {
        let like = like.as_str();
        // The prefix with its point, as it stands in the name.
        let dialect = like.find('.').map_or("", |point| &like[..=point]);
        Symbol::new(&[dialect, name].concat())
    }
}

/// What a rule makes of a match.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Plan<V> {
    /// Operations to make, in order.
    pub ops: Vec<Planned<V>>,
    /// What is replaced, and by what.
    pub replacements: SmallVec<[(V, Operand<V>); 2]>,
}

/// A match, as expressions see it.
pub(crate) struct Known<'a, G: TermGraph> {
    pub(crate) graph: &'a G,
    pub(crate) found: &'a Match<G::Value>,
}

impl<G: TermGraph> Bindings for Known<'_, G> {
    fn value(&self, var: Var, weight: bool) -> Option<RuleArgument> {
        let value = self.found.values[var.0]?;
        let (ty, constant) = (self.graph.ty(value), self.graph.constant(value));
        let weight = weight && self.graph.is_weight(value);
        Some(RuleArgument::Value { ty, constant, weight })
    }

    fn attribute(&self, var: Var) -> Option<Attr> {
        self.found.attributes[var.0]
    }
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The rule does not apply: a condition does not hold, or an attribute has no value.
    Condition,
    /// The rule is wrong: its right side does not type.
    IllTyped(Diagnostics),
}

/// Which conditions of a rule have to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditions {
    /// All of them.
    All,
    /// Those without which the sides may differ: not those that say where the rule is of use.
    Validity,
}

/// The right side of `rule` for `found`, where the `conditions` hold.
///
/// # Errors
/// When the rule does not apply, or is wrong.
pub fn plan<G: TermGraph>(
    graph: &G,
    (rule, conditions): (&Rule, Conditions),
    found: &Match<G::Value>,
    registry: &Registry,
    functions: &Functions,
) -> Result<Plan<G::Value>, Refusal> {
    let known = Known { graph, found };
    let asked = |condition: &&Expr| conditions == Conditions::All || !condition.is_of_use();
    let mut asked = rule.conditions.iter().filter(asked);
    if !asked.all(|condition| holds(condition, &known, functions)) {
        return Err(Refusal::Condition);
    }
    let mut planner = Planner {
        known,
        rule,
        registry,
        functions,
        ops: vec![],
        needed: SmallVec::from_elem(false, rule.nodes.len()),
        made: SmallVec::from_elem(None, rule.nodes.len()),
        named: SmallVec::from_elem(None, rule.values.len()),
    };
    for equation in &rule.right {
        planner.equation(equation)?;
    }
    let mut replacements = SmallVec::new();
    for (left, right) in rule.roots() {
        let place = rule.left.iter().position(|equation| equation.node == left);
        let old = place.and_then(|place| found.equations.get(place)).copied();
        let (Some(old), Some(new)) = (old, planner.made[right.0]) else {
            return Err(Refusal::Condition);
        };
        let (expected, ty) = (graph.ty(old), planner.ty(new));
        if expected != ty {
            if is_open(expected) || is_open(ty) {
                return Err(Refusal::Condition);
            }
            let (rule, left) = (rule.name, expected);
            let message =
                format!("rule `{rule}`: the left side has type {left}, the right side {ty}");
            return Err(planner.ill_typed(message, &[]));
        }
        replacements.push((old, new));
    }
    Ok(Plan { ops: planner.ops, replacements })
}

struct Planner<'a, G: TermGraph> {
    known: Known<'a, G>,
    rule: &'a Rule,
    registry: &'a Registry,
    functions: &'a Functions,
    ops: Vec<Planned<G::Value>>,
    /// Nodes that were needed so far.
    needed: SmallVec<[bool; 64]>,
    /// What stands for each node.
    made: SmallVec<[Option<Operand<G::Value>>; 16]>,
    /// What stands for names of the right side.
    named: SmallVec<[Option<Operand<G::Value>>; 8]>,
}

impl<G: TermGraph> Planner<'_, G> {
    fn equation(&mut self, equation: &Equation) -> Result<(), Refusal> {
        for id in self.needed(equation.node)? {
            if self.made[id.0].is_some() {
                continue;
            }
            let operand = match self.rule.node(id) {
                Node::Value(var) => {
                    let value = self.known.found.values[var.0].map(Operand::Value);
                    match self.named[var.0].or(value) {
                        Some(operand) => operand,
                        None => return Err(Refusal::Condition),
                    }
                }
                // Its element type is that of its neighbours, so its user makes it.
                Node::Number(_) if id != equation.node => continue,
                Node::Number(number) => {
                    let root = self.known.found.equations[0];
                    let dtype = self.known.graph.ty(root).as_tensor().map(|ty| ty.dtype);
                    self.number(*number, dtype.ok_or(Refusal::Condition)?)?
                }
                Node::Op(op) => self.op(op)?,
                Node::Choice(choice) => {
                    self.made[self.chosen(choice)?.0].ok_or(Refusal::Condition)?
                }
            };
            self.made[id.0] = Some(operand);
        }
        if let Some(name) = equation.name {
            // On the right side, the name of a root still means what is replaced.
            let is_root = self.rule.left.iter().any(|left| left.name == Some(name));
            if !is_root {
                self.named[name.0] = self.made[equation.node.0];
            }
        }
        Ok(())
    }

    /// The nodes that `root` needs and no equation before it did, operands first.
    fn needed(&mut self, root: NodeId) -> Result<SmallVec<[NodeId; 16]>, Refusal> {
        let (rule, mut at) = (self.rule, 0);
        let mut needed: SmallVec<[NodeId; 16]> = SmallVec::from_slice(&[root]);
        while let Some(id) = needed.get(at).copied() {
            at += 1;
            let chosen = match rule.node(id) {
                Node::Choice(choice) => Some([self.chosen(choice)?]),
                _ => None,
            };
            let parts = chosen.as_ref().map_or(rule.node(id).parts(), |chosen| chosen);
            for part in parts {
                if !std::mem::replace(&mut self.needed[part.0], true) {
                    needed.push(*part);
                }
            }
        }
        needed.sort_unstable_by_key(|id| id.0);
        Ok(needed)
    }

    /// The branch that is taken.
    fn chosen(&self, choice: &Choice) -> Result<NodeId, Refusal> {
        let value = evaluate(&choice.condition, &self.known, self.functions);
        let holds: bool = value.and_then(RuleArgument::attr).ok_or(Refusal::Condition)?;
        Ok(choice.branches[usize::from(!holds)])
    }

    fn number(
        &mut self,
        number: Scalar,
        dtype: ir_core::DType,
    ) -> Result<Operand<G::Value>, Refusal> {
        let root = self.rule.left.first().map(|equation| self.rule.node(equation.node));
        let Some(Node::Op(OpNode { name: root, .. })) = root else {
            return Err(Refusal::Condition);
        };
        Ok(self.push(Planned::constant(*root, &TensorData::scalar(dtype, number))))
    }

    fn push(&mut self, op: Planned<G::Value>) -> Operand<G::Value> {
        self.ops.push(op);
        Operand::New(self.ops.len() - 1)
    }

    fn op(&mut self, op: &OpNode) -> Result<Operand<G::Value>, Refusal> {
        let mut operands: SmallVec<[Operand<G::Value>; 4]> = SmallVec::new();
        for id in &op.operands {
            let operand = match (self.made[id.0], self.rule.node(*id)) {
                (Some(operand), _) => operand,
                (None, Node::Number(number)) => {
                    let dtype = self.neighbour_type(&op.operands).ok_or(Refusal::Condition)?;
                    self.number(*number, dtype)?
                }
                (None, _) => return Err(Refusal::Condition),
            };
            operands.push(operand);
        }
        let mut entries: Vec<(Symbol, Attr)> = Vec::new();
        if let Rest::Variable(var) = op.rest
            && let Some(AttrData::Dict(rest)) = self.known.attribute(var).map(Attr::data)
        {
            entries.extend(rest.entries());
        }
        for (key, value) in &op.attrs {
            let value = evaluate(value, &self.known, self.functions);
            let attr = value.and_then(RuleArgument::attr).ok_or(Refusal::Condition)?;
            entries.push((*key, attr));
        }
        let attrs = canonical(self.registry, op.name, AttrDict::new(entries));
        let attrs = attrs.map_err(|message| self.ill_typed(message, &[]))?;
        let types: SmallVec<[Type; 4]> = operands.iter().map(|operand| self.ty(*operand)).collect();
        let constants = |index: usize| self.constant(*operands.get(index)?);
        let Some(infer) = self.registry.def(op.name).and_then(|def| def.infer) else {
            let message = format!("`{}` has no type relation", op.name);
            return Err(self.ill_typed(message, &types));
        };
        let mut cx = InferCx::with_constants(&types, attrs, &constants);
        let ty = match cx.answer(infer) {
            Ok(ty) if cx.equations.is_empty() => ty,
            Ok(_) | Err(Stop::Stuck) => return Err(Refusal::Condition),
            Err(Stop::Error(message)) => {
                let message = format!("rule `{}`: `{}`: {message}", self.rule.name, op.name);
                return Err(self.ill_typed(message, &types));
            }
        };
        let refined = cx.refinements.iter().all(|(index, ty)| types.get(*index) == Some(ty));
        if !refined {
            let message =
                format!("rule `{}`: `{}` needs other operand types", self.rule.name, op.name);
            return Err(self.ill_typed(message, &types));
        }
        Ok(self.push(Planned { name: op.name, attrs, operands, ty }))
    }

    fn neighbour_type(&self, operands: &[NodeId]) -> Option<ir_core::DType> {
        let made = operands.iter().find_map(|id| self.made[id.0]);
        let ty = match made {
            Some(operand) => self.ty(operand),
            None => self.known.graph.ty(*self.known.found.equations.first()?),
        };
        Some(ty.as_tensor()?.dtype)
    }

    fn ty(&self, operand: Operand<G::Value>) -> Type {
        match operand {
            Operand::Value(value) => self.known.graph.ty(value),
            Operand::New(index) => self.ops[index].ty,
        }
    }

    fn constant(&self, operand: Operand<G::Value>) -> Option<Attr> {
        match operand {
            Operand::Value(value) => self.known.graph.constant(value),
            Operand::New(index) => {
                let planned = &self.ops[index];
                let constant = self.registry.def(planned.name)?.traits;
                let constant = constant.contains(ir_core::Traits::CONSTANT);
                constant.then(|| planned.attrs.get("value"))?
            }
        }
    }

    /// That an operation on operands of these types does not type.
    fn ill_typed(&self, message: String, operands: &[Type]) -> Refusal {
        if self.rule.typed || operands.iter().copied().any(is_open) {
            return Refusal::Condition;
        }
        let mut error = Diagnostic::error(codes::ILL_TYPED, message).at(self.rule.span);
        if !operands.is_empty() {
            let types: Vec<String> = operands.iter().map(|ty| ty.to_string()).collect();
            error = error.note(format!("operand types: {}", types.join(", ")));
        }
        let help = "add the missing condition, or `where typed` to apply it only where it types";
        Refusal::IllTyped(error.help(help).into())
    }
}

/// Whether some extent is not known. Equal ones may be written differently then, so that what does
/// not type is no error of a rule.
fn is_open(ty: Type) -> bool {
    ty.facts().has_parameter || ty.facts().has_any
}
