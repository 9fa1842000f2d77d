//! The tokens of a piece with lookahead, open brackets, and the diagnostics found so far.

use std::collections::VecDeque;

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::intern::Symbol;
use crate::location::Span;
use crate::text::cursor::Failed;
use crate::text::lexer::{LexError, Lexer, Token, TokenKind};

use super::codes;

/// The most errors that are reported for one text, and for one item.
pub const MAX_ERRORS: usize = 1_000;

/// An open bracket: for each kind, one more than the place of the last that is open here, itself
/// included. What a stray closing bracket closes is found in constant time.
type Open = [u32; 3];

/// The place of `opener` in an [`Open`].
fn index_of(opener: TokenKind) -> usize {
    match opener {
        TokenKind::LeftParen => 0,
        TokenKind::LeftBrace => 1,
        _ => 2,
    }
}

/// The place of reading.
pub struct Cursor<'t> {
    /// The whole text.
    pub source: &'t str,
    lexer: Lexer<'t>,
    file: Symbol,
    current: Token,
    ahead: VecDeque<Token>,
    /// Brackets that are open at the current token.
    open: Vec<Open>,
    /// Where the token before the current one ended.
    previous_end: u32,
    diagnostics: Diagnostics,
    /// Set when reading was given up; from then on every token is the end.
    stopped: bool,
    /// Set while a part is skipped after an error: nobody looks at its tokens.
    skipping: bool,
}

impl<'t> Cursor<'t> {
    /// At the first token of `source`.
    pub fn new(file: Symbol, source: &'t str) -> Cursor<'t> {
        let nothing = Token { kind: TokenKind::End, start: 0, end: 0 };
        let mut cursor = Cursor {
            source,
            lexer: Lexer::new(source),
            file,
            current: nothing,
            ahead: VecDeque::new(),
            open: Vec::new(),
            previous_end: 0,
            diagnostics: Diagnostics::new(),
            stopped: false,
            skipping: false,
        };
        cursor.current = cursor.lex();
        cursor
    }

    /// At the first token from byte `start` of `source` on, which ends for the reader at byte
    /// `end`.
    pub fn between(file: Symbol, source: &'t str, start: usize, end: usize) -> Cursor<'t> {
        let mut cursor = Cursor::new(file, "");
        cursor.source = source.get(..end).unwrap_or(source);
        cursor.seek(start);
        cursor
    }

    /// Takes the diagnostics found so far.
    pub fn take_diagnostics(&mut self) -> Diagnostics {
        std::mem::take(&mut self.diagnostics)
    }

    /// Number of errors found.
    pub fn errors(&self) -> usize {
        self.diagnostics.len()
    }

    /// The next token. A malformed one is reported here, and stays an error token, at which nothing
    /// further is reported, where it could stand for anything.
    fn lex(&mut self) -> Token {
        let mut token = self.lexer.next_token();
        let TokenKind::Error(error) = token.kind else { return token };
        if self.stopped {
            return Token { kind: TokenKind::End, ..token };
        }
        if error == LexError::UnknownCharacter {
            let mut lexer = self.lexer.clone();
            let mut next = lexer.next_token();
            while next.kind == token.kind && next.start == token.end {
                (token.end, self.lexer) = (next.end, lexer.clone());
                next = lexer.next_token();
            }
        }
        let kind = match error {
            LexError::BadEscape => TokenKind::String,
            LexError::UnterminatedComment | LexError::TooLong => TokenKind::End,
            _ => token.kind,
        };
        if !self.skipping || kind == TokenKind::End {
            let found = Diagnostic::error(codes::TOKEN, error.message());
            self.report(found.at(self.span(token)).help(error.help()));
        }
        Token { kind, ..token }
    }

    /// The file that is read.
    pub fn file(&self) -> Symbol {
        self.file
    }

    /// The current token.
    #[inline]
    pub fn peek(&self) -> Token {
        self.current
    }

    /// The kind of the current token.
    #[inline]
    pub fn kind(&self) -> TokenKind {
        self.current.kind
    }

    /// The token `n` after the current one.
    #[inline]
    pub fn peek_at(&mut self, n: usize) -> Token {
        if n == 0 {
            return self.current;
        }
        while self.ahead.len() < n {
            let token = self.lex();
            self.ahead.push_back(token);
        }
        self.ahead[n - 1]
    }

    /// Goes past the current token and returns it.
    #[inline]
    pub fn bump(&mut self) -> Token {
        let token = self.current;
        match token.kind {
            TokenKind::LeftParen | TokenKind::LeftBrace | TokenKind::LeftBracket => {
                let mut open = self.open.last().copied().unwrap_or_default();
                open[index_of(token.kind)] = self.open.len() as u32 + 1;
                self.open.push(open);
            }
            TokenKind::RightParen | TokenKind::RightBrace | TokenKind::RightBracket => {
                self.open.pop();
            }
            TokenKind::End => return token,
            _ => {}
        }
        self.previous_end = token.end;
        self.current = match self.ahead.pop_front() {
            Some(next) => next,
            None => self.lex(),
        };
        token
    }

    /// Where the token before the current one ended.
    #[inline]
    pub fn previous_end(&self) -> u32 {
        self.previous_end
    }

    /// Goes past the current token if it is a `kind`.
    #[inline]
    pub fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.current.kind == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Goes past a token of `kind`, or reports what stands there instead.
    #[inline]
    pub fn expect(&mut self, kind: TokenKind) -> Result<Token, Failed> {
        if self.current.kind == kind {
            return Ok(self.bump());
        }
        Err(self.unexpected(kind.describe()))
    }

    /// Whether the current token is the word `word`.
    #[inline]
    pub fn at_word(&self, word: &str) -> bool {
        self.current.is_word(self.source, word)
    }

    /// Goes past the word `word` if it is the current token.
    #[inline]
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Reports that `expected` should stand at the current token, unless that is malformed, which
    /// has been reported.
    pub fn unexpected(&mut self, expected: &str) -> Failed {
        self.unexpected_near(expected, None)
    }

    /// The same, with what may have been meant.
    pub fn unexpected_near(&mut self, expected: &str, near: Option<String>) -> Failed {
        let token = self.current;
        let found = match token.kind {
            TokenKind::Error(_) => return Failed,
            TokenKind::Identifier => format!("`{}`", clip(token.text(self.source))),
            TokenKind::Local | TokenKind::Graph | TokenKind::Global | TokenKind::Integer => {
                format!("`{}`", clip(token.text(self.source)))
            }
            TokenKind::End => "the end of the item".to_string(),
            kind => kind.describe().to_string(),
        };
        let message = format!("expected {expected}, found {found}");
        let mut found = Diagnostic::error(codes::SYNTAX, message).at(self.span(token));
        found.help = near;
        self.report(found);
        Failed
    }

    /// Adds a finding.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        if self.stopped {
            return;
        }
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() >= MAX_ERRORS {
            let message = format!("reading stopped after {MAX_ERRORS} errors");
            let found = Diagnostic::error(codes::TOO_MANY, message).at(self.span(self.current));
            self.diagnostics.push(found);
            self.stop();
        }
    }

