//! The plugin `example-plugin`.

use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult, Registry};
use relay_operators::elementwise::Negative;

relay_opt_shared::plugin!(register);

/// Adds what this plugin has.
pub fn register(registry: &mut Registry) {
    registry.pass::<DropDoubleNegative>();
}

/// Replaces `negative(negative(x))` by `x`.
#[derive(Pass)]
#[pass(name = "example-plugin", function)]
pub struct DropDoubleNegative {
    /// Most pairs to drop in a function.
    #[default(1000)]
    pub limit: u64,
}

impl FunctionPass for DropDoubleNegative {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let mut dropped = 0;
        for op in f.all::<Negative>() {
            let Some(outer) = f.view::<Negative>(op) else { continue };
            let Some(inner) = f.def::<Negative>(outer.data) else { continue };
            if dropped < self.limit {
                f.replace(op, inner.data);
                dropped += 1;
            }
        }
        cx.count("pairs dropped", dropped);
        Ok(())
    }
}
