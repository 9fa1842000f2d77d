//! The subcommand `man`: pages of the manual.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Args, Command};
use ir_core::Diagnostic;

use crate::driver::report::refuse;
use crate::process::exit::OK;
use crate::process::io::{Io, plain};

/// Writes the manual pages of this program and of its commands.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder for the pages, such as `~/.local/share/man/man1`; it is made where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: String,
}

/// Writes the manual pages of `program`.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn man(args: &Man, program: Command, io: &mut Io<'_>) -> io::Result<i32> {
    let folder = &args.output;
    match write_pages(program, &io.directory.join(folder)) {
        Ok(()) => {
            writeln!(io.stdout, "wrote the manual pages to `{folder}`")?;
            Ok(OK)
        }
        Err(error) => {
            let message = format!("cannot write `{folder}`: {}", plain(&error));
            Ok(refuse(Diagnostic::error("E0724", message), io))
        }
    }
}

/// Writes the manual pages to `folder`, each of them whole.
fn write_pages(program: Command, folder: &Path) -> io::Result<()> {
    // The generator writes files itself.
    let scratch = tempfile::tempdir()?;
    clap_mangen::generate_to(program, scratch.path())?;
    fs::create_dir_all(folder)?;
    for page in fs::read_dir(scratch.path())? {
        let page = page?;
        ir_core::files::write(&folder.join(page.file_name()), fs::read(page.path())?)?;
    }
    Ok(())
}
