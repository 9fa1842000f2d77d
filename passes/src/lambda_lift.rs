//! Lambda lifting.

use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, FunctionType, InsertPoint, Item, Loc, Module, ModulePass, OpId, Pass,
    PassContext, PassResult, Span, Symbol, Type, TypeData, ValueId, ValueMap,
};
use relay::language::{
    Call, Constant, Constructor, FUNC, Fn, Global, Operator, end_block, fn_attributes, fn_params,
    fn_self, is_primitive, yielded,
};
use relay::types::free_parameters;
use rustc_hash::FxHashSet;

/// Moves nested functions to the top level.
///
/// A function that captures nothing becomes a function of the module; one that captures values
/// becomes a function of the module, marked `Closure=1`, that takes them and returns it. A
/// recursive closure calls that function again for itself. Kernels (`Primitive=1`) stay. The new
/// functions are called `<enclosing>_lambda`, with a number where that is taken.
///
/// ```relay
/// def @main(%x: float32) {
///   let %f = fn (%y: float32) { add(%x, %y) };
///   %f(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: float32) -> float32 {
///   let %f = @main_lambda(%x);
///   %f(%x)
/// }
///
/// def @main_lambda(%x: float32, Closure=1) -> fn (float32) -> float32 {
///   let %f = fn (%y: float32) -> float32 {
///     add(%x, %y)
///   };
///   %f
/// }
/// ```
#[derive(Pass)]
#[pass(name = "lambda-lift", module)]
pub struct LambdaLift {}

impl ModulePass for LambdaLift {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let functions: Vec<Symbol> = module
            .items
            .iter()
            .filter(|(_, item)| item.signature.op == FUNC && !is_primitive(item.signature.attrs))
            .map(|(name, _)| *name)
            .collect();
        for name in functions {
            let Some(item) = module.items.get(&name) else { continue };
            // A function marked `Closure=1` has the form that lifting makes.
            if item.signature.attrs.value::<i64>("Closure") == Some(1) {
                continue;
            }
            let Some(shared) = item.body.clone() else { continue };
            if !shared.walk().any(|op| is_liftable(&shared, op)) {
                continue;
            }
            let mut body = Body::clone(&shared);
            let base = item.signature.span;
            let mut names = FreshNames::default();
            for op in shared.post_order() {
                if !is_liftable(&shared, op) {
                    continue;
                }
                let base_name = format!("{name}_lambda");
                let lifted = names.fresh(&base_name, "", |name| module.items.contains_key(&name));
                let (item, captures) = lift(&body, base, op, lifted);
                module.items.insert(lifted, item);
                refer(&mut body, op, lifted, &captures);
                cx.count("lifted", 1);
            }
            if let Some(item) = module.items.get_mut(&name) {
                item.body = Some(body.into());
            }
        }
        Ok(())
    }
}

fn is_liftable(body: &Body, op: OpId) -> bool {
    body.is::<Fn>(op) && !is_primitive(fn_attributes(body, op))
}

/// Whether `value` is made by an operation that is copied rather than captured.
pub(crate) fn is_copied(body: &Body, value: ValueId) -> Option<OpId> {
    let op = body.defining_op(value)?;
    let name = body.op_name(op);
    let copied = [Constant::NAME, Global::NAME, Operator::NAME, Constructor::NAME];
    copied.iter().any(|copied| name == *copied).then_some(op)
}

/// The values from outside that the region of `op` uses, in order of first use.
pub(crate) fn captures(body: &Body, op: OpId) -> Vec<ValueId> {
    let block = body.region_block(op, 0);
    // Values are dense, but the region may be a small part of its body.
    let mut inside: FxHashSet<ValueId> = FxHashSet::default();
    let mut define = |value: ValueId| _ = inside.insert(value);
    body.block_args(block).iter().copied().for_each(&mut define);
    for op in body.walk_block(block) {
        body.results(op).for_each(&mut define);
        for region in body.regions(op) {
            body.block_args(body.block_of(*region)).iter().copied().for_each(&mut define);
        }
    }
    let mut captured = vec![];
    for op in body.walk_block(block) {
        for operand in body.operands(op) {
            if inside.insert(operand) {
                captured.push(operand);
            }
        }
    }
    captured
}

