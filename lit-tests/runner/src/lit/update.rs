//! Regenerates the check lines of tests that carry the marker, or that run
//! FileCheck but have no checks yet.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::command::Io;
use super::discovery::Test;
use super::runner::{Config, execute, temporary_path};
use crate::filecheck::{Request, parse_arguments};

/// The line that marks generated checks.
pub const MARKER: &str = "// CHECK lines are generated; UPDATE=1 rewrites them.";

/// Rounds after which the checks must describe the output; more than one is
/// needed where the output names line numbers.
const ROUNDS: usize = 4;

/// One use of FileCheck on the test file.
struct Use {
    prefixes: Vec<String>,
    input: String,
}

/// Rewrites the checks of `test`, if they are generated or missing.
///
/// The checks go to the end of the file, so that the lines of the program, and
/// with them the places in messages, stay where they are.
///
/// # Errors
/// The file cannot be read or written, a line cannot be run, one prefix is used
/// for two outputs, or the output changes with every round.
pub(super) fn update(config: &Config, test: &Test) -> Result<(), String> {
    let io_error = |error: std::io::Error| format!("{}: {error}", test.path.display());
    for _ in 0..ROUNDS {
        let text = fs::read_to_string(&test.path).map_err(io_error)?;
        let uses = record(config, test)?;
        let is_marked = text.lines().any(|line| line.trim() == MARKER);
        let has_checks = uses
            .iter()
            .flat_map(|u| &u.prefixes)
            .any(|prefix| text.lines().any(|line| is_directive(line, prefix)));
        if uses.is_empty() || (has_checks && !is_marked) {
            return Ok(());
        }
        let updated = rewrite(&text, &uses, &hidden_paths(config, test))?;
        if updated == text {
            return Ok(());
        }
        outputs::write(&test.path, updated).map_err(io_error)?;
    }
    Err(format!("expected the same output after {ROUNDS} updates, found another"))
}

/// Runs the test with a FileCheck that keeps its input.
fn record(config: &Config, test: &Test) -> Result<Vec<Use>, String> {
    let uses: Arc<Mutex<Vec<Use>>> = Arc::default();
    let mut commands = config.commands.clone();
    for name in ["FileCheck", "relay-filecheck"] {
        let (uses, path) = (Arc::clone(&uses), test.path.clone());
        commands.register(name, move |arguments: &[String], io: &mut Io| {
            let Ok(Request::Check(line)) = parse_arguments(arguments) else {
                return 2;
            };
            if io.directory().join(&line.check_file) == path {
                let input = match &line.input_file {
                    None => io.take_stdin(),
                    Some(file) => fs::read(io.directory().join(file)).unwrap_or_default(),
                };
                let mut prefixes = line.options.check_prefixes;
                if prefixes.is_empty() {
                    prefixes.push("CHECK".to_owned());
                }
                let input = String::from_utf8_lossy(&input).into_owned();
                let mut uses = uses.lock().unwrap_or_else(PoisonError::into_inner);
                uses.push(Use { prefixes, input });
            }
            0
        });
    }
    execute(config, test, &commands)?.map_err(|log| format!("cannot update:\n{log}"))?;
    let mut uses = uses.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut uses))
}

/// Paths that differ from one machine to the next.
fn hidden_paths(config: &Config, test: &Test) -> Vec<PathBuf> {
    let temporary = temporary_path(config, test);
    [test.path.parent(), temporary.parent()].into_iter().flatten().map(Path::to_path_buf).collect()
}

/// `text` with the checks for `uses` in place of those it has.
fn rewrite(text: &str, uses: &[Use], hidden: &[PathBuf]) -> Result<String, String> {
    let prefixes: Vec<&String> = uses.iter().flat_map(|u| &u.prefixes).collect();
    let is_generated =
        |line: &str| line.trim() == MARKER || prefixes.iter().any(|p| is_directive(line, p));
    let kept: Vec<&str> = text.lines().filter(|line| !is_generated(line)).collect();
    let mut updated = kept.join("\n").trim_end().to_owned();
    let _ = write!(updated, "\n\n{MARKER}\n");
    let mut written: Vec<&str> = Vec::new();
    for one in uses {
        // The first prefix that no other output shares.
        let is_free = |prefix: &&String| {
            uses.iter().all(|other| !other.prefixes.contains(prefix) || other.input == one.input)
        };
        let Some(prefix) = one.prefixes.iter().find(is_free) else {
            return Err(format!(
                "expected a check prefix for each output, found '{}' used for two",
                one.prefixes.join(",")
            ));
        };
        if !written.contains(&prefix.as_str()) {
            updated.push_str(&checks(prefix, &one.input, hidden));
            written.push(prefix);
        }
    }
    Ok(updated)
}

