//! The lexer of both text forms, the generic one and that of the relay dialect.
//!
//! It copies nothing: a [`Token`] is a kind and a byte range. Bad input becomes an error token with
//! a message, and lexing goes on after it.
//!
//! **A slash in a name.** TensorFlow-style names such as `%conv1/weights` are read as one name,
//! as the original system prints them without quotes: directly after `%name` or `@name`, a `/`
//! that touches a letter or an underscore on its right belongs to the name. So `%a/b` is a name,
//! `%a / %b`, `%a/%b` and `1/2` are divisions, and a name with any other odd character is
//! written in quotes: `%"a b"`.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::dtype::{DType, DTypeKind};

/// A lexical element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenKind {
    /// A word, keywords included: `[A-Za-z_][A-Za-z0-9_]*`.
    Identifier,
    /// `_` alone.
    Underscore,
    /// `match?`.
    PartialMatch,
    /// `%name` or `%"name"`.
    Local,
    /// `%12`.
    Graph,
    /// `@name` or `@"name"`.
    Global,
    /// `1`, `1i64`, `2u8`, `0xff`.
    Integer,
    /// `1.5`, `1e-05f`, `1f16`, `inff`, `nanf`.
    Float,
    /// `"text"`, quotes and escapes included.
    String,
    /// `#[metadata]` and the whole rest of the text, which is not lexed.
    Metadata,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `:`
    Colon,
    /// `.`
    Dot,
    /// `=`
    Equal,
    /// `->`
    Arrow,
    /// `=>`
    FatArrow,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `==`
    EqualEqual,
    /// `!=`
    NotEqual,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `?`
    Question,
    /// `@` without a name.
    At,
    /// `%` without a name.
    Percent,
    /// `^`
    Caret,
    /// `#`
    Hash,
    /// Something that is no token.
    Error(LexError),
    /// The end of the text.
    End,
}

/// Why something is no token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LexError {
    /// A string without closing quote on its line.
    UnterminatedString,
    /// A `/*` without its `*/`.
    UnterminatedComment,
    /// A backslash followed by something that is no escape.
    BadEscape,
    /// Letters after a number that are no type suffix.
    BadSuffix,
    /// A character that starts no token.
    UnknownCharacter,
    /// A text of 4 GiB or more.
    TooLong,
}

impl LexError {
    /// What is wrong, starting in lower case.
    pub fn message(self) -> &'static str {
        match self {
            LexError::UnterminatedString => "expected a closing `\"` before the end of the line",
            LexError::UnterminatedComment => "expected a closing `*/` before the end of the text",
            LexError::BadEscape => "unknown escape in a string",
            LexError::BadSuffix => "unknown suffix of a number",
            LexError::UnknownCharacter => "unknown character",
            LexError::TooLong => "a text must be shorter than 4 GiB",
        }
    }

    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            LexError::UnterminatedString => "write a line break in a string as `\\n`",
            LexError::UnterminatedComment => "comments nest: every `/*` needs its own `*/`",
            LexError::BadEscape => {
                "escapes are `\\\\`, `\\\"`, `\\'`, `\\n`, `\\r`, `\\t`, `\\0`, `\\x41`, `\\101` \
                 and `\\u{41}`"
            }
            LexError::BadSuffix => {
                "suffixes are a type such as `i64`, `u8`, `f16` or `bf16`, or `f` or `i`"
            }
            LexError::UnknownCharacter => "write a name with odd characters in quotes: `%\"a b\"`",
            LexError::TooLong => "split the text into several files",
        }
    }
}

