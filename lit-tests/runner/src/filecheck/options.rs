//! The options of FileCheck.

/// How checks are read and matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Prefixes of directives. Empty means `CHECK`.
    pub check_prefixes: Vec<String>,
    /// Prefixes of lines that are never directives. Empty means `COM` and `RUN`.
    pub comment_prefixes: Vec<String>,
    /// Patterns that must not occur between positive matches.
    pub implicit_check_not: Vec<String>,
    /// Definitions as written after `-D`: `NAME=TEXT` or `#NAME=EXPRESSION`.
    pub definitions: Vec<String>,
    /// Positive patterns must match whole lines.
    pub match_full_lines: bool,
    /// Spaces and tabs are matched exactly.
    pub strict_whitespace: bool,
    /// An empty input is not an error.
    pub allow_empty: bool,
    /// A given prefix need not occur.
    pub allow_unused_prefixes: bool,
    /// Variables whose name does not start with `$` end at each `CHECK-LABEL`.
    pub enable_var_scope: bool,
    /// Letters match in either case.
    pub ignore_case: bool,
    /// Matches of neighbouring `CHECK-DAG`s may overlap.
    pub allow_deprecated_dag_overlap: bool,
}

/// A command line: the options, and the files they apply to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// How to match.
    pub options: Options,
    /// The file with the directives.
    pub check_file: String,
    /// The text to check; nothing or `-` is standard input.
    pub input_file: Option<String>,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Check an input.
    Check(CommandLine),
    /// Print [`USAGE`].
    Help,
    /// Print the version.
    Version,
}

/// The text of `--help`.
pub const USAGE: &str = "\
USAGE: relay-filecheck [options] <check-file>

Checks that the input satisfies the directives in the check file.
Every option may be spelt with one dash or two; VALUE may follow as its own word.

  -D<NAME>=<TEXT>                 define a string variable
  -D#<FORMAT,NAME>=<EXPRESSION>   define a numeric variable
  --allow-deprecated-dag-overlap  let matches of CHECK-DAG overlap
  --allow-empty                   accept an empty input
  --allow-unused-prefixes         accept a check prefix that does not occur
  --check-prefix=<NAME>           prefix of directives (default CHECK); repeatable
  --check-prefixes=<A,B>          the same, several at once
  --comment-prefixes=<A,B>        prefixes of comments (default COM,RUN)
  --enable-var-scope              variables without $ end at CHECK-LABEL
  --ignore-case                   match letters in either case
  --implicit-check-not=<PATTERN>  pattern that must not occur between matches
  --input-file=<FILE>             the input (default: standard input)
  --match-full-lines              positive patterns match whole lines
  --strict-whitespace             match spaces and tabs exactly
  --help, --version

Accepted so that command lines for LLVM's FileCheck work, without effect:
  --color, --dump-input=, --dump-input-context=, --dump-input-filter=, -v, -vv

Exit status: 0 the checks hold, 1 they do not, 2 wrong usage or check file.
The environment variable FILECHECK_OPTS holds options to read first.
";

/// Parses the arguments after the program's name.
///
/// # Errors
/// A message about an option that is unknown or lacks its value, or about a
/// number of check files other than one.
pub fn parse(arguments: &[String]) -> Result<Request, String> {
    let mut line = CommandLine::default();
    let mut check_files = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(option) = argument.strip_prefix('-').filter(|o| !o.is_empty()) else {
            check_files.push(argument.clone());
            continue;
        };
        if let Some(definition) = option.trim_start_matches('-').strip_prefix('D') {
            if definition.is_empty() {
                return Err("for the -D option: requires a value!".to_owned());
            }
            line.options.definitions.push(definition.to_owned());
            continue;
        }
        let option = option.strip_prefix('-').unwrap_or(option);
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        if let Some(flag) = flag(&mut line.options, name) {
            *flag = match inline.as_deref() {
                None | Some("true" | "1") => true,
                Some("false" | "0") => false,
                Some(value) => {
                    return Err(format!("--{name}: expected true or false, found '{value}'"));
                }
            };
            continue;
        }
        match name {
            "help" | "h" => return Ok(Request::Help),
            "version" => return Ok(Request::Version),
            "v" | "vv" | "color" => continue,
            "check-prefix" | "check-prefixes" | "comment-prefixes" | "implicit-check-not"
            | "input-file" | "dump-input" | "dump-input-context" | "dump-input-filter" => {}
            _ => return Err(format!("Unknown command line argument '{argument}'")),
        }
        let value = match inline {
            Some(value) => value,
            None => rest.next().cloned().ok_or(format!("--{name}: expected a value after it"))?,
        };
        let options = &mut line.options;
        match name {
            "check-prefix" | "check-prefixes" => {
                options.check_prefixes.extend(value.split(',').map(str::to_owned));
            }
            "comment-prefixes" => {
                options.comment_prefixes.extend(value.split(',').map(str::to_owned));
            }
            "implicit-check-not" => options.implicit_check_not.push(value),
            "input-file" => line.input_file = Some(value).filter(|file| file != "-"),
            _ => {}
        }
    }
    match <[String; 1]>::try_from(check_files) {
        Ok([file]) => line.check_file = file,
        Err(files) if files.is_empty() => return Err("<check-file> not specified".to_owned()),
        Err(files) => return Err(format!("expected one check file, found {}", files.len())),
    }
    Ok(Request::Check(line))
}

fn flag<'a>(options: &'a mut Options, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "allow-deprecated-dag-overlap" => &mut options.allow_deprecated_dag_overlap,
        "allow-empty" => &mut options.allow_empty,
        "allow-unused-prefixes" => &mut options.allow_unused_prefixes,
        "enable-var-scope" => &mut options.enable_var_scope,
        "ignore-case" => &mut options.ignore_case,
        "match-full-lines" => &mut options.match_full_lines,
        "strict-whitespace" => &mut options.strict_whitespace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Request, String> {
        parse(&arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_dash_or_two_and_values_inline_or_not() {
        let expected =
            parsed(&["--check-prefix=A", "--allow-empty", "-DX=1", "t", "--input-file=i"]);
        let found =
            parsed(&["t", "-check-prefix", "A", "-allow-empty", "--DX=1", "-input-file", "i"]);
        assert!(expected.is_ok());
        assert_eq!(expected, found);
    }

    #[test]
    fn wrong_command_lines_are_errors() {
        for arguments in [
            &["t", "--nope"][..],
            &[],
            &["a", "b"],
            &["t", "--check-prefix"],
            &["t", "--allow-empty=x"],
        ] {
            assert!(parsed(arguments).is_err(), "{arguments:?}");
        }
    }
}
