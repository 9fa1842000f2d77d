//! Locations of items that a module pass makes anew.
//!
//! What a pass replaces within a body is seen by the body's watch. Of a body that is new, only this
//! is known: the item had another body before, or operations elsewhere refer to it.

use rustc_hash::FxHashMap;

use crate::attributes::AttrData;
use crate::body::Body;
use crate::intern::Symbol;
use crate::location::{Loc, Span};
use crate::module::Module;

/// The most places that a new item is said to come from.
const MAX_PLACES: usize = 16;

/// Where each item comes from, by name.
pub(super) type Places = FxHashMap<Symbol, Loc>;

/// Where the items of `module` come from before a pass.
pub(super) fn places(module: &Module) -> Places {
    let bodies = module.items.iter().filter_map(|(name, item)| {
        let body = item.body.as_deref()?;
        Some((*name, of_body(body, item.signature.span)))
    });
    bodies.collect()
}

/// The places of the operations of `body`, each once.
fn of_body(body: &Body, base: Option<Span>) -> Loc {
    let mut found: Vec<Loc> = Vec::new();
    for op in body.walk() {
        let loc = body.loc(op);
        if found.len() < MAX_PLACES && loc.has_source() && !found.contains(&loc) {
            found.push(loc);
        }
    }
    Loc::fused(found.into_iter().map(|loc| loc.outside(base)))
}

/// Gives operations of `module` without a place in a source those of their item before the pass, or
/// of the operations that name it.
pub(super) fn complete(module: &mut Module, before: &Places) {
    let homeless = |body: &Body| body.walk().any(|op| !body.loc(op).has_source());
    let bodies =
        module.items.iter().filter_map(|(name, item)| Some((*name, item.body.as_deref()?)));
    let mut wanted: Places =
        bodies.filter(|(_, body)| homeless(body)).map(|(name, _)| (name, Loc::UNKNOWN)).collect();
    if wanted.is_empty() {
        return;
    }
    for item in module.items.values() {
        let Some(body) = item.body.as_deref() else { continue };
        for op in body.walk() {
            for (_, attr) in body.attrs(op).entries() {
                if let AttrData::Symbol(name) = attr.data()
                    && let Some(place) = wanted.get_mut(name)
                    && body.loc(op).has_source()
                {
                    *place = Loc::fused([*place, body.loc(op).outside(item.signature.span)]);
                }
            }
        }
    }
    for (name, place) in wanted {
        let earlier = before.get(&name).copied().filter(|place| *place != Loc::UNKNOWN);
        let place = earlier.unwrap_or(place);
        let body = module.items.get_mut(&name).and_then(|item| item.body_mut());
        let Some(body) = body.filter(|_| place != Loc::UNKNOWN) else { continue };
        for op in body.walk().collect::<Vec<_>>() {
            let loc = body.loc(op);
            if !loc.has_source() {
                body.set_loc(op, Loc::fused([place, loc]));
            }
        }
    }
}