impl TokenKind {
    /// The kind in a message such as "expected `,`, found a string".
    pub fn describe(self) -> &'static str {
        match self {
            TokenKind::Identifier => "a word",
            TokenKind::Underscore => "`_`",
            TokenKind::PartialMatch => "`match?`",
            TokenKind::Local => "a variable such as `%x`",
            TokenKind::Graph => "a variable such as `%0`",
            TokenKind::Global => "a global such as `@main`",
            TokenKind::Integer => "an integer",
            TokenKind::Float => "a float",
            TokenKind::String => "a string",
            TokenKind::Metadata => "`#[metadata]`",
            TokenKind::LeftParen => "`(`",
            TokenKind::RightParen => "`)`",
            TokenKind::LeftBrace => "`{`",
            TokenKind::RightBrace => "`}`",
            TokenKind::LeftBracket => "`[`",
            TokenKind::RightBracket => "`]`",
            TokenKind::Less => "`<`",
            TokenKind::Greater => "`>`",
            TokenKind::Comma => "`,`",
            TokenKind::Semicolon => "`;`",
            TokenKind::Colon => "`:`",
            TokenKind::Dot => "`.`",
            TokenKind::Equal => "`=`",
            TokenKind::Arrow => "`->`",
            TokenKind::FatArrow => "`=>`",
            TokenKind::Plus => "`+`",
            TokenKind::Minus => "`-`",
            TokenKind::Star => "`*`",
            TokenKind::Slash => "`/`",
            TokenKind::EqualEqual => "`==`",
            TokenKind::NotEqual => "`!=`",
            TokenKind::LessEqual => "`<=`",
            TokenKind::GreaterEqual => "`>=`",
            TokenKind::Question => "`?`",
            TokenKind::At => "`@`",
            TokenKind::Percent => "`%`",
            TokenKind::Caret => "`^`",
            TokenKind::Hash => "`#`",
            TokenKind::Error(error) => error.message(),
            TokenKind::End => "the end of the text",
        }
    }
}

impl Token {
    /// The bytes of this token in `source`, the text that it was lexed from.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    /// The name behind a local, global or graph variable, the content of a string, and the text
    /// of any other token; escapes are resolved.
    pub fn name(self, source: &str) -> Cow<'_, str> {
        let text = self.text(source);
        let text = match self.kind {
            TokenKind::Local | TokenKind::Graph | TokenKind::Global => text.get(1..).unwrap_or(""),
            _ => text,
        };
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(inner) => unescape(inner),
            None => Cow::Borrowed(text),
        }
    }

    /// Whether this is the word `word`.
    pub fn is_word(self, source: &str, word: &str) -> bool {
        self.kind == TokenKind::Identifier && self.text(source) == word
    }
}

/// Bytes that names start with.
pub const LETTER: u8 = 1;
/// Decimal digits.
pub const DIGIT: u8 = 2;
/// Bytes between tokens.
pub const SPACE: u8 = 4;

/// The classes of every byte that has one: [`LETTER`], [`DIGIT`] and [`SPACE`].
pub static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => LETTER,
            b'0'..=b'9' => DIGIT,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            _ => 0,
        };
        byte += 1;
    }
    table
};

fn is(byte: u8, class: u8) -> bool {
    CLASS[byte as usize] & class != 0
}

/// Iterates over the tokens of a text, comments and blanks left out, and ends before
/// [`TokenKind::End`].
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    text: &'t str,
    position: usize,
    /// Where the last token ended if it was a `.`, so that `%t.1.0` is two projections.
    after_dot: usize,
}