    /// Makes every further token the end.
    fn stop(&mut self) {
        self.stopped = true;
        self.lexer = Lexer::new("");
        self.ahead.clear();
        self.current.kind = TokenKind::End;
    }

    /// The place of `token`.
    pub fn span(&self, token: Token) -> Span {
        self.range(token.start, token.end)
    }

    /// The place from byte `start` to byte `end`.
    pub fn range(&self, start: u32, end: u32) -> Span {
        Span { file: self.file, start, end: end.max(start) }
    }

    /// The place from byte `start` to the end of the previous token.
    pub fn since(&self, start: u32) -> Span {
        self.range(start, self.previous_end)
    }

    /// Number of open brackets.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether an item that starts with its kind stands here: no other place of a readable text has
    /// a dotted word before a global.
    pub(super) fn at_item_of_kind(&mut self) -> bool {
        self.current.kind == TokenKind::Identifier
            && self.peek_at(1).kind == TokenKind::Dot
            && self.peek_at(2).kind == TokenKind::Identifier
            && self.peek_at(3).kind == TokenKind::Global
    }

    /// Skips a part that is not ours to lex, up to byte `place`, which starts a line.
    pub fn seek(&mut self, place: usize) {
        self.lexer = Lexer::at(self.source, place);
        self.ahead.clear();
        self.previous_end = place as u32;
        self.current = self.lex();
    }

    /// Skips the rest of the piece.
    pub fn skip_to_end(&mut self) {
        self.skipping = true;
        while self.current.kind != TokenKind::End {
            self.bump();
        }
        self.skipping = false;
        self.open.clear();
    }

    /// Skips to the `;` that ends a statement inside `depth` open brackets, or to the bracket that
    /// closes the innermost of them. Whether there is one.
    pub fn skip_statement(&mut self, depth: usize) -> bool {
        self.skipping = true;
        let found = self.find_end_of_statement(depth);
        self.skipping = false;
        found
    }

    fn find_end_of_statement(&mut self, depth: usize) -> bool {
        loop {
            let opener = match self.current.kind {
                TokenKind::End => return false,
                TokenKind::Semicolon if self.open.len() == depth => return true,
                // A string without an end takes the rest of its line, with the `;` at its end.
                TokenKind::Error(LexError::UnterminatedString)
                    if self.current.text(self.source).trim_end().ends_with(';') =>
                {
                    self.open.truncate(depth);
                    self.current.kind = TokenKind::Semicolon;
                    return true;
                }
                TokenKind::RightParen => TokenKind::LeftParen,
                TokenKind::RightBrace => TokenKind::LeftBrace,
                TokenKind::RightBracket => TokenKind::LeftBracket,
                _ => {
                    self.bump();
                    continue;
                }
            };
            // A closing bracket closes the last one of its kind, and everything after that.
            let place = self.open.last().map_or(0, |open| open[index_of(opener)] as usize);
            match place.checked_sub(1) {
                Some(place) if place < depth => {
                    // A `)` that would close something around the statement is one too many.
                    if place + 1 == depth || opener == TokenKind::LeftBrace {
                        self.open.truncate(place + 1);
                        return true;
                    }
                    let open = std::mem::take(&mut self.open);
                    self.bump();
                    self.open = open;
                }
                Some(place) => {
                    self.open.truncate(place + 1);
                    self.bump();
                }
                None => {
                    let open = std::mem::take(&mut self.open);
                    self.bump();
                    self.open = open;
                }
            }
        }
    }
}

/// The first characters of `text`, for a message.
fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
