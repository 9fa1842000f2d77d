//! The operator that differentiates functions.

use ir_core::{InferCx, Op, Stop, Type, TypeData, ValueId};

use crate::FusionPattern;

/// The function that gives the value of `function` and its gradient: for each parameter, how much the sum of
/// all elements of the value changes with each of its elements.
///
/// For a function from `(P, ...)` to `R`, it is one from `(P, ...)` to `(R, (G, ...))`. `G` is `P` for
/// tensors of floats, a tuple of these for tuples, and `()` for what has no floats. Parameters are tensors and
/// tuples of them; what is computed in between, and what the function takes from around it, may be anything.
///
/// The pass `expand-grad` puts the gradient in its place, and `gradient` does as well; what runs and compiles
/// programs begins with it. Relay has `relay.transform.gradient` for whole functions, and no such operator.
#[derive(Op, Clone, Debug)]
#[op(name = "relay.grad", infer = infer, hooks(FusionPattern::Opaque))]
pub struct Grad<V = ValueId> {
    /// The function, without type parameters. Its value has floats.
    pub function: V,
}

fn infer(op: Grad<Type>, _cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    let function = match op.function.data() {
        TypeData::Function(function) => function,
        TypeData::Unknown | TypeData::Variable(_) => return Err(Stop::Stuck),
        _ => return Err(Stop::Error(format!("expected a function, found {}", op.function))),
    };
    if !function.type_params.is_empty() {
        return Err(Stop::Error(format!(
            "expected a function without type parameters, found `{}`: write `fn (%x: T) {{ @f(%x) }}`",
            op.function
        )));
    }
    let gradients = function.params.iter().map(|param| gradient_type(*param));
    let gradients = gradients.collect::<Result<Vec<Type>, Stop>>()?;
    let value = function.result;
    if has_floats(value)? == Some(false) {
        return Err(Stop::Error(format!(
            "expected a function whose value has floats, found {value}"
        )));
    }
    Ok(Type::function(
        function.params.iter().copied(),
        Type::tuple([value, Type::tuple(gradients)]),
    ))
}

// Recursion is bounded by the nesting of types.
/// The type of the gradient by a parameter of type `ty`.
fn gradient_type(ty: Type) -> Result<Type, Stop> {
    match (has_floats(ty)?, ty.data()) {
        (Some(false), _) => Ok(Type::unit()),
        (_, TypeData::Tuple(fields)) => {
            let fields = fields.iter().map(|field| gradient_type(*field));
            Ok(Type::tuple(fields.collect::<Result<Vec<Type>, Stop>>()?))
        }
        (_, TypeData::Tensor(_)) => Ok(ty),
        _ => Err(Stop::Error(format!(
            "expected parameters that are tensors or tuples of them, found {ty}: capture the others"
        ))),
    }
}

/// Whether a tensor or a tuple has floats; `None` where it is another type.
fn has_floats(ty: Type) -> Result<Option<bool>, Stop> {
    let (mut pending, mut found, mut is_other) = (vec![ty], false, false);
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Unknown | TypeData::Variable(_) => return Err(Stop::Stuck),
            TypeData::Tensor(tensor) => found |= tensor.dtype.is_float(),
            TypeData::Tuple(fields) => pending.extend(fields),
            _ => is_other = true,
        }
    }
    Ok(if is_other { None } else { Some(found) })
}
