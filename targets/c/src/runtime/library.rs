//! Loading shared objects and calling their functions: the one place where memory safety rests on
//! what generated code does.
//!
//! **What generated code promises** (and property tests with sanitizers check): an entry reads and
//! writes only within the buffers of its parameter types and within its workspace, keeps no
//! address, and calls nothing but the parallel loop and the operators that it is given. **What callers get**:
//! [`Library::call`] is safe, because it checks that each buffer is as large as its type and
//! aligned, and because `&mut [Buffer]` holds memory that nothing else refers to, without overlap.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::Path;

use ir_core::diagnostics::{Diagnostic, Diagnostics};
use target_core::{ALIGNMENT, Buffer, Kernel};

use super::{operators, threads};

type Entry = unsafe extern "C" fn(*const *mut c_void, *mut u8);

/// The functions of a shared object that this crate generated.
pub(crate) struct Library {
    entries: Vec<(Kernel, Vec<usize>, Entry)>,
    /// Kept last: the entries lie in it.
    _object: libloading::Library,
}

impl Library {
    /// Loads `path` and finds the entries of `kernels`, and sets the parallel loop, where `hook`
    /// names one, and what computes operators, where `operate` does.
    pub(crate) fn load(
        path: &Path,
        kernels: &[Kernel],
        hook: &str,
        operate: &str,
    ) -> Result<Library, Diagnostics> {
        let failed = |what: String| {
            Diagnostic::error("E0906", format!("`{}` cannot be loaded: {what}", path.display()))
        };
        // SAFETY: the file holds code that this crate generated and a C compiler translated, which
        // its name, a hash of its contents, confirms. It has no initializers.
        let object = unsafe { libloading::Library::new(path) };
        let object = object.map_err(|error| failed(error.to_string()))?;
        let mut entries = Vec::new();
        for kernel in kernels {
            let name = crate::codegen::entry_name(&kernel.symbol);
            // SAFETY: every entry is generated with the type `Entry`, and lives as long as the
            // object, which `Library` keeps.
            let entry = unsafe { object.get::<Entry>(name.as_bytes()) };
            let entry = entry.map_err(|error| failed(error.to_string()))?;
            let sizes: Option<Vec<usize>> = kernel.params.iter().map(|ty| size(*ty)).collect();
            let sizes = sizes.ok_or_else(|| failed(format!("`{name}` takes no buffers")))?;
            entries.push((kernel.clone(), sizes, *entry));
        }
        // SAFETY: where the variables exist, they are generated with the types of `threads::Hook` and
        // `operators::Operate`, and no code of the object has run yet, so that nothing else uses them.
        unsafe {
            if let Ok(variable) = object.get::<*mut Option<threads::Hook>>(hook.as_bytes()) {
                **variable = Some(threads::parallel);
            }
            if let Ok(variable) = object.get::<*mut Option<operators::Operate>>(operate.as_bytes())
            {
                **variable = Some(operators::operate);
            }
        }
        Ok(Library { entries, _object: object })
    }

    /// Runs kernel `index` on `buffers` and `workspace`. The error says what does not fit.
    pub(crate) fn call(
        &self,
        index: usize,
        buffers: &mut [Buffer],
        workspace: &mut Buffer,
    ) -> Result<(), Diagnostics> {
        let misfit = |message: String| Err(Diagnostic::error("E0907", message));
        let Some((kernel, sizes, entry)) = self.entries.get(index) else {
            return misfit(format!("there is no kernel {index}")).map_err(Diagnostics::from);
        };
        if buffers.len() != sizes.len() {
            return misfit(format!(
                "`@{}` takes {} buffers, found {}",
                kernel.name,
                sizes.len(),
                buffers.len()
            ))
            .map_err(Diagnostics::from);
        }
        for (number, (buffer, size)) in buffers.iter().zip(sizes).enumerate() {
            if buffer.len() != *size {
                return misfit(format!(
                    "buffer {number} of `@{}` needs {size} bytes for {}, found {}",
                    kernel.name,
                    kernel.params[number],
                    buffer.len()
                ))
                .map_err(Diagnostics::from);
            }
        }
        if workspace.len() < kernel.workspace {
            return misfit(format!(
                "`@{}` needs a workspace of {} bytes, found {}",
                kernel.name,
                kernel.workspace,
                workspace.len()
            ))
            .map_err(Diagnostics::from);
        }
        let addresses: Vec<*mut c_void> =
            buffers.iter_mut().map(|buffer| buffer.as_mut().as_mut_ptr().cast()).collect();
        let scratch = workspace.as_mut().as_mut_ptr();
        let aligned = addresses.iter().all(|address| address.addr() % ALIGNMENT == 0);
        if !aligned || scratch.addr() % ALIGNMENT != 0 {
            return misfit(format!("buffers of `@{}` are not aligned", kernel.name))
                .map_err(Diagnostics::from);
        }
        // SAFETY: `entry` has this type (see `load`), its object is loaded, there is one address
        // for each parameter, each of memory of the parameter's size, aligned, exclusively borrowed
        // and distinct, and so is the workspace. All of them outlive the call.
        unsafe { entry(addresses.as_ptr(), scratch) };
        Ok(())
    }
}

fn size(ty: ir_core::Type) -> Option<usize> {
    let tensor = ty.as_tensor()?;
    ir_core::tensor::tensor_bytes(&tensor.known_shape()?, tensor.dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let error = Library::load(Path::new(file!()), &[], "hook", "operate").err();
        assert_eq!(error.map(|error| error[0].code), Some("E0906"));
    }
}
