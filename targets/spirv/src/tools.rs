//! The assembler and the validator of SPIR-V, where they are installed.

use std::process::{Command, Stdio};

use ir_core::{Diagnostic, Diagnostics};

/// What the validator checks modules against.
const ENVIRONMENT: &str = "vulkan1.1";

/// The words of `text`, as the assembler `spirv-as` writes them, with the numbers that the text has.
///
/// # Errors
/// `E0903` where it is not installed, `E0904` where it refuses the text.
pub fn assemble(text: &str) -> Result<Vec<u32>, Diagnostics> {
    let arguments = ["--preserve-numeric-ids", "--target-env", "spv1.3", "-", "-o", "-"];
    let bytes = run("spirv-as", &arguments, text.as_bytes())?;
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Whether the validator `spirv-val` accepts `words`.
///
/// # Errors
/// `E0903` where it is not installed, `E0904` where it refuses the module.
pub fn validate(words: &[u32]) -> Result<(), Diagnostics> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    run("spirv-val", &["--target-env", ENVIRONMENT, "-"], &bytes).map(drop)
}

fn run(tool: &str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Diagnostics> {
    let missing = |error: std::io::Error| {
        let message = format!("`{tool}` does not run: {error}");
        Diagnostic::error("E0903", message).help("install `spirv-tools`")
    };
    // A file, so that neither side waits for the other.
    let mut file = tempfile::tempfile().map_err(missing)?;
    std::io::Write::write_all(&mut file, input).map_err(missing)?;
    std::io::Seek::rewind(&mut file).map_err(missing)?;
    let output = Command::new(tool).args(arguments).stdin(Stdio::from(file)).output();
    let output = output.map_err(missing)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = format!("`{tool}` refuses generated code: {}", said.trim());
    Err(Diagnostic::error("E0904", message).into())
}
