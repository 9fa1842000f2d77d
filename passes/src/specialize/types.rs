//! Rewriting and matching types.

use indexmap::IndexMap;
use ir_core::{
    Dim, DimExprData, FunctionType, Module, Symbol, TensorType, Type, TypeData, TypeParam,
};
use relay::language::{AdtDecl, TYPE};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// What type and shape parameters stand for.
pub(crate) type Substitution = FxHashMap<Symbol, TypeParam>;

/// The data types that a module declares.
pub(crate) struct Declarations {
    pub(crate) types: IndexMap<Symbol, AdtDecl, FxBuildHasher>,
    /// The place of each constructor in the declaration that has it.
    places: FxHashMap<Symbol, usize>,
}

impl Declarations {
    pub(crate) fn new(module: &Module) -> Declarations {
        let items = module.items.iter().filter(|(_, item)| item.signature.op == TYPE);
        let types: IndexMap<Symbol, AdtDecl, FxBuildHasher> = items
            .filter_map(|(name, item)| Some((*name, AdtDecl::from_attrs(item.signature.attrs)?)))
            .collect();
        let constructors = types.values().flat_map(|adt| adt.constructors.iter().enumerate());
        let places = constructors.map(|(place, made)| (made.name, place)).collect();
        Declarations { types, places }
    }

    /// The place of constructor `name` in the declaration that has it.
    pub(crate) fn place(&self, name: Symbol) -> Option<usize> {
        self.places.get(&name).copied()
    }

    /// The types of the fields of constructor `name` of the data type `ty`.
    pub(crate) fn fields(&self, ty: Type, name: Symbol) -> Vec<Type> {
        let (Some(place), TypeData::Named { name: adt, params }) = (self.place(name), ty.data())
        else {
            return vec![];
        };
        let Some(adt) = self.types.get(adt) else { return vec![] };
        let map: Substitution = adt.params.iter().copied().zip(params.iter().copied()).collect();
        let fields = adt.constructors.get(place).into_iter().flat_map(|made| &made.fields);
        fields.map(|field| substitute(*field, &map)).collect()
    }
}

/// The parameters that are extents in `ty`; its others are types.
pub(crate) fn extents(ty: Type) -> FxHashSet<Symbol> {
    let mut found = FxHashSet::default();
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        if !ty.facts().has_parameter || !seen.insert(ty) {
            continue;
        }
        match ty.data() {
            TypeData::Tensor(tensor) => {
                tensor.shape.iter().for_each(|dim| note_extents(*dim, &mut found));
            }
            TypeData::Named { params, .. } => {
                params.iter().for_each(|param| match param {
                    TypeParam::Dim(dim) => note_extents(*dim, &mut found),
                    TypeParam::Type(ty) => pending.push(*ty),
                    _ => {}
                });
            }
            _ => {
                with_parts(ty, &mut |part| {
                    pending.push(part);
                    part
                });
            }
        }
    }
    found
}

fn note_extents(dim: Dim, found: &mut FxHashSet<Symbol>) {
    let mut pending = vec![dim];
    while let Some(dim) = pending.pop() {
        let Dim::Expr(expr) = dim else { continue };
        match expr.data() {
            DimExprData::Parameter(name) => _ = found.insert(name),
            DimExprData::Variable(_) => {}
            DimExprData::Binary(_, a, b) => pending.extend([a, b]),
        }
    }
}

/// The function type without the parameters that it binds.
pub(crate) fn plain(function: &FunctionType) -> Type {
    Type::function(function.params.iter().copied(), function.result)
}

/// `ty` with its direct parts replaced. Parameters that `ty` binds are kept.
pub(crate) fn with_parts(ty: Type, part: &mut dyn FnMut(Type) -> Type) -> Type {
    match ty.data() {
        TypeData::Unknown
        | TypeData::Variable(_)
        | TypeData::Tensor(_)
        | TypeData::Parameter(_) => ty,
        TypeData::Tuple(fields) => Type::tuple(fields.iter().map(|field| part(*field))),
        TypeData::Function(function) => Type::new(TypeData::Function(FunctionType {
            type_params: function.type_params.clone(),
            params: function.params.iter().map(|param| part(*param)).collect(),
            result: part(function.result),
        })),
        TypeData::Ref(inner) => Type::reference(part(*inner)),
        TypeData::Named { name, params } => {
            let params: Vec<TypeParam> = params
                .iter()
                .map(|param| match param {
                    TypeParam::Type(ty) => TypeParam::Type(part(*ty)),
                    other => *other,
                })
                .collect();
            Type::named(*name, params)
        }
    }
}

