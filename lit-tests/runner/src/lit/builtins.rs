//! The shell's own commands.

use std::fs;
use std::io;
use std::path::Path;

use super::command::{Commands, Io};
use super::diff::diff;
use super::shell::read_file;

/// Adds every command of this file.
pub(super) fn register(commands: &mut Commands) {
    commands.register("cat", cat);
    commands.register("count", count);
    commands.register("cp", copy);
    commands.register("diff", diff);
    commands.register("echo", echo);
    commands.register("false", |_: &[String], _: &mut Io| 1);
    commands.register("mkdir", make_directories);
    commands.register("printf", printf);
    commands.register("rm", remove);
    commands.register("touch", touch);
    commands.register("true", |_: &[String], _: &mut Io| 0);
}

/// Options (leading words that start with `-` and more) and operands.
pub(super) fn split_options(arguments: &[String]) -> (&[String], &[String]) {
    let options = arguments.iter().take_while(|a| a.len() > 1 && a.starts_with('-')).count();
    arguments.split_at(options)
}

/// The bytes of a file, or of standard input for `-`; complains otherwise.
pub(super) fn read_operand(command: &str, file: &str, io: &mut Io) -> Option<Vec<u8>> {
    if file == "-" {
        return Some(io.take_stdin());
    }
    match read_file(&io.directory().join(file)) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            io.print_error(&format!("{command}: {file}: {error}\n"));
            None
        }
    }
}

fn cat(arguments: &[String], io: &mut Io) -> i32 {
    let standard_input = ["-".to_owned()];
    let files = if arguments.is_empty() { &standard_input } else { arguments };
    let mut status = 0;
    for file in files {
        match read_operand("cat", file, io) {
            Some(bytes) => io.stdout().extend(bytes),
            None => status = 1,
        }
    }
    status
}

/// Succeeds if standard input has the given number of lines.
fn count(arguments: &[String], io: &mut Io) -> i32 {
    let input = io.take_stdin();
    let newlines = input.iter().filter(|&&byte| byte == b'\n').count();
    let lines = newlines + usize::from(input.last().is_some_and(|&byte| byte != b'\n'));
    match arguments {
        [expected] => match expected.parse::<usize>() {
            Ok(expected) if expected == lines => return 0,
            Ok(expected) => {
                io.print_error(&format!("count: expected {expected} lines, found {lines}\n"))
            }
            Err(_) => io.print_error(&format!("count: expected a number, found '{expected}'\n")),
        },
        _ => io.print_error("count: expected one argument, the number of lines\n"),
    }
    1
}

fn echo(arguments: &[String], io: &mut Io) -> i32 {
    let mut newline = true;
    let mut escapes = false;
    let mut words = arguments;
    while let Some((option, rest)) = words.split_first() {
        match option.as_str() {
            "-n" => newline = false,
            "-e" => escapes = true,
            "-ne" | "-en" => (newline, escapes) = (false, true),
            _ => break,
        }
        words = rest;
    }
    let text = words.join(" ");
    let text = if escapes { unescape(&text) } else { text };
    io.print(&text);
    if newline {
        io.print("\n");
    }
    0
}

/// The format's escapes are resolved; each `%s` or `%d` takes an argument.
fn printf(arguments: &[String], io: &mut Io) -> i32 {
    let Some((format, arguments)) = arguments.split_first() else {
        io.print_error("printf: expected a format\n");
        return 1;
    };
    let mut arguments = arguments.iter();
    let format = unescape(format);
    let mut chars = format.chars();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('s' | 'd') => text.push_str(arguments.next().map_or("", String::as_str)),
            Some('%') => text.push('%'),
            other => {
                let found = other.map_or("the end".to_owned(), |c| format!("'%{c}'"));
                io.print_error(&format!("printf: expected %s, %d or %%, found {found}\n"));
                return 1;
            }
        }
    }
    io.print(&text);
    0
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('0') => plain.push('\0'),
            Some('\\') => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Applies `act` to each operand; complains about each that fails.
fn for_each_path(
    command: &str,
    files: &[String],
    io: &mut Io,
    act: impl Fn(&Path) -> io::Result<()>,
) -> i32 {
    let mut status = 0;
    for file in files {
        if let Err(error) = act(&io.directory().join(file)) {
            io.print_error(&format!("{command}: {file}: {error}\n"));
            status = 1;
        }
    }
    status
}

fn make_directories(arguments: &[String], io: &mut Io) -> i32 {
    let (options, paths) = split_options(arguments);
    let parents = options.iter().any(|option| option == "-p");
    for_each_path("mkdir", paths, io, |path| {
        if parents { fs::create_dir_all(path) } else { fs::create_dir(path) }
    })
}

fn remove(arguments: &[String], io: &mut Io) -> i32 {
    let (options, paths) = split_options(arguments);
    let has = |letter: char| options.iter().any(|option| option.contains(letter));
    let (force, recursive) = (has('f'), has('r') || has('R'));
    for_each_path("rm", paths, io, |path| {
        let removed = if recursive && path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        match removed {
            Err(error) if force && error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    })
}

fn touch(arguments: &[String], io: &mut Io) -> i32 {
    for_each_path("touch", arguments, io, |path| {
        fs::OpenOptions::new().append(true).create(true).open(path).map(|_| ())
    })
}

fn copy(arguments: &[String], io: &mut Io) -> i32 {
    let [from, to] = arguments else {
        io.print_error("cp: expected two files\n");
        return 1;
    };
    let mut target = io.directory().join(to);
    if target.is_dir()
        && let Some(name) = Path::new(from).file_name()
    {
        target.push(name);
    }
    let from = std::slice::from_ref(from);
    for_each_path("cp", from, io, |path| fs::copy(path, &target).map(|_| ()))
}
