//! The subcommand `lsp`: a server for editors.

use std::io;

use clap::Args;
use ir_core::Registry;

use crate::driver::codes;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::Io;

/// Serves editors: a language server on standard input and output.
///
/// It speaks version 3.17 of the Language Server Protocol. `tools/editors/` has an extension for
/// VS Code, which starts it.
#[derive(Args, Debug)]
pub(crate) struct Lsp {
    /// Uses standard input and output, as it always does; some editors pass this
    #[arg(long)]
    pub(crate) stdio: bool,
}

/// Serves an editor on the standard streams; the exit status.
///
/// # Errors
/// Those of the streams.
pub(crate) fn serve(registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    match ::lsp::serve(registry, &codes::ALL, io.stdin, io.stdout)? {
        ::lsp::End::Orderly => Ok(OK),
        ::lsp::End::Abrupt => Ok(DIAGNOSTICS),
    }
}
