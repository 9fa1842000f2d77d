//! What shells and manuals know of this program.

use std::fs;
use std::io;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use ir_core::{Diagnostic, Registry};

use super::{OK, args, plain, refuse};
use crate::io::Io;

/// Prints the script that makes `shell` complete words.
///
/// # Errors
/// Those of writing.
pub(super) fn completions(shell: Shell, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let passes: Vec<&'static str> = registry
        .passes()
        .map(|pass| pass.name)
        .chain(registry.pipelines().map(|pipeline| pipeline.name))
        .collect();
    let ops: Vec<&'static str> = registry.ops().map(|info| info.def.name).collect();
    let codes: Vec<&'static str> = crate::codes::ALL.iter().map(|entry| entry.code).collect();
    let targets = target_core::targets(registry).all().iter().map(|target| target.name);
    let targets: Vec<&'static str> = targets.collect();
    let mut command = args::command();
    for (argument, values) in [
        ("pass", &passes),
        ("help_pass", &passes),
        ("print_ir_before", &passes),
        ("print_ir_after", &passes),
        ("help_op", &ops),
        ("explain", &codes),
        ("target", &targets),
    ] {
        let parser = PossibleValuesParser::new(values);
        command = command.mut_arg(argument, |argument| argument.value_parser(parser));
    }
    // The generator takes a stream that cannot fail.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "relay-opt", &mut script);
    // The generator (4.6) spells programs with a `-` in two ways, so that nothing is completed after
    // a subcommand: clap-rs/clap issue 6421.
    let script = String::from_utf8_lossy(&script).replace("relay__subcmd__opt", "relay__opt");
    io.stdout.write_all(script.as_bytes())?;
    Ok(OK)
}

/// Writes the manual pages to `folder`, each of them whole.
fn write_pages(folder: &Path) -> io::Result<()> {
    // The generator writes files itself.
    let scratch = tempfile::tempdir()?;
    clap_mangen::generate_to(args::command(), scratch.path())?;
    fs::create_dir_all(folder)?;
    for page in fs::read_dir(scratch.path())? {
        let page = page?;
        ir_core::files::write(&folder.join(page.file_name()), fs::read(page.path())?)?;
    }
    Ok(())
}

/// Writes the manual pages to `folder`.
///
/// # Errors
/// Those of writing to the streams.
pub(super) fn man(folder: &str, io: &mut Io<'_>) -> io::Result<i32> {
    let path = io.directory.join(folder);
    match write_pages(&path) {
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
