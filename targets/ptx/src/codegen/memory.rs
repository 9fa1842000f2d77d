//! Buffers, and the instructions that read, write and combine their elements.

use ir_core::{DType, DTypeKind, Diagnostics, OpId, ValueDef, ValueId};
use target_core::affine::Linear;
use te::compute::{Combiner, Load, LoadIf};
use te::loops::ThreadAxis;
use te::loops::{Alloc, Atomic, Scope, Store};
use te::scalar::{ScalarOp, dtype_of};

use super::assembly::{Class, Operand};
use super::grid::limit;
use super::kernel::{Lanes, Writer};

/// The most bytes of a thread's own memory.
const MOST_LOCAL: usize = 512 << 10;

/// Buffers of at most so many elements are registers.
const MOST_REGISTERS: i64 = 1024;

/// Where the elements of a buffer are.
#[derive(Clone, Debug)]
pub(super) enum Home {
    /// From this address on. Whether nothing stores to it while the kernel runs.
    Global(Operand, bool),
    /// In an array of this name, of the state space.
    Array(String, &'static str),
    /// In registers, one for each.
    Registers(Vec<Operand>),
}

/// A buffer of the launch.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    home: Home,
    dtype: DType,
    /// Extents of what one thread sees.
    shape: Vec<i64>,
    /// So many indices come first that are those of the thread.
    own: usize,
}

/// How elements of a type lie in memory: type of loads and stores, their register, and bytes.
struct Storage {
    ty: &'static str,
    class: Class,
    bytes: i64,
}

fn storage(dtype: DType) -> Storage {
    let (ty, class) = match (dtype.kind(), dtype.bits()) {
        (DTypeKind::Float, 32) => ("f32", Class::Float),
        (DTypeKind::Float, 64) => ("f64", Class::Double),
        (DTypeKind::Float | DTypeKind::BFloat, _) => ("b16", Class::Half),
        (DTypeKind::UInt, ..=8) => ("u8", Class::Word),
        (DTypeKind::UInt, ..=16) => ("u16", Class::Word),
        (DTypeKind::UInt, ..=32) => ("u32", Class::Word),
        (DTypeKind::UInt, _) => ("u64", Class::Long),
        (DTypeKind::Int, ..=8) => ("s8", Class::Word),
        (DTypeKind::Int, ..=16) => ("s16", Class::Word),
        (DTypeKind::Int, ..=32) => ("s32", Class::Word),
        (DTypeKind::Int, _) => ("s64", Class::Long),
        (DTypeKind::Small(_), _) => unreachable!("kernels with such numbers are refused"),
    };
    Storage { ty, class, bytes: dtype.lane().bytes() as i64 }
}

/// An operation on a place: its instruction takes a suffix of state space, and the address.
struct Target {
    space: &'static str,
    base: String,
    offset: i64,
}

impl Target {
    /// The address so many bytes later.
    fn at(&self, bytes: i64) -> String {
        match self.offset + bytes {
            0 => format!("[{}]", self.base),
            offset => format!("[{}+{offset}]", self.base),
        }
    }
}

