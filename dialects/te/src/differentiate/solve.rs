//! Which points of a stage read an element: the inverse of the indices of a load.
//!
//! Each index is `constant + Σ factor · axis` and equals an index of the element, which is given. A variable
//! of such an equation with one other, `x = s·i + d·k`, takes the values of one residue class, from `k₀(x mod s)`
//! on in steps of `s`, and then the last one is an exact quotient. So of `x = s·i + d·k` there are ⌈K/s⌉ candidates, not
//! one for each tap, and what has to be checked is only whether indices lie within their extents.

use rustc_hash::FxHashMap;

use crate::index::{Index, Indices, Var, greatest_common_divisor};
use crate::scalar::ScalarOp;

/// Equations with more unknowns are solved in the order of their factors.
const MOST_TRIED: usize = 4;

/// Axes are cut in two at most so often.
const MOST_CUTS: usize = 8;

/// The points that read an element, as functions of its indices and of further variables.
pub(super) struct Solution {
    /// What its indices are made of.
    pub(super) table: Indices,
    /// The indices of the element.
    pub(super) targets: Vec<Var>,
    /// Variables that run over all points, with their extents.
    pub(super) loops: Vec<(Var, i64)>,
    /// Those of them that the element does not depend on.
    pub(super) free: Vec<Var>,
    /// The indices of the point.
    pub(super) axes: Vec<Index>,
    /// What has to hold for it to be one: comparisons with 0.
    pub(super) conditions: Vec<(ScalarOp, Index)>,
    /// Whether every index of the load is the element's where the conditions hold, rather than their
    /// place in memory.
    pub(super) by_index: bool,
}

/// `0 = constant + Σ factor · unknown - right`.
struct Equation {
    factors: Vec<(usize, i64)>,
    constant: i64,
    right: Index,
}

/// What is known of a load at a point.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// The indices of what it reads.
    pub(super) indices: Vec<Index>,
    /// What is 0 wherever it reads something.
    pub(super) zeros: Vec<Index>,
}

