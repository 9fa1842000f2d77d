//! What stands at a place of the text: for hovers, definitions and references of an editor.

use std::ops::Range;
use std::sync::Arc;

use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::text::module::ReadItem;
use ir_core::{Body, LocData, OpId, Span, Symbol, Type, ValueId};
use rustc_hash::FxHashMap;

use crate::Snapshot;
use crate::language::{Variable, Word};
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
            Word::Local(_) => self.type_of(&self.variable_at(offset)?),
            Word::Operation(_) => None,
        };
        let range = slot.start + range.start..slot.start + range.end;
        Some(Hover { word, range, ty })
    }

    /// Where the word at byte `offset` is defined.
    pub fn definition(&self, offset: usize) -> Option<Span> {
        let (_, word, _) = self.word_at(offset)?;
        match word {
            Word::Item(name) => self.name_place(name),
            Word::Local(_) => {
                let Range { start, end } = self.variable_at(offset)?.name;
                Some(Span { file: self.file(), start: start as u32, end: end as u32 })
            }
            Word::Operation(_) => None,
        }
    }

    /// Where the name of item `name` stands in its definition.
    pub fn name_place(&self, name: impl Into<Symbol>) -> Option<Span> {
        Some(self.absolute(queries::declaration(&self.db, self.name(name))?.place))
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

    /// The type of `variable`, where it is known.
    pub fn type_of(&self, variable: &Variable) -> Option<Type> {
        self.types(self.item_at(variable.name.start)?)?.of_variable(variable)
    }

    fn word_at(&self, offset: usize) -> Option<(&Slot, Word, Range<usize>)> {
        let slot = self.layout.slot_at(offset).filter(|slot| offset <= slot.end)?;
        let piece = self.layout.text_of(slot);
        let (word, range) = queries::Db::language(&self.db).word_at(piece, offset - slot.start)?;
        Some((slot, word, range))
    }

    /// The last item of a piece that starts at or before byte `offset` of it.
    fn declared_at(&self, slot: &Slot, offset: usize) -> Option<&ReadItem> {
        let parts = &queries::read(&self.db, slot.piece).parts;
        let mut items = parts.iter().filter_map(|part| part.item.as_ref());
        items.rfind(|read| {
            read.item.signature.span.is_some_and(|span| span.start as usize <= offset)
        })
    }

    /// The variable at byte `offset`.
    pub fn variable_at(&self, offset: usize) -> Option<Variable> {
        let variables = self.variables(self.piece_at(offset)?);
        variables.into_iter().find(|variable| variable.is_at(offset))
    }

    /// The variables bound in `piece`, which [`Snapshot::pieces`] lists, in order.
    pub fn variables(&self, piece: Range<usize>) -> Vec<Variable> {
        let text = self.text().get(piece.clone()).unwrap_or("");
        let found = queries::Db::language(&self.db).variables(text);
        found.into_iter().map(|variable| variable.moved(piece.start)).collect()
    }

    /// The bytes of the text that pieces take that start before the end of `range` and end behind
    /// its start, in order.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let slots = &self.layout.slots;
        let first = slots.partition_point(|slot| slot.end < range.start);
        let found = slots.iter().skip(first).take_while(move |slot| slot.start <= range.end);
        found.map(|slot| slot.start..slot.end)
    }

    /// The bytes of the piece that byte `offset` is in or right behind.
    pub fn piece_at(&self, offset: usize) -> Option<Range<usize>> {
        let slot = self.layout.slot_at(offset).filter(|slot| offset <= slot.end)?;
        Some(slot.start..slot.end)
    }

    /// The names and kinds of the items, in order.
    pub fn kinds(&self) -> Vec<(Symbol, Symbol)> {
        queries::index(&self.db).iter().map(|(name, entry)| (*name, entry.kind)).collect()
    }

    /// The types of the values of item `name`, by where they stand.
    pub fn types(&self, name: impl Into<Symbol>) -> Option<Types> {
        let item = self.item(name)?;
        Some(Types::of(item.body?, item.signature.span.map_or(0, |span| span.start)))
    }
}

/// The types of the values of an item, by where they stand.
pub struct Types {
    body: Arc<Body>,
    /// Where the item starts.
    base: u32,
    /// Arguments of blocks by place in the item.
    arguments: FxHashMap<u32, ValueId>,
    /// Operations by place in the item, each with its number in a walk.
    ops: Vec<(u32, u32, OpId)>,
}

impl Types {
    fn of(body: Arc<Body>, base: u32) -> Types {
        let (mut arguments, mut ops) = (FxHashMap::default(), Vec::with_capacity(body.op_count()));
        for block in body.walk_blocks() {
            for value in body.block_args(block) {
                if let LocData::Offset(offset) = body.value_loc(*value).data() {
                    arguments.entry(offset).or_insert(*value);
                }
            }
        }
        for (number, op) in body.walk().enumerate() {
            if let LocData::Offset(offset) = body.loc(op).data() {
                ops.push((offset, number as u32, op));
            }
        }
        ops.sort_unstable_by_key(|(offset, number, _)| (*offset, *number));
        Types { body, base, arguments, ops }
    }

    /// The type of `variable`, where it is known.
    pub fn of_variable(&self, variable: &Variable) -> Option<Type> {
        let value = match &variable.value {
            Some(range) => self.bound(range)?,
            None => *self.arguments.get(&self.relative(variable.name.start)?)?,
        };
        Some(self.body.ty(value)).filter(|ty| !ty.is_unknown())
    }

    /// The type of what the operation that is written at byte `offset` computes.
    pub fn of_operation(&self, offset: usize) -> Option<Type> {
        let offset = self.relative(offset)?;
        let first = self.ops.partition_point(|(place, ..)| *place < offset);
        let (_, _, op) = self.ops.get(first).filter(|(place, ..)| *place == offset)?;
        let ty = self.body.ty(self.body.results(*op).next()?);
        (!ty.is_unknown()).then_some(ty)
    }

    fn relative(&self, offset: usize) -> Option<u32> {
        u32::try_from(offset).ok()?.checked_sub(self.base)
    }

    /// The result of the outermost operation that stands in `range`: operands come before what uses
    /// them, so it is the last of its block.
    fn bound(&self, range: &Range<usize>) -> Option<ValueId> {
        let (start, end) = (self.relative(range.start)?, self.relative(range.end)?);
        let first = self.ops.partition_point(|(place, ..)| *place < start);
        let last = self.ops.partition_point(|(place, ..)| *place < end);
        let inside = self.ops.get(first..last)?;
        let (_, _, outermost) = inside.iter().min_by_key(|(_, number, _)| *number)?;
        let block = self.body.op_block(*outermost);
        let of_block = inside.iter().filter(|(.., op)| self.body.op_block(*op) == block);
        let (_, _, op) = of_block.max_by_key(|(_, number, _)| *number)?;
        self.body.results(*op).next()
    }
}
