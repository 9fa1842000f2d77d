//! Kernels without a compiler: their loops, interpreted, and whole programs that call them.

mod whole;

use ir_core::{Diagnostic, Diagnostics, Item, Module, Symbol, Verified};
use prog::operators::Operators;
use te::interpreter::run_kernel;
use te::loops::{KERNEL, outputs, parameters};

use crate::{Buffer, Executable, Kernel};

/// The kernels of a module, run by the interpreter of loops, and the program that it is, by that of
/// whole programs.
pub struct Interpreted {
    module: Module,
    kernels: Vec<Kernel>,
}

impl Interpreted {
    /// The kernels of `module`.
    pub fn new(module: Verified<'_, Module>) -> Interpreted {
        let module = module.get().clone();
        let items = module.items.iter().filter(|(_, item)| item.signature.op == KERNEL);
        let kernels = items.map(|(name, item)| {
            let params = parameters(&item.signature).to_vec();
            Kernel {
                name: name.to_string(),
                symbol: name.to_string(),
                names: (0..params.len()).map(|index| format!("p{index}")).collect(),
                params,
                outputs: outputs(&item.signature),
                workspace: 0,
            }
        });
        let kernels = kernels.chain(whole::kernel(&module)).collect();
        Interpreted { kernels, module }
    }
}

impl Executable for Interpreted {
    fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    fn call(&self, name: &str, buffers: &mut [Buffer]) -> Result<(), Diagnostics> {
        let misfit = |message: String| Diagnostic::error("E0907", message);
        let kernel = self.kernels.iter().find(|kernel| kernel.name == name);
        let body = self.module.body(Symbol::new(name));
        let (Some(kernel), Some(body)) = (kernel, body) else {
            return Err(misfit(format!("no kernel `@{name}`")).into());
        };
        if buffers.len() != kernel.params.len() {
            let (expected, found) = (kernel.params.len(), buffers.len());
            return Err(misfit(format!("`@{name}` takes {expected} buffers, found {found}")).into());
        }
        let inputs = buffers.len() - kernel.outputs;
        let mut values = Vec::with_capacity(inputs);
        for (buffer, ty) in buffers.iter().zip(&kernel.params).take(inputs) {
            let tensor = ty
                .as_tensor()
                .and_then(|tensor| buffer.to_tensor(tensor.dtype, &tensor.known_shape()?).ok());
            values.push(tensor.ok_or_else(|| misfit(format!("a buffer of `@{name}` is no {ty}")))?);
        }
        let outputs = run_kernel(&self.module, body, &values, kernel.outputs);
        let outputs = outputs.map_err(|error| error.diagnostic(None))?;
        for (buffer, output) in buffers.iter_mut().skip(inputs).zip(&outputs) {
            if buffer.len() != output.bytes().len() {
                return Err(misfit(format!("a buffer of `@{name}` is no {}", output.ty())).into());
            }
            buffer.as_mut().copy_from_slice(output.bytes());
        }
        Ok(())
    }

    fn call_in(
        &self,
        kernel: &str,
        buffers: &mut [Buffer],
        block: &mut Buffer,
        operators: &mut dyn Operators,
    ) -> Result<(), Diagnostics> {
        let known = self.kernels.iter().find(|known| known.name == kernel);
        let is_program = |item: &Item| item.signature.op == prog::FUNC;
        match known.filter(|_| self.module.get(kernel).is_some_and(is_program)) {
            Some(known) => whole::call(&self.module, known, buffers, block, operators),
            None => {
                let message = format!("`@{kernel}` is no whole program");
                Err(Diagnostic::error("E0907", message).into())
            }
        }
    }
}
