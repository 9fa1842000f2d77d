//! Steps, made again from the terms of a program alone: what follows of each, as text.

use ir_core::{Body, Registry, Symbol, Traits};
use rustc_hash::FxHashMap;

use crate::instantiate::{Conditions, Plan, plan};
use crate::library::RuleSet;
use crate::matching::Match;
use crate::rule::Rule;

use super::fit::{Instance, Line, Shape, compute, fit, regroup};
use super::forest::Why;
use super::program::{self, Values, numbered};
use super::terms::{Kind, Operands, Term, Terms};
use super::text::{self, Names};

/// What a step applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A rule, read from left to right or, with `true`, from right to left.
    Rule(Symbol, bool),
    /// Grouping of a sum: the places of the terms that come together.
    Group(Vec<usize>),
    /// Computing an operation on constants.
    Compute,
}

/// Why there is no step.
pub enum Refusal {
    /// There is no such rule.
    UnknownRule,
    /// The left side is not that of the rule.
    Match,
    /// A condition does not hold, or the right side has no type.
    Condition,
}

/// A step that holds.
pub struct Holds<'r> {
    rule: Option<(&'r Rule, Match<Term>)>,
    plan: Plan<Term>,
}

/// Terms of one function with their names, and what was shown of them.
pub struct Store<'a> {
    /// The terms.
    pub terms: Terms,
    /// Their numbers.
    pub names: Names,
    /// The terms of the function's values.
    pub values: Values,
    /// What exists.
    pub registry: &'a Registry,
    rules: &'a RuleSet,
    /// By name and direction, the places of rules.
    named: FxHashMap<(Symbol, bool), Vec<usize>>,
    /// What the round says.
    queued: Vec<(Term, Term)>,
    /// Kinds by their text, `None` where it is that of several, and how many kinds were looked at.
    by_text: FxHashMap<String, Option<u32>>,
    indexed: usize,
}

impl<'a> Store<'a> {
    /// The terms of `body`.
    pub fn new(body: &Body, rules: &'a RuleSet, registry: &'a Registry) -> Store<'a> {
        let mut terms = Terms::new(false);
        let numbered = numbered(body);
        let values = program::enter(body, &numbered, &mut terms, registry);
        let mut names = Names::default();
        numbered.iter().for_each(|value| _ = names.add(values[value]));
        let mut named: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (place, compiled) in rules.rules.iter().enumerate() {
            named.entry((compiled.rule.name, compiled.reverse)).or_default().push(place);
        }
        let by_text = FxHashMap::default();
        Store { terms, names, values, registry, rules, named, queued: vec![], by_text, indexed: 0 }
    }

    /// Adds a term, and gives it a name.
    pub fn add(&mut self, kind: Kind, operands: Operands) -> Term {
        let term = self.terms.add(kind, operands, self.registry);
        self.names.name(term);
        term
    }

    /// The number of the kind of operations that text calls `name` and, after the operands, `tail`.
    /// No constants: those are in the program, or made by a step.
    pub fn kind(&mut self, name: &str, tail: &str) -> Option<u32> {
        for (number, kind) in self.terms.kinds().enumerate().skip(self.indexed) {
            let Kind::Op(name, attrs, ty) = kind else { continue };
            let traits = self.registry.def(*name).map_or(Traits::empty(), |def| def.traits);
            if !traits.contains(Traits::CONSTANT) {
                let tail = text::tail(*attrs, *ty, self.registry, *name);
                let known = self.by_text.entry(format!("{name}{tail}"));
                known.and_modify(|known| *known = None).or_insert(Some(number as u32));
            }
        }
        self.indexed = self.terms.kinds().len();
        self.by_text.get(&format!("{name}{tail}")).copied().flatten()
    }

    /// Adds a term of the kind numbered `kind`, and gives it a name.
    pub fn add_numbered(&mut self, kind: u32, operands: Operands) -> Term {
        let term = self.terms.add_numbered(kind, operands);
        self.names.name(term);
        term
    }

    /// What `origin` makes of the left side `left`, with what was known when the round began.
    pub fn check(&self, origin: &Origin, left: &[Line]) -> Result<Holds<'a>, Refusal> {
        let (name, reverse) = match origin {
            Origin::Rule(name, reverse) => (*name, *reverse),
            Origin::Group(group) => {
                let grouped = regroup(&self.terms, left, group, self.registry);
                let (plan, _) = grouped.ok_or(Refusal::Match)?;
                return Ok(Holds { rule: None, plan });
            }
            Origin::Compute => {
                let computed = compute(&self.terms, left, self.registry);
                let (plan, _) = computed.ok_or(Refusal::Condition)?;
                return Ok(Holds { rule: None, plan });
            }
        };
        let places = self.named.get(&(name, reverse)).ok_or(Refusal::UnknownRule)?;
        let mut refusal = Refusal::Match;
        // A family stands for several rules, of which one fits.
        for place in places {
            let compiled = &self.rules.rules[*place];
            let Some(instance) = Instance::new(compiled, left.len()) else { continue };
            let rule = instance.rule;
            let shape = Shape::new(rule);
            let fitted = shape.and_then(|shape| fit(&self.terms, instance, &shape, left));
            let Some(fitted) = fitted else { continue };
            let functions = &self.rules.functions;
            match plan(
                &self.terms,
                (rule, Conditions::Validity),
                &fitted.found,
                self.registry,
                functions,
            ) {
                Ok(plan) => return Ok(Holds { rule: Some((rule, fitted.found)), plan }),
                Err(_) => refusal = Refusal::Condition,
            }
        }
        Err(refusal)
    }

    /// Where the rule of a step that holds stands.
    pub fn span(holds: &Holds<'_>) -> Option<ir_core::Span> {
        holds.rule.as_ref().map(|(rule, _)| rule.span)
    }

    /// Adds what a step makes: what its text says after its left side, and what it made.
    pub fn apply(&mut self, holds: &Holds<'_>) -> (Vec<String>, Vec<Term>) {
        let mut lines = match &holds.rule {
            Some((rule, found)) => {
                text::reasons(&self.terms, rule, found, &self.rules.functions, &self.names)
            }
            None => vec![],
        };
        let plan = &holds.plan;
        let mut made: Vec<Term> = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let operands: Operands =
                op.operands.iter().map(|operand| text::resolve(*operand, &made)).collect();
            let term = self.add(Kind::Op(op.name, op.attrs, op.ty), operands);
            lines.push(format!("  make {}", self.definition(Line { term, swapped: false })));
            made.push(term);
        }
        for (old, new) in &plan.replacements {
            let new = text::resolve(*new, &made);
            let (old_name, new_name) = (self.names.write(*old), self.names.write(new));
            lines.push(format!("  equal {old_name} = {new_name}"));
            self.queued.push((*old, new));
        }
        (lines, made)
    }

    /// `%3 = op(%1, %2) : type`.
    pub fn definition(&self, line: Line) -> String {
        text::definition(&self.terms, line, &self.names, self.registry)
    }

    /// What was said to be equal in this round.
    pub fn queued(&self) -> &[(Term, Term)] {
        &self.queued
    }

    /// Draws the conclusions of a round.
    pub fn end_round(&mut self) {
        for (old, new) in std::mem::take(&mut self.queued) {
            self.terms.unite(old, new, Why::Congruent);
        }
    }
}
