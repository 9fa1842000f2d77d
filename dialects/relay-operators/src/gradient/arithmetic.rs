//! Arithmetic with terms, in which zeros and ones leave nothing behind.

use std::ops::{Add, Div, Mul, Neg, Sub};

use ir_core::{Dim, Type, ValueId};

use super::term::{Of, Term};
use crate::broadcast as binary;
use crate::elementwise as unary;

/// The type of a broadcast of two terms of known extents.
fn broadcast_type(a: Term<'_>, b: Term<'_>) -> Type {
    if a.rank() == 0 || a.ty == b.ty {
        return b.ty;
    }
    if b.rank() == 0 {
        return a.ty;
    }
    let (x, y) = (a.shape(), b.shape());
    let rank = x.len().max(y.len());
    let extent = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(axis) => shape[axis],
        None => 1,
    };
    let extents = (0..rank).map(|axis| match (extent(&x, axis), extent(&y, axis)) {
        (1, y) => Dim::Known(y),
        (x, _) => Dim::Known(x),
    });
    Type::tensor(extents, a.dtype())
}

/// `term`, stretched to the shape of `ty` where it has another one.
fn stretched<'p>(term: Term<'p>, ty: Type) -> Term<'p> {
    match ty == term.ty {
        true => term,
        false => term.broadcast(&term.like(0.0).of_type(ty).shape()),
    }
}

macro_rules! binary_functions {
    ($($trait:ident $method:ident $op:ident |$a:ident, $b:ident| $value:expr, $short:ident;)*) => {$(
        impl<'p> $trait for Term<'p> {
            type Output = Term<'p>;
            fn $method(self, other: Term<'p>) -> Term<'p> {
                if let (Of::Filled($a), Of::Filled($b)) = (self.of, other.of) {
                    return Term::filled(self.emit, $value, broadcast_type(self, other));
                }
                if let Some(term) = $short(self, other) {
                    return term;
                }
                let (lhs, rhs) = (self.broadcast_id(), other.broadcast_id());
                let result = Term::build(self.emit, &binary::$op { lhs, rhs });
                match (self.of, other.of) {
                    (Of::Value(_), Of::Value(_)) => result,
                    _ => stretched(result, broadcast_type(self, other)),
                }
            }
        }
        impl<'p> $trait<f64> for Term<'p> {
            type Output = Term<'p>;
            fn $method(self, other: f64) -> Term<'p> {
                self.$method(self.number(other))
            }
        }
        impl<'p> $trait<Term<'p>> for f64 {
            type Output = Term<'p>;
            fn $method(self, other: Term<'p>) -> Term<'p> {
                other.number(self).$method(other)
            }
        }
    )*};
}

binary_functions! {
    Add add Add |a, b| a + b, short_sum;
    Sub sub Subtract |a, b| a - b, short_difference;
    Mul mul Multiply |a, b| a * b, short_product;
    Div div Divide |a, b| a / b, short_quotient;
}

fn short_sum<'p>(a: Term<'p>, b: Term<'p>) -> Option<Term<'p>> {
    let ty = || broadcast_type(a, b);
    match (a.is(0.0), b.is(0.0)) {
        (true, _) => Some(stretched(b, ty())),
        (_, true) => Some(stretched(a, ty())),
        _ => None,
    }
}

fn short_difference<'p>(a: Term<'p>, b: Term<'p>) -> Option<Term<'p>> {
    let ty = || broadcast_type(a, b);
    match (a.is(0.0), b.is(0.0)) {
        (true, _) => Some(stretched(-b, ty())),
        (_, true) => Some(stretched(a, ty())),
        _ => None,
    }
}

fn short_product<'p>(a: Term<'p>, b: Term<'p>) -> Option<Term<'p>> {
    let ty = || broadcast_type(a, b);
    match (a.of, b.of) {
        // Zero is a fact about derivatives, not a number that an infinity could be multiplied by.
        (Of::Filled(0.0), _) | (_, Of::Filled(0.0)) => Some(a.like(0.0).of_type(ty())),
        (Of::Filled(1.0), _) => Some(stretched(b, ty())),
        (_, Of::Filled(1.0)) => Some(stretched(a, ty())),
        (Of::Filled(-1.0), _) => Some(stretched(-b, ty())),
        (_, Of::Filled(-1.0)) => Some(stretched(-a, ty())),
        _ => None,
    }
}

fn short_quotient<'p>(a: Term<'p>, b: Term<'p>) -> Option<Term<'p>> {
    match (a.of, b.of) {
        (Of::Filled(0.0), _) => Some(a.like(0.0).of_type(broadcast_type(a, b))),
        (_, Of::Filled(1.0)) => Some(stretched(a, broadcast_type(a, b))),
        _ => None,
    }
}

impl<'p> Neg for Term<'p> {
    type Output = Term<'p>;
    fn neg(self) -> Term<'p> {
        match self.of {
            Of::Filled(number) => Term::filled(self.emit, -number, self.ty),
            Of::Value(data) => Term::build(self.emit, &unary::Negative { data }),
        }
    }
}

