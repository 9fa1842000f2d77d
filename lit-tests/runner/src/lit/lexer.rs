//! Words and operators of a `RUN:` line.

/// One token of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, its quotes resolved.
    Word(String),
    /// `|`, `&&`, `||`, `;` or `!`.
    Operator(&'static str),
    /// A redirection operator; the file, if any, is the next word.
    Redirect(Redirect),
}

/// A redirection operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// `<`
    Input,
    /// `>`, `>>`, `2>` or `2>>`
    Output { errors: bool, append: bool },
    /// `&>`: both streams
    Both,
    /// `2>&1`
    ErrorsToOutput,
    /// `1>&2` or `>&2`
    OutputToErrors,
}

/// Operators, longest first.
const OPERATORS: [(&str, Token); 17] = {
    const fn output(errors: bool, append: bool) -> Token {
        Token::Redirect(Redirect::Output { errors, append })
    }
    [
        ("2>&1", Token::Redirect(Redirect::ErrorsToOutput)),
        ("1>&2", Token::Redirect(Redirect::OutputToErrors)),
        (">&2", Token::Redirect(Redirect::OutputToErrors)),
        ("2>>", output(true, true)),
        ("1>>", output(false, true)),
        ("2>", output(true, false)),
        ("1>", output(false, false)),
        (">>", output(false, true)),
        ("&>", Token::Redirect(Redirect::Both)),
        (">", output(false, false)),
        ("<", Token::Redirect(Redirect::Input)),
        ("&&", Token::Operator("&&")),
        ("||", Token::Operator("||")),
        ("|", Token::Operator("|")),
        (";", Token::Operator(";")),
        ("&", Token::Operator("&")),
        ("(", Token::Operator("(")),
    ]
};

/// Splits a line into tokens.
///
/// # Errors
/// A quote that does not end, or shell syntax that is not supported.
pub(super) fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(tokens);
        }
        if let Some((spelling, token)) = OPERATORS.iter().find(|(s, _)| rest.starts_with(s)) {
            if matches!(token, Token::Operator("&" | "(")) {
                return Err(format!(
                    "expected a command, found '{spelling}': background jobs and subshells are not supported"
                ));
            }
            tokens.push(token.clone());
            rest = &rest[spelling.len()..];
            continue;
        }
        let (word, quoted, after) = word(rest)?;
        if word == "!" && !quoted {
            tokens.push(Token::Operator("!"));
        } else {
            tokens.push(Token::Word(word));
        }
        rest = after;
    }
}

/// The word at the start of `text`, whether it has quotes, and the rest.
fn word(text: &str) -> Result<(String, bool, &str), String> {
    let mut word = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c.is_whitespace() || "|&;<>(".contains(c) => {
                return Ok((word, quoted, &text[at..]));
            }
            '\'' => {
                quoted = true;
                loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.push(c),
                        None => {
                            return Err(
                                "expected a closing ', found the end of the line".to_owned()
                            );
                        }
                    }
                }
            }
            '"' => {
                quoted = true;
                loop {
                    match chars.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match chars.next() {
                            Some((_, c @ ('"' | '\\' | '$' | '`'))) => word.push(c),
                            Some((_, c)) => word.extend(['\\', c]),
                            None => {}
                        },
                        Some((_, c)) => word.push(c),
                        None => {
                            return Err(
                                "expected a closing \", found the end of the line".to_owned()
                            );
                        }
                    }
                }
            }
            '\\' => {
                quoted = true;
                word.extend(chars.next().map(|(_, c)| c));
            }
            c => word.push(c),
        }
    }
    Ok((word, quoted, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Token {
        Token::Word(text.to_owned())
    }

    #[test]
    fn quotes_group_and_backslashes_escape() {
        let found = tokens(r#"a 'b c' "d \" \n" e\ f g'h'i '' "#);
        let expected = ["a", "b c", "d \" \\n", "e f", "ghi", ""].map(word);
        assert_eq!(found, Ok(expected.to_vec()));
    }

    #[test]
    fn operators_need_no_spaces() {
        let found = tokens("a<b|c 2>&1>d&&! e 2> f");
        let expected = vec![
            word("a"),
            Token::Redirect(Redirect::Input),
            word("b"),
            Token::Operator("|"),
            word("c"),
            Token::Redirect(Redirect::ErrorsToOutput),
            Token::Redirect(Redirect::Output { errors: false, append: false }),
            word("d"),
            Token::Operator("&&"),
            Token::Operator("!"),
            word("e"),
            Token::Redirect(Redirect::Output { errors: true, append: false }),
            word("f"),
        ];
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn unsupported_syntax_is_an_error() {
        for line in ["'a", "\"a", "a & b", "(a)"] {
            assert!(tokens(line).is_err(), "{line}");
        }
    }
}
