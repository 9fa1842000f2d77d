//! Reading expressions, with a stack of what is open, so that they nest without limit.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::attributes::parse_attr;
use ir_core::text::cursor::Failed;
use ir_core::text::lexer::{Token, TokenKind};
use ir_core::text::literals::read_scalar;
use ir_core::text::types::{parse_dtype, parse_integer};
use ir_core::{
    AttrData, AttrDict, AttrValue, DType, Diagnostic, OpFields, Scalar, Symbol, TensorData, ValueId,
};

use super::codes;
use super::operators::{CALLS, Precedence, call_name, infix_of, prefix, scalar_op};
use super::parser::{Parser, Word};
use crate::compute::{Load, LoadIf};
use crate::loops::{Broadcast, Extract, Ramp};
use crate::scalar::{Cast, Check, Constant, Reinterpret, ScalarOp, Select};

/// What a call applies.
#[derive(Clone, Copy)]
enum Callee {
    Scalar(ScalarOp),
    Cast(DType),
    Reinterpret(DType),
    Select,
    Check,
    Ramp,
    Broadcast,
    Extract,
}

/// Something that is open and waits for its operands, the first of which is value `first`.
enum Frame {
    Infix(ScalarOp, Precedence),
    /// With the byte where it starts.
    Prefix(ScalarOp, Precedence, u32),
    Group,
    Call {
        callee: Callee,
        first: usize,
        start: u32,
    },
    /// `tensor[`, of `if c then tensor[` where `conditional`.
    Element {
        tensor: ValueId,
        first: usize,
        start: u32,
        conditional: bool,
    },
    /// `if`
    Condition {
        start: u32,
    },
    /// `if c then tensor[i] else`
    Otherwise {
        tensor: ValueId,
        first: usize,
        start: u32,
    },
}

/// An operand, and where it starts.
#[derive(Clone, Copy)]
struct Operand {
    value: ValueId,
    start: u32,
}

/// What begins at a place where an operand may stand.
enum Begun {
    Operand(Operand),
    /// Something that waits for an operand of its own.
    Frame(Frame),
}

