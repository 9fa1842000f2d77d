//! The diagnostic codes of the text syntax, besides those of all
//! [readable text](ir_core::text::module::codes).

pub(super) use ir_core::text::module::codes::DUPLICATE;

/// Code, title and explanation of every diagnostic of this module.
pub const CODES: &[(&str, &str, &str)] = &[
    (LITERAL, "bad literal", "A number that its type cannot hold."),
    (UNDEFINED, "undefined variable", "A variable is used outside the scope of any binding of it."),
    (GLOBAL, "undefined function", "A name such as `@f` that no `def` of the module defines."),
    (OPERATOR, "unknown operator", "A word that is neither an operator nor a constructor."),
    (ATTRIBUTES, "bad attributes", "Attributes that the operator does not take, or lacks."),
    (OPERANDS, "wrong number of operands", "An operator is applied to too few or too many values."),
    (REBOUND, "variable bound twice", "A variable such as `%0` is bound once in a scope."),
    (TYPE, "unknown type", "A type name that is not declared, or applied to the wrong number."),
    (DEPTH, "nested too deeply", "Types, patterns and extents nest to a fixed depth."),
    (METADATA, "bad metadata", "The metadata section does not hold what the text refers to."),
    (CONSTRUCTOR, "bad constructor", "A constructor is unknown or has another number of fields."),
    (ANNOTATION, "contradicting annotation", "A value has another type than the one written."),
    (FREE, "free variable in a function", "`free_var` stands only outside functions."),
];

pub(super) const LITERAL: &str = "E0204";
pub(super) const UNDEFINED: &str = "E0205";
pub(super) const GLOBAL: &str = "E0206";
pub(super) const OPERATOR: &str = "E0207";
pub(super) const ATTRIBUTES: &str = "E0208";
pub(super) const OPERANDS: &str = "E0209";
pub(super) const REBOUND: &str = "E0211";
pub(super) const TYPE: &str = "E0212";
pub(super) const DEPTH: &str = "E0213";
pub(super) const METADATA: &str = "E0214";
pub(super) const CONSTRUCTOR: &str = "E0215";
pub(super) const ANNOTATION: &str = "E0216";
pub(super) const FREE: &str = "E0217";
