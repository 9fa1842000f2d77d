//! Runs the test files beside this one.

use std::path::Path;
use std::sync::LazyLock;

use ir_core::Registry;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = relay_opt_shared::registry();
    example_plugin::register(&mut registry);
    registry
});

#[test]
fn lit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    relay_opt_shared::lit::run_folder(&folder, &REGISTRY).unwrap();
}
