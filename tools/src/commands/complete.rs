//! The subcommand `complete`: what may stand at the end of a command line, for shells.
//!
//! Scripts that shells read would have to know what a pipeline is. They ask here instead, with the
//! command line up to the cursor, and the answer knows passes, their options, and plugins.

use std::io;

use clap::{Arg, Args, Command};
use ir_core::Registry;
use ir_core::pass::OptionField;

use crate::driver::codes;
use crate::driver::emit::FORMS;
use crate::process::exit::OK;
use crate::process::io::Io;
use relay::language::short_name;

/// Prints what may stand at the end of a command line: `files`, and `word WORD` for each word.
///
/// The scripts that `completions` prints ask this.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct Complete {
    /// The command line up to the cursor
    #[arg(allow_hyphen_values = true)]
    pub(crate) line: String,
}

/// Prints `files` where names of files may stand there, then the words that may, one to a line.
///
/// # Errors
/// Those of writing.
pub(crate) fn complete(
    args: &Complete,
    program: Command,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let found = candidates(&words(&args.line), program, registry);
    if found.files {
        writeln!(io.stdout, "files")?;
    }
    for word in found.words {
        writeln!(io.stdout, "word {word}")?;
    }
    Ok(OK)
}

/// What may stand at the end.
#[derive(Default)]
struct Candidates {
    words: Vec<String>,
    files: bool,
}

impl Candidates {
    /// Those of `words` that begin with `start`, behind `before`.
    fn of(before: &str, start: &str, words: impl IntoIterator<Item = String>) -> Candidates {
        let words = words.into_iter().filter(|word| word.starts_with(start));
        let mut words: Vec<String> = words.map(|word| format!("{before}{word}")).collect();
        words.sort();
        words.dedup();
        Candidates { words, files: false }
    }
}

/// The words of a command line, of which the last one is not complete: empty behind a blank.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut escaped) = (None, false);
    for c in line.chars() {
        let Some(word) = words.last_mut() else { break };
        match (quote, c) {
            _ if escaped => {
                word.push(c);
                escaped = false;
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (None, c) => word.push(c),
        }
    }
    words
}

/// What may stand in place of the last of `words`, the first of which is `program`.
fn candidates(words: &[String], mut program: Command, registry: &Registry) -> Candidates {
    program.build();
    let mut command = &program;
    let (mut expected, mut operands): (Option<&Arg>, usize) = (None, 0);
    let Some((last, before)) = words.split_last() else { return Candidates::default() };
    for word in before.iter().skip(1) {
        if expected.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            expected = option(command, word).filter(|arg| arg.get_action().takes_values());
            expected = expected.filter(|arg| !arg.is_require_equals_set());
        } else if let Some(inner) = command.find_subcommand(word).filter(|_| operands == 0) {
            command = inner;
        } else {
            operands += 1;
        }
    }
    if let Some(arg) = expected {
        return values(arg, "", last, registry);
    }
    if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        let arg = option(command, name);
        return arg.map_or_else(Candidates::default, |arg| {
            values(arg, &format!("{name}="), value, registry)
        });
    }
    if last.starts_with('-') {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let names = shown.filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        return Candidates::of("", last, names);
    }
    let mut found = match command.get_positionals().nth(operands) {
        Some(arg) => values(arg, "", last, registry),
        None => Candidates::default(),
    };
    if operands == 0 {
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let names = inner.map(|inner| inner.get_name().to_string());
        found.words.extend(Candidates::of("", last, names).words);
    }
    found
}

/// The option of `command` that is written as `word`.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let mut arguments = command.get_arguments();
    match word.strip_prefix("--") {
        Some(long) => arguments.find(|arg| arg.get_long() == Some(long)),
        None => arguments.find(|arg| {
            arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(&short.to_string()))
        }),
    }
}

