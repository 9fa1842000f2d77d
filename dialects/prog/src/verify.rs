//! What makes a program well formed.

use ir_core::registry::{ItemCx, VerifyCx};
use ir_core::{Body, DType, Diagnostic, Diagnostics, OpId, Type, ValueId};
use te::checks::CHECKS;
use te::loops::{buffer_types, output_count};

use crate::codes::MALFORMED;
use crate::data::Declaration;
use crate::operators::{stands_for, tensors};
use crate::{
    Call, Cell, Construct, FUNC, Fail, If, Kernel, Open, Operate, Read, Switch, Tail, Write,
};
use crate::{MOST_OPEN_AXES, Yield, contents, is_counted, is_fixed, is_open, opened, ownership};

fn list(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

fn expect(what: &str, expected: &[Type], found: &[Type]) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!("expected {what} ({}), found ({})", list(expected), list(found))),
    }
}

fn types(cx: &VerifyCx<'_>, values: &[ValueId]) -> Vec<Type> {
    values.iter().map(|value| cx.body.ty(*value)).collect()
}

fn result_types(cx: &VerifyCx<'_>) -> Vec<Type> {
    cx.body.results(cx.op).map(|result| cx.body.ty(result)).collect()
}

/// Checks the type of a function, and who owns what in it.
pub(super) fn function(cx: &ItemCx<'_>) -> Diagnostics {
    let (name, signature) = (cx.name, &cx.item.signature);
    let error = |message: String| Diagnostic::error(MALFORMED, message).at(signature.span);
    let Some(function) = signature.ty.as_function() else {
        let message = format!("expected `@{name}` to be a function, found {}", signature.ty);
        return error(message).into();
    };
    if !function.type_params.is_empty() {
        let ty = signature.ty;
        let message = format!("expected `@{name}` to be of one type, found {ty}");
        return error(message).into();
    }
    let Some(body) = &cx.item.body else {
        return error(format!("`@{name}` has no body")).into();
    };
    let params: Vec<Type> = body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect();
    if let Err(message) = expect("parameters", &function.params, &params) {
        return error(message).into();
    }
    if let Err(message) = extents(body) {
        return error(message).into();
    }
    let mut found = Diagnostics::new();
    for op in body.walk() {
        if let Err(message) = ends_with(cx, body, op, function.result) {
            let place = body.loc(op).span(signature.span).or(signature.span);
            found.push(Diagnostic::error(MALFORMED, message).at(place));
        }
    }
    for leak in ownership::check(body) {
        let named = body.name_hint(leak.value).name;
        let named = named.map_or("a value".to_string(), |name| format!("`%{name}`"));
        let message = format!("{named} of type {} {}", body.ty(leak.value), leak.message);
        let place = body.loc(leak.op).span(signature.span).or(signature.span);
        found.push(Diagnostic::error(MALFORMED, message).at(place));
    }
    found
}

/// Checks that `op`, where the function ends with it, gives values of the types of `result`.
fn ends_with(cx: &ItemCx<'_>, body: &Body, op: OpId, result: Type) -> Result<(), String> {
    let found = if let Some(Tail { function, .. }) = body.view(op) {
        let callee = cx.signatures.get(&function).and_then(|callee| callee.ty.as_function());
        callee.map_or(result, |callee| callee.result)
    } else if body.op_block(op) == Some(body.entry()) && body.last_op(body.entry()) == Some(op) {
        match body.view::<Yield>(op) {
            Some(end) => crate::result_type(end.values.iter().map(|value| body.ty(*value))),
            None if body.is::<Fail>(op) => result,
            None => return Err("expected a function that ends in a yield".to_string()),
        }
    } else {
        result
    };
    match found == result {
        true => Ok(()),
        false => Err(format!("expected results {result}, found {found}")),
    }
}

/// Checks the declaration of a data type.
pub(super) fn declaration(cx: &ItemCx<'_>) -> Diagnostics {
    let (name, signature) = (cx.name, &cx.item.signature);
    let message = if Declaration::of_item(signature).is_none() {
        format!("expected `@{name}` to name the constructors of a data type")
    } else if signature.ty != Type::unit() || cx.item.body.is_some() {
        format!("expected `@{name}` to have no type and no body, being a data type")
    } else {
        return Diagnostics::new();
    };
    Diagnostic::error(MALFORMED, message).at(signature.span).into()
}

