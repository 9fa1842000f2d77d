//! Constants that are scalars.

use ir_core::TensorData;

/// The bits of a scalar, as a number.
pub(super) fn text(value: &TensorData) -> String {
    let mut bits = 0u64;
    for (index, byte) in value.bytes().iter().take(8).enumerate() {
        bits |= u64::from(*byte) << (8 * index);
    }
    format!("{bits:#x}u")
}

/// Gives the variable `name`, of the C type `ty`, these bits.
pub(super) fn assign(name: &str, ty: &str, bits: &str) -> String {
    match ty {
        "float" => format!("{{ const uint32_t bits = {bits}; memcpy(&{name}, &bits, 4); }}"),
        "double" => format!("{{ const uint64_t bits = {bits}ll; memcpy(&{name}, &bits, 8); }}"),
        // The conversion of what does not fit keeps the bits.
        "int64_t" | "uint64_t" => format!("{name} = ({ty}){bits}ll;"),
        _ => format!("{name} = ({ty}){bits};"),
    }
}