/// The points of axes of `extents` at which the indices that `read_at` computes are those of a given element of a
/// tensor of `shape`; `None` where that is not known.
pub(super) fn solve(
    shape: &[i64],
    extents: &[i64],
    read_at: impl Fn(&[Index], &mut Indices) -> Option<Read>,
) -> Option<Solution> {
    let mut source = Indices::default();
    let mut variables: Vec<(Var, i64)> =
        extents.iter().map(|extent| (source.var(*extent), *extent)).collect();
    let mut axes: Vec<Index> = variables.iter().map(|(var, _)| source.of_var(*var)).collect();
    let mut by_index = true;
    let Read { indices: mut found, mut zeros } = read_at(&axes, &mut source)?;
    for _ in 0..MOST_CUTS {
        let divided = found.iter().find_map(|index| source.divided(index));
        let Some((var, by)) = divided else { break };
        // `i` is `by·high + low`.
        let (_, extent) = *variables.iter().find(|(other, _)| *other == var)?;
        let (high, low) = (source.var((extent + by - 1) / by), source.var(by));
        let whole = source.of_var(high).scaled(by).sum(&source.of_var(low));
        let itself = source.of_var(var);
        for axis in &mut axes {
            let factor = source.affine(axis)?.0.iter().find(|(v, _)| *v == var).map(|(_, f)| *f);
            if let Some(factor) = factor {
                *axis = axis.plus_scaled(&itself, -factor).plus_scaled(&whole, factor);
            }
        }
        variables.retain(|(other, _)| *other != var);
        variables.extend([(high, (extent + by - 1) / by), (low, by)]);
        Read { indices: found, zeros } = read_at(&axes, &mut source)?;
    }
    let mut table = Indices::default();
    let targets: Vec<Var> = shape.iter().map(|extent| table.var(*extent)).collect();
    let mut right: Vec<Index> = targets.iter().map(|var| table.of_var(*var)).collect();
    if found.iter().any(|index| source.affine(index).is_none()) {
        // The place in memory, of which these indices are the digits.
        let place = |digits: &[Index]| {
            let digits = digits.iter().zip(shape);
            digits.fold(Index::default(), |sum, (digit, extent)| sum.scaled(*extent).sum(digit))
        };
        let joined = source.joined(&place(&found));
        right = vec![place(&right)];
        found = vec![joined];
        by_index = false;
    }
    let number: FxHashMap<Var, usize> =
        variables.iter().enumerate().map(|(number, (var, _))| (*var, number)).collect();
    let mut equations = Vec::with_capacity(found.len());
    let is_sum = |index: &Index| source.affine(index).is_some();
    zeros.retain(is_sum);
    let nothing = std::iter::repeat(Index::default());
    let sides = found.iter().zip(right).chain(zeros.iter().zip(nothing));
    for (index, right) in sides {
        let (factors, constant) = source.affine(index)?;
        let factors = factors.into_iter().map(|(var, factor)| (number[&var], factor)).collect();
        equations.push(Equation { factors, constant, right });
    }
    let mut solver = Solver {
        table,
        extents: variables.iter().map(|(_, extent)| *extent).collect(),
        solved: vec![None; variables.len()],
        loops: vec![],
        conditions: vec![],
    };
    while let Some(next) = (0..equations.len()).min_by_key(|at| solver.unknowns(&equations[*at])) {
        solver.solve(&equations.swap_remove(next));
    }
    let bound = solver.loops.len();
    for unknown in 0..solver.solved.len() {
        if solver.solved[unknown].is_none() {
            solver.run_over(unknown);
        }
    }
    let mut found = Vec::with_capacity(axes.len());
    for (axis, extent) in axes.iter().zip(extents) {
        let (factors, constant) = source.affine(axis)?;
        let start = Index::constant(constant);
        let index = factors.iter().fold(start, |sum, (var, factor)| {
            let value = solver.solved[number[var]].as_ref().expect("all are solved");
            sum.plus_scaled(value, *factor)
        });
        solver.within(&index, *extent);
        found.push(index);
    }
    let Solver { table, loops, conditions, .. } = solver;
    let free = loops[bound..].iter().map(|(var, _)| *var).collect();
    Some(Solution { table, targets, loops, free, axes: found, conditions, by_index })
}

impl Solution {
    /// The variable that `axis`, one of the indices, is, where that runs over all its values for every
    /// element.
    pub(super) fn free_variable(&self, axis: &Index) -> Option<Var> {
        match self.table.affine(axis) {
            Some((factors, 0)) => match factors[..] {
                [(var, 1)] => Some(var).filter(|var| self.free.contains(var)),
                _ => None,
            },
            _ => None,
        }
    }
}

struct Solver {
    table: Indices,
    extents: Vec<i64>,
    solved: Vec<Option<Index>>,
    loops: Vec<(Var, i64)>,
    conditions: Vec<(ScalarOp, Index)>,
}

impl Solver {
    fn unknowns(&self, equation: &Equation) -> usize {
        equation.factors.iter().filter(|(unknown, _)| self.solved[*unknown].is_none()).count()
    }

    /// Lets `unknown` run over all its values.
    fn run_over(&mut self, unknown: usize) {
        let index = self.running(self.extents[unknown]);
        self.solved[unknown] = Some(index);
    }

    /// A variable of `extent` values; 0 where it has one.
    fn running(&mut self, extent: i64) -> Index {
        if extent == 1 {
            return Index::default();
        }
        let var = self.table.var(extent);
        self.loops.push((var, extent));
        self.table.of_var(var)
    }

    /// Requires `index op 0`, unless that always holds.
    fn require(&mut self, op: ScalarOp, index: Index) {
        let holds = self.table.decide(op, &index, &Index::default());
        if holds != Some(true) && !self.conditions.contains(&(op, index.clone())) {
            self.conditions.push((op, index));
        }
    }

