//! Shape parameters at run time: in one call, each stands for one extent.

use ir_core::{Dim, DimExpr, DimExprData, Symbol, Type, TypeData};
use rustc_hash::FxHashMap;

use super::Value;

/// Whether extents of tensors in `ty`, in tuples too, mention shape parameters.
pub(super) fn mentions_extents(ty: Type) -> bool {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(tensor) if ty.facts().has_parameter => {
                return tensor.shape.iter().any(|dim| dim.facts().has_parameter);
            }
            TypeData::Tuple(fields) if ty.facts().has_parameter => pending.extend(fields),
            _ => {}
        }
    }
    false
}

/// Checks that each shape parameter in `params` is one extent in all of `args`, which have the
/// kinds and ranks of `params`. What no extent is alone, as in `n * 2`, is checked where `n` is
/// found elsewhere.
pub(super) fn check_extents(params: &[Type], args: &[Value]) -> Result<(), String> {
    let mut known: FxHashMap<Symbol, i64> = FxHashMap::default();
    let mut sums: Vec<(DimExpr, i64)> = Vec::new();
    let mut pending: Vec<(Type, &Value)> =
        params.iter().copied().zip(args).filter(|(ty, _)| ty.facts().has_parameter).collect();
    pending.reverse();
    while let Some((ty, value)) = pending.pop() {
        match (ty.data(), value) {
            (TypeData::Tensor(tensor), Value::Tensor(found)) => {
                for (dim, &extent) in tensor.shape.iter().zip(found.shape()) {
                    let Dim::Expr(expr) = *dim else { continue };
                    let DimExprData::Parameter(name) = expr.data() else {
                        sums.push((expr, extent));
                        continue;
                    };
                    let first = *known.entry(name).or_insert(extent);
                    if first != extent {
                        return Err(format!(
                            "the extent `{name}` is both {first} and {extent}: expected {ty}, found {}",
                            value.describe()
                        ));
                    }
                }
            }
            (TypeData::Tuple(types), Value::Tuple(fields)) => {
                pending.extend(types.iter().copied().zip(fields.iter()).rev());
            }
            _ => {}
        }
    }
    for (expr, extent) in sums {
        match evaluate(expr, &known) {
            Some(expected) if expected != extent => {
                let written = Dim::Expr(expr);
                return Err(format!("the extent `{written}` is {expected}, found {extent}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `expr` with the extents of its parameters; `None` where one is not known, or it has no value.
fn evaluate(expr: DimExpr, known: &FxHashMap<Symbol, i64>) -> Option<i64> {
    let mut values: FxHashMap<DimExpr, i64> = FxHashMap::default();
    let mut steps = vec![expr];
    while let Some(&top) = steps.last() {
        let part = |dim: Dim| match dim {
            Dim::Known(extent) => Ok(extent),
            Dim::Expr(expr) => values.get(&expr).copied().ok_or(Some(expr)),
            Dim::Any => Err(None),
        };
        let value = match top.data() {
            DimExprData::Parameter(name) => *known.get(&name)?,
            DimExprData::Variable(_) => return None,
            DimExprData::Binary(op, a, b) => match (part(a), part(b)) {
                (Ok(a), Ok(b)) => op.apply(a, b)?,
                (Err(missing), _) | (_, Err(missing)) => {
                    steps.push(missing?);
                    continue;
                }
            },
        };
        values.insert(top, value);
        steps.pop();
    }
    values.get(&expr).copied()
}
