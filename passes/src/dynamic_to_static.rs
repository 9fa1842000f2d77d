//! Static forms of operators with run-time arguments.

use std::sync::Arc;

use ir_core::{
    Attr, AttrData, AttrDict, Body, Diagnostics, FuncMut, InsertPoint, Item, Module, ModulePass,
    OpId, Pass, PassContext, PassResult, Registry, Symbol, TensorData, ValueId, verify,
};

use crate::emit;
use crate::extents::{Copies, infer_again, is_open, open_values};
use crate::fold_constant::{self, FoldConstant};
use relay::language::{operator, short_name};

/// Gives operators whose arguments turn out to be constant their static form.
///
/// A `dyn.…` operator takes as operands what its static twin takes as attributes. Constants are
/// folded, `shape_of` of what has a static shape included; then operators with constant arguments
/// are replaced, and what follows has a type with `?` only where it remains, so that a static shape may
/// make another argument constant. Where it goes through branches and functions, types are inferred
/// again, and functions of open extents are copied for the extents of each call that knows them. All of
/// this repeats until nothing changes; what grows from call to call of a recursion stays open.
///
/// ```relay
/// def @main(%x: Tensor[(8, 8), float32]) {
///   %0 = reshape(%x, newshape=[4, 16]);
///   %1 = shape_of(%0, dtype="int64");
///   dyn.reshape(%x, %1)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(8, 8), float32]) -> Tensor[(4, 16), float32] {
///   reshape(%x, newshape=[4, 16])
/// }
/// ```
#[derive(Pass)]
#[pass(name = "dynamic-to-static", module)]
pub struct DynamicToStatic {}

/// What an attribute of the static form is made from.
#[derive(Clone, Copy)]
enum Form {
    /// A number.
    Scalar,
    /// A list of numbers.
    List,
    /// A list of pairs.
    Pairs,
}

use Form::{List, Pairs, Scalar};

/// Operators, and which of their operands are which attributes of the static form.
const OPERATORS: &[(&str, &[(usize, &str, Form)])] = &[
    ("reshape", &[(1, "newshape", List)]),
    ("expand_dims", &[(1, "axis", Scalar)]),
    ("squeeze", &[(1, "axis", List)]),
    ("zeros", &[(0, "shape", List)]),
    ("ones", &[(0, "shape", List)]),
    ("full", &[(1, "shape", List)]),
    ("tile", &[(1, "reps", List)]),
    ("broadcast_to", &[(1, "shape", List)]),
    ("strided_slice", &[(1, "begin", List), (2, "end", List), (3, "strides", List)]),
    ("topk", &[(1, "k", Scalar)]),
    ("one_hot", &[(3, "depth", Scalar)]),
    ("image.resize2d", &[(1, "size", List), (2, "roi", List)]),
    ("nn.upsampling", &[(1, "scale_h", Scalar), (2, "scale_w", Scalar)]),
    ("nn.upsampling3d", &[(1, "scale_d", Scalar), (2, "scale_h", Scalar), (3, "scale_w", Scalar)]),
    ("nn.pad", &[(1, "pad_width", Pairs)]),
    ("sparse_to_dense", &[(1, "output_shape", List)]),
];

impl ModulePass for DynamicToStatic {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let mut copies = Copies::default();
        loop {
            let signatures = module.signatures();
            let (mut replaced, mut closed) = (0, 0);
            for (name, item) in &mut module.items {
                let Item { signature, body: Some(body) } = item else { continue };
                let (before, open) = (dynamic_operators(body), open_values(body));
                if before == 0 && open == 0 {
                    continue;
                }
                let mut f = FuncMut {
                    name: *name,
                    signature,
                    body: Arc::make_mut(body),
                    signatures: &signatures,
                    registry: cx.registry,
                };
                let fold = FoldConstant { max_bytes: 1 << 20 };
                fold.run_after(&mut f, cx, &mut make_static)?;
                // Folding may have computed some of them away.
                replaced += before - dynamic_operators(f.body);
                closed += open.saturating_sub(open_values(f.body));
            }
            let redirected = copies.redirect(module);
            if replaced + closed + redirected == 0 {
                return Ok(());
            }
            cx.count("replaced", replaced);
            cx.count("calls of copies", redirected);
            let errors = infer_again(module, cx.registry);
            if !errors.is_empty() {
                errors.into_iter().for_each(|error| cx.report(error));
                return Ok(());
            }
        }
    }
}

