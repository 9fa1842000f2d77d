//! Semantic tokens: what each word of a text is.

use std::ops::Range;

use analysis::Binder;
use ir_core::text::lexer::{Lexer, Token, TokenKind};
use ir_core::{Registry, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::context::operator;
use super::documents::View;
use super::links;

/// The types of tokens; a token has the number of its type here.
pub(super) const TYPES: &[&str] = &[
    "keyword",
    "type",
    "function",
    "method",
    "variable",
    "parameter",
    "enumMember",
    "property",
    "number",
    "string",
    "operator",
];

/// The modifiers of tokens; a token has the bits of its modifiers.
pub(super) const MODIFIERS: &[&str] = &["declaration", "defaultLibrary"];

const KEYWORD: usize = 0;
const TYPE: usize = 1;
const FUNCTION: usize = 2;
const METHOD: usize = 3;
const VARIABLE: usize = 4;
const PARAMETER: usize = 5;
const MEMBER: usize = 6;
const PROPERTY: usize = 7;
const NUMBER: usize = 8;
const STRING: usize = 9;
const OPERATOR: usize = 10;

const DECLARATION: usize = 1;
const LIBRARY: usize = 2;

/// The words that have a meaning of their own.
pub(super) const KEYWORDS: &[&str] = &[
    "def",
    "type",
    "extern",
    "fn",
    "let",
    "if",
    "else",
    "match",
    "free_var",
    "ref",
    "ref_read",
    "ref_write",
    "meta",
    "True",
    "False",
    "None",
];

/// A token to show: its bytes, type and modifiers.
type Shown = (Range<usize>, usize, usize);

/// The tokens of the pieces that touch `range`.
pub(super) fn tokens(view: &View, range: Range<usize>, registry: &Registry) -> Value {
    let snapshot = &view.snapshot;
    let mut words = Words::default();
    for (name, declared) in links::declarations(view) {
        words.types.insert(name);
        words.members.extend(declared.constructors.iter().map(|constructor| constructor.name));
    }
    let mut shown = Vec::new();
    for piece in snapshot.pieces(range.clone()) {
        words.piece(view, piece, registry, &mut shown);
    }
    shown.retain(|(place, ..)| place.end > range.start && place.start < range.end);
    json!({ "data": encode(view, &shown) })
}

/// Lines and columns, each relative to the token before.
fn encode(view: &View, shown: &[Shown]) -> Vec<u64> {
    let (text, mut data) = (view.snapshot.text(), Vec::with_capacity(5 * shown.len()));
    let (mut line, mut last) = (0, 0);
    for (place, kind, modifiers) in shown {
        let between = text.get(last..place.start).unwrap_or("");
        let broken = between.contains(['\n', '\r']);
        let (delta_line, delta_column);
        if broken || data.is_empty() {
            let position = view.range(place.clone()).start;
            (delta_line, delta_column) = (position.line - line, position.character);
            line = position.line;
        } else {
            delta_line = 0;
            delta_column = view.lines.columns(between) as u64;
        }
        last = place.start;
        let length = view.lines.columns(text.get(place.clone()).unwrap_or("")) as u64;
        data.extend([delta_line, delta_column, length, *kind as u64, *modifiers as u64]);
    }
    data
}

/// What names of the document stand for.
#[derive(Default)]
struct Words {
    types: FxHashSet<Symbol>,
    members: FxHashSet<Symbol>,
}

impl Words {
    /// Adds the tokens of `piece`.
    fn piece(&self, view: &View, piece: Range<usize>, registry: &Registry, shown: &mut Vec<Shown>) {
        let mut variables: FxHashMap<usize, (usize, usize)> = FxHashMap::default();
        for variable in view.snapshot.variables(piece.clone()) {
            let kind = match variable.binder {
                Binder::Parameter => PARAMETER,
                Binder::Let | Binder::Graph | Binder::Pattern => VARIABLE,
            };
            variables.insert(variable.name.start, (kind, DECLARATION));
            variables.extend(variable.uses.iter().map(|place| (place.start, (kind, 0))));
        }
        let Some(text) = view.snapshot.text().get(piece.clone()) else { return };
        let mut tokens = Lexer::new(text).peekable();
        let mut before = None;
        while let Some(token) = tokens.next() {
            let mut range = token.start as usize..token.end as usize;
            let kind = match token.kind {
                TokenKind::Identifier => {
                    // A name with dots is one word.
                    while let Some(next) = tokens.peek()
                        && next.start as usize == range.end
                        && matches!(next.kind, TokenKind::Dot | TokenKind::Identifier)
                    {
                        range.end = next.end as usize;
                        tokens.next();
                    }
                    let next = tokens.peek().map(|next| next.kind);
                    self.word(text.get(range.clone()).unwrap_or(""), next, registry)
                }
                TokenKind::Local | TokenKind::Graph => {
                    let place = piece.start + range.start;
                    Some(variables.get(&place).copied().unwrap_or((VARIABLE, 0)))
                }
                TokenKind::Global => {
                    let declared = before.is_some_and(|before: Token| before.is_word(text, "def"));
                    Some((FUNCTION, if declared { DECLARATION } else { 0 }))
                }
                TokenKind::PartialMatch | TokenKind::Underscore => Some((KEYWORD, 0)),
                TokenKind::Integer | TokenKind::Float => Some((NUMBER, 0)),
                TokenKind::String => Some((STRING, 0)),
                TokenKind::Plus
                | TokenKind::Minus
                | TokenKind::Star
                | TokenKind::Slash
                | TokenKind::EqualEqual
                | TokenKind::NotEqual
                | TokenKind::LessEqual
                | TokenKind::GreaterEqual
                | TokenKind::Arrow
                | TokenKind::FatArrow => Some((OPERATOR, 0)),
                _ => None,
            };
            before = Some(token);
            if let Some((kind, modifiers)) = kind {
                let range = piece.start + range.start..piece.start + range.end;
                shown.push((range, kind, modifiers));
            }
        }
    }

    /// What `word`, before a token of kind `next`, is.
    fn word(
        &self,
        word: &str,
        next: Option<TokenKind>,
        registry: &Registry,
    ) -> Option<(usize, usize)> {
        let name = Symbol::new(word);
        if next == Some(TokenKind::Equal) {
            Some((PROPERTY, 0))
        } else if KEYWORDS.contains(&word) {
            Some((KEYWORD, 0))
        } else if self.members.contains(&name) {
            Some((MEMBER, 0))
        } else if self.types.contains(&name) {
            Some((TYPE, 0))
        } else if word == "Tensor" || relay_dtype(word) {
            Some((TYPE, LIBRARY))
        } else if operator(word, registry).is_some() {
            Some((METHOD, LIBRARY))
        } else {
            None
        }
    }
}

/// Whether `word` is an element type.
pub(super) fn relay_dtype(word: &str) -> bool {
    word.parse::<ir_core::DType>().is_ok()
}
