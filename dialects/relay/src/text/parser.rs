//! The parser: what it knows of the module, and of the function that it reads.

use indexmap::IndexMap;
use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::text::lexer::TokenKind;
use ir_core::text::numbered::Numbered;
use ir_core::{
    AttrDict, BlockId, Body, Diagnostic, Loc, MAX_OPERANDS, Module, OpDef, OpId, Registry, Span,
    Symbol, Type, ValueId,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::cursor::Cursor;
use super::metadata::Metadata;
use super::types::TypeParams;
use super::{FORMS, VERSION, codes};
use crate::language::TYPE;

/// Reads one text.
pub(super) struct Parser<'t> {
    pub cursor: Cursor<'t>,
    pub registry: &'t Registry,
    pub module: Module,
    /// The function that is being read.
    pub function: Function,
    /// Type and shape parameters in scope.
    pub type_params: TypeParams,
    /// Declared types: number of parameters and place.
    pub types: FxHashMap<Symbol, (usize, Span)>,
    /// Declared constructors.
    pub constructors: IndexMap<Symbol, DeclaredConstructor, FxBuildHasher>,
    /// First use of every named type with every number of parameters.
    pub type_uses: IndexMap<(Symbol, usize), Span, FxBuildHasher>,
    /// First use of every function.
    pub global_uses: IndexMap<Symbol, Span, FxBuildHasher>,
    /// Constructors in expressions.
    pub constructor_uses: Vec<ConstructorUse>,
    /// Constructors in patterns.
    pub pattern_uses: Vec<PatternUse>,
    /// The metadata section, once it is needed.
    pub metadata: Option<Result<Metadata, String>>,
    operators: FxHashMap<&'t str, Option<Operator<'t>>>,
    file: Symbol,
    /// The most operands of one operation.
    pub max_operands: usize,
}

/// A declared constructor.
pub(super) struct DeclaredConstructor {
    pub fields: usize,
    pub span: Span,
}

/// A constructor in an expression, checked when all declarations are known.
pub(super) struct ConstructorUse {
    /// The function that it stands in.
    pub item: Symbol,
    /// Its operation.
    pub op: OpId,
    pub name: Symbol,
    /// Number of arguments; `None` where it is not called.
    pub args: Option<usize>,
    /// Whether a word with dots, or attributes, rule out a constructor.
    pub operator: bool,
    pub span: Span,
}

/// A constructor in a pattern, checked when all declarations are known.
pub(super) struct PatternUse {
    pub name: Symbol,
    pub fields: usize,
    pub span: Span,
}

/// An operator of the dialect.
#[derive(Clone, Copy)]
pub(super) struct Operator<'t> {
    /// Full name.
    pub name: Symbol,
    pub def: &'t OpDef,
}

/// What a local name stands for.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    Value(ValueId),
    /// The function whose literal is being read: a place in [`Function::recursions`].
    Recursive(usize),
}

/// A local name in scope.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub meaning: Meaning,
}

/// A graph variable in scope.
#[derive(Clone, Copy)]
pub(super) struct GraphLocal {
    pub value: ValueId,
    /// The block that binds it: its scope.
    pub block: BlockId,
    /// First byte of the binding.
    pub start: u32,
}

/// A function literal that is bound by `let`, so that it may call itself.
pub(super) struct Recursion {
    pub name: Symbol,
    /// The operation, once its parameters have been read.
    pub op: Option<OpId>,
    /// The argument for itself, once it is used.
    pub itself: Option<ValueId>,
}

/// The state of reading one function.
#[derive(Default)]
pub(super) struct Function {
    pub name: Option<Symbol>,
    pub body: Body,
    /// First byte of the item.
    pub base: u32,
    pub locals: FxHashMap<Symbol, Local>,
    /// What names stood for before they were shadowed.
    pub shadowed: Vec<(Symbol, Option<Local>)>,
    pub graph: Numbered<GraphLocal>,
    pub graph_shadowed: Vec<(u32, Option<GraphLocal>)>,
    /// Graph variables whose scope has ended.
    pub graph_closed: FxHashMap<u32, GraphLocal>,
    pub recursions: Vec<Recursion>,
    /// Whether a block besides the entry exists.
    pub nested: bool,
}

impl Function {
    /// The location of byte `start` of the text.
    pub(super) fn loc(&self, start: u32) -> Loc {
        Loc::offset(start.saturating_sub(self.base))
    }

    /// Brings `name` into scope.
    pub(super) fn bind(&mut self, name: Symbol, meaning: Meaning) {
        let before = self.locals.insert(name, Local { meaning });
        self.shadowed.push((name, before));
    }

