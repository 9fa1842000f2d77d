//! The registry: which operations, types and passes exist, and everything known about them.
//!
//! A registry is an explicit value, built at start-up and passed by reference; nothing registers
//! itself at link time. A crate may attach a hook to an operation that it does not own.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::attributes::{Attr, AttrDict};
use crate::body::Body;
use crate::diagnostics::{Diagnostics, did_you_mean};
use crate::ids::{OpId, ValueId};
use crate::infer::InferFn;
use crate::intern::Symbol;
use crate::module::{Item, Signatures};
use crate::pass::PassDef;
use crate::rules::RuleFunction;
use crate::text::ItemSyntax;
use crate::text::module::{Syntax, Syntaxes};

bitflags::bitflags! {
    /// Facts of an operation that generic passes use.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Traits: u32 {
        /// Ends its block.
        const TERMINATOR = 1;
        /// Its effects are those of the operations in its regions.
        const RECURSIVE_EFFECTS = 1 << 1;
        /// Its result is the attribute `value`.
        const CONSTANT = 1 << 2;
        /// `f(a, b) = f(b, a)`.
        const COMMUTATIVE = 1 << 3;
        /// `f(f(a, b), c) = f(a, f(b, c))`, up to rounding.
        const ASSOCIATIVE = 1 << 4;
        /// `f(f(a)) = f(a)`.
        const IDEMPOTENT = 1 << 5;
        /// Its regions run later, if ever: making it has no effect, whatever they do.
        const DEFERRED = 1 << 6;
        /// Its blocks end where they end, without a terminator.
        const NO_TERMINATOR = 1 << 7;
        /// Its result is its operand: it says something to passes.
        const IDENTITY = 1 << 8;
        /// Ends its function, not only its block: its operands are no results of either.
        const LEAVES = 1 << 9;
    }
}

bitflags::bitflags! {
    /// What an operation may do besides computing its results.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Effects: u32 {
        /// Makes something with an identity: may be dropped, not merged.
        const ALLOCATE = 1;
        /// Reads mutable state: may be dropped, not moved over a write.
        const READ = 1 << 1;
        /// Changes state.
        const WRITE = 1 << 2;
        /// May fail or not end.
        const DIVERGE = 1 << 3;
    }
}

/// How many values a field stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arity {
    /// Exactly one.
    One,
    /// None or one; only as the last field.
    Optional,
    /// Any number; only as the last field.
    Many,
}

/// A declared operand, result or region.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in accessors, messages and docs.
    pub name: &'static str,
    /// How many.
    pub arity: Arity,
    /// What it is, as Markdown.
    pub doc: &'static str,
}

/// A declared attribute.
#[derive(Clone, Copy, Debug)]
pub struct AttrField {
    /// Key in the dictionary.
    pub name: &'static str,
    /// What it takes, for messages and docs.
    pub expects: &'static str,
    /// The canonical form of a given attribute; `None` where it is of the wrong type.
    pub normalize: fn(Attr) -> Option<Attr>,
    /// The default; `None` where the attribute is required.
    pub default: Option<fn() -> Attr>,
    /// What it is, as Markdown.
    pub doc: &'static str,
}

/// Checks what fields and traits do not say. The error is a message that starts in lower case.
pub type VerifyFn = fn(&VerifyCx<'_>) -> Result<(), String>;

/// Simplifies one operation without looking further than its operands' definitions.
pub type FoldFn = fn(&FoldCx<'_>) -> Option<Folded>;

/// What a verify hook may look at.
pub struct VerifyCx<'a> {
    /// The body that holds the operation.
    pub body: &'a Body,
    /// The operation.
    pub op: OpId,
    /// What exists.
    pub registry: &'a Registry,
    /// The module's items.
    pub signatures: &'a Signatures,
}

/// What the check of a kind of item may look at.
pub struct ItemCx<'a> {
    /// The item's name.
    pub name: Symbol,
    /// The item.
    pub item: &'a Item,
    /// What exists.
    pub registry: &'a Registry,
    /// The module's items.
    pub signatures: &'a Signatures,
}

/// Checks an item as a whole; what its body holds is checked on its own.
pub type VerifyItemFn = fn(&ItemCx<'_>) -> Diagnostics;

/// A kind of item, such as the functions or the data types of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct ItemDef {
    /// Full name, `dialect.kind`.
    pub name: &'static str,
    /// What such an item is, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// Further checks.
    pub verify: Option<VerifyItemFn>,
    /// Readable text that starts with the kind; `None` where such items have only the generic form,
    /// or a [`Syntax`] has them.
    pub syntax: Option<ItemSyntax>,
}

