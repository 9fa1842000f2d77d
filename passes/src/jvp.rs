//! Forward-mode automatic differentiation.

use ir_core::{
    Body, Diagnostic, Diagnostics, FuncMut, Module, ModulePass, OpId, Pass, PassContext,
    PassResult, Type, ValueId,
};
use relay::language::{TupleGet, yielded};
use relay_operators::attributes::Integers;
use relay_operators::create::Zeros;

use crate::codes::NOT_DIFFERENTIABLE;
use crate::emit::{Emit, erase_unused};
use crate::gradient::{Gradients, has_data, set_function_type, with_main};
use crate::train_step::{fields, hint};

/// Makes `@main` give its value and how that changes with its parameters: the *tangent* of the value, for those
/// of the parameters.
///
/// For each parameter `%x` there is a further one, `%x_tangent`, of the same type, behind the others: by how
/// much `%x` changes. A parameter without floats has the empty tuple for its tangent. The result is
/// `(value, tangent)`. Parameters and value are tensors and tuples of them; data may be in between.
///
/// This is the gradient of the gradient. For the value `f(x)` and weights `w` of its elements, `gradient` gives
/// `w J(x)`, which is linear in `w`. Its gradient by `w`, for weights `v`, is `J(x) v`, whatever `w` is, so that
/// it takes nothing of what was computed on the way back. So a program has a tangent wherever it has a gradient
/// whose operators have one, and the rules of operators are those of `gradient`.
///
/// ```relay
/// def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) {
///   multiply(sin(%x), %w)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32],
///     %x_tangent: Tensor[(2), float32], %w_tangent: Tensor[(2), float32])
///     -> (Tensor[(2), float32], Tensor[(2), float32]) {
///   %0 = sin(%x);
///   %1 = multiply(%0, %w);
///   %2 = cos(%x);
///   %3 = multiply(%x_tangent, %2);
///   %4 = multiply(%w_tangent, %0);
///   %5 = multiply(%3, %w);
///   %6 = add(%4, %5);
///   (%1, %6)
/// }
/// ```
#[derive(Pass)]
#[pass(
    name = "jvp",
    module,
    never_after = "simplify-inference alter-op-layout convert-layout fuse"
)]
pub struct Jvp {
    /// The parameters that change, by name, joined with `+`; none means all.
    #[default(vec![])]
    pub wrt: Vec<String>,
}

/// What the weights of the value are called between the two gradients.
const WEIGHTS: &str = "weights of the value";

impl ModulePass for Jvp {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        refuse_data(module)?;
        Gradients::of(self.wrt.clone(), true).run(module, cx)?;
        with_main(module, cx.registry, |f| {
            let (weights, _) = last_parameter(f.body);
            f.body.set_name_hint(weights, hint(WEIGHTS));
            Ok(())
        })?;
        Gradients::of(vec![WEIGHTS.to_string()], true).run(module, cx)?;
        let wrt = Gradients::of(self.wrt.clone(), false);
        with_main(module, cx.registry, |f| take_tangents(f, &wrt))
    }
}

/// Errors where `@main` takes or gives data.
fn refuse_data(module: &Module) -> PassResult {
    let Some(item) = module.get("main") else { return Ok(()) };
    let Some(function) = item.signature.ty.as_function() else { return Ok(()) };
    let types = function.params.iter().chain(std::iter::once(&function.result));
    match types.copied().find(|ty| has_data(*ty)) {
        None => Ok(()),
        Some(ty) => {
            let message = format!("`@main` takes or gives {ty}, and data has no tangent");
            let help = "take and give tensors and tuples: what is between may be data";
            let error = Diagnostic::error(NOT_DIFFERENTIABLE, message).at(item.signature.span);
            Err(error.help(help).into())
        }
    }
}

/// The last parameter of a function that was given one, and its number.
fn last_parameter(body: &Body) -> (ValueId, usize) {
    let params = body.block_args(body.entry());
    let last = params.last().expect("a weighted gradient has weights");
    (*last, params.len() - 1)
}

