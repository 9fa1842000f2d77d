//! Known extents in the place of those that inputs decide.

use ir_core::{
    Body, Diagnostic, Diagnostics, Dim, DimExprData, FunctionType, Item, Module, ModulePass, Pass,
    PassContext, PassResult, Registry, Symbol, TensorType, Type, TypeData, TypeParam, ValueId,
};
use relay::language::{Call, FUNC};
use relay_operators::CountsElements;
use rustc_hash::FxHashSet;

use crate::codes::BIND;
use crate::extents::{infer_again, instantiate, is_open};
use crate::specialize::types::{Substitution, substitute};

/// Gives the extents of the parameters of `@main` that are `?` or shape parameters their numbers, and
/// infers types again.
///
/// What follows from these extents is then known: run `dynamic-to-static` behind it for operators whose
/// shapes are computed from them, and for functions that are called with them. Where the program
/// contradicts the numbers, as where two of them would have to be equal, that is an error at the place.
///
/// ```relay
/// def @main[n](%x: Tensor[(n, 2), float32], %y: Tensor[(?, 2), float32]) {
///   add(%x, %y)
/// }
/// ```
/// becomes, with `extents=n:3+y.0:1`,
/// ```relay
/// def @main(%x: Tensor[(3, 2), float32], %y: Tensor[(1, 2), float32]) -> Tensor[(3, 2), float32] {
///   add(%x, %y)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "bind-extents", module)]
pub struct BindExtents {
    /// The numbers, joined with `+`: `n:3` for the shape parameter `n`, `x.0:3` for axis 0 of the
    /// parameter `%x`, and `x.1.0:3` for axis 0 of field 1 of a parameter that is a tuple.
    #[default(vec![])]
    pub extents: Vec<String>,
}

impl ModulePass for BindExtents {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        if self.extents.is_empty() {
            return Ok(());
        }
        let types = self.types(module)?;
        for error in bind_extents(module, cx.registry, &types) {
            cx.report(error);
        }
        Ok(())
    }
}

impl BindExtents {
    /// The types that the parameters of `@main` get.
    fn types(&self, module: &Module) -> Result<Vec<Type>, Diagnostic> {
        let item = main_of(module)?;
        let span = item.signature.span;
        let (body, ty) = (item.body.as_ref(), item.signature.ty.as_function());
        let (Some(body), Some(function)) = (body, ty) else { return Ok(vec![]) };
        let mut map = Substitution::default();
        let mut axes: Vec<(usize, Vec<usize>, i64)> = vec![];
        for text in &self.extents {
            let wrong = || {
                let message = format!("expected `NAME:N` or `PARAMETER.AXIS:N`, found `{text}`");
                let help = "name a shape parameter of `@main`, or a parameter and one of its axes";
                Diagnostic::error(BIND, message).at(span).help(help)
            };
            let (key, number) = text.rsplit_once(':').ok_or_else(wrong)?;
            let number: i64 =
                number.parse().ok().filter(|number| *number >= 0).ok_or_else(wrong)?;
            let name = Symbol::new(key);
            if function.type_params.contains(&name) {
                map.insert(name, TypeParam::Dim(Dim::Known(number)));
                continue;
            }
            let (param, path) = axis(body, key).ok_or_else(|| {
                let message = format!("`@main` has no extent called `{key}`");
                Diagnostic::error(BIND, message).at(span).help(nameable(body, function))
            })?;
            axes.push((param, path, number));
        }
        let mut types: Vec<Type> =
            function.params.iter().map(|param| substitute(*param, &map)).collect();
        for (param, path, number) in axes {
            let ty = with_extent(types[param], &path, number).ok_or_else(|| {
                let message = format!("{} has no such axis", types[param]);
                Diagnostic::error(BIND, message).at(span)
            })?;
            types[param] = ty;
        }
        Ok(types)
    }
}

/// At most so many names are in a help text.
const MOST_NAMES: usize = 8;

