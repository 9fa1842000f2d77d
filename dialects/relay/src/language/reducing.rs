//! Edits that the reducer of programs leaves to this dialect.

use ir_core::{Body, FunctionType, InsertPoint, OpId, Type, TypeData, ValueId};

use super::{Call, Fn, fn_params, fn_self};

/// Removes parameter `index` of the function that `op`, a `relay.fn` or `relay.global`, is, with
/// the argument from its calls; `false`, and nothing is done, where the function is used otherwise,
/// or the parameter is used.
pub(super) fn drop_parameter(body: &mut Body, op: OpId, index: usize) -> bool {
    let is_fn = body.view::<Fn>(op).is_some();
    let own = if is_fn { fn_self(body, op) } else { None };
    let values: Vec<ValueId> = body.results(op).chain(own).collect();
    let Some(function) = values.first().and_then(|value| body.ty(*value).as_function()) else {
        return false;
    };
    let mut params = function.params.to_vec();
    let uses = values.iter().flat_map(|value| body.uses(*value));
    let mut calls = Vec::new();
    for (user, operand) in uses {
        match body.view::<Call>(user) {
            Some(_) if operand == 0 => calls.push(user),
            _ => return false,
        }
    }
    let used =
        is_fn && fn_params(body, op).get(index).is_none_or(|parameter| !body.is_unused(*parameter));
    if used || index >= params.len() {
        return false;
    }
    params.remove(index);
    let (type_params, result) = (function.type_params.clone(), function.result);
    let ty = FunctionType { type_params, params: params.into(), result };
    let ty = Type::new(TypeData::Function(ty));
    for call in calls {
        let mut operands: Vec<ValueId> = body.operands(call).collect();
        // The function comes first.
        if index + 1 < operands.len() {
            operands.remove(index + 1);
            body.set_operands(call, &operands);
        }
    }
    if is_fn {
        let block = body.region_block(op, 0);
        body.remove_block_arg(block, index);
    }
    for value in values {
        body.set_ty(value, ty);
    }
    true
}

/// Puts what the function that `op`, a `relay.fn`, makes computes in the place of its only call;
/// `false`, and nothing is done, where it is used otherwise or calls itself.
pub(super) fn open_function(body: &mut Body, op: OpId) -> bool {
    let only = |value: ValueId| {
        let mut uses = body.uses(value);
        uses.next().filter(|_| uses.next().is_none())
    };
    let calls_itself = fn_self(body, op).is_some_and(|own| !body.is_unused(own));
    let Some((call, 0)) = only(body.result(op, 0)).filter(|_| !calls_itself) else { return false };
    let (params, block) = (fn_params(body, op).to_vec(), body.region_block(op, 0));
    let arguments: Vec<ValueId> = body.operands(call).skip(1).collect();
    let value = body.last_op(block).and_then(|last| body.operands(last).next());
    let (Some(_), Some(value)) = (body.view::<Call>(call), value) else { return false };
    if arguments.len() != params.len() {
        return false;
    }
    // The value may be a parameter.
    let given = |value| params.iter().position(|param| *param == value);
    let value = given(value).map_or(value, |index| arguments[index]);
    for (param, argument) in params.iter().zip(arguments) {
        body.replace_all_uses(*param, argument);
    }
    if let Some(last) = body.last_op(block) {
        body.erase(last);
    }
    body.move_block_ops(block, InsertPoint::Before(call));
    body.replace_all_uses(body.result(call, 0), value);
    body.erase(call);
    body.erase(op);
    true
}
