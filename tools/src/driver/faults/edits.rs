//! Edits that make a program smaller or simpler, on any dialect. They keep a body consistent, but
//! whether the program still verifies is for the reducer to see; so they know nothing of operations
//! but their declarations and two hooks.

use std::collections::{BTreeSet, VecDeque};

use ir_core::reduce::{DropParameter, MakeTuple, MakeZero, OpenFunction};
use ir_core::registry::Arity;
use ir_core::{
    Attr, AttrData, AttrDict, BlockId, Body, DType, Dim, Effects, FunctionType, InsertPoint, Item,
    Module, OpId, Registry, Scalar, Symbol, TensorData, TensorType, Traits, Type, TypeData,
    TypeParam, ValueId,
};

/// A way to simplify a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strategy {
    /// Items go.
    Items,
    /// What a function within another computes takes the place of its call.
    Calls,
    /// Operations go; parameters take the place of their results.
    Operations,
    /// Results of a function go.
    Results,
    /// What an operation is computed from takes its place.
    Operands,
    /// What is inside an operation takes its place.
    Regions,
    /// A function becomes what is inside one of its operations.
    Insides,
    /// Zeros take the place of operations.
    Zeros,
    /// Parameters that nobody uses go, of functions within others as well.
    Parameters,
    /// Parameters of one type become one.
    Merges,
    /// Attributes get their defaults.
    Attributes,
    /// Extents become small.
    Extents,
    /// Constants become zeros.
    Constants,
}

impl Strategy {
    /// All of them, those that remove much first.
    pub(crate) const ALL: [Strategy; 13] = [
        Strategy::Items,
        Strategy::Calls,
        Strategy::Operations,
        Strategy::Results,
        Strategy::Operands,
        Strategy::Regions,
        Strategy::Insides,
        Strategy::Zeros,
        Strategy::Parameters,
        Strategy::Merges,
        Strategy::Attributes,
        Strategy::Extents,
        Strategy::Constants,
    ];

    /// What is reduced, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strategy::Items => "items",
            Strategy::Operations => "operations",
            Strategy::Results => "results",
            Strategy::Operands => "chains",
            Strategy::Calls => "calls",
            Strategy::Regions => "regions",
            Strategy::Insides => "functions",
            Strategy::Zeros => "zeros",
            Strategy::Parameters | Strategy::Merges => "parameters",
            Strategy::Attributes => "attributes",
            Strategy::Extents => "extents",
            Strategy::Constants => "constants",
        }
    }
}

/// One edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    /// Removes the item.
    Item(Symbol),
    /// Keeps the first operations of the entry block, and returns what the others used of them.
    Cut(Symbol, usize),
    /// Removes an operation; parameters take the place of results.
    Operation(Symbol, OpId),
    /// Removes this result.
    Result(Symbol, usize),
    /// Replaces an operation by this value, from which it is computed.
    Operand(Symbol, OpId, ValueId),
    /// Puts what the function that an operation is computes in the place of its call.
    Call(Symbol, OpId),
    /// Replaces an operation by what is in this region.
    Region(Symbol, OpId, usize),
    /// Makes the value of this region that of the function.
    Inside(Symbol, OpId, usize),
    /// Replaces an operation by zeros.
    Zero(Symbol, OpId),
    /// Removes this parameter, and its argument from calls.
    Parameter(Symbol, usize),
    /// Removes this parameter of the function that an operation is.
    Inner(Symbol, OpId, usize),
    /// Uses the second parameter, an earlier one, in place of the first.
    Merge(Symbol, usize, usize),
    /// Leaves an attribute out.
    Attribute(Symbol, OpId, Symbol),
    /// Makes an extent another one, wherever it occurs.
    Extent(i64, i64),
    /// Makes extents that are larger this one, and so whatever integer is larger.
    Shrink(i64),
    /// Makes a constant zeros.
    Constant(Symbol, OpId),
}

