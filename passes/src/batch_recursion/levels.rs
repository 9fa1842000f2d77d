//! The functions that evaluate data level by level.

use std::cell::Cell;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Binding, Body, DType, FunctionType, InsertPoint, Item, Module, NameHint, OpParts,
    Registry, Symbol, Type, ValueId,
};
use relay::builder::Builder;
use relay::language::{
    AdtDecl, Call, Constant, Construct, ConstructorDecl, FUNC, Global, Match, Pattern, RefCreate,
    RefRead, RefWrite, TYPE, Tuple, TupleGet, operator,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::groups::{Clause, Group, Member, Param};
use super::rows::{Value, Writer};
use super::steps::{Step, Steps, steps};

/// A constructor with its data type.
#[derive(Clone, Debug)]
struct Form {
    ty: Type,
    name: Symbol,
    fields: Vec<Type>,
}

impl Form {
    /// Data made with it.
    fn of(&self, builder: &mut Builder, fields: Vec<ValueId>) -> ValueId {
        builder.add(&Construct { name: self.name.to_string(), fields }, self.ty)
    }

    /// The pattern that it fits and that binds the fields for which `binds` says so.
    fn binding(&self, binds: impl Fn(usize) -> bool) -> (Pattern, Vec<Type>) {
        let pattern = |index| if binds(index) { Pattern::Variable } else { Pattern::Wildcard };
        let patterns = (0..self.fields.len()).map(pattern).collect();
        let bound = (0..self.fields.len()).filter(|index| binds(*index));
        let types = bound.map(|index| self.fields[index]).collect();
        (Pattern::Constructor(self.name, patterns), types)
    }
}

/// A result that is not there yet, and one that is.
type Later = (Form, Form);

/// The nodes of a level for which the same step is to be computed: a list of how many there are from here
/// on, what the step needs of the data of this one, the cells of what it reads and of what it gives, and
/// the rest.
#[derive(Clone, Debug)]
struct Worklist {
    none: Form,
    more: Form,
    /// The function that evaluates them.
    run: Symbol,
    /// The field of a level that it is.
    number: usize,
    step: Step,
}

/// The worklists of the steps of a clause.
#[derive(Clone, Debug)]
struct Work {
    before: Option<Worklist>,
    after: Worklist,
}

/// What is written for a group.
struct Names {
    /// By type of what is computed.
    later: IndexMap<Type, Later, FxBuildHasher>,
    /// By member and clause.
    work: Vec<Vec<Work>>,
    /// A level: its height, its worklists, and a cell with the level above.
    level: Form,
    top: Form,
    up: Form,
    above: Symbol,
    higher: Symbol,
    run: Symbol,
    /// By member.
    inspect: Vec<Symbol>,
    /// The parameters of the first function that are handed on.
    handed: Vec<(usize, Type)>,
}

/// Finds names for items and constructors.
struct Fresh {
    names: FreshNames,
    taken: FxHashSet<Symbol>,
}

impl Fresh {
    fn name(&mut self, base: &str) -> Symbol {
        let taken = &self.taken;
        let name = self.names.fresh(base, "_", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }

    fn ty(&mut self, base: &str) -> Type {
        Type::named(self.name(base), [])
    }

    fn form(&mut self, base: &str, ty: Type, fields: Vec<Type>) -> Form {
        Form { ty, name: self.name(base), fields }
    }

    /// The type of values of type `ty` that are computed later.
    fn later(&mut self, known: &mut IndexMap<Type, Later, FxBuildHasher>, ty: Type) -> Type {
        let make = || {
            let later = self.ty("Later");
            let missing = self.form("Missing", later, vec![]);
            (missing, self.form("Present", later, vec![ty]))
        };
        known.entry(ty).or_insert_with(make).0.ty
    }
}

impl Names {
    fn new(module: &Module, group: &Group) -> Names {
        let declarations = module.items.values().filter(|item| item.signature.op == TYPE);
        let declarations =
            declarations.filter_map(|item| AdtDecl::from_attrs(item.signature.attrs));
        let constructors = declarations.flat_map(|adt| adt.constructors).map(|c| c.name);
        let taken = module.items.keys().copied().chain(constructors).collect();
        let mut fresh = Fresh { names: FreshNames::default(), taken };
        let (level, above) = (fresh.ty("Level"), fresh.ty("Above"));
        let mut later = IndexMap::default();
        let mut lists = 0;
        let mut worklist = |member: &Member, step: Step| {
            let body = module.body(member.name).expect("members have bodies");
            let ty = fresh.ty("Work");
            let mut fields = vec![Type::scalar(DType::INT32)];
            fields.extend(step.captured.iter().map(|variable| body.ty(*variable)));
            for value in step.reads.iter().chain(&step.gives) {
                fields.push(Type::reference(fresh.later(&mut later, body.ty(*value))));
            }
            fields.push(ty);
            let none = fresh.form("NoWork", ty, vec![]);
            let more = fresh.form("MoreWork", ty, fields);
            lists += 1;
            let run = fresh.name(&format!("{}_rows", member.name));
            Worklist { none, more, run, number: lists, step }
        };
        let mut of_clause = |member: &Member, clause: &Clause| {
            let body = module.body(member.name).expect("members have bodies");
            let Steps { before, after } = steps(body, group, member, clause);
            let before = before.map(|step| worklist(member, step));
            Work { before, after: worklist(member, after) }
        };
        let mut of_member = |member: &Member| {
            member.clauses.iter().map(|clause| of_clause(member, clause)).collect()
        };
        let work: Vec<Vec<Work>> = group.values().map(&mut of_member).collect();
        // Parameters, too, which nobody may read.
        for member in group.values() {
            let function = function_type(module, member);
            for index in member.given() {
                fresh.later(&mut later, function.params[index]);
            }
        }
        let lists = work.iter().flatten().flat_map(Work::worklists);
        let lists = lists.map(|list| Type::reference(list.none.ty));
        let height = [Type::scalar(DType::INT32)].into_iter();
        let fields = height.chain(lists).chain([Type::reference(above)]).collect();
        let (first, root) = group.first().expect("a group has a first function");
        let params = function_type(module, root).params.iter().copied().enumerate();
        let is_handed = |index: usize| matches!(root.params[index], Param::Handed(_));
        Names {
            level: fresh.form("Nodes", level, fields),
            top: fresh.form("Top", above, vec![]),
            up: fresh.form("Up", above, vec![level]),
            above: fresh.name("level_above"),
            higher: fresh.name("higher_level"),
            run: fresh.name(&format!("{first}_levels")),
            inspect: group.keys().map(|name| fresh.name(&format!("inspect_{name}"))).collect(),
            handed: params.filter(|(index, _)| is_handed(*index)).collect(),
            later,
            work,
        }
    }

    fn worklists(&self) -> impl Iterator<Item = &Worklist> {
        self.work.iter().flatten().flat_map(Work::worklists)
    }

    /// Types of what is handed on.
    fn handed(&self) -> Vec<Type> {
        self.handed.iter().map(|(_, ty)| *ty).collect()
    }

    /// A level, and a cell for a value of type `ty`: what is known of what is computed later.
    fn pending(&self, ty: Type) -> [Type; 2] {
        [self.level.ty, Type::reference(self.later[&ty].0.ty)]
    }

    fn declarations(&self) -> Vec<(Symbol, Item)> {
        let later = self.later.values().map(|(missing, present)| vec![missing, present]);
        let work = self.worklists().map(|list| vec![&list.none, &list.more]);
        let all = later.chain(work).chain([vec![&self.level], vec![&self.top, &self.up]]);
        let declared = |forms: Vec<&Form>| {
            let constructor = |form: &&Form| ConstructorDecl::new(form.name, form.fields.clone());
            let constructors = forms.iter().map(constructor).collect();
            let adt = AdtDecl { constructors, ..AdtDecl::default() };
            let mut item = Item::new(TYPE, Type::unknown(), None);
            item.signature.attrs = adt.to_attrs();
            (prog::data::name(forms[0].ty).expect("it was named"), item)
        };
        all.map(declared).collect()
    }
}

impl Work {
    fn worklists(&self) -> impl Iterator<Item = &Worklist> {
        self.before.iter().chain([&self.after])
    }
}

fn function_type(module: &Module, member: &Member) -> &'static FunctionType {
    module.items[&member.name].signature.ty.as_function().expect("it is a function")
}

/// Writes the functions and data types that evaluate `group` level by level, up to `most` nodes at once,
/// and lets its first function use them. Does nothing, and says so by `false`, where no clause reads
/// something once for several nodes.
pub(super) fn write(module: &mut Module, registry: &Registry, group: &Group, most: usize) -> bool {
    let names = Names::new(module, group);
    let mut items = names.declarations();
    let writer = Functions { module, registry, group, names: &names };
    items.push((names.run, writer.run()));
    let mut shares = false;
    for (member, work) in group.values().zip(&names.work) {
        for list in work.iter().flat_map(Work::worklists) {
            let (item, shared) = writer.rows(member, list, most);
            shares |= shared;
            items.push((list.run, item));
        }
    }
    if !shares {
        return false;
    }
    for (index, name) in names.inspect.iter().enumerate() {
        items.push((*name, writer.inspect(index)));
    }
    items.push((names.above, writer.above()));
    items.push((names.higher, writer.higher()));
    let (first, body) = (*group.keys().next().expect("it has a first function"), writer.first());
    items.into_iter().for_each(|(name, item)| drop(module.items.insert(name, item)));
    module.items[&first].body = Some(body.into());
    true
}

/// Writes the functions of a group.
struct Functions<'m> {
    module: &'m Module,
    registry: &'m Registry,
    group: &'m Group,
    names: &'m Names,
}

