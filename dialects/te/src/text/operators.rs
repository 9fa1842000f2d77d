//! How scalar operations are written: infix, prefix or as calls.

use std::sync::LazyLock;

use ir_core::text::lexer::{Token, TokenKind, is_special_float, is_word};
use rustc_hash::FxHashMap;

use crate::compute::Combiner;
use crate::scalar::ScalarOp;

/// How tightly the parts of an expression hold together; see the table in [`super`].
pub(super) type Precedence = u8;

/// `if c then a else b`, and every place that takes any expression.
pub(super) const LOOSEST: Precedence = 0;
/// The condition of an `if`.
pub(super) const CONDITION: Precedence = 1;
/// `-a`.
pub(super) const MINUS: Precedence = 8;
/// Names, numbers, calls and elements.
pub(super) const PRIMARY: Precedence = 9;

const INFIX: [(ScalarOp, &str, Precedence); 13] = [
    (ScalarOp::Or, "or", 1),
    (ScalarOp::Xor, "xor", 2),
    (ScalarOp::And, "and", 3),
    (ScalarOp::Eq, "==", 5),
    (ScalarOp::Ne, "!=", 5),
    (ScalarOp::Lt, "<", 5),
    (ScalarOp::Le, "<=", 5),
    (ScalarOp::Gt, ">", 5),
    (ScalarOp::Ge, ">=", 5),
    (ScalarOp::Add, "+", 6),
    (ScalarOp::Sub, "-", 6),
    (ScalarOp::Mul, "*", 7),
    (ScalarOp::Div, "/", 7),
];
/// Apart from the others since `%` and a name lex as one token.
const REMAINDER: (ScalarOp, &str, Precedence) = (ScalarOp::FloorMod, "%", 7);

/// The sign and precedence of `op`, where it is written between its operands.
pub(super) fn infix(op: ScalarOp) -> Option<(&'static str, Precedence)> {
    let mut all = INFIX.iter().chain([&REMAINDER]);
    all.find(|(infix, _, _)| *infix == op).map(|&(_, text, precedence)| (text, precedence))
}

/// The sign and precedence of `op`, where it is written before its operand.
pub(super) fn prefix(op: ScalarOp) -> Option<(&'static str, Precedence)> {
    match op {
        ScalarOp::Not => Some(("not ", 4)),
        ScalarOp::Neg => Some(("-", MINUS)),
        _ => None,
    }
}

/// Whether an operand of an infix operation on the left may be the same operation again without
/// parentheses: all but comparisons group to the left.
pub(super) fn left_precedence(precedence: Precedence) -> Precedence {
    if precedence == 5 { 6 } else { precedence }
}

/// The infix operation that `token` of `source` stands for.
pub(super) fn infix_of(token: Token, source: &str) -> Option<(ScalarOp, Precedence)> {
    if token.kind == TokenKind::Percent {
        return Some((REMAINDER.0, REMAINDER.2));
    }
    let text = token.text(source);
    let found = INFIX.iter().find(|(_, sign, _)| *sign == text);
    found.map(|&(op, _, precedence)| (op, precedence))
}

/// The name of `op` in calls.
pub(super) fn call_name(op: ScalarOp) -> &'static str {
    op.name().trim_start_matches("te.")
}

/// The scalar operation called `name`.
pub(super) fn scalar_op(name: &str) -> Option<ScalarOp> {
    static BY_NAME: LazyLock<FxHashMap<&str, ScalarOp>> =
        LazyLock::new(|| ScalarOp::ALL.iter().map(|op| (call_name(*op), *op)).collect());
    BY_NAME.get(name).copied()
}

/// Calls of expressions that are no scalar operations.
pub(super) const CALLS: [&str; 7] =
    ["cast", "select", "check", "ramp", "broadcast", "extract", "constant"];

/// Words that are no names of stages and indices, unless in quotes.
const KEYWORDS: [&str; 23] = [
    "_",
    "False",
    "True",
    "alloc",
    "and",
    "atomic",
    "barrier",
    "call",
    "cast",
    "combine",
    "data",
    "else",
    "for",
    "if",
    "not",
    "or",
    "parallel",
    "return",
    "then",
    "thread",
    "unrolled",
    "vectorized",
    "yield",
];

/// Whether a stage or index can be called `name` without quotes.
pub(super) fn is_plain_word(name: &str) -> bool {
    is_word(name)
        && !KEYWORDS.contains(&name)
        && name != "xor"
        && Combiner::of(name).is_none()
        && !is_special_float(name)
}
