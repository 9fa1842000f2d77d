//! The documentation says what the code does: generated pages, examples and links.
//!
//! `UPDATE=1 cargo test -p relay-opt --test integration docs` rewrites the generated pages, and the results of the
//! passes' examples in the doc comments of `passes/src` that are other ones now; run it twice, since the
//! pages show those comments.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ir_core::pass::PassDef;
use ir_core::pipeline::{Pipeline, RunOptions, run};
use ir_core::text::Style;
use ir_core::{Diagnostic, Module, Registry, Severity};
use tools::reference;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that the file holds `wanted`, or writes it.
fn check(path: &str, wanted: &str) {
    let full = root().join(path);
    if updating() {
        fs::write(&full, wanted).expect("the page is writable");
    }
    assert!(
        read(&full) == wanted,
        "{path} is stale; UPDATE=1 cargo test -p relay-opt --test integration docs"
    );
}

#[test]
fn reference_pages_are_current() {
    let registry = tools::registry();
    check("docs/reference/operators.md", &reference::operators());
    check("docs/reference/passes.md", &reference::passes(&registry));
    check("docs/reference/diagnostics.md", &reference::diagnostics());
    check("docs/reference/command-line.md", &reference::command_line(&tools::relay_opt::help()));
    let path = "docs/import-onnx.md";
    let page = read(&root().join(path));
    let marker = "<!-- operators: generated -->\n";
    let (written, _) = page.split_once(marker).expect("the page has a place for operators");
    check(path, &format!("{written}{marker}{}", reference::onnx_operators()));
    let path = "docs/reference/language.md";
    let page = read(&root().join(path));
    let marker = "<!-- operations: generated -->\n";
    let (written, _) = page.split_once(marker).expect("the page has a place for operations");
    check(path, &format!("{written}{marker}{}", reference::language_operations(&registry)));
}

/// Every ```` ```relay ```` block of `text`, with what precedes it.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("```relay\n") {
        let (block, tail) = after.split_once("```").expect("every block ends");
        blocks.push((before, block));
        rest = tail;
    }
    blocks
}

fn messages(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
    errors.map(|d| format!("{} {}\n", d.code, d.message)).collect()
}

/// The typed module that `text` describes.
fn module(text: &str, registry: &Registry) -> Result<Module, String> {
    let (mut module, mut diagnostics) = match is_generic(text) {
        true => ir_core::text::parse("example", text, registry),
        false => ir_core::text::module::parse("example", text, registry),
    };
    diagnostics.extend(relay::inference::infer_module(&mut module, registry));
    let errors = messages(&diagnostics);
    if !errors.is_empty() {
        return Err(format!("{errors}{text}"));
    }
    match ir_core::verify::verify(&module, registry) {
        Ok(_) => Ok(module),
        Err(diagnostics) => Err(format!("{}{text}", messages(&diagnostics))),
    }
}

/// Whether `text` is in the generic form.
fn is_generic(text: &str) -> bool {
    text.starts_with('"')
}

/// `module` as text without the version line and types in comments.
fn print(module: &Module, generic: bool, registry: &Registry) -> String {
    let mut out = Vec::new();
    if generic {
        ir_core::text::print(module, registry, &mut out).expect("memory takes every byte");
        return String::from_utf8(out).expect("the printer writes text");
    }
    let options = Style { types: false, ..Style::default() };
    ir_core::text::module::print(module, registry, &options, &mut out)
        .expect("memory takes every byte");
    let text = String::from_utf8(out).expect("the printer writes text");
    // The version stands before functions of relay only.
    match text.split_once('\n') {
        Some((version, rest)) if version.starts_with("#[version") => rest.to_string(),
        _ => text,
    }
}

/// What is wrong with the example in the documentation of `pass`.
fn example(pass: &PassDef, registry: &Registry) -> Result<(), String> {
    let blocks = blocks(pass.doc);
    let [(_, before), (between, after)] = blocks[..] else {
        return Err(format!("expected a program before and one after, found {}", blocks.len()));
    };
    // Options stand between the programs: "becomes, with `key=value`,".
    let options = between.split_once('`').and_then(|(_, text)| text.split_once('`'));
    let text = match options {
        Some((options, _)) => format!("{}{{{options}}}", pass.name),
        None => pass.name.to_string(),
    };
    let mut result = module(before, registry)?;
    let pipeline = Pipeline::parse(&text, registry).map_err(|found| found.to_string())?;
    let (options, log) = (RunOptions::default(), &mut std::io::sink());
    let report = run(&pipeline, &mut result, registry, options, &mut [], log);
    let errors = messages(&report.map_err(|error| error.to_string())?.diagnostics);
    if !errors.is_empty() {
        return Err(errors);
    }
    let generic = is_generic(before);
    let found = print(&result, generic, registry);
    match module(after, registry).map(|module| print(&module, generic, registry)) {
        Ok(wanted) if found == wanted => Ok(()),
        _ if updating() => {
            let old = format!("```relay\n{before}```{between}```relay\n{after}```\n");
            let new = format!("```relay\n{before}```{between}```relay\n{}```\n", wrap(&found));
            update(&old, &new)
        }
        Ok(wanted) => Err(format!("found\n{found}wanted\n{wanted}")),
        Err(error) => Err(error),
    }
}

/// `text` with long lines broken before parameters and result types, so that they fit a page.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut width = 0;
        for part in line.replace(", %", ",\0%").replace(") -> ", ")\0-> ").split('\0') {
            if width > 0 && width + part.len() > 94 {
                out.push_str(&format!("\n{:1$}", "", indent + 4));
                width = indent + 4;
            } else if width > 0 {
                out.push(' ');
            }
            out.push_str(part);
            width += part.len() + 1;
        }
        out.push('\n');
    }
    out
}