impl Functions<'_> {
    /// A function of the module.
    fn function(
        params: &[Type],
        result: Type,
        fill: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
    ) -> Item {
        let (mut builder, args) = Builder::new(params);
        let value = fill(&mut builder, &args);
        builder.yields(value);
        Item::new(FUNC, Type::function(params.iter().copied(), result), Some(builder.body))
    }

    /// `@above(level)`: the level above, made where there is none yet.
    fn above(&self) -> Item {
        let names = self.names;
        let level = names.level.ty;
        let last = names.level.fields.len() - 1;
        Self::function(&[level], level, |builder, args| {
            let parts = names.level.binding(|index| index == 0 || index == last);
            builder.matches(args[0], level, &[parts], |builder, _, fields| {
                let found = read(builder, fields[1], names.up.ty);
                let clauses = [names.top.binding(|_| true), names.up.binding(|_| true)];
                builder.matches(found, level, &clauses, |builder, clause, above| {
                    if clause == 1 {
                        return above[0];
                    }
                    let one = builder.int(1);
                    let height = number(builder, "add", &[fields[0], one], DType::INT32);
                    let new = self.level(builder, height);
                    let up = names.up.of(builder, vec![new]);
                    write_cell(builder, fields[1], up);
                    new
                })
            })
        })
    }

    /// A level without nodes.
    fn level(&self, builder: &mut Builder, height: ValueId) -> ValueId {
        let mut fields = vec![height];
        for list in self.names.worklists() {
            let none = list.none.of(builder, vec![]);
            fields.push(cell(builder, none));
        }
        let top = self.names.top.of(builder, vec![]);
        fields.push(cell(builder, top));
        self.names.level.of(builder, fields)
    }

    /// `@higher(a, b)`: the higher of two levels.
    fn higher(&self) -> Item {
        let level = self.names.level.ty;
        Self::function(&[level, level], level, |builder, args| {
            let heights: Vec<ValueId> = args
                .iter()
                .map(|arg| {
                    let parts = self.names.level.binding(|index| index == 0);
                    let height = Type::scalar(DType::INT32);
                    builder.matches(*arg, height, &[parts], |_, _, fields| fields[0])
                })
                .collect();
            let less = number(builder, "less", &heights, DType::BOOL);
            builder.if_else(less, level, |_| args[1], |_| args[0])
        })
    }

    /// `@inspect(data, lowest, ...)`: puts the nodes of the data into worklists, with the level and the cell
    /// of each parameter that is given; the level of its root, and the cell of its result.
    fn inspect(&self, index: usize) -> Item {
        let (names, member) = (self.names, &self.group[index]);
        let source = self.module.body(member.name).expect("members have bodies");
        let (missing, _) = &names.later[&member.result];
        let result = Type::tuple(names.pending(member.result));
        let Match { data, patterns, .. } =
            source.view(member.choice).expect("members have matches");
        let types = |clause: &Clause| {
            source.block_args(clause.block).iter().map(|arg| source.ty(*arg)).collect()
        };
        let clauses: Vec<(Pattern, Vec<Type>)> =
            patterns.into_iter().zip(member.clauses.iter().map(types)).collect();
        let mut params = vec![source.ty(data), names.level.ty];
        let given: Vec<ValueId> =
            member.given().map(|index| source.block_args(source.entry())[index]).collect();
        params.extend(given.iter().flat_map(|param| names.pending(source.ty(*param))));
        Self::function(&params, result, |builder, args| {
            let nothing = missing.of(builder, vec![]);
            let own = cell(builder, nothing);
            let pending = args[2..].chunks(2).map(|pair| (pair[0], pair[1]));
            let known: FxHashMap<ValueId, Pending> = given.into_iter().zip(pending).collect();
            builder.matches(args[0], result, &clauses, |builder, number, variables| {
                let variables: Vec<ValueId> = variables.to_vec();
                let clause = &member.clauses[number];
                let known = known.clone();
                let node =
                    Node { functions: self, source, clause, variables, lowest: args[1], known };
                node.enter(builder, &names.work[index][number], own)
            })
        })
    }

    /// A worklist of one node more than the `count` of `rest`.
    fn more(
        &self,
        builder: &mut Builder,
        list: &Worklist,
        count: ValueId,
        node: impl Iterator<Item = ValueId>,
        rest: ValueId,
    ) -> ValueId {
        let one = builder.int(1);
        let count = number(builder, "add", &[count, one], DType::INT32);
        list.more.of(builder, [count].into_iter().chain(node).chain([rest]).collect())
    }

    /// `@run(level, ...)`: evaluates the level, and those above.
    fn run(&self) -> Item {
        let names = self.names;
        let params = [&[names.level.ty][..], &names.handed()].concat();
        Self::function(&params, Type::unit(), |builder, args| {
            let (level, handed) = (args[0], &args[1..]);
            let parts = names.level.binding(|index| index > 0);
            builder.matches(level, Type::unit(), &[parts], |builder, _, cells| {
                let (above, lists) = cells.split_last().expect("a level has a cell");
                for (list, cell) in names.worklists().zip(lists) {
                    let work = read(builder, *cell, list.none.ty);
                    let args = [&[work], handed].concat();
                    let done = call(builder, list.run, &args, Type::unit());
                    bind(builder, done);
                }
                let found = read(builder, *above, names.up.ty);
                let clauses = [names.top.binding(|_| true), names.up.binding(|_| true)];
                builder.matches(found, Type::unit(), &clauses, |builder, _, next| match next {
                    [] => builder.add(&Tuple { fields: vec![] }, Type::unit()),
                    _ => call(builder, names.run, &[next, handed].concat(), Type::unit()),
                })
            })
        })
    }

    /// `@rows(work, ...)`: evaluates a worklist; and whether several of its nodes share something.
    fn rows(&self, member: &Member, list: &Worklist, most: usize) -> (Item, bool) {
        let params = [&[list.none.ty][..], &self.names.handed()].concat();
        let sizes: Vec<usize> = std::iter::successors(Some(most), |size| Some(size / 2))
            .take_while(|s| *s > 0)
            .collect();
        let write = |sizes: &[usize]| {
            let clauses = [list.none.binding(|_| true), list.more.binding(|_| true)];
            let shares = Cell::new(false);
            let item = Self::function(&params, Type::unit(), |builder, args| {
                builder.matches(args[0], Type::unit(), &clauses, |builder, number, node| {
                    if number == 0 {
                        return builder.add(&Tuple { fields: vec![] }, Type::unit());
                    }
                    let rows = Rows { functions: self, member, list, args, shares: &shares };
                    match sizes {
                        [size] => rows.evaluate(builder, *size),
                        _ => rows.choose(builder, node, sizes, "greater_equal"),
                    }
                })
            });
            (item, shares.get())
        };
        let (item, shares) = write(&sizes);
        if shares { (item, true) } else { (write(&[1]).0, false) }
    }

    /// The body of the group's first function: inspects the data, evaluates the levels, and takes the
    /// result.
    fn first(&self) -> Body {
        let (name, member) = self.group.first().expect("a group has a first function");
        let function = function_type(self.module, member);
        let source = self.module.body(*name).expect("members have bodies");
        let (mut builder, params) = Builder::new(&function.params);
        for (param, old) in params.iter().zip(source.block_args(source.entry())) {
            builder.body.set_name_hint(*param, source.name_hint(*old));
        }
        let names = self.names;
        let zero = builder.int(0);
        let lowest = self.level(&mut builder, zero);
        let mut args = vec![params[member.data], lowest];
        for index in member.given() {
            let (_, present) = &names.later[&function.params[index]];
            let known = present.of(&mut builder, vec![params[index]]);
            args.extend([lowest, cell(&mut builder, known)]);
        }
        let [_, result] = names.pending(member.result);
        let tuple =
            call(&mut builder, names.inspect[0], &args, Type::tuple([names.level.ty, result]));
        let root = builder.add(&TupleGet { tuple, index: 1 }, result);
        let handed = names.handed.iter().map(|(index, _)| params[*index]);
        let args: Vec<ValueId> = [lowest].into_iter().chain(handed).collect();
        let done = call(&mut builder, names.run, &args, Type::unit());
        bind(&mut builder, done);
        let value = content(&mut builder, root, &names.later[&member.result]);
        builder.yields(value);
        builder.body
    }
}

