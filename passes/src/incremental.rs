//! The relay language as the incremental database sees it.

mod variables;

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use analysis::{Language, Mentions, Scope, Variable, Word};
use ir_core::text::lexer::{Lexer, TokenKind};
use ir_core::{
    Body, Diagnostics, Effects, FuncMut, Item, OpId, Registry, Signature, Signatures, Span, Symbol,
    Type, ValueId,
};
use relay::inference::{self, DataTypes, Surroundings};
use relay::language::{Construct, Constructor, EXTERNAL, FUNC, Global, Match, TYPE};

use crate::effects::{EffectSummaries, referenced_functions};

/// Programs in Relay text, with items of all dialects of a registry.
pub struct Relay {
    registry: Registry,
}

impl Relay {
    /// Programs over `registry`.
    pub fn new(registry: Registry) -> Relay {
        Relay { registry }
    }
}

impl Language for Relay {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn is_shared(&self, kind: Symbol) -> bool {
        kind == TYPE
    }

    fn check_shared(&self, name: Symbol, shared: &Arc<Signatures>) -> Diagnostics {
        inference::data_types(shared).check(name)
    }

    fn is_inferred(&self, kind: Symbol) -> bool {
        kind == FUNC
    }

    fn open_callees(&self, signature: &Signature, body: &Body) -> Option<Vec<Symbol>> {
        inference::open_callees(signature, body)
    }

    fn infer(
        &self,
        group: &mut [(Symbol, Signature, Arc<Body>)],
        scope: &dyn Scope,
    ) -> Diagnostics {
        inference::infer_group(group, &self.registry, &Around(scope))
    }

    fn mentions(&self, item: &Item) -> Mentions {
        let kind = item.signature.op;
        let (items, in_body) = item.body.as_ref().map_or((vec![], false), |body| mentioned(body));
        let everything = kind != FUNC && kind != TYPE;
        let shared = kind == TYPE || everything || in_body || item.signature.ty.facts().has_named;
        Mentions { items, shared, everything }
    }

    fn effects(&self, body: &Body, callee: &dyn Fn(Symbol) -> Effects) -> Effects {
        let callees = referenced_functions(body).into_iter().map(|name| (name, callee(name)));
        EffectSummaries::known(callees).of_body(body, &self.registry)
    }

    fn fusion_groups(&self, name: Symbol, item: &Item, signatures: &Signatures) -> Vec<Vec<OpId>> {
        let Some(body) = &item.body else { return Vec::new() };
        let (mut signature, mut body) = (item.signature.clone(), Body::clone(body));
        crate::fuse::groups(&FuncMut {
            name,
            signature: &mut signature,
            body: &mut body,
            signatures,
            registry: &self.registry,
        })
    }

    fn word_at(&self, piece: &str, offset: usize) -> Option<(Word, Range<usize>)> {
        let lexer = Lexer::new(piece);
        let mut words = 0..0;
        for token in lexer {
            let range = token.start as usize..token.end as usize;
            let dotted = matches!(token.kind, TokenKind::Identifier | TokenKind::Dot);
            // A name with dots is one word.
            if dotted && words.end == range.start {
                words.end = range.end;
            } else if dotted {
                words = range.clone();
            }
            if range.start > offset {
                return None;
            }
            if range.end < offset || range.end == offset && piece[offset..].starts_with(is_part) {
                continue;
            }
            let name = Symbol::new(&token.name(piece));
            match token.kind {
                TokenKind::Global => return Some((Word::Item(name), range)),
                TokenKind::Local | TokenKind::Graph => return Some((Word::Local(name), range)),
                TokenKind::Identifier => {
                    let rest = &piece[words.end..];
                    let more = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
                    words.end += more;
                    let text = &piece[words.clone()];
                    let operation = relay::language::operator(text);
                    let word = match self.registry.def(operation) {
                        Some(_) => Word::Operation(operation),
                        None => Word::Item(Symbol::new(text)),
                    };
                    return Some((word, words));
                }
                _ if range.end == offset => {}
                _ => return None,
            }
        }
        None
    }

    fn variables(&self, piece: &str) -> Vec<Variable> {
        variables::variables(piece)
    }
}

/// Whether `character` may be a part of a name with dots.
fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.')
}

/// What the database answers, in the terms of relay.
struct Around<'a>(&'a dyn Scope);

impl Surroundings for Around<'_> {
    fn function(&self, name: Symbol) -> Option<(Type, Option<Span>)> {
        let signature = self.0.signature(name)?;
        inference::is_callable(&signature).then_some((signature.ty, signature.span))
    }

    fn functions(&self) -> Vec<Symbol> {
        let items = self.0.items();
        let functions = items.iter().filter(|(_, kind)| *kind == FUNC || *kind == EXTERNAL);
        functions.map(|(name, _)| *name).collect()
    }

    fn types(&self) -> Arc<DataTypes> {
        inference::data_types(&self.0.shared())
    }
}

/// The operations that look at the declarations of data types.
static ON_DATA_TYPES: LazyLock<[Symbol; 3]> =
    LazyLock::new(|| [Construct::NAME, Constructor::NAME, Match::NAME].map(Symbol::new));

static GLOBAL: LazyLock<Symbol> = LazyLock::new(|| Symbol::new(Global::NAME));

/// The functions that `body` refers to, sorted, and whether it may depend on the declaration of a
/// data type.
fn mentioned(body: &Body) -> (Vec<Symbol>, bool) {
    let (mut functions, mut data_types) = (Vec::new(), false);
    // Most values have the type of one before them.
    let mut last = Type::unknown();
    let mut note = |value: ValueId, data_types: &mut bool| {
        let ty = body.ty(value);
        if std::mem::replace(&mut last, ty) != ty {
            *data_types |= ty.facts().has_named;
        }
    };
    let (global, on_data_types) = (*GLOBAL, *ON_DATA_TYPES);
    body.block_args(body.entry()).iter().for_each(|value| note(*value, &mut data_types));
    for op in body.walk() {
        let name = body.op_name(op);
        if name == global {
            functions.extend(body.view::<Global>(op).map(|global| global.name));
        }
        data_types |= on_data_types.contains(&name);
        body.results(op).for_each(|value| note(value, &mut data_types));
        for region in body.regions(op) {
            let arguments = body.block_args(body.block_of(*region));
            arguments.iter().for_each(|value| note(*value, &mut data_types));
        }
    }
    functions.sort_unstable();
    functions.dedup();
    (functions, data_types)
}
