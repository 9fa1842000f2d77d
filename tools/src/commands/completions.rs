//! What shells and manuals know of this program.

use std::fs;
use std::io;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use ir_core::{Diagnostic, Registry};

use crate::driver::report::refuse;
use crate::process::exit::OK;
use crate::process::io::{Io, plain};
use crate::relay_opt::args;

/// The scripts of shells that ask this program; `{{ask}}` stands for the command that does.
const BASH: &str = include_str!("completions/complete.bash");
const ZSH: &str = include_str!("completions/complete.zsh");
const FISH: &str = include_str!("completions/complete.fish");

/// Prints the script that makes `shell` complete words, those of `plugins` among them.
///
/// # Errors
/// Those of writing.
pub(crate) fn completions(
    shell: Shell,
    plugins: &[String],
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let script = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => return fixed(shell, registry, io),
    };
    let plugin = |path: &String| {
        // The script runs in any folder.
        let path = io.directory.join(path);
        let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
        format!(" --load-plugin '{}'", path.replace('\'', r"'\''"))
    };
    let plugins: String = plugins.iter().map(plugin).collect();
    let script = script.replace("{{ask}}", &format!("relay-opt{plugins} complete"));
    io.stdout.write_all(script.as_bytes())?;
    Ok(OK)
}

/// Prints a script with the words that there are now.
fn fixed(shell: Shell, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let passes: Vec<&'static str> = registry
        .passes()
        .map(|pass| pass.name)
        .chain(registry.pipelines().map(|pipeline| pipeline.name))
        .collect();
    let ops: Vec<&'static str> = registry.ops().map(|info| info.def.name).collect();
    let codes: Vec<&'static str> =
        crate::driver::codes::ALL.iter().map(|entry| entry.code).collect();
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
    io.stdout.write_all(&script)?;
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
pub(crate) fn man(folder: &str, io: &mut Io<'_>) -> io::Result<i32> {
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
