//! Algebraic simplification.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};

use crate::by_rules;

/// Simplifies expressions by algebra.
///
/// - `reshape`, `transpose`, `layout_transform` and `clip` of themselves merge, and those that
///   change nothing go;
/// - `nn.softmax` over rows goes before a `reshape` that leaves them whole;
/// - a `cast` of a `cast` that loses nothing merges, and so does one that undoes another;
/// - `…_like` operators whose model has a static shape become their plain forms;
/// - neutral elements go: `x + 0`, `x - 0`, `x * 1`, `x / 1`, also where they come from `full`,
///   `zeros` or `ones`;
/// - powers by 2, 3, 0.5, -0.5, 1 and -1 become products, roots and quotients;
/// - `x / sqrt(y)` becomes `x * rsqrt(y)`, and `x + x` becomes `x * 2`;
/// - constants come together: `(x + a) + b`, `(x * a) * b` and `(x + a) * b`.
///
/// These are the rewrite rules tagged `simplify-expr`, which `relay-opt rules list` prints, applied
/// until none fits. The last three groups may change the last digits of floats; `exact` leaves them out
/// for floats.
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

impl FunctionPass for SimplifyExpr {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        by_rules::run("simplify-expr", self.exact, f, cx)
    }
}
