//! Copies of data types for what their parameters stand for.
//!
//! Types that differ in extents have a copy each, unless one of them has an extent that is no number:
//! values of that one may be values of others, so that all are one copy with parameters for the extents
//! in which they differ.

use indexmap::{IndexMap, IndexSet};
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, Dim, Item, Module, OpFields, OpId, PassResult, Symbol,
    TensorType, Type, TypeData, TypeParam, ValueId,
};
use relay::language::{AdtDecl, Construct, Constructor, FUNC, Match, Pattern, TYPE};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::arguments::{Growth, groups};
use super::types::{Declarations, Substitution, any_part, substitute, with_parts};

/// Copies of one data type, at most.
const MAX_COPIES: usize = 4096;

/// Gives every use of a data type with parameters a copy for what they stand for there; the originals
/// go. Data types that are made outside stay as they are.
/// Those of the functions `entry` are named first.
pub(super) fn specialize(module: &mut Module, entry: &[Symbol]) -> PassResult {
    let declarations = Declarations::new(module);
    let is_copied = |adt: &AdtDecl| !adt.params.is_empty() && !adt.is_extern;
    if !declarations.types.values().any(is_copied) {
        return Ok(());
    }
    let mut uses = Uses::new(module, &declarations);
    for item in entry.iter().filter_map(|name| module.items.get(name)) {
        uses.of_type(item.signature.ty)?;
    }
    for item in module.items.values() {
        uses.of_item(item)?;
    }
    let all = uses.all;
    let mut copies = Copies::new(module, &declarations, all)?;
    for item in module.items.values_mut() {
        match item.signature.op.as_str() {
            FUNC => copies.function(item),
            TYPE => copies.declaration(item),
            _ => {}
        }
    }
    copies.finish(module);
    Ok(())
}

/// A data type with parameters, and what they stand for.
type Use = (Symbol, Vec<TypeParam>);

/// How the data types of a module are used.
struct Uses<'d> {
    module: &'d Module,
    declarations: &'d Declarations,
    /// The group of data types that hold each other in which each is, and how many each group has.
    groups: FxHashMap<Symbol, usize>,
    members: Vec<usize>,
    all: IndexMap<Use, Growth, FxBuildHasher>,
    counts: FxHashMap<Symbol, usize>,
    seen: FxHashSet<Type>,
}

impl<'d> Uses<'d> {
    fn new(module: &'d Module, declarations: &'d Declarations) -> Uses<'d> {
        let types = &declarations.types;
        let held = |adt: &AdtDecl| {
            let mut held: IndexSet<usize, FxBuildHasher> = IndexSet::default();
            for field in adt.constructors.iter().flat_map(|made| &made.fields) {
                any_part(*field, &mut |part| {
                    if let TypeData::Named { name, .. } = part.data() {
                        held.extend(types.get_index_of(name));
                    }
                    false
                });
            }
            held.into_iter().collect::<Vec<usize>>()
        };
        let edges: Vec<Vec<usize>> = types.values().map(held).collect();
        let (group, members) = groups(&edges);
        let groups = types.keys().copied().zip(group).collect();
        let (all, counts, seen) = (IndexMap::default(), FxHashMap::default(), FxHashSet::default());
        Uses { module, declarations, groups, members, all, counts, seen }
    }

    fn is_copied(&self, name: Symbol) -> bool {
        let adt = self.declarations.types.get(&name);
        adt.is_some_and(|adt| !adt.params.is_empty() && !adt.is_extern)
    }

    fn of_item(&mut self, item: &Item) -> PassResult {
        self.of_type(item.signature.ty)?;
        if let Some(body) = &item.body {
            for value in values(body) {
                self.of_type(body.ty(value))?;
            }
        }
        let declared = AdtDecl::from_attrs(item.signature.attrs)
            .filter(|adt| item.signature.op == TYPE && (adt.params.is_empty() || adt.is_extern));
        for field in declared.iter().flat_map(|adt| &adt.constructors).flat_map(|made| &made.fields)
        {
            self.of_type(*field)?;
        }
        Ok(())
    }

    /// Notes the data types in `ty`, and those in what they hold.
    fn of_type(&mut self, ty: Type) -> PassResult {
        let mut pending: Vec<(Type, Option<(Symbol, Growth)>)> = vec![(ty, None)];
        while let Some((ty, holder)) = pending.pop() {
            if !ty.facts().has_named || !self.seen.insert(ty) {
                continue;
            }
            let first = pending.len();
            with_parts(ty, &mut |part| {
                pending.push((part, holder));
                part
            });
            pending[first..].reverse();
            let TypeData::Named { name, params } = ty.data() else { continue };
            if !self.is_copied(*name) {
                continue;
            }
            let group = self.groups[name];
            let growth = match holder.filter(|(holder, _)| self.groups[holder] == group) {
                Some((_, growth)) => growth.further(params, self.members[group]),
                None => Some(Growth::first(params)),
            };
            let count = self.counts.entry(*name).or_default();
            *count += 1;
            let Some(growth) = growth.filter(|_| *count <= MAX_COPIES) else {
                let message = format!("`{name}` holds itself with other types again and again");
                return Err(Diagnostic::error("E0610", message)
                    .at(self.module.get(*name).and_then(|item| item.signature.span))
                    .help("a data type must hold itself with the types it is used with")
                    .into());
            };
            self.all.insert((*name, params.to_vec()), growth);
            let adt = &self.declarations.types[name];
            let map: Substitution =
                adt.params.iter().copied().zip(params.iter().copied()).collect();
            for field in adt.constructors.iter().flat_map(|made| &made.fields) {
                pending.push((substitute(*field, &map), Some((*name, growth))));
            }
        }
        Ok(())
    }
}

