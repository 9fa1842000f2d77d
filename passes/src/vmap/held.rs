//! How what differs between examples is held.

use ir_core::{Body, Module, OpId, Symbol, Type, TypeData};
use relay::language::{AdtDecl, Call, Global, Operator, TYPE};
use relay_operators::batch::lead;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::gradient::callee;
use crate::specialize::types::any_part;

/// The most examples of which values are held, or something is done, one by one: operations are written for each.
pub(super) const MOST_CALLS: i64 = 65536;

/// The most examples that call what computes scalars alone one by one: moving them costs more.
pub(super) const MOST_SCALARS: i64 = 64;

/// The type of values of type `ty` for `extent` examples: tensors of known extents, and those in tuples, have a
/// leading axis; of anything else, there is a tuple with one for each example. `None` where these are too many.
// Recursion is bounded by the nesting of types.
pub(super) fn held(ty: Type, extent: i64) -> Option<Type> {
    match ty.data() {
        TypeData::Tuple(fields) => {
            let fields = fields.iter().map(|field| held(*field, extent));
            Some(Type::tuple(fields.collect::<Option<Vec<Type>>>()?))
        }
        _ if is_stacked(ty) => lead(ty, extent),
        _ => {
            let count = usize::try_from(extent).ok().filter(|_| extent <= MOST_CALLS)?;
            Some(Type::tuple(std::iter::repeat_n(ty, count)))
        }
    }
}

// Recursion is bounded by the nesting of types.
/// Whether values of type `ty` are held as tensors with a leading axis, and none of their parts one by one.
pub(super) fn is_stacked(ty: Type) -> bool {
    match ty.data() {
        TypeData::Tensor(tensor) => tensor.known_shape().is_some(),
        TypeData::Tuple(fields) => fields.iter().all(|field| is_stacked(*field)),
        _ => false,
    }
}

// Recursion is bounded by the nesting of types.
/// Whether values of type `ty` are scalars, or tuples of them.
pub(super) fn is_scalar(ty: Type) -> bool {
    match ty.data() {
        TypeData::Tensor(tensor) => tensor.rank() == 0,
        TypeData::Tuple(fields) => fields.iter().all(|field| is_scalar(*field)),
        _ => false,
    }
}

/// What takes and gives values of some types alone, functions that it calls included.
pub(super) struct Within {
    is_it: fn(Type) -> bool,
    /// The functions that hold others, or call one that does.
    others: FxHashSet<Symbol>,
}

impl Within {
    /// The functions of `module` with values of types of which `is_it` holds. Linear in it.
    pub(super) fn of(module: &Module, is_it: fn(Type) -> bool) -> Within {
        let mut callers: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut pending = vec![];
        for (name, item) in &module.items {
            let Some(body) = item.body.as_deref() else { continue };
            for op in body.walk() {
                if let Some(callee) = callee(module, body, op) {
                    callers.entry(callee).or_default().push(*name);
                }
            }
            if !body.walk().all(|op| is_alone(module, body, op, is_it)) {
                pending.push(*name);
            }
        }
        let mut others = FxHashSet::default();
        while let Some(name) = pending.pop() {
            if others.insert(name) {
                pending.extend(callers.get(&name).into_iter().flatten());
            }
        }
        Within { is_it, others }
    }

    /// Whether `op` of `body` gives, and all that is inside of it takes and gives, such values alone.
    pub(super) fn has(&self, module: &Module, body: &Body, op: OpId) -> bool {
        let blocks = body.regions(op).iter().map(|region| body.block_of(*region));
        let mut inside = blocks.flat_map(|block| body.walk_block(block));
        body.results(op).all(|result| (self.is_it)(body.ty(result)))
            && inside.all(|op| {
                is_alone(module, body, op, self.is_it)
                    && callee(module, body, op).is_none_or(|callee| !self.others.contains(&callee))
            })
    }
}

/// Whether all that `op` takes and gives is of types of which `is_it` holds, and what it calls is known.
fn is_alone(module: &Module, body: &Body, op: OpId, is_it: fn(Type) -> bool) -> bool {
    if body.is::<Global>(op) || body.is::<Operator>(op) {
        return true;
    }
    let is_called = body.is::<Call>(op);
    let mut values = body.operands(op).skip(usize::from(is_called)).chain(body.results(op));
    values.all(|value| is_it(body.ty(value))) && (!is_called || callee(module, body, op).is_some())
}

/// The data types that hold cells, themselves or in data that they hold.
pub(super) struct Cells(FxHashSet<Symbol>);

impl Cells {
    /// Those of `module`. Linear in its declarations.
    pub(super) fn of(module: &Module) -> Cells {
        let mut holders: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut pending = vec![];
        for (name, item) in module.items.iter().filter(|(_, item)| item.signature.op == TYPE) {
            let Some(declared) = AdtDecl::from_attrs(item.signature.attrs) else { continue };
            for field in declared.constructors.iter().flat_map(|c| &c.fields) {
                any_part(*field, &mut |part| {
                    match part.data() {
                        TypeData::Ref(_) => pending.push(*name),
                        TypeData::Named { name: part, .. } => {
                            holders.entry(*part).or_default().push(*name);
                        }
                        _ => {}
                    }
                    false
                });
            }
        }
        let mut found = FxHashSet::default();
        while let Some(name) = pending.pop() {
            if found.insert(name) {
                pending.extend(holders.get(&name).into_iter().flatten());
            }
        }
        Cells(found)
    }

    // Recursion is bounded by the nesting of types.
    /// Whether values of type `ty` are cells, or hold some. Functions are none: what they capture is data by now.
    pub(super) fn are_in(&self, ty: Type) -> bool {
        match ty.data() {
            TypeData::Function(_) => false,
            TypeData::Tuple(fields) => fields.iter().any(|field| self.are_in(*field)),
            _ => any_part(ty, &mut |part| match part.data() {
                TypeData::Ref(_) => true,
                TypeData::Named { name, .. } => self.0.contains(name),
                _ => false,
            }),
        }
    }
}
