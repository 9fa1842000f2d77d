//! Bodies as bytes, and back: row by row, so that what comes back is the same body, ids and all.
//!
//! Interned data goes by its contents. Bytes that no body was written as are an error, never a
//! panic.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rows::{BLOCK_ARGUMENT, BlockRow, Link, OpRow, RegionRow, TOMBSTONE, UseRow, ValueRow};
use super::{Binding, Body, NameHint};
use crate::attributes::AttrDict;
use crate::ids::{EntityId, OpId, RegionId, UseId, ValueId};
use crate::intern::Symbol;
use crate::location::{Loc, LocData};
use crate::text::attributes::{PrintOptions, generic_scope, parse_dict, write_dict};
use crate::text::cursor::Cursor;
use crate::text::layout::Line;
use crate::text::lexer::TokenKind;
use crate::text::types::parse_type;
use crate::types::Type;

/// Writes bodies. What several have in common is put into words once.
#[derive(Default, Debug)]
pub struct Encoder {
    types: FxHashMap<Type, Arc<str>>,
    dicts: FxHashMap<AttrDict, Arc<str>>,
}

/// Reads bodies. What several have in common is read once.
#[derive(Default, Debug)]
pub struct Decoder {
    types: FxHashMap<Arc<str>, Type>,
    dicts: FxHashMap<Arc<str>, AttrDict>,
}

/// The interned data of one body, each by the order in which it is first met.
#[derive(Default)]
struct Tables {
    symbols: Table<Symbol>,
    types: Table<Type>,
    dicts: Table<AttrDict>,
    locs: Table<Loc>,
}

struct Table<T> {
    numbers: FxHashMap<T, u64>,
    entries: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { numbers: FxHashMap::default(), entries: Vec::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Table<T> {
    fn number(&mut self, value: T) -> u64 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.entries.push(value);
            self.entries.len() as u64 - 1
        })
    }
}

/// Numbers of seven bits a byte, low ones first.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// An index, or nothing.
    fn index<I: EntityId>(&mut self, id: Option<I>) {
        self.number(id.map_or(0, |id| id.index() as u64 + 1));
    }
}

impl Encoder {
    /// Appends `body` to `out`; `false` where it has locations in files, which say where something
    /// stood in one run.
    pub fn body(&mut self, body: &Body, out: &mut Vec<u8>) -> bool {
        let (mut tables, mut rows) = (Tables::default(), Writer::default());
        rows.number(body.ops.len() as u64);
        for ((_, op), link) in body.ops.iter().zip(&body.links) {
            rows.number(tables.symbols.number(op.name));
            rows.number(tables.dicts.number(op.attrs));
            rows.number(tables.locs.number(op.loc));
            for number in [op.first_operand, op.first_result, op.arity] {
                rows.number(number.into());
            }
            rows.index(op.block);
            rows.number(op.regions.wrapping_add(1).into());
            rows.index(link.prev);
            rows.index(link.next);
            rows.number(link.order.into());
        }
        rows.number(body.values.len() as u64);
        for (_, value) in body.values.iter() {
            rows.number(tables.types.number(value.ty));
            rows.number(value.owner.rotate_left(1).into());
            rows.number(value.index.into());
            rows.index(value.first_use);
        }
        rows.number(body.uses.len() as u64);
        for (_, used) in body.uses.iter() {
            rows.index(used.value);
            rows.number(used.owner.index() as u64);
            rows.index(used.prev);
            rows.index(used.next);
        }
        rows.number(body.blocks.len() as u64);
        for (_, block) in body.blocks.iter() {
            rows.index(block.region);
            rows.number(block.args.len() as u64);
            block.args.iter().for_each(|value| rows.number(value.index() as u64));
            rows.index(block.first);
            rows.index(block.last);
        }
        rows.number(body.regions.len() as u64);
        for (_, region) in body.regions.iter() {
            rows.index(region.parent);
            rows.number(region.block.index() as u64);
        }
        rows.number(body.region_lists.len() as u64);
        for list in &body.region_lists {
            rows.number(list.len() as u64);
            list.iter().for_each(|region| rows.number(region.index() as u64));
        }
        rows.number(body.names.len() as u64);
        for hint in &body.names {
            rows.number(hint.name.map_or(0, |name| tables.symbols.number(name) + 1));
            rows.number(u64::from(hint.binding == Binding::Let));
        }
        let mut places: Vec<(u64, u64, Loc)> = Vec::new();
        let own = body.argument_locs.iter().map(|(value, loc)| (value.index() as u64, 0, *loc));
        places.extend(own);
        let arguments = places.len();
        let own = body.operand_locs.iter();
        places.extend(own.map(|((op, index), loc)| (op.index() as u64, u64::from(*index), *loc)));
        // Tables are in no order.
        places[..arguments].sort_unstable_by_key(|(a, b, _)| (*a, *b));
        places[arguments..].sort_unstable_by_key(|(a, b, _)| (*a, *b));
        for part in [&places[..arguments], &places[arguments..]] {
            rows.number(part.len() as u64);
            for (a, b, loc) in part {
                rows.number(*a);
                rows.number(*b);
                rows.number(tables.locs.number(*loc));
            }
        }
        rows.number(body.root.index() as u64);
        rows.number(body.live_ops as u64);
        rows.number(body.edits);
        let mut locs = Writer::default();
        if !write_locs(&mut tables, &mut locs) {
            return false;
        }
        let mut head = Writer(std::mem::take(out));
        head.number(tables.symbols.entries.len() as u64);
        tables.symbols.entries.iter().for_each(|symbol| head.text(symbol.as_str()));
        head.number(tables.types.entries.len() as u64);
        tables.types.entries.iter().for_each(|ty| head.text(self.type_text(*ty)));
        head.number(tables.dicts.entries.len() as u64);
        tables.dicts.entries.iter().for_each(|dict| head.text(self.dict_text(*dict)));
        head.0.extend_from_slice(&locs.0);
        head.0.extend_from_slice(&rows.0);
        *out = head.0;
        true
    }

