//! Attributes: interned compile-time data of operations.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::LazyLock;

use hashbrown::Equivalent;
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::intern::{Interner, Symbol};
use crate::tensor::TensorData;
use crate::types::Type;

/// An interned attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attr(NonZeroU32);

/// What an attribute is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AttrData {
    /// `None`: present, without a value.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(Float),
    /// A string.
    String(Box<str>),
    /// A reference to a module item, `@name`.
    Symbol(Symbol),
    /// A type.
    Type(Type),
    /// An element type.
    DType(DType),
    /// A list.
    Array(Box<[Attr]>),
    /// A nested dictionary.
    Dict(AttrDict),
    /// A constant tensor.
    Tensor(TensorData),
}

/// An `f64` compared by its bits, so that NaN equals itself.
#[derive(Clone, Copy)]
pub struct Float(pub f64);

impl PartialEq for Float {
    fn eq(&self, other: &Float) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl std::hash::Hash for Float {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

struct Key<'a, T: ?Sized>(&'a T);

impl<T: std::hash::Hash + ?Sized> std::hash::Hash for Key<'_, T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<AttrData> for Key<'_, AttrData> {
    fn equivalent(&self, data: &AttrData) -> bool {
        self.0 == data
    }
}

impl Equivalent<Box<[(Symbol, Attr)]>> for Key<'_, [(Symbol, Attr)]> {
    fn equivalent(&self, entries: &Box<[(Symbol, Attr)]>) -> bool {
        *self.0 == **entries
    }
}

static ATTRS: LazyLock<Interner<AttrData>> = LazyLock::new(Interner::new);
static DICTS: LazyLock<Interner<Box<[(Symbol, Attr)]>>> = LazyLock::new(Interner::new);
static EMPTY: LazyLock<AttrDict> = LazyLock::new(|| AttrDict::from_sorted(&[]));

impl Attr {
    /// The interned attribute.
    pub fn new(data: AttrData) -> Attr {
        Attr(ATTRS.intern(&Key(&data), || data.clone()))
    }

    /// The attribute of a Rust value.
    pub fn of<T: AttrValue>(value: &T) -> Attr {
        value.to_attr()
    }

    /// What this attribute is.
    pub fn data(self) -> &'static AttrData {
        ATTRS.value(self.0)
    }
}

impl fmt::Debug for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.data(), f)
    }
}

/// An interned attribute dictionary, sorted by key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttrDict(NonZeroU32);

impl AttrDict {
    /// The dictionary without entries.
    pub fn empty() -> AttrDict {
        *EMPTY
    }

    /// The dictionary of `entries`; of equal keys the last wins.
    pub fn new(entries: impl IntoIterator<Item = (Symbol, Attr)>) -> AttrDict {
        let mut entries: SmallVec<[(Symbol, Attr); 8]> = entries.into_iter().collect();
        if entries.is_empty() {
            return AttrDict::empty();
        }
        entries.sort_by_key(|entry| entry.0);
        // `dedup_by` drops the later of two equal keys, so keep the last one by copying it down.
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        AttrDict::from_sorted(&entries)
    }

    fn from_sorted(entries: &[(Symbol, Attr)]) -> AttrDict {
        AttrDict(DICTS.intern(&Key(entries), || entries.into()))
    }

    /// The entries, sorted by key.
    pub fn entries(self) -> &'static [(Symbol, Attr)] {
        DICTS.value(self.0)
    }

    /// Whether there are no entries.
    pub fn is_empty(self) -> bool {
        self == AttrDict::empty()
    }

    /// The attribute under `key`.
    pub fn get(self, key: impl Into<Symbol>) -> Option<Attr> {
        let key = key.into();
        self.entries().iter().find(|entry| entry.0 == key).map(|entry| entry.1)
    }

    /// The value under `key`, where it is there and of type `T`.
    pub fn value<T: AttrValue>(self, key: impl Into<Symbol>) -> Option<T> {
        T::from_attr(self.get(key)?)
    }

    /// This dictionary with `key` set to `value`.
    pub fn with(self, key: impl Into<Symbol>, value: &impl AttrValue) -> AttrDict {
        let entry = (key.into(), value.to_attr());
        AttrDict::new(self.entries().iter().copied().chain([entry]))
    }

    /// This dictionary without `key`.
    pub fn without(self, key: impl Into<Symbol>) -> AttrDict {
        let key = key.into();
        AttrDict::new(self.entries().iter().copied().filter(|entry| entry.0 != key))
    }
}

