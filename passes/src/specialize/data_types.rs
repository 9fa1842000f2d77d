//! Copies of data types whose fields hold functions of the types that their parameters stand for.

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, Item, Module, OpFields, OpId, PassResult, Symbol,
    Type, TypeData, TypeParam, ValueId,
};
use relay::language::{AdtDecl, Construct, Constructor, FUNC, Match, Pattern, TYPE};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::types::{Substitution, any_part, substitute, with_parts};
use crate::defunctionalize::is_monomorphic;

/// Copies of one data type, at most.
const MAX_COPIES: usize = 4096;

/// Parts of the types that a copy is made for, at most, and how deep these nest.
const MAX_PARTS: u32 = 1 << 16;
const MAX_DEPTH: u32 = 500;

/// The data types of `module` in which a function has a type that depends on a parameter, as a part of
/// a field, or of a field of such a data type.
pub(crate) fn dependent(module: &Module) -> FxHashSet<Symbol> {
    let mut found: FxHashSet<Symbol> = FxHashSet::default();
    let mut pending: Vec<Symbol> = vec![];
    // By data type, those that hold it for what depends on their parameters.
    let mut holders: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
    for (name, adt) in declarations(module).filter(|(_, adt)| !adt.is_extern) {
        for field in adt.constructors.iter().flat_map(|constructor| &constructor.fields) {
            any_part(*field, &mut |part| {
                match part.data() {
                    _ if !part.facts().has_parameter => {}
                    TypeData::Function(_) => pending.push(name),
                    TypeData::Named { name: held, .. } => {
                        holders.entry(*held).or_default().push(name);
                    }
                    _ => {}
                }
                false
            });
        }
    }
    while let Some(name) = pending.pop() {
        if found.insert(name) {
            pending.extend(holders.get(&name).into_iter().flatten());
        }
    }
    found
}

fn declarations(module: &Module) -> impl Iterator<Item = (Symbol, AdtDecl)> + '_ {
    let types = module.items.iter().filter(|(_, item)| item.signature.op == TYPE);
    types.filter_map(|(name, item)| Some((*name, AdtDecl::from_attrs(item.signature.attrs)?)))
}

/// Gives every use of a data type of `dependent` a copy for what its parameters stand for there; the
/// originals go. All functions that use them have no type parameters.
pub(crate) fn specialize(module: &mut Module, dependent: &FxHashSet<Symbol>) -> PassResult {
    if dependent.is_empty() {
        return Ok(());
    }
    let mut copies = Copies::new(module, dependent);
    for (name, item) in &mut module.items {
        let span = item.signature.span;
        let done = match () {
            () if item.signature.op == FUNC && is_monomorphic(item) => copies.function(item),
            () if item.signature.op == TYPE && !dependent.contains(name) => {
                copies.declaration(item)
            }
            () => Ok(()),
        };
        done.map_err(|error| error.at(span))?;
    }
    copies.finish(module)
}

/// A copy of a data type.
struct Copy {
    original: Symbol,
    arguments: Vec<TypeParam>,
    name: Symbol,
    /// Its constructors, in the order of the original's.
    constructors: Vec<Symbol>,
}

struct Copies<'d> {
    dependent: &'d FxHashSet<Symbol>,
    /// All data types, as they were.
    declarations: FxHashMap<Symbol, AdtDecl>,
    /// The place of each constructor in the declaration that has it.
    places: FxHashMap<Symbol, usize>,
    /// By original and arguments, which are types as they become.
    copies: IndexMap<(Symbol, Vec<TypeParam>), Copy, FxBuildHasher>,
    /// How many copies there are of each.
    counts: FxHashMap<Symbol, usize>,
    /// What types become.
    memo: FxHashMap<Type, Type>,
    /// Names of items and constructors that are taken.
    taken: FxHashSet<Symbol>,
    names: FreshNames,
}

