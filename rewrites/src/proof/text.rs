//! Steps as lines of text, the same for whoever writes and whoever checks them.

use std::fmt::Write;

use ir_core::fingerprint::of_bytes;
use ir_core::text::PrintOptions;
use ir_core::text::attributes::{write_attr, write_dict};
use ir_core::text::layout::Line as Printed;
use ir_core::{Attr, AttrData, AttrDict, Registry};

use crate::expression::evaluate;
use crate::functions::Functions;
use crate::instantiate::{Known, Operand};
use crate::matching::Match;
use crate::rule::{Expr, Rule};

use super::fit::Line;
use super::terms::{Kind, Term, Terms};

/// The numbers by which text calls terms: those of the program's values, then one for each term
/// that is new.
#[derive(Default)]
pub struct Names {
    /// By number.
    terms: Vec<Term>,
    /// By term.
    numbers: Vec<Option<u32>>,
}

impl Names {
    /// The next number for `term`, which may have one already.
    pub fn add(&mut self, term: Term) -> u32 {
        let number = self.terms.len() as u32;
        self.terms.push(term);
        let place = term.0 as usize;
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, None);
        }
        self.numbers[place].get_or_insert(number);
        number
    }

    /// The number of `term`, which gets the next one where it has none.
    pub fn name(&mut self, term: Term) -> u32 {
        self.number(term).unwrap_or_else(|| self.add(term))
    }

    /// The number of `term`.
    pub fn number(&self, term: Term) -> Option<u32> {
        self.numbers.get(term.0 as usize).copied().flatten()
    }

    /// The term of this number.
    pub fn term(&self, number: u32) -> Option<Term> {
        self.terms.get(number as usize).copied()
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.terms.len()
    }

    /// `%3`.
    pub fn write(&self, term: Term) -> String {
        self.number(term).map_or_else(|| "%?".to_string(), |number| format!("%{number}"))
    }
}

/// What stands after the operands of an operation: ` {attributes} : type`.
pub fn tail(
    attrs: AttrDict,
    ty: ir_core::Type,
    registry: &Registry,
    name: ir_core::Symbol,
) -> String {
    let mut text = String::new();
    if !attrs.is_empty() {
        let mut line = Printed::default();
        write_dict(attrs, registry.def(name), &PrintOptions::default(), &mut line);
        text = format!(" {}", line.text());
        for (_, attr) in attrs.entries() {
            text += &contents(*attr);
        }
    }
    format!("{text} : {ty}")
}

/// What tells a tensor from others where its elements are left out.
fn contents(attr: Attr) -> String {
    match attr.data() {
        AttrData::Tensor(tensor) if tensor.len() > PrintOptions::default().inline_elements => {
            format!(" #{}", of_bytes([&*tensor.little_endian_bytes()]))
        }
        _ => String::new(),
    }
}

/// `op(%1, %2) {attributes} : type`.
fn call(kind: &Kind, operands: &[Term], names: &Names, registry: &Registry) -> String {
    match kind {
        Kind::Leaf(number, ty, _) => format!("value {number} : {ty}"),
        Kind::Op(name, attrs, ty) => {
            let operands: Vec<String> =
                operands.iter().map(|operand| names.write(*operand)).collect();
            format!("{name}({}){}", operands.join(", "), tail(*attrs, *ty, registry, *name))
        }
    }
}

/// `%3 = op(%1, %2) : type`.
pub fn definition(terms: &Terms, line: Line, names: &Names, registry: &Registry) -> String {
    let call = call(terms.kind(line.term), &line.operands(terms), names, registry);
    format!("{} = {call}", names.write(line.term))
}

/// The lines that say what variables stand for, and with which values conditions hold.
pub fn reasons(
    terms: &Terms,
    rule: &Rule,
    found: &Match<Term>,
    functions: &Functions,
    names: &Names,
) -> Vec<String> {
    let mut bound = Vec::new();
    for (name, value) in rule.values.iter().zip(&found.values) {
        bound.extend(value.map(|term| format!("%{name} = {}", names.write(term))));
    }
    for (name, attr) in rule.attributes.iter().zip(&found.attributes) {
        bound.extend(attr.map(|attr| format!("?{name} = {}", attribute(attr))));
    }
    let mut lines = Vec::new();
    if !bound.is_empty() {
        lines.push(format!("  with {}", bound.join(", ")));
    }
    if rule.typed {
        lines.push("  where typed".to_string());
    }
    let known = Known { graph: terms, found };
    for condition in rule.conditions.iter().filter(|condition| !condition.is_of_use()) {
        let mut line = format!("  where {}", expression(rule, condition));
        let mut separator = " // ";
        for part in asked(condition) {
            let value = evaluate(part, &known, functions).and_then(|value| value.attr::<Attr>());
            if let Some(value) = value {
                let part = expression(rule, part);
                // Writing to a string does not fail.
                _ = write!(line, "{separator}{part} = {}", attribute(value));
                separator = ", ";
            }
        }
        lines.push(line);
    }
    lines
}

fn attribute(attr: Attr) -> String {
    let mut line = Printed::default();
    write_attr(attr, &PrintOptions::default(), &mut line);
    format!("{}{}", line.text(), contents(attr))
}

fn expression(rule: &Rule, expr: &Expr) -> String {
    let mut text = String::new();
    _ = rule.write_expr(expr, 0, &mut text);
    text
}

/// The calls and indices in `condition` that are in no other one.
fn asked(condition: &Expr) -> Vec<&Expr> {
    let (mut found, mut pending) = (Vec::new(), vec![condition]);
    while let Some(expr) = pending.pop() {
        match expr {
            Expr::Call(..) | Expr::Index(..) => found.push(expr),
            Expr::List(parts) => pending.extend(parts.iter().rev()),
            Expr::Negative(part) | Expr::Not(part) | Expr::Same(part) => pending.push(part),
            Expr::Binary(_, a, b) => pending.extend([&**b, &**a]),
            Expr::Literal(_) | Expr::Value(_) | Expr::Attribute(_) | Expr::Member => {}
        }
    }
    found
}

/// The term that an operand of a plan is.
pub fn resolve(operand: Operand<Term>, made: &[Term]) -> Term {
    match operand {
        Operand::Value(term) => term,
        Operand::New(place) => made[place],
    }
}
