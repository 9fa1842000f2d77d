//! From whole programs to functions that own what they compute with.

mod data;
mod function;
mod matches;
mod open;
mod order;
mod shapes;
mod sized;
mod slices;
mod tails;

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    AttrDict, Body, Diagnostic, Fingerprint, Item, Module, ModulePass, Pass, PassContext,
    PassResult, Registry, Symbol, Type, fingerprint,
};
use relay::inference::{DataTypes, data_types};
use relay::language::{EXTERNAL, FUNC, TYPE};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::lower_te::function::Function;
use crate::lower_te::problems::{self, Problem, Problems};
use crate::open_kernels::OpenKernels;
use data::Data;
pub use data::without_extents;

/// Lowers programs that are more than a list of kernels.
///
/// Every function that `@main` reaches becomes one of the dialect `prog`: branches and matches choose
/// blocks, calls whose result is that of the function take no memory, and every value says who owns
/// it. Tuples are taken apart. Operators and kernels (`Primitive=1`) become calls of compute functions
/// (`te.func`), as `lower-te` writes them, where their extents are known; others are computed by whoever runs
/// the program. Data types become one for each choice of their parameters.
///
/// The program must be first-order, and each value of one type: run `defunctionalize` first. A program
/// that is a list of kernels is left to `lower-te`. What cannot be lowered is reported all at once.
///
/// ```relay
/// def @count(%i: int32) -> int32 {
///   if (less(%i, 10)) {
///     @count(add(%i, 1))
///   } else {
///     %i
///   }
/// }
/// def @main(%i: int32) -> int32 { @count(%i) }
/// ```
/// becomes
/// ```relay
/// prog.func @main(%i: int32) -> int32 {
///   tail @count(%i)
/// }
///
/// prog.func @count(%i: int32) -> int32 {
///   %0: bool = kernel @less(%i)
///   %1: int32 = if %0 {
///     %2: int32 = kernel @add(%i)
///     tail @count(%2)
///   } else {
///     yield %i
///   }
///   yield %1
/// }
///
/// te.func @less(%i: int32) -> bool {
///   less[] = %i[] < 10i32
///   return less
/// }
///
/// te.func @add(%i: int32) -> int32 {
///   add[] = %i[] + 1i32
///   return add
/// }
/// ```
#[derive(Pass)]
#[pass(name = "lower-prog", module)]
pub struct LowerProg {
    /// Whether nobody computes operators while the program runs, as in a package: those that have no kernels
    /// are errors, and extents for which a kernel is not written end the program.
    #[default(false)]
    pub packaged: bool,
}

impl ModulePass for LowerProg {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let main = Symbol::new("main");
        let item = module.get(main).filter(|item| item.signature.op == FUNC);
        let Some(body) = item.and_then(|item| item.body.clone()) else {
            return Err(Diagnostic::error("E0620", "there is no function `@main` to lower")
                .help("call the function to lower `@main`")
                .into());
        };
        if problems::check(&body, cx.registry).are_of_kernels() {
            return Ok(());
        }
        let signatures = module.signatures();
        let mut lowering =
            Lowering::new(module, cx.registry, data_types(&signatures), self.packaged);
        let (mut reached, mut pending) = (FxHashSet::from_iter([main]), vec![main]);
        let mut failed = false;
        while let Some(name) = pending.pop() {
            let Some(item) = module.get(name) else { continue };
            let mut problems = Problems::default();
            let lowered = lowering.function(name, item, &mut problems);
            failed |= !problems.is_empty();
            problems.report(item.signature.span, cx);
            if let Some(lowered) = lowered {
                lowering.functions.insert(name, lowered.item);
                let new = lowered.callees.into_iter().filter(|callee| reached.insert(*callee));
                pending.extend(new.collect::<Vec<_>>().into_iter().rev());
            }
        }
        if failed {
            return Ok(());
        }
        let Lowering { functions, data, new, .. } = lowering;
        cx.count("functions", functions.len() as u64);
        cx.count("compute functions", new.len() as u64);
        module
            .items
            .retain(|_, item| ![FUNC, TYPE, EXTERNAL].contains(&item.signature.op.as_str()));
        module.items.extend(data.into_items());
        module.items.extend(functions);
        module.items.extend(new);
        Ok(())
    }
}

