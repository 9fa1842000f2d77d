//! Finds the directives of a check file.

use super::diagnostics::Failure;
use super::options::Options;
use super::pattern::{Declarations, Heading, Kind, Pattern};
use super::source::Source;

/// A positive directive with the `DAG` and `NOT` directives that precede it.
#[derive(Debug)]
pub(super) struct Directive<'a> {
    pub(super) pattern: Pattern<'a>,
    pub(super) preceding: Vec<Pattern<'a>>,
}

/// The prefixes to look for.
struct Prefixes {
    check: Vec<String>,
    comment: Vec<String>,
    is_default: bool,
}

impl Prefixes {
    fn new(options: &Options) -> Result<Self, Failure> {
        let or_default = |given: &[String], default: &[&str]| match given {
            [] => default.iter().map(|&p| p.to_owned()).collect(),
            given => given.to_vec(),
        };
        let prefixes = Self {
            check: or_default(&options.check_prefixes, &["CHECK"]),
            comment: or_default(&options.comment_prefixes, &["COM", "RUN"]),
            is_default: options.check_prefixes.is_empty(),
        };
        prefixes.validate(options)?;
        Ok(prefixes)
    }

    /// Checks the spelling of the prefixes that were given, and that all differ.
    fn validate(&self, options: &Options) -> Result<(), Failure> {
        let mut seen: Vec<&str> = Vec::new();
        if options.check_prefixes.is_empty() {
            seen.push("CHECK");
        }
        if options.comment_prefixes.is_empty() {
            seen.extend(["COM", "RUN"]);
        }
        let given = [("check", &options.check_prefixes), ("comment", &options.comment_prefixes)];
        for (role, prefixes) in given {
            for prefix in prefixes {
                if prefix.is_empty() {
                    return Err(Failure::usage(format!(
                        "error: supplied {role} prefix must not be the empty string"
                    )));
                }
                let is_word = prefix.starts_with(|c: char| c.is_ascii_alphabetic())
                    && prefix.bytes().all(is_prefix_byte);
                if !is_word {
                    return Err(Failure::usage(format!(
                        "error: supplied {role} prefix must start with a letter and contain only \
                         alphanumeric characters, hyphens, and underscores: '{prefix}'"
                    )));
                }
                if seen.contains(&prefix.as_str()) {
                    return Err(Failure::usage(format!(
                        "error: supplied {role} prefix must be unique among check and comment \
                         prefixes: '{prefix}'"
                    )));
                }
                seen.push(prefix);
            }
        }
        Ok(())
    }
}

fn is_prefix_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// What follows a prefix.
enum Suffix {
    Directive {
        kind: Kind,
        literal: bool,
        /// As messages show it: `-NEXT`, `{LITERAL}`.
        shown: String,
        /// Bytes up to and with the colon.
        length: usize,
    },
    Misspelled {
        length: usize,
    },
    BadCount {
        at: usize,
    },
    BadNot,
    None,
}

const KINDS: [(&str, Kind); 7] = [
    ("", Kind::Plain),
    ("NEXT", Kind::Next),
    ("SAME", Kind::Same),
    ("NOT", Kind::Not),
    ("DAG", Kind::Dag),
    ("LABEL", Kind::Label),
    ("EMPTY", Kind::Empty),
];
const NOT_COMBINATIONS: [&str; 8] = [
    "DAG-NOT",
    "NOT-DAG",
    "NEXT-NOT",
    "NOT-NEXT",
    "SAME-NOT",
    "NOT-SAME",
    "EMPTY-NOT",
    "NOT-EMPTY",
];

impl Suffix {
    fn parse(text: &str) -> Self {
        let (body, misspelled) = match text.bytes().next() {
            Some(b'-') => (&text[1..], false),
            Some(b'_') => (&text[1..], true),
            Some(b':' | b'{') => return Self::ending(Kind::Plain, "", text, 0),
            _ => return Self::None,
        };
        let word = body.bytes().take_while(|&b| is_prefix_byte(b)).count();
        let (word, after) = body.split_at(word);
        let length = 1 + word.len();
        let suffix = if let Some(count) = word.strip_prefix("COUNT-") {
            let digits = count.bytes().take_while(u8::is_ascii_digit).count();
            let at = 1 + "COUNT-".len() + digits;
            match count[..digits].parse() {
                Ok(n) if n > 0 && digits == count.len() => {
                    match Self::ending(Kind::Count(n), "-COUNT", after, length) {
                        Self::None => Self::BadCount { at },
                        directive => directive,
                    }
                }
                _ => Self::BadCount { at },
            }
        } else if NOT_COMBINATIONS.contains(&word) && after.starts_with(':') {
            Self::BadNot
        } else {
            match KINDS.iter().find(|(name, _)| *name == word && !name.is_empty()) {
                Some((name, kind)) => Self::ending(*kind, &format!("-{name}"), after, length),
                None => Self::None,
            }
        };
        match suffix {
            Self::Directive { length, .. } if misspelled => Self::Misspelled { length },
            Self::BadCount { .. } | Self::BadNot if misspelled => Self::None,
            suffix => suffix,
        }
    }

    /// The end of a directive: an optional modifier and a colon.
    fn ending(kind: Kind, shown: &str, text: &str, length: usize) -> Self {
        let (modifier, after) = match text.strip_prefix('{').and_then(|t| t.split_once('}')) {
            Some((modifiers, after)) => {
                if modifiers.split(',').any(|m| m.trim() != "LITERAL") {
                    return Self::None;
                }
                ("{LITERAL}", after)
            }
            None => ("", text),
        };
        if !after.starts_with(':') {
            return Self::None;
        }
        Self::Directive {
            kind,
            literal: !modifier.is_empty(),
            shown: format!("{shown}{modifier}"),
            length: length + text.len() - after.len() + 1,
        }
    }
}

