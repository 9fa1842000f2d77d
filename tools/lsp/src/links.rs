//! Where names are defined and used.

use std::ops::Range;

use analysis::{Binder, Variable, Word};
use ir_core::text::lexer::{Lexer, Token, TokenKind};
use ir_core::{Registry, Symbol};
use relay::language::{AdtDecl, TYPE};
use serde_json::{Value, json};

use super::context::{self, operator};
use super::documents::View;
use super::protocol::{Failure, REQUEST_FAILED};

/// What a name stands for.
pub(super) enum Named {
    Variable(Variable),
    /// A function or another item with an `@`.
    Item(Symbol),
    /// A data type.
    Type(Symbol),
    /// A constructor, and its data type.
    Constructor(Symbol, Symbol),
}

/// What stands at byte `offset`, and where.
pub(super) fn named(
    view: &View,
    offset: usize,
    registry: &Registry,
) -> Option<(Named, Range<usize>)> {
    let hover = view.snapshot.hover(offset)?;
    let named = match hover.word {
        Word::Local(_) => Named::Variable(view.snapshot.variable_at(offset)?),
        Word::Operation(_) => return None,
        Word::Item(name) => {
            let global = view.snapshot.text().get(hover.range.clone())?.starts_with('@');
            if global {
                Named::Item(name)
            } else if context::at(view, offset, registry).after == TokenKind::Equal {
                // The key of an attribute.
                return None;
            } else if declaration(view, name).is_some() {
                Named::Type(name)
            } else {
                Named::Constructor(name, owner(view, name)?)
            }
        }
    };
    Some((named, hover.range))
}

/// The declaration of data type `name`.
pub(super) fn declaration(view: &View, name: Symbol) -> Option<AdtDecl> {
    let signature = view.snapshot.signature(name).filter(|signature| signature.op == TYPE)?;
    AdtDecl::from_attrs(signature.attrs)
}

/// All data types with their declarations.
pub(super) fn declarations(view: &View) -> impl Iterator<Item = (Symbol, AdtDecl)> + '_ {
    let types = view.snapshot.kinds().into_iter().filter(|(_, kind)| *kind == TYPE);
    types.filter_map(|(name, _)| Some((name, declaration(view, name)?)))
}

/// The data type that declares `constructor`.
fn owner(view: &View, constructor: Symbol) -> Option<Symbol> {
    let has = |declared: &AdtDecl| declared.constructors.iter().any(|own| own.name == constructor);
    declarations(view).find(|(_, declared)| has(declared)).map(|(name, _)| name)
}

/// Where a name is defined.
fn defined(view: &View, named: &Named) -> Option<Range<usize>> {
    let item = |name: Symbol| {
        let place = view.snapshot.name_place(name)?;
        Some(place.start as usize..place.end as usize)
    };
    match named {
        Named::Variable(variable) => Some(variable.name.clone()),
        Named::Item(name) | Named::Type(name) => item(*name),
        Named::Constructor(name, owner) => {
            let owner = item(*owner)?;
            let piece = view.snapshot.piece_at(owner.start)?;
            let text = view.snapshot.text();
            let mut tokens =
                Lexer::at(text, owner.end).take_while(|token| (token.start as usize) < piece.end);
            let token = tokens.find(|token| token.is_word(text, name.as_str()))?;
            Some(token.start as usize..token.end as usize)
        }
    }
}

/// Where a name is used and defined, in order.
fn occurrences(view: &View, named: &Named) -> Vec<Range<usize>> {
    let (name, global) = match named {
        Named::Variable(variable) => {
            let places = std::iter::once(&variable.name).chain(&variable.uses);
            return places.cloned().collect();
        }
        Named::Item(name) => (*name, true),
        Named::Type(name) | Named::Constructor(name, _) => (*name, false),
    };
    let snapshot = &view.snapshot;
    if global {
        let uses = snapshot.references(name).into_iter().chain(snapshot.name_place(name));
        let mut places: Vec<_> = uses.map(|span| span.start as usize..span.end as usize).collect();
        places.sort_unstable_by_key(|place| place.start);
        places.dedup();
        return places;
    }
    let text = snapshot.text();
    let mut found = Vec::new();
    for piece in snapshot.pieces(0..text.len()) {
        let Some(content) = text.get(piece.clone()) else { continue };
        if memchr::memmem::find(content.as_bytes(), name.as_str().as_bytes()).is_none() {
            continue;
        }
        let mut before = TokenKind::Semicolon;
        let mut tokens = Lexer::new(content).peekable();
        while let Some(token) = tokens.next() {
            let next = tokens.peek().map_or(TokenKind::End, |next| next.kind);
            // Neither a part of a dotted name nor the key of an attribute.
            let alone =
                before != TokenKind::Dot && !matches!(next, TokenKind::Dot | TokenKind::Equal);
            if alone && token.is_word(content, name.as_str()) {
                found.push(piece.start + token.start as usize..piece.start + token.end as usize);
            }
            before = token.kind;
        }
    }
    found
}

fn location(view: &View, range: Range<usize>) -> Value {
    json!({ "uri": view.uri, "range": view.range(range) })
}

/// Where what stands at byte `offset` is defined.
pub(super) fn definition(view: &View, offset: usize, registry: &Registry) -> Value {
    let named = named(view, offset, registry);
    let place = named.and_then(|(named, _)| defined(view, &named));
    place.map_or(Value::Null, |place| location(view, place))
}

