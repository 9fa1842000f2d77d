//! Differentiating functions that the program asks for: the operator `grad`.

use indexmap::IndexMap;
use ir_core::pipeline::{Pipeline, Step};
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, InsertPoint, Item, Loc, Module, ModulePass, OpId,
    Pass, PassContext, PassResult, Symbol, Type, ValueId,
};
use relay::language::{
    FUNC, Tuple, TupleGet, create_fn, end_block, fn_attributes, is_primitive, yielded,
};
use relay_operators::elementwise::ZerosLike;
use relay_operators::gradient::Grad;
use rustc_hash::FxBuildHasher;

use super::changes::call;
use super::custom::call_of;
use super::{Checkpoint, EXTERN, Root, differentiate_roots, normalize_for};
use crate::codes::{NO_GRADIENT, NOT_DIFFERENTIABLE};
use crate::inline::{groups, references};
use crate::pipelines;
use crate::remove_unused_functions::RemoveUnusedFunctions;

/// The attribute of a function that is to be differentiated, while passes run: by how many parameters, the
/// last ones. No program can write it, so that only functions of this pass have it.
const GRAD: &str = "expand-grad.parameters";

/// Puts the gradient in the place of the operator `grad`, inner ones first.
///
/// `grad(%f)` is the function that gives the value of `%f` and its gradient, as the pass `gradient` makes
/// them. A program that has one is brought down to functions of the module and data first, as `specialize`,
/// `partial-eval`, `refs-to-values` and `defunctionalize` do; others stay as they are. What is computed by
/// `grad` is a function like others: it is called with anything, and differentiated again.
///
/// A function that differentiates itself is an error, and so is one that writes to a cell from outside.
///
/// ```relay
/// def @main(%x: float32) {
///   let %f = fn (%y: float32) { multiply(%y, sin(%y)) };
///   let %g = grad(%f);
///   %g(%x).1
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: float32) -> (float32,) {
///   %0 = @grad(%x);
///   %0.1
/// }
///
/// def @grad(%p: float32) -> (float32, (float32,)) {
///   %1 = sin(%p);
///   %2 = multiply(%p, %1);
///   %3 = cos(%p);
///   %4 = multiply(%p, %3);
///   %5 = add(%1, %4);
///   %6 = (%5,);
///   (%2, %6)
/// }
/// ```
#[derive(Pass)]
#[pass(
    name = "expand-grad",
    module,
    never_after = "simplify-inference alter-op-layout convert-layout fuse"
)]
pub struct ExpandGrad {
    /// Names of the entry functions, joined with `+`.
    #[default(vec!["main".to_string()])]
    pub entry: Vec<String>,
    /// What is kept of loops for the way back, as by `gradient`.
    #[default(Checkpoint::None)]
    pub checkpoint: Checkpoint,
}

impl ModulePass for ExpandGrad {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        expand(module, &self.entry, self.checkpoint, cx)
    }
}