/// The edits of a kind that `module` offers, in program order.
pub(crate) fn edits(strategy: Strategy, module: &Module, registry: &Registry) -> Vec<Edit> {
    let mut found = Vec::new();
    match strategy {
        Strategy::Items => return module.items.keys().map(|name| Edit::Item(*name)).collect(),
        Strategy::Extents => return extents(module),
        _ => {}
    }
    for (&name, item) in &module.items {
        let Some(body) = item.body.as_deref() else { continue };
        match strategy {
            Strategy::Results => {
                found.extend((0..results(body, registry).len()).map(|i| Edit::Result(name, i)));
            }
            Strategy::Parameters => {
                let args = body.block_args(body.entry()).iter().enumerate();
                let unused = args.filter(|(_, arg)| body.is_unused(**arg));
                found.extend(unused.map(|(index, _)| Edit::Parameter(name, index)));
                for op in body.walk() {
                    inner_parameters(name, body, op, registry, &mut found);
                }
            }
            Strategy::Merges => {
                let args = body.block_args(body.entry());
                for (index, arg) in args.iter().enumerate() {
                    let ty = body.ty(*arg);
                    let first = args[..index].iter().position(|other| body.ty(*other) == ty);
                    found.extend(first.map(|first| Edit::Merge(name, index, first)));
                }
            }
            _ => {
                for op in body.walk() {
                    op_edits(strategy, name, body, op, registry, &mut found);
                }
            }
        }
    }
    found
}

/// The parameters of the function that `op` is that nobody uses.
fn inner_parameters(
    name: Symbol,
    body: &Body,
    op: OpId,
    registry: &Registry,
    found: &mut Vec<Edit>,
) {
    let makes_function = registry.hook::<DropParameter>(body.op_name(op)).is_some();
    let Some(region) = body.regions(op).first().filter(|_| makes_function) else { return };
    let args = body.block_args(body.block_of(*region)).iter().enumerate();
    let unused = args.filter(|(_, arg)| body.is_unused(**arg));
    found.extend(unused.map(|(index, _)| Edit::Inner(name, op, index)));
}

/// The edits of `op`.
fn op_edits(
    strategy: Strategy,
    name: Symbol,
    body: &Body,
    op: OpId,
    registry: &Registry,
    found: &mut Vec<Edit>,
) {
    let traits = registry.traits(body, op);
    if traits.contains(Traits::TERMINATOR) {
        return;
    }
    match strategy {
        // The tuple of results loses fields until it is one value.
        Strategy::Operations if is_returned_tuple(body, op, registry) => {}
        Strategy::Operations => found.push(Edit::Operation(name, op)),
        Strategy::Zeros if !traits.contains(Traits::CONSTANT) && body.result_count(op) == 1 => {
            found.push(Edit::Zero(name, op));
        }
        Strategy::Operands if body.result_count(op) == 1 => {
            found.extend(sources(body, op).into_iter().map(|from| Edit::Operand(name, op, from)));
        }
        Strategy::Calls if registry.hook::<OpenFunction>(body.op_name(op)).is_some() => {
            found.push(Edit::Call(name, op));
        }
        Strategy::Regions if !traits.contains(Traits::DEFERRED) => {
            found.extend((0..body.regions(op).len()).map(|index| Edit::Region(name, op, index)));
        }
        Strategy::Insides if body.op_block(op) == Some(body.entry()) => {
            found.extend((0..body.regions(op).len()).map(|index| Edit::Inside(name, op, index)));
        }
        Strategy::Attributes => {
            let Some(def) = registry.def_of(body, op) else { return };
            for (key, _) in body.attrs(op).entries() {
                let declared = def.attr(key.as_str());
                if declared.map_or(def.open_attrs, |field| field.default.is_some()) {
                    found.push(Edit::Attribute(name, op, *key));
                }
            }
        }
        Strategy::Constants if traits.contains(Traits::CONSTANT) => {
            let value: Option<TensorData> = body.attrs(op).value("value");
            if value.is_some_and(|value| value.bytes().iter().any(|byte| *byte != 0)) {
                found.push(Edit::Constant(name, op));
            }
        }
        _ => {}
    }
}