/// Checks a call of `function` with `arguments`; the types of its results.
fn results_of(
    cx: &VerifyCx<'_>,
    function: ir_core::Symbol,
    arguments: &[ValueId],
) -> Result<Vec<Type>, String> {
    let signature = cx.signatures.get(&function).filter(|signature| signature.op == FUNC);
    let ty = signature.and_then(|signature| signature.ty.as_function());
    let ty = ty.ok_or_else(|| format!("no function `@{function}` of the dialect `prog`"))?;
    expect("arguments", &ty.params, &types(cx, arguments))?;
    Ok(crate::results(&ty.result).to_vec())
}

pub(super) fn call(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Call>(cx.op) else { return Ok(()) };
    let results = results_of(cx, op.function, &op.arguments)?;
    expect("results", &results, &result_types(cx))
}

/// Whether nothing happens any more behind the block of `op`, the last operation of its block.
fn is_last(cx: &VerifyCx<'_>, op: OpId) -> bool {
    let mut block = cx.body.op_block(op);
    while let Some(around) = block.and_then(|block| cx.body.block_parent(block)) {
        let Some(next) = cx.body.next_op(around) else { return false };
        let Some(end) = cx.body.view::<Yield>(next) else { return false };
        if !cx.body.results(around).eq(end.values.iter().copied()) {
            return false;
        }
        block = cx.body.op_block(around);
    }
    true
}

pub(super) fn tail(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Tail>(cx.op) else { return Ok(()) };
    results_of(cx, op.function, &op.arguments)?;
    match is_last(cx, cx.op) {
        true => Ok(()),
        false => Err("expected nothing but the end of the function behind a tail call".to_string()),
    }
}

/// The types that every block of an operation yields that yields something.
fn yields(cx: &VerifyCx<'_>) -> Result<(), String> {
    let results = result_types(cx);
    for region in cx.body.regions(cx.op) {
        let last = cx.body.last_op(cx.body.block_of(*region));
        let Some(last) = last else {
            return Err("expected blocks that end in a yield".to_string());
        };
        if let Some(end) = cx.body.view::<Yield>(last) {
            expect("blocks that yield", &results, &types(cx, &end.values))?;
        } else if !cx.body.is::<Tail>(last) && !cx.body.is::<Fail>(last) {
            return Err("expected blocks that end in a yield, a tail call or a failure".to_string());
        }
    }
    Ok(())
}

pub(super) fn branches(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<If>(cx.op) else { return Ok(()) };
    let ty = cx.body.ty(op.condition);
    if ty != Type::scalar(DType::BOOL) {
        return Err(format!("expected a scalar bool, found {ty}"));
    }
    yields(cx)
}

fn declaration_of(cx: &VerifyCx<'_>, ty: Type) -> Result<Declaration, String> {
    let declaration = Declaration::of(ty, cx.signatures);
    declaration.ok_or_else(|| format!("{ty} is no data type of the dialect `prog`"))
}

fn fields_of(declaration: &Declaration, tag: i64) -> Result<&[Type], String> {
    let constructor = usize::try_from(tag).ok().and_then(|tag| declaration.constructors.get(tag));
    let constructor = constructor.ok_or_else(|| format!("there is no constructor {tag}"))?;
    Ok(&constructor.fields)
}

pub(super) fn switch(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Switch>(cx.op) else { return Ok(()) };
    let declaration = declaration_of(cx, cx.body.ty(op.data))?;
    let blocks: Vec<_> =
        cx.body.regions(cx.op).iter().map(|region| cx.body.block_of(*region)).collect();
    if blocks.len() != op.tags.len() && blocks.len() != op.tags.len() + 1 {
        let (tags, blocks) = (op.tags.len(), blocks.len());
        return Err(format!("expected a block for each of {tags} constructors, found {blocks}"));
    }
    let has_rest = blocks.len() > op.tags.len();
    for (number, tag) in op.tags.iter().enumerate() {
        if op.tags[..number].contains(tag) {
            return Err(format!("there are two blocks for constructor {tag}"));
        }
        let args = types(cx, cx.body.block_args(blocks[number]));
        expect("a block of the fields", fields_of(&declaration, *tag)?, &args)?;
    }
    if !has_rest && op.tags.len() < declaration.constructors.len() {
        return Err("expected a block for every constructor, or one for the rest".to_string());
    }
    if has_rest && !cx.body.block_args(blocks[op.tags.len()]).is_empty() {
        return Err("the block for all other constructors takes nothing".to_string());
    }
    yields(cx)
}

