//! Modules: named, isolated items.

use std::any::{Any, TypeId};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

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

/// The signatures of all items of a module, by name and in order of definition. It never changes,
/// so what a dialect derives from all of them is kept with it: see [`Signatures::derived`].
#[derive(Default, Debug)]
pub struct Signatures {
    signatures: IndexMap<Symbol, Signature, FxBuildHasher>,
    derived: Mutex<Vec<(TypeId, Arc<dyn Any + Send + Sync>)>>,
}

impl Signatures {
    /// What `derive` makes of these signatures, made at the first call for its type `T`.
    pub fn derived<T: Any + Send + Sync>(&self, derive: fn(&Signatures) -> T) -> Arc<T> {
        let find = || {
            let derived = self.derived.lock().unwrap_or_else(|error| error.into_inner());
            let found = derived.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
            found.1.clone().downcast().ok()
        };
        if let Some(known) = find() {
            return known;
        }
        // Nothing is locked meanwhile: `derive` may look at these signatures as it likes.
        let made = Arc::new(derive(self));
        let mut derived = self.derived.lock().unwrap_or_else(|error| error.into_inner());
        derived.push((TypeId::of::<T>(), made.clone()));
        made
    }
}

impl Deref for Signatures {
    type Target = IndexMap<Symbol, Signature, FxBuildHasher>;
    fn deref(&self) -> &Self::Target {
        &self.signatures
    }
}

impl FromIterator<(Symbol, Signature)> for Signatures {
    fn from_iter<I: IntoIterator<Item = (Symbol, Signature)>>(items: I) -> Signatures {
        Signatures { signatures: items.into_iter().collect(), derived: Mutex::default() }
    }
}

/// Names that are not taken, each found in constant time: numbers that were tried are not tried
/// again. For names that stay taken.
#[derive(Clone, Default, Debug)]
pub struct FreshNames {
    /// By base, the number to try next; 0 is the base alone.
    next: FxHashMap<Symbol, u64>,
}

impl FreshNames {
    /// `base`, or `base`, `separator` and the first number from 1, as far as not `is_taken`.
    pub fn fresh(
        &mut self,
        base: &str,
        separator: &str,
        is_taken: impl Fn(Symbol) -> bool,
    ) -> Symbol {
        let own = Symbol::new(base);
        let next = self.next.entry(own).or_default();
        loop {
            let name = match *next {
                0 => own,
                number => Symbol::new(&format!("{base}{separator}{number}")),
            };
            *next += 1;
            if !is_taken(name) {
                return name;
            }
        }
    }
}

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

    /// A name for a new item: `base`, or `base` with the first free number from 1. Who wants many
    /// names asks [`FreshNames`].
    pub fn fresh_name(&self, base: &str) -> Symbol {
        FreshNames::default().fresh(base, "", |name| self.items.contains_key(&name))
    }

    /// Number of live operations in all bodies.
    pub fn op_count(&self) -> usize {
        self.items.values().filter_map(|item| item.body.as_ref()).map(|b| b.op_count()).sum()
    }
}
