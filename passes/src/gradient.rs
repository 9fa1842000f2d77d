//! Reverse-mode automatic differentiation.

mod activity;
mod changes;
pub(crate) mod checkpoint;
mod custom;
mod emitter;
mod expand;
mod form;
mod forward;
mod functions;
mod reverse;

use std::cell::RefCell;

use ir_core::pass::OptionValue;
use ir_core::pipeline::{Pipeline, Step};
use ir_core::{
    Body, Diagnostic, Diagnostics, FuncMut, InsertPoint, Item, Module, ModulePass, OpFields, OpId,
    Pass, PassContext, PassResult, Registry, Span, Symbol, Type, TypeData, ValueId,
};
use relay::language::{
    Call, FUNC, Fn, Global, RefCreate, RefRead, fn_attributes, is_form, is_primitive, short_name,
    yielded,
};
use relay_operators::gradient::{Change, Term};
use rustc_hash::FxHashSet;

use crate::codes::{NO_GRADIENT, NOT_DIFFERENTIABLE};
use crate::emit::erase_unused;
use crate::inline::Inline;
use crate::pipelines;
use crate::remove_unused_functions::RemoveUnusedFunctions;
use crate::specialize::types::any_part;
pub(crate) use activity::callee;
use activity::{Active, active_values};
pub(crate) use changes::Changes;
pub use checkpoint::Checkpoint;
pub(crate) use custom::{RULE, check as check_rule, rule};
use emitter::Emitter;
pub use expand::ExpandGrad;
use forward::{Declared, give_tapes};
use functions::{Program, declare_tapes, name_pairs};
use reverse::{Forward, Values, reverse};

/// Makes `@main` give its value and its gradient: for each parameter, how much the sum of all elements of
/// the value changes with each of its elements.
///
/// The result is `(value, (gradient of each parameter, ...))`. A parameter without floats has the empty
/// tuple for its gradient; where the value is a tuple or data, the sum is of all its tensors of floats. Each
/// operator says how it is differentiated. What is computed is written in the order of the program, once,
/// and what is zero or one is known and not written. The cost is linear.
///
/// A program with branches, calls, functions that are values, data or cells is brought down to functions of
/// the module and data first, as `specialize`, `partial-eval`, `refs-to-values` and `defunctionalize` do.
/// Then branches and calls give *tapes* beside their values: data that says which branch was taken and holds
/// what the way back reads. A function `@f` becomes `@f_forward`, which gives the value and the tape, and
/// `@f_backward`, which takes the tape and the change of the value; and, where it is recursive and no loop, the
/// changes behind the call of the tensors that it hands on, to which it adds its own. The gradient by data is data, of a type
/// with a constructor `CChange` for each constructor `C` that has floats, and one for what does not change.
///
/// The tape of a loop, a function that calls itself as its end alone, is as long as it has steps. With `checkpoint`,
/// `@f_forward` keeps states before some steps instead, and `@f_backward` computes the steps behind them again: with
/// `sqrt`, about `sqrt(2n)` states, and each step twice; with `log`, about `log2(n)` states, and each step about
/// `log2(n) / 2 + 2` times. Loops of as many steps as the program says are not unrolled then. Functions that call
/// themselves otherwise, that are called by what they call, or that read or write cells, keep their tapes.
///
/// What changes values without their derivatives, such as `simplify-inference`, and what chooses layouts or
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
#[pass(
    name = "gradient",
    module,
    never_after = "simplify-inference alter-op-layout convert-layout fuse"
)]
pub struct Gradients {
    /// The parameters whose gradients are wanted, by name, joined with `+`; none means all.
    #[default(vec![])]
    pub wrt: Vec<String>,
    /// Whether the gradient is of the sum of the value's elements, each times that of a further, last
    /// parameter of the type of the value.
    #[default(false)]
    pub weighted: bool,
    /// What the result looks like: `values` are the value with the gradients; `closures` are the value with
    /// the function that gives the gradients, of the change of the value (Pearlmutter and Siskind 2008).
    #[default(Form::Values)]
    pub form: Form,
    /// What is kept of loops for the way back: with `none`, what each step computed; with `sqrt` and `log`, the
    /// states before a few steps, from which the others are computed again.
    #[default(Checkpoint::None)]
    pub checkpoint: Checkpoint,
}

