//! Helpers over types, and types that the language knows without a declaration.

use indexmap::IndexSet;
use ir_core::{
    Attr, AttrData, AttrValue, Dim, DimExpr, DimExprData, Symbol, Type, TypeData, TypeParam,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// Name of the type of a piece of memory.
pub const STORAGE: &str = "Storage";

/// Whether `name` with so many parameters is a type of the language, which is there without a
/// declaration: that of a piece of memory, as operators give it.
pub fn is_built_in(name: Symbol, params: usize) -> bool {
    name == STORAGE && params == 0
}

/// Extents of a shape, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extents(pub Vec<Dim>);

impl AttrValue for Extents {
    const EXPECTS: &'static str = "a list of extents, such as [?, 4]";
    fn from_attr(attr: Attr) -> Option<Extents> {
        let AttrData::Array(items) = attr.data() else { return None };
        let extent = |item: &Attr| match item.data() {
            AttrData::Int(extent @ 0..) => Some(Dim::Known(*extent)),
            AttrData::String(text) if &**text == "?" => Some(Dim::Any),
            _ => None,
        };
        items.iter().map(extent).collect::<Option<_>>().map(Extents)
    }
    fn to_attr(&self) -> Attr {
        let extent = |dim: &Dim| match dim.known() {
            Some(extent) => extent.to_attr(),
            None => "?".to_string().to_attr(),
        };
        Attr::new(AttrData::Array(self.0.iter().map(extent).collect()))
    }
}

/// The type and shape parameters that `ty` refers to without binding them, in order of first
/// occurrence.
pub fn free_parameters(ty: Type) -> Vec<Symbol> {
    /// What is left to visit: a part, or the end of the scope of `n` bound parameters.
    enum Step {
        Type(Type),
        Dim(Dim),
        Unbind(usize),
    }
    type Names = IndexSet<Symbol, FxBuildHasher>;
    fn note(name: Symbol, binders: &FxHashMap<Symbol, u32>, free: &mut Names) {
        if binders.get(&name).is_none_or(|count| *count == 0) {
            free.insert(name);
        }
    }
    let mut free = Names::default();
    let mut bound: Vec<Symbol> = Vec::new();
    // How often each name is among those bound.
    let mut binders: FxHashMap<Symbol, u32> = FxHashMap::default();
    // Types without bound names around them are visited once, however often they are shared.
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending = vec![Step::Type(ty)];
    while let Some(step) = pending.pop() {
        let found = match step {
            Step::Unbind(count) => {
                for name in bound.drain(bound.len() - count..) {
                    binders.entry(name).and_modify(|count| *count -= 1);
                }
                None
            }
            Step::Dim(dim) => {
                for_each_dim_leaf(dim, |leaf| {
                    if let DimExprData::Parameter(name) = leaf {
                        note(name, &binders, &mut free);
                    }
                });
                None
            }
            Step::Type(ty) if !ty.facts().has_parameter => None,
            Step::Type(ty) if bound.is_empty() && !seen.insert(ty) => None,
            Step::Type(ty) => match ty.data() {
                TypeData::Parameter(name) => Some(*name),
                TypeData::Unknown | TypeData::Variable(_) => None,
                TypeData::Tensor(tensor) => {
                    pending.extend(tensor.shape.iter().rev().map(|dim| Step::Dim(*dim)));
                    None
                }
                TypeData::Tuple(fields) => {
                    pending.extend(fields.iter().rev().map(|ty| Step::Type(*ty)));
                    None
                }
                TypeData::Function(function) => {
                    bound.extend_from_slice(&function.type_params);
                    for name in &function.type_params {
                        *binders.entry(*name).or_default() += 1;
                    }
                    pending.push(Step::Unbind(function.type_params.len()));
                    pending.push(Step::Type(function.result));
                    pending.extend(function.params.iter().rev().map(|ty| Step::Type(*ty)));
                    None
                }
                TypeData::Ref(inner) => {
                    pending.push(Step::Type(*inner));
                    None
                }
                TypeData::Named { params, .. } => {
                    pending.extend(params.iter().rev().filter_map(|param| match *param {
                        TypeParam::Type(ty) => Some(Step::Type(ty)),
                        TypeParam::Dim(dim) => Some(Step::Dim(dim)),
                        TypeParam::Symbol(_) | TypeParam::Int(_) | TypeParam::DType(_) => None,
                    }));
                    None
                }
            },
        };
        if let Some(name) = found {
            note(name, &binders, &mut free);
        }
    }
    free.into_iter().collect()
}

/// Calls `visit` with every parameter and variable in `dim`, each once.
pub(crate) fn for_each_dim_leaf(dim: Dim, mut visit: impl FnMut(DimExprData)) {
    let mut seen: FxHashSet<DimExpr> = FxHashSet::default();
    let mut pending = vec![dim];
    while let Some(dim) = pending.pop() {
        let Dim::Expr(expr) = dim else { continue };
        match expr.data() {
            DimExprData::Binary(_, a, b) => {
                if seen.insert(expr) {
                    pending.extend([b, a]);
                }
            }
            leaf => visit(leaf),
        }
    }
}
