//! The pages of the documentation, followed to the letter.
//!
//! Each page is followed in a folder of its own: blocks of code that the text says are a file
//! become that file, and the commands of `console` blocks run, with what the page shows of their
//! output compared. `cargo test -p relay-opt --test pages -- NAME` follows the pages whose path
//! contains `NAME`.
//!
//! - A block is the file that the text before it ends with, as in "in `my-pass/src/lib.rs`:".
//! - A line `…` in what a command prints stands for any lines, and within a line for anything. What
//!   is not shown is not compared.
//! - A command succeeds unless the page shows a line `error` of what it prints.
//! - A block of Rust that is no file stands in a source, where it is compiled.
//! - `<!-- not run: reason -->` before a block says that it cannot be run here.
//! - Commands of cargo that build in the repository are not run: what they name must exist.

#[path = "pages/markdown.rs"]
mod markdown;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use markdown::{Block, Shown, blocks, shown};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::canonicalize(root).expect("the repository exists")
}

/// Where pages are followed, and what they build is kept.
fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages")
}

/// The builds of plugins, shared with `plugins.rs`.
fn builds() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds")
}

fn main() {
    let arguments = Arguments::from_args();
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("docs/ can be read")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    let trials = pages.into_iter().map(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Trial::test(name.unwrap_or_default(), move || follow(&path))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Does what a page says.
fn follow(path: &Path) -> Result<(), Failed> {
    let page = fs::read_to_string(path)?;
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let folder = scratch().join(name.unwrap_or_default());
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    if !page.contains("$ relay-opt plugin new") {
        surround(&folder)?;
    }
    for block in blocks(&page) {
        let place = format!("{}:{}", path.display(), block.line);
        let done = match block.file() {
            Some(file) => write(&folder.join(file), block.text).map_err(|error| error.to_string()),
            None if block.language == "console" && block.reason().is_none() => run(&folder, &block),
            None if block.language == "rust" => compiled(block.text),
            None => Ok(()),
        };
        done.map_err(|error| format!("{place}: {error}"))?;
    }
    let missing: Vec<&str> =
        markdown::files(&page).into_iter().filter(|file| !exists(&folder, file)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}: neither in the repository nor made on the page: {}",
            path.display(),
            missing.join(", ")
        )
        .into()),
    }
}

/// What commands that run in the root of the repository find there: models that they may write
/// beside, and the rest.
fn surround(folder: &Path) -> std::io::Result<()> {
    for entry in ["docs", "lit-tests", "rewrites", "tools"] {
        symlink(root().join(entry), folder.join(entry))?;
    }
    let models = folder.join("examples/models");
    fs::create_dir_all(&models)?;
    for entry in fs::read_dir(root().join("examples/models"))? {
        let path = entry?.path();
        fs::copy(&path, models.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Whether code that is no file stands in a source of the repository, however it is indented there.
///
/// # Errors
/// When it does not.
fn compiled(code: &str) -> Result<(), String> {
    let plain = |text: &str| -> String {
        text.lines().map(|line| line.trim().to_string() + "\n").collect()
    };
    let wanted = plain(code);
    let holds = |path: &Path| {
        let is_source = path.extension().is_some_and(|end| end == "rs");
        is_source && plain(&fs::read_to_string(path).unwrap_or_default()).contains(&wanted)
    };
    match ["examples", "frontends", "passes", "tools"]
        .iter()
        .any(|top| any(&root().join(top), holds))
    {
        true => Ok(()),
        false => Err("no source has this code, so that nothing compiles it".to_string()),
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text)
}

/// Runs the commands of a block, and compares what they print with what is shown.
fn run(folder: &Path, block: &Block<'_>) -> Result<(), String> {
    let mut current = folder.to_path_buf();
    for command in shown(block.text) {
        let Some(text) = here(&command.text)? else { continue };
        let (status, output, after) = shell(&current, &text)?;
        current = after;
        share_builds(folder)?;
        let fails = command.output.lines().any(|line| line.starts_with("error"));
        if status == fails || !matches(&command, &output) {
            return Err(format!(
                "{}\nends with success: {status}, and prints\n{output}",
                command.text
            ));
        }
    }
    Ok(())
}

/// What runs in the place of a command; nothing for one that builds in the repository.
///
/// # Errors
/// When it names something that the repository does not have.
fn here(command: &str) -> Result<Option<String>, String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    if words.first() != Some(&"cargo") || words.contains(&"--manifest-path") {
        return Ok(Some(command.to_string()));
    }
    if let Some((_, arguments)) = command.split_once("--bin relay-opt -- ") {
        return Ok(Some(format!("relay-opt {arguments}")));
    }
    let package = value(&words, "-p").map(package).transpose()?;
    if let Some(path) = value(&words, "--path")
        && !root().join(path).join("src/bin").is_dir()
    {
        return Err(format!("`{path}` has no program to install"));
    }
    for (option, places) in [
        ("--bench", "benches"),
        ("--bin", "src/bin"),
        ("--example", "examples"),
        ("--test", "tests"),
    ] {
        let Some(name) = value(&words, option) else { continue };
        let folder = package.clone().ok_or_else(|| format!("`{command}` names no package"))?;
        let found = [format!("{name}.rs"), format!("{name}/main.rs")];
        if !found.iter().any(|file| folder.join(places).join(file).is_file()) {
            return Err(format!("there is no `{name}` for `{command}`"));
        }
    }
    Ok(None)
}

/// The word after `option`.
fn value<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

/// The folder of a package of the workspace.
fn package(name: &str) -> Result<PathBuf, String> {
    let manifest =
        fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let (key, renamed) = (format!("{name} = {{ "), format!("package = \"{name}\""));
    let line = manifest.lines().find(|line| line.starts_with(&key) || line.contains(&renamed));
    let path = line.and_then(|line| line.split_once("path = \"")?.1.split('"').next());
    let path = path.ok_or_else(|| format!("no package `{name}`"))?;
    Ok(root().join(path))
}

/// Whether a command that runs in a folder succeeds, what it prints, and the folder that it leaves.
fn shell(folder: &Path, command: &str) -> Result<(bool, String, PathBuf), String> {
    let tools = Path::new(env!("CARGO_BIN_EXE_relay-opt")).parent().unwrap_or(Path::new("/"));
    let path = std::env::var("PATH").unwrap_or_default();
    static COMMANDS: AtomicUsize = AtomicUsize::new(0);
    let left = scratch().join(format!("{}.left", COMMANDS.fetch_add(1, Ordering::Relaxed)));
    let script = format!("exec 2>&1\n{command}\nstatus=$?\npwd > \"$LEFT\"\nexit $status");
    let mut process = Command::new("sh");
    process
        .args(["-c", &script])
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("SOURCES", root())
        .env("EDITOR", "true")
        .env("LEFT", &left)
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_QUIET", "true")
        .env("NO_COLOR", "1")
        .env("XDG_CACHE_HOME", scratch().join("cache"));
    // A manifest that the page brings is built beside plugins.
    if command.starts_with("cargo ") {
        process.env("CARGO_TARGET_DIR", builds());
    }
    let output = process.output().map_err(|error| error.to_string())?;
    let after = fs::read_to_string(&left).map_err(|error| error.to_string())?;
    let _ = fs::remove_file(&left);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success(), text, PathBuf::from(after.trim_end())))
}

