//! Decoding compute functions: every stage becomes loops over its elements.

use ir_core::{BlockId, Body, DType, OpId, Scalar, SmallVec, ValueId};

use super::code::{Assembler, Code, Instruction, OpenLoop, Register};
use super::{Error, Order};
use crate::compute::{Combiner, Reduce, Return, Scan, Scatter, Stage, Yield, combiner};
use crate::scalar::ScalarOp;

/// In which order and with which precision stages are computed.
#[derive(Clone, Copy)]
pub(super) struct Evaluation {
    /// The order of all axes.
    pub(super) order: Order,
    /// Whether sums and products of floats accumulate in `f64`, not in their type.
    pub(super) wide: bool,
}

impl Evaluation {
    /// The type of the accumulator of values of type `dtype`.
    fn accumulator(self, combiner: Combiner, dtype: DType) -> DType {
        match combiner {
            Combiner::Sum | Combiner::Product if dtype.is_float() && self.wide => DType::FLOAT64,
            _ => dtype,
        }
    }
}

/// The instructions of a compute function. With `update`, its only stage combines into what its
/// result holds.
pub(super) fn decode(body: &Body, how: Evaluation, update: bool) -> Result<Code, Error> {
    let mut code = Assembler::new(body, 0)?;
    for op in body.block_ops(body.entry()) {
        code.at(op);
        if let Some(stage) = Stage::of(body, op) {
            write_stage(&mut code, &stage, how, update)?;
        } else if let Some(Return { tensors }) = body.view(op) {
            for tensor in tensors {
                let result = code.buffer(tensor)?;
                code.code.results.push(result);
            }
        } else if !code.expression(op)? {
            return Err(code.refuse("it is no stage of a compute function"));
        }
    }
    code.emit(Instruction::Return);
    Ok(code.code)
}

fn write_stage(
    code: &mut Assembler<'_>,
    stage: &Stage,
    how: Evaluation,
    update: bool,
) -> Result<(), Error> {
    let body = code.body;
    let mut results = SmallVec::<[u32; 2]>::new();
    for (number, result) in body.results(stage.op).enumerate() {
        let buffer = code.add_buffer(result, "")?;
        let name = match body.result_count(stage.op) {
            1 => format!("`{}`", stage.name),
            _ => format!("result {} of `{}`", number + 1, stage.name),
        };
        code.code.buffers[buffer as usize].name = name;
        if !update {
            code.emit(Instruction::Alloc { buffer, shared: false });
        }
        results.push(buffer);
    }
    if body.is::<Scatter>(stage.op) {
        return write_scatter(code, stage, &results, how);
    }
    let Some(region) = body.regions(stage.op).first() else {
        return Err(code.refuse("it has no block"));
    };
    let block = body.block_of(*region);
    let args = body.block_args(block);
    let scan = body.view::<Scan>(stage.op);
    let state = scan.as_ref().map_or(0, |scan| scan.initial.len());
    if args.len() != stage.shape.len() + stage.reduction.len() + state {
        return Err(code.refuse("its block takes another number of indices than it has axes"));
    }
    let (spatial, reduction) = args.split_at(stage.shape.len());
    code.code.gives_undefined |= !stage.counts.is_empty();
    let limits = read_counts(code, stage)?;
    let (ends, reduction_ends) = limits.split_at(stage.shape.len());
    let (reduction, state) = reduction.split_at(stage.reduction.len());
    let axes = spatial.iter().zip(&stage.shape).zip(ends);
    let axes: Vec<_> = axes.map(|((index, extent), end)| (*index, *extent, *end)).collect();
    let (mut loops, mut registers) = (Vec::new(), SmallVec::new());
    match (&scan, stage.scan.and_then(|axis| axes.get(axis))) {
        (Some(scan), Some(along)) => {
            let others = axes.iter().filter(|axis| axis.0 != along.0);
            open_loops(code, others.copied(), how.order, &mut loops)?;
            registers = write_initial(code, scan, state)?;
            open_loops(code, [*along].into_iter(), Order::Forward, &mut loops)?;
        }
        (Some(_), None) => return Err(code.refuse("it has no axis to scan along")),
        (None, _) => open_loops(code, axes.into_iter(), how.order, &mut loops)?,
    }
    let indices: SmallVec<[(Register, u32); 4]> =
        spatial.iter().map(|index| Ok((code.read(*index, 1)?, 0))).collect::<Result<_, Error>>()?;
    let values = match body.view::<Reduce>(stage.op) {
        Some(reduce) => {
            write_reduction(code, stage.op, &reduce, block, (reduction, reduction_ends), how)?
        }
        None => write_block(code, block)?,
    };
    if values.len() != results.len() + registers.len() {
        return Err(code.refuse(format!("{} values for {} results", values.len(), results.len())));
    }
    code.at(stage.op);
    for (&buffer, &value) in results.iter().zip(&values) {
        let access = code.access_registers(buffer, &indices)?;
        let value = match update {
            true => write_update(code, stage.op, access, value)?,
            false => value,
        };
        code.emit(Instruction::Store { lanes: 1, value, access });
    }
    // A step may give any of the old values.
    let next: Vec<Register> = registers.iter().map(|_| code.fresh(1)).collect();
    let moves = values[results.len()..].iter().zip(&next).chain(next.iter().zip(&registers));
    for (&from, &to) in moves {
        code.emit(Instruction::Copy { lanes: 1, from, step: 0, to });
    }
    loops.into_iter().rev().for_each(|open| code.close_loop(open));
    Ok(())
}

