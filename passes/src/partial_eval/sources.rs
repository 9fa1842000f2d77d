//! The functions that a program begins with.

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexSet;
use ir_core::{Body, EntityId, Module, OpId, Signature, Symbol, Type, ValueId};
use relay::language::{FUNC, Fn, is_primitive};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::tail_calls::is_loop;

/// A function of the module, by its number, or one inside it, by the operation that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Code {
    pub(super) item: usize,
    pub(super) op: Option<OpId>,
}

/// A function of the module as it was, with what its local functions take from outside.
pub(super) struct Source {
    pub(super) name: Symbol,
    pub(super) signature: Signature,
    pub(super) body: Arc<Body>,
    captures: FxHashMap<OpId, Vec<ValueId>>,
    /// Whether it calls itself as its end alone.
    pub(super) is_loop: bool,
}

impl Source {
    /// The values from outside that the function which `op` makes uses, in order of first use.
    pub(super) fn captures(&self, op: OpId) -> &[ValueId] {
        self.captures.get(&op).map_or(&[], Vec::as_slice)
    }

    /// The type of `code`, with the parameters that it binds.
    pub(super) fn ty(&self, code: Code) -> Type {
        match code.op {
            Some(op) => self.body.ty(self.body.result(op, 0)),
            None => self.signature.ty,
        }
    }

    /// The parameters of `code`, without a recursive function itself.
    pub(super) fn params(&self, code: Code) -> &[ValueId] {
        match code.op {
            Some(op) => relay::language::fn_params(&self.body, op),
            None => self.body.block_args(self.body.entry()),
        }
    }

    /// The block of `code`.
    pub(super) fn block(&self, code: Code) -> ir_core::BlockId {
        code.op.map_or_else(|| self.body.entry(), |op| self.body.region_block(op, 0))
    }
}

/// The functions of a module, each looked at when it is needed first.
pub(super) struct Sources<'m> {
    pub(super) module: &'m Module,
    read: FxHashMap<usize, Rc<Source>>,
}

impl<'m> Sources<'m> {
    pub(super) fn new(module: &'m Module) -> Sources<'m> {
        Sources { module, read: FxHashMap::default() }
    }

    /// The number of function `name`, where it is one that may be evaluated.
    pub(super) fn find(&self, name: Symbol) -> Option<usize> {
        let (item, _, found) = self.module.items.get_full(&name)?;
        let attrs = found.signature.attrs;
        let left_alone = ["Compiler", "Extern", "SkipOptimization", "Gradient"];
        let is_open = found.signature.op == FUNC
            && found.body.is_some()
            && found.signature.ty.as_function().is_some()
            && !is_primitive(attrs)
            && left_alone.iter().all(|key| attrs.get(*key).is_none());
        is_open.then_some(item)
    }

    /// Function number `item`, which [`Sources::find`] has found.
    pub(super) fn get(&mut self, item: usize) -> Rc<Source> {
        let module = self.module;
        let read = self.read.entry(item).or_insert_with(|| {
            let (name, item) = module.items.get_index(item).expect("a number of an item");
            let body = item.body.clone().expect("functions without a body are not found");
            let (captures, is_loop) = (captures(&body), is_loop(*name, &body));
            let signature = item.signature.clone();
            Rc::new(Source { name: *name, signature, body, captures, is_loop })
        });
        Rc::clone(read)
    }
}

/// What each function inside `body` uses from outside. As long as the lists together.
fn captures(body: &Body) -> FxHashMap<OpId, Vec<ValueId>> {
    type Captured = FxHashMap<OpId, IndexSet<ValueId, FxBuildHasher>>;
    // The innermost function around each block.
    let mut around: Vec<Option<OpId>> = vec![None; body.block_capacity()];
    let mut captured = Captured::default();
    for op in body.walk() {
        let home = body.op_block(op).and_then(|block| around[block.index()]);
        for region in body.regions(op) {
            around[body.block_of(*region).index()] =
                if body.is::<Fn>(op) { Some(op) } else { home };
        }
        for operand in body.operands(op) {
            let defined = body.def_block(operand).and_then(|block| around[block.index()]);
            let mut inside = home;
            // What is in a list already is in those of the functions around it.
            while let Some(function) = inside.filter(|_| inside != defined)
                && captured.entry(function).or_default().insert(operand)
            {
                inside = body.op_block(function).and_then(|block| around[block.index()]);
            }
        }
    }
    captured.into_iter().map(|(op, values)| (op, values.into_iter().collect())).collect()
}
