//! What an item refers to, and what is checked of it when all declarations are known.

use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::text::module::{Linking, Outline, References};
use ir_core::{Diagnostic, Item, OpId, Registry, Span, Symbol};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::codes;
use super::parser::counted;
use crate::inference::{DataTypes, data_types};
use crate::language::FORMS;
use crate::language::{AdtDecl, TYPE};
use crate::types::is_built_in;

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
#[derive(Default)]
pub(super) struct Words {
    constructors: FxHashSet<Symbol>,
    types: FxHashSet<Symbol>,
}

impl Words {
    /// Those that pieces declare.
    pub(super) fn of(outlines: &[Outline]) -> Words {
        Words {
            constructors: outlines.iter().flat_map(|outline| &outline.members).copied().collect(),
            types: outlines.iter().map(|outline| outline.name).collect(),
        }
    }

    /// Whether a constructor of this name would be one of them.
    pub(super) fn would_hold(name: Symbol, registry: &Registry) -> bool {
        let text = name.as_str();
        let number = text.starts_with(|first: char| first.is_ascii_digit());
        number || registry.def(crate::language::operator(text)).is_some()
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

impl References for Uses {
    fn link(&self, linking: &mut Linking<'_>) {
        let mut linker = Linker { linking, types: None };
        linker.constructors_declared_once();
        linker.types(self);
        linker.globals(self);
        linker.patterns(self);
        for used in &self.constructors {
            linker.constructor(used);
        }
    }
}

struct Linker<'l, 'a> {
    linking: &'l mut Linking<'a>,
    types: Option<Arc<DataTypes>>,
}

impl Linker<'_, '_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.linking.diagnostics.push(diagnostic);
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
        self.types.get_or_insert_with(|| data_types(&self.linking.scope.shared())).clone()
    }

    /// Constructors are declared once in a module.
    fn constructors_declared_once(&mut self) {
        let Some(read) = self.linking.read.filter(|_| self.linking.item.is_some()) else { return };
        let name = read.name;
        if read.members.is_empty() {
            return;
        }
        let Some(decl) = AdtDecl::from_attrs(read.item.signature.attrs) else { return };
        let types = self.declared();
        for (tag, (constructor, place)) in decl.constructors.iter().zip(&read.members).enumerate() {
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
        self.linking.scope.declaration(owner)?.members.get(tag).copied()
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
            let place = self.linking.scope.declaration(*name).map(|read| read.place);
            self.report(found.related(place, "declared here"));
        }
    }

    fn globals(&mut self, uses: &Uses) {
        for (name, span) in &uses.globals {
            if self.linking.scope.kind(*name).is_some_and(|kind| kind != TYPE) {
                continue;
            }
            let known = self.linking.scope.items();
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

    /// Checks a constructor in an expression. One that was read as a call, but stands alone, becomes
    /// a value.
    fn constructor(&mut self, used: &ConstructorUse) {
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
                    && let Some(body) = self.linking.item.as_mut().and_then(Item::body_mut)
                {
                    super::expressions::constructor_as_value(body, used.op, name);
                }
            }
            _ => {
                let operators = self.linking.registry.ops().filter_map(|info| {
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