impl Parser<'_, '_, '_> {
    /// Reads an expression: its value.
    pub(super) fn expression(&mut self) -> Result<ValueId, Failed> {
        let mut values: Vec<Operand> = Vec::new();
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            match self.begin(values.len())? {
                Begun::Frame(frame) => {
                    frames.push(frame);
                    continue;
                }
                Begun::Operand(operand) => values.push(operand),
            }
            if let Some(value) = self.goes_on(&mut values, &mut frames)? {
                return Ok(value);
            }
        }
    }

    /// Reads what follows an operand, up to where another one is expected, or to the end of the
    /// expression, whose value it returns.
    fn goes_on(
        &mut self,
        values: &mut Vec<Operand>,
        frames: &mut Vec<Frame>,
    ) -> Result<Option<ValueId>, Failed> {
        loop {
            let infix = infix_of(self.cursor.token(), self.cursor.source());
            let strength = infix.map_or(0, |(_, precedence)| precedence);
            while let Some(Frame::Infix(_, own) | Frame::Prefix(_, own, _)) = frames.last()
                && *own >= strength
                && let Some(frame) = frames.pop()
            {
                self.reduce(&frame, values)?;
            }
            if let Some((op, precedence)) = infix {
                self.cursor.bump();
                frames.push(Frame::Infix(op, precedence));
                return Ok(None);
            }
            let Some(frame) = frames.pop() else {
                return Ok(values.pop().map(|operand| operand.value));
            };
            match frame {
                Frame::Infix(..) | Frame::Prefix(..) => self.reduce(&frame, values)?,
                Frame::Group => drop(self.cursor.expect(TokenKind::RightParen)?),
                Frame::Call { callee, first, start } => {
                    let complete = callee.has_rest() && values.len() - first == callee.operands();
                    if !complete && self.cursor.eat(TokenKind::Comma) {
                        frames.push(Frame::Call { callee, first, start });
                        return Ok(None);
                    }
                    self.finish_call(callee, first, start, values)?;
                }
                Frame::Element { tensor, first, start, conditional } => {
                    if self.cursor.eat(TokenKind::Comma) {
                        frames.push(Frame::Element { tensor, first, start, conditional });
                        return Ok(None);
                    }
                    self.cursor.expect(TokenKind::RightBracket)?;
                    if conditional {
                        self.expect_word("else")?;
                        frames.push(Frame::Otherwise { tensor, first, start });
                        return Ok(None);
                    }
                    self.load(tensor, first, start, values)?;
                }
                Frame::Condition { start } => {
                    self.expect_word("then")?;
                    let first = values.len();
                    let tensor = self.tensor()?;
                    self.cursor.expect(TokenKind::LeftBracket)?;
                    if self.cursor.eat(TokenKind::RightBracket) {
                        self.expect_word("else")?;
                        frames.push(Frame::Otherwise { tensor, first, start });
                    } else {
                        frames.push(Frame::Element { tensor, first, start, conditional: true });
                    }
                    return Ok(None);
                }
                Frame::Otherwise { tensor, first, start } => {
                    let otherwise = values.pop().ok_or(Failed)?.value;
                    let indices = take(values, first);
                    let condition = values.pop().ok_or(Failed)?.value;
                    let load = LoadIf { condition, otherwise, tensor, indices };
                    self.operand(&load, start, values)?;
                }
            }
        }
    }

    /// Reads what begins an operand; `count` operands wait already.
    fn begin(&mut self, count: usize) -> Result<Begun, Failed> {
        let token = self.cursor.token();
        let start = token.start;
        let text = self.cursor.text_of(token);
        match token.kind {
            TokenKind::LeftParen => {
                self.cursor.bump();
                Ok(Begun::Frame(Frame::Group))
            }
            TokenKind::Minus => {
                self.cursor.bump();
                match self.cursor.kind() {
                    TokenKind::Integer | TokenKind::Float => self.number(start, true),
                    _ => Ok(Begun::Frame(prefix_frame(ScalarOp::Neg, start))),
                }
            }
            TokenKind::Integer | TokenKind::Float => self.number(start, false),
            TokenKind::Local | TokenKind::Graph => {
                let value = self.local()?.ok_or(Failed)?;
                self.element_or(value, count, start)
            }
            TokenKind::String => {
                let value = self.named(token)?;
                self.element_or(value, count, start)
            }
            TokenKind::Identifier => match text {
                "if" => {
                    self.cursor.bump();
                    Ok(Begun::Frame(Frame::Condition { start }))
                }
                "not" => {
                    self.cursor.bump();
                    Ok(Begun::Frame(prefix_frame(ScalarOp::Not, start)))
                }
                "True" | "False" => {
                    self.cursor.bump();
                    let truth = Scalar::Int((text == "True").into());
                    self.literal(TensorData::scalar(DType::BOOL, truth), start)
                }
                "cast" | "reinterpret" if self.cursor.after().kind == TokenKind::Less => {
                    let callee = match text {
                        "cast" => Callee::Cast,
                        _ => Callee::Reinterpret,
                    };
                    self.cursor.bump();
                    self.cursor.bump();
                    let dtype = parse_dtype(self.cursor)?;
                    self.cursor.expect(TokenKind::Greater)?;
                    self.begin_call(callee(dtype), count, start)
                }
                _ if self.cursor.after().kind == TokenKind::LeftParen => self.call(token, count),
                _ => {
                    let value = self.named(token)?;
                    self.element_or(value, count, start)
                }
            },
            _ => Err(self.cursor.unexpected("an expression")),
        }
    }

    /// The index or tensor that is named here: an index, a stage, or a result of a stage.
    fn named(&mut self, token: Token) -> Result<ValueId, Failed> {
        let name = Symbol::new(&token.name(self.cursor.source()));
        self.cursor.bump();
        let op = match self.word(name, token) {
            Word::Index(value) => return Ok(value),
            Word::Unknown => return Err(Failed),
            Word::Stage(op) => op,
        };
        let mut index = 0;
        let dotted = self.cursor.eat(TokenKind::Dot);
        if dotted {
            index = parse_integer(self.cursor)?;
        }
        let count = self.body.result_count(op);
        match usize::try_from(index) {
            Ok(index) if index < count && dotted == (count > 1) => Ok(self.body.result(op, index)),
            _ => {
                let message = match count {
                    1 => format!("the stage `{name}` has one result"),
                    _ => format!("expected one of the {count} results of `{name}`"),
                };
                let place = self.cursor.since(token.start);
                let found = Diagnostic::error(codes::STAGE, message).at(place);
                Err(self.cursor.report(found.help(match count {
                    1 => format!("write `{name}`"),
                    _ => format!("write `{name}.0` or `{name}.{}`", count - 1),
                })))
            }
        }
    }

    /// A tensor by its name: `%x`, `dense`, `best.0`.
    pub(super) fn tensor(&mut self) -> Result<ValueId, Failed> {
        let token = self.cursor.token();
        match token.kind {
            TokenKind::Local | TokenKind::Graph => self.local()?.ok_or(Failed),
            TokenKind::Identifier | TokenKind::String => self.named(token),
            _ => Err(self.cursor.unexpected("a tensor such as `%x`")),
        }
    }

    /// `value`, or an element of it where a `[` follows.
    fn element_or(&mut self, value: ValueId, first: usize, start: u32) -> Result<Begun, Failed> {
        if !self.cursor.eat(TokenKind::LeftBracket) {
            return Ok(Begun::Operand(Operand { value, start }));
        }
        if !self.cursor.eat(TokenKind::RightBracket) {
            let conditional = false;
            return Ok(Begun::Frame(Frame::Element { tensor: value, first, start, conditional }));
        }
        let mut values = Vec::new();
        self.load(value, 0, start, &mut values)?;
        values.pop().map(Begun::Operand).ok_or(Failed)
    }

    // ---- constants -------------------------------------------------------------------------

    /// The number at the cursor, behind a minus where `negative`.
    fn number(&mut self, start: u32, negative: bool) -> Result<Begun, Failed> {
        let token = self.cursor.bump();
        match read_scalar(self.cursor.text_of(token), negative, DType::INT64) {
            Ok(value) => self.literal(value, start),
            Err(message) => {
                let place = self.cursor.since(start);
                Err(self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place)))
            }
        }
    }

    /// The constant of this block that is `value`; made where there is none.
    fn literal(&mut self, value: TensorData, start: u32) -> Result<Begun, Failed> {
        let constant = Constant { value };
        let attrs = OpFields::<ValueId>::attrs(&constant);
        let value = match self.constants.get(&attrs) {
            Some(known) => *known,
            None => {
                let value = self.fresh_constant(attrs, start)?;
                self.constants.insert(attrs, value);
                value
            }
        };
        Ok(Begun::Operand(Operand { value, start }))
    }

    /// A new constant, that no number stands for.
    pub(super) fn fresh_constant(
        &mut self,
        attrs: AttrDict,
        start: u32,
    ) -> Result<ValueId, Failed> {
        self.emit(Symbol::new(<Constant as OpFields<ValueId>>::NAME), &[], attrs, start)
    }

    /// A constant outside of expressions: `0f`, `constant(dense<…>)`.
    pub(super) fn constant_value(&mut self) -> Result<TensorData, Failed> {
        let start = self.cursor.token().start;
        for (word, truth) in [("True", 1), ("False", 0)] {
            if self.cursor.eat_word(word) {
                return Ok(TensorData::scalar(DType::BOOL, Scalar::Int(truth)));
            }
        }
        if self.cursor.at_word("constant") {
            self.cursor.bump();
            return self.dense();
        }
        let negative = self.cursor.eat(TokenKind::Minus);
        let token = match self.cursor.kind() {
            TokenKind::Integer | TokenKind::Float => self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("a constant such as `0f`")),
        };
        read_scalar(self.cursor.text_of(token), negative, DType::INT64).map_err(|message| {
            let place = self.cursor.since(start);
            self.cursor.report(Diagnostic::error(codes::LITERAL, message).at(place))
        })
    }

    /// `(dense<T, …>)`.
    fn dense(&mut self) -> Result<TensorData, Failed> {
        self.cursor.expect(TokenKind::LeftParen)?;
        let value = self.dense_attribute()?;
        self.cursor.expect(TokenKind::RightParen)?;
        Ok(value)
    }

    /// `dense<T, …>`.
    pub(super) fn dense_attribute(&mut self) -> Result<TensorData, Failed> {
        if !self.cursor.at_word("dense") {
            return Err(self.cursor.unexpected("a tensor such as `dense<Tensor[(2), int8], 0>`"));
        }
        match parse_attr(self.cursor)?.data() {
            AttrData::Tensor(value) => Ok(value.clone()),
            _ => Err(self.cursor.unexpected("a tensor")),
        }
    }

    // ---- calls -----------------------------------------------------------------------------

    /// `exp(`, and the like.
    fn call(&mut self, token: Token, count: usize) -> Result<Begun, Failed> {
        let name = self.cursor.text_of(token);
        let callee = match name {
            "select" => Callee::Select,
            "check" => Callee::Check,
            "ramp" => Callee::Ramp,
            "broadcast" => Callee::Broadcast,
            "extract" => Callee::Extract,
            "constant" => {
                self.cursor.bump();
                let value = self.dense()?;
                return self.literal(value, token.start);
            }
            _ => match scalar_op(name) {
                Some(op) => Callee::Scalar(op),
                None => {
                    let known = ScalarOp::ALL.iter().map(|op| call_name(*op)).chain(CALLS);
                    let message = format!("there is no function `{name}`");
                    let mut found = Diagnostic::error(codes::FUNCTION, message);
                    found.help = did_you_mean(name, known);
                    let place = self.cursor.span_of(token);
                    return Err(self.cursor.report(found.at(place)));
                }
            },
        };
        self.cursor.bump();
        self.begin_call(callee, count, token.start)
    }

    fn begin_call(&mut self, callee: Callee, first: usize, start: u32) -> Result<Begun, Failed> {
        self.cursor.expect(TokenKind::LeftParen)?;
        if self.cursor.kind() == TokenKind::RightParen {
            self.cursor.bump();
            return Err(self.wrong_count(callee, 0, start));
        }
        Ok(Begun::Frame(Frame::Call { callee, first, start }))
    }

    fn wrong_count(&mut self, callee: Callee, found: usize, start: u32) -> Failed {
        let (name, expected) = (callee.name(), callee.operands());
        let plural = if expected == 1 { "" } else { "s" };
        let message = format!("`{name}` takes {expected} operand{plural}, found {found}");
        let place = self.cursor.since(start);
        self.cursor.report(Diagnostic::error(codes::OPERANDS, message).at(place))
    }

    /// Reads the end of a call, what is no operand included.
    fn finish_call(
        &mut self,
        callee: Callee,
        first: usize,
        start: u32,
        values: &mut Vec<Operand>,
    ) -> Result<(), Failed> {
        let mut numbers = [0; 2];
        for number in &mut numbers[..callee.numbers()] {
            self.cursor.expect(TokenKind::Comma)?;
            *number = parse_integer(self.cursor)?;
        }
        let (mut message, mut site) = (String::new(), None);
        if let Callee::Check = callee {
            (message, site) = self.message()?;
        }
        self.cursor.expect(TokenKind::RightParen)?;
        let operands = take(values, first);
        if operands.len() != callee.operands() {
            return Err(self.wrong_count(callee, operands.len(), start));
        }
        let [one, two] = numbers;
        match (callee, operands.as_slice()) {
            (Callee::Scalar(op), operands) => {
                let value =
                    self.emit(Symbol::new(op.name()), operands, AttrDict::empty(), start)?;
                values.push(Operand { value, start });
                Ok(())
            }
            (Callee::Cast(dtype), &[a]) => self.operand(&Cast { a, dtype }, start, values),
            (Callee::Reinterpret(dtype), &[a]) => {
                self.operand(&Reinterpret { a, dtype }, start, values)
            }
            (Callee::Select, &[condition, a, b]) => {
                self.operand(&Select { condition, a, b }, start, values)
            }
            (Callee::Check, &[condition, a, otherwise]) => {
                self.operand(&Check { condition, a, otherwise, message, site }, start, values)
            }
            (Callee::Ramp, &[base]) => {
                self.operand(&Ramp { base, stride: one, lanes: two }, start, values)
            }
            (Callee::Broadcast, &[a]) => self.operand(&Broadcast { a, lanes: one }, start, values),
            (Callee::Extract, &[a]) => self.operand(&Extract { a, lane: one }, start, values),
            (callee, operands) => Err(self.wrong_count(callee, operands.len(), start)),
        }
    }

    /// Reads `, "message"` and perhaps the number of a check.
    fn message(&mut self) -> Result<(String, Option<i64>), Failed> {
        self.cursor.expect(TokenKind::Comma)?;
        if self.cursor.kind() != TokenKind::String {
            return Err(self.cursor.unexpected("a message in quotes"));
        }
        let message = String::from_attr(parse_attr(self.cursor)?).unwrap_or_default();
        let site = match self.cursor.eat(TokenKind::Comma) {
            true => Some(parse_integer(self.cursor)?),
            false => None,
        };
        Ok((message, site))
    }

    // ---- operations ------------------------------------------------------------------------

    fn load(
        &mut self,
        tensor: ValueId,
        first: usize,
        start: u32,
        values: &mut Vec<Operand>,
    ) -> Result<(), Failed> {
        let indices = take(values, first);
        self.operand(&Load { tensor, indices }, start, values)
    }

    /// Adds an operation that is an operand of what is around it.
    fn operand<T: OpFields<ValueId>>(
        &mut self,
        op: &T,
        start: u32,
        values: &mut Vec<Operand>,
    ) -> Result<(), Failed> {
        let value = self.emit(Symbol::new(T::NAME), &op.operands(), op.attrs(), start)?;
        values.push(Operand { value, start });
        Ok(())
    }

    /// Applies an infix or prefix operation to the last operands.
    fn reduce(&mut self, frame: &Frame, values: &mut Vec<Operand>) -> Result<(), Failed> {
        let (op, count) = match frame {
            Frame::Infix(op, _) => (op, 2),
            Frame::Prefix(op, ..) => (op, 1),
            _ => return Ok(()),
        };
        let first = values.len().saturating_sub(count);
        let start = match frame {
            Frame::Prefix(_, _, start) => *start,
            _ => values.get(first).map_or(0, |operand| operand.start),
        };
        let operands = take(values, first);
        let value = self.emit(Symbol::new(op.name()), &operands, AttrDict::empty(), start)?;
        values.push(Operand { value, start });
        Ok(())
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), Failed> {
        match self.cursor.eat_word(word) {
            true => Ok(()),
            false => Err(self.cursor.unexpected(&format!("`{word}`"))),
        }
    }
}

