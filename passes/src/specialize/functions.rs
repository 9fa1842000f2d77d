//! The functions of a module and their copies.
//!
//! Copies are made on demand, from the entry functions on, and each is read once. While this goes on,
//! copies have names that no program has; those that are reached in the end get theirs last.

use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use ir_core::module::FreshNames;
use ir_core::{
    Body, Diagnostic, Diagnostics, Dim, EntityId, FunctionType, InsertPoint, Item, Module,
    OpFields, OpId, OpParts, PassResult, Registry, Signatures, Span, Symbol, Type, TypeData,
    TypeParam, ValueId,
};
use relay::language::{FUNC, Fn, Global, create_fn, end_block, fn_attributes, is_primitive};
use relay::types::free_parameters;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::arguments::{Arguments, Growth, Known, Opening, groups, known_extents};
use super::types::{Declarations, Substitution, any_part, plain, substitute};
use crate::effects::referenced_functions;
use crate::lambda_lift::insert_call;

/// Copies of one function, at most.
const MAX_COPIES: usize = 4096;

/// The attribute of a function value, while passes run, that tells which one of the module it was.
pub(super) const ORIGIN: &str = "specialize.origin";

/// The attributes of the parameters of a function, one dictionary for each.
const PARAMETER_ATTRIBUTES: &str = "parameter_attributes";

/// A function of the module, one that was lifted, or a copy of one.
pub(super) struct Function {
    /// As it is before its body is read.
    pub(super) item: Item,
    /// As it is afterwards.
    done: Option<Item>,
    /// What it is called in the end, or what this starts with.
    base: Symbol,
    /// The function of the module that it comes from.
    root: Symbol,
    /// What it is a copy of, and for what; `None` where it is none.
    copy: Option<(Symbol, Arguments)>,
    growth: Growth,
    /// The function values that became functions on the way to it, by [`ORIGIN`], in order.
    trace: Arc<[u32]>,
    /// Whether it was such a value on the way to itself.
    pub(super) repeats: bool,
}

impl Function {
    fn new(item: Item, base: Symbol, root: Symbol) -> Function {
        let (growth, trace) = (Growth::default(), Arc::from([]));
        Function { item, done: None, base, root, copy: None, growth, trace, repeats: false }
    }

    pub(super) fn ty(&self) -> &'static FunctionType {
        self.item.signature.ty.as_function().expect("functions have function types")
    }
}

/// What is done besides copying for types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Nothing.
    Types,
    /// Local functions that are called become functions of the module.
    LocalCalls,
    /// That, and functions are copied for the functions that they are passed.
    KnownFunctions,
}

pub(super) struct Functions<'r> {
    pub(super) registry: &'r Registry,
    /// As they were.
    pub(super) signatures: Signatures,
    pub(super) declarations: Declarations,
    pub(super) mode: Mode,
    entry: Vec<Symbol>,
    functions: IndexMap<Symbol, Function, FxBuildHasher>,
    /// The copy of each function for each of its arguments.
    copies: FxHashMap<(Symbol, Arguments), Symbol>,
    /// How many copies of each function there are.
    counts: FxHashMap<Symbol, usize>,
    pending: VecDeque<Symbol>,
    /// The group of functions that use each other in which each function of the module is, and how
    /// many each group has.
    groups: FxHashMap<Symbol, usize>,
    members: Vec<usize>,
    lifted: u64,
}