/// Where what stands at byte `offset` is used, and where it is defined where `declaration` is.
pub(super) fn references(
    view: &View,
    offset: usize,
    declaration: bool,
    registry: &Registry,
) -> Value {
    let Some((named, _)) = named(view, offset, registry) else { return Value::Null };
    let own = defined(view, &named);
    let places = occurrences(view, &named).into_iter();
    let places = places.filter(|place| declaration || Some(place) != own.as_ref());
    places.map(|place| location(view, place)).collect()
}

/// The same as highlights.
pub(super) fn highlights(view: &View, offset: usize, registry: &Registry) -> Value {
    let Some((named, _)) = named(view, offset, registry) else { return Value::Null };
    let own = defined(view, &named);
    let places = occurrences(view, &named).into_iter().map(|place| {
        // 2 is reading, 3 writing.
        let kind = if Some(&place) == own.as_ref() { 3 } else { 2 };
        json!({ "range": view.range(place), "kind": kind })
    });
    places.collect()
}

/// What would be renamed at byte `offset`.
///
/// # Errors
/// When nothing can be.
pub(super) fn prepare_rename(
    view: &View,
    offset: usize,
    registry: &Registry,
) -> Result<Value, Failure> {
    let (_, range) = renamed(view, offset, registry)?;
    let text = view.snapshot.text().get(range.clone()).unwrap_or("");
    let placeholder = text.trim_start_matches(['%', '@']);
    Ok(json!({ "range": view.range(range), "placeholder": placeholder }))
}

/// What stands at byte `offset`, where it has a definition here.
fn renamed(
    view: &View,
    offset: usize,
    registry: &Registry,
) -> Result<(Named, Range<usize>), Failure> {
    let found = named(view, offset, registry).filter(|(named, _)| defined(view, named).is_some());
    found.ok_or_else(|| refused("nothing that is defined in this document stands here".to_string()))
}

fn refused(message: String) -> Failure {
    Failure::new(REQUEST_FAILED, message)
}

/// Renames what stands at byte `offset` to `new`, with or without its sign.
///
/// # Errors
/// When it cannot be renamed, `new` is no name, or something else has that name.
pub(super) fn rename(
    view: &View,
    offset: usize,
    new: &str,
    registry: &Registry,
) -> Result<Value, Failure> {
    let (named, _) = renamed(view, offset, registry)?;
    let sign = match &named {
        Named::Variable(_) => "%",
        Named::Item(_) => "@",
        Named::Type(_) | Named::Constructor(..) => "",
    };
    let new = new.strip_prefix(sign).unwrap_or(new);
    let written = format!("{sign}{new}");
    let mut tokens = Lexer::new(&written);
    let (token, after) = (tokens.next_token(), tokens.next_token());
    let fits = match &named {
        Named::Variable(Variable { binder: Binder::Graph, .. }) => {
            let (kind, name) = (TokenKind::Graph, "a number, as for every graph binding");
            check(token.kind == kind, new, name)?;
            true
        }
        Named::Variable(_) => token.kind == TokenKind::Local,
        Named::Item(_) => token.kind == TokenKind::Global,
        Named::Type(_) | Named::Constructor(..) => token.kind == TokenKind::Identifier,
    };
    let whole = after.kind == TokenKind::End && token.end as usize == written.len();
    check(fits && whole, new, "a letter or `_`, then letters, digits and `_`")?;
    if let Some(what) = taken(view, &named, &token, &written, registry) {
        return Err(refused(format!("`{written}` is {what} already")));
    }
    let edits = occurrences(view, &named).into_iter();
    let edits = edits.map(|place| json!({ "range": view.range(place), "newText": written }));
    let edits: Vec<Value> = edits.collect();
    let mut changes = serde_json::Map::new();
    changes.insert(view.uri.clone(), edits.into());
    Ok(json!({ "changes": changes }))
}

fn check(holds: bool, name: &str, expected: &str) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(refused(format!("`{name}` is no name here; expected {expected}"))),
    }
}

/// What has the name that `token` is in `written`.
fn taken(
    view: &View,
    named: &Named,
    token: &Token,
    written: &str,
    registry: &Registry,
) -> Option<&'static str> {
    let name = Symbol::new(&token.name(written));
    let snapshot = &view.snapshot;
    match named {
        Named::Variable(variable) => {
            let piece = snapshot.piece_at(variable.name.start)?;
            let text = snapshot.text().get(piece)?;
            let mut tokens = Lexer::new(text);
            let used = |other: Token| {
                matches!(other.kind, TokenKind::Local | TokenKind::Graph)
                    && other.name(text) == name.as_str()
            };
            tokens.any(used).then_some("a variable of this function")
        }
        Named::Item(_) => {
            snapshot.kinds().iter().any(|(other, _)| *other == name).then_some("an item")
        }
        Named::Type(_) | Named::Constructor(..) => {
            if snapshot.kinds().iter().any(|(other, _)| *other == name) {
                Some("an item")
            } else if owner(view, name).is_some() {
                Some("a constructor")
            } else if operator(name.as_str(), registry).is_some() {
                Some("an operator")
            } else {
                super::tokens::relay_dtype(name.as_str()).then_some("a type")
            }
        }
    }
}
