//! Numbers as functions of extents, found from what they are for some.

/// `constant + Σ factor · extents`, each term a product of extents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Formula {
    pub(crate) constant: i64,
    /// The extents of each term, by number, and its factor, which is not 0.
    pub(crate) terms: Vec<(Vec<usize>, i64)>,
}

/// The products that a formula of `extents` extents may have: of none, of one and of two, which may be the
/// same.
fn products(extents: usize) -> Vec<Vec<usize>> {
    let single = (0..extents).map(|one| vec![one]);
    let pairs = (0..extents).flat_map(|one| (one..extents).map(move |two| vec![one, two]));
    std::iter::once(vec![]).chain(single).chain(pairs).collect()
}

/// How many values a formula of `extents` extents is found from: more than it has numbers, so that what
/// is none is seen.
pub(super) fn least_points(extents: usize) -> usize {
    products(extents).len() + 2
}

fn product(of: &[usize], point: &[i64]) -> i128 {
    of.iter().map(|extent| i128::from(point[*extent])).product()
}

impl Formula {
    /// The formula whose value at each of `points` is that of `values`; `None` where there is none. It is found
    /// from the first points, and compared with the others.
    pub(crate) fn fit(points: &[Vec<i64>], values: &[i64]) -> Option<Formula> {
        let products = products(points.first()?.len());
        // Most are an extent. Points tell formulas apart, so that it is no other one.
        let is_extent = |extent: &usize| points.iter().zip(values).all(|(p, v)| p[*extent] == *v);
        if let Some(extent) = (0..points[0].len()).find(is_extent) {
            return Some(Formula { constant: 0, terms: vec![(vec![extent], 1)] });
        }
        // Gauß–Jordan elimination on the first rows. Rounding is seen below.
        let mut rows: Vec<Vec<f64>> = points
            .iter()
            .zip(values)
            .take(least_points(points.first()?.len()))
            .map(|(point, value)| {
                let row = products.iter().map(|of| product(of, point) as f64);
                row.chain([*value as f64]).collect()
            })
            .collect();
        let width = products.len();
        for column in 0..width {
            let pivot = (column..rows.len())
                .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))
                .filter(|row| rows[*row][column].abs() > 1e-9)?;
            rows.swap(column, pivot);
            let lead = rows[column].clone();
            for (number, row) in rows.iter_mut().enumerate() {
                let factor = row[column] / lead[column];
                if number != column && factor != 0.0 {
                    row.iter_mut().zip(&lead).for_each(|(value, lead)| *value -= factor * lead);
                }
            }
        }
        let solved = (0..width).map(|row| (rows[row][width] / rows[row][row]).round() as i64);
        let mut terms: Vec<(Vec<usize>, i64)> = products.into_iter().zip(solved).collect();
        let (_, constant) = terms.remove(0);
        terms.retain(|(_, factor)| *factor != 0);
        let formula = Formula { constant, terms };
        let fits = |(point, value): (&Vec<i64>, &i64)| formula.at(point) == Some(*value);
        points.iter().zip(values).all(fits).then_some(formula)
    }

    /// Its value for `extents`; `None` where that is no number of 64 bits.
    pub(crate) fn at(&self, extents: &[i64]) -> Option<i64> {
        let terms = self.terms.iter();
        let terms = terms.map(|(of, factor)| i128::from(*factor).checked_mul(product(of, extents)));
        let sum = terms.chain([Some(i128::from(self.constant))]).sum::<Option<i128>>()?;
        i64::try_from(sum).ok()
    }

    /// The extent that it is, where it is one.
    pub(crate) fn as_extent(&self) -> Option<usize> {
        match (self.constant, self.terms.as_slice()) {
            (0, [(of, 1)]) if of.len() == 1 => Some(of[0]),
            _ => None,
        }
    }

    /// Whether it grows with every extent.
    pub(crate) fn grows(&self) -> bool {
        self.terms.iter().all(|(_, factor)| *factor > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MOST_EXTENTS, points, primes};
    use super::*;

    #[test]
    fn formulas_are_found() {
        for extents in 1..=MOST_EXTENTS {
            let bounds = vec![512; extents];
            let points = points(&bounds, primes(extents));
            for of in products(extents) {
                let terms = if of.is_empty() { vec![] } else { vec![(of, 12)] };
                let formula = Formula { constant: -7, terms };
                let values: Vec<i64> =
                    points.iter().map(|point| formula.at(point).unwrap()).collect();
                assert_eq!(Formula::fit(&points, &values), Some(formula));
            }
            let halves: Vec<i64> = points.iter().map(|point| point[0] / 2).collect();
            assert_eq!(Formula::fit(&points, &halves), None);
            let cut: Vec<i64> = points.iter().map(|point| point[0].min(16)).collect();
            assert_eq!(Formula::fit(&points, &cut), None);
        }
    }
}
