//! Reverse-mode automatic differentiation.

use std::cell::RefCell;

use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, FuncMut, InsertPoint, Item, Loc, Module, ModulePass,
    OpId, Pass, PassContext, PassResult, Symbol, TensorData, Type, TypeData, ValueId,
};
use relay::language::{
    FUNC, Fn, Tuple, TupleGet, fn_attributes, is_primitive, short_name, yielded,
};
use relay_operators::gradient::{
    Applied, Change, Emit, Gradient, Pullback, Term, is_differentiable,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::{NO_GRADIENT, NOT_DIFFERENTIABLE};
use crate::emit::erase_unused;

/// Makes `@main` give its value and its gradient: for each parameter, how much the sum of all elements of
/// the value changes with each of its elements.
///
/// The result is `(value, (gradient of each parameter, ...))`. A parameter without floats has the empty
/// tuple for its gradient; where the value is a tuple, the sum is of all its tensors of floats. Each
/// operator says how it is differentiated. What is computed is written in the order of the program, once,
/// and what is zero or one is known and not written. The cost is linear.
///
/// `@main` has to be a list of operators: `inline{all=true}` brings functions that it calls into it. What
/// changes values without their derivatives, such as `simplify-inference`, and what chooses layouts or
/// kernels, comes behind this pass.
///
/// ```relay
/// def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) {
///   multiply(sin(%x), %w)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) -> (Tensor[(2), float32], (Tensor[(2), float32], Tensor[(2), float32])) {
///   %0 = sin(%x);
///   %1 = multiply(%0, %w);
///   %2 = cos(%x);
///   %3 = multiply(%w, %2);
///   %4 = (%3, %0);
///   (%1, %4)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "gradient", module)]
pub struct Gradients {
    /// The parameters whose gradients are wanted, by name, joined with `+`; none means all.
    #[default(vec![])]
    pub wrt: Vec<String>,
    /// Whether the gradient is of the sum of the value's elements, each times that of a further, last
    /// parameter of the type of the value.
    #[default(false)]
    pub weighted: bool,
}

impl ModulePass for Gradients {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let signatures = module.signatures();
        let name = Symbol::new("main");
        let found = module.items.get_mut(&name).filter(|item| item.signature.op == FUNC);
        let Some(Item { signature, body: Some(body) }) = found else {
            let message = "there is no function `@main` to differentiate";
            let help = "call the function `@main`";
            return Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).help(help).into());
        };
        let body = std::sync::Arc::make_mut(body);
        let registry = cx.registry;
        let mut f = FuncMut { name, signature, body, signatures: &signatures, registry };
        let wanted = self.wanted(&f)?;
        differentiate(&mut f, &wanted, self.weighted)
    }
}

impl Gradients {
    /// The parameters whose gradients are wanted.
    fn wanted(&self, f: &FuncMut<'_>) -> Result<Vec<ValueId>, Diagnostics> {
        let params = f.body.block_args(f.body.entry());
        if self.wrt.is_empty() {
            return Ok(params.to_vec());
        }
        let named = |text: &String| {
            let name = text.strip_prefix('%').unwrap_or(text);
            let is_it = |param: &&ValueId| {
                f.body.name_hint(**param).name.is_some_and(|hint| hint.as_str() == name)
            };
            params.iter().find(is_it).copied().ok_or_else(|| {
                let names: Vec<String> = params
                    .iter()
                    .filter_map(|param| f.body.name_hint(*param).name)
                    .map(|name| format!("`{name}`"))
                    .collect();
                Diagnostic::error(NOT_DIFFERENTIABLE, format!("`@main` has no parameter `%{name}`"))
                    .at(f.base())
                    .help(format!("its parameters are {}", names.join(", ")))
                    .into()
            })
        };
        self.wrt.iter().map(named).collect()
    }
}

/// Emits at the end of a function, and keeps what goes wrong.
struct Emitter<'e, 'f> {
    f: RefCell<&'e mut FuncMut<'f>>,
    at: InsertPoint,
    /// The operation that is differentiated.
    of: RefCell<(Loc, Symbol)>,
    /// Values that were made of nothing, such as tensors of ones.
    made: RefCell<FxHashMap<(Symbol, AttrDict), ValueId>>,
    found: RefCell<Diagnostics>,
}

