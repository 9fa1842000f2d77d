//! The text that is edited in benchmarks of edits.

use std::fmt::Write as _;

/// Functions of the module.
pub(crate) const FUNCTIONS: usize = 1_000;

/// Operations of each function.
pub(crate) const OPERATIONS: usize = 100;

/// Every function calls the one before it; every tenth leaves its result type to inference.
pub(crate) fn source() -> String {
    let mut text = String::new();
    for function in 0..FUNCTIONS {
        let result = match function % 10 {
            9 => "",
            _ => " -> Tensor[(16, 64), float32]",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "def @f{function}(%x: Tensor[(16, 64), float32]){result} {{");
        let mut last = "%x".to_string();
        for index in 0..OPERATIONS {
            let value = match (index, function.checked_sub(1)) {
                (0, Some(callee)) => format!("@f{callee}({last})"),
                (n, _) if n % 4 == 1 => format!("add({last}, %x)"),
                (n, _) if n % 4 == 3 => format!("clip({last}, a_min=0f, a_max=6f)"),
                _ => format!("exp({last})"),
            };
            let _ = writeln!(text, "  %{index} = {value};");
            last = format!("%{index}");
        }
        let _ = writeln!(text, "  {last}\n}}\n");
    }
    text
}
