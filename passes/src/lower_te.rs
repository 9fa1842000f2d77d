//! From programs of kernels to tensor expressions.

pub(crate) mod function;
pub(crate) mod problems;

use std::ops::Range;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, AttrValue, Body, Diagnostic, Fingerprint, InsertPoint, Item, Loc, Module, ModulePass,
    NameHint, OpFields, OpId, OpParts, Pass, PassContext, PassResult, Signature, Symbol,
    TensorData, Type, ValueId, fingerprint,
};
use relay::define::tensor_types;
use relay::language::{Call, Constant, FUNC, Tuple, TupleGet, output_names, yielded};
use rustc_hash::{FxBuildHasher, FxHashMap};
use te::compute::Yield;
use te::loops::{self, Alloc, Data, KERNEL, OUTPUTS, Scope};

use function::Function;
use problems::{Problem, Problems};

/// Lowers kernels to tensor expressions.
///
/// Every function marked `Primitive=1` that `@main` calls becomes a compute function (`te.func`),
/// written by the definitions of its operators; so does every other operator, on its own. Equal
/// functions become one. Scalar constants are part of the expressions, other constants parameters.
/// `@main` becomes a kernel (`te.kernel`) that calls them, with a buffer for each tensor: its
/// parameters are those of the function and one for each tensor of the result, where the fields of
/// tuples count on their own.
///
/// `@main` must be straight-line code on tensors of known extents. What cannot be lowered is
/// reported all at once. Run `fuse` first; other functions are left as they are, and so is what
/// `lower-prog` made.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   %0 = fn (%p0: Tensor[(4), float32], Primitive=1) { exp(%p0) };
///   %0(%x)
/// }
/// ```
///
/// becomes
///
/// ```relay
/// te.kernel @main(%x: Tensor[(4), float32], %output: Tensor[(4), float32]) outputs 1 {
///   call @fused_exp(%x, %output)
/// }
///
/// te.func @fused_exp(%p0: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   exp[i < 4] = exp(%p0[i])
///   return exp
/// }
/// ```
#[derive(Pass)]
#[pass(name = "lower-te", module)]
pub struct LowerTe {}

impl ModulePass for LowerTe {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let main = Symbol::new("main");
        if module.get(main).is_some_and(|item| item.signature.op == prog::FUNC) {
            return Ok(());
        }
        let item = module.get(main).filter(|item| item.signature.op == FUNC);
        let Some((signature, body)) =
            item.and_then(|item| Some((item.signature.clone(), item.body.clone()?)))
        else {
            return Err(Diagnostic::error("E0620", "there is no function `@main` to lower")
                .help("call the function to lower `@main`")
                .into());
        };
        let span = signature.span;
        let mut problems = problems::check(&body, cx.registry);
        let mut lowering = Lowering {
            body: &body,
            module,
            new: IndexMap::default(),
            names: FreshNames::default(),
            equal: FxHashMap::default(),
            lowered: FxHashMap::default(),
            buffers: FxHashMap::default(),
            data: FxHashMap::default(),
            kernel: Body::new(),
        };
        let kernel = match problems.is_empty() {
            true => lowering.main(&signature, cx, &mut problems),
            false => None,
        };
        problems.report(span, cx);
        let Some(kernel) = kernel else { return Ok(()) };
        let new = lowering.new;
        cx.count("compute functions", new.len() as u64);
        if let Some(item) = module.items.get_mut(&main) {
            *item = kernel;
            item.signature.span = span;
        }
        module.items.extend(new);
        Ok(())
    }
}

/// The tensors of a value of type `ty`.
///
/// # Panics
/// Of values that are no tensors, which are found before anything is lowered.
fn tensors_of(ty: Type) -> Vec<Type> {
    tensor_types(ty).unwrap_or_else(|| panic!("expected tensors, found {ty}"))
}

/// The range of field `index` among the tensors of a tuple of type `ty`, which a verified
/// projection has.
fn field_range(ty: Type, index: i64) -> Range<usize> {
    let fields = ty.as_tuple().expect("a projection is one of a tuple");
    let index = usize::try_from(index).expect("a projection is of one of the fields");
    if ty.facts().is_flat {
        return index..index + 1;
    }
    let count = |ty: &Type| tensors_of(*ty).len();
    let before: usize = fields[..index].iter().map(count).sum();
    before..before + count(&fields[index])
}

/// What becomes of `@main`.
struct Lowering<'a> {
    /// `@main`.
    body: &'a Body,
    module: &'a Module,
    /// The compute functions.
    new: IndexMap<Symbol, Item, FxBuildHasher>,
    /// Their names.
    names: FreshNames,
    /// They by the fingerprints of their bodies.
    equal: FxHashMap<Fingerprint, Symbol>,
    /// What each function marked `Primitive=1` became, and the constants to pass to it.
    lowered: FxHashMap<OpId, (Symbol, Vec<TensorData>)>,
    /// The buffers of the tensors of each value.
    buffers: FxHashMap<ValueId, Vec<ValueId>>,
    /// The buffers of constants.
    data: FxHashMap<AttrDict, ValueId>,
    kernel: Body,
}

