//! Expressions, read straight into operations.
//!
//! One loop reads all expressions of a function. What waits for a value stands on a stack of
//! [`Frame`]s, so nesting costs no native stack. An operation is inserted at the end of the current
//! block as soon as its operands are known; order in a block is the order of the text.

use ir_core::text::lexer::{Token, TokenKind};
use ir_core::{
    AttrDict, Binding, BlockId, Body, Diagnostic, InsertPoint, Loc, NameHint, OpId, OpParts,
    Symbol, TensorData, Type, ValueId,
};

use super::attributes::AttrList;
use super::codes;
use super::cursor::Reported;
use super::parser::{ConstructorUse, GraphLocal, Meaning, Operator, Parser, Recursion, counted};
use super::sinking::hoist;
use super::types::merge;
use crate::language::Pattern;

/// The deepest nesting of expressions.
const MAX_DEPTH: usize = 1_000_000;

/// What waits for a value.
pub(super) enum Frame<'t> {
    /// Statements, then the value of the sequence.
    Sequence(Sequence),
    /// `let %name: annotation =`, up to `;`.
    Let { name: Symbol, annotation: Type, start: u32 },
    /// `%number =`, up to `;`.
    Graph { number: u32, start: u32 },
    /// `left op`.
    Binary { operator: &'static str, precedence: u8, left: ValueId, start: u32 },
    /// `-`.
    Negate { start: u32 },
    /// A call; its arguments so far are the values from `first` on.
    Call { callee: Callee<'t>, first: usize, start: Token },
    /// `(`; the fields so far are the values from `first` on.
    Paren { first: usize, comma: bool, start: u32 },
    /// `{` where a value may stand.
    Braces,
    /// `if (`.
    Condition { start: u32 },
    /// A branch of `if`.
    Branch { op: OpId, second: bool, scope: Scope },
    /// The body of a function literal.
    Literal { op: OpId, recursion: Option<u32>, type_params: usize, scope: Scope },
    /// `match`, before its clauses.
    Data { complete: bool, start: u32 },
    /// A clause of `match`.
    Clause { op: OpId, patterns: Vec<Pattern>, scope: Scope },
    /// `ref(` and `ref_read(`.
    Reference { read: bool, start: u32 },
    /// `ref_write(`, with the reference once it is known.
    Write { reference: Option<ValueId>, start: u32 },
}

/// Where statements go, and what ends with them.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    /// Whether `;` after an expression goes on, and a bracket ends the sequence.
    bracketed: bool,
    block: BlockId,
    locals: usize,
    /// Open brackets and waiting values at its start.
    depth: usize,
    values: usize,
}

/// What a block of its own replaced.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    block: BlockId,
    locals: usize,
    graph: usize,
}

/// What a call calls.
pub(super) enum Callee<'t> {
    Operator(Operator<'t>),
    /// A constructor, or a word that is unknown so far.
    Word(Symbol),
    Value(ValueId),
    /// A value with type arguments.
    Applied(ValueId, Box<[Type]>),
}

/// What to do next.
enum Next {
    /// Read a statement or the value of the innermost sequence.
    Statement,
    /// Read a value that may begin with bindings.
    Expression,
    /// Read a value.
    Operand,
    /// A value has been read; calls, projections and operators may follow.
    Value(ValueId, u32),
    /// A value is complete.
    Complete(ValueId),
}

/// Binary operators: name and precedence.
fn binary_operator(kind: TokenKind) -> Option<(&'static str, u8)> {
    Some(match kind {
        TokenKind::Star => ("multiply", 12),
        TokenKind::Slash => ("divide", 12),
        TokenKind::Plus => ("add", 10),
        TokenKind::Minus => ("subtract", 10),
        TokenKind::Less => ("less", 8),
        TokenKind::LessEqual => ("less_equal", 8),
        TokenKind::Greater => ("greater", 8),
        TokenKind::GreaterEqual => ("greater_equal", 8),
        TokenKind::EqualEqual => ("equal", 7),
        TokenKind::NotEqual => ("not_equal", 7),
        _ => return None,
    })
}

/// The machine that reads the body of one function.
struct Machine<'p, 't> {
    parser: &'p mut Parser<'t>,
    frames: Vec<Frame<'t>>,
    values: Vec<ValueId>,
    /// The block that operations are added to.
    block: BlockId,
}

