//! Edits that the reducer of programs leaves to this dialect.

use ir_core::{Body, FunctionType, OpId, Type, TypeData, ValueId};

use super::{Call, Fn, fn_params, fn_self};

/// Removes parameter `index` of the function that `op`, a `relay.fn` or `relay.global`, is, with the
/// argument from its calls; `false`, and nothing is done, where the function is used otherwise, or the
/// parameter is used.
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
