//! What passes do alike to an `if` or a `match`.

use ir_core::{Body, InsertPoint, OpId, OpParts, Type, ValueId};
use relay::language::TupleGet;

/// Makes of `op` one that gives a tuple of its value and of values of the types `more`: it, and the
/// fields. The first field takes the place of the value. Its blocks still end with the value alone.
pub(crate) fn widen(body: &mut Body, op: OpId, more: &[Type]) -> (OpId, Vec<ValueId>) {
    let result = body.result(op, 0);
    let (loc, hint, plain) = (body.loc(op), body.name_hint(result), body.ty(result));
    let operands: Vec<ValueId> = body.operands(op).collect();
    let types: Vec<Type> = std::iter::once(plain).chain(more.iter().copied()).collect();
    let ty = [Type::tuple(types.iter().copied())];
    let count = body.regions(op).len();
    let parts = OpParts::new(body.op_name(op), &operands, &ty).attrs(body.attrs(op));
    let new = body.insert_op(InsertPoint::Before(op), parts.regions(count).at(loc));
    for index in 0..count {
        let (from, to) = (body.region_block(op, index), body.region_block(new, index));
        for arg in body.block_args(from).to_vec() {
            let copy = body.add_block_arg(to, body.ty(arg));
            body.set_name_hint(copy, body.name_hint(arg));
            body.set_argument_loc(copy, body.value_loc(arg));
            body.replace_all_uses(arg, copy);
        }
        body.move_block_ops(from, InsertPoint::End(to));
    }
    let tuple = body.result(new, 0);
    let mut fields = types.iter().enumerate().map(|(index, ty)| {
        let get = TupleGet { tuple, index: index as i64 };
        body.add(InsertPoint::Before(op), loc, &get, *ty)
    });
    let fields: Vec<ValueId> = fields.by_ref().collect();
    body.set_name_hint(fields[0], hint);
    body.replace_all_uses(result, fields[0]);
    body.erase(op);
    (new, fields)
}
