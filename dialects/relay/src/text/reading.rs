//! What reading one piece of a text gives, and what is checked when all declarations are known.
//!
//! **Reading a piece looks at nothing but its text, the metadata section and the few constructors
//! that are written like something else** ([`Words`]); everything that depends on other items is
//! left to [`link`]. So a piece is read again only when its own text changes.

use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::{Body, Diagnostic, Item, OpId, Registry, Span, Symbol};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::metadata::Metadata;
use super::parser::counted;
use super::{FORMS, codes};
use crate::inference::DataTypes;
use crate::language::{AdtDecl, TYPE};
use crate::types::is_built_in;

/// Where the metadata section comes from when it is needed. The error is a message.
pub type MetadataSource<'t> = dyn Fn() -> Result<Arc<Metadata>, String> + 't;

/// A piece of a text that was read: its items, in order. Most pieces have one.
#[derive(Clone, Default, Debug)]
pub struct Reading {
    /// The items.
    pub parts: Vec<Part>,
}

/// One item that was read, or what could not be read.
#[derive(Clone, Default, Debug)]
pub struct Part {
    /// The item.
    pub item: Option<ReadItem>,
    /// What is wrong with it by itself.
    pub diagnostics: Vec<Diagnostic>,
    /// What it refers to.
    pub(super) uses: Uses,
    /// For an expression that stands for the function `main`: what is wrong where there is one
    /// already.
    pub(super) instead: Option<Vec<Diagnostic>>,
}

/// An item that was read.
#[derive(Clone, Debug)]
pub struct ReadItem {
    /// Its name.
    pub name: Symbol,
    /// Where its name stands.
    pub place: Span,
    /// The item, without a body where that has errors.
    pub item: Item,
    /// For a data type: where the names of its constructors stand.
    pub constructors: Vec<Span>,
}

/// What an item refers to: the first use of everything.
#[derive(Clone, Default, Debug)]
pub(super) struct Uses {
    /// Named types with their number of parameters.
    pub types: IndexMap<(Symbol, usize), Span, FxBuildHasher>,
    /// Functions.
    pub globals: IndexMap<Symbol, Span, FxBuildHasher>,
    /// Constructors in expressions.
    pub constructors: Vec<ConstructorUse>,
    /// Constructors in patterns.
    pub patterns: Vec<PatternUse>,
}

/// A constructor in an expression.
#[derive(Clone, Debug)]
pub(super) struct ConstructorUse {
    /// Its operation.
    pub op: OpId,
    pub name: Symbol,
    /// Number of arguments; `None` where it is not called.
    pub args: Option<usize>,
    /// Whether a word with dots, or attributes, rule out a constructor.
    pub operator: bool,
    pub span: Span,
}

/// A constructor in a pattern.
#[derive(Clone, Debug)]
pub(super) struct PatternUse {
    pub name: Symbol,
    pub fields: usize,
    pub span: Span,
}

/// The declared constructors that are written like an operator or a number, which reading has to
/// know, and the types that declare them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Words {
    constructors: FxHashSet<Symbol>,
    types: FxHashSet<Symbol>,
}

