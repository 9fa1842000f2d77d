//! Printing the program around passes.

use std::io;

use crate::diagnostics::Diagnostics;
use crate::module::Module;
use crate::registry::Registry;

use super::{DiffForm, Instrument, StepCx, StepResult, write_diff};

/// Prints a module; the driver knows no syntax.
pub type PrintModule<'a> = &'a dyn Fn(&Module, &Registry, &mut dyn io::Write) -> io::Result<()>;

/// Around which passes to print.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Selection {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those with these names.
    Named(Vec<String>),
}

impl Selection {
    fn holds(&self, cx: StepCx<'_>) -> bool {
        match self {
            Selection::None => false,
            Selection::All => true,
            Selection::Named(names) => names.iter().any(|name| name == cx.step.def.name),
        }
    }
}

/// Prints the program before and after passes, or what they changed, as comments and text that
/// reads back.
pub struct PrintIr<'a> {
    /// How a module prints.
    pub print: PrintModule<'a>,
    /// Before which passes.
    pub before: Selection,
    /// After which passes.
    pub after: Selection,
    /// After each pass that changed something.
    pub after_change: bool,
    /// As a difference after each pass that changed something.
    pub diff: Option<DiffForm>,
    /// Whether differences have colours.
    pub coloured: bool,
    previous: String,
}

impl<'a> PrintIr<'a> {
    /// Prints nothing yet; set the fields to choose.
    pub fn new(print: PrintModule<'a>) -> PrintIr<'a> {
        let (before, after) = (Selection::None, Selection::None);
        let previous = String::new();
        PrintIr { print, before, after, after_change: false, diff: None, coloured: false, previous }
    }

    fn text(&self, module: &Module, registry: &Registry) -> io::Result<String> {
        let mut bytes = Vec::new();
        (self.print)(module, registry, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Instrument for PrintIr<'_> {
    fn before(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        log: &mut dyn io::Write,
    ) -> io::Result<()> {
        if self.before.holds(cx) {
            writeln!(log, "// ----- before {} -----", cx.step)?;
            (self.print)(module, cx.registry, log)?;
        }
        if self.diff.is_some() {
            self.previous = self.text(module, cx.registry)?;
        }
        Ok(())
    }

    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        result: &StepResult<'_>,
        log: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        let step = cx.step;
        if self.after.holds(cx) || (self.after_change && result.changed) {
            writeln!(log, "// ----- after {step} -----")?;
            (self.print)(module, cx.registry, log)?;
        } else if self.after_change {
            writeln!(log, "// ----- after {step}: no change -----")?;
        }
        if let Some(form) = self.diff {
            let now = self.text(module, cx.registry)?;
            let previous = std::mem::take(&mut self.previous);
            let (old, new) = (format!("before {step}"), format!("after {step}"));
            if !write_diff((&previous, &now), (&old, &new), form, self.coloured, log)? {
                writeln!(log, "// ----- after {step}: no difference -----")?;
            }
        }
        Ok(Diagnostics::new())
    }
}
