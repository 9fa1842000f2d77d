//! Rules that several operators share.

use super::{Batch, Examples, known_shape};
use crate::attributes::Integers;
use crate::gradient::Term;
use crate::relation;

/// The rule of an operator along attribute `axis` of its first operand, by default `default`, whose other operands are
/// about this axis alone.
pub(crate) fn along<'p>(at: &Examples<'p>, default: i64) -> Option<Term<'p>> {
    let axis = at.attrs().value("axis").unwrap_or(default);
    let attrs = at.attrs().with("axis", &behind(axis, at.rank(0))?);
    at.over_first().then(|| at.again(&at.operands(), attrs))
}

/// The rule of a reduction of its first operand over the axes that attributes `axis` and `exclude` say.
pub(crate) const REDUCED: Batch = Batch(|at| {
    if !at.over_first() {
        return None;
    }
    let given: Option<Integers> = at.attrs().value("axis");
    let exclude = at.attrs().value("exclude").unwrap_or(false);
    let given = given.as_ref().map(|axes| &axes.0[..]);
    let reduced = relation::reduced_axes(given, exclude, at.rank(0)).ok()?;
    let axes: Vec<i64> =
        (0..reduced.len()).filter(|axis| reduced[*axis]).map(|axis| axis as i64 + 1).collect();
    if axes.is_empty() {
        // No axes mean all of them.
        return None;
    }
    let attrs = at.attrs().without("exclude").with("axis", &Integers(axes));
    Some(at.again(&at.operands(), attrs))
});

/// The rule of an operator that joins the fields of its operand, a tuple, along axis `axis` of its result, 0 by default.
pub(crate) const JOINED: Batch = Batch(|at| {
    let axis = at.attrs().value("axis").unwrap_or(0);
    let rank = at.result().as_tensor()?.rank();
    let attrs = at.attrs().with("axis", &behind(axis, rank)?);
    Some(at.again(&at.operands(), attrs))
});

/// The rule of an operator with ranges along the axes that attribute `axes` says, or the first ones.
pub(crate) const SLICED: Batch = Batch(|at| {
    if !at.over_first() {
        return None;
    }
    let (Integers(begin), Integers(end)) = (at.attrs().value("begin")?, at.attrs().value("end")?);
    let axes = match at.attrs().value::<Integers>("axes") {
        Some(Integers(axes)) => axes,
        None => (0..begin.len().max(end.len()) as i64).collect(),
    };
    let axes: Option<Vec<i64>> = axes.into_iter().map(|axis| behind(axis, at.rank(0))).collect();
    Some(at.again(&at.operands(), at.attrs().with("axes", &Integers(axes?))))
});

/// The axis behind a leading one that `axis` of `rank` is.
pub(crate) fn behind(axis: i64, rank: usize) -> Option<i64> {
    Some(relation::axis(axis, rank).ok()? as i64 + 1)
}

/// A pointwise operator: operands of fewer axes get axes of extent 1 behind the leading one, so that others than
/// those of examples meet.
pub(super) fn pointwise<'p>(at: &Examples<'p>) -> Term<'p> {
    let count = at.operands().len();
    let rank = (0..count).map(|index| at.rank(index)).max().unwrap_or(0);
    let operands: Vec<Term<'p>> = (0..count)
        .map(|index| {
            let operand = at.operand(index);
            if !at.over(index) || at.rank(index) == rank {
                return operand;
            }
            let mut shape = operand.shape();
            shape.splice(1..1, vec![1; rank - at.rank(index)]);
            operand.reshape(&shape)
        })
        .collect();
    at.again(&operands, at.attrs())
}

/// An operator whose result has the elements of its first operand.
pub(super) fn reshaped<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let shape = known_shape(&at.result()).filter(|_| at.over(0))?;
    Some(at.operand(0).reshape(&[vec![at.extent()], shape].concat()))
}

/// An operator that broadcasts its first operand to the shape of its result.
pub(crate) fn broadcast<'p>(at: &Examples<'p>) -> Option<Term<'p>> {
    let shape = known_shape(&at.result()).filter(|_| at.over_first())?;
    let mut data = at.operand(0).shape();
    data.splice(1..1, vec![1; shape.len().checked_sub(at.rank(0))?]);
    Some(at.operand(0).reshape(&data).broadcast(&[vec![at.extent()], shape].concat()))
}