impl fmt::Debug for AttrDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries().iter().map(|(k, v)| (k, v))).finish()
    }
}

/// A Rust type that an attribute field may have. The conversion decides what the parser, the
/// verifier and the generated documentation accept.
pub trait AttrValue: Sized {
    /// What the field takes, for messages and docs: `an integer`, `a list of integers`.
    const EXPECTS: &'static str;
    /// The value of `attr`, where it has this type.
    fn from_attr(attr: Attr) -> Option<Self>;
    /// The attribute of this value.
    fn to_attr(&self) -> Attr;
    /// Whether `attr` stands for no value of this type.
    fn is_absent(attr: Attr) -> bool {
        matches!(attr.data(), AttrData::None)
    }
}

/// Any attribute.
impl AttrValue for Attr {
    const EXPECTS: &'static str = "any attribute";
    fn from_attr(attr: Attr) -> Option<Self> {
        Some(attr)
    }
    fn to_attr(&self) -> Attr {
        *self
    }
}

impl AttrValue for bool {
    const EXPECTS: &'static str = "True or False";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Bool(value) => Some(*value),
            AttrData::Int(value @ (0 | 1)) => Some(*value == 1),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Bool(*self))
    }
}

impl AttrValue for i64 {
    const EXPECTS: &'static str = "an integer";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Int(value) => Some(*value),
            AttrData::Bool(value) => Some((*value).into()),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Int(*self))
    }
}

impl AttrValue for f64 {
    const EXPECTS: &'static str = "a number";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Float(value) => Some(value.0),
            AttrData::Int(value) => Some(*value as f64),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Float(Float(*self)))
    }
}

impl AttrValue for String {
    const EXPECTS: &'static str = "a string";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::String(value) => Some(value.to_string()),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::String(self.as_str().into()))
    }
}

impl AttrValue for Symbol {
    const EXPECTS: &'static str = "a reference such as @main";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Symbol(value) => Some(*value),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Symbol(*self))
    }
}

impl AttrValue for Type {
    const EXPECTS: &'static str = "a type";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Type(value) => Some(*value),
            AttrData::DType(value) => Some(Type::scalar(*value)),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Type(*self))
    }
}

/// An element type; a string such as `"float32"` is read as one.
impl AttrValue for DType {
    const EXPECTS: &'static str = "an element type such as \"float32\"";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::DType(value) => Some(*value),
            AttrData::String(text) => text.parse().ok(),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::DType(*self))
    }
    /// The empty name is that of no element type.
    fn is_absent(attr: Attr) -> bool {
        match attr.data() {
            AttrData::None => true,
            AttrData::String(text) => text.is_empty(),
            _ => false,
        }
    }
}

impl AttrValue for TensorData {
    const EXPECTS: &'static str = "a constant tensor";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Tensor(value) => Some(value.clone()),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Tensor(self.clone()))
    }
}

impl AttrValue for AttrDict {
    const EXPECTS: &'static str = "a dictionary";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Dict(value) => Some(*value),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Dict(*self))
    }
}

/// A list.
impl<T: AttrValue> AttrValue for Vec<T> {
    const EXPECTS: &'static str = "a list";
    fn from_attr(attr: Attr) -> Option<Self> {
        match attr.data() {
            AttrData::Array(items) => items.iter().map(|&item| T::from_attr(item)).collect(),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::new(AttrData::Array(self.iter().map(T::to_attr).collect()))
    }
}

/// `None` or a value.
impl<T: AttrValue> AttrValue for Option<T> {
    const EXPECTS: &'static str = T::EXPECTS;
    fn from_attr(attr: Attr) -> Option<Self> {
        if T::is_absent(attr) { Some(None) } else { T::from_attr(attr).map(Some) }
    }
    fn to_attr(&self) -> Attr {
        match self {
            Some(value) => value.to_attr(),
            None => Attr::new(AttrData::None),
        }
    }
}
