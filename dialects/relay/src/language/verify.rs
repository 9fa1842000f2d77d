//! What the verifier checks of the forms of the language: that every operation has the type that
//! its parts ask for.

use ir_core::registry::{ItemCx, VerifyCx};
use ir_core::{
    DType, Diagnostic, Diagnostics, InferCx, OpId, Stop, Type, TypeData, TypeParam, ValueId,
};

use super::{
    Call, Construct, Constructor, Fn, Global, If, Match, Pattern, RefCreate, RefRead, RefWrite,
    Tuple, TupleGet, fn_params, fn_self, yielded,
};
use crate::inference::environment::{Undeclared, constructor_type, data_types};
use crate::inference::signatures::shown;
use crate::inference::solver::Solver;

fn ty(cx: &VerifyCx<'_>, value: ValueId) -> Type {
    cx.body.ty(value)
}

fn result(cx: &VerifyCx<'_>) -> Type {
    cx.body.results(cx.op).next().map_or(Type::unit(), |value| ty(cx, value))
}

fn fits(
    solver: &mut Solver<'_>,
    what: impl FnOnce() -> String,
    expected: Type,
    found: Type,
) -> Result<(), String> {
    if expected == found || solver.flow(expected, found).is_ok() {
        return Ok(());
    }
    Err(format!("{}: expected {}, found {}", what(), shown(expected), shown(found)))
}

fn view<T: ir_core::OpFields<ValueId>>(cx: &VerifyCx<'_>) -> Result<T, String> {
    cx.body.view(cx.op).ok_or_else(|| format!("the fields of `{}` do not decode", T::NAME))
}

/// The value of region `index`.
fn region_value(cx: &VerifyCx<'_>, index: usize) -> Result<ValueId, String> {
    let region = cx.body.regions(cx.op).get(index);
    let region = region.ok_or_else(|| format!("region {index} is missing"))?;
    yielded(cx.body, cx.body.block_of(*region))
        .ok_or_else(|| format!("region {index} does not end with `relay.yield`"))
}

/// A function item has a function type, of types that are declared.
pub(super) fn function_item(cx: &ItemCx<'_>) -> Diagnostics {
    let (name, signature) = (cx.name, &cx.item.signature);
    let ty = signature.ty;
    if ty.facts().has_unknown || ty.facts().has_variable {
        // It is yet to be inferred, which is said elsewhere.
        return Diagnostics::new();
    }
    if ty.as_function().is_none() {
        let message = format!("`@{name}` is a function, but its type is {}", shown(ty));
        return Diagnostics::from(Diagnostic::error("E0128", message).at(signature.span));
    }
    let mut problems = data_types(cx.signatures).check_function(name, signature);
    problems.extend(function_result(cx, ty));
    problems
}

/// What a body ends with is of the type that the function declares.
fn function_result(cx: &ItemCx<'_>, ty: Type) -> Option<Diagnostic> {
    let (body, function) = (cx.item.body.as_ref()?, ty.as_function()?);
    let value = yielded(body, body.entry())?;
    let found = body.ty(value);
    let what = || format!("the result of `@{}`", cx.name);
    let message = fits(&mut Solver::new(cx.signatures), what, function.result, found).err()?;
    let end = body.last_op(body.entry())?;
    let place = body.loc(end).span(cx.item.signature.span).or(cx.item.signature.span);
    Some(Diagnostic::error("E0128", message).at(place))
}

/// A data type item is a declaration, and what it mentions is declared.
pub(super) fn type_item(cx: &ItemCx<'_>) -> Diagnostics {
    let name = cx.name;
    let wrong = |message: String, help: &str| {
        Diagnostics::from(Diagnostic::error("E0122", message).at(cx.item.signature.span).help(help))
    };
    if cx.item.body.is_some() {
        return wrong(format!("the data type `{name}` has a body"), "leave the braces out");
    }
    let types = data_types(cx.signatures);
    match types.adts.get(&name) {
        Some(adt) => types.check_declaration(name, adt),
        None => wrong(
            format!("the attributes of `{name}` declare no data type"),
            "expected `params`, a list of strings, `constructors`, a list of dictionaries with \
             `name` and `fields`, and the truth value `extern`",
        ),
    }
}

pub(super) fn global(cx: &VerifyCx<'_>) -> Result<(), String> {
    let global: Global = view(cx)?;
    let Some(signature) = cx.signatures.get(&global.name) else {
        return Err(format!("unknown function `@{}`", global.name));
    };
    if signature.op != super::FUNC && signature.op != super::EXTERNAL {
        return Err(format!("`@{}` is no function", global.name));
    }
    let what = || format!("`@{}`", global.name);
    fits(&mut Solver::new(cx.signatures), what, result(cx), signature.ty)
}

