//! What tests of PTX have in common: kernels, the assembler, and calls in the interpreter.

use ir_core::text::Form;
use ir_core::{Item, Module, Options as _, Registry, Symbol, TensorData, verify};
use target_core::checks::report_checks;
use target_core::gpu::launches::split;
use target_core::program::lower_functions;
use target_core::{Buffer, Executable, Target};
use target_ptx::assembler::{Ptxas, Usage};
use target_ptx::interpreter::Options;
use target_ptx::runtime::Loaded;
use target_ptx::{Arch, PtxOptions, PtxTarget};

pub(crate) fn registry() -> Registry {
    Registry::from([te::dialect()])
}

/// The target for an architecture such as `sm_80`.
pub(crate) fn target(arch: &str) -> PtxTarget {
    let options = [("arch".to_string(), arch.to_string())];
    PtxTarget::new(PtxOptions::read(&options).expect("options"))
}

/// The module of `text`.
pub(crate) fn parse(text: &str) -> Module {
    let (module, found) = Form::Readable.parse("test.te", text, &registry());
    assert!(found.is_empty(), "{found:#?}");
    module
}

/// The module of `items`.
pub(crate) fn module<'n>(items: impl IntoIterator<Item = (&'n str, Item)>) -> Module {
    let mut module = Module::new();
    module.items.extend(items.into_iter().map(|(name, item)| (Symbol::new(name), item)));
    module
}

/// The functions of `module` by their default schedules, and its kernels, as launches.
pub(crate) fn lowered(mut module: Module) -> Module {
    let target = target("sm_80");
    let sites = lower_functions(&mut module, target.capabilities(), 1).expect("schedules");
    report_checks(&mut module, "main", sites, true).expect("checks");
    split(&mut module).expect("launches");
    module
}

/// The PTX of `module` for `arch`.
pub(crate) fn text(module: &Module, arch: &str) -> String {
    let registry = registry();
    let verified = verify(module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    target(arch).source(verified).unwrap_or_else(|errors| panic!("{errors:#?}")).text
}

/// The kernels of `module` for `arch`, in the interpreter.
pub(crate) fn load(module: &Module, arch: &str, options: Options) -> Loaded {
    let registry = registry();
    let verified = verify(module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let loaded = target(arch).interpreted(verified, options);
    loaded.unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// What kernel `name` gives on `inputs`.
pub(crate) fn call(loaded: &dyn Executable, name: &str, inputs: &[TensorData]) -> Vec<TensorData> {
    let kernel = loaded.kernels().iter().find(|kernel| kernel.name == name).expect("a kernel");
    let mut buffers: Vec<Buffer> = inputs.iter().map(Buffer::of_tensor).collect();
    for ty in &kernel.params[inputs.len()..] {
        buffers.push(Buffer::of_type(*ty).expect("a buffer"));
    }
    loaded.call(name, &mut buffers).unwrap_or_else(|errors| panic!("@{name}: {errors:#?}"));
    let results = kernel.params[inputs.len()..].iter().zip(&buffers[inputs.len()..]);
    results
        .map(|(ty, buffer)| {
            let tensor = ty.as_tensor().expect("a tensor");
            buffer.to_tensor(tensor.dtype, &tensor.known_shape().expect("extents")).expect("bytes")
        })
        .collect()
}

/// The assembler. A test that lacks it is skipped, and says so, or fails where `REQUIRE_TOOLS` is 1.
pub(crate) fn ptxas() -> Option<Ptxas> {
    match Ptxas::find(None) {
        Ok(ptxas) => Some(ptxas),
        Err(errors) => {
            let help = errors[0].help.clone().unwrap_or_default();
            assert!(std::env::var("REQUIRE_TOOLS").as_deref() != Ok("1"), "no `ptxas`: {help}");
            eprintln!("SKIPPED: no `ptxas`: {help}");
            None
        }
    }
}

/// What the assembler says of `module` on `arch`, where there is one.
pub(crate) fn assembled(module: &Module, arch: Arch) -> Vec<Usage> {
    let name = format!("sm_{}", arch.number());
    let text = text(module, &name);
    let Some(ptxas) = ptxas() else { return vec![] };
    ptxas.assemble(&text, arch).unwrap_or_else(|errors| panic!("{name}: {errors:#?}\n{text}"))
}