impl ItemDef {
    /// A kind of item without checks of its own.
    pub const fn new(name: &'static str, doc: &'static str) -> ItemDef {
        ItemDef { name, doc, verify: None, syntax: None }
    }
}

/// What a fold hook may look at.
pub struct FoldCx<'a> {
    /// The body that holds the operation.
    pub body: &'a Body,
    /// The operation.
    pub op: OpId,
    /// What exists.
    pub registry: &'a Registry,
}

impl FoldCx<'_> {
    /// Operand `index` of the operation.
    pub fn operand(&self, index: usize) -> ValueId {
        self.body.operand(self.op, index)
    }

    /// The attribute of operand `index`, where it is a constant.
    pub fn constant(&self, index: usize) -> Option<Attr> {
        self.registry.constant(self.body, self.operand(index))
    }
}

/// What an operation folds to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// A value that exists already and has the same type.
    Value(ValueId),
    /// A constant, for the attribute `value` of the dialect's constant operation.
    Constant(Attr),
}

/// The static facts of an operation. Usually derived from a struct with `#[derive(Op)]`; writing
/// one by hand, with [`OpDef::new`] and struct update, works as well.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Full name, `dialect.op`.
    pub name: &'static str,
    /// What it computes, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// Facts for generic passes.
    pub traits: Traits,
    /// Own effects, besides those in regions.
    pub effects: Effects,
    /// Operands in order.
    pub operands: &'static [Field],
    /// Attributes in printing order.
    pub attrs: &'static [AttrField],
    /// Whether attributes outside `attrs` are allowed.
    pub open_attrs: bool,
    /// Results in order.
    pub results: &'static [Field],
    /// Regions in order.
    pub regions: &'static [Field],
    /// The result type as a function of the operand types and attributes.
    pub infer: Option<InferFn>,
    /// Further checks.
    pub verify: Option<VerifyFn>,
    /// Local simplification.
    pub fold: Option<FoldFn>,
}

/// The usual result declaration: one, unnamed in prose.
pub const ONE_RESULT: &[Field] = &[Field { name: "result", arity: Arity::One, doc: "" }];

impl OpDef {
    /// An operation without operands, attributes and effects, with one result.
    pub const fn new(name: &'static str, doc: &'static str) -> OpDef {
        OpDef {
            name,
            doc,
            traits: Traits::empty(),
            effects: Effects::empty(),
            operands: &[],
            attrs: &[],
            open_attrs: false,
            results: ONE_RESULT,
            regions: &[],
            infer: None,
            verify: None,
            fold: None,
        }
    }

    /// The declared attribute `name`.
    pub fn attr(&self, name: &str) -> Option<&'static AttrField> {
        self.attrs.iter().find(|field| field.name == name)
    }

    /// The canonical form of `attrs`: values in the declared type, defaults left out. Errors, each
    /// a message, name unknown keys, wrong values and missing required attributes.
    pub fn normalize_attrs(&self, attrs: AttrDict) -> Result<AttrDict, Vec<String>> {
        let mut errors = Vec::new();
        let mut entries: SmallVec<[(Symbol, Attr); 8]> = SmallVec::new();
        for &(key, attr) in attrs.entries() {
            match self.attr(key.as_str()) {
                None if self.open_attrs => entries.push((key, attr)),
                None => {
                    let known = self.attrs.iter().map(|field| field.name);
                    let help = match did_you_mean(key.as_str(), known.clone()) {
                        Some(help) => help,
                        None if self.attrs.is_empty() => "it takes none".to_string(),
                        None => format!("it takes {}", known.collect::<Vec<_>>().join(", ")),
                    };
                    errors.push(format!("`{}` has no attribute `{key}`; {help}", self.name));
                }
                Some(field) => match (field.normalize)(attr) {
                    Some(value) if field.default.is_some_and(|default| default() == value) => {}
                    Some(value) => entries.push((key, value)),
                    None => errors.push(format!(
                        "attribute `{key}` of `{}` expects {}",
                        self.name, field.expects
                    )),
                },
            }
        }
        for field in self.attrs.iter().filter(|field| field.default.is_none()) {
            if attrs.get(field.name).is_none() {
                errors.push(format!(
                    "`{}` needs the attribute `{}`, {}",
                    self.name, field.name, field.expects
                ));
            }
        }
        if errors.is_empty() { Ok(AttrDict::new(entries)) } else { Err(errors) }
    }

    /// Whether `count` values fit the declared `fields`.
    pub fn arity_fits(fields: &[Field], count: usize) -> bool {
        let required = fields.iter().filter(|field| field.arity == Arity::One).count();
        match fields.last().map(|field| field.arity) {
            Some(Arity::Many) => count >= required,
            Some(Arity::Optional) => count == required || count == required + 1,
            _ => count == required,
        }
    }
}

