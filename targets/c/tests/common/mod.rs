//! Writing kernels by hand, and running them with the compilers that are there.

pub(crate) mod installed;

use ir_core::text::cursor::Cursor;
use ir_core::{
    AttrDict, AttrValue, BlockId, Body, DType, Diagnostic, InferCx, InsertPoint, Item, Module,
    NameHint, OpFields, OpParts, Registry, Scalar, Symbol, TensorData, Type, ValueId, verify,
};
use target_c::CTarget;
use target_c::codegen::Style;
use target_c::runtime::{Cache, Compiler};
use target_core::{Buffer, Executable};
use te::compute::{Load, Yield};
use te::loops::{Alloc, Broadcast, For, ForKind, KERNEL, OUTPUTS, Ramp, Scope, Store};
use te::scalar::{Cast, Constant, ScalarOp, Select};

pub(crate) fn registry() -> Registry {
    Registry::from([te::dialect()])
}

/// The items of `text`, of which empty lines part any two.
pub(crate) fn items(text: &str, registry: &Registry) -> Module {
    let mut module = Module::new();
    for part in text.trim().split("\n\n") {
        let kind = part.split_whitespace().next().unwrap();
        let mut cursor = Cursor::new("test", part);
        let parsed = (registry.item(kind).unwrap().syntax.unwrap().parse)(&mut cursor, registry);
        let problems = cursor.diagnostics;
        let parsed = parsed.unwrap_or_else(|_| panic!("{problems:#?}"));
        assert!(problems.is_empty(), "{problems:#?}");
        module.items.insert(parsed.name, parsed.item);
    }
    module
}

