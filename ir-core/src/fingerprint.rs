//! Structural fingerprints: equal for bodies that differ only in ids, locations, name hints and
//! erased rows, and the same in every process and on every machine.
//!
//! Interned data is hashed by its contents. Since it never changes, the hash of each type,
//! attribute, dictionary and symbol is computed once per process.

use std::fmt;
use std::sync::{Arc, LazyLock, RwLock};

use rustc_hash::FxHashMap;

use crate::attributes::{Attr, AttrData, AttrDict};
use crate::body::Body;
use crate::dtype::{DType, DTypeKind};
use crate::ids::{BlockId, EntityId, OpId, ValueId};
use crate::intern::Symbol;
use crate::module::{Item, Module, Signature};
use crate::types::{Dim, DimExpr, DimExprData, Type, TypeData, TypeParam};

/// A 128-bit structural hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// 32 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fingerprint of a body: operations in order, operands by the place of their definition,
/// types and attributes. Linear in the body.
pub fn fingerprint(body: &Body) -> Fingerprint {
    let mut hasher = SipHasher::new(Kind::Body);
    hash_body(body, &mut Hashes::default(), &mut hasher);
    Fingerprint(hasher.finish())
}

/// The fingerprint of a signature: kind, type and attributes, without its place.
pub fn of_signature(signature: &Signature) -> Fingerprint {
    let mut hasher = SipHasher::new(Kind::Signature);
    hash_signature(signature, &mut Hashes::default(), &mut hasher);
    Fingerprint(hasher.finish())
}

/// The fingerprint of byte strings, where each begins and ends included.
pub fn of_bytes<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> Fingerprint {
    let mut hasher = SipHasher::new(Kind::Bytes);
    parts.into_iter().for_each(|part| hasher.bytes(part));
    Fingerprint(hasher.finish())
}

/// The fingerprint of a module: its items in order, with names, signatures and bodies.
pub fn of_module(module: &Module) -> Fingerprint {
    let mut hashes = Hashes::default();
    let mut hasher = SipHasher::new(Kind::Module);
    for (name, item) in &module.items {
        hasher.wide(hashes.of(Node::Symbol(*name)));
        hash_signature(&item.signature, &mut hashes, &mut hasher);
        hasher.word(item.body.is_some().into());
        if let Some(body) = &item.body {
            hash_body(body, &mut hashes, &mut hasher);
        }
    }
    Fingerprint(hasher.finish())
}

/// Whether two items differ in places and name hints at most.
pub fn same(a: &Item, b: &Item) -> bool {
    let bodies = match (&a.body, &b.body) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || fingerprint(a) == fingerprint(b),
        (a, b) => a.is_none() && b.is_none(),
    };
    bodies && of_signature(&a.signature) == of_signature(&b.signature)
}

fn hash_signature(signature: &Signature, hashes: &mut Hashes, hasher: &mut SipHasher) {
    hasher.wide(hashes.of(Node::Symbol(signature.op)));
    hasher.wide(hashes.of(Node::Type(signature.ty)));
    hasher.wide(hashes.of(Node::Dict(signature.attrs)));
}

fn hash_body(body: &Body, hashes: &mut Hashes, hasher: &mut SipHasher) {
    const END_OF_BLOCK: u64 = u64::MAX;
    /// Operands and results are counted from where the walk meets them; a value defined outside
    /// what the walk has seen counts as this.
    const UNSEEN: u32 = u32::MAX;

    let mut numbers = vec![UNSEEN; body.value_capacity()];
    let mut next = 0;
    let mut number = |value: ValueId, numbers: &mut [u32]| {
        numbers[value.index()] = next;
        next += 1;
    };
    enum Step {
        Enter(BlockId),
        Op(Option<OpId>),
    }
    let mut pending = vec![Step::Enter(body.entry())];
    while let Some(step) = pending.pop() {
        match step {
            Step::Enter(block) => {
                let args = body.block_args(block);
                hasher.word(args.len() as u64);
                for &arg in args {
                    number(arg, &mut numbers);
                    hasher.wide(hashes.of(Node::Type(body.ty(arg))));
                }
                pending.push(Step::Op(body.first_op(block)));
            }
            Step::Op(None) => hasher.word(END_OF_BLOCK),
            Step::Op(Some(op)) => {
                let regions = body.regions(op);
                hasher.wide(hashes.of(Node::Symbol(body.op_name(op))));
                hasher.wide(hashes.of(Node::Dict(body.attrs(op))));
                hasher.word((body.operand_count(op) as u64) << 8 | body.result_count(op) as u64);
                hasher.word(regions.len() as u64);
                for operand in body.operands(op) {
                    hasher.word(numbers[operand.index()].into());
                }
                for result in body.results(op) {
                    number(result, &mut numbers);
                    hasher.wide(hashes.of(Node::Type(body.ty(result))));
                }
                pending.push(Step::Op(body.next_op(op)));
                let blocks = regions.iter().rev().map(|region| body.block_of(*region));
                pending.extend(blocks.map(Step::Enter));
            }
        }
    }
}