impl Emitter<'_, '_> {
    fn loc(&self) -> Loc {
        self.of.borrow().0
    }

    fn typed(&self, value: ValueId) -> (ValueId, Type) {
        (value, self.f.borrow().body.ty(value))
    }

    /// A term for a value of the program.
    fn term(&self, value: ValueId) -> Term<'_> {
        let (value, ty) = self.typed(value);
        Term::value(self, value, ty)
    }
}

impl Emit for Emitter<'_, '_> {
    fn emit(&self, name: Symbol, operands: &[ValueId], attrs: AttrDict) -> (ValueId, Type) {
        let loc = self.loc();
        if operands.is_empty()
            && let Some(value) = self.made.borrow().get(&(name, attrs))
        {
            return self.typed(*value);
        }
        let built = self.f.borrow_mut().build_named(self.at, loc, name, operands, attrs);
        match built {
            Ok(value) => {
                if operands.is_empty() {
                    self.made.borrow_mut().insert((name, attrs), value);
                }
                self.typed(value)
            }
            Err(found) => {
                self.found.borrow_mut().extend(found);
                match operands.first() {
                    Some(operand) => self.typed(*operand),
                    None => self.typed(self.constant(TensorData::scalar(
                        ir_core::DType::FLOAT32,
                        ir_core::Scalar::Int(0),
                    ))),
                }
            }
        }
    }

    fn constant(&self, value: TensorData) -> ValueId {
        let (ty, loc) = (value.ty(), self.loc());
        let constant = relay::language::Constant { value };
        self.f.borrow_mut().body.add(self.at, loc, &constant, ty)
    }

    fn tuple(&self, fields: &[ValueId]) -> (ValueId, Type) {
        let loc = self.loc();
        let mut f = self.f.borrow_mut();
        let ty = Type::tuple(fields.iter().map(|field| f.body.ty(*field)));
        (f.body.add(self.at, loc, &Tuple { fields: fields.to_vec() }, ty), ty)
    }

    fn refuse(&self, message: String) {
        let (loc, name) = *self.of.borrow();
        let f = self.f.borrow();
        let operator = short_name(name.as_str());
        self.found.borrow_mut().push(
            Diagnostic::error(NO_GRADIENT, format!("the rule of `{operator}` has no case for {message}"))
                .at(f.span(loc))
                .help("write it by other operators, or leave the parameters that it depends on out by `wrt`"),
        );
    }
}

/// Why a value of the program cannot be differentiated.
fn refused(f: &FuncMut<'_>, op: OpId) -> Diagnostic {
    let name = f.body.op_name(op);
    let short = short_name(name.as_str());
    let error = |message: String, help: &str| {
        Diagnostic::error(NO_GRADIENT, message).at(f.op_span(op)).help(help)
    };
    let kernel = f.body.is::<Fn>(op) && is_primitive(fn_attributes(f.body, op));
    if kernel {
        return error(
            "a kernel has no gradient".to_string(),
            "run `gradient` before `fuse`, or `defuse` before `gradient`",
        );
    }
    match short {
        "call" | "fn" | "global" | "operator" => error(
            "a call has no gradient of its own".to_string(),
            "run `inline{all=true}` before, for functions that are not recursive",
        ),
        "if" | "match" | "construct" | "constructor" => error(
            format!("`{short}` has no gradient yet"),
            "choose between values by `where`, or differentiate what stands in the branches",
        ),
        "ref" | "ref_read" | "ref_write" => error(
            "a cell has no gradient".to_string(),
            "run `refs-to-values` before, which makes values of cells that do not escape",
        ),
        _ if short.contains("NCHWc") => {
            error(format!("`{short}` has no gradient"), "run `gradient` before `alter-op-layout`")
        }
        _ => error(
            format!("`{short}` has no gradient"),
            "write it by operators that have one, or leave the parameters that it depends on out by `wrt`",
        ),
    }
}

