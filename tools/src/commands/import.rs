//! The subcommand `import`: an ONNX model as text.

use std::io;
use std::path::Path;

use clap::Args;
use ir_core::files::OutputFile;
use ir_core::{Diagnostic, Diagnostics, Module, Registry};
use onnx_frontend::{Import, Options};

use crate::driver::language::{Form, infer, verify};
use crate::driver::model::ELIDED_OVER;
use crate::driver::options::{DiagnosticForm, ModelOptions};
use crate::driver::report::Reporter;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::{Io, plain};

/// Turns an ONNX model into Relay text.
#[derive(Args, Debug)]
pub(crate) struct ImportModel {
    /// The model
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    /// Where the text goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: String,
    /// Where constants of more than 1024 bytes go, which become parameters of the function: a .npz
    /// or .safetensors file for `relay-opt run --params`. The default is the output with the
    /// extension .safetensors; on standard output all constants stay in the text
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
}

/// Runs the subcommand `import` and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn import(args: &ImportModel, registry: &Registry, io: &mut Io<'_>) -> io::Result<i32> {
    let imported = checked(args, registry, &io.directory);
    let written = match imported {
        Ok(Import { module, .. }) if args.output == "-" => {
            return Form::Readable.print(&module, registry, None, io.stdout).map(|()| OK);
        }
        Ok(Import { module, .. }) => {
            let path = io.directory.join(&args.output);
            write_text(&path, &module, registry).map_err(|error| {
                let message = format!("cannot write `{}`: {}", args.output, plain(&error));
                Diagnostics::from(Diagnostic::error("E0724", message))
            })
        }
        Err(diagnostics) => Err(diagnostics),
    };
    match written {
        Ok(()) => Ok(OK),
        Err(diagnostics) => {
            Reporter::new(DiagnosticForm::Human, 0).report(diagnostics, io)?;
            Ok(DIAGNOSTICS)
        }
    }
}

/// The model, verified, and its weights in their file.
fn checked(
    args: &ImportModel,
    registry: &Registry,
    directory: &Path,
) -> Result<Import, Diagnostics> {
    let params = match (&args.params, args.output.as_str()) {
        (Some(path), _) => Some(directory.join(path)),
        (None, "-") => None,
        (None, output) => Some(directory.join(output).with_extension("safetensors")),
    };
    let weights_over = params.as_ref().map(|_| ELIDED_OVER);
    let options = Options { weights_over, ..args.options.options() };
    let mut import = onnx_frontend::import(&directory.join(&args.model), &options, registry)?;
    let found = infer(&mut import.module, registry);
    if !found.is_empty() {
        return Err(found);
    }
    let found = verify(&import.module, registry);
    if !found.is_empty() {
        return Err(found);
    }
    if let Some(path) = params.filter(|_| !import.weights.is_empty()) {
        arrays::save(&path, &import.weights)?;
    }
    Ok(import)
}

fn write_text(path: &Path, module: &Module, registry: &Registry) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    Form::Readable.print(module, registry, None, &mut file)?;
    file.finish()
}
