//! A plugin whose pass panics.

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult, Registry};

relay_opt_shared::plugin!(register);

/// Adds the pass, and a file of rules.
fn register(registry: &mut Registry) {
    registry.pass::<Faulty>();
    registry.add_rule_file("faulty.rules", RULES);
}

const RULES: &str = "set faulty {
  rule faulty-negatives exact: negative(negative(%x)) => %x;
}
";

/// Panics.
#[derive(Pass)]
#[pass(name = "faulty", module)]
struct Faulty {}

impl ModulePass for Faulty {
    fn run(&self, module: &mut Module, _: &mut PassContext<'_>) -> PassResult {
        let none: Option<usize> = module.items.is_empty().then_some(0);
        none.map(drop).expect("the module is empty");
        Ok(())
    }
}
