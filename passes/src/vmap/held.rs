//! How what differs between examples is held.

use ir_core::{Module, Symbol, Type, TypeData};
use relay::language::{AdtDecl, TYPE};
use relay_operators::batch::lead;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::specialize::types::any_part;

/// The most examples of which values are held, or something is done, one by one: operations are written for each.
pub(super) const MOST_CALLS: i64 = 65536;

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
