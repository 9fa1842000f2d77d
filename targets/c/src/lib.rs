//! The target `c`: kernels as C, compiled by the system's compiler and called in this process.
//!
//! There are two profiles of one generator. *Native* code uses GNU vectors of the width of the
//! instruction set; GCC and Clang take it. *Portable* code, of the instruction set `scalar`, is
//! plain C11. Both are free of undefined behaviour for whatever numbers come in, need no library
//! but that of C, and allocate nothing.
//!
//! ```
//! use ir_core::text::Form;
//! use ir_core::{Options, Registry, verify};
//! use target_c::{COptions, CTarget, codegen::generate};
//!
//! let registry = Registry::from([te::dialect()]);
//! let text = "te.kernel @double(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) outputs 1 {
//!   for i < 4 {
//!     %y[i] = %x[i] + %x[i]
//!   }
//! }";
//! let (module, found) = Form::Readable.parse("double.te", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! let options = COptions::read(&[("isa".to_string(), "scalar".to_string())]).expect("options");
//! let target = CTarget::new(options).expect("a target");
//! let verified = verify(&module, &registry).expect("a module that holds");
//! let source = generate(verified, &target.style(false)).expect("code");
//! assert!(source.text.contains("double"), "{}", source.text);
//! ```

mod artifact;
pub mod codegen;
pub mod runtime;

use std::sync::{Mutex, PoisonError};

use ir_core::pass::OptionValue;
use ir_core::{Diagnostic, Diagnostics, Module, Options, Verified};
use prog::operators::Operators;
use target_core::package::{File, Model};
use target_core::{
    Artifact, Buffer, Calibration, Capabilities, CostTable, Executable, Kernel, Registration,
    Target, host,
};

use codegen::Style;
use runtime::{Cache, Compiler, Library};

/// Options of the target `c`.
#[derive(Options, Clone, PartialEq, Eq, Debug)]
#[options(of = "target `c`")]
pub struct COptions {
    /// Instruction set; that of this machine by default. `scalar` gives portable C11.
    #[default(None)]
    pub isa: Option<Isa>,
    /// Lanes of a `float32` vector, a power of two; what the instruction set has by default.
    #[default(None)]
    pub width: Option<usize>,
    /// Threads that schedules count on; all of this machine by default.
    #[default(None)]
    pub threads: Option<usize>,
    /// What the names of functions start with.
    #[default("te_".to_string())]
    pub prefix: String,
    /// The compiler; `CC`, `cc`, `gcc` or `clang` by default.
    #[default(None)]
    pub compiler: Option<String>,
    /// What kernels cost, for passes that choose them: `default`, which follows from the instruction
    /// set and the threads, or `measured`, what `relay-opt calibrate` kept on this machine.
    #[default(CostSource::Default)]
    pub costs: CostSource,
}

/// Where the costs of kernels come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostSource {
    /// From the capabilities, the same on every machine that has these.
    Default,
    /// From measurements on this machine.
    Measured,
}

impl OptionValue for CostSource {
    const EXPECTS: &'static str = "default or measured";
    fn parse(text: &str) -> Option<CostSource> {
        match text {
            "default" => Some(CostSource::Default),
            "measured" => Some(CostSource::Measured),
            _ => None,
        }
    }
    fn print(&self) -> String {
        match self {
            CostSource::Default => "default".to_string(),
            CostSource::Measured => "measured".to_string(),
        }
    }
}

/// The name of an instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Isa(&'static str);

impl OptionValue for Isa {
    const EXPECTS: &'static str = "avx512, avx2, neon, sse2 or scalar";
    fn parse(text: &str) -> Option<Isa> {
        Capabilities::isas().find(|isa| *isa == text).map(Isa)
    }
    fn print(&self) -> String {
        self.0.to_string()
    }
}

/// The target `c`, for [`AddTarget::add_target`](target_core::AddTarget::add_target).
pub const fn registration() -> Registration {
    const DOC: &str = "C: portable C11, or GNU vectors for this machine, compiled and run here.";
    Registration::new::<COptions>("c", DOC, |options| {
        Ok(Box::new(CTarget::new(COptions::read(options)?)?))
    })
}

