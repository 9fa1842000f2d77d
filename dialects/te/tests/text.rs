//! The text of items: what is printed reads back as an equal item and prints the same again.

use ir_core::fingerprint::{fingerprint, of_signature};
use ir_core::text::PrintOptions;
use ir_core::text::cursor::Cursor;
use ir_core::{
    AttrDict, BlockId, Body, DType, InsertPoint, Item, OpFields, OpParts, Random, Registry, Scalar,
    Symbol, TensorData, Type, ValueId,
};
use te::compute::{Combiner, ComputeBuilder, Load, LoadIf, Yield};
use te::generate::{self, Options, compute_function};
use te::loops::{
    Atomic, Barrier, Extract, For, ForKind, If, KERNEL, OUTPUTS, Ramp, Store, simplify, unroll,
    vectorize,
};
use te::scalar::{Cast, Constant, ScalarOp, Select};

fn registry() -> Registry {
    Registry::from([te::dialect()])
}

fn print(item: &Item, registry: &Registry) -> String {
    let syntax = registry.item(item.signature.op).unwrap().syntax.unwrap();
    let mut out = Vec::new();
    let name = Symbol::new("f");
    (syntax.print)(name, item, registry, &PrintOptions::complete(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn parse(text: &str, kind: &str, registry: &Registry) -> Result<Item, String> {
    let mut cursor = Cursor::new("text", text);
    let syntax = registry.item(kind).unwrap().syntax.unwrap();
    let parsed = (syntax.parse)(&mut cursor, registry);
    match (parsed, cursor.diagnostics.as_slice()) {
        (Ok(parsed), []) => Ok(parsed.item),
        (_, diagnostics) => Err(format!("{diagnostics:#?}\n{text}")),
    }
}

fn generic(item: &Item, registry: &Registry) -> String {
    let mut out = Vec::new();
    let (name, options) = (Symbol::new("f"), PrintOptions::complete());
    ir_core::text::print_item(name, item, registry, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Checks that `item` survives its text.
fn reads_back(item: &Item, registry: &Registry) {
    let text = print(item, registry);
    let kind = item.signature.op.as_str();
    let read = parse(&text, kind, registry).unwrap_or_else(|error| panic!("{error}"));
    let again = print(&read, registry);
    assert_eq!(text, again);
    assert_eq!(of_signature(&item.signature), of_signature(&read.signature), "{text}");
    let prints = [item, &read].map(|item| fingerprint(item.body.as_ref().unwrap()));
    if prints[0] != prints[1] {
        panic!("{text}\n{}\n{}", generic(item, registry), generic(&read, registry));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    #[test]
    fn functions_and_their_kernels_read_back(seed in proptest::arbitrary::any::<u64>()) {
        let registry = registry();
        let function = compute_function(seed, &Options::default()).unwrap();
        reads_back(&function, &registry);
        let (schedule, _) = generate::schedule(&function, seed, 8).unwrap();
        let mut kernel = te::lower::lower(&schedule).unwrap();
        reads_back(&kernel, &registry);
        let body = kernel.body_mut().unwrap();
        vectorize(body);
        unroll(body);
        simplify(body);
        reads_back(&kernel, &registry);
    }

    #[test]
    fn schedules_read_back(seed in proptest::arbitrary::any::<u64>(), steps in 0usize..24) {
        let registry = registry();
        let function = compute_function(seed, &Options::default()).unwrap();
        let (schedule, _) = generate::schedule(&function, seed, steps).unwrap();
        reads_back(&schedule.to_item(Symbol::new("f")).unwrap(), &registry);
    }

    #[test]
    fn kernels_in_any_order_read_back(seed in proptest::arbitrary::any::<u64>()) {
        reads_back(&kernel(seed), &registry());
    }
}

/// Writes random operations, in an order that no expression would have.
struct Writer {
    random: Random,
    body: Body,
    buffer: ValueId,
    /// Scalars in scope.
    values: Vec<ValueId>,
}

fn kernel(seed: u64) -> Item {
    let mut body = Body::new();
    let ty = Type::tensor([8], DType::FLOAT32);
    let buffer = body.add_block_arg(body.entry(), ty);
    let mut writer = Writer { random: Random::new(seed), body, buffer, values: vec![] };
    let mut open = vec![(writer.body.entry(), 0)];
    while let Some((block, scope)) = open.pop() {
        writer.values.truncate(scope);
        let parent = writer.body.block_parent(block);
        for arg in writer.body.block_args(block).to_vec() {
            if parent.is_some() {
                writer.values.push(arg);
            }
        }
        for _ in 0..writer.random.below(12) {
            writer.scalar(block);
        }
        if open.len() < 6 && writer.random.below(3) > 0 {
            let inner = writer.nested(block);
            open.extend(inner.into_iter().map(|block| (block, writer.values.len())));
        }
        // What follows a loop stands behind it.
        let count = writer.values.len();
        for _ in 0..writer.random.below(6) {
            writer.scalar(block);
        }
        writer.values.truncate(count);
        if parent.is_none() {
            let parts = OpParts::new(Yield::<ValueId>::NAME, &[], &[]);
            writer.body.insert_op(InsertPoint::End(block), parts);
        }
    }
    let mut item = Item::new(KERNEL, Type::function([ty], Type::unit()), Some(writer.body));
    item.signature.attrs = AttrDict::empty().with(OUTPUTS, &1i64);
    item
}

impl Writer {
    fn add<T: OpFields<ValueId>>(&mut self, block: BlockId, op: &T, dtype: Option<DType>) {
        let types: Vec<Type> = dtype.into_iter().map(Type::scalar).collect();
        let operands = op.operands();
        let parts = OpParts::new(T::NAME, &operands, &types).attrs(op.attrs());
        let op = self.body.insert_op(InsertPoint::End(block), parts);
        self.values.extend(self.body.results(op));
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.body.ty(value).as_tensor().unwrap().dtype
    }

    /// A scalar of `dtype`, one of the last more often; a new constant where there is none.
    fn value(&mut self, block: BlockId, dtype: DType) -> ValueId {
        let known: Vec<ValueId> =
            self.values.iter().copied().filter(|value| self.dtype(*value) == dtype).collect();
        let last = known.len().saturating_sub(3);
        let chosen = match self.random.one_in(3) {
            true => self.random.choose(&known),
            false => self.random.choose(&known[last..]),
        };
        match chosen {
            Some(value) => *value,
            None => {
                self.constant(block, dtype);
                *self.values.last().unwrap()
            }
        }
    }

    fn constant(&mut self, block: BlockId, dtype: DType) {
        const FLOATS: [f64; 9] =
            [0.0, -0.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30, 0.1];
        let value = match dtype.is_float() {
            true => Scalar::Float(FLOATS[self.random.below(9)]),
            false => Scalar::Int(self.random.below(3) as i64 - 1),
        };
        let value = TensorData::scalar(dtype, value);
        self.add(block, &Constant { value }, Some(dtype));
    }

    fn scalar(&mut self, block: BlockId) {
        const DTYPES: [DType; 5] =
            [DType::FLOAT32, DType::INT64, DType::INT64, DType::BOOL, DType::INT8];
        let dtype = DTYPES[self.random.below(5)];
        let index = |w: &mut Writer| w.value(block, DType::INT64);
        let (tensor, buffer) = (self.buffer, self.buffer);
        match self.random.below(14) {
            0..=2 => self.constant(block, dtype),
            3..=4 => {
                let indices = vec![index(self)];
                self.add(block, &Load { tensor, indices }, Some(DType::FLOAT32));
            }
            5 => {
                let (condition, otherwise) =
                    (self.value(block, DType::BOOL), self.value(block, DType::FLOAT32));
                let indices = vec![index(self)];
                let op = LoadIf { condition, otherwise, tensor, indices };
                self.add(block, &op, Some(DType::FLOAT32));
            }
            6 => {
                let (value, indices) = (self.value(block, DType::FLOAT32), vec![index(self)]);
                let streaming = self.random.one_in(4);
                self.add(block, &Store { value, buffer, indices, streaming }, None);
            }
            7 if self.random.one_in(2) => self.add::<Barrier>(block, &Barrier {}, None),
            7 => {
                let (value, indices) = (self.value(block, DType::FLOAT32), vec![index(self)]);
                let op = Atomic { combiner: Combiner::Max, value, buffer, indices };
                self.add(block, &op, None);
            }
            8 => {
                let condition = self.value(block, DType::BOOL);
                let (a, b) = (self.value(block, dtype), self.value(block, dtype));
                self.add(block, &Select { condition, a, b }, Some(dtype));
            }
            9 => {
                let a = self.value(block, dtype);
                self.add(block, &Cast { a, dtype: DType::INT8 }, Some(DType::INT8));
            }
            10 => {
                let base = index(self);
                let wide = DType::INT64.with_lanes(4).unwrap();
                self.add(block, &Ramp { base, stride: -2, lanes: 4 }, Some(wide));
                let a = *self.values.last().unwrap();
                self.add(block, &Extract { a, lane: 2 }, Some(DType::INT64));
            }
            _ => {
                let op = ScalarOp::ALL[self.random.below(ScalarOp::ALL.len())];
                let Some(result) = op.result_dtype(dtype) else { return };
                let operands: Vec<ValueId> =
                    (0..op.arity()).map(|_| self.value(block, dtype)).collect();
                let types = [Type::scalar(result)];
                let parts = OpParts::new(op.name(), &operands, &types);
                let op = self.body.insert_op(InsertPoint::End(block), parts);
                self.values.push(self.body.result(op, 0));
            }
        }
    }

    /// A loop or branches; their blocks.
    fn nested(&mut self, block: BlockId) -> Vec<BlockId> {
        let count = self.random.below(3);
        if count == 0 {
            let kind = [ForKind::Serial, ForKind::Parallel][self.random.below(2)];
            let op = For { kind, extent: 3, thread: None, limit: None };
            let attrs = OpFields::<ValueId>::attrs(&op);
            let parts = OpParts::new(For::<ValueId>::NAME, &[], &[]);
            let op = self.body.insert_op(InsertPoint::End(block), parts.attrs(attrs).regions(1));
            let inner = self.body.region_block(op, 0);
            self.body.add_block_arg(inner, Type::scalar(DType::INT64));
            return vec![inner];
        }
        let condition = self.value(block, DType::BOOL);
        let operands = [condition];
        let parts = OpParts::new(If::<ValueId>::NAME, &operands, &[]).regions(count);
        let op = self.body.insert_op(InsertPoint::End(block), parts);
        (0..count).map(|index| self.body.region_block(op, index)).collect()
    }
}

/// A stage of one element, which `element` writes.
fn one(element: impl FnOnce(&mut te::compute::Expression<'_>, ValueId) -> ValueId) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[], DType::FLOAT32);
    let y = f.compute("y", &[], |e, _| {
        let start = e.load(&x, &[]);
        element(e, start)
    });
    f.finish(&[y]).unwrap()
}

const DEEP: usize = 100_000;

#[test]
fn deep_expressions_need_no_native_stack() {
    let registry = registry();
    let chain = |op| one(move |e, start| (0..DEEP).fold(start, |value, _| e.scalar(op, &[value])));
    reads_back(&chain(ScalarOp::Neg), &registry);
    reads_back(&chain(ScalarOp::Exp), &registry);
    let left = one(|e, start| {
        (0..DEEP).fold(start, |value, i| {
            let number = e.number(DType::FLOAT32, i as f64);
            e.add(value, number)
        })
    });
    reads_back(&left, &registry);
    let right = one(|e, start| {
        let numbers: Vec<ValueId> = (0..DEEP).map(|i| e.number(DType::FLOAT32, i as f64)).collect();
        numbers.into_iter().rev().fold(start, |value, number| e.sub(number, value))
    });
    reads_back(&right, &registry);
}

#[test]
fn shared_values_keep_the_text_linear() {
    let registry = registry();
    let doubled = one(|e, start| (0..200).fold(start, |value, _| e.add(value, value)));
    assert!(print(&doubled, &registry).lines().count() < 250);
    reads_back(&doubled, &registry);
}

#[test]
fn deep_loops_need_no_native_stack() {
    let registry = registry();
    let mut text = "te.kernel @f(%x: float32) {\n".to_string();
    for _ in 0..2_000 {
        text.push_str("for i < 2 {\nif True {\n");
    }
    text.push_str(&"}\n".repeat(4_001));
    let item = parse(&text, KERNEL, &registry).unwrap();
    reads_back(&item, &registry);
}

#[test]
fn broken_texts_are_refused() {
    let registry = registry();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let function = || compute_function(seed, &Options::default()).unwrap();
        let item = match random.below(3) {
            0 => kernel(seed),
            1 => function(),
            _ => {
                let (schedule, _) = generate::schedule(&function(), seed, 12).unwrap();
                schedule.to_item(Symbol::new("f")).unwrap()
            }
        };
        let mut text = print(&item, &registry);
        for _ in 0..1 + random.below(4) {
            // Kinds and names of items are ASCII, and so is everything after them.
            let place = 20 + random.below(text.len() - 20);
            match random.below(3) {
                0 => drop(text.remove(place)),
                1 => text.truncate(place),
                _ => text.insert(place, ['(', '}', '[', '%', '=', 'i', '0', '{'][random.below(8)]),
            }
            if text.len() < 40 {
                break;
            }
        }
        // Whatever was meant, reading ends without a panic, and what is accepted prints.
        if let Ok(read) = parse(&text, item.signature.op.as_str(), &registry) {
            print(&read, &registry);
        }
    }
}
