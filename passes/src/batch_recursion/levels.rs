//! The functions that evaluate data level by level.

use std::cell::Cell;

use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Binding, Body, DType, InsertPoint, Item, Module, NameHint, OpParts, Registry, Symbol,
    Type, ValueId,
};
use relay::builder::Builder;
use relay::language::{
    AdtDecl, Call, Constant, Construct, ConstructorDecl, FUNC, Global, Match, Pattern, RefCreate,
    RefRead, RefWrite, TYPE, Tuple, TupleGet, operator, yielded,
};
use rustc_hash::FxHashSet;

use super::groups::{Clause, Group, Member};
use super::rows::{Value, Writer};

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

/// The nodes of a level that are to be evaluated by the same clause: a list of how many there are from
/// here on, what the clause needs of this one, the cells of its parts, its own cell, and the rest.
#[derive(Clone, Debug)]
struct Worklist {
    none: Form,
    more: Form,
    /// The function that evaluates them.
    run: Symbol,
}

/// What is written for a group.
struct Names {
    /// By member: the result that is not there yet, and the one that is.
    later: Vec<(Form, Form)>,
    /// By member and clause.
    work: Vec<Vec<Worklist>>,
    /// A level: its height, its worklists, and a cell with the level above.
    level: Form,
    top: Form,
    up: Form,
    above: Symbol,
    higher: Symbol,
    run: Symbol,
    /// By member.
    inspect: Vec<Symbol>,
    /// Types of what is handed on.
    handed: Vec<Type>,
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
        let later = |member: &Member| {
            let ty = fresh.ty("Later");
            let missing = fresh.form("Missing", ty, vec![]);
            (missing, fresh.form("Present", ty, vec![member.result]))
        };
        let later: Vec<(Form, Form)> = group.values().map(later).collect();
        let mut worklist = |index: usize, member: &Member, clause: &Clause| {
            let body = module.body(member.name).expect("members have bodies");
            let ty = fresh.ty("Work");
            let variables = body.block_args(clause.block);
            let mut fields = vec![Type::scalar(DType::INT32)];
            fields.extend(clause.captured.iter().map(|variable| body.ty(variables[*variable])));
            let parts = clause.calls.iter().map(|descent| place(group, descent.callee));
            fields.extend(parts.chain([index]).map(|index| Type::reference(later[index].0.ty)));
            fields.push(ty);
            let none = fresh.form("NoWork", ty, vec![]);
            let more = fresh.form("MoreWork", ty, fields);
            Worklist { none, more, run: fresh.name(&format!("{}_rows", member.name)) }
        };
        let of_member = |(index, member): (usize, &Member)| {
            member.clauses.iter().map(|clause| worklist(index, member, clause)).collect()
        };
        let work: Vec<Vec<Worklist>> = group.values().enumerate().map(of_member).collect();
        let lists = work.iter().flatten().map(|list| Type::reference(list.none.ty));
        let height = [Type::scalar(DType::INT32)].into_iter();
        let fields = height.chain(lists).chain([Type::reference(above)]).collect();
        let (first, root) = group.first().expect("a group has a first function");
        let function = module.items[first].signature.ty.as_function().expect("it is a function");
        let params = function.params.iter().enumerate();
        Names {
            level: fresh.form("Nodes", level, fields),
            top: fresh.form("Top", above, vec![]),
            up: fresh.form("Up", above, vec![level]),
            above: fresh.name("level_above"),
            higher: fresh.name("higher_level"),
            run: fresh.name(&format!("{first}_levels")),
            inspect: group.keys().map(|name| fresh.name(&format!("inspect_{name}"))).collect(),
            handed: params.filter(|(index, _)| *index != root.data).map(|(_, ty)| *ty).collect(),
            later,
            work,
        }
    }

    fn worklists(&self) -> impl Iterator<Item = &Worklist> {
        self.work.iter().flatten()
    }

    fn declarations(&self) -> Vec<(Symbol, Item)> {
        let later = self.later.iter().map(|(missing, present)| vec![missing, present]);
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

fn place(group: &Group, name: Symbol) -> usize {
    group.get_index_of(&name).expect("members call members")
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
    for (member, lists) in group.values().zip(&names.work) {
        for (clause, list) in member.clauses.iter().zip(lists) {
            let (item, shared) = writer.rows(member, clause, list, most);
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

    /// `@inspect(data, lowest)`: puts the nodes of the data into worklists; the level of its root, and
    /// the cell of its result.
    fn inspect(&self, index: usize) -> Item {
        let (names, member) = (self.names, &self.group[index]);
        let source = self.module.body(member.name).expect("members have bodies");
        let (missing, _) = &names.later[index];
        let level = names.level.ty;
        let result = Type::tuple([level, Type::reference(missing.ty)]);
        let Match { data, patterns, .. } =
            source.view(member.choice).expect("members have matches");
        let types = |clause: &Clause| {
            source.block_args(clause.block).iter().map(|arg| source.ty(*arg)).collect()
        };
        let clauses: Vec<(Pattern, Vec<Type>)> =
            patterns.into_iter().zip(member.clauses.iter().map(types)).collect();
        Self::function(&[source.ty(data), level], result, |builder, args| {
            let nothing = missing.of(builder, vec![]);
            let own = cell(builder, nothing);
            builder.matches(args[0], result, &clauses, |builder, number, variables| {
                self.enter(builder, (index, number), variables, (args[1], own))
            })
        })
    }

    /// Puts a node into the worklist of clause `clause` of member `member`; its level and cell.
    fn enter(
        &self,
        builder: &mut Builder,
        (member, clause): (usize, usize),
        variables: &[ValueId],
        (lowest, own): (ValueId, ValueId),
    ) -> ValueId {
        let names = self.names;
        let list = &names.work[member][clause];
        let clause = &self.group[member].clauses[clause];
        let level = names.level.ty;
        let mut fields: Vec<ValueId> =
            clause.captured.iter().map(|variable| variables[*variable]).collect();
        let mut highest: Option<ValueId> = None;
        for descent in &clause.calls {
            let callee = place(self.group, descent.callee);
            let part_cell = Type::reference(names.later[callee].0.ty);
            let result = Type::tuple([level, part_cell]);
            let args = [variables[descent.variable], lowest];
            let tuple = call(builder, names.inspect[callee], &args, result);
            let of_part = builder.add(&TupleGet { tuple, index: 0 }, level);
            fields.push(builder.add(&TupleGet { tuple, index: 1 }, part_cell));
            highest = Some(match highest {
                Some(other) => call(builder, names.higher, &[other, of_part], level),
                None => of_part,
            });
        }
        let home =
            highest.map_or(lowest, |level| call(builder, names.above, &[level], names.level.ty));
        let number = 1
            + names.work[..member].iter().map(Vec::len).sum::<usize>()
            + names.work[member]
                .iter()
                .position(|other| other.run == list.run)
                .expect("it is there");
        let result = Type::tuple([level, builder.body.ty(own)]);
        let parts = names.level.binding(|index| index == number);
        builder.matches(home, result, &[parts], |builder, _, cells| {
            let old = read(builder, cells[0], list.none.ty);
            let clauses = [list.none.binding(|_| true), list.more.binding(|index| index == 0)];
            let int = Type::scalar(DType::INT32);
            let count = builder.matches(old, int, &clauses, |builder, _, count| {
                count.first().copied().unwrap_or_else(|| builder.int(0))
            });
            let more = self.more(builder, list, count, fields.iter().copied().chain([own]), old);
            write_cell(builder, cells[0], more);
            let fields = vec![home, own];
            builder.add(&Tuple { fields }, result)
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
        let params = [&[names.level.ty][..], &names.handed].concat();
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
    fn rows(&self, member: &Member, clause: &Clause, list: &Worklist, most: usize) -> (Item, bool) {
        let params = [&[list.none.ty][..], &self.names.handed].concat();
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
                    let rows =
                        Rows { functions: self, member, clause, list, args, shares: &shares };
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
        let signature = &self.module.items[name].signature;
        let function = signature.ty.as_function().expect("it is a function");
        let source = self.module.body(*name).expect("members have bodies");
        let (mut builder, params) = Builder::new(&function.params);
        for (param, old) in params.iter().zip(source.block_args(source.entry())) {
            builder.body.set_name_hint(*param, source.name_hint(*old));
        }
        let (names, later) = (self.names, &self.names.later[0]);
        let level = names.level.ty;
        let zero = builder.int(0);
        let lowest = self.level(&mut builder, zero);
        let cell = Type::reference(later.0.ty);
        let result = Type::tuple([level, cell]);
        let tuple = call(&mut builder, names.inspect[0], &[params[member.data], lowest], result);
        let root = builder.add(&TupleGet { tuple, index: 1 }, cell);
        let handed = params.iter().enumerate().filter(|(index, _)| *index != member.data);
        let args: Vec<ValueId> =
            [lowest].into_iter().chain(handed.map(|(_, param)| *param)).collect();
        let done = call(&mut builder, names.run, &args, Type::unit());
        bind(&mut builder, done);
        let value = content(&mut builder, root, later);
        builder.yields(value);
        builder.body
    }
}

/// Writes how a worklist is evaluated.
struct Rows<'f> {
    functions: &'f Functions<'f>,
    member: &'f Member,
    clause: &'f Clause,
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

    /// Evaluates `nodes`, each given by what the clause needs of it and cells.
    fn nodes(&self, builder: &mut Builder, nodes: &[&[ValueId]]) {
        let Functions { module, registry, group, names } = *self.functions;
        let (member, clause) = (self.member, self.clause);
        let item = &module.items[&member.name];
        let source = module.body(member.name).expect("members have bodies");
        let mut writer = Writer::new(registry, (source, item.signature.span), nodes.len());
        let params = source.block_args(source.entry());
        let root = group[0].data;
        for (param, handed) in params.iter().zip(&member.handed) {
            // What is handed on comes without the data of the first function.
            let Some(index) = handed.map(|index| index - usize::from(index > root)) else {
                continue;
            };
            writer.values.insert(*param, Value::Same(self.args[1 + index]));
        }
        let each = |field: usize| Value::Each(nodes.iter().map(|node| node[field]).collect());
        let variables = source.block_args(clause.block);
        for (field, variable) in clause.captured.iter().enumerate() {
            writer.values.insert(variables[*variable], each(field));
        }
        for (index, descent) in clause.calls.iter().enumerate() {
            let later = &names.later[place(group, descent.callee)];
            let field = clause.captured.len() + index;
            let read = |node: &&[ValueId]| content(builder, node[field], later);
            let values = Value::Each(nodes.iter().map(read).collect());
            writer.values.insert(source.result(descent.call, 0), values);
        }
        let constants = source.block_ops(source.entry()).filter(|op| source.is::<Constant>(*op));
        let inside = source.block_ops(clause.block).filter(|op| {
            source.result_count(*op) > 0 && !source.is::<Global>(*op) && !source.is::<Call>(*op)
        });
        constants.chain(inside).for_each(|op| writer.operation(builder, op));
        let result = yielded(source, clause.block).expect("clauses give values");
        let result = writer.values[&result].clone();
        let results = writer.parted(builder, &result);
        let (_, present) = &names.later[place(group, member.name)];
        for (node, value) in nodes.iter().zip(results) {
            let value = present.of(builder, vec![value]);
            write_cell(builder, *node.last().expect("a node has a cell"), value);
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
fn content(builder: &mut Builder, cell: ValueId, (missing, present): &(Form, Form)) -> ValueId {
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
