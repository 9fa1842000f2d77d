//! Source locations: four bytes per operation, relative to the item.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use hashbrown::Equivalent;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::intern::{Interner, Symbol};

/// Where an operation comes from.
///
/// A span is the byte offset of the operation's first token from the start of its item, so moving
/// an item in its file changes no location inside. Everything else is interned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Loc(u32);

const INTERNED: u32 = 1 << 31;

/// What a location is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LocData {
    /// Nothing is known.
    Unknown,
    /// Byte offset from the start of the enclosing item.
    Offset(u32),
    /// A span of a file, for what moved here from another item.
    Span(Span),
    /// Several sources merged into one.
    Fused(Box<[Loc]>),
    /// Made by a pass from something at the inner location.
    Pass(Symbol, Loc),
    /// The node `name` of an imported model.
    Imported(Symbol),
}

/// A range of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Path or title of the file, as given to [`SourceMap::add`].
    pub file: Symbol,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

struct Key<'a>(&'a LocData);

impl std::hash::Hash for Key<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<LocData> for Key<'_> {
    fn equivalent(&self, data: &LocData) -> bool {
        self.0 == data
    }
}

static LOCS: LazyLock<Interner<LocData>> = LazyLock::new(Interner::new);

impl Loc {
    /// Nothing is known.
    pub const UNKNOWN: Loc = Loc(0);

    /// The location described by `data`.
    pub fn new(data: LocData) -> Loc {
        match data {
            LocData::Unknown => Loc::UNKNOWN,
            LocData::Offset(offset) if offset < INTERNED - 1 => Loc(offset + 1),
            data => Loc(LOCS.intern(&Key(&data), || data.clone()).get() | INTERNED),
        }
    }

    /// Byte `offset` of the enclosing item.
    pub fn offset(offset: u32) -> Loc {
        Loc::new(LocData::Offset(offset))
    }

    /// What pass `name` made from something at this location.
    pub fn by_pass(self, name: impl Into<Symbol>) -> Loc {
        Loc::new(LocData::Pass(name.into(), self))
    }

    /// The merge of several locations; unknown ones and repeats are left out.
    pub fn fused(locs: impl IntoIterator<Item = Loc>) -> Loc {
        let mut known: Vec<Loc> = Vec::new();
        for loc in locs {
            if loc != Loc::UNKNOWN && !known.contains(&loc) {
                known.push(loc);
            }
        }
        match known.as_slice() {
            [] => Loc::UNKNOWN,
            [one] => *one,
            _ => Loc::new(LocData::Fused(known.into())),
        }
    }

    /// What this location is.
    pub fn data(self) -> LocData {
        match NonZeroU32::new(self.0 & !INTERNED) {
            None => LocData::Unknown,
            Some(id) if self.0 & INTERNED != 0 => LOCS.value(id).clone(),
            Some(offset) => LocData::Offset(offset.get() - 1),
        }
    }

    /// This location and all those inside it, each once, outer ones first.
    pub fn parts(self) -> Vec<Loc> {
        let mut parts = vec![self];
        let mut seen: FxHashSet<Loc> = FxHashSet::from_iter([self]);
        let mut at = 0;
        while let Some(loc) = parts.get(at) {
            at += 1;
            match loc.data() {
                LocData::Fused(inner) => {
                    parts.extend(inner.iter().filter(|loc| seen.insert(**loc)))
                }
                LocData::Pass(_, inner) if seen.insert(inner) => parts.push(inner),
                _ => {}
            }
        }
        parts
    }

    /// Whether a place in a source, or a node of a model, is known.
    pub fn has_source(self) -> bool {
        let is_source = |part: &Loc| {
            matches!(part.data(), LocData::Offset(_) | LocData::Span(_) | LocData::Imported(_))
        };
        self.parts().iter().any(is_source)
    }

