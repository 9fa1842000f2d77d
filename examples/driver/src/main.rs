//! `relay-opt` with a pass of its own.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};
use relay_operators::elementwise::Negative;

fn main() -> std::process::ExitCode {
    let mut registry = tools::registry();
    registry.pass::<DropDoubleNegative>();
    tools::run_process(&registry)
}

/// Replaces `negative(negative(x))` by `x`.
#[derive(Pass)]
#[pass(name = "drop-double-negative", function)]
pub struct DropDoubleNegative {}

impl FunctionPass for DropDoubleNegative {
    fn run(&self, f: &mut FuncMut<'_>, _: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Negative>() {
            let Some(outer) = f.view::<Negative>(op) else { continue };
            let Some(inner) = f.def::<Negative>(outer.data) else { continue };
            f.replace(op, inner.data);
        }
        Ok(())
    }
}
