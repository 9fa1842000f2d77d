//! Differences of two texts, one above the other or side by side.

use std::io;

use similar::{Algorithm, DiffOp, TextDiff, capture_diff_slices};

/// How a difference is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiffForm {
    /// Lines that go above lines that come, as `diff -u` writes them.
    Unified,
    /// Old lines beside new ones: `<` marks those that go, `>` those that come, `|` others.
    SideBySide,
}

/// Equal lines around those that differ.
const CONTEXT: usize = 3;

/// Columns of one side.
const WIDTH: usize = 78;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// Writes how `new` differs from `old`, under `titles`.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_diff(
    (old, new): (&str, &str),
    titles: (&str, &str),
    form: DiffForm,
    coloured: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match form {
        DiffForm::Unified => {
            let diff = TextDiff::from_lines(old, new);
            let text =
                diff.unified_diff().context_radius(CONTEXT).header(titles.0, titles.1).to_string();
            if !coloured {
                return out.write_all(text.as_bytes());
            }
            for line in text.lines() {
                match line.as_bytes().first() {
                    Some(b'-') => writeln!(out, "{RED}{line}{RESET}")?,
                    Some(b'+') => writeln!(out, "{GREEN}{line}{RESET}")?,
                    _ => writeln!(out, "{line}")?,
                }
            }
            Ok(())
        }
        DiffForm::SideBySide => side_by_side((old, new), titles, coloured, out),
    }
}

fn side_by_side(
    (old, new): (&str, &str),
    titles: (&str, &str),
    coloured: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let ops = capture_diff_slices(Algorithm::Myers, &old, &new);
    let mut rows = Rows { coloured, out };
    rows.write(Some(titles.0), ' ', Some(titles.1))?;
    for (index, group) in similar::group_diff_ops(ops, CONTEXT).into_iter().enumerate() {
        if index > 0 {
            rows.write(Some("..."), ' ', Some("..."))?;
        }
        for op in group {
            let (before, after) = (&old[op.old_range()], &new[op.new_range()]);
            let same = matches!(op, DiffOp::Equal { .. });
            for index in 0..before.len().max(after.len()) {
                let (left, right) = (before.get(index).copied(), after.get(index).copied());
                let mark = match (left, right) {
                    (Some(_), Some(_)) if same => ' ',
                    (Some(_), Some(_)) => '|',
                    (Some(_), None) => '<',
                    (None, _) => '>',
                };
                rows.write(left, mark, right)?;
            }
        }
    }
    Ok(())
}

struct Rows<'o> {
    coloured: bool,
    out: &'o mut dyn io::Write,
}

impl Rows<'_> {
    /// Writes two lines beside each other; what is too long goes on below.
    fn write(&mut self, left: Option<&str>, mark: char, right: Option<&str>) -> io::Result<()> {
        let (left, right) = (pieces(left), pieces(right));
        for index in 0..left.len().max(right.len()) {
            let side = |pieces: &[String]| pieces.get(index).cloned().unwrap_or_default();
            let (left, right) = (side(&left), side(&right));
            let (red, green, reset) = match self.coloured && mark != ' ' {
                true => (RED, GREEN, RESET),
                false => ("", "", ""),
            };
            let row = format!("{red}{left:WIDTH$}{reset} {mark} {green}{right}{reset}");
            writeln!(self.out, "{}", row.trim_end())?;
        }
        Ok(())
    }
}

/// `line` in pieces that fit a column.
fn pieces(line: Option<&str>) -> Vec<String> {
    let characters: Vec<char> = line.unwrap_or_default().chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(WIDTH).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stand_around_what_differs() {
        let shown = |form| {
            let mut out = Vec::new();
            write_diff(("a\nb\nc\n", "a\nx\nc\n"), ("old", "new"), form, true, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let unified = shown(DiffForm::Unified);
        assert!(unified.contains("\x1b[31m-b\x1b[0m\n\x1b[32m+x\x1b[0m\n"), "{unified:?}");
        let beside = shown(DiffForm::SideBySide);
        let row = format!("\x1b[31m{:78}\x1b[0m | \x1b[32mx\x1b[0m\n", "b");
        assert!(beside.contains(&row), "{beside:?}");
        assert!(beside.starts_with("old "), "{beside:?}");
    }

    #[test]
    fn long_lines_go_on_below() {
        let (old, new) = ("x".repeat(100), "y".to_string());
        let mut out = Vec::new();
        write_diff((&old, &new), ("old", "new"), DiffForm::SideBySide, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let [first, second] = lines[..] else { panic!("{text}") };
        assert_eq!(first, format!("{} | y", "x".repeat(78)));
        assert_eq!(second, format!("{:78} |", "x".repeat(22)));
    }
}