    /// Requires `0 ≤ index < extent`.
    fn within(&mut self, index: &Index, extent: i64) {
        self.require(ScalarOp::Ge, index.clone());
        self.require(ScalarOp::Lt, index.plus(-extent));
    }

    /// Says what the unknowns of `equation` are.
    fn solve(&mut self, equation: &Equation) {
        let mut right = equation.right.plus(-equation.constant);
        let mut unknowns = vec![];
        for &(unknown, factor) in &equation.factors {
            match &self.solved[unknown] {
                Some(value) => right = right.plus_scaled(value, -factor),
                None => unknowns.push((unknown, factor)),
            }
        }
        if unknowns.is_empty() {
            return self.require(ScalarOp::Eq, right);
        }
        self.order(&mut unknowns);
        let common = divisor_of(&unknowns);
        if common > 1 {
            let rest = self.table.remainder(&right, common);
            self.require(ScalarOp::Eq, rest);
        }
        let mut left = &mut unknowns[..];
        while let Some(common) = Some(divisor_of(left)).filter(|common| *common > 0) {
            // Now `right` is a multiple of what divides all factors.
            right = self.table.quotient(&right, common);
            left.iter_mut().for_each(|(_, factor)| *factor /= common);
            let Some(((unknown, factor), others)) = left.split_first_mut() else { break };
            let index = match divisor_of(others) {
                0 => right.scaled(*factor),
                1 => {
                    let index = self.running(self.extents[*unknown]);
                    right = right.plus_scaled(&index, -*factor);
                    index
                }
                modulus => {
                    let scaled = match factor.abs() {
                        1 => right.scaled(*factor),
                        _ => right.scaled(inverse(*factor, modulus)),
                    };
                    let first = self.table.remainder(&scaled, modulus);
                    let step = self.running(steps(self.extents[*unknown], modulus));
                    let index = first.plus_scaled(&step, modulus);
                    right = match factor.abs() {
                        1 => {
                            let whole = self.table.quotient(&scaled, modulus);
                            whole.difference(&step).scaled(*factor * modulus)
                        }
                        _ => right.plus_scaled(&index, -*factor),
                    };
                    index
                }
            };
            self.within(&index, self.extents[*unknown]);
            self.solved[*unknown] = Some(index);
            left = others;
        }
    }

    /// Orders the unknowns of an equation such that few candidates are left.
    fn order(&self, unknowns: &mut Vec<(usize, i64)>) {
        let count = unknowns.len();
        unknowns.sort_by_key(|(_, factor)| factor.abs());
        if !(2..=MOST_TRIED).contains(&count) {
            return;
        }
        let candidates = |order: &[(usize, i64)]| {
            let each = order.iter().enumerate().take(count - 1).map(|(at, (unknown, _))| {
                let modulus = divisor_of(&order[at + 1..]) / divisor_of(&order[at..]);
                steps(self.extents[*unknown], modulus)
            });
            each.fold(1i64, i64::saturating_mul)
        };
        let orders = (0..count.pow(count as u32)).filter_map(|number| {
            let digits = (0..count).map(|at| number / count.pow(at as u32) % count);
            let digits: Vec<usize> = digits.collect();
            let is_order = (0..count).all(|at| digits.contains(&at));
            is_order.then(|| digits.iter().map(|at| unknowns[*at]).collect::<Vec<_>>())
        });
        if let Some(best) = orders.min_by_key(|order| candidates(order)) {
            *unknowns = best;
        }
    }
}

/// How many numbers below `extent` leave one rest when divided by `modulus`, at most.
fn steps(extent: i64, modulus: i64) -> i64 {
    (extent + modulus - 1) / modulus
}

/// The greatest common divisor of the factors; 0 where there are none.
fn divisor_of(unknowns: &[(usize, i64)]) -> i64 {
    unknowns.iter().fold(0, |all, (_, factor)| match all {
        0 => factor.abs(),
        all => greatest_common_divisor(*factor, all),
    })
}

