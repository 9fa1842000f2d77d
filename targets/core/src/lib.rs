//! Targets: what turns verified loops into text for a machine, and runs it.
//!
//! A target is one crate with one [`Target`] and one registration in a [`Targets`], which a
//! registry keeps; text such as `c{width=16,isa=avx512}` names and configures it:
//!
//! ```text
//! registry.add_target(target_c::registration());
//! let target = targets(&registry).parse("c{isa=avx2}")?;
//! let loaded = target.load(verified)?;
//! loaded.call("relu", &mut buffers)?;
//! ```

pub mod affine;
mod buffer;
mod calibration;
pub mod calls;
mod capabilities;
pub mod checks;
pub mod codes;
pub mod cpu;
pub mod gpu;
mod interpreted;
pub mod package;
pub mod polynomials;
pub mod program;
pub mod ranges;
mod stages;
pub mod whole;

use std::ops::Range;

use ir_core::pass::{OptionField, Options};
use ir_core::pipeline::{Choice, choose};
use ir_core::{CostsByName, Diagnostic, Diagnostics, Module, Registry, Type, Verified};
use prog::operators::Operators;

pub use buffer::{ALIGNMENT, Buffer};
pub use calibration::Calibration;
pub use capabilities::{Capabilities, Gpu, host};
pub use interpreted::Interpreted;
pub use ir_core::CostTable;
use package::{File, Model};

/// Something that code is generated for.
pub trait Target: Send + Sync {
    /// Name in text.
    fn name(&self) -> &'static str;

    /// What the machine can do.
    fn capabilities(&self) -> &Capabilities;

    /// What kernels cost. The default follows from the capabilities alone, and is the same whatever
    /// was measured; measured costs are for targets whose options ask for them. Errors where these
    /// are missing.
    fn costs(&self) -> Result<CostTable, Diagnostics> {
        Ok(self.capabilities().costs())
    }

    /// Where costs that are measured on this machine are kept. Errors where the target keeps none,
    /// or nothing can be measured here.
    fn calibration(&self) -> Result<Calibration, Diagnostics> {
        let message = format!("the target `{}` keeps no measured costs", self.name());
        Err(Diagnostic::error("E0912", message).help("its costs follow from its options").into())
    }

    /// The kernels of `module` as text. Errors are what the target cannot express.
    fn codegen(&self, module: Verified<'_, Module>) -> Result<Vec<Artifact>, Diagnostics>;

    /// Whether the tools of the target accept `artifacts`. The error holds what they say.
    fn validate(&self, artifacts: &[Artifact]) -> Result<(), Diagnostics>;

    /// The kernels of `module`, ready to be called. Errors are those of
    /// [`codegen`](Target::codegen), or say what is missing to run its result here.
    fn load(&self, module: Verified<'_, Module>) -> Result<Box<dyn Executable>, Diagnostics>;

    /// The files of `model`, whose kernels are `module`, for use without us. Errors are those of
    /// [`codegen`](Target::codegen).
    fn package(
        &self,
        module: Verified<'_, Module>,
        model: &Model,
    ) -> Result<Vec<File>, Diagnostics>;
}

/// A file of generated code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Artifact {
    /// Name of the file, without a folder.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// A kernel as its caller sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Name of the item.
    pub name: String,
    /// Name in the generated code.
    pub symbol: String,
    /// Names of the buffers in the generated code, inputs first.
    pub names: Vec<String>,
    /// Types of the buffers.
    pub params: Vec<Type>,
    /// How many of the last buffers are results.
    pub outputs: usize,
    /// Bytes of scratch memory that a call needs, aligned to [`ALIGNMENT`].
    pub workspace: usize,
}

/// Kernels that can be called.
pub trait Executable: Send + Sync {
    /// The kernels, in the order of the module.
    fn kernels(&self) -> &[Kernel];

    /// What users should know of how the kernels were made.
    fn remarks(&self) -> &[Diagnostic] {
        &[]
    }

