//! Calls with which a function ends.

use ir_core::{Body, InsertPoint, OpFields, OpParts, ValueId};
use prog::{Call, Tail, Yield};

/// Makes every call of `body` whose results are those of the function a tail call.
pub(super) fn mark(body: &mut Body) {
    let mut pending = vec![body.entry()];
    while let Some(block) = pending.pop() {
        let Some(last) = body.last_op(block) else { continue };
        let (Some(end), Some(op)) = (body.view::<Yield>(last), body.prev_op(last)) else {
            continue;
        };
        if !body.results(op).eq(end.values.iter().copied()) {
            continue;
        }
        if let Some(Call { function, arguments }) = body.view(op) {
            let tail = Tail { function, arguments };
            let loc = body.loc(op);
            body.erase(last);
            body.erase(op);
            let parts = OpParts::new(Tail::<ValueId>::NAME, &tail.arguments, &[]);
            body.insert_op(InsertPoint::End(block), parts.attrs(tail.attrs()).at(loc));
        } else {
            pending.extend(body.regions(op).iter().map(|region| body.block_of(*region)));
        }
    }
}
