//! Functions that follow data and nothing else.

use indexmap::IndexMap;
use ir_core::{BlockId, Body, Effects, Module, OpId, Registry, Symbol, Type, ValueId};
use relay::language::{
    Call, Constant, Construct, FUNC, Global, Match, Tuple, TupleGet, is_primitive, yielded,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// A function that takes data apart, and calls functions like it on parts of it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: Symbol,
    /// The number of the parameter that is taken apart.
    pub(super) data: usize,
    /// The match that does so.
    pub(super) choice: OpId,
    pub(super) result: Type,
    /// By parameter, that of the group's first function which is handed on to it; none for the data.
    pub(super) handed: Vec<Option<usize>>,
    pub(super) clauses: Vec<Clause>,
}

/// One clause of the match of a function.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) block: BlockId,
    pub(super) calls: Vec<Descent>,
    /// The variables of the pattern, by number, that something else than calls uses.
    pub(super) captured: Vec<usize>,
}

/// A call on a part of the data.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    pub(super) call: OpId,
    pub(super) callee: Symbol,
    /// The variable of the pattern that is the part.
    pub(super) variable: usize,
    /// By parameter of the callee, that of the caller which is handed on.
    handed: Vec<Option<usize>>,
}

/// Functions that call no others, the first of which others call.
pub(super) type Group = IndexMap<Symbol, Member, FxBuildHasher>;

/// The groups of a module, by their first functions, in its order.
pub(super) fn groups(module: &Module, registry: &Registry) -> Vec<Group> {
    let members = members(module, registry);
    let mut from_outside: FxHashSet<Symbol> = FxHashSet::default();
    for (_, item) in module.items.iter().filter(|(name, _)| !members.contains_key(*name)) {
        let Some(body) = &item.body else { continue };
        let globals = body.walk().filter_map(|op| body.view::<Global>(op));
        from_outside.extend(globals.map(|global| global.name));
    }
    let first = members.keys().filter(|name| from_outside.contains(*name));
    first.filter_map(|name| group(&members, *name)).filter(branches).collect()
}

/// Whether several calls of the functions of `group` may wait for the same moment: somewhere there are
/// two parts to go on with.
fn branches(group: &Group) -> bool {
    group.values().flat_map(|member| &member.clauses).any(|clause| clause.calls.len() > 1)
}

/// The functions that `first` reaches, with what is handed on to each; `None` where that differs.
fn group(members: &IndexMap<Symbol, Member, FxBuildHasher>, first: Symbol) -> Option<Group> {
    let mut group = Group::default();
    let mut member = members[&first].clone();
    let params = member.handed.len();
    member.handed = (0..params).map(|index| (index != member.data).then_some(index)).collect();
    group.insert(first, member);
    let mut next = 0;
    while let Some((_, caller)) = group.get_index(next) {
        next += 1;
        let caller = caller.clone();
        for descent in caller.clauses.iter().flat_map(|clause| &clause.calls) {
            let callee = &members[&descent.callee];
            if descent.handed.iter().position(Option::is_none) != Some(callee.data) {
                return None;
            }
            let handed: Vec<Option<usize>> =
                descent.handed.iter().map(|param| caller.handed[(*param)?]).collect();
            match group.get(&descent.callee) {
                Some(known) if known.handed == handed => {}
                Some(_) => return None,
                None => {
                    let member = Member { handed, ..callee.clone() };
                    group.insert(descent.callee, member);
                }
            }
        }
    }
    Some(group)
}