impl<'r> Functions<'r> {
    /// The functions of `module`, of which those of `entry` are reached, or where there are none of
    /// these, those without type parameters.
    pub(super) fn new(
        module: &Module,
        registry: &'r Registry,
        mode: Mode,
        entry: &[Symbol],
    ) -> Result<Functions<'r>, Diagnostics> {
        let mut functions = IndexMap::default();
        let is_function = |item: &Item| {
            item.signature.op == FUNC
                && item.body.is_some()
                && item.signature.ty.as_function().is_some()
        };
        for (name, item) in module.items.iter().filter(|(_, item)| is_function(item)) {
            functions.insert(*name, Function::new(item.clone(), *name, *name));
        }
        if mode == Mode::KnownFunctions {
            number_function_values(&mut functions);
        }
        let present = |name: &&Symbol| functions.contains_key(*name);
        let mut roots: Vec<Symbol> = entry.iter().filter(present).copied().collect();
        for name in &roots {
            let item = &functions[name].item;
            let taken = item.signature.ty.as_function().map_or(&[][..], |ty| &ty.params);
            let is_taken = |name: &&Symbol| {
                let named = Type::new(TypeData::Parameter(**name));
                taken.iter().any(|ty| any_part(*ty, &mut |part| part == named))
            };
            if let Some(parameter) = type_parameters(item.signature.ty).iter().find(is_taken) {
                let message =
                    format!("`@{name}` is called from outside, for any type `{parameter}`");
                let found = Diagnostic::error("E0610", message).at(item.signature.span);
                return Err(found.help("give its parameters types without parameters").into());
            }
        }
        if roots.is_empty() {
            let plain =
                functions.iter().filter(|(_, f)| type_parameters(f.item.signature.ty).is_empty());
            roots = plain.map(|(name, _)| *name).collect();
        }
        // What has a body and is no function stays, and so does what it refers to.
        let others = module.items.values().filter(|item| item.signature.op != FUNC);
        let referred =
            others.filter_map(|item| item.body.as_ref()).flat_map(|b| referenced_functions(b));
        roots.extend(referred.filter(|name| functions.contains_key(name)));
        let names: Vec<Symbol> = functions.keys().copied().collect();
        let edges: Vec<Vec<usize>> = functions
            .values()
            .map(|function| {
                let body = function.item.body.iter();
                let names = body.flat_map(|body| referenced_functions(body));
                names.filter_map(|name| functions.get_index_of(&name)).collect()
            })
            .collect();
        let (group, members) = groups(&edges);
        let groups = names.into_iter().zip(group).collect();
        let mut all = Functions {
            registry,
            signatures: module.signatures(),
            declarations: Declarations::new(module),
            mode,
            entry: roots.clone(),
            functions,
            copies: FxHashMap::default(),
            counts: FxHashMap::default(),
            pending: VecDeque::new(),
            groups,
            members,
            lifted: 0,
        };
        for root in roots {
            all.copy(root, root, all.plain(root))?;
        }
        Ok(all)
    }

    /// Makes all copies that are asked for.
    pub(super) fn run(&mut self) -> PassResult {
        while let Some(name) = self.pending.pop_front() {
            let function = &self.functions[&name];
            let mut item = function.item.clone();
            let span = item.signature.span;
            if let Some(body) = item.body_mut() {
                self.read(name, body, span)?;
            }
            self.functions[&name].done = Some(item);
        }
        Ok(())
    }

    pub(super) fn get(&self, name: Symbol) -> Option<&Function> {
        self.functions.get(&name)
    }

    pub(super) fn is_copy(&self, name: Symbol) -> bool {
        self.functions.get(&name).is_some_and(|function| function.copy.is_some())
    }

    pub(super) fn copies(&self) -> u64 {
        self.copies.len() as u64
    }

    pub(super) fn lifted(&self) -> u64 {
        self.lifted
    }

    /// The arguments for which a copy of `name` is what `name` is, whose type parameters are all for
    /// extents, or for types that nothing depends on, such as that of the elements of an empty list.
    pub(super) fn plain(&self, name: Symbol) -> Arguments {
        let function = self.functions[&name].item.signature.ty;
        let free = type_parameters(function);
        let kept = self.functions[&name].ty().type_params.iter();
        let types = kept.map(|name| match free.contains(name) {
            true => TypeParam::Type(Type::unit()),
            false => TypeParam::Dim(Dim::parameter(*name)),
        });
        Arguments { types: types.collect(), functions: vec![] }
    }

    /// `types` of the caller as arguments of `callee`: those extents that are no numbers stay
    /// parameters.
    pub(super) fn opened(&self, callee: Symbol, types: &[TypeParam]) -> Vec<TypeParam> {
        let function = &self.functions[&callee];
        let is_open =
            |param: &TypeParam| matches!(param, TypeParam::Type(ty) if ty.facts().has_parameter);
        let taken = match types.iter().any(is_open) {
            true => bound_names(function),
            false => FxHashSet::default(),
        };
        let mut opening = Opening { taken: &taken, opened: vec![] };
        let names = function.ty().type_params.iter();
        let opened = names.zip(types).map(|(name, param)| match param {
            TypeParam::Type(ty) => TypeParam::Type(opening.ty(*ty)),
            TypeParam::Dim(Dim::Any | Dim::Expr(_)) => TypeParam::Dim(Dim::parameter(*name)),
            other => *other,
        });
        opened.collect()
    }

    /// What the type parameters of `name` become.
    pub(super) fn substitution(&self, name: Symbol, types: &[TypeParam]) -> Substitution {
        let names = self.functions[&name].ty().type_params.iter().copied();
        names.zip(types.iter().copied()).collect()
    }

    /// The copy of `name` for `arguments`, which function `inside` uses, made where it is new.
    pub(super) fn copy(
        &mut self,
        inside: Symbol,
        name: Symbol,
        arguments: Arguments,
    ) -> Result<Symbol, Diagnostic> {
        // A copy of a copy is one of the original, as far as both are for types.
        let (name, mut arguments) = match &self.functions[&name].copy {
            Some(_) if arguments.functions.is_empty() => return Ok(name),
            Some((original, own)) if own.functions.is_empty() => {
                (*original, Arguments { types: own.types.clone(), ..arguments })
            }
            _ => (name, arguments),
        };
        if let Some(known) = self.copies.get(&(name, arguments.clone())) {
            return Ok(*known);
        }
        let (user, function) = (&self.functions[&inside], &self.functions[&name]);
        let within =
            self.groups.get(&user.root).filter(|g| Some(*g) == self.groups.get(&function.root));
        let growth = match within {
            Some(group) => {
                // An extent that grows from call to call is a parameter of one copy.
                let own = user.copy.iter().flat_map(|(_, own)| own.types.iter().copied());
                let extents = known_extents(&own.collect::<Vec<_>>());
                let params = function.ty().type_params.iter();
                for (param, argument) in params.zip(&mut arguments.types) {
                    if matches!(argument, TypeParam::Dim(Dim::Known(extent)) if !extents.contains(extent))
                    {
                        *argument = TypeParam::Dim(Dim::parameter(*param));
                    }
                }
                user.growth.further(&arguments.types, self.members[*group])
            }
            None => Some(Growth::first(&arguments.types)),
        };
        let key = (name, arguments);
        if let Some(known) = self.copies.get(&key) {
            return Ok(*known);
        }
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let shown = self.functions[&self.functions[&name].root].base;
        let Some(growth) = growth.filter(|_| *count <= MAX_COPIES) else {
            let message = format!("`@{shown}` uses itself with other types again and again");
            return Err(Diagnostic::error("E0610", message)
                .help("a polymorphic function must use itself with the types it is used with"));
        };
        let copy = Symbol::new(&format!("{}#{}", name, self.functions.len()));
        let (_, arguments) = &key;
        let item = self.instance(name, arguments);
        let function = &self.functions[&name];
        let passed = arguments.functions.iter().flatten().filter_map(|known| self.named(*known));
        let mut trace: Vec<u32> = function.trace.to_vec();
        passed.for_each(|function| trace.extend(function.trace.iter()));
        trace.sort_unstable();
        trace.dedup();
        let (base, root) = (function.base, function.root);
        let function = Function {
            copy: Some(key.clone()),
            growth,
            trace: trace.into(),
            ..Function::new(item, base, root)
        };
        self.functions.insert(copy, function);
        self.copies.insert(key, copy);
        self.pending.push_back(copy);
        Ok(copy)
    }

    /// The function of the module that `known` names, or a copy of one.
    pub(super) fn named(&self, known: Known) -> Option<&Function> {
        let name = known.attrs.value::<Symbol>("name").filter(|_| known.op == Global::NAME)?;
        self.functions.get(&name)
    }

    /// Whether there may be one more copy of `name`.
    pub(super) fn has_room(&self, name: Symbol) -> bool {
        self.counts.get(&name).is_none_or(|count| *count < MAX_COPIES)
    }

    /// Function `name` with `arguments` in place of its parameters.
    fn instance(&self, name: Symbol, arguments: &Arguments) -> Item {
        let function = &self.functions[&name];
        let mut item = function.item.clone();
        let own = function.ty();
        let map: Substitution = self.substitution(name, &arguments.types);
        let changes =
            |(name, param): (&Symbol, &TypeParam)| *param != TypeParam::Dim(Dim::parameter(*name));
        if map.iter().any(changes) {
            let plain = Type::function(own.params.iter().copied(), own.result);
            item.signature.ty = closed(substitute(plain, &map));
            if let Some(body) = item.body_mut() {
                substitute_body(body, &map);
            }
        }
        if arguments.functions.iter().any(Option::is_some) {
            item.signature.attrs = item.signature.attrs.without(PARAMETER_ATTRIBUTES);
            let ty = item.signature.ty;
            if let Some(body) = item.body_mut() {
                let named =
                    |known| self.named(known).and_then(|function| function.item.body.as_ref());
                let params = put_functions(body, &arguments.functions, &named);
                if let Some(function) = ty.as_function() {
                    item.signature.ty = closed(Type::function(params, function.result));
                }
            }
        }
        item
    }

    /// The name, for now, of the function that a function value of `inside` becomes.
    pub(super) fn lifted_name(&self, inside: Symbol, hint: &str) -> Symbol {
        Symbol::new(&format!("{}_{hint}#{}", self.functions[&inside].root, self.functions.len()))
    }

    /// Whether function value `origin` became a function on the way to `inside`. Passing it on from
    /// there would ask for copies without end.
    pub(super) fn is_on_the_way(&self, inside: Symbol, origin: u32) -> bool {
        self.functions[&inside].trace.contains(&origin)
    }

    /// Adds `name`, the function that function value `origin` of `inside` becomes.
    pub(super) fn add_lifted(
        &mut self,
        (inside, hint): (Symbol, &str),
        name: Symbol,
        item: Item,
        origin: Option<u32>,
    ) {
        let user = &self.functions[&inside];
        let repeats = origin.is_none_or(|origin| self.is_on_the_way(inside, origin));
        let mut trace: Vec<u32> = user.trace.iter().copied().chain(origin).collect();
        trace.sort_unstable();
        trace.dedup();
        let base = Symbol::new(&format!("{}_{hint}", user.base));
        let (growth, root) = (user.growth, user.root);
        let trace = trace.into();
        let function = Function { growth, trace, repeats, ..Function::new(item, base, root) };
        self.functions.insert(name, function);
        self.lifted += 1;
    }

    /// Puts what is reached into `module`, each at the place of the function that it comes from.
    pub(super) fn finish(mut self, module: &mut Module) {
        let mut reached: IndexSet<Symbol, FxBuildHasher> =
            self.entry.iter().map(|name| self.copies[&(*name, self.plain(*name))]).collect();
        let mut next = 0;
        while let Some(name) = reached.get_index(next) {
            next += 1;
            let body = self.functions[name].done.iter().filter_map(|item| item.body.as_ref());
            let names: Vec<Symbol> = body.flat_map(|body| referenced_functions(body)).collect();
            reached.extend(names.into_iter().filter(|name| self.is_copy(*name)));
        }
        let stays = |item: &Item| item.signature.op != FUNC || item.body.is_none();
        let others = module.items.iter().filter(|(_, item)| stays(item)).map(|(name, _)| *name);
        let mut taken: FxHashSet<Symbol> = others.collect();
        let mut names: FxHashMap<Symbol, Symbol> = FxHashMap::default();
        let is_itself = |function: &Function| {
            let (original, arguments) = function.copy.as_ref()?;
            (*original == function.root
                && self.functions[original].copy.is_none()
                && *arguments == self.plain(*original))
            .then_some(*original)
        };
        for name in &reached {
            if let Some(original) = is_itself(&self.functions[name]) {
                taken.insert(original);
                names.insert(*name, original);
            }
        }
        let mut fresh = FreshNames::default();
        for name in &reached {
            if !names.contains_key(name) {
                let base = self.functions[name].base;
                let own = fresh.fresh(base.as_str(), "", |name| taken.contains(&name));
                taken.insert(own);
                names.insert(*name, own);
            }
        }
        let mut made: FxHashMap<Symbol, Vec<(Symbol, Item)>> = FxHashMap::default();
        for name in reached {
            let function = &mut self.functions[&name];
            let mut item = function.done.take().expect("what is reached was read");
            rename(&mut item, &names);
            made.entry(function.root).or_default().push((names[&name], item));
        }
        for (name, item) in std::mem::take(&mut module.items) {
            match stays(&item) {
                true => _ = module.items.insert(name, item),
                false => module.items.extend(made.remove(&name).into_iter().flatten()),
            }
        }
    }
}

