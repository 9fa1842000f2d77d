//! Whether a program fits into memory, asked before memory is taken.

use std::fs;

use ir_core::tensor::tensor_bytes;
use ir_core::{Diagnostic, Type};

/// Bytes that the system can give without swapping; `None` where it does not say.
pub fn available() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

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
pub fn check(bytes: Option<usize>, what: &str) -> Result<(), Diagnostic> {
    let available = available().unwrap_or(isize::MAX as usize);
    if bytes.is_some_and(|bytes| bytes <= available) {
        return Ok(());
    }
    let needed = bytes.map_or_else(|| "more than 8 EiB".to_string(), human);
    let message = format!("{what} need {needed} of memory, and {} are available", human(available));
    Err(Diagnostic::error("E0735", message).help("make the extents smaller, such as the batch"))
}

/// A number of bytes for people.
pub fn human(bytes: usize) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
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
        assert!(error.message.starts_with("inputs need more than 8 EiB of memory"), "{error:?}");
        assert_eq!((human(1023), human(1536)), ("1023 bytes".into(), "1.5 KiB".into()));
    }
}