    fn type_text(&mut self, ty: Type) -> &str {
        self.types.entry(ty).or_insert_with(|| ty.to_string().into())
    }

    fn dict_text(&mut self, dict: AttrDict) -> &str {
        self.dicts.entry(dict).or_insert_with(|| {
            let mut line = Line::default();
            write_dict(dict, None, &PrintOptions::complete(), &mut line);
            std::mem::take(line.text()).into()
        })
    }
}

const UNKNOWN: u64 = 0;
const OFFSET: u64 = 1;
const FUSED: u64 = 2;
const PASS: u64 = 3;
const IMPORTED: u64 = 4;

/// Writes the locations of `tables`, those inside of one before it, then the numbers of those that
/// rows name; `false` where one is a place of a file.
fn write_locs(tables: &mut Tables, out: &mut Writer) -> bool {
    let named = std::mem::take(&mut tables.locs).entries;
    let mut all: Table<Loc> = Table::default();
    let mut writer = Writer::default();
    let mut pending: Vec<Loc> = named.iter().rev().copied().collect();
    while let Some(&loc) = pending.last() {
        if all.numbers.contains_key(&loc) {
            pending.pop();
            continue;
        }
        let data = loc.data();
        let inner: &[Loc] = match &data {
            LocData::Fused(inner) => inner,
            LocData::Pass(_, inner) => std::slice::from_ref(inner),
            _ => &[],
        };
        let open = pending.len();
        pending.extend(inner.iter().filter(|loc| !all.numbers.contains_key(*loc)));
        if pending.len() > open {
            continue;
        }
        match &data {
            LocData::Unknown => writer.number(UNKNOWN),
            LocData::Offset(offset) => {
                writer.number(OFFSET);
                writer.number((*offset).into());
            }
            LocData::Span(_) => return false,
            LocData::Fused(inner) => {
                writer.number(FUSED);
                writer.number(inner.len() as u64);
                inner.iter().for_each(|loc| writer.number(all.number(*loc)));
            }
            LocData::Pass(pass, inner) => {
                writer.number(PASS);
                writer.number(tables.symbols.number(*pass));
                writer.number(all.number(*inner));
            }
            LocData::Imported(name) => {
                writer.number(IMPORTED);
                writer.number(tables.symbols.number(*name));
            }
        }
        all.number(loc);
        pending.pop();
    }
    out.number(all.entries.len() as u64);
    out.0.extend_from_slice(&writer.0);
    out.number(named.len() as u64);
    named.iter().for_each(|loc| out.number(all.number(*loc)));
    true
}