/// The most values that are looked at for one that can take the place of an operation.
const MOST_SOURCES: usize = 16;

/// Values of the type of the result of `op` that it is computed from: operands, and behind those of
/// other types what they are computed from, such as the operand of a normalization of which `op` is
/// the first result.
fn sources(body: &Body, op: OpId) -> Vec<ValueId> {
    let ty = body.ty(body.result(op, 0));
    let mut seen: Vec<ValueId> = Vec::new();
    let mut found = Vec::new();
    let mut pending: VecDeque<OpId> = VecDeque::from([op]);
    while let Some(op) = pending.pop_front() {
        for operand in body.operands(op) {
            if seen.len() == MOST_SOURCES || seen.contains(&operand) {
                continue;
            }
            seen.push(operand);
            match body.ty(operand) == ty {
                true => found.push(operand),
                false => pending.extend(body.defining_op(operand)),
            }
        }
    }
    found
}

/// Applies `edits`, which were found in `module`; those that an earlier one has made impossible are
/// left out. What is unused then is erased.
pub(crate) fn apply(module: &mut Module, edits: &[Edit], registry: &Registry) {
    // Users before what they use: an operation whose users are gone leaves no parameter.
    for edit in edits.iter().rev() {
        apply_one(module, *edit, registry);
    }
    for body in module.items.values_mut().filter_map(|item| item.body_mut()) {
        erase_unused(body, registry);
    }
}

fn apply_one(module: &mut Module, edit: Edit, registry: &Registry) -> Option<()> {
    let name = match edit {
        Edit::Item(name) => {
            module.items.shift_remove(&name);
            return Some(());
        }
        Edit::Extent(from, to) => {
            change_extents(
                module,
                &|extent| if extent == from { to } else { extent },
                false,
                registry,
            );
            return Some(());
        }
        Edit::Shrink(most) => {
            change_extents(module, &|extent| extent.min(most), true, registry);
            return Some(());
        }
        Edit::Parameter(name, index) => return remove_parameter(module, name, index, registry),
        Edit::Cut(name, _)
        | Edit::Operation(name, _)
        | Edit::Result(name, _)
        | Edit::Operand(name, ..)
        | Edit::Call(name, _)
        | Edit::Region(name, ..)
        | Edit::Inside(name, ..)
        | Edit::Zero(name, _)
        | Edit::Inner(name, ..)
        | Edit::Merge(name, ..)
        | Edit::Attribute(name, ..)
        | Edit::Constant(name, _) => name,
    };
    let item = module.items.get_mut(&name)?;
    apply_within(item, edit, registry)?;
    declare_type(item);
    Some(())
}

