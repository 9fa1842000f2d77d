//! Many examples at once.

mod emitter;
mod held;
mod writer;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    Diagnostic, Diagnostics, Item, Module, ModulePass, Pass, PassContext, PassResult, Registry,
    Signatures, Symbol,
};
use relay::language::FUNC;
use rustc_hash::FxBuildHasher;

use self::held::Cells;
use crate::codes::NO_EXAMPLES;
use crate::gradient::{
    Checkpoint, copy_called_main, expand_gradients, normalize, remove_unused_functions,
};

/// Makes `@main` do for many examples at once what it does for one.
///
/// Each parameter has a leading axis, and so has each tensor of the result: `main'(x)[i] = main(x[i])`. Of data, and of
/// tensors whose extents are not known, there is a tuple with one for each example.
///
/// Operators do it in the fastest way that is known: pointwise ones with their shapes aligned, products of matrices as
/// `nn.batch_matmul`, convolutions with as many more images. What nothing better is known of becomes `batched` of it,
/// which is derived from its definition, or is written for each example where extents depend on it. What does not depend
/// on the parameters that are `over` examples is computed once.
///
/// A function `@f` that is called with what differs between examples becomes `@f_batched`. An `if` or `match` stays
/// where all examples do the same. Where they may not, it becomes a function that is called for each example, since
/// what an example does not choose may not end. Data are made, and taken apart, for each example.
///
/// A program with branches, calls, functions that are values, data or cells is brought down to functions of the module
/// and data first, as `gradient` does. Each example has its own cells; one that comes in and that all share holds
/// nothing that differs.
///
/// ```relay
/// def @main(%x: Tensor[(3), float32], %w: Tensor[(2, 3), float32]) {
///   nn.relu(nn.dense(%x, %w))
/// }
/// ```
/// becomes, with `size=8,over=x`,
/// ```relay
/// def @main(%x: Tensor[(8, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(8, 2), float32] {
///   %0 = nn.dense(%x, %w);
///   nn.relu(%0)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "vmap", module, never_after = "fuse")]
pub struct Vmap {
    /// The number of examples, 0 or more. It has to be given.
    #[default(None)]
    pub size: Option<usize>,
    /// The parameters that differ between examples, by name, joined with `+`; none means all. Examples share the others.
    #[default(vec![])]
    pub over: Vec<String>,
}

impl ModulePass for Vmap {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        let name = Symbol::new("main");
        let error = |message: String, help: String| -> PassResult {
            Err(Diagnostic::error(NO_EXAMPLES, message).help(help).into())
        };
        let main = module.get(name).filter(|item| item.signature.op == FUNC);
        if main.is_none_or(|item| item.body.is_none()) {
            let message = "there is no function `@main` for many examples".to_string();
            return error(message, "call the function `@main`".to_string());
        }
        let Some(extent) = self.size.and_then(|size| i64::try_from(size).ok()) else {
            let message = "`vmap` needs the number of examples".to_string();
            return error(message, "write `vmap{size=8}`".to_string());
        };
        expand_gradients(module, Checkpoint::None, cx)?;
        normalize(module, Checkpoint::None, cx)?;
        copy_called_main(module);
        let flags = self.flags(&module.items[&name])?;
        let before = module.clone();
        let signatures = before.signatures();
        let mut program = Program {
            before: &before,
            signatures: &signatures,
            registry: cx.registry,
            extent,
            cells: Cells::of(&before),
            module,
            names: FreshNames::default(),
            made: IndexMap::default(),
        };
        let functions = program.write_all(name, flags)?;
        cx.count("functions", functions);
        // Others may have been called by what is batched now.
        if functions == 0 { Ok(()) } else { remove_unused_functions(module, cx) }
    }
}

impl Vmap {
    /// Which parameters of `main` differ between examples.
    fn flags(&self, main: &Item) -> Result<Vec<bool>, Diagnostics> {
        let error = |message: String, help: String| -> Diagnostics {
            Diagnostic::error(NO_EXAMPLES, message).at(main.signature.span).help(help).into()
        };
        let body = main.body.as_deref().expect("it was looked for");
        let params = body.block_args(body.entry());
        let names = params.iter().map(|param| body.name_hint(*param).name);
        let names: Vec<Option<Symbol>> = names.collect();
        let mut flags = vec![self.over.is_empty(); params.len()];
        for text in &self.over {
            let name = text.strip_prefix('%').unwrap_or(text);
            let is_it = |hint: &Option<Symbol>| hint.is_some_and(|hint| hint.as_str() == name);
            let Some(place) = names.iter().position(is_it) else {
                let names: Vec<String> =
                    names.iter().flatten().map(|name| format!("`{name}`")).collect();
                return Err(error(
                    format!("`@main` has no parameter `%{name}`"),
                    format!("its parameters are {}", names.join(", ")),
                ));
            };
            flags[place] = true;
        }
        Ok(flags)
    }
}

/// What is needed to write functions for many examples.
struct Program<'p> {
    /// The program for one example.
    before: &'p Module,
    signatures: &'p Signatures,
    registry: &'p Registry,
    /// The number of examples.
    extent: i64,
    /// The data types with cells.
    cells: Cells,
    /// The program that is written.
    module: &'p mut Module,
    names: FreshNames,
    /// The functions for many examples: of which one, and which of its parameters differ between examples.
    made: IndexMap<(Symbol, Vec<bool>), Symbol, FxBuildHasher>,
}

impl Program<'_> {
    /// Writes `@main`, and the functions that it calls with what differs between examples, which it counts.
    fn write_all(&mut self, main: Symbol, flags: Vec<bool>) -> Result<u64, Diagnostics> {
        let mut found = Diagnostics::default();
        self.made.insert((main, flags), main);
        // Others are added on the way.
        let mut next = 0;
        while let Some(((name, flags), made)) = self.made.get_index(next) {
            let (name, flags, made) = (*name, flags.clone(), *made);
            let item = self.before.items[&name].clone();
            match writer::write(self, (name, &item), &flags) {
                Ok(item) => {
                    self.module.items.insert(made, item);
                }
                Err(errors) => found.extend(errors),
            }
            next += 1;
        }
        if found.is_empty() { Ok(next as u64 - 1) } else { Err(found) }
    }

    /// The name of the function `name` for many examples, which is written later.
    fn batched(&mut self, name: Symbol, flags: Vec<bool>) -> Symbol {
        let key = (name, flags);
        if let Some(made) = self.made.get(&key) {
            return *made;
        }
        let item = self.before.items[&name].clone();
        let made = self.add(&format!("{name}_batched"), item);
        self.made.insert(key, made);
        made
    }

    /// Adds `item` by a name that begins with `base`.
    fn add(&mut self, base: &str, item: Item) -> Symbol {
        let name = self.names.fresh(base, "", |name| self.module.items.contains_key(&name));
        self.module.items.insert(name, item);
        name
    }
}
