//! `ptxas`, the assembler of NVIDIA, as a validator: it knows syntax, types and limits.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use ir_core::{Diagnostic, Diagnostics};

use crate::arch::Arch;

/// The environment variable that says where the assembler is.
pub const VARIABLE: &str = "PTXAS";

/// How to get the assembler.
pub const HELP: &str = "it is in the Python package `nvidia-cuda-nvcc-cu12`, version 12.9.86; set `PTXAS` to its path, or \
                        say `ptx{ptxas=PATH}`";

/// The assembler, at a path.
#[derive(Clone, Debug)]
pub struct Ptxas(PathBuf);

/// What an entry takes of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Its name.
    pub entry: String,
    /// Registers of a thread, of 32 bits.
    pub registers: u32,
    /// Bytes that a thread writes to memory for want of registers, and reads again.
    pub spilled: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

impl Ptxas {
    /// The assembler at `path`, or else where [`VARIABLE`] says, or on the path. Errors where none
    /// runs.
    pub fn find(path: Option<&str>) -> Result<Ptxas, Diagnostics> {
        let named =
            path.map(PathBuf::from).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        let path = named.unwrap_or_else(|| PathBuf::from("ptxas"));
        match Command::new(&path).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Ptxas(path)),
            _ => {
                let message = format!("the assembler `{}` does not run", path.display());
                Err(Diagnostic::error("E0921", message).help(HELP).into())
            }
        }
    }

    /// What `text` takes on `arch`, by entry, in the order of the text. The error holds what the
    /// assembler says.
    pub fn assemble(&self, text: &str, arch: Arch) -> Result<Vec<Usage>, Diagnostics> {
        let failed = |error: std::io::Error| {
            Diagnostics::from(Diagnostic::error(
                "E0921",
                format!("the assembler does not run: {error}"),
            ))
        };
        let mut source = tempfile::Builder::new().suffix(".ptx").tempfile().map_err(failed)?;
        source.write_all(text.as_bytes()).map_err(failed)?;
        let output = Command::new(&self.0)
            .args(["-Werror", "-v", "-arch"])
            .arg(format!("sm_{}", arch.number()))
            .args(["-o", "/dev/null"])
            .arg(source.path())
            .output()
            .map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let mut error = Diagnostic::error("E0922", "the assembler refuses generated code");
            // The first lines name what is wrong; the rest follows from it.
            error.notes = said.lines().take(8).map(str::to_string).collect();
            return Err(error.into());
        }
        Ok(usages(&said))
    }
}

/// What the option `-v` reports.
fn usages(said: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in said.lines() {
        let before = |unit: &str| -> Option<u32> {
            line.split(unit)
                .next()
                .filter(|_| line.contains(unit))?
                .split_whitespace()
                .last()?
                .parse()
                .ok()
        };
        if let Some(name) = line.split("Compiling entry function '").nth(1) {
            let entry = name.split('\'').next().unwrap_or(name).to_string();
            usages.push(Usage { entry, ..Usage::default() });
        }
        let Some(usage) = usages.last_mut() else { continue };
        if let Some(bytes) = before(" bytes spill stores") {
            usage.spilled += bytes;
        }
        if let Some(registers) = before(" registers") {
            usage.registers = registers;
        }
        if let Some(bytes) = before(" bytes smem") {
            usage.shared = bytes;
        }
    }
    usages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_by_entry() {
        let said = "ptxas info    : 0 bytes gmem\n\
                    ptxas info    : Compiling entry function 'te_a' for 'sm_80'\n\
                    ptxas info    : Function properties for te_a\n    \
                    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
                    ptxas info    : Used 12 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]\n";
        let expected = Usage { entry: "te_a".to_string(), registers: 12, spilled: 8, shared: 4096 };
        assert_eq!(usages(said), [expected]);
    }

    #[test]
    fn an_assembler_that_is_not_there_is_named() {
        let error = Ptxas::find(Some("/nowhere/ptxas")).unwrap_err();
        assert_eq!(error[0].code, "E0921");
        assert!(error[0].message.contains("/nowhere/ptxas"), "{error:?}");
    }
}
