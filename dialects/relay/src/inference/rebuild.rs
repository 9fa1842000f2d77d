//! Walking and rebuilding types without recursion.
//!
//! Types are shared DAGs: a type of depth 1,000 may stand for a tree of 2^1000 nodes. Everything
//! here visits a shared part once.

use ir_core::{Dim, DimExpr, DimExprData, FunctionType, TensorType, Type, TypeData, TypeParam};
use rustc_hash::FxHashMap;

pub(super) use crate::types::for_each_dim_leaf;

/// What becomes of a type that [`Rebuild::ty`] comes across.
pub(super) enum Leaf {
    /// Its parts are rebuilt.
    Open,
    /// It becomes this type, which is final.
    Becomes(Type),
    /// It becomes what this type is rebuilt to.
    Follow(Type),
}

/// A bottom-up rewriting of types.
pub(super) trait Rebuild {
    /// Whether equal parts become equal. Only then is each part rebuilt once.
    const SHARING: bool = true;
    /// Whether what [`Rebuild::dim`] answers is rewritten in turn.
    const FOLLOW_DIMS: bool = false;
    /// Counts a part that is looked at.
    fn step(&mut self) {}
    /// Whether something inside `ty` may change.
    fn relevant(&self, ty: Type) -> bool;
    /// What becomes of `ty`.
    fn leaf(&mut self, ty: Type) -> Leaf;
    /// What becomes of the parameter or variable `dim`; `None` keeps it.
    fn dim(&mut self, dim: DimExprData) -> Option<Dim>;
}

enum Step {
    Visit(Type),
    Build(Type),
    Remember(Type),
}

/// `ty` rewritten by `rules`.
pub(super) fn rebuild<R: Rebuild>(ty: Type, rules: &mut R) -> Type {
    rebuild_with(ty, rules, &mut FxHashMap::default())
}

/// `ty` rewritten by `rules`; `memo` is what earlier calls with the same rules found.
pub(super) fn rebuild_with<R: Rebuild>(
    ty: Type,
    rules: &mut R,
    memo: &mut FxHashMap<Type, Type>,
) -> Type {
    if !rules.relevant(ty) {
        return ty;
    }
    let mut done: Vec<Type> = Vec::new();
    let mut steps = vec![Step::Visit(ty)];
    while let Some(step) = steps.pop() {
        rules.step();
        match step {
            Step::Visit(ty) => {
                if !rules.relevant(ty) {
                    done.push(ty);
                } else if let Some(known) = memo.get(&ty) {
                    done.push(*known);
                } else {
                    match rules.leaf(ty) {
                        Leaf::Becomes(new) => done.push(new),
                        Leaf::Follow(next) => {
                            steps.extend([Step::Remember(ty), Step::Visit(next)]);
                        }
                        Leaf::Open => {
                            steps.push(Step::Build(ty));
                            let start = steps.len();
                            for_each_part(ty, |part| steps.push(Step::Visit(part)));
                            // Parts are visited left to right, so that fresh variables are
                            // numbered in reading order.
                            steps[start..].reverse();
                        }
                    }
                }
            }
            Step::Build(ty) => {
                let mut parts = 0;
                for_each_part(ty, |_| parts += 1);
                let children = done.split_off(done.len() - parts);
                let new = with_parts(ty, &children, rules);
                if R::SHARING {
                    memo.insert(ty, new);
                }
                done.push(new);
            }
            Step::Remember(ty) => {
                if let (true, Some(new)) = (R::SHARING, done.last()) {
                    memo.insert(ty, *new);
                }
            }
        }
    }
    done.pop().expect("what was visited was built")
}

/// Calls `visit` with the types directly inside `ty`, in order.
pub(super) fn for_each_part(ty: Type, mut visit: impl FnMut(Type)) {
    match ty.data() {
        TypeData::Unknown
        | TypeData::Variable(_)
        | TypeData::Parameter(_)
        | TypeData::Tensor(_) => {}
        TypeData::Tuple(fields) => fields.iter().copied().for_each(visit),
        TypeData::Function(function) => {
            function.params.iter().copied().for_each(&mut visit);
            visit(function.result);
        }
        TypeData::Ref(inner) => visit(*inner),
        TypeData::Named { params, .. } => {
            for param in params {
                if let TypeParam::Type(ty) = param {
                    visit(*ty);
                }
            }
        }
    }
}

/// Calls `visit` with the extents directly inside `ty`, in order.
pub(super) fn for_each_dim(ty: Type, mut visit: impl FnMut(Dim)) {
    match ty.data() {
        TypeData::Tensor(tensor) => tensor.shape.iter().copied().for_each(visit),
        TypeData::Named { params, .. } => {
            for param in params {
                if let TypeParam::Dim(dim) = param {
                    visit(*dim);
                }
            }
        }
        _ => {}
    }
}

fn with_parts<R: Rebuild>(ty: Type, parts: &[Type], rules: &mut R) -> Type {
    match ty.data() {
        TypeData::Unknown | TypeData::Variable(_) | TypeData::Parameter(_) => ty,
        TypeData::Tensor(tensor) => {
            let shape = tensor.shape.iter().map(|dim| rebuild_dim(*dim, rules)).collect();
            Type::new(TypeData::Tensor(TensorType { shape, dtype: tensor.dtype }))
        }
        TypeData::Tuple(_) => Type::tuple(parts.iter().copied()),
        TypeData::Function(function) => match parts.split_last() {
            Some((result, params)) => Type::new(TypeData::Function(FunctionType {
                type_params: function.type_params.clone(),
                params: params.into(),
                result: *result,
            })),
            None => ty,
        },
        TypeData::Ref(_) => parts.first().map_or(ty, |inner| Type::reference(*inner)),
        TypeData::Named { name, params } => {
            let mut parts = parts.iter();
            let params = params.iter().map(|param| match *param {
                TypeParam::Type(old) => TypeParam::Type(parts.next().copied().unwrap_or(old)),
                TypeParam::Dim(dim) => TypeParam::Dim(rebuild_dim(dim, rules)),
                other => other,
            });
            Type::named(*name, params)
        }
    }
}

/// `dim` rewritten by `rules`.
pub(super) fn rebuild_dim<R: Rebuild>(dim: Dim, rules: &mut R) -> Dim {
    let Dim::Expr(root) = dim else { return dim };
    let mut memo: FxHashMap<DimExpr, Dim> = FxHashMap::default();
    let mut steps = vec![root];
    while let Some(&expr) = steps.last() {
        if memo.contains_key(&expr) {
            steps.pop();
            continue;
        }
        let part = |dim: Dim| match dim {
            Dim::Expr(expr) => memo.get(&expr).copied().ok_or(expr),
            other => Ok(other),
        };
        let new = match expr.data() {
            DimExprData::Binary(op, a, b) => match (part(a), part(b)) {
                (Ok(a), Ok(b)) => Ok(Dim::binary(op, a, b)),
                (Err(missing), _) | (_, Err(missing)) => Err(missing),
            },
            leaf => match rules.dim(leaf) {
                None => Ok(Dim::Expr(expr)),
                Some(new) if R::FOLLOW_DIMS => part(new),
                Some(new) => Ok(new),
            },
        };
        match new {
            Ok(new) => {
                memo.insert(expr, new);
                steps.pop();
            }
            Err(missing) => steps.push(missing),
        }
    }
    memo[&root]
}
