//! Programs on tensors of any number of rows, by blocks of rows.
//!
//! Where `@main` is a list of kernels and each row of what it gives depends on the same row of what
//! it takes alone, it is compiled for a few numbers of rows, and a program computes any number of
//! them by these. What a program does with rows is read off its tensor expressions ([`te::rows`]),
//! for each number of rows and for one that no program is written for. What it does with the
//! *number* of rows is read off types: no operator takes what has any number of rows and gives what
//! has not.

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    Attr, AttrDict, Body, Dim, FunctionType, InsertPoint, Item, Loc, Module, OpParts, Registry,
    Symbol, TensorData, Type, ValueId, fingerprint,
};
use relay::language::FUNC;
use rustc_hash::FxHashMap;
use te::loops::{Call, Data, KERNEL, outputs, parameters};

use crate::bind_extents::bind_extents;
use crate::extents::is_open;

/// The numbers of rows that programs are compiled for, the most first: the first fills the tiles of
/// kernels, and what is left when the others are taken is less than four rows.
pub const BLOCKS: [i64; 3] = [16, 8, 4];

/// A number of rows that programs are not written for: larger than they mention, and a prime.
const PROBE: i64 = 1009;

/// A program for so many rows.
pub struct Bound {
    /// How many.
    pub rows: i64,
    /// The program, all extents known.
    pub module: Module,
}

/// Which extent of the parameters of `@main` is the number of rows: those that have one. `None`
/// where another extent is open, or the parameters may have different numbers of rows.
fn parameters_with_rows(function: &FunctionType) -> Option<Vec<bool>> {
    let mut number: Option<Dim> = None;
    let mut has_rows = Vec::with_capacity(function.params.len());
    for param in &function.params {
        let tensor = param.as_tensor()?;
        let (first, others) = match tensor.shape.split_first() {
            Some((first, others)) => (Some(*first), others),
            None => (None, &[][..]),
        };
        if others.iter().any(|dim| dim.known().is_none()) {
            return None;
        }
        let open = first.filter(|dim| dim.known().is_none());
        // Two extents that are `?` may be two numbers.
        if number.is_some() && open.is_some() && (open != number || open == Some(Dim::Any)) {
            return None;
        }
        number = number.or(open);
        has_rows.push(open.is_some());
    }
    number.map(|_| has_rows)
}

/// Whether `@main` of `module` takes tensors of any number of rows, all of the same, and no others
/// of unknown extents.
pub fn takes_rows(module: &Module) -> bool {
    let main = module.get("main").filter(|item| item.signature.op == FUNC);
    let function = main.and_then(|item| item.signature.ty.as_function());
    function.is_some_and(|function| parameters_with_rows(function).is_some())
}

/// Whether no operator of `body` takes what has open extents and gives what has none.
fn keeps_rows(body: &Body) -> bool {
    body.block_ops(body.entry()).all(|op| {
        let takes = body.operands(op).any(|operand| is_open(body.ty(operand)));
        let gives = body.results(op).all(|result| is_open(body.ty(result)));
        !body.has_regions(op) && (!takes || gives)
    })
}

/// Copies of `module`, a program without calls of functions, for the numbers of rows in [`BLOCKS`]
/// and then for one more, with which of the parameters of `@main` have rows; `None` where its
/// parameters have no rows, or something depends on their number.
pub fn split(module: &Module, registry: &Registry) -> Option<(Vec<Bound>, Vec<bool>)> {
    let main = module.get("main").filter(|item| item.signature.op == FUNC)?;
    let function = main.signature.ty.as_function()?;
    let has_rows = parameters_with_rows(function)?;
    if !keeps_rows(main.body.as_deref()?) {
        return None;
    }
    let bound = BLOCKS.iter().chain(&[PROBE]).map(|rows| {
        let types = function.params.iter().map(|ty| {
            let tensor = ty.as_tensor()?;
            let dim = |dim: &Dim| if dim.known().is_none() { Dim::Known(*rows) } else { *dim };
            Some(Type::tensor(tensor.shape.iter().map(dim), tensor.dtype))
        });
        let types: Vec<Type> = types.collect::<Option<_>>()?;
        let mut module = module.clone();
        let errors = bind_extents(&mut module, registry, &types);
        errors.is_empty().then_some(Bound { rows: *rows, module })
    });
    Some((bound.collect::<Option<_>>()?, has_rows))
}

/// The program for any number of rows by those for some, as they are when they are lowered to
/// tensor expressions. `has_rows` says which of its parameters have rows.
///
/// # Errors
/// The name of what mixes rows.
pub fn join(bound: Vec<Bound>, has_rows: &[bool]) -> Result<Module, Symbol> {
    let main = Symbol::new("main");
    for one in &bound {
        te::rows::check(&one.module, main, one.rows, has_rows)?;
    }
    let mut blocks = bound.into_iter().filter(|one| one.rows != PROBE);
    let first = blocks.next().ok_or(main)?;
    let mut joined = Module { items: IndexMap::default(), ..first.module.clone() };
    let (mut kernels, mut names, mut constants) = (vec![], FreshNames::default(), vec![]);
    let mut types = None;
    for block in std::iter::once(first).chain(blocks) {
        let (name, own) = add(&mut joined, &mut names, block).ok_or(main)?;
        let kernel = joined.get(name).ok_or(main)?;
        types.get_or_insert_with(|| {
            (parameters(&kernel.signature).to_vec(), outputs(&kernel.signature))
        });
        kernels.push((name, own));
    }
    // Every kernel takes all constants, so that those that are equal are one.
    for (_, own) in &kernels {
        for value in own {
            if !constants.contains(value) {
                constants.push(value.clone());
            }
        }
    }
    let span = joined.get(kernels[0].0).and_then(|kernel| kernel.signature.span);
    for (name, own) in &kernels {
        take_constants(joined.items.get_mut(name).ok_or(main)?, &constants, own).ok_or(main)?;
    }
    let (types, outputs) = types.ok_or(main)?;
    let axes = |ty: &Type| ty.as_tensor().map_or(0, |tensor| tensor.rank());
    if types.iter().any(|ty| axes(ty) > prog::MOST_OPEN_AXES) {
        return Err(main);
    }
    let kernels = kernels.into_iter().map(|(name, _)| name).collect();
    let mut item = entry(&types, outputs, has_rows, constants, kernels);
    item.signature.span = span;
    joined.items.insert(main, item);
    joined.items.move_index(joined.items.len() - 1, 0);
    Ok(joined)
}