    /// Ends the scope of all names bound since there were `mark` of them.
    pub(super) fn unbind(&mut self, mark: usize) {
        while self.shadowed.len() > mark
            && let Some((name, before)) = self.shadowed.pop()
        {
            match before {
                Some(local) => self.locals.insert(name, local),
                None => self.locals.remove(&name),
            };
        }
    }

    /// Brings graph variable `number` into scope.
    pub(super) fn bind_graph(&mut self, number: u32, local: GraphLocal) {
        let before = self.graph.insert(number, local);
        // What the outermost block binds stays to the end.
        if local.block != self.body.entry() {
            self.graph_shadowed.push((number, before));
        }
    }

    /// Ends the scope of all graph variables bound since there were `mark` of them.
    pub(super) fn unbind_graph(&mut self, mark: usize) {
        while self.graph_shadowed.len() > mark
            && let Some((number, before)) = self.graph_shadowed.pop()
        {
            let ended = match before {
                Some(local) => self.graph.insert(number, local),
                None => self.graph.remove(number),
            };
            if let Some(ended) = ended {
                self.graph_closed.insert(number, ended);
            }
        }
    }
}

impl<'t> Parser<'t> {
    pub(super) fn new(file: &str, source: &'t str, registry: &'t Registry) -> Parser<'t> {
        let mut module = Module::new();
        let file = module.sources.add(file, source);
        Parser {
            cursor: Cursor::new(file, source),
            registry,
            module,
            function: Function::default(),
            type_params: TypeParams::default(),
            types: FxHashMap::default(),
            constructors: IndexMap::default(),
            type_uses: IndexMap::default(),
            global_uses: IndexMap::default(),
            constructor_uses: Vec::new(),
            pattern_uses: Vec::new(),
            metadata: None,
            operators: FxHashMap::default(),
            file,
            max_operands: MAX_OPERANDS,
        }
    }

    /// Reads the whole text.
    pub(super) fn run(mut self) -> (Module, Vec<Diagnostic>) {
        if self.version().is_err() {
            self.cursor.skip_to_item();
        }
        while !matches!(self.cursor.kind(), TokenKind::End | TokenKind::Metadata) {
            if self.item().is_err() {
                self.cursor.skip_to_item();
            }
        }
        self.check_uses();
        (self.module, self.cursor.into_diagnostics())
    }

    /// `#[version = "0.0.5"]`, where it stands.
    fn version(&mut self) -> Result<(), super::cursor::Reported> {
        if self.cursor.kind() != TokenKind::Hash {
            return Ok(());
        }
        self.cursor.bump();
        self.cursor.expect(TokenKind::LeftBracket)?;
        if !self.cursor.eat_word("version") {
            return Err(self.cursor.unexpected("`version`"));
        }
        self.cursor.expect(TokenKind::Equal)?;
        let token = self.cursor.expect(TokenKind::String)?;
        let version = token.name(self.cursor.source);
        if version != VERSION {
            let message = format!("expected version \"{VERSION}\", found \"{version}\"");
            let place = self.cursor.span(token);
            self.cursor.report(Diagnostic::error(codes::VERSION, message).at(place));
        }
        self.cursor.expect(TokenKind::RightBracket)?;
        Ok(())
    }

    /// The operator called `name`, without the prefix of the dialect.
    pub(super) fn operator(&mut self, name: &'t str) -> Option<Operator<'t>> {
        let registry = self.registry;
        *self.operators.entry(name).or_insert_with(|| {
            let full = Symbol::new(&format!("relay.{name}"));
            let def = registry.def(full).filter(|_| !FORMS.contains(&name))?;
            Some(Operator { name: full, def })
        })
    }

    /// Checks what could only be checked with all declarations known, and turns words that were
    /// taken for calls of constructors into constructors as values.
    fn check_uses(&mut self) {
        for ((name, params), span) in std::mem::take(&mut self.type_uses) {
            match self.types.get(&name) {
                Some((expected, _)) if *expected == params => {}
                Some((expected, declared)) => {
                    let message = format!(
                        "the type `{name}` takes {}, found {params}",
                        counted(*expected, "parameter")
                    );
                    let help = match expected {
                        0 => format!("write `{name}`"),
                        n => format!("write `{name}[{}]`", vec!["…"; *n].join(", ")),
                    };
                    let found = Diagnostic::error(codes::TYPE, message).at(span).help(help);
                    self.cursor.report(found.related(*declared, "declared here"));
                }
                None => {
                    let known = self.types.keys().map(|name| name.as_str());
                    let mut known: Vec<&str> = known.collect();
                    known.sort_unstable();
                    let found = Diagnostic::error(codes::TYPE, format!("unknown type `{name}`"));
                    let help = did_you_mean(name.as_str(), known).unwrap_or_else(|| {
                        format!("declare it: `type {name} {{ … }}`, or as a type parameter")
                    });
                    self.cursor.report(found.at(span).help(help));
                }
            }
        }
        for (name, span) in std::mem::take(&mut self.global_uses) {
            let known = self.module.get(name).is_some_and(|i| i.signature.op != TYPE);
            if !known {
                let functions = self.module.items.iter();
                let functions = functions.filter(|(_, item)| item.signature.op != TYPE);
                let functions: Vec<&str> = functions.map(|(name, _)| name.as_str()).collect();
                let found =
                    Diagnostic::error(codes::GLOBAL, format!("undefined function `@{name}`"));
                self.report_unknown(found.at(span), "@", name, &functions);
            }
        }
        for PatternUse { name, fields, span } in std::mem::take(&mut self.pattern_uses) {
            match self.constructors.get(&name) {
                Some(declared) if declared.fields == fields => {}
                Some(declared) => {
                    let found = wrong_fields(name, declared, fields).at(span);
                    let found = found.related(declared.span, "declared here");
                    self.cursor.report(found);
                }
                None => {
                    let known: Vec<&str> = self.constructors.keys().map(|n| n.as_str()).collect();
                    let message = format!("unknown constructor `{name}`");
                    let found = Diagnostic::error(codes::CONSTRUCTOR, message);
                    self.report_unknown(found.at(span), "", name, &known);
                }
            }
        }
        for used in std::mem::take(&mut self.constructor_uses) {
            self.check_constructor(&used);
        }
    }

    fn check_constructor(&mut self, used: &ConstructorUse) {
        let name = used.name;
        match (self.constructors.get(&name), used.args) {
            (Some(declared), Some(args)) if declared.fields == args && !used.operator => {}
            (Some(declared), Some(args)) if !used.operator => {
                let found = wrong_fields(name, declared, args).at(used.span);
                let found = found.related(declared.span, "declared here");
                self.cursor.report(found);
            }
            (Some(declared), None) => {
                // A word alone was read as a constructor without fields.
                let item = self.module.items.get_mut(&used.item);
                if declared.fields > 0
                    && let Some(body) = item.and_then(|item| item.body_mut())
                {
                    super::expressions::constructor_as_value(body, used.op, name);
                }
            }
            _ => {
                let operators = self.registry.ops().filter_map(|info| {
                    let name = info.def.name.strip_prefix("relay.")?;
                    (!FORMS.contains(&name)).then_some(name)
                });
                let constructors = self.constructors.keys().map(|name| name.as_str());
                let known: Vec<&str> = operators.chain(constructors).collect();
                let message = format!("unknown operator `{name}`");
                let found = Diagnostic::error(codes::OPERATOR, message);
                self.report_unknown(found.at(used.span), "", name, &known);
            }
        }
    }

    /// Reports an unknown `name`, written after `sigil`, with the nearest of those `known`.
    pub(super) fn report_unknown(
        &mut self,
        found: Diagnostic,
        sigil: &str,
        name: Symbol,
        known: &[&str],
    ) {
        let help = did_you_mean_with(sigil, name.as_str(), known.iter().copied());
        self.cursor.report(match help {
            Some(help) => found.help(help),
            None => found,
        });
    }

    /// A function type of what a function literal or definition wrote.
    pub(super) fn function_type(names: &[Symbol], params: &[Type], result: Type) -> Type {
        Type::new(ir_core::TypeData::Function(ir_core::FunctionType {
            type_params: names.into(),
            params: params.into(),
            result,
        }))
    }

    /// The place of the file from byte `start` to the end of the previous token.
    pub(super) fn item_span(&self, start: u32) -> Span {
        Span { file: self.file, start, end: self.cursor.previous_end() }
    }

    /// The attributes of a form of the language.
    pub(super) fn form_attrs(key: &str, value: &impl ir_core::AttrValue) -> AttrDict {
        AttrDict::empty().with(key, value)
    }
}

fn wrong_fields(name: Symbol, declared: &DeclaredConstructor, found: usize) -> Diagnostic {
    let message = format!(
        "the constructor `{name}` takes {}, found {found}",
        counted(declared.fields, "field")
    );
    Diagnostic::error(codes::CONSTRUCTOR, message)
}

/// `1 field`, `2 fields`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_operands_are_an_error_in_their_place() {
        let registry = Registry::new().with(crate::dialect());
        let text = "def @main(%x: int32) { let %t = (%x, %x, %x); %t.0 }";
        let found = |limit| {
            let mut parser = Parser::new("test", text, &registry);
            parser.max_operands = limit;
            parser.run().1
        };
        assert!(found(3).is_empty(), "{:?}", found(3));
        let errors = found(2);
        assert_eq!(errors[0].message, "an operation has at most 2 operands");
        let span = errors[0].primary.as_ref().map(|label| label.span);
        let place = span.map(|span| &text[span.start as usize..span.end as usize]);
        assert_eq!(place, Some("(%x, %x, %x)"));
    }
}
