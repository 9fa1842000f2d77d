//! Items: functions and data types, and the heads that definitions share with function literals.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::ParsedItem;
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::TokenKind;
use ir_core::{
    Attr, AttrDict, Binding, Diagnostic, Item, NameHint, Signature, Symbol, Type, ValueId,
};

use super::attributes::AttrList;
use super::codes;
use super::cursor::Reported;
use super::parser::{DeclaredConstructor, Function, Meaning, Parser};
use super::sinking::sink_graph_bindings;
use super::{EXTERNAL, EXTERNAL_TYPE};
use crate::language::{AdtDecl, ConstructorDecl, FUNC, TYPE};

/// The key of a function's attributes under which those of its parameters stand: a list with one
/// dictionary for each parameter.
pub(super) const PARAMETER_ATTRIBUTES: &str = "parameter_attributes";

/// The attribute that holds the text of an [`EXTERNAL`] item, from the `=` after its name on.
pub(super) const EXTERNAL_TEXT: &str = "text";

/// A parameter of a function.
pub(super) struct Parameter {
    pub name: Symbol,
    pub ty: Type,
    /// First byte of its name.
    pub start: u32,
}

/// Everything of a function before its body.
pub(super) struct Head {
    pub type_params: Vec<Symbol>,
    pub params: Vec<Parameter>,
    pub attributes: AttrDict,
    pub result: Type,
}

impl Head {
    /// The function type as far as it is written.
    pub(super) fn ty(&self) -> Type {
        let params: Vec<Type> = self.params.iter().map(|param| param.ty).collect();
        Parser::function_type(&self.type_params, &params, self.result)
    }
}

