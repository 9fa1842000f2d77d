//! The points of a stage at which tensors are read, and by how much what is computed there changes.

use ir_core::{BlockId, Body, DType, OpId, Scalar, SmallVec, TensorData, ValueId};
use rustc_hash::FxHashMap;

use super::point::{Point, is_float};
use super::rules::{masked, product};
use super::{all_points, scans};
use crate::compute::{
    Combiner, ComputeBuilder, Expression, Reduce, Scan, Scatter, Stage, Tensor, Yield,
};
use crate::index::{Index, Indices, Var};
use crate::scalar::{Check, Constant, ScalarOp};

/// A block of a stage with all its points.
pub(super) struct Source {
    pub(super) block: BlockId,
    /// Extents of its axes, of which there is a point for each combination.
    pub(super) extents: Vec<i64>,
    /// Whether something is computed there, rather than moved.
    pub(super) computes: bool,
    /// Whether it may fail for numbers that there are not.
    pub(super) is_checked: bool,
    seed: Seed,
    /// Arguments that are no indices, with what they are at each point.
    pub(super) state: Vec<(ValueId, Tensor)>,
}

/// By how much values of a block change.
enum Seed {
    /// Values change as the elements at the first indices do.
    Element(Vec<(ValueId, Tensor)>),
    /// The same at the point whose number is that of the winner, elsewhere not at all.
    Winner { value: ValueId, change: Tensor, winner: Tensor, number: Number },
    /// A factor of a product: for each, the product of those before it, and, from the last one on, of those behind
    /// it. No factor is divided by, so that it may be 0, also where this is differentiated again.
    Factor { value: ValueId, change: Tensor, before: Tensor, behind: Tensor },
    /// As the element at `place`, where the update is the last one there.
    Update { value: ValueId, change: Tensor, place: Vec<ValueId>, last: Option<Tensor> },
    /// A step of a scan: the element, and the states behind it, whose changes are stored from the last step on.
    Step { element: (ValueId, Tensor), states: Vec<(ValueId, Tensor)>, axis: usize },
    /// As the element, where no update changed it.
    Initial { value: ValueId, change: Tensor, last: Tensor },
}

/// The number of a point of a reduction.
enum Number {
    /// A value of the block.
    Value(ValueId),
    /// Of its reduction axes, from this one on, in row-major order.
    From(usize),
}

impl Source {
    fn new(body: &Body, block: BlockId, extents: Vec<i64>, seed: Seed) -> Source {
        let computes = body.block_ops(block).any(|op| {
            ScalarOp::of(body.op_name(op)).is_some() && is_float(body, body.result(op, 0))
        });
        let is_checked = body.block_ops(block).any(|op| may_fail(body, op));
        Source { block, extents, computes, is_checked, seed, state: vec![] }
    }

    /// The values of the block that change.
    pub(super) fn values(&self) -> Vec<ValueId> {
        match &self.seed {
            Seed::Element(values) => values.iter().map(|(value, _)| *value).collect(),
            Seed::Step { element, states, .. } => {
                std::iter::once(element).chain(states).map(|(value, _)| *value).collect()
            }
            Seed::Winner { value, .. }
            | Seed::Factor { value, .. }
            | Seed::Update { value, .. }
            | Seed::Initial { value, .. } => vec![*value],
        }
    }

    /// Writes the block at `axes`, and by how much what `load` reads changes; `None` where it does not.
    pub(super) fn pull(
        &self,
        e: &mut Expression<'_>,
        point: &mut Point<'_>,
        axes: &[Index],
        load: OpId,
    ) -> Option<ValueId> {
        for (argument, tensor) in &self.state {
            let value = point.read(e, tensor, axes);
            point.bind_value(*argument, value);
        }
        point.write(e, self.block, axes);
        let seeds = self.seeds(e, point, axes);
        let change = point.pull(e, self.block, &seeds, point.result(load))?;
        // Where it does not win, what it is made of may be infinite.
        Some(match self.wins(e, point, axes) {
            Some(wins) => masked(e, wins, change),
            None => change,
        })
    }