/// The fingerprint of an operation's name, attributes and result types, given one number per
/// operand: for value numbering, where equal operands have equal numbers.
pub fn of_op(body: &Body, op: OpId, mut operand: impl FnMut(ValueId) -> u64) -> Fingerprint {
    let mut hashes = Hashes::default();
    let mut hasher = SipHasher::new(Kind::Op);
    hasher.wide(hashes.of(Node::Symbol(body.op_name(op))));
    hasher.wide(hashes.of(Node::Dict(body.attrs(op))));
    hasher.word(body.operand_count(op) as u64);
    body.operands(op).for_each(|value| hasher.word(operand(value)));
    body.results(op).for_each(|result| hasher.wide(hashes.of(Node::Type(body.ty(result)))));
    Fingerprint(hasher.finish())
}

/// Interned data with a hash of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    Symbol(Symbol),
    Type(Type),
    Dim(DimExpr),
    Attr(Attr),
    Dict(AttrDict),
}

/// A piece of the contents of a node.
enum Part {
    Word(u64),
    Node(Node),
}

/// Hashes known to the whole process.
static SHARED: LazyLock<RwLock<FxHashMap<Node, u128>>> = LazyLock::new(RwLock::default);

/// Hashes met by one computation, in front of the shared ones.
#[derive(Default)]
struct Hashes {
    seen: FxHashMap<Node, u128>,
    parts: Vec<Part>,
}

impl Hashes {
    fn of(&mut self, node: Node) -> u128 {
        match self.known(node) {
            Some(hash) => hash,
            None => self.compute(node),
        }
    }

    fn known(&mut self, node: Node) -> Option<u128> {
        if let Some(hash) = self.seen.get(&node) {
            return Some(*hash);
        }
        // A poisoned lock still guards a usable table: every insertion is one step.
        let hash = *SHARED.read().unwrap_or_else(|e| e.into_inner()).get(&node)?;
        self.seen.insert(node, hash);
        Some(hash)
    }

    /// Hashes what `root` is made of, innermost first.
    fn compute(&mut self, root: Node) -> u128 {
        let mut pending = vec![root];
        let mut result = 0;
        while let Some(&node) = pending.last() {
            let mut hasher = SipHasher::new(Kind::of(node));
            let mut parts = std::mem::take(&mut self.parts);
            parts.clear();
            list_parts(node, &mut parts, &mut hasher);
            let before = pending.len();
            for part in &parts {
                match part {
                    Part::Word(word) => hasher.word(*word),
                    Part::Node(inner) => match self.known(*inner) {
                        Some(hash) => hasher.wide(hash),
                        None => pending.push(*inner),
                    },
                }
            }
            self.parts = parts;
            if pending.len() == before {
                result = hasher.finish();
                self.seen.insert(node, result);
                SHARED.write().unwrap_or_else(|e| e.into_inner()).insert(node, result);
                pending.pop();
            }
        }
        result
    }
}

