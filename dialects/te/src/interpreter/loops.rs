//! Decoding kernels: loops become jumps.

use indexmap::IndexMap;
use ir_core::{Body, EntityId, Module, OpId, Symbol};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::code::{Assembler, Code, Instruction, OpenLoop};
use super::compute::{self, Evaluation};
use super::races::Concurrency;
use super::{Error, Options, Order};
use crate::compute::counts::bounds;
use crate::compute::{Combiner, FUNC, Yield, updates};
use crate::loops::{
    Alloc, Atomic, Barrier, Call, Fetch, For, ForKind, If, Scope, Store, ThreadAxis, output_count,
    thread_axis,
};
use crate::scalar::ScalarOp;

/// Called kernels, in the order of their [`Code`]s after the first.
type Callees = IndexMap<Symbol, usize, FxBuildHasher>;

/// The instructions of a kernel, then those of all that it calls.
pub(super) fn decode(
    module: &Module,
    body: &Body,
    outputs: usize,
    options: Options,
) -> Result<Vec<Code>, Error> {
    let mut callees = Callees::default();
    let mut codes = vec![decode_body(module, body, outputs, options, &mut callees)?];
    codes[0].reads_undefined = options.reads_undefined;
    codes[0].gives_undefined = options.reads_undefined;
    while let Some((&name, &outputs)) = callees.get_index(codes.len() - 1) {
        let missing = || Error::new("E0854", format!("there is no kernel `@{name}` with a body"));
        let item = module.get(name).ok_or_else(missing)?;
        let body = item.body.as_ref().ok_or_else(missing)?;
        let span = item.signature.span;
        let how = Evaluation { order: options.parallel, wide: true };
        let code = match item.signature.op == FUNC {
            true => compute::decode(body, how, updates(item))
                .and_then(|code| returns_buffers(code, outputs)),
            false => decode_body(module, body, outputs, options, &mut callees),
        };
        let mut code = code.map_err(|error| Error {
            kernel: Some(name),
            loc: error.loc.outside(span),
            ..error
        })?;
        code.kernel = Some(name);
        // What lies beyond counts may be read, and is used for nothing.
        code.reads_undefined = item.signature.op != FUNC && !bounds(&item.signature).is_empty();
        code.span = span;
        codes.push(code);
    }
    Ok(codes)
}

/// Requires that a compute function fills a buffer of its own for each of its results.
fn returns_buffers(code: Code, outputs: usize) -> Result<Code, Error> {
    let distinct: FxHashSet<usize> = code.slots().collect();
    match distinct.len() == code.params + outputs && code.results.len() == outputs {
        true => Ok(code),
        false => Err(Error::new("E0854", "a called compute function returns distinct stages")),
    }
}

/// What to do at the end of a block.
enum Open {
    Entry,
    Loop {
        open: OpenLoop,
        thread: bool,
    },
    /// The first block of the `te.if`, whose branch instruction is at `branch`.
    Then {
        op: OpId,
        branch: usize,
    },
    /// The second, with the jump over it.
    Else {
        jump: usize,
    },
}

