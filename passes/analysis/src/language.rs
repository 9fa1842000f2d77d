//! What the database has to know about a language, besides its [text](ir_core::text::module).

use std::ops::Range;
use std::sync::Arc;

use ir_core::{
    Body, Diagnostic, Diagnostics, Effects, Item, Registry, Signature, Signatures, Symbol,
};

/// What an item mentions.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Mentions {
    /// Other items, sorted by name, each once.
    pub items: Vec<Symbol>,
    /// Whether it may mention what all items share, such as data types.
    pub shared: bool,
    /// Whether it may look at any item, so that the lists above mean nothing.
    pub everything: bool,
}

/// What the items around one may be asked for. **Every answer is recorded as something that the
/// one depends on**: ask for no more than is needed.
pub trait Scope {
    /// The signature of item `name`, as far as its type is known. Its place ends at the end of the
    /// item, which only [`Snapshot`](crate::Snapshot) knows; it starts where the item starts.
    fn signature(&self, name: Symbol) -> Option<Signature>;
    /// All items with their kinds, in order, for suggestions.
    fn items(&self) -> Arc<Vec<(Symbol, Symbol)>>;
    /// The signatures of the items that all share.
    fn shared(&self) -> Arc<Signatures>;
}

/// A language whose programs are readable texts of the dialects of a registry. It answers from its arguments alone: it
/// keeps no state, and has no other source of information.
pub trait Language: Send + Sync {
    /// What exists.
    fn registry(&self) -> &Registry;

    /// Whether all items may look at items of `kind`.
    fn is_shared(&self, kind: Symbol) -> bool;

    /// What is wrong with shared item `name`.
    fn check_shared(&self, name: Symbol, shared: &Arc<Signatures>) -> Diagnostics;

    /// Whether types in items of `kind` are inferred.
    fn is_inferred(&self, kind: Symbol) -> bool;

    /// The items that an item refers to, sorted, where its own type must be inferred before those
    /// that refer to it; `None` where its signature is complete.
    fn open_callees(&self, signature: &Signature, body: &Body) -> Option<Vec<Symbol>>;

    /// Infers the types of items that refer to each other, or of one.
    fn infer(&self, group: &mut [(Symbol, Signature, Arc<Body>)], scope: &dyn Scope)
    -> Diagnostics;

    /// What a checked item mentions.
    fn mentions(&self, item: &Item) -> Mentions;

    /// What running `body` may do, given what calling other items may do.
    fn effects(&self, body: &Body, callee: &dyn Fn(Symbol) -> Effects) -> Effects;

    /// The operations of `body` that a kernel may compute together, in order of their results.
    fn fusion_groups(
        &self,
        name: Symbol,
        item: &Item,
        signatures: &Signatures,
    ) -> Vec<Vec<ir_core::OpId>>;

    /// Puts diagnostics of one kind into the order in which the front end reports them.
    fn sort(&self, diagnostics: &mut [Diagnostic]) {
        diagnostics.sort_by_key(|diagnostic| {
            diagnostic.primary.as_ref().map(|label| (label.span.file, label.span.start))
        });
    }

    /// The word of the program at byte `offset` of `piece`, and where it stands.
    fn word_at(&self, piece: &str, offset: usize) -> Option<(Word, Range<usize>)>;

    /// The variables of `piece`, in the order in which they are bound.
    fn variables(&self, piece: &str) -> Vec<Variable>;
}

/// What binds a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binder {
    /// A function, or the text as a whole.
    Parameter,
    /// A `let`.
    Let,
    /// A graph binding.
    Graph,
    /// A pattern.
    Pattern,
}

/// A variable. Places are bytes of its piece, or of the text where a
/// [`Snapshot`](crate::Snapshot) answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Where it is bound: its name there.
    pub name: Range<usize>,
    /// What binds it.
    pub binder: Binder,
    /// Whether its type is written there.
    pub typed: bool,
    /// The value that it is bound to, where that is written.
    pub value: Option<Range<usize>>,
    /// Where it can be used.
    pub scope: Range<usize>,
    /// Where it is used, in order.
    pub uses: Vec<Range<usize>>,
}

impl Variable {
    /// The places of this variable, moved by `base` bytes.
    pub(crate) fn moved(mut self, base: usize) -> Variable {
        let own = [&mut self.name, &mut self.scope].into_iter();
        for range in own.chain(&mut self.value).chain(&mut self.uses) {
            *range = range.start + base..range.end + base;
        }
        self
    }

    /// Whether its name stands at byte `offset`, or right before it.
    pub fn is_at(&self, offset: usize) -> bool {
        let mut places = std::iter::once(&self.name).chain(&self.uses);
        places.any(|place| place.start <= offset && offset <= place.end)
    }
}

/// A word in a piece that stands for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// An item.
    Item(Symbol),
    /// A value of the function around it, by the name of its hint.
    Local(Symbol),
    /// An operation of this registered name.
    Operation(Symbol),
}