/// An operator as a value is one that exists.
pub(super) fn operator(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: super::Operator = view(cx)?;
    let known = cx.registry.def(super::operator(&form.name));
    if known.is_none_or(|def| def.infer.is_none()) {
        return Err(format!("unknown operator `{}`", form.name));
    }
    match result(cx).as_function() {
        Some(_) => Ok(()),
        None => Err(format!("expected a function type, found {}", shown(result(cx)))),
    }
}

pub(super) fn constructor(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: Constructor = view(cx)?;
    let Some(declared) = constructor_type(&data_types(cx.signatures), form.name.as_str().into())
    else {
        return Err(format!("unknown constructor `{}`", form.name));
    };
    fits(
        &mut Solver::new(cx.signatures),
        || format!("constructor `{}`", form.name),
        result(cx),
        declared,
    )
}

pub(super) fn construct(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: Construct = view(cx)?;
    let types = data_types(cx.signatures);
    let Some((name, adt, tag)) = types.constructor(form.name.as_str().into()) else {
        return Err(format!("unknown constructor `{}`", form.name));
    };
    let params = match result(cx).data() {
        TypeData::Named { name: of, params } if *of == name => params.clone(),
        _ => return Err(format!("`{}` makes a `{name}`, not {}", form.name, shown(result(cx)))),
    };
    let fields = adt.fields(tag, &params);
    if fields.len() != form.fields.len() {
        let (expected, found) = (fields.len(), form.fields.len());
        return Err(format!("`{}` expects {expected} fields, found {found}", form.name));
    }
    let mut solver = Solver::new(cx.signatures);
    for (index, (value, expected)) in form.fields.iter().zip(fields).enumerate() {
        fits(&mut solver, || format!("field {}", index + 1), expected, ty(cx, *value))?;
    }
    Ok(())
}

pub(super) fn call(cx: &VerifyCx<'_>) -> Result<(), String> {
    let call: Call = view(cx)?;
    let callee = ty(cx, call.callee);
    let mut solver = Solver::new(cx.signatures);
    let Some(function) = callee.as_function() else {
        return Err(format!("the callee: expected a function, found {}", shown(callee)));
    };
    if !call.type_args.is_empty() && call.type_args.len() != function.type_params.len() {
        let (expected, found) = (function.type_params.len(), call.type_args.len());
        return Err(format!("expected {expected} type arguments, found {found}"));
    }
    let given: Vec<TypeParam> = call.type_args.iter().map(|ty| TypeParam::Type(*ty)).collect();
    let args: Vec<Type> = call.args.iter().map(|arg| ty(cx, *arg)).collect();
    let callee = solver.instance(callee, &given, &args, result(cx));
    let Some(function) = callee.as_function() else {
        return Err(format!("expected a function to call, found {}", shown(callee)));
    };
    if function.params.len() != call.args.len() {
        let (expected, found) = (function.params.len(), call.args.len());
        return Err(format!("expected {expected} arguments, found {found}"));
    }
    for (index, (arg, expected)) in call.args.iter().zip(&function.params).enumerate() {
        fits(&mut solver, || format!("argument {}", index + 1), *expected, ty(cx, *arg))?;
    }
    fits(&mut solver, || "the result".to_string(), result(cx), function.result)
}

pub(super) fn function(cx: &VerifyCx<'_>) -> Result<(), String> {
    let _: Fn = view(cx)?;
    region_value(cx, 0)?;
    let found = result(cx);
    let Some(function) = found.as_function() else {
        return Err(format!("expected a function type, found {}", shown(found)));
    };
    let this = fn_self(cx.body, cx.op);
    let recursive = cx.body.attrs(cx.op).value::<bool>("recursive").unwrap_or(false);
    if recursive && this.is_none() {
        return Err("a recursive function needs a block argument for itself".to_string());
    }
    let params = fn_params(cx.body, cx.op);
    if params.len() != function.params.len() {
        let (expected, found) = (function.params.len(), params.len());
        return Err(format!("its type has {expected} parameters, its block {found}"));
    }
    let mut solver = Solver::new(cx.signatures);
    for (index, (param, given)) in params.iter().zip(&function.params).enumerate() {
        fits(&mut solver, || format!("parameter {}", index + 1), ty(cx, *param), *given)?;
    }
    if let Some(this) = this {
        fits(&mut solver, || "the function itself".to_string(), ty(cx, this), found)?;
    }
    let value = region_value(cx, 0)?;
    fits(&mut solver, || "the result".to_string(), function.result, ty(cx, value))
}