/// The values that depend on those in `wanted`, and that have derivatives.
fn active_values(body: &Body, wanted: &[ValueId]) -> FxHashSet<ValueId> {
    let differentiable = |value: &ValueId| is_differentiable(body.ty(*value));
    let mut active: FxHashSet<ValueId> = wanted.iter().copied().filter(differentiable).collect();
    for op in body.block_ops(body.entry()) {
        if reads(body, op, &active) {
            let is_tensor = |value: &ValueId| {
                let is_float = differentiable(value);
                // What a region or a form gives may hold floats that its type does not show.
                is_float
                    || !matches!(body.ty(*value).data(), TypeData::Tensor(_) | TypeData::Tuple(_))
            };
            active.extend(body.results(op).filter(is_tensor));
        }
    }
    active
}

/// Whether `op`, or an operation in its regions, reads one of `values`.
fn reads(body: &Body, op: OpId, values: &FxHashSet<ValueId>) -> bool {
    let reads = |op: OpId| body.operands(op).any(|operand| values.contains(&operand));
    let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
    reads(op) || blocks.flat_map(|block| body.walk_block(block)).any(reads)
}

/// Makes the function give its value and the gradients of the parameters in `wanted`.
fn differentiate(f: &mut FuncMut<'_>, wanted: &[ValueId], weighted: bool) -> PassResult {
    let entry = f.body.entry();
    let (Some(value), Some(end)) = (yielded(f.body, entry), f.body.last_op(entry)) else {
        return Ok(());
    };
    let ty = f.body.ty(value);
    if !is_differentiable(ty) {
        let message = format!("the value of `@main`, of type {ty}, has no derivatives");
        let help =
            "give a tensor of floats: what is chosen or counted does not change by small amounts";
        return Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).at(f.base()).help(help).into());
    }
    let active = active_values(f.body, wanted);
    let ops: Vec<OpId> = f.body.block_ops(entry).collect();
    let weight = weighted.then(|| f.body.add_block_arg(entry, ty));
    let loc = f.body.loc(end).by_pass("gradient");
    let emitter = Emitter {
        f: RefCell::new(f),
        at: InsertPoint::Before(end),
        of: RefCell::new((loc, Symbol::new("relay.yield"))),
        made: RefCell::default(),
        found: RefCell::default(),
    };
    let gradients = {
        let mut changes: FxHashMap<ValueId, Change<'_>> = FxHashMap::default();
        changes.insert(value, start(&emitter, ty, weight));
        for op in ops.iter().rev() {
            pull(&emitter, *op, &active, &mut changes);
        }
        emitter.of.replace((loc, Symbol::new("relay.yield")));
        let gradients = wanted.iter().map(|param| {
            let ty = emitter.typed(*param).1;
            written(&emitter, changes.get(param).unwrap_or(&Change::None), ty)
        });
        let gradients: Vec<ValueId> = gradients.collect();
        emitter.tuple(&gradients).0
    };
    let result = emitter.tuple(&[value, gradients]);
    let found = emitter.found.take();
    if !found.is_empty() {
        return Err(found);
    }
    finish(f, end, result, weight.map(|_| ty));
    // What rules computed and nobody wanted.
    let unused: Vec<OpId> = f.body.block_ops(entry).filter(|op| *op != end).collect();
    erase_unused(f, unused.into_iter().rev());
    Ok(())
}

fn finish(f: &mut FuncMut<'_>, end: OpId, (result, ty): (ValueId, Type), weight: Option<Type>) {
    f.body.set_operand(end, 0, result);
    let Some(function) = f.signature.ty.as_function() else { return };
    let mut function = function.clone();
    function.params = function.params.iter().copied().chain(weight).collect();
    function.result = ty;
    f.signature.ty = Type::new(TypeData::Function(function));
}

