//! Whether a compiler translates what we write: small kernels of the kinds that compilers got
//! wrong, compiled as all others and compared with their loops, interpreted.
//!
//! What is compiled lies in the cache as all else does, so that a compiler works for this once, for
//! each set of flags. What a process has found, it remembers.

use std::sync::{Mutex, PoisonError};

use ir_core::text::cursor::Cursor;
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, verify};
use rustc_hash::FxHashMap;
use target_core::{Buffer, Executable, Interpreted, Kernel};

use super::{Cache, Compiler};
use crate::CTarget;

const KERNELS: &str = include_str!("self_test.te");

/// Flags with which a compiler that fails may pass, the cheapest first.
const REMEDIES: [&str; 3] = ["-fno-tree-loop-if-convert", "-fno-tree-vectorize", "-O1"];

/// A compiler and its flags.
type Way = (Compiler, Vec<String>);

/// What was found of them in this process: the flag without which kernels are wrong, if any.
static FOUND: Mutex<Option<FxHashMap<Way, Option<&'static str>>>> = Mutex::new(None);

/// The flag without which `compiler` gets kernels wrong that it compiles for `target`; `None` where
/// it gets them right. The error is that it gets them wrong with any flag, or refuses them.
pub(crate) fn remedy(
    target: &CTarget,
    compiler: &Compiler,
    cache: &Cache,
) -> Result<Option<&'static str>, Diagnostics> {
    let way = (compiler.clone(), target.flags());
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = found().as_ref().and_then(|found| found.get(&way)) {
        return Ok(*known);
    }
    let remedy = look_for_remedy(target, compiler, cache, &way.1)?;
    found().get_or_insert_default().insert(way, remedy);
    Ok(remedy)
}

fn look_for_remedy(
    target: &CTarget,
    compiler: &Compiler,
    cache: &Cache,
    flags: &[String],
) -> Result<Option<&'static str>, Diagnostics> {
    let mut registry = Registry::new();
    registry.add_dialect(te::dialect());
    let kernels = kernels(&registry);
    let Some(wrong) = first_wrong(target, &kernels, &registry, compiler, flags, cache)? else {
        return Ok(None);
    };
    for remedy in REMEDIES {
        let flags = [flags, &[remedy.to_string()]].concat();
        // Not every compiler knows every flag.
        if let Ok(None) = first_wrong(target, &kernels, &registry, compiler, &flags, cache) {
            return Ok(Some(remedy));
        }
    }
    let command = compiler.command();
    Err(Diagnostic::error("E0913", format!("`{command}` translates C wrongly"))
        .note(format!("a kernel of kind `{wrong}` gives other numbers than its loops"))
        .note(format!("the flags are {}", flags.join(" ")))
        .help("install another compiler, or name one in `CC`; the interpreter needs none")
        .into())
}

/// What to say of a compiler that needs `remedy`.
pub(crate) fn warning(compiler: &Compiler, remedy: &str) -> Diagnostic {
    let command = compiler.command();
    Diagnostic::warning("E0913", format!("`{command}` translates C wrongly without `{remedy}`"))
        .help("kernels are compiled with it, and may be slower: install another compiler")
}

/// The kernels of the test.
fn kernels(registry: &Registry) -> Module {
    let mut module = Module::new();
    for text in KERNELS.split("\n\n") {
        let kind = registry.item("te.kernel").and_then(|kind| kind.syntax);
        let mut cursor = Cursor::new("<self-test>", text);
        if let Some(Ok(parsed)) = kind.map(|syntax| (syntax.parse)(&mut cursor, registry)) {
            module.items.insert(parsed.name, parsed.item);
        }
    }
    module
}

/// The first kernel that gives other numbers than its loops do.
fn first_wrong(
    target: &CTarget,
    module: &Module,
    registry: &Registry,
    compiler: &Compiler,
    flags: &[String],
    cache: &Cache,
) -> Result<Option<String>, Diagnostics> {
    let verified = verify(module, registry)?;
    let loops = Interpreted::new(verified);
    let compiled = target.load_by(verified, compiler, flags, cache)?;
    for kernel in compiled.kernels() {
        if results(&compiled, kernel)? != results(&loops, kernel)? {
            return Ok(Some(kernel.name.clone()));
        }
    }
    Ok(None)
}

/// What `kernel` gives for small numbers of either sign, as bytes.
fn results(kernels: &dyn Executable, kernel: &Kernel) -> Result<Vec<u8>, Diagnostics> {
    let no_buffer = || Diagnostic::error("E0907", format!("`@{}` takes no buffers", kernel.name));
    let mut buffers = Vec::with_capacity(kernel.params.len());
    let inputs = kernel.params.len().saturating_sub(kernel.outputs);
    for (index, ty) in kernel.params.iter().enumerate() {
        let tensor = ty.as_tensor().ok_or_else(no_buffer)?;
        let shape = tensor.known_shape().ok_or_else(no_buffer)?;
        let count = shape.iter().product::<i64>();
        // Neither rows nor vectors repeat.
        let number = |place: i64| match index < inputs {
            true => (place * 7 + index as i64 * 5) % 23 - 11,
            false => 0,
        };
        let numbers: Vec<i64> = (0..count).map(number).collect();
        let data = TensorData::from_i64(tensor.dtype, &shape, &numbers);
        buffers.push(Buffer::of_tensor(&data.map_err(|_| no_buffer())?));
    }
    kernels.call(&kernel.name, &mut buffers)?;
    Ok(buffers[inputs..].iter().flat_map(|buffer| buffer.as_ref().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_are_read() {
        let mut registry = Registry::new();
        registry.add_dialect(te::dialect());
        let module = kernels(&registry);
        assert_eq!(module.items.len(), KERNELS.matches("te.kernel @").count());
        assert!(verify(&module, &registry).is_ok());
    }
}