impl Copies<'_> {
    fn new<'d>(module: &Module, dependent: &'d FxHashSet<Symbol>) -> Copies<'d> {
        let declarations: FxHashMap<Symbol, AdtDecl> = declarations(module).collect();
        let constructors =
            declarations.values().flat_map(|adt| adt.constructors.iter().enumerate());
        let places = constructors.map(|(place, made)| (made.name, place)).collect();
        let others = declarations.iter().filter(|(name, _)| !dependent.contains(*name));
        let constructors = others.flat_map(|(_, adt)| &adt.constructors).map(|made| made.name);
        // Originals go, so that the first copies may have their names.
        let items = module.items.keys().copied().filter(|name| !dependent.contains(name));
        let taken = items.chain(constructors).collect();
        Copies {
            dependent,
            declarations,
            places,
            copies: IndexMap::default(),
            counts: FxHashMap::default(),
            memo: FxHashMap::default(),
            taken,
            names: FreshNames::default(),
        }
    }

    fn fresh(&mut self, base: Symbol) -> Symbol {
        let taken = &self.taken;
        let name = self.names.fresh(base.as_str(), "", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }

    /// `ty` with the copies of data types. Recursion is bounded by the depth of types.
    fn ty(&mut self, ty: Type) -> Result<Type, Diagnostics> {
        if !ty.facts().has_named {
            return Ok(ty);
        }
        if let Some(known) = self.memo.get(&ty) {
            return Ok(*known);
        }
        let mut error = None;
        let parts = with_parts(ty, &mut |part| {
            self.ty(part).unwrap_or_else(|found| {
                error.get_or_insert(found);
                part
            })
        });
        if let Some(error) = error {
            return Err(error);
        }
        let new = match parts.data() {
            // Copies have no parameters, and may have the name of the original.
            TypeData::Named { name, params } if !params.is_empty() => {
                self.applied(*name, params)?
            }
            _ => None,
        };
        let new = new.map_or(parts, |copy| Type::named(self.copies[copy].name, []));
        self.memo.insert(ty, new);
        Ok(new)
    }

    /// The number of the copy of data type `name` for `arguments`, made where it is new; `None` where
    /// it stays.
    fn applied(
        &mut self,
        name: Symbol,
        arguments: &[TypeParam],
    ) -> Result<Option<usize>, Diagnostics> {
        let Some(adt) = self.declarations.get(&name).filter(|_| self.dependent.contains(&name))
        else {
            return Ok(None);
        };
        let key = (name, arguments.to_vec());
        if let Some(known) = self.copies.get_index_of(&key) {
            return Ok(Some(known));
        }
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let large = |argument: &TypeParam| match argument {
            TypeParam::Type(ty) => ty.facts().parts > MAX_PARTS || ty.facts().depth > MAX_DEPTH,
            _ => false,
        };
        if *count > MAX_COPIES || arguments.iter().any(large) {
            let message = format!("`{name}` holds itself with other types again and again");
            return Err(Diagnostic::error("E0610", message).help(
                "a data type that holds functions must hold itself with the types it is used with",
            ).into());
        }
        let constructors: Vec<Symbol> = adt.constructors.iter().map(|made| made.name).collect();
        let constructors = constructors.into_iter().map(|made| self.fresh(made)).collect();
        let (original, arguments) = key.clone();
        let name = self.fresh(name);
        let (place, _) =
            self.copies.insert_full(key, Copy { original, arguments, name, constructors });
        Ok(Some(place))
    }

    /// The copy of the data type `ty`, as it was; `None` where it stays.
    fn copy_of(&mut self, ty: Type) -> Result<Option<&Copy>, Diagnostics> {
        let TypeData::Named { name, params } = ty.data() else { return Ok(None) };
        let arguments = params.iter().map(|param| match param {
            TypeParam::Type(ty) => Ok(TypeParam::Type(self.ty(*ty)?)),
            other => Ok(*other),
        });
        let arguments = arguments.collect::<Result<Vec<TypeParam>, Diagnostics>>()?;
        let place = self.applied(*name, &arguments)?;
        Ok(place.map(|place| &self.copies[place]))
    }

    /// What constructor `name` of the data type `ty`, as it was, is called.
    fn constructor(&mut self, ty: Type, name: Symbol) -> Result<Symbol, Diagnostics> {
        let place = self.places.get(&name).copied();
        let copy = self.copy_of(ty)?;
        let renamed = copy.zip(place).and_then(|(copy, place)| copy.constructors.get(place));
        Ok(renamed.copied().unwrap_or(name))
    }

    /// The types of the fields of constructor `name` of the data type `ty`, as they were.
    fn fields(&self, ty: Type, name: Symbol) -> Vec<Type> {
        let (Some(place), TypeData::Named { name: adt, params }) =
            (self.places.get(&name), ty.data())
        else {
            return vec![];
        };
        let Some(adt) = self.declarations.get(adt) else { return vec![] };
        let map: Substitution = adt.params.iter().copied().zip(params.iter().copied()).collect();
        let fields = adt.constructors.get(*place).into_iter().flat_map(|made| &made.fields);
        fields.map(|field| substitute(*field, &map)).collect()
    }

    /// `pattern` for values of type `ty`, as it was. Recursion is bounded by the depth of patterns.
    fn pattern(&mut self, pattern: &Pattern, ty: Type) -> Result<Pattern, Diagnostics> {
        let parts = match pattern {
            Pattern::Wildcard | Pattern::Variable => return Ok(pattern.clone()),
            Pattern::Constructor(name, _) => self.fields(ty, *name),
            Pattern::Tuple(_) => match ty.data() {
                TypeData::Tuple(fields) => fields.to_vec(),
                _ => vec![],
            },
        };
        let mut renamed = |patterns: &[Pattern]| -> Result<Vec<Pattern>, Diagnostics> {
            let types = parts.iter().copied().chain(std::iter::repeat(Type::unknown()));
            patterns.iter().zip(types).map(|(part, ty)| self.pattern(part, ty)).collect()
        };
        Ok(match pattern {
            Pattern::Constructor(name, fields) => {
                let fields = renamed(fields)?;
                Pattern::Constructor(self.constructor(ty, *name)?, fields)
            }
            Pattern::Tuple(fields) => Pattern::Tuple(renamed(fields)?),
            other => other.clone(),
        })
    }

    /// Makes the function `item` use copies.
    fn function(&mut self, item: &mut Item) -> PassResult {
        item.signature.ty = self.ty(item.signature.ty)?;
        let Some(body) = &item.body else { return Ok(()) };
        let mut changes = false;
        for value in values(body) {
            changes |= self.ty(body.ty(value))? != body.ty(value);
        }
        let Some(body) = item.body_mut().filter(|_| changes) else { return Ok(()) };
        // Names first: they are told by the types as they were.
        let ops: Vec<OpId> = body.walk().collect();
        for op in ops {
            if let Some(attrs) = self.renamed(body, op)? {
                body.set_attrs(op, attrs);
            }
        }
        for value in values(body) {
            let ty = self.ty(body.ty(value))?;
            body.set_ty(value, ty);
        }
        Ok(())
    }

    /// The attributes of `op` with the names of copies, where it names constructors.
    fn renamed(&mut self, body: &Body, op: OpId) -> Result<Option<AttrDict>, Diagnostics> {
        if let Some(form) = body.view::<Match>(op) {
            let ty = body.ty(form.data);
            let patterns = form.patterns.iter().map(|pattern| self.pattern(pattern, ty));
            let patterns = patterns.collect::<Result<Vec<Pattern>, Diagnostics>>()?;
            return Ok(Some(Match { patterns, ..form }.attrs()));
        }
        let name = match (body.view::<Construct>(op), body.view::<Constructor>(op)) {
            (Some(form), _) => form.name,
            (_, Some(form)) => form.name,
            _ => return Ok(None),
        };
        let ty = body.ty(body.result(op, 0));
        // As a value, a constructor is a function.
        let ty = ty.as_function().map_or(ty, |function| function.result);
        let name = self.constructor(ty, Symbol::new(&name))?;
        Ok(Some(body.attrs(op).with("name", &name.to_string())))
    }

    /// Makes a data type that stays hold copies.
    fn declaration(&mut self, item: &mut Item) -> PassResult {
        let mut adt = AdtDecl::from_attrs(item.signature.attrs).expect("data types are declared");
        let mut changes = false;
        for field in adt.constructors.iter_mut().flat_map(|constructor| &mut constructor.fields) {
            let new = self.ty(*field)?;
            changes |= new != *field;
            *field = new;
        }
        if changes {
            item.signature.attrs = adt.to_attrs();
        }
        Ok(())
    }

    /// Puts the copies where the originals are. Their fields may ask for further copies.
    fn finish(mut self, module: &mut Module) -> PassResult {
        let mut declared: FxHashMap<Symbol, Vec<(Symbol, AdtDecl)>> = FxHashMap::default();
        let mut place = 0;
        while let Some((_, copy)) = self.copies.get_index(place) {
            place += 1;
            let Copy { original, name, .. } = *copy;
            let constructors = copy.constructors.clone();
            let mut adt = self.declarations[&original].clone();
            let arguments = copy.arguments.iter().copied();
            let map: Substitution = adt.params.drain(..).zip(arguments).collect();
            for (constructor, name) in adt.constructors.iter_mut().zip(constructors) {
                constructor.name = name;
                for field in &mut constructor.fields {
                    let span = module.get(original).and_then(|item| item.signature.span);
                    let ty = self.ty(substitute(*field, &map));
                    *field = ty.map_err(|error| error.at(span))?;
                }
            }
            declared.entry(original).or_default().push((name, adt));
        }
        for (name, original) in std::mem::take(&mut module.items) {
            if !self.dependent.contains(&name) || original.signature.op != TYPE {
                module.items.insert(name, original);
                continue;
            }
            for (name, adt) in declared.remove(&name).into_iter().flatten() {
                let mut item = original.clone();
                item.signature.attrs = adt.to_attrs();
                module.items.insert(name, item);
            }
        }
        Ok(())
    }
}

/// All values of `body`.
fn values(body: &Body) -> Vec<ValueId> {
    let args = body.walk_blocks().flat_map(|block| body.block_args(block).iter().copied());
    args.chain(body.walk().flat_map(|op| body.results(op))).collect()
}