/// Makes an edit that is within an item.
fn apply_within(item: &mut Item, edit: Edit, registry: &Registry) -> Option<()> {
    match edit {
        Edit::Cut(_, kept) => cut(item, kept, registry)?,
        Edit::Result(_, index) => remove_result(item, index, registry)?,
        Edit::Inside(_, op, region) => go_inside(item, op, region)?,
        Edit::Operation(_, op) => remove(item, op)?,
        Edit::Region(_, op, region) => take_out(item, op, region)?,
        Edit::Inner(_, op, index) => {
            let body = live(item, op)?;
            let hook = registry.hook::<DropParameter>(body.op_name(op))?;
            (hook.0)(body, op, index);
        }
        Edit::Merge(_, from, to) => {
            let body = item.body_mut()?;
            let args = body.block_args(body.entry());
            let (from, to) = (*args.get(from)?, *args.get(to)?);
            body.replace_all_uses(from, to);
            let index = body.block_args(body.entry()).iter().position(|arg| *arg == from)?;
            body.remove_block_arg(body.entry(), index);
        }
        Edit::Operand(_, op, from) => {
            let body = live(item, op)?;
            let is_there = body.defining_op(from).is_none_or(|from| body.is_live(from));
            let result = body.result(op, 0);
            body.replace_all_uses(result, Some(from).filter(|_| is_there)?);
            body.erase(op);
        }
        Edit::Call(_, op) => {
            let body = live(item, op)?;
            let hook = registry.hook::<OpenFunction>(body.op_name(op))?;
            (hook.0)(body, op);
        }
        Edit::Zero(_, op) => {
            let body = live(item, op)?;
            let result = body.result(op, 0);
            let ty = body.ty(result);
            let zero = hooks::<MakeZero>(body.op_name(op), registry)
                .find_map(|(_, hook)| (hook.0)(body, InsertPoint::Before(op), ty))?;
            body.replace_all_uses(result, zero);
            body.erase(op);
        }
        Edit::Attribute(_, op, key) => {
            let body = live(item, op)?;
            body.set_attrs(op, body.attrs(op).without(key));
        }
        Edit::Constant(_, op) => {
            let body = live(item, op)?;
            let value: TensorData = body.attrs(op).value("value")?;
            let shape = value.shape().to_vec();
            let zeros = zeros(value.dtype(), &shape)?;
            body.set_attrs(op, body.attrs(op).with("value", &zeros));
        }
        Edit::Item(_) | Edit::Extent(..) | Edit::Shrink(_) | Edit::Parameter(..) => {}
    }
    Some(())
}

/// Removes a parameter of an item, and its argument from the calls of all items.
fn remove_parameter(
    module: &mut Module,
    name: Symbol,
    index: usize,
    registry: &Registry,
) -> Option<()> {
    let item = module.items.get_mut(&name)?;
    let body = item.body_mut()?;
    let entry = body.entry();
    let arg = *body.block_args(entry).get(index)?;
    if !body.is_unused(arg) {
        return None;
    }
    body.remove_block_arg(entry, index);
    declare_type(item);
    let is_name = |attr: &Attr| matches!(attr.data(), AttrData::Symbol(found) if *found == name);
    for item in module.items.values_mut() {
        let refers = |body: &Body, op: OpId| {
            let hook = registry.hook::<DropParameter>(body.op_name(op)).copied();
            hook.filter(|_| body.attrs(op).entries().iter().any(|(_, attr)| is_name(attr)))
        };
        let Some(body) = item.body.as_deref() else { continue };
        let found = body.walk().filter_map(|op| Some((op, refers(body, op)?)));
        let found: Vec<(OpId, DropParameter)> = found.collect();
        if found.is_empty() {
            continue;
        }
        let body = item.body_mut()?;
        for (op, hook) in found {
            (hook.0)(body, op, index);
        }
    }
    Some(())
}

fn live(item: &mut Item, op: OpId) -> Option<&mut Body> {
    item.body_mut().filter(|body| body.is_live(op))
}

fn zeros(dtype: DType, shape: &[i64]) -> Option<TensorData> {
    let count: i64 = shape.iter().product();
    let numbers = vec![0; usize::try_from(count).ok()? * dtype.lanes() as usize];
    TensorData::from_i64(dtype, shape, &numbers).ok()
}

/// The hooks of type `H` of the dialect of operation `of`, with their operations.
fn hooks<H: Send + Sync + 'static>(
    of: Symbol,
    registry: &Registry,
) -> impl Iterator<Item = (&'static str, &H)> {
    let dialect = of.as_str().split('.').next().unwrap_or_default();
    registry.ops().filter_map(move |info| {
        let own = info.def.name.split('.').next() == Some(dialect);
        own.then(|| info.hook::<H>()).flatten().map(|hook| (info.def.name, hook))
    })
}

