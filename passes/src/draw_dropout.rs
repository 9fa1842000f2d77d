//! Dropout as in training.

use std::sync::Arc;

use ir_core::{
    BlockId, Body, Diagnostic, Diagnostics, FuncMut, Item, Module, ModulePass, OpId, Pass,
    PassContext, PassResult, Symbol, TensorData, Type, TypeData, ValueId,
};
use ir_core::{DType, Scalar};
use relay::language::{Call, Fn, Global, Tuple, TupleGet};
use relay_operators::attributes::Integers;
use relay_operators::broadcast::{GreaterEqual, Multiply};
use relay_operators::elementwise::Cast;
use relay_operators::nn::activation::Dropout;
use relay_operators::random::{ThreefrySplit, Uniform, generator_type};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::NO_STEP;
use crate::emit::Emit;
use crate::gradient::set_function_type;
use crate::train_step::{Names, hint};

/// Lets dropout zero elements at random, as training does.
///
/// `@main` gets one more parameter, `%random`, a generator as `random.threefry_generate` takes, where it or what it
/// calls has an `nn.dropout`: its operand times 1 / (1 - rate) is kept where a random number is at least the rate,
/// and is zero elsewhere. The mask says where. Numbers come from the first of the two generators that
/// `random.threefry_split` makes of `%random`; the second one is left to whoever calls, for the next time. Every
/// dropout and every call of a function has a generator of its own, so that functions that call themselves draw
/// other numbers each time.
///
/// Extents have to be known. A function that is a value cannot draw: give it a name, and call it by that.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) { nn.dropout(%x, rate=0.25).0 }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32], %random: Tensor[(10), uint64]) -> Tensor[(4), float32] {
///   %0 = random.threefry_split(%random);
///   %1 = %0.0;
///   %2 = random.uniform(%1, 0f, 1f, out_shape=[4], out_dtype="float32");
///   %3 = %2.1;
///   %4 = greater_equal(%3, 0.25f);
///   %5 = cast(%4, dtype="float32");
///   %6 = multiply(%5, 1.3333334f);
///   %7 = multiply(%x, %6);
///   %8 = (%7, %5);
///   %8.0
/// }
/// ```
#[derive(Pass)]
#[pass(name = "draw-dropout", module, never_after = "simplify-inference")]
pub struct DrawDropout {}

const PASS: &str = "draw-dropout";

impl ModulePass for DrawDropout {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let main = Symbol::new("main");
        let drawing = Drawing::of(module)?;
        if !drawing.sites.contains_key(&main) {
            return Ok(());
        }
        let names: Vec<Symbol> = drawing.sites.keys().copied().collect();
        // Whose calls are checked by their callees' types has these first.
        for name in &names {
            let Some(item) = module.items.get_mut(name) else { continue };
            item.signature.ty = with_generator(item.signature.ty);
        }
        let signatures = module.signatures();
        for name in names {
            let Some(Item { signature, body: Some(body) }) = module.items.get_mut(&name) else {
                continue;
            };
            let body = Arc::make_mut(body);
            let mut f =
                FuncMut { name, signature, body, signatures: &signatures, registry: cx.registry };
            let sites = &drawing.sites[&name];
            give_generators(&mut f, sites, name == main)?;
            set_function_type(&mut f);
            cx.count(
                "drawn",
                sites.iter().filter(|site| matches!(site, Site::Dropout(_))).count() as u64,
            );
        }
        Ok(())
    }
}

/// What draws numbers.
#[derive(Clone, Copy)]
enum Site {
    Dropout(OpId),
    Call(OpId),
}

/// By function, what draws in it.
struct Drawing {
    sites: indexmap::IndexMap<Symbol, Vec<Site>, rustc_hash::FxBuildHasher>,
}

impl Drawing {
    /// What draws in the functions that `@main` of `module` needs, itself or by calls.
    fn of(module: &Module) -> Result<Drawing, Diagnostics> {
        let reached = reached_from(module, Symbol::new("main"));
        let functions = || module.items.iter().filter(|(name, _)| reached.contains(*name));
        let mut callers: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut draws: FxHashSet<Symbol> = FxHashSet::default();
        let mut pending = vec![];
        for (name, item) in functions() {
            let Some(body) = item.body.as_deref() else { continue };
            for op in body.walk() {
                if let Some(Global { name: callee }) = body.view(op) {
                    callers.entry(callee).or_default().push(*name);
                }
            }
            if body.walk().any(|op| is_random(body, op)) && draws.insert(*name) {
                pending.push(*name);
            }
        }
        while let Some(callee) = pending.pop() {
            for caller in callers.get(&callee).into_iter().flatten() {
                if draws.insert(*caller) {
                    pending.push(*caller);
                }
            }
        }
        let (mut sites, mut found) = (indexmap::IndexMap::default(), Diagnostics::new());
        for (name, item) in functions().filter(|(name, _)| draws.contains(*name)) {
            let Some(body) = item.body.as_deref() else { continue };
            let mut of_function = vec![];
            for op in body.walk() {
                let mut refuse = |message: String| {
                    let help = "give it a name, `def @f(…)`, and call it by that";
                    let span = body.loc(op).span(item.signature.span);
                    found.push(Diagnostic::error(NO_STEP, message).at(span).help(help));
                };
                let mut own = vec![];
                if is_random(body, op) {
                    own.push((Site::Dropout(op), op));
                } else if let Some(Global { name: callee }) = body.view(op)
                    && draws.contains(&callee)
                {
                    for (user, index) in body.uses(body.result(op, 0)) {
                        match index == 0 && body.is::<Call>(user) {
                            true => own.push((Site::Call(user), user)),
                            false => refuse(format!(
                                "`@{callee}`, in which dropout zeroes elements, is a value here"
                            )),
                        }
                    }
                }
                for (site, at) in own {
                    match is_within_value(body, at) {
                        false => of_function.push(site),
                        true => refuse(
                            "a function that is a value cannot draw what dropout zeroes"
                                .to_string(),
                        ),
                    }
                }
            }
            sites.insert(*name, of_function);
        }
        if found.is_empty() { Ok(Drawing { sites }) } else { Err(found) }
    }
}

