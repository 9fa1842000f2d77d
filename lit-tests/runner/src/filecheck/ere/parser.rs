//! Parser of extended regular expressions, straight to machine code.

use super::machine::{Instruction, Set};

/// Largest count of a repeat, as in LLVM.
const MAX_REPEAT: usize = 255;
/// Largest program, so that nested counted repeats cannot exhaust memory.
const MAX_PROGRAM: usize = 100_000;

/// A parsed expression.
pub(super) struct Parsed {
    pub(super) program: Vec<Instruction>,
    pub(super) groups: usize,
    /// In the syntax of the `regex` crate, an expression that matches wherever
    /// this one does.
    pub(super) superset: String,
}

/// A piece of program with the same piece in the syntax of the `regex` crate.
#[derive(Default)]
struct Fragment {
    code: Vec<Instruction>,
    superset: String,
}

impl Fragment {
    fn new(instruction: Instruction, superset: impl Into<String>) -> Self {
        Self { code: vec![instruction], superset: superset.into() }
    }

    fn append(&mut self, other: Fragment) {
        self.code.extend(other.code);
        self.superset.push_str(&other.superset);
    }
}

/// An open parenthesis, or the whole expression.
#[derive(Default)]
struct Frame {
    group: usize,
    alternatives: Vec<Fragment>,
    sequence: Fragment,
    /// The last atom, to which a repetition operator may apply.
    atom: Option<Atom>,
    is_empty: bool,
}

struct Atom {
    fragment: Fragment,
    repeatable: bool,
}

impl Frame {
    fn open(group: usize) -> Self {
        Self { group, is_empty: true, ..Self::default() }
    }

    fn push(&mut self, fragment: Fragment, repeatable: bool) {
        self.flush();
        self.atom = Some(Atom { fragment, repeatable });
        self.is_empty = false;
    }

    fn flush(&mut self) {
        if let Some(atom) = self.atom.take() {
            self.sequence.append(atom.fragment);
        }
    }

    fn end_alternative(&mut self) -> Result<(), String> {
        if self.is_empty {
            return Err(EMPTY.to_owned());
        }
        self.flush();
        self.alternatives.push(std::mem::take(&mut self.sequence));
        self.is_empty = true;
        Ok(())
    }

    /// All alternatives as one fragment.
    fn close(mut self) -> Result<Fragment, String> {
        // `()` alone is the empty group; `(a|)` is an error.
        if self.is_empty && self.alternatives.is_empty() {
            return Ok(Fragment::default());
        }
        self.end_alternative()?;
        let mut choice = self.alternatives.pop().unwrap_or_default();
        for alternative in self.alternatives.into_iter().rev() {
            let (first, second) = (alternative.code.len(), choice.code.len());
            let mut code = vec![Instruction::Split(1, offset(first + 2))];
            code.extend(alternative.code);
            code.push(Instruction::Jump(offset(second + 1)));
            code.extend(choice.code);
            check_size(code.len())?;
            choice = Fragment {
                code,
                superset: format!("{}|{}", alternative.superset, choice.superset),
            };
        }
        Ok(choice)
    }
}

const EMPTY: &str = "empty (sub)expression";
const PARENTHESES: &str = "parentheses not balanced";
const BRACKETS: &str = "brackets ([ ]) not balanced";
const BAD_REPEAT: &str = "repetition-operator operand invalid";
const BAD_COUNT: &str = "invalid repetition count(s)";

fn offset(length: usize) -> isize {
    // Programs are shorter than MAX_PROGRAM.
    isize::try_from(length).unwrap_or(isize::MAX)
}

fn check_size(length: usize) -> Result<(), String> {
    if length > MAX_PROGRAM {
        return Err("regular expression too big".to_owned());
    }
    Ok(())
}

struct Cursor {
    chars: Vec<char>,
    at: usize,
}

