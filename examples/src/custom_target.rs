//! A target.

// ANCHOR: target
use ir_core::text::Form;
use ir_core::{Diagnostic, Diagnostics, Module, Options, Registry, Verified};
use target_core::package::{Contents, File, Model};
use target_core::{
    Artifact, Capabilities, CostTable, Executable, Interpreted, Registration, Target, host,
};

/// Options of the target `listing`.
#[derive(Options, Clone, Debug)]
#[options(of = "target `listing`")]
pub struct ListingOptions {
    /// Lanes of a vector of `float32` that schedules count on; 1 is no vectors.
    #[default(4)]
    pub lanes: usize,
}

/// Writes kernels as text for readers, and runs them with the interpreter of loops.
pub struct Listing {
    machine: Capabilities,
}

/// The target, for `add_target`.
pub const fn registration() -> Registration {
    const DOC: &str = "The loops of kernels, for readers; run by an interpreter.";
    Registration::new::<ListingOptions>("listing", DOC, |options| {
        let ListingOptions { lanes } = ListingOptions::read(options)?;
        if !(lanes.is_power_of_two() && lanes <= 64) {
            return Err(format!("option `lanes` expects a power of two up to 64, found `{lanes}`"));
        }
        // Default schedules look at the machine: one thread, and as many registers as it likes.
        let vector_bits = if lanes == 1 { 0 } else { 32 * lanes };
        let machine = Capabilities {
            isa: "listing",
            vector_bits,
            vector_registers: 32,
            threads: 1,
            ..host()
        };
        Ok(Box::new(Listing { machine }))
    })
}

impl Target for Listing {
    fn name(&self) -> &'static str {
        "listing"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.machine
    }

    fn costs(&self) -> Result<CostTable, Diagnostics> {
        // An interpreter: microseconds for a call, 0.1 GB/s, ten million operations in a second.
        Ok(CostTable::new(1.0, 0.1, 0.01))
    }

    fn codegen(&self, module: Verified<'_, Module>) -> Result<Vec<Artifact>, Diagnostics> {
        let registry = Registry::from([te::dialect()]);
        let mut text = Vec::new();
        let printed = Form::Readable.print(module.get(), &registry, None, &mut text);
        printed.map_err(|error| Diagnostic::error("E0902", error.to_string()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(vec![Artifact { name: "kernels.txt".to_string(), text }])
    }

    fn validate(&self, artifacts: &[Artifact]) -> Result<(), Diagnostics> {
        // A target with tools, such as a compiler or a validator, asks them here.
        let registry = Registry::from([te::dialect()]);
        for artifact in artifacts {
            Form::Readable.parse(&artifact.name, &artifact.text, &registry).1.or(())?;
        }
        Ok(())
    }

    fn load(&self, module: Verified<'_, Module>) -> Result<Box<dyn Executable>, Diagnostics> {
        Ok(Box::new(Interpreted::new(module)))
    }

    fn package(
        &self,
        module: Verified<'_, Module>,
        model: &Model,
    ) -> Result<Vec<File>, Diagnostics> {
        let name = format!("{}.txt", model.name);
        let file =
            |made: Artifact| File { name: name.clone(), contents: Contents::Text(made.text) };
        Ok(self.codegen(module)?.into_iter().map(file).collect())
    }
}
// ANCHOR_END: target

#[cfg(test)]
mod tests {
    use target_core::targets;

    #[test]
    fn options_are_checked() {
        let registry = crate::registry();
        assert!(targets(&registry).parse("listing{lanes=8}").is_ok());
        for text in ["listing{lanes=3}", "listing{lanes=many}", "listing{lane=4}"] {
            assert!(targets(&registry).parse(text).is_err(), "{text}");
        }
    }
}