/// The functions that `entry` names, itself or through others, and itself.
fn reached_from(module: &Module, entry: Symbol) -> FxHashSet<Symbol> {
    let (mut reached, mut pending) = (FxHashSet::from_iter([entry]), vec![entry]);
    while let Some(name) = pending.pop() {
        let Some(body) = module.body(name.as_str()) else { continue };
        let named = body.walk().filter_map(|op| Some(body.view::<Global>(op)?.name));
        pending.extend(named.filter(|name| reached.insert(*name)));
    }
    reached
}

/// The type of a function, with one more parameter: a generator.
fn with_generator(ty: Type) -> Type {
    let Some(mut function) = ty.as_function().cloned() else { return ty };
    function.params = function.params.iter().copied().chain([generator_type()]).collect();
    Type::new(TypeData::Function(function))
}

/// Whether `op` is a dropout that zeroes anything.
fn is_random(body: &Body, op: OpId) -> bool {
    body.view::<Dropout>(op).is_some_and(|dropout| dropout.rate > 0.0)
}

/// Whether `op` stands in a function that is a value.
fn is_within_value(body: &Body, op: OpId) -> bool {
    let holder = |op: &OpId| body.op_block(*op).and_then(|block| body.block_parent(block));
    std::iter::successors(holder(&op), holder).any(|holder| body.is::<Fn>(holder))
}

/// Gives `f` a parameter with a generator, and each of `sites` one of its own.
fn give_generators(f: &mut FuncMut<'_>, sites: &[Site], is_main: bool) -> PassResult {
    let entry: BlockId = f.body.entry();
    let random = f.body.add_block_arg(entry, generator_type());
    let name = Names::of(f.body).fresh("random");
    f.body.set_name_hint(random, hint(&name));
    let first = f.body.first_op(entry).expect("a function gives a value");
    let mut emit = Emit::before(f, first, PASS);
    let mut left = random;
    if is_main {
        let both = emit.op(&ThreefrySplit { key: left })?;
        left = emit.op(&TupleGet { tuple: both, index: 0 })?;
    }
    let mut own = vec![];
    for _ in 1..sites.len() {
        let both = emit.op(&ThreefrySplit { key: left })?;
        left = emit.op(&TupleGet { tuple: both, index: 0 })?;
        own.push(emit.op(&TupleGet { tuple: both, index: 1 })?);
    }
    own.push(left);
    let mut callees = FxHashSet::default();
    for (site, key) in sites.iter().zip(own) {
        match *site {
            Site::Dropout(op) => draw(f, op, key)?,
            Site::Call(op) => {
                let operands: Vec<ValueId> = f.body.operands(op).chain([key]).collect();
                f.body.set_operands(op, &operands);
                // Several calls may share the name of their callee.
                if callees.insert(operands[0]) {
                    let ty = with_generator(f.body.ty(operands[0]));
                    f.body.set_ty(operands[0], ty);
                }
            }
        }
    }
    Ok(())
}

/// Puts what `op`, a dropout, gives in training in its place, with numbers of `key`.
fn draw(f: &mut FuncMut<'_>, op: OpId, key: ValueId) -> PassResult {
    let Some(Dropout { data, rate }) = f.view::<Dropout>(op) else { return Ok(()) };
    let known = f.body.ty(data).as_tensor().and_then(|ty| Some((ty.known_shape()?, ty.dtype)));
    let Some((shape, dtype)) = known else {
        let message =
            format!("the extents of what dropout zeroes are unknown: {}", f.body.ty(data));
        let error = Diagnostic::error(NO_STEP, message).at(f.op_span(op));
        return Err(error.help("give the parameters of `@main` known extents").into());
    };
    let number = |emit: &mut Emit<'_, '_>, value: f64| {
        emit.constant(TensorData::scalar(DType::FLOAT32, Scalar::Float(value)))
    };
    let mut emit = Emit::before(f, op, PASS);
    let (low, high) = (number(&mut emit, 0.0), number(&mut emit, 1.0));
    let uniform =
        Uniform { key, low, high, out_shape: Integers(shape.to_vec()), out_dtype: DType::FLOAT32 };
    let drawn = emit.op(&uniform)?;
    let share = emit.op(&TupleGet { tuple: drawn, index: 1 })?;
    let rhs = number(&mut emit, rate);
    let is_kept = emit.op(&GreaterEqual { lhs: share, rhs })?;
    let mask = emit.op(&Cast { data: is_kept, dtype })?;
    // Of what is all zeroed, nothing has to be made up for.
    let scale = if rate < 1.0 { 1.0 / (1.0 - rate) } else { 0.0 };
    let scale = emit.scalar(scale, data)?;
    let factor = emit.op(&Multiply { lhs: mask, rhs: scale })?;
    let output = emit.op(&Multiply { lhs: data, rhs: factor })?;
    let result = emit.op(&Tuple { fields: vec![output, mask] })?;
    crate::emit::replace(f, op, result);
    Ok(())
}
