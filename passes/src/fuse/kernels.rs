//! Factors groups into kernel functions.

use ir_core::{
    AttrDict, BlockId, FuncMut, InsertPoint, Loc, OpId, OpParts, PassContext, PassResult, Symbol,
    Type, ValueId,
};
use relay::language::{Call, Constant, RESHAPE_ONLY, Tuple, TupleGet, create_fn, end_block};
use relay_operators::annotation::StopFusion;
use relay_operators::{FusionPattern, ReshapeOnly};
use rustc_hash::FxHashMap;

use super::graph;

/// Structure of a kernel with its parameters numbered: equal keys compute equal functions.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    params: Vec<Type>,
    /// With the types of their results, which may depend on the values of constants outside.
    ops: Vec<(Symbol, AttrDict, Type, Vec<Source>)>,
    /// The numbers of the operations that are results besides the last one.
    also: Vec<usize>,
}

/// Where a kernel's operation takes an operand from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Param(usize),
    Op(usize),
    Constant(AttrDict),
}

/// What one kernel computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kernel {
    /// Its operations, each after those that it reads; the last one is the result.
    pub(super) members: Vec<OpId>,
    /// Operations of it that are results too, in their order. What reads them comes after the last
    /// operation.
    pub(super) also: Vec<OpId>,
}

/// Makes `kernels`, each of which comes after those that it reads. An operation may be in several of
/// them, and is then computed in each. The function of a kernel of several results yields a tuple.
pub(super) fn outline(
    f: &mut FuncMut<'_>,
    cx: &mut PassContext<'_>,
    kernels: &[Kernel],
) -> PassResult {
    let mut outlined: Vec<&Kernel> = vec![];
    for kernel in kernels {
        match kernel.members.as_slice() {
            [only] if f.body.is::<StopFusion>(*only) => {
                let value = f.body.operand(*only, 0);
                f.replace(*only, value);
            }
            // Tuples and projections alone compute nothing.
            members if members.iter().all(|op| is_plumbing(f, *op)) => {}
            _ => outlined.push(kernel),
        }
    }
    let described: Vec<(Key, Vec<ValueId>)> =
        outlined.iter().map(|kernel| describe(f, kernel)).collect();
    let mut functions: FxHashMap<Key, ValueId> = FxHashMap::default();
    let mut results: Vec<(ValueId, ValueId)> = vec![];
    for (kernel, (key, args)) in outlined.iter().zip(described) {
        cx.count("kernels", 1);
        cx.count("operators in kernels", kernel.members.len() as u64);
        cx.count("kernels of several results", u64::from(!kernel.also.is_empty()));
        results.extend(call(f, kernel, key, &args, &mut functions));
    }
    for (old, new) in results {
        f.body.replace_all_uses(old, new);
    }
    // Users first: members come before what reads them, and kernels before those that read them.
    for op in outlined.iter().rev().flat_map(|kernel| kernel.members.iter().rev()) {
        if f.body.is_live(*op) && f.body.is_unused(f.body.result(*op, 0)) {
            f.body.erase(*op);
        }
    }
    Ok(())
}

/// Whether `op` only groups or selects values.
pub(super) fn is_plumbing(f: &FuncMut<'_>, op: OpId) -> bool {
    let name = f.body.op_name(op);
    name == Tuple::NAME || name == TupleGet::NAME
}

/// Calls `kernel`, described by `key`, on `args`, where its last member stands; its results, each
/// with what now is its value.
fn call(
    f: &mut FuncMut<'_>,
    kernel: &Kernel,
    key: Key,
    args: &[ValueId],
    kernels: &mut FxHashMap<Key, ValueId>,
) -> Vec<(ValueId, ValueId)> {
    let &root = kernel.members.last().expect("a kernel has members");
    let results = kernel.also.iter().chain([&root]);
    let results: Vec<ValueId> = results.map(|op| f.body.result(*op, 0)).collect();
    let types: Vec<Type> = results.iter().map(|result| f.body.ty(*result)).collect();
    let result_type = match types.as_slice() {
        [only] => *only,
        several => Type::tuple(several.iter().copied()),
    };
    // The root first: messages point there.
    let loc = Loc::fused(kernel.members.iter().rev().map(|op| f.body.loc(*op)));
    let function = kernels.get(&key).copied();
    // Groups come in another order than the program's; the kernel stands before all its calls.
    if let Some(made) = function.and_then(|function| f.body.defining_op(function))
        && f.body.is_before(root, made)
    {
        f.body.move_op(made, InsertPoint::Before(root));
    }
    let function = function.unwrap_or_else(|| {
        let attributes = attributes(f, kernel);
        let at = InsertPoint::Before(root);
        let op = create_fn(f.body, at, loc, attributes, &key.params, result_type);
        let block = f.body.region_block(op, 0);
        fill(f, block, &kernel.members, &key);
        f.body.result(op, 0)
    });
    kernels.insert(key, function);
    let call = Call {
        type_args: vec![],
        attributes: AttrDict::empty(),
        callee: function,
        args: args.to_vec(),
    };
    let call = f.body.add(InsertPoint::Before(root), loc, &call, result_type);
    let mut values: Vec<(ValueId, ValueId)> = Vec::with_capacity(results.len());
    for (index, (&result, ty)) in results.iter().zip(types).enumerate() {
        let mut value = call;
        if results.len() > 1 {
            let get = TupleGet { tuple: call, index: index as i64 };
            value = f.body.add(InsertPoint::Before(root), loc, &get, ty);
        }
        let hint = f.body.name_hint(result);
        f.body.set_name_hint(value, hint);
        values.push((result, value));
    }
    values
}