/// A copy of a data type.
struct Copy {
    original: Symbol,
    name: Symbol,
    /// What the parameters of the original stand for, in terms of those of the copy.
    arguments: Vec<TypeParam>,
    /// The places of the extents that it has parameters for, among all that its arguments mention.
    open: Vec<usize>,
    /// Its constructors, in the order of the original's.
    constructors: Vec<Symbol>,
}

impl Copy {
    /// This copy as it is used for `params`.
    fn of(&self, params: &[TypeParam]) -> Type {
        let extents = if self.open.is_empty() { vec![] } else { extents(params) };
        let open = self.open.iter().map(|place| TypeParam::Dim(extents[*place]));
        Type::named(self.name, open.collect::<Vec<_>>())
    }
}

struct Copies<'d> {
    declarations: &'d Declarations,
    copies: Vec<Copy>,
    by_use: FxHashMap<Use, usize>,
    /// The copies of uses with extents that are no numbers: by what they are without extents.
    by_skeleton: FxHashMap<Use, usize>,
    /// What types become.
    memo: FxHashMap<Type, Type>,
}

impl<'d> Copies<'d> {
    fn new(
        module: &Module,
        declarations: &'d Declarations,
        uses: IndexMap<Use, Growth, FxBuildHasher>,
    ) -> Result<Copies<'d>, Diagnostics> {
        let mut kinds: IndexMap<Use, Vec<Use>, FxBuildHasher> = IndexMap::default();
        for (name, params) in uses.into_keys() {
            if let Some(ty) = params.iter().find_map(|param| free_type(*param)) {
                let message =
                    format!("expected types without parameters, found `{name}` of `{ty}`");
                return Err(Diagnostic::error("E0610", message)
                    .at(module.get(name).and_then(|item| item.signature.span))
                    .help("a function without a body must have types without parameters")
                    .into());
            }
            let skeleton = (name, params.iter().map(|param| without_extents(*param)).collect());
            kinds.entry(skeleton).or_default().push((name, params));
        }
        let stays = |name: &Symbol| {
            let adt = declarations.types.get(name);
            adt.is_none_or(|adt| adt.params.is_empty() || adt.is_extern)
        };
        let constructors = declarations.types.iter().filter(|(name, _)| stays(name));
        let constructors =
            constructors.flat_map(|(_, adt)| &adt.constructors).map(|made| made.name);
        // Originals go, so that the first copies may have their names.
        let items = module.items.keys().copied().filter(stays);
        let mut names =
            Names { taken: items.chain(constructors).collect(), fresh: Default::default() };
        let (by_use, by_skeleton, memo) = Default::default();
        let mut all = Copies { declarations, copies: vec![], by_use, by_skeleton, memo };
        for (skeleton, uses) in kinds {
            let extents: Vec<Vec<Dim>> = uses.iter().map(|(_, params)| extents(params)).collect();
            let is_number = |dim: &Dim| matches!(dim, Dim::Known(_));
            if extents.iter().flatten().all(is_number) {
                for (name, params) in uses {
                    let copy = all.add(&mut names, name, params.clone(), vec![]);
                    all.by_use.insert((name, params), copy);
                }
                continue;
            }
            let first = &extents[0];
            let is_open = |place: &usize| {
                matches!(first[*place], Dim::Expr(_))
                    || extents.iter().any(|other| other[*place] != first[*place])
            };
            let open: Vec<usize> = (0..first.len()).filter(is_open).collect();
            let (name, params) = &uses[0];
            let mut next = 0;
            let arguments = params.iter().map(|param| {
                map_extents(*param, &mut |dim| {
                    let place = next;
                    next += 1;
                    match open.binary_search(&place) {
                        Ok(number) => Dim::parameter(parameter(number)),
                        Err(_) => dim,
                    }
                })
            });
            let copy = all.add(&mut names, *name, arguments.collect(), open);
            all.by_skeleton.insert(skeleton, copy);
        }
        Ok(all)
    }

    fn add(
        &mut self,
        names: &mut Names,
        original: Symbol,
        arguments: Vec<TypeParam>,
        open: Vec<usize>,
    ) -> usize {
        let made = &self.declarations.types[&original].constructors;
        let constructors = made.iter().map(|made| names.fresh(made.name)).collect();
        let name = names.fresh(original);
        self.copies.push(Copy { original, name, arguments, open, constructors });
        self.copies.len() - 1
    }

    /// The copy that stands for data type `name` of `params`, as they were; `None` where it stays.
    fn copy(&self, name: Symbol, params: &[TypeParam]) -> Option<&Copy> {
        let key = (name, params.to_vec());
        let copy = self.by_use.get(&key).or_else(|| {
            let skeleton = params.iter().map(|param| without_extents(*param)).collect();
            self.by_skeleton.get(&(name, skeleton))
        });
        copy.map(|copy| &self.copies[*copy])
    }

    /// `ty` with the copies of data types. Recursion is bounded by the depth of types.
    fn ty(&mut self, ty: Type) -> Type {
        if !ty.facts().has_named {
            return ty;
        }
        if let Some(known) = self.memo.get(&ty) {
            return *known;
        }
        let copied = match ty.data() {
            TypeData::Named { name, params } => {
                self.copy(*name, params).map(|copy| copy.of(params))
            }
            _ => None,
        };
        let new = copied.unwrap_or_else(|| with_parts(ty, &mut |part| self.ty(part)));
        self.memo.insert(ty, new);
        new
    }

    /// What constructor `name` of the data type `ty`, as it was, is called.
    fn constructor(&self, ty: Type, name: Symbol) -> Symbol {
        let copy = match ty.data() {
            TypeData::Named { name, params } => self.copy(*name, params),
            _ => None,
        };
        let place = self.declarations.place(name);
        let renamed = copy.zip(place).and_then(|(copy, place)| copy.constructors.get(place));
        renamed.copied().unwrap_or(name)
    }

    /// `pattern` for values of type `ty`, as it was. Recursion is bounded by the depth of patterns.
    fn pattern(&self, pattern: &Pattern, ty: Type) -> Pattern {
        let parts = match pattern {
            Pattern::Wildcard | Pattern::Variable => return pattern.clone(),
            Pattern::Constructor(name, _) => self.declarations.fields(ty, *name),
            Pattern::Tuple(_) => ty.as_tuple().unwrap_or_default().to_vec(),
        };
        let renamed = |patterns: &[Pattern]| {
            let types = parts.iter().copied().chain(std::iter::repeat(Type::unknown()));
            patterns.iter().zip(types).map(|(part, ty)| self.pattern(part, ty)).collect()
        };
        match pattern {
            Pattern::Constructor(name, fields) => {
                Pattern::Constructor(self.constructor(ty, *name), renamed(fields))
            }
            Pattern::Tuple(fields) => Pattern::Tuple(renamed(fields)),
            other => other.clone(),
        }
    }

    /// Makes the function `item` use copies.
    fn function(&mut self, item: &mut Item) {
        item.signature.ty = self.ty(item.signature.ty);
        let Some(body) = &item.body else { return };
        if !values(body).into_iter().any(|value| self.ty(body.ty(value)) != body.ty(value)) {
            return;
        }
        let Some(body) = item.body_mut() else { return };
        // Names first: they are told by the types as they were.
        let ops: Vec<OpId> = body.walk().collect();
        for op in ops {
            if let Some(attrs) = self.renamed(body, op) {
                body.set_attrs(op, attrs);
            }
        }
        for value in values(body) {
            let ty = self.ty(body.ty(value));
            body.set_ty(value, ty);
        }
    }

    /// The attributes of `op` with the names of copies, where it names constructors.
    fn renamed(&self, body: &Body, op: OpId) -> Option<AttrDict> {
        if let Some(form) = body.view::<Match>(op) {
            let ty = body.ty(form.data);
            let patterns = form.patterns.iter().map(|pattern| self.pattern(pattern, ty)).collect();
            return Some(Match { patterns, ..form }.attrs());
        }
        let name = match (body.view::<Construct>(op), body.view::<Constructor>(op)) {
            (Some(form), _) => form.name,
            (_, Some(form)) => form.name,
            _ => return None,
        };
        let ty = body.ty(body.result(op, 0));
        // As a value, a constructor is a function.
        let ty = ty.as_function().map_or(ty, |function| function.result);
        let name = self.constructor(ty, Symbol::new(&name));
        Some(body.attrs(op).with("name", &name.to_string()))
    }

    /// Makes a data type that stays hold copies.
    fn declaration(&mut self, item: &mut Item) {
        let mut adt = AdtDecl::from_attrs(item.signature.attrs).expect("data types are declared");
        let mut changes = false;
        for field in adt.constructors.iter_mut().flat_map(|made| &mut made.fields) {
            let new = self.ty(*field);
            changes |= new != *field;
            *field = new;
        }
        if changes && (adt.params.is_empty() || adt.is_extern) {
            item.signature.attrs = adt.to_attrs();
        }
    }

    /// Puts the copies where the originals are.
    fn finish(mut self, module: &mut Module) {
        let mut declared: FxHashMap<Symbol, Vec<(Symbol, AdtDecl)>> = FxHashMap::default();
        for number in 0..self.copies.len() {
            let Copy { original, name, open, .. } = &self.copies[number];
            let (original, name) = (*original, *name);
            let mut adt = self.declarations.types[&original].clone();
            let arguments = self.copies[number].arguments.iter().copied();
            let map: Substitution = adt.params.drain(..).zip(arguments).collect();
            adt.params = (0..open.len()).map(parameter).collect();
            let names = self.copies[number].constructors.clone();
            for (constructor, name) in adt.constructors.iter_mut().zip(names) {
                constructor.original = Some(constructor.shown());
                constructor.name = name;
                for field in &mut constructor.fields {
                    *field = self.ty(substitute(*field, &map));
                }
            }
            declared.entry(original).or_default().push((name, adt));
        }
        for (name, original) in std::mem::take(&mut module.items) {
            let adt = self.declarations.types.get(&name);
            if adt.is_none_or(|adt| adt.params.is_empty() || adt.is_extern) {
                module.items.insert(name, original);
                continue;
            }
            for (name, adt) in declared.remove(&name).into_iter().flatten() {
                let mut item = original.clone();
                item.signature.attrs = adt.to_attrs();
                module.items.insert(name, item);
            }
        }
    }
}