/// Writes one kernel.
pub(crate) struct Writer {
    pub(crate) body: Body,
    pub(crate) block: BlockId,
    registry: Registry,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        let body = Body::new();
        let block = body.entry();
        Writer { body, block, registry: registry() }
    }

    pub(crate) fn param(&mut self, name: &str, shape: &[i64], dtype: DType) -> ValueId {
        let entry = self.body.entry();
        let value = self.body.add_block_arg(entry, Type::tensor(shape.iter().copied(), dtype));
        self.name(value, name);
        value
    }

    pub(crate) fn name(&mut self, value: ValueId, name: &str) {
        let hint = NameHint { name: Some(Symbol::new(name)), ..NameHint::default() };
        self.body.set_name_hint(value, hint);
    }

    /// An operation with one result, whose type is inferred.
    pub(crate) fn op<T: OpFields<ValueId>>(&mut self, op: &T) -> ValueId {
        self.raw(T::NAME, &op.operands(), op.attrs())
    }

    pub(crate) fn raw(&mut self, name: &str, operands: &[ValueId], attrs: AttrDict) -> ValueId {
        let types: Vec<Type> = operands.iter().map(|value| self.body.ty(*value)).collect();
        let info = self.registry.info(name).expect("a registered operation");
        let infer = info.def.infer.expect("a type relation");
        let ty =
            infer(&mut InferCx::new(&types, attrs)).unwrap_or_else(|_| panic!("{name} {types:?}"));
        let parts = OpParts::new(name, operands, &[]).attrs(attrs);
        let results = [ty];
        let op = self
            .body
            .insert_op(InsertPoint::End(self.block), OpParts { results: &results, ..parts });
        self.body.result(op, 0)
    }

    /// An operation without results.
    pub(crate) fn effect<T: OpFields<ValueId>>(&mut self, op: &T) {
        let operands = op.operands();
        let parts = OpParts::new(T::NAME, &operands, &[]).attrs(op.attrs());
        self.body.insert_op(InsertPoint::End(self.block), parts);
    }

    pub(crate) fn scalar(&mut self, op: ScalarOp, operands: &[ValueId]) -> ValueId {
        self.raw(op.name(), operands, AttrDict::empty())
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Add, &[a, b])
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Mul, &[a, b])
    }

    pub(crate) fn constant(&mut self, dtype: DType, value: Scalar) -> ValueId {
        self.op(&Constant { value: TensorData::scalar(dtype, value) })
    }

    pub(crate) fn float(&mut self, value: f64) -> ValueId {
        self.constant(DType::FLOAT32, Scalar::Float(value))
    }

    pub(crate) fn index(&mut self, value: i64) -> ValueId {
        self.constant(DType::INT64, Scalar::Int(value))
    }

    /// `a · factor + constant`.
    pub(crate) fn affine(&mut self, a: ValueId, factor: i64, constant: i64) -> ValueId {
        let (factor, constant) = (self.index(factor), self.index(constant));
        let product = self.mul(a, factor);
        self.add(product, constant)
    }

    pub(crate) fn ramp(&mut self, base: ValueId, lanes: i64) -> ValueId {
        self.op(&Ramp { base, stride: 1, lanes })
    }

    pub(crate) fn broadcast(&mut self, a: ValueId, lanes: i64) -> ValueId {
        self.op(&Broadcast { a, lanes })
    }

    pub(crate) fn load(&mut self, tensor: ValueId, indices: &[ValueId]) -> ValueId {
        self.op(&Load { tensor, indices: indices.to_vec() })
    }

    pub(crate) fn store(&mut self, value: ValueId, buffer: ValueId, indices: &[ValueId]) {
        self.effect(&Store { value, buffer, indices: indices.to_vec(), streaming: false });
    }

    /// Stores past the caches.
    pub(crate) fn stream(&mut self, value: ValueId, buffer: ValueId, indices: &[ValueId]) {
        self.effect(&Store { value, buffer, indices: indices.to_vec(), streaming: true });
    }

    pub(crate) fn cast(&mut self, a: ValueId, dtype: DType) -> ValueId {
        self.op(&Cast { a, dtype })
    }

    pub(crate) fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> ValueId {
        self.op(&Select { condition, a, b })
    }

    pub(crate) fn alloc(
        &mut self,
        name: &str,
        shape: &[i64],
        dtype: DType,
        scope: Scope,
    ) -> ValueId {
        let value = self.op(&Alloc { shape: shape.to_vec(), dtype, scope, offset: None });
        self.name(value, name);
        value
    }

    /// A loop; `body` writes its inside.
    pub(crate) fn repeat(
        &mut self,
        kind: ForKind,
        name: &str,
        extent: i64,
        body: impl FnOnce(&mut Writer, ValueId),
    ) {
        let attrs = OpFields::<ValueId>::attrs(&For { kind, extent, thread: None, limit: None });
        let parts = OpParts::new("te.for", &[], &[]).attrs(attrs).regions(1);
        let op = self.body.insert_op(InsertPoint::End(self.block), parts);
        let inner = self.body.region_block(op, 0);
        let index = self.body.add_block_arg(inner, Type::scalar(DType::INT64));
        self.name(index, name);
        let outer = std::mem::replace(&mut self.block, inner);
        body(self, index);
        self.effect(&Yield { values: vec![] });
        self.block = outer;
    }

    pub(crate) fn serial(
        &mut self,
        name: &str,
        extent: i64,
        body: impl FnOnce(&mut Writer, ValueId),
    ) {
        self.repeat(ForKind::Serial, name, extent, body);
    }

    pub(crate) fn branch(
        &mut self,
        condition: ValueId,
        then_branch: impl FnOnce(&mut Writer),
        else_branch: impl FnOnce(&mut Writer),
    ) {
        let parts = OpParts::new("te.if", std::slice::from_ref(&condition), &[]).regions(2);
        let op = self.body.insert_op(InsertPoint::End(self.block), parts);
        let (first, second) = (self.body.region_block(op, 0), self.body.region_block(op, 1));
        let outer = std::mem::replace(&mut self.block, first);
        then_branch(self);
        self.effect(&Yield { values: vec![] });
        self.block = second;
        else_branch(self);
        self.effect(&Yield { values: vec![] });
        self.block = outer;
    }

    /// The kernel, whose last `outputs` parameters are results.
    pub(crate) fn finish(mut self, outputs: i64) -> Item {
        self.effect(&Yield { values: vec![] });
        let params: Vec<Type> =
            self.body.block_args(self.body.entry()).iter().map(|arg| self.body.ty(*arg)).collect();
        let mut item = Item::new(KERNEL, Type::function(params, Type::unit()), Some(self.body));
        item.signature.attrs = AttrDict::new([(Symbol::new(OUTPUTS), outputs.to_attr())]);
        item
    }
}