pub(super) fn construct(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Construct>(cx.op) else { return Ok(()) };
    let declaration = declaration_of(cx, cx.body.ty(cx.body.result(cx.op, 0)))?;
    expect("fields", fields_of(&declaration, op.tag)?, &types(cx, &op.fields))
}

pub(super) fn kernel(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Kernel>(cx.op) else { return Ok(()) };
    let no_kernel = || format!("no compute function or kernel `@{}`", op.function);
    let signature = cx.signatures.get(&op.function).ok_or_else(no_kernel)?;
    let buffers = buffer_types(signature).ok_or_else(no_kernel)?;
    let outputs = output_count(signature).ok_or_else(no_kernel)?;
    let (inputs, results) = buffers.split_at(buffers.len().saturating_sub(outputs));
    // What it checks is a result of its own, for those who run it.
    let checks = usize::from(signature.attrs.get(CHECKS).is_some());
    let results = &results[..results.len().saturating_sub(checks)];
    expect("inputs", inputs, &types(cx, &op.inputs))?;
    expect("results", results, &result_types(cx))
}

pub(super) fn operate(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Operate>(cx.op) else { return Ok(()) };
    let no_tensor = || "expected tensors and tuples of them".to_string();
    let operands = op.operands.iter().map(|ty| tensors(*ty)).collect::<Option<Vec<_>>>();
    let operands = operands.ok_or_else(no_tensor)?.concat();
    let results = tensors(op.result).ok_or_else(no_tensor)?;
    for (what, declared, found) in
        [("inputs", operands, types(cx, &op.inputs)), ("results", results, result_types(cx))]
    {
        let mut pairs = declared.iter().zip(&found);
        if declared.len() != found.len() || !pairs.all(|(ty, found)| stands_for(*found, *ty)) {
            let (expected, found) = (list(&declared), list(&found));
            return Err(format!("expected {what} ({expected}), found ({found})"));
        }
    }
    Ok(())
}

pub(super) fn open(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Open>(cx.op) else { return Ok(()) };
    let ty = cx.body.ty(op.tensor);
    if !is_fixed(ty) || !is_counted(ty) {
        return Err(format!("expected a tensor of known extents that is no scalar, found {ty}"));
    }
    expect("a result", &[opened(ty)], &result_types(cx))
}

/// Checks that the extents of every tensor in the body of a function are all known, or none is.
fn extents(body: &Body) -> Result<(), String> {
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
    let results = body.walk().flat_map(|op| body.results(op));
    for value in args.chain(results) {
        let ty = body.ty(value);
        let axes = ty.as_tensor().map_or(0, |tensor| tensor.rank());
        if is_open(ty) && (ty != opened(ty) || axes > MOST_OPEN_AXES) {
            return Err(format!(
                "expected tensors whose extents are all known, or of up to {MOST_OPEN_AXES} axes that \
                 are all `?`, found {ty}"
            ));
        }
    }
    Ok(())
}

pub(super) fn cell(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Cell>(cx.op) else { return Ok(()) };
    holds(cx.body.ty(cx.body.result(cx.op, 0)), &types(cx, &op.values))
}

fn holds(cell: Type, values: &[Type]) -> Result<(), String> {
    let held = contents(cell).ok_or_else(|| format!("expected a cell, found {cell}"))?;
    expect("what the cell holds,", &held, values)
}

pub(super) fn read(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Read>(cx.op) else { return Ok(()) };
    holds(cx.body.ty(op.cell), &result_types(cx))
}

pub(super) fn write(cx: &VerifyCx<'_>) -> Result<(), String> {
    let Some(op) = cx.body.view::<Write>(cx.op) else { return Ok(()) };
    holds(cx.body.ty(op.cell), &types(cx, &op.values))
}

pub(super) fn counted(cx: &VerifyCx<'_>) -> Result<(), String> {
    let ty = cx.body.ty(cx.body.operand(cx.op, 0));
    match is_counted(ty) {
        true => Ok(()),
        false => Err(format!("expected a value that is counted, found {ty}")),
    }
}

pub(super) fn yielded(cx: &VerifyCx<'_>) -> Result<(), String> {
    let around = cx.body.op_block(cx.op).and_then(|block| cx.body.block_parent(block));
    // Operations and functions check what their blocks yield.
    match around.is_none_or(|op| cx.body.is::<If>(op) || cx.body.is::<Switch>(op)) {
        true => Ok(()),
        false => Err("expected a branch or a function around".to_string()),
    }
}
