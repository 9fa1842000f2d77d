//! The parser: items, their statements, and what they have read so far.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::ParsedItem;
use ir_core::text::attributes::parse_dict;
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::{Token, TokenKind};
use ir_core::text::locals::{Local, Locals, parse_local};
use ir_core::text::types::{TypeName, parse_integer, parse_path, parse_type};
use ir_core::{
    AttrDict, Binding, BlockId, Body, Diagnostic, InferCx, InsertPoint, Item, Loc, NameHint, OpId,
    OpParts, Registry, Signature, Stop, Symbol, Traits, Type, ValueId,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::codes;
use super::statements::Open;
use crate::compute::counts::COUNTS;
use crate::compute::{FUNC, Return, function_type};
use crate::loops::OUTPUTS;

/// Reads an item of one of the kinds of this dialect.
pub(super) fn parse_item(
    cursor: &mut Cursor<'_>,
    registry: &Registry,
) -> Result<ParsedItem, Failed> {
    Parser::new(cursor, registry).item()
}

/// What a word stands for.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Index(ValueId),
    Stage(OpId),
    /// Something that could not be read, which has been reported.
    Unknown,
}

pub(super) struct Parser<'c, 't, 'r> {
    pub cursor: &'c mut Cursor<'t>,
    pub registry: &'r Registry,
    /// First byte of the item.
    base: u32,
    pub body: Body,
    /// Where operations are added.
    pub block: BlockId,
    /// Values with a `%`.
    locals: Locals,
    words: FxHashMap<Symbol, Word>,
    /// What words stood for before, to end scopes.
    shadowed: Vec<(Symbol, Option<Word>)>,
    /// The constants of `block` that numbers stand for.
    pub constants: FxHashMap<AttrDict, ValueId>,
    /// Braces inside the item, outermost first.
    pub open: Vec<Open>,
}

