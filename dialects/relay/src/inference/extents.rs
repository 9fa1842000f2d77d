//! Extents: when two of them are, or may be, equal.

use ir_core::{Dim, DimExprData, DimOp};
use rustc_hash::FxHashMap;

use super::rebuild::for_each_dim_leaf;
use super::solver::{Fit, Mismatch, Mode, Solver};

impl Solver<'_> {
    /// Makes extent `found` fit where `expected` is required, or says that it must be checked.
    pub(super) fn relate_dims(
        &mut self,
        expected: Dim,
        found: Dim,
        mode: Mode,
    ) -> Result<Fit, Mismatch> {
        if expected == found {
            return Ok(Fit::Whole);
        }
        let (a, b) = (self.resolve_dim(expected), self.resolve_dim(found));
        if a == b {
            return Ok(Fit::Whole);
        }
        let mismatch = Mismatch::Dims(a, b);
        if let Some(index) = dim_variable(a) {
            return self.bind_dim(index, b, mismatch);
        }
        if let Some(index) = dim_variable(b) {
            return self.bind_dim(index, a, mismatch);
        }
        match (a, b) {
            (Dim::Any, _) | (_, Dim::Any) => self.relate_any(a, b, mode),
            (Dim::Known(_), Dim::Known(_)) => Err(mismatch),
            _ => match (solve_for_variable(a, b), a.facts().has_variable || b.facts().has_variable)
            {
                (Some((index, value)), _) => self.bind_dim(index, value, mismatch),
                (None, true) => {
                    // What is compared later has no place any more at which to check it.
                    let mode = if mode == Mode::Value { Mode::Part } else { mode };
                    self.equations.push((a, b, mode));
                    Ok(Fit::Whole)
                }
                (None, false) => match Polynomial::of(a) == Polynomial::of(b) {
                    true => Ok(Fit::Whole),
                    false => Err(mismatch),
                },
            },
        }
    }

    /// The same where one of the extents is `?`.
    fn relate_any(&mut self, expected: Dim, found: Dim, mode: Mode) -> Result<Fit, Mismatch> {
        match (expected, found, mode) {
            (_, _, Mode::Operand) => Ok(Fit::Whole),
            // What is computed from an unknown has no other value than `?` any more.
            (open, Dim::Any, _) | (Dim::Any, open, Mode::Same) if open.facts().has_variable => {
                let mut variables = Vec::new();
                for_each_dim_leaf(open, |leaf| {
                    if let DimExprData::Variable(index) = leaf {
                        variables.push(index);
                    }
                });
                variables.into_iter().for_each(|index| self.set_dim(index, Dim::Any));
                Ok(Fit::Whole)
            }
            (Dim::Any, _, Mode::Value | Mode::Part) => Ok(Fit::Whole),
            (Dim::Known(_), Dim::Any, Mode::Value) => Ok(Fit::Checked),
            _ => Err(Mismatch::Dims(expected, found)),
        }
    }

    fn bind_dim(&mut self, index: u32, dim: Dim, mismatch: Mismatch) -> Result<Fit, Mismatch> {
        let mut inside = false;
        for_each_dim_leaf(dim, |leaf| inside |= leaf == DimExprData::Variable(index));
        if inside {
            // `n = n + 1` has no solution, `n = n * 1` was folded; the rest is left alone.
            return Err(mismatch);
        }
        self.set_dim(index, dim);
        Ok(Fit::Whole)
    }

    /// Tries the equations again that could not be solved when they came up. Returns those that
    /// contradict each other.
    pub(super) fn retry_equations(&mut self) -> Vec<Mismatch> {
        let mut failed = Vec::new();
        loop {
            let equations = std::mem::take(&mut self.equations);
            let before = equations.len();
            for (a, b, mode) in equations {
                if let Err(mismatch) = self.relate_dims(a, b, mode) {
                    failed.push(mismatch);
                }
            }
            if self.equations.len() >= before || self.equations.is_empty() {
                return failed;
            }
        }
    }
}

