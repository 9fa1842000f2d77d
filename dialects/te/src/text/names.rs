//! Names of values in printed text: unique where they are in scope, and the same after reading
//! them back.

use std::fmt::Write;

use ir_core::text::lexer;
use ir_core::text::locals::{LocalNames, NameSpace};
use ir_core::{Body, EntityId, Symbol, ValueId};

use super::operators::is_plain_word;
use crate::compute::Stage;

/// How a value is referred to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// `%x`, `%0`
    Local,
    /// `i`
    Word(Symbol),
    /// The only result of a stage, `dense`.
    Stage(Symbol),
    /// One of several results of a stage, `best.0`.
    StageResult(Symbol, u32),
}

/// An index that leaves its scope.
struct Undo {
    name: Symbol,
    base: Symbol,
    /// The number behind `base` before.
    next: Option<u32>,
}

/// The names given out in one item.
pub(super) struct Names {
    names: Vec<Name>,
    locals: LocalNames,
    words: NameSpace,
    indices: Vec<Undo>,
}

/// Names of indices without a hint.
const LETTERS: [&str; 8] = ["i", "j", "k", "l", "m", "n", "o", "p"];

impl Names {
    /// No names yet. Those of the stages of `body` are kept free.
    pub(super) fn new(body: &Body) -> Names {
        let mut words = NameSpace::default();
        let stages = body.walk().filter_map(|op| Stage::of(body, op));
        words.taken = stages.map(|stage| Symbol::new(&stage.name)).collect();
        let names = vec![Name::Local; body.value_capacity()];
        Names { names, locals: LocalNames::new(body), words, indices: Vec::new() }
    }

    /// Names a value that is written with a `%`.
    pub(super) fn define_local(&mut self, body: &Body, value: ValueId) {
        self.locals.define(body, value);
    }

    /// Names the results of the stage `name`.
    pub(super) fn define_stage(&mut self, name: &str, results: &[ValueId]) {
        let name = Symbol::new(name);
        for (index, result) in results.iter().enumerate() {
            self.names[result.index()] = match results.len() {
                1 => Name::Stage(name),
                _ => Name::StageResult(name, index as u32),
            };
        }
    }

    /// Names the index of a loop, until [`close`](Names::close).
    pub(super) fn define_index(&mut self, body: &Body, value: ValueId) {
        let mut letters = LETTERS.iter().map(|letter| Symbol::new(letter));
        let free = letters.find(|letter| !self.words.taken.contains(letter));
        self.define_word(body, value, free.unwrap_or_else(|| Symbol::new("i")));
    }

    /// Names an index that is called `default` where nothing else is known of it.
    pub(super) fn define_word(&mut self, body: &Body, value: ValueId, default: Symbol) {
        let base = body.name_hint(value).name.and_then(as_word).unwrap_or(default);
        let next = self.words.next.get(&base).copied();
        let name = self.words.give(base);
        self.indices.push(Undo { name, base, next });
        self.names[value.index()] = Name::Word(name);
    }

    /// The scope that is open.
    pub(super) fn scope(&self) -> usize {
        self.indices.len()
    }

    /// Forgets the indices that were named since `scope` was open.
    pub(super) fn close(&mut self, scope: usize) {
        while self.indices.len() > scope
            && let Some(Undo { name, base, next }) = self.indices.pop()
        {
            self.words.taken.remove(&name);
            match next {
                Some(next) => self.words.next.insert(base, next),
                None => self.words.next.remove(&base),
            };
        }
    }

    /// Appends the name of `value`.
    pub(super) fn write(&self, value: ValueId, out: &mut String) {
        match self.names[value.index()] {
            Name::Local => self.locals.write(value, out),
            Name::Word(name) => out.push_str(name.as_str()),
            Name::Stage(name) => write_word(name.as_str(), out),
            Name::StageResult(name, index) => {
                write_word(name.as_str(), out);
                // Writing to a string does not fail.
                let _ = write!(out, ".{index}");
            }
        }
    }
}

/// `name` with underscores for what no word has; `None` where that is a word of the language.
fn as_word(name: Symbol) -> Option<Symbol> {
    if is_plain_word(name.as_str()) {
        return Some(name);
    }
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let word: String = name.as_str().chars().map(letter).collect();
    is_plain_word(&word).then(|| Symbol::new(&word))
}

/// Appends the name of a stage, in quotes where it needs them.
pub(super) fn write_word(name: &str, out: &mut String) {
    match is_plain_word(name) {
        true => out.push_str(name),
        false => lexer::quote_into(name, out),
    }
}
