//! What dialects say to rewrite rules: functions for side conditions and computed attributes, and
//! how much work an operation is.

use crate::attributes::{Attr, AttrData, AttrDict, AttrValue};
use crate::intern::Symbol;
use crate::registry::Registry;
use crate::tensor::tensor_bytes;
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
        /// Whether it is computed from constants alone.
        weight: bool,
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

/// How an operation stands in a kernel of an accelerator; attached to operations, as hooks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelRole {
    /// Its results are parts of its operand: nothing is computed or copied.
    View,
    /// It can apply an [`Epilogue`](KernelRole::Epilogue) to its result before writing it.
    Anchor,
    /// What computes its only operand can compute it, too.
    Epilogue,
}

/// Marks an operator whose result is one number, repeated.
#[derive(Clone, Copy, Debug)]
pub struct Fill;

/// Results of [`Fill`] of more bytes are not worth their memory.
const SMALL_FILL: usize = 64 << 10;

/// Whether the result of the operator `name`, of type `ty`, is one number so often that it is
/// cheaper to make it where it is used than to keep it as a constant. What is computed from it is
/// computed whenever the program runs.
pub fn is_large_fill(registry: &Registry, name: Symbol, ty: Type) -> bool {
    let bytes = || {
        let tensor = ty.as_tensor()?;
        tensor_bytes(&tensor.known_shape()?, tensor.dtype)
    };
    registry.hook::<Fill>(name).is_some() && bytes().is_some_and(|bytes| bytes > SMALL_FILL)
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