/// What the gradient of a program looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The value with the gradients.
    Values,
    /// The value with a function from its change to those of the parameters.
    Closures,
}

impl OptionValue for Form {
    const EXPECTS: &'static str = "values or closures";
    fn parse(text: &str) -> Option<Form> {
        match text {
            "values" => Some(Form::Values),
            "closures" => Some(Form::Closures),
            _ => None,
        }
    }
    fn print(&self) -> String {
        match self {
            Form::Values => "values".to_string(),
            Form::Closures => "closures".to_string(),
        }
    }
}

impl ModulePass for Gradients {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let name = Symbol::new("main");
        let has_main = |module: &Module| {
            let main = module.get(name).filter(|item| item.signature.op == FUNC);
            main.is_some_and(|item| item.body.is_some())
        };
        if !has_main(module) {
            let message = "there is no function `@main` to differentiate";
            let help = "call the function `@main`";
            return Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).help(help).into());
        }
        if self.weighted && self.form == Form::Closures {
            let message = "`weighted` and `form=closures` do not go together";
            let help = "the function that `form=closures` gives takes the weights";
            return Err(Diagnostic::error(NOT_DIFFERENTIABLE, message).help(help).into());
        }
        expand_gradients(module, self.checkpoint, cx)?;
        normalize(module, self.checkpoint, cx)?;
        copy_called_main(module);
        let wanted = {
            let mut wanted = vec![];
            with_main(module, cx.registry, |f| {
                let params = f.body.block_args(f.body.entry()).to_vec();
                let places = self.wanted(f)?.into_iter().map(|value| {
                    let place = params.iter().position(|param| *param == value);
                    place.expect("what is wanted is a parameter")
                });
                wanted.extend(places);
                Ok(())
            })?;
            wanted
        };
        match self.form {
            Form::Values => {
                let weighted = self.weighted;
                let roots = [Root { name, wanted, weighted }];
                let functions = differentiate_roots(module, &roots, self.checkpoint, cx)?;
                cx.count("functions", functions);
                // Others may have been called by what is in pairs now.
                if functions == 0 { Ok(()) } else { remove_unused_functions(module, cx) }
            }
            Form::Closures => {
                let functions = form::closures(module, (name, &wanted), self.checkpoint, cx)?;
                cx.count("functions", functions);
                remove_unused_functions(module, cx)
            }
        }
    }
}