/// The parameters of the function type `ty` that stand for types, not for extents.
pub(super) fn type_parameters(ty: Type) -> Vec<Symbol> {
    let Some(function) = ty.as_function() else { return vec![] };
    let extents = super::types::extents(ty);
    function.type_params.iter().copied().filter(|name| !extents.contains(name)).collect()
}

/// The type of what is called from outside, `ty`, where its parameters for types stand for the empty
/// tuple: it takes nothing of such a type.
pub(super) fn without_type_parameters(ty: Type) -> Type {
    let unit = |name: Symbol| (name, TypeParam::Type(Type::unit()));
    let map: Substitution = type_parameters(ty).into_iter().map(unit).collect();
    match ty.as_function() {
        Some(function) => substitute(plain(function), &map),
        None => ty,
    }
}

/// The function type `ty`, with its free parameters as its own: extents that it is for any.
pub(crate) fn closed(ty: Type) -> Type {
    let free = free_parameters(ty);
    match ty.as_function() {
        Some(function) if !free.is_empty() => Type::new(TypeData::Function(FunctionType {
            type_params: free.into(),
            ..function.clone()
        })),
        _ => ty,
    }
}

/// The names that types in `function` bind.
fn bound_names(function: &Function) -> FxHashSet<Symbol> {
    let mut names: FxHashSet<Symbol> = function.ty().type_params.iter().copied().collect();
    if let Some(body) = &function.item.body {
        for value in body.walk().filter(|op| body.is::<Fn>(*op)).flat_map(|op| body.results(op)) {
            names.extend(
                body.ty(value).as_function().into_iter().flat_map(|f| f.type_params.iter()),
            );
        }
    }
    names
}

