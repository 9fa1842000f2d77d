//! Values: variables, literals, words, function literals.

use ir_core::text::lexer::{LexError, Token, TokenKind};
use ir_core::{AttrDict, Binding, Diagnostic, NameHint, Symbol, TensorData, ValueId};

use super::{Callee, Frame, Machine, Next};
use crate::text::codes;
use crate::text::parser::{GraphLocal, Meaning, Parser};
use crate::text::references::ConstructorUse;
use crate::text::sinking::hoist;
use crate::text::types::merge;
use ir_core::text::cursor::Failed;

impl<'t> Machine<'_, 't> {
    pub(super) fn operand(&mut self) -> Result<Next, Failed> {
        let numeric =
            self.parser.cursor.kind() == TokenKind::Integer && self.at_numeric_constructor();
        let cursor = &mut self.parser.cursor;
        let token = cursor.peek();
        let start = token.start;
        match token.kind {
            TokenKind::Graph => {
                cursor.bump();
                Ok(Next::Value(self.graph_variable(token)?, start))
            }
            TokenKind::Local => {
                cursor.bump();
                Ok(Next::Value(self.local_variable(token), start))
            }
            TokenKind::Identifier => self.word(token),
            TokenKind::Integer if numeric => {
                cursor.bump();
                let name = Symbol::new(token.text(cursor.source));
                self.constructor(token, name, false)
            }
            TokenKind::Integer | TokenKind::Float => {
                cursor.bump();
                let value = self.parser.literal(token, false);
                Ok(Next::Value(self.constant(value, start), start))
            }
            TokenKind::Error(LexError::BadSuffix) => {
                cursor.bump();
                Ok(Next::Value(self.poison(start), start))
            }
            TokenKind::Minus => {
                cursor.bump();
                // `-1` and `--1` are literals.
                let again = usize::from(cursor.kind() == TokenKind::Minus);
                let number = cursor.peek_at(again);
                if matches!(number.kind, TokenKind::Integer | TokenKind::Float) {
                    if again == 1 {
                        cursor.bump();
                    }
                    cursor.bump();
                    let value = self.parser.literal(number, again == 0);
                    return Ok(Next::Value(self.constant(value, start), start));
                }
                self.frames.push(Frame::Negate { start });
                Ok(Next::Operand)
            }
            TokenKind::Global => {
                cursor.bump();
                let name = Symbol::new(&token.name(cursor.source));
                let place = cursor.span(token);
                self.parser.uses.globals.entry(name).or_insert(place);
                let attrs = Parser::form_attrs("name", &name);
                Ok(Next::Value(self.form("relay.global", &[], attrs, start), start))
            }
            TokenKind::LeftParen => {
                cursor.bump();
                if cursor.eat(TokenKind::RightParen) {
                    let unit = self.form("relay.tuple", &[], AttrDict::empty(), start);
                    return Ok(Next::Value(unit, start));
                }
                let first = self.values.len();
                self.frames.push(Frame::Paren { first, comma: false, start });
                Ok(Next::Expression)
            }
            TokenKind::LeftBrace => {
                cursor.bump();
                self.frames.push(Frame::Braces);
                self.begin_sequence(true);
                Ok(Next::Statement)
            }
            TokenKind::PartialMatch => {
                cursor.bump();
                self.frames.push(Frame::Data { complete: false, start });
                Ok(Next::Operand)
            }
            TokenKind::String => {
                cursor.bump();
                let name = Symbol::new(&token.name(cursor.source));
                self.constructor(token, name, false)
            }
            _ => Err(cursor.unexpected("an expression")),
        }
    }

    fn local_variable(&mut self, token: Token) -> ValueId {
        let name = Symbol::new(&token.name(self.parser.cursor.source));
        let function = &mut self.parser.function;
        match function.locals.get(&name).map(|local| local.meaning) {
            Some(Meaning::Value(value)) => value,
            Some(Meaning::Recursive(place)) => {
                let recursion = &mut function.recursions[place];
                match (recursion.itself, recursion.op) {
                    (Some(value), _) => value,
                    (None, Some(op)) => {
                        let ty = function.body.ty(function.body.result(op, 0));
                        let block = function.body.region_block(op, 0);
                        let value = function.body.add_block_arg(block, ty);
                        let hint = NameHint { name: Some(name), binding: Binding::Let };
                        function.body.set_name_hint(value, hint);
                        recursion.itself = Some(value);
                        value
                    }
                    (None, None) => self.poison(token.start),
                }
            }
            None => {
                let message = format!("undefined variable `%{name}`");
                let known: Vec<&str> = {
                    let mut known: Vec<&str> =
                        function.locals.keys().map(|name| name.as_str()).collect();
                    known.sort_unstable();
                    known
                };
                let place = self.parser.cursor.span(token);
                let found = Diagnostic::error(codes::UNDEFINED, message).at(place);
                self.parser.report_unknown(found, "%", name, &known);
                let value = self.poison(token.start);
                // Failed once is enough.
                self.parser.function.bind(name, Meaning::Value(value));
                value
            }
        }
    }

    fn graph_variable(&mut self, token: Token) -> Result<ValueId, Failed> {
        let text = token.name(self.parser.cursor.source);
        let number = text.parse::<u32>().ok();
        let function = &mut self.parser.function;
        if let Some(local) = number.and_then(|number| function.graph.get(number)) {
            return Ok(local.value);
        }
        let closed = number.and_then(|number| function.graph_closed.get(&number)).copied();
        // The original prints a subexpression that several branches share in the first of them.
        if let Some(closed) = closed
            && hoist(&mut function.body, closed.value, self.block)
        {
            return Ok(closed.value);
        }
        let place = self.parser.cursor.span(token);
        let found =
            Diagnostic::error(codes::UNDEFINED, format!("undefined variable `%{text}`")).at(place);
        let width = token.end - token.start;
        let closed = closed.map(|c| self.parser.cursor.range(c.start, c.start + width));
        self.parser.cursor.report(found.related(closed, "bound here, in a scope that has ended"));
        let value = self.poison(token.start);
        if let Some(number) = number {
            let local = GraphLocal { value, block: self.block, start: token.start };
            self.parser.function.bind_graph(number, local);
        }
        Ok(value)
    }

    /// A value that starts with a word.
    fn word(&mut self, token: Token) -> Result<Next, Failed> {
        let metadata = self.parser.at_metadata();
        let cursor = &mut self.parser.cursor;
        let start = token.start;
        let text = token.text(cursor.source);
        match text {
            "True" | "False" => {
                cursor.bump();
                let value = TensorData::scalar(
                    ir_core::DType::BOOL,
                    ir_core::Scalar::Int(i64::from(text == "True")),
                );
                Ok(Next::Value(self.constant(value, start), start))
            }
            "fn" => {
                cursor.bump();
                self.function_literal(start, None)
            }
            "if" => {
                cursor.bump();
                cursor.expect(TokenKind::LeftParen)?;
                let condition = cursor.peek().start;
                self.frames.push(Frame::Condition { start, condition });
                Ok(Next::Expression)
            }
            "match" => {
                cursor.bump();
                self.frames.push(Frame::Data { complete: true, start });
                Ok(Next::Operand)
            }
            "ref" | "ref_read" => {
                cursor.bump();
                cursor.expect(TokenKind::LeftParen)?;
                self.frames.push(Frame::Reference { read: text == "ref_read", start });
                Ok(Next::Expression)
            }
            "ref_write" => {
                cursor.bump();
                cursor.expect(TokenKind::LeftParen)?;
                self.frames.push(Frame::Write { reference: None, start });
                Ok(Next::Expression)
            }
            "meta" if metadata => {
                let reference = self.parser.meta_reference()?;
                if reference.kind != "relay.Constant" {
                    let message = format!("`{}` is no value", reference.kind);
                    self.parser.bad_metadata(&reference, message);
                    return Ok(Next::Value(self.poison(start), start));
                }
                match self.parser.metadata().and_then(|data| data.constant(reference.index)) {
                    Ok(value) => Ok(Next::Value(self.constant(value, start), start)),
                    Err(message) => {
                        self.parser.bad_metadata(&reference, message);
                        Ok(Next::Value(self.poison(start), start))
                    }
                }
            }
            "let" | "def" | "else" | "type" | "extern" | "free_var" => {
                Err(cursor.unexpected("an expression"))
            }
            _ => {
                let (name, end) = self.dotted_name()?;
                let token = Token { end, ..token };
                self.constructor_or_unknown(token, name)
            }
        }
    }

    /// `nn.conv2d`: the text, and where it ends.
    fn dotted_name(&mut self) -> Result<(&'t str, u32), Failed> {
        let cursor = &mut self.parser.cursor;
        let first = cursor.bump();
        let mut end = first.end;
        while cursor.kind() == TokenKind::Dot && cursor.peek_at(1).kind == TokenKind::Identifier {
            cursor.bump();
            end = cursor.bump().end;
        }
        let source: &'t str = cursor.source;
        Ok((source.get(first.start as usize..end as usize).unwrap_or(""), end))
    }

    /// A word that is an operator, a constructor, or unknown so far.
    fn constructor_or_unknown(&mut self, token: Token, name: &'t str) -> Result<Next, Failed> {
        let declared = || Symbol::new(name);
        let operator = self.parser.operator(name);
        let (start, cursor) = (token.start, &mut self.parser.cursor);
        match operator {
            Some(operator) if !self.parser.words.is_constructor(declared()) => {
                if cursor.kind() == TokenKind::LeftParen {
                    cursor.bump();
                    return self.begin_call(Callee::Operator(operator), token);
                }
                let attrs = Parser::form_attrs("name", &name.to_string());
                Ok(Next::Value(self.form("relay.operator", &[], attrs, start), start))
            }
            _ => self.constructor(token, declared(), name.contains('.')),
        }
    }

    /// A constructor, or a word that is unknown so far.
    fn constructor(&mut self, token: Token, name: Symbol, operator: bool) -> Result<Next, Failed> {
        if self.parser.cursor.eat(TokenKind::LeftParen) {
            return self.begin_call(Callee::Word(name), token);
        }
        let value = self.construct(name, &[], token.start);
        self.use_constructor(value, name, None, operator, token);
        Ok(Next::Value(value, token.start))
    }

    pub(super) fn construct(&mut self, name: Symbol, fields: &[ValueId], start: u32) -> ValueId {
        let attrs = Parser::form_attrs("name", &name.to_string());
        self.form("relay.construct", fields, attrs, start)
    }

    pub(super) fn use_constructor(
        &mut self,
        value: ValueId,
        name: Symbol,
        args: Option<usize>,
        operator: bool,
        token: Token,
    ) {
        let span = self.parser.cursor.span(token);
        let function = &self.parser.function;
        if let Some(op) = function.body.defining_op(value) {
            let used = ConstructorUse { op, name, args, operator, span };
            self.parser.uses.constructors.push(used);
        }
    }

    /// Whether the number here is a constructor: the original's defunctionalization names them by
    /// number. It is called, or the comment after it tells its type.
    fn at_numeric_constructor(&mut self) -> bool {
        if self.parser.words.is_empty() {
            return false;
        }
        let cursor = &mut self.parser.cursor;
        let token = cursor.peek();
        let text = token.text(cursor.source);
        if !self.parser.words.is_constructor(Symbol::new(text)) {
            return false;
        }
        if cursor.peek_at(1).kind == TokenKind::LeftParen {
            return true;
        }
        let rest = cursor.source.get(token.end as usize..).unwrap_or("").trim_start();
        let Some(ty) = rest.strip_prefix("/* ty=") else { return false };
        let name = ty.find('[').map(|end| &ty[..end]);
        name.is_some_and(|name| self.parser.words.declares_one(Symbol::new(name)))
    }

    /// `fn` has been read.
    pub(super) fn function_literal(
        &mut self,
        start: u32,
        recursion: Option<u32>,
    ) -> Result<Next, Failed> {
        let type_params = self.parser.type_params.len();
        let head = self.parser.function_head()?;
        self.parser.cursor.expect(TokenKind::LeftBrace)?;
        let attrs = match head.attributes.is_empty() {
            true => AttrDict::empty(),
            false => Parser::form_attrs("attributes", &head.attributes),
        };
        let name = Symbol::new("relay.fn");
        let (op, value) = self.emit_regions(name, &[], attrs, head.ty(), 1, start);
        let scope = self.enter(op, 0);
        let function = &mut self.parser.function;
        if let Some(recursion) = recursion.map(|place| place as usize) {
            let name = function.recursions[recursion].name;
            function.recursions[recursion].op = Some(op);
            function.bind(name, Meaning::Recursive(recursion));
            // An annotation of the whole tells the type where the literal does not.
            if let Some(Frame::Let { annotation, .. }) = self.frames.last()
                && !annotation.is_unknown()
                && let Some(ty) = merge(head.ty(), *annotation)
            {
                function.body.set_ty(value, ty);
            }
        }
        for param in &head.params {
            let value = function.body.add_block_arg(self.block, param.ty);
            function.body.set_argument_loc(value, function.loc(param.start));
            let hint = NameHint { name: Some(param.name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
            function.bind(param.name, Meaning::Value(value));
        }
        self.frames.push(Frame::Literal { op, recursion, type_params, scope });
        self.begin_sequence(true);
        Ok(Next::Statement)
    }
}