/// What becomes of a program.
struct Lowering<'a> {
    /// Whether nobody computes operators while the program runs.
    packaged: bool,
    module: &'a Module,
    registry: &'a Registry,
    types: Arc<DataTypes>,
    data: Data,
    functions: IndexMap<Symbol, Item, FxBuildHasher>,
    /// The compute functions.
    new: IndexMap<Symbol, Item, FxBuildHasher>,
    /// Their names.
    names: FreshNames,
    /// They by the fingerprints of their bodies.
    equal: FxHashMap<Fingerprint, Symbol>,
    /// The kernels of operators on tensors of unknown extents, by the fingerprints of these as a function,
    /// of whose last parameters so many decide extents; or why there are none.
    open: FxHashMap<(Fingerprint, usize), Result<Rc<[OpenKernels]>, Rc<str>>>,
}

/// A function of the program.
struct Lowered {
    item: Item,
    /// The functions that it calls, in order.
    callees: Vec<Symbol>,
}

impl<'a> Lowering<'a> {
    fn new(
        module: &'a Module,
        registry: &'a Registry,
        types: Arc<DataTypes>,
        packaged: bool,
    ) -> Lowering<'a> {
        Lowering {
            packaged,
            module,
            registry,
            types,
            data: Data::new(types_of(module)),
            functions: IndexMap::default(),
            new: IndexMap::default(),
            names: FreshNames::default(),
            equal: FxHashMap::default(),
            open: FxHashMap::default(),
        }
    }

    /// The name of a compute function, or of an equal one that is there already.
    fn add(&mut self, function: Function) -> Symbol {
        let body = function.item.body.as_deref().map(fingerprint::fingerprint);
        if let Some(name) = body.and_then(|body| self.equal.get(&body)) {
            return *name;
        }
        let is_taken =
            |name: Symbol| self.module.items.contains_key(&name) || self.new.contains_key(&name);
        let name = self.names.fresh(&function.name, "_", is_taken);
        self.equal.extend(body.map(|body| (body, name)));
        self.new.insert(name, function.item);
        name
    }

    /// The types of the values that a value of type `ty` becomes.
    fn flat(&mut self, ty: Type) -> Result<Vec<Type>, Problem> {
        self.data.flat(ty, &self.types)
    }

    /// Lowers the function `name`; `None` where it cannot be.
    fn function(&mut self, name: Symbol, item: &Item, problems: &mut Problems) -> Option<Lowered> {
        let (Some(body), Some(ty)) = (item.body.as_deref(), item.signature.ty.as_function()) else {
            problems.add(Problem::Call(name.to_string()), ir_core::Loc::UNKNOWN);
            return None;
        };
        let results = match self.flat(ty.result) {
            Ok(results) => results,
            Err(problem) => {
                problems.add(problem, ir_core::Loc::UNKNOWN);
                return None;
            }
        };
        let mut writer = function::Writer::new(self, body, results.clone());
        let params = writer.parameters(problems)?;
        writer.blocks(problems);
        let (mut new, callees): (Body, Vec<Symbol>) = writer.finish();
        if !problems.is_empty() {
            return None;
        }
        tails::mark(&mut new);
        prog::ownership::insert(&mut new);
        let ty = Type::function(params, prog::result_type(results));
        let mut item = Item::new(prog::FUNC, ty, Some(new));
        item.signature.span = self.module.get(name).and_then(|item| item.signature.span);
        item.signature.attrs = AttrDict::empty();
        Some(Lowered { item, callees })
    }
}

/// The types of the values in the functions of `module`.
fn types_of(module: &Module) -> impl Iterator<Item = Type> {
    let bodies = module.items.values().filter(|item| item.signature.op == FUNC);
    let bodies = bodies.filter_map(|item| item.body.as_deref());
    bodies.flat_map(|body| {
        let blocks = body.walk_blocks();
        let args = blocks.flat_map(|block| body.block_args(block).iter().copied());
        args.chain(body.walk().flat_map(|op| body.results(op))).map(|value| body.ty(value))
    })
}