/// Which extents of a function may be named: some that are not known, of parameters that are tensors.
fn nameable(body: &Body, function: &FunctionType) -> String {
    let params = body.block_args(body.entry()).iter().enumerate().zip(&function.params);
    let open = params.flat_map(|((index, param), ty)| {
        let name = name_of(body, index, *param);
        let shape = ty.as_tensor().map_or(&[][..], |tensor| &tensor.shape);
        let is_open = |dim: &Dim| !matches!(dim, Dim::Known(_));
        let axes = shape.iter().enumerate().filter(move |(_, dim)| is_open(dim));
        axes.map(|(axis, _)| format!("`{name}.{axis}`")).collect::<Vec<_>>()
    });
    let named = function.type_params.iter().map(|name| format!("`{name}`"));
    let names: Vec<String> = named.chain(open).take(MOST_NAMES).collect();
    match names.is_empty() {
        true => "name a shape parameter of `@main`, or a parameter and one of its axes".to_string(),
        false => format!("name an extent that is not known, such as {}", names.join(", ")),
    }
}

/// What parameter `index` is called where its extents are named.
fn name_of(body: &Body, index: usize, param: ValueId) -> String {
    body.name_hint(param).name.map_or_else(|| format!("arg{index}"), |name| name.to_string())
}

/// The parameter of `body` that `key` starts with, and the numbers behind it.
fn axis(body: &Body, key: &str) -> Option<(usize, Vec<usize>)> {
    body.block_args(body.entry()).iter().enumerate().find_map(|(index, param)| {
        let name = name_of(body, index, *param);
        let path = key.strip_prefix(name.as_str())?.strip_prefix('.')?;
        let path = path.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        Some((index, path))
    })
}

/// `ty` with `number` for the extent that `path` leads to: fields of tuples, and last an axis.
fn with_extent(ty: Type, path: &[usize], number: i64) -> Option<Type> {
    let mut around = vec![];
    let mut inner = ty;
    let (axis, fields) = path.split_last()?;
    for field in fields {
        let types = inner.as_tuple()?;
        around.push((types, *field));
        inner = *types.get(*field)?;
    }
    let mut tensor: TensorType = inner.as_tensor()?.clone();
    *tensor.shape.get_mut(*axis)? = Dim::Known(number);
    let mut new = Type::new(TypeData::Tensor(tensor));
    while let Some((types, field)) = around.pop() {
        let with = |(index, ty): (usize, &Type)| if index == field { new } else { *ty };
        new = Type::tuple(types.iter().enumerate().map(with).collect::<Vec<_>>());
    }
    Some(new)
}

fn main_of(module: &Module) -> Result<&Item, Diagnostic> {
    let item = module.get("main").filter(|item| item.signature.op == FUNC);
    item.ok_or_else(|| {
        Diagnostic::error("E0620", "there is no function `@main` whose extents could be known")
            .help("call the function to compile `@main`")
    })
}

/// Gives the parameters of `@main` the types `given`, which are its own but for extents, and infers types
/// again. What is known afterwards is right for inputs of these types only.
///
/// The errors: where extents contradict each other, or the program. Then the module is nothing in
/// particular.
pub fn bind_extents(module: &mut Module, registry: &Registry, given: &[Type]) -> Diagnostics {
    let (types, map) = match bound(module, given) {
        Ok(bound) => bound,
        Err(error) => return error.into(),
    };
    if let Some(item) = module.items.get_mut(&Symbol::new("main")) {
        instantiate(item, &types, &map);
    }
    infer_again(module, registry)
}