/// Reads numbers and texts; `None` where there are none.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// How many entries follow, each of which takes a byte at least.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// An index below `bound`.
    fn id<I: EntityId>(&mut self, bound: usize) -> Option<I> {
        let index = usize::try_from(self.number()?).ok()?;
        (index < bound).then(|| I::from_index(index))
    }

    /// An index below `bound`, or nothing.
    fn index<I: EntityId>(&mut self, bound: usize) -> Option<Option<I>> {
        match usize::try_from(self.number()?).ok()? {
            0 => Some(None),
            index => (index <= bound).then(|| Some(I::from_index(index - 1))),
        }
    }

    /// An entry of a table.
    fn of<T: Copy>(&mut self, table: &[T]) -> Option<T> {
        table.get(usize::try_from(self.number()?).ok()?).copied()
    }
}

/// How many rows of each kind there are.
struct Bounds {
    ops: usize,
    values: usize,
    uses: usize,
    blocks: usize,
    regions: usize,
}

impl Decoder {
    /// The body that `bytes` begin with, which are left at what follows it; `None` where it is
    /// none.
    pub fn body(&mut self, bytes: &mut &[u8]) -> Option<Body> {
        let mut reader = Reader(bytes);
        let body = self.read(&mut reader)?;
        *bytes = reader.0;
        Some(body)
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Option<Body> {
        let symbols: Vec<Symbol> =
            (0..reader.count()?).map(|_| reader.text().map(Symbol::new)).collect::<Option<_>>()?;
        let types: Vec<Type> = (0..reader.count()?)
            .map(|_| reader.text().and_then(|text| self.ty(text)))
            .collect::<Option<_>>()?;
        let dicts: Vec<AttrDict> = (0..reader.count()?)
            .map(|_| reader.text().and_then(|text| self.dict(text)))
            .collect::<Option<_>>()?;
        let locs = read_locs(reader, &symbols)?;
        let mut body = Body::new();
        body.ops = Default::default();
        body.blocks = Default::default();
        body.regions = Default::default();
        // Rows name each other, so that what they name is checked in the end.
        let any = u32::MAX as usize - 1;
        for _ in 0..reader.count()? {
            body.ops.alloc(OpRow {
                name: reader.of(&symbols)?,
                attrs: reader.of(&dicts)?,
                loc: reader.of(&locs)?,
                first_operand: reader.small()?,
                first_result: reader.small()?,
                arity: reader.small()?,
                block: reader.index(any)?,
                regions: reader.small()?.wrapping_sub(1),
            });
            let (prev, next) = (reader.index(any)?, reader.index(any)?);
            body.links.push(Link { prev, next, order: reader.small()? });
        }
        for _ in 0..reader.count()? {
            let (ty, owner) = (reader.of(&types)?, reader.small()?.rotate_right(1));
            let index = reader.small()?;
            body.values.alloc(ValueRow { ty, owner, index, first_use: reader.index(any)? });
        }
        for _ in 0..reader.count()? {
            let (value, owner) = (reader.index(any)?, reader.id(any)?);
            let (prev, next) = (reader.index(any)?, reader.index(any)?);
            body.uses.alloc(UseRow { value, owner, prev, next });
        }
        for _ in 0..reader.count()? {
            let region = reader.index(any)?;
            let args = (0..reader.count()?).map(|_| reader.id(any)).collect::<Option<_>>()?;
            let (first, last) = (reader.index(any)?, reader.index(any)?);
            body.blocks.alloc(BlockRow { region, args, first, last });
        }
        for _ in 0..reader.count()? {
            let (parent, block) = (reader.index(any)?, reader.id(any)?);
            body.regions.alloc(RegionRow { parent, block });
        }
        for _ in 0..reader.count()? {
            let list = (0..reader.count()?).map(|_| reader.id(any)).collect::<Option<_>>()?;
            body.region_lists.push(list);
        }
        for _ in 0..reader.count()? {
            let name = match reader.number()? {
                0 => None,
                number => Some(*symbols.get(usize::try_from(number - 1).ok()?)?),
            };
            let binding = if reader.number()? == 1 { Binding::Let } else { Binding::Graph };
            body.names.push(NameHint { name, binding });
        }
        for _ in 0..reader.count()? {
            let (value, _) = (reader.id::<ValueId>(body.values.len())?, reader.number()?);
            body.argument_locs.insert(value, reader.of(&locs)?);
        }
        for _ in 0..reader.count()? {
            let (op, index) = (reader.id::<OpId>(body.ops.len())?, reader.small()?);
            body.operand_locs.insert((op, index), reader.of(&locs)?);
        }
        body.root = reader.id(body.regions.len())?;
        body.live_ops = usize::try_from(reader.number()?).ok()?;
        body.edits = reader.number()?;
        let bounds = Bounds {
            ops: body.ops.len(),
            values: body.values.len(),
            uses: body.uses.len(),
            blocks: body.blocks.len(),
            regions: body.regions.len(),
        };
        bounds.fit(&body).then_some(body)
    }

    fn ty(&mut self, text: &str) -> Option<Type> {
        if let Some(ty) = self.types.get(text) {
            return Some(*ty);
        }
        let mut cursor = Cursor::new("", text);
        let ty = parse_type(&mut cursor, &mut generic_scope).ok()?;
        if !cursor.diagnostics.is_empty() || cursor.kind() != TokenKind::End {
            return None;
        }
        self.types.insert(text.into(), ty);
        Some(ty)
    }

    fn dict(&mut self, text: &str) -> Option<AttrDict> {
        if let Some(dict) = self.dicts.get(text) {
            return Some(*dict);
        }
        let mut cursor = Cursor::new("", text);
        let dict = parse_dict(&mut cursor).ok()?;
        if !cursor.diagnostics.is_empty() || cursor.kind() != TokenKind::End {
            return None;
        }
        self.dicts.insert(text.into(), dict);
        Some(dict)
    }
}

fn read_locs(reader: &mut Reader<'_>, symbols: &[Symbol]) -> Option<Vec<Loc>> {
    let mut all: Vec<Loc> = Vec::new();
    for _ in 0..reader.count()? {
        all.push(match reader.number()? {
            UNKNOWN => Loc::UNKNOWN,
            OFFSET => Loc::offset(reader.small()?),
            FUSED => {
                let inner: Vec<Loc> =
                    (0..reader.count()?).map(|_| reader.of(&all)).collect::<Option<_>>()?;
                Loc::new(LocData::Fused(inner.into()))
            }
            PASS => {
                let pass = reader.of(symbols)?;
                Loc::new(LocData::Pass(pass, reader.of(&all)?))
            }
            IMPORTED => Loc::new(LocData::Imported(reader.of(symbols)?)),
            _ => return None,
        });
    }
    (0..reader.count()?).map(|_| reader.of(&all)).collect()
}

impl Bounds {
    /// Whether all rows of `body` name rows that there are.
    fn fit(&self, body: &Body) -> bool {
        fn below<I: EntityId>(id: Option<I>, bound: usize) -> bool {
            id.is_none_or(|id| id.index() < bound)
        }
        let of_op = |op: &OpRow| {
            let (operands, results) = ((op.arity >> 8) as usize, (op.arity & 0xff) as usize);
            let fits = |first: u32, count: usize, bound: usize| {
                count == 0 || (first as usize).checked_add(count).is_some_and(|end| end <= bound)
            };
            let list = op.regions == TOMBSTONE || op.regions as usize <= body.region_lists.len();
            fits(op.first_operand, operands, self.uses)
                && fits(op.first_result, results, self.values)
                && below(op.block, self.blocks)
                && list
        };
        let of_link = |link: &Link| below(link.prev, self.ops) && below(link.next, self.ops);
        let of_value = |value: &ValueRow| {
            let owner = (value.owner & !BLOCK_ARGUMENT) as usize;
            let bound = if value.owner & BLOCK_ARGUMENT != 0 { self.blocks } else { self.ops };
            owner < bound && below::<UseId>(value.first_use, self.uses)
        };
        let of_use = |used: &UseRow| {
            below(used.value, self.values)
                && used.owner.index() < self.ops
                && below(used.prev, self.uses)
                && below(used.next, self.uses)
        };
        let of_block = |block: &BlockRow| {
            below::<RegionId>(block.region, self.regions)
                && block.args.iter().all(|value| value.index() < self.values)
                && below(block.first, self.ops)
                && below(block.last, self.ops)
        };
        let of_region = |region: &RegionRow| {
            below(region.parent, self.ops) && region.block.index() < self.blocks
        };
        let of_list =
            |list: &SmallVec<[RegionId; 2]>| list.iter().all(|r| r.index() < self.regions);
        body.ops.iter().all(|(_, op)| of_op(op))
            && body.links.iter().all(of_link)
            && body.values.iter().all(|(_, value)| of_value(value))
            && body.uses.iter().all(|(_, used)| of_use(used))
            && body.blocks.iter().all(|(_, block)| of_block(block))
            && body.regions.iter().all(|(_, region)| of_region(region))
            && body.region_lists.iter().all(of_list)
            && body.blocks.iter().all(|(_, block)| block.region.is_some())
    }
}