/// Lets the plugins in a folder share what they build: relay-opt takes minutes, a plugin a second.
fn share_builds(folder: &Path) -> Result<(), String> {
    let say = |error: std::io::Error| error.to_string();
    fs::create_dir_all(builds()).map_err(say)?;
    for entry in fs::read_dir(folder).map_err(say)? {
        let plugin = entry.map_err(say)?.path();
        let target = plugin.join("target");
        let own = !plugin.is_symlink() && plugin.join("Cargo.toml").is_file();
        if own && target.symlink_metadata().is_err() {
            symlink(builds(), target).map_err(say)?;
        }
    }
    Ok(())
}

/// Whether `output` is what is shown, where anything is.
fn matches(command: &Shown, output: &str) -> bool {
    if command.output.is_empty() {
        return true;
    }
    let shown: Vec<&str> = command.output.lines().map(str::trim_end).collect();
    let found: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
    // Parts between lines `…`: the first one stands at the start, the last one at the end.
    let parts: Vec<&[&str]> = shown.split(|line| *line == "…").collect();
    let mut from = 0;
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let starts = from..=found.len().saturating_sub(part.len());
        let fits = |start: &usize| {
            let end = start + part.len();
            end <= found.len()
                && part.iter().zip(&found[*start..end]).all(|(shown, line)| is_line(shown, line))
                && (!last || end == found.len())
        };
        let start = match index {
            0 => Some(0).filter(fits),
            _ => starts.into_iter().find(fits),
        };
        match start {
            Some(start) => from = start + part.len(),
            None => return false,
        }
    }
    true
}

/// Whether `line` is what is shown, in which `…` stands for anything.
fn is_line(shown: &str, line: &str) -> bool {
    match shown.split_once('…') {
        None => shown == line,
        Some((start, end)) => {
            line.len() >= start.len() + end.len() && line.starts_with(start) && line.ends_with(end)
        }
    }
}

/// Whether a file that a page names is in the repository, or in the folder where the page was
/// followed.
fn exists(folder: &Path, file: &str) -> bool {
    let wanted = Path::new(file);
    let below = |top: &Path| any(top, |path| path.ends_with(wanted));
    [folder, &root()].iter().any(|top| top.join(wanted).exists() || below(top))
}

/// Whether something below `top` is what is looked for. What was built does not count.
fn any(top: &Path, found: impl Fn(&Path) -> bool) -> bool {
    let mut pending = vec![top.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if found(&path) {
                return true;
            }
            let built = path.file_name().is_some_and(|name| name == "target" || name == ".git");
            if path.is_dir() && !built && !path.is_symlink() {
                pending.push(path);
            }
        }
    }
    false
}