/// The structure of a group and the values it takes from outside, in order of first use.
fn describe(f: &FuncMut<'_>, kernel: &Kernel) -> (Key, Vec<ValueId>) {
    let (body, Kernel { members, also }) = (&*f.body, kernel);
    let inside: FxHashMap<ValueId, usize> =
        members.iter().enumerate().map(|(i, op)| (body.result(*op, 0), i)).collect();
    let mut args: Vec<ValueId> = vec![];
    let mut param_of: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut ops = Vec::with_capacity(members.len());
    for &op in members {
        let name = body.op_name(op);
        let pattern = match f.registry.hook::<FusionPattern>(name) {
            Some(pattern) => *pattern,
            None if name == TupleGet::NAME => FusionPattern::Injective,
            None => FusionPattern::Tuple,
        };
        let sources = body.operands(op).map(|operand| {
            if let Some(&index) = inside.get(&operand) {
                return Source::Op(index);
            }
            if graph::joins_as_constant(pattern)
                && graph::is_copied_constant(f.registry, body, operand)
                && let Some(constant) = body.defining_op(operand)
            {
                return Source::Constant(body.attrs(constant));
            }
            Source::Param(*param_of.entry(operand).or_insert_with(|| {
                args.push(operand);
                args.len() - 1
            }))
        });
        let ty = body.ty(body.result(op, 0));
        ops.push((name, body.attrs(op), ty, sources.collect()));
    }
    let params = args.iter().map(|arg| body.ty(*arg)).collect();
    let also = also.iter().filter_map(|op| inside.get(&body.result(*op, 0)).copied()).collect();
    (Key { params, ops, also }, args)
}

/// `Primitive=1`, and `relay.reshape_only=1` where the kernel only changes the shape.
fn attributes(f: &FuncMut<'_>, Kernel { members, also }: &Kernel) -> AttrDict {
    let reshapes = |op: &OpId| f.registry.hook::<ReshapeOnly>(f.body.op_name(*op)).is_some();
    let attributes = AttrDict::empty().with("Primitive", &1i64);
    if also.is_empty() && members.iter().all(reshapes) {
        attributes.with(RESHAPE_ONLY, &1i64)
    } else {
        attributes
    }
}

/// Writes the operations of a kernel into its block.
fn fill(f: &mut FuncMut<'_>, block: BlockId, members: &[OpId], key: &Key) {
    let mut values: Vec<ValueId> = Vec::with_capacity(members.len());
    for (&op, (name, attrs, ty, sources)) in members.iter().zip(&key.ops) {
        let mut operands: Vec<ValueId> = Vec::with_capacity(sources.len());
        for (position, source) in sources.iter().enumerate() {
            operands.push(match *source {
                Source::Param(index) => f.body.block_args(block)[index],
                Source::Op(index) => values[index],
                Source::Constant(attrs) => {
                    let types = [f.body.ty(f.body.operand(op, position))];
                    let parts = OpParts::new(Constant::NAME, &[], &types).attrs(attrs);
                    let constant = f.body.insert_op(InsertPoint::End(block), parts);
                    f.body.result(constant, 0)
                }
            });
        }
        let types = [*ty];
        let parts = OpParts::new(*name, &operands, &types).attrs(*attrs).at(f.body.loc(op));
        let copy = f.body.insert_op(InsertPoint::End(block), parts);
        values.push(f.body.result(copy, 0));
    }
    if let Some(&last) = values.last() {
        let result = match key.also.as_slice() {
            [] => last,
            also => {
                let fields: Vec<ValueId> =
                    also.iter().map(|index| values[*index]).chain([last]).collect();
                let ty = Type::tuple(fields.iter().map(|field| f.body.ty(*field)));
                f.body.add(InsertPoint::End(block), Loc::UNKNOWN, &Tuple { fields }, ty)
            }
        };
        end_block(f.body, block, result);
    }
    let params = f.body.block_args(block).to_vec();
    for (index, param) in params.into_iter().enumerate() {
        let name = Some(Symbol::new(&format!("p{index}")));
        let binding = ir_core::Binding::Graph;
        f.body.set_name_hint(param, ir_core::NameHint { name, binding });
    }
}