/// Makes the type of a function that of its body.
fn declare_type(item: &mut Item) {
    let (Some(function), Some(body)) = (item.signature.ty.as_function(), &item.body) else {
        return;
    };
    let params: Box<[Type]> =
        body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect();
    let values = body.last_op(body.entry()).map(|last| body.operands(last).collect::<Vec<_>>());
    let result = match values.as_deref() {
        Some([one]) => body.ty(*one),
        Some([]) | None => function.result,
        Some(many) => Type::tuple(many.iter().map(|value| body.ty(*value))),
    };
    let type_params = function.type_params.clone();
    item.signature.ty = Type::new(TypeData::Function(FunctionType { type_params, params, result }));
}

/// Keeps `kept` operations of the entry block and its terminator, which gets the values that the
/// others used.
fn cut(item: &mut Item, kept: usize, registry: &Registry) -> Option<()> {
    let body = item.body_mut()?;
    let entry = body.entry();
    let ops: Vec<OpId> = body.block_ops(entry).collect();
    let (&terminator, ops) = ops.split_last()?;
    let (first, others) = ops.split_at_checked(kept)?;
    let mut values: Vec<ValueId> = Vec::new();
    for value in first.iter().flat_map(|op| body.results(*op)) {
        let end = others.first().copied().unwrap_or(terminator);
        let outside = |user| {
            let at = body.ancestor_in(user, entry);
            at.is_some_and(|at| !body.is_before(at, end))
        };
        if body.uses(value).any(|(user, _)| outside(user)) {
            values.push(value);
        }
    }
    if values.is_empty() {
        values.extend(first.last().into_iter().flat_map(|op| body.results(*op)));
    }
    give(body, terminator, &values, registry)?;
    for op in others.iter().rev() {
        body.erase(*op);
    }
    Some(())
}

/// Makes `values` what `terminator` gives.
fn give(body: &mut Body, terminator: OpId, values: &[ValueId], registry: &Registry) -> Option<()> {
    let name = body.op_name(terminator);
    let fields = registry.def(name)?.operands;
    let many = fields.last().is_some_and(|field| field.arity == Arity::Many);
    if many || values.len() == fields.len() {
        body.set_operands(terminator, values);
        return Some(());
    }
    let (_, make) = hooks::<MakeTuple>(name, registry).next()?;
    let tuple = (make.0)(body, InsertPoint::Before(terminator), values);
    body.set_operands(terminator, &[tuple]);
    Some(())
}

/// What a function gives, the fields of a tuple one by one; empty where it is one value.
fn results(body: &Body, registry: &Registry) -> Vec<ValueId> {
    let Some(terminator) = body.last_op(body.entry()) else { return vec![] };
    let values: Vec<ValueId> = body.operands(terminator).collect();
    if values.len() != 1 {
        return values;
    }
    let Some(op) = body.defining_op(values[0]) else { return vec![] };
    let makes_tuples = registry.hook::<MakeTuple>(body.op_name(op)).is_some();
    if makes_tuples { body.operands(op).collect() } else { vec![] }
}

/// Whether `op` makes the tuple that its function gives, and nothing else uses it.
fn is_returned_tuple(body: &Body, op: OpId, registry: &Registry) -> bool {
    let makes_tuples = registry.hook::<MakeTuple>(body.op_name(op)).is_some();
    let end = body.last_op(body.entry());
    makes_tuples
        && body.results(op).all(|value| body.uses(value).all(|(user, _)| Some(user) == end))
        && body.operand_count(op) > 0
}

fn remove_result(item: &mut Item, index: usize, registry: &Registry) -> Option<()> {
    let body = item.body_mut()?;
    let terminator = body.last_op(body.entry())?;
    let mut values = results(body, registry);
    if index >= values.len() || values.len() < 2 {
        return None;
    }
    values.remove(index);
    give(body, terminator, &values, registry)
}

/// Removes an operation; new parameters take the place of results that are used.
fn remove(item: &mut Item, op: OpId) -> Option<()> {
    let body = live(item, op)?;
    for result in body.results(op) {
        if !body.is_unused(result) {
            let parameter = body.add_block_arg(body.entry(), body.ty(result));
            body.replace_all_uses(result, parameter);
        }
    }
    body.erase(op);
    Some(())
}