/// The types of the parameters, and what shape parameters stand for.
fn bound(module: &Module, given: &[Type]) -> Result<(Vec<Type>, Substitution), Diagnostic> {
    let item = main_of(module)?;
    let error = |message: String| {
        Diagnostic::error(BIND, message)
            .at(item.signature.span)
            .help("give the parameters arrays whose extents fit together")
    };
    let Some(function) = item.signature.ty.as_function() else { return Ok(Default::default()) };
    let mut map = Substitution::default();
    let pairs = || function.params.iter().copied().zip(given.iter().copied());
    for (declared, given) in pairs().flat_map(tensors) {
        for (dim, extent) in declared.shape.iter().zip(&given.shape) {
            let (Dim::Expr(expr), Dim::Known(extent)) = (dim, extent) else { continue };
            let DimExprData::Parameter(name) = expr.data() else { continue };
            let known = map.entry(name).or_insert(TypeParam::Dim(Dim::Known(*extent)));
            if let TypeParam::Dim(Dim::Known(known)) = known
                && known != extent
            {
                return Err(error(format!("the extent `{name}` is both {known} and {extent}")));
            }
        }
    }
    for (declared, given) in pairs().flat_map(tensors) {
        for (dim, extent) in declared.shape.iter().zip(&given.shape) {
            let ty = Type::tensor([*dim], declared.dtype);
            let expected = substitute(ty, &map);
            if let Some([Dim::Known(expected)]) = expected.as_tensor().map(|ty| ty.shape.as_slice())
                && let Dim::Known(extent) = extent
                && expected != extent
            {
                return Err(error(format!("the extent `{dim}` is {expected}, found {extent}")));
            }
        }
    }
    let known = |(declared, given): (Type, Type)| match is_open(declared) {
        true => given,
        false => substitute(declared, &map),
    };
    let types = pairs().map(known).collect();
    Ok((types, map))
}

/// The tensors of two types that differ in extents only.
fn tensors((declared, given): (Type, Type)) -> Vec<(&'static TensorType, &'static TensorType)> {
    let (mut found, mut pending) = (vec![], vec![(declared, given)]);
    while let Some((declared, given)) = pending.pop() {
        match (declared.data(), given.data()) {
            (TypeData::Tensor(declared), TypeData::Tensor(given)) => found.push((declared, given)),
            (TypeData::Tuple(declared), TypeData::Tuple(given)) => {
                pending.extend(declared.iter().copied().zip(given.iter().copied()).rev());
            }
            _ => {}
        }
    }
    found
}

/// The most elements of a parameter that says extents.
const MOST_EXTENTS: i64 = 16;

/// The parameters of `@main`, small vectors of integers or scalars, whose elements decide extents in its
/// body: what operators such as `dyn.reshape` and `arange` compute their shapes from.
pub fn deciding_parameters(module: &Module, registry: &Registry) -> Vec<usize> {
    let Some(body) = module.body(Symbol::new("main")) else { return vec![] };
    let is_small = |value: ValueId| {
        let tensor = body.ty(value).as_tensor().filter(|tensor| tensor.dtype.is_integer());
        let shape = tensor.and_then(|tensor| tensor.known_shape());
        shape.is_some_and(|shape| shape.iter().product::<i64>() <= MOST_EXTENTS)
    };
    let mut pending: Vec<ValueId> = vec![];
    for op in body.walk().filter(|op| !body.has_regions(*op)) {
        let is_cause = body.results(op).any(|result| is_open(body.ty(result)))
            && !body.is::<Call>(op)
            && !body.operands(op).any(|operand| is_open(body.ty(operand)))
            && registry.hook::<CountsElements>(body.op_name(op)).is_none();
        if is_cause {
            pending.extend(body.operands(op));
        }
    }
    let params = body.block_args(body.entry());
    let mut reached: FxHashSet<ValueId> = FxHashSet::default();
    while let Some(value) = pending.pop() {
        if !reached.insert(value) {
            continue;
        }
        if let Some(op) = body.defining_op(value).filter(|op| !body.has_regions(*op)) {
            pending.extend(body.operands(op));
        }
    }
    let decides = |param: &ValueId| reached.contains(param) && is_small(*param);
    (0..params.len()).filter(|index| decides(&params[*index])).collect()
}
