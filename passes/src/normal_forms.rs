//! The normal forms of the text: which values are bound with `let`.
//!
//! In the IR the order of a block is A-normal form already. What these passes change is which
//! values a `let` binds, which is how the program prints and where fusion stops.

use ir_core::{
    Binding, BlockId, Body, FuncMut, FunctionPass, NameHint, OpId, Pass, PassContext, PassResult,
    Symbol, Type, ValueId,
};
use relay::language::{Constant, Constructor, Global, Operator, fn_attributes, is_primitive};
use rustc_hash::FxHashSet;

/// Binds every computed value with `let` (A-normal form).
///
/// Constants, references to functions, operators and constructors stay inline. Values without a
/// name are called `x_0`, `x_1` …. Kernels (`Primitive=1`) are left as they are.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   %0 = exp(%x);
///   add(%0, %0)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   let %x_0 = exp(%x);
///   let %x_1 = add(%x_0, %x_0);
///   %x_1
/// }
/// ```
#[derive(Pass)]
#[pass(name = "to-anf", function)]
pub struct ToAnf {}

/// Turns `let` into graph bindings (graph normal form).
///
/// Only how values are bound changes: their order does not, and where a graph binding would move a
/// value into a branch or over an effect, it still prints as `let`. A `let` stays where its annotation
/// alone gives the value its type.
///
/// ```relay
/// def @main(%x: Tensor[(4), float32]) {
///   let %a = exp(%x);
///   add(%a, %a)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   %0 = exp(%x);
///   add(%0, %0)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "to-gnf", function)]
pub struct ToGnf {}

/// Binds with `let` just the values that more than one block uses (basic-block normal form).
///
/// A block is the body of a function, a branch, or a clause.
///
/// ```relay
/// def @main(%c: bool, %x: Tensor[(4), float32]) {
///   %0 = exp(%x);
///   if (%c) { %0 } else { log(%0) }
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%c: bool, %x: Tensor[(4), float32]) -> Tensor[(4), float32] {
///   let %x_0 = exp(%x);
///   if (%c) {
///     %x_0
///   } else {
///     log(%x_0)
///   }
/// }
/// ```
#[derive(Pass)]
#[pass(name = "to-bbnf", function)]
pub struct ToBbnf {}

impl FunctionPass for ToAnf {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        rebind(f, cx, |_, _| Some(Binding::Let));
        Ok(())
    }
}

impl FunctionPass for ToGnf {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let annotated = annotated(f);
        rebind(f, cx, |_, value| (!annotated.contains(&value)).then_some(Binding::Graph));
        Ok(())
    }
}

impl FunctionPass for ToBbnf {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        rebind(f, cx, |body, value| {
            let block = body.def_block(value)?;
            let crosses = body.uses(value).any(|(user, _)| body.op_block(user) != Some(block));
            crosses.then_some(Binding::Let)
        });
        Ok(())
    }
}

/// The values that have their types from their `let` alone: without it, nobody who reads the program
/// finds them.
fn annotated(f: &FuncMut<'_>) -> FxHashSet<ValueId> {
    let is_bound = |value: &ValueId| f.body.name_hint(*value).binding == Binding::Let;
    let bound: Vec<ValueId> =
        computed(f).into_iter().flat_map(|op| f.body.results(op)).filter(is_bound).collect();
    if bound.is_empty() {
        return FxHashSet::default();
    }
    let (mut body, mut signature) = (f.body.clone(), f.signature.clone());
    for op in f.body.walk() {
        // Functions are printed with their types.
        if ![relay::language::Fn::NAME, Constant::NAME].contains(&f.body.op_name(op).as_str()) {
            f.body.results(op).for_each(|value| body.set_ty(value, Type::unknown()));
        }
    }
    let _ = relay::inference::infer_function(&mut FuncMut {
        name: f.name,
        signature: &mut signature,
        body: &mut body,
        signatures: f.signatures,
        registry: f.registry,
    });
    bound.into_iter().filter(|value| body.ty(*value) != f.body.ty(*value)).collect()
}

/// Sets the binding of every computed value to what `choose` says, where it says something.
fn rebind(
    f: &mut FuncMut<'_>,
    cx: &mut PassContext<'_>,
    choose: impl Fn(&Body, ValueId) -> Option<Binding>,
) {
    let mut number = 0;
    for op in computed(f) {
        for value in f.body.results(op) {
            let old = f.body.name_hint(value);
            let binding = choose(f.body, value).unwrap_or(old.binding);
            let mut name = old.name;
            if binding == Binding::Let && name.is_none() {
                name = Some(Symbol::new(&format!("x_{number}")));
                number += 1;
            }
            let new = NameHint { name, binding };
            if new != old {
                cx.count("rebound", 1);
                f.body.set_name_hint(value, new);
            }
        }
    }
}

/// Operations outside kernels whose values are not printed inline, in program order.
fn computed(f: &FuncMut<'_>) -> Vec<OpId> {
    let mut ops = vec![];
    let mut open: Vec<Option<OpId>> = vec![f.body.first_op(f.body.entry())];
    while let Some(next) = open.last_mut() {
        let Some(op) = *next else {
            open.pop();
            continue;
        };
        *next = f.body.next_op(op);
        if !is_inline(f.body, op) {
            ops.push(op);
        }
        if !is_primitive(fn_attributes(f.body, op)) {
            let blocks = f.body.regions(op).iter().rev().map(|region| f.body.block_of(*region));
            let blocks: Vec<BlockId> = blocks.collect();
            open.extend(blocks.into_iter().map(|block| f.body.first_op(block)));
        }
    }
    ops
}

/// Whether the value of `op` prints inline at every use.
fn is_inline(body: &Body, op: OpId) -> bool {
    let name = body.op_name(op);
    [Constant::NAME, Global::NAME, Operator::NAME, Constructor::NAME]
        .iter()
        .any(|inline| name == *inline)
}
