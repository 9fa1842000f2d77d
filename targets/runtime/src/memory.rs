//! Whether a program fits into memory, asked before memory is taken.

use ir_core::memory::{available, human};
use ir_core::tensor::tensor_bytes;
use ir_core::{Diagnostic, Diagnostics, Module, Type};

/// The code of programs that need more memory than there is.
pub const TOO_LITTLE: &str = "E0735";

/// Bytes of the tensors of a type; `None` where their sum is no number of bytes. Unknown extents
/// and what is no tensor count nothing.
pub fn bytes_of(ty: Type) -> Option<usize> {
    let mut pending = vec![ty];
    let mut bytes = 0usize;
    while let Some(ty) = pending.pop() {
        if let Some(fields) = ty.as_tuple() {
            pending.extend(fields);
        } else if let Some(tensor) = ty.as_tensor()
            && let Some(shape) = tensor.known_shape()
        {
            bytes = bytes.checked_add(tensor_bytes(&shape, tensor.dtype)?)?;
        }
    }
    Some(bytes)
}

/// An error where `bytes`, which `what` needs, are more than there are; `None` is more than can be
/// counted.
pub fn check(bytes: Option<usize>, what: &str) -> Result<(), Diagnostics> {
    let available = available().unwrap_or(isize::MAX as usize);
    if bytes.is_some_and(|bytes| bytes <= available) {
        return Ok(());
    }
    let needed = bytes.map_or_else(|| "more than 8 EiB".to_string(), human);
    let message = format!("{what} need {needed} of memory, and {} are available", human(available));
    Err(Diagnostic::error(TOO_LITTLE, message)
        .help("make the extents smaller, such as the batch")
        .into())
}

/// An error where the parameters and the result of the function `name` do not fit into memory.
pub fn check_function(name: &str, module: &Module) -> Result<(), Diagnostics> {
    let function = module.get(name).and_then(|item| item.signature.ty.as_function());
    let Some(function) = function else { return Ok(()) };
    let types = function.params.iter().copied().chain([function.result]);
    check(bytes_of(Type::tuple(types)), "the parameters and results")
}

#[cfg(test)]
mod tests {
    use ir_core::DType;

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_its_size() {
        assert_eq!(check(Some(0), "nothing"), Ok(()));
        let tensor = |extent| Type::tensor([extent, extent], DType::FLOAT32);
        let huge = Type::tuple([tensor(1 << 20), tensor(8)]);
        assert_eq!(bytes_of(huge), Some((1 << 42) + 256));
        assert_eq!(bytes_of(tensor(1 << 40)), None);
        let error = check(None, "inputs").unwrap_err();
        assert!(error[0].message.starts_with("inputs need more than 8 EiB of memory"), "{error:?}");
    }
}