/// The target `c` with its options set.
#[derive(Clone, Debug)]
pub struct CTarget {
    options: COptions,
    capabilities: Capabilities,
}

impl CTarget {
    /// The target with `options`. The error is a message.
    pub fn new(options: COptions) -> Result<CTarget, String> {
        let mut capabilities = match options.isa {
            Some(Isa(isa)) => Capabilities::of_isa(isa).unwrap_or_else(host),
            None => host(),
        };
        if let Some(width) = options.width {
            if !width.is_power_of_two() || width > 64 {
                return Err(format!(
                    "option `width` of target `c` expects a power of two up to 64, found `{width}`"
                ));
            }
            // One lane is no vector.
            capabilities.vector_bits = if width == 1 { 0 } else { width * 32 };
        }
        if let Some(threads) = options.threads {
            capabilities.threads = threads.max(1);
        }
        Ok(CTarget { options, capabilities })
    }

    /// How the generated text looks; with `entries` it can be called through a list of buffers.
    pub fn style(&self, entries: bool) -> Style {
        let prefix = self.options.prefix.clone();
        let Capabilities { vector_bits, threads, .. } = self.capabilities;
        Style { vector_bits, threads, prefix, entries, model: None }
    }

    /// The compiler that runs generated code.
    pub fn compiler(&self) -> Result<Compiler, Diagnostics> {
        match &self.options.compiler {
            Some(command) => Compiler::named(command),
            None => Compiler::find(),
        }
    }

    /// The flags that [`compiler`](CTarget::compiler) gets.
    pub fn flags(&self) -> Vec<String> {
        runtime::flags(self.options.isa.map(|isa| isa.0))
    }

    /// This target as text, with the options that its code depends on.
    fn text(&self) -> String {
        let COptions { isa, width, compiler, .. } = &self.options;
        let mut options = vec![];
        options.extend(isa.map(|isa| format!("isa={}", isa.0)));
        options.extend(width.map(|width| format!("width={width}")));
        options.push(format!("threads={}", self.capabilities.threads));
        options.extend(compiler.as_ref().map(|compiler| format!("compiler={compiler}")));
        format!("c{{{}}}", options.join(","))
    }

    /// The kernels of `module`, compiled and loaded, from `cache` where they are there. Several
    /// files are compiled at a time. A compiler is tested before it is used for the first time.
    pub fn load_with(
        &self,
        module: Verified<'_, Module>,
        compiler: &Compiler,
        cache: &Cache,
    ) -> Result<Loaded, Diagnostics> {
        let remedy = runtime::remedy(self, compiler, cache)?;
        let mut flags = self.flags();
        flags.extend(remedy.map(str::to_string));
        let mut loaded = self.load_by(module, compiler, &flags, cache)?;
        loaded.remarks.extend(remedy.map(|remedy| runtime::warning(compiler, remedy)));
        Ok(loaded)
    }

    /// The kernels of `module`, compiled with `flags` by `compiler`, and loaded.
    fn load_by(
        &self,
        module: Verified<'_, Module>,
        compiler: &Compiler,
        flags: &[String],
        cache: &Cache,
    ) -> Result<Loaded, Diagnostics> {
        // The same number on every machine, so that one cache serves several.
        const FILES: usize = 16;
        let sources = codegen::generate_parts(module, &self.style(true), FILES)?;
        let texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
        let object = cache.shared_object(compiler, flags, &texts)?;
        let mut kernels: Vec<Kernel> =
            sources.into_iter().flat_map(|source| source.kernels).collect();
        let place =
            |kernel: &Kernel| module.items.get_index_of(&ir_core::Symbol::new(&kernel.name));
        kernels.sort_by_key(place);
        let hook = codegen::hook_name(&self.options.prefix);
        // What cannot be loaded is made again the next time.
        let operate = codegen::operate_name(&self.options.prefix);
        let library = Library::load(&object, &kernels, &hook, &operate)
            .inspect_err(|_| drop(std::fs::remove_file(&object)))?;
        let threads = self.capabilities.threads;
        let workspaces = Mutex::new(Vec::new());
        Ok(Loaded { kernels, threads, library, workspaces, remarks: Diagnostics::new() })
    }
}