impl fmt::Debug for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpDef").field("name", &self.name).finish_non_exhaustive()
    }
}

type Hook = (TypeId, Arc<dyn Any + Send + Sync>);

/// A registered operation: its definition and the hooks attached to it.
#[derive(Clone)]
pub struct OpInfo {
    /// The static facts.
    pub def: OpDef,
    hooks: SmallVec<[Hook; 3]>,
}

impl OpInfo {
    /// A definition without hooks.
    pub fn new(def: OpDef) -> OpInfo {
        OpInfo { def, hooks: SmallVec::new() }
    }

    /// Attaches `hook`; of two of one type the later wins.
    pub fn with<H: Any + Send + Sync>(mut self, hook: H) -> OpInfo {
        self.attach(hook);
        self
    }

    /// Attaches `hook`; of two of one type the later wins.
    pub fn attach<H: Any + Send + Sync>(&mut self, hook: H) {
        self.hooks.retain(|(id, _)| *id != TypeId::of::<H>());
        self.hooks.push((TypeId::of::<H>(), Arc::new(hook)));
    }

    /// The hook of type `H`, where one is attached.
    pub fn hook<H: Any + Send + Sync>(&self) -> Option<&H> {
        let (_, hook) = self.hooks.iter().find(|(id, _)| *id == TypeId::of::<H>())?;
        hook.downcast_ref()
    }
}

/// A set of operations, types and passes under one prefix.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Prefix of its names.
    pub name: &'static str,
    /// What it is, as Markdown; the first line is the summary.
    pub doc: &'static str,
    /// Adds its operations and types.
    pub register: fn(&mut Registry),
}

/// A named pipeline: pipeline text under a name that other pipelines may use like a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipelineDef {
    /// Name in pipelines, such as `O2`.
    pub name: &'static str,
    /// What it stands for.
    pub text: String,
    /// What it is for, as Markdown; the first line is the summary.
    pub doc: &'static str,
}

/// A file of rewrite rules, or of a strategy that applies some, that is part of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleFile {
    /// What messages call it, such as `attention.rules`; of a strategy, its name.
    pub name: &'static str,
    /// The rules, or the strategy.
    pub text: &'static str,
}

/// What holds of rewrite rules where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RuleDefaults {
    /// The dialect that a file of rules is about; where it is empty, each file has to name one.
    pub dialect: &'static str,
    /// The sets that equality saturation applies.
    pub sets: &'static [&'static str],
}

/// Everything that exists.
#[derive(Clone, Default)]
pub struct Registry {
    dialects: IndexMap<&'static str, Dialect, FxBuildHasher>,
    ops: IndexMap<Symbol, OpInfo, FxBuildHasher>,
    items: IndexMap<Symbol, ItemDef, FxBuildHasher>,
    syntaxes: Syntaxes,
    passes: IndexMap<&'static str, PassDef, FxBuildHasher>,
    pipelines: IndexMap<&'static str, PipelineDef, FxBuildHasher>,
    rule_functions: IndexMap<&'static str, RuleFunction, FxBuildHasher>,
    rule_files: IndexMap<&'static str, RuleFile, FxBuildHasher>,
    strategies: IndexMap<&'static str, RuleFile, FxBuildHasher>,
    rule_defaults: RuleDefaults,
    extensions: Vec<Hook>,
}

impl Registry {
    /// A registry that knows nothing.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a dialect with all that it registers. Panics when the name is taken.
    pub fn add_dialect(&mut self, dialect: Dialect) {
        let earlier = self.dialects.insert(dialect.name, dialect);
        assert!(earlier.is_none(), "dialect `{}` is registered twice", dialect.name);
        (dialect.register)(self);
    }

    /// Adds an operation. Panics when the name is taken.
    pub fn add_op(&mut self, info: OpInfo) {
        let name = Symbol::new(info.def.name);
        assert!(self.ops.insert(name, info).is_none(), "operation `{name}` is registered twice");
    }

