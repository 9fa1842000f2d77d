//! What a page of documentation says to do.

/// A fenced block of a page.
pub(crate) struct Block<'a> {
    /// What stands behind the fence.
    pub(crate) language: &'a str,
    /// The lines of the block.
    pub(crate) text: &'a str,
    /// The line of the page where it begins, from 1.
    pub(crate) line: usize,
    /// The page between the block before and this one.
    before: &'a str,
}

impl<'a> Block<'a> {
    /// The file that the text before the block says it is.
    pub(crate) fn file(&self) -> Option<&'a str> {
        let mut before = self.before.trim_end();
        // A comment says where the block comes from.
        if before.ends_with("-->") {
            before = before[..before.rfind("<!--")?].trim_end();
        }
        let name = before.strip_suffix("`:")?.rsplit('`').next()?;
        (self.language != "console" && is_path(name)).then_some(name)
    }

    /// Why it cannot be run.
    pub(crate) fn reason(&self) -> Option<&'a str> {
        let comment = self.before.trim_end().strip_suffix("-->")?;
        let (_, reason) = comment.rsplit_once("<!-- not run: ")?;
        Some(reason.trim()).filter(|reason| !reason.is_empty())
    }
}

/// The blocks of a page whose fences start a line.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut open, mut after) = (None, 0);
    let mut at = 0;
    for (number, line) in page.split_inclusive('\n').enumerate() {
        let end = at + line.len();
        if let Some(rest) = line.strip_prefix("```") {
            open = match open {
                None => Some((rest.trim(), number + 1, &page[after..at], end)),
                Some((language, line, before, start)) => {
                    blocks.push(Block { language, text: &page[start..at], line, before });
                    after = end;
                    None
                }
            };
        }
        at = end;
    }
    blocks
}

/// A command on a page, and what the page shows of its output.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) output: String,
}

/// The commands of a block that shows a terminal.
pub(crate) fn shown(block: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(text), _) => {
                commands.push(Shown { text: text.to_string(), output: String::new() });
            }
            (None, Some(last)) if last.output.is_empty() && last.text.ends_with('\\') => {
                last.text.pop();
                last.text.push_str(line.trim_start());
            }
            (None, Some(last)) => {
                last.output.push_str(line);
                last.output.push('\n');
            }
            (None, None) => {}
        }
    }
    commands
}

/// The files and folders that the text of a page names, code blocks left out.
pub(crate) fn files(page: &str) -> Vec<&str> {
    let mut files = Vec::new();
    let mut code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if !code {
            files.extend(line.split('`').skip(1).step_by(2).filter(|span| is_path(span)));
        }
    }
    files
}

/// Endings of the files that pages name.
const ENDINGS: [&str; 18] = [
    "c",
    "h",
    "html",
    "js",
    "json",
    "md",
    "npz",
    "onnx",
    "py",
    "relay",
    "rs",
    "rules",
    "safetensors",
    "strategy",
    "te",
    "toml",
    "toy",
    "txt",
];

/// Whether a piece of code is the name of a file or folder.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let named = text.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty() && !name.ends_with('/') && ENDINGS.contains(&ending)
    });
    let folder = text.ends_with('/') && text.len() > 1;
    text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && (named || folder)
}
