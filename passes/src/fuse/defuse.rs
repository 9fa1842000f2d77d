//! The inverse of fusion.

use ir_core::{
    FuncMut, FunctionPass, InsertPoint, OpId, OpParts, Pass, PassContext, PassResult, ValueId,
};
use relay::language::{Call, Tuple, TupleGet, fn_attributes, fn_params, is_primitive, yielded};
use rustc_hash::FxHashMap;

/// Expands kernels back into operators.
///
/// Every call of a function marked `Primitive=1` is replaced by a copy of the function's
/// operations; the functions disappear once nothing calls them. `fuse` followed by `defuse` gives
/// the program back.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   %0 = fn (%p0: Tensor[(4), float32], Primitive=1) { exp(%p0) };
///   %0(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   exp(%x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "defuse", function)]
pub struct Defuse {}

impl FunctionPass for Defuse {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        cx.count("calls expanded", expand_kernels(f, |_| true));
        Ok(())
    }
}

/// Replaces calls of the kernels that `chosen` chooses by what they compute; how many there were.
pub fn expand_kernels(f: &mut FuncMut<'_>, chosen: impl Fn(OpId) -> bool) -> u64 {
    let mut kernels: Vec<OpId> = vec![];
    for op in f.all::<Call>() {
        let Some(call) = f.view::<Call>(op) else { continue };
        let Some(kernel) = f.body.defining_op(call.callee) else { continue };
        if is_primitive(fn_attributes(f.body, kernel)) && chosen(kernel) {
            expand(f, op, kernel, &call.args);
            kernels.push(kernel);
        }
    }
    for &kernel in &kernels {
        if f.body.is_live(kernel) && f.body.is_unused(f.body.result(kernel, 0)) {
            f.body.erase(kernel);
        }
    }
    kernels.len() as u64
}

/// Replaces `call` by a copy of what `kernel` does. Kernels hold no regions.
fn expand(f: &mut FuncMut<'_>, call: OpId, kernel: OpId, args: &[ValueId]) {
    let block = f.body.region_block(kernel, 0);
    let mut copies: FxHashMap<ValueId, ValueId> =
        fn_params(f.body, kernel).iter().copied().zip(args.iter().copied()).collect();
    let result = yielded(f.body, block).expect("a kernel yields a value");
    let ops: Vec<OpId> = f.body.block_ops(block).collect();
    let (_, ops) = ops.split_last().expect("a kernel ends with its yield");
    for &op in ops {
        let operands: Vec<ValueId> =
            f.body.operands(op).map(|v| copies.get(&v).copied().unwrap_or(v)).collect();
        let types = [f.body.ty(f.body.result(op, 0))];
        let parts = OpParts::new(f.body.op_name(op), &operands, &types)
            .attrs(f.body.attrs(op))
            .at(f.body.loc(op));
        let copy = f.body.insert_op(InsertPoint::Before(call), parts);
        copies.insert(f.body.result(op, 0), f.body.result(copy, 0));
    }
    let value = copies.get(&result).copied().unwrap_or(result);
    project(f, call, value);
    f.replace(call, value);
    if let Some((tuple, _)) = f.body.view_def::<Tuple>(value)
        && f.body.is_unused(value)
    {
        f.body.erase(tuple);
    }
}

/// Lets who reads a result of `call` read the field of `value`, where that is a tuple of them.
fn project(f: &mut FuncMut<'_>, call: OpId, value: ValueId) {
    let Some((_, Tuple { fields })) = f.body.view_def::<Tuple>(value) else { return };
    let users: Vec<OpId> = f.body.uses(f.body.result(call, 0)).map(|(user, _)| user).collect();
    for user in users {
        let Some(TupleGet { index, .. }) = f.view::<TupleGet>(user) else { continue };
        f.replace(user, fields[index as usize]);
    }
}
