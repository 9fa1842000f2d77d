//! Rules for gradients of functions for many examples.

use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, FuncMut, Item, Signature, Symbol, Type, ValueId,
};
use relay::language::{FUNC, end_block};
use relay_operators::gradient::Emit;

use super::Program;
use super::emitter::Emitter;
use super::held::{held, is_stacked};
use crate::codes::NOT_BATCHED;
use crate::gradient::{Changes, RULE, check_rule, rule};

/// The attributes of `item`, the function `name`, for `extent` examples: its rule, where it has one, is that for many
/// examples. The changes of parameters that examples share, those that `flags` does not say, are summed.
///
/// # Errors
/// Where the rule is of another type than the gradient, or a shared parameter has no known extents.
pub(super) fn attributes(
    program: &mut Program<'_>,
    (name, item): (Symbol, &Item),
    flags: &[bool],
    extent: i64,
) -> Result<AttrDict, Diagnostics> {
    let attrs = item.signature.attrs;
    let Some(rule) = rule(&item.signature) else { return Ok(attrs) };
    check_rule(program.before, name, &mut Changes::of(program.before))?;
    let of_one = program.before.items[&rule].signature.ty;
    let all: Vec<bool> = flags.iter().copied().chain([true]).collect();
    let batched = program.batched(rule, all, extent);
    if flags.iter().all(|flag| *flag) {
        return Ok(attrs.with(RULE, &batched));
    }
    let rule = summed(program, (name, item), (batched, of_one), flags, extent)?;
    Ok(attrs.with(RULE, &program.add(&format!("{batched}_sum"), rule)))
}

/// The function that calls `batched`, of type `of_one` for one example, and sums the changes of what is shared.
fn summed(
    program: &Program<'_>,
    (name, item): (Symbol, &Item),
    (batched, of_one): (Symbol, Type),
    flags: &[bool],
    extent: i64,
) -> Result<Item, Diagnostics> {
    let one = of_one.as_function().expect("a rule is a function");
    let changes = one.result.as_tuple().expect("a rule gives a tuple");
    let refused = |ty: Type| -> Diagnostics {
        let message = format!(
            "`@{name}` has a rule for its gradient, and takes {ty}, which all examples share"
        );
        let help = "give its parameters known extents, or let `over` name what it is made of";
        Diagnostic::error(NOT_BATCHED, message).at(item.signature.span).help(help).into()
    };
    let shared = flags.iter().zip(changes).filter(|(flag, _)| !**flag);
    if let Some((_, ty)) = shared.into_iter().find(|(_, ty)| !is_stacked(**ty)) {
        return Err(refused(*ty));
    }
    let each = |ty: &Type| held(*ty, extent).ok_or_else(|| refused(*ty));
    let mut params = vec![];
    for (number, param) in one.params.iter().enumerate() {
        let is_over = flags.get(number).copied().unwrap_or(true); // The last one is the change of the value.
        params.push(if is_over { each(param)? } else { *param });
    }
    let all = Type::function(params.iter().copied(), each(&one.result)?);
    let result = flags.iter().zip(changes);
    let result = result.map(|(flag, ty)| if *flag { each(ty) } else { Ok(*ty) });
    let result = Type::tuple(result.collect::<Result<Vec<Type>, Diagnostics>>()?);
    let ty = Type::function(params.iter().copied(), result);
    let mut signature =
        Signature { span: item.signature.span, ..Item::new(FUNC, ty, None).signature };
    let mut body = Body::new();
    let entry = body.entry();
    let args: Vec<ValueId> = params.iter().map(|ty| body.add_block_arg(entry, *ty)).collect();
    let f = FuncMut {
        name,
        signature: &mut signature,
        body: &mut body,
        signatures: program.signatures,
        registry: program.registry,
    };
    let emitter = Emitter::new(f, extent);
    let given = emitter.call(batched, args, all);
    let fields = flags.iter().zip(changes).enumerate();
    let fields = fields.map(|(index, (flag, ty))| match (flag, emitter.field(given, index)) {
        (true, change) => change,
        (false, change) => sum(&emitter, change, *ty),
    });
    let fields: Vec<ValueId> = fields.collect();
    let value = emitter.tuple(&fields).0;
    end_block(emitter.f.borrow_mut().body, entry, value);
    drop(emitter);
    Ok(Item { signature, body: Some(body.into()) })
}

// Recursion is bounded by the nesting of types.
/// The sum over examples of `value`, which holds one of type `ty` for each.
fn sum(emitter: &Emitter<'_>, value: ValueId, ty: Type) -> ValueId {
    match ty.as_tuple() {
        Some(types) => emitter.fields(value, types, |field, ty| sum(emitter, field, ty)),
        None => emitter.term(value).sum(&[0], false).id(),
    }
}
