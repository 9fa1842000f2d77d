//! Reading statements, with a stack of the braces that are open.

use ir_core::text::attributes::{parse_attr, parse_dict};
use ir_core::text::cursor::{Failed, Margin};
use ir_core::text::lexer::{Token, TokenKind};
use ir_core::text::literals::read_scalar;
use ir_core::text::locals::{Local, parse_local};
use ir_core::text::types::parse_integer;
use ir_core::{
    AttrData, AttrDict, BlockId, DType, Diagnostic, OpFields, OpId, Scalar, Symbol, TensorData,
    Type, ValueId,
};
use smallvec::SmallVec;

use super::parser::Parser;
use super::words;
use crate::codes;
use crate::{
    Call, Cell, Constant, Construct, Drop, Dup, Fail, If, Kernel, Read, Rows, Switch, Tail, Write,
    Yield,
};

/// A brace that is open.
pub(super) struct Open {
    owner: Owner,
    op: OpId,
    /// What the operation defines, once it has been read.
    results: Results,
    /// The block around.
    outer: BlockId,
    margin: Margin,
}

/// What a brace belongs to.
enum Owner {
    Then,
    Else,
    /// A block of an operation without a form of its own.
    Other,
    Cases(Cases),
    /// A block of the switch around.
    Case,
}

/// The cases of a switch, as far as they were read.
struct Cases {
    data: ValueId,
    tags: Vec<i64>,
    /// The case for all other constructors.
    rest: Option<Token>,
}

/// The names before `=`.
#[derive(Default)]
struct Results {
    names: SmallVec<[(Local, Token); 2]>,
    types: SmallVec<[Option<Type>; 2]>,
}