    /// Adds the operation that a struct declares.
    pub fn op<T: crate::op::Op>(&mut self) {
        self.add_op(T::info());
    }

    /// Adds a kind of item. Panics when the name is taken.
    pub fn add_item(&mut self, item: ItemDef) {
        let earlier = self.items.insert(Symbol::new(item.name), item);
        assert!(earlier.is_none(), "the kind of item `{}` is registered twice", item.name);
    }

    /// Adds readable text whose items do not start with their kind. Panics when another one has items
    /// that start alike.
    pub fn add_syntax(&mut self, syntax: &'static dyn Syntax) {
        self.syntaxes.add(syntax);
    }

    /// Readable text whose items do not start with their kind.
    pub fn syntaxes(&self) -> &Syntaxes {
        &self.syntaxes
    }

    /// Adds a pass. Panics when the name is taken.
    pub fn add_pass(&mut self, pass: PassDef) {
        let name = pass.name;
        assert!(!self.pipelines.contains_key(name), "`{name}` is a pipeline already");
        assert!(self.passes.insert(name, pass).is_none(), "pass `{name}` is registered twice");
    }

    /// Adds a named pipeline. Its text is read where the name is used, so it may name passes that
    /// are added later. Panics when the name is taken.
    pub fn add_pipeline(&mut self, name: &'static str, text: impl Into<String>, doc: &'static str) {
        let text = text.into();
        assert!(!self.passes.contains_key(name), "`{name}` is a pass already");
        let earlier = self.pipelines.insert(name, PipelineDef { name, text, doc });
        assert!(earlier.is_none(), "pipeline `{name}` is registered twice");
    }

    /// Adds the pass that a struct declares.
    pub fn pass<P: crate::pass::Pass>(&mut self) {
        self.add_pass(P::def());
    }

    /// Adds a function for rewrite rules. Panics when the name is taken.
    pub fn add_rule_function(&mut self, function: RuleFunction) {
        let earlier = self.rule_functions.insert(function.name, function);
        assert!(earlier.is_none(), "rule function `{}` is registered twice", function.name);
    }

    /// The functions for rewrite rules that dialects added, in order of registration.
    pub fn rule_functions(&self) -> impl Iterator<Item = &RuleFunction> {
        self.rule_functions.values()
    }

    /// Adds a file of rewrite rules. Panics when the name is taken.
    pub fn add_rule_file(&mut self, name: &'static str, text: &'static str) {
        let earlier = self.rule_files.insert(name, RuleFile { name, text });
        assert!(earlier.is_none(), "the file of rules `{name}` is registered twice");
    }

    /// The files of rewrite rules that were added, in order of registration.
    pub fn rule_files(&self) -> impl Iterator<Item = &RuleFile> {
        self.rule_files.values()
    }

    /// Adds a strategy that applies rewrite rules. Panics when the name is taken.
    pub fn add_strategy(&mut self, name: &'static str, text: &'static str) {
        let earlier = self.strategies.insert(name, RuleFile { name, text });
        assert!(earlier.is_none(), "the strategy `{name}` is registered twice");
    }

    /// The strategies that were added, in order of registration.
    pub fn strategies(&self) -> impl Iterator<Item = &RuleFile> {
        self.strategies.values()
    }

    /// Says what holds of rewrite rules where nothing else is said; the last one wins.
    pub fn set_rule_defaults(&mut self, defaults: RuleDefaults) {
        self.rule_defaults = defaults;
    }

    /// What holds of rewrite rules where nothing else is said.
    pub fn rule_defaults(&self) -> RuleDefaults {
        self.rule_defaults
    }

    /// What a crate that this one does not know keeps here, by its type; empty at first. Targets
    /// are registered so.
    pub fn extension_mut<H: Any + Send + Sync + Clone + Default>(&mut self) -> &mut H {
        let id = TypeId::of::<H>();
        let index = match self.extensions.iter().position(|(other, _)| *other == id) {
            Some(index) => index,
            None => {
                self.extensions.push((id, Arc::new(H::default())));
                self.extensions.len() - 1
            }
        };
        let (_, extension) = &mut self.extensions[index];
        // A copy of this registry may share it.
        if Arc::get_mut(extension).is_none()
            && let Some(shared) = extension.downcast_ref::<H>()
        {
            *extension = Arc::new(shared.clone());
        }
        let own = Arc::get_mut(extension).and_then(|extension| extension.downcast_mut());
        own.unwrap_or_else(|| unreachable!("found by its type, and shared by nobody"))
    }