/// The number that times `a` is 1 modulo `modulus`, where the two have no common divisor.
fn inverse(a: i64, modulus: i64) -> i64 {
    let (mut old, mut rest) = (a.rem_euclid(modulus), modulus);
    let (mut old_factor, mut factor) = (1, 0);
    while rest != 0 {
        let quotient = old / rest;
        (old, rest) = (rest, old - quotient * rest);
        (old_factor, factor) = (factor, old_factor - quotient * factor);
    }
    old_factor.rem_euclid(modulus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every solution of `0 ≤ x < size`, by trying all points, and by solving.
    fn compare(size: i64, extents: &[i64], factors: &[i64], constant: i64) -> i64 {
        let at = |point: &[Index], _: &mut Indices| {
            let terms = point.iter().zip(factors);
            let start = Index::constant(constant);
            let index = terms.fold(start, |sum, (axis, factor)| sum.plus_scaled(axis, *factor));
            Some(Read { indices: vec![index], zeros: vec![] })
        };
        let solution = solve(&[size], extents, at).expect("sums are solved");
        let mut candidates = 1;
        solution.loops.iter().for_each(|(_, extent)| candidates *= extent);
        let points = |extents: &[i64]| -> Vec<Vec<i64>> {
            extents.iter().fold(vec![vec![]], |points, extent| {
                let longer = |point: &Vec<i64>| {
                    let point = point.clone();
                    (0..*extent).map(move |i| [point.clone(), vec![i]].concat()).collect::<Vec<_>>()
                };
                points.iter().flat_map(longer).collect()
            })
        };
        let loops: Vec<i64> = solution.loops.iter().map(|(_, extent)| *extent).collect();
        for x in 0..size {
            let is_solution = |point: &Vec<i64>| {
                let sum: i64 = point.iter().zip(factors).map(|(i, factor)| i * factor).sum();
                sum + constant == x
            };
            let mut expected: Vec<Vec<i64>> =
                points(extents).into_iter().filter(is_solution).collect();
            let mut found = vec![];
            for given in points(&loops) {
                let value = |index: &Index| {
                    solution.table.value(index, |var| {
                        let at = solution.loops.iter().position(|(other, _)| *other == var);
                        at.map_or(x, |at| given[at])
                    })
                };
                let holds = |(op, index): &(ScalarOp, Index)| match op {
                    ScalarOp::Ge => value(index) >= 0,
                    ScalarOp::Lt => value(index) < 0,
                    _ => value(index) == 0,
                };
                if solution.conditions.iter().all(holds) {
                    found.push(solution.axes.iter().map(value).collect::<Vec<i64>>());
                }
            }
            expected.sort();
            found.sort();
            assert_eq!(expected, found, "{x} = {factors:?} · {extents:?} + {constant}");
        }
        candidates
    }

    #[test]
    fn windows_have_as_few_candidates_as_strides_allow() {
        for stride in 1..5 {
            for dilation in 1..5 {
                for size in [3, 8, 13] {
                    let candidates = compare(size, &[6, 3], &[stride, dilation], -2);
                    let common = greatest_common_divisor(stride, dilation);
                    assert!(
                        candidates <= (3 * common + stride - 1) / stride,
                        "{stride} {dilation}"
                    );
                }
            }
        }
    }

    #[test]
    fn digits_have_one_candidate() {
        assert_eq!(compare(40, &[2, 4, 5], &[20, 5, 1], 0), 1);
        assert_eq!(compare(40, &[5, 4, 2], &[1, -5, 20], 15), 1);
        // Every other element, from the end.
        assert_eq!(compare(9, &[5], &[-2], 8), 1);
        assert_eq!(compare(30, &[3, 4, 2, 2], &[7, 3, 2, 1], -1), 4);
    }
}
