//! Rewriting and matching types.

use ir_core::{Dim, DimExprData, FunctionType, Symbol, TensorType, Type, TypeData, TypeParam};
use rustc_hash::FxHashMap;

/// What type and shape parameters stand for.
pub(crate) type Substitution = FxHashMap<Symbol, TypeParam>;

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
                && pattern.shape.iter().zip(&actual.shape).all(|(pattern, actual)| {
                    let Dim::Expr(expr) = pattern else { return true };
                    match expr.data() {
                        DimExprData::Parameter(name) if params.contains(&name) => {
                            matches!(map.entry(name).or_insert(TypeParam::Dim(*actual)),
                                TypeParam::Dim(known) if known == actual)
                        }
                        _ => true,
                    }
                })
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
                    _ => true,
                })
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

/// Whether a function type occurs in `ty`.
pub(crate) fn has_function(ty: Type) -> bool {
    any_part(ty, &mut |part| part.as_function().is_some())
}
