//! Square tiles that are written in rows and read in columns: they are transposed in registers between both,
//! so that columns are vectors in memory as well.

use ir_core::{Body, DType, DTypeKind, OpId, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use te::compute::Load;
use te::loops::{Alloc, For, Store};

use super::affine::{Affine, Linear};
use super::expr::{computed, is_odd, stored_bits, type_of};
use super::kernel::{Buffer, Emitter};
use super::ranges::Ranges;
use super::values::{Repr, Vector};

/// Tiles have at most so many rows and columns: as many registers as hold them are there.
const MOST_LANES: i64 = 16;

/// The tiles of a kernel.
#[derive(Default)]
pub(super) struct Transposes {
    /// The loops over columns, with the tiles that are transposed before them.
    loops: FxHashMap<OpId, Vec<Tile>>,
    /// The loads of columns, with their number of rows.
    loads: FxHashMap<OpId, i64>,
    /// Tiles of which a part is written.
    partial: FxHashSet<ValueId>,
}

#[derive(Clone, Copy)]
struct Tile {
    buffer: ValueId,
    element: DType,
    width: i64,
}

impl Transposes {
    /// Those of `body`, on a machine with vectors of so many bits.
    pub(super) fn of(
        body: &Body,
        affine: &Affine,
        ranges: &Ranges,
        vector_bits: usize,
    ) -> Transposes {
        let mut found = Transposes::default();
        for op in body.walk() {
            let Some(alloc) = body.view::<Alloc>(op) else { continue };
            let element = alloc.dtype;
            let kinds = [DTypeKind::Float, DTypeKind::Int, DTypeKind::UInt];
            // Stored as they are computed with, and no indices, which are better off as text.
            let is_plain = kinds.contains(&element.kind())
                && !element.is_bool()
                && !is_odd(element)
                && computed(element) == element
                && !(element.is_integer() && element.bits() == 64);
            let most = (vector_bits / stored_bits(element)) as i64;
            let width = most.min(MOST_LANES);
            if !is_plain || width < 2 || !is_square(&alloc.shape, width) {
                continue;
            }
            let tile = Tile { buffer: body.result(op, 0), element, width };
            found.add(body, affine, ranges, tile, &alloc.shape);
        }
        found
    }

    /// Adds `tile`, of `shape`, where one loop alone reads it, by columns.
    fn add(&mut self, body: &Body, affine: &Affine, ranges: &Ranges, tile: Tile, shape: &[i64]) {
        let (mut around, mut loads, mut stores) = (None, Vec::new(), Vec::new());
        let mut rows = FxHashSet::default();
        for (user, _) in body.uses(tile.buffer) {
            if body.is::<Store>(user) {
                stores.push(user);
                continue;
            }
            let Some(load) = body.view::<Load>(user) else { return };
            let Some(place) = affine.address(body, ranges, shape, &load.indices) else { return };
            let (index, of_loop) = match (&place.terms[..], enclosing(body, user)) {
                ([(index, 1)], Some(of_loop)) => (*index, of_loop),
                _ => return,
            };
            let lanes = type_of(body, body.result(user, 0)).lanes();
            let step = if lanes == 1 { 0 } else { tile.width };
            let is_column = place.step == step && place.constant % tile.width == 0;
            let is_index = body.block_args(body.region_block(of_loop, 0)).first() == Some(&index);
            if !is_column || !is_index || *around.get_or_insert(of_loop) != of_loop {
                return;
            }
            loads.push(user);
            let first = place.constant / tile.width;
            rows.extend(first..first + i64::from(lanes));
        }
        let Some(around) = around else { return };
        let Some(view) = body.view::<For>(around) else { return };
        // Written before the loop.
        let is_inside = |op: &OpId| {
            std::iter::successors(Some(*op), |op| enclosing(body, *op)).any(|op| op == around)
        };
        // The loop runs once for each tile, which is not written again afterwards to be read.
        let of_tile = body.defining_op(tile.buffer).map(|alloc| body.op_block(alloc));
        let is_once = of_tile == Some(body.op_block(around));
        let fits = view.limit.is_none() && (2..=tile.width).contains(&view.extent);
        if !fits || !is_once || stores.iter().any(is_inside) {
            return;
        }
        // What is read was written.
        if view.extent < tile.width || (rows.len() as i64) < tile.width {
            self.partial.insert(tile.buffer);
        }
        self.loads.extend(loads.into_iter().map(|load| (load, tile.width)));
        self.loops.entry(around).or_default().push(tile);
    }

    /// Whether the buffer `buffer` is a tile, elements of which may be read that nobody wrote.
    pub(super) fn may_be_partial(&self, buffer: ValueId) -> bool {
        self.partial.contains(&buffer)
    }
}

fn is_square(shape: &[i64], width: i64) -> bool {
    shape.iter().product::<i64>() == width * width && shape.last() == Some(&width)
}

/// The loop or branch around `op`.
fn enclosing(body: &Body, op: OpId) -> Option<OpId> {
    body.op_block(op).and_then(|block| body.parent_op(body.region_of(block)))
}

impl Emitter<'_> {
    /// Transposes the tiles that the loop `op` reads by columns.
    pub(super) fn transpose_before(&mut self, op: OpId) {
        for tile in self.transposes.loops.get(&op).cloned().unwrap_or_default() {
            if let Some(Buffer::Array { name, .. }) = self.buffers.get(&tile.buffer).cloned() {
                let function = self.helpers.transpose(tile.element, tile.width as usize);
                self.line(&format!("{function}({name});"));
            }
        }
    }

    /// The part of a column that `load` reads of a tile which is transposed; `None` of others.
    pub(super) fn load_transposed(
        &mut self,
        load: OpId,
        place: &Linear,
        buffer: &Buffer,
    ) -> Option<Repr> {
        let width = *self.transposes.loads.get(&load)?;
        let terms = place.terms.iter().map(|(value, _)| (*value, width)).collect();
        let dtype = self.dtype(self.body.result(load, 0));
        let step = i64::from(dtype.lanes() > 1);
        let row = Linear { terms, step, constant: place.constant / width };
        if dtype.lanes() == 1 {
            return Some(Repr::Scalar(self.element(buffer, &row, dtype)));
        }
        let (elem, lanes) = self.natural(dtype);
        let mut pieces = Vec::new();
        for piece in 0..dtype.lanes() as usize / lanes {
            let address = self.address(buffer, &row, piece * lanes);
            pieces.push(self.helpers.load_vector(dtype, lanes, &address));
        }
        Some(Repr::Vector(Vector { elem, lanes, pieces }))
    }
}
