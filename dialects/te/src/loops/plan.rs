//! Where buffers lie in memory.

use std::collections::{BTreeMap, BTreeSet};

use ir_core::{Body, OpId, ValueId};
use rustc_hash::FxHashMap;

use super::{Alloc, Scope};

/// Buffers in the memory of a processor start at multiples of this many bytes: a cache line, and the
/// widest vector.
pub const ALIGNMENT: i64 = 64;

/// What a plan comes to, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryPlan {
    /// What the buffers take together, as placed.
    pub planned: i64,
    /// What they would take if none shared memory with another.
    pub sum: i64,
    /// The most that is live at once: no plan takes less.
    pub lower_bound: i64,
}

/// Gives every global buffer that the entry block of `body` allocates an offset in one workspace.
/// Buffers share memory where one is last used before the other is first used. Each gets the
/// smallest gap that it fits in, in program order: at most `n log n` steps for `n` buffers. They start
/// at multiples of `alignment` bytes. Errors where the sum of their sizes is no number.
pub fn plan_memory(body: &mut Body, alignment: i64) -> Result<MemoryPlan, String> {
    let entry = body.entry();
    let ops: Vec<OpId> = body.block_ops(entry).collect();
    let mut sizes: FxHashMap<ValueId, (OpId, i64)> = FxHashMap::default();
    for &op in &ops {
        let Some(alloc) = body.view::<Alloc>(op).filter(|alloc| alloc.scope == Scope::Global)
        else {
            continue;
        };
        let bytes = ir_core::tensor::tensor_bytes(&alloc.shape, alloc.dtype);
        let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok()).and_then(|bytes| {
            Some(bytes.max(1).checked_add(alignment - 1)? / alignment * alignment)
        });
        let Some(bytes) = bytes else {
            return Err(format!("a buffer of shape {:?} is too large", alloc.shape));
        };
        sizes.insert(body.result(op, 0), (op, bytes));
    }
    // By operation of the entry block, the buffers that it is the first or the last to use.
    let mut begin: FxHashMap<OpId, Vec<ValueId>> = FxHashMap::default();
    let mut end: FxHashMap<OpId, Vec<ValueId>> = FxHashMap::default();
    for &op in &ops {
        for value in body.results(op) {
            if !sizes.contains_key(&value) {
                continue;
            }
            let users = body.uses(value).filter_map(|(user, _)| body.ancestor_in(user, entry));
            let users: Vec<OpId> = users.collect();
            let first =
                users.iter().copied().reduce(|a, b| if body.is_before(b, a) { b } else { a });
            let last =
                users.iter().copied().reduce(|a, b| if body.is_before(a, b) { b } else { a });
            if let (Some(first), Some(last)) = (first, last) {
                begin.entry(first).or_default().push(value);
                end.entry(last).or_default().push(value);
            }
        }
    }

    let mut plan = MemoryPlan::default();
    let mut memory = Memory::default();
    let mut offsets: FxHashMap<ValueId, i64> = FxHashMap::default();
    let mut live = 0i64;
    for &op in &ops {
        for value in begin.remove(&op).unwrap_or_default() {
            let bytes = sizes[&value].1;
            live = live.saturating_add(bytes);
            plan.sum = plan.sum.checked_add(bytes).ok_or("the buffers are too large together")?;
            offsets.insert(value, memory.take(bytes));
        }
        plan.lower_bound = plan.lower_bound.max(live);
        for value in end.remove(&op).unwrap_or_default() {
            let bytes = sizes[&value].1;
            live -= bytes;
            memory.give(offsets[&value], bytes);
        }
    }
    plan.planned = memory.end;
    for (value, (op, _)) in sizes {
        let mut alloc: Alloc = body.view(op).expect("buffers that are planned are allocated");
        // What nothing uses needs no place of its own.
        alloc.offset = Some(offsets.get(&value).copied().unwrap_or(0));
        let attrs = <Alloc as ir_core::OpFields<ValueId>>::attrs(&alloc);
        body.set_attrs(op, attrs);
    }
    Ok(plan)
}