/// Reads the directives of `check`, in order. `implicit` are the sources of
/// `--implicit-check-not`, each with the range of its pattern.
pub(super) fn read<'a>(
    check: &'a Source,
    implicit: &'a [(Source, usize)],
    options: &Options,
    declarations: &mut Declarations,
) -> Result<Vec<Directive<'a>>, Failure> {
    let prefixes = Prefixes::new(options)?;
    let mut directives: Vec<Directive<'a>> = Vec::new();
    let mut preceding = implicit_patterns(implicit, options, declarations)?;
    let mut used: Vec<&str> = Vec::new();
    let text = check.text();
    let fail = |message: String, at: usize| Failure::usage_at(message, check, at);
    let mut at = 0;
    while let Some((start, prefix, is_comment)) = next_prefix(text, at, &prefixes) {
        let after = start + prefix.len();
        at = after + text[after..].bytes().take_while(|&b| is_prefix_byte(b)).count();
        let line_end = text[after..].find(['\n', '\r']).map_or(text.len(), |n| after + n);
        if is_comment {
            if text[after..].starts_with(':') {
                at = line_end;
            }
            continue;
        }
        let (kind, literal, shown, length) = match Suffix::parse(&text[after..line_end]) {
            Suffix::None => continue,
            Suffix::Misspelled { length } => {
                let spelt = &text[start..after + length];
                return Err(fail(format!("misspelled directive '{spelt}'"), start));
            }
            Suffix::BadNot => {
                let message = format!("unsupported -NOT combo on prefix '{prefix}'");
                return Err(fail(message, after + 1));
            }
            Suffix::BadCount { at } => {
                let message = format!("invalid count in -COUNT specification on prefix '{prefix}'");
                return Err(fail(message, after + at));
            }
            Suffix::Directive { kind, literal, shown, length } => (kind, literal, shown, length),
        };
        let mut pattern_start = after + length;
        if !(options.strict_whitespace && options.match_full_lines) {
            let body = &text[pattern_start..line_end];
            pattern_start += body.len() - body.trim_start_matches([' ', '\t']).len();
        }
        used.push(prefix);
        at = line_end;
        let heading =
            Heading { kind, prefix, name: format!("{prefix}{shown}"), is_literal: literal };
        let range = (pattern_start, line_end);
        let pattern = Pattern::parse(check, range, heading, options, declarations)?;
        if kind == Kind::Label && pattern.has_variable() {
            let message = format!("found '{prefix}-LABEL:' with variable definition or use");
            return Err(fail(message, start));
        }
        let follows = match kind {
            Kind::Next => Some("NEXT"),
            Kind::Same => Some("SAME"),
            Kind::Empty => Some("EMPTY"),
            _ => None,
        };
        if let (Some(follows), true) = (follows, directives.is_empty()) {
            let message = format!("found '{prefix}-{follows}' without previous '{prefix}: line");
            return Err(fail(message, start));
        }
        if matches!(kind, Kind::Dag | Kind::Not) {
            preceding.push(pattern);
            continue;
        }
        let next = implicit_patterns(implicit, options, declarations)?;
        directives.push(Directive { pattern, preceding: std::mem::replace(&mut preceding, next) });
    }
    require_use(&prefixes, &used, options)?;
    if !preceding.is_empty() {
        directives.push(Directive { pattern: Pattern::end_of_input(check), preceding });
    }
    Ok(directives)
}

fn implicit_patterns<'a>(
    implicit: &'a [(Source, usize)],
    options: &Options,
    declarations: &mut Declarations,
) -> Result<Vec<Pattern<'a>>, Failure> {
    let parse = |(source, start): &'a (Source, usize)| {
        // The closing quote is not part of the pattern.
        let range = (*start, source.text().len() - 1);
        let heading = Heading {
            kind: Kind::Not,
            prefix: "IMPLICIT-CHECK",
            name: "IMPLICIT-CHECK-NOT".to_owned(),
            is_literal: false,
        };
        Pattern::parse(source, range, heading, options, declarations)
    };
    implicit.iter().map(parse).collect()
}

/// The next prefix at or after `from`, the longest one that starts there.
fn next_prefix<'p>(
    text: &str,
    from: usize,
    prefixes: &'p Prefixes,
) -> Option<(usize, &'p str, bool)> {
    let checks = prefixes.check.iter().map(|p| (p.as_str(), false));
    let comments = prefixes.comment.iter().map(|p| (p.as_str(), true));
    checks
        .chain(comments)
        .filter_map(|(prefix, is_comment)| {
            let start = text[from..]
                .match_indices(prefix)
                .map(|(at, _)| from + at)
                .find(|&at| !text[..at].bytes().next_back().is_some_and(is_prefix_byte))?;
            Some((start, prefix, is_comment))
        })
        .min_by_key(|&(start, prefix, _)| (start, std::cmp::Reverse(prefix.len())))
}

/// Every prefix that was asked for must occur.
fn require_use(prefixes: &Prefixes, used: &[&str], options: &Options) -> Result<(), Failure> {
    let unused: Vec<String> = prefixes
        .check
        .iter()
        .filter(|prefix| !used.contains(&prefix.as_str()))
        .map(|prefix| format!("'{prefix}:'"))
        .collect();
    let allowed = if prefixes.is_default {
        !options.implicit_check_not.is_empty()
    } else {
        options.allow_unused_prefixes && !used.is_empty()
    };
    if unused.is_empty() || allowed {
        return Ok(());
    }
    let plural = if unused.len() > 1 { "es" } else { "" };
    Err(Failure::usage(format!(
        "error: no check strings found with prefix{plural} {}",
        unused.join(", ")
    )))
}