/// Marks each function value with a number of its own.
fn number_function_values(functions: &mut IndexMap<Symbol, Function, FxBuildHasher>) {
    let mut next: i64 = 0;
    for function in functions.values_mut() {
        let is_value =
            |body: &Body, op| body.is::<Fn>(op) && !is_primitive(fn_attributes(body, op));
        let Some(shared) = &function.item.body else { continue };
        let values: Vec<OpId> = shared.walk().filter(|op| is_value(shared, *op)).collect();
        if values.is_empty() {
            continue;
        }
        let Some(body) = function.item.body_mut() else { continue };
        for op in values {
            body.set_attrs(op, body.attrs(op).with(ORIGIN, &next));
            next += 1;
        }
    }
}

/// Replaces parameters in all types of `body`.
pub(crate) fn substitute_body(body: &mut Body, map: &Substitution) {
    let entry = body.entry();
    for arg in body.block_args(entry).to_vec() {
        let ty = substitute(body.ty(arg), map);
        body.set_ty(arg, ty);
    }
    let ops: Vec<OpId> = body.walk().collect();
    ops.into_iter().for_each(|op| substitute_op(body, op, map));
}

/// Replaces parameters in the types of the results of `op`, of the arguments of its blocks, and in
/// those that it mentions.
pub(crate) fn substitute_op(body: &mut Body, op: OpId, map: &Substitution) {
    let args = body.regions(op).iter().flat_map(|r| body.block_args(body.block_of(*r)).to_vec());
    let values: Vec<ValueId> = body.results(op).chain(args).collect();
    for value in values {
        let ty = substitute(body.ty(value), map);
        body.set_ty(value, ty);
    }
    if let Some(types) = body.attrs(op).value::<Vec<Type>>("type_args") {
        let types: Vec<Type> = types.into_iter().map(|ty| substitute(ty, map)).collect();
        body.set_attrs(op, body.attrs(op).with("type_args", &types));
    }
}

