//! Files of plugins: whether one is of this build.

use std::fs;
use std::path::Path;

use ir_core::{Diagnostic, Diagnostics};
use object::{Object, ObjectSegment};

use crate::process::io::plain;

/// What the description in a file starts with.
const START: &str = "relay-opt plugin, version ";

/// The version, compiler and sources that a plugin was built with, as its file holds them.
pub const DESCRIPTION: &str = concat!(
    "relay-opt plugin, version ",
    env!("CARGO_PKG_VERSION"),
    ", ",
    env!("RELAY_OPT_COMPILER"),
    ", build ",
    env!("RELAY_OPT_BUILD"),
    ";"
);

pub(crate) const REBUILD: &str = "build it again, with `relay-opt plugin build`";

pub(crate) fn failed(path: &Path, what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error("E0740", format!("cannot load the plugin `{}`: {what}", path.display()))
}

/// Checks that the file at `path` is a plugin of this build, without loading it.
///
/// # Errors
/// When it is not, with both versions where they differ.
pub(crate) fn check(path: &Path) -> Result<(), Diagnostics> {
    let failed = |what: String| failed(path, what);
    // A pipe or device may have no end, and none can be loaded.
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return Err(failed("it is no regular file".to_string()).into());
    }
    let bytes = fs::read(path).map_err(|error| failed(plain(&error)))?;
    let found = description(&bytes).ok_or_else(|| {
        failed("it is no plugin".to_string())
            .help("a plugin is a shared library with `plugin!`; `relay-opt plugin new` makes one")
    })?;
    let shown = |text: &str| text.trim_start_matches(START).trim_end_matches(';').to_string();
    if found != DESCRIPTION {
        let message = format!("`{}` is a plugin for another relay-opt", path.display());
        return Err(Diagnostic::error("E0741", message)
            .note(format!("the plugin is for version {}", shown(&found)))
            .note(format!("this is version {}", shown(DESCRIPTION)))
            .help(REBUILD)
            .into());
    }
    // The system's loader maps segments without a look at the length of the file.
    let whole = object::File::parse(&*bytes)
        .is_ok_and(|file| file.segments().all(|segment| segment.data().is_ok()));
    if !whole {
        return Err(failed("the file is not complete".to_string()).help(REBUILD).into());
    }
    Ok(())
}

/// The description in a plugin's file.
fn description(bytes: &[u8]) -> Option<String> {
    memchr::memmem::find_iter(bytes, START.as_bytes()).find_map(|start| {
        let rest = &bytes[start..bytes.len().min(start + 1000)];
        let text = str::from_utf8(&rest[..=memchr::memchr(b';', rest)?]).ok()?;
        (!text.contains(char::is_control)).then(|| text.to_string())
    })
}
