//! What loads contribute to the changes of what they read, in one of three forms.

use std::rc::Rc;

use ir_core::{Body, OpId, SmallVec, ValueId};
use rustc_hash::FxHashMap;

use super::point::Point;
use super::rules::{masked, wide};
use super::solve::{Read, Solution, solve};
use super::sources::Source;
use super::{Forms, Part, Writer, all_points, read};
use crate::compute::{Combiner, Expression, LoadIf, Tensor};
use crate::index::values::index_values;
use crate::index::{Index, Var};
use crate::scalar::ScalarOp;

impl Writer<'_> {
    /// Adds what `load`, a load of `source`, contributes to the change of `tensor`.
    pub(super) fn contribute(
        &mut self,
        source: &Rc<Source>,
        load: OpId,
        tensor: ValueId,
        indices: &[ValueId],
    ) {
        let body = self.body;
        let shape = self.tensors[&tensor].shape.clone();
        if shape.contains(&0) || source.extents.contains(&0) {
            return;
        }
        let solution = solve(&shape, &source.extents, |axes, table| {
            let known = index_values(body, source.block, axes, table);
            let indices = indices.iter().map(|index| known.get(index).cloned());
            let indices = indices.collect::<Option<Vec<Index>>>()?;
            let condition = body.view::<LoadIf>(load).map(|load| load.condition);
            let zeros = condition.map_or(vec![], |condition| zeros(body, condition, &known));
            Some(Read { indices, zeros })
        });
        let is_guarded = body.is::<LoadIf>(load);
        let solution = solution.filter(|solution| solution.by_index || !is_guarded);
        let Some(solution) = solution.filter(|_| self.forms == Forms::Any) else {
            return self.add(tensor, Part::Scattered(source.clone(), load));
        };
        let loops = solution.loops.iter().map(|(_, extent)| *extent);
        let candidates = loops.chain(shape.iter().copied()).fold(1i64, i64::saturating_mul);
        let points = source.extents.iter().copied().fold(1i64, i64::saturating_mul);
        let is_move = solution.loops.is_empty() && !source.computes;
        let few = candidates <= points.saturating_mul(2) || is_move;
        // Where there is no point, nothing may fail.
        let is_safe = !source.is_checked || solution.conditions.is_empty();
        let part = match few && is_safe {
            true => self.gather(source, load, (tensor, indices), solution),
            false => self.place(source, load, tensor, solution),
        };
        self.add(tensor, Part::Tensor(part));
    }

    /// The contribution of `load` over the elements that it reads.
    fn gather(
        &mut self,
        source: &Source,
        load: OpId,
        (tensor, indices): (ValueId, &[ValueId]),
        solution: Solution,
    ) -> Tensor {
        let Solution { mut table, targets, loops, axes, conditions, by_index, .. } = solution;
        let (name, shape) = (self.name(tensor), self.tensors[&tensor].shape.clone());
        let Writer { body, builder, tensors, .. } = self;
        let dtype = wide(tensors[&tensor].dtype);
        let extents: Vec<i64> = loops.iter().map(|(_, extent)| *extent).collect();
        let element = |e: &mut Expression<'_>, x: &[ValueId], r: &[ValueId]| {
            let outer = targets.iter().copied().zip(x.iter().copied());
            let inner = loops.iter().map(|(var, _)| *var).zip(r.iter().copied());
            let places: Vec<Index> = targets.iter().map(|var| table.of_var(*var)).collect();
            let mut point = Point::new(body, tensors, &mut table, outer.chain(inner));
            point.guard(e, &conditions);
            for (index, place) in indices.iter().zip(places).filter(|_| by_index) {
                // What is no constant is the index of the element here.
                let op = body.defining_op(*index);
                if op.is_some_and(|op| body.operand_count(op) > 0) {
                    point.bind(*index, place);
                }
            }
            let value = source.pull(e, &mut point, &axes, load);
            let value = match value {
                Some(value) => point.guarded(e, value),
                None => e.number(dtype, 0.0),
            };
            e.keep(&[value]);
            value
        };
        match extents.is_empty() {
            true => builder.compute(&name, &shape, |e, x| {
                let mut element = element;
                element(e, x, &[])
            }),
            false => builder.reduce(&name, &shape, &extents, Combiner::Sum, element),
        }
    }

    /// The contribution of `load` over its points, and then over the elements that it reads.
    fn place(
        &mut self,
        source: &Source,
        load: OpId,
        tensor: ValueId,
        solution: Solution,
    ) -> Tensor {
        let (name, shape) = (self.name(tensor), self.tensors[&tensor].shape.clone());
        let dtype = wide(self.tensors[&tensor].dtype);
        // Axes that the element does not depend on are summed first.
        let is_free: Vec<bool> =
            solution.axes.iter().map(|axis| solution.free_variable(axis).is_some()).collect();
        let of = |free: bool| -> Vec<i64> {
            let axes = source.extents.iter().zip(&is_free).filter(|(_, is)| **is == free);
            axes.map(|(extent, _)| *extent).collect()
        };
        let (kept, summed) = (of(false), of(true));
        let Writer { body, builder, tensors, .. } = self;
        let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
            let (mut i, mut r) = (i.iter(), r.iter());
            let values = is_free.iter().map(|free| if *free { r.next() } else { i.next() });
            let values: Vec<ValueId> = values.flatten().copied().collect();
            let (mut table, vars, axes) = all_points(&source.extents, &values);
            let mut point = Point::new(body, tensors, &mut table, vars);
            let value = source.pull(e, &mut point, &axes, load);
            let value = value.unwrap_or_else(|| e.number(dtype, 0.0));
            e.keep(&[value]);
            value
        };
        let parts = match summed.is_empty() {
            true => builder.compute(&name, &kept, |e, i| element(e, i, &[])),
            false => builder.reduce(&name, &kept, &summed, Combiner::Sum, element),
        };
        let Solution { ref table, ref targets, ref axes, ref conditions, .. } = solution;
        let summed: Vec<Var> =
            axes.iter().filter_map(|axis| solution.free_variable(axis)).collect();
        let loops: Vec<(Var, i64)> =
            solution.loops.iter().filter(|(var, _)| !summed.contains(var)).copied().collect();
        let extents: Vec<i64> = loops.iter().map(|(_, extent)| *extent).collect();
        let element = |e: &mut Expression<'_>, x: &[ValueId], r: &[ValueId]| {
            let outer = targets.iter().copied().zip(x.iter().copied());
            let inner = loops.iter().map(|(var, _)| *var).zip(r.iter().copied());
            let vars: FxHashMap<Var, ValueId> = outer.chain(inner).collect();
            let mut guard = None;
            for (op, index) in conditions {
                let (index, zero) = (table.write(index, e, |var| vars[&var]), e.index(0));
                let holds = e.scalar(*op, &[index, zero]);
                guard = Some(guard.map_or(holds, |guard| e.and(guard, holds)));
            }
            let at = axes.iter().zip(&is_free).filter(|(_, free)| !**free);
            let at: Vec<ValueId> =
                at.map(|(axis, _)| table.write(axis, e, |var| vars[&var])).collect();
            match guard {
                None => e.load(&parts, &at),
                Some(guard) => {
                    let zero = e.number(dtype, 0.0);
                    e.load_if(guard, &parts, &at, zero)
                }
            }
        };
        match extents.is_empty() {
            true => builder.compute(&name, &shape, |e, x| element(e, x, &[])),
            false => builder.reduce(&name, &shape, &extents, Combiner::Sum, element),
        }
    }

    /// `before`, or zeros, with the contribution of `load` added point by point.
    pub(super) fn scatter(
        &mut self,
        source: &Source,
        load: OpId,
        before: Option<Tensor>,
    ) -> Tensor {
        let Some((tensor, indices)) = read(self.body, load) else {
            unreachable!("what is scattered is what a load contributes")
        };
        let (name, shape) = (self.name(tensor), self.tensors[&tensor].shape.clone());
        let dtype = wide(self.tensors[&tensor].dtype);
        let Writer { body, builder, tensors, .. } = self;
        builder.scatter(
            &name,
            &shape,
            &source.extents,
            |e, i| match &before {
                Some(before) => e.load(before, i),
                None => e.number(dtype, 0.0),
            },
            |e, k| {
                let (mut table, vars, axes) = all_points(&source.extents, k);
                let mut point = Point::new(body, tensors, &mut table, vars);
                let value = source.pull(e, &mut point, &axes, load);
                let value = value.unwrap_or_else(|| e.number(dtype, 0.0));
                // Where nothing is read, 0 is added to some element.
                let condition = body.view::<LoadIf>(load).map(|load| load.condition);
                let condition = condition.and_then(|condition| point.unknown(e, condition));
                let mut values: SmallVec<[ValueId; 1]> = SmallVec::new();
                for index in &indices {
                    let index = point.value(e, *index);
                    values.push(match condition {
                        Some(condition) => masked(e, condition, index),
                        None => index,
                    });
                }
                values.push(value);
                e.keep(&values);
                values
            },
            |e, old, new| e.add(old, new),
        )
    }
}

