//! Algebraic simplification.

mod arithmetic;
mod casts;
mod identities;
mod like;
mod shapes;

use ir_core::{
    AttrData, Diagnostic, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult, TensorData,
    ValueId,
};

use crate::worklist::rewrite;

/// Simplifies expressions by algebra.
///
/// - `reshape`, `transpose`, `layout_transform` and `clip` of themselves merge, and those that
///   change nothing go;
/// - a `cast` of a `cast` that loses nothing merges, and so does one that undoes another;
/// - `…_like` operators whose model has a static shape become their plain forms;
/// - neutral elements go: `x + 0`, `x - 0`, `x * 1`, `x / 1`, also where they come from `full`,
///   `zeros` or `ones`;
/// - `x / sqrt(y)` becomes `x * rsqrt(y)`, and `x + x` becomes `x * 2`;
/// - constants come together: `(x + a) + b`, `(x * a) * b` and `(x + a) * b`.
///
/// The rules are applied until none fits. The last two groups may change the last digits of
/// floats; `exact` leaves them out for floats.
///
/// ```relay
/// def @main(%x: Tensor[(2, 3, 4), float32]) {
///   %0 = reshape(%x, newshape=[6, 4]);
///   %1 = reshape(%0, newshape=[24]);
///   add(%1, 0f)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(2, 3, 4), float32]) -> Tensor[(24), float32] {
///   reshape(%x, newshape=[24])
/// }
/// ```
#[derive(Pass)]
#[pass(name = "simplify-expr", function)]
pub struct SimplifyExpr {
    /// Keeps to rules that give the same floats.
    #[default(false)]
    pub exact: bool,
}

const PASS: &str = "simplify-expr";

/// What a rule makes of an operation: a value that stands for its result, or nothing.
type Rule = fn(&mut FuncMut<'_>, OpId) -> Result<Option<ValueId>, Diagnostic>;

/// Rules that give the same values.
const RULES: &[(&str, Rule)] = &[
    ("relay.reshape", shapes::reshape),
    ("relay.contrib_reverse_reshape", shapes::reshape),
    ("relay.transpose", shapes::transpose),
    ("relay.layout_transform", shapes::layout_transform),
    ("relay.cast", casts::cast),
    ("relay.cast_like", casts::cast_like),
    ("relay.clip", casts::clip),
    ("relay.zeros_like", like::zeros_like),
    ("relay.ones_like", like::ones_like),
    ("relay.full_like", like::full_like),
    ("relay.reshape_like", like::reshape_like),
    ("relay.broadcast_to_like", like::broadcast_to_like),
    ("relay.collapse_sum_like", like::collapse_sum_like),
    ("relay.add", identities::add),
    ("relay.subtract", identities::subtract),
    ("relay.multiply", identities::multiply),
    ("relay.divide", identities::divide),
];

/// Rules that may round floats in another way.
const ROUNDING: &[(&str, Rule)] = &[
    ("relay.divide", arithmetic::divide_by_root),
    ("relay.add", arithmetic::double),
    ("relay.add", arithmetic::join_constants),
    ("relay.multiply", arithmetic::join_constants),
    ("relay.multiply", arithmetic::multiply_sum),
];

impl FunctionPass for SimplifyExpr {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let rewritten = rewrite(f, &mut |f, op| {
            let name = f.body.op_name(op);
            let result = f.body.ty(f.body.result(op, 0)).as_tensor();
            let is_float = result.is_some_and(|tensor| tensor.dtype.is_float());
            let rounding = if self.exact && is_float { &[] } else { ROUNDING };
            for (_, rule) in RULES.iter().chain(rounding).filter(|(rule, _)| name == *rule) {
                if let Some(value) = rule(f, op)? {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        })?;
        cx.count("simplified", rewritten);
        Ok(())
    }
}

/// The constant that `value` is.
fn constant(f: &FuncMut<'_>, value: ValueId) -> Option<TensorData> {
    match f.registry.constant(f.body, value)?.data() {
        AttrData::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    }
}

/// The static shape of `value`.
fn shape(f: &FuncMut<'_>, value: ValueId) -> Option<Vec<i64>> {
    Some(f.body.ty(value).as_tensor()?.known_shape()?.to_vec())
}