impl Callee {
    fn name(self) -> &'static str {
        match self {
            Callee::Scalar(op) => call_name(op),
            Callee::Cast(_) => "cast",
            Callee::Reinterpret(_) => "reinterpret",
            Callee::Select => "select",
            Callee::Check => "check",
            Callee::Ramp => "ramp",
            Callee::Broadcast => "broadcast",
            Callee::Extract => "extract",
        }
    }

    /// How many operands it takes.
    fn operands(self) -> usize {
        match self {
            Callee::Scalar(op) => op.arity(),
            Callee::Select | Callee::Check => 3,
            _ => 1,
        }
    }

    /// Whether something stands behind the operands.
    fn has_rest(self) -> bool {
        self.numbers() > 0 || matches!(self, Callee::Check)
    }

    /// How many plain integers stand behind the operands.
    fn numbers(self) -> usize {
        match self {
            Callee::Ramp => 2,
            Callee::Broadcast | Callee::Extract => 1,
            _ => 0,
        }
    }
}

fn prefix_frame(op: ScalarOp, start: u32) -> Frame {
    Frame::Prefix(op, prefix(op).map_or(0, |(_, precedence)| precedence), start)
}

/// Takes the values from place `first` on.
fn take(values: &mut Vec<Operand>, first: usize) -> Vec<ValueId> {
    let first = first.min(values.len());
    values.drain(first..).map(|operand| operand.value).collect()
}
