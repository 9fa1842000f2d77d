//! A position in a text, and the errors found so far: what parsers are written with.

use super::lexer::{Lexer, Token, TokenKind};
use crate::body::{MAX_OPERANDS, MAX_RESULTS};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::intern::Symbol;
use crate::location::Span;

/// Parsing stopped here; the reason has been reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// Where a statement stands, for going on behind it where it could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Margin {
    /// Braces open around it.
    depth: u32,
    /// The column that it starts in.
    column: usize,
}

/// A text being parsed: the current token, and the diagnostics.
#[derive(Debug)]
pub struct Cursor<'t> {
    text: &'t str,
    file: Symbol,
    lexer: Lexer<'t>,
    current: Token,
    previous_end: u32,
    depth: u32,
    /// What ends where the text does.
    end: &'static str,
    /// Start of the last bad token that was reported, to report each once.
    reported: Option<u32>,
    /// What was found so far.
    pub diagnostics: Diagnostics,
}

impl<'t> Cursor<'t> {
    /// The start of `text`, which messages call `file`.
    pub fn new(file: impl Into<Symbol>, text: &'t str) -> Cursor<'t> {
        let mut lexer = Lexer::new(text);
        let current = lexer.next_token();
        Cursor {
            text,
            file: file.into(),
            lexer,
            current,
            previous_end: 0,
            depth: 0,
            end: "the end of the text",
            reported: None,
            diagnostics: Diagnostics::new(),
        }
    }

    /// Byte `offset` of `text`, an item's, which must lie between tokens and outside of braces.
    pub fn at(file: impl Into<Symbol>, text: &'t str, offset: u32) -> Cursor<'t> {
        let mut cursor = Cursor::new(file, "");
        cursor.text = text;
        cursor.end = "the end of the item";
        cursor.jump(offset);
        cursor
    }

    /// The whole text.
    pub fn source(&self) -> &'t str {
        self.text
    }

    /// The current token.
    pub fn token(&self) -> Token {
        self.current
    }

    /// Kind of the current token.
    pub fn kind(&self) -> TokenKind {
        self.current.kind
    }

    /// The token after the current one.
    pub fn after(&self) -> Token {
        self.lookahead().next_token()
    }

    /// The tokens after the current one.
    pub fn lookahead(&self) -> Lexer<'t> {
        self.lexer.clone()
    }

    /// Text of `token`.
    pub fn text_of(&self, token: Token) -> &'t str {
        token.text(self.text)
    }

    /// The place of `token`.
    pub fn span_of(&self, token: Token) -> Span {
        self.span(token.start, token.end)
    }

    /// The place from byte `start` to byte `end`.
    pub fn span(&self, start: u32, end: u32) -> Span {
        Span { file: self.file, start, end }
    }

    /// Where the last token taken ended.
    pub fn previous_end(&self) -> u32 {
        self.previous_end
    }

    /// Number of braces that are open. A recovery looks at these only, since a forgotten `)` must
    /// not hide the rest of a body.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Sets the number of open braces, where a recovery left some behind.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Whether the current token is the first of its line.
    pub fn at_line_start(&self) -> bool {
        let between = self.text.get(self.previous_end as usize..self.current.start as usize);
        self.previous_end == 0 || between.is_some_and(|blanks| blanks.contains('\n'))
    }

    /// Takes the current token.
    pub fn bump(&mut self) -> Token {
        let token = self.current;
        match token.kind {
            TokenKind::LeftBrace => self.depth += 1,
            TokenKind::RightBrace => self.depth = self.depth.saturating_sub(1),
            TokenKind::Error(_) => self.report_bad_token(),
            _ => {}
        }
        self.previous_end = token.end;
        self.current = self.lexer.next_token();
        token
    }

    /// Goes on at byte `offset`, past something whose meaning is known already. It must lie
    /// between tokens and after balanced braces.
    pub fn jump(&mut self, offset: u32) {
        self.lexer = Lexer::at(self.text, offset as usize);
        self.previous_end = offset;
        self.current = self.lexer.next_token();
    }

    /// Takes the current token if it is of `kind`.
    pub fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.current.kind == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Takes the current token if it is the word `word`.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Whether the current token is the word `word`.
    pub fn at_word(&self, word: &str) -> bool {
        self.current.is_word(self.text, word)
    }

    /// Takes a token of `kind`, or reports that it is missing.
    pub fn expect(&mut self, kind: TokenKind) -> Result<Token, Failed> {
        if self.current.kind == kind {
            return Ok(self.bump());
        }
        Err(self.unexpected(kind.describe()))
    }

    /// Reports that the current token is not what was `expected`.
    pub fn unexpected(&mut self, expected: &str) -> Failed {
        let found = match self.current.kind {
            TokenKind::Error(_) => {
                self.report_bad_token();
                return Failed;
            }
            TokenKind::End => self.end.to_string(),
            _ => {
                let text = self.text_of(self.current);
                match text.char_indices().nth(40) {
                    Some((end, _)) => format!("`{}…`", &text[..end]),
                    None => format!("`{text}`"),
                }
            }
        };
        let span = self.span_of(self.current);
        self.report(
            Diagnostic::error("E0111", format!("expected {expected}, found {found}")).at(span),
        )
    }

    /// Whether the item has ended, where its text does or metadata follows.
    pub fn at_end(&self) -> bool {
        matches!(self.kind(), TokenKind::End | TokenKind::Metadata)
    }

    /// The place of the file from byte `start` to the end of the last token taken.
    pub fn since(&self, start: u32) -> Span {
        self.span(start, self.previous_end.max(start))
    }

    /// Where the statement that starts here stands.
    pub fn margin(&self) -> Margin {
        Margin { depth: self.depth, column: self.column(self.current.start) }
    }

    /// The column of byte `place`, from 0.
    fn column(&self, place: u32) -> usize {
        let before = self.text.get(..place as usize).unwrap_or("");
        before.len() - before.rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// Goes to the next statement, or to the end of the block, after the statement at `margin`
    /// could not be read. Statements stand on lines of their own; at least what starts at byte
    /// `start` is skipped.
    pub fn skip_statement(&mut self, start: u32, margin: Margin) {
        if self.current.start == start {
            self.bump();
        }
        while !self.at_end() {
            let here = self.depth <= margin.depth;
            let next = || self.at_line_start() && self.column(self.current.start) <= margin.column;
            if here && (self.kind() == TokenKind::RightBrace || next()) {
                break;
            }
            self.bump();
        }
        self.depth = margin.depth;
    }

    /// Reports an operation that starts at byte `start` where it is too large.
    pub fn expect_size(
        &mut self,
        operands: usize,
        results: usize,
        start: u32,
    ) -> Result<(), Failed> {
        if operands <= MAX_OPERANDS && results <= MAX_RESULTS {
            return Ok(());
        }
        let message =
            format!("an operation has at most {MAX_OPERANDS} operands and {MAX_RESULTS} results");
        Err(self.report(Diagnostic::error("E0115", message).at(self.since(start))))
    }

    /// Reports a diagnostic.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Failed {
        self.diagnostics.push(diagnostic);
        Failed
    }

    fn report_bad_token(&mut self) {
        if let TokenKind::Error(error) = self.current.kind
            && self.reported != Some(self.current.start)
        {
            self.reported = Some(self.current.start);
            let span = self.span_of(self.current);
            let text = self.text_of(self.current);
            let message = match text.chars().nth(20) {
                None if !text.is_empty() => format!("{}: `{text}`", error.message()),
                _ => error.message().to_string(),
            };
            self.report(Diagnostic::error("E0110", message).at(span).help(error.help()));
        }
    }
}