/// Puts what `functions` says in the place of parameters of `body`, with parameters for what these
/// functions capture. The types of the parameters that there are now.
/// They are called as in the functions, whose bodies `named` knows.
fn put_functions<'b>(
    body: &mut Body,
    functions: &[Option<Known>],
    named: &dyn std::ops::Fn(Known) -> Option<&'b Arc<Body>>,
) -> Vec<Type> {
    let entry = body.entry();
    let old = body.block_args(entry).to_vec();
    let start = body.first_op(entry).map_or(InsertPoint::End(entry), InsertPoint::Before);
    let mut types = vec![];
    for (index, param) in old.iter().copied().enumerate() {
        let ty = body.ty(param);
        let Some(known) = functions.get(index).copied().flatten() else {
            let new = body.add_block_arg(entry, ty);
            body.set_name_hint(new, body.name_hint(param));
            body.set_argument_loc(new, body.value_loc(param));
            body.replace_all_uses(param, new);
            types.push(ty);
            continue;
        };
        let captured: Vec<ValueId> =
            known.captured(ty).iter().map(|ty| body.add_block_arg(entry, *ty)).collect();
        types.extend(captured.iter().map(|value| body.ty(*value)));
        if let Some(function) = named(known) {
            for (own, param) in captured.iter().zip(function.block_args(function.entry())) {
                body.set_name_hint(*own, function.name_hint(*param));
            }
        }
        let value = applied(body, start, known, &captured, ty);
        body.replace_all_uses(param, value);
    }
    body.remove_block_args(entry, 0..old.len());
    types
}