/// What may stand as a value of `arg`, where `value` stands behind `before`.
fn values(arg: &Arg, before: &str, value: &str, registry: &Registry) -> Candidates {
    let all = |words: Vec<String>| Candidates::of(before, value, words);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_string).collect::<Vec<_>>();
    match arg.get_id().as_str() {
        "pass" => configured(
            before,
            value,
            passes(registry),
            &|name: &str| registry.find_pass(name).map_or(&[], |pass| pass.options),
            registry,
        ),
        "help_pass" => all(passes(registry)),
        "print_ir_before" | "print_ir_after" | "trace_rewrites" => {
            let start = value.rfind(',').map_or(0, |comma| comma + 1);
            let (head, name) = value.split_at(start);
            Candidates::of(&format!("{before}{head}"), name, passes(registry))
        }
        "help_op" => {
            let names = registry.ops().map(|info| info.def.name);
            // Relay's may go without their dialect.
            match value.starts_with("relay.") {
                true => all(owned(names.collect())),
                false => all(owned(names.map(short_name).collect())),
            }
        }
        "explain" => all(owned(codes::ALL.iter().map(|entry| entry.code).collect())),
        "target" => configured(
            before,
            value,
            targets(registry),
            &|name: &str| {
                let all = target_core::targets(registry).all();
                all.iter().find(|target| target.name == name).map_or(&[], |target| target.options)
            },
            registry,
        ),
        "emit" => all([owned(FORMS.to_vec()), targets(registry)].concat()),
        _ => {
            let known = arg.get_possible_values();
            let known: Vec<String> = known.iter().map(|v| v.get_name().to_string()).collect();
            let files = ["FILE", "DIR", "LIB", "INPUT", "MODEL", "MODELS", "FILES", "FOLDER"];
            let named = arg.get_value_names().and_then(|names| names.first());
            let takes_file = named.is_none_or(|name| files.contains(&name.to_uppercase().as_str()))
                || arg.is_positional();
            let files = known.is_empty() && takes_file;
            Candidates { files, ..all(known) }
        }
    }
}

fn passes(registry: &Registry) -> Vec<String> {
    let passes = registry.passes().map(|pass| pass.name);
    passes.chain(registry.pipelines().map(|pipeline| pipeline.name)).map(str::to_string).collect()
}

fn targets(registry: &Registry) -> Vec<String> {
    target_core::targets(registry).all().iter().map(|target| target.name.to_string()).collect()
}

/// What may stand at the end of `text`, a list of passes or targets with options: one of `names`,
/// an option of what is named, or a value of an option.
fn configured(
    before: &str,
    text: &str,
    names: Vec<String>,
    options: &dyn Fn(&str) -> &'static [OptionField],
    registry: &Registry,
) -> Candidates {
    let (mut start, mut name, mut depth) = (0, "", 0_usize);
    for (place, c) in text.char_indices() {
        match c {
            '{' | '[' if depth == 0 => (name, depth, start) = (&text[start..place], 1, place + 1),
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth <= 1 => start = place + 1,
            _ => {}
        }
    }
    let (head, word) = text.split_at(start);
    let before = format!("{before}{head}");
    match depth {
        0 => Candidates::of(&before, word, names),
        1 => option_of(&before, options(name.trim()), word, registry),
        // A value with parts of its own.
        _ => Candidates::default(),
    }
}

/// What may stand as an option, where `word` stands.
fn option_of(before: &str, options: &[OptionField], word: &str, registry: &Registry) -> Candidates {
    let Some((name, value)) = word.split_once('=') else {
        return Candidates::of(before, word, options.iter().map(|option| option.name.to_string()));
    };
    let words = match options.iter().find(|option| option.name == name) {
        Some(_) if name == "target" => targets(registry),
        Some(option) => choices(option.expects),
        None => vec![],
    };
    Candidates::of(&format!("{before}{name}="), value, words)
}

/// The words of which an option expects one, such as `dominator or search`; none where it expects
/// something else, which the reference names.
fn choices(expects: &str) -> Vec<String> {
    let words: Vec<&str> = expects.split(", ").flat_map(|part| part.split(" or ")).collect();
    let are_words = words.len() > 1 && words.iter().all(|word| !word.contains(' '));
    if are_words { words.into_iter().map(str::to_string).collect() } else { vec![] }
}
