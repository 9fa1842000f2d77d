//! Writing reproducers of runs.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ir_core::files;
use ir_core::pipeline::Reproducer;

use crate::driver::options::Executor;
use crate::driver::options::optimize::Optimize;
use crate::driver::recorded::Recorded;
use crate::process::io::plain;

/// Where the reproducers of a run go, and what they record besides the passes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Reproducers {
    /// The folder that was asked for.
    folder: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

impl Reproducers {
    /// Those of a run of `args` in `directory`.
    pub(crate) fn new(args: &Optimize, directory: &Path) -> Reproducers {
        let recorded = Recorded {
            miscompile: args.verify_semantics.map(|_| Executor::Interp),
            pass_time_limit: args.pass_time_limit,
            ..Recorded::new(&args.rules, &args.plugins, directory)
        };
        let folder = args.crash_reproducer.as_ref().map(|folder| directory.join(folder));
        Reproducers { folder, settings: recorded.settings() }
    }

    /// Writes one and prints where it is, as the last line.
    ///
    /// # Errors
    /// Those of writing to `stderr`.
    pub(crate) fn write(
        &self,
        pipeline: String,
        program: &str,
        reason: String,
        stderr: &mut dyn Write,
    ) -> io::Result<()> {
        let (version, settings) = (env!("CARGO_PKG_VERSION").to_string(), self.settings.clone());
        let input = program.to_string();
        let contents = Reproducer { version, pipeline, settings, reason, input }.to_string();
        // Equal crashes share a file.
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        let name = format!("crash-{:016x}.relay", hasher.finish());
        let written = self.folder().and_then(|directory| {
            let path = directory.join(&name);
            files::write_here(&path, contents).map(|()| path)
        });
        match written {
            Ok(path) => writeln!(stderr, "reproducer: {}", path.display()),
            Err(error) => {
                let error = plain(&error);
                writeln!(stderr, "cannot write the reproducer `{name}`: {error}")
            }
        }
    }

    /// The folder, which is made where it does not exist.
    fn folder(&self) -> io::Result<PathBuf> {
        if let Some(folder) = &self.folder {
            fs::create_dir_all(folder)?;
            return Ok(folder.clone());
        }
        let usual = std::env::temp_dir().join("relay-opt");
        if files::own_folder(&usual).is_ok() {
            return Ok(usual);
        }
        // Another user was first.
        Ok(tempfile::Builder::new().prefix("relay-opt-").tempdir()?.keep())
    }
}
