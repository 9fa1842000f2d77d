//! Differences of two texts, one above the other or side by side.

mod lines;
mod numbers;

use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;

use rustc_hash::FxHasher;
use similar::{DiffOp, group_diff_ops};

pub use numbers::Stages;

/// How a difference is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiffForm {
    /// Lines that go above lines that come, as `diff -u` writes them.
    Unified,
    /// Old lines beside new ones: `<` marks those that go, `>` those that come, `|` others.
    SideBySide {
        /// Columns of all of it; at least 23 are taken.
        columns: usize,
    },
}

/// Equal lines around those that differ.
const CONTEXT: usize = 3;

/// Columns of one side at least.
const LEAST_WIDTH: usize = 10;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const RESET: &str = "\x1b[0m";

/// Writes how `new` differs from `old`, under `titles`.
///
/// Texts are compared with the numbers that the values of `new` have in `old` ([`Stages`]), and so
/// they are shown: what is only renumbered is no difference. Returns whether there is one; where
/// there is none, nothing is written.
///
/// # Errors
/// Those of writing to `out`.
pub fn write_diff(
    (old, new): (&str, &str),
    titles: (&str, &str),
    form: DiffForm,
    coloured: bool,
    out: &mut dyn io::Write,
) -> io::Result<bool> {
    let mut stages = Stages::new(old);
    let new = stages.next(new);
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let hunks = hunks(&old, &new);
    if hunks.is_empty() {
        return Ok(false);
    }
    match form {
        DiffForm::Unified => unified((&old, &new), &hunks, titles, coloured, out)?,
        DiffForm::SideBySide { columns } => {
            let width = (columns.saturating_sub(3) / 2).max(LEAST_WIDTH);
            side_by_side((&old, &new), &hunks, titles, &mut Rows { width, coloured, out })?;
        }
    }
    Ok(true)
}

/// The parts that differ, each with the equal lines around it.
fn hunks(old: &[&str], new: &[&str]) -> Vec<Vec<DiffOp>> {
    let hash = |line: &&str| {
        let mut hasher = FxHasher::default();
        line.hash(&mut hasher);
        hasher.finish()
    };
    let hashes = [old, new].map(|lines| lines.iter().map(hash).collect::<Vec<u64>>());
    let ops = lines::parts(&hashes[0], &hashes[1]).into_iter().map(|part| {
        let (old_index, new_index) = (part.old.start, part.new.start);
        let (old_len, new_len) = (part.old.len(), part.new.len());
        match part.same {
            true => DiffOp::Equal { old_index, new_index, len: old_len },
            false => DiffOp::Replace { old_index, old_len, new_index, new_len },
        }
    });
    group_diff_ops(ops.collect(), CONTEXT)
}

fn unified(
    (old, new): (&[&str], &[&str]),
    hunks: &[Vec<DiffOp>],
    titles: (&str, &str),
    coloured: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (red, green, reset) = if coloured { (RED, GREEN, RESET) } else { ("", "", "") };
    writeln!(out, "{red}--- {}{reset}\n{green}+++ {}{reset}", titles.0, titles.1)?;
    for hunk in hunks {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let before = place(first.old_range().start..last.old_range().end);
        let after = place(first.new_range().start..last.new_range().end);
        writeln!(out, "@@ -{before} +{after} @@")?;
        for op in hunk {
            if let DiffOp::Equal { .. } = op {
                old[op.old_range()].iter().try_for_each(|line| writeln!(out, " {line}"))?;
                continue;
            }
            for line in &old[op.old_range()] {
                writeln!(out, "{red}-{line}{reset}")?;
            }
            for line in &new[op.new_range()] {
                writeln!(out, "{green}+{line}{reset}")?;
            }
        }
    }
    Ok(())
}

/// A range of lines as `diff -u` writes it.
fn place(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn side_by_side(
    (old, new): (&[&str], &[&str]),
    hunks: &[Vec<DiffOp>],
    titles: (&str, &str),
    rows: &mut Rows<'_>,
) -> io::Result<()> {
    rows.write(Some(titles.0), ' ', Some(titles.1))?;
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            rows.write(Some("..."), ' ', Some("..."))?;
        }
        for op in hunk {
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
    /// Columns of each side.
    width: usize,
    coloured: bool,
    out: &'o mut dyn io::Write,
}

impl Rows<'_> {
    /// Writes two lines beside each other; what is too long goes on below.
    fn write(&mut self, left: Option<&str>, mark: char, right: Option<&str>) -> io::Result<()> {
        let width = self.width;
        let (left, right) = (pieces(left, width), pieces(right, width));
        for index in 0..left.len().max(right.len()) {
            let side = |pieces: &[String]| pieces.get(index).cloned().unwrap_or_default();
            let (left, right) = (side(&left), side(&right));
            let (red, green, reset) = match self.coloured && mark != ' ' {
                true => (RED, GREEN, RESET),
                false => ("", "", ""),
            };
            let row = format!("{red}{left:width$}{reset} {mark} {green}{right}{reset}");
            writeln!(self.out, "{}", row.trim_end())?;
        }
        Ok(())
    }
}

/// `line` in pieces of `width` columns.
fn pieces(line: Option<&str>, width: usize) -> Vec<String> {
    let characters: Vec<char> = line.unwrap_or_default().chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(width).map(|piece| piece.iter().collect()).collect()
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
        let beside = shown(DiffForm::SideBySide { columns: 159 });
        let row = format!("\x1b[31m{:78}\x1b[0m | \x1b[32mx\x1b[0m\n", "b");
        assert!(beside.contains(&row), "{beside:?}");
        assert!(beside.starts_with("old "), "{beside:?}");
    }

    #[test]
    fn long_lines_go_on_below() {
        let (old, new) = ("x".repeat(60), "y".to_string());
        let form = DiffForm::SideBySide { columns: 80 };
        let mut out = Vec::new();
        write_diff((&old, &new), ("old", "new"), form, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let [first, second] = lines[..] else { panic!("{text}") };
        assert_eq!(first, format!("{} | y", "x".repeat(38)));
        assert_eq!(second, format!("{:38} |", "x".repeat(22)));
    }

    #[test]
    fn what_is_only_renumbered_is_no_difference() {
        let (old, new) = ("%1 = f(%x)\ng(%1)\n", "%0 = f(%x)\ng(%0)\n");
        let mut out = Vec::new();
        let titles = ("old", "new");
        let differ = write_diff((old, new), titles, DiffForm::Unified, false, &mut out).unwrap();
        assert_eq!((differ, out), (false, vec![]));
    }
}