impl Cursor {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_second(&self) -> Option<char> {
        self.chars.get(self.at + 1).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn eat_all(&mut self, text: &str) -> bool {
        let found = self.chars[self.at..].iter().copied().take(text.len()).eq(text.chars());
        if found {
            self.at += text.len();
        }
        found
    }

    fn number(&mut self) -> Option<usize> {
        let mut value: Option<usize> = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            let grown = value.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize);
            value = Some(grown);
            self.at += 1;
        }
        value
    }
}

/// Parses `pattern`; the error is POSIX's wording.
pub(super) fn parse(pattern: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor { chars: pattern.chars().collect(), at: 0 };
    let mut groups = 0;
    let mut closed: Vec<usize> = Vec::new();
    let mut outer: Vec<Frame> = Vec::new();
    let mut frame = Frame::open(0);
    while let Some(c) = cursor.next() {
        match c {
            '(' => {
                groups += 1;
                outer.push(std::mem::replace(&mut frame, Frame::open(groups)));
            }
            ')' => {
                let parent = outer.pop().ok_or(PARENTHESES)?;
                let inner = std::mem::replace(&mut frame, parent);
                let group = inner.group;
                let inner = inner.close()?;
                let mut code = vec![Instruction::Save(2 * group)];
                code.extend(inner.code);
                code.push(Instruction::Save(2 * group + 1));
                closed.push(group);
                let superset = format!("(?:{})", inner.superset);
                frame.push(Fragment { code, superset }, true);
            }
            '|' => frame.end_alternative()?,
            '*' | '+' | '?' => repeat(&mut frame, c, &mut cursor)?,
            '{' if cursor.peek().is_some_and(|c| c.is_ascii_digit()) => {
                repeat(&mut frame, c, &mut cursor)?;
            }
            '^' => frame.push(Fragment::new(Instruction::LineStart, "^"), false),
            '$' => frame.push(Fragment::new(Instruction::LineEnd, "$"), true),
            '.' => frame.push(Fragment::new(Instruction::Any, "[^\\n]"), true),
            '[' => frame.push(bracket(&mut cursor)?, true),
            '\\' => {
                let escaped = cursor.next().ok_or("trailing backslash (\\)")?;
                match escaped.to_digit(10) {
                    Some(group @ 1..) => {
                        let group = group as usize;
                        if !closed.contains(&group) {
                            return Err("invalid backreference number".to_owned());
                        }
                        let reference = Instruction::BackReference(group);
                        frame.push(Fragment::new(reference, "(?s:.*?)"), true);
                    }
                    _ => frame.push(literal(escaped), true),
                }
            }
            _ => frame.push(literal(c), true),
        }
        check_size(frame.sequence.code.len())?;
    }
    if !outer.is_empty() {
        return Err(PARENTHESES.to_owned());
    }
    if frame.is_empty {
        return Err(EMPTY.to_owned());
    }
    let Fragment { mut code, superset } = frame.close()?;
    code.push(Instruction::Match);
    Ok(Parsed { program: code, groups, superset })
}

fn literal(c: char) -> Fragment {
    Fragment::new(Instruction::Char(c), format!("\\x{{{:x}}}", c as u32))
}

/// Applies the operator `*`, `+`, `?` or `{` to the last atom of the frame.
fn repeat(frame: &mut Frame, operator: char, cursor: &mut Cursor) -> Result<(), String> {
    let atom = frame.atom.take().filter(|atom| atom.repeatable).ok_or(BAD_REPEAT)?;
    let (least, most) = match operator {
        '*' => (0, None),
        '+' => (1, None),
        '?' => (0, Some(1)),
        _ => counts(cursor)?,
    };
    let Fragment { code, superset } = atom.fragment;
    let copies = most.unwrap_or(least + 1);
    check_size(code.len().saturating_mul(copies + 1))?;
    let mut repeated = Vec::new();
    for _ in 0..least {
        repeated.extend(code.iter().cloned());
    }
    match most {
        None => {
            repeated.push(Instruction::Split(1, offset(code.len() + 2)));
            repeated.extend(code.iter().cloned());
            repeated.push(Instruction::Jump(-offset(code.len() + 1)));
        }
        Some(most) => {
            // Each optional copy skips to the end of all of them.
            for remaining in (1..=most - least).rev() {
                let end = remaining * (code.len() + 1);
                repeated.push(Instruction::Split(1, offset(end)));
                repeated.extend(code.iter().cloned());
            }
        }
    }
    let counts = match most {
        None => format!("{{{least},}}"),
        Some(most) => format!("{{{least},{most}}}"),
    };
    frame.push(Fragment { code: repeated, superset: format!("(?:{superset}){counts}") }, false);
    Ok(())
}

