//! Random scatters.

use std::cell::RefCell;

use ir_core::{DType, SmallVec, ValueId};

use super::elements::{Axes, Bounds, Elements, Term, capacity};
use super::{Generator, Plan, Source};
use crate::compute::Expression;

/// What becomes of an element and a value.
#[derive(Clone, Copy)]
enum Change {
    Sum,
    Replace,
    Max,
}

impl Generator {
    /// A stage that scatters what the map `plan` gives over a tensor. Dimensions of that are axes of the map,
    /// or are indexed by what is computed.
    pub(super) fn scatter(&mut self, plan: &Plan) {
        const DTYPES: [DType; 4] = [DType::FLOAT32, DType::FLOAT64, DType::INT32, DType::INT8];
        let dtype = DTYPES[self.random.below(DTYPES.len())];
        let change = [Change::Sum, Change::Replace, Change::Max][self.random.below(3)];
        let extents = plan.shape.clone();
        let (mut shape, mut axes): (Vec<i64>, Vec<Option<usize>>) = (vec![], vec![]);
        for _ in 0..self.random.below(self.options.rank.min(3) + 1) {
            let axis = match extents.is_empty() || self.random.one_in(2) {
                true => None,
                false => {
                    Some(self.random.below(extents.len())).filter(|a| !axes.contains(&Some(*a)))
                }
            };
            shape.push(axis.map_or_else(|| self.extent(), |axis| extents[axis]));
            axes.push(axis);
        }
        let updates = extents.iter().product::<i64>();
        let most = match change {
            Change::Sum => (updates + 1) as f64,
            Change::Replace | Change::Max => 1.0,
        };
        // Sums of as many ones fit.
        let dtype = if capacity(dtype) < most { DType::INT32 } else { dtype };
        let made = RefCell::new(Bounds::whole(0.0));
        let Generator { random, builder, sources, .. } = self;
        let shared = RefCell::new((random, &mut *sources));
        let value = |elements: &mut Elements<'_, '_>, term: Term| {
            let term = elements.converted(term, dtype);
            let term = elements.settled(term, capacity(dtype) / most);
            let mut made = made.borrow_mut();
            made.limit = made.limit.max(term.bounds.limit);
            made.fraction = made.fraction.max(term.bounds.fraction);
            term.value
        };
        let tensor = builder.scatter(
            "scatter",
            &shape,
            &extents,
            |e: &mut Expression<'_>, i: &[ValueId]| {
                let (random, sources) = &mut *shared.borrow_mut();
                let axes = Axes { values: i.to_vec(), extents: shape.clone() };
                let mut elements = Elements { e, random, sources, axes };
                let term = elements.leaf();
                value(&mut elements, term)
            },
            |e, k| {
                let (random, sources) = &mut *shared.borrow_mut();
                let given = Axes { values: k.to_vec(), extents: extents.clone() };
                let mut elements = Elements { e, random, sources, axes: given };
                let mut values: SmallVec<[ValueId; 1]> = SmallVec::new();
                for (axis, &extent) in axes.iter().zip(&shape) {
                    values.push(match axis {
                        Some(axis) => k[*axis],
                        None => elements.place(extent),
                    });
                }
                let term = elements.element(plan.source, &plan.access);
                values.push(value(&mut elements, term));
                values
            },
            |e, old, new| match change {
                Change::Sum => e.add(old, new),
                Change::Replace => new,
                Change::Max => e.max(old, new),
            },
        );
        let made = made.into_inner();
        let bounds = Bounds { limit: made.limit * most, ..made };
        sources.push(Source { tensor, bounds, is_stage: true, read: false });
    }
}