/// Adds the kernels and compute functions of `block` to `joined`, each that is there already once;
/// what its `@main` is called there, and the constants that it holds.
fn add(
    joined: &mut Module,
    names: &mut FreshNames,
    block: Bound,
) -> Option<(Symbol, Vec<TensorData>)> {
    let Bound { rows, module } = block;
    let mut renamed: FxHashMap<Symbol, Symbol> = FxHashMap::default();
    let mut main = None;
    for (name, item) in module.items {
        let op = item.signature.op;
        if op == FUNC {
            continue;
        }
        if name.as_str() == "main" {
            main = Some(item);
            continue;
        }
        let body = |item: &Item| item.body.as_deref().map(fingerprint::fingerprint);
        let is_equal = joined.get(name).is_some_and(|other| {
            other.signature.ty == item.signature.ty && body(other) == body(&item)
        });
        let new = match is_equal {
            true => name,
            false => names.fresh(name.as_str(), "_", |name| joined.items.contains_key(&name)),
        };
        renamed.insert(name, new);
        joined.items.entry(new).or_insert(item);
    }
    let mut main = main.filter(|item| item.signature.op == KERNEL)?;
    let body = main.body_mut()?;
    let mut constants = vec![];
    for op in body.block_ops(body.entry()).collect::<Vec<_>>() {
        if let Some(call) = body.view::<Call>(op) {
            let kernel = renamed.get(&call.kernel).copied().unwrap_or(call.kernel);
            body.set_attrs(op, ir_core::OpFields::attrs(&Call { kernel, ..call }));
        } else if let Some(Data { value }) = body.view(op) {
            constants.push(value);
        }
    }
    let name = names.fresh(&format!("rows_{rows}"), "_", |name| joined.items.contains_key(&name));
    joined.items.insert(name, main);
    Some((name, constants))
}

/// Makes parameters of the constants in `kernel`, in front of its results: all of `constants`, of
/// which `own` are in it.
pub(crate) fn take_constants(
    kernel: &mut Item,
    constants: &[TensorData],
    own: &[TensorData],
) -> Option<()> {
    let outputs = outputs(&kernel.signature);
    let body = kernel.body_mut()?;
    let entry = body.entry();
    let params = body.block_args(entry).to_vec();
    let first = params.len().checked_sub(outputs)?;
    let mut values: FxHashMap<Attr, ValueId> = FxHashMap::default();
    for value in constants {
        values.insert(Attr::of(value), body.add_block_arg(entry, value.ty()));
    }
    for result in &params[first..] {
        let again = body.add_block_arg(entry, body.ty(*result));
        body.set_name_hint(again, body.name_hint(*result));
        body.replace_all_uses(*result, again);
    }
    body.remove_block_args(entry, first..params.len());
    if !own.is_empty() {
        for op in body.block_ops(entry).collect::<Vec<_>>() {
            if let Some(Data { value }) = body.view(op) {
                body.replace_all_uses(body.result(op, 0), *values.get(&Attr::of(&value))?);
                body.erase(op);
            }
        }
    }
    let params: Vec<Type> = body.block_args(entry).iter().map(|arg| body.ty(*arg)).collect();
    kernel.signature.ty = Type::function(params, Type::unit());
    Some(())
}

/// The function of any number of rows. `types` are those of the first of `kernels`, without
/// constants.
fn entry(
    types: &[Type],
    outputs: usize,
    has_rows: &[bool],
    constants: Vec<TensorData>,
    kernels: Vec<Symbol>,
) -> Item {
    let (inputs, results) = types.split_at(types.len() - outputs);
    let inputs = inputs.iter().zip(has_rows);
    let params: Vec<Type> =
        inputs.map(|(ty, has_rows)| if *has_rows { prog::opened(*ty) } else { *ty }).collect();
    let results: Vec<Type> = results.iter().map(|ty| prog::opened(*ty)).collect();
    let mut body = Body::new();
    let block = body.entry();
    let mut inputs: Vec<ValueId> = params.iter().map(|ty| body.add_block_arg(block, *ty)).collect();
    for value in constants {
        let ty = value.ty();
        let at = InsertPoint::End(block);
        inputs.push(body.add(at, Loc::UNKNOWN, &prog::Constant { value }, ty));
    }
    let rows = prog::Rows { kernels, inputs };
    let parts = OpParts::new("prog.rows", &rows.inputs, &results);
    let op = body.insert_op(InsertPoint::End(block), parts.attrs(ir_core::OpFields::attrs(&rows)));
    let values: Vec<ValueId> = body.results(op).collect();
    body.insert_op(InsertPoint::End(block), OpParts::new("prog.yield", &values, &[]));
    prog::ownership::insert(&mut body);
    let ty = Type::function(params, prog::result_type(results));
    let mut item = Item::new(prog::FUNC, ty, Some(body));
    item.signature.attrs = AttrDict::empty();
    item
}
