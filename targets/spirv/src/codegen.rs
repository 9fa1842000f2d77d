//! From verified kernels to shaders.
//!
//! Each kernel that is a [launch](target_core::gpu::launches) becomes an entry point of its name; its
//! buffers are bound in their order, from 0, in the descriptor set 0. Kernels that are lists of calls
//! are no code: whoever runs them makes the calls. **Equal modules give equal text.**
//!
//! Vectors are written lane by lane. Numbers of fewer than 32 bits are computed in 32 bits and kept
//! as they would be after each operation, so that only loads and stores need what devices may lack.
//! Indices are `int64` in kernels, and of 32 bits here wherever [ranges](target_core::ranges) show
//! that they fit. **Nothing that is written is undefined for some operands**: where an instruction
//! is, its operands are replaced, or others are written.

mod arithmetic;
mod casts;
mod code;
mod kernel;
mod math;
mod memory;
mod values;

use ir_core::{Diagnostics, Module, Symbol, Verified};
use target_core::Gpu;
use target_core::gpu::launches::{Launch, is_list};
use te::loops::KERNEL;

use crate::instructions::Capability;
use crate::module;

/// A kernel as a shader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shader {
    /// The kernel.
    pub kernel: Symbol,
    /// How many blocks and threads it runs on.
    pub launch: Launch,
    /// The module that holds it alone, as words.
    pub words: Vec<u32>,
    /// What it asks of a device.
    pub capabilities: Vec<Capability>,
    /// By buffer of the kernel, whether it is bound.
    pub bindings: Vec<bool>,
    /// Bytes that the threads of a block share.
    pub shared: usize,
}

/// The kernels of `module` that are launches, as one module of an entry point each.
///
/// # Errors
/// `E0902` where shaders cannot express something.
pub fn generate(module: Verified<'_, Module>, gpu: &Gpu) -> Result<module::Module, Diagnostics> {
    let mut text = module::Module::new();
    let mut errors = Diagnostics::new();
    for (name, item) in launches(module.get()) {
        if let Err(found) = kernel::write(&mut text, name, item, gpu) {
            errors.extend(found);
        }
    }
    if errors.is_empty() { Ok(text) } else { Err(errors) }
}

/// The kernels of `module` that are launches, each as a module of its own.
///
/// # Errors
/// `E0902` where shaders cannot express something.
pub fn shaders(module: Verified<'_, Module>, gpu: &Gpu) -> Result<Vec<Shader>, Diagnostics> {
    let (mut shaders, mut errors) = (Vec::new(), Diagnostics::new());
    for (kernel, item) in launches(module.get()) {
        let mut text = module::Module::new();
        match kernel::write(&mut text, kernel, item, gpu) {
            Ok(kernel::Written { launch, bindings, shared }) => {
                let capabilities = text.capabilities().collect();
                let words = text.words();
                shaders.push(Shader { kernel, launch, words, capabilities, bindings, shared });
            }
            Err(found) => errors.extend(found),
        }
    }
    if errors.is_empty() { Ok(shaders) } else { Err(errors) }
}

fn launches(module: &Module) -> impl Iterator<Item = (Symbol, &ir_core::Item)> {
    let kernels = module.items.iter().filter(|(_, item)| item.signature.op == KERNEL);
    let launches = kernels.filter(|(_, item)| item.body.as_deref().is_none_or(|b| !is_list(b)));
    launches.map(|(name, item)| (*name, item))
}