/// Writes the elements of a scatter, and then its updates one after the other.
fn write_scatter(
    code: &mut Assembler<'_>,
    stage: &Stage,
    results: &[u32],
    how: Evaluation,
) -> Result<(), Error> {
    let body = code.body;
    let blocks: SmallVec<[BlockId; 3]> =
        body.regions(stage.op).iter().map(|region| body.block_of(*region)).collect();
    let (&[initial, update, combine], &[buffer]) = (blocks.as_slice(), results) else {
        return Err(code.refuse("it has other blocks or results than a scatter"));
    };
    code.code.gives_undefined |= !stage.counts.is_empty();
    let limits = read_counts(code, stage)?;
    let (ends, update_ends) = limits.split_at(stage.shape.len());
    let phases = [
        (initial, &stage.shape, ends, how.order),
        (update, &stage.reduction, update_ends, Order::Forward),
    ];
    for (block, extents, ends, order) in phases {
        let args = body.block_args(block);
        if args.len() != extents.len() {
            return Err(code.refuse("its block takes another number of indices than it has axes"));
        }
        let axes = args.iter().zip(extents).zip(ends);
        let axes = axes.map(|((index, extent), end)| (*index, *extent, *end));
        let mut loops = Vec::new();
        open_loops(code, axes, order, &mut loops)?;
        let values = write_block(code, block)?;
        code.at(stage.op);
        let (&value, place) = values.split_last().ok_or_else(|| code.refuse("it has no value"))?;
        let indices: SmallVec<[(Register, u32); 4]> = match block == update {
            true => place.iter().map(|index| (*index, 0)).collect(),
            false => args
                .iter()
                .map(|index| Ok((code.read(*index, 1)?, 0)))
                .collect::<Result<_, Error>>()?,
        };
        let access = code.access_registers(buffer, &indices)?;
        let mut value = value;
        if block == update {
            let before = code.fresh(1);
            code.emit(Instruction::Load { lanes: 1, access, to: before });
            let &[old, new] = body.block_args(combine) else {
                return Err(code.refuse("its third block takes another number of values than two"));
            };
            code.bind(old, before);
            code.bind(new, value);
            let combined = write_block(code, combine)?;
            code.at(stage.op);
            value = *combined.first().ok_or_else(|| code.refuse("it combines to no value"))?;
        }
        code.emit(Instruction::Store { lanes: 1, value, access });
        loops.into_iter().rev().for_each(|open| code.close_loop(open));
    }
    Ok(())
}

/// Writes the state before the first element of `scan`; its registers, which `state` is bound to.
fn write_initial(
    code: &mut Assembler<'_>,
    scan: &Scan,
    state: &[ValueId],
) -> Result<SmallVec<[Register; 2]>, Error> {
    let mut registers = SmallVec::new();
    for (&value, initial) in state.iter().zip(&scan.initial) {
        let Some(initial) = initial.element(0).filter(|_| initial.rank() == 0) else {
            return Err(code.refuse("its state is no scalar"));
        };
        let (from, to) = (code.constant(initial), code.define(value)?);
        code.emit(Instruction::Copy { lanes: 1, from, step: 0, to });
        registers.push(to);
    }
    Ok(registers)
}

/// Writes the combination of `value` with the element that `access` stands for.
fn write_update(
    code: &mut Assembler<'_>,
    stage: OpId,
    access: u32,
    value: Register,
) -> Result<Register, Error> {
    let op = combiner(code.body, stage).and_then(Combiner::scalar);
    let tensor = code.body.ty(code.body.result(stage, 0)).as_tensor();
    let (Some(op), Some(tensor)) = (op, tensor) else {
        return Err(code.refuse("it combines into its result, and is no sum, product, max or min"));
    };
    let before = code.fresh(1);
    code.emit(Instruction::Load { lanes: 1, access, to: before });
    Ok(code.scalar(op, tensor.dtype, before, value))
}

