//! Reading and checking programs, with what relay-opt says about them.

pub(crate) use ir_core::text::{Form, Style};
use ir_core::{Diagnostics, Module, Registry};

use crate::driver::input;

/// The module that `text` describes in `form`, and what is wrong with it; where `file` is one that
/// holds no program, what it is good for.
pub(crate) fn parse(
    form: Form,
    file: &str,
    text: &str,
    registry: &Registry,
) -> (Module, Diagnostics) {
    let (module, mut found) = form.parse(file, text, registry);
    let error = found.iter_mut().find(|found| found.is_error());
    if let (Some(error), Some(purpose)) = (error, input::purpose(file)) {
        error.help = Some(purpose.to_string());
    }
    (module, found)
}

/// Infers the types of `module` and returns what is wrong with them.
pub(crate) fn infer(module: &mut Module, registry: &Registry) -> Diagnostics {
    relay::inference::infer_module(module, registry)
}

/// What is wrong with `module`.
pub(crate) fn verify(module: &Module, registry: &Registry) -> Diagnostics {
    ir_core::verify::verify(module, registry).err().unwrap_or_default()
}
