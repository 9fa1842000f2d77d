//! The value of an expression in a rule.

use ir_core::{Attr, AttrData, AttrValue, Float, RuleArgument, SmallVec};

use crate::functions::Functions;
use crate::rule::{Expr, Operator, Var};

/// What variables stand for.
pub trait Bindings {
    /// What is known about `%x`; whether it is computed from constants only with `weight`.
    fn value(&self, var: Var, weight: bool) -> Option<RuleArgument>;
    /// The attribute `?p`.
    fn attribute(&self, var: Var) -> Option<Attr>;
}

/// No variables.
pub struct Nothing;

impl Bindings for Nothing {
    fn value(&self, _: Var, _: bool) -> Option<RuleArgument> {
        None
    }
    fn attribute(&self, _: Var) -> Option<Attr> {
        None
    }
}

/// The value of `expr`; `None` where it has none, such as an index past the end. Recursion is
/// bounded by the parser's limit.
pub fn evaluate(
    expr: &Expr,
    bindings: &dyn Bindings,
    functions: &Functions,
) -> Option<RuleArgument> {
    let attr = |expr: &Expr| match evaluate(expr, bindings, functions)? {
        RuleArgument::Attr(attr) => Some(attr),
        RuleArgument::Value { .. } => None,
    };
    let result = match expr {
        Expr::Literal(attr) => *attr,
        // A rule without families, or one of its members, is the same as itself.
        Expr::Same(part) => attr(part).map(|_| Attr::of(&true))?,
        Expr::Member => Attr::of(&0i64),
        Expr::Value(var) => return bindings.value(*var, true),
        Expr::Attribute(var) => bindings.attribute(*var)?,
        Expr::List(items) => {
            Attr::new(AttrData::Array(items.iter().map(attr).collect::<Option<_>>()?))
        }
        Expr::Call(name, arguments) => {
            let (function, weights) = functions.get(*name)?;
            let arguments = arguments.iter().map(|argument| match argument {
                Expr::Value(var) => bindings.value(*var, weights),
                _ => evaluate(argument, bindings, functions),
            });
            (function.eval)(&arguments.collect::<Option<SmallVec<[_; 4]>>>()?)?
        }
        Expr::Index(list, index) => {
            let (list, index) =
                (Vec::<Attr>::from_attr(attr(list)?)?, i64::from_attr(attr(index)?)?);
            let index =
                if index < 0 { index.checked_add_unsigned(list.len() as u64)? } else { index };
            *list.get(usize::try_from(index).ok()?)?
        }
        Expr::Negative(a) => match attr(a)?.data() {
            AttrData::Int(a) => Attr::of(&a.checked_neg()?),
            AttrData::Float(a) => Attr::of(&-a.0),
            _ => return None,
        },
        Expr::Not(a) => Attr::of(&!bool::from_attr(attr(a)?)?),
        Expr::Binary(Operator::And, a, b) => {
            Attr::of(&(bool::from_attr(attr(a)?)? && bool::from_attr(attr(b)?)?))
        }
        Expr::Binary(Operator::Or, a, b) => {
            Attr::of(&(bool::from_attr(attr(a)?)? || bool::from_attr(attr(b)?)?))
        }
        Expr::Binary(operator, a, b) => binary(*operator, attr(a)?, attr(b)?)?,
    };
    Some(RuleArgument::Attr(result))
}

/// Whether a condition holds; one without a value does not.
pub fn holds(condition: &Expr, bindings: &dyn Bindings, functions: &Functions) -> bool {
    let value = evaluate(condition, bindings, functions);
    value.and_then(RuleArgument::attr::<bool>) == Some(true)
}

fn binary(operator: Operator, a: Attr, b: Attr) -> Option<Attr> {
    match (operator, a.data(), b.data()) {
        (Operator::Equal, ..) => return Some(Attr::of(&equal(a, b))),
        (Operator::NotEqual, ..) => return Some(Attr::of(&!equal(a, b))),
        (Operator::Add, AttrData::Array(a), AttrData::Array(b)) => {
            return Some(Attr::new(AttrData::Array(a.iter().chain(b.iter()).copied().collect())));
        }
        (_, AttrData::Int(a), AttrData::Int(b)) => return integers(operator, *a, *b),
        _ => {}
    }
    let (a, b) = (f64::from_attr(a)?, f64::from_attr(b)?);
    let truth = |value: bool| Some(Attr::of(&value));
    let number = |value: f64| Some(Attr::new(AttrData::Float(Float(value))));
    match operator {
        Operator::Less => truth(a < b),
        Operator::LessEqual => truth(a <= b),
        Operator::Greater => truth(a > b),
        Operator::GreaterEqual => truth(a >= b),
        Operator::Add => number(a + b),
        Operator::Subtract => number(a - b),
        Operator::Multiply => number(a * b),
        Operator::Divide => number(a / b),
        _ => None,
    }
}

/// Numbers are equal across kinds: `1` and `1.0`.
fn equal(a: Attr, b: Attr) -> bool {
    let number = |attr: Attr| match attr.data() {
        AttrData::Float(_) => f64::from_attr(attr),
        AttrData::Int(value) => Some(*value as f64),
        _ => None,
    };
    a == b || matches!((number(a), number(b)), (Some(a), Some(b)) if a == b)
}

fn integers(operator: Operator, a: i64, b: i64) -> Option<Attr> {
    let truth = |value: bool| Some(Attr::of(&value));
    match operator {
        Operator::Less => return truth(a < b),
        Operator::LessEqual => return truth(a <= b),
        Operator::Greater => return truth(a > b),
        Operator::GreaterEqual => return truth(a >= b),
        _ => {}
    }
    let value = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b != 0 && a.checked_rem(b) == Some(0) => a.checked_div(b),
        Operator::Remainder => a.checked_rem_euclid(b),
        _ => None,
    };
    Some(Attr::of(&value?))
}
