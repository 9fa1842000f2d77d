//! The command `diff`.

use super::builtins::{read_operand, split_options};
use super::command::Io;

/// Compares two files; status 0 if equal, 1 if not, 2 on misuse.
///
/// Options: `-b` and `-w` compare runs of white space as one space, or not at
/// all; `-q` prints no lines; `-u` is accepted, as the output is always unified.
pub(super) fn diff(arguments: &[String], io: &mut Io) -> i32 {
    let (options, files) = split_options(arguments);
    let [old, new] = files else {
        io.print_error("diff: expected two files\n");
        return 2;
    };
    let (Some(old_bytes), Some(new_bytes)) =
        (read_operand("diff", old, io), read_operand("diff", new, io))
    else {
        return 2;
    };
    let has = |letter: char| options.iter().any(|option| option.contains(letter));
    let ignore_all = has('w');
    let ignore_runs = has('b') || ignore_all;
    if old_bytes == new_bytes {
        return 0;
    }
    let (old_text, new_text) =
        (String::from_utf8_lossy(&old_bytes), String::from_utf8_lossy(&new_bytes));
    let key = |line: &str| match (ignore_all, ignore_runs) {
        (true, _) => line.split_whitespace().collect::<String>(),
        (_, true) => line.split_whitespace().collect::<Vec<_>>().join(" "),
        _ => line.to_owned(),
    };
    let old_lines: Vec<&str> = old_text.split('\n').collect();
    let new_lines: Vec<&str> = new_text.split('\n').collect();
    let same = |a: &&str, b: &&str| key(a) == key(b);
    let shared =
        |a: &mut dyn Iterator<Item = (&&str, &&str)>| a.take_while(|(a, b)| same(a, b)).count();
    let prefix = shared(&mut old_lines.iter().zip(&new_lines));
    if prefix == old_lines.len() && prefix == new_lines.len() {
        return 0;
    }
    let suffix =
        shared(&mut old_lines[prefix..].iter().rev().zip(new_lines[prefix..].iter().rev()));
    if !has('q') {
        let removed = &old_lines[prefix..old_lines.len() - suffix];
        let added = &new_lines[prefix..new_lines.len() - suffix];
        let mut text = format!("--- {old}\n+++ {new}\n");
        text +=
            &format!("@@ -{},{} +{},{} @@\n", prefix + 1, removed.len(), prefix + 1, added.len());
        text.extend(removed.iter().map(|line| format!("-{line}\n")));
        text.extend(added.iter().map(|line| format!("+{line}\n")));
        io.print(&text);
    }
    1
}
