//! Reading inputs.

use std::fs::File;
use std::io::{self, Read};

use ir_core::{Diagnostic, Diagnostics, SourceMap};

use super::report::Reporter;
use crate::process::io::{Io, plain};

/// One more than the largest size of an input text: places in it are 31-bit offsets.
const LIMIT: u64 = 1 << 31;

/// The line that separates the parts of a split input.
const SEPARATOR: &str = "// -----";

/// The help where there is no file of a name that may have been meant for a command.
pub(crate) const SEE_COMMANDS: &str = "see `relay-opt --help` for the subcommands";

/// A text and its name in diagnostics.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// Reads `path`, or standard input for `-`.
///
/// # Errors
/// A diagnostic where it cannot be read, is too large, or is not UTF-8.
pub(crate) fn read(path: &str, io: &mut Io<'_>) -> Result<Input, Diagnostics> {
    let unreadable = |error: io::Error| {
        let message = format!("cannot read `{path}`: {}", plain(&error));
        let diagnostic = Diagnostic::error("E0720", message);
        match error.kind() == io::ErrorKind::NotFound && !path.contains(['/', '.']) {
            true => diagnostic.help(SEE_COMMANDS),
            false => diagnostic,
        }
    };
    let mut bytes = Vec::new();
    let file = if path == "-" {
        (&mut *io.stdin).take(LIMIT).read_to_end(&mut bytes).map_err(unreadable)?;
        "<stdin>".to_string()
    } else {
        let file = File::open(io.directory.join(path)).map_err(unreadable)?;
        if file.metadata().is_ok_and(|metadata| metadata.len() >= LIMIT) {
            return Err(too_large(path).into());
        }
        file.take(LIMIT).read_to_end(&mut bytes).map_err(unreadable)?;
        path.to_string()
    };
    if bytes.len() as u64 >= LIMIT {
        return Err(too_large(&file).into());
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Input { file, text }),
        Err(error) => {
            Err(not_text(&file, error.as_bytes(), error.utf8_error().valid_up_to()).into())
        }
    }
}

/// Reads files of rewrite rules, which `reporter` then knows.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_rules(
    paths: &[String],
    reporter: &mut Reporter,
    io: &mut Io<'_>,
) -> Result<SourceMap, Diagnostics> {
    let mut rules = SourceMap::default();
    for path in paths {
        let Input { file, text } = read(path, io)?;
        reporter.source(&file, &text);
        rules.add(file.as_str(), text);
    }
    Ok(rules)
}

/// What `file` is good for, by its name, where it is one that holds no program.
pub(crate) fn purpose(file: &str) -> Option<&'static str> {
    if file.ends_with(".rules") {
        let purpose = "files that end in `.rules` hold rewrite rules: `--rules FILE` gives them to \
                       the passes, and `relay-opt rules check FILE` tries them";
        return Some(purpose);
    }
    let purpose = "files that end in `.strategy` hold strategies: \
                   `--pass 'eqsat{strategy=FILE}'` runs one";
    file.ends_with(".strategy").then_some(purpose)
}

fn too_large(file: &str) -> Diagnostic {
    Diagnostic::error("E0722", format!("`{file}` is too large: expected less than 2 GiB of text"))
        .help("keep large constants out of the text, in a .npz or .safetensors file")
}

fn not_text(file: &str, bytes: &[u8], at: usize) -> Diagnostic {
    let line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let found = bytes.get(at).map_or("the end".to_string(), |byte| format!("byte 0x{byte:02x}"));
    Diagnostic::error(
        "E0721",
        format!("`{file}` is not text: expected UTF-8, found {found} at offset {at}, line {line}"),
    )
    .help(
        purpose(file)
            .unwrap_or("expected Relay text, the generic form of the IR, or an ONNX model `.onnx`"),
    )
}

/// The parts of `text`: between lines `// -----` where `split` holds, else all of it. What comes
/// before a part is blanked, so that places in it are those of the whole text.
pub(crate) fn parts(text: &str, split: bool) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut start = 0;
    if split {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if line.trim_end() == SEPARATOR {
                parts.push(Part { whole: text, start, end: at });
                start = at + line.len();
            }
            at += line.len();
        }
    }
    parts.push(Part { whole: text, start, end: text.len() });
    parts
}

/// A part of an input.
pub(crate) struct Part<'a> {
    whole: &'a str,
    start: usize,
    end: usize,
}

impl Part<'_> {
    /// The part itself.
    pub(crate) fn text(&self) -> &str {
        &self.whole[self.start..self.end]
    }

    /// The part behind as much blank space as there is text before it.
    pub(crate) fn in_place(&self) -> std::borrow::Cow<'_, str> {
        if self.start == 0 {
            return self.text().into();
        }
        let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
        let mut text: String = self.whole[..self.start].bytes().map(blank).collect();
        text.push_str(self.text());
        text.into()
    }
}