/// Indices that are 0 wherever `condition` holds, given what is known of indices of its block: it bounds them from both
/// sides, as paddings do where an extent is 1.
fn zeros(body: &Body, condition: ValueId, known: &FxHashMap<ValueId, Index>) -> Vec<Index> {
    // What is at least 0.
    let (mut bounded, mut pending): (Vec<Index>, Vec<ValueId>) = (vec![], vec![condition]);
    while let Some(value) = pending.pop() {
        let Some(op) = body.defining_op(value) else { continue };
        let Some(scalar) = ScalarOp::of(body.op_name(op)) else { continue };
        let operand = |number: usize| known.get(&body.operand(op, number));
        let difference = |a: usize, b: usize| Some(operand(a)?.difference(operand(b)?));
        bounded.extend(match scalar {
            ScalarOp::And => {
                pending.extend(body.operands(op));
                None
            }
            ScalarOp::Ge => difference(0, 1),
            ScalarOp::Le => difference(1, 0),
            ScalarOp::Gt => difference(0, 1).map(|index| index.plus(-1)),
            ScalarOp::Lt => difference(1, 0).map(|index| index.plus(-1)),
            _ => None,
        });
    }
    let is_least =
        |index: &&Index| bounded.iter().any(|other| index.sum(other).as_constant() == Some(0));
    bounded.iter().filter(is_least).cloned().collect()
}