    /// Promises that these parameters of `kernel`, which are no results, hold the same in every call
    /// from now on, so that a device may keep them.
    fn keep(&mut self, _kernel: &str, _parameters: Range<usize>) {}

    /// Runs `kernel` on its buffers, inputs first, results last. Errors say which buffer does not
    /// fit.
    fn call(&self, kernel: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics>;

    /// Runs `kernel`, a list of calls, and gives the seconds that a device took for each of them by its own
    /// clock, in their order. `None`, and nothing runs, where there is no such clock.
    fn call_timed(
        &self,
        _kernel: &str,
        _buffers: &mut [Buffer],
    ) -> Result<Option<Vec<f64>>, Diagnostics> {
        Ok(None)
    }

    /// Like [`call`](Executable::call), for a program that takes all its memory from `block`, whose size its last buffer
    /// tells. `operators` computes the operators that it leaves to others.
    fn call_in(
        &self,
        kernel: &str,
        buffers: &mut [Buffer],
        block: &mut Buffer,
        operators: &mut dyn Operators,
    ) -> Result<(), Diagnostics>;
}

/// Makes a target from `key=value` options. The error is a message.
pub type MakeTarget = fn(&[(String, String)]) -> Result<Box<dyn Target>, String>;

/// A target that can be named.
#[derive(Clone, Copy)]
pub struct Registration {
    /// Name in text.
    pub name: &'static str,
    /// What it is, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// Its options.
    pub options: &'static [OptionField],
    /// Makes it from `key=value` options.
    pub make: MakeTarget,
}

impl Registration {
    /// The target `name` with the options `O`.
    pub const fn new<O: Options>(
        name: &'static str,
        doc: &'static str,
        make: MakeTarget,
    ) -> Registration {
        Registration { name, doc, options: O::FIELDS, make }
    }
}

/// What a registry takes besides what `ir-core` knows of: `registry.add_target(registration())`.
pub trait AddTarget {
    /// Adds a target, and its costs to what passes can name. Panics when the name is taken.
    fn add_target(&mut self, target: Registration);
}

impl AddTarget for Registry {
    fn add_target(&mut self, target: Registration) {
        self.extension_mut::<Targets>().add(target);
        *self.extension_mut() =
            CostsByName(Some(|registry, text| targets(registry).parse(text)?.costs()));
    }
}

/// The targets of `registry`.
pub fn targets(registry: &Registry) -> &Targets {
    static NONE: Targets = Targets::new();
    registry.extension().unwrap_or(&NONE)
}

/// The targets that exist, in order of registration.
#[derive(Clone, Default)]
pub struct Targets(Vec<Registration>);

impl Targets {
    /// No targets.
    pub const fn new() -> Targets {
        Targets(Vec::new())
    }

    /// Adds a target. Panics when the name is taken.
    pub fn add(&mut self, target: Registration) {
        let taken = self.0.iter().any(|other| other.name == target.name);
        assert!(!taken, "target `{}` is registered twice", target.name);
        self.0.push(target);
    }

    /// The targets.
    pub fn all(&self) -> &[Registration] {
        &self.0
    }

    /// The target that `text` names, `name{key=value,flag}`. The error lies in a file called
    /// `<target>` that holds `text`, and suggests what may be meant.
    pub fn parse(&self, text: &str) -> Result<Box<dyn Target>, Diagnostics> {
        let choices: Vec<Choice<Box<dyn Target>>> = self
            .0
            .iter()
            .map(|target| Choice { name: target.name, options: target.options, make: target.make })
            .collect();
        choose(text, "target", "E0901", &choices)
    }
}

impl<const N: usize> From<[Registration; N]> for Targets {
    /// These targets. Panics when two have the same name.
    fn from(registrations: [Registration; N]) -> Targets {
        let mut targets = Targets::new();
        for registration in registrations {
            targets.add(registration);
        }
        targets
    }
}
