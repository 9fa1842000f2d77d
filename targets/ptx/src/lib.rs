//! The target `ptx`: kernels as PTX, the assembly of NVIDIA's graphics processors.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::{Options, Registry, verify};
//! use target_core::Target;
//! use target_ptx::{PtxOptions, PtxTarget};
//!
//! let registry = Registry::from([te::dialect()]);
//! let text = "te.kernel @double(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) outputs 1 {
//!   thread(threadIdx.x) i < 4 {
//!     %y[i] = %x[i] + %x[i]
//!   }
//! }";
//! let (module, found) = Form::Readable.parse("double.te", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! let target = PtxTarget::new(PtxOptions::read(&[]).expect("options"));
//! let verified = verify(&module, &registry).expect("a module that holds");
//! let code = &target.codegen(verified).expect("code")[0].text;
//! assert!(code.contains(".visible .entry te_double("), "{code}");
//! ```

mod arch;
mod artifact;
pub mod assembler;
mod codegen;
pub mod interpreter;
pub mod runtime;

use ir_core::pass::OptionValue;
use ir_core::{Diagnostics, Module, Options, Verified};
use target_core::gpu::launches::refuse_programs;
use target_core::package::{File, Model};
use target_core::{Artifact, Capabilities, CostTable, Executable, Gpu, Registration, Target, host};

pub use arch::Arch;
use assembler::Ptxas;
pub use codegen::{Entry, Source, generate};
use runtime::{ALIGNMENT, Driver, Interpreted, Loaded};

/// Options of the target `ptx`.
#[derive(Options, Clone, PartialEq, Eq, Debug)]
#[options(of = "target `ptx`")]
pub struct PtxOptions {
    /// The architecture. Code for one runs on later ones, too.
    #[default(Arch::DEFAULT)]
    pub arch: Arch,
    /// What runs kernels: the first NVIDIA `device` of this machine, or the `interpreter` of this target.
    #[default(Run::Device)]
    pub run: Run,
    /// The assembler that checks what is written; `PTXAS`, or `ptxas` on the path, by default.
    #[default(None)]
    pub ptxas: Option<String>,
}

/// What runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// [`runtime::Driver`].
    Device,
    /// [`interpreter`].
    Interpreter,
}

impl OptionValue for Run {
    const EXPECTS: &'static str = "device or interpreter";
    fn parse(text: &str) -> Option<Run> {
        match text {
            "device" => Some(Run::Device),
            "interpreter" => Some(Run::Interpreter),
            _ => None,
        }
    }
    fn print(&self) -> String {
        match self {
            Run::Device => "device".to_string(),
            Run::Interpreter => "interpreter".to_string(),
        }
    }
}

/// The target `ptx`, for [`AddTarget::add_target`](target_core::AddTarget::add_target).
pub const fn registration() -> Registration {
    const DOC: &str = "PTX, the assembly of NVIDIA's graphics processors.";
    Registration::new::<PtxOptions>("ptx", DOC, |options| {
        Ok(Box::new(PtxTarget::new(PtxOptions::read(options)?)))
    })
}

/// The target `ptx` with its options set.
#[derive(Clone, Debug)]
pub struct PtxTarget {
    options: PtxOptions,
    capabilities: Capabilities,
    gpu: Gpu,
}

impl PtxTarget {
    /// The target with `options`.
    pub fn new(options: PtxOptions) -> PtxTarget {
        // What all architectures have: CUDA C++ Programming Guide, "Technical Specifications per Compute
        // Capability".
        let gpu = Gpu {
            blocks: [(1 << 31) - 1, 65_535, 65_535],
            threads: [1024, 1024, 64],
            block_threads: 1024,
            shared_bytes: 48 << 10,
            warp: 32,
            alignment: ALIGNMENT as i64,
        };
        let capabilities = Capabilities {
            isa: "ptx",
            vector_bits: 0,
            vector_registers: 0,
            gpu: Some(gpu.clone()),
            ..host()
        };
        PtxTarget { options, capabilities, gpu }
    }

    /// The kernels of `module` as one module of PTX.
    pub fn source(&self, module: Verified<'_, Module>) -> Result<Source, Diagnostics> {
        generate(module, self.options.arch, &self.gpu)
    }

    /// The kernels of `module` in the interpreter.
    pub fn interpreted(
        &self,
        module: Verified<'_, Module>,
        options: interpreter::Options,
    ) -> Result<Loaded, Diagnostics> {
        let Source { text, entries } = self.runnable(module)?;
        let device = Interpreted::new(&text, options)?;
        Loaded::new(module.get(), entries, Box::new(device))
    }

    /// The kernels of `module` on the first NVIDIA device.
    fn on_device(&self, module: Verified<'_, Module>) -> Result<Loaded, Diagnostics> {
        let Source { text, entries } = self.runnable(module)?;
        let device = Driver::new(&text, &entries, self.options.arch)?;
        Loaded::new(module.get(), entries, Box::new(device))
    }

    /// The code of `module`, which has to be a list of kernels.
    fn runnable(&self, module: Verified<'_, Module>) -> Result<Source, Diagnostics> {
        refuse_programs(module.get(), self.name())?;
        self.source(module)
    }
}

impl Target for PtxTarget {
    fn name(&self) -> &'static str {
        "ptx"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn costs(&self) -> Result<CostTable, Diagnostics> {
        // An A100: microseconds for a launch, 1500 GB/s, and 10¹³ operations in a second.
        Ok(CostTable::new(3.0, 1500.0, 10_000.0))
    }

    fn codegen(&self, module: Verified<'_, Module>) -> Result<Vec<Artifact>, Diagnostics> {
        let text = self.source(module)?.text;
        Ok(vec![Artifact { name: "kernels.ptx".to_string(), text }])
    }

    fn validate(&self, artifacts: &[Artifact]) -> Result<(), Diagnostics> {
        let ptxas = Ptxas::find(self.options.ptxas.as_deref())?;
        artifacts
            .iter()
            .try_for_each(|artifact| ptxas.assemble(&artifact.text, self.options.arch).map(drop))
    }

    fn load(&self, module: Verified<'_, Module>) -> Result<Box<dyn Executable>, Diagnostics> {
        let loaded = match self.options.run {
            Run::Device => self.on_device(module)?,
            Run::Interpreter => self.interpreted(module, interpreter::Options::default())?,
        };
        Ok(Box::new(loaded))
    }

    fn package(
        &self,
        module: Verified<'_, Module>,
        model: &Model,
    ) -> Result<Vec<File>, Diagnostics> {
        artifact::package(self, module, model)
    }
}
