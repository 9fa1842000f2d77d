//! Writing inline stages into what reads them.

use ir_core::{BlockId, Body, InsertPoint, OpId, OpParts, Scalar, Type, ValueId, ValueMap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compute::{Expression, Load, LoadIf, Return, Stage as StageView, Yield};
use crate::loops::Data;
use crate::scalar::number_of;
use crate::scalar::{Check, ScalarOp};
use crate::schedule::state::{Attach, Schedule, Stage, outputs};

/// A compute function without inline stages.
pub(crate) struct Flat {
    /// The function.
    pub(crate) body: Body,
    /// Constant buffers, in program order.
    pub(crate) constants: Vec<OpId>,
    /// The stages that are left, in program order, each with its operation.
    pub(crate) stages: Vec<(Stage, OpId)>,
    /// Results of the function.
    pub(crate) outputs: Vec<ValueId>,
}

pub(crate) fn flatten(schedule: &Schedule) -> Flat {
    let source = schedule.body();
    let mut body = Body::new();
    let mut tensors: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for &arg in source.block_args(source.entry()) {
        let entry = body.entry();
        let copy = body.add_block_arg(entry, source.ty(arg));
        body.set_name_hint(copy, source.name_hint(arg));
        tensors.insert(arg, copy);
    }
    let by_op: FxHashMap<OpId, Stage> =
        schedule.stages().map(|stage| (schedule.stage_op(stage), stage)).collect();
    let mut inline: FxHashMap<ValueId, OpId> = FxHashMap::default();
    let (mut constants, mut stages) = (Vec::new(), Vec::new());
    for op in source.block_ops(source.entry()) {
        if source.view::<Data>(op).is_some() {
            let result = source.result(op, 0);
            let types = [source.ty(result)];
            let parts = OpParts::new(source.op_name(op), &[], &types)
                .attrs(source.attrs(op))
                .at(source.loc(op));
            let copy = body.insert_op(InsertPoint::End(body.entry()), parts);
            body.set_name_hint(body.result(copy, 0), source.name_hint(result));
            tensors.insert(result, body.result(copy, 0));
            constants.push(copy);
        }
        let Some(&stage) = by_op.get(&op) else { continue };
        if schedule.stages[stage.0].attach == Attach::Inline {
            inline.extend(source.results(op).map(|result| (result, op)));
            continue;
        }
        let results: SmallVec<[Type; 2]> = source.results(op).map(|r| source.ty(r)).collect();
        let regions = source.regions(op).len();
        let parts = OpParts::new(source.op_name(op), &[], &results)
            .attrs(source.attrs(op))
            .regions(regions)
            .at(source.loc(op));
        let copy = body.insert_op(InsertPoint::End(body.entry()), parts);
        for (old, new) in source.results(op).zip(body.results(copy)) {
            body.set_name_hint(new, source.name_hint(old));
            tensors.insert(old, new);
        }
        let mut copier = Copier { source, tensors: &tensors, inline: &inline };
        let view = StageView::of(source, op).expect("what has a schedule is a stage");
        let reading = view.blocks(source).len();
        for number in 0..reading {
            copier.copy(&mut body, source.region_block(op, number), (copy, number));
        }
        for number in reading..regions {
            let (from, to) = (source.region_block(op, number), body.region_block(copy, number));
            let mut map = ValueMap::default();
            for &arg in source.block_args(from) {
                let new = body.add_block_arg(to, source.ty(arg));
                map.insert(arg, new);
            }
            body.import_block_ops(source, None, from, InsertPoint::End(to), &mut map);
        }
        stages.push((stage, copy));
    }
    let outputs: Vec<ValueId> = outputs(source).iter().map(|value| tensors[value]).collect();
    let end = OpParts::new(<Return as ir_core::OpFields<ValueId>>::NAME, &outputs, &[]);
    body.insert_op(InsertPoint::End(body.entry()), end);
    Flat { body, constants, stages, outputs }
}

struct Copier<'a> {
    source: &'a Body,
    tensors: &'a FxHashMap<ValueId, ValueId>,
    inline: &'a FxHashMap<ValueId, OpId>,
}

/// One inline stage being written, at certain indices.
struct Frame {
    next: Option<OpId>,
    values: FxHashMap<ValueId, ValueId>,
    /// Where it does not hold, nothing may be read.
    guard: Option<ValueId>,
    /// The value of the frame below that this one gives, and, for a conditional load, the
    /// condition and what is taken elsewhere.
    gives: ValueId,
    choice: Option<(ValueId, ValueId)>,
    /// Under which the result is remembered.
    key: (OpId, SmallVec<[ValueId; 4]>, Option<ValueId>),
}