impl Parser<'_> {
    /// The statements and the value of a function body, up to its closing bracket, with the yield
    /// of the value. Errors when the end of the body was not found.
    pub(super) fn function_body(&mut self) -> Result<(), Reported> {
        let block = self.function.body.entry();
        let mut machine = Machine { parser: self, frames: Vec::new(), values: Vec::new(), block };
        let value = machine.run()?;
        machine.finish_block(value);
        Ok(())
    }
}

impl<'t> Machine<'_, 't> {
    fn run(&mut self) -> Result<ValueId, Reported> {
        self.begin_sequence(true);
        let mut next = Next::Statement;
        loop {
            let step = match next {
                Next::Statement => self.statement(),
                Next::Expression => {
                    if self.at_binding() {
                        self.begin_sequence(false);
                        self.statement()
                    } else {
                        self.operand()
                    }
                }
                Next::Operand => self.operand(),
                Next::Value(value, start) => self.after_value(value, start),
                Next::Complete(value) => match self.frames.pop() {
                    Some(frame) => self.resume(frame, value),
                    None => return Ok(value),
                },
            };
            next = match step {
                Ok(_) if self.frames.len() > MAX_DEPTH => return Err(self.too_deep()),
                Ok(next) => next,
                Err(Reported) => self.recover()?,
            };
        }
    }

    fn too_deep(&mut self) -> Reported {
        let message = format!("an expression nests at most {MAX_DEPTH} levels deep");
        let cursor = &mut self.parser.cursor;
        let found = Diagnostic::error(codes::DEPTH, message).at(cursor.span(cursor.peek()));
        cursor.report(found.help("bind its parts with `let` or `%0 = …`"));
        Reported
    }

    // ---- emitting --------------------------------------------------------------------------

    fn loc(&self, start: u32) -> Loc {
        Loc::offset(start.saturating_sub(self.parser.function.base))
    }

    fn emit(&mut self, name: Symbol, operands: &[ValueId], attrs: AttrDict, start: u32) -> ValueId {
        self.emit_regions(name, operands, attrs, Type::unknown(), 0, start).1
    }

    fn emit_regions(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        attrs: AttrDict,
        ty: Type,
        regions: usize,
        start: u32,
    ) -> (OpId, ValueId) {
        let loc = self.loc(start);
        let results = [ty];
        let parts = OpParts::new(name, operands, &results).attrs(attrs).regions(regions).at(loc);
        let body = &mut self.parser.function.body;
        let op = body.insert_op(InsertPoint::End(self.block), parts);
        (op, body.result(op, 0))
    }

    fn form(&mut self, name: &str, operands: &[ValueId], attrs: AttrDict, start: u32) -> ValueId {
        self.emit(Symbol::new(name), operands, attrs, start)
    }

    fn constant(&mut self, value: TensorData, start: u32) -> ValueId {
        let ty = value.ty();
        let attrs = Parser::form_attrs("value", &value);
        self.emit_regions(Symbol::new("relay.constant"), &[], attrs, ty, 0, start).1
    }

    /// A value in place of something wrong, which has been reported.
    fn poison(&mut self, start: u32) -> ValueId {
        self.form("relay.tuple", &[], AttrDict::empty(), start)
    }

    fn finish_block(&mut self, value: ValueId) {
        let operands = [value];
        let parts = OpParts::new("relay.yield", &operands, &[]);
        self.parser.function.body.insert_op(InsertPoint::End(self.block), parts);
    }

    /// Makes the only block of region `index` of `op` the current one.
    fn enter(&mut self, op: OpId, index: usize) -> Scope {
        let function = &mut self.parser.function;
        function.nested = true;
        let scope = Scope {
            block: self.block,
            locals: function.shadowed.len(),
            graph: function.graph_shadowed.len(),
        };
        self.block = function.body.region_block(op, index);
        scope
    }

    /// Ends the current block with `value`.
    fn leave(&mut self, value: ValueId, scope: Scope) {
        self.finish_block(value);
        self.restore(scope);
    }

    fn restore(&mut self, scope: Scope) {
        self.parser.function.unbind(scope.locals);
        self.parser.function.unbind_graph(scope.graph);
        self.block = scope.block;
    }

    // ---- statements ------------------------------------------------------------------------

    fn begin_sequence(&mut self, bracketed: bool) {
        let sequence = Sequence {
            bracketed,
            block: self.block,
            locals: self.parser.function.shadowed.len(),
            depth: self.parser.cursor.depth(),
            values: self.values.len(),
        };
        self.frames.push(Frame::Sequence(sequence));
    }

    /// Whether a binding starts at the current token.
    fn at_binding(&mut self) -> bool {
        let cursor = &mut self.parser.cursor;
        match cursor.kind() {
            TokenKind::Graph => cursor.peek_at(1).kind == TokenKind::Equal,
            TokenKind::Identifier => {
                matches!(cursor.peek().text(cursor.source), "let" | "free_var")
            }
            _ => false,
        }
    }

    fn statement(&mut self) -> Result<Next, Reported> {
        if !self.at_binding() {
            return self.operand();
        }
        let cursor = &mut self.parser.cursor;
        let start = cursor.bump();
        if start.kind == TokenKind::Graph {
            cursor.bump();
            let Ok(number) = start.name(cursor.source).parse() else {
                let message = "the number of a variable must fit in 32 bits";
                let place = cursor.span(start);
                cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                return Err(Reported);
            };
            self.frames.push(Frame::Graph { number, start: start.start });
            return Ok(Next::Expression);
        }
        if start.is_word(cursor.source, "free_var") {
            let message = "a function has no free variables";
            let place = cursor.span(start);
            let help = "make it a parameter of the function";
            cursor.report(Diagnostic::error(codes::FREE, message).at(place).help(help));
            return Err(Reported);
        }
        let token = match cursor.kind() {
            TokenKind::Underscore => cursor.bump(),
            _ => cursor.expect(TokenKind::Local)?,
        };
        let name = Symbol::new(&token.name(cursor.source));
        let annotation = self.parser.optional_annotation()?;
        self.parser.cursor.expect(TokenKind::Equal)?;
        let mut recursion = None;
        if self.parser.cursor.at_word("fn") {
            let recursions = &mut self.parser.function.recursions;
            recursion = Some(recursions.len() as u32);
            recursions.push(Recursion { name, op: None, itself: None });
        }
        self.frames.push(Frame::Let { name, annotation, start: start.start });
        match recursion {
            Some(place) => {
                let start = self.parser.cursor.bump().start;
                self.function_literal(start, Some(place))
            }
            None => Ok(Next::Expression),
        }
    }

    /// Gives `value` the name of a `let`.
    fn bind_let(&mut self, name: Symbol, annotation: Type, value: ValueId, start: u32) {
        let block = self.block;
        let function = &mut self.parser.function;
        let hint = function.body.name_hint(value);
        let defined_here = function.body.defining_op(value).is_some()
            && function.body.def_block(value) == Some(block);
        if defined_here && hint.binding == Binding::Graph && hint.name.is_none() {
            let hint = NameHint { name: Some(name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
        }
        function.bind(name, Meaning::Value(value));
        let known = function.body.ty(value);
        match merge(known, annotation) {
            Some(ty) => function.body.set_ty(value, ty),
            None => {
                let message = format!("`%{name}` is annotated as {annotation}, but is {known}");
                let place = self.parser.cursor.since(start);
                let found = Diagnostic::error(codes::ANNOTATION, message).at(place);
                self.parser.cursor.report(found);
            }
        }
    }

    fn bind_graph(&mut self, number: u32, value: ValueId, start: u32) {
        let local = GraphLocal { value, block: self.block, start };
        if let Some(first) = self.parser.function.graph.get(&number)
            && first.block == self.block
        {
            let width = number.to_string().len() as u32 + 1;
            let cursor = &mut self.parser.cursor;
            let first = cursor.range(first.start, first.start + width);
            let message = format!("`%{number}` is bound twice in one scope");
            let found = Diagnostic::error(codes::REBOUND, message);
            let found = found.at(cursor.range(start, start + width));
            cursor.report(found.related(first, "first bound here"));
            return;
        }
        self.parser.function.bind_graph(number, local);
    }

    // ---- values ----------------------------------------------------------------------------

    fn operand(&mut self) -> Result<Next, Reported> {
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
                self.parser.global_uses.entry(name).or_insert(place);
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
                // Reported once is enough.
                self.parser.function.bind(name, Meaning::Value(value));
                value
            }
        }
    }

    fn graph_variable(&mut self, token: Token) -> Result<ValueId, Reported> {
        let text = token.name(self.parser.cursor.source);
        let number = text.parse::<u32>().ok();
        let function = &mut self.parser.function;
        if let Some(local) = number.and_then(|number| function.graph.get(&number)) {
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
    fn word(&mut self, token: Token) -> Result<Next, Reported> {
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
                self.frames.push(Frame::Condition { start });
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
    fn dotted_name(&mut self) -> Result<(&'t str, u32), Reported> {
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
    fn constructor_or_unknown(&mut self, token: Token, name: &'t str) -> Result<Next, Reported> {
        let declared = || Symbol::new(name);
        let operator = self.parser.operator(name);
        let (start, cursor) = (token.start, &mut self.parser.cursor);
        match operator {
            Some(operator) if !self.parser.constructors.contains_key(&declared()) => {
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
    fn constructor(
        &mut self,
        token: Token,
        name: Symbol,
        operator: bool,
    ) -> Result<Next, Reported> {
        if self.parser.cursor.eat(TokenKind::LeftParen) {
            return self.begin_call(Callee::Word(name), token);
        }
        let value = self.construct(name, &[], token.start);
        self.use_constructor(value, name, None, operator, token);
        Ok(Next::Value(value, token.start))
    }

    fn construct(&mut self, name: Symbol, fields: &[ValueId], start: u32) -> ValueId {
        let attrs = Parser::form_attrs("name", &name.to_string());
        self.form("relay.construct", fields, attrs, start)
    }

    fn use_constructor(
        &mut self,
        value: ValueId,
        name: Symbol,
        args: Option<usize>,
        operator: bool,
        token: Token,
    ) {
        let span = self.parser.cursor.span(token);
        let function = &self.parser.function;
        if let (Some(op), Some(item)) = (function.body.defining_op(value), function.name) {
            let used = ConstructorUse { item, op, name, args, operator, span };
            self.parser.constructor_uses.push(used);
        }
    }

    /// Whether the number here is a constructor: the original's defunctionalization names them by
    /// number. It is called, or the comment after it tells its type.
    fn at_numeric_constructor(&mut self) -> bool {
        if self.parser.constructors.is_empty() {
            return false;
        }
        let cursor = &mut self.parser.cursor;
        let token = cursor.peek();
        let text = token.text(cursor.source);
        if !self.parser.constructors.contains_key(&Symbol::new(text)) {
            return false;
        }
        if cursor.peek_at(1).kind == TokenKind::LeftParen {
            return true;
        }
        let rest = cursor.source.get(token.end as usize..).unwrap_or("").trim_start();
        let Some(ty) = rest.strip_prefix("/* ty=") else { return false };
        let name = ty.find('[').map(|end| &ty[..end]);
        name.is_some_and(|name| self.parser.types.contains_key(&Symbol::new(name)))
    }

    /// `fn` has been read.
    fn function_literal(&mut self, start: u32, recursion: Option<u32>) -> Result<Next, Reported> {
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
            let hint = NameHint { name: Some(param.name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
            function.bind(param.name, Meaning::Value(value));
        }
        self.frames.push(Frame::Literal { op, recursion, type_params, scope });
        self.begin_sequence(true);
        Ok(Next::Statement)
    }

    // ---- after a value ---------------------------------------------------------------------

    /// Calls, projections, type arguments and binary operators.
    fn after_value(&mut self, value: ValueId, start: u32) -> Result<Next, Reported> {
        let cursor = &mut self.parser.cursor;
        match cursor.kind() {
            TokenKind::LeftParen => {
                let callee = Token { kind: TokenKind::Local, start, end: cursor.previous_end() };
                cursor.bump();
                return self.begin_call(Callee::Value(value), callee);
            }
            TokenKind::Dot => {
                cursor.bump();
                let token = cursor.expect(TokenKind::Integer)?;
                let Ok(index) = token.text(cursor.source).parse::<i64>() else {
                    let message = "the number of a field must fit in 63 bits";
                    let place = cursor.span(token);
                    cursor.report(Diagnostic::error(codes::LITERAL, message).at(place));
                    return Err(Reported);
                };
                let attrs = Parser::form_attrs("index", &index);
                return Ok(Next::Value(
                    self.form("relay.tuple_get", &[value], attrs, start),
                    start,
                ));
            }
            TokenKind::Less if self.at_type_arguments() => {
                let callee =
                    Token { kind: TokenKind::Local, start, end: self.parser.cursor.previous_end() };
                let types = self.type_arguments()?;
                self.parser.cursor.expect(TokenKind::LeftParen)?;
                return self.begin_call(Callee::Applied(value, types), callee);
            }
            _ => {}
        }
        let operator = binary_operator(self.parser.cursor.kind());
        let mut value = value;
        // What binds at least as tightly on the left comes first.
        loop {
            match self.frames.last() {
                Some(&Frame::Negate { start }) => {
                    self.frames.pop();
                    value = self.apply("negative", &[value], start);
                }
                Some(&Frame::Binary { operator: name, precedence, left, start })
                    if operator.is_none_or(|(_, next)| precedence >= next) =>
                {
                    self.frames.pop();
                    value = self.apply(name, &[left, value], start);
                }
                _ => break,
            }
        }
        let Some((operator, precedence)) = operator else { return Ok(Next::Complete(value)) };
        let start = self.parser.cursor.bump().start;
        self.frames.push(Frame::Binary { operator, precedence, left: value, start });
        Ok(Next::Operand)
    }

    /// Whether `<` starts type arguments: it touches the callee, and a type follows.
    fn at_type_arguments(&mut self) -> bool {
        let cursor = &mut self.parser.cursor;
        let less = cursor.peek();
        if less.start != cursor.previous_end() {
            return false;
        }
        let mut ahead = 1;
        while cursor.peek_at(ahead).kind == TokenKind::LeftParen && ahead < 64 {
            ahead += 1;
        }
        let token = cursor.peek_at(ahead);
        let after = cursor.peek_at(ahead + 1).kind;
        let text = token.text(cursor.source);
        match token.kind {
            TokenKind::Underscore => true,
            TokenKind::RightParen => ahead > 1,
            TokenKind::Identifier => match text {
                "Tensor" => after == TokenKind::LeftBracket,
                "fn" => true,
                "True" | "False" | "if" | "match" | "meta" => false,
                _ => {
                    text.parse::<ir_core::DType>().is_ok()
                        || after == TokenKind::LeftBracket
                        || self.parser.type_params.contains(&Symbol::new(text))
                        || matches!(after, TokenKind::Greater | TokenKind::Comma)
                }
            },
            _ => false,
        }
    }

    fn type_arguments(&mut self) -> Result<Box<[Type]>, Reported> {
        self.parser.cursor.bump();
        let mut types = Vec::new();
        while !self.parser.cursor.eat(TokenKind::Greater) {
            types.push(self.parser.parse_type()?);
            if self.parser.cursor.kind() != TokenKind::Greater {
                self.parser.cursor.expect(TokenKind::Comma)?;
            }
        }
        Ok(types.into())
    }

    /// An operator that the syntax names, applied.
    fn apply(&mut self, operator: &'static str, operands: &[ValueId], start: u32) -> ValueId {
        match self.parser.operator(operator) {
            Some(operator) => self.emit(operator.name, operands, AttrDict::empty(), start),
            None => {
                let message = format!("unknown operator `{operator}`");
                let place = self.parser.cursor.range(start, start + 1);
                let found = Diagnostic::error(codes::OPERATOR, message).at(place);
                self.parser.cursor.report(found);
                self.poison(start)
            }
        }
    }

    // ---- calls -----------------------------------------------------------------------------

    fn begin_call(&mut self, callee: Callee<'t>, start: Token) -> Result<Next, Reported> {
        let first = self.values.len();
        self.frames.push(Frame::Call { callee, first, start });
        self.next_argument()
    }

    /// After `(` or `,` of the call on top of the frames.
    fn next_argument(&mut self) -> Result<Next, Reported> {
        let mut attributes = AttrList::default();
        if self.parser.cursor.kind() != TokenKind::RightParen {
            if self.parser.at_attribute() {
                attributes = self.parser.parse_attributes()?;
            } else if self.at_attribute_object() {
                self.parser.attribute_object(&mut attributes)?;
                self.parser.cursor.eat(TokenKind::Comma);
            } else {
                return Ok(Next::Expression);
            }
        }
        self.parser.cursor.expect(TokenKind::RightParen)?;
        match self.frames.pop() {
            Some(Frame::Call { callee, first, start }) => {
                let value = self.finish_call(callee, first, start, attributes);
                self.values.truncate(first);
                Ok(Next::Value(value, start.start))
            }
            _ => Err(self.parser.cursor.unexpected("a call")),
        }
    }

    /// Whether `meta[kind]` of something that is no value starts here.
    fn at_attribute_object(&mut self) -> bool {
        if !self.parser.at_metadata() {
            return false;
        }
        let cursor = &mut self.parser.cursor;
        let (first, last) = (cursor.peek_at(2), cursor.peek_at(4));
        let source = cursor.source;
        !(first.is_word(source, "relay") && last.is_word(source, "Constant"))
    }

    fn finish_call(
        &mut self,
        callee: Callee<'t>,
        first: usize,
        start: Token,
        attributes: AttrList,
    ) -> ValueId {
        match callee {
            Callee::Operator(operator) => {
                let def = operator.def;
                let attrs = self.parser.normalized(def, attributes, start);
                let count = self.values.len() - first;
                if !ir_core::OpDef::arity_fits(def.operands, count) {
                    self.wrong_operands(operator, count, start);
                }
                let operands: smallvec::SmallVec<[ValueId; 4]> =
                    self.values[first..].iter().copied().collect();
                self.emit(operator.name, &operands, attrs, start.start)
            }
            Callee::Word(name) => {
                let fields: smallvec::SmallVec<[ValueId; 4]> =
                    self.values[first..].iter().copied().collect();
                let value = self.construct(name, &fields, start.start);
                let operator = !attributes.is_empty();
                self.use_constructor(value, name, Some(fields.len()), operator, start);
                value
            }
            Callee::Value(callee) => self.finish_value_call(callee, &[], first, start, attributes),
            Callee::Applied(callee, types) => {
                self.finish_value_call(callee, &types, first, start, attributes)
            }
        }
    }

    fn finish_value_call(
        &mut self,
        callee: ValueId,
        types: &[Type],
        first: usize,
        start: Token,
        attributes: AttrList,
    ) -> ValueId {
        let mut attrs = AttrDict::empty();
        if !types.is_empty() {
            attrs = attrs.with("type_args", &types.to_vec());
        }
        if !attributes.is_empty() {
            attrs = attrs.with("attributes", &attributes.dict());
        }
        let mut operands: smallvec::SmallVec<[ValueId; 4]> = smallvec::smallvec![callee];
        operands.extend_from_slice(&self.values[first..]);
        self.form("relay.call", &operands, attrs, start.start)
    }

    fn wrong_operands(&mut self, operator: Operator<'t>, found: usize, start: Token) {
        use ir_core::registry::Arity;
        let def = operator.def;
        let required = def.operands.iter().filter(|field| field.arity == Arity::One).count();
        let expected = match def.operands.last().map(|field| field.arity) {
            Some(Arity::Many) => format!("at least {}", counted(required, "operand")),
            Some(Arity::Optional) => format!("{required} or {} operands", required + 1),
            _ => counted(required, "operand"),
        };
        let name = def.name.strip_prefix("relay.").unwrap_or(def.name);
        let names: Vec<&str> = def.operands.iter().map(|field| field.name).collect();
        let message = format!("`{name}` takes {expected}, found {found}");
        let place = self.parser.cursor.since(start.start);
        let mut diagnostic = Diagnostic::error(codes::OPERANDS, message).at(place);
        if !names.is_empty() {
            diagnostic = diagnostic.help(format!("its operands are {}", names.join(", ")));
        }
        self.parser.cursor.report(diagnostic);
    }

    // ---- what waited for a value -----------------------------------------------------------

    fn resume(&mut self, frame: Frame<'t>, value: ValueId) -> Result<Next, Reported> {
        let cursor = &mut self.parser.cursor;
        match frame {
            Frame::Sequence(sequence) => {
                if sequence.bracketed && cursor.eat(TokenKind::Semicolon) {
                    self.discard(value);
                    self.frames.push(frame);
                    return Ok(Next::Statement);
                }
                // The names of the function itself end with it.
                if !self.frames.is_empty() {
                    self.parser.function.unbind(sequence.locals);
                }
                Ok(Next::Complete(value))
            }
            Frame::Let { name, annotation, start } => {
                if let Err(error) = cursor.expect(TokenKind::Semicolon) {
                    self.frames.push(frame);
                    return Err(error);
                }
                self.bind_let(name, annotation, value, start);
                Ok(Next::Statement)
            }
            Frame::Graph { number, start } => {
                if let Err(error) = cursor.expect(TokenKind::Semicolon) {
                    self.frames.push(frame);
                    return Err(error);
                }
                self.bind_graph(number, value, start);
                Ok(Next::Statement)
            }
            Frame::Call { .. } => {
                self.values.push(value);
                if !cursor.eat(TokenKind::Comma) && cursor.kind() != TokenKind::RightParen {
                    return Err(cursor.unexpected("`,` or `)`"));
                }
                self.frames.push(frame);
                self.next_argument()
            }
            Frame::Paren { first, comma, start } => match cursor.kind() {
                TokenKind::Comma => {
                    cursor.bump();
                    self.values.push(value);
                    if !cursor.eat(TokenKind::RightParen) {
                        self.frames.push(Frame::Paren { first, comma: true, start });
                        return Ok(Next::Expression);
                    }
                    Ok(Next::Value(self.finish_tuple(first, start), start))
                }
                TokenKind::RightParen => {
                    cursor.bump();
                    if !comma {
                        return Ok(Next::Value(value, start));
                    }
                    self.values.push(value);
                    Ok(Next::Value(self.finish_tuple(first, start), start))
                }
                TokenKind::Semicolon => {
                    cursor.bump();
                    self.discard(value);
                    self.frames.push(frame);
                    self.begin_sequence(true);
                    Ok(Next::Statement)
                }
                _ => Err(cursor.unexpected("`,` or `)`")),
            },
            Frame::Braces => {
                let start = cursor.expect(TokenKind::RightBrace)?.start;
                Ok(Next::Value(value, start))
            }
            Frame::Condition { start } => {
                cursor.expect(TokenKind::RightParen)?;
                cursor.expect(TokenKind::LeftBrace)?;
                let name = Symbol::new("relay.if");
                let attrs = AttrDict::empty();
                let (op, _) = self.emit_regions(name, &[value], attrs, Type::unknown(), 2, start);
                self.begin_branch(op, false)
            }
            Frame::Branch { op, second, scope } => {
                cursor.expect(TokenKind::RightBrace)?;
                self.leave(value, scope);
                if second {
                    let start = self.parser.cursor.previous_end();
                    return Ok(Next::Value(self.parser.function.body.result(op, 0), start));
                }
                let cursor = &mut self.parser.cursor;
                if !cursor.eat_word("else") {
                    return Err(cursor.unexpected("`else`"));
                }
                cursor.expect(TokenKind::LeftBrace)?;
                self.begin_branch(op, true)
            }
            Frame::Literal { op, recursion, type_params, scope } => {
                cursor.expect(TokenKind::RightBrace)?;
                let start = cursor.previous_end();
                self.leave(value, scope);
                self.parser.type_params.truncate(type_params);
                let function = &mut self.parser.function;
                let recursion = recursion.map(|place| &function.recursions[place as usize]);
                if recursion.is_some_and(|recursion| recursion.itself.is_some()) {
                    let attrs = function.body.attrs(op).with("recursive", &true);
                    function.body.set_attrs(op, attrs);
                }
                Ok(Next::Value(function.body.result(op, 0), start))
            }
            Frame::Data { complete, start } => {
                cursor.expect(TokenKind::LeftBrace)?;
                let name = Symbol::new("relay.match");
                let attrs = match complete {
                    true => AttrDict::empty(),
                    false => Parser::form_attrs("complete", &false),
                };
                let (op, _) = self.emit_regions(name, &[value], attrs, Type::unknown(), 0, start);
                self.next_clause(op, Vec::new())
            }
            Frame::Clause { op, patterns, scope } => {
                self.leave(value, scope);
                let cursor = &mut self.parser.cursor;
                if !cursor.eat(TokenKind::Comma) && cursor.kind() != TokenKind::RightBrace {
                    return Err(cursor.unexpected("`,` or `}`"));
                }
                self.next_clause(op, patterns)
            }
            Frame::Reference { read, start } => {
                cursor.expect(TokenKind::RightParen)?;
                let name = if read { "relay.ref_read" } else { "relay.ref" };
                Ok(Next::Value(self.form(name, &[value], AttrDict::empty(), start), start))
            }
            Frame::Write { reference: None, start } => {
                cursor.expect(TokenKind::Comma)?;
                self.frames.push(Frame::Write { reference: Some(value), start });
                Ok(Next::Expression)
            }
            Frame::Write { reference: Some(reference), start } => {
                cursor.expect(TokenKind::RightParen)?;
                let operands = [reference, value];
                let unit = self.form("relay.ref_write", &operands, AttrDict::empty(), start);
                Ok(Next::Value(unit, start))
            }
            // `after_value` applies operators before a value is complete.
            Frame::Binary { operator, left, start, .. } => {
                Ok(Next::Complete(self.apply(operator, &[left, value], start)))
            }
            Frame::Negate { start } => Ok(Next::Complete(self.apply("negative", &[value], start))),
        }
    }

    /// Keeps a value whose result nobody uses in its place: `a; b` is `let _ = a; b`.
    fn discard(&mut self, value: ValueId) {
        let body = &mut self.parser.function.body;
        let hint = body.name_hint(value);
        let defined_here = body.defining_op(value).is_some();
        if defined_here && hint.binding == Binding::Graph && hint.name.is_none() {
            let hint = NameHint { name: Some(Symbol::new("_")), binding: Binding::Let };
            body.set_name_hint(value, hint);
        }
    }

    fn finish_tuple(&mut self, first: usize, start: u32) -> ValueId {
        let fields = self.values.split_off(first);
        self.form("relay.tuple", &fields, AttrDict::empty(), start)
    }

    fn begin_branch(&mut self, op: OpId, second: bool) -> Result<Next, Reported> {
        let scope = self.enter(op, usize::from(second));
        self.frames.push(Frame::Branch { op, second, scope });
        self.begin_sequence(true);
        Ok(Next::Statement)
    }

    /// The next clause of `match`, or its end.
    fn next_clause(&mut self, op: OpId, mut patterns: Vec<Pattern>) -> Result<Next, Reported> {
        if self.parser.cursor.eat(TokenKind::RightBrace) {
            let body = &mut self.parser.function.body;
            let attrs = body.attrs(op).with("patterns", &patterns);
            body.set_attrs(op, attrs);
            let start = self.parser.cursor.previous_end();
            return Ok(Next::Value(self.parser.function.body.result(op, 0), start));
        }
        let mut variables = Vec::new();
        patterns.push(self.parser.parse_pattern(&mut variables, 0)?);
        self.parser.cursor.expect(TokenKind::FatArrow)?;
        self.parser.function.body.add_region(op);
        let scope = self.enter(op, patterns.len() - 1);
        let function = &mut self.parser.function;
        for variable in variables {
            let value = function.body.add_block_arg(self.block, variable.ty);
            let hint = NameHint { name: Some(variable.name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
            function.bind(variable.name, Meaning::Value(value));
        }
        self.frames.push(Frame::Clause { op, patterns, scope });
        Ok(Next::Expression)
    }

    // ---- errors ----------------------------------------------------------------------------

    /// Goes on after a reported error: at the next statement of the innermost sequence in brackets,
    /// or at its end. Errors when neither is found.
    fn recover(&mut self) -> Result<Next, Reported> {
        let place = self
            .frames
            .iter()
            .rposition(|frame| matches!(frame, Frame::Sequence(sequence) if sequence.bracketed));
        let Some(place) = place else { return Err(Reported) };
        let Frame::Sequence(sequence) = self.frames[place] else { return Err(Reported) };
        let lost = self.frames.drain(place + 1..).next();
        self.values.truncate(sequence.values);
        self.block = sequence.block;
        if !self.parser.cursor.skip_statement(sequence.depth) {
            return Err(Reported);
        }
        let start = self.parser.cursor.peek().start;
        let poison = self.poison(start);
        if self.parser.cursor.eat(TokenKind::Semicolon) {
            // Bind what the statement would have bound, so that its uses are no errors.
            match lost {
                Some(Frame::Let { name, .. }) => {
                    self.parser.function.bind(name, Meaning::Value(poison));
                }
                Some(Frame::Graph { number, start }) => {
                    let local = GraphLocal { value: poison, block: self.block, start };
                    self.parser.function.bind_graph(number, local);
                }
                _ => {}
            }
            return Ok(Next::Statement);
        }
        // The frame around the sequence finds its closing bracket.
        Ok(Next::Complete(poison))
    }
}

/// Turns a constructor that was taken for one without fields into a function value.
pub(super) fn constructor_as_value(body: &mut Body, op: OpId, name: Symbol) {
    if !body.is_live(op) || body.op_name(op) != "relay.construct" {
        return;
    }
    let before = body.result(op, 0);
    let (ty, loc, hint) = (body.ty(before), body.loc(op), body.name_hint(before));
    let results = [ty];
    let attrs = Parser::form_attrs("name", &name.to_string());
    let parts = OpParts::new("relay.constructor", &[], &results).attrs(attrs).at(loc);
    let constructor = body.insert_op(InsertPoint::Before(op), parts);
    let after = body.result(constructor, 0);
    body.set_name_hint(after, hint);
    body.replace_all_uses(before, after);
    body.erase(op);
}
