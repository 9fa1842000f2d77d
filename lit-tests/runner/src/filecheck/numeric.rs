//! Numeric variables, their formats, and expressions over them.

use std::collections::BTreeMap;

/// The value of a numeric variable. LLVM's are unbounded; ours end at 128 bits.
pub(super) type Value = i128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Radix {
    Unsigned,
    Signed,
    LowerHex,
    UpperHex,
}

/// How a number is written: `%u`, `%d`, `%x`, `%X`, with an optional precision
/// and, for hexadecimal, an optional `0x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    radix: Radix,
    precision: usize,
    prefixed: bool,
}

impl Default for Format {
    fn default() -> Self {
        Self { radix: Radix::Unsigned, precision: 0, prefixed: false }
    }
}

/// A message and the byte offset in the parsed text that it is about.
pub(super) type ParseError = (usize, String);

fn error<T>(at: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err((at, message.into()))
}

impl Format {
    /// Parses a format without its percent sign.
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        let mut rest = text;
        let mut format = Self::default();
        let at = |rest: &str| text.len() - rest.len();
        if let Some(after) = rest.strip_prefix('#') {
            format.prefixed = true;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            // The width of a number is bounded so that its expression stays small.
            match after[..digits].parse() {
                Ok(precision) if precision <= 255 => format.precision = precision,
                _ => return error(at(after), "invalid precision in format specifier"),
            }
            rest = &after[digits..];
        }
        let kind = at(rest);
        let mut letters = rest.chars();
        format.radix = match letters.next() {
            Some('u') => Radix::Unsigned,
            Some('d') => Radix::Signed,
            Some('x') => Radix::LowerHex,
            Some('X') => Radix::UpperHex,
            None if format.precision > 0 => Radix::Unsigned,
            _ => return error(kind, "invalid format specifier in expression"),
        };
        if format.prefixed && !matches!(format.radix, Radix::LowerHex | Radix::UpperHex) {
            return error(0, "alternate form only supported for hex values");
        }
        if !letters.as_str().trim().is_empty() {
            let message = "invalid matching format specification in expression";
            return error(at(letters.as_str()), message);
        }
        Ok(format)
    }

    /// The expression that matches every number in this format.
    pub(super) fn wildcard(self) -> String {
        let (lead, digit) = match self.radix {
            Radix::Unsigned | Radix::Signed => ("[1-9]", "[0-9]"),
            Radix::LowerHex => ("[1-9a-f]", "[0-9a-f]"),
            Radix::UpperHex => ("[1-9A-F]", "[0-9A-F]"),
        };
        let sign = if self.radix == Radix::Signed { "-?" } else { "" };
        let prefix = if self.prefixed { "0x" } else { "" };
        match self.precision {
            0 => format!("{prefix}{sign}{digit}+"),
            n => format!("{prefix}{sign}({lead}{digit}*)?{digit}{{{n}}}"),
        }
    }

    /// Writes `value`, or nothing where the format has no such number.
    pub(super) fn write(self, value: Value) -> Option<String> {
        if value < 0 && self.radix != Radix::Signed {
            return None;
        }
        let magnitude = value.unsigned_abs();
        let digits = match self.radix {
            Radix::Unsigned | Radix::Signed => magnitude.to_string(),
            Radix::LowerHex => format!("{magnitude:x}"),
            Radix::UpperHex => format!("{magnitude:X}"),
        };
        let sign = if value < 0 { "-" } else { "" };
        let prefix = if self.prefixed { "0x" } else { "" };
        let width = self.precision;
        Some(format!("{prefix}{sign}{digits:0>width$}"))
    }

    /// Reads a number that the wildcard matched; nothing if it is too large.
    pub(super) fn read(self, text: &str) -> Option<Value> {
        let text = if self.prefixed { text.strip_prefix("0x")? } else { text };
        let radix = match self.radix {
            Radix::Unsigned | Radix::Signed => 10,
            Radix::LowerHex | Radix::UpperHex => 16,
        };
        Value::from_str_radix(text, radix).ok()
    }

    fn name(self) -> &'static str {
        match self.radix {
            Radix::Unsigned => "%u",
            Radix::Signed => "%d",
            Radix::LowerHex => "%x",
            Radix::UpperHex => "%X",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "add" => Self::Add,
            "sub" => Self::Sub,
            "mul" => Self::Mul,
            "div" => Self::Div,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn apply(self, a: Value, b: Value) -> Option<Value> {
        match self {
            Self::Add => a.checked_add(b),
            Self::Sub => a.checked_sub(b),
            Self::Mul => a.checked_mul(b),
            Self::Div => a.checked_div(b),
            Self::Min => Some(a.min(b)),
            Self::Max => Some(a.max(b)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Push(Value),
    Load { name: String, at: usize },
    Apply(Function),
}

/// An expression, in postfix order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    steps: Vec<Step>,
}

/// Why an expression has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EvaluationError {
    /// The variables that have no value, and their offsets in the expression.
    Undefined(Vec<(String, usize)>),
    /// A division by zero, or a value out of range.
    Overflow,
}

impl Expression {
    /// The names it reads, with their offsets.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, usize)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Load { name, at } => Some((name.as_str(), *at)),
            _ => None,
        })
    }

    /// The value under `variables`.
    pub(super) fn evaluate(
        &self,
        variables: &BTreeMap<String, Value>,
    ) -> Result<Value, EvaluationError> {
        let undefined: Vec<(String, usize)> = self
            .variables()
            .filter(|(name, _)| !variables.contains_key(*name))
            .map(|(name, at)| (name.to_owned(), at))
            .collect();
        if !undefined.is_empty() {
            return Err(EvaluationError::Undefined(undefined));
        }
        let mut stack = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Push(value) => Some(*value),
                Step::Load { name, .. } => variables.get(name).copied(),
                Step::Apply(function) => {
                    let (b, a) = (stack.pop(), stack.pop());
                    a.zip(b).and_then(|(a, b)| function.apply(a, b))
                }
            };
            stack.push(value.ok_or(EvaluationError::Overflow)?);
        }
        stack.pop().ok_or(EvaluationError::Overflow)
    }

    /// The format that the variables of the expression imply.
    ///
    /// # Errors
    /// Two operands of one operation imply different formats.
    pub(super) fn implied_format(
        &self,
        formats: &BTreeMap<String, Format>,
    ) -> Result<Option<Format>, String> {
        let mut stack: Vec<Option<(Format, &str)>> = Vec::new();
        for step in &self.steps {
            let format = match step {
                Step::Push(_) => None,
                Step::Load { name, .. } => formats.get(name).map(|f| (*f, name.as_str())),
                Step::Apply(_) => {
                    let (right, left) = (stack.pop().flatten(), stack.pop().flatten());
                    if let (Some((a, left)), Some((b, right))) = (left, right)
                        && a != b
                    {
                        return Err(format!(
                            "implicit format conflict between '{left}' ({}) and '{right}' ({}), \
                             need an explicit format specifier",
                            a.name(),
                            b.name()
                        ));
                    }
                    left.or(right)
                }
            };
            stack.push(format);
        }
        Ok(stack.pop().flatten().map(|(format, _)| format))
    }

    /// Parses an expression; `line` is the value of `@LINE`.
    pub(super) fn parse(text: &str, line: usize) -> Result<Self, ParseError> {
        Parser { text, at: 0, line, steps: Vec::new(), open: Vec::new(), pending: None }.run()
    }
}