pub(crate) fn module(items: impl IntoIterator<Item = (impl AsRef<str>, Item)>) -> Module {
    let mut module = Module::new();
    module.items.extend(items.into_iter().map(|(name, item)| (Symbol::new(name.as_ref()), item)));
    module
}

pub(crate) fn show(diagnostics: &[Diagnostic], module: &Module) -> String {
    diagnostics.iter().map(|d| format!("{d:?}\n")).collect::<String>()
        + &format!("{}", module.op_count())
}

pub(crate) fn target(isa: &str) -> CTarget {
    let options = match isa {
        "host" => vec![],
        isa => vec![("isa".to_string(), isa.to_string())],
    };
    CTarget::new(ir_core::Options::read(&options).expect("options")).expect("a target")
}

/// The text of the kernels of `module`.
pub(crate) fn text(module: &Module, isa: &str) -> String {
    let registry = registry();
    let verified = verify(module, &registry).expect("a verified module");
    let style = Style {
        vector_bits: bits(isa),
        threads: 2,
        prefix: "te_".to_string(),
        entries: false,
        model: None,
    };
    target_c::codegen::generate(verified, &style).expect("C").text
}

pub(crate) fn bits(isa: &str) -> usize {
    target_core::Capabilities::of_isa(isa).expect("an instruction set").vector_bits
}

/// A compiler of each family that is there.
pub(crate) fn compilers() -> Vec<(&'static str, Compiler)> {
    let found = installed::usual_compilers().into_iter();
    found.filter_map(|command| Some((command, Compiler::named(command).ok()?))).collect()
}

pub(crate) fn cache() -> Cache {
    Cache::at(env!("CARGO_TARGET_TMPDIR")).expect("a cache")
}

/// The instruction sets that run here: portable code, and all vectors of this machine.
pub(crate) fn isas() -> Vec<&'static str> {
    let host = target_core::host().isa;
    let mut isas = vec!["scalar", "sse2"];
    isas.retain(|isa| *isa == "scalar" || cfg!(target_arch = "x86_64"));
    if host == "avx512" {
        isas.push("avx2");
    }
    if !isas.contains(&host) {
        isas.push(host);
    }
    isas
}

/// Runs kernel `name` on `inputs` with every compiler and instruction set, and hands its results
/// to `check`.
pub(crate) fn run_everywhere(
    module: &Module,
    name: &str,
    inputs: &[TensorData],
    check: impl Fn(&str, Vec<TensorData>),
) {
    run_on(&isas(), module, name, inputs, check);
}

/// The same with the instruction sets `isas`.
pub(crate) fn run_on(
    isas: &[&str],
    module: &Module,
    name: &str,
    inputs: &[TensorData],
    check: impl Fn(&str, Vec<TensorData>),
) {
    let registry = registry();
    let verified = match verify(module, &registry) {
        Ok(verified) => verified,
        Err(errors) => panic!("{}", show(&errors, module)),
    };
    for (command, compiler) in compilers() {
        for isa in isas {
            let loaded = target(isa).load_with(verified, &compiler, &cache());
            let loaded = loaded.unwrap_or_else(|errors| panic!("{errors:#?}"));
            check(&format!("{command} {isa}"), call(&loaded, name, inputs));
        }
    }
}

/// Calls a kernel on inputs; its results.
pub(crate) fn call(loaded: &dyn Executable, name: &str, inputs: &[TensorData]) -> Vec<TensorData> {
    let kernel = loaded.kernels().iter().find(|kernel| kernel.name == name).expect("a kernel");
    let mut buffers: Vec<Buffer> = inputs.iter().map(Buffer::of_tensor).collect();
    for ty in &kernel.params[inputs.len()..] {
        buffers.push(Buffer::of_type(*ty).expect("a buffer"));
    }
    loaded.call(name, &mut buffers).expect("a call");
    let results = kernel.params[inputs.len()..].iter().zip(&buffers[inputs.len()..]);
    results
        .map(|(ty, buffer)| {
            let tensor = ty.as_tensor().expect("a tensor");
            buffer.to_tensor(tensor.dtype, &tensor.known_shape().expect("extents")).expect("bytes")
        })
        .collect()
}

/// Numbers that look random, the same in every run, from `low` to `high`.
pub(crate) fn numbers(count: usize, seed: u64, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            low + (high - low) * ((state >> 11) as f64 / (1u64 << 53) as f64)
        })
        .collect()
}