impl Words {
    /// Adds what a data type declares.
    pub fn add(&mut self, outline: &Outline, registry: &Registry) {
        for name in &outline.constructors {
            let text = name.as_str();
            let number = text.starts_with(|first: char| first.is_ascii_digit());
            if number || registry.def(crate::language::operator(text)).is_some() {
                self.constructors.insert(*name);
                self.types.insert(outline.name);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.constructors.is_empty()
    }

    pub(super) fn is_constructor(&self, name: Symbol) -> bool {
        self.constructors.contains(&name)
    }

    /// Whether type `name` declares one of them.
    pub(super) fn declares_one(&self, name: Symbol) -> bool {
        self.types.contains(&name)
    }
}

/// The names that a data type declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The data type.
    pub name: Symbol,
    /// Its constructors.
    pub constructors: Vec<Symbol>,
}

/// The declarations of a module, as far as one item may depend on them.
pub trait Scope {
    /// The kind of item `name`.
    fn kind(&self, name: Symbol) -> Option<Symbol>;
    /// The place of item `name`.
    fn span(&self, name: Symbol) -> Option<Span>;
    /// All items and their kinds, in order, for suggestions.
    fn items(&self) -> Vec<(Symbol, Symbol)>;
    /// The declared data types.
    fn types(&self) -> Arc<DataTypes>;
    /// Data type `name` as it was read, for its places.
    fn declaration(&self, name: Symbol) -> Option<ReadItem>;
}

/// An item with everything checked that can be told without types.
#[derive(Clone, Default, Debug)]
pub struct Linked {
    /// What is wrong, by place.
    pub diagnostics: Vec<Diagnostic>,
    /// The item, where the module has it.
    pub item: Option<(Symbol, Item)>,
}

/// Checks what `part` refers to, and turns words that were taken for calls of constructors into
/// constructors as values. `owns` tells whether its item is the one that the module has under its
/// name.
pub fn link(part: &Part, owns: bool, registry: &Registry, scope: &dyn Scope) -> Linked {
    if let (Some(instead), Some(_), false) = (&part.instead, &part.item, owns) {
        return Linked { diagnostics: instead.clone(), item: None };
    }
    let mut linker = Linker { registry, scope, types: None, diagnostics: part.diagnostics.clone() };
    let mut item = part.item.as_ref().filter(|_| owns).map(|read| read.item.clone());
    if let Some(read) = &part.item {
        linker.declaration(read, owns);
    }
    linker.types(&part.uses);
    linker.globals(&part.uses);
    linker.patterns(&part.uses);
    for used in &part.uses.constructors {
        linker.constructor(used, item.as_mut().and_then(|item| item.body_mut()));
    }
    let mut diagnostics = linker.diagnostics;
    diagnostics.sort_by_key(|d| d.primary.as_ref().map_or(0, |label| label.span.start));
    let item = part.item.as_ref().zip(item).map(|(read, item)| (read.name, item));
    Linked { diagnostics, item }
}

struct Linker<'a> {
    registry: &'a Registry,
    scope: &'a dyn Scope,
    types: Option<Arc<DataTypes>>,
    diagnostics: Vec<Diagnostic>,
}

