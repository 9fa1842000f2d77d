//! `--print-ir-tree-dir`: the program after each pass, in files of a folder.

use std::fs;
use std::io;
use std::path::PathBuf;

use ir_core::files;
use ir_core::pipeline::{Instrument, PrintModule, StepCx, StepResult};
use ir_core::{Diagnostic, Diagnostics, Module, Registry};

use crate::process::io::plain;

/// Writes the program before the first pass, and after each.
pub(crate) struct Tree<'a> {
    print: PrintModule<'a>,
    folder: PathBuf,
    /// Programs that were written.
    written: usize,
    /// Why one could not be written; then no other is.
    pub(crate) failed: Option<Diagnostic>,
}

impl<'a> Tree<'a> {
    /// Writes to `folder`, which is made where it is missing.
    pub(crate) fn new(print: PrintModule<'a>, folder: PathBuf) -> Tree<'a> {
        Tree { print, folder, written: 0, failed: None }
    }

    /// Writes the program as it is after `name`.
    fn write(&mut self, name: &str, module: &Module, registry: &Registry) {
        if self.failed.is_some() {
            return;
        }
        let path = self.folder.join(format!("{:03}-{name}.relay", self.written));
        self.written += 1;
        let mut text = Vec::new();
        let written = (self.print)(module, registry, &mut text)
            .and_then(|()| fs::create_dir_all(&self.folder))
            .and_then(|()| files::write(&path, text));
        let failed = |error| {
            let message = format!("cannot write `{}`: {}", path.display(), plain(&error));
            Diagnostic::error("E0724", message)
        };
        self.failed = written.map_err(failed).err();
    }
}

impl Instrument for Tree<'_> {
    fn before(&mut self, cx: StepCx<'_>, module: &Module, _: &mut dyn io::Write) -> io::Result<()> {
        if self.written == 0 {
            self.write("input", module, cx.registry);
        }
        Ok(())
    }

    fn after(
        &mut self,
        cx: StepCx<'_>,
        module: &Module,
        _: &StepResult<'_>,
        _: &mut dyn io::Write,
    ) -> io::Result<Diagnostics> {
        self.write(cx.step.def.name, module, cx.registry);
        Ok(Diagnostics::new())
    }
}