/// What is computed later: its level, and its cell.
type Pending = (ValueId, ValueId);

/// Writes how a node is put into worklists.
struct Node<'f> {
    functions: &'f Functions<'f>,
    source: &'f Body,
    clause: &'f Clause,
    variables: Vec<ValueId>,
    lowest: ValueId,
    /// By value of the clause.
    known: FxHashMap<ValueId, Pending>,
}

impl Node<'_> {
    /// Puts the node into the worklists of `work`; the level and the cell of its result, `own`.
    fn enter(mut self, builder: &mut Builder, work: &Work, own: ValueId) -> ValueId {
        let Functions { group, names, .. } = *self.functions;
        if let Some(list) = &work.before {
            self.enter_before(builder, list);
        }
        for descent in &self.clause.calls {
            let (place, _, callee) = group.get_full(&descent.callee).expect("members call members");
            let mut args = vec![self.variable(descent.args[callee.data]), self.lowest];
            for index in callee.given() {
                let (level, cell) = self.known[&descent.args[index]];
                args.extend([level, cell]);
            }
            let [level, cell] = names.pending(callee.result);
            let tuple = call(builder, names.inspect[place], &args, Type::tuple([level, cell]));
            let level = builder.add(&TupleGet { tuple, index: 0 }, level);
            let cell = builder.add(&TupleGet { tuple, index: 1 }, cell);
            self.known.insert(self.source.result(descent.call, 0), (level, cell));
        }
        let home = self.home(builder, &work.after);
        let result = Type::tuple([builder.body.ty(home), builder.body.ty(own)]);
        self.push(builder, &work.after, (home, &[own]), result, |builder| {
            let fields = vec![home, own];
            builder.add(&Tuple { fields }, result)
        })
    }

    /// Puts the node into `list`, whose step computes what the calls are given.
    fn enter_before(&mut self, builder: &mut Builder, list: &Worklist) {
        let names = self.functions.names;
        let home = self.home(builder, list);
        let mut cells = vec![];
        for value in &list.step.gives {
            let nothing = names.later[&self.source.ty(*value)].0.of(builder, vec![]);
            cells.push(cell(builder, nothing));
            self.known.insert(*value, (home, cells[cells.len() - 1]));
        }
        let entered = self.push(builder, list, (home, &cells), Type::unit(), |builder| {
            builder.add(&Tuple { fields: vec![] }, Type::unit())
        });
        bind(builder, entered);
    }

    /// What the pattern binds to its variable `variable`.
    fn variable(&self, variable: ValueId) -> ValueId {
        let all = self.source.block_args(self.clause.block);
        let place = all.iter().position(|other| *other == variable);
        self.variables[place.expect("it is one of the pattern")]
    }

    /// The lowest level above all that the step of `list` reads.
    fn home(&self, builder: &mut Builder, list: &Worklist) -> ValueId {
        let names = self.functions.names;
        let level = names.level.ty;
        let levels = list.step.reads.iter().map(|value| self.known[value].0);
        let highest = levels.reduce(|a, b| call(builder, names.higher, &[a, b], level));
        highest.map_or(self.lowest, |highest| call(builder, names.above, &[highest], level))
    }

    /// Puts the node into `list` of level `home`, with the cells of what it gives, and goes on with `next`.
    fn push(
        &self,
        builder: &mut Builder,
        list: &Worklist,
        (home, gives): (ValueId, &[ValueId]),
        result: Type,
        next: impl Fn(&mut Builder) -> ValueId,
    ) -> ValueId {
        let captured = list.step.captured.iter().map(|variable| self.variable(*variable));
        let reads = list.step.reads.iter().map(|value| self.known[value].1);
        let fields: Vec<ValueId> = captured.chain(reads).chain(gives.iter().copied()).collect();
        let parts = self.functions.names.level.binding(|index| index == list.number);
        builder.matches(home, result, &[parts], |builder, _, cells| {
            let old = read(builder, cells[0], list.none.ty);
            let clauses = [list.none.binding(|_| true), list.more.binding(|index| index == 0)];
            let int = Type::scalar(DType::INT32);
            let count = builder.matches(old, int, &clauses, |builder, _, count| {
                count.first().copied().unwrap_or_else(|| builder.int(0))
            });
            let more = self.functions.more(builder, list, count, fields.iter().copied(), old);
            write_cell(builder, cells[0], more);
            next(builder)
        })
    }
}

