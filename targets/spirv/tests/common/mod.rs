//! What tests of shaders have in common: a device, and calls on it.

use ir_core::text::Form;
use ir_core::{Diagnostics, Item, Module, Options, Registry, Symbol, TensorData, verify};
use target_core::checks::report_checks;
use target_core::gpu::launches::split;
use target_core::program::lower_functions;
use target_core::{Buffer, Executable, Target};
use target_spirv::runtime::Loaded;
use target_spirv::{SpirvOptions, SpirvTarget, codegen, tools};

/// Part of the name of the device that tests run on, which computes on the processor, as every machine
/// can.
const LAVAPIPE: &str = "llvmpipe";

pub(crate) fn registry() -> Registry {
    Registry::from([te::dialect()])
}

pub(crate) fn target() -> SpirvTarget {
    SpirvTarget::new(SpirvOptions::read(&[]).expect("options"))
}

/// Says that `what` is missing, so that something is not tested.
pub(crate) fn missing(what: &str) {
    assert!(std::env::var("REQUIRE_TOOLS").as_deref() != Ok("1"), "{what}");
    eprintln!("SKIPPED: {what}");
}

/// The module of `text`.
pub(crate) fn parse(text: &str) -> Module {
    let (module, found) = Form::Readable.parse("test.te", text, &registry());
    assert!(found.is_empty(), "{found:#?}");
    module
}

/// The functions of `module` by their default schedules, and its kernels, as launches.
pub(crate) fn lowered(mut module: Module) -> Module {
    let target = target();
    let sites = lower_functions(&mut module, target.capabilities(), 1).expect("schedules");
    report_checks(&mut module, "main", sites, true).expect("checks");
    split(&mut module).expect("launches");
    verify(&module, &registry()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    module
}

/// The module of `items`.
pub(crate) fn module(items: Vec<(&str, Item)>) -> Module {
    let mut module = Module::new();
    for (name, item) in items {
        module.items.insert(Symbol::new(name), item);
    }
    module
}

/// The kernels of `module` on lavapipe; `None` where it is not installed.
pub(crate) fn load(module: &Module) -> Option<Loaded> {
    match try_load(module) {
        Ok(loaded) => Some(loaded),
        Err(errors) if errors.iter().any(|error| error.code == "E0914") => {
            missing("no Vulkan device: install mesa-vulkan-drivers and libvulkan1");
            None
        }
        Err(errors) => panic!("{errors:#?}"),
    }
}

/// The same, or what is said against it.
pub(crate) fn try_load(module: &Module) -> Result<Loaded, Diagnostics> {
    let registry = registry();
    let verified = verify(module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let gpu = target().capabilities().gpu.clone().expect("a graphics processor");
    Loaded::new(verified, &gpu, Some(LAVAPIPE))
}

/// What kernel `name` gives on `inputs`.
pub(crate) fn call(loaded: &dyn Executable, name: &str, inputs: &[TensorData]) -> Vec<TensorData> {
    let kernel = loaded.kernels().iter().find(|kernel| kernel.name == name).expect("a kernel");
    let mut buffers: Vec<Buffer> = inputs.iter().map(Buffer::of_tensor).collect();
    for ty in &kernel.params[inputs.len()..] {
        buffers.push(Buffer::of_type(*ty).expect("a buffer"));
    }
    loaded.call(name, &mut buffers).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let results = kernel.params[inputs.len()..].iter().zip(&buffers[inputs.len()..]);
    results
        .map(|(ty, buffer)| {
            let tensor = ty.as_tensor().expect("a tensor");
            buffer.to_tensor(tensor.dtype, &tensor.known_shape().expect("extents")).expect("bytes")
        })
        .collect()
}

/// Whether the assembler makes the same words of the text as we do, and the validator accepts them.
pub(crate) fn check_text(module: &Module) {
    let registry = registry();
    let verified = verify(module, &registry).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let gpu = target().capabilities().gpu.clone().expect("a graphics processor");
    let made = codegen::generate(verified, &gpu).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let (text, words) = (made.text(), made.words());
    match tools::assemble(&text) {
        Ok(assembled) => {
            // The third word names the tool.
            let other = |words: &[u32]| [&words[..2], &words[3..]].concat();
            assert!(other(&assembled) == other(&words), "{text}");
            if let Err(errors) = tools::validate(&words) {
                panic!("{errors:#?}\n{text}");
            }
        }
        Err(errors) if errors[0].code == "E0903" => missing("no `spirv-as`: install spirv-tools"),
        Err(errors) => panic!("{errors:#?}\n{text}"),
    }
}