    /// The same place, for use in another item than `base`, the start of this location's item.
    pub fn outside(self, base: Option<Span>) -> Loc {
        let at = |offset: u32| {
            let Span { file, start, .. } = base?;
            let start = start + offset;
            Some(Loc::new(LocData::Span(Span { file, start, end: start })))
        };
        match self.data() {
            LocData::Offset(offset) => return at(offset).unwrap_or_default(),
            LocData::Unknown | LocData::Span(_) | LocData::Imported(_) => return self,
            LocData::Fused(_) | LocData::Pass(..) => {}
        }
        let mut moved: FxHashMap<Loc, Loc> = FxHashMap::default();
        // A location is moved after those inside it.
        let mut pending = vec![self];
        while let Some(&loc) = pending.last() {
            let open = pending.len();
            let data = loc.data();
            let inner: &[Loc] = match &data {
                LocData::Fused(inner) => inner,
                LocData::Pass(_, inner) => std::slice::from_ref(inner),
                _ => &[],
            };
            pending.extend(inner.iter().filter(|loc| !moved.contains_key(*loc)));
            if pending.len() > open {
                continue;
            }
            let new = match &data {
                LocData::Offset(offset) => at(*offset).unwrap_or_default(),
                LocData::Fused(inner) => Loc::fused(inner.iter().map(|loc| moved[loc])),
                LocData::Pass(pass, inner) => moved[inner].by_pass(*pass),
                LocData::Unknown | LocData::Span(_) | LocData::Imported(_) => loc,
            };
            moved.insert(loc, new);
            pending.pop();
        }
        moved[&self]
    }

    /// The first source position behind this location, where there is one. `base` is the start of
    /// the enclosing item.
    pub fn span(self, base: Option<Span>) -> Option<Span> {
        let mut pending = vec![self];
        while let Some(loc) = pending.pop() {
            match loc.data() {
                LocData::Unknown | LocData::Imported(_) => {}
                LocData::Span(span) => return Some(span),
                LocData::Offset(offset) => {
                    if let Some(base) = base {
                        let start = base.start + offset;
                        return Some(Span { start, end: start, ..base });
                    }
                }
                LocData::Fused(locs) => pending.extend(locs.iter().rev()),
                LocData::Pass(_, inner) => pending.push(inner),
            }
        }
        None
    }
}

impl fmt::Debug for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.data(), f)
    }
}

/// The texts that spans point into.
#[derive(Clone, Default, Debug)]
pub struct SourceMap {
    files: indexmap::IndexMap<Symbol, Arc<str>, rustc_hash::FxBuildHasher>,
}

impl SourceMap {
    /// Adds or replaces the text of `file`.
    pub fn add(&mut self, file: impl Into<Symbol>, text: impl Into<Arc<str>>) -> Symbol {
        let file = file.into();
        self.files.insert(file, text.into());
        file
    }

    /// Adds the files of `others` that are not here yet.
    pub fn extend(&mut self, others: &SourceMap) {
        for (file, text) in others.files() {
            self.files.entry(file).or_insert_with(|| text.clone());
        }
    }

    /// All files and their texts, in the order of adding.
    pub fn files(&self) -> impl Iterator<Item = (Symbol, &Arc<str>)> {
        self.files.iter().map(|(file, text)| (*file, text))
    }

    /// The text of `file`.
    pub fn text(&self, file: Symbol) -> Option<&Arc<str>> {
        self.files.get(&file)
    }

    /// Line and column of byte `offset` of `file`, both from 1; the column counts characters.
    pub fn line_column(&self, file: Symbol, offset: u32) -> Option<(usize, usize)> {
        let text = self.files.get(&file)?;
        let before = text.get(..(offset as usize).min(text.len()))?;
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
    }
}

impl SourceMap {
    /// For many questions about lines and columns: each text is read once.
    pub fn columns(&self) -> Columns<'_> {
        Columns { sources: self, starts: Default::default() }
    }
}

/// Where the lines of texts begin.
pub struct Columns<'a> {
    sources: &'a SourceMap,
    starts: indexmap::IndexMap<Symbol, Vec<u32>, rustc_hash::FxBuildHasher>,
}

impl Columns<'_> {
    /// As [`SourceMap::line_column`].
    pub fn line_column(&mut self, file: Symbol, offset: u32) -> Option<(usize, usize)> {
        let text = self.sources.text(file)?;
        let starts = self.starts.entry(file).or_insert_with(|| {
            let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(ends.map(|(place, _)| place as u32 + 1)).collect()
        });
        let line = starts.partition_point(|start| *start <= offset);
        let start = starts[line.checked_sub(1)?] as usize;
        let before = text.get(start..(offset as usize).min(text.len()))?;
        Some((line, before.chars().count() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_to_another_item_keeps_its_places() {
        let base = Span { file: "f".into(), start: 10, end: 90 };
        let loc = Loc::fused([Loc::offset(1).by_pass("a"), Loc::offset(2)]).by_pass("b");
        let moved = loc.outside(Some(base));
        let starts: Vec<u32> =
            moved.parts().iter().filter_map(|part| Some(part.span(None)?.start)).collect();
        assert!(moved.has_source() && starts.contains(&11) && starts.contains(&12));
        assert!(!loc.outside(None).has_source());
        assert_eq!(moved.outside(None), moved);
    }
}