pub(super) fn branches(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: If = view(cx)?;
    let mut solver = Solver::new(cx.signatures);
    let condition = ty(cx, form.condition);
    fits(&mut solver, || "the condition".to_string(), Type::scalar(DType::BOOL), condition)?;
    for (index, name) in ["then", "else"].iter().enumerate() {
        let found = ty(cx, region_value(cx, index)?);
        fits(&mut solver, || format!("the {name} branch"), result(cx), found)?;
    }
    Ok(())
}

pub(super) fn clauses(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: Match = view(cx)?;
    let regions = cx.body.regions(cx.op).len();
    if regions != form.patterns.len() {
        let expected = form.patterns.len();
        return Err(format!("expected {expected} regions, one for each pattern, found {regions}"));
    }
    let types = data_types(cx.signatures);
    let mut solver = Solver::new(cx.signatures);
    for (index, pattern) in form.patterns.iter().enumerate() {
        let args = cx.body.block_args(cx.body.region_block(cx.op, index));
        if args.len() != pattern.variables() {
            let (expected, found) = (pattern.variables(), args.len());
            return Err(format!("pattern {index} binds {expected} values, its block has {found}"));
        }
        let mut args = args.iter();
        let mut pending: Vec<(&Pattern, Type)> = vec![(pattern, ty(cx, form.data))];
        while let Some((pattern, data)) = pending.pop() {
            match (pattern, data.data()) {
                (Pattern::Wildcard, _) => {}
                (Pattern::Variable, _) => {
                    if let Some(arg) = args.next() {
                        let what = || format!("a variable of pattern {index}");
                        fits(&mut solver, what, ty(cx, *arg), data)?;
                    }
                }
                (Pattern::Tuple(fields), TypeData::Tuple(parts)) if fields.len() == parts.len() => {
                    pending.extend(fields.iter().zip(parts.iter().copied()).rev());
                }
                (Pattern::Constructor(name, fields), TypeData::Named { name: of, params }) => {
                    let parts = match types.constructor(*name) {
                        Some((adt, decl, tag)) if adt == *of => decl.fields(tag, params),
                        Some((adt, ..)) => {
                            return Err(format!(
                                "`{name}` is a constructor of `{adt}`, not of `{of}`"
                            ));
                        }
                        None => return Err(format!("unknown constructor `{name}`")),
                    };
                    if parts.len() != fields.len() {
                        let (expected, found) = (parts.len(), fields.len());
                        return Err(format!("`{name}` expects {expected} fields, found {found}"));
                    }
                    pending.extend(fields.iter().zip(parts).rev());
                }
                _ => return Err(format!("pattern {index} does not fit {}", shown(data))),
            }
        }
        let found = ty(cx, region_value(cx, index)?);
        fits(&mut solver, || format!("clause {index}"), result(cx), found)?;
    }
    Ok(())
}

/// The content type of a reference.
fn content(reference: Type) -> Result<Type, String> {
    match reference.data() {
        TypeData::Ref(inner) => Ok(*inner),
        _ => Err(format!("expected a reference, found {}", shown(reference))),
    }
}

pub(super) fn tuple(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: Tuple = view(cx)?;
    let found = Type::tuple(form.fields.iter().map(|field| ty(cx, *field)));
    fits(&mut Solver::new(cx.signatures), || "the tuple".to_string(), result(cx), found)
}

pub(super) fn tuple_get(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: TupleGet = view(cx)?;
    let fields = ty(cx, form.tuple).as_tuple();
    let index = usize::try_from(form.index).ok();
    // The relation says what is wrong with a field that there is not.
    let Some(field) = index.and_then(|index| fields?.get(index).copied()) else { return Ok(()) };
    fits(&mut Solver::new(cx.signatures), || "the field".to_string(), result(cx), field)
}

pub(super) fn ref_create(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: RefCreate = view(cx)?;
    let expected = content(result(cx))?;
    let what = || "the first content".to_string();
    fits(&mut Solver::new(cx.signatures), what, expected, ty(cx, form.value))
}

pub(super) fn ref_read(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: RefRead = view(cx)?;
    let found = content(ty(cx, form.reference))?;
    fits(&mut Solver::new(cx.signatures), || "the content".to_string(), result(cx), found)
}