// Recursion is bounded by the nesting of types.
/// The change of the value of the program: that of its sum, or of `weight` times it.
fn start<'e>(emitter: &'e Emitter<'_, '_>, ty: Type, weight: Option<ValueId>) -> Change<'e> {
    match ty.data() {
        TypeData::Tensor(tensor) if tensor.dtype.is_float() => Change::Tensor(match weight {
            Some(weight) => emitter.term(weight),
            None => Term::filled(emitter, 1.0, ty),
        }),
        TypeData::Tuple(fields) => Change::Tuple(
            fields
                .iter()
                .enumerate()
                .map(|(index, ty)| match is_differentiable(*ty) {
                    false => Change::None,
                    true => start(emitter, *ty, weight.map(|tuple| field(emitter, tuple, index))),
                })
                .collect(),
        ),
        _ => Change::None,
    }
}

fn field(emitter: &Emitter<'_, '_>, tuple: ValueId, index: usize) -> ValueId {
    Term::build(emitter, &TupleGet { tuple, index: index as i64 }).id()
}

/// Gives the operands of `op` their changes, from those of its results.
fn pull<'e>(
    emitter: &'e Emitter<'_, '_>,
    op: OpId,
    active: &FxHashSet<ValueId>,
    changes: &mut FxHashMap<ValueId, Change<'e>>,
) {
    let (name, result, operands, attrs, loc, registry) = {
        let f = emitter.f.borrow();
        let Some(result) = f.body.results(op).next().filter(|result| active.contains(result))
        else {
            return;
        };
        let operands: Vec<(ValueId, Type)> =
            f.body.operands(op).map(|operand| (operand, f.body.ty(operand))).collect();
        let loc = f.body.loc(op).by_pass("gradient");
        (f.body.op_name(op), result, operands, f.body.attrs(op), loc, f.registry)
    };
    let Some(change) = changes.remove(&result) else { return };
    emitter.of.replace((loc, name));
    if let Some(TupleGet { index, .. }) = emitter.f.borrow().body.view(op) {
        let count = operands[0].1.as_tuple().map_or(0, <[Type]>::len);
        let sum = changes.entry(operands[0].0).or_insert(Change::None);
        if let Change::None = sum {
            *sum = Change::Tuple(vec![Change::None; count]);
        }
        if let Change::Tuple(fields) = sum {
            fields[index as usize].add(change);
        }
        return;
    }
    if emitter.f.borrow().body.is::<Tuple>(op) {
        let Change::Tuple(fields) = change else { return };
        for ((operand, _), change) in operands.iter().zip(fields) {
            if active.contains(operand) {
                changes.entry(*operand).or_insert(Change::None).add(change);
            }
        }
        return;
    }
    let Some(Gradient(rule)) = registry.hook::<Gradient>(name) else {
        let error = refused(&emitter.f.borrow(), op);
        emitter.found.borrow_mut().push(error);
        return;
    };
    let wanted = operands.iter().map(|(value, _)| active.contains(value)).collect();
    let values: Vec<ValueId> = operands.iter().map(|(value, _)| *value).collect();
    let applied = Applied { operands, result: emitter.typed(result), attrs, wanted };
    let at = Pullback::new(emitter, applied, change);
    rule(&at);
    for (index, change) in at.into_changes() {
        changes.entry(values[index]).or_insert(Change::None).add(change);
    }
}

// Recursion is bounded by the nesting of types.
/// The value of a gradient of a value of type `ty`; `()` where there are no floats.
fn written(emitter: &Emitter<'_, '_>, change: &Change<'_>, ty: Type) -> ValueId {
    match (ty.data(), change) {
        (TypeData::Tensor(tensor), _) if tensor.dtype.is_float() => match change.tensor() {
            Some(term) => term.id(),
            None => Term::filled(emitter, 0.0, ty).id(),
        },
        (TypeData::Tuple(types), change) => {
            let fields: Vec<ValueId> = types
                .iter()
                .enumerate()
                .map(|(index, ty)| match change {
                    Change::Tuple(fields) => written(emitter, &fields[index], *ty),
                    _ => written(emitter, &Change::None, *ty),
                })
                .collect();
            emitter.tuple(&fields).0
        }
        _ => emitter.tuple(&[]).0,
    }
}