impl<'t> Lexer<'t> {
    /// The tokens of `text`.
    pub fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, position: 0, after_dot: usize::MAX }
    }

    /// The tokens of `text` from byte `position` on; from the end on where that is inside a
    /// character.
    pub fn at(text: &'t str, position: usize) -> Lexer<'t> {
        let position = if text.is_char_boundary(position) { position } else { text.len() };
        Lexer { text, position, after_dot: usize::MAX }
    }

    /// Goes on at byte `offset`, which must lie between tokens.
    pub fn jump(&mut self, offset: u32) {
        self.position = (offset as usize).min(self.text.len());
    }

    /// The next token; [`TokenKind::End`] at the end, again and again.
    pub fn next_token(&mut self) -> Token {
        let start = match self.skip_blanks() {
            Ok(()) => self.position,
            Err(start) => {
                self.position = self.text.len();
                return self.token(TokenKind::Error(LexError::UnterminatedComment), start);
            }
        };
        if self.text.len() > u32::MAX as usize {
            self.text = "";
            return Token { kind: TokenKind::Error(LexError::TooLong), start: 0, end: 0 };
        }
        let kind = match self.peek(0) {
            0 if start >= self.text.len() => TokenKind::End,
            first if is(first, LETTER) => self.word(),
            first if is(first, DIGIT) => self.number(),
            b'"' => self.string(TokenKind::String),
            b'%' => self.variable(TokenKind::Local, TokenKind::Percent),
            b'@' => self.variable(TokenKind::Global, TokenKind::At),
            b'#' if self.text[start..].starts_with("#[metadata]") => {
                self.position = self.text.len();
                TokenKind::Metadata
            }
            _ => self.punctuation(),
        };
        if kind == TokenKind::Dot {
            self.after_dot = self.position;
        }
        self.token(kind, start)
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, start: start as u32, end: self.position as u32 }
    }

    /// The byte `ahead` of the position; 0 past the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position + ahead).copied().unwrap_or(0)
    }

    fn skip_class(&mut self, class: u8) {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().position(|&byte| !is(byte, class)).unwrap_or(rest.len());
    }

    /// Skips blanks and comments. Errors with the start of a comment that does not end.
    fn skip_blanks(&mut self) -> Result<(), usize> {
        loop {
            self.skip_class(SPACE);
            if self.peek(0) != b'/' {
                return Ok(());
            }
            let bytes = self.text.as_bytes();
            match self.peek(1) {
                b'/' => {
                    let rest = &bytes[self.position..];
                    self.position +=
                        rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b'*' => {
                    let start = self.position;
                    let mut depth = 0usize;
                    loop {
                        match (self.peek(0), self.peek(1)) {
                            (b'/', b'*') => (depth, self.position) = (depth + 1, self.position + 2),
                            (b'*', b'/') => (depth, self.position) = (depth - 1, self.position + 2),
                            _ if self.position >= bytes.len() => return Err(start),
                            _ => self.position += 1,
                        }
                        if depth == 0 {
                            break;
                        }
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.position;
        self.skip_class(LETTER | DIGIT);
        let word = &self.text[start..self.position];
        match word {
            "_" => TokenKind::Underscore,
            "match" if self.peek(0) == b'?' => {
                self.position += 1;
                TokenKind::PartialMatch
            }
            _ if is_special_float(word) => TokenKind::Float,
            _ => TokenKind::Identifier,
        }
    }

    fn number(&mut self) -> TokenKind {
        let start = self.position;
        if self.after_dot == start {
            self.skip_class(DIGIT);
            return TokenKind::Integer;
        }
        if self.peek(0) == b'0' && self.peek(1) == b'x' {
            self.position += 2;
            self.skip_class(LETTER | DIGIT);
            let digits = &self.text.as_bytes()[start + 2..self.position];
            return match !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) {
                true => TokenKind::Integer,
                false => TokenKind::Error(LexError::BadSuffix),
            };
        }
        self.skip_class(DIGIT);
        let mut kind = TokenKind::Integer;
        if self.peek(0) == b'.' && is(self.peek(1), DIGIT) {
            kind = TokenKind::Float;
            self.position += 1;
            self.skip_class(DIGIT);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if is(self.peek(1 + sign), DIGIT) {
                kind = TokenKind::Float;
                self.position += 1 + sign;
                self.skip_class(DIGIT);
            }
        }
        let suffix_start = self.position;
        self.skip_class(LETTER | DIGIT);
        let suffix = &self.text[suffix_start..self.position];
        match suffix_dtype(suffix) {
            _ if suffix.is_empty() => kind,
            Some(dtype) if dtype.is_float() => TokenKind::Float,
            Some(_) if kind == TokenKind::Integer => TokenKind::Integer,
            _ => TokenKind::Error(LexError::BadSuffix),
        }
    }

    /// A string, with the position at its opening quote.
    fn string(&mut self, kind: TokenKind) -> TokenKind {
        self.position += 1;
        let mut bad_escape = false;
        loop {
            match self.peek(0) {
                b'"' => break self.position += 1,
                b'\n' => return TokenKind::Error(LexError::UnterminatedString),
                0 if self.position >= self.text.len() => {
                    return TokenKind::Error(LexError::UnterminatedString);
                }
                b'\\' => match escape(&self.text.as_bytes()[self.position + 1..]) {
                    Some((_, length)) => self.position += 1 + length,
                    None => (bad_escape, self.position) = (true, self.position + 1),
                },
                _ => self.position += 1,
            }
        }
        if bad_escape { TokenKind::Error(LexError::BadEscape) } else { kind }
    }

    fn variable(&mut self, named: TokenKind, bare: TokenKind) -> TokenKind {
        self.position += 1;
        match self.peek(0) {
            b'"' => self.string(named),
            byte if is(byte, LETTER) => {
                self.skip_class(LETTER | DIGIT);
                while self.peek(0) == b'/' && is(self.peek(1), LETTER) {
                    self.position += 1;
                    self.skip_class(LETTER | DIGIT);
                }
                named
            }
            byte if is(byte, DIGIT) && named == TokenKind::Local => {
                self.skip_class(DIGIT);
                TokenKind::Graph
            }
            _ => bare,
        }
    }

    fn punctuation(&mut self) -> TokenKind {
        let (kind, length) = match (self.peek(0), self.peek(1)) {
            (b'-', b'>') => (TokenKind::Arrow, 2),
            (b'=', b'>') => (TokenKind::FatArrow, 2),
            (b'=', b'=') => (TokenKind::EqualEqual, 2),
            (b'!', b'=') => (TokenKind::NotEqual, 2),
            (b'<', b'=') => (TokenKind::LessEqual, 2),
            (b'>', b'=') => (TokenKind::GreaterEqual, 2),
            (b'(', _) => (TokenKind::LeftParen, 1),
            (b')', _) => (TokenKind::RightParen, 1),
            (b'{', _) => (TokenKind::LeftBrace, 1),
            (b'}', _) => (TokenKind::RightBrace, 1),
            (b'[', _) => (TokenKind::LeftBracket, 1),
            (b']', _) => (TokenKind::RightBracket, 1),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', _) => (TokenKind::Greater, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'?', _) => (TokenKind::Question, 1),
            (b'^', _) => (TokenKind::Caret, 1),
            (b'#', _) => (TokenKind::Hash, 1),
            _ => {
                let unknown = self.text[self.position..].chars().next();
                (TokenKind::Error(LexError::UnknownCharacter), unknown.map_or(1, char::len_utf8))
            }
        };
        self.position += length;
        kind
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;
    fn next(&mut self) -> Option<Token> {
        Some(self.next_token()).filter(|token| token.kind != TokenKind::End)
    }
}

/// What stands after a backslash at the start of `bytes`, and its length.
fn escape(bytes: &[u8]) -> Option<(Escape, usize)> {
    let simple = |c| Some((Escape::Char(c), 1));
    match *bytes.first()? {
        b'n' => simple('\n'),
        b't' => simple('\t'),
        b'r' => simple('\r'),
        b'\\' => simple('\\'),
        b'"' => simple('"'),
        b'\'' => simple('\''),
        b'x' => {
            let digits = std::str::from_utf8(bytes.get(1..3)?).ok()?;
            Some((Escape::Byte(u8::from_str_radix(digits, 16).ok()?), 3))
        }
        b'u' => {
            let end = bytes.iter().take(9).position(|&byte| byte == b'}')?;
            let digits = std::str::from_utf8(bytes.get(1..end)?).ok()?.strip_prefix('{')?;
            Some((Escape::Char(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?), end + 1))
        }
        b'0'..=b'7' => {
            let length = bytes.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte));
            let length = length.count();
            let digits = std::str::from_utf8(&bytes[..length]).ok()?;
            Some((Escape::Byte(u8::from_str_radix(digits, 8).ok()?), length))
        }
        _ => None,
    }
}

enum Escape {
    Char(char),
    /// A byte of UTF-8 text.
    Byte(u8),
}

/// The text that `escaped` stands for. Unknown escapes stay as they are; bytes that are not
/// UTF-8 become replacement characters.
pub fn unescape(escaped: &str) -> Cow<'_, str> {
    if !escaped.contains('\\') {
        return Cow::Borrowed(escaped);
    }
    let mut out: Vec<u8> = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, escape(tail)) {
            (b'\\', Some((Escape::Char(c), length))) => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &tail[length..];
            }
            (b'\\', Some((Escape::Byte(byte), length))) => {
                out.push(byte);
                rest = &tail[length..];
            }
            _ => out.push(byte),
        }
    }
    Cow::Owned(match String::from_utf8(out) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Appends `text` in quotes, escaped so that it reads back exactly.
pub fn quote_into(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends the name behind a `%` or `@`, in quotes where it needs them.
pub fn name_into(name: &str, out: &mut String) {
    if is_plain_name(name) { out.push_str(name) } else { quote_into(name, out) }
}

/// Whether `%name` and `@name` can be written without quotes.
pub fn is_plain_name(name: &str) -> bool {
    name.split('/').all(is_word)
}

/// Whether `text` is `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&byte| is(byte, LETTER))
        && bytes.iter().all(|&byte| is(byte, LETTER | DIGIT))
}

/// Whether `word` is a float written as a word: `inff`, `nanf16`.
pub fn is_special_float(word: &str) -> bool {
    let suffix = word.strip_prefix("inf").or_else(|| word.strip_prefix("nan"));
    suffix.and_then(suffix_dtype).is_some_and(DType::is_float)
}

/// The element type behind a number's suffix: `f`, `f16`, `bf16`, `i`, `i64`, `u8`.
fn suffix_dtype(suffix: &str) -> Option<DType> {
    let digits = suffix.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let bits = || digits.parse().ok();
    match &suffix[..suffix.len() - digits.len()] {
        "f" if digits.is_empty() => Some(DType::FLOAT32),
        "f" => DType::new(DTypeKind::Float, bits()?, 1),
        "bf" => DType::new(DTypeKind::BFloat, bits()?, 1),
        "i" if digits.is_empty() => Some(DType::INT32),
        "i" => DType::new(DTypeKind::Int, bits()?, 1),
        "u" => DType::new(DTypeKind::UInt, bits()?, 1),
        _ => None,
    }
}

/// The value of a number token, without its sign.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer and the type of its suffix.
    Int(u64, Option<DType>),
    /// A float, rounded once to the type of its suffix (to `float64` without one).
    Float(f64, Option<DType>),
}

