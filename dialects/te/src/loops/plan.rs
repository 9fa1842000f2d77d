//! Where buffers lie in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ir_core::{Body, OpFields, OpId, ValueId};
use rustc_hash::FxHashMap;

use super::{Alloc, Scope};

/// Buffers in the memory of a processor start at multiples of this many bytes: a cache line, and the
/// widest vector.
pub const ALIGNMENT: i64 = 64;

/// Of more buffers, the largest are not placed first, which takes a number of steps that is quadratic in theirs.
const MOST_BUFFERS: usize = 8192;

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
/// smallest gap that it fits in, in program order: at most `n log n` steps for `n` buffers. Where that
/// takes more than is live at once, and less is taken when the largest are placed first, or those that are large for long,
/// these are, in a number of steps that is quadratic in that of up to 8,192 buffers. Buffers start
/// at multiples of `alignment` bytes. Errors where the sum of their sizes is no number.
pub fn plan_memory(body: &mut Body, alignment: i64) -> Result<MemoryPlan, String> {
    let (buffers, unused) = buffers(body, alignment)?;
    let sum = buffers.iter().try_fold(0i64, |sum, buffer| sum.checked_add(buffer.bytes));
    let sum = sum.ok_or("the buffers are too large together")?;
    let (mut places, lower_bound) = in_program_order(&buffers);
    if places.end > lower_bound && buffers.len() <= MOST_BUFFERS {
        let others = best_order(&buffers);
        if others.end < places.end {
            places = others;
        }
    }
    let placed = buffers.iter().map(|buffer| buffer.op).zip(places.offsets);
    // What nothing uses needs no place of its own.
    for (op, offset) in placed.chain(unused.into_iter().map(|op| (op, 0))) {
        let mut alloc: Alloc = body.view(op).expect("buffers that are planned are allocated");
        alloc.offset = Some(offset);
        body.set_attrs(op, OpFields::<ValueId>::attrs(&alloc));
    }
    Ok(MemoryPlan { planned: places.end, sum, lower_bound })
}

/// Where buffers lie in a workspace, and what operations need for themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrangement {
    /// Of what an operation allocates, or needs while it runs: where that begins, in bytes.
    pub offsets: FxHashMap<OpId, i64>,
    /// Where all of it ends.
    pub end: i64,
}

/// Arranges the buffers of the entry block of `body`, which have [places](plan_memory), beside what its operations need
/// for themselves while they run, as many bytes as `needed` says. That lies in the smallest gap between the buffers that
/// live then, or behind them; where less is taken when all are placed in program order, or the largest first, buffers move.
/// `None` where nothing is needed, other blocks have buffers with places, there are too many, or the sum of their sizes is
/// no number. A number of steps that is quadratic in that of buffers and operations.
pub fn arrange(body: &Body, alignment: i64, needed: impl Fn(OpId) -> i64) -> Option<Arrangement> {
    let entry = body.entry();
    let offset_of = |op: OpId| body.view::<Alloc>(op).and_then(|alloc| alloc.offset);
    let mut planned = body.walk().filter(|op| offset_of(*op).is_some());
    if planned.any(|op| body.op_block(op) != Some(entry)) {
        return None;
    }
    let (buffers, _) = buffers(body, alignment).ok()?;
    let own = |(number, op): (usize, OpId)| {
        let bytes = needed(op);
        (bytes > 0).then_some(Buffer { op, bytes, first: number, last: number })
    };
    let own: Vec<Buffer> = body.block_ops(entry).enumerate().filter_map(own).collect();
    if own.is_empty() || buffers.len() + own.len() > MOST_BUFFERS {
        return None;
    }
    let placed = buffers.iter().map(|buffer| Some((offset_of(buffer.op)?, buffer)));
    let mut placed: Vec<(i64, &Buffer)> = placed.collect::<Option<_>>()?;
    placed.sort_by_key(|(offset, _)| *offset);
    let mut offsets: FxHashMap<OpId, i64> =
        placed.iter().map(|(offset, buffer)| (buffer.op, *offset)).collect();
    let mut end = placed.iter().map(|(offset, buffer)| buffer.end(*offset)).max().unwrap_or(0);
    for one in &own {
        let offset = one.smallest_gap(placed.iter().copied());
        offsets.insert(one.op, offset);
        end = end.max(one.end(offset));
    }
    let mut all: Vec<Buffer> = buffers.into_iter().chain(own).collect();
    all.iter().try_fold(0i64, |sum, buffer| sum.checked_add(buffer.bytes))?;
    all.sort_by_key(|buffer| buffer.first);
    for moved in [in_program_order(&all).0, best_order(&all)] {
        if moved.end < end {
            offsets = all.iter().map(|buffer| buffer.op).zip(moved.offsets).collect();
            end = moved.end;
        }
    }
    Some(Arrangement { offsets, end })
}

/// A buffer, and the operations of the entry block, by number, that are the first and the last to use it.
struct Buffer {
    /// What allocates or needs it.
    op: OpId,
    bytes: i64,
    first: usize,
    last: usize,
}

