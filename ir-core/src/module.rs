//! Modules: named, isolated items.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::attributes::AttrDict;
use crate::body::Body;
use crate::intern::Symbol;
use crate::location::{SourceMap, Span};
use crate::types::Type;

/// What everyone may see of an item: everything but its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The kind of item, an operation name such as `relay.func` or `relay.type`.
    pub op: Symbol,
    /// Its type; [`Type::unknown`] until inferred.
    pub ty: Type,
    /// Its attributes.
    pub attrs: AttrDict,
    /// Where it stands: from its first token to its last.
    pub span: Option<Span>,
}

/// An isolated piece of a module: a function, a type declaration, a schedule.
#[derive(Clone, Debug)]
pub struct Item {
    /// Everything but the body.
    pub signature: Signature,
    /// The body; `None` for a declaration.
    pub body: Option<Arc<Body>>,
}

impl Item {
    /// An item of kind `op` and type `ty`.
    pub fn new(op: impl Into<Symbol>, ty: Type, body: Option<Body>) -> Item {
        let signature = Signature { op: op.into(), ty, attrs: AttrDict::empty(), span: None };
        Item { signature, body: body.map(Arc::new) }
    }

    /// The body for editing: copied first when someone else holds a snapshot of it.
    pub fn body_mut(&mut self) -> Option<&mut Body> {
        self.body.as_mut().map(Arc::make_mut)
    }
}

/// Items by name, in order of definition.
#[derive(Clone, Default, Debug)]
pub struct Module {
    /// The items.
    pub items: IndexMap<Symbol, Item, FxBuildHasher>,
    /// The texts that locations point into.
    pub sources: SourceMap,
}

/// The signatures of all items of a module.
pub type Signatures = IndexMap<Symbol, Signature, FxBuildHasher>;

impl Module {
    /// A module without items.
    pub fn new() -> Module {
        Module::default()
    }

    /// The item `name`.
    pub fn get(&self, name: impl Into<Symbol>) -> Option<&Item> {
        self.items.get(&name.into())
    }

    /// The body of item `name`.
    pub fn body(&self, name: impl Into<Symbol>) -> Option<&Arc<Body>> {
        self.get(name)?.body.as_ref()
    }

    /// A snapshot of all signatures.
    pub fn signatures(&self) -> Signatures {
        self.items.iter().map(|(name, item)| (*name, item.signature.clone())).collect()
    }

    /// A name for a new item: `base`, or `base` with the first free number from 1.
    pub fn fresh_name(&self, base: &str) -> Symbol {
        let mut name = Symbol::new(base);
        let mut number = 1;
        while self.items.contains_key(&name) {
            name = Symbol::new(&format!("{base}{number}"));
            number += 1;
        }
        name
    }

    /// Number of live operations in all bodies.
    pub fn op_count(&self) -> usize {
        self.items.values().filter_map(|item| item.body.as_ref()).map(|b| b.op_count()).sum()
    }
}