    /// Whether the point is that of the winner, where there is one.
    fn wins(
        &self,
        e: &mut Expression<'_>,
        point: &mut Point<'_>,
        axes: &[Index],
    ) -> Option<ValueId> {
        let Seed::Winner { winner, number, .. } = &self.seed else { return None };
        let own = match number {
            Number::Value(value) => point.value(e, *value),
            Number::From(first) => {
                let number = row_major(&axes[*first..], &self.extents[*first..]);
                point.write_index(e, &number)
            }
        };
        let winner = point.read(e, winner, &axes[..winner.shape.len()]);
        let [own, winner] = [own, winner].map(|number| e.cast(number, DType::INT64));
        Some(e.eq(own, winner))
    }

    fn seeds(
        &self,
        e: &mut Expression<'_>,
        point: &mut Point<'_>,
        axes: &[Index],
    ) -> Vec<(ValueId, ValueId)> {
        let element = |e: &mut Expression<'_>, point: &mut Point<'_>, tensor: &Tensor| {
            point.read(e, tensor, &axes[..tensor.shape.len()])
        };
        match &self.seed {
            Seed::Element(values) => {
                values.iter().map(|(value, change)| (*value, element(e, point, change))).collect()
            }
            Seed::Step { element: own, states, axis } => {
                let mut backwards = axes.to_vec();
                backwards[*axis] = from_the_last(&axes[*axis], self.extents[*axis]);
                let mut seeds = vec![(own.0, element(e, point, &own.1))];
                for (value, change) in states {
                    seeds.push((*value, point.read(e, change, &backwards)));
                }
                seeds
            }
            Seed::Winner { value, change, .. } => vec![(*value, element(e, point, change))],
            Seed::Factor { value, change, before, behind } => {
                let (spatial, reduced) = axes.split_at(change.shape.len());
                let extents = &self.extents[spatial.len()..];
                let number = row_major(reduced, extents);
                let back = from_the_last(&number, points(extents));
                let mut others = |products: &Tensor, number: Index| {
                    let at: Vec<Index> = spatial.iter().cloned().chain([number]).collect();
                    point.read(e, products, &at)
                };
                let (before, behind) = (others(before, number), others(behind, back));
                let others = product(e, before, behind);
                let g = element(e, point, change);
                vec![(*value, product(e, g, others))]
            }
            Seed::Update { value, change, place, last } => {
                let mut g = point.read_at(e, change, place);
                if let Some(last) = last {
                    let number = row_major(axes, &self.extents);
                    let own = point.write_index(e, &number);
                    let last = point.read_at(e, last, place);
                    let stays = e.eq(own, last);
                    g = masked(e, stays, g);
                }
                vec![(*value, g)]
            }
            Seed::Initial { value, change, last } => {
                let (last, none) = (element(e, point, last), e.index(0));
                let (stays, g) = (e.lt(last, none), element(e, point, change));
                vec![(*value, masked(e, stays, g))]
            }
        }
    }
}

/// The number of the point `axes` among those of `extents`.
fn row_major(axes: &[Index], extents: &[i64]) -> Index {
    let digits = axes.iter().zip(extents);
    digits.fold(Index::default(), |number, (axis, extent)| number.scaled(*extent).sum(axis))
}

/// The point among those of `extents` whose number is `number`.
fn digits(table: &mut Indices, number: &Index, extents: &[i64]) -> Vec<Index> {
    let mut rest = number.clone();
    let mut digits: Vec<Index> = Vec::with_capacity(extents.len());
    for extent in extents.iter().rev() {
        digits.push(table.remainder(&rest, *extent));
        rest = table.quotient(&rest, *extent);
    }
    digits.reverse();
    digits
}

/// How many points axes of `extents` have.
fn points(extents: &[i64]) -> i64 {
    extents.iter().copied().fold(1, i64::saturating_mul)
}

/// Whether `op` has no value for some numbers.
fn may_fail(body: &Body, op: OpId) -> bool {
    use ScalarOp::{Div, FloorDiv, FloorMod, Mod, Pow, ShiftLeft, ShiftRight};
    let scalar = ScalarOp::of(body.op_name(op));
    let fails = [Div, FloorDiv, FloorMod, Mod, Pow, ShiftLeft, ShiftRight];
    let partial = scalar.is_some_and(|scalar| fails.contains(&scalar));
    let is_constant = |value: ValueId| body.view_def::<Constant>(value).is_some();
    body.is::<Check>(op)
        || (partial && !is_float(body, body.result(op, 0)) && !is_constant(body.operand(op, 1)))
}