/// The count at which each axis of `stage` ends, in a register, where it ends at one.
fn read_counts(code: &mut Assembler<'_>, stage: &Stage) -> Result<Vec<Option<Register>>, Error> {
    let axes = stage.shape.len() + stage.reduction.len();
    let mut counts = vec![None; axes];
    for (axis, register) in counts.iter_mut().enumerate() {
        let Some(count) = stage.count(axis) else { continue };
        let param = code.body.block_args(code.body.entry()).get(count);
        let Some(&param) = param else {
            return Err(code.refuse(format!("there is no parameter {count} to end at")));
        };
        let buffer = code.buffer(param)?;
        if code.code.buffers[buffer as usize].dtype != DType::INT64 {
            return Err(code.refuse("it ends at a count that is no int64"));
        }
        let (access, to) = (code.access_registers(buffer, &[])?, code.fresh(1));
        code.emit(Instruction::Load { lanes: 1, access, to });
        *register = Some(to);
    }
    Ok(counts)
}

/// Opens a loop for each of `axes`: an index, an extent, and a count at which it ends.
fn open_loops(
    code: &mut Assembler<'_>,
    axes: impl Iterator<Item = (ValueId, i64, Option<Register>)>,
    order: Order,
    loops: &mut Vec<OpenLoop>,
) -> Result<(), Error> {
    for (index, extent, end) in axes {
        let index = code.define(index)?;
        let open = code.open_loop(extent, end, index, order);
        if end.is_some() {
            code.make_counted(&open);
        }
        loops.push(open);
    }
    Ok(())
}

/// Writes the expressions of `block`; the registers of what it yields.
fn write_block(code: &mut Assembler<'_>, block: BlockId) -> Result<SmallVec<[Register; 2]>, Error> {
    for op in code.body.block_ops(block) {
        code.at(op);
        if let Some(Yield { values }) = code.body.view(op) {
            return values.iter().map(|value| code.read(*value, 1)).collect();
        }
        if !code.expression(op)? {
            return Err(code.refuse("it is no scalar expression"));
        }
    }
    Err(code.refuse("its block does not end with `te.yield`"))
}

/// Writes the combination of what `block` yields over the reduction axes; the registers of the
/// results.
fn write_reduction(
    code: &mut Assembler<'_>,
    op: OpId,
    reduce: &Reduce,
    block: BlockId,
    (indices, ends): (&[ValueId], &[Option<Register>]),
    how: Evaluation,
) -> Result<SmallVec<[Register; 2]>, Error> {
    let body = code.body;
    let mut dtypes = SmallVec::<[DType; 2]>::new();
    for result in body.results(op) {
        // The result has a buffer, so it is a tensor.
        dtypes.extend(body.ty(result).as_tensor().map(|tensor| tensor.dtype));
    }
    let mut accumulators = SmallVec::<[Register; 2]>::new();
    for number in 0..dtypes.len() {
        let Some(identity) = reduce.combiner.identity(number, &dtypes, &reduce.identity) else {
            return Err(code.refuse("a value has no identity"));
        };
        let (from, to) = (code.constant(identity), code.fresh(1));
        code.emit(Instruction::Copy { lanes: 1, from, step: 0, to });
        accumulators.push(to);
    }
    let mut loops = Vec::new();
    let axes = indices.iter().zip(&reduce.extents).zip(ends);
    let axes = axes.map(|((index, extent), end)| (*index, *extent, *end));
    open_loops(code, axes, how.order, &mut loops)?;
    let values = write_block(code, block)?;
    code.at(op);
    if values.len() != accumulators.len() {
        return Err(code.refuse("its block yields another number of values than it has results"));
    }
    let combined = combine(code, op, reduce.combiner, how, &dtypes, &accumulators, &values)?;
    code.at(op);
    // All are copied at the end: a combination may use any of the old values.
    for (&to, &from) in accumulators.iter().zip(&combined) {
        code.emit(Instruction::Copy { lanes: 1, from, step: 0, to });
    }
    loops.into_iter().rev().for_each(|open| code.close_loop(open));
    let mut results = SmallVec::new();
    for (&a, &dtype) in accumulators.iter().zip(&dtypes) {
        let (from, to) = (how.accumulator(reduce.combiner, dtype), code.fresh(1));
        code.emit(Instruction::Cast { from, dtype, a, to });
        results.push(to);
    }
    Ok(results)
}