/// Moves what is in a region of `op` before it, new parameters being the arguments; gives what the
/// region ended with.
fn move_out(body: &mut Body, op: OpId, region: usize) -> Option<Vec<ValueId>> {
    let block: BlockId = body.block_of(*body.regions(op).get(region)?);
    let entry = body.entry();
    for arg in body.block_args(block).to_vec() {
        if !body.is_unused(arg) {
            let parameter = body.add_block_arg(entry, body.ty(arg));
            body.replace_all_uses(arg, parameter);
        }
    }
    let last = body.last_op(block)?;
    let values: Vec<ValueId> = body.operands(last).collect();
    if body.result_count(last) == 0 {
        body.erase(last);
    }
    body.move_block_ops(block, InsertPoint::Before(op));
    Some(values)
}

fn take_out(item: &mut Item, op: OpId, region: usize) -> Option<()> {
    let body = live(item, op)?;
    let values = move_out(body, op, region)?;
    let results: Vec<ValueId> = body.results(op).collect();
    for (index, result) in results.into_iter().enumerate() {
        if body.is_unused(result) {
            continue;
        }
        let value = match values.get(index) {
            Some(value) => *value,
            None => body.add_block_arg(body.entry(), body.ty(result)),
        };
        body.replace_all_uses(result, value);
    }
    body.erase(op);
    Some(())
}

fn go_inside(item: &mut Item, op: OpId, region: usize) -> Option<()> {
    let body = live(item, op)?;
    let terminator = body.last_op(body.entry())?;
    let values = move_out(body, op, region)?;
    if values.len() != body.operand_count(terminator) {
        return None;
    }
    body.set_operands(terminator, &values);
    Some(())
}

/// Erases operations that nobody uses and that change no state, users first.
fn erase_unused(body: &mut Body, registry: &Registry) {
    let mut ops: Vec<OpId> = body.walk().collect();
    ops.reverse();
    for op in ops {
        let unused = body.is_live(op)
            && body.result_count(op) > 0
            && body.results(op).all(|value| body.is_unused(value));
        if unused && !registry.effects(body, op).contains(Effects::WRITE) {
            body.erase(op);
        }
    }
}

// ---- extents ---------------------------------------------------------------------------------

/// The most extents that are tried one by one.
const MAX_EXTENTS: usize = 64;

/// Edits of the extents of all values, the largest first.
fn extents(module: &Module) -> Vec<Edit> {
    let mut found: BTreeSet<i64> = BTreeSet::new();
    for body in module.items.values().filter_map(|item| item.body.as_deref()) {
        let args = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
        let results = body.walk().flat_map(|op| body.results(op));
        for value in args.chain(results) {
            if let TypeData::Tensor(tensor) = body.ty(value).data() {
                found.extend(tensor.shape.iter().filter_map(|dim| dim.known()));
            }
        }
    }
    let large = found.into_iter().rev().filter(|extent| *extent > 1).take(MAX_EXTENTS);
    large.flat_map(|from| (1..from.min(3)).map(move |to| Edit::Extent(from, to))).collect()
}