    /// What a crate that this one does not know keeps here, by its type.
    pub fn extension<H: Any + Send + Sync>(&self) -> Option<&H> {
        let (_, found) = self.extensions.iter().find(|(id, _)| *id == TypeId::of::<H>())?;
        found.downcast_ref()
    }

    /// Attaches `hook` to operation `name`; whether there is such an operation.
    #[must_use]
    pub fn attach<H: Any + Send + Sync>(&mut self, name: impl Into<Symbol>, hook: H) -> bool {
        match self.ops.get_mut(&name.into()) {
            Some(info) => {
                info.attach(hook);
                true
            }
            None => false,
        }
    }

    /// Operation `name`.
    pub fn info(&self, name: impl Into<Symbol>) -> Option<&OpInfo> {
        self.ops.get(&name.into())
    }

    /// Definition of operation `name`.
    pub fn def(&self, name: impl Into<Symbol>) -> Option<&OpDef> {
        self.info(name).map(|info| &info.def)
    }

    /// Definition of `op`.
    pub fn def_of(&self, body: &Body, op: OpId) -> Option<&OpDef> {
        self.def(body.op_name(op))
    }

    /// The hook of type `H` of operation `name`.
    pub fn hook<H: Any + Send + Sync>(&self, name: impl Into<Symbol>) -> Option<&H> {
        self.info(name)?.hook()
    }

    /// Traits of `op`; none for an unregistered one.
    pub fn traits(&self, body: &Body, op: OpId) -> Traits {
        self.def_of(body, op).map_or(Traits::empty(), |def| def.traits)
    }

    /// What running `op` may do, its regions included where they run; everything for an
    /// unregistered operation.
    pub fn effects(&self, body: &Body, op: OpId) -> Effects {
        let own = |op| self.def_of(body, op).map_or(Effects::all(), |def| def.effects);
        let mut effects = own(op);
        if !body.has_regions(op) {
            return effects;
        }
        let mut pending: SmallVec<[OpId; 8]> = SmallVec::from_slice(&[op]);
        while let Some(op) = pending.pop() {
            let traits = self.traits(body, op);
            if !body.has_regions(op) || traits.contains(Traits::DEFERRED) {
                continue;
            }
            if !traits.contains(Traits::RECURSIVE_EFFECTS) {
                return Effects::all();
            }
            for region in body.regions(op) {
                for inner in body.block_ops(body.block_of(*region)) {
                    effects |= own(inner);
                    pending.push(inner);
                }
            }
        }
        effects
    }

    /// The attribute of `value`, where a constant operation defines it.
    pub fn constant(&self, body: &Body, value: ValueId) -> Option<Attr> {
        let op = body.defining_op(value)?;
        let constant = self.traits(body, op).contains(Traits::CONSTANT);
        constant.then(|| body.attrs(op).get("value"))?
    }

    /// All dialects in order of registration.
    pub fn dialects(&self) -> impl Iterator<Item = &Dialect> {
        self.dialects.values()
    }

    /// All operations in order of registration.
    pub fn ops(&self) -> impl Iterator<Item = &OpInfo> {
        self.ops.values()
    }

    /// All kinds of items in order of registration.
    pub fn items(&self) -> impl Iterator<Item = &ItemDef> {
        self.items.values()
    }

    /// The kind of item called `name`.
    pub fn item(&self, name: impl Into<Symbol>) -> Option<&ItemDef> {
        self.items.get(&name.into())
    }

    /// All passes in order of registration.
    pub fn passes(&self) -> impl Iterator<Item = &PassDef> {
        self.passes.values()
    }

    /// All named pipelines in order of registration.
    pub fn pipelines(&self) -> impl Iterator<Item = &PipelineDef> {
        self.pipelines.values()
    }

    /// Named pipeline `name`.
    pub fn find_pipeline(&self, name: &str) -> Option<&PipelineDef> {
        self.pipelines.get(name)
    }

    /// Pass `name`.
    pub fn find_pass(&self, name: &str) -> Option<&PassDef> {
        self.passes.get(name)
    }
}

impl<const N: usize> From<[Dialect; N]> for Registry {
    /// A registry of these dialects. Panics when two have the same name.
    fn from(dialects: [Dialect; N]) -> Registry {
        let mut registry = Registry::new();
        for dialect in dialects {
            registry.add_dialect(dialect);
        }
        registry
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} ops, {} passes)", self.ops.len(), self.passes.len())
    }
}