enum Bracket {
    Group,
    Call { function: Function, at: usize, name: String, arguments: usize },
}

/// An open bracket, and the operator that waits for its value.
struct Open {
    bracket: Bracket,
    pending: Option<Function>,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    steps: Vec<Step>,
    open: Vec<Open>,
    pending: Option<Function>,
}

/// Length of the variable name at the start of `text`; 0 if there is none.
pub(super) fn name_length(text: &str) -> usize {
    let body = text.strip_prefix(['$', '@']).unwrap_or(text);
    let is_start = body.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_start {
        return 0;
    }
    let length = body.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    text.len() - body.len() + length
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t']).len();
    }

    fn run(mut self) -> Result<Expression, ParseError> {
        loop {
            // Operands, entering brackets on the way.
            while !self.operand()? {}
            // Operators, leaving brackets on the way.
            loop {
                if let Some(function) = self.pending.take() {
                    self.steps.push(Step::Apply(function));
                }
                self.skip_space();
                let Some(next) = self.rest().chars().next() else {
                    return self.finish();
                };
                let at = self.at;
                self.at += next.len_utf8();
                match (next, self.open.last_mut().map(|open| &mut open.bracket)) {
                    ('+', _) => self.pending = Some(Function::Add),
                    ('-', _) => self.pending = Some(Function::Sub),
                    (',', Some(Bracket::Call { arguments, .. })) => *arguments += 1,
                    (')', Some(_)) => {
                        self.close()?;
                        continue;
                    }
                    (')', None) => {
                        let rest = &self.text[at..];
                        return error(
                            at,
                            format!("unexpected characters at end of expression '{rest}'"),
                        );
                    }
                    _ => return error(at, format!("unsupported operation '{next}'")),
                }
                break;
            }
        }
    }

    /// Reads an operand, or an opening bracket and returns false.
    fn operand(&mut self) -> Result<bool, ParseError> {
        self.skip_space();
        let rest = self.rest();
        let is_argument = self.pending.is_none()
            && matches!(self.open.last(), Some(Open { bracket: Bracket::Call { .. }, .. }));
        if is_argument && (rest.starts_with([',', ')']) || rest.is_empty()) {
            return error(self.at, "missing argument");
        }
        if rest.is_empty() {
            return error(self.at, "missing operand in expression");
        }
        if rest.starts_with('(') {
            self.at += 1;
            self.enter(Bracket::Group);
            return Ok(false);
        }
        if rest.starts_with('@') {
            return self.pseudo_variable().map(|()| true);
        }
        let length = name_length(rest);
        if length > 0 {
            let (name, at) = (&rest[..length], self.at);
            self.at += length;
            let before_space = self.at;
            self.skip_space();
            if self.rest().starts_with('(') {
                self.at += 1;
                let Some(function) = Function::named(name) else {
                    return error(at, format!("call to undefined function '{name}'"));
                };
                let name = name.to_owned();
                self.enter(Bracket::Call { function, at, name, arguments: 1 });
                return Ok(false);
            }
            self.at = before_space;
            self.steps.push(Step::Load { name: name.to_owned(), at });
            return Ok(true);
        }
        self.literal().map(|()| true)
    }

    fn pseudo_variable(&mut self) -> Result<(), ParseError> {
        let rest = self.rest();
        let length = name_length(rest);
        match &rest[..length] {
            "" => return error(self.at + 1, "empty pseudo variable name"),
            "@LINE" => {}
            name => return error(self.at, format!("invalid pseudo numeric variable '{name}'")),
        }
        self.at += length;
        let line = Value::try_from(self.line).unwrap_or(Value::MAX);
        self.steps.push(Step::Push(line));
        Ok(())
    }

    fn literal(&mut self) -> Result<(), ParseError> {
        let rest = self.rest();
        let (sign, digits) = match rest.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", rest),
        };
        let (radix, digits) = match digits.strip_prefix("0x") {
            Some(digits) => (16, digits),
            None => (10, digits),
        };
        let length = digits.bytes().take_while(|b| char::from(*b).is_digit(radix)).count();
        let Ok(value) = Value::from_str_radix(&format!("{sign}{}", &digits[..length]), radix)
        else {
            let is_first = self.steps.is_empty() && self.open.is_empty();
            let message = match (length, is_first) {
                (0, true) => "invalid matching constraint or operand format",
                (0, false) => "invalid operand format",
                _ => "number does not fit 128 bits",
            };
            return error(self.at, message);
        };
        self.at = self.text.len() - digits.len() + length;
        self.steps.push(Step::Push(value));
        Ok(())
    }

    fn enter(&mut self, bracket: Bracket) {
        let pending = self.pending.take();
        self.open.push(Open { bracket, pending });
    }

    /// Leaves the innermost bracket, whose closing parenthesis was read.
    fn close(&mut self) -> Result<(), ParseError> {
        let Some(Open { bracket, pending }) = self.open.pop() else {
            return Ok(());
        };
        if let Bracket::Call { function, at, name, arguments } = bracket {
            if arguments != 2 {
                return error(
                    at,
                    format!("function '{name}' takes 2 arguments but {arguments} given"),
                );
            }
            self.steps.push(Step::Apply(function));
        }
        self.pending = pending;
        Ok(())
    }

    fn finish(self) -> Result<Expression, ParseError> {
        match self.open.last() {
            None => Ok(Expression { steps: self.steps }),
            Some(Open { bracket: Bracket::Group, .. }) => {
                error(self.at, "missing ')' at end of nested expression")
            }
            Some(_) => error(self.at, "missing ')' at end of call expression"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Value> {
        let variables = BTreeMap::from([("A".to_owned(), 7), ("B".to_owned(), 2)]);
        Expression::parse(text, 40).ok()?.evaluate(&variables).ok()
    }

    #[test]
    fn expressions_evaluate_from_the_left() {
        assert_eq!(value("A-B-1"), Some(4));
        assert_eq!(value(" A - ( B - 1 ) "), Some(6));
        assert_eq!(value("add(A, mul(B, 3)) + 0x10"), Some(29));
        assert_eq!(value("max(A,B)-min(A,B)"), Some(5));
        assert_eq!(value("@LINE+2"), Some(42));
        assert_eq!(value("div(A,B)"), Some(3));
        assert_eq!(value("div(A,0)"), None);
        assert_eq!(value("C"), None);
    }

    #[test]
    fn parse_errors_name_the_place() {
        for (text, at, message) in [
            ("1+", 2, "missing operand in expression"),
            ("(1+2", 4, "missing ')' at end of nested expression"),
            ("add(1,2", 7, "missing ')' at end of call expression"),
            ("add(1,)", 6, "missing argument"),
            ("add(1)", 0, "function 'add' takes 2 arguments but 1 given"),
            ("foo(1,2)", 0, "call to undefined function 'foo'"),
            ("1*2", 1, "unsupported operation '*'"),
            ("@X", 0, "invalid pseudo numeric variable '@X'"),
            ("%x", 0, "invalid matching constraint or operand format"),
        ] {
            assert_eq!(Expression::parse(text, 1), error(at, message), "{text}");
        }
    }

    #[test]
    fn formats_write_what_they_read() {
        for (spec, number, text) in [
            ("u", 12, "12"),
            ("d", -12, "-12"),
            (".4d", -12, "-0012"),
            ("x", 255, "ff"),
            ("#.4X", 255, "0x00FF"),
        ] {
            let format = Format::parse(spec);
            assert_eq!(format.as_ref().ok().and_then(|f| f.write(number)).as_deref(), Some(text));
            assert_eq!(format.ok().and_then(|f| f.read(text)), Some(number));
        }
        assert_eq!(Format::default().write(-1), None);
    }
}