/// Makes of a function that gives `((value, gradients), (gradient by the weights of value,))`, and whose last
/// parameters are these weights and those of `(value, gradients)`, one that gives `(value, tangent)`, and takes
/// tangents.
fn take_tangents(f: &mut FuncMut<'_>, wrt: &Gradients) -> PassResult {
    let entry = f.body.entry();
    let wanted = wrt.wanted(f)?;
    let (of_both, place) = last_parameter(f.body);
    let weights = f.body.block_args(entry)[place - 1];
    let types = f.body.ty(of_both).as_tuple().map_or(&[][..], |types| types);
    let types = types.get(1).and_then(|ty| ty.as_tuple()).expect("gradients are a tuple");
    // Without `wrt`, the weights are wanted as well, which are no parameter of the program.
    let wanted = wanted.into_iter().filter(|param| ![of_both, weights].contains(param));
    let given: Vec<ValueId> = wanted
        .zip(types)
        .map(|(param, ty)| {
            let name = f.body.name_hint(param).name.unwrap_or_else(|| "p".into());
            let tangent = f.body.add_block_arg(entry, *ty);
            f.body.set_name_hint(tangent, hint(&format!("{name}_tangent")));
            tangent
        })
        .collect();
    for op in fields_of(f.body, of_both, 1) {
        for (index, tangent) in given.iter().enumerate() {
            for field in fields_of(f.body, f.body.result(op, 0), index) {
                f.body.replace_all_uses(f.body.result(field, 0), *tangent);
            }
        }
    }
    let result = yielded(f.body, entry).and_then(|value| fields(f.body, value));
    let [both, tangents] = result.expect("gradients come with a value")[..] else {
        unreachable!("the gradients are one field")
    };
    let (value, tangent) =
        match (fields(f.body, both).as_deref(), fields(f.body, tangents).as_deref()) {
            (Some([value, _]), Some([tangent])) => (*value, *tangent),
            _ => unreachable!("a gradient is a tuple"),
        };
    let end = f.body.last_op(entry).expect("functions give values");
    let result = Emit::before(f, end, "jvp").tuple(vec![value, tangent]);
    f.body.set_operand(end, 0, result);
    let unused: Vec<OpId> = f.body.block_ops(entry).filter(|op| *op != end).collect();
    erase_unused(f, unused.into_iter().rev());
    if !f.body.is_unused(weights) {
        // It is linear in them, so that any will do.
        let ty = f.body.ty(weights);
        let zeros = zeros(f, weights, ty)?;
        f.body.replace_all_uses(weights, zeros);
    }
    for place in [place, place - 1] {
        f.body.remove_block_arg(entry, place);
    }
    set_function_type(f);
    Ok(())
}

/// The operations that take field `index` of `tuple`.
fn fields_of(body: &Body, tuple: ValueId, index: usize) -> Vec<OpId> {
    let is_it = |op: &OpId| body.view::<TupleGet>(*op).is_some_and(|get| get.index == index as i64);
    body.uses(tuple).map(|(op, _)| op).filter(is_it).collect()
}

// Recursion is bounded by the nesting of types.
/// Zeros of type `ty`, where the function starts; `param` is one of its parameters.
///
/// # Errors
/// When an extent is not known.
fn zeros(f: &mut FuncMut<'_>, param: ValueId, ty: Type) -> Result<ValueId, Diagnostics> {
    if let Some(types) = ty.as_tuple() {
        let zeros = types.iter().map(|ty| zeros(f, param, *ty)).collect::<Result<Vec<_>, _>>()?;
        // What was put at the start last stands first.
        let last = zeros.first().copied().unwrap_or(param);
        return Ok(Emit::behind(f, last, "jvp").tuple(zeros));
    }
    let tensor = ty.as_tensor().and_then(|tensor| Some((tensor.known_shape()?, tensor.dtype)));
    let Some((shape, dtype)) = tensor else {
        let message = format!("expected a value of known extents, found {ty}");
        let help = "give extents numbers before, by `bind-extents`";
        let error = Diagnostic::error(NOT_DIFFERENTIABLE, message).at(f.base());
        return Err(error.help(help).into());
    };
    Emit::behind(f, param, "jvp").op(&Zeros { shape: Integers(shape.to_vec()), dtype })
}
