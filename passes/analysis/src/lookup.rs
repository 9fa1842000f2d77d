//! What stands at a place of the text: for hovers, definitions and references of an editor.

use std::ops::Range;

use ir_core::text::lexer::{Lexer, Token, TokenKind};
use ir_core::{Body, LocData, Span, Symbol, Type, ValueId};

use crate::Snapshot;
use crate::language::{Declared, Word};
use crate::layout::Slot;
use crate::queries;

/// What stands at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hover {
    /// The word.
    pub word: Word,
    /// Where it stands, in bytes of the text.
    pub range: Range<usize>,
    /// The type of the item or value, where it is known.
    pub ty: Option<Type>,
}

impl Snapshot {
    /// The item whose text byte `offset` is in or right behind.
    pub fn item_at(&self, offset: usize) -> Option<Symbol> {
        let slot = self.layout.slot_at(offset).filter(|slot| offset <= slot.end)?;
        self.declared_at(slot, offset - slot.start).map(|declared| declared.name)
    }

    /// The word at byte `offset`, where it stands, and its type.
    pub fn hover(&self, offset: usize) -> Option<Hover> {
        let (slot, word, range) = self.word_at(offset)?;
        let ty = match word {
            Word::Item(name) => self.signature(name).map(|signature| signature.ty),
            Word::Local(_) => self.local(slot, &range).and_then(|(_, ty)| ty),
            Word::Operation(_) => None,
        };
        let range = slot.start + range.start..slot.start + range.end;
        Some(Hover { word, range, ty })
    }

    /// Where the word at byte `offset` is defined.
    pub fn definition(&self, offset: usize) -> Option<Span> {
        let (slot, word, range) = self.word_at(offset)?;
        match word {
            Word::Item(name) => self.name_place(name),
            Word::Local(_) => {
                let (token, _) = self.local(slot, &range)?;
                let place = |offset: u32| slot.start as u32 + offset;
                Some(Span { file: self.file(), start: place(token.start), end: place(token.end) })
            }
            Word::Operation(_) => None,
        }
    }

    /// Where the name of item `name` stands in its definition.
    pub fn name_place(&self, name: impl Into<Symbol>) -> Option<Span> {
        let entry = queries::entry(&self.db, self.name(name))?;
        let reading = queries::read(&self.db, entry.piece);
        let mut declared = queries::Db::language(&self.db).declared(&reading);
        let place = declared.get_mut(entry.part)?.take()?.place;
        Some(self.absolute(place))
    }

    /// Where item `name` is referred to, its definition left out. Looks at the tokens of the whole
    /// text.
    pub fn references(&self, name: impl Into<Symbol>) -> Vec<Span> {
        let name = name.into();
        let own = self.name_place(name);
        let mut found = Vec::new();
        for slot in &self.layout.slots {
            let piece = self.layout.text_of(slot);
            let tokens = Lexer::new(piece).filter(|token| token.kind == TokenKind::Global);
            for token in tokens.filter(|token| token.name(piece) == name.as_str()) {
                let place = |offset: u32| slot.start as u32 + offset;
                let (start, end) = (place(token.start), place(token.end));
                let span = Span { file: self.file(), start, end };
                found.extend((Some(span) != own).then_some(span));
            }
        }
        found
    }

    fn word_at(&self, offset: usize) -> Option<(&Slot, Word, Range<usize>)> {
        let slot = self.layout.slot_at(offset).filter(|slot| offset <= slot.end)?;
        let piece = self.layout.text_of(slot);
        let (word, range) = queries::Db::language(&self.db).word_at(piece, offset - slot.start)?;
        Some((slot, word, range))
    }

    /// The last item of a piece that starts at or before byte `offset` of it.
    fn declared_at(&self, slot: &Slot, offset: usize) -> Option<Declared> {
        let reading = queries::read(&self.db, slot.piece);
        let declared = queries::Db::language(&self.db).declared(&reading).into_iter().flatten();
        let starts =
            |item: &Declared| item.signature.span.is_some_and(|span| span.start as usize <= offset);
        declared.filter(starts).last()
    }

    /// The token that binds the local at `range` of a piece, and its type where it is known: the
    /// last binding of the name before.
    fn local(&self, slot: &Slot, range: &Range<usize>) -> Option<(Token, Option<Type>)> {
        let piece = self.layout.text_of(slot);
        let name = piece.get(range.clone())?;
        let mut tokens = Lexer::new(piece).peekable();
        let (mut binding, mut end) = (None, 0);
        while let Some(token) = tokens.next() {
            if token.start as usize > range.start {
                break;
            }
            let binds = tokens.peek().is_some_and(|next| {
                matches!(next.kind, TokenKind::Equal | TokenKind::Colon | TokenKind::LeftBrace)
            });
            if token.text(piece) == name && (binds || binding.is_none()) {
                binding = Some(token);
            }
        }
        let binding = binding?;
        // What is bound stands between the name and the end of the statement.
        let (mut depth, mut bound) = (0usize, false);
        for token in Lexer::at(piece, binding.end as usize) {
            match token.kind {
                TokenKind::LeftParen | TokenKind::LeftBrace | TokenKind::LeftBracket => depth += 1,
                TokenKind::RightParen | TokenKind::RightBrace | TokenKind::RightBracket => {
                    match depth.checked_sub(1) {
                        Some(outer) => depth = outer,
                        None => break,
                    }
                }
                TokenKind::Equal if depth == 0 => bound = true,
                TokenKind::Semicolon | TokenKind::Comma if depth == 0 => break,
                _ => {}
            }
            end = token.end;
        }
        let item = self.declared_at(slot, binding.start as usize)?;
        let base = item.signature.span.map_or(0, |span| span.start);
        let typed = queries::typed(&self.db, self.name(item.name))?.0;
        let body = typed.body?;
        let at = |offset: u32| offset.saturating_sub(base);
        let value = match bound {
            true => bound_value(&body, at(binding.end)..at(end)),
            false => argument(&body, at(binding.start)),
        };
        Some((binding, value.map(|value| body.ty(value)).filter(|ty| !ty.is_unknown())))
    }
}

/// The argument whose name stands at byte `offset` of its item.
fn argument(body: &Body, offset: u32) -> Option<ValueId> {
    let arguments = body.walk_blocks().flat_map(|block| body.block_args(block).to_vec());
    let mut arguments = arguments.into_iter();
    arguments.find(|value| body.value_loc(*value).data() == LocData::Offset(offset))
}

/// The result of the outermost operation that stands in `range`: operands come before what uses
/// them, so it is the last of its block.
fn bound_value(body: &Body, range: Range<u32>) -> Option<ValueId> {
    let inside = |op: &ir_core::OpId| match body.loc(*op).data() {
        LocData::Offset(offset) => range.contains(&offset),
        _ => false,
    };
    let first = body.walk().find(inside)?;
    let block = body.op_block(first)?;
    let last = body.block_ops(block).filter(inside).last()?;
    body.results(last).next()
}
