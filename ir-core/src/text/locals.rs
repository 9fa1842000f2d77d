//! Values in readable text, `%x` and `%0`: their names as they are printed, and what they stand for
//! as they are read. A name is that of one value of the item.

use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cursor::{Cursor, Failed};
use super::lexer::{self, Token, TokenKind};
use crate::body::{Binding, Body, NameHint};
use crate::diagnostics::{Diagnostic, did_you_mean_with};
use crate::ids::{EntityId, ValueId};
use crate::intern::Symbol;
use crate::location::Span;

/// What stands behind a `%`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Local {
    /// `%x`
    Name(Symbol),
    /// `%0`
    Number(u32),
}

// ---- printing ----------------------------------------------------------------------------------

/// Names out of one space, with numbers behind those that are taken.
#[derive(Default, Debug)]
pub struct NameSpace {
    /// The names that are taken.
    pub taken: FxHashSet<Symbol>,
    /// The number to try next behind a name.
    pub next: FxHashMap<Symbol, u32>,
}

impl NameSpace {
    /// Takes `base`, or, where that is taken, `base` with the next number that makes a new name.
    pub fn give(&mut self, base: Symbol) -> Symbol {
        let mut name = base;
        if self.taken.contains(&base) {
            let number = self.next.entry(base).or_insert(1);
            while self.taken.contains(&name) {
                name = Symbol::new(&format!("{base}{number}"));
                *number += 1;
            }
        }
        self.taken.insert(name);
        name
    }
}

/// The names given out in one item: hints, made different from each other, and numbers.
#[derive(Debug)]
pub struct LocalNames {
    names: Vec<Option<Local>>,
    space: NameSpace,
    /// The next number.
    next: u32,
}

impl LocalNames {
    /// No names yet of the values of `body`.
    pub fn new(body: &Body) -> LocalNames {
        let names = vec![None; body.value_capacity()];
        LocalNames { names, space: NameSpace::default(), next: 0 }
    }

    /// Names `value`.
    pub fn define(&mut self, body: &Body, value: ValueId) {
        self.names[value.index()] = Some(match body.name_hint(value).name {
            Some(hint) => Local::Name(self.space.give(hint)),
            None => {
                self.next += 1;
                Local::Number(self.next - 1)
            }
        });
    }

    /// Appends `%` and the name of `value`; a name that says so where it has none yet.
    pub fn write(&self, value: ValueId, out: &mut String) {
        match self.names[value.index()] {
            None => out.push_str("%\"<defined elsewhere>\""),
            Some(Local::Name(name)) => {
                out.push('%');
                lexer::name_into(name.as_str(), out);
            }
            Some(Local::Number(number)) => {
                // Writing to a string does not fail.
                let _ = write!(out, "%{number}");
            }
        }
    }
}

// ---- reading -----------------------------------------------------------------------------------

/// Reads `%x` or `%0`, where a value is named.
pub fn parse_local(cursor: &mut Cursor<'_>) -> Result<(Local, Token), Failed> {
    let token = cursor.token();
    let name = token.name(cursor.source());
    let local = match token.kind {
        TokenKind::Local => Local::Name(Symbol::new(&name)),
        TokenKind::Graph => match name.parse() {
            Ok(number) => Local::Number(number),
            Err(_) => {
                let found = Diagnostic::error("E0116", "the number of a value is too large");
                let place = cursor.span_of(token);
                return Err(cursor.report(found.at(place)));
            }
        },
        _ => return Err(cursor.unexpected("a value such as `%x`")),
    };
    cursor.bump();
    Ok((local, token))
}

/// What the names of one item stand for.
#[derive(Default, Debug)]
pub struct Locals {
    /// By name, the value, and where it is defined; `None` for what could not be read.
    values: FxHashMap<Local, (Option<ValueId>, Span)>,
}

impl Locals {
    /// Reads a name; the value that it stands for, or `None` where that could not be read.
    pub fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<ValueId>, Failed> {
        let (local, token) = parse_local(cursor)?;
        if let Some((value, _)) = self.values.get(&local) {
            return Ok(*value);
        }
        let place = cursor.span_of(token);
        let message = format!("`{}` is not defined here", cursor.text_of(token));
        let mut found = Diagnostic::error("E0112", message).at(place);
        if let Local::Name(name) = local {
            let known = self.values.keys().filter_map(|known| match known {
                Local::Name(name) => Some(name.as_str()),
                Local::Number(_) => None,
            });
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            found.help = did_you_mean_with("%", name.as_str(), known);
        }
        cursor.report(found);
        // Each undefined name is reported once.
        self.values.insert(local, (None, place));
        Ok(None)
    }

    /// Makes `value`, one of `body`, what `local` stands for, which `token` is; without a value,
    /// because there was an error, only where it stands for nothing.
    pub fn define(
        &mut self,
        (local, token): (Local, Token),
        value: Option<ValueId>,
        body: &mut Body,
        cursor: &mut Cursor<'_>,
    ) {
        if let (Some(value), Local::Name(name)) = (value, local) {
            body.set_name_hint(value, NameHint { name: Some(name), binding: Binding::Graph });
        }
        let place = cursor.span_of(token);
        if value.is_none() && self.values.contains_key(&local) {
            return;
        }
        if let Some((Some(_), first)) = self.values.insert(local, (value, place)) {
            let message = format!("`{}` is defined twice", cursor.text_of(token));
            let found = Diagnostic::error("E0113", message).at(place);
            cursor.report(found.related(first, "the first definition"));
        }
    }
}