impl Linker<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports an unknown `name`, written after `sigil`, with the nearest of those `known`.
    fn unknown(&mut self, mut found: Diagnostic, sigil: &str, name: Symbol, known: &[&str]) {
        if let Some(help) = did_you_mean_with(sigil, name.as_str(), known.iter().copied()) {
            found = found.help(help);
        }
        self.report(found);
    }

    /// The declared data types; whoever needs none does not depend on them.
    fn declared(&mut self) -> Arc<DataTypes> {
        self.types.get_or_insert_with(|| self.scope.types()).clone()
    }

    /// Names are declared once.
    fn declaration(&mut self, read: &ReadItem, owns: bool) {
        let name = read.name;
        let is_type = read.item.signature.op == TYPE;
        if !owns {
            let shown = if is_type { name.to_string() } else { format!("@{name}") };
            let message = format!("`{shown}` is defined twice");
            let found = Diagnostic::error(codes::DUPLICATE, message).at(read.place);
            return self.report(found.related(self.scope.span(name), "first defined here"));
        }
        if read.constructors.is_empty() {
            return;
        }
        let Some(decl) = AdtDecl::from_attrs(read.item.signature.attrs) else { return };
        let types = self.declared();
        for (tag, (constructor, place)) in
            decl.constructors.iter().zip(&read.constructors).enumerate()
        {
            let first = types.constructor(constructor.name);
            let Some((owner, _, first)) =
                first.filter(|(owner, _, at)| (*owner, *at) != (name, tag))
            else {
                continue;
            };
            let message = format!("the constructor `{}` is declared twice", constructor.name);
            let found = Diagnostic::error(codes::DUPLICATE, message).at(*place);
            let first = self.constructor_place(owner, first);
            self.report(found.related(first, "first declared here"));
        }
    }

    fn constructor_place(&self, owner: Symbol, tag: usize) -> Option<Span> {
        self.scope.declaration(owner)?.constructors.get(tag).copied()
    }

    fn types(&mut self, uses: &Uses) {
        for ((name, params), span) in &uses.types {
            let types = self.declared();
            let Some(declared) = types.adts.get(name) else {
                if is_built_in(*name, *params) {
                    continue;
                }
                let mut known: Vec<&str> = types.adts.keys().map(|name| name.as_str()).collect();
                known.sort_unstable();
                let found = Diagnostic::error(codes::TYPE, format!("unknown type `{name}`"));
                let help = did_you_mean(name.as_str(), known).unwrap_or_else(|| {
                    format!("declare it: `type {name} {{ … }}`, or as a type parameter")
                });
                self.report(found.at(*span).help(help));
                continue;
            };
            let expected = declared.decl.params.len();
            if expected == *params {
                continue;
            }
            let takes = counted(expected, "parameter");
            let message = format!("the type `{name}` takes {takes}, found {params}");
            let help = match expected {
                0 => format!("write `{name}`"),
                n => format!("write `{name}[{}]`", vec!["…"; n].join(", ")),
            };
            let found = Diagnostic::error(codes::TYPE, message).at(*span).help(help);
            let place = self.scope.declaration(*name).map(|read| read.place);
            self.report(found.related(place, "declared here"));
        }
    }

    fn globals(&mut self, uses: &Uses) {
        for (name, span) in &uses.globals {
            if self.scope.kind(*name).is_some_and(|kind| kind != TYPE) {
                continue;
            }
            let known = self.scope.items();
            let known = known.iter().filter(|(_, kind)| *kind != TYPE);
            let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
            let found = Diagnostic::error(codes::GLOBAL, format!("undefined function `@{name}`"));
            self.unknown(found.at(*span), "@", *name, &known);
        }
    }

    fn patterns(&mut self, uses: &Uses) {
        for PatternUse { name, fields, span } in &uses.patterns {
            let types = self.declared();
            match types.constructor(*name) {
                Some((owner, adt, tag)) => {
                    let expected = adt.decl.constructors[tag].fields.len();
                    if expected != *fields {
                        self.wrong_fields(*name, (owner, tag), expected, *fields, *span);
                    }
                }
                None => {
                    let known: Vec<&str> = types.constructor_names().collect();
                    let message = format!("unknown constructor `{name}`");
                    let found = Diagnostic::error(codes::CONSTRUCTOR, message);
                    self.unknown(found.at(*span), "", *name, &known);
                }
            }
        }
    }

    /// Checks a constructor in an expression of `body`.
    fn constructor(&mut self, used: &ConstructorUse, body: Option<&mut Body>) {
        let types = self.declared();
        let name = used.name;
        let declared = types.constructor(name);
        let fields = declared.map(|(_, adt, tag)| adt.decl.constructors[tag].fields.len());
        match (declared, fields, used.args) {
            (Some(_), Some(fields), Some(args)) if fields == args && !used.operator => {}
            (Some((owner, _, tag)), Some(fields), Some(args)) if !used.operator => {
                self.wrong_fields(name, (owner, tag), fields, args, used.span);
            }
            (Some(_), Some(fields), None) => {
                // A word alone was read as a constructor without fields.
                if fields > 0
                    && let Some(body) = body
                {
                    super::expressions::constructor_as_value(body, used.op, name);
                }
            }
            _ => {
                let operators = self.registry.ops().filter_map(|info| {
                    let name = info.def.name.strip_prefix("relay.")?;
                    (!FORMS.contains(&name)).then_some(name)
                });
                let known: Vec<&str> = operators.chain(types.constructor_names()).collect();
                let message = format!("unknown operator `{name}`");
                let found = Diagnostic::error(codes::OPERATOR, message);
                self.unknown(found.at(used.span), "", name, &known);
            }
        }
    }

    /// Reports that constructor `name`, of this tag of this type, has another number of fields.
    fn wrong_fields(
        &mut self,
        name: Symbol,
        (owner, tag): (Symbol, usize),
        expected: usize,
        found: usize,
        span: Span,
    ) {
        let takes = counted(expected, "field");
        let message = format!("the constructor `{name}` takes {takes}, found {found}");
        let found = Diagnostic::error(codes::CONSTRUCTOR, message).at(span);
        self.report(found.related(self.constructor_place(owner, tag), "declared here"));
    }
}
