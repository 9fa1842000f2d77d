//! Reading statements, with a stack of the braces that are open.

use ir_core::text::attributes::parse_dict;
use ir_core::text::cursor::{Failed, Margin};
use ir_core::text::lexer::{Token, TokenKind};
use ir_core::text::locals::{Local, parse_local};
use ir_core::text::types::{parse_dtype, parse_integer, parse_path};
use ir_core::{
    AttrDict, AttrValue, BlockId, DType, Diagnostic, OpFields, OpId, Symbol, TensorData, Type,
    ValueId,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::codes;
use super::forms::{needs_end, result_count};
use super::parser::{Parser, Word};
use crate::compute::{Combiner, Compute, Reduce, Return, Scan, Scatter, Yield};
use crate::loops::{Alloc, Atomic, Barrier, Call, Data, Fetch, For, ForKind, If, Scope, Store};
use crate::scalar::dtype_of;

/// The word before the place of a buffer in the workspace, and before that of a part of a buffer.
const AT: &str = "at";

/// The word before the count at which an axis ends, and before the limit of a loop.
const TO: &str = "to";

/// A brace that is open.
pub(super) struct Open {
    owner: Owner,
    op: OpId,
    outer: Outer,
    /// Where the statement stands that it belongs to.
    margin: Margin,
}

/// What a brace belongs to.
enum Owner {
    Stage(Stage),
    /// The updates of a scatter.
    Updates(Stage),
    /// The block of a reduction or scatter that combines two values.
    Combine(Stage),
    Loop,
    Then,
    Else,
}

/// A stage that is being read.
struct Stage {
    name: Symbol,
    token: Token,
    form: StageForm,
}

enum StageForm {
    Compute {
        shape: Vec<i64>,
        counts: Vec<i64>,
    },
    Reduce(Reduce),
    /// Its element type is that of what its block yields.
    Scan(Scan),
    /// The same.
    Scatter(Scatter),
}

/// The word of a stage whose elements follow one another.
pub(super) const SCAN: &str = "scan";

/// The word of a stage whose elements are changed at computed places.
pub(super) const SCATTER: &str = "scatter";

/// The word of what changes them.
pub(super) const UPDATES: &str = "update";

/// What was current around a block.
struct Outer {
    block: BlockId,
    scope: usize,
    constants: FxHashMap<AttrDict, ValueId>,
}

/// An index and its extent.
struct Axis {
    name: Symbol,
    extent: i64,
    /// The number of the parameter at which it ends, of a stage; else -1.
    count: i64,
}

/// The counts of `axes`, as stages hold them: none where all are whole.
fn counts(axes: &[Axis]) -> Vec<i64> {
    match axes.iter().all(|axis| axis.count < 0) {
        true => vec![],
        false => axes.iter().map(|axis| axis.count).collect(),
    }
}

impl Parser<'_, '_, '_> {
    /// Reads statements up to the brace that closes the item, and that.
    pub(super) fn statements(&mut self) {
        loop {
            let start = self.cursor.token().start;
            let margin = self.cursor.margin();
            let (result, margin) = match self.cursor.kind() {
                TokenKind::RightBrace => {
                    self.cursor.bump();
                    let Some(open) = self.open.pop() else { return self.end_block() };
                    let margin = open.margin;
                    (self.close(open), margin)
                }
                _ if self.cursor.at_end() => {
                    self.cursor.unexpected("`}`");
                    return;
                }
                _ => (self.statement(margin), margin),
            };
            if result.is_err() {
                self.cursor.skip_statement(start, margin);
            }
        }
    }

    /// Adds the end that needs no words to a block that has none.
    fn end_block(&mut self) {
        if !self.is_ended() && needs_end(&self.body, self.block, self.registry) {
            let start = self.cursor.previous_end().saturating_sub(1);
            let name = Symbol::new(<Yield as OpFields<ValueId>>::NAME);
            let _ = self.insert(name, &[], &[], AttrDict::empty(), 0, start);
        }
    }

    // ---- blocks ----------------------------------------------------------------------------

    /// Goes into region `index` of `op`.
    fn enter(&mut self, op: OpId, index: usize) -> Outer {
        let block = self.body.region_block(op, index);
        Outer {
            block: std::mem::replace(&mut self.block, block),
            scope: self.scope(),
            constants: std::mem::take(&mut self.constants),
        }
    }

    /// Goes back to the block around.
    fn leave(&mut self, outer: Outer) {
        self.block = outer.block;
        self.constants = outer.constants;
        self.close_scope(outer.scope);
    }

    /// Makes `axes` the arguments of the current block.
    fn bind_axes(&mut self, axes: &[Axis]) {
        for axis in axes {
            self.bind_index(axis.name, Type::scalar(DType::INT64));
        }
    }

    fn bind_index(&mut self, name: Symbol, ty: Type) {
        let value = self.body.add_block_arg(self.block, ty);
        self.hint(value, name);
        self.define_word(name, Word::Index(value));
    }

    /// Goes on after the `}` of `open`.
    fn close(&mut self, open: Open) -> Result<(), Failed> {
        self.end_block();
        let Open { owner, op, outer, margin } = open;
        match owner {
            Owner::Stage(stage) => {
                let result = self.yields(op, &stage);
                self.leave(outer);
                if matches!(stage.form, StageForm::Scatter(_)) {
                    self.updates(op, stage, margin)?;
                    return result;
                }
                match self.cursor.eat_word("combine") {
                    true => self.combine(op, stage, margin)?,
                    false => self.define_stage(op, &stage),
                }
                result
            }
            Owner::Updates(stage) => {
                let result = self.yielded(&stage).map(drop);
                self.leave(outer);
                self.expect_word("combine")?;
                self.combine(op, stage, margin)?;
                result
            }
            Owner::Combine(stage) => {
                let result = self.yielded(&stage).map(drop);
                self.leave(outer);
                self.define_stage(op, &stage);
                result
            }
            Owner::Then if self.cursor.eat_word("else") => {
                self.leave(outer);
                self.cursor.expect(TokenKind::LeftBrace)?;
                self.body.add_region(op);
                let outer = self.enter(op, 1);
                self.open.push(Open { owner: Owner::Else, op, outer, margin });
                Ok(())
            }
            Owner::Then | Owner::Else | Owner::Loop => {
                self.leave(outer);
                Ok(())
            }
        }
    }

    // ---- statements ------------------------------------------------------------------------

    fn statement(&mut self, margin: Margin) -> Result<(), Failed> {
        let token = self.cursor.token();
        let start = token.start;
        let after = self.cursor.after().kind;
        match token.kind {
            TokenKind::Local | TokenKind::Graph if after == TokenKind::LeftBracket => {
                self.store(false, start)
            }
            TokenKind::Local | TokenKind::Graph => self.definition(start),
            TokenKind::String if after == TokenKind::LeftParen => self.generic(&[], start),
            TokenKind::Identifier | TokenKind::String if after == TokenKind::LeftBracket => {
                self.stage(token, margin)
            }
            TokenKind::Identifier => match self.cursor.text_of(token) {
                "for" | "parallel" | "vectorized" | "unrolled" | "thread" => self.for_loop(margin),
                "if" => self.branches(margin),
                "atomic" => {
                    self.cursor.bump();
                    let (buffer, indices) = self.element()?;
                    self.cursor.expect(TokenKind::Equal)?;
                    let Some(combiner) = self.combiner() else {
                        return Err(self.cursor.unexpected("`sum`, `max` or `min`"));
                    };
                    let value = self.expression()?;
                    self.effect(&Atomic { combiner, value, buffer, indices }, start)
                }
                "fetch" => {
                    self.cursor.bump();
                    let (buffer, indices) = self.element()?;
                    self.effect(&Fetch { buffer, indices }, start)
                }
                "stream" => {
                    self.cursor.bump();
                    self.store(true, start)
                }
                "barrier" => {
                    self.cursor.bump();
                    self.effect::<Barrier>(&Barrier {}, start)
                }
                "call" => self.call_kernel(start),
                "yield" => {
                    self.cursor.bump();
                    let nothing =
                        self.cursor.at_line_start() || self.cursor.kind() == TokenKind::RightBrace;
                    let values = if nothing { Vec::new() } else { self.expressions()? };
                    self.effect(&Yield { values }, start)
                }
                "return" => {
                    self.cursor.bump();
                    let mut tensors = vec![self.tensor()?];
                    while self.cursor.eat(TokenKind::Comma) {
                        tensors.push(self.tensor()?);
                    }
                    self.effect(&Return { tensors }, start)
                }
                _ => Err(self.cursor.unexpected("a statement")),
            },
            _ => Err(self.cursor.unexpected("a statement")),
        }
    }

    /// Adds an operation without results.
    fn effect<T: OpFields<ValueId>>(&mut self, op: &T, start: u32) -> Result<(), Failed> {
        self.insert(Symbol::new(T::NAME), &op.operands(), &[], op.attrs(), 0, start).map(drop)
    }

    /// `%x[i, j] = a`.
    fn store(&mut self, streaming: bool, start: u32) -> Result<(), Failed> {
        let (buffer, indices) = self.element()?;
        self.cursor.expect(TokenKind::Equal)?;
        let value = self.expression()?;
        self.effect(&Store { value, buffer, indices, streaming }, start)
    }

    /// `a, b`.
    fn expressions(&mut self) -> Result<Vec<ValueId>, Failed> {
        let mut values = vec![self.expression()?];
        while self.cursor.eat(TokenKind::Comma) {
            values.push(self.expression()?);
        }
        Ok(values)
    }

    /// `%x[i, j]`, where something is stored.
    fn element(&mut self) -> Result<(ValueId, Vec<ValueId>), Failed> {
        let tensor = self.tensor()?;
        self.cursor.expect(TokenKind::LeftBracket)?;
        let mut indices = Vec::new();
        if !self.cursor.eat(TokenKind::RightBracket) {
            indices = self.expressions()?;
            self.cursor.expect(TokenKind::RightBracket)?;
        }
        Ok((tensor, indices))
    }

    /// Takes the name of a combiner.
    fn combiner(&mut self) -> Option<Combiner> {
        let token = self.cursor.token();
        let combiner = Combiner::of(self.cursor.text_of(token))?;
        self.cursor.bump();
        Some(combiner)
    }

    /// `%a, %b = …`.
    fn definition(&mut self, start: u32) -> Result<(), Failed> {
        let mut names: SmallVec<[(Local, Token); 2]> = SmallVec::new();
        let result = self.definition_of(&mut names, start);
        let values = result.as_deref().unwrap_or_default().to_vec();
        for (index, name) in names.into_iter().enumerate() {
            self.define_local(name, values.get(index).copied());
        }
        result.map(drop)
    }

    fn definition_of(
        &mut self,
        names: &mut SmallVec<[(Local, Token); 2]>,
        start: u32,
    ) -> Result<Vec<ValueId>, Failed> {
        names.push(parse_local(self.cursor)?);
        while self.cursor.eat(TokenKind::Comma) {
            names.push(parse_local(self.cursor)?);
        }
        self.cursor.expect(TokenKind::Equal)?;
        let after = self.cursor.after().kind;
        if self.cursor.kind() == TokenKind::String && after == TokenKind::LeftParen {
            self.generic(names, start)?;
            let last = self.body.last_op(self.block);
            return Ok(last.map(|op| self.body.results(op).collect()).unwrap_or_default());
        }
        if names.len() > 1 {
            return Err(self.cursor.unexpected("an operation with several results"));
        }
        let value = if self.cursor.at_word("alloc") && after == TokenKind::LeftBracket {
            self.alloc(start)?
        } else if self.cursor.at_word("data") && after == TokenKind::Identifier {
            self.cursor.bump();
            let data = Data { value: self.dense_attribute()? };
            let attrs = OpFields::<ValueId>::attrs(&data);
            self.emit(Symbol::new(<Data as OpFields<ValueId>>::NAME), &[], attrs, start)?
        } else {
            self.named_expression(start)?
        };
        Ok(vec![value])
    }

    /// The expression of a definition. A number alone is a constant of its own.
    fn named_expression(&mut self, start: u32) -> Result<ValueId, Failed> {
        let before = self.body.last_op(self.block);
        let value = self.expression()?;
        let Some(op) = self.body.defining_op(value) else { return Ok(value) };
        let attrs = self.body.attrs(op);
        if self.constants.get(&attrs) != Some(&value) {
            return Ok(value);
        }
        match self.body.last_op(self.block) == before {
            true => self.fresh_constant(attrs, start),
            false => {
                self.constants.remove(&attrs);
                Ok(value)
            }
        }
    }

    /// `alloc[(8, 16), float32] register at 64`.
    fn alloc(&mut self, start: u32) -> Result<ValueId, Failed> {
        self.cursor.bump();
        self.cursor.expect(TokenKind::LeftBracket)?;
        self.cursor.expect(TokenKind::LeftParen)?;
        let mut shape = Vec::new();
        while !self.cursor.eat(TokenKind::RightParen) {
            shape.push(parse_integer(self.cursor)?);
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        self.cursor.expect(TokenKind::Comma)?;
        let dtype = parse_dtype(self.cursor)?;
        self.cursor.expect(TokenKind::RightBracket)?;
        let mut scope = Scope::Global;
        if self.cursor.kind() == TokenKind::Identifier && !self.cursor.at_line_start() {
            let word = self.cursor.text_of(self.cursor.token()).to_string();
            if word != AT {
                scope = match Scope::from_attr(word.to_attr()) {
                    Some(scope) => scope,
                    None => return Err(self.cursor.unexpected(Scope::EXPECTS)),
                };
                self.cursor.bump();
            }
        }
        let offset = match self.cursor.eat_word(AT) {
            true => Some(parse_integer(self.cursor)?),
            false => None,
        };
        let alloc = Alloc { shape, dtype, scope, offset };
        let attrs = OpFields::<ValueId>::attrs(&alloc);
        self.emit(Symbol::new(<Alloc as OpFields<ValueId>>::NAME), &[], attrs, start)
    }

    /// `call @kernel(%x, %y)`, or `call @kernel(%x at i * 4, %y at 0)`.
    fn call_kernel(&mut self, start: u32) -> Result<(), Failed> {
        self.cursor.bump();
        let token = self.cursor.expect(TokenKind::Global)?;
        let kernel = Symbol::new(&token.name(self.cursor.source()));
        let (mut arguments, mut offsets) = (Vec::new(), Vec::new());
        self.cursor.expect(TokenKind::LeftParen)?;
        while !self.cursor.eat(TokenKind::RightParen) {
            arguments.push(self.tensor()?);
            // The first buffer says whether parts are passed.
            if offsets.len() + 1 == arguments.len() {
                match self.cursor.eat_word(AT) {
                    true => offsets.push(self.expression()?),
                    false if offsets.is_empty() => {}
                    false => return Err(self.cursor.unexpected("`at` and an offset")),
                }
            }
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        let parts = !offsets.is_empty();
        arguments.append(&mut offsets);
        self.effect(&Call { kernel, arguments, parts }, start)
    }

    /// `"a.b"(x, y) {key = value} : T`, of an operation without a form of its own.
    fn generic(&mut self, names: &[(Local, Token)], start: u32) -> Result<(), Failed> {
        let token = self.cursor.expect(TokenKind::String)?;
        let name = Symbol::new(&token.name(self.cursor.source()));
        let mut operands = Vec::new();
        self.cursor.expect(TokenKind::LeftParen)?;
        if !self.cursor.eat(TokenKind::RightParen) {
            operands = self.expressions()?;
            self.cursor.expect(TokenKind::RightParen)?;
        }
        let attrs = match self.cursor.kind() {
            TokenKind::LeftBrace => parse_dict(self.cursor)?,
            _ => AttrDict::empty(),
        };
        let mut types = Vec::new();
        if !names.is_empty() {
            let colon = self.cursor.expect(TokenKind::Colon)?;
            types.push(self.ty()?);
            while self.cursor.eat(TokenKind::Comma) {
                types.push(self.ty()?);
            }
            if types.len() != names.len() {
                let (expected, found) = (names.len(), types.len());
                let message = format!("`{name}` defines {expected} values, found {found} types");
                let place = self.cursor.since(colon.start);
                return Err(self.cursor.report(Diagnostic::error("E0115", message).at(place)));
            }
        }
        self.insert(name, &operands, &types, attrs, 0, start).map(drop)
    }

    // ---- loops and branches ----------------------------------------------------------------

    /// `parallel i < 4 {`.
    fn for_loop(&mut self, margin: Margin) -> Result<(), Failed> {
        let token = self.cursor.bump();
        let word = self.cursor.text_of(token).to_string();
        // `for` is the word of serial loops.
        let kind = ForKind::from_attr(word.to_attr()).unwrap_or(ForKind::Serial);
        let mut thread = None;
        if self.cursor.eat(TokenKind::LeftParen) {
            thread = Some(parse_path(self.cursor)?.as_str().to_string());
            self.cursor.expect(TokenKind::RightParen)?;
        }
        let axis = self.axis()?;
        let limit = match self.cursor.eat_word(TO) {
            true => Some(self.expression()?),
            false => None,
        };
        let notes = self.attributes()?;
        self.cursor.expect(TokenKind::LeftBrace)?;
        let form = For { kind, extent: axis.extent, thread, limit };
        let own = form.attrs();
        let own = own.entries().iter().copied();
        let attrs = AttrDict::new(own.chain(notes.entries().iter().copied()));
        let name = Symbol::new(For::<ValueId>::NAME);
        let op = self.insert(name, &form.operands(), &[], attrs, 1, token.start)?;
        let outer = self.enter(op, 0);
        self.bind_axes(&[axis]);
        self.open.push(Open { owner: Owner::Loop, op, outer, margin });
        Ok(())
    }

    /// `if c {`.
    fn branches(&mut self, margin: Margin) -> Result<(), Failed> {
        let token = self.cursor.bump();
        let condition = self.expression()?;
        self.cursor.expect(TokenKind::LeftBrace)?;
        let name = Symbol::new(If::<ValueId>::NAME);
        let op = self.insert(name, &[condition], &[], AttrDict::empty(), 1, token.start)?;
        let outer = self.enter(op, 0);
        self.open.push(Open { owner: Owner::Then, op, outer, margin });
        Ok(())
    }

    /// `i < 8`.
    fn axis(&mut self) -> Result<Axis, Failed> {
        let token = self.cursor.token();
        if token.kind != TokenKind::Identifier {
            return Err(self.cursor.unexpected("an index such as `i`"));
        }
        self.cursor.bump();
        self.cursor.expect(TokenKind::Less)?;
        let extent = parse_integer(self.cursor)?;
        Ok(Axis { name: Symbol::new(self.cursor.text_of(token)), extent, count: -1 })
    }

    /// `to %n`, where an axis of a stage ends at a parameter; the number of that, else -1.
    fn count(&mut self) -> Result<i64, Failed> {
        if !self.cursor.eat_word(TO) {
            return Ok(-1);
        }
        let token = self.cursor.token();
        let Some(value) = self.local()? else { return Err(Failed) };
        let params = self.body.block_args(self.body.entry());
        let Some(number) = params.iter().position(|param| *param == value) else {
            let message = "an axis ends at a parameter of its function".to_string();
            let place = self.cursor.span_of(token);
            return Err(self.cursor.report(Diagnostic::error(codes::STAGE, message).at(place)));
        };
        Ok(number as i64)
    }

    /// `[i < 8, j < 32 to %n]`.
    fn axes(&mut self) -> Result<Vec<Axis>, Failed> {
        let mut axes = Vec::new();
        self.cursor.expect(TokenKind::LeftBracket)?;
        while !self.cursor.eat(TokenKind::RightBracket) {
            let axis = self.axis()?;
            axes.push(Axis { count: self.count()?, ..axis });
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightBracket)?;
                break;
            }
        }
        Ok(axes)
    }

    // ---- stages ----------------------------------------------------------------------------

    /// `dense[i < 8, j < 32] = sum[k < 64] …`.
    fn stage(&mut self, token: Token, margin: Margin) -> Result<(), Failed> {
        let name = Symbol::new(&token.name(self.cursor.source()));
        if self.is_stage(name) {
            let found = Diagnostic::error("E0113", format!("two stages are called `{name}`"));
            let place = self.cursor.span_of(token);
            self.cursor.report(found.at(place));
        }
        let result = self.stage_of(name, token, margin);
        if result.is_err() {
            self.define_word(name, Word::Unknown);
        }
        result
    }

    fn stage_of(&mut self, name: Symbol, token: Token, margin: Margin) -> Result<(), Failed> {
        self.cursor.bump();
        let mut axes = self.axes()?;
        let shape = axes.iter().map(|axis| axis.extent).collect();
        self.cursor.expect(TokenKind::Equal)?;
        let after = self.cursor.after().kind;
        let reduces = matches!(after, TokenKind::LeftBracket | TokenKind::LeftParen)
            && self.cursor.kind() == TokenKind::Identifier;
        let after_user = after == TokenKind::LeftBracket || self.cursor.at_word("user");
        let combiner = match reduces && after_user {
            true => self.combiner(),
            false => None,
        };
        let mut state: Vec<(Symbol, TensorData)> = vec![];
        let form = match combiner {
            None if after == TokenKind::LeftParen && self.cursor.at_word(SCAN) => {
                let axis;
                (axis, state) = self.scan(&axes)?;
                let initial = state.iter().map(|(_, initial)| initial.clone()).collect();
                let (name, counts) = (name.as_str().to_string(), counts(&axes));
                let dtype = DType::FLOAT32;
                StageForm::Scan(Scan { name, shape, dtype, axis, initial, counts })
            }
            None if after == TokenKind::LeftBrace && self.cursor.eat_word(SCATTER) => {
                let (name, counts) = (name.as_str().to_string(), counts(&axes));
                let (dtype, extents) = (DType::FLOAT32, vec![]);
                StageForm::Scatter(Scatter { name, shape, dtype, extents, counts })
            }
            None => StageForm::Compute { shape, counts: counts(&axes) },
            Some(combiner) => {
                let mut identity = Vec::new();
                if self.cursor.eat(TokenKind::LeftParen) {
                    while !self.cursor.eat(TokenKind::RightParen) {
                        identity.push(self.constant_value()?);
                        if !self.cursor.eat(TokenKind::Comma) {
                            self.cursor.expect(TokenKind::RightParen)?;
                            break;
                        }
                    }
                }
                let reduction = self.axes()?;
                let extents = reduction.iter().map(|axis| axis.extent).collect();
                axes.extend(reduction);
                let name = name.as_str().to_string();
                let counts = counts(&axes);
                StageForm::Reduce(Reduce { name, shape, extents, combiner, identity, counts })
            }
        };
        let (op_name, results) = match &form {
            StageForm::Compute { .. } => (<Compute as OpFields<ValueId>>::NAME, 1),
            StageForm::Scan(_) => (<Scan as OpFields<ValueId>>::NAME, 1),
            StageForm::Scatter(_) => (<Scatter as OpFields<ValueId>>::NAME, 1),
            StageForm::Reduce(form) => (<Reduce as OpFields<ValueId>>::NAME, result_count(form)),
        };
        let unknown = vec![Type::unknown(); results];
        let attrs = AttrDict::empty();
        let op = self.insert(Symbol::new(op_name), &[], &unknown, attrs, 1, token.start)?;
        let stage = Stage { name, token, form };
        let braces = self.cursor.eat(TokenKind::LeftBrace);
        let outer = self.enter(op, 0);
        self.bind_axes(&axes);
        for (name, initial) in &state {
            self.bind_index(*name, initial.ty());
        }
        if braces {
            self.open.push(Open { owner: Owner::Stage(stage), op, outer, margin });
            return Ok(());
        }
        let start = self.cursor.token().start;
        let result = self.expressions().and_then(|values| self.effect(&Yield { values }, start));
        let result = result.and_then(|()| self.yields(op, &stage));
        self.leave(outer);
        result?;
        self.define_stage(op, &stage);
        Ok(())
    }

    /// `scan(j, s = 0f)`: the number of the axis, and the values of the state.
    fn scan(&mut self, axes: &[Axis]) -> Result<(i64, Vec<(Symbol, TensorData)>), Failed> {
        self.cursor.bump();
        self.cursor.expect(TokenKind::LeftParen)?;
        let token = self.cursor.expect(TokenKind::Identifier)?;
        let name = Symbol::new(self.cursor.text_of(token));
        let Some(axis) = axes.iter().position(|axis| axis.name == name) else {
            let place = self.cursor.span_of(token);
            let found = Diagnostic::error(codes::STAGE, format!("the stage has no index `{name}`"));
            let found = found.at(place).help("a scan goes along one of the indices of its stage");
            return Err(self.cursor.report(found));
        };
        let mut state = Vec::new();
        while self.cursor.eat(TokenKind::Comma) {
            let token = self.cursor.expect(TokenKind::Identifier)?;
            let name = Symbol::new(self.cursor.text_of(token));
            self.cursor.expect(TokenKind::Equal)?;
            state.push((name, self.constant_value()?));
        }
        self.cursor.expect(TokenKind::RightParen)?;
        Ok((axis as i64, state))
    }

    /// `update[k < 5, l < 32] {`.
    fn updates(&mut self, op: OpId, mut stage: Stage, margin: Margin) -> Result<(), Failed> {
        self.expect_word(UPDATES)?;
        let axes = self.axes()?;
        let attrs = self.body.attrs(op);
        if let StageForm::Scatter(form) = &mut stage.form {
            form.extents = axes.iter().map(|axis| axis.extent).collect();
            let whole = vec![-1; form.shape.len()];
            let dimensions = if form.counts.is_empty() { whole } else { form.counts.clone() };
            let updates = axes.iter().map(|axis| axis.count);
            form.counts = dimensions.into_iter().chain(updates).collect();
            if form.counts.iter().all(|count| *count < 0) {
                form.counts.clear();
            }
            form.dtype = attrs.value("dtype").unwrap_or(form.dtype);
            let attrs = OpFields::<ValueId>::attrs(&*form);
            self.body.set_attrs(op, attrs);
        }
        self.cursor.expect(TokenKind::LeftBrace)?;
        self.body.add_region(op);
        let outer = self.enter(op, 1);
        self.bind_axes(&axes);
        self.open.push(Open { owner: Owner::Updates(stage), op, outer, margin });
        Ok(())
    }

    /// `combine(a, b) {`.
    fn combine(&mut self, op: OpId, stage: Stage, margin: Margin) -> Result<(), Failed> {
        let dtypes: Vec<DType> = match &stage.form {
            StageForm::Reduce(form) => form.identity.iter().map(TensorData::dtype).collect(),
            StageForm::Scatter(form) => vec![form.dtype],
            _ => return Err(self.cursor.unexpected("a statement")),
        };
        let open = self.cursor.expect(TokenKind::LeftParen)?;
        let mut names = Vec::new();
        while !self.cursor.eat(TokenKind::RightParen) {
            let token = self.cursor.token();
            self.cursor.expect(TokenKind::Identifier)?;
            names.push(Symbol::new(self.cursor.text_of(token)));
            if !self.cursor.eat(TokenKind::Comma) {
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
        }
        if names.len() != 2 * dtypes.len() {
            let (expected, found) = (2 * dtypes.len(), names.len());
            let message = format!("expected {expected} names, two for each value, found {found}");
            let place = self.cursor.since(open.start);
            return Err(self.cursor.report(Diagnostic::error(codes::STAGE, message).at(place)));
        }
        self.cursor.expect(TokenKind::LeftBrace)?;
        let (_, number) = (self.body.add_region(op), self.body.regions(op).len() - 1);
        let outer = self.enter(op, number);
        for (name, dtype) in names.into_iter().zip(dtypes.iter().chain(&dtypes)) {
            self.bind_index(name, Type::scalar(*dtype));
        }
        self.open.push(Open { owner: Owner::Combine(stage), op, outer, margin });
        Ok(())
    }

    /// The types of the values that the current block yields; an error where it yields none.
    fn yielded(&mut self, stage: &Stage) -> Result<Vec<Type>, Failed> {
        let end = self.body.last_op(self.block).and_then(|op| self.body.view::<Yield>(op));
        let values = end.map(|end| end.values).unwrap_or_default();
        if values.is_empty() {
            let message = format!("the stage `{}` yields no value", stage.name);
            let found = Diagnostic::error(codes::STAGE, message);
            let place = self.cursor.span_of(stage.token);
            let found = found.at(place).help("end its block with `yield` and the value");
            return Err(self.cursor.report(found));
        }
        Ok(values.iter().map(|value| self.body.ty(*value)).collect())
    }

    /// Checks what the first block of `stage` yields, and types its results.
    fn yields(&mut self, op: OpId, stage: &Stage) -> Result<(), Failed> {
        let types = self.yielded(stage)?;
        let state = match &stage.form {
            StageForm::Scan(form) => form.initial.len(),
            _ => 0,
        };
        let count = self.body.result_count(op) + state;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        if types.len() != count {
            let found = types.len();
            let message = match state {
                0 => format!(
                    "the stage `{}` has {count} result{}, but yields {found} value{}",
                    stage.name,
                    plural(count),
                    plural(found)
                ),
                _ => format!(
                    "the stage `{}` has an element and a state of {state}, but yields {found} \
                     value{}",
                    stage.name,
                    plural(found)
                ),
            };
            let place = self.cursor.span_of(stage.token);
            return Err(self.cursor.report(Diagnostic::error(codes::STAGE, message).at(place)));
        }
        let mut dtypes = Vec::new();
        for ty in types {
            match dtype_of(ty) {
                Some(dtype) => dtypes.push(dtype),
                // What has no type has been reported.
                None if ty == Type::unknown() => return Err(Failed),
                None => {
                    let message = format!("the stage `{}` yields a scalar, found {ty}", stage.name);
                    let place = self.cursor.span_of(stage.token);
                    let found = Diagnostic::error(codes::STAGE, message).at(place);
                    return Err(self.cursor.report(found));
                }
            }
        }
        let (shape, attrs) = match (&stage.form, dtypes.as_slice()) {
            (StageForm::Compute { shape, counts }, &[dtype]) => {
                let (name, counts) = (stage.name.as_str().to_string(), counts.clone());
                let form = Compute { name, shape: shape.clone(), dtype, counts };
                (shape, OpFields::<ValueId>::attrs(&form))
            }
            (StageForm::Reduce(form), _) => (&form.shape, OpFields::<ValueId>::attrs(form)),
            (StageForm::Scan(form), &[dtype, ..]) => {
                let form = Scan { dtype, ..form.clone() };
                (&form.shape.clone(), OpFields::<ValueId>::attrs(&form))
            }
            (StageForm::Scatter(form), &[dtype]) => {
                let form = Scatter { dtype, ..form.clone() };
                (&form.shape.clone(), OpFields::<ValueId>::attrs(&form))
            }
            (StageForm::Compute { .. } | StageForm::Scan(_) | StageForm::Scatter(_), _) => {
                return Err(Failed);
            }
        };
        self.body.set_attrs(op, attrs);
        for (index, dtype) in dtypes.into_iter().take(count - state).enumerate() {
            let result = self.body.result(op, index);
            self.body.set_ty(result, Type::tensor(shape.iter().copied(), dtype));
            self.hint(result, stage.name);
        }
        Ok(())
    }

    fn define_stage(&mut self, op: OpId, stage: &Stage) {
        self.define_word(stage.name, Word::Stage(op));
    }
}