pub(super) fn ref_write(cx: &VerifyCx<'_>) -> Result<(), String> {
    let form: RefWrite = view(cx)?;
    let expected = content(ty(cx, form.reference))?;
    let what = || "the new content".to_string();
    fits(&mut Solver::new(cx.signatures), what, expected, ty(cx, form.value))?;
    fits(&mut Solver::new(cx.signatures), || "the result".to_string(), result(cx), Type::unit())
}

/// A value ends a region of an operation of the language or the body.
pub(super) fn ends_region(cx: &VerifyCx<'_>) -> Result<(), String> {
    let block = cx.body.op_block(cx.op);
    let parent: Option<OpId> = block.and_then(|block| cx.body.block_parent(block));
    match block.map(|block| cx.body.last_op(block) == Some(cx.op)) {
        Some(true) | None => {}
        Some(false) => return Err("it is not the last operation of its block".to_string()),
    }
    match parent.map(|op| cx.body.op_name(op)) {
        Some(name) if !name.as_str().starts_with("relay.") => {
            Err(format!("it ends a region of `{name}`"))
        }
        _ => Ok(()),
    }
}

// ---- type relations, for builders as well ------------------------------------------------------

pub(super) fn tuple_relation(tuple: Tuple<Type>, _: &mut InferCx<'_>) -> Result<Type, Stop> {
    Ok(Type::tuple(tuple.fields))
}

pub(super) fn tuple_get_relation(get: TupleGet<Type>, _: &mut InferCx<'_>) -> Result<Type, Stop> {
    let fields = ir_core::infer::tuple(get.tuple)?;
    let field = usize::try_from(get.index).ok().and_then(|index| fields.get(index));
    field.copied().ok_or_else(|| match fields.len() {
        0 => Stop::error(format!("the empty tuple has no field {}", get.index)),
        count => {
            let last = count - 1;
            Stop::error(format!("expected a field from 0 to {last}, found {}", get.index))
        }
    })
}

pub(super) fn ref_relation(
    create: super::RefCreate<Type>,
    _: &mut InferCx<'_>,
) -> Result<Type, Stop> {
    Ok(Type::reference(create.value))
}

/// The content of a reference of known type.
pub(super) fn ref_read_relation(read: RefRead<Type>, _: &mut InferCx<'_>) -> Result<Type, Stop> {
    match read.reference.data() {
        TypeData::Ref(inner) => Ok(*inner),
        TypeData::Unknown | TypeData::Variable(_) => Err(Stop::Stuck),
        _ => Err(Stop::error(format!("expected a reference, found {}", shown(read.reference)))),
    }
}

pub(super) fn ref_write_relation(_: RefWrite<Type>, _: &mut InferCx<'_>) -> Result<Type, Stop> {
    Ok(Type::unit())
}

/// The result of calling a function of known type on arguments of known types.
pub(super) fn call_relation(call: Call<Type>, _: &mut InferCx<'_>) -> Result<Type, Stop> {
    let mut solver = Solver::new(&Undeclared);
    let known = |ty: &Type| !ty.facts().has_unknown && !ty.facts().has_variable;
    if !known(&call.callee) || !call.args.iter().all(known) {
        return Err(Stop::Stuck);
    }
    let given: Vec<TypeParam> = call.type_args.iter().map(|ty| TypeParam::Type(*ty)).collect();
    let first = solver.type_count();
    let callee = solver.instantiate(call.callee, &given);
    let Some(function) = callee.as_function() else {
        return Err(Stop::error(format!("expected a function, found {}", shown(call.callee))));
    };
    if function.params.len() != call.args.len() {
        let (expected, found) = (function.params.len(), call.args.len());
        return Err(Stop::error(format!("expected {expected} arguments, found {found}")));
    }
    // A builder inserts no checks: where an argument has `?`, so has what it determines.
    let mut pairs: Vec<(Type, Type)> =
        function.params.iter().copied().zip(call.args.iter().copied()).collect();
    pairs.sort_by_key(|(_, arg)| !arg.facts().has_any);
    solver.widen(first, &pairs);
    // An annotation of the result may have made `?` of extents that differ; the verifier looks at
    // both.
    let joined = given.is_empty()
        && call.callee.as_function().is_some_and(|callee| !callee.type_params.is_empty());
    for (index, (expected, found)) in function.params.iter().zip(&call.args).enumerate() {
        let what = || format!("argument {}", index + 1);
        let stop = |error| if joined { Stop::Stuck } else { Stop::Error(error) };
        fits(&mut solver, what, *expected, *found).map_err(stop)?;
    }
    let result = solver.resolve(function.result);
    if result.facts().has_variable { Err(Stop::Stuck) } else { Ok(result) }
}