impl<'c, 't, 'r> Parser<'c, 't, 'r> {
    /// A parser of the item at `cursor`.
    pub(super) fn new(cursor: &'c mut Cursor<'t>, registry: &'r Registry) -> Parser<'c, 't, 'r> {
        let base = cursor.token().start;
        let body = Body::new();
        Parser {
            cursor,
            registry,
            base,
            block: body.entry(),
            body,
            locals: Locals::default(),
            words: FxHashMap::default(),
            shadowed: Vec::new(),
            constants: FxHashMap::default(),
            open: Vec::new(),
        }
    }

    // ---- items -----------------------------------------------------------------------------

    fn item(&mut self) -> Result<ParsedItem, Failed> {
        let errors = self.errors();
        let kind = parse_path(self.cursor)?;
        let token = self.cursor.expect(TokenKind::Global)?;
        let name = Symbol::new(&token.name(self.cursor.source()));
        let place = self.cursor.span_of(token);
        let params = self.params()?;
        let result = match self.cursor.eat(TokenKind::Arrow) {
            true => Some(self.ty()?),
            false => None,
        };
        let outputs = match self.cursor.eat_word(OUTPUTS) {
            true => Some(parse_integer(self.cursor)?),
            false => None,
        };
        let mut counts = Vec::new();
        if self.cursor.eat_word(COUNTS) {
            counts.push(parse_integer(self.cursor)?);
            while self.cursor.eat(TokenKind::Comma) {
                counts.push(parse_integer(self.cursor)?);
            }
        }
        let mut attrs = self.attributes()?;
        if !counts.is_empty() {
            attrs = attrs.with(COUNTS, &counts);
        }
        if let Some(outputs) = outputs {
            attrs = attrs.with(OUTPUTS, &outputs);
        }
        let mut ty = Type::function(params.iter().copied(), result.unwrap_or(Type::unit()));
        let has_body = self.cursor.eat(TokenKind::LeftBrace);
        if has_body {
            self.statements();
            if kind == FUNC {
                match self.returned() {
                    None if self.errors() == errors => {
                        let message = format!("`@{name}` does not end with `return`");
                        let end = self.cursor.previous_end();
                        let place = self.cursor.span(end.saturating_sub(1), end);
                        let found = Diagnostic::error(codes::RETURN, message).at(place);
                        self.cursor.report(found.help("end it with `return` and its tensors"));
                    }
                    Some(values) if result.is_none() => ty = function_type(&self.body, &values),
                    _ => {}
                }
            }
        }
        let body = (has_body && self.errors() == errors)
            .then(|| std::sync::Arc::new(std::mem::take(&mut self.body)));
        let span = Some(self.cursor.span(self.base, self.cursor.previous_end()));
        let signature = Signature { op: kind, ty, attrs, span };
        Ok(ParsedItem { name, place, item: Item { signature, body } })
    }

    /// `(%x: T, %y: T)`, as arguments of the body.
    fn params(&mut self) -> Result<Vec<Type>, Failed> {
        let mut types = Vec::new();
        self.cursor.expect(TokenKind::LeftParen)?;
        while !self.cursor.eat(TokenKind::RightParen) {
            let name = parse_local(self.cursor)?;
            self.cursor.expect(TokenKind::Colon)?;
            let ty = self.ty()?;
            types.push(ty);
            let value = self.body.add_block_arg(self.block, ty);
            self.define_local(name, Some(value));
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        Ok(types)
    }

    /// `attributes {key = value}`, where it stands.
    pub(super) fn attributes(&mut self) -> Result<AttrDict, Failed> {
        match self.cursor.eat_word("attributes") {
            true => parse_dict(self.cursor),
            false => Ok(AttrDict::empty()),
        }
    }

    /// The tensors that the body returns, where it ends with `return`.
    fn returned(&self) -> Option<Vec<ValueId>> {
        let last = self.body.last_op(self.body.entry())?;
        Some(self.body.view::<Return>(last)?.tensors)
    }

    pub(super) fn ty(&mut self) -> Result<Type, Failed> {
        parse_type(self.cursor, &mut |_| Some(TypeName::Parameter))
    }

    pub(super) fn errors(&self) -> usize {
        self.cursor.diagnostics.len()
    }

    // ---- names -----------------------------------------------------------------------------

    /// The value that a `%` stands for; `None` where it could not be read.
    pub(super) fn local(&mut self) -> Result<Option<ValueId>, Failed> {
        self.locals.read(self.cursor)
    }

    /// Makes `value` what `name` stands for; without a value, because there was an error, only where
    /// it stands for nothing.
    pub(super) fn define_local(&mut self, name: (Local, Token), value: Option<ValueId>) {
        self.locals.define(name, value, &mut self.body, self.cursor);
    }

    pub(super) fn hint(&mut self, value: ValueId, name: Symbol) {
        self.body.set_name_hint(value, NameHint { name: Some(name), binding: Binding::Graph });
    }

    /// What `name` stands for, which `token` mentions.
    pub(super) fn word(&mut self, name: Symbol, token: Token) -> Word {
        if let Some(word) = self.words.get(&name) {
            return *word;
        }
        let place = self.cursor.span_of(token);
        let message = format!("there is no stage or index `{name}` here");
        let mut found = Diagnostic::error("E0112", message).at(place);
        let mut known: Vec<&str> = self.words.keys().map(|name| name.as_str()).collect();
        known.sort_unstable();
        found.help = did_you_mean(name.as_str(), known);
        self.cursor.report(found);
        self.define_word(name, Word::Unknown);
        Word::Unknown
    }

    pub(super) fn define_word(&mut self, name: Symbol, word: Word) {
        let before = self.words.insert(name, word);
        self.shadowed.push((name, before));
    }

    /// Whether a stage of this name is in scope.
    pub(super) fn is_stage(&self, name: Symbol) -> bool {
        matches!(self.words.get(&name), Some(Word::Stage(_)))
    }

    /// The scope that is open.
    pub(super) fn scope(&self) -> usize {
        self.shadowed.len()
    }

    /// Ends all scopes inside `scope`.
    pub(super) fn close_scope(&mut self, scope: usize) {
        while self.shadowed.len() > scope
            && let Some((name, before)) = self.shadowed.pop()
        {
            match before {
                Some(word) => self.words.insert(name, word),
                None => self.words.remove(&name),
            };
        }
    }

    // ---- operations ------------------------------------------------------------------------

    /// The location of what starts at byte `start` of the file.
    pub(super) fn loc(&self, start: u32) -> Loc {
        Loc::offset(start - self.base)
    }

    /// Adds an operation to the current block. Errors where it is too large.
    pub(super) fn insert(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        results: &[Type],
        attrs: AttrDict,
        regions: usize,
        start: u32,
    ) -> Result<OpId, Failed> {
        self.cursor.expect_size(operands.len(), results.len(), start)?;
        let parts =
            OpParts::new(name, operands, results).attrs(attrs).regions(regions).at(self.loc(start));
        Ok(self.body.insert_op(InsertPoint::End(self.block), parts))
    }

    /// Adds an operation with one result, whose type follows from its operands. What does not go
    /// together is reported, and has an unknown type.
    pub(super) fn emit(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        attrs: AttrDict,
        start: u32,
    ) -> Result<ValueId, Failed> {
        let types: SmallVec<[Type; 4]> =
            operands.iter().map(|operand| self.body.ty(*operand)).collect();
        let mut ty = Type::unknown();
        if !types.contains(&Type::unknown())
            && let Some(infer) = self.registry.def(name).and_then(|def| def.infer)
        {
            match infer(&mut InferCx::new(&types, attrs)) {
                Ok(inferred) => ty = inferred,
                Err(Stop::Stuck) => {}
                Err(Stop::Error(message)) => {
                    let place = self.cursor.since(start);
                    self.cursor.report(Diagnostic::error(codes::TYPE, message).at(place));
                }
            }
        }
        let op = self.insert(name, operands, &[ty], attrs, 0, start)?;
        Ok(self.body.result(op, 0))
    }

    /// Whether the current block has its end.
    pub(super) fn is_ended(&self) -> bool {
        self.body
            .last_op(self.block)
            .is_some_and(|op| self.registry.traits(&self.body, op).contains(Traits::TERMINATOR))
    }
}