/// The value of an [`Integer`](TokenKind::Integer) or [`Float`](TokenKind::Float) token; `None`
/// where an integer exceeds 64 bits.
pub fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return Some(Number::Int(u64::from_str_radix(digits, 16).ok()?, None));
    }
    if let Some(suffix) = text.strip_prefix("inf") {
        return Some(Number::Float(f64::INFINITY, suffix_dtype(suffix)));
    }
    if let Some(suffix) = text.strip_prefix("nan") {
        return Some(Number::Float(f64::NAN, suffix_dtype(suffix)));
    }
    let suffix = text.find(['i', 'u', 'b', 'f']).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(suffix);
    let dtype = suffix_dtype(suffix);
    let is_float = dtype.map_or(digits.contains(['.', 'e', 'E']), DType::is_float);
    if !is_float {
        return Some(Number::Int(digits.parse().ok()?, dtype));
    }
    let wide: f64 = digits.parse().ok()?;
    let value = match dtype {
        Some(DType::FLOAT32) => digits.parse::<f32>().ok()?.into(),
        Some(DType::FLOAT16) => f16::from_f64(wide).to_f64(),
        Some(DType::BFLOAT16) => bf16::from_f64(wide).to_f64(),
        _ => wide,
    };
    Some(Number::Float(value, dtype))
}

