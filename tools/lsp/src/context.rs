//! What surrounds a place of a text, told from its tokens.

use ir_core::registry::OpDef;
use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::{Registry, Symbol};

use super::documents::View;

/// What surrounds a place.
pub(super) struct Context<'r, 't> {
    /// Where the word at the place starts, its sign included, and where it ends.
    pub(super) word: std::ops::Range<usize>,
    /// The operator among whose arguments the place is.
    pub(super) call: Option<&'r OpDef>,
    /// Where the name of what is called stands, of a function, a constructor or a variable too.
    pub(super) callee: Option<std::ops::Range<usize>>,
    /// How many arguments of the call stand before the place.
    pub(super) arguments: usize,
    /// The attribute whose value stands there.
    pub(super) attribute: Option<&'t str>,
    /// The attribute whose key stands there.
    pub(super) key: Option<&'t str>,
    /// The token before the word.
    pub(super) before: TokenKind,
    /// The token after the word.
    pub(super) after: TokenKind,
}

/// An open bracket.
#[derive(Clone, Default)]
struct Frame<'r, 't> {
    call: Option<&'r OpDef>,
    callee: Option<std::ops::Range<usize>>,
    arguments: usize,
    attribute: Option<&'t str>,
}

impl<'r, 't> Frame<'r, 't> {
    /// The bracket of a call of what stands at `callee`, if that is a name.
    fn call(
        callee: Option<std::ops::Range<usize>>,
        text: &'t str,
        registry: &'r Registry,
    ) -> Frame<'r, 't> {
        let called = callee.clone().and_then(|callee| text.get(callee));
        let call = called.and_then(|called| operator(called, registry));
        Frame { call, callee, ..Frame::default() }
    }

    /// Notes a token within the bracket, behind the name `named`.
    fn note(&mut self, token: TokenKind, named: Option<&'t str>) {
        match token {
            TokenKind::Equal if named.is_some() => self.attribute = named,
            TokenKind::Comma => {
                self.attribute = None;
                self.arguments += 1;
            }
            _ => {}
        }
    }
}

/// What surrounds byte `offset` of the text.
pub(super) fn at<'r, 't>(view: &'t View, offset: usize, registry: &'r Registry) -> Context<'r, 't> {
    let text = view.snapshot.text();
    let word = word(text, offset);
    let piece = view.snapshot.piece_at(offset);
    // Behind the last token of a piece, its brackets may still be open.
    let piece = piece.or_else(|| view.snapshot.pieces(0..offset).last());
    let start = piece.map_or(0, |piece| piece.start);
    let mut frames = vec![Frame::default()];
    let (mut before, mut after) = (TokenKind::Semicolon, TokenKind::End);
    let mut name = start..start;
    // A name behind `def` is declared, not called.
    let (mut last, mut declares) = (start..start, false);
    for token in Lexer::at(text, start) {
        let range = token.start as usize..token.end as usize;
        if range.start >= word.start {
            if range.start >= word.end {
                after = token.kind;
                break;
            }
            continue;
        }
        match token.kind {
            TokenKind::Identifier | TokenKind::Dot if name.end == range.start => {
                name.end = range.end;
            }
            TokenKind::Identifier => name = range.clone(),
            TokenKind::LeftParen => {
                let callee = match before {
                    TokenKind::Identifier => Some(name.clone()),
                    TokenKind::Global | TokenKind::Local | TokenKind::Graph => Some(last.clone()),
                    _ => None,
                };
                frames.push(Frame::call(callee.filter(|_| !declares), text, registry));
            }
            TokenKind::LeftBracket | TokenKind::LeftBrace => frames.push(Frame::default()),
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightBrace
                if frames.len() > 1 =>
            {
                frames.pop();
            }
            _ => {}
        }
        if let Some(frame) = frames.last_mut() {
            let named = text.get(name.clone()).filter(|_| before == TokenKind::Identifier);
            frame.note(token.kind, named);
        }
        declares = match token.kind {
            TokenKind::Global => text.get(last) == Some("def"),
            _ => token.is_word(text, "fn"),
        };
        last = range;
        before = token.kind;
    }
    let Frame { call, callee, arguments, attribute } = frames.pop().unwrap_or_default();
    let key = text.get(word.clone()).filter(|_| after == TokenKind::Equal);
    Context { word, call, callee, arguments, attribute, key, before, after }
}

/// The operator that text calls `name`.
pub(super) fn operator<'r>(name: &str, registry: &'r Registry) -> Option<&'r OpDef> {
    registry.def(Symbol::new(&format!("relay.{name}")))
}

/// The bytes of the word around byte `offset`, with its sign.
fn word(text: &str, offset: usize) -> std::ops::Range<usize> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    let before = text.get(..offset).unwrap_or("");
    let mut start = before.trim_end_matches(is_part).len();
    if before[..start].ends_with(['%', '@']) {
        start -= 1;
    }
    let rest = text.get(offset..).unwrap_or("");
    // The place may be before the sign.
    let signed = if start == offset { rest.trim_start_matches(['%', '@']) } else { rest };
    start..text.len() - signed.trim_start_matches(is_part).len()
}