/// Names that are taken.
struct Names {
    taken: FxHashSet<Symbol>,
    fresh: FreshNames,
}

impl Names {
    fn fresh(&mut self, base: Symbol) -> Symbol {
        let taken = &self.taken;
        let name = self.fresh.fresh(base.as_str(), "", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }
}

/// The parameter of a copy with this number.
fn parameter(number: usize) -> Symbol {
    Symbol::new(&format!("n{number}"))
}

/// The type among `param` that is a type parameter, or has one as a part.
fn free_type(param: TypeParam) -> Option<Type> {
    let TypeParam::Type(ty) = param else { return None };
    let mut found = None;
    any_part(ty, &mut |part| {
        let is_free = matches!(part.data(), TypeData::Parameter(_));
        if is_free && found.is_none() {
            found = Some(part);
        }
        is_free
    });
    found
}

/// `param` with each extent replaced, in order. Recursion is bounded by the depth of types.
fn map_extents(param: TypeParam, extent: &mut dyn FnMut(Dim) -> Dim) -> TypeParam {
    match param {
        TypeParam::Dim(dim) => TypeParam::Dim(extent(dim)),
        TypeParam::Type(ty) => TypeParam::Type(map_type_extents(ty, extent)),
        other => other,
    }
}

fn map_type_extents(ty: Type, extent: &mut dyn FnMut(Dim) -> Dim) -> Type {
    match ty.data() {
        TypeData::Tensor(tensor) => Type::new(TypeData::Tensor(TensorType {
            shape: tensor.shape.iter().map(|dim| extent(*dim)).collect(),
            dtype: tensor.dtype,
        })),
        TypeData::Named { name, params } => {
            let params: Vec<TypeParam> =
                params.iter().map(|param| map_extents(*param, extent)).collect();
            Type::named(*name, params)
        }
        // What a function binds itself stays as it is.
        TypeData::Function(function) if !function.type_params.is_empty() => ty,
        _ => with_parts(ty, &mut |part| map_type_extents(part, extent)),
    }
}

fn without_extents(param: TypeParam) -> TypeParam {
    map_extents(param, &mut |_| Dim::Any)
}

/// The extents that `params` mention, in order.
fn extents(params: &[TypeParam]) -> Vec<Dim> {
    let mut found = vec![];
    for param in params {
        map_extents(*param, &mut |dim| {
            found.push(dim);
            dim
        });
    }
    found
}

/// All values of `body`.
fn values(body: &Body) -> Vec<ValueId> {
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
    args.chain(body.walk().flat_map(|op| body.results(op))).collect()
}