/// Whether the digits of the number token `text` stand for a number beyond those of its type. What
/// a `float16` holds ends at 65504 sharply, as in the original; other types round.
pub fn overflows(text: &str) -> bool {
    let digits = text.find(['f', 'b']).map_or(text, |end| &text[..end]);
    let Ok(wide) = digits.parse::<f64>() else { return false };
    match number(text) {
        Some(Number::Float(_, Some(DType::FLOAT16))) => wide > 65504.0,
        Some(Number::Float(value, _)) => value.is_infinite() && digits.starts_with(is_digit),
        _ => false,
    }
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        Lexer::new(text).map(|token| token.kind).collect()
    }

    fn texts(text: &str) -> Vec<&str> {
        Lexer::new(text).map(|token| token.text(text)).collect()
    }

    #[test]
    fn slashes_divide_or_belong_to_names() {
        assert_eq!(
            texts("%a/b %a / %b %a/%b 1/2 @f/g_1/h"),
            ["%a/b", "%a", "/", "%b", "%a", "/", "%b", "1", "/", "2", "@f/g_1/h"]
        );
        assert_eq!(texts("%a//b\n%\"a//b\" a/b %a/*c*/"), ["%a", "%\"a//b\"", "a", "/", "b", "%a"]);
    }

    #[test]
    fn numbers_end_where_they_should() {
        assert_eq!(
            texts("1+2 %x -1 %t.1.0 nn.conv2d 1.5f, 1e-05f"),
            [
                "1", "+", "2", "%x", "-", "1", "%t", ".", "1", ".", "0", "nn", ".", "conv2d",
                "1.5f", ",", "1e-05f"
            ]
        );
        assert_eq!(
            kinds("1 1i64 2u8 0xff 1.5 1f16 1bf16 inff nanf16 inf"),
            [Integer, Integer, Integer, Integer, Float, Float, Float, Float, Float, Identifier]
        );
        assert_eq!(kinds("1x 1.5i64 0x 1f31 1e"), [Error(LexError::BadSuffix); 5]);
        assert_eq!(number("0.1f"), Some(Number::Float(0.1f32.into(), Some(DType::FLOAT32))));
        assert_eq!(number("1i64"), Some(Number::Int(1, Some(DType::INT64))));
        assert_eq!(number("9223372036854775808"), Some(Number::Int(1 << 63, None)));
        assert_eq!(number("18446744073709551616"), None);
        assert_eq!(
            number("1e-05f16"),
            Some(Number::Float(1.001_358_032_226_562_5e-5, Some(DType::FLOAT16)))
        );
        assert!(matches!(number("nanf"), Some(Number::Float(v, _)) if v.is_nan()));
    }

    #[test]
    fn variables_words_and_punctuation() {
        assert_eq!(
            kinds("%x %12 %12a @f @ % ^ # _ _1 match? match ?"),
            [
                Local,
                Graph,
                Graph,
                Identifier,
                Global,
                At,
                Percent,
                Caret,
                Hash,
                Underscore,
                Identifier,
                PartialMatch,
                Identifier,
                Question
            ]
        );
        assert_eq!(kinds("-> => == != <= >= < > = - + * : ; , . [ ] { } ( )").len(), 22);
        assert_eq!(
            kinds("#[version = \"0.0.5\"]"),
            [Hash, LeftBracket, Identifier, Equal, String, RightBracket]
        );
        assert_eq!(kinds("meta[A.B][3]").len(), 9);
        assert_eq!(kinds("}\n#[metadata]\n{\"a\": '}"), [RightBrace, Metadata]);
    }

    #[test]
    fn comments_nest_and_lines_end_with_carriage_returns() {
        assert_eq!(texts("a /* x /* y */ z */ b\r\nc // d\r\ne"), ["a", "b", "c", "e"]);
        assert_eq!(kinds("a /* /* */"), [Identifier, Error(LexError::UnterminatedComment)]);
    }

    #[test]
    fn strings_escape_and_fail_softly() {
        for text in ["", "plain", "a\"b\\c\n\t\r\u{1}\u{7f}é∀😀'"] {
            let mut quoted = std::string::String::new();
            quote_into(text, &mut quoted);
            let tokens: Vec<Token> = Lexer::new(&quoted).collect();
            assert_eq!((tokens.len(), tokens[0].kind), (1, String));
            assert_eq!(tokens[0].name(&quoted), text);
        }
        assert_eq!(unescape(r"\x41\101\u{e9}\303\251"), "AAéé");
        assert_eq!(kinds("\"a\n b"), [Error(LexError::UnterminatedString), Identifier]);
        assert_eq!(kinds("\"\\q\" b"), [Error(LexError::BadEscape), Identifier]);
        assert_eq!(
            kinds("é$ a"),
            [Error(LexError::UnknownCharacter), Error(LexError::UnknownCharacter), Identifier]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_lexes_into_ordered_tokens(text in "(?s).{0,80}") {
            let mut end = 0;
            for token in Lexer::new(&text) {
                proptest::prop_assert!(token.start >= end && token.end > token.start);
                proptest::prop_assert!(text.get(token.start as usize..token.end as usize).is_some());
                let _ = (token.name(&text), number(token.text(&text)));
                end = token.end;
            }
        }
    }
}