/// Writes how a worklist is evaluated.
struct Rows<'f> {
    functions: &'f Functions<'f>,
    member: &'f Member,
    list: &'f Worklist,
    /// The worklist, and what is handed on.
    args: &'f [ValueId],
    /// Whether several nodes share something.
    shares: &'f Cell<bool>,
}

impl Rows<'_> {
    /// Evaluates as many nodes as the first of `sizes` that their number, which is the first field of
    /// `node`, allows. Between two sizes, the first node comes once more, which does no harm.
    fn choose(
        &self,
        builder: &mut Builder,
        node: &[ValueId],
        sizes: &[usize],
        compare: &str,
    ) -> ValueId {
        let Some((size, smaller)) = sizes.split_first() else {
            let fields = node[1..node.len() - 1].iter().copied();
            let (list, functions) = (self.list, self.functions);
            let more = functions.more(builder, list, node[0], fields, self.args[0]);
            let args = [&[more], &self.args[1..]].concat();
            return call(builder, list.run, &args, Type::unit());
        };
        let size_value = builder.int(*size as i64);
        let fits = number(builder, compare, &[node[0], size_value], DType::BOOL);
        builder.if_else(
            fits,
            Type::unit(),
            |builder| self.evaluate(builder, *size),
            |builder| self.choose(builder, node, smaller, "equal"),
        )
    }

    /// Evaluates the first `count` nodes, and then the rest.
    fn evaluate(&self, builder: &mut Builder, count: usize) -> ValueId {
        let more = &self.list.more;
        let (field, types) = more.binding(|index| index > 0 && index + 1 < more.fields.len());
        let Pattern::Constructor(name, fields) = field else { panic!("it is a constructor's") };
        let own = &fields[..fields.len() - 1];
        let pattern = (0..count).fold(Pattern::Variable, |rest, _| {
            Pattern::Constructor(name, own.iter().cloned().chain([rest]).collect())
        });
        let variables = [types.repeat(count), vec![more.ty]].concat();
        let clause = (pattern, &variables[..]);
        builder.takes_apart(self.args[0], Type::unit(), clause, |builder, variables| {
            let (rest, nodes) = variables.split_last().expect("the rest is one");
            let nodes: Vec<&[ValueId]> = match types.len() {
                0 => vec![&[]; count],
                fields => nodes.chunks(fields).collect(),
            };
            self.nodes(builder, &nodes);
            let args = [&[*rest], &self.args[1..]].concat();
            call(builder, self.list.run, &args, Type::unit())
        })
    }

    /// Evaluates `nodes`, each given by what the step needs of it and cells.
    fn nodes(&self, builder: &mut Builder, nodes: &[&[ValueId]]) {
        let Functions { module, registry, names, .. } = *self.functions;
        let (member, step) = (self.member, &self.list.step);
        let item = &module.items[&member.name];
        let source = module.body(member.name).expect("members have bodies");
        let mut writer = Writer::new(registry, (source, item.signature.span), nodes.len());
        for (param, kind) in source.block_args(source.entry()).iter().zip(&member.params) {
            let value = match kind {
                Param::Data | Param::Given => continue,
                Param::Handed(first) => {
                    let place = names.handed.iter().position(|(index, _)| index == first);
                    let place = place.expect("it is a parameter of the first function");
                    self.args[1 + place]
                }
                Param::Constant(attrs) => {
                    let types = [source.ty(*param)];
                    let parts = OpParts::new(Constant::NAME, &[], &types).attrs(*attrs);
                    let op = builder.body.insert_op(InsertPoint::End(builder.block), parts);
                    builder.body.result(op, 0)
                }
            };
            writer.values.insert(*param, Value::Same(value));
        }
        let each = |field: usize| Value::Each(nodes.iter().map(|node| node[field]).collect());
        for (field, variable) in step.captured.iter().enumerate() {
            writer.values.insert(*variable, each(field));
        }
        for (index, value) in step.reads.iter().enumerate() {
            let later = &names.later[&source.ty(*value)];
            let field = step.captured.len() + index;
            let read = |node: &&[ValueId]| content(builder, node[field], later);
            let values = Value::Each(nodes.iter().map(read).collect());
            writer.values.insert(*value, values);
        }
        let constants = source.block_ops(source.entry()).filter(|op| source.is::<Constant>(*op));
        constants.chain(step.ops.iter().copied()).for_each(|op| writer.operation(builder, op));
        for (index, value) in step.gives.iter().enumerate() {
            let computed = writer.values[value].clone();
            let (_, present) = &names.later[&source.ty(*value)];
            for (node, value) in nodes.iter().zip(writer.parted(builder, &computed)) {
                let value = present.of(builder, vec![value]);
                write_cell(builder, node[step.captured.len() + step.reads.len() + index], value);
            }
        }
        self.shares.set(self.shares.get() || writer.shares);
    }
}