pub(super) fn dim_variable(dim: Dim) -> Option<u32> {
    match dim {
        Dim::Expr(expr) => match expr.data() {
            DimExprData::Variable(index) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// The variable and its value when `a = b` is `v + k = n`, `v - k = n`, `v * k = n` or such.
fn solve_for_variable(a: Dim, b: Dim) -> Option<(u32, Dim)> {
    let (mut open, mut value) = if a.facts().has_variable { (a, b) } else { (b, a) };
    if value.facts().has_variable {
        return None;
    }
    loop {
        let Dim::Expr(expr) = open else { return None };
        match expr.data() {
            DimExprData::Variable(index) => return Some((index, value)),
            DimExprData::Parameter(_) => return None,
            DimExprData::Binary(op, x, y) => {
                let (inner, other, left) = match (x.facts().has_variable, y.facts().has_variable) {
                    (true, false) => (x, y, true),
                    (false, true) => (y, x, false),
                    _ => return None,
                };
                value = match (op, left) {
                    (DimOp::Add, _) => Dim::binary(DimOp::Sub, value, other),
                    (DimOp::Sub, true) => Dim::binary(DimOp::Add, value, other),
                    (DimOp::Sub, false) => Dim::binary(DimOp::Sub, other, value),
                    (DimOp::Mul, _) => match (value, other) {
                        (Dim::Known(n), Dim::Known(k)) if k != 0 && n % k == 0 => Dim::Known(n / k),
                        _ => return None,
                    },
                    _ => return None,
                };
                open = inner;
            }
        }
    }
}

/// A sum of products of atoms, in which every extent without division is equal to every other way
/// of writing it. Atoms are parameters, and quotients and the like as they are written.
#[derive(PartialEq, Eq, Debug)]
struct Polynomial(std::collections::BTreeMap<Vec<String>, i64>);

impl Polynomial {
    /// More terms than this are compared as they are written.
    const MAX_TERMS: usize = 64;

    fn atom(dim: Dim) -> Polynomial {
        Polynomial([(vec![dim.to_string()], 1)].into())
    }

    fn of(dim: Dim) -> Polynomial {
        struct Parts(FxHashMap<ir_core::DimExpr, Polynomial>);
        impl Parts {
            fn get(&self, dim: Dim) -> Option<Polynomial> {
                match dim {
                    Dim::Known(0) => Some(Polynomial([].into())),
                    Dim::Known(n) => Some(Polynomial([(vec![], n)].into())),
                    Dim::Any => Some(Polynomial::atom(dim)),
                    Dim::Expr(expr) => self.0.get(&expr).map(|p| Polynomial(p.0.clone())),
                }
            }
        }
        let mut parts = Parts(FxHashMap::default());
        let mut steps = vec![dim];
        while let Some(&top) = steps.last() {
            let Dim::Expr(expr) = top else { break };
            let polynomial = match expr.data() {
                DimExprData::Binary(op @ (DimOp::Add | DimOp::Sub | DimOp::Mul), a, b) => {
                    match (parts.get(a), parts.get(b)) {
                        (None, _) => {
                            steps.push(a);
                            continue;
                        }
                        (_, None) => {
                            steps.push(b);
                            continue;
                        }
                        (Some(x), Some(y)) => {
                            Polynomial::combine(op, &x, &y).unwrap_or_else(|| Polynomial::atom(top))
                        }
                    }
                }
                _ => Polynomial::atom(top),
            };
            parts.0.insert(expr, polynomial);
            steps.pop();
        }
        parts.get(dim).unwrap_or_else(|| Polynomial::atom(dim))
    }

    fn combine(op: DimOp, x: &Polynomial, y: &Polynomial) -> Option<Polynomial> {
        let mut sum = std::collections::BTreeMap::new();
        let mut add = |atoms: Vec<String>, factor: i64| {
            let term: &mut i64 = sum.entry(atoms).or_default();
            *term = term.checked_add(factor)?;
            Some(())
        };
        match op {
            DimOp::Mul => {
                for (a, n) in &x.0 {
                    for (b, m) in &y.0 {
                        let mut atoms = [a.as_slice(), b.as_slice()].concat();
                        atoms.sort_unstable();
                        add(atoms, n.checked_mul(*m)?)?;
                    }
                }
            }
            _ => {
                let sign = if op == DimOp::Sub { -1 } else { 1 };
                for (atoms, n) in &x.0 {
                    add(atoms.clone(), *n)?;
                }
                for (atoms, n) in &y.0 {
                    add(atoms.clone(), n.checked_mul(sign)?)?;
                }
            }
        }
        sum.retain(|_, factor| *factor != 0);
        (sum.len() <= Polynomial::MAX_TERMS).then_some(Polynomial(sum))
    }
}