impl Parser<'_> {
    /// An item, or an expression that stands for the function `main`.
    pub(super) fn item(&mut self) -> Result<(), Reported> {
        let token = self.cursor.peek();
        match token.text(self.cursor.source) {
            "def" if token.kind == TokenKind::Identifier => self.definition(),
            "type" if token.kind == TokenKind::Identifier => self.type_declaration(false),
            "extern" if token.kind == TokenKind::Identifier => {
                self.cursor.bump();
                match self.cursor.at_word("type") {
                    true => self.type_declaration(true),
                    false => Err(self.cursor.unexpected("`type`")),
                }
            }
            _ if self.at_external() => {
                self.external(token);
                Ok(())
            }
            _ if self.cursor.at_dialect_item() => self.dialect_item(),
            _ if self.module.get("main").is_none() => self.bare_expression(),
            _ => {
                let error = self.cursor.unexpected("`def`, `type` or `extern type`");
                self.cursor.bump();
                Err(error)
            }
        }
    }

    /// Whether `@name = primfn` starts here.
    fn at_external(&mut self) -> bool {
        self.cursor.kind() == TokenKind::Global
            && self.cursor.peek_at(1).kind == TokenKind::Equal
            && self.cursor.peek_at(2).is_word(self.cursor.source, "primfn")
    }

    /// A function of the original's tensor-level language: kept as it is written, up to the `}`
    /// that starts a line.
    fn external(&mut self, token: ir_core::text::lexer::Token) {
        let name = Symbol::new(&token.name(self.cursor.source));
        let place = self.cursor.span(token);
        let rest = self.cursor.source.get(token.end as usize..).unwrap_or("");
        let length = rest.find("\n}").map_or(rest.len(), |end| end + "\n}".len());
        self.cursor.seek(token.end as usize + length);
        let text = rest[..length].trim_start().to_string();
        let signature = Signature {
            op: Symbol::new(EXTERNAL),
            ty: Type::named(EXTERNAL_TYPE, []),
            attrs: AttrDict::empty().with(EXTERNAL_TEXT, &text),
            span: Some(self.item_span(token.start)),
        };
        self.add_item(name, Item { signature, body: None }, place, &format!("@{name}"));
    }

    /// An item of another dialect, which reads it.
    fn dialect_item(&mut self) -> Result<(), Reported> {
        let first = self.cursor.peek();
        let last = self.cursor.peek_at(2);
        let kind = self.cursor.source.get(first.start as usize..last.end as usize);
        let kind = kind.unwrap_or_default();
        let registry = self.registry;
        let Some(syntax) = registry.item(kind).and_then(|def| def.syntax) else {
            let message = format!("unknown kind of item `{kind}`");
            let mut found = Diagnostic::error(codes::SYNTAX, message)
                .at(self.cursor.range(first.start, last.end));
            let known = registry.items().filter(|def| def.syntax.is_some()).map(|def| def.name);
            found.help = did_you_mean(kind, known);
            self.cursor.report(found);
            self.cursor.bump();
            return Err(Reported);
        };
        let mut inner = Cursor::at(self.cursor.file(), self.cursor.source, first.start);
        let parsed = (syntax.parse)(&mut inner, registry);
        self.cursor.seek(inner.token().start.max(last.end) as usize);
        for diagnostic in inner.diagnostics {
            self.cursor.report(diagnostic);
        }
        let ParsedItem { name, place, item } = parsed.map_err(|Failed| Reported)?;
        self.add_item(name, item, place, &format!("@{name}"));
        Ok(())
    }

    /// `def @name[A](%x: T, key = value) -> T { … }`.
    fn definition(&mut self) -> Result<(), Reported> {
        let start = self.cursor.bump().start;
        let token = self.cursor.expect(TokenKind::Global)?;
        let name = Symbol::new(&token.name(self.cursor.source));
        let errors = self.cursor.errors();
        self.begin_function(name, start);
        let place = self.cursor.span(token);
        let head = self.function_head()?;
        let params: Vec<ValueId> = self.bind_parameters(&head);
        self.cursor.expect(TokenKind::LeftBrace)?;
        let done = self.function_body(true);
        if done.is_ok() {
            self.cursor.expect(TokenKind::RightBrace).ok();
        }
        debug_assert_eq!(params.len(), head.params.len());
        let failed = done.is_err() || self.cursor.errors() > errors;
        self.finish_function(name, &head, place, failed);
        done
    }

    /// Statements and an expression outside any item: the function `main`, whose parameters are the
    /// free variables.
    fn bare_expression(&mut self) -> Result<(), Reported> {
        let start = self.cursor.peek();
        let errors = self.cursor.errors();
        let name = Symbol::new("main");
        self.begin_function(name, start.start);
        let mut params: Vec<Parameter> = Vec::new();
        while self.cursor.at_word("free_var") {
            self.cursor.bump();
            let token = self.cursor.expect(TokenKind::Local)?;
            let name = Symbol::new(&token.name(self.cursor.source));
            let ty = self.optional_annotation()?;
            self.cursor.expect(TokenKind::Semicolon)?;
            params.push(Parameter { name, ty, start: token.start });
        }
        let head = Head {
            type_params: Vec::new(),
            params,
            attributes: AttrDict::empty(),
            result: Type::unknown(),
        };
        self.bind_parameters(&head);
        let done = self.function_body(false);
        let failed = done.is_err() || self.cursor.errors() > errors;
        let place = self.cursor.span(start);
        self.finish_function(name, &head, place, failed);
        done
    }

    fn begin_function(&mut self, name: Symbol, base: u32) {
        self.function = Function { name: Some(name), base, ..Function::default() };
        self.type_params.clear();
    }

    /// Makes the parameters arguments of the entry block.
    fn bind_parameters(&mut self, head: &Head) -> Vec<ValueId> {
        let function = &mut self.function;
        let entry = function.body.entry();
        let bind = |param: &Parameter| {
            let value = function.body.add_block_arg(entry, param.ty);
            function.body.set_argument_loc(value, function.loc(param.start));
            let hint = NameHint { name: Some(param.name), binding: Binding::Let };
            function.body.set_name_hint(value, hint);
            function.bind(param.name, Meaning::Value(value));
            value
        };
        head.params.iter().map(bind).collect()
    }

    /// Adds the function that was read to the module.
    fn finish_function(&mut self, name: Symbol, head: &Head, place: ir_core::Span, failed: bool) {
        let mut function = std::mem::take(&mut self.function);
        let span = Some(self.item_span(function.base));
        if !failed && function.nested {
            sink_graph_bindings(&mut function.body, self.registry);
        }
        let signature =
            Signature { op: Symbol::new(FUNC), ty: head.ty(), attrs: head.attributes, span };
        let body = (!failed).then(|| std::sync::Arc::new(function.body));
        self.add_item(name, Item { signature, body }, place, &format!("@{name}"));
    }

    /// Adds an item, or reports that its name is taken.
    fn add_item(&mut self, name: Symbol, item: Item, place: ir_core::Span, shown: &str) {
        if let Some(first) = self.module.get(name) {
            let first = first.signature.span;
            let found = Diagnostic::error(codes::DUPLICATE, format!("`{shown}` is defined twice"));
            self.cursor.report(found.at(place).related(first, "first defined here"));
            return;
        }
        self.module.items.insert(name, item);
    }

    /// `[A](%x: T, key = value) -> T`, of a definition or a function literal. The type parameters
    /// stay in scope.
    pub(super) fn function_head(&mut self) -> Result<Head, Reported> {
        let type_params = self.type_param_names()?;
        self.cursor.expect(TokenKind::LeftParen)?;
        let mut params: Vec<Parameter> = Vec::new();
        let mut places: rustc_hash::FxHashMap<Symbol, ir_core::Span> = Default::default();
        let mut given: Vec<AttrDict> = Vec::new();
        let mut attributes = AttrList::default();
        while !self.cursor.eat(TokenKind::RightParen) {
            if self.at_attribute() {
                attributes = self.parse_attributes()?;
                self.cursor.expect(TokenKind::RightParen)?;
                break;
            }
            let token = self.cursor.expect(TokenKind::Local)?;
            let name = Symbol::new(&token.name(self.cursor.source));
            let place = self.cursor.span(token);
            if let Some(first) = places.insert(name, place) {
                let message = format!("the parameter `%{name}` is named twice");
                let found = Diagnostic::error(codes::DUPLICATE, message);
                self.cursor.report(found.at(place).related(first, "first named here"));
            }
            let mut own = AttrDict::empty();
            if self.cursor.eat(TokenKind::LeftBrace) {
                own = self.parse_attributes()?.dict();
                self.cursor.expect(TokenKind::RightBrace)?;
            }
            given.push(own);
            let ty = self.optional_annotation()?;
            params.push(Parameter { name, ty, start: token.start });
            if self.cursor.kind() != TokenKind::RightParen {
                self.cursor.expect(TokenKind::Comma)?;
            }
        }
        let mut attributes = attributes.dict();
        if given.iter().any(|own| !own.is_empty()) {
            attributes = attributes.with(PARAMETER_ATTRIBUTES, &given);
        }
        let result = match self.cursor.eat(TokenKind::Arrow) {
            true => self.parse_type()?,
            false => Type::unknown(),
        };
        Ok(Head { type_params, params, attributes, result })
    }

    /// `type Name[A] { Constructor(T), … }`.
    fn type_declaration(&mut self, is_extern: bool) -> Result<(), Reported> {
        let start = self.cursor.bump().start;
        let token = match self.cursor.kind() {
            TokenKind::Identifier | TokenKind::String => self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("the name of a type")),
        };
        let name = Symbol::new(&token.name(self.cursor.source));
        let place = self.cursor.span(token);
        self.type_params.clear();
        let params = self.type_param_names()?;
        let mut constructors = Vec::new();
        if self.cursor.eat(TokenKind::LeftBrace) {
            while !self.cursor.eat(TokenKind::RightBrace) {
                constructors.push(self.constructor_declaration()?);
                if self.cursor.kind() != TokenKind::RightBrace {
                    self.cursor.expect(TokenKind::Comma)?;
                }
            }
        } else {
            self.cursor.eat(TokenKind::Semicolon);
        }
        self.type_params.clear();
        self.types.entry(name).or_insert((params.len(), place));
        let declaration = AdtDecl { params, constructors, is_extern };
        let signature = Signature {
            op: Symbol::new(TYPE),
            ty: Type::unknown(),
            attrs: declaration.to_attrs(),
            span: Some(self.item_span(start)),
        };
        self.add_item(name, Item { signature, body: None }, place, name.as_str());
        Ok(())
    }

    fn constructor_declaration(&mut self) -> Result<ConstructorDecl, Reported> {
        let token = match self.cursor.kind() {
            // The original's defunctionalization names constructors by number.
            TokenKind::Identifier | TokenKind::String | TokenKind::Integer => self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("the name of a constructor")),
        };
        let name = Symbol::new(&token.name(self.cursor.source));
        let mut fields = Vec::new();
        if self.cursor.eat(TokenKind::LeftParen) {
            while !self.cursor.eat(TokenKind::RightParen) {
                fields.push(self.parse_type()?);
                if self.cursor.kind() != TokenKind::RightParen {
                    self.cursor.expect(TokenKind::Comma)?;
                }
            }
        }
        let span = self.cursor.span(token);
        if let Some(first) = self.constructors.get(&name) {
            let first = first.span;
            let message = format!("the constructor `{name}` is declared twice");
            let found = Diagnostic::error(codes::DUPLICATE, message).at(span);
            self.cursor.report(found.related(first, "first declared here"));
        } else {
            self.constructors.insert(name, DeclaredConstructor { fields: fields.len(), span });
        }
        Ok(ConstructorDecl { name, fields })
    }
}

/// The attributes of parameter `index` among those of its function.
pub(super) fn parameter_attributes(attributes: AttrDict, index: usize) -> AttrDict {
    let all: Option<Vec<Attr>> = attributes.value(PARAMETER_ATTRIBUTES);
    let own = all.and_then(|all| all.get(index).copied());
    own.and_then(ir_core::AttrValue::from_attr).unwrap_or_else(AttrDict::empty)
}