/// The counts of a bounded repeat, after its opening brace.
fn counts(cursor: &mut Cursor) -> Result<(usize, Option<usize>), String> {
    let least = cursor.number().unwrap_or(0);
    let most = if cursor.eat(',') { cursor.number() } else { Some(least) };
    if least > MAX_REPEAT || most.is_some_and(|most| most > MAX_REPEAT || most < least) {
        return Err(BAD_COUNT.to_owned());
    }
    if !cursor.eat('}') {
        let closes = cursor.chars[cursor.at..].contains(&'}');
        return Err(if closes { BAD_COUNT } else { "braces not balanced" }.to_owned());
    }
    Ok((least, most))
}

/// A bracket expression, after its opening bracket.
fn bracket(cursor: &mut Cursor) -> Result<Fragment, String> {
    if cursor.eat_all("[:<:]]") {
        return Ok(Fragment::new(Instruction::WordStart, ""));
    }
    if cursor.eat_all("[:>:]]") {
        return Ok(Fragment::new(Instruction::WordEnd, ""));
    }
    let negated = cursor.eat('^');
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut first = true;
    loop {
        let c = cursor.next().ok_or(BRACKETS)?;
        match c {
            ']' if !first => break,
            '[' if cursor.peek() == Some(':') => {
                cursor.at += 1;
                let name = delimited(cursor, ':')?;
                ranges.extend(class(&name).ok_or("invalid character class")?);
            }
            _ => {
                let low = element(c, cursor)?;
                let is_range =
                    cursor.peek() == Some('-') && cursor.peek_second().is_some_and(|c| c != ']');
                let high = if is_range {
                    cursor.at += 1;
                    let c = cursor.next().ok_or(BRACKETS)?;
                    element(c, cursor)?
                } else {
                    low
                };
                if low > high {
                    return Err("invalid character range".to_owned());
                }
                ranges.push((low, high));
            }
        }
        first = false;
    }
    let mut superset = if negated { "[^\\n" } else { "[" }.to_owned();
    for &(low, high) in &ranges {
        superset.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", low as u32, high as u32));
    }
    superset.push(']');
    Ok(Fragment::new(Instruction::Set(Set { negated, ranges }), superset))
}

/// A set member: a character, `[.c.]` or `[=c=]`.
fn element(c: char, cursor: &mut Cursor) -> Result<char, String> {
    let Some(delimiter) = cursor.peek().filter(|d| c == '[' && matches!(d, '.' | '=')) else {
        return Ok(c);
    };
    cursor.at += 1;
    let name = delimited(cursor, delimiter)?;
    let mut members = name.chars();
    match (members.next(), members.next()) {
        (Some(only), None) => Ok(only),
        _ => Err("invalid collating element".to_owned()),
    }
}

/// The text up to the delimiter and a closing bracket, which are consumed.
fn delimited(cursor: &mut Cursor, delimiter: char) -> Result<String, String> {
    let mut name = String::new();
    loop {
        let c = cursor.next().ok_or(BRACKETS)?;
        if c == delimiter && cursor.eat(']') {
            return Ok(name);
        }
        name.push(c);
    }
}

/// The ranges of a POSIX character class.
fn class(name: &str) -> Option<Vec<(char, char)>> {
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(ranges.to_vec())
}