impl Copier<'_> {
    /// Copies what stands in `from` to the block of that number of an operation.
    fn copy(&mut self, body: &mut Body, from: BlockId, (to, number): (OpId, usize)) {
        let source = self.source;
        let block = body.region_block(to, number);
        let mut values = FxHashMap::default();
        for &arg in source.block_args(from) {
            let copy = body.add_block_arg(block, source.ty(arg));
            body.set_name_hint(copy, source.name_hint(arg));
            values.insert(arg, copy);
        }
        let mut e = Expression::new(body, block);
        let mut remembered: FxHashMap<(OpId, SmallVec<[ValueId; 4]>, Option<ValueId>), ValueId> =
            FxHashMap::default();
        // Inline stages may read inline stages, many deep: frames on a stack of our own.
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = source.first_op(from);
        let mut guard: Option<ValueId> = None;
        while let Some(op) = next {
            next = source.next_op(op);
            if let Some(end) = source.view::<Yield>(op) {
                let results: SmallVec<[ValueId; 2]> =
                    end.values.iter().map(|v| values[v]).collect();
                let Some(frame) = frames.pop() else {
                    let parts = OpParts::new(source.op_name(op), &results, &[]);
                    e.body.insert_op(InsertPoint::End(block), parts);
                    return;
                };
                remembered.insert(frame.key, results[0]);
                let value = match frame.choice {
                    Some((condition, otherwise)) => e.select(condition, results[0], otherwise),
                    None => results[0],
                };
                (next, guard, values) = (frame.next, frame.guard, frame.values);
                values.insert(frame.gives, value);
                continue;
            }
            let load = source.view::<Load>(op).map(|load| (load.tensor, load.indices, None));
            let load = load.or_else(|| {
                let LoadIf { condition, otherwise, tensor, indices } = source.view(op)?;
                Some((tensor, indices, Some((values[&condition], values[&otherwise]))))
            });
            let Some((tensor, indices, choice)) = load else {
                let mut operands: SmallVec<[ValueId; 4]> =
                    source.operands(op).map(|v| values[&v]).collect();
                if let (Some(guard), Some(_)) = (guard, source.view::<Check>(op)) {
                    // What is not used may be anything, but is not computed with.
                    let unused = e.scalar(ScalarOp::Not, &[guard]);
                    operands[1] = e.select(operands[0], operands[1], operands[2]);
                    operands[0] = e.or(unused, operands[0]);
                }
                let result = source.result(op, 0);
                let dtype = number_of(source, result);
                let copy = e.write_named(source.op_name(op), operands, source.attrs(op), dtype);
                values.insert(result, copy);
                continue;
            };
            let indices: SmallVec<[ValueId; 4]> = indices.iter().map(|v| values[v]).collect();
            let result = source.result(op, 0);
            let condition = match (guard, choice) {
                (Some(guard), Some((condition, _))) => Some(e.and(guard, condition)),
                (guard, choice) => guard.or(choice.map(|(condition, _)| condition)),
            };
            let Some(&producer) = self.inline.get(&tensor) else {
                let dtype = number_of(source, result);
                let tensor = self.tensors[&tensor];
                let copy = match condition {
                    None => e.write(&Load { tensor, indices: indices.to_vec() }, dtype),
                    Some(condition) => {
                        // What is taken elsewhere is not used; 1 is a divisor like any other.
                        let otherwise = match choice {
                            Some((_, otherwise)) => otherwise,
                            None => e.constant(dtype, Scalar::Int(1)),
                        };
                        let indices = indices.to_vec();
                        e.write(&LoadIf { condition, otherwise, tensor, indices }, dtype)
                    }
                };
                values.insert(result, copy);
                continue;
            };
            let key = (producer, indices.clone(), condition);
            if let Some(&known) = remembered.get(&key) {
                let value = match choice {
                    Some((condition, otherwise)) => e.select(condition, known, otherwise),
                    None => known,
                };
                values.insert(result, value);
                continue;
            }
            let inner = source.region_block(producer, 0);
            let args = source.block_args(inner).iter().copied().zip(indices).collect();
            let outer = std::mem::replace(&mut values, args);
            frames.push(Frame { next, values: outer, guard, gives: result, choice, key });
            guard = condition;
            next = source.first_op(inner);
        }
    }
}