impl Buffer {
    /// Where it ends if it begins at `offset`.
    fn end(&self, offset: i64) -> i64 {
        offset.saturating_add(self.bytes)
    }

    /// Where it fits best between those of `placed` that live when it does, in the order of their offsets, or behind them.
    fn smallest_gap<'b>(&self, placed: impl Iterator<Item = (i64, &'b Buffer)>) -> i64 {
        let (mut gap, mut end) = (None::<(i64, i64)>, 0i64);
        for (offset, other) in placed {
            if other.last < self.first || self.last < other.first {
                continue;
            }
            let size = offset - end;
            if size >= self.bytes && gap.is_none_or(|(least, _)| size < least) {
                gap = Some((size, end));
            }
            end = end.max(other.end(offset));
        }
        gap.map_or(end, |(_, offset)| offset)
    }
}

/// The global buffers that the entry block of `body` allocates, in the order of their first uses, and the
/// allocations of those that nothing uses.
fn buffers(body: &Body, alignment: i64) -> Result<(Vec<Buffer>, Vec<OpId>), String> {
    let entry = body.entry();
    let numbers: FxHashMap<OpId, usize> =
        body.block_ops(entry).enumerate().map(|(number, op)| (op, number)).collect();
    let (mut buffers, mut unused) = (vec![], vec![]);
    for op in body.block_ops(entry) {
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
        let users = body.uses(body.result(op, 0));
        let users = users.filter_map(|(user, _)| body.ancestor_in(user, entry));
        let users = users.map(|user| numbers[&user]);
        let span = users.fold(None, |span: Option<(usize, usize)>, user| {
            let (first, last) = span.unwrap_or((user, user));
            Some((first.min(user), last.max(user)))
        });
        match span {
            Some((first, last)) => buffers.push(Buffer { op, bytes, first, last }),
            None => unused.push(op),
        }
    }
    buffers.sort_by_key(|buffer| buffer.first);
    Ok((buffers, unused))
}

/// Where buffers lie, in their order, and where the memory that they take ends.
struct Places {
    offsets: Vec<i64>,
    end: i64,
}

/// Places `buffers` in order, and finds the most that is live at once.
fn in_program_order(buffers: &[Buffer]) -> (Places, i64) {
    let mut ending: Vec<usize> = (0..buffers.len()).collect();
    ending.sort_by_key(|number| buffers[*number].last);
    let mut ending = ending.into_iter().peekable();
    let mut memory = Memory::default();
    let mut offsets: Vec<i64> = Vec::with_capacity(buffers.len());
    let (mut live, mut most) = (0i64, 0i64);
    for buffer in buffers {
        while let Some(number) = ending.next_if(|number| buffers[*number].last < buffer.first) {
            live -= buffers[number].bytes;
            memory.give(offsets[number], buffers[number].bytes);
        }
        live += buffer.bytes;
        most = most.max(live);
        offsets.push(memory.take(buffer.bytes));
    }
    (Places { offsets, end: memory.end }, most)
}

/// Places the largest of `buffers` first, or those that are large for long, whichever takes less.
fn best_order(buffers: &[Buffer]) -> Places {
    let by_size = largest_first(buffers, |buffer| i128::from(buffer.bytes));
    let for_long = largest_first(buffers, |buffer| {
        i128::from(buffer.bytes) * (buffer.last - buffer.first + 1) as i128
    });
    if for_long.end < by_size.end { for_long } else { by_size }
}