/// Gives operators of `@main` whose arguments are constant their static form, and infers types again.
/// Returns the errors; then the module is nothing in particular.
pub(crate) fn settle(module: &mut Module, registry: &Registry) -> Diagnostics {
    let signatures = module.signatures();
    let name = Symbol::new("main");
    let Some(Item { signature, body: Some(body) }) = module.items.get_mut(&name) else {
        return Diagnostics::new();
    };
    let body = Arc::make_mut(body);
    let mut f = FuncMut { name, signature, body, signatures: &signatures, registry };
    for op in f.body.walk().collect::<Vec<_>>() {
        if let Err(errors) = make_static(&mut f, op) {
            return errors;
        }
    }
    infer_again(module, registry)
}

/// The operands of `op` whose elements decide extents of its result, where it has such.
pub(crate) fn deciding_operands(body: &Body, op: OpId) -> Vec<usize> {
    let name = short_name(body.op_name(op).as_str());
    if name == "arange" {
        return vec![0, 1, 2];
    }
    let arguments = name.strip_prefix("dyn.").and_then(|name| {
        let (_, arguments) = OPERATORS.iter().find(|(operator, _)| *operator == name)?;
        arguments.iter().all(|(_, _, form)| !matches!(form, Pairs)).then_some(arguments)
    });
    let arguments = arguments.map_or(&[][..], |arguments| arguments);
    arguments.iter().map(|(index, _, _)| *index).collect()
}

/// Number of dynamic operators in `body`.
fn dynamic_operators(body: &Body) -> u64 {
    body.walk().filter(|op| is_dynamic(body.op_name(*op))).count() as u64
}

fn is_dynamic(name: Symbol) -> bool {
    short_name(name.as_str()).starts_with("dyn.")
}

/// Gives `op` its static form where its arguments are constant, and a type with fewer `?` where its
/// operands have such; the operation that is there then.
fn make_static(f: &mut FuncMut<'_>, op: OpId) -> Result<OpId, Diagnostics> {
    let name = f.body.op_name(op);
    let form = if is_dynamic(name) { static_form(f, op) } else { None };
    let loc = f.body.loc(op).by_pass("dynamic-to-static");
    if let Some((name, operands, attrs)) = form
        // An operator that fails on its arguments is left for run time.
        && let Ok(value) = f.build_named(InsertPoint::Before(op), loc, name, &operands, attrs)
    {
        emit::replace(f, op, value);
        return Ok(f.body.defining_op(value).expect("an operation was built"));
    }
    if f.body.result_count(op) == 1 && !f.body.has_regions(op) {
        let value = f.body.result(op, 0);
        let (declared, found) = (f.body.ty(value), fold_constant::result(f, op));
        let is_known = !found.facts().has_unknown && verify::compatible(found, declared);
        if is_open(declared) && found != declared && is_known {
            f.body.set_ty(value, found);
        }
    }
    Ok(op)
}

/// The static twin of `op`; `None` where an argument is not constant or does not fit.
fn static_form(f: &FuncMut<'_>, op: OpId) -> Option<(Symbol, Vec<ValueId>, AttrDict)> {
    let dynamic = short_name(f.body.op_name(op).as_str()).strip_prefix("dyn.")?;
    let (text, arguments) = OPERATORS.iter().find(|(name, _)| *name == dynamic)?;
    let name = operator(text);
    let mut attrs = f.body.attrs(op);
    for (index, key, form) in *arguments {
        let constant = f.registry.constant(f.body, f.body.operand(op, *index))?;
        let AttrData::Tensor(tensor) = constant.data() else { return None };
        attrs = attrs.with(*key, &argument(tensor, *form)?);
    }
    let attrs = f.registry.def(name)?.normalize_attrs(attrs).ok()?;
    let is_operand = |index: &usize| arguments.iter().all(|(argument, _, _)| argument != index);
    let operands = (0..f.body.operand_count(op))
        .filter(is_operand)
        .map(|index| f.body.operand(op, index))
        .collect();
    Some((name, operands, attrs))
}

fn argument(tensor: &TensorData, form: Form) -> Option<Attr> {
    let numbers: Vec<Attr> = match tensor.dtype().is_float() {
        true => tensor.to_f64().iter().map(Attr::of).collect(),
        false => tensor.to_i64().iter().map(Attr::of).collect(),
    };
    match form {
        Scalar => numbers.first().copied(),
        List => Some(Attr::new(AttrData::Array(numbers.into()))),
        Pairs => {
            let pairs = numbers.chunks_exact(2);
            Some(Attr::of(&pairs.map(<[Attr]>::to_vec).collect::<Vec<_>>()))
        }
    }
}