/// Makes extents others in all types, in attributes that are lists of integers, and in constants,
/// and with `numbers` in attributes that are integers. Where that does not fit together, the
/// program does not verify.
fn change_extents(
    module: &mut Module,
    change: &dyn Fn(i64) -> i64,
    numbers: bool,
    registry: &Registry,
) {
    let dim = |dim: &Dim| dim.known().map_or(*dim, |extent| Dim::Known(change(extent)));
    for item in module.items.values_mut() {
        let Some(body) = item.body_mut() else { continue };
        let blocks: Vec<BlockId> = body.walk_blocks().collect();
        let args = blocks.iter().flat_map(|block| body.block_args(*block).to_vec());
        for arg in args.collect::<Vec<_>>() {
            body.set_ty(arg, map_type(body.ty(arg), &dim, 0));
        }
        for op in body.walk().collect::<Vec<_>>() {
            for result in body.results(op) {
                body.set_ty(result, map_type(body.ty(result), &dim, 0));
            }
            let attrs = body.attrs(op);
            let constant = registry.traits(body, op).contains(Traits::CONSTANT);
            if let Some(value) = attrs.value::<TensorData>("value").filter(|_| constant) {
                if let Some(value) = resized(&value, change) {
                    body.set_attrs(op, attrs.with("value", &value));
                }
                continue;
            }
            let entries = attrs.entries().iter();
            let entries = entries.map(|(key, attr)| (*key, changed_attr(*attr, change, numbers)));
            let changed = AttrDict::new(entries);
            body.set_attrs(op, changed);
        }
        item.signature.ty = map_type(item.signature.ty, &dim, 0);
        declare_type(item);
    }
}

/// `value` with fewer elements: those at the front of each axis whose extent changes.
fn resized(value: &TensorData, change: &dyn Fn(i64) -> i64) -> Option<TensorData> {
    let old = value.shape().to_vec();
    let new: Vec<i64> = old.iter().map(|extent| change(*extent)).collect();
    if old == new {
        return None;
    }
    let count = usize::try_from(new.iter().product::<i64>()).ok()?;
    let mut elements: Vec<Scalar> = Vec::with_capacity(count);
    for index in 0..count {
        let (mut rest, mut offset, mut stride) = (index as i64, 0, 1);
        for (old, new) in old.iter().zip(&new).rev() {
            offset += rest % new * stride;
            (rest, stride) = (rest / new, stride * old);
        }
        elements.push(value.element(usize::try_from(offset).ok()?)?);
    }
    TensorData::from_scalars(value.dtype(), &new, elements).ok()
}

/// An attribute that is a list of integers, or with `numbers` an integer, with others.
fn changed_attr(attr: Attr, change: &dyn Fn(i64) -> i64, numbers: bool) -> Attr {
    let changed = |attr: &Attr| match attr.data() {
        AttrData::Int(value) => Attr::new(AttrData::Int(change(*value))),
        _ => *attr,
    };
    match attr.data() {
        AttrData::Array(items) => Attr::new(AttrData::Array(items.iter().map(changed).collect())),
        _ if numbers => changed(&attr),
        _ => attr,
    }
}

/// Deeper parts of types stay as they are.
const MAX_TYPE_DEPTH: usize = 50;

// Recursion is bounded by MAX_TYPE_DEPTH.
fn map_type(ty: Type, dim: &dyn Fn(&Dim) -> Dim, depth: usize) -> Type {
    if depth > MAX_TYPE_DEPTH {
        return ty;
    }
    let inner = |ty: &Type| map_type(*ty, dim, depth + 1);
    let data = match ty.data() {
        TypeData::Tensor(tensor) => {
            let shape = tensor.shape.iter().map(dim).collect();
            TypeData::Tensor(TensorType { shape, dtype: tensor.dtype })
        }
        TypeData::Tuple(fields) => TypeData::Tuple(fields.iter().map(inner).collect()),
        TypeData::Ref(content) => TypeData::Ref(inner(content)),
        TypeData::Function(function) => TypeData::Function(FunctionType {
            type_params: function.type_params.clone(),
            params: function.params.iter().map(inner).collect(),
            result: inner(&function.result),
        }),
        TypeData::Named { name, params } => {
            let params = params.iter().map(|param| match param {
                TypeParam::Type(ty) => TypeParam::Type(inner(ty)),
                TypeParam::Dim(extent) => TypeParam::Dim(dim(extent)),
                other => *other,
            });
            TypeData::Named { name: *name, params: params.collect() }
        }
        _ => return ty,
    };
    Type::new(data)
}
