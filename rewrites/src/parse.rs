//! Reading rules from text, and resolving what they name against the registry.

mod expressions;
mod resolve;
mod samples;

pub(crate) use resolve::canonical;

use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::{Number, TokenKind, number};
use ir_core::text::types::parse_path;
use ir_core::{Diagnostic, Diagnostics, Registry, Scalar, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::codes;
use crate::functions::Functions;
use crate::rule::{Choice, Equation, Expr, FloatClass, Node, NodeId, OpNode, Rest, Rule, Var};

/// Expressions and patterns nest at most so deeply.
pub const MAX_DEPTH: usize = 64;

/// Parses a file of rules. Rules with errors are left out; everything found is reported.
pub fn parse(file: &str, text: &str, registry: &Registry) -> (Vec<Rule>, Diagnostics) {
    let functions = Functions::new(registry);
    let mut parser = Parser {
        cursor: Cursor::new(file, text),
        registry,
        functions: &functions,
        dialect: registry.rule_defaults().dialect.to_string(),
        rule: None,
        rules: vec![],
        places: FxHashMap::default(),
        depth: 0,
    };
    parser.file();
    let mut diagnostics = parser.cursor.diagnostics;
    for diagnostic in diagnostics.iter_mut() {
        // The cursor's errors are about its tokens; here they are errors of a rule.
        if !diagnostic.code.starts_with("E10") {
            diagnostic.code = codes::SYNTAX;
        }
    }
    (parser.rules.into_iter().flatten().collect(), diagnostics)
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    registry: &'t Registry,
    functions: &'t Functions,
    dialect: String,
    /// The rule being read.
    rule: Option<Rule>,
    /// The rules that were read; `None` where something is wrong with one.
    rules: Vec<Option<Rule>>,
    /// Where each name stands among them, the last one where there are several.
    places: FxHashMap<Symbol, usize>,
    depth: usize,
}

impl Parser<'_> {
    /// The file. What is wrong with it is reported, and the rest read.
    fn file(&mut self) {
        if self.dialect().is_err() {
            return;
        }
        let mut set = None;
        while self.cursor.kind() != TokenKind::End {
            let done = if set.is_none() && self.cursor.at_word("set") {
                self.open_set().map(|name| set = Some(name))
            } else if set.is_some() && self.cursor.eat(TokenKind::RightBrace) {
                set = None;
                Ok(())
            } else if self.cursor.at_word("rule") {
                self.one_rule(set)
            } else if self.cursor.at_word("samples") {
                self.block_of_samples()
            } else {
                let other = if set.is_some() { "`}`" } else { "`set`" };
                Err(self.cursor.unexpected(&format!("`rule`, `samples` or {other}")))
            };
            if done.is_err() {
                if let Some(unread) = self.rule.take() {
                    self.keep(unread.name, None);
                }
                self.recover();
            }
        }
        if set.is_some() {
            self.cursor.unexpected("`}`");
        }
    }

    /// The dialect that the rules are about: the file names it, or the registry does.
    fn dialect(&mut self) -> Result<(), Failed> {
        if !self.cursor.eat_word("dialect") {
            return match self.dialect.is_empty() {
                true => Err(self.cursor.unexpected("`dialect name;`")),
                false => Ok(()),
            };
        }
        let span = self.cursor.span_of(self.cursor.token());
        let name = parse_path(&mut self.cursor)?;
        match resolve::dialect(self.registry, name.as_str(), span) {
            Ok(()) => self.dialect = name.to_string(),
            Err(found) => self.cursor.diagnostics.extend(found),
        }
        self.cursor.expect(TokenKind::Semicolon).map(|_| ())
    }

    /// Skips to the end of a rule, or to the start of the next.
    fn recover(&mut self) {
        while !matches!(self.cursor.kind(), TokenKind::End) {
            if self.cursor.eat(TokenKind::Semicolon)
                || (self.cursor.at_line_start() && self.cursor.at_word("rule"))
            {
                return;
            }
            self.cursor.bump();
        }
    }

    fn open_set(&mut self) -> Result<Symbol, Failed> {
        self.cursor.bump();
        let name = self.hyphenated()?;
        self.cursor.expect(TokenKind::LeftBrace)?;
        Ok(name)
    }

    /// A name such as `add-zero`.
    fn hyphenated(&mut self) -> Result<Symbol, Failed> {
        let start = self.cursor.expect(TokenKind::Identifier)?.start;
        let adjacent = |cursor: &Cursor<'_>| cursor.token().start == cursor.previous_end();
        while self.cursor.kind() == TokenKind::Minus && adjacent(&self.cursor) {
            self.cursor.bump();
            if self.cursor.kind() != TokenKind::Integer {
                self.cursor.expect(TokenKind::Identifier)?;
            } else {
                self.cursor.bump();
            }
        }
        let end = self.cursor.previous_end();
        let text = &self.cursor.source()[start as usize..end as usize];
        Ok(Symbol::new(text))
    }

    fn one_rule(&mut self, set: Option<Symbol>) -> Result<(), Failed> {
        let errors = self.cursor.diagnostics.len();
        self.cursor.bump();
        let start = self.cursor.token();
        let name = self.hyphenated()?;
        let span = self.cursor.span(start.start, self.cursor.previous_end());
        let class = self.class()?;
        let subsume = self.cursor.eat_word("subsume");
        let safer = self.cursor.eat_word("safer");
        let mut tags = Vec::new();
        if self.cursor.eat(TokenKind::LeftBracket) {
            while self.cursor.kind() != TokenKind::RightBracket {
                tags.push(self.hyphenated()?);
                if !self.cursor.eat(TokenKind::Comma) {
                    break;
                }
            }
            self.cursor.expect(TokenKind::RightBracket)?;
        }
        self.cursor.expect(TokenKind::Colon)?;
        self.rule = Some(Rule {
            name,
            set,
            tags,
            class,
            subsume,
            safer,
            bidirectional: false,
            values: vec![],
            families: vec![],
            attributes: vec![],
            nodes: vec![],
            left: vec![],
            right: vec![],
            conditions: vec![],
            typed: false,
            unshared: false,
            samples: vec![],
            span,
        });
        let left = self.side()?;
        let both = self.cursor.kind() == TokenKind::LessEqual
            && self.cursor.after().kind == TokenKind::Greater;
        if both {
            self.cursor.bump();
            self.cursor.bump();
        } else if !self.cursor.eat(TokenKind::FatArrow) {
            return Err(self.cursor.unexpected("`=>` or `<=>`"));
        }
        let right = self.side()?;
        if let Some(rule) = &mut self.rule {
            (rule.left, rule.right, rule.bidirectional) = (left, right, both);
        }
        if self.cursor.eat_word("where") {
            self.conditions()?;
        }
        let samples = if self.cursor.eat_word("for") { self.samples()? } else { vec![] };
        self.cursor.expect(TokenKind::Semicolon)?;
        let Some(mut rule) = self.rule.take() else { return Ok(()) };
        self.cursor.diagnostics.extend(samples::attach(&mut rule, &samples));
        self.cursor.diagnostics.extend(resolve::faults(&rule));
        let is_right = self.cursor.diagnostics.len() == errors;
        self.keep(name, is_right.then_some(rule));
        Ok(())
    }

    /// Keeps the rule `name`, or that there is something wrong with it: then what follows about it
    /// is no further fault.
    fn keep(&mut self, name: Symbol, rule: Option<Rule>) {
        self.places.insert(name, self.rules.len());
        self.rules.push(rule);
    }

    fn class(&mut self) -> Result<FloatClass, Failed> {
        if self.cursor.eat_word("exact") {
            return Ok(FloatClass::Exact);
        }
        if self.cursor.eat_word("reassoc") {
            return Ok(FloatClass::Reassociated);
        }
        if self.cursor.eat_word("real") {
            return Ok(FloatClass::Real);
        }
        if !self.cursor.eat_word("approx") {
            let classes = "`exact`, `reassoc`, `approx(tolerance)` or `real`";
            return Err(self.cursor.unexpected(classes));
        }
        self.cursor.expect(TokenKind::LeftParen)?;
        let tolerance = self.number()?.as_f64();
        self.cursor.expect(TokenKind::RightParen)?;
        Ok(FloatClass::Approximate(tolerance))
    }

    fn number(&mut self) -> Result<Scalar, Failed> {
        let minus = self.cursor.eat(TokenKind::Minus);
        let token = self.cursor.token();
        let value = match token.kind {
            TokenKind::Integer | TokenKind::Float => number(self.cursor.text_of(token)),
            _ => return Err(self.cursor.unexpected("a number")),
        };
        let value = match value {
            Some(Number::Int(value, _)) if minus => {
                0i64.checked_sub_unsigned(value).map(Scalar::Int)
            }
            Some(Number::Int(value, _)) => i64::try_from(value).ok().map(Scalar::Int),
            Some(Number::Float(value, _)) => {
                Some(Scalar::Float(if minus { -value } else { value }))
            }
            None => None,
        };
        match value {
            Some(value) => {
                self.cursor.bump();
                Ok(value)
            }
            None => Err(self.cursor.unexpected("a number of at most 64 bits")),
        }
    }

    fn side(&mut self) -> Result<Vec<Equation>, Failed> {
        let mut equations: Vec<Equation> = Vec::new();
        loop {
            let token = self.cursor.token();
            let (mut name, mut node) = (None, self.pattern()?);
            let value = self.rule.as_ref().map(|rule| rule.node(node).clone());
            if let Some(Node::Value(var)) = value
                && self.cursor.eat(TokenKind::Equal)
            {
                if equations.iter().any(|equation| equation.name == Some(var)) {
                    let message = "this name is given twice on one side";
                    let span = self.cursor.span_of(token);
                    let error = Diagnostic::error(codes::TWICE, message).at(span);
                    self.cursor.report(error);
                }
                (name, node) = (Some(var), self.pattern()?);
            }
            equations.push(Equation { name, node });
            if !self.cursor.eat(TokenKind::Comma) {
                return Ok(equations);
            }
        }
    }

    /// `%x` or `%x..`.
    fn value_variable(&mut self) -> Result<Var, Failed> {
        let token = self.cursor.expect(TokenKind::Local)?;
        let name = token.name(self.cursor.source()).into_owned();
        let family = self.eat_family();
        let var = intern(self.rule.as_mut().map(|rule| &mut rule.values), &name);
        let Some(rule) = &mut self.rule else { return Ok(var) };
        match rule.families.get(var.0) {
            None => rule.families.push(family),
            Some(before) if *before != family => {
                let span = self.cursor.span_of(token);
                self.cursor.report(half_family(&name, span));
            }
            Some(_) => {}
        }
        Ok(var)
    }

    /// The `..` of a family, where it stands here.
    fn eat_family(&mut self) -> bool {
        let family =
            self.cursor.kind() == TokenKind::Dot && self.cursor.after().kind == TokenKind::Dot;
        if family {
            self.cursor.bump();
            self.cursor.bump();
        }
        family
    }

    fn attribute_variable(&mut self) -> Result<Var, Failed> {
        self.cursor.expect(TokenKind::Question)?;
        let token = self.cursor.expect(TokenKind::Identifier)?;
        let name = self.cursor.text_of(token);
        Ok(intern(self.rule.as_mut().map(|rule| &mut rule.attributes), name))
    }

    fn node(&mut self, node: Node) -> NodeId {
        let Some(rule) = &mut self.rule else { return NodeId(0) };
        rule.nodes.push(node);
        NodeId(rule.nodes.len() - 1)
    }

    /// One level deeper, or an error.
    fn deeper(&mut self) -> Result<(), Failed> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        self.depth = 0;
        let span = self.cursor.span_of(self.cursor.token());
        let message = format!("patterns and expressions nest at most {MAX_DEPTH} levels");
        Err(self.cursor.report(Diagnostic::error(codes::SYNTAX, message).at(span)))
    }

    // Recursion is bounded by MAX_DEPTH.
    fn pattern(&mut self) -> Result<NodeId, Failed> {
        self.deeper()?;
        let token = self.cursor.token();
        let mut node = match token.kind {
            TokenKind::Local => {
                let var = self.value_variable()?;
                self.node(Node::Value(var))
            }
            TokenKind::Minus | TokenKind::Integer | TokenKind::Float => {
                let number = self.number()?;
                self.node(Node::Number(number))
            }
            TokenKind::LeftParen => {
                self.cursor.bump();
                let mut operands = Vec::new();
                while self.cursor.kind() != TokenKind::RightParen {
                    operands.push(self.pattern()?);
                    if !self.cursor.eat(TokenKind::Comma) {
                        break;
                    }
                }
                self.cursor.expect(TokenKind::RightParen)?;
                let span = self.cursor.span(token.start, self.cursor.previous_end());
                self.operation("tuple", operands, vec![], Rest::Default, span)
            }
            TokenKind::Identifier if self.cursor.at_word("if") => self.choice()?,
            TokenKind::Identifier => self.application()?,
            _ => return Err(self.cursor.unexpected("a pattern")),
        };
        while self.cursor.eat(TokenKind::Dot) {
            let index = match self.cursor.eat(TokenKind::Star) {
                true => Expr::Member,
                false => Expr::Literal(ir_core::Attr::of(&self.number()?.as_i64())),
            };
            let span = self.cursor.span(token.start, self.cursor.previous_end());
            let attrs = vec![(Symbol::new("index"), index)];
            node = self.operation("tuple_get", vec![node], attrs, Rest::Default, span);
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(node)
    }

    fn choice(&mut self) -> Result<NodeId, Failed> {
        let start = self.cursor.bump().start;
        self.cursor.expect(TokenKind::LeftParen)?;
        let condition = self.expression()?;
        self.cursor.expect(TokenKind::RightParen)?;
        let span = self.cursor.span(start, self.cursor.previous_end());
        let holds = self.branch()?;
        if !self.cursor.eat_word("else") {
            return Err(self.cursor.unexpected("`else`"));
        }
        let branches = [holds, self.branch()?];
        Ok(self.node(Node::Choice(Choice { condition, branches, span })))
    }

    fn branch(&mut self) -> Result<NodeId, Failed> {
        self.cursor.expect(TokenKind::LeftBrace)?;
        let token = self.cursor.token();
        // A number has the element type of its neighbours, and a branch has none.
        if matches!(token.kind, TokenKind::Minus | TokenKind::Integer | TokenKind::Float) {
            return Err(self.cursor.unexpected("an operation or a value"));
        }
        let node = self.pattern()?;
        self.cursor.expect(TokenKind::RightBrace)?;
        Ok(node)
    }

    fn application(&mut self) -> Result<NodeId, Failed> {
        let start = self.cursor.token().start;
        let name = parse_path(&mut self.cursor)?;
        let span = self.cursor.span(start, self.cursor.previous_end());
        self.cursor.expect(TokenKind::LeftParen)?;
        let (mut operands, mut attrs, mut rest) = (vec![], vec![], Rest::Default);
        while self.cursor.kind() != TokenKind::RightParen {
            if self.cursor.eat(TokenKind::Dot) {
                self.cursor.expect(TokenKind::Dot)?;
                rest = match self.cursor.kind() {
                    TokenKind::Question => Rest::Variable(self.attribute_variable()?),
                    _ => Rest::Ignored,
                };
            } else if self.cursor.kind() == TokenKind::Identifier
                && self.cursor.after().kind == TokenKind::Equal
            {
                let key = self.cursor.bump();
                let key = Symbol::new(self.cursor.text_of(key));
                self.cursor.bump();
                attrs.push((key, self.expression()?));
            } else {
                operands.push(self.pattern()?);
            }
            if !self.cursor.eat(TokenKind::Comma) {
                break;
            }
        }
        self.cursor.expect(TokenKind::RightParen)?;
        Ok(self.operation(name.as_str(), operands, attrs, rest, span))
    }

    fn conditions(&mut self) -> Result<(), Failed> {
        loop {
            let is_word = self.cursor.after().kind != TokenKind::LeftParen;
            if is_word && self.cursor.eat_word("typed") {
                self.rule.iter_mut().for_each(|rule| rule.typed = true);
            } else if is_word && self.cursor.eat_word("unshared") {
                self.rule.iter_mut().for_each(|rule| rule.unshared = true);
            } else {
                let condition = self.expression()?;
                self.rule.iter_mut().for_each(|rule| rule.conditions.push(condition.clone()));
            }
            if !self.cursor.eat(TokenKind::Comma) {
                return Ok(());
            }
        }
    }

    fn operation(
        &mut self,
        written: &str,
        operands: Vec<NodeId>,
        attrs: Vec<(Symbol, Expr)>,
        rest: Rest,
        span: ir_core::Span,
    ) -> NodeId {
        let (name, found) = resolve::operation(self.registry, &self.dialect, written, span);
        self.cursor.diagnostics.extend(found);
        let mut op = OpNode { name, operands, attrs, defaults: vec![], rest, span };
        let found = resolve::fields(self.registry, &mut op);
        self.cursor.diagnostics.extend(found);
        self.node(Node::Op(op))
    }
}

fn half_family(name: &str, span: Span) -> Diagnostic {
    let message = format!("`%{name}` is written with and without `..`");
    let error = Diagnostic::error(codes::SHAPE, message).at(span);
    error.help("`%x..` is a family: one value for each member")
}

fn intern(names: Option<&mut Vec<Symbol>>, name: &str) -> Var {
    let Some(names) = names else { return Var(0) };
    let name = Symbol::new(name);
    let found = names.iter().position(|known| *known == name);
    Var(found.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    }))
}