impl Parser<'_, '_, '_> {
    /// Reads statements up to the brace that closes the function, and that.
    pub(super) fn statements(&mut self) {
        loop {
            let start = self.cursor.token().start;
            let margin = self.cursor.margin();
            let in_switch = matches!(self.open.last(), Some(Open { owner: Owner::Cases(_), .. }));
            let (result, margin) = match self.cursor.kind() {
                TokenKind::RightBrace => {
                    self.cursor.bump();
                    let Some(open) = self.open.pop() else { return };
                    let margin = open.margin;
                    (self.close(open), margin)
                }
                _ if self.cursor.at_end() => {
                    self.cursor.unexpected("`}`");
                    return;
                }
                _ if in_switch => (self.case(margin), margin),
                _ => (self.statement(start, margin), margin),
            };
            if result.is_err() {
                self.cursor.skip_statement(start, margin);
            }
        }
    }

    // ---- blocks ----------------------------------------------------------------------------

    /// Goes into a new region of `op`; the block around.
    fn enter(&mut self, op: OpId) -> BlockId {
        let region = self.body.add_region(op);
        let block = self.body.block_of(region);
        std::mem::replace(&mut self.block, block)
    }

    /// Goes on after the `}` of `open`.
    fn close(&mut self, open: Open) -> Result<(), Failed> {
        let Open { owner, op, results, outer, margin } = open;
        self.block = outer;
        match owner {
            Owner::Case => return Ok(()),
            Owner::Then => {
                let head = match self.cursor.eat_word(words::ELSE) {
                    true => self.cursor.expect(TokenKind::LeftBrace).map(drop),
                    false => Err(self.cursor.unexpected("`else`")),
                };
                if head.is_err() {
                    self.define_all(results, None);
                    return head;
                }
                let outer = self.enter(op);
                self.open.push(Open { owner: Owner::Else, op, results, outer, margin });
                return Ok(());
            }
            Owner::Other if self.cursor.eat_word(words::WITH) => {
                return self.with(op, results, margin);
            }
            Owner::Cases(Cases { data, tags, .. }) => {
                self.body.set_attrs(op, Switch { data, tags }.attrs());
            }
            Owner::Else | Owner::Other => {}
        }
        self.define_all(results, Some(op));
        Ok(())
    }

    /// `1(%x: T) => {`, or `_ => {`.
    fn case(&mut self, margin: Margin) -> Result<(), Failed> {
        let token = self.cursor.token();
        let tag = match token.kind {
            TokenKind::Underscore => {
                self.cursor.bump();
                None
            }
            TokenKind::Integer | TokenKind::Minus => Some(parse_integer(self.cursor)?),
            _ => return Err(self.cursor.unexpected("a case such as `0 =>` or `_ =>`")),
        };
        let Some(Open { owner: Owner::Cases(cases), op, .. }) = self.open.last_mut() else {
            return Err(Failed);
        };
        let (op, rest) = (*op, cases.rest);
        match tag {
            Some(tag) => cases.tags.push(tag),
            None => cases.rest = Some(token),
        }
        if let Some(rest) = rest {
            let found = Diagnostic::error(codes::CASES, "a case behind that of all others")
                .at(self.cursor.span_of(token))
                .related(self.cursor.span_of(rest), "the case of all others")
                .help("move it before `_`");
            self.cursor.report(found);
        }
        let outer = self.enter(op);
        let result = self.case_head();
        if result.is_err() {
            self.block = outer;
            return result;
        }
        let results = Results::default();
        self.open.push(Open { owner: Owner::Case, op, results, outer, margin });
        Ok(())
    }

    /// `(%x: T) => {`.
    fn case_head(&mut self) -> Result<(), Failed> {
        if self.cursor.kind() == TokenKind::LeftParen {
            self.arguments()?;
        }
        self.cursor.expect(TokenKind::FatArrow)?;
        self.cursor.expect(TokenKind::LeftBrace)?;
        Ok(())
    }

    /// `(%i: T) {`, of a block of an operation without a form of its own.
    fn with(&mut self, op: OpId, results: Results, margin: Margin) -> Result<(), Failed> {
        let outer = self.enter(op);
        let head = match self.cursor.kind() == TokenKind::LeftParen {
            true => self.arguments().map(drop),
            false => Ok(()),
        };
        let head = head.and_then(|()| self.cursor.expect(TokenKind::LeftBrace).map(drop));
        match head {
            Ok(()) => self.open.push(Open { owner: Owner::Other, op, results, outer, margin }),
            Err(_) => {
                self.block = outer;
                self.define_all(results, None);
            }
        }
        head
    }

    // ---- statements ------------------------------------------------------------------------

    fn statement(&mut self, start: u32, margin: Margin) -> Result<(), Failed> {
        let mut results = Results::default();
        let named = match self.cursor.kind() {
            TokenKind::Local | TokenKind::Graph => self.results(&mut results),
            _ => Ok(()),
        };
        let op = named.and_then(|()| self.operation(&mut results, start, margin));
        // What is open takes the names along.
        self.define_all(results, op.ok().flatten());
        op.map(drop)
    }

    /// `%a: T, %b: U =`.
    fn results(&mut self, results: &mut Results) -> Result<(), Failed> {
        loop {
            results.names.push(parse_local(self.cursor)?);
            let ty = match self.cursor.eat(TokenKind::Colon) {
                true => Some(self.ty()?),
                false => None,
            };
            results.types.push(ty);
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        self.cursor.expect(TokenKind::Equal).map(drop)
    }

    /// Makes names stand for the results of `op`, or for something that could not be read.
    fn define_all(&mut self, results: Results, op: Option<OpId>) {
        for (index, name) in results.names.into_iter().enumerate() {
            let value = op.map(|op| self.body.result(op, index));
            self.define(name, value);
        }
    }

    /// Reads an operation, which defines `results`. Where it has regions, the first one is open then,
    /// and has taken them; `None`.
    fn operation(
        &mut self,
        results: &mut Results,
        start: u32,
        margin: Margin,
    ) -> Result<Option<OpId>, Failed> {
        let token = self.cursor.token();
        if token.kind == TokenKind::String {
            return self.other(results, start, margin);
        }
        let word = match token.kind {
            TokenKind::Identifier => self.cursor.text_of(token),
            _ => "",
        };
        let op = match word {
            words::CONSTANT => {
                self.cursor.bump();
                let value = self.constant()?;
                if let [ty @ None] = &mut results.types[..] {
                    *ty = Some(value.ty());
                }
                self.add(&Constant { value }, Some(1), results, start)?
            }
            words::CALL => {
                let (function, arguments) = self.call()?;
                self.add(&Call { function, arguments }, None, results, start)?
            }
            words::KERNEL => {
                let (function, inputs) = self.call()?;
                self.add(&Kernel { function, inputs }, None, results, start)?
            }
            words::ROWS => {
                let (kernels, inputs) = self.rows()?;
                self.add(&Rows { kernels, inputs }, None, results, start)?
            }
            words::TAIL => {
                let (function, arguments) = self.call()?;
                self.add(&Tail { function, arguments }, Some(0), results, start)?
            }
            words::CONSTRUCT => {
                self.cursor.bump();
                let tag = parse_integer(self.cursor)?;
                let fields = match self.cursor.kind() == TokenKind::LeftParen {
                    true => self.values()?,
                    false => Vec::new(),
                };
                self.add(&Construct { tag, fields }, Some(1), results, start)?
            }
            words::CELL => {
                self.cursor.bump();
                let values = self.values()?;
                self.add(&Cell { values }, Some(1), results, start)?
            }
            words::READ => {
                let cell = self.behind_word()?;
                self.add(&Read { cell }, None, results, start)?
            }
            words::WRITE => {
                let cell = self.behind_word()?;
                let values = self.values()?;
                self.add(&Write { cell, values }, Some(0), results, start)?
            }
            words::DUP => {
                let value = self.behind_word()?;
                self.add(&Dup { value }, Some(0), results, start)?
            }
            words::DROP => {
                let value = self.behind_word()?;
                self.add(&Drop { value }, Some(0), results, start)?
            }
            words::FAIL => {
                self.cursor.bump();
                let message = self.cursor.expect(TokenKind::String)?;
                let message = message.name(self.cursor.source()).into_owned();
                self.add(&Fail { message }, Some(0), results, start)?
            }
            words::YIELD => {
                self.cursor.bump();
                let values = self.yielded()?;
                self.add(&Yield { values }, Some(0), results, start)?
            }
            words::IF => {
                let condition = self.behind_word()?;
                let op = self.add(&If { condition }, None, results, start)?;
                self.cursor.expect(TokenKind::LeftBrace)?;
                let (outer, results) = (self.enter(op), std::mem::take(results));
                self.open.push(Open { owner: Owner::Then, op, results, outer, margin });
                return Ok(None);
            }
            words::SWITCH => {
                let data = self.behind_word()?;
                let tags = Vec::new();
                let op = self.add(&Switch { data, tags: vec![] }, None, results, start)?;
                self.cursor.expect(TokenKind::LeftBrace)?;
                let (outer, results) = (self.block, std::mem::take(results));
                let owner = Owner::Cases(Cases { data, tags, rest: None });
                self.open.push(Open { owner, op, results, outer, margin });
                return Ok(None);
            }
            _ => return Err(self.cursor.unexpected("a statement such as `drop %x`")),
        };
        Ok(Some(op))
    }

    /// Adds an operation, which defines `results`, or reports that it does not: it gives none or one,
    /// which is `count`, or any number.
    fn add<T: OpFields<ValueId>>(
        &mut self,
        op: &T,
        count: Option<usize>,
        results: &Results,
        start: u32,
    ) -> Result<OpId, Failed> {
        let types = self.types(T::NAME, count, results, start)?;
        self.insert(Symbol::new(T::NAME), &op.operands(), &types, op.attrs(), start)
    }

    /// The types of `results`, which an operation called `name` defines.
    fn types(
        &mut self,
        name: &str,
        count: Option<usize>,
        results: &Results,
        start: u32,
    ) -> Result<SmallVec<[Type; 2]>, Failed> {
        let found = results.names.len();
        if let Some(expected) = count.filter(|count| *count != found) {
            let expected = if expected == 0 { "no" } else { "one" };
            let plural = if found == 1 { "" } else { "s" };
            let message = format!("`{name}` defines {expected} value, found {found} name{plural}");
            let place = self.cursor.since(start);
            return Err(self.cursor.report(Diagnostic::error(codes::RESULTS, message).at(place)));
        }
        let mut types = SmallVec::new();
        for ((_, token), ty) in results.names.iter().zip(&results.types) {
            let Some(ty) = ty else {
                let name = self.cursor.text_of(*token);
                let message = format!("expected the type of `{name}`");
                let found = Diagnostic::error(codes::RESULTS, message)
                    .at(self.cursor.span_of(*token))
                    .help(format!("write it behind the name: `{name}: float32 = …`"));
                return Err(self.cursor.report(found));
            };
            types.push(*ty);
        }
        Ok(types)
    }

    /// `call @f(%x, %y)`.
    fn call(&mut self) -> Result<(Symbol, Vec<ValueId>), Failed> {
        self.cursor.bump();
        let token = self.cursor.expect(TokenKind::Global)?;
        let function = self.name(token);
        Ok((function, self.values()?))
    }

    /// `rows @f, @g(%x, %y)`.
    fn rows(&mut self) -> Result<(Vec<Symbol>, Vec<ValueId>), Failed> {
        self.cursor.bump();
        let mut kernels = Vec::new();
        loop {
            let token = self.cursor.expect(TokenKind::Global)?;
            kernels.push(self.name(token));
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        Ok((kernels, self.values()?))
    }

    /// `drop %x`: the value.
    fn behind_word(&mut self) -> Result<ValueId, Failed> {
        self.cursor.bump();
        self.value()
    }

    /// `%a, %b`, or nothing.
    fn yielded(&mut self) -> Result<Vec<ValueId>, Failed> {
        let is_value = matches!(self.cursor.kind(), TokenKind::Local | TokenKind::Graph);
        let mut values = Vec::new();
        if is_value && !self.cursor.at_line_start() {
            values.push(self.value()?);
            while self.cursor.eat(TokenKind::Comma) {
                values.push(self.value()?);
            }
        }
        Ok(values)
    }

    /// `1f`, or `dense<…>`.
    fn constant(&mut self) -> Result<TensorData, Failed> {
        let start = self.cursor.token().start;
        for (word, truth) in [("True", 1), ("False", 0)] {
            if self.cursor.eat_word(word) {
                return Ok(TensorData::scalar(DType::BOOL, Scalar::Int(truth)));
            }
        }
        if self.cursor.at_word("dense")
            && let AttrData::Tensor(value) = parse_attr(self.cursor)?.data()
        {
            return Ok(value.clone());
        }
        let negative = self.cursor.eat(TokenKind::Minus);
        let token = match self.cursor.kind() {
            TokenKind::Integer | TokenKind::Float => self.cursor.bump(),
            _ => {
                let expected = "a constant such as `0f` or `dense<Tensor[(2), int8], 0>`";
                return Err(self.cursor.unexpected(expected));
            }
        };
        read_scalar(self.cursor.text_of(token), negative, DType::INT64).map_err(|message| {
            let place = self.cursor.since(start);
            self.cursor.report(Diagnostic::error("E0116", message).at(place))
        })
    }

    /// `"a.b"(%x) {key = value} with (%i: T) { … }`.
    fn other(
        &mut self,
        results: &mut Results,
        start: u32,
        margin: Margin,
    ) -> Result<Option<OpId>, Failed> {
        let token = self.cursor.bump();
        let name = self.name(token);
        let operands = self.values()?;
        let attrs = match self.cursor.kind() {
            TokenKind::LeftBrace => parse_dict(self.cursor)?,
            _ => AttrDict::empty(),
        };
        let attrs = match self.registry.def(name).map(|def| def.normalize_attrs(attrs)) {
            None => attrs,
            Some(Ok(normal)) => normal,
            Some(Err(messages)) => {
                let place = self.cursor.since(start);
                for message in messages {
                    self.cursor.report(Diagnostic::error("E0122", message).at(place));
                }
                attrs
            }
        };
        let types = self.types(name.as_str(), None, results, start)?;
        let op = self.insert(name, &operands, &types, attrs, start)?;
        if !self.cursor.eat_word(words::WITH) {
            return Ok(Some(op));
        }
        self.with(op, std::mem::take(results), margin)?;
        Ok(None)
    }
}