/// `ty` with parameters replaced. Recursion is bounded by the depth of types.
pub(crate) fn substitute(ty: Type, map: &Substitution) -> Type {
    if !ty.facts().has_parameter {
        return ty;
    }
    match ty.data() {
        TypeData::Parameter(name) => match map.get(name) {
            Some(TypeParam::Type(ty)) => *ty,
            _ => ty,
        },
        TypeData::Tensor(tensor) => Type::new(TypeData::Tensor(TensorType {
            shape: tensor.shape.iter().map(|dim| substitute_dim(*dim, map)).collect(),
            dtype: tensor.dtype,
        })),
        TypeData::Function(function) if !function.type_params.is_empty() => {
            let mut inner = map.clone();
            function.type_params.iter().for_each(|name| {
                inner.remove(name);
            });
            with_parts(ty, &mut |part| substitute(part, &inner))
        }
        TypeData::Named { name, params } => {
            let params: Vec<TypeParam> = params
                .iter()
                .map(|param| match param {
                    TypeParam::Type(ty) => TypeParam::Type(substitute(*ty, map)),
                    TypeParam::Dim(dim) => TypeParam::Dim(substitute_dim(*dim, map)),
                    other => *other,
                })
                .collect();
            Type::named(*name, params)
        }
        _ => with_parts(ty, &mut |part| substitute(part, map)),
    }
}

fn substitute_dim(dim: Dim, map: &Substitution) -> Dim {
    let Dim::Expr(expr) = dim else { return dim };
    match expr.data() {
        DimExprData::Parameter(name) => match map.get(&name) {
            Some(TypeParam::Dim(new)) => *new,
            _ => dim,
        },
        DimExprData::Variable(_) => dim,
        DimExprData::Binary(op, a, b) => {
            Dim::binary(op, substitute_dim(a, map), substitute_dim(b, map))
        }
    }
}

/// Extends `map` so that `pattern` becomes `actual`, as far as `actual` says; parts that are
/// polymorphic or unknown say nothing. Whether the rest fits.
pub(crate) fn matches(
    pattern: Type,
    actual: Type,
    params: &[Symbol],
    map: &mut Substitution,
) -> bool {
    let polymorphic = |ty: Type| ty.as_function().is_some_and(|f| !f.type_params.is_empty());
    if actual.is_unknown() || polymorphic(actual) || !pattern.facts().has_parameter {
        return true;
    }
    match (pattern.data(), actual.data()) {
        (TypeData::Parameter(name), _) if params.contains(name) => {
            matches!(map.entry(*name).or_insert(TypeParam::Type(actual)),
                TypeParam::Type(known) if *known == actual)
        }
        (TypeData::Tensor(pattern), TypeData::Tensor(actual)) => {
            pattern.rank() == actual.rank()
                && pattern
                    .shape
                    .iter()
                    .zip(&actual.shape)
                    .all(|(pattern, actual)| extent_matches(*pattern, *actual, params, map))
        }
        (TypeData::Tuple(pattern), TypeData::Tuple(actual)) => {
            pattern.len() == actual.len()
                && pattern.iter().zip(actual.iter()).all(|(p, a)| matches(*p, *a, params, map))
        }
        (TypeData::Function(pattern), TypeData::Function(actual)) => {
            pattern.params.len() == actual.params.len()
                && pattern
                    .params
                    .iter()
                    .zip(actual.params.iter())
                    .all(|(p, a)| matches(*p, *a, params, map))
                && matches(pattern.result, actual.result, params, map)
        }
        (TypeData::Ref(pattern), TypeData::Ref(actual)) => matches(*pattern, *actual, params, map),
        (
            TypeData::Named { name, params: pattern },
            TypeData::Named { name: other, params: actual },
        ) => {
            name == other
                && pattern.iter().zip(actual).all(|(pattern, actual)| match (pattern, actual) {
                    (TypeParam::Type(p), TypeParam::Type(a)) => matches(*p, *a, params, map),
                    (TypeParam::Dim(p), TypeParam::Dim(a)) => extent_matches(*p, *a, params, map),
                    _ => true,
                })
        }
        _ => true,
    }
}

fn extent_matches(pattern: Dim, actual: Dim, params: &[Symbol], map: &mut Substitution) -> bool {
    let Dim::Expr(expr) = pattern else { return true };
    match expr.data() {
        DimExprData::Parameter(name) if params.contains(&name) => {
            matches!(map.entry(name).or_insert(TypeParam::Dim(actual)),
                TypeParam::Dim(known) if *known == actual)
        }
        _ => true,
    }
}

/// Whether `is_it` says so of `ty` or of a part of it; it sees all of them. Recursion is bounded by the
/// depth of types.
pub(crate) fn any_part(ty: Type, is_it: &mut dyn FnMut(Type) -> bool) -> bool {
    let mut found = is_it(ty);
    with_parts(ty, &mut |part| {
        found |= any_part(part, is_it);
        part
    });
    found
}