/// The points of `stage`, whose results change by `changes`. What more has to be known of them becomes stages
/// of `builder`; `tensors` are those of the function there.
///
/// # Errors
/// Where the stage is of a form that is not differentiated.
pub(super) fn sources(
    body: &Body,
    stage: &Stage,
    changes: &[Option<Tensor>],
    builder: &mut ComputeBuilder,
    tensors: &FxHashMap<ValueId, Tensor>,
) -> Result<Vec<Source>, String> {
    let blocks = stage.blocks(body);
    let (block, _) = blocks[0];
    let values = yielded(body, block);
    let name = &stage.name;
    if let Some(scan) = body.view::<Scan>(stage.op) {
        let Some(change) = changes[0].clone() else { return Ok(vec![]) };
        let written = scans::write(body, stage, &scan, change, builder, tensors);
        let scans::Written { element, states, before, axis } = written;
        let seed = Seed::Step { element, states, axis };
        let source = Source::new(body, block, stage.shape.clone(), seed);
        return Ok(vec![Source { state: before, ..source }]);
    }
    let all: Vec<i64> = stage.shape.iter().chain(&stage.reduction).copied().collect();
    if body.is::<Scatter>(stage.op) {
        return scattered(body, stage, changes, builder, tensors);
    }
    let Some(reduce) = body.view::<Reduce>(stage.op) else {
        let seed = Seed::Element(elements(&values, changes));
        return Ok(vec![Source::new(body, block, all, seed)]);
    };
    let write = Write { body, block, tensors, extents: &all };
    let one = || (values[0], changes[0].clone().expect("what has one result changes with it"));
    let rank = stage.shape.len();
    let seed = match reduce.combiner {
        Combiner::Sum => Seed::Element(elements(&values, changes)),
        Combiner::Max | Combiner::Min => {
            let (value, change) = one();
            let arg = match reduce.combiner {
                Combiner::Max => Combiner::ArgMax,
                _ => Combiner::ArgMin,
            };
            let name = format!("{name}_place");
            let element = |e: &mut Expression<'_>, i: &[ValueId], r: &[ValueId]| {
                let element = write.value(e, i, r, value);
                let (table, vars, axes) = all_points(&stage.reduction, r);
                let number = row_major(&axes, &stage.reduction);
                let number = table.write(&number, e, |var| {
                    let at = vars.iter().find(|(other, _)| *other == var);
                    at.expect("an axis").1
                });
                SmallVec::from_iter([number, element])
            };
            let places =
                builder.reduce_many(&name, &stage.shape, &stage.reduction, arg, 2, element);
            Seed::Winner { value, change, winner: places[0].clone(), number: Number::From(rank) }
        }
        Combiner::ArgMax | Combiner::ArgMin => match &changes[1] {
            None => return Ok(vec![]),
            Some(change) => Seed::Winner {
                value: values[1],
                change: change.clone(),
                winner: tensors[&body.result(stage.op, 0)].clone(),
                number: Number::Value(values[0]),
            },
        },
        Combiner::Product if all.contains(&0) => return Ok(vec![]),
        Combiner::Product => {
            let (value, change) = one();
            let count = points(&stage.reduction);
            let shape: Vec<i64> = stage.shape.iter().copied().chain([count]).collect();
            let first = [TensorData::scalar(change.dtype, Scalar::Float(1.0))];
            let mut products = |side: &str, is_back: bool| {
                builder.scan(&format!("{name}_{side}"), &shape, rank, &first, |e, i, product| {
                    let (mut table, vars, axes) = all_points(&shape, i);
                    let (spatial, number) = axes.split_at(rank);
                    let number = match is_back {
                        true => from_the_last(&number[0], count),
                        false => number[0].clone(),
                    };
                    let factor = digits(&mut table, &number, &stage.reduction);
                    let own = write.at(e, (table, vars), &[spatial, &factor].concat(), value);
                    let own = e.cast(own, change.dtype);
                    SmallVec::from_slice(&[product[0], e.mul(product[0], own)])
                })
            };
            let (before, behind) = (products("before", false), products("behind", true));
            Seed::Factor { value, change, before, behind }
        }
        Combiner::User => return Err(format!("`{name}` reduces by a combination of its own")),
    };
    Ok(vec![Source::new(body, block, all, seed)])
}