/// Puts the gradient in the place of each `grad` that `@main` reaches.
pub(crate) fn expand_gradients(
    module: &mut Module,
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> PassResult {
    expand::expand(module, &["main".to_string()], checkpoint, cx)
}

/// Removes the functions that nothing calls.
pub(crate) fn remove_unused_functions(module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
    pipelines::apply(&Pipeline::from([Step::of::<RemoveUnusedFunctions>()]), module, cx)
}

/// A function that comes to give its value and its gradients.
struct Root {
    name: Symbol,
    /// The parameters by which, by number.
    wanted: Vec<usize>,
    /// Whether the weights of the value are a further parameter.
    weighted: bool,
}

/// Makes functions of `module`, none of which calls another one of them, give their values and their
/// gradients, and the functions that they call pairs, which it counts.
fn differentiate_roots(
    module: &mut Module,
    roots: &[Root],
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> Result<u64, Diagnostics> {
    let mut before = module.clone();
    let mut data = Changes::of(&before);
    let mut starts = vec![];
    for root in roots {
        let item = &before.items[&root.name];
        let body = item.body.as_deref().expect("what is differentiated has a body");
        let params = body.block_args(body.entry());
        let wanted: Vec<ValueId> = root.wanted.iter().map(|place| params[*place]).collect();
        let has_floats = |ty: Type| data.is_differentiable(ty);
        custom::refuse_rule_of_root(root.name, &item.signature)?;
        refuse_value_without_floats(root.name, item, &has_floats)?;
        let active = active_values(body, wanted.iter().copied(), &has_floats);
        starts.push((wanted, active));
    }
    let body_of = |root: &Root| {
        let body = before.items[&root.name].body.as_deref();
        body.expect("what is differentiated has a body")
    };
    let mut functions = {
        let starts = roots.iter().zip(&starts).map(|(root, (_, active))| (body_of(root), active));
        activity::functions(&before, starts, &|ty| data.is_differentiable(ty))
    };
    let mut found = refuse_writes(&before, &functions, &data);
    for (root, (_, active)) in roots.iter().zip(&starts) {
        let span = before.items[&root.name].signature.span;
        found.extend(activity::refuse_writes(body_of(root), span, active));
    }
    let loops = checkpoint::split(&mut before, &mut functions, &mut data, checkpoint, cx.registry);
    let pairs = name_pairs(&before, &functions, &mut data)?;
    let signatures = before.signatures();
    let data = RefCell::new(data);
    let program = Program {
        module: &before,
        signatures: &signatures,
        registry: cx.registry,
        pairs: &pairs,
        loops: &loops,
        data: &data,
    };
    for (root, (wanted, mut active)) in roots.iter().zip(starts) {
        let mut item = before.items[&root.name].clone();
        let Item { signature, body: Some(body) } = &mut item else { continue };
        let body = std::sync::Arc::make_mut(body);
        let (name, registry) = (root.name, cx.registry);
        let mut f = FuncMut { name, signature, body, signatures: &signatures, registry };
        match differentiate(&mut f, &wanted, root.weighted, &program, &mut active) {
            Ok(declared) => {
                module.items.insert(name, item);
                declare_tapes(module, declared);
            }
            Err(errors) => found.extend(errors),
        }
    }
    program.differentiate_all(module, found)?;
    data.into_inner().finish(module);
    cx.count("checkpointed", loops.len() as u64);
    Ok(pairs.len() as u64)
}

/// The errors about writes of what matters to cells, in `functions`, whose flagged parameters do.
fn refuse_writes(module: &Module, functions: &Active, data: &Changes) -> Diagnostics {
    let writes = functions.iter().flat_map(|(name, flags)| {
        let item = &module.items[name];
        let body = item.body.as_deref().filter(|_| custom::rule(&item.signature).is_none());
        let found = body.map(|body| {
            let params = body.block_args(body.entry()).iter().zip(flags);
            let wanted = params.filter(|(_, flag)| **flag).map(|(param, _)| *param);
            let active = active_values(body, wanted, &|ty| data.is_differentiable(ty));
            activity::refuse_writes(body, item.signature.span, &active)
        });
        found.unwrap_or_default()
    });
    writes.collect()
}

/// Errors where nothing of the value of function `name` has derivatives.
fn refuse_value_without_floats(
    name: Symbol,
    item: &Item,
    has_floats: &dyn std::ops::Fn(Type) -> bool,
) -> PassResult {
    let body = item.body.as_deref();
    let result = body.and_then(|body| Some(body.ty(yielded(body, body.entry())?)));
    match result.filter(|ty| !has_floats(*ty)) {
        None => Ok(()),
        Some(ty) => {
            let message = format!("the value of `@{name}`, of type {ty}, has no derivatives");
            let help = "give a tensor of floats: what is chosen or counted does not change by small amounts";
            let error = Diagnostic::error(NOT_DIFFERENTIABLE, message).at(item.signature.span);
            Err(error.help(help).into())
        }
    }
}

impl Gradients {
    /// The gradient by the parameters `wrt`.
    pub(crate) fn of(wrt: Vec<String>, weighted: bool) -> Gradients {
        Gradients { wrt, weighted, form: Form::Values, checkpoint: Checkpoint::None }
    }

    /// The parameters whose gradients are wanted.
    pub(crate) fn wanted(&self, f: &FuncMut<'_>) -> Result<Vec<ValueId>, Diagnostics> {
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
        let wanted = self.wrt.iter().map(named).collect::<Result<Vec<ValueId>, Diagnostics>>()?;
        let twice =
            wanted.iter().enumerate().find(|(place, param)| wanted[..*place].contains(param));
        if let Some((place, _)) = twice {
            let name = self.wrt[place].trim_start_matches('%');
            let error =
                Diagnostic::error(NOT_DIFFERENTIABLE, format!("`wrt` names `%{name}` twice"));
            return Err(error.at(f.base()).help("name each parameter once").into());
        }
        Ok(wanted)
    }
}

/// Edits `@main` of `module`, which has a body.
pub(crate) fn with_main(
    module: &mut Module,
    registry: &Registry,
    edit: impl FnOnce(&mut FuncMut<'_>) -> PassResult,
) -> PassResult {
    let signatures = module.signatures();
    let name = Symbol::new("main");
    let Some(Item { signature, body: Some(body) }) = module.items.get_mut(&name) else {
        unreachable!("what has a gradient has a body")
    };
    let body = std::sync::Arc::make_mut(body);
    edit(&mut FuncMut { name, signature, body, signatures: &signatures, registry })
}

/// Gives a function the type that its parameters and its value have.
pub(crate) fn set_function_type(f: &mut FuncMut<'_>) {
    let function = f.signature.ty.as_function().expect("a function has the type of one");
    let mut function = function.clone();
    let params = f.body.block_args(f.body.entry()).iter();
    function.params = params.map(|param| f.body.ty(*param)).collect();
    let value = yielded(f.body, f.body.entry()).expect("a function gives a value");
    function.result = f.body.ty(value);
    f.signature.ty = Type::new(TypeData::Function(function));
}

/// Why a value of the program cannot be differentiated.
fn refused(f: &FuncMut<'_>, op: OpId) -> Diagnostic {
    let name = f.body.op_name(op);
    let short = short_name(name.as_str());
    let error = |message: String, help: &str| {
        Diagnostic::error(NO_GRADIENT, message).at(f.op_span(op)).help(help)
    };
    let called = f.body.view(op).and_then(|call: Call| f.body.defining_op(call.callee));
    let is_kernel = called.is_some_and(|callee| match f.body.view::<Global>(callee) {
        Some(global) => {
            let callee = f.signatures.get(&global.name);
            callee.is_some_and(|signature| is_primitive(signature.attrs))
        }
        None => f.body.is::<Fn>(callee) && is_primitive(fn_attributes(f.body, callee)),
    });
    if is_kernel {
        return error(
            "a kernel has no gradient".to_string(),
            "run `gradient` before `fuse`, or `defuse` before `gradient`",
        );
    }
    match short {
        "call" | "fn" | "global" | "operator" => error(
            "a call of a function without a body has no gradient".to_string(),
            "define the function, or leave the parameters that it depends on out by `wrt`",
        ),
        "ref" | "ref_read" | "ref_write" => refused_cell(f.op_span(op)),
        _ if short.contains("NCHWc") => {
            error(format!("`{short}` has no gradient"), "run `gradient` before `alter-op-layout`")
        }
        _ => error(
            format!("`{short}` has no gradient"),
            "write it by operators that have one, or leave the parameters that it depends on out by `wrt`",
        ),
    }
}

/// Why an operator cannot be differentiated by its definition.
fn refused_definition(f: &FuncMut<'_>, op: OpId, reason: &str) -> Diagnostic {
    let name = f.body.op_name(op);
    let message = format!("`{}` has no gradient: {reason}", short_name(name.as_str()));
    Diagnostic::error(NO_GRADIENT, message).at(f.op_span(op)).help(
        "write it by operators that have one, or leave the parameters that it depends on out by `wrt`",
    )
}

/// Why cells that are left of a program cannot be differentiated.
fn refused_cell(place: Option<Span>) -> Diagnostic {
    Diagnostic::error(NO_GRADIENT, "a cell that outlives where it is made has no gradient")
        .at(place)
        .help("return the new value instead of writing it to a cell")
}

/// The errors about cells whose contents matter.
fn refused_cells(f: &FuncMut<'_>, active: &FxHashSet<ValueId>) -> Diagnostics {
    let is_cell = |op: &OpId| f.body.is::<RefCreate>(*op) || f.body.is::<RefRead>(*op);
    let cells = f.body.walk().filter(is_cell).filter(|op| active.contains(&f.body.result(*op, 0)));
    cells.map(|op| refused(f, op)).collect()
}

/// Brings `module` down to functions of the module and data, without functions that are values and without
/// type parameters, where `@main` is more than a list of operators on tensors and tuples.
pub(crate) fn normalize(
    module: &mut Module,
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> PassResult {
    let is_operator = |body: &Body, op: OpId| {
        let name = body.op_name(op);
        let is_form = is_form(short_name(name.as_str()));
        !is_form || ["constant", "tuple", "tuple_get", "yield"].contains(&short_name(name.as_str()))
    };
    // An extent for any number is a parameter as well, but one that need not be known.
    let is_any = |ty: Type| any_part(ty, &mut |part| matches!(part.data(), TypeData::Parameter(_)));
    let is_plain = |main: &Item| {
        main.body.as_deref().is_none_or(|body| {
            let params = body.block_args(body.entry());
            params.iter().map(|param| body.ty(*param)).all(|ty| !has_data(ty) && !is_any(ty))
                && body.walk().all(|op| is_operator(body, op))
        })
    };
    if module.get("main").is_none_or(is_plain) {
        return Ok(());
    }
    normalize_for(&["main".to_string()], module, checkpoint, cx)
}

/// Brings what the functions of `entry` reach down to functions of the module and data. Functions with rules
/// of their own stay, with their rules.
fn normalize_for(
    entry: &[String],
    module: &mut Module,
    checkpoint: Checkpoint,
    cx: &mut PassContext<'_>,
) -> PassResult {
    let rules = custom::rules(module)?;
    let own = rules.iter().flat_map(|(function, rule)| [function, rule]).map(Symbol::to_string);
    let entry: Vec<String> = entry.iter().cloned().chain(own).collect();
    let kept: Vec<Symbol> = rules.iter().map(|(function, _)| *function).collect();
    let kept = keep(module, &kept);
    let inline = Step::of::<Inline>().flag("all").with("entry", entry.join("+"));
    pipelines::apply(
        &pipelines::normalize_for(&entry, checkpoint != Checkpoint::None).then([inline]),
        module,
        cx,
    )?;
    for name in kept {
        if let Some(item) = module.items.get_mut(&name) {
            item.signature.attrs = item.signature.attrs.without(EXTERN);
        }
    }
    Ok(())
}

/// The attribute of functions that passes leave as they are.
const EXTERN: &str = "Extern";

/// Marks `functions` as such that passes leave as they are: those that were not before.
fn keep(module: &mut Module, functions: &[Symbol]) -> Vec<Symbol> {
    let mut kept = vec![];
    for name in functions {
        let Some(item) = module.items.get_mut(name) else { continue };
        if item.signature.attrs.get(EXTERN).is_none() {
            item.signature.attrs = item.signature.attrs.with(EXTERN, &1i64);
            kept.push(*name);
        }
    }
    kept
}

/// Calls of `@main` become calls of a copy of it, which stays as it is.
pub(crate) fn copy_called_main(module: &mut Module) {
    let main = Symbol::new("main");
    let refers = |body: &Body, op: OpId| body.view::<Global>(op).is_some_and(|g| g.name == main);
    let bodies = module.items.values().filter_map(|item| item.body.as_deref());
    let mut bodies = bodies.map(|body| body.walk().any(|op| refers(body, op)));
    if !bodies.any(|refers| refers) {
        return;
    }
    let copy = module.fresh_name("main");
    let item = module.items[&main].clone();
    module.items.insert(copy, item);
    for item in module.items.values_mut() {
        let Some(body) = item.body_mut() else { continue };
        for op in body.walk().filter(|op| refers(body, *op)).collect::<Vec<_>>() {
            body.set_attrs(op, OpFields::<ValueId>::attrs(&Global { name: copy }));
        }
    }
}

/// Makes `@main` give its value and the gradients of the parameters in `wanted`.
fn differentiate(
    f: &mut FuncMut<'_>,
    wanted: &[ValueId],
    weighted: bool,
    program: &Program<'_>,
    active: &mut FxHashSet<ValueId>,
) -> Result<Vec<Declared>, Diagnostics> {
    let cells = refused_cells(f, active);
    if !cells.is_empty() {
        return Err(cells);
    }
    let entry = f.body.entry();
    let (Some(value), Some(end)) = (yielded(f.body, entry), f.body.last_op(entry)) else {
        return Ok(vec![]);
    };
    let tapes = {
        let mut data = program.data.borrow_mut();
        give_tapes((program.module, f.name), f.body, active, program.pairs, &mut data)
    };
    let value = yielded(f.body, entry).unwrap_or(value);
    let ty = f.body.ty(value);
    let weight_ty = if has_data(ty) { program.data.borrow_mut().ty(ty) } else { ty };
    let weight = weighted.then(|| f.body.add_block_arg(entry, weight_ty));
    let loc = f.body.loc(end).by_pass("gradient");
    let last = (loc, Symbol::new("relay.yield"));
    let at = (InsertPoint::Before(end), entry);
    let emitter = Emitter::new(f, program.data, at, last);
    let (result, declared) = {
        let mut changes = Values::default();
        let start = match weight {
            Some(weight) => emitter.read(weight, ty),
            None => ones(&emitter, value, ty),
        };
        changes.insert(value, start);
        let forward = Forward { active, tapes: &tapes, pairs: program.pairs, accumulated: &[] };
        let (changes, declared) = reverse(&emitter, &forward, entry, changes);
        emitter.about(last.0, last.1);
        let gradients = wanted.iter().map(|param| {
            emitter.write(changes.get(param).unwrap_or(&Change::None), emitter.ty(*param))
        });
        let gradients = emitter.fields(&gradients.collect::<Vec<_>>());
        (emitter.fields(&[value, gradients]), declared)
    };
    let found = emitter.found();
    if !found.is_empty() {
        return Err(found);
    }
    f.body.set_operand(end, 0, result);
    set_function_type(f);
    // What rules computed and nobody wanted.
    let unused: Vec<OpId> = f.body.block_ops(entry).filter(|op| *op != end).collect();
    erase_unused(f, unused.into_iter().rev());
    Ok(declared)
}

/// Whether `ty` is data, or a tuple with some.
pub(crate) fn has_data(ty: Type) -> bool {
    any_part(ty, &mut |part| matches!(part.data(), TypeData::Named { .. }))
}

// Recursion is bounded by the nesting of types.
/// The change of `value`, of type `ty`, by which the sum of all its elements changes by 1 for each.
fn ones<'e>(emitter: &'e Emitter<'_, '_>, value: ValueId, ty: Type) -> Change<'e> {
    match ty.data() {
        _ if !emitter.is_differentiable(ty) => Change::None,
        TypeData::Tuple(fields) => Change::Tuple(
            fields
                .iter()
                .enumerate()
                .map(|(index, ty)| match has_data(*ty) {
                    true => ones(emitter, emitter.field(value, index), *ty),
                    false => ones(emitter, value, *ty),
                })
                .collect(),
        ),
        TypeData::Named { .. } => {
            let ones = emitter.data.borrow_mut().ones(ty);
            let change = emitter.change_type(ty);
            let change = emitter.call(ones, vec![value], change);
            emitter.read(change, ty)
        }
        _ => Change::Tensor(Term::filled(emitter, 1.0, ty)),
    }
}