/// The function `known` applied to `captured`, as a value of type `ty`.
pub(super) fn applied(
    body: &mut Body,
    at: InsertPoint,
    known: Known,
    captured: &[ValueId],
    ty: Type,
) -> ValueId {
    let types = [known.ty];
    let parts = |types| OpParts::new(known.op, &[], types).attrs(known.attrs);
    let loc = ir_core::Loc::UNKNOWN;
    if captured.is_empty() {
        let op = body.insert_op(at, parts(&types));
        return body.result(op, 0);
    }
    let (Some(function), Some(own)) = (ty.as_function(), known.ty.as_function()) else {
        unreachable!("functions have function types")
    };
    let attributes = ir_core::AttrDict::empty();
    let wrapper = create_fn(body, at, loc, attributes, &function.params, function.result);
    let block = body.region_block(wrapper, 0);
    let args: Vec<ValueId> = captured.iter().chain(body.block_args(block)).copied().collect();
    let end = InsertPoint::End(block);
    let callee = body.insert_op(end, parts(&types));
    let callee = body.result(callee, 0);
    let value = insert_call(body, end, loc, callee, args, own.result);
    end_block(body, block, value);
    body.result(wrapper, 0)
}

/// Gives the functions that `item` refers to the names that they have in the end, and takes off marks.
fn rename(item: &mut Item, names: &FxHashMap<Symbol, Symbol>) {
    let Some(body) = item.body_mut() else { return };
    let ops: Vec<OpId> = body.walk().collect();
    for op in ops {
        if let Some(name) = body.view::<Global>(op).and_then(|global| names.get(&global.name)) {
            body.set_attrs(op, OpFields::<ValueId>::attrs(&Global { name: *name }));
        } else if body.is::<Fn>(op) && body.attrs(op).get(ORIGIN).is_some() {
            body.set_attrs(op, body.attrs(op).without(ORIGIN));
        }
    }
}

/// The place of `op` in the text.
pub(super) fn place(body: &Body, op: OpId, base: Option<Span>) -> Option<Span> {
    body.loc(op).span(base)
}

/// The operations of `body` that were made from number `first` on.
pub(super) fn made_since(body: &Body, first: usize) -> impl Iterator<Item = OpId> + use<> {
    (first..body.op_capacity()).map(OpId::from_index)
}
