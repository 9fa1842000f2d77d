//! Functions that follow data and nothing else.

use indexmap::IndexMap;
use ir_core::{AttrDict, BlockId, Body, Effects, Module, OpId, Registry, Symbol, Type, ValueId};
use relay::language::{
    Call, Constant, Construct, FUNC, Global, Match, Tuple, TupleGet, is_primitive, yielded,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// What a parameter of a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Param {
    /// What is taken apart.
    Data,
    /// The same for all nodes: a parameter of the group's first function.
    Handed(usize),
    /// The same for all nodes: a constant, with these attributes.
    Constant(AttrDict),
    /// Of each node, computed by the one above.
    Given,
}

/// A function that takes data apart, and calls functions like it on parts of it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: Symbol,
    /// The number of the parameter that is taken apart.
    pub(super) data: usize,
    /// The match that does so.
    pub(super) choice: OpId,
    pub(super) result: Type,
    /// Before the group is known, all but the data are `Given`.
    pub(super) params: Vec<Param>,
    pub(super) clauses: Vec<Clause>,
}

impl Member {
    /// The parameters that are computed by the node above.
    pub(super) fn given(&self) -> impl Iterator<Item = usize> {
        let params = self.params.iter().enumerate();
        params.filter(|(_, param)| **param == Param::Given).map(|(index, _)| index)
    }

    fn descents<'a>(&'a self) -> impl Iterator<Item = (&'a Clause, &'a Descent)> {
        let of = |clause: &'a Clause| clause.calls.iter().map(move |descent| (clause, descent));
        self.clauses.iter().flat_map(of)
    }
}

/// One clause of the match of a function.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) block: BlockId,
    pub(super) calls: Vec<Descent>,
}

/// A call on a part of the data.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    pub(super) call: OpId,
    pub(super) callee: Symbol,
    pub(super) args: Vec<ValueId>,
    /// By argument, the parameter of the caller that it is.
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
    first.filter_map(|name| group(module, &members, *name)).filter(branches).collect()
}

/// Whether several calls of the functions of `group` may wait for the same moment: somewhere there are
/// two parts to go on with.
fn branches(group: &Group) -> bool {
    group.values().flat_map(|member| &member.clauses).any(|clause| clause.calls.len() > 1)
}

/// The functions that `first` reaches, with what their parameters are; `None` where one takes apart what
/// is no part of its caller's data. Looks at each function again for each parameter that turns out to
/// differ from node to node.
fn group(
    module: &Module,
    members: &IndexMap<Symbol, Member, FxBuildHasher>,
    first: Symbol,
) -> Option<Group> {
    let mut group = Group::default();
    let mut member = members[&first].clone();
    for (index, param) in member.params.iter_mut().enumerate() {
        if *param == Param::Given {
            *param = Param::Handed(index);
        }
    }
    group.insert(first, member);
    let mut pending = vec![first];
    while let Some(name) = pending.pop() {
        let caller = group[&name].clone();
        let body = module.body(name)?;
        for (clause, descent) in caller.descents() {
            let callee = &members[&descent.callee];
            if !body.block_args(clause.block).contains(&descent.args[callee.data]) {
                return None;
            }
            let found = |(index, handed): (usize, &Option<usize>)| match handed {
                _ if index == callee.data => Param::Data,
                Some(param) => caller.params[*param],
                None => match body.defining_op(descent.args[index]) {
                    Some(op) if body.is::<Constant>(op) => Param::Constant(body.attrs(op)),
                    _ => Param::Given,
                },
            };
            let found: Vec<Param> = descent.handed.iter().enumerate().map(found).collect();
            let known = group.entry(descent.callee).or_insert_with(|| {
                pending.push(descent.callee);
                Member { params: found.clone(), ..callee.clone() }
            });
            for (known, found) in known.params.iter_mut().zip(found) {
                if *known != found && *known != Param::Given {
                    *known = Param::Given;
                    pending.push(descent.callee);
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
    let mut params = vec![Param::Given; params.len()];
    params[data_param] = Param::Data;
    let result = body.ty(value);
    Some(Member { name, data: data_param, choice, result, params, clauses })
}

fn clause(body: &Body, block: BlockId, registry: &Registry) -> Option<Clause> {
    let params = body.block_args(body.entry());
    let mut calls: Vec<Descent> = vec![];
    // What the calls of this clause give, and what is computed of it.
    let mut later: FxHashSet<ValueId> = FxHashSet::default();
    for op in body.block_ops(block) {
        if body.has_regions(op) {
            return None;
        }
        let is_later = body.operands(op).any(|operand| later.contains(&operand));
        if let Some(Call { callee, args, .. }) = body.view(op) {
            let (_, Global { name }) = body.view_def(callee)?;
            if is_later {
                return None;
            }
            let place = |arg: &ValueId| params.iter().position(|param| param == arg);
            let handed = args.iter().map(place).collect();
            later.insert(body.result(op, 0));
            calls.push(Descent { call: op, callee: name, args, handed });
        } else if !is_computed(body, op, registry) {
            return None;
        } else if is_later {
            later.extend(body.results(op));
        }
    }
    Some(Clause { block, calls })
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
