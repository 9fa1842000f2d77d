//! The target `spirv`: kernels as SPIR-V compute shaders, run on Vulkan devices.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::{Options, Registry, verify};
//! use target_core::Target;
//! use target_spirv::{SpirvOptions, SpirvTarget};
//!
//! let registry = Registry::from([te::dialect()]);
//! let text = "te.kernel @double(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) outputs 1 {
//!   thread(threadIdx.x) i < 4 {
//!     %y[i] = %x[i] + %x[i]
//!   }
//! }";
//! let (module, found) = Form::Readable.parse("double.te", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! let target = SpirvTarget::new(SpirvOptions::read(&[]).expect("options"));
//! let verified = verify(&module, &registry).expect("a module that holds");
//! let shader = &target.codegen(verified).expect("code")[0].text;
//! assert!(shader.contains("OpEntryPoint GLCompute"), "{shader}");
//! ```

mod artifact;
pub mod codegen;
pub mod instructions;
pub mod module;
pub mod runtime;
pub mod tools;

use ir_core::{Diagnostics, Module, Options, Verified};
use target_core::gpu::launches::refuse_programs;
use target_core::package::{File, Model};
use target_core::{Artifact, Capabilities, CostTable, Executable, Gpu, Registration, Target, host};

/// Options of the target `spirv`.
#[derive(Options, Clone, PartialEq, Eq, Debug)]
#[options(of = "target `spirv`")]
pub struct SpirvOptions {
    /// The most threads of a block; what nearly all devices have by default.
    #[default(256)]
    pub threads: usize,
    /// Bytes of memory that a block shares; what all devices have by default.
    #[default(16384)]
    pub shared: usize,
    /// Part of the name of the device to run on; the first one by default, graphics processors before
    /// processors.
    #[default(None)]
    pub device: Option<String>,
}

/// The target `spirv`, for [`AddTarget::add_target`](target_core::AddTarget::add_target).
pub const fn registration() -> Registration {
    const DOC: &str = "SPIR-V compute shaders, run on Vulkan devices.";
    Registration::new::<SpirvOptions>("spirv", DOC, |options| {
        let options = SpirvOptions::read(options)?;
        if !(1..=1024).contains(&options.threads) {
            let found = options.threads;
            return Err(format!(
                "option `threads` expects a number from 1 to 1024, found `{found}`"
            ));
        }
        Ok(Box::new(SpirvTarget::new(options)))
    })
}

/// The target `spirv` with its options set.
#[derive(Clone, Debug)]
pub struct SpirvTarget {
    options: SpirvOptions,
    capabilities: Capabilities,
    gpu: Gpu,
}

impl SpirvTarget {
    /// The target with `options`.
    pub fn new(options: SpirvOptions) -> SpirvTarget {
        let threads = options.threads as i64;
        // Besides the options, what every Vulkan device has.
        let gpu = Gpu {
            blocks: [65_535; 3],
            threads: [threads, threads, threads.min(64)],
            block_threads: threads,
            shared_bytes: options.shared,
            warp: 32,
            alignment: 256,
        };
        let capabilities = Capabilities {
            isa: "spirv",
            vector_bits: 0,
            vector_registers: 0,
            gpu: Some(gpu.clone()),
            ..host()
        };
        SpirvTarget { options, capabilities, gpu }
    }
}

impl Target for SpirvTarget {
    fn name(&self) -> &'static str {
        "spirv"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn costs(&self) -> Result<CostTable, Diagnostics> {
        // A graphics processor of some years ago: microseconds for a launch, 200 GB/s, and 5·10¹²
        // operations in a second.
        Ok(CostTable::new(5.0, 200.0, 5000.0))
    }

    fn codegen(&self, module: Verified<'_, Module>) -> Result<Vec<Artifact>, Diagnostics> {
        let text = codegen::generate(module, &self.gpu)?.text();
        Ok(vec![Artifact { name: "kernels.spvasm".to_string(), text }])
    }

    fn validate(&self, artifacts: &[Artifact]) -> Result<(), Diagnostics> {
        artifacts.iter().try_for_each(|artifact| {
            let words = tools::assemble(&artifact.text)?;
            tools::validate(&words)
        })
    }

    fn load(&self, module: Verified<'_, Module>) -> Result<Box<dyn Executable>, Diagnostics> {
        refuse_programs(module.get(), self.name())?;
        let wanted = self.options.device.as_deref();
        Ok(Box::new(runtime::Loaded::new(module, &self.gpu, wanted)?))
    }

    fn package(
        &self,
        module: Verified<'_, Module>,
        model: &Model,
    ) -> Result<Vec<File>, Diagnostics> {
        artifact::package(self, module, model)
    }
}
