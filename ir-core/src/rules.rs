//! What dialects say to rewrite rules: functions for side conditions and computed attributes, and
//! how much work an operation is.

use crate::attributes::{Attr, AttrData, AttrDict, AttrValue};
use crate::types::Type;

/// An argument of a rule function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleArgument {
    /// A value of the program: what is known about it.
    Value {
        /// Its type.
        ty: Type,
        /// The attribute `value` of the constant operation behind it.
        constant: Option<Attr>,
    },
    /// An attribute, or the result of another function.
    Attr(Attr),
}

impl RuleArgument {
    /// The argument as an attribute of type `T`; `None` for a value.
    pub fn attr<T: AttrValue>(self) -> Option<T> {
        match self {
            RuleArgument::Attr(attr) => T::from_attr(attr),
            RuleArgument::Value { .. } => None,
        }
    }

    /// The type of a value, or the type that an attribute is.
    pub fn ty(self) -> Option<Type> {
        match self {
            RuleArgument::Value { ty, .. } => Some(ty),
            RuleArgument::Attr(attr) => match attr.data() {
                AttrData::Type(ty) => Some(*ty),
                _ => None,
            },
        }
    }

    /// The known shape of a value, or a list of integers.
    pub fn shape(self) -> Option<Vec<i64>> {
        match self {
            RuleArgument::Value { ty, .. } => Some(ty.as_tensor()?.known_shape()?.to_vec()),
            RuleArgument::Attr(attr) => Vec::from_attr(attr),
        }
    }
}

/// A function that side conditions and computed attributes of rewrite rules may call. A dialect
/// registers those that its rules need with
/// [`Registry::add_rule_function`](crate::Registry::add_rule_function).
#[derive(Clone, Copy, Debug)]
pub struct RuleFunction {
    /// Name in rules.
    pub name: &'static str,
    /// Names of the parameters, which is also how many there are.
    pub params: &'static [&'static str],
    /// What it gives, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// Computes it. `None` where it has no value, and then the rule does not apply.
    pub eval: fn(&[RuleArgument]) -> Option<Attr>,
}

/// A hook: the arithmetic operations that one evaluation takes, from the types of the operands, the
/// attributes and the type of the result. Without it, an operation takes one for each element of
/// its result. Zero marks what only names or groups what is there, such as a tuple.
#[derive(Clone, Copy)]
pub struct Work(pub fn(&[Type], AttrDict, Type) -> f64);