/// Places those of `buffers` first of which `size` is the greatest, each in the smallest gap between those that live when
/// it does (Pisarchyk and Lee, arXiv 2001.03288).
fn largest_first(buffers: &[Buffer], size: impl Fn(&Buffer) -> i128) -> Places {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|number| Reverse(size(&buffers[*number])));
    let mut places = Places { offsets: vec![0; buffers.len()], end: 0 };
    // In the order of their offsets.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    for number in order {
        let buffer = &buffers[number];
        let others = placed.iter().map(|other| (places.offsets[*other], &buffers[*other]));
        let offset = buffer.smallest_gap(others);
        places.offsets[number] = offset;
        places.end = places.end.max(buffer.end(offset));
        let place = placed.partition_point(|other| places.offsets[*other] <= offset);
        placed.insert(place, number);
    }
    places
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
    use ir_core::{DType, InsertPoint, OpParts, Random, Symbol, Type};

    use super::*;
    use crate::loops::Call;

    /// Calls of functions on buffers of `sizes` bytes.
    fn calls(sizes: &[i64], calls: &[&[usize]]) -> Body {
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
        for arguments in calls {
            let arguments = arguments.iter().map(|number| buffers[*number]).collect();
            let call = Call::new(Symbol::new("copy"), arguments);
            let operands = call.operands();
            let parts = OpParts::new(Call::<ValueId>::NAME, &operands, &[]).attrs(call.attrs());
            body.insert_op(InsertPoint::End(entry), parts);
        }
        body
    }

    /// Calls of functions on some of `count` buffers, of random sizes.
    fn random_calls(random: &mut Random, count: usize) -> Body {
        let sizes: Vec<i64> = (0..count).map(|_| 1 + random.below(1000) as i64).collect();
        let uses: Vec<Vec<usize>> =
            (0..2 * count).map(|_| (0..3).map(|_| random.below(count)).collect()).collect();
        let uses: Vec<&[usize]> = uses.iter().map(|buffers| &buffers[..]).collect();
        calls(&sizes, &uses)
    }

    #[test]
    fn a_chain_takes_two_buffers() {
        let pairs: Vec<[usize; 2]> = (1..100).map(|number| [number - 1, number]).collect();
        let pairs: Vec<&[usize]> = pairs.iter().map(|pair| &pair[..]).collect();
        let mut body = calls(&[64; 100], &pairs);
        let plan = plan_memory(&mut body, ALIGNMENT).unwrap();
        assert_eq!(plan, MemoryPlan { planned: 128, sum: 6400, lower_bound: 128 });
    }

    /// In program order, the second one leaves a gap that is too small for the third one.
    #[test]
    fn what_is_large_is_placed_first_where_that_takes_less() {
        let mut body = calls(&[64, 64, 128], &[&[0], &[0, 1], &[1, 2]]);
        let plan = plan_memory(&mut body, ALIGNMENT).unwrap();
        assert_eq!(plan, MemoryPlan { planned: 192, sum: 256, lower_bound: 192 });
    }

    #[test]
    fn what_an_operation_needs_lies_beside_what_lives_then() {
        let mut body = calls(&[64, 64, 64], &[&[0, 1], &[1, 2], &[0, 2]]);
        plan_memory(&mut body, ALIGNMENT).unwrap();
        let all: Vec<OpId> = body.walk().filter(|op| body.is::<Call>(*op)).collect();
        let places = |bytes: i64| {
            let needed = |op: OpId| if all.contains(&op) { bytes } else { 0 };
            let arranged = arrange(&body, ALIGNMENT, needed).expect("all buffers are of one block");
            (all.iter().map(|op| arranged.offsets[op]).collect::<Vec<_>>(), arranged.end)
        };
        assert_eq!(places(64), (vec![128, 192, 64], 256));
        assert_eq!(places(65), (vec![128, 192, 192], 257));
        assert_eq!(arrange(&body, ALIGNMENT, |_| i64::MAX), None);
    }

    #[test]
    fn what_operations_need_does_not_overlap_what_lives_then() {
        let mut moved = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut body = random_calls(&mut random, 20);
            plan_memory(&mut body, ALIGNMENT).unwrap();
            let needs: FxHashMap<OpId, i64> = body
                .walk()
                .filter(|op| body.is::<Call>(*op))
                .map(|op| (op, 64 * random.below(20) as i64))
                .collect();
            let needed = |op: OpId| needs.get(&op).copied().unwrap_or(0);
            let Arrangement { offsets, end } = arrange(&body, ALIGNMENT, needed).unwrap();
            let (buffers, _) = buffers(&body, ALIGNMENT).unwrap();
            let stayed = |buffer: &Buffer| {
                body.view::<Alloc>(buffer.op).and_then(|alloc| alloc.offset)
                    == Some(offsets[&buffer.op])
            };
            moved += usize::from(!buffers.iter().all(stayed));
            for (number, op) in body.block_ops(body.entry()).enumerate() {
                let own = Some((offsets.get(&op).copied().unwrap_or(0), needed(op)));
                let live = buffers.iter().filter(|b| b.first <= number && number <= b.last);
                let live = live.map(|buffer| (offsets[&buffer.op], buffer.bytes));
                let mut all: Vec<(i64, i64)> =
                    live.chain(own.filter(|(_, bytes)| *bytes > 0)).collect();
                all.sort_unstable();
                assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{seed}");
                assert!(all.iter().all(|(offset, bytes)| offset + bytes <= end), "seed {seed}");
            }
        }
        assert!((20..200).contains(&moved), "{moved}");
    }

    #[test]
    fn what_is_live_together_does_not_overlap() {
        for seed in 0..200 {
            let mut body = random_calls(&mut Random::new(seed), 40);
            let plan = plan_memory(&mut body, ALIGNMENT).unwrap();
            assert!(plan.lower_bound <= plan.planned && plan.planned <= plan.sum, "{plan:?}");
            let (buffers, _) = buffers(&body, ALIGNMENT).unwrap();
            let offset = |buffer: &Buffer| {
                body.view::<Alloc>(buffer.op).and_then(|alloc| alloc.offset).unwrap()
            };
            for (number, a) in buffers.iter().enumerate() {
                assert!(offset(a) + a.bytes <= plan.planned, "seed {seed}");
                for b in &buffers[..number] {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart =
                        offset(a) + a.bytes <= offset(b) || offset(b) + b.bytes <= offset(a);
                    assert!(apart || !together, "seed {seed}");
                }
            }
        }
    }
}
