//! Type inference as a pass.

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult};

/// Infers the type of every value and function.
///
/// Types that are there are kept and checked against what is found. Errors are reported, all of
/// them, and end the pipeline.
///
/// ```relay
/// def @main(%x: Tensor[(2, 3), float32]) {
///   nn.relu(%x)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
///   nn.relu(%x)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "infer-type", module)]
pub struct InferType {}

impl ModulePass for InferType {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        for diagnostic in relay::inference::infer_module(module, cx.registry) {
            cx.report(diagnostic);
        }
        Ok(())
    }
}
