//! The gradient as a function that the value comes with.

use std::cell::RefCell;

use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, InsertPoint, Item, Loc, Module, PassContext, Symbol,
    Type,
};
use relay::language::{Tuple, TupleGet, create_fn, end_block};

use super::changes::Changes;
use super::checkpoint::{self, Checkpoint};
use super::custom::{call_of, refuse_rule_of_root};
use super::functions::{Program, name_pairs};
use super::{activity, refuse_value_without_floats, refuse_writes};
use crate::codes::NOT_DIFFERENTIABLE;

/// Makes function `name` of `module` give its value and the function from the change of the value to those of
/// the parameters in `wanted`, and counts the functions that became pairs.
pub(super) fn closures(
    module: &mut Module,
    (name, wanted): (Symbol, &[usize]),
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> Result<u64, Diagnostics> {
    let item = module.items[&name].clone();
    refuse_rule_of_root(name, &item.signature)?;
    let inner = module.fresh_name(name.as_str());
    let mut copy = item.clone();
    copy.signature.attrs = AttrDict::empty();
    module.items.insert(inner, copy);
    let mut before = module.clone();
    let mut data = Changes::of(&before);
    refuse_value_without_floats(name, &item, &|ty| data.is_differentiable(ty))?;
    let function = item.signature.ty.as_function().expect("a function has the type of one").clone();
    if let Some(parameter) = function.type_params.first() {
        let message =
            format!("`@{name}` is for any `{parameter}`, and the data that it keeps for one");
        let error = Diagnostic::error(NOT_DIFFERENTIABLE, message).at(item.signature.span);
        return Err(error.help("say what it is, as by `bind-extents`").into());
    }
    let is_wanted =
        |(place, ty): (usize, &Type)| wanted.contains(&place) && data.is_differentiable(*ty);
    let flags: Vec<bool> = function.params.iter().enumerate().map(is_wanted).collect();
    let mut functions =
        activity::functions_of(&before, (inner, flags), &|ty| data.is_differentiable(ty));
    let found = refuse_writes(&before, &functions, &data);
    let loops = checkpoint::split(&mut before, &mut functions, &mut data, checkpoint, cx.registry);
    let pairs = name_pairs(&before, &functions, &mut data)?;
    let signatures = before.signatures();
    let data = RefCell::new(data);
    let program = Program {
        module: &before,
        signatures: &signatures,
        registry: cx.registry,
        pairs: &pairs,
        loops: &loops,
        data: &data,
    };
    program.differentiate_all(module, found)?;
    let change = data.borrow_mut().ty(function.result);
    let gradients: Vec<Type> =
        wanted.iter().map(|place| data.borrow_mut().ty(function.params[*place])).collect();

    let mut out = Body::new();
    let entry = out.entry();
    let at = InsertPoint::End(entry);
    let source = item.body.as_deref().expect("what is differentiated has a body");
    let params: Vec<_> = source
        .block_args(source.entry())
        .iter()
        .map(|param| {
            let own = out.add_block_arg(entry, source.ty(*param));
            out.set_name_hint(own, source.name_hint(*param));
            own
        })
        .collect();
    let add = |body: &mut Body, at: InsertPoint, tuple, index: usize, ty: Type| {
        body.add(at, Loc::UNKNOWN, &TupleGet { tuple, index: index as i64 }, ty)
    };
    // Without a parameter that matters, there is nothing to keep.
    let pair = pairs.get(&inner);
    let (value, tape) = match pair {
        Some(pair) => {
            let both = Type::tuple([pair.result, pair.tape]);
            let both = call_of(&mut out, at, pair.forward, params, both);
            let value = add(&mut out, at, both, 0, pair.result);
            (value, Some(add(&mut out, at, both, 1, pair.tape)))
        }
        None => (call_of(&mut out, at, inner, params, function.result), None),
    };
    let back = {
        let result = Type::tuple(gradients.iter().copied());
        let op = create_fn(&mut out, at, Loc::UNKNOWN, AttrDict::empty(), &[change], result);
        let block = out.region_block(op, 0);
        let at = InsertPoint::End(block);
        let given = out.block_args(block)[0];
        let made = pair.zip(tape).map(|(pair, tape)| {
            let types =
                pair.wanted.iter().map(|place| data.borrow_mut().ty(function.params[*place]));
            let ty = Type::tuple(types.collect::<Vec<_>>());
            (pair, call_of(&mut out, at, pair.back, vec![tape, given], ty))
        });
        let mut fields = vec![];
        for (place, ty) in wanted.iter().zip(&gradients) {
            let made = made.as_ref().and_then(|(pair, made)| {
                Some((pair.wanted.iter().position(|wanted| wanted == place)?, *made))
            });
            fields.push(match made {
                Some((index, made)) => add(&mut out, at, made, index, *ty),
                None => out.add(at, Loc::UNKNOWN, &Tuple { fields: vec![] }, Type::unit()),
            });
        }
        let value = out.add(at, Loc::UNKNOWN, &Tuple { fields }, result);
        end_block(&mut out, block, value);
        out.result(op, 0)
    };
    let ty = Type::tuple([function.result, out.ty(back)]);
    let result = out.add(at, Loc::UNKNOWN, &Tuple { fields: vec![value, back] }, ty);
    end_block(&mut out, entry, result);
    let mut made = Item::new(item.signature.op, Type::function(function.params, ty), Some(out));
    made.signature.attrs = item.signature.attrs;
    made.signature.span = item.signature.span;
    module.items.insert(name, made);
    let count = pairs.len() as u64;
    cx.count("checkpointed", loops.len() as u64);
    data.into_inner().finish(module);
    Ok(count)
}