/// The points of a scatter: its elements before any update, and its updates.
fn scattered(
    body: &Body,
    stage: &Stage,
    changes: &[Option<Tensor>],
    builder: &mut ComputeBuilder,
    tensors: &FxHashMap<ValueId, Tensor>,
) -> Result<Vec<Source>, String> {
    let block = |number: usize| body.region_block(stage.op, number);
    let (initial, update, combine) = (block(0), block(1), block(2));
    let Some(change) = changes[0].clone() else { return Ok(vec![]) };
    let mut place = yielded(body, update);
    let value = place.pop().expect("an update has a value");
    let first = yielded(body, initial)[0];
    let (args, result) = (body.block_args(combine), yielded(body, combine)[0]);
    let is_sum = body.defining_op(result).is_some_and(|op| {
        let operands: Vec<ValueId> = body.operands(op).collect();
        let both = args.iter().all(|arg| operands.contains(arg));
        ScalarOp::of(body.op_name(op)) == Some(ScalarOp::Add) && both
    });
    let (shape, extents) = (stage.shape.clone(), stage.reduction.clone());
    let (before, last) = if is_sum {
        (Seed::Element(vec![(first, change.clone())]), None)
    } else if result == args[1] {
        let write = Write { body, block: update, tensors, extents: &extents };
        let last = builder.scatter(
            &format!("{}_last", stage.name),
            &shape,
            &extents,
            |e, _| e.index(-1),
            |e, k| {
                let (mut table, vars, axes) = all_points(&extents, k);
                let mut point = Point::new(body, tensors, &mut table, vars);
                point.write(e, write.block, &axes);
                let mut values: SmallVec<[ValueId; 1]> =
                    place.iter().map(|index| point.value(e, *index)).collect();
                values.push(point.write_index(e, &row_major(&axes, &extents)));
                e.keep(&values);
                values
            },
            |_, _, new| new,
        );
        let seed = Seed::Initial { value: first, change: change.clone(), last: last.clone() };
        (seed, Some(last))
    } else {
        return Err(format!("`{}` scatters by a combination that is no sum", stage.name));
    };
    let after = Seed::Update { value, change, place, last };
    let sources = [(initial, shape, before), (update, extents, after)];
    let sources = sources.map(|(block, extents, seed)| Source::new(body, block, extents, seed));
    Ok(Vec::from(sources))
}

/// The values that change, with the changes of the results that they are elements of.
fn elements(values: &[ValueId], changes: &[Option<Tensor>]) -> Vec<(ValueId, Tensor)> {
    let changes = values.iter().zip(changes);
    changes.filter_map(|(value, change)| Some((*value, change.clone()?))).collect()
}

/// The index that is as far from the last of `extent` indices as `index` is from the first.
pub(super) fn from_the_last(index: &Index, extent: i64) -> Index {
    Index::constant(extent - 1).difference(index)
}

/// What `block` gives.
pub(super) fn yielded(body: &Body, block: BlockId) -> Vec<ValueId> {
    let end = body.last_op(block).and_then(|end| body.view::<Yield>(end));
    end.expect("a block ends with what it gives").values
}

/// Writes a value of a block at a point.
struct Write<'a> {
    body: &'a Body,
    block: BlockId,
    tensors: &'a FxHashMap<ValueId, Tensor>,
    extents: &'a [i64],
}

impl Write<'_> {
    fn value(
        &self,
        e: &mut Expression<'_>,
        i: &[ValueId],
        r: &[ValueId],
        value: ValueId,
    ) -> ValueId {
        let values: Vec<ValueId> = i.iter().chain(r).copied().collect();
        let (table, vars, axes) = all_points(self.extents, &values);
        self.at(e, (table, vars), &axes, value)
    }

    /// `value` at the point `axes`, indices of `table` made of `vars`.
    fn at(
        &self,
        e: &mut Expression<'_>,
        (mut table, vars): (Indices, Vec<(Var, ValueId)>),
        axes: &[Index],
        value: ValueId,
    ) -> ValueId {
        let mut point = Point::new(self.body, self.tensors, &mut table, vars);
        point.write(e, self.block, axes);
        let value = point.value(e, value);
        e.keep(&[value]);
        value
    }
}