fn decode_body(
    module: &Module,
    body: &Body,
    outputs: usize,
    options: Options,
    callees: &mut Callees,
) -> Result<Code, Error> {
    let mut code = Assembler::new(body, outputs)?;
    code.code.results = (code.code.inputs as u32..code.code.params as u32).collect();
    let mut threads = 0usize;
    let mut stack = vec![(body.first_op(body.entry()), Open::Entry)];
    while let Some((next, open)) = stack.pop() {
        let Some(op) = next else {
            match open {
                Open::Entry => {}
                Open::Loop { open, thread } => {
                    threads -= usize::from(thread);
                    code.close_loop(open);
                }
                Open::Then { op, branch } => match body.regions(op).get(1) {
                    Some(region) => {
                        let jump = code.emit(Instruction::Jump { to: 0 });
                        code.land(branch);
                        let block = body.block_of(*region);
                        stack.push((body.first_op(block), Open::Else { jump }));
                    }
                    None => code.land(branch),
                },
                Open::Else { jump } => code.land(jump),
            }
            continue;
        };
        stack.push((body.next_op(op), open));
        code.at(op);
        if let Some(For { kind, extent, thread, limit }) = body.view(op) {
            let block = body.regions(op).first().map(|region| body.block_of(*region));
            let Some((block, &[index])) = block.map(|block| (block, body.block_args(block))) else {
                return Err(code.refuse("expected a block of one argument"));
            };
            let concurrent = !matches!(kind, ForKind::Serial | ForKind::Unrolled);
            let order = if concurrent { options.parallel } else { Order::Forward };
            let axis = thread.as_deref().and_then(thread_axis);
            let thread = matches!(axis, Some(ThreadAxis::Thread(_)));
            threads += usize::from(thread);
            let index = code.define(index)?;
            let limit = limit.map(|limit| code.read(limit, 1)).transpose()?;
            let open = code.open_loop(extent, limit, index, order);
            if concurrent {
                let how = match axis {
                    Some(ThreadAxis::Block(_)) => Concurrency::Block,
                    Some(ThreadAxis::Thread(axis)) => Concurrency::Thread(axis),
                    None => Concurrency::Loop,
                };
                code.make_concurrent(&open, how);
            }
            stack.push((body.first_op(block), Open::Loop { open, thread }));
        } else if let Some(If { condition }) = body.view(op) {
            let Some(region) = body.regions(op).first() else {
                return Err(code.refuse("it has no block"));
            };
            let condition = code.read(condition, 1)?;
            let branch = code.emit(Instruction::Branch { condition, otherwise: 0 });
            let first = body.first_op(body.block_of(*region));
            stack.push((first, Open::Then { op, branch }));
        } else if body.view::<Yield>(op).is_some_and(|end| end.values.is_empty()) {
            // The end of a kernel.
        } else if body.view::<Fetch>(op).is_some() {
            // It changes nothing.
        } else if body.view::<Barrier>(op).is_some() {
            if threads > 0 {
                return Err(code
                    .refuse("a barrier inside a loop over the threads of a block")
                    .help("end the thread loops before the barrier and start new ones after it"));
            }
            code.emit(Instruction::Barrier);
        } else if !write_statement(&mut code, module, op, callees)? && !code.expression(op)? {
            return Err(code.refuse("it is no operation of kernels"));
        }
    }
    code.emit(Instruction::Return);
    Ok(code.code)
}

/// Writes `op`, where it allocates, stores or calls.
fn write_statement(
    code: &mut Assembler<'_>,
    module: &Module,
    op: OpId,
    callees: &mut Callees,
) -> Result<bool, Error> {
    let body = code.body;
    if let Some(alloc) = body.view::<Alloc>(op) {
        let number = code.code.buffers.len() + 1 - code.code.params;
        let buffer = code.add_buffer(body.result(op, 0), &format!("allocation {number}"))?;
        code.emit(Instruction::Alloc { buffer, shared: alloc.scope == Scope::Shared });
    } else if let Some(Store { value, buffer, indices, .. }) = body.view(op) {
        let lanes = code.dtype(value)?.lanes();
        let (value, buffer) = (code.read(value, lanes)?, code.writable(buffer)?);
        let access = code.access(buffer, &indices, lanes)?;
        code.emit(Instruction::Store { lanes, value, access });
    } else if let Some(Atomic { combiner, value, buffer, indices }) = body.view(op) {
        let op = match combiner {
            Combiner::Sum => ScalarOp::Add,
            Combiner::Max => ScalarOp::Max,
            Combiner::Min => ScalarOp::Min,
            other => return Err(code.refuse(format!("no atomic `{}`", other.name()))),
        };
        let dtype = code.dtype(value)?;
        let (value, buffer) = (code.read(value, dtype.lanes())?, code.writable(buffer)?);
        let access = code.access(buffer, &indices, dtype.lanes())?;
        code.emit(Instruction::Atomic { op, dtype, value, access });
    } else if let Some(call) = body.view::<Call>(op) {
        let (kernel, buffers) = (call.kernel, call.buffers());
        let outputs = module.get(kernel).and_then(|item| output_count(&item.signature));
        let Some(inputs) = outputs.and_then(|outputs| buffers.len().checked_sub(outputs)) else {
            return Err(code.refuse(format!("there is no kernel `@{kernel}` of such buffers")));
        };
        let (read, written) = buffers.split_at(inputs);
        let mut seen: FxHashSet<usize> = read.iter().map(|value| value.index()).collect();
        let mut slots = Vec::new();
        for &value in read {
            slots.push(code.buffer(value)?);
        }
        for &value in written {
            slots.push(code.writable(value)?);
            if !seen.insert(value.index()) {
                return Err(code.refuse("a result is also another of its buffers"));
            }
        }
        let offsets: Result<Box<[_]>, Error> =
            call.offsets().iter().map(|offset| code.read(*offset, 1)).collect();
        let offsets = offsets?;
        if call.parts && offsets.len() != slots.len() {
            return Err(code.refuse("expected an offset for each buffer"));
        }
        let entry = callees.entry(kernel);
        let callee = entry.index() + 1;
        entry.or_insert(written.len());
        code.emit(Instruction::Call { code: callee, buffers: slots.into(), offsets });
    } else {
        // The end of a block, which gives nothing.
        return Ok(body.view::<Yield>(op).is_some_and(|end| end.values.is_empty()));
    }
    Ok(true)
}