impl Writer<'_> {
    /// Finds memory for the allocation `op`.
    pub(super) fn allocate(&mut self, op: OpId, alloc: &Alloc) -> Result<(), Diagnostics> {
        let value = self.body.result(op, 0);
        if alloc.dtype.lanes() != 1 {
            return self.refuse(op, format!("a buffer of vectors ({})", alloc.dtype));
        }
        let threads: i64 = self.launch.threads.iter().product();
        let own = match alloc.scope {
            Scope::Global => return self.refuse(op, "a buffer in main memory inside of a loop"),
            Scope::Shared => 0,
            Scope::Local | Scope::Register => match self.own_dimensions(op, alloc) {
                Some(own) => own,
                None if threads == 1 => 0,
                None => return self.refuse(op, "a buffer of one thread that several threads use"),
            },
        };
        let shape = alloc.shape[own..].to_vec();
        let elements = shape.iter().product::<i64>();
        let bytes = usize::try_from(elements).expect("extents are at least 0")
            * storage(alloc.dtype).bytes as usize;
        let dtype = alloc.dtype;
        let is_constant = |indices: &[ValueId]| {
            let place = self.analysis.affine.address(
                self.body,
                &self.analysis.ranges,
                &shape,
                &indices[own..],
            );
            place.is_some_and(|place| {
                place.terms.is_empty() && (0..elements).contains(&place.constant)
            })
        };
        let all_constant = alloc.scope != Scope::Shared
            && elements <= MOST_REGISTERS
            && self
                .body
                .uses(value)
                .all(|(user, _)| self.indices(user).is_some_and(|indices| is_constant(&indices)));
        let home = if all_constant {
            let class = self.class_of_type(dtype);
            Home::Registers((0..elements).map(|_| self.asm.fresh(class)).collect())
        } else {
            let (space, taken, most) = match alloc.scope {
                Scope::Shared => {
                    self.shared_bytes =
                        self.shared_bytes.saturating_add(bytes.next_multiple_of(16));
                    ("shared", self.shared_bytes, self.gpu.shared_bytes)
                }
                _ => ("local", bytes, MOST_LOCAL),
            };
            if taken > most {
                let message =
                    format!("a kernel needs {taken} bytes of {space} memory; the most are {most}");
                return Err(limit(self.item, op, message));
            }
            let name = format!("{space}{}", self.buffers.len());
            self.asm.memory += &format!("    .{space} .align 16 .b8 {name}[{}];\n", bytes.max(1));
            Home::Array(name, space)
        };
        self.buffers.insert(value, Buffer { home, dtype, shape, own });
        Ok(())
    }

    /// The indices of an access of a buffer by `user`.
    fn indices(&self, user: OpId) -> Option<Vec<ValueId>> {
        let body = self.body;
        let load = body.view::<Load>(user).map(|load| load.indices);
        let load = load.or_else(|| body.view::<LoadIf>(user).map(|load| load.indices));
        load.or_else(|| body.view::<Store>(user).map(|store| store.indices))
    }

    /// How many of the first dimensions of an allocation are threads: every access has there the
    /// index of the thread that makes it. `None` where it is used by several threads otherwise.
    fn own_dimensions(&self, op: OpId, alloc: &Alloc) -> Option<usize> {
        let body = self.body;
        let parent = |op: OpId| body.op_block(op).and_then(|block| body.block_parent(block));
        let around = std::iter::successors(parent(op), |op| parent(*op));
        let bound: Vec<ThreadAxis> =
            around.filter_map(|op| Some(ThreadAxis::of(body, op)?.0)).collect();
        let free: Vec<usize> = (0..3)
            .filter(|at| self.launch.threads[*at] > 1 && !bound.contains(&ThreadAxis::Thread(*at)))
            .collect();
        if free.is_empty() {
            return Some(0);
        }
        let is_own = |user: OpId| {
            let indices = self.indices(user)?;
            let mut axes: Vec<usize> = Vec::new();
            for index in indices.iter().take(free.len()) {
                let ValueDef::Argument(block, _) = body.def(*index) else { return None };
                match ThreadAxis::of(body, body.block_parent(block)?)? {
                    (ThreadAxis::Thread(at), _) => axes.push(at),
                    (ThreadAxis::Block(_), _) => return None,
                }
            }
            axes.sort_unstable();
            (axes == free).then_some(())
        };
        let all = body.uses(body.result(op, 0)).all(|(user, _)| is_own(user).is_some());
        (all && alloc.shape.len() >= free.len()).then_some(free.len())
    }

    /// The buffer `value`, which a parameter of the launch points to where it is not of the launch.
    fn buffer(&mut self, op: OpId, value: ValueId) -> Result<Buffer, Diagnostics> {
        if let Some(buffer) = self.buffers.get(&value) {
            return Ok(buffer.clone());
        }
        let ty = self.body.ty(value);
        let tensor = ty.as_tensor().expect("buffers are tensors");
        let Some(shape) = tensor.known_shape() else {
            return self.refuse(op, format!("a buffer of unknown extents ({ty})"));
        };
        if tensor.dtype.lanes() != 1 {
            return self.refuse(op, format!("a buffer of vectors ({})", tensor.dtype));
        }
        let entry = self.body.block_args(self.body.entry());
        let Some(number) = entry.iter().position(|param| *param == value) else {
            return self.refuse(op, "a constant in a kernel that is a launch");
        };
        let pointer = self.asm.at_start(|asm| {
            let pointer = asm.fresh(Class::Long);
            asm.line(format_args!("ld.param.u64 {pointer}, [p{number}]"));
            asm.op("cvta.to.global.u64", Class::Long, &[pointer])
        });
        let is_kept = self.is_kept(value);
        let dtype = tensor.dtype;
        let buffer =
            Buffer { home: Home::Global(pointer, is_kept), dtype, shape: shape.to_vec(), own: 0 };
        self.buffers.insert(value, buffer.clone());
        Ok(buffer)
    }

    /// The place of the element at `indices`, in elements.
    fn place(&self, op: OpId, buffer: &Buffer, indices: &[ValueId]) -> Result<Linear, Diagnostics> {
        let analysis = &self.analysis;
        let own = &indices[buffer.own..];
        match analysis.affine.address(self.body, &analysis.ranges, &buffer.shape, own) {
            Some(place) => Ok(place),
            None => self.refuse(op, "an index that overflows"),
        }
    }

    /// Whether `value` has a number for each lane.
    fn varies(&self, value: ValueId) -> bool {
        dtype_of(self.body.ty(value)).is_some_and(|dtype| dtype.lanes() > 1)
    }

    /// The address of lane `lane` of `place`.
    fn target(
        &mut self,
        value: ValueId,
        buffer: &Buffer,
        place: &Linear,
        lane: usize,
    ) -> Result<Target, Diagnostics> {
        let size = storage(buffer.dtype).bytes;
        let constant = (place.constant + place.step * lane as i64) * size;
        let (space, class) = match &buffer.home {
            Home::Global(..) => ("global", Class::Long),
            Home::Array(_, space) => (*space, Class::Word),
            Home::Registers(_) => unreachable!("registers have no address"),
        };
        let mut base = match &buffer.home {
            Home::Global(pointer, _) => Some(*pointer),
            _ => None,
        };
        // Terms that came first were defined further out.
        let mut known: Vec<(ValueId, i64)> = vec![];
        for &(term, coefficient) in &place.terms {
            let varies = self.varies(term);
            known.push((term, coefficient * size));
            let found = self
                .addresses
                .iter()
                .rev()
                .find_map(|known_here| known_here.get(&(value, known.clone())));
            if let Some(found) = found {
                base = Some(*found);
                continue;
            }
            let lanes = self.value(term)?;
            let number = lanes[if lanes.len() > 1 { lane } else { 0 }];
            let sum = self.multiplied(base, number, coefficient * size, class, &buffer.home);
            base = Some(sum);
            // Of lanes that differ, each has its own.
            if known.iter().all(|(term, _)| !self.varies(*term)) && !varies {
                let innermost = self.addresses.last_mut().expect("a block is open");
                innermost.insert((value, known.clone()), sum);
            }
        }
        let mut offset = constant;
        let mut text = match (base, &buffer.home) {
            (Some(base), _) => base.to_string(),
            (None, Home::Array(name, _)) => name.clone(),
            (None, _) => unreachable!("global buffers have a base"),
        };
        // Offsets have 32 bits.
        if i32::try_from(offset).is_err() {
            let base = base.expect("arrays are smaller");
            text = self.asm.op("add.s64", Class::Long, &[base, Operand::Int(offset)]).to_string();
            offset = 0;
        }
        Ok(Target { space, base: text, offset })
    }

    /// `base + number · factor`, of `class`; the base of an array is that of its name.
    fn multiplied(
        &mut self,
        base: Option<Operand>,
        number: Operand,
        factor: i64,
        class: Class,
        home: &Home,
    ) -> Operand {
        let base = match (base, home) {
            (Some(base), _) => base,
            (None, Home::Array(name, _)) => {
                let base = self.asm.fresh(Class::Word);
                self.asm.line(format_args!("mov.u32 {base}, {name}"));
                base
            }
            (None, _) => unreachable!("global buffers have a base"),
        };
        let is_word = number.class() == Some(Class::Word);
        if class == Class::Word {
            // Within 32 bits whatever the high ones are.
            let number =
                if is_word { number } else { self.asm.op("cvt.u32.u64", Class::Word, &[number]) };
            return self.asm.op("mad.lo.s32", class, &[number, Operand::Int(factor), base]);
        }
        match is_word && i32::try_from(factor).is_ok() {
            true => self.asm.op("mad.wide.s32", class, &[number, Operand::Int(factor), base]),
            false => {
                let number = self.widened(number);
                self.asm.op("mad.lo.s64", class, &[number, Operand::Int(factor), base])
            }
        }
    }

    /// How many lanes from `lane` on one instruction accesses: 1, 2 or 4, where they lie one after
    /// the other at a multiple of their size.
    fn chunk(&self, buffer: &Buffer, place: &Linear, lane: usize, lanes: usize) -> usize {
        let bytes = storage(buffer.dtype).bytes;
        let fits = |count: &usize| {
            let size = *count as i64 * bytes;
            let is_aligned = |number: i64| number * bytes % size == 0;
            size <= 16
                && lane + count <= lanes
                && place.step == 1
                && place
                    .terms
                    .iter()
                    .all(|(term, factor)| !self.varies(*term) && is_aligned(*factor))
                && is_aligned(place.constant + lane as i64)
        };
        [4, 2].into_iter().find(fits).unwrap_or(1)
    }

    pub(super) fn load(&mut self, op: OpId, load: &Load) -> Result<Lanes, Diagnostics> {
        let lanes = self.lane_count(op);
        let buffer = self.buffer(op, load.tensor)?;
        let place = self.place(op, &buffer, &load.indices)?;
        let mut values = Lanes::new();
        // One element for all lanes.
        let lanes = if place.step == 0 && !place.terms.iter().any(|(term, _)| self.varies(*term)) {
            1
        } else {
            lanes
        };
        while values.len() < lanes {
            let count = self.chunk(&buffer, &place, values.len(), lanes);
            let loaded = self.load_lanes(load.tensor, &buffer, &place, values.len(), count)?;
            values.extend(loaded);
        }
        Ok(values)
    }

    /// `count` lanes from `lane` on.
    fn load_lanes(
        &mut self,
        value: ValueId,
        buffer: &Buffer,
        place: &Linear,
        lane: usize,
        count: usize,
    ) -> Result<Lanes, Diagnostics> {
        if let Home::Registers(registers) = &buffer.home {
            let from = registers[(place.constant + place.step * lane as i64) as usize];
            // It may change before the value is used.
            let class = from.class().expect("a register has a class");
            return Ok(Lanes::from_iter([self.asm.op(
                &format!("mov.{}", class.ty()),
                class,
                &[from],
            )]));
        }
        let Storage { ty, class, .. } = storage(buffer.dtype);
        let target = self.target(value, buffer, place, lane)?;
        let cached = if matches!(buffer.home, Home::Global(_, true)) { ".nc" } else { "" };
        let to: Vec<Operand> = (0..count).map(|_| self.asm.fresh(class)).collect();
        let (vector, list) = vector(&to);
        self.asm.line(format_args!(
            "ld.{}{cached}{vector}.{ty} {list}, {}",
            target.space,
            target.at(0)
        ));
        Ok(to.into_iter().map(|raw| self.loaded(buffer.dtype, raw)).collect())
    }

    /// The number that lies in memory as `raw`.
    fn loaded(&mut self, dtype: DType, raw: Operand) -> Operand {
        if dtype.is_bool() {
            return self.asm.op("setp.ne.u32", Class::Predicate, &[raw, Operand::Int(0)]);
        }
        if dtype.is_float() && dtype.bits() == 16 { self.of_half(dtype, raw) } else { raw }
    }

    /// `number` as it lies in memory.
    fn stored(&mut self, dtype: DType, number: Operand) -> Operand {
        if dtype.is_bool() {
            return self.asm.op(
                "selp.b32",
                Class::Word,
                &[Operand::Int(1), Operand::Int(0), number],
            );
        }
        match storage(dtype).class {
            Class::Half => self.half_of(dtype, number),
            Class::Long => self.widened(number),
            _ => number,
        }
    }

    pub(super) fn load_if(&mut self, op: OpId, load: &LoadIf) -> Result<Lanes, Diagnostics> {
        let constant = self.analysis.ranges.get(self.body, load.condition).constant();
        match constant {
            Some(0) => return self.value(load.otherwise),
            Some(_) => {
                return self.load(op, &Load { tensor: load.tensor, indices: load.indices.clone() });
            }
            None => {}
        }
        let lanes = self.lane_count(op);
        let buffer = self.buffer(op, load.tensor)?;
        let place = self.place(op, &buffer, &load.indices)?;
        let (conditions, otherwise) = (self.value(load.condition)?, self.value(load.otherwise)?);
        let pick = |lanes: &Lanes, lane: usize| lanes[if lanes.len() > 1 { lane } else { 0 }];
        let class = self.class_of_type(buffer.dtype);
        let mut values = Lanes::new();
        for lane in 0..lanes {
            let condition = pick(&conditions, lane);
            let value = self.asm.fresh(class);
            let other = self.materialized(buffer.dtype, pick(&otherwise, lane));
            self.asm.copy(value, other);
            let end = self.asm.label();
            self.asm.branch(condition, false, end);
            // What is found out here is not known behind.
            self.addresses.push(Default::default());
            let loaded = self.load_lanes(load.tensor, &buffer, &place, lane, 1)?[0];
            self.addresses.pop();
            self.asm.copy(value, loaded);
            self.asm.place(end);
            values.push(value);
        }
        Ok(values)
    }

    pub(super) fn store(&mut self, op: OpId, store: &Store) -> Result<(), Diagnostics> {
        let lanes = store.indices.iter().map(|index| self.lanes_of(*index)).max().unwrap_or(1);
        let buffer = self.buffer(op, store.buffer)?;
        let place = self.place(op, &buffer, &store.indices)?;
        let values = self.value(store.value)?;
        let Storage { ty, .. } = storage(buffer.dtype);
        let streaming = if store.streaming { ".cs" } else { "" };
        let mut lane = 0;
        while lane < lanes {
            let pick = |lane: usize| values[if values.len() > 1 { lane } else { 0 }];
            if let Home::Registers(registers) = &buffer.home {
                let number = self.materialized(buffer.dtype, pick(lane));
                self.asm
                    .copy(registers[(place.constant + place.step * lane as i64) as usize], number);
                lane += 1;
                continue;
            }
            let count = self.chunk(&buffer, &place, lane, lanes);
            let numbers: Vec<Operand> =
                (lane..lane + count).map(|lane| self.stored(buffer.dtype, pick(lane))).collect();
            let target = self.target(store.buffer, &buffer, &place, lane)?;
            let (vector, list) = vector(&numbers);
            self.asm.line(format_args!(
                "st.{}{streaming}{vector}.{ty} {}, {list}",
                target.space,
                target.at(0)
            ));
            lane += count;
        }
        Ok(())
    }

    pub(super) fn atomic(&mut self, op: OpId, atomic: &Atomic) -> Result<(), Diagnostics> {
        let lanes = atomic.indices.iter().map(|index| self.lanes_of(*index)).max().unwrap_or(1);
        let buffer = self.buffer(op, atomic.buffer)?;
        let place = self.place(op, &buffer, &atomic.indices)?;
        let values = self.value(atomic.value)?;
        let dtype = buffer.dtype;
        let (scalar, name) = match atomic.combiner {
            Combiner::Sum => (ScalarOp::Add, "add"),
            Combiner::Max => (ScalarOp::Max, "max"),
            Combiner::Min => (ScalarOp::Min, "min"),
            other => return self.refuse(op, format!("an atomic `{}`", other.name())),
        };
        let bits = dtype.lane().bytes() * 8;
        if bits < 32 || (dtype.is_integer() && dtype.bits() as usize != bits) {
            let message =
                format!("an atomic `{name}` of {dtype}: the device combines 32 and 64 bits");
            return self.refuse(op, message);
        }
        if matches!(buffer.home, Home::Registers(_)) {
            return self.refuse(op, "an atomic on a buffer of one thread");
        }
        for lane in 0..lanes {
            let number = values[if values.len() > 1 { lane } else { 0 }];
            let number = self.stored(dtype, number);
            let target = self.target(atomic.buffer, &buffer, &place, lane)?;
            let (space, address) = (target.space, target.at(0));
            let ty = match (scalar, dtype.is_float()) {
                // Sums wrap, whatever the sign.
                (ScalarOp::Add, false) => format!("u{bits}"),
                (ScalarOp::Add, true) => format!("f{bits}"),
                (_, false) => storage(dtype).ty.to_string(),
                (_, true) => {
                    self.exchange(scalar, dtype, &target, number)?;
                    continue;
                }
            };
            match space {
                // Nobody else is there.
                "local" => return self.refuse(op, "an atomic on a buffer of one thread"),
                _ => self.asm.line(format_args!("red.{space}.{name}.{ty} {address}, {number}")),
            }
        }
        Ok(())
    }

    /// Combines by comparing and exchanging, until nobody came between.
    fn exchange(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        target: &Target,
        number: Operand,
    ) -> Result<(), Diagnostics> {
        let (bits, class) = match dtype.bits() {
            32 => (32, Class::Word),
            _ => (64, Class::Long),
        };
        let (space, address) = (target.space, target.at(0));
        let old = self.asm.fresh(class);
        self.asm.line(format_args!("ld.relaxed.gpu.{space}.b{bits} {old}, {address}"));
        let again = self.asm.label();
        self.asm.place(again);
        let float = self.class_of_type(dtype);
        let before = self.asm.op(&format!("mov.b{bits}"), float, &[old]);
        let after = self.float_binary(op, dtype, before, number);
        let after = self.asm.op(&format!("mov.b{bits}"), class, &[after]);
        let found = self.asm.fresh(class);
        self.asm.line(format_args!("atom.{space}.cas.b{bits} {found}, {address}, {old}, {after}"));
        let differs = self.asm.op(&format!("setp.ne.b{bits}"), Class::Predicate, &[found, old]);
        self.asm.copy(old, found);
        self.asm.branch(differs, true, again);
        Ok(())
    }
}

/// The suffix of an instruction with so many registers, and these.
fn vector(registers: &[Operand]) -> (String, String) {
    match registers {
        [one] => (String::new(), one.to_string()),
        several => {
            let list: Vec<String> = several.iter().map(Operand::to_string).collect();
            (format!(".v{}", several.len()), format!("{{{}}}", list.join(", ")))
        }
    }
}