fn combine(
    code: &mut Assembler<'_>,
    op: OpId,
    combiner: Combiner,
    how: Evaluation,
    dtypes: &[DType],
    old: &[Register],
    new: &[Register],
) -> Result<SmallVec<[Register; 2]>, Error> {
    let one = |code: &mut Assembler<'_>, op| {
        let dtype = how.accumulator(combiner, dtypes[0]);
        SmallVec::from_slice(&[code.scalar(op, dtype, old[0], new[0])])
    };
    if let (Some(op), [_]) = (combiner.scalar(), dtypes) {
        return Ok(one(code, op));
    }
    Ok(match (combiner, dtypes) {
        (Combiner::ArgMax | Combiner::ArgMin, &[index, value]) => {
            let better = match combiner {
                Combiner::ArgMax => ScalarOp::Gt,
                _ => ScalarOp::Lt,
            };
            let beats = code.scalar(better, value, new[1], old[1]);
            let ties = code.scalar(ScalarOp::Eq, value, new[1], old[1]);
            let earlier = code.scalar(ScalarOp::Lt, index, new[0], old[0]);
            let earlier = code.scalar(ScalarOp::And, DType::BOOL, ties, earlier);
            let condition = code.scalar(ScalarOp::Or, DType::BOOL, beats, earlier);
            let choose = |(&a, &b)| {
                let to = code.fresh(1);
                code.emit(Instruction::Select { lanes: 1, condition, a, b, to });
                to
            };
            new.iter().zip(old).map(choose).collect()
        }
        (Combiner::User, _) => {
            let Some(region) = code.body.regions(op).get(1) else {
                return Err(code.refuse("it has no block that combines"));
            };
            let block = code.body.block_of(*region);
            let args = code.body.block_args(block);
            if args.len() != old.len() + new.len() {
                return Err(code.refuse("its second block takes another number of values"));
            }
            for (&arg, &register) in args.iter().zip(old.iter().chain(new)) {
                code.bind(arg, register);
            }
            write_block(code, block)?
        }
        _ => {
            let count = dtypes.len();
            return Err(code.refuse(format!("`{}` of {count} values", combiner.name())));
        }
    })
}

impl Combiner {
    /// The operation that combines two numbers; `None` where it takes more than one.
    pub fn scalar(self) -> Option<ScalarOp> {
        match self {
            Combiner::Sum => Some(ScalarOp::Add),
            Combiner::Product => Some(ScalarOp::Mul),
            Combiner::Max => Some(ScalarOp::Max),
            Combiner::Min => Some(ScalarOp::Min),
            Combiner::ArgMax | Combiner::ArgMin | Combiner::User => None,
        }
    }

    /// What combining starts from, for value `number` of a reduction of values of `dtypes`;
    /// `identity` are those of the operation. `None` where there is none.
    ///
    /// For `argmax` and `argmin` it is the greatest index with the value that loses to all others
    /// and ties with itself, so that of equal values any real one wins, its index being lower.
    pub fn identity(
        self,
        number: usize,
        dtypes: &[DType],
        identity: &[ir_core::TensorData],
    ) -> Option<Scalar> {
        let dtype = *dtypes.get(number)?;
        let of = |float: f64, integer: i64| match dtype.is_float() {
            true => Scalar::Float(float),
            false => Scalar::Int(integer),
        };
        let least = of(f64::NEG_INFINITY, least_integer(dtype));
        let greatest = of(f64::INFINITY, greatest_integer(dtype));
        match self {
            Combiner::Sum => Some(of(0.0, 0)),
            Combiner::Product => Some(of(1.0, 1)),
            Combiner::Max => Some(least),
            Combiner::Min => Some(greatest),
            Combiner::ArgMax | Combiner::ArgMin if number == 0 => Some(greatest),
            Combiner::ArgMax => Some(least),
            Combiner::ArgMin => Some(greatest),
            Combiner::User => identity.get(number)?.element(0),
        }
    }
}

fn least_integer(dtype: DType) -> i64 {
    if dtype.is_signed() { i64::MIN >> (64 - dtype.bits()) } else { 0 }
}

/// The greatest integer of `dtype`, in the representation of [`Scalar::Int`].
fn greatest_integer(dtype: DType) -> i64 {
    match (dtype.is_signed(), dtype.bits()) {
        (true, bits) => i64::MAX >> (64 - bits),
        (false, bits) => (u64::MAX >> (64 - bits)) as i64,
    }
}