impl Target for CTarget {
    fn name(&self) -> &'static str {
        "c"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn costs(&self) -> Result<CostTable, Diagnostics> {
        match self.options.costs {
            CostSource::Default => Ok(self.capabilities.costs()),
            CostSource::Measured => self.calibration()?.find(),
        }
    }

    fn calibration(&self) -> Result<Calibration, Diagnostics> {
        Ok(Calibration {
            target: self.text(),
            machine: Cache::machine().to_string(),
            compiler: self.compiler()?.version().to_string(),
            folder: Cache::find()?.folder().to_path_buf(),
        })
    }

    fn codegen(&self, module: Verified<'_, Module>) -> Result<Vec<Artifact>, Diagnostics> {
        let source = codegen::generate(module, &self.style(false))?;
        let name = |extension: &str| format!("{}kernels.{extension}", self.options.prefix);
        Ok(vec![
            Artifact { name: name("c"), text: source.text },
            Artifact { name: name("h"), text: source.header },
        ])
    }

    fn validate(&self, artifacts: &[Artifact]) -> Result<(), Diagnostics> {
        let compiler = self.compiler()?;
        let cache = Cache::find()?;
        let mut flags = self.flags();
        let checks = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"];
        flags.extend(checks.map(String::from));
        for artifact in artifacts.iter().filter(|artifact| artifact.name.ends_with(".c")) {
            cache.shared_object(&compiler, &flags, &[&artifact.text])?;
        }
        Ok(())
    }

    fn load(&self, module: Verified<'_, Module>) -> Result<Box<dyn Executable>, Diagnostics> {
        let compiler = self.compiler()?;
        let cache = Cache::find()?;
        Ok(Box::new(self.load_with(module, &compiler, &cache)?))
    }

    fn package(
        &self,
        module: Verified<'_, Module>,
        model: &Model,
    ) -> Result<Vec<File>, Diagnostics> {
        artifact::package(self, module, model)
    }
}

/// Kernels in this process.
pub struct Loaded {
    kernels: Vec<Kernel>,
    /// How many threads a call uses.
    threads: usize,
    library: Library,
    /// Workspaces of earlier calls, for later ones.
    workspaces: Mutex<Vec<Buffer>>,
    /// What users should know of how they were made.
    remarks: Diagnostics,
}

impl Executable for Loaded {
    fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    fn remarks(&self) -> &[Diagnostic] {
        &self.remarks
    }

    fn call(&self, kernel: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics> {
        let bytes = self.kernels[self.find(kernel)?].workspace;
        let free = || self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = free().pop().filter(|buffer| buffer.len() >= bytes);
        let mut workspace = reused.unwrap_or_else(|| Buffer::zeroed(bytes));
        let result = self.call_in(kernel, buffers, &mut workspace, &mut ());
        free().push(workspace);
        result
    }

    fn call_in(
        &self,
        kernel: &str,
        buffers: &mut [Buffer],
        block: &mut Buffer,
        operators: &mut dyn Operators,
    ) -> Result<(), Diagnostics> {
        let index = self.find(kernel)?;
        runtime::with_operators(operators, || {
            runtime::with_threads(self.threads, || self.library.call(index, buffers, block))
        })
    }
}

impl Loaded {
    /// Which of the kernels is `name`.
    fn find(&self, name: &str) -> Result<usize, Diagnostics> {
        if let Some(index) = self.kernels.iter().position(|one| one.name == name) {
            return Ok(index);
        }
        let names = self.kernels.iter().map(|kernel| kernel.name.as_str());
        let mut error = Diagnostic::error("E0907", format!("no kernel `@{name}`"));
        error.help = ir_core::diagnostics::did_you_mean_with("@", name, names);
        Err(error.into())
    }
}
