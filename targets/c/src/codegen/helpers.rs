//! The small functions that generated code calls. Only those that are used get emitted, each after
//! those that it calls itself.

mod convert;
mod scalar;
mod vector;

use indexmap::IndexMap;
use ir_core::DType;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::expr::{Expr, literal};
use super::ranges::Range;
pub(super) use scalar::bool_choice;
pub(super) use vector::{Lane, Regroup};

/// An operand as text, and the numbers that it may be.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) expr: Expr,
    pub(super) range: Range,
}

impl Operand {
    /// Any number of `dtype`, called `name`.
    fn any(name: &str, dtype: DType) -> Operand {
        Operand { expr: Expr::atom(name), range: Range::of_type(dtype) }
    }
}

/// The types, functions and headers that a file needs.
#[derive(Default)]
pub(super) struct Helpers {
    types: IndexMap<String, String, FxBuildHasher>,
    functions: IndexMap<String, String, FxBuildHasher>,
    pub(super) math: bool,
    string: bool,
    atomic: bool,
    /// Whether there are GNU vectors, and with them instructions by name.
    has_vectors: bool,
}

/// Definitions of functions are written `T name(args) { body }` with this.
fn function(result: &str, name: &str, parameters: &str, body: &str) -> String {
    let body: String = body
        .trim_matches('\n')
        .lines()
        .map(|line| match line.starts_with('#') || line.is_empty() {
            true => format!("{line}\n"),
            false => format!("    {line}\n"),
        })
        .collect();
    format!("static inline {result} {name}({parameters})\n{{\n{body}}}\n")
}

/// The names and keywords of `text`, and all else that is like them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

impl Helpers {
    /// None yet, with GNU vectors or without.
    pub(super) fn new(has_vectors: bool) -> Helpers {
        Helpers { has_vectors, ..Helpers::default() }
    }

    /// Adds what `other` needs.
    pub(super) fn include(&mut self, other: &Helpers) {
        let Helpers { types, functions, math, string, atomic, has_vectors: _ } = other;
        for (name, definition) in types {
            self.types.entry(name.clone()).or_insert_with(|| definition.clone());
        }
        for (name, definition) in functions {
            self.functions.entry(name.clone()).or_insert_with(|| definition.clone());
        }
        self.math |= math;
        self.string |= string;
        self.atomic |= atomic;
    }

    /// The headers, types and functions as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let headers = [
            ("math.h", self.math),
            ("stdatomic.h", self.atomic),
            ("stdbool.h", true),
            ("stddef.h", true),
            ("stdint.h", true),
            ("string.h", self.string),
        ];
        for (name, _) in headers.iter().filter(|header| header.1) {
            text += &format!("#include <{name}>\n");
        }
        if !self.types.is_empty() {
            text += "\n";
        }
        self.types.values().for_each(|definition| text += definition);
        for definition in self.functions.values() {
            text += "\n";
            text += definition;
        }
        text
    }

    /// Makes sure that function `name` exists, with the definition that `make` writes.
    pub(super) fn define(
        &mut self,
        name: String,
        make: impl FnOnce(&mut Helpers, &str) -> String,
    ) -> String {
        if !self.functions.contains_key(&name) {
            let definition = make(self, &name);
            self.functions.insert(name.clone(), definition);
        }
        name
    }

    /// The function that asks for the line of the caches at so many bytes from an address. Nothing need be there.
    pub(super) fn fetch(&mut self) -> String {
        let body = "\
#if defined(__GNUC__)
__builtin_prefetch((const void *)((uintptr_t)base + (uintptr_t)offset));
#else
(void)base;
(void)offset;
#endif";
        self.define("fetch".to_string(), |_, name| {
            function("void", name, "const void *base, int64_t offset", body)
        })
    }

    /// Forgets the functions that neither `text` nor one that it calls calls: how a value is written depends on
    /// who takes it.
    pub(super) fn retain_called(&mut self, text: &str) {
        let all = std::mem::take(&mut self.functions);
        let named = |text: &str, called: &mut FxHashSet<usize>| {
            called.extend(words(text).filter_map(|word| all.get_index_of(word)));
        };
        let mut called = FxHashSet::default();
        named(text, &mut called);
        // Callers come after what they call.
        for (index, definition) in all.values().enumerate().rev() {
            if called.contains(&index) {
                named(definition, &mut called);
            }
        }
        let kept = all.iter().enumerate().filter(|(index, _)| called.contains(index));
        self.functions = kept.map(|(_, (name, text))| (name.clone(), text.clone())).collect();
    }

    /// A literal of `dtype`.
    pub(super) fn literal(&mut self, dtype: DType, number: ir_core::Scalar) -> Expr {
        let (expr, needs_math) = literal(dtype, number);
        self.math |= needs_math;
        expr
    }

    /// Adds a function written elsewhere.
    pub(super) fn add(&mut self, result: &str, name: &str, parameters: &str, body: &str) -> String {
        self.define(name.to_string(), |_, name| function(result, name, parameters, body))
    }

    /// Notes that `string.h` is needed.
    pub(super) fn needs_string(&mut self) {
        self.string = true;
    }
}