macro_rules! functions {
    ($($name:ident $op:path;)*) => {
        impl<'p> Term<'p> {$(
            #[doc = concat!("`", stringify!($name), "` of each element.")]
            pub fn $name(self) -> Term<'p> {
                use $op as Operator;
                Term::build(self.emit, &Operator { data: self.id() })
            }
        )*}
    };
}

functions! {
    exp unary::Exp;
    log unary::Log;
    sqrt unary::Sqrt;
    rsqrt unary::Rsqrt;
    sigmoid unary::Sigmoid;
    sin unary::Sin;
    cos unary::Cos;
    sinh unary::Sinh;
    cosh unary::Cosh;
    sign unary::Sign;
}

macro_rules! broadcasting {
    ($($name:ident $op:ident;)*) => {
        impl<'p> Term<'p> {$(
            #[doc = concat!("`", stringify!($name), "` of each pair of elements.")]
            pub fn $name(self, other: impl Operand<'p>) -> Term<'p> {
                let other = other.beside(self);
                let (lhs, rhs) = (self.broadcast_id(), other.broadcast_id());
                Term::build(self.emit, &binary::$op { lhs, rhs })
            }
        )*}
    };
}

broadcasting! {
    power Power;
    trunc_divide TruncDivide;
    floor_divide FloorDivide;
    floor_mod FloorMod;
    equal Equal;
    less Less;
    less_equal LessEqual;
    greater Greater;
    greater_equal GreaterEqual;
    and LogicalAnd;
}

/// A number or a term.
pub trait Operand<'p> {
    /// As a term of the element type of `other`.
    fn beside(self, other: Term<'p>) -> Term<'p>;
}

impl<'p> Operand<'p> for Term<'p> {
    fn beside(self, _other: Term<'p>) -> Term<'p> {
        self
    }
}

impl<'p> Operand<'p> for f64 {
    fn beside(self, other: Term<'p>) -> Term<'p> {
        other.number(self)
    }
}

impl<'p> super::Pullback<'p> {
    /// The rule of an operator that works on each element of its first operand: `rule` makes
    /// its change of that of the result, the operand and the result.
    pub fn elementwise(&self, rule: impl FnOnce(Term<'p>, Term<'p>, Term<'p>) -> Term<'p>) {
        self.to(0, |change| rule(change, self.operand(0), self.result()));
    }

    /// The rule of an operator on two operands that broadcast: `left` and `right` are the derivatives by
    /// each, times the change, from the operands and the result.
    pub fn broadcast(
        &self,
        left: impl FnOnce(Term<'p>, [Term<'p>; 3]) -> Term<'p>,
        right: impl FnOnce(Term<'p>, [Term<'p>; 3]) -> Term<'p>,
    ) {
        let (a, b) = (self.operand(0), self.operand(1));
        let terms = [a, b, self.result()];
        self.to(0, |change| left(change, terms).sum_to(a));
        self.to(1, |change| right(change, terms).sum_to(b));
    }

    /// The change of the result as a value.
    pub fn changed(&self) -> Option<ValueId> {
        self.change().tensor().map(Term::id)
    }
}