/// Whether a line is a comment with a directive of `prefix`.
fn is_directive(line: &str, prefix: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("//") else {
        return false;
    };
    let Some(suffix) = rest.trim_start().strip_prefix(prefix) else {
        return false;
    };
    let Some((suffix, _)) = suffix.split_once(':') else {
        return false;
    };
    let suffix = suffix.strip_suffix("{LITERAL}").unwrap_or(suffix);
    let kinds = ["", "-NEXT", "-SAME", "-NOT", "-DAG", "-LABEL", "-EMPTY"];
    kinds.contains(&suffix) || suffix.starts_with("-COUNT-")
}

/// The directives that describe `output`, one for each line from the first that
/// is not blank.
fn checks(prefix: &str, output: &str, hidden: &[PathBuf]) -> String {
    let mut lines = String::new();
    let text = output.trim_end().lines().skip_while(|line| line.trim().is_empty());
    for (index, line) in text.enumerate() {
        let line = line.trim();
        let suffix = if index == 0 { "" } else { "-NEXT" };
        let written = if line.is_empty() {
            writeln!(lines, "// {prefix}-EMPTY:")
        } else if let Some(pattern) = without_paths(line, hidden) {
            writeln!(lines, "// {prefix}{suffix}: {pattern}")
        } else if line.contains("[[") || line.contains("{{") {
            writeln!(lines, "// {prefix}{suffix}{{LITERAL}}: {line}")
        } else {
            writeln!(lines, "// {prefix}{suffix}: {line}")
        };
        // Writing to a string does not fail.
        debug_assert!(written.is_ok());
    }
    if lines.is_empty() {
        lines = format!("// {prefix}-NOT: {{{{.}}}}\n");
    }
    lines
}

/// The line as a pattern with `{{.*}}` for the paths to hide, if it has any.
fn without_paths(line: &str, hidden: &[PathBuf]) -> Option<String> {
    let paths: Vec<String> = hidden.iter().map(|path| format!("{}/", path.display())).collect();
    if !paths.iter().any(|path| line.contains(path)) {
        return None;
    }
    let mut pattern = line.replace("[[", "{{\\[\\[}}");
    for path in paths {
        pattern = pattern.replace(&path, "{{.*}}");
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(prefixes: &[&str], input: &str) -> Use {
        Use { prefixes: prefixes.iter().map(|&p| p.to_owned()).collect(), input: input.to_owned() }
    }

    #[test]
    fn generated_checks_replace_the_old_ones_at_the_end() {
        let text = format!("// RUN: x\n{MARKER}\n// CHECK: old\n// CHECK-NEXT: old\nprogram\n");
        let uses = [one(&["CHECK"], "\n  a %0\n\nb [[1]]\n at /t/x.relay:3\n\n")];
        let expected = format!(
            "// RUN: x\nprogram\n\n{MARKER}\n// CHECK: a %0\n// CHECK-EMPTY:\n\
             // CHECK-NEXT{{LITERAL}}: b [[1]]\n// CHECK-NEXT: at {{{{.*}}}}x.relay:3\n"
        );
        let updated = rewrite(&text, &uses, &["/t".into()]);
        assert_eq!(updated.as_deref(), Ok(expected.as_str()));
        let again = rewrite(&expected, &uses, &["/t".into()]);
        assert_eq!(again, updated);
    }

    #[test]
    fn each_output_has_its_own_prefix() {
        let uses = [one(&["A", "B"], "1\n"), one(&["A", "C"], "2\n")];
        let updated = rewrite("p\n", &uses, &[]);
        assert_eq!(updated, Ok(format!("p\n\n{MARKER}\n// B: 1\n// C: 2\n")));
        assert!(rewrite("p\n", &[one(&["A"], "1"), one(&["A"], "2")], &[]).is_err());
    }
}