fn list_parts(node: Node, parts: &mut Vec<Part>, hasher: &mut SipHasher) {
    use Part::Word;
    let count = |n: usize| Word(n as u64);
    let symbol = |name: Symbol| Part::Node(Node::Symbol(name));
    let ty = |ty: Type| Part::Node(Node::Type(ty));
    match node {
        Node::Symbol(name) => hasher.bytes(name.as_str().as_bytes()),
        Node::Type(this) => match this.data() {
            TypeData::Unknown => parts.push(Word(0)),
            TypeData::Variable(index) => parts.extend([Word(1), Word((*index).into())]),
            TypeData::Tensor(tensor) => {
                parts.extend([Word(2), count(tensor.shape.len())]);
                tensor.shape.iter().for_each(|d| push_dim(*d, parts));
                parts.push(Word(dtype_word(tensor.dtype)));
            }
            TypeData::Tuple(fields) => {
                parts.extend([Word(3), count(fields.len())]);
                parts.extend(fields.iter().copied().map(ty));
            }
            TypeData::Function(f) => {
                parts.extend([Word(4), count(f.type_params.len()), count(f.params.len())]);
                parts.extend(f.type_params.iter().copied().map(symbol));
                parts.extend(f.params.iter().copied().map(ty));
                parts.push(ty(f.result));
            }
            TypeData::Parameter(name) => parts.extend([Word(5), symbol(*name)]),
            TypeData::Ref(inner) => parts.extend([Word(6), ty(*inner)]),
            TypeData::Named { name, params } => {
                parts.extend([Word(7), symbol(*name), count(params.len())]);
                for param in params {
                    match *param {
                        TypeParam::Type(inner) => parts.extend([Word(0), ty(inner)]),
                        TypeParam::Symbol(name) => parts.extend([Word(1), symbol(name)]),
                        TypeParam::Int(value) => parts.extend([Word(2), Word(value as u64)]),
                        TypeParam::Dim(dim) => {
                            parts.push(Word(3));
                            push_dim(dim, parts);
                        }
                        TypeParam::DType(dtype) => {
                            parts.extend([Word(4), Word(dtype_word(dtype))]);
                        }
                    }
                }
            }
        },
        Node::Dim(expr) => match expr.data() {
            DimExprData::Parameter(name) => parts.extend([Word(0), symbol(name)]),
            DimExprData::Variable(index) => parts.extend([Word(1), Word(index.into())]),
            DimExprData::Binary(op, a, b) => {
                parts.extend([Word(2), Word(op as u64)]);
                push_dim(a, parts);
                push_dim(b, parts);
            }
        },
        Node::Attr(attr) => match attr.data() {
            AttrData::None => parts.push(Word(0)),
            AttrData::Bool(value) => parts.extend([Word(1), Word((*value).into())]),
            AttrData::Int(value) => parts.extend([Word(2), Word(*value as u64)]),
            AttrData::Float(value) => parts.extend([Word(3), Word(value.0.to_bits())]),
            AttrData::String(text) => {
                hasher.bytes(text.as_bytes());
                parts.push(Word(4));
            }
            AttrData::Symbol(name) => parts.extend([Word(5), symbol(*name)]),
            AttrData::Type(inner) => parts.extend([Word(6), ty(*inner)]),
            AttrData::DType(dtype) => parts.extend([Word(7), Word(dtype_word(*dtype))]),
            AttrData::Array(items) => {
                parts.extend([Word(8), count(items.len())]);
                parts.extend(items.iter().map(|item| Part::Node(Node::Attr(*item))));
            }
            AttrData::Dict(dict) => parts.extend([Word(9), Part::Node(Node::Dict(*dict))]),
            AttrData::Tensor(tensor) => {
                hasher.bytes(&tensor.little_endian_bytes());
                parts.extend([Word(10), Word(dtype_word(tensor.dtype())), count(tensor.rank())]);
                parts.extend(tensor.shape().iter().map(|extent| Word(*extent as u64)));
            }
        },
        Node::Dict(dict) => {
            parts.push(count(dict.entries().len()));
            for (key, attr) in dict.entries() {
                parts.extend([symbol(*key), Part::Node(Node::Attr(*attr))]);
            }
        }
    }
}

fn push_dim(dim: Dim, parts: &mut Vec<Part>) {
    match dim {
        Dim::Known(n) => parts.extend([Part::Word(0), Part::Word(n as u64)]),
        Dim::Any => parts.push(Part::Word(1)),
        Dim::Expr(expr) => parts.extend([Part::Word(2), Part::Node(Node::Dim(expr))]),
    }
}

fn dtype_word(dtype: DType) -> u64 {
    let kind = match dtype.kind() {
        DTypeKind::Int => 0,
        DTypeKind::UInt => 1,
        DTypeKind::Float => 2,
        DTypeKind::BFloat => 3,
        DTypeKind::Small(format) => 4 + format as u64,
    };
    kind << 48 | u64::from(dtype.bits()) << 32 | u64::from(dtype.lanes())
}

/// What a hash is of: things of different kinds never share a hash by construction.
#[derive(Clone, Copy)]
enum Kind {
    Body,
    Signature,
    Module,
    Op,
    Symbol,
    Type,
    Dim,
    Attr,
    Dict,
    Bytes,
}

impl Kind {
    fn of(node: Node) -> Kind {
        match node {
            Node::Symbol(_) => Kind::Symbol,
            Node::Type(_) => Kind::Type,
            Node::Dim(_) => Kind::Dim,
            Node::Attr(_) => Kind::Attr,
            Node::Dict(_) => Kind::Dict,
        }
    }
}