impl Lowering<'_> {
    /// The kernel of `@main`; `None` where there were problems.
    fn main(
        &mut self,
        signature: &Signature,
        cx: &PassContext<'_>,
        problems: &mut Problems,
    ) -> Option<Item> {
        let entry = self.kernel.entry();
        for &param in self.body.block_args(self.body.entry()) {
            let buffers = self.parameters(tensors_of(self.body.ty(param)));
            self.name(&buffers, param);
            self.buffers.insert(param, buffers);
        }
        let result = yielded(self.body, self.body.entry()).expect("a function has a result");
        let Some(results) = tensor_types(self.body.ty(result)) else {
            problems.add(Problem::FunctionValue, Loc::UNKNOWN);
            return None;
        };
        let outputs = self.parameters(results);
        for op in self.body.block_ops(self.body.entry()) {
            if let Err(problem) = self.operation(cx, op) {
                problems.add(problem, self.body.loc(op));
                // What uses it goes on, for the problems that it has itself.
                let result = self.body.result(op, 0);
                if tensor_types(self.body.ty(result)).is_some() {
                    let buffers = self.buffers_for(op);
                    self.buffers.insert(result, buffers);
                }
            }
        }
        if !problems.is_empty() {
            return None;
        }
        if let Err(problem) = self.results(result, &outputs) {
            problems.add(problem, Loc::UNKNOWN);
            return None;
        }
        for (name, &output) in output_names(signature, outputs.len()).iter().zip(&outputs) {
            let hint = NameHint { name: Some(Symbol::new(name)), ..NameHint::default() };
            self.kernel.set_name_hint(output, hint);
        }
        for (number, &output) in outputs.iter().enumerate() {
            if self.kernel.name_hint(output).name.is_none() {
                let name = match outputs.len() {
                    1 => Symbol::new("output"),
                    _ => Symbol::new(&format!("output_{number}")),
                };
                let hint = NameHint { name: Some(name), ..NameHint::default() };
                self.kernel.set_name_hint(output, hint);
            }
        }
        self.insert(Loc::UNKNOWN, OpParts::new(Yield::NAME, &[], &[]));
        let params = self.kernel.block_args(entry).iter().map(|arg| self.kernel.ty(*arg));
        let ty = Type::function(params, Type::unit());
        let mut item = Item::new(KERNEL, ty, Some(std::mem::take(&mut self.kernel)));
        let outputs = (outputs.len() as i64).to_attr();
        item.signature.attrs = AttrDict::new([(Symbol::new(OUTPUTS), outputs)]);
        Some(item)
    }

    /// New parameters of these types.
    fn parameters(&mut self, types: Vec<Type>) -> Vec<ValueId> {
        let entry = self.kernel.entry();
        types.into_iter().map(|ty| self.kernel.add_block_arg(entry, ty)).collect()
    }

    /// Gives `buffers` the name of `value`, with numbers where there are several.
    fn name(&mut self, buffers: &[ValueId], value: ValueId) {
        let Some(name) = self.body.name_hint(value).name else { return };
        for (number, &buffer) in buffers.iter().enumerate() {
            let name = match buffers.len() {
                1 => name,
                _ => Symbol::new(&format!("{name}_{number}")),
            };
            self.kernel.set_name_hint(buffer, NameHint { name: Some(name), ..NameHint::default() });
        }
    }

    fn insert(&mut self, loc: Loc, parts: OpParts<'_>) -> OpId {
        let at = InsertPoint::End(self.kernel.entry());
        self.kernel.insert_op(at, parts.at(loc))
    }

    /// Lowers an operation of `@main`.
    fn operation(&mut self, cx: &PassContext<'_>, op: OpId) -> Result<(), Problem> {
        let body = self.body;
        if body.result_count(op) == 0 || body.has_regions(op) {
            return Ok(());
        }
        let value = body.result(op, 0);
        let buffers = if let Some(Tuple { fields }) = body.view(op) {
            fields.iter().flat_map(|field| self.of(*field)).copied().collect()
        } else if let Some(TupleGet { tuple, index }) = body.view(op) {
            self.of(tuple)[field_range(body.ty(tuple), index)].to_vec()
        } else if let Some(Constant { value }) = body.view(op) {
            vec![self.constant(&value, body.loc(op))]
        } else if let Some(Call { callee, args, .. }) = body.view(op) {
            let kernel = body.defining_op(callee).ok_or(Problem::FunctionValue)?;
            let (name, constants) = match self.lowered.get(&kernel) {
                Some(lowered) => lowered.clone(),
                None => {
                    let function = Function::of_kernel(cx.registry, body, kernel)?;
                    let lowered = (self.add(function.name, function.item), function.constants);
                    self.lowered.insert(kernel, lowered.clone());
                    lowered
                }
            };
            self.call(op, name, &args, &constants)
        } else {
            let (function, args) = Function::of_operator(cx.registry, body, op)?;
            let name = self.add(function.name, function.item);
            self.call(op, name, &args, &function.constants)
        };
        self.name(&buffers, value);
        self.buffers.insert(value, buffers);
        Ok(())
    }

    /// The buffers of the tensors of `value`.
    fn of(&self, value: ValueId) -> &[ValueId] {
        let buffers = self.buffers.get(&value);
        buffers.unwrap_or_else(|| panic!("{value:?} is used before it is lowered"))
    }

    /// The name of `item`, or of an equal one that is there already.
    fn add(&mut self, base: String, item: Item) -> Symbol {
        let body = item.body.as_deref().map(fingerprint::fingerprint);
        if let Some(name) = body.and_then(|body| self.equal.get(&body)) {
            return *name;
        }
        let is_taken =
            |name: Symbol| self.module.items.contains_key(&name) || self.new.contains_key(&name);
        let name = self.names.fresh(&base, "_", is_taken);
        self.equal.extend(body.map(|body| (body, name)));
        self.new.insert(name, item);
        name
    }

    /// The buffer of a constant.
    fn constant(&mut self, value: &TensorData, loc: Loc) -> ValueId {
        let attrs = OpFields::<ValueId>::attrs(&Data { value: value.clone() });
        if let Some(buffer) = self.data.get(&attrs) {
            return *buffer;
        }
        let types = [value.ty()];
        let parts = OpParts::new(Data::NAME, &[], &types).attrs(attrs);
        let op = self.insert(loc, parts);
        let buffer = self.kernel.result(op, 0);
        self.data.insert(attrs, buffer);
        buffer
    }

    /// Calls compute function `name` for `op` on the tensors of `args` and `constants`; the buffers
    /// of its results.
    fn call(
        &mut self,
        op: OpId,
        name: Symbol,
        args: &[ValueId],
        constants: &[TensorData],
    ) -> Vec<ValueId> {
        let loc = self.body.loc(op);
        let mut buffers: Vec<ValueId> =
            args.iter().flat_map(|arg| self.of(*arg)).copied().collect();
        for constant in constants {
            buffers.push(self.constant(constant, loc));
        }
        let results = self.buffers_for(op);
        buffers.extend(&results);
        self.insert_call(name, buffers, loc);
        results
    }

    fn insert_call(&mut self, kernel: Symbol, buffers: Vec<ValueId>, loc: Loc) {
        let call = loops::Call::new(kernel, buffers);
        let parts = OpParts::new(loops::Call::NAME, &call.arguments, &[]);
        self.insert(loc, parts.attrs(call.attrs()));
    }

    /// New buffers for the result of `op`.
    fn buffers_for(&mut self, op: OpId) -> Vec<ValueId> {
        let (ty, loc) = (self.body.ty(self.body.result(op, 0)), self.body.loc(op));
        tensors_of(ty).into_iter().map(|ty| self.alloc(ty, loc)).collect()
    }

    fn alloc(&mut self, ty: Type, loc: Loc) -> ValueId {
        let tensor = ty.as_tensor().expect("buffers are of tensors");
        let shape = tensor.known_shape().expect("open extents are found before").to_vec();
        let dtype = tensor.dtype;
        let attrs = Alloc { shape, dtype, scope: Scope::Global, offset: None };
        let attrs = OpFields::<ValueId>::attrs(&attrs);
        let types = [ty];
        let parts = OpParts::new(Alloc::NAME, &[], &types).attrs(attrs);
        let op = self.insert(loc, parts);
        self.kernel.result(op, 0)
    }

    /// Puts the tensors of `value` into `outputs`: a tensor that was allocated is stored there
    /// right away, and others are copied.
    fn results(&mut self, value: ValueId, outputs: &[ValueId]) -> Result<(), Problem> {
        let mut stored: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for (buffer, &output) in self.of(value).to_vec().into_iter().zip(outputs) {
            let allocation = self.kernel.defining_op(buffer).filter(|op| {
                !stored.contains_key(&buffer) && self.kernel.view::<Alloc>(*op).is_some()
            });
            if let Some(op) = allocation {
                let hint = self.kernel.name_hint(buffer);
                self.kernel.set_name_hint(output, hint);
                self.kernel.replace_all_uses(buffer, output);
                self.kernel.erase(op);
                stored.insert(buffer, output);
                continue;
            }
            let from = stored.get(&buffer).copied().unwrap_or(buffer);
            let function = Function::copy(self.kernel.ty(from))?;
            let name = self.add(function.name, function.item);
            self.insert_call(name, vec![from, output], Loc::UNKNOWN);
        }
        Ok(())
    }
}