/// The functions that follow data, and call none but such functions.
fn members(module: &Module, registry: &Registry) -> IndexMap<Symbol, Member, FxBuildHasher> {
    let mut members: IndexMap<Symbol, Member, FxBuildHasher> = IndexMap::default();
    for (name, item) in &module.items {
        let attrs = item.signature.attrs;
        let function = item.signature.ty.as_function();
        let is_open = item.signature.op == FUNC
            && name.as_str() != "main"
            && function.is_some_and(|function| function.type_params.is_empty())
            && !is_primitive(attrs)
            && !item.signature.ty.facts().has_any
            && ["Compiler", "Extern", "SkipOptimization"]
                .iter()
                .all(|key| attrs.get(*key).is_none());
        let Some(body) = item.body.as_ref().filter(|_| is_open) else { continue };
        if let Some(member) = member(*name, body, registry) {
            members.insert(*name, member);
        }
    }
    // Whoever calls one that is none is none.
    let mut callers: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
    let mut pending = vec![];
    for (name, member) in &members {
        for descent in member.clauses.iter().flat_map(|clause| &clause.calls) {
            callers.entry(descent.callee).or_default().push(*name);
            if !members.contains_key(&descent.callee) {
                pending.push(descent.callee);
            }
        }
    }
    let mut gone: FxHashSet<Symbol> = FxHashSet::default();
    while let Some(name) = pending.pop() {
        let callers = callers.get(&name).into_iter().flatten();
        pending.extend(callers.filter(|caller| gone.insert(**caller)));
    }
    members.retain(|name, _| !gone.contains(name));
    members
}

/// `body`, of function `name`, as one that takes data apart and whose clauses have no branches;
/// `None` where it is another.
fn member(name: Symbol, body: &Body, registry: &Registry) -> Option<Member> {
    let entry = body.entry();
    let params = body.block_args(entry);
    let value = yielded(body, entry)?;
    let choice = body.defining_op(value).filter(|op| body.op_block(*op) == Some(entry))?;
    let Match { data, patterns, .. } = body.view(choice)?;
    let data_param = params.iter().position(|param| *param == data)?;
    if !body.has_one_use(data) || !body.has_one_use(value) {
        return None;
    }
    let before = body.block_ops(entry).filter(|op| *op != choice);
    if !before.filter(|op| body.result_count(*op) > 0).all(|op| body.is::<Constant>(op)) {
        return None;
    }
    let clauses = (0..patterns.len())
        .map(|index| clause(body, body.region_block(choice, index), registry))
        .collect::<Option<Vec<Clause>>>()?;
    let handed = vec![None; params.len()];
    let result = body.ty(value);
    Some(Member { name, data: data_param, choice, result, handed, clauses })
}

fn clause(body: &Body, block: BlockId, registry: &Registry) -> Option<Clause> {
    let variables = body.block_args(block);
    let params = body.block_args(body.entry());
    let mut calls: Vec<Descent> = vec![];
    for op in body.block_ops(block) {
        if body.has_regions(op) {
            return None;
        }
        if let Some(Call { callee, args, .. }) = body.view(op) {
            let (_, Global { name }) = body.view_def(callee)?;
            let place =
                |values: &[ValueId], value: ValueId| values.iter().position(|v| *v == value);
            let handed: Vec<Option<usize>> = args.iter().map(|arg| place(params, *arg)).collect();
            let mut others = (0..args.len()).filter(|index| handed[*index].is_none());
            let part = others.next()?;
            let variable = place(variables, args[part])?;
            if others.next().is_some() {
                return None;
            }
            calls.push(Descent { call: op, callee: name, variable, handed });
        } else if !is_computed(body, op, registry) {
            return None;
        }
    }
    let is_descent = |user: OpId| calls.iter().any(|descent| descent.call == user);
    let is_captured =
        |index: &usize| body.uses(variables[*index]).any(|(user, _)| !is_descent(user));
    let captured = (0..variables.len()).filter(is_captured).collect();
    Some(Clause { block, calls, captured })
}

/// Whether `op` computes something of its operands, and does nothing else.
fn is_computed(body: &Body, op: OpId, registry: &Registry) -> bool {
    let is_form = body.is::<Constant>(op)
        || body.is::<Global>(op)
        || body.is::<Tuple>(op)
        || body.is::<TupleGet>(op)
        || body.is::<Construct>(op);
    let does_nothing_else = registry.def(body.op_name(op)).is_some_and(|def| {
        !def.effects
            .intersects(Effects::READ | Effects::WRITE | Effects::DIVERGE | Effects::ALLOCATE)
    });
    body.result_count(op) == 0 || is_form || does_nothing_else
}