/// Puts the gradient in the place of each `grad` that functions of `entry` reach.
pub(super) fn expand(
    module: &mut Module,
    entry: &[String],
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> PassResult {
    refuse_kernels(module)?;
    if !outline(module) {
        return Ok(());
    }
    normalize_for(entry, module, checkpoint, cx)?;
    for roots in levels(module)? {
        for root in &roots {
            keep_value(module, root)?;
        }
        differentiate_roots(module, &roots, checkpoint, cx)?;
        for root in &roots {
            let attrs = &mut module.items[&root.name].signature.attrs;
            *attrs = attrs.without(GRAD).without(EXTERN);
        }
        cx.count("expanded", roots.len() as u64);
    }
    let unused = Step::of::<RemoveUnusedFunctions>().with("entry", entry.join("+"));
    pipelines::apply(&Pipeline::from([unused]), module, cx)
}

/// Errors where `grad` is in a kernel.
fn refuse_kernels(module: &Module) -> PassResult {
    let mut found = Diagnostics::default();
    for item in module.items.values() {
        let Some(body) = item.body.as_deref() else { continue };
        for op in body.walk().filter(|op| body.is::<Grad>(*op)) {
            let holder = body.op_block(op).and_then(|block| body.parent_op(body.region_of(block)));
            let attrs =
                holder.map_or(item.signature.attrs, |function| fn_attributes(body, function));
            if is_primitive(attrs) {
                let place = body.loc(op).span(item.signature.span);
                let help = "run `expand-grad` before `fuse`, or `defuse` before `expand-grad`";
                let error = Diagnostic::error(NO_GRADIENT, "a kernel has no gradient");
                found.push(error.at(place).help(help));
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Gives `grad` of each type a function of the module, which calls what it is given, with zeros for the
/// gradients; whether there is one.
fn outline(module: &mut Module) -> bool {
    let is_grad = |body: &Body, op: &OpId| body.is::<Grad>(*op);
    let names: Vec<Symbol> = module
        .items
        .iter()
        .filter(|(_, item)| {
            item.body.as_deref().is_some_and(|b| b.walk().any(|op| is_grad(b, &op)))
        })
        .map(|(name, _)| *name)
        .collect();
    let mut made: IndexMap<Type, Symbol, FxBuildHasher> = IndexMap::default();
    for name in &names {
        let body = module.items[name].body.clone().expect("it has operations");
        for op in body.walk().filter(|op| is_grad(&body, op)) {
            let ty = body.ty(body.operand(op, 0));
            if !made.contains_key(&ty) {
                let outlined = module.fresh_name("grad");
                let gradient = body.ty(body.result(op, 0));
                module.items.insert(outlined, placeholder(ty, gradient));
                made.insert(ty, outlined);
            }
        }
    }
    for name in &names {
        let Some(body) = module.items.get_mut(name).and_then(Item::body_mut) else { continue };
        let ops: Vec<OpId> = body.walk().filter(|op| is_grad(body, op)).collect();
        for op in ops {
            let outlined = made[&body.ty(body.operand(op, 0))];
            replace(body, op, outlined);
        }
    }
    !names.is_empty()
}

/// The function that takes one of type `ty` and arguments for it, and gives its value with zeros. `gradient`
/// is the type of the function that gives the value and the gradient.
fn placeholder(ty: Type, gradient: Type) -> Item {
    let function = ty.as_function().expect("`grad` takes functions");
    let result = gradient.as_function().expect("`grad` gives functions").result;
    let mut body = Body::new();
    let entry = body.entry();
    let at = InsertPoint::End(entry);
    let callee = body.add_block_arg(entry, ty);
    let args: Vec<ValueId> =
        function.params.iter().map(|param| body.add_block_arg(entry, *param)).collect();
    let value = body.add(at, Loc::UNKNOWN, &call(callee, args.clone()), function.result);
    let both = result.as_tuple().expect("a value comes with gradients");
    let types = both[1].as_tuple().expect("gradients are a tuple");
    let zeros = args.iter().zip(types).map(|(arg, ty)| zeros(&mut body, at, *arg, *ty)).collect();
    let gradients = body.add(at, Loc::UNKNOWN, &Tuple { fields: zeros }, both[1]);
    let fields = vec![value, gradients];
    let value = body.add(at, Loc::UNKNOWN, &Tuple { fields }, result);
    end_block(&mut body, entry, value);
    let params = [ty].into_iter().chain(function.params.iter().copied());
    let mut item = Item::new(FUNC, Type::function(params, result), Some(body));
    let count = function.params.len() as i64;
    item.signature.attrs = AttrDict::empty().with(GRAD, &count).with(EXTERN, &1i64);
    item
}

// Recursion is bounded by the nesting of types.
/// Zeros of type `ty` for `value`.
fn zeros(body: &mut Body, at: InsertPoint, value: ValueId, ty: Type) -> ValueId {
    match ty.as_tuple() {
        None => body.add(at, Loc::UNKNOWN, &ZerosLike { data: value }, ty),
        Some(types) => {
            let parts = body.ty(value).as_tuple().expect("the gradient by a tuple is one");
            let fields = types.iter().zip(parts).enumerate().map(|(index, (ty, part))| {
                let get = TupleGet { tuple: value, index: index as i64 };
                let field = body.add(at, Loc::UNKNOWN, &get, *part);
                zeros(body, at, field, *ty)
            });
            let fields = fields.collect();
            body.add(at, Loc::UNKNOWN, &Tuple { fields }, ty)
        }
    }
}

/// Puts in the place of `op`, which is `grad`, a function that calls `outlined`.
fn replace(body: &mut Body, op: OpId, outlined: Symbol) {
    let (given, made) = (body.operand(op, 0), body.result(op, 0));
    let ty = body.ty(made).as_function().expect("`grad` gives functions").clone();
    let (at, loc) = (InsertPoint::Before(op), body.loc(op));
    let function = create_fn(body, at, loc, AttrDict::empty(), &ty.params, ty.result);
    let block = body.region_block(function, 0);
    let mut args = vec![given];
    args.extend_from_slice(body.block_args(block));
    let value = call_of(body, InsertPoint::End(block), outlined, args, ty.result);
    end_block(body, block, value);
    let function = body.result(function, 0);
    body.set_name_hint(function, body.name_hint(made));
    body.replace_all_uses(made, function);
    body.erase(op);
}

/// The functions that are to be differentiated, those first that call no other ones.
///
/// # Errors
/// Where one calls itself.
fn levels(module: &Module) -> Result<Vec<Vec<Root>>, Diagnostics> {
    let references = references(module);
    let (mut heights, mut found) = (vec![0usize; references.len()], Diagnostics::default());
    let mut levels: Vec<Vec<Root>> = vec![];
    // Callees come before their callers.
    for group in groups(&references) {
        let callees = group.iter().flat_map(|index| &references[*index]);
        let height = callees.map(|callee| heights[*callee]).max().unwrap_or(0);
        let calls_itself = group.len() > 1 || references[group[0]].contains(&group[0]);
        for index in &group {
            heights[*index] = height;
            let (name, item) = module.items.get_index(*index).expect("a number of an item");
            let Some(count) = item.signature.attrs.value::<i64>(GRAD) else { continue };
            if calls_itself {
                let message = "a function that differentiates itself has no end";
                let help = "take `grad` of a function that does not come back to that `grad`";
                let place =
                    item.body.as_deref().and_then(|body| Some(body.loc(body.walk().next()?)));
                let error = Diagnostic::error(NOT_DIFFERENTIABLE, message);
                let place = place.and_then(|loc| loc.span(item.signature.span));
                found.push(error.at(place).help(help));
                continue;
            }
            let function = item.signature.ty.as_function();
            let params = function.expect("a function has the type of one").params.len();
            let first = params - count as usize;
            let wanted = (first..params).collect();
            if levels.len() <= height {
                levels.resize_with(height + 1, Vec::new);
            }
            levels[height].push(Root { name: *name, wanted, weighted: false });
            heights[*index] = height + 1;
        }
    }
    if found.is_empty() { Ok(levels) } else { Err(found) }
}

/// Makes the function `root`, which gives its value with zeros, give its value.
///
/// # Errors
/// Where it gives more, which is what it writes to cells.
fn keep_value(module: &mut Module, root: &Root) -> PassResult {
    let item = module.items.get_mut(&root.name).expect("it was found there");
    let span = item.signature.span;
    let function = item.signature.ty.as_function().expect("a function has the type of one").clone();
    let wanted = |result: Type| match result.as_tuple() {
        Some([value, gradients]) if gradients.as_tuple()?.len() == root.wanted.len() => {
            Some(*value)
        }
        _ => None,
    };
    let Some(ty) = wanted(function.result) else {
        let message = "a function that is differentiated writes to a cell from outside";
        let help = "return the new value instead of writing it";
        return Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).at(span).help(help).into());
    };
    item.signature.ty = Type::function(function.params, ty);
    let body = item.body_mut().expect("it was made with a body");
    let entry = body.entry();
    let value = yielded(body, entry).expect("a function gives a value");
    let end = body.last_op(entry).expect("a function gives a value");
    let fields = body.defining_op(value).and_then(|op| body.view::<Tuple>(op));
    let kept = match fields {
        Some(tuple) => tuple.fields[0],
        None => {
            let get = TupleGet { tuple: value, index: 0 };
            body.add(InsertPoint::Before(end), Loc::UNKNOWN, &get, ty)
        }
    };
    body.set_operand(end, 0, kept);
    Ok(())
}
