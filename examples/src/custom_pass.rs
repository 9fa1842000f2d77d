//! A pass.

// ANCHOR: pass
use ir_core::{FuncMut, FunctionPass, Pass, PassContext, PassResult};
use relay_operators::{elementwise::Clip, nn::activation::Relu};

/// Drops a `nn.relu` whose input is clipped at or above zero already.
#[derive(Pass)]
#[pass(name = "drop-relu-of-clip", function)]
pub struct DropReluOfClip {}

impl FunctionPass for DropReluOfClip {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        for op in f.all::<Relu>() {
            let Some(relu) = f.view::<Relu>(op) else { continue };
            if f.def::<Clip>(relu.data).is_some_and(|clip| clip.a_min >= 0.0) {
                f.replace(op, relu.data);
                cx.count("dropped", 1);
            }
        }
        Ok(())
    }
}
// ANCHOR_END: pass
