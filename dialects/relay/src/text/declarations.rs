//! Items: functions and data types, and the heads that definitions share with function literals.

use ir_core::text::cursor::Failed;
use ir_core::text::lexer::TokenKind;
use ir_core::text::module::ReadItem;
use ir_core::{
    Attr, AttrDict, Binding, Diagnostic, Item, NameHint, Signature, Span, Symbol, Type, ValueId,
};

use super::attributes::AttrList;
use super::codes;
use super::parser::{Function, Meaning, Parser};
use super::sinking::sink_graph_bindings;
use crate::language::{AdtDecl, ConstructorDecl, FUNC, TYPE};
use crate::language::{EXTERNAL, EXTERNAL_TYPE};

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
    /// An item that starts with one of the [words](super::STARTS) of this syntax.
    pub(super) fn item(&mut self, item: &mut Option<ReadItem>) -> Result<(), Failed> {
        let token = self.cursor.peek();
        match token.text(self.cursor.source) {
            "def" if token.kind == TokenKind::Identifier => self.definition(item),
            "type" if token.kind == TokenKind::Identifier => self.type_declaration(false, item),
            "extern" if token.kind == TokenKind::Identifier => {
                self.cursor.bump();
                match self.cursor.at_word("type") {
                    true => self.type_declaration(true, item),
                    false => Err(self.cursor.unexpected("`type`")),
                }
            }
            _ => {
                *item = Some(self.external(token));
                Ok(())
            }
        }
    }

    /// A function of the original's tensor-level language: kept as it is written, up to the `}`
    /// that starts a line.
    fn external(&mut self, token: ir_core::text::lexer::Token) -> ReadItem {
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
            span: Some(self.cursor.since(token.start)),
        };
        let item = Item { signature, body: None };
        ReadItem { name, place, sigil: true, item, members: Vec::new() }
    }

    /// `def @name[A](%x: T, key = value) -> T { … }`.
    fn definition(&mut self, item: &mut Option<ReadItem>) -> Result<(), Failed> {
        let start = self.cursor.bump().start;
        let token = self.cursor.expect(TokenKind::Global)?;
        let name = Symbol::new(&token.name(self.cursor.source));
        let errors = self.cursor.errors();
        self.begin_function(start);
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
        *item = Some(self.finish_function(name, &head, place, failed));
        done
    }

    /// Statements and an expression outside any item: the function `main`, whose parameters are the
    /// free variables.
    pub(super) fn bare_expression(&mut self, item: &mut Option<ReadItem>) -> Result<(), Failed> {
        let start = self.cursor.peek();
        let errors = self.cursor.errors();
        let name = Symbol::new("main");
        self.begin_function(start.start);
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
        *item = Some(self.finish_function(name, &head, place, failed));
        done
    }

    fn begin_function(&mut self, base: u32) {
        self.function = Function { base, ..Function::default() };
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

    /// The function that was read.
    fn finish_function(
        &mut self,
        name: Symbol,
        head: &Head,
        place: ir_core::Span,
        failed: bool,
    ) -> ReadItem {
        let mut function = std::mem::take(&mut self.function);
        let span = Some(self.cursor.since(function.base));
        if !failed && function.nested {
            sink_graph_bindings(&mut function.body, self.registry);
        }
        let signature =
            Signature { op: Symbol::new(FUNC), ty: head.ty(), attrs: head.attributes, span };
        let body = (!failed).then(|| std::sync::Arc::new(function.body));
        let item = Item { signature, body };
        ReadItem { name, place, sigil: true, item, members: Vec::new() }
    }

    /// `[A](%x: T, key = value) -> T`, of a definition or a function literal. The type parameters
    /// stay in scope.
    pub(super) fn function_head(&mut self) -> Result<Head, Failed> {
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
    pub(super) fn type_declaration(
        &mut self,
        is_extern: bool,
        item: &mut Option<ReadItem>,
    ) -> Result<(), Failed> {
        let start = self.cursor.bump().start;
        let token = match self.cursor.kind() {
            TokenKind::Identifier | TokenKind::String => self.cursor.bump(),
            _ => return Err(self.cursor.unexpected("the name of a type")),
        };
        let name = Symbol::new(&token.name(self.cursor.source));
        let place = self.cursor.span(token);
        self.type_params.clear();
        let params = self.type_param_names()?;
        let (mut constructors, mut places) = (Vec::new(), Vec::new());
        if self.cursor.eat(TokenKind::LeftBrace) {
            while !self.cursor.eat(TokenKind::RightBrace) {
                let (constructor, place) = self.constructor_declaration()?;
                constructors.push(constructor);
                places.push(place);
                if self.cursor.kind() != TokenKind::RightBrace {
                    self.cursor.expect(TokenKind::Comma)?;
                }
            }
        } else {
            self.cursor.eat(TokenKind::Semicolon);
        }
        self.type_params.clear();
        let declaration = AdtDecl { params, constructors, is_extern };
        let signature = Signature {
            op: Symbol::new(TYPE),
            ty: Type::unknown(),
            attrs: declaration.to_attrs(),
            span: Some(self.cursor.since(start)),
        };
        let declared = Item { signature, body: None };
        *item = Some(ReadItem { name, place, sigil: false, item: declared, members: places });
        Ok(())
    }

    fn constructor_declaration(&mut self) -> Result<(ConstructorDecl, Span), Failed> {
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
        Ok((ConstructorDecl::new(name, fields), span))
    }
}

/// The attributes of parameter `index` among those of its function.
pub(super) fn parameter_attributes(attributes: AttrDict, index: usize) -> AttrDict {
    let all: Option<Vec<Attr>> = attributes.value(PARAMETER_ATTRIBUTES);
    let own = all.and_then(|all| all.get(index).copied());
    own.and_then(ir_core::AttrValue::from_attr).unwrap_or_else(AttrDict::empty)
}
