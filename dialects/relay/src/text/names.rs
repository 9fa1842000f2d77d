//! Names of values in printed text: unique in a function, and the same after reading them back.

use ir_core::text::lexer::{is_plain_name, quote_into};
use ir_core::{Symbol, ValueId};
use rustc_hash::FxHashMap;

/// The names given out in one function.
#[derive(Default)]
pub(super) struct Names {
    given: FxHashMap<ValueId, Symbol>,
    /// The next number to try behind a name that is taken.
    taken: FxHashMap<Symbol, u32>,
}

impl Names {
    /// Gives `value` the name `base`, with a number behind it where that is taken.
    pub(super) fn give(&mut self, value: ValueId, base: Symbol) -> Symbol {
        let mut name = base;
        if let Some(mut number) = self.taken.get(&base).copied() {
            loop {
                name = Symbol::new(&format!("{base}{number}"));
                number += 1;
                if !self.taken.contains_key(&name) {
                    break;
                }
            }
            self.taken.insert(base, number);
        }
        self.taken.insert(name, 1);
        self.given.insert(value, name);
        name
    }

    /// Gives `value` the name that another value has.
    pub(super) fn share(&mut self, value: ValueId, name: Symbol) {
        self.given.insert(value, name);
    }

    /// The name of `value`.
    pub(super) fn get(&self, value: ValueId) -> Option<Symbol> {
        self.given.get(&value).copied()
    }
}

/// Appends `name` after `sigil`, in quotes where it needs them.
pub(super) fn write_name(out: &mut String, sigil: &str, name: Symbol) {
    out.push_str(sigil);
    if is_plain_name(name.as_str()) {
        out.push_str(name.as_str());
    } else {
        quote_into(name.as_str(), out);
    }
}

/// Appends a word such as the name of a type, in quotes where it needs them.
pub(super) fn write_word(out: &mut String, name: &str) {
    if ir_core::text::lexer::is_word(name) {
        out.push_str(name);
    } else {
        quote_into(name, out);
    }
}
