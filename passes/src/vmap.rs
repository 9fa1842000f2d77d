//! Many examples at once.

mod emitter;
mod held;
mod rules;
mod writer;

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{
    Diagnostic, Diagnostics, Item, Module, ModulePass, OpId, Pass, PassContext, PassResult,
    Registry, Signatures, Symbol,
};
use relay::language::FUNC;
use rustc_hash::{FxBuildHasher, FxHashMap};

use self::held::{Cells, Within, is_scalar, is_stacked};
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
/// where all examples do the same. Where they may not, the examples of an `if` are partitioned: each branch is a function
/// that is called, if any example chooses it, for at most half of them, which are moved together, or for all, where such
/// as choose it stand in the place of others; and the values are merged. So nothing is computed that an example does not
/// choose, which may not end, and a recursion comes to fewer and fewer examples. Data are made, and taken apart, for each
/// example, and an `if` with data in its branches, or one that few examples do on scalars, becomes a function that is
/// called for each.
///
/// Where `@f` has a rule for its gradient, `@f_batched` has that of all examples.
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
            cells: Cells::of(&before),
            stacked: Within::of(&before, is_stacked),
            scalars: Within::of(&before, is_scalar),
            branches: FxHashMap::default(),
            pieces: FxHashMap::default(),
            module,
            names: FreshNames::default(),
            made: IndexMap::default(),
        };
        let functions = program.write_all(name, flags, extent)?;
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

/// A branching of a function for one example or, where there is a number, one of its branches.
type Piece = (Symbol, OpId, Option<usize>);

/// What is needed to write functions for many examples.
struct Program<'p> {
    /// The program for one example.
    before: &'p Module,
    signatures: &'p Signatures,
    registry: &'p Registry,
    /// The data types with cells.
    cells: Cells,
    /// What is held as tensors alone.
    stacked: Within,
    /// What is scalars alone.
    scalars: Within,
    /// Branches that are batched as functions, for one example.
    branches: FxHashMap<Symbol, Item>,
    /// The functions that are made of pieces of others, once for all numbers of examples.
    pieces: FxHashMap<Piece, Symbol>,
    /// The program that is written.
    module: &'p mut Module,
    names: FreshNames,
    /// The functions for many examples: of which one, which of its parameters differ between examples, and how many
    /// these are.
    made: IndexMap<(Symbol, Vec<bool>, i64), Symbol, FxBuildHasher>,
}

impl Program<'_> {
    /// Writes `@main`, and the functions that it calls with what differs between examples, which it counts.
    fn write_all(
        &mut self,
        main: Symbol,
        flags: Vec<bool>,
        extent: i64,
    ) -> Result<u64, Diagnostics> {
        let mut found = Diagnostics::default();
        self.made.insert((main, flags, extent), main);
        // Others are added on the way.
        let mut next = 0;
        while let Some(((name, flags, extent), made)) = self.made.get_index(next) {
            let (name, flags, extent, made) = (*name, flags.clone(), *extent, *made);
            let item = self.one(name).clone();
            match writer::write(self, (name, &item), &flags, extent) {
                Ok(item) => {
                    self.module.items.insert(made, item);
                }
                Err(errors) => found.extend(errors),
            }
            next += 1;
        }
        if found.is_empty() { Ok(next as u64 - 1) } else { Err(found) }
    }

    /// The function `name` for one example.
    fn one(&self, name: Symbol) -> &Item {
        self.branches.get(&name).unwrap_or_else(|| &self.before.items[&name])
    }

    /// The name of a piece of a function for one example, which `make` gives. A branch is batched in its turn, so that
    /// it is no function of the program itself.
    fn piece(&mut self, piece: Piece, make: impl FnOnce() -> Item) -> Symbol {
        if let Some(name) = self.pieces.get(&piece) {
            return *name;
        }
        let (of, _, branch) = piece;
        let name = match branch {
            None => self.add(&format!("{of}_example"), make()),
            Some(_) => {
                let branches = &self.branches;
                let is_taken =
                    |name| self.module.items.contains_key(&name) || branches.contains_key(&name);
                let name = self.names.fresh(&format!("{of}_branch"), "", is_taken);
                self.branches.insert(name, make());
                name
            }
        };
        self.pieces.insert(piece, name);
        name
    }

    /// The name of the function `name` for `extent` examples, which is written later.
    fn batched(&mut self, name: Symbol, flags: Vec<bool>, extent: i64) -> Symbol {
        let key = (name, flags, extent);
        if let Some(made) = self.made.get(&key) {
            return *made;
        }
        let item = self.one(name).clone();
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