/// SipHash-1-3 with a 128-bit result over 64-bit words (Aumasson and Bernstein, "SipHash: a fast
/// short-input PRF", 2012), keyed with the kind of what is hashed.
struct SipHasher {
    v: [u64; 4],
    words: u64,
}

impl SipHasher {
    fn new(kind: Kind) -> SipHasher {
        let key = kind as u64;
        SipHasher {
            v: [
                0x736f_6d65_7073_6575 ^ key,
                0x646f_7261_6e64_6f6d ^ 0xee,
                0x6c79_6765_6e65_7261 ^ key,
                0x7465_6462_7974_6573,
            ],
            words: 0,
        }
    }

    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.v;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        self.v = [v0, v1, v2, v3];
    }

    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        self.round();
        self.v[0] ^= word;
        self.words += 1;
    }

    fn wide(&mut self, hash: u128) {
        self.word(hash as u64);
        self.word((hash >> 64) as u64);
    }

    /// The length, then the bytes, the last word padded with zeros.
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn finish(mut self) -> u128 {
        self.word(self.words << 56);
        let mut half = |salt: u64| {
            let [_, v1, v2, _] = &mut self.v;
            if salt == 0xee {
                *v2 ^= salt
            } else {
                *v1 ^= salt
            }
            (0..3).for_each(|_| self.round());
            self.v.iter().fold(0, |all, v| all ^ v)
        };
        let low = half(0xee);
        u128::from(half(0xdd)) << 64 | u128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::AttrValue;
    use crate::body::{InsertPoint, NameHint, OpParts};
    use crate::location::Loc;
    use crate::tensor::TensorData;

    fn chain(scale: f64, detour: bool) -> Body {
        let mut body = Body::new();
        let entry = body.entry();
        let ty = Type::tensor([2, 3], DType::FLOAT32);
        let x = body.add_block_arg(entry, ty);
        let end = InsertPoint::End(entry);
        if detour {
            let extra = body.insert_op(end, OpParts::new("t.extra", &[x], &[ty]));
            body.erase(extra);
        }
        let attrs = AttrDict::empty().with("scale", &scale).with("list", &vec![1i64, 2]);
        let loc = if detour { Loc::offset(7) } else { Loc::UNKNOWN };
        let op = body.insert_op(end, OpParts::new("t.scale", &[x], &[ty]).attrs(attrs).at(loc));
        let y = body.result(op, 0);
        if detour {
            body.set_name_hint(y, NameHint { name: Some("y".into()), ..NameHint::default() });
        }
        body.insert_op(end, OpParts::new("t.end", &[y], &[]));
        body
    }

    #[test]
    fn only_structure_counts() {
        assert_eq!(fingerprint(&chain(1.0, false)), fingerprint(&chain(1.0, true)));
        assert_ne!(fingerprint(&chain(1.0, false)), fingerprint(&chain(1.5, false)));
        assert_ne!(fingerprint(&chain(0.0, false)), fingerprint(&chain(-0.0, false)));
    }

    #[test]
    fn every_change_counts() {
        let base = chain(1.0, false);
        let entry = base.entry();
        let last = base.last_op(entry).unwrap();
        let mut changed: Vec<Fingerprint> = vec![fingerprint(&base)];
        let mut check = |edit: &dyn Fn(&mut Body)| {
            let mut body = base.clone();
            edit(&mut body);
            changed.push(fingerprint(&body));
        };
        check(&|body| body.set_operand(last, 0, body.block_args(entry)[0]));
        check(&|body| body.set_ty(body.block_args(entry)[0], Type::unit()));
        check(&|body| body.set_attrs(last, AttrDict::empty().with("a", &true)));
        check(&|body| body.erase(last));
        check(&|body| {
            body.add_region(last);
        });
        check(&|body| {
            body.add_block_arg(entry, Type::unit());
        });
        let distinct: rustc_hash::FxHashSet<Fingerprint> = changed.iter().copied().collect();
        assert_eq!(distinct.len(), changed.len());
    }

    #[test]
    fn fingerprints_are_the_same_in_every_process() {
        // Interned before the body's own symbols, so that ids differ from a fresh process.
        let _ = Symbol::new("shifts ids");
        assert_eq!(fingerprint(&chain(1.0, false)).to_string(), "ea364e6c8e32227c6912d1be2f0ab728");
        let tensor = TensorData::from_i64(DType::INT16, &[2], &[1, 258]).unwrap();
        let hash = Hashes::default().of(Node::Attr(tensor.to_attr()));
        assert_eq!(Fingerprint(hash).to_string(), "91281aee67d15feb36a5e8a7e2575386");
    }
}