/// The item that `op` becomes, and the values to pass to it.
fn lift(body: &Body, base: Option<Span>, op: OpId, name: Symbol) -> (Item, Vec<ValueId>) {
    let loc = body.loc(op).outside(base);
    let all = captures(body, op);
    let (copied, captured): (Vec<ValueId>, Vec<ValueId>) =
        all.into_iter().partition(|value| is_copied(body, *value).is_some());
    let mut new = Body::new();
    let entry = new.entry();
    let mut map = ValueMap::default();
    for &value in &captured {
        let arg = new.add_block_arg(entry, body.ty(value));
        new.set_name_hint(arg, body.name_hint(value));
        map.insert(value, arg);
    }
    for value in copied {
        if let Some(op) = is_copied(body, value) {
            new.import_op(body, base, op, InsertPoint::End(entry), &mut map);
        }
    }
    let ty = body.ty(body.result(op, 0));
    let source = body.region_block(op, 0);
    let mut attrs = fn_attributes(body, op);
    let own_type = if captured.is_empty() {
        for &param in fn_params(body, op) {
            let arg = new.add_block_arg(entry, body.ty(param));
            new.set_name_hint(arg, body.name_hint(param));
            map.insert(param, arg);
        }
        if let Some(itself) = fn_self(body, op) {
            let global = new.add(InsertPoint::End(entry), loc, &Global { name }, ty);
            map.insert(itself, global);
        }
        new.import_block_ops(body, base, source, InsertPoint::End(entry), &mut map);
        ty
    } else {
        attrs = AttrDict::empty().with("Closure", &1i64);
        let copy = new.import_op(body, base, op, InsertPoint::End(entry), &mut map);
        let args: Vec<ValueId> = new.block_args(entry).to_vec();
        let types: Vec<Type> = args.iter().map(|arg| new.ty(*arg)).collect();
        let own_type = Type::function(types, ty);
        if let Some(itself) = fn_self(&new, copy) {
            let block = new.region_block(copy, 0);
            let at = InsertPoint::Start(block);
            let global = new.add(at, loc, &Global { name }, generalized(own_type));
            let after = InsertPoint::After(new.defining_op(global).expect("it was inserted"));
            let again = insert_call(&mut new, after, loc, global, args, ty);
            new.replace_all_uses(itself, again);
            let last = new.block_args(block).len() - 1;
            new.remove_block_arg(block, last);
            let attrs = new.attrs(copy).without("recursive");
            new.set_attrs(copy, attrs);
        }
        let function = new.result(copy, 0);
        end_block(&mut new, entry, function);
        own_type
    };
    debug_assert!(yielded(&new, entry).is_some());
    let mut item = Item::new(FUNC, generalized(own_type), Some(new));
    item.signature.attrs = attrs;
    (item, captured)
}

/// `ty` as the type of a function of the module: its free type parameters become its own.
fn generalized(ty: Type) -> Type {
    let Some(function) = ty.as_function() else { return ty };
    let mut type_params = function.type_params.to_vec();
    for param in free_parameters(ty) {
        if !type_params.contains(&param) {
            type_params.push(param);
        }
    }
    Type::new(TypeData::Function(FunctionType {
        type_params: type_params.into(),
        ..function.clone()
    }))
}

pub(crate) fn insert_call(
    body: &mut Body,
    at: InsertPoint,
    loc: Loc,
    callee: ValueId,
    args: Vec<ValueId>,
    result: Type,
) -> ValueId {
    let call = Call { type_args: vec![], attributes: AttrDict::empty(), callee, args };
    body.add(at, loc, &call, result)
}

/// Replaces `op` by a reference to the lifted function, applied to the captured values.
fn refer(body: &mut Body, op: OpId, lifted: Symbol, captures: &[ValueId]) {
    let value = body.result(op, 0);
    let (ty, loc, hint) = (body.ty(value), body.loc(op), body.name_hint(value));
    let at = InsertPoint::Before(op);
    let own_type = if captures.is_empty() {
        ty
    } else {
        Type::function(captures.iter().map(|capture| body.ty(*capture)), ty)
    };
    let mut new = body.add(at, loc, &Global { name: lifted }, generalized(own_type));
    if !captures.is_empty() {
        new = insert_call(body, at, loc, new, captures.to_vec(), ty);
        body.set_name_hint(new, hint);
    }
    body.replace_all_uses(value, new);
    body.erase(op);
}