fn cell(builder: &mut Builder, value: ValueId) -> ValueId {
    let ty = Type::reference(builder.body.ty(value));
    builder.add(&RefCreate { value }, ty)
}

fn read(builder: &mut Builder, reference: ValueId, ty: Type) -> ValueId {
    builder.add(&RefRead { reference }, ty)
}

fn write_cell(builder: &mut Builder, reference: ValueId, value: ValueId) {
    let written = builder.add(&RefWrite { reference, value }, Type::unit());
    bind(builder, written);
}

/// What is in `cell`, which has been computed.
fn content(builder: &mut Builder, cell: ValueId, (missing, present): &Later) -> ValueId {
    let found = read(builder, cell, missing.ty);
    let (pattern, types) = present.binding(|_| true);
    builder.takes_apart(found, types[0], (pattern, &types), |_, fields| fields[0])
}

/// Calls function `name` of the module.
fn call(builder: &mut Builder, name: Symbol, args: &[ValueId], result: Type) -> ValueId {
    let ty = Type::function(args.iter().map(|arg| builder.body.ty(*arg)), result);
    let callee = builder.add(&Global { name }, ty);
    let (type_args, attributes) = (vec![], AttrDict::empty());
    builder.add(&Call { type_args, attributes, callee, args: args.to_vec() }, result)
}

/// Keeps `value`, of an operation with effects, where it stands.
fn bind(builder: &mut Builder, value: ValueId) {
    let hint = NameHint { name: Some("_".into()), binding: Binding::Let };
    builder.body.set_name_hint(value, hint);
}

/// A scalar of type `dtype`: the operator `name` of scalars.
fn number(builder: &mut Builder, name: &str, operands: &[ValueId], dtype: DType) -> ValueId {
    let types = [Type::scalar(dtype)];
    let parts = OpParts::new(operator(name), operands, &types);
    let op = builder.body.insert_op(InsertPoint::End(builder.block), parts);
    builder.body.result(op, 0)
}