/// Replaces `old` by `new` in the doc comments of the passes.
fn update(old: &str, new: &str) -> Result<(), String> {
    let comment = |text: &str| -> String {
        text.lines().map(|line| format!("/// {line}").trim_end().to_string() + "\n").collect()
    };
    for path in files(&root().join("passes/src"), "rs") {
        let text = read(&path);
        if text.contains(&comment(old)) {
            let text = text.replacen(&comment(old), &comment(new), 1);
            return fs::write(&path, text).map_err(|error| error.to_string());
        }
    }
    Err(format!("expected this in a doc comment:\n{old}"))
}

/// All files below `folder` with an extension, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn examples_of_passes_are_what_they_do() {
    let registry = tools::registry();
    let faults: Vec<String> = registry
        .passes()
        .filter_map(|pass| example(pass, &registry).err().map(|e| format!("{}: {e}", pass.name)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn examples_of_the_language_are_typed() {
    let registry = tools::registry();
    let page = read(&root().join("docs/reference/language.md"));
    let blocks = blocks(&page);
    assert!(blocks.len() > 10, "the page has examples");
    let faults: Vec<String> =
        blocks.iter().filter_map(|(_, text)| module(text, &registry).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn strategies_read() {
    let registry = tools::registry();
    let page = read(&root().join("docs/strategies.md"));
    let blocks = page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = blocks.filter(|block| block.contains("strategy two-steps")).collect();
    assert_eq!(examples.len(), 1);
    for text in examples {
        rewrites::strategy::parse("strategies.md", text).unwrap();
    }
    for name in registry.strategies().map(|strategy| strategy.name) {
        let prepared = tools::strategies::prepare(name, None, &registry);
        let prepared = prepared.map_err(|(found, _)| found).unwrap();
        assert_eq!(prepared.strategy.name, name);
        assert!(prepared.active.iter().all(|active| active.contains(&true)), "{name}");
        assert!(page.contains(&format!("| `{name}` |")), "{name} is in the table");
    }
}

/// The targets of the links in a page, code left out.
fn links(page: &str) -> Vec<&str> {
    let mut links = Vec::new();
    let mut code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        // What stands between backticks is code as well: every second part.
        for text in line.split('`').step_by(2) {
            links.extend(text.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
    }
    links
}

/// The anchors of the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let letters = |line: &str| -> String {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(letters).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend([root().join("README.md"), root().join("CHANGELOG.md")]);
    let mut count = 0;
    let mut faults = Vec::new();
    for path in &pages {
        let text = read(path);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().expect("a page lies in a folder");
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            let found =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !found {
                faults.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(count > 20, "the pages have links");
    assert!(faults.is_empty(), "links without a target:\n{}", faults.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed: BTreeSet<PathBuf> =
        links(&summary).into_iter().map(|link| root().join("docs").join(link)).collect();
    let mut pages: BTreeSet<PathBuf> = files(&root().join("docs"), "md").into_iter().collect();
    pages.remove(&root().join("docs/SUMMARY.md"));
    assert_eq!(listed, pages);
}

/// The codes in string literals of the sources, tests left out.
fn used_codes() -> BTreeSet<String> {
    let pattern = regex::Regex::new("\"([EW][0-9]{4})\"").expect("the pattern is right");
    let mut codes = BTreeSet::new();
    for part in
        ["ir-core", "dialects", "frontends", "passes/src", "rewrites/src", "targets", "tools/src"]
    {
        for path in files(&root().join(part), "rs") {
            let text = read(&path);
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if !path
                .components()
                .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
            {
                codes.extend(pattern.captures_iter(code).map(|found| found[1].to_string()));
            }
        }
    }
    codes
}

#[test]
fn every_code_is_explained_once() {
    let all: Vec<String> = tools::codes::ALL.iter().map(|entry| entry.code.to_string()).collect();
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), set.len(), "a code is listed twice");
    assert_eq!(used_codes(), set);
}

/// The commands in the blocks of a page that show a terminal, as words, pipes cut off.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("```console\n") {
        let (block, tail) = after.split_once("```").expect("every block ends");
        rest = tail;
        for line in block.replace("\\\n", " ").lines() {
            let line = line.trim_start_matches("$ ");
            // Cargo runs it with what follows the dashes.
            let line = match line.split_once(" --bin relay-opt -- ") {
                Some((_, args)) => args,
                None => match line.strip_prefix("relay-opt ") {
                    Some(args) => args,
                    None => continue,
                },
            };
            let mut words = shlex::split(line).unwrap_or_else(|| panic!("quotes end in: {line}"));
            let end = words.iter().position(|word| ["|", ">", "<", "&&"].contains(&word.as_str()));
            words.truncate(end.unwrap_or(words.len()));
            commands.push(words);
        }
    }
    commands
}

#[test]
fn commands_of_pages_are_understood() {
    let registry = tools::registry();
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    let (mut count, mut faults) = (0, Vec::new());
    for path in &pages {
        for words in commands(&read(path)) {
            count += 1;
            // What a plugin has is known once it is loaded.
            let plugin = words.iter().any(|word| word == "--load-plugin");
            let own = !plugin || words.iter().all(|word| word != "--pass");
            if let (true, Err(error)) = (own, tools::relay_opt::check_usage(&registry, &words)) {
                faults.push(format!("{}: relay-opt {}\n{error}", path.display(), words.join(" ")));
            }
        }
    }
    assert!(count > 30, "found {count} commands");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