/// The free gaps of a workspace, and where it ends.
#[derive(Default)]
struct Memory {
    /// Bytes by offset.
    gaps: BTreeMap<i64, i64>,
    /// Bytes and offset of each.
    sizes: BTreeSet<(i64, i64)>,
    end: i64,
}

impl Memory {
    /// Takes `bytes` from the smallest gap that has them, or from the end.
    fn take(&mut self, bytes: i64) -> i64 {
        if let Some(&(size, offset)) = self.sizes.range((bytes, 0)..).next() {
            self.close(offset);
            if size > bytes {
                self.open(offset + bytes, size - bytes);
            }
            return offset;
        }
        // A gap at the end grows.
        let last = self.gaps.last_key_value().map(|(offset, size)| (*offset, *size));
        let offset = match last {
            Some((offset, size)) if offset + size == self.end => {
                self.close(offset);
                offset
            }
            _ => self.end,
        };
        self.end = offset + bytes;
        offset
    }

    fn give(&mut self, offset: i64, bytes: i64) {
        let (mut offset, mut bytes) = (offset, bytes);
        if let Some(size) = self.close(offset + bytes) {
            bytes += size;
        }
        if let Some((&before, &size)) = self.gaps.range(..offset).next_back()
            && before + size == offset
        {
            self.close(before);
            (offset, bytes) = (before, bytes + size);
        }
        self.open(offset, bytes);
    }

    fn open(&mut self, offset: i64, bytes: i64) {
        self.gaps.insert(offset, bytes);
        self.sizes.insert((bytes, offset));
    }

    /// The bytes of the gap at `offset`, if there is one.
    fn close(&mut self, offset: i64) -> Option<i64> {
        let bytes = self.gaps.remove(&offset)?;
        self.sizes.remove(&(bytes, offset));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use ir_core::{DType, InsertPoint, OpFields, OpParts, Symbol, Type};

    use super::*;
    use crate::loops::Call;

    /// A chain of calls, each from one buffer into the next.
    fn chain(sizes: &[i64]) -> Body {
        let mut body = Body::new();
        let entry = body.entry();
        let mut buffers = Vec::new();
        for &size in sizes {
            let alloc =
                Alloc { shape: vec![size], dtype: DType::INT8, scope: Scope::Global, offset: None };
            let types = [Type::tensor([size], DType::INT8)];
            let attrs = <Alloc as OpFields<ValueId>>::attrs(&alloc);
            let name = <Alloc as OpFields<ValueId>>::NAME;
            let op = body
                .insert_op(InsertPoint::End(entry), OpParts::new(name, &[], &types).attrs(attrs));
            buffers.push(body.result(op, 0));
        }
        for pair in buffers.windows(2) {
            let call = Call::new(Symbol::new("copy"), pair.to_vec());
            let operands = call.operands();
            let parts = OpParts::new(Call::<ValueId>::NAME, &operands, &[]).attrs(call.attrs());
            body.insert_op(InsertPoint::End(entry), parts);
        }
        body
    }

    #[test]
    fn a_chain_takes_two_buffers() {
        let mut body = chain(&[64; 100]);
        let plan = plan_memory(&mut body, ALIGNMENT).unwrap();
        assert_eq!(plan, MemoryPlan { planned: 128, sum: 6400, lower_bound: 128 });
    }

    #[test]
    fn what_is_live_together_does_not_overlap() {
        let sizes: Vec<i64> = (0..200).map(|i| 64 * (1 + (i * 37) % 11)).collect();
        let mut body = chain(&sizes);
        let plan = plan_memory(&mut body, ALIGNMENT).unwrap();
        let places: Vec<(i64, i64)> = body
            .walk()
            .filter_map(|op| body.view::<Alloc>(op))
            .map(|alloc| (alloc.offset.unwrap(), alloc.shape[0]))
            .collect();
        for pair in places.windows(2) {
            let [(a, a_size), (b, b_size)] = pair else { continue };
            assert!(a + a_size <= *b || b + b_size <= *a, "{pair:?}");
        }
        assert!(plan.lower_bound <= plan.planned && plan.planned <= plan.sum);
        assert!(places.iter().all(|(offset, size)| offset + size <= plan.planned));
    }
}
