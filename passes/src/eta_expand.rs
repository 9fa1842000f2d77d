//! Eta expansion.

use ir_core::{
    AttrDict, FuncMut, FunctionPass, InsertPoint, OpFields, OpId, OpParts, Pass, PassContext,
    PassResult,
};
use relay::language::{Call, Construct, Constructor, Global, create_fn, end_block};

/// Wraps constructors, and on request references to functions, that are used as values.
///
/// A use as the function of a call stays as it is.
///
/// ```relay
/// type Maybe[A] { Just(A), Nothing }
///
/// def @apply(%f: fn (int32) -> Maybe[int32], %x: int32) {
///   %f(%x)
/// }
///
/// def @main(%x: int32) {
///   @apply(Just, %x)
/// }
/// ```
/// becomes
/// ```relay
/// type Maybe[A] {
///   Just(A),
///   Nothing,
/// }
///
/// def @apply(%f: fn (int32) -> Maybe[int32], %x: int32) -> Maybe[int32] {
///   %f(%x)
/// }
///
/// def @main(%x: int32) -> Maybe[int32] {
///   %0 = fn [A] (%p: A) -> Maybe[A] {
///     Just(%p)
///   };
///   @apply(%0, %x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "eta-expand", function)]
pub struct EtaExpand {
    /// Expands constructors.
    #[default(true)]
    pub constructors: bool,
    /// Expands references to functions of the module.
    #[default(false)]
    pub globals: bool,
}

impl FunctionPass for EtaExpand {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let references: Vec<OpId> = f
            .body
            .walk()
            .filter(|op| {
                let name = f.body.op_name(*op);
                self.constructors && name == Constructor::NAME
                    || self.globals && name == Global::NAME
            })
            .collect();
        for op in references {
            cx.count("expanded", u64::from(expand(f, op)));
        }
        Ok(())
    }
}

/// Makes the uses of `op` as a value uses of a function that calls it; whether there are any.
fn expand(f: &mut FuncMut<'_>, op: OpId) -> bool {
    let value = f.body.result(op, 0);
    let is_callee =
        |body: &ir_core::Body, (user, index): (OpId, usize)| index == 0 && body.is::<Call>(user);
    let Some(function) = f.body.ty(value).as_function() else { return false };
    if f.body.uses(value).all(|used| is_callee(f.body, used)) {
        return false;
    }
    let (loc, ty) = (f.body.loc(op), f.body.ty(value));
    let at = InsertPoint::After(op);
    let wrapper = create_fn(f.body, at, loc, AttrDict::empty(), &function.params, function.result);
    let result = f.body.result(wrapper, 0);
    f.body.set_ty(result, ty);
    let block = f.body.region_block(wrapper, 0);
    let args = f.body.block_args(block).to_vec();
    f.body.replace_uses_where(value, result, |body, used| !is_callee(body, used));
    let types = [function.result];
    let end = InsertPoint::End(block);
    let call = match f.body.view::<Constructor>(op) {
        Some(constructor) => {
            let construct = Construct { name: constructor.name, fields: args };
            let (operands, attrs) = (construct.operands(), construct.attrs());
            let name = Construct::NAME;
            f.body.insert_op(end, OpParts::new(name, &operands, &types).attrs(attrs).at(loc))
        }
        None => {
            let call =
                Call { type_args: vec![], attributes: AttrDict::empty(), callee: value, args };
            let operands = call.operands();
            let name = Call::NAME;
            f.body.insert_op(end, OpParts::new(name, &operands, &types).at(loc))
        }
    };
    let called = f.body.result(call, 0);
    end_block(f.body, block, called);
    if f.body.is_unused(value) {
        f.body.erase(op);
    }
    true
}
